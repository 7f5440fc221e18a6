/*
 * run_report.c - a run as a page: the reward of episodes over time across workloads (the shape of
 * AWARE's Fig. 1), a summary, what happened, and a panel of plots for each workload.
 */
#include "cli/run.h"

#include "base/quantity.h"
#include "frame/page.h"

#include <inttypes.h>
#include <math.h>

#define TEXT_MAX 1024u

extern const char aw_report_run_html[], aw_report_run_css[], aw_report_run_js[];

static const char *comma(bool *first)
{
    const char *text = *first ? "" : ",";
    *first = false;
    return text;
}

/* One number of every point. */
static void put_points(FILE *out, const struct aw_history *h, uint32_t workload, size_t offset)
{
    const struct aw_history_point *point = &h->point[(size_t)workload * AW_HISTORY_POINTS_MAX];
    for (uint32_t i = 0; i < h->points; i++) {
        float value;
        memcpy(&value, (const char *)&point[i] + offset, sizeof value);
        putc(i ? ',' : '[', out);
        aw_page_real(out, (double)value);
    }
    fputs(h->points ? "]" : "[]", out);
}

/* The same of both worlds. */
static void put_both(FILE *out, const struct aw_history *h, uint32_t workload, const char *key,
                     size_t offset, bool twin)
{
    fprintf(out, ",\"%s\":[", key);
    put_points(out, h, workload, offset);
    if (twin) {
        putc(',', out);
        put_points(out, h, workload, offset + sizeof(float));
    }
    putc(']', out);
}

/* A run that went on after its history was lost has points from then on alone. */
static void put_series(FILE *out, const struct aw__runend *end, uint32_t workload)
{
    const struct aw_history *h = end->history;
    const bool twin = end->ask->twin;
    const struct aw_history_point *point = &h->point[(size_t)workload * AW_HISTORY_POINTS_MAX];
    fprintf(out, ",\"stride\":%" PRIu32 ",\"t\":[", h->stride);
    for (uint32_t i = 0; i < h->points; i++) {
        const uint64_t step = (uint64_t)(i + 1) * h->stride;
        fprintf(out, "%s%.9g", i ? "," : "",
                (double)(step < h->steps ? step : h->steps) * h->step_s);
    }
    fputs("],\"stages\":[", out);
    for (uint32_t i = 0; i < h->points; i++)
        fprintf(out, "%s%d", i ? "," : "", point[i].stage);
    fputs("],\"missed\":[", out);
    for (uint32_t w = 0; w < (twin ? 2u : 1u); w++) {
        fputs(w ? ",[" : "[", out);
        for (uint32_t i = 0; i < h->points; i++)
            fprintf(out, "%s%d", i ? "," : "", point[i].missed[w]);
        putc(']', out);
    }
    fputs("],\"load\":", out);
    put_points(out, h, workload, offsetof(struct aw_history_point, load));
#define BOTH(key, member) \
    put_both(out, h, workload, key, offsetof(struct aw_history_point, member), twin)
    BOTH("ready", ready);
    BOTH("wanted", wanted);
    BOTH("cpu", cpu_cores);
    BOTH("mem", memory_gib);
    BOTH("ucpu", cpu_used);
    BOTH("umem", memory_used);
    BOTH("p99", p99_ms);
    BOTH("cost", cost_per_hour);
#undef BOTH
}

static void put_episodes(FILE *out, const struct aw__runend *end, uint32_t workload)
{
    const struct aw_history *h = end->history;
    const struct aw_history_episode *list = &h->episode[(size_t)workload * AW_HISTORY_EPISODES_MAX];
    const uint32_t count = h->episode_count[workload];
    fputs(",\"ep\":{\"t\":[", out);
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s%.9g", i ? "," : "", list[i].end_s);
    fputs("],\"stage\":[", out);
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s%" PRIu32, i ? "," : "", list[i].stage);
    fputs("],\"reward\":[", out);
    for (uint32_t w = 0; w < (end->ask->twin ? 2u : 1u); w++) {
        fputs(w ? ",[" : "[", out);
        for (uint32_t i = 0; i < count; i++) {
            fputs(i ? "," : "", out);
            aw_page_real(out, (double)list[i].reward[w]);
        }
        putc(']', out);
    }
    fputs("]}", out);
}

static void put_totals(FILE *out, const char *key, const struct aw_totals totals[AW_JOB_WORLDS],
                       const struct aw_totals less[AW_JOB_WORLDS])
{
    fprintf(out, ",\"%s\":[", key);
    for (int w = 0; w < AW_JOB_WORLDS; w++) {
        const struct aw_totals *t = &totals[w], zero = {0}, *l = less ? &less[w] : &zero;
        fprintf(out,
                "%s{\"steps\":%" PRIu64 ",\"missed\":%" PRIu64 ",\"changes\":%" PRIu64
                ",\"back\":%" PRIu64 ",\"cost\":%.9g,\"reward\":%.9g,\"ucpu\":%.9g,\"umem\":%.9g}",
                w ? "," : "", t->steps - l->steps, t->violations - l->violations,
                t->replica_changes - l->replica_changes, t->reversals_down - l->reversals_down,
                t->cost - l->cost, t->reward - l->reward, t->cpu_utilisation - l->cpu_utilisation,
                t->memory_utilisation - l->memory_utilisation);
    }
    putc(']', out);
}

static uint64_t trips_of(const struct aw_history_counts *counts)
{
    uint64_t trips = 0;
    for (uint32_t c = 0; c < AW_WATCHDOG_CAUSE_COUNT; c++)
        trips += counts->trips[c];
    return trips;
}

