/* watch.c - see watch.h. */
#include "firm/watch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "base/text.h"

#define BASE_REQUESTS 3000u /* that a baseline is made anew from */
#define LEARN_FIRST   2000u /* requests whose relations are learned; they do not change later */
#define USUAL         0.1   /* of a step in what is usual */
#define SPREAD_MIN    0.02
#define RATIOS_MAX    4096u
#define FAILED_RATIO  2.0  /* of the SLO, that a request counts which was turned away */
#define RISE_MIN      0.15 /* of use: less is no change */
#define STALL_MUCH    0.25
#define ONE_DRY       0.8  /* of a single replica's periods */
#define GAP_SHARE     0.05 /* of the excess that a slow network must explain */
#define LOAD_MORE     1.3  /* visits over the usual number from which load is the cause */

struct usual {
    double mean[AW_GRAPH_RESOURCES], square[AW_GRAPH_RESOURCES]; /* of use + stall */
    double use[AW_GRAPH_RESOURCES], visits_per_s;
    bool known;
};

struct aw_firm_watch {
    const struct aw_graph_app *app;
    struct aw_names *names;
    struct aw_classifier classifier;
    struct aw_analysis analysis;
    struct aw_window now, quiet;
    struct aw_span_profile base;
    bool has_base, paper, frozen, was_missed;
    uint64_t learned;
    struct usual usual[AW_GRAPH_SERVICES_MAX];
    struct aw_localization found;
    struct aw_firm_sight sight;
    struct aw_graph_reading readings[AW_GRAPH_SERVICES_MAX];
    double scratch[RATIOS_MAX];
    const struct aw_alloc *alloc;
};

extern const char aw__firm_localizer_json[];
extern const unsigned aw__firm_localizer_json_size;

enum aw_err aw_firm_localizer(struct aw_classifier *ret, struct aw_diag *diag)
{
    return aw_classifier_read(ret, "the localizer of service graphs", aw__firm_localizer_json,
                              aw__firm_localizer_json_size, diag);
}

enum aw_err aw_firm_watch_new(const struct aw_graph_app *app, struct aw_names *names,
                              const struct aw_classifier *classifier, const struct aw_alloc *alloc,
                              struct aw_firm_watch **ret)
{
    struct aw_firm_watch *watch = aw_alloc_new(alloc, 1, sizeof *watch);
    if (!watch)
        return AW_ERR_NOMEM;
    watch->alloc = alloc;
    watch->app = app;
    watch->names = names;
    watch->classifier = *classifier;
    enum aw_err err = aw_analysis_init(&watch->analysis, alloc);
    if (!err)
        err = aw_window_init(&watch->now, names, alloc);
    if (!err)
        err = aw_window_init(&watch->quiet, names, alloc);
    if (err) {
        aw_firm_watch_free(watch);
        return err;
    }
    *ret = watch;
    return AW_OK;
}

void aw_firm_watch_free(struct aw_firm_watch *watch)
{
    if (!watch)
        return;
    aw_localization_deinit(&watch->found);
    aw_profile_deinit(&watch->base);
    aw_window_deinit(&watch->now);
    aw_window_deinit(&watch->quiet);
    aw_analysis_deinit(&watch->analysis);
    aw_alloc_free(watch->alloc, watch);
}

struct aw_localization *aw_firm_watch_found(struct aw_firm_watch *watch)
{
    return watch->found.count ? &watch->found : NULL;
}

void aw_firm_watch_paper(struct aw_firm_watch *watch, bool on)
{
    watch->paper = on;
}

void aw_firm_watch_freeze(struct aw_firm_watch *watch, bool on)
{
    watch->frozen = on;
}

/* ---- requests ---- */

static double ratio_of(const struct aw_graph_app *app, const struct aw_graph_done *done)
{
    const double ratio = (double)done->latency_ns / (1e6 * app->types[done->type].slo_ms);
    return done->failed ? fmax(FAILED_RATIO, ratio) : ratio;
}

