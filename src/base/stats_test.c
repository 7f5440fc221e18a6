#include "base/stats.h"
#include "base/testing.h"

#include <math.h>
#include <string.h>

/* Values worked out by hand, with the definitions of numpy (std with ddof = 1) and of scipy's
 * trim_mean(x, 0.25) for the interquartile mean. */
static const struct {
    const char *why;
    size_t n;
    double x[8];
    double mean, std, min, max, p25, median, p75, iqm;
} sets[] = {
    {"one number is all of its own statistics", 1, {3}, 3, 0, 3, 3, 3, 3, 3, 3},
    {"two numbers: quantiles lie between", 2, {4, 2}, 3, 1.4142135623730951, 2, 4, 2.5, 3, 3.5, 3},
    {"an outlier moves the mean, not the trimmed mean",
     4,
     {1, 2, 3, 100},
     26.5,
     49.00680224893955,
     1,
     100,
     1.75,
     2.5,
     27.25,
     2.5},
    {"five numbers lose one at each end",
     5,
     {5, 1, 4, 2, 30},
     8.4,
     12.177848742696716,
     1,
     30,
     2,
     4,
     5,
     11.0 / 3},
    {"eight with ties", 8, {2, 2, 2, 8, -4, 6, 6, 10}, 4, 4.4077853201547175, -4, 10, 2, 4, 6.5, 4},
};

static void sets_have_the_statistics_worked_out_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        double scratch[8], before[8];
        memcpy(before, sets[i].x, sizeof before);
        struct aw_stats got = aw_stats_of(sets[i].x, sets[i].n, scratch);
        assert_memory_equal(before, sets[i].x, sizeof before);
        assert_int_equal(got.count, sets[i].n);
        assert_close(got.mean, sets[i].mean, 1e-14);
        assert_close(got.std, sets[i].std, 1e-14);
        assert_close(got.min, sets[i].min, 0);
        assert_close(got.max, sets[i].max, 0);
        assert_close(got.p25, sets[i].p25, 1e-14);
        assert_close(got.median, sets[i].median, 1e-14);
        assert_close(got.p75, sets[i].p75, 1e-14);
        assert_close(got.iqm, sets[i].iqm, 1e-14);
        assert_close(aw_stats_min(sets[i].x, sets[i].n), sets[i].min, 0);
        assert_close(aw_stats_max(sets[i].x, sets[i].n), sets[i].max, 0);
        assert_close(aw_stats_median(scratch, sets[i].n), sets[i].median, 1e-14);
        assert_close(aw_stats_quantile(scratch, sets[i].n, 0), sets[i].min, 0);
        assert_close(aw_stats_quantile(scratch, sets[i].n, 1), sets[i].max, 0);
    }
    const double ramp[] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100};
    assert_close(aw_stats_quantile(ramp, 10, 0.99), 99.1, 1e-14);
    assert_close(aw_stats_quantile(ramp, 10, 0.05), 14.5, 1e-14);
}

enum { MANY = 1000 };

static void sorting_orders_every_size(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    for (size_t n = 0; n < 70; n++) {
        double x[70], total = 0, sorted_total = 0;
        for (size_t i = 0; i < n; i++)
            total += x[i] = aw_rng_below(&rng, 20); /* few values, so that many are equal */
        aw_stats_sort(x, n);
        for (size_t i = 0; i < n; i++) {
            assert_true(i == 0 || x[i - 1] <= x[i]);
            sorted_total += x[i];
        }
        assert_true(total == sorted_total);
    }
}

static void a_running_variance_survives_a_large_offset(void **state)
{
    (void)state;
    /* Squares minus squared mean would lose every digit here: 1e9 squared is beyond 2^53. */
    struct aw_running running = {0};
    const double x[] = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
    assert_close(aw_running_std(&running), 0, 0);
    for (size_t i = 0; i < 4; i++)
        aw_running_push(&running, x[i]);
    assert_close(running.mean, 1e9 + 10, 0);
    assert_close(aw_running_std(&running), sqrt(30), 1e-12);
    assert_close(aw_running_std(&running), aw_stats_std(x, 4), 1e-12);
}

static void a_bootstrap_interval_is_repeatable_and_covers_as_often_as_it_says(void **state)
{
    (void)state;
    enum { N = 40, B = 400, TRIALS = 300 };
    double x[N], scratch[N + B];
    struct aw_rng rng, again;
    aw_rng_init(&rng, 4, 0);
    int mean_covers = 0;
    double width = 0;
    for (int t = 0; t < TRIALS; t++) {
        for (size_t i = 0; i < N; i++)
            x[i] = 7 + 2 * aw_rng_normal(&rng);
        again = rng;
        struct aw_interval mean = aw_stats_bootstrap_mean(x, N, 0.9, B, &rng, scratch);
        struct aw_interval same = aw_stats_bootstrap_mean(x, N, 0.9, B, &again, scratch);
        assert_memory_equal(&mean, &same, sizeof mean);
        mean_covers += mean.low <= 7 && 7 <= mean.high;
        width += (mean.high - mean.low) / TRIALS;
    }
    /* 90 % of 300, with room for four standard errors and the bootstrap's known shortfall */
    assert_in_range(mean_covers, 243, 291);
    /* 2 * 1.645 * 2 / sqrt(40) */
    assert_close(width, 1.040, 0.05);
}

AW_TEST_GROUP("stats")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_have_the_statistics_worked_out_by_hand),
        cmocka_unit_test(sorting_orders_every_size),
        cmocka_unit_test(a_running_variance_survives_a_large_offset),
        cmocka_unit_test(a_bootstrap_interval_is_repeatable_and_covers_as_often_as_it_says),
    };
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
