/*
 * gru.c - recurrent layers: big products over all time at once, small packed ones per time step.
 *
 * Forward, per layer and direction: one product W_i x for all T * B rows; then, step by step,
 * W_h h with weights packed so that a panel holds r, z and n of the same eight units: a panel
 * (24 columns, H rows) stays in the first-level cache while all rows pass. Backward mirrors it:
 * gates and W_h^T dg step by step, everything else as three products over all time.
 */
#include "nn/gru.h"

#include "nn/init.h"
#include "nn/kernels.h"
#include "nn/matmul.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PANEL_COLUMNS (3 * AW__GRU_UNITS)

/* What one layer of one direction keeps between forward and backward. */
struct cell_cache {
    float *saved; /* [T][B][4][H]: r, z, n, W_hn h + b_hn */
};

struct aw_gru_cache {
    uint32_t T_max, B_max;
    bool training;
    const struct aw_alloc *alloc;
    struct cell_cache cell[AW_GRU_LAYERS_MAX][2];
    float *out[AW_GRU_LAYERS_MAX]; /* [T][B][directions * H]; without training two take turns */
    float *gx;                     /* [T][B][3H]: input products, then their gradients */
    float *bias;                   /* [4][H]: b_ih with what of b_hh goes along; their gradients */
    float *panels;                 /* packed recurrent weights, forward or backward */
    float *gh;                     /* [panels][B][24]: recurrent products */
    float *zero;                   /* [B][directions * H]: the state before the first step */
    float *dout[2];                /* [T][B][directions * H]: gradients between layers */
    float *dh;                     /* [B][H] */
    float *dhn;                    /* [T][B][H] */
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

/* Columns of the backward panels cover H in steps of a panel; forward panels cover H in units. */
static uint32_t forward_panels(uint32_t H)
{
    return (H + AW__GRU_UNITS - 1) / AW__GRU_UNITS;
}

static uint32_t backward_panels(uint32_t H)
{
    return (H + PANEL_COLUMNS - 1) / PANEL_COLUMNS;
}

static void cache_carve(const struct aw_gru *gru, struct aw_gru_cache *cache,
                        struct aw_carve *carve)
{
    const size_t rows = (size_t)cache->T_max * cache->B_max, H = gru->hidden, F = sizeof(float);
    const size_t width = gru->direction_count * H;
    for (uint32_t l = 0; l < gru->layer_count; l++) {
        for (uint32_t d = 0; cache->training && d < gru->direction_count; d++)
            cache->cell[l][d].saved = aw_carve_take(carve, rows * 4 * H, F);
        cache->out[l] =
            cache->training || l < 2 ? aw_carve_take(carve, rows * width, F) : cache->out[l - 2];
    }
    size_t panels = forward_panels(gru->hidden);
    if (cache->training && 3 * backward_panels(gru->hidden) > panels)
        panels = 3 * (size_t)backward_panels(gru->hidden);
    cache->gx = aw_carve_take(carve, rows * 3 * H, F);
    cache->bias = aw_carve_take(carve, 4 * H, F);
    cache->panels = aw_carve_take(carve, panels * PANEL_COLUMNS * H, F);
    cache->gh =
        aw_carve_take(carve, (size_t)forward_panels(gru->hidden) * cache->B_max * PANEL_COLUMNS, F);
    cache->zero = aw_carve_take(carve, cache->B_max * width, F);
    if (cache->training) {
        cache->dout[0] = aw_carve_take(carve, rows * width, F);
        cache->dout[1] = aw_carve_take(carve, rows * width, F);
        cache->dh = aw_carve_take(carve, cache->B_max * H, F);
        cache->dhn = aw_carve_take(carve, rows * H, F);
    }
}

enum aw_err aw_gru_cache_new(const struct aw_gru *gru, uint32_t T_max, uint32_t B_max,
                             bool training, const struct aw_alloc *alloc,
                             struct aw_gru_cache **ret_cache)
{
    AW_ASSERT(T_max > 0 && B_max > 0);
    struct aw_gru_cache plan = {.T_max = T_max, .B_max = B_max, .training = training};
    struct aw_carve carve = {0};
    aw_carve_take(&carve, 1, sizeof plan);
    cache_carve(gru, &plan, &carve);
    void *block = aw_alloc_new(alloc, carve.used, 1);
    if (!block)
        return AW_ERR_NOMEM;
    carve = (struct aw_carve){.base = block};
    struct aw_gru_cache *cache = aw_carve_take(&carve, 1, sizeof *cache);
    *cache =
        (struct aw_gru_cache){.T_max = T_max, .B_max = B_max, .training = training, .alloc = alloc};
    cache_carve(gru, cache, &carve);
    *ret_cache = cache;
    return AW_OK;
}

void aw_gru_cache_free(struct aw_gru_cache *cache)
{
    if (cache)
        aw_alloc_free(cache->alloc, cache);
}

/* panel p, row k: W_h of r, z, n for units 8p .. 8p + 7, column k. Units beyond H are zero. */
static void pack_forward(const float *weight_hh, uint32_t H, float *panels)
{
    for (uint32_t p = 0; p < forward_panels(H); p++)
        for (uint32_t gate = 0; gate < 3; gate++) {
            const uint32_t first = p * AW__GRU_UNITS;
            const uint32_t units = H - first < AW__GRU_UNITS ? H - first : AW__GRU_UNITS;
            aw__transpose(weight_hh + ((size_t)gate * H + first) * H, units, H,
                          panels + (size_t)p * H * PANEL_COLUMNS + gate * AW__GRU_UNITS,
                          PANEL_COLUMNS, AW__GRU_UNITS);
        }
}

/* gate g, panel p, row k: W_h row g * H + k, columns 24p .. 24p + 23. Columns beyond H are zero. */
static void pack_backward(const float *weight_hh, uint32_t H, float *panels)
{
    for (uint32_t gate = 0; gate < 3; gate++)
        for (uint32_t p = 0; p < backward_panels(H); p++) {
            const uint32_t first = p * PANEL_COLUMNS;
            const uint32_t columns = H - first < PANEL_COLUMNS ? H - first : PANEL_COLUMNS;
            for (uint32_t k = 0; k < H; k++, panels += PANEL_COLUMNS) {
                memcpy(panels, weight_hh + ((size_t)gate * H + k) * H + first,
                       columns * sizeof *panels);
                memset(panels + columns, 0, (PANEL_COLUMNS - columns) * sizeof *panels);
            }
        }
}

static void gates(const struct aw__gru_gates *g)
{
#if AW__HAVE_AVX2
    if (aw__cpu_avx2()) {
        aw__gru_gates_avx2(g);
        return;
    }
#endif
    aw__gru_gates_generic(g);
}

static void gates_backward(const struct aw__gru_gates_backward *g)
{
#if AW__HAVE_AVX2
    if (aw__cpu_avx2()) {
        aw__gru_gates_backward_avx2(g);
        return;
    }
#endif
    aw__gru_gates_backward_generic(g);
}

static void cell_forward(const struct aw_gru *gru, const float *theta, uint32_t l, uint32_t d,
                         const float *x, uint32_t T, uint32_t B, struct aw_gru_cache *cache)
{
    const struct aw_gru_cell *cell = &gru->cell[l][d];
    const uint32_t H = gru->hidden;
    const size_t width = (size_t)gru->direction_count * H;
    const float *bias_hh = theta + cell->bias_hh;

    for (uint32_t j = 0; j < 3 * H; j++)
        cache->bias[j] = theta[cell->bias_ih + j] + (j < 2 * H ? bias_hh[j] : 0);
    aw_matmul_forward(x, theta + cell->weight_ih, cache->bias, AW_ACT_NONE, cache->gx, T * B, 3 * H,
                      cell->in);
    pack_forward(theta + cell->weight_hh, H, cache->panels);

    const float *h_prev = cache->zero;
    for (uint32_t step = 0; step < T; step++) {
        const uint32_t t = d ? T - 1 - step : step;
        float *h = cache->out[l] + (size_t)t * B * width + (size_t)d * H;
        float *saved = cache->training ? cache->cell[l][d].saved + (size_t)t * B * 4 * H : NULL;
        for (uint32_t p = 0; p < forward_panels(H); p++)
            aw__gemm(&(struct aw__gemm){.M = B,
                                        .N = PANEL_COLUMNS,
                                        .K = H,
                                        .a = h_prev,
                                        .a_row = width,
                                        .a_col = 1,
                                        .b = cache->panels + (size_t)p * H * PANEL_COLUMNS,
                                        .b_row = PANEL_COLUMNS,
                                        .c = cache->gh + (size_t)p * B * PANEL_COLUMNS,
                                        .c_row = PANEL_COLUMNS});
        gates(&(struct aw__gru_gates){.B = B,
                                      .H = H,
                                      .gh = cache->gh,
                                      .gx = cache->gx + (size_t)t * B * 3 * H,
                                      .bias_n = bias_hh + 2 * (size_t)H,
                                      .h_prev = h_prev,
                                      .h = h,
                                      .h_row = width,
                                      .saved = saved});
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
    return x;
}

/* dh [B][H] += rows of `from`, `from_row` apart. */
static void add_rows(float *dh, const float *from, size_t from_row, uint32_t B, uint32_t H)
{
    for (uint32_t b = 0; b < B; b++)
        for (uint32_t j = 0; j < H; j++)
            dh[(size_t)b * H + j] += from[b * from_row + j];
}

/* Gates and recurrence, last step first: fills gx with the gradients of the gates' inputs, and dhn
 * with those of W_hn h + b_hn. */
static void cell_backward_steps(const struct aw_gru *gru, const float *theta, uint32_t l,
                                uint32_t d, uint32_t T, uint32_t B, struct aw_gru_cache *cache,
                                const float *dy, const float *dh_n)
{
    const uint32_t H = gru->hidden;
    const size_t width = (size_t)gru->direction_count * H;
    pack_backward(theta + gru->cell[l][d].weight_hh, H, cache->panels);
    memset(cache->bias, 0, 4 * (size_t)H * sizeof *cache->bias);
    if (dh_n)
        memcpy(cache->dh, dh_n, (size_t)B * H * sizeof *dh_n);
    else
        memset(cache->dh, 0, (size_t)B * H * sizeof *cache->dh);

    for (uint32_t step = T; step-- > 0;) {
        const uint32_t t = d ? T - 1 - step : step;
        const uint32_t t_prev = d ? t + 1 : t - 1;
        float *dgx = cache->gx + (size_t)t * B * 3 * H, *dhn = cache->dhn + (size_t)t * B * H;
        if (dy)
            add_rows(cache->dh, dy + (size_t)t * B * width + (size_t)d * H, width, B, H);
        gates_backward(&(struct aw__gru_gates_backward){
            .B = B,
            .H = H,
            .saved = cache->cell[l][d].saved + (size_t)t * B * 4 * H,
            .h_prev = step ? cache->out[l] + (size_t)t_prev * B * width + (size_t)d * H : NULL,
            .h_row = width,
            .dh = cache->dh,
            .dgx = dgx,
            .dhn = dhn,
            .dbias = cache->bias});
        if (step == 0)
            break;
        const float *panel = cache->panels;
        for (uint32_t gate = 0; gate < 3; gate++)
            for (uint32_t p = 0; p < backward_panels(H); p++, panel += (size_t)H * PANEL_COLUMNS) {
                const uint32_t first = p * PANEL_COLUMNS;
                aw__gemm(
                    &(struct aw__gemm){.M = B,
                                       .N = H - first < PANEL_COLUMNS ? H - first : PANEL_COLUMNS,
                                       .K = H,
                                       .a = gate < 2 ? dgx + (size_t)gate * H : dhn,
                                       .a_row = gate < 2 ? 3 * (size_t)H : H,
                                       .a_col = 1,
                                       .b = panel,
                                       .b_row = PANEL_COLUMNS,
                                       .b_padded = true,
                                       .c = cache->dh + first,
                                       .c_row = H,
                                       .accumulate = true});
            }
    }
}

/* dw [M][N] += a^T b over `rows` rows, with the rows of a and b any distance apart. */
static void add_outer(const float *a, uint32_t M, size_t a_row, const float *b, uint32_t N,
                      size_t b_row, size_t rows, float *dw)
{
    if (rows > 0)
        aw__blas_gemm(true, false, M, N, rows, a, a_row, b, b_row, 1, dw, N);
}

static void cell_backward(const struct aw_gru *gru, const float *theta, uint32_t l, uint32_t d,
                          const float *x, uint32_t T, uint32_t B, struct aw_gru_cache *cache,
                          const float *dy, const float *dh_n, float *grad, float *dx)
{
    const struct aw_gru_cell *cell = &gru->cell[l][d];
    const uint32_t H = gru->hidden;
    const size_t width = (size_t)gru->direction_count * H, rows = (size_t)T * B;
    cell_backward_steps(gru, theta, l, d, T, B, cache, dy, dh_n);

    /* The state before the first step is zero, so the recurrent weights see one step less: forward
     * pairs step t with the output of t - 1, reverse with that of t + 1. */
    const size_t gate_skip = d ? 0 : B, out_skip = d ? B : 0, recurrent = rows - B;
    const float *dgx = cache->gx + gate_skip * 3 * H;
    const float *h_prev = cache->out[l] + out_skip * width + (size_t)d * H;
    add_outer(dgx, 2 * H, 3 * (size_t)H, h_prev, H, width, recurrent, grad + cell->weight_hh);
    add_outer(cache->dhn + gate_skip * H, H, H, h_prev, H, width, recurrent,
              grad + cell->weight_hh + 2 * (size_t)H * H);
    add_outer(cache->gx, 3 * H, 3 * (size_t)H, x, cell->in, cell->in, rows, grad + cell->weight_ih);

    /* b_ih and the first two thirds of b_hh enter the same sums. */
    for (uint32_t j = 0; j < 3 * H; j++)
        grad[cell->bias_ih + j] += cache->bias[j];
    for (uint32_t j = 0; j < 2 * H; j++)
        grad[cell->bias_hh + j] += cache->bias[j];
    for (uint32_t j = 0; j < H; j++)
        grad[cell->bias_hh + 2 * (size_t)H + j] += cache->bias[3 * (size_t)H + j];

    if (dx)
        aw__blas_gemm(false, false, rows, cell->in, 3 * (size_t)H, cache->gx, 3 * (size_t)H,
                      theta + cell->weight_ih, cell->in, d ? 1 : 0, dx, cell->in);
}

void aw_gru_backward(const struct aw_gru *gru, const float *theta, const float *x, uint32_t T,
                     uint32_t B, struct aw_gru_cache *cache, const float *dy, const float *dh_n,
                     float *grad, float *dx)
{
    AW_ASSERT(cache->training && T > 0 && T <= cache->T_max && B > 0 && B <= cache->B_max);
    const uint32_t H = gru->hidden, D = gru->direction_count;
    for (uint32_t l = gru->layer_count; l-- > 0;) {
        float *below = l ? cache->dout[l & 1] : dx;
        for (uint32_t d = 0; d < D; d++)
            cell_backward(gru, theta, l, d, l ? cache->out[l - 1] : x, T, B, cache, dy,
                          dh_n ? dh_n + ((size_t)l * D + d) * B * H : NULL, grad, below);
        dy = below;
    }
}
