/* http.c - one request at a time over libcurl's easy interface. */
#include "base/http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

struct aw_http {
    const struct aw_alloc *alloc;
    CURL *curl;
    int64_t timeout_us;
    const char *ca_file;
    const char *unix_socket;
    char *body; /* [body_max + 1] */
    size_t body_len, body_max;
    bool too_large;
    const char *header_wanted;
    char header[AW_HTTP_HEADER_MAX];
    const _Atomic int64_t *until_us;
    char error[CURL_ERROR_SIZE];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode global_code;

static void init_once(void)
{
    global_code = curl_global_init(CURL_GLOBAL_DEFAULT);
}

enum aw_err aw_http_open(struct aw_http **ret_http, const struct aw_http_config *config,
                         const struct aw_alloc *alloc, struct aw_diag *diag)
{
    static const struct aw_http_config defaults = {0};
    config = config ? config : &defaults;
    size_t body_max = config->body_bytes_max ? config->body_bytes_max : AW_HTTP_BODY_MAX_DEFAULT;
    pthread_once(&once, init_once);
    if (global_code != CURLE_OK)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "cannot start libcurl: %s",
                       curl_easy_strerror(global_code));
    struct aw_http *http = aw_alloc_new(alloc, sizeof *http + body_max + 1, 1);
    if (!http || !(http->curl = curl_easy_init())) {
        aw_alloc_free(alloc, http);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for an HTTP client");
    }
    http->alloc = alloc;
    http->timeout_us = config->timeout_us ? config->timeout_us : AW_HTTP_TIMEOUT_US;
    http->ca_file = config->ca_file;
    http->unix_socket = config->unix_socket;
    http->body = (char *)(http + 1);
    http->body_max = body_max;
    *ret_http = http;
    return AW_OK;
}

void aw_http_close(struct aw_http *http)
{
    if (!http)
        return;
    curl_easy_cleanup(http->curl);
    aw_alloc_free(http->alloc, http);
}

static size_t take(char *bytes, size_t size, size_t count, void *ctx)
{
    struct aw_http *http = ctx;
    size_t len = size * count; /* size is always 1, says libcurl */
    if (len > http->body_max - http->body_len) {
        http->too_large = true;
        return 0; /* ends the transfer */
    }
    memcpy(http->body + http->body_len, bytes, len);
    http->body_len += len;
    return len;
}

/* "Name: value\r\n" of the header that is wanted; libcurl brings one at a time. */
static size_t take_header(char *bytes, size_t size, size_t count, void *ctx)
{
    struct aw_http *http = ctx;
    const size_t len = size * count, name = strlen(http->header_wanted);
    if (len <= name + 1 || bytes[name] != ':' || strncasecmp(bytes, http->header_wanted, name))
        return len;
    size_t first = name + 1, end = len;
    while (first < end && (bytes[first] == ' ' || bytes[first] == '\t'))
        first++;
    while (end > first && (unsigned char)bytes[end - 1] <= ' ')
        end--;
    const size_t kept = end - first < sizeof http->header ? end - first : sizeof http->header - 1;
    memcpy(http->header, bytes + first, kept);
    http->header[kept] = '\0';
    return len;
}

/* Not 0: the request ends. libcurl asks at least once a second. */
static int is_late(void *ctx, curl_off_t down, curl_off_t got, curl_off_t up, curl_off_t put)
{
    const struct aw_http *http = ctx;
    (void)down, (void)got, (void)up, (void)put;
    return aw_clock_monotonic_us(NULL) >= *http->until_us;
}

/* No proxy stands between a machine and itself. */
static bool is_loopback(const char *url)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]", NULL};
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    const char *user = strchr(host, '@');
    size_t authority = strcspn(host, "/?#");
    if (user && user < host + authority) {
        authority -= (size_t)(user + 1 - host);
        host = user + 1;
    }
    for (uint32_t i = 0; hosts[i]; i++) {
        size_t len = strlen(hosts[i]);
        if (authority >= len && !strncmp(host, hosts[i], len) &&
            (authority == len || host[len] == ':'))
            return true;
    }
    return false;
}

static enum aw_err err_of(CURLcode code)
{
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        return AW_ERR_NOMEM;
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_ABORTED_BY_CALLBACK:
        return AW_ERR_DEADLINE;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        return AW_ERR_FORMAT;
    default: /* the name, the connection, the certificate */
        return AW_ERR_UNAVAILABLE;
    }
}

/* One line for people; the library's own words may end with a newline or hold the peer's bytes. */
static enum aw_err fail_curl(struct aw_http *http, const struct aw_http_request *request,
                             CURLcode code, struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    if (http->too_large)
        return aw_fail_at(diag, AW_ERR_LIMIT, request->name, 0, 0, NULL,
                          "the answer is larger than %zu bytes", http->body_max);
    const char *text = http->error[0] ? http->error : curl_easy_strerror(code);
    for (const char *at = text; *at; at++) {
        if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f)
            text = aw_text_quote(text, strcspn(text, "\r\n"), quoted, sizeof quoted);
        if (text == quoted)
            break;
    }
    return aw_fail_at(diag, err_of(code), request->name, 0, 0, NULL, "%s", text);
}

