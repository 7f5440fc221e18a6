/* heads.c - predictions of all configurations from a few measured ones (memory.h). */
#include <math.h>
#include <string.h>

#include "sizing/memory.h"

#define SHRINK      0.3  /* of the covariance, to its diagonal */
#define NOISE       0.03 /* of a measurement, of the logarithm */
#define NOISE_SHARE 0.05
#define ANY_LEVEL   25.0 /* variance of a level of which nothing is known */
#define NEAR_SD     0.12 /* how far from the shots a workload may be to count as like */
#define CORE_MB     1792.0
#define SHARE_MEAN  0.8 /* of work that is divided, where nobody knows */

static double mean_of(const struct aw_size_shot *shots, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += shots[i].value;
    return sum / count;
}

static void fill_sd(double *sd, uint32_t count, double value)
{
    for (uint32_t c = 0; sd && c < count; c++)
        sd[c] = value;
}

void aw_size_flat(const struct aw_size_memory *memory, const struct aw_size_shot *shots,
                  uint32_t count, double *ret, double *ret_sd)
{
    const double mean = mean_of(shots, count);
    for (uint32_t c = 0; c < memory->config_count; c++)
        ret[c] = mean;
    fill_sd(ret_sd, memory->config_count, sqrt(memory->rest_var));
}

static double level_of(const struct aw_size_memory *memory, const struct aw_size_shot *shots,
                       uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += shots[i].value - memory->effect[shots[i].config];
    return sum / count;
}

void aw_size_additive(const struct aw_size_memory *memory, const struct aw_size_shot *shots,
                      uint32_t count, double *ret, double *ret_sd)
{
    const double level = level_of(memory, shots, count);
    for (uint32_t c = 0; c < memory->config_count; c++)
        ret[c] = level + memory->effect[c];
    fill_sd(ret_sd, memory->config_count, sqrt(memory->rest_var));
}

/* --- Gaussian processes ----------------------------------------------------------------------- */

struct kernel {
    const struct aw_size_memory *memory;
    bool wide;
};

static double covariance(const struct kernel *kernel, uint32_t c, uint32_t d)
{
    const struct aw_size_memory *m = kernel->memory;
    const size_t at = (size_t)c * m->config_count + d;
    const double seen = m->cov[at];
    if (!kernel->wide)
        return ANY_LEVEL + (c == d ? seen : (1 - SHRINK) * seen);
    /* few workloads say little of a covariance: features say the rest */
    const double trust = m->workload_count / (m->workload_count + 8.0);
    return m->level_var + m->pull[c] + m->pull[d] + trust * seen +
           (1 - trust) * m->rest_var * m->near[at] + (c == d ? 0.1 * m->rest_var : 0);
}

static double prior_mean(const struct kernel *kernel, uint32_t c)
{
    return kernel->memory->level_mean + kernel->memory->effect[c];
}

/* L L' = K in place, lower triangle; the diagonal is raised where it must be. */
static void cholesky(double *k, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++) {
            double sum = k[i * n + j];
            for (uint32_t p = 0; p < j; p++)
                sum -= k[i * n + p] * k[j * n + p];
            k[i * n + j] = i == j ? sqrt(fmax(sum, 1e-9)) : sum / k[j * n + j];
        }
}

static void condition(const struct kernel *kernel, const struct aw_size_shot *shots, uint32_t n,
                      double *ret, double *ret_sd)
{
    double k[AW_SIZE_SHOTS_MAX * AW_SIZE_SHOTS_MAX], white[AW_SIZE_SHOTS_MAX];
    /* what varies much is not measured to three per cent either */
    const double noise = NOISE * NOISE + NOISE_SHARE * kernel->memory->rest_var;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            k[i * n + j] =
                covariance(kernel, shots[i].config, shots[j].config) + (i == j ? noise : 0);
    cholesky(k, n);
    for (uint32_t i = 0; i < n; i++) {
        double sum = shots[i].value - prior_mean(kernel, shots[i].config);
        for (uint32_t p = 0; p < i; p++)
            sum -= k[i * n + p] * white[p];
        white[i] = sum / k[i * n + i];
    }
    for (uint32_t c = 0; c < kernel->memory->config_count; c++) {
        double cross[AW_SIZE_SHOTS_MAX], mean = prior_mean(kernel, c);
        double var = covariance(kernel, c, c);
        for (uint32_t i = 0; i < n; i++) {
            double sum = covariance(kernel, c, shots[i].config);
            for (uint32_t p = 0; p < i; p++)
                sum -= k[i * n + p] * cross[p];
            cross[i] = sum / k[i * n + i];
            mean += cross[i] * white[i];
            var -= cross[i] * cross[i];
        }
        ret[c] = mean;
        if (ret_sd)
            ret_sd[c] = sqrt(fmax(var, NOISE * NOISE));
    }
}

void aw_size_gp(const struct aw_size_memory *memory, const struct aw_size_shot *shots,
                uint32_t count, double *ret, double *ret_sd)
{
    condition(&(struct kernel){.memory = memory}, shots, count, ret, ret_sd);
}

void aw_size_gp_wide(const struct aw_size_memory *memory, const struct aw_size_shot *shots,
                     uint32_t count, double *ret, double *ret_sd)
{
    condition(&(struct kernel){.memory = memory, .wide = true}, shots, count, ret, ret_sd);
}

/* --- neighbours ------------------------------------------------------------------------------- */

