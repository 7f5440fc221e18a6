/*
 * search.c - CMA-ES with a Cholesky factor in the place of an eigendecomposition (Krause, Arbones
 * and Igel, CMA-ES with Optimal Covariance Update and Storage Complexity, 2016): the path of the
 * step size is whitened by the factor, which has the same length in expectation. Constants are
 * those of Hansen's tutorial, tables 1 and 2. Bounds by folding: a point beyond one is mirrored.
 */
#include "rl/search.h"

#include <math.h>
#include <string.h>

#define STEP_GROWTH_MAX 1.8  /* of one tell: a lucky round shall not throw the search about */
#define STEP_MAX        4.0  /* beyond the box there is nothing */
#define PIVOT_MIN       1e-9 /* of the factor: no direction dies out */

static void carve(struct aw_search *s, struct aw_carve *c)
{
    const size_t n = s->config.dim, population = s->config.population;
    s->points = aw_carve_take(c, population * n, sizeof *s->points);
    s->mean = aw_carve_take(c, n, sizeof *s->mean);
    s->best = aw_carve_take(c, n, sizeof *s->best);
    s->covariance = aw_carve_take(c, n * n, sizeof *s->covariance);
    s->factor = aw_carve_take(c, n * n, sizeof *s->factor);
    s->shape_path = aw_carve_take(c, n, sizeof *s->shape_path);
    s->step_path = aw_carve_take(c, n, sizeof *s->step_path);
    s->moved = aw_carve_take(c, n, sizeof *s->moved);
    s->scratch = aw_carve_take(c, n, sizeof *s->scratch);
    s->weight = aw_carve_take(c, population / 2, sizeof *s->weight);
    s->rank = aw_carve_take(c, population, sizeof *s->rank);
}

static void constants(struct aw_search *s)
{
    const uint32_t half = s->config.population / 2;
    const double n = s->config.dim;
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < half; i++) {
        s->weight[i] = log(half + 0.5) - log(i + 1.0);
        sum += s->weight[i];
    }
    for (uint32_t i = 0; i < half; i++) {
        s->weight[i] /= sum;
        squares += s->weight[i] * s->weight[i];
    }
    const double m = s->weight_effective = 1 / squares;
    s->shape_rate = (4 + m / n) / (n + 4 + 2 * m / n);
    s->step_rate = (m + 2) / (n + m + 5);
    s->rank_one_rate = 2 / ((n + 1.3) * (n + 1.3) + m);
    s->rank_half_rate = fmin(1 - s->rank_one_rate, 2 * (m - 2 + 1 / m) / ((n + 2) * (n + 2) + m));
    s->step_damping = 1 + 2 * fmax(0, sqrt((m - 1) / (n + 1)) - 1) + s->step_rate;
    s->length_expected = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
}

static bool config_valid(const struct aw_search_config *c, const double *start)
{
    if (c->dim < 1 || c->dim > AW_SEARCH_DIM_MAX || c->population < 4 ||
        c->population > AW_SEARCH_POPULATION_MAX || !(c->deviation > 0 && c->deviation <= 1))
        return false;
    for (uint32_t i = 0; i < c->dim; i++)
        if (!(start[i] >= 0 && start[i] <= 1))
            return false;
    return true;
}

enum aw_err aw_search_init(struct aw_search *search, const struct aw_search_config *config,
                           const double *start, const struct aw_alloc *alloc)
{
    *search = (struct aw_search){0};
    if (!config_valid(config, start))
        return AW_ERR_RANGE;
    struct aw_search s = {.config = *config, .alloc = alloc};
    struct aw_carve sizing = {0};
    carve(&s, &sizing);
    struct aw_carve parts = {.base = aw_alloc_new(alloc, 1, sizing.used)};
    if (!parts.base)
        return AW_ERR_NOMEM;
    carve(&s, &parts);
    constants(&s);
    aw_rng_init(&s.rng, config->seed, 0);
    s.step = config->deviation;
    s.best_loss = INFINITY;
    memcpy(s.mean, start, config->dim * sizeof *start);
    memcpy(s.best, start, config->dim * sizeof *start);
    for (uint32_t i = 0; i < config->dim; i++)
        s.covariance[i * config->dim + i] = s.factor[i * config->dim + i] = 1;
    *search = s;
    return AW_OK;
}

void aw_search_deinit(struct aw_search *search)
{
    aw_alloc_free(search->alloc, search->points); /* the first part is where the block begins */
    *search = (struct aw_search){0};
}

/* Into [0, 1], as if the ends were mirrors. */
static double folded(double x)
{
    x = fabs(fmod(x, 2));
    return x <= 1 ? x : 2 - x;
}

const double *aw_search_ask(struct aw_search *s)
{
    const uint32_t n = s->config.dim;
    for (uint32_t k = 0; k < s->config.population; k++) {
        double *point = s->points + (size_t)k * n;
        for (uint32_t i = 0; i < n; i++)
            s->scratch[i] = aw_rng_normal(&s->rng);
        for (uint32_t i = 0; i < n; i++) {
            double y = 0;
            for (uint32_t j = 0; j <= i; j++)
                y += s->factor[i * n + j] * s->scratch[j];
            point[i] = folded(s->mean[i] + s->step * y);
        }
    }
    if (s->round == 0)
        memcpy(s->points, s->mean, n * sizeof *s->points);
    return s->points;
}

