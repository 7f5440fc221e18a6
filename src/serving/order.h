/*
 * order.h - in which order waiting requests of a model are served, as a heap of fixed size.
 *
 * FCFS serves by arrival. SSJF (speculative shortest job first) with linear aging serves by
 * key = arrival + alpha x predicted work: no timers, keys never change while a request waits, and
 * a request of work w waits at most alpha (w - w') longer than FCFS would make it wait behind one
 * of work w'. The oracle has the same key with the true work. Alpha 0 is FCFS; infinity is pure
 * shortest job first, which lets long requests starve.
 *
 * Call order: init, then push, pop, peek and remove in any order, deinit.
 * Memory:     one block, sized at init; nothing else allocates.
 * Threads:    single owner.
 */
#ifndef AW_SERVING_ORDER_H
#define AW_SERVING_ORDER_H

#include "base/alloc.h"

#define AW_SERVING_QUEUE_MAX (1u << 22) /* requests that wait at once */

enum aw_serving_order_kind { AW_SERVING_FCFS, AW_SERVING_SSJF, AW_SERVING_ORACLE };

struct aw_serving_order {
    uint32_t kind; /* enum aw_serving_order_kind */
    double alpha;  /* seconds of arrival that a second of work is worth; >= 0 */
};
/* Measured on LMSYS lengths: the largest alpha whose p99 is no worse than that of FCFS. */
#define AW_SERVING_ALPHA_ALONE   10.0 /* one request at a time */
#define AW_SERVING_ALPHA_BATCHED 2.0  /* several in a batch */

const char *aw_serving_order_name(uint32_t kind); /* "fcfs", "ssjf", "oracle" */
/* False: no order has this name, and `ret` is untouched. */
bool aw_serving_order_find(const char *name, uint32_t *ret_kind);

/* Smaller is served first. `work_s` is the predicted work, of the oracle the true one. A work that
 * is not finite or below 0 counts as 0: a broken predictor gives FCFS. */
double aw_serving_key(const struct aw_serving_order *order, double arrival_s, double work_s);

struct aw_serving_waiting {
    double key;
    uint64_t number; /* of arrivals: equal keys are served in order of arrival */
    uint32_t id;     /* the caller's, below the capacity, once in the queue at most */
};

struct aw_serving_queue {
    uint32_t count, capacity;
    uint64_t pushed;
    struct aw_serving_waiting *heap; /* [capacity] */
    uint32_t *place;                 /* [capacity]: id -> place in the heap + 1; 0: not there */
    const struct aw_alloc *alloc;
};

/* On failure `queue` is left zeroed, and deinit of it is a no-op. */
AW_NODISCARD enum aw_err aw_serving_queue_init(struct aw_serving_queue *queue, uint32_t capacity,
                                               const struct aw_alloc *alloc);
void aw_serving_queue_deinit(struct aw_serving_queue *queue);
void aw_serving_queue_clear(struct aw_serving_queue *queue);

/* False: full, or the id is in it already; nothing has changed. */
bool aw_serving_queue_push(struct aw_serving_queue *queue, uint32_t id, double key);
/* The first in order leaves the queue; false: it is empty. */
bool aw_serving_queue_pop(struct aw_serving_queue *queue, uint32_t *ret_id);
bool aw_serving_queue_peek(const struct aw_serving_queue *queue, uint32_t *ret_id);
/* A client has gone: false: it did not wait. */
bool aw_serving_queue_remove(struct aw_serving_queue *queue, uint32_t id);

#endif
