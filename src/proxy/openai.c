/* openai.c - one pass over a request, one over an answer. */
#include "proxy/openai.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX 100000000u

struct scan {
    const char *at, *end, *begin;
    char *text; /* where the prompt goes */
    size_t text_size, text_len;
    uint32_t depth;
    enum aw_err err;
    const char *wanted; /* what was expected where it failed */
};

static bool fail(struct scan *s, const char *wanted)
{
    if (!s->err) {
        s->err = AW_ERR_FORMAT;
        s->wanted = wanted;
    }
    return false;
}

static void space(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

static bool take(struct scan *s, char c)
{
    space(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

/* The bytes between the quotes, escapes as they are. */
static bool string(struct scan *s, const char **ret, size_t *ret_len)
{
    if (!take(s, '"'))
        return fail(s, "a text in quotes");
    const char *from = s->at;
    while (s->at < s->end && *s->at != '"') {
        if ((unsigned char)*s->at < 0x20)
            return fail(s, "no control character in a text");
        s->at += *s->at == '\\' && s->end - s->at > 1 ? 2 : 1;
    }
    if (s->at >= s->end)
        return fail(s, "the end of a text");
    *ret = from;
    *ret_len = (size_t)(s->at++ - from);
    return true;
}

static int hex4(const char *at, const char *end, uint32_t *ret)
{
    uint32_t value = 0;
    if (end - at < 4)
        return 0;
    for (int i = 0; i < 4; i++) {
        const char c = at[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return 0;
        value = 16 * value + (uint32_t)digit;
    }
    *ret = value;
    return 4;
}

static void put(struct scan *s, char c)
{
    if (s->text_len < s->text_size)
        s->text[s->text_len++] = c;
}

static void put_utf8(struct scan *s, uint32_t c)
{
    if (c < 0x80) {
        put(s, (char)c);
    } else if (c < 0x800) {
        put(s, (char)(0xc0 | c >> 6));
        put(s, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        put(s, (char)(0xe0 | c >> 12));
        put(s, (char)(0x80 | (c >> 6 & 0x3f)));
        put(s, (char)(0x80 | (c & 0x3f)));
    } else {
        put(s, (char)(0xf0 | c >> 18));
        put(s, (char)(0x80 | (c >> 12 & 0x3f)));
        put(s, (char)(0x80 | (c >> 6 & 0x3f)));
        put(s, (char)(0x80 | (c & 0x3f)));
    }
}

/* "\uD83D\uDE00" is one character; half of such a pair is none. */
static const char *put_unicode(struct scan *s, const char *at, const char *end)
{
    uint32_t c = 0, low = 0;
    const int used = hex4(at, end, &c);
    if (!used)
        return at;
    at += used;
    if (c >= 0xd800 && c < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u' &&
        hex4(at + 2, end, &low) && low >= 0xdc00 && low < 0xe000) {
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    }
    put_utf8(s, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
    return at;
}

static void text_add(struct scan *s, const char *at, size_t len)
{
    const char *end = at + len;
    if (s->text_len)
        put(s, '\n');
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        const size_t plain = (size_t)((slash ? slash : end) - at);
        const size_t room = s->text_size - s->text_len, fits = plain < room ? plain : room;
        memcpy(s->text + s->text_len, at, fits);
        s->text_len += fits;
        at += plain;
        if (!slash || end - at < 2)
            break;
        const char c = at[1];
        at += 2;
        if (c == 'u')
            at = put_unicode(s, at, end);
        else
            put(s, c == 'n'               ? '\n'
                   : c == 't'             ? '\t'
                   : c == 'r'             ? '\r'
                   : c == 'b' || c == 'f' ? ' '
                                          : c);
    }
}

static bool is(const char *at, size_t len, const char *word)
{
    return len == strlen(word) && !memcmp(at, word, len);
}

enum keep { KEEP_NONE, KEEP_TEXTS, KEEP_CONTENT };

/* Any value. Its texts are kept (KEEP_TEXTS), or those under "content" and "text" of the objects in
 * it (KEEP_CONTENT). The depth is bounded, so recursion is. */
static bool value(struct scan *s, enum keep keep);

static bool object(struct scan *s, enum keep keep)
{
    if (take(s, '}'))
        return true;
    do {
        const char *key;
        size_t len;
        if (!string(s, &key, &len))
            return false;
        if (!take(s, ':'))
            return fail(s, "a colon");
        const bool content =
            keep == KEEP_CONTENT && (is(key, len, "content") || is(key, len, "text"));
        space(s);
        const bool text = s->at < s->end && *s->at == '"';
        if (!value(s, content && text        ? KEEP_TEXTS
                      : keep == KEEP_CONTENT ? KEEP_CONTENT
                                             : KEEP_NONE))
            return false;
    } while (take(s, ','));
    return take(s, '}') || fail(s, "a comma or the end of an object");
}

static bool list(struct scan *s, enum keep keep)
{
    if (take(s, ']'))
        return true;
    do {
        if (!value(s, keep))
            return false;
    } while (take(s, ','));
    return take(s, ']') || fail(s, "a comma or the end of a list");
}

static bool value(struct scan *s, enum keep keep)
{
    const char *text;
    size_t len;
    bool ok;
    space(s);
    if (s->at == s->end)
        return fail(s, "a value");
    if (*s->at == '"') {
        if (!string(s, &text, &len))
            return false;
        if (keep == KEEP_TEXTS)
            text_add(s, text, len);
        return true;
    }
    if (*s->at == '{' || *s->at == '[') {
        if (++s->depth > AW_OPENAI_DEPTH_MAX) {
            s->err = AW_ERR_LIMIT;
            s->wanted = "fewer levels";
            return false;
        }
        ok = *s->at++ == '{' ? object(s, keep) : list(s, keep);
        s->depth--;
        return ok;
    }
    /* a number, true, false, null: what exactly is the server's business */
    const char *from = s->at;
    while (s->at < s->end &&
           ((*s->at >= '0' && *s->at <= '9') || (*s->at >= 'a' && *s->at <= 'z') || *s->at == 'E' ||
            *s->at == '+' || *s->at == '-' || *s->at == '.'))
        s->at++;
    return s->at > from || fail(s, "a value");
}

static bool member(struct scan *s, struct aw_openai_request *r)
{
    const char *key, *text;
    size_t len, text_len;
    if (!string(s, &key, &len))
        return false;
    if (!take(s, ':'))
        return fail(s, "a colon");
    space(s);
    const char *from = s->at;
    if (is(key, len, "model") && s->at < s->end && *s->at == '"') {
        if (!string(s, &text, &text_len))
            return false;
        const size_t keep = text_len < sizeof r->model ? text_len : 0;
        memcpy(r->model, text, keep);
        r->model[keep] = '\0';
        return true;
    }
    if (!value(s, is(key, len, "prompt")     ? KEEP_TEXTS
                  : is(key, len, "messages") ? KEEP_CONTENT
                                             : KEEP_NONE))
        return false;
    const size_t used = (size_t)(s->at - from);
    if (is(key, len, "stream"))
        r->stream = is(from, used, "true");
    if (is(key, len, "max_tokens") || is(key, len, "max_completion_tokens")) {
        uint64_t number = 0;
        for (size_t i = 0; i < used && from[i] >= '0' && from[i] <= '9' && number < TOKENS_MAX; i++)
            number = 10 * number + (uint64_t)(from[i] - '0');
        r->tokens_max = (uint32_t)(number < TOKENS_MAX ? number : TOKENS_MAX);
    }
    return true;
}

enum aw_err aw_openai_request_read(const char *body, size_t len, char *text, size_t text_size,
                                   struct aw_openai_request *ret, struct aw_diag *diag)
{
    struct scan s = {.at = body,
                     .end = body + len,
                     .begin = body,
                     .text = text,
                     .text_size = text_size,
                     .depth = 1};
    struct aw_openai_request request = {0};
    bool ok = take(&s, '{') || fail(&s, "a JSON object");
    if (ok && !take(&s, '}')) {
        do {
            ok = member(&s, &request);
        } while (ok && take(&s, ','));
        ok = ok && (take(&s, '}') || fail(&s, "a comma or the end of the object"));
    }
    space(&s);
    if (ok && s.at != s.end)
        ok = fail(&s, "nothing after the object");
    if (!ok)
        return aw_fail(diag, s.err, "the body is not as expected at byte %zu: expected %s",
                       (size_t)(s.at - s.begin), s.wanted);
    request.text_len = s.text_len;
    *ret = request;
    return AW_OK;
}

/* ---- answers ---- */

/* The last word in `bytes`, and what stands behind its colon. */
static const char *behind(const char *bytes, size_t len, const char *word)
{
    const size_t word_len = strlen(word);
    const char *found = NULL, *end = bytes + len;
    for (const char *at = bytes; (at = memmem(at, (size_t)(end - at), word, word_len));)
        found = at += word_len;
    while (found && found < end && (*found == '"' || *found == ':' || *found == ' '))
        found++;
    return found && found < end ? found : NULL;
}

static void words(struct aw_openai_answer *answer, const char *bytes, size_t len)
{
    const char *end = bytes + len, *at;
    if ((at = behind(bytes, len, "\"completion_tokens\""))) {
        uint32_t number = 0;
        while (at < end && *at >= '0' && *at <= '9' && number < TOKENS_MAX)
            number = 10 * number + (uint32_t)(*at++ - '0');
        /* one whose digits go on in the next bytes is seen whole with the carry */
        if (at < end && number)
            answer->tokens_told = number;
    }
    if ((at = behind(bytes, len, "\"finish_reason\"")) && end - at >= 6)
        answer->cut |= !memcmp(at, "length", 6);
    answer->done |= !!memmem(bytes, len, "data: [DONE]", 12);
}

static void lines(struct aw_openai_answer *answer, const char *at, size_t len)
{
    static const char data[] = "data:";
    const char *end = at + len;
    while (at < end) {
        if (answer->matched < sizeof data - 1) {
            if (*at == data[answer->matched]) {
                answer->matched++;
                answer->events += answer->matched == sizeof data - 1;
            } else {
                answer->matched = *at == '\n' ? 0 : sizeof data;
            }
            at++;
            continue;
        }
        at = memchr(at, '\n', (size_t)(end - at));
        if (!at)
            return;
        at++;
        answer->matched = 0;
    }
}

void aw_openai_answer_take(struct aw_openai_answer *answer, const char *bytes, size_t len)
{
    char both[2 * AW_OPENAI_CARRY];
    if (!len)
        return;
    lines(answer, bytes, len);
    const size_t first = len < AW_OPENAI_CARRY ? len : AW_OPENAI_CARRY;
    if (answer->carried) {
        memcpy(both, answer->carry, answer->carried);
        memcpy(both + answer->carried, bytes, first);
        words(answer, both, answer->carried + first);
    }
    words(answer, bytes, len);
    if (len >= AW_OPENAI_CARRY) {
        memcpy(answer->carry, bytes + len - AW_OPENAI_CARRY, AW_OPENAI_CARRY);
        answer->carried = AW_OPENAI_CARRY;
    } else {
        const size_t keep =
            answer->carried + len > AW_OPENAI_CARRY ? AW_OPENAI_CARRY - len : answer->carried;
        memmove(answer->carry, answer->carry + answer->carried - keep, keep);
        memcpy(answer->carry + keep, bytes, len);
        answer->carried = (uint8_t)(keep + len);
    }
}

uint32_t aw_openai_answer_tokens(const struct aw_openai_answer *answer)
{
    const uint32_t events = answer->events - (answer->done && answer->events ? 1 : 0);
    return answer->tokens_told ? answer->tokens_told : events;
}
