/* api.c - finds the route of a request, reads its parameters, and makes every answer. */
#include "web/api_internal.h"

#include "base/json.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define JSON_TYPE "application/json"

/* "*" stands for any one part. */
struct route {
    const char *method;
    const char *path;   /* behind /v1/ */
    const char *params; /* that it knows, with spaces around each */
    aw__api_handler *handler;
};

static const struct route routes[] = {
    {"GET", "healthz", "", aw__api_get_health},
    {"GET", "readyz", "", aw__api_get_ready},
    {"GET", "status", "", aw__api_get_status},
    {"GET", "workloads", " namespace stage sort limit after ", aw__api_get_workloads},
    {"GET", "workloads/*", "", aw__api_get_workload},
    {"GET", "workloads/*/*", "", aw__api_get_workload},
    {"GET", "workloads/*/*/state", "", aw__api_get_state},
    {"GET", "workloads/*/*/policy", "", aw__api_get_policy},
    {"POST", "workloads/*/*/policy", " reason ", aw__api_post_policy},
    {"GET", "workloads/*/*/policy/file", " which ", aw__api_get_policy_file},
    {"GET", "workloads/*/*/explain", " decision ", aw__api_get_explain},
    {"GET", "workloads/*/*/history", " since before limit ", aw__api_get_history},
    {"GET", "decisions/*", "", aw__api_get_decision},
    {"GET", "proposals", " namespace ", aw__api_get_proposals},
    {"GET", "freezes", "", aw__api_get_freezes},
    {"GET", "capacity", " minus cpu memory priority weight ", aw__api_get_capacity},
    {"GET", "audit", " since before kind limit ", aw__api_get_audit},
    {"GET", "export", " what workload since limit after ", aw__api_get_export},
    {"GET", "series", " since limit ", aw__api_get_fleet},
    {"GET", "table", "", aw__api_get_table},
    {"GET", "workloads/*/*/series", " since limit ", aw__api_get_series},
    {"GET", "workloads/*/*/episodes", " since limit ", aw__api_get_episodes},
    {"GET", "embeddings", "", aw__api_get_embeddings},
    {"GET", "reports", "", aw__api_get_reports},
    {"GET", "metrics", "", aw__api_get_metrics},
    {"POST", "orders", "", aw__api_post_order},
    {"POST", "diff", "", aw__api_post_diff},
};
#define ROUTE_COUNT (sizeof routes / sizeof *routes)

/* Of a graph of services. */
static const struct route service_routes[] = {
    {"GET", "healthz", "", aw__api_services_health},
    {"GET", "readyz", "", aw__api_services_health},
    {"GET", "status", "", aw__api_services_status},
    {"GET", "workloads", " namespace stage sort limit after ", aw__api_services_list},
    {"GET", "workloads/*/*", "", aw__api_services_one},
    {"GET", "workloads/*/*/explain", " decision ", aw__api_services_explain},
    {"GET", "workloads/*/*/history", " since before limit ", aw__api_services_history},
    {"GET", "proposals", " namespace ", aw__api_services_proposals},
    {"GET", "freezes", "", aw__api_services_freezes},
    {"GET", "audit", " since before kind limit ", aw__api_get_audit},
    {"POST", "orders", "", aw__api_services_order},
};
#define SERVICE_ROUTE_COUNT (sizeof service_routes / sizeof *service_routes)

/* --- made and ended --------------------------------------------------------------------------- */