void aw_size_nearest(const struct aw_size_memory *memory, const struct aw_size_shot *shots,
                     uint32_t count, double *ret, double *ret_sd)
{
    const uint32_t C = memory->config_count;
    const double level = level_of(memory, shots, count);
    double least = INFINITY;
    aw_size_additive(memory, shots, count, ret, ret_sd);
    if (memory->workload_count == 0)
        return;
    for (uint32_t pass = 0; pass < 2; pass++) {
        double sum[AW_SIZE_CONFIGS_MAX] = {0}, weight[AW_SIZE_CONFIGS_MAX] = {0};
        for (uint32_t w = 0; w < memory->workload_count; w++) {
            const double *rest = memory->rest + (size_t)w * C;
            double offset = 0, square = 0, n = 0;
            for (uint32_t i = 0; i < count; i++)
                if (isfinite(rest[shots[i].config])) {
                    offset +=
                        shots[i].value - memory->effect[shots[i].config] - rest[shots[i].config];
                    n++;
                }
            if (n == 0)
                continue;
            offset /= n;
            for (uint32_t i = 0; i < count; i++)
                if (isfinite(rest[shots[i].config])) {
                    const double gap = shots[i].value - memory->effect[shots[i].config] -
                                       rest[shots[i].config] - offset;
                    square += gap * gap;
                }
            const double far = square / (2 * NEAR_SD * NEAR_SD);
            least = fmin(least, far);
            if (pass == 0)
                continue;
            const double like = exp(-(far - least));
            for (uint32_t c = 0; c < C; c++)
                if (isfinite(rest[c])) {
                    sum[c] += like * (offset + rest[c]);
                    weight[c] += like;
                }
        }
        for (uint32_t c = 0; pass == 1 && c < C; c++)
            if (weight[c] > 1e-12)
                ret[c] = memory->effect[c] + sum[c] / weight[c];
            else
                ret[c] = memory->effect[c] + level;
    }
}

/* --- physics ---------------------------------------------------------------------------------- */

/* What is divided by at a configuration, relative to a whole core, or to the largest. */
static double divided(const struct aw_size_memory *memory, uint32_t c, double most)
{
    const struct aw_size_config *config = &memory->table->config[c];
    return memory->table->memory ? CORE_MB / fmin(config->memory_mb, CORE_MB)
                                 : most / config->parallel;
}

void aw_size_two_point(const struct aw_size_memory *memory, const struct aw_size_shot *shots,
                       uint32_t count, double *ret, double *ret_sd)
{
    double xx = 0, x1 = 0, y1 = 0, xy = 0, most = 0, weights = 0;
    aw_size_flat(memory, shots, count, ret, ret_sd);
    if (!memory->family)
        return;
    for (uint32_t c = 0; c < memory->config_count; c++)
        most = fmax(most, memory->table->config[c].parallel);
    for (uint32_t i = 0; i < count; i++) { /* relative errors count: weight 1/y^2 */
        const double y = exp(shots[i].value - shots[0].value), w = 1 / (y * y);
        const double x = divided(memory, shots[i].config, most);
        weights += w;
        x1 += w * x;
        y1 += w * y;
        xx += w * x * x;
        xy += w * x * y;
    }
    const double det = weights * xx - x1 * x1;
    double a = (y1 * xx - x1 * xy) / det, b = (weights * xy - x1 * y1) / det;
    if (!(det > 1e-9 * weights * xx)) { /* one place alone: a share that is usual */
        b = SHARE_MEAN * y1 / x1;
        a = (1 - SHARE_MEAN) * y1 / weights;
    } else if (b < 0) {
        b = 0;
        a = y1 / weights;
    } else if (a < 0) {
        a = 0;
        b = xy / xx;
    }
    for (uint32_t c = 0; c < memory->config_count; c++)
        ret[c] = shots[0].value + log(fmax(a + b * divided(memory, c, most), 1e-9));
}

void aw_size_physical(const struct aw_size_memory *memory, const struct aw_size_shot *shots,
                      uint32_t count, double *ret, double *ret_sd)
{
    const uint32_t C = memory->config_count, shapes = AW__SIZE_SHARES * AW__SIZE_KNEES;
    double weight[AW__SIZE_SHARES * AW__SIZE_KNEES], level[AW__SIZE_SHARES * AW__SIZE_KNEES];
    double best = -INFINITY, sum = 0;
    aw_size_additive(memory, shots, count, ret, ret_sd);
    if (!memory->family)
        return;
    for (uint32_t g = 0; g < shapes; g++) {
        const double *shape = memory->shape + (size_t)g * C;
        double square = 0;
        level[g] = 0;
        for (uint32_t i = 0; i < count; i++)
            level[g] += (shots[i].value - shape[shots[i].config]) / count;
        for (uint32_t i = 0; i < count; i++) {
            const double gap = shots[i].value - shape[shots[i].config] - level[g];
            square += gap * gap;
        }
        weight[g] =
            log(memory->prior[g] + 1e-12) - square / (2 * memory->family_sd * memory->family_sd);
        best = fmax(best, weight[g]);
    }
    for (uint32_t g = 0; g < shapes; g++)
        sum += weight[g] = exp(weight[g] - best);
    for (uint32_t c = 0; c < C; c++) {
        double mean = 0, square = 0;
        for (uint32_t g = 0; g < shapes; g++) {
            const double y = level[g] + memory->shape[(size_t)g * C + c];
            mean += weight[g] / sum * y;
            square += weight[g] / sum * y * y;
        }
        ret[c] = mean;
        if (ret_sd)
            ret_sd[c] = sqrt(fmax(square - mean * mean, 0) + memory->family_sd * memory->family_sd);
    }
}
