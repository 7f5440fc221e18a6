/* evaluate_test.c - the tables in the small: who is compared with whom, on what, and that the
 * number of threads changes nothing. */
#include "study/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"

#define APPS    2u
#define EPISODE 24u

struct bench {
    struct aw_evaluate_config config;
    struct aw_evaluate_app app[APPS];
};

/* Small enough that a whole table takes a moment, learning included. */
static void prepare(struct bench *b)
{
    memset(b, 0, sizeof *b);
    aw_evaluate_config_init(&b->config);
    struct aw_pilot_config *pilot = &b->config.pilot;
    pilot->episode_steps = EPISODE;
    pilot->thresholds.online = -1e9; /* whatever was learned may act */
    pilot->thresholds.serving = -1e9;
    pilot->thresholds.deviation = 1e9;
    pilot->lifecycle.offline_least = 3;
    pilot->lifecycle.fill = 2;
    pilot->rehearse.copies = 1;
    pilot->rehearse.tries = 2;
    pilot->rehearse.tries_near = 4;
    b->config.seeds = 2;
    b->config.learn_halves = 2;
    b->config.after_halves = 2;
    b->config.apps_each = 1;
    b->config.simulate.tuning_budget = 6;
    for (uint32_t i = 0; i < APPS; i++) {
        b->app[i].index = 20 + i;
        aw_app_generate(1, 20 + i, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &b->app[i].app);
        assert_ok(aw_load_parse(i ? "bursts:peak=3,period=600,length=1h" : "diurnal:length=1h", 1,
                                NULL, &b->app[i].day, NULL));
        aw_load_scale_cores(&b->app[i].day, &b->app[i].app, 1);
    }
}

static void done(struct bench *b)
{
    aw_evaluate_apps_deinit(b->app, APPS);
}

static struct aw_totals totals(uint64_t violations, double cost)
{
    return (struct aw_totals){.steps = 1000, .violations = violations, .cost = cost};
}

/* --- converged -------------------------------------------------------------------------------- */

static void every_controller_is_seen_through_the_same_second_half(void **state)
{
    (void)state;
    struct bench b;
    struct aw_evaluate_converged row[APPS];
    prepare(&b);
    assert_ok(aw_evaluate_converged(&b.config, b.app, APPS, NULL, NULL, NULL, row, NULL));
    const uint64_t half = 1800 / 15;
    for (uint32_t i = 0; i < APPS; i++) {
        assert_int_equal(row[i].index, 20 + i);
        for (uint32_t who = 0; who < AW_EVALUATE_WHO_COUNT; who++) {
            const struct aw_totals *all = &row[i].reported[who];
            assert_int_equal(all->steps, half * b.config.seeds);
            assert_true(all->cost > 0 && all->reward > 0 && all->requests > 0);
            for (uint32_t q = 0; q < AW_EVALUATE_QUARTERS; q++)
                assert_int_equal(row[i].quarter[who][q].steps, half / 4 * b.config.seeds);
            /* the same load: as many requests but for chance */
            assert_true(fabs(all->requests / row[i].reported[AW_EVALUATE_HPA].requests - 1) < 0.05);
        }
        assert_true(row[i].best != AW_EVALUATE_AWARE && row[i].best != AW_EVALUATE_ORACLE);
        assert_true(row[i].reported[AW_EVALUATE_AWARE].agent_steps > 0);
    }
    done(&b);
}

static void the_number_of_threads_changes_no_byte(void **state)
{
    (void)state;
    struct bench b;
    static struct aw_evaluate_converged one[APPS], three[APPS];
    prepare(&b);
    b.config.seeds = 1;
    b.config.ceiling = false;
    assert_ok(aw_evaluate_converged(&b.config, b.app, APPS, NULL, NULL, NULL, one, NULL));
    b.config.simulate.thread_count = 3;
    assert_ok(aw_evaluate_converged(&b.config, b.app, APPS, NULL, NULL, NULL, three, NULL));
    for (uint32_t i = 0; i < APPS; i++) {
        assert_memory_equal(one[i].reported, three[i].reported, sizeof one[i].reported);
        assert_memory_equal(one[i].learned, three[i].learned, sizeof one[i].learned);
        assert_int_equal(one[i].best, three[i].best);
    }
    done(&b);
}

