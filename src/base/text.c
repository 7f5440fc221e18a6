/* text.c - a bounded builder, quoting, numbers that ignore the locale, UTF-8, CSV. */
#include "base/text.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void aw_text_init(struct aw_text *text, char *buf, size_t size)
{
    AW_ASSERT(size > 0);
    *text = (struct aw_text){.buf = buf, .size = size};
    buf[0] = 0;
}

void aw_text_add(struct aw_text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    size_t left = text->size - text->len;
    int n = vsnprintf(text->buf + text->len, left, fmt, args);
    va_end(args);
    AW_ASSERT(n >= 0);
    text->cut |= (size_t)n >= left;
    text->len += (size_t)n < left ? (size_t)n : left - 1;
}

void aw_text_add_bytes(struct aw_text *text, const char *bytes, size_t len)
{
    size_t left = text->size - text->len - 1;
    text->cut |= len > left;
    len = len < left ? len : left;
    memcpy(text->buf + text->len, bytes, len);
    text->len += len;
    text->buf[text->len] = 0;
}

size_t aw_text_utf8_length(const char *bytes, size_t left)
{
    const unsigned char *s = (const unsigned char *)bytes;
    static const struct {
        unsigned char lead_low, lead_high; /* first byte */
        unsigned char low, high;           /* second byte; all later ones are 80..bf */
        size_t length;
    } form[] = {
        /* RFC 3629 section 4 */
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (left == 0 || s[0] < 0x80)
        return left ? 1 : 0;
    for (size_t i = 0; i < sizeof form / sizeof form[0]; i++) {
        if (s[0] < form[i].lead_low || s[0] > form[i].lead_high)
            continue;
        if (left < form[i].length || s[1] < form[i].low || s[1] > form[i].high)
            return 0;
        for (size_t k = 2; k < form[i].length; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return form[i].length;
    }
    return 0;
}

size_t aw_text_utf8_bad(const char *bytes, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t n = aw_text_utf8_length(bytes + at, len - at);
        if (n == 0)
            return at;
        at += n;
    }
    return len;
}

const char *aw_text_quote(const char *bytes, size_t len, char *buf, size_t size)
{
    const unsigned char *s = (const unsigned char *)bytes;
    struct aw_text out;
    aw_text_init(&out, buf, size);
    aw_text_add(&out, "\"");
    size_t at = 0;
    while (at < len && at < AW_TEXT_QUOTE_SHOWN) {
        size_t n = aw_text_utf8_length(bytes + at, len - at);
        if (n == 0 || s[at] < 0x20 || s[at] == 0x7f) {
            aw_text_add(&out, "\\x%02x", s[at]);
            n = 1;
        } else if (s[at] == 0xc2 && s[at + 1] < 0xa0) {
            /* C1 controls: some terminals obey them as they obey ESC */
            aw_text_add(&out, "\\x%02x\\x%02x", s[at], s[at + 1]);
        } else if (s[at] == '"' || s[at] == '\\') {
            aw_text_add(&out, "\\%c", s[at]);
        } else {
            aw_text_add_bytes(&out, bytes + at, n);
        }
        at += n;
    }
    aw_text_add(&out, at < len ? "...\"" : "\"");
    return buf;
}

/* glibc hands out one static object for "C": no allocation, and freeing it is a no-op. */
static locale_t locale_c(void)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    AW_ASSERT(c != (locale_t)0);
    return c;
}

/* snprintf of one number in the C locale. */
static void print_digits(char *buf, size_t size, int digits, double value)
{
    locale_t c = locale_c();
    locale_t held = uselocale(c);
    snprintf(buf, size, "%.*g", digits, value);
    uselocale(held);
    freelocale(c);
}

static bool print_special(double value, char *buf, size_t size)
{
    if (isfinite(value))
        return false;
    snprintf(buf, size, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    return true;
}

const char *aw_text_real(double value, char *buf, size_t size)
{
    AW_ASSERT(size >= AW_TEXT_REAL_MAX);
    if (print_special(value, buf, size))
        return buf;
    for (int digits = 15; digits <= 17; digits++) {
        double back;
        print_digits(buf, size, digits, value);
        if (aw_text_parse_real(buf, &back) == AW_OK && back == value)
            break;
    }
    return buf;
}

const char *aw_text_real_f32(float value, char *buf, size_t size)
{
    AW_ASSERT(size >= AW_TEXT_REAL_MAX);
    if (print_special((double)value, buf, size))
        return buf;
    for (int digits = 6; digits <= 9; digits++) {
        float back;
        print_digits(buf, size, digits, (double)value);
        if (aw_text_parse_real_f32(buf, &back) == AW_OK && back == value)
            break;
    }
    return buf;
}

static const char *skip_digits(const char *at)
{
    while (*at >= '0' && *at <= '9')
        at++;
    return at;
}

/* strtod takes more than we do: spaces, hexadecimal, "inf". So the form is checked first. */
static bool is_real(const char *text)
{
    const char *at = text + (*text == '+' || *text == '-');
    const char *whole = at;
    at = skip_digits(at);
    ptrdiff_t digits = at - whole;
    if (*at == '.') {
        const char *fraction = ++at;
        at = skip_digits(at);
        digits += at - fraction;
    }
    if (digits == 0)
        return false;
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        const char *exponent = at;
        at = skip_digits(at);
        if (at == exponent)
            return false;
    }
    return *at == 0;
}

