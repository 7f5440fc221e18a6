/*
 * workload_map.h - where the workloads of a daemon lie among each other and among those that a
 * model knows: an embedding for each, kept up to date beside the loop.
 *
 * Call order: new; tell whenever a workload has finished an episode; work again and again, each
 *             time a little; view or one at any time; free, when no thread uses it any more.
 * Memory:     one block at new, and the model; work allocates the encoder's scratch and frees it; a
 *             view is the caller's.
 * Threads:    tell never waits and may come from the control loop; work has one thread at a time;
 *             view and one may come from any. A lock is held while a result is put in or copied
 *             out, never while a store is read or something is computed.
 *
 * Two workloads are compared by aw_similarity (meta/similarity.h). The nearest neighbours of a
 * workload are kept exactly: when one moves, the list of every other is looked at, and a list that
 * may miss a neighbour is made anew.
 *
 * The trap: an embedding is of the model that made it. All workloads of a map are read by one.
 */
#ifndef AW_PRETRAIN_WORKLOAD_MAP_H
#define AW_PRETRAIN_WORKLOAD_MAP_H

#include <aware/store.h>

#include "base/alloc.h"

#define AW_WORKLOAD_MAP_WORKLOADS_MAX 65536u
#define AW_WORKLOAD_MAP_NEAR          3u /* nearest ones that are kept, of each kind */
#define AW_WORKLOAD_MAP_KNOWN_MAX \
    1000u /* known ones in a view; of more, as many evenly chosen ones */
#define AW_WORKLOAD_MAP_AGAIN_US 10000000 /* before a workload is looked at again */

struct aw_workload_map_workload {
    const char *name; /* copied */
    bool left_out;    /* has no place here, and is not read */
};

struct aw_workload_map_config {
    const char *model; /* path */
    const char *store; /* for aw_store_open; read beside the loop's */
    const struct aw_workload_map_workload *workloads;
    uint32_t count;
};

/* Names below belong to the map and live as long as it. */

/* A neighbour. */
struct aw_workload_map_near {
    const char *name;
    double similarity; /* in [-1, 1] */
    bool known;        /* of the model; else a workload of this daemon */
};

/* What is predicted by similarity to the nearest known one; NAN: the model does not say. */
struct aw_workload_map_guess {
    double value, deviation;
};

struct aw_workload_map_point {
    const char *name;
    double x, y;
    struct aw_workload_map_near near[2 * AW_WORKLOAD_MAP_NEAR]; /* the nearest first */
    uint32_t near_count;
    uint32_t index;    /* among the workloads of the config */
    uint32_t episodes; /* that it is known by */
    bool by_fallback;  /* which the fallback lived alone */
    bool odd;          /* outside of what the model knows */
    double quantile;   /* of known ones that are as far from their nearest; NAN: none is known */
    struct aw_workload_map_guess drop;  /* share of the converged reward that is missing at first */
    struct aw_workload_map_guess adapt; /* episodes */
};

/* A known one. */
struct aw_workload_map_dot {
    const char *name;
    double x, y;
};

struct aw_workload_map_view {
    uint32_t dim;
    uint64_t checksum; /* of the model's weights */
    double share[2];   /* of the variance on x and y */
    bool of_known;     /* axes are those of the known ones; else of the workloads */
    uint32_t count;    /* points */
    struct aw_workload_map_point *points;
    uint32_t dot_count, known_count; /* dots of so many known ones */
    struct aw_workload_map_dot *dots;
    uint32_t waiting; /* workloads that have not been embedded yet, for want of episodes or time */
    uint32_t left_out;
    char trouble[AW_DIAG_TEXT_MAX]; /* why the last one could not be read; "": it could */
};

struct aw_workload_map; /* opaque */

/* As aw_embed_open; AW_ERR_LIMIT: too many workloads. */
AW_NODISCARD enum aw_err aw_workload_map_new(const struct aw_workload_map_config *config,
                                             const struct aw_alloc *alloc,
                                             struct aw_workload_map **ret_map,
                                             struct aw_diag *diag);
void aw_workload_map_free(struct aw_workload_map *map); /* NULL is a no-op */

/* Workload `index` has finished so many episodes by now. */
void aw_workload_map_tell(struct aw_workload_map *map, uint32_t index, uint32_t episodes);

/* Looks at up to `most` workloads that have finished an episode since they were looked at, none
 * again before AW_WORKLOAD_MAP_AGAIN_US. Returns how many it looked at; 0: there is nothing to do
 * now. The view says when a store cannot be read; it is tried again. */
uint32_t aw_workload_map_work(struct aw_workload_map *map, int64_t now_us, uint32_t most);

/* A copy of everything. AW_ERR_NOMEM: `ret_view` is zeroed. */
AW_NODISCARD enum aw_err aw_workload_map_view(struct aw_workload_map *map,
                                              const struct aw_alloc *alloc,
                                              struct aw_workload_map_view *ret_view);
void aw_workload_map_view_deinit(struct aw_workload_map_view *view, const struct aw_alloc *alloc);
/* One workload. AW_ERR_NODATA: it has no embedding yet. AW_ERR_NOTFOUND: no workload of this
 * name. */
AW_NODISCARD enum aw_err aw_workload_map_one(struct aw_workload_map *map, const char *name,
                                             struct aw_workload_map_point *ret_point);

#endif
