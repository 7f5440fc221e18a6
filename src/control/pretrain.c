/* pretrain.c - episodes of many applications, and one policy that learns from all of them. */
#include "control/pretrain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cma.h"
#include "env/autoscale.h"

#define NOISE_STREAM 7u
#define SEED_CHECK   UINT64_C(0x636865636b) /* episodes of a check are the same in every check */

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
    config->refresh = true;
    config->rounds = 60;
    config->updates = 4;
    config->check_every = 5;
    config->check_episodes = 2;
    config->teacher_tries = 160;
    config->teacher_episodes = 4;
    config->noise = 0.3;
    config->noise_end = 0.05;
    config->noise_jitter = 0.25;
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
            else if (p->act_dim > AW_PRETRAIN_ACTIONS_MAX)
                err = aw_fail(diag, AW_ERR_UNSUPPORTED, "%s has %u actions, at most %u can be",
                              config->env, p->act_dim, AW_PRETRAIN_ACTIONS_MAX);
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
        if (!err && config->model)
            err = aw_context_load(p->context, config->model, diag);
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

enum who { WHO_FALLBACK, WHO_POLICY, WHO_CONSTANT };

struct life {
    enum who who;
    const float *constant; /* its action */
    double noise;
    double *learned; /* sum of what is learned from; may be NULL */
    bool push;       /* its transitions are learned from */
    bool join;       /* the application is known by it from now on */
    uint64_t seed;
};

