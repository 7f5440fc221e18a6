/* evaluate.c - see evaluate.h. */
#include "trace/evaluate.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"

#define EPOCHS 60u

static bool is_culprit(const struct aw_cases *cases, const struct aw_case *one,
                       const struct aw_culprit *culprit)
{
    return one->sort == AW_CASE_RESOURCE &&
           aw_case_is(one, aw_names_text(&cases->names, culprit->service));
}

static bool left_out(const struct aw_case *one, const char *without)
{
    return without && !strcmp(one->service, without);
}

/* Between the windows in which the culprit came first and those without one: half way. */
static double threshold_of(const struct aw_classifier *classifier, const struct aw_cases *cases,
                           const char *without)
{
    double lowest = 1e9, highest = -1e9;
    for (uint32_t i = 0; i < cases->count; i++) {
        const struct aw_case *one = &cases->at[i];
        double top = -1e9;
        bool right = false;
        if (left_out(one, without))
            continue;
        for (uint32_t k = 0; k < one->found.count; k++) {
            const double score = aw_classifier_score(classifier, &one->found.culprits[k]);
            if (score > top) {
                top = score;
                right = is_culprit(cases, one, &one->found.culprits[k]);
            }
        }
        if (right && top < lowest)
            lowest = top;
        if (one->sort != AW_CASE_RESOURCE && top > highest)
            highest = top;
    }
    if (highest < -1e8)
        return 0;
    /* where they overlap, silence is the lesser evil */
    return lowest > highest ? (lowest + highest) / 2 : highest;
}

enum aw_err aw_evaluate_learn(struct aw_classifier *ret, const struct aw_cases *cases,
                              const char *without, enum aw_features features, uint64_t seed,
                              struct aw_diag *diag)
{
    uint32_t guilty = 0, others = 0;
    struct aw_rng rng;
    for (uint32_t i = 0; i < cases->count; i++) {
        const struct aw_case *one = &cases->at[i];
        for (uint32_t k = 0; k < one->found.count && !left_out(one, without); k++) {
            const bool culprit = is_culprit(cases, one, &one->found.culprits[k]);
            guilty += culprit;
            others += !culprit;
        }
    }
    if (!guilty || !others)
        return aw_fail(diag, AW_ERR_NODATA,
                       "expected resource faults with traces to learn from, found none");
    uint32_t *order = aw_alloc_new(cases->alloc, cases->count, sizeof *order);
    if (!order)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < cases->count; i++)
        order[i] = i;
    aw_classifier_init(ret, features, seed);
    aw_rng_init(&rng, seed, 1);
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        aw_rng_shuffle(&rng, order, cases->count);
        for (uint32_t i = 0; i < cases->count; i++) {
            const struct aw_case *one = &cases->at[order[i]];
            for (uint32_t k = 0; k < one->found.count && !left_out(one, without); k++) {
                const struct aw_culprit *culprit = &one->found.culprits[k];
                const bool to_blame = is_culprit(cases, one, culprit);
                /* both sides weigh the same: "nobody" must not be the best answer */
                aw_classifier_learn(ret, culprit, to_blame,
                                    to_blame ? 0.5 * (guilty + others) / guilty
                                             : 0.5 * (guilty + others) / others);
            }
        }
    }
    aw_classifier_finish(ret);
    ret->threshold = threshold_of(ret, cases, without);
    aw_alloc_free(cases->alloc, order);
    return AW_OK;
}

static void judge(struct aw_cases *cases, struct aw_case *one,
                  const struct aw_classifier *classifier)
{
    char *const names[3] = {one->first, one->second, one->third};
    one->rank = 0;
    aw_classifier_judge(classifier, &one->found);
    one->confident = one->found.confident;
    for (uint32_t i = 0; i < one->found.count; i++) {
        const char *name = aw_names_text(&cases->names, one->found.culprits[i].service);
        if (i < 3)
            snprintf(names[i], sizeof one->first, "%.127s", name);
        if (!one->rank && aw_case_is(one, name))
            one->rank = i + 1;
    }
    if (one->found.count)
        aw_culprit_text(&one->found.culprits[0], one->text, sizeof one->text);
}

static void count(const struct aw_case *one, struct aw_evaluation *evaluation)
{
    struct aw_evaluation_part *part = &evaluation->part[one->sort];
    part->cases++;
    part->top1 += one->rank == 1;
    part->top3 += one->rank >= 1 && one->rank <= 3;
    part->confident += one->confident;
}

void aw_evaluate(struct aw_cases *cases, const struct aw_classifier *classifier,
                 struct aw_evaluation *ret)
{
    *ret = (struct aw_evaluation){0};
    for (uint32_t i = 0; i < cases->count; i++) {
        if (!cases->metrics_alone)
            judge(cases, &cases->at[i], classifier);
        count(&cases->at[i], ret);
    }
}

enum aw_err aw_evaluate_held_out(struct aw_cases *cases, enum aw_features features, uint64_t seed,
                                 struct aw_evaluation *ret, struct aw_diag *diag)
{
    struct aw_classifier classifier;
    bool *done = aw_alloc_new(cases->alloc, cases->count + 1, sizeof *done);
    enum aw_err err = AW_OK;
    if (!done)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    *ret = (struct aw_evaluation){0};
    for (uint32_t i = 0; i < cases->count && !err; i++) {
        struct aw_case *one = &cases->at[i];
        if (done[i])
            continue;
        /* a window without a culprit is held out alone: by a name that nobody else has */
        char held[sizeof one->service];
        const bool unnamed = !*one->service;
        snprintf(held, sizeof held, "%s", unnamed ? "(this window)" : one->service);
        if (unnamed)
            snprintf(one->service, sizeof one->service, "%s", held);
        err = aw_evaluate_learn(&classifier, cases, held, features, seed, diag);
        if (unnamed)
            one->service[0] = '\0';
        for (uint32_t k = i; k < cases->count && !err; k++) {
            if (unnamed ? k == i : !strcmp(cases->at[k].service, held)) {
                judge(cases, &cases->at[k], &classifier);
                count(&cases->at[k], ret);
                done[k] = true;
            }
        }
    }
    aw_alloc_free(cases->alloc, done);
    return err;
}
