/*
 * observe.c - what a workload has used and served since it was last looked at.
 *
 * Control groups count for ever, and so does the balancer: a window is a difference. Replicas that
 * end within a window leave their part behind.
 */
#include "cluster/local/internal.h"

#include <math.h>

#define WINDOW_MIN_US 10000 /* shorter ones tell the same again: quotas are given per 100 ms */

static int64_t more(int64_t now, int64_t then)
{
    return now < 0 || then < 0 || now < then ? 0 : now - then;
}

uint32_t aw__observe_oom(struct aw_local *local, struct aw__local_workload *workload,
                         struct aw__replica *r)
{
    const int64_t kills = aw__cgroup_oom_kills(&local->tree, r->group);
    const int64_t fresh = more(kills, r->oom_seen);
    if (fresh == 0)
        return 0;
    r->oom_seen = kills;
    /* the kernel counts processes; what a replica lives through is one kill */
    r->oom_kill_count++;
    workload->oom_kills++;
    return 1;
}

static void peak(struct aw__local_workload *workload, const struct aw__replica *r,
                 const struct aw__cgroup_usage *usage)
{
    if (r->ready && (double)usage->memory_bytes > workload->memory_peak)
        workload->memory_peak = (double)usage->memory_bytes;
}

void aw__observe_last(struct aw_local *local, struct aw__local_workload *workload,
                      struct aw__replica *r)
{
    struct aw__cgroup_usage usage;
    if (aw__cgroup_read(&local->tree, r->group, &usage))
        return;
    workload->ended.cpu_us += more(usage.cpu_us, r->usage.cpu_us);
    workload->ended.throttled += more(usage.throttled, r->usage.throttled);
    workload->ended.io_bytes += more(usage.io_bytes, r->usage.io_bytes);
    const int64_t now = aw__local_now_us(local);
    workload->ended.span_us += more(now, r->usage_us);
    r->usage = usage; /* told once, should the group not go at the first try */
    r->usage_us = now;
}

void aw__observe_peaks(struct aw_local *local, struct aw__local_workload *workload)
{
    for (uint32_t i = 0; i < workload->slots; i++) {
        struct aw__cgroup_usage usage;
        struct aw__replica *r = &workload->replica[i];
        if (r->phase != AW__REPLICA_RUNS || !r->has_group)
            continue;
        aw__observe_oom(local, workload, r); /* of a child, which its parent lives through */
        if (!aw__cgroup_read(&local->tree, r->group, &usage))
            peak(workload, r, &usage);
    }
}

static struct aw_figure figure(double value, int64_t at_us)
{
    const bool known = isfinite(value);
    return (struct aw_figure){.value = known ? value : 0, .at_us = known ? at_us : AW_NEVER};
}

/* Sums over the replicas of a window. */
struct sums {
    double cpu_us, span_us, throttled, io_bytes, memory_bytes;
    uint32_t measured; /* replicas that the memory is of */
    bool cpu_known, io_known;
};

static void replica_add(struct aw_local *local, struct aw__local_workload *workload,
                        struct aw__replica *r, int64_t now, struct sums *sums)
{
    struct aw__cgroup_usage usage;
    if (!r->has_group || aw__cgroup_read(&local->tree, r->group, &usage))
        return;
    const int64_t cpu_us = more(usage.cpu_us, r->usage.cpu_us);
    const double span_us = (double)(now - r->usage_us);
    sums->cpu_us += (double)cpu_us;
    sums->span_us += span_us;
    sums->throttled += (double)more(usage.throttled, r->usage.throttled);
    sums->io_bytes += (double)more(usage.io_bytes, r->usage.io_bytes);
    sums->cpu_known = sums->cpu_known || usage.cpu_us >= 0;
    sums->io_known = sums->io_known || usage.io_bytes >= 0;
    if (r->phase == AW__REPLICA_RUNS && usage.memory_bytes >= 0) {
        if (r->ready) {
            sums->memory_bytes += (double)usage.memory_bytes;
            sums->measured++;
        }
        r->memory_bytes_used = figure((double)usage.memory_bytes, now);
        if (span_us >= WINDOW_MIN_US && usage.cpu_us >= 0)
            r->cpu_cores_used = figure((double)cpu_us / span_us, now);
    }
    peak(workload, r, &usage);
    r->usage = usage;
    r->usage_us = now;
}

