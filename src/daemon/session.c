/*
 * session.c - what a run keeps, and how it is taken up again.
 *
 * Everything lies in one directory:
 *
 *   lock              held while a run goes on
 *   trajectories.db   every step, unless --store says otherwise
 *   audit/            what was decided and ordered, with a daemon or --audit
 *   decisions.db      why, for a while
 *   views.json        of a daemon: what it would answer, as of a save
 *   recent            of a daemon: plots and sums of its page, as of a save
 *   agents            socket where agents of other processes come in
 *   history-STEPS     what summary and plots tell, as of a save
 *   run.state         the job itself, saved last: it is what makes the save
 */
#include "daemon/session.h"

#include "base/clock.h"
#include "base/file.h"
#include "daemon/agents.h"
#include "daemon/daemon_internal.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_US      100000 /* of waiting between two looks at the signals */
#define SAVE_EPISODES 5u     /* of simulated time between saves, at most */
#define STATE_FILE    "run.state"

static const char *path_in(const char *state, const char *name, char *buf, size_t size)
{
    snprintf(buf, size, "%.*s/%s", (int)(size - strlen(name) - 2), state, name);
    return buf;
}

static const char *state_path(const struct aw_session *s, const char *name, char *buf, size_t size)
{
    return path_in(s->config.state, name, buf, size);
}

/* Forgets an earlier run. The store goes only where it is our own. A record is never removed: the
 * audit log of the earlier run is put aside under another name. */
enum aw_err aw__session_forget(const char *state, struct aw_diag *diag)
{
    static const char *const ours[] = {STATE_FILE,
                                       "trajectories.db",
                                       "trajectories.db-wal",
                                       "trajectories.db-shm",
                                       AW_DAEMON_JOURNAL,
                                       AW_DAEMON_JOURNAL "-wal",
                                       AW_DAEMON_JOURNAL "-shm",
                                       AW__DAEMON_VIEWS,
                                       AW__DAEMON_RECENT};
    char path[AW_FILE_PATH_MAX + 32], aside[AW_FILE_PATH_MAX + 64];
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        unlink(path_in(state, ours[i], path, sizeof path));
    aw_history_prune(state, UINT64_MAX);
    path_in(state, AW_DAEMON_AUDIT, path, sizeof path);
    snprintf(aside, sizeof aside, "%s-until-%" PRId64, path, aw_clock_now_us(NULL));
    if (rename(path, aside) && errno != ENOENT)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    return AW_OK;
}

enum aw_err aw_daemon_store_open(const struct aw_daemon_config *ask, const char *where,
                                 struct aw_store *ret_store, struct aw_diag *diag)
{
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
    return aw_store_open(ret_store, where, &options, NULL, diag);
}

/* A store that already knows these workloads belongs to another run, whose steps would not be these
 * ones. */
static enum aw_err store_check(struct aw_session *s, bool resumed, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < s->config.count; i++) {
        const char *name = s->config.workload[i].pilot.name;
        struct aw_store_counts counts;
        enum aw_err err = aw_store_counts(&s->store, name, &counts, diag);
        if (err)
            return err;
        if (!resumed && counts.rows > 0)
            return aw_fail(diag, AW_ERR_EXISTS,
                           "%s has %" PRIu64 " steps of %s from another run; resume that run with "
                           "its --state, give another --store, or begin anew with --fresh",
                           s->config.store, counts.rows, aw_run_name(name));
        if (resumed && s->steps_before > 0 && counts.rows == 0)
            aw_log_warn(s->log, "the store has no steps of a workload that is resumed",
                        AW_LOG_STR("workload", name), AW_LOG_STR("store", s->config.store));
    }
    return AW_OK;
}

enum aw_err aw_session_save(struct aw_session *s, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX + 32];
    if (!*s->config.state || !aw_daemon_config_keeps(&s->config))
        return AW_OK;
    enum aw_err err = aw_history_save(&s->history, s->config.state, diag);
    err = err ? err : aw_store_flush(&s->store, diag);
    err = err ? err : aw_job_save(s->job, state_path(s, STATE_FILE, path, sizeof path), diag);
    if (err)
        return err;
    aw_history_prune(s->config.state, s->history.steps);
    s->saved_us = aw_clock_monotonic_us(NULL);
    s->saved_steps = s->history.steps;
    return AW_OK;
}

