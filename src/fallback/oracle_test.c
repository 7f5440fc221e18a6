#include "fallback/oracle.h"

#include "base/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP_US 15000000ll

static const struct aw_fallback_task task = {
    .bounds = {.min = {1, 100, 64 << 20}, .max = {20, 4000, 4ll << 30}},
    .slo_latency_us = 200e3,
    .replicas = 4,
    .cpu_millicores = 1000,
    .memory_bytes = 512 << 20,
};
static const struct aw_objective objective = {
    .kind = AW_OBJECTIVE_PAPER,
    .slo_weight = 0.5,
    .slo = {.latency_us_p99 = 200e3, .timeout_us = 30e6},
    .prices = {.core_hour = 0.04, .gib_hour = 0.005},
    .cost_reference_per_hour = 1,
};

struct world {
    struct aw_load load;
    struct aw_sim *sim;
    struct aw_cluster cluster;
};

static void world_make(struct world *w, double mean, uint32_t model)
{
    struct aw_load_settings load;
    struct aw_sim_settings settings;
    uint32_t index;
    aw_conf_defaults(aw_load_fields, &load);
    load.mean_per_s = mean;
    assert_ok(aw_load_generate(&load, 1, NULL, &w->load, NULL));
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.model = model;
    assert_ok(aw_sim_new(&settings, 1, 1, NULL, &w->sim, NULL));
    const struct aw_sim_workload workload = {
        .app = {.name = "plain",
                .segment_count = 1,
                .segment = {{.name = "work",
                             .cpu_ms = 20,
                             .cpu_cv = 0.3,
                             .memory_base_mib = 100,
                             .memory_flight_mib = 2,
                             .parallelism = 1,
                             .cold_start_ms = 500}}},
        .load = &w->load,
        .replicas = task.replicas,
        .replicas_max = task.bounds.replicas_max,
        .cpu_millicores = task.cpu_millicores,
        .memory_bytes = task.memory_bytes,
    };
    assert_ok(aw_sim_add(w->sim, &workload, &index, NULL));
    w->cluster = aw_sim_cluster(w->sim);
}

static void world_free(struct world *w)
{
    aw_sim_free(w->sim);
    aw_load_deinit(&w->load);
}

static struct aw_oracle *make(const struct world *w, enum aw_oracle_goal goal)
{
    struct aw_oracle_settings settings;
    struct aw_oracle *oracle = NULL;
    aw_conf_defaults(aw_oracle_fields, &settings);
    settings.goal = goal;
    settings.size_horizon = 8;
    assert_ok(aw_oracle_new(&settings, &task, &objective, 0.01, 15, w->sim, NULL, &oracle, NULL));
    return oracle;
}

static void step(struct world *w, struct aw_oracle *oracle, const struct aw_plan *plan)
{
    struct aw_score score;
    assert_ok(w->cluster.ops->apply(w->cluster.self, 0, plan, INT64_MAX));
    assert_ok(w->cluster.ops->advance(w->cluster.self,
                                      w->cluster.ops->now_us(w->cluster.self) + STEP_US));
    const struct aw_sim_truth *truth = aw_sim_truth(w->sim, 0);
    const struct aw_outcome outcome = aw_outcome_of_truth(truth, 15);
    aw_objective_score(&objective, &outcome, 15, &score);
    aw_oracle_learn(oracle, truth, &score);
}

static void looking_changes_nothing_and_plans_are_within_the_bounds(void **state)
{
    (void)state;
    for (int goal = AW_ORACLE_REWARD; goal <= AW_ORACLE_COST; goal++) {
        struct world w;
        world_make(&w, 100, AW_SIM_FAST);
        struct aw_oracle *oracle = make(&w, (enum aw_oracle_goal)goal);
        const size_t size = aw_sim_state_bytes(w.sim);
        unsigned char *before = malloc(size), *after = malloc(size);
        assert_non_null(before);
        assert_non_null(after);
        uint32_t searched = 0;
        for (int i = 0; i < 40; i++) {
            struct aw_plan plan, again;
            struct aw_fallback_reason reason;
            aw_sim_state_save(w.sim, before);
            assert_ok(aw_oracle_decide(oracle, w.sim, 0, &w.load, 0, &plan, &reason));
            aw_sim_state_save(w.sim, after);
            assert_memory_equal(before, after, size);
            again = plan;
            aw_bounds_clip(&task.bounds, &again);
            assert_memory_equal(&again, &plan, sizeof plan);
            searched += reason.cause == AW_FALLBACK_CAUSE_SEARCHED;
            step(&w, oracle, &plan);
        }
        assert_int_equal(searched, 39); /* all but the first, before which nothing was measured */
        aw_oracle_free(oracle);
        free(before);
        free(after);
        world_free(&w);
    }
}

