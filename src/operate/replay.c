/* replay.c - the verb `replay`: what another policy or setting would have done on recorded days. */
#include "base/clock.h"
#include "base/file.h"
#include "desk/explanation.h"
#include "desk/journal.h"
#include "frame/grid.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "frame/rows.h"
#include "frame/show.h"
#include "frame/verbs.h"
#include "operate/client.h"
#include "profile/profile.h"
#include "study/counterfactual.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define POLICIES_MAX  8u
#define WORKLOADS_MAX 256u
#define DIFFERS       0.1 /* of the cost: less is no difference */
#define FORMULA       "formula"

struct asked {
    const struct aw_call *run;
    char names[POLICIES_MAX][32];
    uint32_t count;
    bool rule; /* is among them: its numbers are sought on the first half */
    char store[AW_TEXT_MAX + 32];
    char journal[AW_TEXT_MAX + 32]; /* "": none */
    struct aw_profile_set set;
    int64_t from_us;
};

/* --- what was asked --------------------------------------------------------------------------- */

static enum aw_err policies_read(struct asked *asked, struct aw_diag *diag)
{
    const char *text = aw_args_text(asked->run->args, "policy");
    const char *known[AW_FALLBACK_COUNT + 2] = {0};
    for (uint32_t i = 0; i < AW_FALLBACK_COUNT; i++)
        known[i] = aw_fallback_names[i];
    known[AW_FALLBACK_COUNT] = FORMULA;
    while (*text) {
        const size_t len = strcspn(text, ",");
        char *name = asked->names[asked->count];
        bool found = false;
        if (asked->count == POLICIES_MAX)
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--policy",
                              "at most %u policies at once", POLICIES_MAX);
        snprintf(name, sizeof asked->names[0], "%.*s", (int)len, text);
        for (uint32_t i = 0; known[i]; i++)
            found |= strlen(known[i]) == len && !strncmp(known[i], text, len);
        if (!found) {
            char list[256];
            struct aw_text names;
            aw_text_init(&names, list, sizeof list);
            for (uint32_t i = 0; known[i]; i++)
                aw_text_add(&names, "%s%s", i ? ", " : "", known[i]);
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--policy",
                              "expected one of: %s; found %s", list, AW_QUOTE(name));
        }
        asked->rule |= !strcmp(name, FORMULA);
        asked->count++;
        text += len + (text[len] == ',');
    }
    return AW_OK;
}

static void finding_print(void *ctx, const struct aw_profile_finding *finding)
{
    char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
    (void)ctx;
    if (finding->err)
        fprintf(stderr, "%s\n", aw_diag_format(&finding->diag, finding->err, line, sizeof line));
}

static bool exists(const char *path)
{
    struct stat is;
    return stat(path, &is) == 0;
}

static enum aw_err places_read(struct asked *asked, struct aw_diag *diag)
{
    const char *from = aw_args_text(asked->run->args, "from");
    struct aw_profile_report report = {.take = finding_print};
    struct stat is;
    enum aw_err err = AW_OK;
    snprintf(asked->store, sizeof asked->store, "%s", from);
    if (stat(from, &is) == 0 && S_ISDIR(is.st_mode)) {
        snprintf(asked->store, sizeof asked->store, "%s/trajectories.db", from);
        snprintf(asked->journal, sizeof asked->journal, "%s/decisions.db", from);
        if (!exists(asked->journal))
            asked->journal[0] = '\0';
        if (!exists(asked->store))
            return aw_fail_at(diag, AW_ERR_NOTFOUND, from, 0, 0, NULL,
                              "no trajectories.db in it; run with a store on disk, or name one");
    } else if (!strstr(from, "://") && !exists(from)) {
        return aw_fail_at(diag, AW_ERR_NOTFOUND, from, 0, 0, NULL,
                          "no such store and no such directory");
    }
    for (uint32_t i = 0; !err && i < asked->run->args->word_count; i++)
        err =
            aw_profile_set_read(&asked->set, asked->run->args->words[i], &report, NULL, NULL, diag);
    if (!err && asked->run->args->word_count > 0)
        err = aw_profile_set_check(&asked->set, &report, diag);
    if (!err && asked->set.profile_count == 0 && !asked->journal[0])
        err = aw_fail(diag, AW_ERR_USAGE,
                      "bounds, SLO and prices are needed: name the FILEs of the autoscalers, or a "
                      "--from directory that a daemon has kept decisions in");
    return err;
}

