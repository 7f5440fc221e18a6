/* mux_frame_testing.h - one end of a trunk, on a plain socket; included by tests alone. */
#ifndef AW_BASE_MUX_FRAME_TESTING_H
#define AW_BASE_MUX_FRAME_TESTING_H

#include "base/mux_frame.h"
#include "base/testing.h"

#include <string.h>
#include <sys/socket.h>

struct trunk_end {
    int fd;
    size_t from, to; /* of `in`: what has come and was not looked at */
    char in[1 << 16];
};

/* `payload` may be NULL, and is with CREDIT. */
static inline void trunk_say(const struct trunk_end *end, enum aw_mux_frame_kind kind,
                             uint32_t stream, const char *payload, uint32_t len, bool last)
{
    static char bytes[AW_MUX_FRAME_HEAD_BYTES + AW_MUX_FRAME_PAYLOAD_MAX];
    const ssize_t whole = (ssize_t)(AW_MUX_FRAME_HEAD_BYTES + (payload ? len : 0));
    aw_mux_frame_put(bytes, &(struct aw_mux_frame_frame){
                                .kind = kind, .stream = stream, .len = len, .last = last});
    if (payload)
        memcpy(bytes + AW_MUX_FRAME_HEAD_BYTES, payload, len);
    assert_int_equal(send(end->fd, bytes, (size_t)whole, MSG_NOSIGNAL), whole);
}

/* The next frame. False: the other side has hung up. */
static inline bool trunk_next(struct trunk_end *end, struct aw_mux_frame_frame *ret)
{
    enum aw_err err;
    while ((err = aw_mux_frame_take(end->in + end->from, end->to - end->from, ret))) {
        assert_int_equal(err, AW_ERR_NODATA);
        memmove(end->in, end->in + end->from, end->to - end->from);
        end->to -= end->from;
        end->from = 0;
        const ssize_t n = recv(end->fd, end->in + end->to, sizeof end->in - end->to, 0);
        if (n <= 0)
            return false;
        end->to += (size_t)n;
    }
    end->from += ret->bytes;
    return true;
}

#endif
