/* updater_plan.c - see updater_plan.h. */
#include "controller/updater_plan.h"
#include "base/hash.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *word, *sentence;
    bool told;
} reasons[AW__UPDATE_REASONS] = {
#define X(id, word, told, sentence) [AW__UPDATE_##id] = {word, sentence, told},
    AW__UPDATE_REASON_MAP(X)
#undef X
};

const char *aw__update_word(enum aw__update_reason reason)
{
    return reasons[reason].word;
}

const char *aw__update_sentence(enum aw__update_reason reason)
{
    return reasons[reason].sentence;
}

bool aw__update_told(enum aw__update_reason reason)
{
    return reasons[reason].told;
}

/* --- the object --- */

static enum aw__update_reason judge_intent(const struct aw__update_facts *facts)
{
    const struct aw__mpa_intent *intent = facts->intent;
    if (!aw__mpa_intent_updates(aw__mpa_intent_mode(intent)))
        return AW__UPDATE_OFF;
    if (intent->generation_seen != intent->generation)
        return AW__UPDATE_NOT_OBSERVED;
    if (intent->time_us == 0)
        return AW__UPDATE_NONE_GIVEN;
    if (intent->frozen)
        return AW__UPDATE_FROZEN;
    if (facts->conflict)
        return AW__UPDATE_CONFLICT;
    if (intent->time_us - facts->now_us > AW__UPDATE_SKEW_US)
        return AW__UPDATE_SKEW;
    if (facts->now_us - intent->time_us > AW__UPDATE_STALE_US)
        return AW__UPDATE_STALE;
    if (intent->replicas >= 0 &&
        (intent->replicas < intent->replicas_min || intent->replicas < 1 ||
         (intent->replicas_max > 0 && intent->replicas > intent->replicas_max)))
        return AW__UPDATE_OUT_OF_BOUNDS;
    return AW__UPDATE_GO;
}

/* --- its pods --- */

/* What the pods of a workload are up to. */
struct census {
    uint32_t live, ready, pending, going;
    bool crashing;
};

static bool over(const struct aw_kube_pod *pod)
{
    const char *phase = aw_kube_span_text(pod, pod->phase);
    return !strcmp(phase, "Succeeded") || !strcmp(phase, "Failed");
}

static bool crashing(const struct aw_kube_pod *pod)
{
    for (uint32_t i = 0; i < pod->statuses.count; i++) {
        const struct aw_kube_container_status *status =
            aw_kube_span_item(pod, pod->statuses, sizeof *status, i);
        if (!strcmp(aw_kube_span_text(pod, status->waiting), "CrashLoopBackOff"))
            return true;
    }
    return false;
}

static struct census count_pods(const struct aw__update_facts *facts)
{
    struct census census = {0};
    for (uint32_t i = 0; i < facts->pod_count; i++) {
        const struct aw_kube_pod *pod = facts->pods[i].pod;
        if (over(pod))
            continue;
        if (pod->deleting) {
            census.going++;
            continue;
        }
        census.live++;
        census.ready += pod->ready;
        census.pending += !strcmp(aw_kube_span_text(pod, pod->phase), "Pending");
        census.crashing = census.crashing || crashing(pod);
    }
    return census;
}

static enum aw__update_reason judge_target(const struct aw__update_facts *facts,
                                           const struct census *census)
{
    if (!facts->target)
        return AW__UPDATE_NO_TARGET;
    if (facts->target->replicas_wanted == 0)
        return AW__UPDATE_PARKED;
    if (census->crashing)
        return AW__UPDATE_CRASH_LOOP;
    if (facts->target->paused || aw_kube_workload_rolling(facts->target))
        return AW__UPDATE_ROLLOUT;
    return AW__UPDATE_GO;
}

/* --- sizes --- */

static uint64_t hash_text(const char *text) /* FNV-1a, 64 bits; never 0 */
{
    uint64_t hash = aw_hash_text(AW_HASH_BEGIN, text);
    return hash ? hash : 1;
}

