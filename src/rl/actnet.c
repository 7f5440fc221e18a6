/* actnet.c - a policy ready to serve. */
#include "rl/actnet.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "nn/adam.h"

#define LAYERS       3u
#define SCALE_STEADY 1e-3f /* a deviation below this is an axis that hardly moves */
#define OBS_CLIP     10.0f /* deviations; an outlier must not rule the network */
#define REACH_MAX    2.0f

static void widths(const struct aw_actnet_shape *shape, uint32_t out[LAYERS + 1])
{
    out[0] = shape->obs_dim;
    out[1] = out[2] = shape->hidden;
    out[3] = shape->act_dim;
}

static void carve(struct aw_actnet *actor, struct aw_carve *take)
{
    actor->theta = aw_carve_take(take, actor->count, sizeof(float));
    actor->mean = aw_carve_take(take, actor->shape.obs_dim, sizeof(float));
    actor->scale = aw_carve_take(take, actor->shape.obs_dim, sizeof(float));
    actor->base = aw_carve_take(take, actor->shape.act_dim, sizeof(float));
    actor->reach = aw_carve_take(take, actor->shape.act_dim, sizeof(float));
}

enum aw_err aw_actnet_init(struct aw_actnet *actor, const struct aw_actnet_shape *shape,
                           const struct aw_alloc *alloc)
{
    memset(actor, 0, sizeof *actor);
    if (shape->obs_dim == 0 || shape->obs_dim > AW_ACTNET_OBS_MAX || shape->act_dim == 0 ||
        shape->act_dim > AW_ACTNET_ACT_MAX || shape->hidden == 0 ||
        shape->hidden > AW_ACTNET_HIDDEN_MAX)
        return AW_ERR_RANGE;
    struct aw_actnet made = {.shape = *shape, .alloc = alloc};
    struct aw_params layout = {0}; /* only to lay the tensors out; it never owns memory */
    uint32_t width[LAYERS + 1];
    widths(shape, width);
    aw_mlp_declare(&made.net, &layout, "actor", width, LAYERS + 1, AW_ACT_RELU, AW_ACT_NONE);
    made.count = layout.count;
    struct aw_carve take = {0};
    carve(&made, &take);
    made.block_bytes = take.used;
    made.block = aw_alloc_new(alloc, take.used, 1);
    if (!made.block)
        return AW_ERR_NOMEM;
    take = (struct aw_carve){.base = made.block};
    carve(&made, &take);
    for (uint32_t i = 0; i < shape->obs_dim; i++)
        made.scale[i] = 1;
    for (uint32_t i = 0; i < shape->act_dim; i++)
        made.reach[i] = 1;
    *actor = made;
    return AW_OK;
}

void aw_actnet_deinit(struct aw_actnet *actor)
{
    aw_alloc_free(actor->alloc, actor->block);
    memset(actor, 0, sizeof *actor);
}

/* Both clip, and a clip makes a number of what is none: they say whether there was one. */
static bool see(const struct aw_actnet *actor, const float *obs, float *out)
{
    bool finite = true;
    for (uint32_t i = 0; i < actor->shape.obs_dim; i++) {
        const float x = (obs[i] - actor->mean[i]) * actor->scale[i];
        finite &= !isnan(x);
        out[i] = fminf(OBS_CLIP, fmaxf(-OBS_CLIP, x));
    }
    return finite;
}

static bool answer(const struct aw_actnet *actor, const float *out, float *action)
{
    bool finite = true;
    for (uint32_t i = 0; i < actor->shape.act_dim; i++) {
        const float a = actor->base[i] + actor->reach[i] * tanhf(out[i]);
        finite &= !isnan(a);
        action[i] = fminf(1, fmaxf(-1, a));
    }
    return finite;
}

