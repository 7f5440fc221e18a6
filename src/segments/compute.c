/*
 * compute.c - floating-point operations, matrix products, and a small network that infers.
 *
 * Plain loops rather than BLAS: a library with threads of its own would run on cores that nobody
 * gave it, and take signals that are meant for the service.
 */
#include "segments/kind.h"

#include <math.h>
#include <string.h>

/* ---- float_ops ---- */

#define FLOAT_TURNS 800u /* of a few transcendental functions each */

static enum aw_err float_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    (void)setup;
    (void)diag;
    *ret_state = NULL;
    return AW_OK;
}

static void float_close(void *state)
{
    (void)state;
}

static enum aw_err float_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                                struct aw_diag *diag)
{
    (void)state;
    (void)lane;
    (void)diag;
    double x = 1e-3 * (double)(first % 1000 + 1);
    for (uint64_t i = 0; i < count * FLOAT_TURNS; i++)
        x = sqrt(1 + sin(x) * cos(3 * x)) + 0.5;
    aw__keep(x);
    return AW_OK;
}

const struct aw__segment_kind aw__kind_float_ops = {"float_ops", float_open, float_close,
                                                    float_pieces, aw__agent_exchange_none};

/* ---- matrix_multiply ---- */

#define MATRIX_SIDE     50.0 /* at payload 1: AWARE section 2.3 */
#define MATRIX_SIDE_MAX 512u
#define MATRIX_MACS     100000u /* multiply-adds of a piece, about */

struct matrix {
    const struct aw_alloc *alloc;
    uint32_t side, rows; /* rows: of a piece */
    float *a, *b;        /* [side][side] */
    float *c;            /* [lane][rows][side] */
};