/* Recommendations tremble; what differs by less than the tolerance is the same. */
static bool same_size(const int64_t a[AW__RESOURCES], const int64_t b[AW__RESOURCES])
{
    for (int r = 0; r < AW__RESOURCES; r++)
        if (fabs((double)a[r] - (double)b[r]) > AW__UPDATE_TOLERANCE * fabs((double)b[r]))
            return false;
    return true;
}

/* What the server said to that size of that pod a while ago; GO: nothing. */
static enum aw__update_reason was_refused(const struct aw__update_memory *memory, const char *uid,
                                          const struct aw__resources *size, int64_t now_us)
{
    const uint64_t pod = hash_text(uid);
    for (uint32_t i = 0; i < AW__UPDATE_REFUSALS_MAX; i++) {
        const enum aw__update_reason reason = memory->refused[i].reason;
        const int64_t for_us =
            reason == AW__UPDATE_QUOTA ? AW__UPDATE_QUOTA_US : AW__UPDATE_REFUSED_US;
        if (memory->refused[i].pod == pod && same_size(size->request, memory->refused[i].size) &&
            now_us - memory->refused[i].at_us < for_us)
            return reason;
    }
    return AW__UPDATE_GO;
}

/* One pod that is not as it should be. */
struct candidate {
    struct aw__update_step step;
    enum aw__update_reason block; /* GO: may be done, as far as this pod is concerned */
    bool grows;
    double distance;
};

static bool restarts(const struct aw_kube_pod *pod, uint32_t index, const struct aw__resources *now,
                     const struct aw__resources *size)
{
    const struct aw_kube_container *container =
        aw_kube_span_item(pod, pod->containers, sizeof *container, index);
    const struct aw_kube_span policy[AW__RESOURCES] = {container->cpu_policy,
                                                       container->memory_policy};
    for (int r = 0; r < AW__RESOURCES; r++)
        if ((now->request[r] != size->request[r] || now->limit[r] != size->limit[r]) &&
            !strcmp(aw_kube_span_text(pod, policy[r]), "RestartContainer"))
            return true;
    return false;
}

static bool longer(int64_t since_us, int64_t now_us, int64_t than_us)
{
    return since_us != 0 && now_us - since_us > than_us;
}

/* The node tried and could not, and tries again: it may pass, as when memory is freed. */
static bool fails(const struct aw_kube_pod *pod)
{
    return pod->resizing && !strcmp(aw_kube_span_text(pod, pod->resize_error), "Error");
}

/* How far a resize of this pod that was asked before has come; GO: none is under way. */
static enum aw__update_reason under_way(const struct aw_kube_pod *pod, int64_t now_us)
{
    const char *pending = aw_kube_span_text(pod, pod->resize_pending);
    if (!strcmp(pending, "Infeasible"))
        return AW__UPDATE_INFEASIBLE;
    if (!strcmp(pending, "Deferred"))
        return longer(pod->resize_pending_us, now_us, AW__UPDATE_DEFERRED_US)
                   ? AW__UPDATE_INFEASIBLE
                   : AW__UPDATE_DEFERRED;
    if (!pod->resizing)
        return AW__UPDATE_GO;
    if (longer(pod->resizing_us, now_us, AW__UPDATE_IN_PROGRESS_US))
        return AW__UPDATE_INFEASIBLE;
    return fails(pod) && longer(pod->resizing_us, now_us, AW__UPDATE_ERROR_US)
               ? AW__UPDATE_RESIZE_ERROR
               : AW__UPDATE_RESIZING;
}

static bool lower_somewhere(const struct aw__resources *size, const struct aw__resources *than)
{
    for (int r = 0; r < AW__RESOURCES; r++)
        if (size->request[r] >= 0 &&
            (double)size->request[r] < (1 - AW__UPDATE_TOLERANCE) * (double)than->request[r])
            return true;
    return false;
}

