/*
 * experiment_adaptation.c - how fast who gets used to applications never seen (AWARE Fig. 8, FLASH
 * section 5.2).
 *
 * TL and TL+ are those of experiment_transfer.c. Scratch is the plain learner that has learned
 * nothing yet.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/experiment_internal.h"

enum who { AWARE, TL, TL_PLUS, SCRATCH, WHO_COUNT };
static const char *const who_names[WHO_COUNT] = {"aware", "tl", "tl+", "scratch"}; /* of pieces */
static const char *const who_shown[WHO_COUNT] = {"AWARE", "TL", "TL+", "from scratch"};

#define APPS_MAX  AW__TEST_COUNT
#define SEEDS_MAX 8u

/* What is judged once, beside those that learn. */
struct aside {
    double largest; /* steps missed with the largest sizes there are */
    /* R before the first episode where there are no rails: of AWARE, of a TL taught without them */
    double aware, plain;
};

struct study {
    const struct aw_experiment_config *config;
    const struct aw_alloc *alloc;
    uint32_t apps, seeds;
    uint32_t episodes; /* of every learner */
    char model[AW_EXPERIMENT_PATH_MAX];
    struct aw__tl tl[2]; /* and TL+ */
    struct aw__tl bare;  /* TL that knows R alone and has never had guard rails; not tuned */
    struct aw_adapt_point *points;
    struct aw__curve *curve;             /* [who][app][seed] */
    struct aside *aside;                 /* [app][seed] */
    struct aw_pretrain_score *converged; /* [app][seed], the best of all learners */
};

static struct aw__curve *curve_of(const struct study *s, uint32_t who, uint32_t app, uint32_t seed)
{
    return &s->curve[((size_t)who * s->apps + app) * s->seeds + seed];
}

/* --- curves ----------------------------------------------------------------------------------- */

static enum aw_err lay_out(struct study *s, struct aw_diag *diag)
{
    const size_t points = (size_t)WHO_COUNT * s->apps * s->seeds * (s->episodes + 1);
    s->points = aw_alloc_new(s->alloc, points, sizeof *s->points);
    s->curve = aw_alloc_new(s->alloc, (size_t)WHO_COUNT * s->apps * s->seeds, sizeof *s->curve);
    s->aside = aw_alloc_new(s->alloc, (size_t)s->apps * s->seeds, sizeof *s->aside);
    s->converged = aw_alloc_new(s->alloc, (size_t)s->apps * s->seeds, sizeof *s->converged);
    if (!s->points || !s->curve || !s->aside || !s->converged)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %zu points", points);
    struct aw_adapt_point *at = s->points;
    for (uint32_t w = 0; w < WHO_COUNT; w++)
        for (uint32_t a = 0; a < s->apps; a++)
            for (uint32_t k = 0; k < s->seeds; k++) {
                struct aw__curve *curve = curve_of(s, w, a, k);
                *curve = (struct aw__curve){.who = who_names[w],
                                            .app = aw__test_first(s->config) + a,
                                            .seed = s->config->seed + k,
                                            .episodes = s->episodes,
                                            .point = at};
                at += s->episodes + 1;
                enum aw_err err = AW_OK;
                if (w == AWARE)
                    err = aw__learner_aware(s->config, s->model, &curve->pretrain, diag);
                else if (w == SCRATCH)
                    aw__learner_plain(s->config, &curve->pretrain);
                else
                    aw__tl_pretrain_config(s->config, &s->tl[w == TL_PLUS], a, &curve->pretrain);
                if (err)
                    return err;
            }
    return AW_OK;
}

/* --- aside ------------------------------------------------------------------------------------ */

/* Of a policy, or of the same sizes all the time, without guard rails. */
static enum aw_err bare_try(const struct study *s, uint32_t turn,
                            struct aw_pretrain_config *pretrain, const float *constant,
                            struct aw_pretrain_score *ret, struct aw_diag *diag)
{
    struct aw_pretrain *p = NULL;
    pretrain->learn = aw__pool(s->config, aw__test_first(s->config) + turn / s->seeds, 1);
    pretrain->seed = s->config->seed + turn % s->seeds;
    pretrain->slo_boost = pretrain->oom_boost = false;
    enum aw_err err = aw_pretrain_new(pretrain, s->alloc, &p, diag);
    if (!err)
        err = constant ? aw_pretrain_try_constant(p, 0, constant, ret, diag)
                       : aw_pretrain_try(p, 0, ret, diag);
    aw_pretrain_free(p);
    return err;
}

