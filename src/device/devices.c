/* devices.c - backends by name, and what all of them share. */
#include "device/devices.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "device/helper.h"
#include "device/sim.h"

#define SYSFS "/sys"

uint32_t aw_device_clock_near(const struct aw_device_info *info, uint32_t mhz)
{
    if (!info->clock_count)
        return mhz < info->clock_mhz_min   ? info->clock_mhz_min
               : mhz > info->clock_mhz_max ? info->clock_mhz_max
                                           : mhz;
    uint32_t best = info->clock_mhz[0];
    for (uint32_t i = 1; i < info->clock_count; i++) {
        const uint32_t clock = info->clock_mhz[i];
        const uint32_t off = clock > mhz ? clock - mhz : mhz - clock;
        const uint32_t best_off = best > mhz ? best - mhz : mhz - best;
        best = off < best_off ? clock : best;
    }
    return best;
}

const char *aw_device_reasons_text(uint32_t reasons, char *buf, size_t size)
{
    static const struct {
        uint32_t bit;
        const char *text;
    } names[] = {
#define X(name, bit, throttles, text) {bit, text},
        AW_DEVICE_REASON_MAP(X)
#undef X
    };
    struct aw_text out;
    aw_text_init(&out, buf, size);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (reasons & names[i].bit)
            aw_text_add(&out, "%s%s", out.len ? ", " : "", names[i].text);
    }
    if (!out.len)
        aw_text_add(&out, "-");
    return buf;
}

const char *aw_device_csv_line(const struct aw_device_info *info,
                               const struct aw_device_reading *reading, char *buf, size_t size)
{
    const struct {
        uint32_t bit;
        uint64_t value;
    } cells[] = {
        {AW_DEVICE_CLOCK, reading->clock_mhz},
        {AW_DEVICE_POWER, reading->power_mw},
        {AW_DEVICE_ENERGY, reading->energy_uj},
        {AW_DEVICE_REASONS, reading->reasons},
        {AW_DEVICE_LIMIT, reading->limit_mw},
        {AW_DEVICE_BUSY, reading->busy_permille},
        {AW_DEVICE_TEMPERATURE, reading->temperature_c},
    };
    char name[AW_DEVICE_NAME_MAX];
    snprintf(name, sizeof name, "%s", info->name);
    for (char *c = name; *c; c++)
        *c = *c == ',' || (unsigned char)*c < ' ' ? ' ' : *c;
    struct aw_text out;
    aw_text_init(&out, buf, size);
    aw_text_add(&out, "%lld,%s,%s", (long long)reading->at_us, info->id, name);
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        if (reading->known & cells[i].bit)
            aw_text_add(&out, ",%llu", (unsigned long long)cells[i].value);
        else
            aw_text_add(&out, ",");
    }
    return buf;
}

static enum aw_err open_sim(const char *count_text, const struct aw_alloc *alloc,
                            struct aw_devices *ret, struct aw_diag *diag)
{
    uint64_t count = 1;
    if (count_text && (aw_text_parse_u64(count_text, &count) || !count || count > AW_DEVICES_MAX))
        return aw_fail(diag, AW_ERR_USAGE,
                       "sim: expected a number of devices from 1 to %u, found "
                       "\"%s\"",
                       AW_DEVICES_MAX, count_text);
    struct aw_device_sim_config config = {.count = (uint32_t)count};
    struct aw_device_sim *sim = NULL;
    enum aw_err err = aw_device_sim_new(&config, alloc, &sim);
    if (err)
        return aw_fail(diag, err, "no memory for simulated devices");
    *ret = aw_device_sim_devices(sim);
    return AW_OK;
}

static enum aw_err open_auto(const struct aw_alloc *alloc, struct aw_devices *ret,
                             struct aw_diag *diag)
{
    struct aw_diag nvml = {0}, cpufreq = {0};
    enum aw_err err = aw__nvml_open(NULL, alloc, ret, &nvml);
    if (!err || err == AW_ERR_NOMEM || !aw__cpufreq_open(SYSFS, alloc, ret, &cpufreq))
        return err == AW_ERR_NOMEM ? err : AW_OK;
    return aw_fail(diag, AW_ERR_UNAVAILABLE,
                   "no device whose clock can be read: %.200s; %.120s; "
                   "--device sim:2 shows simulated ones",
                   nvml.text, cpufreq.text);
}

enum aw_err aw_devices_open(const char *spec, const struct aw_alloc *alloc,
                            struct aw_devices *ret_devices, struct aw_diag *diag)
{
    const char *colon = strchr(spec, ':');
    const size_t len = colon ? (size_t)(colon - spec) : strlen(spec);
    const char *rest = colon && colon[1] ? colon + 1 : NULL;
#define IS(word) (len == sizeof(word) - 1 && !memcmp(spec, word, sizeof(word) - 1))
    if (IS("auto") && !rest)
        return open_auto(alloc, ret_devices, diag);
    if (IS("nvml"))
        return aw__nvml_open(rest, alloc, ret_devices, diag);
    if (IS("cpufreq"))
        return aw__cpufreq_open(rest ? rest : SYSFS, alloc, ret_devices, diag);
    if (IS("sim"))
        return open_sim(rest, alloc, ret_devices, diag);
    if (IS("recorded") && rest)
        return aw__recorded_open(rest, alloc, ret_devices, diag);
    if (IS("helper") && rest)
        return aw_device_helper_connect(rest, alloc, ret_devices, diag);
#undef IS
    char quoted[AW_TEXT_QUOTE_MAX];
    return aw_fail(diag, AW_ERR_USAGE,
                   "expected auto, nvml, nvml:LIBRARY, cpufreq, cpufreq:DIR, sim:N, recorded:FILE "
                   "or helper:SOCKET, found %s",
                   aw_text_quote(spec, strlen(spec), quoted, sizeof quoted));
}

void aw_devices_close(struct aw_devices *devices)
{
    if (devices->ops)
        devices->ops->close(devices->self);
    *devices = (struct aw_devices){0};
}
