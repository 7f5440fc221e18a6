/* learner_copies_test.c - rounds of learning by acting on copies: what they need and leave behind.
 */
#include "base/alloc.h"
#include "rehearsal/learner_copies_testing.h"

/* One life for all tests: making it takes longer than most of them. */
static struct life life;

static int begin(void **state)
{
    (void)state;
    live(3, 1, &life);
    return 0;
}

static void same_record_load_and_seed_same_policy(void **state)
{
    (void)state;
    const struct aw_copyenv_config copy = copy_config(&life);
    for (uint32_t method = AW_LEARNER_PPO; method <= AW_LEARNER_DDPG; method++) {
        struct aw_learner_settings settings = settings_of(method, 200);
        settings.fit_updates = 5;
        uint64_t id[3];
        struct aw_learner *learner = learner_of(&life, &settings, NULL);
        for (uint32_t n = 0; n < 3; n++) {
            struct aw_actnet actor;
            actor_of(&actor, settings.hidden);
            assert_ok(aw_learner_round_on_copies(learner, &copy, 4 + n / 2, &actor, NULL, NULL));
            id[n] = actor.id;
            aw_actnet_deinit(&actor);
        }
        aw_learner_free(learner);
        assert_true(id[0] != 0 && id[0] == id[1]);
        assert_true(id[0] != id[2]); /* another seed, another chance */
    }
}

static void without_a_copy_or_a_record_nothing_is_learned(void **state)
{
    (void)state;
    struct aw_copyenv_config copy = copy_config(&life);
    const struct aw_learner_settings settings = settings_of(AW_LEARNER_PPO, 64);
    struct aw_learner *learner = learner_of(&life, &settings, NULL);
    struct aw_actnet actor;
    struct aw_diag diag = {0};
    actor_of(&actor, settings.hidden);
    copy.minutes = AW_COPYENV_MINUTES_MIN - 1;
    assert_int_equal(aw_learner_round_on_copies(learner, &copy, 1, &actor, NULL, &diag),
                     AW_ERR_NODATA);
    assert_true(diag.text[0] != '\0');
    copy.minutes = MINUTES;
    copy.error_max = 0;
    assert_int_equal(aw_learner_round_on_copies(learner, &copy, 1, &actor, NULL, NULL),
                     AW_ERR_NODATA);
    copy.error_max = 0.5;
    aw_learner_forget(learner, 1);
    assert_int_equal(aw_learner_round_on_copies(learner, &copy, 1, &actor, NULL, NULL),
                     AW_ERR_NODATA);
    assert_true(actor.id == 0);
    aw_actnet_deinit(&actor);
    aw_learner_free(learner);
}

static void lack_of_memory_leaves_the_policy_as_it_was(void **state)
{
    (void)state;
    const struct aw_copyenv_config copy = copy_config(&life);
    struct aw_learner_settings settings = settings_of(AW_LEARNER_PPO, 64);
    settings.fit_updates = 1;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    struct aw_learner *learner = learner_of(&life, &settings, &counting.alloc);
    const uint64_t held = counting.alloc_count - counting.free_count;
    struct aw_actnet actor;
    actor_of(&actor, settings.hidden);
    uint32_t failures = 0;
    for (uint64_t n = 0;; n++) {
        assert_true(n < 300);
        counting.fail_after = counting.alloc_count + n;
        const enum aw_err err = aw_learner_round_on_copies(learner, &copy, 1, &actor, NULL, NULL);
        assert_int_equal(counting.alloc_count - counting.free_count, held);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_true(actor.id == 0);
        failures++;
    }
    assert_true(failures > 10);
    assert_true(actor.id != 0);
    counting.fail_after = UINT64_MAX;
    aw_actnet_deinit(&actor);
    aw_learner_free(learner);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

AW_TEST_GROUP("learner-copies")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_record_load_and_seed_same_policy),
        cmocka_unit_test(without_a_copy_or_a_record_nothing_is_learned),
        cmocka_unit_test(lack_of_memory_leaves_the_policy_as_it_was),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
