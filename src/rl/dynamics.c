/* dynamics.c - a learned model of the world behind a record. */
#include "rl/dynamics.h"

#include <math.h>
#include <string.h>

#include "nn/adam.h"

#define HOLD_ROWS       512u  /* steps that decide when to stop */
#define HOLD_EVERY      50u   /* updates from one look at them to the next */
#define HOLD_PATIENCE   4u    /* looks without a better loss */
#define CHANGE_MIN      1e-4f /* a change with less deviation, in those of the state, is none */
#define NOISE_RATIO_MAX 3.0f  /* of the deviations of an imagined and the recorded step */

static void carve(struct aw__dynamics *d, struct aw_carve *take)
{
    size_t row = (size_t)d->S + d->A, D = d->D, B = d->config.batch, R = d->config.plays_max;
    d->best = aw_carve_take(take, d->params.count, sizeof(float));
    d->change_scale = aw_carve_take(take, d->S, sizeof(float));
    d->x = aw_carve_take(take, d->rows_max * row, sizeof(float));
    d->y = aw_carve_take(take, d->rows_max * D, sizeof(float));
    d->dout = aw_carve_take(take, B * 2 * D, sizeof(float));
    d->hold_x = aw_carve_take(take, HOLD_ROWS * row, sizeof(float));
    d->hold_y = aw_carve_take(take, HOLD_ROWS * D, sizeof(float));
    d->sa = aw_carve_take(take, R * row, sizeof(float));
    d->past = aw_carve_take(take, R * 2 * D, sizeof(float));
}

enum aw_err aw__dynamics_init(struct aw__dynamics *dynamics, uint32_t S, uint32_t A,
                              const struct aw__dynamics_config *config,
                              const struct aw_alloc *alloc)
{
    struct aw__dynamics *d = dynamics;
    const uint32_t widths[] = {S + A, config->hidden, config->hidden, 2 * (S + 1)};
    AW_ASSERT(config->plays_max <= AW__DYNAMICS_PLAYS_MAX);
    *d = (struct aw__dynamics){.config = *config, .S = S, .A = A, .D = S + 1, .alloc = alloc};
    d->rows_max = config->batch > HOLD_ROWS ? config->batch : HOLD_ROWS;
    d->rows_max = d->rows_max > config->plays_max ? d->rows_max : config->plays_max;
    aw_mlp_declare(&d->net, &d->params, "dynamics", widths, 4, AW_ACT_RELU, AW_ACT_NONE);
    enum aw_err err = aw_params_alloc(&d->params, alloc);
    err = err ? err : aw_mlp_cache_init(&d->cache, &d->net, d->rows_max, alloc);
    if (!err) {
        struct aw_carve take = {0};
        carve(d, &take);
        d->block = aw_alloc_new(alloc, take.used, 1);
        take = (struct aw_carve){.base = d->block};
        if (d->block)
            carve(d, &take);
        else
            err = AW_ERR_NOMEM;
    }
    if (err)
        aw__dynamics_deinit(d);
    return err;
}

void aw__dynamics_deinit(struct aw__dynamics *dynamics)
{
    aw_alloc_free(dynamics->alloc, dynamics->block);
    aw_mlp_cache_deinit(&dynamics->cache);
    aw_params_deinit(&dynamics->params);
    *dynamics = (struct aw__dynamics){0};
}

static float log_std_cut(float raw)
{
    return fminf(fmaxf(raw, AW__LOG_STD_MIN), AW__LOG_STD_MAX);
}

double aw__gaussian_nll(const float *out, const float *y, uint32_t B, uint32_t D, float *dout)
{
    const float share = 1.0f / ((float)B * (float)D);
    double sum = 0;
    for (size_t b = 0; b < B; b++) {
        const float *mean = out + b * 2 * D, *log_std = mean + D;
        for (size_t k = 0; k < D; k++) {
            float cut = log_std_cut(log_std[k]), narrow = expf(-cut);
            float z = (y[b * D + k] - mean[k]) * narrow;
            sum += (double)(0.5f * z * z + cut);
            if (!dout)
                continue;
            dout[b * 2 * D + k] = -share * z * narrow;
            dout[b * 2 * D + D + k] = cut == log_std[k] ? share * (1 - z * z) : 0;
        }
    }
    return sum * (double)share;
}

