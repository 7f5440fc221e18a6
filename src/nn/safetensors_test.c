#include "nn/safetensors.h"

#include "base/file.h"
#include "base/rng.h"
#include "base/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a place for files ---- */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/aw-safetensors-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(in_folder("a.safetensors"));
    return rmdir(folder);
}

/* ---- files built by hand ---- */

#define BYTES_MAX 4096

/* A length, a header and `data_size` data bytes 0, 1, 2, ... Returns the size of all. */
static size_t build(unsigned char *bytes, const char *header, size_t data_size)
{
    uint64_t len = strlen(header);
    assert_true(8 + len + data_size <= BYTES_MAX);
    memcpy(bytes, &len, 8);
    memcpy(bytes + 8, header, len);
    for (size_t i = 0; i < data_size; i++)
        bytes[8 + len + i] = (unsigned char)i;
    return 8 + len + data_size;
}

static struct aw_safetensors *parse(const void *bytes, size_t size)
{
    struct aw_safetensors *file = NULL;
    struct aw_diag diag = {0};
    enum aw_err err = aw_safetensors_parse(bytes, size, "m", NULL, &file, &diag);
    if (err)
        print_error("%s: %s\n", diag.key, diag.text);
    assert_ok(err);
    return file;
}

static void every_broken_promise_has_its_own_sentence(void **state)
{
    (void)state;
    const struct {
        const char *header;
        size_t data_size;
        enum aw_err err;
        const char *key, *text;
    } cases[] = {
        {"[]", 0, AW_ERR_FORMAT, "", "the header is not a JSON object: it must begin with '{'"},
        {"", 0, AW_ERR_FORMAT, "", "the header is not a JSON object: it must begin with '{'"},
        {" {}", 0, AW_ERR_FORMAT, "", "the header is not a JSON object: it must begin with '{'"},
        {"{\"a\":", 0, AW_ERR_FORMAT, "",
         "the header is not valid JSON (at byte 5: \"unexpected token near end of file\")"},
        {"{}x", 0, AW_ERR_FORMAT, "",
         "the header is not valid JSON (at byte 3: \"end of file expected near 'x'\")"},
        {"{\"a\xff\":1}", 0, AW_ERR_FORMAT, "",
         "the header is not valid JSON (at byte 3: \"unable to decode byte 0xff near '\\\"a'\")"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, AW_ERR_FORMAT, "",
         "the header holds the same key twice (at byte 56: \"duplicate object key near "
         "'\\\"a\\\"'\")"},
        {"{\"a\":7}", 0, AW_ERR_FORMAT, "a",
         "expected an object with dtype, shape and data_offsets"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, AW_ERR_FORMAT, "a",
         "\"dtype\" is missing or not a string"},
        {"{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2, AW_ERR_FORMAT, "a",
         "unknown dtype \"F16\"; known are F32, F64, I64 and U8"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, AW_ERR_FORMAT, "a",
         "\"shape\" is missing or not an array"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, AW_ERR_FORMAT, "a",
         "\"shape\" must hold whole numbers that are not negative"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, AW_ERR_FORMAT, "a",
         "\"shape\" must hold whole numbers that are not negative"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
         AW_ERR_LIMIT, "a", "the shape has 9 dimensions, and the limit is 8"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, AW_ERR_FORMAT, "a",
         "\"data_offsets\" must be two whole numbers that are not negative, begin and end"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, AW_ERR_FORMAT, "a",
         "\"data_offsets\" must be two whole numbers that are not negative, begin and end"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, AW_ERR_FORMAT, "a",
         "the data begins at 1 and ends before that, at 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 12, AW_ERR_FORMAT,
         "a",
         "the data ends at byte 16, beyond the 12 bytes that the file has for data: it is "
         "truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,16]}}", 16, AW_ERR_FORMAT,
         "a", "the shape [3] of F32 takes 12 bytes, and the offsets give it 16"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, AW_ERR_FORMAT, "a",
         "the shape [] of F64 takes 8 bytes, and the offsets give it 4"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         AW_ERR_LIMIT, "a",
         "the shape [4294967296, 4294967296] has more elements than any file could hold"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1,
         AW_ERR_FORMAT, "a", "holds other keys than dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
         6, AW_ERR_FORMAT, "b",
         "the data begins at byte 2 and overlaps that of \"a\", which ends at 4"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         4, AW_ERR_FORMAT, "b",
         "the data begins at byte 0 and overlaps that of \"a\", which ends at 4"},
        {"{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[6,10]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         10, AW_ERR_FORMAT, "b",
         "the data begins at byte 6 and leaves a hole: the bytes from 4 belong to no tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[1,5]}}", 5, AW_ERR_FORMAT, "a",
         "the data begins at byte 1 and leaves a hole: the bytes from 0 belong to no tensor"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 7, AW_ERR_FORMAT, "",
         "the last tensor ends at byte 4, and 3 bytes after it belong to no tensor"},
        {"{}", 1, AW_ERR_FORMAT, "",
         "the last tensor ends at byte 0, and 1 bytes after it belong to no tensor"},
        {"{\"a\\u001b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, AW_ERR_FORMAT,
         "", "the tensor name \"a\\x1b\" holds a control character"},
        {"{\"__metadata__\":[]}", 0, AW_ERR_FORMAT, "__metadata__",
         "expected an object of strings, found another type"},
        {"{\"__metadata__\":{\"k\":1}}", 0, AW_ERR_FORMAT, "__metadata__",
         "the value of \"k\" is not a string"},
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        unsigned char bytes[BYTES_MAX];
        size_t size = build(bytes, cases[n].header, cases[n].data_size);
        struct aw_diag diag = {0};
        struct aw_safetensors *file = NULL;
        enum aw_err err = aw_safetensors_parse(bytes, size, "m.safetensors", NULL, &file, &diag);
        if (err != cases[n].err)
            print_error("for %s: %s\n", cases[n].header, diag.text);
        assert_int_equal(err, cases[n].err);
        assert_null(file);
        assert_string_equal(diag.text, cases[n].text);
        assert_string_equal(diag.key, cases[n].key);
        assert_string_equal(diag.file, "m.safetensors");
        /* and without anybody to tell */
        assert_int_equal(aw_safetensors_parse(bytes, size, "m", NULL, &file, NULL), err);
    }
}