/* What the workload was run with: the files, else the last decision that was kept. */
static enum aw_err config_of(const struct asked *asked, const char *name,
                             struct aw_pilot_config *ret, struct aw_diag *diag)
{
    struct aw_fallback_task task;
    for (uint32_t i = 0; i < asked->set.profile_count; i++) {
        char key[AW_PROFILE_KEY_MAX];
        if (!strcmp(aw_profile_key(&asked->set.profiles[i], key, sizeof key), name)) {
            aw_pilot_config_of(ret, &asked->set.profiles[i], true);
            return AW_OK;
        }
    }
    struct aw_journal *journal = NULL;
    struct aw_journal_entry entry = {0};
    enum aw_err err = asked->journal[0] ? aw_journal_open(&journal, asked->journal, true, 0, diag)
                                        : AW_ERR_NOTFOUND;
    err = err ? err : aw_journal_latest(journal, name, INT64_MAX, &entry, diag);
    err = err ? err : aw_explanation_config_read(entry.config, ret, &task, diag);
    aw_journal_entry_deinit(&entry);
    aw_journal_close(journal);
    return err == AW_ERR_NOTFOUND
               ? aw_fail(diag, AW_ERR_NOTFOUND,
                         "no file names %s and no decision of it is kept: its bounds and SLO are "
                         "not known",
                         name)
               : err;
}

static bool has_key(const struct aw_conf_field *table, const char *key, size_t len)
{
    for (; table->key; table++) {
        if (strlen(table->key) == len && !strncmp(table->key, key, len))
            return true;
    }
    return false;
}

/* --set: of the policy, else of the rails. */
static enum aw_err settings_apply(const struct aw_args *args, struct aw_fallback_settings *policy,
                                  struct aw_guard_settings *guard, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < args->repeat_count; i++) {
        const char *pair = args->repeat[i];
        const size_t len = strcspn(pair, "=");
        if (pair[len] != '=')
            err = aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--set",
                             "expected key=value, found %s", AW_QUOTE(pair));
        else if ((len == 4 && !strncmp(pair, "kind", 4)) || (len == 4 && !strncmp(pair, "mode", 4)))
            err = aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--set",
                             "%.4s is not a setting of a replay; --policy says who decides", pair);
        else if (has_key(aw_fallback_fields, pair, len))
            err = aw_conf_set_pair(aw_fallback_fields, policy, pair, diag);
        else
            err = aw_conf_set_pair(aw_guard_fields, guard, pair, diag);
    }
    return err;
}

/* --- one workload ----------------------------------------------------------------------------- */

struct rows {
    const struct aw_pilot_config *config;
    struct aw_counterfactual_step *step;
    uint32_t count, capacity;
};

static enum aw_err row_take(void *ctx, const struct aw_store_row *row)
{
    struct rows *rows = ctx;
    if (rows->count == AW_COUNTERFACTUAL_STEPS_MAX)
        return AW_ERR_LIMIT;
    if (rows->count == rows->capacity) {
        const uint32_t capacity = rows->capacity ? 2 * rows->capacity : 4096;
        struct aw_counterfactual_step *grown = realloc(rows->step, capacity * sizeof *grown);
        if (!grown)
            return AW_ERR_NOMEM;
        rows->step = grown;
        rows->capacity = capacity;
    }
    aw_counterfactual_step_of(rows->config, row, &rows->step[rows->count++]);
    return AW_OK;
}

struct played {
    char name[32];
    struct aw_counterfactual_result result;
    uint32_t differs; /* scored steps in which it cost a tenth more or less */
    uint32_t most;    /* step of the largest difference of cost */
    struct aw_counterfactual_point there, recorded;
    struct aw_capacity_rule rule;
};

