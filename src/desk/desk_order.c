/* desk_order.c - orders: what the log has of them, and how a new one is taken. */
#include "desk/desk_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EMERGENCY_REPLICAS 2.0 /* times what there is, where replicas are ours to change */
#define EMERGENCY_SIZE     1.5

/* --- what the log has ------------------------------------------------------------------------- */

enum aw_err aw__desk_members(const struct aw_audit_entry *entry, json_t **ret)
{
    char *text = malloc(entry->members_len + 3);
    if (!text)
        return AW_ERR_NOMEM;
    text[0] = '{';
    memcpy(text + 1, entry->members, entry->members_len);
    text[entry->members_len + 1] = '}';
    *ret = json_loadb(text, entry->members_len + 2, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    return *ret ? AW_OK : AW_ERR_FORMAT;
}

static uint64_t id_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) && json_integer_value(value) > 0
               ? (uint64_t)json_integer_value(value)
               : 0;
}

static enum aw_err recall_order(struct aw_desk *desk, const struct aw_audit_entry *entry,
                                json_t *members)
{
    if (desk->past_count == desk->past_max) {
        const uint32_t max = desk->past_max ? 2 * desk->past_max : 64;
        struct aw__past *past = aw_alloc_new(desk->alloc, max, sizeof *past);
        if (!past)
            return AW_ERR_NOMEM;
        if (desk->past_count)
            memcpy(past, desk->past, desk->past_count * sizeof *past);
        aw_alloc_free(desk->alloc, desk->past);
        desk->past = past;
        desk->past_max = max;
    }
    struct aw__past *past = &desk->past[desk->past_count];
    *past = (struct aw__past){.id = entry->seq, .at_us = entry->at_us};
    const enum aw_err err = aw_order_from_json(members, &past->order, NULL);
    if (!err)
        desk->past_count++;
    return err;
}

static void recall_outcome(struct aw_desk *desk, const json_t *members)
{
    const uint64_t order = id_of(members, "order");
    for (uint32_t i = desk->past_count; order && i-- > 0;)
        if (desk->past[i].id == order) {
            desk->past[i].done = true;
            return;
        }
}

static void recall_decision(struct aw_desk *desk, const struct aw_audit_entry *entry,
                            const json_t *members)
{
    const char *name = json_string_value(json_object_get(members, "workload"));
    uint32_t index;
    if (entry->at_us > desk->lived_until_us)
        desk->lived_until_us = entry->at_us;
    if (!name || aw_desk_find(desk, name, &index, NULL))
        return;
    struct aw__seat *seat = desk->seat[index];
    seat->last_id = entry->seq;
    if (json_array_size(json_object_get(members, "changed")) > 0)
        seat->changed_id = entry->seq;
}

static enum aw_err recall(void *ctx, const struct aw_audit_entry *entry)
{
    struct aw_desk *desk = ctx;
    if (!entry->intact)
        return AW_ERR_FORMAT;
    const bool order = !strcmp(entry->kind, "order"), outcome = !strcmp(entry->kind, "outcome"),
               decision = !strcmp(entry->kind, "decision");
    if (!order && !outcome && !decision)
        return AW_OK;
    json_t *members = NULL;
    enum aw_err err = aw__desk_members(entry, &members);
    if (err)
        return err;
    if (order)
        err = recall_order(desk, entry, members);
    else if (outcome)
        recall_outcome(desk, members);
    else
        recall_decision(desk, entry, members);
    json_decref(members);
    return err;
}

enum aw_err aw__desk_recall(struct aw_desk *desk, struct aw_diag *diag)
{
    const enum aw_err err = aw_audit_scan(desk->config.disk, desk->config.folder, &AW_AUDIT_EVERY,
                                          recall, desk, desk->alloc, diag);
    return err == AW_ERR_NOTFOUND ? AW_OK : err;
}

/* A person wants this workload to forget: its pilot does when it is asked for a decision. */
static void steward_reset(struct aw_desk *desk, const char *name, int64_t at_us)
{
    uint32_t index;
    if (aw_desk_find(desk, name, &index, NULL))
        return; /* it is gone, and what it had learned with it */
    struct aw__seat *seat = desk->seat[index];
    seat->reset_us = at_us > seat->reset_us ? at_us : seat->reset_us;
}

