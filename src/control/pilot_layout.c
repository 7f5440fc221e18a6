/* pilot_layout.c - every member of what a pilot saves: what the bytes of its state mean. */
#include "control/pilot_internal.h"

/* clang-format off */
#define WATCHDOG(X, at)                                                                           \
    X(at missed) X(at fallback_steps) X(at fallback_missed) X(at explore_extra)                   \
    X(at explore_missed) X(at explore_steps) X(at seen_us) X(at until_us) X(at armed_us)          \
    X(at step_count) X(at step_next) X(at missed_count) X(at acted_steps) X(at level) X(at cause) \
    X(at trips) X(at explore_piece) X(at last_slo) X(at unused_)
#define RING(X, at) X(at score) X(at count) X(at next)
#define LIFECYCLE(X, at)                                                                          \
    RING(X, at agent.) RING(X, at fallback.) X(at level_mean) X(at level_std) X(at trip_us)       \
    X(at trip_next) X(at stage) X(at stage_episodes) X(at fail_streak) X(at demotions)            \
    X(at episodes)
#define STAY(X, at)                                                                               \
    X(at cause) X(at from) X(at to) X(at count) X(at mean) X(at std) X(at threshold)              \
    X(at deviation)
#define FORMULA_MEMORY(X, at)                                                                     \
    X(at margin_trim) X(at size_trim) X(at size_trim_used) X(at cores_sum) X(at completions_sum)  \
    X(at smooth_load) X(at high_load) X(at oom_floor_bytes) X(at load) X(at memory_bytes)         \
    X(at step) X(at idle) X(at since_resize) X(at quiet)
#define CANARY_REASON(X, at)                                                                      \
    X(at cause) X(at from) X(at to) X(at count) X(at trial) X(at good) X(at observed)             \
    X(at predicted) X(at limit) X(at tail)
#define CANDIDATE(X, at) X(at id) X(at gain) X(at gain_error) X(at violation_share)
#define STANDING(X, at)                                                                           \
    X(at id) X(at score_mean) X(at score_std) X(at violation_share) X(at budget) X(at episodes)
#define PLAN(X, at) X(at set) X(at replicas) X(at cpu_millicores) X(at memory_bytes)
#define CANARY(X, at)                                                                             \
    CANARY_REASON(X, at reason.) CANDIDATE(X, at candidate.) STANDING(X, at good.)                \
    PLAN(X, at allocation.) X(at score_sum) X(at barred_id) X(at barred_rows) X(at barred_next)   \
    X(at failures) X(at state) X(at steps) X(at clipped) X(at clipped_good) X(at armed)           \
    X(at whole) X(at acted) X(at judged) X(at missed) X(at episodes) X(at restore_left)           \
    X(at acted_episode)
#define TRIMS(X, at)                                                                              \
    X(at margin_trim) X(at size_trim) X(at size_trim_used) X(at smooth_load) X(at since_resize)   \
    X(at unused_)
#define ORIGIN(X, at) X(at name) X(at checksum) X(at episodes) X(at unused_)
#define RECORD(X, at)                                                                             \
    X(at bin) X(at cores_used) X(at arrivals) X(at cpu_steps) X(at memory_n) X(at memory_x)       \
    X(at memory_y) X(at memory_xx) X(at memory_xy) X(at memory_low) X(at start_us)                \
    X(at start_count) X(at last_cores) X(at unsettled) X(at cpu_above) X(at cpu_below)            \
    X(at latency_above) X(at latency_below) X(at seen_us) X(at bin_count) X(at steps)
#define BIN(X, at)                                                                                \
    X(at cores) X(at rate_per_s) X(at weight) X(at log_p99) X(at log_p50) X(at mean_us)           \
    X(at throttled) X(at requests_per_s) X(at latency_rows)
#define PILOT(X, at)                                                                              \
    AW_STATE_MEMORY(X, at state.) AW_ACTION_MEMORY(X, at action.) AW_GUARD_MEMORY(X, at guard.)   \
    WATCHDOG(X, at watchdog.) LIFECYCLE(X, at lifecycle.) AW_READING(X, at reading.)              \
    X(at formula.x) FORMULA_MEMORY(X, at formula_memory.) CANARY(X, at canary.) X(at trial.x)     \
    TRIMS(X, at trial_trims.) ORIGIN(X, at trial_origin.) RECORD(X, at record.) X(at load_per_s)  \
    X(at cost_reference_per_hour) X(at lambda) X(at violation_share) X(at better_mean)            \
    X(at better_low) X(at better_high) X(at rehearsed_load) X(at extra_cost) STAY(X, at stay.)    \
    X(at gain_sum) X(at cost_sum) X(at need_sum) X(at minute_sum) X(at minute_steps)              \
    X(at minute_count) X(at minute_first) X(at rows_first) X(at rows) X(at next_rows)             \
    X(at loaded) X(at missed) X(at step_count) X(at violation_count) X(at agent_steps)            \
    X(at episode) X(at step) X(at learn_from) X(at learn_due) X(at in_flight) X(at actor)         \
    X(at stage) X(at has_shadow) X(at away) X(at by_trial) X(at anew) X(at at_us)                 \
    X(at forgotten_us) X(at model) X(at formula_id) X(at policy_order) X(at home_cpu_millicores)  \
    X(at home_memory_bytes) ORIGIN(X, at origin.) X(at obs) X(at action_taken) X(at shadow)
