/*
 * experiment_amortization.c - what an application costs in episodes where pretraining is shared by
 * all that are adapted to, beside TL that has none (FLASH Fig. 15).
 *
 * An application's cost is (episodes of pretraining) / N + episodes of fine-tuning; TL's is what it
 * takes to converge, and what its source was taught is left out. So N is where pretraining is paid
 * back: N = pretraining / (TL - fine-tuning). It is said twice: with the episodes of the policy,
 * which are what the paper counts, and with all that were simulated: those of the fallback, of the
 * search for teachers and of the checks too, and the fallback's by which a new application is
 * known.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/experiment_internal.h"

#define POOLS_MAX        8u
#define SHOWN_PER_DECADE 8u /* points of a line */
#define DECADES          5u /* of applications that are adapted to */

struct study {
    const struct aw_experiment_config *config;
    const struct aw_alloc *alloc;
    const struct aw__taught *taught; /* [pools] */
    uint32_t pools, seeds, apps;
    uint32_t episodes; /* of every learner: who never converges is counted with as many */
    uint32_t known_by; /* of the fallback in a new application */
    struct aw__tl tl;
    struct aw__curve *curve; /* [pools + 1][seeds][apps]; the last is TL */
    struct aw_adapt_point *points;
    double *cost; /* [pools + 1][seeds][apps], episodes to converge */
    double never[POOLS_MAX + 1];
};

static uint32_t at(const struct study *s, uint32_t who, uint32_t seed, uint32_t app)
{
    return (who * s->seeds + seed) * s->apps + app;
}

static const double *costs_of(const struct study *s, uint32_t who)
{
    return s->cost + at(s, who, 0, 0);
}

static enum aw_err lay_out(struct study *s, struct aw_diag *diag)
{
    const size_t curves = (size_t)(s->pools + 1) * s->seeds * s->apps;
    const size_t points = curves * (s->episodes + 1);
    s->curve = aw_alloc_new(s->alloc, curves, sizeof *s->curve);
    s->cost = aw_alloc_new(s->alloc, curves, sizeof *s->cost);
    s->points = aw_alloc_new(s->alloc, points, sizeof *s->points);
    if (!s->curve || !s->cost || !s->points)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %zu points", points);
    struct aw_adapt_point *next = s->points;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < curves; i++) {
        const uint32_t app = i % s->apps, seed = i / s->apps % s->seeds,
                       who = i / s->apps / s->seeds;
        struct aw__curve *curve = &s->curve[i];
        const bool tl = who == s->pools;
        *curve = (struct aw__curve){.who = tl ? "tl" : "aware",
                                    .app = aw__test_first(s->config) + app,
                                    .seed = s->config->seed + seed,
                                    .episodes = s->episodes,
                                    .point = next};
        next += curve->episodes + 1;
        if (tl)
            aw__tl_pretrain_config(s->config, &s->tl, app, &curve->pretrain);
        else
            err = aw__learner_aware(s->config, s->taught[who].model[seed], &curve->pretrain, diag);
        if (!tl && !err)
            s->known_by = curve->pretrain.fallback_episodes;
    }
    return err;
}

/* Converged of an application is the best of all learners, seed by seed. */
static void measure(struct study *s)
{
    memset(s->never, 0, sizeof s->never);
    for (uint32_t i = 0; i < s->seeds * s->apps; i++) { /* a seed's application */
        struct aw_pretrain_score best = {0};
        for (uint32_t who = 0; who <= s->pools; who++)
            aw_adapt_best(&best, s->curve[at(s, who, 0, i)].point, s->episodes);
        for (uint32_t who = 0; who <= s->pools; who++) {
            const uint32_t k = at(s, who, 0, i);
            const struct aw_adapt_measure found =
                aw_adapt_measure(s->curve[k].point, s->episodes, &best, AW__NEAR, AW__WAY, 100);
            s->cost[k] = found.episodes;
            s->never[who] += (double)found.never / (s->seeds * s->apps);
        }
    }
}

/* --- where lines cross ------------------------------------------------------------------------ */

struct crossing {
    const double *aware, *tl;    /* [seeds][apps] */
    double pretraining, besides; /* episodes of all; of each new application, beside fine-tuning */
};

/* Of those that are picked; NULL: of the first n. */
static double crossing_of(const void *ctx, const uint32_t *pick, uint32_t n)
{
    const struct crossing *c = ctx;
    double saved = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t k = pick ? pick[i] : i;
        saved += (c->tl[k] - c->aware[k] - c->besides) / n;
    }
    return saved > 0 ? c->pretraining / saved : (double)INFINITY;
}

