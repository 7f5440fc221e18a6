#include "fallback/vpa.h"

#include "base/rng.h"
#include "base/testing.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

#define SECOND_US ((int64_t)1000000)
#define HOUR_US   (3600 * SECOND_US)
#define DAY_US    (24 * HOUR_US)
#define START_US  (20000 * DAY_US)

static struct aw_vpa_config config;

static int set_up(void **state)
{
    (void)state;
    aw_vpa_config_init(&config);
    return 0;
}

static void the_defaults_are_those_of_the_recommender(void **state)
{
    (void)state;
    assert_ok(aw_vpa_config_check(&config, NULL));
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        assert_int_equal(config.shape[r].bucket_count, 176);
        assert_close(config.shape[r].epsilon, 1e-4, 1e-12);
        assert_true(config.shape[r].half_life_us == DAY_US);
    }
}

static void a_recommendation_is_the_percentile_with_its_margin(void **state)
{
    (void)state;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    struct aw_vpa_recommendation wanted;
    aw_vpa_aggregate_init(&aggregate, &config, START_US);
    assert_int_equal(aw_vpa_recommend(&config, &aggregate, 1, NULL, &wanted), AW_ERR_NODATA);
    /* a week of one core and 1 GB, a sample a minute: confidence 7 */
    for (int minute = 0; minute <= 7 * 1440; minute++) {
        int64_t time_us = START_US + minute * 60 * SECOND_US;
        assert_true(aw_vpa_add(&config, &aggregate, &container, AW_VPA_CPU, 1000, time_us));
        assert_true(
            aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, 1000000000, time_us));
    }
    assert_ok(aw_vpa_recommend(&config, &aggregate, 1, NULL, &wanted));
    static const int64_t used[] = {1000, 1000000000};
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        const struct aw_histogram_shape *shape = &config.shape[r];
        double unit = config.unit[r];
        uint32_t bucket = aw_histogram_find(shape, (double)used[r] / unit);
        int64_t top = (int64_t)(shape->start[bucket + 1] * unit);
        int64_t target = top + (int64_t)((double)top * 0.15);
        assert_int_equal(wanted.target[r], target);
        assert_int_equal(wanted.uncapped_target[r], target);
        assert_int_equal(wanted.lower[r], (int64_t)((double)target * pow(1 + 0.001 / 7, -2)));
        assert_int_equal(wanted.upper[r], (int64_t)((double)target * (1 + 1.0 / 7)));
    }
}

static void bounds_enclose_the_target_whatever_was_seen(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct aw_vpa_aggregate aggregate;
        struct aw_vpa_container containers[3] = {0};
        struct aw_vpa_recommendation wanted;
        struct aw_rng rng;
        aw_rng_init(&rng, seed, 0);
        aw_vpa_aggregate_init(&aggregate, &config, START_US);
        config.round_to[AW_VPA_CPU] = 1 + aw_rng_below(&rng, 50);
        config.round_to[AW_VPA_MEMORY] = 1 + aw_rng_below(&rng, 1 << 20);
        struct aw_vpa_policy policy = {
            .min_allowed = {aw_rng_below(&rng, 500), 0},
            .max_allowed = {0, aw_rng_below(&rng, 2) ? 600 * AW_MIB : 0}};
        int64_t time_us = START_US;
        uint32_t count = 1 + aw_rng_below(&rng, 80);
        for (uint32_t i = 0; i < count; i++) {
            struct aw_vpa_container *container = &containers[aw_rng_below(&rng, 3)];
            time_us += (int64_t)aw_rng_below(&rng, 7200) * SECOND_US + 1;
            aw_vpa_add(&config, &aggregate, container, AW_VPA_CPU,
                       (int64_t)aw_rng_exponential(&rng, 800), time_us);
            aw_vpa_add(&config, &aggregate, container, AW_VPA_MEMORY,
                       (int64_t)aw_rng_exponential(&rng, 5e8), time_us);
            if (aw_rng_below(&rng, 20) == 0)
                aw_vpa_oom(&config, &aggregate, container, 300 * AW_MIB, time_us);
            assert_ok(
                aw_vpa_recommend(&config, &aggregate, 1 + aw_rng_below(&rng, 4), &policy, &wanted));
            for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
                if (wanted.lower[r] > wanted.target[r] || wanted.target[r] > wanted.upper[r])
                    fail_msg("seed %d: %lld, %lld, %lld", (int)seed, (long long)wanted.lower[r],
                             (long long)wanted.target[r], (long long)wanted.upper[r]);
            assert_true(wanted.target[AW_VPA_CPU] >= policy.min_allowed[AW_VPA_CPU]);
            if (policy.max_allowed[AW_VPA_MEMORY])
                assert_true(wanted.upper[AW_VPA_MEMORY] <= 600 * AW_MIB);
            assert_int_equal(wanted.uncapped_target[AW_VPA_CPU] % config.round_to[AW_VPA_CPU], 0);
        }
    }
    aw_vpa_config_init(&config);
}

