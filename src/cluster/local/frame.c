/* frame.c - heads and bodies of HTTP/1.1, by their lengths. */
#include "cluster/local/frame.h"

#include <string.h>
#include <strings.h>

#define CHUNK_LINE_MAX 1024u /* bytes of a chunk's size with its extensions */
#define TRAILER_MAX    8192u

/* --- heads ------------------------------------------------------------------------------------ */

struct fields {
    bool has_length, chunked, has_transfer, close, keep_alive;
    uint64_t length;
};

static bool is_token_char(unsigned char c)
{
    return c > ' ' && c < 0x7f && !strchr("()<>@,;:\\\"/[]?={}", c);
}

static void trim(const char **begin, const char **end)
{
    while (*begin < *end && (**begin == ' ' || **begin == '\t'))
        (*begin)++;
    while (*end > *begin && ((*end)[-1] == ' ' || (*end)[-1] == '\t'))
        (*end)--;
}

static bool is_word(const char *begin, const char *end, const char *word)
{
    const size_t len = strlen(word);
    return (size_t)(end - begin) == len && strncasecmp(begin, word, len) == 0;
}

/* Whether one of the comma-separated words of a value is `word`. */
static bool has_word(const char *begin, const char *end, const char *word)
{
    while (begin < end) {
        const char *comma = memchr(begin, ',', (size_t)(end - begin));
        const char *from = begin, *to = comma ? comma : end;
        trim(&from, &to);
        if (is_word(from, to, word))
            return true;
        begin = comma ? comma + 1 : end;
    }
    return false;
}

static bool length_read(const char *begin, const char *end, uint64_t *ret)
{
    uint64_t value = 0;
    if (begin == end || end - begin > 18)
        return false;
    for (; begin < end; begin++) {
        if (*begin < '0' || *begin > '9')
            return false;
        value = 10 * value + (uint64_t)(*begin - '0');
    }
    *ret = value;
    return true;
}

static bool field_read(const char *begin, const char *end, struct fields *fields)
{
    const char *colon = memchr(begin, ':', (size_t)(end - begin));
    if (!colon || colon == begin)
        return false;
    for (const char *c = begin; c < colon; c++) /* a space here is a second reading of the name */
        if (!is_token_char((unsigned char)*c))
            return false;
    const char *value = colon + 1;
    trim(&value, &end);
    if (is_word(begin, colon, "content-length")) {
        uint64_t length;
        if (!length_read(value, end, &length) || (fields->has_length && fields->length != length))
            return false;
        fields->has_length = true;
        fields->length = length;
    } else if (is_word(begin, colon, "transfer-encoding")) {
        if (fields->has_transfer || !is_word(value, end, "chunked"))
            return false;
        fields->has_transfer = fields->chunked = true;
    } else if (is_word(begin, colon, "connection")) {
        fields->close = fields->close || has_word(value, end, "close");
        fields->keep_alive = fields->keep_alive || has_word(value, end, "keep-alive");
    }
    return true;
}

/* Lines behind the first, up to the blank one. */
static bool fields_read(const char *begin, const char *end, struct fields *fields)
{
    while (begin < end) {
        const char *line_end = memchr(begin, '\n', (size_t)(end - begin));
        if (!line_end || line_end == begin || line_end[-1] != '\r')
            return false;
        if (line_end - 1 == begin) /* the blank one */
            return line_end + 1 == end;
        if (!field_read(begin, line_end - 1, fields))
            return false;
        begin = line_end + 1;
    }
    return false;
}

/* The head's length with its blank line; 0: not complete. */
static size_t head_length(const char *bytes, size_t len)
{
    const char *end = memmem(bytes, len, "\r\n\r\n", 4);
    return end ? (size_t)(end - bytes) + 4 : 0;
}

static bool common(const char *bytes, size_t first, bool is_1_1, struct aw__frame_head *head)
{
    struct fields fields = {0};
    if (!fields_read(bytes + first, bytes + head->bytes, &fields))
        return false;
    if (fields.has_length && fields.has_transfer)
        return false;
    head->keep_alive = !fields.close && (is_1_1 || fields.keep_alive);
    head->length = fields.length;
    head->body = fields.chunked                           ? AW__FRAME_CHUNKED
                 : fields.has_length && fields.length > 0 ? AW__FRAME_LENGTH
                 : fields.has_length                      ? AW__FRAME_EMPTY
                                                          : AW__FRAME_TO_END;
    return !(fields.chunked && !is_1_1);
}

/* The end of the first line, behind its line feed; 0: there is no proper one. */
static size_t first_line(const char *bytes, size_t len)
{
    const char *end = memchr(bytes, '\n', len);
    return end && end > bytes && end[-1] == '\r' ? (size_t)(end - bytes) + 1 : 0;
}