static CURLcode prepare(struct aw_http *http, const struct aw_http_request *request,
                        struct curl_slist *headers)
{
    CURL *curl = http->curl;
    const char *method = request->method ? request->method : "GET";
    CURLcode code = CURLE_OK;
    int64_t timeout_us = http->timeout_us;
    curl_easy_reset(curl); /* connections stay open */
#define SET(option, value) (code = code ? code : curl_easy_setopt(curl, option, value))
    SET(CURLOPT_ERRORBUFFER, http->error);
    SET(CURLOPT_URL, request->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_NOSIGNAL, 1L); /* a library leaves signals alone */
    if (request->until_us) {
        const int64_t left_us = *request->until_us - aw_clock_monotonic_us(NULL);
        timeout_us = left_us < 1 ? 1 : left_us < timeout_us ? left_us : timeout_us;
        SET(CURLOPT_NOPROGRESS, 0L);
        SET(CURLOPT_XFERINFOFUNCTION, is_late);
        SET(CURLOPT_XFERINFODATA, http);
    }
    SET(CURLOPT_TIMEOUT_MS, (long)((timeout_us + 999) / 1000));
    SET(CURLOPT_WRITEFUNCTION, take);
    SET(CURLOPT_WRITEDATA, http);
    if (http->header_wanted) {
        SET(CURLOPT_HEADERFUNCTION, take_header);
        SET(CURLOPT_HEADERDATA, http);
    }
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_USERAGENT, "aware");
    if (http->unix_socket)
        SET(CURLOPT_UNIX_SOCKET_PATH, http->unix_socket);
    if (http->unix_socket || is_loopback(request->url))
        SET(CURLOPT_PROXY, "");
    if (http->ca_file)
        SET(CURLOPT_CAINFO, http->ca_file);
    if (request->body) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
        SET(CURLOPT_POSTFIELDS, request->body);
    } else if (!strcmp(method, "POST")) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
    }
    SET(CURLOPT_CUSTOMREQUEST, method);
#undef SET
    return code;
}

/* False: memory is out. */
static bool add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    *list = longer ? longer : *list;
    return longer;
}

enum aw_err aw_http_send(struct aw_http *http, const struct aw_http_request *request,
                         struct aw_http_answer *ret_answer, struct aw_diag *diag)
{
    struct curl_slist *headers = NULL;
    char type[128];
    long status = 0;
    enum aw_err err = AW_OK;
    http->body_len = 0;
    http->too_large = false;
    http->error[0] = '\0';
    http->header[0] = '\0';
    http->header_wanted = request->header_wanted;
    http->until_us = request->until_us;
    struct aw_text text;
    aw_text_init(&text, type, sizeof type);
    aw_text_add(&text, "Content-Type:%s%s", request->content_type ? " " : "",
                request->content_type ? request->content_type : "");
    /* "Expect:" keeps libcurl from asking for leave before it sends a large body */
    bool fine = !text.cut && add_header(&headers, type) && add_header(&headers, "Expect:");
    for (uint32_t i = 0; fine && request->headers && request->headers[i]; i++) {
        AW_ASSERT(i < AW_HTTP_HEADERS_MAX);
        fine = add_header(&headers, request->headers[i]);
    }
    CURLcode code = fine ? prepare(http, request, headers) : CURLE_OUT_OF_MEMORY;
    code = code ? code : curl_easy_perform(http->curl);
    code = code ? code : curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) {
        err = fail_curl(http, request, code, diag);
        if (err == AW_ERR_LIMIT && !curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status))
            *ret_answer = (struct aw_http_answer){(int)status, "", 0, http->header};
        goto out;
    }
    http->body[http->body_len] = '\0';
    *ret_answer = (struct aw_http_answer){(int)status, http->body, http->body_len, http->header};
out:
    curl_slist_free_all(headers);
    return err;
}

enum aw_err aw_http_status_err(int status)
{
    if (status >= 200 && status < 300)
        return AW_OK;
    switch (status) {
    case 401:
    case 403:
        return AW_ERR_CONFIG; /* the credentials are */
    case 404:
    case 410:
        return AW_ERR_NOTFOUND;
    case 408:
    case 504:
        return AW_ERR_DEADLINE;
    case 409:
        return AW_ERR_CONFLICT;
    case 413:
        return AW_ERR_LIMIT;
    case 429:
        return AW_ERR_UNAVAILABLE;
    case 501:
        return AW_ERR_UNSUPPORTED;
    default:
        return status >= 500 ? AW_ERR_UNAVAILABLE : AW_ERR_FORMAT;
    }
}

void aw_http_escape(struct aw_text *text, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (plain)
            aw_text_add_bytes(text, &bytes[i], 1);
        else
            aw_text_add(text, "%%%02X", c);
    }
}
