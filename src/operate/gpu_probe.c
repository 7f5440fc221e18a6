/*
 * gpu_probe.c - the verb `gpu probe`: how long a clock takes to move on this card.
 *
 * Between a low, a middle and the highest clock, in every order: the target matters more than the
 * start (arXiv 2502.20075). A change counts as seen when the clock is read within its step of the
 * target; the time of the reading itself bounds what can be seen.
 */
#include "operate/gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/stop.h"
#include "frame/verbs.h"

#define POINTS     3u
#define TOLERANCE  15u
#define TIMEOUT_US 2000000

struct probe {
    uint32_t from, to;
    int64_t best_us, worst_us;
    uint32_t seen, missed;
};

static int64_t switch_time(const struct aw_devices *d, uint32_t index, uint32_t to,
                           struct aw_diag *diag, enum aw_err *ret_err)
{
    const int64_t begun = aw_clock_monotonic_us(NULL);
    struct aw_device_reading r = {0};
    *ret_err = d->ops->set_clock(d->self, index, to, begun, diag);
    while (!*ret_err && !aw_stop_signal) {
        const int64_t now = aw_clock_monotonic_us(NULL);
        *ret_err = d->ops->read(d->self, index, now, &r, diag);
        const uint32_t off = r.clock_mhz > to ? r.clock_mhz - to : to - r.clock_mhz;
        if (!*ret_err && r.known & AW_DEVICE_CLOCK && off <= TOLERANCE)
            return aw_clock_monotonic_us(NULL) - begun;
        if (now - begun > TIMEOUT_US)
            return -1;
        if (aw_clock_sleep_until(NULL, now + 200) && aw_stop_signal)
            break;
    }
    return -1;
}

static enum aw_err probe_device(const struct aw_devices *d, uint32_t index, uint32_t rounds,
                                const uint32_t point[POINTS], struct probe *probes,
                                struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t n = 0; n < rounds && !aw_stop_signal; n++) {
        for (uint32_t p = 0; p < POINTS * (POINTS - 1) && !aw_stop_signal; p++) {
            struct probe *probe = &probes[p];
            const uint32_t from = p / (POINTS - 1);
            const uint32_t to = p % (POINTS - 1) + (p % (POINTS - 1) >= from);
            probe->from = point[from];
            probe->to = point[to];
            (void)switch_time(d, index, point[from], diag, &err);
            const int64_t took = err ? -1 : switch_time(d, index, point[to], diag, &err);
            if (err)
                return err;
            probe->missed += took < 0;
            if (took < 0)
                continue;
            probe->best_us = !probe->seen || took < probe->best_us ? took : probe->best_us;
            probe->worst_us = took > probe->worst_us ? took : probe->worst_us;
            probe->seen++;
        }
    }
    return AW_OK;
}

static void probes_show(const struct aw_call *run, const struct aw_device_info *info,
                        const struct probe *probes, struct aw_table *table, json_t *list)
{
    for (uint32_t p = 0; p < POINTS * (POINTS - 1); p++) {
        const struct probe *probe = &probes[p];
        if (run->json) {
            json_array_append_new(
                list,
                json_pack("{ss sI sI so so sI sI}", "id", info->id, "from_mhz",
                          (json_int_t)probe->from, "to_mhz", (json_int_t)probe->to, "switch_us_min",
                          probe->seen ? json_integer(probe->best_us) : json_null(), "switch_us_max",
                          probe->seen ? json_integer(probe->worst_us) : json_null(), "seen",
                          (json_int_t)probe->seen, "missed", (json_int_t)probe->missed));
            continue;
        }
        aw_table_add(table, "%s", info->id);
        aw_table_add(table, "%u", probe->from);
        aw_table_add(table, "%u", probe->to);
        if (probe->seen) {
            aw_table_add(table, "%.1f ms", (double)probe->best_us / 1e3);
            aw_table_add(table, "%.1f ms", (double)probe->worst_us / 1e3);
        } else {
            aw_table_add(table, "-");
            aw_table_add(table, "-");
        }
        aw_table_add(table, "%s", probe->missed ? "not always seen: held by a limit, or idle" : "");
    }
}

static enum aw_err probe_run(const struct aw_call *run, struct aw_diag *diag)
{
    static const char *const heads[] = {"DEVICE",   ">FROM MHZ", ">TO MHZ", ">FASTEST",
                                        ">SLOWEST", "",          NULL};
    const bool act = aw_args_given(run->args, "act");
    const uint32_t rounds = (uint32_t)aw_args_number(run->args, "rounds");
    struct aw_devices d;
    enum aw_err err = aw__gpu_open(run, act, &d, diag);
    if (err)
        return err;
    struct aw_table table;
    json_t *list = json_array();
    aw_table_init(&table, heads);
    aw_stop_catch(&(struct aw_stop_config){.hangup = AW__STOP_HANGUP_ENDS});
    for (uint32_t i = 0; i < d.ops->count(d.self) && !err && !aw_stop_signal; i++) {
        static struct aw_device_info info;
        struct probe probes[POINTS * (POINTS - 1)] = {{0}};
        if ((err = d.ops->describe(d.self, i, &info, diag)))
            break;
        const uint32_t low = info.clock_mhz_min, high = info.clock_mhz_max;
        const uint32_t point[POINTS] = {aw_device_clock_near(&info, low + (high - low) / 4),
                                        aw_device_clock_near(&info, low + (high - low) / 2), high};
        if (!act || !(info.capabilities & AW_DEVICE_SETS_CLOCK)) {
            if (!run->json)
                printf("%s: %s %u, %u and %u MHz, %u times each way%s%s\n", info.id,
                       act ? "cannot switch between" : "dry run, would switch between", point[0],
                       point[1], point[2], rounds, *info.why ? "; " : "", info.why);
            continue;
        }
        err = probe_device(&d, i, rounds, point, probes, diag);
        if (!err)
            err = d.ops->reset(d.self, i, aw_clock_monotonic_us(NULL), diag);
        if (!err)
            probes_show(run, &info, probes, &table, list);
    }
    aw_devices_close(&d);
    if (err || run->json || !act)
        aw_table_deinit(&table);
    else
        err = aw_table_print(&table, stdout, run->color_out, diag);
    if (run->json && !err)
        return aw_json_print(list, diag);
    json_decref(list);
    return err;
}

static const struct aw_option probe_options[] = {
    AW_OPTION(TEXT, "device", 'd', "BACKEND", "auto", "as gpu list has it"),
    AW_NUMBER("rounds", 'n', "N", "3", 1, 1000, "how often each change is measured"),
    AW_FLAG("act", 0, "really switch clocks; without it, say what would be done"),
    {.name = NULL},
};
static const struct aw_example probe_examples[] = {
    {"aware gpu probe --device sim:1 --act", "of a simulated GPU"},
    {"sudo aware gpu probe --act", "of this machine's GPUs; best while they work"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_gpu_probe = {
    .name = "gpu probe",
    .summary = "Measure how long a change of clock takes",
    .text = "A controller needs to know it: switching faster than the card does costs latency and "
            "saves nothing. Clocks are reset at the end, however it ends.",
    .options = probe_options,
    .examples = probe_examples,
    .json = true,
    .run = probe_run,
};
