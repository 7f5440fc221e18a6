/* bundle_test.c - which episodes are kept, against a naive twin that sorts everything. */
#include "meta/bundle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"

#define OBS 3u
#define ACT 2u
#define T   5u

static bool add(struct aw_bundle *bundle, double value, uint32_t steps)
{
    float obs[T * OBS * 2], action[T * ACT * 2], reward[T * 2];
    for (uint32_t i = 0; i < sizeof obs / sizeof *obs; i++)
        obs[i] = (float)(value + i);
    for (uint32_t i = 0; i < sizeof action / sizeof *action; i++)
        action[i] = (float)i;
    for (uint32_t i = 0; i < sizeof reward / sizeof *reward; i++)
        reward[i] = (float)(value / steps);
    return aw_bundle_add(bundle, obs, action, reward, steps);
}

static struct aw_bundle make(uint32_t episodes, uint32_t choice)
{
    struct aw_bundle bundle;
    assert_ok(
        aw_bundle_init(&bundle, &(struct aw_bundle_config){episodes, T, OBS, ACT, choice}, NULL));
    return bundle;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void the_best_the_ends_or_the_latest_are_kept(void **state)
{
    (void)state;
    for (uint32_t choice = AW_BUNDLE_BEST; choice <= AW_BUNDLE_LATEST; choice++) {
        struct aw_bundle bundle = make(6, choice);
        struct aw_rng rng;
        double all[60], kept[6], expected[6];
        aw_rng_init(&rng, 5 + choice, 0);
        for (uint32_t n = 0; n < 60; n++) {
            all[n] = (double)(float)aw_rng_normal(&rng) * 8;
            add(&bundle, all[n], 4);
        }
        assert_int_equal(bundle.count, 6);
        if (choice == AW_BUNDLE_LATEST)
            memcpy(expected, all + 54, sizeof expected);
        qsort(all, 60, sizeof *all, by_value);
        if (choice == AW_BUNDLE_BEST)
            memcpy(expected, all + 54, sizeof expected);
        else if (choice == AW_BUNDLE_ENDS) {
            memcpy(expected, all, 3 * sizeof *expected);
            memcpy(expected + 3, all + 57, 3 * sizeof *expected);
        }
        memcpy(kept, bundle.value, sizeof kept);
        qsort(kept, 6, sizeof *kept, by_value);
        qsort(expected, 6, sizeof *expected, by_value);
        for (uint32_t i = 0; i < 6; i++)
            assert_close(kept[i], expected[i], 1e-5);
        aw_bundle_deinit(&bundle);
    }
}

static void two_episodes_of_equal_reward_are_two_episodes(void **state)
{
    (void)state;
    struct aw_bundle bundle = make(4, AW_BUNDLE_BEST);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(add(&bundle, 2, 4));
    assert_int_equal(bundle.count, 4);
    assert_false(add(&bundle, 2, 4)); /* no better than those there */
    assert_true(add(&bundle, 3, 4));
    assert_int_equal(bundle.count, 4);
    aw_bundle_deinit(&bundle);
}

static void a_short_episode_is_filled_with_zeros_and_a_long_one_is_cut(void **state)
{
    (void)state;
    struct aw_bundle bundle = make(1, AW_BUNDLE_LATEST);
    assert_true(add(&bundle, 7, 2 * T));
    assert_int_equal(bundle.length[0], T);
    assert_true(add(&bundle, 7, 2));
    assert_int_equal(bundle.length[0], 2);
    const float *x = aw_bundle_episode(&bundle, 0);
    assert_true(x[0] == 7 && x[OBS + ACT] == 3.5f && x[bundle.dim] == 7 + OBS);
    for (uint32_t i = 2 * bundle.dim; i < T * bundle.dim; i++)
        assert_true(x[i] == 0);
    aw_bundle_deinit(&bundle);
}

static void the_version_moves_with_the_content_alone(void **state)
{
    (void)state;
    struct aw_bundle bundle = make(1, AW_BUNDLE_BEST);
    assert_int_equal(bundle.version, 0);
    assert_true(add(&bundle, 2, 4));
    const uint64_t version = bundle.version;
    assert_false(add(&bundle, 1, 4));
    assert_int_equal(bundle.version, version);
    assert_true(add(&bundle, 3, 4));
    assert_true(bundle.version > version);
    aw_bundle_clear(&bundle);
    assert_int_equal(bundle.version, 0);
    aw_bundle_deinit(&bundle);
}

static void what_is_not_finite_or_empty_is_not_kept(void **state)
{
    (void)state;
    struct aw_bundle bundle = make(2, AW_BUNDLE_LATEST);
    float obs[OBS] = {0}, action[ACT] = {0}, reward[1] = {NAN};
    assert_false(aw_bundle_add(&bundle, obs, action, reward, 1));
    reward[0] = 1;
    obs[1] = INFINITY;
    assert_false(aw_bundle_add(&bundle, obs, action, reward, 1));
    obs[1] = 0;
    assert_false(aw_bundle_add(&bundle, obs, action, reward, 0));
    assert_true(aw_bundle_add(&bundle, obs, action, reward, 1));
    assert_int_equal(bundle.count, 1);
    aw_bundle_deinit(&bundle);
}

static void shapes_that_are_none_are_refused(void **state)
{
    (void)state;
    static const struct aw_bundle_config wrong[] = {
        {0, T, OBS, ACT, 0},
        {AW_BUNDLE_EPISODES_MAX + 1, T, OBS, ACT, 0},
        {4, 0, OBS, ACT, 0},
        {4, AW_BUNDLE_STEPS_MAX + 1, OBS, ACT, 0},
        {4, T, AW_BUNDLE_DIM_MAX, ACT, 0},
        {4, T, UINT32_MAX, ACT, 0},
        {4, T, OBS, ACT, 3},
    };
    struct aw_bundle bundle;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(aw_bundle_init(&bundle, &wrong[i], NULL), AW_ERR_CONFIG);
    aw_bundle_deinit(&bundle);
}

AW_TEST_GROUP("bundle")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_the_ends_or_the_latest_are_kept),
        cmocka_unit_test(two_episodes_of_equal_reward_are_two_episodes),
        cmocka_unit_test(a_short_episode_is_filled_with_zeros_and_a_long_one_is_cut),
        cmocka_unit_test(the_version_moves_with_the_content_alone),
        cmocka_unit_test(what_is_not_finite_or_empty_is_not_kept),
        cmocka_unit_test(shapes_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
