/*
 * gru.c - recurrent layers: products over many time steps at once where they can be, small packed
 * ones per time step where they must.
 *
 * Forward, per layer and direction: W_i x for a chunk of steps at a time, so that it is still in
 * the cache when the gates want it; then, step by step, W_h h with weights packed so that a panel
 * holds r, z and n of the same eight units. Backward mirrors it: gates and W_h^T dg step by step,
 * everything else as products over a chunk or over all time.
 */
#include "nn/gru.h"

#include "nn/gru_gates.h"
#include "nn/gru_internal.h"
#include "nn/init.h"
#include "nn/kernels.h"
#include "nn/panels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_ROWS \
    96u          /* at least, of one chunk: few enough that their gates fit a cache of 512 KiB */
#define LINE 16u /* floats of a cache line */

_Static_assert(AW__PANEL_COLUMNS == 3 * AW__GRU_UNITS, "a panel is three gates of some units");

struct aw_gru_cache {
    uint32_t T_max, B_max;
    bool training;
    bool packed; /* large products by packed panels, not by OpenBLAS */
    bool kept;   /* forward has run and backward has not: `gates` has what backward needs */
    const struct aw_alloc *alloc;
    float
        *gates[AW_GRU_LAYERS_MAX][2]; /* rows of gru_gates.h: [T][B], without training one chunk */
    size_t gates_row;
    float *out[AW_GRU_LAYERS_MAX]; /* [T][B][directions * H]; without training two take turns */
    float *bias;                   /* [4][H]: as gru_gates.h wants them, then their gradients */
    float *input_panels;           /* packed weight_ih, forward or backward */
    float *panels;                 /* packed weight_hh, forward or backward */
    float *gh;                     /* [panels][B][24]: recurrent products */
    float *dout[2];                /* [T][B][directions * H]: gradients between layers */
    float *dh;                     /* [B][H] */
    float *columns;                /* [gates_row][chunk]: gradients of one chunk's gates */
    float *chunk_panels;           /* packed x or h of one chunk */
};

void aw_gru_declare(struct aw_gru *gru, struct aw_params *params, const char *prefix, uint32_t in,
                    uint32_t hidden, uint32_t layer_count, bool bidirectional)
{
    AW_ASSERT(in > 0 && hidden > 0 && layer_count > 0 && layer_count <= AW_GRU_LAYERS_MAX);
    *gru = (struct aw_gru){.in = in,
                           .hidden = hidden,
                           .layer_count = layer_count,
                           .direction_count = bidirectional ? 2 : 1};
    for (uint32_t l = 0; l < layer_count; l++)
        for (uint32_t d = 0; d < gru->direction_count; d++) {
            struct aw_gru_cell *cell = &gru->cell[l][d];
            const char *suffix = d ? "_reverse" : "";
            char name[AW_PARAMS_NAME_MAX];
            cell->in = l ? gru->direction_count * hidden : in;
            snprintf(name, sizeof name, "%s.weight_ih_l%u%s", prefix, l, suffix);
            cell->weight_ih = aw_params_add(params, name, 2, 3 * hidden, cell->in);
            snprintf(name, sizeof name, "%s.weight_hh_l%u%s", prefix, l, suffix);
            cell->weight_hh = aw_params_add(params, name, 2, 3 * hidden, hidden);
            snprintf(name, sizeof name, "%s.bias_ih_l%u%s", prefix, l, suffix);
            cell->bias_ih = aw_params_add(params, name, 1, 3 * hidden, 1);
            snprintf(name, sizeof name, "%s.bias_hh_l%u%s", prefix, l, suffix);
            cell->bias_hh = aw_params_add(params, name, 1, 3 * hidden, 1);
        }
}

