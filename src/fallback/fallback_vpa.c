/*
 * fallback_vpa.c - the VPA fed from samples, and its updater's rules turned into a new size.
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
#include "base/units.h"
#include "fallback/fallback_kinds.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define DAY_US (86400 * (int64_t)1000000)

/* The defaults of upstream, most of them tables of buckets: made once, for all policies. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct aw_vpa_config upstream;

static void make_upstream(void)
{
    aw_vpa_config_init(&upstream);
}

static double ratio_of(const struct aw_fallback_settings *settings)
{
    return settings->history_half_life * 1e6 / (double)DAY_US;
}

static void config_of(const struct aw_fallback_settings *settings, struct aw_vpa_config *ret)
{
    const double ratio = ratio_of(settings);
    pthread_once(&once, make_upstream);
    *ret = upstream;
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
        ret->shape[r].half_life_us = (int64_t)(settings->history_half_life * 1e6);
    ret->confidence_us = (int64_t)((double)ret->confidence_us * ratio);
    ret->memory_interval_us = (int64_t)((double)ret->memory_interval_us * ratio);
    ret->pod_min[AW_VPA_MEMORY] = (int64_t)(settings->vpa_memory_min_mib * AW_MIB_REAL);
}

enum aw_err aw__fallback_vpa_check(const struct aw_fallback *policy, struct aw_diag *diag)
{
    struct aw_vpa_config config;
    config_of(&policy->settings, &config);
    return aw_vpa_config_check(&config, diag);
}

/* --- what is known of usage --------------------------------------------------------------------
 */

/* The recommender in its own terms, for the length of a decision. */
struct recommender {
    struct aw_vpa_config config;
    struct aw_vpa_aggregate aggregate;
};

/* The total is that of the weights as they are kept, so that a percentile of 1 is reached. */
static void histogram_from(const struct aw__fallback_usage *usage, struct aw_histogram *ret)
{
    ret->reference_us = usage->reference_us;
    ret->lowest = usage->lowest;
    ret->highest = usage->highest;
    ret->total = 0;
    for (uint32_t i = 0; i < AW_HISTOGRAM_BUCKETS_MAX; i++) {
        ret->weight[i] = (double)usage->weight[i];
        ret->total += ret->weight[i];
    }
}

static void histogram_keep(struct aw__fallback_usage *usage, const struct aw_histogram *histogram)
{
    usage->reference_us = histogram->reference_us;
    usage->lowest = histogram->lowest;
    usage->highest = histogram->highest;
    for (uint32_t i = 0; i < AW_HISTOGRAM_BUCKETS_MAX; i++)
        usage->weight[i] = (float)histogram->weight[i];
}

/* A resource that is not controlled begins anew each time: nobody reads its histogram. */
static void recommender_open(const struct aw_fallback *policy, struct recommender *ret)
{
    const struct aw__fallback_state *state = policy->state;
    const struct aw__fallback_usage *usage = policy->usage;
    config_of(&policy->settings, &ret->config);
    aw_vpa_aggregate_init(&ret->aggregate, &ret->config, 0);
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
        if (aw__fallback_controls(policy->settings.kind, r))
            histogram_from(usage++, &ret->aggregate.usage[r]);
    ret->aggregate.first_sample_us = state->first_sample_us;
    ret->aggregate.last_sample_us = state->last_sample_us;
    ret->aggregate.sample_count = state->sample_count;
}

static void recommender_close(struct aw_fallback *policy, const struct recommender *recommender)
{
    const struct aw_vpa_aggregate *aggregate = &recommender->aggregate;
    struct aw__fallback_state *state = policy->state;
    struct aw__fallback_usage *usage = policy->usage;
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
        if (aw__fallback_controls(policy->settings.kind, r))
            histogram_keep(usage++, &aggregate->usage[r]);
    state->first_sample_us = aggregate->first_sample_us;
    state->last_sample_us = aggregate->last_sample_us;
    state->sample_count = aggregate->sample_count;
}

void aw__fallback_vpa_reset(struct aw_fallback *policy)
{
    struct recommender fresh;
    config_of(&policy->settings, &fresh.config);
    aw_vpa_aggregate_init(&fresh.aggregate, &fresh.config, 0);
    recommender_close(policy, &fresh);
}

/* --- what is known of each pod -----------------------------------------------------------------
 */

static uint32_t tracked(const struct aw_fallback *policy, const struct aw_sample *sample)
{
    return sample->pod_count < policy->track_room ? sample->pod_count : policy->track_room;
}

/* Where the track of pod `i` may go, all before it having theirs: behind the others, or, when there
 * is no room left, over one that none of the pods still to come will ask for. */
static uint32_t place_for(const struct aw_fallback *policy, const struct aw_sample *sample,
                          uint32_t i, uint32_t count)
{
    if (policy->state->track_count < policy->track_room)
        return (uint32_t)policy->state->track_count++;
    for (uint32_t at = i; at < policy->track_room; at++) {
        uint32_t next = i + 1;
        while (next < count && sample->pods[next].id != policy->track[at].id)
            next++;
        if (next == count)
            return at;
    }
    return i; /* only when pods share an id */
}

