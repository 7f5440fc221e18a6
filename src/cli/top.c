/* top.c - the verb `top`: the workloads that cost most or are nearest their SLO, live. */
#include "cli/client.h"
#include "cli/json.h"
#include "cli/layout.h"
#include "cli/rows.h"
#include "cli/show.h"
#include "cli/verbs.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define EVERY_S    1.0
#define HEAD_LINES 4u /* above the table */

static void head_line(const char *end, bool color, enum aw__tone tone, unsigned width,
                      const char *text)
{
    fputs(aw__tone_on(tone, color), stdout);
    printf("%.*s", (int)(width ? width : 4096), text);
    fputs(tone ? aw__tone_off(color) : "", stdout);
    fputs(end, stdout);
}

/* What the daemon is, what everything costs, what keeps it from acting. Returns the lines used. */
static unsigned head_print(const json_t *status, const char *sort, bool running, unsigned width,
                           bool color, const char *end)
{
    char line[512], now[AW__SHOW_MAX], cost[AW__SHOW_MAX], other[AW__SHOW_MAX],
        change[AW__SHOW_MAX];
    const double spent = aw__at_real(status, "cost_per_hour"),
                 fallback = aw__at_real(status, "fallback_cost_per_hour");
    const json_t *holds = aw__at(status, "holds");
    unsigned lines = 2;
    aw__time_show(aw__at_text(status, "now"), now, sizeof now);
    snprintf(line, sizeof line,
             "aware %s  %s  %s%s  %lld workloads: %lld offline, %lld online, %lld serving; "
             "%lld frozen, %lld missing their SLO",
             aw__at_text(status, "version"), aw__at_text(status, "cluster"), now,
             running ? "" : " (stopped)", (long long)aw__at_integer(status, "workloads.total"),
             (long long)aw__at_integer(status, "workloads.offline"),
             (long long)aw__at_integer(status, "workloads.online"),
             (long long)aw__at_integer(status, "workloads.serving"),
             (long long)aw__at_integer(status, "workloads.frozen"),
             (long long)aw__at_integer(status, "workloads.missing_slo"));
    head_line(end, color, AW__TONE_PLAIN, width, line);
    snprintf(line, sizeof line, "%s/h, fallback %s/h (%s)  by %s%s",
             aw__show_money(spent, cost, sizeof cost),
             aw__show_money(fallback, other, sizeof other),
             aw__show_change(spent, fallback, change, sizeof change), sort,
             *end == '\n' ? "" : "   c cost  s SLO  n name  q quit");
    head_line(end, color, AW__TONE_FAINT, width, line);
    for (size_t i = 0; i < json_array_size(holds) && i < 2; i++, lines++)
        head_line(end, color, AW__TONE_ODD, width, json_string_value(json_array_get(holds, i)));
    if (aw__at(status, "ok") && !aw__at_true(status, "ok")) {
        const json_t *health = aw__at(status, "health");
        for (size_t i = 0; i < json_array_size(health); i++) {
            const json_t *one = json_array_get(health, i);
            if (aw__at_true(one, "ok"))
                continue;
            snprintf(line, sizeof line, "%s: %s", aw__at_text(one, "name"),
                     aw__at_text(one, "message"));
            head_line(end, color, AW__TONE_BAD, width, line);
            lines++;
        }
    }
    fputs(end, stdout);
    return lines + 1;
}

