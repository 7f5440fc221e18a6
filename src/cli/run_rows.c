/* run_rows.c - what is told of a workload: the row behind every table, and rows for a log. */
#include "cli/run.h"

#include "base/quantity.h"
#include "frame/show.h"

#include <inttypes.h>
#include <math.h>

#define NAME_COLUMN_MAX 24

uint32_t aw__run_more(const struct aw_daemon_config *ask)
{
    uint32_t more = 0;
    for (uint32_t i = 0; i < ask->count; i++)
        more |= aw_action_more(&ask->workload[i].pilot.bounds);
    return more;
}

double aw__run_cost_ratio(const struct aw_totals *totals)
{
    const double twin = totals[AW_JOB_TWIN].cost;
    return twin > 0 ? totals[AW_JOB_AWARE].cost / twin : NAN;
}

double aw__run_reward(const struct aw_totals *totals, uint32_t steps)
{
    return totals->steps ? totals->reward / (double)totals->steps * steps : NAN;
}

/* Who took control from the agent and why; else what the rails did; else why the stage stays. */
static void why_of(const struct aw_decision *decision, const struct aw_pilot_config *config,
                   char *buf, size_t size)
{
    char text[AW_GUARD_TEXT_MAX];
    struct aw_text why;
    aw_text_init(&why, buf, size);
    if (decision->verdict != AW_WATCHDOG_PASS) {
        aw_watchdog_reason_format(&decision->watchdog, text, sizeof text);
        aw_text_add(&why, "watchdog: %s", text);
        return;
    }
    aw_lifecycle_reason_words(&decision->stay, config->lifecycle.offline_least,
                              aw_fallback_names[config->fallback.kind], text, sizeof text);
    aw_text_add(&why, "%s", text);
    if (decision->guard.clips) {
        aw_guard_clips_format(&decision->guard, text, sizeof text);
        aw_text_add(&why, "; rails: %s", text);
    }
}

void aw__runrow_of(struct aw__runrow *row, const struct aw_job_step *step,
                   const struct aw_job_view *view)
{
    const struct aw_decision *decision = step->decision;
    const struct aw_pilot_config *config = aw_pilot_config(view->pilot);
    const struct aw_score *truth = &step->truth[AW_JOB_AWARE];
    const struct aw_plan *plan = &step->plan[AW_JOB_AWARE];
    row->name = aw_run_name(view->name);
    row->stage = decision->stage;
    row->actor = decision->actor;
    row->verdict = decision->verdict;
    row->ready = step->replicas_ready[AW_JOB_AWARE];
    row->wanted = plan->replicas;
    memcpy(row->amount, plan->amount, sizeof row->amount);
    row->arrivals_per_s = step->arrivals_per_s;
    row->cpu_used = truth->cpu_utilisation;
    row->memory_used = truth->memory_utilisation;
    row->latency_us = truth->latency_us_slo;
    row->slo_us = config->slo.latency_us_p99;
    row->violated = truth->violated;
    memcpy(row->total, view->total, sizeof row->total);
    memcpy(row->recent, view->recent, sizeof row->recent);
    row->episodes = view->episodes;
    row->episode_steps = config->episode_steps;
    why_of(decision, config, row->why, sizeof row->why);
}

/* --- rows of a log ---------------------------------------------------------------------------- */

static int name_width(const struct aw_daemon_config *ask)
{
    size_t width = strlen("WORKLOAD");
    for (uint32_t i = 0; i < ask->count; i++) {
        const size_t len = strlen(aw_run_name(ask->workload[i].pilot.name));
        width = len > width ? len : width;
    }
    return width < NAME_COLUMN_MAX ? (int)width : NAME_COLUMN_MAX;
}

