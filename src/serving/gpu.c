/* gpu.c - laws of time and power, and their fits. */
#include "serving/gpu.h"

#include <math.h>
#include <string.h>

#define CAP_GAIN      0.5 /* a cap must take away so much of the squared error */
#define CAP_POINTS    6u  /* fewer clocks do not show one */
#define CLOCKS_MAX    512u
#define PATTERN_STEPS 60u
#define ROBUST_ROUNDS 12u

double aw_gpu_time_at(const struct aw_gpu_time *law, double x)
{
    return law->a + law->b / fmin(x, law->cap);
}

double aw_gpu_memory_share(const struct aw_gpu_time *law)
{
    return law->a + law->b > 0 ? law->a / (law->a + law->b) : 0;
}

double aw_gpu_sensitivity(const struct aw_gpu_time *law)
{
    return 2 * (1 - aw_gpu_memory_share(law));
}

double aw_gpu_switching(const struct aw_gpu_volt *volt, double x)
{
    const double v = fmax(volt->floor, 1 - volt->slope * (1 - x));
    return x * v * v;
}

double aw_gpu_power_at(const struct aw_gpu_power *law, const struct aw_gpu_volt *volt, double x)
{
    return law->s + law->c * aw_gpu_switching(volt, fmin(x, law->cap));
}

