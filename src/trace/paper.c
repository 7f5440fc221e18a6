/*
 * paper.c - FIRM's own features (3.2.3), kept to compare with: relative importance, Pearson's
 * correlation of a service's time with the critical path's, and congestion intensity, p99 over p50
 * of its time. Time of a call outside of its server counts as the callee's.
 */
#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "trace/localize_internal.h"

enum aw_err aw_localize_paper(struct aw_localization *at, const struct aw_window *window)
{
    const struct aw_alloc *alloc = at->alloc;
    const uint32_t n = window->request_count;
    double *times = aw_alloc_new(alloc, (size_t)n + 1, sizeof *times);
    uint32_t *place = aw_alloc_new(alloc, (size_t)window->part_count + 1, sizeof *place);
    double mean = 0, square = 0;
    if (!times || !place) {
        aw_alloc_free(alloc, times);
        aw_alloc_free(alloc, place);
        return AW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < window->part_count; i++)
        place[i] = aw__localize_find(at, window->parts[i].service);
    for (uint32_t i = 0; i < n; i++)
        mean += (double)window->requests[i].latency_ns / n;
    for (uint32_t i = 0; i < n; i++) {
        const double off = (double)window->requests[i].latency_ns - mean;
        square += off * off;
    }
    for (uint32_t service = 0; service < at->count; service++) {
        double sum = 0, sum_square = 0, product = 0;
        uint32_t count = 0;
        for (uint32_t i = 0; i < n; i++) {
            const struct aw_window_request *request = &window->requests[i];
            double time = 0;
            for (uint32_t k = 0; k < request->share_count; k++) {
                const struct aw_share *share = &window->shares[request->share_first + k];
                time += place[share->part] == service ? (double)share->ns : 0;
            }
            sum += time;
            sum_square += time * time;
            product += time * ((double)request->latency_ns - mean);
            if (time > 0)
                times[count++] = time;
        }
        const double spread = sum_square - sum * sum / n;
        struct aw_culprit *culprit = &at->culprits[service];
        culprit->paper[AW_PAPER_RELATIVE] =
            spread > 0 && square > 0 ? product / sqrt(spread * square) : 0;
        if (count) {
            aw_stats_sort(times, count);
            culprit->paper[AW_PAPER_CONGESTION] =
                log(aw_stats_quantile(times, count, 0.99) / aw_stats_median(times, count));
        }
    }
    aw_alloc_free(alloc, times);
    aw_alloc_free(alloc, place);
    return AW_OK;
}
