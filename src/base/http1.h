/*
 * http1.h - heads and chunked bodies of HTTP/1.1 (RFC 9110, RFC 9112), strictly, without copying.
 *
 * For code that owns its sockets: the service that runs applications, the load generator, a
 * balancer. Strict where leniency lets two parties read one message differently: lines end with
 * CRLF alone, names are tokens without space before the colon, no folded lines, one Content-Length
 * that is all digits, never Content-Length and Transfer-Encoding together, Host exactly once.
 *
 * Call order: request or response on what has arrived so far until it is no longer AW_ERR_NODATA;
 *             then the body by `framing`; chunked ones through aw_http1_chunks.
 * Memory:     none; a head points into the caller's bytes and lives as long as they stay.
 * Threads:    pure functions of their arguments.
 *
 * The trap: values are bytes of the peer. They are never terminated, and never safe to print.
 */
#ifndef AW_BASE_HTTP1_H
#define AW_BASE_HTTP1_H

#include <aware/err.h>

#define AW_HTTP1_HEAD_BYTES_MAX 8192u /* of a head, its empty line included */
#define AW_HTTP1_HEADERS_MAX    64u
#define AW_HTTP1_BODY_BYTES_MAX ((uint64_t)1 << 40) /* that a length may announce */
#define AW_HTTP1_CHUNK_LINE_MAX 256u                /* bytes of a chunk's size line or a trailer */
#define AW_HTTP1_TRAILER_MAX    4096u               /* bytes of all trailers together */

struct aw_http1_span {
    const char *at;
    size_t len;
};

struct aw_http1_header {
    struct aw_http1_span name, value; /* the value without space around it */
};

enum aw_http1_framing {
    AW_HTTP1_EMPTY,       /* no body */
    AW_HTTP1_LENGTH,      /* `length` bytes, possibly 0 */
    AW_HTTP1_CHUNKED,     /* through aw_http1_chunks */
    AW_HTTP1_UNTIL_CLOSE, /* of a response: everything until the peer closes */
};

struct aw_http1_head {
    struct aw_http1_span method; /* of a request */
    struct aw_http1_span path;   /* of a request: begins with '/' */
    struct aw_http1_span query;  /* of a request: what follows the '?', or empty */
    int status;                  /* of a response: 100 to 599 */
    bool keep_alive;             /* the connection outlives this message */
    bool expect_continue;        /* a request that waits for "100 Continue" */
    enum aw_http1_framing framing;
    uint64_t length;
    size_t bytes; /* of the head: the body begins here */
    uint32_t header_count;
    struct aw_http1_header header[AW_HTTP1_HEADERS_MAX];
};

/* AW_ERR_NODATA: not complete yet. AW_ERR_FORMAT: malformed, and nothing after it can be trusted.
 * AW_ERR_LIMIT: longer than AW_HTTP1_HEAD_BYTES_MAX, or too many headers. AW_ERR_UNSUPPORTED:
 * another version, another transfer coding, or not origin-form. `ret` is untouched on failure. */
AW_NODISCARD enum aw_err aw_http1_request(const char *bytes, size_t len, struct aw_http1_head *ret,
                                          struct aw_diag *diag);
/* `to_head`: it answers a HEAD request, so it has no body whatever it says. */
AW_NODISCARD enum aw_err aw_http1_response(const char *bytes, size_t len, bool to_head,
                                           struct aw_http1_head *ret, struct aw_diag *diag);

/* The value of the first header of that name (any case); `at` NULL: none. */
struct aw_http1_span aw_http1_find(const struct aw_http1_head *head, const char *name);
bool aw_http1_is(struct aw_http1_span span, const char *text); /* the same bytes */
/* The value of "key=value" in a query, not decoded; `at` NULL: none. */
struct aw_http1_span aw_http1_query(struct aw_http1_span query, const char *key);

/* A chunked body on its way in. Zeroed is its beginning. */
struct aw_http1_chunks {
    uint32_t state; /* internal */
    uint32_t line_bytes, trailer_bytes;
    uint64_t left; /* of the chunk's data */
    bool done;     /* the last chunk and the trailers have passed */
};
/* Takes some of `bytes`, at least one unless done, and says how many; `ret_data` is the part of
 * them that is body (maybe empty). AW_ERR_FORMAT and AW_ERR_LIMIT: give up on the connection. */
AW_NODISCARD enum aw_err aw_http1_chunks_take(struct aw_http1_chunks *chunks, const char *bytes,
                                              size_t len, size_t *ret_used,
                                              struct aw_http1_span *ret_data);

#endif
