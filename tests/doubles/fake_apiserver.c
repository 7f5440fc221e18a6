/* fake_apiserver.c - the front of the fake API server: routes, strictness, faults, watches. */
#include "doubles/fake_apiserver_internal.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A request while its body comes in. */
struct request {
    char *body;
    size_t len;
};

static bool split(const char *path, struct aw__fake_route *route)
{
    char copy[AW__FAKE_TEXT_MAX], *part[12], *rest = copy;
    uint32_t count = 0, at;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *word; count < 12 && (word = strsep(&rest, "/"));)
        if (*word)
            part[count++] = word;
    *route = (struct aw__fake_route){0};
    if (count >= 2 && !strcmp(part[0], "api"))
        at = 2;
    else if (count >= 3 && !strcmp(part[0], "apis"))
        at = 3;
    else
        return false;
    const char *group = part[1], *version = at == 3 ? part[2] : "";
    if (at + 1 < count && !strcmp(part[at], "namespaces")) {
        snprintf(route->ns, sizeof route->ns, "%s", part[at + 1]);
        at += 2;
    }
    if (at >= count)
        return false;
    snprintf(route->collection, sizeof route->collection, "/%s/%.40s%s%.20s/%.40s", part[0], group,
             version[0] ? "/" : "", version, part[at]);
    if (at + 1 < count)
        snprintf(route->name, sizeof route->name, "%s", part[at + 1]);
    if (at + 2 < count)
        snprintf(route->sub, sizeof route->sub, "%s", part[at + 2]);
    return at + 3 >= count;
}

/* --- answers --- */

static enum MHD_Result answer_text(struct MHD_Connection *connection, int status, char *text,
                                   int retry_after_s)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    char seconds[16];
    MHD_add_response_header(response, "Content-Type", "application/json");
    snprintf(seconds, sizeof seconds, "%d", retry_after_s);
    if (retry_after_s)
        MHD_add_response_header(response, "Retry-After", seconds);
    const enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_json(struct MHD_Connection *connection, int status, json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return answer_text(connection, status, text, 0);
}

static enum MHD_Result refuse(struct MHD_Connection *connection, int code, const char *reason,
                              const char *message)
{
    return answer_json(connection, code, aw__fake_status(code, reason, message));
}

/* An answer that ends before its end: the length says more than comes. */
static ssize_t cut_reader(void *ctx, uint64_t at, char *buf, size_t max)
{
    static const char half[] = "{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"na";
    (void)ctx;
    if (at >= sizeof half - 1)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    const size_t len = sizeof half - 1 - at < max ? sizeof half - 1 - at : max;
    memcpy(buf, half + at, len);
    return (ssize_t)len;
}

static enum MHD_Result answer_cut(struct MHD_Connection *connection)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, cut_reader, NULL, NULL);
    const enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

/* --- watches --- */

struct watch {
    struct aw_fake_apiserver *twin;
    struct aw__fake_route route;
    uint64_t version, epoch, bookmark;
    uint32_t lines_left; /* before it breaks; UINT32_MAX: never */
    char *line;          /* on its way out */
    size_t len, sent;
    bool bookmarks, over, broken;
};

