/*
 * calibrate_fit.c - the application that makes the reference model answer as real processes did.
 *
 * Weighed least squares. A residual is the error of a figure over what it may be off by (the
 * constants below: about what repeated measurements differ by), so a fit that is as good as the
 * measurements has a mean square of about 1. What is far off does not rule: beyond OUTLIER a
 * residual counts linearly, and one of a latency less than that, because spans in which something
 * else ran are always off to the same side. The search is CMA-ES, which bears that a simulation is
 * not smooth. With the same
 * seed it still draws the same numbers for slightly different parameters, so that at the end
 * differences over small steps are derivatives; their normal matrix gives the standard errors,
 * times what the residuals really were.
 *
 * Memory does not depend on the rest: a line over the requests in flight.
 */
#include "fitting/calibrate.h"

#include "base/cma.h"
#include "base/stats.h"

#include <math.h>
#include <string.h>

/* Sought: ln of factors on CPU time and on its deviation, wait, crowding, ln of that on the
 * deviation of waits. */
#define DIM         5u
#define FIGURES     4u /* of a point that are looked at */
#define DRAWS       8u
#define GENERATIONS 36u
#define SPREAD      0.15 /* of the first draws, in the unit box */
#define WINDOWS     8u
#define OUTLIER     2.5
#define DISTURBED   1.5
/* What figures may be off by, ln or (utilisation) as a share: a part of its own, and what chance
 * makes of n requests, over the root of n. */
#define P50_OFF(n)            (0.05 + 0.5 / sqrt(n))
#define MEAN_OFF(n)           (0.05 + 0.8 / sqrt(n))
#define P99_OFF(n)            (0.08 + 1.6 / sqrt(n))
#define UTILISATION_OFF(n, u) (0.004 + 0.5 * (u) / sqrt(n))
#define THROUGHPUT_OFF(n)     (0.02 + 0.4 / sqrt(n)) /* saturated */
#define TOLD                  1e-3 /* of the normal matrix: less says nothing of a parameter */
#define MILLI                 1e-3

#define RESIDUALS_MAX (AW_CALIBRATE_POINTS_MAX * FIGURES + 2)

struct search {
    const struct aw_app *described;
    const struct aw_calibrate_point *point[AW_CALIBRATE_POINTS_MAX];
    uint32_t count;
    struct aw_calibrate_world world;
    bool (*goes_on)(void *ctx, double share);
    void *ctx;
    uint32_t evaluations;
    double factor;      /* ln, that the search is centred at */
    double wait_max_ms; /* that it goes to */
};

/* Weighed residuals, and what they add up to. */
struct answer {
    double residual[RESIDUALS_MAX];
    uint32_t count;
    double loss;
};

/* Where parameters are sought. Wait and crowding have most of the box for small values. */
#define FACTOR_MAX   1.0  /* ln, about where CPU time was found at first */
#define VARIES_MAX   1.2  /* ln */
#define VARIES_OFF   0.25 /* ln: a machine changes little of it */
#define WAIT_LEAST   5.0  /* ms that the box reaches to, or */
#define WAIT_SHARE   1.0  /* of the mean latency of the least loaded */
#define CROWDING_MAX 2.5
#define TAIL_LOAD    0.55 /* as light as the fast model means it */
#define TAIL_MAX     8.0
#define TAIL_NOTHING 1e-6 /* of a square: as good as no difference */

/* The description with parameters `x`. The wait is constant, so what varies stays as it was. */
static void app_make(const struct aw_app *described, const double *x, struct aw_app *ret)
{
    *ret = *described;
    for (uint32_t i = 0; i < ret->segment_count; i++) {
        struct aw_segment *s = &ret->segment[i];
        s->cpu_ms *= exp(x[0]);
        s->cpu_cv *= exp(x[1]);
        s->crowding = x[3];
        s->io_cv *= exp(x[4]);
        s->fast_tail = 0;
    }
    struct aw_segment *first = &ret->segment[0];
    const double io_ms = first->io_ms + x[2];
    first->io_cv = io_ms > 0 ? first->io_cv * first->io_ms / io_ms : 0;
    first->io_ms = io_ms;
}

