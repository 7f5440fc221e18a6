/* describe.c - the verbs `describe` and `budget`: all that is known of one workload. */
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/rows.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Where a page goes. */
struct sheet {
    FILE *out;
    unsigned width;
    bool color;
};

#define LABEL       14u /* columns of what stands before a figure */
#define ALIKE_SHOWN 2u

static void head(const struct sheet *to, const char *text)
{
    fprintf(to->out, "\n%s%s%s\n", to->color ? "\033[1m" : "", text, to->color ? "\033[0m" : "");
}

static void line(const struct sheet *to, const char *label, const char *text)
{
    if (!*text)
        return;
    fprintf(to->out, "  %-*s ", (int)LABEL, label);
    aw_wrap(to->out, text, LABEL + 3, LABEL + 3, to->width);
}

/* --- what it is ------------------------------------------------------------------------------- */

static void standing_print(const struct sheet *to, const json_t *w)
{
    char text[512], more[256], a[AW_SHOW_MAX], b[AW_SHOW_MAX], c[AW_SHOW_MAX], d[AW_SHOW_MAX];
    const double limit = aw_at_real(w, "slo.latency_us");
    snprintf(text, sizeof text, "%s, mode %s; %s acts%s%s", aw_at_text(w, "stage"),
             aw_at_text(w, "mode"), aw_at_text(w, "actor"),
             *aw_at_text(w, "model") ? ", model " : "", aw_at_text(w, "model"));
    line(to, "Stage", text);
    line(to, "",
         *aw_at_text(w, "stage_words") ? aw_at_text(w, "stage_words")
                                       : aw_at_text(w, "stage_reason"));
    snprintf(text, sizeof text, "%.0f of %.0f ready, %.0f to %.0f allowed",
             aw_at_real(w, "replicas.ready"), aw_at_real(w, "replicas.wanted"),
             aw_at_real(w, "replicas.min"), aw_at_real(w, "replicas.max"));
    line(to, "Replicas", isnan(aw_at_real(w, "replicas.wanted")) ? "not seen yet" : text);
    snprintf(text, sizeof text, "CPU %s (%s used), memory %s (%s used)%s, each",
             aw_show_cpu(aw_at_real(w, "cpu_millicores"), a, sizeof a),
             aw_show_percent(aw_at_real(w, "cpu_used"), b, sizeof b),
             aw_show_memory(aw_at_real(w, "memory_bytes"), c, sizeof c),
             aw_show_percent(aw_at_real(w, "memory_used"), d, sizeof d),
             aw_show_more(w, more, sizeof more));
    line(to, "Size", text);
    snprintf(text, sizeof text, "%s, figures %s old",
             aw_show_rate(aw_at_real(w, "arrivals_per_s"), a, sizeof a),
             aw_show_age(aw_at_real(w, "figures_age_s"), b, sizeof b));
    line(to, "Load", text);
    struct aw_text slo;
    aw_text_init(&slo, text, sizeof text);
    if (limit > 0) {
        const bool missed = aw_at_true(w, "slo.missed");
        aw_text_add(&slo, "p%.0f %s of %s: %s%s%s", 100 * aw_at_real(w, "slo.quantile"),
                    aw_show_latency(aw_at_real(w, "latency_us"), a, sizeof a),
                    aw_show_latency(limit, b, sizeof b),
                    aw_tone_on(missed ? AW_TONE_BAD : AW_TONE_GOOD, to->color),
                    missed ? "missed" : "met", aw_tone_off(to->color));
        if (aw_at_real(w, "slo.recent_steps") > 0)
            aw_text_add(&slo, "; of the agent's last %.0f steps %.0f missed it, %.0f may",
                        aw_at_real(w, "slo.recent_steps"), aw_at_real(w, "slo.recent_missed"),
                        aw_at_real(w, "slo.recent_allowed"));
    } else {
        aw_text_add(&slo, "none: the fallback acts for good");
    }
    line(to, "SLO", text);
    snprintf(text, sizeof text,
             "%s an hour now, the fallback's plan %s; over all %s against the fallback",
             aw_show_money(aw_at_real(w, "cost_per_hour"), a, sizeof a),
             aw_show_money(aw_at_real(w, "fallback_cost_per_hour"), b, sizeof b),
             aw_show_change(1 - aw_at_real(w, "saved"), 1, c, sizeof c));
    line(to, "Cost", text);
    const double changes = aw_at_real(w, "replica_changes_per_day");
    const double back = aw_at_real(w, "replicas_removed_within_5m");
    if (!isnan(changes)) {
        struct aw_text said;
        aw_text_init(&said, text, sizeof text);
        aw_text_add(&said, "%.0f of replicas a day; ", changes);
        if (back > 0)
            aw_text_add(&said, "%.0f time%s one was removed within 5 minutes of being added", back,
                        back > 1 ? "s" : "");
        else
            aw_text_add(&said, "none removed within 5 minutes of being added");
        line(to, "Changes", text);
    }
}

