/* value.c - what the readers of JSON share: numbers, ids and refusals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "trace/read_internal.h"

enum aw_err aw__value_refuse(struct aw_diag *diag, const struct aw__value_place *place,
                             const char *key, const char *expected, const json_t *found)
{
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a text",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    char quoted[AW_TEXT_QUOTE_MAX];
    if (!found)
        return aw_fail_at(diag, AW_ERR_FORMAT, place->name, place->line, 0, key,
                          "expected %s, found nothing", expected);
    if (json_is_string(found))
        return aw_fail_at(diag, AW_ERR_FORMAT, place->name, place->line, 0, key,
                          "expected %s, found %s", expected,
                          aw_text_quote(json_string_value(found), json_string_length(found), quoted,
                                        sizeof quoted));
    if (json_is_integer(found))
        return aw_fail_at(diag, AW_ERR_FORMAT, place->name, place->line, 0, key,
                          "expected %s, found %jd", expected, (intmax_t)json_integer_value(found));
    return aw_fail_at(diag, AW_ERR_FORMAT, place->name, place->line, 0, key,
                      "expected %s, found %s", expected, kinds[json_typeof(found)]);
}

bool aw__value_whole(const json_t *value, int64_t *ret)
{
    uint64_t number;
    if (!value || json_is_null(value))
        return true;
    if (json_is_integer(value)) {
        *ret = json_integer_value(value);
        return true;
    }
    if (json_is_real(value)) { /* microseconds with a fraction, as some exporters write them */
        const double real = json_real_value(value);
        if (!(real >= -9e18 && real <= 9e18))
            return false;
        *ret = (int64_t)real;
        return true;
    }
    if (!json_is_string(value) || aw_text_parse_u64(json_string_value(value), &number) ||
        number > INT64_MAX)
        return false;
    *ret = (int64_t)number;
    return true;
}

bool aw__value_id(const json_t *value, uint64_t *ret_hi, uint64_t *ret_lo)
{
    *ret_hi = *ret_lo = 0;
    if (!value || json_is_null(value) || (json_is_string(value) && !json_string_length(value)))
        return true;
    return json_is_string(value) &&
           aw_span_hex_parse(json_string_value(value), json_string_length(value), ret_hi, ret_lo);
}

const char *aw__value_text(const json_t *value, size_t *ret_len)
{
    *ret_len = json_is_string(value) ? json_string_length(value) : 0;
    return *ret_len ? json_string_value(value) : "";
}
