/* table_csv.c - see table_csv.h. */
#include "trace/table_csv.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

static uint32_t split(const char *at, const char *end, struct aw__csv_cell *cells)
{
    uint32_t count = 0;
    while (count < AW__CELLS_MAX) {
        struct aw__csv_cell *cell = &cells[count++];
        const char *stop;
        if (at < end && *at == '"') {
            cell->at = ++at;
            while (at < end && (*at != '"' || (at + 1 < end && at[1] == '"')))
                at += *at == '"' ? 2 : 1;
            stop = at;
            at = at < end ? at + 1 : at;
            while (at < end && *at != ',')
                at++;
        } else {
            cell->at = at;
            stop = memchr(at, ',', (size_t)(end - at));
            stop = at = stop ? stop : end;
        }
        cell->len = (size_t)(stop - cell->at);
        if (at >= end)
            break;
        at++;
    }
    return count;
}

uint32_t aw__csv_next(struct aw__csv_lines *lines, struct aw__csv_cell *cells)
{
    while (lines->at < lines->end) {
        const char *from = lines->at;
        const char *stop = memchr(from, '\n', (size_t)(lines->end - from));
        lines->at = stop ? stop + 1 : lines->end;
        stop = stop ? stop : lines->end;
        stop -= stop > from && stop[-1] == '\r';
        lines->line++;
        if (stop > from)
            return split(from, stop, cells);
    }
    return 0;
}

uint32_t aw__csv_find(const struct aw__csv_cell *cells, uint32_t count, const char *head)
{
    const size_t len = strlen(head);
    for (uint32_t i = 0; i < count; i++) {
        if (cells[i].len == len && !memcmp(cells[i].at, head, len))
            return i;
    }
    return UINT32_MAX;
}

double aw__csv_real(const struct aw__csv_cell *cell)
{
    char text[64];
    double value;
    if (!cell->len || cell->len >= sizeof text)
        return (double)NAN;
    memcpy(text, cell->at, cell->len);
    text[cell->len] = '\0';
    return aw_text_parse_real(text, &value) ? (double)NAN : value;
}
