/* gru_internal.h - for tests: a cache that takes the way of another processor. */
#ifndef AW_NN_GRU_INTERNAL_H
#define AW_NN_GRU_INTERNAL_H

#include "nn/gru.h"

/* aw_gru_cache_new with large products by packed panels, or by OpenBLAS. */
AW_NODISCARD enum aw_err aw__gru_cache_new(const struct aw_gru *gru, uint32_t T_max, uint32_t B_max,
                                           bool training, bool packed, const struct aw_alloc *alloc,
                                           struct aw_gru_cache **ret_cache);

#endif
