/*
 * layout.h - text for people: wrapped paragraphs, aligned tables, a little colour, figures.
 *
 * Memory:  a table keeps its cells on the heap until it is printed or dropped.
 * Threads: single owner.
 */
#ifndef AW_FRAME_LAYOUT_H
#define AW_FRAME_LAYOUT_H

#include <aware/err.h>

#include <stdio.h>

#define AW_HELP_COLUMNS       80u /* help is laid out for this, whatever the terminal */
#define AW__TABLE_COLUMNS_MAX 20u /* columns of a table */
#define AW__TABLE_ROWS_MAX    8192u
#define AW_CELL_MAX           1024u /* bytes of a cell, with its NUL */

/* Prints `text` word by word. The cursor is at `column`; later lines start at `indent`; no line
 * goes beyond `width` unless a single word does. Ends with a newline. */
void aw_wrap(FILE *out, const char *text, unsigned column, unsigned indent, unsigned width);

/* Columns of the terminal behind `out`; AW_HELP_COLUMNS + 20 when it is not a terminal. */
unsigned aw_columns(FILE *out);

struct aw_table {
    const char *const *heads; /* ends with NULL; a head that begins with '>' is right-aligned */
    uint32_t column_count;
    uint32_t row_count, row_capacity;
    char **cells; /* row after row; each its own block */
    bool failed;  /* memory or rows ran out: print says so */
};
void aw_table_init(struct aw_table *table, const char *const *heads);
/* One more cell, rows filling from the left. */
void aw_table_add(struct aw_table *table, const char *fmt, ...) AW_PRINTF(2, 3);
/* Prints head and rows, the last column wrapped to the width, then frees everything. */
AW_NODISCARD enum aw_err aw_table_print(struct aw_table *table, FILE *out, bool color,
                                        struct aw_diag *diag);
/* The same as a table of a Markdown page. */
AW_NODISCARD enum aw_err aw_table_print_markdown(struct aw_table *table, FILE *out,
                                                 struct aw_diag *diag);
void aw_table_deinit(struct aw_table *table); /* a zeroed table is a no-op */

/* "1 234 567" as 1.23M, 12.3k, 950. Returns `buf`. */
const char *aw_count_format(double count, char *buf, size_t size);
/* "1h 02m", "3m 05s", "4.2 s". Returns `buf`. */
const char *aw_seconds_format(double seconds, char *buf, size_t size);
/* A bound or a return: "-inf", "0.5", "-" for NAN. Returns `buf`. */
const char *aw_figure_format(double value, char *buf, size_t size);

#endif
