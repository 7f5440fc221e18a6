/* bayes_opt.c - a Gaussian process over tries, and where to try next. */
#include "base/bayes_opt.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

#define N        AW_BAYES_OPT_TRIES_MAX
#define DRAWS    256u
#define LEAST    0.05 /* of the spread: an improvement that is worth a try */
#define DOUBT    0.5  /* deviations that a difference is beyond */
#define AGAIN    8u   /* tries after which many are supposed about anew */
#define MANY     32u
#define WORST    3.0 /* spreads below the median: what is worse is no worse than that */
#define JITTER   1e-9
#define FACTORS  3
#define BELIEVES 0.7 /* deviation of ln of what was expected of length, spread and noise */

static const double factor_of[FACTORS] = {0.5, 1, 2};

enum aw_err aw_bayes_opt_init(struct aw_bayes_opt *seek, const struct aw_bayes_opt_config *config,
                              const struct aw_alloc *alloc)
{
    AW_ASSERT(config->dim > 0 && config->dim <= AW_BAYES_OPT_DIM_MAX);
    *seek = (struct aw_bayes_opt){.config = *config, .alloc = alloc};
    aw_rng_init(&seek->rng, config->seed, 0);
    seek->x = aw_alloc_new(alloc, N, sizeof *seek->x);
    seek->value = aw_alloc_new(alloc, 5 * (size_t)N + (size_t)N * N, sizeof(double));
    if (!seek->x || !seek->value) {
        aw_bayes_opt_deinit(seek);
        return AW_ERR_NOMEM;
    }
    seek->weight = seek->value + N;
    seek->seen = seek->weight + N;
    seek->near = seek->seen + N;
    seek->scratch = seek->near + N;
    seek->factor = seek->scratch + N;
    return AW_OK;
}

void aw_bayes_opt_deinit(struct aw_bayes_opt *seek)
{
    aw_alloc_free(seek->alloc, seek->x);
    aw_alloc_free(seek->alloc, seek->value);
    seek->x = NULL;
    seek->value = NULL;
}

/* --- the process ------------------------------------------------------------------------------ */

static double kernel(const struct aw_bayes_opt *seek, const double *a, const double *b)
{
    double far = 0;
    for (uint32_t i = 0; i < seek->config.dim; i++)
        far += (a[i] - b[i]) * (a[i] - b[i]);
    return seek->spread * seek->spread * exp(-0.5 * far / (seek->length * seek->length));
}

/* y of L y = b, in place. */
static void solve_lower(const struct aw_bayes_opt *seek, double *b)
{
    for (uint32_t i = 0; i < seek->count; i++) {
        const double *row = seek->factor + (size_t)i * N;
        double sum = b[i];
        for (uint32_t j = 0; j < i; j++)
            sum -= row[j] * b[j];
        b[i] = sum / row[i];
    }
}

static void solve_upper(const struct aw_bayes_opt *seek, double *b)
{
    for (uint32_t i = seek->count; i-- > 0;) {
        double sum = b[i];
        for (uint32_t j = i + 1; j < seek->count; j++)
            sum -= seek->factor[(size_t)j * N + i] * b[j];
        b[i] = sum / seek->factor[(size_t)i * N + i];
    }
}

/* The process with its present length, spread and noise. Returns how likely the tries are by it, as
 * a logarithm but for a constant. */
static double condition(struct aw_bayes_opt *seek)
{
    const double noise = seek->noise * seek->noise + JITTER * seek->spread * seek->spread;
    double likely = 0;
    for (uint32_t i = 0; i < seek->count; i++) {
        double *row = seek->factor + (size_t)i * N;
        for (uint32_t j = 0; j <= i; j++) {
            const double *other = seek->factor + (size_t)j * N;
            double sum = kernel(seek, seek->x[i], seek->x[j]) + (i == j ? noise : 0);
            for (uint32_t k = 0; k < j; k++)
                sum -= row[k] * other[k];
            row[j] = i == j ? sqrt(fmax(sum, noise * JITTER)) : sum / other[j];
        }
        seek->weight[i] = seek->seen[i] - seek->mean;
        likely -= log(row[i]);
    }
    solve_lower(seek, seek->weight);
    for (uint32_t i = 0; i < seek->count; i++)
        likely -= 0.5 * seek->weight[i] * seek->weight[i];
    solve_upper(seek, seek->weight);
    return likely;
}

/* The most likely of a few lengths, spreads and noises. */
static void suppose(struct aw_bayes_opt *seek)
{
    const struct aw_bayes_opt_config *config = &seek->config;
    double best = -INFINITY, found[3] = {0};
    for (uint32_t k = 0; k < FACTORS * FACTORS * FACTORS; k++) {
        const double by[3] = {factor_of[k % FACTORS], factor_of[k / FACTORS % FACTORS],
                              factor_of[k / FACTORS / FACTORS]};
        double believed = 0;
        for (uint32_t i = 0; i < 3; i++)
            believed -= 0.5 * pow(log(by[i]) / BELIEVES, 2);
        seek->length = config->length * by[0];
        seek->spread = config->spread * by[1];
        seek->noise = config->noise * by[2];
        const double likely = condition(seek) + believed;
        if (likely > best) {
            best = likely;
            memcpy(found, by, sizeof found);
        }
    }
    seek->length = config->length * found[0];
    seek->spread = config->spread * found[1];
    seek->noise = config->noise * found[2];
    (void)condition(seek);
}

