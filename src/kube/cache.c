/* cache.c - a table of pointers to items. */
#include "kube/cache.h"
#include "base/hash.h"

#include <string.h>

/* FNV-1a: keys are names of objects in one cluster, whose owners could as well delete them. */
static uint64_t hash_of(const char *key)
{
    return aw_hash_text(AW_HASH_BEGIN, key);
}

enum aw_err aw__kube_cache_init(struct aw__kube_cache *cache, uint32_t count_max, size_t bytes_max,
                                const struct aw_alloc *alloc)
{
    *cache = (struct aw__kube_cache){.bytes_max = bytes_max};
    return aw_hash_table_init(&cache->places, sizeof(struct aw__kube_place), count_max, count_max,
                              alloc);
}

void aw__kube_cache_deinit(struct aw__kube_cache *cache)
{
    for (uint32_t i = 0; i < cache->places.places; i++)
        aw__kube_item_free(cache, aw__kube_cache_at(cache, i));
    aw_hash_table_deinit(&cache->places);
    *cache = (struct aw__kube_cache){0};
}

struct aw__kube_item *aw__kube_cache_at(const struct aw__kube_cache *cache, uint32_t place)
{
    const struct aw__kube_place *found = aw_hash_table_at(&cache->places, place);
    return found ? found->item : NULL;
}

static struct aw__kube_place *place_of(const struct aw__kube_cache *cache, const char *key)
{
    struct aw__kube_place *place = aw_hash_table_find(&cache->places, hash_of(key));
    while (place && strcmp(place->item->view.key, key) != 0)
        place = aw_hash_table_next(&cache->places, place);
    return place;
}

struct aw__kube_item *aw__kube_cache_find(const struct aw__kube_cache *cache, const char *key)
{
    const struct aw__kube_place *place = place_of(cache, key);
    return place ? place->item : NULL;
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
    struct aw__kube_place *place = place_of(cache, item->key);
    struct aw__kube_item *old = place ? place->item : NULL;
    const size_t bytes = sizeof *old + item->len + strlen(item->key) + strlen(item->uid) +
                         strlen(item->resource_version) + 3;
    const size_t freed = old ? old->bytes : 0;
    if ((!old && cache->places.count == cache->places.max) ||
        cache->bytes - freed + bytes > cache->bytes_max)
        return AW_ERR_LIMIT;
    struct aw__kube_item *fresh = aw_alloc_new(cache->places.alloc, bytes, 1);
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
    fresh->bytes = bytes;
    fresh->round = round;
    if (!place)
        place = aw_hash_table_add(&cache->places, hash_of(item->key));
    AW_ASSERT(place); /* the table has room for all at init */
    place->item = fresh;
    cache->bytes += bytes - freed;
    *ret_item = fresh;
    *ret_old = old;
    return AW_OK;
}

void aw__kube_cache_take(struct aw__kube_cache *cache, struct aw__kube_item *item)
{
    struct aw__kube_place *place = place_of(cache, item->view.key);
    AW_ASSERT(place && place->item == item);
    cache->bytes -= item->bytes;
    aw_hash_table_drop(&cache->places, place);
}

void aw__kube_item_free(const struct aw__kube_cache *cache, struct aw__kube_item *item)
{
    aw_alloc_free(cache->places.alloc, item);
}
