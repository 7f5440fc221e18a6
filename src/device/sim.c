/* sim.c - simulated GPUs: a clock that moves late, and power that follows it. */
#include "device/sim.h"

#include <stdio.h>

/* A Tesla V100 of 16 GB: 135 to 1380 MHz in steps of 7.5, which the driver shows rounded; idle with
 * a model loaded 45 W at its usual clock and 33 W locked low; limit 100 to 300 W. */
#define CLOCK_MIN 135u
#define CLOCK_MAX 1380u
#define STEP_X2   15u
#define IDLE_LOW  33000.0
#define IDLE_HIGH 45000.0
#define BUSY_MW   250000.0 /* at the highest clock, all of it */
#define LIMIT_MIN 100000u
#define LIMIT_MAX 300000u
#define SWITCH_US 20000

struct device {
    uint32_t clock_mhz, target_mhz;
    int64_t moves_us; /* when the clock becomes the target; 0: it is */
    uint32_t limit_mw, busy_permille;
    bool set;
    int64_t at_us; /* until here energy is counted */
    double energy_uj;
    struct aw_device_reading before; /* what a lagging sensor shows */
    struct aw_device_sim_fault fault;
};

struct aw_device_sim {
    struct aw_device_sim_config config;
    const struct aw_alloc *alloc;
    struct device device[AW_DEVICES_MAX];
};

enum aw_err aw_device_sim_new(const struct aw_device_sim_config *config,
                              const struct aw_alloc *alloc, struct aw_device_sim **ret_sim)
{
    AW_ASSERT(config->count && config->count <= AW_DEVICES_MAX);
    struct aw_device_sim *sim = aw_alloc_new(alloc, 1, sizeof *sim);
    if (!sim)
        return AW_ERR_NOMEM;
    sim->config = *config;
    sim->config.switch_us = config->switch_us ? config->switch_us : SWITCH_US;
    sim->alloc = alloc;
    for (uint32_t i = 0; i < config->count; i++)
        sim->device[i] = (struct device){.clock_mhz = CLOCK_MAX,
                                         .target_mhz = CLOCK_MAX,
                                         .limit_mw = LIMIT_MAX,
                                         .at_us = INT64_MIN};
    *ret_sim = sim;
    return AW_OK;
}

static double idle_mw(uint32_t mhz)
{
    return IDLE_LOW + (IDLE_HIGH - IDLE_LOW) * (mhz - CLOCK_MIN) / (CLOCK_MAX - CLOCK_MIN);
}

static uint32_t running_mhz(const struct device *device)
{
    const uint32_t most = device->fault.throttled_mhz;
    return most && most < device->clock_mhz ? most : device->clock_mhz;
}

/* Voltage falls with the clock, so what is busy draws about its cube over half of the range. */
static double power_mw(const struct device *device)
{
    const uint32_t mhz = running_mhz(device);
    const double share = (double)mhz / CLOCK_MAX, idle = idle_mw(mhz);
    const double busy = (BUSY_MW - IDLE_HIGH) * (0.35 * share + 0.65 * share * share * share);
    const double power = idle + busy * device->busy_permille / 1000.0;
    return power > device->limit_mw ? device->limit_mw : power;
}

static void advance(struct device *device, int64_t now_us)
{
    if (device->at_us == INT64_MIN)
        device->at_us = now_us;
    if (device->moves_us && device->moves_us <= now_us) {
        if (device->moves_us > device->at_us) {
            device->energy_uj +=
                power_mw(device) * (double)(device->moves_us - device->at_us) / 1e3;
            device->at_us = device->moves_us;
        }
        device->clock_mhz = device->target_mhz;
        device->moves_us = 0;
    }
    if (now_us > device->at_us) {
        device->energy_uj += power_mw(device) * (double)(now_us - device->at_us) / 1e3;
        device->at_us = now_us;
    }
}

static enum aw_err reach(struct aw_device_sim *sim, uint32_t index, bool to_set, int64_t now_us,
                         struct device **ret, struct aw_diag *diag)
{
    AW_ASSERT(index < sim->config.count);
    struct device *device = &sim->device[index];
    advance(device, now_us);
    if (device->fault.lost)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "simulated device %u is lost", index);
    if (to_set && device->fault.no_permission)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "setting clocks is not permitted here");
    *ret = device;
    return AW_OK;
}

static uint32_t count(void *self)
{
    return ((struct aw_device_sim *)self)->config.count;
}

static enum aw_err describe(void *self, uint32_t index, struct aw_device_info *ret_info,
                            struct aw_diag *diag)
{
    struct aw_device_sim *sim = self;
    AW_ASSERT(index < sim->config.count);
    if (sim->device[index].fault.lost)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "simulated device %u is lost", index);
    struct aw_device_info info = {.name = "simulated V100",
                                  .capabilities = AW_DEVICE_SETS_CLOCK | AW_DEVICE_SETS_LIMIT |
                                                  AW_DEVICE_IS_GPU,
                                  .clock_mhz_min = CLOCK_MIN,
                                  .clock_mhz_max = CLOCK_MAX,
                                  .limit_mw_min = LIMIT_MIN,
                                  .limit_mw_max = LIMIT_MAX,
                                  .limit_mw_default = LIMIT_MAX,
                                  .switch_us = sim->config.switch_us};
    snprintf(info.id, sizeof info.id, "sim%u", index);
    for (uint32_t x2 = 2 * CLOCK_MIN; x2 <= 2 * CLOCK_MAX; x2 += STEP_X2)
        info.clock_mhz[info.clock_count++] = x2 / 2;
    *ret_info = info;
    return AW_OK;
}

