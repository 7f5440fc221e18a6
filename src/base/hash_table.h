/*
 * hash_table.h - items of one size, found by their hash: open addressing, at most half full.
 *
 * An item is a struct of the caller's whose first member is `uint64_t hash`; 0 marks a free place.
 * Where the hash is the key, find gives the item. Where it is not, compare what find gives with the
 * key, and go on with next:
 *
 *     struct item *item = aw_hash_table_find(&table, hash);
 *     while (item && strcmp(item->key, key) != 0)
 *         item = aw_hash_table_next(&table, item);
 *
 * Call order: init; add, find and drop in any order; deinit.
 * Memory:     room for `room` items at init; add allocates only beyond that, up to `max`.
 * Threads:    single owner.
 *
 * The trap: add and drop move items. A pointer to an item is good until the next of either, and
 * while all are walked, look at a place again after a drop.
 */
#ifndef AW_BASE_HASH_TABLE_H
#define AW_BASE_HASH_TABLE_H

#include "base/alloc.h"

struct aw_hash_table {
    unsigned char *items; /* [places] of `item_bytes` */
    size_t item_bytes;
    uint32_t places; /* a power of two */
    uint32_t count, max;
    const struct aw_alloc *alloc;
};

/* AW_ERR_NOMEM; then `table` is zeroed. */
AW_NODISCARD enum aw_err aw_hash_table_init(struct aw_hash_table *table, size_t item_bytes,
                                            uint32_t room, uint32_t max,
                                            const struct aw_alloc *alloc);
void aw_hash_table_deinit(struct aw_hash_table *table); /* zeroed is a no-op */
void aw_hash_table_clear(struct aw_hash_table *table);

/* The first item of this hash, and the next of the same; NULL: none. */
void *aw_hash_table_find(const struct aw_hash_table *table, uint64_t hash);
void *aw_hash_table_next(const struct aw_hash_table *table, const void *item);
/* A new item of this hash, else zeroed. NULL: there are `max` already, or memory is out. */
void *aw_hash_table_add(struct aw_hash_table *table, uint64_t hash);
void aw_hash_table_drop(struct aw_hash_table *table, void *item);
/* What is at a place, from 0 to `places` - 1; NULL: it is free. */
void *aw_hash_table_at(const struct aw_hash_table *table, uint32_t place);

#endif
