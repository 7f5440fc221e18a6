/* lesson.c - see lesson.h. */
#include "firm/lesson.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_S  6 /* a baseline first */
#define RECOVER_S 3 /* unseen after each window: what has queued up */
#define QUIET_S   1 /* seen, so that the baseline goes on */
#define EPOCHS    12u

enum aw_err aw_firm_samples_init(struct aw_firm_samples *samples, const struct aw_alloc *alloc)
{
    *samples = (struct aw_firm_samples){.alloc = alloc};
    samples->at = aw_alloc_new(alloc, AW_FIRM_SAMPLES_MAX, sizeof *samples->at);
    return samples->at ? AW_OK : AW_ERR_NOMEM;
}

void aw_firm_samples_deinit(struct aw_firm_samples *samples)
{
    aw_alloc_free(samples->alloc, samples->at);
    *samples = (struct aw_firm_samples){0};
}

/* What is injected in one window. */
struct injected {
    bool there[AW_GRAPH_SERVICES_MAX]; /* with an effect */
    bool anything[AW_GRAPH_SERVICES_MAX];
    enum aw_anomaly_kind kind[AW_GRAPH_SERVICES_MAX];
    struct aw_graph_stress stress[AW_GRAPH_SERVICES_MAX];
};

static void draw(const struct aw_graph_app *app, const struct aw_calibration *calibration,
                 bool several, struct aw_rng *rng, struct injected *ret)
{
    memset(ret, 0, sizeof *ret);
    const uint32_t only = aw_rng_below(rng, AW_ANOMALY_KINDS);
    for (uint32_t k = 0; k < AW_ANOMALY_KINDS; k++) {
        const enum aw_anomaly_kind kind = (enum aw_anomaly_kind)k;
        uint32_t service = 0;
        bool found = false;
        const double drawn = aw_rng_double(rng);
        if (!several && k != only)
            continue;
        for (uint32_t i = 0; i < 4 * AW_GRAPH_SERVICES_MAX && !found; i++) {
            service = aw_rng_below(rng, app->service_count);
            found = !ret->anything[service] && aw_calibration_has(calibration, service, kind);
        }
        if (!found)
            continue;
        const double start = calibration->start[service][k], end = calibration->end[service][k];
        const double strength = several ? drawn * end : start + drawn * (end - start);
        ret->anything[service] = true;
        ret->there[service] = strength >= start;
        ret->kind[service] = kind;
        aw_anomaly_add(app, service, kind, strength, &ret->stress[service]);
    }
}

static bool right(const struct aw_firm_suspect *suspect, enum aw_anomaly_kind kind)
{
    const enum aw_graph_resource resource = aw_anomaly_resource(kind);
    return resource == AW_GRAPH_RESOURCES ? suspect->slow_network : suspect->lacks == resource;
}

static void keep(struct aw_firm_samples *samples, const struct aw_firm_sight *sight,
                 const struct injected *injected, bool several)
{
    for (uint32_t i = 0; i < sight->suspect_count; i++) {
        const struct aw_firm_suspect *suspect = &sight->suspect[i];
        if (samples->count == AW_FIRM_SAMPLES_MAX)
            return;
        samples->at[samples->count++] = (struct aw_firm_sample){
            .culprit = *suspect->culprit,
            .to_blame = injected->there[suspect->service],
            .right_resource = injected->there[suspect->service] &&
                              right(suspect, injected->kind[suspect->service]),
            .kind = injected->kind[suspect->service],
            .window = samples->windows,
            .rank = i};
    }
    if (!several && sight->suspect_count)
        samples->windows_top1 += injected->there[sight->suspect[0].service];
    samples->windows += sight->suspect_count > 0;
}

enum aw_err aw_firm_collect(const struct aw_graph_app *app,
                            const struct aw_calibration *calibration,
                            const struct aw_firm_lesson *lesson,
                            const struct aw_classifier *classifier, struct aw_firm_samples *samples)
{
    const struct aw_graph_config config = {.seed = lesson->seed,
                                           .traced = lesson->traced,
                                           .span_loss = lesson->span_loss,
                                           .skew_us = lesson->skew_us};
    const struct aw_graph_stress none = {{0}, 0, 0};
    struct aw_classifier blank;
    struct aw_graph_world *world = NULL;
    struct aw_firm_watch *watch = NULL;
    struct aw_rng rng;
    const struct aw_firm_sight *sight;
    double now_s = 0;
    aw_rng_init(&rng, lesson->seed, 7);
    aw_classifier_init(&blank, AW_FEATURES_OURS, 1);
    enum aw_err err = aw_graph_world_new(app, &config, samples->alloc, &world);
    if (!err)
        err = aw_firm_watch_new(app, &aw_graph_world_spans(world)->names,
                                classifier ? classifier : &blank, samples->alloc, &watch);
    if (!err)
        aw_firm_watch_paper(watch, lesson->paper);
    for (uint32_t i = 0; i < SETTLE_S && !err; i++) {
        aw_graph_world_run(world, (int64_t)(1e9 * ++now_s));
        err = aw_firm_watch_world(watch, world, false, &sight);
    }
    for (uint32_t i = 0; i < lesson->windows && !err; i++) {
        struct injected injected;
        draw(app, calibration, lesson->several, &rng, &injected);
        for (uint32_t s = 0; s < app->service_count; s++)
            if (injected.anything[s])
                aw_graph_world_stress(world, s, &injected.stress[s]);
        aw_graph_world_run(world, (int64_t)(1e9 * (now_s += lesson->window_s)));
        aw_firm_watch_freeze(watch, true);
        err = aw_firm_watch_world(watch, world, true, &sight);
        if (!err)
            keep(samples, sight, &injected, lesson->several);
        for (uint32_t s = 0; s < app->service_count; s++)
            if (injected.anything[s])
                aw_graph_world_stress(world, s, &none);
        aw_graph_world_run(world, (int64_t)(1e9 * (now_s += RECOVER_S)));
        if (!err)
            err = aw_firm_watch_world(watch, world, false, &sight);
        aw_firm_watch_freeze(watch, false);
        aw_graph_world_run(world, (int64_t)(1e9 * (now_s += QUIET_S)));
        if (!err)
            err = aw_firm_watch_world(watch, world, false, &sight);
    }
    aw_firm_watch_free(watch);
    aw_graph_world_free(world);
    return err;
}

