/* ope_cases.c - records, policies and truths to try off-policy evaluation on. */
#include "bench/ope_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/quantity.h"
#include "base/rng.h"
#include "base/stats.h"
#include "env/autoscale.h"
#include "fallback/fallback.h"
#include "rl/agents.h"
#include "task/action.h"
#include "task/state.h"

#define EPISODES_MIN 20u
#define EPISODES_MAX 40u
#define OBS_MAX      AW_STATE_DEFAULT_DIM
#define ACT_MAX      AW_ACTION_DIM
#define STEPS_MAX    200u         /* of an episode, in either world */
#define TRUTH_SEED   (1ull << 32) /* where the seeds of fresh episodes begin */
#define OPE_SEED     11u
#define SPREAD \
    0.7 /* of a constant around the recorded mean, and of an offset: of the recorded spread */
#define SPREAD_MIN       0.03  /* ... but at least this much of half the range of an action */
#define PENDULUM_PUMP    0.25f /* N m per J: too timid to swing up at once */
#define PENDULUM_UPRIGHT 0.9f  /* cosine from which it balances */

const char *const aw__ope_policy_names[AW__OPE_POLICIES] = {"bcq", "bcq moved", "constant",
                                                            "bcq half constant"};
enum { BCQ, MOVED, CONSTANT, HALF };

void aw__ope_config_init(struct aw__ope_config *config, enum aw__ope_world world, uint64_t seed)
{
    *config = (struct aw__ope_config){
        .world = world, .seed = seed, .level = 0.8, .truth_episodes = 100, .bcq_updates = 800};
    aw_conf_defaults(aw_ope_fields, &config->ope);
}

/* A record under construction, with the world it is drawn from. */
struct record {
    const struct aw__ope_config *config;
    struct aw_rng rng;
    struct aw_env env;
    uint32_t S, A, episodes, episode_steps;
    double noise; /* deviation on what is carried out, of [-1, 1] */
    bool paper, vpa;
    struct aw_fallback *fallback;
    float low[ACT_MAX], high[ACT_MAX];
    uint32_t begin[EPISODES_MAX + 1];
    float obs[EPISODES_MAX * STEPS_MAX * OBS_MAX], next_obs[EPISODES_MAX * STEPS_MAX * OBS_MAX];
    float action[EPISODES_MAX * STEPS_MAX * ACT_MAX], reward[EPISODES_MAX * STEPS_MAX];
    unsigned char state[AW_ENV_STATE_BYTES_MAX];
};

/* One of the policies that are judged. */
struct judged {
    uint32_t kind;
    uint32_t S, A;
    struct aw_agent *agent;
    const float *low, *high;
    float constant[ACT_MAX], offset[ACT_MAX];
    double seconds;
};

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static enum aw_err judged_act(void *ctx, const float *obs, uint32_t count, float *action)
{
    struct judged *judged = ctx;
    const double begin = cpu_seconds();
    enum aw_err err = AW_OK;
    if (judged->kind != CONSTANT)
        err = judged->agent->ops->act(judged->agent->self, obs, count, false, action);
    for (size_t i = 0; !err && i < (size_t)count * judged->A; i++) {
        size_t k = i % judged->A;
        if (judged->kind == CONSTANT)
            action[i] = judged->constant[k];
        else if (judged->kind == HALF)
            action[i] = 0.5f * (action[i] + judged->constant[k]);
        else if (judged->kind == MOVED)
            action[i] += judged->offset[k];
        action[i] = fminf(fmaxf(action[i], judged->low[k]), judged->high[k]);
    }
    judged->seconds += cpu_seconds() - begin;
    return err;
}

/* --- worlds ------------------------------------------------------------------------------------
 */

