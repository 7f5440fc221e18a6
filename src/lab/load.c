/* load.c - the verbs `load show` and `load list`. */
#include "lab/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/quantity.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/verbs.h"

#define PLOT_ROWS        8u
#define PLOT_COLUMNS_MAX 100u
#define PLOT_MARGIN      10u  /* columns for the figures on the left */
#define JSON_POINTS_MAX  500u /* of the curve under --output json */
#define HASH_SHOWN       16u  /* characters of a hash in a table; enough to choose it by */
#define LISTED_MAX       8000u

static const char *const format_choices[] = {"auto",  "azure-2019", "azure-2021",
                                             "rates", "timestamps", NULL};
static const char *const side_choices[] = {"all", "high", "low", NULL};

void aw__load_warn(const struct aw_call *run, const char *file,
                   const struct aw_trace_report *report)
{
    for (uint32_t i = 0; i < report->finding_count; i++) {
        const struct aw_trace_finding *f = &report->finding[i];
        aw_log_warn(run->log, "row not read", AW_LOG_STR("file", file), AW_LOG_INT("line", f->line),
                    AW_LOG_INT("column", f->column), AW_LOG_STR("because", f->text));
    }
    if (report->bad_count > report->finding_count)
        aw_log_warn(run->log, "more rows not read", AW_LOG_STR("file", file),
                    AW_LOG_INT("rows", (int64_t)(report->bad_count - report->finding_count)),
                    AW_LOG_INT("of", (int64_t)report->row_count));
}

bool aw__load_is_pattern(const char *text)
{
    const size_t len = strcspn(text, ":");
    for (const char *const *name = aw_load_pattern_names; *name; name++) {
        if (strlen(*name) == len && !strncmp(*name, text, len))
            return true;
    }
    return false;
}

/* ---- show ---- */

/* One column of a plot: slots [first, last) of a load. */
struct span {
    double mean_per_s, peak_per_s;
};

static struct span span_of(const struct aw_load *load, uint32_t i, uint32_t count)
{
    uint32_t first = (uint32_t)((uint64_t)load->slot_count * i / count);
    uint32_t last = (uint32_t)((uint64_t)load->slot_count * (i + 1) / count);
    struct span span = {0};
    for (uint32_t k = first; k < last; k++) {
        span.mean_per_s += (double)load->rate_per_s[k];
        span.peak_per_s = fmax(span.peak_per_s, (double)load->rate_per_s[k]);
    }
    span.mean_per_s /= last - first;
    return span;
}

/* Whether the terminal shows more than ASCII, as its locale says. */
static bool has_blocks(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (uint32_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "UTF-8") || strcasestr(value, "UTF8");
    }
    return false;
}

/* Bars of the mean rate of each column, the highest slot of it as a dot above. */
static void plot_print(const struct aw_load *load, const struct aw_load_figures *figures)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {" ", " ", " ", " ", ":", ":", ":", ":", "#"};
    const bool fine = has_blocks();
    const char *const *bar = fine ? blocks : ascii;
    unsigned width = aw_columns(stdout) - PLOT_MARGIN - 1;
    width = width < PLOT_COLUMNS_MAX ? width : PLOT_COLUMNS_MAX;
    width = width < load->slot_count ? width : load->slot_count;
    char rate[AW_QUANTITY_TEXT_MAX];
    for (uint32_t row = PLOT_ROWS; row-- > 0;) {
        double top = figures->peak_per_s * (row + 1) / PLOT_ROWS;
        printf("%9s ", row == PLOT_ROWS - 1 || row == PLOT_ROWS / 2 - 1
                           ? aw_rate_round(top, rate, sizeof rate)
                           : "");
        for (unsigned i = 0; i < width; i++) {
            struct span span = span_of(load, i, width);
            double filled = span.mean_per_s / figures->peak_per_s * PLOT_ROWS - row;
            double peak = span.peak_per_s / figures->peak_per_s * PLOT_ROWS - row;
            int eighths = (int)lround(fmin(1, fmax(0, filled)) * 8);
            bool dot = eighths == 0 && peak > 0 && peak <= 1;
            fputs(dot ? (fine ? "·" : ".") : bar[eighths], stdout);
        }
        putchar('\n');
    }
}