struct replay {
    char name[AW_STORE_NAME_MAX];
    struct aw_pilot_config config;
    struct rows rows;
    struct aw_counterfactual_result recorded;
    struct played played[POLICIES_MAX];
    uint32_t count, copies, score_from;
    double measured_cost, measured_share; /* of the scored steps, as they were measured */
};

static void compare(struct replay *replay, struct played *played,
                    const struct aw_counterfactual_point *theirs,
                    const struct aw_counterfactual_point *ours)
{
    double most = -1;
    const uint32_t first = replay->rows.count - played->result.scored;
    for (uint32_t t = first; t < replay->rows.count; t++) {
        const struct aw_counterfactual_point *a = &theirs[t], *b = &ours[t];
        const double by = fabs(a->cost_per_hour - b->cost_per_hour);
        played->differs += by > DIFFERS * fmax(a->cost_per_hour, b->cost_per_hour);
        if (by > most) {
            most = by;
            played->most = t;
            played->there = *a;
            played->recorded = *b;
        }
    }
}

static enum aw_err policy_play(const struct asked *asked, struct replay *replay,
                               struct aw_counterfactual *counterfactual, const char *name,
                               const struct aw_counterfactual_point *ours,
                               struct aw_counterfactual_point *theirs, struct aw_diag *diag)
{
    struct played *played = &replay->played[replay->count];
    struct aw_fallback_settings policy = replay->config.fallback;
    struct aw_guard_settings guard = replay->config.guard;
    struct aw_counterfactual_player player = {.policy = &policy, .guard = &guard};
    enum aw_err err = settings_apply(asked->run->args, &policy, &guard, diag);
    snprintf(played->name, sizeof played->name, "%s", name);
    player.kind = AW_COUNTERFACTUAL_POLICY;
    if (!err && !strcmp(name, FORMULA)) {
        player.kind = AW_COUNTERFACTUAL_CAPACITY_RULE;
        player.rule = &played->rule;
        err = aw_counterfactual_search(counterfactual, &played->rule, diag);
    } else {
        for (uint32_t i = 0; i < AW_FALLBACK_COUNT; i++)
            policy.kind = strcmp(aw_fallback_names[i], name) ? policy.kind : i;
    }
    err =
        err ? err : aw_counterfactual_play(counterfactual, &player, theirs, &played->result, diag);
    if (err)
        return err;
    compare(replay, played, theirs, ours);
    replay->count++;
    return AW_OK;
}

static void measure(struct replay *replay)
{
    const uint32_t scored = replay->recorded.scored, first = replay->rows.count - scored;
    double cost = 0;
    uint32_t missed = 0, told = 0;
    for (uint32_t t = first; t < replay->rows.count; t++) {
        const struct aw_counterfactual_step *step = &replay->rows.step[t];
        missed += step->violated;
        if (isnan(step->cost))
            continue;
        cost += step->cost;
        told++;
    }
    replay->measured_cost = told ? cost * 3600 / (told * replay->config.step_s) : (double)NAN;
    replay->measured_share = (double)missed / scored;
}

static enum aw_err workload_replay(const struct asked *asked, struct aw_store *store,
                                   struct replay *replay, struct aw_diag *diag)
{
    struct aw_counterfactual *counterfactual = NULL;
    struct aw_counterfactual_point *ours = NULL, *theirs = NULL;
    struct aw_store_query query = AW_STORE_EVERY;
    enum aw_err err = config_of(asked, replay->name, &replay->config, diag);
    if (err)
        return err;
    query.workload = replay->name;
    query.from_us = asked->from_us;
    replay->rows.config = &replay->config;
    err = aw_store_scan(store, &query, row_take, &replay->rows, diag);
    if (err)
        return err;
    replay->copies = (uint32_t)aw_args_number(asked->run->args, "copies");
    replay->score_from = asked->rule ? replay->rows.count / 2 : 0;
    const struct aw_counterfactual_config config = {
        .pilot = &replay->config,
        .copies = replay->copies,
        .score_from = replay->score_from,
        .seed = aw_args_number(asked->run->args, "seed"),
    };
    err = aw_counterfactual_new(&config, replay->rows.step, replay->rows.count, NULL,
                                &counterfactual, diag);
    if (!err && (!(ours = calloc(replay->rows.count, sizeof *ours)) ||
                 !(theirs = calloc(replay->rows.count, sizeof *theirs))))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u steps", replay->rows.count);
    const struct aw_counterfactual_player recorded = {.kind = AW_COUNTERFACTUAL_RECORDED};
    err = err ? err
              : aw_counterfactual_play(counterfactual, &recorded, ours, &replay->recorded, diag);
    if (!err)
        measure(replay);
    for (uint32_t i = 0; !err && i < asked->count; i++)
        err = policy_play(asked, replay, counterfactual, asked->names[i], ours, theirs, diag);
    aw_counterfactual_free(counterfactual);
    free(ours);
    free(theirs);
    return err;
}

