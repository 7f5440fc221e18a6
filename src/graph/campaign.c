/* campaign.c - anomalies: what they do, when, and how strong they have to be; see campaign.h. */
#include "graph/campaign.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRESS_MOST   4.0   /* of the limit at the start, that a stressor wants at most */
#define DELAY_US_MOST 500e3 /* each way */
#define SECOND        AW_GRAPH_S_NS
#define RAMP_STEP_NS  (SECOND / 4)
#define TRIES         7u  /* halvings of an interval */
#define SETTLE_S      1.0 /* a try: quiet, under stress unseen, under stress seen */
#define SEEN_S        2.5
#define FAILED        0.8

const char *const aw_anomaly_kind_names[] = {
    "workload", "network-delay",     "cpu", "llc", "memory-bandwidth",
    "disk",     "network-bandwidth", NULL};
const char *const aw_anomaly_pattern_names[] = {"constant", "ramp", "pulse", "random", NULL};

enum aw_graph_resource aw_anomaly_resource(enum aw_anomaly_kind kind)
{
    static const enum aw_graph_resource resource[AW_ANOMALY_KINDS] = {
        AW_GRAPH_CPU,    AW_GRAPH_RESOURCES, AW_GRAPH_CPU, AW_GRAPH_LLC,
        AW_GRAPH_MEMORY, AW_GRAPH_DISK,      AW_GRAPH_NET};
    return resource[kind];
}

void aw_anomaly_add(const struct aw_graph_app *app, uint32_t service, enum aw_anomaly_kind kind,
                    double strength, struct aw_graph_stress *stress)
{
    const struct aw_graph_service *its = &app->services[service];
    if (kind == AW_ANOMALY_WORKLOAD) {
        double cpu_s = 0;
        for (uint32_t i = 0; i < app->op_count && cpu_s == 0; i++)
            cpu_s = app->ops[i].service == service ? app->ops[i].cpu_us * 1e-6 : 0;
        stress->extra_per_s += STRESS_MOST * strength * its->limit[AW_GRAPH_CPU] / cpu_s;
    } else if (kind == AW_ANOMALY_DELAY) {
        stress->delay_us += DELAY_US_MOST * strength * strength; /* short ones matter most */
    } else {
        const enum aw_graph_resource resource = aw_anomaly_resource(kind);
        stress->amount[resource] += STRESS_MOST * strength * its->limit[resource];
    }
}

/* ---- calibration ---- */

/* Share of requests over their SLO in a short run. Negative: no memory. */
static double try_strength(const struct aw_graph_app *app, uint64_t seed, uint32_t service,
                           enum aw_anomaly_kind kind, double strength, const struct aw_alloc *alloc)
{
    struct aw_graph_world *world = NULL;
    struct aw_graph_stress stress = {0};
    uint32_t count, over = 0;
    if (aw_graph_world_new(app, &(struct aw_graph_config){.seed = seed}, alloc, &world))
        return -1;
    aw_anomaly_add(app, service, kind, strength, &stress);
    aw_graph_world_run(world, (int64_t)(SETTLE_S * 1e9));
    aw_graph_world_stress(world, service, &stress);
    aw_graph_world_run(world, (int64_t)(2 * SETTLE_S * 1e9));
    aw_graph_world_done(world, &count);
    aw_graph_world_run(world, (int64_t)((2 * SETTLE_S + SEEN_S) * 1e9));
    const struct aw_graph_done *done = aw_graph_world_done(world, &count);
    for (uint32_t i = 0; i < count; i++)
        over +=
            done[i].failed || (double)done[i].latency_ns > 1e6 * app->types[done[i].type].slo_ms;
    aw_graph_world_free(world);
    return count ? (double)over / count : 1;
}

/* The least strength at which a share is reached; `share` is reached at `high`. */
static double seek(const struct aw_graph_app *app, uint64_t seed, uint32_t service,
                   enum aw_anomaly_kind kind, double share, double low, double high,
                   const struct aw_alloc *alloc)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        const double middle = 0.5 * (low + high);
        if (try_strength(app, seed, service, kind, middle, alloc) >= share)
            high = middle;
        else
            low = middle;
    }
    return high;
}

