/*
 * experiment_embedding.c - what embeddings tell: who is like whom, and whether that predicts how
 * badly a policy of one application does in another, and how long it takes to fit there (AWARE
 * Fig. 6, FLASH Fig. 10).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "meta/axes.h"
#include "meta/similarity.h"
#include "study/experiment_internal.h"

#define SOURCES_MAX 40u
#define APPS_MAX    AW__TEST_COUNT
#define KNOWN_MAX   200u /* applications that were learned from, on the map */
#define TUNED_MAX   12u  /* applications that every policy is fine-tuned in */

struct study {
    const struct aw_experiment_config *config;
    const struct aw_alloc *alloc;
    uint32_t sources, apps, episodes, width, known_count;
    char model[AW_EXPERIMENT_PATH_MAX];
    char source[SOURCES_MAX][AW_EXPERIMENT_PATH_MAX];
    float *test, *known; /* embeddings */
    float *of_source;
    struct aw_pretrain_score carried[SOURCES_MAX][APPS_MAX]; /* a source's policy, elsewhere */
    struct aw_pretrain_score aware[APPS_MAX];
    uint32_t tuned, tuned_episodes; /* the first applications, in which policies go on learning */
    struct aw__curve *curve;        /* [sources][tuned] */
    struct aw_adapt_point *points;
};

static enum aw_err make_source(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct study *s = ctx;
    return aw__source(s->config, aw__source_app(s->config, turn), s->episodes, false, s->alloc,
                      s->source[turn], diag);
}

static enum aw_err carry(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct study *s = ctx;
    const struct aw__transfer any = {3e-4, 1e-3, 0.1, 0, 0}; /* nothing is learned */
    struct aw_pretrain_config pretrain;
    struct aw_pretrain_score mean;
    struct aw_pretrain *p = NULL;
    aw__learner_transfer(s->config, &any, s->source[turn], &pretrain);
    pretrain.learn = aw__pool(s->config, aw__source_app(s->config, turn), 1);
    pretrain.check = aw__pool(s->config, aw__test_first(s->config), s->apps);
    enum aw_err err = aw_pretrain_new(&pretrain, s->alloc, &p, diag);
    err = err ? err : aw_pretrain_check(p, &mean, s->carried[turn], diag);
    aw_pretrain_free(p);
    return err;
}

/* --- the map ---------------------------------------------------------------------------------- */

static enum aw_err put(struct aw_study_report *report, uint32_t plot, const char *name,
                       const float *x, uint32_t n, const struct aw_axes *axes)
{
    const uint32_t series = aw_study_report_series(report, plot, name);
    enum aw_err err = AW_OK;
    for (uint32_t r = 0; !err && r < n; r++) {
        double at[2];
        aw_axes_place(axes, x + (size_t)r * axes->dim, at);
        err = aw_study_report_point(report, plot, series, at[0], at[1], (double)NAN, (double)NAN);
    }
    return err;
}

static enum aw_err map(const struct study *s, struct aw_study_report *report)
{
    struct aw_axes axes;
    aw_axes_find(s->known, s->known_count, s->width, &axes);
    const uint32_t plot =
        aw_study_report_plot(report, AW_STUDY_REPORT_DOTS, "Embeddings, projected",
                             "first direction", "second direction");
    enum aw_err err = put(report, plot, "learned from", s->known, s->known_count, &axes);
    return err ? err : put(report, plot, "never seen", s->test, s->apps, &axes);
}

/* --- does it predict? ------------------------------------------------------------------------- */

static double drop_of(const struct study *s, uint32_t source, uint32_t app)
{
    double best = s->aware[app].paper;
    for (uint32_t k = 0; k < s->sources; k++)
        best = fmax(best, s->carried[k][app].paper);
    return 1 - s->carried[source][app].paper / best;
}

/* The likest third of the pairs beside the least like: means of y. */
static void thirds(const double *x, const double *y, uint32_t n, double *ret_like,
                   double *ret_unlike)
{
    double like = 0, unlike = 0, likes = 0, unlikes = 0, sorted[SOURCES_MAX * APPS_MAX];
    memcpy(sorted, x, n * sizeof *x);
    aw_stats_sort(sorted, n);
    const double low = aw_stats_quantile(sorted, n, 1.0 / 3),
                 high = aw_stats_quantile(sorted, n, 2.0 / 3);
    for (uint32_t i = 0; i < n; i++) {
        like += x[i] >= high ? y[i] : 0;
        likes += x[i] >= high;
        unlike += x[i] <= low ? y[i] : 0;
        unlikes += x[i] <= low;
    }
    *ret_like = like / fmax(1, likes);
    *ret_unlike = unlike / fmax(1, unlikes);
}

