/*
 * cpufreq.c - CPU frequency policies of Linux as devices, below any folder that looks like /sys.
 *
 * A clock is the policy's scaling_max_freq: governors and intel_pstate stay as they are and go no
 * higher. Reset writes what it was when the backend was opened. Energy is that of the package
 * (powercap, readable by root alone), said of its first policy only, so that sums count it once;
 * its counter wraps, and goes on here. Virtual machines show neither.
 */
#include "device/devices.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

#define TEXT_MAX 4096u /* of a file in sysfs: a page */
#define KHZ      1000u

struct policy {
    uint32_t number;
    uint32_t min_khz, max_khz, before_khz; /* `before`: as it was at open */
    int64_t switch_us;
    uint32_t clock_count;
    uint32_t clock_mhz[AW_DEVICE_CLOCKS_MAX];
    bool readable_energy;
    uint64_t energy_uj, energy_last, energy_range;
};

struct cpufreq {
    const struct aw_alloc *alloc;
    char root[AW_FILE_PATH_MAX];
    uint32_t count;
    struct policy policy[AW_DEVICES_MAX];
};

static bool text_read(const char *path, char *buf, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t got = read(fd, buf, size - 1);
    (void)close(fd);
    if (got <= 0)
        return false;
    buf[got] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
    return true;
}

static bool number_read(const char *path, uint64_t *ret)
{
    char text[64];
    return text_read(path, text, sizeof text) && !aw_text_parse_u64(text, ret);
}

static const char *policy_path(const struct cpufreq *cpufreq, const struct policy *policy,
                               const char *file, char *buf, size_t size)
{
    snprintf(buf, size, "%.3900s/devices/system/cpu/cpufreq/policy%u/%s", cpufreq->root,
             policy->number, file);
    return buf;
}

static bool policy_number(const struct cpufreq *cpufreq, const struct policy *policy,
                          const char *file, uint64_t *ret)
{
    char path[AW_FILE_PATH_MAX];
    return number_read(policy_path(cpufreq, policy, file, path, sizeof path), ret);
}

