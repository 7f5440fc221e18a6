/* get.c - the verb `get`: the workloads of a daemon, one row each; orders in force; proposals. */
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/rows.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WATCH_S 2.0

static bool output_is(const struct aw_call *run, const char *name)
{
    return !strcmp(aw_args_text(run->args, "output"), name);
}

/* --- documents for programs ------------------------------------------------------------------- */

/* Only the workloads named, in the order of the list. AW_ERR_NOTFOUND: one of them is not there. */
static enum aw_err narrow(json_t *list, const struct aw_args *args, struct aw_diag *diag)
{
    json_t *rows = json_object_get(list, "workloads"), *kept = json_array(), *row;
    bool found[64] = {false};
    size_t i;
    if (args->word_count == 0) {
        json_decref(kept);
        return AW_OK;
    }
    if (args->word_count > sizeof found / sizeof *found) {
        json_decref(kept);
        return aw_fail(diag, AW_ERR_USAGE, "at most %zu workloads can be named",
                       sizeof found / sizeof *found);
    }
    json_array_foreach(rows, i, row)
    {
        bool wanted = false;
        for (uint32_t w = 0; w < args->word_count; w++) {
            if (!strcmp(args->words[w], aw_at_text(row, "name")) ||
                !strcmp(args->words[w], aw_at_text(row, "workload")))
                wanted = found[w] = true;
        }
        if (wanted)
            json_array_append(kept, row);
    }
    json_object_set_new(list, "workloads", kept);
    for (uint32_t w = 0; w < args->word_count; w++) {
        if (!found[w])
            return aw_fail(diag, AW_ERR_NOTFOUND,
                           "no workload is called %s; 'aware get' lists them",
                           AW_QUOTE(args->words[w]));
    }
    return AW_OK;
}

/* The version first: what a program looks at before anything else. */
static json_t *versioned(json_t *document)
{
    json_t *all = json_object();
    json_object_set_new(all, "v", json_integer(1));
    json_object_update(all, document);
    json_decref(document);
    return all;
}

static enum aw_err document_print(const struct aw_call *run, json_t *document, bool line,
                                  struct aw_diag *diag)
{
    json_t *all = versioned(document);
    enum aw_err err = AW_OK;
    if (output_is(run, "yaml")) {
        fputs(line ? "---\n" : "", stdout);
        err = aw_yaml_write(all, stdout);
        json_decref(all);
        return err ? aw_fail(diag, err, "standard output: cannot write the document") : AW_OK;
    }
    if (!line)
        return aw_json_print(all, diag);
    if (json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15)))
        err = aw_fail(diag, AW_ERR_IO, "standard output: cannot write the document");
    json_decref(all);
    putchar('\n');
    return err;
}

/* --- orders and proposals --------------------------------------------------------------------- */

/* clang-format off */
static const struct aw_grid_column order_columns[] = {
    {"ID",     true,  0, false, 0},
    {"KIND",   false, 0, false, 0},
    {"ABOUT",  false, 0, false, 12},
    {"LEFT",   true,  0, false, 0},
    {"WHAT",   false, 3, false, 20},
    {"BY",     false, 4, false, 12},
    {"REASON", false, 0, false, 16},
    {NULL,     false, 0, false, 0},
};
static const struct aw_grid_column proposal_columns[] = {
    {"ID",       true,  0, false, 0},
    {"WORKLOAD", false, 0, false, 12},
    {"LEFT",     true,  0, false, 0},
    {"CHANGE",   false, 0, false, 24},
    {"COST/H",   true,  2, false, 0},
    {"WHY",      false, 1, false, 20},
    {NULL,       false, 0, false, 0},
};
/* clang-format on */

