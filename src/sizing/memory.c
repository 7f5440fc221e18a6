/* memory.c - levels, effects, rests and their covariance (memory.h). */
#include "sizing/memory.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

#define PI            3.14159265358979323846
#define SWEEPS        8u  /* of the fit of levels and effects where some are missing */
#define PAIRS_MIN     3u  /* workloads that a covariance needs */
#define POWER_STEPS   30u /* of the power method */
#define FAMILY_SD_MIN 0.02
#define FAMILY_SD     0.08 /* of a measurement around the family, before any is known */

/* Levels and effects by turns, as each is a mean given the other (missing cells left out). */
static void fit_effects(struct aw_size_memory *m)
{
    const uint32_t C = m->config_count, W = m->workload_count;
    for (uint32_t sweep = 0; sweep < SWEEPS; sweep++) {
        for (uint32_t w = 0; w < W; w++) {
            const double *y = m->value + (size_t)m->workload[w] * C;
            double sum = 0, n = 0;
            for (uint32_t c = 0; c < C; c++)
                if (isfinite(y[c])) {
                    sum += y[c] - m->effect[c];
                    n++;
                }
            m->level[w] = n > 0 ? sum / n : 0;
        }
        double mean = 0, seen = 0;
        for (uint32_t c = 0; c < C; c++) {
            double sum = 0, n = 0;
            for (uint32_t w = 0; w < W; w++) {
                const double y = m->value[(size_t)m->workload[w] * C + c];
                if (isfinite(y)) {
                    sum += y - m->level[w];
                    n++;
                }
            }
            m->effect[c] = n > 0 ? sum / n : (double)NAN;
            if (n > 0) {
                mean += m->effect[c];
                seen++;
            }
        }
        mean = seen > 0 ? mean / seen : 0;
        for (uint32_t c = 0; c < C; c++) /* a configuration nobody ran is like those near to it */
            if (isfinite(m->effect[c]))
                m->effect[c] -= mean;
        for (uint32_t c = 0; c < C; c++) {
            double sum = 0, weight = 1e-9;
            if (isfinite(m->effect[c]))
                continue;
            for (uint32_t d = 0; d < C; d++)
                if (d != c && isfinite(m->effect[d])) {
                    const double near = pow(m->near[(size_t)c * C + d], 4);
                    sum += near * m->effect[d];
                    weight += near;
                }
            m->effect[c] = sum / weight;
        }
    }
}

static void fit_likeness(struct aw_size_memory *m)
{
    const uint32_t C = m->config_count, F = m->table->feature_count;
    double total = 0, pairs = 0;
    for (uint32_t c = 0; c < C; c++)
        for (uint32_t d = 0; d < C; d++) {
            double square = 0;
            for (uint32_t k = 0; k < F; k++) {
                const double gap =
                    (double)m->table->config[c].feature[k] - (double)m->table->config[d].feature[k];
                square += gap * gap;
            }
            m->near[(size_t)c * C + d] = square;
            total += c == d ? 0 : square;
            pairs += c != d;
        }
    const double length = pairs > 0 && total > 0 ? 0.5 * total / pairs : 1;
    for (size_t i = 0; i < (size_t)C * C; i++)
        m->near[i] = exp(-m->near[i] / (2 * length));
}

static void fit_rests(struct aw_size_memory *m)
{
    const uint32_t C = m->config_count, W = m->workload_count;
    double square = 0, n = 0;
    m->level_mean = m->level_var = 0;
    for (uint32_t w = 0; w < W; w++)
        m->level_mean += m->level[w] / W;
    for (uint32_t w = 0; w < W; w++) {
        const double gap = m->level[w] - m->level_mean;
        m->level_var += gap * gap / (W > 1 ? W - 1 : 1);
        for (uint32_t c = 0; c < C; c++) {
            const double y = m->value[(size_t)m->workload[w] * C + c];
            double *rest = &m->rest[(size_t)w * C + c];
            *rest = y - m->level[w] - m->effect[c]; /* NAN where y is */
            if (isfinite(*rest)) {
                square += *rest * *rest;
                n++;
            }
        }
    }
    /* before anything is known: a level may be anything, and rests may be large */
    m->level_var = W > 1 ? fmax(m->level_var, 0.05) : 25;
    m->rest_var = n > C ? fmax(square / n, 1e-5) : 0.25;
    for (uint32_t c = 0; c < C; c++) {
        double sum = 0, count = 0;
        for (uint32_t w = 0; w < W; w++)
            if (isfinite(m->rest[(size_t)w * C + c])) {
                sum += m->rest[(size_t)w * C + c] * (m->level[w] - m->level_mean);
                count++;
            }
        m->pull[c] = count > PAIRS_MIN ? sum / count * (count / (count + 5)) : 0;
        for (uint32_t d = 0; d <= c; d++) {
            double cross = 0, both = 0;
            for (uint32_t w = 0; w < W; w++) {
                const double p = m->rest[(size_t)w * C + c] * m->rest[(size_t)w * C + d];
                if (isfinite(p)) {
                    cross += p;
                    both++;
                }
            }
            m->cov[(size_t)c * C + d] = m->cov[(size_t)d * C + c] = both >= PAIRS_MIN ? cross / both
                                                                    : c == d          ? m->rest_var
                                                                                      : 0;
        }
    }
}

