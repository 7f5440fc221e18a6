/* experiment_print.c - what an experiment found, for people, for pages and as JSON. */
#include "lab/experiment.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/version.h"
#include "nn/matmul.h"

#define ROWS_SHOWN 40u /* of a table; JSON and the page have all */
#define NAME_LEAST 24u /* columns: the names of figures are not wrapped any narrower */
#define GAP        2u  /* between columns */
#define CELLS      5u  /* of a figure, after its name */

static const char *const unit_names[] = {
    [AW_UNIT_PLAIN] = "plain",     [AW_UNIT_SHARE] = "share", [AW_UNIT_TIMES] = "times",
    [AW_UNIT_SECONDS] = "seconds", [AW_UNIT_BYTES] = "bytes", [AW_UNIT_COUNT] = "count",
};
static const char *const kind_names[] = {
    [AW_STUDY_REPORT_LINES] = "lines",
    [AW_STUDY_REPORT_DOTS] = "dots",
    [AW_STUDY_REPORT_BARS] = "bars",
};
static const char *const scale_names[] = {
    [AW_EXPERIMENT_QUICK] = "quick",
    [AW_EXPERIMENT_FULL] = "full",
};

/* --- figures as people read them -------------------------------------------------------------- */

/* Three digits that say something, and no exponent for what people still read without. */
static void number_show(double value, const char *unit, char *buf, size_t size)
{
    const double large = fabs(value);
    if (large >= 999.5 && large < 1e7)
        snprintf(buf, size, "%.0f%s", value, unit);
    else
        snprintf(buf, size, "%.3g%s", value == 0 ? 0 : value, unit); /* never "-0" */
}

static void scaled_show(double value, const double *from, const char *const *unit, char *buf,
                        size_t size)
{
    uint32_t i = 0;
    while (unit[i + 1] && fabs(value) < from[i])
        i++;
    number_show(value / from[i], unit[i], buf, size);
}

static void seconds_show(double seconds, char *buf, size_t size)
{
    static const double from[] = {1, 1e-3, 1e-6, 1e-9};
    static const char *const units[] = {" s", " ms", " us", " ns", NULL};
    if (seconds >= 60)
        aw_seconds_format(seconds, buf, size);
    else if (seconds == 0)
        snprintf(buf, size, "0 s");
    else
        scaled_show(seconds, from, units, buf, size);
}

static void bytes_show(double bytes, char *buf, size_t size)
{
    static const double from[] = {1024.0 * 1024 * 1024, 1024.0 * 1024, 1024, 1};
    static const char *const units[] = {" GiB", " MiB", " KiB", " B", NULL};
    scaled_show(bytes, from, units, buf, size);
}

const char *aw__figure_show(enum aw_study_report_unit unit, double value, char *buf, size_t size)
{
    if (isnan(value))
        snprintf(buf, size, "-");
    else if (isinf(value))
        snprintf(buf, size, "%s", value < 0 ? "-inf" : "inf");
    else if (unit == AW_UNIT_SHARE)
        number_show(100 * value, " %", buf, size);
    else if (unit == AW_UNIT_TIMES)
        number_show(value, "x", buf, size);
    else if (unit == AW_UNIT_SECONDS)
        seconds_show(value, buf, size);
    else if (unit == AW_UNIT_BYTES)
        bytes_show(value, buf, size);
    else if (unit == AW_UNIT_COUNT && value >= 1e4)
        aw_count_format(value, buf, size);
    else
        number_show(value, "", buf, size);
    return buf;
}

