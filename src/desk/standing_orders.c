/* standing_orders.c - orders that are in force. */
#include "desk/standing_orders.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US_PER_MIN (INT64_C(60) * 1000000)

const char *const aw_order_scope_names[] = {"workload", "namespace", "all", NULL};

/* --- one order -------------------------------------------------------------------------------- */

bool aw_order_is_about(const struct aw_order *order, const char *workload)
{
    if (order->scope == AW_SCOPE_ALL)
        return true;
    if (order->scope == AW_SCOPE_WORKLOAD)
        return strcmp(order->name, workload) == 0;
    const size_t len = strlen(order->name);
    return strncmp(order->name, workload, len) == 0 && workload[len] == '/';
}

enum aw_err aw_order_check(const struct aw_order *order, struct aw_diag *diag)
{
    const char *name = aw_order_name(order->kind);
    if (!name || order->kind == AW_ORDER_NONE)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "order", "expected an order, found %u",
                          order->kind);
    if (order->scope > AW_SCOPE_ALL)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "scope",
                          "expected workload, namespace or all, found %u", order->scope);
    if (order->scope != AW_SCOPE_ALL && !*order->name)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "name",
                          "expected the name of a %s, found none",
                          aw_order_scope_names[order->scope]);
    if (order->scope == AW_SCOPE_ALL && *order->name)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "name",
                          "an order about all has no name, found \"%s\"", order->name);
    const bool about_one = order->kind == AW_ORDER_UNDO || order->kind == AW_ORDER_APPROVE ||
                           order->kind == AW_ORDER_REJECT || order->kind == AW_ORDER_EMERGENCY ||
                           order->kind == AW_ORDER_CALM || order->kind == AW_ORDER_RESET ||
                           order->kind == AW_ORDER_PROPOSE || order->kind == AW_ORDER_ROLLBACK;
    if (about_one && order->scope != AW_SCOPE_WORKLOAD)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "scope",
                          "%s is about one workload, found scope %s", name,
                          aw_order_scope_names[order->scope]);
    if (!*order->reason && (order->kind == AW_ORDER_FREEZE || order->kind == AW_ORDER_EMERGENCY ||
                            order->kind == AW_ORDER_RESET))
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "reason",
                          "%s needs a reason: others will ask", name);
    return AW_OK;
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static json_t *time_json(int64_t us, int64_t none)
{
    return us == none ? json_null() : json_integer(us);
}

static json_t *plan_json(const struct aw_plan *plan)
{
    json_t *object = json_object();
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (plan->set & AW_PLAN_BIT(i))
            json_object_set_new(object, aw_resource_table[i].member, json_integer(plan->amount[i]));
    return object;
}

static json_t *policy_json(const struct aw_order_policy *policy)
{
    char id[24];
    snprintf(id, sizeof id, "%016" PRIx64, policy->id);
    return json_pack("{s:s, s:s, s:I, s:I, s:I}", "id", id, "checksum", policy->checksum, "first",
                     (json_int_t)policy->first, "parts", (json_int_t)policy->parts, "bytes",
                     (json_int_t)policy->bytes);
}

