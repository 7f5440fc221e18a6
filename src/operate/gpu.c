/* gpu.c - the verbs `gpu list`, `gpu watch`, `gpu reset` and `gpu helper`. */
#include "operate/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/setter.h"
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/stop.h"
#include "frame/verbs.h"

#define WATTS(mw) ((mw) / 1000.0)

enum aw_err aw__gpu_open(const struct aw_call *run, bool to_set, struct aw_devices *ret,
                         struct aw_diag *diag)
{
    const char *spec = aw_args_text(run->args, "device");
    /* whoever sets does it through a process that outlives this one, whatever ends it */
    if (to_set && strncmp(spec, "helper:", 7) != 0)
        return aw_device_helper_spawn(spec, &(struct aw_device_helper_config){.log = run->log},
                                      NULL, ret, diag);
    return aw_devices_open(spec, NULL, ret, diag);
}

/* ---- list ---- */

static json_t *reading_json(const struct aw_device_reading *r)
{
    const struct {
        uint32_t bit;
        const char *key;
        json_int_t value;
    } figures[] = {
        {AW_DEVICE_CLOCK, "clock_mhz", r->clock_mhz},
        {AW_DEVICE_POWER, "power_mw", r->power_mw},
        {AW_DEVICE_ENERGY, "energy_uj", (json_int_t)r->energy_uj},
        {AW_DEVICE_LIMIT, "limit_mw", r->limit_mw},
        {AW_DEVICE_BUSY, "busy_permille", r->busy_permille},
        {AW_DEVICE_TEMPERATURE, "temperature_c", r->temperature_c},
    };
    char text[160];
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_object_set_new(object, figures[i].key,
                            r->known & figures[i].bit ? json_integer(figures[i].value)
                                                      : json_null());
    json_object_set_new(object, "reasons",
                        r->known & AW_DEVICE_REASONS
                            ? json_string(aw_device_reasons_text(r->reasons, text, sizeof text))
                            : json_null());
    return object;
}

static json_t *info_json(const struct aw_device_info *info)
{
    json_t *clocks = json_array();
    for (uint32_t i = 0; i < info->clock_count; i++)
        json_array_append_new(clocks, json_integer(info->clock_mhz[i]));
    return json_pack("{ss ss sb sb sb sI sI so sI sI sI sI ss}", "id", info->id, "name", info->name,
                     "gpu", !!(info->capabilities & AW_DEVICE_IS_GPU), "sets_clock",
                     !!(info->capabilities & AW_DEVICE_SETS_CLOCK), "sets_limit",
                     !!(info->capabilities & AW_DEVICE_SETS_LIMIT), "clock_mhz_min",
                     (json_int_t)info->clock_mhz_min, "clock_mhz_max",
                     (json_int_t)info->clock_mhz_max, "clocks_mhz", clocks, "limit_mw_min",
                     (json_int_t)info->limit_mw_min, "limit_mw_max", (json_int_t)info->limit_mw_max,
                     "limit_mw_default", (json_int_t)info->limit_mw_default, "switch_us",
                     (json_int_t)info->switch_us, "note", info->why);
}

static void row_add(struct aw_grid *grid, const struct aw_device_info *info,
                    const struct aw_device_reading *r, const char *failed)
{
    char text[160];
    aw_grid_add(grid, AW_TONE_PLAIN, "%s", info->id);
    aw_grid_add(grid, AW_TONE_PLAIN, "%s", info->name);
    if (r && r->known & AW_DEVICE_CLOCK)
        aw_grid_add(grid, AW_TONE_PLAIN, "%u MHz", r->clock_mhz);
    else
        aw_grid_add(grid, AW_TONE_FAINT, "-");
    if (info->clock_mhz_max)
        aw_grid_add(grid, AW_TONE_PLAIN, "%u-%u", info->clock_mhz_min, info->clock_mhz_max);
    else
        aw_grid_add(grid, AW_TONE_FAINT, "-");
    if (r && r->known & AW_DEVICE_POWER)
        aw_grid_add(grid, AW_TONE_PLAIN, "%.0f W", WATTS(r->power_mw));
    else
        aw_grid_add(grid, AW_TONE_FAINT, "-");
    if (r && r->known & AW_DEVICE_LIMIT)
        aw_grid_add(grid, AW_TONE_PLAIN, "%.0f W", WATTS(r->limit_mw));
    else
        aw_grid_add(grid, AW_TONE_FAINT, "-");
    const bool throttled = r && r->known & AW_DEVICE_REASONS && r->reasons & AW_DEVICE_THROTTLED;
    aw_grid_add(grid, throttled ? AW_TONE_ODD : AW_TONE_PLAIN, "%s",
                r && r->known & AW_DEVICE_REASONS
                    ? aw_device_reasons_text(r->reasons, text, sizeof text)
                    : "-");
    aw_grid_add(grid, failed ? AW_TONE_BAD : AW_TONE_PLAIN, "%s",
                failed       ? failed
                : *info->why ? info->why
                             : "");
}

