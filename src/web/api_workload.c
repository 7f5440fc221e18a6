/* api_workload.c - one workload: its row in a list, and its description. */
#include "web/api_internal.h"

#include "base/quantity.h"
#include "control/pilot.h"
#include "safety/limits.h"
#include "task/bounds.h"
#include "task/objective.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const freeze_names[] = {"none", "down", "all"};
static const char *const verdict_names[] = {"pass", "tripped", "held"};

/* What is given after a tick counts from the next one on, which is later than this one. */
void aw__api_orders(const struct aw_api *api, const char *workload, int64_t now_us,
                    struct aw_orders *ret)
{
    aw_standing_orders_orders(aw_desk_book(api->config.desk), workload, now_us + 1, ret);
}

bool aw__api_decided(const struct aw_desk_view *view)
{
    return view->decision->at_us != AW_NEVER;
}

void aw__api_present(const struct aw_desk_view *view, struct aw_plan *ret)
{
    *ret = (struct aw_plan){0};
    if (!aw__api_decided(view))
        return;
    *ret = aw_explanation_before(view->decision);
    if (view->decision->applied)
        *ret = aw_plan_over(&view->decision->guard.plan, ret);
}

static json_t *finish(json_t *value, bool ok)
{
    if (ok)
        return value;
    json_decref(value);
    return NULL;
}

static json_t *integer_or_null(int64_t value)
{
    return value > 0 ? json_integer(value) : json_null();
}

/* --- a row ------------------------------------------------------------------------------------ */

static json_t *slo_json(const struct aw_desk_view *view, const struct aw_limits *limits)
{
    const struct aw_pilot_config *config = view->config;
    bool ok = true;
    json_t *slo = json_object();
    const bool latency = config->slo.latency_us_p99 > 0, rate = config->slo.throughput_per_s > 0;
    aw__json_set(slo, "latency_us", aw__json_num(latency ? config->slo.latency_us_p99 : NAN), &ok);
    aw__json_set(slo, "quantile", aw__json_num(config->slo.quantile), &ok);
    aw__json_set(slo, "throughput_per_s", aw__json_num(rate ? config->slo.throughput_per_s : NAN),
                 &ok);
    aw__json_set(slo, "missed",
                 aw__api_decided(view) && (latency || rate)
                     ? json_boolean(view->decision->score.violated)
                     : json_null(),
                 &ok);
    aw__json_set(slo, "budget", aw__json_num(config->slo_budget), &ok);
    aw__json_set(slo, "recent_steps", json_integer(limits->slo_steps), &ok);
    aw__json_set(slo, "recent_missed", json_integer(limits->slo_missed), &ok);
    aw__json_set(slo, "recent_allowed", aw__json_num(limits->slo_missed + limits->slo_left), &ok);
    return finish(slo, ok);
}

/* Ids of what stands for this workload now. */
static json_t *orders_json(const struct aw_api *api, const char *name, int64_t now_us)
{
    const struct aw_standing_orders *book = aw_desk_book(api->config.desk);
    json_t *ids = json_array();
    bool ok = ids != NULL;
    for (uint32_t i = 0; i < book->freeze_count; i++)
        if (book->freeze[i].order.until_us > now_us &&
            aw_order_is_about(&book->freeze[i].order, name))
            ok &= !json_array_append_new(ids, aw__json_id(book->freeze[i].id));
    struct aw_orders orders; /* an emergency is let down after its end, and then it is gone */
    aw__api_orders(api, name, now_us, &orders);
    for (uint32_t i = 0; i < book->pin_count; i++)
        if (book->pin[i].id == orders.pin_id || book->pin[i].id == orders.floor_id)
            ok &= !json_array_append_new(ids, aw__json_id(book->pin[i].id));
    return finish(ids, ok);
}

static json_t *held_by_json(const struct aw_decision *decision)
{
    json_t *names = json_array();
    bool ok = names != NULL;
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++)
        if (decision->guard.clips & AW_CLIP_BIT(c))
            ok &= !json_array_append_new(names, json_string(aw_clip_name((enum aw_clip)c)));
    return finish(names, ok);
}