/* In place, if that is possible for this pod; else why not. */
static enum aw__update_reason judge_in_place(const struct aw__update_facts *facts,
                                             const struct aw__update_memory *memory,
                                             const struct aw__update_pod *pod, uint32_t index,
                                             const struct aw__resources *now,
                                             const struct aw__resources *size)
{
    const enum aw__update_reason state = under_way(pod->pod, facts->now_us);
    /* what a node cannot hold is asked again only for less of something, as upstream does */
    if (state == AW__UPDATE_INFEASIBLE && !lower_somewhere(size, now))
        return AW__UPDATE_INFEASIBLE;
    if (state == AW__UPDATE_DEFERRED && !lower_somewhere(size, now))
        return state; /* there may be room for less */
    if ((state == AW__UPDATE_RESIZING || state == AW__UPDATE_RESIZE_ERROR) &&
        (!fails(pod->pod) || aw__sizing_distance(now, size) < AW__UPDATE_TOLERANCE))
        return state;
    if (pod->pod->static_pod)
        return AW__UPDATE_KEPT;
    if (!aw__sizing_keeps_qos(pod->pod, index, size))
        return AW__UPDATE_QOS;
    return was_refused(memory, pod->uid, size, facts->now_us);
}

/* False: this pod needs nothing. */
static bool examine(const struct aw__update_facts *facts, const struct aw__update_memory *memory,
                    uint32_t i, struct candidate *ret)
{
    const struct aw__mpa_intent *intent = facts->intent;
    const struct aw__update_pod *pod = &facts->pods[i];
    const int32_t index = aw__sized_container(intent, pod->pod);
    const int64_t wanted[AW__RESOURCES] = {intent->cpu_millicores, intent->memory_bytes};
    const enum aw__mpa_intent_mode mode = aw__mpa_intent_mode(intent);
    *ret = (struct candidate){.step.pod = i, .block = AW__UPDATE_NO_CONTAINER};
    if (index < 0)
        return true;
    const struct aw__resources now = aw__resources_of(aw_kube_span_item(
        pod->pod, pod->pod->containers, sizeof(struct aw_kube_container), (uint32_t)index));
    const struct aw__resources others = aw__sizing_others(pod->pod, (uint32_t)index);
    const struct aw__limit_range *limits = facts->limits ? facts->limits : &aw__limit_range_none;
    aw__size(&now, wanted, limits, &others, &ret->step.size);
    ret->step.container = (uint32_t)index;
    for (int r = 0; r < AW__RESOURCES; r++)
        ret->step.wanted[r] = wanted[r];
    ret->distance = aw__sizing_distance(&now, &ret->step.size);
    for (int r = 0; r < AW__RESOURCES; r++)
        ret->grows = ret->grows || ret->step.size.request[r] > now.request[r];
    const enum aw__update_reason state = under_way(pod->pod, facts->now_us);
    ret->grows = ret->grows || state != AW__UPDATE_GO; /* it may not have yet what its spec says */
    if (ret->distance < AW__UPDATE_TOLERANCE && state == AW__UPDATE_GO)
        return false;
    const bool in_place = facts->can_resize && mode != AW__MPA_INTENT_RECREATE;
    /* A node that cannot hold what was asked: elsewhere there may be room, if the object allows. A
     * size that the server refuses, likewise. */
    if (in_place) {
        ret->step.action = restarts(pod->pod, (uint32_t)index, &now, &ret->step.size)
                               ? AW__UPDATE_RESIZE_RESTART
                               : AW__UPDATE_RESIZE;
        ret->block = judge_in_place(facts, memory, pod, (uint32_t)index, &now, &ret->step.size);
        if (mode != AW__MPA_INTENT_IN_PLACE ||
            (ret->block != AW__UPDATE_INFEASIBLE && ret->block != AW__UPDATE_REFUSED &&
             ret->block != AW__UPDATE_QOS))
            return true;
    }
    ret->step.action = AW__UPDATE_EVICT;
    ret->block = pod->pod->keep || pod->pod->static_pod ? AW__UPDATE_KEPT : AW__UPDATE_GO;
    return true;
}

