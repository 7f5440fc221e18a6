/*
 * gru_gates_avx2.c - the gates of a GRU, eight units at a time.
 *
 * Sigmoid and tanh are built on one e^x - 1, in line: three calls of a vector library per eight
 * units spill every register around them, and cost more than the arithmetic. Units beyond the last
 * whole vector are left to the plain build.
 */
#include "nn/gru_gates.h"

#include "nn/kernels.h"

#if AW__HAVE_AVX2
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2,fma")))
#define ALWAYS static inline __attribute__((always_inline)) AVX2
#define LANES  8u

/*
 * e^x = 2^k e^r with k = round(x / ln 2) and |r| <= ln 2 / 2. ln 2 is subtracted in two parts, the
 * first of which has so few bits that k times it is exact. e^r - 1 = r + r^2 p(r), where p is the
 * polynomial of degree 4 with the least largest error relative to e^r, 4e-9 with these
 * coefficients; rounding comes to more. Beyond +-87 the result no longer changes a gate.
 */
struct scaled { /* e^x = scale * (rest + 1) */
    __m256 scale, rest;
};

ALWAYS struct scaled exp_parts(__m256 x)
{
    const __m256 limit = _mm256_set1_ps(87);
    const __m256 shift = _mm256_set1_ps(0x1.8p23f); /* adding it rounds, and leaves k in the bits */
    /* In this order of operands a NaN stays one. */
    x = _mm256_min_ps(limit, _mm256_max_ps(_mm256_sub_ps(_mm256_setzero_ps(), limit), x));
    const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(0x1.715476p0f), shift);
    const __m256 k = _mm256_sub_ps(shifted, shift);
    __m256 r = _mm256_fnmadd_ps(k, _mm256_set1_ps(0x1.62e4p-1f), x);
    r = _mm256_fnmadd_ps(k, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
    __m256 p = _mm256_set1_ps(0x1.6a23dp-10f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.123a2p-7f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.5558f2p-5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555492p-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.fffffcp-2f));
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return (struct scaled){
        .scale = _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(127 << 23))),
        .rest = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, r)};
}

/* 1 / (1 + e^-x), given -x */
ALWAYS __m256 sigmoid_of_negative(__m256 minus_x)
{
    const __m256 one = _mm256_set1_ps(1);
    const struct scaled e = exp_parts(minus_x);
    return _mm256_div_ps(one, _mm256_fmadd_ps(e.scale, e.rest, _mm256_add_ps(e.scale, one)));
}

/* (e^2x - 1) / (e^2x + 1): near zero e^2x - 1 is `rest`, so small numbers keep their digits. */
ALWAYS __m256 tanh_of(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1);
    const struct scaled e = exp_parts(_mm256_add_ps(x, x));
    return _mm256_div_ps(_mm256_fmadd_ps(e.scale, e.rest, _mm256_sub_ps(e.scale, one)),
                         _mm256_fmadd_ps(e.scale, e.rest, _mm256_add_ps(e.scale, one)));
}

/* Asks for the lines of `slots` slots of the next row: it is about a page away, where prefetchers
 * in hardware stop. Every second vector begins a line. */
ALWAYS void fetch_ahead(const float *next_row, uint32_t H, const uint32_t slots, uint32_t j)
{
    if (j % (2 * LANES) == 0)
        for (uint32_t slot = 0; slot < slots; slot++)
            _mm_prefetch((const char *)(next_row + slot * H), _MM_HINT_T0);
}

ALWAYS void gates_of(const struct aw__gru_gates *g, uint32_t b, uint32_t j, const bool first,
                     const bool keep)
{
    const uint32_t H = g->H;
    const float *bias = g->bias + j;
    float *gates = g->gates + b * g->gates_row + j;
    const __m256 zero = _mm256_setzero_ps(), one = _mm256_set1_ps(1);
    __m256 r = _mm256_add_ps(_mm256_loadu_ps(gates), _mm256_loadu_ps(bias));
    __m256 z = _mm256_add_ps(_mm256_loadu_ps(gates + H), _mm256_loadu_ps(bias + H));
    __m256 n = _mm256_add_ps(_mm256_loadu_ps(gates + 2 * H), _mm256_loadu_ps(bias + 2 * H));
    __m256 hn = _mm256_loadu_ps(bias + 3 * H);
    if (keep) /* without it there is one chunk only, and that is in the cache */
        fetch_ahead(gates + g->gates_row, H, 4, j);
    if (!first) {
        const float *gh = g->gh + ((size_t)(j / LANES) * g->B + b) * 3 * LANES;
        r = _mm256_add_ps(r, _mm256_loadu_ps(gh));
        z = _mm256_add_ps(z, _mm256_loadu_ps(gh + LANES));
        hn = _mm256_add_ps(hn, _mm256_loadu_ps(gh + 2 * LANES));
    }
    r = sigmoid_of_negative(_mm256_sub_ps(zero, r));
    z = sigmoid_of_negative(_mm256_sub_ps(zero, z));
    n = tanh_of(_mm256_fmadd_ps(r, hn, n));
    __m256 h = _mm256_mul_ps(_mm256_sub_ps(one, z), n);
    if (!first)
        h = _mm256_fmadd_ps(z, _mm256_loadu_ps(g->h_prev + b * g->h_row + j), h);
    _mm256_storeu_ps(g->h + b * g->h_row + j, h);
    if (keep) {
        _mm256_storeu_ps(gates, r);
        _mm256_storeu_ps(gates + H, z);
        _mm256_storeu_ps(gates + 2 * H, n);
        _mm256_storeu_ps(gates + 3 * H, hn);
    }
}