json_t *aw_order_to_json(const struct aw_order *order)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:b, s:o, s:o, s:I, s:o, s:s, s:s}", "order", aw_order_name(order->kind),
        "scope", aw_order_scope_names[order->scope], "name", order->name, "down_only",
        order->down_only, "until_us", time_json(order->until_us, AW_FOR_EVER), "freeze_until_us",
        time_json(order->freeze_until_us, AW_NEVER), "decision", (json_int_t)order->decision,
        "plan", plan_json(&order->plan), "reason", order->reason, "by", order->by);
    if (object && order->kind == AW_ORDER_PROPOSE &&
        json_object_set_new(object, "policy", policy_json(&order->policy))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static enum aw_err wrong(struct aw_diag *diag, const char *key, const char *expected)
{
    return aw_fail_at(diag, AW_ERR_FORMAT, NULL, 0, 0, key, "expected %s", expected);
}

static enum aw_err text_of(const json_t *object, const char *key, char *buf, size_t size,
                           struct aw_diag *diag)
{
    const json_t *value = json_object_get(object, key);
    buf[0] = '\0';
    if (!value)
        return AW_OK;
    if (!json_is_string(value) || json_string_length(value) != strlen(json_string_value(value)))
        return wrong(diag, key, "text");
    if (json_string_length(value) >= size)
        return aw_fail_at(diag, AW_ERR_FORMAT, NULL, 0, 0, key,
                          "expected fewer than %zu bytes, found %zu", size,
                          json_string_length(value));
    memcpy(buf, json_string_value(value), json_string_length(value) + 1);
    return AW_OK;
}

static enum aw_err time_of(const json_t *object, const char *key, int64_t none, int64_t *ret,
                           struct aw_diag *diag)
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_null(value) && !json_is_integer(value))
        return wrong(diag, key, "microseconds, or null");
    *ret = json_is_integer(value) ? json_integer_value(value) : none;
    return AW_OK;
}

static enum aw_err amount_of(const char *key, const json_t *value, struct aw_plan *plan,
                             struct aw_diag *diag)
{
    uint32_t r = 0;
    while (r < AW_RESOURCES && strcmp(key, aw_resource_table[r].member) != 0)
        r++;
    if (r == AW_RESOURCES)
        return wrong(diag, "plan", "replicas, cpu_millicores and memory_bytes alone");
    const int64_t most =
        r == AW_RESOURCE_REPLICAS ? AW_CLUSTER_PODS_MAX : aw_resource_table[r].most;
    plan->set |= AW_PLAN_BIT(r);
    plan->amount[r] = json_integer_value(value); /* 0 where it is none */
    if (plan->amount[r] < 1 || plan->amount[r] > most)
        return wrong(diag, key, "a whole number above 0 that can be an amount");
    return AW_OK;
}

enum aw_err aw_plan_from_json(json_t *plan, struct aw_plan *ret, struct aw_diag *diag)
{
    struct aw_plan read = {0};
    enum aw_err err = AW_OK;
    const char *key;
    json_t *value;
    if (!json_is_object(plan))
        return wrong(diag, "plan", "an object with replicas, cpu_millicores or memory_bytes");
    json_object_foreach(plan, key, value)
    {
        if ((err = amount_of(key, value, &read, diag)))
            return err;
    }
    *ret = read;
    return AW_OK;
}

static enum aw_err plan_of(const json_t *object, struct aw_plan *ret, struct aw_diag *diag)
{
    json_t *plan = json_object_get(object, "plan");
    *ret = (struct aw_plan){0};
    return plan && !json_is_null(plan) ? aw_plan_from_json(plan, ret, diag) : AW_OK;
}

static enum aw_err choice_of(const json_t *object, const char *key, const char *const *names,
                             uint32_t count, uint32_t *ret, struct aw_diag *diag)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    for (uint32_t i = 0; text && i < count; i++)
        if (strcmp(text, names[i]) == 0) {
            *ret = i;
            return AW_OK;
        }
    return aw_fail_at(diag, AW_ERR_FORMAT, NULL, 0, 0, key, "found %s%s%s, which is not one",
                      text ? "\"" : "", text ? text : "nothing", text ? "\"" : "");
}

