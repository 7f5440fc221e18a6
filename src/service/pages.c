/* pages.c - a block behind one page that keeps its size. */
#include "service/pages.h"

#include <string.h>
#include <sys/mman.h>

#define HEADER_BYTES 4096u /* keeps the block aligned to a page */

static void *pages_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    if (bytes > AW_ALLOC_BYTES_MAX)
        return NULL;
    const size_t whole = bytes + HEADER_BYTES;
    unsigned char *base =
        mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    (void)madvise(base, whole, MADV_NOHUGEPAGE); /* a kernel without huge pages says no */
    memcpy(base, &whole, sizeof whole);
    return base + HEADER_BYTES;
}

static void pages_free(void *ctx, void *block)
{
    (void)ctx;
    if (!block)
        return;
    unsigned char *base = (unsigned char *)block - HEADER_BYTES;
    size_t whole;
    memcpy(&whole, base, sizeof whole);
    (void)munmap(base, whole);
}

const struct aw_alloc aw_pages_alloc = {pages_alloc, pages_free, NULL};
