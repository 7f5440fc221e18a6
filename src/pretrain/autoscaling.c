/*
 * autoscaling.c - see autoscaling.h. An application is one of the generator's: those from
 * UNSEEN_FIRST on are never learned from. It is known by what its fallback did in a few episodes.
 */
#include "pretrain/autoscaling.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "meta/known_apps.h"
#include "policy/models.h"
#include "pretrain/adapt.h"

#define POOL         1u   /* seed of the generator's applications */
#define LEARNED      760u /* applications that are learned from; up to UNSEEN_FIRST they choose */
#define UNSEEN_FIRST 800u
#define UNSEEN       200u
#define COMPARED     10u /* applications of a seed */
#define ADAPTED      5u  /* episodes after which a meeting ends */
#define LOAD         "bursts"
#define RESAMPLES    1000u

/* clang-format off */
#define METHODS(X)                                                    \
    X(FALLBACK, "HPA on CPU, VPA on memory")                          \
    X(STEADY,   "one action all the time")                            \
    X(LEARNED,  "learned, first episode")                             \
    X(ZEROED,   "learned, embedding zeroed")                          \
    X(SHUFFLED, "learned, embedding shuffled")                        \
    X(ADAPTED,  "learned, after 5 episodes")
/* clang-format on */
enum methods {
#define X(id, name) M_##id,
    METHODS(X)
#undef X
        METHOD_COUNT
};
static const char *const method_names[] = {
#define X(id, name) name,
    METHODS(X)
#undef X
};

struct study {
    const struct aw_task_ask *ask;
    const struct aw_task_sink *sink;
    struct aw_model_shelf *shelf;
    const char *path;
    struct aw_known_apps known;
    uint32_t met, total; /* for progress */
};

static void load_say(void *ctx, uint32_t app, char *buf, size_t size)
{
    (void)ctx;
    (void)app;
    snprintf(buf, size, "%s", LOAD);
}

/* --- one application -------------------------------------------------------------------------- */

static enum aw_err score(struct aw_pretrain *pretrain, const struct study *study, uint32_t app,
                         enum methods method, struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    static const float middle[AW_PRETRAIN_ACTIONS_MAX] = {0}, zero[512] = {0};
    struct aw_pretrain_score lived;
    enum aw_err err = AW_OK;
    AW_ASSERT(study->known.dim <= sizeof zero / sizeof *zero);
    switch (method) {
    case M_FALLBACK:
        return aw_pretrain_try_fallback(pretrain, 0, ret, diag);
    case M_STEADY:
        return aw_pretrain_try_constant(pretrain, 0, middle, ret, diag);
    case M_ZEROED:
        return aw_pretrain_try_as(pretrain, 0, zero, ret, diag);
    case M_SHUFFLED: /* that of an application that was learned from, another for each */
        return aw_pretrain_try_as(pretrain, 0,
                                  study->known.embedding +
                                      (size_t)(app * 37 % study->known.count) * study->known.dim,
                                  ret, diag);
    case M_ADAPTED:
        for (uint32_t e = 0; !err && e < ADAPTED; e++)
            err = aw_pretrain_round(pretrain, &lived, diag);
        return err ? err : aw_pretrain_try(pretrain, 0, ret, diag);
    case M_LEARNED:
    default:
        return aw_pretrain_try(pretrain, 0, ret, diag);
    }
}

/* `want` [METHOD_COUNT]: who is asked. */
static enum aw_err meet_app(struct study *study, uint32_t app, const bool *want,
                            struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    struct aw_pretrain_model *model = aw_alloc_new(NULL, 1, sizeof *model);
    struct aw_pretrain *pretrain = NULL;
    enum aw_err err = model ? aw_pretrain_model_read(study->path, model, NULL, diag)
                            : aw_fail(diag, AW_ERR_NOMEM, "no memory for a model");
    if (!err) {
        struct aw_pretrain_config *config = &model->config;
        aw_pretrain_config_adapt(config);
        config->learn =
            (struct aw_pretrain_pool){.seed = POOL, .first = app, .count = 1, .load = load_say};
        config->rounds = ADAPTED;
        config->seed = study->ask->seed;
        err = aw_pretrain_new(config, NULL, &pretrain, diag);
    }
    for (uint32_t m = 0; !err && m < METHOD_COUNT; m++)
        if (want[m])
            err = score(pretrain, study, app, m, &ret[m], diag);
    aw_pretrain_free(pretrain);
    aw_alloc_free(NULL, model);
    if (!err && !study->sink->progress(study->sink->self, (double)++study->met / study->total,
                                       "applications"))
        err = aw_fail(diag, AW_ERR_INTERRUPTED, "it was stopped");
    return err;
}

