/* schema.c - decoding and checking nested fields from a table. */
#include "base/schema.h"

#include "base/quantity.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------
 */

const char *aw_schema_conf_name(const struct aw_conf_field *field, char *buf, size_t size)
{
    struct aw_text out;
    const size_t len = strlen(field->key);
    const bool seconds = len > 2 && !strcmp(field->key + len - 2, "_s");
    bool upper = false;
    aw_text_init(&out, buf, size);
    for (size_t i = 0; i < len - (seconds ? 2 : 0); i++) {
        char c = field->key[i];
        if (c == '_') {
            upper = true;
            continue;
        }
        if (upper && c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        upper = false;
        aw_text_add_bytes(&out, &c, 1);
    }
    if (seconds)
        aw_text_add(&out, "Seconds");
    return buf;
}

const struct aw_schema_field *aw__schema_field(const struct aw__schema_keys *keys, const char *name)
{
    for (const struct aw_schema_field *field = keys->fields; field && field->name; field++) {
        if (!strcmp(field->name, name))
            return field;
    }
    return NULL;
}

static bool is_without(const struct aw__schema_keys *keys, const struct aw_conf_field *conf)
{
    return keys->without && !strcmp(keys->without, conf->key);
}

const struct aw_conf_field *aw__schema_conf(const struct aw__schema_keys *keys, const char *name)
{
    char own[AW_SCHEMA_NAME_MAX];
    for (const struct aw_conf_field *conf = keys->conf; conf && conf->key; conf++) {
        if (!is_without(keys, conf) && !strcmp(aw_schema_conf_name(conf, own, sizeof own), name))
            return conf;
    }
    return NULL;
}

/* The key that `word` most likely meant, copied into `buf`; NULL: none is near. */
static const char *nearest(const struct aw__schema_keys *keys, const char *word,
                           char buf[AW_SCHEMA_NAME_MAX])
{
    char own[AW_SCHEMA_NAMES_MAX][AW_SCHEMA_NAME_MAX];
    const char *names[AW_SCHEMA_NAMES_MAX + 1] = {0};
    uint32_t count = 0;
    for (const struct aw_schema_field *field = keys->fields; field && field->name; field++) {
        AW_ASSERT(count < AW_SCHEMA_NAMES_MAX);
        if (!(field->flags & AW_SCHEMA_REFUSED))
            names[count++] = field->name;
    }
    for (const struct aw_conf_field *conf = keys->conf; conf && conf->key; conf++) {
        AW_ASSERT(count < AW_SCHEMA_NAMES_MAX);
        if (is_without(keys, conf))
            continue;
        names[count] = aw_schema_conf_name(conf, own[count], sizeof own[count]);
        count++;
    }
    const char *best = aw_conf_nearest(word, names);
    if (!best)
        return NULL;
    snprintf(buf, AW_SCHEMA_NAME_MAX, "%s", best);
    return buf;
}

enum aw_err aw__schema_unknown(const struct aw__schema_keys *keys, const char *word,
                               enum aw_err err, struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX], near[AW_SCHEMA_NAME_MAX];
    aw_text_quote(word, strlen(word), quoted, sizeof quoted);
    if (nearest(keys, word, near))
        return aw_fail(diag, err, "unknown key %s (did you mean \"%s\"?)", quoted, near);
    return aw_fail(diag, err, "unknown key %s", quoted);
}

static bool bounded(const struct aw_schema_field *field)
{
    return field->min != 0 || field->max != 0;
}

/* --- scalars ----------------------------------------------------------------------------------
 */

union value {
    bool boolean;
    uint32_t u32;
    uint64_t u64;
    int64_t i64;
    double real;
};

