/* fallback.c - the contract: settings, dispatch, and the wall that every proposal passes. */
#include "fallback/fallback.h"

#include "base/envelope.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/units.h"
#include "fallback/fallback_kinds.h"
#include "task/action.h"
#include "task/bounds.h"
#include "task/reading.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const aw_fallback_names[] = {
#define X(id, name) name,
    AW_FALLBACK_MAP(X)
#undef X
        NULL,
};

/* clang-format off */
#define AW_CONF_OF struct aw_fallback_task
const struct aw_conf_field aw_fallback_task_fields[] = {
    AW_BOUNDS_FIELDS
    AW_CONF_NUMBER(slo_latency_us, "0", -INFINITY, INFINITY, "latency to keep in us; 0: none"),
    AW_CONF_NUMBER(slo_quantile, "0", -INFINITY, INFINITY, "0: the 99th percentile"),
#define X(id, member, name, unit, most, common, restarts, use, words, ...) \
    AW_CONF_NUMBER(member, "0", 0, AW_AMOUNT_MAX(unit), words " to begin with"),
    AW_RESOURCE_MAP(X)
#undef X
    {0},
};
#undef AW_CONF_OF
#define AW_CONF_OF struct aw_fallback_settings
const struct aw_conf_field aw_fallback_fields[] = {
    AW_CONF_ONE_OF(kind, "hpa+vpa-mem", aw_fallback_names, "which rules decide"),
    AW_CONF_NUMBER(stale, "45", 1, 3600,
        "seconds after which a figure counts as missing; three readings of 15 s"),
    AW_CONF_NUMBER(hpa_target, "80", 1, 100,
        "CPU utilisation in percent of the request that the HPA aims at; Kubernetes' default"),
    AW_CONF_NUMBER(hpa_period, "15", 1, 3600,
        "seconds between syncs of the HPA; Kubernetes' default"),
    AW_CONF_NUMBER(hpa_tolerance, "0.1", 0, 1,
        "relative distance from the target that the HPA leaves alone; Kubernetes' default"),
    AW_CONF_NUMBER(hpa_down_window, "300", 0, 3600,
        "seconds of stabilisation before the HPA removes replicas; Kubernetes' default"),
    AW_CONF_NUMBER(history_half_life, "1800", 60, 8640000,
        "seconds after which a sample of the VPA weighs half; all clocks of the VPA follow, so "
        "that hours show what days would (upstream: 86400)"),
    AW_CONF_NUMBER(vpa_period, "60", 1, 86400,
        "seconds between looks of the VPA; upstream's default"),
    AW_CONF_NUMBER(vpa_replicas_min, "1", 1, 1000,
        "live replicas below which the VPA disturbs none (upstream: 2, without a surge)"),
    AW_CONF_NUMBER(vpa_memory_min_mib, "32", 1, 1048576,
        "least memory in MiB that the VPA recommends (upstream: 250, more than many of the "
        "generated applications use)"),
    AW_CONF_NUMBER(aimd_period, "60", 1, 3600, "seconds between changes of aimd"),
    AW_CONF_NUMBER(aimd_cpu_step, "0.5", 0.01, 64,
        "cores in all that aimd adds when the SLO is missed"),
    AW_CONF_NUMBER(aimd_memory_step, "64", 1, 65536, "MiB that aimd adds when memory is short"),
    AW_CONF_NUMBER(aimd_decrease, "0.9", 0.1, 0.99,
        "factor by which aimd shrinks when the SLO is easy"),
    AW_CONF_NUMBER(aimd_slack, "0.7", 0.05, 0.99, "p99 below this share of the SLO is easy"),
    AW_CONF_NUMBER(aimd_memory_high, "0.85", 0.1, 0.99, "use of memory beyond which it is short"),
    AW_CONF_NUMBER(aimd_memory_low, "0.6", 0.05, 0.98, "use of memory below which it is plenty"),
    AW_CONF_NUMBER(constant_cpu, "0.3", -1, 1, "anchored action of constant: CPU of a replica"),
    AW_CONF_NUMBER(constant_memory, "0", -1, 1,
        "anchored action of constant: memory over its recent peak"),
    AW_CONF_NUMBER(constant_replicas, "-0.5", -1, 1,
        "anchored action of constant: CPU in all over its recent peak"),
    AW_CONF_NUMBER(anchor_window, "20", 1, AW_ACTION_WINDOW_MAX,
        "steps over which a peak of use is recent; 5 minutes, as the HPA's window"),
    {0},
};
/* clang-format on */

const char *aw_fallback_cause_text(enum aw_fallback_cause cause)
{
    static const char *const texts[] = {
#define X(id, text) text,
        AW_FALLBACK_CAUSE_MAP(X)
#undef X
    };
    AW_ASSERT((size_t)cause < AW_FALLBACK_CAUSE_COUNT);
    return texts[cause];
}

