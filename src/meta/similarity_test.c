#include "meta/similarity.h"

#include <math.h>

#include "base/rng.h"
#include "base/testing.h"

static void it_is_the_formula_at_the_corners(void **state)
{
    (void)state;
    const float a[] = {3, 4}, same[] = {3, 4}, twice[] = {6, 8}, across[] = {-4, 3},
                against[] = {-3, -4}, zero[] = {0, 0};
    assert_close(aw_similarity(a, same, 2), 1, 1e-12);
    assert_close(aw_similarity(a, twice, 2), (1 - 5.0 / 15 + 1) / 2, 1e-12);
    assert_close(aw_similarity(a, across, 2), (1 - sqrt(50) / 10 + 0) / 2, 1e-12);
    assert_close(aw_similarity(a, against, 2), (1 - 1 - 1) / 2.0, 1e-12);
    assert_close(aw_similarity(zero, zero, 2), 1, 1e-12);
    assert_close(aw_similarity(a, zero, 2), 0, 1e-12);
}

static void it_is_symmetric_and_within_its_range(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    for (uint32_t n = 0; n < 1000; n++) {
        float a[8], b[8];
        for (uint32_t i = 0; i < 8; i++) {
            a[i] = (float)aw_rng_normal(&rng);
            b[i] = (float)aw_rng_normal(&rng);
        }
        const double s = aw_similarity(a, b, 8);
        assert_true(s >= -1 && s <= 1);
        assert_close(s, aw_similarity(b, a, 8), 1e-12);
    }
}

static void the_nearest_come_first(void **state)
{
    (void)state;
    const float known[] = {1, 0, 0, 1, 1, 0.1f, -1, 0, 2, 0};
    const float a[] = {1, 0};
    uint32_t index[8];
    double similarity[8];
    assert_int_equal(aw_similarity_nearest(a, known, 5, 2, 3, index, similarity), 3);
    assert_int_equal(index[0], 0);
    assert_int_equal(index[1], 2);
    assert_int_equal(index[2], 4);
    assert_true(similarity[0] >= similarity[1] && similarity[1] >= similarity[2]);
    assert_int_equal(aw_similarity_nearest(a, known, 5, 2, 8, index, NULL), 5);
    assert_int_equal(aw_similarity_nearest(a, known, 0, 2, 8, index, NULL), 0);
}

static void a_stranger_is_told_by_its_quantile(void **state)
{
    (void)state;
    const double known[] = {0.9, 0.8, 0.95, 0.7};
    assert_close(aw_similarity_quantile(0.99, known, 4), 1, 1e-12);
    assert_close(aw_similarity_quantile(0.1, known, 4), 0, 1e-12);
    assert_close(aw_similarity_quantile(0.85, known, 4), 0.5, 1e-12);
    assert_true(isnan(aw_similarity_quantile(0.5, known, 0)));
}

AW_TEST_GROUP("similarity")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_formula_at_the_corners),
        cmocka_unit_test(it_is_symmetric_and_within_its_range),
        cmocka_unit_test(the_nearest_come_first),
        cmocka_unit_test(a_stranger_is_told_by_its_quantile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