static enum aw_err study_open(struct study *study, struct aw_diag *diag)
{
    const struct aw_pretrained *model = NULL;
    enum aw_err err = AW_OK;
    study->path = study->ask->model;
    if (!study->path) {
        err = aw_models_open(NULL, &study->shelf, diag);
        err = err ? err : aw_model_shelf_get(study->shelf, AW_MODEL_SHELF_SHIPPED, &model, diag);
        study->path = err ? NULL : aw_pretrained_path(model);
    }
    return err ? err : aw_known_apps_load(&study->known, study->path, NULL, diag);
}

static void study_close(struct study *study)
{
    aw_known_apps_deinit(&study->known);
    aw_model_shelf_free(study->shelf);
}

/* --- rows ------------------------------------------------------------------------------------- */

static void figures(const struct aw_task_sink *sink, const struct aw_pretrain_score *mean)
{
    sink->figure(sink->self, "violations", mean->violations);
    sink->figure(sink->self, "cost_per_hour", mean->cost);
    sink->figure(sink->self, "cpu", mean->cpu);
    sink->figure(sink->self, "memory", mean->memory);
    sink->row(sink->self);
}

static enum aw_err meet(const struct aw_task *task, const struct aw_task_ask *ask,
                        const struct aw_task_sink *sink, struct aw_diag *diag)
{
    static const bool want[METHOD_COUNT] = {
        [M_FALLBACK] = true, [M_LEARNED] = true, [M_ADAPTED] = true};
    struct study study = {.ask = ask, .sink = sink, .total = 1};
    struct aw_pretrain_score got[METHOD_COUNT];
    char sentence[240];
    (void)task;
    const uint32_t app = UNSEEN_FIRST + (uint32_t)(ask->seed % UNSEEN);
    enum aw_err err = study_open(&study, diag);
    err = err ? err : meet_app(&study, app, want, got, diag);
    for (uint32_t m = 0; !err && m < METHOD_COUNT; m++)
        if (want[m]) {
            sink->text(sink->self, "method", method_names[m]);
            sink->figure(sink->self, "reward", got[m].paper);
            figures(sink, &got[m]);
        }
    snprintf(
        sentence, sizeof sentence,
        "Application %u:%u, never learned from, known by episodes of its fallback. Reward is R "
        "of AWARE for an episode; violations are the share of steps that missed the SLO.",
        POOL, app);
    if (!err)
        sink->note(sink->self, sentence);
    study_close(&study);
    return err;
}

static enum aw_err compare(const struct aw_task *task, const struct aw_task_ask *ask,
                           const struct aw_task_sink *sink, struct aw_diag *diag)
{
    static const bool want[METHOD_COUNT] = {true, true, true, true, true, true};
    const uint32_t count = ask->seeds * COMPARED < UNSEEN ? ask->seeds * COMPARED : UNSEEN;
    struct study study = {.ask = ask, .sink = sink, .total = count};
    struct aw_pretrain_score(*got)[METHOD_COUNT] = aw_alloc_new(NULL, count, sizeof *got);
    double *scratch = aw_alloc_new(NULL, 2 * (size_t)count + RESAMPLES, sizeof *scratch);
    (void)task;
    enum aw_err err = got && scratch ? study_open(&study, diag)
                                     : aw_fail(diag, AW_ERR_NOMEM, "no memory for a study");
    for (uint32_t i = 0; !err && i < count; i++)
        err = meet_app(&study, UNSEEN_FIRST + (uint32_t)((ask->seed * COMPARED + i) % UNSEEN), want,
                       got[i], diag);
    for (uint32_t m = 0; !err && m < METHOD_COUNT; m++) {
        struct aw_pretrain_score mean = {0};
        struct aw_rng rng;
        for (uint32_t i = 0; i < count; i++) {
            aw_pretrain_score_add(&mean, &got[i][m], 1.0 / count);
            scratch[i] = got[i][m].paper;
        }
        aw_rng_init(&rng, ask->seed, m);
        const struct aw_interval interval =
            aw_stats_bootstrap_mean(scratch, count, 0.95, RESAMPLES, &rng, scratch + count);
        sink->text(sink->self, "method", method_names[m]);
        sink->figure(sink->self, "applications", count);
        sink->figure(sink->self, "reward", mean.paper);
        sink->figure(sink->self, "reward_low", interval.low);
        sink->figure(sink->self, "reward_high", interval.high);
        figures(sink, &mean);
    }
    if (!err)
        sink->note(sink->self, "Transfer learning, episodes to adapt, and the other parts of the "
                               "learner: aware experiment adaptation, embedding, pieces. What the "
                               "true parameters would be worth is not known here: no network was "
                               "taught with them.");
    study_close(&study);
    aw_alloc_free(NULL, got);
    aw_alloc_free(NULL, scratch);
    return err;
}

