/* transfer_in.c - lines of JSON or CSV as rows. Nothing in a line is trusted. */
#include <string.h>

#include "base/json.h"
#include "store/fields.h"
#include "store/transfer.h"

struct importing {
    struct aw_store *store;
    const char *name;
    const struct aw_alloc *alloc;
    FILE *stream;
    uint32_t line; /* 1-based number of the one in `text` */
    char *text;    /* [AW_TRANSFER_LINE_MAX] without its end of line */
    size_t len;
    uint32_t column[AW__FIELD_COUNT]; /* CSV: which field each column is */
    uint32_t columns;                 /* CSV: as many as the header has */
    uint64_t rows;
    struct aw__row_in reading;
};

/* Reads the next line. `*ret_more` false: there is none. */
static enum aw_err next_line(struct importing *in, bool *ret_more, struct aw_diag *diag)
{
    int c;
    in->len = 0;
    in->line++;
    while ((c = getc(in->stream)) != EOF && c != '\n') {
        if (in->len == AW_TRANSFER_LINE_MAX - 1)
            return aw_fail(diag, AW_ERR_LIMIT, "a line of more than %u bytes",
                           AW_TRANSFER_LINE_MAX - 1);
        in->text[in->len++] = (char)c;
    }
    if (ferror(in->stream))
        return aw_fail(diag, AW_ERR_IO, "cannot read");
    *ret_more = c != EOF || in->len > 0;
    if (in->len > 0 && in->text[in->len - 1] == '\r')
        in->len--;
    in->text[in->len] = '\0';
    if (in->line == 1 && in->len >= 3 && !memcmp(in->text, "\xef\xbb\xbf", 3)) {
        in->len -= 3; /* a byte order mark, as spreadsheets write it */
        memmove(in->text, in->text + 3, in->len + 1);
    }
    return AW_OK;
}

/* ---- JSON ---- */

static enum aw_err json_value(struct importing *in, const struct aw_tree *tree,
                              const struct aw_node *node, uint32_t field, struct aw_diag *diag)
{
    const struct aw__field *f = &aw__fields[field];
    bool word = f->kind == AW__FIELD_NAME || f->kind == AW__FIELD_STAGE ||
                f->kind == AW__FIELD_ACTOR || f->kind == AW__FIELD_MODEL;
    bool number = node->kind == AW_NODE_INTEGER || node->kind == AW_NODE_REAL;
    enum aw_err err = AW_OK;
    if (node->kind == AW_NODE_NULL)
        return aw__field_set(&in->reading, field, NULL, diag);
    if (aw__field_is_vector(f)) {
        if (node->kind != AW_NODE_LIST)
            return aw_tree_expected(tree, node, AW_ERR_FORMAT, diag, "a list of numbers");
        for (const struct aw_node *n = node->first; n && !err; n = n->next) {
            if (n->kind != AW_NODE_INTEGER && n->kind != AW_NODE_REAL)
                return aw_tree_expected(tree, n, AW_ERR_FORMAT, diag, "a number");
            err = aw__field_push(&in->reading, field, n->text, diag);
        }
        return err;
    }
    if (word ? node->kind != AW_NODE_STRING
             : !(number || (f->kind == AW__FIELD_BOOL && node->kind == AW_NODE_BOOL)))
        return aw_tree_expected(tree, node, AW_ERR_FORMAT, diag,
                                word                        ? "a string"
                                : f->kind == AW__FIELD_BOOL ? "true or false"
                                                            : "a number");
    /* the text, not the value: a float is rounded once, and keeps the sign of its zero */
    return aw__field_set(&in->reading, field, node->text, diag);
}

static enum aw_err read_json(struct importing *in, struct aw_diag *diag)
{
    struct aw_tree tree = {0};
    uint32_t column = 0;
    enum aw_err err = aw_json_parse(&tree, in->name, in->text, in->len, in->alloc, diag);
    if (err)
        return err;
    if (tree.first->kind != AW_NODE_MAP)
        err = aw_tree_expected(&tree, tree.first, AW_ERR_FORMAT, diag, "an object");
    for (const struct aw_node *n = err ? NULL : tree.first->first; n && !err; n = n->next) {
        uint32_t field = aw__field_named(n->key);
        char quoted[AW_TEXT_QUOTE_MAX];
        column = n->column;
        if (field == AW__FIELD_COUNT)
            err = aw_fail(diag, AW_ERR_FORMAT, "there is no field %s",
                          aw_text_quote(n->key, strlen(n->key), quoted, sizeof quoted));
        else
            err = json_value(in, &tree, n, field, diag);
    }
    if (!err) {
        column = 0;
        err = aw__row_in_finish(&in->reading, diag);
    }
    if (err && !diag->column)
        diag->column = column;
    aw_tree_deinit(&tree);
    return err;
}

/* ---- CSV (RFC 4180, one line a record) ---- */

/* Takes the next cell off the line: a NUL ends it in place. NULL: malformed. */
static char *next_cell(char **at, bool *ret_last)
{
    char *cell = *at, *to = *at, *from = *at;
    if (*from == '"') {
        for (from++; *from && (*from != '"' || from[1] == '"'); from++) {
            from += *from == '"';
            *to++ = *from;
        }
        if (*from++ != '"' || (*from && *from != ','))
            return NULL;
    } else {
        while (*from && *from != ',') {
            if (*from == '"')
                return NULL;
            from++;
        }
        to = from;
    }
    *ret_last = !*from;
    *at = from + !*ret_last;
    *to = '\0';
    return cell;
}

