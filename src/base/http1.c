/* http1.c - a line at a time; every byte is looked at twice at most. */
#include "base/http1.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

enum {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_CR,
    CHUNK_LF,
    TRAILER_START,
    TRAILER,
    TRAILER_LF,
    LAST_LF
};

/* RFC 9110 section 5.6.2. */
static bool is_token(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* RFC 9110 section 5.5: what a value may hold, space and tab included. */
static bool is_field(unsigned char c)
{
    return c == '\t' || (c >= 0x20 && c != 0x7f);
}

static bool all(struct aw_http1_span span, bool (*is)(unsigned char c))
{
    for (size_t i = 0; i < span.len; i++) {
        if (!is((unsigned char)span.at[i]))
            return false;
    }
    return true;
}

static bool same_word(struct aw_http1_span span, const char *word)
{
    return span.len == strlen(word) && !strncasecmp(span.at, word, span.len);
}

bool aw_http1_is(struct aw_http1_span span, const char *text)
{
    return span.len == strlen(text) && !memcmp(span.at, text, span.len);
}

static struct aw_http1_span trimmed(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    return (struct aw_http1_span){from, (size_t)(to - from)};
}

static enum aw_err bad(struct aw_diag *diag, enum aw_err err, const char *what,
                       struct aw_http1_span found)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    return aw_fail(diag, err, "expected %s, found %s", what,
                   aw_text_quote(found.at, found.len, quoted, sizeof quoted));
}

/* The end of the head, just behind its empty line. */
static enum aw_err head_end(const char *bytes, size_t len, size_t *ret, struct aw_diag *diag)
{
    const size_t seen = len < AW_HTTP1_HEAD_BYTES_MAX ? len : AW_HTTP1_HEAD_BYTES_MAX;
    const char *end = memmem(bytes, seen, "\r\n\r\n", 4);
    if (end) {
        *ret = (size_t)(end - bytes) + 4;
        return AW_OK;
    }
    if (len >= AW_HTTP1_HEAD_BYTES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "a head of more than %u bytes", AW_HTTP1_HEAD_BYTES_MAX);
    return aw_fail(diag, AW_ERR_NODATA, "a head without its end");
}

static struct aw_http1_span line_at(const char *bytes, size_t at, size_t end)
{
    const char *stop = memmem(bytes + at, end - at, "\r\n", 2);
    return (struct aw_http1_span){bytes + at, (size_t)(stop - (bytes + at))};
}

static enum aw_err headers_read(struct aw_http1_head *head, const char *bytes, size_t at,
                                struct aw_diag *diag)
{
    while (at < head->bytes - 2) {
        struct aw_http1_span line = line_at(bytes, at, head->bytes);
        at += line.len + 2;
        const char *colon = memchr(line.at, ':', line.len);
        if (!colon || colon == line.at)
            return bad(diag, AW_ERR_FORMAT, "\"name: value\"", line);
        if (head->header_count == AW_HTTP1_HEADERS_MAX)
            return aw_fail(diag, AW_ERR_LIMIT, "more than %u headers", AW_HTTP1_HEADERS_MAX);
        struct aw_http1_header *header = &head->header[head->header_count++];
        header->name = (struct aw_http1_span){line.at, (size_t)(colon - line.at)};
        header->value = trimmed(colon + 1, line.at + line.len);
        if (!all(header->name, is_token))
            return bad(diag, AW_ERR_FORMAT, "a header's name", header->name);
        if (!all(header->value, is_field))
            return bad(diag, AW_ERR_FORMAT, "a header's value", header->value);
    }
    return AW_OK;
}

static enum aw_err length_read(struct aw_http1_span value, uint64_t *ret, struct aw_diag *diag)
{
    uint64_t length = 0;
    if (!value.len)
        return bad(diag, AW_ERR_FORMAT, "a content length in digits", value);
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return bad(diag, AW_ERR_FORMAT, "a content length in digits", value);
        length = 10 * length + (uint64_t)(value.at[i] - '0');
        if (length > AW_HTTP1_BODY_BYTES_MAX)
            return bad(diag, AW_ERR_LIMIT, "a content length that can be", value);
    }
    *ret = length;
    return AW_OK;
}

