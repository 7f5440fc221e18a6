/*
 * relay.h - the link of link.h for packets that are really sent: trace, queue, delay and loss.
 *
 * Bytes go in with the time at which they came, and come out with the time at which they are due.
 * A packet waits for those before it, is served at the bandwidth of the moment by its bytes (1500
 * are a packet of link.h), and is `delay_s` on its way. What finds `queue` packets waiting is
 * dropped; before that, each is lost with probability `loss`.
 *
 * Call order: open; then put and take in any order, with times that never fall; close.
 * Memory:     one ring, made by open. put and take never allocate.
 * Threads:    single owner.
 *
 * The trap: a link without `queue` (0) is a way back: a delay alone, whatever its rate.
 */
#ifndef AW_CONGESTION_RELAY_H
#define AW_CONGESTION_RELAY_H

#include "congestion/link.h"

struct aw_alloc;

#define AW_RELAY_BYTES_MAX   1504u      /* of a packet */
#define AW_RELAY_PACKETS_MAX (1u << 14) /* waiting and on their way */

struct aw_relay_slot {
    double due_s; /* when it comes out */
    uint16_t bytes;
    uint16_t tag; /* the caller's */
    unsigned char data[AW_RELAY_BYTES_MAX];
};

struct aw_relay {
    struct aw_link link;
    struct aw_rng rng;
    double backlog_end; /* packets served when the last one in the queue has gone */
    uint32_t head, tail;
    struct aw_relay_slot *slot; /* [AW_RELAY_PACKETS_MAX] */
    const struct aw_alloc *alloc;
};

enum aw_relay_fate { AW_RELAY_TAKEN, AW_RELAY_LOST, AW_RELAY_DROPPED };

/* The link is copied; its trace must outlive the relay. */
AW_NODISCARD enum aw_err aw_relay_open(struct aw_relay *relay, const struct aw_link *link,
                                       uint64_t seed, const struct aw_alloc *alloc,
                                       struct aw_diag *diag);
void aw_relay_close(struct aw_relay *relay); /* a zeroed one is a no-op */

/* `*ret_due_s` is when it comes out, of one that is taken. */
enum aw_relay_fate aw_relay_put(struct aw_relay *relay, const void *data, uint32_t bytes,
                                uint16_t tag, double now_s, double *ret_due_s);
double aw_relay_due(const struct aw_relay *relay); /* of the next; INFINITY: nothing is inside */
/* The next one that is due at `now_s`, valid until the next put; NULL: none. */
const struct aw_relay_slot *aw_relay_take(struct aw_relay *relay, double now_s);
/* Packets that the link can have served from `from_s` to `until_s`. */
double aw_link_capacity(const struct aw_link *link, double from_s, double until_s);

#endif