/* The next line that this watch should say, or NULL; with the lock held. */
static char *next_line(struct watch *watch)
{
    struct aw_fake_apiserver *twin = watch->twin;
    char *line = NULL;
    for (uint32_t i = 0; i < twin->history_count; i++) {
        const struct aw__fake_change *change = &twin->history[i];
        if (change->version <= watch->version ||
            strcmp(change->collection, watch->route.collection) != 0 ||
            (watch->route.ns[0] && strcmp(change->ns, watch->route.ns) != 0))
            continue;
        watch->version = change->version;
        AW_ASSERT(asprintf(&line, "{\"type\":\"%s\",\"object\":%s}\n", change->type, change->json) >
                  0);
        return line;
    }
    if (watch->bookmark != twin->bookmark && watch->bookmarks) {
        watch->bookmark = twin->bookmark;
        watch->version = twin->version;
        AW_ASSERT(asprintf(&line,
                           "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":"
                           "{\"resourceVersion\":\"%llu\"}}}\n",
                           (unsigned long long)twin->version) > 0);
        return line;
    }
    if (watch->epoch != twin->watch_epoch && !watch->over) {
        watch->over = true;
        if (twin->end_code) {
            json_t *json = json_pack("{s:s, s:o}", "type", "ERROR", "object",
                                     aw__fake_status(twin->end_code, twin->end_reason, "ended"));
            char *text = json_dumps(json, JSON_COMPACT);
            AW_ASSERT(asprintf(&line, "%s\n", text) > 0);
            free(text);
            json_decref(json);
        }
    }
    return line;
}

static ssize_t watch_reader(void *ctx, uint64_t at, char *buf, size_t max)
{
    struct watch *watch = ctx;
    struct aw_fake_apiserver *twin = watch->twin;
    (void)at;
    pthread_mutex_lock(&twin->lock);
    while (!watch->line && !twin->stop && !watch->over && !watch->broken) {
        watch->line = next_line(watch);
        if (watch->line) {
            watch->len = strlen(watch->line);
            watch->sent = 0;
            if (watch->lines_left == 0) {
                watch->len /= 2; /* the newline is among what never comes */
                watch->broken = true;
            } else if (watch->lines_left != UINT32_MAX) {
                watch->lines_left--;
            }
        } else if (!watch->over) {
            pthread_cond_wait(&twin->moved, &twin->lock);
        }
    }
    pthread_mutex_unlock(&twin->lock);
    if (!watch->line)
        return watch->broken ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
    const size_t len = watch->len - watch->sent < max ? watch->len - watch->sent : max;
    memcpy(buf, watch->line + watch->sent, len);
    watch->sent += len;
    if (watch->sent == watch->len) {
        free(watch->line);
        watch->line = NULL;
    }
    return (ssize_t)len;
}

static void watch_free(void *ctx)
{
    struct watch *watch = ctx;
    pthread_mutex_lock(&watch->twin->lock);
    watch->twin->watching--;
    pthread_mutex_unlock(&watch->twin->lock);
    free(watch->line);
    free(watch);
}

static enum MHD_Result begin_watch(struct aw_fake_apiserver *twin,
                                   struct MHD_Connection *connection,
                                   const struct aw__fake_route *route, uint32_t lines_left)
{
    const char *version =
        MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "resourceVersion");
    const char *marks =
        MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "allowWatchBookmarks");
    const uint64_t from = version ? strtoull(version, NULL, 10) : 0;
    pthread_mutex_lock(&twin->lock);
    const bool gone = from < twin->compacted;
    struct watch *watch = gone ? NULL : calloc(1, sizeof *watch);
    if (watch) {
        *watch = (struct watch){.twin = twin,
                                .route = *route,
                                .version = from,
                                .epoch = twin->watch_epoch,
                                .bookmark = twin->bookmark,
                                .lines_left = lines_left,
                                .bookmarks = marks && !strcmp(marks, "true")};
        twin->watching++;
    }
    pthread_mutex_unlock(&twin->lock);
    if (!watch)
        return refuse(connection, 410, "Expired", "too old resource version");
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, watch_reader, watch, watch_free);
    MHD_add_response_header(response, "Content-Type", "application/json");
    const enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

/* --- the front --- */

/* The resources of a group that somebody defined: a CustomResourceDefinition, put into the fake
 * as an object, shows here as a real server would show it. NULL: nobody did. */
