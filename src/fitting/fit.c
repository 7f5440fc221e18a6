/*
 * fit.c - the search, and what is said about it.
 *
 * The loss of a row is |ln model - ln measured|, at most LOSS_MAX: a minute that was slow for
 * reasons of its own pulls no further than that. Rows within a setting tell of saturation: a row
 * that took SATURATED times as long as the quick ones of its setting counts as saturated.
 *
 * Arrivals: the model's are Poisson, a load generator's often are not, and queueing is in
 * proportion to the variability of arrivals and service together (Kingman 1961). So what queueing
 * adds to the latency of a request alone is scaled by a burstiness between 0 (paced) and 1 that is
 * sought along with the rest. It belongs to the measurement, not to the application.
 */
#include "fitting/fit.h"

#include "base/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIM           5u /* ln of CPU, waiting, variability, parallelism, burstiness */
#define LOSS_MAX      2.0
#define SATURATED     10.0
#define QUICK         0.25 /* quantile of a setting's latencies that counts as its quick rows */
#define QUICK_START   0.1  /* quantile of all latencies from which a search begins */
#define BEYOND        1.03 /* load on the capacity from where on the model calls it saturated */
#define ALONE_LOAD    0.01 /* load that stands for one request at a time */
#define SEARCH_ROWS   500u /* training rows that the search looks at */
#define SEARCH_STEPS  220u /* evaluations from one start */
#define KNEE_ROWS_MIN 20u  /* test rows that a setting needs for a knee */
#define KNEE_WINDOW   5u   /* rows over which a median is taken, by load */
#define KNEE_NEAR     0.2
#define BELOW         0.9 /* of the measured knee */
#define CURVE_POINTS  400u
#define PERMILLE      1e-3

static const uint32_t thread_choices[] = {1, 2, 4, 8, 16, 32, 64, 0};
#define THREAD_CHOICES (sizeof thread_choices / sizeof *thread_choices)

/* Where a parameter may be. Waiting below a microsecond is none. */
static const double low[DIM] = {-6.9, -6.9, -3.0, 0.0, -4.6},
                    high[DIM] = {11.5, 11.5, 0.7, 2.1, 0.0};

struct search {
    const struct aw_fit_row *rows;
    const uint32_t *index; /* of training rows, shuffled */
    uint32_t count;
    uint32_t threads;
    double saturated_ms;
    uint32_t evaluations;
};

static double steady_ms(const struct aw_demand *demand, double cores, double rate_per_s)
{
    const struct aw_replica replica = {.demand = *demand, .cores = cores, .rate_per_s = rate_per_s};
    struct aw_steady steady;
    aw_surrogate_eval(&replica, &steady);
    /* a quota holds nobody back within its first period, but a core is not faster than a core */
    return fmax(steady.mean_us * 1e-3, demand->io_ms + demand->cpu_ms / demand->parallelism);
}

double aw_fit_latency_ms(const struct aw_demand *demand, const struct aw_fit_world *world,
                         double cores, double rate_per_s)
{
    const double capacity = aw_replica_capacity(demand, cores);
    const double load = rate_per_s > 0 ? rate_per_s / capacity : 0;
    const double alone = steady_ms(demand, cores, ALONE_LOAD * capacity);
    if (load <= ALONE_LOAD)
        return alone;
    double ms = steady_ms(demand, cores, fmin(load, AW_SURROGATE_LOAD_MAX) * capacity);
    ms = fmax(alone + world->burstiness * (ms - alone), alone);
    if (load <= AW_SURROGATE_LOAD_MAX || isnan(world->saturated_ms) || world->saturated_ms < ms)
        return ms;
    const double way = fmin((load - AW_SURROGATE_LOAD_MAX) / (BEYOND - AW_SURROGATE_LOAD_MAX), 1);
    return way < 1 ? ms * pow(world->saturated_ms / ms, way) : world->saturated_ms;
}

static struct aw_demand demand_of(const double *x, uint32_t threads)
{
    return (struct aw_demand){
        .cpu_ms = exp(x[0]),
        .io_ms = exp(x[1]),
        .cpu_cv = exp(x[2]),
        .io_cv = exp(x[2]),
        .parallelism = exp(x[3]),
        .threads = threads,
    };
}

static double row_loss(const struct aw_demand *demand, const struct aw_fit_world *world,
                       const struct aw_fit_row *row)
{
    const double ms = aw_fit_latency_ms(demand, world, row->cores, row->rate_per_s);
    return fmin(fabs(log(ms / row->latency_ms)), LOSS_MAX);
}

