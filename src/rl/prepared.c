/* prepared.c - records of episodes, centred and scaled. */
#include "rl/prepared.h"

#include <math.h>
#include <string.h>

#include "nn/params.h"

#define ACTION_SCALE_MIN 0.1f  /* of half the range between its bounds */
#define OBS_SCALE_MIN    1e-6f /* below it an element is constant, and gets scale 1 */

static void carve(struct aw__prepared *p, struct aw_carve *take)
{
    size_t S = p->S, A = p->A, n = p->steps_max;
    p->x = aw_carve_take(take, n * (S + A), sizeof(float));
    p->next = aw_carve_take(take, n * (S + A), sizeof(float));
    p->policy = aw_carve_take(take, n * (S + A), sizeof(float));
    p->reward = aw_carve_take(take, n, sizeof(float));
    p->alive = aw_carve_take(take, n, sizeof(float));
    p->mean = aw_carve_take(take, S + A, sizeof(float));
    p->scale = aw_carve_take(take, S + A, sizeof(float));
    p->low = aw_carve_take(take, S, sizeof(float));
    p->high = aw_carve_take(take, S, sizeof(float));
    p->act_low = aw_carve_take(take, A, sizeof(float));
    p->act_high = aw_carve_take(take, A, sizeof(float));
    p->raw_obs = aw_carve_take(take, AW_AGENT_ACT_ROWS_MAX * S, sizeof(float));
    p->raw_act = aw_carve_take(take, AW_AGENT_ACT_ROWS_MAX * A, sizeof(float));
}

enum aw_err aw__prepared_init(struct aw__prepared *prepared, uint32_t S, uint32_t A,
                              uint32_t steps_max, const struct aw_alloc *alloc)
{
    struct aw_carve take = {0};
    *prepared = (struct aw__prepared){.S = S, .A = A, .steps_max = steps_max, .alloc = alloc};
    carve(prepared, &take);
    prepared->block = aw_alloc_new(alloc, take.used, 1);
    if (!prepared->block) {
        *prepared = (struct aw__prepared){0};
        return AW_ERR_NOMEM;
    }
    take = (struct aw_carve){.base = prepared->block};
    carve(prepared, &take);
    return AW_OK;
}

void aw__prepared_deinit(struct aw__prepared *prepared)
{
    aw_alloc_free(prepared->alloc, prepared->block);
    *prepared = (struct aw__prepared){0};
}

/* Mean and deviation of a column of `n` rows. */
static void column(const float *from, size_t row, size_t n, double *ret_mean, double *ret_std)
{
    double sum = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)from[i * row];
    sum /= (double)n;
    for (size_t i = 0; i < n; i++) {
        double far = (double)from[i * row] - sum;
        square += far * far;
    }
    *ret_mean = sum;
    *ret_std = sqrt(square / (double)n);
}

static void measure(struct aw__prepared *p, const struct aw_logged *logged)
{
    double mean, std;
    for (uint32_t i = 0; i < p->S; i++) {
        column(logged->obs + i, p->S, p->steps, &mean, &std);
        p->mean[i] = (float)mean;
        p->scale[i] = std > (double)OBS_SCALE_MIN ? (float)std : 1;
    }
    for (uint32_t i = 0; i < p->A; i++) {
        float least = ACTION_SCALE_MIN * 0.5f * (logged->act_high[i] - logged->act_low[i]);
        column(logged->action + i, p->A, p->steps, &mean, &std);
        p->mean[p->S + i] = (float)mean;
        p->scale[p->S + i] = fmaxf((float)std, least);
    }
    column(logged->reward, 1, p->steps, &mean, &std);
    /* A constant taken from every reward changes no comparison of policies, unless one of them ends
     * episodes sooner than another. */
    p->reward_mean = p->terminates ? 0 : (float)mean;
    p->reward_scale = std > (double)OBS_SCALE_MIN ? (float)std : 1;
}

static void scale_rows(const struct aw__prepared *p, const float *from, uint32_t first,
                       uint32_t dim, uint32_t count, float *to)
{
    size_t row = (size_t)p->S + p->A;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < dim; k++)
            to[i * row + k] = (from[i * dim + k] - p->mean[first + k]) / p->scale[first + k];
}

static void bound(struct aw__prepared *p)
{
    size_t row = (size_t)p->S + p->A;
    for (uint32_t k = 0; k < p->S; k++) {
        p->low[k] = INFINITY;
        p->high[k] = -INFINITY;
        for (size_t i = 0; i < p->steps; i++) {
            p->low[k] = fminf(p->low[k], fminf(p->x[i * row + k], p->next[i * row + k]));
            p->high[k] = fmaxf(p->high[k], fmaxf(p->x[i * row + k], p->next[i * row + k]));
        }
    }
    p->reward_low = INFINITY;
    p->reward_high = -INFINITY;
    for (size_t i = 0; i < p->steps; i++) {
        p->reward_low = fminf(p->reward_low, p->reward[i]);
        p->reward_high = fmaxf(p->reward_high, p->reward[i]);
    }
}

