/* fuzz_safetensors.c - any bytes as a checkpoint: refused with a sentence, or sound to the byte. */
#include "fuzz.h"

#include "nn/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* Reads every byte, so that a view beyond the data is noticed. */
static unsigned read_all(const struct aw_tensor_view *view)
{
    const unsigned char *bytes = view->data;
    unsigned sum = 0;
    for (size_t i = 0; i < view->bytes; i++)
        sum += bytes[i];
    return sum;
}

static bool all_finite(const struct aw_tensor_view *view)
{
    size_t count = view->bytes / aw_dtype_size(view->dtype);
    bool ok = true;
    for (size_t i = 0; i < count; i++) {
        if (view->dtype == AW_DTYPE_F32)
            ok = ok && __builtin_isfinite(((const float *)view->data)[i]);
        else if (view->dtype == AW_DTYPE_F64)
            ok = ok && __builtin_isfinite(((const double *)view->data)[i]);
    }
    return ok;
}

static void check_tensor(const struct aw_safetensors *file, uint32_t index, size_t *total)
{
    struct aw_tensor_view view, found;
    struct aw_diag diag = {0};
    aw_safetensors_at(file, index, &view);
    AW_ASSERT(aw_safetensors_find(file, view.name, &found) && found.data == view.data);
    AW_ASSERT((uintptr_t)view.data % aw_dtype_size(view.dtype) == 0);
    AW_ASSERT(view.rank <= AW_SAFETENSORS_RANK_MAX);
    AW_ASSERT(strlen(view.name) < AW_SAFETENSORS_NAME_MAX);
    uint64_t bytes = aw_dtype_size(view.dtype);
    for (uint32_t i = 0; i < view.rank; i++)
        bytes *= view.shape[i];
    AW_ASSERT(bytes == view.bytes);
    *total += view.bytes;
    unsigned sum = read_all(&view);

    /* a copy is whole, or nothing of it was written */
    unsigned char *copy = malloc(view.bytes + 1);
    AW_ASSERT(copy);
    memset(copy, 0xa5, view.bytes + 1);
    enum aw_err err =
        aw_safetensors_copy(file, view.name, view.dtype, view.rank, view.shape, copy, &diag);
    AW_ASSERT(err == (all_finite(&view) ? AW_OK : AW_ERR_DIVERGED));
    AW_ASSERT(copy[view.bytes] == 0xa5);
    if (err) {
        check_refusal(&diag, err);
        for (size_t i = 0; i < view.bytes; i++)
            AW_ASSERT(copy[i] == 0xa5);
    } else {
        found.data = copy;
        AW_ASSERT(read_all(&found) == sum);
    }
    free(copy);

    const uint64_t one[1] = {1};
    err = view.rank ? aw_safetensors_copy(file, view.name, view.dtype, view.rank - 1, view.shape,
                                          NULL, &diag)
                    : aw_safetensors_copy(file, view.name, view.dtype, 1, one, NULL, &diag);
    AW_ASSERT(err == AW_ERR_FORMAT);
    check_refusal(&diag, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct aw_safetensors *file = NULL;
    struct aw_diag diag = {0};
    enum aw_err err = aw_safetensors_parse(data, size, "input", NULL, &file, &diag);
    if (err) {
        check_refusal(&diag, err);
        AW_ASSERT(!file);
        return 0;
    }
    size_t total = 0;
    for (uint32_t i = 0; i < aw_safetensors_count(file); i++)
        check_tensor(file, i, &total);
    uint64_t header;
    memcpy(&header, data, sizeof header);
    AW_ASSERT(total == size - sizeof header - header);
    for (uint32_t i = 0; i < aw_safetensors_meta_count(file); i++)
        AW_ASSERT(aw_safetensors_meta(file, aw_safetensors_meta_key(file, i)));
    aw_safetensors_close(file);
    return 0;
}
