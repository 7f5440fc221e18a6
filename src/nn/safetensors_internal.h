/* safetensors_internal.h - what the reader and the writer share. */
#ifndef AW_NN_SAFETENSORS_INTERNAL_H
#define AW_NN_SAFETENSORS_INTERNAL_H

#include "nn/safetensors.h"

#define AW__SAFETENSORS_META "__metadata__" /* the one key that is not a tensor */

/* Bytes of a tensor; false when rank, product or size are beyond all bounds. */
bool aw__safetensors_bytes(enum aw_dtype dtype, uint32_t rank, const uint64_t *shape,
                           size_t *ret_bytes);

/* AW_ERR_DIVERGED naming the first element that is not finite; integers always pass. */
enum aw_err aw__safetensors_check_finite(const char *file_name, const char *tensor_name,
                                         enum aw_dtype dtype, const void *data, size_t bytes,
                                         struct aw_diag *diag);

#endif
