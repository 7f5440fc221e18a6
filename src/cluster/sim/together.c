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

void aw__pod_noise(const struct aw__workload *workload, struct aw__pod *pod)
{
    const double before = pod->memory_noise;
    double sum = 0, high = 0;
    for (uint32_t k = 0; k < pod->count; k++) {
        const double noise = aw__memory_noise(workload, pod->id + k);
        sum += noise;
        high = aw__max(high, noise);
    }
    pod->memory_noise = sum / pod->count;
    pod->memory_noise_high = high;
    /* What was read of its memory was the mean of others. */
    pod->read_memory_mib += aw__base_memory_mib(workload) * (pod->memory_noise - before);
}

/* Takes `count` of them from the nodes that have most, as a ReplicaSet chooses when it scales in;
 * the first of equals. */
static void from_fullest(const struct aw_sim *sim, struct aw__pod *pod, struct aw__pod *part,
                         uint32_t count)
{
    while (count > 0) {
        uint16_t most = 0;
        for (uint32_t n = 0; n < sim->settings.node_count; n++)
            most = pod->on_node[n] > most ? pod->on_node[n] : most;
        for (uint32_t n = 0; n < sim->settings.node_count; n++) {
            const uint16_t one = (pod->on_node[n] == most) & (count > 0);
            pod->on_node[n] -= one;
            part->on_node[n] += one;
            count -= one;
        }
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
    pod->node = (uint32_t)__builtin_ctzll(aw__nodes_of(sim, pod->on_node));
    part->node = (uint32_t)__builtin_ctzll(aw__nodes_of(sim, part->on_node));
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
