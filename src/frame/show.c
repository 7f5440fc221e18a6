/* show.c - figures, times, plans and bars for people. */
#include "frame/show.h"

#include <aware/resource.h>

#include "base/clock.h"
#include "base/quantity.h"
#include "base/text.h"
#include "base/units.h"
#include "frame/layout.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define PATH_PART_MAX 64u

const json_t *aw_at(const json_t *object, const char *path)
{
    char part[PATH_PART_MAX];
    while (object && *path) {
        const size_t len = strcspn(path, ".");
        AW_ASSERT(len < sizeof part);
        memcpy(part, path, len);
        part[len] = '\0';
        object = json_object_get(object, part);
        path += len + (path[len] == '.');
    }
    return object && !json_is_null(object) ? object : NULL;
}

double aw_at_real(const json_t *object, const char *path)
{
    const json_t *value = aw_at(object, path);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

int64_t aw_at_integer(const json_t *object, const char *path)
{
    return json_integer_value(aw_at(object, path));
}

const char *aw_at_text(const json_t *object, const char *path)
{
    const char *text = json_string_value(aw_at(object, path));
    return text ? text : "";
}

bool aw_at_true(const json_t *object, const char *path)
{
    return json_is_true(aw_at(object, path));
}

/* --- figures ---------------------------------------------------------------------------------- */

static const char *unknown(char *buf, size_t size)
{
    snprintf(buf, size, "-");
    return buf;
}

/* What fits int64_t after rounding. */
static bool whole(double value, int64_t *ret)
{
    if (!(value >= 0 && value < 9e18))
        return false;
    *ret = (int64_t)llround(value);
    return true;
}

const char *aw_show_cpu(double millicores, char *buf, size_t size)
{
    int64_t value;
    return whole(millicores, &value) ? aw_quantity_round_cpu(value, AW_QUANTITY_MILLI, buf, size)
                                     : unknown(buf, size);
}

const char *aw_show_memory(double bytes, char *buf, size_t size)
{
    int64_t value;
    return whole(bytes, &value) ? aw_quantity_round_memory(value, buf, size) : unknown(buf, size);
}

const char *aw_show_latency(double us, char *buf, size_t size)
{
    int64_t value;
    return whole(us, &value) ? aw_duration_round(value, buf, size) : unknown(buf, size);
}

const char *aw_show_rate(double per_s, char *buf, size_t size)
{
    return per_s >= 0 && isfinite(per_s) ? aw_rate_round(per_s, buf, size) : unknown(buf, size);
}

const char *aw_show_money(double dollars, char *buf, size_t size)
{
    if (!isfinite(dollars))
        return unknown(buf, size);
    const double amount = fabs(dollars);
    snprintf(buf, size, "%s$%.*f", dollars < 0 ? "-" : "", amount < 0.995 ? 3 : 2, amount);
    return buf;
}

const char *aw_show_percent(double share, char *buf, size_t size)
{
    if (!isfinite(share))
        return unknown(buf, size);
    const double percent = 100 * share;
    snprintf(buf, size, "%.*f%%", fabs(percent) < 9.95 && percent != round(percent) ? 1 : 0,
             percent);
    return buf;
}

const char *aw_show_change(double after, double before, char *buf, size_t size)
{
    if (!(before > 0) || !isfinite(after))
        return unknown(buf, size);
    const double percent = 100 * (after / before - 1);
    if (fabs(percent) < 0.5)
        snprintf(buf, size, "same");
    else
        snprintf(buf, size, "%+.0f%%", percent);
    return buf;
}

const char *aw_show_origin(const json_t *account, char *buf, size_t size)
{
    const json_t *origin = aw_at(account, "agent.specialised_from");
    const int64_t episodes = aw_at_integer(origin, "episodes");
    if (!origin)
        return unknown(buf, size);
    snprintf(
        buf, size, "%s the shared model %s (%s), known by %" PRId64 " episode%s of the fallback",
        strcmp(aw_at_text(account, "agent.kind"), "formula") ? "specialised from" : "searched from",
        aw_at_text(origin, "model"), aw_at_text(origin, "checksum"), episodes,
        episodes == 1 ? "" : "s");
    return buf;
}

const char *aw_show_age(double seconds, char *buf, size_t size)
{
    if (!isfinite(seconds))
        return unknown(buf, size);
    const double s = fmax(0, seconds);
    if (s < 120)
        snprintf(buf, size, "%.0fs", s);
    else if (s < 7200)
        snprintf(buf, size, "%.0fm", floor(s / 60));
    else if (s < 36000 && fmod(s, 3600) >= 60)
        snprintf(buf, size, "%.0fh%02.0fm", floor(s / 3600), floor(fmod(s, 3600) / 60));
    else if (s < 172800)
        snprintf(buf, size, "%.0fh", floor(s / 3600));
    else
        snprintf(buf, size, "%.0fd", floor(s / 86400));
    return buf;
}

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

const char *aw_show_named(const char *name, double value, char *buf, size_t size)
{
    if (!isfinite(value))
        return unknown(buf, size);
    if (has(name, "millicores"))
        return aw_show_cpu(value, buf, size);
    if (has(name, "bytes_per_s")) {
        char amount[AW_SHOW_MAX];
        snprintf(buf, size, "%s/s", aw_show_memory(value, amount, sizeof amount));
        return buf;
    }
    if (has(name, "bytes"))
        return aw_show_memory(value, buf, size);
    if (has(name, "cores"))
        return aw_show_cpu(1000 * value, buf, size);
    if (has(name, "_us"))
        return aw_show_latency(value, buf, size);
    if (has(name, "per_s"))
        return aw_show_rate(value, buf, size);
    if (has(name, "share") || has(name, "utilisation") || has(name, "_used"))
        return aw_show_percent(value, buf, size);
    snprintf(buf, size, "%.3g", value);
    return buf;
}

/* --- times ------------------------------------------------------------------------------------ */

/* Digits at `text`, exactly `count`; -1: they are not. */
static int digits(const char *text, unsigned count)
{
    int value = 0;
    for (unsigned i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = 10 * value + (text[i] - '0');
    }
    return value;
}

enum aw_err aw_time_read(const char *text, int64_t *ret_us)
{
    /* 2026-11-16T02:03:04[.123456]Z */
    const size_t len = strlen(text);
    if (len < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
        text[16] != ':' || text[len - 1] != 'Z')
        return AW_ERR_FORMAT;
    const int part[] = {digits(text, 4),      digits(text + 5, 2),  digits(text + 8, 2),
                        digits(text + 11, 2), digits(text + 14, 2), digits(text + 17, 2)};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (part[i] < 0)
            return AW_ERR_FORMAT;
    }
    struct tm tm = {.tm_year = part[0] - 1900,
                    .tm_mon = part[1] - 1,
                    .tm_mday = part[2],
                    .tm_hour = part[3],
                    .tm_min = part[4],
                    .tm_sec = part[5]};
    int64_t us = (int64_t)timegm(&tm) * 1000000;
    if (text[19] == '.') {
        int64_t unit = 100000;
        for (const char *p = text + 20; *p != 'Z'; p++, unit /= 10) {
            if (*p < '0' || *p > '9')
                return AW_ERR_FORMAT;
            us += unit * (*p - '0');
        }
    } else if (len != 20) {
        return AW_ERR_FORMAT;
    }
    *ret_us = us;
    return AW_OK;
}

