/*
 * profile.c - one MultidimPodAutoscaler: from what is written to a profile, and what cannot be.
 *
 * The table decodes every field on its own; here is what concerns several at once. A check whose
 * fields were wrong already is left out: its finding would only repeat theirs.
 */
#include "profile/profile_internal.h"

#include "base/quantity.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *aw_profile_key(const struct aw_profile *profile, char *buf, size_t size)
{
    snprintf(buf, size, "%s/%s", profile->namespace, profile->name);
    return buf;
}

enum aw_guard_mode aw_profile_mode(const struct aw_profile *profile, bool simulated)
{
    if (simulated && !profile->update_mode_given)
        return AW_GUARD_AUTO;
    switch ((enum aw_update_mode)profile->update_mode) {
    case AW_UPDATE_OFF:
        return AW_GUARD_OFF;
    case AW_UPDATE_INITIAL:
        return AW_GUARD_INITIAL;
    case AW_UPDATE_AUTO:
    case AW_UPDATE_RECREATE:
    case AW_UPDATE_IN_PLACE_OR_RECREATE:
        return AW_GUARD_AUTO;
    case AW_UPDATE_APPROVE:
        return AW_GUARD_APPROVE;
    }
    AW_ASSERT(!"a known mode");
    return AW_GUARD_OFF;
}

bool aw_profile_has_slo(const struct aw_profile *profile)
{
    return profile->pilot.slo.latency_us_p99 > 0 || profile->pilot.slo.throughput_per_s > 0;
}

enum aw_err aw_profile_actuated(const struct aw_profile *profile, uint32_t sets,
                                const char *cluster, struct aw_diag *diag)
{
    for (uint32_t i = AW_SIZE_FIRST; i < AW_RESOURCES; i++) {
        const char *name = aw_resource_table[i].name;
        if (profile->pilot.bounds.max[i] && !(sets & AW_PLAN_BIT(i)))
            return aw_fail_at(diag, AW_ERR_CONFIG, profile->place.file, profile->bound_line[i],
                              profile->place.column, "spec.constraints",
                              "%s cannot set %s: take %s out of minAllowed and maxAllowed", cluster,
                              aw_resource_table[i].noun, name);
    }
    return AW_OK;
}

/* --- findings ---------------------------------------------------------------------------------
 */

void aw__report_fail(struct aw_profile_report *report, enum aw_err err, const struct aw_diag *diag)
{
    const struct aw_profile_finding finding = {.err = err, .diag = *diag};
    report->error_count++;
    if (report->take)
        report->take(report->ctx, &finding);
}

void aw__report_warn(struct aw_profile_report *report, const char *name, const struct aw_diag *diag)
{
    const struct aw_profile_finding finding = {.err = AW_OK, .warning = name, .diag = *diag};
    report->warning_count++;
    if (report->take)
        report->take(report->ctx, &finding);
}

void aw__reading_fail(struct aw__reading *reading, const struct aw_node *node, enum aw_err err,
                      const struct aw_diag *diag)
{
    if (reading->bad_count < AW__PROFILE_BAD_MAX)
        reading->bad[reading->bad_count++] = node;
    aw__report_fail(reading->report, err, diag);
}

static void sink_take(void *ctx, const struct aw_node *node, enum aw_err err,
                      const struct aw_diag *diag)
{
    aw__reading_fail(ctx, node, err, diag);
}

struct aw_schema_sink aw__reading_sink(struct aw__reading *reading)
{
    return (struct aw_schema_sink){.take = sink_take, .ctx = reading};
}

void aw__reading_expected(struct aw__reading *reading, const struct aw_node *node, const char *fmt,
                          ...)
{
    char text[AW_DIAG_TEXT_MAX];
    struct aw_diag diag;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    aw_fail(&diag, AW_ERR_CONFIG, "%s", text);
    aw__reading_fail(reading, node, aw_tree_place(reading->tree, node, AW_ERR_CONFIG, &diag),
                     &diag);
}

