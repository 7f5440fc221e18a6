#include "workload/load.h"

#include "base/testing.h"

#include <math.h>
#include <string.h>

static struct aw_load_settings defaults(enum aw_load_pattern pattern)
{
    struct aw_load_settings s;
    aw_conf_defaults(aw_load_fields, &s);
    s.pattern = pattern;
    s.noise = 0;
    return s;
}

static void every_pattern_has_exactly_the_mean_that_was_asked_for(void **state)
{
    (void)state;
    for (uint32_t p = 0; aw_load_pattern_names[p]; p++) {
        for (uint64_t seed = 0; seed < 3; seed++) {
            struct aw_load_settings s = defaults((enum aw_load_pattern)p);
            struct aw_load load = {0};
            s.noise = 0.3;
            s.mean_per_s = 37.5;
            assert_ok(aw_load_generate(&s, seed, NULL, &load, NULL));
            assert_close(aw_load_figures(&load).mean_per_s, 37.5, 1e-5);
            assert_close(aw_load_mean(&load, 0, load.slot_us * load.slot_count), 37.5, 1e-5);
            assert_string_equal(load.name, aw_load_pattern_names[p]);
            aw_load_deinit(&load);
        }
    }
}

static void a_peak_is_so_many_times_the_mean(void **state)
{
    (void)state;
    static const struct {
        enum aw_load_pattern pattern;
        double peak, tolerance;
        const char *why;
    } cases[] = {
        {AW_LOAD_CONSTANT, 1, 1e-6, "it has none"},
        {AW_LOAD_DIURNAL, 1, 1e-6, "a flat day"},
        {AW_LOAD_DIURNAL, 1.3, 0.01, "a mild day"},
        {AW_LOAD_DIURNAL, 3, 0.01, "the default"},
        {AW_LOAD_DIURNAL, 12, 0.01, "a narrow day"},
        {AW_LOAD_RAMP, 1.2, 0.01, "the widest ramp"},
        {AW_LOAD_RAMP, 3, 0.01, "the default"},
        {AW_LOAD_RAMP, 8, 0.01, "a narrow ramp"},
        {AW_LOAD_SPIKES, 3, 0.12, "the tallest of many, the mean by chance"},
        {AW_LOAD_SPIKES, 10, 0.12, "the same"},
        {AW_LOAD_BURSTS, 3, 0.12, "the mean by chance"},
        {AW_LOAD_BURSTS, 10, 0.12, "the same"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_load_settings s = defaults(cases[i].pattern);
        struct aw_load load = {0};
        s.peak_ratio = cases[i].peak;
        s.length_s = 1000 * 3600.0;
        assert_ok(aw_load_generate(&s, 1, NULL, &load, NULL));
        struct aw_load_figures f = aw_load_figures(&load);
        double ratio = f.peak_per_s / f.mean_per_s;
        if (!(fabs(ratio / cases[i].peak - 1) <= cases[i].tolerance) || f.low_per_s < 0)
            fail_msg("%s, peak %g: found %g (%s)", load.name, cases[i].peak, ratio, cases[i].why);
        aw_load_deinit(&load);
    }
}

static void a_peak_that_cannot_be_is_refused_with_what_can(void **state)
{
    (void)state;
    struct aw_load_settings s = defaults(AW_LOAD_BURSTS);
    struct aw_load load = {0};
    struct aw_diag diag = {0};
    s.duration_s = s.period_s = 600; /* half of the time: at most twice the mean */
    s.peak_ratio = 2.5;
    assert_int_equal(aw_load_generate(&s, 1, NULL, &load, &diag), AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "at most 2"));
    assert_null(load.rate_per_s);
}

static void same_seed_same_bytes_and_other_seeds_differ(void **state)
{
    (void)state;
    for (uint32_t p = 0; aw_load_pattern_names[p]; p++) {
        struct aw_load_settings s = defaults((enum aw_load_pattern)p);
        struct aw_load a = {0}, b = {0}, c = {0};
        s.noise = 0.05;
        assert_ok(aw_load_generate(&s, 9, NULL, &a, NULL));
        assert_ok(aw_load_generate(&s, 9, NULL, &b, NULL));
        assert_ok(aw_load_generate(&s, 10, NULL, &c, NULL));
        size_t bytes = a.slot_count * sizeof *a.rate_per_s;
        assert_memory_equal(a.rate_per_s, b.rate_per_s, bytes);
        assert_memory_not_equal(a.rate_per_s, c.rate_per_s, bytes);
        aw_load_deinit(&a);
        aw_load_deinit(&b);
        aw_load_deinit(&c);
    }
}

