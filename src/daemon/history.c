/*
 * history.c - what has happened in a run, for its summary and its plots, and for the file that
 * lets a resumed run tell the whole story.
 */
#include "daemon/history.h"

#include "base/envelope.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES_MAX ((size_t)1 << 30)
#define PREFIX    "history-"

/* One block: everything that a save holds lies in it, one part after the other. */
static void carve(struct aw_history *h, struct aw_carve *carve, bool plots)
{
    h->name = aw_carve_take(carve, h->count, sizeof *h->name);
    h->counts = aw_carve_take(carve, h->count, sizeof *h->counts);
    h->episodes_seen = aw_carve_take(carve, h->count, sizeof *h->episodes_seen);
    h->event = aw_carve_take(carve, AW_HISTORY_EVENTS_MAX, sizeof *h->event);
    h->episode_count = aw_carve_take(carve, h->count, sizeof *h->episode_count);
    h->episode_span = aw_carve_take(carve, h->count, sizeof *h->episode_span);
    h->episode_fill = aw_carve_take(carve, h->count, sizeof *h->episode_fill);
    if (!plots)
        return;
    h->episode =
        aw_carve_take(carve, (size_t)h->count * AW_HISTORY_EPISODES_MAX, sizeof *h->episode);
    h->point = aw_carve_take(carve, (size_t)h->plotted * AW_HISTORY_POINTS_MAX, sizeof *h->point);
}

/* Nothing has happened yet. */
static void begin(struct aw_history *h)
{
    const size_t names = h->count * sizeof *h->name;
    memset((char *)h->block + names, 0, h->block_bytes - names);
    h->steps = h->event_count = 0;
    h->stride = 1;
    h->points = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        h->episode_span[i] = 1;
        h->counts[i].retrained_us = AW_NEVER;
    }
}

enum aw_err aw_history_init(struct aw_history *h, const struct aw_daemon_config *ask,
                            struct aw_diag *diag)
{
    /* a run that is kept may be asked for a report when it is resumed */
    const bool plots = *ask->report || *ask->state;
    *h = (struct aw_history){
        .count = ask->count,
        .plotted = ask->count < AW_HISTORY_PLOTTED_MAX ? ask->count : AW_HISTORY_PLOTTED_MAX,
        .step_s = ask->step_s,
    };
    struct aw_carve sizing = {0};
    carve(h, &sizing, plots);
    h->block_bytes = sizing.used;
    if (!(h->block = aw_alloc_new(NULL, h->block_bytes, 1)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the history of %" PRIu32 " workloads",
                       ask->count);
    struct aw_carve cutting = {.base = h->block};
    carve(h, &cutting, plots);
    for (uint32_t i = 0; i < h->count; i++)
        memcpy(h->name[i], ask->workload[i].pilot.name, sizeof h->name[i]);
    begin(h);
    return AW_OK;
}

void aw_history_deinit(struct aw_history *h)
{
    aw_alloc_free(NULL, h->block);
    *h = (struct aw_history){0};
}

/* --- events ----------------------------------------------------------------------------------- */

static struct aw_history_event *event_add(struct aw_history *h, int64_t at_us, uint32_t workload,
                                          enum aw_history_kind kind)
{
    struct aw_history_event *event = &h->event[h->event_count++ % AW_HISTORY_EVENTS_MAX];
    *event = (struct aw_history_event){.at_us = at_us, .workload = workload, .kind = kind};
    return event;
}

const struct aw_history_event *aw_history_event(const struct aw_history *h, uint64_t nth)
{
    if (nth >= h->event_count || nth >= AW_HISTORY_EVENTS_MAX)
        return NULL;
    return &h->event[(h->event_count - 1 - nth) % AW_HISTORY_EVENTS_MAX];
}

static uint32_t events_of_decision(struct aw_history *h, const struct aw_daemon_config *ask,
                                   const struct aw_job_step *step)
{
    const struct aw_decision *decision = step->decision;
    struct aw_history_counts *counts = &h->counts[step->workload];
    uint32_t added = 0;
    /* the watchdog first: it may be why the stage changed */
    if (decision->verdict == AW_WATCHDOG_TRIPPED) {
        struct aw_history_event *event = event_add(h, step->at_us, step->workload, AW_HISTORY_TRIP);
        char text[AW_WATCHDOG_TEXT_MAX];
        aw_watchdog_reason_format(&decision->watchdog, text, sizeof text);
        snprintf(event->text, sizeof event->text, "watchdog: %.*s", (int)sizeof event->text - 16,
                 text);
        counts->trips[decision->watchdog.cause]++;
        added++;
    }
    if (decision->moved) {
        struct aw_history_event *event =
            event_add(h, step->at_us, step->workload, AW_HISTORY_STAGE);
        event->from = decision->stay.from;
        event->to = decision->stay.to;
        const struct aw_pilot_config *pilot = &ask->workload[step->workload].pilot;
        char words[AW_LIFECYCLE_TEXT_MAX - 64];
        aw_lifecycle_reason_words(&decision->stay, pilot->lifecycle.offline_least,
                                  aw_fallback_names[pilot->fallback.kind], words, sizeof words);
        snprintf(event->text, sizeof event->text, "%s -> %s: %s",
                 aw_stage_name(decision->stay.from), aw_stage_name(decision->stay.to), words);
        counts->stages[decision->stage]++;
        if (decision->stay.from == AW_STAGE_SERVING)
            counts->retrained_us = step->at_us;
        added++;
    }
    return added;
}

/* Disturbances as they begin and end, by the schedule. */
static uint32_t events_of_schedule(struct aw_history *h, const struct aw_daemon_config *ask,
                                   const struct aw_job_step *step)
{
    const struct aw_schedule *schedule = &ask->workload[step->workload].scenarios;
    const int64_t step_us = llround(h->step_s * 1e6);
    uint32_t added = 0;
    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct aw_event *event = &schedule->event[i];
        const bool begins = event->from_us > step->at_us - step_us && event->from_us <= step->at_us;
        const bool ends = event->to_us > step->at_us - step_us && event->to_us <= step->at_us;
        if (!begins && !ends)
            continue;
        struct aw_history_event *added_event =
            event_add(h, step->at_us, step->workload, AW_HISTORY_SCENARIO);
        const struct aw_scenario *known = NULL;
        if (begins && !aw_scenario_find(event->name, &known, NULL))
            snprintf(added_event->text, sizeof added_event->text, "disturbed: %s, %s", event->name,
                     known->help);
        else
            snprintf(added_event->text, sizeof added_event->text, "disturbance %s: %s",
                     begins ? "begins" : "ends", event->name);
        added++;
    }
    return added;
}