/* One look. `rows` 0: no terminal. */
static enum aw_err show(const struct aw__run *run, struct aw__client *client, const char *sort,
                        unsigned rows, unsigned width, const char *end, struct aw_diag *diag)
{
    json_t *status = NULL, *list = NULL;
    struct aw__grid grid;
    const uint64_t most = aw__args_number(run->args, "count");
    enum aw_err err = aw__client_status(client, &status, diag);
    err = err ? err
              : aw__client_workloads(client, aw__args_text(run->args, "namespace"), sort, &list,
                                     diag);
    if (!err) {
        if (rows)
            fputs(AW__SCREEN_HOME, stdout);
        const unsigned used =
            head_print(status, sort, aw__client_running(client), width, run->color_out, end);
        aw__rows_grid(list, &grid);
        const struct aw__grid_look look = {
            .width = width,
            .rows_max = rows ? (rows > used + 2 ? rows - used - 2 : 1) : (uint32_t)most,
            .heads = true,
            .color = run->color_out,
            .end = end,
        };
        err = aw__grid_print(&grid, stdout, &look, diag);
        if (rows)
            fputs(AW__SCREEN_CLEAR, stdout);
        fflush(stdout);
    }
    json_decref(status);
    json_decref(list);
    return err;
}

static enum aw_err top_json(const struct aw__run *run, struct aw__client *client,
                            struct aw_diag *diag)
{
    json_t *status = NULL, *list = NULL, *all;
    enum aw_err err = aw__client_status(client, &status, diag);
    err = err ? err
              : aw__client_workloads(client, aw__args_text(run->args, "namespace"),
                                     aw__args_text(run->args, "sort"), &list, diag);
    if (err) {
        json_decref(status);
        json_decref(list);
        return err;
    }
    all = json_object();
    json_object_set_new(all, "v", json_integer(1));
    json_object_set_new(all, "status", status);
    json_object_set(all, "workloads", json_object_get(list, "workloads"));
    json_decref(list);
    return aw__json_print(all, diag);
}

static enum aw_err top_run(const struct aw__run *run, struct aw_diag *diag)
{
    const char *sort = aw__args_text(run->args, "sort");
    struct aw__client client;
    struct aw__screen screen = {0};
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    if (run->json) {
        err = top_json(run, &client, diag);
    } else if (!isatty(STDOUT_FILENO) || aw__args_given(run->args, "once") ||
               !aw__client_running(&client)) {
        const unsigned width = isatty(STDOUT_FILENO) ? aw__columns(stdout) : 0;
        err = show(run, &client, sort, 0, width, "\n", diag);
    } else {
        aw__screen_begin(&screen);
        for (int key = 0; !err && key != 'q' && key != -1; key = aw__screen_wait(EVERY_S)) {
            unsigned rows, width;
            sort = key == 'c' ? "cost" : key == 's' ? "slo" : key == 'n' ? "name" : sort;
            aw__screen_size(&rows, &width);
            err = show(run, &client, sort, rows, width, AW__SCREEN_END, diag);
        }
        aw__screen_end(&screen);
    }
    aw__client_close(&client);
    return err;
}

static const char *const sorts[] = {"cost", "slo", "name", NULL};
static const struct aw__option options[] = {
    {.name = "sort",
     .kind = AW__CHOICE,
     .arg = "BY",
     .initial = "cost",
     .choices = sorts,
     .help = "cost (dearest first), slo (nearest to its limit first) or name"},
    {.name = "namespace",
     .letter = 'n',
     .kind = AW__TEXT,
     .arg = "NAMESPACE",
     .help = "only workloads of this one"},
    {.name = "count",
     .kind = AW__NUMBER,
     .arg = "N",
     .initial = "20",
     .min = 1,
     .max = AW__GRID_ROWS_MAX,
     .help = "rows, where they are printed once"},
    {.name = "once", .kind = AW__FLAG, .help = "print once, on a terminal too"},
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw__example examples[] = {
    {"aware top", "live, dearest first"},
    {"aware top --sort slo", "those nearest their SLO first"},
    {"aware top --once --count 5", "the five dearest, and back to the prompt"},
    {NULL, NULL},
};
const struct aw__verb aw__verb_top = {
    .name = "top",
    .summary = "Watch the workloads that cost most or are nearest their SLO",
    .text = "On a terminal a table is redrawn every second: c sorts by cost, s by SLO, n by name, "
            "q ends it. Elsewhere it is printed once.",
    .options = options,
    .examples = examples,
    .json = true,
    .run = top_run,
};
