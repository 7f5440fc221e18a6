/*
 * json.c - jansson's values with the places that jansson does not keep.
 *
 * Three passes over the text: a count of structure, which enforces depth and number of values
 * before anything is allocated; jansson; and a walk over text and values in step. jansson keeps
 * keys in their order, so the n-th key of an object is the n-th key of its text.
 */
#include "base/json.h"

#include "base/text.h"

#include <math.h>
#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The offset behind the string that begins at `at`, or `len`. */
static size_t skip_string(const char *bytes, size_t len, size_t at)
{
    for (at++; at < len && bytes[at] != '"'; at++)
        at += bytes[at] == '\\';
    return at < len ? at + 1 : len;
}

/* The offset behind the token (a string, a word or number, one sign) that begins at `at`. */
static size_t skip_token(const char *bytes, size_t len, size_t at)
{
    if (bytes[at] == '"')
        return skip_string(bytes, len, at);
    if (strchr("[]{},:", bytes[at]))
        return at + 1;
    while (at < len && !is_space(bytes[at]) && !strchr("[]{},:\"", bytes[at]))
        at++;
    return at;
}

static enum aw_err fail_offset(const struct aw_tree *tree, const char *bytes, size_t offset,
                               enum aw_err err, struct aw_diag *diag, const char *text)
{
    uint32_t line, column;
    aw_text_place(bytes, offset, &line, &column);
    return aw_fail_at(diag, err, tree->file, line, column, NULL, "%s", text);
}

/* Before a value can be made there must be a comma, a bracket or the beginning of the text. */
static enum aw_err check_limits(const struct aw_tree *tree, const char *bytes, size_t len,
                                struct aw_diag *diag)
{
    char text[64];
    uint32_t depth = 0, values = 1;
    for (size_t at = 0; at < len; at++) {
        switch (bytes[at]) {
        case '"':
            at = skip_string(bytes, len, at) - 1;
            continue;
        case 0:
            return fail_offset(tree, bytes, at, AW_ERR_FORMAT, diag,
                               "not valid JSON: a NUL character");
        case ']':
        case '}':
            depth -= depth > 0;
            continue;
        case '[':
        case '{':
            if (++depth > AW_TREE_DEPTH_MAX) {
                snprintf(text, sizeof text, "expected at most %u levels of lists and maps",
                         AW_TREE_DEPTH_MAX);
                return fail_offset(tree, bytes, at, AW_ERR_LIMIT, diag, text);
            }
            break;
        case ',':
            break;
        default:
            continue;
        }
        if (++values > AW_TREE_NODES_MAX) {
            snprintf(text, sizeof text, "expected at most %u values", AW_TREE_NODES_MAX);
            return fail_offset(tree, bytes, at, AW_ERR_LIMIT, diag, text);
        }
    }
    return AW_OK;
}

/* jansson stops behind the token that it did not like; people look for where that begins. */
static size_t last_token_before(const char *bytes, size_t len, size_t stop)
{
    size_t last = 0;
    for (size_t at = 0; at < len && at < stop;) {
        if (is_space(bytes[at])) {
            at++;
            continue;
        }
        last = at;
        at = skip_token(bytes, len, at);
    }
    return last;
}

static enum aw_err on_problem(const struct aw_tree *tree, const char *bytes, size_t len,
                              const json_error_t *error, struct aw_diag *diag)
{
    char text[AW_DIAG_TEXT_MAX / 2], quoted[AW_TEXT_QUOTE_MAX];
    size_t stop = error->position > 0 ? (size_t)error->position : 0;
    size_t at = last_token_before(bytes, len, stop);
    size_t end = at < len ? skip_token(bytes, len, at) : at;
    enum json_error_code code = json_error_code(error);
    if (code == json_error_out_of_memory)
        return aw_fail_at(diag, AW_ERR_NOMEM, tree->file, 0, 0, NULL, "out of memory");
    if (code == json_error_premature_end_of_input) {
        at = len;
        snprintf(text, sizeof text, "not valid JSON: the text ends too early");
    } else if (code == json_error_duplicate_key) {
        snprintf(text, sizeof text, "the key %.*s is already there",
                 (int)(end - at < AW_TEXT_QUOTE_SHOWN ? end - at : AW_TEXT_QUOTE_SHOWN),
                 bytes + at);
    } else if (code == json_error_null_character || code == json_error_null_byte_in_key) {
        snprintf(text, sizeof text, "a string may not contain a NUL character");
    } else {
        /* jansson's own words end with "near '...'", which repeats the text we quote. */
        const char *near = strstr(error->text, " near ");
        int words = near ? (int)(near - error->text) : (int)strlen(error->text);
        snprintf(text, sizeof text, "not valid JSON: %.*s, found %s", words, error->text,
                 aw_text_quote(bytes + at, end - at, quoted, sizeof quoted));
    }
    return fail_offset(tree, bytes, at, AW_ERR_FORMAT, diag, text);
}

