/* trace_internal.h - between the files of the trace reader: rows of cells, findings, growing
 * arrays.
 */
#ifndef AW_WORKLOAD_TRACE_INTERNAL_H
#define AW_WORKLOAD_TRACE_INTERNAL_H

#include "workload/trace.h"

struct aw__cell {
    char *text; /* NUL-terminated, without quotes and outer blanks */
    uint32_t column;
};

struct aw__trace {
    FILE *stream;
    const char *name;
    const struct aw_trace_settings *settings;
    const struct aw_alloc *alloc;
    struct aw_trace_report *report;

    char *line; /* the present one, cut into cells */
    struct aw__cell *cell;
    uint32_t cell_count;
    uint32_t line_number;
    bool buffered; /* the first row was looked at and not yet taken */
    char *chunk;   /* bytes read and not yet looked at */
    size_t chunk_at, chunk_len;
};

/* The next row that is not blank or a comment, cut into cells. False at the end, or when reading
 * failed: ferror says which. A row that is too long becomes a finding and is passed over. */
bool aw__trace_next(struct aw__trace *trace);

/* Copies a cell, cut to whole characters where it is too long. */
void aw__trace_name(char *buf, size_t size, const char *text);

/* One finding about the present row, at a column. */
void aw__trace_bad(struct aw__trace *trace, uint32_t column, const char *fmt, ...) AW_PRINTF(3, 4);

/* A number that is not negative, or a finding that says what was expected. */
bool aw__trace_amount(struct aw__trace *trace, const struct aw__cell *cell, const char *expected,
                      double *ret);

/* Room for one more of `size` bytes: a larger block in place of `*block` when it is full. */
AW_NODISCARD enum aw_err aw__trace_grow(struct aw__trace *trace, void **block, uint32_t count,
                                        uint32_t *capacity, uint32_t count_max, size_t size,
                                        const char *what, struct aw_diag *diag);

/* What a format does. The first row has been read; a header is taken by the format itself. */
struct aw__trace_format_ops {
    enum aw_err (*list)(struct aw__trace *trace, struct aw_trace_list *list, struct aw_diag *diag);
    /* `row` is the function that was chosen by top, 0: as the settings say. */
    enum aw_err (*read)(struct aw__trace *trace, uint32_t row, struct aw_load *load,
                        struct aw_diag *diag);
    /* Several functions in one pass: loads[i] becomes that of functions[i]. What is made on failure
     * is the caller's to release. */
    enum aw_err (*read_many)(struct aw__trace *trace, const struct aw_trace_function *functions,
                             uint32_t count, struct aw_load *loads, struct aw_diag *diag);
};
/* read_many as so many times read, for formats whose rows are not functions. */
enum aw_err aw__trace_read_each(struct aw__trace *trace, const struct aw_trace_function *functions,
                                uint32_t count, struct aw_load *loads, struct aw_diag *diag);
extern const struct aw__trace_format_ops aw__trace_azure_2019;
extern const struct aw__trace_format_ops aw__trace_azure_2021;
extern const struct aw__trace_format_ops aw__trace_series;

/* Fills total to burstiness of a function from the sums over its slots. */
void aw__trace_function_set(struct aw_trace_function *function, double total, double squares,
                            double peak, double slots, double slot_s);

/* "func" among the functions: AW_ERR_NOTFOUND, or AW_ERR_CONFIG where several begin so. */
enum aw_err aw__trace_no_function(const struct aw__trace *trace, uint32_t matches,
                                  struct aw_diag *diag);

#endif
