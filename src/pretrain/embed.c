/* embed.c - a workload's episodes, out of a store and into an encoder. */
#include "pretrain/embed.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "env/autoscale.h"
#include "meta/inference.h"
#include "meta/known_apps.h"
#include "pretrain/pretrain.h"
#include "task/objective.h"

#define LIST_FIRST \
    4u /* times the episodes of a bundle: most lie near the end, so few are listed \
        */
#define LIST_GROWS 4u

struct aw_embed {
    struct aw_pretrain_model taught;
    struct aw_inference frozen;
    struct aw_known_apps known;
    struct aw_bundle bundle;
    bool task;               /* the two that follow are those of the autoscaling task */
    uint32_t state, mapping; /* enum aw_state_preset, enum aw_action_mapping */
    bool paper;              /* its reward is the paper's .. */
    double slo_weight;       /* .. with this weight */

    struct aw_store_episode *listed; /* [AW_EMBED_LISTED_MAX] */
    uint32_t *picked;             /* [AW_EMBED_LISTED_MAX] episodes, the last to be added first */
    float *obs, *action, *reward; /* of one episode */
    void *block;
    const struct aw_alloc *alloc;
};

_Static_assert(AW_EMBED_DIM_MAX == AW_ENCODER_EMBEDDING_MAX, "what an encoder may make");

/* --- a model ---------------------------------------------------------------------------------- */

/* What its environment had it see, do and strive for. */
static enum aw_err task_read(struct aw_embed *embed, const char *path, struct aw_diag *diag)
{
    const struct aw_pretrain_config *taught = &embed->taught.config;
    const struct aw_env_factory *factory = NULL;
    struct aw_autoscale_settings task;
    if (strcmp(taught->env, "autoscale-v0") != 0 && strcmp(taught->env, "autoscale-paper-v0") != 0)
        return AW_OK;
    enum aw_err err = aw_env_find(taught->env, &factory, diag);
    if (err)
        return err;
    aw_conf_defaults(factory->fields, &task);
    for (uint32_t i = 0; i < taught->pair_count; i++)
        if (aw_conf_set_pair(factory->fields, &task, taught->pairs[i], NULL))
            return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "env.options", "cannot be %s",
                              taught->pairs[i]);
    embed->task = true;
    embed->state = task.state;
    embed->mapping = task.mapping;
    embed->paper = task.objective == AW_OBJECTIVE_PAPER;
    embed->slo_weight = task.slo_weight;
    return AW_OK;
}

static void carve(struct aw_embed *embed, struct aw_carve *take)
{
    const struct aw_context_config *shape = &embed->frozen.config;
    embed->listed = aw_carve_take(take, AW_EMBED_LISTED_MAX, sizeof *embed->listed);
    embed->picked = aw_carve_take(take, AW_EMBED_LISTED_MAX, sizeof *embed->picked);
    embed->obs = aw_carve_take(take, (size_t)shape->steps * shape->obs_dim, sizeof(float));
    embed->action = aw_carve_take(take, (size_t)shape->steps * shape->act_dim, sizeof(float));
    embed->reward = aw_carve_take(take, shape->steps, sizeof(float));
}

static enum aw_err room_make(struct aw_embed *embed, const char *path, struct aw_diag *diag)
{
    const struct aw_context_config *shape = &embed->frozen.config;
    struct aw_carve take = {0};
    carve(embed, &take);
    embed->block = aw_alloc_new(embed->alloc, take.used, 1);
    enum aw_err err = embed->block ? AW_OK : AW_ERR_NOMEM;
    if (!err) {
        take = (struct aw_carve){.base = embed->block};
        carve(embed, &take);
        err = aw_bundle_init(&embed->bundle,
                             &(struct aw_bundle_config){.episodes = shape->settings.episodes,
                                                        .steps = shape->steps,
                                                        .obs_dim = shape->obs_dim,
                                                        .act_dim = shape->act_dim,
                                                        .choice = shape->settings.choice},
                             embed->alloc);
    }
    return err ? aw_fail(diag, err, "%s: no room for the episodes that it reads", path) : AW_OK;
}

enum aw_err aw_embed_open(const char *path, const struct aw_alloc *alloc,
                          struct aw_embed **ret_embed, struct aw_diag *diag)
{
    struct aw_embed *embed = aw_alloc_new(alloc, 1, sizeof *embed);
    if (!embed)
        return aw_fail(diag, AW_ERR_NOMEM, "%s: no memory to read it", path);
    embed->alloc = alloc;
    enum aw_err err = aw_pretrain_model_read(path, &embed->taught, alloc, diag);
    err = err ? err : task_read(embed, path, diag);
    err = err ? err : aw_inference_open(&embed->frozen, path, alloc, diag);
    err = err ? err : aw_known_apps_load(&embed->known, path, alloc, diag);
    if (!err && embed->known.count > 0 &&
        embed->known.dim != embed->frozen.config.settings.embedding)
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "known.embedding",
                         "expected %u numbers for each, found %u",
                         embed->frozen.config.settings.embedding, embed->known.dim);
    err = err ? err : room_make(embed, path, diag);
    if (err)
        aw_embed_close(embed);
    else
        *ret_embed = embed;
    return err;
}

