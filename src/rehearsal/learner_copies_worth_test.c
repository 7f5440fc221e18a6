/* learner_copies_worth_test.c - what rounds on copies are worth, in returns over several seeds. */
#include <math.h>

#include "rehearsal/learner_copies_testing.h"

/* One life for all tests: making it takes longer than most of them. */
static struct life life;

static int begin(void **state)
{
    (void)state;
    live(3, 1, &life);
    return 0;
}

/* Mean return of an actor on the copy, over episodes that no round has seen. */
static double worth(const struct aw_actnet *actor)
{
    const struct aw_copyenv_config config = copy_config(&life);
    const uint32_t episodes = 12;
    struct aw_env env = copy_of(&config);
    double sum = 0;
    for (uint32_t e = 0; e < episodes; e++) {
        float obs[AW_STATE_DIM_MAX], action[AW_ACTION_DIM];
        struct aw_step step = {0};
        assert_ok(env.ops->reset(env.self, 1000 + e, obs));
        while (!step.truncated) {
            assert_ok(aw_actnet_act(actor, obs, action));
            for (uint32_t a = 0; a < AW_ACTION_DIM; a++)
                assert_true(action[a] >= -1 && action[a] <= 1);
            assert_ok(env.ops->step(env.self, action, obs, &step));
            sum += (double)step.reward / episodes;
        }
    }
    aw_env_free(&env);
    return sum;
}

static void a_round_is_better_than_a_policy_that_learned_nothing(void **state)
{
    (void)state;
    const struct aw_copyenv_config copy = copy_config(&life);
    for (uint32_t method = AW_LEARNER_PPO; method <= AW_LEARNER_DDPG; method++) {
        struct aw_learner_settings settings = {0}; /* as a profile has them that says nothing */
        aw_conf_defaults(aw_learner_fields, &settings);
        settings.method = method;
        struct aw_learner *learner = learner_of(&life, &settings, NULL);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct aw_learner_stats stats;
            struct aw_actnet actor;
            actor_of(&actor, settings.hidden);
            const double untrained = worth(&actor); /* weights 0: the middle of every range */
            struct aw_diag diag = {0};
            if (aw_learner_round_on_copies(learner, &copy, seed, &actor, &stats, &diag))
                fail_msg("%s", diag.text);
            const double trained = worth(&actor);
            print_message("%s: return %.1f untrained, %.1f trained; a step on copies %.2f, %.2f\n",
                          aw_learner_method_names[method], untrained, trained, stats.copy_first,
                          stats.copy_last);
            assert_true(trained > untrained + 0.5 * fabs(untrained));
            assert_int_equal(stats.copies, AW_LEARNER_COPIES);
            assert_int_equal(stats.episodes, EPISODES);
            assert_true(isfinite(stats.critic_loss) && stats.critic_loss > 0);
            assert_true(stats.imitation >= 0 && stats.imitation < 0.2);
            aw_actnet_deinit(&actor);
        }
        aw_learner_free(learner);
    }
}

AW_TEST_GROUP("learner-copies-worth")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_better_than_a_policy_that_learned_nothing),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
