/*
 * store.h - where trajectories are kept: every finished step of every workload, durably.
 *
 * Call order: aw_store_open, then append per step and read in between, aw_store_close. Appends of
 *             one tick may stand between begin and commit: one transaction instead of many.
 * Memory:     rows that are read are written into slices the caller owns; a visitor's row lives
 *             until the visitor returns. "memory" allocates at open alone. SQLite, libcurl and
 *             jansson use the process heap inside.
 * Threads:    one owner per store.
 *
 * A row is known by (workload, episode, step). Appending the same row again is a no-op, so that a
 * run which is resumed from its last checkpoint may play its steps again; appending a different row
 * under the same key is AW_ERR_CONFLICT. An append that has returned AW_OK survives kill -9; one
 * between begin and commit, once commit has returned AW_OK.
 *
 * A step is written when it is finished, and before the next decision: whatever dies, at most the
 * step in flight is lost.
 *
 * The trap: begin and commit are about cost, not about all or nothing. Of a group that was not
 * committed some, all or no rows may be kept; append them again.
 */
#ifndef AWARE_STORE_H
#define AWARE_STORE_H

#include <aware/err.h>
#include <aware/resource.h>
#include <aware/stage.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

#define AW_STORE_NAME_MAX    128u /* bytes of a workload's name, with its NUL */
#define AW_STORE_OBS_MAX     1024u
#define AW_STORE_ACT_MAX     16u
#define AW_STORE_EPISODE_MAX 0x7ffffffeu /* (episode, step) must fit a signed 64-bit time */
#define AW_STORE_BATCH_MAX   4096u       /* rows of one sample */

struct aw_alloc; /* where memory comes from (base/alloc.h); NULL is the process heap */
struct aw_rng;   /* chance (base/rng.h) */

/* What the step was, beyond what a learner reads. NAN: not known. */
struct aw_store_figures {
    double arrivals_per_s;
    double latency_us_p99; /* at the quantile that the SLO speaks of, whichever it is */
    double slo_preservation;
    double cpu_utilisation, memory_utilisation;
    double cost;          /* $ */
    double paper_reward;  /* AWARE section 2.2, whatever the objective is */
    AW_AMOUNTS(amount, ); /* in force at the end; 0: not known */
    uint32_t violated;    /* 0 or 1 */
};

struct aw_store_row {
    const char *workload;
    uint32_t episode, step; /* logical time, from 0 */
    int64_t at_us;          /* wall (or virtual) time of the decision */
    uint32_t stage;         /* enum aw_stage */
    uint32_t actor;         /* enum aw_actor */
    uint64_t policy_id;     /* that was asked; 0: none yet */
    uint32_t obs_dim, act_dim;
    const float *obs;      /* [obs_dim] what was seen */
    const float *action;   /* [act_dim] what was carried out, after guard rails */
    const float *shadow;   /* [act_dim] what the other one would have done; NULL: not asked */
    float reward;          /* of the objective in force */
    const float *next_obs; /* [obs_dim] */
    bool terminated, truncated;
    struct aw_store_figures figures;
};

/* An episode as its rows add up. It has ended when one of them is terminated or truncated. */
struct aw_store_episode {
    uint32_t episode;
    uint32_t step_count;
    double reward_sum, reward_mean;
    uint64_t violation_count;
    int64_t first_us, last_us; /* the earliest and the latest at_us */
    bool ended;
};

struct aw_store_last {
    uint32_t episode, step;
    bool ended; /* that row was terminated or truncated: the next one begins an episode */
};

struct aw_store_counts {
    uint64_t workloads, episodes, rows;
};

/* Rows of one shape, each array [row][dim]; an array that is NULL is not wanted. */
struct aw_store_batch {
    uint32_t obs_dim, act_dim;
    float *obs, *action, *reward, *next_obs;
    bool *terminated;
};

/* Which rows a scan visits. AW_STORE_EVERY is all of them: copy it and narrow it. */
struct aw_store_query {
    const char *workload;                                        /* NULL: all */
    uint32_t episode_first, step_first, episode_last, step_last; /* inclusive, as pairs */
    int64_t from_us, until_us;                                   /* at_us, inclusive */
};
#define AW_STORE_EVERY                                   \
    ((struct aw_store_query){.episode_last = UINT32_MAX, \
                             .step_last = UINT32_MAX,    \
                             .from_us = INT64_MIN,       \
                             .until_us = INT64_MAX})