static enum aw_err policy_of(const json_t *object, struct aw_order_policy *ret,
                             struct aw_diag *diag)
{
    const json_t *policy = json_object_get(object, "policy");
    const char *id = json_string_value(json_object_get(policy, "id"));
    const json_int_t first = json_integer_value(json_object_get(policy, "first"));
    const json_int_t parts = json_integer_value(json_object_get(policy, "parts"));
    const json_int_t bytes = json_integer_value(json_object_get(policy, "bytes"));
    if (!id || strlen(id) != 16 || strspn(id, "0123456789abcdef") != 16 || first < 1 || parts < 1 ||
        parts > UINT32_MAX || bytes < 1 || bytes > UINT32_MAX)
        return wrong(diag, "policy", "id, checksum, first, parts and bytes of a policy");
    const enum aw_err err = text_of(policy, "checksum", ret->checksum, sizeof ret->checksum, diag);
    if (err)
        return err;
    ret->id = strtoull(id, NULL, 16);
    ret->first = (uint64_t)first;
    ret->parts = (uint32_t)parts;
    ret->bytes = (uint32_t)bytes;
    return AW_OK;
}

enum aw_err aw_order_from_json(json_t *object, struct aw_order *ret, struct aw_diag *diag)
{
    static const char *const known[] = {"order",           "scope",    "name",  "down_only",
                                        "until_us",        "decision", "plan",  "reason",
                                        "freeze_until_us", "by",       "policy"};
    static const char *const kinds[] = {
#define X(id, name, sentence) name,
        AW_ORDER_MAP(X)
#undef X
    };
    if (!json_is_object(object))
        return wrong(diag, NULL, "an object");
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= strcmp(key, known[i]) == 0;
        if (!found)
            return aw_fail_at(diag, AW_ERR_FORMAT, NULL, 0, 0, key, "an order has no such member");
    }
    struct aw_order order = {0};
    enum aw_err err = choice_of(object, "order", kinds, AW_ORDER_COUNT, &order.kind, diag);
    if (!err && json_object_get(object, "scope"))
        err = choice_of(object, "scope", aw_order_scope_names, 3, &order.scope, diag);
    err = err ? err : text_of(object, "name", order.name, sizeof order.name, diag);
    err = err ? err : text_of(object, "reason", order.reason, sizeof order.reason, diag);
    err = err ? err : text_of(object, "by", order.by, sizeof order.by, diag);
    err = err ? err : time_of(object, "until_us", AW_FOR_EVER, &order.until_us, diag);
    err = err ? err : time_of(object, "freeze_until_us", AW_NEVER, &order.freeze_until_us, diag);
    err = err ? err : plan_of(object, &order.plan, diag);
    if (!err && order.kind == AW_ORDER_PROPOSE)
        err = policy_of(object, &order.policy, diag);
    if (err)
        return err;
    const json_t *down = json_object_get(object, "down_only");
    if (down && !json_is_boolean(down))
        return wrong(diag, "down_only", "true or false");
    order.down_only = json_is_true(down);
    const json_t *decision = json_object_get(object, "decision");
    if (decision && !json_is_null(decision) &&
        (!json_is_integer(decision) || json_integer_value(decision) < 0))
        return wrong(diag, "decision", "the number of an entry");
    order.decision = (uint64_t)json_integer_value(decision);
    *ret = order;
    return AW_OK;
}

/* --- the book --------------------------------------------------------------------------------- */

enum aw_err aw_standing_orders_init(struct aw_standing_orders *book, const struct aw_alloc *alloc)
{
    *book = (struct aw_standing_orders){.alloc = alloc};
    book->freeze = aw_alloc_new(alloc, AW_STANDING_ORDERS_FREEZES_MAX, sizeof *book->freeze);
    book->pin = aw_alloc_new(alloc, AW_STANDING_ORDERS_PINS_MAX, sizeof *book->pin);
    if (book->freeze && book->pin)
        return AW_OK;
    aw_standing_orders_deinit(book);
    return AW_ERR_NOMEM;
}

void aw_standing_orders_deinit(struct aw_standing_orders *book)
{
    aw_alloc_free(book->alloc, book->freeze);
    aw_alloc_free(book->alloc, book->pin);
    *book = (struct aw_standing_orders){0};
}

static void strike_out(struct aw_standing *list, uint32_t *count, uint32_t at)
{
    memmove(&list[at], &list[at + 1], (*count - at - 1) * sizeof *list);
    --*count;
}