static void lengths_that_lie_are_told_apart(void **state)
{
    (void)state;
    const struct {
        const char *why;
        uint64_t header_size;
        size_t file_size;
        enum aw_err err;
        const char *text;
    } cases[] = {
        {"nothing at all", 0, 0, AW_ERR_FORMAT,
         "the file is truncated: it has 0 bytes, and the length of the header alone takes 8"},
        {"cut in the length", 2, 7, AW_ERR_FORMAT,
         "the file is truncated: it has 7 bytes, and the length of the header alone takes 8"},
        {"one byte too few", 25, 32, AW_ERR_FORMAT,
         "the file is truncated: the header claims 25 bytes, and 24 follow"},
        {"the limit itself", 100000000, 32, AW_ERR_FORMAT,
         "the file is truncated: the header claims 100000000 bytes, and 24 follow"},
        {"beyond the limit", 100000001, 32, AW_ERR_LIMIT,
         "the header claims 100000001 bytes, and the format allows 100000000"},
        {"the largest number", UINT64_MAX, 32, AW_ERR_LIMIT,
         "the header claims 18446744073709551615 bytes, and the format allows 100000000"},
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        unsigned char bytes[32] = {0};
        memcpy(bytes, &cases[n].header_size, 8);
        struct aw_diag diag = {0};
        struct aw_safetensors *file = NULL;
        assert_int_equal(aw_safetensors_parse(bytes, cases[n].file_size, "m", NULL, &file, &diag),
                         cases[n].err);
        assert_string_equal(diag.text, cases[n].text);
        assert_null(file);
    }
}

