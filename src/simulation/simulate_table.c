/* simulate_table.c - many controllers on many applications, in parallel, and what to say of it. */
#include "simulation/simulate.h"

#include "base/threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define LEVEL            0.95 /* of every interval */
#define RESAMPLES        2000u
#define STREAM_BOOTSTRAP 0x7ab1e000u

const struct aw_simulate_column aw_simulate_column[AW_SIMULATE_COLUMN_COUNT] = {
#define X(member, unit, better, text) \
    {#member, unit, AW_SIMULATE_##better, text, offsetof(struct aw_simulate_columns, member)},
    AW_SIMULATE_COLUMN_MAP(X)
#undef X
};

static double *at(struct aw_simulate_columns *columns, uint32_t column)
{
    return (double *)(void *)((char *)columns + aw_simulate_column[column].offset);
}

double aw_simulate_column_get(const struct aw_simulate_columns *columns, uint32_t column)
{
    AW_ASSERT(column < AW_SIMULATE_COLUMN_COUNT);
    double value;
    memcpy(&value, (const char *)columns + aw_simulate_column[column].offset, sizeof value);
    return value;
}

/* --- comparison -------------------------------------------------------------------------------
 */

struct comparison {
    const struct aw_simulate_config *config;
    const struct aw_simulate_case *cases;
    const struct aw_simulate_policy *policies;
    uint32_t case_count, policy_count;
    aw_simulate_progress *progress;
    void *ctx;
    const struct aw_alloc *alloc;
    struct aw_simulate_summary *ret;

    pthread_mutex_t lock; /* of all below */
    uint32_t done;
    uint32_t failed; /* lowest pair that failed; UINT32_MAX: none */
    enum aw_err err;
    struct aw_diag diag;
    _Atomic bool stop;
};

static void one_pair(void *ctx, uint32_t pair, uint32_t worker)
{
    (void)worker;
    struct comparison *c = ctx;
    if (atomic_load(&c->stop))
        return;
    const uint32_t index = pair / c->policy_count;
    const struct aw_simulate_case *from = &c->cases[index];
    struct aw_simulate_policy policy = c->policies[pair % c->policy_count];
    struct aw_fallback_task task = aw_simulate_task(&c->config->settings, from);
    struct aw_diag diag = {0};
    bool kept;
    enum aw_err err =
        aw_simulate_tune(c->config, from, index, &policy, &task, c->alloc, &kept, &diag);
    if (!err)
        err = aw_simulate_run(c->config, from, index, &policy, &task, NULL, NULL, c->alloc,
                              &c->ret[pair], NULL, &diag);
    pthread_mutex_lock(&c->lock);
    c->done++;
    if (err && pair < c->failed) {
        c->failed = pair;
        c->err = err;
        c->diag = diag;
    }
    if (c->progress && !c->progress(c->ctx, c->done, c->case_count * c->policy_count))
        atomic_store(&c->stop, true);
    pthread_mutex_unlock(&c->lock);
}

enum aw_err aw_simulate_compare(const struct aw_simulate_config *config,
                                const struct aw_simulate_case *cases, uint32_t case_count,
                                const struct aw_simulate_policy *policies, uint32_t policy_count,
                                aw_simulate_progress *progress, void *ctx,
                                const struct aw_alloc *alloc, struct aw_simulate_summary *ret,
                                struct aw_diag *diag)
{
    if (case_count == 0 || case_count > AW_SIMULATE_CASES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "expected 1 to %u applications, found %" PRIu32,
                       AW_SIMULATE_CASES_MAX, case_count);
    if (policy_count == 0 || policy_count > AW_SIMULATE_POLICIES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "expected 1 to %u policies, found %" PRIu32,
                       AW_SIMULATE_POLICIES_MAX, policy_count);
    struct aw_threads pool;
    struct comparison c = {.config = config,
                           .cases = cases,
                           .policies = policies,
                           .case_count = case_count,
                           .policy_count = policy_count,
                           .progress = progress,
                           .ctx = ctx,
                           .alloc = alloc,
                           .ret = ret,
                           .failed = UINT32_MAX};
    enum aw_err err = aw_threads_init(&pool, config->thread_count, alloc);
    if (err)
        return aw_fail(diag, err, "no pool of %" PRIu32 " threads", config->thread_count);
    pthread_mutex_init(&c.lock, NULL);
    aw_threads_parallel_for(&pool, case_count * policy_count, 1, one_pair, &c);
    pthread_mutex_destroy(&c.lock);
    aw_threads_deinit(&pool);
    if (c.failed != UINT32_MAX) {
        if (diag)
            *diag = c.diag;
        return c.err;
    }
    return atomic_load(&c.stop) ? aw_fail(diag, AW_ERR_INTERRUPTED, "stopped") : AW_OK;
}

/* --- rows -------------------------------------------------------------------------------------
 */

struct rows {
    const struct aw_simulate_summary *summaries;
    uint32_t case_count, policy_count, baseline;
    double slo_budget;
    uint64_t seed;
    double *x, *scratch;
};

static struct aw_interval interval(const struct rows *r, uint64_t stream)
{
    struct aw_rng rng;
    aw_rng_init(&rng, r->seed, STREAM_BOOTSTRAP + stream);
    return aw_stats_bootstrap_mean(r->x, r->case_count, LEVEL, RESAMPLES, &rng, r->scratch);
}

static void against_baseline(const struct rows *r, uint32_t policy, struct aw_simulate_row *row)
{
    const struct aw_simulate_summary *s = r->summaries;
    for (uint32_t i = 0; i < r->case_count; i++) {
        const struct aw_simulate_columns *ours = &s[i * r->policy_count + policy].mean;
        const struct aw_simulate_columns *theirs = &s[i * r->policy_count + r->baseline].mean;
        r->x[i] = ours->reward - theirs->reward;
        row->cheaper_count += ours->cost < theirs->cost &&
                              ours->violation_share <= fmax(theirs->violation_share, r->slo_budget);
    }
    row->reward_gain = aw_stats_mean(r->x, r->case_count);
    row->reward_gain_interval = interval(r, AW_SIMULATE_COLUMN_COUNT);
    for (uint32_t i = 0; i < r->case_count; i++) {
        const double ours = s[i * r->policy_count + policy].mean.cost;
        const double theirs = s[i * r->policy_count + r->baseline].mean.cost;
        r->x[i] = ours > 0 && theirs > 0 ? log(ours / theirs) : 0; /* free of charge: the same */
    }
    row->cost_ratio = exp(aw_stats_mean(r->x, r->case_count));
    row->cost_ratio_interval = interval(r, AW_SIMULATE_COLUMN_COUNT + 1);
    row->cost_ratio_interval.low = exp(row->cost_ratio_interval.low);
    row->cost_ratio_interval.high = exp(row->cost_ratio_interval.high);
}

static void one_row(const struct rows *r, uint32_t policy, struct aw_simulate_row *ret)
{
    struct aw_simulate_row row = {.case_count = r->case_count};
    memcpy(row.policy, r->summaries[policy].policy, sizeof row.policy);
    for (uint32_t column = 0; column < AW_SIMULATE_COLUMN_COUNT; column++) {
        for (uint32_t i = 0; i < r->case_count; i++)
            r->x[i] =
                aw_simulate_column_get(&r->summaries[i * r->policy_count + policy].mean, column);
        *at(&row.mean, column) = aw_stats_mean(r->x, r->case_count);
        row.interval[column] = interval(r, column);
    }
    for (uint32_t i = 0; i < r->case_count; i++)
        row.kept_count += r->summaries[i * r->policy_count + policy].slo_kept;
    against_baseline(r, policy, &row);
    *ret = row;
}

enum aw_err aw_simulate_rows(const struct aw_simulate_summary *summaries, uint32_t case_count,
                             uint32_t policy_count, uint32_t baseline, double slo_budget,
                             uint64_t seed, const struct aw_alloc *alloc,
                             struct aw_simulate_row *ret_rows, struct aw_diag *diag)
{
    AW_ASSERT(case_count > 0 && policy_count > 0 && baseline < policy_count);
    double *block = aw_alloc_new(alloc, 2 * (size_t)case_count + RESAMPLES, sizeof *block);
    if (!block)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a table of %" PRIu32 " applications",
                       case_count);
    const struct rows r = {.summaries = summaries,
                           .case_count = case_count,
                           .policy_count = policy_count,
                           .baseline = baseline,
                           .slo_budget = slo_budget,
                           .seed = seed,
                           .x = block,
                           .scratch = block + case_count};
    for (uint32_t p = 0; p < policy_count; p++)
        one_row(&r, p, &ret_rows[p]);
    aw_alloc_free(alloc, block);
    return AW_OK;
}
