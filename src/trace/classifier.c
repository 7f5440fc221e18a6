/* classifier.c - see classifier.h. */
#include "trace/classifier.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"

/* Wide waves: near what was learned they bend the plane, far from it they leave it alone. */
#define BANDWIDTH 1.0
#define LAMBDA    1e-3 /* of the weights' squares */
#define STEP_MAX  0.5
#define TWO_PI    6.283185307179586

extern const char aw__localizer_json[];
extern const unsigned aw__localizer_json_size;

static uint32_t feature_count(const struct aw_classifier *classifier)
{
    return classifier->features == AW_FEATURES_PAPER ? (uint32_t)AW_PAPER_FEATURES
                                                     : (uint32_t)AW_FEATURES;
}

void aw_classifier_init(struct aw_classifier *classifier, enum aw_features features, uint64_t seed)
{
    struct aw_rng rng;
    *classifier = (struct aw_classifier){.features = features, .seed = seed};
    aw_rng_init(&rng, seed, 0);
    for (uint32_t i = 0; i < AW_CLASSIFIER_WAVES; i++) {
        for (uint32_t k = 0; k < AW_FEATURES; k++)
            classifier->wave[i][k] = aw_rng_normal(&rng) / BANDWIDTH;
        classifier->phase[i] = aw_rng_uniform(&rng, 0, TWO_PI);
    }
}

static void inputs_of(const struct aw_classifier *classifier, const struct aw_culprit *culprit,
                      double *inputs)
{
    const double *features =
        classifier->features == AW_FEATURES_PAPER ? culprit->paper : culprit->feature;
    const uint32_t count = feature_count(classifier);
    for (uint32_t k = 0; k < AW_FEATURES; k++)
        inputs[k] = k < count ? features[k] : 0;
    for (uint32_t i = 0; i < AW_CLASSIFIER_WAVES; i++) {
        double angle = classifier->phase[i];
        for (uint32_t k = 0; k < count; k++)
            angle += classifier->wave[i][k] * features[k];
        inputs[AW_FEATURES + i] = cos(angle) * sqrt(2.0 / AW_CLASSIFIER_WAVES);
    }
    inputs[AW_CLASSIFIER_INPUTS - 1] = 1;
}

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (uint32_t i = 0; i < AW_CLASSIFIER_INPUTS; i++)
        sum += a[i] * b[i];
    return sum;
}

void aw_classifier_learn(struct aw_classifier *classifier, const struct aw_culprit *culprit,
                         bool to_blame, double weight)
{
    double inputs[AW_CLASSIFIER_INPUTS];
    const double label = to_blame ? 1 : -1;
    inputs_of(classifier, culprit, inputs);
    const double margin = label * dot(classifier->weight, inputs);
    const double step =
        fmin(STEP_MAX, 1 / (LAMBDA * (double)(classifier->steps + 1))); /* Pegasos, capped */
    for (uint32_t i = 0; i < AW_CLASSIFIER_INPUTS; i++) {
        double *w = &classifier->weight[i];
        if (i + 1 < AW_CLASSIFIER_INPUTS)
            *w -= step * LAMBDA * *w;
        if (margin < 1)
            *w += step * weight * label * inputs[i];
        classifier->average[i] += (*w - classifier->average[i]) / (double)(classifier->steps + 1);
    }
    classifier->steps++;
}

void aw_classifier_finish(struct aw_classifier *classifier)
{
    memcpy(classifier->weight, classifier->average, sizeof classifier->weight);
}

double aw_classifier_score(const struct aw_classifier *classifier, const struct aw_culprit *culprit)
{
    double inputs[AW_CLASSIFIER_INPUTS];
    inputs_of(classifier, culprit, inputs);
    return dot(classifier->weight, inputs);
}

static int by_score(const void *left, const void *right)
{
    const struct aw_culprit *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return (a->service > b->service) - (a->service < b->service);
}

