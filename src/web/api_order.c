/* api_order.c - what people want: orders in, orders in force, proposals that wait. */
#include "web/api_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define US             1000000.0
#define EMERGENCY_TEXT "1h" /* for which one lasts that does not say */

static json_t *finish(json_t *value, bool ok)
{
    if (ok)
        return value;
    json_decref(value);
    return NULL;
}

static enum aw_err no_memory(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
}

/* --- in force --------------------------------------------------------------------------------- */

json_t *aw__api_standing(const struct aw_standing *standing, int64_t now_us)
{
    const struct aw_order *order = &standing->order;
    const bool ends = order->until_us != AW_FOR_EVER;
    bool ok = true;
    json_t *object = json_object();
    aw__json_set(object, "id", aw__json_id(standing->id), &ok);
    aw__json_set(object, "at", aw__json_time(standing->at_us), &ok);
    aw__json_set(object, "kind", json_string(aw_order_name(order->kind)), &ok);
    aw__json_set(object, "scope", json_string(aw_order_scope_names[order->scope]), &ok);
    aw__json_set(object, "name", json_string(order->name), &ok);
    aw__json_set(object, "down_only", json_boolean(order->down_only), &ok);
    aw__json_set(object, "until", aw__json_time(order->until_us), &ok);
    aw__json_set(object, "left_s",
                 aw__json_num(ends ? fmax(0, (double)(order->until_us - now_us) / US) : NAN), &ok);
    aw__json_set(object, "decision", aw__json_id(order->decision), &ok);
    aw__json_set(object, "plan", aw__json_plan(&order->plan), &ok);
    aw__json_set(object, "reason", json_string(order->reason), &ok);
    aw__json_set(object, "by", json_string(order->by), &ok);
    return finish(object, ok);
}

json_t *aw__api_freezes(const struct aw_api *api, int64_t now_us)
{
    const struct aw_standing_orders *book = aw_desk_book(api->config.desk);
    bool ok = true;
    json_t *object = json_object(), *freezes = json_array(), *pins = json_array();
    for (uint32_t i = 0; i < book->freeze_count; i++)
        if (book->freeze[i].order.until_us > now_us &&
            json_array_append_new(freezes, aw__api_standing(&book->freeze[i], now_us)))
            ok = false;
    for (uint32_t i = 0; i < book->pin_count; i++) {
        struct aw_orders orders;
        aw__api_orders(api, book->pin[i].order.name, now_us, &orders);
        if ((orders.pin_id == book->pin[i].id || orders.floor_id == book->pin[i].id) &&
            json_array_append_new(pins, aw__api_standing(&book->pin[i], now_us)))
            ok = false;
    }
    aw__json_set(object, "now", aw__json_time(now_us), &ok);
    aw__json_set(object, "freezes", freezes, &ok);
    aw__json_set(object, "pins", pins, &ok);
    return finish(object, ok);
}

enum aw_err aw__api_get_freezes(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    aw_desk_lock(desk);
    call->body = aw__api_freezes(call->api, aw__api_now_us(call->api));
    aw_desk_unlock(desk);
    return call->body ? AW_OK : no_memory(diag);
}

/* --- proposals -------------------------------------------------------------------------------- */

static json_t *proposal_json(const struct aw_desk_view *view, int64_t now_us)
{
    const struct aw_desk_proposal *proposal = &view->proposal;
    const struct aw_prices *prices = &view->config->prices;
    struct aw_plan present, after;
    char why[AW_EXPLANATION_SENTENCE_MAX];
    bool ok = true;
    json_t *object = json_object();
    aw__api_present(view, &present);
    after = aw_plan_over(&proposal->plan, &present);
    aw__json_set(object, "id", aw__json_id(proposal->id), &ok);
    aw__json_set(object, "workload", json_string(view->name), &ok);
    aw__json_set(object, "at", aw__json_time(proposal->at_us), &ok);
    aw__json_set(object, "expires", aw__json_time(proposal->expires_us), &ok);
    aw__json_set(object, "left_s",
                 aw__json_num(fmax(0, (double)(proposal->expires_us - now_us) / US)), &ok);
    aw__json_set(object, "plan", aw__json_plan(&proposal->plan), &ok);
    aw__json_set(object, "now", aw__json_amounts(&present), &ok);
    aw__json_set(object, "cost_per_hour",
                 json_pack("{s:f, s:f}", "before", aw_prices_per_hour(prices, &present), "after",
                           aw_prices_per_hour(prices, &after)),
                 &ok);
    aw__json_set(
        object, "why",
        json_string(aw_explanation_sentence(view->config, view->decision, why, sizeof why)), &ok);
    return finish(object, ok);
}