double aw_firm_maintenance(const struct aw_graph_app *app, const struct aw_graph_done *done,
                           uint32_t count, double *ret_missed)
{
    double ratio[RATIOS_MAX];
    uint32_t over = 0, kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double its = ratio_of(app, &done[i]);
        over += its > 1;
        if (kept < RATIOS_MAX)
            ratio[kept++] = its;
    }
    *ret_missed = count ? (double)over / count : 0;
    if (!kept)
        return 1; /* nobody asked: nothing is missed */
    aw_stats_sort(ratio, kept);
    return 1 / fmax(1, aw_stats_quantile(ratio, kept, 0.95));
}

static void judge(struct aw_firm_watch *watch, const struct aw_graph_done *done, uint32_t count)
{
    struct aw_firm_sight *sight = &watch->sight;
    double worst = 0;
    sight->requests = count;
    sight->maintenance = aw_firm_maintenance(watch->app, done, count, &sight->missed_share);
    /* where a service stands still, nothing ends: that is no sign of health */
    if (count >= AW_FIRM_JUDGED || (count && sight->missed_share > AW_FIRM_MISSED))
        watch->was_missed = sight->missed_share > AW_FIRM_MISSED;
    double visits = 0;
    for (uint32_t i = 0; i < watch->app->service_count; i++)
        visits += watch->readings[i].visits_per_s;
    if (!count && visits == 0)
        watch->was_missed = false; /* nobody asks */
    sight->missed = watch->was_missed;
    for (uint32_t t = 0; t < watch->app->type_count; t++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < count && n < RATIOS_MAX; i++)
            if (done[i].type == t)
                watch->scratch[n++] = (double)done[i].latency_ns / 1e6;
        if (!n)
            continue;
        aw_stats_sort(watch->scratch, n);
        const double p95 = aw_stats_quantile(watch->scratch, n, 0.95);
        if (p95 / watch->app->types[t].slo_ms > worst) {
            worst = p95 / watch->app->types[t].slo_ms;
            sight->worst_type = t;
            sight->worst_latency_ms = p95;
            sight->worst_slo_ms = watch->app->types[t].slo_ms;
        }
    }
}

static bool take_request(void *ctx, const struct aw_request *request)
{
    struct aw_firm_watch *watch = ctx;
    if (watch->learned < LEARN_FIRST) {
        aw_relations_learn(watch->analysis.relations, request);
        watch->learned++;
    }
    aw_window_add(&watch->now, request);
    return true;
}

static bool take_quiet(void *ctx, const struct aw_request *request)
{
    aw_window_add(&((struct aw_firm_watch *)ctx)->quiet, request);
    return true;
}

/* ---- what is usual ---- */

static double pressure(const struct aw_graph_reading *reading, uint32_t resource)
{
    return reading->use[resource] + reading->stall[resource];
}

static void learn_usual(struct aw_firm_watch *watch)
{
    for (uint32_t s = 0; s < watch->app->service_count; s++) {
        struct usual *usual = &watch->usual[s];
        const double visits = watch->readings[s].visits_per_s;
        usual->visits_per_s += (usual->known ? USUAL : 1) * (visits - usual->visits_per_s);
        for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
            const double now = pressure(&watch->readings[s], r);
            const double rate = usual->known ? USUAL : 1;
            const double off = now - usual->mean[r];
            usual->mean[r] += rate * off;
            usual->square[r] += usual->known ? rate * (off * off - usual->square[r]) : 0;
            usual->use[r] += rate * (watch->readings[s].use[r] - usual->use[r]);
        }
        usual->known = true;
    }
}

static enum aw_err learn_base(struct aw_firm_watch *watch)
{
    const uint32_t least = watch->has_base ? BASE_REQUESTS : AW_FIRM_BASE_LEAST;
    if (watch->quiet.request_count < least)
        return AW_OK;
    struct aw_span_profile made;
    const enum aw_err err = aw_profile_make(&made, &watch->quiet, 0, 1, watch->alloc);
    if (err)
        return err;
    aw_profile_deinit(&watch->base);
    watch->base = made;
    watch->has_base = true;
    if (watch->quiet.request_count >= BASE_REQUESTS)
        aw_window_reset(&watch->quiet);
    return AW_OK;
}

/* ---- who, and what ---- */

