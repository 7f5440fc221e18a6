/*
 * fleet.h - GPUs that serve models, simulated: one event loop over flat arrays.
 *
 * A request goes to the replica with the least predicted work before it, waits there in the order
 * of order.h, and is served alone and to its end. Its progress follows the clock, which changes a
 * switching latency after it was set, if the set did not fail. Power is that of the laws in gpu.h;
 * every joule is booked as busy (to a request) or idle (to the device), and the sum is the counter.
 *
 * Who sets clocks is power.h. The simulation knows true work; a controller sees predictions, and a
 * profile that may be wrong.
 *
 * Call order: new with a world; run any number of times with other settings; free.
 * Memory:     all at new; run allocates nothing.
 * Threads:    single owner. The same settings and seed give the same bytes.
 */
#ifndef AW_SERVING_FLEET_H
#define AW_SERVING_FLEET_H

#include "base/rng.h"
#include "serving/catalog.h"
#include "serving/order.h"
#include "serving/power.h"

#define AW_FLEET_DEVICES_MAX 64u
#define AW_FLEET_MODELS_MAX  64u
#define AW_FLEET_WAITING_MAX 4096u /* requests that wait at one device; more are lost */

/* What arrives, sorted by time. Arrays of `count`, the caller's. */
struct aw_fleet_load {
    uint32_t count;
    double length_s;
    double *arrival_s;
    uint16_t *model;
    float *work_s;  /* true, at the largest clock */
    float *guess_s; /* predicted: the median */
    float *high_s;  /* predicted: nine of ten take no longer */
    float *tokens;  /* of the answer, for joules per token */
};

struct aw_fleet_world {
    const struct aw_gpu_kind *kind;
    uint32_t devices, models;
    double memory[AW_FLEET_MODELS_MAX]; /* m, true */
    double slo_s[AW_FLEET_MODELS_MAX];  /* from arrival to end */
    double weights_gb[AW_FLEET_MODELS_MAX];
    uint64_t replicas[AW_FLEET_MODELS_MAX]; /* bits of devices that hold the model */
};

struct aw_fleet_now {
    uint32_t devices;
    double watts, energy_j;
    uint64_t done, missed, tokens;
    double clock_mhz[AW_FLEET_DEVICES_MAX], power_w[AW_FLEET_DEVICES_MAX];
    uint32_t waiting[AW_FLEET_DEVICES_MAX];
    bool busy[AW_FLEET_DEVICES_MAX], parked[AW_FLEET_DEVICES_MAX];
};

struct aw_fleet_settings {
    struct aw_serving_order order;
    struct aw_power_settings power;
    double switch_s;      /* from a set to its effect */
    double failed_share;  /* of sets do nothing */
    double thermal_share; /* of seconds in which a device may not go above thermal_x */
    double thermal_x;
    double load_s; /* to bring models back to a parked device */
    bool released; /* a parked device is not ours any more: it draws nothing here */
    uint64_t seed;
    /* Called every `track_s` of simulated time, if not NULL; false stops. */
    double track_s;
    bool (*track)(void *ctx, double now_s, const struct aw_fleet_now *now);
    void *track_ctx;
};

struct aw_fleet_result {
    uint64_t requests, done, missed, lost;
    double attainment;
    double energy_j, busy_j, idle_j; /* energy = busy + idle */
    double length_s, mean_w;
    double tokens, switches;
    double latency_mean_s, latency_p50_s, latency_p99_s;
    double busy_share;     /* of device time */
    double active_devices; /* mean number that are not parked */
    double model_j[AW_FLEET_MODELS_MAX];
    uint64_t model_done[AW_FLEET_MODELS_MAX], model_missed[AW_FLEET_MODELS_MAX];
};

struct aw_fleet;
AW_NODISCARD enum aw_err aw_fleet_new(const struct aw_fleet_world *world, uint32_t requests_max,
                                      struct aw_fleet **ret, struct aw_diag *diag);
void aw_fleet_free(struct aw_fleet *fleet);
/* AW_ERR_INTERRUPTED: `track` said so. */
AW_NODISCARD enum aw_err aw_fleet_run(struct aw_fleet *fleet, const struct aw_fleet_load *load,
                                      const struct aw_fleet_settings *settings,
                                      struct aw_fleet_result *ret);

#endif