void aw_gru_init_uniform(const struct aw_gru *gru, float *theta, struct aw_rng *rng)
{
    const uint32_t H = gru->hidden;
    const float limit = 1 / sqrtf((float)H);
    for (uint32_t l = 0; l < gru->layer_count; l++)
        for (uint32_t d = 0; d < gru->direction_count; d++) {
            const struct aw_gru_cell *cell = &gru->cell[l][d];
            aw_init_uniform(theta + cell->weight_ih, (size_t)3 * H * cell->in, limit, rng);
            aw_init_uniform(theta + cell->weight_hh, (size_t)3 * H * H, limit, rng);
            aw_init_uniform(theta + cell->bias_ih, (size_t)3 * H, limit, rng);
            aw_init_uniform(theta + cell->bias_hh, (size_t)3 * H, limit, rng);
        }
}

static uint32_t unit_panels(uint32_t H)
{
    return (H + AW__GRU_UNITS - 1) / AW__GRU_UNITS;
}

/* Steps of one chunk. OpenBLAS packs at every call, and so gets all of them at once. */
static uint32_t chunk_steps(const struct aw_gru_cache *cache, uint32_t T, uint32_t B)
{
    const uint32_t steps = (CHUNK_ROWS + B - 1) / B;
    return cache->packed && steps < T ? steps : T;
}