/* Whole episodes go, never parts, and never the latest episode of a workload. A limit of 0 (of
 * time: INT64_MIN) does not apply. */
struct aw_store_retention {
    uint32_t episodes_max; /* of each workload; the newest stay */
    uint64_t rows_max;     /* of the whole store; what began first goes first */
    int64_t before_us;     /* episodes whose last row is older go */
};

/* Not AW_OK: the walk ends, and returns this. A visitor must not call the store. */
typedef enum aw_err aw_store_visit(void *ctx, const struct aw_store_row *row);
typedef enum aw_err aw_store_visit_name(void *ctx, const char *workload,
                                        const struct aw_store_counts *counts);

enum aw_store_order {
    AW_STORE_NEWEST, /* highest episode number first */
    AW_STORE_BEST,   /* highest sum of rewards first; of equal ones the newer */
};

/* One row of a sample: the `rank`-th row of a workload in the order of keys, wanted at `slot`. */
struct aw_store_pick {
    uint32_t rank, slot;
};

/* What a backend does. Callers use the aw_store_ functions below, which check arguments once for
 * all backends. Everything here sees rows that were appended but not yet committed. */
struct aw_store_ops {
    const char *name; /* "sqlite" */

    /* The row has been checked. See above for what a repeated key means. AW_ERR_LIMIT: full. */
    enum aw_err (*append)(void *self, const struct aw_store_row *row, struct aw_diag *diag);
    /* Never nested. A failure other than CONFLICT and LIMIT between the two loses the group, and
     * commit says so again. */
    enum aw_err (*begin)(void *self, struct aw_diag *diag);
    enum aw_err (*commit)(void *self, struct aw_diag *diag);

    /* Up to `max` ended episodes. AW_OK with 0 for a workload that is not known. */
    enum aw_err (*episodes)(void *self, const char *workload, enum aw_store_order order,
                            uint32_t max, struct aw_store_episode *ret, uint32_t *ret_count,
                            struct aw_diag *diag);
    /* Visits the rows at `picks`, which ascend by rank and are all below the number of rows; the
     * visitor is called in the order of the picks. */
    enum aw_err (*pick)(void *self, const char *workload, const struct aw_store_pick *picks,
                        uint32_t count, aw_store_visit *visit, void *ctx, struct aw_diag *diag);
    /* By workload's name, then episode, then step. */
    enum aw_err (*scan)(void *self, const struct aw_store_query *query, aw_store_visit *visit,
                        void *ctx, struct aw_diag *diag);
    /* AW_ERR_NODATA: no row of this workload. */
    enum aw_err (*last)(void *self, const char *workload, struct aw_store_last *ret,
                        struct aw_diag *diag);
    /* NULL: the whole store. A workload that is not known has none of everything. */
    enum aw_err (*counts)(void *self, const char *workload, struct aw_store_counts *ret,
                          struct aw_diag *diag);
    /* Every workload by name. */
    enum aw_err (*workloads)(void *self, aw_store_visit_name *visit, void *ctx,
                             struct aw_diag *diag);
    enum aw_err (*retain)(void *self, const struct aw_store_retention *retention,
                          uint64_t *ret_rows_dropped, struct aw_diag *diag);
    /* What is kept survives a power cut too, as far as the backend can promise it. */
    enum aw_err (*flush)(void *self, struct aw_diag *diag);
    /* Looks for damage: AW_ERR_FORMAT with what was found. Reads everything. */
    enum aw_err (*check)(void *self, struct aw_diag *diag);
    void (*close)(void *self); /* NULL is a no-op */
};

struct aw_store {
    const struct aw_store_ops *ops; /* no slot is ever NULL */
    void *self;
    bool grouped; /* between begin and commit */
};