/* The first directions of the covariance: what configurations have in common beyond features. */
static void fit_principals(struct aw_size_memory *m, double *scratch)
{
    const uint32_t C = m->config_count, P = AW__SIZE_PRINCIPALS;
    for (uint32_t p = 0; p < P; p++) {
        for (uint32_t c = 0; c < C; c++)
            m->principal[c * P + p] = sin(1.0 + c * (p + 1.0)); /* any start that is not 0 */
        for (uint32_t step = 0; step < POWER_STEPS; step++) {
            double norm = 0;
            for (uint32_t c = 0; c < C; c++) {
                scratch[c] = 0;
                for (uint32_t d = 0; d < C; d++)
                    scratch[c] += m->cov[(size_t)c * C + d] * m->principal[d * P + p];
            }
            for (uint32_t q = 0; q < p; q++) {
                double dot = 0, length = 1e-12;
                for (uint32_t c = 0; c < C; c++) {
                    dot += scratch[c] * m->principal[c * P + q];
                    length += m->principal[c * P + q] * m->principal[c * P + q];
                }
                for (uint32_t c = 0; c < C; c++)
                    scratch[c] -= dot / length * m->principal[c * P + q];
            }
            for (uint32_t c = 0; c < C; c++)
                norm += scratch[c] * scratch[c];
            norm = sqrt(norm / C);
            for (uint32_t c = 0; c < C; c++)
                m->principal[c * P + p] = norm > 1e-12 ? scratch[c] / norm : 0;
        }
    }
}

/* --- the family ------------------------------------------------------------------------------- */

/* ln of (1 - s) + s knee / min(x, knee): x is memory (a share of a core comes with it) or what the
 * work is divided by. The knee is AWS Lambda's core, half of it, twice of it, or nowhere. */
static void fit_shapes(struct aw_size_memory *m)
{
    static const double memory_knee[AW__SIZE_KNEES] = {1024, 1792, 3008, 1e9};
    const uint32_t C = m->config_count;
    double most = 0;
    m->family = true;
    for (uint32_t c = 0; c < C; c++) {
        const double x =
            m->table->memory ? m->table->config[c].memory_mb : m->table->config[c].parallel;
        m->family &= isfinite(x) && x > 0;
        most = isfinite(x) && x > most ? x : most;
    }
    for (uint32_t s = 0; m->family && s < AW__SIZE_SHARES; s++)
        for (uint32_t k = 0; k < AW__SIZE_KNEES; k++)
            for (uint32_t c = 0; c < C; c++) {
                /* close to each other at both ends, where a little share makes much difference */
                const double share = 0.5 - 0.5 * cos(PI * s / (AW__SIZE_SHARES - 1));
                const double x =
                    m->table->memory ? m->table->config[c].memory_mb : m->table->config[c].parallel;
                const double knee =
                    fmin(most, m->table->memory ? memory_knee[k] : most * pow(0.5, k));
                m->shape[((size_t)s * AW__SIZE_KNEES + k) * C + c] =
                    log(1 - share + share * knee / fmin(x, knee) + 1e-3);
            }
}

