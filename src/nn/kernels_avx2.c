/*
 * kernels_avx2.c - small matrix products in registers, for processors with AVX2 and FMA.
 *
 * A tile of MR rows and NV vectors of 8 columns is kept in registers over the whole of K. Two FMA
 * units with a latency of four cycles want at least eight independent sums; 4x3 and 6x2 give
 * twelve, and leave four of the sixteen registers for operands. Matrices here fit the first-level
 * cache, so nothing is packed: a is read by broadcast with any stride, b row by row.
 */
#include "nn/kernels.h"

#if AW__HAVE_AVX2
#include <immintrin.h>

#define AVX2       __attribute__((target("avx2,fma")))
#define ALWAYS     static inline __attribute__((always_inline)) AVX2
#define LANES      8u
#define ROWS_OF(v) ((v) == 3 ? 4u : 6u) /* rows of a tile that is `v` vectors wide */

/* glibc's vector functions, at most 4 ulp (libmvec, since glibc 2.35). */
AVX2 __m256 _ZGVdN8v_tanhf(__m256 x);

ALWAYS __m256i tail_mask(uint32_t lanes)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)lanes),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first `lanes` (1..8) of a vector. Masked stores are microcoded on some processors (tens of
 * cycles on Zen), so a part goes through memory. */
ALWAYS __m256 load_part(const float *from, uint32_t lanes)
{
    return lanes == LANES ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, tail_mask(lanes));
}

ALWAYS void store_part(float *to, uint32_t lanes, __m256 value)
{
    if (lanes == LANES) {
        _mm256_storeu_ps(to, value);
        return;
    }
    float whole[LANES];
    _mm256_storeu_ps(whole, value);
    for (uint32_t i = 0; i < lanes; i++)
        to[i] = whole[i];
}

/* MR and NV are constants at every call, so the loops unroll and `sum` lives in registers. */
ALWAYS void tile(const uint32_t MR, const uint32_t NV, const struct aw__gemm *g, uint32_t i,
                 uint32_t j, bool tail)
{
    __m256 sum[6][3];
    const float *a = g->a + i * g->a_row, *b = g->b + j;
    const size_t a_row = g->a_row, a_col = g->a_col, b_row = g->b_row;
    const uint32_t K = g->K;
    const uint32_t edge_lanes = tail ? (g->N - 1) % LANES + 1 : LANES;
    const __m256i mask = tail_mask(edge_lanes);
    const bool masked_load = tail && !g->b_padded;

#pragma GCC unroll 6
    for (uint32_t r = 0; r < MR; r++) {
#pragma GCC unroll 3
        for (uint32_t v = 0; v < NV; v++)
            sum[r][v] = _mm256_setzero_ps();
    }
    if (masked_load) {
        for (uint32_t k = 0; k < K; k++, a += a_col, b += b_row) {
            __m256 row[3];
#pragma GCC unroll 3
            for (uint32_t v = 0; v < NV; v++)
                row[v] = v + 1 < NV ? _mm256_loadu_ps(b + LANES * v)
                                    : _mm256_maskload_ps(b + LANES * v, mask);
#pragma GCC unroll 6
            for (uint32_t r = 0; r < MR; r++) {
                __m256 x = _mm256_broadcast_ss(a + r * a_row);
#pragma GCC unroll 3
                for (uint32_t v = 0; v < NV; v++)
                    sum[r][v] = _mm256_fmadd_ps(x, row[v], sum[r][v]);
            }
        }
    } else {
        for (uint32_t k = 0; k < K; k++, a += a_col, b += b_row) {
            __m256 row[3];
#pragma GCC unroll 3
            for (uint32_t v = 0; v < NV; v++)
                row[v] = _mm256_loadu_ps(b + LANES * v);
#pragma GCC unroll 6
            for (uint32_t r = 0; r < MR; r++) {
                __m256 x = _mm256_broadcast_ss(a + r * a_row);
#pragma GCC unroll 3
                for (uint32_t v = 0; v < NV; v++)
                    sum[r][v] = _mm256_fmadd_ps(x, row[v], sum[r][v]);
            }
        }
    }
#pragma GCC unroll 3
    for (uint32_t v = 0; v < NV; v++) {
        const uint32_t lanes = v + 1 == NV ? edge_lanes : LANES;
        __m256 bias = g->bias ? load_part(g->bias + j + LANES * v, lanes) : _mm256_setzero_ps();
#pragma GCC unroll 6
        for (uint32_t r = 0; r < MR; r++) {
            float *c = g->c + (i + r) * g->c_row + j + LANES * v;
            __m256 y = _mm256_add_ps(sum[r][v], g->accumulate ? load_part(c, lanes) : bias);
            if (g->act == AW_ACT_RELU)
                y = _mm256_max_ps(_mm256_setzero_ps(), y); /* in this order a NaN stays one */
            store_part(c, lanes, y);
        }
    }
}

