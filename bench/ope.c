/*
 * ope.c - how far off-policy evaluation can be trusted: how often its intervals hold the
 * truth, how wide they are, how long one takes. The cases and their truths are of ope_cases.h.
 */
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stats.h"
#include "base/threads.h"
#include "bench/ope_cases.h"

#define TRACE          "azure_functions_2019_fullday/f1250_inv.csv" /* below AWARE_DATA_DIR */
#define PENDULUM_SHARE 4u /* one record of pendulum-v1 to so many of autoscale-v0 */
#define RECORDS_MAX    4096u
#define SECONDS_MAX    1.0 /* of one estimate, without the policy's own */

struct work {
    struct aw__ope_config config[2]; /* by enum aw__ope_world */
    uint32_t records[2];
    struct aw__ope_outcome *outcome; /* [records of both][AW__OPE_POLICIES] */
    _Atomic uint32_t done;
    _Atomic int err; /* enum aw_err of a record that failed */
    struct aw_diag diag;
    pthread_mutex_t lock; /* of diag */
    bool tell;
};

static void run_record(void *ctx, uint32_t index, uint32_t worker)
{
    struct work *work = ctx;
    const enum aw__ope_world world =
        index < work->records[AW__OPE_AUTOSCALE] ? AW__OPE_AUTOSCALE : AW__OPE_PENDULUM;
    const uint32_t within = world ? index - work->records[AW__OPE_AUTOSCALE] : index;
    struct aw_diag diag = {0};
    (void)worker;
    if (work->err)
        return;
    enum aw_err err = aw__ope_case(&work->config[world], within,
                                   work->outcome + (size_t)index * AW__OPE_POLICIES, &diag);
    pthread_mutex_lock(&work->lock);
    if (err && !work->err) {
        work->err = err;
        work->diag = diag;
    }
    work->done++;
    if (work->tell)
        fprintf(stderr, "\r%u of %u records", work->done, work->records[0] + work->records[1]);
    pthread_mutex_unlock(&work->lock);
}

/* Figures of those of `count` outcomes that policy, noise and objective select; -1: all. */
struct selection {
    const char *name;
    int policy, noise_percent, paper;
};

static bool selected(const struct selection *s, const struct aw__ope_outcome *o, uint32_t policy)
{
    return (s->policy < 0 || (uint32_t)s->policy == policy) &&
           (s->noise_percent < 0 || lround(100 * o->noise) == s->noise_percent) &&
           (s->paper < 0 || s->paper == o->paper);
}

static void add_coverage(struct aw__bench *bench, const char *world, const struct selection *s,
                         const struct aw__ope_outcome *outcome, uint32_t count, double *scratch,
                         bool goals)
{
    uint32_t n = 0, held = 0, below = 0;
    double *width = scratch, *error = scratch + count, *plain = scratch + 2 * (size_t)count;
    for (uint32_t i = 0; i < count; i++) {
        const struct aw__ope_outcome *o = &outcome[i];
        const struct aw_ope_estimate *e = &o->estimate;
        if (!selected(s, o, i % AW__OPE_POLICIES))
            continue;
        held += e->low <= o->truth && o->truth <= e->high;
        below += e->low <= o->truth;
        width[n] = 50 * (e->high - e->low) / fabs(e->behaviour_mean);
        error[n] = 100 * fabs(e->mean - o->truth) / fabs(e->behaviour_mean);
        plain[n++] = 100 * fabs(e->behaviour_mean - o->truth) / fabs(e->behaviour_mean);
    }
    if (n == 0)
        return;
    struct aw__bench_figure *f = aw__bench_add(
        bench, "%", "%s, %s: truth within 80 %% interval, %u cases", world, s->name, n);
    f->value = 100.0 * held / n;
    if (goals) {
        f->goal = 70;
        f = aw__bench_add(bench, "%", "%s, %s: the same, not too wide", world, s->name);
        f->value = 100.0 * held / n;
        f->goal = 90;
        f->lower_is_better = true;
    }
    aw__bench_add(bench, "%", "%s, %s: truth above the lower bound", world, s->name)->value =
        100.0 * below / n;
    aw_stats_sort(width, n);
    aw_stats_sort(error, n);
    aw_stats_sort(plain, n);
    aw__bench_add(bench, "% of return", "%s, %s: half width, median", world, s->name)->value =
        aw_stats_median(width, n);
    aw__bench_add(bench, "% of return", "%s, %s: error, median", world, s->name)->value =
        aw_stats_median(error, n);
    aw__bench_add(bench, "% of return", "%s, %s: error of the record's own mean", world, s->name)
        ->value = aw_stats_median(plain, n);
}