enum aw_err aw_api_init(struct aw_api *api, const struct aw_api_config *config)
{
    *api = (struct aw_api){.config = *config, .tick_mono_us = AW_NEVER};
    if (pthread_mutex_init(&api->lock, NULL))
        return AW_ERR_NOMEM;
    if (pthread_rwlock_init(&api->gate, NULL)) {
        pthread_mutex_destroy(&api->lock);
        return AW_ERR_NOMEM;
    }
    pthread_condattr_t monotonic; /* the wall's clock may jump */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    const int failed = pthread_cond_init(&api->ticked, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (failed || aw_recent_init(&api->watch, config->step_s, NULL)) {
        if (!failed)
            pthread_cond_destroy(&api->ticked);
        pthread_rwlock_destroy(&api->gate);
        pthread_mutex_destroy(&api->lock);
        return AW_ERR_NOMEM;
    }
    api->started_us = aw_clock_now_us(config->clock);
    api->started_mono_us = aw_clock_monotonic_us(config->clock);
    api->made = true;
    return AW_OK;
}

void aw_api_deinit(struct aw_api *api)
{
    if (api->made) {
        aw_recent_deinit(&api->watch);
        pthread_cond_destroy(&api->ticked);
        pthread_rwlock_destroy(&api->gate);
        pthread_mutex_destroy(&api->lock);
    }
    *api = (struct aw_api){0};
}

void aw_api_switch(struct aw_api *api, struct aw_desk *desk)
{
    pthread_rwlock_wrlock(&api->gate);
    api->config.desk = desk;
    pthread_rwlock_unlock(&api->gate);
}

void aw_api_agents(struct aw_api *api, struct aw_agent_exchange *exchange)
{
    pthread_rwlock_wrlock(&api->gate);
    api->exchange = exchange;
    pthread_rwlock_unlock(&api->gate);
}

void aw_api_map(struct aw_api *api, struct aw_workload_map *map, const char *model,
                const char *missing)
{
    pthread_rwlock_wrlock(&api->gate);
    api->map = map;
    snprintf(api->map_model, sizeof api->map_model, "%s", model);
    snprintf(api->map_missing, sizeof api->map_missing, "%s", missing);
    pthread_rwlock_unlock(&api->gate);
}

void aw_api_tick(struct aw_api *api, const struct aw_loop_counts *counts, const char *store_trouble)
{
    const int64_t now = aw_clock_monotonic_us(api->config.clock);
    if (api->config.desk) /* nobody switches meanwhile: that is this thread's to do */
        aw_recent_tick(&api->watch, api->config.desk);
    pthread_mutex_lock(&api->lock);
    api->tick_serial++;
    pthread_cond_broadcast(&api->ticked);
    api->counts = *counts;
    api->tick_mono_us = now;
    snprintf(api->store_trouble, sizeof api->store_trouble, "%s",
             store_trouble ? store_trouble : "");
    pthread_mutex_unlock(&api->lock);
}

void aw_api_twin(struct aw_api *api, uint32_t index, const struct aw_recent_twin *twin)
{
    aw_recent_twin(&api->watch, index, twin);
}

uint64_t aw_api_wait(struct aw_api *api, uint64_t serial, uint32_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&api->lock);
    if (api->tick_serial <= serial)
        pthread_cond_timedwait(&api->ticked, &api->lock, &until);
    const uint64_t latest = api->tick_serial;
    pthread_mutex_unlock(&api->lock);
    return latest;
}

void aw_api_wake(struct aw_api *api)
{
    pthread_mutex_lock(&api->lock);
    pthread_cond_broadcast(&api->ticked);
    pthread_mutex_unlock(&api->lock);
}

void aw_api_standby(struct aw_api *api, bool standby)
{
    pthread_mutex_lock(&api->lock);
    api->standby = standby;
    pthread_mutex_unlock(&api->lock);
}

void aw_api_stopping(struct aw_api *api)
{
    pthread_mutex_lock(&api->lock);
    api->stopping = true;
    pthread_mutex_unlock(&api->lock);
}

void aw_api_response_deinit(struct aw_api_response *response)
{
    free(response->body);
    *response = (struct aw_api_response){0};
}

/* --- what was asked --------------------------------------------------------------------------- */

static int hex_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* In place, since what is decoded is never longer. A NUL or a control character hidden in it could
 * end a name early or forge a line, and no name has one. */
static enum aw_err decode(char *text, struct aw_diag *diag)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        int byte = (unsigned char)*from;
        if (*from == '%') {
            const int high = hex_of(from[1]), low = high < 0 ? -1 : hex_of(from[2]);
            if (low < 0)
                return aw_fail(diag, AW_ERR_FORMAT,
                               "expected two hexadecimal digits behind %% in the address");
            byte = high * 16 + low;
            from += 2;
        }
        from++;
        if (byte < 0x20 || byte == 0x7f)
            return aw_fail(diag, AW_ERR_FORMAT, "the address holds a control character");
        *to = (char)byte;
    }
    *to = '\0';
    if (aw_text_utf8_bad(text, strlen(text)) < strlen(text))
        return aw_fail(diag, AW_ERR_FORMAT, "the address is not UTF-8");
    return AW_OK;
}

static enum aw_err split_path(struct aw__api_call *call, char *path, struct aw_diag *diag)
{
    /* what probes and scrapers look for has no version */
    static const char *const plain[] = {"/healthz", "/readyz", "/metrics"};
    char *rest = path;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(path, plain[i]) == 0) {
            call->part[call->part_count++] = path + 1;
            return AW_OK;
        }
    if (strncmp(path, "/v1", 3) != 0 || (path[3] != '/' && path[3] != '\0'))
        return aw_fail(
            diag, AW_ERR_NOTFOUND, "expected an address that begins with /v1/, found %s",
            aw_text_quote(path, strlen(path), (char[AW_TEXT_QUOTE_MAX]){0}, AW_TEXT_QUOTE_MAX));
    rest += path[3] ? 4 : 3;
    for (char *part; (part = strsep(&rest, "/"));) {
        if (!*part && !rest)
            break; /* a slash at the end */
        if (call->part_count == AW__API_PARTS_MAX)
            return aw_fail(diag, AW_ERR_NOTFOUND, "there is no address of so many parts");
        const enum aw_err err = decode(part, diag);
        if (err)
            return err;
        call->part[call->part_count++] = part;
    }
    return AW_OK;
}