static void residual_put(struct answer *answer, double r)
{
    if (!isfinite(r))
        return;
    answer->residual[answer->count++] = r;
    answer->loss += r * r;
}

/* Of a figure that chance throws to both sides. Far out its square is Huber's loss, linear. */
static void residual_add(struct answer *answer, double error, double off)
{
    const double r = error / off, far = fabs(r);
    residual_put(answer, far > OUTLIER ? copysign(sqrt(OUTLIER * (2 * far - OUTLIER)), r) : r);
}

/* Of a latency. Its square is Cauchy's loss, logarithmic. */
static void residual_add_latency(struct answer *answer, double said_ms, double seen_ms, double off)
{
    const double r = log(said_ms / seen_ms) / off;
    residual_put(answer, copysign(DISTURBED * sqrt(log1p(r * r / (DISTURBED * DISTURBED))), r));
}

static enum aw_err evaluate(struct search *search, const double *x, struct answer *ret,
                            struct aw_diag *diag)
{
    struct aw_app app;
    ret->count = 0;
    ret->loss = 0;
    app_make(search->described, x, &app);
    for (uint32_t i = 0; i < search->count; i++) {
        const struct aw_calibrate_point *p = search->point[i];
        const struct aw_calibrate_figures *seen = &p->measured;
        struct aw_calibrate_figures said;
        const double n = fmax(seen->requests, 1);
        enum aw_err err = aw_calibrate_predict(AW_CALIBRATE_REFERENCE, &app, &search->world,
                                               &p->setting, seen, &said, diag);
        if (err)
            return err;
        residual_add(ret, said.utilisation - seen->utilisation,
                     UTILISATION_OFF(n, seen->utilisation));
        if (p->setting.load > 1) {
            /* what is always busy does a request for less: only a model that answers more is off */
            const double more = log(said.throughput_per_s / seen->throughput_per_s);
            residual_add(ret, more < 0 ? 0 : more, THROUGHPUT_OFF(n));
            continue;
        }
        residual_add_latency(ret, said.p50_ms, seen->p50_ms, P50_OFF(n));
        residual_add_latency(ret, said.mean_ms, seen->mean_ms, MEAN_OFF(n));
        residual_add_latency(ret, said.p99_ms, seen->p99_ms, P99_OFF(n));
    }
    /* a machine changes little of how much things vary: the description is believed, somewhat */
    residual_add(ret, x[1], VARIES_OFF);
    residual_add(ret, x[4], VARIES_OFF);
    search->evaluations++;
    const double most = GENERATIONS * DRAWS + DIM + 1;
    if (search->goes_on && !search->goes_on(search->ctx, fmin(1, search->evaluations / most)))
        return aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
    return AW_OK;
}

/* Solves a x = b for a symmetric positive definite `a`, by Cholesky; false: it is not. */
static bool solve(double a[DIM][DIM], const double *b, double *x)
{
    double l[DIM][DIM] = {{0}}, y[DIM];
    for (uint32_t i = 0; i < DIM; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double sum = a[i][j];
            for (uint32_t k = 0; k < j; k++)
                sum -= l[i][k] * l[j][k];
            if (i == j && !(sum > 1e-12))
                return false;
            l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
        }
    }
    for (uint32_t i = 0; i < DIM; i++) {
        y[i] = b[i];
        for (uint32_t k = 0; k < i; k++)
            y[i] -= l[i][k] * y[k];
        y[i] /= l[i][i];
    }
    for (uint32_t i = DIM; i-- > 0;) {
        x[i] = y[i];
        for (uint32_t k = i + 1; k < DIM; k++)
            x[i] -= l[k][i] * x[k];
        x[i] /= l[i][i];
    }
    return true;
}

