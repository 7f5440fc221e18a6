/*
 * setter.h - wishes of clock and power limit, carried out and read back.
 *
 * A set is asked for and returns at once; step looks whether the clock has moved, sends a wish that
 * was ignored again, and says of every device what became of it. Dry by default: without `act` no
 * call that sets anything is made, and step says what would be.
 *
 * Call order: init, then want and step in any order, finish (resets what was set).
 * Memory:     plain struct; nothing is allocated.
 * Threads:    one owner. Time is an argument.
 */
#ifndef AW_DEVICE_SETTER_H
#define AW_DEVICE_SETTER_H

#include <aware/device.h>

/* clang-format off */
/*     name       text                                                                   */
#define AW_SETTER_STATE_MAP(X)                                                              \
    X(FREE,       "as the system has it")                                                   \
    X(DRY,        "would be set (dry run)")                                                 \
    X(MOVING,     "on its way")                                                             \
    X(DONE,       "set")                                                                    \
    X(HELD,       "set, and held below it by a limit")                                      \
    X(IGNORED,    "asked for and ignored")                                                  \
    X(REFUSED,    "refused")                                                                \
    X(LOST,       "lost")
/* clang-format on */
enum aw_setter_state {
#define X(name, text) AW_SETTER_##name,
    AW_SETTER_STATE_MAP(X)
#undef X
        AW_SETTER_STATES
};
const char *aw_setter_state_text(enum aw_setter_state state);

#define AW_SETTER_TRIES   3u
#define AW_SETTER_WAIT_US 1000000 /* for a clock to move, where the device's latency is unknown */

struct aw_setter_config {
    bool act;               /* false: dry run */
    int64_t wait_us;        /* 0: four times the device's latency, or AW_SETTER_WAIT_US */
    uint32_t tolerance_mhz; /* 0: 15, a step of most GPUs */
};

struct aw_setter_device {
    enum aw_setter_state state;
    uint32_t clock_mhz, limit_mw; /* wished for; 0: nothing */
    uint32_t tries;
    int64_t sent_us, wait_us;
    int64_t moved_us; /* from the last set until it was seen; 0: not yet */
    bool touched;     /* something was set, so reset has work */
    bool read;        /* `reading` is there */
    struct aw_device_reading reading;
    char why[AW_DEVICE_WHY_MAX]; /* of REFUSED and LOST */
};

struct aw_setter {
    struct aw_setter_config config;
    const struct aw_devices *devices;
    uint32_t count;
    uint64_t sets, again, failures; /* calls made; repeated; that failed */
    struct aw_setter_device device[AW_DEVICES_MAX];
};

AW_NODISCARD enum aw_err aw_setter_init(struct aw_setter *setter, const struct aw_devices *devices,
                                        const struct aw_setter_config *config,
                                        struct aw_diag *diag);
/* The same wish again is a no-op. 0: leaves that one as it is. What became of it is the device's
 * state. */
void aw_setter_want(struct aw_setter *setter, uint32_t index, uint32_t clock_mhz, uint32_t limit_mw,
                    int64_t now_us);
/* Reads every device and judges its wish. */
void aw_setter_step(struct aw_setter *setter, int64_t now_us);
/* Resets every device that was touched. The first error; all are tried. */
AW_NODISCARD enum aw_err aw_setter_finish(struct aw_setter *setter, int64_t now_us,
                                          struct aw_diag *diag);

#endif
