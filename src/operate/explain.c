/* explain.c - the verb `explain`: why a decision was taken, as a page to read aloud. */
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/rows.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LABEL        14u
#define BAR_CELLS    20u
#define REASONS_MAX  6u
#define EFFECT_LEAST 0.005 /* of the largest: below, an input moved nothing */

struct page {
    const json_t *told, *account, *detail;
    bool color;
};

static void head(const struct page *page, const char *text)
{
    printf("\n%s%s%s\n", page->color ? "\033[1m" : "", text, page->color ? "\033[0m" : "");
}

static void line(const char *label, const char *text)
{
    if (!*text)
        return;
    printf("  %-*s ", (int)LABEL, label);
    aw_wrap(stdout, text, LABEL + 3, LABEL + 3, aw_columns(stdout));
}

static const char *join(const json_t *names, char *buf, size_t size)
{
    struct aw_text text;
    aw_text_init(&text, buf, size);
    for (size_t i = 0; i < json_array_size(names); i++)
        aw_text_add(&text, "%s%s", i ? ", " : "", json_string_value(json_array_get(names, i)));
    return buf;
}

/* --- what was done ---------------------------------------------------------------------------- */

static void done_print(const struct page *page)
{
    char plan[AW_PLAN_MAX], when[AW_SHOW_MAX], age[AW_SHOW_MAX], before[AW_SHOW_MAX],
        after[AW_SHOW_MAX], text[1536];
    const json_t *a = page->account;
    const long long id = (long long)aw_at_integer(page->told, "decision");
    printf("%s%s%s", page->color ? "\033[1m" : "", aw_at_text(page->told, "workload"),
           page->color ? "\033[0m" : "");
    if (id)
        printf(", decision %lld", id);
    printf(", at %s (%s ago)\n\n", aw_time_show(aw_at_text(page->told, "at"), when, sizeof when),
           aw_show_age(aw_at_real(page->told, "age_s"), age, sizeof age));
    aw_wrap(stdout, aw_at_text(page->told, "sentence"), 0, 0, aw_columns(stdout));
    if (*aw_at_text(page->told, "latest.sentence")) {
        snprintf(text, sizeof text, "Nothing new was decided since. The latest, at %s: %s",
                 aw_time_show(aw_at_text(page->told, "latest.at"), when, sizeof when),
                 aw_at_text(page->told, "latest.sentence"));
        putchar('\n');
        aw_wrap(stdout, text, 0, 0, aw_columns(stdout));
    }
    head(page, "What was done");
    line("Change",
         aw_plan_show(aw_at(a, "plan.before"), aw_at(a, "plan.after"), plan, sizeof plan));
    snprintf(text, sizeof text, "%s an hour before, %s after",
             aw_show_money(aw_at_real(a, "cost_per_hour.before"), before, sizeof before),
             aw_show_money(aw_at_real(a, "cost_per_hour.after"), after, sizeof after));
    line("Cost", text);
    snprintf(text, sizeof text, "%s, in stage %s (episode %lld, step %lld)", aw_at_text(a, "actor"),
             aw_at_text(a, "stage"), (long long)aw_at_integer(a, "episode"),
             (long long)aw_at_integer(a, "step"));
    line("Who", text);
}

/* --- what it saw ------------------------------------------------------------------------------ */

/* clang-format off */
static const struct aw_grid_column input_columns[] = {
    {"  INPUT", false, 0, false, 0},
    {"VALUE",   true,  0, false, 0},
    {"AGE",     true,  0, false, 0},
    {NULL,      false, 0, false, 0},
};
/* clang-format on */

static enum aw_err inputs_print(const struct page *page, struct aw_diag *diag)
{
    const json_t *inputs = aw_at(page->account, "inputs");
    struct aw_grid grid;
    const char *name;
    json_t *copy = json_deep_copy(inputs), *input;
    head(page, "What it saw");
    aw_grid_init(&grid, input_columns);
    json_object_foreach(copy, name, input)
    {
        char value[AW_SHOW_MAX], age[AW_SHOW_MAX];
        const bool missing = !aw_at(input, "value");
        aw_grid_add(&grid, AW_TONE_PLAIN, "  %s", name);
        aw_grid_add(&grid, missing ? AW_TONE_ODD : AW_TONE_PLAIN, "%s",
                    missing ? "missing"
                            : aw_show_named(name, aw_at_real(input, "value"), value, sizeof value));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%s",
                    aw_show_age(aw_at_real(input, "age_s"), age, sizeof age));
    }
    json_decref(copy);
    const struct aw_grid_look look = {.heads = true, .end = "\n", .color = page->color};
    return aw_grid_print(&grid, stdout, &look, diag);
}

