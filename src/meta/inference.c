/* inference.c - a model that is used and no longer taught. */
#include "meta/inference.h"

#include <string.h>

#include "base/hash.h"
#include "meta/context_internal.h"

static uint64_t mix(uint64_t h, const float *values, size_t count)
{
    return aw_hash_bytes(h, values, count * sizeof *values);
}

/* Encoder and actor as context.c names and lays them out. Critics are read for the checksum alone,
 * by which a model card names the file (aw_context_checksum). */
static enum aw_err weights_read(struct aw_inference *frozen, const char *path, struct aw_diag *diag)
{
    const struct aw_context_settings *set = &frozen->config.settings;
    const uint32_t S = frozen->config.obs_dim, A = frozen->config.act_dim, E = set->embedding;
    const struct aw_encoder_config shape = {set->encoder, S + A + 1, set->encoder_hidden,
                                            set->encoder_dense, E};
    const uint32_t width[] = {S + E, set->hidden, set->hidden, A};
    const uint64_t in = shape.in;
    const uint32_t critic_width[] = {S + E + A, set->hidden, set->hidden, 1};
    struct aw_params encoding = {0}, actor = {0}, critic = {0}; /* layouts alone, without memory */
    struct aw_mlp unused;
    struct aw_safetensors *file = NULL;
    struct aw_context_config config;
    aw_encoder_declare(&frozen->encoder, &encoding, "encoder", &shape);
    aw_mlp_declare(&frozen->actor, &actor, "actor", width, 4, AW_ACT_RELU, AW_ACT_NONE);
    aw_mlp_declare(&unused, &critic, "critic1", critic_width, 4, AW_ACT_RELU, AW_ACT_NONE);
    aw_mlp_declare(&unused, &critic, "critic2", critic_width, 4, AW_ACT_RELU, AW_ACT_NONE);
    struct aw_carve take = {0};
    (void)aw_carve_take(&take, encoding.count, sizeof(float));
    (void)aw_carve_take(&take, actor.count, sizeof(float));
    frozen->block = aw_alloc_new(frozen->alloc, take.used, 1);
    float *critics = aw_alloc_new(frozen->alloc, critic.count, sizeof *critics);
    if (!frozen->block || !critics) {
        aw_alloc_free(frozen->alloc, critics);
        return aw_fail(diag, AW_ERR_NOMEM, "%s: no memory to read it", path);
    }
    take = (struct aw_carve){.base = frozen->block};
    frozen->encoding = aw_carve_take(&take, encoding.count, sizeof(float));
    frozen->theta = aw_carve_take(&take, actor.count, sizeof(float));
    struct aw_encoder_normal *normal = &frozen->encoder.normal;
    enum aw_err err = aw__context_open(path, frozen->alloc, &file, &config, diag);
    err = err ? err : aw_safetensors_copy_params(file, &encoding, "", frozen->encoding, diag);
    err = err ? err : aw_safetensors_copy_params(file, &actor, "", frozen->theta, diag);
    err = err ? err
              : aw_safetensors_copy(file, "normal.mean", AW_DTYPE_F32, 1, &in, normal->mean, diag);
    err =
        err ? err
            : aw_safetensors_copy(file, "normal.scale", AW_DTYPE_F32, 1, &in, normal->scale, diag);
    err = err ? err : aw_safetensors_copy_params(file, &critic, "", critics, diag);
    aw_safetensors_close(file);
    if (!err)
        frozen->checksum = mix(mix(mix(mix(AW_HASH_BEGIN, frozen->encoding, encoding.count),
                                       frozen->theta, actor.count),
                                   critics, critic.count),
                               normal->mean, in);
    aw_alloc_free(frozen->alloc, critics);
    return err;
}

enum aw_err aw_inference_open(struct aw_inference *frozen, const char *path,
                              const struct aw_alloc *alloc, struct aw_diag *diag)
{
    memset(frozen, 0, sizeof *frozen);
    frozen->alloc = alloc;
    enum aw_err err = aw_context_peek(path, &frozen->config, alloc, diag);
    const struct aw_context_config *config = &frozen->config;
    if (!err && (config->obs_dim == 0 || config->act_dim == 0 || config->steps == 0 ||
                 config->settings.episodes == 0 ||
                 config->obs_dim + config->act_dim + 1 > AW_BUNDLE_DIM_MAX))
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "obs_dim",
                         "no model has %u states, %u actions and episodes of %u steps",
                         config->obs_dim, config->act_dim, config->steps);
    err = err ? err : weights_read(frozen, path, diag);
    if (err)
        aw_inference_close(frozen);
    return err;
}

void aw_inference_close(struct aw_inference *frozen)
{
    aw_alloc_free(frozen->alloc, frozen->block);
    memset(frozen, 0, sizeof *frozen);
}

enum aw_err aw_inference_embed(const struct aw_inference *frozen, const struct aw_bundle *bundle,
                               const struct aw_alloc *alloc, float *embedding)
{
    const struct aw_context_config *config = &frozen->config;
    const size_t bytes = config->settings.embedding * sizeof *embedding;
    struct aw_encoder_cache *cache = NULL;
    if (!config->settings.to_actor) {
        memset(embedding, 0, bytes);
        return AW_OK;
    }
    const enum aw_err err = aw_encoder_cache_new(&frozen->encoder, 1, config->settings.episodes,
                                                 config->steps, false, alloc, &cache);
    if (!err)
        memcpy(embedding, aw_encoder_forward(&frozen->encoder, frozen->encoding, &bundle, 1, cache),
               bytes);
    aw_encoder_cache_free(cache);
    return err;
}
