/* pretrain.c - episodes of many applications, and one policy that learns from all of them. */
#include "pretrain/pretrain_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "env/autoscale.h"

#define SEED_CHECK UINT64_C(0x636865636b) /* episodes of a check are the same in every check */
/* Applications that live an episode before what they met is learned from: enough to keep threads
 * busy, few enough for the policy to be a fresh one. */
#define STRIDE        32u
#define OFFSET_SPREAD 0.10 /* of the worth of a step, between one offset and another */
#define OFFSET_NOISE  0.04 /* of the mean over an episode */

#define AW_CONF_OF struct aw_pretrain_config
const struct aw_conf_field aw_pretrain_fields[] = {
    AW_CONF_NUMBER(fallback_episodes, "3", 1, 1000,
                   "episodes of the fallback by which an application is known"),
    AW_CONF_NUMBER(fallback_learned, "3", 0, 1000,
                   "so many of them, the last, are learned from too"),
    AW_CONF_PLAIN(refresh, "true", "the fallback lives one more in every round"),
    AW_CONF_NUMBER(rounds, "25", 1, 100000, "episodes of each application"),
    AW_CONF_NUMBER(updates, "2", 0, 10000, "updates per application and round"),
    AW_CONF_NUMBER(check_every, "5", 1, 100000, "rounds between checks"),
    AW_CONF_NUMBER(check_episodes, "2", 1, 1000, "episodes of a check, per application"),
    AW_CONF_NUMBER(noise, "0.15", 0, 2, "deviation of the noise on actions, in the first round"),
    AW_CONF_NUMBER(noise_end, "0.05", 0, 2, "and in the last"),
    AW_CONF_NUMBER(noise_rounds, "0", 0, 100000, "rounds until then; 0: all"),
    AW_CONF_NUMBER(noise_jitter, "0.25", 0, 1, "share of it that is drawn at each step"),
    AW_CONF_NUMBER(reward_shift, "-1", -100, 100, "added to a step's reward .."),
    AW_CONF_NUMBER(reward_scale, "0.1", 1e-6, 100, ".. and then multiplied by this"),
    AW_CONF_NUMBER(reward_miss, "1", 0, 100, "taken from the reward of a step that missed its SLO"),
    AW_CONF_NUMBER(teacher_tries, "160", 0, 100000,
                   "tries of the search for a teacher; 0: no teacher"),
    AW_CONF_NUMBER(teacher_episodes, "4", 1, 1000, "episodes of a try"),
    AW_CONF_PLAIN(own_episodes, "false",
                  "the policy's own episodes join those by which an application is known"),
    AW_CONF_PLAIN(foresight, "false",
                  "the state has a forecast of the load and a table's word besides"),
    AW_CONF_PLAIN_AS("trim", slo_boost, "false",
                     "what a policy asks for is raised while the SLO is missed .."),
    AW_CONF_PLAIN_AS("bump", oom_boost, "false",
                     ".. and memory after replicas were killed for want of it"),
    AW_CONF_NUMBER(actor_rests, "0", 0, 100000, "rounds before the actor learns"),
    AW_CONF_NUMBER_AS(
        "lean", offset_search, "0", 0, 2,
        "how far at a time what is added to a loaded actor's actions is sought; 0: it learns"),
    AW_CONF_NUMBER(fade, "0", 0, 1, "share of the rounds, the last, in which rates fall to 0"),
    {0},
};

void aw_pretrain_config_init(struct aw_pretrain_config *config)
{
    memset(config, 0, sizeof *config);
    aw_conf_defaults(aw_context_fields, &config->context);
    aw_conf_defaults(aw_fallback_fields, &config->fallback);
    aw_conf_defaults(aw_pretrain_fields, config);
    config->fallback.kind = AW_FALLBACK_HPA_VPA_MEM;
    snprintf(config->env, sizeof config->env, "autoscale-v0");
    config->seed = 1;
}

