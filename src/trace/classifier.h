/*
 * classifier.h - from the features of a service to whether it is to blame: random Fourier features
 * beside the features themselves, hinge loss, stochastic gradients (FIRM, 3.2.3), one example at a
 * time, so that it can go on learning.
 *
 * What it learned is some seventy numbers. Those of the program were learned on the shared faults
 * of TrainTicket (docs/results/localization.md) and are part of it; `aware trace learn` makes
 * others.
 *
 * Call order: init, learn any number of times, finish, judge; or read, judge.
 * Memory:     none beyond the struct.
 * Threads:    judging reads only.
 */
#ifndef AW_TRACE_CLASSIFIER_H
#define AW_TRACE_CLASSIFIER_H

#include <stdio.h>

#include "trace/localize.h"

#define AW_CLASSIFIER_WAVES  64u                                      /* random Fourier features */
#define AW_CLASSIFIER_INPUTS (AW_FEATURES + AW_CLASSIFIER_WAVES + 1u) /* the last is 1 */

enum aw_features { AW_FEATURES_OURS, AW_FEATURES_PAPER };

struct aw_classifier {
    enum aw_features features;
    uint64_t seed;
    double wave[AW_CLASSIFIER_WAVES][AW_FEATURES]; /* of the seed */
    double phase[AW_CLASSIFIER_WAVES];
    double weight[AW_CLASSIFIER_INPUTS];
    double average[AW_CLASSIFIER_INPUTS]; /* of all weights so far: what finish takes */
    uint64_t steps;
    double threshold; /* a score above it is a confident one */
};

void aw_classifier_init(struct aw_classifier *classifier, enum aw_features features, uint64_t seed);
/* One step: `to_blame` or not. `weight` of the example; 1 is usual. */
void aw_classifier_learn(struct aw_classifier *classifier, const struct aw_culprit *culprit,
                         bool to_blame, double weight);
/* The mean of the weights becomes the weights. */
void aw_classifier_finish(struct aw_classifier *classifier);
double aw_classifier_score(const struct aw_classifier *classifier,
                           const struct aw_culprit *culprit);
/* Scores and sorts all culprits, the likeliest first, and says whether the first is one. */
void aw_classifier_judge(const struct aw_classifier *classifier,
                         struct aw_localization *localization);

/* What ships with the program. */
AW_NODISCARD enum aw_err aw_classifier_shipped(struct aw_classifier *ret, struct aw_diag *diag);
/* JSON. AW_ERR_FORMAT with the key; numbers must be finite. */
AW_NODISCARD enum aw_err aw_classifier_read(struct aw_classifier *ret, const char *name,
                                            const char *bytes, size_t size, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_classifier_write(const struct aw_classifier *classifier, FILE *out);

#endif
