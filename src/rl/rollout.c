/* rollout.c - the [T][N] arrays of an on-policy learner, and generalised advantage estimation. */
#include "rl/rollout.h"

#include "nn/params.h"

#include <math.h>
#include <string.h>

static void carve(struct aw_rollout *rollout, struct aw_carve *carve)
{
    size_t rows = aw_rollout_rows(rollout);
    rollout->obs = aw_carve_take(carve, rows * rollout->config.obs_dim, sizeof(float));
    rollout->action = aw_carve_take(carve, rows * rollout->config.act_dim, sizeof(float));
    rollout->logp = aw_carve_take(carve, rows, sizeof(float));
    rollout->reward = aw_carve_take(carve, rows, sizeof(float));
    rollout->bootstrap = aw_carve_take(carve, rows, sizeof(float));
    rollout->end = aw_carve_take(carve, rows, sizeof(uint8_t));
    rollout->value = aw_carve_take(carve, rows, sizeof(float));
    rollout->advantage = aw_carve_take(carve, rows, sizeof(float));
    rollout->target = aw_carve_take(carve, rows, sizeof(float));
}

enum aw_err aw_rollout_init(struct aw_rollout *rollout, const struct aw_rollout_config *config,
                            const struct aw_alloc *alloc)
{
    *rollout = (struct aw_rollout){0};
    if (!config->step_count || !config->env_count || !config->obs_dim || !config->act_dim)
        return AW_ERR_RANGE;
    if ((uint64_t)config->step_count * config->env_count > AW_ROLLOUT_ROWS_MAX)
        return AW_ERR_LIMIT;
    struct aw_rollout built = {.config = *config, .alloc = alloc};
    struct aw_carve sizing = {0};
    carve(&built, &sizing);
    built.block = aw_alloc_new(alloc, sizing.used, 1);
    if (!built.block)
        return AW_ERR_NOMEM;
    carve(&built, &(struct aw_carve){.base = built.block});
    *rollout = built;
    return AW_OK;
}

void aw_rollout_deinit(struct aw_rollout *rollout)
{
    aw_alloc_free(rollout->alloc, rollout->block);
    *rollout = (struct aw_rollout){0};
}

static enum aw_rollout_end end_of(const struct aw_rollout_step *step, uint32_t n)
{
    if (step->terminated[n])
        return AW_ROLLOUT_TERMINATED;
    return step->truncated[n] ? AW_ROLLOUT_TRUNCATED : AW_ROLLOUT_RUNNING;
}

enum aw_err aw_rollout_push(struct aw_rollout *rollout, const struct aw_rollout_step *step)
{
    AW_ASSERT(!aw_rollout_full(rollout));
    const struct aw_rollout_config *config = &rollout->config;
    size_t N = config->env_count, obs_dim = config->obs_dim, act_dim = config->act_dim;
    size_t row = rollout->used * N;
    bool last = rollout->used + 1 == config->step_count;

    if (!aw_params_finite(step->obs, N * obs_dim) || !aw_params_finite(step->action, N * act_dim) ||
        !aw_params_finite(step->logp, N) || !aw_params_finite(step->reward, N))
        return AW_ERR_DIVERGED;
    for (uint32_t n = 0; n < N; n++) {
        enum aw_rollout_end end = end_of(step, n);
        bool matters = end == AW_ROLLOUT_TRUNCATED || (last && end == AW_ROLLOUT_RUNNING);
        if (matters && !isfinite(step->bootstrap[n]))
            return AW_ERR_DIVERGED;
        rollout->end[row + n] = (uint8_t)end;
        rollout->bootstrap[row + n] = matters ? step->bootstrap[n] : 0;
    }
    memcpy(rollout->obs + row * obs_dim, step->obs, N * obs_dim * sizeof(float));
    memcpy(rollout->action + row * act_dim, step->action, N * act_dim * sizeof(float));
    memcpy(rollout->logp + row, step->logp, N * sizeof(float));
    memcpy(rollout->reward + row, step->reward, N * sizeof(float));
    rollout->used++;
    return AW_OK;
}

void aw_rollout_gae(struct aw_rollout *rollout, double gamma, double lambda)
{
    AW_ASSERT(aw_rollout_full(rollout));
    size_t T = rollout->config.step_count, N = rollout->config.env_count;
    for (size_t n = 0; n < N; n++) {
        double advantage = 0; /* A_{t+1} of this column */
        for (size_t t = T; t-- > 0;) {
            size_t i = t * N + n;
            /* After an end, and after the last step, what follows is not in this column: its value
             * is `bootstrap`, which is 0 for a termination. */
            bool follows = rollout->end[i] == AW_ROLLOUT_RUNNING && t + 1 < T;
            double next = (double)(follows ? rollout->value[i + N] : rollout->bootstrap[i]);
            double value = (double)rollout->value[i];
            double delta = (double)rollout->reward[i] + gamma * next - value;
            advantage = delta + (follows ? gamma * lambda * advantage : 0);
            rollout->advantage[i] = (float)advantage;
            rollout->target[i] = (float)(advantage + value);
        }
    }
}

void aw_rollout_clear(struct aw_rollout *rollout)
{
    rollout->used = 0;
}

double aw_rollout_explained_variance(const struct aw_rollout *rollout)
{
    size_t rows = aw_rollout_rows(rollout);
    double target_mean = 0, error_mean = 0;
    for (size_t i = 0; i < rows; i++) {
        target_mean += (double)rollout->target[i];
        error_mean += (double)rollout->target[i] - (double)rollout->value[i];
    }
    target_mean /= (double)rows;
    error_mean /= (double)rows;
    double target_square = 0, error_square = 0;
    for (size_t i = 0; i < rows; i++) {
        double target = (double)rollout->target[i] - target_mean;
        double error = (double)rollout->target[i] - (double)rollout->value[i] - error_mean;
        target_square += target * target;
        error_square += error * error;
    }
    return target_square > 0 ? 1 - error_square / target_square : (double)NAN;
}
