/* pretrain.c - episodes of many applications, and one policy that learns from all of them. */
#include "control/pretrain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "env/autoscale.h"

#define SEED_CHECK UINT64_C(0x636865636b) /* episodes of a check are the same in every check */

/* One application: its environment, the fallback beside it, and the episode under way. */
struct task {
    struct aw_env env;
    struct aw_policy *fallback;
    float *obs, *action, *reward; /* of one episode */
    uint64_t episodes;
};

struct aw_pretrain {
    struct aw_pretrain_config config;
    struct aw_context *context;
    struct task *task; /* [learn.count + check.count] */
    uint32_t count;
    uint32_t obs_dim, act_dim, steps;
    uint32_t rounds;
    float *next;
    const struct aw_alloc *alloc;
};

void aw_pretrain_config_init(struct aw_pretrain_config *config)
{
    memset(config, 0, sizeof *config);
    aw_conf_defaults(aw_context_fields, &config->context);
    aw_conf_defaults(aw_policy_fields, &config->fallback);
    config->fallback.kind = AW_POLICY_HPA_VPA_MEM;
    snprintf(config->env, sizeof config->env, "autoscale-v0");
    config->fallback_episodes = 3;
    config->rounds = 60;
    config->updates = 4;
    config->check_every = 5;
    config->check_episodes = 2;
    config->noise = 0.3;
    config->noise_end = 0.05;
    config->reward_scale = 0.1;
    config->seed = 1;
}

/* --- made and ended --------------------------------------------------------------------------- */

static const struct aw_pretrain_pool *pool_of(const struct aw_pretrain *p, uint32_t i,
                                              uint32_t *ret_app)
{
    const bool learn = i < p->config.learn.count;
    const struct aw_pretrain_pool *pool = learn ? &p->config.learn : &p->config.check;
    *ret_app = pool->first + (learn ? i : i - p->config.learn.count);
    return pool;
}

static enum aw_err task_open(struct aw_pretrain *p, uint32_t i, struct aw_diag *diag)
{
    struct task *task = &p->task[i];
    const char *pairs[AW_PRETRAIN_PAIRS_MAX + 2];
    char app_pair[64], load_pair[AW_CONF_TEXT_MAX + 8], load[AW_CONF_TEXT_MAX];
    uint32_t app;
    const struct aw_pretrain_pool *pool = pool_of(p, i, &app);
    pool->load(pool->ctx, app, load, sizeof load);
    snprintf(app_pair, sizeof app_pair, "app=%" PRIu64 ":%" PRIu32, pool->seed, app);
    snprintf(load_pair, sizeof load_pair, "load=%s", load);
    memcpy(pairs, p->config.pairs, p->config.pair_count * sizeof *pairs);
    pairs[p->config.pair_count] = app_pair;
    pairs[p->config.pair_count + 1] = load_pair;
    return aw_env_make_with(p->config.env, pairs, p->config.pair_count + 2, p->alloc, &task->env,
                            diag);
}

static enum aw_err task_arrays(struct aw_pretrain *p, struct task *task)
{
    task->obs = aw_alloc_new(p->alloc, (size_t)p->steps * p->obs_dim, sizeof(float));
    task->action = aw_alloc_new(p->alloc, (size_t)p->steps * p->act_dim, sizeof(float));
    task->reward = aw_alloc_new(p->alloc, p->steps, sizeof(float));
    return task->obs && task->action && task->reward ? AW_OK : AW_ERR_NOMEM;
}

