/* task_file.c - the encoder of a meta-learner as one safetensors file. */
#include "meta/task.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "nn/safetensors.h"

/* What a file must say to fit: the task, and all that decides the shape of its tensors or what they
 * are fed with. How much is kept and how fast it learns may differ. */
struct said {
    const char *key;
    char value[AW_META_NAME_MAX];
};
#define SAID_COUNT   9u
#define CHECKSUM_MAX 17u /* bytes: hexadecimal, with the NUL */

static void number(struct said *said, const char *key, uint32_t value)
{
    said->key = key;
    snprintf(said->value, sizeof said->value, "%u", value);
}

static void text(struct said *said, const char *key, const char *value)
{
    said->key = key;
    snprintf(said->value, sizeof said->value, "%s", value);
}

static void say(const struct aw_meta *meta, struct said said[SAID_COUNT])
{
    text(&said[0], "format", AW__META_FORMAT);
    text(&said[1], "task", meta->task);
    text(&said[2], "learner", meta->supervised ? "supervised" : "reinforcement");
    number(&said[3], meta->supervised ? "feature_dim" : "state_dim", meta->in_dim);
    number(&said[4], meta->supervised ? "label_dim" : "action_dim", meta->out_dim);
    text(&said[5], "encoder", aw_encoder_kind_names[meta->encoder.config.kind]);
    number(&said[6], "hidden", meta->settings.hidden);
    number(&said[7], "dense", meta->settings.dense);
    number(&said[8], "embedding", meta->settings.embedding);
}

static uint64_t mix(uint64_t h, const float *values, size_t count)
{
    return aw_hash_bytes(h, values, count * sizeof *values);
}

static uint64_t checksum_of(const float *values, size_t count,
                            const struct aw_encoder_normal *normal, uint32_t in)
{
    uint64_t h = mix(AW_HASH_BEGIN, values, count);
    h = mix(h, normal->mean, in);
    return mix(h, normal->scale, in);
}

uint64_t aw_meta_checksum(const struct aw_meta *meta)
{
    return checksum_of(meta->params.value, meta->params.count, &meta->encoder.normal,
                       meta->encoder.config.in);
}

enum aw_err aw_meta_save(const struct aw_meta *meta, const char *path, struct aw_diag *diag)
{
    struct aw_safetensors_writer *writer = NULL;
    const struct aw_encoder_normal *normal = &meta->encoder.normal;
    const uint64_t in = meta->encoder.config.in;
    struct said said[SAID_COUNT];
    if (!meta->normalised)
        return aw_fail(diag, AW_ERR_NODATA, "%s: nothing was inserted that could be normalised by",
                       path);
    say(meta, said);
    char checksum[CHECKSUM_MAX];
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)aw_meta_checksum(meta));
    enum aw_err err = aw_safetensors_writer_new(meta->alloc, &writer);
    for (uint32_t i = 0; !err && i < SAID_COUNT; i++)
        err = aw_safetensors_add_meta(writer, said[i].key, said[i].value);
    err = err ? err : aw_safetensors_add_meta(writer, "checksum", checksum);
    err = err ? err : aw_safetensors_add_params(writer, &meta->params, meta->params.value, "");
    err = err ? err : aw_safetensors_add(writer, "normal.mean", AW_DTYPE_F32, 1, &in, normal->mean);
    err =
        err ? err : aw_safetensors_add(writer, "normal.scale", AW_DTYPE_F32, 1, &in, normal->scale);
    if (err)
        aw_fail(diag, err, "%s: cannot be written", path);
    err = err ? err : aw_safetensors_write(writer, path, diag);
    aw_safetensors_writer_free(writer);
    return err;
}

static enum aw_err check_said(const struct aw_meta *meta, const struct aw_safetensors *file,
                              const char *path, struct aw_diag *diag)
{
    struct said said[SAID_COUNT];
    char found_text[AW_TEXT_QUOTE_MAX], expected_text[AW_TEXT_QUOTE_MAX];
    say(meta, said);
    for (uint32_t i = 0; i < SAID_COUNT; i++) {
        const char *found = aw_safetensors_meta(file, said[i].key);
        if (found && strcmp(found, said[i].value) == 0)
            continue;
        aw_text_quote(said[i].value, strlen(said[i].value), expected_text, sizeof expected_text);
        if (found)
            aw_text_quote(found, strlen(found), found_text, sizeof found_text);
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, said[i].key, "expected %s, found %s",
                          expected_text, found ? found_text : "nothing");
    }
    return AW_OK;
}

/* The format itself has none: without it a flipped bit would be another weight. */
static enum aw_err check_sum(const struct aw_safetensors *file, const char *path, uint64_t sum,
                             struct aw_diag *diag)
{
    char expected[CHECKSUM_MAX];
    const char *found = aw_safetensors_meta(file, "checksum");
    snprintf(expected, sizeof expected, "%016llx", (unsigned long long)sum);
    if (found && strcmp(found, expected) == 0)
        return AW_OK;
    return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "checksum",
                      "the file is damaged: its numbers are not those that were written");
}

/* Takes `file`, which may be NULL after a failure that `err` says. */
static enum aw_err load(struct aw_meta *meta, struct aw_safetensors *file, enum aw_err err,
                        const char *path, struct aw_diag *diag)
{
    struct aw_encoder_normal normal = meta->encoder.normal;
    const uint64_t in = meta->encoder.config.in;
    float *values = NULL;
    err = err ? err : check_said(meta, file, path, diag);
    if (!err && !(values = aw_alloc_new(meta->alloc, meta->params.count, sizeof *values)))
        err = aw_fail(diag, AW_ERR_NOMEM, "%s: no memory to read it", path);
    err = err ? err : aw_safetensors_copy_params(file, &meta->params, "", values, diag);
    err = err ? err
              : aw_safetensors_copy(file, "normal.mean", AW_DTYPE_F32, 1, &in, normal.mean, diag);
    err = err ? err
              : aw_safetensors_copy(file, "normal.scale", AW_DTYPE_F32, 1, &in, normal.scale, diag);
    if (!err)
        err = check_sum(file, path,
                        checksum_of(values, meta->params.count, &normal, meta->encoder.config.in),
                        diag);
    if (!err) {
        memcpy(meta->params.value, values, meta->params.count * sizeof *values);
        aw_params_zero_moments(&meta->params);
        meta->encoder.normal = normal;
        meta->normalised = true;
        aw__meta_changed(meta);
    }
    aw_alloc_free(meta->alloc, values);
    aw_safetensors_close(file);
    return err;
}

enum aw_err aw_meta_load(struct aw_meta *meta, const char *path, struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    const enum aw_err err = aw_safetensors_open(path, meta->alloc, &file, diag);
    return load(meta, file, err, path, diag);
}

enum aw_err aw_meta_load_bytes(struct aw_meta *meta, const void *bytes, size_t size,
                               const char *name, struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    const enum aw_err err = aw_safetensors_parse(bytes, size, name, meta->alloc, &file, diag);
    return load(meta, file, err, name, diag);
}
