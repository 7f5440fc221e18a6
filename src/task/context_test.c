/* context_test.c - what kind of workload it is, from a few steps. */
#include "task/context.h"

#include "task/testing.h"

static const struct aw_slo slo = {.latency_us_p99 = 1e5, .quantile = 0.99};

static void live(struct aw_context_memory *memory, uint32_t steps, double scale)
{
    aw_context_begin(memory);
    for (uint32_t t = 0; t < steps; t++) {
        struct aw_reading reading = aw_testing_reading(0);
        const double wave = 1 + 0.2 * (t % 5);
        reading.arrivals_per_s *= wave * scale;
        reading.completions_per_s *= wave * scale;
        reading.cpu_cores_used *= wave * scale;
        reading.cpu_utilisation = 0.4 * wave;
        reading.in_flight *= scale;
        aw_context_add(memory, &reading, 2e4 * wave, &slo, t % 10 == 0, 15);
    }
}

static void a_larger_workload_of_the_same_kind_differs_in_its_size_alone(void **state)
{
    (void)state;
    struct aw_context_memory small, large;
    float a[AW_CONTEXT_DIM], b[AW_CONTEXT_DIM];
    live(&small, 40, 1);
    live(&large, 40, 8);
    assert_true(aw_context_read(&small, &slo, a));
    assert_true(aw_context_read(&large, &slo, b));
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++) {
        assert_false(isnan(a[i]));
        if (i == AW_CONTEXT_CORES)
            assert_close((double)(b[i] - a[i]), log(8), 1e-5);
        else
            assert_close((double)b[i], (double)a[i], 1e-5);
    }
}

static void known_figures_come_out(void **state)
{
    (void)state;
    struct aw_context_memory memory;
    float x[AW_CONTEXT_DIM];
    live(&memory, 40, 1);
    assert_true(aw_context_read(&memory, &slo, x));
    assert_close((double)x[AW_CONTEXT_REQUEST_CPU], log(0.02 / 0.1), 1e-5); /* 20 ms of 100 */
    assert_close((double)x[AW_CONTEXT_MISSED], 0.1, 1e-6);
    assert_close((double)x[AW_CONTEXT_USED], 0.56, 1e-6);
    assert_close((double)x[AW_CONTEXT_IDLE], 0, 1e-9);
    assert_close((double)x[AW_CONTEXT_PEAK], log(1.8 / 1.4), 1e-5);
    assert_close((double)x[AW_CONTEXT_SIZE], 0, 1e-6); /* one core */
}

static void who_has_served_nothing_has_no_context(void **state)
{
    (void)state;
    struct aw_context_memory memory;
    float x[AW_CONTEXT_DIM] = {7};
    aw_context_begin(&memory);
    for (uint32_t t = 0; t < 40; t++) {
        struct aw_reading reading = aw_testing_reading(0);
        reading.arrivals_per_s = reading.completions_per_s = 0;
        aw_context_add(&memory, &reading, NAN, &slo, false, 15);
    }
    assert_int_equal(memory.idle, 40);
    assert_false(aw_context_read(&memory, &slo, x));
    assert_true(x[0] == 7);
}

static void what_nobody_measures_is_unknown_and_harms_nothing_else(void **state)
{
    (void)state;
    struct aw_context_memory memory;
    float x[AW_CONTEXT_DIM];
    aw_context_begin(&memory);
    for (uint32_t t = 0; t < 40; t++) {
        struct aw_reading reading = aw_testing_reading(0);
        reading.throttled_share = reading.memory_bytes_peak = NAN;
        reading.in_flight = reading.errors_per_s = reading.latency_us_slo = NAN;
        if (t % 2)
            reading.arrivals_per_s = NAN; /* a step that tells nothing */
        aw_context_add(&memory, &reading, NAN, &slo, false, 15);
    }
    assert_int_equal(memory.steps, 20);
    assert_true(aw_context_read(&memory, &slo, x));
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++) {
        const bool unknown = i == AW_CONTEXT_THROTTLED || i == AW_CONTEXT_MEDIAN ||
                             i == AW_CONTEXT_MEMORY || i == AW_CONTEXT_MEMORY_PEAK ||
                             i == AW_CONTEXT_FLIGHT || i == AW_CONTEXT_ERRORS ||
                             (i >= AW_CONTEXT_LATENCY && i <= AW_CONTEXT_LATENCY_SLOPE);
        assert_true(!!isnan(x[i]) == unknown);
    }
}

AW_TEST_GROUP("context")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_larger_workload_of_the_same_kind_differs_in_its_size_alone),
        cmocka_unit_test(known_figures_come_out),
        cmocka_unit_test(who_has_served_nothing_has_no_context),
        cmocka_unit_test(what_nobody_measures_is_unknown_and_harms_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
