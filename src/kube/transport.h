/*
 * transport.h - transfers over libcurl's multi interface: answers in memory, and streams of lines.
 *
 * One transport per client; all its transfers advance together in perform and wait, whichever of
 * them the caller waits for. Nothing is called back: bytes are kept until their owner takes them,
 * so a request may be made while lines of a watch are being handled.
 *
 * HTTP/1.1 on purpose: a watch has its connection for itself, so one that is stuck, slow to be read
 * or cut off by a middlebox stalls nothing else. A handful of watches costs a handful of sockets.
 *
 * Call order: init; transfer_start, then perform or wait until done, then transfer_stop; deinit.
 * Memory:     a buffer per transfer, grown by doubling to its maximum, kept for the next one.
 * Threads:    single owner.
 */
#ifndef AW_KUBE_TRANSPORT_H
#define AW_KUBE_TRANSPORT_H

#include <curl/curl.h>

#include "base/clock.h"
#include "kube/credential.h"

#define AW_KUBE_CONNECT_TIMEOUT_MS   10000L
#define AW_KUBE_KEEPALIVE_S          30L   /* of an idle connection, before the peer is asked */
#define AW_KUBE_UNACKED_MS           30000 /* a peer that acknowledges nothing that long is gone */
#define AW_KUBE_STREAM_HIGH          ((size_t)1 << 20) /* unread, at which a stream is held */
#define AW_KUBE_RETRY_AFTER_TEXT_MAX 32u

struct aw__kube_transfer {
    struct aw__kube_transport *transport;
    CURL *easy;
    struct curl_slist *headers;
    char *buf; /* [size] */
    size_t size, max;
    size_t first, len; /* what is kept is buf[first, len) */
    size_t scanned;    /* no newline before it */
    int status;        /* HTTP; 0: nothing has come yet */
    CURLcode code;     /* once done */
    bool stream, busy, done, paused, too_large, no_memory;
    char retry_after[AW_KUBE_RETRY_AFTER_TEXT_MAX];
    char error[CURL_ERROR_SIZE];
};

struct aw__kube_transport {
    const struct aw_kube_config *config;
    CURLM *multi;
    char *base;                    /* what paths are added to */
    char *host_header;             /* "Host: ..." when a tls-server-name hides it; NULL */
    struct curl_slist *connect_to; /* and where to connect to then */
    bool loopback;
};

struct aw__kube_call {
    const char *method;
    const char *path;
    const char *content_type; /* NULL: none */
    const char *body;         /* NULL: none; borrowed until the transfer is stopped */
    size_t body_len;
    int64_t timeout_us; /* of the whole transfer */
};

/* On failure `transport` is zeroed. `config` is borrowed. */
AW_NODISCARD enum aw_err aw__kube_transport_init(struct aw__kube_transport *transport,
                                                 const struct aw_kube_config *config,
                                                 struct aw_diag *diag);
void aw__kube_transport_deinit(struct aw__kube_transport *transport);

/* `bytes_max`: of an answer, or of one line of a stream. On failure `transfer` is zeroed. */
AW_NODISCARD enum aw_err aw__kube_transfer_init(struct aw__kube_transfer *transfer,
                                                struct aw__kube_transport *transport,
                                                size_t bytes_max, bool stream);
void aw__kube_transfer_deinit(struct aw__kube_transfer *transfer); /* zeroed is a no-op */
/* Begins; what comes is in `status`, `buf` and, once `done`, `code`. */
AW_NODISCARD enum aw_err aw__kube_transfer_start(struct aw__kube_transfer *transfer,
                                                 const struct aw__kube_call *call,
                                                 const struct aw_kube_credential *credential,
                                                 struct aw_diag *diag);
void aw__kube_transfer_stop(struct aw__kube_transfer *transfer);
/* What went wrong with one that is done: AW_OK for an answer of any status. */
enum aw_err aw__kube_transfer_result(const struct aw__kube_transfer *transfer, const char *name,
                                     struct aw_diag *diag);
/* Whether it failed before anything was sent: then even a POST may be sent again. */
bool aw__kube_transfer_unsent(const struct aw__kube_transfer *transfer);

/* The next line of a stream, without its newline; false: none is complete. Valid until the next
 * call about this transfer. */
bool aw__kube_transfer_line(struct aw__kube_transfer *transfer, const char **ret_line,
                            size_t *ret_len);

/* Lets all transfers advance without waiting, and with waiting for at most `timeout_us`. */
void aw__kube_transport_perform(struct aw__kube_transport *transport);
void aw__kube_transport_wait(struct aw__kube_transport *transport, int64_t timeout_us);

#endif
