/*
 * caller.h - requests to one server on loopback, from any number of threads: connections are kept,
 * and each is used by one thread at a time.
 *
 * A kept connection that the server closes just as it is used again is no failure (RFC 9112 section
 * 9.3.1): the request is sent once more, on a new one.
 *
 * Call order: init; call as often as wanted; deinit.
 * Memory:     none; a call has its buffer on the stack (24 KiB).
 * Threads:    call from any.
 */
#ifndef AW_SERVICE_CALLER_H
#define AW_SERVICE_CALLER_H

#include <aware/err.h>
#include <netinet/in.h>
#include <pthread.h>

#define AW__CALLER_KEPT 32u /* idle connections; more are closed after use */

struct aw__caller {
    struct sockaddr_in address;
    int64_t timeout_us;
    pthread_mutex_t lock;
    int kept[AW__CALLER_KEPT];
    uint32_t kept_count;
};

void aw__caller_init(struct aw__caller *caller, const struct sockaddr_in *address,
                     int64_t timeout_us);
void aw__caller_deinit(struct aw__caller *caller);

struct aw__caller_request {
    const char *method, *path; /* "GET", "/" */
    const char *headers;       /* further lines, each with its CRLF; NULL: none */
    const void *body;          /* NULL: none */
    size_t len;
};
/* The status of the answer, whose body is received and dropped. AW_ERR_UNAVAILABLE: no connection,
 * or it was lost, or the time was over; AW_ERR_FORMAT: the answer is no HTTP. `ret_bytes` (or NULL)
 * of the answer's body. */
AW_NODISCARD enum aw_err aw__caller_call(struct aw__caller *caller,
                                         const struct aw__caller_request *request, int *ret_status,
                                         uint64_t *ret_bytes);

#endif
