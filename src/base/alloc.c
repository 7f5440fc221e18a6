/* alloc.c - heap, counting allocator, arena, and carving one block into parts. */
#include "base/alloc.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEADY_BYTES 131072 /* glibc's own first threshold */

/* Blocks from this size on ask for huge pages: passing over tens of megabytes of a network's caches
 * in pages of 4 KiB misses the TLB all the time, and many systems give huge ones only on request.
 */
#define HUGE_BLOCK_BYTES ((size_t)4 << 20)

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Advice: where it is not taken, nothing is lost. Whole pages inside the block only. */
static void ask_for_huge_pages(unsigned char *block, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const long page = sysconf(_SC_PAGESIZE);
    if (bytes < HUGE_BLOCK_BYTES || page <= 0)
        return;
    const size_t skip = ((size_t)page - (uintptr_t)block % (size_t)page) % (size_t)page;
    const size_t whole = (bytes - skip) / (size_t)page * (size_t)page;
    (void)madvise(block + skip, whole, MADV_HUGEPAGE);
#else
    (void)block;
    (void)bytes;
#endif
}

/* calloc rather than aligned_alloc and memset: pages of a large block that nobody touches, such as
 * a replay of a million transitions, then cost neither time nor memory. Its own address stands
 * before the aligned block: calloc's blocks are aligned for any type, so that between one and the
 * next multiple behind it there is room for an address, and never more than AW_ALLOC_ALIGN. */
_Static_assert(_Alignof(max_align_t) >= sizeof(void *) &&
                   AW_ALLOC_ALIGN % _Alignof(max_align_t) == 0,
               "an address fits before an aligned block");
static void *heap_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    if (bytes > AW_ALLOC_BYTES_MAX)
        return NULL;
    unsigned char *base = calloc(1, bytes + AW_ALLOC_ALIGN);
    if (!base)
        return NULL;
    unsigned char *block = base + AW_ALLOC_ALIGN - (uintptr_t)base % AW_ALLOC_ALIGN;
    memcpy(block - sizeof base, &base, sizeof base);
    ask_for_huge_pages(block, bytes);
    return block;
}

static void heap_free(void *ctx, void *block)
{
    (void)ctx;
    if (!block)
        return;
    void *base;
    memcpy(&base, (unsigned char *)block - sizeof base, sizeof base);
    free(base);
}

const struct aw_alloc aw_alloc_heap = {heap_alloc, heap_free, NULL};

void *aw_alloc_new(const struct aw_alloc *alloc, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > AW_ALLOC_BYTES_MAX)
        return NULL;
    if (!alloc)
        alloc = &aw_alloc_heap;
    return alloc->alloc(alloc->ctx, bytes);
}

void aw_alloc_steady(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, STEADY_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, STEADY_BYTES);
#endif
}

void aw_alloc_trim(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

void aw_alloc_free(const struct aw_alloc *alloc, void *block)
{
    if (!alloc)
        alloc = &aw_alloc_heap;
    if (block)
        alloc->free(alloc->ctx, block);
}

static void *counting_alloc(void *ctx, size_t bytes)
{
    struct aw_alloc_counting *counting = ctx;
    if (counting->alloc_count >= counting->fail_after)
        return NULL;
    void *block = heap_alloc(NULL, bytes);
    if (block)
        counting->alloc_count++;
    return block;
}

static void counting_free(void *ctx, void *block)
{
    struct aw_alloc_counting *counting = ctx;
    if (block)
        counting->free_count++;
    heap_free(NULL, block);
}

void aw_alloc_counting_init(struct aw_alloc_counting *counting)
{
    *counting = (struct aw_alloc_counting){
        .alloc = {counting_alloc, counting_free, counting},
        .fail_after = UINT64_MAX,
    };
}

#define ARENA_ALIGN 16

void *aw_arena_alloc(struct aw_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ARENA_ALIGN)
        return NULL;
    bytes = round_up(bytes, ARENA_ALIGN);
    if (bytes > arena->size - arena->used)
        return NULL;
    void *block = arena->base + arena->used;
    arena->used += bytes;
    memset(block, 0, bytes);
    return block;
}

void *aw_carve_take(struct aw_carve *carve, size_t count, size_t size)
{
    size_t bytes;
    /* A saturated size makes the allocation that follows the sizing pass fail cleanly. */
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > AW_ALLOC_BYTES_MAX)
        bytes = AW_ALLOC_BYTES_MAX + 1;
    void *part = carve->base ? carve->base + carve->used : NULL;
    size_t rounded = round_up(bytes, AW_ALLOC_ALIGN);
    carve->used = carve->used > AW_ALLOC_BYTES_MAX ? carve->used : carve->used + rounded;
    return part;
}