AVX2 void aw__gru_gates_avx2(const struct aw__gru_gates *g)
{
    const uint32_t whole = g->H - g->H % LANES;
    for (uint32_t b = 0; b < g->B; b++) {
        if (!g->h_prev)
            for (uint32_t j = 0; j < whole; j += LANES)
                gates_of(g, b, j, true, g->keep);
        else if (g->keep)
            for (uint32_t j = 0; j < whole; j += LANES)
                gates_of(g, b, j, false, true);
        else
            for (uint32_t j = 0; j < whole; j += LANES)
                gates_of(g, b, j, false, false);
    }
    if (whole < g->H)
        aw__gru_gates_generic(g, whole);
}

ALWAYS void add_to(float *sum, __m256 x)
{
    _mm256_storeu_ps(sum, _mm256_add_ps(_mm256_loadu_ps(sum), x));
}

ALWAYS void gates_backward_of(const struct aw__gru_gates_backward *g, uint32_t b, uint32_t j)
{
    const uint32_t H = g->H;
    float *gates = g->gates + b * g->gates_row + j;
    float *dh_at = g->dh + (size_t)b * H + j, *dbias = g->dbias + j;
    const __m256 one = _mm256_set1_ps(1);
    __m256 r = _mm256_loadu_ps(gates), z = _mm256_loadu_ps(gates + H);
    __m256 n = _mm256_loadu_ps(gates + 2 * H), hn = _mm256_loadu_ps(gates + 3 * H);
    __m256 dh = _mm256_loadu_ps(dh_at), h_prev = _mm256_setzero_ps();
    fetch_ahead(gates + g->gates_row, H, 4, j);
    if (g->dy) {
        const float *dy = g->dy + b * g->h_row + j;
        dh = _mm256_add_ps(dh, _mm256_loadu_ps(dy));
        fetch_ahead(dy + g->h_row, H, 1, j);
    }
    if (g->h_prev) {
        const float *at = g->h_prev + b * g->h_row + j;
        h_prev = _mm256_loadu_ps(at);
        fetch_ahead(at + g->h_row, H, 1, j);
    }
    const __m256 not_z = _mm256_sub_ps(one, z);
    const __m256 slope_r = _mm256_mul_ps(r, _mm256_sub_ps(one, r));
    const __m256 slope_z = _mm256_mul_ps(z, not_z);
    const __m256 dn = _mm256_mul_ps(_mm256_mul_ps(dh, not_z), _mm256_fnmadd_ps(n, n, one));
    const __m256 dr = _mm256_mul_ps(_mm256_mul_ps(dn, hn), slope_r);
    const __m256 dz = _mm256_mul_ps(_mm256_mul_ps(dh, _mm256_sub_ps(h_prev, n)), slope_z);
    const __m256 dhn = _mm256_mul_ps(dn, r);
    _mm256_storeu_ps(gates, dr);
    _mm256_storeu_ps(gates + H, dz);
    _mm256_storeu_ps(gates + 2 * H, dn);
    _mm256_storeu_ps(gates + 3 * H, dhn);
    add_to(dbias, dr);
    add_to(dbias + H, dz);
    add_to(dbias + 2 * H, dn);
    add_to(dbias + 3 * H, dhn);
    _mm256_storeu_ps(dh_at, _mm256_mul_ps(dh, z));
}

AVX2 void aw__gru_gates_backward_avx2(const struct aw__gru_gates_backward *g)
{
    const uint32_t whole = g->H - g->H % LANES;
    for (uint32_t b = 0; b < g->B; b++)
        for (uint32_t j = 0; j < whole; j += LANES)
            gates_backward_of(g, b, j);
    if (whole < g->H)
        aw__gru_gates_backward_generic(g, whole);
}
#endif
