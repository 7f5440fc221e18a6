/*
 * together.c - pods that have shared everything so far, as one.
 *
 * Most of what happens, happens to all pods of a rollout's step at once: they are made, placed,
 * found ready and drained together. The fast model keeps them in one place with a count. They part
 * when one of them fares differently: no room on a node, an image to pull, a kill, a lost node.
 * What is particular to each of them (its memory, the error of its readings) is a function of its
 * id and need not be kept.
 */
#include "cluster/sim/internal.h"
#include "cluster/sim/lanes.h"

#include <string.h>

struct aw__pod *aw__pod_place(struct aw_sim *sim, uint32_t w)
{
    struct aw__workload *workload = &sim->workload[w];
    struct aw__pod *pods = aw__pods(sim, w);
    uint32_t i = 0;
    while (i < workload->place_end && pods[i].phase != AW__POD_NONE)
        i++;
    AW_ASSERT(i < sim->profile[w].pods_max);
    if (i == workload->place_end) {
        struct aw__profile *profile = &sim->profile[w];
        workload->place_end++;
        profile->touched = profile->touched > i ? profile->touched : i + 1;
    }
    return &pods[i];
}

/* The factors of up to eight processes from `id` on. */
static void noise_of(uint64_t key, uint32_t id, uint32_t count, double *ret)
{
    for (uint32_t i = 0; i < count && i < 8; i++)
        ret[i] = 1 + AW__MEMORY_SPREAD * aw__noise_at(key, id + i);
}

