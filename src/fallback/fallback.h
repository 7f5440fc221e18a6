/*
 * fallback.h - rule-based controllers behind one contract: a sample in, a plan out.
 *
 * Call order: aw_conf_defaults(aw_fallback_fields, &settings), change what you like, new; then once
 *             per step decide; reset begins anew; state_save and state_load in between; free.
 * Memory:     as much as kind and pods ask for: 3 KB for hpa+vpa-mem with up to 16 pods. Where a
 *             VPA sees more pods than there ever were, decide allocates, up to what the bounds
 *             allow twice over; without memory it follows the first of them, as it does with more
 *             than that. Else it does not. It wants some 40 KB of stack.
 * Threads:    single owner. decide is a function of the state, the sample and the time.
 *
 * Kinds, and what each may change:
 *
 *   static       nothing: replicas and size stay as the task began
 *   hpa          replicas, from CPU utilisation (hpa.h)
 *   vpa          CPU and memory of a replica, from use in the past (vpa.h, vpa_update.h)
 *   hpa+vpa      both on everything, which Kubernetes advises against: see the trap
 *   hpa+vpa-mem  HPA on CPU, VPA on memory alone, as GKE's multidimensional autoscaler
 *   aimd         additive increase when the SLO is missed, multiplicative decrease when it is easy
 *   constant     one anchored action in every step: CPU absolute, memory and replicas by factors of
 *                recent peaks of use (aw_action_plan)
 *
 * Whatever a kind proposes passes one wall here: the bounds of the task, and the rule that missing
 * or stale figures never shrink anything. What the wall changed is named in the reason.
 *
 * The trap: hpa+vpa spirals. VPA makes a request 1.15 times what is used, so utilisation settles at
 * 87 %; an HPA target that is further below than its tolerance reaches (79 %) adds replicas, each
 * then uses less, VPA shrinks them, and so on to many tiny pods. It is here because it is what
 * people compare with.
 */
#ifndef AW_FALLBACK_FALLBACK_H
#define AW_FALLBACK_FALLBACK_H

#include <aware/cluster.h>

#include "base/alloc.h"
#include "base/conf.h"
#include "task/bounds.h"

/* clang-format off */
/*     id            name           */
#define AW_FALLBACK_MAP(X)            \
    X(STATIC,       "static")         \
    X(HPA,          "hpa")            \
    X(VPA,          "vpa")            \
    X(HPA_VPA,      "hpa+vpa")        \
    X(HPA_VPA_MEM,  "hpa+vpa-mem")    \
    X(AIMD,         "aimd")           \
    X(CONSTANT,     "constant")
/* clang-format on */

enum aw_fallback_kind {
#define X(id, name) AW_FALLBACK_##id,
    AW_FALLBACK_MAP(X)
#undef X
        AW_FALLBACK_COUNT
};

/* All names, ending with NULL: what a CHOICE of settings wants. */
extern const char *const aw_fallback_names[];

/* The workload as its owner describes it, and how it begins. */
struct aw_fallback_task {
    struct aw_bounds bounds;
    double slo_latency_us; /* at slo_quantile; 0: no SLO */
    double slo_quantile;   /* 0: the 99th percentile */
    AW_AMOUNTS(amount, );  /* to begin with */
};
extern const struct aw_conf_field aw_fallback_task_fields[];

struct aw_fallback_settings {
    uint32_t kind; /* enum aw_fallback_kind */
    double stale;  /* seconds after which a figure counts as missing */

    /* hpa */
    uint32_t hpa_target; /* percent of the CPU request */
    double hpa_period;   /* seconds between decisions */
    double hpa_tolerance;
    uint32_t hpa_down_window; /* seconds of stabilisation before scaling in */

    /* vpa */
    double history_half_life; /* seconds; every clock of the VPA is compressed along with it */
    double vpa_period;        /* seconds between looks at the pods */
    uint32_t vpa_replicas_min;
    double vpa_memory_min_mib; /* the recommender never asks for less */

    /* aimd */
    double aimd_period;      /* seconds between changes */
    double aimd_cpu_step;    /* cores added when the SLO is missed */
    double aimd_memory_step; /* MiB added when memory is short */
    double aimd_decrease;    /* factor when the SLO is easy */
    double aimd_slack;       /* p99 below this share of the SLO: easy */
    double aimd_memory_high; /* utilisation of memory beyond which it is short */
    double aimd_memory_low;  /* and below which it is plenty */