/* What was found of a workload, where that is not what it was. */
static void found_tell(void *ctx, uint32_t workload, const struct aw_pilot_found *found)
{
    const struct aw_session *s = ctx;
    const char *name = aw_run_name(s->config.workload[workload].pilot.name);
    switch (found->kind) {
    case AW_PILOT_FOUND_SAME:
        break;
    case AW_PILOT_FOUND_NONE:
        aw_log_info(s->log, "a new workload: it begins to learn", AW_LOG_STR("workload", name));
        break;
    case AW_PILOT_FOUND_KEPT:
        aw_log_info(s->log, "resumed with changes", AW_LOG_STR("workload", name),
                    AW_LOG_STR("what", found->text));
        break;
    case AW_PILOT_FOUND_ASKED_ANEW:
        aw_log_warn(s->log, "this workload is judged anew, the others are not",
                    AW_LOG_STR("workload", name), AW_LOG_STR("why", found->text));
        break;
    case AW_PILOT_FOUND_UNREADABLE:
        aw_log_warn(s->log, "this workload learns again, the others do not",
                    AW_LOG_STR("workload", name), AW_LOG_STR("why", found->text));
        break;
    }
}

/* A state that cannot be read at all is an error with the way out. */
static enum aw_err resume(struct aw_session *s, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX + 32], clock[AW_RUN_CLOCK_MAX];
    struct aw_diag why;
    if (!*s->config.state)
        return AW_OK;
    if (!aw_daemon_config_keeps(&s->config)) {
        aw_log_warn(s->log, "the reference model cannot be saved: this run keeps no state");
        return AW_OK;
    }
    const struct aw_job_recovery how = {.found = found_tell, .ctx = s};
    enum aw_err err =
        aw_job_recover(s->job, state_path(s, STATE_FILE, path, sizeof path), &how, &why);
    if (err == AW_ERR_NOTFOUND)
        return AW_OK;
    if (err)
        return aw_fail_at(diag, err, path, 0, 0, NULL,
                          "%s; --fresh begins anew, another --state keeps both", why.text);
    s->steps_before = aw_job_steps(s->job);
    err = aw_history_load(&s->history, s->config.state, s->steps_before, &why);
    if (err) {
        aw_log_warn(s->log, "what happened before is not known: summary and plots begin now",
                    AW_LOG_STR("why", why.text));
        s->history.steps = s->steps_before;
    }
    s->resumed = true;
    if (s->steps_before >= s->config.steps_total)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--duration",
                          "the run in %s has already come to %s; give a longer one, or --fresh to "
                          "begin anew",
                          s->config.state,
                          aw_run_clock(aw_job_lived_us(s->job), clock, sizeof clock));
    return AW_OK;
}

/* The log before the deed. A simulation without a daemon can hurt nothing: acknowledged entries
 * survive kill -9 there, and a run as fast as it goes does not wait for a disk in every tick. */
enum aw_err aw__session_steward(struct aw_session *s, struct aw_diag *diag)
{
    const struct aw_daemon_record record = {
        .state = s->config.state,
        .virtual_time = !s->config.local, /* what was real is not lived again */
        .no_sync = !s->config.daemon && !s->config.local,
    };
    return aw_daemon_record_open(&record, s->log, &s->desk, diag);
}