static void orders_add(struct aw_grid *grid, const json_t *orders)
{
    for (size_t i = 0; i < json_array_size(orders); i++) {
        const json_t *order = json_array_get(orders, i);
        char left[AW_SHOW_MAX], plan[AW_PLAN_MAX];
        const double seconds = aw_at_real(order, "left_s");
        const char *name = aw_at_text(order, "name"), *by = aw_at_text(order, "by");
        aw_grid_add(grid, AW_TONE_PLAIN, "%lld", (long long)aw_at_integer(order, "id"));
        aw_grid_add(grid, AW_TONE_PLAIN, "%s", aw_at_text(order, "kind"));
        aw_grid_add(grid, AW_TONE_PLAIN, "%s%s%s", aw_at_text(order, "scope"), *name ? " " : "",
                    name);
        aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                    isnan(seconds) ? "until lifted" : aw_show_age(seconds, left, sizeof left));
        if (aw_at(order, "plan"))
            aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                        aw_plan_show(NULL, aw_at(order, "plan"), plan, sizeof plan));
        else
            aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                        aw_at_true(order, "down_only") ? "scale-down only" : "everything");
        aw_grid_add(grid, AW_TONE_PLAIN, "%s", by);
        aw_grid_add(grid, AW_TONE_PLAIN, "%s", aw_at_text(order, "reason"));
    }
}

static void proposals_add(struct aw_grid *grid, const json_t *proposals)
{
    for (size_t i = 0; i < json_array_size(proposals); i++) {
        const json_t *one = json_array_get(proposals, i);
        char left[AW_SHOW_MAX], plan[AW_PLAN_MAX], before[AW_SHOW_MAX], after[AW_SHOW_MAX];
        aw_grid_add(grid, AW_TONE_PLAIN, "%lld", (long long)aw_at_integer(one, "id"));
        aw_grid_add(grid, AW_TONE_PLAIN, "%s", aw_rows_name(aw_at_text(one, "workload")));
        aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                    aw_show_age(aw_at_real(one, "left_s"), left, sizeof left));
        aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                    aw_plan_show(aw_at(one, "now"), aw_at(one, "plan"), plan, sizeof plan));
        aw_grid_add(grid, AW_TONE_PLAIN, "%s -> %s",
                    aw_show_money(aw_at_real(one, "cost_per_hour.before"), before, sizeof before),
                    aw_show_money(aw_at_real(one, "cost_per_hour.after"), after, sizeof after));
        aw_grid_add(grid, AW_TONE_PLAIN, "%s", aw_at_text(one, "why"));
    }
}

static enum aw_err grid_once(const struct aw_call *run, struct aw_grid *grid, struct aw_diag *diag)
{
    const bool wide = output_is(run, "wide");
    const struct aw_grid_look look = {
        .width = wide || !isatty(STDOUT_FILENO) ? 0 : aw_columns(stdout),
        .wide = wide,
        .heads = !aw_args_given(run->args, "no-headers"),
        .color = run->color_out,
        .end = "\n",
    };
    return aw_grid_print(grid, stdout, &look, diag);
}

/* What is listed instead of workloads. */
static enum aw_err other_print(const struct aw_call *run, struct aw__client *client, bool proposals,
                               struct aw_diag *diag)
{
    struct aw_grid grid;
    json_t *list = NULL;
    enum aw_err err = AW_OK;
    if (!proposals)
        err = aw__client_freezes(client, &list, diag);
    else if (aw__client_running(client))
        err = aw__client_ask(client, "/v1/proposals", NULL, &list, diag);
    else
        list = json_deep_copy(aw_at(client->views, "proposals"));
    if (err)
        return err;
    if (output_is(run, "json") || output_is(run, "yaml"))
        return document_print(run, list ? list : json_object(), false, diag);
    aw_grid_init(&grid, proposals ? proposal_columns : order_columns);
    if (proposals) {
        proposals_add(&grid, aw_at(list, "proposals"));
    } else {
        orders_add(&grid, aw_at(list, "freezes"));
        orders_add(&grid, aw_at(list, "pins"));
    }
    json_decref(list);
    if (grid.cell_count == 0) {
        aw_grid_deinit(&grid);
        puts(proposals ? "Nothing waits for approval." : "No order is in force.");
        return AW_OK;
    }
    return grid_once(run, &grid, diag);
}

/* --- workloads -------------------------------------------------------------------------------- */

