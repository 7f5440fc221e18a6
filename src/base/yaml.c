/*
 * yaml.c - libyaml events to the object tree.
 *
 * libyaml marks places in characters and we report bytes, as editors jump by. Two cursors walk the
 * text with the marks, which only ever move on, so the translation is linear in all.
 */
#include "base/yaml.h"

#include "base/text.h"

#include <math.h>
#include <string.h>
#include <yaml.h>

/* libyaml compares every %TAG directive of a document with all before it. We refuse them anyway;
 * this many lines that look like one are refused before it can spend quadratic time. */
#define TAG_LINES_MAX 16u

#define CORE_TAG "tag:yaml.org,2002:"

/* A position in the text, in characters and in bytes. */
struct cursor {
    size_t index;  /* characters before it */
    size_t offset; /* bytes before it */
};

struct anchor {
    const char *name;
    struct aw_node *node;
};

struct state {
    struct aw_tree *tree;
    struct aw_diag *diag;
    const char *bytes;
    size_t len;
    struct cursor mark;
    struct cursor line_start;
    struct aw_node *open; /* innermost list or map, NULL between documents */
    uint32_t depth;       /* of `open` */
    const char *key;      /* waiting for its value, in a map */
    struct aw__tree_place key_place;
    struct anchor anchors[AW_TREE_ANCHORS_MAX];
    uint32_t anchor_count;
};

static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

static size_t cursor_seek(struct cursor *cursor, const struct state *s, size_t index)
{
    while (cursor->index < index && cursor->offset < s->len) {
        cursor->offset++;
        while (cursor->offset < s->len && continues(s->bytes[cursor->offset]))
            cursor->offset++;
        cursor->index++;
    }
    while (cursor->index > index) {
        cursor->offset--;
        while (cursor->offset > 0 && continues(s->bytes[cursor->offset]))
            cursor->offset--;
        cursor->index--;
    }
    return cursor->offset;
}

static struct aw__tree_place place_of(struct state *s, const yaml_mark_t *mark)
{
    size_t at = cursor_seek(&s->mark, s, mark->index);
    size_t column = mark->column < mark->index ? mark->column : mark->index;
    size_t start = cursor_seek(&s->line_start, s, mark->index - column);
    return (struct aw__tree_place){(uint32_t)mark->line + 1, (uint32_t)(at - start) + 1};
}

#define fail_mark(s, err, place, ...) \
    aw_fail_at((s)->diag, (err), (s)->tree->file, (place).line, (place).column, NULL, __VA_ARGS__)

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

/* The core schema has digits in three bases. Returns false when `text` is not a whole number;
 * `ret_fits` tells whether it fits. */
static bool parse_integer(const char *text, int64_t *ret, bool *ret_fits)
{
    unsigned base = 10;
    bool negative = *text == '-';
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'o')) {
        base = text[1] == 'x' ? 16 : 8;
        text += 2;
    } else if (*text == '-' || *text == '+') {
        text++;
    }
    if (!*text)
        return false;
    int64_t value = 0;
    bool fits = true;
    for (; *text; text++) {
        unsigned digit = *text >= '0' && *text <= '9'   ? (unsigned)(*text - '0')
                         : *text >= 'a' && *text <= 'f' ? (unsigned)(*text - 'a') + 10
                         : *text >= 'A' && *text <= 'F' ? (unsigned)(*text - 'A') + 10
                                                        : base;
        if (digit >= base)
            return false;
        /* Built downwards when negative: -2^63 has no positive twin. */
        int64_t step = negative ? -(int64_t)digit : (int64_t)digit;
        fits = fits && !__builtin_mul_overflow(value, (int64_t)base, &value) &&
               !__builtin_add_overflow(value, step, &value);
    }
    *ret = value;
    *ret_fits = fits;
    return true;
}

