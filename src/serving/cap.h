/*
 * cap.h - a cap in watts over devices, split by what each watt is worth to SLOs, and kept.
 *
 * What a device may draw is bounded by its clock alone: the worst busy power of the profile at that
 * clock, with the profile's error on top. Power sensors average, lag and lie, so none is asked.
 * Clocks go down before others go up: a raise is allowed only if the sum holds with every other
 * device at the highest clock that it may still have, read back or on its way. A device that does
 * not follow counts at the clock that it shows, and the others make room, with one device's worth
 * to spare. A lost device counts at its last clock until it is seen again. So a cap that falls is
 * kept after two switching latencies: one to lower and see who did not follow, one to make room.
 *
 * Call order: init; tick when the cap, wishes or readings change, and a latency after; the sets
 *             that it asks for are made at once, each twice: a set may be ignored silently.
 * Memory:     the caller's struct. Threads: single owner. Pure: time and readings are arguments.
 */
#ifndef AW_SERVING_CAP_H
#define AW_SERVING_CAP_H

#include "serving/catalog.h"

#define AW_CAP_DEVICES_MAX 64u
#define AW_CAP_LEVELS      24u /* steps between the smallest and the largest clock */

struct aw_cap_device {
    double read_x; /* the clock as read back; NAN: the device is lost */
    double want_x; /* by the rule */
    double need_x; /* below it SLOs are missed */
    double weight; /* of its misses: requests/s */
};
struct aw_cap {
    const struct aw_gpu_kind *kind;
    uint32_t devices;
    double bound;                        /* of true power over the profile: 1.1 */
    double level_w[AW_CAP_LEVELS + 1];   /* at equal steps of the clock */
    double last_x[AW_CAP_DEVICES_MAX];   /* read back last */
    double target_x[AW_CAP_DEVICES_MAX]; /* set last */
    double set_at_s[AW_CAP_DEVICES_MAX];
    double switch_s;
};
/* All devices are taken to be at `x`. */
void aw_cap_init(struct aw_cap *cap, const struct aw_gpu_kind *kind, uint32_t devices, double x,
                 double bound, double switch_s);
/* The most that a device at this clock may draw. */
double aw_cap_watts(const struct aw_cap *cap, double x);
/* `ret_x` [devices]: the clock to set, or NAN for none. False: even the smallest clocks, with those
 * that do not follow, are above the cap; all that can be done is done. */
bool aw_cap_tick(struct aw_cap *cap, double now_s, double cap_w, const struct aw_cap_device *device,
                 double *ret_x);
/* Clocks whose bounds sum up to `budget_w` at most: from the smallest clock on, the next step goes
 * to the device where it saves the most SLO loss for a watt. Devices with `held` keep `ret_x`. */
void aw_cap_split(const struct aw_cap *cap, const struct aw_cap_device *device, const bool *held,
                  double budget_w, double *ret_x);

#endif
