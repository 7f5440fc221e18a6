/* disk_sim_state.c - content, changes and names of the simulated disk. */
#include "base/disk_sim_state.h"

#include <string.h>

#define GROW_MIN 16u

bool aw__disk_reserve(const struct aw_alloc *alloc, void *array, size_t *capacity, size_t count,
                      size_t size)
{
    void *old, *larger;
    if (count <= *capacity)
        return true;
    size_t wanted = *capacity < GROW_MIN ? GROW_MIN : *capacity;
    while (wanted < count)
        wanted *= 2;
    larger = aw_alloc_new(alloc, wanted, size);
    if (!larger)
        return false;
    memcpy(&old, array, sizeof old);
    if (old)
        memcpy(larger, old, *capacity * size);
    aw_alloc_free(alloc, old);
    memcpy(array, &larger, sizeof larger);
    *capacity = wanted;
    return true;
}

/* ---- content ---- */

bool aw__disk_resize(const struct aw_alloc *alloc, struct aw__disk_content *content, size_t len)
{
    if (len > content->len) {
        if (!aw__disk_reserve(alloc, &content->bytes, &content->size, len, 1))
            return false;
        memset(content->bytes + content->len, 0, len - content->len);
    }
    content->len = len;
    return true;
}

bool aw__disk_write(const struct aw_alloc *alloc, struct aw__disk_content *content, uint64_t offset,
                    const unsigned char *bytes, size_t len)
{
    size_t end = (size_t)offset + len;
    if (len == 0)
        return true;
    if (end > content->len && !aw__disk_resize(alloc, content, end))
        return false;
    memcpy(content->bytes + offset, bytes, len);
    return true;
}

bool aw__disk_copy(const struct aw_alloc *alloc, struct aw__disk_content *to,
                   const struct aw__disk_content *from)
{
    to->len = 0;
    return aw__disk_resize(alloc, to, from->len) &&
           aw__disk_write(alloc, to, 0, from->bytes, to->len);
}

/* ---- nodes ---- */

void aw__disk_settle(const struct aw_alloc *alloc, struct aw__disk_node *node)
{
    for (size_t i = 0; i < node->change_count; i++)
        aw_alloc_free(alloc, node->changes[i].bytes);
    node->change_count = 0;
}

void aw__disk_drop(const struct aw_alloc *alloc, struct aw__disk_node *node)
{
    aw__disk_settle(alloc, node);
    aw_alloc_free(alloc, node->changes);
    aw_alloc_free(alloc, node->seen.bytes);
    aw_alloc_free(alloc, node->durable.bytes);
    *node = (struct aw__disk_node){0};
}

bool aw__disk_change_add(const struct aw_alloc *alloc, struct aw__disk_node *node, uint64_t offset,
                         const void *bytes, size_t len)
{
    unsigned char *copy = NULL;
    if (!aw__disk_reserve(alloc, &node->changes, &node->change_size, node->change_count + 1,
                          sizeof *node->changes))
        return false;
    if (bytes) {
        copy = aw_alloc_new(alloc, len, 1);
        if (!copy)
            return false;
        memcpy(copy, bytes, len);
    }
    node->changes[node->change_count++] =
        (struct aw__disk_change){.offset = offset, .len = len, .bytes = copy};
    return true;
}

bool aw__disk_sync(const struct aw_alloc *alloc, struct aw__disk_node *node)
{
    for (size_t i = 0; i < node->change_count; i++) {
        const struct aw__disk_change *c = &node->changes[i];
        if (c->bytes ? !aw__disk_write(alloc, &node->durable, c->offset, c->bytes, c->len)
                     : !aw__disk_resize(alloc, &node->durable, (size_t)c->offset))
            return false;
    }
    aw__disk_settle(alloc, node);
    return true;
}

