/* safetensors_internal.h - what the reader and the writer share. */
#ifndef AW_NN_SAFETENSORS_INTERNAL_H
#define AW_NN_SAFETENSORS_INTERNAL_H

#include "nn/safetensors.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"

#define AW__SAFETENSORS_META "__metadata__" /* the one key that is not a tensor */

/* Bytes of a tensor; false when rank, product or size are beyond all bounds. */
bool aw__safetensors_bytes(enum aw_dtype dtype, uint32_t rank, const uint64_t *shape,
                           size_t *ret_bytes);

/* AW_ERR_DIVERGED naming the first element that is not finite; integers always pass. */
enum aw_err aw__safetensors_check_finite(const char *file_name, const char *tensor_name,
                                         enum aw_dtype dtype, const void *data, size_t bytes,
                                         struct aw_diag *diag);

/* What one entry adds to a seal. Sums of these do not depend on the order of entries; each is
 * another number as soon as one bit of its entry is. */
static inline uint64_t aw__safetensors_sum_tensor(const char *name, enum aw_dtype dtype,
                                                  uint32_t rank, const uint64_t *shape,
                                                  const void *data, size_t bytes)
{
    uint64_t h = aw_hash_text(AW_HASH_BEGIN, name);
    h = aw_hash_byte(h, '\0');
    h = aw_hash_text(h, aw_dtype_name(dtype));
    h = aw_hash_bytes(h, shape, rank * sizeof *shape);
    return aw_hash_bytes(h, data, bytes);
}

static inline uint64_t aw__safetensors_sum_meta(const char *key, const char *value)
{
    return aw_hash_text(aw_hash_byte(aw_hash_text(AW_HASH_BEGIN, key), '\0'), value);
}

#define AW__SAFETENSORS_SEAL_MAX 20u /* bytes of a seal as text, with its NUL */
static inline void aw__safetensors_seal_text(uint64_t sum, char text[AW__SAFETENSORS_SEAL_MAX])
{
    snprintf(text, AW__SAFETENSORS_SEAL_MAX, "%016" PRIx64, sum);
}

#endif