/* The unit once where both ends have the same: "9.1 to 12.4 %". */
const char *aw__interval_show(enum aw_study_report_unit unit, const struct aw_interval *interval,
                              char *buf, size_t size)
{
    static const char digits[] = "+-.0123456789";
    char low[AW__FIGURE_MAX], high[AW__FIGURE_MAX];
    if (isnan(interval->low) || isnan(interval->high)) {
        snprintf(buf, size, "-");
        return buf;
    }
    aw__figure_show(unit, interval->low, low, sizeof low);
    if (isinf(interval->high)) { /* a ratio to something that may be nothing */
        snprintf(buf, size, "%s or more", low);
        return buf;
    }
    aw__figure_show(unit, interval->high, high, sizeof high);
    const size_t number = strspn(low, digits);
    const bool clock = strpbrk(low + number, digits); /* "1m 05s" is more than a unit */
    if (!clock && !strcmp(low + number, high + strspn(high, digits)))
        low[number] = '\0';
    snprintf(buf, size, "%s to %s", low, high);
    return buf;
}

const char *aw__experiment_line(const char *phase, uint32_t done, uint32_t total, double seconds,
                                double left_s, unsigned columns, char *buf, size_t size)
{
    char took[AW__FIGURE_MAX], left[AW__FIGURE_MAX];
    struct aw_text text;
    const size_t fits = columns < size ? columns : size; /* with the NUL: one column stays free */
    aw_text_init(&text, buf, fits ? fits : 1);
    aw_text_add(&text, "%3u %%  %s: %" PRIu32 " of %" PRIu32,
                total ? (unsigned)(100 * (uint64_t)done / total) : 0, phase, done, total);
    aw_text_add(&text, ", %s", aw_seconds_format(seconds, took, sizeof took));
    if (!isnan(left_s) && done < total)
        aw_text_add(&text, ", %s left", aw_seconds_format(left_s, left, sizeof left));
    buf[aw_text_utf8_bad(buf, strlen(buf))] = '\0';
    return buf;
}

/* --- text and Markdown ------------------------------------------------------------------------ */

struct sheet {
    const struct aw__experiment *ask;
    const struct aw_study_report *report;
    FILE *out;
    unsigned columns;
    bool color;
};

static const char *const figure_heads[CELLS + 1] = {"FIGURE", "HERE", "95 %",
                                                    "PAPER",  "GOAL", "MET"};

/* Everything of a figure but its name. */
static void cells_of(const struct aw_study_report_figure *figure,
                     char cell[CELLS][2 * AW__FIGURE_MAX])
{
    static const char *const verdicts[] = {[AW_STUDY_REPORT_OPEN] = "-",
                                           [AW_STUDY_REPORT_MET] = "yes",
                                           [AW_STUDY_REPORT_MISSED] = "no"};
    char goal[AW__FIGURE_MAX];
    aw__figure_show(figure->unit, figure->value, cell[0], sizeof cell[0]);
    aw__interval_show(figure->unit, &figure->interval, cell[1], sizeof cell[1]);
    aw__figure_show(figure->unit, figure->paper, cell[2], sizeof cell[2]);
    aw__figure_show(figure->unit, figure->goal, goal, sizeof goal);
    snprintf(cell[3], sizeof cell[3], "%s%s",
             isnan(figure->goal) ? ""
             : figure->lower     ? "<= "
                                 : ">= ",
             goal);
    snprintf(cell[4], sizeof cell[4], "%s", verdicts[aw_study_report_verdict(figure)]);
}

/* Bytes of `text` that fill a line of `width` columns: up to a space, or a whole word. */
static size_t line_of(const char *text, unsigned width)
{
    size_t best = 0, len = 0;
    unsigned wide = 0;
    for (; text[len] && (wide <= width || best == 0); len++) {
        if (text[len] == ' ' && wide <= width)
            best = len;
        else if (text[len] == ' ')
            return len;
        wide += ((unsigned char)text[len] & 0xc0) != 0x80;
    }
    return !text[len] && (wide <= width || best == 0) ? len : best;
}

static unsigned wide_of(const char *text, size_t len)
{
    unsigned wide = 0;
    for (size_t i = 0; i < len; i++)
        wide += ((unsigned char)text[i] & 0xc0) != 0x80;
    return wide;
}

