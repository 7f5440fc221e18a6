/*
 * panels_avx2.c - products with packed panels in registers, for processors with AVX2 and FMA.
 *
 * A tile of 4 rows and 3 vectors (6 and 2 in narrow panels) is twelve independent sums: enough for
 * two FMA units with a latency of four cycles, with registers left for operands. Rows of a are
 * broadcast from where they lie. What a tile will add to is fetched before its sums begin, or the
 * stores at its end wait for memory.
 */
#include "nn/panels.h"

#include "nn/kernels.h"

#if AW__HAVE_AVX2
#include <immintrin.h>

#define AVX2       __attribute__((target("avx2,fma")))
#define ALWAYS     static inline __attribute__((always_inline)) AVX2
#define LANES      8u
#define ROWS_OF(v) ((v) == 3 ? 4u : 6u) /* rows of a tile that is `v` vectors wide */

#define LINE        16u /* floats of a cache line */
#define AHEAD_TILES 3u  /* 24 columns of 4 rows are six lines, two for each of them */

#define K_BLOCK 256u /* rows of a panel at a time: 24 KiB, within a first-level cache of 32 */
#define M_BLOCK \
    96u /* rows of a at a time, 96 KiB of a second-level cache; 96 is 24 * 4, 16 * 6 \
         */

/* What all tiles of one block of one panel share. */
struct band {
    const float *a;
    size_t a_row;
    const float *b;
    const float *next; /* the panel after this one */
    uint32_t K;
    float *c;
    size_t c_row;
    uint32_t columns; /* that are stored; fewer than the panel has at the ragged end */
    bool accumulate;
};

ALWAYS void store_sums(const struct band *g, float *c, uint32_t lanes, __m256 sum)
{
    if (lanes >= LANES) {
        _mm256_storeu_ps(c, g->accumulate ? _mm256_add_ps(_mm256_loadu_ps(c), sum) : sum);
        return;
    }
    float part[LANES];
    _mm256_storeu_ps(part, sum);
    for (uint32_t i = 0; i < lanes; i++)
        c[i] = g->accumulate ? c[i] + part[i] : part[i];
}

/* One row of the panel. MR and NV are constants at every call, so the loops unroll and `sum` lives
 * in registers. */
ALWAYS void add_row(const uint32_t MR, const uint32_t NV, __m256 sum[6][3], const float *a,
                    size_t a_row, const float *b)
{
    __m256 row[3];
#pragma GCC unroll 3
    for (uint32_t v = 0; v < NV; v++)
        row[v] = _mm256_load_ps(b + LANES * v);
#pragma GCC unroll 6
    for (uint32_t r = 0; r < MR; r++) {
        __m256 x = _mm256_broadcast_ss(a + r * a_row);
#pragma GCC unroll 3
        for (uint32_t v = 0; v < NV; v++)
            sum[r][v] = _mm256_fmadd_ps(x, row[v], sum[r][v]);
    }
}

ALWAYS void tile(const uint32_t MR, const uint32_t NV, const struct band *g, uint32_t i)
{
    __m256 sum[6][3];
    const size_t a_row = g->a_row, c_row = g->c_row;
    const float *a = g->a + i * a_row, *b = g->b;
    float *c = g->c + i * c_row;
    /* Two of every six lines of the next panel are fetched by each of the first three tiles; the
     * others fetch what is at hand, which costs less than asking. */
    const uint32_t nth = i / MR;
    const float *ahead = (nth < AHEAD_TILES ? g->next : b) + nth % AHEAD_TILES * 2 * LINE;
    const uint32_t K = g->K;
    uint32_t k = 0;

#pragma GCC unroll 6
    for (uint32_t r = 0; r < MR; r++) {
        _mm_prefetch((const char *)(c + r * c_row), _MM_HINT_T0);
        _mm_prefetch((const char *)(c + r * c_row + g->columns - 1), _MM_HINT_T0);
#pragma GCC unroll 3
        for (uint32_t v = 0; v < NV; v++)
            sum[r][v] = _mm256_setzero_ps();
    }
    for (; k + 4 <= K; k += 4, ahead += 4 * LANES * NV) {
        _mm_prefetch((const char *)ahead, _MM_HINT_T0);
        _mm_prefetch((const char *)(ahead + LINE), _MM_HINT_T0);
#pragma GCC unroll 4
        for (uint32_t u = 0; u < 4; u++, b += LANES * NV)
            add_row(MR, NV, sum, a + k + u, a_row, b);
    }
    for (; k < K; k++, b += LANES * NV)
        add_row(MR, NV, sum, a + k, a_row, b);
#pragma GCC unroll 3
    for (uint32_t v = 0; v < NV; v++) {
        if (g->columns <= v * LANES)
            break;
#pragma GCC unroll 6
        for (uint32_t r = 0; r < MR; r++)
            store_sums(g, c + r * c_row + LANES * v, g->columns - v * LANES, sum[r][v]);
    }
}

/* All rows of one block of one panel: full tiles, then one shorter tile for what is left. */
#define BAND(NV, ...)                                           \
    AVX2 static void band##NV(const struct band *g, uint32_t M) \
    {                                                           \
        uint32_t i = 0;                                         \
        for (; i + ROWS_OF(NV) <= M; i += ROWS_OF(NV))          \
            tile(ROWS_OF(NV), NV, g, i);                        \
        switch (M - i) {                                        \
            __VA_ARGS__                                         \
        default:                                                \
            break;                                              \
        }                                                       \
    }
#define REST(MR, NV)        \
    case MR:                \
        tile(MR, NV, g, i); \
        break;

BAND(1, REST(1, 1) REST(2, 1) REST(3, 1) REST(4, 1) REST(5, 1))
BAND(2, REST(1, 2) REST(2, 2) REST(3, 2) REST(4, 2) REST(5, 2))
BAND(3, REST(1, 3) REST(2, 3) REST(3, 3))

static void block(const struct aw__panels_product *p, uint32_t i, uint32_t M, uint32_t k,
                  uint32_t K)
{
    for (uint32_t j = 0, width; j < p->N; j += width) {
        width = aw__panels_width(p->N - j);
        const float *panel = p->panels + (size_t)j * p->K;
        const bool last = j + width >= p->N;
        const struct band g = {.a = p->a + i * p->a_row + k,
                               .a_row = p->a_row,
                               .b = panel + (size_t)k * width,
                               .next = last ? p->panels : panel + (size_t)(p->K + k) * width,
                               .K = K,
                               .c = p->c + i * p->c_row + j * p->c_col,
                               .c_row = p->c_row,
                               .columns = p->N - j < width ? p->N - j : width,
                               .accumulate = p->accumulate || k > 0};
        if (width == 3 * LANES)
            band3(&g, M);
        else if (width == 2 * LANES)
            band2(&g, M);
        else
            band1(&g, M);
    }
}

void aw__panels_multiply_avx2(const struct aw__panels_product *p)
{
    for (uint32_t i = 0, M; i < p->M; i += M) {
        /* The last block takes what is left: few rows alone would not be worth a pass over b. */
        M = p->M - i < 2 * M_BLOCK ? p->M - i : M_BLOCK;
        for (uint32_t k = 0; k < p->K; k += K_BLOCK)
            block(p, i, M, k, p->K - k < K_BLOCK ? p->K - k : K_BLOCK);
    }
}
#endif
