/* explanation.c - a decision as JSON, and whether it is worth keeping. */
#include "desk/explanation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/units.h"
#include "desk/explanation_internal.h"
#include "tenancy/arbiter.h"

/* --- building ---------------------------------------------------------------------------------
 */

struct aw__told aw__told_begin(void)
{
    return (struct aw__told){.object = json_object()};
}

void aw__told_put(struct aw__told *told, const char *key, json_t *value)
{
    told->failed |= json_object_set_new_nocheck(told->object, key, value) != 0;
}

void aw__told_text(struct aw__told *told, const char *key, const char *value)
{
    aw__told_put(told, key, value ? json_string(value) : json_null());
}

static json_t *account_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void aw__told_real(struct aw__told *told, const char *key, double value)
{
    aw__told_put(told, key, account_real(value));
}

void aw__told_whole(struct aw__told *told, const char *key, int64_t value)
{
    aw__told_put(told, key, json_integer(value));
}

void aw__told_flag(struct aw__told *told, const char *key, bool value)
{
    aw__told_put(told, key, json_boolean(value));
}

json_t *aw__told_end(struct aw__told *told)
{
    if (told->failed) {
        json_decref(told->object);
        told->object = NULL;
    }
    return told->object;
}

/* As the shortest number that is the same float: 0.3, not 0.30000001192092896. */
static json_t *real_f32(float value)
{
    char text[AW_TEXT_REAL_MAX];
    double shortest;
    if (!isfinite(value) ||
        aw_text_parse_real(aw_text_real_f32(value, text, sizeof text), &shortest))
        return json_null();
    return json_real(shortest);
}

static json_t *id_hex(uint64_t id)
{
    char text[17];
    if (id == 0)
        return json_null();
    snprintf(text, sizeof text, "%016" PRIx64, id);
    return json_string(text);
}

static json_t *id_whole(uint64_t id)
{
    return id ? json_integer((json_int_t)id) : json_null();
}

/* RFC 3339 in UTC. A time before 1970 or after 9999 is written as the nearest of the two. */
static json_t *time_json(int64_t at_us)
{
    const int64_t max_us = 253402300799999999;
    char date[32], text[48];
    struct tm tm;
    at_us = at_us < 0 ? 0 : at_us > max_us ? max_us : at_us;
    const time_t seconds = at_us / 1000000;
    gmtime_r(&seconds, &tm);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, sizeof text, "%s.%06dZ", date, (int)(at_us % 1000000));
    return json_string(text);
}

static json_t *axes_json(uint32_t set)
{
    json_t *names = json_array();
    bool failed = false;
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (set & AW_PLAN_BIT(i))
            failed |= json_array_append_new(names, json_string(aw_resource_table[i].name)) != 0;
    if (!failed)
        return names;
    json_decref(names);
    return NULL;
}

/* --- plans ------------------------------------------------------------------------------------
 */

struct aw_plan aw_explanation_before(const struct aw_decision *decision)
{
    return aw_plan_of(decision->reading.wanted);
}

json_t *aw_explanation_plan_json(const struct aw_plan *plan)
{
    struct aw__told told = aw__told_begin();
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (plan->set & AW_PLAN_BIT(i))
            aw__told_whole(&told, aw_resource_table[i].member, plan->amount[i]);
    told.failed |= !told.object;
    return aw__told_end(&told);
}

static json_t *action_json(const struct aw_pilot_config *config, const float *action)
{
    const uint32_t more = aw_action_more(&config->bounds), dim = aw_action_dim(more);
    struct aw__told told = aw__told_begin();
    for (uint32_t i = 0; i < dim; i++)
        aw__told_put(&told, aw_action_axis(more, i).name, real_f32(action[i]));
    return aw__told_end(&told);
}

/* --- the parts --------------------------------------------------------------------------------
 */

