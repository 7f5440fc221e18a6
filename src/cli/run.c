/*
 * run.c - the verb `run`: the control loop on workloads that files describe, or on the demo.
 *
 * With a live table the job steps on a thread of its own, and this one draws and waits for signals;
 * without, everything happens here. What is kept of a run lies in one directory:
 *
 *   lock              held while a run goes on
 *   trajectories.db   every step, unless --store says otherwise
 *   history-STEPS     what summary and plots tell, as of a save
 *   run.state         the job itself, saved last: it is what makes the save
 */
#include "cli/run.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "cli/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define SAVE_EPISODES 5u                      /* of simulated time between saves, at most */
#define SAVE_US       (INT64_C(60) * 1000000) /* of real time, at most */
#define FRAME_US      100000                  /* between two looks at the table and the signals */
#define STATE_FILE    "run.state"
#define LOCK_FILE     "lock"

enum look { LOOK_NONE, LOOK_ROWS, LOOK_JSON, LOOK_CSV };

struct session {
    const struct aw__run *run;
    struct aw__runask ask;
    struct aw_job *job;
    struct aw_store store;
    struct aw__runhistory history;
    struct aw__runlive *live; /* NULL: none */
    struct aw__runrow *row;   /* [count] */
    enum look look;
    uint64_t steps_before;
    int64_t begin_us, saved_us;
    uint64_t save_every, saved_steps;
    int lock_fd; /* -1: none */
    bool tell;   /* this step is shown */

    /* of the thread that steps */
    enum aw_err err;
    struct aw_diag diag;
    _Atomic bool done;
};

static volatile sig_atomic_t stop_signal;

/* The first signal asks for an orderly end; the second ends at once, with the cursor back. */
static void on_signal(int number)
{
    static const char cursor[] = "\033[?25h";
    if (stop_signal) {
        if (isatty(STDERR_FILENO)) {
            const ssize_t written = write(STDERR_FILENO, cursor, sizeof cursor - 1);
            (void)written;
        }
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    stop_signal = number;
}

static void signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* --- what is kept ----------------------------------------------------------------------------- */

static const char *state_path(const struct session *s, const char *name, char *buf, size_t size)
{
    snprintf(buf, size, "%s/%s", s->ask.state, name);
    return buf;
}

static enum aw_err lock_take(struct session *s, struct aw_diag *diag)
{
    char path[AW__TEXT_MAX + 32], holder[32] = "";
    enum aw_err err = aw_file_mkdirs(s->ask.state, diag);
    if (err)
        return err;
    state_path(s, LOCK_FILE, path, sizeof path);
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (s->lock_fd < 0)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB)) {
        const ssize_t len = read(s->lock_fd, holder, sizeof holder - 1);
        holder[len > 0 ? len : 0] = '\0';
        holder[strcspn(holder, "\n")] = '\0';
        return aw_fail_at(diag, AW_ERR_UNAVAILABLE, s->ask.state, 0, 0, NULL,
                          "another run%s%s%s is using it; end that one, or give another --state",
                          *holder ? " (process " : "", holder, *holder ? ")" : "");
    }
    const int len = snprintf(holder, sizeof holder, "%ld\n", (long)getpid());
    if (ftruncate(s->lock_fd, 0) || pwrite(s->lock_fd, holder, (size_t)len, 0) != len)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    return AW_OK;
}

/* Forgets an earlier run. The store goes only where it is our own. */
static void forget(const struct session *s)
{
    static const char *const ours[] = {STATE_FILE, "trajectories.db", "trajectories.db-wal",
                                       "trajectories.db-shm"};
    char path[AW__TEXT_MAX + 32];
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        unlink(state_path(s, ours[i], path, sizeof path));
    aw__runhistory_prune(s->ask.state, UINT64_MAX);
}

static enum aw_err store_open(struct session *s, struct aw_diag *diag)
{
    const struct aw__runask *ask = &s->ask;
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
static enum aw_err store_check(struct session *s, bool resumed, struct aw_diag *diag)
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
                           s->ask.store, counts.rows, aw__run_name(name));
        if (resumed && s->steps_before > 0 && counts.rows == 0)
            aw_log_warn(s->run->log, "the store has no steps of a workload that is resumed",
                        AW_LOG_STR("workload", name), AW_LOG_STR("store", s->ask.store));
    }
    return AW_OK;
}

