/*
 * wire_study.h - controllers of ours and the kernel's TCP over the same real wire (bed.h), as rows.
 *
 * Memory:  one object while it runs.
 * Threads: runs follow each other; each takes the seconds that it takes.
 */
#ifndef AW_CONGESTION_WIRE_STUDY_H
#define AW_CONGESTION_WIRE_STUDY_H

#include <aware/task.h>

#include "congestion/adaptive.h"

#define AW_WIRE_METHODS_MAX 12u
#define AW_WIRE_LINKS_MAX   64u
#define AW_WIRE_NAME_MAX    40u

struct aw_wire_study {
    const char *data;    /* recorded paths (recorded.h); NULL: boxes */
    const char *runs;    /* of them: "3,17"; NULL: of each kind and site the one in the middle */
    double mbps;         /* one box; 0: three boxes */
    double delay_ms;     /* one way, of that box */
    double loss;         /* at random, [0, 1), of boxes and of recorded paths */
    double queue;        /* in bandwidths x round trips */
    const char *methods; /* "adaptive,tcp-bbr"; NULL: AW_WIRE_METHODS */
    const char *beside;  /* a method that has the link first; NULL: none */
    double seconds;      /* of each run */
    uint64_t seed;
};
#define AW_WIRE_METHODS "adaptive,bbr-like,cubic-like,tcp-cubic,tcp-bbr"

/* Rows alone: link, method, throughput_mbps, utilisation, delay_p50_ms, delay_p95_ms, loss,
 * late_p99_ms. Rows beside another: link, method, beside, share, jain, jain_1 .. jain_4 (quarters
 * of the time that both are there), utilisation, delay_p95_ms, loss, late_p99_ms. A method whose
 * congestion control the kernel has not is left out, with a note. */
AW_NODISCARD enum aw_err aw_wire_study_run(const struct aw_wire_study *study,
                                           const struct aw_adaptive_policy *policy,
                                           const struct aw_task_sink *sink, struct aw_diag *diag);
/* (sum x)^2 / (n sum x^2): 1 where all have the same, 1/n where one has all (Jain, 1984). */
double aw_jain(const double *x, uint32_t count);

#endif