/* One column band of NV vectors, all rows: full tiles, then one shorter tile for what is left. */
#define BAND(NV, ...)                                                          \
    AVX2 static void band##NV(const struct aw__gemm *g, uint32_t j, bool tail) \
    {                                                                          \
        uint32_t i = 0;                                                        \
        for (; i + ROWS_OF(NV) <= g->M; i += ROWS_OF(NV))                      \
            tile(ROWS_OF(NV), NV, g, i, j, tail);                              \
        switch (g->M - i) {                                                    \
            __VA_ARGS__                                                        \
        default:                                                               \
            break;                                                             \
        }                                                                      \
    }
#define REST(MR, NV)                 \
    case MR:                         \
        tile(MR, NV, g, i, j, tail); \
        break;

BAND(1, REST(1, 1) REST(2, 1) REST(3, 1) REST(4, 1) REST(5, 1))
BAND(2, REST(1, 2) REST(2, 2) REST(3, 2) REST(4, 2) REST(5, 2))
BAND(3, REST(1, 3) REST(2, 3) REST(3, 3))

void aw__gemm_avx2(const struct aw__gemm *g)
{
    uint32_t vectors = (g->N + LANES - 1) / LANES, j = 0;
    const bool ragged = g->N % LANES != 0;
    while (vectors > 0) {
        /* Four are two and two: a band of one vector has too few sums to hide the latency. */
        uint32_t width = vectors >= 3 && vectors != 4 ? 3 : vectors >= 2 ? 2 : 1;
        bool tail = ragged && vectors == width;
        if (width == 3)
            band3(g, j, tail);
        else if (width == 2)
            band2(g, j, tail);
        else
            band1(g, j, tail);
        vectors -= width;
        j += width * LANES;
    }
    if (g->act == AW_ACT_TANH && !g->accumulate) {
        if (g->c_row == g->N)
            aw__tanh_avx2(g->c, (size_t)g->M * g->N);
        else
            for (uint32_t i = 0; i < g->M; i++)
                aw__tanh_avx2(g->c + i * g->c_row, g->N);
    }
}

/* Sums of the lanes of four vectors, as one vector of four. */
ALWAYS __m128 horizontal_sums(__m256 a, __m256 b, __m256 c, __m256 d)
{
    __m256 t = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1));
}