/* "close" and "keep-alive" among the words of Connection. */
static void connection_read(struct aw_http1_span value, struct aw_http1_head *head)
{
    const char *at = value.at, *end = value.at + value.len;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        struct aw_http1_span word = trimmed(at, comma ? comma : end);
        if (same_word(word, "close"))
            head->keep_alive = false;
        else if (same_word(word, "keep-alive"))
            head->keep_alive = true;
        if (!comma)
            break;
        at = comma + 1;
    }
}

/* What the headers say about the message as a whole. `minor` is that of HTTP/1.minor. */
static enum aw_err meaning_read(struct aw_http1_head *head, int minor, bool request,
                                struct aw_diag *diag)
{
    bool has_length = false, closes = false;
    uint32_t hosts = 0, codings = 0;
    head->keep_alive = minor == 1;
    head->framing = request ? AW_HTTP1_EMPTY : AW_HTTP1_UNTIL_CLOSE;
    for (uint32_t i = 0; i < head->header_count; i++) {
        const struct aw_http1_header *h = &head->header[i];
        if (same_word(h->name, "content-length")) {
            if (has_length)
                return bad(diag, AW_ERR_FORMAT, "one content length", h->value);
            enum aw_err err = length_read(h->value, &head->length, diag);
            if (err)
                return err;
            has_length = true;
        } else if (same_word(h->name, "transfer-encoding")) {
            if (codings++ || !same_word(h->value, "chunked"))
                return bad(diag, AW_ERR_UNSUPPORTED, "the transfer coding \"chunked\"", h->value);
        } else if (same_word(h->name, "host")) {
            hosts++;
        } else if (same_word(h->name, "connection")) {
            connection_read(h->value, head);
            closes |= !head->keep_alive; /* a close said once stays said */
        } else if (same_word(h->name, "expect")) {
            head->expect_continue = same_word(h->value, "100-continue");
        }
    }
    head->keep_alive &= !closes;
    if (has_length && codings) /* the classic of request smuggling: RFC 9112 section 6.3 */
        return aw_fail(diag, AW_ERR_FORMAT, "expected a content length or chunks, found both");
    if (codings && minor == 0)
        return aw_fail(diag, AW_ERR_FORMAT, "expected no chunks from HTTP/1.0, found them");
    if (request && hosts != (minor == 1) && hosts != 1)
        return aw_fail(diag, AW_ERR_FORMAT, "expected one Host, found %u", hosts);
    if (has_length)
        head->framing = AW_HTTP1_LENGTH;
    else if (codings)
        head->framing = AW_HTTP1_CHUNKED;
    return AW_OK;
}

/* The minor version of "HTTP/1.x"; -1: no HTTP at all, -2: another version. */
static int version_read(struct aw_http1_span text)
{
    if (text.len != 8 || memcmp(text.at, "HTTP/", 5) != 0 || text.at[6] != '.')
        return -1;
    if (text.at[5] != '1' || (text.at[7] != '0' && text.at[7] != '1'))
        return -2;
    return text.at[7] - '0';
}

/* RFC 3986: what a path and a query are made of; whatever else must be percent-encoded. */
static bool is_target(unsigned char c)
{
    return c > 0x20 && c < 0x7f && c != '#' && c != '"' && c != '<' && c != '>';
}

