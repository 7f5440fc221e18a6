#include "fallback/histogram.h"

#include "base/rng.h"
#include "base/testing.h"

#include <math.h>
#include <string.h>

#define HOUR_US ((int64_t)3600 * 1000000)

static struct aw_histogram_shape linear(int64_t half_life_us)
{
    struct aw_histogram_shape shape;
    assert_ok(aw_histogram_shape_linear(&shape, 10, 1, 1e-15, half_life_us, NULL));
    return shape;
}

static struct aw_histogram_shape cpu(void)
{
    struct aw_histogram_shape shape;
    assert_ok(aw_histogram_shape_exponential(&shape, 1000, 0.01, 1.05, 1e-4, 24 * HOUR_US, NULL));
    return shape;
}

static void every_bucket_holds_its_own_start_and_not_its_end(void **state)
{
    (void)state;
    struct aw_histogram_shape shape = cpu();
    assert_int_equal(shape.bucket_count, 176);
    for (uint32_t i = 0; i < shape.bucket_count; i++) {
        assert_int_equal(aw_histogram_find(&shape, shape.start[i]), i);
        if (i + 1 < shape.bucket_count)
            assert_int_equal(aw_histogram_find(&shape, nextafter(shape.start[i + 1], 0)), i);
    }
    assert_int_equal(aw_histogram_find(&shape, -1), 0);
    assert_int_equal(aw_histogram_find(&shape, 1e300), 175);
    assert_int_equal(aw_histogram_find(&shape, INFINITY), 175);
    assert_int_equal(aw_histogram_find(&shape, -INFINITY), 0);
    assert_int_equal(aw_histogram_find(&shape, NAN), 175);
}

static void impossible_shapes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        double max, first, ratio, epsilon;
        int64_t half_life_us;
    } cases[] = {
        {"no range", 0, 1, 1.1, 1e-4, 0},
        {"infinite range", INFINITY, 1, 1.1, 1e-4, 0},
        {"no first bucket", 10, 0, 1.1, 1e-4, 0},
        {"NaN first bucket", 10, NAN, 1.1, 1e-4, 0},
        {"a ratio of 1 never ends", 10, 1, 1, 1e-4, 0},
        {"no epsilon", 10, 1, 1.1, 0, 0},
        {"a negative half-life", 10, 1, 1.1, 1e-4, -1},
        {"too many buckets", 1e12, 1, 1.01, 1e-4, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_histogram_shape shape = {.bucket_count = 7};
        struct aw_diag diag;
        enum aw_err err =
            aw_histogram_shape_exponential(&shape, cases[i].max, cases[i].first, cases[i].ratio,
                                           cases[i].epsilon, cases[i].half_life_us, &diag);
        if (err != AW_ERR_RANGE || shape.bucket_count != 7 || diag.text[0] == 0)
            fail_msg("%s: not refused, or not said, or written to", cases[i].why);
    }
    struct aw_histogram_shape shape;
    assert_int_equal(aw_histogram_shape_linear(&shape, 1000, 1, 1e-4, 0, NULL), AW_ERR_RANGE);
}

#define SAMPLES_MAX 60

/* The twin keeps every sample and weighs all of them anew for each question. */
struct twin {
    struct {
        double value, weight;
        int64_t time_us;
    } samples[SAMPLES_MAX];
    int count;
};

static double twin_percentile(const struct twin *twin, const struct aw_histogram_shape *shape,
                              double p)
{
    int64_t last_us = INT64_MIN;
    for (int i = 0; i < twin->count; i++)
        last_us = twin->samples[i].time_us > last_us ? twin->samples[i].time_us : last_us;
    double total = 0, partial = 0;
    double by_bucket[AW_HISTOGRAM_BUCKETS_MAX] = {0};
    for (int i = 0; i < twin->count; i++) {
        double age = (double)(last_us - twin->samples[i].time_us) / (double)shape->half_life_us;
        double weight = twin->samples[i].weight / pow(2, age);
        uint32_t bucket = 0;
        while (bucket + 1 < shape->bucket_count &&
               twin->samples[i].value >= shape->start[bucket + 1])
            bucket++;
        by_bucket[bucket] += weight;
        total += weight;
    }
    for (uint32_t b = 0; b < shape->bucket_count; b++) {
        partial += by_bucket[b];
        if (by_bucket[b] > 0 && partial >= p * total)
            return b + 1 < shape->bucket_count ? shape->start[b + 1] : shape->start[b];
    }
    return -1;
}

