/* server.c - requests from a socket to the API, the page and the event stream, and back. */
#include "web/server.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "web/events.h"
#include "web/page.h"
#include "web/reports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

_Static_assert(sizeof((struct sockaddr_un){0}.sun_path) == AW_SERVER_PATH_MAX, "unix(7)");

struct aw_server {
    struct MHD_Daemon *http;
    struct aw_api *api;
    struct aw__events *events;
    char path[AW_SERVER_PATH_MAX]; /* "": a TCP address */
    dev_t device;                  /* of the socket that was made, so that no other is removed */
    ino_t inode;
    struct aw_listen_auth door;
    _Atomic size_t bodies_bytes, answers_bytes; /* under way */
    int64_t arrive_us;                          /* in which a request has to arrive */
    pthread_mutex_t lock;                       /* of the list */
    struct peer *peers;
};

/* A connection, from its first byte to its last. */
struct peer {
    int fd;
    bool arriving; /* its request has not come whole */
    int64_t since_us;
    struct peer *before, *next;
};

/* --- the socket ------------------------------------------------------------------------------- */

static enum aw_err fail_errno(struct aw_diag *diag, enum aw_err err, const char *path)
{
    return aw_fail_at(diag, err, path, 0, 0, NULL, "%s", strerror(errno));
}

static enum aw_err folder_make(const char *path, struct aw_diag *diag)
{
    char folder[AW_SERVER_PATH_MAX], parent[AW_SERVER_PATH_MAX];
    struct stat st;
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder)
        return AW_OK; /* the working directory, or the root */
    *slash = '\0';
    if (stat(folder, &st) == 0)
        return AW_OK; /* what it is shows when the socket is bound */
    memcpy(parent, folder, sizeof parent);
    if ((slash = strrchr(parent, '/')) && slash != parent) {
        *slash = '\0';
        const enum aw_err err = aw_file_mkdirs(parent, diag);
        if (err)
            return err;
    }
    if (mkdir(folder, 0700) && errno != EEXIST)
        return fail_errno(diag, AW_ERR_IO, folder);
    return AW_OK;
}

static void address_of(const char *path, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, path, strlen(path) + 1);
}

/* A socket that a dead process left is in the way of the next one. */
static enum aw_err stale_remove(const char *path, struct aw_diag *diag)
{
    struct sockaddr_un address;
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? AW_OK : fail_errno(diag, AW_ERR_IO, path);
    if (!S_ISSOCK(st.st_mode))
        return aw_fail_at(diag, AW_ERR_EXISTS, path, 0, 0, NULL,
                          "is there and is not a socket; remove it, or give another path");
    address_of(path, &address);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail_errno(diag, AW_ERR_IO, path);
    const int failed = connect(fd, (struct sockaddr *)&address, sizeof address) ? errno : 0;
    close(fd);
    /* a full queue (EAGAIN) is somebody who listens too */
    if (failed == 0 || failed == EAGAIN)
        return aw_fail_at(diag, AW_ERR_UNAVAILABLE, path, 0, 0, NULL,
                          "another process listens here; end that one, or give another path");
    if (failed != ECONNREFUSED) {
        errno = failed;
        return fail_errno(diag, AW_ERR_IO, path);
    }
    if (unlink(path) && errno != ENOENT)
        return fail_errno(diag, AW_ERR_IO, path);
    return AW_OK;
}

/* The mode of the descriptor is that of the name which bind makes: nobody else can connect in
 * between. chmod then says so for whatever system does not go by that. */