#define WORDS(X, at) X(at has_confidence) X(at confidence) X(at explanation)
#define ANSWER(X, at)                                                                             \
    X(at agent) X(at took_s) X(at fault) X(at shadow) X(at action) X(at unused_)                  \
    WORDS(X, at words.) X(at name)
#define MEMORY(X, at)                                                                             \
    X(at seen_us) X(at until_us) X(at agent) X(at good) X(at bad) X(at standing) X(at strikes)    \
    X(at streak) X(at level) X(at asides) X(at shadow) X(at name)
#define EXTERNAL(X, at) MEMORY(X, at memory.) ANSWER(X, at heard.)
#define FAMILIAR(X, at) X(at mean) X(at m2) X(at low) X(at high) X(at count) X(at dim) X(at unused_)
#define FIGURE(X, at) X(at value) X(at at_us)
#define POD(X, at)                                                                                \
    X(at id) X(at phase) X(at ready) X(at started_us) X(at ready_change_us) X(at cpu_millicores)  \
    X(at memory_bytes) FIGURE(X, at cpu_cores_used.) FIGURE(X, at memory_bytes_used.)             \
    X(at oom_kill_count) X(at restart_count)
#define SAMPLE(X, at)                                                                             \
    X(at at_us) X(at replicas_wanted) X(at cpu_millicores_wanted) X(at memory_bytes_wanted)       \
    X(at replicas_ready) X(at replicas_pending) X(at replicas_starting) X(at rollout)             \
    FIGURE(X, at cpu_cores_used.) FIGURE(X, at memory_bytes_used.)                                \
    FIGURE(X, at memory_bytes_peak.) FIGURE(X, at throttled_share.)                               \
    FIGURE(X, at disk_bytes_per_s.) FIGURE(X, at net_bytes_per_s.) FIGURE(X, at arrivals_per_s.)  \
    FIGURE(X, at completions_per_s.) FIGURE(X, at errors_per_s.) FIGURE(X, at in_flight.)         \
    FIGURE(X, at latency_us_p50.) FIGURE(X, at latency_us_p95.) FIGURE(X, at latency_us_p99.)     \
    FIGURE(X, at latency_us_mean.) FIGURE(X, at inside_us_p50.) FIGURE(X, at inside_us_p99.)      \
    X(at oom_kills) X(at restarts) X(at pod_count) X(at pods)
#define SCORE(X, at)                                                                              \
    X(at latency_sp) X(at throughput_sp) X(at sp) X(at violated) X(at cpu_utilisation)            \
    X(at memory_utilisation) X(at latency_us_p99) X(at paper_reward) X(at cost)
#define SEEN(X, at)                                                                               \
    AW_ENVELOPE(X, at head.) SCORE(X, at score.) X(at gain) X(at took_s) X(at answered)           \
    X(at restarts) X(at finished) X(at moved) X(at pod_count) X(at canary_moved) X(at first)      \
    X(at unused_) X(at obs)
/* clang-format on */

AW_LAYOUT(memory_layout, struct aw__pilot_memory, PILOT, 0);
AW_LAYOUT(bin_layout, struct aw_model_bin, BIN, 0);
AW_LAYOUT(external_layout, struct aw__pilot_external, EXTERNAL, 0);
AW_LAYOUT(familiar_layout, struct aw_familiar, FAMILIAR, 0);

uint64_t aw__pilot_layout(uint64_t hash)
{
    return memory_layout(bin_layout(external_layout(familiar_layout(hash))));
}

AW_LAYOUT(seen_layout, struct aw__pilot_seen, SEEN, 7);
AW_LAYOUT(sample_layout, struct aw_sample, SAMPLE, 11);
AW_LAYOUT(pod_layout, struct aw_pod, POD, 7);

uint64_t aw__pilot_seen_layout(uint64_t hash)
{
    return seen_layout(sample_layout(pod_layout(hash)));
}
