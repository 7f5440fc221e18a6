/* admission_gate.c - the HTTPS server of the webhook. */
#include "controller/admission_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "controller/admission_review.h"

#define QUEUE        1024     /* connections that wait to be accepted */
#define MEMORY_BYTES 16384u   /* of a connection: request line and headers */
#define LEAVE_US     30000000 /* for requests that began under an old certificate */
#define FIRST_BYTES  8192u    /* of a body; it doubles */
#define PRIORITIES   "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1" /* GnuTLS; the API server has 1.2, 1.3 */

/* A request while its body comes in. */
struct request {
    char *body;
    size_t len, size;
    int refusal; /* HTTP status that it will get; 0: none so far */
};

/* --- the world of a review --- */

static const char *deployment_of(void *ctx, const char *ns, const char *set)
{
    struct aw__gate *gate = ctx;
    char key[AW_KUBE_KEY_MAX];
    snprintf(key, sizeof key, "%s/%s", ns, set);
    return aw__shared_table_find(&gate->sets, key);
}

static const struct aw__mpa_intent *intent_of(void *ctx, const char *target, const char **ret_name)
{
    struct aw__gate *gate = ctx;
    const struct aw__sized_object *known = aw__shared_table_find(&gate->intents, target);
    *ret_name = known ? known->name : "";
    return known ? (const struct aw__mpa_intent *)known->intent : NULL;
}

static const struct aw__limit_range *limits_of(void *ctx, const char *ns)
{
    struct aw__gate *gate = ctx;
    return aw__shared_table_find(&gate->ranges, ns);
}

static void enter(struct aw__gate *gate)
{
    aw__shared_table_enter(&gate->intents);
    aw__shared_table_enter(&gate->sets);
    aw__shared_table_enter(&gate->ranges);
}

static void leave(struct aw__gate *gate)
{
    aw__shared_table_leave(&gate->ranges);
    aw__shared_table_leave(&gate->sets);
    aw__shared_table_leave(&gate->intents);
}

/* --- requests --- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, char *text,
                              enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, mode);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type",
                            status == 200 ? "application/json" : "text/plain");
    const enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct aw__gate *gate, struct MHD_Connection *connection, int status)
{
    static char words[] = "not an AdmissionReview that can be answered\n";
    gate->refused++;
    return answer(connection, (unsigned)status, words, MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result review(struct aw__gate *gate, struct MHD_Connection *connection,
                              const struct request *request)
{
    const struct aw__review_world world = {deployment_of, intent_of, limits_of, gate};
    const int64_t begun_us = aw_clock_monotonic_us(gate->clock);
    enum aw__review_verdict verdict = AW__REVIEW_UNREAD;
    json_t *json = NULL;
    enter(gate);
    enum aw_err err =
        aw__review(request->body ? request->body : "", request->len, &world, &json, &verdict, NULL);
    leave(gate);
    char *text = err ? NULL : json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (!text)
        return refuse(gate, connection, err == AW_ERR_FORMAT ? 400 : 503);
    const int64_t took_us = aw_clock_monotonic_us(gate->clock) - begun_us;
    int64_t slowest_us = gate->slowest_us;
    while (took_us > slowest_us &&
           !atomic_compare_exchange_weak(&gate->slowest_us, &slowest_us, took_us)) {
    }
    gate->total_us += took_us;
    gate->reviews++;
    gate->patched += verdict == AW__REVIEW_SIZED;
    gate->unread += verdict == AW__REVIEW_UNREAD;
    return answer(connection, 200, text, MHD_RESPMEM_MUST_FREE);
}

/* Room for more bytes of a body; false: too large, or too many of them. */
static bool grow(struct aw__gate *gate, struct request *request, size_t more)
{
    size_t size = request->size ? request->size : FIRST_BYTES;
    if (more > AW_ADMISSION_BODY_MAX - request->len) {
        request->refusal = 413;
        return false;
    }
    while (size < request->len + more)
        size *= 2;
    if (size == request->size)
        return true;
    const size_t extra = size - request->size;
    if (atomic_fetch_add(&gate->bodies_bytes, extra) + extra > AW_ADMISSION_BODIES_MAX) {
        gate->bodies_bytes -= extra;
        request->refusal = 503;
        return false;
    }
    char *body = realloc(request->body, size);
    if (!body) {
        gate->bodies_bytes -= extra;
        request->refusal = 503;
        return false;
    }
    request->body = body;
    request->size = size;
    return true;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **state)
{
    struct aw__gate *gate = ctx;
    struct request *request = *state;
    (void)version;
    if (!request) { /* the headers are here */
        *state = calloc(1, sizeof *request);
        if (!*state)
            return MHD_NO;
        if (strcmp(url, AW_ADMISSION_PATH) != 0)
            ((struct request *)*state)->refusal = 404;
        else if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
            ((struct request *)*state)->refusal = 405;
        return MHD_YES;
    }
    if (*data_size) {
        /* what will be refused is read to its end, and dropped: else the client sees a reset */
        if (!request->refusal && grow(gate, request, *data_size)) {
            memcpy(request->body + request->len, data, *data_size);
            request->len += *data_size;
        }
        *data_size = 0;
        return MHD_YES;
    }
    return request->refusal ? refuse(gate, connection, request->refusal)
                            : review(gate, connection, request);
}