void aw_classifier_judge(const struct aw_classifier *classifier,
                         struct aw_localization *localization)
{
    for (uint32_t i = 0; i < localization->count; i++)
        localization->culprits[i].score =
            aw_classifier_score(classifier, &localization->culprits[i]);
    qsort(localization->culprits, localization->count, sizeof *localization->culprits, by_score);
    localization->confident = localization->count &&
                              localization->requests >= AW_LOCALIZE_REQUESTS_MIN &&
                              localization->culprits[0].score > classifier->threshold;
}

/* ---- bytes ---- */

static const char *const kind = "aware trace localizer";

enum aw_err aw_classifier_write(const struct aw_classifier *classifier, FILE *out)
{
    json_t *weights = json_array();
    for (uint32_t i = 0; i < AW_CLASSIFIER_INPUTS; i++)
        json_array_append_new(weights, json_real(classifier->weight[i]));
    json_t *root = json_pack("{ss si ss sI si sf so}", "kind", kind, "version", 1, "features",
                             classifier->features == AW_FEATURES_PAPER ? "paper" : "ours", "seed",
                             (json_int_t)classifier->seed, "waves", (int)AW_CLASSIFIER_WAVES,
                             "threshold", classifier->threshold, "weights", weights);
    if (!root)
        return AW_ERR_NOMEM;
    const enum aw_err err = aw_json_write(root, out, 1);
    json_decref(root);
    return err;
}

static enum aw_err take(struct aw_classifier *ret, const json_t *root, const char *name,
                        struct aw_diag *diag)
{
    const char *its_kind = json_string_value(json_object_get(root, "kind"));
    const char *features = json_string_value(json_object_get(root, "features"));
    const json_t *weights = json_object_get(root, "weights");
    const json_t *threshold = json_object_get(root, "threshold");
    const json_t *seed = json_object_get(root, "seed");
    struct aw_classifier made;
    if (!its_kind || strcmp(its_kind, kind) != 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, "kind", "expected \"%s\"", kind);
    if (!features || (strcmp(features, "ours") != 0 && strcmp(features, "paper") != 0))
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, "features",
                          "expected \"ours\" or \"paper\"");
    if (!json_is_integer(seed) || json_integer_value(seed) < 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, "seed", "expected a whole number");
    if (!json_is_number(threshold))
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, "threshold", "expected a number");
    if (json_array_size(weights) != AW_CLASSIFIER_INPUTS)
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, "weights",
                          "expected %u numbers, found %zu", AW_CLASSIFIER_INPUTS,
                          json_array_size(weights));
    aw_classifier_init(&made, strcmp(features, "paper") ? AW_FEATURES_OURS : AW_FEATURES_PAPER,
                       (uint64_t)json_integer_value(seed));
    made.threshold = json_number_value(threshold);
    for (uint32_t i = 0; i < AW_CLASSIFIER_INPUTS; i++) {
        const json_t *weight = json_array_get(weights, i);
        if (!json_is_number(weight))
            return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, "weights",
                              "expected a number as number %u of the list", i + 1);
        made.weight[i] = made.average[i] = json_number_value(weight);
    }
    *ret = made;
    return AW_OK;
}

enum aw_err aw_classifier_read(struct aw_classifier *ret, const char *name, const char *bytes,
                               size_t size, struct aw_diag *diag)
{
    json_error_t error;
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return aw_fail_at(diag, AW_ERR_FORMAT, name, error.line > 0 ? (uint32_t)error.line : 0, 0,
                          NULL, "expected JSON, as aware trace learn writes it");
    const enum aw_err err = take(ret, root, name, diag);
    json_decref(root);
    return err;
}

enum aw_err aw_classifier_shipped(struct aw_classifier *ret, struct aw_diag *diag)
{
    return aw_classifier_read(ret, "the localizer of the program", aw__localizer_json,
                              aw__localizer_json_size, diag);
}