const char *aw_time_show(const char *text, char *buf, size_t size)
{
    int64_t us;
    return aw_time_read(text, &us) ? unknown(buf, size) : aw_time_show_us(us, buf, size);
}

const char *aw_time_write(int64_t us, char *buf, size_t size)
{
    struct tm tm;
    const int64_t part = (us % 1000000 + 1000000) % 1000000;
    const time_t seconds = (time_t)((us - part) / 1000000);
    char day[32];
    if (!gmtime_r(&seconds, &tm) || !strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm))
        return unknown(buf, size);
    snprintf(buf, size, "%s.%06lldZ", day, (long long)part);
    return buf;
}

double aw__seconds_between(const char *from, const char *until)
{
    int64_t a, b;
    if (aw_time_read(from, &a) || aw_time_read(until, &b))
        return NAN;
    return 1e-6 * (double)(b - a);
}

/* --- plans and bars --------------------------------------------------------------------------- */

const char *aw_show_amount(enum aw_resource resource, double value, char *buf, size_t size)
{
    const enum aw_amount_unit unit = aw_resource_table[resource].unit;
    if (unit == AW_AMOUNT_MILLICORES)
        return aw_show_cpu(value, buf, size);
    if (unit == AW_AMOUNT_BYTES)
        return aw_show_memory(value, buf, size);
    if (isfinite(value))
        snprintf(buf, size, "%.0f", value);
    else
        unknown(buf, size);
    return buf;
}

const char *aw_show_more(const json_t *object, char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    for (uint32_t i = AW_RESOURCE_MEMORY + 1; i < AW_RESOURCES; i++) {
        const struct aw_resource_row *row = &aw_resource_table[i];
        const json_t *at = aw_at(object, row->member);
        const double least = aw_at_real(at, "min"), most = aw_at_real(at, "max");
        char from[AW_SHOW_MAX], to[AW_SHOW_MAX];
        aw_show_amount((enum aw_resource)i, json_is_object(at) ? least : json_number_value(at),
                       from, sizeof from);
        aw_show_amount((enum aw_resource)i, most, to, sizeof to);
        if (json_is_object(at) ? most > 0 : json_number_value(at) > 0)
            aw_text_add(&text, ", %s %s%s%s", row->name, from, json_is_object(at) ? " to " : "",
                        json_is_object(at) ? to : "");
    }
    return buf;
}

const char *aw_plan_show(const json_t *before, const json_t *after, char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    for (uint32_t i = 0; i < AW_RESOURCES; i++) {
        const struct aw_resource_row *row = &aw_resource_table[i];
        char from[AW_SHOW_MAX], to[AW_SHOW_MAX];
        const double was = aw_at_real(before, row->member), is = aw_at_real(after, row->member);
        if (isnan(is) || (before && was == is))
            continue;
        aw_show_amount((enum aw_resource)i, was, from, sizeof from);
        aw_show_amount((enum aw_resource)i, is, to, sizeof to);
        if (before && row->unit == AW_AMOUNT_BYTES && !isnan(was) &&
            !strcmp(from, to)) { /* three digits hide it */
            snprintf(from, sizeof from, "%.2fMi", was / AW_MIB_REAL);
            snprintf(to, sizeof to, "%.2fMi", is / AW_MIB_REAL);
        }
        if (before && !isnan(was))
            aw_text_add(&text, "%s%s %s -> %s", text.len ? ", " : "", row->name, from, to);
        else
            aw_text_add(&text, "%s%s %s", text.len ? ", " : "", row->name, to);
    }
    if (text.len == 0)
        aw_text_add(&text, "nothing");
    return buf;
}

const char *aw_bar_show(double share, unsigned width, char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    const double filled = isfinite(share) ? fmin(1, fmax(0, share)) * width : 0;
    for (unsigned i = 0; i < width; i++)
        aw_text_add(&text, "%s", i + 0.5 < filled ? "#" : ".");
    return buf;
}
