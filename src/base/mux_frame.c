/* mux_frame.c - frames: a byte for the kind, one for `last`, two for the length, four for the
 * stream. */
#include "base/mux_frame.h"

#include <string.h>

void aw_mux_frame_put(char *to, const struct aw_mux_frame_frame *frame)
{
    AW_ASSERT(frame->len <= AW_MUX_FRAME_PAYLOAD_MAX);
    const uint16_t len = (uint16_t)frame->len;
    to[0] = (char)frame->kind;
    to[1] = (char)frame->last;
    memcpy(to + 2, &len, sizeof len);
    memcpy(to + 4, &frame->stream, sizeof frame->stream);
}

enum aw_err aw_mux_frame_take(const char *bytes, size_t len, struct aw_mux_frame_frame *ret)
{
    struct aw_mux_frame_frame frame = {0};
    uint16_t said;
    if (len < AW_MUX_FRAME_HEAD_BYTES)
        return AW_ERR_NODATA;
    const unsigned char kind = (unsigned char)bytes[0], last = (unsigned char)bytes[1];
    memcpy(&said, bytes + 2, sizeof said);
    memcpy(&frame.stream, bytes + 4, sizeof frame.stream);
    const bool has_len =
        kind == AW_MUX_FRAME_REQUEST || kind == AW_MUX_FRAME_ANSWER || kind == AW_MUX_FRAME_CREDIT;
    if (kind == 0 || kind >= AW_MUX_FRAME_KIND_END || said > AW_MUX_FRAME_PAYLOAD_MAX ||
        (!has_len && said > 0) || last > (kind == AW_MUX_FRAME_ANSWER))
        return AW_ERR_FORMAT;
    frame.kind = (enum aw_mux_frame_kind)kind;
    frame.last = last;
    frame.len = said;
    frame.bytes = AW_MUX_FRAME_HEAD_BYTES + (kind == AW_MUX_FRAME_CREDIT ? 0u : said);
    frame.payload = bytes + AW_MUX_FRAME_HEAD_BYTES;
    if (len < frame.bytes)
        return AW_ERR_NODATA;
    *ret = frame;
    return AW_OK;
}