/* A whole number of 64 bits is a text in JSON. */
static const char *value_text(const json_t *value, char *buf, size_t size)
{
    if (json_is_integer(value))
        snprintf(buf, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        snprintf(buf, size, "%s", json_is_string(value) ? json_string_value(value) : "-");
    return buf;
}

static void settings_print(const struct sheet *to, const json_t *w)
{
    static const char *const keys[] = {"controlled", NULL};
    char text[512], more[256], a[AW_SHOW_MAX], b[AW_SHOW_MAX], c[AW_SHOW_MAX], d[AW_SHOW_MAX];
    if (!aw_at(w, "bounds"))
        return;
    snprintf(text, sizeof text, "replicas %.0f to %.0f, CPU %s to %s, memory %s to %s%s",
             aw_at_real(w, "bounds.replicas.min"), aw_at_real(w, "bounds.replicas.max"),
             aw_show_cpu(aw_at_real(w, "bounds.cpu_millicores.min"), a, sizeof a),
             aw_show_cpu(aw_at_real(w, "bounds.cpu_millicores.max"), b, sizeof b),
             aw_show_memory(aw_at_real(w, "bounds.memory_bytes.min"), c, sizeof c),
             aw_show_memory(aw_at_real(w, "bounds.memory_bytes.max"), d, sizeof d),
             aw_show_more(aw_at(w, "bounds"), more, sizeof more));
    line(to, "Bounds", text);
    struct aw_text list;
    aw_text_init(&list, text, sizeof text);
    const json_t *controlled = aw_at(w, keys[0]);
    for (size_t i = 0; i < json_array_size(controlled); i++)
        aw_text_add(&list, "%s%s", i ? ", " : "", json_string_value(json_array_get(controlled, i)));
    line(to, "Controls", text);
    snprintf(text, sizeof text, "fallback %s; agent %s, %s; a step is %s, seed %s",
             aw_at_text(w, "fallback"), aw_at_text(w, "agent"),
             aw_at_true(w, "learning") ? "learning" : "not learning",
             aw_show_age(aw_at_real(w, "step_s"), a, sizeof a),
             value_text(aw_at(w, "seed"), b, sizeof b));
    line(to, "Policy", text);
    if (aw_at(w, "decision.agent.specialised_from"))
        line(to, "", aw_show_origin(aw_at(w, "decision"), text, sizeof text));
}

/* What the shared model makes of it; nothing where it has not been read yet. */
static void alike_print(const struct sheet *to, const json_t *w)
{
    const json_t *near = aw_at(w, "alike.nearest"), *one;
    char text[512];
    struct aw_text list;
    size_t i;
    if (json_array_size(near) == 0)
        return;
    aw_text_init(&list, text, sizeof text);
    json_array_foreach(near, i, one)
    {
        if (i < ALIKE_SHOWN)
            aw_text_add(&list, "%s%s%s (%.0f %% alike)", i ? ", " : "",
                        aw_at_true(one, "known") ? "application " : "", aw_at_text(one, "name"),
                        100 * aw_at_real(one, "similarity"));
    }
    if (aw_at_true(w, "alike.out_of_distribution"))
        aw_text_add(&list, "; unlike all that the shared model knows");
    line(to, "Most like", text);
}

/* --- conditions, orders ----------------------------------------------------------------------- */

static void conditions_print(const struct sheet *to, const json_t *w)
{
    const json_t *conditions = aw_at(w, "conditions");
    if (json_array_size(conditions) == 0)
        return;
    head(to, "Conditions:");
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *one = json_array_get(conditions, i);
        const bool ok = aw_at_true(one, "ok");
        fprintf(to->out, "  %s%-4s%s %-14s ",
                aw_tone_on(ok ? AW_TONE_GOOD : AW_TONE_ODD, to->color), ok ? "ok" : "look",
                aw_tone_off(to->color), aw_at_text(one, "type"));
        aw_wrap(to->out, aw_at_text(one, "message"), 22, 22, to->width);
    }
}

