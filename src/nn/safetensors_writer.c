/* safetensors_writer.c - collects tensors and metadata, then replaces a file with them. */
#include "base/file.h"
#include "base/text.h"
#include "nn/safetensors_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct tensor {
    struct tensor *next;
    enum aw_dtype dtype;
    uint32_t rank;
    uint64_t shape[AW_SAFETENSORS_RANK_MAX];
    const void *data;
    size_t bytes;
    char name[AW_SAFETENSORS_NAME_MAX];
};

struct meta {
    struct meta *next;
    const char *value; /* behind this struct, in the same block */
    char key[AW_SAFETENSORS_NAME_MAX];
};

struct aw_safetensors_writer {
    const struct aw_alloc *alloc;
    uint32_t tensor_count, meta_count;
    struct tensor *tensors;
    struct meta *metas;
};

enum aw_err aw_safetensors_writer_new(const struct aw_alloc *alloc,
                                      struct aw_safetensors_writer **ret_writer)
{
    struct aw_safetensors_writer *writer = aw_alloc_new(alloc, 1, sizeof(*writer));
    if (!writer)
        return AW_ERR_NOMEM;
    writer->alloc = alloc;
    *ret_writer = writer;
    return AW_OK;
}

void aw_safetensors_writer_free(struct aw_safetensors_writer *writer)
{
    if (!writer)
        return;
    for (struct tensor *next, *tensor = writer->tensors; tensor; tensor = next) {
        next = tensor->next;
        aw_alloc_free(writer->alloc, tensor);
    }
    for (struct meta *next, *meta = writer->metas; meta; meta = next) {
        next = meta->next;
        aw_alloc_free(writer->alloc, meta);
    }
    aw_alloc_free(writer->alloc, writer);
}

static enum aw_err check_name(const char *name)
{
    size_t len = strlen(name);
    if (len >= AW_SAFETENSORS_NAME_MAX)
        return AW_ERR_LIMIT;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return AW_ERR_FORMAT;
    return aw_text_utf8_bad(name, len) < len ? AW_ERR_FORMAT : AW_OK;
}

enum aw_err aw_safetensors_add(struct aw_safetensors_writer *writer, const char *name,
                               enum aw_dtype dtype, uint32_t rank, const uint64_t *shape,
                               const void *data)
{
    size_t bytes;
    AW_ASSERT(aw__safetensors_bytes(dtype, rank, shape, &bytes));
    AW_ASSERT(strcmp(name, AW__SAFETENSORS_META) != 0);
    for (const struct tensor *other = writer->tensors; other; other = other->next)
        AW_ASSERT(strcmp(other->name, name) != 0);
    enum aw_err err = check_name(name);
    if (err)
        return err;
    if (writer->tensor_count == AW_SAFETENSORS_TENSORS_MAX)
        return AW_ERR_LIMIT;

    struct tensor *tensor = aw_alloc_new(writer->alloc, 1, sizeof(*tensor));
    if (!tensor)
        return AW_ERR_NOMEM;
    tensor->dtype = dtype;
    tensor->rank = rank;
    if (rank)
        memcpy(tensor->shape, shape, rank * sizeof(*shape));
    tensor->data = data;
    tensor->bytes = bytes;
    memcpy(tensor->name, name, strlen(name) + 1);
    tensor->next = writer->tensors;
    writer->tensors = tensor;
    writer->tensor_count++;
    return AW_OK;
}

enum aw_err aw_safetensors_add_meta(struct aw_safetensors_writer *writer, const char *key,
                                    const char *value)
{
    for (const struct meta *other = writer->metas; other; other = other->next)
        AW_ASSERT(strcmp(other->key, key) != 0);
    enum aw_err err = check_name(key);
    if (err)
        return err;
    size_t value_len = strlen(value);
    if (writer->meta_count == AW_SAFETENSORS_META_MAX ||
        value_len > AW_SAFETENSORS_HEADER_BYTES_MAX)
        return AW_ERR_LIMIT;
    if (aw_text_utf8_bad(value, value_len) < value_len)
        return AW_ERR_FORMAT;

    struct meta *meta = aw_alloc_new(writer->alloc, 1, sizeof(*meta) + value_len + 1);
    if (!meta)
        return AW_ERR_NOMEM;
    char *copy = (char *)(meta + 1);
    memcpy(copy, value, value_len + 1);
    meta->value = copy;
    memcpy(meta->key, key, strlen(key) + 1);
    meta->next = writer->metas;
    writer->metas = meta;
    writer->meta_count++;
    return AW_OK;
}