/* Brings the tracks into the order of the sample, in place: a pod seen for the first time gets a
 * new one, and those of pods that are gone are dropped. */
static void align(struct aw_fallback *policy, const struct aw_sample *sample, uint32_t count)
{
    struct aw__fallback_state *state = policy->state;
    struct aw__pod_track *track = policy->track;
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_pod *pod = &sample->pods[i];
        uint32_t at = i;
        while (at < state->track_count && track[at].id != pod->id)
            at++;
        if (at >= state->track_count) {
            at = place_for(policy, sample, i, count);
            track[at] = (struct aw__pod_track){.id = pod->id,
                                               .started_us = pod->started_us,
                                               .oom_after_start_us = AW_NEVER,
                                               .cpu_last_us = AW_NEVER,
                                               .memory_last_us = AW_NEVER};
        }
        if (at != i) {
            const struct aw__pod_track found = track[at];
            track[at] = track[i];
            track[i] = found;
        }
    }
    if (state->track_count > count)
        memset(track + count, 0, (state->track_count - count) * sizeof *track);
    state->track_count = count;
}

static struct aw_vpa_container container_from(const struct aw__pod_track *track)
{
    const bool has_cpu = track->cpu_last_us != AW_NEVER;
    const bool has_memory = track->memory_last_us != AW_NEVER;
    return (struct aw_vpa_container){
        .has_cpu = has_cpu,
        .has_memory = has_memory,
        .cpu_last_us = has_cpu ? track->cpu_last_us : 0,
        .memory_last_us = has_memory ? track->memory_last_us : 0,
        .window_end_us = track->window_end_us,
        .memory_peak = track->memory_peak,
        .oom_peak = track->oom_peak,
    };
}

static void container_keep(struct aw__pod_track *track, const struct aw_vpa_container *container)
{
    track->cpu_last_us = container->has_cpu ? container->cpu_last_us : AW_NEVER;
    track->memory_last_us = container->has_memory ? container->memory_last_us : AW_NEVER;
    track->window_end_us = container->window_end_us;
    track->memory_peak = container->memory_peak;
    track->oom_peak = container->oom_peak;
}

static bool killed(const struct aw__pod_track *track, const struct aw_pod *pod)
{
    return pod->oom_kill_count > track->oom_kill_count;
}

/* Tells the recommender of kills, and of usage too when `usage`. */
static void take_in(struct aw_fallback *policy, struct recommender *recommender,
                    const struct aw_sample *sample, uint32_t count, bool usage, int64_t now_us)
{
    const struct aw_vpa_config *config = &recommender->config;
    struct aw_vpa_aggregate *aggregate = &recommender->aggregate;
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_pod *pod = &sample->pods[i];
        struct aw__pod_track *track = &policy->track[i];
        struct aw_vpa_container container = container_from(track);
        if (killed(track, pod)) {
            /* killed at some time since the last look; its life began before that */
            track->oom_after_start_us =
                track->started_us == AW_NEVER ? 0 : now_us - track->started_us;
            (void)aw_vpa_oom(config, aggregate, &container, pod->memory_bytes, now_us);
        }
        if (usage && aw__fallback_fresh(policy, pod->cpu_cores_used, now_us))
            (void)aw_vpa_add(config, aggregate, &container, AW_VPA_CPU,
                             llround(pod->cpu_cores_used.value * 1000), pod->cpu_cores_used.at_us);
        if (usage && aw__fallback_fresh(policy, pod->memory_bytes_used, now_us))
            (void)aw_vpa_add(config, aggregate, &container, AW_VPA_MEMORY,
                             llround(pod->memory_bytes_used.value), pod->memory_bytes_used.at_us);
        container_keep(track, &container);
    }
}

/* Follows every pod; `ret` is open afterwards when usage was due. */
static void follow(struct aw_fallback *policy, const struct aw_sample *sample, bool due,
                   int64_t now_us, struct recommender *ret)
{
    aw__fallback_track_room(policy, sample->pod_count);
    const uint32_t count = tracked(policy, sample);
    align(policy, sample, count);
    bool news = due;
    for (uint32_t i = 0; i < count && !news; i++)
        news = killed(&policy->track[i], &sample->pods[i]);
    if (news) {
        recommender_open(policy, ret);
        take_in(policy, ret, sample, count, due, now_us);
        recommender_close(policy, ret);
    }
    for (uint32_t i = 0; i < count; i++) {
        policy->track[i].oom_kill_count = sample->pods[i].oom_kill_count;
        policy->track[i].started_us = sample->pods[i].started_us;
    }
}

/* --- deciding ----------------------------------------------------------------------------------
 */