static void bursts_last_and_pause_as_long_as_stated(void **state)
{
    (void)state;
    struct aw_load_settings s = defaults(AW_LOAD_BURSTS);
    struct aw_load load = {0};
    s.length_s = 5000 * 3600.0;
    assert_ok(aw_load_generate(&s, 4, NULL, &load, NULL));
    double burst_slots = 0, calm_slots = 0, bursts = 0, calms = 0;
    float middle = 0.5f * (load.rate_per_s[0] + (float)aw_load_figures(&load).peak_per_s);
    for (uint32_t i = 0; i < load.slot_count; i++) {
        bool high = load.rate_per_s[i] > middle;
        bool begins = i == 0 || high != (load.rate_per_s[i - 1] > middle);
        *(high ? &burst_slots : &calm_slots) += 1;
        *(high ? &bursts : &calms) += begins;
    }
    /* about 4800 sojourns of each sort: their mean has a deviation of 1.5 % */
    assert_close(burst_slots / bursts * s.slot_s / s.duration_s, 1, 0.06);
    assert_close(calm_slots / calms * s.slot_s / s.period_s, 1, 0.06);
    aw_load_deinit(&load);
}

static void noise_has_the_stated_variation(void **state)
{
    (void)state;
    struct aw_load_settings s = defaults(AW_LOAD_CONSTANT);
    struct aw_load load = {0};
    s.noise = 0.2;
    s.length_s = 500e3;
    assert_ok(aw_load_generate(&s, 4, NULL, &load, NULL));
    assert_close(aw_load_figures(&load).burstiness, 0.2, 0.004);
    aw_load_deinit(&load);
}

static void poisson_slots_vary_as_counts_do(void **state)
{
    (void)state;
    struct aw_load_settings s = defaults(AW_LOAD_POISSON);
    struct aw_load load = {0};
    s.length_s = 500e3;
    assert_ok(aw_load_generate(&s, 4, NULL, &load, NULL));
    assert_close(aw_load_figures(&load).burstiness, 1 / sqrt(20 * 5), 0.003); /* 100 a slot */
    aw_load_deinit(&load);
}

static void a_load_repeats_after_its_end(void **state)
{
    (void)state;
    float rates[] = {1, 2, 4};
    struct aw_load load = {.slot_count = 3, .slot_us = 1000000, .rate_per_s = rates};
    assert_close(aw_load_rate(&load, 0), 1, 0);
    assert_close(aw_load_rate(&load, 2999999), 4, 0);
    assert_close(aw_load_rate(&load, 3000000), 1, 0);
    assert_close(aw_load_rate(&load, 301500000), 2, 0);
    assert_close(aw_load_mean(&load, 500000, 1500000), 1.5, 1e-12);
    assert_close(aw_load_mean(&load, 2000000, 4000000), 2.5, 1e-12);
    assert_close(aw_load_mean(&load, 0, 300000000), 7.0 / 3, 1e-12);
}

static void a_load_is_scaled_to_a_mean_or_a_peak(void **state)
{
    (void)state;
    float rates[] = {1, 2, 3}, zero[] = {0, 0};
    struct aw_load load = {.slot_count = 3, .slot_us = 1, .rate_per_s = rates};
    struct aw_load nothing = {.slot_count = 2, .slot_us = 1, .rate_per_s = zero};
    aw_load_scale_mean(&load, 10);
    assert_close((double)rates[2], 15, 1e-6);
    aw_load_scale_peak(&load, 30);
    assert_close((double)rates[0], 10, 1e-6);
    struct aw_load_figures f = aw_load_figures(&load);
    assert_close(f.low_per_s, 10, 1e-6);
    assert_close(f.burstiness, sqrt(2.0 / 3) * 10 / 20, 1e-6);
    aw_load_scale_mean(&nothing, 10); /* stays what it is: nothing can be scaled up from 0 */
    assert_close((double)zero[0], 0, 0);
}

static void too_many_slots_and_no_memory_are_refused(void **state)
{
    (void)state;
    struct aw_load_settings s = defaults(AW_LOAD_CONSTANT);
    struct aw_load load = {0};
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw_load_generate(&s, 1, &counting.alloc, &load, NULL), AW_ERR_NOMEM);
    s.slot_s = 0.1;
    s.length_s = 1e8;
    assert_int_equal(aw_load_generate(&s, 1, NULL, &load, NULL), AW_ERR_LIMIT);
    assert_null(load.rate_per_s);
    aw_load_deinit(&load);
}

AW_TEST_GROUP("load")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_has_exactly_the_mean_that_was_asked_for),
        cmocka_unit_test(a_peak_is_so_many_times_the_mean),
        cmocka_unit_test(a_peak_that_cannot_be_is_refused_with_what_can),
        cmocka_unit_test(same_seed_same_bytes_and_other_seeds_differ),
        cmocka_unit_test(bursts_last_and_pause_as_long_as_stated),
        cmocka_unit_test(noise_has_the_stated_variation),
        cmocka_unit_test(poisson_slots_vary_as_counts_do),
        cmocka_unit_test(a_load_repeats_after_its_end),
        cmocka_unit_test(a_load_is_scaled_to_a_mean_or_a_peak),
        cmocka_unit_test(too_many_slots_and_no_memory_are_refused),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