static void too_many_tensors_or_too_long_a_name_are_refused(void **state)
{
    (void)state;
    size_t room = 200000;
    char *header = malloc(room);
    unsigned char *bytes = malloc(room + 8);
    struct aw_diag diag;
    struct aw_safetensors *file = NULL;
    for (uint32_t count = AW_SAFETENSORS_TENSORS_MAX; count <= AW_SAFETENSORS_TENSORS_MAX + 1;
         count++) {
        size_t len = 0;
        for (uint32_t i = 0; i < count; i++)
            len += (size_t)snprintf(header + len, room - len,
                                    "%c\"t%u\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":"
                                    "[0,0]}",
                                    i ? ',' : '{', i);
        len += (size_t)snprintf(header + len, room - len, "}");
        memcpy(bytes, &(uint64_t){len}, 8);
        memcpy(bytes + 8, header, len);
        enum aw_err err = aw_safetensors_parse(bytes, len + 8, "m", NULL, &file, &diag);
        if (count <= AW_SAFETENSORS_TENSORS_MAX) {
            assert_ok(err);
            assert_int_equal(aw_safetensors_count(file), count);
            aw_safetensors_close(file);
            file = NULL;
        } else {
            assert_int_equal(err, AW_ERR_LIMIT);
            assert_string_equal(diag.text, "1025 tensors are more than the limit of 1024");
        }
    }
    free(bytes);
    free(header);

    char name[AW_SAFETENSORS_NAME_MAX + 1], one[BYTES_MAX];
    unsigned char small[BYTES_MAX];
    for (size_t len = AW_SAFETENSORS_NAME_MAX - 1; len <= AW_SAFETENSORS_NAME_MAX; len++) {
        memset(name, 'n', len);
        name[len] = 0;
        snprintf(one, sizeof(one),
                 "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", name);
        enum aw_err err =
            aw_safetensors_parse(small, build(small, one, 1), "m", NULL, &file, &diag);
        assert_int_equal(err, len < AW_SAFETENSORS_NAME_MAX ? AW_OK : AW_ERR_LIMIT);
        if (err) {
            assert_non_null(strstr(diag.text, "has 256 bytes, and the limit is 255"));
        } else {
            aw_safetensors_close(file);
            file = NULL;
        }
    }
}

static void truncation_at_every_byte_is_refused(void **state)
{
    (void)state;
    unsigned char bytes[BYTES_MAX];
    size_t size = build(bytes,
                        "{\"__metadata__\":{\"k\":\"v\"},"
                        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                        "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}",
                        19);
    aw_safetensors_close(parse(bytes, size));
    for (size_t cut = 0; cut < size; cut++) {
        struct aw_safetensors *file = NULL;
        /* a copy of just that size, so that a sanitizer sees every byte read beyond it */
        unsigned char *copy = malloc(cut ? cut : 1);
        memcpy(copy, bytes, cut);
        assert_int_equal(aw_safetensors_parse(copy, cut, "m", NULL, &file, NULL), AW_ERR_FORMAT);
        free(copy);
    }
}

static void a_file_of_another_writer_is_read_wherever_its_bytes_lie(void **state)
{
    (void)state;
    /* unpadded, unsorted, an odd tensor before wide ones, an empty one, a scalar, metadata last */
    const char *header = "{\"w\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[3,11]},"
                         "\"odd\":{\"shape\":[3],\"data_offsets\":[0,3],\"dtype\":\"U8\"},"
                         "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[11,11]},"
                         "\"f\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[11,19]},"
                         "\"__metadata__\":{\"seed\":\"7\",\"about\":\"\\u00e9\"}}  \n";
    unsigned char room[BYTES_MAX + 8];
    for (size_t shift = 0; shift < 8; shift++) {
        unsigned char *bytes = room + shift;
        size_t size = build(bytes, header, 19);
        double w = 2.5;
        const float f[2] = {-1, 3e-20f};
        memcpy(bytes + size - 16, &w, 8);
        memcpy(bytes + size - 8, f, 8);
        struct aw_safetensors *file = parse(bytes, size);
        assert_int_equal(aw_safetensors_count(file), 4);
        struct aw_tensor_view view;
        const char *const order[] = {"odd", "w", "none", "f"};
        for (uint32_t i = 0; i < 4; i++) {
            aw_safetensors_at(file, i, &view);
            assert_string_equal(view.name, order[i]);
            assert_int_equal((uintptr_t)view.data % aw_dtype_size(view.dtype), 0);
        }
        assert_memory_equal(view.data, f, sizeof(f));
        assert_int_equal(view.rank, 2);

        double got = 0;
        assert_ok(aw_safetensors_copy(file, "w", AW_DTYPE_F64, 0, NULL, &got, NULL));
        assert_true(got == 2.5);
        unsigned char odd[3];
        assert_ok(
            aw_safetensors_copy(file, "odd", AW_DTYPE_U8, 1, (const uint64_t[]){3}, odd, NULL));
        assert_memory_equal(odd, "\0\1\2", 3);
        assert_ok(aw_safetensors_copy(file, "none", AW_DTYPE_F32, 2, (const uint64_t[]){0, 7}, NULL,
                                      NULL));
        assert_string_equal(aw_safetensors_meta(file, "seed"), "7");
        assert_string_equal(aw_safetensors_meta(file, "about"), "\xc3\xa9");
        assert_null(aw_safetensors_meta(file, "other"));
        assert_int_equal(aw_safetensors_meta_count(file), 2);
        assert_string_equal(aw_safetensors_meta_key(file, 1), "about");
        assert_false(aw_safetensors_find(file, "x", &view));
        aw_safetensors_close(file);
    }
}

