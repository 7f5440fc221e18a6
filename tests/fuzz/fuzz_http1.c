/*
 * fuzz_http1.c - any bytes as a request, as a response and as a chunked body.
 *
 * A head that was read lies within its bytes, is read the same from more of them and not at all
 * from fewer; a body comes out the same whether it is taken at once or a byte at a time.
 */
#include "fuzz.h"

#include "base/http1.h"

#include <stdlib.h>
#include <string.h>

static void check_inside(struct aw_http1_span span, const char *bytes, size_t len)
{
    AW_ASSERT(span.len == 0 ||
              (span.at >= bytes && span.len <= len && (size_t)(span.at - bytes) <= len - span.len));
}

static enum aw_err parse(bool request, const char *bytes, size_t len, struct aw_http1_head *head,
                         struct aw_diag *diag)
{
    return request ? aw_http1_request(bytes, len, head, diag)
                   : aw_http1_response(bytes, len, false, head, diag);
}

static void check_head(bool request, const char *bytes, size_t len)
{
    struct aw_http1_head head, again;
    struct aw_diag diag = {0};
    const enum aw_err err = parse(request, bytes, len, &head, &diag);
    if (err) {
        check_refusal(&diag, err);
        return;
    }
    AW_ASSERT(head.bytes >= 4 && head.bytes <= len && head.bytes <= AW_HTTP1_HEAD_BYTES_MAX);
    AW_ASSERT(head.header_count <= AW_HTTP1_HEADERS_MAX);
    AW_ASSERT(head.length <= AW_HTTP1_BODY_BYTES_MAX);
    AW_ASSERT(!request || (head.path.len && head.path.at[0] == '/'));
    AW_ASSERT(request || (head.status >= 100 && head.status < 600));
    check_inside(head.method, bytes, head.bytes);
    check_inside(head.path, bytes, head.bytes);
    check_inside(head.query, bytes, head.bytes);
    for (uint32_t i = 0; i < head.header_count; i++) {
        check_inside(head.header[i].name, bytes, head.bytes);
        check_inside(head.header[i].value, bytes, head.bytes);
        AW_ASSERT(head.header[i].name.len);
        AW_ASSERT(!memchr(head.header[i].value.at, '\n', head.header[i].value.len));
        AW_ASSERT(!memchr(head.header[i].value.at, '\r', head.header[i].value.len));
    }
    check_inside(aw_http1_query(head.query, "a"), bytes, head.bytes);
    AW_ASSERT(parse(request, bytes, head.bytes, &again, NULL) == AW_OK);
    AW_ASSERT(again.bytes == head.bytes && again.framing == head.framing &&
              again.length == head.length && again.keep_alive == head.keep_alive);
    AW_ASSERT(parse(request, bytes, head.bytes - 1, &again, NULL) == AW_ERR_NODATA);
}

/* How it ended: bytes taken, and what came out. */
struct ended {
    enum aw_err err;
    bool done;
    size_t used, len;
    uint64_t sum;
};

static struct ended chunks_take(const char *bytes, size_t len, size_t step)
{
    struct aw_http1_chunks chunks = {0};
    struct ended ended = {0};
    while (ended.used < len && !chunks.done && !ended.err) {
        const size_t have = len - ended.used < step ? len - ended.used : step;
        struct aw_http1_span data;
        size_t used = 0;
        ended.err = aw_http1_chunks_take(&chunks, bytes + ended.used, have, &used, &data);
        if (ended.err)
            break;
        AW_ASSERT(used > 0 && used <= have);
        check_inside(data, bytes, len);
        for (size_t i = 0; i < data.len; i++)
            ended.sum = ended.sum * 31 + (unsigned char)data.at[i];
        ended.len += data.len;
        ended.used += used;
    }
    ended.done = chunks.done;
    return ended;
}

static void check_chunks(const char *bytes, size_t len)
{
    const struct ended whole = chunks_take(bytes, len, len), each = chunks_take(bytes, len, 1);
    AW_ASSERT(whole.err == each.err && whole.done == each.done);
    AW_ASSERT(whole.err ||
              (whole.used == each.used && whole.len == each.len && whole.sum == each.sum));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* a block of its own size, so that a byte too far is found */
    char *bytes = malloc(size ? size : 1);
    AW_ASSERT(bytes);
    memcpy(bytes, data, size);
    check_head(true, bytes, size);
    check_head(false, bytes, size);
    check_chunks(bytes, size);
    free(bytes);
    return 0;
}
