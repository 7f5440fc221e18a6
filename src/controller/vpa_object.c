/* vpa_object.c - samples of containers in, recommendations out. */
#include "controller/vpa_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

/* --- what is known of containers -------------------------------------------------------------- */

void aw__vpa_forget(struct aw__vpas *v, struct aw__vpa *object)
{
    for (uint32_t i = 0; i < object->part_count; i++)
        aw_alloc_free(v->alloc, object->part[i]);
    aw_alloc_free(v->alloc, object->part);
    aw_alloc_free(v->alloc, object->track);
    object->part = NULL;
    object->track = NULL;
    object->part_count = object->part_max = object->track_count = object->track_max = 0;
}

/* A block of twice as many items with the old ones in it; NULL: no memory, or `max` is reached. */
static void *grown(const struct aw__vpas *v, void *block, size_t size, uint32_t count, uint32_t max,
                   uint32_t *capacity)
{
    const uint32_t more = *capacity ? 2 * *capacity : 4;
    if (more > max)
        return NULL;
    void *larger = aw_alloc_new(v->alloc, more, size);
    if (!larger)
        return NULL;
    if (count > 0)
        memcpy(larger, block, count * size);
    aw_alloc_free(v->alloc, block);
    *capacity = more;
    return larger;
}

/* What stands in the status is not undercut until a day of our own has been seen. */
static void floor_take(const struct aw__vpas *v, struct aw__vpa_part *part)
{
    const struct aw__vpa_advice *stood = aw__vpa_advice_of(&v->was, part->name);
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        const int64_t target = stood ? stood->amount[AW__VPA_TARGET][r] : -1;
        const int64_t uncapped = stood ? stood->amount[AW__VPA_UNCAPPED][r] : -1;
        part->floor[r] = uncapped >= 0 ? uncapped : target;
    }
}

/* NULL: there is no room. */
static struct aw__vpa_part *part_of(struct aw__vpas *v, struct aw__vpa *object, const char *name)
{
    for (uint32_t i = 0; i < object->part_count; i++)
        if (!strcmp(object->part[i]->name, name))
            return object->part[i];
    if (strlen(name) >= AW_CLUSTER_NAME_MAX)
        return NULL;
    if (object->part_count == object->part_max) {
        void *larger = grown(v, object->part, sizeof *object->part, object->part_count,
                             AW_VPA_CONTAINERS_MAX, &object->part_max);
        if (!larger)
            return NULL;
        object->part = larger;
    }
    struct aw__vpa_part *part = aw_alloc_new(v->alloc, 1, sizeof *part);
    if (!part)
        return NULL;
    snprintf(part->name, sizeof part->name, "%s", name);
    part->remembered = aw__vpa_memory_give(v, object, part);
    if (!part->remembered)
        aw_vpa_aggregate_init(&part->aggregate, &v->logic, v->newest_us);
    floor_take(v, part);
    object->part[object->part_count++] = part;
    return part;
}

/* Pods come in the same order in most rounds: who is next is looked at first. */
static struct aw__vpa_track *track_of(struct aw__vpas *v, struct aw__vpa *object, uint64_t id,
                                      uint32_t *hint, bool *ret_new)
{
    *ret_new = false;
    for (uint32_t i = 0; i < object->track_count; i++) {
        const uint32_t at = (*hint + i) % object->track_count;
        if (object->track[at].id == id) {
            *hint = at + 1;
            return &object->track[at];
        }
    }
    if (object->track_count == object->track_max) {
        void *larger = grown(v, object->track, sizeof *object->track, object->track_count,
                             AW__VPA_TRACKS_MAX, &object->track_max);
        if (!larger)
            return NULL;
        object->track = larger;
    }
    *ret_new = true;
    struct aw__vpa_track *track = &object->track[object->track_count++];
    *track = (struct aw__vpa_track){.id = id};
    return track;
}

static uint64_t id_of(const char *uid, const char *container)
{
    uint64_t h = aw_hash_text(AW_HASH_BEGIN, uid);
    h = aw_hash_byte(h, '/');
    return aw_hash_text(h, container);
}

/* --- samples ---------------------------------------------------------------------------------- */

