/* learn.c - one loop of act, step, observe, learn; then episodes without exploration. */
#include "learn.h"

#include <aware/agent.h>
#include <aware/env.h>

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/rng.h"

#define ENVS_MAX    64u
#define OBS_MAX     64u
#define ACT_MAX     8u
#define SEED_STREAM 1u /* of training episodes */
#define EVAL_STREAM 2u /* of evaluation episodes: never the same ones */

struct loop {
    struct aw_env env[ENVS_MAX];
    uint32_t count;
    size_t obs_dim, act_dim;
    float obs[ENVS_MAX * OBS_MAX], next_obs[ENVS_MAX * OBS_MAX];
    float action[ENVS_MAX * ACT_MAX];
    float reward[ENVS_MAX];
    bool terminated[ENVS_MAX], truncated[ENVS_MAX];
    struct aw_rng seeds;
};

static enum aw_err reset(struct loop *loop, uint32_t i, float *obs)
{
    struct aw_env *env = &loop->env[i];
    return env->ops->reset(env->self, aw_rng_u64(&loop->seeds), obs + i * loop->obs_dim);
}

static enum aw_err loop_open(struct loop *loop, const char *name, uint32_t count, uint64_t seed,
                             uint64_t stream, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    *loop = (struct loop){.count = count};
    aw_rng_init(&loop->seeds, seed, stream);
    AW_ASSERT(count <= ENVS_MAX);
    for (uint32_t i = 0; i < count && !err; i++)
        err = aw_env_make(name, &loop->env[i], diag);
    if (err)
        return err;
    const struct aw_env_spec *spec = loop->env[0].spec;
    loop->obs_dim = spec->observation.dim;
    loop->act_dim = spec->action.dim;
    AW_ASSERT(loop->obs_dim <= OBS_MAX && loop->act_dim <= ACT_MAX);
    for (uint32_t i = 0; i < count && !err; i++)
        err = reset(loop, i, loop->obs);
    return err;
}

static void loop_close(struct loop *loop)
{
    for (uint32_t i = 0; i < ENVS_MAX; i++)
        aw_env_free(&loop->env[i]);
}

/* Acts and moves every environment; next_obs keeps final observations. */
static enum aw_err loop_move(struct loop *loop, struct aw_agent *agent, bool explore)
{
    enum aw_err err = agent->ops->act(agent->self, loop->obs, loop->count, explore, loop->action);
    for (uint32_t i = 0; i < loop->count && !err; i++) {
        struct aw_step step;
        struct aw_env *env = &loop->env[i];
        err = env->ops->step(env->self, loop->action + i * loop->act_dim,
                             loop->next_obs + i * loop->obs_dim, &step);
        if (err)
            break;
        loop->reward[i] = step.reward;
        loop->terminated[i] = step.terminated;
        loop->truncated[i] = step.truncated;
    }
    return err;
}

static enum aw_err loop_advance(struct loop *loop)
{
    enum aw_err err = AW_OK;
    memcpy(loop->obs, loop->next_obs, sizeof loop->obs);
    for (uint32_t i = 0; i < loop->count && !err; i++)
        if (loop->terminated[i] || loop->truncated[i])
            err = reset(loop, i, loop->obs);
    return err;
}

static enum aw_err train(struct loop *loop, struct aw_agent *agent, uint64_t steps)
{
    enum aw_err err = AW_OK;
    for (uint64_t step = 0; step < steps && !err; step += loop->count) {
        err = loop_move(loop, agent, true);
        if (!err)
            err = agent->ops->observe(agent->self, &(struct aw_transition){
                                                       .obs = loop->obs,
                                                       .action = loop->action,
                                                       .reward = loop->reward,
                                                       .next_obs = loop->next_obs,
                                                       .terminated = loop->terminated,
                                                       .truncated = loop->truncated,
                                                   });
        if (!err)
            err = agent->ops->learn(agent->self, NULL);
        if (!err)
            err = loop_advance(loop);
    }
    return err;
}

static enum aw_err evaluate(struct loop *loop, struct aw_agent *agent, uint32_t episode_count,
                            struct aw_learn_result *result)
{
    enum aw_err err = AW_OK;
    double sum = 0, square = 0, episode_return = 0;
    for (uint32_t episode = 0; episode < episode_count && !err;) {
        err = loop_move(loop, agent, false);
        if (err)
            break;
        episode_return += (double)loop->reward[0];
        if (loop->terminated[0] || loop->truncated[0]) {
            sum += episode_return;
            square += episode_return * episode_return;
            episode_return = 0;
            episode++;
        }
        err = loop_advance(loop);
    }
    result->return_mean = sum / episode_count;
    result->return_std =
        sqrt(fmax(0, square / episode_count - result->return_mean * result->return_mean));
    return err;
}

/* Defaults, the preset called like the environment, total_steps where there is one, `pairs`. */
static enum aw_err settings_of(const struct aw_learn_case *learn, void *settings,
                               struct aw_diag *diag)
{
    const struct aw_agent_factory *factory = learn->factory;
    aw_conf_defaults(factory->fields, settings);
    enum aw_err err = AW_OK;
    for (const struct aw_agent_preset *preset = factory->presets; preset->name; preset++)
        if (strcmp(preset->name, learn->env) == 0)
            for (size_t i = 0; preset->pairs[i] && !err; i++)
                err = aw_conf_set_pair(factory->fields, settings, preset->pairs[i], diag);
    for (const struct aw_conf_field *field = factory->fields; field->key && !err; field++)
        if (strcmp(field->key, "total_steps") == 0)
            memcpy((char *)settings + field->offset, &learn->steps, sizeof learn->steps);
    for (size_t i = 0; learn->pairs && learn->pairs[i] && !err; i++)
        err = aw_conf_set_pair(factory->fields, settings, learn->pairs[i], diag);
    return err;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

enum aw_err aw_learn_run(const struct aw_learn_case *learn, uint64_t seed,
                         struct aw_learn_result *ret_result, struct aw_diag *diag)
{
    _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    float low[ACT_MAX], high[ACT_MAX];
    struct aw_agent agent = {0};
    struct aw_learn_result result = {0};
    struct loop loop;
    enum aw_err err = loop_open(&loop, learn->env, learn->env_count, seed, SEED_STREAM, diag);
    if (err)
        goto out;
    err = settings_of(learn, settings, diag);
    if (err)
        goto out;
    const struct aw_space *action = &loop.env[0].spec->action;
    bool discrete = action->kind == AW_SPACE_DISCRETE;
    for (uint32_t i = 0; !discrete && i < action->dim; i++) {
        low[i] = action->axes[i].low;
        high[i] = action->axes[i].high;
    }
    const struct aw_agent_shape shape = {
        .env_count = learn->env_count,
        .obs_dim = (uint32_t)loop.obs_dim,
        .action = discrete ? AW_AGENT_DISCRETE : AW_AGENT_CONTINUOUS,
        .act_dim = action->dim,
        .act_n = action->n,
        .act_low = low,
        .act_high = high,
    };
    err = learn->factory->make(&shape, settings, seed, NULL, &agent, diag);
    if (err)
        goto out;
    double begun = now();
    err = train(&loop, &agent, learn->steps);
    result.seconds = now() - begun;
    loop_close(&loop);
    if (err)
        goto out;
    err = loop_open(&loop, learn->env, 1, seed, EVAL_STREAM, diag);
    if (!err)
        err = evaluate(&loop, &agent, learn->episode_count, &result);
    if (!err)
        *ret_result = result;
out:
    loop_close(&loop);
    if (agent.ops)
        agent.ops->free(agent.self);
    return err;
}
