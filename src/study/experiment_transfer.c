/*
 * experiment_transfer.c - whom a policy with context is compared with: TL, a plain learner that was
 * taught on one application and carries its weights to another, with exploration restarted.
 *
 * Its rates, its noise, how long its actor rests and whether it only searches for offsets
 * (pretrain.h) are searched for on applications for validation. TL+ is the same with a forecast of
 * the load and a table of what allocations did in its state.
 */
#include <stdio.h>
#include <string.h>

#include "study/experiment_internal.h"

#define TUNE_APPS 10u

static const struct aw__transfer choices[] = {
    /* actor   critic  noise  rests  offset_search */
    {3e-4, 1e-3, 0.2, 0, 0},  {3e-4, 1e-3, 0.2, 5, 0},  {3e-4, 1e-3, 0.1, 5, 0},
    {1e-3, 1e-3, 0.2, 5, 0},  {1e-3, 3e-3, 0.2, 5, 0},  {1e-4, 1e-3, 0.2, 5, 0},
    {3e-4, 3e-3, 0.3, 0, 0},  {1e-3, 1e-3, 0.1, 0, 0},  {1e-4, 1e-3, 0.1, 10, 0},
    {3e-4, 3e-3, 0.1, 10, 0}, {1e-3, 3e-3, 0.05, 5, 0}, {1e-3, 1e-3, 0.02, 5, 0},
    {0, 0, 0, 0, 0.1},        {0, 0, 0, 0, 0.2},        {0, 0, 0, 0, 0.6},
    {0, 0, 0, 0, 0.3},
};
#define CHOICES (sizeof choices / sizeof *choices)
/* Beside them who begins from scratch, and AWARE: what can be reached, as where it is reported. */
#define SCRATCH CHOICES
#define AWARE   (CHOICES + 1)
#define TUNED   (CHOICES + 2)

/* --- sources ---------------------------------------------------------------------------------- */

struct sources {
    const struct aw_experiment_config *config;
    const struct aw_alloc *alloc;
    uint32_t episodes;
    struct aw__tl *tl;
};

static enum aw_err make_source(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct sources *all = ctx;
    return aw__source(all->config, aw__source_app(all->config, turn), all->episodes, all->tl->plus,
                      all->alloc, all->tl->source[turn], diag);
}

void aw__tl_pretrain_config(const struct aw_experiment_config *config, const struct aw__tl *tl,
                            uint32_t i, struct aw_pretrain_config *ret)
{
    aw__learner_transfer(config, &tl->how, tl->source[i % tl->sources], ret);
    ret->foresight = tl->plus;
}

/* --- tuning ----------------------------------------------------------------------------------- */

/* Episodes to converge, over applications for validation, of each choice; converged is the best of
 * all of them, of who began from scratch and of AWARE. */
static void judge_choices(const struct aw__curve *curve, uint32_t episodes, double *ret)
{
    memset(ret, 0, CHOICES * sizeof *ret);
    for (uint32_t a = 0; a < TUNE_APPS; a++) {
        struct aw_pretrain_score best = {0};
        for (size_t c = 0; c < TUNED; c++)
            aw_adapt_best(&best, curve[c * TUNE_APPS + a].point, episodes);
        for (size_t c = 0; c < CHOICES; c++)
            ret[c] += (double)aw_adapt_measure(curve[c * TUNE_APPS + a].point, episodes, &best,
                                               AW__NEAR, AW__WAY, 100)
                          .episodes /
                      TUNE_APPS;
    }
}

/* Who lives a curve of this choice. */
static enum aw_err tune_pretrain_config(const struct aw_experiment_config *config, size_t choice,
                                        const char *model, struct aw__tl *tl,
                                        struct aw__curve *curve, struct aw_diag *diag)
{
    if (choice == AWARE) {
        curve->who = "tune-aware";
        return aw__learner_aware(config, model, &curve->pretrain, diag);
    }
    if (choice == SCRATCH) {
        curve->who = "tune-scratch";
        aw__learner_plain(config, &curve->pretrain);
        return AW_OK;
    }
    curve->who = tl->plus ? "tune-tl+" : "tune-tl";
    tl->how = choices[choice];
    aw__tl_pretrain_config(config, tl, curve->app, &curve->pretrain);
    return AW_OK;
}

static enum aw_err tune(const struct aw_experiment_config *config, uint32_t episodes,
                        const char *model, const struct aw_alloc *alloc,
                        struct aw_study_report *report, struct aw__tl *tl, struct aw_diag *diag)
{
    const uint32_t count = TUNED * TUNE_APPS, points = episodes + 1;
    struct aw__curve *curve = aw_alloc_new(alloc, count, sizeof *curve);
    struct aw_adapt_point *point = aw_alloc_new(alloc, (size_t)count * points, sizeof *point);
    enum aw_err err = curve && point ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory to tune");
    for (uint32_t i = 0; !err && i < count; i++) {
        curve[i] = (struct aw__curve){.app = aw__check_first(config) + i % TUNE_APPS,
                                      .seed = config->seed,
                                      .episodes = episodes,
                                      .point = point + (size_t)i * points};
        err = tune_pretrain_config(config, i / TUNE_APPS, model, tl, &curve[i], diag);
    }
    err =
        err ? err
            : aw__curves(config, curve, count, tl->plus ? "tuning TL+" : "tuning TL", alloc, diag);
    double value[CHOICES];
    size_t best = 0;
    if (!err) {
        judge_choices(curve, episodes, value);
        for (size_t c = 1; c < CHOICES; c++)
            best = value[c] < value[best] ? c : best;
        tl->how = choices[best];
        char how[160];
        if (tl->how.offset_search > 0)
            snprintf(how, sizeof how, "leaning %g at a time", tl->how.offset_search);
        else
            snprintf(how, sizeof how,
                     "rates of %g (actor) and %g (critic), noise %g, actor at rest for %u episodes",
                     tl->how.actor_lr, tl->how.critic_lr, tl->how.noise, tl->how.rests);
        aw_study_report_note(
            report,
            "%s was tuned on %u applications for validation: of %zu settings, %s took "
            "the fewest episodes to what anybody, AWARE too, came to there (%.1f; the "
            "worst took %.1f).",
            tl->plus ? "TL+" : "TL", TUNE_APPS, CHOICES, how, value[best],
            aw_stats_max(value, CHOICES));
    }
    aw_alloc_free(alloc, point);
    aw_alloc_free(alloc, curve);
    return err;
}

enum aw_err aw__tl_teach(const struct aw_experiment_config *config, bool plus,
                         const struct aw_alloc *alloc, struct aw__tl *ret, struct aw_diag *diag)
{
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    struct sources sources = {config, alloc, full ? 200 : 80, ret};
    ret->plus = plus;
    ret->sources = full ? 6 : 2;
    return aw__turns(config, ret->sources,
                     plus ? "teaching sources of TL+" : "teaching sources of TL", make_source,
                     &sources, alloc, diag);
}

enum aw_err aw__tl_make(const struct aw_experiment_config *config, bool plus, const char *model,
                        const struct aw_alloc *alloc, struct aw_study_report *report,
                        struct aw__tl *ret, struct aw_diag *diag)
{
    const uint32_t episodes = config->scale == AW_EXPERIMENT_FULL ? 100 : 40;
    const enum aw_err err = aw__tl_teach(config, plus, alloc, ret, diag);
    return err ? err : tune(config, episodes, model, alloc, report, ret, diag);
}
