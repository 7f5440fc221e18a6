/*
 * sim.h - simulated GPUs behind aware/device.h, with every fault that real ones have.
 *
 * A stand-in for rehearsing controllers and for machines without a GPU: the clock moves `switch_us`
 * after a set, energy is the integral of power over the time that callers pass in, and idle power
 * falls with the clock. Its constants are those of one card (V100, 16 GB); simulations that are
 * measured against data have profiles of their own.
 *
 * Call order: new, faults at any time, aware/device.h; close through the devices frees it.
 * Memory:     one block.
 * Threads:    one owner.
 */
#ifndef AW_DEVICE_SIM_H
#define AW_DEVICE_SIM_H

#include "base/alloc.h"

#include <aware/device.h>

struct aw_device_sim_config {
    uint32_t count;    /* at most AW_DEVICES_MAX */
    int64_t switch_us; /* 0: 20 ms */
};

/* What goes wrong with one device; zeroed: nothing. */
struct aw_device_sim_fault {
    bool lost;              /* every call fails */
    bool no_permission;     /* sets fail */
    bool ignores;           /* sets succeed, and nothing happens */
    uint32_t throttled_mhz; /* the clock stays below it, whatever was set; 0: it does not */
    int64_t lag_us;         /* readings are this old */
};

struct aw_device_sim;
AW_NODISCARD enum aw_err aw_device_sim_new(const struct aw_device_sim_config *config,
                                           const struct aw_alloc *alloc,
                                           struct aw_device_sim **ret_sim);
struct aw_devices aw_device_sim_devices(struct aw_device_sim *sim);
void aw_device_sim_fault(struct aw_device_sim *sim, uint32_t index,
                         const struct aw_device_sim_fault *fault);
/* How busy it is from now on. */
void aw_device_sim_busy(struct aw_device_sim *sim, uint32_t index, uint32_t permille,
                        int64_t now_us);

#endif
