/* evaluate_day_test.c - why a step missed, who has won, the worst hours, a small day, drifts. */
#include "study/evaluate_internal.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"

#define EPISODE 24u
#define SEEDS   2u

static struct aw_totals totals(uint64_t violations, double cost)
{
    return (struct aw_totals){.steps = 1000, .violations = violations, .cost = cost};
}

static void a_miss_has_the_first_reason_that_is_true(void **state)
{
    (void)state;
    static const struct {
        struct aw_evaluate_moment moment;
        enum aw_evaluate_miss why;
    } table[] = {
        {{20, 12, 20, 300, 100, false}, AW_EVALUATE_MISS_BOUND},
        {{19, 12, 20, 300, 100, false}, AW_EVALUATE_MISS_STARTING},
        {{12, 12, 20, 130, 100, false}, AW_EVALUATE_MISS_JUMP},
        {{12, 12, 20, 129, 100, false}, AW_EVALUATE_MISS_FALLBACK},
        {{12, 12, 20, 129, 100, true}, AW_EVALUATE_MISS_STEADY},
        {{12, 13, 20, 100, 100, true}, AW_EVALUATE_MISS_STEADY}, /* one is about to go */
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (aw_evaluate_miss_of(&table[i].moment) != table[i].why)
            fail_msg("row %zu: expected %s", i, aw_evaluate_miss_keys[table[i].why]);
}

static void the_worst_window_is_found_wherever_it_lies(void **state)
{
    (void)state;
    static const bool late[] = {1, 0, 0, 1, 0, 1, 1}, early[] = {1, 1, 0, 0, 0, 0, 1};
    assert_close(aw_evaluate_worst(late, 7, 3), 2.0 / 3, 1e-12);
    assert_close(aw_evaluate_worst(late, 7, 2), 1, 0);
    assert_close(aw_evaluate_worst(early, 7, 4), 0.5, 1e-12);
    assert_close(aw_evaluate_worst(late, 7, 99), 4.0 / 7, 1e-12); /* all there is */
    assert_true(isnan(aw_evaluate_worst(late, 0, 3)));
}

static void the_best_baseline_keeps_the_budget_for_the_least(void **state)
{
    (void)state;
    const struct aw_totals keep[] = {totals(9, 5), totals(11, 1), totals(10, 4), totals(0, 6)};
    const struct aw_totals none[] = {totals(30, 1), totals(20, 9), totals(40, 2)};
    assert_int_equal(aw__best_of(keep, 4, 0.01), 2); /* not the one that breaks it */
    assert_int_equal(aw__best_of(none, 3, 0.01), 1); /* which misses least, at any price */
}

static void the_budget_comes_first_or_cost_at_no_more_misses(void **state)
{
    (void)state;
    static const struct {
        double cost, missed, other_cost, other_missed;
        bool first, strict;
        const char *why;
    } table[] = {
        {0.9, 0.010, 1, 0.010, true, true, "cheaper, both within"},
        {1.1, 0.010, 1, 0.010, false, false, "dearer, both within"},
        {1.1, 0.010, 1, 0.011, true, false, "dearer than one that breaks the budget"},
        {0.9, 0.0105, 1, 0.005, true, false, "within the tolerance, but not strictly"},
        {0.9, 0.012, 1, 0.005, false, false, "cheap because it misses"},
        {0.9, 0.03, 1, 0.05, true, true, "neither keeps it: cheaper and misses less"},
        {0.9, 0.06, 1, 0.05, false, false, "neither keeps it: cheaper and misses more"},
        {1.1, 0.03, 1, 0.05, false, false, "neither keeps it: dearer"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct aw_evaluate_means aware = {.cost_per_hour = table[i].cost,
                                                .violation_share = table[i].missed};
        const struct aw_evaluate_means other = {.cost_per_hour = table[i].other_cost,
                                                .violation_share = table[i].other_missed};
        if (aw_evaluate_won_budget_first(&aware, &other, 0.01) != table[i].first ||
            aw_evaluate_won_strict(&aware, &other, 0.01) != table[i].strict)
            fail_msg("%s", table[i].why);
    }
}

static void misses_beyond_the_budget_are_priced(void **state)
{
    (void)state;
    const struct aw_evaluate_means kept = {.cost_per_hour = 3, .violation_share = 0.01},
                                   missed = {.cost_per_hour = 3, .violation_share = 0.025};
    assert_close(aw_evaluate_priced(&kept, 0.01), 3, 1e-12);
    assert_close(aw_evaluate_priced(&missed, 0.01), 7.5, 1e-12);
}

/* Learning is small, and whatever was learned may act. */
static void prepare(struct aw_evaluate_config *config, struct aw_evaluate_app *app)
{
    aw_evaluate_config_init(config);
    struct aw_pilot_config *pilot = &config->pilot;
    pilot->episode_steps = EPISODE;
    pilot->thresholds.online = pilot->thresholds.serving = -1e9;
    pilot->thresholds.deviation = 1e9;
    pilot->lifecycle.offline_least = 3;
    pilot->lifecycle.fill = 2;
    pilot->rehearse.copies = 1;
    pilot->rehearse.tries = 2;
    pilot->rehearse.tries_near = 4;
    config->seeds = SEEDS;
    config->simulate.tuning_budget = 6;
    *app = (struct aw_evaluate_app){.index = 20};
    aw_app_generate(1, 20, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &app->app);
    assert_ok(aw_load_parse("diurnal:length=4h", 1, NULL, &app->day, NULL));
    aw_load_scale_cores(&app->day, &app->app, 1);
}

static uint64_t missed_of(const struct aw_evaluate_day *row, uint32_t when)
{
    uint64_t all = 0;
    for (uint32_t m = 0; m < AW_EVALUATE_MISSES; m++)
        all += row->missed[when][m];
    return all;
}

/* Of one application: what was kept, and how often it was asked for and put there. */
struct kept {
    char piece[16u << 10];
    size_t size;
    uint32_t asked, put;
};

static bool kept_take(void *ctx, uint32_t turn, void *piece, size_t size)
{
    struct kept *kept = ctx;
    kept->asked++;
    if (turn != 0 || kept->size != size)
        return false;
    memcpy(piece, kept->piece, size);
    return true;
}

static enum aw_err kept_put(void *ctx, uint32_t turn, const void *piece, size_t size,
                            struct aw_diag *diag)
{
    (void)diag;
    struct kept *kept = ctx;
    assert_true(turn == 0 && size <= sizeof kept->piece);
    memcpy(kept->piece, piece, size);
    kept->size = size;
    kept->put++;
    return AW_OK;
}

static void everybody_lives_through_the_same_day_and_every_miss_is_labelled(void **state)
{
    (void)state;
    static const uint64_t steps[AW_EVALUATE_SPANS] = {240, 240, 420, 480, 960};
    static struct aw_evaluate_day row, again;
    struct aw_evaluate_config config;
    struct aw_evaluate_app app;
    struct aw_evaluate_day_sum sum;
    static struct kept kept;
    const struct aw_evaluate_shelf shelf = {kept_take, kept_put, &kept};
    prepare(&config, &app);
    config.shelf = &shelf;
    assert_ok(aw_evaluate_day(&config, &app, 1, NULL, NULL, NULL, &row, NULL));
    assert_true(kept.asked == 1 && kept.put == 1); /* baselines are kept, lives are not */
    for (uint32_t s = 0; s < AW_EVALUATE_SPANS; s++) {
        assert_int_equal(row.life[s].steps, steps[s] * SEEDS);
        for (uint32_t r = 0; r < AW_EVALUATE_RULES; r++) {
            assert_int_equal(row.rule[r][s].steps, steps[s] * SEEDS);
            /* the same load: as many requests but for chance */
            assert_true(fabs(row.rule[r][s].requests / row.life[s].requests - 1) < 0.05);
        }
    }
    assert_int_equal(missed_of(&row, 0), row.life[AW_EVALUATE_SPAN_HOUR1].violations);
    assert_int_equal(missed_of(&row, 1), row.life[AW_EVALUATE_SPAN_REST1].violations +
                                             row.life[AW_EVALUATE_SPAN_DAY2].violations);
    assert_true(row.worst_six_hours >= 0 && row.worst_six_hours <= 1);
    assert_true(row.life[AW_EVALUATE_SPAN_WHOLE].replica_changes > 0);
    config.simulate.thread_count = 3;
    config.shelf = NULL;
    assert_ok(aw_evaluate_day(&config, &app, 1, NULL, NULL, NULL, &again, NULL));
    assert_memory_equal(&row.life, &again.life, sizeof row.life);
    assert_memory_equal(&row.rule, &again.rule, sizeof row.rule);
    config.shelf = &shelf;
    assert_ok(aw_evaluate_day(&config, &app, 1, NULL, NULL, NULL, &again, NULL));
    assert_true(kept.asked == 2 && kept.put == 1);
    assert_memory_equal(&row.rule, &again.rule, sizeof row.rule);
    assert_memory_equal(&row.life, &again.life, sizeof row.life);
    assert_ok(aw_evaluate_day_sum(&config, &row, 1, NULL, &sum, NULL));
    assert_close(sum.cost_day2, row.cost_day2, 1e-12);
    assert_close(sum.cost_day2_median, row.cost_day2, 1e-12);
    assert_close(sum.priced_day1, row.priced_day1, 1e-12);
    assert_true(isnan(sum.cost_day2_without_best5));
    assert_int_equal(sum.goal_count, 14);
    aw_load_deinit(&app.day);
}

static void a_load_without_a_second_hour_is_refused(void **state)
{
    (void)state;
    struct aw_evaluate_config config;
    struct aw_evaluate_app app;
    struct aw_evaluate_day row;
    struct aw_diag diag;
    prepare(&config, &app);
    aw_load_deinit(&app.day);
    assert_ok(aw_load_parse("diurnal:length=2h", 1, NULL, &app.day, NULL));
    assert_int_equal(aw_evaluate_day(&config, &app, 1, NULL, NULL, NULL, &row, &diag),
                     AW_ERR_NODATA);
    assert_non_null(strstr(diag.text, "too short"));
    aw_load_deinit(&app.day);
}

/* A row by hand: `ratio` times the best baseline's cost, `missed` of 1000 steps. */
static struct aw_evaluate_day row_of(double ratio, uint64_t missed)
{
    struct aw_evaluate_day row = {.best = AW_EVALUATE_RULE_CONSTANT,
                                  .acting = 1,
                                  .worst_six_hours = (double)missed / 1000,
                                  .cost_day1 = 2 * ratio,
                                  .cost_day2 = ratio,
                                  .priced_day1 = 2 * ratio,
                                  .priced_day2 = ratio * (missed > 10 ? (double)missed / 10 : 1),
                                  .within_budget = missed <= 10};
    for (uint32_t s = 0; s < AW_EVALUATE_SPANS; s++) {
        row.life[s] = totals(missed, ratio);
        row.life[s].replica_changes = 30;
        for (uint32_t r = 0; r < AW_EVALUATE_RULES; r++) {
            row.rule[r][s] = totals(5, 1);
            row.rule[r][s].replica_changes = 10;
        }
    }
    return row;
}

static void a_summary_stands_without_its_five_best(void **state)
{
    (void)state;
    struct aw_evaluate_config config;
    struct aw_evaluate_day rows[7];
    struct aw_evaluate_day_sum sum;
    aw_evaluate_config_init(&config);
    config.seeds = 1;
    for (uint32_t i = 0; i < 5; i++)
        rows[i] = row_of(0.5, 8);
    rows[5] = row_of(2, 8);
    rows[6] = row_of(8, 22);
    assert_ok(aw_evaluate_day_sum(&config, rows, 7, NULL, &sum, NULL));
    assert_close(sum.cost_day2, exp2(-1.0 / 7), 1e-12);
    assert_close(sum.cost_day1, exp2(6.0 / 7), 1e-12);
    assert_close(sum.priced_day2, pow(0.5 * 2.2, 1.0 / 7), 1e-12);
    assert_close(sum.cost_day2_median, 0.5, 1e-12);
    assert_close(sum.cost_day2_without_best5, 4, 1e-12);
    assert_close(sum.missed_share[AW_EVALUATE_SPAN_DAY2], 0.01, 1e-12);
    assert_close(sum.within_share, 6.0 / 7, 1e-12);
    assert_close(sum.twice_share, 6.0 / 7, 1e-12);
    assert_close(sum.worst_six_hours, 0.022, 1e-12);
    assert_close(sum.changes_per_day / sum.changes_per_day_hpa, 3, 1e-12);
    assert_int_equal(sum.chosen[AW_EVALUATE_RULE_CONSTANT], 7);
    uint32_t met = 0;
    for (uint32_t i = 0; i < sum.goal_count; i++)
        met += aw_evaluate_met(&sum.goal[i]);
    assert_int_equal(met, 7); /* acts, three shares missed, worst hours, median, no reversal */
    assert_int_equal(sum.hopeless, 0);
    assert_close(sum.served.cost_day2, sum.cost_day2, 1e-12);
}

static void what_nothing_can_serve_has_a_line_of_its_own(void **state)
{
    (void)state;
    struct aw_evaluate_config config;
    struct aw_evaluate_day rows[3] = {row_of(0.5, 8), row_of(2, 12), row_of(8, 400)};
    struct aw_evaluate_day_sum sum;
    aw_evaluate_config_init(&config);
    config.seeds = 1;
    rows[2].hopeless = true;
    assert_ok(aw_evaluate_day_sum(&config, rows, 3, NULL, &sum, NULL));
    assert_int_equal(sum.hopeless, 1);
    assert_close(sum.missed_share[AW_EVALUATE_SPAN_DAY2], 0.14, 1e-12); /* all of them, as ever */
    assert_close(sum.served.missed_share[AW_EVALUATE_SPAN_DAY2], 0.01, 1e-12);
    assert_close(sum.served.worst_six_hours, 0.012, 1e-12);
    assert_close(sum.served.within_share, 0.5, 1e-12);
    assert_close(sum.served.cost_day1, 2, 1e-12);
    assert_close(sum.served.cost_day2, 1, 1e-12);
    rows[0].hopeless = rows[1].hopeless = true; /* nobody is left */
    assert_ok(aw_evaluate_day_sum(&config, rows, 3, NULL, &sum, NULL));
    assert_int_equal(sum.hopeless, 3);
    assert_true(isnan(sum.served.cost_day2) && isnan(sum.served.within_share));
}

static void a_change_at_noon_is_lived_by_all_three(void **state)
{
    (void)state;
    static struct aw_evaluate_drift rows[AW_EVALUATE_DRIFTS];
    struct aw_evaluate_config config;
    struct aw_evaluate_app app;
    prepare(&config, &app);
    aw_load_deinit(&app.day);
    assert_ok(aw_load_parse("diurnal:length=6h", 1, NULL, &app.day, NULL));
    config.seeds = 1;
    /* what comes of it is for other tests: all three act alike */
    config.pilot.learning = config.pilot.relief.enabled = false;
    assert_ok(
        aw_evaluate_drift(&config, &app, 1, AW_EVALUATE_DRIFTS, NULL, NULL, NULL, rows, NULL));
    for (uint32_t k = 0; k < AW_EVALUATE_DRIFTS; k++) {
        const struct aw_totals *own = &rows[k].after[AW_EVALUATE_RELEARNS],
                               *frozen = &rows[k].after[AW_EVALUATE_STAYS],
                               *anew = &rows[k].after[AW_EVALUATE_ANEW];
        assert_int_equal(rows[k].kind, k);
        assert_int_equal(rows[k].index, 20);
        assert_int_equal(own->steps, 720);
        assert_int_equal(rows[k].hour1[AW_EVALUATE_ANEW].steps, 240);
        assert_int_equal(rows[k].later[AW_EVALUATE_STAYS].steps, 240);
        assert_true(fabs(own->requests / anew->requests - 1) < 0.05);
        assert_int_equal(own->violations, frozen->violations); /* judged alike, told or not */
        assert_close(own->cost, frozen->cost, 1e-9);
    }
    const struct aw_totals *less = &rows[AW_EVALUATE_DRIFT_LESS].after[AW_EVALUATE_STAYS],
                           *more = &rows[AW_EVALUATE_DRIFT_MORE].after[AW_EVALUATE_STAYS],
                           *slo = &rows[AW_EVALUATE_DRIFT_SLO].after[AW_EVALUATE_STAYS],
                           *price = &rows[AW_EVALUATE_DRIFT_PRICE].after[AW_EVALUATE_STAYS];
    assert_true(fabs(more->requests / less->requests - 5) <
                0.25); /* the heavier world is the same */
    assert_true(fabs(slo->requests / price->requests - 1) < 0.05);
    assert_true(slo->violations >= price->violations);
    const struct aw_prices prices = config.pilot.prices;
    assert_close(price->cost,
                 (price->core_s * prices.core_hour + 4 * price->gib_s * prices.gib_hour) / 3600,
                 1e-6 * price->cost);
    aw_load_deinit(&app.day);
}

static struct aw_evaluate_drift drift_row(double own, double frozen, uint64_t frozen_missed)
{
    struct aw_evaluate_drift row = {.kind = AW_EVALUATE_DRIFT_CPU};
    const struct aw_totals all[AW_EVALUATE_DRIFTERS] = {
        totals(60, own), totals(frozen_missed, frozen), totals(5, 1)};
    memcpy(row.hour1, all, sizeof all);
    row.hour1[AW_EVALUATE_RELEARNS] = totals(60, own);
    memcpy(row.later, all, sizeof all);
    row.later[AW_EVALUATE_RELEARNS].violations = 10;
    memcpy(row.after, row.later, sizeof row.after);
    return row;
}

static void the_gap_is_one_of_priced_logarithms(void **state)
{
    (void)state;
    struct aw_evaluate_config config;
    struct aw_evaluate_drift_sum sum;
    aw_evaluate_config_init(&config);
    /* twice as dear as need be, and four times for missing 4 %: halves of it are closed */
    const struct aw_evaluate_drift rows[] = {drift_row(sqrt(2), 2, 10), drift_row(2, 1, 40)};
    aw_evaluate_drift_sum(&config, rows, 2, &sum);
    assert_int_equal(sum.by[AW_EVALUATE_DRIFT_CPU].apps, 2);
    assert_close(sum.by[AW_EVALUATE_DRIFT_CPU].cost[AW_EVALUATE_STAYS], sqrt(8), 1e-12);
    assert_close(sum.by[AW_EVALUATE_DRIFT_CPU].closed, 0.5, 1e-12);
    assert_close(sum.by[AW_EVALUATE_DRIFT_CPU].dearest, sqrt(0.5), 1e-12);
    assert_int_equal(sum.goal_count, 3);
    assert_false(aw_evaluate_met(&sum.goal[0]));
    assert_false(aw_evaluate_met(&sum.goal[1])); /* 6 % in the first hour */
    assert_true(aw_evaluate_met(&sum.goal[2]));
    const struct aw_evaluate_drift alike = drift_row(1, 1, 5);
    aw_evaluate_drift_sum(&config, &alike, 1, &sum);
    assert_true(isnan(sum.by[AW_EVALUATE_DRIFT_CPU].closed)); /* there is no gap */
    assert_int_equal(sum.goal_count, 2);
}

AW_TEST_GROUP("evaluate-day")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_miss_has_the_first_reason_that_is_true),
        cmocka_unit_test(the_worst_window_is_found_wherever_it_lies),
        cmocka_unit_test(the_best_baseline_keeps_the_budget_for_the_least),
        cmocka_unit_test(the_budget_comes_first_or_cost_at_no_more_misses),
        cmocka_unit_test(misses_beyond_the_budget_are_priced),
        cmocka_unit_test(everybody_lives_through_the_same_day_and_every_miss_is_labelled),
        cmocka_unit_test(a_load_without_a_second_hour_is_refused),
        cmocka_unit_test(a_summary_stands_without_its_five_best),
        cmocka_unit_test(what_nothing_can_serve_has_a_line_of_its_own),
        cmocka_unit_test(a_change_at_noon_is_lived_by_all_three),
        cmocka_unit_test(the_gap_is_one_of_priced_logarithms),
    };
    return cmocka_run_group_tests_name("evaluate-day", tests, NULL, NULL);
}