static void a_copy_names_what_it_expected_and_found(void **state)
{
    (void)state;
    unsigned char bytes[BYTES_MAX];
    size_t size = build(bytes,
                        "{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                        "\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[24,40]}}",
                        40);
    struct aw_safetensors *file = parse(bytes, size);
    const struct {
        const char *name;
        enum aw_dtype dtype;
        uint32_t rank;
        uint64_t shape[2];
        const char *text;
    } cases[] = {
        {"b",
         AW_DTYPE_F32,
         2,
         {2, 3},
         "there is no such tensor in the file; expected F32 of shape "
         "[2, 3]"},
        {"a.weight", AW_DTYPE_F64, 2, {2, 3}, "expected dtype F64, found F32"},
        {"a.weight", AW_DTYPE_F32, 2, {3, 2}, "expected shape [3, 2], found [2, 3]"},
        {"a.weight", AW_DTYPE_F32, 1, {6, 0}, "expected shape [6], found [2, 3]"},
        {"a.weight", AW_DTYPE_F32, 0, {0, 0}, "expected shape [], found [2, 3]"},
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        struct aw_diag diag = {0};
        float out[6] = {9, 9, 9, 9, 9, 9};
        assert_int_equal(aw_safetensors_copy(file, cases[n].name, cases[n].dtype, cases[n].rank,
                                             cases[n].shape, out, &diag),
                         AW_ERR_FORMAT);
        assert_string_equal(diag.text, cases[n].text);
        assert_string_equal(diag.key, cases[n].name);
        assert_string_equal(diag.file, "m");
        for (int i = 0; i < 6; i++)
            assert_true(out[i] == 9);
    }
    aw_safetensors_close(file);
}

static void a_number_that_is_not_finite_is_named_by_its_index(void **state)
{
    (void)state;
    const struct {
        double value;
        const char *f32, *f64;
    } cases[] = {
        {NAN, "element 4 of 6 is NaN; all must be finite",
         "element 1 of 2 is NaN; all must be finite"},
        {INFINITY, "element 4 of 6 is infinity; all must be finite",
         "element 1 of 2 is infinity; all must be finite"},
        {-INFINITY, "element 4 of 6 is -infinity; all must be finite",
         "element 1 of 2 is -infinity; all must be finite"},
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        unsigned char bytes[BYTES_MAX];
        size_t size = build(bytes,
                            "{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]},"
                            "\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[24,40]}}",
                            40);
        const float f = (float)cases[n].value;
        memset(bytes + size - 40, 0, 40);
        memcpy(bytes + size - 40 + 16, &f, 4);
        memcpy(bytes + size - 8, &cases[n].value, 8);
        struct aw_safetensors *file = parse(bytes, size);
        struct aw_diag diag = {0};
        double out[3] = {5, 5, 5};
        assert_int_equal(
            aw_safetensors_copy(file, "a", AW_DTYPE_F32, 1, (const uint64_t[]){6}, out, &diag),
            AW_ERR_DIVERGED);
        assert_string_equal(diag.text, cases[n].f32);
        assert_int_equal(
            aw_safetensors_copy(file, "d", AW_DTYPE_F64, 1, (const uint64_t[]){2}, out, &diag),
            AW_ERR_DIVERGED);
        assert_string_equal(diag.text, cases[n].f64);
        assert_string_equal(diag.key, "d");
        assert_true(out[0] == 5 && out[1] == 5 && out[2] == 5);
        aw_safetensors_close(file);
    }
}

