/*
 * lanes.h - eight floats at a time, for the two inner loops of the fast model.
 *
 * A function made of these is written once and compiled twice, for AVX2 and for what there is
 * otherwise, where a vector is two halves: AW__LANES_TWICE. Products and sums stay apart (the build
 * contracts nothing), so both give the same bits. A vector is never an argument, whose passing
 * depends on the build.
 *
 * Logarithm and exponential are those of Cephes (Moshier, 1992: logf.c, expf.c), good to some 1e-7.
 */
#ifndef AW_CLUSTER_SIM_LANES_H
#define AW_CLUSTER_SIM_LANES_H

#include <stdbool.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LANES 8u

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE void load(const float *from, floats *to)
{
    *to = *(const anywhere *)from;
}

INLINE void store(const floats *from, float *to)
{
    *(anywhere *)to = *from;
}

/* What was stored there is read from there. A compiler that sees both takes each element out of the
 * vector's register and puts it into all of another, which is slower than to load it. */
INLINE void through_memory(const float *stored)
{
    __asm__ volatile("" : : "r"(stored) : "memory");
}

/* x >= 1e-30 and finite. */
INLINE void logarithm(floats *x)
{
    /* x = m 2^e with m in [sqrt(1/2), sqrt(2)): 0x3f3504f3 is sqrt(1/2). */
    const ints bits = (ints)*x, e = (bits - 0x3f3504f3) >> 23;
    const floats m = (floats)(bits - (e << 23));
    const floats z = m - 1, z2 = z * z, n = __builtin_convertvector(e, floats);
    /* Estrin's order: half as many operations wait for one another. */
    const floats z4 = z2 * z2;
    const floats p0 = 3.3333331174e-1f - z * 2.4999993993e-1f;
    const floats p2 = 2.0000714765e-1f - z * 1.6668057665e-1f;
    const floats p4 = 1.4249322787e-1f - z * 1.2420140846e-1f;
    const floats p6 = 1.1676998740e-1f - z * 1.1514610310e-1f;
    floats p = (p0 + p2 * z2) + z4 * ((p4 + p6 * z2) + z4 * 7.0376836292e-2f);
    p = p * (z * z2) - n * 2.12194440e-4f - z2 * 0.5f;
    *x = z + p + n * 0.693359375f;
}

/* |x| <= 80. */
INLINE void exponential(floats *x)
{
    const floats round = {12582912, 12582912, 12582912, 12582912,
                          12582912, 12582912, 12582912, 12582912}; /* 1.5 * 2^23 */
    const floats n = (*x * 1.44269504088896341f + round) - round;
    const floats r = (*x - n * 0.693359375f) + n * 2.12194440e-4f;
    const floats r2 = r * r;
    const floats p0 = 5.0000001201e-1f + r * 1.6666665459e-1f;
    const floats p2 = 4.1665795894e-2f + r * 8.3334519073e-3f;
    const floats p4 = 1.3981999507e-3f + r * 1.9875691500e-4f;
    const floats p = (p0 + p2 * r2 + p4 * (r2 * r2)) * r2 + (r + 1);
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

INLINE void at_least(floats *x, float limit)
{
    const ints above = *x > limit;
    *x = (floats)(((ints)*x & above) | ((ints)(*x - *x + limit) & ~above));
}

/* Four at a time, for what is done with sums of lanes. */
typedef float quad __attribute__((vector_size(16)));
typedef int32_t quad_ints __attribute__((vector_size(16)));

/* The sums of three; the fourth is the first again. */
INLINE void sums_of(const floats *x, quad *ret)
{
    quad half[4];
    for (int i = 0; i < 4; i++) {
        const floats from = x[i % 3];
        half[i] = __builtin_shufflevector(from, from, 0, 1, 2, 3) +
                  __builtin_shufflevector(from, from, 4, 5, 6, 7);
    }
    const quad a = __builtin_shufflevector(half[0], half[1], 0, 4, 1, 5);
    const quad b = __builtin_shufflevector(half[2], half[3], 0, 4, 1, 5);
    const quad c = __builtin_shufflevector(half[0], half[1], 2, 6, 3, 7);
    const quad d = __builtin_shufflevector(half[2], half[3], 2, 6, 3, 7);
    *ret = (__builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7)) +
           (__builtin_shufflevector(c, d, 0, 1, 4, 5) + __builtin_shufflevector(c, d, 2, 3, 6, 7));
}

/* Of each pair of elements the one that is less (sign 1) or more (sign -1). */
INLINE void quad_pick(const quad *a, const quad *b, float sign, quad *ret)
{
    const quad_ints first = *a * sign < *b * sign;
    *ret = (quad)(((quad_ints)*a & first) | ((quad_ints)*b & ~first));
}

/* The least (sign 1) or the most (sign -1) element of each of three; the fourth is the third
 * again. */
INLINE void extreme_of(const floats *x, float sign, quad *ret)
{
    quad pick[3], first, last;
    for (int i = 0; i < 3; i++) {
        const floats from = x[i];
        const quad a = __builtin_shufflevector(from, from, 0, 1, 2, 3);
        const quad b = __builtin_shufflevector(from, from, 4, 5, 6, 7);
        quad_pick(&a, &b, sign, &pick[i]);
    }
    const quad a = __builtin_shufflevector(pick[0], pick[1], 0, 4, 1, 5);
    const quad b = __builtin_shufflevector(pick[0], pick[1], 2, 6, 3, 7);
    const quad c = __builtin_shufflevector(pick[2], pick[2], 0, 4, 1, 5);
    const quad d = __builtin_shufflevector(pick[2], pick[2], 2, 6, 3, 7);
    quad_pick(&a, &b, sign, &first);
    quad_pick(&c, &d, sign, &last);
    const quad e = __builtin_shufflevector(first, last, 0, 1, 4, 5);
    const quad f = __builtin_shufflevector(first, last, 2, 3, 6, 7);
    quad_pick(&e, &f, sign, ret);
}

/* Vectors of 64 bytes, for what gains by them: functions that are AW__WIDE may be called where the
 * processor is. */
#if defined(__x86_64__)
#define AW__WIDE __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,popcnt")))
static inline bool aw__cpu_wide(void)
{
    return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw");
}
#endif

/* Defines `name`, static or extern, as a call of the inline function `body` with `args`. */
#if defined(__x86_64__)
#define AW__LANES_TWICE(scope, name, params, body, args)           \
    __attribute__((target("avx2"))) static void name##_avx2 params \
    {                                                              \
        body args;                                                 \
    }                                                              \
    scope void name params                                         \
    {                                                              \
        if (__builtin_cpu_supports("avx2"))                        \
            name##_avx2 args;                                      \
        else                                                       \
            body args;                                             \
    }
#else
#define AW__LANES_TWICE(scope, name, params, body, args) \
    scope void name params                               \
    {                                                    \
        body args;                                       \
    }
#endif

#endif
