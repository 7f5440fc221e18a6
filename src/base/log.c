/*
 * log.c - builds a line in a fixed buffer and hands it to the kernel in one write.
 *
 * The buffer keeps TAIL bytes in reserve, so that a line that had to be cut can always be closed
 * and marked: a JSON line stays valid JSON whatever is written. Text from outside may carry
 * anything; control characters are escaped, so that a value cannot forge a line or steer a
 * terminal.
 */
#include "base/log.h"

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAIL         32 /* bytes: closes a string and a line, with the mark of a cut between */
#define JSON_CUT     ",\"cut\":true"
#define TEXT_CUT     " [cut]"
#define COLOUR_RESET "\x1b[0m"
#define COLOUR_DIM   "\x1b[2m"

static const struct {
    const char *name, *padded, *colour, *priority; /* of syslog(3) */
} levels[] = {
    [AW_LOG_ERROR] = {"error", "error", "\x1b[31m", "<3>"},
    [AW_LOG_WARN] = {"warn", "warn ", "\x1b[33m", "<4>"},
    [AW_LOG_INFO] = {"info", "info ", "\x1b[32m", "<6>"},
    [AW_LOG_DEBUG] = {"debug", "debug", "\x1b[36m", "<7>"},
};
#define LEVEL_COUNT (sizeof levels / sizeof levels[0])

void aw_log_init(struct aw_log *log, int fd, enum aw_log_level level, enum aw_log_format format,
                 const struct aw_clock *clock)
{
    AW_ASSERT((unsigned)level < LEVEL_COUNT);
    const char *no_color = getenv("NO_COLOR");
    *log = (struct aw_log){
        .fd = fd,
        .level = level,
        .format = format,
        .colour = format == AW_LOG_TEXT && !(no_color && no_color[0]) && isatty(fd),
        .clock = clock,
    };
}

enum aw_err aw_log_level_parse(const char *name, enum aw_log_level *ret_level)
{
    for (size_t i = 0; i < LEVEL_COUNT; i++)
        if (strcmp(name, levels[i].name) == 0) {
            *ret_level = (enum aw_log_level)i;
            return AW_OK;
        }
    return AW_ERR_NOTFOUND;
}

struct line {
    size_t used;
    char bytes[AW_LOG_LINE_MAX];
};

/* All or nothing. */
static bool put(struct line *line, const char *bytes, size_t count)
{
    if (count > AW_LOG_LINE_MAX - TAIL - line->used)
        return false;
    memcpy(line->bytes + line->used, bytes, count);
    line->used += count;
    return true;
}

static bool put_text(struct line *line, const char *text)
{
    return put(line, text, strlen(text));
}

/* Into the reserve: for what closes a line. */
static void close_with(struct line *line, const char *text)
{
    size_t count = strlen(text);
    AW_ASSERT(count <= AW_LOG_LINE_MAX - line->used);
    memcpy(line->bytes + line->used, text, count);
    line->used += count;
}

/* One character or escape at a time, so that a cut never splits one. False: not all of it fitted.
 */
static bool put_escaped(struct line *line, const char *text, bool json)
{
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        char escape[8];
        size_t length = aw_text_utf8_length((const char *)s, strnlen((const char *)s, 4));
        const char *out = (const char *)s;
        size_t out_length = length;
        if (length == 0) {
            /* not UTF-8: JSON cannot hold the byte, people can read its number */
            out_length = (size_t)(json ? snprintf(escape, sizeof escape, "\\ufffd")
                                       : snprintf(escape, sizeof escape, "\\x%02x", *s));
            out = escape;
            length = 1;
        } else if (*s == '"' || *s == '\\') {
            out_length = (size_t)snprintf(escape, sizeof escape, "\\%c", *s);
            out = escape;
        } else if (*s == '\n' || *s == '\t' || *s == '\r') {
            out_length = (size_t)snprintf(escape, sizeof escape, "\\%c",
                                          *s == '\n'   ? 'n'
                                          : *s == '\t' ? 't'
                                                       : 'r');
            out = escape;
        } else if (*s < 0x20 || *s == 0x7f) {
            out_length = (size_t)snprintf(escape, sizeof escape, json ? "\\u%04x" : "\\x%02x", *s);
            out = escape;
        } else if (*s == 0xc2 && s[1] < 0xa0) {
            /* C1 controls: some terminals obey them as they obey ESC */
            out_length = (size_t)snprintf(escape, sizeof escape, "\\u%04x", s[1]);
            out = escape;
        }
        if (!put(line, out, out_length))
            return false;
        s += length;
    }
    return true;
}

static bool put_number(struct line *line, double value, bool json)
{
    char text[AW_TEXT_REAL_MAX];
    return put_text(line,
                    json && !isfinite(value) ? "null" : aw_text_real(value, text, sizeof text));
}

