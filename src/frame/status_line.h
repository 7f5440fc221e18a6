/*
 * status_line.h - one line on stderr that tells how far something is: redrawn on a terminal, some
 * twenty rows elsewhere.
 *
 * Call order: init, then draw and row as often as you like, clear before anything else is printed.
 * Memory:     none beyond the struct.
 * Threads:    single owner. Time is an argument.
 */
#ifndef AW_FRAME_STATUS_LINE_H
#define AW_FRAME_STATUS_LINE_H

#include <aware/err.h>

#include <stdio.h>

#define AW_STATUS_REDRAW_US 100000 /* a terminal is redrawn at most 10 times a second */
#define AW_STATUS_ROWS      20u    /* about so many rows of a run without a terminal */
#define AW_STATUS_LINE_MAX  512u   /* bytes of a line, with its NUL */

struct aw_status_line {
    FILE *out;
    bool quiet;    /* nothing is shown at all */
    bool terminal; /* false: rows */
    bool drawn;    /* there is a line to clear */
    int64_t drawn_us;
    uint32_t rows; /* shown so far */
};

void aw_status_line_init(struct aw_status_line *line, FILE *out, bool quiet);
/* Whether `out` is a terminal that can redraw. */
bool aw_is_terminal(FILE *out);

/* Shows this line in place of the one before, cut to the width. `must`: even if the last was shown
 * just now. Does nothing where there is no terminal. */
void aw_status_line_draw(struct aw_status_line *line, bool must, int64_t now_us, const char *fmt,
                         ...) AW_PRINTF(4, 5);
/* Whether it is time for another row: not on a terminal, and the next twentieth is done. */
bool aw_status_line_row(struct aw_status_line *line, uint64_t done, uint64_t total);
void aw_status_line_clear(struct aw_status_line *line);

#endif