/* ---- writing ---- */

static void the_bytes_are_those_of_the_reference_writer(void **state)
{
    (void)state;
    const float weight[3] = {1, 2, 3}, bias[1] = {4};
    const int64_t step[1] = {5};
    const double mean[1] = {6};
    const unsigned char flag[2] = {7, 8};
    const char *header = "{\"__metadata__\":{\"a\":\"quote \\\" and \xc3\xa9\",\"b\":\"\"},"
                         "\"step\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
                         "\"mean\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[8,16]},"
                         "\"bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]},"
                         "\"weight\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[20,32]},"
                         "\"flag\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[32,34]}}";
    for (int order = 0; order < 2; order++) {
        struct aw_safetensors_writer *writer;
        assert_ok(aw_safetensors_writer_new(NULL, &writer));
        for (int i = 0; i < 7; i++) {
            switch (order ? 6 - i : i) {
            case 0:
                assert_ok(aw_safetensors_add_meta(writer, "b", ""));
                break;
            case 1:
                assert_ok(aw_safetensors_add(writer, "weight", AW_DTYPE_F32, 2,
                                             (const uint64_t[]){3, 1}, weight));
                break;
            case 2:
                assert_ok(aw_safetensors_add(writer, "flag", AW_DTYPE_U8, 1, (const uint64_t[]){2},
                                             flag));
                break;
            case 3:
                assert_ok(aw_safetensors_add(writer, "mean", AW_DTYPE_F64, 0, NULL, mean));
                break;
            case 4:
                assert_ok(aw_safetensors_add(writer, "bias", AW_DTYPE_F32, 1, (const uint64_t[]){1},
                                             bias));
                break;
            case 5:
                assert_ok(aw_safetensors_add_meta(writer, "a", "quote \" and \xc3\xa9"));
                break;
            default:
                assert_ok(aw_safetensors_add(writer, "step", AW_DTYPE_I64, 1, (const uint64_t[]){1},
                                             step));
            }
        }
        assert_ok(aw_safetensors_write(writer, in_folder("a.safetensors"), NULL));
        aw_safetensors_writer_free(writer);

        char *bytes = NULL;
        size_t size = 0;
        assert_ok(aw_file_read(in_folder("a.safetensors"), 1 << 20, NULL, &bytes, &size, NULL));
        uint64_t len;
        memcpy(&len, bytes, 8);
        assert_int_equal(len % 8, 0);
        assert_true(len >= strlen(header) && len < strlen(header) + 8);
        assert_memory_equal(bytes + 8, header, strlen(header));
        for (size_t i = strlen(header); i < len; i++)
            assert_int_equal(bytes[8 + i], ' ');
        assert_int_equal(size, 8 + len + 34);
        const char *data = bytes + 8 + len;
        assert_memory_equal(data, step, 8);
        assert_memory_equal(data + 8, mean, 8);
        assert_memory_equal(data + 16, bias, 4);
        assert_memory_equal(data + 20, weight, 12);
        assert_memory_equal(data + 32, flag, 2);
        aw_alloc_free(NULL, bytes);
    }
}

static void declare(struct aw_params *params)
{
    *params = (struct aw_params){0};
    aw_params_add(params, "0.weight", 2, 5, 3);
    aw_params_add(params, "0.bias", 1, 5, 1);
    assert_ok(aw_params_alloc(params, NULL));
}

