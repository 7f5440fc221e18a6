/* client.c - finding the daemon, asking it, and taking its refusals for what they are. */
#include "operate/client.h"
#include "operate/names.h"

#include "base/json.h"
#include "frame/rows.h"
#include "frame/show.h"

#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define VIEWS_BYTES_MAX ((size_t)256 << 20)
#define NAMES_US        INT64_C(1000000) /* of completion, while a key is held */
#define START_HINT      "start one with 'aware run --daemon -f FILE'"

/* --- where it is ------------------------------------------------------------------------------ */

/* AW_OK: somebody listens. AW_ERR_NOTFOUND: nobody does. Else the reason why nobody can know. */
static enum aw_err probe(const char *path, struct aw_diag *diag)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t len = strlen(path);
    if (len >= sizeof address.sun_path)
        return aw_fail_at(diag, AW_ERR_USAGE, path, 0, 0, NULL,
                          "a socket's path has at most %zu bytes, this one has %zu",
                          sizeof address.sun_path - 1, len);
    memcpy(address.sun_path, path, len + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    const int failed = connect(fd, (struct sockaddr *)&address, sizeof address) ? errno : 0;
    close(fd);
    if (!failed)
        return AW_OK;
    if (failed == EACCES || failed == EPERM)
        return aw_fail_at(diag, AW_ERR_UNAVAILABLE, path, 0, 0, NULL,
                          "%s: the socket is for the user who started the daemon",
                          strerror(failed));
    return aw_fail_at(diag, AW_ERR_NOTFOUND, path, 0, 0, NULL, "%s", strerror(failed));
}

static void places(struct aw__client *client, const char *socket_given, const char *state)
{
    const char *environment = getenv("AWARE_SOCKET");
    if (!socket_given && !state && environment && *environment)
        socket_given = environment;
    snprintf(client->state, sizeof client->state, "%s", state ? state : AW__CLIENT_STATE);
    if (socket_given) {
        snprintf(client->socket, sizeof client->socket, "%s", socket_given);
        if (!state) { /* what it left lies beside its socket */
            snprintf(client->state, sizeof client->state, "%s", socket_given);
            char *slash = strrchr(client->state, '/');
            if (slash)
                slash[slash == client->state] = '\0';
            else
                snprintf(client->state, sizeof client->state, ".");
        }
    } else if (snprintf(client->socket, sizeof client->socket, "%s/socket", client->state) < 0) {
        client->socket[0] = '\0';
    }
}

static enum aw_err views_read(struct aw__client *client, const struct aw_diag *why,
                              struct aw_diag *diag)
{
    char path[AW_TEXT_MAX + 16], *bytes = NULL, when[AW_SHOW_MAX];
    size_t len;
    json_error_t error;
    snprintf(path, sizeof path, "%s/views.json", client->state);
    enum aw_err err = aw_file_read(path, VIEWS_BYTES_MAX, NULL, &bytes, &len, diag);
    if (err == AW_ERR_NOTFOUND)
        return aw_fail(diag, AW_ERR_UNAVAILABLE,
                       "no daemon answers at %s (%s), and none has left anything in %s; " START_HINT
                       ", or say where it is with --socket or --state",
                       client->socket, why->text, client->state);
    if (err)
        return err;
    client->views = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &error);
    aw_alloc_free(NULL, bytes);
    if (!client->views || !json_is_array(aw_at(client->views, "workloads.workloads")))
        return aw_fail_at(diag, AW_ERR_FORMAT, path,
                          client->views ? 0 : (uint32_t)(error.line > 0 ? error.line : 0), 0, NULL,
                          "%s", client->views ? "not what a daemon leaves" : error.text);
    aw_time_show(aw_at_text(client->views, "saved"), when, sizeof when);
    if (client->run && !client->run->json)
        fprintf(stderr, "aware: the daemon is not running; as of %s\n", when);
    return AW_OK;
}

