/* simulate_print.c - what came of a simulation: tables, JSON, CSV. */
#include "lab/simulate.h"

#include "base/quantity.h"
#include "frame/json.h"
#include "frame/layout.h"
#include "lab/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define CELL_MAX 64u

enum aw__figure_kind aw__simulate_kind(uint32_t column)
{
    const char *name = aw_simulate_column[column].name;
    const size_t len = strlen(name);
    if (!strcmp(name, "cost"))
        return AW__FIGURE_MONEY;
    if (!strcmp(aw_simulate_column[column].unit, "us"))
        return AW__FIGURE_TIME;
    if (!strcmp(name, "cpu_utilization") || !strcmp(name, "memory_utilization") ||
        (len > 6 && !strcmp(name + len - 6, "_share")))
        return AW__FIGURE_SHARE;
    return AW__FIGURE_PLAIN;
}

static const char *figure_show(uint32_t column, double value, char *buf, size_t size)
{
    if (!isfinite(value)) {
        snprintf(buf, size, "-");
        return buf;
    }
    switch (aw__simulate_kind(column)) {
    case AW__FIGURE_MONEY:
        snprintf(buf, size, "$%.3g", value);
        break;
    case AW__FIGURE_TIME:
        aw_duration_round((int64_t)(value + 0.5), buf, size);
        break;
    case AW__FIGURE_SHARE:
        snprintf(buf, size, "%.*f %%", value < 0.0995 ? 2 : 1, 100 * value);
        break;
    case AW__FIGURE_PLAIN:
        snprintf(buf, size, "%.*f", value >= 100 ? 1 : 2, value);
        break;
    }
    return buf;
}

const char *aw__simulate_tuned(const struct aw__simulate *ask, uint32_t policy,
                               const struct aw_simulate_summary *summary, char *buf, size_t size)
{
    const struct aw_fallback_settings *s = &summary->tuned;
    char cpu[AW_QUANTITY_TEXT_MAX], memory[AW_QUANTITY_TEXT_MAX];
    struct aw_text text;
    aw_text_init(&text, buf, size);
    if (ask->policy[policy].is_oracle) {
        aw_text_add(&text, "knows the load");
        return buf;
    }
    if (ask->policy[policy].is_aware) {
        char lived[32];
        aw_text_add(&text, "%s old when it is first scored, fallback %s untuned",
                    aw_seconds_format(ask->policy[policy].lived_s, lived, sizeof lived),
                    aw_fallback_names[s->kind]);
        return buf;
    }
    if (s->kind == AW_FALLBACK_CONSTANT)
        aw_text_add(&text, "action %+.2f %+.2f %+.2f", s->constant_cpu, s->constant_memory,
                    s->constant_replicas);
    if (s->kind == AW_FALLBACK_HPA || s->kind == AW_FALLBACK_HPA_VPA ||
        s->kind == AW_FALLBACK_HPA_VPA_MEM)
        aw_text_add(&text, "target %" PRIu32 " %%", s->hpa_target);
    if (s->kind != AW_FALLBACK_CONSTANT && s->kind != AW_FALLBACK_HPA_VPA &&
        s->kind != AW_FALLBACK_VPA && s->kind != AW_FALLBACK_AIMD)
        aw_text_add(&text, "%s%s cores", text.len ? ", " : "",
                    aw_quantity_round_cpu(summary->task.cpu_millicores, AW_QUANTITY_MILLI, cpu,
                                          sizeof cpu));
    if (s->kind == AW_FALLBACK_HPA || s->kind == AW_FALLBACK_STATIC)
        aw_text_add(&text, ", %s",
                    aw_quantity_round_memory(summary->task.memory_bytes, memory, sizeof memory));
    if (s->kind == AW_FALLBACK_STATIC)
        aw_text_add(&text, ", %" PRId64 " replicas", summary->task.replicas);
    return text.len ? buf : "-";
}

static bool is_shown(uint32_t column)
{
    return strcmp(aw_simulate_column[column].name, "violations_per_100") != 0;
}

/* Columns in which a policy wins that gives the workload less than it needs; there only those that
 * keep the SLO compete. */