static void on_end(void *ctx, struct MHD_Connection *connection, void **state,
                   enum MHD_RequestTerminationCode code)
{
    struct aw__gate *gate = ctx;
    struct request *request = *state;
    (void)connection;
    (void)code;
    if (!request)
        return;
    gate->bodies_bytes -= request->size;
    free(request->body);
    free(request);
    *state = NULL;
}

/* --- the door --- */

enum aw_err aw__gate_listen(struct aw__gate *gate, const char *address, uint16_t port,
                            struct aw_diag *diag)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in one = {.sin_family = AF_INET, .sin_port = htons(port)};
    union {
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound = {0};
    socklen_t len = sizeof bound;
    const int yes = 1, no = 0;
    const bool v4 = address && inet_pton(AF_INET, address, &one.sin_addr) == 1;
    if (address && !v4 && inet_pton(AF_INET6, address, &any.sin6_addr) != 1)
        return aw_fail(diag, AW_ERR_CONFIG, "%s: not an address", address);
    int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool plain = v4;
    if (fd < 0 && !address) { /* a machine without IPv6 */
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        plain = true;
    }
    if (fd >= 0 && !plain)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, plain ? (struct sockaddr *)&one : (struct sockaddr *)&any,
             plain ? sizeof one : sizeof any) != 0 ||
        listen(fd, QUEUE) != 0 || getsockname(fd, (struct sockaddr *)&bound, &len) != 0) {
        enum aw_err err = aw_fail(diag, AW_ERR_UNAVAILABLE, "port %u: %s", port, strerror(errno));
        if (fd >= 0)
            close(fd);
        return err;
    }
    gate->listener = fd;
    gate->port = ntohs(plain ? bound.v4.sin_port : bound.v6.sin6_port);
    return AW_OK;
}

enum aw_err aw__gate_open(struct aw__gate *gate, uint32_t objects_max, const struct aw_clock *clock,
                          const struct aw_alloc *alloc, struct aw_diag *diag)
{
    *gate = (struct aw__gate){.clock = clock, .listener = -1};
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "this libmicrohttpd has no TLS");
    if (aw__shared_table_init(&gate->intents, objects_max, alloc) != AW_OK ||
        aw__shared_table_init(&gate->sets, AW__ADMISSION_SETS_MAX, alloc) != AW_OK ||
        aw__shared_table_init(&gate->ranges, AW__ADMISSION_RANGES_MAX, alloc) != AW_OK) {
        aw__gate_close(gate);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a webhook");
    }
    return AW_OK;
}

static void end_daemon(struct MHD_Daemon **daemon)
{
    if (*daemon)
        MHD_stop_daemon(*daemon);
    *daemon = NULL;
}

enum aw_err aw__gate_serve(struct aw__gate *gate, const struct aw__certs *certs,
                           struct aw_diag *diag)
{
    sigset_t all, before;
    const int fd = fcntl(gate->listener, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no more descriptors");
    end_daemon(&gate->daemons[1]);
    sigfillset(&all); /* signals are for other threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_TLS | MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, on_request, gate,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_HTTPS_MEM_CERT, certs->cert,
        MHD_OPTION_HTTPS_MEM_KEY, certs->key, MHD_OPTION_HTTPS_PRIORITIES, PRIORITIES,
        MHD_OPTION_CONNECTION_LIMIT, AW_ADMISSION_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        AW_ADMISSION_IDLE_S, MHD_OPTION_THREAD_POOL_SIZE, AW_ADMISSION_THREADS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES, MHD_OPTION_NOTIFY_COMPLETED,
        on_end, gate, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!daemon) {
        close(fd);
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "the HTTPS server does not start");
    }
    if (gate->daemons[0]) { /* takes nobody new from now on, and ends what it has begun */
        const int old = MHD_quiesce_daemon(gate->daemons[0]);
        if (old >= 0)
            close(old);
        gate->daemons[1] = gate->daemons[0];
        gate->leaving_us = aw_clock_monotonic_us(gate->clock) + LEAVE_US;
    }
    gate->daemons[0] = daemon;
    return AW_OK;
}

void aw__gate_tidy(struct aw__gate *gate)
{
    if (gate->daemons[1] && aw_clock_monotonic_us(gate->clock) >= gate->leaving_us)
        end_daemon(&gate->daemons[1]);
}

void aw__gate_close(struct aw__gate *gate)
{
    end_daemon(&gate->daemons[0]);
    end_daemon(&gate->daemons[1]);
    if (gate->listener >= 0)
        close(gate->listener);
    gate->listener = -1;
    aw__shared_table_deinit(&gate->intents);
    aw__shared_table_deinit(&gate->sets);
    aw__shared_table_deinit(&gate->ranges);
}
