/* workload_map.c - embeddings of many workloads, made a few at a time and looked at by anybody. */
#include "pretrain/workload_map.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "meta/axes.h"
#include "meta/known_apps.h"
#include "meta/similarity.h"
#include "pretrain/embed.h"

/* A row is written with the tick behind its step, so what was told may not be there yet. */
#define RETRY_US       2000000
#define AXES_KNOWN_MIN 3u /* known ones that make a plane */

struct near {
    uint32_t index;
    double similarity;
};

struct seat {
    char name[AW_STORE_NAME_MAX];
    int64_t next_us; /* not to be looked at before */
    uint32_t told;   /* episodes that had been told when it was last looked at */
    uint32_t newest; /* see aw_embed_from */
    uint32_t episodes;
    double quantile;
    uint32_t known_count, peer_count;
    struct near known[AW_WORKLOAD_MAP_NEAR], peer[AW_WORKLOAD_MAP_NEAR]; /* the nearest first */
    bool left_out, there, by_fallback, odd;
    bool stale; /* its list of peers may miss somebody */
};

struct aw_workload_map {
    struct aw_embed *embed;
    const struct aw_known_apps *known;
    uint32_t dim, count, cursor;
    char url[AW_STORE_NAME_MAX * 8];
    struct aw_store store; /* the worker's; opened when it first looks */

    pthread_mutex_t lock; /* of what follows: the worker alone writes it, and reads it without */
    struct seat *seat;    /* [count] */
    float *embedding;     /* [count][dim] */
    struct aw_axes axes;
    bool of_known;
    char trouble[AW_DIAG_TEXT_MAX];

    _Atomic uint32_t *told; /* [count] */
    double *similarity;     /* [count] the worker's scratch; NAN: no such peer */
    float *cloud;           /* [AW_AXES_ROWS_MAX][dim] the same, where nobody is known */
    void *block;
    const struct aw_alloc *alloc;
};

/* --- made and ended --------------------------------------------------------------------------- */

static void carve(struct aw_workload_map *map, struct aw_carve *take)
{
    const size_t dim = map->dim;
    map->seat = aw_carve_take(take, map->count, sizeof *map->seat);
    map->embedding = aw_carve_take(take, map->count * dim, sizeof *map->embedding);
    map->told = aw_carve_take(take, map->count, sizeof *map->told);
    map->similarity = aw_carve_take(take, map->count, sizeof *map->similarity);
    if (!map->of_known)
        map->cloud = aw_carve_take(take, AW_AXES_ROWS_MAX * dim, sizeof *map->cloud);
}