static enum aw_err fetch(const struct aw_call *run, struct aw__client *client, json_t **ret,
                         struct aw_diag *diag)
{
    json_t *list = NULL;
    enum aw_err err = aw__client_workloads(client, aw_args_text(run->args, "namespace"),
                                           aw_args_text(run->args, "sort"), &list, diag);
    err = err ? err : narrow(list, run->args, diag);
    if (err)
        json_decref(list);
    else
        *ret = list;
    return err;
}

/* What keeps the daemon from acting, above the table: whoever looks at it must not miss it. */
static void holds_print(struct aw__client *client)
{
    json_t *status = NULL;
    if (aw__client_status(client, &status, NULL))
        return;
    const json_t *holds = aw_at(status, "holds");
    for (size_t i = 0; i < json_array_size(holds); i++)
        fprintf(stderr, "aware: %s\n", json_string_value(json_array_get(holds, i)));
    json_decref(status);
}

/* Replicas that no node has room for, above the table as well. */
static void pending_print(const json_t *list)
{
    const json_t *rows = aw_at(list, "workloads"), *row;
    long long pending = 0, waiting = 0;
    const char *which = "";
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const long long here = (long long)aw_at_integer(row, "replicas.pending");
        which = here > 0 && waiting == 0 ? aw_rows_name(aw_at_text(row, "name")) : which;
        waiting += here > 0;
        pending += here > 0 ? here : 0;
    }
    if (pending > 0 && waiting == 1)
        fprintf(stderr, "aware: the cluster is full: %lld pod%s pending, of %s\n", pending,
                pending == 1 ? "" : "s", which);
    else if (pending > 0)
        fprintf(stderr, "aware: the cluster is full: %lld pods pending, of %lld workloads\n",
                pending, waiting);
}

static enum aw_err list_print(const struct aw_call *run, json_t *list, struct aw_diag *diag)
{
    struct aw_grid grid;
    if (json_array_size(aw_at(list, "workloads")) == 0) {
        json_decref(list);
        fprintf(stderr, "aware: no workload%s%s\n",
                aw_args_given(run->args, "namespace") ? " in namespace " : " is there",
                aw_args_given(run->args, "namespace") ? aw_args_text(run->args, "namespace") : "");
        return AW_OK;
    }
    pending_print(list);
    aw_rows_grid(list, &grid);
    json_decref(list);
    return grid_once(run, &grid, diag);
}

/* On a terminal the table is redrawn; elsewhere it is printed again whenever it is another one. */
static enum aw_err watch(const struct aw_call *run, struct aw__client *client, struct aw_diag *diag)
{
    const bool terminal =
        isatty(STDOUT_FILENO) && !output_is(run, "json") && !output_is(run, "yaml");
    struct aw_screen screen = {0};
    char *last = NULL;
    enum aw_err err = AW_OK;
    if (terminal)
        aw_screen_begin(&screen);
    for (int key = 0; !err && key != 'q' && key != -1; key = aw_screen_wait(WATCH_S)) {
        json_t *list = NULL;
        if ((err = fetch(run, client, &list, diag)))
            break;
        if (!terminal) {
            char *text = json_dumps(aw_at(list, "workloads"), JSON_COMPACT);
            const bool same = last && text && !strcmp(last, text);
            free(last);
            last = text;
            if (same) {
                json_decref(list);
                continue;
            }
            err = output_is(run, "json") || output_is(run, "yaml")
                      ? document_print(run, list, true, diag)
                      : list_print(run, list, diag);
            fflush(stdout);
            continue;
        }
        unsigned rows, columns_;
        struct aw_grid grid;
        aw_screen_size(&rows, &columns_);
        aw_rows_grid(list, &grid);
        json_decref(list);
        const struct aw_grid_look look = {.width = output_is(run, "wide") ? 0 : columns_,
                                          .rows_max = rows > 3 ? rows - 2 : 1,
                                          .wide = output_is(run, "wide"),
                                          .heads = !aw_args_given(run->args, "no-headers"),
                                          .color = run->color_out,
                                          .end = AW_SCREEN_END};
        fputs(AW_SCREEN_HOME, stdout);
        err = aw_grid_print(&grid, stdout, &look, diag);
        fputs(AW_SCREEN_CLEAR, stdout);
        fflush(stdout);
    }
    if (terminal)
        aw_screen_end(&screen);
    free(last);
    return err;
}