uint32_t aw_history_cluster(struct aw_history *h, const struct aw_daemon_config *ask, int64_t at_us)
{
    static const char *const what[] = {
        [AW_PROFILE_FAULT_NODE] = "a node fails",
        [AW_PROFILE_FAULT_METRICS] = "the metrics fail",
        [AW_PROFILE_FAULT_API] = "the API fails: nothing can be changed",
    };
    const int64_t step_us = llround(h->step_s * 1e6);
    uint32_t added = 0;
    for (uint32_t i = 0; i < ask->set.cluster.fault_count; i++) {
        const struct aw_profile_fault *fault = &ask->set.cluster.fault[i];
        if (fault->at_us > at_us || fault->at_us <= at_us - step_us)
            continue;
        struct aw_history_event *event = event_add(h, at_us, UINT32_MAX, AW_HISTORY_FAULT);
        snprintf(event->text, sizeof event->text, "%s for %.0f s", what[fault->kind],
                 1e-6 * (double)fault->duration_us);
        added++;
    }
    return added;
}

/* --- points ----------------------------------------------------------------------------------- */

/* Means of what flows, the last of what is set, the worst of what must not be bad. */
static void point_merge(struct aw_history_point *into, const struct aw_history_point *p,
                        float weight)
{
    into->load += weight * (p->load - into->load);
    for (int w = 0; w < AW_JOB_WORLDS; w++) {
        into->ready[w] += weight * (p->ready[w] - into->ready[w]);
        into->cpu_used[w] += weight * (p->cpu_used[w] - into->cpu_used[w]);
        into->memory_used[w] += weight * (p->memory_used[w] - into->memory_used[w]);
        into->cost_per_hour[w] += weight * (p->cost_per_hour[w] - into->cost_per_hour[w]);
        into->wanted[w] = p->wanted[w];
        into->cpu_cores[w] = p->cpu_cores[w];
        into->memory_gib[w] = p->memory_gib[w];
        into->p99_ms[w] =
            fmaxf(into->p99_ms[w], p->p99_ms[w]); /* of a number and NAN: the number */
        into->missed[w] = (uint16_t)(into->missed[w] + p->missed[w]);
    }
    into->stage = p->stage;
    into->actor = p->actor;
}

