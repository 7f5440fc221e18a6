/* counterfactual_test.c - a day that was recorded, played again by what was recorded and by others.
 * */
#include "study/counterfactual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "cluster/sim.h"
#include "workload/apps.h"

#define STEPS 960u /* four hours of 15 s */

/* A workload with a known application, run by the HPA: what a store would have kept of it. */
struct day {
    struct aw_pilot_config pilot;
    struct aw_counterfactual_step step[STEPS];
    double cost_per_hour, violation_share;
};

static void config_make(struct aw_pilot_config *config)
{
    aw_pilot_config_init(config);
    snprintf(config->name, sizeof config->name, "default/web");
    config->bounds = (struct aw_bounds){.replicas_min = 1,
                                        .replicas_max = 12,
                                        .cpu_millicores_min = 100,
                                        .cpu_millicores_max = 4000,
                                        .memory_bytes_min = INT64_C(64) << 20,
                                        .memory_bytes_max = INT64_C(4) << 30};
    config->controlled = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY;
    config->slo = (struct aw_slo){.latency_us_p99 = 120000, .timeout_us = 10e6};
    config->slo_budget = 0.02;
    config->step_s = 15;
    config->guard.mode = AW_GUARD_AUTO;
}

static void day_live(struct day *day, double quantile, double slo_us)
{
    const struct aw_app app = {.name = "web",
                               .segment_count = 1,
                               .segment[0] = {.name = "web",
                                              .cpu_ms = 8,
                                              .cpu_cv = 0.5,
                                              .io_ms = 12,
                                              .io_cv = 0.5,
                                              .memory_base_mib = 90,
                                              .memory_flight_mib = 1,
                                              .parallelism = 1,
                                              .cold_start_ms = 2000}};
    struct aw_load load;
    struct aw_sim_settings settings;
    struct aw_sim *sim = NULL;
    struct aw_fallback *policy = NULL;
    struct aw_fallback_settings hpa;
    uint32_t index;
    config_make(&day->pilot);
    day->pilot.slo.quantile = quantile;
    day->pilot.slo.latency_us_p99 = slo_us;
    assert_ok(aw_load_parse("diurnal:mean=150/s,peak=3,period=2h", 3, NULL, &load, NULL));
    aw_conf_defaults(aw_sim_fields, &settings);
    assert_ok(aw_sim_new(&settings, 5, 1, NULL, &sim, NULL));
    const struct aw_sim_workload workload = {.app = app,
                                             .load = &load,
                                             .replicas = 3,
                                             .replicas_max = 12,
                                             .cpu_millicores = 1000,
                                             .memory_bytes = INT64_C(256) << 20};
    assert_ok(aw_sim_add(sim, &workload, &index, NULL));
    assert_ok(aw_sim_reset(sim, 5)); /* replicas are placed and ready */
    aw_conf_defaults(aw_fallback_fields, &hpa);
    hpa.kind = AW_FALLBACK_HPA;
    hpa.hpa_target = 60;
    const struct aw_fallback_task task = {.bounds = day->pilot.bounds,
                                          .slo_latency_us = 120000,
                                          .replicas = 3,
                                          .cpu_millicores = 1000,
                                          .memory_bytes = INT64_C(256) << 20};
    assert_ok(aw_fallback_new(&hpa, &task, NULL, &policy, NULL));
    const struct aw_cluster cluster = aw_sim_cluster(sim);
    const struct aw_objective objective = {.slo_weight = 0.5,
                                           .slo = day->pilot.slo,
                                           .prices = day->pilot.prices,
                                           .cost_reference_per_hour = 1};
    double cost = 0;
    uint32_t missed = 0;
    assert_ok(cluster.ops->advance(cluster.self, 15000000));
    for (uint32_t t = 0; t < STEPS; t++) {
        const int64_t now = cluster.ops->now_us(cluster.self);
        struct aw_sample sample;
        struct aw_reading reading;
        struct aw_plan plan;
        struct aw_score score;
        assert_ok(cluster.ops->observe(cluster.self, 0, INT64_MAX, &sample));
        aw_fallback_decide(policy, &sample, now, &plan, NULL);
        if (plan.set)
            assert_ok(cluster.ops->apply(cluster.self, 0, &plan, INT64_MAX));
        assert_ok(cluster.ops->advance(cluster.self, now + 15000000));
        assert_ok(cluster.ops->observe(cluster.self, 0, INT64_MAX, &sample));
        aw_reading_take(&sample, 45000000, quantile, &reading);
        const struct aw_outcome outcome = aw_outcome_of(&reading);
        aw_objective_score(&objective, &outcome, 15, &score);
        day->step[t] = (struct aw_counterfactual_step){
            .at_us = now,
            .arrivals_per_s = reading.arrivals_per_s,
            .latency_us_p99 = reading.latency_us_slo,
            .cpu_utilisation = reading.cpu_utilisation,
            .memory_utilisation = reading.memory_utilisation,
            .in_flight = reading.in_flight,
            .throttled_share = reading.throttled_share,
            .ready_share = (double)reading.replicas_ready / reading.replicas_wanted,
            .cost = score.cost,
            .cpu_millicores = reading.cpu_millicores_wanted,
            .memory_bytes = reading.memory_bytes_wanted,
            .replicas = reading.replicas_wanted,
            .violated = score.violated,
        };
        if (t >= 8) {
            cost += score.cost;
            missed += score.violated;
        }
    }
    day->cost_per_hour = cost * 240 / (STEPS - 8);
    day->violation_share = (double)missed / (STEPS - 8);
    aw_fallback_free(policy);
    aw_sim_free(sim);
    aw_load_deinit(&load);
}

