#include "task/testing.h"

static void what_is_missing_stale_or_absurd_is_unknown(void **state)
{
    (void)state;
    const int64_t now = 1000000000, stale = 60000000;
    const struct {
        struct aw_figure figure;
        bool known;
        const char *why;
    } cases[] = {
        {{2, 1000000000}, true, "fresh"},
        {{2, 1000000000 - 60000000}, true, "exactly as old as allowed"},
        {{2, 1000000000 - 60000001}, false, "a microsecond too old"},
        {{2, 1000000001}, true, "a clock a little ahead of ours"},
        {{0, 1000000000}, true, "zero is a value"},
        {{2, AW_NEVER}, false, "never measured"},
        {{NAN, 1000000000}, false, "not a number"},
        {{INFINITY, 1000000000}, false, "infinite"},
        {{-1e-9, 1000000000}, false, "less than nothing is used"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_sample sample = aw_testing_sample(now);
        struct aw_reading reading;
        sample.cpu_cores_used = cases[i].figure;
        aw_reading_take(&sample, stale, 0.99, &reading);
        if (isnan(reading.cpu_cores_used) == cases[i].known)
            fail_msg("%s", cases[i].why);
        if (isnan(reading.cpu_utilisation) == cases[i].known)
            fail_msg("utilisation: %s", cases[i].why);
        assert_int_equal(isinf(reading.age_s) != 0, !cases[i].known);
        assert_close(reading.memory_utilisation, 0.5, 1e-12);
    }
    /* where the oldest time that counts would be never itself */
    struct aw_sample sample = aw_testing_sample(-1);
    struct aw_reading reading;
    sample.cpu_cores_used.at_us = AW_NEVER;
    aw_reading_take(&sample, INT64_MAX, 0.99, &reading);
    assert_true(isnan(reading.cpu_cores_used));
}

static void utilisation_is_use_over_what_is_placed(void **state)
{
    (void)state;
    /* two serve, one starts, one waits for a node, one is lost with its node */
    const struct aw_pod pods[] = {
        {.phase = AW_POD_RUNNING, .ready = true, .cpu_millicores = 1000, .memory_bytes = 100},
        {.phase = AW_POD_RUNNING, .ready = true, .cpu_millicores = 500, .memory_bytes = 200},
        {.phase = AW_POD_STARTING, .cpu_millicores = 500, .memory_bytes = 100},
        {.phase = AW_POD_PENDING, .cpu_millicores = 7000, .memory_bytes = 7000},
        {.phase = AW_POD_FAILED, .cpu_millicores = 7000, .memory_bytes = 7000},
    };
    struct aw_sample sample = aw_testing_sample(0);
    struct aw_reading reading;
    sample.pods = pods;
    sample.pod_count = 5;
    sample.replicas_ready = 2;
    sample.cpu_cores_used.value = 0.5;
    sample.memory_bytes_used.value = 100; /* of each of the two */
    aw_reading_take(&sample, 0, 0.99, &reading);
    assert_close(reading.allocated[AW_RESOURCE_CPU], 2000, 1e-12);
    assert_close(reading.allocated[AW_RESOURCE_MEMORY], 400, 1e-12);
    assert_close(reading.cpu_utilisation, 0.25, 1e-12);
    assert_close(reading.memory_utilisation, 0.5, 1e-12);
    sample.cpu_cores_used.value = 3;
    aw_reading_take(&sample, 0, 0.99, &reading);
    assert_true(reading.cpu_utilisation == 1);
}

static void without_pods_the_wanted_sizes_stand_for_them(void **state)
{
    (void)state;
    struct aw_reading reading = aw_testing_reading(5);
    assert_close(reading.allocated[AW_RESOURCE_CPU], 4000, 1e-12);
    assert_close(reading.cpu_utilisation, 0.5, 1e-12);
    struct aw_sample sample = aw_testing_sample(5);
    sample.replicas_ready = 0;
    aw_reading_take(&sample, 0, 0.99, &reading);
    assert_true(isnan(reading.cpu_utilisation));
}

static void the_age_is_that_of_the_oldest_of_use_and_load(void **state)
{
    (void)state;
    struct aw_sample sample = aw_testing_sample(100000000);
    struct aw_reading reading;
    sample.arrivals_per_s.at_us -= 7000000;
    sample.memory_bytes_used.at_us -= 3000000;
    sample.latency_us_p99.at_us -= 50000000;
    aw_reading_take(&sample, 60000000, 0.99, &reading);
    assert_close(reading.age_s, 7, 1e-12);
}

static void garbage_becomes_numbers_in_range_or_unknown(void **state)
{
    (void)state;
    struct aw_rng rng;
    struct aw_pod pods[16];
    aw_rng_init(&rng, 1, 0);
    for (int i = 0; i < 20000; i++) {
        struct aw_sample sample = aw_testing_sample_garbage(&rng, pods, 16);
        struct aw_reading r;
        aw_reading_take(&sample, (int64_t)(aw_rng_u64(&rng) >> 1), 0.99, &r);
        const double *figures = &r.cpu_cores_used;
        for (int k = 0; k < 13; k++)
            assert_true(isnan(figures[k]) || (figures[k] >= 0 && figures[k] < 1e15));
        assert_true(isnan(r.cpu_utilisation) || r.cpu_utilisation <= 1);
        assert_true(isnan(r.memory_utilisation) || r.memory_utilisation <= 1);
        assert_true(r.age_s >= 0);
    }
}

AW_TEST_GROUP("autoscale-reading")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_stale_or_absurd_is_unknown),
        cmocka_unit_test(utilisation_is_use_over_what_is_placed),
        cmocka_unit_test(without_pods_the_wanted_sizes_stand_for_them),
        cmocka_unit_test(the_age_is_that_of_the_oldest_of_use_and_load),
        cmocka_unit_test(garbage_becomes_numbers_in_range_or_unknown),
    };
    return cmocka_run_group_tests_name("autoscale-reading", tests, NULL, NULL);
}