AVX2 void aw__matvec_avx2(const float *x, const float *w, const float *bias, float *y, uint32_t N,
                          uint32_t K)
{
    const __m256i mask = tail_mask(K % LANES);
    const uint32_t whole = K - K % LANES;
    uint32_t i = 0;
    for (; i + 4 <= N; i += 4) {
        const float *row = w + (size_t)i * K;
        __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
        for (uint32_t k = 0; k < whole; k += LANES) {
            __m256 v = _mm256_loadu_ps(x + k);
            s0 = _mm256_fmadd_ps(v, _mm256_loadu_ps(row + k), s0);
            s1 = _mm256_fmadd_ps(v, _mm256_loadu_ps(row + K + k), s1);
            s2 = _mm256_fmadd_ps(v, _mm256_loadu_ps(row + 2 * (size_t)K + k), s2);
            s3 = _mm256_fmadd_ps(v, _mm256_loadu_ps(row + 3 * (size_t)K + k), s3);
        }
        if (whole < K) {
            __m256 v = _mm256_maskload_ps(x + whole, mask);
            row += whole;
            s0 = _mm256_fmadd_ps(v, _mm256_maskload_ps(row, mask), s0);
            s1 = _mm256_fmadd_ps(v, _mm256_maskload_ps(row + K, mask), s1);
            s2 = _mm256_fmadd_ps(v, _mm256_maskload_ps(row + 2 * (size_t)K, mask), s2);
            s3 = _mm256_fmadd_ps(v, _mm256_maskload_ps(row + 3 * (size_t)K, mask), s3);
        }
        __m128 sums = horizontal_sums(s0, s1, s2, s3);
        if (bias)
            sums = _mm_add_ps(sums, _mm_loadu_ps(bias + i));
        _mm_storeu_ps(y + i, sums);
    }
    for (; i < N; i++) {
        const float *row = w + (size_t)i * K;
        __m256 s = _mm256_setzero_ps();
        for (uint32_t k = 0; k < whole; k += LANES)
            s = _mm256_fmadd_ps(_mm256_loadu_ps(x + k), _mm256_loadu_ps(row + k), s);
        if (whole < K)
            s = _mm256_fmadd_ps(_mm256_maskload_ps(x + whole, mask),
                                _mm256_maskload_ps(row + whole, mask), s);
        __m256 zero = _mm256_setzero_ps();
        y[i] = _mm_cvtss_f32(horizontal_sums(s, zero, zero, zero)) + (bias ? bias[i] : 0);
    }
}

ALWAYS void transpose_8x8(const float *in, size_t in_row, float *out, size_t out_row)
{
    __m256 r[8], t[8];
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(in + (size_t)i * in_row);
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int h = 0; h < 2; h++) {
        r[4 * h] = _mm256_shuffle_ps(t[4 * h], t[4 * h + 2], 0x44);
        r[4 * h + 1] = _mm256_shuffle_ps(t[4 * h], t[4 * h + 2], 0xee);
        r[4 * h + 2] = _mm256_shuffle_ps(t[4 * h + 1], t[4 * h + 3], 0x44);
        r[4 * h + 3] = _mm256_shuffle_ps(t[4 * h + 1], t[4 * h + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(out + (size_t)i * out_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(out + (size_t)(i + 4) * out_row,
                         _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

AVX2 void aw__transpose_avx2(const float *w, uint32_t N, uint32_t K, float *out, size_t out_row,
                             size_t width)
{
    const uint32_t n_whole = N - N % LANES, k_whole = K - K % LANES;
    for (uint32_t i = 0; i < n_whole; i += LANES)
        for (uint32_t k = 0; k < k_whole; k += LANES)
            transpose_8x8(w + (size_t)i * K + k, K, out + k * out_row + i, out_row);
    for (uint32_t k = 0; k < K; k++) {
        for (uint32_t i = k < k_whole ? n_whole : 0; i < N; i++)
            out[k * out_row + i] = w[(size_t)i * K + k];
        for (size_t i = N; i < width; i++)
            out[k * out_row + i] = 0;
    }
}

AVX2 void aw__tanh_avx2(float *y, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        _mm256_storeu_ps(y + i, _ZGVdN8v_tanhf(_mm256_loadu_ps(y + i)));
    if (i < n) {
        uint32_t lanes = (uint32_t)(n - i);
        store_part(y + i, lanes, _ZGVdN8v_tanhf(load_part(y + i, lanes)));
    }
}

#endif
