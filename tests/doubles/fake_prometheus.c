/* fake_prometheus.c - see fake_prometheus.h. */
#include "doubles/fake_prometheus.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS_MAX   32u
#define QUESTIONS_MAX 4096u
#define EMPTY         "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[]}}"

struct answer {
    char *match, *body;
    int status;
};

struct aw_fake_prometheus {
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    char url[64], token[64];
    struct answer answers[ANSWERS_MAX];
    uint32_t answer_count;
    char *questions[QUESTIONS_MAX]; /* decoded */
    uint32_t question_count;
    char *last;
};

/* A request while its form comes in. */
struct request {
    struct MHD_PostProcessor *post;
    char *query;
    size_t len;
    bool odd; /* something that a real one would not know */
};

static enum MHD_Result take_field(void *ctx, enum MHD_ValueKind kind, const char *key,
                                  const char *filename, const char *type, const char *encoding,
                                  const char *data, uint64_t at, size_t size)
{
    static const char *const known[] = {"query", "start", "end", "step", "time", "timeout"};
    struct request *request = ctx;
    bool fine = false;
    (void)kind, (void)filename, (void)type, (void)encoding, (void)at;
    for (uint32_t i = 0; i < sizeof known / sizeof *known; i++)
        fine = fine || !strcmp(key, known[i]);
    request->odd = request->odd || !fine;
    if (strcmp(key, "query") != 0 || size == 0)
        return MHD_YES;
    char *longer = realloc(request->query, request->len + size + 1);
    AW_ASSERT(longer);
    memcpy(longer + request->len, data, size);
    request->query = longer;
    request->len += size;
    longer[request->len] = '\0';
    return MHD_YES;
}

static enum MHD_Result take_argument(void *ctx, enum MHD_ValueKind kind, const char *key,
                                     const char *value)
{
    return take_field(ctx, kind, key, NULL, NULL, NULL, value ? value : "", 0,
                      value ? strlen(value) : 0);
}

static enum MHD_Result reply(struct MHD_Connection *connection, int status, const char *body)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(body), (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type", "application/json");
    const enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static bool may(struct aw_fake_prometheus *twin, struct MHD_Connection *connection)
{
    const char *header = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    char wanted[96];
    snprintf(wanted, sizeof wanted, "Bearer %s", twin->token);
    return !twin->token[0] || (header && !strcmp(header, wanted));
}

/* With the lock held. */
static enum MHD_Result answer(struct aw_fake_prometheus *twin, struct MHD_Connection *connection,
                              const struct request *request, const char *path)
{
    const bool range = !strcmp(path, "/api/v1/query_range");
    if (!may(twin, connection))
        return reply(connection, 401, "Unauthorized");
    if (!range && strcmp(path, "/api/v1/query") != 0)
        return reply(connection, 404, "404 page not found");
    if (request->odd || !request->query)
        return reply(connection, 400,
                     "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"odd form\"}");
    AW_ASSERT(twin->question_count < QUESTIONS_MAX);
    twin->questions[twin->question_count++] = strdup(request->query);
    for (uint32_t i = 0; i < twin->answer_count; i++) {
        const struct answer *found = &twin->answers[i];
        if (!strstr(request->query, found->match))
            continue;
        return found->status ? reply(connection, found->status, found->body) : MHD_NO;
    }
    return reply(connection, 200, EMPTY);
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **state)
{
    struct aw_fake_prometheus *twin = ctx;
    struct request *request = *state;
    const bool post = !strcmp(method, "POST");
    (void)version;
    if (!request) {
        request = calloc(1, sizeof *request);
        AW_ASSERT(request);
        *state = request;
        if (post)
            request->post = MHD_create_post_processor(connection, 65536, take_field, request);
        else
            MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take_argument, request);
        return MHD_YES;
    }
    if (*size > 0) {
        request->odd = request->odd || !request->post ||
                       MHD_post_process(request->post, data, *size) != MHD_YES;
        *size = 0;
        return MHD_YES;
    }
    if (request->post) /* the last field is only known to be whole now */
        MHD_destroy_post_processor(request->post);
    request->post = NULL;
    pthread_mutex_lock(&twin->lock);
    const enum MHD_Result result = answer(twin, connection, request, path);
    pthread_mutex_unlock(&twin->lock);
    return result;
}

