/* pretrain_model.c - a model with how it was taught, and whom it knows. */
#include "pretrain/pretrain_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "meta/known_apps.h"

#define PAIRS_MAX 128u /* of metadata */

/* Keys and values as aw_context_save takes them, with room for those made here. */
struct meta {
    const char *pair[2 * PAIRS_MAX];
    size_t count;
    char key[PAIRS_MAX][64], value[PAIRS_MAX][AW_CONF_TEXT_MAX];
    char options[AW_MODEL_CARD_OPTIONS_MAX];
};

static void add(struct meta *meta, const char *key, const char *value)
{
    AW_ASSERT(meta->count < PAIRS_MAX);
    const size_t at = meta->count++;
    snprintf(meta->key[at], sizeof meta->key[at], "%s", key);
    meta->pair[2 * at] = meta->key[at];
    meta->pair[2 * at + 1] = value;
}

static void add_fields(struct meta *meta, const char *word, const struct aw_conf_field *fields,
                       const void *settings)
{
    for (; fields->key && meta->count < PAIRS_MAX; fields++) {
        char key[64];
        char *value = meta->value[meta->count];
        snprintf(key, sizeof key, "%s.%s", word, fields->key);
        add(meta, key, aw_conf_get(fields, settings, value, sizeof meta->value[0]));
    }
}

static enum aw_err meta_fill(const struct aw_pretrain *p, const char *const *more, size_t count,
                             struct meta *meta, struct aw_diag *diag)
{
    const struct aw_pretrain_config *config = &p->config;
    struct aw_text options;
    aw_text_init(&options, meta->options, sizeof meta->options);
    for (uint32_t i = 0; i < config->pair_count; i++)
        aw_text_add(&options, "%s%s", i ? "\n" : "", config->pairs[i]);
    add(meta, "env", config->env);
    add(meta, "env.options", meta->options);
    add_fields(meta, "pretrain", aw_pretrain_fields, config);
    add_fields(meta, "fallback", aw_fallback_fields, &config->fallback);
    if (options.cut || meta->count + count > PAIRS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "too many options to write into a model");
    for (size_t i = 0; i < count; i++)
        add(meta, more[2 * i], more[2 * i + 1]);
    return AW_OK;
}

const char *aw_pretrain_app_name(const struct aw_pretrain_pool *pool, uint32_t index, char *buf,
                                 size_t size)
{
    if (pool->apps)
        snprintf(buf, size, "%s", pool->apps[pool->first + index].name);
    else
        snprintf(buf, size, "%" PRIu64 ":%" PRIu32, pool->seed, pool->first + index);
    return buf;
}

enum aw_err aw_pretrain_known(struct aw_pretrain *p, struct aw_known_apps *ret,
                              struct aw_diag *diag)
{
    const struct aw_pretrain_pool *pool = &p->config.learn;
    struct aw_known_apps known;
    enum aw_err err =
        aw_known_apps_init(&known, pool->count, p->config.context.embedding, p->alloc);
    if (err)
        return aw_fail(diag, err, "no memory for %u embeddings", pool->count);
    if ((err = aw_pretrain_embeddings(p, known.embedding, diag))) {
        aw_known_apps_deinit(&known);
        return err;
    }
    for (uint32_t i = 0; i < pool->count; i++)
        aw_pretrain_app_name(pool, i, known.name[i], sizeof known.name[i]);
    aw_known_apps_measure(&known);
    *ret = known;
    return AW_OK;
}

enum aw_err aw_pretrain_model_save(struct aw_pretrain *p, const char *path,
                                   const struct aw_known_apps *known, const char *const *more,
                                   size_t count, struct aw_diag *diag)
{
    struct aw_known_apps own = {0};
    struct meta *meta = aw_alloc_new(p->alloc, 1, sizeof *meta);
    enum aw_err err = meta ? meta_fill(p, more, count, meta, diag)
                           : aw_fail(diag, AW_ERR_NOMEM, "no memory to write a model");
    if (!err && !known)
        err = aw_pretrain_known(p, &own, diag);
    if (!err && p->config.team.rank == 0)
        err = aw_known_apps_save(p->context, known ? known : &own, path, meta->pair, meta->count,
                                 diag);
    aw_known_apps_deinit(&own);
    aw_alloc_free(p->alloc, meta);
    return err;
}

/* --- read again ------------------------------------------------------------------------------- */

struct reading {
    struct aw_pretrain_model *model;
    const char *path;
    struct aw_diag *diag;
    enum aw_err err;
};

static void key_take(void *ctx, const char *key, const char *value)
{
    struct reading *r = ctx;
    struct aw_pretrain_config *config = &r->model->config;
    enum aw_err err = AW_OK;
    if (!strcmp(key, "pretrain.trial")) /* of earlier versions: how to adapt, not a model's */
        return;
    if (!strncmp(key, "pretrain.", 9))
        err = aw_conf_set(aw_pretrain_fields, config, key + 9, value, NULL);
    else if (!strncmp(key, "fallback.", 9))
        err = aw_conf_set(aw_fallback_fields, &config->fallback, key + 9, value, NULL);
    if (err && !r->err)
        r->err = aw_fail_at(r->diag, AW_ERR_FORMAT, r->path, 0, 0, key, "cannot be %s", value);
}

enum aw_err aw_pretrain_model_read(const char *path, struct aw_pretrain_model *ret,
                                   const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw_pretrain_config *config = &ret->config;
    const struct aw_model_card *card = &ret->card;
    struct aw_context_config found;
    struct reading reading = {ret, path, diag, AW_OK};
    aw_pretrain_config_init(config);
    enum aw_err err = aw_context_peek(path, &found, alloc, diag);
    err = err ? err : aw_model_card_read(path, &ret->card, alloc, diag);
    err = err ? err : aw_known_apps_meta(path, key_take, &reading, alloc, diag);
    err = err ? err : reading.err;
    if (err)
        return err;
    snprintf(config->env, sizeof config->env, "%s", card->env);
    config->pair_count = card->pair_count;
    memcpy(config->pairs, card->pairs, sizeof config->pairs);
    config->context = found.settings;
    config->model = card->path;
    return AW_OK;
}

void aw_pretrain_config_adapt(struct aw_pretrain_config *config)
{
    /* Critics of one workload know too late of the edges that there are, and led what was loaded
     * astray: on forty applications for validation from 141.4 to 139.6 in eighty episodes. Leaning
     * led to 142.4. Absolute sizes have their edge nearer by. */
    const bool absolute = strcmp(config->env, AW_PRETRAIN_ENV_PAPER) == 0;
    config->context.group = 1;
    config->context.rows = 128;
    config->context.imitate = 0;
    config->context.improve = 1;
    config->context.anchor = absolute ? 3 : 0.1;
    config->updates = 50;
    config->refresh = false;
    config->own_episodes = false;
    config->teacher_tries = 0;
    config->actor_rests = 5;
    config->offset_search = absolute ? 0.1 : 0.2;
    config->noise = absolute ? 0.02 : 0.1; /* where it learns */
    config->noise_end = absolute ? 0.02 : 0.05;
    config->noise_rounds = 20;
    config->fade = 0;
    config->slo_boost = true;
    config->oom_boost = absolute;
}
