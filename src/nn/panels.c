/* panels.c - packing, the choice of a kernel, and the plain one. */
#include "nn/panels.h"

#include "nn/kernels.h"
#include "nn/matmul.h"

#include <string.h>
#include <strings.h>

#define VECTOR 8u /* floats of an AVX register, the grain of a panel's width */

static size_t whole_vectors(uint32_t N)
{
    return ((size_t)N + VECTOR - 1) / VECTOR * VECTOR;
}

size_t aw__panels_floats(uint32_t N, uint32_t K)
{
    return whole_vectors(N) * K;
}

/* Four vectors are two and two: one alone has too few independent sums to keep the units busy. */
uint32_t aw__panels_width(uint32_t left)
{
    const size_t vectors = whole_vectors(left) / VECTOR;
    return (vectors >= 3 && vectors != 4 ? 3 : vectors >= 2 ? 2 : 1) * VECTOR;
}

void aw__panels_pack(const float *b, size_t b_row, uint32_t N, uint32_t K, float *panels)
{
    for (uint32_t k = 0; k < K; k++, b += b_row) /* reading in the order of memory */
        for (uint32_t j = 0, width; j < N; j += width) {
            width = aw__panels_width(N - j);
            const uint32_t columns = N - j < width ? N - j : width;
            float *to = panels + (size_t)j * K + (size_t)k * width;
            uint32_t v = 0;
            for (; v + VECTOR <= columns; v += VECTOR) /* of constant size: no call */
                memcpy(to + v, b + j + v, VECTOR * sizeof *b);
            for (; v < width; v++)
                to[v] = v < columns ? b[j + v] : 0;
        }
}

void aw__panels_pack_transposed(const float *w, uint32_t N, uint32_t K, float *panels)
{
    for (uint32_t j = 0, width; j < N; j += width) {
        width = aw__panels_width(N - j);
        const uint32_t columns = N - j < width ? N - j : width;
        aw__transpose(w + (size_t)j * K, columns, K, panels, width, width);
        panels += (size_t)width * K;
    }
}

void aw__panels_multiply(const struct aw__panels_product *p)
{
#if AW__HAVE_AVX2
    if (aw__cpu_avx2()) {
        aw__panels_multiply_avx2(p);
        return;
    }
#endif
    aw__panels_multiply_generic(p);
}

/* By the kernels that OpenBLAS has chosen and not by what the processor could do, so that who
 * chooses them (OPENBLAS_CORETYPE) gets the same bits from all of it. */
bool aw__panels_beat_blas(void)
{
    static const char *const avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    bool beat = false;
#if AW__HAVE_AVX2
    beat = aw__cpu_avx2();
#endif
    for (size_t i = 0; i < sizeof avx512 / sizeof *avx512; i++)
        beat = beat && strcasecmp(aw_matmul_kernels(), avx512[i]) != 0;
    return beat;
}

void aw__panels_multiply_generic(const struct aw__panels_product *p)
{
    const float *panel = p->panels;
    for (uint32_t j = 0, width; j < p->N; j += width, panel += (size_t)width * p->K) {
        width = aw__panels_width(p->N - j);
        const uint32_t columns = p->N - j < width ? p->N - j : width;
        for (uint32_t i = 0; i < p->M; i++) {
            float sum[AW__PANEL_COLUMNS] = {0};
            float *c = p->c + i * p->c_row + j * p->c_col;
            for (uint32_t k = 0; k < p->K; k++)
                for (uint32_t v = 0; v < columns; v++)
                    sum[v] += p->a[i * p->a_row + k] * panel[(size_t)k * width + v];
            for (uint32_t v = 0; v < columns; v++)
                c[v] = p->accumulate ? c[v] + sum[v] : sum[v];
        }
    }
}