static void set_name(json_t *row, const char *name, bool *ok)
{
    const char *slash = strchr(name, '/');
    aw__json_set(row, "name", json_string(name), ok);
    aw__json_set(row, "namespace",
                 slash ? json_stringn(name, (size_t)(slash - name)) : json_string("default"), ok);
    aw__json_set(row, "workload", json_string(slash ? slash + 1 : name), ok);
}

static json_t *replicas_json(const struct aw_desk_view *view, const struct aw_plan *present)
{
    const bool decided = aw__api_decided(view);
    bool ok = true;
    json_t *replicas = json_object();
    aw__json_set(replicas, "ready",
                 decided ? json_integer(view->decision->reading.replicas_ready) : json_null(), &ok);
    aw__json_set(replicas, "wanted", decided ? json_integer(present->replicas) : json_null(), &ok);
    aw__json_set(replicas, "pending",
                 decided && view->decision->answered
                     ? json_integer(aw_pilot_sample(view->pilot)->replicas_pending)
                     : json_null(),
                 &ok);
    aw__json_set(replicas, "min", json_integer(view->config->bounds.replicas_min), &ok);
    aw__json_set(replicas, "max", json_integer(view->config->bounds.replicas_max), &ok);
    return finish(replicas, ok);
}

/* What is only known once something was decided. */
static void set_decided(json_t *row, struct aw_api *api, const struct aw_desk_view *view,
                        const struct aw_plan *present, bool *ok)
{
    const struct aw_decision *d = view->decision;
    const struct aw_pilot_config *config = view->config;
    char why[AW_EXPLANATION_SENTENCE_MAX];
    aw__json_set(row, "actor", json_string(aw_actor_name(d->actor)), ok);
    aw__json_set(row, "model", aw__json_model(d->policy_id), ok);
    aw__json_set(row, "cpu_millicores", json_integer(present->cpu_millicores), ok);
    aw__json_set(row, "memory_bytes", json_integer(present->memory_bytes), ok);
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++)
        if (present->amount[r])
            aw__json_set(row, aw_resource_table[r].member, json_integer(present->amount[r]), ok);
    aw__json_set(row, "recommended", aw__json_plan(&d->guard.recommended), ok);
    aw__json_set(row, "cpu_used", aw__json_num(d->reading.cpu_utilisation), ok);
    aw__json_set(row, "memory_used", aw__json_num(d->reading.memory_utilisation), ok);
    aw__json_set(row, "arrivals_per_s", aw__json_num(d->reading.arrivals_per_s), ok);
    aw__json_set(row, "figures_age_s", aw__json_num(d->reading.age_s), ok);
    aw__json_set(row, "latency_us", aw__json_num(d->score.latency_us_slo), ok);
    double cost, other;
    aw_recent_costs(config, d, present, &cost, &other);
    aw__json_set(row, "cost_per_hour", aw__json_num(cost), ok);
    aw__json_set(row, "fallback_cost_per_hour", aw__json_num(other), ok);
    aw_recent_lock(&api->watch);
    const struct aw_recent_one *one =
        view->index < api->watch.count ? &api->watch.one[view->index] : NULL;
    const bool same = one && strcmp(one->name, view->name) == 0;
    const double saved = aw_recent_saved(same ? &one->beside : NULL, cost, other);
    uint64_t back = 0;
    const double changes = same ? aw_recent_changes(&api->watch, one, &back) : NAN;
    aw_recent_unlock(&api->watch);
    aw__json_set(row, "saved", aw__json_num(saved), ok);
    aw__json_set(row, "replica_changes_per_day", aw__json_num(changes), ok);
    aw__json_set(row, "replicas_removed_within_5m", json_integer((json_int_t)back), ok);
    aw__json_set(row, "watchdog", json_string(verdict_names[d->verdict]), ok);
    aw__json_set(row, "held_by", held_by_json(d), ok);
    aw__json_set(row, "why", json_string(aw_explanation_sentence(config, d, why, sizeof why)), ok);
    aw__json_set(row, "decided", aw__json_time(d->at_us), ok);
}