static enum aw_err fill(struct aw_workload_map *map, const struct aw_workload_map_config *config,
                        struct aw_diag *diag)
{
    struct aw_carve take = {0};
    if (config->count > AW_WORKLOAD_MAP_WORKLOADS_MAX || strlen(config->store) >= sizeof map->url)
        return aw_fail(diag, AW_ERR_LIMIT,
                       "more than %u workloads, or a store whose path is longer than %zu bytes",
                       AW_WORKLOAD_MAP_WORKLOADS_MAX, sizeof map->url - 1);
    const enum aw_err err = aw_embed_open(config->model, map->alloc, &map->embed, diag);
    if (err)
        return err;
    map->known = aw_embed_known(map->embed);
    map->dim = aw_embed_dim(map->embed);
    map->count = config->count;
    map->of_known = map->known->count >= AXES_KNOWN_MIN;
    carve(map, &take);
    if (!(map->block = aw_alloc_new(map->alloc, take.used, 1)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the places of %u workloads",
                       config->count);
    take = (struct aw_carve){.base = map->block};
    carve(map, &take);
    for (uint32_t i = 0; i < config->count; i++) {
        struct seat *seat = &map->seat[i];
        snprintf(seat->name, sizeof seat->name, "%s", config->workloads[i].name);
        seat->left_out = config->workloads[i].left_out;
        seat->next_us = INT64_MIN;
    }
    snprintf(map->url, sizeof map->url, "%s", config->store);
    aw_axes_find(map->known->embedding, map->of_known ? map->known->count : 0, map->dim,
                 &map->axes);
    return AW_OK;
}

enum aw_err aw_workload_map_new(const struct aw_workload_map_config *config,
                                const struct aw_alloc *alloc, struct aw_workload_map **ret_map,
                                struct aw_diag *diag)
{
    struct aw_workload_map *map = aw_alloc_new(alloc, 1, sizeof *map);
    if (!map)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a map of workloads");
    map->alloc = alloc;
    if (pthread_mutex_init(&map->lock, NULL)) {
        aw_alloc_free(alloc, map);
        return aw_fail(diag, AW_ERR_NOMEM, "no lock for a map of workloads");
    }
    const enum aw_err err = fill(map, config, diag);
    if (err)
        aw_workload_map_free(map);
    else
        *ret_map = map;
    return err;
}

void aw_workload_map_free(struct aw_workload_map *map)
{
    if (!map)
        return;
    aw_store_close(&map->store);
    aw_embed_close(map->embed);
    pthread_mutex_destroy(&map->lock);
    aw_alloc_free(map->alloc, map->block);
    aw_alloc_free(map->alloc, map);
}

void aw_workload_map_tell(struct aw_workload_map *map, uint32_t index, uint32_t episodes)
{
    AW_ASSERT(index < map->count);
    atomic_store_explicit(&map->told[index], episodes, memory_order_relaxed);
}

/* --- who is near whom ------------------------------------------------------------------------- */

static const float *embedding_of(const struct aw_workload_map *map, uint32_t index)
{
    return map->embedding + (size_t)index * map->dim;
}

/* `with` against every workload that has an embedding, but for `self`. */
static void compare(struct aw_workload_map *map, uint32_t self, const float *with)
{
    for (uint32_t i = 0; i < map->count; i++)
        map->similarity[i] = i != self && map->seat[i].there
                                 ? aw_similarity(with, embedding_of(map, i), map->dim)
                                 : NAN;
}

/* Into a list of at most AW_WORKLOAD_MAP_NEAR; returns its place, or that number: it is too far. */
static uint32_t insert(struct near *list, uint32_t *count, uint32_t index, double similarity)
{
    uint32_t at = *count;
    while (at > 0 && similarity > list[at - 1].similarity)
        at--;
    if (at == AW_WORKLOAD_MAP_NEAR)
        return at;
    *count += *count < AW_WORKLOAD_MAP_NEAR;
    for (uint32_t k = *count - 1; k > at; k--)
        list[k] = list[k - 1];
    list[at] = (struct near){index, similarity};
    return at;
}

static void list_fill(struct aw_workload_map *map, struct seat *seat)
{
    seat->peer_count = 0;
    for (uint32_t i = 0; i < map->count; i++)
        if (!isnan(map->similarity[i]))
            insert(seat->peer, &seat->peer_count, i, map->similarity[i]);
    seat->stale = false;
}

/* Somebody has moved. Whoever fell to the end of a list may have been passed by one that is not in
 * it. */
static void list_hear(struct seat *seat, uint32_t index, double similarity)
{
    double before = -INFINITY;
    for (uint32_t k = 0; k < seat->peer_count; k++)
        if (seat->peer[k].index == index) {
            before = seat->peer[k].similarity;
            memmove(&seat->peer[k], &seat->peer[k + 1],
                    (seat->peer_count - k - 1) * sizeof *seat->peer);
            seat->peer_count--;
            break;
        }
    const uint32_t at = insert(seat->peer, &seat->peer_count, index, similarity);
    if (similarity < before && at + 1 == seat->peer_count)
        seat->stale = true;
}

/* --- work ------------------------------------------------------------------------------------- */

/* The two widest directions of the workloads themselves, where a model knows nobody. */
static void axes_follow(struct aw_workload_map *map)
{
    struct aw_axes axes;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < map->count && rows < AW_AXES_ROWS_MAX; i++)
        if (map->seat[i].there)
            memcpy(map->cloud + (size_t)rows++ * map->dim, embedding_of(map, i),
                   map->dim * sizeof(float));
    aw_axes_find(map->cloud, rows, map->dim, &axes);
    pthread_mutex_lock(&map->lock);
    map->axes = axes;
    pthread_mutex_unlock(&map->lock);
}

