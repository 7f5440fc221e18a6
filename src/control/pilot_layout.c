/* pilot_layout.c - every member of what a pilot saves: what the bytes of its state mean. */
#include "control/pilot_internal.h"

#define WATCHDOG(at)                                                                         \
    at missed, at fallback_steps, at fallback_missed, at explore_extra, at explore_missed,   \
        at explore_steps, at seen_us, at until_us, at armed_us, at step_count, at step_next, \
        at missed_count, at acted_steps, at level, at cause, at trips, at explore_piece,     \
        at last_slo, at unused_
#define RING(at) at score, at count, at next
#define LIFECYCLE(at)                                                                           \
    RING(at agent.), RING(at fallback.), at level_mean, at level_std, at trip_us, at trip_next, \
        at stage, at stage_episodes, at fail_streak, at demotions, at episodes, at acted,       \
        at unused_
#define STAY(at) at cause, at from, at to, at count, at mean, at std, at threshold, at deviation
#define CANARY_REASON(at)                                                                       \
    at cause, at from, at to, at count, at trial, at good, at observed, at predicted, at limit, \
        at tail
#define CANDIDATE(at) at id, at gain, at gain_error, at violation_share
#define STANDING(at)  at id, at score_mean, at score_std, at violation_share, at budget, at episodes
#define PLAN(at)      at set, at amount
#define CANARY(at)                                                                                 \
    CANARY_REASON(at reason.), CANDIDATE(at candidate.), STANDING(at good.), PLAN(at allocation.), \
        at score_sum, at barred_id, at barred_rows, at barred_next, at failures, at state,         \
        at steps, at clipped, at clipped_good, at armed, at whole, at acted, at judged, at missed, \
        at episodes, at restore_left, at acted_episode
#define ORIGIN(at) at name, at checksum, at episodes, at unused_
#define RECORD(at)                                                                                \
    at bin, at cores_used, at arrivals, at cpu_steps, at memory_n, at memory_x, at memory_y,      \
        at memory_xx, at memory_xy, at memory_low, at start_us, at start_count, at last_cores,    \
        at unsettled, at cpu_above, at cpu_below, at latency_above, at latency_below, at seen_us, \
        at bin_count, at steps
#define FIGURE(at) at value, at at_us
#define SCORE(at)                                                            \
    at latency_sp, at throughput_sp, at sp, at violated, at cpu_utilisation, \
        at memory_utilisation, at latency_us_slo, at paper_reward, at cost

AW_LAYOUT(memory_layout, struct aw__pilot_memory, 0, AW_STATE_MEMORY(state.),
          AW_ACTION_MEMORY(action.), AW_GUARD_MEMORY(guard.), WATCHDOG(watchdog.),
          LIFECYCLE(lifecycle.), AW_READING(reading.), CANARY(canary.), AW_RELIEF_MEMORY(relief.),
          ORIGIN(trial_origin.), RECORD(record.), load_per_s, cost_reference_per_hour, lambda,
          violation_share, better_mean, better_low, better_high, extra_cost, STAY(stay.), gain_sum,
          cost_sum, need_sum, minute_sum, minute_steps, minute_count, minute_first, rows_first,
          rows, next_rows, loaded, missed, step_count, violation_count, agent_steps, episode, step,
          learn_from, learn_due, in_flight, actor, stage, has_shadow, away, by_trial, anew, at_us,
          forgotten_us, policy_id, policy_order, home, ORIGIN(origin.), obs, action_taken, shadow);
AW_LAYOUT(bin_layout, struct aw_copy_bin, 0, cores, rate_per_s, weight, log_slo, log_p50, mean_us,
          throttled, requests_per_s, latency_rows);

uint64_t aw__pilot_memory_layout(uint64_t hash)
{
    return memory_layout(bin_layout(hash));
}

uint64_t aw_pilot_layout(uint64_t hash)
{
    for (uint32_t kind = 0; kind < AW_POLICY_KINDS; kind++)
        hash = aw_policy_ops_of(kind)->layout(hash);
    return aw__pilot_memory_layout(hash);
}

AW_LAYOUT(seen_layout, struct aw__pilot_seen, 7, AW_ENVELOPE(head.), SCORE(score.), gain, took_s,
          answered, restarts, finished, moved, pod_count, canary_moved, first, unused_, obs);
AW_LAYOUT(sample_layout, struct aw_sample, 7, at_us, wanted, replicas_ready, replicas_pending,
          replicas_starting, rollout, FIGURE(cpu_cores_used.), FIGURE(memory_bytes_used.),
          FIGURE(memory_bytes_peak.), FIGURE(throttled_share.), FIGURE(disk_bytes_per_s.),
          FIGURE(net_bytes_per_s.), FIGURE(arrivals_per_s.), FIGURE(completions_per_s.),
          FIGURE(errors_per_s.), FIGURE(in_flight.), FIGURE(latency_us_p50.),
          FIGURE(latency_us_p95.), FIGURE(latency_us_p99.), FIGURE(latency_us_mean.),
          FIGURE(inside_us_p50.), FIGURE(inside_us_p99.), oom_kills, restarts, pod_count, pods);
AW_LAYOUT(pod_layout, struct aw_pod, 7, id, phase, ready, started_us, ready_change_us, size,
          FIGURE(cpu_cores_used.), FIGURE(memory_bytes_used.), oom_kill_count, restart_count);

uint64_t aw__pilot_seen_layout(uint64_t hash)
{
    return seen_layout(sample_layout(pod_layout(hash)));
}
