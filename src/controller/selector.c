/* selector.c - label selectors in their text form. */
#include "controller/selector.h"

#include "base/text.h"

#include <string.h>

enum op { OP_EQUALS, OP_DIFFERS, OP_IN, OP_NOT_IN, OP_EXISTS, OP_MISSING };

/* A piece of the selector's text. */
struct word {
    const char *text;
    size_t len;
};

/* One demand. */
struct demand {
    enum op op;
    struct word key;
    struct word values; /* of IN: all between the parentheses; else the value */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static struct word trim(const char *begin, const char *end)
{
    while (begin < end && is_space(*begin))
        begin++;
    while (end > begin && is_space(end[-1]))
        end--;
    return (struct word){begin, (size_t)(end - begin)};
}

/* The end of the demand that begins at `at`: a comma outside parentheses. */
static const char *demand_end(const char *at)
{
    bool inside = false;
    for (; *at && (inside || *at != ','); at++)
        inside = *at == '(' || (inside && *at != ')');
    return at;
}

/* " in (" or " notin (" between `begin` and `end`; NULL: none. */
static const char *set_word(const char *begin, const char *end, const char *word, size_t len)
{
    for (const char *c = begin + 1; c + len < end; c++)
        if (is_space(c[-1]) && !strncmp(c, word, len) && (is_space(c[len]) || c[len] == '('))
            return c;
    return NULL;
}

static bool set_read(const char *begin, const char *end, const char *op_at, size_t op_len,
                     struct demand *ret)
{
    const char *open = memchr(op_at, '(', (size_t)(end - op_at));
    const struct word whole = trim(begin, end);
    if (!open || whole.text[whole.len - 1] != ')' ||
        trim(op_at + op_len, open).len != 0) /* something between the word and its list */
        return false;
    ret->key = trim(begin, op_at);
    ret->values = trim(open + 1, whole.text + whole.len - 1);
    return ret->key.len > 0;
}

static bool demand_read(const char *begin, const char *end, struct demand *ret)
{
    const struct word whole = trim(begin, end);
    const char *at;
    if (whole.len == 0)
        return false;
    begin = whole.text;
    end = begin + whole.len;
    if ((at = set_word(begin, end, "notin", 5))) {
        ret->op = OP_NOT_IN;
        return set_read(begin, end, at, 5, ret);
    }
    if ((at = set_word(begin, end, "in", 2))) {
        ret->op = OP_IN;
        return set_read(begin, end, at, 2, ret);
    }
    if (*begin == '!') {
        *ret = (struct demand){.op = OP_MISSING, .key = trim(begin + 1, end)};
        return ret->key.len > 0;
    }
    if (!(at = memchr(begin, '=', whole.len))) {
        *ret = (struct demand){.op = OP_EXISTS, .key = whole};
        return true;
    }
    const bool differs = at > begin && at[-1] == '!';
    *ret = (struct demand){.op = differs ? OP_DIFFERS : OP_EQUALS,
                           .key = trim(begin, differs ? at - 1 : at),
                           .values = trim(at + 1 + (at[1] == '='), end)};
    return ret->key.len > 0;
}

/* The value of a label; NULL: it is not there. */
static const char *label_find(const char *labels, size_t len, struct word key)
{
    for (size_t at = 0; at < len; at += strlen(labels + at) + 1)
        if (!strncmp(labels + at, key.text, key.len) && labels[at + key.len] == '=')
            return labels + at + key.len + 1;
    return NULL;
}

static bool word_is(struct word word, const char *text)
{
    return strlen(text) == word.len && !memcmp(word.text, text, word.len);
}

static bool among(struct word values, const char *value)
{
    const char *at = values.text, *end = values.text + values.len;
    for (;;) {
        const char *comma = at < end ? memchr(at, ',', (size_t)(end - at)) : NULL;
        if (word_is(trim(at, comma ? comma : end), value))
            return true;
        if (!comma)
            return false;
        at = comma + 1;
    }
}

static bool holds(const struct demand *demand, const char *labels, size_t len)
{
    const char *value = label_find(labels, len, demand->key);
    switch (demand->op) {
    case OP_EQUALS:
        return value && word_is(demand->values, value);
    case OP_DIFFERS: /* a label that is not there differs, as Kubernetes has it */
        return !value || !word_is(demand->values, value);
    case OP_IN:
        return value && among(demand->values, value);
    case OP_NOT_IN:
        return !value || !among(demand->values, value);
    case OP_EXISTS:
        return value != NULL;
    case OP_MISSING:
        return value == NULL;
    }
    return false;
}

bool aw__selector_matches(const char *selector, const char *labels, size_t len)
{
    const char *at = selector;
    if (!*at)
        return false;
    for (;;) {
        struct demand demand = {0};
        const char *end = demand_end(at);
        if (!demand_read(at, end, &demand) || !holds(&demand, labels, len))
            return false;
        if (!*end)
            return true;
        at = end + 1;
    }
}

bool aw__selector_pair(const char *selector, char *buf, size_t size)
{
    for (const char *at = selector; *at;) {
        struct demand demand = {0};
        const char *end = demand_end(at);
        if (!demand_read(at, end, &demand))
            return false;
        const bool single =
            demand.op == OP_EQUALS ||
            (demand.op == OP_IN && !memchr(demand.values.text, ',', demand.values.len));
        if (single) {
            struct aw_text text;
            aw_text_init(&text, buf, size);
            aw_text_add_bytes(&text, demand.key.text, demand.key.len);
            aw_text_add(&text, "=");
            aw_text_add_bytes(&text, demand.values.text, demand.values.len);
            return !text.cut;
        }
        at = *end ? end + 1 : end;
    }
    return false;
}

/* --- from JSON -------------------------------------------------------------------------------- */

static enum aw_err expression_print(struct aw_text *text, const json_t *item)
{
    const char *key = json_string_value(json_object_get(item, "key"));
    const char *op = json_string_value(json_object_get(item, "operator"));
    const json_t *values = json_object_get(item, "values"), *value;
    size_t i;
    if (!key || !op)
        return AW_ERR_FORMAT;
    aw_text_add(text, "%s", text->len ? "," : "");
    if (!strcmp(op, "Exists") || !strcmp(op, "DoesNotExist")) {
        aw_text_add(text, "%s%s", *op == 'D' ? "!" : "", key);
        return AW_OK;
    }
    if ((strcmp(op, "In") != 0 && strcmp(op, "NotIn") != 0) || json_array_size(values) == 0)
        return AW_ERR_FORMAT;
    aw_text_add(text, "%s %s (", key, *op == 'I' ? "in" : "notin");
    json_array_foreach(values, i, value)
    {
        if (!json_is_string(value))
            return AW_ERR_FORMAT;
        aw_text_add(text, "%s%s", i ? "," : "", json_string_value(value));
    }
    aw_text_add(text, ")");
    return AW_OK;
}

enum aw_err aw__selector_print(const json_t *selector, char *buf, size_t size)
{
    json_t *labels = json_object_get(selector, "matchLabels"), *value;
    const json_t *expressions = json_object_get(selector, "matchExpressions"), *item;
    struct aw_text text;
    const char *key;
    size_t i;
    aw_text_init(&text, buf, size);
    json_object_foreach(labels, key, value)
    {
        if (!json_is_string(value))
            return AW_ERR_FORMAT;
        aw_text_add(&text, "%s%s=%s", text.len ? "," : "", key, json_string_value(value));
    }
    json_array_foreach(expressions, i, item)
    {
        const enum aw_err err = expression_print(&text, item);
        if (err)
            return err;
    }
    return text.cut ? AW_ERR_LIMIT : AW_OK;
}

enum aw_err aw__labels_pack(const json_t *labels, char *buf, size_t size, size_t *ret_len)
{
    size_t len = 0;
    uint32_t count = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)labels, key, value)
    {
        struct aw_text text;
        if (!json_is_string(value))
            return AW_ERR_FORMAT;
        if (++count > AW__LABELS_MAX || len == size)
            return AW_ERR_LIMIT;
        aw_text_init(&text, buf + len, size - len);
        aw_text_add(&text, "%s=%s", key, json_string_value(value));
        if (text.cut)
            return AW_ERR_LIMIT;
        len += text.len + 1;
    }
    *ret_len = len;
    return AW_OK;
}