static void usage_take(struct aw__vpas *v, const struct aw__usage_sample *sample,
                       struct aw__vpa_part *part, struct aw__vpa_track *track)
{
    const int64_t last_us = part->aggregate.last_sample_us;
    const bool known = part->remembered || part->since_us;
    if (sample->cpu_at_us != AW_KUBE_NEVER && sample->cpu_millicores >= 0 &&
        aw_vpa_add(&v->logic, &part->aggregate, &track->container, AW_VPA_CPU,
                   sample->cpu_millicores, sample->cpu_at_us)) {
        v->newest_us = sample->cpu_at_us > v->newest_us ? sample->cpu_at_us : v->newest_us;
        /* a past that is too old is as good as none: others have recommended since */
        if (known && sample->cpu_at_us - last_us >= AW__VPA_GAP_US) {
            part->remembered = false;
            part->since_us = 0;
            floor_take(v, part);
        }
        if (!part->since_us)
            part->since_us = sample->cpu_at_us;
    }
    if (sample->memory_at_us != AW_KUBE_NEVER && sample->memory_bytes >= 0)
        (void)aw_vpa_add(&v->logic, &part->aggregate, &track->container, AW_VPA_MEMORY,
                         sample->memory_bytes, sample->memory_at_us);
}

/* A kill that was there when we first saw the container is news only where nothing is remembered of
 * it: otherwise every restart of ours would count it again. */
static void oom_take(struct aw__vpas *v, const struct aw__cluster_view_pod *pod,
                     const struct aw_kube_container *container, struct aw__vpa_part *part,
                     struct aw__vpa_track *track, bool is_new)
{
    const char *name = aw_kube_span_text(pod, container->name);
    for (uint32_t i = 0; i < pod->pod.statuses.count; i++) {
        const struct aw_kube_container_status *status =
            aw_kube_span_item(pod, pod->pod.statuses, sizeof(struct aw_kube_container_status), i);
        if (strcmp(aw_kube_span_text(pod, status->name), name) != 0 ||
            strcmp(aw_kube_span_text(pod, status->ended), "OOMKilled") != 0 ||
            status->ended_us <= track->oom_us ||
            status->ended_us > aw_clock_now_us(v->config.clock) + AW__USAGE_AHEAD_US)
            continue;
        const int64_t request = container->memory_request_bytes > 0
                                    ? container->memory_request_bytes
                                    : container->memory_limit_bytes;
        if (!is_new || !part->remembered)
            (void)aw_vpa_oom(&v->logic, &part->aggregate, &track->container,
                             request > 0 ? request : 0, status->ended_us);
        track->oom_us = status->ended_us;
    }
}

static void pod_take(struct aw__vpas *v, struct aw__vpa *object, const struct aw_kube_item *item,
                     uint32_t *hint)
{
    const struct aw__cluster_view_pod *pod = item->data;
    const char *phase = aw_kube_span_text(pod, pod->pod.phase);
    if (!strcmp(phase, "Succeeded") || !strcmp(phase, "Failed"))
        return;
    object->pods++;
    for (uint32_t i = 0; i < pod->pod.containers.count; i++) {
        const struct aw_kube_container *container =
            aw_kube_span_item(pod, pod->pod.containers, sizeof(struct aw_kube_container), i);
        const char *name = aw_kube_span_text(pod, container->name);
        bool is_new;
        struct aw__vpa_part *part = part_of(v, object, name);
        struct aw__vpa_track *track =
            part ? track_of(v, object, id_of(item->uid, name), hint, &is_new) : NULL;
        if (!track)
            continue;
        part->round = track->round = v->counts.rounds + 1;
        const struct aw__usage_sample *sample =
            aw__usage_find(&v->usage, object->ns, strchr(item->key, '/') + 1, name);
        if (sample)
            usage_take(v, sample, part, track);
        oom_take(v, pod, container, part, track, is_new);
    }
}

/* Containers that are gone, and names that no pod had for the whole window of memory. */
static void tidy(struct aw__vpas *v, struct aw__vpa *object)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < object->track_count; i++)
        if (object->track[i].round == v->counts.rounds + 1)
            object->track[kept++] = object->track[i];
    object->track_count = kept;
    kept = 0;
    for (uint32_t i = 0; i < object->part_count; i++) {
        struct aw__vpa_part *part = object->part[i];
        if (part->round != v->counts.rounds + 1 && object->pods > 0 &&
            aw_vpa_expired(&part->aggregate, &v->logic, v->newest_us))
            aw_alloc_free(v->alloc, part);
        else
            object->part[kept++] = part;
    }
    object->part_count = kept;
}

