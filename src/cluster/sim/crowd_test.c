/* crowd_test.c - hardware threads that share a core, and requests that go where there are fewest.
 */
#include "cluster/sim.h"

#include "base/testing.h"

#include <math.h>

#define MINUTES_US (INT64_C(4) * 60 * 1000000)

/* Runs a workload of `replicas` at `rate_per_s` on one node of two hardware threads. */
static struct aw_sim_truth run(uint32_t model, uint32_t routing, double crowding, uint32_t threads,
                               uint32_t replicas, double rate_per_s)
{
    struct aw_sim_settings settings;
    struct aw_sim *sim = NULL;
    struct aw_diag diag = {0};
    uint32_t index = 0;
    float rate = (float)rate_per_s;
    const struct aw_load load = {.slot_count = 1, .slot_us = 1000000000000, .rate_per_s = &rate};
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.model = model;
    settings.routing = routing;
    settings.node_count = 1;
    settings.node_cores = 2;
    settings.request_timeout_s = 3600; /* who waits is not given up */
    struct aw_sim_workload workload = {.load = &load,
                                       .replicas = replicas,
                                       .replicas_max = replicas,
                                       .cpu_millicores = 600,
                                       .memory_bytes = (int64_t)1 << 32};
    workload.app.segment_count = 1;
    workload.app.segment[0] = (struct aw_segment){
        .cpu_ms = 10, .cpu_cv = 0.5, .parallelism = 1, .threads = threads, .crowding = crowding};
    if (aw_sim_new(&settings, 3, 1, NULL, &sim, &diag) || aw_sim_add(sim, &workload, &index, &diag))
        fail_msg("%s", diag.text);
    const struct aw_cluster cluster = aw_sim_cluster(sim);
    assert_ok(cluster.ops->advance(cluster.self, MINUTES_US));
    const struct aw_sim_truth truth = *aw_sim_truth(sim, index);
    aw_sim_free(sim);
    return truth;
}

static double cost_ms(const struct aw_sim_truth *truth)
{
    return 1e3 * truth->cpu_core_s / truth->completions;
}

static void who_shares_a_core_is_dearer_the_more_there_is_to_do(void **state)
{
    (void)state;
    static const uint32_t models[] = {AW_SIM_REFERENCE, AW_SIM_FAST};
    for (uint32_t i = 0; i < 2; i++) {
        const struct aw_sim_truth idle = run(models[i], AW_SIM_RANDOM, 1, 0, 1, 1),
                                  busy = run(models[i], AW_SIM_RANDOM, 1, 0, 1, 24),
                                  alone = run(models[i], AW_SIM_RANDOM, 0, 0, 1, 24);
        assert_close(cost_ms(&alone), 10, 0.4);
        assert_close(cost_ms(&idle), 10, 0.6);
        assert_true(cost_ms(&busy) > 1.1 * cost_ms(&alone));
        assert_true(cost_ms(&busy) < 2 * cost_ms(&alone));
        assert_true(busy.latency_us_mean > alone.latency_us_mean);
    }
}

static void a_single_worker_has_nobody_to_share_a_core_with(void **state)
{
    (void)state;
    const struct aw_sim_truth crowded = run(AW_SIM_REFERENCE, AW_SIM_RANDOM, 1, 1, 1, 30),
                              alone = run(AW_SIM_REFERENCE, AW_SIM_RANDOM, 0, 1, 1, 30);
    assert_close(crowded.latency_us_mean, alone.latency_us_mean, 1e-6);
    assert_close(crowded.cpu_core_s, alone.cpu_core_s, 1e-9);
}

static void too_much_is_answered_half_as_fast_where_work_takes_twice_as_long(void **state)
{
    (void)state;
    static const uint32_t models[] = {AW_SIM_REFERENCE, AW_SIM_FAST};
    for (uint32_t i = 0; i < 2; i++) {
        const struct aw_sim_truth crowded = run(models[i], AW_SIM_RANDOM, 1, 0, 1, 90),
                                  alone = run(models[i], AW_SIM_RANDOM, 0, 0, 1, 90);
        assert_close(crowded.completions / alone.completions, 0.5, 0.1);
    }
}

static void the_fewest_is_a_better_choice_than_any(void **state)
{
    (void)state;
    static const uint32_t models[] = {AW_SIM_REFERENCE, AW_SIM_FAST};
    for (uint32_t i = 0; i < 2; i++) {
        const struct aw_sim_truth any = run(models[i], AW_SIM_RANDOM, 0, 0, 3, 120),
                                  least = run(models[i], AW_SIM_LEAST, 0, 0, 3, 120);
        assert_true(least.latency_us_p99 < any.latency_us_p99);
        assert_true(least.latency_us_mean < any.latency_us_mean);
        assert_close(least.cpu_core_s / any.cpu_core_s, 1, 0.03);
    }
}

AW_TEST_GROUP("sim-crowd")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_shares_a_core_is_dearer_the_more_there_is_to_do),
        cmocka_unit_test(a_single_worker_has_nobody_to_share_a_core_with),
        cmocka_unit_test(too_much_is_answered_half_as_fast_where_work_takes_twice_as_long),
        cmocka_unit_test(the_fewest_is_a_better_choice_than_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
