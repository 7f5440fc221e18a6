/* cap_test.c - the split by hand, and bad days: lost GPUs, failed sets, caps that fall. */
#include "serving/cap_testing.h"

#include <stdlib.h>

static void watts_go_where_they_save_slo(void **state)
{
    (void)state;
    struct aw_cap cap;
    const bool held[3] = {false};
    double x[3];
    aw_cap_init(&cap, aw_gpu_kind_find("v100"), 3, 1, BOUND, SWITCH_S);
    /* the second needs nothing, the third has ten times the requests of the first */
    const struct aw_cap_device device[] = {{1, 1, 0.9, 1}, {1, 1, 0.29, 1}, {1, 1, 0.9, 10}};
    aw_cap_split(&cap, device, held, 280, x);
    assert_true(x[2] > x[0] && x[0] >= x[1]);
    assert_true(aw_cap_watts(&cap, x[0]) + aw_cap_watts(&cap, x[1]) + aw_cap_watts(&cap, x[2]) <=
                280);
    aw_cap_split(&cap, device, held, 1e6, x);
    assert_true(x[0] > 0.999 && x[1] > 0.999 && x[2] > 0.999); /* nobody is held back for nothing */
}

static void a_hundred_bad_days(void **state)
{
    (void)state;
    days_run(100);
}

AW_TEST_GROUP("serving-cap")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watts_go_where_they_save_slo),
        cmocka_unit_test(a_hundred_bad_days),
    };
    (void)argc;
    const char *days = argc > 1 ? argv[1] : NULL; /* test-serving serving-cap 10000 */
    if (days)
        days_run((uint32_t)strtoul(days, NULL, 10));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