enum aw_err aw_http1_request(const char *bytes, size_t len, struct aw_http1_head *ret,
                             struct aw_diag *diag)
{
    struct aw_http1_head head;
    head.bytes = 0;
    head.header_count = 0;
    head.status = 0;
    head.length = 0;
    head.expect_continue = false;
    enum aw_err err = head_end(bytes, len, &head.bytes, diag);
    if (err)
        return err;
    const struct aw_http1_span line = line_at(bytes, 0, head.bytes);
    const char *first = memchr(line.at, ' ', line.len);
    const char *second =
        first ? memchr(first + 1, ' ', line.len - (size_t)(first + 1 - line.at)) : NULL;
    if (!second)
        return bad(diag, AW_ERR_FORMAT, "\"METHOD /path HTTP/1.1\"", line);
    head.method = (struct aw_http1_span){line.at, (size_t)(first - line.at)};
    struct aw_http1_span target = {first + 1, (size_t)(second - first - 1)};
    const int minor =
        version_read((struct aw_http1_span){second + 1, line.len - (size_t)(second + 1 - line.at)});
    if (!head.method.len || !all(head.method, is_token) || minor == -1)
        return bad(diag, AW_ERR_FORMAT, "\"METHOD /path HTTP/1.1\"", line);
    if (minor < 0)
        return bad(diag, AW_ERR_UNSUPPORTED, "HTTP/1.0 or HTTP/1.1", line);
    if (!all(target, is_target))
        return bad(diag, AW_ERR_FORMAT, "a path of printable characters", target);
    if (!target.len || target.at[0] != '/')
        return bad(diag, AW_ERR_UNSUPPORTED, "a path that begins with /", target);
    const char *mark = memchr(target.at, '?', target.len);
    head.path = (struct aw_http1_span){target.at, mark ? (size_t)(mark - target.at) : target.len};
    head.query = mark ? (struct aw_http1_span){mark + 1, target.len - head.path.len - 1}
                      : (struct aw_http1_span){NULL, 0};
    if ((err = headers_read(&head, bytes, line.len + 2, diag)) ||
        (err = meaning_read(&head, minor, true, diag)))
        return err;
    *ret = head;
    return AW_OK;
}

enum aw_err aw_http1_response(const char *bytes, size_t len, bool to_head,
                              struct aw_http1_head *ret, struct aw_diag *diag)
{
    struct aw_http1_head head;
    head.method = head.path = head.query = (struct aw_http1_span){NULL, 0};
    head.bytes = 0;
    head.header_count = 0;
    head.length = 0;
    head.expect_continue = false;
    enum aw_err err = head_end(bytes, len, &head.bytes, diag);
    if (err)
        return err;
    /* "HTTP/1.1 200 OK"; the reason may be empty, and some leave out even the space before it */
    const struct aw_http1_span line = line_at(bytes, 0, head.bytes);
    const int minor = line.len < 12 ? -1 : version_read((struct aw_http1_span){line.at, 8});
    if (minor == -2)
        return bad(diag, AW_ERR_UNSUPPORTED, "HTTP/1.0 or HTTP/1.1", line);
    if (minor < 0 || line.at[8] != ' ' || (line.len > 12 && line.at[12] != ' ') ||
        !all((struct aw_http1_span){line.at, line.len}, is_field))
        return bad(diag, AW_ERR_FORMAT, "\"HTTP/1.1 200 OK\"", line);
    head.status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (line.at[i] < '0' || line.at[i] > '9')
            return bad(diag, AW_ERR_FORMAT, "a status of three digits", line);
        head.status = 10 * head.status + (line.at[i] - '0');
    }
    if (head.status < 100 || head.status > 599)
        return bad(diag, AW_ERR_FORMAT, "a status from 100 to 599", line);
    if ((err = headers_read(&head, bytes, line.len + 2, diag)) ||
        (err = meaning_read(&head, minor, false, diag)))
        return err;
    if (to_head || head.status < 200 || head.status == 204 || head.status == 304) {
        head.framing = AW_HTTP1_EMPTY;
        head.length = 0;
    }
    head.keep_alive &= head.framing != AW_HTTP1_UNTIL_CLOSE;
    *ret = head;
    return AW_OK;
}

struct aw_http1_span aw_http1_find(const struct aw_http1_head *head, const char *name)
{
    for (uint32_t i = 0; i < head->header_count; i++) {
        if (same_word(head->header[i].name, name))
            return head->header[i].value;
    }
    return (struct aw_http1_span){NULL, 0};
}

