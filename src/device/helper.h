/*
 * helper.h - a small process with the right to set clocks, which puts them back when its client is
 * gone: ended, crashed, killed with SIGKILL, or silent for too long.
 *
 * It can do three things: read, set within the device's bounds, reset. One client at a time
 * controls (the first that sets), others may read. When the connection of the one that controls
 * closes, or nothing was heard from it for `watchdog_us`, every device that was touched is reset.
 * What is touched is noted in a file before it is touched: a helper that was killed itself resets
 * at its next start what it finds there.
 *
 * Call order: spawn, before any thread is made; or serve in a process of its own and connect from
 *             others. Both give devices as aware/device.h has them; close ends the connection, and
 *             with it whatever was set.
 * Memory:     plain structs, one block per client connection.
 * Threads:    none. serve owns its process.
 *
 * The trap: a spawned helper is in the same control group. systemd kills both with SIGKILL at the
 * end of a stop that takes too long; a unit of its own (deploy/systemd) does not have that.
 */
#ifndef AW_DEVICE_HELPER_H
#define AW_DEVICE_HELPER_H

#include "base/alloc.h"
#include "base/log.h"

#include <aware/device.h>

#define AW_DEVICE_HELPER_WATCHDOG_US 10000000
#define AW_DEVICE_HELPER_CLIENTS_MAX 16u

struct aw_device_helper_config {
    int64_t watchdog_us;     /* 0: AW_DEVICE_HELPER_WATCHDOG_US */
    const char *state_path;  /* where touched devices are noted; NULL: nowhere */
    struct aw_log *log;      /* every set and reset, with the client's process; NULL: silent */
    const _Atomic int *stop; /* not 0: reset and return; NULL: never */
};

/* Serves until `stop`, or, without a listening socket, until its one client is gone. `listen` or
 * `client` is -1. Touched devices are reset on every way out. */
AW_NODISCARD enum aw_err aw_device_helper_serve(const struct aw_devices *devices, int listen,
                                                int client,
                                                const struct aw_device_helper_config *config,
                                                struct aw_diag *diag);

/* A listening socket for serve: mode 0660, so that a group can be let in. A stale file of a dead
 * helper is replaced. */
AW_NODISCARD enum aw_err aw_device_helper_listen(const char *path, int *ret_fd,
                                                 struct aw_diag *diag);

/* The devices of the helper that listens at `path`. */
AW_NODISCARD enum aw_err aw_device_helper_connect(const char *path, const struct aw_alloc *alloc,
                                                  struct aw_devices *ret, struct aw_diag *diag);

/* A child process that opens `spec` (device/devices.h) and serves this process alone. */
AW_NODISCARD enum aw_err aw_device_helper_spawn(const char *spec,
                                                const struct aw_device_helper_config *config,
                                                const struct aw_alloc *alloc,
                                                struct aw_devices *ret, struct aw_diag *diag);
/* "I am here": resets the watchdog. Only for devices of a helper; a no-op for others. */
void aw_device_helper_beat(const struct aw_devices *devices);

#endif