static enum aw_err train(const struct aw_task *task, const struct aw_task_ask *ask,
                         const struct aw_task_sink *sink, struct aw_diag *diag)
{
    struct aw_pretrain_config config;
    struct aw_pretrain_score learned, check;
    struct aw_pretrain *pretrain = NULL;
    (void)task;
    if (!ask->model)
        return aw_fail(diag, AW_ERR_USAGE, "expected --model FILE to write the model to");
    aw_pretrain_config_init(&config);
    if (ask->preset && !strcmp(ask->preset, "paper"))
        aw_pretrain_config_paper(&config);
    config.learn = (struct aw_pretrain_pool){.seed = POOL, .count = LEARNED, .load = load_say};
    config.check = (struct aw_pretrain_pool){
        .seed = POOL, .first = LEARNED, .count = UNSEEN_FIRST - LEARNED, .load = load_say};
    config.seed = ask->seed;
    config.threads = ask->threads;
    enum aw_err err = aw_pretrain_new(&config, NULL, &pretrain, diag);
    for (uint32_t r = 1; !err && r <= config.rounds; r++) {
        err = aw_pretrain_round(pretrain, &learned, diag);
        if (!err && (r % config.check_every == 0 || r == config.rounds)) {
            err = aw_pretrain_check(pretrain, &check, NULL, diag);
            (void)(!err && aw_pretrain_mark(pretrain, &check));
        }
        if (!err && !sink->progress(sink->self, (double)r / config.rounds, "rounds"))
            err = aw_fail(diag, AW_ERR_INTERRUPTED, "training was stopped");
    }
    if (!err) {
        aw_pretrain_recall(pretrain);
        err = aw_pretrain_model_save(pretrain, ask->model, NULL, NULL, 0, diag);
    }
    if (!err) {
        const struct aw_pretrain_best *best = aw_pretrain_best(pretrain);
        sink->figure(sink->self, "applications", LEARNED);
        sink->figure(sink->self, "rounds", best->round);
        sink->figure(sink->self, "reward_checked", best->score.paper);
        sink->figure(sink->self, "violations_checked", best->score.violations);
        sink->row(sink->self);
    }
    aw_pretrain_free(pretrain);
    return err;
}

static const struct aw_task_baseline baselines[] = {
    {.name = "hpa-vpa", .summary = "HPA on CPU and VPA on memory, as Kubernetes has them"},
    {.name = "steady", .summary = "one action all the time: sizes follow recent use"},
};

const struct aw_task aw_autoscaling_task = {
    .name = "autoscaling",
    .summary = "Autoscaling: replicas, CPU and memory of an application that was never seen",
    .text = "A pair is an application of the generator (a sequence of segments) with a load of "
            "bursts on the simulated cluster. A step is a minute of it; the action is replicas, "
            "CPU and memory. The reward is AWARE's R: what is kept of the SLO, and utilisation. A "
            "pair is known by episodes of its fallback alone. `aware pretrain`, `adapt` and "
            "`experiment` are the same learner with every setting; models/default.safetensors is "
            "what ships.",
    .kind = AW_TASK_BOX,
    .baseline = baselines,
    .baseline_count = sizeof baselines / sizeof *baselines,
    .verb = {[AW_TASK_TRAIN] = train, [AW_TASK_MEET] = meet, [AW_TASK_COMPARE] = compare},
};