static uint32_t service_of(const struct aw_firm_watch *watch, uint32_t name)
{
    return aw_graph_service_find(watch->app, aw_names_text(watch->names, name));
}

static void evidence_make(const struct aw_firm_watch *watch, struct aw_evidence *evidence,
                          uint32_t *ret_count)
{
    *ret_count = 0;
    for (uint32_t s = 0; s < watch->app->service_count; s++) {
        const struct usual *usual = &watch->usual[s];
        const struct aw_graph_reading *reading = &watch->readings[s];
        const uint32_t name = aw_names_find(watch->names, watch->app->services[s].name);
        double use = 0, rise = 0, z = 0;
        if (name == AW_NAME_NONE || !usual->known)
            continue;
        /* of whatever it is most short of: the classifier's place for CPU has the scarcest of the
         * five */
        for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
            const double off = pressure(reading, r) - usual->mean[r];
            use = fmax(use, reading->use[r]);
            rise = fmax(rise, off / 2);
            z = fmax(z, off / fmax(sqrt(usual->square[r]), SPREAD_MIN));
        }
        evidence[(*ret_count)++] = (struct aw_evidence){.service = name,
                                                        .cpu_use = use,
                                                        .cpu_rise = rise,
                                                        .cpu_z = z,
                                                        .throttled = reading->throttled};
    }
}

static void diagnose(const struct aw_firm_watch *watch, struct aw_firm_suspect *suspect)
{
    /* causes before their effects */
    static const enum aw_graph_resource order[] = {AW_GRAPH_LLC, AW_GRAPH_MEMORY, AW_GRAPH_DISK,
                                                   AW_GRAPH_NET, AW_GRAPH_CPU};
    const struct usual *usual = &watch->usual[suspect->service];
    const struct aw_graph_reading *reading = &watch->readings[suspect->service];
    const struct aw_culprit *culprit = suspect->culprit;
    suspect->lacks = AW_GRAPH_RESOURCES;
    suspect->more_load =
        usual->known && reading->visits_per_s > LOAD_MORE * usual->visits_per_s + 5;
    if (suspect->more_load && reading->use[AW_GRAPH_CPU] >= AW_FIRM_SHORT)
        suspect->lacks = AW_GRAPH_CPU; /* all that it lacks follows from its load */
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
        suspect->rise[r] = pressure(reading, r) - usual->mean[r];
    for (uint32_t i = 0; i < AW_GRAPH_RESOURCES; i++) {
        const enum aw_graph_resource r = order[i];
        if (suspect->lacks == AW_GRAPH_RESOURCES && reading->use[r] >= AW_FIRM_SHORT &&
            (reading->use[r] - usual->use[r] > RISE_MIN || reading->stall[r] > STALL_MUCH))
            suspect->lacks = r;
    }
    /* one of several replicas is short of it, and the mean of all hides that */
    if (suspect->lacks == AW_GRAPH_RESOURCES && reading->replicas > 1 &&
        reading->throttled * reading->replicas > ONE_DRY &&
        reading->stall[AW_GRAPH_CPU] > STALL_MUCH)
        suspect->lacks = AW_GRAPH_CPU;
    if (suspect->lacks == AW_GRAPH_RESOURCES && culprit)
        suspect->slow_network = culprit->called_ns + culprit->calling_ns > culprit->own_ns &&
                                culprit->feature[AW_FEATURE_EXCESS] > GAP_SHARE;
    if (suspect->lacks == AW_GRAPH_RESOURCES && !suspect->slow_network &&
        reading->throttled > STALL_MUCH)
        suspect->lacks = AW_GRAPH_CPU;
}

