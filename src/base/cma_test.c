/* cma_test.c - CMA-ES on functions whose lowest point is known. */
#include "base/cma.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"

static double bowl(const double *x, uint32_t n) /* lowest at 0.3 */
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (x[i] - 0.3) * (x[i] - 0.3);
    return sum;
}

static double ellipse(const double *x, uint32_t n) /* axes differ by a thousand, and are turned */
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double turned = (x[i] - 0.6) + 0.5 * (x[(i + 1) % n] - 0.6);
        sum += pow(1000, (double)i / (n - 1)) * turned * turned;
    }
    return sum;
}

static double valley(const double *x, uint32_t n) /* Rosenbrock's, lowest at 0.75 */
{
    double sum = 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        const double a = 4 * x[i] - 2, b = 4 * x[i + 1] - 2;
        sum += 100 * (b - a * a) * (b - a * a) + (1 - a) * (1 - a);
    }
    return sum;
}

static double corner(const double *x, uint32_t n) /* lowest at the wall */
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static void the_lowest_point_is_found(void **state)
{
    (void)state;
    static const struct {
        double (*f)(const double *x, uint32_t n);
        uint32_t dim, generations;
        double below;
        const char *why;
    } table[] = {
        {bowl, 9, 120, 1e-8, "round"},
        {ellipse, 6, 300, 1e-6, "long and turned"},
        {valley, 4, 500, 1e-4, "bent"},
        {corner, 5, 200, 1e-2, "at the wall"},
        {bowl, 1, 60, 1e-8, "one number"},
        {bowl, AW_CMA_DIM_MAX, 250, 1e-6, "as many as there may be"},
    };
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        struct aw_cma cma;
        double start[AW_CMA_DIM_MAX];
        for (uint32_t i = 0; i < table[t].dim; i++)
            start[i] = 0.9;
        aw_cma_init(&cma, table[t].dim, start, 0.2, 12, 1);
        for (uint32_t g = 0; g < table[t].generations; g++) {
            aw_cma_ask(&cma);
            double value[AW_CMA_DRAWS_MAX];
            for (uint32_t k = 0; k < cma.draws; k++) {
                for (uint32_t i = 0; i < cma.dim; i++)
                    assert_true(cma.x[k][i] >= 0 && cma.x[k][i] <= 1);
                value[k] = table[t].f(cma.x[k], cma.dim);
            }
            aw_cma_tell(&cma, value);
        }
        if (!(cma.best_value < table[t].below))
            fail_msg("%s: %g is not below %g", table[t].why, cma.best_value, table[t].below);
        assert_true(table[t].f(cma.best, cma.dim) == cma.best_value);
    }
}

static void noise_is_borne(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 5, 0);
    struct aw_cma cma;
    const double start[6] = {0.9, 0.1, 0.9, 0.1, 0.9, 0.1};
    aw_cma_init(&cma, 6, start, 0.2, 16, 2);
    for (uint32_t g = 0; g < 80; g++) {
        aw_cma_ask(&cma);
        double value[AW_CMA_DRAWS_MAX];
        for (uint32_t k = 0; k < cma.draws; k++)
            value[k] = bowl(cma.x[k], 6) + 0.01 * aw_rng_normal(&rng);
        aw_cma_tell(&cma, value);
    }
    assert_true(bowl(cma.mean, 6) < 0.01);
}

static void same_seed_same_draws_and_the_start_is_tried_first(void **state)
{
    (void)state;
    struct aw_cma a, b, c;
    const double start[3] = {0.2, 0.5, 0.7};
    aw_cma_init(&a, 3, start, 0.1, 8, 3);
    aw_cma_init(&b, 3, start, 0.1, 8, 3);
    aw_cma_init(&c, 3, start, 0.1, 8, 4);
    for (uint32_t g = 0; g < 5; g++) {
        double value[8];
        aw_cma_ask(&a);
        aw_cma_ask(&b);
        aw_cma_ask(&c);
        if (g == 0)
            assert_memory_equal(a.x[0], start, sizeof start);
        assert_memory_equal(a.x, b.x, sizeof a.x);
        for (uint32_t k = 0; k < 8; k++)
            value[k] = bowl(a.x[k], 3);
        aw_cma_tell(&a, value);
        aw_cma_tell(&b, value);
    }
    assert_true(memcmp(a.x, c.x, sizeof a.x) != 0);
}

static void what_is_not_finite_counts_as_worst(void **state)
{
    (void)state;
    struct aw_cma cma;
    const double start[2] = {0.5, 0.5};
    aw_cma_init(&cma, 2, start, 0.2, 8, 1);
    for (uint32_t g = 0; g < 60; g++) {
        aw_cma_ask(&cma);
        double value[8];
        for (uint32_t k = 0; k < 8; k++)
            value[k] = cma.x[k][0] > 0.5 ? NAN : bowl(cma.x[k], 2);
        aw_cma_tell(&cma, value);
    }
    assert_true(cma.best_value < 1e-4);
    assert_true(isfinite(cma.mean[0]) && isfinite(cma.step));
}

AW_TEST_GROUP("cma")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_point_is_found),
        cmocka_unit_test(noise_is_borne),
        cmocka_unit_test(same_seed_same_draws_and_the_start_is_tried_first),
        cmocka_unit_test(what_is_not_finite_counts_as_worst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