static enum aw_err stand(struct aw_standing *list, uint32_t *count, uint32_t max, const char *what,
                         const struct aw_standing *standing, struct aw_diag *diag)
{
    if (*count >= max)
        return aw_fail(diag, AW_ERR_LIMIT, "%u %s stand already; lift some first", max, what);
    list[(*count)++] = *standing;
    return AW_OK;
}

/* When an emergency's floor is gone, or an order is no longer tried. */
static int64_t ends_us(const struct aw_standing *standing)
{
    const int64_t until = standing->order.until_us;
    if (standing->order.kind != AW_ORDER_EMERGENCY)
        return until;
    const int64_t after = AW_EMERGENCY_GONE_MIN * US_PER_MIN;
    return until > AW_FOR_EVER - after ? AW_FOR_EVER : until + after;
}

static bool same_kind_of_pin(uint32_t a, uint32_t b)
{
    return (a == AW_ORDER_EMERGENCY) == (b == AW_ORDER_EMERGENCY);
}

static enum aw_err pin_down(struct aw_standing_orders *book, const struct aw_standing *standing,
                            struct aw_diag *diag)
{
    for (uint32_t i = 0; i < book->pin_count; i++)
        if (same_kind_of_pin(book->pin[i].order.kind, standing->order.kind) &&
            strcmp(book->pin[i].order.name, standing->order.name) == 0) {
            strike_out(book->pin, &book->pin_count, i);
            break;
        }
    return stand(book->pin, &book->pin_count, AW_STANDING_ORDERS_PINS_MAX,
                 "undos, approvals and emergencies", standing, diag);
}

/* A freeze ends by its number, or by the very scope it was given for: who unfreezes everything does
 * not lift what a colleague froze by name. */
static void unfreeze(struct aw_standing_orders *book, const struct aw_order *order)
{
    for (uint32_t i = book->freeze_count; i-- > 0;) {
        const struct aw_standing *standing = &book->freeze[i];
        const bool this_one = order->decision ? standing->id == order->decision
                                              : standing->order.scope == order->scope &&
                                                    strcmp(standing->order.name, order->name) == 0;
        if (this_one)
            strike_out(book->freeze, &book->freeze_count, i);
    }
}

static void calm(struct aw_standing_orders *book, const struct aw_order *order, int64_t at_us)
{
    for (uint32_t i = 0; i < book->pin_count; i++) {
        struct aw_standing *standing = &book->pin[i];
        const bool this_one = order->decision ? standing->id == order->decision
                                              : strcmp(standing->order.name, order->name) == 0;
        if (standing->order.kind == AW_ORDER_EMERGENCY && this_one &&
            standing->order.until_us > at_us)
            standing->order.until_us = at_us;
    }
}

enum aw_err aw_standing_orders_apply(struct aw_standing_orders *book, uint64_t id, int64_t at_us,
                                     const struct aw_order *order, struct aw_diag *diag)
{
    const struct aw_standing standing = {.id = id, .at_us = at_us, .order = *order};
    aw_standing_orders_expire(book, at_us);
    switch ((enum aw_order_kind)order->kind) {
    case AW_ORDER_FREEZE:
        return stand(book->freeze, &book->freeze_count, AW_STANDING_ORDERS_FREEZES_MAX, "freezes",
                     &standing, diag);
    case AW_ORDER_UNFREEZE:
        unfreeze(book, order);
        return AW_OK;
    case AW_ORDER_UNDO:
        if (order->freeze_until_us != AW_NEVER) {
            struct aw_standing frozen = standing;
            frozen.order.until_us = order->freeze_until_us;
            frozen.order.down_only = false;
            const enum aw_err err = stand(book->freeze, &book->freeze_count,
                                          AW_STANDING_ORDERS_FREEZES_MAX, "freezes", &frozen, diag);
            if (err)
                return err;
        }
        return pin_down(book, &standing, diag);
    case AW_ORDER_APPROVE:
    case AW_ORDER_EMERGENCY:
        return pin_down(book, &standing, diag);
    case AW_ORDER_CALM:
        calm(book, order, at_us);
        return AW_OK;
    case AW_ORDER_REJECT:   /* the proposal goes; nothing stands */
    case AW_ORDER_RESET:    /* the pilot forgets, and that is that */
    case AW_ORDER_PROPOSE:  /* the pilot tries it with its next decision */
    case AW_ORDER_ROLLBACK: /* and takes it back with that */
    case AW_ORDER_NONE:
    case AW_ORDER_COUNT:
        break;
    }
    return AW_OK;
}

