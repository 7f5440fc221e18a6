/*
 * run_lines.c - a run for programs: one JSON object or one CSV row per workload and step.
 *
 * Written by hand rather than through a tree: a day of five workloads is thirty thousand lines.
 */
#include "cli/run.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static void put_text(FILE *out, const char *text)
{
    json_t *string = json_string(text);
    char *dump = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    fputs(dump ? dump : "\"\"", out);
    free(dump);
    json_decref(string);
}

static void put_real(FILE *out, const char *key, double value)
{
    char text[AW_TEXT_REAL_MAX];
    fprintf(out, "\"%s\":%s", key,
            isfinite(value) ? aw_text_real(value, text, sizeof text) : "null");
}

static void put_figure(FILE *out, const char *key, const struct aw_figure *us)
{
    putc(',', out);
    put_real(out, key, us->at_us == AW_NEVER ? (double)NAN : us->value * 1e-3);
}

static void put_action(FILE *out, const char *key, const float *action, uint32_t dim, bool given)
{
    char text[AW_TEXT_REAL_MAX];
    fprintf(out, ",\"%s\":", key);
    if (!given) {
        fputs("null", out);
        return;
    }
    for (uint32_t i = 0; i < dim; i++)
        fprintf(out, "%c%s", i ? ',' : '[',
                isfinite(action[i]) ? aw_text_real_f32(action[i], text, sizeof text) : "null");
    putc(']', out);
}

static void put_plan(FILE *out, const char *key, const struct aw_plan *plan)
{
    fprintf(out, ",\"%s\":{", key);
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        fprintf(out, "%s\"%s\":%" PRId64, i ? "," : "", aw_resource_table[i].member,
                plan->amount[i]);
    putc('}', out);
}

static void put_truth(FILE *out, const char *key, const struct aw_job_step *step,
                      enum aw_job_world world)
{
    const struct aw_score *truth = &step->truth[world];
    fprintf(out, ",\"%s\":{\"ready\":%" PRIu32 ",\"violated\":%s,", key,
            step->replicas_ready[world], truth->violated ? "true" : "false");
    put_real(out, "latency_ms", truth->latency_us_slo * 1e-3);
    putc(',', out);
    put_real(out, "cost", truth->cost);
    putc(',', out);
    put_real(out, "reward", truth->paper_reward);
    putc(',', out);
    put_real(out, "cpu_utilization", truth->cpu_utilisation);
    putc(',', out);
    put_real(out, "memory_utilization", truth->memory_utilisation);
    putc('}', out);
}

static void put_reasons(FILE *out, const struct aw_decision *decision)
{
    char text[AW_GUARD_TEXT_MAX];
    bool first = true;
    fputs(",\"clips\":[", out);
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++) {
        if (!(decision->guard.clips & AW_CLIP_BIT(c)))
            continue;
        fprintf(out, "%s\"%s\"", first ? "" : ",", aw_clip_name((enum aw_clip)c));
        first = false;
    }
    putc(']', out);
    if (decision->moved) {
        fputs(",\"moved\":", out);
        put_text(out, aw_lifecycle_reason_format(&decision->stay, text, sizeof text));
    }
    if (decision->verdict != AW_WATCHDOG_PASS) {
        fprintf(out, ",\"watchdog\":{\"tripped\":%s,\"cause\":\"%s\",\"text\":",
                decision->verdict == AW_WATCHDOG_TRIPPED ? "true" : "false",
                aw_watchdog_cause_name(decision->watchdog.cause));
        put_text(out, aw_watchdog_reason_format(&decision->watchdog, text, sizeof text));
        putc('}', out);
    }
    if (decision->actor == AW_ACTOR_FALLBACK) {
        fputs(",\"fallback\":", out);
        put_text(out, aw_fallback_reason_format(&decision->fallback, text, sizeof text));
    }
}

static void step_json(FILE *out, const struct aw_daemon_config *ask, const struct aw_job_step *step)
{
    const struct aw_decision *decision = step->decision;
    const struct aw_guard_result *guard = &decision->guard;
    fputs("{\"type\":\"step\",\"workload\":", out);
    put_text(out, ask->workload[step->workload].pilot.name);
    putc(',', out);
    put_real(out, "at_s", 1e-6 * (double)step->at_us);
    fprintf(out,
            ",\"episode\":%" PRIu32 ",\"step\":%" PRIu32
            ",\"stage\":\"%s\",\"actor\":\"%s\",\"model\":\"%016" PRIx64 "\"",
            decision->episode, decision->step, aw_stage_name(decision->stage),
            aw_actor_name(decision->actor), decision->policy_id);
    put_action(out, "action", decision->action, decision->act_dim, true);
    put_action(out, "shadow", decision->shadow, decision->act_dim, decision->has_shadow);
    put_plan(out, "plan", &guard->plan);
    fputs(",\"changed\":[", out);
    for (uint32_t i = 0, said = 0; i < AW_RESOURCES; i++)
        if (guard->plan.set & AW_PLAN_BIT(i))
            fprintf(out, "%s\"%s\"", said++ ? "," : "", aw_resource_table[i].name);
    putc(']', out);
    fprintf(out, ",\"applied\":%s", decision->applied ? "true" : "false");
    put_reasons(out, decision);
    putc(',', out);
    put_real(out, "arrivals_per_s", step->arrivals_per_s);
    if (step->sample) {
        put_figure(out, "inside_ms_p50", &step->sample->inside_us_p50);
        put_figure(out, "inside_ms_p99", &step->sample->inside_us_p99);
    }
    put_truth(out, "aware", step, AW_JOB_AWARE);
    if (ask->twin) {
        put_truth(out, "twin", step, AW_JOB_TWIN);
        put_plan(out, "twin_plan", &step->plan[AW_JOB_TWIN]);
    }
    fputs("}\n", out);
}

