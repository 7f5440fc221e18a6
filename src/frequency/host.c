/* host.c - see host.h. Files: Documentation/admin-guide/pm: cpufreq, intel_pstate, amd-pstate. */
#include "frequency/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#define KIND     "aware frequency note"
#define PATH_LEN 4096u
#define NOTE_MAX ((size_t)1 << 20)
#define CPUS_MAX 4096u

static bool text_read(char *buf, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool text_read(char *buf, size_t size, const char *fmt, ...)
{
    char path[PATH_LEN];
    va_list args;
    va_start(args, fmt);
    vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
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

static bool khz_read(const char *root, uint32_t policy, const char *file, uint32_t *ret)
{
    char text[64];
    uint64_t value;
    if (!text_read(text, sizeof text, "%s/devices/system/cpu/cpufreq/policy%u/%s", root, policy,
                   file) ||
        aw_text_parse_u64(text, &value) || value > UINT32_MAX)
        return false;
    *ret = (uint32_t)value;
    return true;
}

static bool khz_write(const char *root, uint32_t policy, const char *file, uint32_t khz)
{
    char path[PATH_LEN], text[16];
    snprintf(path, sizeof path, "%.3900s/devices/system/cpu/cpufreq/policy%u/%s", root, policy,
             file);
    const int len = snprintf(text, sizeof text, "%u\n", khz);
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
    const bool done = fd >= 0 && write(fd, text, (size_t)len) == len;
    if (fd >= 0)
        (void)close(fd);
    return done;
}

/* What a cap does under this driver and governor, in a sentence. */
static void explain(struct aw_host_policy *policy, const char *status)
{
    const bool pstate =
        !strcmp(policy->driver, "intel_pstate") || !strncmp(policy->driver, "amd-pstate", 10);
    const char *why = "the governor chooses below the cap";
    if (!policy->settable)
        why = "scaling_max_freq cannot be written by this process: root, or the helper";
    else if (pstate && !strcmp(status, "active") && !strcmp(policy->governor, "performance"))
        why = "the hardware chooses up to the cap; its preference is fixed under performance";
    else if (pstate && !strcmp(status, "active"))
        why = "the hardware chooses up to the cap; scaling_setspeed is not honoured in this mode";
    else if (!strcmp(policy->governor, "userspace"))
        why = "governor userspace holds one frequency; the cap still bounds it";
    else if (policy->floor_khz >= policy->cap_khz)
        why = "floor and cap are the same: a cap below the floor is refused, so nothing will move";
    snprintf(policy->why, sizeof policy->why, "%s", why);
}

static bool policy_probe(const char *root, struct aw_host_policy *policy)
{
    char path[PATH_LEN];
    const uint32_t n = policy->number;
    if (!khz_read(root, n, "cpuinfo_min_freq", &policy->min_khz) ||
        !khz_read(root, n, "cpuinfo_max_freq", &policy->max_khz) ||
        !khz_read(root, n, "scaling_max_freq", &policy->cap_khz) ||
        !khz_read(root, n, "scaling_min_freq", &policy->floor_khz) || !policy->min_khz ||
        policy->max_khz < policy->min_khz)
        return false;
    (void)khz_read(root, n, "base_frequency", &policy->base_khz);
    (void)text_read(policy->driver, sizeof policy->driver,
                    "%s/devices/system/cpu/cpufreq/policy%u/scaling_driver", root, n);
    (void)text_read(policy->governor, sizeof policy->governor,
                    "%s/devices/system/cpu/cpufreq/policy%u/scaling_governor", root, n);
    (void)text_read(policy->preference, sizeof policy->preference,
                    "%s/devices/system/cpu/cpufreq/policy%u/energy_performance_preference", root,
                    n);
    (void)text_read(policy->cpus, sizeof policy->cpus,
                    "%s/devices/system/cpu/cpufreq/policy%u/affected_cpus", root, n);
    snprintf(path, sizeof path, "%.3900s/devices/system/cpu/cpufreq/policy%u/scaling_max_freq",
             root, n);
    policy->settable = !access(path, W_OK);
    return true;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = ((const struct aw_host_policy *)a)->number;
    const uint32_t y = ((const struct aw_host_policy *)b)->number;
    return (x > y) - (x < y);
}

enum aw_err aw_host_probe(const char *root, struct aw_host *ret, struct aw_diag *diag)
{
    struct aw_host host = {0};
    char path[PATH_LEN], text[64];
    uint64_t number;
    snprintf(path, sizeof path, "%.3900s/devices/system/cpu/cpufreq", root);
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        struct aw_host_policy *policy = &host.policy[host.count];
        if (host.count == AW_HOST_POLICIES_MAX || strncmp(entry->d_name, "policy", 6) ||
            aw_text_parse_u64(entry->d_name + 6, &number) || number > UINT32_MAX)
            continue;
        *policy = (struct aw_host_policy){.number = (uint32_t)number};
        host.count += policy_probe(root, policy);
    }
    if (dir)
        (void)closedir(dir);
    if (!host.count)
        return aw_fail(
            diag, AW_ERR_UNAVAILABLE,
            "%.200s/devices/system/cpu/cpufreq has no policy: nothing can be controlled "
            "here (virtual machines show none; on hardware, is a cpufreq driver loaded?)",
            root);
    qsort(host.policy, host.count, sizeof *host.policy, by_number);
    if (!text_read(host.driver_status, sizeof host.driver_status,
                   "%s/devices/system/cpu/intel_pstate/status", root))
        (void)text_read(host.driver_status, sizeof host.driver_status,
                        "%s/devices/system/cpu/amd_pstate/status", root);
    if (text_read(text, sizeof text, "%s/devices/system/cpu/intel_pstate/no_turbo", root)) {
        host.turbo_known = true;
        host.turbo = text[0] == '0';
    } else if (text_read(text, sizeof text, "%s/devices/system/cpu/cpufreq/boost", root)) {
        host.turbo_known = true;
        host.turbo = text[0] == '1';
    }
    for (uint32_t i = 0; i < host.count; i++)
        explain(&host.policy[i], host.driver_status);
    struct aw_host_energy energy;
    host.energy = aw_host_energy_open(&energy, root);
    if (!host.energy)
        snprintf(
            host.energy_why, sizeof host.energy_why,
            "class/powercap/intel-rapl:0/energy_uj cannot be read (root only since Linux 5.10)");
    host.throttles = aw_host_throttles(root);
    *ret = host;
    return AW_OK;
}

uint64_t aw_host_throttles(const char *root)
{
    uint64_t sum = 0;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        char text[64];
        uint64_t count;
        if (!text_read(text, sizeof text,
                       "%s/devices/system/cpu/cpu%u/thermal_throttle/core_throttle_count", root,
                       cpu))
            break;
        sum += aw_text_parse_u64(text, &count) ? 0 : count;
    }
    return sum;
}