static const struct aw_grid_column columns[] = {
    {.head = "DEVICE"},
    {.head = "NAME", .rank = 1},
    {.head = "CLOCK", .right = true},
    {.head = "MHZ", .right = true, .rank = 2},
    {.head = "POWER", .right = true},
    {.head = "LIMIT", .right = true, .rank = 3},
    {.head = "WHY", .rank = 2},
    {.head = "NOTE", .least = 20},
    {.head = NULL},
};

static enum aw_err list_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_devices d;
    enum aw_err err = aw__gpu_open(run, false, &d, diag);
    if (err)
        return err;
    struct aw_grid grid;
    json_t *list = json_array();
    aw_grid_init(&grid, columns);
    const uint32_t count = d.ops->count(d.self);
    for (uint32_t i = 0; i < count; i++) {
        struct aw_device_info info = {.id = "?", .name = "?"};
        struct aw_device_reading reading;
        struct aw_diag why = {0};
        const bool there = !d.ops->describe(d.self, i, &info, &why) &&
                           !d.ops->read(d.self, i, aw_clock_monotonic_us(NULL), &reading, &why);
        if (run->json) {
            json_t *object = info_json(&info);
            json_object_set_new(object, "reading", there ? reading_json(&reading) : json_null());
            json_object_set_new(object, "error", there ? json_null() : json_string(why.text));
            json_array_append_new(list, object);
        } else {
            row_add(&grid, &info, there ? &reading : NULL, there ? NULL : why.text);
        }
    }
    json_t *object = json_pack("{ss so}", "backend", d.ops->name, "devices", list);
    aw_devices_close(&d);
    if (run->json) {
        aw_grid_deinit(&grid);
        return aw_json_print(object, diag);
    }
    json_decref(object);
    const struct aw_grid_look look = {
        .width = aw_columns(stdout), .heads = true, .color = run->color_out, .end = "\n"};
    return aw_grid_print(&grid, stdout, &look, diag);
}

#define OPTION_DEVICE                                                                    \
    AW_OPTION(TEXT, "device", 'd', "BACKEND", "auto",                                    \
              "auto, nvml, nvml:LIBRARY, cpufreq, cpufreq:DIR, sim:N, recorded:FILE or " \
              "helper:SOCKET")
#define OPTION_ACT AW_FLAG("act", 0, "really set; without it, say what would be set")