json_t *aw__api_proposals(const struct aw_api *api, const char *namespace, int64_t now_us)
{
    const struct aw_desk *desk = api->config.desk;
    const size_t len = namespace ? strlen(namespace) : 0;
    bool ok = true;
    json_t *object = json_object(), *proposals = json_array();
    for (uint32_t i = 0; i < aw_desk_count(desk); i++) {
        struct aw_desk_view view;
        if (!aw_desk_has(desk, i))
            continue;
        aw_desk_peek(desk, i, &view);
        if (view.proposal.id == 0 || view.proposal.expires_us <= now_us ||
            (namespace && (strncmp(view.name, namespace, len) != 0 || view.name[len] != '/')))
            continue;
        if (json_array_append_new(proposals, proposal_json(&view, now_us)))
            ok = false;
    }
    aw__json_set(object, "now", aw__json_time(now_us), &ok);
    aw__json_set(object, "proposals", proposals, &ok);
    return finish(object, ok);
}

enum aw_err aw__api_get_proposals(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    aw_desk_lock(desk);
    call->body =
        aw__api_proposals(call->api, aw__api_param(call, "namespace"), aw__api_now_us(call->api));
    aw_desk_unlock(desk);
    return call->body ? AW_OK : no_memory(diag);
}

/* --- an order that comes in ------------------------------------------------------------------- */

/* Which members a kind has besides kind and reason. */
static const struct {
    uint32_t kind;
    const char *members;
} shapes[] = {
    {AW_ORDER_FREEZE, " scope name down_only for "},
    {AW_ORDER_UNFREEZE, " scope name order "},
    {AW_ORDER_UNDO, " decision "},
    {AW_ORDER_APPROVE, " decision "},
    {AW_ORDER_REJECT, " decision "},
    {AW_ORDER_EMERGENCY, " scope name for plan "},
    {AW_ORDER_CALM, " scope name order "},
    {AW_ORDER_RESET, " scope name "},
    {AW_ORDER_ROLLBACK, " scope name "},
};
#define SHAPE_COUNT (sizeof shapes / sizeof *shapes)

static enum aw_err wrong(struct aw_diag *diag, const char *key, const char *expected)
{
    return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key, "expected %s", expected);
}

static enum aw_err text_of(const json_t *body, const char *key, char *buf, size_t size,
                           struct aw_diag *diag)
{
    const json_t *value = json_object_get(body, key);
    buf[0] = '\0';
    if (!value)
        return AW_OK;
    if (!json_is_string(value))
        return wrong(diag, key, "text");
    const char *text = json_string_value(value);
    if (json_string_length(value) >= size)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key,
                          "expected at most %zu bytes, found %zu", size - 1,
                          json_string_length(value));
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return wrong(diag, key, "one line without control characters");
    memcpy(buf, text, strlen(text) + 1);
    return AW_OK;
}

static enum aw_err kind_of(const json_t *body, const char **ret_members, uint32_t *ret_kind,
                           struct aw_diag *diag)
{
    const char *text = json_string_value(json_object_get(body, "kind"));
    for (size_t i = 0; text && i < SHAPE_COUNT; i++)
        if (strcmp(text, aw_order_name(shapes[i].kind)) == 0) {
            *ret_kind = shapes[i].kind;
            *ret_members = shapes[i].members;
            return AW_OK;
        }
    return wrong(diag, "kind",
                 "freeze, unfreeze, undo, approve, reject, emergency, calm, reset or rollback");
}

