/* intake.c - see intake.h. */
#include "firm/intake.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DONE_MAX   16384u
#define TRACES_MAX 16384u
/* What has come in is compared over as many steps as it takes to have so many requests: of fewer, a
 * fifth more or less is chance, and the moment at which a batch of spans arrives. */
#define COMPARED_LEAST 60.0
#define COMPARED_STEPS 8u

struct aw_firm_intake {
    const struct aw_graph_app *app;
    struct aw_names *names;
    double traced;
    struct aw_assembly *assembly;
    struct aw_analysis analysis;
    struct aw_spans whole; /* its own names stay empty: spans carry numbers of `names` */
    struct aw_graph_done *done;
    uint32_t done_count;
    uint32_t traces, holes, skewed, roots;
    uint32_t good_steps;
    uint32_t arrived;       /* root spans of this step, not put together yet */
    double expected_before; /* requests of the step before: what is whole now began in it */
    struct {
        double arrived, now, roots, before;
    } past[COMPARED_STEPS]; /* a ring, the step at `past_at` the last */
    uint32_t past_at;
    char why[AW_FIRM_DOUBT_MAX];
    const struct aw_alloc *alloc;
};

enum aw_err aw_firm_intake_new(const struct aw_graph_app *app, struct aw_names *names,
                               double traced, const struct aw_alloc *alloc,
                               struct aw_firm_intake **ret)
{
    struct aw_firm_intake *intake = aw_alloc_new(alloc, 1, sizeof *intake);
    if (!intake)
        return AW_ERR_NOMEM;
    intake->alloc = alloc;
    intake->app = app;
    intake->names = names;
    intake->traced = traced;
    intake->done = aw_alloc_new(alloc, DONE_MAX, sizeof *intake->done);
    const struct aw_assembly_config config = {
        .quiet_us = AW_FIRM_QUIET_US, .spans_max = AW_GRAPH_SPANS_MAX, .traces_max = TRACES_MAX};
    enum aw_err err = intake->done ? AW_OK : AW_ERR_NOMEM;
    err = err ? err : aw_assembly_new(&intake->assembly, &config, alloc);
    err = err ? err : aw_analysis_init(&intake->analysis, alloc);
    err = err ? err : aw_spans_init(&intake->whole, AW_GRAPH_SPANS_MAX, alloc);
    if (err) {
        aw_firm_intake_free(intake);
        return err;
    }
    *ret = intake;
    return AW_OK;
}

void aw_firm_intake_free(struct aw_firm_intake *intake)
{
    if (!intake)
        return;
    aw_spans_deinit(&intake->whole);
    aw_analysis_deinit(&intake->analysis);
    aw_assembly_free(intake->assembly);
    aw_alloc_free(intake->alloc, intake->done);
    aw_alloc_free(intake->alloc, intake);
}

struct aw_assembly_counts aw_firm_intake_counts(const struct aw_firm_intake *intake)
{
    return aw_assembly_counts(intake->assembly);
}

static void whole_take(void *ctx, const struct aw_span *spans, uint32_t count)
{
    struct aw_firm_intake *intake = ctx;
    for (uint32_t i = 0; i < count; i++) {
        struct aw_span *span = aw_spans_push(&intake->whole);
        if (span)
            *span = spans[i];
    }
}

/* The type that a root span is of: its entry's service and operation. AW_GRAPH_NONE: of none. */
static uint32_t type_of(const struct aw_firm_intake *intake, const struct aw_span *root)
{
    const struct aw_graph_app *app = intake->app;
    const char *service = aw_names_text(intake->names, root->service);
    const char *operation = aw_names_text(intake->names, root->operation);
    uint32_t found = AW_GRAPH_NONE;
    for (uint32_t t = 0; t < app->type_count; t++) {
        const struct aw_graph_op *entry = &app->ops[app->types[t].op];
        if (strcmp(app->services[entry->service].name, service) != 0)
            continue;
        if (strcmp(entry->name, operation) == 0)
            return t;
        found = found == AW_GRAPH_NONE ? t : found;
    }
    return found;
}

static bool request_take(void *ctx, const struct aw_request *request)
{
    struct aw_firm_intake *intake = ctx;
    const struct aw_span *root = &request->spans[request->root];
    const struct aw_request_counts *counts = &request->counts;
    intake->traces++;
    if (counts->orphaned || counts->adopted || counts->rootless)
        intake->holes++;
    if (root->parent || counts->rootless)
        return true; /* how long the whole took, nobody knows */
    const uint32_t type = type_of(intake, root);
    if (type == AW_GRAPH_NONE)
        return true;
    const double most_ns = 1e6 * AW_FIRM_SKEW_OF_SLO * intake->app->types[type].slo_ms;
    for (uint32_t i = 0; i < request->count; i++)
        if (request->nodes[i].flags & AW_NODE_SKEWED &&
            fabs((double)(request->nodes[i].start_ns - request->spans[i].start_ns)) > most_ns) {
            intake->skewed++;
            break;
        }
    intake->roots++;
    if (intake->done_count < DONE_MAX)
        intake->done[intake->done_count++] =
            (struct aw_graph_done){.type = type,
                                   .failed = root->flags & AW_SPAN_ERROR,
                                   .arrival_ns = root->start_ns,
                                   .latency_ns = aw_request_latency_ns(request)};
    return true;
}