/* The normal matrix at `x`. */
static enum aw_err derive(struct search *search, const double *x, const struct answer *at,
                          double normal[DIM][DIM], struct aw_diag *diag)
{
    /* wide enough that they show more than the chance of a quantile */
    static const double step[DIM] = {0.06, 0.4, 0.5, 0.3, 0.4};
    double jacobian[DIM][RESIDUALS_MAX];
    for (uint32_t i = 0; i < DIM; i++) {
        struct answer beside;
        double y[DIM];
        memcpy(y, x, sizeof y);
        y[i] += step[i];
        enum aw_err err = evaluate(search, y, &beside, diag);
        if (err)
            return err;
        if (beside.count != at->count)
            return aw_fail(diag, AW_ERR_DIVERGED, "the model does not answer near the best fit");
        for (uint32_t k = 0; k < at->count; k++)
            jacobian[i][k] = (beside.residual[k] - at->residual[k]) / step[i];
    }
    for (uint32_t i = 0; i < DIM; i++)
        for (uint32_t j = 0; j < DIM; j++) {
            normal[i][j] = 0;
            for (uint32_t k = 0; k < at->count; k++)
                normal[i][j] += jacobian[i][k] * jacobian[j][k];
        }
    return AW_OK;
}

/* Standard errors of the parameters, from the normal matrix. */
static void errors_find(double normal[DIM][DIM], const struct answer *at, double *ret)
{
    const double left = at->count > DIM ? at->count - DIM : 1;
    bool told[DIM]; /* a parameter that changes nothing must not spoil the others */
    for (uint32_t i = 0; i < DIM; i++) {
        told[i] = normal[i][i] > TOLD;
        normal[i][i] += TOLD;
    }
    for (uint32_t i = 0; i < DIM; i++) {
        double unit[DIM] = {0}, column[DIM];
        unit[i] = 1;
        ret[i] = told[i] && solve(normal, unit, column) ? sqrt(fmax(column[i], 0) * at->loss / left)
                                                        : NAN;
    }
}

/* A line of memory over requests in flight at a replica, and the standard errors of both. */
static void memory_fit(const struct search *search, const struct aw_demand *described,
                       struct aw_calibrate_fit *fit)
{
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;
    for (uint32_t i = 0; i < search->count; i++) {
        const struct aw_calibrate_point *p = search->point[i];
        const double x = p->measured.throughput_per_s * p->measured.mean_ms * MILLI /
                         p->setting.size.replicas,
                     y = p->measured.memory_mib;
        if (!isfinite(x) || !isfinite(y) || p->setting.load > 1)
            continue;
        n++, sx += x, sy += y, sxx += x * x, sxy += x * y, syy += y * y;
    }
    double base = described->memory_base_mib, slope = described->memory_flight_mib;
    double base_error = NAN, slope_error = NAN;
    const double spread = sxx - sx * sx / fmax(n, 1);
    if (n > 2 && spread > 1e-9) {
        slope = fmax(0, (sxy - sx * sy / n) / spread);
        base = fmax(0, (sy - slope * sx) / n);
        const double left = syy - 2 * base * sy - 2 * slope * sxy + n * base * base +
                            2 * base * slope * sx + slope * slope * sxx;
        const double variance = fmax(0, left) / (n - 2);
        slope_error = sqrt(variance / spread);
        base_error = sqrt(variance * sxx / (n * spread));
    }
    fit->value[AW_CALIBRATE_MEMORY].described = described->memory_base_mib;
    fit->value[AW_CALIBRATE_MEMORY].found = base;
    fit->value[AW_CALIBRATE_MEMORY].error = base_error;
    fit->value[AW_CALIBRATE_MEMORY_FLIGHT].described = described->memory_flight_mib;
    fit->value[AW_CALIBRATE_MEMORY_FLIGHT].found = slope;
    fit->value[AW_CALIBRATE_MEMORY_FLIGHT].error = slope_error;

