/* series.c - see series.h. */
#include "kube/series.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

#define NUMBER_MAX 40u /* characters of a number */

const char *aw_kube_label(const struct aw_kube_labels *labels, const char *name)
{
    if (labels->tree)
        return json_string_value(json_object_get(labels->tree, name));
    for (uint32_t i = 0; i < labels->count; i++)
        if (!strcmp(labels->label[i].name, name))
            return labels->label[i].value;
    return NULL;
}

struct cursor {
    const char *at, *end;
    char *to, *to_end; /* where texts go */
};

static bool expect(struct cursor *c, const char *word)
{
    const size_t len = strlen(word);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
        return false;
    c->at += len;
    return true;
}

/* A text of printable ASCII without escapes, copied; NULL: another. */
static const char *take_text(struct cursor *c)
{
    const char *copy = c->to;
    if (!expect(c, "\""))
        return NULL;
    for (; c->at < c->end && c->to < c->to_end; c->at++) {
        const unsigned char ch = (unsigned char)*c->at;
        if (ch == '"') {
            c->at++;
            *c->to++ = '\0';
            return copy;
        }
        if (ch < ' ' || ch > '~' || ch == '\\')
            return NULL;
        *c->to++ = (char)ch;
    }
    return NULL;
}

static bool take_labels(struct cursor *c, struct aw_kube_labels *labels)
{
    labels->tree = NULL;
    labels->count = 0;
    if (expect(c, "}"))
        return true;
    for (;;) {
        if (labels->count == AW_KUBE_LABELS_QUICK)
            return false;
        const char *name = take_text(c);
        if (!name || aw_kube_label(labels, name) || !expect(c, ":")) /* twice is not JSON to us */
            return false;
        const char *value = take_text(c);
        if (!value)
            return false;
        labels->label[labels->count].name = name;
        labels->label[labels->count++].value = value;
        if (expect(c, "}"))
            return true;
        if (!expect(c, ","))
            return false;
    }
}

/* A number of JSON: digits, perhaps with a fraction; an exponent is rare, and left to others. */
static bool take_time(struct cursor *c, double *ret)
{
    char text[NUMBER_MAX];
    size_t len = 0, digits = 0;
    bool dot = false;
    for (; c->at < c->end && len < sizeof text - 1; c->at++) {
        const bool digit = *c->at >= '0' && *c->at <= '9';
        if (!digit && (*c->at != '.' || dot || digits == 0))
            break;
        dot = dot || !digit;
        digits = digit ? digits + 1 : 0;
        text[len++] = *c->at;
    }
    text[len] = '\0';
    if (digits == 0 || (text[0] == '0' && len > 1 && text[1] != '.'))
        return false;
    return aw_text_parse_real(text, ret) == AW_OK;
}

bool aw_kube_series_quick(const char *text, size_t len, struct aw_kube_labels *labels,
                          struct aw_kube_prom_point *ret_point, bool *ret_finite)
{
    struct cursor c = {text, text + len, labels->text, labels->text + sizeof labels->text};
    struct aw_kube_prom_point point = {0};
    if (!expect(&c, "{\"metric\":{") || !take_labels(&c, labels) || !expect(&c, ",\"value\":[") ||
        !take_time(&c, &point.at_s) || !expect(&c, ","))
        return false;
    const char *value = take_text(&c);
    if (!value || !expect(&c, "]}") || c.at != c.end)
        return false;
    /* "NaN", "+Inf" and "-Inf" are no numbers there */
    *ret_finite = isfinite(point.at_s) && aw_text_parse_real(value, &point.value) == AW_OK;
    *ret_point = point;
    return true;
}
