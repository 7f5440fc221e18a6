/* testing.h - what the random policy earns; included by tests alone. */
#ifndef AW_ENV_TESTING_H
#define AW_ENV_TESTING_H

#include <aware/env.h>

#include "base/space.h"
#include "base/stats.h"
#include "base/testing.h"

/* Plays `episodes` episodes; asserts that mean and deviation of the return lie within four standard
 * errors of the stated ones (eight for the deviation, whose error is that of a normal only
 * roughly), where the stated figures have an error of their own, from `stated_episodes` episodes.
 */
static inline void aw_testing_random_returns(const struct aw_env *env, uint32_t episodes,
                                             double mean, double std, double stated_episodes)
{
    struct aw_rng rng;
    aw_rng_init(&rng, 11, 0);
    struct aw_running returns = {0};
    float obs[16], action[4];
    for (uint32_t i = 0; i < episodes; i++) {
        struct aw_step step = {0};
        double total = 0;
        assert_ok(env->ops->reset(env->self, aw_rng_u64(&rng), obs));
        while (!step.terminated && !step.truncated) {
            aw_space_sample(&env->spec->action, &rng, action);
            assert_ok(env->ops->step(env->self, action, obs, &step));
            total += (double)step.reward;
        }
        aw_running_push(&returns, total);
    }
    double share = 1.0 / episodes + 1.0 / stated_episodes;
    double mean_error = 4 * std * __builtin_sqrt(share);
    double std_error = 8 * std * __builtin_sqrt(share / 2);
    print_message("random policy on %s: %.2f +- %.2f\n", env->spec->name, returns.mean,
                  aw_running_std(&returns));
    assert_close((returns.mean - mean) / mean_error, 0, 1);
    assert_close((aw_running_std(&returns) - std) / std_error, 0, 1);
}

#endif