static void a_reset_oracle_repeats_itself(void **state)
{
    (void)state;
    struct world w;
    struct aw_plan first[30];
    world_make(&w, 100, AW_SIM_FAST);
    struct aw_oracle *oracle = make(&w, AW_ORACLE_COST);
    for (int turn = 0; turn < 2; turn++) {
        assert_ok(aw_sim_reset(w.sim, 5));
        aw_oracle_reset(oracle);
        for (int i = 0; i < 30; i++) {
            struct aw_plan plan;
            assert_ok(aw_oracle_decide(oracle, w.sim, 0, &w.load, 0, &plan, NULL));
            if (turn == 0)
                first[i] = plan;
            else
                assert_memory_equal(&plan, &first[i], sizeof plan);
            step(&w, oracle, &plan);
        }
    }
    aw_oracle_free(oracle);
    world_free(&w);
}

/* It knows that a tenth of what was enough will be, before any metric shows it. */
static void it_acts_on_load_that_has_not_come_yet(void **state)
{
    (void)state;
    struct world w;
    world_make(&w, 100, AW_SIM_FAST);
    for (uint32_t i = 0; i < w.load.slot_count; i++) /* a step up after 10 minutes */
        w.load.rate_per_s[i] = i * w.load.slot_us < 40 * STEP_US ? 40.0F : 300.0F;
    struct aw_oracle *oracle = make(&w, AW_ORACLE_COST);
    double cores_before = 0, cores_at = 0;
    uint32_t violated = 0;
    for (int i = 0; i < 60; i++) {
        struct aw_plan plan;
        struct aw_sample sample;
        assert_ok(aw_oracle_decide(oracle, w.sim, 0, &w.load, 0, &plan, NULL));
        step(&w, oracle, &plan);
        assert_ok(w.cluster.ops->observe(w.cluster.self, 0, INT64_MAX, &sample));
        const double cores = 1e-3 * (double)sample.cpu_millicores_wanted * sample.replicas_wanted;
        if (i == 30)
            cores_before = cores;
        if (i == 39) /* the last step of the old load */
            cores_at = cores;
        violated +=
            i >= 30 && aw_sim_truth(w.sim, 0)->latency_us_p99 > objective.slo.latency_us_p99;
    }
    assert_true(cores_at > 2 * cores_before);
    assert_true(violated <= 3);
    aw_oracle_free(oracle);
    world_free(&w);
}

static void the_reference_model_has_nothing_to_look_into(void **state)
{
    (void)state;
    struct world w;
    world_make(&w, 10, AW_SIM_REFERENCE);
    struct aw_oracle *oracle = make(&w, AW_ORACLE_REWARD);
    struct aw_plan plan;
    assert_int_equal(aw_oracle_decide(oracle, w.sim, 0, &w.load, 0, &plan, NULL),
                     AW_ERR_UNSUPPORTED);
    aw_oracle_free(oracle);
    world_free(&w);
}

static void memory_is_asked_for_once(void **state)
{
    (void)state;
    struct world w;
    struct aw_oracle_settings settings;
    struct aw_alloc_counting counting;
    struct aw_oracle *oracle = NULL;
    world_make(&w, 100, AW_SIM_FAST);
    aw_conf_defaults(aw_oracle_fields, &settings);
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw_oracle_new(&settings, &task, &objective, 0.01, 15, w.sim, &counting.alloc,
                                   &oracle, NULL),
                     AW_ERR_NOMEM);
    assert_null(oracle);
    counting.fail_after = 1;
    counting.alloc_count = 0;
    assert_ok(aw_oracle_new(&settings, &task, &objective, 0.01, 15, w.sim, &counting.alloc, &oracle,
                            NULL));
    for (int i = 0; i < 3; i++) {
        struct aw_plan plan;
        assert_ok(aw_oracle_decide(oracle, w.sim, 0, &w.load, 0, &plan, NULL));
        step(&w, oracle, &plan);
    }
    assert_int_equal(counting.alloc_count, 1);
    aw_oracle_free(oracle);
    assert_int_equal(counting.free_count, 1);
    aw_oracle_free(NULL);
    world_free(&w);
}

AW_TEST_GROUP("oracle")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looking_changes_nothing_and_plans_are_within_the_bounds),
        cmocka_unit_test(a_reset_oracle_repeats_itself),
        cmocka_unit_test(it_acts_on_load_that_has_not_come_yet),
        cmocka_unit_test(the_reference_model_has_nothing_to_look_into),
        cmocka_unit_test(memory_is_asked_for_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