/* An episode begins with the sizes of its start, and some loads come in batches that nothing
 * foretells: a few steps are missed by whoever asks for the most that is allowed, all the time. And
 * what a plain learner loses in the papers it loses without guard rails. */
static enum aw_err aside_turn(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct study *s = ctx;
    struct aw_pretrain_config pretrain;
    struct aw_pretrain_score most, aware, plain;
    float largest[AW_PRETRAIN_ACTIONS_MAX];
    for (uint32_t k = 0; k < AW_PRETRAIN_ACTIONS_MAX; k++)
        largest[k] = 1;
    enum aw_err err = aw__learner_aware(s->config, s->model, &pretrain, diag);
    err = err ? err : bare_try(s, turn, &pretrain, NULL, &aware, diag);
    aw__tl_pretrain_config(s->config, &s->bare, turn / s->seeds, &pretrain);
    err = err ? err : bare_try(s, turn, &pretrain, NULL, &plain, diag);
    err = err ? err : bare_try(s, turn, &pretrain, largest, &most, diag);
    if (!err)
        s->aside[turn] = (struct aside){most.violations, aware.paper, plain.paper};
    return err;
}

/* --- figures ---------------------------------------------------------------------------------- */

/* What is said of one application, over its seeds. */
struct row {
    double converged;       /* the best of all learners */
    double zero[WHO_COUNT]; /* before the first episode */
    double drop[WHO_COUNT], episodes[WHO_COUNT], never[WHO_COUNT], cpu_s[WHO_COUNT];
    double missed[WHO_COUNT]; /* of judged steps, before the first episode */
    double least;             /* .. by the largest sizes, or by whoever converged with fewest */
    double violations[WHO_COUNT], cpu[WHO_COUNT], memory[WHO_COUNT]; /* on the way */
    double violations_until[WHO_COUNT], cpu_until[WHO_COUNT], memory_until[WHO_COUNT]; /* sums */
    double fallback;
    double bare[TL + 1]; /* drop without guard rails */
};

#define BUDGET 0.01 /* share of steps that may miss the SLO */

static void row_of(const struct study *s, uint32_t app, struct row *ret)
{
    const double share = 1.0 / s->seeds;
    memset(ret, 0, sizeof *ret);
    const struct aw_pretrain_score *converged = &s->converged[(size_t)app * s->seeds];
    for (uint32_t k = 0; k < s->seeds; k++) {
        ret->least += share * s->aside[app * s->seeds + k].largest;
        ret->converged += share * converged[k].paper;
    }
    for (uint32_t w = 0; w < WHO_COUNT; w++) {
        double missed = 0;
        for (uint32_t k = 0; k < s->seeds; k++)
            missed +=
                share * aw_adapt_converged(curve_of(s, w, app, k)->point, s->episodes).violations;
        ret->least = fmin(ret->least, missed);
    }
    for (uint32_t w = 0; w < WHO_COUNT; w++)
        for (uint32_t k = 0; k < s->seeds; k++) {
            const struct aw__curve *curve = curve_of(s, w, app, k);
            const struct aw_adapt_measure at =
                aw_adapt_measure(curve->point, s->episodes, &converged[k], AW__NEAR, AW__WAY, 100);
            ret->zero[w] += share * curve->point[0].judged.paper;
            ret->missed[w] += share * curve->point[0].judged.violations;
            ret->drop[w] += share * at.drop;
            ret->episodes[w] += share * at.episodes;
            ret->never[w] += share * at.never;
            ret->cpu_s[w] += share * at.cpu_s;
            ret->violations[w] += share * at.way.violations;
            ret->cpu[w] += share * at.way.cpu_deficit;
            ret->memory[w] += share * at.way.memory_deficit;
            ret->violations_until[w] += share * at.until.violations;
            ret->cpu_until[w] += share * at.until.cpu_deficit * at.episodes;
            ret->memory_until[w] += share * at.until.memory_deficit * at.episodes;
            if (w == AWARE)
                ret->fallback += share * curve->fallback.paper;
        }
    for (uint32_t k = 0; k < s->seeds; k++) {
        const struct aside *aside = &s->aside[app * s->seeds + k];
        ret->bare[AWARE] += share * (1 - aside->aware / converged[k].paper);
        ret->bare[TL] += share * (1 - aside->plain / converged[k].paper);
    }
}