static const struct aw_option list_options[] = {OPTION_DEVICE, {.name = NULL}};
static const struct aw_example list_examples[] = {
    {"aware gpu list", "the GPUs of this machine, or its CPU frequency policies"},
    {"aware gpu list --device sim:2 --output json", "two simulated GPUs, with all their clocks"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_gpu_list = {
    .name = "gpu list",
    .summary = "List devices whose clock and power can be read or set",
    .text = "NVIDIA GPUs through NVML, which is loaded when it is there; else CPU frequency "
            "policies. NOTE says what a device cannot do, and what to do about it.",
    .options = list_options,
    .examples = list_examples,
    .json = true,
    .run = list_run,
};

/* ---- watch ---- */

struct watch {
    const struct aw_call *run;
    struct aw_setter setter;
    struct aw_device_info info[AW_DEVICES_MAX];
    uint64_t energy_uj[AW_DEVICES_MAX];
    int64_t at_us[AW_DEVICES_MAX];
    bool csv;
    json_t *rows;
};

/* Mean power since the last line by the energy counter, which sensors sample far better. */
static double mean_w(const struct watch *watch, uint32_t i, const struct aw_device_reading *r)
{
    if (!(r->known & AW_DEVICE_ENERGY) || !watch->at_us[i] || r->at_us <= watch->at_us[i])
        return -1;
    return (double)(r->energy_uj - watch->energy_uj[i]) / (double)(r->at_us - watch->at_us[i]);
}

static void line_print(struct watch *watch, uint32_t i, double begun_s)
{
    const struct aw_setter_device *device = &watch->setter.device[i];
    const struct aw_device_reading *r = &device->reading;
    char reasons[160], line[AW_DEVICE_CSV_LINE_MAX];
    const double mean = device->read ? mean_w(watch, i, r) : -1;
    if (watch->csv) {
        if (device->read)
            printf("%s\n", aw_device_csv_line(&watch->info[i], r, line, sizeof line));
    } else if (watch->run->json) {
        json_t *row = device->read ? reading_json(r) : json_object();
        json_object_set_new(row, "at_us", json_integer(r->at_us));
        json_object_set_new(row, "id", json_string(watch->info[i].id));
        json_object_set_new(row, "power_w_mean", mean < 0 ? json_null() : json_real(mean));
        json_object_set_new(row, "state", json_string(aw_setter_state_text(device->state)));
        json_array_append_new(watch->rows, row);
    } else if (device->read) {
        printf("%7.1f s  %-12.40s %5u MHz", begun_s, watch->info[i].id, r->clock_mhz);
        if (r->known & AW_DEVICE_POWER)
            printf(" %6.1f W", WATTS(r->power_mw));
        if (mean >= 0)
            printf("  mean %6.1f W", mean);
        printf("  %s; %s\n",
               r->known & AW_DEVICE_REASONS
                   ? aw_device_reasons_text(r->reasons, reasons, sizeof reasons)
                   : "-",
               device->clock_mhz || device->limit_mw ? aw_setter_state_text(device->state)
                                                     : "not controlled");
    } else {
        printf("%7.1f s  %-12.40s %s\n", begun_s, watch->info[i].id, device->why);
    }
    if (device->read) {
        watch->energy_uj[i] = r->energy_uj;
        watch->at_us[i] = r->at_us;
    }
}

static enum aw_err watch_begin(struct watch *watch, const struct aw_devices *d, bool act,
                               struct aw_diag *diag)
{
    const struct aw_args *args = watch->run->args;
    const uint32_t clock = (uint32_t)aw_args_number(args, "clock");
    const uint32_t limit_mw = (uint32_t)aw_args_number(args, "limit") * 1000u;
    enum aw_err err =
        aw_setter_init(&watch->setter, d, &(struct aw_setter_config){.act = act}, diag);
    for (uint32_t i = 0; i < watch->setter.count && !err; i++) {
        struct aw_device_info *info = &watch->info[i];
        if ((err = d->ops->describe(d->self, i, info, diag)) || (!clock && !limit_mw))
            continue;
        const uint32_t near = clock ? aw_device_clock_near(info, clock) : 0;
        aw_setter_want(&watch->setter, i, near, limit_mw, aw_clock_monotonic_us(NULL));
        if (watch->run->json || watch->csv)
            continue;
        printf("%s: %s", info->id, act ? "set" : "dry run, would set");
        if (near)
            printf(" %u MHz%s", near, near == clock ? "" : " (the nearest there is)");
        if (limit_mw)
            printf("%s a limit of %u W", near ? " and" : "", limit_mw / 1000u);
        printf("\n");
    }
    return err;
}

static enum aw_err watch_run(const struct aw_call *run, struct aw_diag *diag)
{
    static struct watch watch;
    const bool act = aw_args_given(run->args, "act");
    const uint64_t count = aw_args_number(run->args, "count");
    const int64_t interval_us = (int64_t)aw_args_number(run->args, "interval") * 1000;
    struct aw_devices d;
    enum aw_err err = aw__gpu_open(run, act, &d, diag);
    if (err)
        return err;
    watch = (struct watch){
        .run = run, .csv = !strcmp(aw_args_text(run->args, "output"), "csv"), .rows = json_array()};
    aw_stop_catch(&(struct aw_stop_config){.hangup = AW__STOP_HANGUP_ENDS});
    if (watch.csv)
        printf("%s\n", AW_DEVICE_CSV_HEAD);
    if ((err = watch_begin(&watch, &d, act, diag)))
        goto out;
    const int64_t begun = aw_clock_monotonic_us(NULL);
    for (uint64_t n = 0; (!count || n < count) && !aw_stop_signal; n++) {
        if (aw_clock_sleep_until(NULL, begun + (int64_t)n * interval_us) && aw_stop_signal)
            break;
        const int64_t now = aw_clock_monotonic_us(NULL);
        aw_setter_step(&watch.setter, now);
        for (uint32_t i = 0; i < watch.setter.count; i++)
            line_print(&watch, i, (double)(now - begun) / 1e6);
        fflush(stdout);
    }
    err = aw_setter_finish(&watch.setter, aw_clock_monotonic_us(NULL), diag);
out:
    aw_devices_close(&d);
    if (run->json && !err)
        return aw_json_print(watch.rows, diag);
    json_decref(watch.rows);
    return err;
}

static const struct aw_option watch_options[] = {
    OPTION_DEVICE,
    AW_NUMBER("interval", 'i', "MS", "1000", 10, 3600000, "milliseconds between two readings"),
    AW_NUMBER("count", 'n', "N", "0", 0, 1000000, "readings of each device; 0: until interrupted"),
    AW_NUMBER("clock", 0, "MHZ", "0", 0, 100000, "hold this clock meanwhile; 0: leave it"),
    AW_NUMBER("limit", 0, "WATTS", "0", 0, 10000, "hold this power limit meanwhile; 0: leave it"),
    OPTION_ACT,
    {.name = NULL},
};
static const struct aw_example watch_examples[] = {
    {"aware gpu watch --device sim:1 --count 3 --interval 100", "three readings"},
    {"aware gpu watch --output csv > gpus.csv",
     "record; play back with --device recorded:gpus.csv"},
    {"aware gpu watch --clock 900 --act", "hold 900 MHz until interrupted, then reset"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_gpu_watch = {
    .name = "gpu watch",
    .summary = "Read clocks, power and energy again and again; hold a clock meanwhile",
    .text =
        "Nothing is set without --act. With it, a helper process sets, and resets when this "
        "program ends, however it ends: interrupted, crashed or killed. A clock is a wish: what "
        "became of it stands at the end of each line.",
    .options = watch_options,
    .examples = watch_examples,
    .json = true,
    .csv = true,
    .run = watch_run,
};

/* ---- reset ---- */

static enum aw_err reset_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_devices d;
    enum aw_err err = aw__gpu_open(run, false, &d, diag), first = AW_OK;
    if (err)
        return err;
    json_t *list = json_array();
    for (uint32_t i = 0; i < d.ops->count(d.self); i++) {
        struct aw_device_info info = {.id = "?"};
        struct aw_diag why = {0};
        err = d.ops->describe(d.self, i, &info, &why);
        if (!err)
            err = d.ops->reset(d.self, i, aw_clock_monotonic_us(NULL), &why);
        if (run->json)
            json_array_append_new(list, json_pack("{ss sb ss}", "id", info.id, "reset", !err,
                                                  "error", err ? why.text : ""));
        else
            printf("%s: %s\n", info.id, err ? why.text : "clock and limit are the system's");
        if (err && !first) {
            first = err;
            *diag = why;
        }
    }
    aw_devices_close(&d);
    if (run->json && (err = aw_json_print(list, diag)))
        return err;
    if (!run->json)
        json_decref(list);
    return first;
}

static const struct aw_option reset_options[] = {OPTION_DEVICE, {.name = NULL}};
static const struct aw_example reset_examples[] = {
    {"aware gpu reset", "clocks and limits of all devices as the system would have them"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_gpu_reset = {
    .name = "gpu reset",
    .summary = "Put clocks and power limits back to what the system would have",
    .text = "Resets clocks and limits that any program has set. Needs root, or a helper.",
    .options = reset_options,
    .examples = reset_examples,
    .json = true,
    .run = reset_run,
};

/* ---- helper ---- */

static enum aw_err helper_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *path = aw_args_text(run->args, "socket");
    struct aw_devices d;
    int fd = -1;
    enum aw_err err = aw_devices_open(aw_args_text(run->args, "device"), NULL, &d, diag);
    if (err)
        return err;
    aw_stop_catch(&(struct aw_stop_config){.hangup = AW__STOP_HANGUP_ENDS});
    const struct aw_device_helper_config config = {
        .watchdog_us = (int64_t)aw_args_number(run->args, "watchdog") * 1000000,
        .state_path = aw_args_text(run->args, "state"),
        .log = run->log,
        .stop = &aw_stop_signal};
    if (!(err = aw_device_helper_listen(path, &fd, diag))) {
        aw_log_info(run->log, "the helper listens", AW_LOG_STR("socket", path),
                    AW_LOG_STR("backend", d.ops->name));
        err = aw_device_helper_serve(&d, fd, -1, &config, diag);
        (void)close(fd);
        (void)unlink(path);
    }
    aw_devices_close(&d);
    return err;
}

static const struct aw_option helper_options[] = {
    OPTION_DEVICE,
    AW_OPTION(FILE, "socket", 0, "PATH", NULL,
              "where to listen; mode 0660, so a group can be let in", .required = true),
    AW_OPTION(FILE, "state", 0, "PATH", NULL,
              "where touched devices are noted, for the start after a kill"),
    AW_NUMBER("watchdog", 0, "S", "10", 1, 3600,
              "seconds of silence of the client that controls, then clocks are reset"),
    {.name = NULL},
};
static const struct aw_example helper_examples[] = {
    {"sudo aware gpu helper --socket /run/aware/gpu.sock --state /run/aware/gpu.touched",
     "then, without root: aware gpu watch --device helper:/run/aware/gpu.sock"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_gpu_helper = {
    .name = "gpu helper",
    .summary = "Set clocks for programs without root, and reset when they are gone",
    .text = "A small process with the right to set clocks: it reads, sets within the device's "
            "bounds, and resets, for one client that controls and others that read. When the "
            "client's connection closes or falls silent, everything it touched is reset.",
    .options = helper_options,
    .examples = helper_examples,
    .run = helper_run,
};
