/* load_forecast_test.c - forecasts of loads that can be forecast, and what a table remembers. */
#include "pretrain/load_forecast.h"

#include <math.h>

#include "base/rng.h"
#include "base/testing.h"

static void a_load_that_grows_steadily_is_expected_to_go_on(void **state)
{
    (void)state;
    struct aw_load_forecast f;
    float x[AW_LOAD_FORECAST_FEATURES];
    aw_load_forecast_init(&f);
    aw_load_forecast_features(&f, x);
    assert_true(x[0] == 0 && x[1] == 1); /* nothing is known */
    for (uint32_t t = 0; t < 60; t++)
        aw_load_forecast_see(&f, expm1(1 + 0.05 * t), 2, 1);
    aw_load_forecast_features(&f, x);
    assert_close((double)x[0], 0.05, 1e-3);
}

/* y' = 0.6 y: the forecast must beat "no change" by far. */
static void it_learns_how_changes_follow_from_changes(void **state)
{
    (void)state;
    struct aw_load_forecast f;
    struct aw_rng rng;
    double level = 5, change = 0, error = 0, naive = 0;
    aw_load_forecast_init(&f);
    aw_rng_init(&rng, 5, 0);
    for (uint32_t t = 0; t < 3000; t++) {
        float x[AW_LOAD_FORECAST_FEATURES];
        aw_load_forecast_features(&f, x);
        change = 0.9 * change + 0.01 * aw_rng_normal(&rng);
        level = 5 + 0.98 * (level - 5) + change;
        const double now = level - f.level;
        if (t > 500) {
            error += fabs(now - (double)x[0]);
            naive += fabs(now);
        }
        aw_load_forecast_see(&f, expm1(level), 2, 1);
    }
    assert_true(error < 0.6 * naive);
}

static void the_table_says_what_such_an_allocation_did_under_such_a_load(void **state)
{
    (void)state;
    struct aw_load_forecast f;
    float x[AW_LOAD_FORECAST_FEATURES];
    aw_load_forecast_init(&f);
    for (uint32_t t = 0; t < 20; t++)
        aw_load_forecast_see(&f, 100, 1, 0.4); /* too little */
    aw_load_forecast_features(&f, x);
    assert_close((double)x[1], 0.4, 1e-6);
    for (uint32_t t = 0; t < 20; t++)
        aw_load_forecast_see(&f, 100, 8, 1);
    aw_load_forecast_features(&f, x);
    assert_close((double)x[1], 1, 1e-6);
}

static void what_is_no_number_teaches_nothing(void **state)
{
    (void)state;
    struct aw_load_forecast f;
    float x[AW_LOAD_FORECAST_FEATURES];
    aw_load_forecast_init(&f);
    aw_load_forecast_see(&f, NAN, 1, 1);
    aw_load_forecast_see(&f, 10, INFINITY, 1);
    aw_load_forecast_see(&f, -1, 1, 1);
    assert_int_equal(f.seen, 0);
    for (uint32_t t = 0; t < 200; t++) /* as calm as can be, then a jump */
        aw_load_forecast_see(&f, 10, 1, 1);
    aw_load_forecast_see(&f, 1e12, 1e-9, 0);
    aw_load_forecast_see(&f, 0, 1e9, 0);
    aw_load_forecast_features(&f, x);
    assert_true(x[0] >= -1 && x[0] <= 1 && x[1] >= 0 && x[1] <= 1);
}

AW_TEST_GROUP("load-forecast")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_that_grows_steadily_is_expected_to_go_on),
        cmocka_unit_test(it_learns_how_changes_follow_from_changes),
        cmocka_unit_test(the_table_says_what_such_an_allocation_did_under_such_a_load),
        cmocka_unit_test(what_is_no_number_teaches_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