static void value_store(const struct aw_schema_field *field, const union value *value, void *base)
{
    void *to = (char *)base + field->offset;
    switch (field->type) {
    case AW_SCHEMA_BOOL:
        memcpy(to, &value->boolean, sizeof value->boolean);
        break;
    case AW_SCHEMA_U32:
    case AW_SCHEMA_CHOICE:
    case AW_SCHEMA_SET:
        memcpy(to, &value->u32, sizeof value->u32);
        break;
    case AW_SCHEMA_U64:
        memcpy(to, &value->u64, sizeof value->u64);
        break;
    case AW_SCHEMA_CPU:
    case AW_SCHEMA_MEMORY:
    case AW_SCHEMA_DURATION:
        memcpy(to, &value->i64, sizeof value->i64);
        break;
    default:
        memcpy(to, &value->real, sizeof value->real);
        break;
    }
}

static void text_store(const struct aw_schema_field *field, const char *text, void *base)
{
    char *to = (char *)base + field->offset;
    memset(to, 0, field->size);
    memcpy(to, text, strlen(text));
}

static bool name_is_sound(const char *text)
{
    static const char inner[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    const size_t len = strlen(text), ends = sizeof inner - 3; /* without - and . */
    return len > 0 && strspn(text, inner) == len && memchr(inner, text[0], ends) &&
           memchr(inner, text[len - 1], ends);
}

static bool in_bounds(const struct aw_schema_field *field, double value)
{
    return !bounded(field) || (value >= field->min && value <= field->max);
}

static bool choice_parse(const struct aw_schema_field *field, const char *text, uint32_t *ret)
{
    for (uint32_t i = 0; field->choices[i]; i++) {
        if (!strcmp(field->choices[i], text)) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* 0.01 or 1%. */
static bool share_parse(const char *text, double *ret)
{
    char number[64];
    const size_t len = strlen(text);
    if (len == 0 || text[len - 1] != '%')
        return aw_text_parse_real(text, ret) == AW_OK;
    if (len > sizeof number)
        return false;
    memcpy(number, text, len - 1);
    number[len - 1] = 0;
    if (aw_text_parse_real(number, ret))
        return false;
    *ret /= 100;
    return true;
}

static bool quantile_parse(const char *text, double *ret)
{
    static const struct {
        const char *name;
        double value;
    } known[] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}};
    double number = 0;
    const bool is_number = aw_text_parse_real(text, &number) == AW_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strcmp(known[i].name, text) || (is_number && number == known[i].value)) {
            *ret = known[i].value;
            return true;
        }
    }
    return false;
}

/* Reads a value from text, as it stands in a file or in the table. */
static bool value_parse(const struct aw_schema_field *field, const char *text, union value *ret)
{
    switch (field->type) {
    case AW_SCHEMA_BOOL:
        ret->boolean = !strcmp(text, "true");
        return ret->boolean || !strcmp(text, "false");
    case AW_SCHEMA_U32:
        if (aw_text_parse_u64(text, &ret->u64) || ret->u64 > UINT32_MAX ||
            !in_bounds(field, (double)ret->u64))
            return false;
        ret->u32 = (uint32_t)ret->u64;
        return true;
    case AW_SCHEMA_U64:
        return !aw_text_parse_u64(text, &ret->u64) && ret->u64 <= INT64_MAX &&
               in_bounds(field, (double)ret->u64);
    case AW_SCHEMA_AUTO_REAL:
        if (!strcmp(text, "auto")) {
            ret->real = NAN;
            return true;
        }
        return !aw_text_parse_real(text, &ret->real) && in_bounds(field, ret->real);
    case AW_SCHEMA_REAL:
        return !aw_text_parse_real(text, &ret->real) && in_bounds(field, ret->real);
    case AW_SCHEMA_SHARE:
        return share_parse(text, &ret->real) && in_bounds(field, ret->real);
    case AW_SCHEMA_QUANTILE:
        return quantile_parse(text, &ret->real);
    case AW_SCHEMA_CPU:
        return !aw_quantity_parse_cpu(text, &ret->i64, NULL) && in_bounds(field, (double)ret->i64);
    case AW_SCHEMA_MEMORY:
        return !aw_quantity_parse_memory(text, &ret->i64, NULL) &&
               in_bounds(field, (double)ret->i64);
    case AW_SCHEMA_DURATION:
        return !aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, &ret->i64, NULL) &&
               in_bounds(field, (double)ret->i64);
    case AW_SCHEMA_RATE:
        return !aw_rate_parse(text, &ret->real, NULL) && in_bounds(field, ret->real);
    case AW_SCHEMA_CHOICE:
        return choice_parse(field, text, &ret->u32);
    default:
        AW_ASSERT(!"a scalar");
        return false;
    }
}