static enum aw_err matrix_open(const struct aw__setup *setup, void **ret_state,
                               struct aw_diag *diag)
{
    const uint32_t n = aw__sized(setup, MATRIX_SIDE, 1, 8, MATRIX_SIDE_MAX);
    const uint32_t rows = MATRIX_MACS / (n * n) ? MATRIX_MACS / (n * n) : 1;
    struct matrix *m = NULL;
    for (struct aw_carve carve = {0};; carve = (struct aw_carve){.base = (unsigned char *)m}) {
        struct matrix *self = aw_carve_take(&carve, 1, sizeof *self);
        float *a = aw_carve_take(&carve, (size_t)n * n, sizeof *a);
        float *b = aw_carve_take(&carve, (size_t)n * n, sizeof *b);
        float *c = aw_carve_take(&carve, (size_t)setup->lane_count * rows * n, sizeof *c);
        if (m) {
            *self = (struct matrix){setup->alloc, n, rows, a, b, c};
            break;
        }
        if (!(m = aw_alloc_new(setup->alloc, carve.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for matrices of side %u", n);
    }
    struct aw_rng rng;
    aw_rng_init(&rng, setup->seed, 1);
    aw_rng_fill_uniform(&rng, m->a, (size_t)n * n, -1, 1);
    aw_rng_fill_uniform(&rng, m->b, (size_t)n * n, -1, 1);
    *ret_state = m;
    return AW_OK;
}

static void matrix_close(void *state)
{
    struct matrix *m = state;
    if (m)
        aw_alloc_free(m->alloc, m);
}

static enum aw_err matrix_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                                 struct aw_diag *diag)
{
    (void)diag;
    const struct matrix *m = state;
    const uint32_t n = m->side;
    float *c = m->c + (size_t)lane * m->rows * n;
    for (uint64_t piece = first; piece < first + count; piece++) {
        memset(c, 0, (size_t)m->rows * n * sizeof *c);
        for (uint32_t r = 0; r < m->rows; r++) {
            const float *a = m->a + (piece * m->rows + r) % n * n;
            float *row = c + (size_t)r * n;
            for (uint32_t k = 0; k < n; k++)
                for (uint32_t j = 0; j < n; j++)
                    row[j] += a[k] * m->b[(size_t)k * n + j];
        }
    }
    aw__keep((double)c[0]);
    return AW_OK;
}

const struct aw__segment_kind aw__kind_matrix_multiply = {
    "matrix_multiply", matrix_open, matrix_close, matrix_pieces, aw__agent_exchange_none};

/* ---- ml_inference ---- */

#define MODEL_INPUTS     50.0 /* at payload 1, as the side of the matrices that are served */
#define MODEL_INPUTS_MAX 512u
#define MODEL_WIDEN      4u /* hidden units per input */
#define MODEL_CLASSES    10u
#define MODEL_SAMPLES    64u /* inputs to choose from */

/* Two hidden layers of ReLU, then a soft maximum. */
struct model {
    const struct aw_alloc *alloc;
    uint32_t inputs, hidden;
    float *w[3]; /* [in][out] of each layer: a row is added for every input that is not 0 */
    float *x;    /* [MODEL_SAMPLES][inputs] */
    float *out;  /* [lane][2 * hidden] */
};

static enum aw_err model_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    const uint32_t in = aw__sized(setup, MODEL_INPUTS, 1, 8, MODEL_INPUTS_MAX);
    const uint32_t hidden = MODEL_WIDEN * in;
    struct model *model = NULL;
    for (struct aw_carve carve = {0};; carve = (struct aw_carve){.base = (unsigned char *)model}) {
        struct model *self = aw_carve_take(&carve, 1, sizeof *self);
        float *w0 = aw_carve_take(&carve, (size_t)in * hidden, sizeof *w0);
        float *w1 = aw_carve_take(&carve, (size_t)hidden * hidden, sizeof *w1);
        float *w2 = aw_carve_take(&carve, (size_t)hidden * MODEL_CLASSES, sizeof *w2);
        float *x = aw_carve_take(&carve, (size_t)MODEL_SAMPLES * in, sizeof *x);
        float *out = aw_carve_take(&carve, (size_t)setup->lane_count * 2 * hidden, sizeof *out);
        if (model) {
            *self = (struct model){setup->alloc, in, hidden, {w0, w1, w2}, x, out};
            break;
        }
        if (!(model = aw_alloc_new(setup->alloc, carve.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for a model of %u inputs", in);
    }
    const float limit = 1 / sqrtf((float)hidden);
    struct aw_rng rng;
    aw_rng_init(&rng, setup->seed, 2);
    aw_rng_fill_uniform(&rng, model->w[0], (size_t)in * hidden, -limit, limit);
    aw_rng_fill_uniform(&rng, model->w[1], (size_t)hidden * hidden, -limit, limit);
    aw_rng_fill_uniform(&rng, model->w[2], (size_t)hidden * MODEL_CLASSES, -limit, limit);
    aw_rng_fill_uniform(&rng, model->x, (size_t)MODEL_SAMPLES * in, 0.1f, 1);
    *ret_state = model;
    return AW_OK;
}

static void model_close(void *state)
{
    struct model *model = state;
    if (model)
        aw_alloc_free(model->alloc, model);
}

static void layer(const float *w, const float *x, uint32_t in, float *y, uint32_t out)
{
    memset(y, 0, out * sizeof *y);
    for (uint32_t i = 0; i < in; i++)
        for (uint32_t j = 0; j < out; j++)
            y[j] += x[i] * w[(size_t)i * out + j];
}

static void relu(float *y, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        y[i] = y[i] > 0 ? y[i] : 0;
}

static enum aw_err model_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                                struct aw_diag *diag)
{
    (void)diag;
    const struct model *model = state;
    float *a = model->out + (size_t)lane * 2 * model->hidden, *b = a + model->hidden;
    float y[MODEL_CLASSES];
    for (uint64_t i = first; i < first + count; i++) {
        layer(model->w[0], model->x + i % MODEL_SAMPLES * model->inputs, model->inputs, a,
              model->hidden);
        relu(a, model->hidden);
        layer(model->w[1], a, model->hidden, b, model->hidden);
        relu(b, model->hidden);
        layer(model->w[2], b, model->hidden, y, MODEL_CLASSES);
        float sum = 0;
        for (uint32_t k = 0; k < MODEL_CLASSES; k++)
            sum += expf(y[k]);
        aw__keep((double)(expf(y[0]) / sum));
    }
    return AW_OK;
}

const struct aw__segment_kind aw__kind_ml_inference = {"ml_inference", model_open, model_close,
                                                       model_pieces, aw__agent_exchange_none};
