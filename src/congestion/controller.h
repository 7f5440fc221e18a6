/*
 * controller.h - who chooses a sender's rate, from what it saw in the last monitor interval.
 *
 * Call order: reset once per connection, then next after each interval.
 * Memory:     `self` is `bytes` of the caller's (AW_CONTROLLER_BYTES_MAX suffices for all).
 * Threads:    pure functions of their arguments.
 *
 * The trap: what an interval reports was sent one round trip before, at the rate of that time.
 */
#ifndef AW_CONGESTION_CONTROLLER_H
#define AW_CONGESTION_CONTROLLER_H

#include "congestion/link.h"

#define AW_CONTROLLER_BYTES_MAX 65536u

/* What a controller is told before the first packet. */
struct aw_connection {
    double rate;                 /* packets/s, of the first intervals */
    double rate_min, rate_max;   /* packets/s, the sender's own limits */
    const struct aw_link *truth; /* for the oracle and for ablations; others do not look */
    double remembered; /* packets/s: the best delivery rate of an earlier connection; 0: none */
};

struct aw_controller {
    const char *name;
    const char *summary;
    size_t bytes;
    bool knows; /* reads `truth` or `remembered`: no fair rival of those that do not */
    void (*reset)(void *self, const struct aw_connection *connection);
    double (*next)(void *self, const struct aw_monitor *mi); /* packets/s */
};

extern const struct aw_controller aw_bbr_like, aw_bbr_tuned, aw_cubic_like, aw_vivace, aw_aimd,
    aw_hold_best, aw_hold_start, aw_rate_oracle;

/* Packets/s that arrived in an interval; PCC-RL's `recv rate` counts one packet less. */
double aw_monitor_delivery(const struct aw_monitor *mi);
double aw_monitor_loss(const struct aw_monitor *mi); /* of what became known; 0: nothing */

#endif
