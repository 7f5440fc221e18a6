/* report.c - points kept while a run goes on, then the page around them. */
#include "lab/report.h"

#include "base/quantity.h"
#include "base/units.h"
#include "frame/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define TITLE_MAX 256u
#define NOTES_MAX 1024u

extern const char aw_report_page_html[], aw_report_page_js[];

struct point {
    float at_s; /* end of the step, from the beginning of the first */
    float load, wanted, ready, cpu_cores, memory_gib, cpu_used, memory_used, p99_ms;
    uint8_t missed, set, cause;
    int8_t direction; /* of the replicas */
};

struct series {
    struct point *point;
    uint32_t count, steps;
    int64_t begin_us;
    uint32_t wanted; /* of the previous step */
};

struct aw__report {
    const struct aw__simulate *ask;
    uint32_t stride; /* steps that become one point */
    uint32_t capacity;
    struct series series[AW_SIMULATE_POLICIES_MAX];
};

enum aw_err aw__report_new(const struct aw__simulate *ask, struct aw__report **ret,
                           struct aw_diag *diag)
{
    const struct aw_simulate_settings *s = &ask->config.settings;
    const uint64_t steps = (uint64_t)s->episodes * s->episode_steps;
    struct aw__report *report = aw_alloc_new(NULL, 1, sizeof *report);
    if (!report)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a report");
    report->ask = ask;
    report->stride = (uint32_t)((steps + AW__REPORT_POINTS_MAX - 1) / AW__REPORT_POINTS_MAX);
    report->capacity = (uint32_t)((steps + report->stride - 1) / report->stride);
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        report->series[i].point = aw_alloc_new(NULL, report->capacity, sizeof(struct point));
        if (!report->series[i].point) {
            aw__report_free(report);
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for a report of %" PRIu32 " points",
                           report->capacity);
        }
    }
    *ret = report;
    return AW_OK;
}

void aw__report_free(struct aw__report *report)
{
    for (uint32_t i = 0; report && i < AW_SIMULATE_POLICIES_MAX; i++)
        aw_alloc_free(NULL, report->series[i].point);
    aw_alloc_free(NULL, report);
}

/* Several steps as one point: means, but the worst latency, any violation, the last decision. */
static void point_merge(struct point *into, const struct point *p, uint32_t nth)
{
    const float weight = 1 / (float)nth;
    float *const mean[] = {&into->load, &into->ready, &into->cpu_used, &into->memory_used};
    const float value[] = {p->load, p->ready, p->cpu_used, p->memory_used};
    for (size_t i = 0; i < sizeof mean / sizeof *mean; i++)
        *mean[i] += weight * (value[i] - *mean[i]);
    into->p99_ms = fmaxf(into->p99_ms, p->p99_ms); /* of a number and NAN: the number */
    into->at_s = p->at_s;
    into->wanted = p->wanted;
    into->cpu_cores = p->cpu_cores;
    into->memory_gib = p->memory_gib;
    into->missed |= p->missed;
    into->set |= p->set;
    if (p->set) {
        into->cause = p->cause;
        into->direction = p->direction;
    }
}

void aw__report_add(struct aw__report *report, uint32_t policy, const struct aw_simulate_step *step)
{
    struct series *s = &report->series[policy];
    const struct aw_simulate_settings *settings = &report->ask->config.settings;
    const uint32_t slot = s->steps / report->stride;
    const uint32_t wanted = step->plan.set & AW_PLAN_REPLICAS ? step->plan.replicas : s->wanted;
    AW_ASSERT(slot < report->capacity);
    const struct point p = {
        .at_s = (float)((s->steps + 1) * settings->step_s),
        .load = (float)step->arrivals_per_s,
        .wanted = (float)step->replicas_wanted,
        .ready = (float)(step->truth.replica_s / settings->step_s),
        .cpu_cores = (float)((double)step->cpu_millicores * 1e-3),
        .memory_gib = (float)((double)step->memory_bytes / AW_GIB_REAL),
        .cpu_used = (float)step->cpu_utilization,
        .memory_used = (float)step->memory_utilization,
        .p99_ms = (float)(step->truth.latency_us_p99 * 1e-3),
        .missed = step->violated,
        .set = (uint8_t)step->plan.set,
        .cause = (uint8_t)step->reason.cause,
        .direction = (int8_t)(s->steps == 0 ? 0 : (wanted > s->wanted) - (wanted < s->wanted)),
    };
    s->wanted = step->replicas_wanted;
    const uint32_t nth = s->steps % report->stride + 1;
    if (nth == 1)
        s->point[slot] = p;
    else
        point_merge(&s->point[slot], &p, nth);
    s->count = slot + 1;
    s->steps++;
}

