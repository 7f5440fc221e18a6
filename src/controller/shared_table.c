/* shared_table.c - see shared_table.h. */
#include "controller/shared_table.h"
#include "base/hash.h"

#include <string.h>

/* What is kept under one name. */
struct block {
    size_t name_at; /* in bytes: behind the value */
    _Alignas(8) char bytes[];
};

struct named {
    uint64_t hash; /* of the name */
    struct block *block;
};

enum aw_err aw__shared_table_init(struct aw__shared_table *table, uint32_t max,
                                  const struct aw_alloc *alloc)
{
    pthread_rwlockattr_t attr;
    *table = (struct aw__shared_table){0};
    if (aw_hash_table_init(&table->by_name, sizeof(struct named), max, max, alloc))
        return AW_ERR_NOMEM;
    /* glibc lets readers pass a writer by default; under a steady load it would wait for ever */
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&table->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    return AW_OK;
}

void aw__shared_table_deinit(struct aw__shared_table *table)
{
    if (!table->by_name.items)
        return;
    for (uint32_t i = 0; i < table->by_name.places; i++) {
        const struct named *named = aw_hash_table_at(&table->by_name, i);
        if (named)
            aw_alloc_free(table->by_name.alloc, named->block);
    }
    aw_hash_table_deinit(&table->by_name);
    pthread_rwlock_destroy(&table->lock);
    *table = (struct aw__shared_table){0};
}

static struct named *find(const struct aw__shared_table *table, const char *name)
{
    struct named *named = aw_hash_table_find(&table->by_name, aw_hash_text(AW_HASH_BEGIN, name));
    while (named && strcmp(named->block->bytes + named->block->name_at, name) != 0)
        named = aw_hash_table_next(&table->by_name, named);
    return named;
}

enum aw_err aw__shared_table_put(struct aw__shared_table *table, const char *name,
                                 const void *bytes, size_t len)
{
    const size_t name_len = strlen(name);
    struct named *named = find(table, name);
    struct block *old = named ? named->block : NULL;
    const bool full = !named && table->by_name.count == table->by_name.max;
    struct block *block =
        full ? NULL : aw_alloc_new(table->by_name.alloc, 1, sizeof *block + len + name_len + 1);
    if (!block) {
        table->left_out++;
        return full ? AW_ERR_LIMIT : AW_ERR_NOMEM;
    }
    block->name_at = len;
    memcpy(block->bytes, bytes, len);
    memcpy(block->bytes + len, name, name_len + 1);
    pthread_rwlock_wrlock(&table->lock);
    if (!named) /* there is room for all from the beginning */
        named = aw_hash_table_add(&table->by_name, aw_hash_text(AW_HASH_BEGIN, name));
    named->block = block;
    pthread_rwlock_unlock(&table->lock);
    aw_alloc_free(table->by_name.alloc, old);
    return AW_OK;
}

void aw__shared_table_drop(struct aw__shared_table *table, const char *name)
{
    struct named *named = find(table, name);
    if (!named)
        return;
    struct block *old = named->block;
    pthread_rwlock_wrlock(&table->lock);
    aw_hash_table_drop(&table->by_name, named);
    pthread_rwlock_unlock(&table->lock);
    aw_alloc_free(table->by_name.alloc, old);
}

void aw__shared_table_enter(struct aw__shared_table *table)
{
    pthread_rwlock_rdlock(&table->lock);
}

void aw__shared_table_leave(struct aw__shared_table *table)
{
    pthread_rwlock_unlock(&table->lock);
}

const void *aw__shared_table_find(const struct aw__shared_table *table, const char *name)
{
    const struct named *named = find(table, name);
    return named ? named->block->bytes : NULL;
}