static double loss_of(struct search *search, const double *x)
{
    double y[DIM], outside = 0, sum = 0;
    for (uint32_t i = 0; i < DIM; i++) {
        y[i] = fmin(fmax(x[i], low[i]), high[i]);
        outside += fabs(x[i] - y[i]);
    }
    const struct aw_demand demand = demand_of(y, search->threads);
    const struct aw_fit_world world = {search->saturated_ms, exp(y[4])};
    for (uint32_t i = 0; i < search->count; i++)
        sum += row_loss(&demand, &world, &search->rows[search->index[i]]);
    search->evaluations++;
    return sum / search->count + outside;
}

struct point {
    double x[DIM], loss;
};

static void points_sort(struct point *point, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t k = i; k > 0 && point[k].loss < point[k - 1].loss; k--) {
            const struct point swap = point[k];
            point[k] = point[k - 1];
            point[k - 1] = swap;
        }
    }
}

static struct point along(struct search *search, const double *centre, const struct point *worst,
                          double factor)
{
    struct point p;
    for (uint32_t i = 0; i < DIM; i++)
        p.x[i] = centre[i] + factor * (centre[i] - worst->x[i]);
    p.loss = loss_of(search, p.x);
    return p;
}

/* Nelder and Mead 1965, with the usual factors 1, 2, 1/2, 1/2. */
static struct point nelder_mead(struct search *search, const double *start)
{
    struct point p[DIM + 1];
    const uint32_t end = search->evaluations + SEARCH_STEPS;
    for (uint32_t k = 0; k <= DIM; k++) {
        memcpy(p[k].x, start, sizeof p[k].x);
        if (k > 0)
            p[k].x[k - 1] += p[k].x[k - 1] + 0.5 > high[k - 1] ? -0.5 : 0.5;
        p[k].loss = loss_of(search, p[k].x);
    }
    points_sort(p, DIM + 1);
    while (search->evaluations < end) {
        double centre[DIM] = {0};
        for (uint32_t k = 0; k < DIM; k++)
            for (uint32_t i = 0; i < DIM; i++)
                centre[i] += p[k].x[i] / DIM;
        struct point next = along(search, centre, &p[DIM], 1);
        if (next.loss < p[0].loss) {
            const struct point further = along(search, centre, &p[DIM], 2);
            if (further.loss < next.loss)
                next = further;
        } else if (next.loss >= p[DIM - 1].loss) {
            next = along(search, centre, &p[DIM], next.loss < p[DIM].loss ? 0.5 : -0.5);
        }
        if (next.loss < p[DIM].loss) {
            p[DIM] = next;
        } else {
            for (uint32_t k = 1; k <= DIM; k++) {
                for (uint32_t i = 0; i < DIM; i++)
                    p[k].x[i] = 0.5 * (p[k].x[i] + p[0].x[i]);
                p[k].loss = loss_of(search, p[k].x);
            }
        }
        points_sort(p, DIM + 1);
    }
    for (uint32_t i = 0; i < DIM; i++)
        p[0].x[i] = fmin(fmax(p[0].x[i], low[i]), high[i]);
    return p[0];
}

/* A fit under way: the rows of one group, split. */
struct work {
    const struct aw_fit_row *rows;
    uint32_t *index; /* training rows first, then test rows */
    uint32_t train_count, test_count;
    double *value, *other; /* [train_count + test_count], scratch */
    bool *saturated;       /* [train_count + test_count], by position in index */
};

static double quantile(double *value, size_t count, double q)
{
    if (count == 0)
        return NAN;
    aw_stats_sort(value, count);
    return aw_stats_quantile(value, count, q);
}

/* Marks the rows that took far longer than the quick ones of their setting. What is quick is
 * learned from training rows alone. */
static double saturation_mark(struct work *w)
{
    double quick[AW_FIT_SETTINGS_MAX];
    const uint32_t all = w->train_count + w->test_count;
    for (uint32_t s = 0; s < AW_FIT_SETTINGS_MAX; s++) {
        size_t n = 0;
        for (uint32_t i = 0; i < w->train_count; i++)
            if (w->rows[w->index[i]].setting == s)
                w->value[n++] = w->rows[w->index[i]].latency_ms;
        quick[s] = quantile(w->value, n, QUICK);
    }
    size_t n = 0;
    for (uint32_t i = 0; i < all; i++) {
        const struct aw_fit_row *row = &w->rows[w->index[i]];
        w->saturated[i] = row->rate_per_s > 0 && row->latency_ms > SATURATED * quick[row->setting];
        if (i < w->train_count && w->saturated[i])
            w->value[n++] = row->latency_ms;
    }
    return quantile(w->value, n, 0.5);
}

