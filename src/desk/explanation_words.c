/* explanation_words.c - a decision in a sentence, for who is on call at night. */
#include "desk/explanation.h"

#include <inttypes.h>
#include <math.h>

#include "base/quantity.h"
#include "base/text.h"
#include "desk/explanation_internal.h"
#include "tenancy/arbiter.h"

#define MILLI_PER_CORE 1000

/* Why a fallback wants what it wants, as what follows "because". */
static const char *const because[] = {
    [AW_FALLBACK_CAUSE_NONE] = "nothing calls for a change",
    [AW_FALLBACK_CAUSE_NOT_YET] = "it is not time to look again yet",
    [AW_FALLBACK_CAUSE_UP] = "CPU utilisation is above the target",
    [AW_FALLBACK_CAUSE_DOWN] = "CPU utilisation is below the target, and has been for a while",
    [AW_FALLBACK_CAUSE_STABILIZED] = "fewer replicas would do, but not for long enough yet",
    [AW_FALLBACK_CAUSE_RESIZE] = "what a replica uses no longer fits its size",
    [AW_FALLBACK_CAUSE_RESIZE_OOM] = "a replica was killed for want of memory",
    [AW_FALLBACK_CAUSE_UP_RESIZE] = "both the load and the use of a replica call for it",
    [AW_FALLBACK_CAUSE_SLO_MISSED] = "the SLO was missed",
    [AW_FALLBACK_CAUSE_SLO_EASY] = "the SLO is met with room to spare",
    [AW_FALLBACK_CAUSE_MEMORY_LOW] = "memory in use is close to the limit",
    [AW_FALLBACK_CAUSE_ANCHORED] = "that is what recent peaks of use call for",
    [AW_FALLBACK_CAUSE_SEARCHED] = "a search that knows the load found nothing better",
    [AW_FALLBACK_CAUSE_NO_DATA] = "the figures it needs are missing or stale",
};
_Static_assert(sizeof because / sizeof *because == AW_FALLBACK_CAUSE_COUNT, "one for every cause");

static void add_amount(struct aw_text *text, enum aw_amount_unit unit, int64_t amount)
{
    char buf[AW_QUANTITY_TEXT_MAX];
    switch (unit) {
    case AW_AMOUNT_COUNT:
        aw_text_add(text, "%" PRId64, amount);
        break;
    case AW_AMOUNT_MILLICORES:
        aw_text_add(text, "%s%s", aw_quantity_round_cpu(amount, AW_QUANTITY_MILLI, buf, sizeof buf),
                    amount < MILLI_PER_CORE    ? ""
                    : amount == MILLI_PER_CORE ? " core"
                                               : " cores");
        break;
    case AW_AMOUNT_BYTES:
        aw_text_add(text, "%s", aw_quantity_round_memory(amount, buf, sizeof buf));
        break;
    }
}

static void add_change(struct aw_text *text, const struct aw_plan *from, const struct aw_plan *plan)
{
    const char *between = "";
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const struct aw_resource_row *row = &aw_resource_table[i];
        if (!(plan->set & AW_PLAN_BIT(i)))
            continue;
        aw_text_add(text, "%s%s ", between, row->name);
        add_amount(text, row->unit, from->amount[i]);
        aw_text_add(text, " -> ");
        add_amount(text, row->unit, plan->amount[i]);
        between = ", ";
    }
}

static void add_actor(struct aw_text *text, const struct aw_pilot_config *config,
                      const struct aw_decision *decision)
{
    switch (decision->actor) {
    case AW_ACTOR_FALLBACK:
        aw_text_add(text, "fallback (%s)", aw_fallback_names[config->fallback.kind]);
        break;
    case AW_ACTOR_AGENT:
        if (aw_policy_ops_of(config->agent)->elsewhere) {
            aw_text_add(text, "agent (external, %s)", decision->external.name);
            break;
        }
        aw_text_add(text, "agent (%s%s)", aw_policy_names[config->agent],
                    decision->canary.acts ? ", on trial" : "");
        break;
    case AW_ACTOR_EXPLORING:
        aw_text_add(text, "agent (%s), exploring", aw_policy_names[config->agent]);
        break;
    case AW_ACTOR_PERSON:
        aw_text_add(text, "a person (%s, order %" PRIu64 ")",
                    aw_order_name(decision->orders.pin_kind), decision->orders.pin_id);
        break;
    case AW_ACTOR_NOBODY:
    case AW_ACTOR_COUNT:
        aw_text_add(text, "nobody");
        break;
    }
}