static double likeness(const struct study *s, uint32_t source, uint32_t app)
{
    return aw_similarity(s->of_source + (size_t)source * s->width, s->test + (size_t)app * s->width,
                         s->width);
}

static enum aw_err predicts(const struct study *s, struct aw_study_report *report)
{
    double *x = aw_alloc_new(s->alloc, 2 * (size_t)s->sources * s->apps, sizeof *x);
    if (!x)
        return AW_ERR_NOMEM;
    double *y = x + (size_t)s->sources * s->apps;
    const uint32_t plot =
        aw_study_report_plot(report, AW_STUDY_REPORT_DOTS, "A policy of one application in another",
                             "similarity S", "drop of reward");
    const uint32_t series = aw_study_report_series(report, plot, "pairs");
    enum aw_err err = AW_OK;
    uint32_t n = 0;
    for (uint32_t k = 0; !err && k < s->sources; k++)
        for (uint32_t a = 0; !err && a < s->apps; a++, n++) {
            x[n] = likeness(s, k, a);
            y[n] = drop_of(s, k, a);
            err = aw_study_report_point(report, plot, series, x[n], y[n], (double)NAN, (double)NAN);
        }
    if (!err)
        (void)aw__figure_rank(report, x, y, s->sources, s->apps,
                              "rank correlation of similarity and drop (pairs)");
    double slope = 0, xx = 0, off = 0, like, unlike;
    const double mx = aw_stats_mean(x, n), my = aw_stats_mean(y, n);
    for (uint32_t i = 0; i < n; i++) {
        slope += (x[i] - mx) * (y[i] - my);
        xx += (x[i] - mx) * (x[i] - mx);
    }
    slope = xx > 0 ? slope / xx : 0;
    for (uint32_t i = 0; i < n; i++) {
        const double residual = y[i] - (my + slope * (x[i] - mx));
        off += residual * residual / n;
    }
    aw_study_report_figure(report, AW_UNIT_PLAIN, slope, "predicted drop: per unit of similarity");
    aw_study_report_figure(report, AW_UNIT_SHARE, my - slope * mx,
                           "predicted drop: at similarity 0");
    aw_study_report_figure(report, AW_UNIT_SHARE, sqrt(off), "predicted drop: its error");
    thirds(x, y, n, &like, &unlike);
    aw_study_report_figure(report, AW_UNIT_SHARE, like, "drop, likest third of pairs");
    aw_study_report_figure(report, AW_UNIT_SHARE, unlike, "drop, least like third of pairs");
    aw_alloc_free(s->alloc, x);
    return err;
}

/* --- and what it takes to fit there ----------------------------------------------------------- */

static const struct aw__transfer as_usual = {3e-4, 1e-3, 0.2, 5, 0};

static enum aw_err tune(struct study *s, struct aw_diag *diag)
{
    const uint32_t count = s->sources * s->tuned;
    const size_t points = (size_t)count * (s->tuned_episodes + 1);
    s->curve = aw_alloc_new(s->alloc, count, sizeof *s->curve);
    s->points = aw_alloc_new(s->alloc, points, sizeof *s->points);
    if (!s->curve || !s->points)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %zu points", points);
    for (uint32_t i = 0; i < count; i++) {
        s->curve[i] = (struct aw__curve){.who = "carried",
                                         .app = aw__test_first(s->config) + i % s->tuned,
                                         .seed = s->config->seed,
                                         .episodes = s->tuned_episodes,
                                         .point = s->points + (size_t)i * (s->tuned_episodes + 1)};
        aw__learner_transfer(s->config, &as_usual, s->source[i / s->tuned], &s->curve[i].pretrain);
    }
    return aw__curves(s->config, s->curve, count, "retraining", s->alloc, diag);
}