static json_t *defined(struct aw_fake_apiserver *twin, const char *path)
{
    json_t *resources = json_array();
    for (uint32_t i = 0; i < twin->object_count; i++) {
        const json_t *spec = json_object_get(twin->objects[i].json, "spec"), *version;
        const char *plural =
            json_string_value(json_object_get(json_object_get(spec, "names"), "plural"));
        char group[128], status[128];
        size_t k;
        if (!plural || !strstr(twin->objects[i].collection, "/customresourcedefinitions"))
            continue;
        const json_t *versions = json_object_get(spec, "versions");
        json_array_foreach(versions, k, version)
        {
            snprintf(group, sizeof group, "/apis/%s/%s",
                     json_string_value(json_object_get(spec, "group")),
                     json_string_value(json_object_get(version, "name")));
            if (strcmp(group, path) != 0)
                continue;
            json_array_append_new(resources,
                                  json_pack("{s:s,s:b}", "name", plural, "namespaced", 1));
            snprintf(status, sizeof status, "%s/status", plural);
            if (json_object_get(json_object_get(version, "subresources"), "status"))
                json_array_append_new(resources, json_pack("{s:s}", "name", status));
        }
    }
    const bool none = json_array_size(resources) == 0;
    json_t *list =
        none ? NULL : json_pack("{s:s,s:O}", "kind", "APIResourceList", "resources", resources);
    json_decref(resources);
    return list;
}

static json_t *discovery_of(struct aw_fake_apiserver *twin, const char *path)
{
    if (!strcmp(path, "/version"))
        return json_pack("{s:s, s:s, s:s}", "major", "1", "minor", "33+", "gitVersion", "v1.33.1");
    if (!strcmp(path, "/apis"))
        return json_pack("{s:s, s:[{s:s, s:[{s:s},{s:s}]}, {s:s, s:[{s:s}]}, {s:s, s:[{s:s}]}]}",
                         "kind", "APIGroupList", "groups", "name", "autoscaling", "versions",
                         "version", "v1", "version", "v2", "name", "policy", "versions", "version",
                         "v1", "name", "events.k8s.io", "versions", "version", "v1");
    if (!strcmp(path, "/api/v1"))
        return json_pack("{s:[{s:s, s:s}, {s:s, s:s, s:s}, {s:s}]}", "resources", "name", "pods",
                         "kind", "Pod", "name", "pods/eviction", "kind", "Eviction", "version",
                         "v1", "name", "pods/resize");
    if (!strcmp(path, "/apis/apps/v1"))
        return json_pack("{s:[{s:s, s:s, s:b}, {s:s, s:s}]}", "resources", "name", "deployments",
                         "kind", "Deployment", "namespaced", 1, "name", "deployments/scale", "kind",
                         "Scale");
    pthread_mutex_lock(&twin->lock);
    json_t *list = strncmp(path, "/apis/", 6) ? NULL : defined(twin, path);
    pthread_mutex_unlock(&twin->lock);
    return list;
}

static enum MHD_Result check_query(void *ctx, enum MHD_ValueKind kind, const char *key,
                                   const char *value)
{
    static const char *const known[] = {
        "watch",    "allowWatchBookmarks", "resourceVersion", "timeoutSeconds", "limit",
        "continue", "labelSelector",       "fieldManager",    "force",          NULL};
    bool *bad = ctx;
    (void)kind;
    (void)value;
    for (uint32_t i = 0; known[i]; i++)
        if (!strcmp(known[i], key))
            return MHD_YES;
    *bad = true;
    return MHD_NO;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return value ? value : "";
}