static enum aw_err autoscale_open(struct record *r, uint32_t index, struct aw_diag *diag)
{
    static const char *const loads[] = {"diurnal:mean=20,peak=3,period=3600",
                                        "diurnal:mean=20,peak=2,period=1200,noise=0.2",
                                        "bursts:mean=20,peak=4",
                                        "spikes:mean=20,peak=5",
                                        "ramp:mean=20,peak=3,period=1800",
                                        "poisson:mean=20,noise=0.3"};
    static const char *const objectives[] = {"constrained", "paper"};
    static const double noises[] = {0, 0.02, 0.05};
    static const uint32_t kinds[] = {AW_FALLBACK_HPA, AW_FALLBACK_HPA_VPA_MEM};
    const char *trace = r->config->trace;
    char pair[4][AW_CONF_TEXT_MAX];
    const char *const pairs[] = {pair[0], pair[1], pair[2], pair[3]};
    snprintf(pair[0], sizeof *pair, "app=%llu:%u", 7000ull + r->config->seed, index);
    if (trace && aw_rng_below(&r->rng, 2))
        snprintf(pair[1], sizeof *pair, "load=%s:row=%u", trace, 1 + aw_rng_below(&r->rng, 200));
    else
        snprintf(pair[1], sizeof *pair, "load=%s",
                 loads[aw_rng_below(&r->rng, sizeof loads / sizeof *loads)]);
    snprintf(pair[2], sizeof *pair, "load_seed=%u", 1 + aw_rng_below(&r->rng, 1000000));
    r->paper = aw_rng_below(&r->rng, 2);
    snprintf(pair[3], sizeof *pair, "objective=%s", objectives[r->paper]);
    r->noise = noises[aw_rng_below(&r->rng, 3)];
    enum aw_err err = aw_env_make_with("autoscale-v0", pairs, 4, NULL, &r->env, diag);
    if (err)
        return err;
    const struct aw_autoscale_settings *set = aw_autoscale_settings(&r->env);
    struct aw_fallback_settings policy;
    struct aw_fallback_task task = {
        .bounds = {.replicas_min = set->replicas_min, .replicas_max = set->replicas_max}};
    aw_conf_defaults(aw_fallback_fields, &policy);
    r->vpa = aw_rng_below(&r->rng, 2);
    policy.kind = kinds[r->vpa];
    policy.hpa_target = 40 + 10 * aw_rng_below(&r->rng, 4);
    err = aw_quantity_parse_cpu(set->cpu_min, &task.bounds.cpu_millicores_min, diag);
    if (!err)
        err = aw_quantity_parse_cpu(set->cpu_max, &task.bounds.cpu_millicores_max, diag);
    if (!err)
        err = aw_quantity_parse_memory(set->memory_min, &task.bounds.memory_bytes_min, diag);
    if (!err)
        err = aw_quantity_parse_memory(set->memory_max, &task.bounds.memory_bytes_max, diag);
    if (!err)
        err = r->env.ops->reset(r->env.self, 0, r->obs);
    if (err)
        return err;
    const struct aw_sample *sample = aw_autoscale_sample(&r->env);
    memcpy(task.amount, sample->wanted, sizeof task.amount);
    return aw_fallback_new(&policy, &task, NULL, &r->fallback, diag);
}

/* The fallback's plan as an action. With noise the plan's own step is taken back: only the action
 * that comes nearest to it is wanted, and the noise goes on top. */
static enum aw_err autoscale_step(struct record *r, float *action, float *obs, struct aw_step *step)
{
    const struct aw_sample *sample = aw_autoscale_sample(&r->env);
    struct aw_plan plan;
    aw_fallback_decide(r->fallback, sample, sample->at_us, &plan, NULL);
    if (r->noise > 0)
        r->env.ops->state_save(r->env.self, r->state);
    enum aw_err err = aw_autoscale_step_plan(&r->env, &plan, obs, step, action);
    if (err || r->noise == 0)
        return err;
    if ((err = r->env.ops->state_load(r->env.self, r->state)))
        return err;
    for (uint32_t k = 0; k < r->A; k++)
        action[k] = fminf(fmaxf(action[k] + (float)(r->noise * aw_rng_normal(&r->rng)), -1), 1);
    return r->env.ops->step(r->env.self, action, obs, step);
}

static enum aw_err pendulum_open(struct record *r, struct aw_diag *diag)
{
    r->noise = aw_rng_uniform(&r->rng, 0.1, 0.4);
    return aw_env_make("pendulum-v1", &r->env, diag);
}

static enum aw_err pendulum_step(struct record *r, const float *seen, float *action, float *obs,
                                 struct aw_step *step)
{
    /* energy of a rod of 1 kg and 1 m; 5 J at rest upright */
    float energy = seen[2] * seen[2] / 6 + 5 * seen[0];
    float torque = seen[0] > PENDULUM_UPRIGHT
                       ? -8 * atan2f(seen[1], seen[0]) - 2 * seen[2]
                       : PENDULUM_PUMP * (5 - energy) * (seen[2] >= 0 ? 1.0f : -1.0f);
    torque += (float)(2 * r->noise * aw_rng_normal(&r->rng));
    action[0] = fminf(fmaxf(torque, -2), 2);
    return r->env.ops->step(r->env.self, action, obs, step);
}

/* --- a record ----------------------------------------------------------------------------------
 */

