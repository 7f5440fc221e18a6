/* experiment_page.c - what an experiment found as a page: its JSON document, and a script. */
#include "lab/experiment.h"

#include <stdlib.h>

#include "frame/page.h"

#define PAGE_DIGITS 6 /* of a number in the page: more cannot be seen */

extern const char aw_report_experiment_html[], aw_report_experiment_css[],
    aw_report_experiment_js[];

static void put_title(FILE *out, const void *ctx)
{
    const json_t *document = ctx;
    aw_page_escaped(out, json_string_value(json_object_get(document, "title")));
}

static void put_data(FILE *out, const void *ctx)
{
    const json_t *document = ctx;
    /* with \/ for / nothing in it can end the script element around it */
    json_dumpf(document, out, JSON_COMPACT | JSON_ESCAPE_SLASH | JSON_REAL_PRECISION(PAGE_DIGITS));
}

enum aw_err aw__experiment_page_write(const json_t *document, const char *path,
                                      struct aw_diag *diag)
{
    static const struct aw_page_part parts[] = {
        {.name = "title", .put = put_title},
        {.name = "data", .put = put_data},
        {.name = "experiment.css", .text = aw_report_experiment_css},
        {.name = "experiment.js", .text = aw_report_experiment_js},
        {.name = NULL},
    };
    return aw_page_write(aw_report_experiment_html, parts, document, path, diag);
}
