/*
 * experiment_models.c - what becomes of a model that is taught otherwise: from fewer applications
 * (FLASH Fig. 15), and without one of its parts.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "study/experiment_internal.h"

#define APPS_MAX  AW__TEST_COUNT
#define SEEDS_MAX 5u

/* Models that were taught alike but for chance, judged without an episode of their own. */
struct judged {
    uint32_t apps, seeds;
    struct aw_pretrain_score each[APPS_MAX];
    double paper[SEEDS_MAX * APPS_MAX];     /* [seeds][apps] */
    double as_it_is[SEEDS_MAX * APPS_MAX];  /* the same of what others are compared with */
    double reward, missed, cpu_s, episodes; /* means */
    double worst;                           /* application of all */
    struct aw_pretrain_episodes lived;      /* of one model */
    char model[SEEDS_MAX][AW_EXPERIMENT_PATH_MAX];
};

static void judged_begin(struct judged *judged, const struct aw_experiment_config *config,
                         uint32_t apps, struct aw_study_report *report)
{
    const uint32_t seeds = config->seeds                         ? config->seeds
                           : config->scale == AW_EXPERIMENT_FULL ? 3
                                                                 : 1;
    report->apps = judged->apps = apps < APPS_MAX ? apps : APPS_MAX;
    report->seeds = judged->seeds = seeds < SEEDS_MAX ? seeds : SEEDS_MAX;
}

/* How models are taught that are alike but for chance. */
struct lesson {
    const char *variant;
    uint32_t learn; /* applications */
    struct aw_experiment_config config;
    struct aw_pretrain_config pretrain;
};

/* `progress` (may be NULL) is told of rounds; none where the model is a piece already. */
static enum aw_err teach(const struct lesson *lesson, uint32_t seed,
                         aw_experiment_progress *progress, void *progress_ctx,
                         const struct aw_alloc *alloc, char *ret_path,
                         struct aw__model_cost *ret_cost, struct aw_diag *diag)
{
    struct aw_experiment_config own = lesson->config;
    struct aw_pretrain_config pretrain = lesson->pretrain;
    own.seed = pretrain.seed = own.seed + seed;
    own.threads = 1;
    own.progress = progress;
    own.progress_ctx = progress_ctx;
    return aw__model(&own, lesson->learn, lesson->variant, &pretrain, alloc, ret_path, ret_cost,
                     diag);
}

struct lessons {
    const struct aw_experiment_config *config;
    const struct lesson *lesson;
    uint32_t count, seeds;
    uint32_t done, total; /* rounds of all models */
    pthread_mutex_t lock; /* of `done`, and of who watches */
    const struct aw_alloc *alloc;
};

/* One model's rounds among all. */
struct told {
    struct lessons *all;
    uint32_t rounds;
};

static bool tell_rounds(void *ctx, const char *phase, uint32_t done, uint32_t total)
{
    struct told *told = ctx;
    struct lessons *all = told->all;
    const struct aw_experiment_config *config = all->config;
    (void)phase, (void)total;
    pthread_mutex_lock(&all->lock);
    all->done += done - told->rounds;
    told->rounds = done;
    const bool go_on = !config->progress ||
                       config->progress(config->progress_ctx, "pretraining", all->done, all->total);
    pthread_mutex_unlock(&all->lock);
    return go_on;
}

/* The largest first, so that none is left alone at the end. */
static enum aw_err teach_turn(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct lessons *all = ctx;
    const struct lesson *lesson = &all->lesson[all->count - 1 - turn / all->seeds];
    const uint32_t rounds = lesson->pretrain.rounds;
    struct told told = {all, 0};
    char path[AW_EXPERIMENT_PATH_MAX];
    const enum aw_err err =
        teach(lesson, turn % all->seeds, tell_rounds, &told, all->alloc, path, NULL, diag);
    if (!err && told.rounds < rounds && !tell_rounds(&told, NULL, rounds, rounds))
        return aw_fail(diag, AW_ERR_INTERRUPTED, "stopped while models are taught");
    return err;
}

/* All models, as pieces: one has little to share among threads, and many are taught beside each
 * other. */
