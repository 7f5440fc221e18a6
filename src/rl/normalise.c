/* normalise.c - running moments, merged batch by batch. */
#include "rl/normalise.h"

#include <math.h>
#include <stdio.h>

#define COUNT_INITIAL 1e-4 /* rows; Gym's RunningMeanStd: the prior fades at once */
#define VAR_EPSILON   1e-8 /* keeps a constant input finite */

enum aw_err aw_normalise_init(struct aw_normalise *norm, uint32_t dim, float clip,
                              const struct aw_alloc *alloc)
{
    *norm = (struct aw_normalise){0};
    struct aw_normalise made = {.dim = dim, .clip = clip, .alloc = alloc};
    struct aw_carve carve = {0};
    for (int pass = 0; pass < 2; pass++) {
        made.count = aw_carve_take(&carve, 1, sizeof *made.count);
        made.mean = aw_carve_take(&carve, dim, sizeof *made.mean);
        made.var = aw_carve_take(&carve, dim, sizeof *made.var);
        made.shift = aw_carve_take(&carve, dim, sizeof *made.shift);
        made.scale = aw_carve_take(&carve, dim, sizeof *made.scale);
        if (pass == 0) {
            made.block = aw_alloc_new(alloc, carve.used, 1);
            if (!made.block)
                return AW_ERR_NOMEM;
            carve = (struct aw_carve){.base = made.block};
        }
    }
    *made.count = COUNT_INITIAL;
    for (uint32_t i = 0; i < dim; i++)
        made.var[i] = 1;
    aw_normalise_refresh(&made);
    *norm = made;
    return AW_OK;
}

void aw_normalise_deinit(struct aw_normalise *norm)
{
    aw_alloc_free(norm->alloc, norm->block);
    *norm = (struct aw_normalise){0};
}

void aw_normalise_refresh(struct aw_normalise *norm)
{
    for (uint32_t i = 0; i < norm->dim; i++) {
        norm->shift[i] = (float)norm->mean[i];
        norm->scale[i] = (float)(1 / sqrt(norm->var[i] + VAR_EPSILON));
    }
}

void aw_normalise_update(struct aw_normalise *norm, const float *x, uint32_t rows)
{
    if (norm->frozen || !rows)
        return;
    double old = *norm->count, n = rows, total = old + n;
    for (uint32_t i = 0; i < norm->dim; i++) {
        double sum = 0, squares = 0;
        for (uint32_t r = 0; r < rows; r++)
            sum += (double)x[(size_t)r * norm->dim + i];
        double mean = sum / n;
        for (uint32_t r = 0; r < rows; r++) {
            double e = (double)x[(size_t)r * norm->dim + i] - mean;
            squares += e * e;
        }
        double delta = mean - norm->mean[i];
        norm->mean[i] += delta * n / total;
        norm->var[i] = (norm->var[i] * old + squares + delta * delta * old * n / total) / total;
    }
    *norm->count = total;
    aw_normalise_refresh(norm);
}

void aw_normalise_apply(const struct aw_normalise *norm, const float *x, uint32_t rows, float *y)
{
    uint32_t D = norm->dim;
    for (uint32_t r = 0; r < rows; r++) {
        const float *from = x + (size_t)r * D;
        float *to = y + (size_t)r * D;
        for (uint32_t i = 0; i < D; i++) {
            float value = (from[i] - norm->shift[i]) * norm->scale[i];
            value = value > norm->clip ? norm->clip : value;
            to[i] = value < -norm->clip ? -norm->clip : value;
        }
    }
}

static void add_f64(struct aw_persist *persist, enum aw_persist_file file, const char *name,
                    const char *part, uint64_t count, double *data)
{
    char buf[AW_PERSIST_NAME_MAX];
    int length = snprintf(buf, sizeof buf, "%s.%s", name, part);
    AW_ASSERT(length > 0 && (size_t)length < sizeof buf);
    aw_persist_add(persist, file, buf, AW_DTYPE_F64, count, data);
}

static void persist_moments(struct aw_normalise *norm, struct aw_persist *persist,
                            enum aw_persist_file file, const char *name)
{
    add_f64(persist, file, name, "mean", norm->dim, norm->mean);
    add_f64(persist, file, name, "var", norm->dim, norm->var);
    add_f64(persist, file, name, "count", 1, norm->count);
}

void aw_normalise_persist(struct aw_normalise *norm, struct aw_persist *persist, const char *name)
{
    persist_moments(norm, persist, AW_PERSIST_MODEL, name);
}

enum aw_err aw_reward_scale_init(struct aw_reward_scale *scale, uint32_t env_count, float gamma,
                                 float clip, const struct aw_alloc *alloc)
{
    *scale = (struct aw_reward_scale){0};
    struct aw_normalise moments;
    enum aw_err err = aw_normalise_init(&moments, 1, clip, alloc);
    if (err)
        return err;
    double *ret = aw_alloc_new(alloc, env_count, sizeof *ret);
    if (!ret) {
        aw_normalise_deinit(&moments);
        return AW_ERR_NOMEM;
    }
    *scale = (struct aw_reward_scale){
        .env_count = env_count, .gamma = gamma, .clip = clip, .ret = ret, .moments = moments};
    return AW_OK;
}

void aw_reward_scale_deinit(struct aw_reward_scale *scale)
{
    aw_alloc_free(scale->moments.alloc, scale->ret);
    aw_normalise_deinit(&scale->moments);
    *scale = (struct aw_reward_scale){0};
}

void aw_reward_scale_apply(struct aw_reward_scale *scale, const float *reward,
                           const bool *terminated, const bool *truncated, float *scaled)
{
    for (uint32_t e = 0; e < scale->env_count && !scale->frozen; e++) {
        scale->ret[e] = scale->ret[e] * (double)scale->gamma + (double)reward[e];
        float ret = (float)scale->ret[e];
        aw_normalise_update(&scale->moments, &ret, 1);
        if (terminated[e] || truncated[e])
            scale->ret[e] = 0;
    }
    float factor = scale->moments.scale[0];
    for (uint32_t e = 0; e < scale->env_count; e++) {
        float value = reward[e] * factor;
        value = value > scale->clip ? scale->clip : value;
        scaled[e] = value < -scale->clip ? -scale->clip : value;
    }
}

void aw_reward_scale_persist(struct aw_reward_scale *scale, struct aw_persist *persist,
                             const char *name)
{
    add_f64(persist, AW_PERSIST_STATE, name, "return", scale->env_count, scale->ret);
    persist_moments(&scale->moments, persist, AW_PERSIST_STATE, name);
}

void aw_reward_scale_refresh(struct aw_reward_scale *scale)
{
    aw_normalise_refresh(&scale->moments);
}