static void add_names(struct aw_text *text, const char *what, uint32_t set)
{
    if (set == 0)
        return;
    aw_text_add(text, "; %s:", what);
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        if (set & AW_PLAN_BIT(r))
            aw_text_add(text, " %s", aw_resource_table[r].name);
}

const char *aw_fallback_reason_format(const struct aw_fallback_reason *reason, char *buf,
                                      size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    aw_text_add(&text, "%s", aw_fallback_cause_text(reason->cause));
    if (isfinite(reason->utilization))
        aw_text_add(&text, "; utilisation %.0f %%", 100 * reason->utilization);
    if (reason->replicas_proposed > 0)
        aw_text_add(&text, "; proposed %" PRIu32 " replicas", reason->replicas_proposed);
    if (reason->cpu_target > 0)
        aw_text_add(&text, "; target %" PRId64 "m CPU", reason->cpu_target);
    if (reason->memory_target > 0)
        aw_text_add(&text, "; target %.0f MiB", (double)reason->memory_target / AW_MIB_REAL);
    add_names(&text, "not shrunk without fresh figures", reason->held);
    add_names(&text, "cut to its bounds", reason->clipped);
    return buf;
}

/* --- life -------------------------------------------------------------------------------------
 */

static enum aw_err check_task(const struct aw_fallback_task *task, struct aw_diag *diag)
{
    const struct aw_bounds *bounds = &task->bounds;
    enum aw_err err = aw_bounds_check(bounds, diag);
    if (err)
        return err;
    if (bounds->replicas_max > AW_CLUSTER_PODS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected at most %u replicas, found %" PRId64,
                       AW_CLUSTER_PODS_MAX, bounds->replicas_max);
    struct aw_plan start = aw_plan_of(task->amount);
    aw_bounds_clip(bounds, &start);
    if (aw_plan_differs(start.amount, task->amount) & start.set) /* what is known to begin with */
        return aw_fail(
            diag, AW_ERR_CONFIG,
            "it begins outside its bounds: %" PRId64 " replicas of %" PRId64 "m CPU and %.0f MiB",
            task->replicas, task->cpu_millicores, (double)task->memory_bytes / AW_MIB_REAL);
    return AW_OK;
}

/* The state is the last stretch of the block; gaps between its parts are zero and stay so. */
static void carve(struct aw_fallback *policy, struct aw_carve *c)
{
    const uint32_t kind = policy->settings.kind;
    const size_t anchored = kind == AW_FALLBACK_CONSTANT;
    size_t resources = 0;
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++)
        resources += aw__fallback_controls(kind, r);
    (void)aw_carve_take(c, 1, sizeof *policy);
    policy->action = aw_carve_take(c, anchored, sizeof *policy->action);
    const size_t before = c->used;
    policy->state = aw_carve_take(c, 1, sizeof *policy->state);
    policy->recommendations =
        aw_carve_take(c, policy->recommendation_max, sizeof *policy->recommendations);
    policy->usage = aw_carve_take(c, resources, sizeof *policy->usage);
    policy->anchor = aw_carve_take(c, anchored, sizeof *policy->anchor);
    policy->state_bytes = c->used - before;
    policy->bytes = c->used;
}

enum aw_err aw_fallback_new(const struct aw_fallback_settings *settings,
                            const struct aw_fallback_task *task, const struct aw_alloc *alloc,
                            struct aw_fallback **ret_policy, struct aw_diag *diag)
{
    AW_ASSERT(settings->kind < AW_FALLBACK_COUNT);
    struct aw_fallback made = {.settings = *settings,
                               .task = *task,
                               .alloc = alloc,
                               .stale_us = (int64_t)(settings->stale * 1e6)};
    enum aw_err err = check_task(task, diag);
    if (!err)
        err = aw__fallback_hpa_check(&made, diag);
    if (!err)
        err = aw__fallback_vpa_check(&made, diag);
    if (!err)
        err = aw__fallback_aimd_check(&made, diag);
    if (err)
        return err;
    if (aw__fallback_has_hpa(settings->kind))
        made.recommendation_max = aw__fallback_hpa_recommendation_max(settings);
    if (aw__fallback_has_vpa(settings->kind)) {
        const uint32_t pods = 2 * task->bounds.replicas_max + AW__FALLBACK_STRAY_PODS;
        made.track_max = pods < AW_CLUSTER_PODS_MAX ? pods : AW_CLUSTER_PODS_MAX;
    }
    struct aw_carve c = {0};
    carve(&made, &c);
    struct aw_fallback *policy = aw_alloc_new(alloc, 1, c.used);
    if (policy) {
        c = (struct aw_carve){.base = (unsigned char *)policy};
        carve(&made, &c);
        *policy = made;
        aw__fallback_track_room(policy, task->replicas);
    }
    if (!policy || (made.track_max > 0 && !policy->track)) {
        aw_fallback_free(policy);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a policy");
    }
    if (settings->kind == AW_FALLBACK_CONSTANT)
        aw__fallback_constant_init(policy);
    aw_fallback_reset(policy);
    *ret_policy = policy;
    return AW_OK;
}