static enum aw_err record_open(struct record *r, const struct aw__ope_config *config,
                               uint32_t index, struct aw_diag *diag)
{
    r->config = config;
    aw_rng_init(&r->rng, config->seed, index);
    r->episodes = EPISODES_MIN + aw_rng_below(&r->rng, EPISODES_MAX - EPISODES_MIN + 1);
    enum aw_err err = config->world == AW__OPE_AUTOSCALE ? autoscale_open(r, index, diag)
                                                         : pendulum_open(r, diag);
    if (err)
        return err;
    const struct aw_env_spec *spec = r->env.spec;
    r->S = spec->observation.dim;
    r->A = spec->action.dim;
    r->episode_steps = spec->episode_steps_max;
    AW_ASSERT(r->S <= OBS_MAX && r->A <= ACT_MAX && r->episode_steps <= STEPS_MAX);
    AW_ASSERT(spec->state_bytes <= sizeof r->state);
    for (uint32_t k = 0; k < r->A; k++) {
        r->low[k] = spec->action.axes[k].low;
        r->high[k] = spec->action.axes[k].high;
    }
    return AW_OK;
}

static enum aw_err record_fill(struct record *r, uint32_t index, struct aw_diag *diag)
{
    uint32_t n = 0;
    for (uint32_t e = 0; e < r->episodes; e++) {
        struct aw_step step = {0};
        float seen[OBS_MAX];
        r->begin[e] = n;
        enum aw_err err = r->env.ops->reset(r->env.self, (uint64_t)index * EPISODES_MAX + e, seen);
        if (r->fallback)
            aw_fallback_reset(r->fallback);
        while (!err && !step.terminated && !step.truncated) {
            float *obs = r->obs + (size_t)n * r->S, *next = r->next_obs + (size_t)n * r->S;
            float *action = r->action + (size_t)n * r->A;
            memcpy(obs, seen, r->S * sizeof *obs);
            err = r->config->world == AW__OPE_AUTOSCALE
                      ? autoscale_step(r, action, next, &step)
                      : pendulum_step(r, obs, action, next, &step);
            memcpy(seen, next, r->S * sizeof *seen);
            r->reward[n++] = step.reward;
        }
        if (err)
            return aw_fail(diag, err, "%s failed: %s", r->env.spec->name, aw_err_text(err));
    }
    r->begin[r->episodes] = n;
    return AW_OK;
}

static void record_close(struct record *r)
{
    aw_fallback_free(r->fallback);
    aw_env_free(&r->env);
}

/* --- policies ----------------------------------------------------------------------------------
 */

static enum aw_err bcq_train(const struct record *r, uint32_t updates, uint64_t seed,
                             struct aw_agent *ret_agent, struct aw_diag *diag)
{
    static const char *const pairs[] = {"gamma=0.97", "reward_scale=0.03", "act_samples=20",
                                        "normalise_obs=true", "replay_capacity=10000"};
    union {
        unsigned char bytes[AW_AGENT_SETTINGS_BYTES_MAX];
        max_align_t align;
    } settings;
    const struct aw_agent_shape shape = {.env_count = 1,
                                         .obs_dim = r->S,
                                         .action = AW_AGENT_CONTINUOUS,
                                         .act_dim = r->A,
                                         .act_low = r->low,
                                         .act_high = r->high};
    const struct aw_agent_factory *factory;
    enum aw_err err = aw_agent_factory_find("bcq", &factory, diag);
    err = err ? err : aw_agent_settings(factory, NULL, &settings, diag);
    for (size_t i = 0; !err && i < sizeof pairs / sizeof *pairs; i++)
        err = aw_conf_set_pair(factory->fields, &settings, pairs[i], diag);
    err = err ? err : factory->make(&shape, &settings, seed, NULL, ret_agent, diag);
    if (err)
        return err;
    for (uint32_t e = 0; !err && e < r->episodes; e++) {
        for (size_t i = r->begin[e]; !err && i < r->begin[e + 1]; i++) {
            const bool terminated = false, truncated = i + 1 == r->begin[e + 1];
            const struct aw_transition t = {r->obs + i * r->S, r->action + i * r->A,
                                            r->reward + i,     r->next_obs + i * r->S,
                                            &terminated,       &truncated};
            err = ret_agent->ops->observe(ret_agent->self, &t);
        }
    }
    for (uint32_t i = 0; !err && i < updates; i++)
        err = ret_agent->ops->learn(ret_agent->self, NULL);
    return err ? aw_fail(diag, err, "bcq: %s", aw_err_text(err)) : AW_OK;
}