struct aw_http1_span aw_http1_query(struct aw_http1_span query, const char *key)
{
    const size_t key_len = strlen(key);
    const char *at = query.len ? query.at : "", *end = at + query.len;
    while (at < end) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > key_len && !memcmp(at, key, key_len) && at[key_len] == '=')
            return (struct aw_http1_span){at + key_len + 1, (size_t)(stop - at) - key_len - 1};
        at = stop + 1;
    }
    return (struct aw_http1_span){NULL, 0};
}

/* ---- chunked ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* One byte outside of a chunk's data. */
static enum aw_err chunk_byte(struct aw_http1_chunks *k, char c)
{
    if (k->state >= TRAILER_START && ++k->trailer_bytes > AW_HTTP1_TRAILER_MAX)
        return AW_ERR_LIMIT;
    switch (k->state) {
    case CHUNK_SIZE:
        if (hex(c) >= 0) {
            k->left = 16 * k->left + (uint64_t)hex(c);
            return k->left > AW_HTTP1_BODY_BYTES_MAX || ++k->line_bytes > AW_HTTP1_CHUNK_LINE_MAX
                       ? AW_ERR_LIMIT
                       : AW_OK;
        }
        if (!k->line_bytes || (c != ';' && c != '\r'))
            return AW_ERR_FORMAT;
        k->state = c == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
        return AW_OK;
    case CHUNK_EXTENSION:
        if (c == '\r')
            k->state = CHUNK_SIZE_LF;
        else if (!is_field((unsigned char)c))
            return AW_ERR_FORMAT;
        return ++k->line_bytes > AW_HTTP1_CHUNK_LINE_MAX ? AW_ERR_LIMIT : AW_OK;
    case CHUNK_SIZE_LF:
        k->state = k->left ? CHUNK_DATA : TRAILER_START;
        k->line_bytes = 0;
        return c == '\n' ? AW_OK : AW_ERR_FORMAT;
    case CHUNK_CR:
        k->state = CHUNK_LF;
        return c == '\r' ? AW_OK : AW_ERR_FORMAT;
    case CHUNK_LF:
        k->state = CHUNK_SIZE;
        return c == '\n' ? AW_OK : AW_ERR_FORMAT;
    case TRAILER_START:
        k->state = c == '\r' ? LAST_LF : TRAILER;
        return c == '\r' || is_token((unsigned char)c) ? AW_OK : AW_ERR_FORMAT;
    case TRAILER:
        if (c == '\r')
            k->state = TRAILER_LF;
        return c == '\r' || is_field((unsigned char)c) ? AW_OK : AW_ERR_FORMAT;
    case TRAILER_LF:
        k->state = TRAILER_START;
        return c == '\n' ? AW_OK : AW_ERR_FORMAT;
    case LAST_LF:
        k->done = true;
        return c == '\n' ? AW_OK : AW_ERR_FORMAT;
    }
    return AW_ERR_FORMAT;
}

enum aw_err aw_http1_chunks_take(struct aw_http1_chunks *chunks, const char *bytes, size_t len,
                                 size_t *ret_used, struct aw_http1_span *ret_data)
{
    size_t used = 0;
    struct aw_http1_span data = {bytes, 0};
    while (used < len && !chunks->done && chunks->state != CHUNK_DATA) {
        enum aw_err err = chunk_byte(chunks, bytes[used++]);
        if (err)
            return err;
    }
    if (chunks->state == CHUNK_DATA) {
        const uint64_t left = len - used;
        const size_t take = (size_t)(chunks->left < left ? chunks->left : left);
        data = (struct aw_http1_span){bytes + used, take};
        used += take;
        chunks->left -= take;
        if (!chunks->left)
            chunks->state = CHUNK_CR;
    }
    *ret_used = used;
    *ret_data = data;
    return AW_OK;
}