/* Lower triangle of the covariance. What rounding made of a direction that is nearly gone is held
 * at PIVOT_MIN. */
static void factorise(struct aw_search *s)
{
    const uint32_t n = s->config.dim;
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t i = j; i < n; i++) {
            double sum = s->covariance[i * n + j];
            for (uint32_t k = 0; k < j; k++)
                sum -= s->factor[i * n + k] * s->factor[j * n + k];
            s->factor[i * n + j] = i == j ? sqrt(fmax(sum, PIVOT_MIN)) : sum / s->factor[j * n + j];
        }
    }
}

static void rank(struct aw_search *s, const double *loss)
{
    for (uint32_t i = 0; i < s->config.population; i++) { /* insertion: stable, and they are few */
        uint32_t at = i;
        for (; at > 0 && loss[i] < loss[s->rank[at - 1]]; at--)
            s->rank[at] = s->rank[at - 1];
        s->rank[at] = i;
    }
}

/* Moves the mean to the weighted better half; `moved` is by how much, in steps. */
static void recombine(struct aw_search *s)
{
    const uint32_t n = s->config.dim, half = s->config.population / 2;
    memset(s->moved, 0, n * sizeof *s->moved);
    for (uint32_t k = 0; k < half; k++)
        for (uint32_t i = 0; i < n; i++)
            s->moved[i] +=
                s->weight[k] * (s->points[(size_t)s->rank[k] * n + i] - s->mean[i]) / s->step;
}

/* Length of the path of the step size after this move. */
static double step_path(struct aw_search *s)
{
    const uint32_t n = s->config.dim;
    const double gain = sqrt(s->step_rate * (2 - s->step_rate) * s->weight_effective);
    double squares = 0;
    for (uint32_t i = 0; i < n; i++) { /* factor^-1 moved, by forward substitution */
        double sum = s->moved[i];
        for (uint32_t j = 0; j < i; j++)
            sum -= s->factor[i * n + j] * s->scratch[j];
        s->scratch[i] = sum / s->factor[i * n + i];
        s->step_path[i] = (1 - s->step_rate) * s->step_path[i] + gain * s->scratch[i];
        squares += s->step_path[i] * s->step_path[i];
    }
    return sqrt(squares);
}

static void stretch(struct aw_search *s, bool steady)
{
    const uint32_t n = s->config.dim, half = s->config.population / 2;
    const double gain = sqrt(s->shape_rate * (2 - s->shape_rate) * s->weight_effective);
    const double lost = steady ? 0 : s->shape_rate * (2 - s->shape_rate);
    const double keep = 1 - s->rank_one_rate * (1 - lost) - s->rank_half_rate;
    for (uint32_t i = 0; i < n; i++)
        s->shape_path[i] =
            (1 - s->shape_rate) * s->shape_path[i] + (steady ? gain * s->moved[i] : 0);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++) {
            double spread = 0;
            for (uint32_t k = 0; k < half; k++) {
                const double *point = s->points + (size_t)s->rank[k] * n;
                spread += s->weight[k] * (point[i] - s->mean[i]) * (point[j] - s->mean[j]);
            }
            double *c = &s->covariance[i * n + j];
            *c = keep * *c + s->rank_one_rate * s->shape_path[i] * s->shape_path[j] +
                 s->rank_half_rate * spread / (s->step * s->step);
        }
}

enum aw_err aw_search_tell(struct aw_search *s, const double *loss)
{
    const uint32_t n = s->config.dim;
    bool any = false;
    for (uint32_t i = 0; i < s->config.population; i++) {
        if (isnan(loss[i]))
            return AW_ERR_DIVERGED;
        any = any || isfinite(loss[i]);
    }
    if (!any)
        return AW_ERR_DIVERGED;
    rank(s, loss);
    if (loss[s->rank[0]] < s->best_loss) {
        s->best_loss = loss[s->rank[0]];
        memcpy(s->best, s->points + (size_t)s->rank[0] * n, n * sizeof *s->best);
    }
    recombine(s);
    const double length = step_path(s);
    s->round++;
    /* while the step size still grows fast, the shape waits */
    const double settled = sqrt(1 - pow(1 - s->step_rate, 2.0 * s->round));
    stretch(s, length / settled < (1.4 + 2 / (n + 1.0)) * s->length_expected);
    for (uint32_t i = 0; i < n; i++) /* between points of the box, so in the box */
        s->mean[i] = fmin(fmax(s->mean[i] + s->step * s->moved[i], 0), 1);
    const double growth = exp(s->step_rate / s->step_damping * (length / s->length_expected - 1));
    s->step = fmin(s->step * fmin(growth, STEP_GROWTH_MAX), STEP_MAX);
    factorise(s);
    return AW_OK;
}

const double *aw_search_best(const struct aw_search *search, double *ret_loss)
{
    *ret_loss = search->best_loss;
    return search->best;
}

const double *aw_search_mean(const struct aw_search *search)
{
    return search->mean;
}
