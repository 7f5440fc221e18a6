/* api_series.c - what has lately happened, as columns of numbers: plots and tables are made of it.
 */
#include "web/api_internal.h"

#include "base/text.h"
#include "web/reports.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- columns ---------------------------------------------------------------------------------- */

static void put_real(FILE *out, double value)
{
    char text[AW_TEXT_REAL_MAX];
    if (isfinite(value))
        fputs(aw_text_real_f32((float)value, text, sizeof text), out);
    else
        fputs("null", out);
}

static void put_text(FILE *out, const char *text)
{
    json_t *string = json_string(text);
    char *dump = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    fputs(dump ? dump : "null", out);
    free(dump);
    json_decref(string);
}

static void put_names(FILE *out, const char *key, const char *(*name)(uint32_t), uint32_t count)
{
    fprintf(out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s\"%s\"", i ? "," : "", name(i));
    putc(']', out);
}

static const char *clip_name(uint32_t clip)
{
    return aw_clip_name((enum aw_clip)clip);
}

static const char *outcome_name(uint32_t outcome)
{
    return aw_recent_outcome_names[outcome];
}

/* A column of `count` values of `expr` in terms of i. */
#define COLUMN(out, key, count, put, expr)       \
    do {                                         \
        fprintf((out), ",\"%s\":[", (key));      \
        for (uint32_t i = 0; i < (count); i++) { \
            if (i)                               \
                putc(',', (out));                \
            put((out), (expr));                  \
        }                                        \
        putc(']', (out));                        \
    } while (0)

static void put_seconds(FILE *out, int64_t us)
{
    fprintf(out, "%" PRId64 ".%06" PRId64, us / 1000000, us % 1000000);
}

static void put_count(FILE *out, uint64_t value)
{
    fprintf(out, "%" PRIu64, value);
}

static void put_model(FILE *out, uint64_t model)
{
    if (model)
        fprintf(out, "\"%016" PRIx64 "\"", model);
    else
        fputs("null", out);
}

static bool has(uint8_t flags, enum aw_recent_flag flag)
{
    return (flags & flag) != 0;
}

/* What was done and what the twin did, over the same steps; null: there is no twin. */
static void put_beside(FILE *out, const struct aw_recent_beside *beside)
{
    if (!beside->steps) {
        fputs(",\"beside_twin\":null", out);
        return;
    }
    fprintf(out,
            ",\"beside_twin\":{\"steps\":%" PRIu64 ",\"missed_steps\":%" PRIu64
            ",\"twin_missed_steps\":%" PRIu64 ",\"cost\":",
            beside->steps, beside->missed, beside->twin_missed);
    put_real(out, beside->cost);
    fputs(",\"twin_cost\":", out);
    put_real(out, beside->twin_cost);
    fputs(",\"reward\":", out);
    put_real(out, beside->reward / (double)beside->steps);
    fputs(",\"twin_reward\":", out);
    put_real(out, beside->twin_reward / (double)beside->steps);
    putc('}', out);
}

/* How often replicas were changed, and how often that was soon taken back. */
static void put_changes(FILE *out, const struct aw_recent *watch, const struct aw_recent_one *one)
{
    uint64_t back;
    fputs(",\"replica_changes_per_day\":", out);
    put_real(out, aw_recent_changes(watch, one, &back));
    fprintf(out, ",\"replicas_removed_within_5m\":%" PRIu64, back);
}

/* --- one workload ----------------------------------------------------------------------------- */

/* The name that the path stands for, in full. */
static enum aw_err name_of(struct aw__api_call *call, char *name, size_t size, struct aw_diag *diag)
{
    struct aw_desk *desk = call->api->config.desk;
    struct aw_desk_view view;
    aw_desk_lock(desk);
    const enum aw_err err = aw__api_find(call, &view, diag);
    if (!err)
        snprintf(name, size, "%s", view.name);
    aw_desk_unlock(desk);
    return err;
}

#define P(i) aw_recent_point(watch, one, first + (i))