static void put(struct aw_workload_map *map, uint32_t index, const float *embedding,
                const struct aw_embed_from *from)
{
    struct seat *seat = &map->seat[index];
    struct aw_known_apps_place place;
    aw_known_apps_place(map->known, embedding, AW_WORKLOAD_MAP_NEAR, &place);
    compare(map, index, embedding);
    pthread_mutex_lock(&map->lock);
    memcpy(map->embedding + (size_t)index * map->dim, embedding, map->dim * sizeof(float));
    seat->there = true;
    seat->episodes = from->episodes;
    seat->by_fallback = from->by_fallback;
    seat->quantile = place.quantile;
    seat->odd = place.odd;
    seat->known_count = place.count;
    for (uint32_t k = 0; k < place.count; k++)
        seat->known[k] = (struct near){place.index[k], place.similarity[k]};
    list_fill(map, seat);
    for (uint32_t i = 0; i < map->count; i++)
        if (!isnan(map->similarity[i]))
            list_hear(&map->seat[i], index, map->similarity[i]);
    pthread_mutex_unlock(&map->lock);
}

static void trouble_tell(struct aw_workload_map *map, const char *text)
{
    if (strcmp(map->trouble, text) == 0)
        return;
    pthread_mutex_lock(&map->lock);
    snprintf(map->trouble, sizeof map->trouble, "%s", text);
    pthread_mutex_unlock(&map->lock);
}

/* Returns whether it has moved. */
static bool look(struct aw_workload_map *map, uint32_t index, int64_t now_us)
{
    struct seat *seat = &map->seat[index];
    const uint32_t told = atomic_load_explicit(&map->told[index], memory_order_relaxed);
    const int64_t after = seat->there && seat->by_fallback ? (int64_t)seat->newest : AW_EMBED_ALL;
    struct aw_embed_from from = {0};
    float embedding[AW_EMBED_DIM_MAX];
    struct aw_diag diag = {0};
    enum aw_err err = AW_OK;
    if (!map->store.ops)
        err = aw_store_open(&map->store, map->url, &(struct aw_store_options){.read_only = true},
                            map->alloc, &diag);
    err = err ? err : aw_embed_gather(map->embed, &map->store, seat->name, after, &from, &diag);
    if (!err && from.episodes > 0 && (err = aw_embed_make(map->embed, embedding)))
        aw_fail(&diag, err, "no embedding of %s: %s", seat->name, aw_err_text(err));
    seat->next_us = now_us + (err ? RETRY_US : AW_WORKLOAD_MAP_AGAIN_US);
    if (err == AW_ERR_NODATA)
        return false;
    trouble_tell(map, err ? diag.text : "");
    if (err == AW_ERR_FORMAT || err == AW_ERR_DIVERGED) {
        seat->told = told; /* reading the same again does not help */
        return false;
    }
    if (err) {
        aw_store_close(&map->store);
        return false;
    }
    seat->told = told;
    seat->newest = from.newest;
    if (from.episodes > 0)
        put(map, index, embedding, &from);
    return from.episodes > 0;
}

static bool is_due(const struct aw_workload_map *map, uint32_t index, int64_t now_us)
{
    const struct seat *seat = &map->seat[index];
    return !seat->left_out && now_us >= seat->next_us &&
           atomic_load_explicit(&map->told[index], memory_order_relaxed) != seat->told;
}

uint32_t aw_workload_map_work(struct aw_workload_map *map, int64_t now_us, uint32_t most)
{
    uint32_t done = 0;
    bool moved = false;
    for (uint32_t n = 0; n < map->count && done < most; n++) {
        const uint32_t index = map->cursor;
        map->cursor = index + 1 < map->count ? index + 1 : 0; /* all get their turn */
        if (is_due(map, index, now_us)) {
            moved |= look(map, index, now_us);
            done++;
        }
    }
    for (uint32_t i = 0; i < map->count && done < most; i++) {
        struct seat *seat = &map->seat[i];
        if (!seat->stale)
            continue;
        compare(map, i, embedding_of(map, i));
        pthread_mutex_lock(&map->lock);
        list_fill(map, seat);
        pthread_mutex_unlock(&map->lock);
        done++;
    }
    if (moved && !map->of_known)
        axes_follow(map);
    return done;
}

/* --- looked at -------------------------------------------------------------------------------- */

static struct aw_workload_map_guess guess_of(const struct aw_known_apps_line *line,
                                             const struct seat *seat)
{
    const struct aw_known_apps_prediction told = aw_known_apps_predict(
        line, seat->known_count ? seat->known[0].similarity : (double)NAN, seat->odd);
    return told.there ? (struct aw_workload_map_guess){told.value, told.deviation}
                      : (struct aw_workload_map_guess){NAN, NAN};
}