static void orders_print(const struct sheet *to, const json_t *w)
{
    const json_t *freezes = aw_at(w, "freezes"), *pending = aw_at(w, "pending"),
                 *emergency = aw_at(w, "emergency");
    char text[512], a[AW_SHOW_MAX], plan[AW_PLAN_MAX];
    if (json_array_size(freezes) == 0 && !pending && !emergency)
        return;
    head(to, "Orders:");
    for (size_t i = 0; i < json_array_size(freezes); i++) {
        const json_t *one = json_array_get(freezes, i);
        const double left = aw_at_real(one, "left_s");
        snprintf(text, sizeof text, "%s%s%s%s: %s (%s)",
                 aw_at_true(one, "down_only") ? "scale-down frozen" : "frozen",
                 isnan(left) ? "" : " for another ",
                 isnan(left) ? " until lifted" : aw_show_age(left, a, sizeof a), "",
                 aw_at_text(one, "reason"), aw_at_text(one, "by"));
        snprintf(plan, sizeof plan, "%lld", (long long)aw_at_integer(one, "id"));
        line(to, plan, text);
    }
    if (emergency) {
        snprintf(text, sizeof text, "emergency%s, nothing below %s: %s",
                 aw_at_true(emergency, "urgent") ? "" : " that is over and let down slowly",
                 aw_plan_show(NULL, aw_at(emergency, "floor"), plan, sizeof plan),
                 aw_at_text(emergency, "reason"));
        snprintf(plan, sizeof plan, "%lld", (long long)aw_at_integer(emergency, "id"));
        line(to, plan, text);
    }
    if (pending) {
        snprintf(text, sizeof text, "waits for approval: %s; 'aware approve %lld' or reject",
                 aw_plan_show(w, aw_at(pending, "plan"), plan, sizeof plan),
                 (long long)aw_at_integer(pending, "id"));
        snprintf(plan, sizeof plan, "%lld", (long long)aw_at_integer(pending, "id"));
        line(to, plan, text);
    }
}

/* --- budgets ---------------------------------------------------------------------------------- */