void aw_pretrain_config_paper(struct aw_pretrain_config *config)
{
    aw_context_paper(&config->context);
    /* the best 20 tell what a workload is like; learned from, so many of somebody else's would
     * crowd out one's own: 200 episodes then led to 135.0 instead of 136.2 (forty for validation)
     */
    config->fallback_episodes = config->context.episodes;
    /* an episode through a GRU of 256 is some 2 GFLOP there and back: of four workloads one each,
     * which led to 135.0 in twelve rounds, and five each to 131.9 in ten that took longer */
    config->context.reads = 4;
    config->context.thin = config->context.episodes;
    config->rounds = 12;
    /* where sizes are absolute, who comes a little too near to what memory takes loses all its
     * replicas: critics know of that too late, and lead a good policy astray. Teachers alone led to
     * 139.5 instead of 135.0 on forty applications for validation, before their first episode (a
     * pooling encoder, ten rounds); layers of 64 to 135.6 */
    config->context.improve = 0;
    config->context.hidden = 128;
    config->slo_boost = true;
    config->fade = 0.5;
    /* what VPA's updater, which resizes for AWARE, leaves alone */
    AW_ASSERT(config->pair_count < AW_MODEL_CARD_PAIRS_MAX);
    config->pairs[config->pair_count++] = "deadband=0.1";
    snprintf(config->env, sizeof config->env, AW_PRETRAIN_ENV_PAPER);
}

/* --- made and ended --------------------------------------------------------------------------- */

const struct aw_pretrain_pool *aw__pretrain_pool(const struct aw_pretrain *p, uint32_t i,
                                                 uint32_t *ret_app)
{
    const bool learn = i < p->learn;
    const struct aw_pretrain_pool *pool = learn ? &p->config.learn : &p->config.check;
    *ret_app = pool->first + (learn ? i * p->config.team.size + p->config.team.rank : i - p->learn);
    return pool;
}

static enum aw_err task_open(struct aw_pretrain *p, uint32_t i, uint32_t worker, const void *ctx,
                             struct aw_diag *diag)
{
    (void)worker;
    (void)ctx;
    struct aw__pretrain_task *task = &p->task[i];
    const char *pairs[AW_MODEL_CARD_PAIRS_MAX + 2];
    char app_pair[64], load_pair[AW_CONF_TEXT_MAX + 8] = "load=", *text = load_pair + 5;
    uint32_t app, count = p->config.pair_count;
    const struct aw_pretrain_pool *pool = aw__pretrain_pool(p, i, &app);
    struct aw_load load = {0};
    enum aw_err err = AW_OK;
    const struct aw_app *of_file = pool->apps ? &pool->apps[app] : NULL;
    snprintf(app_pair, sizeof app_pair, "app=%" PRIu64 ":%" PRIu32, pool->seed, app);
    memcpy(pairs, p->config.pairs, count * sizeof *pairs);
    if (!of_file)
        pairs[count++] = app_pair;
    if (p->config.load_make) {
        err = p->config.load_make(pool->ctx, app, p->alloc, &load, diag);
        if (!err)
            task->load = aw_hash_bytes(AW_HASH_BEGIN, load.rate_per_s,
                                       load.slot_count * sizeof *load.rate_per_s);
    } else {
        pool->load(pool->ctx, app, text, AW_CONF_TEXT_MAX);
        pairs[count++] = load_pair;
        task->load = aw_hash_bytes(AW_HASH_BEGIN, text, strlen(text));
    }
    if (!err && (of_file || p->config.load_make))
        err = aw_autoscale_make(p->config.env, pairs, count, of_file,
                                p->config.load_make ? &load : NULL, p->alloc, &task->env, diag);
    else if (!err)
        err = aw_env_make_with(p->config.env, pairs, count, p->alloc, &task->env, diag);
    aw_load_deinit(&load);
    return err;
}

static enum aw_err task_arrays(struct aw_pretrain *p, struct aw__pretrain_task *task)
{
    aw_load_forecast_init(&task->foresight);
    task->obs = aw_alloc_new(p->alloc, (size_t)p->steps * p->obs_dim, sizeof(float));
    task->action = aw_alloc_new(p->alloc, (size_t)p->steps * p->act_dim, sizeof(float));
    task->reward = aw_alloc_new(p->alloc, p->steps, sizeof(float));
    return task->obs && task->action && task->reward ? AW_OK : AW_ERR_NOMEM;
}