static void set_undecided(json_t *row, bool *ok)
{
    static const char *const keys[] = {"actor",
                                       "model",
                                       "cpu_millicores",
                                       "memory_bytes",
                                       "recommended",
                                       "cpu_used",
                                       "memory_used",
                                       "arrivals_per_s",
                                       "figures_age_s",
                                       "latency_us",
                                       "cost_per_hour",
                                       "fallback_cost_per_hour",
                                       "saved",
                                       "watchdog",
                                       "decided",
                                       "replica_changes_per_day",
                                       "replicas_removed_within_5m"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        aw__json_set(row, keys[i], json_null(), ok);
    aw__json_set(row, "held_by", json_array(), ok);
    aw__json_set(row, "why", json_string("nothing has been decided yet"), ok);
}

json_t *aw__api_row(struct aw_api *api, const struct aw_desk_view *view, int64_t now_us)
{
    struct aw_plan present;
    struct aw_orders orders;
    struct aw_limits limits;
    bool ok = true;
    json_t *row = json_object();
    aw__api_present(view, &present);
    aw_pilot_limits(view->pilot, now_us, &limits);
    aw__api_orders(api, view->name, now_us, &orders);
    set_name(row, view->name, &ok);
    aw__json_set(row, "stage", json_string(aw_stage_name(aw_pilot_stage(view->pilot))), &ok);
    aw__json_set(row, "mode", json_string(aw_guard_mode_names[view->config->guard.mode]), &ok);
    aw__json_set(row, "replicas", replicas_json(view, &present), &ok);
    if (aw__api_decided(view))
        set_decided(row, api, view, &present, &ok);
    else
        set_undecided(row, &ok);
    aw__json_set(row, "slo", slo_json(view, &limits), &ok);
    aw__json_set(row, "freeze", json_string(freeze_names[orders.freeze]), &ok);
    aw__json_set(row, "orders", orders_json(api, view->name, now_us), &ok);
    aw__json_set(row, "proposal",
                 aw__json_id(view->proposal.expires_us > now_us ? view->proposal.id : 0), &ok);
    aw__json_set(row, "last_decision", aw__json_id(view->last_id), &ok);
    aw__json_set(row, "last_change", aw__json_id(view->changed_id), &ok);
    aw__json_set(row, "changed", aw__json_time(limits.changed_us), &ok);
    return finish(row, ok);
}

/* --- a description ---------------------------------------------------------------------------- */

static void add_condition(json_t *conditions, const char *type, bool fine, const char *reason,
                          const char *message, bool *ok)
{
    json_t *one = json_object();
    aw__json_set(one, "type", json_string(type), ok);
    aw__json_set(one, "ok", json_boolean(fine), ok);
    aw__json_set(one, "reason", json_string(reason), ok);
    aw__json_set(one, "message", json_string(message), ok);
    if (json_array_append_new(conditions, one))
        *ok = false;
}

static void add_slo(json_t *conditions, const struct aw_desk_view *view, bool *ok)
{
    const struct aw_decision *d = view->decision;
    const struct aw_slo *slo = &view->config->slo;
    char latency[AW_QUANTITY_TEXT_MAX], target[AW_QUANTITY_TEXT_MAX], text[160];
    if (!(slo->latency_us_p99 > 0) && !(slo->throughput_per_s > 0)) {
        add_condition(conditions, "SloMet", true, "NoSlo", "the profile names none", ok);
        return;
    }
    if (slo->latency_us_p99 > 0 && isfinite(d->score.latency_us_slo))
        snprintf(text, sizeof text, "%s of %s",
                 aw_duration_round((int64_t)d->score.latency_us_slo, latency, sizeof latency),
                 aw_duration_round((int64_t)slo->latency_us_p99, target, sizeof target));
    else
        snprintf(text, sizeof text, "%s",
                 d->score.violated ? "fewer requests were served than wanted"
                                   : "no request was measured in the last step");
    add_condition(conditions, "SloMet", !d->score.violated, d->score.violated ? "Missed" : "Met",
                  text, ok);
}

static void add_able(json_t *conditions, const struct aw_decision *d, bool *ok)
{
    static const uint32_t not_held =
        AW_CLIP_BIT(AW_CLIP_DEADBAND) | AW_CLIP_BIT(AW_CLIP_BOUNDS) | AW_CLIP_BIT(AW_CLIP_STEP);
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++) {
        const enum aw_clip clip = (enum aw_clip)c;
        if (d->guard.clips & ~not_held & AW_CLIP_BIT(clip)) {
            add_condition(conditions, "AbleToScale", false, aw_clip_name(clip),
                          aw_clip_sentence(clip), ok);
            return;
        }
    }
    add_condition(conditions, "AbleToScale", true, "Free", "nothing holds it back", ok);
}

