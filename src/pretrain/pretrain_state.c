/* pretrain_state.c - a run of pretraining as it stands, to go on with exactly. */
#include "pretrain/pretrain_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define ABOUT_MAX   16384u /* bytes of the lines that say which run a state is of */
#define SCORE_COUNT (sizeof(struct aw_pretrain_score) / sizeof(double))
#define OWN_COUNT   (4 + SCORE_COUNT) /* numbers before the episodes of each application */

static void add_fields(struct aw_text *text, const char *word, const struct aw_conf_field *fields,
                       const void *settings)
{
    char value[AW_CONF_TEXT_MAX];
    for (; fields->key; fields++)
        aw_text_add(text, "%s%s %s\n", word, fields->key,
                    aw_conf_get(fields, settings, value, sizeof value));
}

static void add_pool(struct aw_text *text, const char *word, const struct aw_pretrain_pool *pool)
{
    if (pool->apps) /* the seed tells a file that has been changed meanwhile */
        aw_text_add(text, "%s %" PRIu32 " of %s %016" PRIx64 "\n", word, pool->count, pool->file,
                    pool->seed);
    else
        aw_text_add(text, "%s %" PRIu64 ":%" PRIu32 "+%" PRIu32 "\n", word, pool->seed, pool->first,
                    pool->count);
}

/* Lines "key value" of all that decides how the run goes on. */
static enum aw_err about_write(const struct aw_pretrain *p, char *buf, struct aw_diag *diag)
{
    const struct aw_pretrain_config *config = &p->config;
    struct aw_text text;
    aw_text_init(&text, buf, ABOUT_MAX);
    add_pool(&text, "apps", &config->learn);
    add_pool(&text, "check", &config->check);
    aw_text_add(&text, "seed %" PRIu64 "\nprocess %" PRIu32 " of %" PRIu32 "\nenv %s\n",
                config->seed, config->team.rank, config->team.size, config->env);
    for (uint32_t i = 0; i < config->pair_count; i++)
        aw_text_add(&text, "option %s\n", config->pairs[i]);
    add_fields(&text, "", aw_pretrain_fields, config);
    add_fields(&text, "fallback.", aw_fallback_fields, &config->fallback);
    aw_text_add(&text, "model %s\nloads %016" PRIx64 "\n", config->model ? config->model : "none",
                p->loads);
    return text.cut ? aw_fail(diag, AW_ERR_LIMIT, "too many options to save") : AW_OK;
}

static size_t own_count(const struct aw_pretrain *p)
{
    return OWN_COUNT + p->count;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

enum aw_err aw_pretrain_save_state(struct aw_pretrain *p, const char *path, struct aw_diag *diag)
{
    if (p->config.foresight || p->config.offset_search > 0)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "%s not part of a saved state",
                       p->config.foresight ? "foresight is"
                                           : "the search for an actor's offsets is");
    char *about = aw_alloc_new(p->alloc, ABOUT_MAX, 1);
    uint64_t *own = aw_alloc_new(p->alloc, own_count(p), sizeof *own);
    enum aw_err err = about && own ? about_write(p, about, diag)
                                   : aw_fail(diag, AW_ERR_NOMEM, "no memory to save a state");
    if (!err) {
        own[0] = p->rounds;
        own[1] = p->best.round;
        own[2] = p->best.since;
        own[3] = bits_of(p->best.worth);
        memcpy(own + 4, &p->best.score, sizeof p->best.score);
        for (uint32_t i = 0; i < p->count; i++)
            own[OWN_COUNT + i] = p->task[i].episodes;
        err = aw_context_save_state(p->context, path, about, own, own_count(p), diag);
    }
    aw_alloc_free(p->alloc, own);
    aw_alloc_free(p->alloc, about);
    return err;
}

enum aw_err aw_pretrain_load_state(struct aw_pretrain *p, const char *path, struct aw_diag *diag)
{
    char *about = aw_alloc_new(p->alloc, ABOUT_MAX, 1);
    uint64_t *own = aw_alloc_new(p->alloc, own_count(p), sizeof *own);
    enum aw_err err = about && own ? about_write(p, about, diag)
                                   : aw_fail(diag, AW_ERR_NOMEM, "no memory to load a state");
    err = err ? err : aw_context_load_state(p->context, path, about, own, own_count(p), diag);
    if (!err) {
        p->rounds = (uint32_t)own[0];
        p->best.round = (uint32_t)own[1];
        p->best.since = (uint32_t)own[2];
        memcpy(&p->best.worth, own + 3, sizeof p->best.worth);
        memcpy(&p->best.score, own + 4, sizeof p->best.score);
        for (uint32_t i = 0; i < p->count; i++)
            p->task[i].episodes = own[OWN_COUNT + i];
    }
    aw_alloc_free(p->alloc, own);
    aw_alloc_free(p->alloc, about);
    return err;
}
