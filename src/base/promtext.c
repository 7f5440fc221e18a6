/* promtext.c - lines of one histogram, added up. */
#include "base/promtext.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

#define SUFFIX     "_bucket"
#define NUMBER_MAX 64u /* bytes of a number, with its NUL; longer ones nobody writes */

bool aw_promtext_name_valid(const char *name)
{
    size_t len = 0;
    for (; name[len]; len++) {
        const char c = name[len];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!(letter || c == ':' || (len > 0 && c >= '0' && c <= '9')))
            return false;
    }
    return len > 0 && len < AW_PROMTEXT_NAME_MAX;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* What is left of a line. */
struct rest {
    const char *at, *end;
};

static bool take(struct rest *rest, char c)
{
    if (rest->at == rest->end || *rest->at != c)
        return false;
    rest->at++;
    return true;
}

static void skip_blanks(struct rest *rest)
{
    while (take(rest, ' ') || take(rest, '\t'))
        ;
}

/* "+Inf" where it may be infinite. */
static bool number(const char *bytes, size_t len, bool infinite, double *ret)
{
    char text[NUMBER_MAX];
    if (len >= sizeof text || memchr(bytes, '\0', len))
        return false;
    memcpy(text, bytes, len);
    text[len] = '\0';
    if (infinite && (!strcmp(text, "+Inf") || !strcmp(text, "Inf"))) {
        *ret = (double)INFINITY;
        return true;
    }
    return !aw_text_parse_real(text, ret);
}

/* A word up to the next blank, as a number. */
static bool take_number(struct rest *rest, double *ret)
{
    const char *from = rest->at;
    while (rest->at < rest->end && *rest->at != ' ' && *rest->at != '\t')
        rest->at++;
    return number(from, (size_t)(rest->at - from), false, ret);
}

/* name="value": whether it is "le", its value is a bound. Escapes are stepped over; no bound has
 * any. */
static bool take_label(struct rest *rest, bool *has_bound, double *ret_bound)
{
    const char *name = rest->at;
    while (rest->at < rest->end && !strchr("=\"{}, \t", *rest->at))
        rest->at++;
    const size_t name_len = (size_t)(rest->at - name);
    skip_blanks(rest);
    if (name_len == 0 || !take(rest, '='))
        return false;
    skip_blanks(rest);
    if (!take(rest, '"'))
        return false;
    const char *value = rest->at;
    while (rest->at < rest->end && *rest->at != '"')
        rest->at += *rest->at == '\\' && rest->at + 1 < rest->end ? 2 : 1;
    const size_t value_len = (size_t)(rest->at - value);
    if (!take(rest, '"'))
        return false;
    if (name_len != 2 || memcmp(name, "le", 2) != 0)
        return true;
    if (*has_bound) /* twice */
        return false;
    *has_bound = true;
    return number(value, value_len, true, ret_bound);
}

static bool take_labels(struct rest *rest, double *ret_bound)
{
    bool has_bound = false;
    if (!take(rest, '{'))
        return false;
    for (skip_blanks(rest); !take(rest, '}'); skip_blanks(rest)) {
        if (!take_label(rest, &has_bound, ret_bound))
            return false;
        skip_blanks(rest);
        if (!take(rest, ',') && (rest->at == rest->end || *rest->at != '}'))
            return false;
    }
    return has_bound;
}

/* {labels} count [time] [# exemplar] */
static bool take_sample(struct rest *rest, double *ret_bound, double *ret_count)
{
    double time;
    skip_blanks(rest);
    if (!take_labels(rest, ret_bound))
        return false;
    skip_blanks(rest);
    if (!take_number(rest, ret_count) || *ret_count < 0)
        return false;
    skip_blanks(rest);
    if (rest->at < rest->end && *rest->at != '#' && !take_number(rest, &time))
        return false;
    skip_blanks(rest);
    return rest->at == rest->end || *rest->at == '#';
}

/* --- a histogram ------------------------------------------------------------------------------ */

/* Sorted as they come; `series` counts how often each bound was there. */
struct growing {
    struct aw_promtext_histogram histogram;
    uint32_t series[AW_PROMTEXT_BUCKETS_MAX];
};

static bool put(struct growing *growing, double bound, double count)
{
    struct aw_promtext_histogram *h = &growing->histogram;
    uint32_t at = h->buckets;
    while (at > 0 && h->bound[at - 1] > bound)
        at--;
    if (at == 0 || h->bound[at - 1] != bound) {
        if (h->buckets == AW_PROMTEXT_BUCKETS_MAX)
            return false;
        const size_t behind = h->buckets++ - at;
        memmove(&h->bound[at + 1], &h->bound[at], behind * sizeof *h->bound);
        memmove(&h->count[at + 1], &h->count[at], behind * sizeof *h->count);
        memmove(&growing->series[at + 1], &growing->series[at], behind * sizeof *growing->series);
        h->bound[at] = bound;
        h->count[at] = 0;
        growing->series[at++] = 0;
    }
    h->count[at - 1] += count;
    growing->series[at - 1]++;
    return true;
}

