/* top.c - the verb `top`: the workloads that cost most or are nearest their SLO, live. */
#include "base/text.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/rows.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVERY_S     1.0
#define AW_PART_MAX 96u /* bytes of a part of a line */

static void head_line(const char *end, bool color, enum aw_tone tone, unsigned width,
                      const char *text)
{
    fputs(aw_tone_on(tone, color), stdout);
    printf("%.*s", (int)(width ? width : 4096), text);
    fputs(tone ? aw_tone_off(color) : "", stdout);
    fputs(end, stdout);
}

/* As many of `parts` as fit whole into the width, the last left out first. */
static void head_parts(const char *end, bool color, enum aw_tone tone, unsigned width,
                       char parts[][AW_PART_MAX], size_t count)
{
    char text[512];
    struct aw_text line;
    aw_text_init(&line, text, sizeof text);
    for (size_t i = 0; i < count; i++) {
        if (width && line.len + 2 + strlen(parts[i]) > width)
            break;
        aw_text_add(&line, "%s%s", i ? "  " : "", parts[i]);
    }
    head_line(end, color, tone, width, text);
}

/* What the daemon is, what everything costs, what keeps it from acting. Returns the lines used. */
static unsigned head_print(const json_t *status, const char *sort, bool running, unsigned width,
                           bool color, const char *end)
{
    char line[512], now[AW_SHOW_MAX], cost[AW_SHOW_MAX], other[AW_SHOW_MAX];
    char what[4][AW_PART_MAX], spent[4][AW_PART_MAX];
    const double saved = aw_at_real(status, "saved"),
                 changes = aw_at_real(status, "replica_changes_per_day");
    const json_t *holds = aw_at(status, "holds");
    unsigned lines = 2;
    aw_time_show(aw_at_text(status, "now"), now, sizeof now);
    snprintf(what[0], sizeof *what, "aware %s  %s  %s%s", aw_at_text(status, "version"),
             aw_at_text(status, "cluster"), now, running ? "" : " (stopped)");
    snprintf(what[1], sizeof *what, "%lld workloads: %lld offline, %lld online, %lld serving",
             (long long)aw_at_integer(status, "workloads.total"),
             (long long)aw_at_integer(status, "workloads.offline"),
             (long long)aw_at_integer(status, "workloads.online"),
             (long long)aw_at_integer(status, "workloads.serving"));
    snprintf(what[2], sizeof *what, "%lld missing the SLO",
             (long long)aw_at_integer(status, "workloads.missing_slo"));
    snprintf(what[3], sizeof *what, "%lld frozen",
             (long long)aw_at_integer(status, "workloads.frozen"));
    head_parts(end, color, AW_TONE_PLAIN, width, what, 4);
    snprintf(spent[0], sizeof *spent, "%s/h now, fallback %s/h",
             aw_show_money(aw_at_real(status, "cost_per_hour"), cost, sizeof cost),
             aw_show_money(aw_at_real(status, "fallback_cost_per_hour"), other, sizeof other));
    if (isnan(saved))
        snprintf(spent[1], sizeof *spent, "saved -");
    else
        snprintf(spent[1], sizeof *spent, "%s %.0f%% over all", saved < 0 ? "spent more:" : "saved",
                 100 * fabs(saved));
    snprintf(spent[2], sizeof *spent, "by %s", sort);
    if (isnan(changes))
        *spent[3] = 0;
    else
        snprintf(spent[3], sizeof *spent, "%.0f replica changes a day each", changes);
    head_parts(end, color, AW_TONE_FAINT, width, spent, 4);
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

/* Where the cursor is: it stays on its workload whatever the order. */
struct cursor {
    char name[AW_GRID_CELL_MAX]; /* "": on the first row */
    uint32_t row, from;          /* of the list; the first that is shown */
    bool inside;                 /* that one alone is shown */
    uint32_t scrolled;           /* lines of it that are above the screen */
};

static void cursor_settle(struct cursor *at, const json_t *rows, uint32_t shown)
{
    const uint32_t count = (uint32_t)json_array_size(rows);
    for (uint32_t i = 0; i < count && *at->name; i++)
        if (strcmp(aw_at_text(json_array_get(rows, i), "name"), at->name) == 0)
            at->row = i;
    if (at->row >= count)
        at->row = count ? count - 1 : 0;
    snprintf(at->name, sizeof at->name, "%s", aw_at_text(json_array_get(rows, at->row), "name"));
    if (at->row < at->from)
        at->from = at->row;
    if (at->row >= at->from + shown)
        at->from = at->row - shown + 1;
}

static void cursor_move(struct cursor *at, int key, const json_t *rows)
{
    const uint32_t count = (uint32_t)json_array_size(rows);
    const bool up = key == AW_KEY_UP || key == 'k', down = key == AW_KEY_DOWN || key == 'j';
    if (at->inside) {
        at->scrolled += down;
        at->scrolled -= up && at->scrolled > 0;
        if (key == AW_KEY_LEFT || key == AW_KEY_ESCAPE || key == 127 || key == '\b' || key == 'b')
            at->inside = false;
        return;
    }
    if (up && at->row > 0)
        at->row--;
    if (down && at->row + 1 < count)
        at->row++;
    if (up || down)
        snprintf(at->name, sizeof at->name, "%s",
                 aw_at_text(json_array_get(rows, at->row), "name"));
    if (count && (key == '\n' || key == '\r' || key == AW_KEY_RIGHT)) {
        at->inside = true;
        at->scrolled = 0;
    }
}

/* The workload under the cursor, as `describe` tells of it, as much as fits. One that is gone is
 * left. */
static enum aw_err show_one(const struct aw_call *run, struct aw__client *client, struct cursor *at,
                            unsigned rows, unsigned width, struct aw_diag *diag)
{
    json_t *workload = NULL;
    char *text = NULL;
    size_t len = 0;
    const enum aw_err err = aw__client_workload(client, at->name, &workload, diag);
    at->inside = err != AW_ERR_NOTFOUND;
    if (err)
        return at->inside ? err : AW_OK;
    FILE *out = open_memstream(&text, &len);
    if (out)
        aw__describe_print(out, workload, width, run->color_out);
    json_decref(workload);
    if (!out || fclose(out))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a page");
    uint32_t lines = 0, room = rows > 2 ? rows - 2 : 1;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    if (at->scrolled + room > lines)
        at->scrolled = lines > room ? lines - room : 0;
    fputs(AW_SCREEN_HOME, stdout);
    const char *line = text;
    for (uint32_t n = 0; n < at->scrolled + room && *line; n++) {
        const size_t size = strcspn(line, "\n");
        if (n >= at->scrolled)
            printf("%.*s" AW_SCREEN_END, (int)size, line);
        line += size + (line[size] != 0);
    }
    printf("%s" AW_SCREEN_CLEAR,
           *line ? "up/down scrolls, ESC goes back, q quits" : "ESC goes back, q quits");
    fflush(stdout);
    free(text);
    return AW_OK;
}

/* One look. `rows` 0: no terminal; else `at` is where the cursor is, and moves by `key`. */
static enum aw_err show(const struct aw_call *run, struct aw__client *client, const char *sort,
                        unsigned rows, unsigned width, const char *end, struct cursor *at, int key,
                        struct aw_diag *diag)
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
        const uint32_t fits = rows ? (rows > used + 2 ? rows - used - 2 : 1) : (uint32_t)most;
        if (at) {
            cursor_settle(at, aw_at(list, "workloads"), fits);
            cursor_move(at, key, aw_at(list, "workloads"));
            cursor_settle(at, aw_at(list, "workloads"), fits);
        }
        aw_rows_grid(list, &grid);
        const struct aw_grid_look look = {
            .width = width,
            .rows_max = fits,
            .rows_from = at ? at->from : 0,
            .marked = at ? at->row + 1 : 0,
            .heads = true,
            .color = run->color_out,
            .end = end,
        };
        err = aw_grid_print(&grid, stdout, &look, diag);
        if (rows)
            printf("%s%s%s" AW_SCREEN_CLEAR, aw_tone_on(AW_TONE_FAINT, run->color_out),
                   width < 60 ? "Enter: one  c s n: sort  q: quit"
                              : "Enter shows one  arrows move  c cost  s SLO  n name  q quits",
                   aw_tone_off(run->color_out));
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
    struct cursor at = {0};
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    if (run->json) {
        err = top_json(run, &client, diag);
    } else if (!isatty(STDOUT_FILENO) || aw_args_given(run->args, "once") ||
               !aw__client_running(&client)) {
        const unsigned width = isatty(STDOUT_FILENO) ? aw_columns(stdout) : 0;
        err = show(run, &client, sort, 0, width, "\n", NULL, 0, diag);
    } else {
        aw_screen_begin(&screen);
        for (int key = 0; !err && key != 'q' && key != -1; key = aw_screen_wait(EVERY_S)) {
            unsigned rows, width;
            sort = key == 'c' ? "cost" : key == 's' ? "slo" : key == 'n' ? "name" : sort;
            aw_screen_size(&rows, &width);
            if (at.inside)
                cursor_move(&at, key, NULL);
            if (!at.inside)
                err = show(run, &client, sort, rows, width, AW_SCREEN_END, &at, key, diag);
            if (!err && at.inside) {
                err = show_one(run, &client, &at, rows, width, diag);
                if (!err && !at.inside)
                    err = show(run, &client, sort, rows, width, AW_SCREEN_END, &at, 0, diag);
            }
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
    .text = "On a terminal a table is redrawn every second: c sorts by cost, s by SLO, n by name. "
            "The arrows move, Enter shows all of one workload, ESC goes back, q quits. "
            "Elsewhere it is printed once.",
    .options = options,
    .examples = examples,
    .json = true,
    .run = top_run,
};
