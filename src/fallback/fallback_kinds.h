/*
 * fallback_kinds.h - inside a policy: its state, and what each kind adds to a plan.
 *
 * A kind proposes; fallback.c clips, holds and drops what changes nothing.
 *
 * Memory:  a controller has thousands of policies, so one holds only what outlives a decision, and
 *          of that only what its kind, its bounds and its pods ask for. The state is one stretch of
 *          memory without pointers or padding, and the tracks of pods, in a block of their own that
 *          grows with them; saved, both lie one behind the other. What HPA and VPA want in their
 *          own, larger structs is laid out on the stack for the length of a decision.
 * Threads: as fallback.h.
 */
#ifndef AW_FALLBACK_FALLBACK_KINDS_H
#define AW_FALLBACK_FALLBACK_KINDS_H

#include "fallback/fallback.h"
#include "fallback/hpa.h"
#include "fallback/vpa_update.h"
#include "task/action.h"
#include "task/reading.h"

/* Pods of which the VPA keeps track: all replicas, in a rollout as many again, and a few that were
 * not asked for. If there are more, the first are followed, and the rest count as never killed.
 */
#define AW__FALLBACK_STRAY_PODS 4u
/* Tracks that there is room for to begin with: few workloads have more pods, and the bounds of most
 * allow many times as many as there ever are. */
#define AW__FALLBACK_TRACK_ROOM 16u

/* What the VPA remembers of one pod. No padding here and in the next two: fallback.c saves them. */
struct aw__pod_track {
    uint32_t id;
    uint32_t oom_kill_count;
    int64_t started_us;
    int64_t oom_after_start_us; /* of its last kill; AW_NEVER: none yet */
    /* struct aw_vpa_container, its flags told by AW_NEVER */
    int64_t cpu_last_us;
    int64_t memory_last_us;
    int64_t window_end_us;
    int64_t memory_peak;
    int64_t oom_peak;
};

/* struct aw_histogram in half the bytes: a weight has as many digits as a percentile needs. */
struct aw__fallback_usage {
    int64_t reference_us;
    uint32_t lowest, highest;
    float weight[AW_HISTOGRAM_BUCKETS_MAX];
};

/* The head of the state; zeroed but for the times is new. */
struct aw__fallback_state {
    int64_t hpa_next_us, vpa_next_us, aimd_next_us;
    int32_t hpa_from, hpa_to; /* asked for, not yet seen; both 0: nothing */
    uint32_t recommendation_count;
    uint32_t scaled_to_zero; /* as struct aw_hpa_state */
    int64_t first_sample_us, last_sample_us;
    uint64_t sample_count; /* as struct aw_vpa_aggregate */
    uint64_t track_count;
};

struct aw_fallback {
    struct aw_fallback_settings settings;
    struct aw_fallback_task task;
    const struct aw_alloc *alloc;
    int64_t stale_us;
    size_t bytes;             /* of the block, without the tracks */
    struct aw_action *action; /* [1]; constant alone */

    /* what outlives a decision; parts that the kind does not use are empty */
    size_t state_bytes;                            /* of the stretch */
    struct aw__fallback_state *state;              /* where the stretch begins */
    struct aw_hpa_recommendation *recommendations; /* [recommendation_max] */
    struct aw__fallback_usage *usage;              /* one for each resource that the VPA controls */
    struct aw_action_memory *anchor;               /* [1]; constant alone */
    struct aw__pod_track *track; /* [track_room], a block; in the order of the last sample */
    uint32_t recommendation_max;
    uint32_t track_room; /* zero behind those that are used */
    uint32_t track_max;  /* that there is ever room for */
};

static inline bool aw__fallback_has_hpa(uint32_t kind)
{
    return kind == AW_FALLBACK_HPA || kind == AW_FALLBACK_HPA_VPA ||
           kind == AW_FALLBACK_HPA_VPA_MEM;
}

static inline bool aw__fallback_has_vpa(uint32_t kind)
{
    return kind == AW_FALLBACK_VPA || kind == AW_FALLBACK_HPA_VPA ||
           kind == AW_FALLBACK_HPA_VPA_MEM;
}

/* Whether the VPA of this kind sets the resource. */
/* Periods follow a clock of their own, and a tick may be a tenth of one early: on a real clock
 * ticks come a little early or late, and one that is early must not wait for the next, or a period
 * of one step would be two. `next_us` INT64_MIN: never yet. */
static inline bool aw__fallback_due(int64_t next_us, int64_t now_us, double period_s)
{
    return next_us == INT64_MIN || now_us >= next_us - (int64_t)(0.1e6 * period_s);
}
static inline int64_t aw__fallback_next_us(int64_t next_us, int64_t now_us, double period_s)
{
    const int64_t period_us = (int64_t)(period_s * 1e6);
    const bool follows = next_us != INT64_MIN && now_us - next_us < period_us;
    return (follows ? next_us : now_us) + period_us;
}

static inline bool aw__fallback_controls(uint32_t kind, int resource)
{
    return aw__fallback_has_vpa(kind) &&
           (resource != AW_VPA_CPU || kind != AW_FALLBACK_HPA_VPA_MEM);
}

/* Measured, and not too long ago. */
static inline bool aw__fallback_fresh(const struct aw_fallback *policy, struct aw_figure figure,
                                      int64_t now_us)
{
    return figure.at_us != AW_NEVER && now_us - figure.at_us <= policy->stale_us;
}

/* Room for the tracks of `count` pods, if there may be so many and there is memory: twice as many
 * as before, so that it does not grow with every pod. */
void aw__fallback_track_room(struct aw_fallback *policy, uint32_t count);

/* Each kind: `check` sees settings and task before there is memory, whatever the kind; `decide`
 * adds to the plan and the reason. */
AW_NODISCARD enum aw_err aw__fallback_hpa_check(const struct aw_fallback *policy,
                                                struct aw_diag *diag);
/* The most recommendations that the HPA ever remembers with these settings. */
uint32_t aw__fallback_hpa_recommendation_max(const struct aw_fallback_settings *settings);
void aw__fallback_hpa_decide(struct aw_fallback *policy, const struct aw_sample *sample,
                             int64_t now_us, struct aw_plan *plan,
                             struct aw_fallback_reason *reason);

AW_NODISCARD enum aw_err aw__fallback_vpa_check(const struct aw_fallback *policy,
                                                struct aw_diag *diag);
void aw__fallback_vpa_reset(struct aw_fallback *policy);
void aw__fallback_vpa_decide(struct aw_fallback *policy, const struct aw_sample *sample,
                             int64_t now_us, struct aw_plan *plan,
                             struct aw_fallback_reason *reason);

AW_NODISCARD enum aw_err aw__fallback_aimd_check(const struct aw_fallback *policy,
                                                 struct aw_diag *diag);
void aw__fallback_aimd_decide(struct aw_fallback *policy, const struct aw_sample *sample,
                              const struct aw_reading *reading, int64_t now_us,
                              struct aw_plan *plan, struct aw_fallback_reason *reason);

void aw__fallback_constant_init(struct aw_fallback *policy);
void aw__fallback_constant_decide(struct aw_fallback *policy, const struct aw_sample *sample,
                                  const struct aw_reading *reading, struct aw_plan *plan,
                                  struct aw_fallback_reason *reason);

#endif