/* `run` NULL: nothing is said, and nobody waits long. */
static enum aw_err open_at(struct aw__client *client, const struct aw_call *run,
                           const char *socket_given, const char *state, struct aw_diag *diag)
{
    *client = (struct aw__client){.run = run};
    struct aw_diag why = {0};
    places(client, socket_given, state);
    enum aw_err err = probe(client->socket, &why);
    if (err == AW_ERR_NOTFOUND) {
        err = views_read(client, &why, diag);
    } else if (err) {
        if (diag)
            *diag = why;
    } else {
        const struct aw_http_config config = {
            .timeout_us = run ? (int64_t)AW__CLIENT_TIMEOUT_S * 1000000 : NAMES_US,
            .body_bytes_max = AW__CLIENT_BODY_MAX,
            .unix_socket = client->socket,
        };
        err = aw_http_open(&client->http, &config, NULL, diag);
    }
    if (err)
        aw__client_close(client);
    return err;
}

enum aw_err aw__client_open(struct aw__client *client, const struct aw_call *run,
                            struct aw_diag *diag)
{
    return open_at(client, run, aw_args_text(run->args, "socket"), aw_args_text(run->args, "state"),
                   diag);
}

void aw_workload_names(const char *socket_given, const char *state,
                       void (*take)(void *ctx, const char *name), void *ctx)
{
    struct aw__client client;
    json_t *list = NULL;
    if (open_at(&client, NULL, socket_given, state, NULL))
        return;
    if (!aw__client_workloads(&client, NULL, "name", &list, NULL)) {
        size_t i;
        json_t *row;
        json_array_foreach(aw_at(list, "workloads"), i, row)
            take(ctx, aw_rows_name(aw_at_text(row, "name")));
    }
    json_decref(list);
    aw__client_close(&client);
}

void aw__client_close(struct aw__client *client)
{
    aw_http_close(client->http);
    json_decref(client->views);
    *client = (struct aw__client){0};
}

bool aw__client_running(const struct aw__client *client)
{
    return client->http != NULL;
}

enum aw_err aw__client_need(const struct aw__client *client, const char *what, struct aw_diag *diag)
{
    if (client->http)
        return AW_OK;
    return aw_fail(diag, AW_ERR_UNAVAILABLE, "%s needs a running daemon; " START_HINT, what);
}

/* --- asking ----------------------------------------------------------------------------------- */

static enum aw_err err_named(const char *name)
{
    for (int err = AW_OK + 1; err < AW_ERR_COUNT; err++) {
        if (!strcmp(aw_err_name((enum aw_err)err), name))
            return (enum aw_err)err;
    }
    return AW_ERR_COUNT;
}

/* What the daemon refuses, in its words. */
static enum aw_err refusal(const struct aw_http_answer *answer, struct aw_diag *diag)
{
    json_t *body = json_loadb(answer->body, answer->len, 0, NULL);
    const char *message = aw_at_text(body, "error.message");
    enum aw_err err = err_named(aw_at_text(body, "error.code"));
    if (err == AW_ERR_COUNT)
        err = aw_http_status_err(answer->status);
    err = err ? err : AW_ERR_FORMAT;
    if (*message)
        aw_fail(diag, err, "%s", message);
    else
        aw_fail(diag, err, "the daemon answered with status %d and no reason", answer->status);
    json_decref(body);
    return err;
}

enum aw_err aw__client_send(struct aw__client *client, const char *path, const char *body,
                            const char *content_type, struct aw_http_answer *ret,
                            struct aw_diag *diag)
{
    char url[AW__CLIENT_PATH_MAX + 64];
    AW_ASSERT(client->http);
    snprintf(url, sizeof url, "http://localhost%s", path);
    const struct aw_http_request request = {
        .method = body ? "POST" : "GET",
        .url = url,
        .name = client->socket,
        .content_type = body ? content_type : NULL,
        .body = body,
        .body_len = body ? strlen(body) : 0,
        .header_wanted = "Aware-Next",
    };
    struct aw_http_answer answer;
    enum aw_err err = aw_http_send(client->http, &request, &answer, diag);
    if (err)
        return err;
    if (answer.status < 200 || answer.status > 299)
        return refusal(&answer, diag);
    *ret = answer;
    return AW_OK;
}

