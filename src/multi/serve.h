/*
 * serve.h - functions under agents or rules without learning, and the figures: SLO missed, cores
 * held, p99 of all requests of a run, and who is worst off.
 *
 * Call order: init for a world; serve as often as wanted; deinit.
 * Memory:     records of `steps_max` steps of all agents, at init.
 * Threads:    single owner.
 */
#ifndef AW_MULTI_SERVE_H
#define AW_MULTI_SERVE_H

#include "multi/rules.h"
#include "multi/simppo.h"

struct aw_serve_figures {
    double reward;       /* mean of a step and agent */
    double missed;       /* share of steps that miss the SLO, mean over agents */
    double cores;        /* that a function holds on average */
    double use;          /* of these */
    double worst, fifth; /* share of steps kept: of the worst agent, of the 5th percentile */
    double jain;         /* Jain's index of the shares kept */
    uint32_t agents;
};

struct aw_serve {
    uint32_t agents_max, steps_max, steps;
    float *p50, *p99, *rate;             /* [steps_max][agents_max] */
    double *kept, *cores, *use, *reward; /* sums of an agent */
    uint32_t *lived;                     /* steps */
    struct aw_rule_memory *memory;
    double *scratch;
    uint8_t *action;
    const struct aw_alloc *alloc;
    void *block;
};
AW_NODISCARD enum aw_err aw_serve_init(struct aw_serve *serve, uint32_t agents_max,
                                       uint32_t steps_max, const struct aw_alloc *alloc);
void aw_serve_deinit(struct aw_serve *serve);
/* Forgets what was recorded. */
void aw_serve_begin(struct aw_serve *serve);

/* Who acts: agents, or a rule where `simppo` is NULL. */
struct aw_serve_actor {
    struct aw_simppo *simppo;
    bool greedy;
    struct aw_rule rule;
};
/* `steps` more steps of the team's world as it is now; recorded of the agent `only` alone
 * (AW_MULTI_NOWHERE: of all that are there). */
void aw_serve_run(struct aw_serve *serve, struct aw_team *team, const struct aw_serve_actor *actor,
                  uint32_t steps, uint32_t only);
/* Episodes of `steps` steps from reset(seed + k), all together or each agent alone. */
void aw_serve_episodes(struct aw_serve *serve, struct aw_team *team,
                       const struct aw_serve_actor *actor, uint32_t episodes, uint32_t steps,
                       uint64_t seed, bool alone);

void aw_serve_figures(struct aw_serve *serve, struct aw_serve_figures *ret);
/* p99 of all requests of an agent over what was recorded; NAN: none. Each step is log-normal with
 * its p50 and p99. */
double aw_serve_p99(const struct aw_serve *serve, uint32_t agent);

#endif
