/* schema_explain.c - what a field takes, for people, and finding one by its path. */
#include "base/schema.h"

#include "base/quantity.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- what a field takes -----------------------------------------------------------------------
 */

static bool bounded(const struct aw_schema_field *field)
{
    return field->min != 0 || field->max != 0;
}

/* A bound in the words of its type. */
static const char *bound_print(const struct aw_schema_field *field, double bound, char *buf,
                               size_t size)
{
    switch (field->type) {
    case AW_SCHEMA_CPU:
        return aw_quantity_print_cpu((int64_t)bound, AW_QUANTITY_MILLI, buf, size);
    case AW_SCHEMA_MEMORY:
        return aw_quantity_print_memory((int64_t)bound, buf, size);
    case AW_SCHEMA_DURATION:
        return aw_duration_print((int64_t)bound, buf, size);
    case AW_SCHEMA_RATE:
        return aw_rate_round(bound, buf, size);
    default:
        return aw_text_real(bound, buf, size);
    }
}

static void add_bounds(struct aw_text *out, const struct aw_schema_field *field)
{
    char low[AW_QUANTITY_TEXT_MAX], high[AW_QUANTITY_TEXT_MAX];
    if (!bounded(field))
        return;
    if (isfinite(field->max))
        aw_text_add(out, " from %s to %s", bound_print(field, field->min, low, sizeof low),
                    bound_print(field, field->max, high, sizeof high));
    else
        aw_text_add(out, " of at least %s", bound_print(field, field->min, low, sizeof low));
}

static void add_choices(struct aw_text *out, const struct aw_schema_field *field)
{
    for (uint32_t i = 0; field->choices[i]; i++)
        aw_text_add(out, "%s%s", i ? ", " : "", field->choices[i]);
}

const char *aw_schema_expects(const struct aw_schema_field *field, char *buf, size_t size)
{
    struct aw_text out;
    aw_text_init(&out, buf, size);
    switch (field->type) {
    case AW_SCHEMA_OBJECT:
    case AW_SCHEMA_ANY_OBJECT:
        aw_text_add(&out, "a map");
        break;
    case AW_SCHEMA_LIST:
        aw_text_add(&out, "a list of at most %u maps", field->count_max);
        break;
    case AW_SCHEMA_ANY_LIST:
        aw_text_add(&out, "a list");
        break;
    case AW_SCHEMA_SET:
        aw_text_add(&out, "a list of: ");
        add_choices(&out, field);
        break;
    case AW_SCHEMA_TEXT:
        aw_text_add(&out, "a text of at most %zu bytes", field->size - 1);
        break;
    case AW_SCHEMA_NAME:
        aw_text_add(&out,
                    "a name of at most %zu lower-case letters, digits, '-' and '.', "
                    "with a letter or digit at both ends",
                    field->size - 1);
        break;
    case AW_SCHEMA_BOOL:
        aw_text_add(&out, "true or false");
        break;
    case AW_SCHEMA_U32:
    case AW_SCHEMA_U64:
        aw_text_add(&out, "a whole number");
        add_bounds(&out, field);
        break;
    case AW_SCHEMA_REAL:
        aw_text_add(&out, "a number");
        add_bounds(&out, field);
        break;
    case AW_SCHEMA_AUTO_REAL:
        aw_text_add(&out, "auto or a number");
        add_bounds(&out, field);
        break;
    case AW_SCHEMA_SHARE:
        aw_text_add(&out, "a share");
        add_bounds(&out, field);
        aw_text_add(&out, ", such as 0.01 or 1%%");
        break;
    case AW_SCHEMA_QUANTILE:
        aw_text_add(&out, "0.5, 0.95 or 0.99, or p50, p95 or p99");
        break;
    case AW_SCHEMA_CPU:
        aw_text_add(&out, "an amount of CPU");
        add_bounds(&out, field);
        aw_text_add(&out, ", such as 250m or 2");
        break;
    case AW_SCHEMA_MEMORY:
        aw_text_add(&out, "an amount of memory");
        add_bounds(&out, field);
        aw_text_add(&out, ", such as 512Mi");
        break;
    case AW_SCHEMA_DURATION:
        aw_text_add(&out, "a duration");
        add_bounds(&out, field);
        aw_text_add(&out, ", such as 200ms or 1h");
        break;
    case AW_SCHEMA_RATE:
        aw_text_add(&out, "a rate");
        add_bounds(&out, field);
        aw_text_add(&out, ", such as 100/s");
        break;
    case AW_SCHEMA_CHOICE:
        aw_text_add(&out, "one of: ");
        add_choices(&out, field);
        break;
    case AW_SCHEMA_TEXTS:
        aw_text_add(&out, "a map of texts");
        break;
    case AW_SCHEMA_ANY:
        aw_text_add(&out, "anything");
        break;
    }
    return buf;
}