void aw__desk_catch_up(struct aw_desk *desk, int64_t now_us)
{
    while (desk->past_next < desk->past_count) {
        const struct aw__past *past = &desk->past[desk->past_next];
        if (past->at_us > now_us)
            return;
        desk->past_next++;
        /* what was full then was refused then: nothing here can be new */
        const enum aw_err err =
            aw_standing_orders_apply(&desk->book, past->id, past->at_us, &past->order, NULL);
        if (!err && past->order.kind == AW_ORDER_RESET)
            steward_reset(desk, past->order.name, past->at_us);
        if (!err && (past->order.kind == AW_ORDER_PROPOSE || past->order.kind == AW_ORDER_ROLLBACK))
            aw__desk_policy_note(desk, past->id, &past->order);
        if (!err && past->done && !desk->config.virtual_time)
            aw_standing_orders_done(&desk->book, past->id);
    }
}

/* --- a new one -------------------------------------------------------------------------------- */

struct wanted {
    uint64_t id;
    json_t *members; /* NULL: not found */
    int64_t at_us;
    char kind[AW_AUDIT_KIND_MAX];
};

static enum aw_err find_entry(void *ctx, const struct aw_audit_entry *entry)
{
    struct wanted *wanted = ctx;
    if (!entry->intact || entry->seq != wanted->id)
        return AW_OK;
    wanted->at_us = entry->at_us;
    memcpy(wanted->kind, entry->kind, sizeof wanted->kind);
    return aw__desk_members(entry, &wanted->members);
}

static int64_t amount(const json_t *members, const char *which, const char *axis)
{
    return json_integer_value(json_object_get(json_object_get(members, which), axis));
}

static bool changed(const json_t *members, const char *axis)
{
    const json_t *array = json_object_get(members, "changed");
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *name = json_string_value(json_array_get(array, i));
        if (name && strcmp(name, axis) == 0)
            return true;
    }
    return false;
}

/* Back to before, in what the decision changed; refused when that has been changed again since. */
static enum aw_err fill_undo(struct aw_desk *desk, struct aw_order *order, int64_t now_us,
                             struct aw_diag *diag)
{
    struct wanted wanted = {.id = order->decision};
    const struct aw_audit_filter filter = {.seq_first = order->decision,
                                           .seq_last = order->decision,
                                           .from_us = INT64_MIN,
                                           .until_us = INT64_MAX};
    uint32_t index;
    enum aw_err err = aw_audit_scan(desk->config.disk, desk->config.folder, &filter, find_entry,
                                    &wanted, desk->alloc, diag);
    if (err && err != AW_ERR_NOTFOUND)
        return err;
    if (!wanted.members || strcmp(wanted.kind, "decision") != 0) {
        err = aw_fail(diag, AW_ERR_NOTFOUND, "the log has no decision %llu",
                      (unsigned long long)order->decision);
        goto out;
    }
    const char *name = json_string_value(json_object_get(wanted.members, "workload"));
    if (!name || (err = aw_desk_find(desk, name, &index, diag)))
        goto out;
    if (*order->name && strcmp(order->name, name) != 0) {
        err = aw_fail(diag, AW_ERR_CONFLICT, "decision %llu is about %s, not about %s",
                      (unsigned long long)order->decision, name, order->name);
        goto out;
    }
    snprintf(order->name, sizeof order->name, "%s", name);
    const struct aw_reading *reading = &aw__desk_last(desk, index)->reading;
    struct aw_plan plan = {0};
    bool still = false;
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const struct aw_resource_row *row = &aw_resource_table[i];
        if (!changed(wanted.members, row->name))
            continue;
        plan.set |= AW_PLAN_BIT(i);
        plan.amount[i] = amount(wanted.members, "from", row->member);
        still |= reading->wanted[i] == amount(wanted.members, "to", row->member);
    }
    const uint64_t latest = desk->seat[index]->changed_id;
    if (!plan.set)
        err = aw_fail(diag, AW_ERR_CONFLICT, "decision %llu changed nothing",
                      (unsigned long long)order->decision);
    else if (!still && latest != order->decision)
        err = aw_fail(diag, AW_ERR_CONFLICT,
                      "%s has been changed again since decision %llu, last by decision %llu; undo "
                      "that one",
                      name, (unsigned long long)order->decision, (unsigned long long)latest);
    if (err)
        goto out;
    order->plan = plan;
    order->scope = AW_SCOPE_WORKLOAD;
    order->freeze_until_us = now_us + (int64_t)llround(desk->config.undo_freeze_s * 1e6);
    order->until_us = now_us + (int64_t)llround(desk->config.pin_s * 1e6);
out:
    json_decref(wanted.members);
    return err;
}

