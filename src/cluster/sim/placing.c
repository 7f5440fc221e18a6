/*
 * placing.c - which nodes get the pods of a rollout's step.
 *
 * The rule is the scheduler's LeastAllocated: pod by pod, the node with the largest free share of
 * its scarcer resource, the first of equals. The pods are of one size, so only how many each node
 * gets matters. Sought one by one, each would wait for the one before it; but all nodes that are
 * better now than any node will be after one more pod get one each, whatever the order. A few such
 * rounds, four nodes at a time, place them all, to the same nodes.
 */
#include "cluster/sim/internal.h"
#include "cluster/sim/lanes.h"

#define WIDE    4u /* nodes at a time */
#define VECTORS (AW_SIM_NODES_MAX / WIDE)
#define NO_ROOM -1.0 /* as a score, which is a share that is free */

typedef double doubles __attribute__((vector_size(8 * WIDE)));
typedef int64_t longs __attribute__((vector_size(8 * WIDE)));

_Static_assert(AW_SIM_NODES_MAX % WIDE == 0, "nodes are whole vectors");

/* Nodes are of one size; what is taken of those that are down, or not there, is infinite. */
struct offers {
    uint32_t nodes, vectors;
    double cores, memory_mib;               /* of a node */
    double cores_usable, memory_usable_mib; /* by pods: what neighbours leave */
    double cores_want, memory_want_mib;     /* by a pod */
    doubles cores_taken[VECTORS], memory_taken_mib[VECTORS];
    doubles score[VECTORS], after[VECTORS]; /* now, and after one more pod */
    longs chosen[VECTORS];                  /* -1: a pod goes there */
    longs pods[VECTORS];                    /* that went there */
};

/* Free share of the scarcer resource after one more pod, or NO_ROOM. */
INLINE void score(const struct offers *offers, const doubles *cores_taken,
                  const doubles *memory_taken_mib, doubles *ret)
{
    const doubles none = {0};
    const doubles cores = offers->cores_usable - *cores_taken - offers->cores_want;
    const doubles memory = offers->memory_usable_mib - *memory_taken_mib - offers->memory_want_mib;
    const longs fits = (cores >= -AW__CORES_SLACK) & (memory >= -AW__MEMORY_SLACK_MIB);
    const doubles a = cores / offers->cores, b = memory / offers->memory_mib;
    const longs less = a < b;
    const longs least = ((longs)a & less) | ((longs)b & ~less);
    *ret = (doubles)((least & fits) | ((longs)(none + NO_ROOM) & ~fits));
}

/* Of those chosen, keeps the `most` best, and the first of equals. */
INLINE void keep_best(struct offers *offers, uint32_t most)
{
    const longs places = {0, 1, 2, 3};
    for (uint32_t v = 0; v < offers->vectors; v++) {
        longs better = {0};
        const doubles mine = offers->score[v];
        for (uint32_t n = 0; n < offers->nodes; n++) {
            const longs first = (int64_t)n < places + (int64_t)(v * WIDE);
            const double other = offers->score[n / WIDE][n % WIDE];
            better -= (mine < other) | ((mine == other) & first);
        }
        offers->chosen[v] = better < (int64_t)most;
    }
}

/* Chooses nodes for up to `most` pods, and returns for how many. */
INLINE uint32_t choose(struct offers *offers, uint32_t most)
{
    doubles bars = offers->after[0];
    longs counts = {0};
    for (uint32_t v = 1; v < offers->vectors; v++) {
        const longs more = offers->after[v] > bars;
        bars = (doubles)(((longs)offers->after[v] & more) | ((longs)bars & ~more));
    }
    const double bar = aw__max(aw__max(bars[0], bars[1]), aw__max(bars[2], bars[3]));
    for (uint32_t v = 0; v < offers->vectors; v++)
        counts -= offers->chosen[v] = offers->score[v] > bar;
    uint32_t count = (uint32_t)((counts[0] + counts[1]) + (counts[2] + counts[3]));
    if (count == 0) { /* no room; or pods so small that they leave the best as it is */
        for (uint32_t v = 0; v < offers->vectors; v++)
            counts -= offers->chosen[v] = offers->score[v] > NO_ROOM;
        count = (uint32_t)((counts[0] + counts[1]) + (counts[2] + counts[3]));
        most = 1;
    }
    if (count <= most)
        return count;
    keep_best(offers, most);
    return most;
}