void aw__reading_warn(struct aw__reading *reading, const struct aw_node *node, const char *name,
                      const char *fmt, ...)
{
    char text[AW_DIAG_TEXT_MAX];
    struct aw_diag diag;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    aw_fail(&diag, AW_ERR_CONFIG, "%s", text);
    (void)aw_tree_place(reading->tree, node, AW_ERR_CONFIG, &diag);
    aw__report_warn(reading->report, name, &diag);
}

/* Walks a path of keys as far as there are any; `*ret_whole`: to its end, at something. */
static const struct aw_node *walk(const struct aw_node *node, const char *path, bool *ret_whole)
{
    *ret_whole = true;
    while (*path) {
        char key[AW_SCHEMA_NAME_MAX];
        const size_t len = strcspn(path, ".");
        AW_ASSERT(len < sizeof key);
        memcpy(key, path, len);
        key[len] = 0;
        const struct aw_node *next = aw_node_find(node, key);
        if (!next || next->kind == AW_NODE_NULL) {
            *ret_whole = false;
            return node;
        }
        node = next;
        path += len + (path[len] == '.');
    }
    return node;
}

const struct aw_node *aw__reading_at(const struct aw__reading *reading, const char *path)
{
    bool whole;
    const struct aw_node *node = walk(reading->root, path, &whole);
    return whole ? node : NULL;
}

bool aw__reading_sound(const struct aw__reading *reading, const char *path)
{
    bool whole;
    const struct aw_node *top = walk(reading->root, path, &whole);
    if (reading->bad_count == AW__PROFILE_BAD_MAX)
        return false;
    for (uint32_t i = 0; i < reading->bad_count; i++) {
        /* of what is absent: the map that it would be in lacks something, or is none */
        if (!whole && reading->bad[i] == top)
            return false;
        for (const struct aw_node *n = reading->bad[i]; whole && n; n = n->parent) {
            if (n == top)
                return false;
        }
    }
    return true;
}

/* --- goals ------------------------------------------------------------------------------------
 */

static void metrics_use(struct aw__reading *r, struct aw__profile_draft *draft)
{
    const struct aw_node *list = aw__reading_at(r, "spec.goals.metrics");
    const struct aw_node *own = aw__reading_at(r, "spec.learning.fallback.hpaTarget");
    const struct aw_node *item = list ? list->first : NULL;
    for (uint32_t i = 0; i < draft->metric_count && item; i++, item = item->next) {
        const struct aw__metric *metric = &draft->metric[i];
        if (metric->type != 0 || strcmp(metric->resource, "cpu") != 0 || metric->target_type != 0 ||
            metric->utilization == 0) {
            aw__reading_expected(r, item,
                                 "expected a Resource cpu with a target of type Utilization and "
                                 "averageUtilization: the fallback's HPA reads nothing else");
            continue;
        }
        if (i > 0) {
            aw__reading_expected(r, item, "expected one metric, found the CPU again");
            continue;
        }
        if (!aw__reading_sound(r, "spec.learning.fallback"))
            continue;
        if (own && draft->profile.pilot.fallback.hpa_target != metric->utilization)
            aw__reading_expected(r, item,
                                 "averageUtilization is %" PRIu32 ", but "
                                 "spec.learning.fallback.hpaTarget on line %" PRIu32 " is %" PRIu32,
                                 metric->utilization, own->line,
                                 draft->profile.pilot.fallback.hpa_target);
        else
            draft->profile.pilot.fallback.hpa_target = metric->utilization;
    }
}

