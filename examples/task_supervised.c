/*
 * task_supervised.c - a task of one's own: how many threads should a service have?
 *
 *     task_supervised
 *
 * A pair is a service (how much of a request waits, how much locks) on a machine (cores). The value
 * is the time of a request at a number of threads. The table below is all that the meta-learner
 * needs; docs/mechanisms/tasks.md explains every member.
 */
#include <aware/task.h>

#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "flash/supervised.h"

#define THREADS 10u

static void pair(uint64_t seed, enum aw_task_split split, struct aw_task_pair *ret)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, split);
    *ret = (struct aw_task_pair){.seed = seed, .split = split, .truth_count = 3};
    ret->truth[0] = aw_rng_uniform(&rng, 0.1, 2); /* waits */
    ret->truth[1] = aw_rng_uniform(&rng, 0, 0.2); /* locks */
    ret->truth[2] = aw_rng_uniform(&rng, 2, 32);  /* cores */
    snprintf(ret->application, sizeof ret->application, "service");
}

static double threads_of(uint32_t index)
{
    return pow(2, 0.75 * index);
}

static void configuration(uint32_t index, float *features, char name[AW_TASK_NAME_MAX])
{
    features[0] = (float)index;
    snprintf(name, AW_TASK_NAME_MAX, "%.0f threads", threads_of(index));
}

/* Work over threads up to the cores, waiting over threads, and locks that grow with them. */
static double sample(const struct aw_task_pair *p, uint32_t index, uint64_t seed)
{
    struct aw_rng rng;
    const double n = threads_of(index);
    aw_rng_init(&rng, seed, 100 + index);
    return (1 / fmin(n, p->truth[2]) + p->truth[0] / n + 0.05 * p->truth[1] * n) *
           exp(0.02 * aw_rng_normal(&rng));
}

static double last_seen(const float *features, const double *values, uint32_t count,
                        const float *target)
{
    (void)features, (void)target;
    return values[count - 1];
}

static const struct aw_task_baseline baselines[] = {
    {.name = "last-seen", .summary = "What was measured last", .predict = last_seen},
};
static const struct aw_task task = {
    .name = "threads",
    .summary = "How many threads a service should have",
    .kind = AW_TASK_SUPERVISED,
    .feature_dim = 1,
    .configuration_count = THREADS,
    .pair = pair,
    .configuration = configuration,
    .sample = sample,
    .baseline = baselines,
    .baseline_count = 1,
    .verb = {[AW_TASK_COMPARE] = aw_task_supervised},
};

int main(void)
{
    const struct aw_task_ask ask = {.seed = 1, .seeds = 1, .threads = 1};
    struct aw_diag diag = {0};
    const enum aw_err err = aw_task_do(&task, AW_TASK_COMPARE, &ask, &aw_task_sink_lines, &diag);
    if (err)
        fprintf(stderr, "task_supervised: %s\n", diag.text);
    return aw_err_exit_code(err);
}