static enum aw_err teach_all(const struct aw_experiment_config *config, const struct lesson *lesson,
                             uint32_t count, uint32_t seeds, const struct aw_alloc *alloc,
                             struct aw_diag *diag)
{
    struct lessons all = {
        .config = config, .lesson = lesson, .count = count, .seeds = seeds, .alloc = alloc};
    for (uint32_t i = 0; i < count; i++)
        all.total += seeds * lesson[i].pretrain.rounds;
    pthread_mutex_init(&all.lock, NULL);
    const enum aw_err err = aw_parallel_tasks(config->threads, count * seeds, teach_turn, &all,
                                              NULL, NULL, alloc, diag);
    pthread_mutex_destroy(&all.lock);
    return err;
}

/* Models taught with each seed, judged on the applications from `first` on. */
static enum aw_err judge(const struct lesson *lesson, uint32_t first, const struct aw_alloc *alloc,
                         struct judged *ret, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    const double share = 1.0 / ret->seeds;
    ret->reward = ret->missed = ret->cpu_s = ret->episodes = 0;
    ret->worst = (double)INFINITY;
    for (uint32_t k = 0; !err && k < ret->seeds; k++) {
        struct aw_experiment_config own = lesson->config;
        char *model = ret->model[k];
        struct aw__model_cost cost;
        own.seed += k;
        err = teach(lesson, k, NULL, NULL, alloc, model, &cost, diag); /* a piece by now */
        err =
            err ? err
                : aw__zero_shot(&own, model, first, ret->apps, alloc, ret->each, NULL, NULL, diag);
        if (err)
            return err;
        ret->cpu_s += share * cost.cpu_s;
        ret->episodes += share * cost.episodes;
        ret->lived = cost.lived;
        for (uint32_t i = 0; i < ret->apps; i++) {
            ret->paper[k * ret->apps + i] = ret->each[i].paper;
            ret->reward += share * ret->each[i].paper / ret->apps;
            ret->missed += share * ret->each[i].violations / ret->apps;
            ret->worst = fmin(ret->worst, ret->each[i].paper);
        }
    }
    return err;
}

/* --- amortization ----------------------------------------------------------------------------- */

#define POOLS_MAX   6u
#define SHARED_MOST 200u /* applications of the largest pool whose episodes are counted (FLASH) */

/* What is adapted with afterwards: the models of some pools. */
struct pools {
    struct judged judged;
    uint32_t count;
    struct aw__taught taught[POOLS_MAX];
    char model[POOLS_MAX][SEEDS_MAX][AW_EXPERIMENT_PATH_MAX];
};

static void pools_keep(struct pools *pools, uint32_t apps)
{
    const uint32_t i = pools->count++;
    memcpy(pools->model[i], pools->judged.model, sizeof pools->model[i]);
    pools->taught[i] =
        (struct aw__taught){apps, pools->judged.seeds, pools->judged.lived, pools->model[i]};
}