static enum aw_err socket_make(struct aw_server *server, int *ret_fd, struct aw_diag *diag)
{
    struct sockaddr_un address;
    struct stat st;
    address_of(server->path, &address);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail_errno(diag, AW_ERR_IO, server->path);
    if (fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&address, sizeof address)) {
        const enum aw_err err = fail_errno(diag, AW_ERR_IO, server->path);
        close(fd);
        return err;
    }
    if (chmod(server->path, 0600) || lstat(server->path, &st) || listen(fd, AW_SERVER_QUEUE)) {
        const enum aw_err err = fail_errno(diag, AW_ERR_IO, server->path);
        unlink(server->path);
        close(fd);
        return err;
    }
    server->device = st.st_dev;
    server->inode = st.st_ino;
    *ret_fd = fd;
    return AW_OK;
}

static enum aw_err tcp_make(struct aw_server *server, int *ret_fd, struct aw_diag *diag)
{
    struct aw_listen_auth *door = &server->door;
    struct sockaddr_storage address;
    socklen_t len;
    const int on = 1;
    aw_listen_auth_address(door, &address, &len);
    const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail_errno(diag, AW_ERR_IO, door->host);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, len) || listen(fd, AW_SERVER_QUEUE) ||
        getsockname(fd, (struct sockaddr *)&address, &len)) {
        const enum aw_err err =
            aw_fail(diag, errno == EADDRINUSE ? AW_ERR_UNAVAILABLE : AW_ERR_IO, "%s port %u: %s%s",
                    door->host, door->port, strerror(errno),
                    errno == EADDRINUSE ? "; end who listens there, or give another port" : "");
        close(fd);
        return err;
    }
    door->port =
        ntohs(address.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&address)->sin6_port
                                            : ((const struct sockaddr_in *)&address)->sin_port);
    *ret_fd = fd;
    return AW_OK;
}

/* --- connections ------------------------------------------------------------------------------ */

static void peer_note(void *ctx, struct MHD_Connection *connection, void **slot,
                      enum MHD_ConnectionNotificationCode code)
{
    struct aw_server *server = ctx;
    struct peer *peer = *slot;
    pthread_mutex_lock(&server->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED && (peer = calloc(1, sizeof *peer))) {
        peer->fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        peer->arriving = true;
        peer->since_us = aw_clock_monotonic_us(NULL);
        peer->next = server->peers;
        if (peer->next)
            peer->next->before = peer;
        server->peers = *slot = peer;
    } else if (code == MHD_CONNECTION_NOTIFY_CLOSED && peer) {
        *(peer->before ? &peer->before->next : &server->peers) = peer->next;
        if (peer->next)
            peer->next->before = peer->before;
        free(peer);
        *slot = NULL;
    }
    pthread_mutex_unlock(&server->lock);
}

static void peer_arrives(struct aw_server *server, struct MHD_Connection *connection, bool arrives)
{
    struct peer *peer =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (!peer)
        return;
    pthread_mutex_lock(&server->lock);
    peer->arriving = arrives;
    peer->since_us = aw_clock_monotonic_us(NULL);
    pthread_mutex_unlock(&server->lock);
}

/* The library closes a connection that is silent; one that drips a byte now and then never is.
 * The library's thread sees the end of it, and closes it: until then the descriptor is its own. */
static void peers_judge(void *ctx)
{
    struct aw_server *server = ctx;
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    pthread_mutex_lock(&server->lock);
    for (const struct peer *peer = server->peers; peer; peer = peer->next)
        if (peer->arriving && now_us - peer->since_us > server->arrive_us)
            shutdown(peer->fd, SHUT_RDWR);
    pthread_mutex_unlock(&server->lock);
}

/* --- a request -------------------------------------------------------------------------------- */

struct request {
    struct aw_server *server;
    char *uri;  /* as it came; NULL: no memory, or longer than is read */
    char *body; /* grows to what came */
    size_t len, size;
    bool begun, too_large, nomem;
};

static void *request_begin(void *ctx, const char *uri, struct MHD_Connection *connection)
{
    struct request *request = calloc(1, sizeof *request);
    (void)connection;
    if (request) {
        request->server = ctx;
        request->uri = strndup(uri, AW_API_PATH_MAX);
    }
    return request;
}