static struct aw_vpa_updater updater_of(const struct aw_fallback_settings *settings)
{
    struct aw_vpa_updater updater;
    aw_vpa_updater_init(&updater);
    updater.replicas_min = settings->vpa_replicas_min;
    updater.lifetime_us = (int64_t)((double)updater.lifetime_us * ratio_of(settings));
    return updater;
}

/* The strongest reason that the updater has to touch a pod. */
static enum aw_vpa_verdict judge(const struct aw_fallback *policy, const struct aw_sample *sample,
                                 const struct aw_vpa_recommendation *wanted, int64_t now_us)
{
    const struct aw_vpa_updater updater = updater_of(&policy->settings);
    const uint32_t kind = policy->settings.kind, count = tracked(policy, sample);
    enum aw_vpa_verdict found = AW_VPA_KEEP_CLOSE;
    uint32_t live = 0;
    for (uint32_t i = 0; i < sample->pod_count; i++)
        live += sample->pods[i].phase == AW_POD_RUNNING || sample->pods[i].phase == AW_POD_STARTING;
    if (live < updater.replicas_min)
        return found;
    for (uint32_t i = 0; i < sample->pod_count; i++) {
        const struct aw_pod *pod = &sample->pods[i];
        const int64_t oom_us = i < count ? policy->track[i].oom_after_start_us : AW_NEVER;
        const struct aw_vpa_pod_container container = {
            .recommendation = wanted,
            .has_bounds = true,
            .controlled = {aw__fallback_controls(kind, AW_VPA_CPU),
                           aw__fallback_controls(kind, AW_VPA_MEMORY)},
            .has_request = {true, true},
            .request = {pod->cpu_millicores, pod->memory_bytes},
            .oom_killed = oom_us != AW_NEVER,
            .oom_after_start_us = oom_us != AW_NEVER ? oom_us : 0,
        };
        const struct aw_vpa_pod seen = {
            .containers = &container,
            .container_count = 1,
            .started = pod->started_us != AW_NEVER,
            .start_us = pod->started_us != AW_NEVER ? pod->started_us : 0,
        };
        struct aw_vpa_priority priority;
        enum aw_vpa_verdict verdict = aw_vpa_pod_verdict(&updater, &seen, now_us, &priority);
        if (verdict == AW_VPA_UPDATE_OOM)
            return verdict;
        if (aw_vpa_verdict_updates(verdict) && !aw_vpa_verdict_updates(found))
            found = verdict;
    }
    return found;
}

void aw__fallback_vpa_decide(struct aw_fallback *policy, const struct aw_sample *sample,
                             int64_t now_us, struct aw_plan *plan,
                             struct aw_fallback_reason *reason)
{
    struct recommender recommender;
    const bool due =
        aw__fallback_due(policy->state->vpa_next_us, now_us, policy->settings.vpa_period);
    const bool cpu = aw__fallback_controls(policy->settings.kind, AW_VPA_CPU);
    follow(policy, sample, due, now_us, &recommender);
    if (!due) {
        reason->waiting |= AW_PLAN_MEMORY | (cpu ? AW_PLAN_CPU : 0u);
        if (reason->cause == AW_FALLBACK_CAUSE_NONE)
            reason->cause = AW_FALLBACK_CAUSE_NOT_YET;
        return;
    }
    policy->state->vpa_next_us =
        aw__fallback_next_us(policy->state->vpa_next_us, now_us, policy->settings.vpa_period);

    const struct aw_bounds *bounds = &policy->task.bounds;
    const struct aw_vpa_policy allowed = {
        .min_allowed = {bounds->cpu_millicores_min, bounds->memory_bytes_min},
        .max_allowed = {bounds->cpu_millicores_max, bounds->memory_bytes_max},
    };
    struct aw_vpa_recommendation wanted;
    if (aw_vpa_recommend(&recommender.config, &recommender.aggregate, 1, &allowed, &wanted)) {
        if (reason->cause == AW_FALLBACK_CAUSE_NONE)
            reason->cause = AW_FALLBACK_CAUSE_NO_DATA;
        return;
    }
    reason->cpu_target = cpu ? wanted.target[AW_VPA_CPU] : 0;
    reason->memory_target = wanted.target[AW_VPA_MEMORY];
    const enum aw_vpa_verdict verdict = judge(policy, sample, &wanted, now_us);
    if (!aw_vpa_verdict_updates(verdict) || (sample->rollout && verdict != AW_VPA_UPDATE_OOM))
        return;
    if (cpu) {
        plan->set |= AW_PLAN_CPU;
        plan->cpu_millicores = wanted.target[AW_VPA_CPU];
    }
    plan->set |= AW_PLAN_MEMORY;
    plan->memory_bytes = wanted.target[AW_VPA_MEMORY];
    if (plan->set & AW_PLAN_REPLICAS)
        reason->cause = AW_FALLBACK_CAUSE_UP_RESIZE;
    else
        reason->cause =
            verdict == AW_VPA_UPDATE_OOM ? AW_FALLBACK_CAUSE_RESIZE_OOM : AW_FALLBACK_CAUSE_RESIZE;
}