/* What a real server would refuse before it looks at the object; 0: nothing. */
static int refusal(struct aw_fake_apiserver *twin, struct MHD_Connection *connection,
                   const char *method, const struct request *request)
{
    static const char *const patches[] = {
        "application/merge-patch+json", "application/strategic-merge-patch+json",
        "application/json-patch+json", "application/apply-patch+yaml", NULL};
    const char *type = header(connection, "Content-Type");
    char bearer[160];
    bool bad = false;
    snprintf(bearer, sizeof bearer, "Bearer %s", twin->token);
    if (twin->token[0] && strcmp(header(connection, "Authorization"), bearer) != 0)
        return 401;
    if (strcmp(header(connection, "Accept"), "application/json") != 0)
        return 406;
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, check_query, &bad);
    if (bad)
        return 400;
    if (!strcmp(method, "PATCH")) {
        for (uint32_t i = 0; patches[i]; i++)
            if (!strcmp(patches[i], type))
                return 0;
        return 415;
    }
    return request->len && strcmp(type, "application/json") != 0 ? 415 : 0;
}

/* The fault that is due for this request, used up by one; with the lock held. */
static bool take_fault(struct aw_fake_apiserver *twin, const char *line,
                       struct aw_fake_apiserver_fault *ret)
{
    for (uint32_t i = 0; i < twin->fault_count; i++) {
        struct aw_fake_apiserver_fault *fault = &twin->faults[i];
        if (!fault->count || strncmp(line, fault->match, strlen(fault->match)) != 0)
            continue;
        fault->count -= fault->count != UINT32_MAX;
        *ret = *fault;
        return true;
    }
    return false;
}

static enum MHD_Result add_pair(void *ctx, enum MHD_ValueKind kind, const char *key,
                                const char *value)
{
    char *line = ctx;
    const size_t len = strlen(line);
    (void)kind;
    snprintf(line + len, AW__FAKE_TEXT_MAX - len, "%c%s=%s", strchr(line, '?') ? '&' : '?', key,
             value ? value : "");
    return MHD_YES;
}

static enum MHD_Result respond(struct aw_fake_apiserver *twin, struct MHD_Connection *connection,
                               const char *path, const char *method, const struct request *request)
{
    struct aw__fake_route route;
    struct aw_fake_apiserver_fault fault = {0};
    char line[AW__FAKE_TEXT_MAX];
    json_t *body = request->len ? json_loadb(request->body, request->len, 0, NULL) : NULL, *answer;
    int status = 200;
    snprintf(line, sizeof line, "%s %.512s", method, path);
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_pair, line);
    pthread_mutex_lock(&twin->lock);
    AW_ASSERT(twin->log_count < AW__FAKE_LOG_MAX);
    snprintf(twin->log[twin->log_count].line, sizeof twin->log[0].line, "%s", line);
    twin->log[twin->log_count++].body = json_incref(body);
    const bool faulty = take_fault(twin, line, &fault);
    const int refused = refusal(twin, connection, method, request);
    pthread_mutex_unlock(&twin->lock);
    if (fault.slow_ms)
        usleep(fault.slow_ms * 1000);
    const char *watch = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "watch");
    enum MHD_Result result;
    if (faulty && fault.status) {
        answer = aw__fake_status(fault.status, fault.reason ? fault.reason : "",
                                 fault.message ? fault.message : "as the test wants it");
        char *text = json_dumps(answer, JSON_COMPACT);
        json_decref(answer);
        result = answer_text(connection, fault.status, text, fault.retry_after_s);
    } else if (refused) {
        result = refuse(connection, refused, "", "this server is strict");
    } else if (faulty && fault.rubbish) {
        result = answer_text(connection, 200, strdup("<html>"), 0);
    } else if (faulty && fault.cut && !watch) {
        result = answer_cut(connection);
    } else if ((answer = discovery_of(twin, path))) {
        result = answer_json(connection, 200, answer);
    } else if (!split(path, &route)) {
        result = refuse(connection, 404, "NotFound", "no such path");
    } else if (request->len && !body) {
        result = refuse(connection, 400, "BadRequest", "not JSON");
    } else if (watch) {
        result = begin_watch(twin, connection, &route, fault.cut ? fault.watch_lines : UINT32_MAX);
    } else {
        const char *limit = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "limit");
        const char *token =
            MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "continue");
        pthread_mutex_lock(&twin->lock);
        if (strcmp(method, "GET") != 0)
            answer = aw__fake_write(twin, method, &route, body, &status);
        else if (route.name[0])
            answer = aw__fake_read(twin, &route, &status);
        else
            answer =
                aw__fake_list(twin, &route, limit ? strtoull(limit, NULL, 10) : 0, token, &status);
        pthread_mutex_unlock(&twin->lock);
        result = answer_json(connection, status, answer);
    }
    json_decref(body);
    return result;
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_size, void **state)
{
    struct request *request = *state;
    (void)version;
    if (!request) {
        *state = calloc(1, sizeof *request);
        return *state ? MHD_YES : MHD_NO;
    }
    if (*data_size) {
        request->body = realloc(request->body, request->len + *data_size);
        memcpy(request->body + request->len, data, *data_size);
        request->len += *data_size;
        *data_size = 0;
        return MHD_YES;
    }
    return respond(ctx, connection, url, method, request);
}