static void standing_print(const struct page *page)
{
    const json_t *s = aw_at(page->account, "standing"), *last = aw_at(page->account, "last_step");
    char text[512], more[256], a[AW_SHOW_MAX], b[AW_SHOW_MAX], c[AW_SHOW_MAX], d[AW_SHOW_MAX];
    snprintf(text, sizeof text,
             "%lld of %lld replicas ready, CPU %s (%s used), memory %s (%s used)%s%s%s",
             (long long)aw_at_integer(s, "replicas_ready"),
             (long long)aw_at_integer(s, "replicas_wanted"),
             aw_show_cpu(aw_at_real(s, "cpu_millicores"), a, sizeof a),
             aw_show_percent(aw_at_real(s, "cpu_utilisation"), b, sizeof b),
             aw_show_memory(aw_at_real(s, "memory_bytes"), c, sizeof c),
             aw_show_percent(aw_at_real(s, "memory_utilisation"), d, sizeof d),
             aw_show_more(s, more, sizeof more),
             aw_at_true(s, "rollout") ? ", a rollout is under way" : "",
             aw_at_integer(s, "oom_kills") > 0 ? ", killed for want of memory" : "");
    line("Standing", text);
    if (aw_at(last, "slo_latency_us")) {
        snprintf(text, sizeof text, "%s of %s in the step before: %s",
                 aw_show_latency(aw_at_real(last, "latency_us"), a, sizeof a),
                 aw_show_latency(aw_at_real(last, "slo_latency_us"), b, sizeof b),
                 aw_at_true(last, "slo_missed") ? "missed" : "met");
        line("SLO", text);
    }
}

/* --- who wanted what -------------------------------------------------------------------------- */

static void deciders_print(const struct page *page)
{
    const json_t *a = page->account, *agent = aw_at(a, "agent"), *fallback = aw_at(a, "fallback"),
                 *before = aw_at(a, "plan.before");
    char plan[AW_PLAN_MAX], text[512];
    head(page, "Who wanted what");
    snprintf(text, sizeof text, "%s%s; %s",
             aw_plan_show(before, aw_at(fallback, "plan"), plan, sizeof plan),
             aw_at_true(fallback, "acts") ? " (it acted)" : "", aw_at_text(fallback, "reason"));
    char label[32];
    snprintf(label, sizeof label, "%.14s", aw_at_text(fallback, "kind"));
    line(label, text);
    if (aw_at(agent, "plan"))
        snprintf(text, sizeof text, "%s%s",
                 aw_plan_show(before, aw_at(agent, "plan"), plan, sizeof plan),
                 aw_at_true(agent, "acts") ? " (it acted)" : "");
    else
        snprintf(text, sizeof text, "has no policy yet");
    line("agent", text);
    line("watchdog", aw_at_text(a, "watchdog.sentence"));
    line("lifecycle", aw_at_text(a, "lifecycle.sentence"));
}

static void orders_print(const struct page *page)
{
    const json_t *orders = aw_at(page->account, "orders");
    char text[256], plan[AW_PLAN_MAX];
    const char *freeze = aw_at_text(orders, "freeze");
    if (aw_at(orders, "freeze_id")) {
        snprintf(text, sizeof text, "order %lld: %s is frozen",
                 (long long)aw_at_integer(orders, "freeze_id"),
                 !strcmp(freeze, "down") ? "scaling down" : "everything");
        line("person", text);
    }
    if (aw_at(orders, "pin_id")) {
        snprintf(text, sizeof text, "order %lld (%s): %s",
                 (long long)aw_at_integer(orders, "pin_id"), aw_at_text(orders, "pin"),
                 aw_plan_show(NULL, aw_at(orders, "pin_plan"), plan, sizeof plan));
        line("person", text);
    }
    if (aw_at(orders, "floor_id")) {
        snprintf(text, sizeof text, "order %lld (emergency): nothing below %s%s",
                 (long long)aw_at_integer(orders, "floor_id"),
                 aw_plan_show(NULL, aw_at(orders, "floor_plan"), plan, sizeof plan),
                 aw_at_true(orders, "urgent") ? "" : ", being let down");
        line("person", text);
    }
}

/* --- the rails -------------------------------------------------------------------------------- */