/* More than a chunk ever has, for it is as many whole steps as it takes to have CHUNK_ROWS. */
static uint32_t chunk_rows_max(uint32_t B_max)
{
    return CHUNK_ROWS + B_max;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t whole_lines(size_t floats)
{
    return (floats + LINE - 1) / LINE * LINE;
}

/* Rows of gates are a cache line more than a power of two apart: the same column of many rows would
 * otherwise fall into one set of the cache. */
static size_t gates_row(uint32_t H, bool training)
{
    return whole_lines((training ? 4 : 3) * (size_t)H) + LINE;
}

static void cache_carve(const struct aw_gru *gru, struct aw_gru_cache *cache,
                        struct aw_carve *carve)
{
    const uint32_t H = gru->hidden, D = gru->direction_count;
    const size_t rows = (size_t)cache->T_max * cache->B_max, F = sizeof(float), width = D * H;
    const bool training = cache->training;
    const uint32_t chunk_rows = chunk_rows_max(cache->B_max);
    size_t input_floats = 0, chunk_floats = aw__panels_floats(H, chunk_rows);
    cache->gates_row = gates_row(H, training);
    for (uint32_t l = 0; l < gru->layer_count; l++) {
        for (uint32_t d = 0; training && d < D; d++)
            cache->gates[l][d] = aw_carve_take(carve, rows * cache->gates_row, F);
        cache->out[l] =
            training || l < 2 ? aw_carve_take(carve, rows * width, F) : cache->out[l - 2];
        const uint32_t in = gru->cell[l][0].in;
        input_floats = larger(input_floats, aw__panels_floats(3 * H, in));
        if (training)
            input_floats = larger(input_floats, aw__panels_floats(in, 3 * H));
        chunk_floats = larger(chunk_floats, aw__panels_floats(in, chunk_rows));
    }
    if (!training) {
        const size_t kept = cache->packed && chunk_rows < rows ? chunk_rows : rows;
        float *gates = aw_carve_take(carve, kept * cache->gates_row, F);
        for (uint32_t l = 0; l < gru->layer_count; l++)
            for (uint32_t d = 0; d < D; d++)
                cache->gates[l][d] = gates;
    }
    const size_t gh_columns = (size_t)unit_panels(H) * AW__PANEL_COLUMNS;
    cache->bias = aw_carve_take(carve, 4 * (size_t)H, F);
    cache->input_panels = aw_carve_take(carve, input_floats, F);
    cache->panels = aw_carve_take(carve, gh_columns * H, F);
    cache->gh = aw_carve_take(carve, gh_columns * cache->B_max, F);
    if (training) {
        cache->dout[0] = aw_carve_take(carve, rows * width, F);
        cache->dout[1] = aw_carve_take(carve, rows * width, F);
        cache->dh = aw_carve_take(carve, (size_t)cache->B_max * H, F);
        cache->columns = aw_carve_take(carve, cache->gates_row * whole_lines(chunk_rows), F);
        cache->chunk_panels = aw_carve_take(carve, chunk_floats, F);
    }
}

enum aw_err aw__gru_cache_new(const struct aw_gru *gru, uint32_t T_max, uint32_t B_max,
                              bool training, bool packed, const struct aw_alloc *alloc,
                              struct aw_gru_cache **ret_cache)
{
    AW_ASSERT(T_max > 0 && B_max > 0);
    struct aw_gru_cache plan = {
        .T_max = T_max, .B_max = B_max, .training = training, .packed = packed, .alloc = alloc};
    const struct aw_gru_cache empty = plan;
    struct aw_carve carve = {0};
    aw_carve_take(&carve, 1, sizeof plan);
    cache_carve(gru, &plan, &carve);
    void *block = aw_alloc_new(alloc, carve.used, 1);
    if (!block)
        return AW_ERR_NOMEM;
    carve = (struct aw_carve){.base = block};
    struct aw_gru_cache *cache = aw_carve_take(&carve, 1, sizeof *cache);
    *cache = empty;
    cache_carve(gru, cache, &carve);
    *ret_cache = cache;
    return AW_OK;
}

enum aw_err aw_gru_cache_new(const struct aw_gru *gru, uint32_t T_max, uint32_t B_max,
                             bool training, const struct aw_alloc *alloc,
                             struct aw_gru_cache **ret_cache)
{
    return aw__gru_cache_new(gru, T_max, B_max, training, aw__panels_beat_blas(), alloc, ret_cache);
}

void aw_gru_cache_free(struct aw_gru_cache *cache)
{
    if (cache)
        aw_alloc_free(cache->alloc, cache);
}

/* panel p, row k: W_h of r, z, n for units 8p .. 8p + 7, column k. Units beyond H are zero. */
static void pack_recurrent(const float *weight_hh, uint32_t H, float *panels)
{
    for (uint32_t p = 0; p < unit_panels(H); p++)
        for (uint32_t gate = 0; gate < 3; gate++) {
            const uint32_t first = p * AW__GRU_UNITS;
            const uint32_t units = H - first < AW__GRU_UNITS ? H - first : AW__GRU_UNITS;
            aw__transpose(weight_hh + ((size_t)gate * H + first) * H, units, H,
                          panels + (size_t)p * H * AW__PANEL_COLUMNS + gate * AW__GRU_UNITS,
                          AW__PANEL_COLUMNS, AW__GRU_UNITS);
        }
}

/* W_i x for `rows` rows, into the first three slots of their gates. */
static void input_products(const struct aw_gru_cell *cell, const float *theta, uint32_t H,
                           const float *x, uint32_t rows, const struct aw_gru_cache *cache,
                           float *gates)
{
    if (cache->packed)
        aw__panels_multiply(&(struct aw__panels_product){.M = rows,
                                                         .N = 3 * H,
                                                         .K = cell->in,
                                                         .a = x,
                                                         .a_row = cell->in,
                                                         .panels = cache->input_panels,
                                                         .c = gates,
                                                         .c_row = cache->gates_row,
                                                         .c_col = 1});
    else
        aw__blas_gemm(false, true, rows, 3 * (size_t)H, cell->in, x, cell->in,
                      theta + cell->weight_ih, cell->in, 0, gates, cache->gates_row);
}

static void cell_forward(const struct aw_gru *gru, const float *theta, uint32_t l, uint32_t d,
                         const float *x, uint32_t T, uint32_t B, struct aw_gru_cache *cache)
{
    const struct aw_gru_cell *cell = &gru->cell[l][d];
    const uint32_t H = gru->hidden, chunk = chunk_steps(cache, T, B);
    const size_t width = (size_t)gru->direction_count * H, row = cache->gates_row;
    const float *bias_ih = theta + cell->bias_ih, *bias_hh = theta + cell->bias_hh;

    for (uint32_t j = 0; j < 3 * H; j++)
        cache->bias[j] = bias_ih[j] + (j < 2 * H ? bias_hh[j] : 0);
    memcpy(cache->bias + 3 * (size_t)H, bias_hh + 2 * (size_t)H, H * sizeof *bias_hh);
    if (cache->packed)
        aw__panels_pack_transposed(theta + cell->weight_ih, 3 * H, cell->in, cache->input_panels);
    pack_recurrent(theta + cell->weight_hh, H, cache->panels);

    const float *h_prev = NULL;
    uint32_t kept_from = 0; /* the time step whose rows come first in `gates` */
    for (uint32_t step = 0; step < T; step++) {
        const uint32_t t = d ? T - 1 - step : step;
        float *h = cache->out[l] + (size_t)t * B * width + (size_t)d * H;
        if (step % chunk == 0) {
            const uint32_t steps = T - step < chunk ? T - step : chunk;
            const uint32_t from = d ? t + 1 - steps : t;
            kept_from = cache->training ? 0 : from;
            input_products(cell, theta, H, x + (size_t)from * B * cell->in, steps * B, cache,
                           cache->gates[l][d] + (size_t)(from - kept_from) * B * row);
        }
        if (h_prev)
            aw__panels_multiply(
                &(struct aw__panels_product){.M = B,
                                             .N = unit_panels(H) * AW__PANEL_COLUMNS,
                                             .K = H,
                                             .a = h_prev,
                                             .a_row = width,
                                             .panels = cache->panels,
                                             .c = cache->gh,
                                             .c_row = AW__PANEL_COLUMNS,
                                             .c_col = B});
        aw__gru_gates(
            &(struct aw__gru_gates){.B = B,
                                    .H = H,
                                    .gh = cache->gh,
                                    .gates = cache->gates[l][d] + (size_t)(t - kept_from) * B * row,
                                    .gates_row = row,
                                    .bias = cache->bias,
                                    .h_prev = h_prev,
                                    .h = h,
                                    .h_row = width,
                                    .keep = cache->training});
        h_prev = h;
    }
}

const float *aw_gru_forward(const struct aw_gru *gru, const float *theta, const float *x,
                            uint32_t T, uint32_t B, struct aw_gru_cache *cache, float *h_n)
{
    AW_ASSERT(T > 0 && T <= cache->T_max && B > 0 && B <= cache->B_max);
    const uint32_t H = gru->hidden, D = gru->direction_count;
    for (uint32_t l = 0; l < gru->layer_count; l++) {
        for (uint32_t d = 0; d < D; d++) {
            cell_forward(gru, theta, l, d, x, T, B, cache);
            const float *last = cache->out[l] + (size_t)(d ? 0 : T - 1) * B * D * H + d * H;
            for (uint32_t b = 0; h_n && b < B; b++, h_n += H)
                memcpy(h_n, last + (size_t)b * D * H, H * sizeof *h_n);
        }
        x = cache->out[l];
    }
    cache->kept = cache->training;
    return x;
}

/* dh += dg W_h: r and z lie side by side in `gates`, dhn in the fourth slot. */
static void recurrent_backward(uint32_t B, uint32_t H, const float *gates,
                               const struct aw_gru_cache *cache)
{
    struct aw__panels_product p = {.M = B,
                                   .N = H,
                                   .K = 2 * H,
                                   .a = gates,
                                   .a_row = cache->gates_row,
                                   .panels = cache->panels,
                                   .c = cache->dh,
                                   .c_row = H,
                                   .c_col = 1,
                                   .accumulate = true};
    aw__panels_multiply(&p);
    p.K = H;
    p.a = gates + 3 * (size_t)H;
    p.panels = cache->panels + aw__panels_floats(H, 2 * H);
    aw__panels_multiply(&p);
}

/* The rows of one chunk, as its products want them. Steps t pair with the output of t - 1, reverse
 * with that of t + 1; the state before the first step is zero, so the recurrent weights see one
 * step less in the chunk that has it. */
struct chunk {
    size_t rows, recurrent_rows;
    size_t recurrent_skip; /* rows of `gates` before those that have a state before them */
    const float *x;        /* [rows][in] */
    const float *gates;
    const float *h_prev; /* [recurrent_rows], rows D * H apart */
};

static struct chunk chunk_of(const struct aw_gru *gru, uint32_t l, uint32_t d, const float *x,
                             uint32_t T, uint32_t B, const struct aw_gru_cache *cache,
                             uint32_t from, uint32_t steps)
{
    const size_t width = (size_t)gru->direction_count * gru->hidden, first = (size_t)from * B;
    const bool has_first_step = d ? from + steps == T : from == 0;
    const size_t skip = !d && has_first_step ? B : 0;
    const size_t h_first = d ? first + B : first + skip - B;
    return (struct chunk){.rows = (size_t)steps * B,
                          .recurrent_rows = (size_t)(steps - has_first_step) * B,
                          .recurrent_skip = skip,
                          .x = x + first * gru->cell[l][d].in,
                          .gates = cache->gates[l][d] + first * cache->gates_row,
                          .h_prev = cache->out[l] + h_first * width + (size_t)d * gru->hidden};
}

/* Everything that backward does with a chunk of gates' gradients dg: dx = dg W_i (the second
 * direction adds), dW_i += dg^T x and dW_h += dg^T h_prev, whose n is in the fourth slot. */
static void chunk_backward_blas(const struct aw_gru_cell *cell, const float *theta, uint32_t H,
                                const struct chunk *chunk, size_t gates_row, size_t h_row,
                                bool accumulate, float *grad, float *dx)
{
    const size_t in = cell->in;
    const float *later = chunk->gates + chunk->recurrent_skip * gates_row;
    float *dw_h = grad + cell->weight_hh;
    if (dx)
        aw__blas_gemm(false, false, chunk->rows, in, 3 * (size_t)H, chunk->gates, gates_row,
                      theta + cell->weight_ih, in, accumulate ? 1 : 0, dx, in);
    aw__blas_gemm(true, false, 3 * (size_t)H, in, chunk->rows, chunk->gates, gates_row, chunk->x,
                  in, 1, grad + cell->weight_ih, in);
    if (chunk->recurrent_rows == 0)
        return;
    aw__blas_gemm(true, false, 2 * (size_t)H, H, chunk->recurrent_rows, later, gates_row,
                  chunk->h_prev, h_row, 1, dw_h, H);
    aw__blas_gemm(true, false, H, H, chunk->recurrent_rows, later + 3 * (size_t)H, gates_row,
                  chunk->h_prev, h_row, 1, dw_h + 2 * (size_t)H * H, H);
}

static void chunk_backward_panels(const struct aw_gru_cell *cell, uint32_t H,
                                  const struct chunk *chunk, const struct aw_gru_cache *cache,
                                  size_t h_row, bool accumulate, float *grad, float *dx)
{
    const uint32_t rows = (uint32_t)chunk->rows, later = (uint32_t)chunk->recurrent_rows;
    const size_t column = whole_lines(rows); /* one column of dg, now a row */
    if (dx)
        aw__panels_multiply(&(struct aw__panels_product){.M = rows,
                                                         .N = cell->in,
                                                         .K = 3 * H,
                                                         .a = chunk->gates,
                                                         .a_row = cache->gates_row,
                                                         .panels = cache->input_panels,
                                                         .c = dx,
                                                         .c_row = cell->in,
                                                         .c_col = 1,
                                                         .accumulate = accumulate});
    aw__transpose(chunk->gates, rows, (uint32_t)cache->gates_row, cache->columns, column, rows);
    struct aw__panels_product p = {.M = 3 * H,
                                   .N = cell->in,
                                   .K = rows,
                                   .a = cache->columns,
                                   .a_row = column,
                                   .panels = cache->chunk_panels,
                                   .c = grad + cell->weight_ih,
                                   .c_row = cell->in,
                                   .c_col = 1,
                                   .accumulate = true};
    aw__panels_pack(chunk->x, cell->in, cell->in, rows, cache->chunk_panels);
    aw__panels_multiply(&p);
    if (later == 0)
        return;
    p.M = 2 * H;
    p.N = H;
    p.K = later;
    p.a = cache->columns + chunk->recurrent_skip;
    p.c = grad + cell->weight_hh;
    p.c_row = H;
    aw__panels_pack(chunk->h_prev, h_row, H, later, cache->chunk_panels);
    aw__panels_multiply(&p);
    p.M = H;
    p.a += 3 * (size_t)H * column;
    p.c += 2 * (size_t)H * H;
    aw__panels_multiply(&p);
}

/* Adds to `grad` and writes dx, or adds to it. */
static void cell_backward(const struct aw_gru *gru, const float *theta, uint32_t l, uint32_t d,
                          const float *x, uint32_t T, uint32_t B, struct aw_gru_cache *cache,
                          const float *dy, const float *dh_n, float *grad, float *dx)
{
    const struct aw_gru_cell *cell = &gru->cell[l][d];
    const float *weight_hh = theta + cell->weight_hh;
    const uint32_t H = gru->hidden, chunk_max = chunk_steps(cache, T, B);
    const size_t width = (size_t)gru->direction_count * H, row = cache->gates_row;
    aw__panels_pack(weight_hh, H, H, 2 * H, cache->panels);
    aw__panels_pack(weight_hh + 2 * (size_t)H * H, H, H, H,
                    cache->panels + aw__panels_floats(H, 2 * H));
    if (dx && cache->packed)
        aw__panels_pack(theta + cell->weight_ih, cell->in, cell->in, 3 * H, cache->input_panels);
    memset(cache->bias, 0, 4 * (size_t)H * sizeof *cache->bias);
    if (dh_n)
        memcpy(cache->dh, dh_n, (size_t)B * H * sizeof *dh_n);
    else
        memset(cache->dh, 0, (size_t)B * H * sizeof *cache->dh);

    uint32_t waiting = 0; /* steps whose gates' gradients have not been used yet */
    for (uint32_t step = T; step-- > 0;) {
        const uint32_t t = d ? T - 1 - step : step;
        const uint32_t t_prev = d ? t + 1 : t - 1;
        float *gates = cache->gates[l][d] + (size_t)t * B * row;
        aw__gru_gates_backward(&(struct aw__gru_gates_backward){
            .B = B,
            .H = H,
            .gates = gates,
            .gates_row = row,
            .h_prev = step ? cache->out[l] + (size_t)t_prev * B * width + (size_t)d * H : NULL,
            .dy = dy ? dy + (size_t)t * B * width + (size_t)d * H : NULL,
            .h_row = width,
            .dh = cache->dh,
            .dbias = cache->bias});
        if (step > 0)
            recurrent_backward(B, H, gates, cache);
        if (++waiting < chunk_max && step > 0)
            continue;
        const uint32_t from = d ? t + 1 - waiting : t;
        const struct chunk chunk = chunk_of(gru, l, d, x, T, B, cache, from, waiting);
        float *dx_chunk = dx ? dx + (size_t)from * B * cell->in : NULL;
        if (cache->packed)
            chunk_backward_panels(cell, H, &chunk, cache, width, d > 0, grad, dx_chunk);
        else
            chunk_backward_blas(cell, theta, H, &chunk, row, width, d > 0, grad, dx_chunk);
        waiting = 0;
    }

    /* b_ih and the first two thirds of b_hh enter the same sums. */
    for (uint32_t j = 0; j < 3 * H; j++)
        grad[cell->bias_ih + j] += cache->bias[j];
    for (uint32_t j = 0; j < 2 * H; j++)
        grad[cell->bias_hh + j] += cache->bias[j];
    for (uint32_t j = 0; j < H; j++)
        grad[cell->bias_hh + 2 * (size_t)H + j] += cache->bias[3 * (size_t)H + j];
}

void aw_gru_backward(const struct aw_gru *gru, const float *theta, const float *x, uint32_t T,
                     uint32_t B, struct aw_gru_cache *cache, const float *dy, const float *dh_n,
                     float *grad, float *dx)
{
    AW_ASSERT(cache->kept && T > 0 && T <= cache->T_max && B > 0 && B <= cache->B_max);
    cache->kept = false;
    const uint32_t H = gru->hidden, D = gru->direction_count;
    for (uint32_t l = gru->layer_count; l-- > 0;) {
        float *below = l ? cache->dout[l & 1] : dx;
        for (uint32_t d = 0; d < D; d++)
            cell_backward(gru, theta, l, d, l ? cache->out[l - 1] : x, T, B, cache, dy,
                          dh_n ? dh_n + ((size_t)l * D + d) * B * H : NULL, grad, below);
        dy = below;
    }
}