static bool is_spending(uint32_t column)
{
    static const char *const names[] = {"cost",          "cpu_utilization", "memory_utilization",
                                        "replica_hours", "core_hours",      "gib_hours",
                                        "changes",       "replica_changes", "replicas_taken_back"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(aw_simulate_column[column].name, names[i]))
            return true;
    }
    return false;
}

bool aw__simulate_competes(const struct aw__simulate *ask,
                           const struct aw_simulate_summary *summary, uint32_t column,
                           uint32_t policy)
{
    return !ask->policy[policy].is_oracle && (summary[policy].slo_kept || !is_spending(column));
}

/* Whether `policy` has the best figure of those that compete. */
static bool is_best(const struct aw__simulate *ask, const struct aw_simulate_summary *summary,
                    uint32_t column, uint32_t policy)
{
    const double ours = aw_simulate_column_get(&summary[policy].mean, column);
    bool alone = true, alike = true;
    if (!aw__simulate_competes(ask, summary, column, policy))
        return false;
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        const double theirs = aw_simulate_column_get(&summary[i].mean, column);
        if (ask->policy[i].is_oracle || i == policy)
            continue;
        alone = false;
        if (!aw__simulate_competes(ask, summary, column, i)) {
            alike = false; /* it spends what it likes: it misses the SLO */
            continue;
        }
        alike &= theirs == ours;
        if (aw_simulate_column[column].better == AW_SIMULATE_HIGH ? theirs > ours : theirs < ours)
            return false;
    }
    return !alone && !alike;
}

static enum aw_err print_table(const struct aw_call *run, const struct aw__simulate *ask,
                               const struct aw_simulate_summary *summary, struct aw_diag *diag)
{
    char head[AW_SIMULATE_POLICIES_MAX][AW_SIMULATE_NAME_MAX + 2], cell[CELL_MAX], text[128];
    const char *heads[AW_SIMULATE_POLICIES_MAX + 2] = {"PER HOUR, OR AS NAMED"};
    struct aw_table table;
    bool starred = false, oracle = false;
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        snprintf(head[i], sizeof head[i], ">%s", ask->policy[i].name);
        heads[i + 1] = head[i];
        oracle |= ask->policy[i].is_oracle;
    }
    aw_table_init(&table, heads);
    for (uint32_t c = 0; c < AW_SIMULATE_COLUMN_COUNT; c++) {
        if (!is_shown(c))
            continue;
        aw_table_add(&table, "%s", aw_simulate_column[c].text);
        for (uint32_t i = 0; i < ask->policy_count; i++) {
            const bool best = is_best(ask, summary, c, i);
            starred |= best;
            aw_table_add(
                &table, "%s%s", best ? "*" : "",
                figure_show(c, aw_simulate_column_get(&summary[i].mean, c), cell, sizeof cell));
        }
    }
    enum aw_err err = aw_table_print(&table, stdout, run->color_out, diag);
    if (err)
        return err;
    putchar('\n');
    if (starred)
        puts("* the best; for cost and usage, of those within their SLO budget");
    if (oracle)
        puts("An oracle knows the load to come: a ceiling, not a controller.");
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        const char *tuned = aw__simulate_tuned(ask, i, &summary[i], text, sizeof text);
        if (!ask->policy[i].is_oracle && strcmp(tuned, "-") != 0)
            printf("%s%s: %s\n", ask->policy[i].name,
                   ask->policy[i].tuning == AW_SIMULATE_AS_GIVEN ? "" : ", tuned", tuned);
    }
    return AW_OK;
}

static void print_head(const struct aw_call *run, const struct aw__simulate *ask,
                       const struct aw_simulate_summary *summary)
{
    const struct aw_simulate_settings *s = &ask->config.settings;
    char slo[AW_QUANTITY_TEXT_MAX], mean[AW_QUANTITY_TEXT_MAX], peak[AW_QUANTITY_TEXT_MAX];
    const struct aw_load_figures load = aw_load_figures(ask->cases[0].load);
    printf("%s%s%s under %s, seed %" PRIu64 "\n", run->color_out ? "\033[1m" : "",
           ask->cases[0].app.name, run->color_out ? "\033[0m" : "", ask->load_text,
           ask->config.seed);
    printf("%" PRIu32 " episodes of %" PRIu32 " steps of %g s; load %s, at most %s; ", s->episodes,
           s->episode_steps, s->step_s, aw_rate_round(load.mean_per_s, mean, sizeof mean),
           aw_rate_round(load.peak_per_s, peak, sizeof peak));
    if (summary[0].slo_latency_us > 0)
        printf("SLO: p99 of %s in all but %g %% of steps\n\n",
               aw_duration_round((int64_t)summary[0].slo_latency_us, slo, sizeof slo),
               100 * s->slo_budget);
    else
        printf("no SLO\n\n");
}

