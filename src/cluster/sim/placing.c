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
        offers->pods[v] = (longs){0};
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

typedef double anywhere_doubles __attribute__((vector_size(8 * WIDE), aligned(8), may_alias));

/* What is taken of nodes, from or to vectors: those that are down are left out. */
INLINE void take(struct aw_sim *sim, struct offers *offers, uint32_t count, uint16_t *ret_on_node,
                 uint32_t *ret_left)
{
    const doubles never = {INFINITY, INFINITY, INFINITY, INFINITY};
    struct aw__nodes *nodes = sim->nodes;
    const double now = sim->world->now_us;
    longs up[VECTORS];
    for (uint32_t v = 0; v < offers->vectors; v++) {
        const doubles cores = *(const anywhere_doubles *)&nodes->cores_taken[v * WIDE];
        const doubles memory = *(const anywhere_doubles *)&nodes->memory_taken_mib[v * WIDE];
        up[v] = *(const anywhere_doubles *)&nodes->down_until_us[v * WIDE] <= now;
        offers->cores_taken[v] = (doubles)(((longs)cores & up[v]) | ((longs)never & ~up[v]));
        offers->memory_taken_mib[v] = (doubles)(((longs)memory & up[v]) | ((longs)never & ~up[v]));
    }
    rounds(offers, count, ret_left);
    for (uint32_t v = 0; v < offers->vectors; v++) {
        anywhere_doubles *cores = (anywhere_doubles *)&nodes->cores_taken[v * WIDE];
        anywhere_doubles *memory = (anywhere_doubles *)&nodes->memory_taken_mib[v * WIDE];
        *cores = (doubles)(((longs)offers->cores_taken[v] & up[v]) | ((longs)*cores & ~up[v]));
        *memory =
            (doubles)(((longs)offers->memory_taken_mib[v] & up[v]) | ((longs)*memory & ~up[v]));
        for (uint32_t i = 0; i < WIDE; i++)
            ret_on_node[v * WIDE + i] = (uint16_t)offers->pods[v][i];
    }
}

AW__LANES_TWICE(static, take_run,
                (struct aw_sim * sim, struct offers *offers, uint32_t count, uint16_t *ret_on_node,
                 uint32_t *ret_left),
                take, (sim, offers, count, ret_on_node, ret_left))

#if defined(__x86_64__)
/* The same on up to eight nodes, which are one vector, and stay in registers. */
#define FEW 8u

INLINE AW__WIDE __m512d wide_score(const struct offers *offers, __m512d cores_taken,
                                   __m512d memory_taken_mib)
{
    const __m512d cores = offers->cores_usable - cores_taken - offers->cores_want;
    const __m512d memory = offers->memory_usable_mib - memory_taken_mib - offers->memory_want_mib;
    const __mmask8 fits =
        _mm512_cmp_pd_mask(cores, _mm512_set1_pd(-AW__CORES_SLACK), _CMP_GE_OQ) &
        _mm512_cmp_pd_mask(memory, _mm512_set1_pd(-AW__MEMORY_SLACK_MIB), _CMP_GE_OQ);
    const __m512d least = _mm512_min_pd(cores / offers->cores, memory / offers->memory_mib);
    return _mm512_mask_mov_pd(_mm512_set1_pd(NO_ROOM), fits, least);
}

/* The `most` best, and the first of equals. */
INLINE AW__WIDE __mmask8 wide_best(__m512d score, uint32_t most)
{
    const __m512i one = _mm512_set1_epi64(1);
    __m512i better = _mm512_setzero_si512();
    double scores[FEW];
    _mm512_storeu_pd(scores, score);
    for (uint32_t n = 0; n < FEW; n++) {
        const __m512d other = _mm512_set1_pd(scores[n]);
        const __mmask8 later = (__mmask8)(0xfeu << n);
        better = _mm512_mask_add_epi64(better,
                                       _mm512_cmp_pd_mask(score, other, _CMP_LT_OQ) |
                                           (_mm512_cmp_pd_mask(score, other, _CMP_EQ_OQ) & later),
                                       better, one);
    }
    return _mm512_cmplt_epi64_mask(better, _mm512_set1_epi64(most));
}

