/*
 * bed.h - a test bed of real packets: two network namespaces and the link between them.
 *
 * A child process makes two namespaces without a name, a TUN device in each, and forwards what one
 * sends to the other through a relay (relay.h); the way back is a delay. In the first are the
 * senders: paced UDP with a controller of ours, or the kernel's TCP with the congestion control
 * that is asked for. In the second are the receivers. Nothing can leave the two, and all of it is
 * gone when the child ends, however it ends: no name, no file and no process is left.
 *
 * What is measured is measured in the link, the same for all: bytes that came through, how long
 * each packet was on its way there, what was lost.
 *
 * Call order: aw_bed_run.
 * Memory:     the child's.
 * Threads:    the caller's waits; the child has one for the link and one for each sender and all
 *             receivers, at real-time priority where that is allowed.
 *
 * The trap: time is real. A machine that is busy makes the link late; `late` says how much.
 */
#ifndef AW_CONGESTION_BED_H
#define AW_CONGESTION_BED_H

#include "base/latency_histogram.h"
#include "congestion/controller.h"

#define AW_BED_FLOWS_MAX   4u
#define AW_BED_SECONDS_MAX 300.0
#define AW_BED_BIN_S       0.5
#define AW_BED_BINS        600u
#define AW_BED_WORDS_MAX   AW_DIAG_TEXT_MAX

struct aw_bed_flow {
    const char *tcp; /* the kernel's congestion control, "cubic"; NULL: ours */
    const struct aw_controller *controller;
    void *self;     /* the controller's, as aw_wire_init wants it; used in the child alone */
    double start_s; /* after the run has begun */
};

struct aw_bed_plan {
    struct aw_link link;
    double seconds;
    uint64_t seed;
    uint32_t flow_count;
    struct aw_bed_flow flow[AW_BED_FLOWS_MAX];
};

struct aw_bed_seen {
    uint64_t packets, lost, dropped;   /* that came to the link; of them at random; queue full */
    double bits;                       /* that left the link before the end */
    double bin_bits[AW_BED_BINS];      /* the same, each half second */
    struct aw_latency_histogram delay; /* one way, queue and propagation */
    uint64_t halvings;                 /* of silence; ours alone */
};

struct aw_bed_result {
    struct aw_bed_seen flow[AW_BED_FLOWS_MAX];
    struct aw_latency_histogram late; /* packets that left after they were due */
    bool real_time;                   /* the link ran at real-time priority */
    enum aw_err err;                  /* of the child */
    char words[AW_BED_WORDS_MAX];
};

/* False: stop, AW_ERR_INTERRUPTED. */
typedef bool aw_bed_progress(void *ctx, double share);
/* AW_ERR_UNSUPPORTED: this machine or these rights do not allow it; the sentence says what.
 * AW_ERR_NOTFOUND: the kernel has not the congestion control that was asked for. */
AW_NODISCARD enum aw_err aw_bed_run(const struct aw_bed_plan *plan, aw_bed_progress *progress,
                                    void *ctx, struct aw_bed_result *ret, struct aw_diag *diag);

#endif
