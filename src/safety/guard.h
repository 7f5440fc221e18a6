/*
 * guard.h - the rails around any decider: what it proposes in, what may be applied out, and the
 * name of every rail that made a difference.
 *
 * Call order: aw_conf_defaults(aw_guard_fields, &settings), change what you like, aw_guard_init;
 *             aw_guard_begin for a new workload; then per tick: aw_guard_observe, aw_guard_pass,
 *             and aw_guard_applied when the cluster has taken the plan.
 * Memory:     plain structs. A memory has no padding: it is part of snapshots.
 * Threads:    pure functions of their arguments; pass writes its result alone.
 *
 * How rails are put together. Each amount (aware/resource.h) has an interval of what is
 * allowed. Hard rails (bounds, node, OOM floor) narrow it first, in that order, and never to
 * nothing: where two contradict, the stronger stands. The present, moved into what the hard rails
 * left, is "home". Every soft rail then allows an interval that contains home, so soft rails can
 * only make a change smaller, commute, and can never force one. Last comes what looks at two
 * amounts at once (the working set), and what only strikes out (freeze, mode). Passing a result
 * again changes nothing more.
 *
 * The trap: aw_guard_pass does not remember that it was asked. Without aw_guard_applied after
 * applying a plan there is no cool-down and no budget until the next observe sees the change.
 */
#ifndef AW_SAFETY_GUARD_H
#define AW_SAFETY_GUARD_H

#include "base/conf.h"
#include "task/bounds.h"
#include "task/reading.h"

enum aw_guard_mode {
    AW_GUARD_OFF,     /* recommend only */
    AW_GUARD_INITIAL, /* sizes once, the first time; replicas freely: adding one restarts nothing */
    AW_GUARD_AUTO,
    AW_GUARD_APPROVE, /* recommend, and wait until a person approves of it */
};
extern const char *const aw_guard_mode_names[]; /* "Off", "Initial", "Auto", "Approve", NULL */

struct aw_guard_settings {
    uint32_t mode; /* enum aw_guard_mode */

    /* the most that one decision may change an amount, as a factor >= 1: up_factor[] and by name
     * replicas_up_factor, cpu_up_factor, ... */
#define X(id, member, name, ...) double name##_up_factor;
    union {
        double up_factor[AW_RESOURCES];
        struct {
            AW_RESOURCE_MAP(X)
        };
    };
#undef X
#define X(id, member, name, ...) double name##_down_factor;
    union {
        double down_factor[AW_RESOURCES];
        struct {
            AW_RESOURCE_MAP(X)
        };
    };
#undef X
    uint32_t replicas_up_least; /* replicas that one decision may always add */

    /* budgets over sliding windows */
    double restart_window;  /* seconds */
    uint32_t restart_count; /* vertical changes within it; shrinking may use half of them */
    double change_window;   /* seconds */
    double change_factor;   /* of any amount, largest over smallest within the window */

    /* cool-down in seconds after a change of the same kind, by us or not */
    double replicas_up_cooldown, replicas_down_cooldown;
    double size_up_cooldown, size_down_cooldown;
    double replicas_stabilisation; /* seconds for which replicas that were added stay */

    /* floors */
    double peak_window;   /* seconds for which a peak of use counts */
    double memory_margin; /* over the peak */
    double cpu_margin;
    double oom_factor; /* over the size that was killed */
    double oom_hold;   /* seconds after the last kill */

    double deadband; /* relative change of a size that is not worth a restart */
    double pressure; /* CPU utilisation beyond which growth waits for nothing */

    /* a crash loop */
    double crash_window;  /* seconds */
    uint32_t crash_count; /* crashes within it, at least */
    double crash_share;   /* and at least this many per wanted replica */
};
extern const struct aw_conf_field aw_guard_fields[];

/* clang-format off */
/* In the order in which they are asked.
 *     id               name                sentence: what it did */