/* `count` raw observations: the policy's answers, cut to the bounds, scaled, at to + i * row. */
static enum aw_err ask(struct aw__prepared *p, const struct aw_logged_policy *policy,
                       const float *obs, uint32_t count, float *to, size_t row)
{
    for (uint32_t done = 0; done < count;) {
        uint32_t part = count - done < AW_AGENT_ACT_ROWS_MAX ? count - done : AW_AGENT_ACT_ROWS_MAX;
        enum aw_err err = policy->act(policy->ctx, obs + (size_t)done * p->S, part, p->raw_act);
        if (err)
            return err;
        if (!aw_params_finite(p->raw_act, (size_t)part * p->A))
            return AW_ERR_DIVERGED;
        for (uint32_t i = 0; i < part; i++) {
            for (uint32_t k = 0; k < p->A; k++) {
                float a = p->raw_act[(size_t)i * p->A + k];
                a = fminf(fmaxf(a, p->act_low[k]), p->act_high[k]);
                to[(done + i) * row + k] = (a - p->mean[p->S + k]) / p->scale[p->S + k];
            }
        }
        done += part;
    }
    return AW_OK;
}

enum aw_err aw__prepared_act(struct aw__prepared *prepared, const struct aw_logged_policy *policy,
                             float *sa, uint32_t count)
{
    struct aw__prepared *p = prepared;
    size_t S = p->S, row = S + p->A;
    for (uint32_t done = 0; done < count;) {
        uint32_t part = count - done < AW_AGENT_ACT_ROWS_MAX ? count - done : AW_AGENT_ACT_ROWS_MAX;
        for (size_t i = 0; i < part; i++)
            for (size_t k = 0; k < S; k++)
                p->raw_obs[i * S + k] = sa[(done + i) * row + k] * p->scale[k] + p->mean[k];
        enum aw_err err = ask(p, policy, p->raw_obs, part, sa + done * row + S, row);
        if (err)
            return err;
        done += part;
    }
    return AW_OK;
}

/* What is seen next is, but for the end of an episode, what the following step begins with: the
 * policy is asked once for both. */
static enum aw_err answer_next(struct aw__prepared *p, const struct aw_logged *logged,
                               const struct aw_logged_policy *policy)
{
    size_t S = p->S, A = p->A, row = S + A;
    enum aw_err err = AW_OK;
    for (uint32_t e = 0; !err && e < p->episodes; e++) {
        for (size_t i = p->begin[e]; !err && i < p->begin[e + 1]; i++) {
            const float *seen = logged->next_obs + i * S;
            if (i + 1 < p->begin[e + 1] &&
                memcmp(seen, logged->obs + (i + 1) * S, S * sizeof *seen) == 0)
                memcpy(p->next + i * row + S, p->policy + (i + 1) * row + S, A * sizeof(float));
            else
                err = ask(p, policy, seen, 1, p->next + i * row + S, row);
        }
    }
    return err;
}

enum aw_err aw__prepared_fill(struct aw__prepared *prepared, const struct aw_logged *logged,
                              const struct aw_logged_policy *policy)
{
    struct aw__prepared *p = prepared;
    size_t S = p->S, A = p->A, row = S + A;
    p->steps = aw_logged_steps(logged);
    p->episodes = logged->episode_count;
    p->begin = logged->episode_begin;
    AW_ASSERT(logged->obs_dim == S && logged->act_dim == A && p->steps <= p->steps_max);
    if (!aw_params_finite(logged->obs, p->steps * S) ||
        !aw_params_finite(logged->next_obs, p->steps * S) ||
        !aw_params_finite(logged->action, p->steps * A) ||
        !aw_params_finite(logged->reward, p->steps))
        return AW_ERR_DIVERGED;
    p->terminates = false;
    for (size_t i = 0; i < p->steps; i++) {
        bool terminated = logged->terminated && logged->terminated[i];
        p->alive[i] = terminated ? 0 : 1;
        p->terminates |= terminated;
    }
    memcpy(p->act_low, logged->act_low, A * sizeof(float));
    memcpy(p->act_high, logged->act_high, A * sizeof(float));
    measure(p, logged);
    scale_rows(p, logged->obs, 0, p->S, p->steps, p->x);
    scale_rows(p, logged->action, p->S, p->A, p->steps, p->x + S);
    scale_rows(p, logged->obs, 0, p->S, p->steps, p->policy);
    scale_rows(p, logged->next_obs, 0, p->S, p->steps, p->next);
    for (size_t i = 0; i < p->steps; i++)
        p->reward[i] = (logged->reward[i] - p->reward_mean) / p->reward_scale;
    bound(p);
    enum aw_err err = ask(p, policy, logged->obs, p->steps, p->policy + S, row);
    return err ? err : answer_next(p, logged, policy);
}

void aw__resample(struct aw_rng *rng, uint32_t episodes, uint32_t *slot, bool *left_out)
{
    for (uint32_t e = 0; e < episodes; e++)
        left_out[e] = true;
    for (uint32_t e = 0; e < episodes; e++) {
        slot[e] = aw_rng_below(rng, episodes);
        left_out[slot[e]] = false;
    }
}

uint32_t aw__resample_step(struct aw_rng *rng, const struct aw__prepared *prepared,
                           const uint32_t *slot)
{
    uint32_t e = slot[aw_rng_below(rng, prepared->episodes)];
    uint32_t begin = prepared->begin[e];
    return begin + aw_rng_below(rng, prepared->begin[e + 1] - begin);
}
