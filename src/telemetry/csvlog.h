/*
 * csvlog.h - a table that grows by a row at a time and can be read while it grows.
 *
 * Call order: create or resume, then for each row one cell after another and end_row, then close.
 * Memory:     nothing is allocated; a row is built inside the struct.
 * Threads:    single owner.
 *
 * The first column is a whole number that never falls (the step), so a resumed run can drop the
 * rows that were written after the checkpoint it resumes from: the file of an interrupted and
 * resumed run equals that of an uninterrupted one. Quoting follows RFC 4180, lines end with \n.
 */
#ifndef AW_TELEMETRY_CSVLOG_H
#define AW_TELEMETRY_CSVLOG_H

#include <aware/err.h>

#define AW_CSVLOG_COLUMNS_MAX 32u
#define AW_CSVLOG_ROW_MAX     4096u /* bytes of a row, with its newline */

struct aw_csvlog {
    int fd_plus_1; /* so that a zeroed struct is closed */
    uint32_t column_count;
    uint32_t cell_count; /* of the row that is being built */
    size_t len;
    bool cut; /* a cell did not fit */
    char row[AW_CSVLOG_ROW_MAX];
};

/* Starts a file with a line of column names (NULL-ended), replacing what was there. */
AW_NODISCARD enum aw_err aw_csvlog_create(struct aw_csvlog *log, const char *path,
                                          const char *const *columns, struct aw_diag *diag);
/* Goes on with a file: drops the first row whose step is beyond `step_max` or that is not whole,
 * and all after it. A missing file is created; other column names are AW_ERR_FORMAT and the file is
 * left alone. The last row that was kept is copied to `last` (without newline; "" when there is
 * none), cut to `last_size`. */
AW_NODISCARD enum aw_err aw_csvlog_resume(struct aw_csvlog *log, const char *path,
                                          const char *const *columns, uint64_t step_max, char *last,
                                          size_t last_size, struct aw_diag *diag);
void aw_csvlog_close(struct aw_csvlog *log); /* a zeroed one is a no-op */

void aw_csvlog_u64(struct aw_csvlog *log, uint64_t value);
void aw_csvlog_real(struct aw_csvlog *log, double value); /* reads back the same; NAN is empty */
void aw_csvlog_text(struct aw_csvlog *log, const char *value);
/* Writes the row at once. A row with too few or too many cells is a bug (AW_ASSERT); one that is
 * too long is AW_ERR_LIMIT and is not written. */
AW_NODISCARD enum aw_err aw_csvlog_end_row(struct aw_csvlog *log, struct aw_diag *diag);

#endif
