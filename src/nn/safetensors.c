/*
 * safetensors.c - the reader: parse the header, check every promise it makes, hand out views.
 *
 * Order of checks: lengths, JSON, each tensor on its own (dtype, shape, offsets, size), then all of
 * them together: sorted by offset they must cover the data without overlap or hole.
 */
#include "nn/safetensors_internal.h"

#include "base/file.h"
#include "base/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the format is little-endian, and its numbers are used where they lie");

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [AW_DTYPE_F32] = {"F32", 4},
    [AW_DTYPE_F64] = {"F64", 8},
    [AW_DTYPE_I64] = {"I64", 8},
    [AW_DTYPE_U8] = {"U8", 1},
};
enum { DTYPE_COUNT = sizeof(dtypes) / sizeof(dtypes[0]) };

const char *aw_dtype_name(enum aw_dtype dtype)
{
    AW_ASSERT((unsigned)dtype < DTYPE_COUNT);
    return dtypes[dtype].name;
}

size_t aw_dtype_size(enum aw_dtype dtype)
{
    AW_ASSERT((unsigned)dtype < DTYPE_COUNT);
    return dtypes[dtype].size;
}

bool aw__safetensors_bytes(enum aw_dtype dtype, uint32_t rank, const uint64_t *shape,
                           size_t *ret_bytes)
{
    size_t bytes = aw_dtype_size(dtype);
    if (rank > AW_SAFETENSORS_RANK_MAX)
        return false;
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, shape[i], &bytes))
            return false;
    if (bytes > AW_SAFETENSORS_FILE_BYTES_MAX)
        return false;
    *ret_bytes = bytes;
    return true;
}

static bool finite_f64(const double *value, size_t count)
{
    const uint64_t exponent = 0x7ff0000000000000u;
    uint64_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &value[i], sizeof(bits));
        bad |= (bits & exponent) == exponent;
    }
    return !bad;
}

enum aw_err aw__safetensors_check_finite(const char *file_name, const char *tensor_name,
                                         enum aw_dtype dtype, const void *data, size_t bytes,
                                         struct aw_diag *diag)
{
    size_t count = bytes / aw_dtype_size(dtype), at = 0;
    const char *what = "NaN";
    if (dtype == AW_DTYPE_F32) {
        const float *value = data;
        if (aw_params_finite(value, count))
            return AW_OK;
        while (aw_params_finite(&value[at], 1))
            at++;
        what = value[at] != value[at] ? "NaN" : value[at] > 0 ? "infinity" : "-infinity";
    } else if (dtype == AW_DTYPE_F64) {
        const double *value = data;
        if (finite_f64(value, count))
            return AW_OK;
        while (finite_f64(&value[at], 1))
            at++;
        what = value[at] != value[at] ? "NaN" : value[at] > 0 ? "infinity" : "-infinity";
    } else {
        return AW_OK;
    }
    return aw_fail_at(diag, AW_ERR_DIVERGED, file_name, 0, 0, tensor_name,
                      "element %zu of %zu is %s; all must be finite", at, count, what);
}

/* A view with its place in the file's data. */
struct entry {
    struct aw_tensor_view view;
    uint64_t begin, end; /* bytes from the start of the data */
};

struct aw_safetensors {
    const struct aw_alloc *alloc;
    char file_name[AW_DIAG_FILE_MAX];
    json_t *root;  /* owns names and metadata */
    json_t *meta;  /* inside root; NULL: none */
    char *bytes;   /* the whole file when we read it; NULL: the caller's */
    void *aligned; /* a copy of the data when it lay askew in the file; else NULL */
    uint32_t count;
    struct entry entry[]; /* in the order of their bytes */
};

