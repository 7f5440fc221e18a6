/* grid.c - which columns there is room for, and one line per row. */
#include "frame/grid.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2u

static const char *const tones[] = {
    [AW_TONE_PLAIN] = "",        [AW_TONE_BAD] = "\033[31m",  [AW_TONE_ODD] = "\033[33m",
    [AW_TONE_GOOD] = "\033[32m", [AW_TONE_FAINT] = "\033[2m",
};

const char *aw_tone_on(enum aw_tone tone, bool color)
{
    return color ? tones[tone] : "";
}

const char *aw_tone_off(bool color)
{
    return color ? "\033[0m" : "";
}

void aw_grid_init(struct aw_grid *grid, const struct aw_grid_column *columns)
{
    *grid = (struct aw_grid){.columns = columns};
    while (columns[grid->column_count].head)
        grid->column_count++;
    AW_ASSERT(grid->column_count > 0 && grid->column_count <= AW__GRID_COLUMNS_MAX);
}

void aw_grid_deinit(struct aw_grid *grid)
{
    for (uint32_t i = 0; i < grid->cell_count; i++)
        free(grid->cells[i].text);
    free(grid->cells);
    *grid = (struct aw_grid){0};
}

void aw_grid_spare(struct aw_grid *grid, uint32_t column)
{
    AW_ASSERT(column < grid->column_count);
    grid->spare |= UINT32_C(1) << column;
}

void aw_grid_add(struct aw_grid *grid, enum aw_tone tone, const char *fmt, ...)
{
    char text[AW_GRID_CELL_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (grid->failed)
        return;
    if (grid->cell_count == grid->cell_capacity) {
        const uint32_t capacity = grid->cell_capacity ? 2 * grid->cell_capacity : 128;
        struct aw__grid_cell *grown = capacity > 2 * AW_GRID_ROWS_MAX * AW__GRID_COLUMNS_MAX
                                          ? NULL
                                          : realloc(grid->cells, capacity * sizeof *grown);
        if (!grown) {
            grid->failed = true;
            return;
        }
        grid->cells = grown;
        grid->cell_capacity = capacity;
    }
    char *copy = strdup(text);
    if (!copy) {
        grid->failed = true;
        return;
    }
    grid->cells[grid->cell_count++] = (struct aw__grid_cell){copy, tone};
}

/* Columns of a text on a terminal, as far as this program writes any: bytes that begin a
 * character. */
static unsigned width_of(const char *text)
{
    unsigned width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

struct fit {
    unsigned width[AW__GRID_COLUMNS_MAX];
    bool shown[AW__GRID_COLUMNS_MAX];
};

static unsigned total_of(const struct aw_grid *grid, const struct fit *fit, bool least)
{
    unsigned total = 0;
    for (uint32_t c = 0; c < grid->column_count; c++) {
        if (!fit->shown[c])
            continue;
        const unsigned low = grid->columns[c].least;
        total += (total ? GAP : 0) + (least && low && low < fit->width[c] ? low : fit->width[c]);
    }
    return total;
}

static void fit_make(const struct aw_grid *grid, const struct aw_grid_look *look, struct fit *fit)
{
    for (uint32_t c = 0; c < grid->column_count; c++) {
        fit->shown[c] = look->wide || !grid->columns[c].wide;
        fit->width[c] = look->heads ? width_of(grid->columns[c].head) : 0;
        bool said = !(grid->spare >> c & 1);
        for (uint32_t i = c; i < grid->cell_count; i += grid->column_count) {
            const unsigned width = width_of(grid->cells[i].text);
            fit->width[c] = width > fit->width[c] ? width : fit->width[c];
            said |= strcmp(grid->cells[i].text, "-") != 0;
        }
        fit->shown[c] &= said;
    }
    if (look->width == 0)
        return;
    for (;;) {
        uint32_t worst = grid->column_count;
        if (total_of(grid, fit, true) <= look->width)
            break;
        for (uint32_t c = 0; c < grid->column_count; c++) {
            if (fit->shown[c] && grid->columns[c].rank &&
                (worst == grid->column_count || grid->columns[c].rank >= grid->columns[worst].rank))
                worst = c;
        }
        if (worst == grid->column_count)
            break;
        fit->shown[worst] = false;
    }
    for (uint32_t c = grid->column_count; c-- > 0;) { /* the last one is cut first */
        const unsigned total = total_of(grid, fit, false), least = grid->columns[c].least;
        if (total <= look->width)
            return;
        if (!fit->shown[c] || least == 0 || fit->width[c] <= least)
            continue;
        const unsigned over = total - look->width, most = fit->width[c] - least;
        fit->width[c] -= over < most ? over : most;
    }
}

/* At most `width` columns of `text`; what is cut ends in two points. */
static void cell_put(FILE *out, const char *text, unsigned width, bool right, bool last)
{
    const unsigned own = width_of(text);
    if (own <= width) {
        fprintf(out, "%*s%s%*s", right ? (int)(width - own) : 0, "", text,
                right || last ? 0 : (int)(width - own), "");
        return;
    }
    const unsigned kept = width > 2 ? width - 2 : width;
    unsigned seen = 0;
    const char *end = text, *gap = text;
    while (*end) {
        if (((unsigned char)*end & 0xc0) != 0x80 && seen++ == kept)
            break;
        gap = *end == ' ' ? end : gap; /* words stay whole where there are several */
        end++;
    }
    end = gap > text && *end != ' ' ? gap : end;
    fprintf(out, "%.*s%s", (int)(end - text), text, width > 2 ? ".." : "");
}

enum aw_err aw_grid_print(struct aw_grid *grid, FILE *out, const struct aw_grid_look *look,
                          struct aw_diag *diag)
{
    struct fit fit;
    enum aw_err err = AW_OK;
    uint32_t last = 0, row_count;
    if (grid->failed) {
        err = aw_fail(diag, AW_ERR_NOMEM, "the table does not fit into memory");
        goto out;
    }
    AW_ASSERT(grid->cell_count % grid->column_count == 0);
    row_count = grid->cell_count / grid->column_count;
    if (look->rows_max && row_count > look->rows_from + look->rows_max)
        row_count = look->rows_from + look->rows_max;
    fit_make(grid, look, &fit);
    for (uint32_t c = 0; c < grid->column_count; c++)
        last = fit.shown[c] ? c : last;
    for (uint32_t r = look->heads ? 0 : 1; r <= row_count; r++) {
        bool first = true;
        if (r && r <= look->rows_from)
            continue;
        const bool marked = r && r == look->marked;
        fputs(marked ? "\033[7m" : "", out);
        fputs(r == 0 && look->color ? "\033[1m" : "", out);
        for (uint32_t c = 0; c < grid->column_count; c++) {
            if (!fit.shown[c])
                continue;
            const struct aw__grid_cell *cell =
                r ? &grid->cells[(r - 1) * grid->column_count + c] : NULL;
            fprintf(out, "%*s", first ? 0 : (int)GAP, "");
            if (cell && cell->tone && !marked)
                fputs(aw_tone_on(cell->tone, look->color), out);
            cell_put(out, cell ? cell->text : grid->columns[c].head, fit.width[c],
                     grid->columns[c].right, c == last);
            if (cell && cell->tone && !marked)
                fputs(aw_tone_off(look->color), out);
            first = false;
        }
        fputs(r == 0 ? aw_tone_off(look->color) : marked ? "\033[0m" : "", out);
        fputs(look->end, out);
    }
out:
    aw_grid_deinit(grid);
    return err;
}
