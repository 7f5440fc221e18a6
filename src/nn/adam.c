/* adam.c - one fused loop per optimiser step, compiled for the baseline and for AVX2. */
#include "nn/adam.h"

#include <math.h>

struct aw_adam aw_adam_default(double lr)
{
    return (struct aw_adam){.lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

/* What is the same for every element of one step. */
struct coefficients {
    float beta1, beta2;
    float rest1, rest2; /* 1 - beta */
    float scale;        /* lr * sqrt(bias2) / bias1 */
    float eps;          /* eps * sqrt(bias2) */
    float decay;        /* added to the gradient as decay * weight */
    float keep;         /* 1 - lr * weight_decay with AdamW, else 1 */
};

/*
 * PyTorch: p -= lr / bias1 * m / (sqrt(v) / sqrt(bias2) + eps). Numerator and denominator times
 * sqrt(bias2) leave one division per element instead of two.
 *
 * Always inlined, so that each caller compiles it for its own instruction set. No fused
 * multiply-add is formed (-ffp-contract=off): the bits do not depend on which one runs.
 */
static inline __attribute__((always_inline)) void
step_loop(const struct coefficients *c, float *restrict p, const float *restrict g,
          float *restrict m, float *restrict v, size_t count)
{
    const float beta1 = c->beta1, beta2 = c->beta2, rest1 = c->rest1, rest2 = c->rest2;
    const float scale = c->scale, eps = c->eps, decay = c->decay, keep = c->keep;
    for (size_t i = 0; i < count; i++) {
        float gradient = g[i] + decay * p[i];
        m[i] = beta1 * m[i] + rest1 * gradient;
        v[i] = beta2 * v[i] + rest2 * (gradient * gradient);
        p[i] = keep * p[i] - scale * (m[i] / (sqrtf(v[i]) + eps));
    }
}

static void step_baseline(const struct coefficients *c, float *p, const float *g, float *m,
                          float *v, size_t count)
{
    step_loop(c, p, g, m, v, count);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
step_avx2(const struct coefficients *c, float *p, const float *g, float *m, float *v, size_t count)
{
    step_loop(c, p, g, m, v, count);
}
#endif

void aw_adam_step(const struct aw_adam *adam, struct aw_params *params)
{
    AW_ASSERT(adam->eps > 0);
    params->step++;
    double t = (double)params->step;
    double bias1 = 1 - pow(adam->beta1, t), bias2_root = sqrt(1 - pow(adam->beta2, t));
    struct coefficients c = {
        .beta1 = (float)adam->beta1,
        .beta2 = (float)adam->beta2,
        .rest1 = (float)(1 - adam->beta1),
        .rest2 = (float)(1 - adam->beta2),
        .scale = (float)(adam->lr * bias2_root / bias1),
        .eps = (float)(adam->eps * bias2_root),
        .decay = adam->decoupled ? 0 : (float)adam->weight_decay,
        .keep = adam->decoupled ? (float)(1 - adam->lr * adam->weight_decay) : 1,
    };
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        step_avx2(&c, params->value, params->grad, params->m, params->v, params->count);
        return;
    }
#endif
    step_baseline(&c, params->value, params->grad, params->m, params->v, params->count);
}
