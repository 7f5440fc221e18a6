/*
 * policy_vpa.c - the VPA fed from samples, and its updater's rules turned into a new size.
 *
 * Upstream evicts pod by pod and a webhook gives each new pod its size. A cluster here has one
 * wanted size for a workload and rolls it out itself, so: as soon as the updater would touch any
 * pod, the size becomes the recommendation's target. Nothing is changed while a rollout is under
 * way, unless replicas are being killed for want of memory.
 *
 * Upstream's clocks are made for weeks. One setting, the half-life of the histograms, compresses
 * all of them by the same ratio: the confidence, the interval of memory peaks, and the age from
 * which a pod may be disturbed for a mere difference.
 */
#include "fallback/policy_kinds.h"

#include <math.h>

#define DAY_US (86400 * (int64_t)1000000)

static enum aw_err compress(struct aw_histogram_shape *shape, double max, int64_t half_life_us,
                            struct aw_diag *diag)
{
    struct aw_histogram_shape old = *shape;
    return aw_histogram_shape_exponential(shape, max, old.first, old.ratio, old.epsilon,
                                          half_life_us, diag);
}

enum aw_err aw__policy_vpa_init(struct aw_policy *policy, struct aw_diag *diag)
{
    const struct aw_policy_settings *settings = &policy->settings;
    const struct aw_bounds *bounds = &policy->task.bounds;
    struct aw_vpa_config *config = &policy->vpa_config;
    const double ratio = settings->history_half_life * 1e6 / (double)DAY_US;
    const int64_t half_life_us = (int64_t)(settings->history_half_life * 1e6);

    aw_vpa_config_init(config);
    /* the largest values are those of aw_vpa_config_init: 1000 cores and 1 TB */
    enum aw_err err = compress(&config->shape[AW_VPA_CPU], 1000, half_life_us, diag);
    if (!err)
        err = compress(&config->shape[AW_VPA_MEMORY], 1e12, half_life_us, diag);
    if (err)
        return err;
    config->confidence_us = (int64_t)((double)config->confidence_us * ratio);
    config->memory_interval_us = (int64_t)((double)config->memory_interval_us * ratio);
    config->pod_min[AW_VPA_MEMORY] = (int64_t)(settings->vpa_memory_min_mib * AW__POLICY_MIB);
    err = aw_vpa_config_check(config, diag);
    if (err)
        return err;

    aw_vpa_updater_init(&policy->vpa_updater);
    policy->vpa_updater.replicas_min = settings->vpa_replicas_min;
    policy->vpa_updater.lifetime_us = (int64_t)((double)policy->vpa_updater.lifetime_us * ratio);
    policy->vpa_policy = (struct aw_vpa_policy){
        .min_allowed = {bounds->cpu_millicores_min, bounds->memory_bytes_min},
        .max_allowed = {bounds->cpu_millicores_max, bounds->memory_bytes_max},
    };
    policy->vpa_controls[AW_VPA_CPU] = settings->kind != AW_POLICY_HPA_VPA_MEM;
    policy->vpa_controls[AW_VPA_MEMORY] = true;
    return AW_OK;
}

void aw__policy_vpa_reset(struct aw_policy *policy)
{
    aw_vpa_aggregate_init(&policy->state.vpa, &policy->vpa_config, 0);
}

/* What is known of this pod from the sample before; a new one is zeroed. */
static struct aw__pod_track track_of(const struct aw__policy_state *state, const struct aw_pod *pod,
                                     uint32_t guess)
{
    if (guess < state->track_count && state->track[guess].id == pod->id)
        return state->track[guess];
    for (uint32_t i = 0; i < state->track_count; i++)
        if (state->track[i].id == pod->id)
            return state->track[i];
    return (struct aw__pod_track){
        .id = pod->id, .started_us = pod->started_us, .oom_after_start_us = AW_NEVER};
}

/* Follows every pod; takes usage in when `usage`, kills always. */
static void follow(struct aw_policy *policy, const struct aw_sample *sample, bool usage,
                   int64_t now_us)
{
    struct aw__policy_state *state = &policy->state;
    const struct aw_vpa_config *config = &policy->vpa_config;
    for (uint32_t i = 0; i < sample->pod_count; i++) {
        const struct aw_pod *pod = &sample->pods[i];
        struct aw__pod_track track = track_of(state, pod, i);
        if (pod->oom_kill_count > track.oom_kill_count) {
            /* killed at some time since the last look; its life began before that */
            track.oom_after_start_us = track.started_us == AW_NEVER ? 0 : now_us - track.started_us;
            (void)aw_vpa_oom(config, &state->vpa, &track.container, pod->memory_bytes, now_us);
        }
        track.oom_kill_count = pod->oom_kill_count;
        track.started_us = pod->started_us;
        if (usage && aw__policy_fresh(policy, pod->cpu_cores_used, now_us))
            (void)aw_vpa_add(config, &state->vpa, &track.container, AW_VPA_CPU,
                             llround(pod->cpu_cores_used.value * 1000), pod->cpu_cores_used.at_us);
        if (usage && aw__policy_fresh(policy, pod->memory_bytes_used, now_us))
            (void)aw_vpa_add(config, &state->vpa, &track.container, AW_VPA_MEMORY,
                             llround(pod->memory_bytes_used.value), pod->memory_bytes_used.at_us);
        policy->track[i] = track;
    }
    for (uint32_t i = 0; i < sample->pod_count; i++)
        state->track[i] = policy->track[i];
    state->track_count = sample->pod_count;
}