static uint64_t seed_of(const struct aw_pretrain *p, uint32_t i, uint64_t episode)
{
    uint32_t app;
    const struct aw_pretrain_pool *pool = pool_of(p, i, &app);
    uint64_t h = (p->config.seed * 31 + pool->seed) * 0x9e3779b97f4a7c15u;
    h = (h ^ (app + UINT64_C(1))) * 0xbf58476d1ce4e5b9u;
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

/* How far an episode strays from the policy. Most of it holds for the whole episode: a size that
 * changes at every step restarts replicas all the time, and shows nothing but that. */
struct offset {
    double value[AW_PRETRAIN_ACTIONS_MAX];
};

static void explore(const struct aw_pretrain *p, const struct life *life,
                    const struct offset *offset, struct aw_rng *rng, float *action)
{
    const double jitter = p->config.noise_jitter;
    for (uint32_t k = 0; life->noise > 0 && k < p->act_dim; k++) {
        const double stray =
            sqrt(1 - jitter * jitter) * offset->value[k] + jitter * aw_rng_normal(rng);
        action[k] = (float)fmin(1, fmax(-1, (double)action[k] + life->noise * stray));
    }
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
    struct aw_rng rng;
    struct offset offset;
    aw_rng_init(&rng, life->seed, NOISE_STREAM);
    for (uint32_t k = 0; k < p->act_dim; k++)
        offset.value[k] = aw_rng_normal(&rng);
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
            if (life->who == WHO_CONSTANT)
                memcpy(action, life->constant, p->act_dim * sizeof *action);
            else
                err = aw_context_act(p->context, i, obs, 0, action);
            explore(p, life, &offset, &rng, action);
            err = err ? err : env->ops->step(env->self, action, p->next, &step);
        }
        if (err)
            break;
        const double reward = (double)step.reward;
        const double missed = aw_autoscale_info(env)->measured.violated ? p->config.reward_miss : 0;
        task->reward[t] =
            (float)((reward - missed + p->config.reward_shift) * p->config.reward_scale);
        add_step(task, &sum, reward);
        if (life->learned)
            *life->learned += (double)task->reward[t];
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

void aw_pretrain_score_add(struct aw_pretrain_score *mean, const struct aw_pretrain_score *score,
                           double share)
{
    mean->reward += share * score->reward;
    mean->paper += share * score->paper;
    mean->violations += share * score->violations;
    mean->cost += share * score->cost;
    mean->cpu += share * score->cpu;
    mean->memory += share * score->memory;
}

/* --- a teacher ---------------------------------------------------------------------------- */

#define TEACHER_DRAWS 10u
#define SEED_TEACHER  UINT64_C(0x7465616368)

static enum aw_err constant_value(struct aw_pretrain *p, uint32_t i, const double *x,
                                  double *ret_value, struct aw_diag *diag)
{
    float action[AW_PRETRAIN_ACTIONS_MAX];
    double sum = 0;
    for (uint32_t k = 0; k < p->act_dim; k++)
        action[k] = (float)(2 * x[k] - 1);
    for (uint32_t e = 0; e < p->config.teacher_episodes; e++) {
        const struct life life = {.who = WHO_CONSTANT,
                                  .constant = action,
                                  .learned = &sum,
                                  .seed = seed_of(p, i, e) ^ SEED_TEACHER};
        struct aw_pretrain_score score;
        const enum aw_err err = live(p, i, &life, &score, diag);
        if (err)
            return err;
    }
    *ret_value = -sum;
    return AW_OK;
}

/* The best constant action of an application, by CMA-ES. */
static enum aw_err teacher_find(struct aw_pretrain *p, uint32_t i, struct aw_diag *diag)
{
    struct aw_cma cma;
    double start[AW_PRETRAIN_ACTIONS_MAX];
    float action[AW_PRETRAIN_ACTIONS_MAX];
    for (uint32_t k = 0; k < p->act_dim; k++)
        start[k] = 0.5;
    aw_cma_init(&cma, p->act_dim, start, 0.3, TEACHER_DRAWS, seed_of(p, i, 0) ^ SEED_TEACHER);
    for (uint32_t tries = 0; tries < p->config.teacher_tries; tries += TEACHER_DRAWS) {
        double value[TEACHER_DRAWS];
        aw_cma_ask(&cma);
        for (uint32_t d = 0; d < TEACHER_DRAWS; d++) {
            const enum aw_err err = constant_value(p, i, cma.x[d], &value[d], diag);
            if (err)
                return err;
        }
        aw_cma_tell(&cma, value);
    }
    for (uint32_t k = 0; k < p->act_dim; k++)
        action[k] = (float)(2 * cma.best[k] - 1);
    aw_context_teach(p->context, i, action);
    return AW_OK;
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* An episode of the fallback's, by which an application is known. */
static enum aw_err look(struct aw_pretrain *p, uint32_t i, struct aw_diag *diag)
{
    const struct life life = {.who = WHO_FALLBACK,
                              .join = true,
                              .push = i < p->config.learn.count,
                              .seed = seed_of(p, i, p->task[i].episodes++)};
    struct aw_pretrain_score score;
    return live(p, i, &life, &score, diag);
}

/* The fallback's episodes of everybody: what they are known by. */
static enum aw_err meet(struct aw_pretrain *p, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < p->count; i++)
        for (uint32_t e = 0; !err && e < p->config.fallback_episodes; e++)
            err = look(p, i, diag);
    for (uint32_t i = 0; !err && p->config.teacher_tries && i < p->config.learn.count; i++)
        err = teacher_find(p, i, diag);
    if (!err && !p->config.model)
        aw_context_normalise(p->context);
    return err;
}

/* Once, before anything else: who is met is known. */
static enum aw_err met(struct aw_pretrain *p, struct aw_diag *diag)
{
    return p->task[0].episodes == 0 ? meet(p, diag) : AW_OK;
}

enum aw_err aw_pretrain_round(struct aw_pretrain *p, struct aw_pretrain_score *ret_learned,
                              struct aw_diag *diag)
{
    const struct aw_pretrain_config *config = &p->config;
    struct aw_pretrain_score mean = {0};
    enum aw_err err = met(p, diag);
    const uint32_t fade = config->noise_rounds ? config->noise_rounds : config->rounds;
    const double far = fade > 1 ? (double)p->rounds / (fade - 1) : 1;
    const double noise = config->noise + (config->noise_end - config->noise) * fmin(1, far);
    aw_context_freeze(p->context, config->model != NULL, p->rounds < config->actor_rests);
    for (uint32_t i = 0; !err && i < config->learn.count; i++) {
        const struct life life = {.who = WHO_POLICY,
                                  .noise = noise,
                                  .push = true,
                                  .join = config->own_episodes,
                                  .seed = seed_of(p, i, p->task[i].episodes++)};
        struct aw_pretrain_score score;
        if (config->refresh)
            err = look(p, i, diag);
        err = err ? err : live(p, i, &life, &score, diag);
        if (err)
            break;
        aw_pretrain_score_add(&mean, &score, 1.0 / config->learn.count);
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

/* Episodes of a check are the same whoever acts and whenever. */
static enum aw_err judge(struct aw_pretrain *p, uint32_t i, enum who who, const float *constant,
                         struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    const uint32_t episodes = p->config.check_episodes;
    struct aw_pretrain_score own = {0};
    enum aw_err err = met(p, diag);
    for (uint32_t e = 0; !err && e < episodes; e++) {
        const struct life life = {
            .who = who, .constant = constant, .seed = seed_of(p, i, e) ^ SEED_CHECK};
        struct aw_pretrain_score score;
        err = live(p, i, &life, &score, diag);
        if (!err)
            aw_pretrain_score_add(&own, &score, 1.0 / episodes);
    }
    if (!err)
        *ret = own;
    return err;
}

static enum aw_err check(struct aw_pretrain *p, enum who who, struct aw_pretrain_score *ret_mean,
                         struct aw_pretrain_score *each, struct aw_diag *diag)
{
    const uint32_t count = p->config.check.count;
    struct aw_pretrain_score mean = {0};
    for (uint32_t k = 0; k < count; k++) {
        struct aw_pretrain_score own;
        const enum aw_err err = judge(p, p->config.learn.count + k, who, NULL, &own, diag);
        if (err)
            return err;
        aw_pretrain_score_add(&mean, &own, 1.0 / count);
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

enum aw_err aw_pretrain_try(struct aw_pretrain *p, uint32_t app, struct aw_pretrain_score *ret,
                            struct aw_diag *diag)
{
    AW_ASSERT(app < p->config.learn.count);
    return judge(p, app, WHO_POLICY, NULL, ret, diag);
}

enum aw_err aw_pretrain_try_fallback(struct aw_pretrain *p, uint32_t app,
                                     struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    AW_ASSERT(app < p->config.learn.count);
    return judge(p, app, WHO_FALLBACK, NULL, ret, diag);
}

enum aw_err aw_pretrain_try_constant(struct aw_pretrain *p, uint32_t app, const float *action,
                                     struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    AW_ASSERT(app < p->config.learn.count);
    return judge(p, app, WHO_CONSTANT, action, ret, diag);
}