/* --- told ------------------------------------------------------------------------------------- */

/* clang-format off */
static const struct aw_grid_column columns[] = {
    {"  POLICY",   false, 0, false, 0},
    {"COST/H",     true,  0, false, 0},
    {"VS",         true,  0, false, 0},
    {"MISSED",     true,  0, false, 0},
    {"REPLICAS",   true,  3, false, 0},
    {"CORES",      true,  3, false, 0},
    {"GIB",        true,  3, false, 0},
    {"SCALINGS",   true,  2, false, 0},
    {"RESIZES",    true,  2, false, 0},
    {"DIFFERS",    true,  1, false, 0},
    {NULL,         false, 0, false, 0},
};
/* clang-format on */

static void result_add(struct aw_grid *grid, const char *name,
                       const struct aw_counterfactual_result *r, const struct replay *replay,
                       const struct played *played)
{
    char a[AW_SHOW_MAX];
    const bool over =
        r->violation_share > replay->config.slo_budget && replay->config.slo.latency_us_p99 > 0;
    aw_grid_add(grid, AW_TONE_PLAIN, "  %s", name);
    aw_grid_add(grid, AW_TONE_PLAIN, "%s", aw_show_money(r->cost_per_hour, a, sizeof a));
    aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                played
                    ? aw_show_change(r->cost_per_hour, replay->recorded.cost_per_hour, a, sizeof a)
                    : "");
    aw_grid_add(grid, over ? AW_TONE_BAD : AW_TONE_PLAIN, "%s",
                aw_show_percent(r->violation_share, a, sizeof a));
    aw_grid_add(grid, AW_TONE_PLAIN, "%.1f", r->replicas);
    aw_grid_add(grid, AW_TONE_PLAIN, "%.2f", r->cores);
    aw_grid_add(grid, AW_TONE_PLAIN, "%.2f", r->gib);
    aw_grid_add(grid, AW_TONE_PLAIN, "%u", r->replica_changes);
    aw_grid_add(grid, AW_TONE_PLAIN, "%u", r->size_changes);
    aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                played ? aw_show_percent((double)played->differs / r->scored, a, sizeof a) : "");
}

static void sentence(const char *fmt, ...) AW_PRINTF(1, 2);
static void sentence(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fputs("  ", stdout);
    aw_wrap(stdout, text, 2, 2, aw_columns(stdout));
}

static void difference_print(const struct replay *replay, const struct played *played)
{
    char when[AW_SHOW_MAX], plan[AW_PLAN_MAX];
    json_t *from = json_pack("{s:I,s:I,s:I}", "replicas", (json_int_t)played->recorded.replicas,
                             "cpu_millicores", (json_int_t)played->recorded.cpu_millicores,
                             "memory_bytes", (json_int_t)played->recorded.memory_bytes);
    json_t *to = json_pack("{s:I,s:I,s:I}", "replicas", (json_int_t)played->there.replicas,
                           "cpu_millicores", (json_int_t)played->there.cpu_millicores,
                           "memory_bytes", (json_int_t)played->there.memory_bytes);
    if (played->differs > 0)
        sentence("%s is furthest from what was recorded at %s: %s.", played->name,
                 aw_time_show_us(replay->rows.step[played->most].at_us, when, sizeof when),
                 aw_plan_show(from, to, plan, sizeof plan));
    json_decref(from);
    json_decref(to);
    if (played->result.oom_kills > 0)
        sentence("%s: replicas are killed %u times for want of memory.", played->name,
                 played->result.oom_kills);
    if (played->result.beyond * 20 > played->result.scored)
        sentence(
            "%s spends %.0f %% of the steps at sizes that were never tried: its score there is "
            "a guess.",
            played->name, 100.0 * played->result.beyond / played->result.scored);
}