static enum aw_err get_run(const struct aw_call *run, struct aw_diag *diag)
{
    const bool orders = aw_args_given(run->args, "orders"),
               proposals = aw_args_given(run->args, "proposals"),
               watched = aw_args_given(run->args, "watch");
    struct aw__client client;
    if (orders && proposals)
        return aw_fail(diag, AW_ERR_USAGE, "--orders and --proposals are two lists; ask for one");
    if ((orders || proposals) && (run->args->word_count > 0 || watched))
        return aw_fail(diag, AW_ERR_USAGE, "--%s lists %s; it takes no workload and no --watch",
                       orders ? "orders" : "proposals",
                       orders ? "the orders in force" : "what waits for approval");
    struct aw_call quiet = *run;
    quiet.json = output_is(run, "json") || output_is(run, "yaml");
    enum aw_err err = aw__client_open(&client, &quiet, diag);
    if (err)
        return err;
    if (watched && !aw__client_running(&client)) {
        err = aw__client_need(&client, "--watch", diag);
    } else if (orders || proposals) {
        err = other_print(run, &client, proposals, diag);
    } else if (watched) {
        err = watch(run, &client, diag);
    } else {
        json_t *list = NULL;
        err = fetch(run, &client, &list, diag);
        if (!err && !quiet.json)
            holds_print(&client);
        if (!err)
            err = quiet.json ? document_print(run, list, false, diag) : list_print(run, list, diag);
    }
    aw__client_close(&client);
    return err;
}

static const char *const outputs[] = {"table", "wide", "json", "yaml", NULL};
static const char *const sorts[] = {"name", "cost", "slo", "stage", "changed", NULL};
static const struct aw_option options[] = {
    AW_OPTION(TEXT, "namespace", 'n', "NAMESPACE", NULL, "only workloads of this one"),
    AW_OPTION(CHOICE, "output", 'o', "FORMAT", "table",
              "table, wide (every column, nothing cut), json or yaml", .choices = outputs),
    AW_OPTION(CHOICE, "sort", 0, "BY", "name",
              "name, cost (dearest first), slo (nearest to its limit first), stage, or changed "
              "(latest first)",
              .choices = sorts),
    AW_FLAG("watch", 'w', "look again every two seconds; q ends it"),
    AW_FLAG("orders", 0, "list the orders in force instead: freezes, undos, emergencies"),
    AW_FLAG("proposals", 0, "list what waits for approval instead"),
    AW_FLAG("no-headers", 0, "rows alone"),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_positional positionals[] = {
    {.name = "WORKLOAD",
     .kind = AW_ARG_TEXT,
     .help = "only these: NAME, or NAMESPACE/NAME",
     .optional = true,
     .repeated = true},
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware get", "every workload, one row each"},
    {"aware get -n shop --sort slo -o wide", "of one namespace, the most pressed first"},
    {"aware get --watch", "the same, looked at again and again"},
    {"aware get -o json | jq '.workloads[].name'", "for a program"},
    {"aware get --orders", "who has frozen what, and for how long"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_get = {
    .name = "get",
    .summary = "List workloads: who acts, size, SLO, cost and the reason",
    .text = "Asks the daemon; of a stopped one, shows what it left and says of when that is. "
            "P99/SLO is the latency of the last step over its limit, SLO-BUDGET what is left of "
            "the steps that may miss it, COST/H what the present sizes cost in an hour, "
            "VS-FALLBACK how that compares with what the fallback would have now, AGE how old the "
            "figures are. Columns that do not fit the terminal are left out, the least telling "
            "first.",
    .options = options,
    .positionals = positionals,
    .examples = examples,
    .run = get_run,
};