static void window_close(struct aw_local *local, struct aw__local_workload *workload, int64_t now)
{
    struct aw_sample *f = &workload->figures;
    const struct aw__ended *ended = &workload->ended;
    struct sums sums = {.cpu_us = (double)ended->cpu_us,
                        .span_us = (double)ended->span_us,
                        .throttled = (double)ended->throttled,
                        .io_bytes = (double)ended->io_bytes,
                        .cpu_known = ended->cpu_us > 0,
                        .io_known = ended->io_bytes > 0};
    const double per_s = 1e6 / (double)(now - workload->observed_us);
    for (uint32_t i = 0; i < workload->slots; i++)
        replica_add(local, workload, &workload->replica[i], now, &sums);

    struct aw__balancer_counts counts;
    aw__balancer_counts(workload->balancer, &counts);
    const struct aw__balancer_counts *then = &workload->counts;
    aw__balancer_latency(workload->balancer, &workload->window);
    const struct aw_latency_histogram latency = workload->window;
    aw_latency_histogram_since(&workload->window, &workload->latency);
    const struct aw_latency_histogram *window = &workload->window;
    const double failures =
        (double)(counts.refused - then->refused) + (double)(counts.lost - then->lost) +
        (double)(counts.timed_out - then->timed_out) + (double)(counts.failed - then->failed);

    f->cpu_cores_used = figure(sums.cpu_known ? sums.cpu_us * 1e-6 * per_s : NAN, now);
    f->memory_bytes_used = figure(sums.measured ? sums.memory_bytes / sums.measured : NAN, now);
    f->memory_bytes_peak = figure(workload->memory_peak > 0 ? workload->memory_peak : NAN, now);
    /* Of the time that has passed: nr_periods stands still while a group sleeps, so that a share of
     * it would say that a replica which is asked once a second is throttled all the time. */
    const double periods = sums.span_us / AW__CGROUP_PERIOD_US;
    f->throttled_share =
        figure(sums.cpu_known ? periods > 0 ? fmin(1, sums.throttled / periods) : 0 : NAN, now);
    f->disk_bytes_per_s = figure(sums.io_known ? sums.io_bytes * per_s : NAN, now);
    f->net_bytes_per_s = figure((double)(counts.bytes - then->bytes) * per_s, now);
    f->arrivals_per_s = figure((double)(counts.arrivals - then->arrivals) * per_s, now);
    f->completions_per_s = figure((double)(counts.completions - then->completions) * per_s, now);
    f->errors_per_s = figure(failures * per_s, now);
    f->in_flight = figure((double)counts.in_flight, now);
    f->latency_us_p50 = figure(aw_latency_histogram_estimate(window, 0.5), now);
    f->latency_us_p95 = figure(aw_latency_histogram_estimate(window, 0.95), now);
    f->latency_us_p99 = figure(aw_latency_histogram_estimate(window, 0.99), now);
    f->latency_us_mean = figure(window->count ? aw_latency_histogram_mean(window) : NAN, now);
    aw__scrape_close(&workload->scrape, f);

    workload->counts = counts;
    workload->latency = latency;
    workload->ended = (struct aw__ended){0};
    workload->memory_peak = 0;
    workload->observed_us = now;
}

static void pod_show(const struct aw__replica *r, struct aw_pod *ret)
{
    const bool runs = r->phase == AW__REPLICA_RUNS;
    *ret = (struct aw_pod){
        .id = r->id,
        .phase = r->phase == AW__REPLICA_PENDING ? AW_POD_PENDING
                 : runs && r->was_ready          ? AW_POD_RUNNING
                                                 : AW_POD_STARTING,
        .ready = r->ready,
        .started_us = r->started_us,
        .ready_change_us = r->ready_change_us,
        .cpu_millicores = r->cpu_millicores,
        .memory_bytes = r->memory_bytes,
        .cpu_cores_used = r->cpu_cores_used,
        .memory_bytes_used = r->memory_bytes_used,
        .oom_kill_count = r->oom_kill_count,
        .restart_count = r->restart_count,
    };
}

void aw__observe(struct aw_local *local, struct aw__local_workload *workload, struct aw_sample *ret)
{
    const int64_t now = aw__local_now_us(local);
    if (now - workload->observed_us >= WINDOW_MIN_US)
        window_close(local, workload, now);
    struct aw_sample sample = workload->figures;
    sample.at_us = now;
    sample.replicas_wanted = workload->wanted;
    sample.cpu_millicores_wanted = workload->cpu_millicores;
    sample.memory_bytes_wanted = workload->memory_bytes;
    sample.oom_kills = workload->oom_kills;
    sample.restarts = workload->restarts;
    sample.pods = workload->shown;
    for (uint32_t i = 0; i < workload->slots; i++) {
        const struct aw__replica *r = &workload->replica[i];
        if (r->phase != AW__REPLICA_PENDING && r->phase != AW__REPLICA_BACKOFF &&
            r->phase != AW__REPLICA_RUNS)
            continue;
        sample.replicas_ready += r->ready;
        sample.replicas_pending += r->phase == AW__REPLICA_PENDING;
        sample.replicas_starting += !r->ready && r->phase != AW__REPLICA_PENDING;
        sample.rollout = sample.rollout || (r->phase != AW__REPLICA_PENDING &&
                                            (r->cpu_millicores != workload->cpu_millicores ||
                                             r->memory_bytes != workload->memory_bytes));
        if (sample.pod_count < AW_CLUSTER_PODS_MAX)
            pod_show(r, &workload->shown[sample.pod_count++]);
    }
    workload->oom_kills = workload->restarts = 0;
    *ret = sample;
}
