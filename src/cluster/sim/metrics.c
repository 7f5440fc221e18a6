/*
 * metrics.c - what a monitoring pipeline makes of the world.
 *
 * A reading averages since the last one, arrives late, is a little wrong, and is sometimes lost; a
 * lost one leaves the older, whose age tells. Counts of the API (replicas, phases, kills) are
 * exact.
 */
#include "base/units.h"
#include "cluster/sim/internal.h"

static double noisy(struct aw_sim *sim, double value)
{
    double noise = sim->settings.metric_noise;
    return noise > 0 ? value * aw__max(0, 1 + noise * aw__noise(&sim->world->rng)) : value;
}

void aw__metrics_read(struct aw_sim *sim)
{
    struct aw__world *world = sim->world;
    const double now = world->now_us;
    if (now - world->last_reading_us < sim->settings.scrape_s * 1e6 - 1)
        return;
    bool down = world->metrics_down_until_us > now;
    world->last_reading_us = now;
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        struct aw__workload *workload = &sim->workload[w];
        struct aw__pod *pods = aw__pods(sim, w);
        if (!aw__present(sim, w))
            continue;
        if (down || (sim->settings.metric_gap > 0 &&
                     aw_rng_double(&world->rng) < sim->settings.metric_gap)) {
            workload->sums = aw__sums_none; /* what was not read is gone */
            continue;
        }
        workload->reported = true;
        workload->reading = workload->sums;
        workload->reading_us = now - sim->settings.scrape_delay_s * 1e6;
        workload->reading.cpu_core_us = noisy(sim, workload->sums.cpu_core_us);
        workload->reading_truth = workload->truth;
        workload->sums = aw__sums_none;
        const uint64_t key = aw_rng_u64(&world->rng);
        for (uint32_t i = 0; i < workload->place_end; i++) {
            struct aw__pod *pod = &pods[i];
            if (pod->running_us > 0) {
                const double per_us = 1 / pod->running_us;
                pod->read_cpu_cores = pod->cpu_core_us * per_us;
                pod->read_memory_mib = pod->memory_mib_us * per_us; /* a level, read as it is */
                pod->read_us = workload->reading_us;
                pod->read_noise = key;
            }
            pod->cpu_core_us = pod->memory_mib_us = pod->running_us = 0;
        }
    }
}

static struct aw_figure figure(double value, int64_t at_us)
{
    const bool known = isfinite(value) && at_us != AW_NEVER;
    return (struct aw_figure){.value = known ? value : 0, .at_us = known ? at_us : AW_NEVER};
}

/* What the API rounds to. */
static int64_t millicores(double cores)
{
    return (int64_t)(cores * 1000 + 0.5);
}

static int64_t bytes(double mib)
{
    return (int64_t)(mib * AW_MIB_REAL + 0.5);
}

/* Pod `id` of `pod`. */
static void show_pod(const struct aw_sim *sim, const struct aw__workload *workload,
                     const struct aw__pod *pod, uint32_t id, struct aw_pod *ret)
{
    static const enum aw_pod_phase phases[] = {
        [AW__POD_PENDING] = AW_POD_PENDING,  [AW__POD_STARTING] = AW_POD_STARTING,
        [AW__POD_READY] = AW_POD_RUNNING,    [AW__POD_DRAINING] = AW_POD_RUNNING,
        [AW__POD_BACKOFF] = AW_POD_STARTING, [AW__POD_LOST] = AW_POD_FAILED,
    };
    const bool read = pod->read_us > -AW__NEVER_US;
    const int64_t read_us = read ? (int64_t)pod->read_us : AW_NEVER;
    const double wrong = 1 + sim->settings.metric_noise * aw__noise_at(pod->read_noise, id);
    const double more_mib =
        aw__base_memory_mib(workload) * (aw__memory_noise(workload, id) - pod->memory_noise);
    *ret = (struct aw_pod){
        .id = id,
        .phase = phases[pod->phase],
        .ready = pod->phase == AW__POD_READY,
        .started_us = pod->started_us > -AW__NEVER_US ? (int64_t)pod->started_us : AW_NEVER,
        .ready_change_us = (int64_t)pod->ready_change_us,
        .cpu_millicores = millicores(pod->cores),
        .memory_bytes = bytes(pod->memory_mib),
        .cpu_cores_used = {.value = read ? pod->read_cpu_cores * aw__max(0, wrong) : 0,
                           .at_us = read_us},
        .memory_bytes_used = {.value = read ? (pod->read_memory_mib + more_mib) * AW_MIB_REAL : 0,
                              .at_us = read_us},
        .oom_kill_count = pod->oom_kills,
        .restart_count = pod->restarts,
    };
}