static void percentiles_equal_those_of_all_samples_weighed_anew(void **state)
{
    (void)state;
    struct aw_histogram_shape shape = cpu();
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct aw_rng rng;
        struct aw_histogram histogram;
        struct twin twin = {0};
        int64_t time_us = 1700000000 * (int64_t)1000000;
        aw_rng_init(&rng, seed, 0);
        aw_histogram_reset(&histogram, &shape);
        while (twin.count < SAMPLES_MAX) {
            double value = 0.02 * exp(aw_rng_double(&rng) * 6), weight = 0.1;
            time_us += (int64_t)aw_rng_below(&rng, 7200) * 1000000;
            aw_histogram_add(&histogram, &shape, value, weight, time_us);
            twin.samples[twin.count].value = value;
            twin.samples[twin.count].weight = weight;
            twin.samples[twin.count++].time_us = time_us;
            double p = aw_rng_double(&rng);
            double found = aw_histogram_percentile(&histogram, &shape, p);
            double expected = twin_percentile(&twin, &shape, p);
            /* one bit more or less in a sum may tip a threshold that it meets exactly */
            if (found != expected && twin_percentile(&twin, &shape, p * (1 + 1e-12)) != found &&
                twin_percentile(&twin, &shape, p * (1 - 1e-12)) != found)
                fail_msg("seed %d, %d samples, p %g: %g, the twin %g", (int)seed, twin.count, p,
                         found, expected);
        }
    }
}

static void a_percentile_never_falls_as_p_grows(void **state)
{
    (void)state;
    struct aw_histogram_shape shape = cpu();
    struct aw_histogram histogram;
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    aw_histogram_reset(&histogram, &shape);
    for (int i = 0; i < 500; i++) {
        aw_histogram_add(&histogram, &shape, aw_rng_exponential(&rng, 2), aw_rng_double(&rng),
                         i * HOUR_US);
        double last = -1;
        for (double p = -0.1; p < 1.2; p += 0.037) {
            double value = aw_histogram_percentile(&histogram, &shape, p);
            assert_true(value >= last);
            last = value;
        }
    }
}

static void what_was_added_can_be_taken_away_without_a_trace(void **state)
{
    (void)state;
    struct aw_histogram_shape shape = cpu();
    struct aw_histogram histogram;
    aw_histogram_reset(&histogram, &shape);
    assert_true(aw_histogram_empty(&histogram, &shape));
    aw_histogram_add(&histogram, &shape, 5, 1, 24 * HOUR_US);
    aw_histogram_add(&histogram, &shape, 1, 1, 24 * HOUR_US);
    assert_false(aw_histogram_empty(&histogram, &shape));
    double top = aw_histogram_percentile(&histogram, &shape, 1);
    assert_true(top > 5 && top < 5 * 1.06);
    aw_histogram_subtract(&histogram, &shape, 5, 1, 24 * HOUR_US);
    top = aw_histogram_percentile(&histogram, &shape, 1);
    assert_true(top > 1 && top < 1.06);
    aw_histogram_subtract(&histogram, &shape, 1, 99, 24 * HOUR_US); /* more than there is */
    assert_true(aw_histogram_empty(&histogram, &shape));
    assert_close(histogram.total, 0, 0);
    assert_close(aw_histogram_percentile(&histogram, &shape, 0.5), 0, 0);
}

static void a_century_of_half_lives_changes_no_answer(void **state)
{
    (void)state;
    struct aw_histogram_shape shape = linear(HOUR_US);
    struct aw_histogram histogram;
    aw_histogram_reset(&histogram, &shape);
    aw_histogram_add(&histogram, &shape, 2, 1, 0);
    /* one step below the limit the old sample is light, one above it has left */
    aw_histogram_add(&histogram, &shape, 1, 1, 40 * HOUR_US);
    assert_close(aw_histogram_percentile(&histogram, &shape, 1), 3, 0);
    int64_t reference_us = histogram.reference_us;
    aw_histogram_add(&histogram, &shape, 1, 1, 101 * HOUR_US);
    assert_true(histogram.reference_us > reference_us);
    assert_int_equal(histogram.reference_us % HOUR_US, 0);
    assert_close(aw_histogram_percentile(&histogram, &shape, 1), 2, 0);
    /* and weights stay finite for ten thousand years */
    for (int64_t year = 1; year < 10000; year += 7)
        aw_histogram_add(&histogram, &shape, 4, 1, year * 8766 * HOUR_US);
    assert_true(isfinite(histogram.total) && histogram.total > 0);
    assert_close(aw_histogram_percentile(&histogram, &shape, 0.5), 5, 0);
}

