/* layout.c - wrapping, tables and figures for people. */
#include "frame/layout.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMN_GAP      2u
#define LAST_COLUMN_MIN 24u /* a last column narrower than this is not wrapped any further */

static void spaces(FILE *out, unsigned count)
{
    fprintf(out, "%*s", (int)count, "");
}

void aw_wrap(FILE *out, const char *text, unsigned column, unsigned indent, unsigned width)
{
    bool first = true;
    for (const char *p = text + strspn(text, " \n"); *p; p += strspn(p, " \n")) {
        unsigned len = (unsigned)strcspn(p, " \n");
        if (!first && column + 1 + len > width) {
            fputc('\n', out);
            spaces(out, indent);
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fwrite(p, 1, len, out);
        column += len;
        p += len;
        first = false;
    }
    fputc('\n', out);
}

unsigned aw_columns(FILE *out)
{
    struct winsize size;
    if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return AW_HELP_COLUMNS + 20;
}

void aw_table_init(struct aw_table *table, const char *const *heads)
{
    *table = (struct aw_table){.heads = heads};
    while (heads[table->column_count])
        table->column_count++;
    AW_ASSERT(table->column_count > 0 && table->column_count <= AW__TABLE_COLUMNS_MAX);
}

void aw_table_deinit(struct aw_table *table)
{
    for (uint32_t i = 0; i < table->row_count; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct aw_table){0};
}

/* `row_count` counts cells until print; a table is whole when it divides evenly. */
void aw_table_add(struct aw_table *table, const char *fmt, ...)
{
    char cell[AW_CELL_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(cell, sizeof cell, fmt, args);
    va_end(args);
    if (table->failed)
        return;
    if (table->row_count == table->row_capacity) {
        uint32_t capacity = table->row_capacity ? 2 * table->row_capacity : 64;
        char **grown = capacity > AW__TABLE_ROWS_MAX * AW__TABLE_COLUMNS_MAX
                           ? NULL
                           : realloc(table->cells, capacity * sizeof *grown);
        if (!grown) {
            table->failed = true;
            return;
        }
        table->cells = grown;
        table->row_capacity = capacity;
    }
    char *copy = strdup(cell);
    if (!copy) {
        table->failed = true;
        return;
    }
    table->cells[table->row_count++] = copy;
}

static const char *head_text(const struct aw_table *table, uint32_t column)
{
    const char *head = table->heads[column];
    return *head == '>' ? head + 1 : head;
}

static void cell_print(const struct aw_table *table, FILE *out, uint32_t column, const char *text,
                       const unsigned *width, unsigned start, unsigned columns)
{
    bool last = column + 1 == table->column_count, right = *table->heads[column] == '>';
    unsigned len = (unsigned)strlen(text), pad = width[column] > len ? width[column] - len : 0;
    if (right)
        spaces(out, pad);
    if (last && !right) {
        unsigned wide = columns > start + LAST_COLUMN_MIN ? columns : start + LAST_COLUMN_MIN;
        aw_wrap(out, text, start, start, wide);
        return;
    }
    fputs(text, out);
    if (last)
        fputc('\n', out);
    else
        spaces(out, (right ? 0 : pad) + COLUMN_GAP);
}

enum aw_err aw_table_print(struct aw_table *table, FILE *out, bool color, struct aw_diag *diag)
{
    unsigned width[AW__TABLE_COLUMNS_MAX], columns = aw_columns(out);
    enum aw_err err = AW_OK;
    if (table->failed) {
        err = aw_fail(diag, AW_ERR_NOMEM, "the table does not fit into memory");
        goto out;
    }
    AW_ASSERT(table->row_count % table->column_count == 0);
    for (uint32_t c = 0; c < table->column_count; c++) {
        width[c] = (unsigned)strlen(head_text(table, c));
        for (uint32_t i = c; i < table->row_count; i += table->column_count) {
            unsigned len = (unsigned)strlen(table->cells[i]);
            width[c] = len > width[c] ? len : width[c];
        }
    }
    fputs(color ? "\033[1m" : "", out);
    for (uint32_t c = 0, start = 0; c < table->column_count; c++) {
        cell_print(table, out, c, head_text(table, c), width, start, UINT16_MAX);
        start += width[c] + COLUMN_GAP;
    }
    fputs(color ? "\033[0m" : "", out);
    for (uint32_t i = 0, start = 0; i < table->row_count; i++) {
        uint32_t c = i % table->column_count;
        start = c ? start : 0;
        cell_print(table, out, c, table->cells[i], width, start, columns);
        start += width[c] + COLUMN_GAP;
    }
out:
    aw_table_deinit(table);
    return err;
}

enum aw_err aw_table_print_markdown(struct aw_table *table, FILE *out, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    if (table->failed) {
        err = aw_fail(diag, AW_ERR_NOMEM, "the table does not fit into memory");
        goto out;
    }
    AW_ASSERT(table->row_count % table->column_count == 0);
    for (uint32_t c = 0; c < table->column_count; c++)
        fprintf(out, "| %s ", head_text(table, c));
    fputs("|\n", out);
    for (uint32_t c = 0; c < table->column_count; c++)
        fputs(*table->heads[c] == '>' ? "|--:" : "|---", out);
    fputs("|\n", out);
    for (uint32_t i = 0; i < table->row_count; i++)
        fprintf(out, "| %s %s", table->cells[i], (i + 1) % table->column_count == 0 ? "|\n" : "");
out:
    aw_table_deinit(table);
    return err;
}

const char *aw_count_format(double count, char *buf, size_t size)
{
    static const struct {
        double from, unit;
        const char *suffix;
    } scale[] = {{1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}};
    for (size_t i = 0; i < sizeof scale / sizeof *scale; i++) {
        if (count >= scale[i].from) {
            double value = count / scale[i].unit;
            snprintf(buf, size, "%.*f%s",
                     value < 10    ? 2
                     : value < 100 ? 1
                                   : 0,
                     value, scale[i].suffix);
            return buf;
        }
    }
    snprintf(buf, size, "%.0f", count);
    return buf;
}

const char *aw_seconds_format(double seconds, char *buf, size_t size)
{
    if (!isfinite(seconds) || seconds < 0)
        snprintf(buf, size, "-");
    else if (seconds < 60)
        snprintf(buf, size, "%.*f s", seconds < 9.95 ? 1 : 0, seconds);
    else if (seconds < 3600)
        snprintf(buf, size, "%dm %02ds", (int)seconds / 60, (int)seconds % 60);
    else if (seconds < 1e6 * 3600)
        snprintf(buf, size, "%dh %02dm", (int)(seconds / 3600), (int)(fmod(seconds, 3600) / 60));
    else
        snprintf(buf, size, "-");
    return buf;
}

const char *aw_figure_format(double value, char *buf, size_t size)
{
    if (isnan(value))
        snprintf(buf, size, "-");
    else if (isinf(value))
        snprintf(buf, size, "%s", value < 0 ? "-inf" : "inf");
    else
        snprintf(buf, size, "%.6g", value);
    return buf;
}