static enum aw_err replay_print(const struct aw_call *run, const struct replay *replay,
                                struct aw_diag *diag)
{
    const struct aw_counterfactual_step *first =
        &replay->rows.step[replay->rows.count - replay->recorded.scored];
    const struct aw_counterfactual_step *last = &replay->rows.step[replay->rows.count - 1];
    char from[AW_SHOW_MAX], until[AW_SHOW_MAX], cost[AW_SHOW_MAX], share[AW_SHOW_MAX],
        off[AW_SHOW_MAX], low[AW_SHOW_MAX], high[AW_SHOW_MAX];
    struct aw_grid grid;
    printf("%s%s%s: %u steps, %s to %s\n", run->color_out ? "\033[1m" : "",
           aw_rows_name(replay->name), run->color_out ? "\033[0m" : "", replay->recorded.scored,
           aw_time_show_us(first->at_us, from, sizeof from),
           aw_time_show_us(last->at_us, until, sizeof until));
    sentence("Measured: %s an hour, %s of the steps missed the SLO (%s may).",
             aw_show_money(replay->measured_cost, cost, sizeof cost),
             aw_show_percent(replay->measured_share, share, sizeof share),
             aw_show_percent(replay->config.slo_budget, low, sizeof low));
    sentence("On %u cop%s of the workload, fitted to this record; given the recorded sizes and "
             "load, their p99 is off by %s (median).",
             replay->copies, replay->copies == 1 ? "y" : "ies",
             aw_show_percent(expm1(replay->recorded.off), off, sizeof off));
    putchar('\n');
    aw_grid_init(&grid, columns);
    result_add(&grid, "recorded", &replay->recorded, replay, NULL);
    for (uint32_t i = 0; i < replay->count; i++)
        result_add(&grid, replay->played[i].name, &replay->played[i].result, replay,
                   &replay->played[i]);
    const struct aw_grid_look look = {.width = isatty(STDOUT_FILENO) ? aw_columns(stdout) : 0,
                                      .heads = true,
                                      .color = run->color_out,
                                      .end = "\n"};
    enum aw_err err = aw_grid_print(&grid, stdout, &look, diag);
    if (err)
        return err;
    putchar('\n');
    for (uint32_t i = 0; i < replay->count; i++) {
        const struct aw_counterfactual_result *r = &replay->played[i].result;
        if (replay->copies > 1)
            sentence("%s: %s to %s an hour and %.1f to %.1f %% missed, from copy to copy.",
                     replay->played[i].name, aw_show_money(r->cost_low, low, sizeof low),
                     aw_show_money(r->cost_high, high, sizeof high), 100 * r->share_low,
                     100 * r->share_high);
        difference_print(replay, &replay->played[i]);
    }
    if (replay->score_from)
        sentence("The formula's numbers were sought on the first half; all are scored on the "
                 "second.");
    return AW_OK;
}

static json_t *result_json(const char *name, const struct aw_counterfactual_result *r,
                           const struct played *played)
{
    json_t *object = json_object();
    json_object_set_new(object, "policy", json_string(name));
    json_object_set_new(object, "cost_per_hour", aw_json_real(r->cost_per_hour));
    json_object_set_new(object, "cost_per_hour_low", aw_json_real(r->cost_low));
    json_object_set_new(object, "cost_per_hour_high", aw_json_real(r->cost_high));
    json_object_set_new(object, "missed_share", aw_json_real(r->violation_share));
    json_object_set_new(object, "missed_share_low", aw_json_real(r->share_low));
    json_object_set_new(object, "missed_share_high", aw_json_real(r->share_high));
    json_object_set_new(object, "replicas", aw_json_real(r->replicas));
    json_object_set_new(object, "cores", aw_json_real(r->cores));
    json_object_set_new(object, "gib", aw_json_real(r->gib));
    json_object_set_new(object, "replica_changes", json_integer(r->replica_changes));
    json_object_set_new(object, "size_changes", json_integer(r->size_changes));
    json_object_set_new(object, "oom_kills", json_integer(r->oom_kills));
    json_object_set_new(object, "steps_at_new_sizes", json_integer(r->beyond));
    if (played)
        json_object_set_new(object, "steps_that_differ", json_integer(played->differs));
    return object;
}