static enum aw_err write_csv(const char *path, const struct work *work, struct aw_diag *diag)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "cannot be written");
    fprintf(file, "env,record,policy,episodes,noise,paper,vpa,truth,truth_error,record_std,"
                  "behaviour,mean,low,high,fqe,model,episode_error,fqe_spread,model_spread,fit,"
                  "novelty,edge,seconds,policy_seconds\n");
    for (uint32_t r = 0; r < work->records[0] + work->records[1]; r++) {
        const bool pendulum = r >= work->records[0];
        for (uint32_t k = 0; k < AW__OPE_POLICIES; k++) {
            const struct aw__ope_outcome *o = &work->outcome[r * AW__OPE_POLICIES + k];
            const struct aw_ope_estimate *e = &o->estimate;
            fprintf(file,
                    "%s,%u,%s,%u,%g,%d,%d,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,"
                    "%.9g,%.9g,%.9g,%.9g,%.4g,%.4g\n",
                    pendulum ? "pendulum-v1" : "autoscale-v0", pendulum ? r - work->records[0] : r,
                    aw__ope_policy_names[k], o->episodes, o->noise, o->paper, o->vpa, o->truth,
                    o->truth_error, o->record_std, e->behaviour_mean, e->mean, e->low, e->high,
                    e->fqe_mean, e->model_mean, e->episode_error, e->fqe_spread, e->model_spread,
                    e->model_fit, e->novelty, e->edge, o->seconds, o->policy_seconds);
        }
    }
    bool bad = ferror(file);
    bad |= fclose(file) != 0;
    return bad ? aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "was not written whole") : AW_OK;
}

static void report(struct aw__bench *bench, const struct work *work, double *scratch)
{
    static const struct selection groups[] = {
        {"all", -1, -1, -1},
        {"bcq", 0, -1, -1},
        {"bcq moved", 1, -1, -1},
        {"constant", 2, -1, -1},
        {"bcq half constant", 3, -1, -1},
        {"no noise", -1, 0, -1},
        {"noise 0.02", -1, 2, -1},
        {"noise 0.05", -1, 5, -1},
        {"paper's reward", -1, -1, 1},
        {"constrained reward", -1, -1, 0},
    };
    const uint32_t count = work->records[0] * AW__OPE_POLICIES,
                   swings = work->records[1] * AW__OPE_POLICIES;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        add_coverage(bench, "autoscale", &groups[i], work->outcome, count, scratch, i == 0);
    add_coverage(bench, "pendulum", &groups[0], work->outcome + count, swings, scratch, false);
    for (uint32_t i = 0; i < count; i++)
        scratch[i] = work->outcome[i].seconds - work->outcome[i].policy_seconds;
    aw_stats_sort(scratch, count);
    struct aw__bench_figure *figure =
        aw__bench_add(bench, "s", "autoscale: CPU time of an estimate, without the policy's");
    figure->value = aw_stats_median(scratch, count);
    figure->goal = SECONDS_MAX;
    figure->lower_is_better = true;
}

enum aw_err aw__bench_ope(struct aw__bench *bench, struct aw_diag *diag)
{
    const char *data = getenv("AWARE_DATA_DIR");
    char trace[AW_CONF_TEXT_MAX];
    struct work work = {.lock = PTHREAD_MUTEX_INITIALIZER, .tell = isatty(STDERR_FILENO)};
    struct aw_threads pool = {0};
    double *scratch = NULL;
    work.records[AW__OPE_AUTOSCALE] =
        (uint32_t)((bench->case_count + AW__OPE_POLICIES - 1) / AW__OPE_POLICIES);
    work.records[AW__OPE_PENDULUM] =
        (work.records[AW__OPE_AUTOSCALE] + PENDULUM_SHARE - 1) / PENDULUM_SHARE;
    AW_ASSERT(work.records[AW__OPE_AUTOSCALE] <= RECORDS_MAX);
    for (uint32_t world = 0; world < 2; world++)
        aw__ope_config_init(&work.config[world], (enum aw__ope_world)world, bench->seed);
    if (data && (size_t)snprintf(trace, sizeof trace, "%s/" TRACE, data) < sizeof trace)
        work.config[AW__OPE_AUTOSCALE].trace = trace;
    const uint32_t records = work.records[0] + work.records[1];
    work.outcome = aw_alloc_new(NULL, (size_t)records * AW__OPE_POLICIES, sizeof *work.outcome);
    scratch = aw_alloc_new(NULL, (size_t)records * AW__OPE_POLICIES * 3, sizeof *scratch);
    enum aw_err err = AW_OK;
    if (!work.outcome || !scratch)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u records", records);
    if (!err && (err = aw_threads_init(&pool, aw_threads_cpu_count(), NULL)))
        err = aw_fail(diag, err, "no threads for the records");
    if (err)
        goto out;
    aw_threads_parallel_for(&pool, records, 1, run_record, &work);
    if (work.tell)
        fprintf(stderr, "\n");
    if (work.err) {
        err = (enum aw_err)work.err;
        if (diag)
            *diag = work.diag;
        goto out;
    }
    report(bench, &work, scratch);
    if (bench->csv)
        err = write_csv(bench->csv, &work, diag);
out:
    aw_threads_deinit(&pool);
    aw_alloc_free(NULL, scratch);
    aw_alloc_free(NULL, work.outcome);
    return err;
}
