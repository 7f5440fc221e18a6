/* cache.c - linear probing at a load of at most two thirds; removal closes the gap. */
#include "kube/cache.h"
#include "base/hash.h"

#include <string.h>

#define SLOTS_MIN 16u

/* FNV-1a: keys are names of objects in one cluster, whose owners could as well delete them. */
static uint64_t hash_of(const char *key)
{
    uint64_t hash = aw_hash_text(AW_HASH_BEGIN, key);
    return hash ^ hash >> 32;
}

enum aw_err aw__kube_cache_init(struct aw__kube_cache *cache, uint32_t count_max, size_t bytes_max,
                                const struct aw_alloc *alloc)
{
    uint64_t slot_count = SLOTS_MIN;
    while (slot_count * 2 < (uint64_t)count_max * 3)
        slot_count *= 2;
    *cache = (struct aw__kube_cache){0};
    struct aw__kube_item **slots = aw_alloc_new(alloc, slot_count, sizeof(struct aw__kube_item *));
    if (!slots)
        return AW_ERR_NOMEM;
    *cache = (struct aw__kube_cache){.alloc = alloc,
                                     .slots = slots,
                                     .slot_count = (uint32_t)slot_count,
                                     .count_max = count_max,
                                     .bytes_max = bytes_max};
    return AW_OK;
}

void aw__kube_cache_deinit(struct aw__kube_cache *cache)
{
    for (uint32_t i = 0; i < cache->slot_count; i++)
        aw_alloc_free(cache->alloc, cache->slots[i]);
    aw_alloc_free(cache->alloc, cache->slots);
    *cache = (struct aw__kube_cache){0};
}

/* The slot of a key: where it is, or the free one where it would be. */
static uint32_t slot_of(const struct aw__kube_cache *cache, const char *key, uint64_t hash)
{
    const uint32_t mask = cache->slot_count - 1;
    uint32_t slot = (uint32_t)hash & mask;
    const struct aw__kube_item *item;
    while ((item = cache->slots[slot]) && (item->hash != hash || strcmp(item->view.key, key) != 0))
        slot = (slot + 1) & mask;
    return slot;
}

struct aw__kube_item *aw__kube_cache_find(const struct aw__kube_cache *cache, const char *key)
{
    return cache->slots[slot_of(cache, key, hash_of(key))];
}

static char *put_text(char **at, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

enum aw_err aw__kube_cache_put(struct aw__kube_cache *cache, const struct aw_kube_item *item,
                               uint64_t round, struct aw__kube_item **ret_item,
                               struct aw__kube_item **ret_old)
{
    const uint64_t hash = hash_of(item->key);
    const uint32_t slot = slot_of(cache, item->key, hash);
    struct aw__kube_item *old = cache->slots[slot];
    const size_t bytes = sizeof *old + item->len + strlen(item->key) + strlen(item->uid) +
                         strlen(item->resource_version) + 3;
    const size_t freed = old ? old->bytes : 0;
    if ((!old && cache->count == cache->count_max) ||
        cache->bytes - freed + bytes > cache->bytes_max)
        return AW_ERR_LIMIT;
    struct aw__kube_item *fresh = aw_alloc_new(cache->alloc, bytes, 1);
    if (!fresh)
        return AW_ERR_NOMEM;
    char *data = (char *)(fresh + 1), *at = data + item->len;
    if (item->len)
        memcpy(data, item->data, item->len);
    fresh->view.data = data;
    fresh->view.len = item->len;
    fresh->view.key = put_text(&at, item->key);
    fresh->view.uid = put_text(&at, item->uid);
    fresh->view.resource_version = put_text(&at, item->resource_version);
    fresh->hash = hash;
    fresh->bytes = bytes;
    fresh->round = round;
    cache->slots[slot] = fresh;
    cache->count += !old;
    cache->bytes += bytes - freed;
    *ret_item = fresh;
    *ret_old = old;
    return AW_OK;
}

void aw__kube_cache_take(struct aw__kube_cache *cache, struct aw__kube_item *item)
{
    const uint32_t mask = cache->slot_count - 1;
    uint32_t gap = slot_of(cache, item->view.key, item->hash);
    AW_ASSERT(cache->slots[gap] == item);
    cache->count--;
    cache->bytes -= item->bytes;
    /* Whoever lies behind the gap and could not be reached across it moves into it (Knuth, The Art
     * of Computer Programming, volume 3, 6.4, algorithm R). */
    for (uint32_t next = (gap + 1) & mask; cache->slots[next]; next = (next + 1) & mask) {
        const uint32_t home = (uint32_t)cache->slots[next]->hash & mask;
        if (((next - home) & mask) >= ((next - gap) & mask)) {
            cache->slots[gap] = cache->slots[next];
            gap = next;
        }
    }
    cache->slots[gap] = NULL;
}

void aw__kube_item_free(const struct aw__kube_cache *cache, struct aw__kube_item *item)
{
    aw_alloc_free(cache->alloc, item);
}