void aw_fallback_free(struct aw_fallback *policy)
{
    if (!policy)
        return;
    aw_alloc_free(policy->alloc, policy->track);
    aw_alloc_free(policy->alloc, policy);
}

void aw__fallback_track_room(struct aw_fallback *policy, uint32_t count)
{
    uint32_t room = policy->track_room ? policy->track_room : AW__FALLBACK_TRACK_ROOM;
    while (room < count && room < policy->track_max)
        room *= 2;
    room = room < policy->track_max ? room : policy->track_max;
    if (room <= policy->track_room)
        return;
    struct aw__pod_track *track = aw_alloc_new(policy->alloc, room, sizeof *track);
    if (!track)
        return; /* the first are followed, as where there are too many */
    if (policy->track)
        memcpy(track, policy->track, policy->track_room * sizeof *track);
    aw_alloc_free(policy->alloc, policy->track);
    policy->track = track;
    policy->track_room = room;
}

void aw_fallback_reset(struct aw_fallback *policy)
{
    struct aw__fallback_state *state = policy->state;
    memset(state, 0, policy->state_bytes);
    if (policy->track)
        memset(policy->track, 0, policy->track_room * sizeof *policy->track);
    state->hpa_next_us = state->vpa_next_us = state->aimd_next_us = INT64_MIN;
    if (aw__fallback_has_vpa(policy->settings.kind))
        aw__fallback_vpa_reset(policy);
    if (policy->settings.kind == AW_FALLBACK_CONSTANT)
        aw_action_begin(policy->anchor);
}

size_t aw_fallback_bytes(const struct aw_fallback *policy)
{
    return policy->bytes + policy->track_room * sizeof *policy->track;
}

/* --- deciding ---------------------------------------------------------------------------------
 */

/* Within the bounds; nothing smaller on figures that are missing or stale; only what changes. */
static void wall(const struct aw_fallback *policy, const struct aw_sample *sample, int64_t now_us,
                 struct aw_plan *plan, struct aw_fallback_reason *reason)
{
    const bool known[AW_USES] = {
        [AW_USE_CPU] = aw__fallback_fresh(policy, sample->cpu_cores_used, now_us),
        [AW_USE_MEMORY] = aw__fallback_fresh(policy, sample->memory_bytes_used, now_us)};
    const struct aw_plan asked = *plan;
    aw_bounds_clip(&policy->task.bounds, plan);
    reason->clipped = plan->set & aw_plan_differs(plan->amount, asked.amount);
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        if (!known[aw_resource_table[r].use] && plan->amount[r] < sample->wanted[r])
            reason->held |= plan->set & AW_PLAN_BIT(r);
    plan->set &= aw_plan_differs(plan->amount, sample->wanted) & ~reason->held;
}

void aw_fallback_decide(struct aw_fallback *policy, const struct aw_sample *sample, int64_t now_us,
                        struct aw_plan *ret_plan, struct aw_fallback_reason *ret_reason)
{
    AW_ASSERT(sample->pod_count <= AW_CLUSTER_PODS_MAX);
    struct aw_plan plan = aw_plan_of(sample->wanted);
    plan.set = 0;
    struct aw_fallback_reason reason = {.utilization = NAN};
    struct aw_reading reading;
    switch ((enum aw_fallback_kind)policy->settings.kind) {
    case AW_FALLBACK_HPA:
        aw__fallback_hpa_decide(policy, sample, now_us, &plan, &reason);
        break;
    case AW_FALLBACK_VPA:
        aw__fallback_vpa_decide(policy, sample, now_us, &plan, &reason);
        break;
    case AW_FALLBACK_HPA_VPA:
    case AW_FALLBACK_HPA_VPA_MEM:
        aw__fallback_hpa_decide(policy, sample, now_us, &plan, &reason);
        aw__fallback_vpa_decide(policy, sample, now_us, &plan, &reason);
        break;
    case AW_FALLBACK_AIMD:
        aw_reading_take(sample, policy->stale_us, policy->task.slo_quantile, &reading);
        aw__fallback_aimd_decide(policy, sample, &reading, now_us, &plan, &reason);
        break;
    case AW_FALLBACK_CONSTANT:
        aw_reading_take(sample, policy->stale_us, policy->task.slo_quantile, &reading);
        aw__fallback_constant_decide(policy, sample, &reading, &plan, &reason);
        break;
    case AW_FALLBACK_STATIC:
    case AW_FALLBACK_COUNT:
        break;
    }
    wall(policy, sample, now_us, &plan, &reason);
    *ret_plan = plan;
    if (ret_reason)
        *ret_reason = reason;
}