/* Where the walk stands in the text. */
struct walk {
    struct aw_tree *tree;
    struct aw_diag *diag;
    const char *bytes;
    size_t len;
    size_t at;
    size_t line_start;
    uint32_t line;
};

/* To the next token; inside tokens of valid JSON there are no newlines. */
static struct aw__tree_place next_token(struct walk *w)
{
    while (w->at < w->len && is_space(w->bytes[w->at])) {
        if (w->bytes[w->at++] == '\n') {
            w->line++;
            w->line_start = w->at;
        }
    }
    AW_ASSERT(w->at < w->len);
    return (struct aw__tree_place){w->line, (uint32_t)(w->at - w->line_start + 1)};
}

static void take_token(struct walk *w)
{
    next_token(w);
    w->at = skip_token(w->bytes, w->len, w->at);
}

static enum aw_err walk_value(struct walk *w, const json_t *value, struct aw_node *parent,
                              const char *key, struct aw__tree_place key_place);

static enum aw_err walk_object(struct walk *w, json_t *object, struct aw_node *node)
{
    enum aw_err err = AW_OK;
    take_token(w);
    for (void *iter = json_object_iter(object); iter; iter = json_object_iter_next(object, iter)) {
        const char *key, *name = json_object_iter_key(iter);
        struct aw__tree_place place = next_token(w);
        take_token(w);
        take_token(w); /* the colon */
        err = aw__tree_text(w->tree, name, strlen(name), &key, w->diag);
        if (err == AW_OK)
            err = walk_value(w, json_object_iter_value(iter), node, key, place);
        if (err)
            return err;
        take_token(w); /* a comma, or the end */
    }
    if (!node->count)
        take_token(w);
    return aw__tree_close_map(w->tree, node, w->diag);
}

static enum aw_err walk_array(struct walk *w, const json_t *array, struct aw_node *node)
{
    size_t n = json_array_size(array);
    take_token(w);
    for (size_t i = 0; i < n; i++) {
        enum aw_err err =
            walk_value(w, json_array_get(array, i), node, NULL, (struct aw__tree_place){0});
        if (err)
            return err;
        take_token(w);
    }
    if (!n)
        take_token(w);
    return AW_OK;
}

static enum aw_err walk_value(struct walk *w, const json_t *value, struct aw_node *parent,
                              const char *key, struct aw__tree_place key_place)
{
    struct aw_node *node;
    struct aw__tree_place place = next_token(w);
    enum aw_err err = aw__tree_add(w->tree, parent, key, key_place, place, &node, w->diag);
    if (err)
        return err;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        node->kind = AW_NODE_MAP;
        /* jansson's iterators want a mutable object; nothing is changed. */
        return walk_object(w, (json_t *)(uintptr_t)value, node);
    case JSON_ARRAY:
        node->kind = AW_NODE_LIST;
        return walk_array(w, value, node);
    case JSON_STRING:
        node->kind = AW_NODE_STRING;
        node->text_len = (uint32_t)json_string_length(value);
        take_token(w);
        return aw__tree_text(w->tree, json_string_value(value), node->text_len, &node->text,
                             w->diag);
    case JSON_INTEGER:
        node->kind = AW_NODE_INTEGER;
        node->integer = json_integer_value(value);
        break;
    case JSON_REAL:
        node->kind = AW_NODE_REAL;
        node->real = json_real_value(value);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        node->kind = AW_NODE_BOOL;
        node->boolean = json_is_true(value);
        break;
    case JSON_NULL:
        break;
    }
    size_t start = w->at;
    take_token(w);
    node->text_len = (uint32_t)(w->at - start);
    return aw__tree_text(w->tree, w->bytes + start, node->text_len, &node->text, w->diag);
}

