/* peers.c - see peers.h. */
#include "sizing/peers.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "nn/adam.h"
#include "nn/mlp.h"

#define WIDTH   48u
#define GROUP   12u /* workloads of an update */
#define QUERIES 10u /* configurations of each */
#define ROWS    (GROUP * QUERIES)
#define SHOTS   6u /* at most, in training */
#define RATE    3e-3
#define DECAY   1e-3
#define CLIP    1.0 /* of an error, in deviations */
#define INNER   5u  /* gradient steps on a workload */
#define STEP    0.05f
#define TUNE    0.02f /* of fine-tuning what was not taught to be tuned */
#define TOWARDS 0.5f  /* Reptile: how far towards what a workload's steps came to */

struct aw_size_peer {
    const struct aw_size_memory *memory;
    enum aw_size_peers kind;
    uint32_t config_dim, in_dim;
    double scale;
    struct aw_params params;
    struct aw_mlp net;
    struct aw_mlp_cache cache;
    struct aw_rng rng;
    float *start, *sum; /* [params.count]: weights before the inner steps; what is added up */
    float *x;           /* [rows][in_dim] */
    float label[AW_SIZE_CONFIGS_MAX], dy[AW_SIZE_CONFIGS_MAX];
};

static void put_row(const struct aw_size_peer *peer, uint32_t config, double level, uint32_t count,
                    float *x)
{
    const struct aw_size_memory *m = peer->memory;
    const uint32_t F = m->table->feature_count;
    memcpy(x, m->table->config[config].feature, F * sizeof *x);
    for (uint32_t p = 0; p < AW__SIZE_PRINCIPALS; p++)
        x[F + p] = (float)m->principal[config * AW__SIZE_PRINCIPALS + p];
    x[F + AW__SIZE_PRINCIPALS] = (float)((level - m->level_mean) / sqrt(m->level_var));
    x[F + AW__SIZE_PRINCIPALS + 1] = 1.0f / (float)count;
}

static void put_shot(struct aw_size_peer *peer, uint32_t row, uint32_t config, double value,
                     double level, uint32_t count)
{
    put_row(peer, config, level, count, peer->x + (size_t)row * peer->in_dim);
    peer->label[row] = (float)((value - peer->memory->effect[config] - level) / peer->scale);
}

static double level_of(const struct aw_size_memory *memory, const struct aw_size_shot *shots,
                       uint32_t count)
{
    double level = 0;
    for (uint32_t i = 0; i < count; i++)
        level += (shots[i].value - memory->effect[shots[i].config]) / count;
    return level;
}

/* The gradient of rows from `from` on; false: it is not finite. */
static bool gradient(struct aw_size_peer *peer, uint32_t from, uint32_t rows)
{
    const float *x = peer->x + (size_t)from * peer->in_dim;
    const float *y = aw_mlp_forward(&peer->net, peer->params.value, x, rows, &peer->cache);
    for (uint32_t r = 0; r < rows; r++)
        peer->dy[r] =
            (float)fmax(-CLIP, fmin(CLIP, (double)(y[r] - peer->label[from + r]))) / (float)rows;
    aw_params_zero_grad(&peer->params);
    aw_mlp_backward(&peer->net, peer->params.value, x, rows, &peer->cache, peer->dy,
                    peer->params.grad, NULL);
    return aw_params_finite(peer->params.grad, peer->params.count);
}

static void inner(struct aw_size_peer *peer, uint32_t from, uint32_t rows, float rate)
{
    for (uint32_t s = 0; s < INNER && gradient(peer, from, rows); s++)
        for (size_t i = 0; i < peer->params.count; i++)
            peer->params.value[i] -= rate * peer->params.grad[i];
}

/* Shots of a known workload to rows from `from` on, then queries. The counts of both; 0 shots: it
 * has too few. */
static uint32_t draw(struct aw_size_peer *peer, uint32_t from, uint32_t *ret_queries)
{
    const struct aw_size_memory *m = peer->memory;
    const uint32_t C = m->config_count, w = aw_rng_below(&peer->rng, m->workload_count);
    uint32_t order[AW_SIZE_CONFIGS_MAX], there = 0;
    struct aw_size_shot shots[SHOTS];
    for (uint32_t c = 0; c < C; c++)
        if (isfinite(m->rest[(size_t)w * C + c]))
            order[there++] = c;
    *ret_queries = 0;
    if (there < 2)
        return 0;
    aw_rng_shuffle(&peer->rng, order, there);
    const uint32_t most = there - 1 < SHOTS ? there - 1 : SHOTS;
    const uint32_t count = 1 + aw_rng_below(&peer->rng, most);
    for (uint32_t i = 0; i < count; i++)
        shots[i] = (struct aw_size_shot){order[i], m->level[w] + m->effect[order[i]] +
                                                       m->rest[(size_t)w * C + order[i]]};
    const double level = level_of(m, shots, count);
    for (uint32_t i = 0; i < there && i < count + QUERIES; i++) {
        put_shot(peer, from + i, order[i],
                 m->level[w] + m->effect[order[i]] + m->rest[(size_t)w * C + order[i]], level,
                 count);
        *ret_queries += i >= count;
    }
    return count;
}

static void adam(struct aw_size_peer *peer, double rate)
{
    struct aw_adam settings = aw_adam_default(rate);
    settings.weight_decay = DECAY;
    settings.decoupled = true;
    aw_adam_step(&settings, &peer->params);
}

