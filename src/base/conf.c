/*
 * conf.c - settings from one table.
 *
 * A value is parsed into a union first and stored only when all of it was right: a setting that
 * failed leaves no trace, and a whole map of settings can be checked before any of it is applied.
 */
#include "base/conf.h"

#include "base/text.h"
#include "base/tree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

union value {
    bool boolean;
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
    struct aw_conf_u32_list list;
    char text[AW_CONF_TEXT_MAX];
};

size_t aw_conf_size(const struct aw_conf_field *field)
{
    switch (field->type) {
    case AW_CONF_BOOL:
        return sizeof(bool);
    case AW_CONF_U32:
    case AW_CONF_CHOICE:
        return sizeof(uint32_t);
    case AW_CONF_U64:
        return sizeof(uint64_t);
    case AW_CONF_F32:
        return sizeof(float);
    case AW_CONF_F64:
        return sizeof(double);
    case AW_CONF_U32_LIST:
        return sizeof(struct aw_conf_u32_list);
    case AW_CONF_TEXT:
        return field->max > 0 ? (size_t)field->max : AW_CONF_TEXT_MAX;
    }
    AW_ASSERT(!"a known type");
    return 0;
}

static void value_store(const struct aw_conf_field *field, const union value *value, void *settings)
{
    memcpy((char *)settings + field->offset, value, aw_conf_size(field));
}

static bool bounded(const struct aw_conf_field *field)
{
    return field->min != 0 || field->max != 0;
}

/* Whole numbers are compared as whole numbers: above 2^53 a double could not tell them apart. */
static bool whole_in_bounds(const struct aw_conf_field *field, uint64_t value)
{
    if (!bounded(field))
        return true;
    double low = ceil(field->min), high = floor(field->max);
    bool below = low > 0 && (low >= 0x1p64 || value < (uint64_t)low);
    bool above = high < 0x1p64 && (high < 0 || value > (uint64_t)high);
    return !below && !above;
}

static bool f64_in_bounds(const struct aw_conf_field *field, double value)
{
    return !bounded(field) || (value >= field->min && value <= field->max);
}

/* With both bounds infinite every double is fine, those that are no number too. */
static bool parse_f64(const struct aw_conf_field *field, const char *text, double *ret)
{
    if (isfinite(field->min) || isfinite(field->max))
        return aw_text_parse_real(text, ret) == AW_OK && f64_in_bounds(field, *ret);
    if (strcmp(text, "nan") == 0)
        *ret = NAN;
    else if (strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0)
        *ret = *text == '-' ? -INFINITY : INFINITY;
    else
        return aw_text_parse_real(text, ret) == AW_OK;
    return true;
}

/* Compared as floats: 0.1 is within [0, 0.1] although the nearest float lies a little above. */
static bool f32_in_bounds(const struct aw_conf_field *field, float value)
{
    return !bounded(field) || (value >= (float)field->min && value <= (float)field->max);
}

static bool parse_u32(const struct aw_conf_field *field, const char *text, uint32_t *ret)
{
    uint64_t wide;
    if (aw_text_parse_u64(text, &wide) || wide > UINT32_MAX || !whole_in_bounds(field, wide))
        return false;
    *ret = (uint32_t)wide;
    return true;
}

/* "64,64"; a space may follow a comma. Nothing at all is the empty list. */
static bool parse_list(const struct aw_conf_field *field, const char *text,
                       struct aw_conf_u32_list *ret)
{
    struct aw_conf_u32_list list = {0};
    while (*text) {
        char item[32];
        size_t len = strcspn(text, ",");
        if (list.count == AW_CONF_LIST_MAX || len >= sizeof item)
            return false;
        memcpy(item, text, len);
        item[len] = 0;
        if (!parse_u32(field, item, &list.value[list.count++]))
            return false;
        text += len;
        if (*text == ',') {
            text++;
            text += *text == ' ';
            if (!*text)
                return false;
        }
    }
    *ret = list;
    return true;
}