static void figure_print(const struct sheet *sheet, const struct aw_study_report_figure *figure,
                         const unsigned *width)
{
    static const enum aw_tone tones[] = {[AW_STUDY_REPORT_OPEN] = AW_TONE_PLAIN,
                                         [AW_STUDY_REPORT_MET] = AW_TONE_GOOD,
                                         [AW_STUDY_REPORT_MISSED] = AW_TONE_BAD};
    char cell[CELLS][2 * AW__FIGURE_MAX];
    const char *name = figure->name;
    size_t len = line_of(name, width[0]);
    cells_of(figure, cell);
    fprintf(sheet->out, "%.*s%*s", (int)len, name, (int)(width[0] - wide_of(name, len)), "");
    for (uint32_t c = 0; c < CELLS - 1; c++)
        if (width[c + 1])
            fprintf(sheet->out, "  %*s", (int)width[c + 1], cell[c]);
    const bool tone = sheet->color && aw_study_report_verdict(figure) != AW_STUDY_REPORT_OPEN;
    if (width[CELLS])
        fprintf(sheet->out, "  %s%s%s", aw_tone_on(tones[aw_study_report_verdict(figure)], tone),
                cell[CELLS - 1], aw_tone_off(tone));
    fputc('\n', sheet->out);
    for (name += len; *name; name += len) {
        name += strspn(name, " ");
        len = line_of(name, width[0] - GAP);
        if (len)
            fprintf(sheet->out, "  %.*s\n", (int)len, name);
    }
}

/* A column that says nothing of any figure is not shown: its width is 0. */
static void columns_hide(const struct sheet *sheet, unsigned *width)
{
    char cell[CELLS][2 * AW__FIGURE_MAX];
    bool says[CELLS] = {true};
    for (uint32_t i = 0; i < sheet->report->figures; i++) {
        cells_of(&sheet->report->figure[i], cell);
        for (uint32_t c = 1; c < CELLS; c++)
            says[c] = says[c] || strcmp(cell[c], "-") != 0;
    }
    for (uint32_t c = 1; c < CELLS; c++)
        width[c + 1] = says[c] ? width[c + 1] : 0;
}

static void figures_print(const struct sheet *sheet)
{
    unsigned width[CELLS + 1], rest = 0, longest = 0, wrapped = NAME_LEAST;
    char cell[CELLS][2 * AW__FIGURE_MAX];
    for (uint32_t c = 0; c <= CELLS; c++)
        width[c] = (unsigned)strlen(figure_heads[c]);
    for (uint32_t i = 0; i < sheet->report->figures; i++) {
        const struct aw_study_report_figure *figure = &sheet->report->figure[i];
        const unsigned wide = wide_of(figure->name, strlen(figure->name));
        longest = wide > longest ? wide : longest;
        cells_of(figure, cell);
        for (uint32_t c = 0; c < CELLS; c++) {
            const unsigned len = (unsigned)strlen(cell[c]);
            width[c + 1] = len > width[c + 1] ? len : width[c + 1];
        }
    }
    columns_hide(sheet, width);
    for (uint32_t c = 1; c <= CELLS; c++)
        rest += width[c] ? width[c] + GAP : 0;
    wrapped = sheet->columns > rest + NAME_LEAST ? sheet->columns - rest : wrapped;
    longest = longest < wrapped ? longest : wrapped;
    for (uint32_t i = 0; i < sheet->report->figures; i++) { /* a word may be wider than that */
        const char *name = sheet->report->figure[i].name;
        const unsigned wide = wide_of(name, line_of(name, longest));
        width[0] = wide > width[0] ? wide : width[0];
    }
    fprintf(sheet->out, "%s%-*s", sheet->color ? "\033[1m" : "", (int)width[0], figure_heads[0]);
    for (uint32_t c = 1; c < CELLS; c++)
        if (width[c])
            fprintf(sheet->out, "  %*s", (int)width[c], figure_heads[c]);
    fprintf(sheet->out, "%s%s%s\n", width[CELLS] ? "  " : "",
            width[CELLS] ? figure_heads[CELLS] : "", sheet->color ? "\033[0m" : "");
    for (uint32_t i = 0; i < sheet->report->figures; i++)
        figure_print(sheet, &sheet->report->figure[i], width);
    fputc('\n', sheet->out);
}

