/*
 * pool.h - applications and their loads, as the verbs pretrain, embed and adapt take them.
 *
 * Of a trace with many functions each application has one, by rank: odd ranks for applications
 * below AW__POOL_TEST_FIRST, which models are taught and chosen on, even ranks for those from there
 * on, which they are reported on. What is reported on shares no load with what was learned from.
 *
 * Call order: open; make, as a hook of pretraining; close.
 * Memory:     the loads of one trace.
 * Threads:    read-only after open.
 */
#ifndef AW_CLI_POOL_H
#define AW_CLI_POOL_H

#include <aware/err.h>

#include "workload/trace.h"

#define AW__POOL_RANKS      100u /* applications so far apart have the same function */
#define AW__POOL_TEST_FIRST 800u
#define AW__POOL_TRACE      "azure_functions_2019_fullday/f1250_inv.csv" /* below AWARE_DATA_DIR */

struct aw__pool {
    char load[1024];           /* as it was given; of a file without its folders: `shown` */
    const char *shown;         /* into load */
    bool pattern;              /* generated anew for each application */
    struct aw_trace_pack pack; /* otherwise */
};

/* `load` NULL: the trace in AWARE_DATA_DIR. On failure zeroed. */
AW_NODISCARD enum aw_err aw__pool_open(struct aw__pool *pool, const char *load,
                                       struct aw_diag *diag);
void aw__pool_close(struct aw__pool *pool); /* a zeroed one is a no-op */
/* For aw_pretrain_config.load_make, with a struct aw__pool as context. */
enum aw_err aw__pool_make(void *pool, uint32_t app, const struct aw_alloc *alloc,
                          struct aw_load *ret_load, struct aw_diag *diag);

/* "[SEED:]FIRST-LAST", or "SEED:N" for the first N; `key` is the option. Without a seed `ret_seed`
 * stays as it is. */
AW_NODISCARD enum aw_err aw__pool_range(const char *text, const char *key, uint64_t *ret_seed,
                                        uint32_t *ret_first, uint32_t *ret_count,
                                        struct aw_diag *diag);
/* "[SEED:]INDEX". */
AW_NODISCARD enum aw_err aw__pool_app(const char *text, const char *key, uint64_t *ret_seed,
                                      uint32_t *ret_index, struct aw_diag *diag);

#endif