static enum aw_err members_known(json_t *body, const char *members, struct aw_diag *diag)
{
    const char *key;
    json_t *value;
    json_object_foreach(body, key, value)
    {
        char word[40];
        snprintf(word, sizeof word, " %s ", key);
        if (strcmp(key, "kind") == 0 || strcmp(key, "reason") == 0 ||
            (strlen(key) + 2 < sizeof word && *key && !strchr(key, ' ') && strstr(members, word)))
            continue;
        return aw_fail_at(
            diag, AW_ERR_CONFIG, NULL, 0, 0, NULL,
            "%s is no member of such an order; there are kind, reason and%s",
            aw_text_quote(key, strlen(key), (char[AW_TEXT_QUOTE_MAX]){0}, AW_TEXT_QUOTE_MAX),
            members);
    }
    return AW_OK;
}

static enum aw_err number_of(const json_t *body, const char *key, uint64_t *ret,
                             struct aw_diag *diag)
{
    const json_t *value = json_object_get(body, key);
    *ret = 0;
    if (!value)
        return AW_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return wrong(diag, key, "the number of an entry in the audit log");
    *ret = (uint64_t)json_integer_value(value);
    return AW_OK;
}

static enum aw_err until_of(const json_t *body, const char *initial, int64_t now_us,
                            int64_t *ret_us, struct aw_diag *diag)
{
    const json_t *value = json_object_get(body, "for");
    const char *text = value ? json_string_value(value) : initial;
    struct aw_diag why;
    int64_t for_us;
    *ret_us = AW_FOR_EVER;
    if (!value && !initial)
        return AW_OK;
    if (!text)
        return wrong(diag, "for", "a duration in quotes, such as \"2h\"");
    if (aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, &for_us, &why))
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "for", "%s", why.text);
    if (for_us <= 0)
        return wrong(diag, "for", "a duration above 0");
    if (__builtin_add_overflow(now_us, for_us, ret_us))
        *ret_us = AW_FOR_EVER;
    return AW_OK;
}

static enum aw_err plan_of(json_t *body, struct aw_plan *ret, struct aw_diag *diag)
{
    json_t *plan = json_object_get(body, "plan");
    if (!plan)
        return AW_OK;
    if (aw_plan_from_json(plan, ret, diag))
        return AW_ERR_CONFIG;
    return ret->set ? AW_OK : wrong(diag, "plan", "at least one amount");
}

static enum aw_err scope_of(const json_t *body, uint32_t *ret, struct aw_diag *diag)
{
    const json_t *value = json_object_get(body, "scope");
    const char *text = json_string_value(value);
    *ret = AW_SCOPE_WORKLOAD;
    if (!value)
        return AW_OK;
    for (uint32_t i = 0; text && aw_order_scope_names[i]; i++)
        if (strcmp(text, aw_order_scope_names[i]) == 0) {
            *ret = i;
            return AW_OK;
        }
    return wrong(diag, "scope", "workload, namespace or all");
}

enum aw_err aw__api_order_read(const struct aw__api_call *call, json_t *body, struct aw_order *ret,
                               struct aw_diag *diag)
{
    struct aw_order order = {.until_us = AW_FOR_EVER, .freeze_until_us = AW_NEVER};
    const char *members = "";
    uint64_t decision = 0, lifted = 0;
    enum aw_err err = kind_of(body, &members, &order.kind, diag);
    err = err ? err : members_known(body, members, diag);
    err = err ? err : text_of(body, "reason", order.reason, sizeof order.reason, diag);
    err = err ? err : text_of(body, "name", order.name, sizeof order.name, diag);
    err = err ? err : scope_of(body, &order.scope, diag);
    err = err ? err : number_of(body, "decision", &decision, diag);
    err = err ? err : number_of(body, "order", &lifted, diag);
    err = err ? err : plan_of(body, &order.plan, diag);
    err = err ? err
              : until_of(body, order.kind == AW_ORDER_EMERGENCY ? EMERGENCY_TEXT : NULL,
                         call->now_us, &order.until_us, diag);
    if (err)
        return err;
    const json_t *down = json_object_get(body, "down_only");
    if (down && !json_is_boolean(down))
        return wrong(diag, "down_only", "true or false");
    order.down_only = json_is_true(down);
    if (strstr(members, " decision ") && decision == 0)
        return wrong(diag, "decision", "the number of the decision or proposal that it is about");
    order.decision = decision ? decision : lifted;
    snprintf(order.by, sizeof order.by, "%s", call->request->by);
    *ret = order;
    return AW_OK;
}

