/* page.c - which address is which file. */
#include "web/page.h"

#include <string.h>

#define HTML "text/html; charset=utf-8"
#define CSS  "text/css; charset=utf-8"
#define JS   "text/javascript; charset=utf-8"
#define SVG  "image/svg+xml"

extern const char aw__page_index_html[], aw__page_page_css[], aw__page_icon_svg[];
extern const char aw__page_main_js[], aw__page_dom_js[], aw__page_data_js[], aw__page_format_js[],
    aw__page_plot_js[], aw__page_table_js[], aw__page_overview_js[], aw__page_workload_js[],
    aw__page_training_js[], aw__page_map_js[], aw__page_reports_js[], aw__page_orders_js[],
    aw__page_capacity_js[];

static const struct aw_page_file files[] = {
    {"/", HTML, aw__page_index_html},
    {"/page.css", CSS, aw__page_page_css},
    {"/icon.svg", SVG, aw__page_icon_svg},
    {"/uPlot.css", CSS, aw_uplot_css},
    {"/uPlot.js", JS, aw_uplot_js},
    {"/main.js", JS, aw__page_main_js},
    {"/dom.js", JS, aw__page_dom_js},
    {"/data.js", JS, aw__page_data_js},
    {"/format.js", JS, aw__page_format_js},
    {"/plot.js", JS, aw__page_plot_js},
    {"/table.js", JS, aw__page_table_js},
    {"/overview.js", JS, aw__page_overview_js},
    {"/workload.js", JS, aw__page_workload_js},
    {"/training.js", JS, aw__page_training_js},
    {"/map.js", JS, aw__page_map_js},
    {"/reports.js", JS, aw__page_reports_js},
    {"/orders.js", JS, aw__page_orders_js},
    {"/capacity.js", JS, aw__page_capacity_js},
};

const struct aw_page_file *aw_page_find(const char *path)
{
    const size_t len = strcspn(path, "?");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strlen(files[i].path) == len && memcmp(files[i].path, path, len) == 0)
            return &files[i];
    return NULL;
}