    /* constant: an anchored action (action.h), each in [-1, 1] */
    double constant_cpu;
    double constant_memory;
    double constant_replicas;
    uint32_t anchor_window; /* steps over which a peak is recent */
};
extern const struct aw_conf_field aw_fallback_fields[];

/* clang-format off */
/*     id           text: why this plan                                                        */
#define AW_FALLBACK_CAUSE_MAP(X)                                                                  \
    X(NONE,        "nothing to do")                                                               \
    X(NOT_YET,     "its period is not over")                                                      \
    X(UP,          "more replicas: utilisation is above the target")                              \
    X(DOWN,        "fewer replicas: utilisation is below the target, and was for the window")     \
    X(STABILIZED,  "fewer replicas would do, but not for long enough yet")                        \
    X(RESIZE,      "new size: a replica's requests left the recommended bounds")                  \
    X(RESIZE_OOM,  "new size: a replica was killed for want of memory")                           \
    X(UP_RESIZE,   "replicas and size both change")                                               \
    X(SLO_MISSED,  "more: the SLO was missed")                                                    \
    X(SLO_EASY,    "less: the SLO is met with room to spare")                                     \
    X(MEMORY_LOW,  "more memory: use is close to the limit")                                      \
    X(ANCHORED,    "factors of recent peaks of use")                                              \
    X(SEARCHED,    "the best that a search with knowledge of the load has found")                 \
    X(NO_DATA,     "nothing: the figures it needs are missing or stale")
/* clang-format on */

enum aw_fallback_cause {
#define X(id, text) AW_FALLBACK_CAUSE_##id,
    AW_FALLBACK_CAUSE_MAP(X)
#undef X
        AW_FALLBACK_CAUSE_COUNT
};
const char *aw_fallback_cause_text(enum aw_fallback_cause cause);

/* The reasons for a plan. Figures that a kind does not have are NAN or 0. */
struct aw_fallback_reason {
    enum aw_fallback_cause cause;
    uint32_t held;              /* AW_PLAN_*: shrinking was refused for want of fresh figures */
    uint32_t clipped;           /* AW_PLAN_*: cut to the bounds */
    uint32_t waiting;           /* AW_PLAN_*: not looked at, its period is not over */
    uint32_t replicas_proposed; /* before stabilisation and limits; 0: none */
    double utilization;         /* CPU over request, of the pods that count; NAN: not read */
    int64_t cpu_target;         /* VPA's recommendation in millicores; 0: none */
    int64_t memory_target;      /* and in bytes */
};
/* One line without a newline; returns `buf`. */
#define AW_FALLBACK_REASON_TEXT_MAX 256u
const char *aw_fallback_reason_format(const struct aw_fallback_reason *reason, char *buf,
                                      size_t size);

struct aw_fallback; /* opaque */

/* AW_ERR_CONFIG: invalid bounds, a start outside them, settings that cannot work together (low
 * above high). `ret_policy` is untouched on failure. */
AW_NODISCARD enum aw_err aw_fallback_new(const struct aw_fallback_settings *settings,
                                         const struct aw_fallback_task *task,
                                         const struct aw_alloc *alloc,
                                         struct aw_fallback **ret_policy, struct aw_diag *diag);
void aw_fallback_free(struct aw_fallback *policy); /* NULL is a no-op */
void aw_fallback_reset(struct aw_fallback *policy);

/* All memory that the policy holds. */
size_t aw_fallback_bytes(const struct aw_fallback *policy);

/* What to ask of the cluster now. `ret_plan` names only what differs from what is wanted already;
 * nothing to do is a plan with an empty set. `ret_reason` may be NULL. */
void aw_fallback_decide(struct aw_fallback *policy, const struct aw_sample *sample, int64_t now_us,
                        struct aw_plan *ret_plan, struct aw_fallback_reason *ret_reason);

/* Goes on from what `other` remembers, within its own bounds. Where they are of another kind, or
 * remember for another time, nothing changes. */
void aw_fallback_follow(struct aw_fallback *policy, const struct aw_fallback *other);

/* Everything that outlives a decision, in an envelope (base/envelope.h). How many bytes depends on
 * the kind, the most replicas, and window and period of the HPA. */
size_t aw_fallback_state_bytes(const struct aw_fallback *policy);
void aw_fallback_state_save(const struct aw_fallback *policy, void *bytes);
/* AW_ERR_FORMAT: these bytes are no state of a policy like this one in the above. AW_ERR_NOMEM: no
 * memory for the tracks of so many pods. Nothing changed in either case. */
AW_NODISCARD enum aw_err aw_fallback_state_load(struct aw_fallback *policy, const void *bytes);

#endif
