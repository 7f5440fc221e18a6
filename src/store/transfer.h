/*
 * transfer.h - trajectories as text, out of any store and into any other, without loss.
 *
 * JSON lines: one object a line. CSV: a header of column names, in any order, then one line a row;
 * a vector is one cell with spaces between its numbers. Both have the same names and the same
 * values: numbers are the shortest that read back to the same bits, a figure that is not known is
 * null or an empty cell, and so is the shadow of a step without one; a model is 16 hexadecimal
 * digits.
 *
 * Memory:  a line at a time, from the allocator given; jansson uses the process heap.
 * Threads: as the store.
 */
#ifndef AW_STORE_TRANSFER_H
#define AW_STORE_TRANSFER_H

#include <aware/store.h>

#include <stdio.h>

#define AW_TRANSFER_LINE_MAX   65536u /* bytes, with its NUL: the largest row has about 35000 */
#define AW_TRANSFER_GROUP_ROWS 1000u  /* appended in one transaction */

enum aw_transfer_format {
    AW_TRANSFER_JSONL,
    AW_TRANSFER_CSV,
};

/* Writes the rows of `query` in order. AW_ERR_IO: the stream refused. It is not flushed. */
AW_NODISCARD enum aw_err aw_store_export(struct aw_store *store, const struct aw_store_query *query,
                                         enum aw_transfer_format format, FILE *stream,
                                         const struct aw_alloc *alloc, uint64_t *ret_rows,
                                         struct aw_diag *diag);

/* Appends what export wrote; rows that are kept already are left alone. The first bad line ends it,
 * with `name`, line and column; what was before it is kept, so that a mended file can be imported
 * again. `*ret_rows`, the number of rows read well, is set on failure too. Not between begin and
 * commit. */
AW_NODISCARD enum aw_err aw_store_import(struct aw_store *store, enum aw_transfer_format format,
                                         FILE *stream, const char *name,
                                         const struct aw_alloc *alloc, uint64_t *ret_rows,
                                         struct aw_diag *diag);

#endif