static json_t *inputs_json(const struct aw_decision *decision)
{
    struct aw__told inputs = aw__told_begin();
#define X(id, member, unit_name)                                               \
    {                                                                          \
        struct aw__told one = aw__told_begin();                                \
        aw__told_real(&one, "value", decision->reading.member);                \
        aw__told_text(&one, "unit", unit_name);                                \
        aw__told_put(&one, "age_s", real_f32(decision->age_s[AW_INPUT_##id])); \
        aw__told_put(&inputs, #member, aw__told_end(&one));                    \
    }
    AW_INPUT_MAP(X)
#undef X
    return aw__told_end(&inputs);
}

/* What was there, and what was asked for. */
static json_t *standing_json(const struct aw_decision *decision)
{
    const struct aw_reading *reading = &decision->reading;
    struct aw__told told = aw__told_begin();
    aw__told_flag(&told, "answered", decision->answered);
    aw__told_whole(&told, "replicas_wanted", reading->replicas_wanted);
    aw__told_whole(&told, "replicas_ready", reading->replicas_ready);
    aw__told_whole(&told, "cpu_millicores", reading->cpu_millicores_wanted);
    aw__told_whole(&told, "memory_bytes", reading->memory_bytes_wanted);
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++)
        if (reading->wanted[r])
            aw__told_whole(&told, aw_resource_table[r].member, reading->wanted[r]);
    aw__told_real(&told, "cores_allocated", 1e-3 * reading->allocated[AW_RESOURCE_CPU]);
    aw__told_real(&told, "memory_bytes_allocated", reading->allocated[AW_RESOURCE_MEMORY]);
    aw__told_real(&told, "cpu_utilisation", reading->cpu_utilisation);
    aw__told_real(&told, "memory_utilisation", reading->memory_utilisation);
    aw__told_real(&told, "oldest_s", reading->age_s);
    aw__told_whole(&told, "oom_kills", reading->oom_kills);
    aw__told_flag(&told, "rollout", reading->rollout);
    return aw__told_end(&told);
}

static json_t *state_json(const struct aw_pilot_config *config, const struct aw_decision *decision)
{
    const uint32_t more = aw_action_more(&config->bounds), dim = decision->state_dim;
    struct aw__told told = aw__told_begin();
    for (uint32_t i = 0; i < dim && i < AW_STATE_DIM_MAX; i++)
        aw__told_put(&told, aw_state_axis(dim, more, i)->name, real_f32(decision->state[i]));
    return aw__told_end(&told);
}

/* The shared model that a policy was made from. */
static json_t *origin_json(const struct aw_policy_origin *origin)
{
    struct aw__told told = aw__told_begin();
    aw__told_text(&told, "model", origin->name);
    aw__told_put(&told, "checksum", id_hex(origin->checksum));
    aw__told_put(&told, "episodes", json_integer(origin->episodes));
    return aw__told_end(&told);
}

/* An agent of another process: who it is, what it answered, and why that was not followed. */
static json_t *external_json(const struct aw_decision *decision)
{
    const struct aw_external_agent_report *report = &decision->external;
    char text[AW_EXTERNAL_AGENT_TEXT_MAX];
    struct aw__told told = aw__told_begin();
    aw__told_text(&told, "name", *report->name ? report->name : NULL);
    aw__told_text(&told, "standing", aw_external_agent_standing_name(report->standing));
    aw__told_text(&told, "answer", aw_external_agent_fault_name(report->fault));
    aw__told_flag(&told, "asked", report->asked);
    aw__told_flag(&told, "follow", report->follow);
    aw__told_flag(&told, "shadow", report->shadow);
    aw__told_whole(&told, "strikes", report->strikes);
    aw__told_real(&told, "aside_s", report->left_s);
    aw__told_real(&told, "took_s", report->asked ? decision->took_s : (double)NAN);
    aw__told_real(&told, "confidence",
                  report->words.has_confidence ? (double)report->words.confidence : (double)NAN);
    aw__told_text(&told, "explanation",
                  *report->words.explanation ? report->words.explanation : NULL);
    aw__told_text(&told, "sentence", aw_external_agent_report_format(report, text, sizeof text));
    return aw__told_end(&told);
}

/* Of one of the two who decide: what it would have done, whoever acted. */
static json_t *decider_json(const struct aw_pilot_config *config,
                            const struct aw_decision *decision, bool agent)
{
    const bool agent_acts = decision->in_charge != AW_ACTOR_FALLBACK;
    const float *action = agent == agent_acts ? decision->action : decision->shadow;
    struct aw__told told = aw__told_begin();
    if (agent) {
        const bool there = decision->by_agent.set != 0;
        aw__told_text(&told, "kind", config->learning ? aw_policy_names[config->agent] : NULL);
        aw__told_put(&told, "model", id_hex(decision->policy_id));
        if (decision->origin.checksum)
            aw__told_put(&told, "specialised_from", origin_json(&decision->origin));
        if (aw_policy_ops_of(config->agent)->elsewhere)
            aw__told_put(&told, "external", external_json(decision));
        aw__told_put(&told, "plan",
                     there ? aw_explanation_plan_json(&decision->by_agent) : json_null());
        aw__told_put(&told, "action", there ? action_json(config, action) : json_null());
    } else {
        char text[AW_FALLBACK_REASON_TEXT_MAX];
        aw__told_text(&told, "kind", aw_fallback_names[config->fallback.kind]);
        aw__told_put(&told, "plan", aw_explanation_plan_json(&decision->by_fallback));
        aw__told_put(&told, "action", action_json(config, action));
        aw__told_text(&told, "reason",
                      aw_fallback_reason_format(&decision->fallback, text, sizeof text));
        aw__told_put(&told, "goes_back", axes_json(decision->homing));
        if (decision->relieved)
            aw__told_put(&told, "raised", axes_json(decision->relieved));
    }
    aw__told_flag(&told, "acts", agent == agent_acts && decision->actor == decision->in_charge);
    return aw__told_end(&told);
}

static json_t *grant_json(const struct aw_order_grant *grant)
{
    struct aw__told told = aw__told_begin();
    const enum aw_arbiter_reason reason = (enum aw_arbiter_reason)grant->reason;
    aw__told_whole(&told, "asked", grant->asked);
    aw__told_whole(&told, "got", grant->got);
    aw__told_whole(&told, "target", grant->target);
    aw__told_flag(&told, "same_size", grant->same_size);
    aw__told_text(&told, "reason",
                  reason < AW_ARBITER_REASONS ? aw_arbiter_reason_name(reason) : NULL);
    aw__told_text(&told, "sentence",
                  reason < AW_ARBITER_REASONS ? aw_arbiter_reason_sentence(reason) : NULL);
    aw__told_whole(&told, "wait_s", grant->wait_s);
    aw__told_whole(&told, "rank", grant->rank);
    aw__told_whole(&told, "of", grant->of);
    return aw__told_end(&told);
}

static json_t *orders_json(const struct aw_orders *orders)
{
    static const char *const freezes[] = {"none", "down", "all"};
    struct aw__told told = aw__told_begin();
    aw__told_text(&told, "freeze", orders->freeze < 3 ? freezes[orders->freeze] : NULL);
    aw__told_put(&told, "freeze_id", id_whole(orders->freeze_id));
    aw__told_text(&told, "pin", aw_order_name(orders->pin_kind));
    aw__told_put(&told, "pin_id", id_whole(orders->pin_id));
    aw__told_put(&told, "pin_plan", aw_explanation_plan_json(&orders->pin));
    aw__told_put(&told, "floor_id", id_whole(orders->floor_id));
    aw__told_put(&told, "floor_plan", aw_explanation_plan_json(&orders->floor));
    aw__told_flag(&told, "urgent", orders->urgent);
    if (orders->grant.reason)
        aw__told_put(&told, "grant", grant_json(&orders->grant));
    return aw__told_end(&told);
}

static json_t *two(const char *first, json_t *a, const char *second, json_t *b)
{
    struct aw__told told = aw__told_begin();
    aw__told_put(&told, first, a);
    aw__told_put(&told, second, b);
    return aw__told_end(&told);
}

/* What a rail left of each amount, and of how much: they take from one another. */
static json_t *cuts_json(const struct aw_guard_result *guard, const struct aw_plan *before,
                         uint32_t clip)
{
    struct aw_plan left = aw_plan_over(&guard->proposed, before);
    struct aw__told told = aw__told_begin();
    for (uint32_t i = 0; i < guard->cut_count; i++) {
        const struct aw_guard_cut *cut = &guard->cut[i];
        if (cut->clip == clip)
            aw__told_put(
                &told, aw_resource_table[cut->axis].member,
                two("from", json_integer(left.amount[cut->axis]), "to", json_integer(cut->to)));
        left.amount[cut->axis] = cut->to;
    }
    told.failed |= !told.object;
    return aw__told_end(&told);
}

/* Every rail that made a difference, in the order in which they are asked. */
static json_t *rails_json(const struct aw_guard_result *guard, const struct aw_plan *before)
{
    json_t *rails = json_array();
    bool failed = !rails;
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++) {
        uint32_t on = 0;
        for (uint32_t i = 0; i < AW_RESOURCES; i++)
            on |= guard->axis_clips[i] & AW_CLIP_BIT(c) ? 1u << i : 0;
        if (!on)
            continue;
        struct aw__told rail = aw__told_begin();
        aw__told_text(&rail, "rail", aw_clip_name((enum aw_clip)c));
        aw__told_text(&rail, "sentence", aw_clip_sentence((enum aw_clip)c));
        aw__told_put(&rail, "clipped", axes_json(on));
        aw__told_put(&rail, "cut", cuts_json(guard, before, c));
        failed |= json_array_append_new(rails, aw__told_end(&rail)) != 0;
    }
    if (!failed)
        return rails;
    json_decref(rails);
    return NULL;
}

static json_t *guard_json(const struct aw_pilot_config *config, const struct aw_guard_result *guard,
                          const struct aw_plan *before)
{
    struct aw__told told = aw__told_begin();
    aw__told_text(&told, "mode", aw_guard_mode_names[config->guard.mode]);
    aw__told_put(&told, "proposed", aw_explanation_plan_json(&guard->proposed));
    aw__told_put(&told, "rails", rails_json(guard, before));
    aw__told_put(&told, "recommended", aw_explanation_plan_json(&guard->recommended));
    aw__told_put(&told, "plan", aw_explanation_plan_json(&guard->plan));
    return aw__told_end(&told);
}

static json_t *score_json(const struct aw_pilot_config *config, const struct aw_decision *decision)
{
    const struct aw_score *score = &decision->score;
    struct aw__told told = aw__told_begin();
    aw__told_flag(&told, "slo_missed", score->violated);
    aw__told_real(&told, "slo_preservation", score->sp);
    aw__told_real(&told, "slo_latency_us",
                  config->slo.latency_us_p99 > 0 ? config->slo.latency_us_p99 : (double)NAN);
    aw__told_real(&told, "slo_quantile", config->slo.quantile);
    aw__told_real(&told, "latency_us", score->latency_us_slo);
    aw__told_real(&told, "cpu_utilisation", score->cpu_utilisation);
    aw__told_real(&told, "memory_utilisation", score->memory_utilisation);
    aw__told_real(&told, "cost", score->cost);
    aw__told_real(&told, "paper_reward", score->paper_reward);
    aw__told_real(&told, "gain", decision->gain);
    aw__told_real(&told, "slo_weight", decision->lambda);
    return aw__told_end(&told);
}

static json_t *estimate_json(const struct aw_lifecycle_estimate *estimate)
{
    struct aw__told told = aw__told_begin();
    aw__told_real(&told, "mean", estimate->mean);
    aw__told_real(&told, "low", estimate->low);
    aw__told_real(&told, "high", estimate->high);
    return aw__told_end(&told);
}

static const char *const verdict_names[] = {
    [AW_WATCHDOG_PASS] = "pass",
    [AW_WATCHDOG_TRIPPED] = "tripped",
    [AW_WATCHDOG_HELD] = "held",
};

static json_t *watchdog_json(const struct aw_decision *decision)
{
    const struct aw_watchdog_reason *reason = &decision->watchdog;
    char text[AW_WATCHDOG_TEXT_MAX];
    struct aw__told told = aw__told_begin();
    aw__told_text(&told, "verdict", verdict_names[decision->verdict]);
    aw__told_text(&told, "cause", aw_watchdog_cause_name(reason->cause));
    aw__told_real(&told, "value", reason->value);
    aw__told_real(&told, "limit", reason->limit);
    aw__told_real(&told, "quiet_s", reason->quiet_s);
    aw__told_text(&told, "sentence", aw_watchdog_reason_format(reason, text, sizeof text));
    return aw__told_end(&told);
}

static json_t *lifecycle_json(const struct aw_decision *decision)
{
    const struct aw_lifecycle_reason *reason = &decision->stay;
    char text[AW_LIFECYCLE_TEXT_MAX];
    struct aw__told told = aw__told_begin();
    aw__told_flag(&told, "moved", decision->moved);
    aw__told_text(&told, "cause", aw_lifecycle_cause_name(reason->cause));
    aw__told_text(&told, "from", aw_stage_name(reason->from));
    aw__told_text(&told, "to", aw_stage_name(reason->to));
    aw__told_text(&told, "sentence", aw_lifecycle_reason_format(reason, text, sizeof text));
    return aw__told_end(&told);
}

/* A new policy that is watched or tried beside the one in force, and what became of the last. */
static json_t *canary_json(const struct aw_canary_report *canary)
{
    char text[AW_CANARY_TEXT_MAX];
    struct aw__told told = aw__told_begin();
    aw__told_text(&told, "state", aw_canary_state_name(canary->state));
    aw__told_flag(&told, "moved", canary->moved);
    aw__told_flag(&told, "acts", canary->acts);
    aw__told_flag(&told, "restoring", canary->restoring);
    aw__told_put(&told, "trial", id_hex(canary->trial));
    aw__told_put(&told, "good", id_hex(canary->good));
    aw__told_put(&told, "plan", aw_explanation_plan_json(&canary->plan));
    aw__told_real(&told, "predicted_mean", canary->predicted_mean);
    aw__told_real(&told, "predicted_low", canary->predicted_low);
    aw__told_real(&told, "predicted_high", canary->predicted_high);
    aw__told_real(&told, "predicted_missed_share", canary->predicted_share);
    aw__told_real(&told, "observed_mean", canary->observed_mean);
    aw__told_real(&told, "observed_missed_share", canary->observed_share);
    aw__told_whole(&told, "steps", canary->steps);
    aw__told_whole(&told, "episodes", canary->episodes);
    aw__told_text(&told, "sentence", aw_canary_reason_format(&canary->reason, text, sizeof text));
    return aw__told_end(&told);
}

/* --- the whole --------------------------------------------------------------------------------
 */

static json_t *seed_json(uint64_t seed)
{
    char text[24]; /* a whole number of JSON has 63 bits */
    snprintf(text, sizeof text, "%" PRIu64, seed);
    return json_string(text);
}

json_t *aw_explanation_json(const struct aw_pilot_config *config,
                            const struct aw_decision *decision)
{
    const struct aw_plan before = aw_explanation_before(decision);
    const struct aw_plan after = aw_plan_over(&decision->guard.plan, &before);
    char text[AW_EXPLANATION_SENTENCE_MAX];
    struct aw__told told = aw__told_begin();
    aw__told_whole(&told, "format", AW_EXPLANATION_FORMAT_VERSION);
    aw__told_text(&told, "workload", config->name);
    aw__told_put(&told, "at", time_json(decision->at_us));
    aw__told_whole(&told, "at_us", decision->at_us);
    aw__told_whole(&told, "episode", decision->episode);
    aw__told_whole(&told, "step", decision->step);
    aw__told_text(&told, "stage", aw_stage_name(decision->stage));
    aw__told_text(&told, "actor", aw_actor_name(decision->actor));
    aw__told_text(&told, "sentence", aw_explanation_sentence(config, decision, text, sizeof text));
    aw__told_put(&told, "inputs", inputs_json(decision));
    aw__told_put(&told, "standing", standing_json(decision));
    aw__told_put(&told, "state", state_json(config, decision));
    aw__told_put(&told, "agent", decider_json(config, decision, true));
    aw__told_put(&told, "fallback", decider_json(config, decision, false));
    aw__told_put(&told, "orders", orders_json(&decision->orders));
    aw__told_put(&told, "action", action_json(config, decision->action));
    aw__told_put(&told, "guard", guard_json(config, &decision->guard, &before));
    aw__told_put(&told, "plan",
                 two("before", aw_explanation_plan_json(&before), "after",
                     aw_explanation_plan_json(&after)));
    aw__told_put(&told, "changed", axes_json(decision->guard.plan.set));
    aw__told_put(&told, "cost_per_hour",
                 two("before", account_real(aw_prices_per_hour(&config->prices, &before)), "after",
                     account_real(aw_prices_per_hour(&config->prices, &after))));
    aw__told_put(&told, "last_step", score_json(config, decision));
    aw__told_put(&told, "estimate", estimate_json(&decision->estimate));
    aw__told_put(&told, "watchdog", watchdog_json(decision));
    aw__told_put(&told, "lifecycle", lifecycle_json(decision));
    aw__told_put(&told, "canary", canary_json(&decision->canary));
    aw__told_put(&told, "model", id_hex(decision->policy_id));
    aw__told_put(&told, "seed", seed_json(config->seed));
    return aw__told_end(&told);
}

char *aw_explanation_text(const struct aw_pilot_config *config, const struct aw_decision *decision)
{
    json_t *object = aw_explanation_json(config, decision);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(object);
    return text;
}

/* --- the brief --------------------------------------------------------------------------------
 */

static json_t *clips_json(const struct aw_guard_result *guard)
{
    struct aw__told told = aw__told_begin();
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        if (!guard->axis_clips[i])
            continue;
        json_t *names = json_array();
        for (uint32_t c = 0; c < AW_CLIP_COUNT; c++)
            if (guard->axis_clips[i] & AW_CLIP_BIT(c))
                told.failed |=
                    json_array_append_new(names, json_string(aw_clip_name((enum aw_clip)c))) != 0;
        aw__told_put(&told, aw_resource_table[i].name, names);
    }
    told.failed |= !told.object;
    return aw__told_end(&told);
}

json_t *aw_explanation_brief(const struct aw_pilot_config *config,
                             const struct aw_decision *decision)
{
    const struct aw_guard_result *guard = &decision->guard;
    const struct aw_orders *orders = &decision->orders;
    const struct aw_plan before = aw_explanation_before(decision);
    const struct aw_plan after = aw_plan_over(&guard->plan, &before);
    char text[AW_EXPLANATION_SENTENCE_MAX];
    struct aw__told told = aw__told_begin();
    aw__told_text(&told, "actor", aw_actor_name(decision->actor));
    aw__told_text(&told, "stage", aw_stage_name(decision->stage));
    aw__told_put(&told, "model", id_hex(decision->policy_id));
    if (decision->origin.checksum)
        aw__told_put(&told, "specialised_from", origin_json(&decision->origin));
    aw__told_put(&told, "from", aw_explanation_plan_json(&before));
    aw__told_put(&told, "to", aw_explanation_plan_json(&after));
    aw__told_put(&told, "changed", axes_json(guard->plan.set));
    if (guard->recommended.set & ~guard->plan.set)
        aw__told_put(&told, "recommended", aw_explanation_plan_json(&guard->recommended));
    if (guard->clips)
        aw__told_put(&told, "clips", clips_json(guard));
    if (decision->verdict != AW_WATCHDOG_PASS)
        aw__told_text(&told, "watchdog", aw_watchdog_cause_name(decision->watchdog.cause));
    if (decision->canary.moved)
        aw__told_text(&told, "canary", aw_canary_state_name(decision->canary.state));
    if (orders->freeze_id)
        aw__told_put(&told, "freeze", id_whole(orders->freeze_id));
    if (orders->pin_id)
        aw__told_put(&told, "pin", id_whole(orders->pin_id));
    if (orders->floor_id)
        aw__told_put(&told, "floor", id_whole(orders->floor_id));
    aw__told_text(&told, "why", aw_explanation_sentence(config, decision, text, sizeof text));
    return aw__told_end(&told);
}

/* --- worth keeping ----------------------------------------------------------------------------
 */

/* Rails that come and go with the noise of measuring, and hold nothing back that matters. */
#define PASSING AW_CLIP_BIT(AW_CLIP_DEADBAND)

/* Rails by which a recommendation waits for somebody. */
#define WAITING (AW_CLIP_BIT(AW_CLIP_MODE) | AW_CLIP_BIT(AW_CLIP_FREEZE))

/* AW_PLAN_*: amounts that nobody has looked at in this tick. */
static uint32_t unsaid(const struct aw_decision *decision)
{
    return decision->actor == AW_ACTOR_FALLBACK ? decision->fallback.waiting & ~decision->homing
                                                : 0;
}

void aw_explanation_note(struct aw_explanation_noted *noted, const struct aw_decision *decision)
{
    const struct aw_orders *orders = &decision->orders;
    const struct aw_guard_result *guard = &decision->guard;
    const struct aw_explanation_noted before = *noted;
    const uint32_t kept = unsaid(decision) & ~guard->recommended.set;
    *noted = (struct aw_explanation_noted){.policy_id = decision->policy_id,
                                           .freeze_id = orders->freeze_id,
                                           .pin_id = orders->pin_id,
                                           .floor_id = orders->floor_id,
                                           .recommended = guard->recommended,
                                           .clips = guard->clips,
                                           .freeze = (uint8_t)orders->freeze,
                                           .pin_kind = (uint8_t)orders->pin_kind,
                                           .urgent = orders->urgent,
                                           .actor = (uint8_t)decision->actor,
                                           .stage = (uint8_t)decision->stage,
                                           .verdict = (uint8_t)decision->verdict,
                                           .cause = (uint8_t)decision->watchdog.cause,
                                           .answered = decision->answered,
                                           .restoring = decision->canary.restoring};
    memcpy(noted->axis_clips, guard->axis_clips, sizeof noted->axis_clips);
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (kept & AW_PLAN_BIT(i)) {
            noted->axis_clips[i] |= before.axis_clips[i];
            noted->clips |= before.axis_clips[i];
            noted->recommended.amount[i] = before.recommended.amount[i];
        }
    noted->recommended.set |= before.recommended.set & kept;
}

static bool same_orders(const struct aw_orders *a, const struct aw_explanation_noted *b)
{
    return a->freeze == b->freeze && a->freeze_id == b->freeze_id && a->pin_kind == b->pin_kind &&
           a->pin_id == b->pin_id && a->floor_id == b->floor_id && a->urgent == b->urgent;
}

/* Of what was recommended and not done: a person may be waiting to approve of it. */
static bool same_recommendation(const struct aw_explanation_noted *before,
                                const struct aw_guard_result *now, uint32_t kept)
{
    const struct aw_plan *x = &now->recommended, *y = &before->recommended;
    if (!((now->clips | before->clips) & WAITING))
        return true;
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const uint32_t bit = 1u << i;
        if (!(kept & bit) &&
            (((x->set ^ y->set) & bit) || ((x->set & bit) && x->amount[i] != y->amount[i])))
            return false;
    }
    return true;
}

bool aw_explanation_notable(const struct aw_explanation_noted *before,
                            const struct aw_decision *decision)
{
    const struct aw_guard_result *now = &decision->guard;
    const uint32_t kept = unsaid(decision) & ~now->recommended.set;
    if (!before || now->plan.set || decision->moved || decision->canary.moved ||
        decision->canary.restoring != before->restoring || decision->actor != before->actor ||
        decision->stage != before->stage || decision->policy_id != before->policy_id ||
        decision->verdict != before->verdict || decision->answered != before->answered ||
        decision->external.moved ||
        (decision->verdict != AW_WATCHDOG_PASS && decision->watchdog.cause != before->cause) ||
        !same_orders(&decision->orders, before) || !same_recommendation(before, now, kept))
        return true;
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const uint32_t is = now->axis_clips[i], was = before->axis_clips[i];
        const uint32_t differs = kept & AW_PLAN_BIT(i) ? is & ~was : is ^ was;
        if (differs & ~PASSING)
            return true;
    }
    return false;
}