/* One figure of every application. */
static void column(const struct row *rows, uint32_t n, size_t offset, double *ret)
{
    for (uint32_t i = 0; i < n; i++)
        memcpy(&ret[i], (const char *)&rows[i] + offset, sizeof *ret);
}
#define COLUMN(member, who, to) \
    column(rows, s->apps, offsetof(struct row, member) + (who) * sizeof(double), to)

static void goal(struct aw_study_report_figure *figure, double value, bool lower)
{
    if (!figure)
        return;
    figure->goal = value;
    figure->lower = lower;
}

static void figures(const struct study *s, const struct row *rows, struct aw_study_report *report)
{
    const uint32_t n = s->apps;
    double a[APPS_MAX], b[APPS_MAX];
    COLUMN(drop, AWARE, a);
    goal(aw__figure_mean(report, AW_UNIT_SHARE, a, n, 0.105, "zero-shot drop, AWARE"), 0.05, true);
    aw_study_report_figure(report, AW_UNIT_SHARE, aw_stats_max(a, n),
                           "zero-shot drop, AWARE, worst application");
    COLUMN(drop, TL, b);
    (void)aw__figure_mean(report, AW_UNIT_SHARE, b, n, (double)NAN,
                          "zero-shot drop, plain learner taught on another application");
    COLUMN(bare, AWARE, b);
    (void)aw__figure_mean(report, AW_UNIT_SHARE, b, n, (double)NAN,
                          "zero-shot drop without guard rails, AWARE");
    COLUMN(bare, TL, b);
    (void)aw__figure_mean(
        report, AW_UNIT_SHARE, b, n, s->config->paper ? 0.456 : 0.37,
        "zero-shot drop without guard rails, plain learner taught R without them");
    COLUMN(missed, AWARE, a);
    (void)aw__figure_mean(report, AW_UNIT_SHARE, a, n, (double)NAN,
                          "steps that missed the SLO, AWARE before its first episode");
    column(rows, n, offsetof(struct row, least), b);
    (void)aw__figure_mean(
        report, AW_UNIT_SHARE, b, n, (double)NAN,
        "steps missed by the policy that misses fewest, the largest sizes allowed too");
    double kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        kept += a[i] <= b[i] + BUDGET;
        a[i] = fmax(0, a[i] - b[i]);
    }
    goal(aw__figure_mean(report, AW_UNIT_SHARE, a, n, (double)NAN,
                         "of the steps that AWARE missed then, what someone avoids"),
         BUDGET, true);
    aw_study_report_figure(
        report, AW_UNIT_SHARE, kept / n,
        "applications that AWARE misses at most %g %% of steps more in, before its "
        "first episode",
        100 * BUDGET);
    char name[AW_STUDY_REPORT_TEXT_MAX];
    for (size_t w = 0; w < WHO_COUNT; w++) {
        COLUMN(episodes, w, a);
        snprintf(name, sizeof name, "episodes to converge, %s", who_shown[w]);
        (void)aw__figure_mean(report, AW_UNIT_PLAIN, a, n, (double)NAN, name);
        COLUMN(never, w, a);
        snprintf(name, sizeof name, "runs that never converged, %s (of %u episodes)", who_shown[w],
                 s->episodes);
        aw_study_report_figure(report, AW_UNIT_SHARE, aw_stats_mean(a, n), "%s", name);
    }
    COLUMN(episodes, AWARE, b);
    COLUMN(episodes, TL, a);
    goal(aw__figure_ratio(report, a, b, n, 5.5, "episodes, TL over AWARE"), 10, false);
    COLUMN(episodes, TL_PLUS, a);
    goal(aw__figure_ratio(report, a, b, n, 4.6, "episodes, TL+ over AWARE"), 1, false);
    COLUMN(episodes, SCRATCH, a);
    (void)aw__figure_ratio(report, a, b, n, (double)NAN, "episodes, from scratch over AWARE");
    COLUMN(cpu_s, AWARE, b);
    COLUMN(cpu_s, TL, a);
    (void)aw__figure_ratio(report, a, b, n, 1 / 0.3, "CPU time to converge, TL over AWARE");
    COLUMN(cpu_until, AWARE, b);
    COLUMN(cpu_until, TL_PLUS, a);
    goal(aw__figure_ratio(report, a, b, n, 4.6,
                          "CPU utilization deficit until converged, TL+ over AWARE"),
         4.6, false);
    COLUMN(memory_until, AWARE, b);
    COLUMN(memory_until, TL_PLUS, a);
    goal(aw__figure_ratio(report, a, b, n, 6.2,
                          "memory utilization deficit until converged, TL+ over AWARE"),
         6.2, false);
    COLUMN(violations_until, AWARE, b);
    COLUMN(violations_until, TL_PLUS, a);
    goal(aw__figure_ratio(report, a, b, n, 7.1, "SLO violations until converged, TL+ over AWARE"),
         7.1, false);
    COLUMN(cpu, AWARE, b);
    COLUMN(cpu, TL_PLUS, a);
    (void)aw__figure_ratio(report, a, b, n, (double)NAN,
                           "CPU utilization deficit of the first episodes, TL+ over AWARE");
    COLUMN(memory, AWARE, b);
    COLUMN(memory, TL_PLUS, a);
    (void)aw__figure_ratio(report, a, b, n, (double)NAN,
                           "memory utilization deficit of the first episodes, TL+ over AWARE");
    COLUMN(violations, AWARE, b);
    COLUMN(violations, TL_PLUS, a);
    (void)aw__figure_ratio(report, a, b, n, (double)NAN,
                           "SLO violations of the first episodes, TL+ over AWARE");
    aw_study_report_note(
        report,
        "%u applications never seen, %u seeds. Converged is the best of all learners "
        "in each application, seed by seed; to converge is to come within %g %% of it. Until "
        "converged: summed over the episodes that it took, as lived. The first "
        "episodes: %u of them, for all alike.",
        n, s->seeds, 100 * AW__NEAR, AW__WAY);
}

