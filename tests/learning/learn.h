/*
 * learn.h - trains a learner on a built-in environment and measures what it learned.
 *
 * The whole loop on the public contracts alone, so that a learning test fails for what a learner
 * or an environment does and not for what a trainer does around them.
 */
#ifndef AW_TESTS_LEARN_H
#define AW_TESTS_LEARN_H

#include <aware/err.h>

#include "rl/agents.h"

struct aw_learn_case {
    const char *env; /* "cartpole-v1"; the preset of that name is used where there is one */
    const struct aw_agent_factory *factory;
    const char *const *pairs; /* settings over the preset, "key=value", ending with NULL; or NULL */
    uint32_t env_count;       /* environments in lockstep */
    uint64_t steps;           /* environment steps, over all environments */
    uint32_t episode_count;   /* of the evaluation, deterministic */
};

struct aw_learn_result {
    double return_mean, return_std; /* over the evaluation's episodes */
    double seconds;                 /* of training */
};

/* Trains from `seed` and evaluates on episodes seeded apart from those of training. */
AW_NODISCARD enum aw_err aw_learn_run(const struct aw_learn_case *learn, uint64_t seed,
                                      struct aw_learn_result *ret_result, struct aw_diag *diag);

#endif