static bool stop_at_once(void *ctx, uint32_t finished, uint32_t total)
{
    assert_int_equal(total, APPS * 2);
    *(uint32_t *)ctx = finished;
    return false;
}

static void a_table_can_be_stopped(void **state)
{
    (void)state;
    struct bench b;
    struct aw_evaluate_converged row[APPS];
    uint32_t finished = 0;
    prepare(&b);
    b.config.ceiling = false;
    assert_int_equal(
        aw_evaluate_converged(&b.config, b.app, APPS, stop_at_once, &finished, NULL, row, NULL),
        AW_ERR_INTERRUPTED);
    assert_int_equal(finished, 1);
    done(&b);
}

static void a_day_that_cannot_be_halved_is_refused(void **state)
{
    (void)state;
    struct bench b;
    struct aw_evaluate_converged row[APPS];
    struct aw_diag diag;
    prepare(&b);
    b.app[1].day.slot_count = 1;
    assert_int_equal(aw_evaluate_converged(&b.config, b.app, APPS, NULL, NULL, NULL, row, &diag),
                     AW_ERR_NODATA);
    assert_non_null(strstr(diag.text, "too short"));
    done(&b);
}

/* A row by hand: cost and violations of the best baseline, of AWARE, and of the ceiling. */
static struct aw_evaluate_converged row_of(struct aw_totals best, struct aw_totals aware,
                                           double ceiling)
{
    struct aw_evaluate_converged row = {
        .best = AW_EVALUATE_CONSTANT,
        .hindsight = AW_EVALUATE_CONSTANT,
        .served = 1,
        .reached = 1,
        .cheaper = aware.cost < best.cost,
        .no_worse_slo = aware.violations <= (best.violations > 10 ? best.violations : 10)};
    for (uint32_t who = 0; who < AW_EVALUATE_WHO_COUNT; who++)
        row.reported[who] = best;
    row.reported[AW_EVALUATE_AWARE] = aware;
    row.reported[AW_EVALUATE_ORACLE] = totals(0, ceiling);
    for (uint32_t who = 0; who < AW_EVALUATE_WHO_COUNT; who++)
        row.quarter[who][0] = row.quarter[who][3] = row.reported[who];
    return row;
}

static void ratios_are_geometric_and_the_gap_is_one_of_logarithms(void **state)
{
    (void)state;
    struct bench b;
    struct aw_evaluate_converged_sum sum;
    const struct aw_evaluate_converged rows[] = {
        row_of(totals(5, 1), totals(8, 0.5), 0.25),  /* half the cost, within the budget */
        row_of(totals(5, 1), totals(11, 0.5), 0.25), /* as cheap, but beyond it: no win */
    };
    prepare(&b);
    b.config.seeds = 1;
    assert_ok(aw_evaluate_converged_sum(&b.config, rows, 2, NULL, &sum, NULL));
    assert_close(sum.cost_ratio[AW_EVALUATE_AWARE], 0.5, 1e-12);
    assert_close(sum.gap_closed, 0.5, 1e-12);
    assert_close(sum.win_share, 0.5, 1e-12);
    assert_int_equal(sum.within[AW_EVALUATE_AWARE], 1);
    assert_int_equal(sum.best_within, 2);
    assert_false(aw_evaluate_met(&sum.goal[0])); /* 50 % of 80 % */
    assert_true(aw_evaluate_met(&sum.goal[1]));  /* cheaper beyond doubt */
    done(&b);
}

/* --- bootstrap -------------------------------------------------------------------------------- */

#define KEPT_MAX 8u
struct kept {
    unsigned char piece[KEPT_MAX][16384];
    size_t size[KEPT_MAX];
    uint32_t taken, put;
};

static bool kept_take(void *ctx, uint32_t turn, void *piece, size_t size)
{
    struct kept *kept = ctx;
    assert_true(turn < KEPT_MAX);
    if (kept->size[turn] != size)
        return false;
    memcpy(piece, kept->piece[turn], size);
    kept->taken++;
    return true;
}