static void slo_check(struct aw__reading *r, struct aw__profile_draft *draft)
{
    struct aw_profile *p = &draft->profile;
    char step[AW_QUANTITY_TEXT_MAX], window[AW_QUANTITY_TEXT_MAX];
    const struct aw_node *slo = aw__reading_at(r, "spec.goals.slo");
    const struct aw_node *target = aw__reading_at(r, "spec.goals.slo.latency.target");
    const struct aw_node *at = aw__reading_at(r, "spec.goals.slo.window");
    p->pilot.slo.latency_us_p99 = target ? (double)draft->latency_us : 0;
    p->pilot.slo.timeout_us = (double)draft->timeout_us;
    p->pilot.slo.throughput_per_s = draft->throughput_per_s;
    if (!aw_profile_has_slo(p)) {
        aw__reading_warn(r, slo ? slo : aw__reading_at(r, "spec"), "no_slo",
                         "no SLO (spec.goals.slo): nothing is learned, the fallback acts");
        return;
    }
    if (target && p->pilot.slo.timeout_us < p->pilot.slo.latency_us_p99) {
        const struct aw_node *timeout = aw__reading_at(r, "spec.goals.slo.latency.timeout");
        aw__reading_expected(r, timeout ? timeout : target,
                             "expected a timeout above the target: a request that is never "
                             "answered must miss it");
    }
    if (!aw__reading_sound(r, "spec.learning.stepSeconds"))
        return;
    const double steps = (double)p->slo_window_us / (p->pilot.step_s * 1e6);
    aw_duration_print((int64_t)(p->pilot.step_s * 1e6), step, sizeof step);
    aw_duration_print(p->slo_window_us, window, sizeof window);
    if (steps < 1)
        aw__reading_expected(r, at ? at : slo,
                             "expected a window of at least a step (%s), found %s", step, window);
    else if (p->pilot.slo_budget > 0 && p->pilot.slo_budget * steps < 1)
        aw__reading_warn(r, at ? at : slo, "small_budget",
                         "%g %% of a window of %s is less than one step of %s: one miss spends it",
                         p->pilot.slo_budget * 100, window, step);
}

/* --- constraints ------------------------------------------------------------------------------
 */

static const struct aw_node *item_at(const struct aw_node *list, uint32_t index)
{
    const struct aw_node *item = list && list->kind == AW_NODE_LIST ? list->first : NULL;
    while (item && index-- > 0)
        item = item->next;
    return item;
}

/* All entries of both lists, constraints.container first. */
struct entries {
    const struct aw__profile_draft *draft;
    const struct aw_node *container, *policy;
};

static uint32_t entry_count(const struct entries *e)
{
    return e->draft->container_count + e->draft->policy_count;
}

static const struct aw__container *entry(const struct entries *e, uint32_t i)
{
    return i < e->draft->container_count ? &e->draft->container[i]
                                         : &e->draft->policy[i - e->draft->container_count];
}

static const struct aw_node *entry_node(const struct entries *e, uint32_t i)
{
    return i < e->draft->container_count ? item_at(e->container, i)
                                         : item_at(e->policy, i - e->draft->container_count);
}

static void twice_check(struct aw__reading *r, const struct entries *e)
{
    for (uint32_t i = 0; i < entry_count(e); i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(entry(e, i)->name, entry(e, k)->name) != 0)
                continue;
            char path[AW_DIAG_KEY_MAX], quoted[AW_TEXT_QUOTE_MAX];
            const struct aw_node *first = entry_node(e, k);
            aw__reading_expected(
                r, entry_node(e, i), "container %s is described on line %" PRIu32 " already (%s)",
                aw_text_quote(entry(e, i)->name, strlen(entry(e, i)->name), quoted, sizeof quoted),
                first->line, aw_node_path(first, path, sizeof path));
            break;
        }
    }
}

/* The entry that is sized: the named one with mode Auto, else "*"; NULL: none. `*ret_off`: every
 * container is Off. */
static const struct aw__container *sized_entry(struct aw__reading *r, const struct entries *e,
                                               bool *ret_off)
{
    const struct aw__container *sized = NULL, *rest = NULL;
    const struct aw_node *first = NULL;
    bool tell = true;
    *ret_off = false;
    for (uint32_t i = 0; i < entry_count(e); i++) {
        const struct aw__container *c = entry(e, i);
        const bool is_rest = !strcmp(c->name, "*");
        if (is_rest)
            rest = c;
        if (c->mode != 0)
            continue;
        if (!is_rest && sized && tell && strcmp(sized->name, c->name) != 0) {
            aw__reading_expected(r, entry_node(e, i),
                                 "expected one container with mode Auto: a replica has one size "
                                 "that is decided on, and line %" PRIu32 " names another",
                                 first->line);
            tell = false;
        }
        if (!is_rest && !sized) {
            sized = c;
            first = entry_node(e, i);
        }
    }
    if (!sized && rest && rest->mode == 0)
        sized = rest;
    *ret_off = !sized && rest; /* "*" is Off */
    return sized;
}