/* "cpu,memory" of the table. */
static uint32_t set_parse(const struct aw_schema_field *field, const char *text)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; field->choices[i]; i++)
        bits |= strstr(text, field->choices[i]) ? 1u << i : 0;
    return bits;
}

void aw_schema_defaults(const struct aw_schema_field *fields, void *base)
{
    for (const struct aw_schema_field *field = fields; field && field->name; field++) {
        union value value = {0};
        if (field->type == AW_SCHEMA_OBJECT) {
            aw_schema_defaults(field->fields, base);
            if (field->conf)
                aw_conf_defaults(field->conf, (char *)base + field->offset);
        } else if (!field->initial) {
            continue;
        } else if (field->type == AW_SCHEMA_SET) {
            value.u32 = set_parse(field, field->initial);
            value_store(field, &value, base);
        } else if (field->type == AW_SCHEMA_TEXT || field->type == AW_SCHEMA_NAME) {
            AW_ASSERT(strlen(field->initial) < field->size);
            text_store(field, field->initial, base);
        } else if (field->type != AW_SCHEMA_ANY && field->type != AW_SCHEMA_ANY_LIST) {
            AW_ASSERT(value_parse(field, field->initial, &value));
            value_store(field, &value, base);
        }
    }
}

/* --- decoding ---------------------------------------------------------------------------------
 */

struct decode {
    const struct aw_tree *tree;
    const struct aw_schema_sink *sink;
};

static void take(const struct decode *d, const struct aw_node *node, enum aw_err err,
                 const struct aw_diag *diag)
{
    if (err)
        d->sink->take(d->sink->ctx, node, err, diag);
}

static void expected(const struct decode *d, const struct aw_schema_field *field,
                     const struct aw_node *node)
{
    char expects[AW_DIAG_TEXT_MAX / 2];
    struct aw_diag diag;
    aw_tree_expected(d->tree, node, AW_ERR_CONFIG, &diag,
                     aw_schema_expects(field, expects, sizeof expects));
    const char *near = field->type == AW_SCHEMA_CHOICE && node->kind == AW_NODE_STRING
                           ? aw_conf_nearest(node->text, field->choices)
                           : NULL;
    if (near) {
        struct aw_text text = {diag.text, sizeof diag.text, strlen(diag.text), false};
        aw_text_add(&text, " (did you mean \"%s\"?)", near);
    }
    take(d, node, AW_ERR_CONFIG, &diag);
}

static bool is_scalar(const struct aw_node *node)
{
    return node->kind != AW_NODE_LIST && node->kind != AW_NODE_MAP;
}

static void text_decode(const struct decode *d, const struct aw_schema_field *field,
                        const struct aw_node *node, void *base)
{
    const bool sound = node->kind == AW_NODE_STRING && node->text_len < field->size &&
                       (field->type != AW_SCHEMA_NAME || name_is_sound(node->text));
    if (sound)
        text_store(field, node->text, base);
    else
        expected(d, field, node);
}

/* A number of YAML may be written 1e3 or 0x10: what was written is not always decimal. */
static bool number_text(const struct aw_node *node, char *buf, size_t size)
{
    if (node->kind == AW_NODE_INTEGER)
        snprintf(buf, size, "%lld", (long long)node->integer);
    else if (node->kind == AW_NODE_REAL)
        aw_text_real(node->real, buf, size);
    else
        return false;
    return true;
}

