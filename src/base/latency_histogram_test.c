/* latency_histogram_test.c - the histogram against a sorted array that keeps everything. */
#include "base/latency_histogram.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/testing.h"

#define VALUES 20000u

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The naive twin: the ceil(q * n)-th smallest of all values. */
static int64_t naive_quantile(const int64_t *sorted, uint32_t n, double q)
{
    uint64_t rank = (uint64_t)ceil(q * n);
    return sorted[(rank < 1 ? 1 : rank) - 1];
}

static void a_quantile_is_never_below_the_true_one_and_at_most_a_128th_above(void **state)
{
    (void)state;
    static int64_t value[VALUES];
    static struct aw_latency_histogram hist;
    static const double levels[] = {0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
    /* shapes of latency: tight, spread over decades, uniform, with a far tail */
    for (uint32_t shape = 0; shape < 4; shape++) {
        struct aw_rng rng;
        aw_rng_init(&rng, 7, shape);
        aw_latency_histogram_reset(&hist);
        for (uint32_t i = 0; i < VALUES; i++) {
            const double z = aw_rng_normal(&rng);
            value[i] = shape == 0   ? (int64_t)(50 + 5 * fabs(z))
                       : shape == 1 ? (int64_t)exp(8 + 3 * z)
                       : shape == 2 ? aw_rng_below(&rng, 5000000)
                                    : (int64_t)(200 + (i % 100 ? 0 : 1e6 * fabs(z)));
            aw_latency_histogram_record(&hist, value[i]);
        }
        qsort(value, VALUES, sizeof *value, compare);
        for (uint32_t i = 0; i < sizeof levels / sizeof *levels; i++) {
            const int64_t want = naive_quantile(value, VALUES, levels[i]);
            const int64_t got = aw_latency_histogram_quantile(&hist, levels[i]);
            assert_true(got >= want);
            assert_true((double)(got - want) <= (double)want / 128);
        }
        assert_int_equal(hist.min_us, value[0]);
        assert_int_equal(hist.max_us, value[VALUES - 1]);
        assert_int_equal(aw_latency_histogram_quantile(&hist, 1), hist.max_us);
    }
}

static void every_power_of_two_and_its_neighbours_find_their_bucket(void **state)
{
    (void)state;
    static struct aw_latency_histogram hist;
    for (uint32_t bit = 0; bit < AW_LATENCY_HISTOGRAM_BITS; bit++) {
        for (int64_t near = -1; near <= 1; near++) {
            const int64_t value = ((int64_t)1 << bit) + near;
            aw_latency_histogram_reset(&hist);
            aw_latency_histogram_record(&hist, value);
            assert_int_equal(aw_latency_histogram_quantile(&hist, 0.5), value < 0 ? 0 : value);
            aw_latency_histogram_record(&hist,
                                        AW_LATENCY_HISTOGRAM_US_MAX); /* now the upper edge shows */
            const int64_t edge = aw_latency_histogram_quantile(&hist, 0.5);
            assert_true(edge >= value && edge <= value + value / 128);
        }
    }
}

static void what_is_above_a_value_is_counted_to_within_its_bucket(void **state)
{
    (void)state;
    static struct aw_latency_histogram hist;
    aw_latency_histogram_reset(&hist);
    for (int64_t us = 1; us <= 100000; us++)
        aw_latency_histogram_record(&hist, us);
    assert_int_equal(aw_latency_histogram_above(&hist, -1), 100000);
    assert_int_equal(aw_latency_histogram_above(&hist, 0), 100000);
    assert_int_equal(aw_latency_histogram_above(&hist, 200), 99800); /* a bucket of its own */
    for (int64_t us = 256; us < 100000; us += 777) {
        const int64_t above = (int64_t)aw_latency_histogram_above(&hist, us);
        assert_true(above <= 100000 - us && above >= 100000 - us - us / 128);
    }
    assert_int_equal(aw_latency_histogram_above(&hist, 100000), 0);
    assert_int_equal(aw_latency_histogram_above(&hist, INT64_MAX), 0);
}

static void what_is_out_of_range_counts_at_its_end(void **state)
{
    (void)state;
    static struct aw_latency_histogram hist;
    aw_latency_histogram_record(&hist, -5);
    aw_latency_histogram_record(&hist, INT64_MAX);
    assert_int_equal(hist.count, 2);
    assert_int_equal(hist.min_us, 0);
    assert_int_equal(hist.max_us, AW_LATENCY_HISTOGRAM_US_MAX);
    assert_int_equal(aw_latency_histogram_quantile(&hist, 0.5), 0);
}

static void merged_histograms_are_as_if_recorded_in_one(void **state)
{
    (void)state;
    static struct aw_latency_histogram one, part[3], merged;
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    aw_latency_histogram_reset(&one);
    for (uint32_t i = 0; i < 3000; i++) {
        const int64_t value = (int64_t)exp(aw_rng_uniform(&rng, 0, 20));
        aw_latency_histogram_record(&one, value);
        aw_latency_histogram_record(&part[i % 3], value);
    }
    for (uint32_t i = 0; i < 3; i++)
        aw_latency_histogram_merge(&merged, &part[i]);
    assert_close(merged.sum_us, one.sum_us, 1e-9);
    merged.sum_us = one.sum_us; /* added in another order */
    assert_memory_equal(&merged, &one, sizeof one);
}

static void an_empty_one_says_zero_and_merges_to_nothing(void **state)
{
    (void)state;
    static struct aw_latency_histogram empty, hist;
    assert_int_equal(aw_latency_histogram_quantile(&empty, 0.99), 0);
    assert_true(aw_latency_histogram_mean(&empty) == 0);
    aw_latency_histogram_record(&hist, 17);
    aw_latency_histogram_merge(&hist, &empty);
    assert_int_equal(hist.min_us, 17);
    assert_int_equal(hist.count, 1);
    assert_true(aw_latency_histogram_mean(&hist) == 17);
}

static void an_estimate_leans_neither_way(void **state)
{
    (void)state;
    static struct aw_latency_histogram hist;
    assert_true(isnan(aw_latency_histogram_estimate(&hist, 0.5)));
    for (int64_t i = 1; i <= 10000; i++)
        aw_latency_histogram_record(&hist, 100 * i);
    assert_close(aw_latency_histogram_estimate(&hist, 0.5), 500000, 0.001);
    assert_close(aw_latency_histogram_estimate(&hist, 0.99), 990000, 0.001);
    aw_latency_histogram_reset(&hist);
    aw_latency_histogram_record(&hist, 77);
    assert_true(aw_latency_histogram_estimate(&hist, 0.5) == 77);
}

static void a_window_is_the_difference_of_two_readings(void **state)
{
    (void)state;
    static int64_t value[VALUES];
    static struct aw_latency_histogram hist, before, window;
    static const double levels[] = {0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999};
    struct aw_rng rng;
    double sum = 0;
    aw_rng_init(&rng, 5, 0);
    aw_latency_histogram_record(&hist, 77); /* of an earlier window */
    aw_latency_histogram_read(&hist, &before);
    for (uint32_t i = 0; i < VALUES; i++) {
        value[i] = (int64_t)exp(aw_rng_uniform(&rng, 0, 16));
        sum += (double)value[i];
        aw_latency_histogram_record(&hist, value[i]);
    }
    aw_latency_histogram_read(&hist, &window);
    assert_memory_equal(&window, &hist, sizeof hist);
    aw_latency_histogram_since(&window, &before);
    assert_int_equal(window.count, VALUES);
    assert_close(aw_latency_histogram_mean(&window), sum / VALUES, 1e-9);
    qsort(value, VALUES, sizeof *value, compare);
    for (uint32_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const double want = (double)naive_quantile(value, VALUES, levels[i]);
        const double got = aw_latency_histogram_estimate(&window, levels[i]);
        assert_true(fabs(got - want) <= want / 128);
        assert_true((double)aw_latency_histogram_quantile(&window, levels[i]) >= want);
    }
    before = window;
    aw_latency_histogram_since(&window, &before);
    assert_true(isnan(aw_latency_histogram_estimate(&window, 0.5)));
}

/* What the other thread has seen last never goes back, and is never more than was recorded. */
static void *watch(void *arg)
{
    static struct aw_latency_histogram seen;
    uint64_t last = 0;
    do {
        aw_latency_histogram_read(arg, &seen);
        assert_true(seen.count >= last && seen.count <= VALUES);
        assert_true(aw_latency_histogram_quantile(&seen, 1) < VALUES);
        last = seen.count;
    } while (last < VALUES);
    return NULL;
}

static void another_thread_may_read_it_meanwhile(void **state)
{
    (void)state;
    static struct aw_latency_histogram hist;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, watch, &hist), 0);
    for (int64_t i = 0; i < VALUES; i++)
        aw_latency_histogram_record(&hist, i);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

AW_TEST_GROUP("latency-histogram")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quantile_is_never_below_the_true_one_and_at_most_a_128th_above),
        cmocka_unit_test(every_power_of_two_and_its_neighbours_find_their_bucket),
        cmocka_unit_test(what_is_above_a_value_is_counted_to_within_its_bucket),
        cmocka_unit_test(what_is_out_of_range_counts_at_its_end),
        cmocka_unit_test(merged_histograms_are_as_if_recorded_in_one),
        cmocka_unit_test(an_empty_one_says_zero_and_merges_to_nothing),
        cmocka_unit_test(an_estimate_leans_neither_way),
        cmocka_unit_test(a_window_is_the_difference_of_two_readings),
        cmocka_unit_test(another_thread_may_read_it_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