/* What an agent goes by; it has no rule that could be named. */
static void add_figures(struct aw_text *text, const struct aw_pilot_config *config,
                        const struct aw_decision *decision)
{
    const struct aw_reading *reading = &decision->reading;
    char load[AW_QUANTITY_TEXT_MAX], latency[AW_QUANTITY_TEXT_MAX], slo[AW_QUANTITY_TEXT_MAX];
    const char *between = "";
    aw_text_add(text, ", seeing ");
    if (isfinite(reading->arrivals_per_s)) {
        aw_text_add(text, "%s requests", aw_rate_round(reading->arrivals_per_s, load, sizeof load));
        between = ", ";
    }
    if (isfinite(decision->score.latency_us_slo)) {
        aw_text_add(
            text, "%sp%.0f %s", between, 100 * config->slo.quantile,
            aw_duration_round(llround(decision->score.latency_us_slo), latency, sizeof latency));
        if (config->slo.latency_us_p99 > 0)
            aw_text_add(text, " of %s allowed",
                        aw_duration_round(llround(config->slo.latency_us_p99), slo, sizeof slo));
        between = ", ";
    }
    if (isfinite(reading->cpu_utilisation)) {
        aw_text_add(text, "%sCPU %.0f %% used", between, 100 * reading->cpu_utilisation);
        between = ", ";
    }
    if (isfinite(reading->memory_utilisation)) {
        aw_text_add(text, "%smemory %.0f %% used", between, 100 * reading->memory_utilisation);
        between = ", ";
    }
    if (!*between)
        aw_text_add(text, "no figures");
}

/* Utilisation is an HPA's reason alone, and only where it has come to a number of replicas. */
static void add_utilisation(struct aw_text *text, const struct aw_pilot_config *config,
                            const struct aw_fallback_reason *reason)
{
    const char *what = NULL;
    if (reason->cause == AW_FALLBACK_CAUSE_UP || reason->cause == AW_FALLBACK_CAUSE_DOWN)
        what = "";
    else if (reason->cause == AW_FALLBACK_CAUSE_STABILIZED ||
             reason->cause == AW_FALLBACK_CAUSE_UP_RESIZE)
        what = "CPU utilisation ";
    if (what && isfinite(reason->utilization))
        aw_text_add(text, " (%s%.0f %%, target %" PRIu32 " %%)", what, 100 * reason->utilization,
                    config->fallback.hpa_target);
}

/* What of the change whoever is in charge has asked for; the rest is an emergency's or a rail's. */
static uint32_t asked_for(const struct aw_decision *decision)
{
    const struct aw_plan *by =
        decision->in_charge == AW_ACTOR_FALLBACK ? &decision->by_fallback : &decision->by_agent;
    return by->set & aw_plan_differs(by->amount, decision->reading.wanted);
}

static void add_reason(struct aw_text *text, const struct aw_pilot_config *config,
                       const struct aw_decision *decision)
{
    const struct aw_orders *orders = &decision->orders;
    const uint32_t changed = decision->guard.recommended.set;
    if (decision->actor == AW_ACTOR_PERSON) {
        aw_text_add(text, ": %s", aw_order_sentence(orders->pin_kind));
    } else if (changed && !(changed & asked_for(decision))) {
        /* not its idea: the emergency below, or a rail, says why */
    } else if (decision->actor != AW_ACTOR_FALLBACK) {
        add_figures(text, config, decision);
    } else if (decision->homing && !(decision->by_fallback.set & ~decision->homing)) {
        aw_text_add(text, ", because it takes over and goes back to the size that it knows");
    } else {
        aw_text_add(text, ", because %s", because[decision->fallback.cause]);
        add_utilisation(text, config, &decision->fallback);
        if (decision->homing)
            aw_text_add(text, ", and it takes over and goes back to the size that it knows");
    }
    if (decision->relieved)
        aw_text_add(text, "; raised because the SLO was missed");
    if (decision->canary.restoring)
        aw_text_add(text, "; raised to the last allocation that is known to be good");
    if (orders->floor.set)
        aw_text_add(text, "; emergency %" PRIu64 " %s", orders->floor_id,
                    orders->urgent ? "goes on: nothing is below what it asks for"
                                   : "is over: what it asked for is let down slowly");
}

