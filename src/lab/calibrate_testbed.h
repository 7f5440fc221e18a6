/*
 * calibrate_testbed.h - one application as real processes under real limits, and a load on it.
 *
 * Call order: open, measure as often as you like, close.
 * Memory:     at open; load/drive.h has blocks of its own while it measures.
 * Threads:    single owner; the threads of the cluster and of the load beside it.
 *
 * The trap: other processes of this machine are measured, too.
 */
#ifndef AW_LAB_CALIBRATE_TESTBED_H
#define AW_LAB_CALIBRATE_TESTBED_H

#include "fitting/calibrate.h"

struct aw__testbed; /* opaque */

struct aw__testbed_config {
    const char *app; /* as aware-workload takes it */
    uint32_t replicas_max;
    int64_t cpu_millicores; /* to begin with */
    int64_t memory_bytes;
    uint64_t seed; /* of arrivals */
    /* Called several times a second with what of the present measurement is over, 0 to 1; false
     * ends it: AW_ERR_INTERRUPTED. */
    bool (*goes_on)(void *ctx, double share);
    void *ctx;
};

/* Starts one replica and waits until it answers. AW_ERR_UNSUPPORTED: control groups cannot be
 * written here, nothing was made. On failure everything has ended. */
AW_NODISCARD enum aw_err aw__testbed_open(const struct aw__testbed_config *config,
                                          struct aw__testbed **ret, struct aw_diag *diag);
/* Ends and removes everything. NULL is a no-op. */
void aw__testbed_close(struct aw__testbed *bed);

/* Brings replicas and limits to what the setting says, loads them, and tells what was seen.
 * AW_ERR_CHECK: requests failed. */
AW_NODISCARD enum aw_err aw__testbed_measure(struct aw__testbed *bed,
                                             const struct aw_calibrate_setting *setting,
                                             struct aw_calibrate_figures *ret,
                                             struct aw_diag *diag);

#endif