static void finish(void *ctx, struct MHD_Connection *connection, void **state,
                   enum MHD_RequestTerminationCode code)
{
    struct request *request = *state;
    (void)ctx;
    (void)connection;
    (void)code;
    if (request)
        free(request->body);
    free(request);
    *state = NULL;
}

struct aw_fake_apiserver *aw_fake_apiserver_open(void)
{
    struct aw_fake_apiserver *twin = calloc(1, sizeof *twin);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (!twin)
        return NULL;
    pthread_mutex_init(&twin->lock, NULL);
    pthread_cond_init(&twin->moved, NULL);
    twin->version = 1000;
    twin->allocatable_milli[0] = twin->allocatable_milli[1] = -1;
    twin->daemon = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD,
                                    0, NULL, NULL, handle, twin, MHD_OPTION_SOCK_ADDR, &address,
                                    MHD_OPTION_NOTIFY_COMPLETED, finish, NULL, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        twin->daemon ? MHD_get_daemon_info(twin->daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info) {
        aw_fake_apiserver_close(twin);
        return NULL;
    }
    snprintf(twin->url, sizeof twin->url, "http://127.0.0.1:%u", info->port);
    return twin;
}

void aw_fake_apiserver_close(struct aw_fake_apiserver *twin)
{
    if (!twin)
        return;
    pthread_mutex_lock(&twin->lock);
    twin->stop = true;
    pthread_cond_broadcast(&twin->moved);
    pthread_mutex_unlock(&twin->lock);
    if (twin->daemon)
        MHD_stop_daemon(twin->daemon);
    for (uint32_t i = 0; i < twin->object_count; i++)
        json_decref(twin->objects[i].json);
    for (uint32_t i = 0; i < twin->history_count; i++)
        free(twin->history[i].json);
    for (uint32_t i = 0; i < twin->log_count; i++)
        json_decref(twin->log[i].body);
    pthread_cond_destroy(&twin->moved);
    pthread_mutex_destroy(&twin->lock);
    free(twin);
}

const char *aw_fake_apiserver_url(const struct aw_fake_apiserver *twin)
{
    return twin->url;
}

