/*
 * pretrain_predict.c - what likeness tells of a model in a new application: two lines over it.
 *
 * All applications for validation are like some that the model knows, so that they alone say
 * nothing about one that is not. Therefore the policy also acts in each of them as if it were one
 * of those known, from the likest to the least like: what it loses by that, over the similarity of
 * the two, is what not knowing anybody nearer costs. The line has that slope, and goes through what
 * the applications came to with their own embeddings:
 *
 *   drop(S) = mean own drop + slope (S - mean own similarity)
 *   slope   = sum of (1 - S) (own drop - drop as another) / sum of (1 - S)^2
 *
 * Pairs of one application are not independent: the slope's error is that of the sums of
 * applications (a cluster-robust sandwich; Cameron and Miller, J. Human Resources 50, 2015, II.B).
 */
#include <math.h>
#include <stdlib.h>

#include "base/parallel_tasks.h"
#include "base/stats.h"
#include "meta/known_apps.h"
#include "meta/similarity.h"
#include "pretrain/adapt.h"
#include "pretrain/pretrain_internal.h"

#define NEAR      0.03 /* within so much of converged is converged, as in all results */
#define FEWEST    3u
#define CHECK_MAX 1000u
#define OTHERS    8u /* known ones that an application is taken for */

/* Of one application. */
struct measured {
    double similarity, drop, episodes;        /* with its own embedding */
    double other[OTHERS], other_drop[OTHERS]; /* similarity, and drop, as another */
    uint32_t others;
};

struct prediction {
    struct aw_pretrain *p;
    const char *path;
    uint32_t episodes;
    const struct aw_known_apps *known;
    struct measured *measured; /* [check.count] */
};

static int falling(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a < b) - (a > b);
}

/* The policy in the application as if it were another: evenly by rank, from the likest known one to
 * the least like. */
static enum aw_err as_others(const struct prediction *all, struct aw_pretrain *p, double converged,
                             struct measured *m, struct aw_diag *diag)
{
    const struct aw_known_apps *known = all->known;
    const uint32_t dim = known->dim, others = known->count < OTHERS ? known->count : OTHERS;
    enum aw_err err = aw_pretrain_meet(p, diag);
    if (err)
        return err;
    struct place {
        double similarity;
        uint32_t index;
    } *place = aw_alloc_new(p->alloc, known->count, sizeof *place);
    if (!place)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u applications", known->count);
    const float *own = aw_context_embed(p->context, 0);
    for (uint32_t k = 0; k < known->count; k++)
        place[k] = (struct place){aw_similarity(own, known->embedding + (size_t)k * dim, dim), k};
    qsort(place, known->count, sizeof *place, falling); /* the similarity comes first in it */
    m->similarity = place[0].similarity;
    for (uint32_t o = 0; !err && o < others; o++) {
        const struct place *at =
            &place[others > 1 ? (size_t)o * (known->count - 1) / (others - 1) : 0];
        struct aw_pretrain_score score;
        err = aw_pretrain_try_as(p, 0, known->embedding + (size_t)at->index * dim, &score, diag);
        m->other[o] = at->similarity;
        m->other_drop[o] = 1 - score.paper / converged;
    }
    m->others = err ? 0 : others;
    aw_alloc_free(p->alloc, place);
    return err;
}

static enum aw_err measure_turn(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct prediction *all = ctx;
    const struct aw_alloc *alloc = all->p->alloc;
    struct aw_pretrain_config one = all->p->config;
    struct aw_pretrain *p = NULL;
    one.learn = one.check;
    one.learn.first += turn;
    one.learn.count = 1;
    one.check = (struct aw_pretrain_pool){0};
    one.team = (struct aw_pretrain_team){0};
    one.progress = NULL;
    one.threads = 1;
    one.rounds = all->episodes;
    one.model = all->path;
    aw_pretrain_config_adapt(&one);
    struct aw_adapt_point *point = aw_alloc_new(alloc, all->episodes + 1, sizeof *point);
    if (!point)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u episodes", all->episodes);
    enum aw_err err = aw_adapt_run(&one, all->episodes, alloc, point, NULL, diag);
    if (!err) {
        struct measured *m = &all->measured[turn];
        const struct aw_pretrain_score converged = aw_adapt_converged(point, all->episodes);
        const struct aw_adapt_measure own =
            aw_adapt_measure(point, all->episodes, &converged, NEAR, 0, all->p->steps);
        m->drop = own.drop;
        m->episodes = own.episodes;
        err = aw_pretrain_new(&one, alloc, &p, diag);
        err = err ? err : as_others(all, p, converged.paper, m, diag);
        aw_pretrain_free(p);
    }
    aw_alloc_free(alloc, point);
    return err;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* Student's t at 95 %, both sides, by the first terms of its expansion (Cornish and Fisher): 4.2
 * for 2, 2.57 for 5, 2.02 for 39. */
static double student(double freedom)
{
    return 1.96 + (2.37 + (2.82 + 2.56 / freedom) / freedom) / freedom;
}

/* Through the mean of x and y, which are of one application each. */
static void line_place(struct aw_known_apps_line *line, const double *x, const double *y,
                       uint32_t n)
{
    line->at = aw_stats_mean(x, n);
    line->intercept = aw_stats_mean(y, n) - line->slope * line->at;
    line->lowest = fmin(line->lowest, aw_stats_min(x, n));
    line->related = line->slope + student(n - 1) * line->error < 0;
    double off = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double guess = line->slope * (line->related ? x[i] : line->at) + line->intercept;
        off += (y[i] - guess) * (y[i] - guess);
    }
    line->deviation = sqrt(off / (n - 1 - line->related));
    line->there = true;
}