/* What cannot be a histogram; NULL: nothing is wrong with it. */
static const char *wrong(const struct growing *growing)
{
    const struct aw_promtext_histogram *h = &growing->histogram;
    if (!isinf(h->bound[h->buckets - 1]))
        return "has no bucket for everything";
    for (uint32_t b = 0; b < h->buckets; b++) {
        if (growing->series[b] != growing->series[0])
            return "has series with different bounds, or a bound twice";
        if (!isfinite(h->count[b]))
            return "counts more than there are numbers for";
        if (b > 0 && h->count[b] < h->count[b - 1])
            return "counts less up to a higher bound";
    }
    return NULL;
}

enum aw_err aw_promtext_read(const char *text, size_t len, const char *name,
                             struct aw_promtext_histogram *ret, struct aw_diag *diag)
{
    const size_t name_len = strlen(name), suffix_len = sizeof SUFFIX - 1;
    struct growing growing = {0};
    if (len > 0 && text[len - 1] != '\n')
        return aw_fail(diag, AW_ERR_FORMAT, "the last line of the metrics has no end");
    for (const char *at = text, *end = text + len; at < end;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        struct rest rest = {at, line_end};
        at = line_end + 1;
        if ((size_t)(rest.end - rest.at) <= name_len + suffix_len ||
            memcmp(rest.at, name, name_len) != 0 ||
            memcmp(rest.at + name_len, SUFFIX, suffix_len) != 0)
            continue;
        rest.at += name_len + suffix_len;
        if (!strchr("{ \t", *rest.at)) /* a longer name */
            continue;
        double bound, count;
        if (!take_sample(&rest, &bound, &count))
            return aw_fail(diag, AW_ERR_FORMAT, "a bucket of %s is malformed", name);
        if (!put(&growing, bound, count))
            return aw_fail(diag, AW_ERR_LIMIT, "%s has more than %u buckets", name,
                           AW_PROMTEXT_BUCKETS_MAX);
    }
    if (growing.histogram.buckets == 0)
        return aw_fail(diag, AW_ERR_NODATA, "there is no histogram %s", name);
    const char *why = wrong(&growing);
    if (why)
        return aw_fail(diag, AW_ERR_FORMAT, "%s %s", name, why);
    *ret = growing.histogram;
    return AW_OK;
}

/* --- increases and quantiles ------------------------------------------------------------------ */

static bool same_bounds(const struct aw_promtext_histogram *a,
                        const struct aw_promtext_histogram *b)
{
    return a->buckets == b->buckets && !memcmp(a->bound, b->bound, a->buckets * sizeof *a->bound);
}

static bool goes_on(const struct aw_promtext_histogram *earlier,
                    const struct aw_promtext_histogram *later)
{
    if (!same_bounds(earlier, later))
        return false;
    for (uint32_t b = 0; b < later->buckets; b++)
        if (later->count[b] < earlier->count[b])
            return false;
    return true;
}

bool aw_promtext_add(struct aw_promtext_histogram *sum, const struct aw_promtext_histogram *earlier,
                     const struct aw_promtext_histogram *later)
{
    const bool same_life = goes_on(earlier, later);
    double below = 0;
    if (sum->buckets > 0 && !same_bounds(sum, later))
        return false;
    if (sum->buckets == 0) {
        sum->buckets = later->buckets;
        memcpy(sum->bound, later->bound, later->buckets * sizeof *sum->bound);
        memset(sum->count, 0, sizeof sum->count);
    }
    for (uint32_t b = 0; b < later->buckets; b++) {
        /* a page that was written while its counters moved may tell a little less further on */
        below = fmax(below, later->count[b] - (same_life ? earlier->count[b] : 0));
        sum->count[b] += below;
    }
    return true;
}

double aw_promtext_quantile(const double *bounds, const double *counts, uint32_t count,
                            double quantile)
{
    if (count < 2 || !isinf(bounds[count - 1]) || !(counts[count - 1] > 0))
        return NAN;
    const double rank = quantile * counts[count - 1];
    uint32_t b = 0;
    while (b < count - 1 && counts[b] < rank)
        b++;
    if (b == count - 1)
        return bounds[count - 2];
    const double low = b > 0 ? bounds[b - 1] : (bounds[0] > 0 ? 0 : bounds[0]);
    const double below = b > 0 ? counts[b - 1] : 0, within = counts[b] - below;
    return within > 0 ? low + (bounds[b] - low) * (rank - below) / within : low;
}
