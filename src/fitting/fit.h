/*
 * fit.h - an application from measurements: what a request must cost so that the fast model answers
 * as the real one did.
 *
 * A row says how many requests a replica of a size had, and how long they took on average. Sought
 * are CPU time per request, its variability, waiting, parallelism and threads, and how bursty the
 * arrivals were, by the least absolute error of ln(mean latency) through the steady state of
 * surrogate.h on a part of the rows; errors are reported on the other rows. The search is
 * Nelder-Mead from several starts for each number of threads.
 *
 * How long requests take beyond saturation depends on how long clients kept pushing, which rows do
 * not tell. Such rows are still worth something: they say that the load was too much. So beyond the
 * capacity the model answers with the median of the saturated rows it learns from.
 *
 * Call order: aw_fit_read (or rows of your own), aw_fit_run once per group, aw_fit_rows_deinit.
 * Memory:     the rows are one block; a fit is a plain struct.
 * Threads:    no shared state. Same rows and seed, same fit.
 */
#ifndef AW_FITTING_FIT_H
#define AW_FITTING_FIT_H

#include "cluster/surrogate.h"
#include "workload/trace.h"

#define AW_FIT_ROWS_MAX     (1u << 20)
#define AW_FIT_GROUPS_MAX   64u
#define AW_FIT_SETTINGS_MAX 256u
#define AW_FIT_NAME_MAX     48u

/* One measurement. NAN: not measured. */
struct aw_fit_row {
    double rate_per_s;       /* of one replica; 0: requests came one at a time */
    double latency_ms;       /* mean */
    double replicas;         /* over which the load was spread */
    double cores;            /* of a replica */
    double memory_limit_mib; /* of a replica */
    double memory_used_mib;  /* of a replica */
    double cores_used;       /* of a replica */
    uint32_t group;          /* what is fitted separately, e.g. a function */
    uint32_t setting;        /* equal replicas, cores and memory limit */
};

struct aw_fit_rows {
    uint32_t row_count, group_count, setting_count;
    struct aw_fit_row *row;
    char group[AW_FIT_GROUPS_MAX][AW_FIT_NAME_MAX];
    struct aw_trace_report report; /* of rows that could not be read */
    const struct aw_alloc *alloc;
};

/* Reads a CSV file whose first line names its columns; the names are in fit_read.c. Requests
 * are per minute and of all replicas. Without requests, rows of one size are runs of one request
 * each, and are averaged. AW_ERR_NOTFOUND; AW_ERR_FORMAT: a column that is needed is missing;
 * AW_ERR_NODATA: no row; AW_ERR_LIMIT: too many rows, groups or settings. */
AW_NODISCARD enum aw_err aw_fit_read(const char *path, const struct aw_alloc *alloc,
                                     struct aw_fit_rows *ret, struct aw_diag *diag);
void aw_fit_rows_deinit(struct aw_fit_rows *rows); /* a zeroed one is a no-op */

struct aw_fit_config {
    uint64_t seed;      /* of the split and of the starts */
    double train_share; /* of the rows, (0, 1) */
    uint32_t starts;    /* of the search, per number of threads */
};

/* The load at which latency doubles, per replica. */
struct aw_fit_knee {
    double replicas, cores, memory_limit_mib;
    uint32_t row_count;
    double measured_per_s, model_per_s;
};

struct aw_fit {
    struct aw_segment segment; /* what was sought, under the name given */
    double saturated_ms;       /* NAN: no row was saturated */
    double burstiness;         /* of the arrivals it was measured under: 1 Poisson, 0 paced */
    uint32_t train_count, test_count;
    /* On the rows that were not learned from: relative error of mean latency. */
    uint32_t below_count, saturated_count; /* by the measured knee of their setting */
    double below_median, below_p90;        /* NAN: no such row */
    double constant_median; /* the same, had the median of the training rows been said each time */
    double train_median;    /* of the rows it did learn from, below saturation */
    double told_apart;      /* share of test rows on the right side of saturation */
    double cpu_median;      /* error of CPU used; NAN: not measured */
    double memory_median;   /* error of memory used; NAN: not measured */
    uint32_t knee_count, knee_near_count; /* near: within 20 % */
    struct aw_fit_knee knee[AW_FIT_SETTINGS_MAX];
    uint32_t evaluations;
};

/* Fits the rows of one group. AW_ERR_NODATA: fewer than AW_FIT_ROWS_MIN of them. */
#define AW_FIT_ROWS_MIN 10u
AW_NODISCARD enum aw_err aw_fit_run(const struct aw_fit_config *config,
                                    const struct aw_fit_rows *rows, uint32_t group,
                                    const char *name, const struct aw_alloc *alloc,
                                    struct aw_fit *ret_fit, struct aw_diag *diag);

/* How it was measured. `saturated_ms` NAN: a saturated replica answers as one that is all but
 * saturated. */
struct aw_fit_world {
    double saturated_ms;
    double burstiness; /* of arrivals: 1 Poisson, 0 paced; see fit.c */
};
/* What the model says of a replica with this appetite: mean milliseconds. */
double aw_fit_latency_ms(const struct aw_demand *demand, const struct aw_fit_world *world,
                         double cores, double rate_per_s);

#endif