static void rails_print(const struct page *page)
{
    const json_t *guard = aw_at(page->account, "guard"), *rails = aw_at(guard, "rails"),
                 *before = aw_at(page->account, "plan.before");
    char plan[AW_PLAN_MAX], axes[64], text[256];
    head(page, "What the rails made of it");
    line("proposed", aw_plan_show(before, aw_at(guard, "proposed"), plan, sizeof plan));
    for (size_t i = 0; i < json_array_size(rails); i++) {
        const json_t *rail = json_array_get(rails, i);
        snprintf(text, sizeof text, "%s: %s", join(aw_at(rail, "clipped"), axes, sizeof axes),
                 aw_at_text(rail, "sentence"));
        line(aw_at_text(rail, "rail"), text);
    }
    if (json_array_size(rails) == 0)
        line("", "no rail changed anything");
    line("recommended", aw_plan_show(before, aw_at(guard, "recommended"), plan, sizeof plan));
    snprintf(text, sizeof text, "%s (mode %s)",
             aw_plan_show(before, aw_at(guard, "plan"), plan, sizeof plan),
             aw_at_text(guard, "mode"));
    line("applied", text);
}

/* --- what moved it, and what it promises ------------------------------------------------------ */

static void reasons_print(const struct page *page)
{
    const json_t *reasons = aw_at(page->detail, "reasons");
    const json_t *now = aw_at(page->account, "guard.proposed"),
                 *before = aw_at(page->account, "plan.before");
    double most = 0;
    for (size_t i = 0; i < json_array_size(reasons); i++)
        most = fmax(most, fabs(aw_at_real(json_array_get(reasons, i), "effect")));
    head(page, "Which inputs moved it most");
    if (!(most > 0)) {
        line("", "none: a little more or less of any input would have changed nothing");
        return;
    }
    for (size_t i = 0; i < json_array_size(reasons) && i < REASONS_MAX; i++) {
        const json_t *one = json_array_get(reasons, i);
        const double effect = aw_at_real(one, "effect");
        char bar[AW_SHOW_MAX], value[AW_SHOW_MAX], plan[AW_PLAN_MAX], tried[AW_SHOW_MAX];
        const char *name = aw_at_text(one, "input");
        if (!(fabs(effect) > EFFECT_LEAST * most))
            continue;
        const json_t *more = aw_at(one, "more"), *less = aw_at(one, "less");
        const bool up = !json_equal(more, now ? now : before);
        printf("  %-22s %s  %s\n", name,
               aw_bar_show(fabs(effect) / most, BAR_CELLS, bar, sizeof bar),
               aw_show_named(name, aw_at_real(one, "value"), value, sizeof value));
        printf("  %-22s %s %s: %s\n", "",
               aw_show_percent(aw_at_real(one, "tried"), tried, sizeof tried), up ? "more" : "less",
               aw_plan_show(before, up ? more : less, plan, sizeof plan));
    }
}

static void predicted_print(const struct page *page)
{
    const json_t *p = aw_at(page->detail, "predicted");
    char text[512], a[AW_SHOW_MAX], b[AW_SHOW_MAX], c[AW_SHOW_MAX], d[AW_SHOW_MAX];
    head(page, "What is expected of it");
    if (aw_at(p, "unknown_because")) {
        line("latency", aw_at_text(p, "unknown_because"));
    } else if (aw_at(p, "after")) {
        snprintf(text, sizeof text, "%s as it was, %s with this, limit %s%s%s%s",
                 aw_at_true(p, "before.overload")
                     ? "overload"
                     : aw_show_latency(aw_at_real(p, "before.latency_us"), a, sizeof a),
                 aw_at_true(p, "after.overload")
                     ? "overload"
                     : aw_show_latency(aw_at_real(p, "after.latency_us"), b, sizeof b),
                 aw_show_latency(aw_at_real(p, "slo_latency_us"), c, sizeof c),
                 aw_at(p, "error") ? " (from a copy of the workload that is off by " : "",
                 aw_at(p, "error") ? aw_show_percent(expm1(aw_at_real(p, "error")), d, sizeof d)
                                   : "",
                 aw_at(p, "error") ? ")" : "");
        line("latency", text);
    }
    if (aw_at(page->account, "estimate.mean")) {
        snprintf(text, sizeof text, "estimated at %.4g an episode (%.4g to %.4g)",
                 aw_at_real(page->account, "estimate.mean"),
                 aw_at_real(page->account, "estimate.low"),
                 aw_at_real(page->account, "estimate.high"));
        line("policy", text);
    }
    snprintf(text, sizeof text, "%s, seed %s",
             *aw_at_text(page->account, "model") ? aw_at_text(page->account, "model") : "none yet",
             aw_at_text(page->account, "seed"));
    line("model", text);
    if (aw_at(page->account, "agent.specialised_from"))
        line("", aw_show_origin(page->account, text, sizeof text));
}

