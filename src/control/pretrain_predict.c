/* pretrain_predict.c - what likeness tells of a model in a new application: two lines over it. */
#include <math.h>

#include "base/spread.h"
#include "base/stats.h"
#include "control/adapt.h"
#include "control/pretrain_internal.h"
#include "meta/known.h"

#define NEAR      0.03 /* within so much of converged is converged, as in all results */
#define FEWEST    3u
#define CHECK_MAX 1000u

struct prediction {
    struct aw_pretrain *p;
    const char *path;
    uint32_t episodes;
    struct aw_adapt_measure *measure; /* [check.count] */
};

static enum aw_err adapt_turn(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    struct prediction *all = ctx;
    const struct aw_alloc *alloc = all->p->alloc;
    struct aw_pretrain_config one = all->p->config;
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
    const enum aw_err err = aw_adapt_run(&one, all->episodes, alloc, point, NULL, diag);
    if (!err) {
        const struct aw_pretrain_score converged = aw_adapt_converged(point, all->episodes);
        all->measure[turn] =
            aw_adapt_measure(point, all->episodes, &converged, NEAR, 0, all->p->steps);
    }
    aw_alloc_free(alloc, point);
    return err;
}

static struct aw_known_line line_through(const double *x, const double *y, uint32_t n)
{
    const double mx = aw_stats_mean(x, n), my = aw_stats_mean(y, n);
    double xy = 0, xx = 0, off = 0;
    for (uint32_t i = 0; i < n; i++) {
        xy += (x[i] - mx) * (y[i] - my);
        xx += (x[i] - mx) * (x[i] - mx);
    }
    struct aw_known_line line = {.there = true, .slope = xx > 0 ? xy / xx : 0};
    line.intercept = my - line.slope * mx;
    for (uint32_t i = 0; i < n; i++) {
        const double residual = y[i] - (line.intercept + line.slope * x[i]);
        off += residual * residual;
    }
    line.deviation = sqrt(off / (n - 2));
    return line;
}

/* Through what was measured, over the similarity of each to the nearest one known. */
static void lines_draw(const struct prediction *all, uint32_t count, struct aw_known *known)
{
    struct aw_pretrain *p = all->p;
    double x[CHECK_MAX], drop[CHECK_MAX], episodes[CHECK_MAX];
    for (uint32_t i = 0; i < count; i++) {
        struct aw_known_place place;
        aw_known_place(known, aw_context_embed(p->context, p->learn + i), 1, &place);
        x[i] = place.similarity[0];
        drop[i] = all->measure[i].drop;
        episodes[i] = all->measure[i].episodes;
    }
    known->drop = line_through(x, drop, count);
    known->episodes = line_through(x, episodes, count);
}

enum aw_err aw_pretrain_predict(struct aw_pretrain *p, const char *path, uint32_t episodes,
                                struct aw_known *known, struct aw_diag *diag)
{
    const uint32_t count = p->config.check.count < CHECK_MAX ? p->config.check.count : CHECK_MAX;
    if (count < FEWEST || known->count == 0 || episodes == 0)
        return AW_OK;
    struct prediction all = {p, path, episodes, aw_alloc_new(p->alloc, count, sizeof *all.measure)};
    if (!all.measure)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u applications", count);
    enum aw_err err = aw_pretrain_meet(p, diag);
    err = err ? err
              : aw_spread(p->config.threads, count, adapt_turn, &all, p->config.progress,
                          p->config.progress_ctx, p->alloc, diag);
    if (!err)
        lines_draw(&all, count, known);
    aw_alloc_free(p->alloc, all.measure);
    return err;
}
