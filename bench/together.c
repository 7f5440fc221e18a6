/*
 * together.c - of `aware-bench sim --fidelity`: applications that share nodes whose limits exceed
 * their cores. How many times longer p99 is beside the others, in the fast model and in the
 * reference; on applications that nothing was chosen on.
 */
#include "base/stats.h"
#include "base/threads.h"
#include "bench/bench.h"
#include "cluster/sim/contention_testing.h"

#define CROWDS  500u
#define SECONDS 300
/* Offered CPU over cores up to which a cluster is below saturation. */
#define BELOW 0.8

struct found {
    double offered, slower[2][TENANTS_MAX];
    uint32_t count;
    enum aw_err err;
};

static void one(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    struct found *found = (struct found *)ctx + index;
    struct crowd c;
    crowd_draw(1000000 + index, 1, &c);
    found->offered = c.offered;
    found->count = c.count;
    found->err = crowd_compare(&c, SECONDS, found->slower);
}

static void tell(struct aw__bench *bench, const struct found *found, bool below, double goal)
{
    double error[CROWDS * TENANTS_MAX];
    size_t count = 0, right = 0, pairs = 0;
    for (uint32_t i = 0; i < CROWDS; i++)
        for (uint32_t k = 0; k < found[i].count && (found[i].offered < BELOW) == below; k++) {
            const double *fast = found[i].slower[AW_SIM_FAST];
            const double *reference = found[i].slower[AW_SIM_REFERENCE];
            if (isnan(reference[k]))
                continue;
            error[count++] = 100 * expm1(fabs(fast[k] - reference[k]));
            for (uint32_t j = 0; j < k; j++)
                if (!isnan(reference[j]) && fabs(reference[j] - reference[k]) > log(1.5)) {
                    pairs++;
                    right += (fast[j] > fast[k]) == (reference[j] > reference[k]);
                }
        }
    if (count == 0 || pairs == 0)
        return;
    const char *where = below ? "below saturation" : "beyond";
    struct aw__bench_figure *figure = aw__bench_add(
        bench, "%", "together / alone, %s: error of p99, median of %zu", where, count);
    aw_stats_sort(error, count);
    figure->value = aw_stats_quantile(error, count, 0.5);
    figure->goal = goal;
    figure->lower_is_better = true;
    figure =
        aw__bench_add(bench, "%", "together / alone, %s: error of p99, 90th percentile", where);
    figure->value = aw_stats_quantile(error, count, 0.9);
    figure->lower_is_better = true;
    figure = aw__bench_add(bench, "%", "together / alone, %s: right order of %zu pairs 1.5x apart",
                           where, pairs);
    figure->value = 100 * (double)right / (double)pairs;
}

enum aw_err aw__bench_together(struct aw__bench *bench, struct aw_diag *diag)
{
    struct aw_threads pool;
    struct found *found = aw_alloc_new(NULL, CROWDS, sizeof *found);
    enum aw_err err = found ? aw_threads_init(&pool, aw_threads_cpu_count(), NULL) : AW_ERR_NOMEM;
    if (err) {
        aw_alloc_free(NULL, found);
        return aw_fail(diag, err, "no memory or threads for %u co-locations", CROWDS);
    }
    aw_threads_parallel_for(&pool, CROWDS, 1, one, found);
    aw_threads_deinit(&pool);
    for (uint32_t i = 0; !err && i < CROWDS; i++)
        err = found[i].err ? aw_fail(diag, found[i].err, "co-location %u failed", i) : AW_OK;
    if (!err) {
        tell(bench, found, true, 20);
        tell(bench, found, false, 35);
    }
    aw_alloc_free(NULL, found);
    return err;
}
