/*
 * disk_sim_state.h - what the simulated disk is made of; inside base alone.
 *
 * A node is a file without its name: the content that readers see, the content that a power cut
 * cannot take, and the changes between the two, in order. Names are kept the same way: the table
 * that callers see, the durable one, and the changes between them.
 *
 * Functions that return bool say false when there is no memory.
 */
#ifndef AW_BASE_DISK_SIM_STATE_H
#define AW_BASE_DISK_SIM_STATE_H

#include "base/disk_sim.h"

struct aw__disk_content {
    unsigned char *bytes;
    size_t len, size;
};

/* A write, or (bytes NULL) a truncation to `offset`. */
struct aw__disk_change {
    uint64_t offset;
    size_t len;
    unsigned char *bytes;
};

struct aw__disk_node {
    bool used;
    struct aw__disk_content seen, durable;
    size_t reserved; /* bytes that it has blocks for, whatever its size */
    struct aw__disk_change *changes;
    size_t change_count, change_size;
};

struct aw__disk_name {
    char path[AW_DISK_SIM_PATH_MAX];
    uint32_t node;
};

/* `path` gets `node`, or (gone) loses it; `from`, when not empty, is the name it had before. */
struct aw__disk_name_change {
    char path[AW_DISK_SIM_PATH_MAX], from[AW_DISK_SIM_PATH_MAX];
    uint32_t node;
    bool gone;
};

struct aw__disk_names {
    struct aw__disk_name *at;
    size_t count, size;
};

struct aw__disk_handle {
    int id; /* never given out twice: one that a power cut has closed stays closed */
    uint32_t node;
    bool writable, locked;
};

struct aw__disk_sim_state {
    struct aw_alloc alloc;
    struct aw_rng rng;
    struct aw__disk_node *nodes;
    size_t node_count, node_size;
    struct aw__disk_names seen, durable, folders;
    struct aw__disk_name_change *renames;
    size_t rename_count, rename_size;
    struct aw__disk_handle *handles;
    size_t handle_count, handle_size;
    int next_id;
};

/* Room for `count` of `size` bytes each in the array whose address is given; what is there stays.
 */
bool aw__disk_reserve(const struct aw_alloc *alloc, void *array, size_t *capacity, size_t count,
                      size_t size);

/* What is new reads as zeros. */
bool aw__disk_resize(const struct aw_alloc *alloc, struct aw__disk_content *content, size_t len);
bool aw__disk_write(const struct aw_alloc *alloc, struct aw__disk_content *content, uint64_t offset,
                    const unsigned char *bytes, size_t len);
bool aw__disk_copy(const struct aw_alloc *alloc, struct aw__disk_content *to,
                   const struct aw__disk_content *from);

/* Forgets the changes; the content stays. */
void aw__disk_settle(const struct aw_alloc *alloc, struct aw__disk_node *node);
void aw__disk_drop(const struct aw_alloc *alloc, struct aw__disk_node *node);
/* Adds a change, with its own copy of the bytes of a write; NULL for a truncation. */
bool aw__disk_change_add(const struct aw_alloc *alloc, struct aw__disk_node *node, uint64_t offset,
                         const void *bytes, size_t len);
/* All changes become durable. Memory for them was found when they were seen, and may be missing
 * now: the disk is then as broken as one that fails. */
bool aw__disk_sync(const struct aw_alloc *alloc, struct aw__disk_node *node);
/* Of what waits, any part becomes durable; then nothing waits any more. */
void aw__disk_lose(const struct aw_alloc *alloc, struct aw__disk_node *node, struct aw_rng *rng);

struct aw__disk_name *aw__disk_find(const struct aw__disk_names *names, const char *path);
bool aw__disk_set(const struct aw_alloc *alloc, struct aw__disk_names *names, const char *path,
                  uint32_t node);
bool aw__disk_apply(const struct aw_alloc *alloc, struct aw__disk_names *names,
                    const struct aw__disk_name_change *c);
/* Directly in the folder, not deeper. */
bool aw__disk_inside(const char *path, const char *folder);
/* Frees nodes that no name and no open file leads to any more. */
void aw__disk_collect(struct aw__disk_sim_state *s);

#endif