static void policy_print(const struct page *page)
{
    const json_t *policy = aw_at(page->detail, "policy");
    const char *name;
    json_t *copy = json_deep_copy(policy), *number;
    if (json_object_size(copy) > 0)
        head(page, "The numbers of the policy");
    json_object_foreach(copy, name, number)
    {
        printf("  %-*s %10.4g  %s\n", (int)LABEL, name, aw_at_real(number, "value"),
               aw_at_text(number, "meaning"));
    }
    json_decref(copy);
}

/* --- a service of a graph ------------------------------------------------------------------- */

/* clang-format off */
static const struct aw_grid_column group_columns[] = {
    {"  RESOURCE", false, 0, false, 0},
    {"USE",        true,  0, false, 0},
    {"WAITING",    true,  0, false, 0},
    {"LIMIT",      true,  0, false, 0},
    {"MAY BE",     false, 0, false, 0},
    {NULL,         false, 0, false, 0},
};
/* clang-format on */

static enum aw_err groups_print(const struct page *page, struct aw_diag *diag)
{
    struct aw_grid grid;
    json_t *copy = json_deep_copy(aw_at(page->account, "groups")), *group;
    const char *name;
    aw_grid_init(&grid, group_columns);
    json_object_foreach(copy, name, group)
    {
        aw_grid_add(&grid, AW_TONE_PLAIN, "  %s", name);
        aw_grid_add(&grid, AW_TONE_PLAIN, "%.0f %%", 100 * aw_at_real(group, "use"));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%.0f %%", 100 * aw_at_real(group, "waiting"));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%s", aw_at_text(group, "limit"));
        aw_grid_add(&grid, AW_TONE_PLAIN, "%s to %s", aw_at_text(group, "least"),
                    aw_at_text(group, "most"));
    }
    json_decref(copy);
    const struct aw_grid_look look = {.heads = true, .end = "\n", .color = page->color};
    return aw_grid_print(&grid, stdout, &look, diag);
}

static enum aw_err service_print(const struct page *page, struct aw_diag *diag)
{
    const json_t *a = page->account, *suspects = aw_at(a, "suspects");
    char when[AW_SHOW_MAX], age[AW_SHOW_MAX], text[512];
    printf("%s%s%s, decision %lld, at %s (%s ago)\n\n", page->color ? "\033[1m" : "",
           aw_at_text(page->told, "workload"), page->color ? "\033[0m" : "",
           (long long)aw_at_integer(page->told, "decision"),
           aw_time_show(aw_at_text(page->told, "at"), when, sizeof when),
           aw_show_age(aw_at_real(page->told, "age_s"), age, sizeof age));
    snprintf(text, sizeof text, "%s: %s", aw_at_text(a, "service"), aw_at_text(a, "why"));
    aw_wrap(stdout, text, 0, 0, aw_columns(stdout));
    head(page, "What was done");
    line("Change", aw_at_text(a, "what"));
    if (aw_at(a, "held_by")) {
        snprintf(text, sizeof text, "nothing: order %lld holds it",
                 (long long)aw_at_integer(a, "held_by"));
        line("Done", text);
    }
    line("Who", aw_at_text(a, "actor"));
    if (aw_at(a, "given_before")) {
        snprintf(text, sizeof text, "decision %lld, %s: %s",
                 (long long)aw_at_integer(a, "given_before.decision"),
                 aw_at_text(a, "given_before.what"), aw_at_text(a, "given_before.why"));
        line("Given before", text);
    }
    head(page, "What requests said");
    snprintf(text, sizeof text, "%s: p95 %.1f of %.1f ms, %.0f %% of %lld requests over it: %s",
             aw_at_text(a, "slo.type"), aw_at_real(a, "slo.p95_ms"), aw_at_real(a, "slo.limit_ms"),
             100 * aw_at_real(a, "slo.missed_share"), (long long)aw_at_integer(a, "slo.requests"),
             aw_at_true(a, "slo.missed") ? "missed" : "met");
    line("SLO", text);
    for (size_t i = 0; i < json_array_size(suspects); i++) {
        const json_t *one = json_array_get(suspects, i);
        snprintf(text, sizeof text, "%s: %s%s", aw_at_text(one, "service"),
                 aw_at_text(one, "evidence"), aw_at_true(one, "sure") ? "" : " (not sure)");
        line(i ? "" : "Suspects", text);
    }
    line("Doubt", aw_at_text(a, "doubt"));
    head(page, "What its group said");
    return groups_print(page, diag);
}