/* --- the page ---------------------------------------------------------------------------------
 */

struct page {
    const struct aw__report *report;
    const struct aw_simulate_summary *summary;
    FILE *out;
};

static void put_floats(const struct page *page, const struct series *s, const char *key,
                       size_t offset)
{
    fprintf(page->out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < s->count; i++) {
        float value;
        memcpy(&value, (const char *)&s->point[i] + offset, sizeof value);
        if (i)
            putc(',', page->out);
        aw_page_real(page->out, (double)value);
    }
    putc(']', page->out);
}

static void put_bytes(const struct page *page, const struct series *s, const char *key,
                      size_t offset)
{
    fprintf(page->out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < s->count; i++)
        fprintf(page->out, "%s%d", i ? "," : "",
                *((const signed char *)&s->point[i] + offset)); /* all are below 128 */
    putc(']', page->out);
}

static void put_policy(const struct page *page, uint32_t policy)
{
    const struct aw__simulate *ask = page->report->ask;
    const struct series *s = &page->report->series[policy];
    const struct aw_simulate_summary *summary = &page->summary[policy];
    char text[128];
    FILE *out = page->out;
    fputs("{\"name\":", out);
    aw_page_text(out, ask->policy[policy].name);
    fprintf(out, ",\"oracle\":%s,\"tuned\":", ask->policy[policy].is_oracle ? "true" : "false");
    aw_page_text(out, aw__simulate_tuned(ask, policy, summary, text, sizeof text));
    fputs(",\"summary\":[", out);
    for (uint32_t c = 0; c < AW_SIMULATE_COLUMN_COUNT; c++) {
        if (c)
            putc(',', out);
        aw_page_real(out, aw_simulate_column_get(&summary->mean, c));
    }
    fputs("],\"competes\":[", out);
    for (uint32_t c = 0; c < AW_SIMULATE_COLUMN_COUNT; c++)
        fprintf(out, "%s%d", c ? "," : "", aw__simulate_competes(ask, page->summary, c, policy));
    fprintf(out, "],\"dt\":%g", ask->config.settings.step_s * page->report->stride);
#define FLOATS(key, member) put_floats(page, s, key, offsetof(struct point, member))
#define BYTES(key, member)  put_bytes(page, s, key, offsetof(struct point, member))
    fputs(",\"t\":[", out); /* whole: four digits would not tell steps of a long run apart */
    for (uint32_t i = 0; i < s->count; i++)
        fprintf(out, "%s%.9g", i ? "," : "", (double)s->point[i].at_s);
    putc(']', out);
    FLOATS("load", load);
    FLOATS("wanted", wanted);
    FLOATS("ready", ready);
    FLOATS("cpu", cpu_cores);
    FLOATS("mem", memory_gib);
    FLOATS("ucpu", cpu_used);
    FLOATS("umem", memory_used);
    FLOATS("p99", p99_ms);
    BYTES("bad", missed);
    BYTES("set", set);
    BYTES("dir", direction);
    BYTES("why", cause);
#undef FLOATS
#undef BYTES
    putc('}', out);
}

static void put_columns(FILE *out)
{
    static const char *const units[] = {
        [AW__FIGURE_PLAIN] = "",
        [AW__FIGURE_SHARE] = "share",
        [AW__FIGURE_TIME] = "us",
        [AW__FIGURE_MONEY] = "usd",
    };
    fputs("\"columns\":[", out);
    for (uint32_t c = 0; c < AW_SIMULATE_COLUMN_COUNT; c++) {
        const struct aw_simulate_column *column = &aw_simulate_column[c];
        fprintf(out, "%s{\"name\":\"%s\",\"unit\":\"%s\",\"better\":\"%s\",\"text\":", c ? "," : "",
                column->name, units[aw__simulate_kind(c)],
                column->better == AW_SIMULATE_HIGH ? "high" : "low");
        aw_page_text(out, column->text);
        putc('}', out);
    }
    fputs("],\"causes\":[", out);
    for (int i = 0; i < AW_FALLBACK_CAUSE_COUNT; i++) {
        if (i)
            putc(',', out);
        aw_page_text(out, aw_fallback_cause_text((enum aw_fallback_cause)i));
    }
    putc(']', out);
}

