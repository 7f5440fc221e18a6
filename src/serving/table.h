/*
 * table.h - a file of comma-separated values, plain or gzip, as cells with named columns.
 *
 * Call order: read, then column, real and text, then deinit.
 * Memory:     the file and its cells, from the heap. Threads: read-only once read.
 */
#ifndef AW_SERVING_TABLE_H
#define AW_SERVING_TABLE_H

#include <aware/err.h>

#define AW_SERVING_TABLE_BYTES_MAX ((size_t)256 << 20)
#define AW_SERVING_TABLE_NONE      UINT32_MAX

struct aw_serving_table {
    uint32_t rows, columns; /* without the head */
    char *bytes;
    const char **cell; /* [rows + 1][columns]: the head first; "" for what is missing */
    uint32_t *line;    /* [rows + 1], for diagnostics */
};

/* AW_ERR_FORMAT at a line that has more cells than the head. On failure it is left zeroed. */
AW_NODISCARD enum aw_err aw_serving_table_read(const char *path, struct aw_serving_table *ret,
                                               struct aw_diag *diag);
void aw_serving_table_deinit(struct aw_serving_table *table);
/* AW_SERVING_TABLE_NONE: no such column. */
uint32_t aw_serving_table_column(const struct aw_serving_table *table, const char *name);
/* True where all of the NULL-ended names are columns. */
bool aw_serving_table_has(const struct aw_serving_table *table, const char *const *names);
const char *aw_serving_table_text(const struct aw_serving_table *table, uint32_t row, uint32_t col);
/* NAN: empty, not a number, or no such column. */
double aw_serving_table_real(const struct aw_serving_table *table, uint32_t row, uint32_t col);

#endif