/* Zeroed is all defaults. */
struct aw_store_options {
    bool read_only;  /* nothing is created; may be open beside one writer */
    bool power_safe; /* sqlite: each append or commit waits for the disk, see docs/mechanisms/store
                      */
    int64_t timeout_us; /* influx: of one request; 0: AW_STORE_TIMEOUT_US */
    /* memory: what it is made for. 0: the default. */
    uint32_t rows_max, episodes_max, workloads_max, obs_dim_max, act_dim_max;
};
#define AW_STORE_TIMEOUT_US    10000000
#define AW_STORE_MEM_ROWS      65536u
#define AW_STORE_MEM_EPISODES  4096u
#define AW_STORE_MEM_WORKLOADS 64u
#define AW_STORE_MEM_OBS_DIM   64u
#define AW_STORE_MEM_ACT_DIM   4u

/* "memory", "influx+http://[USER:PASSWORD@]HOST:PORT/DATABASE" (or influx+https), or the path of an
 * SQLite file, which is created where it is missing; its folder must exist. AW_ERR_NOTFOUND,
 * AW_ERR_UNAVAILABLE (in use by another process, no answer), AW_ERR_FORMAT (not a store, damaged),
 * AW_ERR_UNSUPPORTED (written by a newer version). On failure `store` is zeroed. */
AW_NODISCARD enum aw_err aw_store_open(struct aw_store *store, const char *url,
                                       const struct aw_store_options *options,
                                       const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_store_close(struct aw_store *store); /* zeroes it; a zeroed one is a no-op */

/* AW_ERR_DIVERGED: a number is not finite (figures may be NAN). AW_ERR_RANGE: an invalid name,
 * shape, stage or actor. AW_ERR_CONFLICT: another row has this key. AW_ERR_LIMIT: memory is full of
 * latest episodes, or the row is larger than it was made for. Nothing was stored then. A zero
 * reward or figure loses its sign. Keys may come in any order; ascending is quickest. */
AW_NODISCARD enum aw_err aw_store_append(struct aw_store *store, const struct aw_store_row *row,
                                         struct aw_diag *diag);
/* A group of appends, e.g. of one tick; reads in between see them. Nested is a bug (AW_ASSERT), and
 * so is commit without begin. After a failed commit the group is over: append its rows again. */
AW_NODISCARD enum aw_err aw_store_begin(struct aw_store *store, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_store_commit(struct aw_store *store, struct aw_diag *diag);

/* Up to `n` ended episodes, the newest last. 0 of them is no failure. */
AW_NODISCARD enum aw_err aw_store_recent_returns(struct aw_store *store, const char *workload,
                                                 uint32_t n, struct aw_store_episode *ret,
                                                 uint32_t *ret_count, struct aw_diag *diag);
/* Up to `m` ended episodes by sum of rewards, the best first; of equal ones the newer. */
AW_NODISCARD enum aw_err aw_store_top_episodes(struct aw_store *store, const char *workload,
                                               uint32_t m, struct aw_store_episode *ret,
                                               uint32_t *ret_count, struct aw_diag *diag);
/* `count` rows drawn uniformly with replacement, into the slices of `batch`. Same generator, same
 * rows, whatever the backend. AW_ERR_NODATA: no row; AW_ERR_FORMAT: a row has another shape (some
 * slices are written then). */
AW_NODISCARD enum aw_err aw_store_sample(struct aw_store *store, const char *workload,
                                         uint32_t count, struct aw_rng *rng,
                                         const struct aw_store_batch *batch, struct aw_diag *diag);
/* The rows of one episode in order, at most `max`; more are AW_ERR_LIMIT. Else as sample. */
AW_NODISCARD enum aw_err aw_store_read_episode(struct aw_store *store, const char *workload,
                                               uint32_t episode, uint32_t max,
                                               const struct aw_store_batch *batch,
                                               uint32_t *ret_count, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_store_scan(struct aw_store *store, const struct aw_store_query *query,
                                       aw_store_visit *visit, void *ctx, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_store_last(struct aw_store *store, const char *workload,
                                       struct aw_store_last *ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_store_counts(struct aw_store *store, const char *workload,
                                         struct aw_store_counts *ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_store_workloads(struct aw_store *store, aw_store_visit_name *visit,
                                            void *ctx, struct aw_diag *diag);
/* Not between begin and commit. `ret_rows_dropped` may be NULL. */
AW_NODISCARD enum aw_err aw_store_retain(struct aw_store *store,
                                         const struct aw_store_retention *retention,
                                         uint64_t *ret_rows_dropped, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_store_flush(struct aw_store *store, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_store_check(struct aw_store *store, struct aw_diag *diag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
