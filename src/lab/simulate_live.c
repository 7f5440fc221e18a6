/*
 * simulate_live.c - runs as they go, on a terminal: a line per policy, or a count.
 *
 * Redrawn at most ten times a second; lines never wrap, so that going up again finds their place.
 */
#include "lab/simulate.h"

#include "base/clock.h"
#include "base/quantity.h"
#include "frame/layout.h"
#include "frame/progress.h"
#include "frame/status_line.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum phase { WAITING, TUNING, RUNNING, DONE };

struct status {
    enum phase phase;
    struct aw_simulate_step step;
    uint64_t steps, violations;
    double reward;
};

struct aw__live {
    const struct aw__simulate *ask;
    FILE *out;
    bool on;
    pthread_mutex_t lock; /* of all below */
    uint32_t lines;       /* that are drawn */
    int64_t drawn_us;
    struct status status[AW_SIMULATE_POLICIES_MAX];
};

enum aw_err aw__live_new(const struct aw__simulate *ask, FILE *out, bool quiet,
                         struct aw__live **ret)
{
    const char *term = getenv("TERM");
    struct aw__live *live = aw_alloc_new(NULL, 1, sizeof *live);
    if (!live)
        return AW_ERR_NOMEM;
    live->ask = ask;
    live->out = out;
    live->on = !quiet && isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
    pthread_mutex_init(&live->lock, NULL);
    *ret = live;
    return AW_OK;
}

static void erase(struct aw__live *live)
{
    if (live->lines > 0)
        fprintf(live->out, "\r\033[%uA\033[J", live->lines);
    live->lines = 0;
}

/* A line cut to the terminal's width. */
static void line_put(struct aw__live *live, const char *text)
{
    const unsigned columns = aw_columns(live->out);
    fprintf(live->out, "%.*s\n", (int)(columns > 1 ? columns - 1 : 1), text);
    live->lines++;
}

static void status_put(struct aw__live *live, uint32_t policy)
{
    const struct status *s = &live->status[policy];
    const struct aw_simulate_settings *settings = &live->ask->config.settings;
    char line[256], load[AW_QUANTITY_TEXT_MAX], cpu[AW_QUANTITY_TEXT_MAX];
    char memory[AW_QUANTITY_TEXT_MAX], p99[AW_QUANTITY_TEXT_MAX] = "-";
    const uint64_t total = (uint64_t)settings->episodes * settings->episode_steps;
    if (s->phase < RUNNING || s->steps == 0) {
        snprintf(line, sizeof line, "%-16s %s", live->ask->policy[policy].name,
                 s->phase == TUNING ? "is being tuned" : "");
    } else {
        if (isfinite(s->step.truth.latency_us_p99))
            aw_duration_round((int64_t)s->step.truth.latency_us_p99, p99, sizeof p99);
        snprintf(line, sizeof line,
                 "%-16s %3d%%  load %-8s %2" PRIu32 " x %-6s %-7s p99 %-7s missed %4.1f%%  "
                 "reward %.0f",
                 live->ask->policy[policy].name, (int)(100 * s->steps / total),
                 aw_rate_round(s->step.arrivals_per_s, load, sizeof load), s->step.replicas_wanted,
                 aw_quantity_round_cpu(s->step.cpu_millicores, AW_QUANTITY_MILLI, cpu, sizeof cpu),
                 aw_quantity_round_memory(s->step.memory_bytes, memory, sizeof memory), p99,
                 100 * (double)s->violations / (double)s->steps,
                 s->reward / (double)s->steps * settings->episode_steps);
    }
    line_put(live, line);
}

/* True when it is time to draw again; then the old lines are gone. */
static bool begin(struct aw__live *live)
{
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    if (live->lines > 0 && now_us - live->drawn_us < AW_STATUS_REDRAW_US)
        return false;
    live->drawn_us = now_us;
    erase(live);
    return true;
}

static void draw(struct aw__live *live)
{
    if (!begin(live))
        return;
    for (uint32_t i = 0; i < live->ask->policy_count; i++)
        status_put(live, i);
    fflush(live->out);
}

static void phase_set(struct aw__live *live, uint32_t policy, enum phase phase)
{
    if (!live->on)
        return;
    pthread_mutex_lock(&live->lock);
    live->status[policy].phase = phase;
    draw(live);
    pthread_mutex_unlock(&live->lock);
}

void aw__live_tune(struct aw__live *live, uint32_t policy)
{
    phase_set(live, policy, TUNING);
}

void aw__live_done(struct aw__live *live, uint32_t policy)
{
    phase_set(live, policy, DONE);
}

void aw__live_step(struct aw__live *live, uint32_t policy, const struct aw_simulate_step *step)
{
    if (!live->on)
        return;
    pthread_mutex_lock(&live->lock);
    struct status *s = &live->status[policy];
    s->phase = RUNNING;
    s->step = *step;
    s->steps++;
    s->violations += step->violated;
    s->reward += step->reward;
    draw(live);
    pthread_mutex_unlock(&live->lock);
}

void aw__live_count(struct aw__live *live, uint32_t done, uint32_t total)
{
    char line[128];
    if (!live->on)
        return;
    pthread_mutex_lock(&live->lock);
    if (begin(live)) {
        snprintf(line, sizeof line, "%" PRIu32 " of %" PRIu32 " runs done, %d%%", done, total,
                 (int)(100.0 * done / total));
        line_put(live, line);
        fflush(live->out);
    }
    pthread_mutex_unlock(&live->lock);
}

void aw__live_free(struct aw__live *live)
{
    if (!live)
        return;
    erase(live);
    fflush(live->out);
    pthread_mutex_destroy(&live->lock);
    aw_alloc_free(NULL, live);
}