static json_t *load_json(const struct aw_load *load, const struct aw_load_figures *f,
                         const struct aw_trace_report *report)
{
    uint32_t points = load->slot_count < JSON_POINTS_MAX ? load->slot_count : JSON_POINTS_MAX;
    const double slot_s = (double)load->slot_us / 1e6;
    json_t *object = json_object(), *mean = json_array(), *peak = json_array();
    for (uint32_t i = 0; i < points; i++) {
        struct span span = span_of(load, i, points);
        json_array_append_new(mean, json_real(span.mean_per_s));
        json_array_append_new(peak, json_real(span.peak_per_s));
    }
    json_object_set_new(object, "name", json_string(load->name));
    json_object_set_new(object, "slots", json_integer(load->slot_count));
    json_object_set_new(object, "slot_s", json_real(slot_s));
    json_object_set_new(object, "length_s", json_real(slot_s * load->slot_count));
    json_object_set_new(object, "mean_per_s", json_real(f->mean_per_s));
    json_object_set_new(object, "low_per_s", json_real(f->low_per_s));
    json_object_set_new(object, "peak_per_s", json_real(f->peak_per_s));
    json_object_set_new(object, "burstiness", json_real(f->burstiness));
    json_object_set_new(object, "rows", json_integer((json_int_t)report->row_count));
    json_object_set_new(object, "rows_bad", json_integer((json_int_t)report->bad_count));
    json_object_set_new(object, "curve_mean_per_s", mean);
    json_object_set_new(object, "curve_peak_per_s", peak);
    return object;
}

static enum aw_err show_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *text = run->args->positional[0];
    struct aw_trace_report report;
    struct aw_load load = {0};
    char buf[AW_QUANTITY_TEXT_MAX];
    enum aw_err err =
        aw_load_parse_report(text, aw_args_number(run->args, "seed"), NULL, &load, &report, diag);
    if (err)
        return err;
    aw__load_warn(run, text, &report);
    struct aw_load_figures f = aw_load_figures(&load);
    if (run->json) {
        err = aw_json_print(load_json(&load, &f, &report), diag);
        goto out;
    }
    const int64_t length_us = load.slot_us * load.slot_count;
    if (f.peak_per_s > 0)
        plot_print(&load, &f);
    printf("%9s 0 to %s\n\n", "", aw_duration_round(length_us, buf, sizeof buf));
    printf("Load:        %s\n", load.name);
    printf("Mean:        %s\n", aw_rate_round(f.mean_per_s, buf, sizeof buf));
    printf("Lowest:      %s\n", aw_rate_round(f.low_per_s, buf, sizeof buf));
    printf("Highest:     %s", aw_rate_round(f.peak_per_s, buf, sizeof buf));
    if (f.mean_per_s > 0)
        printf(", %.3g times the mean", f.peak_per_s / f.mean_per_s);
    printf("\nBurstiness:  %.3g (deviation over mean)\n", f.burstiness);
    printf("Length:      %s", aw_duration_round(length_us, buf, sizeof buf));
    printf(", %u slots of %s\n", load.slot_count, aw_duration_round(load.slot_us, buf, sizeof buf));
out:
    aw_load_deinit(&load);
    return err;
}