enum aw_err aw__session_job(struct aw_session *s, struct aw_desk *desk, struct aw_job **ret,
                            struct aw_diag *diag)
{
    const struct aw_daemon_config *ask = &s->config;
    const uint32_t sets = s->local ? aw_cluster_sets(&s->local->cluster) : AW_PLAN_COMMON;
    for (uint32_t i = 0; i < ask->set.profile_count; i++) {
        const enum aw_err err =
            aw_profile_actuated(&ask->set.profiles[i], sets,
                                s->local ? "the local cluster" : "the simulated cluster", diag);
        if (err)
            return err;
    }
    struct aw_job_config config = {
        .workloads = ask->workload,
        .count = ask->count,
        .cluster = s->local ? &s->local->cluster : NULL,
        .seconds_per_step = ask->step_s / ask->speed,
        .sim = ask->set.cluster.sim,
        .faults = ask->set.cluster.fault,
        .fault_count = ask->set.cluster.fault_count,
        .seed = ask->seed,
        .store = &s->store,
        .twin = ask->twin,
        .thread_count = ask->thread_count,
        .learning = s->local      ? AW_LOOP_LEARN_BESIDE
                    : ask->daemon ? AW_LOOP_LEARN_AFTER
                                  : AW_LOOP_LEARN_AT_ONCE,
        .hooks = !desk       ? NULL
                 : s->timing ? aw_tick_timing_desk(s->timing, aw_desk_hooks(desk))
                             : aw_desk_hooks(desk),
        .steadfast = ask->daemon,
    };
    if (ret == &s->job) { /* the run itself, and nobody who only tries whether it could be */
        if (!s->agents) {
            const enum aw_err err = aw__agents_open(&s->agents, ask, s->log, diag);
            if (err)
                return err;
        }
        config.exchange = aw__agents_exchange(s->agents);
    }
    struct aw_loop_place *places = aw_alloc_new(NULL, ask->set.profile_count + 1, sizeof *places);
    struct aw_loop_tenant *tenants = aw_alloc_new(NULL, ask->set.tenant_count + 1, sizeof *tenants);
    enum aw_err err = places && tenants ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory");
    if (!err) {
        config.tenancy = aw_job_tenancy_of(&ask->set, places, tenants);
        if (s->local)
            aw_local_capacity(s->local->local, &config.capacity[AW_POOL_CPU],
                              &config.capacity[AW_POOL_MEMORY]);
        err = aw_job_new(&config, NULL, ret, diag);
    }
    aw_alloc_free(NULL, tenants);
    aw_alloc_free(NULL, places);
    return err;
}

enum aw_err aw__session_attach(struct aw_session *s, struct aw_diag *diag)
{
    struct aw_fallback_task *tasks = aw_alloc_new(NULL, s->config.count, sizeof *tasks);
    if (!tasks)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " workloads", s->config.count);
    for (uint32_t i = 0; i < s->config.count; i++)
        tasks[i] = s->config.workload[i].task;
    const enum aw_err err =
        aw_desk_attach(s->desk, aw_job_loop(s->job), tasks, aw_job_now_us(s->job), diag);
    aw_alloc_free(NULL, tasks);
    return err;
}