/* Known ones and workloads in one list, the nearest first. */
static void near_merge(const struct aw_workload_map *map, const struct seat *seat,
                       struct aw_workload_map_point *ret)
{
    uint32_t k = 0, p = 0;
    for (ret->near_count = 0; k < seat->known_count || p < seat->peer_count; ret->near_count++) {
        const bool known =
            p == seat->peer_count ||
            (k < seat->known_count && seat->known[k].similarity > seat->peer[p].similarity);
        const struct near *next = known ? &seat->known[k++] : &seat->peer[p++];
        ret->near[ret->near_count] = (struct aw_workload_map_near){
            .name = known ? map->known->name[next->index] : map->seat[next->index].name,
            .similarity = next->similarity,
            .known = known,
        };
    }
}

static void point_fill(const struct aw_workload_map *map, uint32_t index,
                       struct aw_workload_map_point *ret)
{
    const struct seat *seat = &map->seat[index];
    double at[2];
    aw_axes_place(&map->axes, embedding_of(map, index), at);
    *ret = (struct aw_workload_map_point){
        .name = seat->name,
        .x = at[0],
        .y = at[1],
        .index = index,
        .episodes = seat->episodes,
        .by_fallback = seat->by_fallback,
        .odd = seat->odd,
        .quantile = seat->quantile,
        .drop = guess_of(&map->known->drop, seat),
        .adapt = guess_of(&map->known->episodes, seat),
    };
    near_merge(map, seat, ret);
}

static void dots_fill(const struct aw_workload_map *map, struct aw_workload_map_view *view)
{
    for (uint32_t i = 0; i < view->dot_count; i++) {
        const uint32_t k = (uint32_t)((uint64_t)i * view->known_count / view->dot_count);
        double at[2];
        aw_axes_place(&map->axes, map->known->embedding + (size_t)k * map->dim, at);
        view->dots[i] = (struct aw_workload_map_dot){map->known->name[k], at[0], at[1]};
    }
}

enum aw_err aw_workload_map_view(struct aw_workload_map *map, const struct aw_alloc *alloc,
                                 struct aw_workload_map_view *ret_view)
{
    struct aw_workload_map_view *view = ret_view;
    const uint32_t known = map->known->count;
    *view = (struct aw_workload_map_view){
        .dim = map->dim,
        .checksum = aw_embed_checksum(map->embed),
        .of_known = map->of_known,
        .known_count = known,
        .dot_count = known < AW_WORKLOAD_MAP_KNOWN_MAX ? known : AW_WORKLOAD_MAP_KNOWN_MAX,
    };
    view->points = aw_alloc_new(alloc, map->count, sizeof *view->points);
    view->dots = aw_alloc_new(alloc, view->dot_count, sizeof *view->dots);
    if (!view->points || !view->dots) {
        aw_workload_map_view_deinit(view, alloc);
        return AW_ERR_NOMEM;
    }
    pthread_mutex_lock(&map->lock);
    for (uint32_t k = 0; k < 2; k++)
        view->share[k] = map->axes.share[k];
    for (uint32_t i = 0; i < map->count; i++) {
        if (map->seat[i].there)
            point_fill(map, i, &view->points[view->count++]);
        else if (map->seat[i].left_out)
            view->left_out++;
        else
            view->waiting++;
    }
    dots_fill(map, view);
    memcpy(view->trouble, map->trouble, sizeof view->trouble);
    pthread_mutex_unlock(&map->lock);
    return AW_OK;
}

void aw_workload_map_view_deinit(struct aw_workload_map_view *view, const struct aw_alloc *alloc)
{
    aw_alloc_free(alloc, view->points);
    aw_alloc_free(alloc, view->dots);
    *view = (struct aw_workload_map_view){0};
}

enum aw_err aw_workload_map_one(struct aw_workload_map *map, const char *name,
                                struct aw_workload_map_point *ret_point)
{
    enum aw_err err = AW_ERR_NOTFOUND;
    for (uint32_t i = 0; i < map->count && err == AW_ERR_NOTFOUND; i++) {
        if (strcmp(map->seat[i].name, name) != 0)
            continue;
        pthread_mutex_lock(&map->lock);
        err = map->seat[i].there ? AW_OK : AW_ERR_NODATA;
        if (!err)
            point_fill(map, i, ret_point);
        pthread_mutex_unlock(&map->lock);
    }
    return err;
}