static void request_end(void *ctx, struct MHD_Connection *connection, void **slot,
                        enum MHD_RequestTerminationCode code)
{
    struct request *request = *slot;
    (void)code;
    peer_arrives(ctx, connection, true); /* the next one */
    if (request) {
        request->server->bodies_bytes -= request->size;
        free(request->uri);
        free(request->body);
        free(request);
    }
    *slot = NULL;
}

static void body_add(struct request *request, const char *bytes, size_t len)
{
    if (request->too_large || request->nomem)
        return;
    if (len > AW_API_BODY_MAX - request->len) {
        request->too_large = true;
        return;
    }
    if (request->len + len > request->size) {
        const size_t wanted = 2 * (request->len + len);
        const size_t size = wanted < AW_API_BODY_MAX ? wanted : AW_API_BODY_MAX;
        struct aw_server *server = request->server;
        const bool room =
            server->bodies_bytes + (size - request->size) <= AW_SERVER_BODIES_BYTES_MAX;
        char *body = room ? realloc(request->body, size) : NULL;
        if (!body) {
            request->nomem = true;
            return;
        }
        server->bodies_bytes += size - request->size;
        request->body = body;
        request->size = size;
    }
    memcpy(request->body + request->len, bytes, len);
    request->len += len;
}

/* "uid:1000 (sam), pid 4711", as the kernel says. "": it does not. */
static void peer_of(struct MHD_Connection *connection, char *buf, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct ucred peer;
    socklen_t len = sizeof peer;
    struct passwd entry, *found = NULL;
    char scratch[2048];
    *buf = '\0';
    if (!info || getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
        return;
    if (getpwuid_r(peer.uid, &entry, scratch, sizeof scratch, &found))
        found = NULL;
    snprintf(buf, size, "uid:%lu%s%.32s%s, pid %ld", (unsigned long)peer.uid, found ? " (" : "",
             found ? found->pw_name : "", found ? ")" : "", (long)peer.pid);
}

/* An answer's bytes, counted until the last of them is sent. */
struct sent {
    struct aw_server *server;
    size_t len;
    char *bytes;
};

static void sent_free(void *ctx)
{
    struct sent *sent = ctx;
    sent->server->answers_bytes -= sent->len;
    free(sent->bytes);
    free(sent);
}

/* What every answer says: nobody keeps it, no other site's page may read it or frame it. */
static void harden(struct MHD_Response *response, const char *policy)
{
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
    MHD_add_response_header(response, "Content-Security-Policy", policy);
}

#define POLICY_DATA "default-src 'none'; frame-ancestors 'none'"
#define POLICY_PAGE                                                                   \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " \
    "connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; "      \
    "frame-ancestors 'none'"
/* A report has its scripts inside, and is somebody's file: it runs, and reaches nothing. */
#define POLICY_REPORT                                                         \
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; " \
    "style-src 'unsafe-inline'; img-src data:"

static enum MHD_Result queue(struct MHD_Connection *connection, unsigned status,
                             struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    const enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct aw_server *server, struct MHD_Connection *connection,
                              enum aw_err err, int status, const char *text);

static enum MHD_Result respond(struct aw_server *server, struct MHD_Connection *connection,
                               struct aw_api_response *answer, bool last)
{
    const unsigned status = (unsigned)answer->status;
    struct sent *sent = malloc(sizeof *sent);
    /* a refusal is small and always fits */
    if (!last && server->answers_bytes + answer->len > AW_SERVER_ANSWERS_BYTES_MAX) {
        free(sent);
        aw_api_response_deinit(answer);
        return refuse(server, connection, AW_ERR_UNAVAILABLE, 0,
                      "too many large answers are under way; ask again");
    }
    if (!sent) {
        aw_api_response_deinit(answer);
        return MHD_NO;
    }
    *sent = (struct sent){.server = server, .len = answer->len, .bytes = answer->body};
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        answer->len, answer->body, sent_free, sent);
    if (!response) {
        free(sent);
        aw_api_response_deinit(answer);
        return MHD_NO;
    }
    server->answers_bytes += answer->len;
    answer->body = NULL; /* the response's now */
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type);
    harden(response, POLICY_DATA);
    if (*answer->allow)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, answer->allow);
    if (*answer->next)
        MHD_add_response_header(response, "Aware-Next", answer->next);
    if (status == 401)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (last)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    aw_api_response_deinit(answer);
    return queue(connection, status, response);
}

