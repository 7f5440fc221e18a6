/* load_drive.c - the verb `load`: requests to a server, when they are due. */
#include "load/drive.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/quantity.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/status_line.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "lab/load.h"

#define REPORT_US   1000000
#define FILES_SPARE 64u /* descriptors beside the connections */
#define HEADERS_MAX 4096u

static const double levels[] = {0.5, 0.9, 0.99, 0.999};
static const char *const level_names[] = {"p50", "p90", "p99", "p99.9"};
static const char *const method_choices[] = {"GET", "HEAD", "POST", "PUT", "DELETE", NULL};
#define LEVELS (sizeof levels / sizeof *levels)

struct live {
    struct aw_status_line line;
    FILE *series; /* a line of CSV a second; NULL: none */
    int64_t slo_us;
    struct aw_drive_totals before; /* as of the last line */
};

/* ---- while it runs ---- */

static uint64_t failures(const struct aw_drive_totals *totals)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < AW_DRIVE_ERRORS; i++)
        sum += totals->error[i];
    return sum;
}

/* A write that fails shows when the file is closed. */
static void series_add(struct live *live, const struct aw_drive_report *report)
{
    const struct aw_drive_totals *was = &live->before, *now = &report->all;
    const struct aw_latency_histogram *latency = report->latency;
    fprintf(live->series, "%.3f,%llu,%llu,%llu,%llu,%llu", 1e-6 * (double)report->at_us,
            (unsigned long long)(now->due - was->due),
            (unsigned long long)(now->answered - was->answered),
            (unsigned long long)(failures(now) - failures(was)),
            (unsigned long long)aw_latency_histogram_above(latency, live->slo_us),
            (unsigned long long)report->in_flight);
    if (latency->count)
        fprintf(live->series, ",%.3f,%.3f,%.3f\n",
                1e-3 * (double)aw_latency_histogram_quantile(latency, 0.5),
                1e-3 * (double)aw_latency_histogram_quantile(latency, 0.99),
                1e-3 * (double)latency->max_us);
    else
        fputs(",,,\n", live->series); /* nothing ended is nothing known, not 0 */
    (void)fflush(live->series);
    live->before = *now;
}

static bool live_report(void *ctx, const struct aw_drive_report *report)
{
    struct live *live = ctx;
    char p50[AW_QUANTITY_TEXT_MAX], p99[AW_QUANTITY_TEXT_MAX], rate[AW_QUANTITY_TEXT_MAX];
    if (live->series)
        series_add(live, report);
    if (aw_stop_signal)
        return false;
    const double per_s =
        report->span_us > 0 ? 1e6 * (double)report->answered / (double)report->span_us : 0;
    aw_status_line_draw(
        &live->line, true, report->at_us,
        "%.0fs  %s  p50 %s  p99 %s  %llu in flight  %u connections  %llu errors",
        1e-6 * (double)report->at_us, aw_rate_round(per_s, rate, sizeof rate),
        aw_duration_round(aw_latency_histogram_quantile(report->latency, 0.5), p50, sizeof p50),
        aw_duration_round(aw_latency_histogram_quantile(report->latency, 0.99), p99, sizeof p99),
        (unsigned long long)report->in_flight, report->connections,
        (unsigned long long)failures(&report->all));
    return true;
}

/* ---- afterwards ---- */

static double per_second(uint64_t count, int64_t us)
{
    return us > 0 ? 1e6 * (double)count / (double)us : 0;
}

/* Nothing answered is nothing known, not 0. */
static json_t *us_json(const struct aw_latency_histogram *hist, double us)
{
    return hist->count ? json_real(1e-3 * us) : json_null();
}

static json_t *hist_json(const struct aw_latency_histogram *hist)
{
    json_t *object = json_object();
    for (uint32_t i = 0; i < LEVELS; i++)
        json_object_set_new(object, level_names[i],
                            us_json(hist, (double)aw_latency_histogram_quantile(hist, levels[i])));
    json_object_set_new(object, "max", us_json(hist, (double)hist->max_us));
    json_object_set_new(object, "mean", us_json(hist, aw_latency_histogram_mean(hist)));
    return object;
}