/* What reached the disk of one write that nobody waited for. */
static void write_torn(const struct aw_alloc *alloc, struct aw__disk_content *durable,
                       const struct aw__disk_change *c, struct aw_rng *rng)
{
    enum { WHOLE, NOTHING, SIZE_ALONE, PREFIX, SECTORS, OUTCOMES };
    uint32_t outcome = aw_rng_below(rng, OUTCOMES);
    bool fine = true;
    if (outcome == WHOLE) {
        fine = aw__disk_write(alloc, durable, c->offset, c->bytes, c->len);
    } else if (outcome == SIZE_ALONE && c->offset + c->len > durable->len) {
        fine = aw__disk_resize(alloc, durable, (size_t)(c->offset + c->len));
    } else if (outcome == PREFIX) {
        size_t len = aw_rng_below(rng, (uint32_t)c->len + 1);
        fine = aw__disk_write(alloc, durable, c->offset, c->bytes, len);
    } else if (outcome == SECTORS) {
        for (size_t at = 0; at < c->len && fine;) {
            size_t in_sector = (size_t)((c->offset + at) % AW_DISK_SIM_SECTOR);
            size_t len = AW_DISK_SIM_SECTOR - in_sector;
            len = len < c->len - at ? len : c->len - at;
            if (aw_rng_below(rng, 2))
                fine = aw__disk_write(alloc, durable, c->offset + at, c->bytes + at, len);
            at += len;
        }
    }
    (void)fine; /* no memory: that part did not reach the disk either */
}

void aw__disk_lose(const struct aw_alloc *alloc, struct aw__disk_node *node, struct aw_rng *rng)
{
    for (size_t i = 0; i < node->change_count; i++) {
        const struct aw__disk_change *c = &node->changes[i];
        if (c->bytes) {
            write_torn(alloc, &node->durable, c, rng);
        } else if (aw_rng_below(rng, 2)) {
            bool fine = aw__disk_resize(alloc, &node->durable, (size_t)c->offset);
            (void)fine;
        }
    }
    aw__disk_settle(alloc, node);
}

/* ---- names ---- */

struct aw__disk_name *aw__disk_find(const struct aw__disk_names *names, const char *path)
{
    for (size_t i = 0; i < names->count; i++)
        if (!strcmp(names->at[i].path, path))
            return &names->at[i];
    return NULL;
}

bool aw__disk_set(const struct aw_alloc *alloc, struct aw__disk_names *names, const char *path,
                  uint32_t node)
{
    struct aw__disk_name *name = aw__disk_find(names, path);
    if (!name) {
        if (!aw__disk_reserve(alloc, &names->at, &names->size, names->count + 1, sizeof *names->at))
            return false;
        name = &names->at[names->count++];
        memcpy(name->path, path, strlen(path) + 1);
    }
    name->node = node;
    return true;
}

static void names_remove(struct aw__disk_names *names, const char *path)
{
    struct aw__disk_name *name = aw__disk_find(names, path);
    if (name)
        *name = names->at[--names->count];
}

bool aw__disk_apply(const struct aw_alloc *alloc, struct aw__disk_names *names,
                    const struct aw__disk_name_change *c)
{
    if (c->gone) {
        names_remove(names, c->path);
        return true;
    }
    if (!aw__disk_set(alloc, names, c->path, c->node))
        return false;
    if (c->from[0])
        names_remove(names, c->from);
    return true;
}

bool aw__disk_inside(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return !strncmp(path, folder, len) && path[len] == '/' && !strchr(path + len + 1, '/');
}

void aw__disk_collect(struct aw__disk_sim_state *s)
{
    for (uint32_t n = 0; n < s->node_count; n++) {
        bool wanted = !s->nodes[n].used;
        for (size_t i = 0; i < s->seen.count && !wanted; i++)
            wanted = s->seen.at[i].node == n;
        for (size_t i = 0; i < s->durable.count && !wanted; i++)
            wanted = s->durable.at[i].node == n;
        for (size_t i = 0; i < s->rename_count && !wanted; i++)
            wanted = !s->renames[i].gone && s->renames[i].node == n;
        for (size_t i = 0; i < s->handle_count && !wanted; i++)
            wanted = s->handles[i].node == n;
        if (!wanted)
            aw__disk_drop(&s->alloc, &s->nodes[n]);
    }
}