static void scalar_decode(const struct decode *d, const struct aw_schema_field *field,
                          const struct aw_node *node, void *base)
{
    char number[AW_TEXT_REAL_MAX];
    const char *text = is_scalar(node) ? node->text : NULL;
    union value value = {0};
    switch (field->type) {
    case AW_SCHEMA_BOOL: /* "false" in quotes has been taken for true elsewhere, to some damage */
        text = node->kind == AW_NODE_BOOL ? (node->boolean ? "true" : "false") : NULL;
        break;
    case AW_SCHEMA_U32:
    case AW_SCHEMA_U64:
        text = node->kind == AW_NODE_INTEGER && number_text(node, number, sizeof number) ? number
                                                                                         : NULL;
        break;
    case AW_SCHEMA_REAL:
        text = number_text(node, number, sizeof number) ? number : NULL;
        break;
    case AW_SCHEMA_AUTO_REAL:
    case AW_SCHEMA_SHARE:
    case AW_SCHEMA_QUANTILE:
        if (number_text(node, number, sizeof number))
            text = number;
        break;
    default:
        break;
    }
    if (text && value_parse(field, text, &value))
        value_store(field, &value, base);
    else
        expected(d, field, node);
}

static void set_decode(const struct decode *d, const struct aw_schema_field *field,
                       const struct aw_node *node, void *base)
{
    union value value = {0};
    bool sound = node->kind == AW_NODE_LIST;
    if (!sound)
        expected(d, field, node);
    for (const struct aw_node *item = sound ? node->first : NULL; item; item = item->next) {
        uint32_t index = 0;
        if (item->kind == AW_NODE_STRING && choice_parse(field, item->text, &index)) {
            value.u32 |= 1u << index;
            continue;
        }
        const struct aw_schema_field one = {.type = AW_SCHEMA_CHOICE, .choices = field->choices};
        expected(d, &one, item);
        sound = false;
    }
    if (sound)
        value_store(field, &value, base);
}

static void texts_decode(const struct decode *d, const struct aw_schema_field *field,
                         const struct aw_node *node)
{
    if (node->kind != AW_NODE_MAP) {
        expected(d, field, node);
        return;
    }
    for (const struct aw_node *item = node->first; item; item = item->next) {
        struct aw_diag diag;
        const char *text;
        take(d, item, aw_tree_string(d->tree, item, &text, &diag), &diag);
    }
}

static void object_decode(const struct decode *d, const struct aw__schema_keys *keys,
                          const struct aw_node *map, void *base, void *settings);

static void list_decode(const struct decode *d, const struct aw_schema_field *field,
                        const struct aw_node *node, void *base)
{
    if (node->kind != AW_NODE_LIST || node->count > field->count_max) {
        expected(d, field, node);
        return;
    }
    char *item_base = (char *)base + field->offset;
    for (const struct aw_node *item = node->first; item; item = item->next) {
        memset(item_base, 0, field->size);
        aw_schema_defaults(field->fields, item_base);
        object_decode(d, &(struct aw__schema_keys){.fields = field->fields}, item, item_base, NULL);
        item_base += field->size;
    }
    memcpy((char *)base + field->count_offset, &node->count, sizeof node->count);
}