/* "[2, 3]", for diagnostics; [] for a scalar. */
#define SHAPE_TEXT_MAX 192
static const char *shape_text(uint32_t rank, const uint64_t *shape, char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    aw_text_add(&text, "[");
    for (uint32_t i = 0; i < rank; i++)
        aw_text_add(&text, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
    aw_text_add(&text, "]");
    return buf;
}

/* ---- the header ---- */

/* Both lengths before anything is believed. `ret_data` is the offset of the first data byte. */
static enum aw_err check_lengths(const unsigned char *bytes, size_t size, const char *name,
                                 size_t *ret_data, struct aw_diag *diag)
{
    uint64_t header_size;
    if (size < sizeof(header_size))
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL,
                          "the file is truncated: it has %zu bytes, and the length of the header "
                          "alone takes 8",
                          size);
    memcpy(&header_size, bytes, sizeof(header_size));
    if (header_size > AW_SAFETENSORS_HEADER_BYTES_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, name, 0, 0, NULL,
                          "the header claims %llu bytes, and the format allows %u",
                          (unsigned long long)header_size, AW_SAFETENSORS_HEADER_BYTES_MAX);
    if (header_size > size - sizeof(header_size))
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL,
                          "the file is truncated: the header claims %llu bytes, and %zu follow",
                          (unsigned long long)header_size, size - sizeof(header_size));
    if (header_size == 0 || bytes[sizeof(header_size)] != '{')
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL,
                          "the header is not a JSON object: it must begin with '{'");
    *ret_data = sizeof(header_size) + (size_t)header_size;
    return AW_OK;
}

static enum aw_err parse_json(const char *text, size_t size, const char *name, json_t **ret_root,
                              struct aw_diag *diag)
{
    json_error_t error;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (root) {
        *ret_root = root;
        return AW_OK;
    }
    if (json_error_code(&error) == json_error_out_of_memory)
        return aw_fail_at(diag, AW_ERR_NOMEM, name, 0, 0, NULL, "out of memory for the header");
    /* the library's text cites the input, which may hold anything */
    char quoted[AW_TEXT_QUOTE_MAX];
    aw_text_quote(error.text, strlen(error.text), quoted, sizeof(quoted));
    if (json_error_code(&error) == json_error_duplicate_key)
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL,
                          "the header holds the same key twice (at byte %d: %s)", error.position,
                          quoted);
    return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL,
                      "the header is not valid JSON (at byte %d: %s)", error.position, quoted);
}

static enum aw_err check_meta(json_t *meta, const char *name, struct aw_diag *diag)
{
    if (!json_is_object(meta))
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, AW__SAFETENSORS_META,
                          "expected an object of strings, found another type");
    if (json_object_size(meta) > AW_SAFETENSORS_META_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, name, 0, 0, AW__SAFETENSORS_META,
                          "%zu entries are more than the limit of %u", json_object_size(meta),
                          AW_SAFETENSORS_META_MAX);
    const char *key;
    json_t *value;
    json_object_foreach(meta, key, value)
    {
        char quoted[AW_TEXT_QUOTE_MAX];
        if (!json_is_string(value))
            return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, AW__SAFETENSORS_META,
                              "the value of %s is not a string",
                              aw_text_quote(key, strlen(key), quoted, sizeof(quoted)));
    }
    return AW_OK;
}

/* ---- one tensor ---- */

/* Whole numbers from 0; false for anything else. */
static bool read_sizes(const json_t *array, uint64_t *out)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *number = json_array_get(array, i);
        if (!json_is_integer(number) || json_integer_value(number) < 0)
            return false;
        out[i] = (uint64_t)json_integer_value(number);
    }
    return true;
}

static enum aw_err read_dtype(const json_t *value, const char *name, struct aw_tensor_view *view,
                              struct aw_diag *diag)
{
    if (!json_is_string(value))
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, view->name,
                          "\"dtype\" is missing or not a string");
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, json_string_value(value)) == 0) {
            view->dtype = (enum aw_dtype)i;
            return AW_OK;
        }
    }
    char quoted[AW_TEXT_QUOTE_MAX];
    return aw_fail_at(
        diag, AW_ERR_FORMAT, name, 0, 0, view->name,
        "unknown dtype %s; known are F32, F64, I64 and U8",
        aw_text_quote(json_string_value(value), json_string_length(value), quoted, sizeof(quoted)));
}

