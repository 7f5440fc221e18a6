/* rows.c - workloads as rows. */
#include "frame/rows.h"

#include "frame/show.h"

#include <aware/resource.h>

#include <math.h>
#include <string.h>

/* clang-format off */
static const struct aw_grid_column columns[] = {
    /*                        right  rank  wide  least */
    {"NAME",                  false, 0,    false, 12},
    {"MODE",                  false, 9,    false, 0},
    {"STAGE",                 false, 3,    false, 0},
    {"ACTS",                  false, 7,    false, 0},
    {"REPLICAS",              true,  1,    false, 0},
#define X(id, ...) {#id,     true,  2,    false, 0},
    AW_SIZE_MAP(X)
#undef X
    {"P99/SLO",               true,  1,    false, 0},
    {"SLO-BUDGET",            true,  6,    false, 0},
    {"COST/H",                true,  4,    false, 0},
    {"VS-FALLBACK",           true,  5,    false, 0},
    {"CHANGES/DAY",           true,  10,   true,  0},
    {"LOAD",                  true,  10,   true,  0},
    {"CPU-USED",              true,  10,   true,  0},
    {"MEM-USED",              true,  10,   true,  0},
    {"MODEL",                 false, 10,   true,  0},
    {"DECISION",              true,  10,   true,  0},
    {"CHANGED",               true,  10,   true,  0},
    {"AGE",                   true,  8,    false, 0},
    {"REASON",                false, 0,    false, 14},
    {NULL,                    false, 0,    false, 0},
};
/* clang-format on */
#define SIZES_AT 5u /* the column of the first size */

const char *aw_rows_name(const char *name)
{
    static const char usual[] = "default/";
    return strncmp(name, usual, sizeof usual - 1) == 0 ? name + sizeof usual - 1 : name;
}

/* "fallback (hpa): no change, because nothing calls for one" without what other columns say. */
static const char *brief(const char *why)
{
    static const char unchanged[] = "no change, because ", still[] = "no change, seeing";
    const char *colon = strstr(why, ": ");
    why = colon ? colon + 2 : why;
    if (strncmp(why, still, sizeof still - 1) == 0)
        return "nothing to do";
    return strncmp(why, unchanged, sizeof unchanged - 1) == 0 ? why + sizeof unchanged - 1 : why;
}

/* The last rail that held something back which matters; NULL: none. */
static const char *held_by(const json_t *row)
{
    const json_t *rails = aw_at(row, "held_by");
    for (size_t i = json_array_size(rails); i-- > 0;) {
        const char *rail = json_string_value(json_array_get(rails, i));
        if (rail && strcmp(rail, "deadband") != 0)
            return rail;
    }
    return NULL;
}

const char *aw_rows_reason(const json_t *row, char *buf, size_t size)
{
    const char *freeze = aw_at_text(row, "freeze"), *watchdog = aw_at_text(row, "watchdog");
    const char *held = held_by(row);
    const long long order = (long long)json_integer_value(json_array_get(aw_at(row, "orders"), 0));
    if (!strcmp(freeze, "all"))
        snprintf(buf, size, "frozen by order %lld", order);
    else if (!strcmp(freeze, "down"))
        snprintf(buf, size, "scale-down frozen by order %lld", order);
    else if (order)
        snprintf(buf, size, "order %lld", order);
    else if (aw_at(row, "proposal"))
        snprintf(buf, size, "%lld waits for approval", (long long)aw_at_integer(row, "proposal"));
    else if (!strcmp(watchdog, "held") || !strcmp(watchdog, "tripped"))
        snprintf(buf, size, "watchdog: the fallback acts");
    else if (aw_at_true(row, "slo.missed"))
        snprintf(buf, size, "SLO missed");
    else if (held)
        snprintf(buf, size, "held by %s", held);
    else
        snprintf(buf, size, "%s",
                 aw_at(row, "decided") ? brief(aw_at_text(row, "why")) : "nothing decided yet");
    return buf;
}

static enum aw_tone reason_tone(const json_t *row)
{
    const char *freeze = aw_at_text(row, "freeze");
    if (aw_at_true(row, "slo.missed"))
        return AW_TONE_BAD;
    if ((*freeze && strcmp(freeze, "none") != 0) || aw_at(row, "proposal") ||
        json_array_size(aw_at(row, "orders")) > 0)
        return AW_TONE_ODD;
    return AW_TONE_PLAIN;
}

static void slo_add(struct aw_grid *grid, const json_t *row)
{
    char latency[AW_SHOW_MAX], slo[AW_SHOW_MAX];
    const double limit = aw_at_real(row, "slo.latency_us");
    aw_show_latency(aw_at_real(row, "latency_us"), latency, sizeof latency);
    if (limit > 0)
        aw_grid_add(grid, aw_at_true(row, "slo.missed") ? AW_TONE_BAD : AW_TONE_PLAIN, "%s/%s",
                    latency, aw_show_latency(limit, slo, sizeof slo));
    else
        aw_grid_add(grid, AW_TONE_PLAIN, "%s", latency);
}

