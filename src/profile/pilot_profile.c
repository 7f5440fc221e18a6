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
    const bool paper = profile->task == AW_PROFILE_TASK_PAPER;
    *config = profile->pilot;
    aw_profile_key(profile, config->name, sizeof config->name);
    config->stale_s = config->fallback.stale;
    config->state = paper ? AW_STATE_PAPER : AW_STATE_DEFAULT;
    config->mapping = paper ? AW_ACTION_ABSOLUTE : AW_ACTION_ANCHORED;
    config->seed = seed_of(profile);
    config->guard.mode = (uint32_t)aw_profile_mode(profile, simulated);
    config->lifecycle.retrain_offline = profile->retraining == AW_RETRAINING_OFFLINE;
    if (config->lifecycle.fill > config->lifecycle.window)
        config->lifecycle.fill = config->lifecycle.window;
    /* without an objective to keep, the least cost is the least there is: the fallback stays */
    config->learning = aw_profile_has_slo(profile);
}