static void parameters_come_back_bit_for_bit_and_gaps_stay(void **state)
{
    (void)state;
    struct aw_params params;
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    declare(&params);
    for (uint32_t i = 0; i < params.tensor_count; i++)
        aw_rng_fill_normal(&rng, params.value + params.tensor[i].offset,
                           aw_param_size(&params.tensor[i]));
    params.value[0] = -0.0f;
    params.value[1] = 1e-42f;
    params.m[0] = 8;

    struct aw_safetensors_writer *writer;
    assert_ok(aw_safetensors_writer_new(NULL, &writer));
    assert_ok(aw_safetensors_add_params(writer, &params, params.value, "actor."));
    assert_ok(aw_safetensors_add_params(writer, &params, params.m, "m.actor."));
    assert_ok(aw_safetensors_write(writer, in_folder("a.safetensors"), NULL));
    aw_safetensors_writer_free(writer);

    struct aw_safetensors *file;
    assert_ok(aw_safetensors_open(in_folder("a.safetensors"), NULL, &file, NULL));
    assert_ok(aw_safetensors_copy_params(file, &params, "actor.", params.grad, NULL));
    assert_memory_equal(params.grad, params.value, params.count * sizeof(float));
    assert_ok(aw_safetensors_copy_params(file, &params, "m.actor.", params.v, NULL));
    assert_memory_equal(params.v, params.m, params.count * sizeof(float));

    struct aw_diag diag;
    assert_int_equal(aw_safetensors_copy_params(file, &params, "critic.", params.grad, &diag),
                     AW_ERR_FORMAT);
    assert_string_equal(diag.key, "critic.0.weight");
    assert_string_equal(diag.file, in_folder("a.safetensors"));
    aw_safetensors_close(file);
    aw_params_deinit(&params);
}

static void a_model_is_loaded_whole_or_not_at_all(void **state)
{
    (void)state;
    struct aw_params small = {0}, large;
    aw_params_add(&small, "0.weight", 2, 5, 3);
    aw_params_add(&small, "0.bias", 1, 4, 1);
    assert_ok(aw_params_alloc(&small, NULL));
    small.value[0] = 1;
    struct aw_safetensors_writer *writer;
    assert_ok(aw_safetensors_writer_new(NULL, &writer));
    assert_ok(aw_safetensors_add_params(writer, &small, small.value, ""));
    assert_ok(aw_safetensors_write(writer, in_folder("a.safetensors"), NULL));
    aw_safetensors_writer_free(writer);

    declare(&large);
    large.value[0] = 77;
    struct aw_safetensors *file;
    struct aw_diag diag;
    assert_ok(aw_safetensors_open(in_folder("a.safetensors"), NULL, &file, NULL));
    assert_int_equal(aw_safetensors_copy_params(file, &large, "", large.value, &diag),
                     AW_ERR_FORMAT);
    assert_string_equal(diag.key, "0.bias");
    assert_string_equal(diag.text, "expected shape [5], found [4]");
    assert_true(large.value[0] == 77);
    aw_safetensors_close(file);
    aw_params_deinit(&large);
    aw_params_deinit(&small);
}

static void a_diverged_model_does_not_replace_a_good_checkpoint(void **state)
{
    (void)state;
    struct aw_params params;
    declare(&params);
    params.value[3] = 3;
    struct aw_safetensors_writer *writer;
    assert_ok(aw_safetensors_writer_new(NULL, &writer));
    assert_ok(aw_safetensors_add_params(writer, &params, params.value, ""));
    assert_ok(aw_safetensors_write(writer, in_folder("a.safetensors"), NULL));

    struct aw_diag diag;
    params.value[3] = NAN;
    assert_int_equal(aw_safetensors_write(writer, in_folder("a.safetensors"), &diag),
                     AW_ERR_DIVERGED);
    assert_string_equal(diag.key, "0.weight");
    assert_string_equal(diag.text, "element 3 of 15 is NaN; all must be finite");
    aw_safetensors_writer_free(writer);

    struct aw_safetensors *file;
    assert_ok(aw_safetensors_open(in_folder("a.safetensors"), NULL, &file, NULL));
    assert_ok(aw_safetensors_copy_params(file, &params, "", params.value, NULL));
    assert_true(params.value[3] == 3);
    aw_safetensors_close(file);
    aw_params_deinit(&params);
}