/* What is left of the window's budget. */
static void budget_add(struct aw_grid *grid, const json_t *row)
{
    const double allowed = aw_at_real(row, "slo.recent_allowed");
    const double missed = aw_at_real(row, "slo.recent_missed");
    if (!(allowed > 0) || isnan(missed) || !(aw_at_real(row, "slo.recent_steps") > 0)) {
        aw_grid_add(grid, AW_TONE_PLAIN, "-");
        return;
    }
    const double left = 1 - missed / allowed;
    if (left < 0)
        aw_grid_add(grid, AW_TONE_BAD, "%.0f%% over", -100 * left);
    else
        aw_grid_add(grid, left < 0.25 ? AW_TONE_ODD : AW_TONE_PLAIN, "%.0f%% left", 100 * left);
}

static void row_add(struct aw_grid *grid, const json_t *row, const char *now)
{
    char a[AW_SHOW_MAX], reason[AW_GRID_CELL_MAX];
    const double ready = aw_at_real(row, "replicas.ready"),
                 wanted = aw_at_real(row, "replicas.wanted");
    const double cost = aw_at_real(row, "cost_per_hour"), saved = aw_at_real(row, "saved");
    const char *stage = aw_at_text(row, "stage");
    const char *model = aw_at_text(row, "model");
    aw_grid_add(grid, AW_TONE_PLAIN, "%s", aw_rows_name(aw_at_text(row, "name")));
    aw_grid_add(grid, AW_TONE_PLAIN, "%s", aw_at_text(row, "mode"));
    aw_grid_add(grid, !strcmp(stage, "serving") ? AW_TONE_GOOD : AW_TONE_PLAIN, "%s", stage);
    aw_grid_add(grid, AW_TONE_PLAIN, "%s", aw_at_text(row, "actor"));
    if (isnan(wanted))
        aw_grid_add(grid, AW_TONE_PLAIN, "-");
    else if (ready < wanted)
        aw_grid_add(grid, AW_TONE_ODD, "%.0f/%.0f", ready, wanted);
    else
        aw_grid_add(grid, AW_TONE_PLAIN, "%.0f", wanted);
    for (uint32_t r = AW_SIZE_FIRST; r < AW_RESOURCES; r++)
        aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                    aw_show_amount((enum aw_resource)r,
                                   aw_at_real(row, aw_resource_table[r].member), a, sizeof a));
    slo_add(grid, row);
    budget_add(grid, row);
    aw_grid_add(grid, AW_TONE_PLAIN, "%s", aw_show_money(cost, a, sizeof a));
    aw_grid_add(grid, saved < 0 ? AW_TONE_ODD : AW_TONE_PLAIN, "%s",
                aw_show_change(1 - saved, 1, a, sizeof a));
    const double changes = aw_at_real(row, "replica_changes_per_day");
    if (isnan(changes))
        aw_grid_add(grid, AW_TONE_PLAIN, "-");
    else
        aw_grid_add(grid, AW_TONE_PLAIN, "%.0f", changes);
    aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                aw_show_rate(aw_at_real(row, "arrivals_per_s"), a, sizeof a));
    aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                aw_show_percent(aw_at_real(row, "cpu_used"), a, sizeof a));
    aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                aw_show_percent(aw_at_real(row, "memory_used"), a, sizeof a));
    aw_grid_add(grid, AW_TONE_PLAIN, "%.8s", *model ? model : "-");
    if (aw_at(row, "last_decision"))
        aw_grid_add(grid, AW_TONE_PLAIN, "%lld", (long long)aw_at_integer(row, "last_decision"));
    else
        aw_grid_add(grid, AW_TONE_PLAIN, "-");
    aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                aw_show_age(aw__seconds_between(aw_at_text(row, "changed"), now), a, sizeof a));
    aw_grid_add(grid, AW_TONE_PLAIN, "%s",
                aw_show_age(aw_at_real(row, "figures_age_s"), a, sizeof a));
    aw_grid_add(grid, reason_tone(row), "%s", aw_rows_reason(row, reason, sizeof reason));
}

void aw_rows_grid(const json_t *list, struct aw_grid *ret)
{
    const json_t *rows = aw_at(list, "workloads");
    const char *now = aw_at_text(list, "now");
    aw_grid_init(ret, columns);
    for (uint32_t r = AW_RESOURCE_MEMORY + 1; r < AW_RESOURCES; r++)
        aw_grid_spare(ret, SIZES_AT + r - AW_SIZE_FIRST);
    for (size_t i = 0; i < json_array_size(rows); i++)
        row_add(ret, json_array_get(rows, i), now);
}