static json_t *result_json(const char *url, const struct aw_drive_config *config,
                           const struct aw_drive_result *result, int64_t slo_us)
{
    json_t *object = json_object(), *errors = json_object(), *statuses = json_object();
    const struct aw_drive_totals *all = &result->all;
    json_object_set_new(object, "url", json_string(url));
    json_object_set_new(object, "arrivals",
                        json_string(aw_arrivals_names[config->timetable.arrivals]));
    json_object_set_new(object, "seed", json_integer((json_int_t)config->timetable.seed));
    json_object_set_new(object, "span_s", json_real(1e-6 * (double)result->span_us));
    json_object_set_new(object, "drained_s", json_real(1e-6 * (double)result->drained_us));
    json_object_set_new(object, "stopped", json_boolean(result->stopped));
    json_object_set_new(object, "due", json_integer((json_int_t)all->due));
    json_object_set_new(object, "answered", json_integer((json_int_t)all->answered));
    json_object_set_new(object, "ok", json_integer((json_int_t)all->ok));
    json_object_set_new(object, "due_per_s", json_real(per_second(all->due, result->span_us)));
    json_object_set_new(object, "answered_per_s",
                        json_real(per_second(all->answered, result->drained_us)));
    json_object_set_new(object, "latency_ms", hist_json(&result->latency));
    if (slo_us < AW_LATENCY_HISTOGRAM_US_MAX)
        json_object_set_new(
            object, "above_slo",
            json_integer((json_int_t)aw_latency_histogram_above(&result->latency, slo_us)));
    json_object_set_new(object, "service_ms", hist_json(&result->service));
    for (uint32_t i = 0; i < AW_DRIVE_ERRORS; i++)
        json_object_set_new(errors, aw_drive_error_name((enum aw_drive_error)i),
                            json_integer((json_int_t)all->error[i]));
    json_object_set_new(object, "errors", errors);
    for (uint32_t i = 1; i < 6; i++) {
        char name[] = {(char)('0' + i), 'x', 'x', '\0'};
        json_object_set_new(statuses, name, json_integer((json_int_t)all->status[i]));
    }
    json_object_set_new(object, "statuses", statuses);
    json_object_set_new(object, "retried", json_integer((json_int_t)all->retried));
    json_object_set_new(object, "connects", json_integer((json_int_t)all->connects));
    json_object_set_new(object, "waiting_max", json_integer((json_int_t)result->backlog_max));
    json_object_set_new(object, "sent_late_ms_p99",
                        json_real(1e-3 * (double)result->behind_us_p99));
    json_object_set_new(object, "bytes_in", json_integer((json_int_t)all->bytes_in));
    json_object_set_new(object, "bytes_out", json_integer((json_int_t)all->bytes_out));
    return object;
}

static void cell_add(struct aw_table *table, const struct aw_latency_histogram *hist, int64_t us)
{
    char buf[AW_QUANTITY_TEXT_MAX];
    aw_table_add(table, "%s", hist->count ? aw_duration_round(us, buf, sizeof buf) : "-");
}

static enum aw_err latency_print(const struct aw_drive_result *result, bool color,
                                 struct aw_diag *diag)
{
    static const char *const heads[] = {"LATENCY", ">p50", ">p90",  ">p99",
                                        ">p99.9",  ">MAX", ">MEAN", NULL};
    const struct aw_latency_histogram *const hists[] = {&result->latency, &result->service};
    static const char *const names[] = {"from when it was due", "from when it was sent"};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t k = 0; k < 2; k++) {
        const struct aw_latency_histogram *hist = hists[k];
        aw_table_add(&table, "%s", names[k]);
        for (uint32_t i = 0; i < LEVELS; i++)
            cell_add(&table, hist, aw_latency_histogram_quantile(hist, levels[i]));
        cell_add(&table, hist, hist->max_us);
        cell_add(&table, hist, llround(aw_latency_histogram_mean(hist)));
    }
    return aw_table_print(&table, stdout, color, diag);
}