static json_t *replay_json(const struct replay *replay)
{
    char at[AW_SHOW_MAX];
    const uint32_t first = replay->rows.count - replay->recorded.scored;
    json_t *object = json_object(), *policies = json_array();
    json_object_set_new(object, "workload", json_string(replay->name));
    json_object_set_new(object, "steps", json_integer(replay->recorded.scored));
    json_object_set_new(object, "from",
                        json_string(aw_time_write(replay->rows.step[first].at_us, at, sizeof at)));
    json_object_set_new(
        object, "until",
        json_string(aw_time_write(replay->rows.step[replay->rows.count - 1].at_us, at, sizeof at)));
    json_object_set_new(object, "slo_budget", aw_json_real(replay->config.slo_budget));
    json_object_set_new(object, "measured_cost_per_hour", aw_json_real(replay->measured_cost));
    json_object_set_new(object, "measured_missed_share", aw_json_real(replay->measured_share));
    json_object_set_new(object, "copies", json_integer(replay->copies));
    json_object_set_new(object, "copy_p99_error", aw_json_real(expm1(replay->recorded.off)));
    json_array_append_new(policies, result_json("recorded", &replay->recorded, NULL));
    for (uint32_t i = 0; i < replay->count; i++)
        json_array_append_new(policies, result_json(replay->played[i].name,
                                                    &replay->played[i].result, &replay->played[i]));
    json_object_set_new(object, "policies", policies);
    return object;
}

/* --- the verb --------------------------------------------------------------------------------- */

struct names {
    char name[WORKLOADS_MAX][AW_STORE_NAME_MAX];
    uint32_t count;
    const char *wanted; /* NULL: all */
};

static enum aw_err name_take(void *ctx, const char *workload, const struct aw_store_counts *counts)
{
    struct names *names = ctx;
    (void)counts;
    if (names->wanted && strcmp(names->wanted, workload) != 0 &&
        strcmp(names->wanted, aw_rows_name(workload)) != 0)
        return AW_OK;
    if (names->count < WORKLOADS_MAX)
        snprintf(names->name[names->count++], AW_STORE_NAME_MAX, "%s", workload);
    return AW_OK;
}

static enum aw_err each_replay(const struct asked *asked, struct aw_store *store,
                               const struct names *names, struct aw_diag *diag)
{
    json_t *all = json_array();
    struct replay *replay = malloc(sizeof *replay);
    enum aw_err err = replay ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for a replay");
    uint32_t told = 0;
    for (uint32_t i = 0; !err && i < names->count; i++) {
        struct aw_diag why = {0};
        *replay = (struct replay){.count = 0};
        snprintf(replay->name, sizeof replay->name, "%s", names->name[i]);
        err = workload_replay(asked, store, replay, &why);
        /* one of many that cannot be replayed is said, and the others are */
        if (names->count > 1 && (err == AW_ERR_NODATA || err == AW_ERR_NOTFOUND)) {
            fprintf(stderr, "aware: %s: %s\n", names->name[i], why.text);
            err = AW_OK;
        } else if (err && diag) {
            *diag = why;
        } else if (asked->run->json) {
            json_array_append_new(all, replay_json(replay));
        } else {
            fputs(told++ ? "\n" : "", stdout);
            err = replay_print(asked->run, replay, diag);
        }
        free(replay->rows.step);
    }
    free(replay);
    if (err || !asked->run->json) {
        json_decref(all);
        return err;
    }
    json_t *document = json_object();
    json_object_set_new(document, "v", json_integer(1));
    json_object_set_new(document, "workloads", all);
    return aw_json_print(document, diag);
}