/* The narrower of two limits on each side; 0: not said. */
static void limits_narrow(struct aw_bounds *to, const struct aw_bounds *by)
{
    for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++) {
        if (by->min[r] > to->min[r])
            to->min[r] = by->min[r];
        if (by->max[r] && (!to->max[r] || by->max[r] < to->max[r]))
            to->max[r] = by->max[r];
    }
}

/* Fills in what was not said, never on the wrong side of what was. */
static void limits_fill(int64_t *low, int64_t *high, int64_t low_initial, int64_t high_initial)
{
    const bool low_said = *low > 0, high_said = *high > 0;
    if (!low_said)
        *low = high_said && *high < low_initial ? *high : low_initial;
    if (!high_said)
        *high = *low > high_initial ? *low : high_initial;
}

/* Which sizes may change. Without a list those that every cluster has, and what is bounded. */
static uint32_t controlled_of(struct aw__reading *r, const struct aw__profile_draft *draft,
                              const struct aw__container *sized, const struct aw_node *own,
                              const struct aw_node *all, const struct aw_bounds *said)
{
    uint32_t bits = draft->controlled;
    if (own && all && sized->controlled != draft->controlled)
        aw__reading_expected(r, own,
                             "differs from spec.constraints.containerControlledResources on line "
                             "%" PRIu32,
                             all->line);
    else if (own)
        bits = sized->controlled;
    uint32_t controlled = bits << AW_SIZE_FIRST;
    for (uint32_t i = AW_SIZE_FIRST; i < AW_RESOURCES && !own && !all; i++)
        controlled |= said->min[i] || said->max[i] ? AW_PLAN_BIT(i) & ~(uint32_t)AW_PLAN_COMMON : 0;
    return controlled;
}

/* `limits` is what was said, and becomes the bounds. A size that not every cluster has needs both
 * ends, and is not there where it is not controlled. */
static void controlled_set(struct aw__reading *r, struct aw__profile_draft *draft,
                           const struct aw__container *sized, const struct aw_node *node, bool off,
                           struct aw_bounds *limits)
{
    const struct aw_node *all = aw__reading_at(r, "spec.constraints.containerControlledResources");
    const struct aw_node *own = sized ? aw_node_find(node, "controlledResources") : NULL;
    const uint32_t controlled = off ? 0 : controlled_of(r, draft, sized, own, all, limits);
    draft->profile.pilot.controlled = AW_PLAN_REPLICAS | controlled;
    for (uint32_t i = AW_SIZE_FIRST; i < AW_RESOURCES; i++) {
        const struct aw_resource_row *row = &aw_resource_table[i];
        const bool mine = controlled & AW_PLAN_BIT(i);
        if (AW_PLAN_COMMON & AW_PLAN_BIT(i)) {
            if (mine && (own || all) && !limits->min[i] && !limits->max[i])
                aw__reading_warn(r, own ? own : all, "unbounded",
                                 "%s is controlled, but has no minAllowed and no maxAllowed: the "
                                 "defaults hold",
                                 row->name);
            limits_fill(&limits->min[i], &limits->max[i], row->low, row->high);
        } else if (!mine) {
            limits->min[i] = limits->max[i] = 0;
        } else if (!limits->min[i] || !limits->max[i]) {
            aw__reading_expected(r,
                                 own   ? own
                                 : all ? all
                                       : node,
                                 "expected minAllowed.%s and maxAllowed.%s: it has no defaults",
                                 row->name, row->name);
        }
    }
}