static enum aw_err read_shape(const json_t *value, const char *name, struct aw_tensor_view *view,
                              struct aw_diag *diag)
{
    if (!json_is_array(value))
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, view->name,
                          "\"shape\" is missing or not an array");
    if (json_array_size(value) > AW_SAFETENSORS_RANK_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, name, 0, 0, view->name,
                          "the shape has %zu dimensions, and the limit is %u",
                          json_array_size(value), AW_SAFETENSORS_RANK_MAX);
    view->rank = (uint32_t)json_array_size(value);
    if (!read_sizes(value, view->shape))
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, view->name,
                          "\"shape\" must hold whole numbers that are not negative");
    return AW_OK;
}

static enum aw_err read_offsets(const json_t *value, uint64_t data_size, const char *name,
                                struct entry *entry, struct aw_diag *diag)
{
    uint64_t offset[2];
    if (!json_is_array(value) || json_array_size(value) != 2 || !read_sizes(value, offset))
        return aw_fail_at(
            diag, AW_ERR_FORMAT, name, 0, 0, entry->view.name,
            "\"data_offsets\" must be two whole numbers that are not negative, begin and end");
    if (offset[0] > offset[1])
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, entry->view.name,
                          "the data begins at %llu and ends before that, at %llu",
                          (unsigned long long)offset[0], (unsigned long long)offset[1]);
    if (offset[1] > data_size)
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, entry->view.name,
                          "the data ends at byte %llu, beyond the %llu bytes that the file has for "
                          "data: it is truncated",
                          (unsigned long long)offset[1], (unsigned long long)data_size);
    entry->begin = offset[0];
    entry->end = offset[1];
    return AW_OK;
}

static enum aw_err read_tensor(const char *key, json_t *info, uint64_t data_size, const char *name,
                               struct entry *entry, struct aw_diag *diag)
{
    struct aw_tensor_view *view = &entry->view;
    view->name = key;
    size_t key_len = strlen(key);
    char quoted[AW_TEXT_QUOTE_MAX];
    if (key_len >= AW_SAFETENSORS_NAME_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, name, 0, 0, NULL,
                          "the tensor name %s has %zu bytes, and the limit is %u",
                          aw_text_quote(key, key_len, quoted, sizeof(quoted)), key_len,
                          AW_SAFETENSORS_NAME_MAX - 1);
    /* from here on the name goes into diagnostics as it is, and from there to a terminal */
    for (const char *c = key; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL,
                              "the tensor name %s holds a control character",
                              aw_text_quote(key, key_len, quoted, sizeof(quoted)));
    if (!json_is_object(info))
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, key,
                          "expected an object with dtype, shape and data_offsets");

    enum aw_err err = read_dtype(json_object_get(info, "dtype"), name, view, diag);
    if (!err)
        err = read_shape(json_object_get(info, "shape"), name, view, diag);
    if (!err)
        err = read_offsets(json_object_get(info, "data_offsets"), data_size, name, entry, diag);
    if (err)
        return err;
    if (json_object_size(info) != 3)
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, key,
                          "holds other keys than dtype, shape and data_offsets");

    char shape[SHAPE_TEXT_MAX];
    if (!aw__safetensors_bytes(view->dtype, view->rank, view->shape, &view->bytes))
        return aw_fail_at(diag, AW_ERR_LIMIT, name, 0, 0, key,
                          "the shape %s has more elements than any file could hold",
                          shape_text(view->rank, view->shape, shape, sizeof(shape)));
    if (view->bytes != entry->end - entry->begin)
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, key,
                          "the shape %s of %s takes %zu bytes, and the offsets give it %llu",
                          shape_text(view->rank, view->shape, shape, sizeof(shape)),
                          aw_dtype_name(view->dtype), view->bytes,
                          (unsigned long long)(entry->end - entry->begin));
    return AW_OK;
}

/* ---- all tensors together ---- */

static int by_place(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return strcmp(a->view.name, b->view.name); /* empty ones share a place */
}