static void names_that_could_not_be_read_back_are_not_taken(void **state)
{
    (void)state;
    char longest[AW_SAFETENSORS_NAME_MAX + 1];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    const uint64_t shape[1] = {0};
    struct aw_safetensors_writer *writer;
    assert_ok(aw_safetensors_writer_new(NULL, &writer));
    assert_int_equal(aw_safetensors_add(writer, longest, AW_DTYPE_U8, 1, shape, NULL),
                     AW_ERR_LIMIT);
    assert_int_equal(aw_safetensors_add(writer, "\xff", AW_DTYPE_U8, 1, shape, NULL),
                     AW_ERR_FORMAT);
    assert_int_equal(aw_safetensors_add(writer, "a\nb", AW_DTYPE_U8, 1, shape, NULL),
                     AW_ERR_FORMAT);
    assert_int_equal(aw_safetensors_add_meta(writer, longest, ""), AW_ERR_LIMIT);
    assert_int_equal(aw_safetensors_add_meta(writer, "k", "\xc3"), AW_ERR_FORMAT);
    assert_ok(aw_safetensors_add_meta(writer, "k", "line\nline"));
    struct aw_params params;
    declare(&params);
    assert_int_equal(aw_safetensors_add_params(writer, &params, params.value, longest),
                     AW_ERR_LIMIT);
    aw_params_deinit(&params);

    char name[16];
    for (uint32_t i = 0; i < AW_SAFETENSORS_TENSORS_MAX; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        assert_ok(aw_safetensors_add(writer, name, AW_DTYPE_U8, 1, shape, NULL));
    }
    assert_int_equal(aw_safetensors_add(writer, "last", AW_DTYPE_U8, 1, shape, NULL), AW_ERR_LIMIT);
    aw_safetensors_writer_free(writer);
}

static void a_missing_file_and_a_missing_folder_are_said_to_be_so(void **state)
{
    (void)state;
    struct aw_safetensors *file = NULL;
    struct aw_diag diag = {0};
    assert_int_equal(aw_safetensors_open(in_folder("none.safetensors"), NULL, &file, &diag),
                     AW_ERR_NOTFOUND);
    assert_string_equal(diag.file, in_folder("none.safetensors"));
    assert_null(file);
    struct aw_safetensors_writer *writer;
    assert_ok(aw_safetensors_writer_new(NULL, &writer));
    assert_int_not_equal(aw_safetensors_write(writer, in_folder("none/a.safetensors"), &diag),
                         AW_OK);
    assert_true(diag.text[0] != 0);
    aw_safetensors_writer_free(writer);
    aw_safetensors_close(NULL);
    aw_safetensors_writer_free(NULL);
}

/* Writes one file and reads it back; any step may run out of memory. */
static enum aw_err round_trip(const struct aw_alloc *alloc)
{
    const float value[2] = {1, 2};
    const unsigned char flag = 1;
    struct aw_safetensors_writer *writer = NULL;
    struct aw_safetensors *file = NULL, *askew = NULL;
    struct aw_diag diag;
    unsigned char bytes[BYTES_MAX];
    size_t size = build(bytes,
                        "{\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                        "\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}",
                        5);
    enum aw_err err = aw_safetensors_writer_new(alloc, &writer);
    if (!err)
        err = aw_safetensors_add(writer, "w", AW_DTYPE_F32, 1, (const uint64_t[]){2}, value);
    if (!err)
        err = aw_safetensors_add(writer, "u", AW_DTYPE_U8, 0, NULL, &flag);
    if (!err)
        err = aw_safetensors_add_meta(writer, "k", "v");
    if (!err)
        err = aw_safetensors_write(writer, in_folder("a.safetensors"), &diag);
    if (!err)
        err = aw_safetensors_open(in_folder("a.safetensors"), alloc, &file, &diag);
    if (!err)
        err = aw_safetensors_parse(bytes, size, "m", alloc, &askew, &diag);
    aw_safetensors_close(askew);
    aw_safetensors_close(file);
    aw_safetensors_writer_free(writer);
    return err;
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    uint64_t budget = 0;
    enum aw_err err;
    do {
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget++;
        err = round_trip(&counting.alloc);
        assert_true(err == AW_OK || err == AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
        assert_true(budget < 100);
    } while (err);
    assert_true(budget > 8);
}