/* The strongest reason that the updater has to touch a pod. */
static enum aw_vpa_verdict judge(const struct aw_policy *policy, const struct aw_sample *sample,
                                 const struct aw_vpa_recommendation *wanted, int64_t now_us)
{
    enum aw_vpa_verdict found = AW_VPA_KEEP_CLOSE;
    uint32_t live = 0;
    for (uint32_t i = 0; i < sample->pod_count; i++)
        live += sample->pods[i].phase == AW_POD_RUNNING || sample->pods[i].phase == AW_POD_STARTING;
    if (live < policy->vpa_updater.replicas_min)
        return found;
    for (uint32_t i = 0; i < sample->pod_count; i++) {
        const struct aw_pod *pod = &sample->pods[i];
        const struct aw__pod_track *track = &policy->state.track[i];
        const bool killed = track->oom_after_start_us != AW_NEVER;
        const struct aw_vpa_pod_container container = {
            .recommendation = wanted,
            .has_bounds = true,
            .controlled = {policy->vpa_controls[AW_VPA_CPU], policy->vpa_controls[AW_VPA_MEMORY]},
            .has_request = {true, true},
            .request = {pod->cpu_millicores, pod->memory_bytes},
            .oom_killed = killed,
            .oom_after_start_us = killed ? track->oom_after_start_us : 0,
        };
        const struct aw_vpa_pod seen = {
            .containers = &container,
            .container_count = 1,
            .pending = pod->phase == AW_POD_PENDING,
            .started = pod->started_us != AW_NEVER,
            .start_us = pod->started_us != AW_NEVER ? pod->started_us : 0,
        };
        struct aw_vpa_priority priority;
        enum aw_vpa_verdict verdict =
            aw_vpa_pod_verdict(&policy->vpa_updater, &seen, now_us, &priority);
        if (verdict == AW_VPA_UPDATE_OOM)
            return verdict;
        if (aw_vpa_verdict_updates(verdict) && !aw_vpa_verdict_updates(found))
            found = verdict;
    }
    return found;
}

void aw__policy_vpa_decide(struct aw_policy *policy, const struct aw_sample *sample, int64_t now_us,
                           struct aw_plan *plan, struct aw_policy_reason *reason)
{
    struct aw__policy_state *state = &policy->state;
    const bool due = now_us >= state->vpa_next_us;
    follow(policy, sample, due, now_us);
    if (!due) {
        if (reason->cause == AW_POLICY_CAUSE_NONE)
            reason->cause = AW_POLICY_CAUSE_NOT_YET;
        return;
    }
    state->vpa_next_us = now_us + (int64_t)(policy->settings.vpa_period * 1e6);

    struct aw_vpa_recommendation wanted;
    if (aw_vpa_recommend(&policy->vpa_config, &state->vpa, 1, &policy->vpa_policy, &wanted)) {
        if (reason->cause == AW_POLICY_CAUSE_NONE)
            reason->cause = AW_POLICY_CAUSE_NO_DATA;
        return;
    }
    reason->cpu_target = policy->vpa_controls[AW_VPA_CPU] ? wanted.target[AW_VPA_CPU] : 0;
    reason->memory_target = wanted.target[AW_VPA_MEMORY];
    const enum aw_vpa_verdict verdict = judge(policy, sample, &wanted, now_us);
    if (!aw_vpa_verdict_updates(verdict) || (sample->rollout && verdict != AW_VPA_UPDATE_OOM))
        return;
    if (policy->vpa_controls[AW_VPA_CPU]) {
        plan->set |= AW_PLAN_CPU;
        plan->cpu_millicores = wanted.target[AW_VPA_CPU];
    }
    plan->set |= AW_PLAN_MEMORY;
    plan->memory_bytes = wanted.target[AW_VPA_MEMORY];
    if (plan->set & AW_PLAN_REPLICAS)
        reason->cause = AW_POLICY_CAUSE_UP_RESIZE;
    else
        reason->cause =
            verdict == AW_VPA_UPDATE_OOM ? AW_POLICY_CAUSE_RESIZE_OOM : AW_POLICY_CAUSE_RESIZE;
}
