/* prepared_test.c - records as the networks see them. */
#include "rl/prepared.h"

#include <math.h>
#include <string.h>

#include "rl/logged_testing.h"

static struct line line;
static struct aw__prepared prepared;

static int setup(void **state)
{
    float gain = 0.8f;
    struct aw_logged_policy policy = line_policy(&gain);
    (void)state;
    line_record(&line, 0.2, 0.5, 3);
    assert_ok(aw__prepared_init(&prepared, 1, 1, LINE_TOTAL, NULL));
    assert_ok(aw__prepared_fill(&prepared, &line.logged, &policy));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    aw__prepared_deinit(&prepared);
    return 0;
}

static float raw(float scaled, uint32_t element)
{
    return scaled * prepared.scale[element] + prepared.mean[element];
}

static void every_row_goes_there_and_back(void **state)
{
    (void)state;
    double sum = 0, square = 0;
    for (uint32_t i = 0; i < LINE_TOTAL; i++) {
        const float *x = prepared.x + i * 2, *next = prepared.next + i * 2;
        const float *policy = prepared.policy + i * 2;
        assert_close((double)raw(x[0], 0), (double)line.obs[i], 1e-5);
        assert_close((double)raw(x[1], 1), (double)line.action[i], 1e-5);
        assert_close((double)raw(next[0], 0), (double)line.next_obs[i], 1e-5);
        assert_close((double)raw(next[1], 1), -0.8 * (double)line.next_obs[i], 1e-5);
        assert_close((double)raw(policy[1], 1), -0.8 * (double)line.obs[i], 1e-5);
        assert_true(policy[0] == x[0]);
        sum += (double)x[0];
        square += (double)x[0] * (double)x[0];
    }
    assert_close(sum / LINE_TOTAL, 0, 1e-4);
    assert_close(square / LINE_TOTAL, 1, 1e-4);
}

static void answers_beyond_the_bounds_are_cut_to_them(void **state)
{
    float gain = 1000;
    struct aw_logged_policy policy = line_policy(&gain);
    (void)state;
    assert_ok(aw__prepared_fill(&prepared, &line.logged, &policy));
    for (uint32_t i = 0; i < LINE_TOTAL; i++)
        assert_true(fabsf(raw(prepared.policy[i * 2 + 1], 1)) <= 4.0001f);
}

/* An action that never varied has a scale all the same, and so has an observation. */
static void what_never_varied_has_a_scale(void **state)
{
    float gain = 0;
    struct aw_logged_policy policy = line_policy(&gain);
    (void)state;
    for (uint32_t i = 0; i < LINE_TOTAL; i++) {
        line.action[i] = 1;
        line.obs[i] = line.next_obs[i] = 2;
        line.reward[i] = 3;
    }
    assert_ok(aw__prepared_fill(&prepared, &line.logged, &policy));
    assert_close((double)prepared.scale[0], 1, 0);
    assert_close((double)prepared.scale[1], 0.4, 1e-6); /* a tenth of half the range */
    assert_close((double)prepared.reward_scale, 1, 0);
    assert_close((double)prepared.x[0], 0, 1e-6);
}

/* A constant in the reward pays for staying alive, so it is not taken out where that can end. */
static void rewards_are_centred_unless_something_ends(void **state)
{
    float gain = 0;
    struct aw_logged_policy policy = line_policy(&gain);
    (void)state;
    assert_true(prepared.reward_mean < 0 && !prepared.terminates);
    line.terminated[LINE_STEPS - 1] = true;
    assert_ok(aw__prepared_fill(&prepared, &line.logged, &policy));
    assert_true(prepared.reward_mean == 0 && prepared.terminates);
    assert_true(prepared.alive[LINE_STEPS - 1] == 0 && prepared.alive[LINE_STEPS - 2] == 1);
}

static enum aw_err act_nan(void *ctx, const float *obs, uint32_t count, float *action)
{
    (void)ctx, (void)obs;
    for (uint32_t i = 0; i < count; i++)
        action[i] = NAN;
    return AW_OK;
}

static void nothing_that_is_not_finite_comes_in(void **state)
{
    float gain = 0;
    struct aw_logged_policy policy = line_policy(&gain), bad = {.act = act_nan};
    float *const places[] = {line.obs, line.next_obs, line.action, line.reward};
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        float keep = places[i][77];
        places[i][77] = INFINITY;
        assert_int_equal(aw__prepared_fill(&prepared, &line.logged, &policy), AW_ERR_DIVERGED);
        places[i][77] = keep;
    }
    assert_int_equal(aw__prepared_fill(&prepared, &line.logged, &bad), AW_ERR_DIVERGED);
    assert_ok(aw__prepared_fill(&prepared, &line.logged, &policy));
}

static void a_resample_leaves_a_third_out(void **state)
{
    enum { EPISODES = 2000 };
    static uint32_t slot[EPISODES];
    static bool left_out[EPISODES];
    struct aw_rng rng;
    uint32_t out = 0;
    (void)state;
    aw_rng_init(&rng, 1, 0);
    aw__resample(&rng, EPISODES, slot, left_out);
    for (uint32_t e = 0; e < EPISODES; e++) {
        assert_false(left_out[slot[e]]);
        out += left_out[e];
    }
    assert_close((double)out / EPISODES, exp(-1), 0.03);
}

AW_TEST_GROUP("prepared")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_row_goes_there_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_beyond_the_bounds_are_cut_to_them, setup, teardown),
        cmocka_unit_test_setup_teardown(what_never_varied_has_a_scale, setup, teardown),
        cmocka_unit_test_setup_teardown(rewards_are_centred_unless_something_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_that_is_not_finite_comes_in, setup, teardown),
        cmocka_unit_test(a_resample_leaves_a_third_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