static enum aw_err result_print(const struct aw_drive_config *config,
                                const struct aw_drive_result *result, bool color,
                                struct aw_diag *diag)
{
    const struct aw_drive_totals *all = &result->all;
    char a[AW_QUANTITY_TEXT_MAX], b[AW_QUANTITY_TEXT_MAX];
    enum aw_err err = latency_print(result, color, diag);
    if (err)
        return err;
    printf("\nDue:         %llu in %s, %s%s\n", (unsigned long long)all->due,
           aw_duration_round(result->span_us, a, sizeof a),
           aw_rate_round(per_second(all->due, result->span_us), b, sizeof b),
           result->stopped ? " (interrupted)" : "");
    printf("Answered:    %llu in %s, %s", (unsigned long long)all->answered,
           aw_duration_round(result->drained_us, a, sizeof a),
           aw_rate_round(per_second(all->answered, result->drained_us), b, sizeof b));
    printf(", %.4g%% of what was due\n",
           all->due ? 100 * (double)all->answered / (double)all->due : 100);
    printf("Connections: %llu made, at most %u at once", (unsigned long long)all->connects,
           config->connections_max);
    if (result->backlog_max)
        printf("; up to %llu requests waited for one", (unsigned long long)result->backlog_max);
    if (all->retried)
        printf("; %llu requests tried again", (unsigned long long)all->retried);
    putchar('\n');
    printf("Received:    %s, sent %s\n",
           aw_quantity_round_memory((int64_t)all->bytes_in, a, sizeof a),
           aw_quantity_round_memory((int64_t)all->bytes_out, b, sizeof b));
    bool any = false;
    for (uint32_t i = 0; i < AW_DRIVE_ERRORS; i++) {
        if (!all->error[i])
            continue;
        printf("%-13s%llu %s\n", any ? "" : "Errors:", (unsigned long long)all->error[i],
               aw_drive_error_text((enum aw_drive_error)i));
        any = true;
    }
    if (!any)
        printf("Errors:      none\n");
    return AW_OK;
}

/* ---- asking ---- */

/* "Name: value" of --header, checked and joined with line ends. */
static enum aw_err headers_join(const struct aw_call *run, char *buf, struct aw_diag *diag)
{
    struct aw_text text;
    aw_text_init(&text, buf, HEADERS_MAX);
    for (uint32_t i = 0; i < run->args->repeat_count; i++) {
        const char *line = run->args->repeat[i];
        const char *colon = strchr(line, ':');
        if (!colon || colon == line || strpbrk(line, "\r\n"))
            return aw_fail(diag, AW_ERR_USAGE, "--header: expected \"Name: value\", found %s",
                           AW_QUOTE(line));
        aw_text_add(&text, "%s\r\n", line);
    }
    return text.cut ? aw_fail(diag, AW_ERR_LIMIT, "--header: more than %u bytes", HEADERS_MAX)
                    : AW_OK;
}

static enum aw_err time_ask(const struct aw_call *run, const char *name, int64_t *ret_us,
                            struct aw_diag *diag)
{
    const char *text = aw_args_text(run->args, name);
    struct aw_diag why;
    if (!text)
        return AW_OK;
    if (aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, ret_us, &why))
        return aw_fail(diag, AW_ERR_USAGE, "--%s: %s", name, why.text);
    return AW_OK;
}

static enum aw_err rate_ask(const struct aw_call *run, struct aw_timetable_config *timetable,
                            struct aw_load *ret_load, struct aw_diag *diag)
{
    const char *load = aw_args_text(run->args, "load");
    const char *rate = aw_args_text(run->args, "rate");
    const char *speed = aw_args_text(run->args, "speed");
    struct aw_diag why;
    if (aw_text_parse_real(speed, &timetable->speed))
        return aw_fail(diag, AW_ERR_USAGE, "--speed: expected a number, found %s", AW_QUOTE(speed));
    if (load && aw_args_given(run->args, "rate"))
        return aw_fail(diag, AW_ERR_USAGE, "--rate and --load both say how much; give one");
    if (load) {
        struct aw_trace_report report;
        enum aw_err err =
            aw_load_parse_report(load, timetable->seed, NULL, ret_load, &report, diag);
        if (err)
            return err;
        aw__load_warn(run, load, &report);
        timetable->load = ret_load;
        return AW_OK;
    }
    if (aw_rate_parse(rate, &timetable->rate_per_s, &why) &&
        aw_text_parse_real(rate, &timetable->rate_per_s))
        return aw_fail(diag, AW_ERR_USAGE, "--rate: %s", why.text);
    return AW_OK;
}