static bool parse_choice(const struct aw_conf_field *field, const char *text, uint32_t *ret)
{
    for (uint32_t i = 0; field->choices[i]; i++) {
        if (strcmp(field->choices[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static bool parse_value(const struct aw_conf_field *field, const char *text, union value *ret)
{
    size_t len;
    switch (field->type) {
    case AW_CONF_BOOL:
        ret->boolean = strcmp(text, "true") == 0;
        return ret->boolean || strcmp(text, "false") == 0;
    case AW_CONF_U32:
        return parse_u32(field, text, &ret->u32);
    case AW_CONF_U64:
        return aw_text_parse_u64(text, &ret->u64) == AW_OK && whole_in_bounds(field, ret->u64);
    case AW_CONF_F32:
        return aw_text_parse_real_f32(text, &ret->f32) == AW_OK && f32_in_bounds(field, ret->f32);
    case AW_CONF_F64:
        return parse_f64(field, text, &ret->f64);
    case AW_CONF_CHOICE:
        return parse_choice(field, text, &ret->u32);
    case AW_CONF_U32_LIST:
        return parse_list(field, text, &ret->list);
    case AW_CONF_TEXT:
        len = strlen(text);
        if (len >= aw_conf_size(field))
            return false;
        memset(ret->text, 0, sizeof ret->text);
        memcpy(ret->text, text, len);
        return true;
    }
    AW_ASSERT(!"a known type");
    return false;
}

/* " from 1 to 100", or one-sided where the other side is infinite. */
static void add_bounds(struct aw_text *out, const struct aw_conf_field *field)
{
    char low[AW_TEXT_REAL_MAX], high[AW_TEXT_REAL_MAX];
    if (!bounded(field))
        return;
    aw_text_real(field->min, low, sizeof low);
    aw_text_real(field->max, high, sizeof high);
    if (isfinite(field->min) && isfinite(field->max))
        aw_text_add(out, " from %s to %s", low, high);
    else if (isfinite(field->min))
        aw_text_add(out, " of at least %s", low);
    else if (isfinite(field->max))
        aw_text_add(out, " of at most %s", high);
}

const char *aw_conf_expects(const struct aw_conf_field *field, char *buf, size_t size)
{
    struct aw_text out;
    aw_text_init(&out, buf, size);
    switch (field->type) {
    case AW_CONF_BOOL:
        aw_text_add(&out, "true or false");
        break;
    case AW_CONF_U32:
    case AW_CONF_U64:
        aw_text_add(&out, "a whole number");
        if (!bounded(field) && field->type == AW_CONF_U32)
            aw_text_add(&out, " from 0 to %u", UINT32_MAX);
        add_bounds(&out, field);
        break;
    case AW_CONF_F32:
    case AW_CONF_F64:
        aw_text_add(&out, "a number");
        add_bounds(&out, field);
        break;
    case AW_CONF_CHOICE:
        aw_text_add(&out, "one of: ");
        for (uint32_t i = 0; field->choices[i]; i++)
            aw_text_add(&out, "%s%s", i ? ", " : "", field->choices[i]);
        break;
    case AW_CONF_U32_LIST:
        aw_text_add(&out, "up to %u whole numbers", AW_CONF_LIST_MAX);
        if (bounded(field)) {
            aw_text_add(&out, ", each");
            add_bounds(&out, field);
            aw_text_add(&out, ",");
        }
        aw_text_add(&out, " separated by commas");
        break;
    case AW_CONF_TEXT:
        aw_text_add(&out, "a text of at most %zu bytes", aw_conf_size(field) - 1);
        break;
    }
    return buf;
}

const char *aw_conf_get(const struct aw_conf_field *field, const void *settings, char *buf,
                        size_t size)
{
    char number[AW_TEXT_REAL_MAX];
    union value value;
    memcpy(&value, (const char *)settings + field->offset, aw_conf_size(field));
    struct aw_text out;
    aw_text_init(&out, buf, size);
    switch (field->type) {
    case AW_CONF_BOOL:
        aw_text_add(&out, "%s", value.boolean ? "true" : "false");
        break;
    case AW_CONF_U32:
        aw_text_add(&out, "%u", value.u32);
        break;
    case AW_CONF_U64:
        aw_text_add(&out, "%llu", (unsigned long long)value.u64);
        break;
    case AW_CONF_F32:
        aw_text_add(&out, "%s", aw_text_real_f32(value.f32, number, sizeof number));
        break;
    case AW_CONF_F64:
        aw_text_add(&out, "%s", aw_text_real(value.f64, number, sizeof number));
        break;
    case AW_CONF_CHOICE:
        aw_text_add(&out, "%s", field->choices[value.u32]);
        break;
    case AW_CONF_U32_LIST:
        AW_ASSERT(value.list.count <= AW_CONF_LIST_MAX);
        for (uint32_t i = 0; i < value.list.count; i++)
            aw_text_add(&out, "%s%u", i ? "," : "", value.list.value[i]);
        break;
    case AW_CONF_TEXT:
        aw_text_add(&out, "%.*s", (int)aw_conf_size(field) - 1, value.text);
        break;
    }
    return buf;
}

void aw_conf_defaults(const struct aw_conf_field *table, void *settings)
{
    for (const struct aw_conf_field *field = table; field->key; field++) {
        union value value;
        AW_ASSERT(field->initial && parse_value(field, field->initial, &value));
        value_store(field, &value, settings);
    }
}

bool aw_conf_same(const struct aw_conf_field *table, uint32_t marks, const void *a, const void *b)
{
    bool same = true;
    for (; table->key; table++)
        if (table->marks & marks)
            same = same && memcmp((const char *)a + table->offset, (const char *)b + table->offset,
                                  aw_conf_size(table)) == 0;
    return same;
}

/* Case and the choice between '-' and '_' are not what people mean to say. */
static char fold(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '-' ? '_' : c;
}

#define NEAREST_WORD_MAX 64u /* bytes; longer words have no near name */

static unsigned min_u(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Damerau-Levenshtein distance in its optimal-string-alignment form: insert, delete, replace and
 * swap of neighbours cost 1 each. */
static unsigned distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][NEAREST_WORD_MAX + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_len; j++)
        above[j] = (unsigned)j;
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned cost = fold(a[i - 1]) != fold(b[j - 1]);
            row[j] = min_u(min_u(above[j] + 1, row[j - 1] + 1), above[j - 1] + cost);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
                fold(a[i - 2]) == fold(b[j - 1]))
                row[j] = min_u(row[j], before[j - 2] + 1);
        }
        unsigned *held = before;
        before = above;
        above = row;
        row = held;
    }
    return above[b_len];
}

/* Keeps in `best` the name nearest to `word`. One slip in a short word, one in three letters of a
 * longer one; beyond that a guess would mislead more often than help. */
static void consider(const char *word, const char *name, const char **best, unsigned *best_distance)
{
    size_t word_len = strlen(word), name_len = strlen(name);
    if (word_len == 0 || word_len > NEAREST_WORD_MAX || name_len > NEAREST_WORD_MAX)
        return;
    unsigned limit = (unsigned)(word_len + 2) / 3;
    unsigned d = distance(word, word_len, name, name_len);
    if (d <= limit && d < name_len && d < *best_distance) {
        *best = name;
        *best_distance = d;
    }
}

const char *aw_conf_nearest(const char *word, const char *const *names)
{
    const char *best = NULL;
    unsigned best_distance = UINT32_MAX;
    for (; *names; names++)
        consider(word, *names, &best, &best_distance);
    return best;
}

static const struct aw_conf_field *find_field(const struct aw_conf_field *table, const char *key)
{
    for (; table->key; table++)
        if (strcmp(table->key, key) == 0)
            return table;
    return NULL;
}

static enum aw_err unknown(const struct aw_conf_field *table, const char *key, struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    const char *best = NULL;
    unsigned best_distance = UINT32_MAX;
    for (const struct aw_conf_field *field = table; field->key; field++)
        consider(key, field->key, &best, &best_distance);
    aw_text_quote(key, strlen(key), quoted, sizeof quoted);
    if (best)
        return aw_fail(diag, AW_ERR_CONFIG, "unknown setting %s (did you mean \"%s\"?)", quoted,
                       best);
    return aw_fail(diag, AW_ERR_CONFIG, "unknown setting %s", quoted);
}

static enum aw_err check(const struct aw_conf_field *table, const char *key, const char *text,
                         const struct aw_conf_field **ret_field, union value *ret_value,
                         struct aw_diag *diag)
{
    const struct aw_conf_field *field = find_field(table, key);
    if (!field)
        return unknown(table, key, diag);
    if (!parse_value(field, text, ret_value)) {
        char quoted[AW_TEXT_QUOTE_MAX], expects[AW_DIAG_TEXT_MAX / 2];
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, key, "expected %s, found %s",
                          aw_conf_expects(field, expects, sizeof expects),
                          aw_text_quote(text, strlen(text), quoted, sizeof quoted));
    }
    *ret_field = field;
    return AW_OK;
}