static void put_points(FILE *out, const struct aw_recent *watch, const struct aw_recent_one *one,
                       uint32_t first, uint32_t count)
{
    COLUMN(out, "at", count, put_seconds, P(i)->at_us);
    COLUMN(out, "arrivals_per_s", count, put_real, P(i)->arrivals_per_s);
    COLUMN(out, "latency_us", count, put_real, P(i)->latency_us);
    COLUMN(out, "cpu_used", count, put_real, P(i)->cpu_used);
    COLUMN(out, "memory_used", count, put_real, P(i)->memory_used);
    COLUMN(out, "cpu_millicores", count, put_real, P(i)->cpu_millicores);
    COLUMN(out, "memory_bytes", count, put_real, P(i)->memory_bytes);
    COLUMN(out, "ready", count, put_count, P(i)->ready);
    COLUMN(out, "wanted", count, put_count, P(i)->wanted);
    COLUMN(out, "cost_per_hour", count, put_real, P(i)->cost_per_hour);
    COLUMN(out, "fallback_cost_per_hour", count, put_real, P(i)->fallback_cost_per_hour);
    COLUMN(out, "fallback_replicas", count, put_count, P(i)->fallback_replicas);
    COLUMN(out, "reward", count, put_real, P(i)->reward);
    COLUMN(out, "missed", count, put_count, has(P(i)->flags, AW_RECENT_MISSED));
    COLUMN(out, "twin_latency_us", count, put_real, P(i)->twin_latency_us);
    COLUMN(out, "twin_reward", count, put_real, P(i)->twin_reward);
    COLUMN(out, "twin_cost_per_hour", count, put_real, P(i)->twin_cost_per_hour);
    COLUMN(out, "twin_replicas", count, put_real,
           has(P(i)->flags, AW_RECENT_TWIN) ? P(i)->twin_replicas : NAN);
    COLUMN(out, "stage", count, put_count, P(i)->stage);
    COLUMN(out, "actor", count, put_count, P(i)->actor);
    COLUMN(out, "outcome", count, put_count, P(i)->outcome);
    COLUMN(out, "held_by", count, put_count, P(i)->clips);
    COLUMN(out, "tripped", count, put_count, has(P(i)->flags, AW_RECENT_TRIPPED));
    put_names(out, "stages", aw_stage_name, AW_STAGE_COUNT);
    put_names(out, "actors", aw_actor_name, AW_ACTOR_COUNT);
    put_names(out, "outcomes", outcome_name, AW_RECENT_OUTCOME_COUNT);
    put_names(out, "rails", clip_name, AW_CLIP_COUNT);
}
#undef P

/* How many of the newest points are asked for. */
static enum aw_err asked_for(struct aw__api_call *call, uint32_t max, uint32_t *ret_limit,
                             int64_t *ret_since_us, struct aw_diag *diag)
{
    const enum aw_err err = aw__api_limit(call, max, max, ret_limit, diag);
    return err ? err : aw__api_since(call, ret_since_us, diag);
}

enum aw_err aw__api_get_series(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_recent *watch = &call->api->watch;
    char name[AW_STORE_NAME_MAX] = "";
    uint32_t limit;
    int64_t since;
    enum aw_err err = asked_for(call, AW_RECENT_POINTS_MAX, &limit, &since, diag);
    err = err ? err : name_of(call, name, sizeof name, diag);
    if (err)
        return err;
    FILE *out = call->out;
    aw_recent_lock(watch);
    const struct aw_recent_one none = {.slo_latency_us = NAN, .slo_budget = NAN};
    const struct aw_recent_one *found = aw_recent_find(watch, name), *one = found ? found : &none;
    const uint32_t kept = aw_recent_points(watch, one);
    uint32_t first = kept > limit ? kept - limit : 0;
    while (first < kept && aw_recent_point(watch, one, first)->at_us <= since)
        first++;
    fputs("{\"workload\":", out);
    put_text(out, name);
    fputs(",\"step_s\":", out);
    put_real(out, watch->step_s);
    fprintf(out, ",\"points_max\":%" PRIu32 ",\"slo_latency_us\":", watch->points_max);
    put_real(out, one->slo_latency_us);
    fputs(",\"slo_budget\":", out);
    put_real(out, one->slo_budget);
    fprintf(out, ",\"since_start\":{\"steps\":%" PRIu64 ",\"missed_steps\":%" PRIu64 ",\"cost\":",
            one->steps, one->missed);
    put_real(out, one->cost);
    put_beside(out, &one->beside);
    put_changes(out, watch, one);
    putc('}', out);
    put_points(out, watch, one, first, kept - first);
    fputs("}\n", out);
    aw_recent_unlock(watch);
    return AW_OK;
}