static const char *energy_path(const struct cpufreq *cpufreq, const char *file, char *buf,
                               size_t size)
{
    snprintf(buf, size, "%.3900s/class/powercap/intel-rapl:0/%s", cpufreq->root, file);
    return buf;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int by_policy(const void *a, const void *b)
{
    return by_number(&((const struct policy *)a)->number, &((const struct policy *)b)->number);
}

static bool policy_open(struct cpufreq *cpufreq, struct policy *policy)
{
    char path[AW_FILE_PATH_MAX], text[TEXT_MAX];
    uint64_t low, high, before, latency_ns = 0;
    if (!policy_number(cpufreq, policy, "cpuinfo_min_freq", &low) ||
        !policy_number(cpufreq, policy, "cpuinfo_max_freq", &high) ||
        !policy_number(cpufreq, policy, "scaling_max_freq", &before) || !low || high < low ||
        high > UINT32_MAX)
        return false;
    policy->min_khz = (uint32_t)low;
    policy->max_khz = (uint32_t)high;
    policy->before_khz = (uint32_t)(before > high ? high : before);
    /* 4294967295 is the kernel's word for "not known" */
    if (policy_number(cpufreq, policy, "cpuinfo_transition_latency", &latency_ns) &&
        latency_ns < UINT32_MAX)
        policy->switch_us = (int64_t)(latency_ns / 1000 + 1);
    if (!text_read(policy_path(cpufreq, policy, "scaling_available_frequencies", path, sizeof path),
                   text, sizeof text))
        return true; /* intel_pstate has no list: anything between the bounds */
    for (char *at = text, *end; policy->clock_count < AW_DEVICE_CLOCKS_MAX; at = end) {
        const unsigned long khz = strtoul(at, &end, 10);
        if (end == at)
            break;
        if (khz >= low && khz <= high)
            policy->clock_mhz[policy->clock_count++] = (uint32_t)(khz / KHZ);
    }
    qsort(policy->clock_mhz, policy->clock_count, sizeof *policy->clock_mhz, by_number);
    return true;
}

static uint32_t count(void *self)
{
    return ((struct cpufreq *)self)->count;
}

static enum aw_err describe(void *self, uint32_t index, struct aw_device_info *ret_info,
                            struct aw_diag *diag __attribute__((unused)))
{
    const struct cpufreq *cpufreq = self;
    AW_ASSERT(index < cpufreq->count);
    const struct policy *policy = &cpufreq->policy[index];
    char path[AW_FILE_PATH_MAX], cpus[64] = "?";
    struct aw_device_info info = {.clock_count = policy->clock_count,
                                  .clock_mhz_min = policy->min_khz / KHZ,
                                  .clock_mhz_max = policy->max_khz / KHZ,
                                  .clock_mhz_reset = policy->before_khz / KHZ,
                                  .switch_us = policy->switch_us};
    snprintf(info.id, sizeof info.id, "policy%u", policy->number);
    (void)text_read(policy_path(cpufreq, policy, "related_cpus", path, sizeof path), cpus,
                    sizeof cpus);
    snprintf(info.name, sizeof info.name, "CPU %.60s", cpus);
    memcpy(info.clock_mhz, policy->clock_mhz, sizeof info.clock_mhz);
    if (!access(policy_path(cpufreq, policy, "scaling_max_freq", path, sizeof path), W_OK))
        info.capabilities = AW_DEVICE_SETS_CLOCK;
    else
        snprintf(info.why, sizeof info.why, "setting needs root or the helper");
    *ret_info = info;
    return AW_OK;
}

static enum aw_err read_one(void *self, uint32_t index, int64_t now_us,
                            struct aw_device_reading *ret_reading, struct aw_diag *diag)
{
    struct cpufreq *cpufreq = self;
    AW_ASSERT(index < cpufreq->count);
    struct policy *policy = &cpufreq->policy[index];
    char path[AW_FILE_PATH_MAX];
    struct aw_device_reading r = {.at_us = now_us};
    uint64_t value;
    if (policy_number(cpufreq, policy, "scaling_cur_freq", &value) ||
        policy_number(cpufreq, policy, "cpuinfo_cur_freq", &value)) {
        r.known |= AW_DEVICE_CLOCK;
        r.clock_mhz = (uint32_t)(value / KHZ);
    } else if (!policy_number(cpufreq, policy, "cpuinfo_max_freq", &value)) {
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "policy%u is gone", policy->number);
    }
    if (r.known && policy_number(cpufreq, policy, "scaling_max_freq", &value)) {
        /* below what it may run at it is the governor that chose, which is no failed set */
        r.known |= AW_DEVICE_REASONS;
        r.reasons = (r.clock_mhz < value / KHZ ? AW_DEVICE_REASON_IDLE : 0u) |
                    (value < policy->max_khz ? AW_DEVICE_REASON_SETTING : 0u);
    }
    if (policy->readable_energy &&
        number_read(energy_path(cpufreq, "energy_uj", path, sizeof path), &value)) {
        policy->energy_uj += value >= policy->energy_last
                                 ? value - policy->energy_last
                                 : value + policy->energy_range - policy->energy_last;
        policy->energy_last = value;
        r.known |= AW_DEVICE_ENERGY;
        r.energy_uj = policy->energy_uj;
    }
    *ret_reading = r;
    return AW_OK;
}

static enum aw_err khz_write(struct cpufreq *cpufreq, const struct policy *policy, uint32_t khz,
                             struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX], text[16];
    policy_path(cpufreq, policy, "scaling_max_freq", path, sizeof path);
    const int len = snprintf(text, sizeof text, "%u\n", khz);
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
    const bool done = fd >= 0 && write(fd, text, (size_t)len) == len;
    const int failed = errno;
    if (fd >= 0)
        (void)close(fd);
    if (done)
        return AW_OK;
    return failed == EACCES || failed == EPERM || failed == EROFS
               ? aw_fail(diag, AW_ERR_UNSUPPORTED,
                         "policy%u: setting a clock is not permitted: %s; it needs root: use the "
                         "helper",
                         policy->number, strerror(failed))
               : aw_fail(diag, AW_ERR_UNAVAILABLE, "policy%u: scaling_max_freq: %s", policy->number,
                         strerror(failed));
}