static enum aw_err figures_markdown(const struct sheet *sheet, struct aw_diag *diag)
{
    static const char *const heads[] = {"figure", ">here", ">95 %", ">paper", ">goal", "met", NULL};
    struct aw_table table;
    char cell[CELLS][2 * AW__FIGURE_MAX];
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < sheet->report->figures; i++) {
        cells_of(&sheet->report->figure[i], cell);
        aw_table_add(&table, "%s", sheet->report->figure[i].name);
        for (uint32_t c = 0; c < CELLS; c++)
            aw_table_add(&table, "%s", cell[c]);
    }
    enum aw_err err = aw_table_print_markdown(&table, sheet->out, diag);
    fputc('\n', sheet->out);
    return err;
}

static enum aw_err table_print(const struct sheet *sheet, const struct aw_study_report_table *from,
                               struct aw_diag *diag)
{
    char name[AW_STUDY_REPORT_COLUMNS_MAX][sizeof from->column[0] + 1], cell[AW__FIGURE_MAX];
    const char *heads[AW_STUDY_REPORT_COLUMNS_MAX + 2] = {""};
    struct aw_table table;
    for (uint32_t c = 0; c < from->columns; c++) {
        snprintf(name[c], sizeof name[c], ">%s", from->column[c]);
        for (char *at = name[c]; !sheet->ask->markdown && *at; at++)
            *at = (char)toupper((unsigned char)*at);
        heads[c + 1] = name[c];
    }
    fprintf(sheet->out, "%s%s\n\n", sheet->ask->markdown ? "### " : "", from->title);
    aw_table_init(&table, heads);
    for (uint32_t r = 0; r < from->rows && r < ROWS_SHOWN; r++) {
        aw_table_add(&table, "%s", from->label[r]);
        for (uint32_t c = 0; c < from->columns; c++)
            aw_table_add(&table, "%s",
                         aw__figure_show(from->unit[c], from->value[(size_t)r * from->columns + c],
                                         cell, sizeof cell));
    }
    enum aw_err err = sheet->ask->markdown ? aw_table_print_markdown(&table, sheet->out, diag)
                                           : aw_table_print(&table, sheet->out, sheet->color, diag);
    if (!err && from->rows > ROWS_SHOWN)
        fprintf(sheet->out, "%s%" PRIu32 " more rows are in the page and in JSON.\n",
                sheet->ask->markdown ? "\n" : "", from->rows - ROWS_SHOWN);
    fputc('\n', sheet->out);
    return err;
}

/* What it stands on, in a line. */
static void about_print(const struct sheet *sheet)
{
    const struct aw__experiment *ask = sheet->ask;
    char text[1024], took[AW__FIGURE_MAX];
    struct aw_text about;
    aw_text_init(&about, text, sizeof text);
    aw_text_add(&about, "Shows %s. Scale %s, ", ask->entry->shows, scale_names[ask->config.scale]);
    if (sheet->report->apps)
        aw_text_add(&about, "%" PRIu32 " application%s, ", sheet->report->apps,
                    sheet->report->apps == 1 ? "" : "s");
    if (sheet->report->seeds == 1)
        aw_text_add(&about, "seed %" PRIu64 ", ", ask->config.seed);
    else if (sheet->report->seeds)
        aw_text_add(&about, "%" PRIu32 " seeds from %" PRIu64 " on, ", sheet->report->seeds,
                    ask->config.seed);
    if (*ask->load)
        aw_text_add(&about, "pool %" PRIu64 ", preset %s, load %s, ", ask->config.pool,
                    ask->config.paper ? "paper" : "default", ask->load);
    if (*ask->config.model)
        aw_text_add(&about, "model %s, ", ask->config.model);
    aw_text_add(&about, "source %s, %s.", sheet->report->source,
                aw_seconds_format(ask->seconds, took, sizeof took));
    if (ask->markdown)
        fprintf(sheet->out, "%s\n\n`%s`\n\n", text, sheet->report->command);
    else {
        aw_wrap(sheet->out, text, 0, 0, sheet->columns);
        fprintf(sheet->out, "%s\n\n", sheet->report->command);
    }
}