enum aw__frame_result aw__frame_request(const char *bytes, size_t len,
                                        struct aw__frame_head *ret_head)
{
    struct aw__frame_head head = {.bytes = head_length(bytes, len)};
    if (head.bytes == 0)
        return AW__FRAME_MORE;
    const size_t first = first_line(bytes, head.bytes);
    size_t method = 0;
    while (method < first && is_token_char((unsigned char)bytes[method]))
        method++;
    if (first < 14 || method == 0 || bytes[method] != ' ')
        return AW__FRAME_BAD;
    const char *version = bytes + first - 2 - 9; /* " HTTP/1.x" */
    if (version <= bytes + method || strncmp(version, " HTTP/1.", 8) != 0)
        return AW__FRAME_BAD;
    if (version[8] != '0' && version[8] != '1')
        return AW__FRAME_BAD;
    if (!common(bytes, first, version[8] == '1', &head))
        return AW__FRAME_BAD;
    head.body = head.body == AW__FRAME_TO_END ? AW__FRAME_EMPTY : head.body;
    head.is_head = method == 4 && memcmp(bytes, "HEAD", 4) == 0;
    head.is_connect = method == 7 && memcmp(bytes, "CONNECT", 7) == 0;
    *ret_head = head;
    return AW__FRAME_OK;
}

enum aw__frame_result aw__frame_response(const char *bytes, size_t len, bool to_head,
                                         struct aw__frame_head *ret_head)
{
    struct aw__frame_head head = {.bytes = head_length(bytes, len)};
    if (head.bytes == 0)
        return AW__FRAME_MORE;
    const size_t first = first_line(bytes, head.bytes);
    if (first < 14 || strncmp(bytes, "HTTP/1.", 7) != 0 || (bytes[7] != '0' && bytes[7] != '1') ||
        bytes[8] != ' ')
        return AW__FRAME_BAD;
    for (uint32_t i = 9; i < 12; i++) {
        if (bytes[i] < '0' || bytes[i] > '9')
            return AW__FRAME_BAD;
        head.status = 10 * head.status + (uint32_t)(bytes[i] - '0');
    }
    if (head.status < 100 || !common(bytes, first, bytes[7] == '1', &head))
        return AW__FRAME_BAD;
    if (to_head || head.status < 200 || head.status == 204 || head.status == 304)
        head.body = AW__FRAME_EMPTY;
    if (head.body == AW__FRAME_TO_END)
        head.keep_alive = false;
    *ret_head = head;
    return AW__FRAME_OK;
}

/* --- bodies ----------------------------------------------------------------------------------- */

enum chunk_state { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LF };

void aw__frame_begin(struct aw__frame *frame, const struct aw__frame_head *head)
{
    *frame = (struct aw__frame){.body = head->body,
                                .left = head->body == AW__FRAME_LENGTH ? head->length : 0,
                                .done = head->body == AW__FRAME_EMPTY};
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of what stands between data. False: malformed. */
static bool chunk_byte(struct aw__frame *frame, char c)
{
    switch ((enum chunk_state)frame->state) {
    case SIZE:
        if (hex(c) >= 0) {
            frame->left = frame->left << 4 | (uint64_t)hex(c);
            return ++frame->line <= 15;
        }
        if (frame->line == 0)
            return false;
        frame->state = c == '\r' ? SIZE_LF : EXTENSION;
        return c == '\r' || c == ';' || c == ' ' || c == '\t';
    case EXTENSION:
        if (c == '\r')
            frame->state = SIZE_LF;
        return c != '\n' && ++frame->line <= CHUNK_LINE_MAX;
    case SIZE_LF:
        frame->line = 0;
        frame->state = frame->left > 0 ? DATA : TRAILER;
        return c == '\n';
    case DATA_CR:
        frame->state = DATA_LF;
        return c == '\r';
    case DATA_LF:
        frame->state = SIZE;
        frame->line = 0;
        return c == '\n';
    case TRAILER: /* `line`: bytes of this line; `left`: of all of them, for its bound */
        if (c == '\r')
            frame->state = TRAILER_LF;
        else
            frame->line++;
        return c != '\n' && ++frame->left <= TRAILER_MAX;
    case TRAILER_LF:
        frame->done = frame->line == 0;
        frame->line = 0;
        frame->state = TRAILER;
        return c == '\n';
    case DATA:
        break;
    }
    return false;
}

static bool chunked_take(struct aw__frame *frame, const char *bytes, size_t len, size_t *ret_used)
{
    size_t at = 0;
    while (at < len && !frame->done) {
        if (frame->state != DATA) {
            if (!chunk_byte(frame, bytes[at++]))
                return false;
            continue;
        }
        const size_t here = frame->left < len - at ? (size_t)frame->left : len - at;
        at += here;
        frame->left -= here;
        if (frame->left == 0)
            frame->state = DATA_CR;
    }
    *ret_used = at;
    return true;
}

bool aw__frame_take(struct aw__frame *frame, const char *bytes, size_t len, size_t *ret_used)
{
    *ret_used = 0;
    if (frame->done)
        return true;
    switch ((enum aw__frame_body)frame->body) {
    case AW__FRAME_CHUNKED:
        return chunked_take(frame, bytes, len, ret_used);
    case AW__FRAME_LENGTH:
        *ret_used = frame->left < len ? (size_t)frame->left : len;
        frame->left -= *ret_used;
        frame->done = frame->left == 0;
        return true;
    case AW__FRAME_TO_END:
        *ret_used = len;
        return true;
    case AW__FRAME_EMPTY:
        break;
    }
    return true;
}