static void field_decode(const struct decode *d, const struct aw_schema_field *field,
                         const struct aw_node *node, void *base)
{
    struct aw_diag diag;
    if (field->flags & AW_SCHEMA_REFUSED) {
        aw_fail(&diag, AW_ERR_CONFIG, "not supported: %s", field->help);
        take(d, node, aw_tree_place_key(d->tree, node, AW_ERR_CONFIG, &diag), &diag);
        return;
    }
    switch (field->type) {
    case AW_SCHEMA_OBJECT:
        object_decode(d, &(struct aw__schema_keys){field->fields, field->conf, field->conf_without},
                      node, base, (char *)base + field->offset);
        break;
    case AW_SCHEMA_LIST:
        list_decode(d, field, node, base);
        break;
    case AW_SCHEMA_SET:
        set_decode(d, field, node, base);
        break;
    case AW_SCHEMA_TEXT:
    case AW_SCHEMA_NAME:
        text_decode(d, field, node, base);
        break;
    case AW_SCHEMA_TEXTS:
        texts_decode(d, field, node);
        break;
    case AW_SCHEMA_ANY:
        break;
    case AW_SCHEMA_ANY_LIST:
        if (node->kind != AW_NODE_LIST)
            expected(d, field, node);
        break;
    case AW_SCHEMA_ANY_OBJECT:
        if (node->kind != AW_NODE_MAP)
            expected(d, field, node);
        break;
    default:
        scalar_decode(d, field, node, base);
        break;
    }
}

/* One setting. The table's own reader is given a map of this key alone, under the table's name. */
static void conf_decode(const struct decode *d, const struct aw_conf_field *conf,
                        const struct aw_node *node, void *settings)
{
    struct aw_node own = *node, map = {.kind = AW_NODE_MAP, .first = &own, .last = &own};
    struct aw_diag diag = {0};
    own.key = conf->key;
    own.next = NULL;
    const struct aw_conf_field one[] = {*conf, {0}};
    const enum aw_err err = aw_conf_set_tree(one, settings, d->tree, &map, &diag);
    take(d, node, aw_tree_place(d->tree, node, err, &diag), &diag);
}

static void missing_tell(const struct decode *d, const struct aw_schema_field *fields,
                         const struct aw_node *map)
{
    for (const struct aw_schema_field *field = fields; field && field->name; field++) {
        const struct aw_node *node = aw_node_find(map, field->name);
        if (!(field->flags & AW_SCHEMA_REQUIRED) || (node && node->kind != AW_NODE_NULL))
            continue;
        struct aw_diag diag;
        aw_fail(&diag, AW_ERR_CONFIG, "missing key \"%s\": %s", field->name, field->help);
        take(d, map, aw_tree_place(d->tree, map, AW_ERR_CONFIG, &diag), &diag);
    }
}

static void object_decode(const struct decode *d, const struct aw__schema_keys *keys,
                          const struct aw_node *map, void *base, void *settings)
{
    struct aw_diag diag;
    const enum aw_err err = aw_tree_map(d->tree, map, &diag);
    if (err) {
        take(d, map, err, &diag);
        return;
    }
    for (const struct aw_node *node = map->first; node; node = node->next) {
        const struct aw_schema_field *field = aw__schema_field(keys, node->key);
        const struct aw_conf_field *setting = field ? NULL : aw__schema_conf(keys, node->key);
        if (!field && !setting) {
            aw__schema_unknown(keys, node->key, AW_ERR_CONFIG, &diag);
            take(d, node, aw_tree_place_key(d->tree, node, AW_ERR_CONFIG, &diag), &diag);
        } else if (node->kind == AW_NODE_NULL) {
            continue;
        } else if (field) {
            field_decode(d, field, node, base);
        } else {
            conf_decode(d, setting, node, settings);
        }
    }
    missing_tell(d, keys->fields, map);
}

void aw_schema_decode(const struct aw_schema_field *fields, const struct aw_tree *tree,
                      const struct aw_node *map, void *base, const struct aw_schema_sink *sink)
{
    const struct decode d = {tree, sink};
    object_decode(&d, &(struct aw__schema_keys){.fields = fields}, map, base, NULL);
}

void aw_schema_decode_conf(const struct aw_conf_field *conf, const struct aw_tree *tree,
                           const struct aw_node *map, void *settings,
                           const struct aw_schema_sink *sink)
{
    const struct decode d = {tree, sink};
    object_decode(&d, &(struct aw__schema_keys){.conf = conf}, map, NULL, settings);
}