static void warn(const struct aw_call *run, const struct aw__simulate *ask,
                 const struct aw_simulate_summary *summary)
{
    if (summary->slo_unmeetable)
        aw_log_warn(run->log,
                    "no allocation can meet the SLO: alone on the largest replica a "
                    "request takes longer",
                    AW_LOG_STR("app", ask->cases[0].app.name),
                    AW_LOG_NUM("slo_ms", 1e-3 * summary->slo_latency_us));
}

static json_t *columns_json(const struct aw_simulate_columns *columns)
{
    json_t *object = json_object();
    for (uint32_t c = 0; c < AW_SIMULATE_COLUMN_COUNT; c++)
        json_object_set_new(object, aw_simulate_column[c].name,
                            aw_json_real(aw_simulate_column_get(columns, c)));
    return object;
}

static json_t *interval_json(const struct aw_interval *interval)
{
    return json_pack("[o,o]", aw_json_real(interval->low), aw_json_real(interval->high));
}

static json_t *tuned_json(const struct aw_simulate_summary *summary)
{
    json_t *object = json_object();
    char text[AW_CONF_TEXT_MAX];
    for (const struct aw_conf_field *field = aw_fallback_fields; field->key; field++)
        json_object_set_new(object, field->key,
                            json_string(aw_conf_get(field, &summary->tuned, text, sizeof text)));
    return object;
}

static json_t *summary_json(const struct aw__simulate *ask, uint32_t policy,
                            const struct aw_simulate_summary *summary)
{
    json_t *object = json_object();
    json_object_set_new(object, "policy", json_string(summary->policy));
    json_object_set_new(object, "oracle", json_boolean(ask->policy[policy].is_oracle));
    json_object_update_new(object, columns_json(&summary->mean));
    json_object_set_new(object, "reward_95", interval_json(&summary->reward_interval));
    json_object_set_new(object, "violation_share_95", interval_json(&summary->violation_interval));
    json_object_set_new(object, "slo_kept", json_boolean(summary->slo_kept));
    json_object_set_new(object, "slo_unmeetable", json_boolean(summary->slo_unmeetable));
    json_object_set_new(object, "hours", aw_json_real(summary->hours));
    json_object_set_new(object, "requests", aw_json_real(summary->requests));
    json_object_set_new(object, "failed_requests", aw_json_real(summary->failed_requests));
    json_object_set_new(object, "violations", json_integer((json_int_t)summary->violations));
    json_object_set_new(object, "start_replicas", json_integer(summary->task.replicas));
    json_object_set_new(object, "start_cpu_millicores", json_integer(summary->task.cpu_millicores));
    json_object_set_new(object, "start_memory_bytes", json_integer(summary->task.memory_bytes));
    if (!ask->policy[policy].is_oracle)
        json_object_set_new(object, "settings", tuned_json(summary));
    return object;
}

static json_t *head_json(const struct aw__simulate *ask)
{
    static const char *const models[] = {"fast", "reference"};
    const struct aw_simulate_settings *s = &ask->config.settings;
    json_t *object = json_object(), *settings = json_object();
    char text[AW_CONF_TEXT_MAX];
    json_object_set_new(object, "load", json_string(ask->load_text));
    json_object_set_new(object, "model", json_string(models[ask->config.sim.model]));
    json_object_set_new(object, "seed", json_integer((json_int_t)ask->config.seed));
    json_object_set_new(object, "tuned_on", json_string(ask->tuning_text));
    json_object_set_new(object, "cores", aw_json_real(ask->load_cores));
    json_object_set_new(object, "loads_scaled_by_peak", json_integer(ask->peak_scaled));
    for (const struct aw_conf_field *field = aw_simulate_fields; field->key; field++)
        json_object_set_new(settings, field->key,
                            json_string(aw_conf_get(field, s, text, sizeof text)));
    for (const struct aw_conf_field *field = aw_sim_fields; field->key; field++)
        json_object_set_new(settings, field->key,
                            json_string(aw_conf_get(field, &ask->config.sim, text, sizeof text)));
    json_object_set_new(object, "settings", settings);
    return object;
}

