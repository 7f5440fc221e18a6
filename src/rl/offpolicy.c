/* offpolicy.c - wall, memory and clock of the off-policy learners. */
#include "rl/offpolicy.h"

#include <math.h>
#include <string.h>

#include "nn/mlp.h"
#include "nn/params.h"

static enum aw_err check_shape(const char *algorithm, const struct aw_agent_shape *shape,
                               struct aw_diag *diag)
{
    if (shape->action != AW_AGENT_CONTINUOUS)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "%s takes continuous actions, and these are discrete: use dqn or ppo",
                       algorithm);
    if (!shape->env_count || !shape->obs_dim || !shape->act_dim)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected environments, observations and actions, found %u, %u and %u",
                       shape->env_count, shape->obs_dim, shape->act_dim);
    if (shape->obs_dim + shape->act_dim > AW_MLP_WIDTH_MAX)
        return aw_fail(diag, AW_ERR_LIMIT,
                       "expected at most %u observations and actions together, found %u",
                       AW_MLP_WIDTH_MAX, shape->obs_dim + shape->act_dim);
    for (uint32_t j = 0; j < shape->act_dim; j++) {
        float low = shape->act_low[j], high = shape->act_high[j];
        if (!isfinite(low) || !isfinite(high) || !(low < high) || !isfinite(high - low))
            return aw_fail(diag, AW_ERR_CONFIG,
                           "action %u: expected finite bounds, the lower first, found %g and %g", j,
                           (double)low, (double)high);
    }
    return AW_OK;
}

static void carve(struct aw_offpolicy *off, struct aw_carve *take)
{
    size_t S = off->shape.obs_dim, A = off->shape.act_dim, B = off->settings.batch;
    off->obs = aw_carve_take(take, B * S, sizeof(float));
    off->obs_act = aw_carve_take(take, B * (S + A), sizeof(float));
    off->reward = aw_carve_take(take, B, sizeof(float));
    off->terminal = aw_carve_take(take, B, sizeof(float));
    off->next_obs = aw_carve_take(take, B * S, sizeof(float));
    off->low = aw_carve_take(take, A, sizeof(float));
    off->high = aw_carve_take(take, A, sizeof(float));
    off->mid = aw_carve_take(take, A, sizeof(float));
    off->half = aw_carve_take(take, A, sizeof(float));
    off->scaled = aw_carve_take(take, off->shape.env_count * A, sizeof(float));
    off->row = aw_carve_take(take, S, sizeof(float));
}

enum aw_err aw__offpolicy_init(struct aw_offpolicy *off, const char *algorithm,
                               const struct aw_agent_shape *shape,
                               const struct aw_offpolicy_settings *settings, uint64_t seed,
                               const struct aw_alloc *alloc, struct aw_diag *diag)
{
    *off = (struct aw_offpolicy){0};
    enum aw_err err = check_shape(algorithm, shape, diag);
    if (err)
        return err;
    if (settings->batch > settings->replay_capacity)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "replay_capacity",
                          "expected at least one batch of %u, found %u", settings->batch,
                          settings->replay_capacity);
    off->shape = *shape;
    off->settings = *settings;
    off->seed = seed;
    off->alloc = alloc;
    aw_rng_init(&off->rng, seed, 0);

    struct aw_carve take = {0};
    carve(off, &take);
    off->block = aw_alloc_new(alloc, take.used, 1);
    if (!off->block) {
        err = AW_ERR_NOMEM;
        goto out;
    }
    take = (struct aw_carve){.base = off->block};
    carve(off, &take);
    for (uint32_t j = 0; j < shape->act_dim; j++) {
        off->low[j] = shape->act_low[j];
        off->high[j] = shape->act_high[j];
        off->half[j] = 0.5f * (shape->act_high[j] - shape->act_low[j]);
        off->mid[j] = shape->act_low[j] + off->half[j];
    }
    off->shape.act_low = off->low;
    off->shape.act_high = off->high;

    err = aw_replay_init(
        &off->replay,
        &(struct aw_replay_config){settings->replay_capacity, shape->obs_dim, shape->act_dim},
        alloc);
    if (!err && settings->normalise_obs)
        err = aw_normalise_init(&off->norm, shape->obs_dim, AW_NORMALISE_CLIP, alloc);
out:
    if (err) {
        aw__offpolicy_deinit(off);
        aw_fail(diag, err, "%s: no memory for a replay of %u transitions", algorithm,
                settings->replay_capacity);
    }
    return err;
}

void aw__offpolicy_deinit(struct aw_offpolicy *off)
{
    aw_normalise_deinit(&off->norm);
    aw_replay_deinit(&off->replay);
    aw_alloc_free(off->alloc, off->block);
    *off = (struct aw_offpolicy){0};
}