static void put_about(const struct page *page)
{
    const struct aw__simulate *ask = page->report->ask;
    const struct aw_simulate_settings *s = &ask->config.settings;
    const struct aw_load_figures load = aw_load_figures(ask->cases[0].load);
    char about[NOTES_MAX], mean[AW_QUANTITY_TEXT_MAX], slo[AW_QUANTITY_TEXT_MAX];
    struct aw_text notes;
    aw_text_init(&notes, about, sizeof about);
    aw_text_add(&notes,
                "Load: %s, %s on average. %" PRIu32 " episodes of %" PRIu32
                " steps of %g s, %s model, seed %" PRIu64 ".",
                ask->load_text, aw_rate_round(load.mean_per_s, mean, sizeof mean), s->episodes,
                s->episode_steps, s->step_s,
                ask->config.sim.model == AW_SIM_FAST ? "fast" : "reference", ask->config.seed);
    if (page->summary->slo_latency_us > 0)
        aw_text_add(&notes, " SLO: p99 within %s in all but %g %% of steps.",
                    aw_duration_round((int64_t)page->summary->slo_latency_us, slo, sizeof slo),
                    100 * s->slo_budget);
    fputs("\"about\":", page->out);
    aw_page_text(page->out, about);
    aw_text_init(&notes, about, sizeof about);
    aw_text_add(&notes, "Figures are per hour where nothing else is said. ");
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        if (ask->policy[i].is_oracle) {
            aw_text_add(&notes, "A ceiling knows the load to come and is no controller. ");
            break;
        }
    }
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        if (ask->policy[i].tuning != AW_SIMULATE_AS_GIVEN) {
            aw_text_add(&notes, "Tuned on %s. ", ask->tuning_text);
            break;
        }
    }
    for (uint32_t i = 0; i < ask->schedule.count; i++) {
        const struct aw_event *event = &ask->schedule.event[i];
        char from[AW_QUANTITY_TEXT_MAX], to[AW_QUANTITY_TEXT_MAX];
        aw_text_add(&notes, "%s from %s to %s. ", event->name,
                    aw_duration_round(event->from_us, from, sizeof from),
                    event->to_us == INT64_MAX ? "the end"
                                              : aw_duration_round(event->to_us, to, sizeof to));
    }
    if (page->report->stride > 1)
        aw_text_add(&notes,
                    "A point of a plot stands for %" PRIu32 " steps, with their worst p99. ",
                    page->report->stride);
    fputs(",\"notes\":", page->out);
    aw_page_text(page->out, about);
}

static void put_data(FILE *out, const void *ctx)
{
    struct page filled = *(const struct page *)ctx;
    const struct page *page = &filled;
    const struct aw__simulate *ask = page->report->ask;
    filled.out = out;
    putc('{', out);
    put_about(page);
    fputs(",\"slo_ms\":", out);
    aw_page_real(out, 1e-3 * page->summary->slo_latency_us);
    fputs(",\"slo_budget\":", out);
    aw_page_real(out, ask->config.settings.slo_budget);
    putc(',', out);
    put_columns(out);
    fputs(",\"policies\":[", out);
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        if (i)
            fputs(",\n", out);
        put_policy(page, i);
    }
    fputs("]}", out);
}

static void put_title(FILE *out, const void *ctx)
{
    const struct page *page = ctx;
    const struct aw__simulate *ask = page->report->ask;
    aw_page_escaped(out, ask->cases[0].app.name);
    fputs(ask->policy_count > 1 ? ": policies compared" : " under ", out);
    if (ask->policy_count == 1)
        aw_page_escaped(out, ask->policy[0].name);
}

enum aw_err aw__report_write(const struct aw__report *report,
                             const struct aw_simulate_summary *summary, const char *path,
                             struct aw_diag *diag)
{
    static const struct aw_page_part parts[] = {
        {.name = "title", .put = put_title},
        {.name = "data", .put = put_data},
        {.name = "page.js", .text = aw_report_page_js},
        {.name = NULL},
    };
    const struct page page = {.report = report, .summary = summary};
    return aw_page_write(aw_report_page_html, parts, &page, path, diag);
}
