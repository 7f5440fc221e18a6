/* frame.c - heads and bodies of HTTP/1.1, by their lengths. */
#include "cluster/local/frame.h"

#include "base/mux_frame.h"

static enum aw__frame_result result_of(enum aw_err err)
{
    switch (err) {
    case AW_OK:
        return AW__FRAME_OK;
    case AW_ERR_NODATA:
        return AW__FRAME_MORE;
    case AW_ERR_LIMIT:
        return AW__FRAME_LARGE;
    case AW_ERR_UNSUPPORTED:
        return AW__FRAME_OTHER;
    default:
        return AW__FRAME_BAD;
    }
}

static struct aw__frame_head head_of(const struct aw_http1_head *head)
{
    return (struct aw__frame_head){
        .bytes = head->bytes,
        .keep_alive = head->keep_alive,
        .status = (uint32_t)head->status,
        .body = (uint32_t)head->framing,
        .length = head->length,
    };
}

enum aw__frame_result aw__frame_request(const char *bytes, size_t len,
                                        struct aw__frame_head *ret_head)
{
    struct aw_http1_head head;
    const enum aw__frame_result result = result_of(aw_http1_request(bytes, len, &head, NULL));
    if (result != AW__FRAME_OK)
        return result;
    /* trunks are between a balancer and its replicas */
    const struct aw_http1_span upgrade = aw_http1_find(&head, "upgrade");
    if (upgrade.at && aw_http1_is(upgrade, AW_MUX_FRAME_UPGRADE))
        return AW__FRAME_OTHER;
    *ret_head = head_of(&head);
    ret_head->is_head = aw_http1_is(head.method, "HEAD");
    ret_head->is_safe = ret_head->is_head || aw_http1_is(head.method, "GET");
    return AW__FRAME_OK;
}

enum aw__frame_result aw__frame_response(const char *bytes, size_t len, bool to_head,
                                         struct aw__frame_head *ret_head)
{
    struct aw_http1_head head;
    const enum aw__frame_result result =
        result_of(aw_http1_response(bytes, len, to_head, &head, NULL));
    if (result == AW__FRAME_OK)
        *ret_head = head_of(&head);
    return result;
}

void aw__frame_begin(struct aw__frame *frame, const struct aw__frame_head *head)
{
    const bool counted = head->body == AW_HTTP1_LENGTH;
    *frame =
        (struct aw__frame){.body = head->body,
                           .left = counted ? head->length : 0,
                           .done = head->body == AW_HTTP1_EMPTY || (counted && head->length == 0)};
}

static bool chunked_take(struct aw__frame *frame, const char *bytes, size_t len, size_t *ret_used)
{
    size_t at = 0;
    while (at < len && !frame->chunks.done) {
        struct aw_http1_span data;
        size_t used = 0;
        if (aw_http1_chunks_take(&frame->chunks, bytes + at, len - at, &used, &data))
            return false;
        at += used;
    }
    frame->done = frame->chunks.done;
    *ret_used = at;
    return true;
}

bool aw__frame_take(struct aw__frame *frame, const char *bytes, size_t len, size_t *ret_used)
{
    *ret_used = 0;
    if (frame->done)
        return true;
    switch ((enum aw_http1_framing)frame->body) {
    case AW_HTTP1_CHUNKED:
        return chunked_take(frame, bytes, len, ret_used);
    case AW_HTTP1_LENGTH:
        *ret_used = frame->left < len ? (size_t)frame->left : len;
        frame->left -= *ret_used;
        frame->done = frame->left == 0;
        return true;
    case AW_HTTP1_UNTIL_CLOSE:
        *ret_used = len;
        return true;
    case AW_HTTP1_EMPTY:
        break;
    }
    return true;
}
