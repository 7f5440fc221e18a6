/*
 * run_session.c - what a run keeps, and how it is taken up again.
 *
 * Everything lies in one directory:
 *
 *   lock              held while a run goes on
 *   trajectories.db   every step, unless --store says otherwise
 *   audit/            what was decided and ordered, with a daemon or --audit
 *   decisions.db      why, for a while
 *   views.json        of a daemon: what it would answer, as of a save
 *   agents            socket where agents of other processes come in
 *   history-STEPS     what summary and plots tell, as of a save
 *   run.state         the job itself, saved last: it is what makes the save
 */
#include "cli/run.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/daemon.h"
#include "cli/run_agents.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAVE_EPISODES 5u /* of simulated time between saves, at most */
#define STATE_FILE    "run.state"

static const char *state_path(const struct aw__runsession *s, const char *name, char *buf,
                              size_t size)
{
    snprintf(buf, size, "%.*s/%s", (int)(size - strlen(name) - 2), s->ask.state, name);
    return buf;
}

/* Forgets an earlier run. The store goes only where it is our own. A record is never removed: the
 * audit log of the earlier run is put aside under another name. */
static enum aw_err forget(const struct aw__runsession *s, struct aw_diag *diag)
{
    static const char *const ours[] = {
        STATE_FILE,      "trajectories.db",      "trajectories.db-wal",  "trajectories.db-shm",
        AW__RUN_JOURNAL, AW__RUN_JOURNAL "-wal", AW__RUN_JOURNAL "-shm", AW__RUN_VIEWS};
    char path[AW_TEXT_MAX + 32], aside[AW_TEXT_MAX + 64];
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        unlink(state_path(s, ours[i], path, sizeof path));
    aw__runhistory_prune(s->ask.state, UINT64_MAX);
    state_path(s, AW__RUN_AUDIT, path, sizeof path);
    snprintf(aside, sizeof aside, "%s-until-%" PRId64, path, aw_clock_now_us(NULL));
    if (rename(path, aside) && errno != ENOENT)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    return AW_OK;
}

static enum aw_err store_open(struct aw__runsession *s, struct aw_diag *diag)
{
    const struct aw_runask *ask = &s->ask;
    uint64_t rows = 0, episodes = 0;
    for (uint32_t i = 0; i < ask->count; i++) {
        const struct aw_pilot_config *pilot = &ask->workload[i].pilot;
        episodes += pilot->learner.episodes + 2; /* the learners want no more; one is in flight */
        rows += (uint64_t)(pilot->learner.episodes + 2) * pilot->episode_steps;
    }
    const struct aw_store_options options = {
        .rows_max = rows > UINT32_MAX ? UINT32_MAX : (uint32_t)rows,
        .episodes_max = episodes > UINT32_MAX ? UINT32_MAX : (uint32_t)episodes,
        .workloads_max = ask->count,
    };
    return aw_store_open(&s->store, ask->store, &options, NULL, diag);
}

/* A store that already knows these workloads belongs to another run, whose steps would not be these
 * ones. */
static enum aw_err store_check(struct aw__runsession *s, bool resumed, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < s->ask.count; i++) {
        const char *name = s->ask.workload[i].pilot.name;
        struct aw_store_counts counts;
        enum aw_err err = aw_store_counts(&s->store, name, &counts, diag);
        if (err)
            return err;
        if (!resumed && counts.rows > 0)
            return aw_fail(diag, AW_ERR_EXISTS,
                           "%s has %" PRIu64 " steps of %s from another run; resume that run with "
                           "its --state, give another --store, or begin anew with --fresh",
                           s->ask.store, counts.rows, aw_run_name(name));
        if (resumed && s->steps_before > 0 && counts.rows == 0)
            aw_log_warn(s->run->log, "the store has no steps of a workload that is resumed",
                        AW_LOG_STR("workload", name), AW_LOG_STR("store", s->ask.store));
    }
    return AW_OK;
}