#define E(i) aw_recent_episode(watch, one, first + (i))

enum aw_err aw__api_get_episodes(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_recent *watch = &call->api->watch;
    char name[AW_STORE_NAME_MAX] = "";
    uint32_t limit;
    int64_t since;
    enum aw_err err = asked_for(call, AW_RECENT_EPISODES_MAX, &limit, &since, diag);
    err = err ? err : name_of(call, name, sizeof name, diag);
    if (err)
        return err;
    FILE *out = call->out;
    aw_recent_lock(watch);
    const struct aw_recent_one none = {0};
    const struct aw_recent_one *found = aw_recent_find(watch, name), *one = found ? found : &none;
    const uint32_t kept = aw_recent_episodes(watch, one);
    uint32_t first = kept > limit ? kept - limit : 0;
    while (first < kept && E(0)->end_us <= since)
        first++;
    const uint32_t count = kept - first;
    fputs("{\"workload\":", out);
    put_text(out, name);
    fprintf(out, ",\"learns_now\":%s", one->learns_now ? "true" : "false");
    fprintf(out, ",\"learning\":%s,\"agent\":\"%s\",\"model_changes\":%" PRIu64,
            one->learning ? "true" : "false", aw_policy_names[one->agent], one->model_changes);
    fprintf(out, ",\"open\":{\"number\":%" PRIu32 ",\"steps\":%" PRIu32 "}", one->open.number,
            one->open.steps);
    COLUMN(out, "at", count, put_seconds, E(i)->end_us);
    COLUMN(out, "number", count, put_count, E(i)->number);
    COLUMN(out, "steps", count, put_count, E(i)->steps);
    COLUMN(out, "missed", count, put_count, E(i)->missed);
    COLUMN(out, "agent_steps", count, put_count, E(i)->agent_steps);
    COLUMN(out, "reward", count, put_real, E(i)->reward);
    COLUMN(out, "cost", count, put_real, E(i)->cost);
    COLUMN(out, "twin_missed", count, put_real, E(i)->twin_steps ? E(i)->twin_missed : NAN);
    COLUMN(out, "twin_reward", count, put_real, E(i)->twin_steps ? E(i)->twin_reward : NAN);
    COLUMN(out, "twin_cost", count, put_real, E(i)->twin_steps ? E(i)->twin_cost : NAN);
    COLUMN(out, "estimate", count, put_real, E(i)->estimate);
    COLUMN(out, "estimate_low", count, put_real, E(i)->low);
    COLUMN(out, "estimate_high", count, put_real, E(i)->high);
    COLUMN(out, "judged_mean", count, put_real, E(i)->judged);
    COLUMN(out, "judged_deviation", count, put_real, E(i)->judged_deviation);
    COLUMN(out, "threshold", count, put_real, E(i)->threshold);
    COLUMN(out, "slo_weight", count, put_real, E(i)->lambda);
    COLUMN(out, "critic_loss", count, put_real, E(i)->critic_loss);
    COLUMN(out, "imitation_loss", count, put_real, E(i)->imitation_loss);
    COLUMN(out, "copy_error", count, put_real, E(i)->copy_error);
    COLUMN(out, "rounds", count, put_count, E(i)->rounds);
    COLUMN(out, "stage", count, put_count, E(i)->stage);
    COLUMN(out, "model", count, put_model, E(i)->policy_id);
    put_names(out, "stages", aw_stage_name, AW_STAGE_COUNT);
    fputs("}\n", out);
    aw_recent_unlock(watch);
    return AW_OK;
}
#undef E

/* --- all of them ------------------------------------------------------------------------------ */

#define F(i) aw_recent_fleet(watch, first + (i))