static void print_csv_head(void)
{
    for (uint32_t c = 0; c < AW_SIMULATE_COLUMN_COUNT; c++)
        printf(",%s", aw_simulate_column[c].name);
}

static void print_csv_columns(const struct aw_simulate_columns *columns)
{
    char text[AW_TEXT_REAL_MAX];
    for (uint32_t c = 0; c < AW_SIMULATE_COLUMN_COUNT; c++)
        printf(",%s", aw_text_real(aw_simulate_column_get(columns, c), text, sizeof text));
}

static void print_csv(const struct aw__simulate *ask, const struct aw_simulate_summary *summaries)
{
    fputs("app,policy,slo_kept", stdout);
    print_csv_head();
    putchar('\n');
    for (uint32_t i = 0; i < ask->case_count * ask->policy_count; i++) {
        printf("%s,%s,%d", ask->cases[i / ask->policy_count].app.name, summaries[i].policy,
               summaries[i].slo_kept);
        print_csv_columns(&summaries[i].mean);
        putchar('\n');
    }
}

enum aw_err aw__simulate_print(const struct aw_call *run, const struct aw__simulate *ask,
                               const struct aw_simulate_summary *summary, struct aw_diag *diag)
{
    warn(run, ask, summary);
    if (!strcmp(aw_args_text(run->args, "output"), "csv")) {
        print_csv(ask, summary);
        return AW_OK;
    }
    if (!run->json) {
        print_head(run, ask, summary);
        return print_table(run, ask, summary, diag);
    }
    json_t *object = head_json(ask), *list = json_array();
    json_object_set_new(object, "app", json_string(ask->cases[0].app.name));
    json_object_set_new(object, "slo_ms", aw_json_real(1e-3 * summary[0].slo_latency_us));
    for (uint32_t i = 0; i < ask->policy_count; i++)
        json_array_append_new(list, summary_json(ask, i, &summary[i]));
    json_object_set_new(object, "policies", list);
    return aw_json_print(object, diag);
}

/* --- many applications ------------------------------------------------------------------------
 */

static double half_width(const struct aw_interval *interval)
{
    return 0.5 * (interval->high - interval->low);
}

static enum aw_err rows_table(const struct aw_call *run, const struct aw__simulate *ask,
                              const struct aw_simulate_row *rows, uint32_t baseline,
                              struct aw_diag *diag)
{
    static const char *const heads[] = {
        "POLICY",  ">REWARD",     ">+-95 %",   ">SLO MISSED",  ">SLO KEPT",
        ">COST/h", ">COST RATIO", ">CPU USED", ">MEMORY USED", ">REPLICAS",
        ">OOM/h",  ">FAILED",     NULL};
    struct aw_table table;
    aw_table_init(&table, heads);
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        const struct aw_simulate_row *r = &rows[i];
        aw_table_add(&table, "%s", r->policy);
        aw_table_add(&table, "%.1f", r->mean.reward);
        aw_table_add(&table, "%.1f", half_width(&r->interval[0]));
        aw_table_add(&table, "%.2f %%", 100 * r->mean.violation_share);
        aw_table_add(&table, "%" PRIu32 "/%" PRIu32, r->kept_count, r->case_count);
        aw_table_add(&table, "$%.3f", r->mean.cost);
        aw_table_add(&table, "%.2f", r->cost_ratio);
        aw_table_add(&table, "%.1f %%", 100 * r->mean.cpu_utilization);
        aw_table_add(&table, "%.1f %%", 100 * r->mean.memory_utilization);
        aw_table_add(&table, "%.2f", r->mean.replica_hours);
        aw_table_add(&table, "%.2f", r->mean.oom_kills);
        aw_table_add(&table, "%.2f %%", 100 * r->mean.failed_share);
    }
    printf("%" PRIu32 " applications under %s, seed %" PRIu64 "; tuned on %s\n", ask->case_count,
           ask->load_text, ask->config.seed, ask->tuning_text);
    if (ask->peak_scaled)
        printf("%" PRIu32 " of %" PRIu32 " loads have rare peaks and were scaled by those, at most "
               "%g times %g cores\n",
               ask->peak_scaled, 2 * ask->case_count, AW_LOAD_PEAK_RATIO, ask->load_cores);
    printf("COST RATIO is against %s, application by application\n\n", rows[baseline].policy);
    return aw_table_print(&table, stdout, run->color_out, diag);
}