/* By tables, not by branches: what phase a pod is in is not to be guessed. */
static void count_pods(const struct aw_sim *sim, uint32_t w, struct aw_sample *sample,
                       struct aw_sim_placed *ret_placed)
{
    /* clang-format off */
    static const uint8_t is_seen[AW__PHASES] = {
        [AW__POD_PENDING] = 1, [AW__POD_STARTING] = 1, [AW__POD_READY] = 1, [AW__POD_BACKOFF] = 1,
        [AW__POD_LOST] = 1};
    static const uint8_t is_placed[AW__PHASES] = {
        [AW__POD_STARTING] = 1, [AW__POD_READY] = 1, [AW__POD_BACKOFF] = 1};
    /* clang-format on */
    const struct aw__workload *workload = &sim->workload[w];
    const struct aw__pod *pods = aw__pods(sim, w);
    struct aw_sim_placed placed = {0};
    uint32_t pods_in[AW__PHASES] = {0}, old = 0;
    for (uint32_t i = 0; i < workload->place_end; i++) {
        const struct aw__pod *pod = &pods[i];
        const int64_t count = is_placed[pod->phase] * (int64_t)pod->count;
        placed.cpu_millicores += count * millicores(pod->cores);
        placed.memory_bytes += count * bytes(pod->memory_mib);
        pods_in[pod->phase] += pod->count;
        old |= is_seen[pod->phase] & (pod->revision != workload->revision);
    }
    sample->replicas_ready = pods_in[AW__POD_READY];
    sample->replicas_pending = pods_in[AW__POD_PENDING];
    sample->replicas_starting = pods_in[AW__POD_STARTING] + pods_in[AW__POD_BACKOFF];
    sample->rollout = old;
    *ret_placed = placed;
}

enum aw_err aw_sim_observe(struct aw_sim *sim, uint32_t w, struct aw_sample *ret_sample,
                           struct aw_sim_placed *ret_placed)
{
    AW_ASSERT(w < sim->workload_count && aw__present(sim, w));
    struct aw__workload *workload = &sim->workload[w];
    if (sim->world->api_down_until_us > sim->world->now_us)
        return AW_ERR_UNAVAILABLE;
    const struct aw__sums *sums = &workload->reading;
    const struct aw_sim_truth *truth = &workload->reading_truth;
    const int64_t at = workload->reported ? (int64_t)workload->reading_us : AW_NEVER;
    const double per_s = sums->span_us > 0 ? 1e6 / sums->span_us : NAN;
    /* Member by member: a copy right behind the writing of its parts would wait for them. */
    struct aw_sample *s = ret_sample;
    s->at_us = (int64_t)sim->world->now_us;
    s->replicas_wanted = workload->replicas;
    s->cpu_millicores_wanted = millicores(workload->cores);
    s->memory_bytes_wanted = bytes(workload->memory_mib);
    s->cpu_cores_used = figure(sums->cpu_core_us * 1e-6 * per_s, at);
    s->memory_bytes_used = figure(sums->memory_mib_us / sums->replica_us * AW_MIB_REAL, at);
    s->memory_bytes_peak = figure(sums->memory_peak_mib * AW_MIB_REAL, at);
    s->throttled_share =
        figure(sums->running_us > 0 ? aw__min(1, sums->throttled_us / sums->running_us) : 0, at);
    s->disk_bytes_per_s = figure(sums->disk_kib * 1024 * per_s, at);
    s->net_bytes_per_s = figure(sums->net_kib * 1024 * per_s, at);
    s->arrivals_per_s = figure(sums->arrivals * per_s, at);
    s->completions_per_s = figure(sums->completions * per_s, at);
    s->errors_per_s = figure(sums->failures * per_s, at);
    s->in_flight = figure(truth->in_flight, at);
    s->latency_us_p50 = figure(truth->latency_us_p50, at);
    s->latency_us_p95 = figure(truth->latency_us_p95, at);
    s->latency_us_p99 = figure(truth->latency_us_p99, at);
    s->latency_us_mean = figure(truth->latency_us_mean, at);
    s->inside_us_p50 = s->inside_us_p99 = (struct aw_figure){.at_us = AW_NEVER};
    s->oom_kills = workload->oom_total - workload->oom_seen;
    s->restarts = workload->restarts_total - workload->restarts_seen;
    s->pod_count = 0;
    s->pods = NULL;
    workload->oom_seen = workload->oom_total;
    workload->restarts_seen = workload->restarts_total;
    count_pods(sim, w, s, ret_placed);
    return AW_OK;
}

void aw_sim_observe_pods(struct aw_sim *sim, uint32_t w, struct aw_sample *sample)
{
    const struct aw__workload *workload = &sim->workload[w];
    const struct aw__pod *pods = aw__pods(sim, w);
    sample->pods = sim->shown;
    sample->pod_count = 0;
    for (uint32_t i = 0; i < workload->place_end; i++) {
        if (pods[i].phase == AW__POD_NONE || pods[i].phase == AW__POD_DRAINING)
            continue;
        for (uint32_t k = 0; k < pods[i].count; k++)
            show_pod(sim, workload, &pods[i], pods[i].id + k, &sim->shown[sample->pod_count++]);
    }
}
