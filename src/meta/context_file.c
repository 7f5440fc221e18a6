/* context_file.c - a learner with context as one safetensors file. */
#include "meta/context_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"

static enum aw_err add_number(struct aw_safetensors_writer *writer, const char *key, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return aw_safetensors_add_meta(writer, key, text);
}

enum aw_err aw__context_meta_add(struct aw_safetensors_writer *writer, const char *format,
                                 const struct aw_context_config *config)
{
    enum aw_err err = aw_safetensors_add_meta(writer, "format", format);
    err = err ? err : add_number(writer, "obs_dim", config->obs_dim);
    err = err ? err : add_number(writer, "act_dim", config->act_dim);
    err = err ? err : add_number(writer, "steps", config->steps);
    err = err ? err : add_number(writer, "seed", config->seed);
    for (const struct aw_conf_field *field = aw_context_fields; !err && field->key; field++) {
        char key[AW_SAFETENSORS_NAME_MAX], value[AW_CONF_TEXT_MAX];
        snprintf(key, sizeof key, "setting.%s", field->key);
        aw_conf_get(field, &config->settings, value, sizeof value);
        err = aw_safetensors_add_meta(writer, key, value);
    }
    return err;
}

enum aw_err aw__context_add(struct aw_safetensors_writer *writer, const struct aw_context *c,
                            const char *const *meta, size_t meta_pairs)
{
    const uint64_t in = c->encoder.config.in;
    enum aw_err err = aw__context_meta_add(writer, AW__CONTEXT_FORMAT, &c->config);
    for (size_t i = 0; !err && i < meta_pairs; i++)
        err = aw_safetensors_add_meta(writer, meta[2 * i], meta[2 * i + 1]);
    err = err ? err : aw_safetensors_add_params(writer, &c->encoding, c->encoding.value, "");
    err = err ? err : aw_safetensors_add_params(writer, &c->actor, c->actor.value, "");
    err = err ? err : aw_safetensors_add_params(writer, &c->critic, c->critic.value, "");
    err = err ? err
              : aw_safetensors_add(writer, "normal.mean", AW_DTYPE_F32, 1, &in,
                                   c->encoder.normal.mean);
    return err ? err
               : aw_safetensors_add(writer, "normal.scale", AW_DTYPE_F32, 1, &in,
                                    c->encoder.normal.scale);
}

enum aw_err aw_context_save(const struct aw_context *c, const char *path, const char *const *meta,
                            size_t meta_pairs, struct aw_diag *diag)
{
    struct aw_safetensors_writer *writer = NULL;
    enum aw_err err = aw_safetensors_writer_new(c->alloc, &writer);
    err = err ? err : aw__context_add(writer, c, meta, meta_pairs);
    err = err ? err : aw_safetensors_seal(writer);
    if (err)
        aw_fail(diag, err, "%s: cannot be written", path);
    err = err ? err : aw_safetensors_write(writer, path, diag);
    aw_safetensors_writer_free(writer);
    return err;
}

static enum aw_err number_of(const struct aw_safetensors *file, const char *path, const char *key,
                             uint64_t max, uint64_t *ret, struct aw_diag *diag)
{
    const char *text = aw_safetensors_meta(file, key);
    uint64_t value = 0;
    if (!text || aw_text_parse_u64(text, &value) || value > max)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, key, "expected a number, found %s",
                          text ? text : "nothing");
    *ret = value;
    return AW_OK;
}

enum aw_err aw__context_meta_read(const struct aw_safetensors *file, const char *format,
                                  const char *path, struct aw_context_config *ret,
                                  struct aw_diag *diag)
{
    const char *found = aw_safetensors_meta(file, "format");
    if (!found || strcmp(found, format) != 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "format", "expected %s, found %s",
                          format, found ? found : "nothing");
    struct aw_context_config config;
    uint64_t obs = 0, act = 0, steps = 0, seed = 0;
    aw_context_config_init(&config);
    enum aw_err err = number_of(file, path, "obs_dim", AW_BUNDLE_DIM_MAX, &obs, diag);
    err = err ? err : number_of(file, path, "act_dim", AW_BUNDLE_DIM_MAX, &act, diag);
    err = err ? err : number_of(file, path, "steps", AW_BUNDLE_STEPS_MAX, &steps, diag);
    err = err ? err : number_of(file, path, "seed", UINT64_MAX, &seed, diag);
    for (const struct aw_conf_field *field = aw_context_fields; !err && field->key; field++) {
        char key[AW_SAFETENSORS_NAME_MAX];
        snprintf(key, sizeof key, "setting.%s", field->key);
        const char *value = aw_safetensors_meta(file, key);
        if (!value)
            continue; /* younger than the file: the default; the tensors say whether it fits */
        if (aw_conf_set(aw_context_fields, &config.settings, field->key, value, diag))
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, key, "cannot be %s", value);
    }
    if (err)
        return err;
    config.obs_dim = (uint32_t)obs;
    config.act_dim = (uint32_t)act;
    config.steps = (uint32_t)steps;
    config.seed = seed;
    *ret = config;
    return AW_OK;
}