static enum aw_err table(const struct study *s, const struct row *rows,
                         struct aw_study_report *report)
{
    static const char *const columns[] = {"converged",   "fallback",     "AWARE, 0",     "TL, 0",
                                          "AWARE drop",  "AWARE ep.",    "TL ep.",       "TL+ ep.",
                                          "scratch ep.", "AWARE missed", "least missed", NULL};
    static const enum aw_study_report_unit units[] = {
        AW_UNIT_PLAIN, AW_UNIT_PLAIN, AW_UNIT_PLAIN, AW_UNIT_PLAIN, AW_UNIT_SHARE, AW_UNIT_PLAIN,
        AW_UNIT_PLAIN, AW_UNIT_PLAIN, AW_UNIT_PLAIN, AW_UNIT_SHARE, AW_UNIT_SHARE};
    const uint32_t t =
        aw_study_report_table(report, "Each application (R per episode; episodes)", columns, units);
    enum aw_err err = AW_OK;
    for (uint32_t a = 0; !err && a < s->apps; a++) {
        const struct row *row = &rows[a];
        const double values[] = {
            row->converged,         row->fallback,        row->zero[AWARE],  row->zero[TL],
            row->drop[AWARE],       row->episodes[AWARE], row->episodes[TL], row->episodes[TL_PLUS],
            row->episodes[SCRATCH], row->missed[AWARE],   row->least};
        err = aw_study_report_row(report, t, values, "%u", aw__test_first(s->config) + a);
    }
    return err;
}