static enum aw_err page_print(const struct page *page, struct aw_diag *diag)
{
    if (!strcmp(aw_at_text(page->account, "kind"), "service"))
        return service_print(page, diag);
    done_print(page);
    enum aw_err err = inputs_print(page, diag);
    if (err)
        return err;
    standing_print(page);
    deciders_print(page);
    orders_print(page);
    rails_print(page);
    if (page->detail) {
        reasons_print(page);
        predicted_print(page);
        policy_print(page);
    } else {
        head(page, "Which inputs moved it most");
        line("", *aw_at_text(page->told, "detail_error")
                     ? aw_at_text(page->told, "detail_error")
                     : "not known: the moment of this decision was not kept");
    }
    return AW_OK;
}

/* --replay: whether taking it again gives the same. */
static enum aw_err replayed(const struct aw_call *run, const json_t *told, struct aw_diag *diag)
{
    const json_t *again = aw_at(told, "detail.replayed");
    const long long id = (long long)aw_at_integer(told, "decision");
    if (!again)
        return aw_fail(diag, AW_ERR_NODATA, "decision %lld cannot be taken again: %s", id,
                       *aw_at_text(told, "detail_error") ? aw_at_text(told, "detail_error")
                                                         : "its moment was not kept");
    if (!json_is_true(again))
        return aw_fail(diag, AW_ERR_CHECK, "decision %lld taken again is not what was recorded",
                       id);
    if (!run->json)
        printf("\n%sTaken again from its recorded moment, decision %lld is the same, byte for "
               "byte.%s\n",
               aw_tone_on(AW_TONE_GOOD, run->color_out), id, aw_tone_off(run->color_out));
    return AW_OK;
}

static enum aw_err explain_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *name = run->args->positional[0];
    const uint64_t decision =
        aw_args_given(run->args, "decision") ? aw_args_number(run->args, "decision") : 0;
    struct aw__client client;
    json_t *told = NULL;
    if (!name && !decision)
        return aw_fail(diag, AW_ERR_USAGE,
                       "'aware explain' needs a WORKLOAD, or a decision's number with --decision");
    enum aw_err err = aw__client_open(&client, run, diag);
    if (err)
        return err;
    err = aw__client_explain(&client, name, decision, &told, diag);
    aw__client_close(&client);
    if (err)
        return err;
    const struct page page = {.told = told,
                              .account = aw_at(told, "account"),
                              .detail = aw_at(told, "detail"),
                              .color = run->color_out};
    if (run->json) {
        json_object_set_new(told, "v", json_integer(1));
        err = aw_json_print(json_incref(told), diag);
    } else if (!page.account) {
        err = aw_fail(diag, AW_ERR_NODATA, "nothing has been decided for %s yet",
                      aw_at_text(told, "workload"));
    } else {
        err = page_print(&page, diag);
    }
    if (!err && aw_args_given(run->args, "replay"))
        err = replayed(run, told, diag);
    json_decref(told);
    return err;
}

static const struct aw_option options[] = {
    AW_NUMBER("decision", 0, "ID", NULL, 1, INT64_MAX,
              "an earlier one; 'aware history' has their numbers (default: the last kept)"),
    AW_FLAG("replay", 0,
            "take the decision again from its recorded moment; exit status 1 where it differs"),
    AW__CLIENT_OPTIONS,
    {.name = NULL},
};
static const struct aw_positional positionals[] = {
    {.name = "WORKLOAD",
     .kind = AW_ARG_TEXT,
     .help = "NAME, or NAMESPACE/NAME; not needed with --decision",
     .optional = true},
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware explain cart", "the last decision about it"},
    {"aware explain cart --decision 310", "an earlier one"},
    {"aware explain --decision 310 --replay", "and prove that it is what these inputs give"},
    {"aware explain cart -o json", "everything, for a program"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_explain = {
    .name = "explain",
    .summary = "Explain a decision: what was seen, who wanted what, what limited it, why",
    .text = "In this order: what was done and what it costs; the figures it was decided on, with "
            "their age; what the fallback and the agent wanted; what each guard rail made of it; "
            "which inputs moved it most (each a little more and a little less, everything else as "
            "it was); what is expected of it; the model and the seed.\n\n"
            "A decision is a function of what is recorded: --replay takes it again and compares "
            "byte by byte. The fields of an autoscaler's file are another matter: see 'aware "
            "explain-schema'.",
    .options = options,
    .positionals = positionals,
    .examples = examples,
    .json = true,
    .run = explain_run,
};
