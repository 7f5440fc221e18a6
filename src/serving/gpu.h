/*
 * gpu.h - laws of a GPU's time and power over its clock, and how they are fitted to measurements.
 *
 * x = clock / largest clock. A program's time and power:
 *
 *   t(x) = a + b / x                 a: what the memory takes, b: what the core takes
 *   P(x) = s + c x V(x)^2            V(x) = max(v_min, 1 - k (1 - x))
 *
 * s and c belong to the program, V (its slope k and its floor) to the GPU. Above the clock at which
 * a power limit binds, time and power are flat: x is min(x, x_cap). A matrix product of B bytes and
 * F flops (roofline, rounded at its corner):
 *
 *   t = t0 + ((B / bandwidth)^p + (F / (compute x))^p)^(1/p)
 *
 * The sensitivity of Alg. 6.1 is 2 (1 - m), m = a / (a + b): 2 for what the core bounds, 0 for what
 * the memory bounds.
 *
 * Memory:  the caller's. Threads: pure functions.
 */
#ifndef AW_SERVING_GPU_H
#define AW_SERVING_GPU_H

#include <aware/err.h>

struct aw_gpu_volt {
    double slope, floor; /* k, v_min */
};
struct aw_gpu_time {
    double a, b; /* of the unit that was measured */
    double cap;  /* x above which nothing changes; 1: none */
};
struct aw_gpu_power {
    double s, c; /* W */
    double cap;
};
struct aw_gpu_roof {
    double fixed;     /* t0, s */
    double bandwidth; /* bytes/s */
    double compute;   /* flop/s */
    double corner;    /* p */
};

double aw_gpu_time_at(const struct aw_gpu_time *law, double x);
double aw_gpu_memory_share(const struct aw_gpu_time *law);         /* m, 0 to 1 */
double aw_gpu_sensitivity(const struct aw_gpu_time *law);          /* 0 to 2 */
double aw_gpu_switching(const struct aw_gpu_volt *volt, double x); /* x V^2 */
double aw_gpu_power_at(const struct aw_gpu_power *law, const struct aw_gpu_volt *volt, double x);
/* The x at which a program draws `watts`, from x_min to 1. */
double aw_gpu_power_clock(const struct aw_gpu_power *law, const struct aw_gpu_volt *volt,
                          double watts, double x_min);
double aw_gpu_roof_at(const struct aw_gpu_roof *roof, double bytes, double flops, double x);

/* Least squares of relative errors; a, b, s, c >= 0. n >= 1. */
void aw_gpu_time_fit(const double *x, const double *t, uint32_t n, struct aw_gpu_time *ret);
void aw_gpu_power_fit(const double *x, const double *p, uint32_t n, const struct aw_gpu_volt *volt,
                      struct aw_gpu_power *ret);
/* The same, drawn towards s = ratio x c: `weight` is that of one more measurement. The cap that
 * `law` has is kept. */
void aw_gpu_power_near(const double *x, const double *p, uint32_t n, const struct aw_gpu_volt *volt,
                       double ratio, double weight, struct aw_gpu_power *law);
/* The same with a cap, searched for among the clocks; used where it is much better. */
void aw_gpu_capped_fit(const double *x, const double *t, const double *p, uint32_t n,
                       const struct aw_gpu_volt *volt, struct aw_gpu_time *ret_time,
                       struct aw_gpu_power *ret_power);

struct aw_gpu_product {
    double bytes, flops, seconds;
};
void aw_gpu_roof_fit(const struct aw_gpu_product *product, uint32_t n, struct aw_gpu_roof *ret);

/* y = sum over k of beta_k u_k, least squares of relative errors; `u` [n][terms], terms <= 6.
 * Coefficients that come out below 0 are held at 0. `weight` [n] or NULL. */
#define AW_GPU_TERMS_MAX 6u
void aw_gpu_linear_fit(const double *u, const double *y, const double *weight, uint32_t n,
                       uint32_t terms, double *ret);
/* The same for least absolute errors, by weights anew (`weight` [n] is written): a run that went
 * wrong bends nothing. */
void aw_gpu_robust_fit(const double *u, const double *y, double *weight, uint32_t n, uint32_t terms,
                       double *ret);

#endif