enum aw_err aw_conf_set(const struct aw_conf_field *table, void *settings, const char *key,
                        const char *value, struct aw_diag *diag)
{
    const struct aw_conf_field *field = NULL;
    union value parsed;
    enum aw_err err = check(table, key, value, &field, &parsed, diag);
    if (err == AW_OK)
        value_store(field, &parsed, settings);
    return err;
}

enum aw_err aw_conf_set_pair(const struct aw_conf_field *table, void *settings, const char *pair,
                             struct aw_diag *diag)
{
    char key[AW_DIAG_KEY_MAX], quoted[AW_TEXT_QUOTE_MAX];
    const char *equals = strchr(pair, '=');
    size_t len = equals ? (size_t)(equals - pair) : 0;
    if (len == 0 || len >= sizeof key)
        return aw_fail(diag, AW_ERR_CONFIG, "expected key=value, found %s",
                       aw_text_quote(pair, strlen(pair), quoted, sizeof quoted));
    memcpy(key, pair, len);
    key[len] = 0;
    return aw_conf_set(table, settings, key, equals + 1, diag);
}

/* A YAML or JSON value as aw_conf_set would want to read it; false when it cannot be one. Text that
 * spells a number is taken (underscores or quotes make a number of YAML a string). */
static bool node_text(const struct aw_node *node, enum aw_conf_type type, char *buf, size_t size)
{
    struct aw_text out;
    aw_text_init(&out, buf, size);
    switch (node->kind) {
    case AW_NODE_NULL:
    case AW_NODE_MAP:
        return false;
    case AW_NODE_LIST:
        for (const struct aw_node *item = node->first; item; item = item->next) {
            if (item->kind != AW_NODE_INTEGER || item->integer < 0)
                return false;
            aw_text_add(&out, "%s%lld", item == node->first ? "" : ",", (long long)item->integer);
        }
        return type == AW_CONF_U32_LIST && !out.cut;
    case AW_NODE_BOOL:
        aw_text_add(&out, "%s", node->boolean ? "true" : "false");
        break;
    case AW_NODE_INTEGER:
        aw_text_add(&out, "%lld", (long long)node->integer);
        break;
    case AW_NODE_REAL:
    case AW_NODE_STRING:
        aw_text_add_bytes(&out, node->text, node->text_len);
        break;
    }
    if (type == AW_CONF_TEXT) { /* as it was written: a version 1.10 is not 1.1 */
        aw_text_init(&out, buf, size);
        aw_text_add_bytes(&out, node->text, node->text_len);
    }
    return !out.cut;
}

