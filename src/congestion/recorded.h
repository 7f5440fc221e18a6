/*
 * recorded.h - bandwidth of real network paths over time, from files.
 *
 * `traces.csv`: run_id, time_s, bandwidth_mbps, in any order of columns, rows of a run in order of
 * time. If there is a `runs.csv` in the same folder (or the file is called X-traces.csv and there
 * is X-runs.csv), it says of each run: run_id, and any of kind, site, path, scheme, delay_ms, loss.
 * A file that is runs.csv itself is read with its traces.csv.
 *
 * Call order: read, use, free.
 * Memory:     one object; traces live in it.
 * Threads:    read-only after read.
 *
 * The trap: a recorded bandwidth is what one scheme got through: a lower bound of the link's.
 */
#ifndef AW_CONGESTION_RECORDED_H
#define AW_CONGESTION_RECORDED_H

#include "congestion/link.h"

struct aw_alloc;

#define AW_RECORDED_RUNS_MAX  100000u
#define AW_RECORDED_BYTES_MAX ((size_t)1 << 28)
#define AW_RECORDED_NAME_MAX  96u
#define AW_RECORDED_DELAY_S   0.05 /* one way, where no file says it */
#define AW_BANDWIDTH_MBPS_MIN 0.01
#define AW_BANDWIDTH_MBPS_MAX 1e5

struct aw_recorded_run {
    uint64_t id;
    char kind[16], scheme[24];
    char site[AW_RECORDED_NAME_MAX], path[AW_RECORDED_NAME_MAX];
    double delay_s; /* one way */
    struct aw_bandwidth trace;
};

struct aw_recorded {
    uint32_t count;
    struct aw_recorded_run *run; /* [count] */
    bool described;              /* there was a runs.csv */
    double *time_s, *rate, *served;
    const struct aw_alloc *alloc;
};

/* AW_ERR_FORMAT: file, line, what was expected, what was found. On failure `ret` is zeroed. */
AW_NODISCARD enum aw_err aw_recorded_read(const char *path, const struct aw_alloc *alloc,
                                          struct aw_recorded *ret, struct aw_diag *diag);
void aw_recorded_deinit(struct aw_recorded *recorded); /* a zeroed one is a no-op */

/* The link of a run: its trace and delay, a queue of `queue_bdp` times mean bandwidth x round trip
 * (10 packets at least), and random loss. */
void aw_recorded_link(const struct aw_recorded_run *run, double queue_bdp, double loss,
                      struct aw_link *ret_link);

#endif
