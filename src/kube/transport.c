/* transport.c - see transport.h. */
#include "kube/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/text.h"
#include "kube/object.h"

#define BUFFER_FIRST ((size_t)16 << 10)
#define BUFFER_KEPT  ((size_t)1 << 20) /* of an answer that was larger, no memory is kept */
#define HOST_MAX     512u

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode global_code;

static void init_once(void)
{
    global_code = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* A server under another name: libcurl takes the name of the URL for SNI and for the certificate,
 * so the URL gets the name that the certificate has, and the connection goes where it should. */
static enum aw_err rename_server(struct aw__kube_transport *transport, CURLU *url, const char *host,
                                 struct aw_diag *diag)
{
    const struct aw_kube_config *config = transport->config;
    char connect[HOST_MAX], header[HOST_MAX], *port = NULL, *base = NULL;
    enum aw_err err = AW_ERR_NOMEM;
    if (!curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) &&
        !curl_url_set(url, CURLUPART_HOST, config->tls_server_name, 0) &&
        !curl_url_get(url, CURLUPART_URL, &base, 0)) {
        size_t len = strlen(base);
        while (len && base[len - 1] == '/')
            len--;
        snprintf(connect, sizeof connect, "::%s:%s", host, port);
        snprintf(header, sizeof header, "Host: %s:%s", host, port);
        transport->base = aw__kube_keep(config->alloc, base, len);
        transport->host_header = aw__kube_keep(config->alloc, header, strlen(header));
        transport->connect_to = curl_slist_append(NULL, connect);
        if (transport->base && transport->host_header && transport->connect_to)
            err = AW_OK;
    }
    curl_free(port);
    curl_free(base);
    return err ? aw_fail(diag, err, "no memory for the address of a server") : AW_OK;
}

enum aw_err aw__kube_transport_init(struct aw__kube_transport *transport,
                                    const struct aw_kube_config *config, struct aw_diag *diag)
{
    *transport = (struct aw__kube_transport){.config = config};
    pthread_once(&once, init_once);
    if (global_code != CURLE_OK)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "cannot start libcurl: %s",
                       curl_easy_strerror(global_code));
    char *host = NULL;
    enum aw_err err = AW_OK;
    CURLU *url = curl_url();
    transport->multi = curl_multi_init();
    if (!url || !transport->multi) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a client");
        goto out;
    }
    if (curl_url_set(url, CURLUPART_URL, config->server, 0) ||
        curl_url_get(url, CURLUPART_HOST, &host, 0)) {
        err = aw_fail(diag, AW_ERR_CONFIG, "the address of the API server is not a URL");
        goto out;
    }
    /* no proxy stands between a machine and itself */
    transport->loopback =
        !strcmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "[::1]");
    if (config->tls_server_name) {
        err = rename_server(transport, url, host, diag);
    } else if (!(transport->base =
                     aw__kube_keep(config->alloc, config->server, strlen(config->server)))) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a client");
    }
out:
    curl_free(host);
    curl_url_cleanup(url);
    if (err)
        aw__kube_transport_deinit(transport);
    return err;
}

void aw__kube_transport_deinit(struct aw__kube_transport *transport)
{
    if (!transport->config)
        return;
    curl_multi_cleanup(transport->multi);
    curl_slist_free_all(transport->connect_to);
    aw_alloc_free(transport->config->alloc, transport->base);
    aw_alloc_free(transport->config->alloc, transport->host_header);
    *transport = (struct aw__kube_transport){0};
}

enum aw_err aw__kube_transfer_init(struct aw__kube_transfer *transfer,
                                   struct aw__kube_transport *transport, size_t bytes_max,
                                   bool stream)
{
    *transfer = (struct aw__kube_transfer){
        .transport = transport, .max = bytes_max + 1, .stream = stream, .easy = curl_easy_init()};
    if (transfer->easy)
        return AW_OK;
    *transfer = (struct aw__kube_transfer){0};
    return AW_ERR_NOMEM;
}

void aw__kube_transfer_deinit(struct aw__kube_transfer *transfer)
{
    if (!transfer->transport)
        return;
    aw__kube_transfer_stop(transfer);
    curl_easy_cleanup(transfer->easy);
    aw_alloc_free(transfer->transport->config->alloc, transfer->buf);
    *transfer = (struct aw__kube_transfer){0};
}