static enum aw_err check_node(const struct aw_conf_field *table, const struct aw_tree *tree,
                              const struct aw_node *node, const struct aw_conf_field **ret_field,
                              union value *ret_value, struct aw_diag *diag)
{
    char text[2 * AW_CONF_TEXT_MAX];
    const struct aw_conf_field *field = find_field(table, node->key);
    if (!field)
        return aw_tree_place_key(tree, node, unknown(table, node->key, diag), diag);
    if (node_text(node, field->type, text, sizeof text) && parse_value(field, text, ret_value)) {
        *ret_field = field;
        return AW_OK;
    }
    char expects[AW_DIAG_TEXT_MAX / 2];
    return aw_tree_expected(tree, node, AW_ERR_CONFIG, diag,
                            aw_conf_expects(field, expects, sizeof expects));
}

enum aw_err aw_conf_set_tree(const struct aw_conf_field *table, void *settings,
                             const struct aw_tree *tree, const struct aw_node *map,
                             struct aw_diag *diag)
{
    const struct aw_conf_field *field = NULL;
    union value value;
    enum aw_err err = aw_tree_map(tree, map, diag);
    for (const struct aw_node *node = err ? NULL : map->first; node && !err; node = node->next)
        err = check_node(table, tree, node, &field, &value, diag);
    if (err)
        return err;
    for (const struct aw_node *node = map->first; node; node = node->next) {
        AW_ASSERT(check_node(table, tree, node, &field, &value, NULL) == AW_OK);
        value_store(field, &value, settings);
    }
    return AW_OK;
}