void aw__runrows_head(FILE *out, const struct aw_daemon_config *ask)
{
#define X(id, ...) [AW_RESOURCE_##id] = #id,
    static const char *const heads[AW_RESOURCES] = {AW_RESOURCE_MAP(X)};
#undef X
    fprintf(out, "%9s  %-*s  %7s  %-8s  %5s  %8s  %6s  %7s", "TIME", name_width(ask), "WORKLOAD",
            "EPISODE", "STAGE", "AGENT", "REPLICAS", "CPU", "MEMORY");
    for (uint32_t more = aw__run_more(ask); more; more &= more - 1)
        fprintf(out, "  %7s", heads[__builtin_ctz(more)]);
    fprintf(out, "  %7s  %6s  %6s  %-15s  %-13s\n", "P99/SLO", "CPU%", "MEM%",
            ask->twin ? "COST LAST / ALL" : "COST $", ask->twin ? "REWARD (GAIN)" : "REWARD");
}

void aw__runrows_episode(FILE *out, const struct aw_daemon_config *ask,
                         const struct aw__runrow *row, int64_t at_us)
{
    const struct aw_totals *own = &row->recent[AW_JOB_AWARE], *twin = &row->recent[AW_JOB_TWIN];
    char clock[AW_RUN_CLOCK_MAX], cpu[AW_QUANTITY_TEXT_MAX], memory[AW_QUANTITY_TEXT_MAX];
    char ratio[16] = "-", cost[32], reward[32];
    const double steps = own->steps ? (double)own->steps : 1;
    if (row->slo_us > 0 && isfinite(row->latency_us))
        snprintf(ratio, sizeof ratio, "%.2f", row->latency_us / row->slo_us);
    if (ask->twin) {
        snprintf(cost, sizeof cost, "%5.2fx / %5.2fx", aw__run_cost_ratio(row->recent),
                 aw__run_cost_ratio(row->total));
        snprintf(reward, sizeof reward, "%6.1f (%+.1f)", aw__run_reward(own, row->episode_steps),
                 aw__run_reward(own, row->episode_steps) -
                     aw__run_reward(twin, row->episode_steps));
    } else {
        snprintf(cost, sizeof cost, "%8.4f", own->cost);
        snprintf(reward, sizeof reward, "%6.1f", aw__run_reward(own, row->episode_steps));
    }
    fprintf(out, "%9s  %-*.*s  %7" PRIu32 "  %-8s  %4.0f%%  %3" PRIu32 "/%-4" PRIu32 "  %6s  %7s",
            aw_run_clock(at_us, clock, sizeof clock), name_width(ask), name_width(ask), row->name,
            row->episodes, aw_stage_name(row->stage), 100 * (double)own->agent_steps / steps,
            row->ready, row->wanted,
            aw_quantity_round_cpu(row->cpu_millicores, AW_QUANTITY_MILLI, cpu, sizeof cpu),
            aw_quantity_round_memory(row->memory_bytes, memory, sizeof memory));
    for (uint32_t more = aw__run_more(ask); more; more &= more - 1) {
        const enum aw_resource r = (enum aw_resource)__builtin_ctz(more);
        const double amount = row->amount[r] > 0 ? (double)row->amount[r] : NAN;
        char text[AW_SHOW_MAX];
        fprintf(out, "  %7s", aw_show_amount(r, amount, text, sizeof text));
    }
    fprintf(out, "  %7s  %5.1f%%  %5.1f%%  %-15s  %-13s", ratio, 100 * own->cpu_utilisation / steps,
            100 * own->memory_utilisation / steps, cost, reward);
    if (ask->twin)
        fprintf(out, "  missed %" PRIu64 " (fallback %" PRIu64 ")\n", own->violations,
                twin->violations);
    else
        fprintf(out, "  missed %" PRIu64 "\n", own->violations);
}

void aw__runrows_event(FILE *out, const struct aw_daemon_config *ask,
                       const struct aw_history_event *event)
{
    static const char mark[] = {
        [AW_HISTORY_STAGE] = '>',
        [AW_HISTORY_TRIP] = '!',
        [AW_HISTORY_SCENARIO] = '~',
        [AW_HISTORY_FAULT] = '~',
    };
    char clock[AW_RUN_CLOCK_MAX];
    fprintf(out, "%9s  %-*.*s  %c %s\n", aw_run_clock(event->at_us, clock, sizeof clock),
            name_width(ask), name_width(ask),
            event->workload < ask->count ? aw_run_name(ask->workload[event->workload].pilot.name)
                                         : "cluster",
            mark[event->kind], event->text);
}