static void put_workload(FILE *out, const struct aw__runend *end, uint32_t i)
{
    const struct aw_pilot_config *pilot = &end->ask->workload[i].pilot;
    struct aw_job_view view;
    aw_job_view(end->job, i, &view);
    fputs("{\"name\":", out);
    aw_page_text(out, aw_run_name(view.name));
    fprintf(out, ",\"stage\":%d,\"episode_steps\":%" PRIu32 ",\"trips\":%" PRIu64 ",\"serving_s\":",
            aw_pilot_stage(view.pilot), pilot->episode_steps, trips_of(&end->history->counts[i]));
    if (view.serving_us == AW_NEVER)
        fputs("null", out);
    else
        fprintf(out, "%.9g", 1e-6 * (double)view.serving_us);
    fprintf(out, ",\"slo_ms\":%.6g", 1e-3 * pilot->slo.latency_us_p99);
    put_totals(out, "whole", view.total, NULL);
    put_totals(out, "after", view.total, view.before_serving);
    put_episodes(out, end, i);
    if (i < end->history->plotted)
        put_series(out, end, i);
    else
        fputs(",\"t\":[]", out);
    putc('}', out);
}

/* All workloads as one row. */
static void put_all(FILE *out, const struct aw__runend *end)
{
    struct aw_totals whole[AW_JOB_WORLDS] = {0}, before[AW_JOB_WORLDS] = {0};
    uint64_t trips = 0;
    uint32_t served = 0;
    for (uint32_t i = 0; i < end->ask->count; i++) {
        struct aw_job_view view;
        aw_job_view(end->job, i, &view);
        served += aw_pilot_stage(view.pilot) == AW_STAGE_SERVING;
        trips += trips_of(&end->history->counts[i]);
        for (int w = 0; w < AW_JOB_WORLDS; w++) {
            aw_totals_add(&whole[w], &view.total[w], 1);
            aw_totals_add(&before[w], &view.before_serving[w], 1);
        }
    }
    fprintf(out,
            ",\"all\":{\"name\":\"all\",\"stage\":null,\"served\":\"%" PRIu32 " of %" PRIu32
            " serve\",\"serving_s\":null,\"episode_steps\":%" PRIu32 ",\"trips\":%" PRIu64,
            served, end->ask->count, end->ask->workload[0].pilot.episode_steps, trips);
    put_totals(out, "whole", whole, NULL);
    put_totals(out, "after", whole, before);
    putc('}', out);
}

static void put_events(FILE *out, const struct aw_history *h)
{
    uint64_t kept = h->event_count < AW_HISTORY_EVENTS_MAX ? h->event_count : AW_HISTORY_EVENTS_MAX;
    bool first = true;
    fputs(",\"events\":[", out);
    while (kept-- > 0) {
        const struct aw_history_event *event = aw_history_event(h, kept);
        fprintf(out,
                "%s{\"t\":%.9g,\"w\":%" PRIu32 ",\"kind\":%" PRIu32 ",\"to\":%" PRIu32 ",\"text\":",
                comma(&first), 1e-6 * (double)event->at_us, event->workload, event->kind,
                event->to);
        aw_page_text(out, event->text);
        putc('}', out);
    }
    putc(']', out);
}

static void put_data(FILE *out, const void *ctx)
{
    const struct aw__runend *end = ctx;
    const struct aw_daemon_config *ask = end->ask;
    char about[TEXT_MAX], clock[AW_RUN_CLOCK_MAX];
    struct aw_text text;
    aw_text_init(&text, about, sizeof about);
    aw_text_add(&text,
                "%" PRIu32 " workload%s on %s for %s (hours:minutes), a decision "
                "every %g s, seed %" PRIu64 ". ",
                ask->count, ask->count == 1 ? "" : "s",
                ask->local ? "this machine" : "the simulated cluster",
                aw_run_clock(aw_job_lived_us(end->job), clock, sizeof clock), ask->step_s,
                ask->seed);
    if (ask->twin)
        aw_text_add(&text,
                    "Beside it a twin of the cluster had the same load and chance under %s alone.",
                    ask->fallback);
    fputs("{\"about\":", out);
    aw_page_text(out, about);
    fprintf(out, ",\"twin\":%s,\"fallback\":", ask->twin ? "true" : "false");
    aw_page_text(out, ask->fallback);
    double budget = 0;
    for (uint32_t i = 0; i < ask->count; i++)
        budget = fmax(budget, ask->workload[i].pilot.slo_budget);
    fprintf(out, ",\"budget\":%.9g,\"step_s\":%.9g", budget, ask->step_s);
    fprintf(out, ",\"quantile\":\"p%.0f\",\"left_out\":%" PRIu32 ",\"words\":[",
            100 * ask->workload[0].pilot.slo.quantile, ask->count - end->history->plotted);
    aw__runsummary_words(end, aw_page_text, out);
    fputs("],\n\"workloads\":[", out);
    for (uint32_t i = 0; i < ask->count; i++) {
        if (i)
            fputs(",\n", out);
        put_workload(out, end, i);
    }
    putc(']', out);
    put_all(out, end);
    put_events(out, end->history);
    putc('}', out);
}

static void put_title(FILE *out, const void *ctx)
{
    const struct aw__runend *end = ctx;
    fprintf(out, "aware run: %s%" PRIu32 " workload%s", end->ask->demo ? "the demo, " : "",
            end->ask->count, end->ask->count == 1 ? "" : "s");
}

enum aw_err aw__runreport_write(const struct aw__runend *end, const char *path,
                                struct aw_diag *diag)
{
    static const struct aw_page_part parts[] = {
        {.name = "title", .put = put_title},
        {.name = "data", .put = put_data},
        {.name = "run.css", .text = aw_report_run_css},
        {.name = "run.js", .text = aw_report_run_js},
        {.name = NULL},
    };
    return aw_page_write(aw_report_run_html, parts, end, path, diag);
}