INLINE void score_after(struct offers *offers, uint32_t v)
{
    const doubles cores = offers->cores_taken[v] + offers->cores_want;
    const doubles memory = offers->memory_taken_mib[v] + offers->memory_want_mib;
    score(offers, &cores, &memory, &offers->after[v]);
}

INLINE void rounds(struct offers *offers, uint32_t count, uint32_t *ret_left)
{
    const doubles none = {0};
    const longs cores = (longs)(none + offers->cores_want);
    const longs memory = (longs)(none + offers->memory_want_mib);
    uint32_t left = count;
    for (uint32_t v = 0; v < offers->vectors; v++) {
        score(offers, &offers->cores_taken[v], &offers->memory_taken_mib[v], &offers->score[v]);
        score_after(offers, v);
    }
    for (uint32_t placed; left > 0 && (placed = choose(offers, left)) > 0; left -= placed)
        for (uint32_t v = 0; v < offers->vectors; v++) {
            const longs chosen = offers->chosen[v];
            offers->pods[v] -= chosen;
            offers->cores_taken[v] += (doubles)(cores & chosen);
            offers->memory_taken_mib[v] += (doubles)(memory & chosen);
            offers->score[v] =
                (doubles)(((longs)offers->after[v] & chosen) | ((longs)offers->score[v] & ~chosen));
            if (placed < left)
                score_after(offers, v);
        }
    *ret_left = left;
}

AW__LANES_TWICE(static, rounds_run, (struct offers * offers, uint32_t count, uint32_t *ret_left),
                rounds, (offers, count, ret_left))

uint32_t aw__nodes_take(struct aw_sim *sim, double cores, double memory_mib, uint32_t count,
                        uint16_t *ret_on_node)
{
    const struct aw__world *world = sim->world;
    const uint32_t nodes = sim->settings.node_count;
    struct offers offers;
    offers.nodes = nodes;
    offers.vectors = (nodes + WIDE - 1) / WIDE;
    offers.cores = sim->node[0].cores;
    offers.memory_mib = sim->node[0].memory_mib;
    offers.cores_usable = offers.cores * (1 - world->neighbour_cpu);
    offers.memory_usable_mib = offers.memory_mib * (1 - world->neighbour_memory);
    offers.cores_want = cores;
    offers.memory_want_mib = memory_mib;
    for (uint32_t v = 0; v < offers.vectors; v++) {
        offers.pods[v] = (longs){0};
        for (uint32_t i = 0; i < WIDE; i++) {
            const struct aw__node *node = &sim->node[v * WIDE + i];
            const bool up = v * WIDE + i < nodes && node->down_until_us <= world->now_us;
            offers.cores_taken[v][i] = up ? node->cores_taken : INFINITY;
            offers.memory_taken_mib[v][i] = up ? node->memory_taken : INFINITY;
        }
    }
    uint32_t left;
    rounds_run(&offers, count, &left);
    for (uint32_t n = 0; n < nodes; n++) {
        const uint32_t v = n / WIDE, i = n % WIDE;
        struct aw__node *node = &sim->node[n];
        ret_on_node[n] = (uint16_t)offers.pods[v][i];
        if (node->down_until_us > world->now_us)
            continue;
        node->cores_taken = offers.cores_taken[v][i];
        node->memory_taken = offers.memory_taken_mib[v][i];
    }
    return count - left;
}
