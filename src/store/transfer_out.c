/* transfer_out.c - rows as lines of JSON or CSV. */
#include "store/fields.h"
#include "store/transfer.h"

struct writing {
    FILE *stream;
    struct aw_text line;
    uint64_t rows;
    struct aw_diag *diag;
};

static void add_vector(struct aw_text *line, const float *x, uint32_t dim, const char *between)
{
    char real[AW_TEXT_REAL_MAX];
    for (uint32_t i = 0; i < dim; i++)
        aw_text_add(line, "%s%s", i ? between : "", aw_text_real_f32(x[i], real, sizeof real));
}

/* A workload's name has no control characters; a quote and a backslash are all that JSON minds. */
static void add_json_name(struct aw_text *line, const char *name)
{
    aw_text_add(line, "\"");
    for (; *name; name++)
        aw_text_add(line, "%s%c", *name == '"' || *name == '\\' ? "\\" : "", *name);
    aw_text_add(line, "\"");
}

static void add_csv_name(struct aw_text *line, const char *name)
{
    aw_text_add(line, "\"");
    for (; *name; name++)
        aw_text_add(line, "%s%c", *name == '"' ? "\"" : "", *name);
    aw_text_add(line, "\"");
}

static enum aw_err put_line(struct writing *writing)
{
    AW_ASSERT(!writing->line.cut);
    if (fwrite(writing->line.buf, 1, writing->line.len, writing->stream) != writing->line.len)
        return aw_fail(writing->diag, AW_ERR_IO, "cannot write");
    aw_text_init(&writing->line, writing->line.buf, writing->line.size);
    return AW_OK;
}

static enum aw_err write_json(void *ctx, const struct aw_store_row *row)
{
    struct writing *writing = ctx;
    struct aw_text *line = &writing->line;
    for (uint32_t i = 0; i < AW__FIELD_COUNT; i++) {
        const struct aw__field *field = &aw__fields[i];
        char value[64];
        struct aw_text text;
        uint32_t dim;
        aw_text_add(line, "%s\"%s\":", i ? "," : "{", field->name);
        if (field->kind == AW__FIELD_NAME) {
            add_json_name(line, row->workload);
        } else if (aw__field_is_vector(field)) {
            const float *x = aw__field_vector(field, row, &dim);
            aw_text_add(line, x ? "[" : "null");
            add_vector(line, x, x ? dim : 0, ",");
            aw_text_add(line, x ? "]" : "");
        } else {
            aw_text_init(&text, value, sizeof value);
            bool word = aw__field_print(field, row, &text);
            aw_text_add(line, word ? "\"%s\"" : "%s", text.len ? value : "null");
        }
    }
    aw_text_add(line, "}\n");
    writing->rows++;
    return put_line(writing);
}

static enum aw_err write_csv(void *ctx, const struct aw_store_row *row)
{
    struct writing *writing = ctx;
    struct aw_text *line = &writing->line;
    for (uint32_t i = 0; i < AW__FIELD_COUNT; i++) {
        const struct aw__field *field = &aw__fields[i];
        uint32_t dim;
        aw_text_add(line, i ? "," : "");
        if (field->kind == AW__FIELD_NAME) {
            add_csv_name(line, row->workload);
        } else if (aw__field_is_vector(field)) {
            const float *x = aw__field_vector(field, row, &dim);
            add_vector(line, x, x ? dim : 0, " ");
        } else {
            aw__field_print(field, row, line);
        }
    }
    aw_text_add(line, "\n");
    writing->rows++;
    return put_line(writing);
}

enum aw_err aw_store_export(struct aw_store *store, const struct aw_store_query *query,
                            enum aw_transfer_format format, FILE *stream,
                            const struct aw_alloc *alloc, uint64_t *ret_rows, struct aw_diag *diag)
{
    struct writing writing = {.stream = stream, .diag = diag};
    enum aw_err err = AW_OK;
    char *buf = aw_alloc_new(alloc, AW_TRANSFER_LINE_MAX, 1);
    if (!buf)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    aw_text_init(&writing.line, buf, AW_TRANSFER_LINE_MAX);
    if (format == AW_TRANSFER_CSV) {
        for (uint32_t i = 0; i < AW__FIELD_COUNT; i++)
            aw_text_add(&writing.line, "%s%s", i ? "," : "", aw__fields[i].name);
        aw_text_add(&writing.line, "\n");
        err = put_line(&writing);
    }
    if (!err)
        err = aw_store_scan(store, query, format == AW_TRANSFER_CSV ? write_csv : write_json,
                            &writing, diag);
    if (!err)
        *ret_rows = writing.rows;
    aw_alloc_free(alloc, buf);
    return err;
}
