#include "workload/app.h"

#include "base/clock.h"
#include "base/testing.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define POOL_COUNT     1000u
#define THREADED_CORES 2

static void generate(uint64_t seed, uint32_t index, struct aw_app *ret)
{
    aw_app_generate(seed, index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, ret);
}

static void an_application_is_the_same_whether_or_not_others_are_drawn(void **state)
{
    (void)state;
    struct aw_app alone, among, other;
    generate(7, 42, &alone);
    for (uint32_t i = 0; i <= 42; i++)
        generate(7, i, &among);
    assert_memory_equal(&alone, &among, sizeof alone);
    generate(8, 42, &other);
    assert_memory_not_equal(&alone.segment, &other.segment, sizeof alone.segment);
    generate(7, 43, &other);
    assert_memory_not_equal(&alone.segment, &other.segment, sizeof alone.segment);
    assert_string_equal(alone.name, "app-7-42");
}

static void a_thousand_applications_take_well_under_a_second(void **state)
{
    (void)state;
    struct aw_app app;
    uint32_t segments = 0;
    int64_t begin_us = aw_clock_monotonic_us(NULL);
    for (uint32_t i = 0; i < POOL_COUNT; i++) {
        generate(1, i, &app);
        segments += app.segment_count;
    }
    assert_true(aw_clock_monotonic_us(NULL) - begin_us < 300000);
    assert_in_range(segments, 3 * POOL_COUNT, 4 * POOL_COUNT); /* 3.5 on average */
}

static void every_kind_and_every_length_appears_about_equally_often(void **state)
{
    (void)state;
    uint32_t kinds[AW_SEGMENT_BUILTIN_COUNT] = {0}, lengths[AW_APP_SEGMENTS_MAX + 1] = {0};
    const struct aw_segment *builtin = aw_segment_builtin();
    for (uint32_t i = 0; i < POOL_COUNT; i++) {
        struct aw_app app;
        generate(1, i, &app);
        assert_in_range(app.segment_count, 1, AW_APP_SEGMENTS_MAX);
        lengths[app.segment_count]++;
        for (uint32_t k = 0; k < app.segment_count; k++) {
            uint32_t kind = 0;
            while (strcmp(builtin[kind].name, app.segment[k].name) != 0)
                assert_true(++kind < AW_SEGMENT_BUILTIN_COUNT);
            kinds[kind]++;
        }
    }
    /* 3500 draws over 16 kinds: 219 each, deviation 14; 1000 over 6 lengths: 167, deviation 12 */
    for (uint32_t i = 0; i < AW_SEGMENT_BUILTIN_COUNT; i++)
        assert_in_range(kinds[i], 219 - 70, 219 + 70);
    for (uint32_t i = 1; i <= AW_APP_SEGMENTS_MAX; i++)
        assert_in_range(lengths[i], 167 - 60, 167 + 60);
}

static void drawn_figures_have_four_digits_so_that_their_text_is_exact(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < POOL_COUNT; i++) {
        struct aw_app app;
        generate(3, i, &app);
        for (uint32_t k = 0; k < app.segment_count; k++) {
            const struct aw_segment *s = &app.segment[k];
            const double drawn[] = {s->cpu_ms, s->io_ms, s->memory_base_mib, s->memory_flight_mib,
                                    s->cold_start_ms};
            for (uint32_t f = 0; f < sizeof drawn / sizeof *drawn; f++) {
                char text[32], back[AW_TEXT_REAL_MAX];
                double value = 0;
                snprintf(text, sizeof text, "%.4g", drawn[f]);
                assert_ok(aw_text_parse_real(text, &value));
                assert_true(value == drawn[f]);
                assert_true(strlen(aw_text_real(drawn[f], back, sizeof back)) <= 7);
            }
        }
    }
}

static void builtin_kinds_are_sound(void **state)
{
    (void)state;
    const struct aw_segment *kind = aw_segment_builtin();
    for (uint32_t i = 0; i < AW_SEGMENT_BUILTIN_COUNT; i++, kind++) {
        assert_true(kind->cpu_ms > 0 && kind->io_ms >= 0 && kind->parallelism >= 1);
        assert_true(kind->memory_base_mib > 0 && kind->memory_flight_mib > 0);
        assert_true(kind->cold_start_ms > 0);
        /* what has no payload of its own does not grow with one */
        if (kind->family == AW_PAYLOAD_NONE)
            assert_true(kind->cpu_exponent == 0 && kind->bytes_exponent == 0);
        else
            assert_true(kind->cpu_exponent > 0);
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(aw_segment_builtin()[k].name, kind->name);
    }
}