void aw_fake_apiserver_token(struct aw_fake_apiserver *twin, const char *token)
{
    pthread_mutex_lock(&twin->lock);
    snprintf(twin->token, sizeof twin->token, "%s", token ? token : "");
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_apiserver_deny(struct aw_fake_apiserver *twin, const char *resource)
{
    pthread_mutex_lock(&twin->lock);
    snprintf(twin->denied, sizeof twin->denied, "%s", resource);
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_apiserver_allocatable(struct aw_fake_apiserver *twin, int64_t cpu_millicores,
                                   int64_t memory_bytes)
{
    pthread_mutex_lock(&twin->lock);
    twin->allocatable_milli[0] = cpu_millicores;
    twin->allocatable_milli[1] = memory_bytes < 0 ? -1 : memory_bytes * 1000;
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_apiserver_nodes_resize(struct aw_fake_apiserver *twin,
                                    enum aw_fake_apiserver_resize resize)
{
    pthread_mutex_lock(&twin->lock);
    twin->resize = resize;
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_apiserver_fault(struct aw_fake_apiserver *twin,
                             const struct aw_fake_apiserver_fault *fault)
{
    pthread_mutex_lock(&twin->lock);
    AW_ASSERT(twin->fault_count < AW__FAKE_FAULTS_MAX);
    twin->faults[twin->fault_count++] = *fault;
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_apiserver_clear_faults(struct aw_fake_apiserver *twin)
{
    pthread_mutex_lock(&twin->lock);
    twin->fault_count = 0;
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_apiserver_set(struct aw_fake_apiserver *twin, const char *collection, const char *json)
{
    json_t *object = json_loads(json, 0, NULL);
    AW_ASSERT(json_is_object(json_object_get(object, "metadata")));
    pthread_mutex_lock(&twin->lock);
    aw__fake_store(twin, collection, object);
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_apiserver_remove(struct aw_fake_apiserver *twin, const char *collection,
                              const char *ns, const char *name)
{
    pthread_mutex_lock(&twin->lock);
    struct aw__fake_object *object = aw__fake_find(twin, collection, ns, name);
    AW_ASSERT(object);
    aw__fake_erase(twin, object);
    pthread_mutex_unlock(&twin->lock);
}

json_t *aw_fake_apiserver_get(struct aw_fake_apiserver *twin, const char *collection,
                              const char *ns, const char *name)
{
    pthread_mutex_lock(&twin->lock);
    const struct aw__fake_object *object = aw__fake_find(twin, collection, ns, name);
    json_t *copy = object ? json_deep_copy(object->json) : NULL;
    pthread_mutex_unlock(&twin->lock);
    return copy;
}

void aw_fake_apiserver_compact(struct aw_fake_apiserver *twin)
{
    pthread_mutex_lock(&twin->lock);
    twin->compacted = ++twin->version;
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_apiserver_bookmark(struct aw_fake_apiserver *twin)
{
    pthread_mutex_lock(&twin->lock);
    twin->bookmark++;
    twin->version++;
    pthread_cond_broadcast(&twin->moved);
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_apiserver_error_watches(struct aw_fake_apiserver *twin, int code, const char *reason)
{
    pthread_mutex_lock(&twin->lock);
    twin->end_code = code;
    snprintf(twin->end_reason, sizeof twin->end_reason, "%s", reason);
    twin->watch_epoch++;
    pthread_cond_broadcast(&twin->moved);
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_apiserver_end_watches(struct aw_fake_apiserver *twin)
{
    aw_fake_apiserver_error_watches(twin, 0, "");
}

uint32_t aw_fake_apiserver_count(struct aw_fake_apiserver *twin, const char *match)
{
    uint32_t count = 0;
    pthread_mutex_lock(&twin->lock);
    for (uint32_t i = 0; i < twin->log_count; i++)
        count += !strncmp(twin->log[i].line, match, strlen(match));
    pthread_mutex_unlock(&twin->lock);
    return count;
}

uint32_t aw_fake_apiserver_watching(struct aw_fake_apiserver *twin)
{
    pthread_mutex_lock(&twin->lock);
    const uint32_t count = twin->watching;
    pthread_mutex_unlock(&twin->lock);
    return count;
}

json_t *aw_fake_apiserver_body(struct aw_fake_apiserver *twin, const char *match)
{
    json_t *body = NULL;
    pthread_mutex_lock(&twin->lock);
    for (uint32_t i = 0; i < twin->log_count; i++)
        if (!strncmp(twin->log[i].line, match, strlen(match)))
            body = twin->log[i].body;
    body = body ? json_deep_copy(body) : NULL;
    pthread_mutex_unlock(&twin->lock);
    return body;
}
