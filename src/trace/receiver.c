/* receiver.c - see receiver.h. */
#include "trace/receiver.h"

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define PEM_MAX     ((size_t)1 << 20)
#define PRIORITIES  "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1" /* GnuTLS */
#define ANSWER_TEXT (AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 8)

struct aw_receiver {
    struct MHD_Daemon *http;
    struct aw_collector *collector;
    char token[AW_TOKEN_MAX];
    char *cert, *key; /* PEM; NULL: no TLS */
    struct sockaddr_in bound;
    _Atomic size_t bodies_bytes;
};

struct body {
    struct aw_receiver *receiver;
    char *bytes;
    size_t len, size;
    bool too_large, no_room;
};

/* What is said back: a status, and a message in the sender's encoding. */
struct answer {
    unsigned status;
    bool json, zipkin;
    uint64_t rejected;
    char text[ANSWER_TEXT];
};

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* ---- answers ---- */

static size_t put_varint(uint8_t *to, uint64_t value)
{
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        to[size++] = (uint8_t)(value | 0x80);
    to[size++] = (uint8_t)value;
    return size;
}

static size_t put_text(uint8_t *to, uint8_t key, const char *text)
{
    size_t size = 0;
    to[size++] = key;
    size += put_varint(to + size, strlen(text));
    for (; *text; text++)
        to[size++] = (uint8_t)*text;
    return size;
}

static const char why_rejected[] =
    "spans without a trace id or an id, or that end before they begin";

/* {partial_success 1 {rejected_spans 1, error_message 2}} */
size_t aw_receiver_answer(uint64_t rejected, uint8_t ret[AW_RECEIVER_ANSWER_MAX])
{
    uint8_t inner[AW_RECEIVER_ANSWER_MAX - 16];
    size_t size = 0, len = 0;
    _Static_assert(sizeof why_rejected + 32 < sizeof inner, "it must fit");
    if (!rejected)
        return 0;
    inner[len++] = 1 << 3;
    len += put_varint(inner + len, rejected);
    len += put_text(inner + len, 2 << 3 | 2, why_rejected);
    ret[size++] = 1 << 3 | 2;
    size += put_varint(ret + size, len);
    memcpy(ret + size, inner, len);
    return size + len;
}

/* The same, or google.rpc.Status {code 1, message 2} where it failed. */
static size_t binary_of(const struct answer *answer, uint8_t *to)
{
    size_t size = 0;
    if (answer->status < 400)
        return aw_receiver_answer(answer->rejected, to);
    to[size++] = 1 << 3;
    size += put_varint(to + size, answer->status == 429 ? 14 : 3); /* UNAVAILABLE, INVALID */
    return size + put_text(to + size, 2 << 3 | 2, answer->text);
}

