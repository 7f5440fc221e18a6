#include "base/testing.h"
#include "cluster/sim/internal.h"

#include <string.h>

#define TURNS 3000

/* Free share of the scarcer resource after one more pod; -1: no room. */
static double naive_score(const struct aw_sim *sim, uint32_t n, double cores, double memory_mib)
{
    const struct aw__world *world = sim->world;
    const struct aw__nodes *nodes = sim->nodes;
    const double node_cores = sim->settings.node_cores, node_mib = aw__node_memory_mib(sim);
    const double cpu = node_cores * (1 - world->neighbour_cpu) - nodes->cores_taken[n] - cores;
    const double memory =
        node_mib * (1 - world->neighbour_memory) - nodes->memory_taken_mib[n] - memory_mib;
    if (nodes->down_until_us[n] > world->now_us || cpu < -AW__CORES_SLACK ||
        memory < -AW__MEMORY_SLACK_MIB)
        return -1;
    return aw__min(cpu / node_cores, memory / node_mib);
}

/* Pod by pod, the best node, the first of equals. */
static uint32_t naive_take(struct aw_sim *sim, double cores, double memory_mib, uint32_t count,
                           uint16_t *ret_on_node)
{
    for (uint32_t placed = 0; placed < count; placed++) {
        uint32_t best = 0;
        double most = -1;
        for (uint32_t n = 0; n < sim->settings.node_count; n++) {
            const double score = naive_score(sim, n, cores, memory_mib);
            if (score > most) {
                most = score;
                best = n;
            }
        }
        if (most <= -1)
            return placed;
        sim->nodes->cores_taken[best] += cores;
        sim->nodes->memory_taken_mib[best] += memory_mib;
        ret_on_node[best]++;
    }
    return count;
}

/* Nodes as they may be: empty and alike, unequal, full, down; sizes that leave ties. */
static void draw_nodes(struct aw_sim *sim, struct aw_rng *rng)
{
    const bool alike = aw_rng_below(rng, 3) == 0, some_down = aw_rng_below(rng, 4) == 0;
    const double full = aw_rng_double(rng);
    sim->world->neighbour_cpu = aw_rng_below(rng, 3) == 0 ? 0.3 : 0;
    sim->world->neighbour_memory = aw_rng_below(rng, 3) == 0 ? 0.2 : 0;
    for (uint32_t n = 0; n < sim->settings.node_count; n++) {
        const double cpu = alike ? full : full * aw_rng_double(rng);
        const double memory = alike ? full : full * aw_rng_double(rng);
        sim->nodes->cores_taken[n] = sim->settings.node_cores * cpu;
        sim->nodes->memory_taken_mib[n] = aw__node_memory_mib(sim) * memory;
        sim->nodes->down_until_us[n] = some_down && aw_rng_below(rng, 2) ? 1e6 : -AW__NEVER_US;
    }
}

static void pods_go_where_one_by_one_would_put_them(void **state)
{
    (void)state;
    static const uint32_t node_counts[] = {1, 2, 3, 5, 8, 13, 64};
    struct aw_rng rng;
    aw_rng_init(&rng, 7, 0);
    uint32_t partly = 0, none = 0;
    for (uint32_t s = 0; s < sizeof node_counts / sizeof *node_counts; s++) {
        struct aw_sim_settings settings;
        struct aw_sim *sim, *twin;
        aw_conf_defaults(aw_sim_fields, &settings);
        settings.node_count = node_counts[s];
        settings.node_cores = s % 2 ? 16 : 12.3; /* a power of two, and not */
        assert_ok(aw_sim_new(&settings, 1, 1, NULL, &sim, NULL));
        assert_ok(aw_sim_new(&settings, 1, 1, NULL, &twin, NULL));
        for (uint32_t turn = 0; turn < TURNS / node_counts[s] + 50; turn++) {
            uint16_t got[AW_SIM_NODES_MAX] = {0}, expected[AW_SIM_NODES_MAX] = {0};
            draw_nodes(sim, &rng);
            *twin->world = *sim->world;
            *twin->nodes = *sim->nodes;
            /* from pods so small that a node's score does not change to pods as large as a node */
            const double size = turn % 10 == 0 ? 1e-17 : exp(aw_rng_uniform(&rng, -6, 0));
            const double cores = settings.node_cores * size;
            const double memory_mib = aw__node_memory_mib(sim) * size * aw_rng_double(&rng);
            /* now and then more than a byte can count, all of them on one node */
            const uint32_t count =
                turn % 10 == 0 ? AW_CLUSTER_PODS_MAX : 1 + aw_rng_below(&rng, 64);
            const uint32_t placed = aw__nodes_take(sim, cores, memory_mib, count, got);
            assert_int_equal(placed, naive_take(twin, cores, memory_mib, count, expected));
            assert_memory_equal(got, expected, node_counts[s] * sizeof *got);
            assert_memory_equal(sim->nodes, twin->nodes, sizeof *sim->nodes);
            partly += placed > 0 && placed < count;
            none += placed == 0;
        }
        aw_sim_free(twin);
        aw_sim_free(sim);
    }
    assert_true(partly > 50 && none > 50); /* or the cases would be too easy */
}