static enum aw_err csv_vector(struct importing *in, uint32_t field, char *cell,
                              struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    while (!err && *cell) {
        size_t len = strcspn(cell, " ");
        char *next = cell + len + (cell[len] == ' ');
        cell[len] = '\0';
        err = aw__field_push(&in->reading, field, cell, diag);
        cell = next;
    }
    in->reading.seen |= UINT64_C(1) << field;
    return err;
}

/* Calls for every cell; `heads`: it is the first line. */
static enum aw_err read_cells(struct importing *in, bool heads, struct aw_diag *diag)
{
    char *at = in->text, *cell;
    bool last = false;
    enum aw_err err = AW_OK;
    uint32_t i = 0, start = 0;
    if (strlen(in->text) != in->len)
        return aw_fail(diag, AW_ERR_FORMAT, "a zero byte");
    for (; !last && !err; i++) {
        char quoted[AW_TEXT_QUOTE_MAX];
        start = (uint32_t)(at - in->text) + 1;
        if (i == (heads ? AW__FIELD_COUNT : in->columns))
            err = aw_fail(diag, AW_ERR_FORMAT, "more than %u columns", i);
        else if (!(cell = next_cell(&at, &last)))
            err = aw_fail(diag, AW_ERR_FORMAT, "quotes do not match");
        else if (heads) {
            uint32_t field = aw__field_named(cell);
            if (field == AW__FIELD_COUNT || in->reading.seen >> field & 1)
                err = aw_fail(diag, AW_ERR_FORMAT, "expected the name of another column, found %s",
                              aw_text_quote(cell, strlen(cell), quoted, sizeof quoted));
            else
                in->reading.seen |= UINT64_C(1) << field;
            in->column[i] = field;
        } else if (aw__field_is_vector(&aw__fields[in->column[i]])) {
            err = csv_vector(in, in->column[i], cell, diag);
        } else {
            err = aw__field_set(&in->reading, in->column[i], *cell ? cell : NULL, diag);
        }
    }
    const uint32_t missing = heads ? aw__field_missing(&in->reading) : AW__FIELD_COUNT;
    if (!err && (missing < AW__FIELD_COUNT || (!heads && i < in->columns))) {
        start = 0;
        err = heads ? aw_fail(diag, AW_ERR_FORMAT, "expected a column %s: a header names them all",
                              aw__fields[missing].name)
                    : aw_fail(diag, AW_ERR_FORMAT, "expected %u columns, found %u", in->columns, i);
    }
    in->columns = heads ? i : in->columns;
    if (err)
        diag->column = start;
    return err;
}

static enum aw_err read_csv(struct importing *in, struct aw_diag *diag)
{
    enum aw_err err = read_cells(in, false, diag);
    return err ? err : aw__row_in_finish(&in->reading, diag);
}

/* ---- both ---- */

static enum aw_err import_lines(struct importing *in, enum aw_transfer_format format,
                                struct aw_diag *diag)
{
    bool more = true, headed = format == AW_TRANSFER_JSONL;
    for (;;) {
        enum aw_err err = next_line(in, &more, diag);
        if (err)
            return err;
        if (!more)
            return AW_OK;
        if (in->len == 0)
            continue;
        aw__row_in_init(&in->reading);
        if (!headed) {
            if ((err = read_cells(in, true, diag)))
                return err;
            headed = true;
            continue;
        }
        err = format == AW_TRANSFER_JSONL ? read_json(in, diag) : read_csv(in, diag);
        if (err || (err = aw_store_append(in->store, &in->reading.row, diag)))
            return err;
        in->rows++;
        if (in->rows % AW_TRANSFER_GROUP_ROWS == 0 &&
            ((err = aw_store_commit(in->store, diag)) || (err = aw_store_begin(in->store, diag))))
            return err;
    }
}

/* The place of a failure, where it has none of its own. */
static void set_place(struct aw_diag *diag, const struct importing *in)
{
    if (!diag->file[0] || !strcmp(diag->file, in->name)) {
        size_t len = strnlen(in->name, sizeof diag->file - 1);
        memcpy(diag->file, in->name, len);
        diag->file[len] = '\0';
        diag->line = in->line;
    }
}

enum aw_err aw_store_import(struct aw_store *store, enum aw_transfer_format format, FILE *stream,
                            const char *name, const struct aw_alloc *alloc, uint64_t *ret_rows,
                            struct aw_diag *diag)
{
    struct aw_diag own = {0}, after = {0};
    struct importing *in = aw_alloc_new(alloc, 1, sizeof *in);
    char *text = aw_alloc_new(alloc, AW_TRANSFER_LINE_MAX, 1);
    enum aw_err err = AW_OK;
    *ret_rows = 0;
    if (!in || !text) {
        err = aw_fail(&own, AW_ERR_NOMEM, "out of memory");
        goto out;
    }
    in->store = store;
    in->name = name;
    in->alloc = alloc;
    in->stream = stream;
    in->text = text;
    if ((err = aw_store_begin(store, &own)))
        goto out;
    err = import_lines(in, format, &own);
    if (err)
        set_place(&own, in);
    /* what was read well is kept, also before a bad line */
    if (store->grouped) {
        enum aw_err kept = aw_store_commit(store, err ? &after : &own);
        err = err ? err : kept;
        in->rows = kept ? in->rows - in->rows % AW_TRANSFER_GROUP_ROWS : in->rows;
    }
    *ret_rows = in->rows;
out:
    if (err && diag)
        *diag = own;
    aw_alloc_free(alloc, text);
    aw_alloc_free(alloc, in);
    return err;
}