enum aw_err aw_safetensors_add_params(struct aw_safetensors_writer *writer,
                                      const struct aw_params *params, const float *values,
                                      const char *prefix)
{
    for (uint32_t i = 0; i < params->tensor_count; i++) {
        const struct aw_param *param = &params->tensor[i];
        char buf[AW_SAFETENSORS_NAME_MAX];
        struct aw_text name;
        aw_text_init(&name, buf, sizeof(buf));
        aw_text_add(&name, "%s%s", prefix, param->name);
        if (name.cut)
            return AW_ERR_LIMIT;
        const uint64_t shape[2] = {param->shape[0], param->shape[1]};
        enum aw_err err = aw_safetensors_add(writer, buf, AW_DTYPE_F32, param->rank, shape,
                                             values + param->offset);
        if (err)
            return err;
    }
    return AW_OK;
}

enum aw_err aw_safetensors_seal(struct aw_safetensors_writer *writer)
{
    char text[AW__SAFETENSORS_SEAL_MAX];
    uint64_t sum = 0;
    for (const struct tensor *tensor = writer->tensors; tensor; tensor = tensor->next)
        sum += aw__safetensors_sum_tensor(tensor->name, tensor->dtype, tensor->rank, tensor->shape,
                                          tensor->data, tensor->bytes);
    for (const struct meta *meta = writer->metas; meta; meta = meta->next)
        sum += aw__safetensors_sum_meta(meta->key, meta->value);
    aw__safetensors_seal_text(sum, text);
    return aw_safetensors_add_meta(writer, AW_SAFETENSORS_SEAL, text);
}

/* The reference writer's order: widest alignment first, so that every tensor is aligned when the
 * first one is, with its order of dtypes among equals; then by name. */
static int dtype_place(enum aw_dtype dtype)
{
    switch (dtype) {
    case AW_DTYPE_I64:
        return 0;
    case AW_DTYPE_F64:
        return 1;
    case AW_DTYPE_F32:
        return 2;
    case AW_DTYPE_U8:
        return 3;
    }
    return 4;
}

static int by_dtype_and_name(const void *left, const void *right)
{
    const struct tensor *a = *(const struct tensor *const *)left;
    const struct tensor *b = *(const struct tensor *const *)right;
    int place = dtype_place(a->dtype) - dtype_place(b->dtype);
    return place ? place : strcmp(a->name, b->name);
}

static int by_key(const void *left, const void *right)
{
    const struct meta *a = *(const struct meta *const *)left;
    const struct meta *b = *(const struct meta *const *)right;
    return strcmp(a->key, b->key);
}

static json_t *tensor_json(const struct tensor *tensor, size_t begin)
{
    json_t *shape = json_array();
    if (!shape)
        return NULL;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i])) < 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s,s:o,s:[I,I]}", "dtype", aw_dtype_name(tensor->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)(begin + tensor->bytes));
}

/* The header as JSON text, padded with spaces so that the data starts on a multiple of 8. The
 * caller frees it with free(). Fails for lack of memory alone. */