/* --- tries ------------------------------------------------------------------------------------ */

/* What is far below the others, or no number, is as far below as anything can be: how far says
 * nothing. */
static void clip(struct aw_bayes_opt *seek)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < seek->count; i++)
        if (isfinite(seek->value[i]))
            seek->scratch[count++] = seek->value[i];
    aw_stats_sort(seek->scratch, count);
    const double median = count ? aw_stats_median(seek->scratch, count) : 0;
    const double least = median - WORST * seek->config.spread;
    for (uint32_t i = 0; i < seek->count; i++)
        seek->seen[i] = isfinite(seek->value[i]) ? fmax(seek->value[i], least) : least;
    seek->mean = median;
}

/* Before `better`, whenever the process or the best is another. */
static void near_best(struct aw_bayes_opt *seek)
{
    for (uint32_t i = 0; i < seek->count; i++)
        seek->near[i] = kernel(seek, seek->best, seek->x[i]);
}

/* By how much x is expected to be better than the best. Leaves what its deviation is made from. */
static double better(struct aw_bayes_opt *seek, const double *x)
{
    double mean = 0;
    for (uint32_t i = 0; i < seek->count; i++) {
        seek->scratch[i] = kernel(seek, x, seek->x[i]) - seek->near[i];
        mean += seek->scratch[i] * seek->weight[i];
    }
    return mean;
}

/* Its variance before anything was tried: the most that there can be. */
static double variance_most(const struct aw_bayes_opt *seek, const double *x)
{
    return 2 * fmax(0, seek->spread * seek->spread - kernel(seek, x, seek->best));
}

/* Its deviation, right after `better`: nearly all that a question costs. */
static double deviation(struct aw_bayes_opt *seek, const double *x)
{
    double left = variance_most(seek, x);
    solve_lower(seek, seek->scratch);
    for (uint32_t i = 0; i < seek->count; i++)
        left -= seek->scratch[i] * seek->scratch[i];
    return sqrt(fmax(left, 0));
}

void aw_bayes_opt_tell(struct aw_bayes_opt *seek, const double *x, double value)
{
    if (seek->count == N) {
        memmove(seek->x, seek->x + 1, (N - 1) * sizeof *seek->x);
        memmove(seek->value, seek->value + 1, (N - 1) * sizeof *seek->value);
        seek->count--;
    }
    memset(seek->x[seek->count], 0, sizeof *seek->x);
    memcpy(seek->x[seek->count], x, seek->config.dim * sizeof *x);
    seek->value[seek->count++] = value;
    seek->told++;
    clip(seek);
    if (seek->count <= MANY || seek->told % AGAIN == 0)
        suppose(seek);
    else
        (void)condition(seek);
    near_best(seek);
    double most = 0;
    const double *found = NULL;
    for (uint32_t i = 0; i < seek->count; i++) {
        const double mean = better(seek, seek->x[i]);
        const double sure = mean > most ? mean - DOUBT * deviation(seek, seek->x[i]) : most;
        if (sure > most) {
            most = sure;
            found = seek->x[i];
        }
    }
    if (found)
        memcpy(seek->best, found, sizeof seek->best);
}

void aw_bayes_opt_best(const struct aw_bayes_opt *seek, double *ret)
{
    memcpy(ret, seek->best, seek->config.dim * sizeof *ret);
}

/* Of a normal variable beyond 0. */
static double improvement(double mean, double deviation)
{
    if (!(deviation > 0))
        return fmax(mean, 0);
    const double z = mean / deviation;
    return mean * 0.5 * erfc(-z / sqrt(2)) + deviation * exp(-0.5 * z * z) / sqrt(2 * acos(-1));
}

void aw_bayes_opt_next(struct aw_bayes_opt *seek, double *ret)
{
    aw_bayes_opt_best(seek, ret);
    if (seek->count == 0)
        return;
    const uint32_t dim = seek->config.dim;
    near_best(seek);
    double most = LEAST * seek->config.spread;
    for (uint32_t k = 0; k < DRAWS; k++) {
        double x[AW_BAYES_OPT_DIM_MAX] = {0}, far = 0;
        for (uint32_t i = 0; i < dim; i++) {
            x[i] = aw_rng_normal(&seek->rng);
            far += x[i] * x[i];
        }
        /* uniform in a ball */
        const double radius = seek->config.length * pow(aw_rng_double(&seek->rng), 1.0 / dim);
        for (uint32_t i = 0; i < dim; i++)
            x[i] = seek->best[i] + radius * x[i] / sqrt(far);
        const double mean = better(seek, x);
        if (improvement(mean, sqrt(variance_most(seek, x))) <= most)
            continue;
        const double worth = improvement(mean, deviation(seek, x));
        if (worth > most) {
            most = worth;
            memcpy(ret, x, dim * sizeof *ret);
        }
    }
}