/* Thousands of connections are more files than a shell usually allows. */
static enum aw_err files_allow(uint32_t connections, struct aw_diag *diag)
{
    struct rlimit limit;
    const rlim_t wanted = (rlim_t)connections + FILES_SPARE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return AW_OK;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        return aw_fail(diag, AW_ERR_LIMIT,
                       "--connections: %u need %llu open files, and this process may have %llu "
                       "(ulimit -n)",
                       connections, (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
    return AW_OK;
}

static enum aw_err ask(const struct aw_call *run, struct aw_drive_config *config,
                       struct aw_load *load, char *headers, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    *config = (struct aw_drive_config){
        .method = aw_args_text(args, "method"),
        .headers = headers,
        .body_len = aw_args_number(args, "body"),
        .connections_max = (uint32_t)aw_args_number(args, "connections"),
        .threads = (uint32_t)aw_args_number(args, "threads"),
        .no_retry = aw_args_given(args, "no-retry"),
        .timetable = {.arrivals = strcmp(aw_args_text(args, "arrivals"), "even")
                                      ? AW_ARRIVALS_POISSON
                                      : AW_ARRIVALS_EVEN,
                      .seed = aw_args_number(args, "seed"),
                      .requests =
                          aw_args_given(args, "requests") ? aw_args_number(args, "requests") : 0},
    };
    enum aw_err err = aw_target_parse(args->positional[0], aw_args_given(args, "allow-remote"),
                                      &config->target, diag);
    if (!err)
        err = headers_join(run, headers, diag);
    if (!err && (aw_args_given(args, "duration") || !config->timetable.requests))
        err = time_ask(run, "duration", &config->timetable.duration_us, diag);
    if (!err)
        err = time_ask(run, "timeout", &config->timeout_us, diag);
    if (!err)
        err = time_ask(run, "warm-up", &config->warm_up_us, diag);
    if (!err)
        err = rate_ask(run, &config->timetable, load, diag);
    if (!err && config->timetable.duration_us > 0)
        config->timetable.duration_us += config->warm_up_us;
    if (!err)
        err = files_allow(config->connections_max, diag);
    return err;
}

static enum aw_err series_open(const struct aw_call *run, struct live *live, struct aw_diag *diag)
{
    const char *path = aw_args_text(run->args, "series");
    live->slo_us = AW_LATENCY_HISTOGRAM_US_MAX;
    const enum aw_err err = time_ask(run, "slo", &live->slo_us, diag);
    if (err || !path)
        return err;
    live->series = fopen(path, "we");
    if (!live->series)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "--series %s: %s", AW_QUOTE(path),
                       strerror(errno));
    fputs("time_s,due,answered,failed,above_slo,in_flight,p50_ms,p99_ms,max_ms\n", live->series);
    return AW_OK;
}

static enum aw_err series_close(struct live *live, enum aw_err err, struct aw_diag *diag)
{
    if (!live->series)
        return err;
    const bool failed = ferror(live->series) != 0;
    if ((fclose(live->series) != 0 || failed) && !err)
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "--series: %s", strerror(errno));
    live->series = NULL;
    return err;
}

static enum aw_err drive_run(const struct aw_call *run, struct aw_diag *diag)
{
    char headers[HEADERS_MAX];
    struct aw_drive_config config = {0};
    struct aw_load load = {0};
    struct live live = {0};
    aw_status_line_init(&live.line, stderr, false);
    char *body = NULL;
    struct aw_drive_result *result = aw_alloc_new(NULL, 1, sizeof *result);
    if (!result)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a result");
    enum aw_err err = ask(run, &config, &load, headers, diag);
    err = err ? err : series_open(run, &live, diag);
    if (err)
        goto out;
    if (config.body_len) {
        if (!(body = aw_alloc_new(NULL, config.body_len, 1))) {
            err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a body");
            goto out;
        }
        memset(body, 'x', config.body_len);
        config.body = body;
    }
    config.report_us = REPORT_US;
    config.report = live_report;
    config.ctx = &live;
    aw_stop_catch(&(struct aw_stop_config){.twice = false});
    err = aw_drive_run(&config, result, diag);
    aw_stop_let_go();
    aw_status_line_clear(&live.line);
    if (!err)
        err = run->json
                  ? aw_json_print(
                        result_json(run->args->positional[0], &config, result, live.slo_us), diag)
                  : result_print(&config, result, run->color_out, diag);
out:
    err = series_close(&live, err, diag);
    aw_alloc_free(NULL, body);
    aw_alloc_free(NULL, result);
    aw_load_deinit(&load);
    return err;
}