#if defined(__x86_64__)
/* The same, of eight at once. */
AW__WIDE static void noise_of_wide(uint64_t key, uint32_t id, double *ret)
{
    const __m512i low = _mm512_set1_epi64(0x0000ffff0000ffff);
    const __m512i ids =
        _mm512_add_epi64(_mm512_set1_epi64(id), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    __m512i z = _mm512_add_epi64(
        _mm512_set1_epi64((long long)key),
        _mm512_mullo_epi64(ids, _mm512_set1_epi64((long long)0x9e3779b97f4a7c15u)));
    z = _mm512_mullo_epi64(_mm512_xor_epi64(z, _mm512_srli_epi64(z, 30)),
                           _mm512_set1_epi64((long long)0xbf58476d1ce4e5b9u));
    z = _mm512_mullo_epi64(_mm512_xor_epi64(z, _mm512_srli_epi64(z, 27)),
                           _mm512_set1_epi64((long long)0x94d049bb133111ebu));
    z = _mm512_xor_epi64(z, _mm512_srli_epi64(z, 31));
    z = _mm512_add_epi64(_mm512_and_epi64(z, low), _mm512_and_epi64(_mm512_srli_epi64(z, 16), low));
    z = _mm512_add_epi64(z, _mm512_srli_epi64(z, 32));
    const __m512d sum = _mm512_cvtepi64_pd(_mm512_and_epi64(z, _mm512_set1_epi64(0xffffffff)));
    const __m512d noise = (sum * (1.0 / 65536) - 1.99996948242) * 1.7320508075688772;
    _mm512_storeu_pd(ret, 1 + AW__MEMORY_SPREAD * noise);
}
#endif

void aw__pod_noise(const struct aw__workload *workload, struct aw__pod *pod)
{
    const double before = pod->memory_noise;
    double sum = 0, high = 0, noise[8];
    for (uint32_t k = 0; k < pod->count; k++) {
        if (k % 8 == 0) {
#if defined(__x86_64__)
            if (aw__cpu_wide())
                noise_of_wide(workload->memory_key, pod->id + k, noise);
            else
#endif
                noise_of(workload->memory_key, pod->id + k, pod->count - k, noise);
        }
        sum += noise[k % 8];
        high = aw__max(high, noise[k % 8]);
    }
    pod->memory_noise = sum / pod->count;
    pod->memory_noise_high = high;
    /* What was read of its memory was the mean of others. */
    pod->read_memory_mib += aw__base_memory_mib(workload) * (pod->memory_noise - before);
}

/* How many pods are on each of some nodes. */
#define WIDE 8u
typedef uint16_t counts __attribute__((vector_size(2 * WIDE), aligned(2), may_alias));
_Static_assert(AW_SIM_NODES_MAX % WIDE == 0, "nodes are whole vectors");

/* The sum of elements that are 0 or 1. */
static uint32_t ones_of(const counts *ones)
{
    uint64_t words[2];
    memcpy(words, ones, sizeof words);
    return (uint32_t)((words[0] + words[1]) * 0x0001000100010001 >> 48);
}

/* Takes `count` of them from the nodes that have most, as a ReplicaSet chooses when it scales in;
 * the first of equals. */
static void from_fullest(const struct aw_sim *sim, struct aw__pod *pod, struct aw__pod *part,
                         uint32_t count)
{
    const uint32_t nodes = sim->settings.node_count;
    uint16_t most = 0;
    for (uint32_t n = 0; n < nodes; n++)
        most = pod->on_node[n] > most ? pod->on_node[n] : most;
    for (; count > 0; most--) /* which those that had it leave behind */
        for (uint32_t n = 0; n < nodes && count > 0; n += WIDE) {
            counts *from = (counts *)&pod->on_node[n], *to = (counts *)&part->on_node[n];
            counts one = (counts)(*from == most) & 1;
            for (uint32_t k = WIDE, more = ones_of(&one); more > count; more -= one[k], one[k] = 0)
                k--;
            *from -= one;
            *to += one;
            count -= ones_of(&one);
        }
}

static struct aw__pod *part_from(struct aw_sim *sim, uint32_t w, struct aw__pod *pod,
                                 uint32_t count, uint32_t node)
{
    AW_ASSERT(count > 0 && count < pod->count);
    struct aw__pod *part = aw__pod_place(sim, w);
    *part = *pod;
    pod->count -= count;
    part->count = count;
    part->id += pod->count;
    if (pod->phase == AW__POD_READY)
        aw__pod_noise(&sim->workload[w], pod);
    if (pod->node == AW__NO_NODE)
        return part;
    memset(part->on_node, 0, sizeof part->on_node);
    if (node == AW__NO_NODE) {
        from_fullest(sim, pod, part, count);
    } else {
        pod->on_node[node] -= (uint16_t)count;
        part->on_node[node] = (uint16_t)count;
    }
    pod->node = aw__first_node(pod->on_node);
    part->node = aw__first_node(part->on_node);
    return part;
}

struct aw__pod *aw__pod_part(struct aw_sim *sim, uint32_t w, struct aw__pod *pod, uint32_t count,
                             uint32_t node)
{
    struct aw__pod *part = part_from(sim, w, pod, count, node);
    if (part->phase == AW__POD_READY)
        aw__pod_noise(&sim->workload[w], part);
    return part;
}

struct aw__pod *aw__pod_part_leaving(struct aw_sim *sim, uint32_t w, struct aw__pod *pod,
                                     uint32_t count)
{
    return part_from(sim, w, pod, count, AW__NO_NODE);
}

void aw__pod_part_all(struct aw_sim *sim, uint32_t w, struct aw__pod *pod)
{
    while (pod->count > 1)
        aw__pod_part(sim, w, pod, 1, AW__NO_NODE);
}

struct aw__pod *aw__pod_only(struct aw_sim *sim, uint32_t w, uint32_t id, uint32_t count)
{
    struct aw__pod *pod = aw__pods(sim, w);
    while (pod->phase == AW__POD_NONE || id - pod->id >= pod->count)
        pod++;
    const uint32_t before = id - pod->id, behind = pod->count - before - count;
    if (behind > 0)
        aw__pod_part(sim, w, pod, behind, AW__NO_NODE);
    return before > 0 ? aw__pod_part(sim, w, pod, count, AW__NO_NODE) : pod;
}
