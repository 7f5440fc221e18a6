/* pretrain_episode.c - an episode of an application, whoever acts, and the search for a teacher. */
#include "pretrain/pretrain_internal.h"

#include <math.h>
#include <string.h>

#include "base/cma.h"
#include "env/autoscale.h"
#include "pretrain/slo_boost.h"

#define NOISE_STREAM 7u

/* --- an episode ------------------------------------------------------------------------------- */

uint64_t aw__pretrain_seed(const struct aw_pretrain *p, uint32_t i, uint64_t episode)
{
    uint32_t app;
    const struct aw_pretrain_pool *pool = aw__pretrain_pool(p, i, &app);
    uint64_t h = (p->config.seed * 31 + pool->seed) * 0x9e3779b97f4a7c15u;
    h = (h ^ (app + UINT64_C(1))) * 0xbf58476d1ce4e5b9u;
    return (h ^ (episode + 1)) * 0x94d049bb133111ebu;
}

/* A fallback made for how this episode begins. */
static enum aw_err fallback_begin(struct aw_pretrain *p, struct aw__pretrain_task *task,
                                  struct aw_diag *diag)
{
    const struct aw_sample *sample = aw_autoscale_sample(&task->env);
    const struct aw_autoscale_info *info = aw_autoscale_info(&task->env);
    struct aw_fallback_task start = {.bounds = *aw_autoscale_bounds(&task->env),
                                     .slo_latency_us = info->slo_us};
    memcpy(start.amount, sample->wanted, sizeof start.amount);
    aw_fallback_free(task->fallback);
    task->fallback = NULL;
    return aw_fallback_new(&p->config.fallback, &start, p->alloc, &task->fallback, diag);
}

static void add_step(const struct aw__pretrain_task *task, struct aw_pretrain_score *sum,
                     double reward)
{
    const struct aw_autoscale_info *info = aw_autoscale_info(&task->env);
    sum->reward += reward;
    sum->paper += info->truth.paper_reward;
    sum->violations += info->truth.violated;
    sum->cost += info->truth.cost;
    sum->cpu += info->truth.cpu_utilisation;
    sum->memory += info->truth.memory_utilisation;
}

/* What the step that has ended says of the load and the allocation, and what follows from it. */
static void foresee(const struct aw_pretrain *p, const struct aw__pretrain_task *task,
                    struct aw_load_forecast *foresight, bool first, float *obs)
{
    if (!p->config.foresight)
        return;
    const struct aw_autoscale_info *info = aw_autoscale_info(&task->env);
    const double step_s = aw_autoscale_settings(&task->env)->step_s;
    if (!first)
        aw_load_forecast_see(foresight, info->arrivals / step_s, info->core_s / step_s,
                             info->measured.sp);
    aw_load_forecast_features(foresight, obs + p->env_dim);
}

/* How far an episode strays from the policy. Most of it holds for the whole episode: a size that
 * changes at every step restarts replicas all the time, and shows nothing but that. */
struct offset {
    double value[AW_PRETRAIN_ACTIONS_MAX];
};

static void explore(const struct aw_pretrain *p, const struct aw__pretrain_life *life,
                    const struct offset *offset, struct aw_rng *rng, float *action)
{
    const double jitter = p->config.noise_jitter;
    for (uint32_t k = 0; life->noise > 0 && k < p->act_dim; k++) {
        const double stray =
            sqrt(1 - jitter * jitter) * offset->value[k] + jitter * aw_rng_normal(rng);
        action[k] = (float)fmin(1, fmax(-1, (double)action[k] + life->noise * stray));
    }
}