static enum aw_err save(struct session *s, struct aw_diag *diag)
{
    char path[AW__TEXT_MAX + 32];
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
static enum aw_err resume(struct session *s, bool *ret_resumed, struct aw_diag *diag)
{
    char path[AW__TEXT_MAX + 32], clock[AW__RUN_CLOCK_MAX];
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
    if (!aw__args_given(s->run->args, "quiet") && s->steps_before > 0)
        fprintf(stderr, "resuming %s at %s, step %" PRIu64 "\n", s->ask.state,
                aw__run_clock(aw_job_now_us(s->job), clock, sizeof clock), s->steps_before);
    if (s->steps_before >= s->ask.steps_total)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--duration",
                          "the run in %s has already come to %s; give a longer one, or --fresh to "
                          "begin anew",
                          s->ask.state, aw__run_clock(aw_job_now_us(s->job), clock, sizeof clock));
    return AW_OK;
}

/* --- steps ------------------------------------------------------------------------------------ */

static void on_step(void *ctx, const struct aw_job_step *step)
{
    struct session *s = ctx;
    const struct aw__runask *ask = &s->ask;
    const uint32_t i = step->workload;
    struct aw_job_view view;
    uint32_t events = 0;
    aw_job_view(s->job, i, &view);
    const uint32_t episodes = s->history.episodes_seen[i];
    if (i == 0) {
        events += aw__runhistory_cluster(&s->history, ask, step->at_us);
        s->tell = aw__runlive_due(s->live) || aw_job_steps(s->job) == s->steps_before + 1;
    }
    events += aw__runhistory_step(&s->history, ask, step, &view);
    if (s->look == LOOK_JSON || s->look == LOOK_CSV)
        aw__runlines_step(stdout, s->look == LOOK_JSON, ask, step);
    if (s->look == LOOK_ROWS)
        for (uint32_t n = events; n-- > 0;) {
            const struct aw__runevent *event = aw__runhistory_event(&s->history, n);
            if (event)
                aw__runrows_event(stdout, ask, event);
        }
    const bool ended = view.episodes > episodes;
    if ((s->live && s->tell) || (s->look == LOOK_ROWS && ended))
        aw__runrow_of(&s->row[i], step, &view);
    if (s->look == LOOK_ROWS && ended)
        aw__runrows_episode(stdout, ask, &s->row[i], step->at_us + llround(ask->step_s * 1e6));
    if (s->live && s->tell && i + 1 == ask->count)
        aw__runlive_tell(s->live, s->row, aw_job_steps(s->job), &s->history);
}

/* Waits until real time has come to where simulated time is, in pieces that notice a signal. */
static void keep_pace(const struct session *s)
{
    if (isinf(s->ask.speed))
        return;
    const double simulated_s =
        (double)(aw_job_steps(s->job) - s->steps_before) * s->ask.step_s / s->ask.speed;
    const int64_t until = s->begin_us + llround(1e6 * simulated_s);
    for (int64_t now; !stop_signal && (now = aw_clock_monotonic_us(NULL)) < until;) {
        const int64_t piece = now + FRAME_US < until ? now + FRAME_US : until;
        const enum aw_err err = aw_clock_sleep_until(NULL, piece);
        (void)err; /* interrupted or not, the loop looks again */
    }
}

static enum aw_err steps(struct session *s, struct aw_diag *diag)
{
    while (!stop_signal && aw_job_steps(s->job) < s->ask.steps_total) {
        enum aw_err err = aw_job_step(s->job, on_step, s, diag);
        if (err)
            return err;
        if (s->look == LOOK_ROWS && ferror(stdout))
            return aw_fail(diag, AW_ERR_IO, "standard output: write error");
        const uint64_t since = s->history.steps - s->saved_steps;
        if (since >= s->save_every || aw_clock_monotonic_us(NULL) - s->saved_us >= SAVE_US) {
            if (s->look != LOOK_NONE)
                fflush(stdout);
            if ((err = save(s, diag)))
                return err;
        }
        keep_pace(s);
    }
    return save(s, diag);
}

static void *steps_thread(void *ctx)
{
    struct session *s = ctx;
    s->err = steps(s, &s->diag);
    s->done = true;
    return NULL;
}

/* Steps on a thread, frames here. Signals are for this one. */
static enum aw_err steps_shown(struct session *s, struct aw_diag *diag)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&thread, NULL, steps_thread, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread to run on: %s", strerror(failed));
    while (!s->done) {
        aw__runlive_draw(s->live, stop_signal != 0);
        const enum aw_err err = aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + FRAME_US);
        (void)err; /* a signal only brings the next frame forward */
    }
    pthread_join(thread, NULL);
    if (s->err && diag)
        *diag = s->diag;
    return s->err;
}

/* --- the verb --------------------------------------------------------------------------------- */

static enum aw_err job_new(struct session *s, struct aw_diag *diag)
{
    const struct aw__runask *ask = &s->ask;
    const struct aw_job_config config = {
        .workloads = ask->workload,
        .count = ask->count,
        .sim = ask->set.cluster.sim,
        .faults = ask->set.cluster.fault,
        .fault_count = ask->set.cluster.fault_count,
        .seed = ask->seed,
        .store = &s->store,
        .twin = ask->twin,
        .thread_count = ask->thread_count,
    };
    return aw_job_new(&config, NULL, &s->job, diag);
}