static void one_sample_says_nothing_about_the_bounds(void **state)
{
    (void)state;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    struct aw_vpa_recommendation wanted;
    aw_vpa_aggregate_init(&aggregate, &config, START_US);
    aw_vpa_add(&config, &aggregate, &container, AW_VPA_CPU, 0, START_US);
    assert_ok(aw_vpa_recommend(&config, &aggregate, 1, NULL, &wanted));
    assert_true(wanted.upper[AW_VPA_CPU] == AW_VPA_AMOUNT_MAX);
    assert_int_equal(wanted.lower[AW_VPA_CPU], 25);
    assert_int_equal(wanted.target[AW_VPA_MEMORY], 250 * AW_MIB); /* none seen: the pod's minimum */
    assert_true(wanted.upper[AW_VPA_MEMORY] == AW_VPA_AMOUNT_MAX);
    assert_true(aw__vpa_with_confidence(3140, 1, 1, 0) == AW_VPA_AMOUNT_MAX);
    assert_int_equal(aw__vpa_with_confidence(3140, 1, -1, 0), 0);
}

static void the_maximum_of_a_policy_has_the_last_word(void **state)
{
    (void)state;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    struct aw_vpa_recommendation wanted;
    aw_vpa_aggregate_init(&aggregate, &config, START_US);
    aw_vpa_add(&config, &aggregate, &container, AW_VPA_CPU, 1000, START_US);
    struct aw_vpa_policy policy = {.min_allowed = {3000}, .max_allowed = {2000}};
    assert_ok(aw_vpa_recommend(&config, &aggregate, 1, &policy, &wanted));
    assert_int_equal(wanted.target[AW_VPA_CPU], 2000);
    assert_true(wanted.uncapped_target[AW_VPA_CPU] > 1000 &&
                wanted.uncapped_target[AW_VPA_CPU] < 1300);
    config.max_allowed[AW_VPA_CPU] = 700; /* of the recommender: only where a policy is silent */
    assert_ok(aw_vpa_recommend(&config, &aggregate, 1, &policy, &wanted));
    assert_int_equal(wanted.target[AW_VPA_CPU], 2000);
    assert_ok(aw_vpa_recommend(&config, &aggregate, 1, NULL, &wanted));
    assert_int_equal(wanted.target[AW_VPA_CPU], 700);
    config.max_allowed[AW_VPA_CPU] = 0;
}

static void samples_out_of_order_are_refused(void **state)
{
    (void)state;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    aw_vpa_aggregate_init(&aggregate, &config, START_US);
    assert_false(aw_vpa_add(&config, &aggregate, &container, AW_VPA_CPU, -1, START_US));
    assert_true(aw_vpa_add(&config, &aggregate, &container, AW_VPA_CPU, 5, START_US));
    assert_false(aw_vpa_add(&config, &aggregate, &container, AW_VPA_CPU, 5, START_US));
    assert_false(aw_vpa_add(&config, &aggregate, &container, AW_VPA_CPU, 5, START_US - 1));
    assert_int_equal(aggregate.sample_count, 1);
    assert_false(aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, -1, START_US));
    assert_true(aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, 5, START_US));
    assert_true(aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, 9, START_US));
    assert_false(aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, 5, START_US - 1));
}

/* The twin: the peak of every window of a container's samples, found afterwards. */
static void memory_counts_the_peak_of_each_day_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct aw_vpa_aggregate aggregate;
        struct aw_vpa_container container = {0};
        struct aw_histogram expected;
        struct aw_rng rng;
        int64_t peak[40] = {0}, time_us = START_US;
        aw_rng_init(&rng, seed, 2);
        aw_vpa_aggregate_init(&aggregate, &config, START_US);
        while (time_us < START_US + 39 * DAY_US) {
            int64_t bytes = 1 + (int64_t)aw_rng_exponential(&rng, 5e8);
            int64_t day = (time_us - START_US) / DAY_US;
            aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, bytes, time_us);
            peak[day] = bytes > peak[day] ? bytes : peak[day];
            time_us += (int64_t)aw_rng_below(&rng, 30 * 3600) * SECOND_US;
        }
        aw_histogram_reset(&expected, &config.shape[AW_VPA_MEMORY]);
        for (int day = 0; day < 40; day++)
            if (peak[day])
                aw_histogram_add(&expected, &config.shape[AW_VPA_MEMORY], (double)peak[day], 1,
                                 START_US + (day + 1) * DAY_US);
        for (uint32_t i = 0; i < config.shape[AW_VPA_MEMORY].bucket_count; i++)
            assert_close(aggregate.usage[AW_VPA_MEMORY].weight[i], expected.weight[i], 1e-9);
    }
}

