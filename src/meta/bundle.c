/* bundle.c - which episodes are kept. */
#include "meta/bundle.h"

#include <math.h>
#include <string.h>

const char *const aw_bundle_choice_names[] = {"best", "ends", "latest", NULL};

enum aw_err aw_bundle_init(struct aw_bundle *bundle, const struct aw_bundle_config *config,
                           const struct aw_alloc *alloc)
{
    const uint64_t dim = (uint64_t)config->obs_dim + config->act_dim + 1;
    memset(bundle, 0, sizeof *bundle);
    if (config->episodes == 0 || config->episodes > AW_BUNDLE_EPISODES_MAX || config->steps == 0 ||
        config->steps > AW_BUNDLE_STEPS_MAX || dim > AW_BUNDLE_DIM_MAX ||
        config->choice > AW_BUNDLE_LATEST)
        return AW_ERR_CONFIG;
    const size_t M = config->episodes, floats = M * config->steps * dim;
    unsigned char *block = aw_alloc_new(
        alloc, M * (sizeof(double) + sizeof(uint64_t) + sizeof(uint32_t)) + floats * sizeof(float),
        1);
    if (!block)
        return AW_ERR_NOMEM;
    *bundle = (struct aw_bundle){.config = *config, .dim = (uint32_t)dim, .alloc = alloc};
    bundle->block = block;
    bundle->value = (double *)(void *)block;
    bundle->id = (uint64_t *)(void *)(block + M * sizeof(double));
    bundle->x = (float *)(void *)(block + M * (sizeof(double) + sizeof(uint64_t)));
    bundle->length = (uint32_t *)(void *)(bundle->x + floats);
    return AW_OK;
}

void aw_bundle_deinit(struct aw_bundle *bundle)
{
    aw_alloc_free(bundle->alloc, bundle->block);
    memset(bundle, 0, sizeof *bundle);
}

void aw_bundle_clear(struct aw_bundle *bundle)
{
    bundle->count = 0;
    bundle->version = 0;
}

static bool all_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

/* Which episode an arrival of this value takes the place of; UINT32_MAX: none. */
static uint32_t place_for(const struct aw_bundle *bundle, double value)
{
    const uint32_t M = bundle->config.episodes;
    uint32_t oldest = 0, lowest = 0, above = 0;
    if (bundle->count < M)
        return bundle->count;
    for (uint32_t i = 1; i < M; i++) {
        oldest = bundle->id[i] < bundle->id[oldest] ? i : oldest;
        lowest = bundle->value[i] < bundle->value[lowest] ? i : lowest;
    }
    if (bundle->config.choice == AW_BUNDLE_LATEST)
        return oldest;
    if (bundle->config.choice == AW_BUNDLE_BEST)
        return value > bundle->value[lowest] ? lowest : UINT32_MAX;
    /* ends: what goes is nearest to the middle of all, the arrival among them */
    uint32_t middle = UINT32_MAX;
    const uint32_t worst_kept = M / 2;
    for (uint32_t i = 0; i < M; i++)
        above += bundle->value[i] < value;
    if (above == worst_kept)
        return UINT32_MAX; /* the arrival itself is the middle */
    for (uint32_t i = 0; i < M && middle == UINT32_MAX; i++) {
        uint32_t below = value < bundle->value[i];
        for (uint32_t k = 0; k < M; k++)
            below += bundle->value[k] < bundle->value[i] ||
                     (bundle->value[k] == bundle->value[i] && k < i);
        if (below == worst_kept)
            middle = i;
    }
    return middle;
}

bool aw_bundle_add(struct aw_bundle *bundle, const float *obs, const float *action,
                   const float *reward, uint32_t steps)
{
    const struct aw_bundle_config *config = &bundle->config;
    const uint32_t T = steps < config->steps ? steps : config->steps;
    if (T == 0 || !all_finite(obs, (size_t)T * config->obs_dim) ||
        !all_finite(action, (size_t)T * config->act_dim) || !all_finite(reward, T))
        return false;
    double value = 0;
    for (uint32_t t = 0; t < T; t++)
        value += (double)reward[t];
    const uint32_t at = place_for(bundle, value);
    if (at == UINT32_MAX)
        return false;
    float *x = bundle->x + (size_t)at * config->steps * bundle->dim;
    for (uint32_t t = 0; t < T; t++) {
        float *row = x + (size_t)t * bundle->dim;
        memcpy(row, obs + (size_t)t * config->obs_dim, config->obs_dim * sizeof *row);
        memcpy(row + config->obs_dim, action + (size_t)t * config->act_dim,
               config->act_dim * sizeof *row);
        row[bundle->dim - 1] = reward[t];
    }
    memset(x + (size_t)T * bundle->dim, 0, (size_t)(config->steps - T) * bundle->dim * sizeof *x);
    bundle->length[at] = T;
    bundle->value[at] = value;
    bundle->id[at] = ++bundle->next_id;
    bundle->count += at == bundle->count;
    bundle->version = bundle->next_id;
    return true;
}