static void csv_real(FILE *out, double value)
{
    char text[AW_TEXT_REAL_MAX];
    fprintf(out, ",%s", isfinite(value) ? aw_text_real(value, text, sizeof text) : "");
}

static void csv_world(FILE *out, const struct aw_job_step *step, enum aw_job_world world)
{
    const struct aw_score *truth = &step->truth[world];
    const struct aw_plan *plan = &step->plan[world];
    fprintf(out, ",%" PRIu32, step->replicas_ready[world]);
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        fprintf(out, ",%" PRId64, plan->amount[i]);
    fprintf(out, ",%d", truth->violated);
    csv_real(out, truth->latency_us_slo * 1e-3);
    csv_real(out, truth->cost);
    csv_real(out, truth->paper_reward);
    csv_real(out, truth->cpu_utilisation);
    csv_real(out, truth->memory_utilisation);
}

static void step_csv(FILE *out, const struct aw_daemon_config *ask, const struct aw_job_step *step)
{
    const struct aw_decision *decision = step->decision;
    const char *separator = "";
    fprintf(out, "%s", ask->workload[step->workload].pilot.name);
    csv_real(out, 1e-6 * (double)step->at_us);
    fprintf(out, ",%" PRIu32 ",%" PRIu32 ",%s,%s,%016" PRIx64, decision->episode, decision->step,
            aw_stage_name(decision->stage), aw_actor_name(decision->actor), decision->policy_id);
    fprintf(out, ",%s,",
            decision->verdict == AW_WATCHDOG_PASS
                ? ""
                : aw_watchdog_cause_name(decision->watchdog.cause));
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++) {
        if (decision->guard.clips & AW_CLIP_BIT(c)) {
            fprintf(out, "%s%s", separator, aw_clip_name((enum aw_clip)c));
            separator = " ";
        }
    }
    csv_real(out, step->arrivals_per_s);
    csv_world(out, step, AW_JOB_AWARE);
    if (ask->twin)
        csv_world(out, step, AW_JOB_TWIN);
    putc('\n', out);
}

static void csv_heads(FILE *out, const char *prefix)
{
    static const char *const heads[] = {"violated", "latency_ms",      "cost",
                                        "reward",   "cpu_utilization", "memory_utilization"};
    fprintf(out, ",%sready", prefix);
    for (uint32_t i = 0; i < AW_RESOURCES; i++)
        fprintf(out, ",%s%s", prefix, aw_resource_table[i].member);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        fprintf(out, ",%s%s", prefix, heads[i]);
}

void aw__runlines_head(FILE *out, bool json, const struct aw_daemon_config *ask, uint64_t steps)
{
    if (!json) {
        fputs("workload,at_s,episode,step,stage,actor,model,watchdog,clips,arrivals_per_s", out);
        csv_heads(out, "");
        if (ask->twin)
            csv_heads(out, "twin_");
        putc('\n', out);
        return;
    }
    fputs("{\"type\":\"run\",\"workloads\":[", out);
    for (uint32_t i = 0; i < ask->count; i++) {
        if (i)
            putc(',', out);
        put_text(out, ask->workload[i].pilot.name);
    }
    fprintf(out, "],\"cluster\":\"%s\",\"seed\":%" PRIu64 ",\"twin\":%s,\"fallback\":",
            ask->local ? "local" : "sim", ask->seed, ask->twin ? "true" : "false");
    put_text(out, ask->fallback);
    putc(',', out);
    put_real(out, "step_s", ask->step_s);
    fprintf(out, ",\"steps_before\":%" PRIu64 ",\"steps\":%" PRIu64 "}\n", steps, ask->steps_total);
}

void aw__runlines_step(FILE *out, bool json, const struct aw_daemon_config *ask,
                       const struct aw_job_step *step)
{
    if (json)
        step_json(out, ask, step);
    else
        step_csv(out, ask, step);
}