static enum aw_err set_clock(void *self, uint32_t index, uint32_t mhz,
                             int64_t now_us __attribute__((unused)), struct aw_diag *diag)
{
    struct cpufreq *cpufreq = self;
    AW_ASSERT(index < cpufreq->count);
    const struct policy *policy = &cpufreq->policy[index];
    bool listed = !policy->clock_count;
    for (uint32_t i = 0; i < policy->clock_count; i++)
        listed |= policy->clock_mhz[i] == mhz;
    if (!listed || mhz < policy->min_khz / KHZ || mhz > policy->max_khz / KHZ)
        return aw_fail(diag, AW_ERR_RANGE, "policy%u: %u MHz is not one of its clocks",
                       policy->number, mhz);
    const uint32_t khz = mhz * KHZ;
    return khz_write(cpufreq, policy,
                     khz < policy->min_khz   ? policy->min_khz
                     : khz > policy->max_khz ? policy->max_khz
                                             : khz,
                     diag);
}

static enum aw_err set_limit(void *self __attribute__((unused)),
                             uint32_t index __attribute__((unused)),
                             uint32_t mw __attribute__((unused)),
                             int64_t now_us __attribute__((unused)), struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_UNSUPPORTED, "a CPU's power limit is not set here");
}

static enum aw_err reset(void *self, uint32_t index, int64_t now_us __attribute__((unused)),
                         struct aw_diag *diag)
{
    struct cpufreq *cpufreq = self;
    AW_ASSERT(index < cpufreq->count);
    return khz_write(cpufreq, &cpufreq->policy[index], cpufreq->policy[index].before_khz, diag);
}

static void close_all(void *self)
{
    struct cpufreq *cpufreq = self;
    aw_alloc_free(cpufreq->alloc, cpufreq);
}

static const struct aw_device_ops ops = {.name = "cpufreq",
                                         .count = count,
                                         .describe = describe,
                                         .read = read_one,
                                         .set_clock = set_clock,
                                         .set_limit = set_limit,
                                         .reset = reset,
                                         .close = close_all};

enum aw_err aw__cpufreq_open(const char *sysfs, const struct aw_alloc *alloc,
                             struct aw_devices *ret, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    struct cpufreq *cpufreq = aw_alloc_new(alloc, 1, sizeof *cpufreq);
    if (!cpufreq)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for CPU frequency policies");
    cpufreq->alloc = alloc;
    snprintf(cpufreq->root, sizeof cpufreq->root, "%.3900s", sysfs);
    snprintf(path, sizeof path, "%.3900s/devices/system/cpu/cpufreq", sysfs);
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        uint64_t number;
        struct policy *policy = &cpufreq->policy[cpufreq->count];
        if (cpufreq->count == AW_DEVICES_MAX || strncmp(entry->d_name, "policy", 6) != 0 ||
            aw_text_parse_u64(entry->d_name + 6, &number) || number > UINT32_MAX)
            continue;
        *policy = (struct policy){.number = (uint32_t)number};
        cpufreq->count += policy_open(cpufreq, policy);
    }
    if (dir)
        (void)closedir(dir);
    if (!cpufreq->count) {
        aw_alloc_free(alloc, cpufreq);
        return aw_fail(
            diag, AW_ERR_UNAVAILABLE,
            "%.200s/devices/system/cpu/cpufreq has no policy (virtual machines show none)", sysfs);
    }
    qsort(cpufreq->policy, cpufreq->count, sizeof *cpufreq->policy, by_policy);
    struct policy *first = &cpufreq->policy[0];
    first->readable_energy =
        number_read(energy_path(cpufreq, "max_energy_range_uj", path, sizeof path),
                    &first->energy_range) &&
        number_read(energy_path(cpufreq, "energy_uj", path, sizeof path), &first->energy_last);
    *ret = (struct aw_devices){&ops, cpufreq};
    return AW_OK;
}
