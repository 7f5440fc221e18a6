/* encoder.c - episodes in, an embedding out. */
#include "meta/encoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const aw_encoder_kind_names[] = {"pool", "gru", NULL};

struct aw_encoder_cache {
    uint32_t every, from;                            /* steps that are read */
    uint32_t workloads_max, episodes_max, steps_max; /* episodes of one workload */
    bool training;
    struct aw_gru_cache *gru;
    struct aw_mlp_cache step, head;
    float *x;       /* gru: [T][episodes][in]; pool: [rows][in] */
    float *h_n;     /* gru: [4][episodes][hidden] */
    float *dh_n;    /* the same */
    float *pooled;  /* [workloads][pooled] */
    float *dpooled; /* the same */
    float *drow;    /* pool: [rows][hidden] */
    /* of the last forward */
    uint32_t workload_count, episode_count, T;
    uint32_t *rows;     /* [workloads] pool: steps of each */
    uint32_t *episodes; /* [workloads] */
    void *block;
    const struct aw_alloc *alloc;
};

void aw_encoder_declare(struct aw_encoder *encoder, struct aw_params *params, const char *prefix,
                        const struct aw_encoder_config *config)
{
    char name[AW_PARAMS_NAME_MAX];
    AW_ASSERT(config->in > 0 && config->in <= AW_BUNDLE_DIM_MAX && config->embedding > 0 &&
              config->embedding <= AW_ENCODER_EMBEDDING_MAX);
    memset(encoder, 0, sizeof *encoder);
    encoder->config = *config;
    for (uint32_t i = 0; i < AW_BUNDLE_DIM_MAX; i++)
        encoder->normal.scale[i] = 1;
    if (config->kind == AW_ENCODER_GRU) {
        snprintf(name, sizeof name, "%s.gru", prefix);
        aw_gru_declare(&encoder->gru, params, name, config->in, config->hidden, 2, true);
        encoder->pooled = 2 * config->hidden;
    } else {
        const uint32_t widths[] = {config->in, config->hidden, config->hidden};
        snprintf(name, sizeof name, "%s.step", prefix);
        aw_mlp_declare(&encoder->step, params, name, widths, 3, AW_ACT_RELU, AW_ACT_RELU);
        encoder->pooled = config->hidden;
    }
    const uint32_t widths[] = {encoder->pooled, config->dense, config->embedding};
    snprintf(name, sizeof name, "%s.head", prefix);
    aw_mlp_declare(&encoder->head, params, name, widths, 3, AW_ACT_RELU, AW_ACT_NONE);
}

void aw_encoder_init(const struct aw_encoder *encoder, float *theta, struct aw_rng *rng)
{
    if (encoder->config.kind == AW_ENCODER_GRU)
        aw_gru_init_uniform(&encoder->gru, theta, rng);
    else
        aw_mlp_init_fan_in(&encoder->step, theta, 0, rng);
    aw_mlp_init_fan_in(&encoder->head, theta, 0, rng);
}

enum aw_err aw_encoder_cache_new(const struct aw_encoder *encoder, uint32_t workloads_max,
                                 uint32_t episodes_max, uint32_t steps_max, bool training,
                                 const struct aw_alloc *alloc, struct aw_encoder_cache **ret_cache)
{
    AW_ASSERT(workloads_max > 0 && workloads_max <= AW_ENCODER_WORKLOADS_MAX);
    const bool gru = encoder->config.kind == AW_ENCODER_GRU;
    const size_t episodes = (size_t)workloads_max * episodes_max, rows = episodes * steps_max;
    const size_t x = rows * encoder->config.in;
    const size_t states = gru ? 4 * episodes * encoder->config.hidden : 0;
    const size_t drow = gru ? 0 : rows * encoder->config.hidden;
    const size_t pooled = (size_t)workloads_max * encoder->pooled;
    struct aw_encoder_cache *cache = aw_alloc_new(alloc, 1, sizeof *cache);
    if (!cache)
        return AW_ERR_NOMEM;
    *cache = (struct aw_encoder_cache){.workloads_max = workloads_max,
                                       .episodes_max = episodes_max,
                                       .steps_max = steps_max,
                                       .every = 1,
                                       .training = training,
                                       .alloc = alloc};
    enum aw_err err = AW_OK;
    const size_t floats = x + 2 * states + 2 * pooled + drow;
    cache->block = aw_alloc_new(
        alloc, floats * sizeof(float) + 2 * (size_t)workloads_max * sizeof(uint32_t), 1);
    if (!cache->block)
        err = AW_ERR_NOMEM;
    if (!err) {
        float *at = cache->block;
        cache->x = at;
        cache->h_n = at += x;
        cache->dh_n = at += states;
        cache->pooled = at += states;
        cache->dpooled = at += pooled;
        cache->drow = at += pooled;
        cache->rows = (uint32_t *)(void *)(at + drow);
        cache->episodes = cache->rows + workloads_max;
    }
    if (!err && gru)
        err = aw_gru_cache_new(&encoder->gru, steps_max, (uint32_t)episodes, training, alloc,
                               &cache->gru);
    else if (!err)
        err = aw_mlp_cache_init(&cache->step, &encoder->step, (uint32_t)rows, alloc);
    err = err ? err : aw_mlp_cache_init(&cache->head, &encoder->head, workloads_max, alloc);
    if (err) {
        aw_encoder_cache_free(cache);
        return err;
    }
    *ret_cache = cache;
    return AW_OK;
}