AW__WIDE static uint32_t take_wide(struct aw_sim *sim, const struct offers *offers, uint32_t count,
                                   uint16_t *ret_on_node)
{
    struct aw__nodes *nodes = sim->nodes;
    const __m512d want = _mm512_set1_pd(offers->cores_want);
    const __m512d want_mib = _mm512_set1_pd(offers->memory_want_mib);
    const __m512d none = _mm512_set1_pd(NO_ROOM);
    const __mmask8 up = _mm512_cmp_pd_mask(_mm512_loadu_pd(nodes->down_until_us),
                                           _mm512_set1_pd(sim->world->now_us), _CMP_LE_OQ);
    __m512d cores = _mm512_mask_loadu_pd(_mm512_set1_pd(INFINITY), up, nodes->cores_taken);
    __m512d memory = _mm512_mask_loadu_pd(_mm512_set1_pd(INFINITY), up, nodes->memory_taken_mib);
    __m512i pods = _mm512_setzero_si512();
    __m512d score = wide_score(offers, cores, memory);
    uint32_t left = count;
    while (left > 0) {
        const __m512d after = wide_score(offers, cores + want, memory + want_mib);
        const __m512d bar = _mm512_set1_pd(_mm512_reduce_max_pd(after));
        __mmask8 chosen = _mm512_cmp_pd_mask(score, bar, _CMP_GT_OQ);
        uint32_t most = left;
        if (chosen == 0) { /* no room; or pods so small that they leave the best as it is */
            chosen = _mm512_cmp_pd_mask(score, none, _CMP_GT_OQ);
            most = 1;
        }
        if (chosen == 0)
            break;
        uint32_t placed = (uint32_t)_mm_popcnt_u32(chosen);
        if (placed > most) {
            chosen = wide_best(score, most);
            placed = most;
        }
        pods = _mm512_mask_add_epi64(pods, chosen, pods, _mm512_set1_epi64(1));
        cores = _mm512_mask_add_pd(cores, chosen, cores, want);
        memory = _mm512_mask_add_pd(memory, chosen, memory, want_mib);
        score = _mm512_mask_mov_pd(score, chosen, after);
        left -= placed;
    }
    _mm512_mask_storeu_pd(nodes->cores_taken, up, cores);
    _mm512_mask_storeu_pd(nodes->memory_taken_mib, up, memory);
    _mm_storeu_si128((__m128i *)ret_on_node, _mm512_cvtepi64_epi16(pods));
    return count - left;
}
#endif

uint32_t aw__nodes_take(struct aw_sim *sim, double cores, double memory_mib, uint32_t count,
                        uint16_t *ret_on_node)
{
    const struct aw__world *world = sim->world;
    const double node_cores = aw__node_limits(sim), node_mib = aw__node_memory_mib(sim);
    struct offers offers;
    offers.nodes = sim->settings.node_count;
    offers.vectors = (offers.nodes + WIDE - 1) / WIDE;
    offers.cores = node_cores;
    offers.memory_mib = node_mib;
    offers.cores_usable = node_cores * (1 - world->neighbour_cpu);
    offers.memory_usable_mib = node_mib * (1 - world->neighbour_memory);
    offers.cores_want = cores;
    offers.memory_want_mib = memory_mib;
#if defined(__x86_64__)
    if (offers.nodes <= FEW && aw__cpu_wide())
        return take_wide(sim, &offers, count, ret_on_node);
#endif
    uint32_t left;
    take_run(sim, &offers, count, ret_on_node, &left);
    return count - left;
}

INLINE void add(struct aw_sim *sim, const struct aw__pod *pod, double sign)
{
    struct aw__nodes *nodes = sim->nodes;
    for (uint32_t n = 0; n < sim->settings.node_count; n += WIDE) {
        const doubles count = {pod->on_node[n], pod->on_node[n + 1], pod->on_node[n + 2],
                               pod->on_node[n + 3]};
        *(anywhere_doubles *)&nodes->cores_taken[n] += sign * count * pod->cores;
        *(anywhere_doubles *)&nodes->memory_taken_mib[n] += sign * count * pod->memory_mib;
    }
}

AW__LANES_TWICE(static, add_run, (struct aw_sim * sim, const struct aw__pod *pod, double sign), add,
                (sim, pod, sign))

void aw__nodes_add(struct aw_sim *sim, const struct aw__pod *pod, double sign)
{
    if (pod->node != AW__NO_NODE)
        add_run(sim, pod, sign);
}