static void notes_print(const struct sheet *sheet)
{
    for (uint32_t i = 0; i < sheet->report->notes; i++) {
        fputs("- ", sheet->out);
        if (sheet->ask->markdown)
            fprintf(sheet->out, "%s\n", sheet->report->note[i]);
        else
            aw_wrap(sheet->out, sheet->report->note[i], 2, 2, sheet->columns);
    }
}

enum aw_err aw__experiment_print(const struct aw__experiment *ask,
                                 const struct aw_study_report *report, FILE *out, unsigned columns,
                                 bool color, struct aw_diag *diag)
{
    const struct sheet sheet = {ask, report, out, columns, color && !ask->markdown};
    enum aw_err err = AW_OK;
    fprintf(out, "%s%s%s%s\n\n", ask->markdown ? "## " : "", sheet.color ? "\033[1m" : "",
            report->title, sheet.color ? "\033[0m" : "");
    about_print(&sheet);
    if (report->figures && ask->markdown)
        err = figures_markdown(&sheet, diag);
    else if (report->figures)
        figures_print(&sheet);
    for (uint32_t t = 0; !err && t < report->tables; t++)
        err = table_print(&sheet, &report->table[t], diag);
    if (!err)
        notes_print(&sheet);
    return err;
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* Takes over `value`; jansson's functions refuse NULL, which is how lack of memory travels. */
static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static json_t *pair_json(double low, double high)
{
    if (isnan(low) && isnan(high))
        return json_null();
    return json_pack("[o, o]", aw_json_real(low), aw_json_real(high));
}

static json_t *figure_json(const struct aw_study_report_figure *figure)
{
    json_t *object = json_object();
    set(object, "name", json_string(figure->name));
    set(object, "unit", json_string(unit_names[figure->unit]));
    set(object, "value", aw_json_real(figure->value));
    set(object, "interval_95", pair_json(figure->interval.low, figure->interval.high));
    set(object, "paper", aw_json_real(figure->paper));
    set(object, "goal", aw_json_real(figure->goal));
    if (!isnan(figure->goal)) {
        set(object, "goal_is", json_string(figure->lower ? "at most" : "at least"));
        set(object, "met", json_boolean(aw_study_report_verdict(figure) == AW_STUDY_REPORT_MET));
    }
    return object;
}

static json_t *table_json(const struct aw_study_report_table *table)
{
    json_t *object = json_object(), *columns = json_array(), *rows = json_array();
    set(object, "title", json_string(table->title));
    for (uint32_t c = 0; c < table->columns; c++)
        json_array_append_new(columns, json_pack("{s:s, s:s}", "name", table->column[c], "unit",
                                                 unit_names[table->unit[c]]));
    set(object, "columns", columns);
    for (uint32_t r = 0; r < table->rows; r++) {
        json_t *row = json_object(), *values = json_array();
        for (uint32_t c = 0; c < table->columns; c++)
            json_array_append_new(values,
                                  aw_json_real(table->value[(size_t)r * table->columns + c]));
        set(row, "label", json_string(table->label[r]));
        set(row, "values", values);
        json_array_append_new(rows, row);
    }
    set(object, "rows", rows);
    return object;
}

/* Columns, not rows: a third of the bytes, and what plots want. Bands only where there are any. */
static json_t *series_json(const struct aw_study_report_series *series)
{
    json_t *object = json_object(), *x = json_array(), *y = json_array(), *low = json_array(),
           *high = json_array();
    bool band = false;
    for (uint32_t i = 0; i < series->points; i++) {
        const struct aw_study_report_point *point = &series->point[i];
        json_array_append_new(x, aw_json_real(point->x));
        json_array_append_new(y, aw_json_real(point->y));
        json_array_append_new(low, aw_json_real(point->low));
        json_array_append_new(high, aw_json_real(point->high));
        band = band || !isnan(point->low) || !isnan(point->high);
    }
    set(object, "name", json_string(series->name));
    set(object, "x", x);
    set(object, "y", y);
    set(object, "low", band ? json_incref(low) : json_null());
    set(object, "high", band ? json_incref(high) : json_null());
    json_decref(low);
    json_decref(high);
    return object;
}

static json_t *plot_json(const struct aw_study_report_plot *plot)
{
    json_t *object = json_object(), *list = json_array(), *labels = json_array();
    set(object, "title", json_string(plot->title));
    set(object, "kind", json_string(kind_names[plot->kind]));
    set(object, "log", json_boolean(plot->log));
    set(object, "x", json_string(plot->x));
    set(object, "y", json_string(plot->y));
    for (uint32_t s = 0; s < plot->series_count; s++)
        json_array_append_new(list, series_json(&plot->series[s]));
    set(object, "series", list);
    for (uint32_t i = 0; i < plot->labels; i++)
        json_array_append_new(labels, json_pack("{s:o, s:s}", "x", aw_json_real(plot->label[i].x),
                                                "text", plot->label[i].text));
    set(object, "labels", labels);
    return object;
}

static void head_json(json_t *object, const struct aw__experiment *ask,
                      const struct aw_study_report *report)
{
    const struct aw_experiment_config *config = &ask->config;
    set(object, "name", json_string(report->name));
    set(object, "title", json_string(report->title));
    set(object, "shows", json_string(ask->entry->shows));
    set(object, "command", json_string(report->command));
    set(object, "version", json_string(AW_VERSION_NUMBER));
    set(object, "source", json_string(report->source));
    set(object, "kernels", json_string(aw_matmul_kernels()));
    set(object, "scale", json_string(scale_names[config->scale]));
    set(object, "preset", json_string(config->paper ? "paper" : "default"));
    json_t *pairs = json_array();
    for (uint32_t i = 0; i < config->pair_count; i++)
        json_array_append_new(pairs, json_string(config->pairs[i]));
    set(object, "env", pairs);
    set(object, "load", json_string(ask->load));
    set(object, "model", *config->model ? json_string(config->model) : json_null());
    set(object, "pool", json_integer((json_int_t)config->pool));
    set(object, "learned", json_integer(config->learned ? config->learned : AW_EXPERIMENT_LEARNED));
    set(object, "seed", json_integer((json_int_t)config->seed));
    set(object, "seeds", report->seeds ? json_integer(report->seeds) : json_null());
    set(object, "apps", report->apps ? json_integer(report->apps) : json_null());
    set(object, "seconds", aw_json_real(ask->seconds));
}

json_t *aw__experiment_json(const struct aw__experiment *ask, const struct aw_study_report *report)
{
    json_t *object = json_object(), *figures = json_array(), *tables = json_array(),
           *plots = json_array(), *notes = json_array();
    head_json(object, ask, report);
    for (uint32_t i = 0; i < report->figures; i++)
        json_array_append_new(figures, figure_json(&report->figure[i]));
    for (uint32_t i = 0; i < report->tables; i++)
        json_array_append_new(tables, table_json(&report->table[i]));
    for (uint32_t i = 0; i < report->plots; i++)
        json_array_append_new(plots, plot_json(&report->plot[i]));
    for (uint32_t i = 0; i < report->notes; i++)
        json_array_append_new(notes, json_string(report->note[i]));
    set(object, "figures", figures);
    set(object, "tables", tables);
    set(object, "plots", plots);
    set(object, "notes", notes);
    return object;
}

enum aw_err aw__experiment_json_write(const json_t *document, const char *path,
                                      struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&bytes, &len);
    if (!out)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path);
    enum aw_err err = aw_json_write(document, out, 2);
    if (fclose(out) != 0 || err)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path);
    else
        err = aw_file_replace(path, bytes, len, NULL, diag);
    free(bytes);
    return err;
}