enum aw_err aw__context_open(const char *path, const struct aw_alloc *alloc,
                             struct aw_safetensors **ret_file, struct aw_context_config *ret_config,
                             struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    enum aw_err err = aw_safetensors_open(path, alloc, &file, diag);
    err = err ? err : aw__context_meta_read(file, AW__CONTEXT_FORMAT, path, ret_config, diag);
    err = err ? err : aw_safetensors_check_seal(file, diag);
    if (err)
        aw_safetensors_close(file);
    else
        *ret_file = file;
    return err;
}

enum aw_err aw_context_peek(const char *path, struct aw_context_config *ret,
                            const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    struct aw_context_config config;
    const enum aw_err err = aw__context_open(path, alloc, &file, &config, diag);
    if (!err)
        *ret = config;
    aw_safetensors_close(file);
    return err;
}

/* What decides the shape of the networks must be the same; how they are taught may differ. */
static bool same_shape(const struct aw_context_config *a, const struct aw_context_config *b)
{
    const struct aw_context_settings *x = &a->settings, *y = &b->settings;
    return a->obs_dim == b->obs_dim && a->act_dim == b->act_dim && x->encoder == y->encoder &&
           x->encoder_hidden == y->encoder_hidden && x->encoder_dense == y->encoder_dense &&
           x->embedding == y->embedding && x->hidden == y->hidden && x->to_actor == y->to_actor &&
           x->to_critic == y->to_critic;
}

enum aw_err aw_context_load(struct aw_context *c, const char *path, struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    struct aw_context_config config;
    const uint64_t in = c->encoder.config.in;
    struct aw_encoder_normal normal = c->encoder.normal;
    float *values = NULL;
    enum aw_err err = aw__context_open(path, c->alloc, &file, &config, diag);
    if (!err && !same_shape(&config, &c->config))
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                         "the model is of another shape: %u states, %u actions, embedding %u; "
                         "expected %u, %u, %u",
                         config.obs_dim, config.act_dim, config.settings.embedding,
                         c->config.obs_dim, c->config.act_dim, c->config.settings.embedding);
    const size_t count = c->encoding.count + c->actor.count + c->critic.count;
    if (!err && !(values = aw_alloc_new(c->alloc, count, sizeof *values)))
        err = aw_fail(diag, AW_ERR_NOMEM, "%s: no memory to read it", path);
    float *actor = values ? values + c->encoding.count : NULL;
    float *critic = values ? actor + c->actor.count : NULL;
    err = err ? err : aw_safetensors_copy_params(file, &c->encoding, "", values, diag);
    err = err ? err : aw_safetensors_copy_params(file, &c->actor, "", actor, diag);
    err = err ? err : aw_safetensors_copy_params(file, &c->critic, "", critic, diag);
    err = err ? err
              : aw_safetensors_copy(file, "normal.mean", AW_DTYPE_F32, 1, &in, normal.mean, diag);
    err = err ? err
              : aw_safetensors_copy(file, "normal.scale", AW_DTYPE_F32, 1, &in, normal.scale, diag);
    aw_safetensors_close(file);
    if (!err) {
        memcpy(c->encoding.value, values, c->encoding.count * sizeof(float));
        memcpy(c->actor.value, actor, c->actor.count * sizeof(float));
        memcpy(c->critic.value, critic, c->critic.count * sizeof(float));
        memcpy(c->actor_held, actor, c->actor.count * sizeof(float));
        c->loaded = true;
        memcpy(c->actor_target, actor, c->actor.count * sizeof(float));
        memcpy(c->critic_target, critic, c->critic.count * sizeof(float));
        aw_params_zero_moments(&c->encoding);
        aw_params_zero_moments(&c->actor);
        aw_params_zero_moments(&c->critic);
        c->encoder.normal = normal;
        c->version++;
    }
    aw_alloc_free(c->alloc, values);
    return err;
}

static uint64_t mix(uint64_t h, const float *values, size_t count)
{
    return aw_hash_bytes(h, values, count * sizeof *values);
}

uint64_t aw_context_checksum(const struct aw_context *c)
{
    uint64_t h = AW_HASH_BEGIN;
    h = mix(h, c->encoding.value, c->encoding.count);
    h = mix(h, c->actor.value, c->actor.count);
    h = mix(h, c->critic.value, c->critic.count);
    return mix(h, c->encoder.normal.mean, c->encoder.config.in);
}