/* `status` 0: that of the error. */
static enum MHD_Result refuse(struct aw_server *server, struct MHD_Connection *connection,
                              enum aw_err err, int status, const char *text)
{
    struct aw_api_response answer;
    struct aw_diag diag = {0};
    aw_fail(&diag, err, "%s", text);
    if (aw_api_refuse(err, &diag, &answer))
        return MHD_NO;
    answer.status = status ? status : answer.status;
    return respond(server, connection, &answer, true);
}

/* A body that says it is too large is refused before any of it is read. */
static bool says_too_large(struct MHD_Connection *connection)
{
    const char *text =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t bytes;
    return text && (aw_text_parse_u64(text, &bytes) || bytes > AW_API_BODY_MAX);
}

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Who comes by TCP is known by the token alone. */
static void by_of(const struct aw_server *server, struct MHD_Connection *connection, char *by,
                  size_t size)
{
    if (*server->path)
        peer_of(connection, by, size);
    else
        snprintf(by, size, "%s",
                 aw_listen_auth_knows(&server->door,
                                      header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION))
                     ? "token"
                     : "");
}

static enum MHD_Result answer_api(struct aw_server *server, struct MHD_Connection *connection,
                                  const char *method, const struct request *request)
{
    char by[AW_ORDER_BY_MAX];
    struct aw_api_response answer;
    by_of(server, connection, by, sizeof by);
    const struct aw_api_request asked = {
        .method = method,
        .path = request->uri,
        .content_type = header_of(connection, MHD_HTTP_HEADER_CONTENT_TYPE),
        .accept = header_of(connection, MHD_HTTP_HEADER_ACCEPT),
        .body = request->body,
        .body_len = request->len,
        .by = *by ? by : NULL,
    };
    if (aw_api_answer(server->api, &asked, &answer))
        return MHD_NO;
    return respond(server, connection, &answer, false);
}

static enum MHD_Result answer_page(struct MHD_Connection *connection,
                                   const struct aw_page_file *file)
{
    /* the library only reads it, and says so nowhere */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(file->text), (void *)(uintptr_t)file->text, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, file->type);
    harden(response, POLICY_PAGE);
    return queue(connection, 200, response);
}

static enum MHD_Result answer_events(struct aw_server *server, struct MHD_Connection *connection)
{
    struct MHD_Response *response = aw__events_answer(server->events, connection);
    if (!response)
        return refuse(server, connection, AW_ERR_UNAVAILABLE, 0,
                      "as many listen to the event stream as may; ask again");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    harden(response, POLICY_DATA);
    return queue(connection, 200, response);
}