/* Two workloads on one node that has room for 8 pods; both want 6. Returns ready pods of each. */
static void compete(uint32_t model, const int64_t *priority, uint32_t *ready)
{
    struct aw_sim_settings settings;
    struct aw_sim *sim = NULL;
    float rate = 1;
    const struct aw_load load = {.slot_count = 1, .slot_us = 1000000000000, .rate_per_s = &rate};
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.model = model;
    settings.node_count = 1;
    settings.node_cores = 8;
    settings.pending_by_priority = true;
    assert_ok(aw_sim_new(&settings, 1, 2, NULL, &sim, NULL));
    const struct aw_cluster cluster = aw_sim_cluster(sim);
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_sim_workload w = {.load = &load,
                                    .replicas = 1,
                                    .replicas_max = 8,
                                    .cpu_millicores = 1000,
                                    .memory_bytes = (int64_t)1 << 30};
        uint32_t index;
        w.app.segment_count = 1;
        w.app.segment[0] = (struct aw_segment){.cpu_ms = 5, .parallelism = 1};
        assert_ok(aw_sim_add(sim, &w, &index, NULL));
        aw_sim_priority(sim, index, priority[i]);
    }
    const struct aw_plan six = {.set = AW_PLAN_REPLICAS, .replicas = 6};
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(cluster.ops->apply(cluster.self, i, &six, 0));
    assert_ok(cluster.ops->advance(cluster.self, 60000000));
    struct aw_sample sample;
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(cluster.ops->observe(cluster.self, i, 0, &sample));
        ready[i] = sample.replicas_ready;
    }
    assert_int_equal(ready[0] + ready[1], 8);
    /* the winner gives four back: they are the other's without a change of its own */
    const uint32_t winner = ready[0] < ready[1];
    const struct aw_plan two = {.set = AW_PLAN_REPLICAS, .replicas = 2};
    assert_ok(cluster.ops->apply(cluster.self, winner, &two, 0));
    assert_ok(cluster.ops->advance(cluster.self, 180000000));
    assert_ok(cluster.ops->observe(cluster.self, !winner, 0, &sample));
    assert_int_equal(sample.replicas_ready, 6);
    aw_sim_free(sim);
}

static void room_goes_by_priority_and_never_by_index(void **state)
{
    (void)state;
    for (uint32_t model = 0; model < 2; model++) {
        uint32_t ready[2];
        compete(model, (const int64_t[]){0, 1}, ready);
        assert_int_equal(ready[1], 6); /* although it asked last */
        compete(model, (const int64_t[]){1, 0}, ready);
        assert_int_equal(ready[0], 6);
    }
}

AW_TEST_GROUP("sim-placing")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_go_where_one_by_one_would_put_them),
        cmocka_unit_test(room_goes_by_priority_and_never_by_index),
    };
    return cmocka_run_group_tests_name("sim-placing", tests, NULL, NULL);
}
