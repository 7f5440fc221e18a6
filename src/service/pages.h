/*
 * pages.h - an allocator for a process whose memory is limited and watched: whole small pages.
 *
 * The heap of base/alloc.h asks for huge pages, which suits networks. Here most of a large block
 * (places for thousands of connections) is never touched, and a huge page would make two megabytes
 * resident for the first byte of each.
 *
 * Memory:  a block is a mapping of its own, zeroed, and goes back to the system when it is freed.
 * Threads: safe everywhere.
 */
#ifndef AW_SERVICE_PAGES_H
#define AW_SERVICE_PAGES_H

#include "base/alloc.h"

extern const struct aw_alloc aw_pages_alloc;

#endif