static enum aw_err localize(struct aw_firm_watch *watch)
{
    struct aw_evidence evidence[AW_GRAPH_SERVICES_MAX];
    struct aw_firm_sight *sight = &watch->sight;
    uint32_t count;
    evidence_make(watch, evidence, &count);
    enum aw_err err =
        aw_localize(&watch->found, &watch->now, &watch->base, evidence, count, watch->alloc);
    if (!err && watch->paper)
        err = aw_localize_paper(&watch->found, &watch->now);
    if (err == AW_ERR_NODATA)
        return AW_OK;
    if (err)
        return err;
    aw_classifier_judge(&watch->classifier, &watch->found);
    for (uint32_t i = 0; i < watch->found.count; i++) {
        const struct aw_culprit *culprit = &watch->found.culprits[i];
        const uint32_t service = service_of(watch, culprit->service);
        if (service == AW_GRAPH_NONE || sight->suspect_count == AW_GRAPH_SERVICES_MAX)
            continue;
        struct aw_firm_suspect *suspect = &sight->suspect[sight->suspect_count++];
        *suspect = (struct aw_firm_suspect){.service = service,
                                            .culprit = culprit,
                                            .score = culprit->score - watch->classifier.threshold};
        diagnose(watch, suspect);
    }
    return AW_OK;
}

enum aw_err aw_firm_watch_take(struct aw_firm_watch *watch, struct aw_spans *spans,
                               const struct aw_graph_done *done, uint32_t done_count,
                               const struct aw_graph_reading *readings, bool always,
                               const struct aw_firm_sight **ret)
{
    struct aw_firm_sight *sight = &watch->sight;
    enum aw_err err = AW_OK;
    aw_localization_deinit(&watch->found);
    *sight = (struct aw_firm_sight){.readings = watch->readings, .has_baseline = watch->has_base};
    memcpy(watch->readings, readings, watch->app->service_count * sizeof *readings);
    judge(watch, done, done_count);
    aw_window_reset(&watch->now);
    aw_analysis_each(&watch->analysis, spans, take_request, watch);
    if (watch->has_base && (sight->missed || always))
        err = localize(watch);
    if (!err && !sight->missed && !watch->frozen) {
        learn_usual(watch);
        aw_analysis_each(&watch->analysis, spans, take_quiet, watch);
        err = learn_base(watch);
    }
    *ret = sight;
    return err;
}

enum aw_err aw_firm_watch_world(struct aw_firm_watch *watch, struct aw_graph_world *world,
                                bool always, const struct aw_firm_sight **ret)
{
    struct aw_graph_reading readings[AW_GRAPH_SERVICES_MAX];
    struct aw_spans *spans = aw_graph_world_spans(world);
    uint32_t count;
    const struct aw_graph_done *done = aw_graph_world_done(world, &count);
    aw_graph_world_read(world, readings);
    const enum aw_err err = aw_firm_watch_take(watch, spans, done, count, readings, always, ret);
    aw_spans_reset(spans);
    return err;
}

const char *aw_firm_suspect_text(const struct aw_firm_suspect *suspect,
                                 const struct aw_firm_sight *sight, char *buf, size_t size)
{
    const struct aw_graph_reading *reading = &sight->readings[suspect->service];
    struct aw_text text;
    aw_text_init(&text, buf, size);
    if (suspect->culprit)
        aw_text_add(&text, "%+.1f ms exclusive (%.0f %% of the excess)",
                    suspect->culprit->excess_ns / 1e6,
                    100 * suspect->culprit->feature[AW_FEATURE_EXCESS]);
    if (suspect->lacks != AW_GRAPH_RESOURCES) {
        const char *name = aw_graph_resource_names[suspect->lacks];
        aw_text_add(&text, ", %s at %.0f %% of its limit", name,
                    100 * reading->use[suspect->lacks]);
        if (reading->stall[suspect->lacks] > 0.05)
            aw_text_add(&text, ", %.0f %% of its time spent waiting for it",
                        100 * reading->stall[suspect->lacks]);
        if (suspect->lacks == AW_GRAPH_CPU && reading->throttled > 0)
            aw_text_add(&text, ", throttled %.0f %% of periods", 100 * reading->throttled);
        if (suspect->more_load)
            aw_text_add(&text, ", %.0f visits/s, more than usual", reading->visits_per_s);
        aw_text_add(&text, ": needs %s", name);
    } else if (suspect->slow_network) {
        aw_text_add(&text, ", in calls outside of spans, and no limit is reached: needs another "
                           "place");
    } else {
        aw_text_add(&text, ", and no limit is reached: not a resource problem, or too small");
    }
    return buf;
}