static void measure(struct aw__dynamics *d, const struct aw__prepared *p)
{
    size_t row = (size_t)d->S + d->A;
    for (size_t k = 0; k < d->S; k++) {
        double square = 0;
        for (size_t i = 0; i < p->steps; i++) {
            double change = (double)p->next[i * row + k] - (double)p->x[i * row + k];
            square += change * change;
        }
        d->change_scale[k] = fmaxf((float)sqrt(square / p->steps), CHANGE_MIN);
    }
}

/* Row i of the record as an input and what came of it. */
static void example(const struct aw__dynamics *d, const struct aw__prepared *p, size_t i, float *x,
                    float *y)
{
    size_t row = (size_t)d->S + d->A;
    if (x)
        memcpy(x, p->x + i * row, row * sizeof *x);
    for (size_t k = 0; k < d->S; k++)
        y[k] = (p->next[i * row + k] - p->x[i * row + k]) / d->change_scale[k];
    y[d->S] = p->reward[i];
}

/* Evenly spread over the episodes left out; over all, should none be. Returns the rows. */
static uint32_t hold_out(struct aw__dynamics *d, const struct aw__prepared *p, const bool *left_out)
{
    uint64_t total = 0;
    uint32_t taken = 0;
    bool all = true;
    for (uint32_t e = 0; e < p->episodes; e++)
        total += left_out[e] ? p->begin[e + 1] - p->begin[e] : 0;
    if (total)
        all = false;
    else
        total = p->steps;
    uint64_t want = total < HOLD_ROWS ? total : HOLD_ROWS, seen = 0;
    for (uint32_t e = 0; e < p->episodes; e++) {
        if (!all && !left_out[e])
            continue;
        for (uint32_t i = p->begin[e]; i < p->begin[e + 1]; i++, seen++)
            if ((seen + 1) * want / total > taken) {
                example(d, p, i, d->hold_x + (size_t)taken * (d->S + d->A),
                        d->hold_y + (size_t)taken * d->D);
                taken++;
            }
    }
    return taken;
}

/* 1 - squared error of the reward over its variance. */
static double fit_of(struct aw__dynamics *d, uint32_t rows)
{
    size_t D = d->D;
    const float *out = aw_mlp_forward(&d->net, d->best, d->hold_x, rows, &d->cache);
    double mean = 0, error = 0, variance = 0;
    for (size_t i = 0; i < rows; i++)
        mean += (double)d->hold_y[i * D + d->S] / rows;
    for (size_t i = 0; i < rows; i++) {
        double y = (double)d->hold_y[i * D + d->S], off = y - (double)out[i * 2 * D + d->S];
        error += off * off;
        variance += (y - mean) * (y - mean);
    }
    return variance > 0 ? 1 - error / variance : 0;
}

enum aw_err aw__dynamics_train(struct aw__dynamics *dynamics, const struct aw__prepared *prepared,
                               const uint32_t *slot, const bool *left_out, struct aw_rng *rng,
                               double *ret_fit)
{
    struct aw__dynamics *d = dynamics;
    const struct aw__dynamics_config *config = &d->config;
    const uint32_t B = config->batch, D = d->D;
    size_t row = (size_t)d->S + d->A;
    struct aw_adam adam = aw_adam_default(config->lr);
    double best = INFINITY;
    uint32_t worse = 0;
    measure(d, prepared);
    const uint32_t hold_rows = hold_out(d, prepared, left_out);
    aw_params_zero_moments(&d->params);
    aw_mlp_init_fan_in(&d->net, d->params.value, 0, rng);
    for (uint32_t n = 1; n <= config->updates && worse < HOLD_PATIENCE; n++) {
        for (size_t b = 0; b < B; b++)
            example(d, prepared, aw__resample_step(rng, prepared, slot), d->x + b * row,
                    d->y + b * D);
        const float *out = aw_mlp_forward(&d->net, d->params.value, d->x, B, &d->cache);
        aw__gaussian_nll(out, d->y, B, D, d->dout);
        aw_params_zero_grad(&d->params);
        aw_mlp_backward(&d->net, d->params.value, d->x, B, &d->cache, d->dout, d->params.grad,
                        NULL);
        adam.lr = config->lr * (1 - 0.9 * n / config->updates);
        aw_adam_step(&adam, &d->params);
        if (n % HOLD_EVERY && n < config->updates)
            continue;
        out = aw_mlp_forward(&d->net, d->params.value, d->hold_x, hold_rows, &d->cache);
        double loss = aw__gaussian_nll(out, d->hold_y, hold_rows, D, NULL);
        worse = loss < best ? 0 : worse + 1;
        if (loss < best) {
            best = loss;
            memcpy(d->best, d->params.value, d->params.count * sizeof(float));
        }
    }
    if (!isfinite(best) || !aw_params_finite(d->best, d->params.count))
        return AW_ERR_DIVERGED;
    if (ret_fit)
        *ret_fit = fit_of(d, hold_rows);
    return AW_OK;
}