/* A proposal by its number: the one that waits now. */
static enum aw_err fill_approval(struct aw_desk *desk, struct aw_order *order, int64_t now_us,
                                 uint32_t *ret_index, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < desk->count; i++) {
        const struct aw__seat *seat = desk->seat[i];
        if (!seat || seat->proposal.id != order->decision || !aw_desk_has(desk, i))
            continue;
        if (now_us >= seat->proposal.expires_us)
            return aw_fail(diag, AW_ERR_CONFLICT, "proposal %llu has expired",
                           (unsigned long long)order->decision);
        snprintf(order->name, sizeof order->name, "%s", seat->name);
        order->scope = AW_SCOPE_WORKLOAD;
        order->plan = seat->proposal.plan;
        order->until_us = now_us + (int64_t)llround(desk->config.pin_s * 1e6);
        *ret_index = i;
        return AW_OK;
    }
    return aw_fail(diag, AW_ERR_NOTFOUND,
                   "no proposal %llu waits for approval; it was decided on, replaced by a newer "
                   "one, or has expired",
                   (unsigned long long)order->decision);
}

/* More replicas where they are ours to add: that disturbs nobody. Larger ones otherwise. */
static void fill_emergency(const struct aw_desk *desk, uint32_t index, struct aw_order *order)
{
    const struct aw_reading *reading = &aw__desk_last(desk, index)->reading;
    const struct aw_pilot_config *config = aw_pilot_config(aw_loop_pilot(desk->loop, index));
    struct aw_plan *plan = &order->plan;
    if (plan->set)
        return;
    if (config->controlled & AW_PLAN_REPLICAS) {
        const double replicas = ceil(EMERGENCY_REPLICAS * (double)reading->replicas_wanted);
        plan->set |= AW_PLAN_REPLICAS;
        plan->replicas = (int64_t)fmin(replicas, (double)config->bounds.replicas_max);
    }
    if (!(config->controlled & AW_PLAN_REPLICAS) || config->in_place) {
        plan->set |= config->controlled & AW_PLAN_SIZES;
        for (uint32_t i = 0; i < AW_RESOURCES; i++)
            if (AW_PLAN_SIZES & AW_PLAN_BIT(i))
                plan->amount[i] = (int64_t)fmin(EMERGENCY_SIZE * (double)reading->wanted[i],
                                                (double)config->bounds.max[i]);
    }
}

/* Something must stand that this order would lift. */
static enum aw_err must_stand(const struct aw_desk *desk, const struct aw_order *order,
                              struct aw_diag *diag)
{
    const struct aw_standing_orders *book = &desk->book;
    const bool freeze = order->kind == AW_ORDER_UNFREEZE;
    const struct aw_standing *list = freeze ? book->freeze : book->pin;
    const uint32_t count = freeze ? book->freeze_count : book->pin_count;
    const struct aw_standing *holds = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_order *o = &list[i].order;
        if (!freeze && o->kind != AW_ORDER_EMERGENCY)
            continue;
        if (order->decision ? list[i].id == order->decision
                            : o->scope == order->scope && strcmp(o->name, order->name) == 0)
            return AW_OK;
        if (order->scope == AW_SCOPE_WORKLOAD && aw_order_is_about(o, order->name))
            holds = &list[i];
    }
    const char *what = freeze ? "freeze" : "emergency";
    if (order->decision)
        return aw_fail(diag, AW_ERR_NOTFOUND, "no %s %llu stands", what,
                       (unsigned long long)order->decision);
    if (holds)
        return aw_fail(diag, AW_ERR_NOTFOUND,
                       "%s is not frozen by itself but by order %llu about %s%s; lift that one",
                       order->name, (unsigned long long)holds->id,
                       aw_order_scope_names[holds->order.scope],
                       holds->order.scope == AW_SCOPE_ALL ? " workloads" : "");
    return aw_fail(diag, AW_ERR_NOTFOUND, "no %s of %s%s%s stands", what,
                   aw_order_scope_names[order->scope], *order->name ? " " : "", order->name);
}

static enum aw_err fill(struct aw_desk *desk, struct aw_order *order, int64_t now_us,
                        uint32_t *ret_index, struct aw_diag *diag)
{
    *ret_index = UINT32_MAX;
    if (order->kind == AW_ORDER_UNDO)
        return fill_undo(desk, order, now_us, diag);
    if (order->kind == AW_ORDER_APPROVE || order->kind == AW_ORDER_REJECT)
        return fill_approval(desk, order, now_us, ret_index, diag);
    if (order->scope == AW_SCOPE_WORKLOAD && *order->name &&
        !(order->kind == AW_ORDER_UNFREEZE && order->decision)) {
        const enum aw_err err = aw_desk_find(desk, order->name, ret_index, diag);
        if (err)
            return err;
        snprintf(order->name, sizeof order->name, "%s", desk->seat[*ret_index]->name);
    }
    if (order->kind == AW_ORDER_EMERGENCY && *ret_index != UINT32_MAX)
        fill_emergency(desk, *ret_index, order);
    return AW_OK;
}

