/* slo_boost_test.c - raised while something is missed, never lowered, gone afterwards. */
#include "pretrain/slo_boost.h"

#include "base/testing.h"
#include "task/action.h"

static void an_episode_begins_as_after_a_miss_and_that_fades(void **state)
{
    (void)state;
    struct aw_slo_boost trim;
    float first[AW_ACTION_DIM] = {-0.25f, 0.5f, -0.5f}, last[AW_ACTION_DIM] = {-0.25f, 0.5f, -0.5f};
    aw_slo_boost_begin(&trim);
    aw_slo_boost_apply(&trim, first);
    for (int i = 0; i < 1000; i++)
        aw_slo_boost_see(&trim, false);
    aw_slo_boost_apply(&trim, last);
    assert_true(first[AW_ACTION_CPU] == -0.25f && first[AW_ACTION_MEMORY] == 0.5f);
    assert_true(first[AW_ACTION_REPLICAS] == 0.5f);
    assert_true(last[AW_ACTION_CPU] == -0.25f && last[AW_ACTION_MEMORY] == 0.5f);
    assert_float_equal(last[AW_ACTION_REPLICAS], -0.5f, 1e-6);
}

static void one_miss_asks_for_replicas_and_leaves_sizes_alone(void **state)
{
    (void)state;
    struct aw_slo_boost trim;
    float action[AW_ACTION_DIM] = {0, 0, 0};
    aw_slo_boost_begin(&trim);
    for (int i = 0; i < 1000; i++)
        aw_slo_boost_see(&trim, false);
    aw_slo_boost_see(&trim, true);
    aw_slo_boost_apply(&trim, action);
    assert_true(action[AW_ACTION_REPLICAS] == 1);
    assert_true(action[AW_ACTION_CPU] == 0 && action[AW_ACTION_MEMORY] == 0);
}

static void misses_that_do_not_end_ask_for_larger_replicas_in_few_steps(void **state)
{
    (void)state;
    struct aw_slo_boost trim;
    float last = 0;
    int steps = 0;
    aw_slo_boost_begin(&trim);
    for (int i = 0; i < 50; i++) {
        float action[AW_ACTION_DIM] = {0, 0, 0};
        aw_slo_boost_see(&trim, true);
        aw_slo_boost_apply(&trim, action);
        assert_true(action[AW_ACTION_CPU] >= last);
        steps += action[AW_ACTION_CPU] > last;
        last = action[AW_ACTION_CPU];
    }
    assert_true(last == 1 && steps <= 4);
}

static void kills_ask_for_memory_that_stays_and_misses_do_not(void **state)
{
    (void)state;
    struct aw_slo_boost trim;
    float once[AW_ACTION_DIM] = {0, 0, 0}, later[AW_ACTION_DIM] = {0, 0, 0};
    float most[AW_ACTION_DIM] = {-1, -1, -1};
    aw_slo_boost_begin(&trim);
    aw_slo_boost_see(&trim, true);
    aw_slo_boost_killed(&trim);
    aw_slo_boost_apply(&trim, once);
    assert_true(once[AW_ACTION_MEMORY] > 0 && once[AW_ACTION_MEMORY] < 0.1f);
    for (int i = 0; i < 1000; i++)
        aw_slo_boost_see(&trim, i % 2 == 0);
    aw_slo_boost_apply(&trim, later);
    assert_true(later[AW_ACTION_MEMORY] == once[AW_ACTION_MEMORY]);
    for (int i = 0; i < 1000; i++)
        aw_slo_boost_killed(&trim);
    aw_slo_boost_apply(&trim, most);
    assert_true(most[AW_ACTION_MEMORY] == 1 && trim.memory <= AW_SLO_BOOST_MEMORY_MAX);
}

static void where_replicas_cannot_be_larger_there_are_more_of_them(void **state)
{
    (void)state;
    struct aw_slo_boost trim;
    aw_slo_boost_begin(&trim);
    for (int i = 0; i < 20; i++)
        aw_slo_boost_see(&trim, true);
    float room[AW_ACTION_DIM] = {0, 0, -1}, none[AW_ACTION_DIM] = {0.75f, 0, -1};
    aw_slo_boost_apply(&trim, room);
    aw_slo_boost_apply(&trim, none);
    assert_true(room[AW_ACTION_CPU] == 1 && room[AW_ACTION_REPLICAS] == 0);
    assert_true(none[AW_ACTION_CPU] == 1 && none[AW_ACTION_REPLICAS] == 0.75f);
}

static void what_was_raised_is_given_back_when_all_is_well(void **state)
{
    (void)state;
    struct aw_slo_boost trim;
    aw_slo_boost_begin(&trim);
    for (int i = 0; i < 20; i++)
        aw_slo_boost_see(&trim, true);
    for (int i = 0; i < 1000; i++)
        aw_slo_boost_see(&trim, false);
    float action[AW_ACTION_DIM] = {0, 0, 0};
    aw_slo_boost_apply(&trim, action);
    assert_true(action[AW_ACTION_CPU] == 0 && action[AW_ACTION_REPLICAS] < 1e-3f);
}

static void an_action_is_never_lowered_and_never_leaves_its_bounds(void **state)
{
    (void)state;
    struct aw_slo_boost trim;
    aw_slo_boost_begin(&trim);
    for (int i = 0; i < 200; i++) {
        const float was[AW_ACTION_DIM] = {-1 + 0.01f * (float)i, 1, 1 - 0.01f * (float)i};
        float action[AW_ACTION_DIM] = {was[0], was[1], was[2]};
        aw_slo_boost_see(&trim, i % 3 != 0);
        aw_slo_boost_apply(&trim, action);
        for (uint32_t k = 0; k < AW_ACTION_DIM; k++)
            assert_true(action[k] >= was[k] && action[k] <= 1);
    }
}

AW_TEST_GROUP("slo-boost")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_episode_begins_as_after_a_miss_and_that_fades),
        cmocka_unit_test(one_miss_asks_for_replicas_and_leaves_sizes_alone),
        cmocka_unit_test(misses_that_do_not_end_ask_for_larger_replicas_in_few_steps),
        cmocka_unit_test(kills_ask_for_memory_that_stays_and_misses_do_not),
        cmocka_unit_test(where_replicas_cannot_be_larger_there_are_more_of_them),
        cmocka_unit_test(what_was_raised_is_given_back_when_all_is_well),
        cmocka_unit_test(an_action_is_never_lowered_and_never_leaves_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
