#include "base/space.h"
#include "base/testing.h"

#include <math.h>
#include <string.h>

static const struct aw_space_axis axes[] = {{"a", "", -1, 2}, {"b", "", -INFINITY, INFINITY}};
static const struct aw_space box = {AW_SPACE_BOX, 2, 0, axes};
static const struct aw_space discrete = {AW_SPACE_DISCRETE, 1, 3, NULL};

static const struct {
    const char *why;
    const struct aw_space *space;
    float value[2];
    bool contains, accepts;
} cases[] = {
    {"inside", &box, {0, 5}, true, true},
    {"the bounds belong to the box", &box, {-1, 0}, true, true},
    {"beyond a bound is clipped by step", &box, {2.5f, 0}, false, true},
    {"unbounded is not infinite", &box, {0, INFINITY}, false, false},
    {"NaN compares with nothing", &box, {NAN, 0}, false, false},
    {"the last choice", &discrete, {2, 0}, true, true},
    {"one past the last choice", &discrete, {3, 0}, false, false},
    {"negative", &discrete, {-1, 0}, false, false},
    {"between two choices", &discrete, {0.5f, 0}, false, false},
    {"not a number", &discrete, {NAN, 0}, false, false},
    {"infinite", &discrete, {INFINITY, 0}, false, false},
    {"minus zero is zero", &discrete, {-0.0f, 0}, true, true},
};

static void a_space_knows_what_lies_in_it_and_what_step_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (aw_space_contains(cases[i].space, cases[i].value) != cases[i].contains ||
            aw_space_accepts(cases[i].space, cases[i].value) != cases[i].accepts)
            fail_msg("%s", cases[i].why);
    }
}

static void samples_lie_in_the_space_and_reach_all_of_it(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    float low = 9, high = -9;
    int seen[3] = {0};
    for (int i = 0; i < 3000; i++) {
        float value[2];
        aw_space_sample(&box, &rng, value);
        assert_true(aw_space_contains(&box, value));
        low = fminf(low, value[0]);
        high = fmaxf(high, value[0]);
        aw_space_sample(&discrete, &rng, value);
        assert_true(aw_space_contains(&discrete, value));
        seen[(int)value[0]]++;
    }
    assert_true(low < -0.99f && high > 1.99f);
    for (int i = 0; i < 3; i++)
        assert_in_range(seen[i], 850, 1150);
}

AW_TEST_GROUP("space")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_space_knows_what_lies_in_it_and_what_step_takes),
        cmocka_unit_test(samples_lie_in_the_space_and_reach_all_of_it),
    };
    return cmocka_run_group_tests_name("space", tests, NULL, NULL);
}