void aw__vpa_sample(struct aw__vpas *v, struct aw__vpa *object)
{
    uint32_t hint = 0;
    object->pods = 0;
    if (object->target.found != AW__CLUSTER_VIEW_FOUND)
        return;
    for (uint32_t i = 0; i < object->target.count; i++)
        pod_take(v, object, aw__cluster_view_pod_of(v->config.scene, &object->target, i), &hint);
    tidy(v, object);
}

/* --- recommendations -------------------------------------------------------------------------- */

/* Stands until a day of our own has been seen, unless our own past reaches that far back. */
static const int64_t *floor_of(const struct aw__vpa_part *part)
{
    static const int64_t none[AW_VPA_RESOURCE_COUNT] = {-1, -1};
    const bool young = part->aggregate.last_sample_us - part->since_us < AW__VPA_FLOOR_US;
    if (!part->since_us) /* how old a remembered past is shows at the first sample */
        return part->floor;
    return !part->remembered && young ? part->floor : none;
}

/* An amount of which no sample was ever seen is not known: what stands for it stays. */
static void unseen(const struct aw__vpas *v, const struct aw__vpa_part *part,
                   const struct aw__vpa_rule *rule, struct aw__vpa_advice *advice)
{
    const struct aw__vpa_advice *was = aw__vpa_advice_of(&v->was, part->name);
    struct aw__vpa_advice kept;
    const bool stood = was && aw__vpa_advice_keep(was, rule, &kept);
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
        for (int f = 0; aw_histogram_empty(&part->aggregate.usage[r], &v->logic.shape[r]) &&
                        f < AW__VPA_FIGURES;
             f++)
            advice->amount[f][r] = stood ? kept.amount[f][r] : -1;
}

/* What stands for containers of which nothing is known yet; but one that no pod has any more is
 * gone. */
static void keep(struct aw__vpas *v, const struct aw__vpa *object)
{
    for (uint32_t i = 0; i < v->was.count; i++) {
        const struct aw__vpa_advice *was = &v->was.item[i];
        struct aw__vpa_advice kept;
        bool there = object->pods == 0;
        for (uint32_t k = 0; k < object->part_count; k++)
            there = there || !strcmp(object->part[k]->name, was->container);
        if (there && !aw__vpa_advice_of(&v->now, was->container) &&
            aw__vpa_advice_keep(was, aw__vpa_rule_of(&v->rules, was->container), &kept))
            (void)!aw__vpa_advices_put(&v->now, &kept);
    }
}

bool aw__vpa_recommend(struct aw__vpas *v, const struct aw__vpa *object)
{
    uint32_t count = 0;
    bool low = false;
    v->now.count = 0;
    for (uint32_t i = 0; i < object->part_count; i++)
        count += object->part[i]->aggregate.sample_count > 0 &&
                 !aw__vpa_rule_of(&v->rules, object->part[i]->name)->off;
    for (uint32_t i = 0; i < object->part_count; i++) {
        const struct aw__vpa_part *part = object->part[i];
        const struct aw__vpa_rule *rule = aw__vpa_rule_of(&v->rules, part->name);
        struct aw_vpa_recommendation made;
        struct aw__vpa_advice advice;
        if (rule->off || part->aggregate.sample_count == 0 ||
            aw_vpa_recommend(&v->logic, &part->aggregate, count, &rule->bounds, &made))
            continue;
        memset(&advice, 0, sizeof advice);
        snprintf(advice.container, sizeof advice.container, "%s", part->name);
        aw__vpa_advice_make(&made, rule, floor_of(part), &advice);
        unseen(v, part, rule, &advice);
        (void)!aw__vpa_advices_put(&v->now, &advice);
        low = low || part->aggregate.last_sample_us - part->aggregate.first_sample_us <
                         v->logic.confidence_us;
    }
    keep(v, object);
    return low;
}
