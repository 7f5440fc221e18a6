/* shared_table.c - see directory.h. */
#include "controller/shared_table.h"
#include "base/hash.h"

#include <string.h>

struct aw__shared_table_entry {
    struct aw__shared_table_entry *next;
    uint64_t hash;
    size_t name_at; /* in bytes: behind the value */
    _Alignas(8) char bytes[];
};

enum aw_err aw__shared_table_init(struct aw__shared_table *directory, uint32_t max,
                                  const struct aw_alloc *alloc)
{
    pthread_rwlockattr_t attr;
    *directory = (struct aw__shared_table){.alloc = alloc, .bucket_count = max, .max = max};
    directory->buckets = aw_alloc_new(alloc, max, sizeof(struct aw__shared_table_entry *));
    if (!directory->buckets) {
        *directory = (struct aw__shared_table){0};
        return AW_ERR_NOMEM;
    }
    /* glibc lets readers pass a writer by default; under a steady load it would wait for ever */
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&directory->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    return AW_OK;
}

void aw__shared_table_deinit(struct aw__shared_table *directory)
{
    if (!directory->buckets)
        return;
    for (uint32_t i = 0; i < directory->bucket_count; i++) {
        struct aw__shared_table_entry *next, *entry = directory->buckets[i];
        for (; entry; entry = next) {
            next = entry->next;
            aw_alloc_free(directory->alloc, entry);
        }
    }
    aw_alloc_free(directory->alloc, directory->buckets);
    pthread_rwlock_destroy(&directory->lock);
    *directory = (struct aw__shared_table){0};
}

/* Where the pointer to an entry is: the entry's own place, or the end of its bucket. */
static struct aw__shared_table_entry **place_of(const struct aw__shared_table *directory,
                                                const char *name)
{
    const uint64_t hash = aw_hash_text(AW_HASH_BEGIN, name);
    struct aw__shared_table_entry **at = &directory->buckets[hash % directory->bucket_count];
    while (*at && ((*at)->hash != hash || strcmp((*at)->bytes + (*at)->name_at, name) != 0))
        at = &(*at)->next;
    return at;
}

enum aw_err aw__shared_table_put(struct aw__shared_table *directory, const char *name,
                                 const void *bytes, size_t len)
{
    const size_t name_len = strlen(name);
    struct aw__shared_table_entry **at = place_of(directory, name), *old = *at;
    if (!old && directory->count == directory->max) {
        directory->left_out++;
        return AW_ERR_LIMIT;
    }
    struct aw__shared_table_entry *entry =
        aw_alloc_new(directory->alloc, 1, sizeof *entry + len + name_len + 1);
    if (!entry) {
        directory->left_out++;
        return AW_ERR_NOMEM;
    }
    entry->hash = aw_hash_text(AW_HASH_BEGIN, name);
    entry->name_at = len;
    memcpy(entry->bytes, bytes, len);
    memcpy(entry->bytes + len, name, name_len + 1);
    pthread_rwlock_wrlock(&directory->lock);
    entry->next = old ? old->next : NULL;
    *at = entry;
    pthread_rwlock_unlock(&directory->lock);
    directory->count += !old;
    aw_alloc_free(directory->alloc, old);
    return AW_OK;
}

void aw__shared_table_drop(struct aw__shared_table *directory, const char *name)
{
    struct aw__shared_table_entry **at = place_of(directory, name), *old = *at;
    if (!old)
        return;
    pthread_rwlock_wrlock(&directory->lock);
    *at = old->next;
    pthread_rwlock_unlock(&directory->lock);
    directory->count--;
    aw_alloc_free(directory->alloc, old);
}

void aw__shared_table_enter(struct aw__shared_table *directory)
{
    pthread_rwlock_rdlock(&directory->lock);
}

void aw__shared_table_leave(struct aw__shared_table *directory)
{
    pthread_rwlock_unlock(&directory->lock);
}

const void *aw__shared_table_find(const struct aw__shared_table *directory, const char *name)
{
    const struct aw__shared_table_entry *entry = *place_of(directory, name);
    return entry ? entry->bytes : NULL;
}
