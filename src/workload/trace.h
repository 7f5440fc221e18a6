/*
 * trace.h - load from files: requests as they were measured.
 *
 * Formats, told apart by their first line or forced:
 *   azure-2019   Azure Functions per-minute counts: HashOwner, HashApp, HashFunction, Trigger in
 * any order (HashFunction alone is needed), then minutes as 480, 481 or minute_1, minute_2
 *   azure-2021   one invocation a row: app, func, end_timestamp, duration (seconds)
 *   rates        one number a line, requests/s
 *   timestamps   time, value, with or without a header, e.g. requests per 5 minutes
 * A file of many functions yields one of them (row, func or top), or all of them summed.
 *
 * A row that cannot be read is a finding with line, column and what was expected; the rest is still
 * read, and where a row is a point in time, its neighbour before it stands in, so that nothing
 * shifts. The caller decides whether findings are warnings; aw_trace_judge is the usual answer.
 *
 * Call order: read yields a load and a report; list yields the functions of a file.
 * Memory:     files are read line by line; a load or a list is one block that the caller releases.
 * Threads:    no shared state.
 */
#ifndef AW_WORKLOAD_TRACE_H
#define AW_WORKLOAD_TRACE_H

#include "workload/load.h"

#include <stdio.h>

#define AW_TRACE_LINE_BYTES_MAX (256u << 10)
#define AW_TRACE_COLUMNS_MAX    16384u
#define AW_TRACE_MINUTES_MAX    100000u    /* from the first to the last column of azure-2019 */
#define AW_TRACE_ROWS_MAX       (8u << 20) /* points or invocations kept at once */
#define AW_TRACE_FUNCTIONS_MAX  (1u << 20)
#define AW_TRACE_FINDINGS_MAX   16u /* kept; more are only counted */
#define AW_TRACE_NAME_MAX       72u /* bytes of a function's name: a SHA-256 in hex fits */

enum aw_trace_format {
    AW_TRACE_AUTO,
    AW_TRACE_AZURE_2019,
    AW_TRACE_AZURE_2021,
    AW_TRACE_RATES,
    AW_TRACE_TIMESTAMPS,
};

enum aw_trace_unit { AW_TRACE_COUNT, AW_TRACE_RATE };

struct aw_trace_settings {
    uint32_t format;               /* enum aw_trace_format */
    uint32_t row;                  /* this function, counted from 1; 0: not chosen so */
    uint32_t top;                  /* the so-manieth busiest; 0: not chosen so */
    char func[AW_CONF_TEXT_MAX];   /* the one whose hash begins so; "": not chosen so */
    char column[AW_CONF_TEXT_MAX]; /* of timestamps: the column with the values; "": the second */
    uint32_t unit;                 /* of timestamps: enum aw_trace_unit */
    double slot_s;                 /* 0: as the format says */
    double start_s, length_s;      /* of the file's own time; length 0: to its end */
    double compress;               /* time runs so many times faster; rates stay */
    double mean_per_s, peak_per_s; /* rescaled to one of them; 0: not rescaled */
};
extern const struct aw_conf_field aw_trace_fields[];

struct aw_trace_finding {
    uint32_t line, column; /* 1-based, the column in bytes */
    char text[160];
};

struct aw_trace_report {
    uint32_t format;    /* what it turned out to be */
    uint64_t row_count; /* rows of data, the bad ones included */
    uint64_t bad_count;
    uint32_t finding_count; /* min(bad_count, AW_TRACE_FINDINGS_MAX) */
    struct aw_trace_finding finding[AW_TRACE_FINDINGS_MAX];
};

/* AW_ERR_NOTFOUND: no such file or function; AW_ERR_FORMAT: no known format; AW_ERR_NODATA: no row
 * could be read, or none had a request; AW_ERR_CONFIG: settings that do not fit each other or the
 * file. `report` may be NULL; it is filled on success and as far as it went on failure. */
AW_NODISCARD enum aw_err aw_trace_read(const char *path, const struct aw_trace_settings *settings,
                                       const struct aw_alloc *alloc, struct aw_load *ret_load,
                                       struct aw_trace_report *report, struct aw_diag *diag);
/* The same from a stream that can be rewound; `name` is for diagnostics. */
AW_NODISCARD enum aw_err aw_trace_read_stream(FILE *stream, const char *name,
                                              const struct aw_trace_settings *settings,
                                              const struct aw_alloc *alloc,
                                              struct aw_load *ret_load,
                                              struct aw_trace_report *report, struct aw_diag *diag);

/* AW_ERR_FORMAT at the first finding when more than half of the rows were bad. */
AW_NODISCARD enum aw_err aw_trace_judge(const struct aw_trace_report *report, const char *path,
                                        struct aw_diag *diag);

struct aw_trace_function {
    char name[AW_TRACE_NAME_MAX];
    char trigger[16];
    uint32_t row; /* what `row` wants; of azure-2021: the order of first appearance */
    double total; /* requests */
    double per_day, mean_per_s, peak_per_s;
    double burstiness; /* as in load.h */
};

struct aw_trace_list {
    uint32_t count;
    double length_s; /* of the file */
    struct aw_trace_function *function;
    const struct aw_alloc *alloc;
};

/* Every function of the file, the busiest first. */
AW_NODISCARD enum aw_err aw_trace_list(const char *path, const struct aw_trace_settings *settings,
                                       const struct aw_alloc *alloc, struct aw_trace_list *ret_list,
                                       struct aw_trace_report *report, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_trace_list_stream(FILE *stream, const char *name,
                                              const struct aw_trace_settings *settings,
                                              const struct aw_alloc *alloc,
                                              struct aw_trace_list *ret_list,
                                              struct aw_trace_report *report, struct aw_diag *diag);
void aw_trace_list_deinit(struct aw_trace_list *list); /* a zeroed one is a no-op */

/* Loads of the `max` busiest functions of a file, the busiest first, read once for all of them:
 * what reading each by `top` gives. One load where the settings choose it or the file has only one;
 * what has no request in this part of the trace is left out. */
struct aw_trace_pack {
    uint32_t count;
    struct aw_load *load;
    const struct aw_alloc *alloc;
};
AW_NODISCARD enum aw_err aw_trace_pack(const char *path, const struct aw_trace_settings *settings,
                                       uint32_t max, const struct aw_alloc *alloc,
                                       struct aw_trace_pack *ret_pack,
                                       struct aw_trace_report *report, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_trace_pack_stream(FILE *stream, const char *name,
                                              const struct aw_trace_settings *settings,
                                              uint32_t max, const struct aw_alloc *alloc,
                                              struct aw_trace_pack *ret_pack,
                                              struct aw_trace_report *report, struct aw_diag *diag);
/* The same from text as aw_load_parse takes it, which is a file.
 * Rows that cannot be read are as in aw_load_parse. */
AW_NODISCARD enum aw_err aw_trace_pack_parse(const char *text, uint32_t max,
                                             const struct aw_alloc *alloc,
                                             struct aw_trace_pack *ret_pack, struct aw_diag *diag);
void aw_trace_pack_deinit(struct aw_trace_pack *pack); /* a zeroed one is a no-op */

/* AWARE section 2.3 calls a function busy from here: its load scenarios go from one side to the
 * other. */
#define AW_TRACE_BUSY_PER_DAY 1e5

#endif
