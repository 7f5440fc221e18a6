/*
 * rows.h - the table of workloads that `get` and `top` share, and a screen that is redrawn.
 */
#ifndef AW_FRAME_ROWS_H
#define AW_FRAME_ROWS_H

#include "frame/grid.h"
#include "frame/verb.h"

#include <jansson.h>

/* "cart" for "default/cart", else the whole name. */
const char *aw_rows_name(const char *name);
/* What an operator should know first of a workload: frozen, waiting, held, missing its SLO, or why
 * the last decision was taken. Returns `buf`. */
const char *aw_rows_reason(const json_t *row, char *buf, size_t size);

/* Every workload of a list as a row, into a grid that the caller prints or drops. */
void aw_rows_grid(const json_t *list, struct aw_grid *ret);

/* An entry of the audit log, as people read it (history.c). */
#define AW_ENTRY_MAX 224u
bool aw_entry_notable(const json_t *entry); /* it changed something, or is a person's */
const char *aw_entry_who(const json_t *entry);
const char *aw_entry_what(const json_t *entry, char *buf, size_t size);
const char *aw_entry_why(const json_t *entry);

/* Keys that are not characters. */
enum aw_key { AW_KEY_UP = 256, AW_KEY_DOWN, AW_KEY_LEFT, AW_KEY_RIGHT, AW_KEY_ESCAPE };

/* The whole terminal, given back at the end. `wait` returns a key, 0 after `seconds`, or -1 when a
 * signal asked for the end. */
struct aw_screen {
    bool raw;
};
void aw_screen_begin(struct aw_screen *screen);
void aw_screen_end(struct aw_screen *screen); /* a zeroed one is a no-op */
int aw_screen_wait(double seconds);
void aw_screen_size(unsigned *ret_rows, unsigned *ret_columns);

#define AW_SCREEN_HOME  "\033[H"
#define AW_SCREEN_END   "\033[K\n" /* of a line */
#define AW_SCREEN_CLEAR "\033[J"   /* what is below */

#endif