static json_t *conditions_json(const struct aw_desk_view *view, const struct aw_orders *orders)
{
    const struct aw_decision *d = view->decision;
    char text[AW_LIFECYCLE_TEXT_MAX];
    bool ok = true;
    json_t *conditions = json_array();
    if (!aw__api_decided(view)) {
        add_condition(conditions, "Ready", false, "NoDecision", "nothing has been decided yet",
                      &ok);
        return finish(conditions, ok);
    }
    const uint32_t ready = d->reading.replicas_ready, wanted = d->reading.replicas_wanted;
    snprintf(text, sizeof text, "%u of %u replicas are ready", ready, wanted);
    add_condition(conditions, "Ready", ready >= wanted, ready >= wanted ? "Ready" : "Starting",
                  text, &ok);
    const int64_t pending = d->answered ? d->reading.replicas_pending : 0;
    snprintf(text, sizeof text, "the cluster is full: %" PRId64 " pod%s pending", pending,
             pending == 1 ? "" : "s");
    add_condition(conditions, "Placed", pending == 0, pending ? "ClusterFull" : "Placed",
                  pending ? text : "every replica has a node", &ok);
    const bool fresh = d->answered && d->reading.age_s <= view->config->stale_s;
    if (isfinite(d->reading.age_s))
        snprintf(text, sizeof text, "oldest figure %.0f s old", d->reading.age_s);
    else
        snprintf(text, sizeof text, "%s",
                 d->answered ? "a figure that is needed is missing" : "the cluster did not answer");
    add_condition(conditions, "FiguresFresh", fresh, fresh ? "Fresh" : "MissingOrStale", text, &ok);
    add_slo(conditions, view, &ok);
    add_able(conditions, d, &ok);
    snprintf(text, sizeof text, "%s",
             orders->freeze == AW_GUARD_FREEZE_NONE   ? "nobody has frozen it"
             : orders->freeze == AW_GUARD_FREEZE_DOWN ? "frozen for scaling down"
                                                      : "frozen");
    add_condition(conditions, "Frozen", orders->freeze == AW_GUARD_FREEZE_NONE,
                  orders->freeze ? freeze_names[orders->freeze] : "NotFrozen", text, &ok);
    char trip[AW_WATCHDOG_TEXT_MAX];
    const bool trusted = d->verdict == AW_WATCHDOG_PASS;
    add_condition(conditions, "AgentTrusted", trusted,
                  trusted ? aw_stage_name(aw_pilot_stage(view->pilot))
                          : aw_watchdog_cause_name(d->watchdog.cause),
                  trusted ? aw_lifecycle_reason_words(
                                &d->stay, view->config->lifecycle.offline_least,
                                aw_fallback_names[view->config->fallback.kind], text, sizeof text)
                          : aw_watchdog_reason_format(&d->watchdog, trip, sizeof trip),
                  &ok);
    return finish(conditions, ok);
}

static json_t *range_json(int64_t low, int64_t high, const char *first, const char *second)
{
    bool ok = true;
    json_t *range = json_object();
    aw__json_set(range, first, integer_or_null(low), &ok);
    aw__json_set(range, second, integer_or_null(high), &ok);
    return finish(range, ok);
}