static enum aw_err make_header(struct tensor *const *tensors, uint32_t tensor_count,
                               struct meta *const *metas, uint32_t meta_count, char **ret_text,
                               size_t *ret_size)
{
    enum aw_err err = AW_ERR_NOMEM;
    char *text = NULL;
    json_t *root = json_object();
    if (!root)
        goto out;
    if (meta_count) {
        json_t *meta = json_object();
        if (json_object_set_new(root, AW__SAFETENSORS_META, meta) < 0)
            goto out;
        for (uint32_t i = 0; i < meta_count; i++)
            if (json_object_set_new(meta, metas[i]->key, json_string(metas[i]->value)) < 0)
                goto out;
    }
    size_t begin = 0;
    for (uint32_t i = 0; i < tensor_count; i++) {
        if (json_object_set_new(root, tensors[i]->name, tensor_json(tensors[i], begin)) < 0)
            goto out;
        begin += tensors[i]->bytes;
    }

    size_t size = json_dumpb(root, NULL, 0, JSON_COMPACT);
    size_t padded = (size + 7) / 8 * 8;
    if (size == 0 || !(text = malloc(padded)))
        goto out;
    if (json_dumpb(root, text, size, JSON_COMPACT) != size)
        goto out;
    memset(text + size, ' ', padded - size);
    *ret_text = text;
    *ret_size = padded;
    text = NULL;
    err = AW_OK;
out:
    free(text);
    json_decref(root);
    return err;
}

enum aw_err aw_safetensors_write(struct aw_safetensors_writer *writer, const char *path,
                                 struct aw_diag *diag)
{
    enum aw_err err;
    char *header = NULL;
    size_t header_size = 0, data_size = 0;
    struct aw_file_writer file = {0};
    struct aw_carve carve = {0};
    aw_carve_take(&carve, writer->tensor_count, sizeof(struct tensor *));
    aw_carve_take(&carve, writer->meta_count, sizeof(struct meta *));
    void *block = aw_alloc_new(writer->alloc, carve.used, 1);
    if (!block) {
        err = aw_fail_at(diag, AW_ERR_NOMEM, path, 0, 0, NULL, "out of memory for the header");
        goto out;
    }
    carve = (struct aw_carve){.base = block};
    struct tensor **tensors = aw_carve_take(&carve, writer->tensor_count, sizeof(*tensors));
    struct meta **metas = aw_carve_take(&carve, writer->meta_count, sizeof(*metas));
    uint32_t count = 0;
    for (struct tensor *tensor = writer->tensors; tensor; tensor = tensor->next) {
        err = aw__safetensors_check_finite(path, tensor->name, tensor->dtype, tensor->data,
                                           tensor->bytes, diag);
        if (err)
            goto out;
        data_size += tensor->bytes;
        if (data_size > AW_SAFETENSORS_FILE_BYTES_MAX) {
            err = aw_fail_at(diag, AW_ERR_LIMIT, path, 0, 0, tensor->name,
                             "the tensors exceed the %zu bytes that a file may have",
                             AW_SAFETENSORS_FILE_BYTES_MAX);
            goto out;
        }
        tensors[count++] = tensor;
    }
    qsort(tensors, count, sizeof(struct tensor *), by_dtype_and_name);
    count = 0;
    for (struct meta *meta = writer->metas; meta; meta = meta->next)
        metas[count++] = meta;
    qsort(metas, count, sizeof(struct meta *), by_key);

    err = make_header(tensors, writer->tensor_count, metas, writer->meta_count, &header,
                      &header_size);
    if (err) {
        aw_fail_at(diag, err, path, 0, 0, NULL, "out of memory for the header");
        goto out;
    }
    if (header_size > AW_SAFETENSORS_HEADER_BYTES_MAX) {
        err = aw_fail_at(diag, AW_ERR_LIMIT, path, 0, 0, NULL,
                         "the header has %zu bytes, and the format allows %u", header_size,
                         AW_SAFETENSORS_HEADER_BYTES_MAX);
        goto out;
    }

    const uint64_t length = header_size;
    err = aw_file_writer_open(&file, path, NULL, diag);
    if (!err)
        err = aw_file_writer_write(&file, &length, sizeof(length), diag);
    if (!err)
        err = aw_file_writer_write(&file, header, header_size, diag);
    for (uint32_t i = 0; !err && i < writer->tensor_count; i++)
        err = aw_file_writer_write(&file, tensors[i]->data, tensors[i]->bytes, diag);
    if (!err)
        err = aw_file_writer_commit(&file, diag);
out:
    aw_file_writer_abort(&file);
    free(header);
    aw_alloc_free(writer->alloc, block);
    return err;
}
