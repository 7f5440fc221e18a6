/* backoff.c - see backoff.h. */
#include "kube/backoff.h"

#include <aware/err.h>

void aw_kube_bucket_init(struct aw_kube_bucket *bucket, double per_second, uint32_t burst)
{
    AW_ASSERT(per_second > 0 && burst >= 1);
    const int64_t cost_us = (int64_t)(1e6 / per_second);
    *bucket = (struct aw_kube_bucket){.cost_us = cost_us, .saved_us = cost_us * burst};
}

int64_t aw_kube_bucket_take(struct aw_kube_bucket *bucket, int64_t now_us)
{
    if (bucket->free_at_us < now_us)
        bucket->free_at_us = now_us;
    bucket->free_at_us += bucket->cost_us;
    const int64_t wait_us = bucket->free_at_us - now_us - bucket->saved_us;
    if (wait_us <= 0)
        return 0;
    bucket->held_count++;
    bucket->held_total_us += wait_us;
    return wait_us;
}

int64_t aw_kube_backoff_next(struct aw_kube_backoff *backoff, int64_t retry_after_us,
                             struct aw_rng *rng)
{
    int64_t wait_us = backoff->first_us;
    for (uint32_t i = 0; i < backoff->failures && wait_us < backoff->max_us; i++)
        wait_us *= 2;
    if (wait_us > backoff->max_us)
        wait_us = backoff->max_us;
    if (backoff->failures < UINT32_MAX)
        backoff->failures++;
    wait_us = wait_us / 2 + (int64_t)((double)(wait_us - wait_us / 2) * aw_rng_double(rng));
    if (retry_after_us > 0) {
        const int64_t asked_us =
            retry_after_us + (int64_t)((double)retry_after_us * 0.1 * aw_rng_double(rng));
        wait_us = wait_us > asked_us ? wait_us : asked_us;
    }
    return wait_us;
}

void aw_kube_backoff_reset(struct aw_kube_backoff *backoff)
{
    backoff->failures = 0;
}