#define AW_CLIP_MAP(X)                                                                             \
    X(ABSURD,          "absurd",           "ignored: the proposed amount cannot be one")           \
    X(BOUNDS,          "bounds",           "moved into the bounds of the profile")                 \
    X(NODE,            "node",             "cut to what the largest node can hold")                \
    X(OOM_FLOOR,       "oom_floor",        "raised above what was killed for want of memory")      \
    X(NO_DATA,         "no_data",          "not shrunk: the figures for it are missing or stale")  \
    X(YOUNG,           "young",            "not shrunk: watched too briefly to know its peaks")    \
    X(CRASH_LOOP,      "crash_loop",       "held: replicas crash again and again")                 \
    X(ROLLOUT,         "rollout",          "held: a change is still being rolled out")             \
    X(STEP,            "step",             "cut to the most that one decision may change")         \
    X(RESTART_BUDGET,  "restart_budget",   "held: the window's restarts are spent")                \
    X(CHANGE_BUDGET,   "change_budget",    "cut to the most that may change within the window")    \
    X(COOL_DOWN,       "cool_down",        "held: too soon after the last change")                 \
    X(WORKING_SET,     "working_set",      "not shrunk below recent peaks of use plus a margin")   \
    X(DEADBAND,        "deadband",         "kept: the difference is not worth a restart")          \
    X(UNCONTROLLED,    "uncontrolled",     "left alone: the profile does not control it")          \
    X(ZERO,            "zero",             "left alone: scaled to zero, which means paused")       \
    X(FREEZE,          "freeze",           "left alone: frozen")                                   \
    X(MODE,            "mode",             "only recommended: the mode does not let it act")       \
    X(RESTART,         "restart",          "left alone: the first look after a restart")           \
    X(UNRECORDED,      "unrecorded",      "held: it could not be written down before it was done") \
    X(TENANCY,         "tenancy",          "cut to its share of a cluster that others use too")
/* clang-format on */

enum aw_clip {
#define X(id, name, sentence) AW_CLIP_##id,
    AW_CLIP_MAP(X)
#undef X
        AW_CLIP_COUNT
};
#define AW_CLIP_BIT(clip) (UINT32_C(1) << (clip))
const char *aw_clip_name(enum aw_clip clip);     /* "cool_down" */
const char *aw_clip_sentence(enum aw_clip clip); /* for people */

enum aw_guard_freeze { AW_GUARD_FREEZE_NONE, AW_GUARD_FREEZE_DOWN, AW_GUARD_FREEZE_ALL };
enum aw_guard_slo {
    AW_GUARD_SLO_MET,     /* or no SLO, or no request */
    AW_GUARD_SLO_MISSED,  /* in the last step */
    AW_GUARD_SLO_UNKNOWN, /* there is an SLO, but no figures: nothing shrinks */
};

/* What is known in this tick. */
struct aw_guard_input {
    const struct aw_reading *reading;
    uint32_t restarts;     /* containers, since the reading before; OOM kills may be among them */
    uint32_t uncontrolled; /* AW_PLAN_*: what is not ours to change, whatever a rail says */
    enum aw_guard_slo slo;
    enum aw_guard_freeze freeze;
    bool in_place;          /* sizes change without a restart */
    bool ordered;           /* by a person: rails of pace, freeze and mode stand aside */
    bool blind;             /* the cluster did not answer: `reading` has what was asked of it */
    bool first;             /* look after a restart: nothing is changed but by order */
    struct aw_amounts node; /* allocatable of the largest node; 0: unknown */
};

struct aw_guard {
    struct aw_guard_settings settings;
    struct aw_bounds bounds;
};

#define AW_GUARD_BUCKETS      16u /* a sliding window is kept in this many pieces */
#define AW_GUARD_RESTARTS_MAX 32u /* largest restart_count */

/* What a workload did and what was done to it. Times are AW_NEVER where it has not been. */
struct aw_guard_memory {
    int64_t seen_us;                 /* last observe */
    int64_t known_us[AW_USES];       /* last figure of use */
    int64_t known_since_us[AW_USES]; /* since when there has been no gap of a peak_window */
    int64_t wanted[AW_RESOURCES];    /* as last seen or applied; 0: unknown */
    int64_t seen[AW_RESOURCES];      /* as the cluster last said itself; 0: unknown */
    int64_t memory_before;           /* bytes, before the last change of size; 0: unknown */
    int64_t replicas_change_us, size_change_us;
    int64_t replicas_added_us; /* last time that there were to be more */
    int64_t oom_us;            /* last kill */
    int64_t oom_floor_bytes;   /* 0: none */

