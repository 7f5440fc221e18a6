/*
 * http.h - an HTTP client: one request at a time, one answer in memory, within a deadline.
 *
 * Thin over libcurl, which does TLS, keep-alive and proxies (from the environment, as curl does;
 * never for this machine itself). Redirects are not followed: the caller sees the status.
 *
 * Call order: open, any number of sends, close.
 * Memory:     one block sized at open holds the largest answer; libcurl also uses the process heap.
 *             An answer lives until the next send or close.
 * Threads:    one owner per client.
 *
 * The trap: a URL may carry a password. Diagnostics name what the caller said in `name` instead.
 */
#ifndef AW_BASE_HTTP_H
#define AW_BASE_HTTP_H

#include "base/alloc.h"
#include "base/text.h"

#define AW_HTTP_BODY_MAX_DEFAULT ((size_t)16 << 20)
#define AW_HTTP_TIMEOUT_US       10000000
#define AW_HTTP_HEADERS_MAX      8u
#define AW_HTTP_HEADER_MAX       512u /* bytes of a header that is kept; more is cut */

/* Zeroed is all defaults. */
struct aw_http_config {
    int64_t timeout_us;    /* of a whole request, from its start; 0: AW_HTTP_TIMEOUT_US */
    size_t body_bytes_max; /* of an answer; 0: AW_HTTP_BODY_MAX_DEFAULT */
    const char *ca_file;   /* certificates to trust, PEM; NULL: the system's */
    /* A socket of this machine that every request goes to, whatever host its URL names; borrowed
     * until close. NULL: none. */
    const char *unix_socket;
};

struct aw_http_request {
    const char *method;         /* "GET", "POST", "PUT", "PATCH", "DELETE"; NULL: GET */
    const char *url;            /* http or https */
    const char *name;           /* stands for the URL in diagnostics */
    const char *content_type;   /* of the body; NULL: none */
    const char *const *headers; /* "Name: value", NULL-ended, at most AW_HTTP_HEADERS_MAX; NULL */
    const void *body;           /* NULL: none */
    size_t body_len;
    const char *header_wanted; /* name of a header of the answer to keep; NULL: none */
    /* Monotonic; another thread may bring it forward, and the request ends within a second of it.
     * NULL: the client's timeout alone. */
    const _Atomic int64_t *until_us;
};

struct aw_http_answer {
    int status;
    const char *body; /* a NUL follows it */
    size_t len;
    const char *header; /* value of the header that was wanted; "": it was not there */
};

struct aw_http;

AW_NODISCARD enum aw_err aw_http_open(struct aw_http **ret_http,
                                      const struct aw_http_config *config,
                                      const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_http_close(struct aw_http *http); /* NULL is a no-op */

/* AW_OK for an answer of any status. AW_ERR_UNAVAILABLE: no server there, or the connection broke;
 * AW_ERR_DEADLINE; AW_ERR_LIMIT: the answer is too large; AW_ERR_FORMAT: not HTTP, or not a URL;
 * AW_ERR_NOMEM. `ret_answer` is untouched on failure, but of an answer that is too large the status
 * and the header are said. */
AW_NODISCARD enum aw_err aw_http_send(struct aw_http *http, const struct aw_http_request *request,
                                      struct aw_http_answer *ret_answer, struct aw_diag *diag);

/* A status as an error: AW_OK for 2xx, else the nearest error. */
enum aw_err aw_http_status_err(int status);

/* Adds `bytes` percent-encoded (RFC 3986: unreserved characters stay). */
void aw_http_escape(struct aw_text *text, const char *bytes, size_t len);

#endif
