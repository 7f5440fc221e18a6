/* layout.c - every member of what a snapshot of the simulated world holds: what its bytes mean. */
#include "base/envelope.h"
#include "cluster/sim/internal.h"

#define SUMS(at)                                                                                 \
    at span_us, at arrivals, at completions, at failures, at cpu_core_us, at cpu_limit_core_us,  \
        at memory_mib_us, at memory_limit_mib_us, at throttled_us, at running_us, at replica_us, \
        at in_flight_peak, at memory_peak_mib, at disk_kib, at net_kib, at oom_kills, at restarts
#define MIXTURE(at)                                                                        \
    at count, at unused, at failures, at weight_sum, at mean_sum_us, at spread, at weight, \
        at p50_us, at p95_us, at p99_us
#define DISTURBANCE(at)                                                                  \
    at payload, at families, at unused, at cpu_slowdown, at io_slowdown, at load_factor, \
        at memory_leak_mib
#define TRUTH(at)                                                                   \
    at arrivals, at completions, at failures, at latency_us_p50, at latency_us_p95, \
        at latency_us_p99, at latency_us_mean, at cpu_core_s, at cpu_limit_core_s,  \
        at memory_gib_s, at memory_limit_gib_s, at throttled_share, at in_flight,   \
        at in_flight_peak, at replica_s, at oom_kills, at restarts
#define DEMAND(at)                                                                          \
    at cpu_ms, at cpu_cv, at io_ms, at io_cv, at memory_base_mib, at memory_flight_mib,     \
        at disk_kib, at net_kib, at parallelism, at threads, at crowding, at cold_start_ms, \
        at fast_tail
#define KNOWN(at)                                                                           \
    at io_ms, at cpu_ms, at parallelism, at threads, at capacity_threads, at capacity_core, \
        at sum, at log_cpu, at unused

AW_LAYOUT(pod_layout, struct aw__pod, 0, id, count, revision, phase, cores, memory_mib,
          memory_noise, memory_noise_high, started_us, ready_us, until_us, ready_change_us,
          stable_since_us, restarts, oom_kills, crashes, node, on_node, cpu_core_us, memory_mib_us,
          running_us, read_cpu_cores, read_memory_mib, read_us, read_noise, backlog);
AW_LAYOUT(nodes_layout, struct aw__nodes, 0, cores_taken, memory_taken_mib, down_until_us);
AW_LAYOUT(workload_layout, struct aw__workload, 0, replicas, revision, cores, memory_mib, place_end,
          next_id, next_event_us, load_offset_us, rng.s, memory_key, DISTURBANCE(disturbance.),
          DEMAND(demand.), KNOWN(known.), SUMS(sums.), SUMS(step.), TRUTH(truth.),
          MIXTURE(mixture.), SUMS(reading.), TRUTH(reading_truth.), reading_us, oom_seen,
          restarts_seen, oom_total, restarts_total, in_flight, reported, images);
AW_LAYOUT(world_layout, struct aw__world, 0, now_us, rng.s, neighbour_cpu, neighbour_memory,
          metrics_down_until_us, api_down_until_us, last_reading_us);

uint64_t aw_sim_layout(uint64_t hash)
{
    return pod_layout(nodes_layout(workload_layout(world_layout(hash))));
}