enum aw_err aw_calibrate_pair(const struct aw_graph_app *app, uint64_t seed, uint32_t service,
                              enum aw_anomaly_kind kind, const struct aw_alloc *alloc,
                              struct aw_calibration *ret)
{
    const double most = try_strength(app, seed, service, kind, 1, alloc);
    double *start = &ret->start[service][kind], *end = &ret->end[service][kind];
    *start = *end = (double)NAN;
    if (most < 0)
        return AW_ERR_NOMEM;
    if (most < AW_ANOMALY_MISSED)
        return AW_OK;
    *start = seek(app, seed, service, kind, AW_ANOMALY_MISSED, 0, 1, alloc);
    *end = most < FAILED ? 1 : seek(app, seed, service, kind, FAILED, *start, 1, alloc);
    return AW_OK;
}

enum aw_err aw_calibrate_graph(const struct aw_graph_app *app, uint64_t seed,
                               const struct aw_alloc *alloc, struct aw_calibration *ret)
{
    enum aw_err err = AW_OK;
    for (uint32_t s = 0; s < app->service_count && !err; s++)
        for (uint32_t k = 0; k < AW_ANOMALY_KINDS && !err; k++)
            err = aw_calibrate_pair(app, seed, s, (enum aw_anomaly_kind)k, alloc, ret);
    return err;
}

bool aw_calibration_has(const struct aw_calibration *calibration, uint32_t service,
                        enum aw_anomaly_kind kind)
{
    return isfinite(calibration->start[service][kind]);
}

/* ---- a campaign's list ---- */

static int by_time(const void *left, const void *right)
{
    const struct aw_anomaly *a = left, *b = right;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    return (a->service > b->service) - (a->service < b->service);
}

void aw_campaign_draw(struct aw_campaign *campaign, const struct aw_graph_app *app,
                      const struct aw_calibration *calibration)
{
    struct aw_rng rng;
    uint32_t pairs[AW_GRAPH_SERVICES_MAX * AW_ANOMALY_KINDS], kind_count[AW_ANOMALY_KINDS] = {0};
    aw_rng_init(&rng, campaign->seed, 1);
    for (uint32_t k = 0; k < AW_ANOMALY_KINDS; k++)
        for (uint32_t s = 0; s < app->service_count; s++)
            if ((!campaign->kinds || campaign->kinds >> k & 1) &&
                (!campaign->targets || campaign->targets >> s & 1) &&
                aw_calibration_has(calibration, s, (enum aw_anomaly_kind)k))
                pairs[k * AW_GRAPH_SERVICES_MAX + kind_count[k]++] = s;
    uint32_t kinds[AW_ANOMALY_KINDS], kind_total = 0;
    for (uint32_t k = 0; k < AW_ANOMALY_KINDS; k++)
        if (kind_count[k])
            kinds[kind_total++] = k;
    double at_s = 0;
    while (campaign->rate > 0 && kind_total && campaign->count < AW_CAMPAIGN_MAX) {
        at_s += aw_rng_exponential(&rng, 1 / campaign->rate);
        if (at_s * 1e9 >= (double)campaign->duration_ns)
            break;
        const uint32_t kind = kinds[aw_rng_below(&rng, kind_total)];
        campaign->anomaly[campaign->count++] = (struct aw_anomaly){
            .service = pairs[kind * AW_GRAPH_SERVICES_MAX + aw_rng_below(&rng, kind_count[kind])],
            .kind = (enum aw_anomaly_kind)kind,
            .intensity = aw_rng_uniform(&rng, campaign->low, campaign->high),
            .at_ns = (int64_t)(at_s * 1e9),
            .for_ns = campaign->for_ns};
    }
    qsort(campaign->anomaly, campaign->count, sizeof *campaign->anomaly, by_time);
}

/* ---- while it runs ---- */