enum aw_err aw__client_ask(struct aw__client *client, const char *path, const json_t *body,
                           json_t **ret, struct aw_diag *diag)
{
    struct aw_http_answer answer;
    json_error_t error;
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    if (body && !text)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a request");
    enum aw_err err = aw__client_send(client, path, text, "application/json", &answer, diag);
    free(text);
    if (err)
        return err;
    json_t *value = json_loadb(answer.body, answer.len, 0, &error);
    if (!value)
        return aw_fail_at(diag, AW_ERR_FORMAT, client->socket, 0, 0, NULL,
                          "the daemon's answer is not JSON: %s", error.text);
    *ret = value;
    return AW_OK;
}

const char *aw__client_path(const char *name, const char *tail, char *buf, size_t size)
{
    struct aw_text text;
    const char *slash = strchr(name, '/');
    aw_text_init(&text, buf, size);
    aw_text_add(&text, "/v1/workloads/");
    /* "-" is whichever namespace it is in */
    aw_http_escape(&text, slash ? name : "-", slash ? (size_t)(slash - name) : 1);
    aw_text_add(&text, "/");
    name = slash ? slash + 1 : name;
    aw_http_escape(&text, name, strlen(name));
    aw_text_add(&text, "%s", tail);
    return buf;
}

/* --- questions -------------------------------------------------------------------------------- */

static json_t *left_part(const struct aw__client *client, const char *name)
{
    return json_deep_copy(aw_at(client->views, name));
}

static enum aw_err part(json_t *value, json_t **ret, struct aw_diag *diag)
{
    if (!value)
        return aw_fail(diag, AW_ERR_NODATA, "the daemon that has stopped left nothing of this");
    *ret = value;
    return AW_OK;
}

enum aw_err aw__client_status(struct aw__client *client, json_t **ret, struct aw_diag *diag)
{
    return client->http ? aw__client_ask(client, "/v1/status", NULL, ret, diag)
                        : part(left_part(client, "status"), ret, diag);
}

enum aw_err aw__client_freezes(struct aw__client *client, json_t **ret, struct aw_diag *diag)
{
    return client->http ? aw__client_ask(client, "/v1/freezes", NULL, ret, diag)
                        : part(left_part(client, "freezes"), ret, diag);
}

/* Those of one namespace. */
static void narrow(json_t *list, const char *namespace)
{
    json_t *rows = json_object_get(list, "workloads");
    for (size_t i = json_array_size(rows); namespace && i-- > 0;) {
        if (strcmp(aw_at_text(json_array_get(rows, i), "namespace"), namespace) != 0)
            json_array_remove(rows, i);
    }
}

enum aw_err aw__client_workloads(struct aw__client *client, const char *namespace, const char *sort,
                                 json_t **ret, struct aw_diag *diag)
{
    char path[AW__CLIENT_PATH_MAX];
    json_t *list = NULL, *page = NULL;
    enum aw_err err;
    if (!client->http) {
        err = part(left_part(client, "workloads"), ret, diag);
        if (!err)
            narrow(*ret, namespace);
        return err;
    }
    for (const char *after = NULL;;) {
        struct aw_text text;
        aw_text_init(&text, path, sizeof path);
        aw_text_add(&text, "/v1/workloads?limit=%u", AW__CLIENT_PAGE);
        if (sort)
            aw_text_add(&text, "&sort=%s", sort);
        if (namespace) {
            aw_text_add(&text, "&namespace=");
            aw_http_escape(&text, namespace, strlen(namespace));
        }
        if (after) {
            aw_text_add(&text, "&after=");
            aw_http_escape(&text, after, strlen(after));
        }
        if ((err = aw__client_ask(client, path, NULL, &page, diag)))
            break;
        json_t *next = json_incref(json_object_get(page, "next"));
        if (!list) {
            list = page;
        } else {
            json_array_extend(json_object_get(list, "workloads"),
                              json_object_get(page, "workloads"));
            json_decref(page);
        }
        json_object_set_new(list, "next", next ? next : json_null());
        after = aw_at_text(list, "next");
        if (!*after || json_array_size(json_object_get(list, "workloads")) >= AW__CLIENT_LIST_MAX ||
            (sort && strcmp(sort, "name") != 0))
            break;
    }
    if (err)
        json_decref(list);
    else
        *ret = list;
    return err;
}

