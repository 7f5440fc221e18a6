/*
 * daemon.c - `aware run --daemon`: the same run, for good, with people in it.
 *
 * Steps are made on a thread of their own; the API answers on another; this one waits for signals
 * and tells systemd that the loop is alive. A log or a store that cannot be written is lived with:
 * nothing is changed until it can be again, and that is said once when it begins and once when it
 * is over. SIGHUP reads the files anew (reload.c).
 */
#include "daemon/daemon.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "daemon/agents.h"
#include "daemon/daemon_internal.h"
#include "daemon/map.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define SAVE_US   (INT64_C(30) * 1000000) /* of real time between saves, at most */
#define PIECE_US  100000                  /* between two looks at the signals */
#define STATUS_US (INT64_C(5) * 1000000)  /* between two lines for systemctl status */

/* --- what is told ----------------------------------------------------------------------------- */

static void log_event(struct aw__daemon *d, const struct aw_history_event *event)
{
    const struct aw_daemon_config *ask = &d->kept.config;
    const char *name =
        event->workload < ask->count ? ask->workload[event->workload].pilot.name : "cluster";
    if (event->kind == AW_HISTORY_STAGE)
        aw_log_info(d->log, "stage", AW_LOG_STR("workload", name), AW_LOG_STR("why", event->text));
    else
        aw_log_warn(d->log, event->kind == AW_HISTORY_TRIP ? "watchdog" : "disturbance",
                    AW_LOG_STR("workload", name), AW_LOG_STR("why", event->text));
}

static void on_step(void *ctx, const struct aw_job_step *step)
{
    struct aw__daemon *d = ctx;
    const struct aw_daemon_config *ask = &d->kept.config;
    const struct aw_pilot_config *config = &ask->workload[step->workload].pilot;
    struct aw_job_view view;
    char sentence[AW_EXPLANATION_SENTENCE_MAX];
    uint32_t events = 0;
    aw_job_view(d->kept.job, step->workload, &view);
    if (step->workload == 0) {
        events += aw_history_cluster(&d->kept.history, ask, step->at_us);
        for (uint32_t s = 0; s < AW_STAGE_COUNT; s++)
            d->stages[s] = 0;
    }
    events += aw_history_step(&d->kept.history, ask, step, &view);
    for (uint32_t n = events; n-- > 0;) {
        const struct aw_history_event *event = aw_history_event(&d->kept.history, n);
        if (event)
            log_event(d, event);
    }
    d->stages[step->decision->stage]++;
    aw__map_tell(d->map, step->workload, view.episodes);
    if (ask->twin) {
        const struct aw_score *truth = &step->truth[AW_JOB_TWIN];
        aw_api_twin(&d->api, step->workload,
                    &(struct aw_recent_twin){.cost_per_hour = truth->cost * 3600 / ask->step_s,
                                             .latency_us = truth->latency_us_slo,
                                             .reward = truth->paper_reward,
                                             .replicas = step->plan[AW_JOB_TWIN].replicas,
                                             .missed = truth->violated});
    }
    if (step->decision->applied && aw_log_enabled(d->log, AW_LOG_INFO))
        aw_log_info(d->log, "changed", AW_LOG_STR("workload", config->name),
                    AW_LOG_STR("what", aw_explanation_sentence(config, step->decision, sentence,
                                                               sizeof sentence)));
}

static void systemd_status(struct aw__daemon *d)
{
    const int64_t now = aw_clock_monotonic_us(NULL);
    if (now - d->status_us < STATUS_US)
        return;
    d->status_us = now;
    sd_notifyf(
        0, "STATUS=%" PRIu32 " workloads: %u offline, %u online, %u serving; step %" PRIu64 "%s",
        d->kept.config.count, d->stages[AW_STAGE_OFFLINE], d->stages[AW_STAGE_ONLINE],
        d->stages[AW_STAGE_SERVING], aw_job_steps(d->kept.job),
        d->audit_ails ? "; " AW_DESK_HELD ": the audit log cannot be written" : "");
}

/* Once when it begins, once when it is over. */
static void tell_trouble(struct aw__daemon *d, bool *ails, bool now, const char *what,
                         const char *why)
{
    if (now && !*ails)
        aw_log_error(d->log, what, AW_LOG_STR("why", why));
    else if (!now && *ails)
        aw_log_info(d->log, "over", AW_LOG_STR("what", what));
    *ails = now;
}

static void tell_health(struct aw__daemon *d, const struct aw_diag *step_diag)
{
    const struct aw_loop_counts *counts = aw_job_counts(d->kept.job);
    struct aw_diag why = {0};
    aw_desk_lock(d->kept.desk);
    const enum aw_err err = aw_desk_health(d->kept.desk, &why);
    d->orders = aw_desk_counts(d->kept.desk)->orders;
    aw_desk_unlock(d->kept.desk);
    tell_trouble(d, &d->audit_ails, err != AW_OK, AW_DESK_HELD ": the audit log cannot be written",
                 why.text);
    const bool lost = counts->store_failures > d->store_failures;
    d->store_failures = counts->store_failures;
    tell_trouble(d, &d->store_ails, lost, AW_DESK_HELD ": steps cannot be kept", step_diag->text);
    aw_api_tick(&d->api, counts, lost ? step_diag->text : NULL);
    d->ticked_us = aw_clock_monotonic_us(NULL);
}

