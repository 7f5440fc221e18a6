/*
 * demo_services_page.c - the demo `services` as a page that needs no other file: how many requests
 * miss their SLO over time and whom is blamed, the graph of services with the culprit, the
 * waterfall of a slow request with its critical path, and what was decided.
 */
#include <math.h>
#include <string.h>

#include "cli/demo_services.h"
#include "frame/page.h"

#define WIDTH  900.0
#define HEIGHT 180.0
#define ROW    18.0

static const char page[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>aware: one SLO for a graph of services</title>\n<style>\n"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1d2733;background:#fff}\n"
    "svg{width:100%;height:auto;font:11px system-ui,sans-serif}\n"
    "table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left;"
    "vertical-align:top}td:first-child{white-space:nowrap}\n"
    ".firm{stroke:#0b7a4b;fill:none;stroke-width:2}.hpa{stroke:#b3541e;fill:none;stroke-width:2}\n"
    ".span{fill:#c9d3de}.path{fill:#c0392b}.node{fill:#e8eef5;stroke:#8a9bb0}\n"
    ".culprit{fill:#f6c6c0;stroke:#c0392b;stroke-width:2}.edge{stroke:#b6c2cf;fill:none}\n"
    ".fault{fill:#fdf0d5}.axis{stroke:#8a9bb0}text{fill:#1d2733}\n"
    "@media (prefers-color-scheme:dark){body{background:#12181f;color:#dbe4ee}text{fill:#dbe4ee}"
    ".node{fill:#22303f}.span{fill:#3a4a5c}.fault{fill:#3a3016}.culprit{fill:#5c2620}}\n"
    "</style></head><body>\n<h1>One SLO for a graph of services</h1>\n"
    "<p>A simulated hotel site. Something goes wrong inside of one service; traces name it, its "
    "groups say what it lacks, and it is given that. Made by "
    "<code>aware run --demo services</code>.</p>\n"
    "<h2>Requests over their SLO</h2>\n@@missed@@\n"
    "<p>Green: under FIRM. Brown: the same under Kubernetes' autoscaler. Shaded: something is "
    "wrong.</p>\n@@table@@\n"
    "<h2>Where a slow request spent its time</h2>\n@@waterfall@@\n"
    "<p>Red is the critical path: every instant of the request belongs to one service.</p>\n"
    "<h2>Who calls whom</h2>\n@@graph@@\n<h2>What was seen and done</h2>\n@@events@@\n"
    "</body></html>\n";

static double time_x(const struct aw__demo_services *demo, double at_s)
{
    return 40 + (WIDTH - 50) * at_s / ((double)demo->campaign.duration_ns * 1e-9);
}

static void missed_put(FILE *out, const void *ctx)
{
    const struct aw__demo_services *demo = ctx;
    static const char *const classes[] = {"firm", "hpa"};
    fprintf(out,
            "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"share of requests over "
            "their SLO over time\">\n",
            WIDTH, HEIGHT + 40);
    for (uint32_t i = 0; i < demo->campaign.count; i++) {
        const struct aw_anomaly *anomaly = &demo->campaign.anomaly[i];
        const double from = time_x(demo, (double)anomaly->at_ns * 1e-9);
        const double until = time_x(demo, (double)(anomaly->at_ns + anomaly->for_ns) * 1e-9);
        fprintf(out,
                "<rect class=\"fault\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%.0f\"/>"
                "<text x=\"%.1f\" y=\"12\">%s into %s</text>\n",
                from, until - from, HEIGHT, from + 4, aw_anomaly_kind_names[anomaly->kind],
                demo->app.services[anomaly->service].name);
    }
    for (uint32_t tick = 0; tick <= 100; tick += 50)
        fprintf(out,
                "<line class=\"axis\" x1=\"36\" x2=\"40\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text x=\"2\" y=\"%.1f\">%u %%</text>\n",
                HEIGHT * (1 - tick / 100.0), HEIGHT * (1 - tick / 100.0),
                fmin(HEIGHT, HEIGHT * (1 - tick / 100.0) + 10), tick);
    for (uint32_t second = 0; second * 1e9 <= (double)demo->campaign.duration_ns; second += 5)
        fprintf(out, "<text x=\"%.1f\" y=\"%.0f\">%u s</text>\n", time_x(demo, second), HEIGHT + 14,
                second);
    for (uint32_t k = 0; k < AW__DEMO_RUNS; k++) {
        const struct aw__demo_run *run = &demo->run[k];
        fprintf(out, "<polyline class=\"%s\" points=\"", classes[k]);
        for (uint32_t i = 0; i < run->steps; i++)
            fprintf(out, "%.1f,%.1f ", time_x(demo, run->at_s[i]), HEIGHT * (1 - run->missed[i]));
        fputs("\"/>\n", out);
    }
    /* whom FIRM blamed, where it was sure */
    for (uint32_t i = 0; i < demo->run[0].steps; i++)
        if (demo->run[0].culprit[i] != AW_GRAPH_NONE &&
            (i == 0 || demo->run[0].culprit[i] != demo->run[0].culprit[i - 1]))
            fprintf(out, "<text x=\"%.1f\" y=\"%.0f\">to blame: %s</text>\n",
                    time_x(demo, demo->run[0].at_s[i]), HEIGHT + 30,
                    demo->app.services[demo->run[0].culprit[i]].name);
    fputs("</svg>", out);
}

static void waterfall_put(FILE *out, const void *ctx)
{
    const struct aw__demo_services *demo = ctx;
    const double per = (WIDTH - 300) / fmax(demo->request_ms, 1e-9);
    fprintf(out,
            "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"waterfall of a slow "
            "request\">\n",
            WIDTH, ROW * (demo->bar_count + 1));
    for (uint32_t i = 0; i < demo->bar_count; i++) {
        const struct aw__demo_bar *bar = &demo->bar[i];
        const double y = ROW * i;
        fprintf(out, "<text x=\"%u\" y=\"%.1f\">%s</text><text x=\"200\" y=\"%.1f\">%.1f ms</text>",
                4 + 10 * bar->depth, y + 13, bar->service, y + 13, bar->path_ms);
        fprintf(out, "<rect class=\"span\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"10\"/>",
                280 + bar->start_ms * per, y + 4, fmax(1, (bar->end_ms - bar->start_ms) * per));
        for (uint32_t k = 0; k < bar->section_count; k++)
            fprintf(out,
                    "<rect class=\"path\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"10\"/>",
                    280 + bar->section[k][0] * per, y + 4,
                    fmax(1, (bar->section[k][1] - bar->section[k][0]) * per));
        fputc('\n', out);
    }
    fputs("</svg>", out);
}

/* ---- the graph ---- */

struct layout {
    double x[AW_GRAPH_SERVICES_MAX], y[AW_GRAPH_SERVICES_MAX];
    uint32_t depth[AW_GRAPH_SERVICES_MAX], most;
    bool calls[AW_GRAPH_SERVICES_MAX][AW_GRAPH_SERVICES_MAX];
};

static void calls_of(const struct aw_graph_app *app, uint32_t first, uint32_t service,
                     struct layout *layout)
{
    for (uint32_t i = first; i != AW_GRAPH_NONE; i = app->steps[i].next) {
        if (app->steps[i].kind == AW_GRAPH_CALL)
            layout->calls[service][app->ops[app->steps[i].op].service] = true;
        else
            calls_of(app, app->steps[i].child, service, layout);
    }
}

static void lay_out(const struct aw_graph_app *app, struct layout *layout)
{
    uint32_t rows[AW_GRAPH_SERVICES_MAX] = {0}, columns = 0;
    memset(layout, 0, sizeof *layout);
    for (uint32_t i = 0; i < app->op_count; i++)
        calls_of(app, app->ops[i].first, app->ops[i].service, layout);
    /* as deep as the longest chain of calls; services that call themselves cannot be */
    for (uint32_t round = 0; round < AW_GRAPH_DEPTH_MAX; round++)
        for (uint32_t a = 0; a < app->service_count; a++)
            for (uint32_t b = 0; b < app->service_count; b++)
                if (a != b && layout->calls[a][b] && layout->depth[b] <= layout->depth[a] &&
                    layout->depth[a] + 1 < AW_GRAPH_DEPTH_MAX)
                    layout->depth[b] = layout->depth[a] + 1;
    for (uint32_t i = 0; i < app->service_count; i++) {
        columns = layout->depth[i] + 1 > columns ? layout->depth[i] + 1 : columns;
        layout->y[i] = 20 + 34.0 * rows[layout->depth[i]]++;
        layout->most =
            rows[layout->depth[i]] > layout->most ? rows[layout->depth[i]] : layout->most;
    }
    for (uint32_t i = 0; i < app->service_count; i++)
        layout->x[i] = 10 + (WIDTH - 20) / columns * layout->depth[i];
}

static void graph_put(FILE *out, const void *ctx)
{
    const struct aw__demo_services *demo = ctx;
    const struct aw_graph_app *app = &demo->app;
    struct layout layout;
    lay_out(app, &layout);
    fprintf(out,
            "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"services and their "
            "calls\">\n",
            WIDTH, 34.0 * layout.most + 30);
    for (uint32_t a = 0; a < app->service_count; a++)
        for (uint32_t b = 0; b < app->service_count; b++)
            if (layout.calls[a][b])
                fprintf(out,
                        "<path class=\"edge\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>",
                        layout.x[a] + 120, layout.y[a] + 11, layout.x[a] + 150, layout.y[a] + 11,
                        layout.x[b] - 30, layout.y[b] + 11, layout.x[b], layout.y[b] + 11);
    for (uint32_t i = 0; i < app->service_count; i++)
        fprintf(out,
                "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"120\" height=\"22\" rx=\"4\"/>"
                "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                i == demo->culprit ? "culprit" : "node", layout.x[i], layout.y[i], layout.x[i] + 6,
                layout.y[i] + 15, app->services[i].name);
    fputs("</svg>", out);
}

static void table_put(FILE *out, const void *ctx)
{
    const struct aw__demo_services *demo = ctx;
    fputs("<table><tr><th></th><th>requests over their SLO</th><th>mean time to mend</th>"
          "<th>CPU limits</th></tr>\n",
          out);
    for (uint32_t i = 0; i < AW__DEMO_RUNS; i++) {
        const struct aw_firm_outcome *outcome = &demo->run[i].outcome;
        fprintf(out, "<tr><td>%s</td><td>%.1f %%</td><td>%.1f s</td><td>%.1f cores</td></tr>\n",
                i ? "HPA" : "FIRM", 100.0 * outcome->missed / outcome->requests,
                outcome->seconds_mean, outcome->cores);
    }
    fputs("</table>", out);
}

static void events_put(FILE *out, const void *ctx)
{
    const struct aw__demo_services *demo = ctx;
    for (uint32_t k = 0; k < AW__DEMO_RUNS; k++) {
        fprintf(out, "<h3>Under %s</h3>\n<table>\n", k ? "HPA" : "FIRM");
        for (uint32_t i = 0; i < demo->run[k].event_count; i++) {
            fprintf(out, "<tr><td>%.1f s</td><td>", demo->run[k].event[i].at_s);
            aw_page_escaped(out, demo->run[k].event[i].text);
            fputs("</td></tr>\n", out);
        }
        fputs("</table>\n", out);
    }
}

enum aw_err aw__demo_services_page(const struct aw__demo_services *demo, const char *path,
                                   struct aw_diag *diag)
{
    static const struct aw_page_part parts[] = {
        {.name = "missed", .put = missed_put}, {.name = "waterfall", .put = waterfall_put},
        {.name = "graph", .put = graph_put},   {.name = "table", .put = table_put},
        {.name = "events", .put = events_put}, {.name = NULL},
    };
    return aw_page_write(page, parts, demo, path, diag);
}