static void step(struct aw_size_peer *peer, double rate)
{
    const size_t n = peer->params.count;
    uint32_t rows = 0, queries;
    if (peer->kind == AW_SIZE_PEER_TRANSFER) {
        for (uint32_t g = 0; g < GROUP; g++) {
            const uint32_t count = draw(peer, rows, &queries);
            const size_t dim = peer->in_dim;
            memmove(peer->x + rows * dim, peer->x + (rows + count) * dim,
                    queries * dim * sizeof *peer->x);
            memmove(peer->label + rows, peer->label + rows + count, queries * sizeof *peer->label);
            rows += queries;
        }
        if (rows > 0 && gradient(peer, 0, rows))
            adam(peer, rate);
        return;
    }
    memcpy(peer->start, peer->params.value, n * sizeof *peer->start);
    memset(peer->sum, 0, n * sizeof *peer->sum);
    for (uint32_t g = 0; g < GROUP; g++) {
        const uint32_t count = draw(peer, 0, &queries);
        if (count == 0)
            continue;
        const bool reptile = peer->kind == AW_SIZE_PEER_REPTILE;
        inner(peer, 0, reptile ? count + queries : count, STEP);
        if (!reptile && !gradient(peer, count, queries))
            memset(peer->params.grad, 0, n * sizeof *peer->params.grad);
        for (size_t i = 0; i < n; i++)
            peer->sum[i] +=
                (reptile ? peer->start[i] - peer->params.value[i] : peer->params.grad[i]) / GROUP;
        memcpy(peer->params.value, peer->start, n * sizeof *peer->start);
    }
    if (peer->kind == AW_SIZE_PEER_REPTILE) {
        for (size_t i = 0; i < n; i++)
            peer->params.value[i] -= TOWARDS * (float)(rate / RATE) * peer->sum[i];
        return;
    }
    memcpy(peer->params.grad, peer->sum, n * sizeof *peer->sum);
    adam(peer, rate);
}

enum aw_err aw_size_peer_new(const struct aw_size_memory *memory, enum aw_size_peers kind,
                             uint64_t seed, uint32_t updates, struct aw_size_peer **ret_peer,
                             struct aw_diag *diag)
{
    if (memory->workload_count < 3)
        return aw_fail(diag, AW_ERR_NODATA, "expected three workloads or more to learn from");
    struct aw_size_peer *peer = aw_alloc_new(NULL, 1, sizeof *peer);
    if (!peer)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a network");
    peer->memory = memory;
    peer->kind = kind;
    peer->config_dim = memory->table->feature_count + AW__SIZE_PRINCIPALS;
    peer->in_dim = peer->config_dim + 2;
    peer->scale = sqrt(memory->rest_var);
    const uint32_t widths[] = {peer->in_dim, WIDTH, WIDTH, 1};
    aw_rng_init(&peer->rng, seed, 17 + kind);
    aw_mlp_declare(&peer->net, &peer->params, "peer", widths, 4, AW_ACT_RELU, AW_ACT_NONE);
    enum aw_err err = aw_params_alloc(&peer->params, NULL);
    err = err ? err : aw_mlp_cache_init(&peer->cache, &peer->net, AW_SIZE_CONFIGS_MAX, NULL);
    peer->start = aw_alloc_new(NULL, peer->params.count, sizeof *peer->start);
    peer->sum = aw_alloc_new(NULL, peer->params.count, sizeof *peer->sum);
    peer->x = aw_alloc_new(NULL, (size_t)AW_SIZE_CONFIGS_MAX * peer->in_dim, sizeof *peer->x);
    if (err || !peer->start || !peer->sum || !peer->x) {
        aw_size_peer_free(peer);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a network");
    }
    aw_mlp_init_fan_in(&peer->net, peer->params.value, 1e-3f, &peer->rng);
    /* as many rows as the neural process: what makes inner steps makes fewer updates */
    const uint32_t made = kind == AW_SIZE_PEER_TRANSFER ? updates : updates / 2;
    for (uint32_t n = 0; n < made; n++)
        step(peer, RATE * (1 - (double)n / made));
    memcpy(peer->start, peer->params.value, peer->params.count * sizeof *peer->start);
    *ret_peer = peer;
    return AW_OK;
}

void aw_size_peer_free(struct aw_size_peer *peer)
{
    if (!peer)
        return;
    aw_mlp_cache_deinit(&peer->cache);
    aw_params_deinit(&peer->params);
    aw_alloc_free(NULL, peer->start);
    aw_alloc_free(NULL, peer->sum);
    aw_alloc_free(NULL, peer->x);
    aw_alloc_free(NULL, peer);
}

void aw_size_peer_predict(struct aw_size_peer *peer, const struct aw_size_shot *shots,
                          uint32_t count, double *ret)
{
    const struct aw_size_memory *m = peer->memory;
    const double level = level_of(m, shots, count);
    memcpy(peer->params.value, peer->start, peer->params.count * sizeof *peer->start);
    for (uint32_t i = 0; i < count; i++)
        put_shot(peer, i, shots[i].config, shots[i].value, level, count);
    inner(peer, 0, count, peer->kind == AW_SIZE_PEER_TRANSFER ? TUNE : STEP);
    for (uint32_t c = 0; c < m->config_count; c++)
        put_row(peer, c, level, count, peer->x + (size_t)c * peer->in_dim);
    const float *y =
        aw_mlp_forward(&peer->net, peer->params.value, peer->x, m->config_count, &peer->cache);
    for (uint32_t c = 0; c < m->config_count; c++) {
        const double rest = (double)y[c] * peer->scale;
        ret[c] = level + m->effect[c] + (isfinite(rest) ? rest : 0);
    }
}