    /* Bases are added up over segments, and to that of every process: what is too little or too
     * much goes by a share to each. Of what requests hold the largest counts. */
    double own = 0;
    for (uint32_t i = 0; i < fit->app.segment_count; i++)
        own += fit->app.segment[i].memory_base_mib;
    const double runtime = described->memory_base_mib - own;
    for (uint32_t i = 0; i < fit->app.segment_count; i++) {
        struct aw_segment *s = &fit->app.segment[i];
        s->memory_base_mib = own > 0 ? s->memory_base_mib * fmax(0, base - runtime) / own
                                     : fmax(0, base - runtime) / fit->app.segment_count;
        s->memory_flight_mib = slope;
    }
}

/* How far the fast model is from the reference under light load, with all that was found: the
 * median over the seen sizes, and what is left to chance in that. */
static enum aw_err tail_fit(const struct search *search, struct aw_calibrate_fit *fit,
                            struct aw_diag *diag)
{
    double off[AW_CALIBRATE_POINTS_MAX], tail = 1, error = NAN;
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->count; i++) {
        const struct aw_calibrate_point *p = search->point[i];
        struct aw_calibrate_figures said[AW_CALIBRATE_MODELS];
        if (p->setting.load > TAIL_LOAD)
            continue;
        for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++) {
            enum aw_err err =
                aw_calibrate_predict((enum aw_calibrate_model)m, &fit->app, &search->world,
                                     &p->setting, &p->measured, &said[m], diag);
            if (err)
                return err;
        }
        const double ratio =
            log(said[AW_CALIBRATE_REFERENCE].p99_ms / said[AW_CALIBRATE_FAST].p99_ms);
        if (isfinite(ratio))
            off[count++] = ratio;
    }
    if (count > 2) {
        aw_stats_sort(off, count);
        const double middle = aw_stats_median(off, count);
        /* of a median: 1.25 times that of a mean; the half between the quarters is 1.35 wide */
        const double half =
            aw_stats_quantile(off, count, 0.75) - aw_stats_quantile(off, count, 0.25);
        const double chance = 1.25 / 1.35 * half / sqrt(count);
        /* what may be chance is not corrected: drawn towards none by its share of the square */
        const double sure = middle * middle / (middle * middle + chance * chance + TAIL_NOTHING);
        tail = fmin(TAIL_MAX, fmax(1 / TAIL_MAX, exp(sure * middle)));
        error = tail * chance;
    }
    for (uint32_t i = 0; i < fit->app.segment_count; i++)
        fit->app.segment[i].fast_tail = tail;
    fit->value[AW_CALIBRATE_FAST_TAIL].described = 1;
    fit->value[AW_CALIBRATE_FAST_TAIL].found = tail;
    fit->value[AW_CALIBRATE_FAST_TAIL].error = error;
    return AW_OK;
}

static void values_fill(const struct aw_app *described, const double *x, const double *error,
                        struct aw_calibrate_fit *fit)
{
    struct aw_demand before, after;
    aw_app_demand(described, 1, 0, &before);
    aw_app_demand(&fit->app, 1, 0, &after);
    const double found[DIM] = {after.cpu_ms, after.cpu_cv, after.io_ms, x[3], after.io_cv};
    const double told[DIM] = {before.cpu_ms, before.cpu_cv, before.io_ms, (double)before.crowding,
                              before.io_cv};
    /* factors were sought as logarithms */
    const double off[DIM] = {found[0] * error[0], found[1] * error[1], error[2], error[3],
                             found[4] * error[4]};
    _Static_assert(AW_CALIBRATE_CPU == 0 && AW_CALIBRATE_WAIT_CV == DIM - 1, "order of parameters");
    for (uint32_t i = 0; i < DIM; i++) {
        fit->value[i].described = told[i];
        fit->value[i].found = found[i];
        fit->value[i].error = off[i];
    }
}

