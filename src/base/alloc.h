/*
 * alloc.h - where memory comes from, as an argument.
 *
 * One block per object, at init. Nothing allocates after init; the counting allocator proves it,
 * and its countdown makes the n-th allocation fail, so every failure path can be walked in a test.
 *
 * Memory:  blocks are zeroed and aligned to AW_ALLOC_ALIGN, so SIMD loads never straddle.
 * Threads: the heap allocator is safe everywhere; counting allocator and arena have one owner.
 */
#ifndef AW_BASE_ALLOC_H
#define AW_BASE_ALLOC_H

#include <aware/err.h>

#define AW_ALLOC_ALIGN 64 /* bytes: a cache line, and the widest vector register */

struct aw_alloc {
    void *(*alloc)(void *ctx, size_t bytes); /* zeroed and aligned, or NULL */
    void (*free)(void *ctx, void *block);    /* NULL is a no-op */
    void *ctx;
};

/* The process heap. Passing NULL for an allocator anywhere means this one. */
extern const struct aw_alloc aw_alloc_heap;

/* count * size bytes; NULL when the product overflows, is beyond AW_ALLOC_BYTES_MAX, or memory is
 * out. Zero bytes yield a valid block. `alloc` NULL is the heap. */
#define AW_ALLOC_BYTES_MAX ((size_t)1 << 40)
void *aw_alloc_new(const struct aw_alloc *alloc, size_t count, size_t size);
void aw_alloc_free(const struct aw_alloc *alloc, void *block);
/* For a process that lives for months: large blocks go back to the system when they are freed,
 * instead of raising the size from which that happens (glibc's habit), so that resident memory does
 * not creep up with what has passed through. Costs page faults; once, before threads are made. */
void aw_alloc_steady(void);
/* Gives back to the system what lies free between blocks: after something large has passed through,
 * such as the JSON of a list of which little is kept. Takes milliseconds; not on a hot path. */
void aw_alloc_trim(void);

/* Counts, and fails on request. `fail_after` n: the first n allocations succeed, all later fail. */
struct aw_alloc_counting {
    struct aw_alloc alloc; /* pass &counting.alloc on */
    uint64_t alloc_count;
    uint64_t free_count;
    uint64_t fail_after; /* UINT64_MAX: never */
};
void aw_alloc_counting_init(struct aw_alloc_counting *counting);

/* A bump allocator over a block of the caller's, for memory that dies together. */
struct aw_arena {
    unsigned char *base;
    size_t size;
    size_t used;
};
/* Zeroed, aligned to 16; NULL when the arena is full. */
void *aw_arena_alloc(struct aw_arena *arena, size_t count, size_t size);

/* Cuts named parts out of one block: call with base NULL to learn the size, then again with the
 * block. Each part is aligned to AW_ALLOC_ALIGN. */
struct aw_carve {
    unsigned char *base; /* NULL on the sizing pass */
    size_t used;
};
void *aw_carve_take(struct aw_carve *carve, size_t count, size_t size);

#endif