static enum aw_err read_one(void *self, uint32_t index, int64_t now_us,
                            struct aw_device_reading *ret_reading, struct aw_diag *diag)
{
    struct device *device = NULL;
    enum aw_err err = reach(self, index, false, now_us, &device, diag);
    if (err)
        return err;
    const uint32_t mhz = running_mhz(device);
    const bool busy = device->busy_permille > 0;
    struct aw_device_reading reading = {
        .at_us = now_us,
        .known = AW_DEVICE_CLOCK | AW_DEVICE_POWER | AW_DEVICE_ENERGY | AW_DEVICE_REASONS |
                 AW_DEVICE_LIMIT | AW_DEVICE_BUSY,
        .clock_mhz = mhz,
        .power_mw = (uint32_t)power_mw(device),
        .energy_uj = (uint64_t)device->energy_uj,
        .limit_mw = device->limit_mw,
        .busy_permille = device->busy_permille,
        .reasons = (busy ? 0u : AW_DEVICE_REASON_IDLE) |
                   (device->set ? AW_DEVICE_REASON_SETTING : 0u) |
                   (mhz < device->clock_mhz ? AW_DEVICE_REASON_HEAT : 0u)};
    if (device->fault.lag_us && device->before.known &&
        now_us - device->before.at_us < device->fault.lag_us) {
        *ret_reading = device->before;
        ret_reading->at_us = now_us; /* a sensor does not say how old its figure is */
        return AW_OK;
    }
    device->before = reading;
    *ret_reading = reading;
    return AW_OK;
}

static enum aw_err set_clock(void *self, uint32_t index, uint32_t mhz, int64_t now_us,
                             struct aw_diag *diag)
{
    struct aw_device_sim *sim = self;
    struct device *device = NULL;
    enum aw_err err = reach(sim, index, true, now_us, &device, diag);
    if (err)
        return err;
    const uint32_t off = 2 * mhz - 2 * CLOCK_MIN; /* halves are shown rounded down */
    if (mhz < CLOCK_MIN || mhz > CLOCK_MAX || (off % STEP_X2 && (off + 1) % STEP_X2))
        return aw_fail(diag, AW_ERR_RANGE, "expected %u to %u MHz in steps of 7.5, found %u",
                       CLOCK_MIN, CLOCK_MAX, mhz);
    if (device->fault.ignores)
        return AW_OK;
    device->target_mhz = mhz;
    device->moves_us = now_us + sim->config.switch_us;
    device->set = true;
    return AW_OK;
}

static enum aw_err set_limit(void *self, uint32_t index, uint32_t mw, int64_t now_us,
                             struct aw_diag *diag)
{
    struct device *device = NULL;
    enum aw_err err = reach(self, index, true, now_us, &device, diag);
    if (err)
        return err;
    if (mw < LIMIT_MIN || mw > LIMIT_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected %u to %u mW, found %u", LIMIT_MIN, LIMIT_MAX,
                       mw);
    if (!device->fault.ignores)
        device->limit_mw = mw;
    return AW_OK;
}

static enum aw_err reset(void *self, uint32_t index, int64_t now_us, struct aw_diag *diag)
{
    struct device *device = NULL;
    enum aw_err err = reach(self, index, true, now_us, &device, diag);
    if (err)
        return err;
    device->target_mhz = CLOCK_MAX;
    device->moves_us = now_us + ((struct aw_device_sim *)self)->config.switch_us;
    device->limit_mw = LIMIT_MAX;
    device->set = false;
    return AW_OK;
}

static void close_all(void *self)
{
    struct aw_device_sim *sim = self;
    aw_alloc_free(sim->alloc, sim);
}

static const struct aw_device_ops ops = {.name = "sim",
                                         .count = count,
                                         .describe = describe,
                                         .read = read_one,
                                         .set_clock = set_clock,
                                         .set_limit = set_limit,
                                         .reset = reset,
                                         .close = close_all};

struct aw_devices aw_device_sim_devices(struct aw_device_sim *sim)
{
    return (struct aw_devices){&ops, sim};
}

void aw_device_sim_fault(struct aw_device_sim *sim, uint32_t index,
                         const struct aw_device_sim_fault *fault)
{
    AW_ASSERT(index < sim->config.count);
    sim->device[index].fault = *fault;
}

void aw_device_sim_busy(struct aw_device_sim *sim, uint32_t index, uint32_t permille,
                        int64_t now_us)
{
    AW_ASSERT(index < sim->config.count && permille <= 1000);
    advance(&sim->device[index], now_us);
    sim->device[index].busy_permille = permille;
}
