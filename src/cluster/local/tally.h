/*
 * tally.h - latencies counted for ever by one thread, read at any time by others.
 *
 * Buckets as an HDR histogram has them: 64 per power of two, so that a quantile is off by less than
 * 1.6 %, from 1 us to 12 days. Nothing is ever reset: a window is the difference of two readings,
 * so that whoever counts never waits for whoever reads, and no request falls between two windows.
 *
 * Memory:  fixed.
 * Threads: one thread adds; any thread takes readings. A reading during an add may miss it.
 */
#ifndef AW_CLUSTER_LOCAL_TALLY_H
#define AW_CLUSTER_LOCAL_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

#define AW__TALLY_SUB_BITS 6u
#define AW__TALLY_OCTAVES  34u
#define AW__TALLY_BUCKETS  ((AW__TALLY_OCTAVES + 1) << AW__TALLY_SUB_BITS)

struct aw__tally {
    _Atomic uint64_t bucket[AW__TALLY_BUCKETS];
    _Atomic uint64_t sum_us;
};
struct aw__tally_reading {
    uint64_t count, sum_us;
    uint64_t bucket[AW__TALLY_BUCKETS];
};

void aw__tally_add(struct aw__tally *tally, int64_t latency_us);
void aw__tally_read(const struct aw__tally *tally, struct aw__tally_reading *ret);
/* What was added between two readings, into `later`. */
void aw__tally_since(struct aw__tally_reading *later, const struct aw__tally_reading *earlier);
/* NAN where there is nothing. */
double aw__tally_quantile(const struct aw__tally_reading *reading, double q);
double aw__tally_mean(const struct aw__tally_reading *reading);

#endif
