/*
 * frame.h - where HTTP/1.1 messages begin and end, and nothing else of HTTP.
 *
 * A balancer that counts requests, and must know whether a connection can carry another one, needs
 * the framing of RFC 9112 section 6 and no more: bytes pass through as they are. What could be read
 * in two ways (both lengths, folded lines, bare line feeds) is refused, since two readers of such
 * bytes would disagree about where a request begins.
 *
 * Call order: aw__frame_head on a message's first bytes until it says OK, aw__frame_begin, then
 *             aw__frame_take on everything behind the head until `done`.
 * Memory:     the caller's.
 * Threads:    pure functions of their arguments.
 */
#ifndef AW_CLUSTER_LOCAL_FRAME_H
#define AW_CLUSTER_LOCAL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum aw__frame_result { AW__FRAME_MORE, AW__FRAME_OK, AW__FRAME_BAD };
enum aw__frame_body {
    AW__FRAME_EMPTY,
    AW__FRAME_LENGTH,
    AW__FRAME_CHUNKED,
    AW__FRAME_TO_END /* of the connection: responses alone */
};

struct aw__frame_head {
    size_t bytes;    /* with the blank line */
    bool keep_alive; /* as far as this side is concerned */
    bool is_head;    /* request: HEAD, whose response has no body */
    bool is_connect; /* request: CONNECT, which is not a message any more */
    uint32_t status; /* response */
    uint32_t body;   /* enum aw__frame_body */
    uint64_t length; /* LENGTH */
};

enum aw__frame_result aw__frame_request(const char *bytes, size_t len,
                                        struct aw__frame_head *ret_head);
/* `to_head`: the request was HEAD. */
enum aw__frame_result aw__frame_response(const char *bytes, size_t len, bool to_head,
                                         struct aw__frame_head *ret_head);

struct aw__frame {
    uint32_t body, state;
    uint64_t left;
    uint32_t line; /* bytes of the line so far: of a chunk's size or a trailer */
    bool done;
};
void aw__frame_begin(struct aw__frame *frame, const struct aw__frame_head *head);
/* How many of `len` bytes belong to the body; `done` when it is complete. False: malformed. */
bool aw__frame_take(struct aw__frame *frame, const char *bytes, size_t len, size_t *ret_used);

#endif