static enum aw_err amortize(const struct aw_experiment_config *config, const struct aw_alloc *alloc,
                            struct aw_study_report *report, struct pools *pools,
                            struct aw_diag *diag)
{
    struct judged *judged = &pools->judged;
    static const uint32_t few[] = {25, 50, 100, 200}, many[] = {50, 100, 150, 200, 400, 760};
    static const char *const columns[] = {"reward, unseen",    "95 % from", "to",
                                          "worst application", "missed",    "CPU time",
                                          "episodes",          NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_PLAIN, AW_UNIT_PLAIN, AW_UNIT_PLAIN,
                                                      AW_UNIT_PLAIN, AW_UNIT_SHARE, AW_UNIT_SECONDS,
                                                      AW_UNIT_COUNT};
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    const uint32_t *sizes = full ? many : few, count = full ? 6 : 4;
    const uint32_t table =
        aw_study_report_table(report, "Applications learned from", columns, units);
    const uint32_t plot =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "Reward on applications never seen",
                             "applications learned from", "R per episode");
    const uint32_t series = aw_study_report_series(report, plot, "AWARE, no episode of its own");
    struct lesson lesson[POOLS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        lesson[i] = (struct lesson){.variant = "pool", .learn = sizes[i], .config = *config};
        aw__pretrain_config(config, &lesson[i].pretrain);
        lesson[i].pretrain.rounds = full ? 25 : 8;
        /* as many updates for each: what differs is what there is to learn from */
        lesson[i].pretrain.updates = (2 * sizes[count - 1] + sizes[i] - 1) / sizes[i];
    }
    enum aw_err err = teach_all(config, lesson, count, judged->seeds, alloc, diag);
    for (uint32_t i = 0; !err && i < count; i++) {
        err = judge(&lesson[i], aw__test_first(config), alloc, judged, diag);
        if (err)
            break;
        const struct aw_interval band =
            aw__resampled_mean(judged->seeds, judged->apps, judged->paper);
        const double values[] = {judged->reward, band.low,      band.high,       judged->worst,
                                 judged->missed, judged->cpu_s, judged->episodes};
        err = aw_study_report_row(report, table, values, "%u", sizes[i]);
        err = err ? err
                  : aw_study_report_point(report, plot, series, sizes[i], judged->reward, band.low,
                                          band.high);
        if (sizes[i] == 200) {
            struct aw_study_report_figure *time =
                aw_study_report_figure(report, AW_UNIT_SECONDS, judged->cpu_s,
                                       "CPU time of pretraining on 200 applications");
            if (time) {
                time->paper = 5.2 * 3600; /* of a GPU */
                time->goal = 1800;
                time->lower = true;
            }
        }
        if (!err && sizes[i] <= SHARED_MOST)
            pools_keep(pools, sizes[i]);
    }
    const uint32_t adapted = full ? 16 : 4;
    return err ? err
               : aw__amortize(config, pools->taught, pools->count,
                              judged->apps < adapted ? judged->apps : adapted, alloc, report, diag);
}

enum aw_err aw__experiment_amortization(const struct aw_experiment_config *config,
                                        const struct aw_alloc *alloc,
                                        struct aw_study_report *report, struct aw_diag *diag)
{
    const uint32_t apps = config->scale == AW_EXPERIMENT_FULL ? APPS_MAX : 40;
    struct pools *pools = aw_alloc_new(alloc, 1, sizeof *pools);
    if (!pools)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an experiment");
    judged_begin(&pools->judged, config, config->apps ? config->apps : apps, report);
    const enum aw_err err = amortize(config, alloc, report, pools, diag);
    aw_alloc_free(alloc, pools);
    return err;
}

/* --- ablation --------------------------------------------------------------------------------- */

struct variant {
    const char *name;  /* of its pieces */
    const char *label; /* what is otherwise */
    const char *context[3], *pretrain[2], *pair;
};

static const struct variant variants[] = {
    {"default", "as it is", {0}, {0}, NULL},
    {"blind", "nobody sees the context", {"to_actor=false", "to_critic=false"}, {0}, NULL},
    {"actor-only", "the actor alone sees it (as the paper)", {"to_critic=false"}, {0}, NULL},
    {"no-teacher", "no teacher: critics alone (as the paper)", {0}, {"teacher_tries=0"}, NULL},
    {"teacher-only", "teacher alone, critics are not asked", {"improve=0"}, {0}, NULL},
    {"gru", "a GRU of 32 reads the episodes", {"encoder=gru", "encoder_hidden=32"}, {0}, NULL},
    {"one-episode", "known by one episode", {"episodes=1"}, {"fallback_episodes=1"}, NULL},
    {"no-refresh", "known by the same episodes in every round", {0}, {"refresh=false"}, NULL},
    {"no-noise", "no noise on embeddings", {"context_noise=0"}, {0}, NULL},
    {"jitter", "exploration anew at each step", {0}, {"noise_jitter=1"}, NULL},
    {"no-miss", "a missed SLO costs what R says alone", {0}, {"reward_miss=0"}, NULL},
    {"miss", "a missed SLO costs 0.3 more, not 1", {0}, {"reward_miss=0.3"}, NULL},
    {"absolute", "absolute actions (as the paper)", {0}, {0}, "mapping=absolute"},
};
#define VARIANTS (sizeof variants / sizeof *variants)