double aw_anomaly_now(const struct aw_anomaly *anomaly, int64_t now_ns)
{
    const int64_t since = now_ns - anomaly->at_ns;
    if (since < 0 || since >= anomaly->for_ns)
        return 0;
    if (anomaly->pattern == AW_ANOMALY_RAMP)
        return anomaly->intensity *
               fmin(1, 2.0 * (double)(since + RAMP_STEP_NS) / (double)anomaly->for_ns);
    if (anomaly->pattern == AW_ANOMALY_PULSE)
        return since / SECOND % 2 ? 0 : anomaly->intensity;
    if (anomaly->pattern == AW_ANOMALY_RANDOM) {
        struct aw_rng rng;
        aw_rng_init(&rng, (uint64_t)anomaly->at_ns + anomaly->service, (uint64_t)(since / SECOND));
        return anomaly->intensity * aw_rng_uniform(&rng, 0.01, 1);
    }
    return fmax(anomaly->intensity, 1e-9); /* one of 0 is where SLOs are first missed */
}

void aw_injector_init(struct aw_injector *injector, const struct aw_graph_app *app,
                      const struct aw_calibration *calibration, const struct aw_campaign *campaign)
{
    *injector = (struct aw_injector){.app = app, .calibration = calibration, .campaign = campaign};
}

enum aw_err aw_injector_step(struct aw_injector *injector, struct aw_graph_plant plant,
                             int64_t *ret_until_ns)
{
    enum aw_err err = AW_OK;
    struct aw_graph_stress stress[AW_GRAPH_SERVICES_MAX] = {{{0}, 0, 0}};
    bool now[AW_GRAPH_SERVICES_MAX] = {false};
    const int64_t now_ns = plant.ops->now(plant.self);
    int64_t until = INT64_MAX;
    for (uint32_t i = 0; i < injector->campaign->count; i++) {
        const struct aw_anomaly *anomaly = &injector->campaign->anomaly[i];
        const int64_t end = anomaly->at_ns + anomaly->for_ns;
        const double intensity = aw_anomaly_now(anomaly, now_ns);
        if (anomaly->at_ns > now_ns)
            until = anomaly->at_ns < until ? anomaly->at_ns : until;
        else if (end > now_ns)
            until = end < until ? end : until;
        if (anomaly->at_ns <= now_ns && end > now_ns && anomaly->pattern != AW_ANOMALY_CONSTANT) {
            const int64_t step = anomaly->pattern == AW_ANOMALY_RAMP ? RAMP_STEP_NS : SECOND;
            const int64_t next = anomaly->at_ns + ((now_ns - anomaly->at_ns) / step + 1) * step;
            until = next < until ? next : until;
        }
        if (!(intensity > 0) ||
            !aw_calibration_has(injector->calibration, anomaly->service, anomaly->kind))
            continue;
        const double start = injector->calibration->start[anomaly->service][anomaly->kind];
        const double most = injector->calibration->end[anomaly->service][anomaly->kind];
        now[anomaly->service] = true;
        aw_anomaly_add(injector->app, anomaly->service, anomaly->kind,
                       start + intensity * (most - start), &stress[anomaly->service]);
    }
    for (uint32_t s = 0; s < injector->app->service_count; s++) {
        const enum aw_err its =
            now[s] || injector->touched[s] ? plant.ops->stress(plant.self, s, &stress[s]) : AW_OK;
        err = err ? err : its;
        injector->touched[s] = now[s];
    }
    *ret_until_ns = until;
    return err;
}

void aw_injector_run(struct aw_injector *injector, struct aw_graph_world *world, int64_t until_ns)
{
    const struct aw_graph_plant plant = aw_graph_world_plant(world);
    int64_t next;
    do {
        (void)!aw_injector_step(injector, plant, &next); /* a world refuses nothing */
        aw_graph_world_run(world, next < until_ns ? next : until_ns);
    } while (next < until_ns);
    (void)!aw_injector_step(injector, plant, &next);
}

void aw_injector_clean(struct aw_injector *injector, struct aw_graph_plant plant)
{
    const struct aw_graph_stress none = {{0}, 0, 0};
    for (uint32_t s = 0; s < injector->app->service_count; s++)
        if (injector->touched[s])
            (void)!plant.ops->stress(plant.self, s, &none);
    memset(injector->touched, 0, sizeof injector->touched);
}
