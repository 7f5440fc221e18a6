/* hash_table.c - linear probing; dropping an item closes the gap. */
#include "base/hash_table.h"

#include <string.h>

#define PLACES_MIN 16u

static uint64_t hash_at(const struct aw_hash_table *table, uint32_t place)
{
    uint64_t hash;
    memcpy(&hash, table->items + place * table->item_bytes, sizeof hash);
    return hash;
}

/* 0 is what free places have. */
static uint64_t sound(uint64_t hash)
{
    return hash ? hash : 1;
}

static uint32_t home_of(const struct aw_hash_table *table, uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32) & (table->places - 1);
}

static uint32_t place_of(const struct aw_hash_table *table, const void *item)
{
    return (uint32_t)((size_t)((const unsigned char *)item - table->items) / table->item_bytes);
}

enum aw_err aw_hash_table_init(struct aw_hash_table *table, size_t item_bytes, uint32_t room,
                               uint32_t max, const struct aw_alloc *alloc)
{
    AW_ASSERT(item_bytes >= sizeof(uint64_t) && room <= max && max <= UINT32_MAX / 4);
    *table = (struct aw_hash_table){
        .item_bytes = item_bytes, .places = PLACES_MIN, .max = max, .alloc = alloc};
    while (table->places < 2 * room)
        table->places *= 2;
    table->items = aw_alloc_new(alloc, table->places, item_bytes);
    if (table->items)
        return AW_OK;
    *table = (struct aw_hash_table){0};
    return AW_ERR_NOMEM;
}

void aw_hash_table_deinit(struct aw_hash_table *table)
{
    aw_alloc_free(table->alloc, table->items);
    *table = (struct aw_hash_table){0};
}

void aw_hash_table_clear(struct aw_hash_table *table)
{
    memset(table->items, 0, table->places * table->item_bytes);
    table->count = 0;
}

void *aw_hash_table_at(const struct aw_hash_table *table, uint32_t place)
{
    return hash_at(table, place) ? table->items + place * table->item_bytes : NULL;
}

/* From a place on, the first item of this hash. */
static void *find_from(const struct aw_hash_table *table, uint32_t place, uint64_t hash)
{
    for (uint64_t here; (here = hash_at(table, place)); place = (place + 1) & (table->places - 1))
        if (here == hash)
            return table->items + place * table->item_bytes;
    return NULL;
}

void *aw_hash_table_find(const struct aw_hash_table *table, uint64_t hash)
{
    hash = sound(hash);
    return find_from(table, home_of(table, hash), hash);
}

void *aw_hash_table_next(const struct aw_hash_table *table, const void *item)
{
    const uint32_t place = place_of(table, item);
    return find_from(table, (place + 1) & (table->places - 1), hash_at(table, place));
}

static void *put(struct aw_hash_table *table, uint64_t hash)
{
    uint32_t place = home_of(table, hash);
    while (hash_at(table, place))
        place = (place + 1) & (table->places - 1);
    void *item = table->items + place * table->item_bytes;
    memcpy(item, &hash, sizeof hash);
    table->count++;
    return item;
}

static bool grow(struct aw_hash_table *table)
{
    struct aw_hash_table larger;
    if (aw_hash_table_init(&larger, table->item_bytes, table->count + 1, table->max, table->alloc))
        return false;
    for (uint32_t place = 0; place < table->places; place++)
        if (hash_at(table, place))
            memcpy(put(&larger, hash_at(table, place)), table->items + place * table->item_bytes,
                   table->item_bytes);
    aw_hash_table_deinit(table);
    *table = larger;
    return true;
}

void *aw_hash_table_add(struct aw_hash_table *table, uint64_t hash)
{
    if (table->count == table->max || (2 * table->count >= table->places && !grow(table)))
        return NULL;
    return put(table, sound(hash));
}

/* Whoever lies behind the gap and could not be reached across it moves into it (Knuth, The Art of
 * Computer Programming, volume 3, 6.4, algorithm R). */
void aw_hash_table_drop(struct aw_hash_table *table, void *item)
{
    const uint32_t mask = table->places - 1;
    uint32_t gap = place_of(table, item);
    uint64_t hash;
    for (uint32_t at = (gap + 1) & mask; (hash = hash_at(table, at)); at = (at + 1) & mask)
        if (((at - home_of(table, hash)) & mask) >= ((at - gap) & mask)) {
            memcpy(table->items + gap * table->item_bytes, table->items + at * table->item_bytes,
                   table->item_bytes);
            gap = at;
        }
    memset(table->items + gap * table->item_bytes, 0, table->item_bytes);
    table->count--;
}
