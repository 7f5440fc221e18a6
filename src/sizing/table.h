/*
 * table.h - measurements of workloads on configurations, as numbers to learn from.
 *
 * A table is one set: workloads in groups (what must generalise is a group: a program, a task, a
 * function), configurations with features, and the logarithm of the time (and of the cost, where it
 * is known) that a workload took on a configuration, the median of its repeats. What was not
 * measured, or failed, is NAN.
 *
 * Call order: aw_size_read (read.c), then look; aw_size_tables_deinit.
 * Memory:     one block for each table.
 * Threads:    read-only after read.
 */
#ifndef AW_SIZING_TABLE_H
#define AW_SIZING_TABLE_H

#include "base/alloc.h"

#define AW_SIZE_NAME_MAX      96u /* bytes, with the NUL */
#define AW_SIZE_FEATURES_MAX  48u /* of a configuration */
#define AW_SIZE_CONTEXT_MAX   8u  /* of a workload, known before it is measured */
#define AW_SIZE_CONFIGS_MAX   512u
#define AW_SIZE_WORKLOADS_MAX 2048u
#define AW_SIZE_SETS_MAX      8u
#define AW_SIZE_BYTES_MAX     ((size_t)256 << 20) /* of a file */
#define AW_SIZE_ROWS_MAX      (1u << 21)          /* of measurements */

struct aw_size_config {
    char name[AW_SIZE_NAME_MAX];
    float feature[AW_SIZE_FEATURES_MAX]; /* mean 0, deviation 1 over the configurations */
    double memory_mb;                    /* NAN: the configuration is not a memory size */
    double price;                        /* ln of USD a second; NAN: not known */
    double parallel; /* what work is divided by: nodes times cores; NAN: not known */
};

struct aw_size_workload {
    char name[AW_SIZE_NAME_MAX];
    uint32_t group;
    bool asked;                         /* it is in the second file: the one to be sized */
    float context[AW_SIZE_CONTEXT_MAX]; /* mean 0, deviation 1 over the workloads */
};

struct aw_size_table {
    char set[AW_SIZE_NAME_MAX];
    uint32_t config_count, workload_count, group_count, feature_count, context_count;
    struct aw_size_config *config;     /* [config_count] */
    struct aw_size_workload *workload; /* [workload_count] */
    char (*group)[AW_SIZE_NAME_MAX];   /* [group_count] */
    double *time;                      /* [workload_count][config_count]: ln of seconds */
    double *cost;                      /* the same: ln of USD; all NAN where nobody knows it */
    bool costs;                        /* some cost is known */
    bool memory;                       /* every configuration is a memory size */
    bool clock;                        /* values are times; false: any figure, lower is better */
    void *block;
};

struct aw_size_tables {
    uint32_t count;
    struct aw_size_table table[AW_SIZE_SETS_MAX];
};

/* Makes an empty table: all values NAN, names empty. */
AW_NODISCARD enum aw_err aw_size_table_init(struct aw_size_table *table, uint32_t configs,
                                            uint32_t workloads, uint32_t groups);
void aw_size_table_deinit(struct aw_size_table *table); /* a zeroed one is a no-op */
void aw_size_tables_deinit(struct aw_size_tables *tables);

/* Brings every feature and context to mean 0 and deviation 1; one that does not vary to 0. */
void aw_size_table_standardise(struct aw_size_table *table);

static inline const double *aw_size_times(const struct aw_size_table *table, uint32_t workload)
{
    return table->time + (size_t)workload * table->config_count;
}

/* As below, of two files with the same columns, in any order; either may be NULL. Workloads of the
 * second are marked as asked about. */
AW_NODISCARD enum aw_err aw_size_read_both(const char *path, const char *asked,
                                           struct aw_size_tables *ret_tables, struct aw_diag *diag);
/* Reads a CSV: one of the known formats, or columns `workload`, a time (`time`, `runtime`,
 * `duration`, `seconds`, ... or `value`), perhaps `cost`, `group` and `set`, and any others, which
 * are the configuration. Failed rows are left out; a row without a time is a configuration that
 * could be measured. AW_ERR_FORMAT names file, line and column;
 * AW_ERR_NODATA: no set has two configurations. */
AW_NODISCARD enum aw_err aw_size_read(const char *path, struct aw_size_tables *ret_tables,
                                      struct aw_diag *diag);

/* USD of an invocation that takes `seconds` at a memory size, on AWS Lambda (x86, us-east-1). */
double aw_size_lambda_usd(double memory_mb, double seconds);

#endif