enum aw_err aw_text_parse_real(const char *text, double *ret)
{
    if (!is_real(text))
        return AW_ERR_FORMAT;
    locale_t c = locale_c();
    double value = strtod_l(text, NULL, c);
    freelocale(c);
    if (!isfinite(value))
        return AW_ERR_RANGE;
    *ret = value;
    return AW_OK;
}

enum aw_err aw_text_parse_real_f32(const char *text, float *ret)
{
    if (!is_real(text))
        return AW_ERR_FORMAT;
    locale_t c = locale_c();
    /* strtof, not a narrowed strtod: rounding twice can end one bit away. */
    float value = strtof_l(text, NULL, c);
    freelocale(c);
    if (!isfinite(value))
        return AW_ERR_RANGE;
    *ret = value;
    return AW_OK;
}

enum aw_err aw_text_parse_u64(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    bool overflow = false;
    char before = '_'; /* a leading underscore is refused like a doubled one */
    for (const char *at = text; *at; before = *at++) {
        if (*at == '_') {
            if (before == '_')
                return AW_ERR_FORMAT;
            continue;
        }
        if (*at < '0' || *at > '9')
            return AW_ERR_FORMAT;
        overflow |= __builtin_mul_overflow(value, 10u, &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value);
    }
    if (before == '_')
        return AW_ERR_FORMAT;
    if (overflow)
        return AW_ERR_RANGE;
    *ret = value;
    return AW_OK;
}

void aw_text_place(const char *bytes, size_t offset, uint32_t *ret_line, uint32_t *ret_column)
{
    uint32_t line = 1;
    size_t start = 0;
    for (size_t i = 0; i < offset; i++) {
        if (bytes[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    *ret_line = line;
    *ret_column = (uint32_t)(offset - start + 1);
}

/* --- CSV --- */

static uint32_t split(const char *at, const char *end, char separator, struct aw_csv_cell *cells)
{
    uint32_t count = 0;
    while (count < AW_CSV_CELLS_MAX) {
        struct aw_csv_cell *cell = &cells[count++];
        const char *stop;
        if (at < end && *at == '"') {
            cell->at = ++at;
            while (at < end && (*at != '"' || (at + 1 < end && at[1] == '"')))
                at += *at == '"' ? 2 : 1;
            stop = at;
            at = at < end ? at + 1 : at;
            while (at < end && *at != separator)
                at++;
        } else {
            cell->at = at;
            stop = memchr(at, separator, (size_t)(end - at));
            stop = at = stop ? stop : end;
        }
        cell->len = (size_t)(stop - cell->at);
        if (at >= end)
            break;
        at++;
    }
    return count;
}

uint32_t aw_csv_next(struct aw_csv_lines *lines, struct aw_csv_cell *cells)
{
    if (!lines->line && lines->end - lines->at >= 3 && !memcmp(lines->at, "\xef\xbb\xbf", 3))
        lines->at += 3; /* the mark that some editors begin a file with */
    while (lines->at < lines->end) {
        const char *from = lines->at;
        const char *stop = memchr(from, '\n', (size_t)(lines->end - from));
        lines->at = stop ? stop + 1 : lines->end;
        stop = stop ? stop : lines->end;
        stop -= stop > from && stop[-1] == '\r';
        lines->line++;
        if (stop > from)
            return split(from, stop, lines->separator ? lines->separator : ',', cells);
    }
    return 0;
}

uint32_t aw_csv_find(const struct aw_csv_cell *cells, uint32_t count, const char *head)
{
    const size_t len = strlen(head);
    for (uint32_t i = 0; i < count; i++) {
        if (cells[i].len == len && !memcmp(cells[i].at, head, len))
            return i;
    }
    return UINT32_MAX;
}

double aw_csv_real(const struct aw_csv_cell *cell)
{
    char text[64];
    double value;
    if (!cell->len || cell->len >= sizeof text)
        return (double)NAN;
    memcpy(text, cell->at, cell->len);
    text[cell->len] = '\0';
    return aw_text_parse_real(text, &value) ? (double)NAN : value;
}
