/* task_page.c - what tasks found as a page: the template of experiments, one table a task. */
#include <stdio.h>
#include <string.h>

#include "cli/task.h"
#include "frame/page.h"

#define DIGITS 5 /* of a number in the page */

extern const char aw_report_experiment_html[], aw_report_experiment_css[],
    aw_report_experiment_js[];

static void put_title(FILE *out, const void *ctx)
{
    const json_t *page = ctx;
    aw_page_escaped(out, json_string_value(json_object_get(page, "title")));
}

static void put_data(FILE *out, const void *ctx)
{
    const json_t *page = ctx;
    json_dumpf(page, out, JSON_COMPACT | JSON_ESCAPE_SLASH | JSON_REAL_PRECISION(DIGITS));
}

/* Words of a row make its label, numbers its columns. */
static json_t *table_of(const json_t *document)
{
    const json_t *rows = json_object_get(document, "rows"), *first = json_array_get(rows, 0);
    json_t *columns = json_array(), *lines = json_array();
    size_t index;
    const char *key;
    json_t *row, *value;
    json_object_foreach((json_t *)(uintptr_t)first, key, value)
    {
        if (!json_is_string(value))
            json_array_append_new(columns, json_pack("{s:s, s:s}", "name", key, "unit", "plain"));
    }
    json_array_foreach((json_t *)(uintptr_t)rows, index, row)
    {
        char label[256] = "";
        json_t *values = json_array();
        json_object_foreach((json_t *)(uintptr_t)first, key, value)
        {
            json_t *cell = json_object_get(row, key);
            const size_t used = strlen(label);
            if (json_is_string(value))
                snprintf(label + used, sizeof label - used, "%s%s", used ? ", " : "",
                         json_is_string(cell) ? json_string_value(cell) : "");
            else
                json_array_append(values, cell ? cell : json_null());
        }
        json_array_append_new(lines, json_pack("{s:s, s:o}", "label", label, "values", values));
    }
    return json_pack("{s:O, s:o, s:o}", "title", json_object_get(document, "task"), "columns",
                     columns, "rows", lines);
}

enum aw_err aw__task_page_write(const json_t *documents, const char *title, const char *shows,
                                const char *command, const char *path, struct aw_diag *diag)
{
    static const struct aw_page_part parts[] = {
        {.name = "title", .put = put_title},
        {.name = "data", .put = put_data},
        {.name = "experiment.css", .text = aw_report_experiment_css},
        {.name = "experiment.js", .text = aw_report_experiment_js},
        {.name = NULL},
    };
    json_t *tables = json_array(), *notes = json_array(), *document;
    size_t index;
    json_array_foreach((json_t *)(uintptr_t)documents, index, document)
    {
        json_array_append_new(tables, table_of(document));
        json_array_extend(notes, json_object_get(document, "notes"));
    }
    json_t *page =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:[], s:[], s:o, s:o}", "title", title,
                  "shows", shows, "command", command, "scale", "small", "preset", "default", "load",
                  "of each task", "pool", "unseen pairs", "source", "this program", "figures",
                  "plots", "tables", tables, "notes", notes);
    if (!page)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", path);
    const enum aw_err err = aw_page_write(aw_report_experiment_html, parts, page, path, diag);
    json_decref(page);
    return err;
}
