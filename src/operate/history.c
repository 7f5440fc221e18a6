/* history.c - the verb `history`: what was done to a workload, by whom and why, newest first. */
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/rows.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

#include "base/quantity.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_ALL 1000u
#define PAGES_MAX 200u /* that are looked through: what the API reads of a log at most */

/* clang-format off */
static const struct aw_grid_column columns[] = {
    {"ID",       true,  0, false, 0},
    {"TIME",     false, 0, false, 0},
    {"WORKLOAD", false, 2, false, 12},
    {"WHO",      false, 1, false, 9},
    {"WHAT",     false, 0, false, 24},
    {"WHY",      false, 0, false, 16},
    {NULL,       false, 0, false, 0},
};
static const struct aw_grid_column columns_of_one[] = {
    {"ID",       true,  0, false, 0},
    {"TIME",     false, 0, false, 0},
    {"WHO",      false, 1, false, 9},
    {"WHAT",     false, 0, false, 24},
    {"WHY",      false, 0, false, 16},
    {NULL,       false, 0, false, 0},
};
/* clang-format on */

bool aw_entry_notable(const json_t *entry)
{
    const char *kind = aw_at_text(entry, "kind");
    if (!strcmp(kind, "decision"))
        return json_array_size(aw_at(entry, "changed")) > 0 || aw_at(entry, "watchdog") ||
               aw_at(entry, "held_by");
    return strcmp(kind, "outcome") != 0 || strcmp(aw_at_text(entry, "result"), "done") != 0;
}

/* "agent: replicas 2 -> 3, because ..." without what the other columns say already. */
static const char *because(const json_t *entry)
{
    static const char *const from[] = {"because ", "seeing ", "; "};
    const char *why = aw_at_text(entry, "why");
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        const char *found = strstr(why, from[i]);
        if (found)
            return i == 1 ? found : found + strlen(from[i]);
    }
    return why;
}

const char *aw_entry_what(const json_t *entry, char *buf, size_t size)
{
    const char *kind = aw_at_text(entry, "kind");
    const json_t *recommended = aw_at(entry, "recommended");
    char plan[AW_PLAN_MAX];
    if (!strcmp(kind, "decision") && *aw_at_text(entry, "what")) { /* of a service */
        snprintf(buf, size, "%s%s", aw_at_text(entry, "what"),
                 aw_at(entry, "held_by") ? " (frozen, not done)" : "");
    } else if (!strcmp(kind, "decision") && json_array_size(aw_at(entry, "changed")) > 0) {
        aw_plan_show(aw_at(entry, "from"), aw_at(entry, "to"), buf, size);
    } else if (!strcmp(kind, "decision") || !strcmp(kind, "proposal")) {
        aw_plan_show(aw_at(entry, "from"), recommended, plan, sizeof plan);
        const bool proposal = !strcmp(kind, "proposal");
        const bool none = !recommended || !strcmp(plan, "nothing");
        snprintf(buf, size, "%s%s%s", proposal ? "proposes " : "", none ? "nothing" : plan,
                 proposal || none ? "" : " (not done)");
    } else if (!strcmp(kind, "order")) {
        const char *name = aw_at_text(entry, "name");
        snprintf(buf, size, "%s%s %s%s%s", aw_at_text(entry, "order"),
                 aw_at_true(entry, "down_only") ? " (scale-down)" : "",
                 *name ? "" : aw_at_text(entry, "scope"), *name ? aw_rows_name(name) : "", "");
    } else if (!strcmp(kind, "outcome")) {
        snprintf(buf, size, "%lld: %s", (long long)aw_at_integer(entry, "of"),
                 aw_at_text(entry, "result"));
    } else {
        snprintf(buf, size, "%s", kind);
    }
    return buf;
}

/* A decision's own, a person's name, or the daemon. */
const char *aw_entry_who(const json_t *entry)
{
    if (!strcmp(aw_at_text(entry, "kind"), "order"))
        return aw_at_text(entry, "by");
    return *aw_at_text(entry, "actor") ? aw_at_text(entry, "actor") : "daemon";
}

const char *aw_entry_why(const json_t *entry)
{
    if (*aw_at_text(entry, "what")) /* of a service: the evidence, whole */
        return aw_at_text(entry, "why");
    return *aw_at_text(entry, "why") ? because(entry) : aw_at_text(entry, "reason");
}

static void entry_add(struct aw_grid *grid, const json_t *entry, bool of_all)
{
    const char *kind = aw_at_text(entry, "kind");
    const bool failed =
        !strcmp(kind, "outcome") && strcmp(aw_at_text(entry, "result"), "done") != 0;
    char when[AW_SHOW_MAX], what[AW_ENTRY_MAX];
    aw_grid_add(grid, AW_TONE_PLAIN, "%lld", (long long)aw_at_integer(entry, "seq"));
    aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                aw_time_show(aw_at_text(entry, "at"), when, sizeof when));
    if (of_all)
        aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                    aw_rows_name(*aw_at_text(entry, "workload") ? aw_at_text(entry, "workload")
                                                                : aw_at_text(entry, "name")));
    aw_grid_add(grid, !strcmp(kind, "order") ? AW_TONE_ODD : AW_TONE_PLAIN, "%s",
                aw_entry_who(entry));
    aw_grid_add(grid, failed ? AW_TONE_BAD : AW_TONE_PLAIN, "%s",
                aw_entry_what(entry, what, sizeof what));
    aw_grid_add(grid, AW_TONE_PLAIN, "%s", aw_entry_why(entry));
}