static void budgets_print(const struct sheet *to, const json_t *w)
{
    const json_t *b = aw_at(w, "budgets");
    static const struct {
        const char *key, *name;
    } cooldowns[] = {{"replicas_up", "more replicas"},
                     {"replicas_down", "fewer replicas"},
                     {"size_up", "larger"},
                     {"size_down", "smaller"}};
    char text[512], x[AW_SHOW_MAX], y[AW_SHOW_MAX], key[64];
    if (!b)
        return;
    head(to, "Budgets:");
    snprintf(text, sizeof text, "%.0f to grow and %.0f to shrink are left, of every %s",
             aw_at_real(b, "restarts_left.grow"), aw_at_real(b, "restarts_left.shrink"),
             aw_show_age(aw_at_real(b, "restarts_left.window_s"), x, sizeof x));
    line(to, "Resizes", text);
    struct aw_text list;
    aw_text_init(&list, text, sizeof text);
    for (size_t i = 0; i < sizeof cooldowns / sizeof *cooldowns; i++) {
        snprintf(key, sizeof key, "cooldown_left_s.%s", cooldowns[i].key);
        const double left = aw_at_real(b, key);
        aw_text_add(&list, "%s%s %s%s", i ? ", " : "", cooldowns[i].name, left > 0 ? "in " : "",
                    left > 0 ? aw_show_age(left, x, sizeof x) : "now");
    }
    line(to, "May change", text);
    aw_text_init(&list, text, sizeof text);
    aw_text_add(&list, "by %.3gx within %s; so far", aw_at_real(b, "change_window.factor"),
                aw_show_age(aw_at_real(b, "change_window.window_s"), x, sizeof x));
    for (uint32_t r = 0; r < AW_RESOURCES; r++) {
        const struct aw_resource_row *row = &aw_resource_table[r];
        snprintf(key, sizeof key, "change_window.%s.low", row->member);
        const double low = aw_at_real(b, key);
        snprintf(key, sizeof key, "change_window.%s.high", row->member);
        const double high = aw_at_real(b, key);
        if (!(high > 0))
            continue;
        aw_text_add(&list, "%s %s %s to %s", r ? "," : "", row->name,
                    aw_show_amount((enum aw_resource)r, low, x, sizeof x),
                    aw_show_amount((enum aw_resource)r, high, y, sizeof y));
    }
    line(to, "Range", text);
    if (aw_at_real(b, "oom_floor_bytes") > 0) {
        snprintf(text, sizeof text, "%s, for another %s: it was killed for want of memory",
                 aw_show_memory(aw_at_real(b, "oom_floor_bytes"), x, sizeof x),
                 aw_show_age(aw_at_real(b, "oom_hold_left_s"), y, sizeof y));
        line(to, "Memory floor", text);
    }
    if (aw_at_real(w, "slo.recent_steps") > 0) {
        snprintf(text, sizeof text, "%.0f of %.0f misses that the agent may have are used",
                 aw_at_real(w, "slo.recent_missed"), aw_at_real(w, "slo.recent_allowed"));
        line(to, "SLO", text);
    }
}

/* --- the last decision and the latest entries ------------------------------------------------- */

static void recent_print(const struct sheet *to, const json_t *w)
{
    const json_t *recent = aw_at(w, "recent");
    char when[AW_SHOW_MAX], what[AW_ENTRY_MAX], text[1024];
    bool headed = false;
    for (size_t i = 0; i < json_array_size(recent); i++) {
        const json_t *entry = json_array_get(recent, i);
        if (!aw_entry_notable(entry))
            continue;
        if (!headed)
            head(to, "Recently:");
        headed = true;
        snprintf(text, sizeof text, "%s: %s; %s", aw_entry_who(entry),
                 aw_entry_what(entry, what, sizeof what), aw_entry_why(entry));
        fprintf(to->out, "  %5lld  %s  ", (long long)aw_at_integer(entry, "seq"),
                aw_time_show(aw_at_text(entry, "at"), when, sizeof when));
        aw_wrap(to->out, text, (unsigned)strlen(when) + 11, 9, to->width);
    }
}