static enum aw_err kept_put(void *ctx, uint32_t turn, const void *piece, size_t size,
                            struct aw_diag *diag)
{
    (void)diag;
    struct kept *kept = ctx;
    assert_true(turn < KEPT_MAX && size <= sizeof kept->piece[turn]);
    memcpy(kept->piece[turn], piece, size);
    kept->size[turn] = size;
    kept->put++;
    return AW_OK;
}

static void with_and_without_bootstrapping_are_seen_over_the_same_steps(void **state)
{
    (void)state;
    static struct kept kept;
    const struct aw_evaluate_shelf shelf = {kept_take, kept_put, &kept};
    struct bench b;
    struct aw_evaluate_bootstrap row[1], again[1];
    struct aw_evaluate_bootstrap_sum sum;
    prepare(&b);
    b.config.learn_halves = 5; /* time enough to be judged twice */
    b.config.seeds = 1;
    b.config.shelf = &shelf;
    b.config.simulate.thread_count = 1;
    assert_ok(aw_evaluate_bootstrap(&b.config, b.app, 1, NULL, NULL, NULL, row, NULL));
    for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
        const uint64_t steps = row[0].by[f].twin.steps;
        assert_true(steps > 0);
        assert_int_equal(row[0].by[f].before[AW_EVALUATE_WITH].steps, steps);
        assert_int_equal(row[0].by[f].before[AW_EVALUATE_WITHOUT].steps, steps);
        assert_int_equal(row[0].by[f].reached, b.config.seeds);
        assert_true(row[0].by[f].serving_episode >= 3);
        /* the one acts as soon as there are figures, the other not before it has learned */
        assert_true(row[0].by[f].before[AW_EVALUATE_WITHOUT].agent_steps > steps / 2);
        assert_true(row[0].by[f].before[AW_EVALUATE_WITH].agent_steps <= steps / 2);
    }
    aw_evaluate_bootstrap_sum(&b.config, row, 1, &sum);
    assert_close(sum.by[0].reached_share, 1, 0);
    assert_int_equal(sum.goal_count, AW_EVALUATE_FALLBACKS);
    /* what is on the shelf is not lived again, and is the same */
    assert_true(kept.put == AW_EVALUATE_FALLBACKS && kept.taken == 0);
    assert_ok(aw_evaluate_bootstrap(&b.config, b.app, 1, NULL, NULL, NULL, again, NULL));
    assert_true(kept.put == AW_EVALUATE_FALLBACKS && kept.taken == AW_EVALUATE_FALLBACKS);
    for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++)
        assert_memory_equal(&again[0].by[f].before, &row[0].by[f].before,
                            sizeof row[0].by[f].before);
    done(&b);
}

static void a_tenth_more_violations_than_the_fallback_is_the_limit(void **state)
{
    (void)state;
    static const struct {
        uint64_t aware, twin;
        bool met;
        const char *why;
    } table[] = {
        {110, 100, true, "just within"},
        {111, 100, false, "one more"},
        {0, 0, true, "nothing missed by either"},
        {1, 0, false, "something where the fallback missed nothing"},
    };
    struct bench b;
    prepare(&b);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct aw_evaluate_bootstrap row = {0};
        struct aw_evaluate_bootstrap_sum sum;
        for (uint32_t f = 0; f < AW_EVALUATE_FALLBACKS; f++) {
            row.by[f].before[AW_EVALUATE_WITH] = totals(table[i].aware, 1);
            row.by[f].before[AW_EVALUATE_WITHOUT] = totals(1000, 1);
            row.by[f].twin = totals(table[i].twin, 1);
        }
        aw_evaluate_bootstrap_sum(&b.config, &row, 1, &sum);
        if (aw_evaluate_met(&sum.goal[0]) != table[i].met)
            fail_msg("%s: ratio %g", table[i].why, sum.goal[0].value);
    }
    done(&b);
}

/* --- disturbances ----------------------------------------------------------------------------- */