void aw_encoder_cache_free(struct aw_encoder_cache *cache)
{
    if (!cache)
        return;
    aw_mlp_cache_deinit(&cache->head);
    aw_mlp_cache_deinit(&cache->step);
    aw_gru_cache_free(cache->gru);
    aw_alloc_free(cache->alloc, cache->block);
    aw_alloc_free(cache->alloc, cache);
}

void aw_encoder_thin(struct aw_encoder_cache *cache, uint32_t every, uint32_t from)
{
    AW_ASSERT(every > 0 && from < every);
    cache->every = every;
    cache->from = from;
}

static void normalise(const struct aw_encoder *encoder, const float *from, float *to)
{
    for (uint32_t i = 0; i < encoder->config.in; i++)
        to[i] = (from[i] - encoder->normal.mean[i]) * encoder->normal.scale[i];
}

/* Which of `count` episodes a GRU reads; one at least. */
struct thinned {
    uint32_t from, every;
};

static struct thinned thinned(const struct aw_encoder_cache *cache, uint32_t count)
{
    const uint32_t every = cache->every < count ? cache->every : count;
    return (struct thinned){cache->from % every, every};
}

/* --- kind gru --------------------------------------------------------------------------------- */

static void gru_forward(const struct aw_encoder *encoder, const float *theta,
                        const struct aw_bundle *const *bundles, struct aw_encoder_cache *cache)
{
    const uint32_t in = encoder->config.in, H = encoder->config.hidden, B = cache->episode_count;
    memset(cache->x, 0, (size_t)cache->T * B * in * sizeof *cache->x);
    for (uint32_t w = 0, e = 0; w < cache->workload_count; w++) {
        const struct thinned look = thinned(cache, bundles[w]->count);
        for (uint32_t k = look.from; k < bundles[w]->count; k += look.every, e++) {
            const float *episode = aw_bundle_episode(bundles[w], k);
            for (uint32_t t = 0; t < bundles[w]->length[k]; t++)
                normalise(encoder, episode + (size_t)t * in, cache->x + ((size_t)t * B + e) * in);
        }
    }
    (void)aw_gru_forward(&encoder->gru, theta, cache->x, cache->T, B, cache->gru, cache->h_n);
    /* layer 1, forward then backward */
    for (uint32_t w = 0, e = 0; w < cache->workload_count; w++) {
        float *pooled = cache->pooled + (size_t)w * encoder->pooled;
        memset(pooled, 0, encoder->pooled * sizeof *pooled);
        const float share = 1.0f / (float)cache->episodes[w];
        for (uint32_t k = 0; k < cache->episodes[w]; k++, e++)
            for (uint32_t d = 0; d < 2; d++) {
                const float *h = cache->h_n + ((size_t)(2 + d) * B + e) * H;
                for (uint32_t i = 0; i < H; i++)
                    pooled[d * H + i] += share * h[i];
            }
    }
}

static void gru_backward(const struct aw_encoder *encoder, const float *theta,
                         struct aw_encoder_cache *cache, float *grad)
{
    const uint32_t H = encoder->config.hidden, B = cache->episode_count;
    memset(cache->dh_n, 0, 2 * (size_t)B * H * sizeof *cache->dh_n);
    for (uint32_t w = 0, e = 0; w < cache->workload_count; w++) {
        const float *dpooled = cache->dpooled + (size_t)w * encoder->pooled;
        const float share = 1.0f / (float)cache->episodes[w];
        for (uint32_t k = 0; k < cache->episodes[w]; k++, e++)
            for (uint32_t d = 0; d < 2; d++) {
                float *dh = cache->dh_n + ((size_t)(2 + d) * B + e) * H;
                for (uint32_t i = 0; i < H; i++)
                    dh[i] = share * dpooled[d * H + i];
            }
    }
    aw_gru_backward(&encoder->gru, theta, cache->x, cache->T, B, cache->gru, NULL, cache->dh_n,
                    grad, NULL);
}