static struct aw_app two_segments(void)
{
    return (struct aw_app){
        .name = "two",
        .segment_count = 2,
        .segment = {{.name = "a",
                     .family = AW_PAYLOAD_FILE,
                     .cpu_ms = 10,
                     .cpu_cv = 0.3,
                     .io_ms = 5,
                     .io_cv = 0.5,
                     .memory_base_mib = 20,
                     .memory_flight_mib = 2,
                     .read_kib = 100,
                     .write_kib = 10,
                     .send_kib = 1,
                     .cpu_exponent = 1,
                     .io_exponent = 0.5,
                     .memory_exponent = 2,
                     .bytes_exponent = 1,
                     .parallelism = 1,
                     .threads = 16,
                     .cold_start_ms = 100},
                    {.name = "b",
                     .family = AW_PAYLOAD_IMAGE,
                     .cpu_ms = 30,
                     .cpu_cv = 0.1,
                     .memory_base_mib = 30,
                     .memory_flight_mib = 5,
                     .send_kib = 7,
                     .cpu_exponent = 0.5,
                     .parallelism = 3,
                     .threads = 0,
                     .cold_start_ms = 200}},
    };
}

static void a_demand_sums_costs_and_keeps_the_tightest_of_what_is_shared(void **state)
{
    (void)state;
    struct aw_app app = two_segments(), empty = {0};
    struct aw_demand d, runtime;
    aw_app_demand(&empty, 1, 0, &runtime);
    aw_app_demand(&app, 1, 0, &d);
    assert_close(d.cpu_ms, 40, 1e-12);
    assert_close(d.io_ms, 5, 1e-12);
    /* independent segments: variances of their times on the CPU add, 3 and 1 ms of 10 and 10 */
    assert_close(d.cpu_cv, sqrt(9.0 + 1.0) / 20, 1e-12);
    assert_close(d.io_cv, 0.5, 1e-12);
    assert_close(d.memory_base_mib - runtime.memory_base_mib, 50, 1e-12);
    assert_close(d.cold_start_ms - runtime.cold_start_ms, 300, 1e-12);
    assert_close(d.memory_flight_mib, 5, 1e-12); /* the largest, not the sum */
    assert_close(d.disk_kib, 110, 1e-12);
    assert_close(d.net_kib, 8, 1e-12);
    assert_close(d.parallelism, 40.0 / (10 + 10), 1e-12);
    assert_int_equal(d.threads, 16);
}

static void a_payload_grows_what_its_exponents_say_in_its_families_alone(void **state)
{
    (void)state;
    struct aw_app app = two_segments();
    struct aw_segment s;
    aw_segment_at(&app.segment[0], 4, 0, &s);
    assert_close(s.cpu_ms, 40, 1e-12);
    assert_close(s.io_ms, 10, 1e-12);
    assert_close(s.memory_flight_mib, 32, 1e-12);
    assert_close(s.read_kib, 400, 1e-12);
    assert_close(s.memory_base_mib, 20, 1e-12);
    aw_segment_at(&app.segment[0], 4, 1u << AW_PAYLOAD_IMAGE, &s);
    assert_memory_equal(&s, &app.segment[0], sizeof s);

    struct aw_demand files, images, all;
    aw_app_demand(&app, 4, 1u << AW_PAYLOAD_FILE, &files);
    aw_app_demand(&app, 4, 1u << AW_PAYLOAD_IMAGE, &images);
    aw_app_demand(&app, 4, 0, &all);
    assert_close(files.cpu_ms, 40 + 30, 1e-12);
    assert_close(images.cpu_ms, 10 + 60, 1e-12);
    assert_close(all.cpu_ms, 40 + 60, 1e-12);
}

