/* model_card.c - how a model was taught, from the metadata of its file. */
#include "meta/model_card.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "meta/known_apps.h"

#define TAUGHT "pretrain." /* what the keys of teaching begin with */

#define AW_CONF_OF struct aw_model_card
static const struct aw_conf_field fields[] = {
    AW_CONF_NUMBER(reward_shift, "-1", -100, 100, ""),
    AW_CONF_NUMBER(reward_scale, "0.1", 1e-6, 100, ""),
    AW_CONF_NUMBER(reward_miss, "1", 0, 100, ""),
    AW_CONF_PLAIN(foresight, "false", ""),
    {0},
};
#undef REAL

struct reading {
    struct aw_model_card *card;
    struct aw_diag *diag;
    enum aw_err err;
};

static const struct aw_conf_field *field_of(const char *key)
{
    for (const struct aw_conf_field *field = fields; field->key; field++)
        if (!strcmp(field->key, key))
            return field;
    return NULL;
}

static void key_take(void *ctx, const char *key, const char *value)
{
    struct reading *r = ctx;
    struct aw_model_card *card = r->card;
    enum aw_err err = AW_OK;
    if (!strcmp(key, "env"))
        snprintf(card->env, sizeof card->env, "%s", value);
    else if (!strcmp(key, "env.options"))
        snprintf(card->options, sizeof card->options, "%s", value);
    else if (!strncmp(key, TAUGHT, sizeof TAUGHT - 1) && field_of(key + sizeof TAUGHT - 1))
        err = aw_conf_set(fields, card, key + sizeof TAUGHT - 1, value, NULL);
    if (err && !r->err)
        r->err = aw_fail_at(r->diag, AW_ERR_FORMAT, card->path, 0, 0, key, "cannot be %s", value);
}

enum aw_err aw_model_card_read(const char *path, struct aw_model_card *ret,
                               const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct reading reading = {ret, diag, AW_OK};
    memset(ret, 0, sizeof *ret);
    if (strlen(path) >= sizeof ret->path)
        return aw_fail(diag, AW_ERR_LIMIT, "the path of the model is too long");
    snprintf(ret->path, sizeof ret->path, "%s", path);
    aw_conf_defaults(fields, ret);
    enum aw_err err = aw_known_apps_meta(path, key_take, &reading, alloc, diag);
    err = err ? err : reading.err;
    if (!err && !ret->env[0])
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "env",
                         "the model does not say where it was taught; 'aware pretrain' writes "
                         "models that do");
    if (err)
        return err;
    for (char *at = ret->options; *at && ret->pair_count < AW_MODEL_CARD_PAIRS_MAX;) {
        char *end = at + strcspn(at, "\n");
        ret->pairs[ret->pair_count++] = at;
        at = *end ? end + 1 : end;
        *end = '\0';
    }
    return AW_OK;
}
