/* experiment_learners.c - loads, how learners are pretrained, and the learners. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "study/experiment_internal.h"
#include "workload/trace.h"

/* --- who is learned from ---------------------------------------------------------------------- */

uint32_t aw__test_first(const struct aw_experiment_config *config)
{
    return config->learned ? config->learned : AW_EXPERIMENT_LEARNED;
}

uint32_t aw__check_first(const struct aw_experiment_config *config)
{
    return aw__test_first(config) - AW__CHECK_COUNT;
}

uint32_t aw__learn_count(const struct aw_experiment_config *config)
{
    return aw__check_first(config) - AW__LEARN_FIRST;
}

/* --- loads ------------------------------------------------------------------------------------ */

struct aw__loads {
    struct aw_load load[2 * AW__RANKS];
    bool known[2 * AW__RANKS];
    pthread_mutex_t lock;
    const struct aw_alloc *alloc;
};

enum aw_err aw__loads_new(const struct aw_alloc *alloc, struct aw__loads **ret)
{
    struct aw__loads *loads = aw_alloc_new(alloc, 1, sizeof *loads);
    if (!loads)
        return AW_ERR_NOMEM;
    loads->alloc = alloc;
    pthread_mutex_init(&loads->lock, NULL);
    *ret = loads;
    return AW_OK;
}

void aw__loads_free(struct aw__loads *loads)
{
    if (!loads)
        return;
    for (uint32_t i = 0; i < 2 * AW__RANKS; i++)
        aw_load_deinit(&loads->load[i]);
    pthread_mutex_destroy(&loads->lock);
    aw_alloc_free(loads->alloc, loads);
}

/* Odd ranks are learned from, even ones reported on. */
static uint32_t rank_of(const struct aw_experiment_config *config, uint32_t app)
{
    return 2 * (app % AW__RANKS) + (app < aw__test_first(config) ? 1 : 2);
}

static bool is_trace(const char *load)
{
    return strchr(load, '/') || strstr(load, ".csv") || strstr(load, ".txt");
}

/* False: it is longer than `size`. */
static bool text_of(const struct aw_experiment_config *config, uint32_t app, char *buf, size_t size)
{
    int length;
    if (is_trace(config->load))
        length = snprintf(buf, size, "%s%stop=%" PRIu32, config->load,
                          strchr(config->load, ':') ? "," : ":", rank_of(config, app));
    else
        length = snprintf(buf, size, "%s", config->load);
    return length >= 0 && (size_t)length < size;
}

static void load_text(void *ctx, uint32_t app, char *buf, size_t size)
{
    (void)text_of(ctx, app, buf, size); /* load_make is asked, and tells what is too long */
}

enum aw_err aw__load_of(const struct aw_experiment_config *config, uint32_t app,
                        const struct aw_alloc *alloc, struct aw_load *ret, struct aw_diag *diag)
{
    struct aw__loads *loads = config->loads;
    const uint32_t at = rank_of(config, app) - 1;
    char text[AW_CONF_TEXT_MAX];
    if (!text_of(config, app, text, sizeof text))
        return aw_fail(diag, AW_ERR_LIMIT, "--load is longer than %zu bytes", sizeof text - 1);
    if (!is_trace(config->load))
        return aw_load_parse(text, app, alloc, ret, diag);
    enum aw_err err = AW_OK;
    pthread_mutex_lock(&loads->lock);
    if (!loads->known[at]) {
        struct aw_trace_report report;
        err = aw_load_parse_report(text, at, loads->alloc, &loads->load[at], &report, diag);
        loads->known[at] = !err;
    }
    pthread_mutex_unlock(&loads->lock);
    if (err)
        return err;
    const struct aw_load *known = &loads->load[at];
    struct aw_load copy;
    err = aw_load_init(&copy, known->name, known->slot_count, known->slot_us, alloc, diag);
    if (err)
        return err;
    memcpy(copy.rate_per_s, known->rate_per_s, known->slot_count * sizeof *copy.rate_per_s);
    *ret = copy;
    return AW_OK;
}

static enum aw_err load_make(void *ctx, uint32_t app, const struct aw_alloc *alloc,
                             struct aw_load *ret, struct aw_diag *diag)
{
    return aw__load_of(ctx, app, alloc, ret, diag);
}

