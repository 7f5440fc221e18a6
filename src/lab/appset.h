/*
 * appset.h - applications and their loads, as the verbs pretrain, embed and adapt take them.
 *
 * Of a trace with many functions each application has one, by rank: odd ranks for applications
 * below AW__APPSET_TEST_FIRST, which models are taught and chosen on, even ranks for those from
 * there on, which they are reported on. What is reported on shares no load with what was learned
 * from.
 *
 * Of a file its place there, from 0, stands for the number of an application.
 *
 * Call order: open; make, as a hook of pretraining; close.
 * Memory:     the loads of one trace.
 * Threads:    read-only after open.
 */
#ifndef AW_LAB_APPSET_H
#define AW_LAB_APPSET_H

#include <aware/err.h>

#include "workload/apps.h"
#include "workload/trace.h"

#define AW__APPSET_RANKS      100u /* applications so far apart have the same function */
#define AW__APPSET_TEST_FIRST 800u
/* below AWARE_DATA_DIR */
#define AW_APPSET_TRACE "azure_functions_2019_fullday/f1250_inv.csv"

struct aw_appset {
    char load[1024];           /* as it was given; of a file without its folders: `shown` */
    const char *shown;         /* into load */
    bool pattern;              /* generated anew for each application */
    struct aw_trace_pack pack; /* otherwise */
};

/* `load` NULL: the trace in AWARE_DATA_DIR. On failure zeroed. */
AW_NODISCARD enum aw_err aw_appset_open(struct aw_appset *pool, const char *load,
                                        struct aw_diag *diag);
void aw_appset_close(struct aw_appset *pool); /* a zeroed one is a no-op */
/* The load of application `app`: of a trace the function of its odd or of its even rank. */
AW_NODISCARD enum aw_err aw_appset_load(const struct aw_appset *pool, uint32_t app, bool odd,
                                        const struct aw_alloc *alloc, struct aw_load *ret_load,
                                        struct aw_diag *diag);
/* For aw_pretrain_config.load_make, with a struct aw_appset as context. */
enum aw_err aw_appset_make(void *pool, uint32_t app, const struct aw_alloc *alloc,
                           struct aw_load *ret_load, struct aw_diag *diag);

/* "[SEED:]FIRST-LAST", or "SEED:N" for the first N; `key` is the option. Without a seed `ret_seed`
 * is untouched. */
AW_NODISCARD enum aw_err aw__appset_range(const char *text, const char *key, uint64_t *ret_seed,
                                          uint32_t *ret_first, uint32_t *ret_count,
                                          struct aw_diag *diag);
/* "[SEED:]INDEX". */
AW_NODISCARD enum aw_err aw__appset_app(const char *text, const char *key, uint64_t *ret_seed,
                                        uint32_t *ret_index, struct aw_diag *diag);

struct aw_pretrain_pool;
/* A range as above or, where there is anything but digits, ':' and '-' in it, a file of `aware apps
 * generate` with all that is in it. `ret_pool` points into `text` and `ret_file`, which the caller
 * deinits; both are left as they are on failure. The seed of a file is made of what its
 * applications do. */
AW_NODISCARD enum aw_err aw_appset_pool(const char *text, const char *key,
                                        struct aw_pretrain_pool *ret_pool, struct aw_apps *ret_file,
                                        struct aw_diag *diag);
/* The same of one application: "[SEED:]INDEX", "FILE:NAME", or FILE for its first. */
AW_NODISCARD enum aw_err aw_appset_one(const char *text, const char *key,
                                       struct aw_pretrain_pool *ret_pool, struct aw_apps *ret_file,
                                       struct aw_diag *diag);
/* AW_ERR_USAGE, with the first of `check` that does what one of `learn` does. */
AW_NODISCARD enum aw_err aw_appset_apart(const struct aw_pretrain_pool *learn,
                                         const struct aw_pretrain_pool *check,
                                         struct aw_diag *diag);
/* "1:0-759", or "12 of apps.yaml". Returns `buf`. */
const char *aw_appset_text(const struct aw_pretrain_pool *pool, char *buf, size_t size);

struct aw_pretrain_config;
/* "key=value" of how is taught or of the learner, whichever has the key. */
AW_NODISCARD enum aw_err aw_appset_setting(struct aw_pretrain_config *config, const char *pair,
                                           struct aw_diag *diag);

#endif