enum aw_err aw_actnet_act(const struct aw_actnet *actor, const float *obs, float *action)
{
    float seen[AW_ACTNET_OBS_MAX], out[AW_ACTNET_ACT_MAX], answered[AW_ACTNET_ACT_MAX];
    if (!aw_params_finite(obs, actor->shape.obs_dim) || !see(actor, obs, seen))
        return AW_ERR_DIVERGED;
    aw_mlp_infer(&actor->net, actor->theta, seen, out);
    if (!aw_params_finite(out, actor->shape.act_dim) || !answer(actor, out, answered))
        return AW_ERR_DIVERGED;
    memcpy(action, answered, actor->shape.act_dim * sizeof *action);
    return AW_OK;
}

static bool same_shape(const struct aw_actnet *a, const struct aw_actnet *b)
{
    return a->shape.obs_dim == b->shape.obs_dim && a->shape.act_dim == b->shape.act_dim &&
           a->shape.hidden == b->shape.hidden;
}

void aw_actnet_copy(struct aw_actnet *to, const struct aw_actnet *from)
{
    AW_ASSERT(same_shape(to, from));
    memcpy(to->block, from->block, from->block_bytes);
    to->id = from->id;
}

/* FNV-1a over all that decides an action; gaps of the block are zero, so they do not matter. */
static uint64_t hash(const struct aw_actnet *actor)
{
    uint64_t h = aw_hash_bytes(AW_HASH_BEGIN, actor->block, actor->block_bytes);
    return h ? h : 1;
}

static bool sound(const struct aw_actnet *actor)
{
    const struct aw_actnet_shape *shape = &actor->shape;
    bool ok = aw_params_finite(actor->theta, actor->count) &&
              aw_params_finite(actor->mean, shape->obs_dim) &&
              aw_params_finite(actor->scale, shape->obs_dim) &&
              aw_params_finite(actor->base, shape->act_dim) &&
              aw_params_finite(actor->reach, shape->act_dim);
    for (uint32_t i = 0; ok && i < shape->obs_dim; i++)
        ok = actor->scale[i] > 0;
    for (uint32_t i = 0; ok && i < shape->act_dim; i++)
        ok = fabsf(actor->base[i]) <= 1 && actor->reach[i] > 0 && actor->reach[i] <= REACH_MAX;
    return ok;
}

enum aw_err aw_actnet_seal(struct aw_actnet *actor)
{
    if (!sound(actor))
        return AW_ERR_DIVERGED;
    actor->id = hash(actor);
    return AW_OK;
}

void aw_actnet_init_weights(struct aw_actnet *actor, float final_limit, struct aw_rng *rng)
{
    aw_mlp_init_fan_in(&actor->net, actor->theta, final_limit, rng);
}

void aw_actnet_normalise(struct aw_actnet *actor, const float *obs, size_t count)
{
    const uint32_t S = actor->shape.obs_dim;
    for (uint32_t i = 0; i < S; i++) {
        double sum = 0, square = 0;
        for (size_t t = 0; t < count; t++)
            sum += obs[t * S + i];
        const double mean = count ? sum / (double)count : 0;
        for (size_t t = 0; t < count; t++) {
            const double off = obs[t * S + i] - mean;
            square += off * off;
        }
        const float deviation = count ? (float)sqrt(square / (double)count) : 0;
        actor->mean[i] = (float)mean;
        actor->scale[i] = deviation > SCALE_STEADY ? 1 / deviation : 1;
    }
}

