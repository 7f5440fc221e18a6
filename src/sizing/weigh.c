/*
 * weigh.c - the weight of each head, by what it said of workloads that were kept from it.
 *
 * Weights lie on a simplex and are found by exponentiated gradient (Kivinen and Warmuth, 1997) on
 * the mean absolute percentage error, from a start that already favours the better heads, and are
 * pulled back to that start: a few groups say little about seven numbers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "sizing/learner_internal.h"

#define STEPS       60u
#define RATE        1.5
#define START       12.0  /* how fast a start's weight falls with a head's relative error */
#define RATIO_MAX   4.0   /* a prediction that is further off counts as this */
#define ROBUST      0.98  /* of squared errors, beyond which they are cut */
#define TAIL        0.05  /* outside of an interval at either end */
#define NORMAL_TAIL 1.645 /* 5 % of a normal distribution lie beyond */
#define MARGIN      0.995 /* a sharper mix must be better by this */

static double ratio(double gap)
{
    return fmin(exp(fmin(gap, 10)), RATIO_MAX);
}

/* Mean absolute percentage error of a mix, and its gradient with respect to the weights. */
static double loss(const struct aw__size_word *words, uint32_t count, const struct aw_size_mix *mix,
                   double gradient[AW_SIZE_HEADS])
{
    double sum = 0;
    memset(gradient, 0, AW_SIZE_HEADS * sizeof *gradient);
    for (uint32_t i = 0; i < count; i++) {
        double weight[AW_SIZE_HEADS], error[AW_SIZE_HEADS], mean = 0;
        for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
            error[h] = (double)words[i].error[h];
        if (mix->sharpness > 0)
            aw__size_weights(mix, error, weight);
        else
            memcpy(weight, mix->weight, sizeof weight);
        for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
            mean += weight[h] * (double)words[i].word[h];
        const double r = ratio(mean - (double)words[i].truth);
        sum += fabs(r - 1);
        const double slope = r >= RATIO_MAX ? 0 : r > 1 ? r : -r;
        for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
            if (mix->weight[h] > 1e-9)
                gradient[h] +=
                    slope * weight[h] / mix->weight[h] * ((double)words[i].word[h] - mean) / count;
    }
    return sum / count;
}

static double head_mape(const struct aw__size_word *words, uint32_t count, uint32_t head)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += fabs(ratio((double)words[i].word[head] - (double)words[i].truth) - 1);
    return sum / count;
}

static void normalise(double weight[AW_SIZE_HEADS])
{
    double sum = 0;
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        sum += weight[h];
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        weight[h] /= sum;
}

static double descend(const struct aw__size_word *words, uint32_t count,
                      const double start[AW_SIZE_HEADS], double sharpness, double trust,
                      struct aw_size_mix *mix)
{
    double gradient[AW_SIZE_HEADS];
    mix->sharpness = sharpness;
    memcpy(mix->weight, start, sizeof mix->weight);
    for (uint32_t step = 0; step < STEPS; step++) {
        loss(words, count, mix, gradient);
        for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
            mix->weight[h] *= exp(-RATE * fmax(-2, fmin(2, gradient[h] * 10)));
        normalise(mix->weight);
    }
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        mix->weight[h] = trust * trust * mix->weight[h] + (1 - trust * trust) * start[h];
    return loss(words, count, mix, gradient);
}

/* --- how far off --- */

struct miss {
    double error;
    double part[3]; /* of the variance: the GP's, the spread, of one shot from the others */
    double var;
};

static double likelihood(struct miss *miss, uint32_t count, const double var[4])
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double v =
            var[0] + var[1] * miss[i].part[0] + var[2] * miss[i].part[1] + var[3] * miss[i].part[2];
        sum -= log(v) + miss[i].error * miss[i].error / v;
        miss[i].var = v;
    }
    return sum;
}

/* The variance of an error as a sum of four parts, one after the other over a grid, a few times. */
static void fit_variance(struct miss *miss, uint32_t count, double *scratch, double var[4])
{
    static const double grid[] = {0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2};
    double mean = 0;
    for (uint32_t i = 0; i < count; i++)
        scratch[i] = miss[i].error * miss[i].error;
    aw_stats_sort(scratch, count);
    const double cut = sqrt(aw_stats_quantile(scratch, count, ROBUST));
    for (uint32_t i = 0; i < count; i++)
        mean += fmin(miss[i].error * miss[i].error, cut * cut) / count;
    mean = fmax(mean, 1e-6);
    for (uint32_t i = 0; i < count; i++)
        miss[i].error = fmax(-cut, fmin(cut, miss[i].error));
    var[0] = mean;
    var[1] = var[2] = var[3] = 0;
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t part = 0; part < 4; part++) {
            double best = -INFINITY, value = 0;
            for (size_t k = 0; k < sizeof grid / sizeof *grid; k++) {
                var[part] = part == 0 ? fmax(grid[k], 0.02) * mean : grid[k];
                const double now = likelihood(miss, count, var);
                if (now > best) {
                    best = now;
                    value = var[part];
                }
            }
            var[part] = value;
        }
    likelihood(miss, count, var);
}

