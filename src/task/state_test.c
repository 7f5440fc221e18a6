#include "task/state.h"
#include "task/testing.h"

enum { CPU, MEMORY, REPLICAS, CPU_RU, MEMORY_RU, IO, NET, LATENCY_SP, THROUGHPUT_SP, CHANGE };
enum { LOAD = 10, LATENCY, CPU_USED, IN_FLIGHT, SETTLED, READY, THROTTLED, MISSING, AGE };

#define S 1000000 /* microseconds */

static struct aw_state make(uint32_t preset)
{
    struct aw_state state;
    aw_state_init(&state, &(struct aw_state_config){
                              .preset = preset,
                              .bounds = aw_testing_bounds,
                              .slo = {.latency_us_p99 = 9e4, .timeout_us = 3e7},
                              .disk_bytes_per_s_max = 1e6,
                              .net_bytes_per_s_max = 1e6,
                          });
    return state;
}

static void encode(const struct aw_state *state, struct aw_state_memory *memory,
                   const struct aw_reading *reading, float *out)
{
    const struct aw_objective objective = {.slo = state->config.slo};
    const struct aw_outcome outcome = aw_outcome_of(reading);
    struct aw_score score;
    aw_objective_score(&objective, &outcome, 15, &score);
    aw_state_encode(state, memory, reading, &score, out);
}

static void table_one_of_the_paper_is_there_in_order(void **state)
{
    (void)state;
    static const char *const names[] = {
        "cpu_limit",           "memory_limit",       "replicas",
        "cpu_utilisation",     "memory_utilisation", "io_utilisation",
        "network_utilisation", "latency_slo_kept",   "throughput_slo_kept",
        "load_change"};
    assert_int_equal(aw_state_dim(AW_STATE_PAPER), 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_string_equal(aw_state_axes[i].name, names[i]);

    struct aw_state paper = make(AW_STATE_PAPER);
    struct aw_state_memory memory;
    float x[AW_STATE_DIM_MAX + 1] = {[AW_STATE_PAPER_DIM] = 77};
    aw_state_begin(&memory);
    struct aw_reading reading = aw_testing_reading(60 * S);
    encode(&paper, &memory, &reading, x);
    assert_close((double)x[CPU], log(1000.0 / 100) / log(4000.0 / 100), 1e-6);
    assert_close((double)x[MEMORY], log(512.0 / 64) / log(8192.0 / 64), 1e-6);
    assert_close((double)x[REPLICAS], log(4) / log(20), 1e-6);
    assert_close((double)x[CPU_RU], 0.5, 1e-6);
    assert_close((double)x[MEMORY_RU], 0.5, 1e-6);
    assert_close((double)x[IO], 0.25, 1e-6); /* 1e6 bytes/s over four replicas */
    assert_close((double)x[NET], 0.5, 1e-6);
    assert_true(x[LATENCY_SP] == 1 && x[THROUGHPUT_SP] == 1);
    assert_true(x[CHANGE] == 0); /* there is nothing to compare with yet */
    assert_true(x[AW_STATE_PAPER_DIM] == 77);
}

static void limits_reach_from_0_to_1_between_the_bounds(void **state)
{
    (void)state;
    struct aw_state paper = make(AW_STATE_PAPER);
    struct aw_state_memory memory;
    float x[AW_STATE_DIM_MAX];
    struct aw_reading reading = aw_testing_reading(0);
    const struct aw_bounds *b = &aw_testing_bounds;
    for (int end = 0; end < 2; end++) {
        aw_state_begin(&memory);
        reading.cpu_millicores_wanted = end ? b->cpu_millicores_max : b->cpu_millicores_min;
        reading.memory_bytes_wanted = end ? b->memory_bytes_max : b->memory_bytes_min;
        reading.replicas_wanted = end ? b->replicas_max : b->replicas_min;
        encode(&paper, &memory, &reading, x);
        for (int i = CPU; i <= REPLICAS; i++)
            assert_true(x[i] == (float)end);
    }
}

static void the_change_of_load_is_relative_to_the_larger(void **state)
{
    (void)state;
    const struct {
        double load, change;
        const char *why;
    } cases[] = {
        {100, 0, "the first"},  {200, 0.5, "doubled"}, {50, -0.75, "a quarter"},
        {50, 0, "the same"},    {0, -1, "stopped"},    {0, 0, "still nothing"},
        {10, 1, "began again"}, {NAN, 0, "unknown"},   {20, 0.5, "against the last known"},
    };
    struct aw_state paper = make(AW_STATE_PAPER);
    struct aw_state_memory memory;
    float x[AW_STATE_DIM_MAX];
    aw_state_begin(&memory);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_reading reading = aw_testing_reading((int64_t)i * 15 * S);
        reading.arrivals_per_s = cases[i].load;
        encode(&paper, &memory, &reading, x);
        if (fabs((double)x[CHANGE] - cases[i].change) > 1e-6)
            fail_msg("%s: expected %g, found %g", cases[i].why, cases[i].change, (double)x[CHANGE]);
    }
}