/* The clock of real processes is the wall's, or one that runs faster from the run's beginning. */
static enum aw_err local_open(struct aw_session *s, struct aw_diag *diag)
{
    const struct aw_local_run_config config = {
        .ask = &s->config,
        .begin_us = s->config.speed == 1 ? aw_clock_now_us(NULL) : 0,
        .stop = s->stop,
    };
    if (!(s->local = aw_alloc_new(NULL, 1, sizeof *s->local)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for processes");
    return aw_local_run_open(s->local, &config, diag);
}

enum aw_err aw_session_open(struct aw_session *s, struct aw_diag *diag)
{
    const struct aw_daemon_config *ask = &s->config;
    enum aw_err err = AW_OK;
    if (*ask->state) {
        s->state_made = access(ask->state, F_OK) != 0;
        if ((err = aw_daemon_lock(ask->state, ask->daemon, &s->lock_fd, diag)))
            return err;
        if (ask->fresh && (err = aw__session_forget(ask->state, diag)))
            return err;
    }
    const size_t len = strlen(ask->state);
    if (len && strncmp(ask->store, ask->state, len) == 0 && ask->store[len] == '/')
        aw_daemon_mend(ask->store, s->log); /* our own; of another's nothing is moved */
    err = aw_daemon_store_open(ask, ask->store, &s->store, diag);
    if (!err && ask->audit)
        err = aw__session_steward(s, diag);
    err = err || !ask->local ? err : local_open(s, diag);
    err = err ? err : aw__session_job(s, s->desk, &s->job, diag);
    err = err ? err : aw_history_init(&s->history, ask, diag);
    err = err ? err : resume(s, diag);
    if (!err && s->resumed && s->local)
        err = aw_local_run_restore(s->local, s->job, diag);
    else if (!err && s->resumed && s->steps_before == 0) { /* nothing had been lived yet */
        aw_job_free(s->job);
        s->job = NULL;
        err = aw__session_job(s, s->desk, &s->job, diag);
    }
    err = err ? err : store_check(s, s->resumed, diag);
    err = err || !s->desk ? err : aw__session_attach(s, diag);
    if (err)
        return err;
    s->saved_steps = s->history.steps;
    s->save_every = (uint64_t)SAVE_EPISODES * ask->workload[0].pilot.episode_steps;
    /* from its first step on a run that is killed has something to go on from */
    return s->resumed ? AW_OK : aw_session_save(s, diag);
}

enum aw_err aw__session_load(struct aw_session *s, struct aw_diag *diag)
{
    return !s->local ? AW_OK
                     : aw_local_run_load_begin(s->local, aw_job_lived_us(s->job),
                                               s->config.steps_total, s->config.seed, diag);
}

enum aw_err aw_session_begin(struct aw_session *s, struct aw_diag *diag)
{
    enum aw_err err = s->local ? aw_local_run_ready(s->local, diag) : AW_OK;
    if (err)
        return err;
    if (!s->config.daemon)
        aw__agents_wait(s->agents, s->config.agents.wait_s, s->stop);
    s->begin_us = s->saved_us = s->due_us = aw_clock_monotonic_us(NULL);
    return *s->stop ? AW_OK : aw__session_load(s, diag);
}

static void due_rest(int64_t due_us, const _Atomic int *stop, const _Atomic int *hangup)
{
    int64_t now = aw_clock_monotonic_us(NULL);
    for (; !(stop && *stop) && !(hangup && *hangup) && now < due_us;
         now = aw_clock_monotonic_us(NULL)) {
        const enum aw_err err =
            aw_clock_sleep_until(NULL, now + PIECE_US < due_us ? now + PIECE_US : due_us);
        (void)err; /* interrupted or not, the loop looks again */
    }
}

/* A simulation that is behind catches up; real time that has passed is not made up for. */
void aw__due_wait(int64_t *due_us, const struct aw_daemon_config *config, const _Atomic int *stop,
                  const _Atomic int *hangup)
{
    if (isinf(config->speed))
        return;
    const int64_t now = aw_clock_monotonic_us(NULL);
    *due_us += llround(1e6 * config->step_s / config->speed);
    *due_us = config->local && *due_us < now ? now : *due_us;
    due_rest(*due_us, stop, hangup);
}

void aw_session_wait(struct aw_session *s, const _Atomic int *hangup)
{
    aw__due_wait(&s->due_us, &s->config, s->stop, hangup);
}

void aw__session_wait_on(const struct aw_session *s, const _Atomic int *hangup)
{
    if (!isinf(s->config.speed))
        due_rest(s->due_us, s->stop, hangup);
}

static void trouble_tell(const struct aw_session *s)
{
    for (uint32_t i = 0; i < s->local->count; i++) {
        char trouble[AW_DIAG_TEXT_MAX];
        aw_local_trouble(s->local->local, i, trouble, sizeof trouble);
        if (*trouble)
            aw_log_warn(s->log, "replicas had trouble, last of all this",
                        AW_LOG_STR("workload", s->config.workload[i].pilot.name),
                        AW_LOG_STR("why", trouble));
    }
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void aw_session_close(struct aw_session *s)
{
    char made[AW_FILE_PATH_MAX] = "";
    if (s->state_made && !s->begun) /* a start that failed leaves nothing */
        snprintf(made, sizeof made, "%s", s->config.state);
    aw_history_deinit(&s->history);
    aw__agents_close(s->agents);
    aw_job_free(s->job);
    if (s->local) {
        trouble_tell(s);
        aw_local_run_close(s->local);
    }
    aw_alloc_free(NULL, s->local);
    aw_desk_free(s->desk);
    aw_store_close(&s->store);
    aw_daemon_config_deinit(&s->config);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    s->job = NULL;
    s->local = NULL;
    s->agents = NULL;
    s->desk = NULL;
    s->lock_fd = -1;
    if (*made)
        nftw(made, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

enum aw_err aw__session_reload(struct aw_session *s, struct aw_job *job, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX + 32];
    const struct aw_job_recovery how = {
        .found = job == s->job ? found_tell : NULL, .ctx = s, .just_saved = true};
    return aw_job_recover(job, state_path(s, STATE_FILE, path, sizeof path), &how, diag);
}

/* Makes room in the store and in the history for the workloads that there are now. */
enum aw_err aw__session_resize(struct aw_session *s, struct aw_diag *diag)
{
    struct aw_diag why;
    aw_store_close(&s->store);
    enum aw_err err = aw_daemon_store_open(&s->config, s->config.store, &s->store, diag);
    const uint64_t steps = s->history.steps;
    aw_history_deinit(&s->history);
    err = err ? err : aw_history_init(&s->history, &s->config, diag);
    if (!err && aw_history_load(&s->history, s->config.state, steps, &why)) {
        aw_log_warn(s->log, "what happened before is not known: summary and plots begin now",
                    AW_LOG_STR("why", why.text));
        s->history.steps = steps;
    }
    return err;
}
