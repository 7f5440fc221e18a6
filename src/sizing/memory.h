/*
 * memory.h - what is remembered of the workloads that were measured, and simple heads upon it.
 *
 * Values are logarithms. The value of a workload on a configuration is a level of the workload, an
 * effect of the configuration, and a rest: y[w][c] = level[w] + effect[c] + rest[w][c]. Each head
 * predicts all configurations from a few measured ones (shots); none of them needs more memory than
 * what `new` made, and all of them work without any workload learned from: effects and covariances
 * are 0 then, and the physical family has an even prior.
 *
 * Call order: new, any of the heads, free.
 * Memory:     one block.
 * Threads:    read-only after new.
 */
#ifndef AW_SIZING_MEMORY_H
#define AW_SIZING_MEMORY_H

#include "sizing/table.h"

#define AW_SIZE_SHOTS_MAX 32u
#define AW__SIZE_SHARES   33u /* of the family: what part of the work is divided */
#define AW__SIZE_KNEES    4u  /* of the family: where more no longer helps */

struct aw_size_shot {
    uint32_t config;
    double value; /* ln */
};

struct aw_size_memory {
    const struct aw_size_table *table;
    const double *value; /* [workload][config] of the table: times, or costs */
    uint32_t config_count, workload_count;
    const uint32_t *workload; /* [workload_count] of the table: what is learned from; copied */
    double *effect;           /* [config]: mean 0 over what was seen */
    double *level;            /* [workload] */
    double *rest;             /* [workload][config]; NAN: not measured */
    double *cov;              /* [config][config] of rests */
    double *near;             /* [config][config]: likeness of features, 1 on the diagonal */
    double *pull;             /* [config]: covariance of level and rest */
    double *principal;        /* [config][AW__SIZE_PRINCIPALS] */
    double level_mean, level_var;
    double rest_var; /* mean over configurations */
    /* the family: log of its shape, [share][knee][config], and how often each was right */
    double *shape;
    double prior[AW__SIZE_SHARES * AW__SIZE_KNEES];
    double family_sd;
    bool family; /* there is an axis that work is divided along */
    void *block;
};
#define AW__SIZE_PRINCIPALS 3u

AW_NODISCARD enum aw_err aw_size_memory_new(const struct aw_size_table *table, const double *value,
                                            const uint32_t *workloads, uint32_t workload_count,
                                            struct aw_size_memory **ret_memory);
void aw_size_memory_free(struct aw_size_memory *memory); /* NULL is a no-op */

/* Heads: ret [config_count] of ln; `ret_sd` may be NULL. Shots are 1 to AW_SIZE_SHOTS_MAX. */
typedef void aw_size_head(const struct aw_size_memory *memory, const struct aw_size_shot *shots,
                          uint32_t count, double *ret, double *ret_sd);
aw_size_head aw_size_flat;      /* the geometric mean of the shots */
aw_size_head aw_size_additive;  /* level of the shots, plus effects */
aw_size_head aw_size_gp;        /* additive, plus rests by their covariance, 30 % shrunk */
aw_size_head aw_size_gp_wide;   /* the same, with likeness of features, and of level and rest */
aw_size_head aw_size_nearest;   /* rests of workloads that fit the shots */
aw_size_head aw_size_two_point; /* a + b/share of a core, by least squares: no memory */
aw_size_head aw_size_physical;  /* the family, with what is known of others as its prior */

#endif