static void points_halve(struct aw_history *h)
{
    for (uint32_t i = 0; i < h->plotted; i++) {
        struct aw_history_point *point = &h->point[(size_t)i * AW_HISTORY_POINTS_MAX];
        for (uint32_t k = 0; k < AW_HISTORY_POINTS_MAX / 2; k++) {
            const struct aw_history_point second = point[2 * k + 1];
            point[k] = point[2 * k];
            point_merge(&point[k], &second, 0.5F);
        }
    }
    h->stride *= 2;
    h->points = AW_HISTORY_POINTS_MAX / 2;
}

static void point_add(struct aw_history *h, const struct aw_job_step *step,
                      const struct aw_job_view *view, uint64_t nth_step)
{
    const struct aw_decision *decision = step->decision;
    struct aw_history_point p = {.load = (float)step->arrivals_per_s,
                                 .stage = (uint8_t)decision->stage,
                                 .actor = (uint8_t)decision->actor};
    (void)view;
    for (int w = 0; w < AW_JOB_WORLDS; w++) {
        const struct aw_score *truth = &step->truth[w];
        p.ready[w] = (float)step->replicas_ready[w];
        p.wanted[w] = (float)step->plan[w].replicas;
        p.cpu_cores[w] = (float)((double)step->plan[w].cpu_millicores * 1e-3);
        p.memory_gib[w] = (float)((double)step->plan[w].memory_bytes / AW_GIB_REAL);
        p.cpu_used[w] = (float)truth->cpu_utilisation;
        p.memory_used[w] = (float)truth->memory_utilisation;
        p.p99_ms[w] = (float)(truth->latency_us_slo * 1e-3);
        p.cost_per_hour[w] = (float)(truth->cost * 3600 / h->step_s);
        p.missed[w] = truth->violated;
    }
    const uint32_t slot = (uint32_t)(nth_step / h->stride), nth = (uint32_t)(nth_step % h->stride);
    struct aw_history_point *point =
        &h->point[(size_t)step->workload * AW_HISTORY_POINTS_MAX + slot];
    if (nth == 0)
        *point = p;
    else
        point_merge(point, &p, 1 / (float)(nth + 1));
    h->points = slot + 1;
}

/* --- episodes --------------------------------------------------------------------------------- */

static void episode_merge(struct aw_history_episode *into, const struct aw_history_episode *e,
                          float weight)
{
    for (int w = 0; w < AW_JOB_WORLDS; w++) {
        into->reward[w] += weight * (e->reward[w] - into->reward[w]);
        into->cost[w] += weight * (e->cost[w] - into->cost[w]);
        into->missed[w] += weight * (e->missed[w] - into->missed[w]);
    }
    into->agent_share += weight * (e->agent_share - into->agent_share);
    into->end_s = e->end_s;
    into->stage = e->stage;
}

static void episode_add(struct aw_history *h, const struct aw_job_step *step,
                        const struct aw_job_view *view)
{
    const uint32_t i = step->workload;
    struct aw_history_episode *list = &h->episode[(size_t)i * AW_HISTORY_EPISODES_MAX];
    struct aw_history_episode e = {.end_s = 1e-6 * (double)step->at_us + h->step_s,
                                   .stage = step->decision->stage};
    for (int w = 0; w < AW_JOB_WORLDS; w++) {
        const struct aw_totals *recent = &view->recent[w];
        if (recent->steps == 0)
            continue;
        e.reward[w] = (float)recent->reward;
        e.cost[w] = (float)recent->cost;
        e.missed[w] = (float)((double)recent->violations / (double)recent->steps);
    }
    const struct aw_totals *own = &view->recent[AW_JOB_AWARE];
    e.agent_share = own->steps ? (float)own->agent_steps / (float)own->steps : 0;
    if (h->episode_count[i] == AW_HISTORY_EPISODES_MAX &&
        h->episode_fill[i] == h->episode_span[i]) {
        for (uint32_t k = 0; k < AW_HISTORY_EPISODES_MAX / 2; k++) {
            const struct aw_history_episode second = list[2 * k + 1];
            list[k] = list[2 * k];
            episode_merge(&list[k], &second, 0.5F);
        }
        h->episode_count[i] /= 2;
        h->episode_span[i] *= 2;
        h->episode_fill[i] = h->episode_span[i];
    }
    if (h->episode_count[i] == 0 || h->episode_fill[i] == h->episode_span[i]) {
        list[h->episode_count[i]++] = e;
        h->episode_fill[i] = 1;
    } else {
        h->episode_fill[i]++;
        episode_merge(&list[h->episode_count[i] - 1], &e, 1 / (float)h->episode_fill[i]);
    }
}