/* Which freeze or emergency an order lifts, by its number: the name follows from it. */
static enum aw_err name_from_lifted(const struct aw_api *api, struct aw_order *order,
                                    struct aw_diag *diag)
{
    const struct aw_standing_orders *book = aw_desk_book(api->config.desk);
    const bool freeze = order->kind == AW_ORDER_UNFREEZE;
    if ((!freeze && order->kind != AW_ORDER_CALM) || order->decision == 0)
        return AW_OK;
    if (*order->name)
        return wrong(diag, "order", "either the number of an order or whom it is about");
    const struct aw_standing *list = freeze ? book->freeze : book->pin;
    const uint32_t count = freeze ? book->freeze_count : book->pin_count;
    for (uint32_t i = 0; i < count; i++)
        if (list[i].id == order->decision) {
            memcpy(order->name, list[i].order.name, sizeof order->name);
            order->scope = list[i].order.scope;
            return AW_OK;
        }
    return aw_fail(diag, AW_ERR_NOTFOUND, "no %s %llu stands", freeze ? "freeze" : "emergency",
                   (unsigned long long)order->decision);
}

static uint32_t affected(const struct aw_api *api, const struct aw_order *order)
{
    const struct aw_desk *desk = api->config.desk;
    uint32_t count = 0;
    for (uint32_t i = 0; i < aw_desk_count(desk); i++) {
        struct aw_desk_view view;
        if (!aw_desk_has(desk, i))
            continue;
        aw_desk_peek(desk, i, &view);
        count += aw_order_is_about(order, view.name);
    }
    return count;
}

/* One sentence of what was ordered. */
static void message_of(const struct aw_order *order, uint32_t count, bool simulated, char *buf,
                       size_t size)
{
    char until[AW__TIME_TEXT_MAX] = "", whom[AW_STORE_NAME_MAX + 32];
    struct aw_text text;
    if (order->scope == AW_SCOPE_WORKLOAD)
        snprintf(whom, sizeof whom, "%s", order->name);
    else
        snprintf(whom, sizeof whom, "%u workload%s%s%s", count, count == 1 ? "" : "s",
                 *order->name ? " of " : "", order->name);
    aw_text_init(&text, buf, size);
    aw_text_add(&text, "%s: %s%s", whom, aw_order_sentence(order->kind),
                order->kind == AW_ORDER_FREEZE && order->down_only ? " downwards" : "");
    const bool lasts = order->kind == AW_ORDER_FREEZE || order->kind == AW_ORDER_EMERGENCY;
    if (lasts && order->until_us != AW_FOR_EVER)
        aw_text_add(&text, ", until %s%s", aw_time_show_us(order->until_us, until, sizeof until),
                    simulated ? " of simulated time" : " UTC");
    else if (order->kind == AW_ORDER_FREEZE)
        aw_text_add(&text, ", until it is lifted");
}