/* Room for `len` more bytes and a NUL. */
static bool make_room(struct aw__kube_transfer *transfer, size_t len)
{
    const struct aw_alloc *alloc = transfer->transport->config->alloc;
    if (transfer->first > 0) {
        const size_t kept = transfer->len - transfer->first;
        memmove(transfer->buf, transfer->buf + transfer->first, kept);
        transfer->scanned -= transfer->first;
        transfer->len = kept;
        transfer->first = 0;
    }
    if (len < transfer->size - transfer->len)
        return true;
    if (len >= transfer->max - transfer->len) {
        transfer->too_large = true;
        return false;
    }
    size_t size = transfer->size ? transfer->size : BUFFER_FIRST;
    while (size <= transfer->len + len)
        size *= 2;
    size = size < transfer->max ? size : transfer->max;
    char *larger = aw_alloc_new(alloc, size, 1);
    if (!larger) {
        transfer->no_memory = true;
        return false;
    }
    if (transfer->len)
        memcpy(larger, transfer->buf, transfer->len);
    aw_alloc_free(alloc, transfer->buf);
    transfer->buf = larger;
    transfer->size = size;
    return true;
}

static size_t take(char *bytes, size_t size, size_t count, void *ctx)
{
    struct aw__kube_transfer *transfer = ctx;
    const size_t len = size * count; /* size is always 1, says libcurl */
    long status = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    transfer->status = (int)status;
    /* Whole lines that nobody has read yet: the server may wait, TCP tells it so. */
    if (transfer->stream && transfer->len - transfer->first >= AW_KUBE_STREAM_HIGH &&
        memchr(transfer->buf + transfer->first, '\n', transfer->len - transfer->first)) {
        transfer->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (!make_room(transfer, len))
        return 0; /* ends the transfer */
    memcpy(transfer->buf + transfer->len, bytes, len);
    transfer->len += len;
    transfer->buf[transfer->len] = '\0';
    return len;
}

static size_t take_header(char *bytes, size_t size, size_t count, void *ctx)
{
    static const char name[] = "retry-after:";
    struct aw__kube_transfer *transfer = ctx;
    const size_t len = size * count;
    size_t first = sizeof name - 1, end = len;
    if (len < first || strncasecmp(bytes, name, first) != 0)
        return len;
    while (first < end && bytes[first] == ' ')
        first++;
    while (end > first && (unsigned char)bytes[end - 1] <= ' ')
        end--;
    if (end - first < sizeof transfer->retry_after) {
        memcpy(transfer->retry_after, bytes + first, end - first);
        transfer->retry_after[end - first] = '\0';
    }
    return len;
}

/* Without it a connection whose peer vanished with our bytes under way lives for a quarter of an
 * hour, and every request on it fails by its own deadline (tcp(7): tcp_retries2). */
static int tune_socket(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    unsigned timeout_ms = AW_KUBE_UNACKED_MS;
    (void)ctx;
    (void)purpose;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    return CURL_SOCKOPT_OK;
}

static bool add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    *list = longer ? longer : *list;
    return longer;
}

static bool add_headers(struct aw__kube_transfer *transfer, const struct aw__kube_call *call,
                        const char *token)
{
    static const char bearer[] = "Authorization: Bearer ";
    const struct aw_alloc *alloc = transfer->transport->config->alloc;
    char type[128];
    snprintf(type, sizeof type, "Content-Type:%s%s", call->content_type ? " " : "",
             call->content_type ? call->content_type : "");
    bool fine = add_header(&transfer->headers, "Accept: application/json") &&
                add_header(&transfer->headers, "Expect:") && add_header(&transfer->headers, type);
    if (fine && transfer->transport->host_header)
        fine = add_header(&transfer->headers, transfer->transport->host_header);
    if (fine && token) {
        const size_t size = sizeof bearer + strlen(token);
        char *line = aw_alloc_new(alloc, size, 1);
        if (!line)
            return false;
        snprintf(line, size, "%s%s", bearer, token);
        fine = add_header(&transfer->headers, line);
        aw__kube_wipe(alloc, line);
    }
    return fine;
}

/* libcurl borrows the list until the transfer ends. */
static void drop_headers(struct aw__kube_transfer *transfer)
{
    for (struct curl_slist *at = transfer->headers; at; at = at->next)
        if (!strncasecmp(at->data, "Authorization:", 14))
            explicit_bzero(at->data, strlen(at->data));
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
}

