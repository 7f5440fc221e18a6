/* api_value.c - values of the API: numbers that may be missing, times, plans. */
#include "web/api_internal.h"

#include "base/quantity.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define US        INT64_C(1000000)
#define YEAR_9999 INT64_C(253402300799) /* its last second: what four digits can say */

json_t *aw__json_num(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

const char *aw__time_format(int64_t us, char *buf, size_t size)
{
    const int64_t fraction = (us % US + US) % US;
    int64_t seconds = (us - fraction) / US;
    struct tm tm;
    if (seconds < 0 || seconds > YEAR_9999)
        seconds = seconds < 0 ? 0 : YEAR_9999;
    const time_t t = (time_t)seconds;
    gmtime_r(&t, &tm);
    const size_t len = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + len, size - len, ".%06" PRId64 "Z", fraction);
    return buf;
}

json_t *aw__json_time(int64_t us)
{
    char text[AW__TIME_TEXT_MAX];
    if (us == AW_NEVER || us == AW_FOR_EVER)
        return json_null();
    return json_string(aw__time_format(us, text, sizeof text));
}

json_t *aw__json_id(uint64_t id)
{
    return id ? json_integer((json_int_t)id) : json_null();
}

json_t *aw__json_model(uint64_t model)
{
    char text[24];
    if (model == 0)
        return json_null();
    snprintf(text, sizeof text, "%016" PRIx64, model);
    return json_string(text);
}

void aw__json_set(json_t *object, const char *key, json_t *value, bool *ok)
{
    if (!value || json_object_set_new(object, key, value))
        *ok = false;
}

static json_t *amounts(const struct aw_plan *plan, uint32_t set)
{
    bool ok = true;
    json_t *object = json_object();
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        if (set & AW_PLAN_BIT(i))
            aw__json_set(object, aw_resource_table[i].member, json_integer(plan->amount[i]), &ok);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

json_t *aw__json_plan(const struct aw_plan *plan)
{
    return plan->set ? amounts(plan, (uint32_t)plan->set) : json_null();
}

json_t *aw__json_amounts(const struct aw_plan *plan)
{
    return amounts(plan, AW_PLAN_COMMON | (uint32_t)plan->set);
}

/* --- times that come in ----------------------------------------------------------------------- */

/* 2026-11-16T02:03:04Z, with any number of digits of a second; nothing but Z stands for UTC. */
static enum aw_err time_parse(const char *text, int64_t *ret_us, struct aw_diag *diag)
{
    struct tm tm = {0}, back;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t fraction = 0, unit = US;
    if (rest && *rest == '.')
        for (rest++; *rest >= '0' && *rest <= '9'; rest++) {
            unit /= 10;
            fraction += (*rest - '0') * unit;
        }
    const int day = tm.tm_mday; /* timegm makes March of a 30th of February */
    const time_t seconds = rest ? timegm(&tm) : -1;
    const bool well = rest && strcmp(rest, "Z") == 0 && seconds >= 0 && gmtime_r(&seconds, &back) &&
                      back.tm_mday == day && seconds <= YEAR_9999;
    if (!well)
        return aw_fail(
            diag, AW_ERR_FORMAT,
            "expected a time such as 2026-11-16T02:03:04Z or a duration such as 2h, "
            "found %s",
            aw_text_quote(text, strlen(text), (char[AW_TEXT_QUOTE_MAX]){0}, AW_TEXT_QUOTE_MAX));
    *ret_us = (int64_t)seconds * US + fraction;
    return AW_OK;
}

enum aw_err aw__api_since(const struct aw__api_call *call, int64_t *ret_us, struct aw_diag *diag)
{
    const char *text = aw__api_param(call, "since");
    struct aw_diag why;
    int64_t back_us;
    *ret_us = INT64_MIN;
    if (!text)
        return AW_OK;
    if (!aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, &back_us, NULL)) {
        struct aw_desk *desk = call->api->config.desk;
        aw_desk_lock(desk);
        const int64_t now = aw__api_now_us(call->api);
        aw_desk_unlock(desk);
        if (__builtin_sub_overflow(now, back_us, ret_us))
            *ret_us = INT64_MIN;
        return AW_OK;
    }
    if (time_parse(text, ret_us, &why))
        return aw_fail_at(diag, AW_ERR_FORMAT, NULL, 0, 0, "since", "%s", why.text);
    return AW_OK;
}