enum aw_err aw_actnet_fit(struct aw_actnet *actor, const struct aw_actnet_fit *fit,
                          const float *obs, const float *action, size_t count, struct aw_rng *rng,
                          double *ret_loss)
{
    const uint32_t S = actor->shape.obs_dim, A = actor->shape.act_dim, B = fit->batch;
    if (count == 0 || B == 0 || fit->updates == 0)
        return AW_ERR_NODATA;
    struct aw_params params = {0};
    struct aw_mlp net;
    struct aw_mlp_cache cache = {0};
    float *scratch = NULL;
    uint32_t width[LAYERS + 1];
    widths(&actor->shape, width);
    aw_mlp_declare(&net, &params, "actor", width, LAYERS + 1, AW_ACT_RELU, AW_ACT_NONE);
    enum aw_err err = aw_params_alloc(&params, actor->alloc);
    err = err ? err : aw_mlp_cache_init(&cache, &net, B, actor->alloc);
    if (!err && !(scratch = aw_alloc_new(actor->alloc, (size_t)B * (S + 2 * A), sizeof *scratch)))
        err = AW_ERR_NOMEM;
    if (err)
        goto out;

    float *x = scratch, *want = x + (size_t)B * S, *dy = want + (size_t)B * A;
    memcpy(params.value, actor->theta, actor->count * sizeof *params.value);
    const struct aw_adam adam = aw_adam_default(fit->lr);
    const uint32_t late = fit->updates - (fit->updates + 9) / 10;
    double loss = 0;
    for (uint32_t u = 0; u < fit->updates; u++) {
        for (uint32_t b = 0; b < B; b++) {
            const size_t t = aw_rng_below(rng, (uint32_t)count);
            see(actor, obs + t * S, x + (size_t)b * S);
            memcpy(want + (size_t)b * A, action + t * A, A * sizeof *want);
        }
        const float *y = aw_mlp_forward(&net, params.value, x, B, &cache);
        for (size_t i = 0; i < (size_t)B * A; i++) {
            const uint32_t a = (uint32_t)(i % A);
            const float squashed = tanhf(y[i]);
            const float off = actor->base[a] + actor->reach[a] * squashed - want[i];
            dy[i] = 2 * off * actor->reach[a] * (1 - squashed * squashed) / (float)((size_t)B * A);
            if (u >= late)
                loss += (double)off * off / (double)((size_t)B * A);
        }
        aw_params_zero_grad(&params);
        aw_mlp_backward(&net, params.value, x, B, &cache, dy, params.grad, NULL);
        aw_adam_step(&adam, &params);
    }
    if (!aw_params_finite(params.value, params.count) || !isfinite(loss)) {
        err = AW_ERR_DIVERGED;
        goto out;
    }
    memcpy(actor->theta, params.value, actor->count * sizeof *params.value);
    if (ret_loss)
        *ret_loss = loss / (fit->updates - late);
    err = aw_actnet_seal(actor);
out:
    aw_alloc_free(actor->alloc, scratch);
    aw_mlp_cache_deinit(&cache);
    aw_params_deinit(&params);
    return err;
}

/* --- bytes ------------------------------------------------------------------------------------ */

struct head {
    struct aw_actnet_shape shape;
    uint32_t unused;
    uint64_t id;
};
_Static_assert(sizeof(struct head) == 24, "a snapshot has no padding");

size_t aw_actnet_state_bytes(const struct aw_actnet *actor)
{
    return sizeof(struct head) + actor->block_bytes;
}

void aw_actnet_state_save(const struct aw_actnet *actor, void *bytes)
{
    const struct head head = {.shape = actor->shape, .id = actor->id};
    memcpy(bytes, &head, sizeof head);
    memcpy((char *)bytes + sizeof head, actor->block, actor->block_bytes);
}

enum aw_err aw_actnet_state_load(struct aw_actnet *actor, const void *bytes)
{
    struct head head;
    memcpy(&head, bytes, sizeof head);
    if (memcmp(&head.shape, &actor->shape, sizeof head.shape) != 0)
        return AW_ERR_FORMAT;
    struct aw_actnet seen;
    enum aw_err err = aw_actnet_init(&seen, &actor->shape, actor->alloc);
    if (err)
        return err;
    memcpy(seen.block, (const char *)bytes + sizeof head, seen.block_bytes);
    if (!sound(&seen) || (head.id && head.id != hash(&seen)))
        err = AW_ERR_FORMAT;
    if (!err) {
        seen.id = head.id;
        aw_actnet_copy(actor, &seen);
    }
    aw_actnet_deinit(&seen);
    return err;
}