enum aw_err aw_json_parse(struct aw_tree *tree, const char *name, const char *bytes, size_t len,
                          const struct aw_alloc *alloc, struct aw_diag *diag)
{
    *tree = (struct aw_tree){0};
    enum aw_err err = aw__tree_check_bytes(name, bytes, len, diag);
    if (err)
        return err;
    if (len >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) { /* RFC 8259 section 8.1: may ignore */
        bytes += 3;
        len -= 3;
    }
    size_t first = 0;
    while (first < len && is_space(bytes[first]))
        first++;
    if (first == len)
        return aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL, "the file is empty");
    aw__tree_init(tree, name, alloc);
    json_t *value = NULL;
    json_error_t error;
    struct walk w = {.tree = tree, .diag = diag, .bytes = bytes, .len = len, .line = 1};
    err = check_limits(tree, bytes, len, diag);
    if (err)
        goto out;
    value = json_loadb(bytes, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!value) {
        err = on_problem(tree, bytes, len, &error, diag);
        goto out;
    }
    err = walk_value(&w, value, NULL, NULL, (struct aw__tree_place){0});
out:
    json_decref(value);
    if (err)
        aw_tree_deinit(tree);
    return err;
}

json_t *aw_json_from_node(const struct aw_node *node)
{
    json_t *whole = NULL;
    switch (node->kind) {
    case AW_NODE_NULL:
        return json_null();
    case AW_NODE_BOOL:
        return json_boolean(node->boolean);
    case AW_NODE_INTEGER:
        return json_integer(node->integer);
    case AW_NODE_REAL:
        return json_real(node->real); /* NULL for what is not finite */
    case AW_NODE_STRING:
        return json_stringn(node->text, node->text_len);
    case AW_NODE_LIST:
        whole = json_array();
        for (const struct aw_node *item = node->first; whole && item; item = item->next) {
            if (json_array_append_new(whole, aw_json_from_node(item)) != 0)
                goto fail;
        }
        return whole;
    case AW_NODE_MAP:
        whole = json_object();
        for (const struct aw_node *item = node->first; whole && item; item = item->next) {
            if (json_object_set_new(whole, item->key, aw_json_from_node(item)) != 0)
                goto fail;
        }
        return whole;
    }
fail:
    json_decref(whole);
    return NULL;
}

static void newline(FILE *stream, unsigned indent, unsigned depth)
{
    if (indent)
        fprintf(stream, "\n%*s", (int)(indent * depth), "");
}

/* True when all was written as far as can be told here; the stream's own error flag tells the rest.
 */
static enum aw_err write_value(const json_t *value, FILE *stream, unsigned indent, unsigned depth)
{
    char number[AW_TEXT_REAL_MAX + 2];
    enum aw_err err = AW_OK;
    bool first = true;
    if (depth > AW_TREE_DEPTH_MAX)
        return AW_ERR_LIMIT;
    if (json_is_real(value)) {
        aw_text_real(json_real_value(value), number, AW_TEXT_REAL_MAX);
        /* A real stays a real when read again. */
        fprintf(stream, "%s%s", number, strpbrk(number, ".e") ? "" : ".0");
        return AW_OK;
    }
    if (json_is_array(value)) {
        size_t n = json_array_size(value);
        fputc('[', stream);
        for (size_t i = 0; i < n && !err; i++) {
            fputs(i ? "," : "", stream);
            newline(stream, indent, depth + 1);
            err = write_value(json_array_get(value, i), stream, indent, depth + 1);
        }
        if (n)
            newline(stream, indent, depth);
        fputc(']', stream);
        return err;
    }
    if (json_is_object(value)) {
        json_t *object = (json_t *)(uintptr_t)value; /* for the iterators; nothing is changed */
        fputc('{', stream);
        for (void *iter = json_object_iter(object); iter && !err;
             iter = json_object_iter_next(object, iter)) {
            json_t *key = json_string(json_object_iter_key(iter));
            fputs(first ? "" : ",", stream);
            first = false;
            newline(stream, indent, depth + 1);
            err = key && json_dumpf(key, stream, JSON_ENCODE_ANY) == 0 ? AW_OK : AW_ERR_IO;
            json_decref(key);
            fputs(indent ? ": " : ":", stream);
            if (err == AW_OK)
                err = write_value(json_object_iter_value(iter), stream, indent, depth + 1);
        }
        if (!first)
            newline(stream, indent, depth);
        fputc('}', stream);
        return err;
    }
    return json_dumpf(value, stream, JSON_ENCODE_ANY) == 0 ? AW_OK : AW_ERR_IO;
}

enum aw_err aw_json_write(const json_t *value, FILE *stream, unsigned indent)
{
    enum aw_err err = write_value(value, stream, indent, 0);
    fputc('\n', stream);
    return err ? err : ferror(stream) ? AW_ERR_IO : AW_OK;
}