bool aw_host_energy_open(struct aw_host_energy *energy, const char *root)
{
    *energy = (struct aw_host_energy){0};
    for (uint32_t zone = 0; zone < sizeof energy->last_uj / sizeof *energy->last_uj; zone++) {
        char now[64], range[64];
        if (!text_read(now, sizeof now, "%s/class/powercap/intel-rapl:%u/energy_uj", root, zone) ||
            !text_read(range, sizeof range, "%s/class/powercap/intel-rapl:%u/max_energy_range_uj",
                       root, zone) ||
            aw_text_parse_u64(now, &energy->last_uj[zone]) ||
            aw_text_parse_u64(range, &energy->range_uj[zone]))
            break;
        energy->zones++;
    }
    return energy->zones > 0;
}

double aw_host_energy_read(struct aw_host_energy *energy, const char *root)
{
    double joules = energy->zones ? 0 : (double)NAN;
    for (uint32_t zone = 0; zone < energy->zones; zone++) {
        char text[64];
        uint64_t now;
        if (!text_read(text, sizeof text, "%s/class/powercap/intel-rapl:%u/energy_uj", root,
                       zone) ||
            aw_text_parse_u64(text, &now))
            return (double)NAN;
        const uint64_t last = energy->last_uj[zone];
        joules += 1e-6 * (double)(now >= last ? now - last : now + energy->range_uj[zone] - last);
        energy->last_uj[zone] = now;
    }
    return joules;
}

/* ---- the note ---- */