static enum aw_err open_all(struct session *s, bool *ret_resumed, struct aw_diag *diag)
{
    const struct aw__runask *ask = &s->ask;
    enum aw_err err = AW_OK;
    if (*ask->state) {
        if ((err = lock_take(s, diag)))
            return err;
        if (aw__args_given(s->run->args, "fresh"))
            forget(s);
    }
    if ((err = store_open(s, diag)))
        return err;
    err = job_new(s, diag);
    err = err ? err : aw__runhistory_init(&s->history, ask, diag);
    err = err ? err : resume(s, ret_resumed, diag);
    if (!err && *ret_resumed && s->steps_before == 0) { /* nothing had been lived yet */
        aw_job_free(s->job);
        s->job = NULL;
        err = job_new(s, diag);
    }
    err = err ? err : store_check(s, *ret_resumed, diag);
    if (err)
        return err;
    s->saved_steps = s->history.steps;
    s->save_every = (uint64_t)SAVE_EPISODES * ask->workload[0].pilot.episode_steps;
    if (!(s->row = aw_alloc_new(NULL, ask->count, sizeof *s->row)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " workloads", ask->count);
    /* from its first step on a run that is killed has something to go on from */
    return *ret_resumed ? AW_OK : save(s, diag);
}

static enum aw_err finish(struct session *s, struct aw_diag *diag)
{
    const struct aw__runend end = {
        .ask = &s->ask,
        .job = s->job,
        .history = &s->history,
        .steps_before = s->steps_before,
        .seconds = 1e-6 * (double)(aw_clock_monotonic_us(NULL) - s->begin_us),
        .interrupted = stop_signal != 0,
    };
    enum aw_err err = AW_OK;
    if (*s->ask.report && aw_job_steps(s->job) > 0)
        err = aw__runreport_write(&end, s->ask.report, diag);
    if (!err && s->look != LOOK_CSV && aw_job_steps(s->job) > 0)
        err = s->look == LOOK_JSON ? aw__runsummary_json(&end, diag)
                                   : aw__runsummary_print(s->run, &end, diag);
    return err;
}

static enum aw_err interrupted(const struct session *s, struct aw_diag *diag)
{
    char clock[AW__RUN_CLOCK_MAX];
    aw__run_clock(aw_job_now_us(s->job), clock, sizeof clock);
    if (*s->ask.state)
        return aw_fail(diag, AW_ERR_INTERRUPTED,
                       "interrupted at %s; the same command goes on from there", clock);
    return aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted at %s; with --state it could go on",
                   clock);
}

static enum aw_err demo_print(struct aw_diag *diag)
{
    char *yaml = aw__run_demo_yaml();
    if (!yaml)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the demo");
    fputs(yaml, stdout);
    free(yaml);
    return AW_OK;
}

static enum aw_err run_run(const struct aw__run *run, struct aw_diag *diag)
{
    const char *output = aw__args_text(run->args, "output");
    const bool quiet = aw__args_given(run->args, "quiet");
    bool resumed = false;
    if (aw__args_given(run->args, "print-demo"))
        return demo_print(diag);
    struct session *s = aw_alloc_new(NULL, 1, sizeof *s);
    if (!s)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a run");
    s->run = run;
    s->lock_fd = -1;
    s->look = run->json ? LOOK_JSON : !strcmp(output, "csv") ? LOOK_CSV : LOOK_NONE;
    enum aw_err err = aw__runask_read(run, &s->ask, diag);
    if (err)
        goto out;
    signals_catch();
    if ((err = open_all(s, &resumed, diag)))
        goto out;
    /* the table is for who watches; lines for programs may go elsewhere meanwhile */
    const bool watched = !quiet && (s->look == LOOK_NONE || !isatty(STDOUT_FILENO));
    s->begin_us = s->saved_us = aw_clock_monotonic_us(NULL);
    if ((err = aw__runlive_new(&s->ask, stderr, watched, run->color_err, s->steps_before,
                               &s->live))) {
        err = aw_fail(diag, err, "no memory for the table");
        goto out;
    }
    if (s->look == LOOK_NONE && !s->live && !quiet)
        s->look = LOOK_ROWS;
    if (s->look == LOOK_ROWS)
        aw__runrows_head(stdout, &s->ask);
    else if (s->look != LOOK_NONE)
        aw__runlines_head(stdout, s->look == LOOK_JSON, &s->ask, s->steps_before);
    err = s->live ? steps_shown(s, diag) : steps(s, diag);
    aw__runlive_free(s->live);
    s->live = NULL;
    err = err ? err : finish(s, diag);
    if (!err && stop_signal)
        err = interrupted(s, diag);
out:
    aw_alloc_free(NULL, s->row);
    aw__runhistory_deinit(&s->history);
    aw_job_free(s->job);
    aw_store_close(&s->store);
    aw__runask_deinit(&s->ask);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    aw_alloc_free(NULL, s);
    return err;
}

