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

AW_TEST_GROUP("sim-placing")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_go_where_one_by_one_would_put_them),
    };
    return cmocka_run_group_tests_name("sim-placing", tests, NULL, NULL);
}
