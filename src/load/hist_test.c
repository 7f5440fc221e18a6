/* hist_test.c - the histogram against a sorted array that keeps everything. */
#include "load/hist.h"

#include <math.h>
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
    static struct aw_hist hist;
    static const double levels[] = {0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
    /* shapes of latency: tight, spread over decades, uniform, with a far tail */
    for (uint32_t shape = 0; shape < 4; shape++) {
        struct aw_rng rng;
        aw_rng_init(&rng, 7, shape);
        aw_hist_reset(&hist);
        for (uint32_t i = 0; i < VALUES; i++) {
            const double z = aw_rng_normal(&rng);
            value[i] = shape == 0   ? (int64_t)(50 + 5 * fabs(z))
                       : shape == 1 ? (int64_t)exp(8 + 3 * z)
                       : shape == 2 ? aw_rng_below(&rng, 5000000)
                                    : (int64_t)(200 + (i % 100 ? 0 : 1e6 * fabs(z)));
            aw_hist_record(&hist, value[i]);
        }
        qsort(value, VALUES, sizeof *value, compare);
        for (uint32_t i = 0; i < sizeof levels / sizeof *levels; i++) {
            const int64_t want = naive_quantile(value, VALUES, levels[i]);
            const int64_t got = aw_hist_quantile(&hist, levels[i]);
            assert_true(got >= want);
            assert_true((double)(got - want) <= (double)want / 128);
        }
        assert_int_equal(hist.min_us, value[0]);
        assert_int_equal(hist.max_us, value[VALUES - 1]);
        assert_int_equal(aw_hist_quantile(&hist, 1), hist.max_us);
    }
}

static void every_power_of_two_and_its_neighbours_find_their_bucket(void **state)
{
    (void)state;
    static struct aw_hist hist;
    for (uint32_t bit = 0; bit < AW_HIST_BITS; bit++) {
        for (int64_t near = -1; near <= 1; near++) {
            const int64_t value = ((int64_t)1 << bit) + near;
            aw_hist_reset(&hist);
            aw_hist_record(&hist, value);
            assert_int_equal(aw_hist_quantile(&hist, 0.5), value < 0 ? 0 : value);
            aw_hist_record(&hist, AW_HIST_US_MAX); /* now the upper edge shows */
            const int64_t edge = aw_hist_quantile(&hist, 0.5);
            assert_true(edge >= value && edge <= value + value / 128);
        }
    }
}

static void what_is_above_a_value_is_counted_to_within_its_bucket(void **state)
{
    (void)state;
    static struct aw_hist hist;
    aw_hist_reset(&hist);
    for (int64_t us = 1; us <= 100000; us++)
        aw_hist_record(&hist, us);
    assert_int_equal(aw_hist_above(&hist, -1), 100000);
    assert_int_equal(aw_hist_above(&hist, 0), 100000);
    assert_int_equal(aw_hist_above(&hist, 200), 99800); /* a bucket of its own */
    for (int64_t us = 256; us < 100000; us += 777) {
        const int64_t above = (int64_t)aw_hist_above(&hist, us);
        assert_true(above <= 100000 - us && above >= 100000 - us - us / 128);
    }
    assert_int_equal(aw_hist_above(&hist, 100000), 0);
    assert_int_equal(aw_hist_above(&hist, INT64_MAX), 0);
}

static void what_is_out_of_range_counts_at_its_end(void **state)
{
    (void)state;
    static struct aw_hist hist;
    aw_hist_record(&hist, -5);
    aw_hist_record(&hist, INT64_MAX);
    assert_int_equal(hist.count, 2);
    assert_int_equal(hist.min_us, 0);
    assert_int_equal(hist.max_us, AW_HIST_US_MAX);
    assert_int_equal(aw_hist_quantile(&hist, 0.5), 0);
}

static void merged_histograms_are_as_if_recorded_in_one(void **state)
{
    (void)state;
    static struct aw_hist one, part[3], merged;
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    aw_hist_reset(&one);
    for (uint32_t i = 0; i < 3000; i++) {
        const int64_t value = (int64_t)exp(aw_rng_uniform(&rng, 0, 20));
        aw_hist_record(&one, value);
        aw_hist_record(&part[i % 3], value);
    }
    for (uint32_t i = 0; i < 3; i++)
        aw_hist_merge(&merged, &part[i]);
    assert_close(merged.sum_us, one.sum_us, 1e-9);
    merged.sum_us = one.sum_us; /* added in another order */
    assert_memory_equal(&merged, &one, sizeof one);
}

static void an_empty_one_says_zero_and_merges_to_nothing(void **state)
{
    (void)state;
    static struct aw_hist empty, hist;
    assert_int_equal(aw_hist_quantile(&empty, 0.99), 0);
    assert_true(aw_hist_mean(&empty) == 0);
    aw_hist_record(&hist, 17);
    aw_hist_merge(&hist, &empty);
    assert_int_equal(hist.min_us, 17);
    assert_int_equal(hist.count, 1);
    assert_true(aw_hist_mean(&hist) == 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quantile_is_never_below_the_true_one_and_at_most_a_128th_above),
        cmocka_unit_test(every_power_of_two_and_its_neighbours_find_their_bucket),
        cmocka_unit_test(what_is_above_a_value_is_counted_to_within_its_bucket),
        cmocka_unit_test(what_is_out_of_range_counts_at_its_end),
        cmocka_unit_test(merged_histograms_are_as_if_recorded_in_one),
        cmocka_unit_test(an_empty_one_says_zero_and_merges_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