static void replicas_check(struct aw__reading *r, const struct aw_bounds *b)
{
    if (b->replicas_min > b->replicas_max)
        aw__reading_expected(r, aw__reading_at(r, "spec.constraints.global"),
                             "expected minReplicas of at most maxReplicas, found %" PRId64
                             " and %" PRId64,
                             b->replicas_min, b->replicas_max);
}

static const char *amount_print(uint32_t resource, int64_t amount, char buf[AW_QUANTITY_TEXT_MAX])
{
    switch (aw_resource_table[resource].unit) {
    case AW_AMOUNT_MILLICORES:
        return aw_quantity_print_cpu(amount, AW_QUANTITY_MILLI, buf, AW_QUANTITY_TEXT_MAX);
    case AW_AMOUNT_BYTES:
        return aw_quantity_print_memory(amount, buf, AW_QUANTITY_TEXT_MAX);
    default:
        snprintf(buf, AW_QUANTITY_TEXT_MAX, "%" PRId64, amount);
        return buf;
    }
}

static void bounds_check(struct aw__reading *r, struct aw__profile_draft *draft,
                         const struct aw_node *sizes)
{
    struct aw_bounds *b = &draft->profile.pilot.bounds;
    char low[AW_QUANTITY_TEXT_MAX], high[AW_QUANTITY_TEXT_MAX];
    for (uint32_t i = AW_SIZE_FIRST; i < AW_RESOURCES; i++) {
        const char *name = aw_resource_table[i].name;
        if (b->min[i] > b->max[i])
            aw__reading_expected(
                r, sizes, "expected minAllowed.%s of at most maxAllowed.%s, found %s and %s", name,
                name, amount_print(i, b->min[i], low), amount_print(i, b->max[i], high));
    }
    if (b->replicas_min == b->replicas_max && draft->profile.pilot.controlled == AW_PLAN_REPLICAS)
        aw__reading_warn(r, aw__reading_at(r, "spec.constraints"), "nothing_to_scale",
                         "one number of replicas is allowed and no size may change: there is "
                         "nothing to decide");
}

static void constraints_use(struct aw__reading *r, struct aw__profile_draft *draft)
{
    struct aw_profile *p = &draft->profile;
    const struct entries e = {draft, aw__reading_at(r, "spec.constraints.container"),
                              aw__reading_at(r, "spec.resourcePolicy.containerPolicies")};
    const struct aw_node *node = aw__reading_at(r, "spec.constraints");
    const struct aw_node *pod = aw__reading_at(r, "spec.constraints.pod");
    bool off;
    twice_check(r, &e);
    const struct aw__container *sized = sized_entry(r, &e, &off);
    struct aw_bounds limits = draft->pod;
    snprintf(p->container, sizeof p->container, "%s", sized ? sized->name : "*");
    if (pod)
        node = pod;
    for (uint32_t i = 0; i < entry_count(&e); i++) {
        if (entry(&e, i) == sized)
            node = entry_node(&e, i);
    }
    if (sized) {
        limits_narrow(&limits, &sized->limits);
        p->requests_only = sized->controlled_values == 1;
    }
    for (uint32_t i = AW_SIZE_FIRST; i < AW_RESOURCES; i++)
        p->bound_line[i] = limits.min[i] || limits.max[i] ? node->line : 0;
    controlled_set(r, draft, sized, node, off, &limits);
    memcpy(limits.min, p->pilot.bounds.min, AW_SIZE_FIRST * sizeof *limits.min);
    memcpy(limits.max, p->pilot.bounds.max, AW_SIZE_FIRST * sizeof *limits.max);
    p->pilot.bounds = limits;
    bounds_check(r, draft, node);
}

static void behavior_use(struct aw__reading *r, struct aw__profile_draft *draft)
{
    const struct aw_node *window =
        aw__reading_at(r, "spec.constraints.global.behavior.scaleDown.stabilizationWindowSeconds");
    const struct aw_node *own = aw__reading_at(r, "spec.learning.fallback.hpaDownWindow");
    if (!window)
        return;
    if (own && draft->profile.pilot.fallback.hpa_down_window != draft->down_window_s)
        aw__reading_expected(r, window,
                             "differs from spec.learning.fallback.hpaDownWindow on line %" PRIu32,
                             own->line);
    else
        draft->profile.pilot.fallback.hpa_down_window = draft->down_window_s;
}