/* What was taken, as the log has it: the desk has filled in names and plans. */
json_t *aw__api_taken(const struct aw_api *api, uint64_t id, const struct aw_order *asked,
                      int64_t now_us)
{
    const struct aw_standing_orders *book = aw_desk_book(api->config.desk);
    struct aw_standing standing = {.id = id, .at_us = now_us, .order = *asked};
    for (uint32_t i = 0; i < book->pin_count; i++)
        if (book->pin[i].id == id)
            standing = book->pin[i];
    for (uint32_t i = 0; i < book->freeze_count; i++)
        if (book->freeze[i].id == id && asked->kind == AW_ORDER_FREEZE)
            standing = book->freeze[i];
    const uint32_t count = affected(api, &standing.order);
    char message[512];
    bool ok = true;
    json_t *object = json_object();
    message_of(&standing.order, count, api->config.virtual_time, message, sizeof message);
    aw__json_set(object, "id", aw__json_id(id), &ok);
    aw__json_set(object, "at", aw__json_time(standing.at_us), &ok);
    aw__json_set(object, "affects", json_integer(count), &ok);
    aw__json_set(object, "order", aw__api_standing(&standing, now_us), &ok);
    aw__json_set(object, "message", json_string(message), &ok);
    return finish(object, ok);
}

/* The number of a proposal or decision says whose it is; of a short name there is a long one. */
static void name_in_full(const struct aw_api *api, struct aw_order *order)
{
    const struct aw_desk *desk = api->config.desk;
    struct aw_desk_view view;
    uint32_t index;
    if (order->kind == AW_ORDER_REJECT)
        for (uint32_t i = 0; i < aw_desk_count(desk); i++) {
            if (!aw_desk_has(desk, i))
                continue;
            aw_desk_peek(desk, i, &view);
            if (view.proposal.id == order->decision)
                snprintf(order->name, sizeof order->name, "%s", view.name);
        }
    else if (order->scope == AW_SCOPE_WORKLOAD && *order->name &&
             !aw_desk_find(desk, order->name, &index, NULL)) {
        aw_desk_peek(desk, index, &view);
        snprintf(order->name, sizeof order->name, "%s", view.name);
    }
}

enum aw_err aw__api_may_order(const struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_api *api = call->api;
    if (!call->request->by || !*call->request->by)
        return aw_fail(diag, AW_ERR_USAGE, "nobody knows who asks, and orders are signed");
    pthread_mutex_lock(&api->lock);
    const bool stopping = api->stopping;
    pthread_mutex_unlock(&api->lock);
    return stopping ? aw_fail(diag, AW_ERR_UNAVAILABLE, "the daemon is stopping") : AW_OK;
}

enum aw_err aw__api_post_order(struct aw__api_call *call, struct aw_diag *diag)
{
    const struct aw_api_request *request = call->request;
    struct aw_api *api = call->api;
    struct aw_desk *desk = api->config.desk;
    struct aw_order order;
    struct aw_tree tree = {0};
    const struct aw_node *root;
    json_t *body = NULL;
    uint64_t id = 0;
    enum aw_err err = aw__api_may_order(call, diag);
    if (err)
        return err;
    err = aw_json_parse(&tree, "body", request->body ? request->body : "", request->body_len, NULL,
                        diag);
    err = err ? err : aw_tree_only(&tree, &root, diag);
    if (!err && !(body = aw_json_from_node(root)))
        err = no_memory(diag);
    if (!err && !json_is_object(body))
        err = aw_fail(diag, AW_ERR_FORMAT, "expected an object");
    if (err)
        goto out;
    aw_desk_lock(desk);
    call->now_us = aw__api_now_us(api);
    err = aw__api_order_read(call, body, &order, diag);
    err = err ? err : name_from_lifted(api, &order, diag);
    if (!err)
        name_in_full(api, &order);
    aw_desk_unlock(desk);
    err = err ? err : aw_desk_order(desk, &order, call->now_us, &id, diag);
    if (err)
        goto out;
    aw_desk_lock(desk);
    call->body = aw__api_taken(api, id, &order, call->now_us);
    aw_desk_unlock(desk);
    call->status = 201;
    err = call->body ? AW_OK : no_memory(diag);
out:
    json_decref(body);
    aw_tree_deinit(&tree);
    return err;
}