/* Gives `node` the kind and value that the core schema reads in its text. */
static enum aw_err resolve(struct state *s, struct aw_node *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    static const char *const infs[] = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", NULL};
    static const char *const neg_infs[] = {"-.inf", "-.Inf", "-.INF", NULL};
    static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
    struct aw__tree_place place = {node->line, node->column};
    const char *text = node->text;
    int64_t integer;
    bool fits;
    double real;
    char quoted[AW_TEXT_QUOTE_MAX];
    if (is_one_of(text, nulls)) {
        node->kind = AW_NODE_NULL;
    } else if (is_one_of(text, trues) || is_one_of(text, falses)) {
        node->kind = AW_NODE_BOOL;
        node->boolean = is_one_of(text, trues);
    } else if (parse_integer(text, &integer, &fits)) {
        if (!fits)
            return fail_mark(s, AW_ERR_FORMAT, place,
                             "expected a whole number that fits 64 bits, found %s",
                             aw_text_quote(text, node->text_len, quoted, sizeof quoted));
        node->kind = AW_NODE_INTEGER;
        node->integer = integer;
    } else if (is_one_of(text, infs) || is_one_of(text, neg_infs) || is_one_of(text, nans)) {
        node->kind = AW_NODE_REAL;
        node->real = is_one_of(text, nans) ? (double)NAN : (double)INFINITY;
        if (is_one_of(text, neg_infs))
            node->real = -(double)INFINITY;
    } else {
        enum aw_err err = aw_text_parse_real(text, &real);
        if (err == AW_ERR_RANGE)
            return fail_mark(s, AW_ERR_FORMAT, place, "expected a number that fits, found %s",
                             aw_text_quote(text, node->text_len, quoted, sizeof quoted));
        node->kind = err ? AW_NODE_STRING : AW_NODE_REAL;
        if (!err)
            node->real = real;
    }
    return AW_OK;
}

static enum aw_err wrong_tag(struct state *s, struct aw__tree_place place, const char *tag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    return fail_mark(s, AW_ERR_FORMAT, place, "the tag %s does not fit here",
                     aw_text_quote(tag, strlen(tag), quoted, sizeof quoted));
}

static enum aw_err resolve_tagged(struct state *s, struct aw_node *node, const char *tag)
{
    static const struct {
        const char *name;
        enum aw_node_kind kind;
    } core[] = {
        {CORE_TAG "null", AW_NODE_NULL},
        {CORE_TAG "bool", AW_NODE_BOOL},
        {CORE_TAG "int", AW_NODE_INTEGER},
        {CORE_TAG "float", AW_NODE_REAL},
    };
    struct aw__tree_place place = {node->line, node->column};
    node->kind = AW_NODE_STRING;
    if (strcmp(tag, "!") == 0 || strcmp(tag, CORE_TAG "str") == 0)
        return AW_OK;
    for (size_t i = 0; i < sizeof core / sizeof core[0]; i++) {
        if (strcmp(tag, core[i].name) != 0)
            continue;
        enum aw_err err = resolve(s, node);
        if (err)
            return err;
        if (core[i].kind == AW_NODE_REAL && node->kind == AW_NODE_INTEGER) {
            node->kind = AW_NODE_REAL;
            node->real = (double)node->integer;
        }
        return node->kind == core[i].kind ? AW_OK : wrong_tag(s, place, tag);
    }
    return wrong_tag(s, place, tag);
}

static enum aw_err set_anchor(struct state *s, const yaml_char_t *name, struct aw_node *node)
{
    struct aw__tree_place place = {node->line, node->column};
    if (!name)
        return AW_OK;
    if (s->anchor_count == AW_TREE_ANCHORS_MAX)
        return fail_mark(s, AW_ERR_LIMIT, place, "expected at most %u anchors",
                         AW_TREE_ANCHORS_MAX);
    const char *copy;
    enum aw_err err =
        aw__tree_text(s->tree, (const char *)name, strlen((const char *)name), &copy, s->diag);
    if (err == AW_OK)
        s->anchors[s->anchor_count++] = (struct anchor){copy, node};
    return err;
}

/* A new node where the parser stands: a document, a list item, or the value of the waiting key. */
static enum aw_err add_node(struct state *s, struct aw__tree_place place, struct aw_node **ret)
{
    enum aw_err err = aw__tree_add(s->tree, s->open, s->key, s->key_place, place, ret, s->diag);
    s->key = NULL;
    return err;
}

static bool wants_key(const struct state *s)
{
    return s->open && s->open->kind == AW_NODE_MAP && !s->key;
}