enum aw_err aw__api_get_fleet(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_recent *watch = &call->api->watch;
    uint32_t limit;
    int64_t since;
    const enum aw_err err = asked_for(call, AW_RECENT_FLEET_MAX, &limit, &since, diag);
    if (err)
        return err;
    FILE *out = call->out;
    aw_recent_lock(watch);
    const uint32_t kept = aw_recent_fleets(watch);
    uint32_t first = kept > limit ? kept - limit : 0;
    while (first < kept && F(0)->at_us <= since)
        first++;
    const uint32_t count = kept - first;
    fputs("{\"step_s\":", out);
    put_real(out, watch->step_s);
    COLUMN(out, "at", count, put_seconds, F(i)->at_us);
    COLUMN(out, "workloads", count, put_count, F(i)->total);
    COLUMN(out, "missing_slo", count, put_count, F(i)->missing);
    COLUMN(out, "twin_missing_slo", count, put_real, F(i)->with_twin ? F(i)->twin_missing : NAN);
    COLUMN(out, "frozen", count, put_count, F(i)->frozen);
    COLUMN(out, "held_by_watchdog", count, put_count, F(i)->held);
    COLUMN(out, "changes", count, put_count, F(i)->changes);
    COLUMN(out, "pending", count, put_count, F(i)->pending);
    COLUMN(out, "cost_per_hour", count, put_real, F(i)->cost_per_hour);
    COLUMN(out, "fallback_cost_per_hour", count, put_real, F(i)->fallback_cost_per_hour);
    COLUMN(out, "twin_cost_per_hour", count, put_real, F(i)->twin_cost_per_hour);
    COLUMN(out, "arrivals_per_s", count, put_real, F(i)->arrivals_per_s);
    COLUMN(out, "cpu_used", count, put_real, F(i)->cpu_used);
    COLUMN(out, "memory_used", count, put_real, F(i)->memory_used);
    for (uint32_t s = 0; s < AW_STAGE_COUNT; s++)
        COLUMN(out, aw_stage_name(s), count, put_count, F(i)->stage[s]);
    fputs("}\n", out);
    aw_recent_unlock(watch);
    return AW_OK;
}
#undef F

struct totals {
    uint64_t steps, missed;
    double cost;
    struct aw_recent_beside beside;
};

static void totals_of(const struct aw_recent *watch, struct totals *ret)
{
    *ret = (struct totals){0};
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct aw_recent_one *one = &watch->one[i];
        if (!one->seen)
            continue;
        ret->steps += one->steps;
        ret->missed += one->missed;
        ret->cost += one->cost;
    }
    aw_recent_beside(watch, &ret->beside);
}

/* Those of the last tick that have decided something, by index into `one`. */
static uint32_t rows_of(const struct aw_recent *watch, uint32_t *rows)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->one[i].seen)
            rows[count++] = i;
    return count;
}

static void put_bool(FILE *out, bool value)
{
    putc(value ? '1' : '0', out);
}

#define O(i) (&watch->one[rows[i]])
#define L(i) (last_of(watch, O(i)))
static const struct aw_recent_point *last_of(const struct aw_recent *watch,
                                             const struct aw_recent_one *one)
{
    static const struct aw_recent_point none = {.arrivals_per_s = NAN,
                                                .latency_us = NAN,
                                                .cpu_used = NAN,
                                                .memory_used = NAN,
                                                .cpu_millicores = NAN,
                                                .memory_bytes = NAN,
                                                .cost_per_hour = NAN,
                                                .fallback_cost_per_hour = NAN,
                                                .reward = NAN,
                                                .twin_cost_per_hour = NAN,
                                                .actor = AW_ACTOR_NOBODY};
    const uint32_t count = aw_recent_points(watch, one);
    return count ? aw_recent_point(watch, one, count - 1) : &none;
}