/* Judged reward over converged, by episode, mean and interquartile range over applications. */
static enum aw_err plots(const struct study *s, const struct row *rows,
                         struct aw_study_report *report)
{
    const uint32_t plot = aw_study_report_plot(
        report, AW_STUDY_REPORT_LINES, "Reward without noise, over converged (bands: quartiles)",
        "episodes", "share of converged");
    const uint32_t lived =
        aw_study_report_plot(report, AW_STUDY_REPORT_LINES, "Steps that missed the SLO, as lived",
                             "episodes", "share of steps");
    enum aw_err err = AW_OK;
    for (uint32_t w = 0; !err && w < WHO_COUNT; w++) {
        const uint32_t judged = aw_study_report_series(report, plot, who_shown[w]);
        const uint32_t missed = aw_study_report_series(report, lived, who_shown[w]);
        for (uint32_t e = 0; !err && e <= s->episodes; e++) {
            double x[APPS_MAX * SEEDS_MAX], violations = 0;
            uint32_t n = 0;
            for (uint32_t a = 0; a < s->apps; a++)
                for (uint32_t k = 0; k < s->seeds; k++) {
                    const struct aw_adapt_point *point = &curve_of(s, w, a, k)->point[e];
                    x[n++] = point->judged.paper / s->converged[a * s->seeds + k].paper;
                    violations += point->lived.violations / (s->apps * s->seeds);
                }
            const double mean = aw_stats_mean(x, n);
            aw_stats_sort(x, n);
            err =
                aw_study_report_point(report, plot, judged, e, mean, aw_stats_quantile(x, n, 0.25),
                                      aw_stats_quantile(x, n, 0.75));
            if (!err && e > 0)
                err = aw_study_report_point(report, lived, missed, e, violations, (double)NAN,
                                            (double)NAN);
        }
    }
    const uint32_t bars = aw_study_report_plot(report, AW_STUDY_REPORT_DOTS,
                                               "Episodes to converge, applications in order",
                                               "application by rank", "episodes");
    for (uint32_t w = 0; !err && w < WHO_COUNT; w++) {
        const uint32_t series = aw_study_report_series(report, bars, who_shown[w]);
        double x[APPS_MAX];
        COLUMN(episodes, w, x);
        aw_stats_sort(x, s->apps);
        for (uint32_t a = 0; !err && a < s->apps; a++)
            err =
                aw_study_report_point(report, bars, series, a + 1, x[a], (double)NAN, (double)NAN);
    }
    return err;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void sizes(struct study *s)
{
    const struct aw_experiment_config *config = s->config;
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    const uint32_t apps = config->apps ? config->apps : full ? 60 : 12;
    const uint32_t seeds = config->seeds ? config->seeds : full ? 3 : 1;
    s->apps = apps < APPS_MAX ? apps : APPS_MAX;
    s->seeds = seeds < SEEDS_MAX ? seeds : SEEDS_MAX;
    s->episodes = full ? 200 : 80;
}

static enum aw_err run(struct study *s, struct aw_study_report *report, struct aw_diag *diag)
{
    const struct aw_experiment_config *config = s->config;
    enum aw_err err = aw__model_or_own(config, s->alloc, s->model, diag);
    for (uint32_t plus = 0; !err && plus < 2; plus++)
        err = aw__tl_make(config, plus == 1, s->model, s->alloc, report, &s->tl[plus], diag);
    struct aw_experiment_config bare = *config;
    bare.bare = true;
    err = err ? err : aw__tl_teach(&bare, false, s->alloc, &s->bare, diag);
    err = err ? err : lay_out(s, diag);
    err = err ? err
              : aw__curves(config, s->curve, WHO_COUNT * s->apps * s->seeds, "adapting", s->alloc,
                           diag);
    err = err ? err
              : aw__turns(config, s->apps * s->seeds, "what is judged aside", aside_turn, s,
                          s->alloc, diag);
    if (err)
        return err;
    struct row *rows = aw_alloc_new(s->alloc, s->apps, sizeof *rows);
    if (!rows)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u applications", s->apps);
    for (uint32_t w = 0; w < WHO_COUNT; w++)
        for (uint32_t i = 0; i < s->apps * s->seeds; i++)
            aw_adapt_best(&s->converged[i], curve_of(s, w, 0, i)->point, s->episodes);
    for (uint32_t a = 0; a < s->apps; a++)
        row_of(s, a, &rows[a]);
    figures(s, rows, report);
    err = table(s, rows, report);
    err = err ? err : plots(s, rows, report);
    if (err)
        aw_fail(diag, err, "the report is larger than a page can have");
    aw_alloc_free(s->alloc, rows);
    return err;
}

enum aw_err aw__experiment_adaptation(const struct aw_experiment_config *config,
                                      const struct aw_alloc *alloc, struct aw_study_report *report,
                                      struct aw_diag *diag)
{
    struct study *s = aw_alloc_new(alloc, 1, sizeof *s);
    if (!s)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an experiment");
    s->config = config;
    s->alloc = alloc;
    sizes(s);
    report->apps = s->apps;
    report->seeds = s->seeds;
    const enum aw_err err = run(s, report, diag);
    aw_alloc_free(alloc, s->converged);
    aw_alloc_free(alloc, s->aside);
    aw_alloc_free(alloc, s->points);
    aw_alloc_free(alloc, s->curve);
    aw_alloc_free(alloc, s);
    return err;
}
