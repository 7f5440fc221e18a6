#include "rl/search.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"

/* --- functions to search ---------------------------------------------------------------------- */

/* Lowest at 0.3 in every axis. */
static double sphere(const double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (x[i] - 0.3) * (x[i] - 0.3);
    return sum;
}

/* The same, a thousand times as steep along the diagonal: no axis shows the way. */
static double ridge(const double *x, uint32_t n)
{
    double along = 0;
    for (uint32_t i = 0; i < n; i++)
        along += (x[i] - 0.3) / sqrt(n);
    return sphere(x, n) + 1000 * along * along;
}

/* Lowest at a corner, beyond which nothing is allowed. */
static double corner(const double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += i % 2 ? x[i] : 1 - x[i];
    return sum;
}

/* A cliff: half of the box is forbidden, and the best lies at its edge. */
static double cliff(const double *x, uint32_t n)
{
    return x[0] < 0.5 ? INFINITY : x[0] + sphere(x + 1, n - 1);
}

typedef double function(const double *x, uint32_t n);

static struct aw_search make(uint32_t dim, uint64_t seed)
{
    double start[AW_SEARCH_DIM_MAX];
    for (uint32_t i = 0; i < dim; i++)
        start[i] = 0.7;
    struct aw_search search;
    assert_ok(aw_search_init(
        &search,
        &(struct aw_search_config){.dim = dim, .population = 12, .deviation = 0.2, .seed = seed},
        start, NULL));
    return search;
}

static void descend(struct aw_search *search, function *f, uint32_t rounds)
{
    double loss[AW_SEARCH_POPULATION_MAX];
    for (uint32_t r = 0; r < rounds; r++) {
        const double *points = aw_search_ask(search);
        for (uint32_t k = 0; k < search->config.population; k++)
            loss[k] = f(points + (size_t)k * search->config.dim, search->config.dim);
        assert_ok(aw_search_tell(search, loss));
    }
}

/* --- tests ------------------------------------------------------------------------------------ */

static void it_finds_the_lowest_point(void **state)
{
    (void)state;
    const struct {
        function *f;
        uint32_t dim, rounds;
        double lowest, within;
        const char *why;
    } cases[] = {
        {sphere, 1, 60, 0, 1e-9, "a single number"},
        {sphere, 10, 150, 0, 1e-9, "a bowl"},
        {ridge, 10, 300, 0, 1e-6, "a valley that no axis follows: the covariance has to learn it"},
        {corner, 6, 150, 0, 1e-3, "the box ends before the slope does"},
        {cliff, 4, 150, 0.5, 1e-3, "what is forbidden is ranked last, nothing more"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct aw_search search = make(cases[i].dim, seed);
            descend(&search, cases[i].f, cases[i].rounds);
            double loss;
            const double *best = aw_search_best(&search, &loss);
            if (!(loss - cases[i].lowest <= cases[i].within))
                fail_msg("%s, seed %d: %g", cases[i].why, (int)seed, loss);
            assert_close(cases[i].f(best, cases[i].dim), loss, 1e-12);
            aw_search_deinit(&search);
        }
}

static void the_mean_sees_through_noise_that_the_best_is_fooled_by(void **state)
{
    (void)state;
    struct aw_rng noise;
    aw_rng_init(&noise, 5, 0);
    double mean_error = 0, best_error = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct aw_search search = make(5, seed);
        double loss[AW_SEARCH_POPULATION_MAX], lowest;
        for (uint32_t r = 0; r < 40; r++) {
            const double *points = aw_search_ask(&search);
            for (uint32_t k = 0; k < 12; k++)
                loss[k] = sphere(points + (size_t)k * 5, 5) + 0.05 * aw_rng_normal(&noise);
            assert_ok(aw_search_tell(&search, loss));
        }
        mean_error += sphere(aw_search_mean(&search), 5) / 20;
        best_error += sphere(aw_search_best(&search, &lowest), 5) / 20;
        aw_search_deinit(&search);
    }
    assert_true(mean_error < 0.05);
    assert_true(mean_error < best_error);
}

static void every_point_lies_in_the_box_and_the_start_comes_first(void **state)
{
    (void)state;
    struct aw_search search = make(8, 3);
    const double *points = aw_search_ask(&search);
    for (uint32_t i = 0; i < 8; i++)
        assert_close(points[i], 0.7, 0);
    for (uint32_t r = 0; r < 100; r++) {
        double loss[AW_SEARCH_POPULATION_MAX];
        for (uint32_t k = 0; k < 12; k++) {
            for (uint32_t i = 0; i < 8; i++)
                assert_true(points[k * 8 + i] >= 0 && points[k * 8 + i] <= 1);
            loss[k] = corner(points + (size_t)k * 8, 8);
        }
        assert_ok(aw_search_tell(&search, loss));
        for (uint32_t i = 0; i < 8; i++)
            assert_true(search.mean[i] >= 0 && search.mean[i] <= 1);
        points = aw_search_ask(&search);
    }
    aw_search_deinit(&search);
}

