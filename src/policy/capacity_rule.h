/*
 * capacity_rule.h - the formula, a policy of nine numbers: capacity for the load, by what a request
 * costs. Profiles call it `formula`.
 *
 * Wanted cores are what the load needs (smoothed load mixed with its recent peak, times measured
 * CPU per request) times a margin; replicas follow from the size of one. Two trims move with
 * experience: every missed step raises the margin a little, every met one gives back so much less
 * that the two balance where just the budget is missed (adaptive conformal inference, Gibbs and
 * Candes, 2021, is the same rule), but never more than was raised; slower, the same for the size of
 * a replica, and in the place of the margin where one replica is more than the load needs. Memory
 * is the recent peak and a little more. Without load for long a workload may sleep: one small
 * replica.
 *
 * What is learned are the nine numbers (by trying on copies of the workload, rehearse.h); what
 * adapts from step to step are the trims. A constant has no answer to a workload that changes; this
 * has, and its numbers can be read.
 *
 * Call order: begin for a new workload; decide once per reading, in the order of time.
 * Memory:     plain structs. A memory has no padding: it is part of snapshots.
 * Threads:    pure functions of their arguments.
 *
 * Missing figures shrink nothing: without a load to go by the present stays, without a figure of
 * CPU or of memory that amount does not fall. Memory alone may still grow.
 */
#ifndef AW_POLICY_CAPACITY_RULE_H
#define AW_POLICY_CAPACITY_RULE_H

#include "task/bounds.h"
#include "task/reading.h"

/* clang-format off */
/* Each is kept as x in [0, 1]; the scale says what that stands for.
 *     id      name      low    high  scale  meaning */
#define AW_CAPACITY_RULE_MAP(X)                                                                    \
    X(CPU,    "cpu",    0.1,   4,    LOG,   "cores of a replica")                                  \
    X(MARGIN, "margin", 0.8,   16,   LOG,   "capacity over need")                                  \
    X(WINDOW, "window", 1,     240,  LOG,   "steps over which a peak of load is recent")           \
    X(PEAK,   "peak",   -0.15, 1.15, SHARE, "share of the recent peak in the load to serve")       \
    X(SMOOTH, "smooth", 0.03,  1,    LOG,   "how fast the smoothed load follows")                  \
    X(TRIM,   "trim",   0.01,  0.3,  LOG,   "how fast missed steps raise the margin")              \
    X(FLOOR,  "floor",  0.02,  1,    OFF,   "share of the highest load that is always served")     \
    X(SLEEP,  "sleep",  1,     200,  SLEEP, "steps without load before it sleeps; 0: never")       \
    X(ASLEEP, "asleep", 0.03,  1,    LOG,   "size of the one sleeping replica, of a waking one")
/* clang-format on */
enum aw_capacity_rule_number {
#define X(id, name, low, high, scale, meaning) AW_CAPACITY_RULE_##id,
    AW_CAPACITY_RULE_MAP(X)
#undef X
        AW_CAPACITY_RULE_DIM
};
const char *aw_capacity_rule_name(enum aw_capacity_rule_number number);
const char *aw_capacity_rule_meaning(enum aw_capacity_rule_number number);

struct aw_capacity_rule {
    double x[AW_CAPACITY_RULE_DIM];
};
/* What a number stands for, in its own unit. */
double aw_capacity_rule_value(const struct aw_capacity_rule *rule,
                              enum aw_capacity_rule_number number);
/* The x of a value on a logarithmic scale (cpu, margin, ...); what is beyond lies at the end. */
double aw_capacity_rule_place(enum aw_capacity_rule_number number, double value);
/* All of them at once, for decide. */
struct aw_capacity_rule_values {
    double v[AW_CAPACITY_RULE_DIM];
};
void aw_capacity_rule_decode(const struct aw_capacity_rule *rule,
                             struct aw_capacity_rule_values *ret_values);
/* A beginning without any knowledge: about one core, twice the need. */
void aw_capacity_rule_plain(struct aw_capacity_rule *rule);
/* FNV over the numbers: what a decision is recorded under. Never 0. */
uint64_t aw_capacity_rule_id(const struct aw_capacity_rule *rule);

#define AW_CAPACITY_RULE_HISTORY        256u /* steps of load; the longest window is 240 */
#define AW_CAPACITY_RULE_MEMORY_HISTORY 128u /* of memory */

struct aw_capacity_rule_memory {
    double margin_trim, size_trim, size_trim_used; /* logarithms */
    double cores_sum, completions_sum;             /* that fade: CPU per request */
    double smooth_load, high_load;
    double oom_floor_bytes;
    double bound_millicores; /* of a replica, for all that as many as are allowed had to serve */
    double spare; /* capacity of the one replica over what was wanted; 1: there were more of them */
    uint16_t load[AW_CAPACITY_RULE_HISTORY];                /* rings, aw_pack16; requests/s */
    uint16_t memory_bytes[AW_CAPACITY_RULE_MEMORY_HISTORY]; /* never below what was seen */
    uint32_t step, idle, since_resize, quiet;
};
void aw_capacity_rule_begin(struct aw_capacity_rule_memory *memory);
/* The numbers changed: what was learned about the old ones no longer holds. */
void aw_capacity_rule_changed(struct aw_capacity_rule_memory *memory);
/* The workload changed: the cost of requests, or the load, is measured anew from here on. */
void aw_capacity_rule_new_requests(struct aw_capacity_rule_memory *memory);
void aw_capacity_rule_new_load(struct aw_capacity_rule_memory *memory);

struct aw_capacity_rule_task {
    struct aw_bounds bounds;
    double budget;         /* share of steps that may miss the SLO */
    double slo_latency_us; /* 0: latency says nothing of how far away the SLO is */
};
/* Takes in a reading, and says what to ask for: all of `ret_plan` is set. `violated`: the step that
 * has ended missed its SLO. `acts`: this policy has brought that step about; the trims follow only
 * then. */
void aw_capacity_rule_decide(const struct aw_capacity_rule_values *values,
                             const struct aw_capacity_rule_task *task,
                             struct aw_capacity_rule_memory *memory,
                             const struct aw_reading *reading, bool violated, bool acts,
                             struct aw_plan *ret_plan);

#endif