/* --- learning ---------------------------------------------------------------------------------
 */

static void agent_use(struct aw__reading *r, struct aw_profile *p)
{
    const struct aw_node *settings = aw__reading_at(r, "spec.learning.agent.settings");
    if (!settings || settings->kind != AW_NODE_MAP)
        return;
    const struct aw_schema_sink sink = aw__reading_sink(r);
    if (p->pilot.agent == AW_POLICY_CAPACITY || p->pilot.agent == AW_POLICY_MULTI)
        aw_schema_decode_conf(aw_rehearse_fields, r->tree, settings, &p->pilot.rehearse, &sink);
    else if (p->pilot.agent == AW_POLICY_EXTERNAL)
        aw_schema_decode_conf(aw_external_agent_fields, r->tree, settings, &p->pilot.external,
                              &sink);
    else
        aw_schema_decode_conf(aw_learner_fields, r->tree, settings, &p->pilot.learner, &sink);
}

static void learning_check(struct aw__reading *r, struct aw_profile *p)
{
    const struct aw_node *mode = aw__reading_at(r, "spec.learning.retraining.mode");
    const struct aw_node *stakes = aw__reading_at(r, "spec.learning.retraining.highStakes");
    const struct aw_node *serving = aw__reading_at(r, "spec.learning.thresholds.serving");
    if (!aw__reading_sound(r, "spec.learning.retraining"))
        return;
    if (p->high_stakes && mode && p->retraining == AW_RETRAINING_ONLINE)
        aw__reading_expected(
            r, mode, "expected offline, found online: highStakes on line %" PRIu32 " rules it out",
            stakes->line);
    else if (p->high_stakes)
        p->retraining = AW_RETRAINING_OFFLINE;
    if (p->pilot.thresholds.serving < p->pilot.thresholds.online) /* false where one is auto */
        aw__reading_warn(r, serving, "low_serving",
                         "serving needs less than acting at all: %g is below online, %g",
                         p->pilot.thresholds.serving, p->pilot.thresholds.online);
}

/* Asks the fallback itself whether it can work: settings, bounds, goals. */
static enum aw_err fallback_check(struct aw__reading *r, struct aw_profile *p,
                                  const struct aw_alloc *alloc, struct aw_diag *ret_diag)
{
    const struct aw_node *node = aw__reading_at(r, "spec.learning.fallback");
    const struct aw_fallback_task task = {
        .bounds = p->pilot.bounds,
        .slo_latency_us = p->pilot.slo.latency_us_p99,
        .replicas = p->pilot.bounds.replicas_min,
        .cpu_millicores = p->pilot.bounds.cpu_millicores_min,
        .memory_bytes = p->pilot.bounds.memory_bytes_min,
    };
    struct aw_fallback *policy = NULL;
    struct aw_diag diag;
    node = node ? node : aw__reading_at(r, "spec");
    if (p->pilot.fallback.kind == AW_FALLBACK_AIMD && !(p->pilot.slo.latency_us_p99 > 0))
        aw__reading_expected(r, node,
                             "expected a latency SLO (spec.goals.slo.latency): aimd "
                             "follows nothing else");
    if (p->pilot.fallback.kind == AW_FALLBACK_VPA && p->pilot.controlled == AW_PLAN_REPLICAS)
        aw__reading_expected(r, node,
                             "expected a fallback that changes replicas: no size may "
                             "change, and vpa changes nothing else");
    if (p->pilot.fallback.kind == AW_FALLBACK_HPA &&
        p->pilot.bounds.replicas_min == p->pilot.bounds.replicas_max)
        aw__reading_expected(r, node,
                             "expected a fallback that changes sizes: one number of "
                             "replicas is allowed, and hpa changes nothing else");
    if (r->bad_count > 0)
        return AW_OK;
    const enum aw_err err = aw_fallback_new(&p->pilot.fallback, &task, alloc, &policy, &diag);
    aw_fallback_free(policy);
    if (err == AW_ERR_NOMEM) {
        if (ret_diag)
            *ret_diag = diag;
        return err;
    }
    if (err)
        aw__reading_fail(r, node, aw_tree_place(r->tree, node, AW_ERR_CONFIG, &diag), &diag);
    return AW_OK;
}