static void an_interval_that_began_with_nothing_ends_with_nothing(void **state)
{
    (void)state;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    const struct aw_histogram *memory = &aggregate.usage[AW_VPA_MEMORY];
    aw_vpa_aggregate_init(&aggregate, &config, START_US);
    aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, 0, START_US);
    aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, 500 * AW_MIB, START_US + HOUR_US);
    assert_int_equal(memory->highest, 0);
    aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, 500 * AW_MIB, START_US + DAY_US);
    assert_true(memory->highest > 0);
}

static void figures_are_rounded_up_to_their_step(void **state)
{
    (void)state;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    struct aw_vpa_recommendation plain, rounded;
    aw_vpa_aggregate_init(&aggregate, &config, START_US);
    for (int64_t amount = 50; amount < 3000; amount += 37) {
        aw_vpa_add(&config, &aggregate, &container, AW_VPA_CPU, amount, START_US + amount);
        assert_ok(aw_vpa_recommend(&config, &aggregate, 1, NULL, &plain));
        config.round_to[AW_VPA_CPU] = 50;
        assert_ok(aw_vpa_recommend(&config, &aggregate, 1, NULL, &rounded));
        config.round_to[AW_VPA_CPU] = 1;
        assert_int_equal(rounded.target[AW_VPA_CPU], (plain.target[AW_VPA_CPU] + 49) / 50 * 50);
    }
}

static void a_series_of_kills_does_not_bump_the_bump(void **state)
{
    (void)state;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    struct aw_vpa_recommendation wanted, again;
    aw_vpa_aggregate_init(&aggregate, &config, START_US);
    aw_vpa_add(&config, &aggregate, &container, AW_VPA_CPU, 100, START_US);
    aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, 900 * AW_MIB, START_US);
    assert_true(aw_vpa_oom(&config, &aggregate, &container, 1000 * AW_MIB, START_US + SECOND_US));
    assert_int_equal(container.oom_peak, 1200 * AW_MIB);
    assert_int_equal(container.memory_peak, 900 * AW_MIB);
    assert_ok(aw_vpa_recommend(&config, &aggregate, 1, NULL, &wanted));
    assert_true(wanted.target[AW_VPA_MEMORY] >= 1200 * AW_MIB);
    for (int i = 2; i < 10; i++)
        aw_vpa_oom(&config, &aggregate, &container, 1000 * AW_MIB, START_US + i * SECOND_US);
    assert_ok(aw_vpa_recommend(&config, &aggregate, 1, NULL, &again));
    assert_int_equal(again.target[AW_VPA_MEMORY], wanted.target[AW_VPA_MEMORY]);
}

static void an_old_kill_is_history(void **state)
{
    (void)state;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    aw_vpa_aggregate_init(&aggregate, &config, START_US);
    aw_vpa_add(&config, &aggregate, &container, AW_VPA_MEMORY, 5 * AW_MIB, START_US);
    struct aw_vpa_aggregate before = aggregate;
    assert_false(aw_vpa_oom(&config, &aggregate, &container, 1000 * AW_MIB, START_US - DAY_US - 1));
    assert_memory_equal(&before, &aggregate, sizeof before);
    assert_true(aw_vpa_oom(&config, &aggregate, &container, 1000 * AW_MIB, START_US - DAY_US));
}

static void silence_for_eight_days_expires(void **state)
{
    (void)state;
    struct aw_vpa_aggregate aggregate;
    struct aw_vpa_container container = {0};
    aw_vpa_aggregate_init(&aggregate, &config, START_US);
    assert_false(aw_vpa_expired(&aggregate, &config, START_US + 8 * DAY_US - 1));
    assert_true(aw_vpa_expired(&aggregate, &config, START_US + 8 * DAY_US));
    aw_vpa_add(&config, &aggregate, &container, AW_VPA_CPU, 1, START_US + DAY_US);
    assert_false(aw_vpa_expired(&aggregate, &config, START_US + 9 * DAY_US - 1));
    assert_true(aw_vpa_expired(&aggregate, &config, START_US + 9 * DAY_US));
}

