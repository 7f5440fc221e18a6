/*
 * panels.h - matrix products whose right side is packed once and used many times.
 *
 * Internal to nn/. A general BLAS packs both sides at every call; a recurrent layer multiplies by
 * the same weights at every step. Here b [K][N] is packed beforehand into panels of 24 columns (the
 * last ones 16 or 8), each [K][columns] and contiguous, so that a block of 256 rows of a panel
 * stays in the first-level cache while all rows of a pass by. Rows of a are read where they lie.
 *
 * Call order: pack or pack_transposed, then multiply as often as wanted.
 * Memory:     the caller's, aligned to AW_ALLOC_ALIGN; aw__panels_floats(N, K) of them.
 * Threads:    pure functions.
 */
#ifndef AW_NN_PANELS_H
#define AW_NN_PANELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AW__PANEL_COLUMNS 24u

/* c = a b, or c += a b. The panel that begins at column j goes to c + j * c_col, its rows c_row
 * apart: c_col 1 is an ordinary matrix; with c_row 24 and c_col M each panel's part of c is
 * contiguous, which needs N to be a multiple of 24. */
struct aw__panels_product {
    uint32_t M, N, K;
    const float *a; /* [M][K], rows a_row apart */
    size_t a_row;
    const float *panels;
    float *c;
    size_t c_row, c_col;
    bool accumulate;
};

size_t aw__panels_floats(uint32_t N, uint32_t K);
/* Columns of the panel that has `left` columns before it ends the matrix: 24, 16 or 8. */
uint32_t aw__panels_width(uint32_t left);
/* From b [K][N], rows b_row apart. Columns beyond N are zero. */
void aw__panels_pack(const float *b, size_t b_row, uint32_t N, uint32_t K, float *panels);
/* From w [N][K] = b^T, contiguous. */
void aw__panels_pack_transposed(const float *w, uint32_t N, uint32_t K, float *panels);
void aw__panels_multiply(const struct aw__panels_product *p);

/* Whether this is the way for large products too: on processors with AVX-512 OpenBLAS is twice as
 * wide as our kernel, and on those without AVX2 it has kernels where we have plain C. */
bool aw__panels_beat_blas(void);

void aw__panels_multiply_generic(const struct aw__panels_product *p);
#if defined(__x86_64__)
void aw__panels_multiply_avx2(const struct aw__panels_product *p);
#endif

#endif