static void the_default_adds_what_the_paper_does_not_show(void **state)
{
    (void)state;
    struct aw_state full = make(AW_STATE_DEFAULT), paper = make(AW_STATE_PAPER);
    struct aw_state_memory memory, twin;
    float x[AW_STATE_DIM_MAX], y[AW_STATE_DIM_MAX];
    struct aw_reading reading = aw_testing_reading(600 * (int64_t)S);
    reading.age_s = 6;
    aw_state_begin(&memory);
    aw_state_begin(&twin);
    encode(&full, &memory, &reading, x);
    encode(&paper, &twin, &reading, y);
    assert_memory_equal(x, y, AW_STATE_PAPER_DIM * sizeof *x);
    assert_close((double)x[LOAD], log1p(100) / log1p(1e5), 1e-6);
    assert_close((double)x[LATENCY], 0, 1e-6); /* p99 is exactly the SLO */
    assert_close((double)x[CPU_USED], log(2 / 0.01) / log(80 / 0.01), 1e-6);
    assert_close((double)x[IN_FLIGHT], log1p(2) / log1p(1e3), 1e-6);
    assert_true(x[SETTLED] == 1); /* as far as anybody knows */
    assert_true(x[READY] == 1);
    assert_close((double)x[THROTTLED], 0.1, 1e-6);
    assert_true(x[MISSING] == 0);
    assert_close((double)x[AGE], 0.1, 1e-6);

    reading.latency_us_slo *= 4;
    reading.replicas_wanted = 8; /* asked for, not there yet */
    reading.at_us += 15 * S;
    encode(&full, &memory, &reading, x);
    assert_close((double)x[LATENCY], 0.5, 1e-6);
    assert_close((double)x[READY], 0.5, 1e-6);
    assert_true(x[SETTLED] == 0);
    reading.at_us += 150 * (int64_t)S;
    encode(&full, &memory, &reading, x);
    assert_close((double)x[SETTLED], 0.5, 1e-6);

    /* a change of any of the three is a change */
    reading.cpu_millicores_wanted++;
    encode(&full, &memory, &reading, x);
    assert_true(x[SETTLED] == 0);
    reading.at_us += 150 * (int64_t)S;
    reading.memory_bytes_wanted++;
    encode(&full, &memory, &reading, x);
    assert_true(x[SETTLED] == 0);

    /* what waits for a replica that is not there waits for one */
    reading.replicas_ready = 0;
    encode(&full, &memory, &reading, x);
    assert_close((double)x[IN_FLIGHT], log1p(8) / log1p(1e3), 1e-6);
    assert_true(x[READY] == 0);
}

