/*
 * experiment_crossing.c - what fits one application, carried into others and not taught there.
 *
 * Two things are carried from every source into every application: the policy that was learned in
 * the source, and the constant sizes that fit it best, found by search. The sizes say what there is
 * to lose between these applications; a policy sees what happens and bears some of it.
 */
#include <math.h>

#include "base/cma.h"
#include "study/experiment_internal.h"

#define APPS_MAX AW__CROSSED_MAX
#define PAIRS    ((size_t)APPS_MAX * APPS_MAX)
#define DRAWS    10u
#define TRIES    300u /* of the search for sizes; more of them find nothing better */
#define BINS     4u

struct crossing {
    const struct aw_experiment_config *config;
    const struct aw_alloc *alloc;
    const struct aw__crossed *of;
    float sizes[2 * APPS_MAX][AW_PRETRAIN_ACTIONS_MAX]; /* sources, then applications */
    double best[2 * APPS_MAX];                          /* R with them, where they were found */
    double by_policy[PAIRS], by_sizes[PAIRS];           /* lost, [sources][apps] */
};

static enum aw_err open_at(const struct crossing *c, struct aw_pretrain_config *pretrain,
                           uint32_t app, struct aw_pretrain **ret, struct aw_diag *diag)
{
    pretrain->learn = aw__pool(c->config, app, 1);
    pretrain->seed = c->config->seed;
    return aw_pretrain_new(pretrain, c->alloc, ret, diag);
}

static uint32_t app_at(const struct crossing *c, uint32_t i)
{
    return i < c->of->apps ? aw__source_app(c->config, i)
                           : aw__test_first(c->config) + i - c->of->apps;
}

static void action_of(const double *x, uint32_t dim, float *ret)
{
    for (uint32_t k = 0; k < dim; k++)
        ret[k] = (float)(2 * x[k] - 1);
}

/* The sizes that fit one application best. */
static enum aw_err search_turn(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct crossing *c = ctx;
    struct aw_pretrain_config pretrain;
    struct aw_pretrain *p = NULL;
    struct aw_cma cma;
    double start[AW_CMA_DIM_MAX];
    const uint32_t app = app_at(c, turn);
    for (uint32_t k = 0; k < AW_CMA_DIM_MAX; k++)
        start[k] = 0.5;
    aw__learner_plain(c->config, &pretrain);
    enum aw_err err = open_at(c, &pretrain, app, &p, diag);
    if (err)
        return err;
    const uint32_t dim = aw_context_config(aw_pretrain_context(p))->act_dim;
    aw_cma_init(&cma, dim, start, 0.3, DRAWS, c->config->seed + app);
    for (uint32_t tries = 0; !err && tries < TRIES; tries += DRAWS) {
        double value[DRAWS];
        aw_cma_ask(&cma);
        for (uint32_t d = 0; !err && d < DRAWS; d++) {
            struct aw_pretrain_score score = {0};
            float action[AW_PRETRAIN_ACTIONS_MAX];
            action_of(cma.x[d], dim, action);
            err = aw_pretrain_try_constant(p, 0, action, &score, diag);
            value[d] = -score.paper;
        }
        if (!err)
            aw_cma_tell(&cma, value);
    }
    aw_pretrain_free(p);
    if (err)
        return err;
    action_of(cma.best, dim, c->sizes[turn]);
    c->best[turn] = -cma.best_value;
    return AW_OK;
}

/* Everything that is carried into one application. */
static enum aw_err cross_turn(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct crossing *c = ctx;
    const uint32_t apps = c->of->apps, app = aw__test_first(c->config) + turn;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < apps; i++) {
        struct aw_pretrain_config pretrain;
        struct aw_pretrain_score policy, sizes;
        struct aw_pretrain *p = NULL;
        const size_t pair = (size_t)i * apps + turn;
        aw__learner_transfer(c->config, c->of->how, c->of->source[i], &pretrain);
        err = open_at(c, &pretrain, app, &p, diag);
        err = err ? err : aw_pretrain_try(p, 0, &policy, diag);
        err = err ? err : aw_pretrain_try_constant(p, 0, c->sizes[i], &sizes, diag);
        aw_pretrain_free(p);
        if (err)
            break;
        c->by_policy[pair] = 1 - policy.paper / c->of->converged[turn];
        c->by_sizes[pair] = 1 - sizes.paper / c->best[apps + turn];
    }
    return err;
}