static void a_scenario_touches_only_applications_of_its_family(void **state)
{
    (void)state;
    const struct aw_scenario *image = NULL, *load = NULL;
    struct aw_app app = {.segment_count = 1};
    assert_ok(aw_scenario_find("image-size", &image, NULL));
    assert_ok(aw_scenario_find("load-low-to-high", &load, NULL));
    for (uint32_t i = 0; i < AW_SEGMENT_BUILTIN_COUNT; i++) {
        app.segment[0] = aw_segment_builtin()[i];
        const bool own = app.segment[0].family == AW_PAYLOAD_IMAGE;
        assert_true(aw_evaluate_affected(&app, &load->effect));
        if (!own)
            assert_false(aw_evaluate_affected(&app, &image->effect));
        else
            assert_true(aw_evaluate_affected(&app, &image->effect));
    }
}

static void all_lives_after_a_disturbance_have_the_same_length(void **state)
{
    (void)state;
    struct bench b;
    static struct aw_evaluate_disturbed row[APPS * AW_EVALUATE_SCENARIOS_MAX];
    struct aw_evaluate_disturbed_sum sum;
    prepare(&b);
    b.config.seeds = 1;
    const uint32_t rows = aw_evaluate_disturbed_count(&b.config, b.app, 1);
    assert_in_range(rows, 2, AW_EVALUATE_SCENARIOS_MAX); /* of load at least, one each */
    assert_ok(aw_evaluate_disturbed(&b.config, b.app, 1, NULL, NULL, NULL, row, NULL));
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t k = 0; k < AW_EVALUATE_KINDS; k++) {
            assert_int_equal(row[i].last[k].steps, 120);
            assert_int_equal(row[i].after[k].steps, 240);
        }
    assert_ok(aw_evaluate_disturbed_sum(&b.config, row, rows, NULL, &sum, NULL));
    assert_close(sum.drop[AW_EVALUATE_NATIVE], 0, 0);
    b.config.after_halves = 1;
    assert_int_equal(aw_evaluate_disturbed(&b.config, b.app, 1, NULL, NULL, NULL, row, NULL),
                     AW_ERR_CONFIG);
    done(&b);
}

/* --- estimates -------------------------------------------------------------------------------- */

static void every_search_is_followed_by_what_came_of_it(void **state)
{
    (void)state;
    struct bench b;
    static struct aw_evaluate_estimate rows[256], again[256];
    uint32_t count = 0, count_again = 0;
    prepare(&b);
    aw_load_deinit(&b.app[0].day);
    assert_ok(aw_load_parse("diurnal:length=4h", 1, NULL, &b.app[0].day, NULL));
    aw_load_scale_cores(&b.app[0].day, &b.app[0].app, 1);
    b.config.seeds = 1;
    assert_in_range(aw_evaluate_estimates_max(&b.config, 1), 1, 256);
    assert_ok(aw_evaluate_estimates(&b.config, b.app, 1, NULL, NULL, NULL, rows, &count, NULL));
    assert_true(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(rows[i].index, 20);
        assert_true(rows[i].low <= rows[i].mean && rows[i].mean <= rows[i].high);
        assert_true(rows[i].fallback_score < 0 && isfinite(rows[i].truth));
        assert_true(rows[i].episode > 0);
    }
    b.config.simulate.thread_count = 2;
    assert_ok(
        aw_evaluate_estimates(&b.config, b.app, 1, NULL, NULL, NULL, again, &count_again, NULL));
    assert_int_equal(count, count_again);
    assert_memory_equal(rows, again, count * sizeof *rows);
    b.config.pilot.agent = AW_POLICY_NETWORK;
    assert_int_equal(
        aw_evaluate_estimates(&b.config, b.app, 1, NULL, NULL, NULL, rows, &count, NULL),
        AW_ERR_CONFIG);
    done(&b);
}