/* How well each shape of the family fits a workload that is known: weights that add up to 1. */
static void family_fit(const struct aw_size_memory *m, const double *y, double sd, double *weight,
                       double *ret_least)
{
    const uint32_t C = m->config_count, shapes = AW__SIZE_SHARES * AW__SIZE_KNEES;
    double least = INFINITY, sum = 0;
    for (uint32_t g = 0; g < shapes; g++) {
        const double *shape = m->shape + (size_t)g * C;
        double mean = 0, n = 0, square = 0;
        for (uint32_t c = 0; c < C; c++)
            if (isfinite(y[c])) {
                mean += y[c] - shape[c];
                n++;
            }
        mean = n > 0 ? mean / n : 0;
        for (uint32_t c = 0; c < C; c++)
            if (isfinite(y[c]))
                square += (y[c] - shape[c] - mean) * (y[c] - shape[c] - mean);
        weight[g] = n > 0 ? square / n : 0;
        least = fmin(least, weight[g]);
    }
    for (uint32_t g = 0; g < shapes; g++)
        sum += weight[g] = exp(-(weight[g] - least) / (2 * sd * sd));
    for (uint32_t g = 0; g < shapes; g++)
        weight[g] /= sum;
    *ret_least = least;
}

static void fit_family(struct aw_size_memory *m, double *scratch)
{
    static const double lambda[AW__SIZE_KNEES] = {0.1, 0.6, 0.1, 0.2}; /* its core is the usual */
    const uint32_t shapes = AW__SIZE_SHARES * AW__SIZE_KNEES, W = m->workload_count;
    double weight[AW__SIZE_SHARES * AW__SIZE_KNEES], least;
    for (uint32_t g = 0; g < shapes; g++)
        m->prior[g] = (m->table->memory ? lambda[g % AW__SIZE_KNEES] : 1.0 / AW__SIZE_KNEES) /
                      AW__SIZE_SHARES;
    m->family_sd = FAMILY_SD;
    if (!m->family || W == 0)
        return;
    for (uint32_t w = 0; w < W; w++) {
        family_fit(m, m->value + (size_t)m->workload[w] * m->config_count, FAMILY_SD, weight,
                   &least);
        scratch[w] = least;
        for (uint32_t g = 0; g < shapes; g++)
            m->prior[g] += weight[g];
    }
    for (uint32_t g = 0; g < shapes; g++)
        m->prior[g] /= 1 + W;
    aw_stats_sort(scratch, W); /* a few workloads that no shape fits must not widen it for all */
    m->family_sd = fmax(FAMILY_SD_MIN, sqrt(aw_stats_median(scratch, W)));
}

enum aw_err aw_size_memory_new(const struct aw_size_table *table, const double *value,
                               const uint32_t *workloads, uint32_t workload_count,
                               struct aw_size_memory **ret_memory)
{
    const size_t C = table->config_count, W = workload_count;
    struct aw_size_memory head = {0}, *m = NULL;
    double *scratch = NULL;
    uint32_t *list = NULL;
    for (struct aw_carve carve = {0};;) {
        m = aw_carve_take(&carve, 1, sizeof *m);
        list = aw_carve_take(&carve, W, sizeof *list);
        head.effect = aw_carve_take(&carve, C, sizeof(double));
        head.level = aw_carve_take(&carve, W, sizeof(double));
        head.rest = aw_carve_take(&carve, W * C, sizeof(double));
        head.cov = aw_carve_take(&carve, C * C, sizeof(double));
        head.near = aw_carve_take(&carve, C * C, sizeof(double));
        head.pull = aw_carve_take(&carve, C, sizeof(double));
        head.principal = aw_carve_take(&carve, C * AW__SIZE_PRINCIPALS, sizeof(double));
        head.shape = aw_carve_take(&carve, AW__SIZE_SHARES * AW__SIZE_KNEES * C, sizeof(double));
        scratch = aw_carve_take(&carve, C > W ? C : W, sizeof(double));
        if (carve.base)
            break;
        void *block = aw_alloc_new(NULL, 1, carve.used);
        if (!block)
            return AW_ERR_NOMEM;
        carve = (struct aw_carve){.base = block};
    }
    *m = head;
    m->block = m;
    m->table = table;
    m->value = value;
    m->config_count = table->config_count;
    m->workload_count = workload_count;
    if (W > 0)
        memcpy(list, workloads, W * sizeof *list);
    m->workload = list;
    fit_likeness(m);
    fit_effects(m);
    fit_rests(m);
    fit_principals(m, scratch);
    fit_shapes(m);
    fit_family(m, scratch);
    *ret_memory = m;
    return AW_OK;
}

void aw_size_memory_free(struct aw_size_memory *memory)
{
    aw_alloc_free(NULL, memory ? memory->block : NULL);
}
