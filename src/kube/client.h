/*
 * client.h - a client of the Kubernetes API: requests with deadlines, retries and a rate limit.
 *
 * A request is tried again where that is harmless: after 429 and 5xx, after a broken connection,
 * with doubling waits of which half is chance, never before the server's Retry-After, never beyond
 * the deadline. A POST is sent again only when the server said that it did not take it (429, or
 * 5xx with Retry-After) or when nothing was sent. After a 401 the credential is renewed once.
 *
 * Call order: aw_kube_config_load, open, requests and watches, aw_kube_wait in the loop, close.
 * Memory:     answers are jansson values, which live on the process heap; the buffer of an answer
 *             grows to `answer_bytes_max`, and of one that was large nothing is kept beyond the
 *             next request.
 * Threads:    single owner; aw_kube_stop may be called from any thread and from a signal handler.
 *
 * The trap: an error tells what happened to the last attempt. After AW_ERR_DEADLINE or a broken
 * connection a write may have been done; read before writing again.
 */
#ifndef AW_KUBE_CLIENT_H
#define AW_KUBE_CLIENT_H

#include "base/clock.h"
#include "base/rng.h"
#include "kube/config.h"
#include "kube/object.h"
#include "kube/slices.h"
#include "kube/status.h"

#define AW_KUBE_TIMEOUT_US       30000000
#define AW_KUBE_RATE_DEFAULT     20.0 /* requests per second; KEDA's default, VPA's 5 is too few */
#define AW_KUBE_BURST_DEFAULT    40u
#define AW_KUBE_ATTEMPTS_DEFAULT 8u
#define AW_KUBE_BACKOFF_FIRST_US 100000
#define AW_KUBE_BACKOFF_MAX_US   10000000
#define AW_KUBE_ANSWER_MAX       ((size_t)64 << 20) /* a page of a list; objects are below 3 MiB */
#define AW_KUBE_BODY_MAX         ((size_t)3 << 20)  /* of a request: what the API server takes */

/* Zeroed is all defaults. */
struct aw_kube_options {
    const struct aw_clock *clock; /* NULL: the real one */
    uint64_t seed;                /* of the jitter */
    double requests_per_second;
    uint32_t burst;
    uint32_t attempts_max; /* of one request, with the first */
    int64_t timeout_us;    /* of a request that says none, with all its attempts and waits */
    size_t answer_bytes_max;
};

struct aw_kube_request {
    const char *method;       /* NULL: GET */
    const char *path;         /* from aw_kube_path, with its query */
    const char *content_type; /* of the body; NULL: application/json */
    const json_t *body;       /* NULL: none */
    const char *text;         /* a body that is not JSON, with its content_type; NULL: none */
    /* The array of the answer that is long ("items"), and where its items go: they are not in
     * `ret_body`, and can be had until the client's next request. NULL: the answer comes whole. */
    const char *split;
    struct aw_kube_slices *slices;
    int64_t timeout_us; /* 0: the client's */
    bool once;          /* any answer is an answer: a refusal is not tried again */
    bool last_words;    /* sent even though the client was told to stop */
};

/* What a client has done so far; for metrics. */
struct aw_kube_counts {
    uint64_t requests;      /* attempts that were begun, watches too */
    uint64_t retries;       /* of them, not the first */
    uint64_t refused;       /* answers 429 */
    uint64_t server_errors; /* answers 5xx */
    uint64_t unanswered;    /* no answer, or not all of it */
    uint64_t held;          /* waited for our own rate limit */
    int64_t held_us;
};

struct aw_kube;

/* `config` is borrowed until close. AW_ERR_CONFIG: a malformed address; AW_ERR_NOMEM. Nothing is
 * sent yet. */
AW_NODISCARD enum aw_err aw_kube_open(struct aw_kube **ret_kube,
                                      const struct aw_kube_config *config,
                                      const struct aw_kube_options *options,
                                      const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_kube_close(struct aw_kube *kube); /* NULL is a no-op; every watch must be closed */

/* AW_OK for 2xx, with the answer in `ret_body` (the caller's to decref; NULL for an empty one).
 * Else what the Status meant (status.h); AW_ERR_UNAVAILABLE: no answer; AW_ERR_DEADLINE;
 * AW_ERR_CONFIG: certificate, credential or rights; AW_ERR_INTERRUPTED: told to stop; AW_ERR_LIMIT;
 * AW_ERR_FORMAT: the answer was not JSON. `ret_body` is untouched on failure; `ret_status` is
 * always filled, zeroed without an answer. Both may be NULL. */
AW_NODISCARD enum aw_err aw_kube_send(struct aw_kube *kube, const struct aw_kube_request *request,
                                      json_t **ret_body, struct aw_kube_status *ret_status,
                                      struct aw_diag *diag);

/* Waits until a watch has something or `until_us` (monotonic; with a clock that
 * tests move by hand only an earlier time ends it). Watches advance meanwhile; what they bring is
 * fetched by their owners. AW_ERR_INTERRUPTED: told to stop. */
AW_NODISCARD enum aw_err aw_kube_wait(struct aw_kube *kube, int64_t until_us);
/* From now on waits end and requests fail with AW_ERR_INTERRUPTED, but for last words. */
void aw_kube_stop(struct aw_kube *kube);

const struct aw_kube_counts *aw_kube_counts(const struct aw_kube *kube);
const struct aw_kube_config *aw_kube_where(const struct aw_kube *kube);

#endif
