/* adapt_test.c - the figures of made-up curves, and one real curve. */
#include "pretrain/adapt.h"

#include <math.h>
#include <stdio.h>

#include "base/testing.h"

static struct aw_adapt_point point_of(double judged, double missed, double cpu)
{
    return (struct aw_adapt_point){.judged = {.paper = judged, .cpu = 0.5, .memory = 0.8},
                                   .lived = {.violations = missed, .cpu = cpu, .memory = 0.9}};
}

static void figures_are_those_of_the_definitions(void **state)
{
    (void)state;
    struct aw_adapt_point point[21];
    for (uint32_t e = 0; e <= 20; e++)
        point[e] = point_of(e < 6 ? 100 + 5 * e : 130, 0.1, 0.25);
    point[2].judged.paper = 140; /* one good look is no convergence */
    for (uint32_t e = 0; e <= 20; e++)
        point[e].cpu_s = e;
    const struct aw_pretrain_score converged = aw_adapt_converged(point, 20);
    assert_close(converged.paper, 130, 1e-9);
    assert_close(converged.cpu, 0.5, 1e-9);
    const struct aw_adapt_measure at = aw_adapt_measure(point, 20, &converged, 0.03, 10, 100);
    assert_close(at.drop, 1 - 100.0 / 130, 1e-9);
    assert_int_equal(at.episodes, 5); /* 125 + 130 + 130 is the first window at 126.1 */
    assert_false(at.never);
    assert_close(at.until.violations, 50, 1e-9);
    assert_close(at.until.violation_share, 0.1, 1e-9);
    assert_close(at.until.cpu_deficit, 0.5, 1e-9);
    assert_close(at.until.memory_deficit, 0, 1e-9); /* above converged is no deficit */
    assert_close(at.cpu_s, 5, 1e-9);
    assert_close(at.way.violations, 100, 1e-9);
}

static void what_never_gets_there_is_counted_to_its_end_and_says_so(void **state)
{
    (void)state;
    struct aw_adapt_point point[9];
    for (uint32_t e = 0; e <= 8; e++)
        point[e] = point_of(100, 0, 0.5);
    const struct aw_pretrain_score best = {.paper = 150, .cpu = 0.5, .memory = 0.5};
    const struct aw_adapt_measure at = aw_adapt_measure(point, 8, &best, 0.03, 10, 100);
    assert_true(at.never);
    assert_int_equal(at.episodes, 8);
    const struct aw_pretrain_score own = aw_adapt_converged(point, 8);
    const struct aw_adapt_measure none = aw_adapt_measure(point, 8, &own, 0.03, 10, 100);
    assert_int_equal(none.episodes, 0);
    assert_close(none.until.violations, 0, 0);
    assert_close(none.way.violations, 0, 0);
}

static void converged_is_that_of_the_best_learner(void **state)
{
    (void)state;
    struct aw_adapt_point one[12], two[12];
    struct aw_pretrain_score best = {0};
    for (uint32_t e = 0; e < 12; e++) {
        one[e] = point_of(120, 0, 0.5);
        two[e] = point_of(e < 2 ? 190 : 110, 0, 0.5); /* good once is not converged */
        one[e].judged.cpu = 0.7;
    }
    aw_adapt_best(&best, two, 11);
    assert_close(best.paper, 110, 1e-9);
    aw_adapt_best(&best, one, 11);
    assert_close(best.paper, 120, 1e-9);
    assert_close(best.cpu, 0.7, 1e-9); /* all figures are the same learner's */
    aw_adapt_best(&best, two, 11);
    assert_close(best.paper, 120, 1e-9);
}

static void load_of(void *ctx, uint32_t app, char *buf, size_t size)
{
    (void)ctx, (void)app;
    snprintf(buf, size, "diurnal:peak=2,period=1200");
}

static void a_curve_repeats_itself_and_its_first_point_has_learned_nothing(void **state)
{
    (void)state;
    struct aw_pretrain_config config;
    aw_pretrain_config_init(&config);
    config.learn = (struct aw_pretrain_pool){.seed = 1, .first = 3, .count = 1, .load = load_of};
    config.pairs[0] = "objective=paper";
    config.pairs[1] = "episode_steps=20";
    config.pair_count = 2;
    config.context.hidden = 16;
    config.context.group = 1;
    config.context.to_actor = config.context.to_critic = false;
    config.teacher_tries = 0;
    config.refresh = false;
    struct aw_adapt_point point[2][4], longer[6];
    struct aw_pretrain_score fallback;
    struct aw_diag diag = {0};
    for (uint32_t i = 0; i < 2; i++)
        if (aw_adapt_run(&config, 3, NULL, point[i], &fallback, &diag))
            fail_msg("%s", diag.text);
    assert_ok(aw_adapt_run(&config, 5, NULL, longer, NULL, &diag));
    for (uint32_t e = 0; e < 4; e++) {
        assert_true(point[0][e].judged.paper == point[1][e].judged.paper);
        assert_true(point[0][e].lived.paper == point[1][e].lived.paper);
    }
    assert_true(point[0][0].judged.paper == longer[0].judged.paper);
    assert_true(fallback.paper > 0 && point[0][0].cpu_s == 0 && point[0][3].cpu_s > 0);
    config.learn.count = 2;
    assert_int_equal(aw_adapt_run(&config, 3, NULL, longer, NULL, &diag), AW_ERR_CONFIG);
}

AW_TEST_GROUP("adapt")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_the_definitions),
        cmocka_unit_test(converged_is_that_of_the_best_learner),
        cmocka_unit_test(what_never_gets_there_is_counted_to_its_end_and_says_so),
        cmocka_unit_test(a_curve_repeats_itself_and_its_first_point_has_learned_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