/* Behind the parts of a policy the group may be full. */
static enum aw_err append(struct aw_desk *desk, int64_t now_us, const json_t *entry,
                          uint64_t *ret_id, struct aw_diag *diag)
{
    enum aw_err err = aw_audit_append(desk->audit, now_us, "order", entry, ret_id, diag);
    if (err == AW_ERR_LIMIT && !(err = aw_audit_commit(desk->audit, diag)))
        err = aw_audit_append(desk->audit, now_us, "order", entry, ret_id, diag);
    return err;
}

enum aw_err aw__desk_take(struct aw_desk *desk, struct aw_order *order, const char *text,
                          int64_t now_us, uint64_t *ret_id, struct aw_diag *diag)
{
    const bool policy = order->kind == AW_ORDER_PROPOSE || order->kind == AW_ORDER_ROLLBACK;
    uint32_t index;
    const int64_t asked_us = now_us; /* before the last tick, where the clock has gone back */
    if (!desk->loop)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no loop is running");
    /* given after a tick, it counts from the next one on, when it is lived again too */
    if (now_us <= desk->now_us)
        now_us = desk->now_us + 1;
    enum aw_err err = fill(desk, order, now_us, &index, diag);
    err = err ? err : aw_order_check(order, diag);
    if (!err && (order->kind == AW_ORDER_UNFREEZE || order->kind == AW_ORDER_CALM))
        err = must_stand(desk, order, diag);
    if (!err && order->kind == AW_ORDER_FREEZE && order->until_us <= asked_us)
        err = aw_fail(diag, AW_ERR_CONFIG, "a freeze must end after it begins");
    if (!err && desk->book.freeze_count >= AW_STANDING_ORDERS_FREEZES_MAX - 1)
        aw_standing_orders_expire(&desk->book, now_us);
    if (!err && (desk->book.freeze_count >= AW_STANDING_ORDERS_FREEZES_MAX ||
                 desk->book.pin_count >= AW_STANDING_ORDERS_PINS_MAX))
        err = aw_fail(diag, AW_ERR_LIMIT, "as many orders stand as there can be; lift some first");
    if (!err && order->kind == AW_ORDER_PROPOSE && !text)
        err = aw_fail(diag, AW_ERR_CONFIG, "a policy is proposed with its text");
    err = err || !policy ? err : aw__desk_policy_may(desk, index, order, diag);
    if (err)
        return err;
    struct aw_diag why = {0};
    uint64_t id = 0;
    err = text ? aw__desk_policy_write(desk, order, text, now_us, &why) : AW_OK;
    json_t *entry = err ? NULL : aw_order_to_json(order);
    if (!err && !entry) {
        aw_audit_abort(desk->audit);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an order");
    }
    /* what the log has must be readable after a restart, or there is no next one */
    struct aw_order again;
    if (!err && aw_order_from_json(entry, &again, diag)) {
        json_decref(entry);
        aw_audit_abort(desk->audit);
        return AW_ERR_CONFIG;
    }
    err = err ? err : append(desk, now_us, entry, &id, &why);
    json_decref(entry);
    if (!err)
        err = aw__desk_commit_reserved(desk, &why);
    if (err) {
        aw_audit_abort(desk->audit);
        aw__desk_ail(desk, err, &why);
        return aw_fail(diag, err, "not taken: the audit log cannot be written: %s", why.text);
    }
    desk->counts.entries++;
    desk->counts.orders++;
    err = aw_standing_orders_apply(&desk->book, id, now_us, order, diag);
    AW_ASSERT(!err); /* there was room */
    if (order->kind == AW_ORDER_RESET)
        steward_reset(desk, order->name, now_us);
    if (policy)
        aw__desk_policy_note(desk, id, order);
    if ((order->kind == AW_ORDER_APPROVE || order->kind == AW_ORDER_REJECT) && index != UINT32_MAX)
        desk->seat[index]->proposal = (struct aw_desk_proposal){0};
    if (ret_id)
        *ret_id = id;
    return AW_OK;
}

enum aw_err aw_desk_order(struct aw_desk *desk, const struct aw_order *order, int64_t now_us,
                          uint64_t *ret_id, struct aw_diag *diag)
{
    struct aw_order wanted = *order;
    aw_desk_lock(desk);
    const enum aw_err err = aw__desk_take(desk, &wanted, NULL, now_us, ret_id, diag);
    aw_desk_unlock(desk);
    return err;
}