static void a_reference_is_the_nearest_multiple_of_the_half_life_since_year_one(void **state)
{
    (void)state;
    const int64_t year_one_us = -62135596800 * (int64_t)1000000;
    static const struct {
        const char *why;
        int64_t half_life_us, time_us, expected_us;
    } cases[] = {
        {"down", HOUR_US, 10 * HOUR_US + HOUR_US / 2 - 1, 10 * HOUR_US},
        {"halves go up", HOUR_US, 10 * HOUR_US + HOUR_US / 2, 11 * HOUR_US},
        /* 62135596800 s are 2465698 times 7 h and 7200 s over, so 1970 lies 2 h behind a multiple
         */
        {"not a multiple since 1970", 7 * HOUR_US, 0, -2 * HOUR_US},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_histogram_shape shape = linear(cases[i].half_life_us);
        struct aw_histogram histogram;
        aw_histogram_reset(&histogram, &shape);
        aw_histogram_add(&histogram, &shape, 1, 1, cases[i].time_us);
        if (histogram.reference_us != cases[i].expected_us ||
            (histogram.reference_us - year_one_us) % cases[i].half_life_us != 0)
            fail_msg("%s: %lld", cases[i].why, (long long)histogram.reference_us);
    }
}

static void a_checkpoint_gives_the_same_percentiles_back(void **state)
{
    (void)state;
    struct aw_histogram_shape shape = cpu();
    struct aw_histogram histogram, loaded;
    struct aw_histogram_checkpoint checkpoint;
    struct aw_rng rng;
    aw_rng_init(&rng, 9, 0);
    aw_histogram_reset(&histogram, &shape);
    for (int i = 0; i < 2000; i++)
        aw_histogram_add(&histogram, &shape, aw_rng_exponential(&rng, 1), 0.1, i * HOUR_US / 60);
    aw_histogram_save(&histogram, &shape, &checkpoint);
    assert_ok(aw_histogram_load(&loaded, &shape, &checkpoint, NULL));
    assert_close(loaded.total, histogram.total, 1e-12);
    for (double p = 0.1; p < 0.99; p += 0.1) {
        double a = aw_histogram_percentile(&histogram, &shape, p);
        double b = aw_histogram_percentile(&loaded, &shape, p);
        assert_true(fabs(a - b) <= 0.051 * a); /* a bucket at most: weights were rounded */
    }
    /* saving what was loaded changes nothing more */
    struct aw_histogram_checkpoint again;
    aw_histogram_save(&loaded, &shape, &again);
    assert_int_equal(again.count, checkpoint.count);
    for (uint32_t i = 0; i < again.count; i++)
        assert_int_equal(again.items[i].weight, checkpoint.items[i].weight);

    aw_histogram_reset(&histogram, &shape);
    aw_histogram_save(&histogram, &shape, &checkpoint);
    assert_int_equal(checkpoint.count, 0);
    assert_ok(aw_histogram_load(&loaded, &shape, &checkpoint, NULL));
    assert_true(aw_histogram_empty(&loaded, &shape));
}

static void a_broken_checkpoint_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct aw_histogram_shape shape = linear(0);
    static const struct {
        const char *why;
        struct aw_histogram_checkpoint checkpoint;
    } cases[] = {
        {"negative total", {.total = -1}},
        {"total not a number", {.total = NAN}},
        {"infinite total", {.total = INFINITY}},
        {"a bucket the shape lacks", {.total = 1, .count = 1, .items = {{11, 1}}}},
        {"a bucket twice", {.total = 1, .count = 2, .items = {{3, 1}, {3, 1}}}},
        {"no weight", {.total = 1, .count = 1, .items = {{3, 0}}}},
        {"too much weight", {.total = 1, .count = 1, .items = {{3, 10001}}}},
        {"more entries than buckets", {.total = 1, .count = 4000000000}},
        {"a time before time", {.total = 1, .reference_us = INT64_MIN}},
        {"a time after time", {.total = 1, .reference_us = INT64_MAX}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_histogram before, histogram;
        struct aw_diag diag = {0};
        memset(&histogram, 0x5a, sizeof histogram);
        before = histogram;
        enum aw_err err = aw_histogram_load(&histogram, &shape, &cases[i].checkpoint, &diag);
        if (err != AW_ERR_FORMAT || diag.text[0] == 0 ||
            memcmp(&histogram, &before, sizeof before) != 0)
            fail_msg("%s: not refused, not said, or written to", cases[i].why);
    }
}

AW_TEST_GROUP("histogram")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bucket_holds_its_own_start_and_not_its_end),
        cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(percentiles_equal_those_of_all_samples_weighed_anew),
        cmocka_unit_test(a_percentile_never_falls_as_p_grows),
        cmocka_unit_test(what_was_added_can_be_taken_away_without_a_trace),
        cmocka_unit_test(a_century_of_half_lives_changes_no_answer),
        cmocka_unit_test(a_reference_is_the_nearest_multiple_of_the_half_life_since_year_one),
        cmocka_unit_test(a_checkpoint_gives_the_same_percentiles_back),
        cmocka_unit_test(a_broken_checkpoint_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
