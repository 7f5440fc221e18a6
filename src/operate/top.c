/* top.c - the verb `top`: the workloads that cost most or are nearest their SLO, live. */
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/rows.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define EVERY_S    1.0
#define HEAD_LINES 4u /* above the table */

static void head_line(const char *end, bool color, enum aw_tone tone, unsigned width,
                      const char *text)
{
    fputs(aw_tone_on(tone, color), stdout);
    printf("%.*s", (int)(width ? width : 4096), text);
    fputs(tone ? aw_tone_off(color) : "", stdout);
    fputs(end, stdout);
}

/* What the daemon is, what everything costs, what keeps it from acting. Returns the lines used. */
static unsigned head_print(const json_t *status, const char *sort, bool running, unsigned width,
                           bool color, const char *end)
{
    char line[512], now[AW_SHOW_MAX], cost[AW_SHOW_MAX], other[AW_SHOW_MAX], change[AW_SHOW_MAX];
    const double spent = aw_at_real(status, "cost_per_hour"),
                 fallback = aw_at_real(status, "fallback_cost_per_hour");
    const json_t *holds = aw_at(status, "holds");
    unsigned lines = 2;
    aw_time_show(aw_at_text(status, "now"), now, sizeof now);
    snprintf(line, sizeof line,
             "aware %s  %s  %s%s  %lld workloads: %lld offline, %lld online, %lld serving; "
             "%lld frozen, %lld missing their SLO",
             aw_at_text(status, "version"), aw_at_text(status, "cluster"), now,
             running ? "" : " (stopped)", (long long)aw_at_integer(status, "workloads.total"),
             (long long)aw_at_integer(status, "workloads.offline"),
             (long long)aw_at_integer(status, "workloads.online"),
             (long long)aw_at_integer(status, "workloads.serving"),
             (long long)aw_at_integer(status, "workloads.frozen"),
             (long long)aw_at_integer(status, "workloads.missing_slo"));
    head_line(end, color, AW_TONE_PLAIN, width, line);
    const double a_day = aw_at_real(status, "replica_changes_per_day");
    char changes[64] = "";
    if (!isnan(a_day))
        snprintf(changes, sizeof changes, "  %.0f replica changes a day each", a_day);
    snprintf(line, sizeof line, "%s/h, fallback %s/h (%s)%s  by %s%s",
             aw_show_money(spent, cost, sizeof cost), aw_show_money(fallback, other, sizeof other),
             aw_show_change(1 - aw_at_real(status, "saved"), 1, change, sizeof change), changes,
             sort, *end == '\n' ? "" : "   c cost  s SLO  n name  q quit");
    head_line(end, color, AW_TONE_FAINT, width, line);
    for (size_t i = 0; i < json_array_size(holds) && i < 2; i++, lines++)
        head_line(end, color, AW_TONE_ODD, width, json_string_value(json_array_get(holds, i)));
    if (aw_at(status, "ok") && !aw_at_true(status, "ok")) {
        const json_t *health = aw_at(status, "health");
        for (size_t i = 0; i < json_array_size(health); i++) {
            const json_t *one = json_array_get(health, i);
            if (aw_at_true(one, "ok"))
                continue;
            snprintf(line, sizeof line, "%s: %s", aw_at_text(one, "name"),
                     aw_at_text(one, "message"));
            head_line(end, color, AW_TONE_BAD, width, line);
            lines++;
        }
    }
    fputs(end, stdout);
    return lines + 1;
}

/* One look. `rows` 0: no terminal. */
static enum aw_err show(const struct aw_call *run, struct aw__client *client, const char *sort,
                        unsigned rows, unsigned width, const char *end, struct aw_diag *diag)
{
    json_t *status = NULL, *list = NULL;
    struct aw_grid grid;
    const uint64_t most = aw_args_number(run->args, "count");
    enum aw_err err = aw__client_status(client, &status, diag);
    err =
        err ? err
            : aw__client_workloads(client, aw_args_text(run->args, "namespace"), sort, &list, diag);
    if (!err) {
        if (rows)
            fputs(AW_SCREEN_HOME, stdout);
        const unsigned used =
            head_print(status, sort, aw__client_running(client), width, run->color_out, end);
        aw_rows_grid(list, &grid);
        const struct aw_grid_look look = {
            .width = width,
            .rows_max = rows ? (rows > used + 2 ? rows - used - 2 : 1) : (uint32_t)most,
            .heads = true,
            .color = run->color_out,
            .end = end,
        };
        err = aw_grid_print(&grid, stdout, &look, diag);
        if (rows)
            fputs(AW_SCREEN_CLEAR, stdout);
        fflush(stdout);
    }
    json_decref(status);
    json_decref(list);
    return err;
}

static enum aw_err top_json(const struct aw_call *run, struct aw__client *client,
                            struct aw_diag *diag)
{
    json_t *status = NULL, *list = NULL, *all;
    enum aw_err err = aw__client_status(client, &status, diag);
    err = err ? err
              : aw__client_workloads(client, aw_args_text(run->args, "namespace"),
                                     aw_args_text(run->args, "sort"), &list, diag);
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
    return aw_json_print(all, diag);
}

static enum aw_err top_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *sort = aw_args_text(run->args, "sort");
    struct aw__client client;
    struct aw_screen screen = {0};
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    if (run->json) {
        err = top_json(run, &client, diag);
    } else if (!isatty(STDOUT_FILENO) || aw_args_given(run->args, "once") ||
               !aw__client_running(&client)) {
        const unsigned width = isatty(STDOUT_FILENO) ? aw_columns(stdout) : 0;
        err = show(run, &client, sort, 0, width, "\n", diag);
    } else {
        aw_screen_begin(&screen);
        for (int key = 0; !err && key != 'q' && key != -1; key = aw_screen_wait(EVERY_S)) {
            unsigned rows, width;
            sort = key == 'c' ? "cost" : key == 's' ? "slo" : key == 'n' ? "name" : sort;
            aw_screen_size(&rows, &width);
            err = show(run, &client, sort, rows, width, AW_SCREEN_END, diag);
        }
        aw_screen_end(&screen);
    }
    aw__client_close(&client);
    return err;
}

static const char *const sorts[] = {"cost", "slo", "name", NULL};
static const struct aw_option options[] = {
    AW_OPTION(CHOICE, "sort", 0, "BY", "cost",
              "cost (dearest first), slo (nearest to its limit first) or name", .choices = sorts),
    AW_OPTION(TEXT, "namespace", 'n', "NAMESPACE", NULL, "only workloads of this one"),
    AW_NUMBER("count", 0, "N", "20", 1, AW_GRID_ROWS_MAX, "rows, where they are printed once"),
    AW_FLAG("once", 0, "print once, on a terminal too"),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware top", "live, dearest first"},
    {"aware top --sort slo", "those nearest their SLO first"},
    {"aware top --once --count 5", "the five dearest, and back to the prompt"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_top = {
    .name = "top",
    .summary = "Watch the workloads that cost most or are nearest their SLO",
    .text = "On a terminal a table is redrawn every second: c sorts by cost, s by SLO, n by name, "
            "q ends it. Elsewhere it is printed once.",
    .options = options,
    .examples = examples,
    .json = true,
    .run = top_run,
};
