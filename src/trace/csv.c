/*
 * csv.c - spans out of CSV as the data of Nezha (FSE'23) has them, one a line:
 *
 *     TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration
 *
 * Columns are found by their heads, in any order; others are passed over. A parent that is no id
 * ("root") is none. The service is the pod's name without its last two parts. There is no kind:
 * request.c infers it.
 */
#include <string.h>

#include "base/text.h"
#include "trace/read_internal.h"

enum column { TRACE, SPAN, PARENT, POD, OPERATION, START, END, COLUMNS };
static const char *const heads[COLUMNS] = {
    "TraceID",           "SpanID",          "ParentID", "PodName", "OperationName",
    "StartTimeUnixNano", "EndTimeUnixNano",
};
struct csv {
    const char *name;
    uint32_t line;
    uint32_t place[COLUMNS]; /* of each column among the cells */
    uint32_t cells;          /* that a line must have at least */
    /* the last pod, since spans of one stand together */
    struct aw_csv_cell pod;
    uint32_t service, instance;
};

static enum aw_err read_heads(struct csv *csv, const struct aw_csv_cell *cells, uint32_t count,
                              struct aw_diag *diag)
{
    for (uint32_t column = 0; column < COLUMNS; column++) {
        const uint32_t i = aw_csv_find(cells, count, heads[column]);
        if (i == UINT32_MAX)
            return aw_fail_at(diag, AW_ERR_FORMAT, csv->name, csv->line, 0, heads[column],
                              "expected a column of this name in the first line");
        csv->place[column] = i;
        csv->cells = csv->cells > i + 1 ? csv->cells : i + 1;
    }
    return AW_OK;
}

static bool whole(const struct aw_csv_cell *cell, int64_t *ret)
{
    int64_t value = 0;
    if (!cell->len || cell->len > 19)
        return false;
    for (size_t i = 0; i < cell->len; i++) {
        const int digit = cell->at[i] - '0';
        if (digit < 0 || digit > 9 || value > (INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = value;
    return true;
}

static enum aw_err refuse(const struct csv *csv, enum column column, const struct aw_csv_cell *cell,
                          const char *expected, struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    return aw_fail_at(diag, AW_ERR_FORMAT, csv->name, csv->line, 0, heads[column],
                      "expected %s, found %s", expected,
                      aw_text_quote(cell->at, cell->len, quoted, sizeof quoted));
}

static enum aw_err read_line(struct csv *csv, struct aw_spans *spans, const struct aw_csv_cell *all,
                             struct aw_diag *diag)
{
    struct aw_csv_cell cell[COLUMNS];
    uint64_t none;
    for (uint32_t i = 0; i < COLUMNS; i++)
        cell[i] = all[csv->place[i]];
    struct aw_span *span = aw_spans_push(spans);
    if (!span)
        return AW_OK;
    if (!aw_span_hex_parse(cell[TRACE].at, cell[TRACE].len, &span->trace_hi, &span->trace_lo))
        return refuse(csv, TRACE, &cell[TRACE], "1 to 32 hexadecimal digits", diag);
    if (cell[SPAN].len > 16 || !aw_span_hex_parse(cell[SPAN].at, cell[SPAN].len, &none, &span->id))
        return refuse(csv, SPAN, &cell[SPAN], "1 to 16 hexadecimal digits", diag);
    if (cell[PARENT].len > 16 ||
        !aw_span_hex_parse(cell[PARENT].at, cell[PARENT].len, &none, &span->parent))
        span->parent = 0;
    if (!whole(&cell[START], &span->start_ns))
        return refuse(csv, START, &cell[START], "nanoseconds since 1970", diag);
    if (!whole(&cell[END], &span->end_ns))
        return refuse(csv, END, &cell[END], "nanoseconds since 1970", diag);
    if (!csv->pod.at || cell[POD].len != csv->pod.len ||
        memcmp(cell[POD].at, csv->pod.at, csv->pod.len) != 0) {
        csv->pod = cell[POD];
        csv->instance = aw_names_add(&spans->names, cell[POD].at, cell[POD].len);
        csv->service = aw_names_add(
            &spans->names, cell[POD].at,
            aw_span_pod_service(cell[POD].at, cell[POD].len, spans->names.pods_by_parts));
    }
    span->instance = csv->instance;
    span->service = csv->service;
    span->operation = aw_names_add(&spans->names, cell[OPERATION].at, cell[OPERATION].len);
    aw_spans_judge(spans);
    return AW_OK;
}

enum aw_err aw_spans_read_csv(struct aw_spans *spans, const char *name, const char *bytes,
                              size_t size, struct aw_diag *diag)
{
    struct aw_csv_lines lines = {.at = bytes, .end = bytes + size};
    const uint32_t count_before = spans->count;
    struct aw_csv_cell cells[AW_CSV_CELLS_MAX];
    struct csv csv = {.name = name};
    enum aw_err err = AW_OK;
    uint32_t count;
    while (!err && (count = aw_csv_next(&lines, cells))) {
        csv.line = lines.line;
        if (!csv.cells)
            err = read_heads(&csv, cells, count, diag);
        else if (count < csv.cells)
            err = aw_fail_at(diag, AW_ERR_FORMAT, name, csv.line, 0, NULL,
                             "expected %u cells, found %u: is the file cut?", csv.cells, count);
        else
            err = read_line(&csv, spans, cells, diag);
    }
    if (!err && !csv.cells)
        err = aw_fail_at(diag, AW_ERR_FORMAT, name, 1, 0, NULL,
                         "expected a first line with the names of columns, found nothing");
    if (err)
        spans->count = count_before;
    return err;
}