static enum MHD_Result answer_report(struct aw_server *server, struct MHD_Connection *connection,
                                     const char *name)
{
    struct aw_diag diag = {0};
    const char *type;
    uint64_t bytes;
    int fd;
    const enum aw_err err =
        aw_report_open(server->api->config.reports, name, &fd, &bytes, &type, &diag);
    if (err)
        return refuse(server, connection, err, 0, diag.text);
    struct MHD_Response *response = MHD_create_response_from_fd64(bytes, fd);
    if (!response) {
        close(fd);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    harden(response, POLICY_REPORT);
    return queue(connection, 200, response);
}

static bool path_is(const char *uri, const char *path)
{
    const size_t len = strlen(path);
    return strncmp(uri, path, len) == 0 && (uri[len] == '\0' || uri[len] == '?');
}

static enum MHD_Result answer_request(struct aw_server *server, struct MHD_Connection *connection,
                                      const char *method, const struct request *request)
{
    static const char reports[] = "/reports/";
    const bool get = strcmp(method, "GET") == 0, head = strcmp(method, "HEAD") == 0;
    const struct aw_page_file *file = get || head ? aw_page_find(request->uri) : NULL;
    if (file)
        return answer_page(connection, file);
    if (get && path_is(request->uri, "/v1/events"))
        return answer_events(server, connection);
    if ((get || head) && strncmp(request->uri, reports, sizeof reports - 1) == 0)
        return answer_report(server, connection, request->uri + sizeof reports - 1);
    return answer_api(server, connection, method, request);
}

/* True: the request may go on. False: it was refused, and `ret` says whether that could be said. */
static bool let_in(struct aw_server *server, struct MHD_Connection *connection, const char *method,
                   const struct request *request, enum MHD_Result *ret)
{
    static const struct {
        enum aw_err err;
        int status;
        const char *text;
    } refusals[] = {
        [AW_LISTEN_AUTH_NO_HOST] = {AW_ERR_USAGE, 400, "expected a Host header"},
        [AW_LISTEN_AUTH_WRONG_HOST] =
            {AW_ERR_USAGE, 403, "the Host is not this machine's; use localhost or 127.0.0.1"},
        [AW_LISTEN_AUTH_READ_ONLY] =
            {AW_ERR_USAGE, 403,
             "read-only here; start the daemon with --token-file, or use its "
             "Unix socket"},
        [AW_LISTEN_AUTH_NO_TOKEN] =
            {AW_ERR_USAGE, 401,
             "expected the header Authorization: Bearer with the daemon's token"},
        [AW_LISTEN_AUTH_NO_PROBE] = {AW_ERR_USAGE, 403, "only /healthz and /readyz are here"},
    };
    if (*server->path)
        return true;
    const struct aw_listen_auth_request asked = {
        .method = method,
        .path = request->uri,
        .host = header_of(connection, MHD_HTTP_HEADER_HOST),
        .authorization = header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION),
    };
    const enum aw_listen_auth_verdict verdict = aw_listen_auth_judge(&server->door, &asked);
    if (verdict != AW_LISTEN_AUTH_OPEN)
        *ret = refuse(server, connection, refusals[verdict].err, refusals[verdict].status,
                      refusals[verdict].text);
    return verdict == AW_LISTEN_AUTH_OPEN;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **slot)
{
    struct aw_server *server = ctx;
    struct request *request = *slot;
    enum MHD_Result refused;
    static const char too_large[] = "the body has more bytes than are read: at most 1 MiB";
    (void)url;
    (void)version;
    if (!request || !request->uri)
        return MHD_NO;
    if (!request->begun) {
        request->begun = true;
        if (!let_in(server, connection, method, request, &refused))
            return refused;
        return says_too_large(connection) ? refuse(server, connection, AW_ERR_LIMIT, 0, too_large)
                                          : MHD_YES;
    }
    if (*upload_len) {
        body_add(request, upload, *upload_len);
        *upload_len = 0;
        return MHD_YES;
    }
    peer_arrives(server, connection, false);
    if (request->too_large)
        return refuse(server, connection, AW_ERR_LIMIT, 0, too_large);
    if (request->nomem)
        return refuse(server, connection, AW_ERR_NOMEM, 0, "no memory for the body");
    return answer_request(server, connection, method, request);
}

/* Addresses are decoded by the API, which refuses what cannot be. */
static size_t leave_as_is(void *ctx, struct MHD_Connection *connection, char *text)
{
    (void)ctx;
    (void)connection;
    return strlen(text);
}

/* --- made and ended --------------------------------------------------------------------------- */