/* Text needs quotes where a reader could not tell where the value ends. */
static bool wants_quotes(const char *text)
{
    if (!*text)
        return true;
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || *text == '=' || *text == '"' || *text == '\\')
            return true;
    return false;
}

/* A string that does not fit is cut; its closing quote comes out of the reserve. */
static bool put_string(struct line *line, const char *text, bool json)
{
    if (!text)
        return put_text(line, "null");
    bool quotes = json || wants_quotes(text);
    if (quotes && !put_text(line, "\""))
        return false;
    bool whole = put_escaped(line, text, json);
    if (quotes && whole)
        whole = put_text(line, "\"");
    if (quotes && !whole)
        close_with(line, "\"");
    return whole;
}

/* The key with what goes before and after it; false and nothing added when it does not fit. */
static bool put_key(struct line *line, const struct aw_log *log, const char *key)
{
    size_t before = line->used;
    bool fits;
    if (log->format == AW_LOG_JSON)
        fits = put_text(line, ",\"") && put_escaped(line, key, true) && put_text(line, "\":");
    else
        fits = put_text(line, " ") && put_text(line, log->colour ? COLOUR_DIM : "") &&
               put_escaped(line, key, false) && put_text(line, "=") &&
               put_text(line, log->colour ? COLOUR_RESET : "");
    /* with room for an empty string, so that put_string never leaves the key alone */
    fits = fits && line->used + sizeof "\"\"" <= AW_LOG_LINE_MAX - TAIL;
    if (!fits)
        line->used = before;
    return fits;
}

static bool put_field(struct line *line, const struct aw_log *log, const struct aw_log_field *field)
{
    bool json = log->format == AW_LOG_JSON, fits = false;
    size_t before = line->used;
    if (!put_key(line, log, field->key))
        return false;
    char text[24];
    switch (field->kind) {
    case AW_LOG_KIND_STR:
        if (field->str)
            return put_string(line, field->str, json);
        fits = put_text(line, "null");
        break;
    case AW_LOG_KIND_INT:
        snprintf(text, sizeof text, "%" PRId64, field->integer);
        fits = put_text(line, text);
        break;
    case AW_LOG_KIND_NUM:
        fits = put_number(line, field->num, json);
        break;
    case AW_LOG_KIND_BOOL:
        fits = put_text(line, field->boolean ? "true" : "false");
        break;
    }
    if (!fits)
        line->used = before;
    return fits;
}

/* RFC 3339 in UTC. A clock before 1970 or after 9999 is written as the nearest of the two. */
static void format_time(int64_t now_us, bool micros, char *buf, size_t size)
{
    const int64_t max_us = 253402300799999999;
    now_us = now_us < 0 ? 0 : now_us > max_us ? max_us : now_us;
    time_t seconds = now_us / 1000000;
    struct tm tm;
    gmtime_r(&seconds, &tm);
    int fraction = (int)(now_us % 1000000);
    char date[32];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    if (micros)
        snprintf(buf, size, "%s.%06dZ", date, fraction);
    else
        snprintf(buf, size, "%s.%03dZ", date, fraction / 1000);
}

static void write_line(struct aw_log *log, const struct line *line)
{
    int saved = errno;
    ssize_t written;
    do
        written = write(log->fd, line->bytes, line->used);
    while (written < 0 && errno == EINTR);
    /* The rest of a short write is not sent after it: another line may already be in between. */
    if (written != (ssize_t)line->used)
        atomic_fetch_add_explicit(&log->lost_count, 1, memory_order_relaxed);
    errno = saved;
}

void aw_log_write(struct aw_log *log, enum aw_log_level level, const char *message,
                  const struct aw_log_field *fields, size_t count)
{
    AW_ASSERT((unsigned)level < LEVEL_COUNT);
    bool json = log->format == AW_LOG_JSON, whole;
    struct line line;
    line.used = 0;
    char stamp[48];
    format_time(aw_clock_now_us(log->clock), json, stamp, sizeof stamp);
    if (json) {
        whole = put_text(&line, "{\"time\":\"") && put_text(&line, stamp) &&
                put_text(&line, "\",\"level\":\"") && put_text(&line, levels[level].name) &&
                put_text(&line, "\",\"message\":") && put_string(&line, message, true);
    } else if (log->format == AW_LOG_JOURNAL) {
        whole = put_text(&line, levels[level].priority) && put_escaped(&line, message, false);
    } else {
        whole = put_text(&line, stamp) && put_text(&line, " ") &&
                put_text(&line, log->colour ? levels[level].colour : "") &&
                put_text(&line, levels[level].padded) &&
                put_text(&line, log->colour ? COLOUR_RESET : "") && put_text(&line, " ") &&
                put_escaped(&line, message, false);
    }
    for (size_t i = 0; i < count && whole; i++)
        whole = put_field(&line, log, &fields[i]);
    if (!whole)
        close_with(&line, json ? JSON_CUT : TEXT_CUT);
    close_with(&line, json ? "}\n" : "\n");
    write_line(log, &line);
}