static char *json_of(const struct answer *answer)
{
    json_t *json = json_object();
    if (answer->status >= 400)
        json_object_set_new(json, "message", json_string(answer->text));
    else if (answer->rejected) {
        char count[24];
        snprintf(count, sizeof count, "%ju", (uintmax_t)answer->rejected);
        json_object_set_new(
            json, "partialSuccess",
            json_pack("{ss ss}", "rejectedSpans", count, "errorMessage", answer->text));
    }
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

static enum MHD_Result respond(struct MHD_Connection *connection, const struct answer *answer)
{
    uint8_t binary[ANSWER_TEXT + 64];
    struct MHD_Response *response = NULL;
    if (answer->json) {
        char *text = json_of(answer);
        response = text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE)
                        : NULL;
    } else {
        const size_t size = answer->zipkin ? 0 : binary_of(answer, binary);
        response = MHD_create_response_from_buffer(size, binary, MHD_RESPMEM_MUST_COPY);
    }
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                            answer->json ? "application/json" : "application/x-protobuf");
    if (answer->status == MHD_HTTP_TOO_MANY_REQUESTS) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%u", AW_RECEIVER_RETRY_S);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    if (answer->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "POST");
    if (answer->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    const enum MHD_Result result = MHD_queue_response(connection, answer->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- requests ---- */

/* The time it takes does not tell how much of the token was right. */
static bool is_known(const struct aw_receiver *receiver, const char *authorization)
{
    const char *given =
        authorization && !strncasecmp(authorization, "Bearer ", 7) ? authorization + 7 : "";
    char padded[AW_TOKEN_MAX] = "";
    unsigned differs = 0;
    if (!*receiver->token)
        return true;
    snprintf(padded, sizeof padded, "%.*s", (int)sizeof padded - 1, given);
    for (size_t i = 0; i < sizeof padded; i++)
        differs |= (unsigned char)padded[i] ^ (unsigned char)receiver->token[i];
    return differs == 0 && strlen(given) < sizeof padded;
}

static void body_add(struct body *body, const char *bytes, size_t len)
{
    struct aw_receiver *receiver = body->receiver;
    if (body->too_large || body->no_room)
        return;
    if (len > AW_RECEIVER_BODY_MAX - body->len) {
        body->too_large = true;
        return;
    }
    if (body->len + len > body->size) {
        const size_t wanted = 2 * (body->len + len);
        const size_t size = wanted < AW_RECEIVER_BODY_MAX ? wanted : AW_RECEIVER_BODY_MAX;
        const bool room = receiver->bodies_bytes + (size - body->size) <= AW_RECEIVER_BODIES_MAX;
        char *larger = room ? realloc(body->bytes, size) : NULL;
        if (!larger) {
            body->no_room = true;
            return;
        }
        receiver->bodies_bytes += size - body->size;
        body->bytes = larger;
        body->size = size;
    }
    memcpy(body->bytes + body->len, bytes, len);
    body->len += len;
}

static void body_end(void *ctx, struct MHD_Connection *connection, void **slot,
                     enum MHD_RequestTerminationCode code)
{
    struct body *body = *slot;
    (void)ctx;
    (void)connection;
    (void)code;
    if (body) {
        body->receiver->bodies_bytes -= body->size;
        free(body->bytes);
        free(body);
    }
    *slot = NULL;
}

static unsigned status_of(enum aw_err err)
{
    switch (err) {
    case AW_ERR_UNAVAILABLE:
    case AW_ERR_NOMEM:
        return MHD_HTTP_TOO_MANY_REQUESTS;
    case AW_ERR_LIMIT:
        return MHD_HTTP_CONTENT_TOO_LARGE;
    default:
        return MHD_HTTP_BAD_REQUEST;
    }
}

static void take(struct body *body, const char *encoding, enum aw_span_format format,
                 struct answer *answer)
{
    struct aw_receiver *receiver = body->receiver;
    struct aw_diag diag = {0};
    char *unpacked = NULL;
    size_t size = body->len;
    enum aw_err err = AW_OK;
    if (encoding && !strcasecmp(encoding, "gzip"))
        err = aw_packed_inflate("body", body->bytes, body->len, AW_RECEIVER_BODY_MAX, NULL,
                                &unpacked, &size, &diag);
    if (!err)
        err = aw_collector_take(receiver->collector,
                                unpacked      ? unpacked
                                : body->bytes ? body->bytes
                                              : "",
                                size, format, aw_clock_now_us(NULL), &answer->rejected, &diag);
    if (err) {
        answer->status = status_of(err);
        snprintf(answer->text, sizeof answer->text, "%s%s%s", diag.key, *diag.key ? ": " : "",
                 diag.text);
    }
    aw_alloc_free(NULL, unpacked);
}

static void refuse(struct answer *answer, unsigned status, const char *text)
{
    answer->status = status;
    snprintf(answer->text, sizeof answer->text, "%s", text);
}

static void serve(struct body *body, struct MHD_Connection *connection, const char *url,
                  const char *method, struct answer *answer)
{
    const char *type = header_of(connection, MHD_HTTP_HEADER_CONTENT_TYPE);
    const char *encoding = header_of(connection, MHD_HTTP_HEADER_CONTENT_ENCODING);
    const bool otlp = !strcmp(url, "/v1/traces");
    const bool zipkin = !strcmp(url, "/api/v2/spans");
    const bool json = type && !strncasecmp(type, "application/json", 16);
    const bool binary = type && !strncasecmp(type, "application/x-protobuf", 22);
    answer->json = json;
    answer->zipkin = zipkin;
    answer->status = zipkin ? MHD_HTTP_ACCEPTED : MHD_HTTP_OK;
    if (!otlp && !zipkin)
        refuse(answer, MHD_HTTP_NOT_FOUND, "spans go to /v1/traces or /api/v2/spans");
    else if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
        refuse(answer, MHD_HTTP_METHOD_NOT_ALLOWED, "expected POST");
    else if (!is_known(body->receiver, header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION)))
        refuse(answer, MHD_HTTP_UNAUTHORIZED, "expected the token of --token-file");
    else if (!json && !(otlp && binary))
        refuse(answer, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
               otlp ? "expected Content-Type application/x-protobuf or application/json"
                    : "expected Content-Type application/json");
    else if (encoding && strcasecmp(encoding, "gzip") != 0 && strcasecmp(encoding, "identity") != 0)
        refuse(answer, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "expected Content-Encoding gzip or none");
    else if (body->too_large)
        refuse(answer, MHD_HTTP_CONTENT_TOO_LARGE, "a body has at most 20 MiB");
    else if (body->no_room)
        refuse(answer, MHD_HTTP_TOO_MANY_REQUESTS, "too many bodies at once; send it again");
    else
        take(body, encoding,
             zipkin ? AW_SPANS_ZIPKIN
             : json ? AW_SPANS_OTLP_JSON
                    : AW_SPANS_OTLP,
             answer);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *len, void **slot)
{
    struct body *body = *slot;
    struct answer answer = {0};
    (void)version;
    if (!body) {
        body = calloc(1, sizeof *body);
        if (!body)
            return MHD_NO;
        body->receiver = ctx;
        *slot = body;
        return MHD_YES;
    }
    if (*len) {
        body_add(body, bytes, *len);
        *len = 0;
        return MHD_YES;
    }
    serve(body, connection, url, method, &answer);
    return respond(connection, &answer);
}

/* ---- life ---- */

static enum aw_err read_tls(struct aw_receiver *receiver, const struct aw_receiver_config *config,
                            struct aw_diag *diag)
{
    size_t len;
    if (!config->tls_cert_path && !config->tls_key_path)
        return AW_OK;
    if (!config->tls_cert_path || !config->tls_key_path)
        return aw_fail(diag, AW_ERR_USAGE, "TLS needs both a certificate and its key");
    const enum aw_err err =
        aw_file_read(config->tls_cert_path, PEM_MAX, NULL, &receiver->cert, &len, diag);
    return err ? err
               : aw_file_read(config->tls_key_path, PEM_MAX, NULL, &receiver->key, &len, diag);
}

static void let_go(struct aw_receiver *receiver)
{
    if (receiver->key)
        explicit_bzero(receiver->key, strlen(receiver->key));
    explicit_bzero(receiver->token, sizeof receiver->token);
    aw_alloc_free(NULL, receiver->key);
    aw_alloc_free(NULL, receiver->cert);
    aw_alloc_free(NULL, receiver);
}

enum aw_err aw_receiver_open(struct aw_receiver **ret, const struct aw_receiver_config *config,
                             struct aw_collector *collector, struct aw_diag *diag)
{
    sigset_t all, before;
    int fd = -1;
    if (!aw_net_is_loopback(&config->address) && !*config->token)
        return aw_fail(diag, AW_ERR_USAGE,
                       "the address is reachable from other machines: --token-file is required");
    struct aw_receiver *made = aw_alloc_new(NULL, 1, sizeof *made);
    if (!made)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    made->collector = collector;
    memcpy(made->token, config->token, sizeof made->token);
    enum aw_err err = read_tls(made, config, diag);
    if (!err)
        err = aw_net_listen(&config->address, 256, &fd, &made->bound, diag);
    if (!err) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        const struct MHD_OptionItem tls[] = {
            {MHD_OPTION_HTTPS_MEM_CERT, 0, made->cert},
            {MHD_OPTION_HTTPS_MEM_KEY, 0, made->key},
            {MHD_OPTION_HTTPS_PRIORITIES, 0, (char *)(uintptr_t)PRIORITIES},
            {MHD_OPTION_END, 0, NULL}};
        made->http = MHD_start_daemon(
            MHD_USE_EPOLL_INTERNAL_THREAD | (made->key ? MHD_USE_TLS : 0), 0, NULL, NULL,
            on_request, made, MHD_OPTION_ARRAY, made->key ? tls : &tls[3], MHD_OPTION_LISTEN_SOCKET,
            fd, MHD_OPTION_CONNECTION_LIMIT, AW_RECEIVER_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
            AW_RECEIVER_IDLE_S, MHD_OPTION_NOTIFY_COMPLETED, body_end, made, MHD_OPTION_END);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (!made->http) {
            close(fd);
            err = made->key ? aw_fail_at(diag, AW_ERR_CONFIG, config->tls_cert_path, 0, 0, NULL,
                                         "expected a certificate and its key in PEM")
                            : aw_fail(diag, AW_ERR_IO, "cannot start the receiver");
        }
    }
    if (err) {
        let_go(made);
        return err;
    }
    *ret = made;
    return AW_OK;
}

void aw_receiver_close(struct aw_receiver *receiver)
{
    if (!receiver)
        return;
    MHD_stop_daemon(receiver->http);
    let_go(receiver);
}

uint16_t aw_receiver_port(const struct aw_receiver *receiver)
{
    return ntohs(receiver->bound.sin_port);
}