static enum aw_err split_query(struct aw__api_call *call, char *query, struct aw_diag *diag)
{
    for (char *pair; (pair = strsep(&query, "&"));) {
        if (!*pair)
            continue;
        if (call->param_count == AW__API_PARAMS_MAX)
            return aw_fail(diag, AW_ERR_USAGE, "more than %u parameters", AW__API_PARAMS_MAX);
        char *value = strchr(pair, '=');
        if (value)
            *value++ = '\0';
        enum aw_err err = decode(pair, diag);
        if (!err && value)
            err = decode(value, diag);
        if (err)
            return err;
        if (aw__api_param(call, pair))
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, pair, "given twice");
        call->param[call->param_count++] =
            (struct aw__api_param){.key = pair, .value = value ? value : ""};
    }
    return AW_OK;
}

static enum aw_err request_read(struct aw__api_call *call, struct aw_diag *diag)
{
    const struct aw_api_request *request = call->request;
    const size_t len = strlen(request->path);
    if (len >= sizeof call->text)
        return aw_fail(diag, AW_ERR_LIMIT, "the address has %zu bytes, at most %zu are read", len,
                       sizeof call->text - 1);
    if (request->body_len > AW_API_BODY_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "the body has %zu bytes, at most %u are read",
                       request->body_len, AW_API_BODY_MAX);
    memcpy(call->text, request->path, len + 1);
    char *query = strchr(call->text, '?');
    if (query)
        *query++ = '\0';
    enum aw_err err = split_path(call, call->text, diag);
    return err || !query ? err : split_query(call, query, diag);
}

static bool route_fits(const struct route *route, const struct aw__api_call *call)
{
    const char *at = route->path;
    for (uint32_t i = 0; i < call->part_count; i++) {
        const size_t len = strcspn(at, "/");
        if (len == 0)
            return false;
        const bool any = len == 1 && *at == '*';
        if (any ? !*call->part[i] : strlen(call->part[i]) != len || memcmp(at, call->part[i], len))
            return false;
        at += len + (at[len] == '/');
    }
    return !*at && call->part_count > 0;
}

static enum aw_err params_known(const struct route *route, const struct aw__api_call *call,
                                struct aw_diag *diag)
{
    for (uint32_t i = 0; i < call->param_count; i++) {
        char key[64];
        snprintf(key, sizeof key, " %s ", call->param[i].key);
        if (strlen(call->param[i].key) < sizeof key - 2 &&
            strchr(call->param[i].key, ' ') == NULL && *call->param[i].key &&
            strstr(route->params, key))
            continue;
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, call->param[i].key,
                          "no such parameter here; there %s%s", *route->params ? "are" : "is none",
                          *route->params ? route->params : "");
    }
    return AW_OK;
}

/* HEAD is GET whose body stays here. */
static const struct route *route_find(struct aw__api_call *call, struct aw_diag *diag,
                                      enum aw_err *ret_err)
{
    const char *method = strcmp(call->request->method, "HEAD") ? call->request->method : "GET";
    const struct route *list = call->api->config.services ? service_routes : routes;
    const size_t count = call->api->config.services ? SERVICE_ROUTE_COUNT : ROUTE_COUNT;
    struct aw_text allow;
    aw_text_init(&allow, call->allow, sizeof call->allow);
    for (size_t i = 0; i < count; i++) {
        if (!route_fits(&list[i], call))
            continue;
        if (strcmp(list[i].method, method) == 0) {
            call->allow[0] = '\0';
            *ret_err = params_known(&list[i], call, diag);
            return &list[i];
        }
        aw_text_add(&allow, "%s%s%s", allow.len ? ", " : "", list[i].method,
                    strcmp(list[i].method, "GET") ? "" : ", HEAD");
    }
    *ret_err = *call->allow ? aw_fail(diag, AW_ERR_USAGE, "this address takes %s", call->allow)
                            : aw_fail(diag, AW_ERR_NOTFOUND,
                                      "there is no such address; see /v1/status, "
                                      "/v1/workloads");
    return NULL;
}

const char *aw__api_param(const struct aw__api_call *call, const char *key)
{
    for (uint32_t i = 0; i < call->param_count; i++)
        if (strcmp(call->param[i].key, key) == 0)
            return call->param[i].value;
    return NULL;
}