static json_t *bounds_json(const struct aw_bounds *bounds)
{
    bool ok = true;
    json_t *object = json_object();
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (bounds->max[i] > 0)
            aw__json_set(object, aw_resource_table[i].member,
                         range_json(bounds->min[i], bounds->max[i], "min", "max"), &ok);
    return finish(object, ok);
}

static json_t *budgets_json(const struct aw_limits *limits)
{
    bool ok = true;
    json_t *budgets = json_object(), *window = json_object();
    aw__json_set(budgets, "restarts_left",
                 json_pack("{s:i, s:i, s:f}", "grow", (int)limits->restarts_left_grow, "shrink",
                           (int)limits->restarts_left_shrink, "window_s", limits->restart_window_s),
                 &ok);
    aw__json_set(budgets, "cooldown_left_s",
                 json_pack("{s:f, s:f, s:f, s:f}", "replicas_up", limits->replicas_up_left_s,
                           "replicas_down", limits->replicas_down_left_s, "size_up",
                           limits->size_up_left_s, "size_down", limits->size_down_left_s),
                 &ok);
    aw__json_set(window, "window_s", aw__json_num(limits->change_window_s), &ok);
    aw__json_set(window, "factor", aw__json_num(limits->change_factor), &ok);
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        aw__json_set(window, aw_resource_table[i].member,
                     range_json(limits->change_low[i], limits->change_high[i], "low", "high"), &ok);
    aw__json_set(budgets, "change_window", window, &ok);
    aw__json_set(budgets, "oom_floor_bytes", integer_or_null(limits->oom_floor_bytes), &ok);
    aw__json_set(budgets, "oom_hold_left_s", aw__json_num(limits->oom_left_s), &ok);
    aw__json_set(budgets, "watchdog_trips", json_integer(limits->trips), &ok);
    return finish(budgets, ok);
}

static json_t *controlled_json(uint32_t controlled)
{
    json_t *names = json_array();
    bool ok = names != NULL;
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (controlled & AW_PLAN_BIT(i))
            ok &= !json_array_append_new(names, json_string(aw_resource_table[i].name));
    return finish(names, ok);
}

static json_t *freezes_about(const struct aw_standing_orders *book, const char *name,
                             int64_t now_us)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (uint32_t i = 0; i < book->freeze_count; i++)
        if (book->freeze[i].order.until_us > now_us &&
            aw_order_is_about(&book->freeze[i].order, name))
            ok &= !json_array_append_new(list, aw__api_standing(&book->freeze[i], now_us));
    return finish(list, ok);
}

static json_t *emergency_json(const struct aw_standing_orders *book, const struct aw_orders *orders,
                              int64_t now_us)
{
    for (uint32_t i = 0; orders->floor_id && i < book->pin_count; i++) {
        if (book->pin[i].id != orders->floor_id)
            continue;
        bool ok = true;
        json_t *object = aw__api_standing(&book->pin[i], now_us);
        aw__json_set(object, "floor", aw__json_plan(&orders->floor), &ok);
        aw__json_set(object, "urgent", json_boolean(orders->urgent), &ok);
        return finish(object, ok && object);
    }
    return json_null();
}

static json_t *pending_json(const struct aw_desk_proposal *proposal, int64_t now_us)
{
    if (proposal->id == 0 || proposal->expires_us <= now_us)
        return json_null();
    bool ok = true;
    json_t *object = json_object();
    aw__json_set(object, "id", aw__json_id(proposal->id), &ok);
    aw__json_set(object, "at", aw__json_time(proposal->at_us), &ok);
    aw__json_set(object, "expires", aw__json_time(proposal->expires_us), &ok);
    aw__json_set(object, "plan", aw__json_plan(&proposal->plan), &ok);
    return finish(object, ok);
}

