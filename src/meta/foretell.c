/* foretell.c - see foretell.h. */
#include "meta/foretell.h"

#include <string.h>

#include "base/rng.h"
#include "nn/adam.h"
#include "nn/mlp.h"

#define WIDTH 48u

struct aw_foretell {
    uint32_t state_dim, action_dim, embedding_dim, in_dim, out_dim, rows_max;
    struct aw_params params;
    struct aw_mlp net;
    struct aw_mlp_cache cache;
    struct aw_adam adam;
    float *x, *dx, *dy;
    float embedding[AW_META_EMBEDDING_MAX], feedback[AW_META_EMBEDDING_MAX];
};

enum aw_err aw_foretell_new(uint32_t state_dim, uint32_t action_dim, uint32_t embedding_dim,
                            uint32_t rows_max, double rate, uint64_t seed, struct aw_foretell **ret,
                            struct aw_diag *diag)
{
    struct aw_foretell *f = aw_alloc_new(NULL, 1, sizeof *f);
    struct aw_rng rng;
    if (!f || embedding_dim > AW_META_EMBEDDING_MAX || rows_max == 0) {
        aw_alloc_free(NULL, f);
        return f ? aw_fail(diag, AW_ERR_CONFIG, "expected rows, and an embedding of at most %u",
                           AW_META_EMBEDDING_MAX)
                 : aw_fail(diag, AW_ERR_NOMEM, "no memory for an auxiliary loss");
    }
    f->state_dim = state_dim;
    f->action_dim = action_dim;
    f->embedding_dim = embedding_dim;
    f->in_dim = state_dim + action_dim + embedding_dim;
    f->out_dim = 1 + state_dim;
    f->rows_max = rows_max;
    f->adam = aw_adam_default(rate);
    const uint32_t widths[] = {f->in_dim, WIDTH, WIDTH, f->out_dim};
    aw_rng_init(&rng, seed, 0x666f7265 /* "fore" */);
    aw_mlp_declare(&f->net, &f->params, "foretell", widths, 4, AW_ACT_RELU, AW_ACT_NONE);
    enum aw_err err = aw_params_alloc(&f->params, NULL);
    err = err ? err : aw_mlp_cache_init(&f->cache, &f->net, rows_max, NULL);
    f->x = aw_alloc_new(NULL, (size_t)rows_max * f->in_dim, sizeof *f->x);
    f->dx = aw_alloc_new(NULL, (size_t)rows_max * f->in_dim, sizeof *f->dx);
    f->dy = aw_alloc_new(NULL, (size_t)rows_max * f->out_dim, sizeof *f->dy);
    if (err || !f->x || !f->dx || !f->dy) {
        aw_foretell_free(f);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an auxiliary loss");
    }
    aw_mlp_init_fan_in(&f->net, f->params.value, 0, &rng);
    *ret = f;
    return AW_OK;
}

void aw_foretell_free(struct aw_foretell *f)
{
    if (!f)
        return;
    aw_mlp_cache_deinit(&f->cache);
    aw_params_deinit(&f->params);
    aw_alloc_free(NULL, f->x);
    aw_alloc_free(NULL, f->dx);
    aw_alloc_free(NULL, f->dy);
    aw_alloc_free(NULL, f);
}

/* Forward; dy is the gradient of half the mean square over rows. Returns the mean square. */
static double foretell(struct aw_foretell *f, const float *embedding,
                       const struct aw_foretell_steps *steps)
{
    const uint32_t S = f->state_dim, A = f->action_dim, n = steps->count;
    double sum = 0;
    for (uint32_t r = 0; r < n; r++) {
        float *x = f->x + (size_t)r * f->in_dim;
        memcpy(x, steps->state + (size_t)r * S, S * sizeof *x);
        memcpy(x + S, steps->action + (size_t)r * A, A * sizeof *x);
        memcpy(x + S + A, embedding, f->embedding_dim * sizeof *x);
    }
    const float *y = aw_mlp_forward(&f->net, f->params.value, f->x, n, &f->cache);
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t o = 0; o < f->out_dim; o++) {
            const size_t at = (size_t)r * f->out_dim + o, s = (size_t)r * S + o - 1;
            const float truth = o == 0 ? steps->reward[r] : steps->next[s] - steps->state[s];
            const float gap = y[at] - truth;
            sum += (double)(gap * gap);
            f->dy[at] = gap / (float)n;
        }
    return sum / ((double)n * f->out_dim);
}

enum aw_err aw_foretell_learn(struct aw_foretell *f, struct aw_meta *meta, uint32_t workload,
                              const struct aw_foretell_steps *steps, double weight,
                              double *ret_error)
{
    if (steps->count == 0 || steps->count > f->rows_max)
        return AW_ERR_RANGE;
    const enum aw_err err = aw_meta_embedding(meta, workload, f->embedding);
    if (err)
        return err;
    const double error = foretell(f, f->embedding, steps);
    aw_params_zero_grad(&f->params);
    aw_mlp_backward(&f->net, f->params.value, f->x, steps->count, &f->cache, f->dy, f->params.grad,
                    f->dx);
    aw_adam_step(&f->adam, &f->params);
    memset(f->feedback, 0, sizeof f->feedback);
    for (uint32_t r = 0; r < steps->count; r++)
        for (uint32_t e = 0; e < f->embedding_dim; e++)
            f->feedback[e] +=
                (float)weight * f->dx[(size_t)r * f->in_dim + f->state_dim + f->action_dim + e];
    if (ret_error)
        *ret_error = error;
    return aw_meta_feedback(meta, workload, f->feedback);
}

double aw_foretell_error(struct aw_foretell *f, const float *embedding,
                         const struct aw_foretell_steps *steps)
{
    AW_ASSERT(steps->count > 0 && steps->count <= f->rows_max);
    return foretell(f, embedding, steps);
}