enum aw_err aw__runsession_save(struct aw__runsession *s, struct aw_diag *diag)
{
    char path[AW_TEXT_MAX + 32];
    if (!*s->ask.state || s->ask.set.cluster.sim.model != AW_SIM_FAST)
        return AW_OK;
    enum aw_err err = aw__runhistory_save(&s->history, s->ask.state, diag);
    err = err ? err : aw_store_flush(&s->store, diag);
    err = err ? err : aw_job_save(s->job, state_path(s, STATE_FILE, path, sizeof path), diag);
    if (err)
        return err;
    aw__runhistory_prune(s->ask.state, s->history.steps);
    s->saved_us = aw_clock_monotonic_us(NULL);
    s->saved_steps = s->history.steps;
    return AW_OK;
}

/* A state that does not fit is an error with the way out. */
static enum aw_err resume(struct aw__runsession *s, bool *ret_resumed, struct aw_diag *diag)
{
    char path[AW_TEXT_MAX + 32], clock[AW__RUN_CLOCK_MAX];
    struct aw_diag why;
    *ret_resumed = false;
    if (!*s->ask.state)
        return AW_OK;
    if (s->ask.set.cluster.sim.model != AW_SIM_FAST) {
        aw_log_warn(s->run->log, "the reference model cannot be saved: this run keeps no state");
        return AW_OK;
    }
    enum aw_err err = aw_job_load(s->job, state_path(s, STATE_FILE, path, sizeof path), &why);
    if (err == AW_ERR_NOTFOUND)
        return AW_OK;
    if (err)
        return aw_fail_at(diag, err, path, 0, 0, NULL,
                          "%s; --fresh begins anew, another --state keeps both", why.text);
    s->steps_before = aw_job_steps(s->job);
    err = aw__runhistory_load(&s->history, s->ask.state, s->steps_before, &why);
    if (err) {
        aw_log_warn(s->run->log, "what happened before is not known: summary and plots begin now",
                    AW_LOG_STR("why", why.text));
        s->history.steps = s->steps_before;
    }
    *ret_resumed = true;
    if (!aw_args_given(s->run->args, "quiet") && s->steps_before > 0)
        fprintf(stderr, "resuming %s at %s, step %" PRIu64 "\n", s->ask.state,
                aw__run_clock(aw_job_now_us(s->job), clock, sizeof clock), s->steps_before);
    if (s->steps_before >= s->ask.steps_total)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--duration",
                          "the run in %s has already come to %s; give a longer one, or --fresh to "
                          "begin anew",
                          s->ask.state, aw__run_clock(aw_job_now_us(s->job), clock, sizeof clock));
    return AW_OK;
}

/* The log before the deed. Without a daemon nothing watches the power: acknowledged entries survive
 * kill -9 there, and a run as fast as it goes does not wait for a disk in every tick. */
static enum aw_err steward_new(struct aw__runsession *s, struct aw_diag *diag)
{
    struct aw_steward_config *config = aw_alloc_new(NULL, 1, sizeof *config);
    struct aw_audit_recovery recovery = {0};
    if (!config)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the steward");
    config->virtual_time = true;
    config->audit.no_sync = !s->ask.daemon;
    state_path(s, AW__RUN_AUDIT, config->folder, sizeof config->folder);
    state_path(s, AW__RUN_JOURNAL, config->journal, sizeof config->journal);
    const enum aw_err err = aw_steward_new(config, NULL, &s->steward, &recovery, diag);
    aw_alloc_free(NULL, config);
    if (!err && recovery.torn_bytes)
        aw_log_warn(s->run->log, "the audit log ended in the middle of an entry, which was cut off",
                    AW_LOG_STR("file", recovery.torn_file),
                    AW_LOG_INT("bytes", (int64_t)recovery.torn_bytes),
                    AW_LOG_STR("why", recovery.why));
    return err;
}