enum aw_err aw_pretrain_new(const struct aw_pretrain_config *config, const struct aw_alloc *alloc,
                            struct aw_pretrain **ret_pretrain, struct aw_diag *diag)
{
    const uint64_t count = (uint64_t)config->learn.count + config->check.count;
    if (config->learn.count == 0 || count > AW_PRETRAIN_APPS_MAX ||
        config->pair_count > AW_PRETRAIN_PAIRS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u applications, found %" PRIu64,
                       AW_PRETRAIN_APPS_MAX, count);
    struct aw_pretrain *p = aw_alloc_new(alloc, 1, sizeof *p);
    if (!p)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to pretrain");
    p->config = *config;
    p->alloc = alloc;
    p->count = (uint32_t)count;
    enum aw_err err = AW_OK;
    if (!(p->task = aw_alloc_new(alloc, p->count, sizeof *p->task)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u applications", p->count);
    for (uint32_t i = 0; !err && i < p->count; i++) {
        err = task_open(p, i, diag);
        if (!err && i == 0) {
            const struct aw_env_spec *spec = p->task[0].env.spec;
            p->obs_dim = spec->observation.dim;
            p->act_dim = spec->action.dim;
            p->steps = spec->episode_steps_max;
            if (!aw_autoscale_settings(&p->task[0].env))
                err = aw_fail(diag, AW_ERR_UNSUPPORTED, "%s has no fallback to begin with",
                              config->env);
        }
        if (!err && (err = task_arrays(p, &p->task[i])))
            aw_fail(diag, err, "no memory for %u applications", p->count);
    }
    if (!err && !(p->next = aw_alloc_new(alloc, p->obs_dim, sizeof *p->next)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory to pretrain");
    if (!err) {
        struct aw_context_config context;
        aw_context_config_init(&context);
        context.settings = config->context;
        context.obs_dim = p->obs_dim;
        context.act_dim = p->act_dim;
        context.steps = p->steps;
        context.workloads = p->count;
        context.seed = config->seed;
        err = aw_context_new(&context, alloc, &p->context, diag);
    }
    if (err) {
        aw_pretrain_free(p);
        return err;
    }
    *ret_pretrain = p;
    return AW_OK;
}

void aw_pretrain_free(struct aw_pretrain *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; p->task && i < p->count; i++) {
        struct task *task = &p->task[i];
        aw_env_free(&task->env);
        aw_policy_free(task->fallback);
        aw_alloc_free(p->alloc, task->obs);
        aw_alloc_free(p->alloc, task->action);
        aw_alloc_free(p->alloc, task->reward);
    }
    aw_context_free(p->context);
    aw_alloc_free(p->alloc, p->next);
    aw_alloc_free(p->alloc, p->task);
    aw_alloc_free(p->alloc, p);
}

struct aw_context *aw_pretrain_context(struct aw_pretrain *p)
{
    return p->context;
}

uint32_t aw_pretrain_rounds(const struct aw_pretrain *p)
{
    return p->rounds;
}

/* --- an episode ------------------------------------------------------------------------------- */

enum who { WHO_FALLBACK, WHO_POLICY };

struct life {
    enum who who;
    double noise;
    bool push; /* its transitions are learned from */
    bool join; /* the application is known by it from now on */
    uint64_t seed;
};

static uint64_t seed_of(const struct aw_pretrain *p, uint32_t i, uint64_t episode)
{
    uint64_t h = p->config.seed * 0x9e3779b97f4a7c15u;
    h = (h ^ (i + 1)) * 0xbf58476d1ce4e5b9u;
    return (h ^ (episode + 1)) * 0x94d049bb133111ebu;
}

/* A fallback made for how this episode begins. */
static enum aw_err fallback_begin(struct aw_pretrain *p, struct task *task, struct aw_diag *diag)
{
    const struct aw_sample *sample = aw_autoscale_sample(&task->env);
    const struct aw_autoscale_info *info = aw_autoscale_info(&task->env);
    const struct aw_policy_task start = {.bounds = *aw_autoscale_bounds(&task->env),
                                         .slo_latency_us = info->slo_us,
                                         .replicas = sample->replicas_wanted,
                                         .cpu_millicores = sample->cpu_millicores_wanted,
                                         .memory_bytes = sample->memory_bytes_wanted};
    aw_policy_free(task->fallback);
    task->fallback = NULL;
    return aw_policy_new(&p->config.fallback, &start, p->alloc, &task->fallback, diag);
}

static void add_step(const struct task *task, struct aw_pretrain_score *sum, double reward)
{
    const struct aw_autoscale_info *info = aw_autoscale_info(&task->env);
    sum->reward += reward;
    sum->paper += info->truth.paper_reward;
    sum->violations += info->truth.violated;
    sum->cost += info->truth.cost;
    sum->cpu += info->truth.cpu_utilisation;
    sum->memory += info->truth.memory_utilisation;
}

static enum aw_err live(struct aw_pretrain *p, uint32_t i, const struct life *life,
                        struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    struct task *task = &p->task[i];
    const struct aw_env *env = &task->env;
    struct aw_pretrain_score sum = {0};
    enum aw_err err = env->ops->reset(env->self, life->seed, task->obs);
    if (!err && life->who == WHO_FALLBACK)
        err = fallback_begin(p, task, diag);
    uint32_t t = 0;
    for (bool over = false; !err && !over && t < p->steps; t++) {
        float *obs = task->obs + (size_t)t * p->obs_dim;
        float *action = task->action + (size_t)t * p->act_dim;
        struct aw_step step;
        if (life->who == WHO_FALLBACK) {
            const struct aw_sample *sample = aw_autoscale_sample(env);
            struct aw_plan plan;
            aw_policy_decide(task->fallback, sample, sample->at_us, &plan, NULL);
            err = aw_autoscale_step_plan(env, &plan, p->next, &step, action);
        } else {
            err = aw_context_act(p->context, i, obs, life->noise, action);
            err = err ? err : env->ops->step(env->self, action, p->next, &step);
        }
        if (err)
            break;
        const double reward = (double)step.reward;
        task->reward[t] = (float)((reward + p->config.reward_shift) * p->config.reward_scale);
        add_step(task, &sum, reward);
        if (life->push)
            err = aw_context_push(p->context, i, obs, action, task->reward[t], p->next,
                                  step.terminated);
        over = step.terminated || step.truncated;
        if (!over && t + 1 < p->steps)
            memcpy(obs + p->obs_dim, p->next, p->obs_dim * sizeof *obs);
    }
    if (err)
        return aw_fail(diag, err, "application %u: an episode broke off", i);
    if (life->join)
        (void)aw_context_episode(p->context, i, task->obs, task->action, task->reward, t);
    const double step_s = aw_autoscale_settings(env)->step_s;
    *ret = (struct aw_pretrain_score){.reward = sum.reward,
                                      .paper = sum.paper,
                                      .violations = sum.violations / t,
                                      .cost = sum.cost / (t * step_s / 3600),
                                      .cpu = sum.cpu / t,
                                      .memory = sum.memory / t};
    return AW_OK;
}

static void mean_add(struct aw_pretrain_score *mean, const struct aw_pretrain_score *score,
                     double share)
{
    mean->reward += share * score->reward;
    mean->paper += share * score->paper;
    mean->violations += share * score->violations;
    mean->cost += share * score->cost;
    mean->cpu += share * score->cpu;
    mean->memory += share * score->memory;
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* The fallback's episodes of everybody: what they are known by. */
static enum aw_err meet(struct aw_pretrain *p, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < p->count; i++)
        for (uint32_t e = 0; !err && e < p->config.fallback_episodes; e++) {
            const struct life life = {.who = WHO_FALLBACK,
                                      .join = true,
                                      .push = i < p->config.learn.count,
                                      .seed = seed_of(p, i, p->task[i].episodes++)};
            struct aw_pretrain_score score;
            err = live(p, i, &life, &score, diag);
        }
    if (!err)
        aw_context_normalise(p->context);
    return err;
}

enum aw_err aw_pretrain_round(struct aw_pretrain *p, struct aw_pretrain_score *ret_learned,
                              struct aw_diag *diag)
{
    const struct aw_pretrain_config *config = &p->config;
    struct aw_pretrain_score mean = {0};
    enum aw_err err = AW_OK;
    if (p->rounds == 0 && p->task[0].episodes == 0)
        err = meet(p, diag);
    const double far = config->rounds > 1 ? (double)p->rounds / (config->rounds - 1) : 1;
    const double noise = config->noise + (config->noise_end - config->noise) * fmin(1, far);
    for (uint32_t i = 0; !err && i < config->learn.count; i++) {
        const struct life life = {.who = WHO_POLICY,
                                  .noise = noise,
                                  .push = true,
                                  .join = config->own_episodes,
                                  .seed = seed_of(p, i, p->task[i].episodes++)};
        struct aw_pretrain_score score;
        err = live(p, i, &life, &score, diag);
        if (err)
            break;
        mean_add(&mean, &score, 1.0 / config->learn.count);
        for (uint32_t u = 0; !err && u < config->updates; u++)
            if ((err = aw_context_learn(p->context, NULL)))
                aw_fail(diag, err, "learning broke off in round %u", p->rounds);
    }
    if (err)
        return err;
    p->rounds++;
    if (ret_learned)
        *ret_learned = mean;
    return AW_OK;
}

static enum aw_err check(struct aw_pretrain *p, enum who who, struct aw_pretrain_score *ret_mean,
                         struct aw_pretrain_score *each, struct aw_diag *diag)
{
    const struct aw_pretrain_config *config = &p->config;
    struct aw_pretrain_score mean = {0};
    if (p->rounds == 0 && p->task[0].episodes == 0) {
        const enum aw_err err = meet(p, diag);
        if (err)
            return err;
    }
    const double share = 1.0 / config->check_episodes;
    for (uint32_t k = 0; k < config->check.count; k++) {
        struct aw_pretrain_score own = {0};
        for (uint32_t e = 0; e < config->check_episodes; e++) {
            const struct life life = {.who = who, .seed = seed_of(p, k, e) ^ SEED_CHECK};
            struct aw_pretrain_score score;
            const enum aw_err err = live(p, config->learn.count + k, &life, &score, diag);
            if (err)
                return err;
            mean_add(&own, &score, share);
        }
        mean_add(&mean, &own, 1.0 / config->check.count);
        if (each)
            each[k] = own;
    }
    *ret_mean = mean;
    return AW_OK;
}

enum aw_err aw_pretrain_check(struct aw_pretrain *p, struct aw_pretrain_score *ret_mean,
                              struct aw_pretrain_score *each, struct aw_diag *diag)
{
    return check(p, WHO_POLICY, ret_mean, each, diag);
}

enum aw_err aw_pretrain_check_fallback(struct aw_pretrain *p, struct aw_pretrain_score *ret_mean,
                                       struct aw_pretrain_score *each, struct aw_diag *diag)
{
    return check(p, WHO_FALLBACK, ret_mean, each, diag);
}