/* Where a search may begin: a quick row is waiting and CPU, in shares that chance decides. */
static void start_draw(double quick_ms, struct aw_rng *rng, uint32_t number, double *x)
{
    const double share = number == 0 ? 0.9 : aw_rng_uniform(rng, 0.05, 0.95);
    const double scale = number == 0 ? 1 : exp(aw_rng_uniform(rng, -1.5, 1.5));
    x[0] = log(share * scale * quick_ms);
    x[1] = log((1 - share) * scale * quick_ms);
    x[2] = number == 0 ? log(0.3) : aw_rng_uniform(rng, log(0.08), log(1.2));
    x[3] = number == 0 ? 0.05 : aw_rng_uniform(rng, 0, 1);
    x[4] = number == 0 ? -0.1 : aw_rng_uniform(rng, -3, 0);
    for (uint32_t i = 0; i < DIM; i++)
        x[i] = fmin(fmax(x[i], low[i]), high[i]);
}

/* What the search found. */
struct found {
    struct aw_demand demand;
    struct aw_fit_world world;
    double loss;
    uint32_t evaluations;
};

static struct found search_all(const struct aw_fit_config *config, const struct work *w,
                               double saturated_ms)
{
    struct found best = {.loss = INFINITY};
    struct aw_rng rng;
    aw_rng_init(&rng, config->seed, 2);
    for (uint32_t i = 0; i < w->train_count; i++)
        w->value[i] = w->rows[w->index[i]].latency_ms;
    const double quick_ms = quantile(w->value, w->train_count, QUICK_START);
    struct search search = {
        .rows = w->rows,
        .index = w->index,
        .count = w->train_count < SEARCH_ROWS ? w->train_count : SEARCH_ROWS,
        .saturated_ms = saturated_ms,
    };
    for (uint32_t t = 0; t < THREAD_CHOICES; t++) {
        search.threads = thread_choices[t];
        for (uint32_t s = 0; s < config->starts; s++) {
            double x[DIM];
            start_draw(quick_ms, &rng, s, x);
            const struct point found = nelder_mead(&search, x);
            if (found.loss < best.loss) {
                best.loss = found.loss;
                best.demand = demand_of(found.x, search.threads);
                best.world = (struct aw_fit_world){saturated_ms, exp(found.x[4])};
            }
        }
    }
    best.evaluations = search.evaluations;
    return best;
}

/* Memory of a replica is a base and something per request in flight; least squares. */
static void memory_fit(const struct work *w, struct aw_segment *segment)
{
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (uint32_t i = 0; i < w->train_count; i++) {
        const struct aw_fit_row *row = &w->rows[w->index[i]];
        if (isnan(row->memory_used_mib) || w->saturated[i])
            continue;
        const double x = row->rate_per_s * row->latency_ms * PERMILLE, y = row->memory_used_mib;
        n++, sx += x, sy += y, sxx += x * x, sxy += x * y;
    }
    if (n == 0)
        return;
    const double spread = n * sxx - sx * sx;
    const double slope = spread > 1e-9 ? fmax((n * sxy - sx * sy) / spread, 0) : 0;
    segment->memory_flight_mib = slope;
    segment->memory_base_mib = fmax((sy - slope * sx) / n, 0);
}

/* --- knees ------------------------------------------------------------------------------------
 */

/* What a knee is read from. */
struct sight {
    double rate_per_s, latency_ms;
};

static int by_rate(const void *a, const void *b)
{
    const struct sight *x = a, *y = b;
    if (x->rate_per_s != y->rate_per_s)
        return x->rate_per_s < y->rate_per_s ? -1 : 1;
    return x->latency_ms < y->latency_ms ? -1 : x->latency_ms > y->latency_ms;
}