uint32_t aw_history_step(struct aw_history *h, const struct aw_daemon_config *ask,
                         const struct aw_job_step *step, const struct aw_job_view *view)
{
    const struct aw_decision *decision = step->decision;
    struct aw_history_counts *counts = &h->counts[step->workload];
    const uint64_t nth_step = h->steps;
    counts->decisions++;
    counts->changes += decision->guard.plan.set != 0;
    counts->clipped += decision->guard.clips != 0;
    counts->held += decision->verdict != AW_WATCHDOG_PASS;
    for (uint32_t c = 0; c < AW_CLIP_COUNT; c++)
        counts->clips[c] += (decision->guard.clips & AW_CLIP_BIT(c)) != 0;
    uint32_t added = events_of_schedule(h, ask, step);
    added += events_of_decision(h, ask, step);
    /* more than once where a run goes on without the history that it had */
    while (h->point && step->workload == 0 && nth_step / h->stride >= AW_HISTORY_POINTS_MAX)
        points_halve(h);
    if (h->point && step->workload < h->plotted)
        point_add(h, step, view, nth_step);
    if (view->episodes > h->episodes_seen[step->workload]) {
        h->episodes_seen[step->workload] = view->episodes;
        if (h->episode)
            episode_add(h, step, view);
    }
    if (step->workload + 1 == h->count)
        h->steps++;
    return added;
}

/* --- a file ----------------------------------------------------------------------------------- */

struct head {
    struct aw_envelope envelope; /* the owner is the step */
    uint64_t event_count;
    uint32_t stride, points;
    uint32_t count, plots;
};
AW_LAYOUT(head_layout, struct head, 0, AW_ENVELOPE(envelope.), event_count, stride, points, count,
          plots);
AW_LAYOUT(event_layout, struct aw_history_event, 0, at_us, workload, kind, from, to, text);
AW_LAYOUT(point_layout, struct aw_history_point, 0, load, ready, wanted, cpu_cores, memory_gib,
          cpu_used, memory_used, p99_ms, cost_per_hour, missed, stage, actor, unused);
AW_LAYOUT(episode_layout, struct aw_history_episode, 0, end_s, reward, cost, missed, agent_share,
          stage);
AW_LAYOUT(counts_layout, struct aw_history_counts, 0, decisions, changes, clipped, clips, trips,
          held, stages, retrained_us);
static struct aw_format format = {
    .kind = "history",
    .what = "the history of a run",
    .version = 1,
    .layout = {head_layout, event_layout, point_layout, episode_layout, counts_layout}};

static const char *path_of(const char *dir, uint64_t steps, char *buf, size_t size)
{
    snprintf(buf, size, "%s/" PREFIX "%" PRIu64, dir, steps);
    return buf;
}

enum aw_err aw_history_save(const struct aw_history *h, const char *dir, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX];
    const size_t size = sizeof(struct head) + h->block_bytes;
    unsigned char *bytes = aw_alloc_new(NULL, size, 1);
    if (!bytes)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory to save %zu bytes", size);
    const struct head head = {.event_count = h->event_count,
                              .stride = h->stride,
                              .points = h->points,
                              .count = h->count,
                              .plots = h->point != NULL};
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, h->block, h->block_bytes);
    enum aw_err err = aw_envelope_write(&format, h->steps, bytes, size,
                                        path_of(dir, h->steps, path, sizeof path), diag);
    aw_alloc_free(NULL, bytes);
    return err;
}

/* Whether what was read can be gone on with: each figure is an index or a divisor from now on. */
static bool sound(const struct aw_history *h)
{
    if (h->stride == 0 || h->points > AW_HISTORY_POINTS_MAX ||
        h->steps / h->stride > AW_HISTORY_POINTS_MAX)
        return false;
    for (uint32_t i = 0; i < h->count; i++)
        if (h->episode_count[i] > AW_HISTORY_EPISODES_MAX || h->episode_span[i] == 0)
            return false;
    return true;
}