static enum aw_err http_start(struct aw_server *server, const struct aw_server_config *config,
                              int fd, struct aw_diag *diag)
{
    const bool tcp = !*server->path;
    const unsigned connections = config->connections_max ? config->connections_max
                                 : tcp                   ? AW_SERVER_CONNECTIONS_TCP
                                                         : AW_SERVER_CONNECTIONS;
    const unsigned idle_s = config->idle_s ? config->idle_s : AW_SERVER_IDLE_S;
    /* on this machine everybody has the same address */
    const unsigned share = tcp && !server->door.loopback ? connections / AW_SERVER_SHARE : 0;
    server->arrive_us = (int64_t)AW_SERVER_ARRIVE * idle_s * 1000000;
    sigset_t all, before;
    sigfillset(&all); /* signals are for the thread that waits for them */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    server->http = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, server,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_CONNECTION_TIMEOUT, idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)(tcp ? AW_SERVER_TCP_BYTES : AW_SERVER_CONNECTION_BYTES),
        MHD_OPTION_URI_LOG_CALLBACK, request_begin, server, MHD_OPTION_UNESCAPE_CALLBACK,
        leave_as_is, NULL, MHD_OPTION_NOTIFY_COMPLETED, request_end, server,
        MHD_OPTION_NOTIFY_CONNECTION, peer_note, server, MHD_OPTION_PER_IP_CONNECTION_LIMIT, share,
        MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!server->http)
        return aw_fail_at(diag, AW_ERR_UNAVAILABLE, tcp ? server->door.host : server->path, 0, 0,
                          NULL, "the HTTP server does not start");
    return AW_OK;
}

static void socket_remove(const struct aw_server *server)
{
    struct stat st;
    if (*server->path && lstat(server->path, &st) == 0 && st.st_dev == server->device &&
        st.st_ino == server->inode)
        unlink(server->path);
}

enum aw_err aw_server_open(struct aw_server **ret_server, const struct aw_server_config *config,
                           struct aw_api *api, struct aw_diag *diag)
{
    const size_t len = strlen(config->path);
    const bool tcp = len == 0 && *config->door.host;
    int fd = -1;
    if (!tcp && (len == 0 || len >= AW_SERVER_PATH_MAX))
        return aw_fail_at(diag, AW_ERR_LIMIT, config->path, 0, 0, NULL,
                          "the path of a socket has 1 to %u bytes, found %zu; give a shorter one",
                          AW_SERVER_PATH_MAX - 1, len);
    struct aw_server *server = aw_alloc_new(NULL, 1, sizeof *server);
    if (!server)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the server");
    server->api = api;
    server->door = config->door;
    memcpy(server->path, config->path, len + 1);
    pthread_mutex_init(&server->lock, NULL);
    enum aw_err err = aw__events_open(&server->events, api, diag);
    if (!err && tcp) {
        err = tcp_make(server, &fd, diag);
    } else if (!err) {
        err = folder_make(server->path, diag);
        err = err ? err : stale_remove(server->path, diag);
        err = err ? err : socket_make(server, &fd, diag);
    }
    if (!err && (err = http_start(server, config, fd, diag))) {
        socket_remove(server);
        close(fd);
    }
    if (err) {
        aw__events_close(server->events);
        aw__events_free(server->events);
        pthread_mutex_destroy(&server->lock);
        aw_alloc_free(NULL, server);
        return err;
    }
    aw__events_beat(server->events, peers_judge, server);
    *ret_server = server;
    return AW_OK;
}

void aw_server_close(struct aw_server *server)
{
    if (!server)
        return;
    socket_remove(server); /* nobody new may come while the rest is answered */
    aw__events_close(server->events);
    MHD_stop_daemon(server->http); /* closes the descriptor too */
    aw__events_free(server->events);
    pthread_mutex_destroy(&server->lock);
    aw_alloc_free(NULL, server);
}

uint16_t aw_server_port(const struct aw_server *server)
{
    return *server->path ? 0 : server->door.port;
}