static enum aw_err shape_take(struct aw_pretrain *p, struct aw_diag *diag)
{
    const struct aw_env_spec *spec = p->task[0].env.spec;
    p->env_dim = spec->observation.dim;
    p->obs_dim = p->env_dim + (p->config.foresight ? AW_LOAD_FORECAST_FEATURES : 0);
    p->act_dim = spec->action.dim;
    p->steps = spec->episode_steps_max;
    if (!aw_autoscale_settings(&p->task[0].env))
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "%s has no fallback to begin with", p->config.env);
    if (p->act_dim > AW_PRETRAIN_ACTIONS_MAX)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "%s has %u actions, at most %u can be",
                       p->config.env, p->act_dim, AW_PRETRAIN_ACTIONS_MAX);
    return AW_OK;
}

static enum aw_err context_make(struct aw_pretrain *p, struct aw_diag *diag)
{
    const struct aw_pretrain_team *team = &p->config.team;
    struct aw_context_config context;
    aw_context_config_init(&context);
    context.settings = p->config.context;
    context.obs_dim = p->obs_dim;
    context.act_dim = p->act_dim;
    context.steps = p->steps;
    context.workloads = p->count;
    context.seed = p->config.seed;
    enum aw_err err = aw_context_new(&context, p->alloc, &p->context, diag);
    if (!err && p->config.model)
        err = aw_context_load(p->context, p->config.model, diag);
    if (!err && p->config.model && p->config.offset_search > 0) {
        const struct aw_bayes_opt_config seek = {p->act_dim, p->config.seed,
                                                 p->config.offset_search, OFFSET_SPREAD * p->steps,
                                                 OFFSET_NOISE * p->steps};
        if ((err = aw_bayes_opt_init(&p->offsets, &seek, p->alloc)))
            aw_fail(diag, err, "no memory to search for offsets");
    }
    if (!err && team->size > 1) {
        aw_context_together(p->context, team->reduce, team->ctx);
        aw_context_reseed(p->context, UINT64_C(1) + team->rank);
    }
    return err;
}

static enum aw_err threads_make(struct aw_pretrain *p, struct aw_diag *diag)
{
    const enum aw_err err = aw_threads_init(&p->threads, p->config.threads, p->alloc);
    if (err)
        return aw_fail(diag, err, "%u threads cannot be had", p->config.threads);
    p->worker = aw_alloc_new(p->alloc, p->threads.count, sizeof *p->worker);
    return p->worker ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for threads");
}

static enum aw_err workers_make(struct aw_pretrain *p, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < p->threads.count; i++) {
        err = aw_context_reader_new(p->context, &p->worker[i].reader);
        if (!err && !(p->worker[i].next = aw_alloc_new(p->alloc, p->obs_dim, sizeof(float))))
            err = AW_ERR_NOMEM;
    }
    return err ? aw_fail(diag, err, "no memory for %u threads", p->threads.count) : AW_OK;
}

/* --- side by side ----------------------------------------------------------------------------- */

struct loop {
    struct aw_pretrain *p;
    uint32_t first;
    aw__pretrain_turn *turn;
    const void *ctx;
};

static void loop_turn(void *ctx, uint32_t index, uint32_t worker)
{
    const struct loop *loop = ctx;
    struct aw__pretrain_worker *own = &loop->p->worker[worker];
    struct aw_diag diag = {0};
    const enum aw_err err = loop->turn(loop->p, loop->first + index, worker, loop->ctx, &diag);
    if (err && (!own->err || index < own->failed)) {
        own->err = err;
        own->failed = index;
        own->diag = diag;
    }
}

static enum aw_err pretrain_each(struct aw_pretrain *p, uint32_t first, uint32_t count,
                                 aw__pretrain_turn *turn, const void *ctx, struct aw_diag *diag)
{
    struct loop loop = {p, first, turn, ctx};
    const struct aw__pretrain_worker *failed = NULL;
    for (uint32_t i = 0; i < p->threads.count; i++)
        p->worker[i].err = AW_OK;
    aw_threads_parallel_for(&p->threads, count, 1, loop_turn, &loop);
    for (uint32_t i = 0; i < p->threads.count; i++)
        if (p->worker[i].err && (!failed || p->worker[i].failed < failed->failed))
            failed = &p->worker[i];
    if (failed && diag)
        *diag = failed->diag;
    return failed ? failed->err : AW_OK;
}

