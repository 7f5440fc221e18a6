/* page.c - a template filled in, and the numbers and texts in it. */
#include "frame/page.h"

#include "base/file.h"
#include "web/page.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const char aw_report_page_css[], aw_report_common_js[];

static const struct aw_page_part shared[] = {
    {.name = "uplot.css", .text = aw_uplot_css},
    {.name = "uplot.js", .text = aw_uplot_js},
    {.name = "page.css", .text = aw_report_page_css},
    {.name = "common.js", .text = aw_report_common_js},
    {.name = NULL},
};

void aw_page_real(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, "%.4g", value);
    else
        fputs("null", out);
}

void aw_page_text(FILE *out, const char *text)
{
    json_t *string = json_string(text);
    char *dump = string ? json_dumps(string, JSON_ENCODE_ANY | JSON_ESCAPE_SLASH) : NULL;
    fputs(dump ? dump : "\"\"", out);
    free(dump);
    json_decref(string);
}

void aw_page_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else
            putc(*text, out);
    }
}

static const struct aw_page_part *find(const struct aw_page_part *parts, const char *name,
                                       size_t len)
{
    for (; parts->name; parts++) {
        if (strlen(parts->name) == len && !memcmp(parts->name, name, len))
            return parts;
    }
    return NULL;
}

enum aw_err aw_page_write(const char *page, const struct aw_page_part *parts, const void *ctx,
                          const char *path, struct aw_diag *diag)
{
    char *bytes = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&bytes, &len);
    if (!out)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the report");
    const char *text = page;
    for (const char *mark; (mark = strstr(text, "@@"));) {
        const char *end = strstr(mark + 2, "@@");
        AW_ASSERT(end);
        fwrite(text, 1, (size_t)(mark - text), out);
        const size_t name_len = (size_t)(end - mark - 2);
        const struct aw_page_part *part = find(parts, mark + 2, name_len);
        part = part ? part : find(shared, mark + 2, name_len);
        AW_ASSERT(part);
        if (part->text)
            fputs(part->text, out);
        else
            part->put(out, ctx);
        text = end + 2;
    }
    fputs(text, out);
    const bool failed = ferror(out);
    enum aw_err err = AW_OK;
    if (fclose(out) != 0 || failed)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the report");
    else
        err = aw_file_replace(path, bytes, len, NULL, diag);
    free(bytes);
    return err;
}
