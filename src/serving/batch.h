/*
 * batch.h - one model server with a queue and slots: what an order of service is worth.
 *
 * Requests of T = C + K N at load rho, Poisson or gamma gaps, in the order of order.h, not
 * interrupted. Batching:
 *   none        one request at a time
 *   dynamic     up to `slots` that wait start together; the next batch when the longest has ended
 *   continuous  a request joins as soon as a slot is free, and leaves when it is done; each token
 *               takes (1 + slowdown (B - 1)) as long in a batch of B
 * Between two events a batch does not change, so it is advanced in one step: a million requests
 * take a second or less.
 *
 * Memory:  the caller's arrays; nothing allocates. Threads: pure but for its arguments.
 */
#ifndef AW_SERVING_BATCH_H
#define AW_SERVING_BATCH_H

#include "base/rng.h"
#include "serving/order.h"

#define AW_BATCH_SLOTS_MAX 256u

enum aw_batch_kind { AW_BATCH_NONE, AW_BATCH_DYNAMIC, AW_BATCH_CONTINUOUS };

struct aw_batch_settings {
    struct aw_serving_order order;
    uint32_t kind; /* enum aw_batch_kind */
    uint32_t slots;
    double first_s, token_s; /* C and K */
    double slowdown;
    double load; /* arrivals are scaled to it */
    double cv;   /* of gaps: 1 Poisson, above: gamma bursts */
    uint64_t seed;
};
/* `tokens` and `guess` [count]: true and predicted lengths, drawn from in random order.
 * `latency` has room for 3 n; its first n are written: seconds from arrival to end, in order of
 * arrival. `queue` has room for n. */
struct aw_batch_result {
    double mean_s, p50_s, p99_s, max_s;
    double busy;         /* share of time */
    double done_quarter; /* requests/s when a quarter is done: what the paper calls throughput */
};
AW_NODISCARD enum aw_err aw_batch_run(const struct aw_batch_settings *settings, const float *tokens,
                                      const float *guess, uint32_t count, uint32_t n,
                                      struct aw_serving_queue *queue, double *latency,
                                      struct aw_batch_result *ret);
/* Seconds of one request at full batches: what load 1 can bear. */
double aw_batch_capacity(const struct aw_batch_settings *settings, double tokens_mean);

#endif