/* Converged of an application is the best that any of the policies came to there. */
static enum aw_err retrains(const struct study *s, struct aw_study_report *report)
{
    const uint32_t n = s->sources * s->tuned;
    double x[SOURCES_MAX * TUNED_MAX], y[SOURCES_MAX * TUNED_MAX], never = 0, like, unlike;
    struct aw_pretrain_score best[TUNED_MAX] = {0};
    for (uint32_t i = 0; i < n; i++)
        aw_adapt_best(&best[i % s->tuned], s->curve[i].point, s->tuned_episodes);
    const uint32_t plot = aw_study_report_plot(report, AW_STUDY_REPORT_DOTS,
                                               "Retraining a policy of one application in another",
                                               "similarity S", "episodes to converge");
    const uint32_t series = aw_study_report_series(report, plot, "pairs");
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < n; i++) {
        const struct aw_adapt_measure found = aw_adapt_measure(
            s->curve[i].point, s->tuned_episodes, &best[i % s->tuned], AW__NEAR, AW__WAY, 100);
        x[i] = likeness(s, i / s->tuned, i % s->tuned);
        y[i] = found.episodes;
        never += (double)found.never / n;
        err = aw_study_report_point(report, plot, series, x[i], y[i], (double)NAN, (double)NAN);
    }
    if (err)
        return err;
    (void)aw__figure_rank(report, x, y, s->sources, s->tuned,
                          "rank correlation of similarity and episodes to converge (pairs)");
    thirds(x, y, n, &like, &unlike);
    aw_study_report_figure(report, AW_UNIT_PLAIN, like,
                           "episodes to converge, likest third of pairs");
    aw_study_report_figure(report, AW_UNIT_PLAIN, unlike,
                           "episodes to converge, least like third of pairs");
    aw_study_report_figure(report, AW_UNIT_SHARE, never,
                           "pairs that never converged (of %u episodes)", s->tuned_episodes);
    aw_study_report_note(
        report,
        "Drop: %u policies, each of one application, in %u others. Episodes to "
        "converge: the same policies learn on in the first %u of these, until within "
        "%g %% of the best that any of them came to there; the paper's learner sees "
        "the context (FLASH Fig. 10b), this one does not. Intervals draw policies "
        "anew, then the applications of each.",
        s->sources, s->apps, s->tuned, 100 * AW__NEAR);
    return AW_OK;
}

static enum aw_err run(struct study *s, struct aw_study_report *report, struct aw_diag *diag)
{
    const struct aw_experiment_config *config = s->config;
    struct aw_context_config shape;
    enum aw_err err = aw__model_or_own(config, s->alloc, s->model, diag);
    err = err ? err : aw_context_peek(s->model, &shape, s->alloc, diag);
    if (err)
        return err;
    s->width = shape.settings.embedding;
    s->test = aw_alloc_new(s->alloc, (size_t)s->apps * s->width, sizeof *s->test);
    s->known = aw_alloc_new(s->alloc, (size_t)s->known_count * s->width, sizeof *s->known);
    s->of_source = aw_alloc_new(s->alloc, (size_t)s->sources * s->width, sizeof *s->of_source);
    if (!s->test || !s->known || !s->of_source)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for embeddings");
    err = aw__turns(config, s->sources, "teaching sources", make_source, s, s->alloc, diag);
    err = err ? err : aw__turns(config, s->sources, "carrying over", carry, s, s->alloc, diag);
    err = err ? err
              : aw__zero_shot(config, s->model, aw__test_first(s->config), s->apps, s->alloc,
                              s->aware, NULL, s->test, diag);
    err = err ? err
              : aw__zero_shot(config, s->model, AW__LEARN_FIRST, s->known_count, s->alloc, NULL,
                              NULL, s->known, diag);
    for (uint32_t k = 0; !err && k < s->sources; k++)
        err = aw__zero_shot(config, s->model, aw__source_app(s->config, k), 1, s->alloc, NULL, NULL,
                            s->of_source + (size_t)k * s->width, diag);
    err = err ? err : tune(s, diag);
    err = err ? err : predicts(s, report);
    err = err ? err : retrains(s, report);
    err = err ? err : map(s, report);
    return err;
}

enum aw_err aw__experiment_embedding(const struct aw_experiment_config *config,
                                     const struct aw_alloc *alloc, struct aw_study_report *report,
                                     struct aw_diag *diag)
{
    const bool full = config->scale == AW_EXPERIMENT_FULL;
    struct study *s = aw_alloc_new(alloc, 1, sizeof *s);
    if (!s)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an experiment");
    const uint32_t apps = config->apps ? config->apps : full ? 100 : 30;
    s->config = config;
    s->alloc = alloc;
    s->apps = apps < APPS_MAX ? apps : APPS_MAX;
    s->sources = full ? SOURCES_MAX : 6;
    s->episodes = full ? 200 : 80;
    s->known_count = aw__learn_count(config) < KNOWN_MAX ? aw__learn_count(config) : KNOWN_MAX;
    s->tuned = full ? TUNED_MAX : 4;
    s->tuned = s->tuned < s->apps ? s->tuned : s->apps;
    s->tuned_episodes = full ? 80 : 30;
    report->apps = s->apps;
    report->seeds = 1;
    const enum aw_err err = run(s, report, diag);
    aw_alloc_free(alloc, s->points);
    aw_alloc_free(alloc, s->curve);
    aw_alloc_free(alloc, s->of_source);
    aw_alloc_free(alloc, s->known);
    aw_alloc_free(alloc, s->test);
    aw_alloc_free(alloc, s);
    return err;
}
