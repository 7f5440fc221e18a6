/*
 * library.h - gRPC core as this room uses it: its life, flat bytes in and out of its buffers, and
 * tags that cross its queues.
 *
 * Call order: library_open before anything else of gRPC in a process, as often as one likes; each
 *             is matched by library_close.
 * Memory:     the library's own.
 * Threads:    open and close from anywhere.
 *
 * The library logs to stderr by itself. Here it is silent, for a library of ours never prints;
 * GRPC_VERBOSITY or GRPC_TRACE in the environment give it its voice back.
 *
 * The trap: what a thread writes before it starts a batch and another reads after the queue gave
 * the tag back is ordered by locks inside the library, which ThreadSanitizer cannot see. hand and
 * take say it in our own words.
 */
#ifndef AW_RPC_LIBRARY_H
#define AW_RPC_LIBRARY_H

#include <aware/err.h>
#include <grpc/grpc.h>
#include <stdatomic.h>

void aw__library_open(void);
void aw__library_close(void);

/* What a queue gives back. Embedded in what it belongs to. */
struct aw__tag {
    void *owner;
    uint32_t kind;
    _Atomic uint32_t handed;
};
static inline void aw__tag_hand(struct aw__tag *tag)
{
    atomic_fetch_add_explicit(&tag->handed, 1, memory_order_release);
}
static inline void aw__tag_take(struct aw__tag *tag)
{
    (void)atomic_load_explicit(&tag->handed, memory_order_acquire);
}

/* The bytes of a message as one piece; no copy where the library has it in one. The slice is the
 * caller's to unref. False: it cannot be read. */
bool aw__message_flatten(grpc_byte_buffer *buffer, grpc_slice *ret_slice);
grpc_byte_buffer *aw__message_copy(const uint8_t *bytes, size_t size);

gpr_timespec aw__deadline_in_us(int64_t us); /* from now; negative: never */

#endif
