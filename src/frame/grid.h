/*
 * grid.h - a table that fits the screen: columns that matter less give way, and the last is cut.
 *
 * A table of layout.h wraps its last column, which is right for a report that is read once. A list
 * that is looked at again and again, or redrawn in place, has one line per row.
 *
 * Call order: init, add the cells row after row, print (which frees) or deinit.
 * Memory:     cells on the heap. Running out is remembered, and print says so.
 * Threads:    single owner.
 */
#ifndef AW_FRAME_GRID_H
#define AW_FRAME_GRID_H

#include <aware/err.h>

#include <stdio.h>

#define AW__GRID_COLUMNS_MAX 32u
#define AW_GRID_ROWS_MAX     16384u
#define AW_GRID_CELL_MAX     768u /* bytes of a cell, with its NUL */

enum aw_tone { AW_TONE_PLAIN, AW_TONE_BAD, AW_TONE_ODD, AW_TONE_GOOD, AW_TONE_FAINT };

struct aw_grid_column {
    const char *head; /* NULL ends a table */
    bool right;       /* figures stand right */
    uint8_t rank;     /* 0: always there; the highest rank goes first where the width is short */
    bool wide;        /* only where everything is wanted */
    uint8_t least;    /* a column that is cut keeps this width; 0: it is never cut */
};

struct aw__grid_cell {
    char *text;
    enum aw_tone tone;
};

struct aw_grid {
    const struct aw_grid_column *columns;
    uint32_t column_count;
    uint32_t spare; /* a bit for each column that may be left out */
    uint32_t cell_count, cell_capacity;
    struct aw__grid_cell *cells;
    bool failed;
};

void aw_grid_init(struct aw_grid *grid, const struct aw_grid_column *columns);
void aw_grid_deinit(struct aw_grid *grid); /* a zeroed one is a no-op */
/* Leaves this column out where no row has more than "-" in it. */
void aw_grid_spare(struct aw_grid *grid, uint32_t column);
void aw_grid_add(struct aw_grid *grid, enum aw_tone tone, const char *fmt, ...) AW_PRINTF(3, 4);

/* `width` 0: as wide as it gets, all columns. `rows_max` 0: all rows. With `heads` false the first
 * line is left out. `end` is written at the end of every line: "\n", or what clears the rest of a
 * line first. */
struct aw_grid_look {
    unsigned width;
    uint32_t rows_max, rows_from; /* rows_from: as many are left out at the top */
    uint32_t marked;              /* the row under the cursor, from 1 on; 0: none */
    bool wide, heads, color;
    const char *end;
};
AW_NODISCARD enum aw_err aw_grid_print(struct aw_grid *grid, FILE *out,
                                       const struct aw_grid_look *look, struct aw_diag *diag);

/* "\033[31m" and so on; "" without colour. */
const char *aw_tone_on(enum aw_tone tone, bool color);
const char *aw_tone_off(bool color);

#endif
