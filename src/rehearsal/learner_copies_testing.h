/* learner_copies_testing.h - a learner with a record of a copied workload. Included by tests alone.
 */
#ifndef AW_REHEARSAL_LEARNER_COPIES_TESTING_H
#define AW_REHEARSAL_LEARNER_COPIES_TESTING_H

#include <string.h>

#include "rehearsal/copyenv_testing.h"
#include "rehearsal/learner.h"

#define EPISODES 6u

static inline struct aw_learner_settings settings_of(uint32_t method, uint32_t steps)
{
    struct aw_learner_settings settings = {0};
    aw_conf_defaults(aw_learner_fields, &settings);
    aw_conf_defaults(aw_ope_fields, &settings.ope);
    settings.method = method;
    settings.copy_steps = steps;
    settings.episodes = EPISODES;
    settings.hidden = 16;
    settings.fit_updates = 300;
    settings.batch = 32;
    return settings;
}

/* A learner with a record of one policy on the workload's copy. */
static inline struct aw_learner *learner_of(const struct life *life,
                                            const struct aw_learner_settings *settings,
                                            const struct aw_alloc *alloc)
{
    const struct aw_copyenv_config config = copy_config(life);
    struct aw_env env = copy_of(&config);
    struct aw_learner *learner = NULL;
    const struct aw_learner_shape shape = {
        .obs_dim = AW_STATE_DEFAULT_DIM, .act_dim = AW_ACTION_DIM, .episode_steps = COPY_STEPS};
    assert_ok(aw_learner_new(&shape, settings, alloc, &learner, NULL));
    static const float action[AW_ACTION_DIM] = {0, 0, 0.2f};
    for (uint32_t e = 0; e < EPISODES; e++) {
        float obs[AW_STATE_DIM_MAX], next[AW_STATE_DIM_MAX];
        struct aw_step step = {0};
        assert_ok(env.ops->reset(env.self, e, obs));
        while (!step.truncated) {
            assert_ok(env.ops->step(env.self, action, next, &step));
            const bool violated = aw_copyenv_score(&env)->violated;
            assert_ok(aw_learner_add(
                learner, &(struct aw_learner_step){.obs = obs,
                                                   .action = action,
                                                   .next_obs = next,
                                                   .gain = (double)step.reward +
                                                           (violated ? config.lambda : 0),
                                                   .violated = violated}));
            memcpy(obs, next, sizeof obs);
        }
        aw_learner_end(learner);
    }
    aw_env_free(&env);
    return learner;
}

static inline void actor_of(struct aw_actnet *actor, uint32_t hidden)
{
    const struct aw_actnet_shape shape = {
        .obs_dim = AW_STATE_DEFAULT_DIM, .act_dim = AW_ACTION_DIM, .hidden = hidden};
    assert_ok(aw_actnet_init(actor, &shape, NULL));
}

#endif