static enum aw_err check_cover(const struct aw_safetensors *file, uint64_t data_size,
                               struct aw_diag *diag)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < file->count; i++) {
        const struct entry *entry = &file->entry[i];
        if (entry->begin < end) {
            const char *before = file->entry[i - 1].view.name;
            char quoted[AW_TEXT_QUOTE_MAX];
            return aw_fail_at(diag, AW_ERR_FORMAT, file->file_name, 0, 0, entry->view.name,
                              "the data begins at byte %llu and overlaps that of %s, which ends at "
                              "%llu",
                              (unsigned long long)entry->begin,
                              aw_text_quote(before, strlen(before), quoted, sizeof(quoted)),
                              (unsigned long long)end);
        }
        if (entry->begin > end)
            return aw_fail_at(diag, AW_ERR_FORMAT, file->file_name, 0, 0, entry->view.name,
                              "the data begins at byte %llu and leaves a hole: the bytes from %llu "
                              "belong to no tensor",
                              (unsigned long long)entry->begin, (unsigned long long)end);
        end = entry->end;
    }
    if (end != data_size)
        return aw_fail_at(diag, AW_ERR_FORMAT, file->file_name, 0, 0, NULL,
                          "the last tensor ends at byte %llu, and %llu bytes after it belong to no "
                          "tensor",
                          (unsigned long long)end, (unsigned long long)(data_size - end));
    return AW_OK;
}

/* Points the views at the data, or at an aligned copy of it where any of them lies askew: other
 * writers need not pad their header, nor sort by alignment. */
static enum aw_err place_views(struct aw_safetensors *file, const unsigned char *data,
                               struct aw_diag *diag)
{
    bool askew = false;
    for (uint32_t i = 0; i < file->count; i++) {
        struct entry *entry = &file->entry[i];
        entry->view.data = data + entry->begin;
        askew |= (uintptr_t)entry->view.data % aw_dtype_size(entry->view.dtype) != 0;
    }
    if (!askew)
        return AW_OK;

    struct aw_carve carve = {0};
    for (uint32_t i = 0; i < file->count; i++)
        aw_carve_take(&carve, file->entry[i].view.bytes, 1);
    file->aligned = aw_alloc_new(file->alloc, carve.used, 1);
    if (!file->aligned)
        return aw_fail_at(diag, AW_ERR_NOMEM, file->file_name, 0, 0, NULL,
                          "out of memory for the %zu bytes of its data", carve.used);
    carve = (struct aw_carve){.base = file->aligned};
    for (uint32_t i = 0; i < file->count; i++) {
        struct aw_tensor_view *view = &file->entry[i].view;
        void *copy = aw_carve_take(&carve, view->bytes, 1);
        memcpy(copy, view->data, view->bytes);
        view->data = copy;
    }
    return AW_OK;
}

enum aw_err aw_safetensors_parse(const void *bytes, size_t size, const char *name,
                                 const struct aw_alloc *alloc, struct aw_safetensors **ret_file,
                                 struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    json_t *root = NULL;
    size_t data_start = 0;
    enum aw_err err = check_lengths(bytes, size, name, &data_start, diag);
    if (err)
        return err;
    const uint64_t data_size = size - data_start;
    err = parse_json((const char *)bytes + sizeof(uint64_t), data_start - sizeof(uint64_t), name,
                     &root, diag);
    if (err)
        goto out;

    json_t *meta = json_object_get(root, AW__SAFETENSORS_META);
    size_t count = json_object_size(root) - (meta != NULL);
    if (meta && (err = check_meta(meta, name, diag)))
        goto out;
    if (count > AW_SAFETENSORS_TENSORS_MAX) {
        err = aw_fail_at(diag, AW_ERR_LIMIT, name, 0, 0, NULL,
                         "%zu tensors are more than the limit of %u", count,
                         AW_SAFETENSORS_TENSORS_MAX);
        goto out;
    }

    file = aw_alloc_new(alloc, 1, sizeof(*file) + count * sizeof(file->entry[0]));
    if (!file) {
        err = aw_fail_at(diag, AW_ERR_NOMEM, name, 0, 0, NULL, "out of memory for %zu tensors",
                         count);
        goto out;
    }
    file->alloc = alloc;
    struct aw_text file_name;
    aw_text_init(&file_name, file->file_name, sizeof(file->file_name));
    aw_text_add(&file_name, "%s", name);
    file->root = root;
    file->meta = meta;
    root = NULL;

    const char *key;
    json_t *info;
    json_object_foreach(file->root, key, info)
    {
        if (info == meta)
            continue;
        err = read_tensor(key, info, data_size, name, &file->entry[file->count], diag);
        if (err)
            goto out;
        file->count++;
    }
    qsort(file->entry, file->count, sizeof(file->entry[0]), by_place);
    err = check_cover(file, data_size, diag);
    if (!err)
        err = place_views(file, (const unsigned char *)bytes + data_start, diag);
    if (err)
        goto out;
    *ret_file = file;
    file = NULL;
out:
    aw_safetensors_close(file);
    json_decref(root);
    return err;
}