/* --- kind pool -------------------------------------------------------------------------------- */

static void pool_forward(const struct aw_encoder *encoder, const float *theta,
                         const struct aw_bundle *const *bundles, struct aw_encoder_cache *cache)
{
    const uint32_t in = encoder->config.in, H = encoder->config.hidden;
    uint32_t rows = 0;
    for (uint32_t w = 0; w < cache->workload_count; w++) {
        cache->rows[w] = 0;
        for (uint32_t k = 0; k < bundles[w]->count; k++) {
            const float *episode = aw_bundle_episode(bundles[w], k);
            const uint32_t length = bundles[w]->length[k];
            uint32_t t = cache->from < length ? cache->from : length - 1; /* one at least */
            for (; t < length; t += cache->every, rows++, cache->rows[w]++)
                normalise(encoder, episode + (size_t)t * in, cache->x + (size_t)rows * in);
        }
    }
    const float *y = aw_mlp_forward(&encoder->step, theta, cache->x, rows, &cache->step);
    for (uint32_t w = 0; w < cache->workload_count; w++) {
        float *pooled = cache->pooled + (size_t)w * H;
        memset(pooled, 0, H * sizeof *pooled);
        for (uint32_t r = 0; r < cache->rows[w]; r++, y += H)
            for (uint32_t i = 0; i < H; i++)
                pooled[i] += y[i];
        for (uint32_t i = 0; i < H; i++)
            pooled[i] /= (float)cache->rows[w];
    }
}

static void pool_backward(const struct aw_encoder *encoder, const float *theta,
                          struct aw_encoder_cache *cache, float *grad)
{
    const uint32_t H = encoder->config.hidden;
    uint32_t rows = 0;
    for (uint32_t w = 0; w < cache->workload_count; w++) {
        const float *dpooled = cache->dpooled + (size_t)w * H;
        const float share = 1.0f / (float)cache->rows[w];
        for (uint32_t r = 0; r < cache->rows[w]; r++, rows++)
            for (uint32_t i = 0; i < H; i++)
                cache->drow[(size_t)rows * H + i] = share * dpooled[i];
    }
    aw_mlp_backward(&encoder->step, theta, cache->x, rows, &cache->step, cache->drow, grad, NULL);
}

/* --- both ------------------------------------------------------------------------------------- */

const float *aw_encoder_forward(const struct aw_encoder *encoder, const float *theta,
                                const struct aw_bundle *const *bundles, uint32_t count,
                                struct aw_encoder_cache *cache)
{
    AW_ASSERT(count > 0 && count <= cache->workloads_max);
    cache->workload_count = count;
    cache->episode_count = cache->T = 0;
    for (uint32_t w = 0; w < count; w++) {
        const struct aw_bundle *bundle = bundles[w];
        AW_ASSERT(bundle->count > 0 && bundle->count <= cache->episodes_max &&
                  bundle->dim == encoder->config.in && bundle->config.steps <= cache->steps_max);
        cache->episodes[w] = bundle->count;
        if (encoder->config.kind == AW_ENCODER_GRU) {
            const struct thinned look = thinned(cache, bundle->count);
            cache->episodes[w] = (bundle->count - look.from + look.every - 1) / look.every;
        }
        cache->episode_count += cache->episodes[w];
        cache->T = bundle->config.steps > cache->T ? bundle->config.steps : cache->T;
    }
    if (encoder->config.kind == AW_ENCODER_GRU)
        gru_forward(encoder, theta, bundles, cache);
    else
        pool_forward(encoder, theta, bundles, cache);
    return aw_mlp_forward(&encoder->head, theta, cache->pooled, count, &cache->head);
}

void aw_encoder_backward(const struct aw_encoder *encoder, const float *theta,
                         struct aw_encoder_cache *cache, const float *d_embedding, float *grad)
{
    AW_ASSERT(cache->training);
    aw_mlp_backward(&encoder->head, theta, cache->pooled, cache->workload_count, &cache->head,
                    d_embedding, grad, cache->dpooled);
    if (encoder->config.kind == AW_ENCODER_GRU)
        gru_backward(encoder, theta, cache, grad);
    else
        pool_backward(encoder, theta, cache, grad);
}