/* Whether the last eviction helped: is there a pod younger than it with the size it was for? */
static void judge_eviction(const struct aw__update_facts *facts, struct aw__update_memory *memory)
{
    const int64_t wanted[AW__RESOURCES] = {facts->intent->cpu_millicores,
                                           facts->intent->memory_bytes};
    if (!same_size(memory->evicted_for, wanted)) {
        memory->fruitless = 0; /* for another size the story is another one */
        memory->judged = true;
    }
    if (facts->now_us - memory->disrupted_us > AW__UPDATE_FRUITLESS_US)
        memory->fruitless = 0; /* what was in the way may have been put right */
    if (memory->judged || memory->disrupted_us == 0)
        return;
    for (uint32_t i = 0; i < facts->pod_count; i++) {
        const struct aw__update_pod *pod = &facts->pods[i];
        struct candidate now;
        /* creation times are whole seconds */
        if (pod->pod->deleting || over(pod->pod) ||
            pod->pod->created_us + 1000000 <= memory->disrupted_us)
            continue;
        memory->judged = true;
        memory->fruitless = examine(facts, memory, i, &now) ? memory->fruitless + 1 : 0;
        return;
    }
}

/* Whether this workload may lose a replica for a while. */
static enum aw__update_reason judge_disruption(const struct aw__update_facts *facts,
                                               const struct aw__update_memory *memory,
                                               const struct census *census, bool evict)
{
    const int64_t configured = facts->target->replicas_wanted;
    if (evict && !facts->webhook_lives)
        return AW__UPDATE_NO_WEBHOOK;
    if (evict && memory->fruitless >= AW__UPDATE_FRUITLESS_MAX)
        return AW__UPDATE_FRUITLESS;
    if (configured < AW__UPDATE_REPLICAS_MIN)
        return AW__UPDATE_TOO_FEW;
    if (census->going > 0 || census->ready < configured || census->live > census->ready)
        return AW__UPDATE_NOT_READY;
    if (memory->disrupted_us && facts->now_us - memory->disrupted_us < facts->pause_us)
        return AW__UPDATE_SETTLING;
    return AW__UPDATE_GO;
}

/* Who goes first: who wants to grow, then who is further off (upstream's mandate); then by place.
 */
static bool before(const struct candidate *a, const struct candidate *b)
{
    if (a->grows != b->grows)
        return a->grows;
    if (a->distance != b->distance)
        return a->distance > b->distance;
    return a->step.pod < b->step.pod;
}

static void insert(struct candidate *best, uint32_t *count, uint32_t max,
                   const struct candidate *candidate)
{
    uint32_t at = *count;
    while (at > 0 && before(candidate, &best[at - 1]))
        at--;
    if (at >= max)
        return;
    const uint32_t kept = *count < max ? *count : max - 1;
    memmove(best + at + 1, best + at, (kept - at) * sizeof *best);
    best[at] = *candidate;
    *count = kept + 1;
}

