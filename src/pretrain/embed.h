/*
 * embed.h - what a model makes of a workload, by the episodes that a store kept of it.
 *
 * The encoder of a model was taught on episodes that the fallback lived (docs/mechanisms/pretrain),
 * so those are what a workload is known by: the ones that the model's bundle would choose among the
 * episodes in which the fallback alone acted. Where the store has none, any will do, and that is
 * said.
 *
 * Call order: open; gather and make for each workload; close.
 * Memory:     all at open, but for the scratch of make, which it frees.
 * Threads:    single owner.
 *
 * The trap: rewards are read as the model was taught with, made from the figures of a row; the
 * reward of the row is the workload's own objective.
 */
#ifndef AW_PRETRAIN_EMBED_H
#define AW_PRETRAIN_EMBED_H

#include <aware/store.h>

#include "base/alloc.h"

#define AW_EMBED_DIM_MAX    256u  /* of an embedding */
#define AW_EMBED_LISTED_MAX 1024u /* newest (or best) episodes among which is looked */

struct aw_known_apps;
struct aw_embed; /* opaque */

/* Any model of `aware pretrain`; AW_ERR_NOTFOUND, AW_ERR_FORMAT, AW_ERR_DIVERGED: what is wrong
 * with it. */
AW_NODISCARD enum aw_err aw_embed_open(const char *path, const struct aw_alloc *alloc,
                                       struct aw_embed **ret_embed, struct aw_diag *diag);
void aw_embed_close(struct aw_embed *embed); /* NULL is a no-op */

uint32_t aw_embed_dim(const struct aw_embed *embed);
uint64_t aw_embed_checksum(const struct aw_embed *embed); /* of the model's weights */
const struct aw_known_apps *aw_embed_known(const struct aw_embed *embed); /* meta/known_apps.h */

/* What a workload was known by. */
struct aw_embed_from {
    uint32_t episodes;
    uint32_t newest;  /* episode of the store that was looked at, the latest that has ended */
    bool by_fallback; /* lived by the fallback alone; else by either controller */
};
#define AW_EMBED_ALL (-1)

/* Reads the episodes of `workload`. `after` AW_EMBED_ALL, or `newest` of an earlier time: where no
 * episode of the fallback has ended since, nothing is read and `ret_from->episodes` is 0.
 * AW_ERR_NODATA: no finished episode. AW_ERR_FORMAT: rows of other shapes than the model's. After a
 * failure there is nothing to make an embedding of. */
AW_NODISCARD enum aw_err aw_embed_gather(struct aw_embed *embed, struct aw_store *store,
                                         const char *workload, int64_t after,
                                         struct aw_embed_from *ret_from, struct aw_diag *diag);
/* The embedding [dim] of what was gathered. AW_ERR_DIVERGED: a number is not finite; NOMEM.
 * `ret_embedding` is untouched then. */
AW_NODISCARD enum aw_err aw_embed_make(struct aw_embed *embed, float *ret_embedding);

#endif
