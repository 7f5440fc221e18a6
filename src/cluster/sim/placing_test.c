#include "base/testing.h"
#include "cluster/sim/internal.h"

#include <string.h>

#define TURNS 3000

/* Free share of the scarcer resource after one more pod; -1: no room. */
static double naive_score(const struct aw_sim *sim, const struct aw__node *node, double cores,
                          double memory_mib)
{
    const struct aw__world *world = sim->world;
    const double cpu = node->cores * (1 - world->neighbour_cpu) - node->cores_taken - cores;
    const double memory =
        node->memory_mib * (1 - world->neighbour_memory) - node->memory_taken - memory_mib;
    if (node->down_until_us > world->now_us || cpu < -AW__CORES_SLACK ||
        memory < -AW__MEMORY_SLACK_MIB)
        return -1;
    return aw__min(cpu / node->cores, memory / node->memory_mib);
}

/* Pod by pod, the best node, the first of equals. */
static uint32_t naive_take(struct aw_sim *sim, double cores, double memory_mib, uint32_t count,
                           uint16_t *ret_on_node)
{
    for (uint32_t placed = 0; placed < count; placed++) {
        uint32_t best = 0;
        double most = -1;
        for (uint32_t n = 0; n < sim->settings.node_count; n++) {
            const double score = naive_score(sim, &sim->node[n], cores, memory_mib);
            if (score > most) {
                most = score;
                best = n;
            }
        }
        if (most <= -1)
            return placed;
        sim->node[best].cores_taken += cores;
        sim->node[best].memory_taken += memory_mib;
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
        struct aw__node *node = &sim->node[n];
        const double cpu = alike ? full : full * aw_rng_double(rng);
        const double memory = alike ? full : full * aw_rng_double(rng);
        node->cores_taken = node->cores * cpu;
        node->memory_taken = node->memory_mib * memory;
        node->down_until_us = some_down && aw_rng_below(rng, 2) ? 1e6 : -AW__NEVER_US;
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
            memcpy(twin->node, sim->node, node_counts[s] * sizeof *sim->node);
            /* from pods so small that a node's score does not change to pods as large as a node */
            const double size = turn % 10 == 0 ? 1e-17 : exp(aw_rng_uniform(&rng, -6, 0));
            const double cores = settings.node_cores * size;
            const double memory_mib = sim->node[0].memory_mib * size * aw_rng_double(&rng);
            /* now and then more than a byte can count, all of them on one node */
            const uint32_t count =
                turn % 10 == 0 ? AW_CLUSTER_PODS_MAX : 1 + aw_rng_below(&rng, 64);
            const uint32_t placed = aw__nodes_take(sim, cores, memory_mib, count, got);
            assert_int_equal(placed, naive_take(twin, cores, memory_mib, count, expected));
            assert_memory_equal(got, expected, node_counts[s] * sizeof *got);
            assert_memory_equal(sim->node, twin->node, node_counts[s] * sizeof *sim->node);
            partly += placed > 0 && placed < count;
            none += placed == 0;
        }
        aw_sim_free(twin);
        aw_sim_free(sim);
    }
    assert_true(partly > 50 && none > 50); /* or the cases would be too easy */
}

AW_TEST_GROUP("sim-placing")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_go_where_one_by_one_would_put_them),
    };
    return cmocka_run_group_tests_name("sim-placing", tests, NULL, NULL);
}
