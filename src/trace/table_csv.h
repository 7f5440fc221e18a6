/* table_csv.h - cells of a line of CSV, for the readers of the room. */
#ifndef AW_TRACE_TABLE_CSV_H
#define AW_TRACE_TABLE_CSV_H

#include <aware/err.h>

#define AW__CELLS_MAX 256u

struct aw__csv_cell {
    const char *at;
    size_t len;
};

/* Walks lines; quotes around a cell are taken off, "" inside one is left as it is. */
struct aw__csv_lines {
    const char *at, *end;
    uint32_t line; /* of the cells that were given last */
};
/* The next line that is not empty: its cells, at most AW__CELLS_MAX. 0: the end. */
uint32_t aw__csv_next(struct aw__csv_lines *lines, struct aw__csv_cell *cells);
/* The place of a head among cells; UINT32_MAX: not there. */
uint32_t aw__csv_find(const struct aw__csv_cell *cells, uint32_t count, const char *head);
/* A number; NAN: none. */
double aw__csv_real(const struct aw__csv_cell *cell);

#endif
