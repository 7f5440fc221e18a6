/* table.c - cells of a file, cut in place. */
#include "serving/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/read.h"

static void cells_cut(char *line, struct aw_serving_table *table, uint32_t row, uint32_t *ret_count)
{
    uint32_t count = 0;
    for (char *at = line; at;) {
        char *end;
        if (*at == '"') { /* quoted cells hold no quotes in any of these formats */
            end = strchr(++at, '"');
            if (end)
                *end++ = '\0';
            end = end ? strchr(end, ',') : NULL;
        } else {
            end = strchr(at, ',');
        }
        if (end)
            *end = '\0';
        if (table && count < table->columns)
            table->cell[(size_t)row * table->columns + count] = at;
        count++;
        at = end ? end + 1 : NULL;
    }
    *ret_count = count;
}

static uint32_t columns_count(const char *head)
{
    uint32_t count = 1;
    for (bool quoted = false; *head && *head != '\n'; head++) {
        quoted ^= *head == '"';
        count += *head == ',' && !quoted;
    }
    return count;
}

enum aw_err aw_serving_table_read(const char *path, struct aw_serving_table *ret,
                                  struct aw_diag *diag)
{
    struct aw_serving_table table = {0};
    size_t len = 0;
    enum aw_err err =
        aw_packed_read(path, AW_SERVING_TABLE_BYTES_MAX, NULL, &table.bytes, &len, diag);
    memset(ret, 0, sizeof *ret);
    if (err)
        return err;
    uint32_t lines = 1;
    if (len >= 3 && !memcmp(table.bytes, "\xef\xbb\xbf", 3)) /* a byte order mark */
        memmove(table.bytes, table.bytes + 3, len - 2);
    for (size_t i = 0; i < len; i++)
        lines += table.bytes[i] == '\n';
    table.columns = columns_count(table.bytes);
    table.cell = aw_alloc_new(NULL, (size_t)lines * table.columns, sizeof *table.cell);
    table.line = aw_alloc_new(NULL, lines, sizeof *table.line);
    if (!table.cell || !table.line)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path);
    uint32_t row = 0, number = 0, count;
    for (char *at = table.bytes; !err && at && *at;) {
        char *end = strchr(at, '\n');
        if (end)
            *end = '\0';
        number++;
        if (*at && at[strlen(at) - 1] == '\r')
            at[strlen(at) - 1] = '\0';
        if (*at) {
            for (uint32_t c = 0; c < table.columns; c++)
                table.cell[(size_t)row * table.columns + c] = "";
            cells_cut(at, &table, row, &count);
            table.line[row++] = number;
            if (count > table.columns)
                err = aw_fail_at(diag, AW_ERR_FORMAT, path, number, 0, NULL,
                                 "expected at most %u cells as the head has, found %u",
                                 table.columns, count);
        }
        at = end ? end + 1 : NULL;
    }
    if (!err && row < 2)
        err = aw_fail_at(diag, AW_ERR_NODATA, path, number, 0, NULL,
                         "expected a head and rows, found %u line%s", row, row == 1 ? "" : "s");
    table.rows = row ? row - 1 : 0;
    if (err)
        aw_serving_table_deinit(&table);
    *ret = table;
    return err;
}

void aw_serving_table_deinit(struct aw_serving_table *table)
{
    aw_alloc_free(NULL, table->bytes);
    aw_alloc_free(NULL, (void *)(uintptr_t)table->cell);
    aw_alloc_free(NULL, table->line);
    memset(table, 0, sizeof *table);
}

uint32_t aw_serving_table_column(const struct aw_serving_table *table, const char *name)
{
    for (uint32_t c = 0; c < table->columns; c++)
        if (!strcmp(table->cell[c], name))
            return c;
    return AW_SERVING_TABLE_NONE;
}

bool aw_serving_table_has(const struct aw_serving_table *table, const char *const *names)
{
    for (; *names; names++)
        if (aw_serving_table_column(table, *names) == AW_SERVING_TABLE_NONE)
            return false;
    return true;
}

const char *aw_serving_table_text(const struct aw_serving_table *table, uint32_t row, uint32_t col)
{
    return col < table->columns ? table->cell[(size_t)(row + 1) * table->columns + col] : "";
}

double aw_serving_table_real(const struct aw_serving_table *table, uint32_t row, uint32_t col)
{
    const char *text = aw_serving_table_text(table, row, col);
    char *end = NULL;
    const double value = *text ? strtod(text, &end) : NAN;
    return *text && end && *end == '\0' && isfinite(value) ? value : NAN;
}
