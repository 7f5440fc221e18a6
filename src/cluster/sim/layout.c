/* layout.c - every member of what a snapshot of the simulated world holds: what its bytes mean. */
#include "base/envelope.h"
#include "cluster/sim/internal.h"

/* clang-format off */
#define POD(X, at)                                                                                \
    X(at id) X(at count) X(at revision) X(at phase) X(at cores) X(at memory_mib)                  \
    X(at memory_noise) X(at memory_noise_low) X(at memory_noise_high) X(at started_us)            \
    X(at ready_us) X(at until_us) X(at ready_change_us) X(at stable_since_us) X(at restarts)      \
    X(at oom_kills) X(at crashes) X(at node) X(at on_node) X(at cpu_core_us) X(at memory_mib_us)  \
    X(at running_us) X(at read_cpu_cores) X(at read_memory_mib) X(at read_us) X(at read_noise)    \
    X(at backlog)
#define NODE(X, at)                                                                               \
    X(at cores) X(at memory_mib) X(at cores_taken) X(at memory_taken) X(at down_until_us)
#define SUMS(X, at)                                                                               \
    X(at span_us) X(at arrivals) X(at completions) X(at failures) X(at cpu_core_us)               \
    X(at cpu_limit_core_us) X(at memory_mib_us) X(at memory_limit_mib_us) X(at throttled_us)      \
    X(at running_us) X(at replica_us) X(at in_flight_peak) X(at memory_peak_mib) X(at disk_kib)   \
    X(at net_kib) X(at oom_kills) X(at restarts)
#define MIXTURE(X, at)                                                                            \
    X(at count) X(at unused) X(at failures) X(at weight_sum) X(at mean_sum_us) X(at spread)       \
    X(at weight) X(at p50_us) X(at p95_us) X(at p99_us)
#define DISTURBANCE(X, at)                                                                        \
    X(at payload) X(at families) X(at unused) X(at cpu_slowdown) X(at io_slowdown)                \
    X(at load_factor) X(at memory_leak_mib)
#define TRUTH(X, at)                                                                              \
    X(at arrivals) X(at completions) X(at failures) X(at latency_us_p50) X(at latency_us_p95)     \
    X(at latency_us_p99) X(at latency_us_mean) X(at cpu_core_s) X(at cpu_limit_core_s)            \
    X(at memory_gib_s) X(at memory_limit_gib_s) X(at throttled_share) X(at in_flight)             \
    X(at in_flight_peak) X(at replica_s) X(at oom_kills) X(at restarts)
#define DEMAND(X, at)                                                                             \
    X(at cpu_ms) X(at cpu_cv) X(at io_ms) X(at io_cv) X(at memory_base_mib)                       \
    X(at memory_flight_mib) X(at disk_kib) X(at net_kib) X(at parallelism) X(at threads)          \
    X(at crowding) X(at cold_start_ms) X(at fast_tail)
#define KNOWN(X, at)                                                                              \
    X(at io_ms) X(at cpu_ms) X(at parallelism) X(at threads) X(at capacity_threads)               \
    X(at capacity_core) X(at sum) X(at log_cpu) X(at unused)
#define WORKLOAD(X, at)                                                                           \
    X(at replicas) X(at revision) X(at cores) X(at memory_mib) X(at place_end) X(at next_id)      \
    X(at next_event_us) X(at load_offset_us) X(at rng.s) X(at memory_key)                         \
    DISTURBANCE(X, at disturbance.) DEMAND(X, at demand.) KNOWN(X, at known.) SUMS(X, at sums.)   \
    SUMS(X, at step.) TRUTH(X, at truth.) MIXTURE(X, at mixture.) SUMS(X, at reading.)            \
    TRUTH(X, at reading_truth.) X(at reading_us) X(at oom_seen) X(at restarts_seen)               \
    X(at oom_total) X(at restarts_total) X(at in_flight) X(at reported)
#define WORLD(X, at)                                                                              \
    X(at now_us) X(at rng.s) X(at neighbour_cpu) X(at neighbour_memory)                           \
    X(at metrics_down_until_us) X(at api_down_until_us) X(at last_reading_us)
/* clang-format on */

AW_LAYOUT(pod_layout, struct aw__pod, POD, 0);
AW_LAYOUT(node_layout, struct aw__node, NODE, 0);
AW_LAYOUT(workload_layout, struct aw__workload, WORKLOAD, 0);
AW_LAYOUT(world_layout, struct aw__world, WORLD, 0);

uint64_t aw_sim_layout(uint64_t hash)
{
    return pod_layout(node_layout(workload_layout(world_layout(hash))));
}
