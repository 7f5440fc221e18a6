/*
 * network.c - eight floats at a time.
 *
 * A steady state is a few hundred vector operations; a general product and libm's logarithms, one
 * call per input, took several times that. Products and sums are kept apart, so every processor
 * gives the same bits: the same source is compiled for AVX2 and for what there is otherwise, where
 * a vector is two halves.
 *
 * Logarithm and exponential are those of Cephes (Moshier, 1992: logf.c, expf.c), good to some 1e-7.
 */
#include "cluster/sim/network.h"

#include <stdint.h>
#include <string.h>

#define LANES   AW_SURROGATE_WIDTH
#define VECTORS (AW_SURROGATE_HIDDEN / LANES)

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Inlined into both builds; a vector is never an argument, whose passing depends on the build. */
#define INLINE static inline __attribute__((always_inline))

INLINE void load(const float *from, floats *to)
{
    *to = *(const anywhere *)from;
}

INLINE void store(const floats *from, float *to)
{
    *(anywhere *)to = *from;
}

/* x >= 1e-30 and finite. */
INLINE void logarithm(floats *x)
{
    /* x = m 2^e with m in [sqrt(1/2), sqrt(2)): 0x3f3504f3 is sqrt(1/2). */
    const ints bits = (ints)*x, e = (bits - 0x3f3504f3) >> 23;
    const floats m = (floats)(bits - (e << 23));
    const floats z = m - 1, z2 = z * z, n = __builtin_convertvector(e, floats);
    floats p = z * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * z + 1.1676998740e-1f;
    p = p * z - 1.2420140846e-1f;
    p = p * z + 1.4249322787e-1f;
    p = p * z - 1.6668057665e-1f;
    p = p * z + 2.0000714765e-1f;
    p = p * z - 2.4999993993e-1f;
    p = p * z + 3.3333331174e-1f;
    p = p * z * z2 - n * 2.12194440e-4f - z2 * 0.5f;
    *x = z + p + n * 0.693359375f;
}

/* |x| <= 80. */
INLINE void exponential(floats *x)
{
    const floats round = {12582912, 12582912, 12582912, 12582912,
                          12582912, 12582912, 12582912, 12582912}; /* 1.5 * 2^23 */
    const floats n = (*x * 1.44269504088896341f + round) - round;
    const floats r = (*x - n * 0.693359375f) + n * 2.12194440e-4f;
    floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1;
    *x = (floats)((ints)p + (__builtin_convertvector(n, ints) << 23));
}

INLINE void relu(floats *x)
{
    *x = (floats)((ints)*x & (*x > 0));
}

INLINE void at_most(floats *x, float limit)
{
    const ints below = *x < limit;
    *x = (floats)(((ints)*x & below) | ((ints)(*x - *x + limit) & ~below));
}

INLINE float standard(enum aw__input i, float x)
{
    return (x - aw__weights.shift[i]) * aw__weights.scale[i];
}

INLINE void add_input(floats *sum, const float *weights, float x)
{
    for (uint32_t v = 0; v < VECTORS; v++) {
        floats w;
        load(weights + v * LANES, &w);
        sum[v] += w * x;
    }
}

INLINE void network(const float *sum, const struct aw__network_asked *asked, float *e)
{
    const float cpu_left = 1 - asked->on_cpu, threads_left = 1 - asked->on_threads;
    floats logs = {cpu_left > AW__LEFT_FLOOR ? cpu_left : AW__LEFT_FLOOR,
                   threads_left > AW__LEFT_FLOOR ? threads_left : AW__LEFT_FLOOR,
                   asked->cores,
                   asked->requests,
                   1,
                   1,
                   1,
                   1};
    logarithm(&logs);
    floats a[VECTORS], b[VECTORS], c[VECTORS] = {{0}};
    for (uint32_t v = 0; v < VECTORS; v++)
        load(sum + v * LANES, &a[v]);
    const struct {
        enum aw__input input;
        float x;
    } given[] = {
        {AW__INPUT_ON_CPU, asked->on_cpu},
        {AW__INPUT_CPU_LEFT, logs[0]},
        {AW__INPUT_ON_THREADS, asked->on_threads},
        {AW__INPUT_THREADS_LEFT, logs[1]},
        {AW__INPUT_CORES, logs[2]},
        {AW__INPUT_CPU_BY_CORES, asked->log_cpu - logs[2]},
        {AW__INPUT_REQUESTS, logs[3]},
    };
    for (uint32_t i = 0; i < sizeof given / sizeof *given; i++)
        add_input(a, aw__weights.w0[given[i].input], standard(given[i].input, given[i].x));
    float hidden[AW_SURROGATE_HIDDEN];
    for (uint32_t v = 0; v < VECTORS; v++) {
        relu(&a[v]);
        store(&a[v], hidden + v * LANES);
        load(aw__weights.b1 + v * LANES, &b[v]);
    }
    /* Two sums at a time, and four below: one alone would wait for each addition. */
    for (uint32_t k = 0; k < AW_SURROGATE_HIDDEN; k += 2) {
        add_input(b, aw__weights.w1[k], hidden[k]);
        add_input(c, aw__weights.w1[k + 1], hidden[k + 1]);
    }
    for (uint32_t v = 0; v < VECTORS; v++) {
        b[v] += c[v];
        relu(&b[v]);
        store(&b[v], hidden + v * LANES);
    }
    floats w[4], y[4] = {{0}};
    load(aw__weights.b2, &y[0]);
    for (uint32_t k = 0; k < AW_SURROGATE_HIDDEN; k += 4)
        for (uint32_t i = 0; i < 4; i++) {
            load(aw__weights.w2[k + i], &w[i]);
            y[i] += w[i] * hidden[k + i];
        }
    floats out = (y[0] + y[1]) + (y[2] + y[3]);
    at_most(&out, AW__RATIO_LIMIT);
    out = -out;
    at_most(&out, AW__RATIO_LIMIT);
    out = -out;
    exponential(&out);
    store(&out, e);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void
network_avx2(const float *sum, const struct aw__network_asked *asked, float *e)
{
    network(sum, asked, e);
}
#endif

void aw__network_end(const float *sum, const struct aw__network_asked *asked, float *e)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        network_avx2(sum, asked, e);
        return;
    }
#endif
    network(sum, asked, e);
}

void aw__network_begin(const float *x, float *sum)
{
    static const uint8_t inputs[] = {5, 7, 8, 9, 10, 11};
    memcpy(sum, aw__weights.b0, sizeof aw__weights.b0);
    for (uint32_t i = 0; i < sizeof inputs; i++)
        for (uint32_t j = 0; j < AW_SURROGATE_HIDDEN; j++)
            sum[j] += aw__weights.w0[inputs[i]][j] * standard(inputs[i], x[inputs[i]]);
}