/* --- pretraining ------------------------------------------------------------------------------ */

struct aw_pretrain_pool aw__pool(const struct aw_experiment_config *config, uint32_t first,
                                 uint32_t count)
{
    union {
        const struct aw_experiment_config *in;
        void *out;
    } ctx = {.in = config}; /* the hooks only read it */
    return (struct aw_pretrain_pool){
        .seed = config->pool, .first = first, .count = count, .load = load_text, .ctx = ctx.out};
}

void aw__pretrain_config(const struct aw_experiment_config *config, struct aw_pretrain_config *ret)
{
    aw_pretrain_config_init(ret);
    if (config->paper)
        aw_pretrain_config_paper(ret);
    ret->pairs[ret->pair_count++] = "objective=paper";
    ret->pairs[ret->pair_count++] = "load_cores=2";
    for (uint32_t i = 0; i < config->pair_count; i++)
        ret->pairs[ret->pair_count++] = config->pairs[i]; /* who comes later overrules */
    if (config->pair)
        ret->pairs[ret->pair_count++] = config->pair;
    if (config->fallback_episodes)
        ret->fallback_episodes = config->fallback_episodes;
    ret->slo_boost = !config->bare; /* guard rails are for all alike */
    ret->oom_boost =
        ret->slo_boost && config->paper; /* the default environment keeps memory above kills */
    ret->load_make = load_make;
    ret->seed = config->seed;
    ret->threads = 1;
}

/* All rounds; the best check is what is left. */
static enum aw_err teach(const struct aw_experiment_config *config, struct aw_pretrain *p,
                         const char *phase, struct aw__model_cost *cost, struct aw_diag *diag)
{
    const struct aw_pretrain_config *pretrain = aw_pretrain_config(p);
    enum aw_err err = AW_OK;
    for (uint32_t r = 1; !err && r <= pretrain->rounds; r++) {
        struct aw_pretrain_score learned, checked;
        err = aw_pretrain_round(p, &learned, diag);
        const bool look = r % pretrain->check_every == 0 || r == pretrain->rounds;
        if (!err && look && !(err = aw_pretrain_check(p, &checked, NULL, diag)))
            (void)aw_pretrain_mark(p, &checked);
        if (!err && config->progress &&
            !config->progress(config->progress_ctx, phase, r, pretrain->rounds))
            err = aw_fail(diag, AW_ERR_INTERRUPTED, "stopped in round %u of %s", r, phase);
    }
    if (err)
        return err;
    aw_pretrain_recall(p);
    cost->check = aw_pretrain_best(p)->score.paper;
    cost->missed = aw_pretrain_best(p)->score.violations;
    cost->episodes = (double)pretrain->rounds * pretrain->learn.count;
    return AW_OK;
}