static enum aw_err set_all(const struct aw_conf_field *fields, void *values,
                           const char *const *pairs, size_t max, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (size_t i = 0; !err && i < max && pairs[i]; i++)
        err = aw_conf_set_pair(fields, values, pairs[i], diag);
    return err;
}

static enum aw_err lesson_of(const struct aw_experiment_config *config,
                             const struct variant *variant, struct lesson *ret,
                             struct aw_diag *diag)
{
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    *ret = (struct lesson){.variant = variant->name, .learn = full ? 400 : 100, .config = *config};
    struct aw_pretrain_config *pretrain = &ret->pretrain;
    ret->config.pair = variant->pair;
    aw__pretrain_config(&ret->config, pretrain);
    pretrain->rounds = full ? 15 : 6;
    pretrain->updates = full ? 4 : 10;
    enum aw_err err = set_all(aw_context_fields, &pretrain->context, variant->context, 3, diag);
    err = err ? err : set_all(aw_pretrain_fields, pretrain, variant->pretrain, 2, diag);
    ret->config.fallback_episodes = pretrain->fallback_episodes;
    return err;
}

static enum aw_err ablate(const struct aw_experiment_config *config, const struct aw_alloc *alloc,
                          struct aw_study_report *report, struct judged *judged,
                          struct aw_diag *diag)
{
    static const char *const columns[] = {"reward, unseen",    "below as it is", "95 % from", "to",
                                          "worst application", "missed",         "CPU time",  NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_PLAIN,  AW_UNIT_SHARE, AW_UNIT_SHARE,
                                                      AW_UNIT_SHARE,  AW_UNIT_PLAIN, AW_UNIT_SHARE,
                                                      AW_UNIT_SECONDS};
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    const uint32_t table = aw_study_report_table(
        report, "One thing otherwise (applications for validation)", columns, units);
    const uint32_t plot = aw_study_report_plot(report, AW_STUDY_REPORT_BARS,
                                               "Reward below as it is", "", "share of the reward");
    const uint32_t series = aw_study_report_series(report, plot, "one thing otherwise");
    double as_it_is = 0;
    struct lesson lesson[VARIANTS];
    enum aw_err err = AW_OK;
    for (size_t v = 0; !err && v < VARIANTS; v++)
        err = lesson_of(config, &variants[v], &lesson[v], diag);
    err = err ? err : teach_all(config, lesson, VARIANTS, judged->seeds, alloc, diag);
    for (size_t v = 0; !err && v < VARIANTS; v++) {
        err = judge(&lesson[v], aw__check_first(config), alloc, judged, diag);
        if (err)
            break;
        struct aw_interval ratio = {(double)NAN, (double)NAN};
        if (v == 0) {
            as_it_is = judged->reward;
            memcpy(judged->as_it_is, judged->paper, sizeof judged->as_it_is);
        } else {
            ratio =
                aw__resampled_ratio(judged->seeds, judged->apps, judged->paper, judged->as_it_is);
        }
        const double values[] = {judged->reward, 1 - judged->reward / as_it_is,
                                 1 - ratio.high, 1 - ratio.low,
                                 judged->worst,  judged->missed,
                                 judged->cpu_s};
        err = aw_study_report_row(report, table, values, "%s", variants[v].label);
        if (v == 0 || err)
            continue;
        err = aw_study_report_label(report, plot, (double)v, variants[v].name);
        err = err ? err
                  : aw_study_report_point(report, plot, series, (double)v, values[1], values[2],
                                          values[3]);
    }
    aw_study_report_note(report,
                         "Taught on %u applications for %u rounds each; judged without an "
                         "episode of its own. Settings are chosen on these applications, "
                         "which no result is reported of.",
                         full ? 400u : 100u, full ? 15u : 6u);
    return err;
}

enum aw_err aw__experiment_ablation(const struct aw_experiment_config *config,
                                    const struct aw_alloc *alloc, struct aw_study_report *report,
                                    struct aw_diag *diag)
{
    struct judged *judged = aw_alloc_new(alloc, 1, sizeof *judged);
    if (!judged)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an experiment");
    judged_begin(judged, config, AW__CHECK_COUNT, report);
    const enum aw_err err = ablate(config, alloc, report, judged, diag);
    aw_alloc_free(alloc, judged);
    return err;
}