void aw_embed_close(struct aw_embed *embed)
{
    if (!embed)
        return;
    aw_bundle_deinit(&embed->bundle);
    aw_alloc_free(embed->alloc, embed->block);
    aw_known_apps_deinit(&embed->known);
    aw_inference_close(&embed->frozen);
    aw_alloc_free(embed->alloc, embed);
}

uint32_t aw_embed_dim(const struct aw_embed *embed)
{
    return embed->frozen.config.settings.embedding;
}

uint64_t aw_embed_checksum(const struct aw_embed *embed)
{
    return embed->frozen.checksum;
}

const struct aw_known_apps *aw_embed_known(const struct aw_embed *embed)
{
    return &embed->known;
}

/* --- which episodes --------------------------------------------------------------------------- */

static enum aw_err look_at_actor(void *ctx, const struct aw_store_row *row)
{
    bool *alone = ctx;
    *alone = row->actor == AW_ACTOR_FALLBACK;
    return *alone ? AW_OK : AW_ERR_INTERRUPTED; /* the first row of an agent decides */
}

static struct aw_store_query query_of(const char *workload, uint32_t episode)
{
    struct aw_store_query query = AW_STORE_EVERY;
    query.workload = workload;
    query.episode_first = query.episode_last = episode;
    return query;
}

static enum aw_err lived_by_fallback(struct aw_store *store, const char *workload, uint32_t episode,
                                     bool *ret_alone, struct aw_diag *diag)
{
    const struct aw_store_query query = query_of(workload, episode);
    bool alone = true;
    enum aw_err err = aw_store_scan(store, &query, look_at_actor, &alone, diag);
    if (!alone)
        err = AW_OK;
    *ret_alone = alone;
    return err;
}

/* Whether the fallback has lived an episode behind `after`. Where more have ended than are listed,
 * it may have. */
static enum aw_err anything_new(struct aw_embed *embed, struct aw_store *store,
                                const char *workload, int64_t after, uint32_t *ret_newest,
                                bool *ret_new, struct aw_diag *diag)
{
    const uint32_t most = LIST_FIRST * embed->bundle.config.episodes;
    uint32_t count = 0;
    enum aw_err err = aw_store_recent_returns(store, workload, most, embed->listed, &count, diag);
    if (!err && count == 0)
        return aw_fail(diag, AW_ERR_NODATA, "the store has no finished episode of %s",
                       aw_text_quote(workload, strlen(workload), (char[AW_TEXT_QUOTE_MAX]){0},
                                     AW_TEXT_QUOTE_MAX));
    if (err)
        return err;
    *ret_newest = embed->listed[count - 1].episode;
    *ret_new = after == AW_EMBED_ALL || (count == most && embed->listed[0].episode > after);
    for (uint32_t i = count; !err && !*ret_new && i-- > 0 && embed->listed[i].episode > after;)
        err = lived_by_fallback(store, workload, embed->listed[i].episode, ret_new, diag);
    return err;
}

static enum aw_err list(struct aw_embed *embed, struct aw_store *store, const char *workload,
                        uint32_t most, uint32_t *ret_count, struct aw_diag *diag)
{
    return embed->bundle.config.choice == AW_BUNDLE_BEST
               ? aw_store_top_episodes(store, workload, most, embed->listed, ret_count, diag)
               : aw_store_recent_returns(store, workload, most, embed->listed, ret_count, diag);
}

/* Of those listed the first that fit, the best or the newest first. Half best, half worst are found
 * by the bundle itself, which is therefore shown all. */
static enum aw_err pick(struct aw_embed *embed, struct aw_store *store, const char *workload,
                        uint32_t listed, bool alone, uint32_t *ret_picked, struct aw_diag *diag)
{
    const struct aw_bundle_config *wanted = &embed->bundle.config;
    const uint32_t most = wanted->choice == AW_BUNDLE_ENDS ? listed : wanted->episodes;
    enum aw_err err = AW_OK;
    uint32_t picked = 0;
    for (uint32_t i = 0; !err && i < listed && picked < most; i++) {
        const uint32_t at = wanted->choice == AW_BUNDLE_BEST ? i : listed - 1 - i;
        const uint32_t episode = embed->listed[at].episode;
        bool fits = true;
        if (alone)
            err = lived_by_fallback(store, workload, episode, &fits, diag);
        if (fits)
            embed->picked[picked++] = episode;
    }
    *ret_picked = picked;
    return err;
}