static enum aw_err list_print(const struct aw_call *run, const json_t *answer, const char *name,
                              size_t hidden, struct aw_diag *diag)
{
    const json_t *entries = aw_at(answer, "entries");
    struct aw_grid grid;
    aw_grid_init(&grid, name ? columns_of_one : columns);
    for (size_t i = 0; i < json_array_size(entries); i++)
        entry_add(&grid, json_array_get(entries, i), !name);
    if (grid.cell_count == 0) {
        aw_grid_deinit(&grid);
        printf("Nothing was changed%s%s%s.\n", name ? " of " : "", name ? name : "",
               aw_args_given(run->args, "since") ? " in that time" : "");
    } else {
        const struct aw_grid_look look = {
            .width = isatty(STDOUT_FILENO) ? aw_columns(stdout) : 0,
            .heads = true,
            .color = run->color_out,
            .end = "\n",
        };
        enum aw_err err = aw_grid_print(&grid, stdout, &look, diag);
        if (err)
            return err;
    }
    if (hidden)
        fprintf(stderr, "aware: %zu entr%s that changed nothing left out; --all shows them\n",
                hidden, hidden == 1 ? "y" : "ies");
    if (aw_at(answer, "next"))
        fprintf(stderr, "aware: older ones are there; --limit asks for more\n");
    return AW_OK;
}

static enum aw_err since_check(const char *since, struct aw_diag *diag)
{
    int64_t us;
    if (!since || !aw_time_read(since, &us) ||
        !aw_duration_parse(since, AW_QUANTITY_POSITIVE_OR_0, &us, NULL))
        return AW_OK;
    return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--since",
                      "expected a duration such as 2h or a time such as 2026-11-16T02:00:00Z, "
                      "found %s",
                      AW_QUOTE(since));
}

/* As many entries as are to be shown, however many lie between them: what changed nothing counts
 * for nothing. */
static enum aw_err gather(const struct aw_call *run, struct aw__client *client, const char *name,
                          const char *since, json_t **ret, size_t *ret_hidden, struct aw_diag *diag)
{
    const bool all = aw_args_given(run->args, "all");
    const size_t limit = (size_t)aw_args_number(run->args, "limit");
    json_t *kept = json_array(), *page = NULL;
    uint64_t before = 0;
    bool more = true;
    for (uint32_t pages = 0; more && pages < PAGES_MAX && json_array_size(kept) < limit; pages++) {
        json_decref(page);
        page = NULL;
        const enum aw_err err =
            aw__client_history(client, name, since, LIMIT_ALL, before, &page, diag);
        if (err) {
            json_decref(kept);
            return err;
        }
        const json_t *entries = aw_at(page, "entries");
        size_t i = 0;
        for (; i < json_array_size(entries) && json_array_size(kept) < limit; i++) {
            json_t *entry = json_array_get(entries, i);
            before = (uint64_t)aw_at_integer(entry, "seq");
            if (all || aw_entry_notable(entry))
                json_array_append(kept, entry);
            else
                ++*ret_hidden;
        }
        more = i < json_array_size(entries) || aw_at_integer(page, "next") > 0;
    }
    json_object_set_new(page, "entries", kept);
    json_object_set_new(page, "next", more ? json_integer((json_int_t)before) : json_null());
    *ret = page;
    return AW_OK;
}

static enum aw_err history_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *name = run->args->positional[0], *since = aw_args_text(run->args, "since");
    struct aw__client client;
    json_t *answer = NULL;
    enum aw_err err = since_check(since, diag);
    err = err ? err : aw__client_open(&client, run, diag);
    if (err)
        return err;
    size_t hidden = 0;
    err = gather(run, &client, name, since, &answer, &hidden, diag);
    aw__client_close(&client);
    if (err)
        return err;
    if (run->json) {
        json_object_set_new(answer, "v", json_integer(1));
        return aw_json_print(answer, diag);
    }
    err = list_print(run, answer, name, hidden, diag);
    json_decref(answer);
    return err;
}

static const struct aw_option options[] = {
    AW_OPTION(TEXT, "since", 0, "TIME", NULL,
              "only what is younger: 2h, 1d, or a time such as 2026-11-16T02:00:00Z"),
    AW_FLAG("all", 'a', "also decisions that changed nothing, and what became of plans"),
    AW_NUMBER("limit", 0, "N", "100", 1, LIMIT_ALL, "entries to show, newest first"),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_positional positionals[] = {
    {.name = "WORKLOAD",
     .kind = AW_ARG_TEXT,
     .help = "NAME, or NAMESPACE/NAME; left out: of all",
     .optional = true},
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware history cart", "what was changed of it, and what people ordered"},
    {"aware history --since 2h", "of all workloads, of the last two hours"},
    {"aware history cart --all -o json", "every entry, as the audit log has it"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_history = {
    .name = "history",
    .summary = "Show what was changed, by whom, from what to what, and why",
    .text = "Read from the audit log, which outlives restarts. ID is what 'aware explain "
            "--decision', 'aware undo' and 'aware approve' take.",
    .options = options,
    .positionals = positionals,
    .examples = examples,
    .json = true,
    .run = history_run,
};