enum aw_err aw__pretrain_live(struct aw_pretrain *p, uint32_t i, uint32_t worker,
                              const struct aw__pretrain_life *life, struct aw_pretrain_score *ret,
                              struct aw_diag *diag)
{
    struct aw__pretrain_task *task = &p->task[i];
    const struct aw_env *env = &task->env;
    float *next = p->worker[worker].next;
    struct aw_pretrain_score sum = {0};
    enum aw_err err = env->ops->reset(env->self, life->seed, task->obs);
    if (!err && life->who == AW__WHO_FALLBACK)
        err = fallback_begin(p, task, diag);
    struct aw_load_forecast foresight = task->foresight; /* judging teaches nothing */
    aw_load_forecast_begin(&foresight);
    foresee(p, task, &foresight, true, task->obs);
    struct aw_rng rng;
    struct offset offset;
    aw_rng_init(&rng, life->seed, NOISE_STREAM);
    for (uint32_t k = 0; k < p->act_dim; k++)
        offset.value[k] = aw_rng_normal(&rng);
    struct aw_slo_boost trim;
    aw_slo_boost_begin(&trim);
    uint32_t t = 0;
    for (bool over = false; !err && !over && t < p->steps; t++) {
        float *obs = task->obs + (size_t)t * p->obs_dim;
        float *action = task->action + (size_t)t * p->act_dim;
        struct aw_step step;
        if (life->who == AW__WHO_FALLBACK) {
            const struct aw_sample *sample = aw_autoscale_sample(env);
            struct aw_plan plan;
            aw_fallback_decide(task->fallback, sample, sample->at_us, &plan, NULL);
            err = aw_autoscale_step_plan(env, &plan, next, &step, action);
        } else {
            if (life->who == AW__WHO_CONSTANT)
                memcpy(action, life->constant, p->act_dim * sizeof *action);
            else if (life->as)
                err = aw_context_reader_act_as(p->context, p->worker[worker].reader, life->as, obs,
                                               action);
            else
                err = aw_context_reader_act(p->context, p->worker[worker].reader, i, obs, action);
            explore(p, life, &offset, &rng, action);
            if (p->config.slo_boost && life->who == AW__WHO_POLICY)
                aw_slo_boost_apply(&trim, action);
            err = err ? err : env->ops->step(env->self, action, next, &step);
        }
        if (err)
            break;
        foresee(p, task, &foresight, false, next);
        const double reward = (double)step.reward;
        const bool violated = aw_autoscale_info(env)->measured.violated;
        const double missed = violated ? p->config.reward_miss : 0;
        aw_slo_boost_see(&trim, violated);
        if (p->config.oom_boost && aw_autoscale_info(env)->oom_kills > 0)
            aw_slo_boost_killed(&trim);
        task->reward[t] =
            (float)((reward - missed + p->config.reward_shift) * p->config.reward_scale);
        add_step(task, &sum, reward);
        if (life->learned)
            *life->learned += (double)task->reward[t];
        if (life->push)
            err =
                aw_context_push(p->context, i, obs, action, task->reward[t], next, step.terminated);
        over = step.terminated || step.truncated;
        if (!over && t + 1 < p->steps)
            memcpy(obs + p->obs_dim, next, p->obs_dim * sizeof *obs);
    }
    if (err)
        return aw_fail(diag, err, "application %u: an episode broke off", i);
    if (life->push)
        task->foresight = foresight;
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

static enum aw_err constant_value(struct aw_pretrain *p, uint32_t i, uint32_t worker,
                                  const double *x, double *ret_value, struct aw_diag *diag)
{
    float action[AW_PRETRAIN_ACTIONS_MAX];
    double sum = 0;
    for (uint32_t k = 0; k < p->act_dim; k++)
        action[k] = (float)(2 * x[k] - 1);
    for (uint32_t e = 0; e < p->config.teacher_episodes; e++) {
        const struct aw__pretrain_life life = {.who = AW__WHO_CONSTANT,
                                               .constant = action,
                                               .learned = &sum,
                                               .seed = aw__pretrain_seed(p, i, e) ^ SEED_TEACHER};
        struct aw_pretrain_score score;
        const enum aw_err err = aw__pretrain_live(p, i, worker, &life, &score, diag);
        if (err)
            return err;
    }
    *ret_value = -sum;
    return AW_OK;
}

/* By CMA-ES (base/cma.h). */
enum aw_err aw__pretrain_teach(struct aw_pretrain *p, uint32_t i, uint32_t worker,
                               struct aw_diag *diag)
{
    struct aw_cma cma;
    double start[AW_PRETRAIN_ACTIONS_MAX];
    float action[AW_PRETRAIN_ACTIONS_MAX];
    for (uint32_t k = 0; k < p->act_dim; k++)
        start[k] = 0.5;
    aw_cma_init(&cma, p->act_dim, start, 0.3, TEACHER_DRAWS,
                aw__pretrain_seed(p, i, 0) ^ SEED_TEACHER);
    for (uint32_t tries = 0; tries < p->config.teacher_tries; tries += TEACHER_DRAWS) {
        double value[TEACHER_DRAWS];
        aw_cma_ask(&cma);
        for (uint32_t d = 0; d < TEACHER_DRAWS; d++) {
            const enum aw_err err = constant_value(p, i, worker, cma.x[d], &value[d], diag);
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

struct aw_pretrain_episodes aw_pretrain_episodes(const struct aw_pretrain_config *config)
{
    const double learn = config->learn.count, check = config->check.count;
    const uint32_t draws =
        (config->teacher_tries + TEACHER_DRAWS - 1) / TEACHER_DRAWS * TEACHER_DRAWS;
    const uint32_t checks = (config->rounds + config->check_every - 1) / config->check_every;
    return (struct aw_pretrain_episodes){
        .policy = learn * config->rounds,
        .fallback = learn * (config->fallback_episodes + (config->refresh ? config->rounds : 0)) +
                    check * config->fallback_episodes,
        .search = learn * draws * config->teacher_episodes,
        .checks = check * checks * config->check_episodes,
    };
}

enum aw_err aw__pretrain_look(struct aw_pretrain *p, uint32_t i, uint32_t worker, bool learned,
                              struct aw_diag *diag)
{
    const struct aw__pretrain_life life = {.who = AW__WHO_FALLBACK,
                                           .join = true,
                                           .push = learned && i < p->learn,
                                           .seed = aw__pretrain_seed(p, i, p->task[i].episodes++)};
    struct aw_pretrain_score score;
    return aw__pretrain_live(p, i, worker, &life, &score, diag);
}