/* ": asked 6, got 4, because its fair share of a full cluster is used up; it is 3rd of 5". */
static void add_grant(struct aw_text *text, const struct aw_order_grant *grant)
{
    if (grant->reason >= AW_ARBITER_REASONS)
        return;
    aw_text_add(text, ": asked %" PRIu32 ", got %" PRIu32 ", because %s", grant->asked, grant->got,
                aw_arbiter_reason_sentence((enum aw_arbiter_reason)grant->reason));
    if (grant->target > grant->got)
        aw_text_add(text, ", up to %" PRIu32 " within %" PRIu32 " s", grant->target, grant->wait_s);
    if (grant->of > 1)
        aw_text_add(text, "; by share it is number %" PRIu32 " of %" PRIu32 " of its priority",
                    grant->rank, grant->of);
}

/* "; cpu, memory held: too soon after the last change". */
static void add_rails(struct aw_text *text, const struct aw_decision *decision)
{
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++) {
        const char *before = "; ";
        for (uint32_t i = 0; i < AW_RESOURCES; i++) {
            if (!(decision->guard.axis_clips[i] & AW_CLIP_BIT(c)))
                continue;
            aw_text_add(text, "%s%s", before, aw_resource_table[i].name);
            before = ", ";
        }
        if (!(decision->guard.clips & AW_CLIP_BIT(c)))
            continue;
        aw_text_add(text, " %s", aw_clip_sentence((enum aw_clip)c));
        if (c == AW_CLIP_FREEZE && decision->orders.freeze_id)
            aw_text_add(text, " (order %" PRIu64 ")", decision->orders.freeze_id);
        if (c == AW_CLIP_TENANCY)
            add_grant(text, &decision->orders.grant);
    }
}

/* What an agent of another process said itself, in its own words. */
static void add_words(struct aw_text *text, const struct aw_external_agent_words *words)
{
    if (*words->explanation)
        aw_text_add(text, "; it says: %s", words->explanation);
    if (words->has_confidence)
        aw_text_add(text, "; it is sure to %.0f %%", 100 * (double)words->confidence);
}

const char *aw_explanation_sentence(const struct aw_pilot_config *config,
                                    const struct aw_decision *decision, char *buf, size_t size)
{
    const struct aw_guard_result *guard = &decision->guard;
    const struct aw_plan before = aw_explanation_before(decision);
    char reason[AW_LIFECYCLE_TEXT_MAX];
    _Static_assert(sizeof reason >= AW_WATCHDOG_TEXT_MAX && sizeof reason >= AW_CANARY_TEXT_MAX,
                   "it holds any of them");
    _Static_assert(sizeof reason >= AW_EXTERNAL_AGENT_TEXT_MAX, "and this one");
    struct aw_text text;
    aw_text_init(&text, buf, size);
    add_actor(&text, config, decision);
    aw_text_add(&text, ": ");
    if (guard->plan.set) {
        add_change(&text, &before, &guard->plan);
    } else if (guard->recommended.set) {
        aw_text_add(&text, "would change ");
        add_change(&text, &before, &guard->recommended);
    } else {
        aw_text_add(&text, "no change");
    }
    add_reason(&text, config, decision);
    add_rails(&text, decision);
    if (decision->answered && decision->reading.replicas_pending > 0)
        aw_text_add(&text, "; the cluster is full: %" PRId64 " pod%s pending",
                    decision->reading.replicas_pending,
                    decision->reading.replicas_pending == 1 ? "" : "s");
    if (!decision->answered)
        aw_text_add(&text, "; the cluster did not answer");
    if (decision->verdict != AW_WATCHDOG_PASS)
        aw_text_add(&text, "; the agent is held back: %s",
                    aw_watchdog_reason_format(&decision->watchdog, reason, sizeof reason));
    if (aw_policy_ops_of(config->agent)->elsewhere && config->learning &&
        !decision->external.follow)
        aw_text_add(&text, "; %s",
                    aw_external_agent_report_format(&decision->external, reason, sizeof reason));
    if (decision->moved)
        aw_text_add(&text, "; stage %s",
                    aw_lifecycle_reason_format(&decision->stay, reason, sizeof reason));
    if (decision->canary.moved)
        aw_text_add(&text, "; new policy %s",
                    aw_canary_reason_format(&decision->canary.reason, reason, sizeof reason));
    add_words(&text, &decision->external.words); /* last: if anything is cut, then this */
    return buf;
}