/* A history of `bytes`, which stay the caller's. False: they cannot be one. */
static bool view_of(void *bytes, size_t size, uint64_t steps, struct aw_history *ret)
{
    struct head head;
    struct aw_carve sizing = {0}, cutting = {.base = (unsigned char *)bytes + sizeof head};
    if (size < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    if (head.count == 0 || head.count > AW_SIM_WORKLOADS_MAX)
        return false;
    *ret = (struct aw_history){
        .count = head.count,
        .plotted = head.count < AW_HISTORY_PLOTTED_MAX ? head.count : AW_HISTORY_PLOTTED_MAX,
        .steps = steps,
        .stride = head.stride,
        .points = head.points,
        .event_count = head.event_count};
    carve(ret, &sizing, head.plots);
    if (sizing.used != size - sizeof head)
        return false;
    carve(ret, &cutting, head.plots);
    return sound(ret);
}

static uint32_t index_of(const struct aw_history *h, const char *name, uint32_t first)
{
    for (uint32_t i = 0; i < h->count; i++) {
        const uint32_t at = (first + i) % h->count;
        if (strncmp(h->name[at], name, sizeof h->name[at]) == 0)
            return at;
    }
    return UINT32_MAX;
}

/* What `old` has of each workload, under its name. */
static void take_over(struct aw_history *h, const struct aw_history *old)
{
    const uint64_t events =
        old->event_count < AW_HISTORY_EVENTS_MAX ? old->event_count : AW_HISTORY_EVENTS_MAX;
    begin(h);
    h->steps = old->steps;
    h->stride = old->stride;
    h->points = h->point && old->point ? old->points : 0;
    for (uint32_t i = 0; i < h->count; i++) {
        const uint32_t from = index_of(old, h->name[i], i);
        if (from == UINT32_MAX)
            continue;
        h->counts[i] = old->counts[from];
        h->episodes_seen[i] = old->episodes_seen[from];
        if (h->episode && old->episode) {
            h->episode_count[i] = old->episode_count[from];
            h->episode_span[i] = old->episode_span[from];
            h->episode_fill[i] = old->episode_fill[from];
            memcpy(&h->episode[(size_t)i * AW_HISTORY_EPISODES_MAX],
                   &old->episode[(size_t)from * AW_HISTORY_EPISODES_MAX],
                   AW_HISTORY_EPISODES_MAX * sizeof *h->episode);
        }
        if (h->point && old->point && i < h->plotted && from < old->plotted)
            memcpy(&h->point[(size_t)i * AW_HISTORY_POINTS_MAX],
                   &old->point[(size_t)from * AW_HISTORY_POINTS_MAX],
                   AW_HISTORY_POINTS_MAX * sizeof *h->point);
    }
    for (uint64_t n = old->event_count - events; n < old->event_count; n++) {
        struct aw_history_event event = old->event[n % AW_HISTORY_EVENTS_MAX];
        if (event.workload < old->count) {
            event.workload = index_of(h, old->name[event.workload], event.workload);
            if (event.workload == UINT32_MAX) /* it is gone */
                continue;
        }
        h->event[h->event_count++ % AW_HISTORY_EVENTS_MAX] = event;
    }
}

enum aw_err aw_history_load(struct aw_history *h, const char *dir, uint64_t steps,
                            struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX], aside[AW_FILE_PATH_MAX];
    void *bytes = NULL;
    size_t size = 0;
    struct aw_history old;
    enum aw_err err = aw_envelope_read(&format, steps, path_of(dir, steps, path, sizeof path),
                                       BYTES_MAX, NULL, &bytes, &size, diag);
    if (!err && !view_of(bytes, size, steps, &old))
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL, "figures out of range");
    if (!err)
        take_over(h, &old);
    aw_alloc_free(NULL, bytes);
    (void)aw_envelope_set_aside(path, err, aside, sizeof aside); /* the run goes on without it */
    return err;
}

void aw_history_prune(const char *dir, uint64_t keep_steps)
{
    char path[AW_FILE_PATH_MAX];
    DIR *folder = opendir(dir);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        uint64_t steps;
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
            aw_text_parse_u64(entry->d_name + strlen(PREFIX), &steps) || steps == keep_steps)
            continue;
        unlink(path_of(dir, steps, path, sizeof path));
    }
    closedir(folder);
}
