/* cap_days_test.c - ten thousand bad days: no moment above the cap after two latencies. */
#include "serving/cap_testing.h"

static void ten_thousand_bad_days(void **state)
{
    (void)state;
    days_run(10000);
}

AW_TEST_GROUP("serving-cap-days")
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ten_thousand_bad_days)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
