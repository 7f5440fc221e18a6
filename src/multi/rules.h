/*
 * rules.h - rules that scale functions of multi/world.h: what learned agents are compared with.
 *
 *   staffing  R + c sqrt(R) containers, set directly; knows the service time of a request
 *   ensure    after ENSURE (ACSOS 2020), from its abstract and the thesis: the same containers,
 *             fewer one at a time as they time out; cpu.shares up where p99 passes `threshold`
 *             times the best seen, down where there is slack
 *   kpa       Knative: concurrency over a target, stable over 60 s, panic at twice
 *   hpa       CPU utilisation over a target, scaling in after 300 s
 *
 * Memory:  a rule's memory is the caller's, zeroed to begin with: [agents_max].
 * Threads: pure functions of their arguments.
 */
#ifndef AW_MULTI_RULES_H
#define AW_MULTI_RULES_H

#include "multi/team.h"

enum aw_rule_kind { AW_RULE_STAFFING, AW_RULE_ENSURE, AW_RULE_KPA, AW_RULE_HPA, AW_RULES };
extern const char *const aw_rule_names[];

struct aw_rule {
    uint32_t kind;     /* enum aw_rule_kind */
    double parameter;  /* c of staffing and ensure; target of kpa and hpa */
    uint32_t shares;   /* of every container, but with ensure, which begins there */
    const float *each; /* [agents]: of staffing, in the place of `parameter`; NULL: none */
    double threshold;  /* ensure: p99 over the best seen */
};

struct aw_rule_memory {
    float best_s;      /* lowest p99 seen; 0: none yet */
    float concurrency; /* smoothed over the stable window */
    uint16_t hold;     /* steps for which nothing is taken away */
};

/* Sets containers and shares of all functions that are there. */
void aw_rule_act(const struct aw_rule *rule, struct aw_rule_memory *memory, struct aw_team *team);

#endif