static void only_ranks_count(void **state)
{
    (void)state;
    struct aw_search plain = make(4, 9), bent = make(4, 9);
    for (uint32_t r = 0; r < 30; r++) {
        double a[AW_SEARCH_POPULATION_MAX], b[AW_SEARCH_POPULATION_MAX];
        const double *p = aw_search_ask(&plain), *q = aw_search_ask(&bent);
        assert_memory_equal(p, q, 12 * 4 * sizeof *p);
        for (uint32_t k = 0; k < 12; k++) {
            a[k] = sphere(p + (size_t)k * 4, 4);
            b[k] = exp(5 * a[k]) - 100;
        }
        assert_ok(aw_search_tell(&plain, a));
        assert_ok(aw_search_tell(&bent, b));
    }
    aw_search_deinit(&plain);
    aw_search_deinit(&bent);
}

static void a_loss_that_is_no_number_moves_nothing(void **state)
{
    (void)state;
    struct aw_search search = make(3, 2);
    (void)aw_search_ask(&search);
    double loss[AW_SEARCH_POPULATION_MAX] = {0}, before = search.step, lowest;
    loss[7] = NAN;
    assert_int_equal(aw_search_tell(&search, loss), AW_ERR_DIVERGED);
    for (uint32_t k = 0; k < 12; k++)
        loss[k] = INFINITY;
    assert_int_equal(aw_search_tell(&search, loss), AW_ERR_DIVERGED);
    assert_int_equal(search.round, 0);
    assert_close(search.step, before, 0);
    (void)aw_search_best(&search, &lowest);
    assert_true(isinf(lowest));
    aw_search_deinit(&search);
}

static void what_is_out_of_range_is_refused(void **state)
{
    (void)state;
    const double start[3] = {0.5, 0.5, 0.5}, outside[3] = {0.5, 1.5, 0.5}, none[3] = {NAN};
    const struct {
        struct aw_search_config config;
        const double *start;
        const char *why;
    } cases[] = {
        {{.dim = 0, .population = 8, .deviation = 0.1}, start, "nothing to search"},
        {{.dim = 33, .population = 8, .deviation = 0.1}, start, "too many numbers"},
        {{.dim = 3, .population = 3, .deviation = 0.1}, start, "no half to speak of"},
        {{.dim = 3, .population = 65, .deviation = 0.1}, start, "too many points"},
        {{.dim = 3, .population = 8, .deviation = 0}, start, "no spread"},
        {{.dim = 3, .population = 8, .deviation = NAN}, start, "a spread that is no number"},
        {{.dim = 3, .population = 8, .deviation = 0.1}, outside, "a start outside the box"},
        {{.dim = 3, .population = 8, .deviation = 0.1}, none, "a start that is no number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_search search;
        if (aw_search_init(&search, &cases[i].config, cases[i].start, NULL) != AW_ERR_RANGE)
            fail_msg("%s", cases[i].why);
        aw_search_deinit(&search);
    }
}

static void it_allocates_once_and_fails_cleanly(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    const struct aw_search_config config = {.dim = 2, .population = 6, .deviation = 0.1};
    const double start[2] = {0.5, 0.5}, loss[6] = {1, 2, 3, 4, 5, 6};
    struct aw_search search;
    counting.fail_after = 0;
    assert_int_equal(aw_search_init(&search, &config, start, &counting.alloc), AW_ERR_NOMEM);
    aw_search_deinit(&search);
    aw_alloc_counting_init(&counting);
    assert_ok(aw_search_init(&search, &config, start, &counting.alloc));
    (void)aw_search_ask(&search);
    assert_ok(aw_search_tell(&search, loss));
    assert_int_equal(counting.alloc_count, 1);
    aw_search_deinit(&search);
    assert_int_equal(counting.free_count, 1);
    aw_search_deinit(&search);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_finds_the_lowest_point),
        cmocka_unit_test(the_mean_sees_through_noise_that_the_best_is_fooled_by),
        cmocka_unit_test(every_point_lies_in_the_box_and_the_start_comes_first),
        cmocka_unit_test(only_ranks_count),
        cmocka_unit_test(a_loss_that_is_no_number_moves_nothing),
        cmocka_unit_test(what_is_out_of_range_is_refused),
        cmocka_unit_test(it_allocates_once_and_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