enum aw_err aw__model(const struct aw_experiment_config *config, uint32_t apps, const char *variant,
                      const struct aw_pretrain_config *as, const struct aw_alloc *alloc,
                      char *ret_path, struct aw__model_cost *ret_cost, struct aw_diag *diag)
{
    struct aw_pretrain_config pretrain = *as;
    struct aw__model_cost cost = {0};
    struct aw_pretrain *p = NULL;
    struct aw__piece_key key;
    char model[AW_EXPERIMENT_PATH_MAX + AW__PIECE_KEY_MAX],
        figures[AW_EXPERIMENT_PATH_MAX + AW__PIECE_KEY_MAX];
    char phase[64];
    double piece[4];
    pretrain.slo_boost = config->paper; /* as the presets of 'aware pretrain' have it */
    pretrain.oom_boost = false;
    pretrain.learn = aw__pool(config, AW__LEARN_FIRST, apps);
    pretrain.check = aw__pool(config, aw__check_first(config), AW__CHECK_COUNT);
    pretrain.threads = config->threads;
    aw__piece_key_begin(&key, config);
    aw__piece_key_text(&key, variant);
    aw__piece_key_number(&key, apps);
    enum aw_err err = aw__piece_key_pretrain(&key, &pretrain, alloc, diag);
    if (err)
        return err;
    aw__piece_key_path(&key, config, variant, "safetensors", model, sizeof model);
    aw__piece_key_path(&key, config, variant, "piece", figures, sizeof figures);
    if (strlen(model) >= AW_EXPERIMENT_PATH_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "%s: the name of the folder is too long", config->work);
    snprintf(phase, sizeof phase, "pretraining %s on %" PRIu32 ", seed %" PRIu64, variant, apps,
             pretrain.seed);
    /* the figures are written last: with them the model is whole */
    if (aw__piece_load(figures, piece, 4, alloc)) {
        /* with one thread it is this one, and others may be teaching beside it */
        double (*const cpu_s)(void) =
            pretrain.threads == 1 ? aw_clock_thread_cpu_s : aw_clock_process_cpu_s;
        const double from = cpu_s();
        err = aw_pretrain_new(&pretrain, alloc, &p, diag);
        err = err ? err : teach(config, p, phase, &cost, diag);
        cost.cpu_s = cpu_s() - from;
        err = err ? err : aw_context_save(aw_pretrain_context(p), model, NULL, 0, diag);
        const double found[4] = {cost.cpu_s, cost.episodes, cost.check, cost.missed};
        memcpy(piece, found, sizeof piece);
        err = err ? err : aw__piece_save(figures, piece, 4, alloc, diag);
        aw_pretrain_free(p);
    }
    if (err)
        return err;
    memcpy(ret_path, model, strlen(model) + 1);
    if (ret_cost)
        *ret_cost = (struct aw__model_cost){piece[0], piece[1], piece[2], piece[3],
                                            aw_pretrain_episodes(&pretrain)};
    return AW_OK;
}

enum aw_err aw__model_or_own(const struct aw_experiment_config *config,
                             const struct aw_alloc *alloc, char *ret_path, struct aw_diag *diag)
{
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    struct aw_pretrain_config pretrain;
    if (config->model[0]) {
        memcpy(ret_path, config->model, sizeof config->model);
        return AW_OK;
    }
    aw__pretrain_config(config, &pretrain);
    if (!full)
        pretrain.rounds = config->paper ? 6 : 10;
    const uint32_t all = aw__learn_count(config), some = all < 200 ? all : 200;
    return aw__model(config, full ? all : some, "default", &pretrain, alloc, ret_path, NULL, diag);
}

enum aw_err aw__zero_shot(const struct aw_experiment_config *config, const char *model,
                          uint32_t first, uint32_t count, const struct aw_alloc *alloc,
                          struct aw_pretrain_score *each, struct aw_pretrain_score *fallback,
                          float *embeddings, struct aw_diag *diag)
{
    struct aw_pretrain_config pretrain;
    struct aw_pretrain_score mean;
    struct aw_pretrain *p = NULL;
    enum aw_err err = aw__learner_aware(config, model, &pretrain, diag);
    if (err)
        return err;
    pretrain.learn = aw__pool(config, AW__LEARN_FIRST, 1); /* there must be one */
    pretrain.check = aw__pool(config, first, count);
    pretrain.threads = config->threads;
    err = aw_pretrain_new(&pretrain, alloc, &p, diag);
    if (!err && each)
        err = aw_pretrain_check(p, &mean, each, diag);
    if (!err && fallback)
        err = aw_pretrain_check_fallback(p, &mean, fallback, diag);
    err = err ? err : aw_pretrain_meet(p, diag);
    const uint32_t width = pretrain.context.embedding;
    for (uint32_t i = 0; !err && embeddings && i < count; i++)
        memcpy(embeddings + (size_t)i * width, aw_context_embed(aw_pretrain_context(p), i + 1),
               width * sizeof *embeddings);
    aw_pretrain_free(p);
    return err;
}

/* --- learners --------------------------------------------------------------------------------- */

/* What one application at a time is taught with. */
static void alone(struct aw_pretrain_config *pretrain)
{
    pretrain->context.group = 1;
    pretrain->context.rows = 128;
    pretrain->context.imitate = 0;
    pretrain->updates = 50;
    pretrain->refresh = false;
    pretrain->own_episodes = false;
    pretrain->teacher_tries = 0;
    pretrain->context.improve = 1;
    pretrain->fade = 0;
}