/* ---- learning ---- */

struct scored {
    double score;
    bool to_blame;
};

static int by_score(const void *left, const void *right_one)
{
    const struct scored *a = left, *b = right_one;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return (int)a->to_blame - (int)b->to_blame; /* ties count against us */
}

static struct scored *score_all(const struct aw_firm_samples *samples,
                                const struct aw_classifier *classifier, uint32_t *ret_positives)
{
    struct scored *scored = aw_alloc_new(samples->alloc, samples->count + 1, sizeof *scored);
    *ret_positives = 0;
    for (uint32_t i = 0; scored && i < samples->count; i++) {
        scored[i].score = aw_classifier_score(classifier, &samples->at[i].culprit);
        scored[i].to_blame = samples->at[i].to_blame;
        *ret_positives += samples->at[i].to_blame;
    }
    if (scored)
        qsort(scored, samples->count, sizeof *scored, by_score);
    return scored;
}

static double best_threshold(const struct aw_firm_samples *samples,
                             const struct aw_classifier *classifier)
{
    uint32_t positives, hits = 0;
    double best = -1, threshold = 0;
    struct scored *scored = score_all(samples, classifier, &positives);
    for (uint32_t i = 0; scored && i + 1 < samples->count; i++) {
        hits += scored[i].to_blame;
        const double f1 = 2.0 * hits / (i + 1 + positives);
        if (f1 > best && scored[i].score > scored[i + 1].score) {
            best = f1;
            threshold = 0.5 * (scored[i].score + scored[i + 1].score);
        }
    }
    aw_alloc_free(samples->alloc, scored);
    return threshold;
}

void aw_firm_learn(const struct aw_firm_samples *samples, enum aw_features features, uint64_t seed,
                   struct aw_classifier *ret)
{
    struct aw_rng rng;
    uint32_t positives = 0;
    aw_rng_init(&rng, seed, 3);
    aw_classifier_init(ret, features, seed);
    for (uint32_t i = 0; i < samples->count; i++)
        positives += samples->at[i].to_blame;
    if (!positives || positives == samples->count)
        return;
    const double weight = (double)(samples->count - positives) / positives;
    for (uint64_t i = 0; i < (uint64_t)EPOCHS * samples->count; i++) {
        const struct aw_firm_sample *sample = &samples->at[aw_rng_below(&rng, samples->count)];
        aw_classifier_learn(ret, &sample->culprit, sample->to_blame, sample->to_blame ? weight : 1);
    }
    aw_classifier_finish(ret);
    ret->threshold = best_threshold(samples, ret);
}

/* ---- how well ---- */

static void roc_make(const struct scored *scored, uint32_t count, struct aw_firm_quality *ret)
{
    uint32_t hits = 0, false_ones = 0, at = 0;
    double area = 0;
    ret->fpr_at_99 = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (scored[i].to_blame) {
            hits++;
            if (ret->fpr_at_99 == 1 && hits >= 0.99 * ret->positives)
                ret->fpr_at_99 = (double)false_ones / ret->negatives;
            continue;
        }
        /* the curve's height where one more false positive comes in */
        for (; at <= 100 && at / 100.0 <= (double)false_ones / ret->negatives; at++)
            ret->roc[at] = (struct aw_firm_roc_point){at / 100.0, (double)hits / ret->positives};
        false_ones++;
        area += (double)hits / ret->positives / ret->negatives;
    }
    for (; at <= 100; at++)
        ret->roc[at] = (struct aw_firm_roc_point){at / 100.0, 1};
    ret->auc = area;
    ret->tpr_at_10 = ret->roc[10].tpr;
}

enum aw_err aw_firm_judge(const struct aw_firm_samples *samples,
                          const struct aw_classifier *classifier, struct aw_firm_quality *ret)
{
    uint32_t hits = 0, said = 0, right_ones = 0;
    *ret = (struct aw_firm_quality){0};
    struct scored *scored = score_all(samples, classifier, &ret->positives);
    if (!scored)
        return AW_ERR_NOMEM;
    ret->negatives = samples->count - ret->positives;
    if (!ret->positives || !ret->negatives) {
        aw_alloc_free(samples->alloc, scored);
        return AW_ERR_NODATA;
    }
    roc_make(scored, samples->count, ret);
    aw_alloc_free(samples->alloc, scored);
    for (uint32_t i = 0; i < samples->count; i++) {
        const struct aw_firm_sample *sample = &samples->at[i];
        const bool yes = aw_classifier_score(classifier, &sample->culprit) > classifier->threshold;
        said += yes;
        hits += yes && sample->to_blame;
        right_ones += yes && sample->to_blame && sample->right_resource;
    }
    ret->precision = said ? (double)hits / said : 0;
    ret->recall = (double)hits / ret->positives;
    ret->f1 = 2.0 * hits / (said + ret->positives);
    ret->accuracy =
        (double)(samples->count - (said - hits) - (ret->positives - hits)) / samples->count;
    ret->accuracy_never = (double)ret->negatives / samples->count;
    ret->resource = hits ? (double)right_ones / hits : 0;
    return AW_OK;
}
