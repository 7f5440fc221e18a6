/*
 * ope_cases.h - cases for off-policy evaluation whose truth can be measured: a record of one
 * policy, several other policies, and what these really earn in fresh episodes.
 *
 * A record is drawn from (seed, index) alone. On autoscale-v0: an application of the generator, a
 * load, an objective, and 20 to 40 episodes of HPA, or HPA with VPA on memory, with or without
 * noise on what is carried out. On pendulum-v1: a timid swing-up with noise. The policies judged on
 * each record: BCQ trained on it; BCQ with something added to its actions; a constant near the mean
 * of the recorded actions; and the mean of BCQ and that constant.
 */
#ifndef AW_BENCH_OPE_CASES_H
#define AW_BENCH_OPE_CASES_H

#include "rl/ope.h"

#define AW__OPE_POLICIES 4u /* judged on one record */
extern const char *const aw__ope_policy_names[AW__OPE_POLICIES];

enum aw__ope_world { AW__OPE_AUTOSCALE, AW__OPE_PENDULUM };

struct aw__ope_config {
    enum aw__ope_world world;
    uint64_t seed;
    double level;
    uint32_t truth_episodes; /* by which the truth is measured */
    uint32_t bcq_updates;
    const char *trace; /* a file of loads that half of the records take; NULL: patterns alone */
    struct aw_ope_settings ope;
};
/* Level 0.8, 100 episodes, 800 updates, no trace, defaults of aw_ope_fields. */
void aw__ope_config_init(struct aw__ope_config *config, enum aw__ope_world world, uint64_t seed);

struct aw__ope_outcome {
    double truth, truth_error; /* mean return of the policy, and its standard error */
    double record_std;         /* of the returns on record */
    double noise;              /* on what was carried out, as a share of half its range */
    uint32_t episodes;
    bool paper; /* autoscale: AWARE's reward; else the constrained one */
    bool vpa;   /* autoscale: VPA on memory acted too */
    struct aw_ope_estimate estimate;
    double seconds; /* CPU time of the estimate, the policy's own time included */
    double policy_seconds;
};

/* Record `index` and its AW__OPE_POLICIES outcomes. Same config and index, same outcomes, times
 * aside. */
AW_NODISCARD enum aw_err aw__ope_case(const struct aw__ope_config *config, uint32_t index,
                                      struct aw__ope_outcome ret[AW__OPE_POLICIES],
                                      struct aw_diag *diag);

#endif