static void put_rows(FILE *out, const struct aw_recent *watch, const uint32_t *rows, uint32_t count)
{
    COLUMN(out, "name", count, put_text, O(i)->name);
    COLUMN(out, "stage", count, put_count, L(i)->stage);
    COLUMN(out, "actor", count, put_count, L(i)->actor);
    COLUMN(out, "mode", count, put_count, O(i)->mode);
    COLUMN(out, "ready", count, put_count, L(i)->ready);
    COLUMN(out, "wanted", count, put_count, L(i)->wanted);
    COLUMN(out, "cpu_millicores", count, put_real, L(i)->cpu_millicores);
    COLUMN(out, "memory_bytes", count, put_real, L(i)->memory_bytes);
    COLUMN(out, "cpu_used", count, put_real, L(i)->cpu_used);
    COLUMN(out, "memory_used", count, put_real, L(i)->memory_used);
    COLUMN(out, "arrivals_per_s", count, put_real, L(i)->arrivals_per_s);
    COLUMN(out, "latency_us", count, put_real, L(i)->latency_us);
    COLUMN(out, "slo_latency_us", count, put_real, O(i)->slo_latency_us);
    COLUMN(out, "slo_budget", count, put_real, O(i)->slo_budget);
    COLUMN(out, "missed", count, put_bool, has(L(i)->flags, AW_RECENT_MISSED));
    COLUMN(out, "steps", count, put_count, O(i)->steps);
    COLUMN(out, "missed_steps", count, put_count, O(i)->missed);
    COLUMN(out, "replica_changes", count, put_count, O(i)->replica_changes);
    COLUMN(out, "replicas_removed_within_5m", count, put_count, O(i)->taken_back);
    COLUMN(out, "cost_per_hour", count, put_real, L(i)->cost_per_hour);
    COLUMN(out, "fallback_cost_per_hour", count, put_real, L(i)->fallback_cost_per_hour);
    COLUMN(out, "twin_cost_per_hour", count, put_real, L(i)->twin_cost_per_hour);
    COLUMN(
        out, "saved", count, put_real,
        (float)aw_recent_saved(&O(i)->beside, L(i)->cost_per_hour, L(i)->fallback_cost_per_hour));
    COLUMN(out, "reward", count, put_real, L(i)->reward);
    COLUMN(out, "freeze", count, put_count,
           has(L(i)->flags, AW_RECENT_FROZEN_ALL)    ? 2u
           : has(L(i)->flags, AW_RECENT_FROZEN_DOWN) ? 1u
                                                     : 0u);
    COLUMN(out, "watchdog", count, put_bool, has(L(i)->flags, AW_RECENT_WATCHED));
    COLUMN(out, "outcome", count, put_count, L(i)->outcome);
    COLUMN(out, "held_by", count, put_count, L(i)->clips);
    COLUMN(out, "learning", count, put_bool, O(i)->learning);
    COLUMN(out, "learns_now", count, put_bool, O(i)->learns_now);
    COLUMN(out, "pending", count, put_count, O(i)->pending);
    COLUMN(out, "episodes", count, put_count, O(i)->episode_count);
    COLUMN(out, "estimate", count, put_real, (float)O(i)->estimate.mean);
    COLUMN(out, "estimate_low", count, put_real, (float)O(i)->estimate.low);
    COLUMN(out, "estimate_high", count, put_real, (float)O(i)->estimate.high);
}
#undef O
#undef L

enum aw_err aw__api_get_table(struct aw__api_call *call, struct aw_diag *diag)
{
    struct aw_recent *watch = &call->api->watch;
    FILE *out = call->out;
    struct totals totals;
    aw_recent_lock(watch);
    uint32_t *rows = calloc(watch->count + 1, sizeof *rows);
    const uint32_t count = rows ? rows_of(watch, rows) : 0;
    totals_of(watch, &totals);
    fprintf(out, "{\"tick\":%" PRIu64 ",\"total\":%" PRIu32, watch->ticks, count);
    fprintf(out, ",\"since_start\":{\"steps\":%" PRIu64 ",\"missed_steps\":%" PRIu64 ",\"cost\":",
            totals.steps, totals.missed);
    put_real(out, totals.cost);
    put_beside(out, &totals.beside);
    put_changes(out, watch, NULL);
    putc('}', out);
    if (rows)
        put_rows(out, watch, rows, count);
    put_names(out, "stages", aw_stage_name, AW_STAGE_COUNT);
    put_names(out, "actors", aw_actor_name, AW_ACTOR_COUNT);
    put_names(out, "outcomes", outcome_name, AW_RECENT_OUTCOME_COUNT);
    put_names(out, "rails", clip_name, AW_CLIP_COUNT);
    fputs(",\"modes\":[", out);
    for (uint32_t i = 0; aw_guard_mode_names[i]; i++)
        fprintf(out, "%s\"%s\"", i ? "," : "", aw_guard_mode_names[i]);
    fputs("]}\n", out);
    aw_recent_unlock(watch);
    const bool ok = rows != NULL;
    free(rows);
    return ok ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for the answer");
}

enum aw_err aw__api_get_reports(struct aw__api_call *call, struct aw_diag *diag)
{
    return aw_reports_list(call->api->config.reports, call->out, diag);
}