enum aw_err aw__runsession_job(struct aw__runsession *s, struct aw_steward *steward,
                               struct aw_job **ret, struct aw_diag *diag)
{
    const struct aw_runask *ask = &s->ask;
    struct aw_job_config config = {
        .workloads = ask->workload,
        .count = ask->count,
        .sim = ask->set.cluster.sim,
        .faults = ask->set.cluster.fault,
        .fault_count = ask->set.cluster.fault_count,
        .seed = ask->seed,
        .store = &s->store,
        .twin = ask->twin,
        .thread_count = ask->thread_count,
        .desk = !steward    ? NULL
                : s->timing ? aw_timing_desk(s->timing, aw_steward_desk(steward))
                            : aw_steward_desk(steward),
        .steadfast = ask->daemon,
    };
    if (ret == &s->job) { /* the run itself, and nobody who only tries whether it could be */
        if (!s->agents) {
            const enum aw_err err = aw__runagents_open(&s->agents, s->run, ask, diag);
            if (err)
                return err;
        }
        config.exchange = aw__runagents_exchange(s->agents);
    }
    return aw_job_new(&config, NULL, ret, diag);
}

enum aw_err aw__runsession_attach(struct aw__runsession *s, struct aw_diag *diag)
{
    struct aw_policy_task *tasks = aw_alloc_new(NULL, s->ask.count, sizeof *tasks);
    if (!tasks)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " workloads", s->ask.count);
    for (uint32_t i = 0; i < s->ask.count; i++)
        tasks[i] = s->ask.workload[i].task;
    const enum aw_err err =
        aw_steward_attach(s->steward, aw_job_loop(s->job), tasks, aw_job_now_us(s->job), diag);
    aw_alloc_free(NULL, tasks);
    return err;
}

enum aw_err aw__runsession_open(struct aw__runsession *s, bool *ret_resumed, struct aw_diag *diag)
{
    const struct aw_runask *ask = &s->ask;
    enum aw_err err = AW_OK;
    if (*ask->state) {
        if ((err = aw__daemon_lock(ask->state, ask->daemon, &s->lock_fd, diag)))
            return err;
        if (aw_args_given(s->run->args, "fresh") && (err = forget(s, diag)))
            return err;
    }
    err = store_open(s, diag);
    if (!err && ask->audit)
        err = steward_new(s, diag);
    err = err ? err : aw__runsession_job(s, s->steward, &s->job, diag);
    err = err ? err : aw__runhistory_init(&s->history, ask, diag);
    err = err ? err : resume(s, ret_resumed, diag);
    if (!err && *ret_resumed && s->steps_before == 0) { /* nothing had been lived yet */
        aw_job_free(s->job);
        s->job = NULL;
        err = aw__runsession_job(s, s->steward, &s->job, diag);
    }
    err = err ? err : store_check(s, *ret_resumed, diag);
    err = err || !s->steward ? err : aw__runsession_attach(s, diag);
    if (err)
        return err;
    s->saved_steps = s->history.steps;
    s->save_every = (uint64_t)SAVE_EPISODES * ask->workload[0].pilot.episode_steps;
    /* from its first step on a run that is killed has something to go on from */
    return *ret_resumed ? AW_OK : aw__runsession_save(s, diag);
}

void aw__runsession_close(struct aw__runsession *s)
{
    aw__runhistory_deinit(&s->history);
    aw__runagents_close(s->agents);
    aw_job_free(s->job);
    aw_steward_free(s->steward);
    aw_store_close(&s->store);
    aw_runask_deinit(&s->ask);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    s->job = NULL;
    s->agents = NULL;
    s->steward = NULL;
    s->lock_fd = -1;
}

enum aw_err aw__runsession_reload(struct aw__runsession *s, struct aw_job *job,
                                  struct aw_diag *diag)
{
    char path[AW_TEXT_MAX + 32];
    return aw_job_load(job, state_path(s, STATE_FILE, path, sizeof path), diag);
}

enum aw_err aw__runsession_steward(struct aw__runsession *s, struct aw_diag *diag)
{
    return steward_new(s, diag);
}