/* --- steps ------------------------------------------------------------------------------------ */

/* What verbs read once this process is gone. A failure is told, and tried again with the next. */
static enum aw_err views_write(struct aw__daemon *d, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX + 32], *text = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/" AW__DAEMON_VIEWS, d->kept.config.state);
    enum aw_err err = aw_api_views(&d->api, &text, &len);
    if (err)
        return aw_fail(diag, err, "%s: %s", AW__DAEMON_VIEWS, aw_err_text(err));
    err = aw_file_replace(path, text, len, NULL, diag);
    free(text);
    return err;
}

static const char *recent_path(const struct aw__daemon *d, char *buf, size_t size)
{
    snprintf(buf, size, "%s/" AW__DAEMON_RECENT, d->kept.config.state);
    return buf;
}

enum aw_err aw__daemon_save(struct aw__daemon *d, struct aw_diag *diag)
{
    struct aw_diag why = {0};
    enum aw_err err = aw_session_save(&d->kept, &why);
    const enum aw_err seen = views_write(d, err ? NULL : &why);
    err = err ? err : seen;
    /* behind the state, so that it is never newer */
    char path[AW_FILE_PATH_MAX + 32];
    err = err ? err : aw_recent_save(&d->api.watch, recent_path(d, path, sizeof path), &why);
    tell_trouble(d, &d->save_ails, err != AW_OK, "the state cannot be saved", why.text);
    if (err && diag)
        *diag = why;
    d->saved_orders = d->orders;
    /* a disk that is full is not asked in every step */
    d->kept.saved_us = aw_clock_monotonic_us(NULL);
    d->kept.saved_steps = d->kept.history.steps;
    return err;
}

static enum aw_err steps(struct aw__daemon *d, struct aw_diag *diag)
{
    struct aw_session *s = &d->kept;
    while (!*s->stop && aw_job_steps(s->job) < s->config.steps_total) {
        struct aw_diag step_diag = {0};
        enum aw_err err = aw_job_step(s->job, on_step, d, &step_diag);
        if (err) {
            *diag = step_diag;
            return err;
        }
        tell_health(d, &step_diag);
        systemd_status(d);
        const uint64_t since = s->history.steps - s->saved_steps;
        if (since >= s->save_every || d->orders != d->saved_orders ||
            aw_clock_monotonic_us(NULL) - s->saved_us >= SAVE_US)
            (void)aw__daemon_save(d, NULL); /* told there, and tried again */
        aw_session_wait(s, d->life->hangup);
        while (*d->life->hangup && !*s->stop) {
            *d->life->hangup = 0;
            if ((err = aw__daemon_reload(d, diag)))
                return err;
            aw__session_wait_on(s, d->life->hangup);
        }
    }
    return AW_OK;
}

static void *steps_thread(void *ctx)
{
    struct aw__daemon *d = ctx;
    d->err = steps(d, &d->diag);
    d->done = true;
    return NULL;
}

/* Signals are for this thread. systemd hears of us as long as ticks come. */
static enum aw_err steps_watched(struct aw__daemon *d, struct aw_diag *diag)
{
    uint64_t watchdog_us = 0;
    const bool watched = sd_watchdog_enabled(0, &watchdog_us) > 0;
    int64_t told_us = 0;
    bool stopping = false;
    pthread_t thread;
    const int failed = aw_thread_begin(&thread, steps_thread, d);
    if (failed)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread to run on: %s", strerror(failed));
    while (!d->done) {
        const int64_t now = aw_clock_monotonic_us(NULL);
        const bool alive = 1e-6 * (double)(now - d->ticked_us) < d->api.config.stuck_s;
        if (watched && alive && now - told_us >= (int64_t)(watchdog_us / 2)) {
            sd_notify(0, "WATCHDOG=1");
            told_us = now;
        }
        if (*d->kept.stop && !stopping) {
            stopping = true;
            aw_api_stopping(&d->api);
            sd_notify(0, "STOPPING=1\nSTATUS=saving");
            aw_log_info(d->log, "stopping", AW_LOG_STR("signal", strsignal(*d->kept.stop)));
        }
        const enum aw_err err = aw_clock_sleep_until(NULL, now + PIECE_US);
        (void)err; /* a signal only brings the next look forward */
    }
    pthread_join(thread, NULL);
    if (d->err)
        *diag = d->diag;
    return d->err;
}

/* --- the daemon ------------------------------------------------------------------------------- */

