/*
 * status.h - what the API server said when it did not do what was asked.
 *
 * An answer that is not 2xx carries a Status object (metav1.Status): a code, a reason from a small
 * vocabulary, a sentence, sometimes how long to wait. Proxies in between answer with anything else;
 * then only the code is known. A Prometheus has an error object of its own, whose sentence is kept.
 *
 * Memory:  nothing is kept; the struct is plain.
 * Threads: pure functions of their arguments.
 *
 * The trap: 409 is two things. AlreadyExists will not go away by reading again; Conflict will.
 */
#ifndef AW_KUBE_STATUS_H
#define AW_KUBE_STATUS_H

#include <aware/err.h>

#include <jansson.h>

#define AW_KUBE_MESSAGE_MAX        320u      /* bytes of a message that are kept, with the NUL */
#define AW_KUBE_RETRY_AFTER_MAX_US 300000000 /* what is longer is taken for a mistake */

/* clang-format off */
/*     name                 in Status              error that it becomes */
#define AW_KUBE_REASON_MAP(X)                                                   \
    X(UNKNOWN,              "",                    AW_ERR_UNAVAILABLE)          \
    X(UNAUTHORIZED,         "Unauthorized",        AW_ERR_CONFIG)               \
    X(FORBIDDEN,            "Forbidden",           AW_ERR_CONFIG)               \
    X(NOT_FOUND,            "NotFound",            AW_ERR_NOTFOUND)             \
    X(ALREADY_EXISTS,       "AlreadyExists",       AW_ERR_EXISTS)               \
    X(CONFLICT,             "Conflict",            AW_ERR_CONFLICT)             \
    X(GONE,                 "Gone",                AW_ERR_NODATA)               \
    X(EXPIRED,              "Expired",             AW_ERR_NODATA)               \
    X(INVALID,              "Invalid",             AW_ERR_RANGE)                \
    X(BAD_REQUEST,          "BadRequest",          AW_ERR_FORMAT)               \
    X(METHOD_NOT_ALLOWED,   "MethodNotAllowed",    AW_ERR_UNSUPPORTED)          \
    X(NOT_ACCEPTABLE,       "NotAcceptable",       AW_ERR_UNSUPPORTED)          \
    X(UNSUPPORTED_MEDIA,    "UnsupportedMediaType", AW_ERR_UNSUPPORTED)         \
    X(TOO_LARGE,            "RequestEntityTooLarge", AW_ERR_LIMIT)              \
    X(TOO_MANY_REQUESTS,    "TooManyRequests",     AW_ERR_UNAVAILABLE)          \
    X(SERVER_TIMEOUT,       "ServerTimeout",       AW_ERR_DEADLINE)             \
    X(TIMEOUT,              "Timeout",             AW_ERR_DEADLINE)             \
    X(INTERNAL,             "InternalError",       AW_ERR_UNAVAILABLE)          \
    X(UNAVAILABLE,          "ServiceUnavailable",  AW_ERR_UNAVAILABLE)
/* clang-format on */

enum aw_kube_reason {
#define X(name, text, err) AW_KUBE_##name,
    AW_KUBE_REASON_MAP(X)
#undef X
};

/* Zeroed: no answer. */
struct aw_kube_status {
    int code;                          /* HTTP; 0: no answer */
    enum aw_kube_reason reason;        /* from the object, else from the code */
    int64_t retry_after_us;            /* 0: not said */
    char message[AW_KUBE_MESSAGE_MAX]; /* one printable line; "": none */
};

const char *aw_kube_reason_name(enum aw_kube_reason reason); /* "NotFound"; "" for UNKNOWN */

/* Reads the answer to a request. `http_code` is what the line said; 0 for an object that came
 * inside a watch, which has its own. `body` need not be JSON. `retry_after` is the header, in
 * seconds; NULL or "": none. Never fails: what cannot be read is left out. */
void aw_kube_status_read(struct aw_kube_status *ret_status, int http_code, const char *body,
                         size_t len, const char *retry_after);
/* The same from an object that has been parsed. */
void aw_kube_status_read_json(struct aw_kube_status *ret_status, int http_code, const json_t *body);

/* AW_OK for 2xx. */
enum aw_err aw_kube_status_err(const struct aw_kube_status *status);
/* Whether a list or watch has to begin anew: its version has been compacted away. */
bool aw_kube_status_is_gone(const struct aw_kube_status *status);

/* Keeps of a stranger's text what a terminal can show, on one line; cut at `size`. */
void aw__kube_one_line(const char *text, char *buf, size_t size);

#endif