static struct day *the_day(void)
{
    static struct day day;
    if (day.cost_per_hour <= 0)
        day_live(&day, 0.99, 120000);
    return &day;
}

static struct aw_counterfactual *counterfactual_of(struct day *day, uint32_t copies, uint64_t seed)
{
    struct aw_counterfactual *counterfactual = NULL;
    const struct aw_counterfactual_config config = {
        .pilot = &day->pilot, .copies = copies, .seed = seed};
    assert_ok(aw_counterfactual_new(&config, day->step, STEPS, NULL, &counterfactual, NULL));
    return counterfactual;
}

static void what_was_recorded_costs_on_the_copy_what_it_cost(void **state)
{
    struct day *day = the_day();
    struct aw_counterfactual *counterfactual = counterfactual_of(day, 2, 1);
    struct aw_counterfactual_result result;
    static struct aw_counterfactual_point points[STEPS];
    const struct aw_counterfactual_player recorded = {.kind = AW_COUNTERFACTUAL_RECORDED};
    (void)state;
    assert_ok(aw_counterfactual_play(counterfactual, &recorded, points, &result, NULL));
    assert_true(fabs(result.cost_per_hour / day->cost_per_hour - 1) < 0.02);
    assert_true(fabs(result.violation_share - day->violation_share) < 0.03);
    assert_true(result.off < 0.15); /* of ln p99: within about a seventh */
    assert_int_equal(result.beyond, 0);
    assert_int_equal(result.scored, STEPS - 8);
    for (uint32_t t = 1; t < STEPS; t++)
        assert_int_equal(points[t].replicas, day->step[t].replicas);
    aw_counterfactual_free(counterfactual);
}

/* Rows have the one latency that the SLO speaks of: here the median. */
static void a_record_of_medians_is_played_again_as_one(void **state)
{
    (void)state;
    static struct day day;
    struct aw_counterfactual_result result;
    const struct aw_counterfactual_player recorded = {.kind = AW_COUNTERFACTUAL_RECORDED};
    day_live(&day, 0.5, 26000);
    struct aw_counterfactual *counterfactual = counterfactual_of(&day, 2, 1);
    assert_ok(aw_counterfactual_play(counterfactual, &recorded, NULL, &result, NULL));
    assert_true(result.off < 0.05); /* fitted as if they were p99s they are off by a third */
    assert_true(fabs(result.cost_per_hour / day.cost_per_hour - 1) < 0.02);
    aw_counterfactual_free(counterfactual);
}

static void who_asks_for_more_pays_more_and_for_less_misses_more(void **state)
{
    struct day *day = the_day();
    struct aw_counterfactual *counterfactual = counterfactual_of(day, 1, 1);
    struct aw_counterfactual_result recorded, lazy, eager;
    struct aw_fallback_settings hpa;
    (void)state;
    aw_conf_defaults(aw_fallback_fields, &hpa);
    hpa.kind = AW_FALLBACK_HPA;
    assert_ok(aw_counterfactual_play(
        counterfactual, &(struct aw_counterfactual_player){.kind = AW_COUNTERFACTUAL_RECORDED},
        NULL, &recorded, NULL));
    hpa.hpa_target = 95;
    const struct aw_counterfactual_player player = {.kind = AW_COUNTERFACTUAL_POLICY,
                                                    .policy = &hpa};
    assert_ok(aw_counterfactual_play(counterfactual, &player, NULL, &lazy, NULL));
    hpa.hpa_target = 30;
    assert_ok(aw_counterfactual_play(counterfactual, &player, NULL, &eager, NULL));
    assert_true(lazy.cost_per_hour < recorded.cost_per_hour);
    assert_true(lazy.violation_share > recorded.violation_share);
    assert_true(eager.cost_per_hour > recorded.cost_per_hour);
    assert_true(eager.violation_share <= recorded.violation_share + 0.005);
    assert_true(isnan(eager.off));
    aw_counterfactual_free(counterfactual);
}