/* Plans sizes; returns whether any pod is smaller than it should be. */
static bool plan_sizes(const struct aw__update_facts *facts, struct aw__update_memory *memory,
                       const struct census *census, struct aw__update_plan *plan)
{
    struct candidate best[AW__UPDATE_STEPS_MAX], disruption = {0}, now;
    const int64_t quarter = facts->target->replicas_wanted / 4;
    uint32_t count = 0, under = 0, max = quarter < 1 ? 1 : (uint32_t)quarter;
    bool grows = false, disrupt = false, evicted = false;
    enum aw__update_reason block = AW__UPDATE_DONE;
    plan->reason = AW__UPDATE_DONE;
    if (facts->intent->cpu_millicores < 0 && facts->intent->memory_bytes < 0)
        return false;
    max = quarter > AW__UPDATE_STEPS_MAX ? AW__UPDATE_STEPS_MAX : max;
    judge_eviction(facts, memory);
    for (uint32_t i = 0; i < facts->pod_count; i++) {
        if (facts->pods[i].pod->deleting || over(facts->pods[i].pod) ||
            !examine(facts, memory, i, &now))
            continue;
        grows = grows || now.grows || now.block == AW__UPDATE_NO_CONTAINER;
        under += now.block == AW__UPDATE_RESIZING || now.block == AW__UPDATE_DEFERRED;
        if (now.block != AW__UPDATE_GO) {
            /* of several, the one that somebody has to do something about */
            if (block == AW__UPDATE_DONE || (!aw__update_told(block) && aw__update_told(now.block)))
                block = now.block;
        } else if (now.step.action == AW__UPDATE_RESIZE) {
            insert(best, &count, AW__UPDATE_STEPS_MAX, &now);
        } else if (!disrupt || before(&now, &disruption)) {
            disruption = now;
            disrupt = true;
        }
    }
    if (census->pending > 0) {
        plan->reason = count || disrupt ? AW__UPDATE_PENDING : block;
        return grows;
    }
    if (census->live < facts->target->replicas && (count || disrupt)) {
        plan->reason = AW__UPDATE_UNSEEN;
        return grows;
    }
    for (uint32_t i = 0; i < count && under < max; i++, under++)
        plan->steps[plan->step_count++] = best[i].step;
    if (count && !plan->step_count)
        block = AW__UPDATE_RESIZING;
    if (!plan->step_count && disrupt) {
        evicted = disruption.step.action == AW__UPDATE_EVICT;
        enum aw__update_reason may =
            under ? AW__UPDATE_RESIZING : judge_disruption(facts, memory, census, evicted);
        if (may == AW__UPDATE_GO)
            plan->steps[plan->step_count++] = disruption.step;
        else
            block = may;
    }
    plan->reason = plan->step_count ? AW__UPDATE_GO : block;
    return grows;
}

static void plan_scale(struct aw__update_plan *plan, int64_t replicas)
{
    plan->reason = AW__UPDATE_GO;
    plan->step_count = 1;
    plan->steps[0] =
        (struct aw__update_step){.action = AW__UPDATE_SCALE, .replicas = (int32_t)replicas};
}

void aw__update_plan(const struct aw__update_facts *facts, struct aw__update_memory *memory,
                     struct aw__update_plan *ret_plan)
{
    const struct aw__mpa_intent *intent = facts->intent;
    const struct census census = count_pods(facts);
    *ret_plan = (struct aw__update_plan){.reason = judge_intent(facts)};
    if (ret_plan->reason == AW__UPDATE_GO)
        ret_plan->reason = judge_target(facts, &census);
    if (ret_plan->reason != AW__UPDATE_GO)
        return;
    const int64_t have = facts->target->replicas_wanted;
    const int64_t want = intent->replicas >= 0 ? intent->replicas : have;
    if (want > have) {
        if (census.pending > 0) /* those that were asked for before have no place yet */
            ret_plan->reason = AW__UPDATE_PENDING;
        else
            plan_scale(ret_plan, want);
        return;
    }
    const bool grows = plan_sizes(facts, memory, &census, ret_plan);
    if (want == have || (grows && census.pending == 0))
        return;
    /* Fewer: not below those that are ready while others are pending; the pending ones go first. */
    const int64_t floor = census.pending > 0 && census.ready > want ? census.ready : want;
    if (floor < have)
        plan_scale(ret_plan, floor);
}

void aw__update_done(struct aw__update_memory *memory, const struct aw__update_step *step,
                     int64_t now_us)
{
    if (step->action != AW__UPDATE_EVICT && step->action != AW__UPDATE_RESIZE_RESTART)
        return;
    memory->disrupted_us = now_us;
    memory->judged = step->action != AW__UPDATE_EVICT;
    for (int r = 0; r < AW__RESOURCES; r++)
        memory->evicted_for[r] = step->wanted[r];
}

void aw__update_refused(struct aw__update_memory *memory, const struct aw__update_step *step,
                        const char *pod_uid, enum aw__update_reason reason, int64_t now_us)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < AW__UPDATE_REFUSALS_MAX; i++)
        if (memory->refused[i].at_us < memory->refused[oldest].at_us)
            oldest = i;
    memory->refused[oldest].pod = hash_text(pod_uid);
    memory->refused[oldest].at_us = now_us;
    memory->refused[oldest].reason = reason;
    for (int r = 0; r < AW__RESOURCES; r++)
        memory->refused[oldest].size[r] = step->size.request[r];
}
