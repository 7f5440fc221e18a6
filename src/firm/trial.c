/* trial.c - see trial.h. */
#include "firm/trial.h"

#include <math.h>
#include <string.h>

#define LEAST    5u                  /* requests of a bucket that can be bad */
#define DRAIN_NS (5 * AW_GRAPH_S_NS) /* after the campaign, for what is under way */

struct bucket {
    uint32_t requests, missed;
};

struct count {
    const struct aw_graph_app *app;
    struct aw_rng rng;
    struct bucket *bucket; /* [AW_FIRM_BUCKETS] */
    int64_t begin_ns, end_ns;
    struct aw_firm_outcome *out;
};

static void count_take(struct count *count, const struct aw_graph_done *done, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++) {
        const double ratio =
            (double)done[i].latency_ns / (1e6 * count->app->types[done[i].type].slo_ms);
        const bool missed = done[i].failed || ratio > 1;
        if (done[i].arrival_ns < count->begin_ns || done[i].arrival_ns >= count->end_ns)
            continue;
        const uint64_t at = (uint64_t)((done[i].arrival_ns - count->begin_ns) / AW_FIRM_BUCKET_NS);
        if (at < AW_FIRM_BUCKETS) {
            count->bucket[at].requests++;
            count->bucket[at].missed += missed;
        }
        struct aw_firm_outcome *out = count->out;
        out->requests++;
        out->missed += missed;
        out->dropped += done[i].failed;
        /* a reservoir: every request has the same chance to be kept */
        uint32_t slot = out->latency_count;
        if (slot < AW_FIRM_LATENCIES)
            out->latency_count++;
        else
            slot = aw_rng_below(&count->rng, out->requests);
        if (slot < AW_FIRM_LATENCIES)
            out->latency_of_slo[slot] = done[i].failed ? fmax(ratio, 10) : ratio;
    }
}

static bool bad(const struct count *count, uint64_t at)
{
    const struct bucket *bucket = &count->bucket[at];
    return at < AW_FIRM_BUCKETS && bucket->requests >= LEAST &&
           bucket->missed > AW_FIRM_MISSED * bucket->requests;
}

static void mitigations(const struct count *count, const struct aw_campaign *campaign)
{
    struct aw_firm_outcome *out = count->out;
    double sum = 0;
    for (uint32_t i = 0; i < campaign->count; i++) {
        const struct aw_anomaly *anomaly = &campaign->anomaly[i];
        const int64_t end = anomaly->at_ns + anomaly->for_ns;
        uint64_t at = (uint64_t)(anomaly->at_ns / AW_FIRM_BUCKET_NS);
        const uint64_t last = (uint64_t)(end / AW_FIRM_BUCKET_NS);
        if (last + 2 >= AW_FIRM_BUCKETS || end > campaign->duration_ns)
            break;
        while (at < last && !bad(count, at))
            at++;
        if (at >= last)
            continue;
        int64_t begin = (int64_t)at * AW_FIRM_BUCKET_NS;
        begin = begin > anomaly->at_ns ? begin : anomaly->at_ns;
        while (at < AW_FIRM_BUCKETS - 1 && (bad(count, at) || bad(count, at + 1)))
            at++;
        const int64_t good = (int64_t)at * AW_FIRM_BUCKET_NS;
        out->mitigation[out->mitigation_count++] = (struct aw_firm_mitigation){
            .anomaly = i, .seconds = (double)(good - begin) * 1e-9, .mended = good < end};
        sum += (double)(good - begin) * 1e-9;
    }
    out->seconds_mean = out->mitigation_count ? sum / out->mitigation_count : (double)NAN;
}

