/*
 * experiment_models.c - what becomes of a model that is taught otherwise: from fewer applications
 * (FLASH Fig. 15), and without one of its parts.
 */
#include <math.h>
#include <stdio.h>

#include "control/experiment_internal.h"

#define APPS_MAX AW__TEST_COUNT

struct judged {
    struct aw_pretrain_score each[APPS_MAX];
    double reward, missed, worst;
};

static enum aw_err judge(const struct aw_experiment_config *config, const char *model,
                         uint32_t first, uint32_t apps, const struct aw_alloc *alloc,
                         struct judged *ret, struct aw_diag *diag)
{
    enum aw_err err = aw__zero_shot(config, model, first, apps, alloc, ret->each, NULL, NULL, diag);
    ret->reward = ret->missed = 0;
    ret->worst = (double)INFINITY;
    for (uint32_t i = 0; !err && i < apps; i++) {
        ret->reward += ret->each[i].paper / apps;
        ret->missed += ret->each[i].violations / apps;
        ret->worst = fmin(ret->worst, ret->each[i].paper);
    }
    return err;
}

/* --- amortization ----------------------------------------------------------------------------- */

static enum aw_err amortize(const struct aw_experiment_config *config, const struct aw_alloc *alloc,
                            struct aw_findings *findings, struct judged *judged,
                            struct aw_diag *diag)
{
    static const uint32_t few[] = {25, 50, 100, 200}, many[] = {50, 100, 150, 200, 400, 760};
    static const char *const columns[] = {"reward, unseen", "worst application", "missed",
                                          "CPU time",       "episodes",          NULL};
    static const enum aw_findings_unit units[] = {AW_UNIT_PLAIN, AW_UNIT_PLAIN, AW_UNIT_SHARE,
                                                  AW_UNIT_SECONDS, AW_UNIT_COUNT};
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    const uint32_t *sizes = full ? many : few, count = full ? 6 : 4;
    const uint32_t apps = config->apps ? config->apps : full ? APPS_MAX : 40;
    const uint32_t table = aw_findings_table(findings, "Applications learned from", columns, units);
    const uint32_t plot =
        aw_findings_plot(findings, AW_FINDINGS_LINES, "Reward on applications never seen",
                         "applications learned from", "R per episode");
    const uint32_t series = aw_findings_series(findings, plot, "AWARE, no episode of its own");
    findings->apps = apps;
    findings->seeds = 1;
    struct aw_pretrain_config school;
    aw__school(config, &school);
    school.rounds = full ? 25 : 8;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < count; i++) {
        char model[AW_EXPERIMENT_PATH_MAX];
        struct aw__model_cost cost;
        /* as many updates for each: what differs is what there is to learn from */
        school.updates = (2 * sizes[count - 1] + sizes[i] - 1) / sizes[i];
        err = aw__model(config, sizes[i], "pool", &school, alloc, model, &cost, diag);
        err = err ? err : judge(config, model, AW__TEST_FIRST, apps, alloc, judged, diag);
        if (err)
            break;
        const double values[] = {judged->reward, judged->worst, judged->missed, cost.cpu_s,
                                 cost.episodes};
        err = aw_findings_row(findings, table, values, "%u", sizes[i]);
        err = err ? err
                  : aw_findings_point(findings, plot, series, sizes[i], judged->reward, (double)NAN,
                                      (double)NAN);
        if (sizes[i] == 200) {
            struct aw_finding *time =
                aw_findings_figure(findings, AW_UNIT_SECONDS, cost.cpu_s,
                                   "CPU time of pretraining on 200 applications");
            if (time) {
                time->goal = 1800;
                time->lower = true;
            }
            aw_findings_figure(findings, AW_UNIT_COUNT, cost.episodes, "its episodes");
        }
    }
    return err;
}

enum aw_err aw__experiment_amortization(const struct aw_experiment_config *config,
                                        const struct aw_alloc *alloc, struct aw_findings *findings,
                                        struct aw_diag *diag)
{
    struct judged *judged = aw_alloc_new(alloc, 1, sizeof *judged);
    if (!judged)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an experiment");
    const enum aw_err err = amortize(config, alloc, findings, judged, diag);
    aw_alloc_free(alloc, judged);
    return err;
}

/* --- ablation --------------------------------------------------------------------------------- */

struct variant {
    const char *name;  /* of its pieces */
    const char *label; /* what is otherwise */
    const char *context[3], *school[2], *pair;
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

static enum aw_err ablate(const struct aw_experiment_config *config, const struct aw_alloc *alloc,
                          struct aw_findings *findings, struct judged *judged, struct aw_diag *diag)
{
    static const char *const columns[] = {"reward, unseen", "below as it is", "worst application",
                                          "missed",         "CPU time",       NULL};
    static const enum aw_findings_unit units[] = {AW_UNIT_PLAIN, AW_UNIT_SHARE, AW_UNIT_PLAIN,
                                                  AW_UNIT_SHARE, AW_UNIT_SECONDS};
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    const uint32_t apps = AW__CHECK_COUNT;
    const uint32_t table = aw_findings_table(
        findings, "One thing otherwise (applications for validation)", columns, units);
    double as_it_is = 0;
    findings->apps = apps;
    findings->seeds = 1;
    enum aw_err err = AW_OK;
    for (size_t v = 0; !err && v < VARIANTS; v++) {
        struct aw_experiment_config own = *config;
        struct aw_pretrain_config school;
        char model[AW_EXPERIMENT_PATH_MAX];
        struct aw__model_cost cost;
        own.pair = variants[v].pair;
        aw__school(&own, &school);
        school.rounds = full ? 15 : 6;
        school.updates = full ? 4 : 10;
        err = set_all(aw_context_fields, &school.context, variants[v].context, 3, diag);
        err = err ? err : set_all(aw_pretrain_fields, &school, variants[v].school, 2, diag);
        err = err ? err
                  : aw__model(&own, full ? 400 : 100, variants[v].name, &school, alloc, model,
                              &cost, diag);
        own.fallback_episodes = school.fallback_episodes;
        err = err ? err : judge(&own, model, AW__CHECK_FIRST, apps, alloc, judged, diag);
        if (err)
            break;
        if (v == 0)
            as_it_is = judged->reward;
        const double values[] = {judged->reward, 1 - judged->reward / as_it_is, judged->worst,
                                 judged->missed, cost.cpu_s};
        err = aw_findings_row(findings, table, values, "%s", variants[v].label);
    }
    aw_findings_note(findings,
                     "Taught on %u applications for %u rounds each; judged without an "
                     "episode of its own. Settings are chosen on these applications, "
                     "which no result is reported of.",
                     full ? 400u : 100u, full ? 15u : 6u);
    return err;
}

enum aw_err aw__experiment_ablation(const struct aw_experiment_config *config,
                                    const struct aw_alloc *alloc, struct aw_findings *findings,
                                    struct aw_diag *diag)
{
    struct judged *judged = aw_alloc_new(alloc, 1, sizeof *judged);
    if (!judged)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an experiment");
    const enum aw_err err = ablate(config, alloc, findings, judged, diag);
    aw_alloc_free(alloc, judged);
    return err;
}