static void judged_draw(struct record *r, struct aw_agent *agent, struct judged *judged)
{
    const uint32_t steps = r->begin[r->episodes];
    *judged = (struct judged){.S = r->S, .A = r->A, .agent = agent, .low = r->low, .high = r->high};
    for (uint32_t k = 0; k < r->A; k++) {
        const double half = 0.5 * (double)(r->high[k] - r->low[k]);
        struct aw_running seen = {0};
        for (size_t i = 0; i < steps; i++)
            aw_running_push(&seen, (double)r->action[i * r->A + k]);
        const double spread = SPREAD * fmax(aw_running_std(&seen), half * SPREAD_MIN / SPREAD);
        judged->constant[k] = (float)(seen.mean + spread * aw_rng_normal(&r->rng));
        judged->offset[k] = (float)(spread * aw_rng_normal(&r->rng));
    }
}

static enum aw_err measure_truth(struct record *r, uint32_t index, struct judged *judged,
                                 struct aw__ope_outcome *ret, struct aw_diag *diag)
{
    struct aw_running returns = {0};
    for (uint32_t e = 0; e < r->config->truth_episodes; e++) {
        struct aw_step step = {0};
        float obs[OBS_MAX], action[ACT_MAX];
        double sum = 0;
        enum aw_err err = r->env.ops->reset(
            r->env.self, TRUTH_SEED + (uint64_t)index * r->config->truth_episodes + e, obs);
        while (!err && !step.terminated && !step.truncated) {
            err = judged_act(judged, obs, 1, action);
            if (!err)
                err = r->env.ops->step(r->env.self, action, obs, &step);
            sum += (double)step.reward;
        }
        if (err)
            return aw_fail(diag, err, "%s failed: %s", r->env.spec->name, aw_err_text(err));
        aw_running_push(&returns, sum);
    }
    ret->truth = returns.mean;
    ret->truth_error = aw_running_std(&returns) / sqrt((double)returns.count);
    return AW_OK;
}

enum aw_err aw__ope_case(const struct aw__ope_config *config, uint32_t index,
                         struct aw__ope_outcome ret[AW__OPE_POLICIES], struct aw_diag *diag)
{
    struct record *r = aw_alloc_new(NULL, 1, sizeof *r);
    struct aw_agent agent = {0};
    struct aw_ope *ope = NULL;
    struct judged judged;
    double returns[EPISODES_MAX];
    enum aw_err err = AW_OK;
    if (!r)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a record");
    if ((err = record_open(r, config, index, diag)) || (err = record_fill(r, index, diag)) ||
        (err = bcq_train(r, config->bcq_updates, config->seed + index, &agent, diag)))
        goto out;
    const struct aw_ope_shape shape = {r->S, r->A, EPISODES_MAX * STEPS_MAX, EPISODES_MAX};
    if ((err = aw_ope_new(&shape, &config->ope, NULL, &ope, diag)))
        goto out;
    for (uint32_t e = 0; e < r->episodes; e++) {
        returns[e] = 0;
        for (uint32_t i = r->begin[e]; i < r->begin[e + 1]; i++)
            returns[e] += (double)r->reward[i];
    }
    const struct aw_logged logged = {.obs_dim = r->S,
                                     .act_dim = r->A,
                                     .episode_count = r->episodes,
                                     .episode_begin = r->begin,
                                     .obs = r->obs,
                                     .action = r->action,
                                     .reward = r->reward,
                                     .next_obs = r->next_obs,
                                     .act_low = r->low,
                                     .act_high = r->high};
    judged_draw(r, &agent, &judged);
    for (uint32_t k = 0; !err && k < AW__OPE_POLICIES; k++) {
        const struct aw_logged_policy policy = {.act = judged_act, .ctx = &judged};
        judged.kind = k;
        if ((err = measure_truth(r, index, &judged, &ret[k], diag)))
            break;
        judged.seconds = 0;
        double begin = cpu_seconds();
        err = aw_ope_estimate(ope, &logged, &policy, r->episode_steps, config->level, OPE_SEED,
                              &ret[k].estimate, diag);
        ret[k].seconds = cpu_seconds() - begin;
        ret[k].policy_seconds = judged.seconds;
        ret[k].noise = r->noise;
        ret[k].episodes = r->episodes;
        ret[k].paper = r->paper;
        ret[k].vpa = r->vpa;
        ret[k].record_std = aw_stats_std(returns, r->episodes);
    }
out:
    aw_ope_free(ope);
    aw_agent_free(&agent);
    record_close(r);
    aw_alloc_free(NULL, r);
    return err;
}