/* How much of what lies between the best constant and an oracle, which a constant cannot have. */
static const struct aw_simulate_row *row_named(const struct aw__simulate *ask,
                                               const struct aw_simulate_row *rows, const char *name)
{
    for (uint32_t i = 0; i < ask->policy_count; i++) {
        if (!strcmp(rows[i].policy, name))
            return &rows[i];
    }
    return NULL;
}

static void rows_gap(const struct aw__simulate *ask, const struct aw_simulate_row *rows)
{
    const struct aw_simulate_row *fixed = row_named(ask, rows, "constant-reward"),
                                 *best = row_named(ask, rows, "oracle"),
                                 *cheap = row_named(ask, rows, "constant"),
                                 *least = row_named(ask, rows, "oracle-cost");
    putchar('\n');
    if (fixed && best)
        printf("Reward: from the best constant (%.1f) to the oracle (%.1f) it is %+.1f per "
               "episode, which only acting in time can gain.\n",
               fixed->mean.reward, best->mean.reward, best->mean.reward - fixed->mean.reward);
    if (cheap && least)
        printf("Cost: the oracle spends %.0f %% of what the best constant does, and misses the SLO "
               "in %.2f %% of steps instead of %.2f %%.\n",
               100 * exp(log(least->cost_ratio) - log(cheap->cost_ratio)),
               100 * least->mean.violation_share, 100 * cheap->mean.violation_share);
}

static json_t *row_json(const struct aw__simulate *ask, uint32_t policy,
                        const struct aw_simulate_row *row)
{
    json_t *object = json_object(), *intervals = json_object();
    json_object_set_new(object, "policy", json_string(row->policy));
    json_object_set_new(object, "oracle", json_boolean(ask->policy[policy].is_oracle));
    json_object_update_new(object, columns_json(&row->mean));
    for (uint32_t c = 0; c < AW_SIMULATE_COLUMN_COUNT; c++)
        json_object_set_new(intervals, aw_simulate_column[c].name,
                            interval_json(&row->interval[c]));
    json_object_set_new(object, "intervals_95", intervals);
    json_object_set_new(object, "apps", json_integer(row->case_count));
    json_object_set_new(object, "slo_kept", json_integer(row->kept_count));
    json_object_set_new(object, "reward_gain", aw_json_real(row->reward_gain));
    json_object_set_new(object, "reward_gain_95", interval_json(&row->reward_gain_interval));
    json_object_set_new(object, "cost_ratio", aw_json_real(row->cost_ratio));
    json_object_set_new(object, "cost_ratio_95", interval_json(&row->cost_ratio_interval));
    json_object_set_new(object, "cheaper", json_integer(row->cheaper_count));
    return object;
}

enum aw_err aw__simulate_print_rows(const struct aw_call *run, const struct aw__simulate *ask,
                                    const struct aw_simulate_summary *summaries,
                                    const struct aw_simulate_row *rows, uint32_t baseline,
                                    struct aw_diag *diag)
{
    if (!strcmp(aw_args_text(run->args, "output"), "csv")) {
        print_csv(ask, summaries);
        return AW_OK;
    }
    if (!run->json) {
        enum aw_err err = rows_table(run, ask, rows, baseline, diag);
        if (!err)
            rows_gap(ask, rows);
        return err;
    }
    json_t *object = head_json(ask), *list = json_array();
    json_object_set_new(object, "apps", json_integer(ask->case_count));
    json_object_set_new(object, "baseline", json_string(rows[baseline].policy));
    for (uint32_t i = 0; i < ask->policy_count; i++)
        json_array_append_new(list, row_json(ask, i, &rows[i]));
    json_object_set_new(object, "policies", list);
    return aw_json_print(object, diag);
}