static CURLcode set_pem(CURL *easy, const struct aw_kube_pem *pem, CURLoption blob_option,
                        CURLoption file_option)
{
    if (pem->bytes) {
        struct curl_blob blob = {pem->bytes, pem->len, CURL_BLOB_NOCOPY};
        return curl_easy_setopt(easy, blob_option, &blob);
    }
    return pem->file ? curl_easy_setopt(easy, file_option, pem->file) : CURLE_OK;
}

static CURLcode set_tls(CURL *easy, const struct aw_kube_config *config,
                        const struct aw_kube_credential *credential)
{
    const bool plugin = credential->cert.bytes;
    const bool own_ca = config->ca.bytes || config->ca.file;
    CURLcode code = CURLE_OK;
    if (own_ca) /* and nobody else's: the system's folder would be trusted besides */
        code = curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    if (!code && own_ca)
        code = curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    if (!code)
        code = set_pem(easy, &config->ca, CURLOPT_CAINFO_BLOB, CURLOPT_CAINFO);
    if (!code)
        code = set_pem(easy, plugin ? &credential->cert : &config->cert, CURLOPT_SSLCERT_BLOB,
                       CURLOPT_SSLCERT);
    if (!code)
        code = set_pem(easy, plugin ? &credential->key : &config->key, CURLOPT_SSLKEY_BLOB,
                       CURLOPT_SSLKEY);
    if (!code && config->insecure)
        code = curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    if (!code && config->insecure)
        code = curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    return code;
}

static CURLcode prepare(struct aw__kube_transfer *transfer, const struct aw__kube_call *call,
                        const struct aw_kube_credential *credential, const char *url)
{
    const struct aw__kube_transport *transport = transfer->transport;
    CURL *easy = transfer->easy;
    CURLcode code = CURLE_OK;
    curl_easy_reset(easy);
#define SET(option, value) (code = code ? code : curl_easy_setopt(easy, option, value))
    SET(CURLOPT_ERRORBUFFER, transfer->error);
    SET(CURLOPT_PRIVATE, transfer);
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PATH_AS_IS, 1L); /* the path was built from checked names: nothing to mend */
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, AW_KUBE_CONNECT_TIMEOUT_MS);
    SET(CURLOPT_TIMEOUT_MS, (long)((call->timeout_us + 999) / 1000));
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_TCP_KEEPIDLE, AW_KUBE_KEEPALIVE_S);
    SET(CURLOPT_TCP_KEEPINTVL, AW_KUBE_KEEPALIVE_S / 3);
    SET(CURLOPT_SOCKOPTFUNCTION, tune_socket);
    SET(CURLOPT_WRITEFUNCTION, take);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, take_header);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_HTTPHEADER, transfer->headers);
    SET(CURLOPT_USERAGENT, "aware");
    if (transport->connect_to)
        SET(CURLOPT_CONNECT_TO, transport->connect_to);
    if (transport->loopback)
        SET(CURLOPT_PROXY, "");
    else if (transport->config->proxy_url)
        SET(CURLOPT_PROXY, transport->config->proxy_url);
    code = code ? code : set_tls(easy, transport->config, credential);
    if (call->body) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
        SET(CURLOPT_POSTFIELDS, call->body);
    }
    SET(CURLOPT_CUSTOMREQUEST, call->method);
#undef SET
    return code;
}

enum aw_err aw__kube_transfer_start(struct aw__kube_transfer *transfer,
                                    const struct aw__kube_call *call,
                                    const struct aw_kube_credential *credential,
                                    struct aw_diag *diag)
{
    const struct aw__kube_transport *transport = transfer->transport;
    char url[AW_KUBE_PATH_MAX + HOST_MAX];
    struct aw_text text;
    aw__kube_transfer_stop(transfer);
    if (transfer->size > BUFFER_KEPT) {
        aw_alloc_free(transport->config->alloc, transfer->buf);
        transfer->buf = NULL;
        transfer->size = 0;
    }
    transfer->first = transfer->len = transfer->scanned = 0;
    transfer->status = 0;
    transfer->code = CURLE_OK;
    transfer->done = transfer->paused = transfer->too_large = transfer->no_memory = false;
    transfer->retry_after[0] = transfer->error[0] = '\0';
    aw_text_init(&text, url, sizeof url);
    aw_text_add(&text, "%s%s", transport->base, call->path);
    if (text.cut)
        return aw_fail(diag, AW_ERR_LIMIT, "the address of a request is too long");
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (make_room(transfer, 0) && add_headers(transfer, call, credential->token))
        code = prepare(transfer, call, credential, url);
    if (code == CURLE_OK && curl_multi_add_handle(transport->multi, transfer->easy) == CURLM_OK) {
        transfer->busy = true;
        return AW_OK;
    }
    drop_headers(transfer);
    return aw_fail(diag, AW_ERR_NOMEM, "cannot prepare a request: %s", curl_easy_strerror(code));
}