/* The fallback's, from as far back as it takes; without any, whatever there is. */
static enum aw_err choose(struct aw_embed *embed, struct aw_store *store, const char *workload,
                          uint32_t *ret_picked, bool *ret_alone, struct aw_diag *diag)
{
    const struct aw_bundle_config *wanted = &embed->bundle.config;
    uint32_t most =
        wanted->choice == AW_BUNDLE_ENDS ? AW_EMBED_LISTED_MAX : LIST_FIRST * wanted->episodes;
    uint32_t listed = 0, picked = 0;
    enum aw_err err;
    for (;; most *= LIST_GROWS) {
        most = most < AW_EMBED_LISTED_MAX ? most : AW_EMBED_LISTED_MAX;
        err = list(embed, store, workload, most, &listed, diag);
        err = err ? err : pick(embed, store, workload, listed, true, &picked, diag);
        if (err || picked >= wanted->episodes || listed < most || most == AW_EMBED_LISTED_MAX)
            break;
    }
    *ret_alone = picked > 0;
    if (!err && picked == 0)
        err = pick(embed, store, workload, listed, false, &picked, diag);
    *ret_picked = picked;
    return err;
}

/* --- what they were --------------------------------------------------------------------------- */

struct reading {
    struct aw_embed *embed;
    uint32_t count; /* steps */
    struct aw_diag *diag;
};

/* As the model was taught with; where the figures are not known, as the store has it. */
static double reward_of(const struct aw_embed *embed, const struct aw_store_row *row)
{
    const struct aw_pretrain_config *taught = &embed->taught.config;
    const struct aw_store_figures *f = &row->figures;
    const double a = embed->slo_weight;
    const double paper = a * AW_OBJECTIVE_RESOURCES * f->slo_preservation +
                         (1 - a) * (f->cpu_utilisation + f->memory_utilisation);
    const double r = !embed->paper               ? (double)row->reward
                     : isfinite(paper)           ? paper
                     : isfinite(f->paper_reward) ? f->paper_reward
                                                 : (double)row->reward;
    return (r - (f->violated ? taught->reward_miss : 0) + taught->reward_shift) *
           taught->reward_scale;
}

static enum aw_err take_row(void *ctx, const struct aw_store_row *row)
{
    struct reading *r = ctx;
    struct aw_embed *embed = r->embed;
    const struct aw_bundle_config *shape = &embed->bundle.config;
    const uint32_t S = shape->obs_dim, A = shape->act_dim;
    if (row->obs_dim != S || row->act_dim != A)
        return aw_fail(r->diag, AW_ERR_FORMAT,
                       "the store has %" PRIu32 " states and %" PRIu32 " actions, and the model "
                       "was taught with %" PRIu32 " and %" PRIu32,
                       row->obs_dim, row->act_dim, S, A);
    if (r->count == shape->steps)
        return AW_OK; /* what is longer is cut at its end, as in a bundle */
    memcpy(embed->obs + (size_t)r->count * S, row->obs, S * sizeof *row->obs);
    memcpy(embed->action + (size_t)r->count * A, row->action, A * sizeof *row->action);
    embed->reward[r->count++] = (float)reward_of(embed, row);
    return AW_OK;
}

enum aw_err aw_embed_gather(struct aw_embed *embed, struct aw_store *store, const char *workload,
                            int64_t after, struct aw_embed_from *ret_from, struct aw_diag *diag)
{
    struct aw_embed_from from = {0};
    uint32_t picked = 0;
    bool new = false;
    aw_bundle_clear(&embed->bundle);
    enum aw_err err = anything_new(embed, store, workload, after, &from.newest, &new, diag);
    if (!err && new)
        err = choose(embed, store, workload, &picked, &from.by_fallback, diag);
    for (uint32_t i = picked; !err && i-- > 0;) {
        const struct aw_store_query query = query_of(workload, embed->picked[i]);
        struct reading r = {.embed = embed, .diag = diag};
        err = aw_store_scan(store, &query, take_row, &r, diag);
        if (!err)
            (void)aw_bundle_add(&embed->bundle, embed->obs, embed->action, embed->reward, r.count);
    }
    from.episodes = embed->bundle.count;
    if (!err && new &&from.episodes == 0)
        err = aw_fail(diag, AW_ERR_NODATA, "no episode of %s can be read",
                      aw_text_quote(workload, strlen(workload), (char[AW_TEXT_QUOTE_MAX]){0},
                                    AW_TEXT_QUOTE_MAX));
    if (err)
        aw_bundle_clear(&embed->bundle);
    else
        *ret_from = from;
    return err;
}

enum aw_err aw_embed_make(struct aw_embed *embed, float *ret_embedding)
{
    float made[AW_EMBED_DIM_MAX];
    const uint32_t dim = aw_embed_dim(embed);
    AW_ASSERT(embed->bundle.count > 0);
    const enum aw_err err = aw_inference_embed(&embed->frozen, &embed->bundle, embed->alloc, made);
    if (err)
        return err;
    for (uint32_t i = 0; i < dim; i++)
        if (!isfinite(made[i]))
            return AW_ERR_DIVERGED;
    memcpy(ret_embedding, made, dim * sizeof *made);
    return AW_OK;
}