static void an_unloaded_p99_lies_above_the_mean_and_grows_with_the_payload(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 50; i++) {
        struct aw_app app;
        generate(5, i, &app);
        double mean_us = 0, before = 0;
        for (uint32_t k = 0; k < app.segment_count; k++) {
            const struct aw_segment *s = &app.segment[k];
            mean_us += 1e3 * (s->cpu_ms / s->parallelism + s->io_ms);
        }
        double p99_us = aw_app_unloaded_p99_us(&app, 1, 0);
        assert_true(p99_us == aw_app_unloaded_p99_us(&app, 1, 0));
        /* one lognormal of variation 0.9 has its p99 at 4.2 means; sums have less */
        assert_true(p99_us > mean_us && p99_us < 4.5 * mean_us);
        for (double payload = 0.25; payload <= 16; payload *= 2) {
            double at_us = aw_app_unloaded_p99_us(&app, payload, 0);
            assert_true(at_us >= before);
            before = at_us;
        }
    }
}

static void an_unloaded_p99_agrees_with_the_lognormal_it_samples(void **state)
{
    (void)state;
    struct aw_app app = two_segments();
    app.segment_count = 1;
    app.segment[0].io_ms = 0;
    double sigma = sqrt(log1p(0.3 * 0.3));
    double p99_us = 1e4 * exp(2.3263478740408408 * sigma - 0.5 * sigma * sigma);
    assert_close(aw_app_unloaded_p99_us(&app, 1, 0) / p99_us, 1, 0.03);
}

/* The pool must hold what a controller has to tell apart: see the page on workloads. */
static void the_pool_spreads_over_what_makes_workloads_differ(void **state)
{
    (void)state;
    uint32_t waiting = 0, computing = 0, thread_bound = 0, slow_start = 0, large = 0, small = 0;
    double cpu_min = INFINITY, cpu_max = 0, p99_max = 0;
    for (uint32_t i = 0; i < POOL_COUNT; i++) {
        struct aw_app app;
        struct aw_demand d;
        generate(1, i, &app);
        aw_app_demand(&app, 1, 0, &d);
        cpu_min = fmin(cpu_min, d.cpu_ms);
        cpu_max = fmax(cpu_max, d.cpu_ms);
        double share = d.io_ms / (d.io_ms + d.cpu_ms / d.parallelism);
        waiting += share > 0.6;
        computing += share < 0.1;
        /* All workers are taken before THREADED_CORES are busy: CPU use does not show it. */
        thread_bound += d.threads && d.threads * d.cpu_ms < THREADED_CORES * (d.cpu_ms + d.io_ms);
        slow_start += d.cold_start_ms > 5000;
        large += d.memory_base_mib > 300;
        small += d.memory_base_mib < 100;
        if (i % 10 == 0)
            p99_max = fmax(p99_max, aw_app_unloaded_p99_us(&app, 1, 0));
        assert_true(d.cold_start_ms > 300 && d.cold_start_ms < 80e3);
        assert_true(d.memory_base_mib > 48 && d.memory_base_mib < 4096);
    }
    assert_true(cpu_min < 3 && cpu_max > 200);
    assert_in_range(waiting, 150, 600);
    assert_in_range(computing, 100, 500);
    assert_in_range(slow_start, 100, 350);
    assert_in_range(large, 100, 400);
    assert_in_range(small, 150, 600);
    assert_in_range(thread_bound, 150, 400);
    assert_true(p99_max > 2e5 && p99_max < 1e7);
}

AW_TEST_GROUP("app")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_application_is_the_same_whether_or_not_others_are_drawn),
        cmocka_unit_test(a_thousand_applications_take_well_under_a_second),
        cmocka_unit_test(every_kind_and_every_length_appears_about_equally_often),
        cmocka_unit_test(drawn_figures_have_four_digits_so_that_their_text_is_exact),
        cmocka_unit_test(builtin_kinds_are_sound),
        cmocka_unit_test(a_demand_sums_costs_and_keeps_the_tightest_of_what_is_shared),
        cmocka_unit_test(a_payload_grows_what_its_exponents_say_in_its_families_alone),
        cmocka_unit_test(an_unloaded_p99_lies_above_the_mean_and_grows_with_the_payload),
        cmocka_unit_test(an_unloaded_p99_agrees_with_the_lognormal_it_samples),
        cmocka_unit_test(the_pool_spreads_over_what_makes_workloads_differ),
    };
    return cmocka_run_group_tests_name("app", tests, NULL, NULL);
}