static void figure(const struct crossing *c, struct aw_study_report *report, const double *lost,
                   const char *what)
{
    const uint32_t apps = c->of->apps;
    struct aw_study_report_figure *figure =
        aw_study_report_figure(report, AW_UNIT_SHARE, aw_stats_mean(lost, (size_t)apps * apps),
                               "drop of reward, all %u x %u pairs, %s", apps, apps, what);
    if (!figure)
        return;
    figure->paper = 0.456;
    figure->interval = aw__resampled_mean(apps, apps, lost);
}

/* How many pairs lose how much. */
static enum aw_err spread(const struct crossing *c, struct aw_study_report *report)
{
    static const char *const columns[] = {"policies", "constant sizes", NULL};
    static const enum aw_study_report_unit units[] = {AW_UNIT_SHARE, AW_UNIT_SHARE};
    static const double above[BINS] = {-INFINITY, 0.1, 0.25, 0.5};
    static const char *const label[BINS] = {"below 10 %", "10 to 25 %", "25 to 50 %", "over 50 %"};
    const uint32_t table = aw_study_report_table(
        report, "Pairs of a source and an application, by what is lost", columns, units);
    const uint32_t plot = aw_study_report_plot(report, AW_STUDY_REPORT_BARS,
                                               "How many pairs lose so much", "", "share of pairs");
    const size_t pairs = (size_t)c->of->apps * c->of->apps;
    enum aw_err err = AW_OK;
    (void)aw_study_report_series(report, plot, columns[0]);
    (void)aw_study_report_series(report, plot, columns[1]);
    for (uint32_t b = 0; !err && b < BINS; b++) {
        const double below = b + 1 < BINS ? above[b + 1] : (double)INFINITY;
        double share[2] = {0};
        for (size_t i = 0; i < pairs; i++) {
            share[0] += (c->by_policy[i] > above[b] && c->by_policy[i] <= below) / (double)pairs;
            share[1] += (c->by_sizes[i] > above[b] && c->by_sizes[i] <= below) / (double)pairs;
        }
        err = aw_study_report_row(report, table, share, "%s", label[b]);
        err = err ? err : aw_study_report_label(report, plot, b, label[b]);
        for (uint32_t k = 0; !err && k < 2; k++)
            err = aw_study_report_point(report, plot, k, b, share[k], (double)NAN, (double)NAN);
    }
    return err;
}

enum aw_err aw__cross(const struct aw_experiment_config *config, const struct aw__crossed *of,
                      const struct aw_alloc *alloc, struct aw_study_report *report,
                      struct aw_diag *diag)
{
    AW_ASSERT(of->apps > 0 && of->apps <= APPS_MAX);
    struct crossing *c = aw_alloc_new(alloc, 1, sizeof *c);
    if (!c)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for pairs of applications");
    c->config = config;
    c->alloc = alloc;
    c->of = of;
    enum aw_err err =
        aw__turns(config, 2 * of->apps, "sizes that fit", search_turn, c, alloc, diag);
    err = err ? err : aw__turns(config, of->apps, "carrying over", cross_turn, c, alloc, diag);
    if (!err) {
        figure(c, report, c->by_policy, "policies");
        figure(c, report, c->by_sizes, "constant sizes that fit the source best");
        aw_study_report_note(
            report,
            "All pairs: %u sources, and as many applications that nothing was learned "
            "in. A policy is compared with what the application converges to, constant "
            "sizes with those that fit it best itself, both found by %u tries.",
            of->apps, TRIES);
        err = spread(c, report);
    }
    aw_alloc_free(alloc, c);
    return err;
}