static enum aw_err replay_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct asked asked = {.run = run, .from_us = INT64_MIN};
    struct aw_store store = {0};
    struct aw_store_options options = {.read_only = true};
    const char *since = aw_args_text(run->args, "since");
    struct names *names = calloc(1, sizeof *names);
    struct aw_fallback_settings policy;
    struct aw_guard_settings guard;
    if (!names)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a replay");
    aw_profile_set_init(&asked.set, NULL);
    aw_conf_defaults(aw_fallback_fields, &policy);
    aw_conf_defaults(aw_guard_fields, &guard);
    enum aw_err err = policies_read(&asked, diag);
    err = err ? err : settings_apply(run->args, &policy, &guard, diag);
    if (!err && since && aw_time_read(since, &asked.from_us))
        err = aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--since",
                         "expected a time such as 2026-11-16T02:00:00Z, found %s", AW_QUOTE(since));
    err = err ? err : places_read(&asked, diag);
    err = err ? err : aw_store_open(&store, asked.store, &options, NULL, diag);
    names->wanted = aw_args_text(run->args, "workload");
    err = err ? err : aw_store_workloads(&store, name_take, names, diag);
    if (!err && names->count == 0)
        err = names->wanted ? aw_fail(diag, AW_ERR_NOTFOUND, "%s has no workload %s", asked.store,
                                      AW_QUOTE(names->wanted))
                            : aw_fail(diag, AW_ERR_NODATA, "%s is empty", asked.store);
    err = err ? err : each_replay(&asked, &store, names, diag);
    aw_store_close(&store);
    aw_profile_set_deinit(&asked.set);
    free(names);
    return err;
}

static const struct aw_conf_field *const tables[] = {aw_fallback_fields, aw_guard_fields, NULL};
static const struct aw_option options_of_replay[] = {
    AW_OPTION(FILE, "from", 0, "STORE", AW__CLIENT_STATE,
              "directory of a daemon, or a store of trajectories"),
    AW_OPTION(TEXT, "workload", 'w', "NAME", NULL, "only this one (default: all in the store)"),
    AW_OPTION(TEXT, "policy", 'p', "NAME,...", NULL,
              "who is to be played: static, hpa, vpa, hpa+vpa, hpa+vpa-mem, aimd, constant or "
              "formula; several with commas between",
              .required = true),
    AW_OPTION(SETTING, "set", 0, "KEY=VALUE", NULL,
              "a setting of the policy or of the rails, other than recorded", .repeated = true),
    AW_OPTION(TEXT, "since", 0, "TIME", NULL, "only steps from then on, e.g. 2026-11-16T02:00:00Z"),
    AW_NUMBER("copies", 0, "N", "3", 1, AW_COUNTERFACTUAL_COPIES_MAX,
              "copies of the workload, each believing the record a little differently"),
    AW_OPTION_SEED("1", "chance of the copies"),
    {.name = NULL},
};
static const struct aw_positional positionals[] = {
    {.name = "FILE",
     .kind = AW_ARG_FILE,
     .help = "autoscalers of the workloads: bounds, SLO, prices, rails (default: as the daemon's "
             "last decisions had them)",
     .optional = true,
     .repeated = true},
    {.name = NULL},
};
static const struct aw_example examples[] = {
    {"aware replay --policy hpa+vpa-mem", "the controllers one has, on the daemon's own days"},
    {"aware replay --policy hpa --set hpa_target=60 -w shop/cart", "another setting of one"},
    {"aware replay --from trajectories.db --policy hpa,formula shop.yaml", "from a store"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_replay = {
    .name = "replay",
    .summary = "Score what another policy or setting would have done on recorded days",
    .text = "From the recorded load, latency, use and sizes come copies of each workload on the "
            "simulated cluster. What was recorded and every policy asked about are played on them "
            "under the recorded load, behind the same guard rails, and scored alike: cost, steps "
            "that missed the SLO, how often something changed. What the copies get wrong is wrong "
            "of all of them; how far they are off is told.",
    .options = options_of_replay,
    .positionals = positionals,
    .examples = examples,
    .json = true,
    .settings = tables,
    .run = replay_run,
};
