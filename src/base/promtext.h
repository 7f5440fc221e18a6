/*
 * promtext.h - one histogram out of what a program exposes for Prometheus, and its quantiles.
 *
 * Of a page in Prometheus' text format (OpenMetrics' as well) only the lines of one histogram are
 * read, and those strictly: a page with something else under its name is refused as a whole. Series
 * that differ in their labels are added up bound by bound, as "sum by (le)" does.
 *
 * Memory:  nothing is allocated; a histogram is a plain struct, empty when zeroed.
 * Threads: pure functions of their arguments.
 *
 * The trap: counters only ever grow, until their process starts anew. What happened in between two
 * readings is aw_promtext_add, which knows that, and never a subtraction.
 */
#ifndef AW_BASE_PROMTEXT_H
#define AW_BASE_PROMTEXT_H

#include <aware/err.h>

#define AW_PROMTEXT_BUCKETS_MAX 64u  /* with the last, which is for everything */
#define AW_PROMTEXT_NAME_MAX    128u /* bytes of a metric's name, with its NUL */

struct aw_promtext_histogram {
    uint32_t buckets;                      /* 0: nothing is known */
    double bound[AW_PROMTEXT_BUCKETS_MAX]; /* rising; the last is infinity */
    double count[AW_PROMTEXT_BUCKETS_MAX]; /* up to that bound: never falls */
};

/* Whether it can be a metric's name: letters, digits, underscores and colons, no digit first, and
 * fewer than AW_PROMTEXT_NAME_MAX bytes. */
bool aw_promtext_name_valid(const char *name);

/* The histogram `name` (without "_bucket"). AW_ERR_NODATA: it is not there. AW_ERR_FORMAT: a line
 * of it is malformed or the page's last has no end; a bound is missing in one of its series or is
 * there twice; the bucket for everything is missing; or counts fall from a bucket to the next.
 * AW_ERR_LIMIT: too many bounds. `ret` is untouched on failure. */
AW_NODISCARD enum aw_err aw_promtext_read(const char *text, size_t len, const char *name,
                                          struct aw_promtext_histogram *ret, struct aw_diag *diag);

/* Adds what happened from `earlier` to `later` to `sum`. Where a counter has fallen, or the bounds
 * differ, the program has restarted, and all of `later` happened since. An empty `sum` takes the
 * bounds of `later`; false: its bounds differ, and nothing was added. */
bool aw_promtext_add(struct aw_promtext_histogram *sum, const struct aw_promtext_histogram *earlier,
                     const struct aw_promtext_histogram *later);

/* The quantile of cumulative `counts` at ascending `bounds`, the last of which is infinity, by
 * linear interpolation as histogram_quantile does it; beyond the last finite bound, that bound.
 * NaN: nothing was counted. */
double aw_promtext_quantile(const double *bounds, const double *counts, uint32_t count,
                            double quantile);

#endif