static const char *const clusters[] = {"sim", NULL};
static const struct aw__option run_options[] = {
    {.name = "file",
     .letter = 'f',
     .kind = AW__FILE,
     .arg = "FILE",
     .help = "YAML or JSON with autoscalers and what they scale; a directory stands for all files "
             "in it, \"-\" for standard input; without any, the built-in demo runs",
     .repeated = true},
    {.name = "cluster",
     .letter = 'c',
     .kind = AW__CHOICE,
     .arg = "NAME",
     .initial = "sim",
     .choices = clusters,
     .help = "where the workloads are: sim, the simulated cluster"},
    {.name = "duration",
     .letter = 'd',
     .kind = AW__TEXT,
     .arg = "TIME",
     .initial = AW__RUN_DURATION_TEXT,
     .help = "simulated time from the beginning of the run, e.g. 90m or 7d"},
    {.name = "speed",
     .kind = AW__TEXT,
     .arg = "X",
     .initial = "max",
     .help = "simulated over real time: 1 is real time, max as fast as it goes"},
    {.name = "state",
     .kind = AW__DIR,
     .arg = "DIR",
     .help = "where the run is kept and resumed from; none keeps nothing (default: aware-state in "
             "the working directory, and none for the demo)"},
    {.name = "fresh", .kind = AW__FLAG, .help = "forget what is kept and begin anew"},
    {.name = "store",
     .kind = AW__FILE,
     .arg = "STORE",
     .help = "trajectories: an SQLite file, memory, or influx+http://HOST:PORT/DATABASE (default: "
             "trajectories.db in --state, or memory)"},
    {.name = "report",
     .letter = 'r',
     .kind = AW__FILE,
     .arg = "FILE",
     .help = "write a page with plots that needs no other file; none writes none (default: "
             "report.html for the demo, none with --file)"},
    {.name = "no-twin",
     .kind = AW__FLAG,
     .help = "do not run the fallback alone on the same load: faster, and nothing to compare with"},
    {.name = "seed",
     .letter = 's',
     .kind = AW__NUMBER,
     .arg = "S",
     .max = INT64_MAX,
     .help = "chance of the cluster and of the learners (default: as the files say)"},
    {.name = "threads",
     .letter = 'j',
     .kind = AW__NUMBER,
     .arg = "N",
     .initial = "0",
     .max = AW_THREADS_MAX,
     .help = "threads that learn; 0: one per processor; decisions do not depend on it"},
    {.name = "quiet", .letter = 'q', .kind = AW__FLAG, .help = "no table and no rows"},
    {.name = "print-demo", .kind = AW__FLAG, .help = "print the demo as a file to start from"},
    {.name = NULL},
};
static const struct aw__example run_examples[] = {
    {"aware run", "the demo: about a minute, then a summary and report.html"},
    {"aware run -f examples/demo.yaml --report report.html", "the same from a file"},
    {"aware run -f shop.yaml -f cluster.yaml --duration 7d", "a week of one's own workloads"},
    {"aware run -f shop.yaml --speed 60", "an hour a minute, to watch"},
    {"aware run -f shop.yaml --output json", "every decision as a line of JSON"},
    {NULL, NULL},
};
const struct aw__verb aw__verb_run = {
    .name = "run",
    .summary = "Autoscale workloads: learn from the fallback, take over, serve, retrain",
    .text =
        "Every workload begins OFFLINE: the fallback (HPA and VPA) acts and the agent learns from "
        "what it does. When the agent is estimated to do as well it goes ONLINE: it acts, explores "
        "a little and learns from itself. When mean and deviation of its episodes are good it is "
        "SERVING; when they no longer are, it learns again. Rails clip every decision, and a "
        "watchdog hands back to the fallback at once when something is wrong.\n\n"
        "Beside it a twin of the cluster has the same load and chance under the fallback alone: "
        "what is told against the fallback is measured. On a terminal a table is redrawn in place; "
        "elsewhere there is a row per workload and episode, and a line per change of stage. With "
        "--output json every step of a workload is one line of JSON, the last line a summary; with "
        "csv a row.\n\n"
        "An interrupt saves and ends with status 130; the same command goes on from there, with "
        "the same decisions as if it had never stopped.",
    .options = run_options,
    .examples = run_examples,
    .json = true,
    .csv = true,
    .run = run_run,
};
