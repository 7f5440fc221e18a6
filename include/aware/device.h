/*
 * device.h - what a controller may ask of processors whose clock and power can be set: GPUs through
 * NVML, CPUs through cpufreq, simulated ones, recorded ones.
 *
 * Call order: open a backend, count and describe, then per tick: read, decide elsewhere, set_clock
 *             or set_limit; reset before the end; close.
 * Memory:     everything is the caller's. read, set_clock, set_limit and reset never allocate.
 * Threads:    one owner per backend.
 *
 * A set is a wish. The call returns before the clock moves, and power or thermal limits go below
 * it: read back clock and reasons (device/setter.h does). Missing is missing, never zero: no code
 * may use a figure whose bit is not in `known`.
 *
 * The trap: a clock that was set outlives the process that set it. Set through the helper
 * (device/helper.h), which resets when its client is gone, however it went.
 */
#ifndef AWARE_DEVICE_H
#define AWARE_DEVICE_H

#include <aware/err.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

#define AW_DEVICES_MAX       64u
#define AW_DEVICE_CLOCKS_MAX 256u
#define AW_DEVICE_ID_MAX     80u /* "GPU-" and a UUID, or "policy12", with its NUL */
#define AW_DEVICE_NAME_MAX   96u
#define AW_DEVICE_WHY_MAX    160u

/* What a device can do. */
enum {
    AW_DEVICE_SETS_CLOCK = 1u << 0,
    AW_DEVICE_SETS_LIMIT = 1u << 1,
    AW_DEVICE_IS_GPU = 1u << 2,
};

/* Which figures of a reading are there. */
enum {
    AW_DEVICE_CLOCK = 1u << 0,
    AW_DEVICE_POWER = 1u << 1,
    AW_DEVICE_ENERGY = 1u << 2,
    AW_DEVICE_REASONS = 1u << 3,
    AW_DEVICE_LIMIT = 1u << 4,
    AW_DEVICE_BUSY = 1u << 5,
    AW_DEVICE_TEMPERATURE = 1u << 6,
};

/* clang-format off */
/*     name            bit      throttles  text: why a clock is where it is           */
#define AW_DEVICE_REASON_MAP(X)                                                          \
    X(IDLE,            0x1u,    false,     "idle")                                       \
    X(SETTING,         0x2u,    false,     "a clock was set")                            \
    X(POWER_CAP,       0x4u,    true,      "power limit")                                \
    X(SLOWDOWN,        0x8u,    true,      "hardware slowdown")                          \
    X(SYNC,            0x10u,   true,      "slowed with its group")                      \
    X(HEAT,            0x20u,   true,      "too warm")                                   \
    X(HEAT_HARDWARE,   0x40u,   true,      "too hot: hardware slowdown")                 \
    X(POWER_BRAKE,     0x80u,   true,      "power brake")                                \
    X(DISPLAY,         0x100u,  false,     "display clock")
/* clang-format on */
enum aw_device_reason {
#define X(name, bit, throttles, text) AW_DEVICE_REASON_##name = bit,
    AW_DEVICE_REASON_MAP(X)
#undef X
};
/* Reasons for which a clock is below what was asked: never learn from such a sample. */
#define AW_DEVICE_THROTTLED 0xfcu

struct aw_device_info {
    char id[AW_DEVICE_ID_MAX];                /* stable over restarts */
    char name[AW_DEVICE_NAME_MAX];            /* "Tesla V100-SXM2-16GB" */
    uint32_t capabilities;                    /* AW_DEVICE_SETS_* and AW_DEVICE_IS_GPU */
    uint32_t clock_count;                     /* 0: any clock within the two bounds */
    uint32_t clock_mhz[AW_DEVICE_CLOCKS_MAX]; /* rising */
    uint32_t clock_mhz_min, clock_mhz_max;
    uint32_t
        clock_mhz_reset; /* what reset puts back, as it was found; 0: the driver's own choice */
    uint32_t limit_mw_min, limit_mw_max, limit_mw_default; /* 0: none known */
    int64_t switch_us;           /* from a set until the clock has moved; 0: not known */
    char why[AW_DEVICE_WHY_MAX]; /* what it cannot do, and why; "": nothing */
};

struct aw_device_reading {
    int64_t at_us;
    uint32_t known; /* AW_DEVICE_CLOCK | ... */
    uint32_t clock_mhz;
    uint32_t power_mw;
    uint32_t limit_mw;
    uint32_t reasons; /* AW_DEVICE_REASON_* or-ed */
    uint32_t busy_permille;
    uint32_t temperature_c;
    uint32_t reserved;  /* 0 */
    uint64_t energy_uj; /* a counter: only differences mean something */
};

/* All indexes are below count(). AW_ERR_UNAVAILABLE: the device was lost or the driver is gone.
 * AW_ERR_UNSUPPORTED: this device cannot. AW_ERR_CONFLICT: not permitted to this process, or
 * somebody else controls it; the diagnostic says which. Outputs are untouched on failure. */
struct aw_device_ops {
    const char *name; /* "nvml" */
    uint32_t (*count)(void *self);
    enum aw_err (*describe)(void *self, uint32_t index, struct aw_device_info *ret_info,
                            struct aw_diag *diag);
    enum aw_err (*read)(void *self, uint32_t index, int64_t now_us,
                        struct aw_device_reading *ret_reading, struct aw_diag *diag);
    /* `mhz` is one of the device's clocks: a backend that has a list refuses others
     * (AW_ERR_RANGE). Returns before the clock has moved. */
    enum aw_err (*set_clock)(void *self, uint32_t index, uint32_t mhz, int64_t now_us,
                             struct aw_diag *diag);
    enum aw_err (*set_limit)(void *self, uint32_t index, uint32_t mw, int64_t now_us,
                             struct aw_diag *diag);
    /* Clock and limit as the system would have them. Idempotent; never called in vain. */
    enum aw_err (*reset)(void *self, uint32_t index, int64_t now_us, struct aw_diag *diag);
    void (*close)(void *self); /* resets nothing */
};

struct aw_devices {
    const struct aw_device_ops *ops;
    void *self;
};

/* The clock of the device's list nearest to `mhz` (the lower of two), within its bounds. */
uint32_t aw_device_clock_near(const struct aw_device_info *info, uint32_t mhz);
/* "power limit, too warm"; "-" for none. Returns `buf`. */
const char *aw_device_reasons_text(uint32_t reasons, char *buf, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