static void fit_interval(const struct aw__size_word *words, uint32_t count, double trust,
                         struct aw_size_mix *mix)
{
    struct miss *miss = aw_alloc_new(NULL, count, sizeof *miss);
    double *scratch = aw_alloc_new(NULL, count, sizeof *scratch);
    double *middle = aw_alloc_new(NULL, count, sizeof *middle);
    if (!miss || !scratch || !middle)
        goto out;
    for (uint32_t i = 0; i < count; i++) {
        double weight[AW_SIZE_HEADS], error[AW_SIZE_HEADS], word[AW_SIZE_HEADS], off = 0;
        for (uint32_t h = 0; h < AW_SIZE_HEADS; h++) {
            error[h] = (double)words[i].error[h];
            word[h] = (double)words[i].word[h];
        }
        aw__size_weights(mix, error, weight);
        for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
            off += weight[h] * error[h];
        middle[i] = aw__size_blend(weight, word, &miss[i].part[1]);
        miss[i].error = (double)words[i].truth - middle[i];
        miss[i].part[0] = (double)words[i].sd * (double)words[i].sd;
        miss[i].part[2] = off * off;
    }
    fit_variance(miss, count, scratch, mix->var);
    for (uint32_t i = 0; i < count; i++)
        scratch[i] = ((double)words[i].truth - middle[i]) / sqrt(miss[i].var);
    aw_stats_sort(scratch, count);
    /* few groups say little of a tail: further out, and nearer to a normal distribution's */
    mix->low = fmin(0, trust * aw_stats_quantile(scratch, count, TAIL * trust) -
                           (1 - trust) * NORMAL_TAIL);
    mix->high = fmax(0, trust * aw_stats_quantile(scratch, count, 1 - TAIL * trust) +
                            (1 - trust) * NORMAL_TAIL);
    double best = INFINITY;
    for (uint32_t step = 0; step <= 6; step++) {
        const double shift = 0.2 * step * trust;
        double sum = 0;
        for (uint32_t i = 0; i < count; i++)
            sum += fabs(ratio(middle[i] - shift * fmin(miss[i].var, AW__SIZE_VAR_MAX) -
                              (double)words[i].truth) -
                        1) /
                   count;
        if (sum < best) {
            best = sum;
            mix->shift = shift;
            mix->kept_mape = sum;
        }
    }
out:
    aw_alloc_free(NULL, miss);
    aw_alloc_free(NULL, scratch);
    aw_alloc_free(NULL, middle);
}

void aw__size_weigh_blind(const bool there[AW_SIZE_HEADS], struct aw_size_mix *ret)
{
    /* nobody to learn from: physics where there is any, else likeness of features */
    static const double even[AW_SIZE_HEADS] = {
        [AW_SIZE_HEAD_FLAT] = 0.15, [AW_SIZE_HEAD_WIDE] = 0.35, [AW_SIZE_HEAD_PHYSICAL] = 0.5};
    *ret = (struct aw_size_mix){.sharpness = 1,
                                .var = {0.01, 1, 1, 1},
                                .low = -NORMAL_TAIL,
                                .high = NORMAL_TAIL,
                                .kept_mape = (double)NAN};
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        ret->weight[h] = there[h] ? even[h] : 0;
    normalise(ret->weight);
}

void aw__size_weigh(struct aw__size_word *words, uint32_t count, uint32_t groups, bool shots_two,
                    const bool there[AW_SIZE_HEADS], struct aw_size_mix *ret)
{
    static const double sharp[] = {0, 0.5, 1, 2};
    double mape[AW_SIZE_HEADS], start[AW_SIZE_HEADS], least = INFINITY, best = INFINITY;
    const double trust = groups / (groups + 3.0);
    aw__size_weigh_blind(there, ret);
    if (count < 16)
        return;
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++) {
        mape[h] = there[h] ? head_mape(words, count, h) : INFINITY;
        least = fmin(least, mape[h]);
    }
    for (uint32_t h = 0; h < AW_SIZE_HEADS; h++)
        start[h] = there[h] ? exp(-START * trust * (mape[h] - least) / fmax(least, 0.02)) : 0;
    normalise(start);
    for (size_t s = 0; s < (shots_two ? sizeof sharp / sizeof *sharp : 1); s++) {
        struct aw_size_mix mix = *ret;
        const double now = descend(words, count, start, sharp[s], trust, &mix);
        if (now < best * MARGIN) {
            best = now;
            *ret = mix;
        }
    }
    fit_interval(words, count, trust, ret);
}
