/*
 * backoff.h - how fast we may ask: a token bucket, and how long to wait after a refusal.
 *
 * Call order: init, then take before each request; backoff_next after each failure and
 *             backoff_reset after a success.
 * Memory:     plain structs. Threads: single owner.
 *
 * Time is an argument: monotonic microseconds. Jitter comes from the caller's generator, so that a
 * hundred controllers that lost one server do not come back in the same millisecond.
 */
#ifndef AW_KUBE_BACKOFF_H
#define AW_KUBE_BACKOFF_H

#include "base/rng.h"

/* Tokens as time: each request costs `cost_us`, and at most burst * cost_us is saved up (the
 * generic cell rate algorithm; no rounding accumulates). */
struct aw_kube_bucket {
    int64_t cost_us;
    int64_t saved_us;      /* burst * cost_us */
    int64_t free_at_us;    /* when the bucket will be full again; what lies ahead is spent */
    uint64_t held_count;   /* requests that had to wait */
    int64_t held_total_us; /* and for how long */
};

/* `per_second` > 0, `burst` >= 1. */
void aw_kube_bucket_init(struct aw_kube_bucket *bucket, double per_second, uint32_t burst);
/* Takes one token and returns how long to wait before using it; 0: go on. */
int64_t aw_kube_bucket_take(struct aw_kube_bucket *bucket, int64_t now_us);

struct aw_kube_backoff {
    int64_t first_us;
    int64_t max_us;
    uint32_t failures; /* in a row */
};

/* How long to wait: doubled with each failure up to the maximum, of which a random half; never less
 * than `retry_after_us`, what the server asked for, plus a tenth at random. */
int64_t aw_kube_backoff_next(struct aw_kube_backoff *backoff, int64_t retry_after_us,
                             struct aw_rng *rng);
void aw_kube_backoff_reset(struct aw_kube_backoff *backoff);

#endif