    int64_t restart_us[AW_GUARD_RESTARTS_MAX]; /* ring of the last changes of size */

    /* pieces of windows, each known by when it began */
    int64_t peak_us[AW_GUARD_BUCKETS];
    double peak_cores[AW_GUARD_BUCKETS]; /* in all */
    double peak_bytes[AW_GUARD_BUCKETS]; /* of one replica */
    int64_t change_us[AW_GUARD_BUCKETS];
    int64_t change_low[AW_GUARD_BUCKETS][AW_RESOURCES]; /* smallest wanted; 0: unknown */
    int64_t change_high[AW_GUARD_BUCKETS][AW_RESOURCES];
    int64_t crash_us[AW_GUARD_BUCKETS];
    uint32_t crash_restarts[AW_GUARD_BUCKETS];
    uint32_t crash_kills[AW_GUARD_BUCKETS]; /* for want of memory; each is followed by a restart */

    uint32_t restart_next;
    uint32_t sized; /* 1: a size has been applied; what mode Initial asks */
};
#define AW_GUARD_MEMORY(at)                                                                        \
    at seen_us, at known_us, at known_since_us, at wanted, at seen, at memory_before,              \
        at replicas_change_us, at size_change_us, at replicas_added_us, at oom_us,                 \
        at oom_floor_bytes, at restart_us, at peak_us, at peak_cores, at peak_bytes, at change_us, \
        at change_low, at change_high, at crash_us, at crash_restarts, at crash_kills,             \
        at restart_next, at sized

/* What one rail made of one amount. */
struct aw_guard_cut {
    int64_t to;    /* what was left of it, or its present amount where it was struck out */
    uint32_t clip; /* enum aw_clip */
    uint32_t axis; /* enum aw_resource */
};
#define AW_GUARD_CUTS_MAX \
    (4u * AW_RESOURCES) /* told; `clips` names the rails of more, should there be any */

struct aw_guard_result {
    struct aw_plan proposed;    /* as it came */
    struct aw_plan recommended; /* behind all rails but freeze and mode; `set`: what differs */
    struct aw_plan plan;        /* to apply; amounts outside `set` are as they are now */
    uint32_t clips;             /* AW_CLIP_BIT or-ed: rails that made a difference */
    uint32_t axis_clips[AW_RESOURCES]; /* the same for each amount */
    uint32_t cut_count;
    struct aw_guard_cut cut[AW_GUARD_CUTS_MAX]; /* [cut_count], in the order in which they came */
};

/* AW_ERR_CONFIG: invalid bounds. On failure `guard` is untouched. */
AW_NODISCARD enum aw_err aw_guard_init(struct aw_guard *guard,
                                       const struct aw_guard_settings *settings,
                                       const struct aw_bounds *bounds, struct aw_diag *diag);
void aw_guard_begin(struct aw_guard_memory *memory);

/* Takes in one tick: peaks, kills, crashes, and changes that we did not make. A clock that went
 * back does not lengthen a cool-down. */
void aw_guard_observe(const struct aw_guard *guard, struct aw_guard_memory *memory,
                      const struct aw_guard_input *input, int64_t now_us);
/* What may be applied of `proposed`. Any bytes may come in; what goes out is within the bounds. */
void aw_guard_pass(const struct aw_guard *guard, const struct aw_guard_memory *memory,
                   const struct aw_guard_input *input, const struct aw_plan *proposed,
                   int64_t now_us, struct aw_guard_result *ret_result);
/* The cluster has taken `plan`. An empty set is a no-op. */
void aw_guard_applied(const struct aw_guard *guard, struct aw_guard_memory *memory,
                      const struct aw_plan *plan, int64_t now_us);

/* Vertical changes that are left in the window, for shrinking or for growing. */
uint32_t aw_guard_restarts_left(const struct aw_guard *guard, const struct aw_guard_memory *memory,
                                bool growing, int64_t now_us);

/* "replicas: cool_down; memory: oom_floor, step"; empty without clips. Returns `buf`. */
#define AW_GUARD_TEXT_MAX 640u
const char *aw_guard_clips_format(const struct aw_guard_result *result, char *buf, size_t size);

#endif