const char *aw_schema_type_name(const struct aw_schema_field *field)
{
    switch (field->type) {
    case AW_SCHEMA_OBJECT:
    case AW_SCHEMA_ANY_OBJECT:
        return "object";
    case AW_SCHEMA_LIST:
        return "list of objects";
    case AW_SCHEMA_ANY_LIST:
        return "list";
    case AW_SCHEMA_SET:
        return "list of choices";
    case AW_SCHEMA_TEXT:
        return "text";
    case AW_SCHEMA_NAME:
        return "name";
    case AW_SCHEMA_BOOL:
        return "boolean";
    case AW_SCHEMA_U32:
    case AW_SCHEMA_U64:
        return "whole number";
    case AW_SCHEMA_REAL:
        return "number";
    case AW_SCHEMA_AUTO_REAL:
        return "number or auto";
    case AW_SCHEMA_SHARE:
        return "share";
    case AW_SCHEMA_QUANTILE:
        return "quantile";
    case AW_SCHEMA_CPU:
        return "CPU";
    case AW_SCHEMA_MEMORY:
        return "memory";
    case AW_SCHEMA_DURATION:
        return "duration";
    case AW_SCHEMA_RATE:
        return "rate";
    case AW_SCHEMA_CHOICE:
        return "choice";
    case AW_SCHEMA_TEXTS:
        return "map of texts";
    case AW_SCHEMA_ANY:
        return "any";
    }
    AW_ASSERT(!"a known type");
    return "";
}

const char *aw_schema_conf_type_name(const struct aw_conf_field *field)
{
    switch (field->type) {
    case AW_CONF_BOOL:
        return "boolean";
    case AW_CONF_U32:
    case AW_CONF_U64:
        return "whole number";
    case AW_CONF_F32:
    case AW_CONF_F64:
        return "number";
    case AW_CONF_CHOICE:
        return "choice";
    case AW_CONF_U32_LIST:
        return "list of whole numbers";
    case AW_CONF_TEXT:
        return "text";
    }
    AW_ASSERT(!"a known type");
    return "";
}

/* --- finding ----------------------------------------------------------------------------------
 */

enum aw_err aw_schema_find(const struct aw_schema_field *fields, const char *path,
                           struct aw_schema_found *ret, struct aw_diag *diag)
{
    struct aw_schema_found found = {0};
    struct aw__schema_keys keys = {.fields = fields};
    const char *at = path;
    while (*at) {
        char word[AW_SCHEMA_NAME_MAX];
        const size_t len = strcspn(at, "."), name = strcspn(at, ".[");
        if (found.field)
            keys = (struct aw__schema_keys){found.field->fields, found.field->conf,
                                            found.field->conf_without};
        if (name == 0 || name >= sizeof word)
            return aw_fail(diag, AW_ERR_NOTFOUND,
                           "expected keys with dots between, as in "
                           "spec.goals.slo");
        memcpy(word, at, name);
        word[name] = 0;
        if (found.conf || (!keys.fields && !keys.conf))
            return aw_fail_at(diag, AW_ERR_NOTFOUND, NULL, 0, 0, path, "nothing is below %s",
                              found.conf ? found.conf->key : found.field->name);
        const struct aw_schema_field *field = aw__schema_field(&keys, word);
        found.conf = field ? NULL : aw__schema_conf(&keys, word);
        if (!field && !found.conf) {
            aw__schema_unknown(&keys, word, AW_ERR_NOTFOUND, diag);
            if (diag)
                snprintf(diag->key, sizeof diag->key, "%s", path);
            return AW_ERR_NOTFOUND;
        }
        if (field)
            found.field = field;
        at += len;
        if (*at == '.' && !*++at)
            return aw_fail(diag, AW_ERR_NOTFOUND, "expected a key after the last dot of %s", path);
    }
    *ret = found;
    return AW_OK;
}
