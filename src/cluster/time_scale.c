/* time_scale.c - a cluster whose time runs faster. */
#include "cluster/time_scale.h"

#include <math.h>

static int64_t outer_of(const struct aw_time_scale *pace, int64_t inner_us)
{
    return inner_us == AW_NEVER
               ? AW_NEVER
               : pace->outer_us + llround((double)(inner_us - pace->inner_us) * pace->speed);
}

/* Rounded up: who sleeps until then must not wake too early. */
static int64_t inner_of(const struct aw_time_scale *pace, int64_t outer_us)
{
    return pace->inner_us + (int64_t)ceil((double)(outer_us - pace->outer_us) / pace->speed);
}

static void pod_turn(const struct aw_time_scale *pace, struct aw_pod *pod)
{
    pod->started_us = outer_of(pace, pod->started_us);
    pod->ready_change_us = outer_of(pace, pod->ready_change_us);
    pod->cpu_cores_used.at_us = outer_of(pace, pod->cpu_cores_used.at_us);
    pod->memory_bytes_used.at_us = outer_of(pace, pod->memory_bytes_used.at_us);
}

static void sample_turn(struct aw_time_scale *pace, struct aw_sample *sample)
{
    struct aw_figure *const figures[] = {
        &sample->cpu_cores_used,  &sample->memory_bytes_used, &sample->memory_bytes_peak,
        &sample->throttled_share, &sample->disk_bytes_per_s,  &sample->net_bytes_per_s,
        &sample->arrivals_per_s,  &sample->completions_per_s, &sample->errors_per_s,
        &sample->in_flight,       &sample->latency_us_p50,    &sample->latency_us_p95,
        &sample->latency_us_p99,  &sample->latency_us_mean,   &sample->inside_us_p50,
        &sample->inside_us_p99,
    };
    sample->at_us = outer_of(pace, sample->at_us);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        figures[i]->at_us = outer_of(pace, figures[i]->at_us);
    AW_ASSERT(sample->pod_count <= AW_CLUSTER_PODS_MAX);
    for (uint32_t i = 0; i < sample->pod_count; i++) {
        pace->pod[i] = sample->pods[i];
        pod_turn(pace, &pace->pod[i]);
    }
    sample->pods = pace->pod;
}

static uint32_t pace_capabilities(const void *self)
{
    const struct aw_time_scale *pace = self;
    return pace->inner.ops->capabilities(pace->inner.self);
}

static enum aw_err pace_observe(void *self, uint32_t workload, int64_t deadline_us,
                                struct aw_sample *ret_sample)
{
    struct aw_time_scale *pace = self;
    struct aw_sample sample = {0};
    const enum aw_err err =
        pace->inner.ops->observe(pace->inner.self, workload, deadline_us, &sample);
    if (err)
        return err;
    sample_turn(pace, &sample);
    *ret_sample = sample;
    return AW_OK;
}

static enum aw_err pace_apply(void *self, uint32_t workload, const struct aw_plan *plan,
                              int64_t deadline_us)
{
    struct aw_time_scale *pace = self;
    return pace->inner.ops->apply(pace->inner.self, workload, plan, deadline_us);
}

static enum aw_err pace_advance(void *self, int64_t until_us)
{
    struct aw_time_scale *pace = self;
    return pace->inner.ops->advance(pace->inner.self, inner_of(pace, until_us));
}

static int64_t pace_now_us(const void *self)
{
    const struct aw_time_scale *pace = self;
    return outer_of(pace, pace->inner.ops->now_us(pace->inner.self));
}

static void pace_free(void *self)
{
    struct aw_time_scale *pace = self;
    if (!pace)
        return;
    pace->inner.ops->free(pace->inner.self);
    pace->inner.self = NULL;
}

void aw_time_scale_init(struct aw_time_scale *pace, struct aw_cluster inner, double speed,
                        int64_t begin_us)
{
    AW_ASSERT(speed >= AW_TIME_SCALE_MIN && speed <= AW_TIME_SCALE_MAX);
    pace->inner = inner;
    pace->speed = speed;
    pace->inner_us = inner.ops->now_us(inner.self);
    pace->outer_us = begin_us;
}

struct aw_cluster aw_time_scale_cluster(struct aw_time_scale *pace)
{
    static const struct aw_cluster_ops ops = {
        .name = "pace",
        .capabilities = pace_capabilities,
        .observe = pace_observe,
        .apply = pace_apply,
        .advance = pace_advance,
        .now_us = pace_now_us,
        .free = pace_free,
    };
    return (struct aw_cluster){.ops = &ops, .self = pace};
}