void aw__kube_transfer_stop(struct aw__kube_transfer *transfer)
{
    if (transfer->busy)
        curl_multi_remove_handle(transfer->transport->multi, transfer->easy);
    transfer->busy = false;
    drop_headers(transfer);
}

static enum aw_err err_of(CURLcode code)
{
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        return AW_ERR_NOMEM;
    case CURLE_OPERATION_TIMEDOUT:
        return AW_ERR_DEADLINE;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_WEIRD_SERVER_REPLY:
        return AW_ERR_FORMAT;
    case CURLE_PEER_FAILED_VERIFICATION: /* trying again does not mend certificates */
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return AW_ERR_CONFIG;
    default:
        return AW_ERR_UNAVAILABLE;
    }
}

enum aw_err aw__kube_transfer_result(const struct aw__kube_transfer *transfer, const char *name,
                                     struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    if (transfer->too_large)
        return aw_fail_at(diag, AW_ERR_LIMIT, name, 0, 0, NULL,
                          "the server sent more than %zu bytes at once", transfer->max - 1);
    if (transfer->no_memory)
        return aw_fail_at(diag, AW_ERR_NOMEM, name, 0, 0, NULL, "no memory for an answer");
    if (transfer->code == CURLE_OK)
        return AW_OK;
    const char *text = transfer->error[0] ? transfer->error : curl_easy_strerror(transfer->code);
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f) {
            text = aw_text_quote(text, strcspn(text, "\r\n"), quoted, sizeof quoted);
            break;
        }
    return aw_fail_at(diag, err_of(transfer->code), name, 0, 0, NULL, "%s", text);
}

bool aw__kube_transfer_unsent(const struct aw__kube_transfer *transfer)
{
    return transfer->code == CURLE_COULDNT_CONNECT ||
           transfer->code == CURLE_COULDNT_RESOLVE_HOST ||
           transfer->code == CURLE_COULDNT_RESOLVE_PROXY;
}

bool aw__kube_transfer_line(struct aw__kube_transfer *transfer, const char **ret_line,
                            size_t *ret_len)
{
    const size_t from = transfer->scanned > transfer->first ? transfer->scanned : transfer->first;
    const char *end =
        transfer->len > from ? memchr(transfer->buf + from, '\n', transfer->len - from) : NULL;
    transfer->scanned = transfer->len;
    if (!end) {
        if (transfer->paused && transfer->busy) {
            transfer->paused = false;
            curl_easy_pause(transfer->easy, CURLPAUSE_CONT);
            /* what was held back comes now, or with the next perform */
        }
        return false;
    }
    *ret_line = transfer->buf + transfer->first;
    *ret_len = (size_t)(end - *ret_line);
    transfer->first = (size_t)(end - transfer->buf) + 1;
    transfer->scanned = transfer->first;
    return true;
}

static void note_done(struct aw__kube_transport *transport)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(transport->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        char *private = NULL;
        long status = 0;
        const CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
        struct aw__kube_transfer *transfer = (struct aw__kube_transfer *)(void *)private;
        transfer->status = (int)status;
        transfer->code = code;
        transfer->done = true;
        aw__kube_transfer_stop(transfer); /* frees the message too */
    }
}

void aw__kube_transport_perform(struct aw__kube_transport *transport)
{
    int running;
    (void)curl_multi_perform(transport->multi, &running);
    note_done(transport);
}

void aw__kube_transport_wait(struct aw__kube_transport *transport, int64_t timeout_us)
{
    int64_t timeout_ms = timeout_us <= 0 ? 0 : (timeout_us + 999) / 1000;
    timeout_ms = timeout_ms < 3600000 ? timeout_ms : 3600000;
    (void)curl_multi_poll(transport->multi, NULL, 0, (int)timeout_ms, NULL);
    aw__kube_transport_perform(transport);
}