enum aw_err aw__api_limit(const struct aw__api_call *call, uint32_t initial, uint32_t max,
                          uint32_t *ret, struct aw_diag *diag)
{
    const char *text = aw__api_param(call, "limit");
    uint64_t value = initial;
    if (text && (aw_text_parse_u64(text, &value) || value < 1 || value > max))
        return aw_fail_at(
            diag, AW_ERR_RANGE, NULL, 0, 0, "limit",
            "expected a whole number from 1 to %u, found %s", max,
            aw_text_quote(text, strlen(text), (char[AW_TEXT_QUOTE_MAX]){0}, AW_TEXT_QUOTE_MAX));
    *ret = (uint32_t)value;
    return AW_OK;
}

enum aw_err aw__api_id(const char *text, const char *key, uint64_t *ret, struct aw_diag *diag)
{
    uint64_t value;
    if (aw_text_parse_u64(text, &value) || value < 1 || value > INT64_MAX)
        return aw_fail_at(
            diag, AW_ERR_RANGE, NULL, 0, 0, key,
            "expected the number of an entry in the audit log, found %s",
            aw_text_quote(text, strlen(text), (char[AW_TEXT_QUOTE_MAX]){0}, AW_TEXT_QUOTE_MAX));
    *ret = value;
    return AW_OK;
}

/* --- answers ---------------------------------------------------------------------------------- */

static json_t *error_json(enum aw_err err, const struct aw_diag *diag)
{
    bool ok = true;
    json_t *error = json_object(), *body = json_object();
    /* a message may quote what came in, so it is made safe rather than trusted */
    const char *text = diag->text[0] ? diag->text : aw_err_text(err);
    char message[AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 8];
    snprintf(message, sizeof message, "%s%s%s", diag->key, *diag->key ? ": " : "", text);
    for (size_t bad, at = 0, len = strlen(message); at < len; at += bad + 1) {
        bad = aw_text_utf8_bad(message + at, len - at);
        if (at + bad < len)
            message[at + bad] = '?';
    }
    aw__json_set(error, "code", json_string(aw_err_name(err)), &ok);
    aw__json_set(error, "message", json_string(message), &ok);
    if (*diag->key && aw_text_utf8_bad(diag->key, strlen(diag->key)) == strlen(diag->key))
        aw__json_set(error, "key", json_string(diag->key), &ok);
    if (diag->line) {
        aw__json_set(error, "line", json_integer(diag->line), &ok);
        aw__json_set(error, "column", json_integer(diag->column), &ok);
    }
    aw__json_set(body, "error", error, &ok);
    if (ok)
        return body;
    json_decref(body);
    return NULL;
}

/* Takes `body` over. */
static enum aw_err response_of(int status, json_t *body, struct aw_api_response *ret)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = body ? open_memstream(&text, &len) : NULL;
    enum aw_err err = out ? aw_json_write(body, out, 0) : AW_ERR_NOMEM;
    if (out && fclose(out) && !err)
        err = AW_ERR_NOMEM;
    json_decref(body);
    if (err) {
        free(text);
        *ret = (struct aw_api_response){0};
        return AW_ERR_NOMEM;
    }
    *ret = (struct aw_api_response){
        .status = status, .content_type = JSON_TYPE, .body = text, .len = len};
    return AW_OK;
}

enum aw_err aw_api_refuse(enum aw_err err, const struct aw_diag *diag, struct aw_api_response *ret)
{
    return response_of(aw_err_http_status(err), error_json(err, diag), ret);
}

enum aw_err aw_api_answer(struct aw_api *api, const struct aw_api_request *request,
                          struct aw_api_response *ret)
{
    struct aw__api_call call = {.api = api, .request = request, .status = 200};
    struct aw_diag diag = {0};
    char *text = NULL;
    size_t len = 0;
    *ret = (struct aw_api_response){0};
    if (!(call.out = open_memstream(&text, &len)))
        return AW_ERR_NOMEM;
    enum aw_err err = request_read(&call, &diag);
    const struct route *route = err ? NULL : route_find(&call, &diag, &err);
    pthread_rwlock_rdlock(&api->gate);
    if (!err && !api->config.desk && !api->config.services)
        err = aw_fail(&diag, AW_ERR_UNAVAILABLE, "settings are being taken over; ask again");
    if (!err)
        err = route->handler(&call, &diag);
    pthread_rwlock_unlock(&api->gate);
    if (fclose(call.out) && !err)
        err = AW_ERR_NOMEM;
    if (err) {
        json_decref(call.body);
        free(text);
        err = aw_api_refuse(err, &diag, ret);
        if (!err && *call.allow)
            ret->status = 405;
    } else if (call.body) {
        free(text);
        err = response_of(call.status, call.body, ret);
    } else {
        *ret = (struct aw_api_response){.status = call.status,
                                        .content_type =
                                            call.content_type ? call.content_type : JSON_TYPE,
                                        .body = text,
                                        .len = len};
    }
    if (!err) {
        memcpy(ret->allow, call.allow, sizeof ret->allow);
        memcpy(ret->next, call.next, sizeof ret->next);
    }
    return err;
}