const float *aw__offpolicy_enter(struct aw_offpolicy *off, const float *obs)
{
    if (!off->norm.dim)
        return obs;
    aw_normalise_apply(&off->norm, obs, 1, off->row);
    return off->row;
}

void aw__offpolicy_leave(const struct aw_offpolicy *off, const float *a, float *action)
{
    for (uint32_t j = 0; j < off->shape.act_dim; j++) {
        float value = off->mid[j] + a[j] * off->half[j];
        value = value > off->high[j] ? off->high[j] : value;
        action[j] = value < off->low[j] ? off->low[j] : value;
    }
}

bool aw__offpolicy_warming_up(const struct aw_offpolicy *off)
{
    return !off->settings.offline && off->step_count < off->settings.warmup_steps;
}

enum aw_err aw__offpolicy_observe(struct aw_offpolicy *off, const struct aw_transition *transition)
{
    size_t N = off->shape.env_count, S = off->shape.obs_dim, A = off->shape.act_dim;
    if (!aw_params_finite(transition->obs, N * S) || !aw_params_finite(transition->action, N * A) ||
        !aw_params_finite(transition->reward, N) || !aw_params_finite(transition->next_obs, N * S))
        return AW_ERR_DIVERGED;
    if (off->norm.dim)
        aw_normalise_update(&off->norm, transition->obs, off->shape.env_count);
    for (size_t e = 0; e < N; e++) {
        float *a = off->scaled + e * A;
        for (size_t j = 0; j < A; j++) {
            float value = (transition->action[e * A + j] - off->mid[j]) / off->half[j];
            value = value > 1 ? 1 : value;
            a[j] = value < -1 ? -1 : value;
        }
        enum aw_err err =
            aw_replay_push(&off->replay, transition->obs + e * S, a, transition->reward[e],
                           transition->next_obs + e * S, transition->terminated[e]);
        AW_ASSERT(err == AW_OK); /* all of it was found finite above */
    }
    off->step_count += N;
    off->pending += N;
    return AW_OK;
}

uint64_t aw__offpolicy_due(struct aw_offpolicy *off)
{
    const struct aw_offpolicy_settings *set = &off->settings;
    bool enough = off->replay.count >= set->batch;
    if (set->offline)
        return enough ? set->updates_per_step : 0;
    if (!enough || off->step_count < set->warmup_steps) {
        off->pending = 0; /* steps without updates are not made up for */
        return 0;
    }
    uint64_t rounds = off->pending / set->update_every;
    off->pending -= rounds * set->update_every;
    return rounds * set->updates_per_step;
}

void aw__offpolicy_sample(struct aw_offpolicy *off)
{
    uint32_t B = off->settings.batch, S = off->shape.obs_dim, A = off->shape.act_dim;
    aw_replay_sample(&off->replay, &off->rng, B,
                     &(struct aw_replay_batch){.obs = off->obs,
                                               .obs_act = off->obs_act,
                                               .reward = off->reward,
                                               .terminal = off->terminal,
                                               .next_obs = off->next_obs});
    for (uint32_t b = 0; b < B; b++)
        off->reward[b] *= off->settings.reward_scale;
    if (!off->norm.dim)
        return;
    aw_normalise_apply(&off->norm, off->obs, B, off->obs);
    aw_normalise_apply(&off->norm, off->next_obs, B, off->next_obs);
    for (size_t b = 0; b < B; b++)
        memcpy(off->obs_act + b * (S + A), off->obs + b * S, S * sizeof(float));
}

void aw__offpolicy_persist(struct aw_offpolicy *off, struct aw_persist *persist)
{
    if (off->norm.dim)
        aw_normalise_persist(&off->norm, persist, "obs_norm");
    aw_replay_persist(&off->replay, persist, "replay");
    aw_persist_add_rng(persist, "rng", &off->rng);
    aw_persist_add_u64(persist, "step_count", &off->step_count);
    aw_persist_add_u64(persist, "update_count", &off->update_count);
    aw_persist_add_u64(persist, "pending", &off->pending);
}

enum aw_err aw__offpolicy_valid(void *off, const struct aw_persist_found *found,
                                struct aw_diag *diag)
{
    return aw_replay_persist_valid(&((struct aw_offpolicy *)off)->replay, found, "replay", diag);
}

void aw__offpolicy_refresh(struct aw_offpolicy *off)
{
    if (off->norm.dim)
        aw_normalise_refresh(&off->norm);
}

void aw__learn_stat(struct aw_learn_stats *stats, const char *name, double value)
{
    if (!stats || stats->count >= AW_LEARN_STATS_MAX)
        return;
    stats->stat[stats->count].name = name;
    stats->stat[stats->count].value = value;
    stats->count++;
}
