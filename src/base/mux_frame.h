/*
 * mux_frame.h - many requests on one connection: frames between a balancer and a replica.
 *
 * A Unix socket that carries one request at a time costs a call and a waking for each of them, on
 * both sides. On a trunk a sender puts several messages into one call. A trunk begins as a request
 * of HTTP with "Upgrade: aware-trunk", answered with 101 by a server that knows trunks, with
 * anything else by other servers. From then on each request is a stream, numbered by the client:
 *
 *     REQUEST ->            a whole request of HTTP/1.1
 *             <- ANSWER     bytes of its answer, as they are; the last ones say so
 *     CREDIT  ->            so many of them have been passed on, so many more may come
 *     CANCEL  ->            the client no longer waits for it
 *             <- REFUSED    not looked at: may be asked elsewhere
 *             <- FAREWELL   no more requests, please; those that are here are answered
 *
 * An answer has at most AW_MUX_FRAME_WINDOW bytes under way: one slow client holds up no other.
 *
 * Call order: aw_mux_frame_put writes a frame's head in front of its payload; aw_mux_frame_take
 *             finds the frame that bytes begin with.
 * Memory:     the caller's; a payload points into the bytes that were looked at.
 * Threads:    pure functions of their arguments.
 *
 * Numbers are in the machine's own order: both ends are on it.
 */
#ifndef AW_BASE_MUX_FRAME_H
#define AW_BASE_MUX_FRAME_H

#include <aware/err.h>

#define AW_MUX_FRAME_UPGRADE     "aware-trunk"
#define AW_MUX_FRAME_HEAD_BYTES  8u
#define AW_MUX_FRAME_PAYLOAD_MAX 16384u /* bytes; a whole request has room in it */
#define AW_MUX_FRAME_WINDOW      AW_MUX_FRAME_PAYLOAD_MAX /* bytes of an answer without credit */
#define AW_MUX_FRAME_STREAMS_MAX 65536u /* at a time: told apart by their low 16 bits */

enum aw_mux_frame_kind {
    AW_MUX_FRAME_REQUEST = 1,
    AW_MUX_FRAME_ANSWER,
    AW_MUX_FRAME_CREDIT,
    AW_MUX_FRAME_CANCEL,
    AW_MUX_FRAME_REFUSED,
    AW_MUX_FRAME_FAREWELL,
    AW_MUX_FRAME_KIND_END
};

struct aw_mux_frame_frame {
    enum aw_mux_frame_kind kind;
    bool last;       /* ANSWER: nothing of it follows */
    uint32_t stream; /* 0 with FAREWELL */
    uint32_t len;    /* of the payload; CREDIT: the bytes that may come, and no payload */
    const char *payload;
    size_t bytes; /* of all of it */
};

/* AW_MUX_FRAME_HEAD_BYTES at `to`; `payload` of the frame is not looked at. */
void aw_mux_frame_put(char *to, const struct aw_mux_frame_frame *frame);
/* AW_ERR_NODATA: not complete yet. AW_ERR_FORMAT: no frame, and nothing behind it can be trusted.
 * `ret` is untouched on failure. */
AW_NODISCARD enum aw_err aw_mux_frame_take(const char *bytes, size_t len,
                                           struct aw_mux_frame_frame *ret);

#endif