/* The load beyond which running medians stay above twice the lowest; NAN: none. */
static double knee_measured(struct sight *sight, uint32_t count, double *median)
{
    if (count < KNEE_ROWS_MIN)
        return NAN;
    qsort(sight, count, sizeof *sight, by_rate);
    const uint32_t windows = count - KNEE_WINDOW + 1;
    double base = INFINITY;
    for (uint32_t i = 0; i < windows; i++) {
        double value[KNEE_WINDOW];
        for (uint32_t k = 0; k < KNEE_WINDOW; k++)
            value[k] = sight[i + k].latency_ms;
        median[i] = quantile(value, KNEE_WINDOW, 0.5);
        base = fmin(base, median[i]);
    }
    uint32_t first = windows;
    while (first > 0 && median[first - 1] >= 2 * base)
        first--;
    if (first == 0 || first == windows)
        return NAN;
    return 0.5 * (sight[first - 1 + KNEE_WINDOW / 2].rate_per_s +
                  sight[first + KNEE_WINDOW / 2].rate_per_s);
}

static double knee_model(const struct found *found, double cores)
{
    const double capacity = aw_replica_capacity(&found->demand, cores);
    double base = INFINITY;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 1; i <= CURVE_POINTS; i++) {
            const double rate = 1.2 * capacity * i / CURVE_POINTS;
            const double ms = aw_fit_latency_ms(&found->demand, &found->world, cores, rate);
            if (pass == 0)
                base = fmin(base, ms);
            else if (ms >= 2 * base)
                return rate;
        }
    }
    return capacity;
}

/* Fills in the knees of all settings with enough test rows; `knee_of` gets the measured one of each
 * setting, NAN where there is none. */
static void knees_find(const struct work *w, const struct found *found, struct aw_fit *fit,
                       struct sight *scratch, double *knee_of)
{
    for (uint32_t s = 0; s < AW_FIT_SETTINGS_MAX; s++) {
        const struct aw_fit_row *any = NULL;
        uint32_t n = 0;
        for (uint32_t i = 0; i < w->test_count; i++) {
            const struct aw_fit_row *row = &w->rows[w->index[w->train_count + i]];
            if (row->setting == s && row->rate_per_s > 0) {
                any = row;
                scratch[n++] = (struct sight){row->rate_per_s, row->latency_ms};
            }
        }
        knee_of[s] = knee_measured(scratch, n, w->value);
        if (!any || isnan(knee_of[s]))
            continue;
        struct aw_fit_knee *knee = &fit->knee[fit->knee_count++];
        *knee = (struct aw_fit_knee){
            .replicas = any->replicas,
            .cores = any->cores,
            .memory_limit_mib = any->memory_limit_mib,
            .row_count = n,
            .measured_per_s = knee_of[s],
            .model_per_s = knee_model(found, any->cores),
        };
        fit->knee_near_count += fabs(knee->model_per_s / knee->measured_per_s - 1) <= KNEE_NEAR;
    }
}

/* --- errors -----------------------------------------------------------------------------------
 */

static double error_of(const struct found *found, const struct aw_fit_row *row)
{
    const double ms = aw_fit_latency_ms(&found->demand, &found->world, row->cores, row->rate_per_s);
    return fabs(ms / row->latency_ms - 1);
}

/* Below saturation: by the knee of the setting where there is one, else by the row itself. */
static bool is_below(const struct work *w, uint32_t position, const double *knee_of)
{
    const struct aw_fit_row *row = &w->rows[w->index[position]];
    const double knee = knee_of[row->setting];
    return isnan(knee) ? !w->saturated[position] : row->rate_per_s < BELOW * knee;
}

static void errors_latency(const struct work *w, const struct found *found, const double *knee_of,
                           struct aw_fit *fit)
{
    size_t n = 0;
    for (uint32_t i = 0; i < w->train_count; i++)
        if (!w->saturated[i])
            w->value[n++] = w->rows[w->index[i]].latency_ms;
    const double constant = quantile(w->value, n, 0.5);
    n = 0;
    for (uint32_t i = 0; i < w->train_count; i++)
        if (is_below(w, i, knee_of))
            w->value[n++] = error_of(found, &w->rows[w->index[i]]);
    fit->train_median = quantile(w->value, n, 0.5);

    n = 0;
    uint32_t apart = 0;
    for (uint32_t i = w->train_count; i < w->train_count + w->test_count; i++) {
        const struct aw_fit_row *row = &w->rows[w->index[i]];
        const double capacity = aw_replica_capacity(&found->demand, row->cores);
        apart += (row->rate_per_s > AW_SURROGATE_LOAD_MAX * capacity) == w->saturated[i];
        if (!is_below(w, i, knee_of)) {
            fit->saturated_count++;
            continue;
        }
        w->value[n] = error_of(found, row);
        w->other[n++] = fabs(constant / row->latency_ms - 1);
    }
    fit->below_count = (uint32_t)n;
    fit->below_median = quantile(w->value, n, 0.5);
    fit->below_p90 = quantile(w->value, n, 0.9);
    fit->constant_median = quantile(w->other, n, 0.5);
    fit->told_apart = (double)apart / w->test_count;
}

