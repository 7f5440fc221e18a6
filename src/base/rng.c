/*
 * rng.c - xoshiro256++ (Blackman and Vigna, 2019) seeded by splitmix64 (Steele et al., 2014).
 *
 * Doubles are built from the top 53 bits, floats from the top 24, so that both exclude 1.
 */
#include "base/rng.h"

#include <math.h>

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void aw_rng_init(struct aw_rng *rng, uint64_t seed, uint64_t stream)
{
    /* The stream is hashed before it meets the seed: (1, 2) and (2, 1) must differ. */
    uint64_t key = stream + 0x632be59bd9b4e019u;
    uint64_t state = seed ^ splitmix64(&key);
    for (int i = 0; i < 4; i++)
        rng->s[i] = splitmix64(&state);
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t aw_rng_u64(struct aw_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotl(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint32_t aw_rng_below(struct aw_rng *rng, uint32_t n)
{
    /* Lemire 2019: multiply, and redraw only in the sliver that would bias the result. */
    uint64_t m = (aw_rng_u64(rng) >> 32) * n;
    if ((uint32_t)m < n) {
        uint32_t threshold = -n % n;
        while ((uint32_t)m < threshold)
            m = (aw_rng_u64(rng) >> 32) * n;
    }
    return (uint32_t)(m >> 32);
}

double aw_rng_double(struct aw_rng *rng)
{
    return (double)(aw_rng_u64(rng) >> 11) * 0x1p-53;
}

float aw_rng_float(struct aw_rng *rng)
{
    return (float)(aw_rng_u64(rng) >> 40) * 0x1p-24f;
}

double aw_rng_uniform(struct aw_rng *rng, double low, double high)
{
    return low + (high - low) * aw_rng_double(rng);
}

/* Box-Muller. 1 - u keeps the logarithm away from zero. */
static double normal_pair(struct aw_rng *rng, double *second)
{
    double radius = sqrt(-2.0 * log(1.0 - aw_rng_double(rng)));
    double angle = 6.283185307179586 * aw_rng_double(rng);
    *second = radius * sin(angle);
    return radius * cos(angle);
}

double aw_rng_normal(struct aw_rng *rng)
{
    double unused;
    return normal_pair(rng, &unused);
}

double aw_rng_exponential(struct aw_rng *rng, double mean)
{
    return -mean * log(1.0 - aw_rng_double(rng));
}

static double log_factorial(double k)
{
    int sign; /* lgamma itself writes a global, which threads would race for */
    return lgamma_r(k + 1, &sign);
}

/* Multiplication below 30, where it is short; above, the transformed rejection of Hoermann (1993),
 * algorithm PTRS, whose cost does not grow with the mean. */
uint64_t aw_rng_poisson(struct aw_rng *rng, double mean)
{
    if (!(mean > 0))
        return 0;
    if (mean < 30) {
        double limit = exp(-mean), product = aw_rng_double(rng);
        uint64_t k = 0;
        for (; product > limit; k++)
            product *= aw_rng_double(rng);
        return k;
    }
    double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
    double inv_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = aw_rng_double(rng) - 0.5, v = 1.0 - aw_rng_double(rng);
        double us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= v_r)
            return (uint64_t)k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        if (log(v) + log(inv_alpha) - log(a / (us * us) + b) <=
            k * log(mean) - mean - log_factorial(k))
            return (uint64_t)k;
    }
}

void aw_rng_fill_normal(struct aw_rng *rng, float *out, size_t n)
{
    double first, second;
    for (size_t i = 0; i < n; i += 2) {
        first = normal_pair(rng, &second);
        out[i] = (float)first;
        if (i + 1 < n)
            out[i + 1] = (float)second;
    }
}

void aw_rng_fill_uniform(struct aw_rng *rng, float *out, size_t n, float low, float high)
{
    for (size_t i = 0; i < n; i++)
        out[i] = low + (high - low) * aw_rng_float(rng);
}

void aw_rng_shuffle(struct aw_rng *rng, uint32_t *index, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = aw_rng_below(rng, (uint32_t)i);
        uint32_t held = index[i - 1];
        index[i - 1] = index[j];
        index[j] = held;
    }
}