static double crossing_all(const struct study *s, const struct crossing *c)
{
    return crossing_of(c, NULL, s->seeds * s->apps);
}

static struct crossing crossing_at(const struct study *s, uint32_t pool, bool all)
{
    const struct aw_pretrain_episodes *lived = &s->taught[pool].episodes;
    return (struct crossing){
        .aware = costs_of(s, pool),
        .tl = costs_of(s, s->pools),
        .pretraining = lived->policy + (all ? lived->fallback + lived->search + lived->checks : 0),
        .besides = all ? s->known_by : 0};
}

/* --- what is told ----------------------------------------------------------------------------- */

static double mean_of(const struct study *s, uint32_t who)
{
    return aw_stats_mean(costs_of(s, who), s->seeds * s->apps);
}

static void figure(struct aw_study_report *report, enum aw_study_report_unit unit, double value,
                   struct aw_interval interval, double paper, const char *what, uint32_t apps)
{
    struct aw_study_report_figure *figure =
        aw_study_report_figure(report, unit, value, "%s, pool of %u", what, apps);
    if (!figure)
        return;
    figure->interval = interval;
    figure->paper = paper;
}

/* Of the pools that the paper gives figures of. */
static void figures(const struct study *s, struct aw_study_report *report)
{
    static const struct {
        uint32_t apps;
        double pretraining, tuning, crossing; /* FLASH section A.7 */
    } published[] = {{100, 5800, 83.5, (double)NAN}, {200, 6900, 41.8, 60}};
    const struct aw_interval none = {(double)NAN, (double)NAN};
    for (uint32_t p = 0; p < s->pools; p++)
        for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
            const struct aw__taught *taught = &s->taught[p];
            const uint32_t apps = taught->apps;
            if (apps != published[i].apps)
                continue;
            figure(report, AW_UNIT_COUNT, taught->episodes.policy, none, published[i].pretraining,
                   "episodes of pretraining, of the policy", apps);
            figure(report, AW_UNIT_COUNT, taught->episodes.fallback, none, (double)NAN,
                   "episodes of pretraining, of the fallback", apps);
            figure(report, AW_UNIT_COUNT, taught->episodes.search, none, (double)NAN,
                   "episodes of pretraining, of the search for teachers", apps);
            figure(report, AW_UNIT_COUNT, taught->episodes.checks, none, (double)NAN,
                   "episodes of pretraining, to choose the checkpoint", apps);
            figure(report, AW_UNIT_PLAIN, mean_of(s, p),
                   aw__resampled_mean(s->seeds, s->apps, costs_of(s, p)), published[i].tuning,
                   "episodes of fine-tuning", apps);
            for (uint32_t all = 0; all < 2; all++) {
                const struct crossing c = crossing_at(s, p, all);
                figure(report, AW_UNIT_COUNT, crossing_all(s, &c),
                       aw__resampled(s->seeds, s->apps, crossing_of, &c),
                       all ? (double)NAN : published[i].crossing,
                       all ? "applications until cheaper than TL, all episodes"
                           : "applications until cheaper than TL, the policy's episodes",
                       apps);
            }
        }
    struct aw_study_report_figure *tl = aw_study_report_figure(
        report, AW_UNIT_PLAIN, mean_of(s, s->pools), "episodes to converge, TL");
    if (tl)
        tl->interval = aw__resampled_mean(s->seeds, s->apps, costs_of(s, s->pools));
}

static enum aw_err table(const struct study *s, struct aw_study_report *report)
{
    static const char *const columns[] = {"policy", "fallback",    "search",
                                          "checks", "fine-tuning", "95 % from",
                                          "to",     "never",       "paid back at, policy",
                                          "from",   "to",          "paid back at, all",
                                          NULL};
    static const enum aw_study_report_unit units[] = {
        AW_UNIT_COUNT, AW_UNIT_COUNT, AW_UNIT_COUNT, AW_UNIT_COUNT, AW_UNIT_PLAIN, AW_UNIT_PLAIN,
        AW_UNIT_PLAIN, AW_UNIT_SHARE, AW_UNIT_COUNT, AW_UNIT_COUNT, AW_UNIT_COUNT, AW_UNIT_COUNT};
    const uint32_t t = aw_study_report_table(
        report, "Episodes of pretraining and of fine-tuning, by applications learned from", columns,
        units);
    enum aw_err err = AW_OK;
    for (uint32_t p = 0; !err && p <= s->pools; p++) {
        const struct aw_interval band = aw__resampled_mean(s->seeds, s->apps, costs_of(s, p));
        double values[] = {0,           0,          0,           0,           mean_of(s, p),
                           band.low,    band.high,  s->never[p], (double)NAN, (double)NAN,
                           (double)NAN, (double)NAN};
        if (p == s->pools) {
            err = aw_study_report_row(report, t, values, "TL");
            break;
        }
        const struct aw_pretrain_episodes *lived = &s->taught[p].episodes;
        const struct crossing policy = crossing_at(s, p, false), all = crossing_at(s, p, true);
        const struct aw_interval where = aw__resampled(s->seeds, s->apps, crossing_of, &policy);
        values[0] = lived->policy;
        values[1] = lived->fallback;
        values[2] = lived->search;
        values[3] = lived->checks;
        values[8] = crossing_all(s, &policy);
        values[9] = where.low;
        values[10] = where.high;
        values[11] = crossing_all(s, &all);
        err = aw_study_report_row(report, t, values, "%u", s->taught[p].apps);
    }
    return err;
}

