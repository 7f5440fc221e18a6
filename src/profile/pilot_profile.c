/* pilot_profile.c - what a user wrote, as the settings of a pilot. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "control/pilot.h"
#include "profile/profile.h"

/* Workloads of one seed still differ, by name. */
static uint64_t seed_of(const struct aw_profile *profile)
{
    char key[AW_PROFILE_KEY_MAX];
    aw_profile_key(profile, key, sizeof key);
    return aw_hash_text(AW_HASH_BEGIN ^ profile->seed, key);
}

void aw_pilot_config_of(struct aw_pilot_config *config, const struct aw_profile *profile,
                        bool simulated)
{
    aw_pilot_config_init(config);
    aw_profile_key(profile, config->name, sizeof config->name);
    config->bounds = profile->bounds;
    config->controlled = profile->controlled;
    config->slo = (struct aw_slo){.latency_us_p99 = profile->slo_latency_us,
                                  .quantile = profile->slo_latency_quantile,
                                  .throughput_per_s = profile->slo_throughput_per_s,
                                  .timeout_us = profile->slo_timeout_us};
    config->slo_budget = profile->slo_budget;
    config->objective = profile->objective;
    config->slo_weight = profile->slo_weight;
    config->prices = profile->prices;
    config->step_s = profile->step_s;
    config->stale_s = profile->fallback.stale;
    config->episode_steps = profile->episode_steps;
    const bool paper = profile->task == AW_PROFILE_TASK_PAPER;
    config->state = paper ? AW_STATE_PAPER : AW_STATE_DEFAULT;
    config->mapping = paper ? AW_ACTION_ABSOLUTE : AW_ACTION_ANCHORED;
    config->seed = seed_of(profile);
    config->agent = profile->agent;
    config->rehearse = profile->rehearse;
    config->learner = profile->learner;
    config->external = profile->external;
    config->fallback = profile->fallback;
    config->canary = profile->canary;
    config->guard = profile->guard;
    config->guard.mode = (uint32_t)aw_profile_mode(profile, simulated);
    config->lifecycle.bootstrap = profile->bootstrap;
    config->lifecycle.retrain_offline = profile->retraining == AW_RETRAINING_OFFLINE;
    config->lifecycle.window = profile->window_episodes;
    if (config->lifecycle.fill > config->lifecycle.window)
        config->lifecycle.fill = config->lifecycle.window;
    config->thresholds = (struct aw_lifecycle_thresholds){.online = profile->threshold_online,
                                                          .serving = profile->threshold_serving,
                                                          .deviation = profile->threshold_variance};
    config->watchdog.explore_violation = profile->exploration_budget;
    /* without an objective to keep, the least cost is the least there is: the fallback stays */
    config->learning = aw_profile_has_slo(profile);
}