static void the_same_rows_and_seed_give_the_same_bytes(void **state)
{
    struct day *day = the_day();
    struct aw_counterfactual_result result[2];
    struct aw_fallback_settings policy;
    (void)state;
    aw_conf_defaults(aw_fallback_fields, &policy);
    memset(result, 0, sizeof result);
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_counterfactual *counterfactual = counterfactual_of(day, 2, 9);
        const struct aw_counterfactual_player player = {.kind = AW_COUNTERFACTUAL_POLICY,
                                                        .policy = &policy};
        assert_ok(aw_counterfactual_play(counterfactual, &player, NULL, &result[i], NULL));
        aw_counterfactual_free(counterfactual);
    }
    assert_true(result[0].cost_per_hour == result[1].cost_per_hour);
    assert_true(result[0].violation_share == result[1].violation_share);
    assert_int_equal(result[0].replica_changes, result[1].replica_changes);
}

static void sizes_that_nobody_tried_are_counted(void **state)
{
    struct day *day = the_day();
    struct aw_counterfactual *counterfactual = counterfactual_of(day, 1, 1);
    struct aw_counterfactual_result result;
    struct aw_capacity_rule rule;
    (void)state;
    aw_capacity_rule_plain(&rule);
    rule.x[AW_CAPACITY_RULE_CPU] = 0.9; /* about three cores, where one was tried */
    const struct aw_counterfactual_player player = {.kind = AW_COUNTERFACTUAL_CAPACITY_RULE,
                                                    .rule = &rule};
    assert_ok(aw_counterfactual_play(counterfactual, &player, NULL, &result, NULL));
    assert_true(result.beyond > result.scored / 2);
    aw_counterfactual_free(counterfactual);
}

static void too_little_is_told_and_no_memory_leaves_nothing(void **state)
{
    struct day *day = the_day();
    struct aw_counterfactual *counterfactual = NULL;
    struct aw_diag diag = {0};
    const struct aw_counterfactual_config config = {.pilot = &day->pilot, .copies = 1, .seed = 1};
    (void)state;
    assert_int_equal(aw_counterfactual_new(&config, day->step, 20, NULL, &counterfactual, &diag),
                     AW_ERR_NODATA);
    assert_non_null(strstr(diag.text, "20 steps"));
    static struct aw_counterfactual_step blind[STEPS];
    memcpy(blind, day->step, sizeof blind);
    for (uint32_t t = 0; t < STEPS; t++)
        blind[t].latency_us_p99 = NAN;
    assert_int_equal(aw_counterfactual_new(&config, blind, STEPS, NULL, &counterfactual, &diag),
                     AW_ERR_NODATA);
    assert_null(counterfactual);
    struct aw_alloc_counting counting;
    for (uint64_t n = 0;; n++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        const enum aw_err err =
            aw_counterfactual_new(&config, day->step, 200, &counting.alloc, &counterfactual, NULL);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_null(counterfactual);
        assert_int_equal(counting.alloc_count, counting.free_count);
        assert_true(n < 100);
    }
    aw_counterfactual_free(counterfactual);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

static void a_row_gives_back_what_its_state_hides(void **state)
{
    struct aw_pilot_config config;
    float obs[AW_STATE_DEFAULT_DIM] = {0};
    struct aw_state axes;
    struct aw_counterfactual_step step;
    (void)state;
    config_make(&config);
    const struct aw_state_config scale = {.preset = AW_STATE_DEFAULT,
                                          .bounds = config.bounds,
                                          .slo = config.slo,
                                          .disk_bytes_per_s_max = 1,
                                          .net_bytes_per_s_max = 1};
    aw_state_init(&axes, &scale);
    for (uint32_t i = 0; i < AW_STATE_DEFAULT_DIM; i++) {
        if (!strcmp(aw_state_axes[i].name, "in_flight"))
            obs[i] = log1pf(7.0f) * axes.in_flight_scale; /* seven of each replica */
        if (!strcmp(aw_state_axes[i].name, "ready"))
            obs[i] = 0.5f;
    }
    const struct aw_store_row row = {.obs_dim = AW_STATE_DEFAULT_DIM,
                                     .obs = obs,
                                     .next_obs = obs,
                                     .figures = {.arrivals_per_s = 10, .replicas = 4}};
    aw_counterfactual_step_of(&config, &row, &step);
    assert_true(fabs(step.in_flight - 14) < 1e-3);
    assert_true(step.ready_share == 0.5);
    config.state = AW_STATE_PAPER; /* which does not count requests */
    aw_counterfactual_step_of(&config, &row, &step);
    assert_true(isnan(step.in_flight));
}

AW_TEST_GROUP("counterfactual")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_recorded_costs_on_the_copy_what_it_cost),
        cmocka_unit_test(a_record_of_medians_is_played_again_as_one),
        cmocka_unit_test(who_asks_for_more_pays_more_and_for_less_misses_more),
        cmocka_unit_test(the_same_rows_and_seed_give_the_same_bytes),
        cmocka_unit_test(sizes_that_nobody_tried_are_counted),
        cmocka_unit_test(too_little_is_told_and_no_memory_leaves_nothing),
        cmocka_unit_test(a_row_gives_back_what_its_state_hides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