static enum aw_err on_scalar(struct state *s, const yaml_event_t *event)
{
    struct aw__tree_place place = place_of(s, &event->start_mark);
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (memchr(text, 0, len))
        return fail_mark(s, AW_ERR_FORMAT, place, "a string may not contain a NUL character");
    if (wants_key(s)) {
        if (plain && strcmp(text, "<<") == 0)
            return fail_mark(s, AW_ERR_FORMAT, place,
                             "merge keys (<<) are not supported: write the keys out");
        if (event->data.scalar.anchor)
            return fail_mark(s, AW_ERR_FORMAT, place, "a key may not have an anchor");
        if (event->data.scalar.tag && strcmp((char *)event->data.scalar.tag, CORE_TAG "str") != 0)
            return wrong_tag(s, place, (const char *)event->data.scalar.tag);
        s->key_place = place;
        return aw__tree_text(s->tree, text, len, &s->key, s->diag);
    }
    struct aw_node *node;
    enum aw_err err = add_node(s, place, &node);
    if (err == AW_OK)
        err = aw__tree_text(s->tree, text, len, &node->text, s->diag);
    if (err)
        return err;
    node->text_len = (uint32_t)len;
    if (event->data.scalar.tag)
        err = resolve_tagged(s, node, (const char *)event->data.scalar.tag);
    else if (plain)
        err = resolve(s, node);
    else
        node->kind = AW_NODE_STRING;
    return err ? err : set_anchor(s, event->data.scalar.anchor, node);
}

static enum aw_err on_start(struct state *s, const yaml_event_t *event, enum aw_node_kind kind,
                            const yaml_char_t *tag, const yaml_char_t *anchor)
{
    struct aw__tree_place place = place_of(s, &event->start_mark);
    const char *core = kind == AW_NODE_MAP ? CORE_TAG "map" : CORE_TAG "seq";
    if (wants_key(s))
        return fail_mark(s, AW_ERR_FORMAT, place, "expected a key, found a %s",
                         kind == AW_NODE_MAP ? "map" : "list");
    if (tag && strcmp((const char *)tag, core) != 0 && strcmp((const char *)tag, "!") != 0)
        return wrong_tag(s, place, (const char *)tag);
    if (s->depth == AW_TREE_DEPTH_MAX)
        return fail_mark(s, AW_ERR_LIMIT, place, "expected at most %u levels of lists and maps",
                         AW_TREE_DEPTH_MAX);
    struct aw_node *node;
    enum aw_err err = add_node(s, place, &node);
    if (err)
        return err;
    node->kind = kind;
    s->open = node;
    s->depth++;
    return set_anchor(s, anchor, node);
}

static enum aw_err on_end(struct state *s)
{
    enum aw_err err = AW_OK;
    AW_ASSERT(s->open);
    if (s->open->kind == AW_NODE_MAP)
        err = aw__tree_close_map(s->tree, s->open, s->diag);
    s->open = s->open->parent;
    s->depth--;
    return err;
}

/* Copies `from`, which is complete, to where the parser stands, and counts against the budget.
 * `alias` is where the blame goes. */
static enum aw_err copy_node(struct state *s, const struct aw_node *from,
                             struct aw__tree_place alias)
{
    if (s->tree->alias_node_count++ >= AW_TREE_ALIAS_NODES_MAX)
        return fail_mark(s, AW_ERR_LIMIT, alias, "expected aliases to bring at most %u values",
                         AW_TREE_ALIAS_NODES_MAX);
    bool nested = from->kind == AW_NODE_LIST || from->kind == AW_NODE_MAP;
    if (nested && s->depth == AW_TREE_DEPTH_MAX)
        return fail_mark(s, AW_ERR_LIMIT, alias, "expected at most %u levels of lists and maps",
                         AW_TREE_DEPTH_MAX);
    struct aw_node *node;
    enum aw_err err = add_node(s, (struct aw__tree_place){from->line, from->column}, &node);
    if (err)
        return err;
    node->kind = from->kind;
    node->text = from->text;
    node->text_len = from->text_len;
    if (from->kind == AW_NODE_BOOL)
        node->boolean = from->boolean;
    else if (from->kind == AW_NODE_INTEGER)
        node->integer = from->integer;
    else if (from->kind == AW_NODE_REAL)
        node->real = from->real;
    if (!nested)
        return AW_OK;
    s->open = node;
    s->depth++;
    for (const struct aw_node *child = from->first; child && !err; child = child->next) {
        s->key = child->key;
        s->key_place = (struct aw__tree_place){child->key_line, child->key_column};
        err = copy_node(s, child, alias);
    }
    return err ? err : on_end(s);
}