/* What the daemon says of a workload, from three places. */
static enum aw_err left_workload(struct aw__client *client, const char *name, json_t **ret,
                                 struct aw_diag *diag)
{
    json_t *row, *value = NULL;
    enum aw_err err = aw__offline_row(client, name, &row, diag);
    if (err)
        return err;
    json_t *whole = json_deep_copy(row);
    const char *full = aw_at_text(row, "name");
    if (!aw__offline_explain(client, full, 0, &value, NULL)) {
        json_object_set(whole, "decision", json_object_get(value, "account"));
        json_decref(value);
    }
    if (!aw__offline_history(client, full, NULL, 10, 0, &value, NULL)) {
        json_object_set(whole, "recent", json_object_get(value, "entries"));
        json_decref(value);
    }
    return part(whole, ret, diag);
}

enum aw_err aw__client_workload(struct aw__client *client, const char *name, json_t **ret,
                                struct aw_diag *diag)
{
    char path[AW__CLIENT_PATH_MAX];
    if (!client->http)
        return left_workload(client, name, ret, diag);
    return aw__client_ask(client, aw__client_path(name, "", path, sizeof path), NULL, ret, diag);
}

enum aw_err aw__client_explain(struct aw__client *client, const char *name, uint64_t decision,
                               json_t **ret, struct aw_diag *diag)
{
    char path[AW__CLIENT_PATH_MAX], tail[64] = "/explain", workload[AW__CLIENT_PATH_MAX];
    enum aw_err err;
    if (!client->http)
        return aw__offline_explain(client, name, decision, ret, diag);
    if (!name) { /* the daemon knows whose it is */
        json_t *found = NULL;
        snprintf(path, sizeof path, "/v1/decisions/%llu", (unsigned long long)decision);
        if ((err = aw__client_ask(client, path, NULL, &found, diag)))
            return err;
        snprintf(workload, sizeof workload, "%s", aw_at_text(found, "workload"));
        json_decref(found);
        name = workload;
    }
    if (decision)
        snprintf(tail, sizeof tail, "/explain?decision=%llu", (unsigned long long)decision);
    return aw__client_ask(client, aw__client_path(name, tail, path, sizeof path), NULL, ret, diag);
}

enum aw_err aw__client_history(struct aw__client *client, const char *name, const char *since,
                               uint32_t limit, uint64_t before, json_t **ret, struct aw_diag *diag)
{
    char path[AW__CLIENT_PATH_MAX], tail[256];
    struct aw_text text;
    if (!client->http)
        return aw__offline_history(client, name, since, limit, before, ret, diag);
    aw_text_init(&text, tail, sizeof tail);
    aw_text_add(&text, "%s?limit=%u", name ? "/history" : "/v1/audit", limit);
    if (before)
        aw_text_add(&text, "&before=%llu", (unsigned long long)before);
    if (since) {
        aw_text_add(&text, "&since=");
        aw_http_escape(&text, since, strlen(since));
    }
    return aw__client_ask(client, name ? aw__client_path(name, tail, path, sizeof path) : tail,
                          NULL, ret, diag);
}

enum aw_err aw__client_order(struct aw__client *client, const json_t *order, json_t **ret,
                             struct aw_diag *diag)
{
    return client->http ? aw__client_ask(client, "/v1/orders", order, ret, diag)
                        : aw__offline_order(client, order, ret, diag);
}
