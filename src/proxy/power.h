/*
 * power.h - clocks that follow what is left of SLOs: between what the proxy measures and the
 * devices that its model servers run on.
 *
 * The proxy's thread writes down every 100 ms what is in flight and what waits (publish). A thread
 * of its own reads the devices, asks serving/clocks.h, writes every change to the audit log, and
 * only then sets it (device/setter.h): a driver that hangs holds up no stream, and a proxy that
 * hangs makes its figures old, which raises the clocks. Without `act` nothing is set: decisions are
 * made, logged and shown as they would be.
 *
 * If the audit log cannot be written, no clock goes down; raises are made all the same.
 *
 * Call order: start, publish as often as there is news, stop (resets what was set).
 * Memory:     one block at start.
 * Threads:    one of its own. publish, the texts and energy may be called from one other.
 */
#ifndef AW_PROXY_POWER_H
#define AW_PROXY_POWER_H

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "serving/clocks.h"

#include <aware/device.h>

struct aw_audit;

struct aw_proxy_power {
    bool on;
    bool act;                              /* false: dry run */
    struct aw_power_settings rule;         /* of serving/power.h */
    double latency_s, ttft_s, tpot_s;      /* SLOs; 0: none */
    double memory;                         /* m of decoding; 0: 0.5 */
    uint32_t clock_mhz_min, clock_mhz_max; /* bounds; 0: the device's */
    double cap_w, device_cap_w;            /* 0: none */
    struct aw_audit *audit;                /* needed to act; the thread owns it until stop */
};

struct aw__power;
AW_NODISCARD enum aw_err
aw__power_start(struct aw__power **ret, const struct aw_proxy_power *config,
                const struct aw_devices *devices, const uint64_t *device_bits, uint32_t servers,
                struct aw_log *log, const struct aw_alloc *alloc, struct aw_diag *diag);
void aw__power_stop(struct aw__power *power); /* NULL is a no-op */
void aw__power_publish(struct aw__power *power, const struct aw_clocks_server *server,
                       uint32_t count);
/* The clock of the slowest device of a server, over the largest one; 1 while it is not known. */
double aw__power_clock(struct aw__power *power, uint32_t server);
/* What was read last. False: the device did not answer. */
bool aw__power_reading(struct aw__power *power, uint32_t device, struct aw_device_reading *ret);
void aw__power_explain(struct aw__power *power, struct aw_text *text); /* a JSON array */
void aw__power_metrics(struct aw__power *power, struct aw_text *text);

#endif
