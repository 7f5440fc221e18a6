/* bayes_opt_test.c - the search by few noisy tries, on functions whose highest point is known. */
#include "base/bayes_opt.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"

#define DIM 3u

static double hill(const double *x) /* highest at (0.25, -0.15, 0.1): 20 above 0, which is at 0 */
{
    const double a = x[0] - 0.25, b = x[1] + 0.15, c = x[2] - 0.1;
    return 20 - 20 / 0.095 * (a * a + b * b + c * c);
}

static double cliff(const double *x) /* the same, but for an edge that it falls off */
{
    return x[1] < -0.2 ? -140 : hill(x);
}

static double plain(const double *x) /* 0 is best */
{
    return -200 * (x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
}

static double floor_of(const double *x) /* nothing matters */
{
    (void)x;
    return 0;
}

struct outcome {
    double best;  /* true value of what is held best at the end */
    double worst; /* of what was held best at any time */
    double lived; /* mean over all tries */
};

static struct outcome sought(double (*f)(const double *x), double noise, uint32_t tries,
                             uint64_t seed)
{
    const struct aw_bayes_opt_config config = {
        .dim = DIM, .seed = seed, .length = 0.1, .spread = 10, .noise = 4};
    struct aw_bayes_opt seek;
    struct aw_rng rng;
    struct outcome outcome = {.worst = INFINITY};
    double x[DIM];
    aw_rng_init(&rng, seed, 1);
    assert_ok(aw_bayes_opt_init(&seek, &config, NULL));
    for (uint32_t i = 0; i < tries; i++) {
        aw_bayes_opt_next(&seek, x);
        outcome.lived += f(x) / tries;
        aw_bayes_opt_tell(&seek, x, 100 + f(x) + noise * aw_rng_normal(&rng));
        aw_bayes_opt_best(&seek, x);
        outcome.best = f(x);
        outcome.worst = fmin(outcome.worst, outcome.best);
    }
    aw_bayes_opt_deinit(&seek);
    return outcome;
}

/* Means over seeds. */
static struct outcome mean_of(double (*f)(const double *x), double noise, uint32_t tries)
{
    struct outcome mean = {0};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const struct outcome one = sought(f, noise, tries, seed);
        mean.best += one.best / 10;
        mean.worst += one.worst / 10;
        mean.lived += one.lived / 10;
    }
    return mean;
}

static void the_highest_point_is_found_in_few_tries(void **state)
{
    (void)state;
    static const struct {
        double (*f)(const double *x);
        double noise;
        uint32_t tries;
        double best, lived; /* at least */
        const char *why;
    } table[] = {
        {hill, 0, 30, 18, 10, "certain"},
        {hill, 4, 50, 14, 6, "noise of a fifth of what there is to gain"},
        {cliff, 4, 50, 12, 0, "and an edge beside it"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct outcome found = mean_of(table[i].f, table[i].noise, table[i].tries);
        print_message("%s: best %.1f, lived %.1f, at worst %.1f\n", table[i].why, found.best,
                      found.lived, found.worst);
        assert_true(found.best >= table[i].best);
        assert_true(found.lived >= table[i].lived);
    }
}

static void what_is_best_already_is_hardly_left(void **state)
{
    (void)state;
    const struct outcome found = mean_of(plain, 4, 60);
    print_message("best %.1f, lived %.1f, at worst %.1f\n", found.best, found.lived, found.worst);
    assert_true(found.best > -1.5);
    assert_true(found.worst > -4);
    assert_true(found.lived > -3);
}

static void chance_alone_does_not_move_the_best(void **state)
{
    (void)state;
    const struct aw_bayes_opt_config config = {
        .dim = DIM, .seed = 5, .length = 0.1, .spread = 10, .noise = 4};
    uint32_t moves = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct aw_bayes_opt seek;
        struct aw_rng rng;
        double x[DIM], before[DIM], after[DIM];
        aw_rng_init(&rng, seed, 2);
        assert_ok(aw_bayes_opt_init(&seek, &config, NULL));
        for (uint32_t i = 0; i < 30; i++) {
            aw_bayes_opt_next(&seek, x);
            aw_bayes_opt_best(&seek, before);
            aw_bayes_opt_tell(&seek, x, 4 * aw_rng_normal(&rng));
            aw_bayes_opt_best(&seek, after);
            moves += memcmp(before, after, sizeof after) != 0;
        }
        aw_bayes_opt_deinit(&seek);
    }
    print_message("%.1f moves in thirty tries\n", moves / 20.0);
    assert_true(moves <= 20 * 6);
}

static void where_nothing_matters_trying_comes_to_an_end(void **state)
{
    (void)state;
    const struct aw_bayes_opt_config config = {
        .dim = DIM, .seed = 3, .length = 0.1, .spread = 10, .noise = 4};
    struct aw_bayes_opt seek;
    double x[DIM], best[DIM];
    uint32_t again = 0;
    assert_ok(aw_bayes_opt_init(&seek, &config, NULL));
    for (uint32_t i = 0; i < AW_BAYES_OPT_TRIES_MAX + 20; i++) { /* more than are remembered */
        aw_bayes_opt_best(&seek, best);
        aw_bayes_opt_next(&seek, x);
        again += i >= 100 && memcmp(x, best, sizeof x) == 0;
        aw_bayes_opt_tell(&seek, x, floor_of(x));
    }
    print_message("%u of the last %u tries were of the best\n", again, AW_BAYES_OPT_TRIES_MAX - 80);
    assert_true(again > AW_BAYES_OPT_TRIES_MAX / 2);
    aw_bayes_opt_deinit(&seek);
}

static void the_same_seed_tries_the_same_and_what_is_no_number_is_bad(void **state)
{
    (void)state;
    const struct outcome a = sought(hill, 4, 20, 7), b = sought(hill, 4, 20, 7);
    assert_true(a.best == b.best && a.lived == b.lived);
    const struct aw_bayes_opt_config config = {
        .dim = 1, .seed = 1, .length = 0.1, .spread = 10, .noise = 1};
    struct aw_bayes_opt seek;
    double x = 1;
    assert_ok(aw_bayes_opt_init(&seek, &config, NULL));
    aw_bayes_opt_best(&seek, &x);
    assert_true(x == 0);
    aw_bayes_opt_next(&seek, &x);
    assert_true(x == 0); /* what there is comes first */
    aw_bayes_opt_tell(&seek, &x, 50);
    for (uint32_t i = 0; i < 20; i++) {
        aw_bayes_opt_next(&seek, &x);
        assert_true(isfinite(x));
        aw_bayes_opt_tell(&seek, &x, fabs(x) > 0.01 ? NAN : 50);
    }
    aw_bayes_opt_best(&seek, &x);
    assert_true(fabs(x) <= 0.01);
    aw_bayes_opt_deinit(&seek);
}

AW_TEST_GROUP("bayes-opt")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_point_is_found_in_few_tries),
        cmocka_unit_test(what_is_best_already_is_hardly_left),
        cmocka_unit_test(chance_alone_does_not_move_the_best),
        cmocka_unit_test(where_nothing_matters_trying_comes_to_an_end),
        cmocka_unit_test(the_same_seed_tries_the_same_and_what_is_no_number_is_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