static enum aw_err on_alias(struct state *s, const yaml_event_t *event)
{
    struct aw__tree_place place = place_of(s, &event->start_mark);
    const char *name = (const char *)event->data.alias.anchor;
    const struct aw_node *from = NULL;
    char quoted[AW_TEXT_QUOTE_MAX];
    aw_text_quote(name, strlen(name), quoted, sizeof quoted);
    for (uint32_t i = s->anchor_count; i-- > 0 && !from;)
        if (strcmp(s->anchors[i].name, name) == 0)
            from = s->anchors[i].node;
    if (!from)
        return fail_mark(s, AW_ERR_FORMAT, place, "no anchor %s comes before this alias", quoted);
    if (wants_key(s))
        return fail_mark(s, AW_ERR_FORMAT, place, "expected a key, found the alias %s", quoted);
    for (const struct aw_node *outer = s->open; outer; outer = outer->parent)
        if (outer == from)
            return fail_mark(s, AW_ERR_FORMAT, place, "the alias %s stands inside its own value",
                             quoted);
    return copy_node(s, from, place);
}

static enum aw_err on_event(struct state *s, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        s->anchor_count = 0;
        if (event->data.document_start.tag_directives.start !=
            event->data.document_start.tag_directives.end)
            return fail_mark(s, AW_ERR_FORMAT, place_of(s, &event->start_mark),
                             "%%TAG directives are not supported");
        return AW_OK;
    case YAML_SCALAR_EVENT:
        return on_scalar(s, event);
    case YAML_SEQUENCE_START_EVENT:
        return on_start(s, event, AW_NODE_LIST, event->data.sequence_start.tag,
                        event->data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT:
        return on_start(s, event, AW_NODE_MAP, event->data.mapping_start.tag,
                        event->data.mapping_start.anchor);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_end(s);
    case YAML_ALIAS_EVENT:
        return on_alias(s, event);
    default:
        return AW_OK;
    }
}

static enum aw_err on_problem(struct state *s, const yaml_parser_t *parser)
{
    const char *problem = parser->problem ? parser->problem : "unknown problem";
    if (parser->error == YAML_MEMORY_ERROR)
        return aw_fail_at(s->diag, AW_ERR_NOMEM, s->tree->file, 0, 0, NULL, "out of memory");
    if (parser->error == YAML_READER_ERROR) {
        struct aw__tree_place place;
        size_t offset = parser->problem_offset < s->len ? parser->problem_offset : s->len;
        aw_text_place(s->bytes, offset, &place.line, &place.column);
        return fail_mark(s, AW_ERR_FORMAT, place, "not valid YAML: %s (0x%02x)", problem,
                         (unsigned)parser->problem_value);
    }
    struct aw__tree_place place = place_of(s, &parser->problem_mark);
    if (parser->context)
        return fail_mark(s, AW_ERR_FORMAT, place, "not valid YAML: %s %s", problem,
                         parser->context);
    return fail_mark(s, AW_ERR_FORMAT, place, "not valid YAML: %s", problem);
}

static enum aw_err check_directives(struct state *s)
{
    uint32_t seen = 0;
    const char *end = s->bytes + s->len;
    for (const char *line = s->bytes; line && line < end;) {
        if (end - line >= 4 && memcmp(line, "%TAG", 4) == 0 && ++seen > TAG_LINES_MAX)
            return aw_fail_at(s->diag, AW_ERR_LIMIT, s->tree->file, 0, 0, NULL,
                              "%%TAG directives are not supported");
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        line = newline ? newline + 1 : NULL;
    }
    return AW_OK;
}

enum aw_err aw_yaml_parse(struct aw_tree *tree, const char *name, const char *bytes, size_t len,
                          const struct aw_alloc *alloc, struct aw_diag *diag)
{
    *tree = (struct aw_tree){0};
    enum aw_err err = aw__tree_check_bytes(name, bytes, len, diag);
    if (err)
        return err;
    if (len >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) { /* the byte order mark says nothing */
        bytes += 3;
        len -= 3;
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return aw_fail_at(diag, AW_ERR_NOMEM, name, 0, 0, NULL, "out of memory");
    aw__tree_init(tree, name, alloc);
    struct state s = {.tree = tree, .diag = diag, .bytes = bytes, .len = len};
    err = check_directives(&s);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, len);
    for (bool done = false; !done && !err;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            err = on_problem(&s, &parser);
            break;
        }
        done = event.type == YAML_STREAM_END_EVENT;
        err = on_event(&s, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (err)
        aw_tree_deinit(tree);
    return err;
}