static void coverage_is_a_share_and_ends_are_judged_each_by_itself(void **state)
{
    (void)state;
    struct aw_evaluate_estimate rows[19];
    struct aw_evaluate_estimates_sum sum;
    for (uint32_t i = 0; i < 19;
         i++) /* from 0.9 of the way to the low end up to 0.9 of the other */
        rows[i] = (struct aw_evaluate_estimate){.index = i / 4,
                                                .fallback = i % 2,
                                                .episode = i,
                                                .mean = 0,
                                                .low = -10,
                                                .high = 100,
                                                .truth = i < 9 ? i - 9.0 : 10.0 * (i - 9.0),
                                                .fallback_score = -200};
    assert_ok(aw_evaluate_estimates_sum(rows, 19, NULL, &sum, NULL));
    assert_close(sum.by[AW_EVALUATE_GROUP_ALL].within, 1, 0);
    assert_close(sum.by[AW_EVALUATE_GROUP_ALL].width, 55.0 / 200, 1e-12);
    assert_int_equal(sum.by[AW_EVALUATE_GROUP_ALL].better, 10);
    assert_int_equal(sum.by[AW_EVALUATE_GROUP_EARLY].cases, 10);
    assert_int_equal(sum.by[AW_EVALUATE_GROUP_HPA_VPA].cases, 10);
    assert_int_equal(sum.by[AW_EVALUATE_GROUP_PASSED].cases, 0);
    assert_true(isnan(sum.by[AW_EVALUATE_GROUP_PASSED].within));
    /* of 19 the 18th: one new case of ten may be beyond */
    assert_close(sum.factor_low, 0.8, 1e-12);
    assert_close(sum.factor_high, 0.8, 1e-12);
    assert_true(aw_evaluate_met(&sum.goal[0]));
    assert_false(aw_evaluate_met(&sum.goal[1])); /* all of them is too many */
    rows[0].truth = -11;
    rows[17].truth = rows[18].truth = 101;
    assert_ok(aw_evaluate_estimates_sum(rows, 19, NULL, &sum, NULL));
    assert_close(sum.by[AW_EVALUATE_GROUP_ALL].within, 16.0 / 19, 1e-12);
    assert_close(sum.by[AW_EVALUATE_GROUP_ALL].above, 18.0 / 19, 1e-12);
    assert_true(aw_evaluate_met(&sum.goal[0]) && aw_evaluate_met(&sum.goal[1]));
}

static void heaps_that_run_out_leave_nothing_behind(void **state)
{
    (void)state;
    struct bench b;
    static struct aw_evaluate_disturbed row[APPS * AW_EVALUATE_SCENARIOS_MAX];
    prepare(&b);
    b.config.seeds = 1;
    b.config.apps_each = 1;
    b.config.simulate.tuning_budget = 1;
    b.config.pilot.learning = false; /* that learning survives it is for its own tests */
    bool whole = false;
    /* every allocation at first, then in ever longer strides: a life makes thousands alike */
    for (uint64_t n = 0, stride = 1; !whole; n += stride, stride += n > 40 ? n / 4 : 0) {
        struct aw_alloc_counting counting;
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        const enum aw_err err =
            aw_evaluate_disturbed(&b.config, b.app, 1, NULL, NULL, &counting.alloc, row, NULL);
        whole = err == AW_OK;
        if (!whole)
            assert_int_equal(err, AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    done(&b);
}

AW_TEST_GROUP("evaluate")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_controller_is_seen_through_the_same_second_half),
        cmocka_unit_test(the_number_of_threads_changes_no_byte),
        cmocka_unit_test(a_table_can_be_stopped),
        cmocka_unit_test(a_day_that_cannot_be_halved_is_refused),
        cmocka_unit_test(ratios_are_geometric_and_the_gap_is_one_of_logarithms),
        cmocka_unit_test(with_and_without_bootstrapping_are_seen_over_the_same_steps),
        cmocka_unit_test(a_tenth_more_violations_than_the_fallback_is_the_limit),
        cmocka_unit_test(a_scenario_touches_only_applications_of_its_family),
        cmocka_unit_test(all_lives_after_a_disturbance_have_the_same_length),
        cmocka_unit_test(every_search_is_followed_by_what_came_of_it),
        cmocka_unit_test(coverage_is_a_share_and_ends_are_judged_each_by_itself),
        cmocka_unit_test(heaps_that_run_out_leave_nothing_behind),
    };
    return cmocka_run_group_tests_name("evaluate", tests, NULL, NULL);
}