static const struct aw_option show_options[] = {
    AW_OPTION_SEED("1", "of what is left to chance in a pattern"),
    {.name = NULL},
};
static const struct aw_positional show_positionals[] = {
    {.name = "LOAD",
     .kind = AW_ARG_LOAD,
     .help = "PATTERN[:key=value,...] or FILE[:key=value,...]"},
    {.name = NULL},
};
static const struct aw_example show_examples[] = {
    {"aware load show diurnal:mean=50/s,peak=4,period=1d", "a day"},
    {"aware load show bursts:mean=20,peak=8,period=20m,duration=1m", "calm, with bursts"},
    {"aware load show invocations.csv:top=2,mean=30/s", "the second busiest function, rescaled"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_load_show = {
    .name = "load show",
    .summary = "Plot a load: a pattern, or a trace from a file",
    .text = "Patterns: constant, diurnal, poisson, spikes, bursts, ramp; with mean, peak (highest "
            "over mean), period, duration, noise, length and slot.\n\n"
            "Files: Azure Functions 2019 and 2021, one number a line, or time and value; with row, "
            "func or top to choose a function, and column, unit, slot, start, length, compress, "
            "mean and peak (a rate). A row that cannot be read is a warning, more than half of "
            "them an error.",
    .options = show_options,
    .positionals = show_positionals,
    .examples = show_examples,
    .json = true,
    .run = show_run,
};

/* ---- list ---- */

static bool listed(const struct aw_trace_function *f, const char *side)
{
    return !strcmp(side, "all") || (f->per_day > AW_TRACE_BUSY_PER_DAY) == !strcmp(side, "high");
}

static json_t *function_json(const struct aw_trace_function *f)
{
    json_t *object = json_object();
    json_object_set_new(object, "row", json_integer(f->row));
    json_object_set_new(object, "function", json_string(f->name));
    json_object_set_new(object, "trigger", json_string(f->trigger));
    json_object_set_new(object, "total", json_real(f->total));
    json_object_set_new(object, "per_day", json_real(f->per_day));
    json_object_set_new(object, "mean_per_s", json_real(f->mean_per_s));
    json_object_set_new(object, "peak_per_s", json_real(f->peak_per_s));
    json_object_set_new(object, "burstiness", json_real(f->burstiness));
    return object;
}

static enum aw_err list_print(const struct aw_call *run, const struct aw_trace_list *list,
                              const struct aw_trace_report *report, uint32_t count_max,
                              struct aw_diag *diag)
{
    static const char *const heads[] = {">ROW",  "FUNCTION", "TRIGGER",     ">TOTAL", ">PER DAY",
                                        ">MEAN", ">PEAK",    ">BURSTINESS", NULL};
    const char *side = aw_args_text(run->args, "side");
    char buf[AW_QUANTITY_TEXT_MAX];
    uint32_t shown = 0, high = 0, matching = 0;
    struct aw_table table;
    json_t *functions = json_array();
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct aw_trace_function *f = &list->function[i];
        high += f->per_day > AW_TRACE_BUSY_PER_DAY;
        if (!listed(f, side) || matching++ >= count_max)
            continue;
        shown++;
        if (run->json) {
            json_array_append_new(functions, function_json(f));
            continue;
        }
        aw_table_add(&table, "%u", f->row);
        aw_table_add(&table, "%.*s", (int)HASH_SHOWN, f->name);
        aw_table_add(&table, "%s", *f->trigger ? f->trigger : "-");
        aw_table_add(&table, "%s", aw_count_format(f->total, buf, sizeof buf));
        aw_table_add(&table, "%s", aw_count_format(f->per_day, buf, sizeof buf));
        aw_table_add(&table, "%s", aw_rate_round(f->mean_per_s, buf, sizeof buf));
        aw_table_add(&table, "%s", aw_rate_round(f->peak_per_s, buf, sizeof buf));
        aw_table_add(&table, "%.3g", f->burstiness);
    }
    if (run->json) {
        json_t *object = json_object();
        json_object_set_new(object, "format", json_string(format_choices[report->format]));
        json_object_set_new(object, "length_s", json_real(list->length_s));
        json_object_set_new(object, "functions_all", json_integer(list->count));
        json_object_set_new(object, "functions_high", json_integer(high));
        json_object_set_new(object, "rows", json_integer((json_int_t)report->row_count));
        json_object_set_new(object, "rows_bad", json_integer((json_int_t)report->bad_count));
        json_object_set_new(object, "functions", functions);
        aw_table_deinit(&table);
        return aw_json_print(object, diag);
    }
    json_decref(functions);
    enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    if (err)
        return err;
    printf("\n%s, %s: %u of %u function%s shown; %u above %g requests a day\n",
           format_choices[report->format],
           aw_duration_round(llround(list->length_s * 1e6), buf, sizeof buf), shown, list->count,
           list->count == 1 ? "" : "s", high, AW_TRACE_BUSY_PER_DAY);
    return AW_OK;
}

static enum aw_err list_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *path = run->args->positional[0];
    struct aw_trace_settings settings;
    struct aw_trace_report report = {0};
    struct aw_trace_list list = {0};
    aw_conf_defaults(aw_trace_fields, &settings);
    enum aw_err err =
        aw_conf_set(aw_trace_fields, &settings, "format", aw_args_text(run->args, "format"), diag);
    if (err || (err = aw_trace_list(path, &settings, NULL, &list, &report, diag)))
        return err;
    aw__load_warn(run, path, &report);
    if (!(err = aw_trace_judge(&report, path, diag)))
        err = list_print(run, &list, &report, (uint32_t)aw_args_number(run->args, "count"), diag);
    aw_trace_list_deinit(&list);
    return err;
}

static const struct aw_option list_options[] = {
    AW_NUMBER("count", 'n', "N", "20", 1, LISTED_MAX,
              "how many functions to show, the busiest first"),
    AW_OPTION(CHOICE, "side", 0, "SIDE", "all",
              "all, or those above (high) or not above (low) 1e5 requests a day",
              .choices = side_choices),
    AW_OPTION(CHOICE, "format", 0, "FORMAT", "auto",
              "what the file is; auto looks at its first line", .choices = format_choices),
    {.name = NULL},
};
static const struct aw_positional list_positionals[] = {
    {.name = "FILE", .kind = AW_ARG_FILE, .help = "a trace"},
    {.name = NULL},
};
static const struct aw_example list_examples[] = {
    {"aware load list invocations.csv", "the busiest functions of an Azure trace"},
    {"aware load list invocations.csv --side high --output json", "those above 1e5 a day"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_load_list = {
    .name = "load list",
    .summary = "List the functions of a trace with their load",
    .text = "ROW and FUNCTION are what 'aware load show FILE:row=N' and 'FILE:func=HASH' take. "
            "BURSTINESS is the deviation of the rate over its mean.",
    .options = list_options,
    .positionals = list_positionals,
    .examples = list_examples,
    .json = true,
    .run = list_run,
};
