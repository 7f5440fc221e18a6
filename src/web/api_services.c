/*
 * api_services.c - the API over the services of a graph (desk/service_desk.h): the same addresses
 * and documents as of workloads, as far as a service has them.
 */
#include "web/api_internal.h"

#include "base/json.h"
#include "desk/service_desk.h"

#include <stdlib.h>
#include <string.h>

static struct aw_service_desk *desk_of(const struct aw__api_call *call)
{
    return call->api->config.services;
}

static enum aw_err no_memory(struct aw_diag *diag)
{
    return aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
}

/* One part of what a stopped daemon would leave. */
static enum aw_err view(struct aw__api_call *call, const char *name, struct aw_diag *diag)
{
    json_t *views = aw_service_desk_views(desk_of(call));
    call->body = json_incref(json_object_get(views, name));
    json_decref(views);
    return call->body ? AW_OK : no_memory(diag);
}

enum aw_err aw__api_services_health(struct aw__api_call *call, struct aw_diag *diag)
{
    call->body = json_pack("{s:b}", "ok", 1);
    return call->body ? AW_OK : no_memory(diag);
}

enum aw_err aw__api_services_status(struct aw__api_call *call, struct aw_diag *diag)
{
    return view(call, "status", diag);
}

enum aw_err aw__api_services_list(struct aw__api_call *call, struct aw_diag *diag)
{
    return view(call, "workloads", diag);
}

enum aw_err aw__api_services_freezes(struct aw__api_call *call, struct aw_diag *diag)
{
    return view(call, "freezes", diag);
}

enum aw_err aw__api_services_proposals(struct aw__api_call *call, struct aw_diag *diag)
{
    return view(call, "proposals", diag);
}

/* The service that the path means; "-" is whichever graph it is in. */
static enum aw_err service_of(const struct aw__api_call *call, uint32_t *ret, struct aw_diag *diag)
{
    char name[AW_STORE_NAME_MAX];
    const char *namespace = call->part[1];
    if (strcmp(namespace, "-") == 0)
        return aw_service_desk_find(desk_of(call), call->part[2], ret, diag);
    snprintf(name, sizeof name, "%s/%s", namespace, call->part[2]);
    return aw_service_desk_find(desk_of(call), name, ret, diag);
}

enum aw_err aw__api_services_one(struct aw__api_call *call, struct aw_diag *diag)
{
    uint32_t service;
    enum aw_err err = service_of(call, &service, diag);
    if (err)
        return err;
    json_t *views = aw_service_desk_views(desk_of(call));
    json_t *rows = json_object_get(json_object_get(views, "workloads"), "workloads");
    call->body = json_incref(json_array_get(rows, service));
    json_decref(views);
    return call->body ? AW_OK : aw_fail(diag, AW_ERR_UNAVAILABLE, "no step has been finished yet");
}

enum aw_err aw__api_services_explain(struct aw__api_call *call, struct aw_diag *diag)
{
    const char *text = aw__api_param(call, "decision");
    uint64_t decision = 0;
    uint32_t service;
    enum aw_err err = service_of(call, &service, diag);
    if (!err && text)
        err = aw__api_id(text, "decision", &decision, diag);
    return err ? err : aw_service_desk_explain(desk_of(call), service, decision, &call->body, diag);
}

enum aw_err aw__api_services_history(struct aw__api_call *call, struct aw_diag *diag)
{
    uint32_t service;
    const enum aw_err err = service_of(call, &service, diag);
    return err ? err : aw__api_history_of(call, aw_service_desk_name(desk_of(call), service), diag);
}

enum aw_err aw__api_services_order(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_order order;
    uint64_t id = 0;
    char message[128];
    json_t *body = NULL;
    enum aw_err err = aw__api_may_order(call, diag);
    if (!err && !(body = json_loadb(call->request->body ? call->request->body : "",
                                    call->request->body_len, JSON_REJECT_DUPLICATES, NULL)))
        err = aw_fail(diag, AW_ERR_FORMAT, "expected an order as a JSON object");
    if (!err && !json_is_object(body))
        err = aw_fail(diag, AW_ERR_FORMAT, "expected an order as a JSON object");
    call->now_us = aw_service_desk_now_us(desk_of(call));
    err = err ? err : aw__api_order_read(call, body, &order, diag);
    err = err ? err : aw_service_desk_order(desk_of(call), &order, &id, diag);
    json_decref(body);
    if (err)
        return err;
    snprintf(message, sizeof message, "%s", aw_order_sentence(order.kind));
    call->body = json_pack("{s:I, s:o, s:s}", "id", (json_int_t)id, "at",
                           aw__json_time(call->now_us), "message", message);
    return call->body ? AW_OK : no_memory(diag);
}
