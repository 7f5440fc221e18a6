/*
 * cache.h - items by key: a table of fixed size, one block per item.
 *
 * Call order: init, put and drop in any order, deinit.
 * Memory:     the table at init; each put is one block from the allocator, within `bytes_max`.
 * Threads:    single owner.
 *
 * The trap: put gives the old item back instead of freeing it, because the handler of the change
 * needs both. Free it with aw__kube_item_free.
 */
#ifndef AW_KUBE_CACHE_H
#define AW_KUBE_CACHE_H

#include "base/hash_table.h"
#include "kube/informer.h"

struct aw__kube_item {
    struct aw_kube_item view;
    size_t bytes;   /* of the block */
    uint64_t round; /* of the list that saw it last */
};

struct aw__kube_place {
    uint64_t hash; /* of the item's key */
    struct aw__kube_item *item;
};

struct aw__kube_cache {
    struct aw_hash_table places; /* of struct aw__kube_place */
    size_t bytes, bytes_max;
};

AW_NODISCARD enum aw_err aw__kube_cache_init(struct aw__kube_cache *cache, uint32_t count_max,
                                             size_t bytes_max, const struct aw_alloc *alloc);
void aw__kube_cache_deinit(struct aw__kube_cache *cache); /* zeroed is a no-op */

struct aw__kube_item *aw__kube_cache_find(const struct aw__kube_cache *cache, const char *key);
/* Puts a copy in; `ret_old` is what it replaced, or NULL. AW_ERR_LIMIT or AW_ERR_NOMEM, and then
 * nothing has changed. */
AW_NODISCARD enum aw_err aw__kube_cache_put(struct aw__kube_cache *cache,
                                            const struct aw_kube_item *item, uint64_t round,
                                            struct aw__kube_item **ret_item,
                                            struct aw__kube_item **ret_old);
/* Takes an item out; it is the caller's then. */
void aw__kube_cache_take(struct aw__kube_cache *cache, struct aw__kube_item *item);
/* What is at a place, from 0 to places.places - 1, or NULL. */
struct aw__kube_item *aw__kube_cache_at(const struct aw__kube_cache *cache, uint32_t place);
void aw__kube_item_free(const struct aw__kube_cache *cache, struct aw__kube_item *item);

#endif