/* The SLO of an application is measured when it is opened, which takes milliseconds each. */
static enum aw_err open_all(struct aw_pretrain *p, struct aw_diag *diag)
{
    enum aw_err err = threads_make(p, diag);
    if (!err && !(p->task = aw_alloc_new(p->alloc, p->count, sizeof *p->task)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u applications", p->count);
    err = err ? err : task_open(p, 0, 0, NULL, diag);
    err = err ? err : shape_take(p, diag);
    err = err ? err : pretrain_each(p, 1, p->count - 1, task_open, NULL, diag);
    p->loads = AW_HASH_BEGIN;
    for (uint32_t i = 0; !err && i < p->count; i++) {
        p->loads = aw_hash_bytes(p->loads, &p->task[i].load, sizeof p->task[i].load);
        if ((err = task_arrays(p, &p->task[i])))
            aw_fail(diag, err, "no memory for %u applications", p->count);
    }
    err = err ? err : context_make(p, diag);
    return err ? err : workers_make(p, diag);
}

enum aw_err aw_pretrain_new(const struct aw_pretrain_config *config, const struct aw_alloc *alloc,
                            struct aw_pretrain **ret_pretrain, struct aw_diag *diag)
{
    const uint64_t count = (uint64_t)config->learn.count + config->check.count;
    const uint32_t size = config->team.size ? config->team.size : 1, rank = config->team.rank;
    if (config->learn.count == 0 || count > AW_PRETRAIN_APPS_MAX ||
        config->pair_count > AW_MODEL_CARD_PAIRS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u applications, found %" PRIu64,
                       AW_PRETRAIN_APPS_MAX, count);
    if (size > config->learn.count)
        return aw_fail(diag, AW_ERR_CONFIG, "%u processes cannot share %u applications", size,
                       config->learn.count);
    struct aw_pretrain *p = aw_alloc_new(alloc, 1, sizeof *p);
    if (!p)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to pretrain");
    p->config = *config;
    p->config.team.size = size;
    p->alloc = alloc;
    p->learn = (config->learn.count - rank + size - 1) / size;
    p->turns = (config->learn.count + size - 1) / size;
    p->count = p->learn + (rank == 0 ? config->check.count : 0);
    const enum aw_err err = open_all(p, diag);
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
    for (uint32_t i = 0; p->worker && i < p->threads.count; i++) {
        aw_context_reader_free(p->worker[i].reader);
        aw_alloc_free(p->alloc, p->worker[i].next);
    }
    aw_alloc_free(p->alloc, p->worker);
    aw_threads_deinit(&p->threads);
    for (uint32_t i = 0; p->task && i < p->count; i++) {
        struct aw__pretrain_task *task = &p->task[i];
        aw_env_free(&task->env);
        aw_fallback_free(task->fallback);
        aw_alloc_free(p->alloc, task->obs);
        aw_alloc_free(p->alloc, task->action);
        aw_alloc_free(p->alloc, task->reward);
    }
    aw_context_free(p->context);
    aw_bayes_opt_deinit(&p->offsets);
    aw_alloc_free(p->alloc, p->task);
    aw_alloc_free(p->alloc, p);
}

struct aw_context *aw_pretrain_context(struct aw_pretrain *p)
{
    return p->context;
}

const struct aw_pretrain_config *aw_pretrain_config(const struct aw_pretrain *p)
{
    return &p->config;
}

uint32_t aw_pretrain_rounds(const struct aw_pretrain *p)
{
    return p->rounds;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static enum aw_err meet_turn(struct aw_pretrain *p, uint32_t i, uint32_t worker, const void *ctx,
                             struct aw_diag *diag)
{
    (void)ctx;
    enum aw_err err = AW_OK;
    for (uint32_t left = p->config.fallback_episodes; !err && left > 0; left--)
        err = aw__pretrain_look(p, i, worker, left <= p->config.fallback_learned, diag);
    if (!err && p->config.teacher_tries && i < p->learn)
        err = aw__pretrain_teach(p, i, worker, diag);
    return err;
}

enum aw_err aw_pretrain_meet(struct aw_pretrain *p, struct aw_diag *diag)
{
    if (p->task[0].episodes > 0)
        return AW_OK;
    enum aw_err err = AW_OK;
    for (uint32_t first = 0; !err && first < p->count; first += STRIDE) {
        const uint32_t turns = p->count - first < STRIDE ? p->count - first : STRIDE;
        err = pretrain_each(p, first, turns, meet_turn, NULL, diag);
        if (!err && p->config.progress &&
            !p->config.progress(p->config.progress_ctx, first + turns, p->count))
            err = aw_fail(diag, AW_ERR_INTERRUPTED, "stopped after %u of %u applications were met",
                          first + turns, p->count);
    }
    if (!err && !p->config.model && (err = aw_context_normalise(p->context)))
        aw_fail(diag, err, "what was seen cannot be shared");
    return err;
}

static enum aw_err round_turn(struct aw_pretrain *p, uint32_t i, uint32_t worker, const void *ctx,
                              struct aw_diag *diag)
{
    const double *noise = ctx;
    struct aw__pretrain_task *task = &p->task[i];
    enum aw_err err = p->config.refresh ? aw__pretrain_look(p, i, worker, true, diag) : AW_OK;
    if (err)
        return err;
    const struct aw__pretrain_life life = {.who = AW__WHO_POLICY,
                                           .noise = *noise,
                                           .push = true,
                                           .join = p->config.own_episodes,
                                           .seed = aw__pretrain_seed(p, i, task->episodes++)};
    return aw__pretrain_live(p, i, worker, &life, &task->score, diag);
}

static double noise_now(const struct aw_pretrain *p)
{
    const struct aw_pretrain_config *config = &p->config;
    const uint32_t fade = config->noise_rounds ? config->noise_rounds : config->rounds;
    const double far = fade > 1 ? (double)p->rounds / (fade - 1) : 1;
    return config->noise + (config->noise_end - config->noise) * fmin(1, far);
}

/* Of the rates of learning. */
static double pace_now(const struct aw_pretrain *p)
{
    const double fading = p->config.fade * p->config.rounds, left = p->config.rounds - p->rounds;
    return left < fading ? left / fading : 1;
}

/* Everybody's shares of a mean, added up. */
static enum aw_err score_gather(const struct aw_pretrain *p, struct aw_pretrain_score *share)
{
    const struct aw_pretrain_team *team = &p->config.team;
    double *const all[] = {&share->reward, &share->paper, &share->violations,
                           &share->cost,   &share->cpu,   &share->memory};
    float values[sizeof all / sizeof *all];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        values[i] = (float)*all[i];
    const enum aw_err err = team->reduce(team->ctx, values, sizeof all / sizeof *all);
    for (size_t i = 0; !err && i < sizeof all / sizeof *all; i++)
        *all[i] = (double)values[i] * team->size;
    return err;
}

/* What is added to actions in the next episode. */
static void offset_next(struct aw_pretrain *p, double *ret)
{
    aw_bayes_opt_next(&p->offsets, ret);
    aw_context_offset(p->context, ret);
}

static double pretrain_worth(const struct aw_pretrain *p, const struct aw_pretrain_score *score)
{
    return score->reward - p->config.reward_miss * score->violations * p->steps;
}

/* The episode was lived; from here on the best offsets so far are added. */
static void offset_lived(struct aw_pretrain *p, double *by, const struct aw_pretrain_score *lived)
{
    aw_bayes_opt_tell(&p->offsets, by, pretrain_worth(p, lived));
    aw_bayes_opt_best(&p->offsets, by);
    aw_context_offset(p->context, by);
}

static void learning_failed(const struct aw_pretrain *p, enum aw_err err, struct aw_diag *diag)
{
    const uint32_t rows = p->config.context.rows, round = p->rounds + 1;
    if (err == AW_ERR_NODATA)
        aw_fail(diag, err,
                "rows: a batch takes %u steps of an application, and none has as many in round %u; "
                "expected fewer rows or longer episodes, found episodes of %u steps",
                rows, round, p->steps);
    else
        aw_fail(diag, err, "learning broke off in round %u: %s", round, aw_err_text(err));
}

enum aw_err aw_pretrain_round(struct aw_pretrain *p, struct aw_pretrain_score *ret_learned,
                              struct aw_diag *diag)
{
    const struct aw_pretrain_config *config = &p->config;
    struct aw_pretrain_score mean = {0};
    enum aw_err err = aw_pretrain_meet(p, diag);
    const bool searches = config->model && config->offset_search > 0;
    const double noise = searches ? 0 : noise_now(p);
    double by[AW_PRETRAIN_ACTIONS_MAX];
    aw_context_freeze(p->context, config->model != NULL, p->rounds < config->actor_rests);
    aw_context_pace(p->context, pace_now(p));
    if (searches && !err)
        offset_next(p, by);
    for (uint32_t first = 0; !err && first < p->turns; first += STRIDE) {
        const uint32_t turns = p->turns - first < STRIDE ? p->turns - first : STRIDE;
        const uint32_t mine = first + turns <= p->learn ? turns : p->learn - first;
        err = pretrain_each(p, first, mine, round_turn, &noise, diag);
        for (uint32_t u = 0; !err && u < (searches ? 0 : turns * config->updates); u++)
            if ((err = aw_context_learn(p->context, NULL)))
                learning_failed(p, err, diag);
    }
    if (err)
        return err;
    for (uint32_t i = 0; i < p->learn; i++)
        aw_pretrain_score_add(&mean, &p->task[i].score, 1.0 / config->learn.count);
    if (config->team.size > 1 && (err = score_gather(p, &mean)))
        return aw_fail(diag, err, "a round cannot be told to the others");
    if (searches)
        offset_lived(p, by, &mean);
    p->rounds++;
    if (ret_learned)
        *ret_learned = mean;
    return AW_OK;
}

/* --- judged ----------------------------------------------------------------------------------- */

struct judgement {
    enum aw__pretrain_who who;
    const float *constant, *as;
};

/* Episodes of a check are the same whoever acts and whenever. */
static enum aw_err judge_turn(struct aw_pretrain *p, uint32_t i, uint32_t worker, const void *ctx,
                              struct aw_diag *diag)
{
    const struct judgement *judgement = ctx;
    const uint32_t episodes = p->config.check_episodes;
    struct aw_pretrain_score own = {0};
    for (uint32_t e = 0; e < episodes; e++) {
        const struct aw__pretrain_life life = {.who = judgement->who,
                                               .constant = judgement->constant,
                                               .as = judgement->as,
                                               .seed = aw__pretrain_seed(p, i, e) ^ SEED_CHECK};
        struct aw_pretrain_score score;
        const enum aw_err err = aw__pretrain_live(p, i, worker, &life, &score, diag);
        if (err)
            return err;
        aw_pretrain_score_add(&own, &score, 1.0 / episodes);
    }
    p->task[i].score = own;
    return AW_OK;
}

static enum aw_err check(struct aw_pretrain *p, enum aw__pretrain_who who,
                         struct aw_pretrain_score *ret_mean, struct aw_pretrain_score *each,
                         struct aw_diag *diag)
{
    const struct judgement judgement = {.who = who};
    const struct aw_pretrain_team *team = &p->config.team;
    const uint32_t count = p->count - p->learn;
    struct aw_pretrain_score mean = {0};
    enum aw_err err = aw_pretrain_meet(p, diag);
    err = err ? err : pretrain_each(p, p->learn, count, judge_turn, &judgement, diag);
    for (uint32_t k = 0; !err && k < count; k++) {
        aw_pretrain_score_add(&mean, &p->task[p->learn + k].score, 1.0 / count);
        if (each)
            each[k] = p->task[p->learn + k].score;
    }
    if (!err && team->size > 1 && (err = team->broadcast(team->ctx, &mean, sizeof mean)))
        aw_fail(diag, err, "a check cannot be told to the others");
    if (!err)
        *ret_mean = mean;
    return err;
}

enum aw_err aw_pretrain_check(struct aw_pretrain *p, struct aw_pretrain_score *ret_mean,
                              struct aw_pretrain_score *each, struct aw_diag *diag)
{
    return check(p, AW__WHO_POLICY, ret_mean, each, diag);
}

enum aw_err aw_pretrain_check_fallback(struct aw_pretrain *p, struct aw_pretrain_score *ret_mean,
                                       struct aw_pretrain_score *each, struct aw_diag *diag)
{
    return check(p, AW__WHO_FALLBACK, ret_mean, each, diag);
}

static enum aw_err try_one(struct aw_pretrain *p, uint32_t app, const struct judgement *judgement,
                           struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    AW_ASSERT(app < p->learn);
    enum aw_err err = aw_pretrain_meet(p, diag);
    err = err ? err : judge_turn(p, app, 0, judgement, diag);
    if (!err)
        *ret = p->task[app].score;
    return err;
}

enum aw_err aw_pretrain_try(struct aw_pretrain *p, uint32_t app, struct aw_pretrain_score *ret,
                            struct aw_diag *diag)
{
    return try_one(p, app, &(struct judgement){.who = AW__WHO_POLICY}, ret, diag);
}

enum aw_err aw_pretrain_try_as(struct aw_pretrain *p, uint32_t app, const float *embedding,
                               struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    return try_one(p, app, &(struct judgement){.who = AW__WHO_POLICY, .as = embedding}, ret, diag);
}

enum aw_err aw_pretrain_try_fallback(struct aw_pretrain *p, uint32_t app,
                                     struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    return try_one(p, app, &(struct judgement){.who = AW__WHO_FALLBACK}, ret, diag);
}

enum aw_err aw_pretrain_try_constant(struct aw_pretrain *p, uint32_t app, const float *action,
                                     struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    return try_one(p, app, &(struct judgement){.who = AW__WHO_CONSTANT, .constant = action}, ret,
                   diag);
}

/* --- the best --------------------------------------------------------------------------------- */

bool aw_pretrain_mark(struct aw_pretrain *p, const struct aw_pretrain_score *score)
{
    const double worth = pretrain_worth(p, score);
    if (p->best.round > 0 && !(worth > p->best.worth)) {
        p->best.since++;
        return false;
    }
    p->best = (struct aw_pretrain_best){*score, worth, p->rounds, 0};
    aw_context_keep(p->context);
    return true;
}

const struct aw_pretrain_best *aw_pretrain_best(const struct aw_pretrain *p)
{
    return &p->best;
}

void aw_pretrain_recall(struct aw_pretrain *p)
{
    (void)aw_context_recall(p->context);
}

static enum aw_err embed_turn(struct aw_pretrain *p, uint32_t i, uint32_t worker, const void *ctx,
                              struct aw_diag *diag)
{
    (void)ctx;
    (void)diag;
    (void)aw_context_reader_embed(p->context, p->worker[worker].reader, i);
    return AW_OK;
}

enum aw_err aw_pretrain_embeddings(struct aw_pretrain *p, float *ret, struct aw_diag *diag)
{
    const struct aw_pretrain_team *team = &p->config.team;
    const uint32_t E = p->config.context.embedding;
    const size_t total = (size_t)p->config.learn.count * E;
    enum aw_err err = aw_pretrain_meet(p, diag);
    err = err ? err : pretrain_each(p, 0, p->learn, embed_turn, NULL, diag);
    if (err)
        return err;
    memset(ret, 0, total * sizeof *ret);
    for (uint32_t i = 0; i < p->learn; i++)
        memcpy(ret + (size_t)(i * team->size + team->rank) * E, aw_context_embed(p->context, i),
               E * sizeof *ret);
    if (team->size == 1)
        return AW_OK;
    if ((err = team->reduce(team->ctx, ret, total)))
        return aw_fail(diag, err, "embeddings cannot be shared");
    for (size_t i = 0; i < total; i++) /* all but one process had zeros here */
        ret[i] *= (float)team->size;
    return AW_OK;
}