enum aw_err aw_safetensors_open(const char *path, const struct aw_alloc *alloc,
                                struct aw_safetensors **ret_file, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t size = 0;
    struct aw_safetensors *file = NULL;
    enum aw_err err = aw_file_read(path, AW_SAFETENSORS_FILE_BYTES_MAX, alloc, &bytes, &size, diag);
    if (!err)
        err = aw_safetensors_parse(bytes, size, path, alloc, &file, diag);
    if (err)
        goto out;
    file->bytes = bytes;
    bytes = NULL;
    *ret_file = file;
out:
    aw_alloc_free(alloc, bytes);
    return err;
}

void aw_safetensors_close(struct aw_safetensors *file)
{
    if (!file)
        return;
    json_decref(file->root);
    aw_alloc_free(file->alloc, file->aligned);
    aw_alloc_free(file->alloc, file->bytes);
    aw_alloc_free(file->alloc, file);
}

/* ---- using it ---- */

uint32_t aw_safetensors_count(const struct aw_safetensors *file)
{
    return file->count;
}

void aw_safetensors_at(const struct aw_safetensors *file, uint32_t index,
                       struct aw_tensor_view *ret_view)
{
    AW_ASSERT(index < file->count);
    *ret_view = file->entry[index].view;
}

bool aw_safetensors_find(const struct aw_safetensors *file, const char *name,
                         struct aw_tensor_view *ret_view)
{
    for (uint32_t i = 0; i < file->count; i++) {
        if (strcmp(file->entry[i].view.name, name) == 0) {
            *ret_view = file->entry[i].view;
            return true;
        }
    }
    return false;
}

const char *aw_safetensors_meta(const struct aw_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(file->meta, key));
}

uint32_t aw_safetensors_meta_count(const struct aw_safetensors *file)
{
    return (uint32_t)json_object_size(file->meta);
}

const char *aw_safetensors_meta_key(const struct aw_safetensors *file, uint32_t index)
{
    AW_ASSERT(index < aw_safetensors_meta_count(file));
    void *iter = json_object_iter(file->meta);
    for (uint32_t i = 0; i < index; i++)
        iter = json_object_iter_next(file->meta, iter);
    return json_object_iter_key(iter);
}