static enum aw_err plot(const struct study *s, bool all, struct aw_study_report *report)
{
    const uint32_t plot =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES,
                             all ? "Cost of an application, all episodes that were simulated"
                                 : "Cost of an application, episodes of the policy",
                             "applications that are adapted to", "episodes per application");
    enum aw_err err = AW_OK;
    if (plot < AW_STUDY_REPORT_PLOTS_MAX)
        report->plot[plot].log = true;
    for (uint32_t who = 0; !err && who <= s->pools; who++) {
        char name[64] = "TL";
        struct crossing c = {0};
        if (who < s->pools) {
            c = crossing_at(s, who, all);
            snprintf(name, sizeof name, "pool of %u", s->taught[who].apps);
        }
        const uint32_t series = aw_study_report_series(report, plot, name);
        for (uint32_t i = 0; !err && i <= SHOWN_PER_DECADE * DECADES; i++) {
            const double n = pow(10, (double)i / SHOWN_PER_DECADE);
            err = aw_study_report_point(report, plot, series, n,
                                        c.pretraining / n + mean_of(s, who) + c.besides,
                                        (double)NAN, (double)NAN);
        }
    }
    return err;
}

static enum aw_err run(struct study *s, struct aw_study_report *report, struct aw_diag *diag)
{
    enum aw_err err = aw__tl_make(s->config, false, s->taught[s->pools - 1].model[0], s->alloc,
                                  report, &s->tl, diag);
    err = err ? err : lay_out(s, diag);
    err = err ? err
              : aw__curves(s->config, s->curve, (s->pools + 1) * s->seeds * s->apps, "adapting",
                           s->alloc, diag);
    if (err)
        return err;
    measure(s);
    figures(s, report);
    err = table(s, report);
    err = err ? err : plot(s, false, report);
    err = err ? err : plot(s, true, report);
    aw_study_report_note(
        report,
        "Fine-tuning: %u applications never seen, %u seeds, at most %u episodes; "
        "within %g %% of the best of all learners there. Paid back at: so many "
        "applications until (pretraining / N) + fine-tuning is less than TL takes, "
        "whose source cost nothing here. All: what the fallback, the search for "
        "teachers and the checks simulated too, and %u episodes of the fallback by "
        "which each new application is known.",
        s->apps, s->seeds, s->episodes, 100 * AW__NEAR, s->known_by);
    aw_study_report_note(report,
                         "Published: FLASH section A.7, whose TL trains one model on and on "
                         "from one application to the next. It is cheaper than TL from more "
                         "than 60 applications on; of which pool is not said.");
    return err;
}

enum aw_err aw__amortize(const struct aw_experiment_config *config, const struct aw__taught *taught,
                         uint32_t count, uint32_t apps, const struct aw_alloc *alloc,
                         struct aw_study_report *report, struct aw_diag *diag)
{
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    AW_ASSERT(count > 0 && count <= POOLS_MAX && apps > 0);
    struct study *s = aw_alloc_new(alloc, 1, sizeof *s);
    if (!s)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an experiment");
    s->config = config;
    s->alloc = alloc;
    s->taught = taught;
    s->pools = count;
    s->seeds = taught->seeds;
    s->apps = apps;
    s->episodes = full ? 150 : 40;
    const enum aw_err err = run(s, report, diag);
    aw_alloc_free(alloc, s->points);
    aw_alloc_free(alloc, s->cost);
    aw_alloc_free(alloc, s->curve);
    aw_alloc_free(alloc, s);
    return err;
}