static const struct aw_option drive_options[] = {
    AW_OPTION(TEXT, "rate", 'r', "RATE", "100/s", "how many requests, e.g. 250/s or 20k/s"),
    AW_OPTION(LOAD, "load", 'l', "LOAD", NULL,
              "or how many over time: PATTERN[:key=value,...] or FILE[:key=value,...], see 'aware "
              "load show'"),
    AW_OPTION(TEXT, "speed", 0, "X", "1", "the load's time runs so many times faster; rates stay"),
    AW_OPTION(CHOICE, "arrivals", 0, "HOW", "poisson",
              "requests at random moments, or evenly spaced", .choices = aw_arrivals_names),
    AW_OPTION(TEXT, "duration", 'd', "TIME", "10s",
              "how long requests are due; no limit with --requests alone"),
    AW_NUMBER("requests", 'n', "N", NULL, 1, UINT64_MAX, "at most so many"),
    AW_OPTION(TEXT, "warm-up", 0, "TIME", "0", "before that, requests that are not counted"),
    AW_NUMBER("connections", 'c', "N", "256", 1, AW_DRIVE_CONNECTIONS_MAX,
              "connections at once; a request that finds all of them busy waits, and that counts"),
    AW_NUMBER("threads", 0, "N", "1", 1, AW_DRIVE_THREADS_MAX,
              "threads to send from; one sends tens of thousands a second"),
    AW_OPTION(TEXT, "timeout", 0, "TIME", "10s", "of a request, from when it was due"),
    AW_OPTION(CHOICE, "method", 0, "METHOD", "GET", "of the requests", .choices = method_choices),
    AW_OPTION(TEXT, "header", 'H', "LINE", NULL,
              "another header, e.g. \"Accept: text/html\"; may be repeated", .repeated = true),
    AW_NUMBER("body", 0, "BYTES", "0", 0, AW_DRIVE_BODY_BYTES_MAX,
              "bytes that each request carries"),
    AW_OPTION_SEED("1", "of the timetable: the same seed, the same moments"),
    AW_OPTION(FILE, "series", 0, "FILE", NULL,
              "write a line of CSV each second: what was due, answered, failed and above --slo, "
              "and the latencies of what was answered or failed"),
    AW_OPTION(TEXT, "slo", 0, "TIME", NULL,
              "count answers that took longer, for --series and --output json"),
    AW_FLAG("no-retry", 0,
            "a kept connection that turns out to be closed is an error, not tried again"),
    AW_FLAG("allow-remote", 0,
            "also to other machines than this one: only where you may press the target"),
    {.name = NULL},
};
static const struct aw_positional drive_positionals[] = {
    {.name = "URL", .kind = AW_ARG_TEXT, .help = "http://127.0.0.1:8080/path"},
    {.name = NULL},
};
static const struct aw_example drive_examples[] = {
    {"aware load http://127.0.0.1:8080/ --rate 200/s --duration 30s", "a steady load"},
    {"aware load :8080 --load bursts:mean=50/s,peak=6,period=1m --duration 5m", "with bursts"},
    {"aware load :8080 --load invocations.csv:row=3,mean=30/s --speed 60 -d 24m",
     "a day of a trace in 24 minutes"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_load = {
    .name = "load",
    .summary = "Send requests to a server when they are due, and measure",
    .text = "Open loop: requests are sent by the timetable, whether or not earlier ones have been "
            "answered, and latency runs from the moment at which a request was due. A server that "
            "stalls for a second therefore shows in the figures with every request of that second, "
            "which a generator that waits for answers would never have sent (coordinated "
            "omission). A request that fails without an answer counts with the time until it did. "
            "The second row of the table, from when a request was sent, is what such a one "
            "reports, of those that were answered.\n\n"
            "Connections are kept alive. Only this machine is pressed unless --allow-remote is "
            "given. Ends by itself; Ctrl-C ends it early, with what was measured.",
    .options = drive_options,
    .positionals = drive_positionals,
    .examples = drive_examples,
    .json = true,
    .run = drive_run,
};
