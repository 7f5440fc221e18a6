/*
 * frame.h - where HTTP/1.1 messages begin and end, for a proxy that passes their bytes on
 * unchanged.
 *
 * A balancer that counts requests, and must know whether a connection can carry another one, needs
 * the framing of base/http1.h and nothing else of a message: what is kept of a head is a few words,
 * and what could be read in two ways is refused there.
 *
 * Call order: request or response on a message's first bytes until it does not say MORE,
 *             aw__frame_begin, then aw__frame_take on everything behind the head until `done`.
 * Memory:     the caller's.
 * Threads:    pure functions of their arguments.
 */
#ifndef AW_CLUSTER_LOCAL_FRAME_H
#define AW_CLUSTER_LOCAL_FRAME_H

#include "base/http1.h"

enum aw__frame_result {
    AW__FRAME_MORE, /* not complete yet */
    AW__FRAME_OK,
    AW__FRAME_BAD,   /* malformed */
    AW__FRAME_LARGE, /* its head is too large */
    AW__FRAME_OTHER, /* HTTP, but not of the kind that is passed on: tunnels, other versions */
};

struct aw__frame_head {
    size_t bytes;    /* with the blank line */
    bool keep_alive; /* as far as this side is concerned */
    bool is_head;    /* request: HEAD, whose response has no body */
    bool is_safe;    /* request: GET or HEAD, which may be asked twice (RFC 9110 section 9.2) */
    uint32_t status; /* response */
    uint32_t body;   /* enum aw_http1_framing */
    uint64_t length; /* LENGTH */
};

enum aw__frame_result aw__frame_request(const char *bytes, size_t len,
                                        struct aw__frame_head *ret_head);
/* `to_head`: the request was HEAD. */
enum aw__frame_result aw__frame_response(const char *bytes, size_t len, bool to_head,
                                         struct aw__frame_head *ret_head);

struct aw__frame {
    uint32_t body; /* enum aw_http1_framing */
    bool done;
    uint64_t left; /* LENGTH */
    struct aw_http1_chunks chunks;
};
void aw__frame_begin(struct aw__frame *frame, const struct aw__frame_head *head);
/* How many of `len` bytes belong to the body; `done` when it is complete. False: malformed. */
bool aw__frame_take(struct aw__frame *frame, const char *bytes, size_t len, size_t *ret_used);

#endif
