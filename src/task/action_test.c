#include "base/units.h"
#include "task/action.h"
#include "task/testing.h"

static struct aw_action make(uint32_t mapping, double deadband, bool guard)
{
    struct aw_action action;
    aw_action_init(&action, &(struct aw_action_config){.mapping = mapping,
                                                       .bounds = aw_testing_bounds,
                                                       .window = 4,
                                                       .oom_steps = 6,
                                                       .deadband = deadband,
                                                       .guard = guard});
    return action;
}

static struct aw_plan plan(const struct aw_action *action, const struct aw_action_memory *memory,
                           const struct aw_reading *reading, float cpu, float bytes, float replicas)
{
    const float values[AW_ACTION_DIM] = {cpu, bytes, replicas};
    struct aw_plan result;
    aw_action_plan(action, memory, reading, values, &result);
    return result;
}

static void absolute_reaches_the_bounds_on_a_log_scale(void **state)
{
    (void)state;
    struct aw_action action = make(AW_ACTION_ABSOLUTE, 0, false);
    struct aw_action_memory memory;
    struct aw_reading reading = aw_testing_reading(0);
    aw_action_begin(&memory);
    const struct {
        float at;
        int64_t cpu, mib;
        uint32_t replicas;
        const char *why;
    } cases[] = {
        {-1, 100, 64, 1, "the lower end"},
        {1, 4000, 8192, 20, "the upper end"},
        {0, 630, 724, 4, "the geometric middle: 632.5m, 724.08Mi, 4.47"},
        {-7, 100, 64, 1, "below the lower end"},
        {7, 4000, 8192, 20, "above the upper end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_plan p = plan(&action, &memory, &reading, cases[i].at, cases[i].at, cases[i].at);
        if (p.cpu_millicores != cases[i].cpu || p.memory_bytes != cases[i].mib * AW_MIB ||
            p.replicas != cases[i].replicas)
            fail_msg("%s: %lldm, %lldMi, %u", cases[i].why, (long long)p.cpu_millicores,
                     (long long)(p.memory_bytes / AW_MIB), (unsigned)p.replicas);
        assert_int_equal(p.set, AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY);
    }
}

/* Peaks of 2 cores in all and 300 MiB of one replica. */
static void anchored_is_relative_to_recent_peaks(void **state)
{
    (void)state;
    struct aw_action action = make(AW_ACTION_ANCHORED, 0, false);
    struct aw_action_memory memory;
    struct aw_reading reading = aw_testing_reading(0);
    aw_action_begin(&memory);
    aw_action_observe(&action, &memory, &reading);
    const struct {
        float cpu, memory, replicas;
        int64_t millicores, mib;
        uint32_t count;
        const char *why;
    } cases[] = {
        {-1, -1, -1, 100, 309, 20, "2 x 1.1 cores in replicas of 0.1 are 22, and 20 are allowed"},
        {1, 1, -1, 4000, 618, 1, "2 x 1.1 cores fit into one of 4"},
        {0, 0, -1, 630, 437, 4, "2.2 / 0.63 is 3.5"},
        {0, 0, 0, 630, 437, 14, "the middle is 4.4 times the peak: 8.8 / 0.63 is 13.97"},
        {1, 1, 1, 4000, 618, 9, "2 x 17.6 cores in replicas of 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_plan p =
            plan(&action, &memory, &reading, cases[i].cpu, cases[i].memory, cases[i].replicas);
        if (p.cpu_millicores != cases[i].millicores || p.memory_bytes != cases[i].mib * AW_MIB ||
            p.replicas != cases[i].count)
            fail_msg("%s: %lldm, %lldMi, %u", cases[i].why, (long long)p.cpu_millicores,
                     (long long)(p.memory_bytes / AW_MIB), (unsigned)p.replicas);
    }
}

static void a_peak_is_forgotten_after_the_window(void **state)
{
    (void)state;
    struct aw_action action = make(AW_ACTION_ANCHORED, 0, false);
    struct aw_action_memory memory;
    struct aw_reading reading = aw_testing_reading(0);
    aw_action_begin(&memory);
    const double use[] = {1, 5, 2, 3, 1, 1, 1, 1, 4};
    const double peak[] = {1, 5, 5, 5, 5, 3, 3, 1, 4};
    for (int i = 0; i < 9; i++) {
        reading.cpu_cores_used = use[i];
        reading.memory_bytes_peak = 1e8 * use[i];
        aw_action_observe(&action, &memory, &reading);
        assert_close(memory.cpu_cores_peak, peak[i], 0);
        assert_close(memory.memory_bytes_peak, 1e8 * peak[i], 0);
    }
}

/* The naive twin: the largest of the last `window`. */
static void the_peak_is_the_largest_of_the_window(void **state)
{
    (void)state;
    struct aw_action action = make(AW_ACTION_ANCHORED, 0, false);
    struct aw_action_memory memory;
    struct aw_reading reading = aw_testing_reading(0);
    struct aw_rng rng;
    double past[4] = {0};
    aw_rng_init(&rng, 7, 0);
    aw_action_begin(&memory);
    for (int i = 0; i < 10000; i++) {
        reading.cpu_cores_used = aw_rng_below(&rng, 5) ? aw_rng_below(&rng, 6) : (double)NAN;
        past[i % 4] = isnan(reading.cpu_cores_used) ? 0 : reading.cpu_cores_used;
        aw_action_observe(&action, &memory, &reading);
        double naive = fmax(fmax(past[0], past[1]), fmax(past[2], past[3]));
        assert_true(memory.cpu_cores_peak == naive);
    }
}

static void without_figures_nothing_shrinks(void **state)
{
    (void)state;
    struct aw_action action = make(AW_ACTION_ANCHORED, 0, true);
    struct aw_action_memory memory;
    struct aw_reading known = aw_testing_reading(0), blind = known;
    blind.cpu_cores_used = blind.memory_bytes_peak = NAN;
    blind.cpu_millicores_wanted = 1000;

    aw_action_begin(&memory); /* nothing was ever known: stay */
    aw_action_observe(&action, &memory, &blind);
    struct aw_plan p = plan(&action, &memory, &blind, 1, -1, -1);
    assert_int_equal(p.replicas, blind.replicas_wanted);
    assert_int_equal(p.memory_bytes, blind.memory_bytes_wanted);

    aw_action_observe(&action, &memory, &known); /* known once, lost now: grow, but do not shrink */
    aw_action_observe(&action, &memory, &blind);
    p = plan(&action, &memory, &blind, 1, -1, -1);
    assert_int_equal(p.replicas, blind.replicas_wanted);
    assert_int_equal(p.memory_bytes, blind.memory_bytes_wanted);
    p = plan(&action, &memory, &blind, 1, 1, 1);
    assert_int_equal(p.replicas, 9);
    assert_int_equal(p.memory_bytes, 618 * AW_MIB);

    /* an idle workload is known to be idle */
    struct aw_reading idle = known;
    idle.cpu_cores_used = 0;
    aw_action_begin(&memory);
    aw_action_observe(&action, &memory, &idle);
    assert_int_equal(plan(&action, &memory, &idle, 0, 0, 1).replicas, 1);
}

static void the_guard_holds_memory_above_the_peak_and_remembers_a_kill(void **state)
{
    (void)state;
    for (uint32_t mapping = 0; mapping < 2; mapping++) {
        struct aw_action guarded = make(mapping, 0, true), bare = make(mapping, 0, false);
        struct aw_action_memory memory;
        struct aw_reading reading = aw_testing_reading(0);
        aw_action_begin(&memory);
        aw_action_observe(&guarded, &memory, &reading);
        assert_int_equal(plan(&guarded, &memory, &reading, 0, -1, 0).memory_bytes, 315 * AW_MIB);
        assert_true(plan(&bare, &memory, &reading, 0, -1, 0).memory_bytes < 315 * AW_MIB);

        reading.oom_kills = 2; /* at 512 MiB: 1.2 times that from now on */
        aw_action_observe(&guarded, &memory, &reading);
        reading.oom_kills = 0;
        for (int i = 0; i < 6; i++) {
            assert_int_equal(plan(&guarded, &memory, &reading, 0, -1, 0).memory_bytes,
                             615 * AW_MIB);
            aw_action_observe(&guarded, &memory, &reading);
        }
        assert_int_equal(plan(&guarded, &memory, &reading, 0, -1, 0).memory_bytes, 315 * AW_MIB);

        /* a kill at a smaller limit does not lower what an earlier one taught */
        reading.oom_kills = 1;
        aw_action_observe(&guarded, &memory, &reading);
        reading.memory_bytes_wanted = 400 * AW_MIB;
        aw_action_observe(&guarded, &memory, &reading);
        assert_int_equal(plan(&guarded, &memory, &reading, 0, -1, 0).memory_bytes, 615 * AW_MIB);

        /* kills that go on drive the limit up to its bound, and no further */
        for (int i = 0; i < 40; i++) {
            reading.oom_kills = 1;
            aw_action_observe(&guarded, &memory, &reading);
            struct aw_plan p = plan(&guarded, &memory, &reading, 0, -1, 0);
            assert_true(p.memory_bytes > reading.memory_bytes_wanted ||
                        p.memory_bytes == aw_testing_bounds.memory_bytes_max);
            reading.memory_bytes_wanted = p.memory_bytes;
        }
        assert_int_equal(reading.memory_bytes_wanted, aw_testing_bounds.memory_bytes_max);
    }
}

static void the_deadband_keeps_a_size_that_is_near_enough(void **state)
{
    (void)state;
    struct aw_action action = make(AW_ACTION_ABSOLUTE, 0.1, false);
    struct aw_action_memory memory;
    struct aw_reading reading = aw_testing_reading(0);
    aw_action_begin(&memory);
    const struct {
        int64_t present, expected;
        const char *why;
    } cases[] = {
        {630, 630, "the same"},
        {690, 690, "9 % less is wanted"},
        {580, 580, "9 % more is wanted"},
        {710, 630, "more than 10 % less is wanted"},
        {560, 630, "more than 10 % more is wanted"},
        {0, 630, "nothing is there"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reading.cpu_millicores_wanted = cases[i].present;
        if (plan(&action, &memory, &reading, 0, 0, 0).cpu_millicores != cases[i].expected)
            fail_msg("%s", cases[i].why);
    }
    /* what is there but not allowed is never kept */
    reading.cpu_millicores_wanted = 4100;
    assert_int_equal(plan(&action, &memory, &reading, 1, 0, 0).cpu_millicores, 4000);
    /* the guard is stronger than the deadband */
    struct aw_action guarded = make(AW_ACTION_ABSOLUTE, 0.1, true);
    aw_action_observe(&guarded, &memory, &reading);
    reading.memory_bytes_wanted = 300 * AW_MIB;
    assert_int_equal(plan(&guarded, &memory, &reading, 0, -1, 0).memory_bytes, 315 * AW_MIB);
}

static void plans_stay_in_the_bounds_whatever_was_read(void **state)
{
    (void)state;
    struct aw_rng rng;
    struct aw_pod pods[8];
    const struct aw_bounds *b = &aw_testing_bounds;
    aw_rng_init(&rng, 11, 0);
    for (int variant = 0; variant < 8; variant++) {
        struct aw_action action = make(variant & 1, variant & 2 ? 0.2 : 0, (variant & 4) != 0);
        struct aw_action_memory memory;
        aw_action_begin(&memory);
        for (int i = 0; i < 5000; i++) {
            struct aw_sample sample = aw_testing_sample_garbage(&rng, pods, 8);
            struct aw_reading reading;
            aw_reading_take(&sample, (int64_t)aw_rng_below(&rng, 2000000000), 0.99, &reading);
            aw_action_observe(&action, &memory, &reading);
            struct aw_plan p =
                plan(&action, &memory, &reading, (float)aw_rng_uniform(&rng, -2, 2),
                     (float)aw_rng_uniform(&rng, -2, 2), (float)aw_rng_uniform(&rng, -2, 2));
            assert_true(p.replicas >= b->replicas_min && p.replicas <= b->replicas_max);
            assert_true(p.cpu_millicores >= b->cpu_millicores_min &&
                        p.cpu_millicores <= b->cpu_millicores_max);
            assert_true(p.memory_bytes >= b->memory_bytes_min &&
                        p.memory_bytes <= b->memory_bytes_max);
        }
    }
}

static void more_action_is_never_less_of_anything(void **state)
{
    (void)state;
    for (uint32_t mapping = 0; mapping < 2; mapping++)
        for (int guard = 0; guard < 2; guard++) {
            struct aw_action action = make(mapping, 0, guard);
            struct aw_action_memory memory;
            struct aw_reading reading = aw_testing_reading(0);
            struct aw_plan last = {0};
            aw_action_begin(&memory);
            aw_action_observe(&action, &memory, &reading);
            for (float x = -1.1f; x < 1.1f; x += 0.001f) {
                /* one at a time: more CPU per replica rightly means fewer replicas */
                struct aw_plan p = plan(&action, &memory, &reading, x, x, 0);
                assert_true(p.cpu_millicores >= last.cpu_millicores);
                assert_true(p.memory_bytes >= last.memory_bytes);
                uint32_t before = last.replicas;
                last = p;
                last.replicas = plan(&action, &memory, &reading, 0, 0, x).replicas;
                assert_true(last.replicas >= before);
            }
        }
}

/* Over both mappings: what an action asked for is asked for again by the action made of it. */
static void an_action_made_of_a_plan_asks_for_that_plan(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 13, 0);
    for (int i = 0; i < 20000; i++) {
        struct aw_action action = make((uint32_t)i % 2, 0, false);
        struct aw_action_memory memory;
        struct aw_reading reading = aw_testing_reading(0);
        aw_action_begin(&memory);
        reading.cpu_cores_used = aw_rng_uniform(&rng, 0.05, 40);
        reading.memory_bytes_peak = (double)AW_MIB * aw_rng_uniform(&rng, 50, 6000);
        aw_action_observe(&action, &memory, &reading);
        float values[AW_ACTION_DIM];
        struct aw_plan p =
            plan(&action, &memory, &reading, (float)aw_rng_uniform(&rng, -1, 1),
                 (float)aw_rng_uniform(&rng, -1, 1), (float)aw_rng_uniform(&rng, -1, 1));
        aw_action_from_plan(&action, &memory, &p, values);
        for (uint32_t k = 0; k < AW_ACTION_DIM; k++)
            assert_true(values[k] >= -1 && values[k] <= 1);
        struct aw_plan again = plan(&action, &memory, &reading, values[0], values[1], values[2]);
        assert_int_equal(again.cpu_millicores, p.cpu_millicores);
        assert_int_equal(again.memory_bytes, p.memory_bytes);
        assert_int_equal(again.replicas, p.replicas);
    }
}

static void a_plan_that_no_action_asks_for_becomes_the_nearest(void **state)
{
    (void)state;
    struct aw_action action = make(AW_ACTION_ANCHORED, 0, false);
    struct aw_action_memory memory;
    struct aw_reading reading = aw_testing_reading(0);
    float values[AW_ACTION_DIM];
    struct aw_plan p = {.replicas = 20, .cpu_millicores = 4000, .memory_bytes = 8192 * AW_MIB};
    aw_action_begin(&memory);
    aw_action_from_plan(&action, &memory, &p, values);
    assert_true(values[0] == 1 && values[1] == 0 && values[2] == 0); /* no peak yet: the middle */
    aw_action_observe(&action, &memory, &reading);
    aw_action_from_plan(&action, &memory, &p, values);
    assert_true(values[0] == 1 && values[1] == 1 && values[2] == 1);
    p = (struct aw_plan){.replicas = 1, .cpu_millicores = 50, .memory_bytes = AW_MIB};
    aw_action_from_plan(&action, &memory, &p, values);
    assert_true(values[0] == -1 && values[1] == -1 && values[2] == -1);
}

static void bounds_that_leave_no_choice_leave_none(void **state)
{
    (void)state;
    const struct aw_bounds point = {.min = {3, 500, 100 * AW_MIB + 5},
                                    .max = {3, 500, 100 * AW_MIB + 5}};
    for (uint32_t mapping = 0; mapping < 2; mapping++) {
        struct aw_action action;
        struct aw_action_memory memory;
        struct aw_reading reading = aw_testing_reading(0);
        aw_action_init(&action,
                       &(struct aw_action_config){
                           .mapping = mapping, .bounds = point, .window = 1, .guard = true});
        aw_action_begin(&memory);
        aw_action_observe(&action, &memory, &reading);
        for (float x = -1; x <= 1; x += 0.5f) {
            struct aw_plan p = plan(&action, &memory, &reading, x, x, x);
            assert_int_equal(p.replicas, 3);
            assert_int_equal(p.cpu_millicores, 500);
            assert_int_equal(p.memory_bytes, 100 * AW_MIB + 5);
        }
    }
}

static void impossible_bounds_are_refused_by_name(void **state)
{
    (void)state;
    const struct {
        struct aw_bounds bounds;
        const char *text, *why;
    } cases[] = {
        {{.min = {5, 100, 1}, .max = {4, 200, 2}}, "replicas: the smallest (5)", "replicas"},
        {{.min = {0, 100, 1}, .max = {4, 200, 2}}, "replicas", "no replica at all"},
        {{.min = {1, 300, 1}, .max = {4, 200, 2}}, "CPU of a replica", "CPU"},
        {{.min = {1, 0, 1}, .max = {4, 200, 2}}, "CPU of a replica", "no CPU"},
        {{.min = {1, 100, 3}, .max = {4, 200, 2}}, "memory of a replica", "memory"},
    };
    struct aw_diag diag;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (aw_bounds_check(&cases[i].bounds, &diag) != AW_ERR_CONFIG ||
            !strstr(diag.text, cases[i].text))
            fail_msg("%s: %s", cases[i].why, diag.text);
    assert_ok(aw_bounds_check(&aw_testing_bounds, NULL));
}

static void margins_are_the_ranges_that_are_written_down(void **state)
{
    (void)state;
    const struct aw_log_range *const written[] = {&aw_action_memory_margin, &aw_action_cpu_margin};
    for (uint32_t i = 0; i < 2; i++) {
        const struct aw_log_range made = aw_log_range(written[i]->low, written[i]->high);
        assert_true(made.log_low == written[i]->log_low && made.log_span == written[i]->log_span &&
                    made.log_span_inverse == written[i]->log_span_inverse);
    }
}

AW_TEST_GROUP("autoscale-action")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absolute_reaches_the_bounds_on_a_log_scale),
        cmocka_unit_test(anchored_is_relative_to_recent_peaks),
        cmocka_unit_test(a_peak_is_forgotten_after_the_window),
        cmocka_unit_test(the_peak_is_the_largest_of_the_window),
        cmocka_unit_test(without_figures_nothing_shrinks),
        cmocka_unit_test(the_guard_holds_memory_above_the_peak_and_remembers_a_kill),
        cmocka_unit_test(the_deadband_keeps_a_size_that_is_near_enough),
        cmocka_unit_test(plans_stay_in_the_bounds_whatever_was_read),
        cmocka_unit_test(more_action_is_never_less_of_anything),
        cmocka_unit_test(an_action_made_of_a_plan_asks_for_that_plan),
        cmocka_unit_test(a_plan_that_no_action_asks_for_becomes_the_nearest),
        cmocka_unit_test(bounds_that_leave_no_choice_leave_none),
        cmocka_unit_test(impossible_bounds_are_refused_by_name),
        cmocka_unit_test(margins_are_the_ranges_that_are_written_down),
    };
    return cmocka_run_group_tests_name("autoscale-action", tests, NULL, NULL);
}
