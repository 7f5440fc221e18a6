/*
 * fuzz_promtext.c - any bytes as what a program exposes for Prometheus.
 *
 * A histogram that was read has rising bounds and counts that never fall, up to infinity; added to
 * nothing it is itself; its quantiles lie between its bounds, in their order.
 */
#include "fuzz.h"

#include "base/promtext.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_histogram(const struct aw_promtext_histogram *h)
{
    AW_ASSERT(h->buckets > 0 && h->buckets <= AW_PROMTEXT_BUCKETS_MAX);
    AW_ASSERT(isinf(h->bound[h->buckets - 1]));
    for (uint32_t b = 0; b < h->buckets; b++) {
        AW_ASSERT(isfinite(h->count[b]) && h->count[b] >= 0);
        AW_ASSERT(b == 0 || (h->bound[b] > h->bound[b - 1] && h->count[b] >= h->count[b - 1]));
    }
    const double p50 = aw_promtext_quantile(h->bound, h->count, h->buckets, 0.5);
    const double p99 = aw_promtext_quantile(h->bound, h->count, h->buckets, 0.99);
    AW_ASSERT(isnan(p50) == isnan(p99) && !(p50 > p99 + 1e-9 * fabs(p99)));
    AW_ASSERT(isnan(p50) || p99 <= h->bound[h->buckets - 2]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct aw_promtext_histogram h, sum = {0}, twice = {0};
    const struct aw_promtext_histogram nothing = {0};
    struct aw_diag diag = {0};
    char *bytes = malloc(size + 1); /* of its own length: a step beyond it is seen */
    AW_ASSERT(bytes);
    if (size > 0)
        memcpy(bytes, data, size);
    const enum aw_err err = aw_promtext_read(bytes, size, "took_seconds", &h, &diag);
    free(bytes);
    if (err) {
        check_refusal(&diag, err);
        return 0;
    }
    check_histogram(&h);
    AW_ASSERT(aw_promtext_add(&sum, &nothing, &h));
    AW_ASSERT(!memcmp(sum.count, h.count, h.buckets * sizeof *h.count));
    AW_ASSERT(aw_promtext_add(&twice, &h, &sum)); /* nothing happened in between */
    AW_ASSERT(twice.count[h.buckets - 1] == 0);
    return 0;
}