double aw_gpu_power_clock(const struct aw_gpu_power *law, const struct aw_gpu_volt *volt,
                          double watts, double x_min)
{
    double low = x_min, high = 1;
    if (aw_gpu_power_at(law, volt, high) <= watts)
        return high;
    for (int i = 0; i < 40; i++) {
        const double middle = 0.5 * (low + high);
        if (aw_gpu_power_at(law, volt, middle) <= watts)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double aw_gpu_roof_at(const struct aw_gpu_roof *roof, double bytes, double flops, double x)
{
    const double p = roof->corner, memory = bytes / roof->bandwidth,
                 core = flops / (roof->compute * x), large = fmax(memory, core),
                 ratio = large > 0 ? fmin(memory, core) / large : 0;
    return roof->fixed + large * exp(log1p(exp(p * log(fmax(ratio, 1e-12)))) / p);
}

/* --- least squares ---------------------------------------------------------------------------- */

/* Gaussian elimination with pivots; false: singular. */
static bool solve(double (*m)[AW_GPU_TERMS_MAX + 1], uint32_t n, double *ret)
{
    for (uint32_t c = 0; c < n; c++) {
        uint32_t pivot = c;
        for (uint32_t r = c + 1; r < n; r++)
            if (fabs(m[r][c]) > fabs(m[pivot][c]))
                pivot = r;
        if (fabs(m[pivot][c]) < 1e-300)
            return false;
        for (uint32_t k = 0; k <= n; k++) {
            const double swap = m[c][k];
            m[c][k] = m[pivot][k];
            m[pivot][k] = swap;
        }
        for (uint32_t r = 0; r < n; r++) {
            const double factor = r == c ? 0 : m[r][c] / m[c][c];
            for (uint32_t k = c; factor != 0 && k <= n; k++)
                m[r][k] -= factor * m[c][k];
        }
    }
    for (uint32_t c = 0; c < n; c++)
        ret[c] = m[c][n] / m[c][c];
    return true;
}

void aw_gpu_linear_fit(const double *u, const double *y, const double *weight, uint32_t n,
                       uint32_t terms, double *ret)
{
    bool held[AW_GPU_TERMS_MAX] = {false};
    AW_ASSERT(terms >= 1 && terms <= AW_GPU_TERMS_MAX);
    for (;;) { /* hold what is below 0 at 0, and solve again: at most `terms` times */
        uint32_t index[AW_GPU_TERMS_MAX], free = 0, worst = AW_GPU_TERMS_MAX;
        double m[AW_GPU_TERMS_MAX][AW_GPU_TERMS_MAX + 1] = {0}, beta[AW_GPU_TERMS_MAX];
        for (uint32_t k = 0; k < terms; k++)
            if (!held[k])
                index[free++] = k;
        memset(ret, 0, terms * sizeof *ret);
        if (free == 0)
            return;
        for (uint32_t i = 0; i < n; i++) {
            const double w = (weight ? weight[i] : 1) / fmax(y[i] * y[i], 1e-300);
            for (uint32_t r = 0; r < free; r++) {
                const double ur = u[(size_t)i * terms + index[r]];
                for (uint32_t c = 0; c < free; c++)
                    m[r][c] += w * ur * u[(size_t)i * terms + index[c]];
                m[r][free] += w * ur * y[i];
            }
        }
        for (uint32_t r = 0; r < free; r++) /* a trace of ridge: few points, or the same ones */
            m[r][r] *= 1 + 1e-10;
        if (!solve(m, free, beta)) {
            held[index[free - 1]] = true;
            continue;
        }
        for (uint32_t r = 0; r < free; r++) {
            ret[index[r]] = beta[r];
            if (beta[r] < 0 && (worst == AW_GPU_TERMS_MAX || beta[r] < ret[worst]))
                worst = index[r];
        }
        if (worst == AW_GPU_TERMS_MAX)
            return;
        held[worst] = true;
    }
}

void aw_gpu_robust_fit(const double *u, const double *y, double *weight, uint32_t n, uint32_t terms,
                       double *ret)
{
    for (uint32_t i = 0; i < n; i++)
        weight[i] = 1;
    for (uint32_t round = 0; round < ROBUST_ROUNDS; round++) {
        aw_gpu_linear_fit(u, y, weight, n, terms, ret);
        for (uint32_t i = 0; i < n; i++) {
            double at = 0;
            for (uint32_t k = 0; k < terms; k++)
                at += ret[k] * u[(size_t)i * terms + k];
            weight[i] = 1 / fmax(fabs(at / y[i] - 1), 0.005);
        }
    }
}

void aw_gpu_time_fit(const double *x, const double *t, uint32_t n, struct aw_gpu_time *ret)
{
    double u[2 * CLOCKS_MAX], beta[2];
    n = n < CLOCKS_MAX ? n : CLOCKS_MAX;
    for (uint32_t i = 0; i < n; i++) {
        u[2 * i] = 1;
        u[2 * i + 1] = 1 / x[i];
    }
    aw_gpu_linear_fit(u, t, NULL, n, 2, beta);
    *ret = (struct aw_gpu_time){.a = beta[0], .b = beta[1], .cap = 1};
}

void aw_gpu_power_fit(const double *x, const double *p, uint32_t n, const struct aw_gpu_volt *volt,
                      struct aw_gpu_power *ret)
{
    double u[2 * CLOCKS_MAX], beta[2];
    n = n < CLOCKS_MAX ? n : CLOCKS_MAX;
    for (uint32_t i = 0; i < n; i++) {
        u[2 * i] = 1;
        u[2 * i + 1] = aw_gpu_switching(volt, x[i]);
    }
    aw_gpu_linear_fit(u, p, NULL, n, 2, beta);
    *ret = (struct aw_gpu_power){.s = beta[0], .c = beta[1], .cap = 1};
}

void aw_gpu_power_near(const double *x, const double *p, uint32_t n, const struct aw_gpu_volt *volt,
                       double ratio, double weight, struct aw_gpu_power *law)
{
    double ss = 0, sc = 0, cc = 0, s = 0, c = 0, mean = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double u = aw_gpu_switching(volt, fmin(x[i], law->cap)),
                     w = 1 / fmax(p[i] * p[i], 1e-300);
        ss += w;
        sc += w * u;
        cc += w * u * u;
        s += w * p[i];
        c += w * u * p[i];
        mean += p[i] / n;
    }
    weight /= fmax(mean * mean, 1e-300);
    ss += weight;
    sc -= weight * ratio;
    cc += weight * ratio * ratio;
    const double det = ss * cc - sc * sc;
    law->s = s / ss;
    law->c = 0;
    if (!(det > 1e-12 * ss * cc))
        return;
    law->s = (s * cc - c * sc) / det;
    law->c = (ss * c - sc * s) / det;
    if (law->s < 0) {
        law->s = 0;
        law->c = c / cc;
    } else if (law->c < 0) {
        law->s = s / ss;
        law->c = 0;
    }
}

void aw_gpu_capped_fit(const double *x, const double *t, const double *p, uint32_t n,
                       const struct aw_gpu_volt *volt, struct aw_gpu_time *ret_time,
                       struct aw_gpu_power *ret_power)
{
    double best = INFINITY, plain = INFINITY, capped[CLOCKS_MAX];
    n = n < CLOCKS_MAX ? n : CLOCKS_MAX;
    for (uint32_t k = 0; k <= n; k++) { /* k == n: no cap */
        const double cap = k < n ? x[k] : 1;
        struct aw_gpu_time time;
        struct aw_gpu_power power;
        if (k < n && n < CAP_POINTS)
            continue;
        for (uint32_t i = 0; i < n; i++)
            capped[i] = fmin(x[i], cap);
        aw_gpu_time_fit(capped, t, n, &time);
        aw_gpu_power_fit(capped, p, n, volt, &power);
        time.cap = power.cap = cap;
        double error = 0;
        for (uint32_t i = 0; i < n; i++) {
            const double et = aw_gpu_time_at(&time, x[i]) / t[i] - 1,
                         ep = aw_gpu_power_at(&power, volt, x[i]) / p[i] - 1;
            error += et * et + ep * ep;
        }
        plain = k == n ? error : plain;
        if (error < best || (k == n && best > CAP_GAIN * plain)) {
            best = error;
            *ret_time = time;
            *ret_power = power;
        }
    }
}

/* --- the roofline ----------------------------------------------------------------------------- */

/* Mean absolute error of logarithms: a few odd shapes do not bend the law for all. */
static double roof_error(const struct aw_gpu_product *product, uint32_t n, const double *z)
{
    const struct aw_gpu_roof roof = {exp(z[0]), exp(z[1]), exp(z[2]), exp(z[3])};
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += fabs(
            log(aw_gpu_roof_at(&roof, product[i].bytes, product[i].flops, 1) / product[i].seconds));
    return sum / n;
}

void aw_gpu_roof_fit(const struct aw_gpu_product *product, uint32_t n, struct aw_gpu_roof *ret)
{
    double bandwidth = 1, compute = 1, least = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        bandwidth = fmax(bandwidth, product[i].bytes / product[i].seconds);
        compute = fmax(compute, product[i].flops / product[i].seconds);
        least = fmin(least, product[i].seconds);
    }
    double z[4] = {log(0.2 * least), log(bandwidth), log(compute), log(2)};
    double step = 0.5, best = roof_error(product, n, z);
    for (uint32_t round = 0; round < PATTERN_STEPS && step > 2e-3; round++) {
        bool better = false;
        for (uint32_t k = 0; k < 4; k++)
            for (int sign = -1; sign <= 1; sign += 2) {
                const double old = z[k];
                z[k] += sign * step;
                const double error =
                    z[3] < log(0.7) || z[3] > log(20) ? INFINITY : roof_error(product, n, z);
                if (error < best) {
                    best = error;
                    better = true;
                } else {
                    z[k] = old;
                }
            }
        step = better ? step : 0.5 * step;
    }
    *ret = (struct aw_gpu_roof){exp(z[0]), exp(z[1]), exp(z[2]), exp(z[3])};
}
