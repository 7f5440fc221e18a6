/*
 * others.h - what an agent of another process may see of all other workloads of its loop, for
 * agents that learn together: leave-one-out means and deviations, the team's reward, and who is
 * counted.
 *
 * All of it is what the loop has observed. Agents report nothing of themselves, so that none can
 * lie; and members are workloads, not agents: the workload of an agent that died still holds cores,
 * is decided by its fallback, and is counted.
 *
 * An epoch is a time in which the same workloads are there. It changes between ticks alone, and no
 * epoch is used twice (agent_exchange.h gives them out). What an agent learns from two epochs is
 * cut between them: it was truncated.
 *
 * Memory:  all at make, for the loop's workloads_max. A tick takes nothing.
 * Threads: the loop's.
 */
#ifndef AW_CONTROL_OTHERS_H
#define AW_CONTROL_OTHERS_H

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
/*      id           what of all others has a mean and a deviation */
#define AW_OTHERS_MAP(X)                                                                    \
    X(CPU,         "ln of 1 and the cores that its replicas hold")                          \
    X(MEMORY,      "ln of 1 and the memory that they hold, GiB")                            \
    X(VERTICAL,    "ln of its cores a replica over those of the tick before, within 1")    \
    X(HORIZONTAL,  "ln of its replicas over those of the tick before, within 1")            \
    X(KEPT,        "its SLO over its latency where it is missed, else 1")                   \
    X(USE,         "CPU used of what is held")
/* clang-format on */
enum aw_others_figure {
#define X(id, help) AW_OTHERS_##id,
    AW_OTHERS_MAP(X)
#undef X
        AW_OTHERS_FIGURES
};
#define AW_OTHERS_DIM (2 * AW_OTHERS_FIGURES)
/* "cpu_mean", ..., "cpu_deviation", ... */
extern const char *const aw_others_names[AW_OTHERS_DIM];

struct aw_others_view {
    uint64_t epoch;   /* 0: nothing is told of others */
    uint32_t members; /* workloads that are counted, this one included */
    bool has_reward;
    float team_reward; /* mean of the step before, of all that were there at both its ends */
    float global[AW_OTHERS_DIM];
};

#endif