enum aw_err aw_host_note(const struct aw_host *host, const char *root, const char *path,
                         struct aw_diag *diag)
{
    char *text = NULL;
    size_t len = 0;
    if (!access(path, F_OK))
        return aw_fail(diag, AW_ERR_EXISTS, "%s: an earlier run has left a note", path);
    json_t *policies = json_array();
    for (uint32_t i = 0; i < host->count; i++)
        json_array_append_new(policies, json_pack("{s:I,s:I,s:I}", "policy",
                                                  (json_int_t)host->policy[i].number, "cap_khz",
                                                  (json_int_t)host->policy[i].cap_khz, "floor_khz",
                                                  (json_int_t)host->policy[i].floor_khz));
    json_t *note = json_pack("{s:s,s:s,s:o}", "kind", KIND, "root", root, "found", policies);
    FILE *out = note ? open_memstream(&text, &len) : NULL;
    enum aw_err err = out ? aw_json_write(note, out, 1) : AW_ERR_NOMEM;
    if (out && fclose(out) && !err)
        err = AW_ERR_NOMEM;
    err = err ? aw_fail(diag, err, "no memory for a note")
              : aw_file_replace(path, text, len, NULL, diag);
    free(text);
    json_decref(note);
    return err;
}

/* Raise the cap first, then the floor, then lower the cap: floor <= cap at every moment. */
static bool policy_restore(const char *root, uint32_t policy, uint32_t cap, uint32_t floor_khz,
                           bool *ret_changed)
{
    uint32_t cap_now = 0, floor_now = 0;
    (void)khz_read(root, policy, "scaling_max_freq", &cap_now);
    (void)khz_read(root, policy, "scaling_min_freq", &floor_now);
    *ret_changed = cap_now != cap || floor_now != floor_khz;
    if (!*ret_changed)
        return true;
    if (cap_now < cap)
        (void)khz_write(root, policy, "scaling_max_freq", cap);
    (void)khz_write(root, policy, "scaling_min_freq", floor_khz);
    (void)khz_write(root, policy, "scaling_max_freq", cap);
    return khz_read(root, policy, "scaling_max_freq", &cap_now) && cap_now == cap &&
           khz_read(root, policy, "scaling_min_freq", &floor_now) && floor_now == floor_khz;
}

enum aw_err aw_host_restore(const char *path, struct aw_host_restored *ret, struct aw_diag *diag)
{
    struct aw_host_restored restored = {0};
    char *bytes = NULL;
    size_t len = 0;
    enum aw_err err = aw_file_read(path, NOTE_MAX, NULL, &bytes, &len, diag);
    if (err == AW_ERR_NOTFOUND) {
        *ret = restored;
        return AW_OK;
    }
    if (err)
        return err;
    json_t *note = json_loadb(bytes, len, 0, NULL);
    const char *kind = json_string_value(json_object_get(note, "kind"));
    const char *root = json_string_value(json_object_get(note, "root"));
    const json_t *found = json_object_get(note, "found");
    if (!kind || strcmp(kind, KIND) || !root || !json_is_array(found))
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "kind",
                         "expected a file of kind \"" KIND "\", found another");
    for (size_t i = 0; !err && i < json_array_size(found); i++) {
        const json_t *row = json_array_get(found, i);
        const uint32_t policy = (uint32_t)json_integer_value(json_object_get(row, "policy"));
        const uint32_t cap = (uint32_t)json_integer_value(json_object_get(row, "cap_khz"));
        const uint32_t floor_khz = (uint32_t)json_integer_value(json_object_get(row, "floor_khz"));
        uint32_t there;
        bool changed = false;
        restored.policies++;
        if (!khz_read(root, policy, "cpuinfo_max_freq", &there)) {
            restored.gone++;
        } else if (!policy_restore(root, policy, cap, floor_khz, &changed)) {
            err = aw_fail(diag, AW_ERR_CONFLICT,
                          "policy%u did not take back %u to %u kHz; the note stays at %s", policy,
                          floor_khz, cap, path);
        }
        restored.changed += changed;
    }
    json_decref(note);
    aw_alloc_free(NULL, bytes);
    if (!err && unlink(path) && errno != ENOENT)
        err = aw_fail(diag, AW_ERR_IO, "%s: %s", path, strerror(errno));
    if (!err)
        *ret = restored;
    return err;
}