static enum aw_err api_open(struct aw__daemon *d, struct aw_diag *diag)
{
    const struct aw_daemon_config *ask = &d->kept.config;
    struct aw_api_config *config = aw_alloc_new(NULL, 1, sizeof *config);
    enum aw_err err = config ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for the API");
    if (!err) {
        const double step_s = isinf(ask->speed) ? 0 : ask->step_s / ask->speed;
        config->desk = d->kept.desk;
        config->virtual_time = !ask->local || ask->speed != 1;
        config->speed = ask->speed;
        config->step_s = ask->step_s;
        config->stuck_s = AW__DAEMON_STUCK_S + 3 * step_s;
        snprintf(config->version, sizeof config->version, "%s", d->life->version);
        snprintf(config->cluster, sizeof config->cluster, "%s", ask->local ? "local" : "sim");
        snprintf(config->state, sizeof config->state, "%.*s", (int)sizeof config->state - 1,
                 ask->state);
        snprintf(config->audit, sizeof config->audit, "%.*s/" AW_DAEMON_AUDIT,
                 (int)(sizeof config->audit - sizeof AW_DAEMON_AUDIT - 1), ask->state);
        snprintf(config->store, sizeof config->store, "%.*s", (int)sizeof config->store - 1,
                 ask->store);
        snprintf(config->reports, sizeof config->reports, "%.*s", (int)sizeof config->reports - 1,
                 ask->reports);
        config->timing = &d->timing;
        if ((err = aw_api_init(&d->api, config)))
            aw_fail(diag, err, "no memory for the API");
    }
    if (!err && d->kept.resumed) { /* plots and sums go on; without them the daemon does, too */
        char path[AW_FILE_PATH_MAX + 32];
        struct aw_diag why = {0};
        if (aw_recent_load(&d->api.watch, recent_path(d, path, sizeof path), &why))
            aw_log_warn(d->log, "plots begin anew", AW_LOG_STR("why", why.text));
    }
    err =
        err ? err : aw_doors_open(&d->doors, &d->api, ask->socket, &ask->door, &ask->probes, diag);
    aw_alloc_free(NULL, config);
    return err;
}

static enum aw_err begin(struct aw__daemon *d, struct aw_diag *diag)
{
    aw_alloc_steady();
    enum aw_err err = d->life->read(d->life->ctx, &d->kept.config, diag);
    if (!err && (err = aw_tick_timing_init(&d->timing, NULL)))
        aw_fail(diag, err, "no memory for a clock");
    d->kept.timing = &d->timing;
    err = err ? err : aw_session_open(&d->kept, diag);
    err = err ? err : aw_session_begin(&d->kept, diag);
    if (err)
        return err;
    d->store_failures = aw_job_counts(d->kept.job)->store_failures;
    d->ticked_us = d->kept.begin_us;
    if ((err = api_open(d, diag)) ||
        (err = aw__span_door_open(&d->spans, &d->kept.config, d->log, diag)))
        return err;
    aw_api_agents(&d->api, aw__agents_exchange(d->kept.agents));
    aw__map_open(&d->kept.config, d->log, &d->api, &d->map);
    aw_log_info(d->log, d->kept.resumed ? "resumed" : "started",
                AW_LOG_INT("workloads", d->kept.config.count),
                AW_LOG_INT("step", (int64_t)d->kept.steps_before),
                AW_LOG_STR("state", d->kept.config.state),
                AW_LOG_STR("socket", d->kept.config.socket));
    d->kept.begun = true;
    aw_doors_tell(&d->doors, &d->kept.config.door, d->log);
    sd_notifyf(0, "READY=1\nSTATUS=%" PRIu32 " workloads", d->kept.config.count);
    return AW_OK;
}

enum aw_err aw_daemon_run(const struct aw_daemon_life *life, struct aw_diag *diag)
{
    struct aw__daemon *d = aw_alloc_new(NULL, 1, sizeof *d);
    if (!d)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a daemon");
    d->life = life;
    d->log = d->kept.log = life->log;
    d->kept.stop = life->stop;
    d->kept.lock_fd = -1;
    enum aw_err err = begin(d, diag);
    const bool begun = !err;
    err = err ? err : steps_watched(d, diag);
    if (begun && d->kept.job && d->kept.desk) {
        struct aw_diag why = {0};
        const enum aw_err saved = aw__daemon_save(d, &why);
        if (saved && !err) {
            err = saved;
            *diag = why;
        }
        aw_doors_close(&d->doors);
        aw_desk_detach(d->kept.desk, aw_job_now_us(d->kept.job),
                       *d->kept.stop ? strsignal(*d->kept.stop)
                       : err         ? "an error"
                                     : "the end of the run");
        if (!err)
            aw_log_info(d->log, "stopped", AW_LOG_INT("step", (int64_t)d->kept.history.steps));
    } else {
        aw_doors_close(&d->doors);
    }
    aw__span_door_close(d->spans);
    aw__map_close(d->map);
    aw_api_deinit(&d->api);
    aw_session_close(&d->kept);
    aw_tick_timing_deinit(&d->timing);
    aw_alloc_free(NULL, d);
    return err;
}