/* --- state ------------------------------------------------------------------------------------
 */

AW_LAYOUT(state_layout, struct aw__fallback_state, 0, hpa_next_us, vpa_next_us, aimd_next_us,
          hpa_from, hpa_to, recommendation_count, scaled_to_zero, first_sample_us, last_sample_us,
          sample_count, track_count);
AW_LAYOUT(usage_layout, struct aw__fallback_usage, 0, reference_us, lowest, highest, weight);
AW_LAYOUT(track_layout, struct aw__pod_track, 0, id, oom_kill_count, started_us, oom_after_start_us,
          cpu_last_us, memory_last_us, window_end_us, memory_peak, oom_peak);
AW_LAYOUT(recommendation_layout, struct aw_hpa_recommendation, 0, time_us, span_us, low, high);
AW_LAYOUT(anchor_layout, struct aw_action_memory, 0, AW_ACTION_MEMORY());
static struct aw_format format = {
    .kind = "rules",
    .what = "the memory of a fallback",
    .version = 1,
    .layout = {state_layout, usage_layout, track_layout, recommendation_layout, anchor_layout}};

/* Whose bytes they are: the HPA's memory is as long as its window has periods. */
static uint64_t owner_of(const struct aw_fallback *policy)
{
    const bool hpa = aw__fallback_has_hpa(policy->settings.kind);
    const double whose[] = {policy->settings.kind, policy->track_max, policy->recommendation_max,
                            hpa ? policy->settings.hpa_down_window : 0,
                            hpa ? policy->settings.hpa_period : 0};
    return aw_hash_bytes(AW_HASH_BEGIN, whose, sizeof whose);
}

void aw_fallback_follow(struct aw_fallback *policy, const struct aw_fallback *other)
{
    const struct aw_fallback_settings *a = &policy->settings, *b = &other->settings;
    if (a->kind != b->kind || policy->state_bytes != other->state_bytes ||
        policy->recommendation_max != other->recommendation_max ||
        (aw__fallback_has_hpa(a->kind) &&
         (a->hpa_down_window != b->hpa_down_window || a->hpa_period != b->hpa_period)))
        return;
    const uint64_t tracks = other->state->track_count;
    aw__fallback_track_room(policy, tracks < UINT32_MAX ? (uint32_t)tracks : UINT32_MAX);
    memcpy(policy->state, other->state, policy->state_bytes);
    const uint64_t kept = tracks < policy->track_room ? tracks : policy->track_room;
    policy->state->track_count = kept;
    if (kept > 0)
        memcpy(policy->track, other->track, kept * sizeof *policy->track);
}

/* Tracks that there is no room for are saved as ones that nobody has: states have one length. */
static size_t track_bytes(const struct aw_fallback *policy)
{
    return policy->track_max * sizeof *policy->track;
}

size_t aw_fallback_state_bytes(const struct aw_fallback *policy)
{
    return sizeof(struct aw_envelope) + policy->state_bytes + track_bytes(policy);
}

void aw_fallback_state_save(const struct aw_fallback *policy, void *bytes)
{
    unsigned char *to = (unsigned char *)bytes + sizeof(struct aw_envelope);
    unsigned char *tracks = to + policy->state_bytes;
    const size_t used = policy->track_room * sizeof *policy->track;
    memcpy(to, policy->state, policy->state_bytes);
    if (used > 0)
        memcpy(tracks, policy->track, used);
    memset(tracks + used, 0, track_bytes(policy) - used);
    aw_envelope_seal(&format, owner_of(policy), bytes, aw_fallback_state_bytes(policy));
}

enum aw_err aw_fallback_state_load(struct aw_fallback *policy, const void *bytes)
{
    const unsigned char *from = (const unsigned char *)bytes + sizeof(struct aw_envelope);
    struct aw__fallback_state state;
    if (aw_envelope_open(&format, owner_of(policy), bytes, aw_fallback_state_bytes(policy), NULL))
        return AW_ERR_FORMAT;
    memcpy(&state, from, sizeof state);
    if (state.recommendation_count > policy->recommendation_max ||
        state.track_count > policy->track_max)
        return AW_ERR_FORMAT;
    aw__fallback_track_room(policy, (uint32_t)state.track_count);
    if (state.track_count > policy->track_room)
        return AW_ERR_NOMEM;
    memcpy(policy->state, from, policy->state_bytes);
    if (policy->track)
        memcpy(policy->track, from + policy->state_bytes,
               policy->track_room * sizeof *policy->track);
    return AW_OK;
}