static void a_seal_notices_every_bit_and_its_absence_is_no_fault(void **state)
{
    (void)state;
    struct aw_safetensors_writer *writer = NULL;
    struct aw_safetensors *file = NULL;
    const float weights[] = {1, -2, 3.5f};
    const double far[] = {4, 5};
    const uint64_t three = 3, two = 2;
    uint32_t refused = 0;
    const char *const path = in_folder("a.safetensors");
    assert_ok(aw_safetensors_writer_new(NULL, &writer));
    assert_ok(aw_safetensors_add(writer, "w", AW_DTYPE_F32, 1, &three, weights));
    assert_ok(aw_safetensors_add_meta(writer, "name", "toy"));
    assert_ok(aw_safetensors_write(writer, path, NULL)); /* without a seal */
    assert_ok(aw_safetensors_open(path, NULL, &file, NULL));
    assert_ok(aw_safetensors_check_seal(file, NULL));
    aw_safetensors_close(file);
    assert_ok(aw_safetensors_add(writer, "far", AW_DTYPE_F64, 1, &two, far));
    assert_ok(aw_safetensors_seal(writer));
    assert_ok(aw_safetensors_write(writer, path, NULL));
    aw_safetensors_writer_free(writer);
    assert_ok(aw_safetensors_open(path, NULL, &file, NULL));
    assert_ok(aw_safetensors_check_seal(file, NULL));
    aw_safetensors_close(file);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    char bytes[1024];
    const size_t size = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    const size_t data = size - sizeof weights - sizeof far;
    for (size_t bit = 8 * data; bit < 8 * size; bit++, refused++) {
        struct aw_diag diag = {0};
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        assert_ok(aw_safetensors_parse(bytes, size, "sealed", NULL, &file, NULL));
        assert_int_equal(aw_safetensors_check_seal(file, &diag), AW_ERR_FORMAT);
        assert_non_null(strstr(diag.text, "the file is damaged"));
        aw_safetensors_close(file);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_int_equal(refused, 8 * (sizeof weights + sizeof far));
    char *const toy = memmem(bytes, size, "toy", 3); /* metadata is sealed, too */
    assert_non_null(toy);
    toy[0] = 'b';
    assert_ok(aw_safetensors_parse(bytes, size, "sealed", NULL, &file, NULL));
    assert_int_equal(aw_safetensors_check_seal(file, NULL), AW_ERR_FORMAT);
    aw_safetensors_close(file);
}

AW_TEST_GROUP("safetensors")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_broken_promise_has_its_own_sentence),
        cmocka_unit_test(lengths_that_lie_are_told_apart),
        cmocka_unit_test(too_many_tensors_or_too_long_a_name_are_refused),
        cmocka_unit_test(truncation_at_every_byte_is_refused),
        cmocka_unit_test(a_seal_notices_every_bit_and_its_absence_is_no_fault),
        cmocka_unit_test(a_file_of_another_writer_is_read_wherever_its_bytes_lie),
        cmocka_unit_test(a_copy_names_what_it_expected_and_found),
        cmocka_unit_test(a_number_that_is_not_finite_is_named_by_its_index),
        cmocka_unit_test(the_bytes_are_those_of_the_reference_writer),
        cmocka_unit_test(parameters_come_back_bit_for_bit_and_gaps_stay),
        cmocka_unit_test(a_model_is_loaded_whole_or_not_at_all),
        cmocka_unit_test(a_diverged_model_does_not_replace_a_good_checkpoint),
        cmocka_unit_test(names_that_could_not_be_read_back_are_not_taken),
        cmocka_unit_test(a_missing_file_and_a_missing_folder_are_said_to_be_so),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests_name("safetensors", tests, make_folder, remove_folder);
}