/* From the unit box to parameters. */
static void parameters_of(const struct search *search, const double *unit, double *x)
{
    x[0] = search->factor + FACTOR_MAX * (2 * unit[0] - 1);
    x[1] = VARIES_MAX * (2 * unit[1] - 1);
    x[2] = search->wait_max_ms * unit[2] * unit[2];
    x[3] = CROWDING_MAX * unit[3] * unit[3];
    x[4] = VARIES_MAX * (2 * unit[4] - 1);
}

/* Where to seek: about the CPU time that the least loaded used, and within the time it took. */
static void centre(struct search *search)
{
    struct aw_demand demand;
    const struct aw_calibrate_point *idle = search->point[0];
    aw_app_demand(search->described, 1, 0, &demand);
    for (uint32_t i = 1; i < search->count; i++)
        if (search->point[i]->setting.load < idle->setting.load)
            idle = search->point[i];
    const struct aw_calibrate_size *size = &idle->setting.size;
    const double used_ms = idle->measured.utilisation * size->replicas *
                           (double)size->cpu_millicores / idle->measured.throughput_per_s;
    search->factor = isfinite(used_ms) && used_ms > 0 ? log(used_ms / demand.cpu_ms) : 0;
    search->wait_max_ms = fmax(WAIT_LEAST, WAIT_SHARE * idle->measured.mean_ms);
}

static enum aw_err seek(struct search *search, double *x, struct answer *ret, struct aw_diag *diag)
{
    static const double start[DIM] = {0.5, 0.5, 0.3, 0.3, 0.5};
    struct aw_cma cma;
    centre(search);
    aw_cma_init(&cma, DIM, start, SPREAD, DRAWS, search->world.seed);
    for (uint32_t g = 0; g < GENERATIONS; g++) {
        double loss[DRAWS];
        aw_cma_ask(&cma);
        for (uint32_t i = 0; i < DRAWS; i++) {
            parameters_of(search, cma.x[i], x);
            enum aw_err err = evaluate(search, x, ret, diag);
            if (err)
                return err;
            loss[i] = ret->loss / fmax(1, ret->count);
        }
        aw_cma_tell(&cma, loss);
    }
    parameters_of(search, cma.best, x);
    return evaluate(search, x, ret, diag);
}

enum aw_err aw_calibrate_fit(const struct aw_app *described,
                             const struct aw_calibrate_point *points, uint32_t count,
                             const struct aw_calibrate_world *world,
                             bool (*goes_on)(void *ctx, double share), void *ctx,
                             struct aw_calibrate_fit *ret, struct aw_diag *diag)
{
    struct search search = {
        .described = described, .world = *world, .goes_on = goes_on, .ctx = ctx};
    search.world.windows = WINDOWS;
    for (uint32_t i = 0; i < count && search.count < AW_CALIBRATE_POINTS_MAX; i++)
        if (points[i].setting.size.seen)
            search.point[search.count++] = &points[i];
    if (search.count < AW_CALIBRATE_SEEN_MIN)
        return aw_fail(diag, AW_ERR_NODATA, "%u settings are too few for a fit: at least %u",
                       search.count, AW_CALIBRATE_SEEN_MIN);
    double x[DIM], normal[DIM][DIM], error[DIM];
    struct answer at;
    enum aw_err err = seek(&search, x, &at, diag);
    if (!err)
        err = derive(&search, x, &at, normal, diag);
    if (err)
        return err;
    errors_find(normal, &at, error);
    struct aw_calibrate_fit fit = {.loss = at.loss / at.count, .evaluations = search.evaluations};
    struct aw_demand demand;
    aw_app_demand(described, 1, 0, &demand);
    app_make(described, x, &fit.app);
    values_fill(described, x, error, &fit);
    memory_fit(&search, &demand, &fit);
    err = tail_fit(&search, &fit, diag);
    if (!err)
        *ret = fit;
    return err;
}