static void set_settings(json_t *object, const struct aw_pilot_config *config, bool *ok)
{
    static const char *const objectives[] = {"constrained", "paper"};
    char seed[32];
    aw__json_set(object, "bounds", bounds_json(&config->bounds), ok);
    aw__json_set(object, "controlled", controlled_json(config->controlled), ok);
    aw__json_set(object, "step_s", aw__json_num(config->step_s), ok);
    aw__json_set(object, "objective", json_string(objectives[config->objective % 2]), ok);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)config->seed);
    aw__json_set(object, "seed", json_string(seed), ok); /* JSON's whole numbers have 63 bits */
    json_t *prices = json_object();
    for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++)
        aw__json_set(prices, aw_price_fields[r - AW_SIZE_FIRST].key,
                     json_real(config->prices.hour[r]), ok);
    aw__json_set(object, "prices", prices, ok);
    aw__json_set(object, "fallback", json_string(aw_fallback_names[config->fallback.kind]), ok);
    aw__json_set(object, "agent", json_string(aw_policy_names[config->agent]), ok);
    aw__json_set(object, "learning", json_boolean(config->learning), ok);
    aw__json_set(object, "in_place", json_boolean(config->in_place), ok);
}

bool aw__api_describe(const struct aw_api *api, const struct aw_desk_view *view, int64_t now_us,
                      json_t *object)
{
    const struct aw_standing_orders *book = aw_desk_book(api->config.desk);
    const struct aw_decision *d = view->decision;
    const bool decided = aw__api_decided(view);
    char text[AW_LIFECYCLE_TEXT_MAX];
    struct aw_limits limits;
    struct aw_orders orders;
    bool ok = true;
    aw_pilot_limits(view->pilot, now_us, &limits);
    aw__api_orders(api, view->name, now_us, &orders);
    set_settings(object, view->config, &ok);
    aw__json_set(object, "conditions", conditions_json(view, &orders), &ok);
    aw__json_set(object, "stage_reason",
                 decided ? json_string(aw_lifecycle_reason_format(&d->stay, text, sizeof text))
                         : json_null(),
                 &ok);
    const struct aw_loop *loop = aw_desk_loop(api->config.desk);
    aw__json_set(object, "learns_now", json_boolean(loop && aw_loop_learns(loop, view->index)),
                 &ok);
    aw__json_set(object, "stage_words",
                 decided ? json_string(aw_lifecycle_reason_words(
                               &d->stay, view->config->lifecycle.offline_least,
                               aw_fallback_names[view->config->fallback.kind], text, sizeof text))
                         : json_null(),
                 &ok);
    aw__json_set(object, "watchdog_reason",
                 decided ? json_string(aw_watchdog_reason_format(&d->watchdog, text, sizeof text))
                         : json_null(),
                 &ok);
    bool estimated = true;
    json_t *estimate = json_object();
    aw__json_set(estimate, "mean", aw__json_num(decided ? d->estimate.mean : NAN), &estimated);
    aw__json_set(estimate, "low", aw__json_num(decided ? d->estimate.low : NAN), &estimated);
    aw__json_set(estimate, "high", aw__json_num(decided ? d->estimate.high : NAN), &estimated);
    aw__json_set(object, "estimate", estimate, &ok);
    aw__json_set(object, "budgets", budgets_json(&limits), &ok);
    aw__json_set(object, "freezes", freezes_about(book, view->name, now_us), &ok);
    aw__json_set(object, "pending", pending_json(&view->proposal, now_us), &ok);
    aw__json_set(object, "emergency", emergency_json(book, &orders, now_us), &ok);
    json_t *account = decided ? aw_explanation_json(view->config, d) : json_null();
    json_t *canary = json_object_get(account, "canary");
    const char *state = json_string_value(json_object_get(canary, "state"));
    const bool tried = state && strcmp(state, "none") != 0;
    aw__json_set(object, "canary", tried ? json_incref(canary) : json_null(), &ok);
    aw__json_set(object, "decision", account, &ok);
    aw__json_set(object, "alike", aw__api_alike(api, view->name), &ok);
    return ok && estimated;
}