/* Finds `name` and checks that it is what the caller expects, to the last number. */
static enum aw_err expect(const struct aw_safetensors *file, const char *name, enum aw_dtype dtype,
                          uint32_t rank, const uint64_t *shape, struct aw_tensor_view *ret_view,
                          struct aw_diag *diag)
{
    struct aw_tensor_view view;
    char expected[SHAPE_TEXT_MAX], found[SHAPE_TEXT_MAX];
    if (!aw_safetensors_find(file, name, &view))
        return aw_fail_at(diag, AW_ERR_FORMAT, file->file_name, 0, 0, name,
                          "there is no such tensor in the file; expected %s of shape %s",
                          aw_dtype_name(dtype),
                          shape_text(rank, shape, expected, sizeof(expected)));
    if (view.dtype != dtype)
        return aw_fail_at(diag, AW_ERR_FORMAT, file->file_name, 0, 0, name,
                          "expected dtype %s, found %s", aw_dtype_name(dtype),
                          aw_dtype_name(view.dtype));
    bool same = view.rank == rank;
    for (uint32_t i = 0; same && i < rank; i++)
        same = view.shape[i] == shape[i];
    if (!same)
        return aw_fail_at(diag, AW_ERR_FORMAT, file->file_name, 0, 0, name,
                          "expected shape %s, found %s",
                          shape_text(rank, shape, expected, sizeof(expected)),
                          shape_text(view.rank, view.shape, found, sizeof(found)));
    enum aw_err err = aw__safetensors_check_finite(file->file_name, name, view.dtype, view.data,
                                                   view.bytes, diag);
    if (!err)
        *ret_view = view;
    return err;
}

enum aw_err aw_safetensors_check_seal(const struct aw_safetensors *file, struct aw_diag *diag)
{
    const char *sealed = aw_safetensors_meta(file, AW_SAFETENSORS_SEAL);
    char found[AW__SAFETENSORS_SEAL_MAX];
    uint64_t sum = 0;
    if (!sealed)
        return AW_OK;
    for (uint32_t i = 0; i < file->count; i++) {
        struct aw_tensor_view view;
        aw_safetensors_at(file, i, &view);
        sum += aw__safetensors_sum_tensor(view.name, view.dtype, view.rank, view.shape, view.data,
                                          view.bytes);
    }
    for (uint32_t i = 0; i < aw_safetensors_meta_count(file); i++) {
        const char *key = aw_safetensors_meta_key(file, i);
        if (strcmp(key, AW_SAFETENSORS_SEAL) != 0)
            sum += aw__safetensors_sum_meta(key, aw_safetensors_meta(file, key));
    }
    aw__safetensors_seal_text(sum, found);
    if (strcmp(found, sealed) == 0)
        return AW_OK;
    return aw_fail_at(diag, AW_ERR_FORMAT, file->file_name, 0, 0, AW_SAFETENSORS_SEAL,
                      "the file is damaged: its content is not what was written");
}

enum aw_err aw_safetensors_copy(const struct aw_safetensors *file, const char *name,
                                enum aw_dtype dtype, uint32_t rank, const uint64_t *shape,
                                void *data, struct aw_diag *diag)
{
    struct aw_tensor_view view;
    AW_ASSERT(rank <= AW_SAFETENSORS_RANK_MAX);
    enum aw_err err = expect(file, name, dtype, rank, shape, &view, diag);
    if (!err && view.bytes)
        memcpy(data, view.data, view.bytes);
    return err;
}

enum aw_err aw_safetensors_copy_params(const struct aw_safetensors *file,
                                       const struct aw_params *params, const char *prefix,
                                       float *values, struct aw_diag *diag)
{
    const void *data[AW_PARAMS_TENSORS_MAX];
    for (uint32_t i = 0; i < params->tensor_count; i++) {
        const struct aw_param *param = &params->tensor[i];
        char buf[AW_SAFETENSORS_NAME_MAX];
        struct aw_text name;
        aw_text_init(&name, buf, sizeof(buf));
        aw_text_add(&name, "%s%s", prefix, param->name);
        if (name.cut)
            return aw_fail_at(diag, AW_ERR_LIMIT, file->file_name, 0, 0, param->name,
                              "its name with the prefix is longer than %u bytes",
                              AW_SAFETENSORS_NAME_MAX - 1);
        const uint64_t shape[2] = {param->shape[0], param->shape[1]};
        struct aw_tensor_view view;
        enum aw_err err = expect(file, buf, AW_DTYPE_F32, param->rank, shape, &view, diag);
        if (err)
            return err;
        data[i] = view.data;
    }
    for (uint32_t i = 0; i < params->tensor_count; i++)
        memcpy(values + params->tensor[i].offset, data[i],
               aw_param_size(&params->tensor[i]) * sizeof(float));
    return AW_OK;
}