static struct aw_known_apps_line drop_line(const struct measured *m, uint32_t n, const double *x)
{
    struct aw_known_apps_line line = {.lowest = 1};
    double y[CHECK_MAX], xy = 0, xx = 0, sums = 0, off = 0;
    for (uint32_t i = 0; i < n; i++) {
        y[i] = m[i].drop;
        for (uint32_t o = 0; o < m[i].others; o++) {
            const double away = 1 - m[i].other[o];
            xy += away * (m[i].drop - m[i].other_drop[o]);
            xx += away * away;
            line.lowest = fmin(line.lowest, m[i].other[o]);
        }
    }
    line.slope = xx > 0 ? xy / xx : 0;
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0;
        for (uint32_t o = 0; o < m[i].others; o++) {
            const double away = 1 - m[i].other[o];
            const double residual = m[i].drop - m[i].other_drop[o] - line.slope * away;
            sum += away * residual;
            off += residual * residual;
        }
        sums += sum * sum;
    }
    line.error = xx > 0 ? sqrt(sums * n / (n - 1)) / xx : 0;
    line.growth = xx > 0 ? sqrt(off / xx) : 0;
    line_place(&line, x, y, n);
    line.deviation = fmax(line.deviation, AW_KNOWN_APPS_DROP_DEVIATION_MIN);
    return line;
}

static struct aw_known_apps_line episodes_line(const struct measured *m, uint32_t n,
                                               const double *x)
{
    struct aw_known_apps_line line = {.lowest = 1};
    double y[CHECK_MAX], xy = 0, xx = 0, sums = 0;
    const double mean = aw_stats_mean(x, n);
    for (uint32_t i = 0; i < n; i++) {
        y[i] = m[i].episodes;
        xy += (x[i] - mean) * y[i];
        xx += (x[i] - mean) * (x[i] - mean);
    }
    line.slope = xx > 0 ? xy / xx : 0;
    for (uint32_t i = 0; i < n; i++) {
        const double away = x[i] - mean;
        const double term = away * (y[i] - aw_stats_mean(y, n) - line.slope * away);
        sums += term * term;
    }
    line.error = xx > 0 ? sqrt(sums * n / (n - 1)) / xx : 0;
    line_place(&line, x, y, n);
    line.deviation = fmax(line.deviation, AW_KNOWN_APPS_EPISODES_DEVIATION_MIN);
    return line;
}

enum aw_err aw_pretrain_predict(struct aw_pretrain *p, const char *path, uint32_t episodes,
                                struct aw_known_apps *known, struct aw_diag *diag)
{
    const uint32_t count = p->config.check.count < CHECK_MAX ? p->config.check.count : CHECK_MAX;
    if (count < FEWEST || known->count == 0 || episodes == 0)
        return AW_OK;
    struct prediction all = {p, path, episodes, known,
                             aw_alloc_new(p->alloc, count, sizeof *all.measured)};
    if (!all.measured)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u applications", count);
    const enum aw_err err =
        aw_parallel_tasks(p->config.threads, count, measure_turn, &all, p->config.progress,
                          p->config.progress_ctx, p->alloc, diag);
    if (!err) {
        double x[CHECK_MAX];
        for (uint32_t i = 0; i < count; i++)
            x[i] = all.measured[i].similarity;
        known->drop = drop_line(all.measured, count, x);
        known->episodes = episodes_line(all.measured, count, x);
    }
    aw_alloc_free(p->alloc, all.measured);
    return err;
}