static void what_is_missing_shows_its_neutral_value_and_says_so(void **state)
{
    (void)state;
    struct aw_state full = make(AW_STATE_DEFAULT);
    struct aw_state_memory memory;
    struct aw_sample sample = aw_testing_sample(15 * S);
    struct aw_figure *figures = &sample.cpu_cores_used;
    struct aw_reading reading;
    float x[AW_STATE_DIM_MAX];
    for (int i = 0; i < 14; i++)
        figures[i].at_us = AW_NEVER;
    aw_reading_take(&sample, INT64_MAX, 0.99, &reading);
    aw_state_begin(&memory);
    encode(&full, &memory, &reading, x);
    const struct {
        int axis;
        float value;
    } cases[] = {{CPU_RU, 0.5f}, {MEMORY_RU, 0.5f}, {IO, 0},      {NET, 0},         {LATENCY_SP, 1},
                 {CHANGE, 0},    {LOAD, 0},         {LATENCY, 0}, {CPU_USED, 0.5f}, {IN_FLIGHT, 0},
                 {THROTTLED, 0}, {MISSING, 1},      {AGE, 1},     {READY, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (x[cases[i].axis] != cases[i].value)
            fail_msg("%s: found %g", aw_state_axes[cases[i].axis].name, (double)x[cases[i].axis]);
}

static void a_known_load_is_remembered_through_a_gap(void **state)
{
    (void)state;
    struct aw_state full = make(AW_STATE_DEFAULT);
    struct aw_state_memory memory;
    float x[AW_STATE_DIM_MAX], y[AW_STATE_DIM_MAX];
    struct aw_reading reading = aw_testing_reading(0);
    aw_state_begin(&memory);
    encode(&full, &memory, &reading, x);
    reading.arrivals_per_s = NAN;
    encode(&full, &memory, &reading, y);
    assert_true(x[LOAD] == y[LOAD] && y[LOAD] > 0);
}

static void garbage_never_leaves_the_axes(void **state)
{
    (void)state;
    struct aw_rng rng;
    struct aw_pod pods[8];
    aw_rng_init(&rng, 5, 0);
    struct aw_state full = make(AW_STATE_DEFAULT);
    struct aw_state_memory memory;
    aw_state_begin(&memory);
    for (int i = 0; i < 50000; i++) {
        struct aw_sample sample = aw_testing_sample_garbage(&rng, pods, 8);
        struct aw_reading reading;
        float x[AW_STATE_DIM_MAX];
        aw_reading_take(&sample, (int64_t)aw_rng_below(&rng, 2000000000), 0.99, &reading);
        encode(&full, &memory, &reading, x);
        for (uint32_t k = 0; k < AW_STATE_DEFAULT_DIM; k++)
            if (!(x[k] >= aw_state_axes[k].low && x[k] <= aw_state_axes[k].high))
                fail_msg("%s: %g", aw_state_axes[k].name, (double)x[k]);
    }
}

static void the_same_past_and_reading_give_the_same_state(void **state)
{
    (void)state;
    struct aw_state full = make(AW_STATE_DEFAULT);
    struct aw_state_memory memory, copy;
    float x[AW_STATE_DIM_MAX], y[AW_STATE_DIM_MAX];
    struct aw_reading reading = aw_testing_reading(0);
    aw_state_begin(&memory);
    encode(&full, &memory, &reading, x);
    copy = memory;
    reading.at_us += 15 * S;
    reading.arrivals_per_s = 77;
    encode(&full, &memory, &reading, x);
    encode(&full, &copy, &reading, y);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(&memory, &copy, sizeof memory);
}

AW_TEST_GROUP("autoscale-state")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_one_of_the_paper_is_there_in_order),
        cmocka_unit_test(limits_reach_from_0_to_1_between_the_bounds),
        cmocka_unit_test(the_change_of_load_is_relative_to_the_larger),
        cmocka_unit_test(the_default_adds_what_the_paper_does_not_show),
        cmocka_unit_test(what_is_missing_shows_its_neutral_value_and_says_so),
        cmocka_unit_test(a_known_load_is_remembered_through_a_gap),
        cmocka_unit_test(garbage_never_leaves_the_axes),
        cmocka_unit_test(the_same_past_and_reading_give_the_same_state),
    };
    return cmocka_run_group_tests_name("autoscale-state", tests, NULL, NULL);
}