void aw_standing_orders_done(struct aw_standing_orders *book, uint64_t id)
{
    for (uint32_t i = 0; i < book->pin_count; i++)
        if (book->pin[i].id == id && book->pin[i].order.kind != AW_ORDER_EMERGENCY) {
            strike_out(book->pin, &book->pin_count, i);
            return;
        }
}

void aw_standing_orders_expire(struct aw_standing_orders *book, int64_t now_us)
{
    for (uint32_t i = book->freeze_count; i-- > 0;)
        if (ends_us(&book->freeze[i]) <= now_us && book->freeze[i].order.until_us != AW_FOR_EVER)
            strike_out(book->freeze, &book->freeze_count, i);
    for (uint32_t i = book->pin_count; i-- > 0;)
        if (ends_us(&book->pin[i]) <= now_us && book->pin[i].order.until_us != AW_FOR_EVER)
            strike_out(book->pin, &book->pin_count, i);
}

/* Share of the floor that stands. */
static double let_down(const struct aw_standing *standing, int64_t now_us)
{
    if (now_us < standing->order.until_us)
        return 1;
    const int64_t minutes = (now_us - standing->order.until_us) / US_PER_MIN;
    if (minutes >= AW_EMERGENCY_GONE_MIN)
        return 0;
    const int64_t steps = minutes / AW_EMERGENCY_STEP_MIN + 1;
    return pow(1 - AW_EMERGENCY_LET_DOWN_PER_MIN, (double)(steps * AW_EMERGENCY_STEP_MIN));
}

static void raise_floor(struct aw_orders *ret, const struct aw_standing *standing, int64_t now_us)
{
    const struct aw_plan *plan = &standing->order.plan;
    const double share = let_down(standing, now_us);
    if (share <= 0)
        return;
    ret->floor_id = standing->id;
    ret->urgent |= share >= 1;
    ret->floor.set |= plan->set;
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        ret->floor.amount[i] =
            (int64_t)fmax((double)ret->floor.amount[i], ceil(share * (double)plan->amount[i]));
}

void aw_standing_orders_orders(const struct aw_standing_orders *book, const char *workload,
                               int64_t now_us, struct aw_orders *ret)
{
    *ret = (struct aw_orders){0};
    for (uint32_t i = 0; i < book->freeze_count; i++) {
        const struct aw_standing *standing = &book->freeze[i];
        const enum aw_guard_freeze freeze =
            standing->order.down_only ? AW_GUARD_FREEZE_DOWN : AW_GUARD_FREEZE_ALL;
        if (now_us >= standing->order.until_us && standing->order.until_us != AW_FOR_EVER)
            continue;
        if (freeze > ret->freeze && aw_order_is_about(&standing->order, workload)) {
            ret->freeze = freeze;
            ret->freeze_id = standing->id;
        }
    }
    for (uint32_t i = 0; i < book->pin_count; i++) {
        const struct aw_standing *standing = &book->pin[i];
        if (strcmp(standing->order.name, workload) != 0)
            continue;
        if (standing->order.kind == AW_ORDER_EMERGENCY) {
            raise_floor(ret, standing, now_us);
        } else if (now_us < standing->order.until_us) {
            ret->pin = standing->order.plan;
            ret->pin_kind = standing->order.kind;
            ret->pin_id = standing->id;
        }
    }
}