static void errors_usage(const struct work *w, struct aw_fit *fit)
{
    const struct aw_segment *s = &fit->segment;
    size_t cpu = 0, memory = 0;
    for (uint32_t i = w->train_count; i < w->train_count + w->test_count; i++) {
        const struct aw_fit_row *row = &w->rows[w->index[i]];
        if (row->cores_used > 0 && row->rate_per_s > 0 && !w->saturated[i])
            w->value[cpu++] = fabs(row->rate_per_s * s->cpu_ms * PERMILLE / row->cores_used - 1);
        if (row->memory_used_mib > 0 && !w->saturated[i]) {
            const double flight = row->rate_per_s * row->latency_ms * PERMILLE;
            w->other[memory++] = fabs(
                (s->memory_base_mib + flight * s->memory_flight_mib) / row->memory_used_mib - 1);
        }
    }
    fit->cpu_median = quantile(w->value, cpu, 0.5);
    fit->memory_median = quantile(w->other, memory, 0.5);
}

static void segment_fill(const char *name, const struct aw_demand *d, struct aw_segment *ret)
{
    *ret = (struct aw_segment){
        .family = AW_PAYLOAD_NONE,
        .cpu_ms = d->cpu_ms,
        .cpu_cv = d->cpu_cv,
        .io_ms = d->io_ms,
        .io_cv = d->io_cv,
        .parallelism = d->parallelism,
        .threads = d->threads,
    };
    snprintf(ret->name, sizeof ret->name, "%s", name);
}

enum aw_err aw_fit_run(const struct aw_fit_config *config, const struct aw_fit_rows *rows,
                       uint32_t group, const char *name, const struct aw_alloc *alloc,
                       struct aw_fit *ret_fit, struct aw_diag *diag)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rows->row_count; i++)
        count += rows->row[i].group == group;
    if (count < AW_FIT_ROWS_MIN)
        return aw_fail(diag, AW_ERR_NODATA, "%u rows are too few for a fit: at least %u are needed",
                       count, AW_FIT_ROWS_MIN);
    struct work w = {.rows = rows->row};
    struct sight *scratch = NULL;
    struct aw_carve c = {0};
    void *block = NULL;
    for (int pass = 0; pass < 2; pass++) {
        w.index = aw_carve_take(&c, count, sizeof *w.index);
        w.value = aw_carve_take(&c, count, sizeof *w.value);
        w.other = aw_carve_take(&c, count, sizeof *w.other);
        w.saturated = aw_carve_take(&c, count, sizeof *w.saturated);
        scratch = aw_carve_take(&c, count, sizeof *scratch);
        if (pass == 0 && !(block = aw_alloc_new(alloc, c.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for a fit of %u rows", count);
        c = (struct aw_carve){.base = block};
    }
    struct aw_rng rng;
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows->row_count; i++)
        if (rows->row[i].group == group)
            w.index[n++] = i;
    aw_rng_init(&rng, config->seed, 1);
    aw_rng_shuffle(&rng, w.index, n);
    w.train_count = (uint32_t)(config->train_share * n + 0.5);
    w.train_count = w.train_count < 1 ? 1 : w.train_count > n - 1 ? n - 1 : w.train_count;
    w.test_count = n - w.train_count;

    struct aw_fit *fit = ret_fit;
    *fit = (struct aw_fit){.train_count = w.train_count, .test_count = w.test_count};
    fit->saturated_ms = saturation_mark(&w);
    const struct found found = search_all(config, &w, fit->saturated_ms);
    fit->burstiness = found.world.burstiness;
    fit->evaluations = found.evaluations;
    double knee_of[AW_FIT_SETTINGS_MAX];
    segment_fill(name, &found.demand, &fit->segment);
    memory_fit(&w, &fit->segment);
    knees_find(&w, &found, fit, scratch, knee_of);
    errors_latency(&w, &found, knee_of, fit);
    errors_usage(&w, fit);
    aw_alloc_free(alloc, block);
    return AW_OK;
}