static void guard_check(struct aw__reading *r, struct aw_profile *p)
{
    const struct aw_node *node = aw__reading_at(r, "spec.guard");
    struct aw_guard guard;
    struct aw_diag diag;
    p->pilot.guard.mode = aw_profile_mode(p, false);
    const enum aw_err err = aw_guard_init(&guard, &p->pilot.guard, &p->pilot.bounds, &diag);
    node = node ? node : aw__reading_at(r, "spec");
    if (err)
        aw__reading_fail(r, node, aw_tree_place(r->tree, node, AW_ERR_CONFIG, &diag), &diag);
}

/* --- all of it --------------------------------------------------------------------------------
 */

static void recommender_use(struct aw__reading *r, struct aw__profile_draft *draft)
{
    const char *name = draft->recommender[0].name;
    if (draft->recommender_count == 0 || !strcmp(name, "aware") || !strcmp(name, "default"))
        return;
    memcpy(draft->profile.recommender, name, sizeof draft->profile.recommender);
    aw__reading_warn(r, aw__reading_at(r, "spec.recommenders"), "other_recommender",
                     "%s decides: this object is left alone", name);
}

static bool all_sound(const struct aw__reading *r, const char *const *paths)
{
    bool sound = true;
    for (; *paths; paths++)
        sound &= aw__reading_sound(r, *paths);
    return sound;
}

enum aw_err aw__profile_read(struct aw__reading *r, const struct aw_alloc *alloc,
                             struct aw_profile *ret, struct aw_diag *diag)
{
    static const char *const counts[] = {"spec.constraints.global.minReplicas",
                                         "spec.constraints.global.maxReplicas", NULL};
    static const char *const sizes[] = {"spec.constraints.container", "spec.constraints.pod",
                                        "spec.constraints.containerControlledResources",
                                        "spec.resourcePolicy", NULL};
    struct aw__profile_draft *draft = aw_alloc_new(alloc, 1, sizeof *draft);
    enum aw_err err = AW_OK;
    if (!draft)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an autoscaler");
    struct aw_profile *p = &draft->profile;
    const struct aw_schema_sink sink = aw__reading_sink(r);
    aw_pilot_config_init(&p->pilot);
    aw_schema_defaults(aw__profile_fields, draft);
    aw_schema_decode(aw__profile_fields, r->tree, r->root, draft, &sink);
    p->update_mode_given = aw__reading_at(r, "spec.policy.updateMode") != NULL;
    if (aw__reading_sound(r, "spec.goals.metrics"))
        metrics_use(r, draft);
    if (aw__reading_sound(r, "spec.goals.slo"))
        slo_check(r, draft);
    if (all_sound(r, counts))
        replicas_check(r, &p->pilot.bounds);
    if (all_sound(r, sizes))
        constraints_use(r, draft);
    if (aw__reading_sound(r, "spec.constraints.global") &&
        aw__reading_sound(r, "spec.learning.fallback"))
        behavior_use(r, draft);
    if (aw__reading_sound(r, "spec.recommenders"))
        recommender_use(r, draft);
    if (aw__reading_sound(r, "spec.learning.agent"))
        agent_use(r, p);
    learning_check(r, p);
    aw__profile_terms_end(r, "spec.tenancy", &p->tenancy);
    if (r->bad_count == 0) {
        guard_check(r, p);
        err = fallback_check(r, p, alloc, diag);
    }
    if (!err)
        *ret = *p;
    aw_alloc_free(alloc, draft);
    return err;
}