/* What happened at the recorded step i, less what was expected (past [2 D]), and then at the step
 * imagined (now [2 D]): y [D]. */
static void imagine(const struct aw__dynamics *d, const float *past, const float *now,
                    struct aw_rng *rng, float *y)
{
    size_t D = d->D;
    for (size_t k = 0; k < D; k++) {
        float width = log_std_cut(now[D + k]);
        if (rng) {
            y[k] = now[k] + expf(width) * (float)aw_rng_normal(rng);
            continue;
        }
        float ratio = expf(width - log_std_cut(past[D + k]));
        ratio = fminf(fmaxf(ratio, 1 / NOISE_RATIO_MAX), NOISE_RATIO_MAX);
        y[k] = now[k] + ratio * (y[k] - past[k]);
    }
}

enum aw_err aw__dynamics_play(struct aw__dynamics *dynamics, struct aw__prepared *prepared,
                              const struct aw_logged_policy *policy, const uint32_t *episode,
                              uint32_t count, enum aw__dynamics_noise noise, struct aw_rng *rng,
                              double *ret_gain)
{
    struct aw__dynamics *d = dynamics;
    const struct aw__prepared *p = prepared;
    size_t S = d->S, row = S + d->A, D = d->D;
    uint32_t longest = 0;
    AW_ASSERT(count <= d->config.plays_max);
    for (uint32_t e = 0; e < count; e++) {
        uint32_t begin = p->begin[episode[e]], length = p->begin[episode[e] + 1] - begin;
        memcpy(d->sa + e * row, p->x + begin * row, row * sizeof(float));
        longest = length > longest ? length : longest;
        ret_gain[e] = 0;
    }
    for (uint32_t t = 0; t < longest; t++) {
        for (uint32_t e = 0; e < count; e++) {
            uint32_t begin = p->begin[episode[e]], length = p->begin[episode[e] + 1] - begin;
            size_t i = begin + (t < length ? t : length - 1);
            example(d, p, i, d->x + e * row, d->y + e * D);
        }
        if (noise == AW__DYNAMICS_RECORDED) {
            const float *out = aw_mlp_forward(&d->net, d->best, d->x, count, &d->cache);
            memcpy(d->past, out, count * 2 * D * sizeof(float));
        }
        enum aw_err err = aw__prepared_act(prepared, policy, d->sa, count);
        if (err)
            return err;
        const float *now = aw_mlp_forward(&d->net, d->best, d->sa, count, &d->cache);
        for (uint32_t e = 0; e < count; e++) {
            uint32_t begin = p->begin[episode[e]], length = p->begin[episode[e] + 1] - begin;
            if (t >= length) /* ended; it stands still while the others go on */
                continue;
            float *y = d->y + e * D, *s = d->sa + e * row;
            imagine(d, d->past + e * 2 * D, now + e * 2 * D,
                    noise == AW__DYNAMICS_SAMPLED ? rng : NULL, y);
            for (size_t k = 0; k < S; k++)
                s[k] = fminf(fmaxf(s[k] + y[k] * d->change_scale[k], p->low[k]), p->high[k]);
            float reward = fminf(fmaxf(y[S], p->reward_low), p->reward_high);
            ret_gain[e] += (double)((reward - p->reward[begin + t]) * p->reward_scale);
        }
    }
    for (uint32_t e = 0; e < count; e++)
        if (!isfinite(ret_gain[e]))
            return AW_ERR_DIVERGED;
    return AW_OK;
}