static void fill(struct aw_vpa_aggregate *aggregate, uint64_t seed, int64_t start_us)
{
    struct aw_vpa_container container = {0};
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 3);
    for (int i = 0; i < 3000; i++) {
        int64_t time_us = start_us + i * 60 * SECOND_US;
        aw_vpa_add(&config, aggregate, &container, AW_VPA_CPU,
                   (int64_t)aw_rng_exponential(&rng, 500), time_us);
        aw_vpa_add(&config, aggregate, &container, AW_VPA_MEMORY,
                   (int64_t)aw_rng_exponential(&rng, 5e8), time_us);
    }
}

static void a_checkpoint_keeps_the_recommendation(void **state)
{
    (void)state;
    struct aw_vpa_aggregate aggregate, loaded;
    struct aw_vpa_checkpoint checkpoint;
    struct aw_vpa_recommendation before, after;
    struct aw_diag diag;
    aw_vpa_aggregate_init(&aggregate, &config, START_US);
    fill(&aggregate, 5, START_US);
    aw_vpa_save(&aggregate, &config, &checkpoint);
    assert_string_equal(checkpoint.version, "v3");
    assert_ok(aw_vpa_load(&loaded, &config, &checkpoint, START_US + 3 * DAY_US, NULL));
    assert_ok(aw_vpa_recommend(&config, &aggregate, 1, NULL, &before));
    assert_ok(aw_vpa_recommend(&config, &loaded, 1, NULL, &after));
    assert_memory_equal(&before, &after, sizeof before);

    struct aw_vpa_aggregate untouched = loaded;
    struct aw_vpa_checkpoint broken = checkpoint;
    memcpy(broken.version, "v2", 3);
    assert_int_equal(aw_vpa_load(&loaded, &config, &broken, 0, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "v2"));
    broken = checkpoint;
    broken.first_sample_us = broken.last_sample_us + 1;
    assert_int_equal(aw_vpa_load(&loaded, &config, &broken, 0, &diag), AW_ERR_FORMAT);
    broken = checkpoint;
    broken.last_sample_us = INT64_MAX;
    assert_int_equal(aw_vpa_load(&loaded, &config, &broken, 0, &diag), AW_ERR_FORMAT);
    broken = checkpoint;
    broken.usage[AW_VPA_MEMORY].total = NAN;
    assert_int_equal(aw_vpa_load(&loaded, &config, &broken, 0, &diag), AW_ERR_FORMAT);
    assert_memory_equal(&loaded, &untouched, sizeof loaded);
}

static void settings_that_would_break_the_order_of_bounds_are_refused(void **state)
{
    (void)state;
    for (int i = 0;; i++) {
        struct aw_vpa_config bad = config;
        switch (i) {
        case 0:
            bad.lower.percentile[AW_VPA_CPU] = 0.97;
            break;
        case 1:
            bad.upper.percentile[AW_VPA_MEMORY] = NAN;
            break;
        case 2:
            bad.target.margin = 0.5; /* above the upper bound's */
            break;
        case 3:
            bad.lower.confidence_exponent = 1;
            break;
        case 4:
            bad.upper.confidence_multiplier = -1;
            break;
        case 5:
            bad.memory_interval_us = 0;
            break;
        case 6:
            bad.memory_interval_us = INT64_MAX / 2;
            break;
        case 7:
            bad.round_to[AW_VPA_CPU] = 0;
            break;
        case 8:
            bad.oom_ratio = INFINITY;
            break;
        case 9:
            bad.unit[AW_VPA_CPU] = 0;
            break;
        default:
            return;
        }
        struct aw_diag diag = {0};
        if (aw_vpa_config_check(&bad, &diag) != AW_ERR_CONFIG || diag.text[0] == 0)
            fail_msg("case %d passed", i);
    }
}

AW_TEST_GROUP("vpa")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_those_of_the_recommender),
        cmocka_unit_test(a_recommendation_is_the_percentile_with_its_margin),
        cmocka_unit_test(bounds_enclose_the_target_whatever_was_seen),
        cmocka_unit_test(one_sample_says_nothing_about_the_bounds),
        cmocka_unit_test(the_maximum_of_a_policy_has_the_last_word),
        cmocka_unit_test(samples_out_of_order_are_refused),
        cmocka_unit_test(memory_counts_the_peak_of_each_day_once),
        cmocka_unit_test(an_interval_that_began_with_nothing_ends_with_nothing),
        cmocka_unit_test(figures_are_rounded_up_to_their_step),
        cmocka_unit_test(a_series_of_kills_does_not_bump_the_bump),
        cmocka_unit_test(an_old_kill_is_history),
        cmocka_unit_test(silence_for_eight_days_expires),
        cmocka_unit_test(a_checkpoint_keeps_the_recommendation),
        cmocka_unit_test(settings_that_would_break_the_order_of_bounds_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
