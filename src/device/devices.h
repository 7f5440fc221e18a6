/*
 * devices.h - the backends of aware/device.h, opened by name.
 *
 *     nvml, nvml:LIBRARY    NVIDIA GPUs through libnvidia-ml.so.1, which is loaded at run time
 *     cpufreq, cpufreq:DIR  CPU frequency policies below DIR (/sys)
 *     sim, sim:N            N simulated GPUs (device/sim.h)
 *     recorded:FILE         what `aware gpu watch --output csv` once wrote; sets nothing
 *     helper:SOCKET         the devices of a helper process (device/helper.h)
 *     auto                  nvml where its library is there, else cpufreq where it has policies
 *
 * Call order: open, then aware/device.h, then close.
 * Memory:     one block at open.
 * Threads:    one owner per backend; NVML's library is loaded once and stays.
 */
#ifndef AW_DEVICE_DEVICES_H
#define AW_DEVICE_DEVICES_H

#include "base/alloc.h"

#include <aware/device.h>

#define AW_DEVICES_SPEC_MAX 512u

/* AW_ERR_USAGE: no such backend. AW_ERR_NODATA: it is there and has no devices. AW_ERR_UNAVAILABLE:
 * library, driver or folder is not there; the diagnostic says what to do about it. `ret_devices` is
 * untouched on failure. */
AW_NODISCARD enum aw_err aw_devices_open(const char *spec, const struct aw_alloc *alloc,
                                         struct aw_devices *ret_devices, struct aw_diag *diag);
void aw_devices_close(struct aw_devices *devices); /* a zeroed one is a no-op */

/* Library NULL: libnvidia-ml.so.1, as the system finds it. */
AW_NODISCARD enum aw_err aw__nvml_open(const char *library, const struct aw_alloc *alloc,
                                       struct aw_devices *ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__cpufreq_open(const char *sysfs, const struct aw_alloc *alloc,
                                          struct aw_devices *ret, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw__recorded_open(const char *path, const struct aw_alloc *alloc,
                                           struct aw_devices *ret, struct aw_diag *diag);

/* The line above a recording, and one line of it (without its newline): what recorded: reads. */
#define AW_DEVICE_CSV_HEAD \
    "at_us,device,name,clock_mhz,power_mw,energy_uj,reasons,limit_mw,busy_permille,temperature_c"
#define AW_DEVICE_CSV_LINE_MAX 512u
const char *aw_device_csv_line(const struct aw_device_info *info,
                               const struct aw_device_reading *reading, char *buf, size_t size);

#endif
