/* axes_test.c - the widest directions of clouds whose shape is known. */
#include "meta/axes.h"

#include <math.h>

#include "base/rng.h"
#include "base/testing.h"

#define DIM   7u
#define COUNT 3000u /* more than are looked at */

static float cloud[COUNT * DIM];

/* Deviations 3 and 2 along two turned directions, little elsewhere, around a far point. */
static void fill(double *first, double *second)
{
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    for (uint32_t i = 0; i < DIM; i++) {
        first[i] = i < 2 ? sqrt(0.5) : 0;
        second[i] = i == 0 ? -sqrt(0.5) : i == 1 ? sqrt(0.5) : 0;
    }
    for (uint32_t r = 0; r < COUNT; r++) {
        const double a = 3 * aw_rng_normal(&rng), b = 2 * aw_rng_normal(&rng);
        for (uint32_t i = 0; i < DIM; i++)
            cloud[r * DIM + i] =
                (float)(10 + a * first[i] + b * second[i] + 0.1 * aw_rng_normal(&rng));
    }
}

static void the_widest_two_directions_are_found(void **state)
{
    (void)state;
    double first[DIM], second[DIM], along[2] = {0}, cross = 0;
    struct aw_axes axes;
    fill(first, second);
    aw_axes_find(cloud, COUNT, DIM, &axes);
    for (uint32_t i = 0; i < DIM; i++) {
        along[0] += axes.axis[0][i] * first[i];
        along[1] += axes.axis[1][i] * second[i];
        cross += axes.axis[0][i] * axes.axis[1][i];
        assert_close(axes.mean[i], 10, 0.05);
    }
    assert_close(fabs(along[0]), 1, 0.01);
    assert_close(fabs(along[1]), 1, 0.01);
    assert_close(cross, 0, 1e-9);
    assert_close(axes.share[0], 9 / 13.07, 0.05);
    assert_close(axes.share[1], 4 / 13.07, 0.05);
    assert_true(axes.share[0] + axes.share[1] < 1);
}

static void a_point_lies_where_its_parts_say(void **state)
{
    (void)state;
    double first[DIM], second[DIM], at[2], origin[2];
    float point[DIM];
    struct aw_axes axes;
    fill(first, second);
    aw_axes_find(cloud, COUNT, DIM, &axes);
    for (uint32_t i = 0; i < DIM; i++)
        point[i] = (float)(axes.mean[i] + 5 * axes.axis[0][i] - 2 * axes.axis[1][i]);
    aw_axes_place(&axes, point, at);
    assert_close(at[0], 5, 1e-5);
    assert_close(at[1], -2, 1e-5);
    for (uint32_t i = 0; i < DIM; i++)
        point[i] = (float)axes.mean[i];
    aw_axes_place(&axes, point, origin);
    assert_close(origin[0], 0, 1e-5);
}

static void mirrored_points_do_not_flip_the_map(void **state)
{
    (void)state;
    double first[DIM], second[DIM];
    struct aw_axes axes, mirrored;
    fill(first, second);
    aw_axes_find(cloud, COUNT, DIM, &axes);
    for (uint32_t i = 0; i < COUNT * DIM; i++)
        cloud[i] = -cloud[i];
    aw_axes_find(cloud, COUNT, DIM, &mirrored);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < DIM; i++)
            assert_close(axes.axis[k][i], mirrored.axis[k][i], 1e-6);
}

static void a_cloud_without_extent_has_no_direction(void **state)
{
    (void)state;
    static const float same[] = {1, 2, 3, 1, 2, 3, 1, 2, 3};
    static const float line[] = {0, 0, 0, 1, 0, 0, 3, 0, 0};
    static const struct {
        const float *rows;
        uint32_t count;
        double share;
        const char *why;
    } cases[] = {
        {same, 0, 0, "nobody"},
        {same, 1, 0, "one point"},
        {same, 3, 0, "one point three times"},
        {line, 3, 1, "a line has one direction and no second"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct aw_axes axes;
        double at[2];
        aw_axes_find(cases[c].rows, cases[c].count, 3, &axes);
        aw_axes_place(&axes, same, at);
        if (fabs(axes.share[0] - cases[c].share) > 1e-9 || fabs(axes.share[1]) > 1e-9 ||
            !isfinite(at[0]) || !isfinite(at[1]))
            fail_msg("%s: shares %g and %g", cases[c].why, axes.share[0], axes.share[1]);
    }
}

AW_TEST_GROUP("axes")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_widest_two_directions_are_found),
        cmocka_unit_test(a_point_lies_where_its_parts_say),
        cmocka_unit_test(mirrored_points_do_not_flip_the_map),
        cmocka_unit_test(a_cloud_without_extent_has_no_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