enum aw_err aw_firm_trial(const struct aw_graph_app *app, const struct aw_calibration *calibration,
                          const struct aw_campaign *campaign,
                          const struct aw_classifier *classifier,
                          const struct aw_firm_trial_config *config, aw_firm_trial_look *look,
                          void *ctx, const struct aw_alloc *alloc, struct aw_firm_outcome *ret)
{
    struct aw_graph_world *world = NULL;
    struct aw_firm_watch *watch = NULL;
    struct aw_firm_manager *manager = NULL;
    struct aw_firm_desk desk = {0};
    struct aw_injector injector;
    struct count count = {.app = app, .out = ret, .begin_ns = config->warm_ns};
    /* anomalies are told from the end of the warm-up on */
    struct aw_campaign *own = aw_alloc_new(alloc, 1, sizeof *own);
    *ret = (struct aw_firm_outcome){0};
    count.bucket = aw_alloc_new(alloc, AW_FIRM_BUCKETS + 2, sizeof *count.bucket);
    enum aw_err err = own && count.bucket ? AW_OK : AW_ERR_NOMEM;
    const struct aw_graph_config world_config = {.seed = config->seed,
                                                 .traced = config->traced,
                                                 .span_loss = config->span_loss,
                                                 .skew_us = config->skew_us};
    if (!err)
        err = aw_graph_world_new(app, &world_config, alloc, &world);
    if (!err)
        err =
            aw_firm_watch_new(app, &aw_graph_world_spans(world)->names, classifier, alloc, &watch);
    if (!err)
        err = aw_firm_manager_new(config->kind, &config->settings, app, alloc, &manager);
    if (!err)
        err = aw_firm_desk_init(&desk, app, aw_graph_world_plant(world), alloc);
    if (err)
        goto out;
    *own = *campaign;
    for (uint32_t i = 0; i < own->count; i++)
        own->anomaly[i].at_ns += config->warm_ns;
    aw_injector_init(&injector, app, calibration, own);
    aw_rng_init(&count.rng, config->seed, 11);
    count.end_ns = config->warm_ns + campaign->duration_ns;
    ret->cores_at_start = aw_graph_world_cores(world);
    uint32_t steps = 0;
    for (int64_t now = AW_FIRM_STEP_NS; now <= count.end_ns + DRAIN_NS && !err;
         now += AW_FIRM_STEP_NS) {
        const struct aw_firm_sight *sight;
        uint32_t number;
        aw_injector_run(&injector, world, now);
        const struct aw_graph_done *done = aw_graph_world_done(world, &number);
        struct aw_graph_reading readings[AW_GRAPH_SERVICES_MAX];
        count_take(&count, done, number);
        aw_graph_world_read(world, readings);
        err = aw_firm_watch_take(watch, aw_graph_world_spans(world), done, number, readings, false,
                                 &sight);
        if (look && !err)
            look(ctx, sight, &desk, now);
        aw_spans_reset(aw_graph_world_spans(world));
        if (!err && now <= count.end_ns)
            err = aw_firm_manager_step(manager, &desk, sight);
        if (now > config->warm_ns && now <= count.end_ns) {
            ret->cores += aw_graph_world_cores(world);
            steps++;
        }
    }
    ret->cores /= steps ? steps : 1;
    ret->orders = (uint32_t)desk.order_count;
    if (!err)
        mitigations(&count, campaign);
out:
    aw_firm_desk_deinit(&desk);
    aw_firm_manager_free(manager);
    aw_firm_watch_free(watch);
    aw_graph_world_free(world);
    aw_alloc_free(alloc, count.bucket);
    aw_alloc_free(alloc, own);
    return err;
}

void aw_firm_campaign_in_turn(const struct aw_graph_app *app,
                              const struct aw_calibration *calibration, uint64_t seed,
                              uint32_t count, double for_s, double rest_s, struct aw_campaign *ret)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 5);
    memset(ret, 0, sizeof *ret);
    ret->seed = seed;
    memcpy(ret->application, app->name, sizeof ret->application);
    for (uint32_t i = 0; i < count && i < AW_CAMPAIGN_MAX; i++) {
        const enum aw_anomaly_kind kind = (enum aw_anomaly_kind)(i % AW_ANOMALY_KINDS);
        uint32_t service = aw_rng_below(&rng, app->service_count), tries = 0;
        while (!aw_calibration_has(calibration, service, kind) && tries++ < 1000)
            service = aw_rng_below(&rng, app->service_count);
        /* not always at the same place of a step */
        const double at_s = rest_s + i * (for_s + rest_s) + aw_rng_double(&rng);
        ret->anomaly[ret->count++] = (struct aw_anomaly){.service = service,
                                                         .kind = kind,
                                                         .intensity = aw_rng_double(&rng),
                                                         .at_ns = (int64_t)(1e9 * at_s),
                                                         .for_ns = (int64_t)(1e9 * for_s)};
    }
    ret->duration_ns = (int64_t)(1e9 * (count * (for_s + rest_s) + rest_s + 2));
}