static void sheet_print(const struct sheet *to, const json_t *w)
{
    char reason[AW_GRID_CELL_MAX];
    fprintf(to->out, "%s%s%s: ", to->color ? "\033[1m" : "", aw_at_text(w, "name"),
            to->color ? "\033[0m" : "");
    aw_wrap(to->out, aw_rows_reason(w, reason, sizeof reason),
            (unsigned)strlen(aw_at_text(w, "name")) + 2, 2, to->width);
    fputc('\n', to->out);
    standing_print(to, w);
    settings_print(to, w);
    alike_print(to, w);
    orders_print(to, w);
    conditions_print(to, w);
    budgets_print(to, w);
    if (*aw_at_text(w, "why")) {
        head(to, "Last decision:");
        fputs("  ", to->out);
        aw_wrap(to->out, aw_at_text(w, "why"), 2, 2, to->width);
    }
    recent_print(to, w);
    fprintf(to->out, "\nMore: aware explain %s, aware history %s\n",
            aw_rows_name(aw_at_text(w, "name")), aw_rows_name(aw_at_text(w, "name")));
}

void aw__describe_print(FILE *out, const json_t *workload, unsigned width, bool color)
{
    sheet_print(&(struct sheet){.out = out, .width = width, .color = color}, workload);
}

static enum aw_err fetch(const struct aw_call *run, json_t **ret, bool *ret_running,
                         struct aw_diag *diag)
{
    struct aw__client client;
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    *ret_running = aw__client_running(&client);
    err = aw__client_workload(&client, run->args->positional[0], ret, diag);
    aw__client_close(&client);
    return err;
}

static enum aw_err describe_run(const struct aw_call *run, struct aw_diag *diag)
{
    json_t *workload = NULL;
    bool running;
    enum aw_err err = fetch(run, &workload, &running, diag);
    if (err)
        return err;
    if (run->json) {
        json_object_set_new(workload, "v", json_integer(1));
        return aw_json_print(workload, diag);
    }
    aw__describe_print(stdout, workload, aw_columns(stdout), run->color_out);
    json_decref(workload);
    return AW_OK;
}

static enum aw_err budget_run(const struct aw_call *run, struct aw_diag *diag)
{
    json_t *workload = NULL, *budgets;
    bool running;
    enum aw_err err = fetch(run, &workload, &running, diag);
    if (err)
        return err;
    budgets = json_incref(json_object_get(workload, "budgets"));
    if (!budgets)
        err = aw_fail(diag, AW_ERR_NODATA,
                      running ? "the daemon does not tell its budgets"
                              : "what is left of a budget needs a running daemon: it is counted "
                                "from now");
    if (!err && run->json) {
        json_object_set_new(budgets, "v", json_integer(1));
        json_object_set_new(budgets, "workload", json_string(aw_at_text(workload, "name")));
        err = aw_json_print(json_incref(budgets), diag);
    } else if (!err) {
        printf("%s", aw_at_text(workload, "name"));
        const struct sheet to = {
            .out = stdout, .width = aw_columns(stdout), .color = run->color_out};
        budgets_print(&to, workload);
    }
    json_decref(budgets);
    json_decref(workload);
    return err;
}

static const struct aw_option options[] = {AW__CLIENT_OPTIONS, {.name = NULL}};
static const struct aw_positional positionals[] = {
    {.name = "WORKLOAD", .kind = AW_ARG_TEXT, .help = "NAME, or NAMESPACE/NAME"},
    {.name = NULL},
};
static const struct aw_example describe_examples[] = {
    {"aware describe cart", "one workload"},
    {"aware describe shop/cart -o json", "the same for a program"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_describe = {
    .name = "describe",
    .summary = "Describe one workload: sizes, SLO, cost, conditions, orders, budgets, history",
    .text = "A condition says ok where nobody needs to look. Budgets say how much may still change "
            "within each window, and when.",
    .options = options,
    .positionals = positionals,
    .examples = describe_examples,
    .json = true,
    .run = describe_run,
};
static const struct aw_example budget_examples[] = {
    {"aware budget cart", "restarts, cool-downs and range of change that are left"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_budget = {
    .name = "budget",
    .summary = "Show how much a workload may still change in each window (not its SLO budget)",
    .text = "Budgets are counted over time windows, never per tick: a loop that runs more often "
            "changes no more.",
    .options = options,
    .positionals = positionals,
    .examples = budget_examples,
    .json = true,
    .run = budget_run,
};