static void finish(void *ctx, struct MHD_Connection *connection, void **state,
                   enum MHD_RequestTerminationCode code)
{
    struct request *request = *state;
    (void)ctx, (void)connection, (void)code;
    if (!request)
        return;
    if (request->post)
        MHD_destroy_post_processor(request->post);
    free(request->query);
    free(request);
}

struct aw_fake_prometheus *aw_fake_prometheus_open(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct aw_fake_prometheus *twin = calloc(1, sizeof *twin);
    if (!twin)
        return NULL;
    pthread_mutex_init(&twin->lock, NULL);
    twin->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, handle, twin,
                                    MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_NOTIFY_COMPLETED,
                                    finish, NULL, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        twin->daemon ? MHD_get_daemon_info(twin->daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info) {
        aw_fake_prometheus_close(twin);
        return NULL;
    }
    snprintf(twin->url, sizeof twin->url, "http://127.0.0.1:%u", info->port);
    return twin;
}

void aw_fake_prometheus_close(struct aw_fake_prometheus *twin)
{
    if (!twin)
        return;
    if (twin->daemon)
        MHD_stop_daemon(twin->daemon);
    aw_fake_prometheus_forget(twin);
    for (uint32_t i = 0; i < twin->question_count; i++)
        free(twin->questions[i]);
    free(twin->last);
    pthread_mutex_destroy(&twin->lock);
    free(twin);
}

const char *aw_fake_prometheus_url(const struct aw_fake_prometheus *twin)
{
    return twin->url;
}

void aw_fake_prometheus_answer(struct aw_fake_prometheus *twin, const char *match, int status,
                               const char *body)
{
    pthread_mutex_lock(&twin->lock);
    uint32_t i = 0;
    while (i < twin->answer_count && strcmp(twin->answers[i].match, match) != 0)
        i++;
    AW_ASSERT(i < ANSWERS_MAX);
    if (i == twin->answer_count)
        twin->answers[twin->answer_count++] = (struct answer){.match = strdup(match)};
    free(twin->answers[i].body);
    twin->answers[i].body = strdup(body ? body : EMPTY);
    twin->answers[i].status = status;
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_prometheus_forget(struct aw_fake_prometheus *twin)
{
    pthread_mutex_lock(&twin->lock);
    for (uint32_t i = 0; i < twin->answer_count; i++) {
        free(twin->answers[i].match);
        free(twin->answers[i].body);
    }
    twin->answer_count = 0;
    pthread_mutex_unlock(&twin->lock);
}

void aw_fake_prometheus_token(struct aw_fake_prometheus *twin, const char *token)
{
    pthread_mutex_lock(&twin->lock);
    snprintf(twin->token, sizeof twin->token, "%s", token);
    pthread_mutex_unlock(&twin->lock);
}

uint32_t aw_fake_prometheus_count(struct aw_fake_prometheus *twin, const char *match)
{
    uint32_t count = 0;
    pthread_mutex_lock(&twin->lock);
    for (uint32_t i = 0; i < twin->question_count; i++)
        count += strstr(twin->questions[i], match) != NULL;
    pthread_mutex_unlock(&twin->lock);
    return count;
}

const char *aw_fake_prometheus_last(struct aw_fake_prometheus *twin, const char *match)
{
    pthread_mutex_lock(&twin->lock);
    free(twin->last);
    twin->last = NULL;
    for (uint32_t i = twin->question_count; i-- > 0 && !twin->last;)
        if (strstr(twin->questions[i], match))
            twin->last = strdup(twin->questions[i]);
    pthread_mutex_unlock(&twin->lock);
    return twin->last ? twin->last : "";
}