enum aw_err aw__learner_aware(const struct aw_experiment_config *config, const char *model,
                              struct aw_pretrain_config *ret, struct aw_diag *diag)
{
    struct aw_context_config found;
    const enum aw_err err = aw_context_peek(model, &found, NULL, diag);
    if (err)
        return err;
    aw__pretrain_config(config, ret);
    ret->context = found.settings;
    aw_pretrain_config_adapt(ret);
    ret->model = model;
    return AW_OK;
}

void aw__learner_plain(const struct aw_experiment_config *config, struct aw_pretrain_config *ret)
{
    aw__pretrain_config(config, ret);
    alone(ret);
    ret->context.to_actor = ret->context.to_critic = false;
    ret->context.encoder = AW_ENCODER_POOL; /* nobody looks at it: the smallest that there is */
    ret->context.encoder_hidden = ret->context.encoder_dense = ret->context.embedding = 1;
    ret->context.episodes = 1;
    ret->fallback_episodes = 3;
    ret->noise = 0.2;
    ret->noise_end = 0.05;
    ret->noise_rounds = 60;
    if (config->bare)
        ret->reward_miss = 0;
}

void aw__learner_transfer(const struct aw_experiment_config *config,
                          const struct aw__transfer *transfer, const char *source,
                          struct aw_pretrain_config *ret)
{
    aw__learner_plain(config, ret);
    ret->context.actor_lr = transfer->actor_lr;
    ret->context.critic_lr = transfer->critic_lr;
    ret->noise = transfer->noise;
    ret->noise_end = fmin(ret->noise_end, transfer->noise);
    ret->offset_search = transfer->offset_search;
    ret->actor_rests = transfer->rests;
    ret->model = source;
}

uint32_t aw__source_app(const struct aw_experiment_config *config, uint32_t i)
{
    const uint32_t count = aw__learn_count(config);
    return i * (count % 127 ? 127 : 131) % count; /* each once, wherever they have no divisor */
}

enum aw_err aw__source(const struct aw_experiment_config *config, uint32_t app, uint32_t episodes,
                       bool foresight, const struct aw_alloc *alloc, char *ret_path,
                       struct aw_diag *diag)
{
    struct aw_pretrain_config pretrain;
    struct aw_pretrain *p = NULL;
    struct aw__piece_key key;
    char model[AW_EXPERIMENT_PATH_MAX + AW__PIECE_KEY_MAX],
        figures[AW_EXPERIMENT_PATH_MAX + AW__PIECE_KEY_MAX];
    char what[AW__PIECE_KEY_MAX / 2];
    double whole[1] = {1};
    aw__learner_plain(config, &pretrain);
    pretrain.foresight = foresight;
    pretrain.rounds = episodes;
    pretrain.learn = aw__pool(config, app, 1);
    aw__piece_key_begin(&key, config);
    aw__piece_key_number(&key, app);
    enum aw_err err = aw__piece_key_pretrain(&key, &pretrain, alloc, diag);
    if (err)
        return err;
    snprintf(what, sizeof what, "source-%" PRIu32, app);
    aw__piece_key_path(&key, config, what, "safetensors", model, sizeof model);
    aw__piece_key_path(&key, config, what, "piece", figures, sizeof figures);
    if (strlen(model) >= AW_EXPERIMENT_PATH_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "%s: the name of the folder is too long", config->work);
    memcpy(ret_path, model, strlen(model) + 1);
    if (aw__piece_load(figures, whole, 1, alloc) == AW_OK)
        return AW_OK;
    err = aw_pretrain_new(&pretrain, alloc, &p, diag);
    for (uint32_t e = 1; !err && e <= episodes; e++) {
        struct aw_pretrain_score learned, judged;
        err = aw_pretrain_round(p, &learned, diag);
        /* the last third is where it has learned; of it the best is carried over */
        if (!err && 3 * e > 2 * episodes && !(err = aw_pretrain_try(p, 0, &judged, diag)))
            (void)aw_pretrain_mark(p, &judged);
    }
    if (!err)
        aw_pretrain_recall(p);
    err = err ? err : aw_context_save(aw_pretrain_context(p), model, NULL, 0, diag);
    err = err ? err : aw__piece_save(figures, whole, 1, alloc, diag);
    aw_pretrain_free(p);
    return err;
}