/* Requests that have come in, by what the entry services say of themselves. */
static double expected(const struct aw_firm_intake *intake, const struct aw_graph_reading *readings,
                       double step_s)
{
    const struct aw_graph_app *app = intake->app;
    bool entry[AW_GRAPH_SERVICES_MAX] = {false};
    double sum = 0;
    for (uint32_t t = 0; t < app->type_count; t++)
        entry[app->ops[app->types[t].op].service] = true;
    for (uint32_t s = 0; s < app->service_count; s++)
        sum += entry[s] ? readings[s].visits_per_s * step_s : 0;
    return intake->traced * sum;
}

static void judge(struct aw_firm_intake *intake, double now)
{
    char *why = intake->why;
    double arrived = 0, awaited = 0, roots = 0, awaited_before = 0;
    const double traces = intake->traces, before = intake->expected_before;
    intake->expected_before = now;
    why[0] = '\0';
    intake->past_at = (intake->past_at + 1) % COMPARED_STEPS;
    intake->past[intake->past_at].arrived = intake->arrived;
    intake->past[intake->past_at].now = now;
    intake->past[intake->past_at].roots = intake->roots;
    intake->past[intake->past_at].before = before;
    for (uint32_t i = 0; i < COMPARED_STEPS && awaited < COMPARED_LEAST; i++) {
        const uint32_t at = (intake->past_at + COMPARED_STEPS - i) % COMPARED_STEPS;
        arrived += intake->past[at].arrived;
        awaited += intake->past[at].now;
        roots += intake->past[at].roots;
        awaited_before += intake->past[at].before;
    }
    if (now < AW_FIRM_EXPECT_LEAST || before < AW_FIRM_EXPECT_LEAST)
        snprintf(why, AW_FIRM_DOUBT_MAX, "too few requests to say anything");
    else if (arrived < AW_FIRM_ROOTS_LEAST * awaited)
        snprintf(why, AW_FIRM_DOUBT_MAX, "spans are late or missing: %.0f of about %.0f requests",
                 arrived, awaited);
    else if (roots < AW_FIRM_ROOTS_LEAST * awaited_before)
        snprintf(why, AW_FIRM_DOUBT_MAX, "spans are late or missing: %.0f of about %.0f requests",
                 roots, awaited_before);
    else if (intake->holes > AW_FIRM_HOLES_MOST * traces)
        snprintf(why, AW_FIRM_DOUBT_MAX, "%.0f %% of traces have holes",
                 100 * intake->holes / traces);
    else if (intake->skewed > AW_FIRM_SKEWED_MOST * traces)
        snprintf(why, AW_FIRM_DOUBT_MAX, "clocks are off by much of an SLO in %.0f %% of traces",
                 100 * intake->skewed / traces);
    intake->good_steps = *why ? 0 : intake->good_steps + 1;
    if (!*why && intake->good_steps < AW_FIRM_TRUST_STEPS)
        snprintf(why, AW_FIRM_DOUBT_MAX, "spans are good for %u steps only", intake->good_steps);
}

void aw_firm_intake_push(struct aw_firm_intake *intake, const struct aw_span *span,
                         int64_t arrived_us)
{
    intake->arrived += span->parent == 0;
    (void)aw_assembly_push(intake->assembly, span, arrived_us); /* what is refused is counted */
}

void aw_firm_intake_take(struct aw_firm_intake *intake, const struct aw_span *spans, uint32_t count,
                         const struct aw_graph_reading *readings, int64_t now_ns, double step_s,
                         struct aw_firm_taken *ret)
{
    for (uint32_t i = 0; i < count; i++)
        aw_firm_intake_push(intake, &spans[i], now_ns / 1000 - 1);
    aw_spans_reset(&intake->whole);
    intake->done_count = intake->traces = intake->holes = intake->skewed = intake->roots = 0;
    aw_assembly_poll(intake->assembly, now_ns / 1000, whole_take, intake);
    aw_analysis_each(&intake->analysis, &intake->whole, request_take, intake);
    judge(intake, expected(intake, readings, step_s));
    intake->arrived = 0;
    *ret = (struct aw_firm_taken){.spans = &intake->whole,
                                  .done = intake->done,
                                  .done_count = intake->done_count,
                                  .doubt = *intake->why != '\0',
                                  .why = intake->why};
}
