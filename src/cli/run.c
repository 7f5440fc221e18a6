/*
 * run.c - the verb `run`: the control loop on workloads that files describe, or on the demo.
 *
 * With a live table the job steps on a thread of its own, and this one draws and waits for signals;
 * without, everything happens here. What is kept of a run, and which cluster it is on, is the
 * session's (daemon/session.h); a daemon's life is in daemon/daemon.c.
 */
#include "cli/run.h"

#include "base/clock.h"
#include "base/threads.h"
#include "cli/demos.h"
#include "cli/run_graph.h"
#include "daemon/daemon.h"
#include "daemon/doors.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "frame/version.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define SAVE_US  (INT64_C(60) * 1000000) /* of real time between saves, at most */
#define FRAME_US 100000                  /* between two looks at the table and the signals */

enum look { LOOK_NONE, LOOK_ROWS, LOOK_JSON, LOOK_CSV };

struct session {
    const struct aw_call *run;
    struct aw_session kept;
    struct aw__runlive *live; /* NULL: none */
    struct aw__runrow *row;   /* [count] */
    enum look look;
    bool tell; /* this step is shown */

    /* of the thread that steps */
    enum aw_err err;
    struct aw_diag diag;
    _Atomic bool done;
};

/* --- steps ------------------------------------------------------------------------------------ */

static void on_step(void *ctx, const struct aw_job_step *step)
{
    struct session *s = ctx;
    const struct aw_daemon_config *ask = &s->kept.config;
    const uint32_t i = step->workload;
    struct aw_job_view view;
    uint32_t events = 0;
    aw_job_view(s->kept.job, i, &view);
    const uint32_t episodes = s->kept.history.episodes_seen[i];
    if (i == 0) {
        events += aw_history_cluster(&s->kept.history, ask, step->at_us);
        s->tell = aw__runlive_due(s->live) || aw_job_steps(s->kept.job) == s->kept.steps_before + 1;
    }
    events += aw_history_step(&s->kept.history, ask, step, &view);
    if (s->look == LOOK_JSON || s->look == LOOK_CSV)
        aw__runlines_step(stdout, s->look == LOOK_JSON, ask, step);
    if (s->look == LOOK_ROWS)
        for (uint32_t n = events; n-- > 0;) {
            const struct aw_history_event *event = aw_history_event(&s->kept.history, n);
            if (event)
                aw__runrows_event(stdout, ask, event);
        }
    const bool ended = view.episodes > episodes;
    if ((s->live && s->tell) || (s->look == LOOK_ROWS && ended))
        aw__runrow_of(&s->row[i], step, &view);
    if (s->look == LOOK_ROWS && ended)
        aw__runrows_episode(stdout, ask, &s->row[i], step->at_us + llround(ask->step_s * 1e6));
    if (s->live && s->tell && i + 1 == ask->count)
        aw__runlive_tell(s->live, s->row, aw_job_steps(s->kept.job), &s->kept.history);
}

static enum aw_err steps(struct session *s, struct aw_diag *diag)
{
    while (!aw_stop_signal && aw_job_steps(s->kept.job) < s->kept.config.steps_total) {
        enum aw_err err = aw_job_step(s->kept.job, on_step, s, diag);
        if (err)
            return err;
        if (s->kept.config.local && s->look != LOOK_NONE)
            fflush(stdout); /* whoever reads it has a step's time to do so */
        if (s->look == LOOK_ROWS && ferror(stdout))
            return aw_fail(diag, AW_ERR_IO, "standard output: write error");
        const uint64_t since = s->kept.history.steps - s->kept.saved_steps;
        if (since >= s->kept.save_every ||
            aw_clock_monotonic_us(NULL) - s->kept.saved_us >= SAVE_US) {
            if (s->look != LOOK_NONE)
                fflush(stdout);
            if ((err = aw_session_save(&s->kept, diag)))
                return err;
        }
        aw_session_wait(&s->kept, NULL);
    }
    return aw_session_save(&s->kept, diag);
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
    const int failed = aw_thread_begin(&thread, steps_thread, s);
    if (failed)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread to run on: %s", strerror(failed));
    while (!s->done) {
        aw__runlive_draw(s->live, aw_stop_signal != 0);
        const enum aw_err err = aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + FRAME_US);
        (void)err; /* a signal only brings the next frame forward */
    }
    pthread_join(thread, NULL);
    if (s->err && diag)
        *diag = s->diag;
    return s->err;
}

/* --- the verb --------------------------------------------------------------------------------- */

static enum aw_err finish(struct session *s, struct aw_diag *diag)
{
    const struct aw__runend end = {
        .ask = &s->kept.config,
        .job = s->kept.job,
        .history = &s->kept.history,
        .local = s->kept.local,
        .steps_before = s->kept.steps_before,
        .seconds = 1e-6 * (double)(aw_clock_monotonic_us(NULL) - s->kept.begin_us),
        .interrupted = aw_stop_signal != 0,
    };
    enum aw_err err = AW_OK;
    if (*s->kept.config.report && aw_job_steps(s->kept.job) > 0)
        err = aw__runreport_write(&end, s->kept.config.report, diag);
    if (!err && s->look != LOOK_CSV && aw_job_steps(s->kept.job) > 0)
        err = s->look == LOOK_JSON ? aw__runsummary_json(&end, diag)
                                   : aw__runsummary_print(s->run, &end, diag);
    return err;
}

static enum aw_err interrupted(const struct session *s, struct aw_diag *diag)
{
    char clock[AW_RUN_CLOCK_MAX];
    aw_run_clock(aw_job_lived_us(s->kept.job), clock, sizeof clock);
    if (*s->kept.config.state)
        return aw_fail(diag, AW_ERR_INTERRUPTED,
                       "interrupted at %s; the same command goes on from there", clock);
    return aw_fail(diag, AW_ERR_INTERRUPTED,
                   "interrupted at %s; nothing was kept: with --state DIR the same command would "
                   "go on from there",
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

static enum aw_err options_again(void *ctx, struct aw_daemon_config *ret, struct aw_diag *diag)
{
    return aw__run_options_read(ctx, ret, diag);
}

static enum aw_err daemon_run(const struct aw_call *run, struct aw_diag *diag)
{
    struct aw_log log = *run->log;
    struct aw_call call = *run;
    const struct aw_daemon_life life = {.read = options_again,
                                        .ctx = &call,
                                        .log = &log,
                                        .version = AW_VERSION_NUMBER,
                                        .stop = &aw_stop_signal,
                                        .hangup = &aw_stop_hangup};
    if (run->json || strcmp(aw_args_text(run->args, "output"), "table") != 0)
        return aw_fail(diag, AW_ERR_USAGE, "--output goes without --daemon; see 'aware export'");
    call.log = &log;
    aw_daemon_log(&log, aw_args_given(run->args, "log-level"),
                  aw_args_given(run->args, "log-format"));
    aw_stop_catch(&(struct aw_stop_config){.hangup = AW_STOP_HANGUP_NOTED});
    signal(SIGPIPE, SIG_IGN); /* a client that went away is no reason to end */
    signal(SIGXFSZ, SIG_IGN); /* nor is a file that may not grow: writing fails, and is told */
    return aw_daemon_run(&life, diag);
}

/* What people are told before the first step. */
static void begin_tell(const struct session *s)
{
    const struct aw_session *kept = &s->kept;
    char clock[AW_RUN_CLOCK_MAX];
    if (kept->steps_before > 0)
        fprintf(stderr, "resuming %s at %s, step %" PRIu64 "\n", kept->config.state,
                aw_run_clock(aw_job_lived_us(kept->job), clock, sizeof clock), kept->steps_before);
    for (uint32_t i = 0; kept->local && s->look == LOOK_NONE && i < kept->config.count; i++)
        fprintf(stderr, "%s listens on http://127.0.0.1:%u\n",
                aw_run_name(kept->config.workload[i].pilot.name),
                (unsigned)aw_local_port(kept->local->local, i));
}

/* From options to the first step. */
static enum aw_err begin(struct session *s, struct aw_diag *diag)
{
    const bool quiet = aw_args_given(s->run->args, "quiet");
    enum aw_err err = aw__run_options_read(s->run, &s->kept.config, diag);
    if (err)
        return err;
    const struct aw_daemon_config *ask = &s->kept.config;
    aw_stop_catch(&(struct aw_stop_config){
        .twice = !ask->local, /* real processes are to be ended */
        /* the table says it itself */
        .first_words = !quiet && isatty(STDERR_FILENO) ? NULL
                       : ask->local ? "aware: stopping: processes are being ended\n"
                                    : "aware: stopping after this step; once more ends at once\n",
        .second_words = isatty(STDERR_FILENO) ? "\033[?25h" : NULL, /* the cursor back */
    });
    if (ask->local)
        signal(SIGPIPE, SIG_IGN);
    if ((err = aw_session_open(&s->kept, diag)))
        return err;
    if (!(s->row = aw_alloc_new(NULL, ask->count, sizeof *s->row)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " workloads", ask->count);
    if (!quiet)
        begin_tell(s);
    if ((err = aw_session_begin(&s->kept, diag)))
        return err;
    s->kept.begun = true;
    /* the table is for who watches; lines for programs may go elsewhere meanwhile */
    const bool watched = !quiet && (s->look == LOOK_NONE || !isatty(STDOUT_FILENO));
    err = aw__runlive_new(ask, stderr, watched, s->run->color_err, s->kept.steps_before, &s->live);
    if (err)
        return aw_fail(diag, err, "no memory for the table");
    if (s->look == LOOK_NONE && !s->live && !quiet)
        s->look = LOOK_ROWS;
    if (s->look == LOOK_ROWS)
        aw__runrows_head(stdout, ask);
    else if (s->look != LOOK_NONE)
        aw__runlines_head(stdout, s->look == LOOK_JSON, ask, s->kept.steps_before);
    return AW_OK;
}

static enum aw_err run_run(const struct aw_call *run, struct aw_diag *diag)
{
    const char *output = aw_args_text(run->args, "output");
    if (aw_args_given(run->args, "print-demo"))
        return demo_print(diag);
    if (aw_args_given(run->args, "demo") && run->args->repeat_count)
        return aw_fail(diag, AW_ERR_USAGE, "--demo runs what is built in: leave out --file");
    const struct aw__demo *demo = aw__demo_asked(run->args);
    if (demo && aw_args_given(run->args, "daemon"))
        return aw_fail(diag, AW_ERR_USAGE, "the demo %s ends by itself: leave out --daemon",
                       demo->name);
    if (demo)
        return demo->run(run, diag);
    if (aw__run_graph_asked(run))
        return aw__run_graph(run, diag);
    if (aw_args_given(run->args, "daemon"))
        return daemon_run(run, diag);
    struct session *s = aw_alloc_new(NULL, 1, sizeof *s);
    if (!s)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a run");
    s->run = run;
    s->kept.log = run->log;
    s->kept.stop = &aw_stop_signal;
    s->kept.lock_fd = -1;
    s->look = run->json ? LOOK_JSON : !strcmp(output, "csv") ? LOOK_CSV : LOOK_NONE;
    enum aw_err err = begin(s, diag);
    err = err ? err : s->live ? steps_shown(s, diag) : steps(s, diag);
    if (s->kept.local) {
        const enum aw_err sent = aw_local_run_load_end(s->kept.local, err ? NULL : diag);
        err = err ? err : sent;
    }
    aw__runlive_free(s->live);
    err = err ? err : finish(s, diag);
    if (!err && aw_stop_signal)
        err = interrupted(s, diag);
    if (s->kept.desk && s->kept.job)
        aw_desk_detach(s->kept.desk, aw_job_now_us(s->kept.job),
                       aw_stop_signal ? "interrupted" : "the end of the run");
    aw_alloc_free(NULL, s->row);
    aw_session_close(&s->kept);
    aw_alloc_free(NULL, s);
    return err;
}

static const char *const clusters[] = {"sim", "local", NULL};
static const struct aw_option run_options[] = {
    AW_OPTION(CHOICE, "demo", 0, "NAME", NULL, "run a built-in demo" AW__DEMO_HELP,
              .choices = aw__demo_names),
    {.name = "file",
     .letter = 'f',
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "YAML or JSON with autoscalers and what they scale; a directory stands for all files "
             "in it, \"-\" for standard input; without any, the built-in demo runs",
     .repeated = true},
    {.name = "cluster",
     .letter = 'c',
     .kind = AW_ARG_CHOICE,
     .arg = "NAME",
     .initial = "sim",
     .choices = clusters,
     .help =
         "where the workloads are: sim, the simulated cluster; local, processes of this machine "
         "in real time, which needs control groups"},
    AW_OPTION(
        FILE, "calibration", 0, "FILE", NULL,
        "of a ServiceGraph with --cluster local and anomalies: how strong they have to be, read "
        "from here, and kept here once it was found by trying"),
    {.name = "duration",
     .letter = 'd',
     .kind = AW_ARG_TEXT,
     .arg = "TIME",
     .help = "simulated time from the beginning of the run, e.g. 90m or 7d "
             "(default: " AW__RUN_DURATION_TEXT ", no end for a daemon, 10m on the local cluster)"},
    {.name = "speed",
     .kind = AW_ARG_TEXT,
     .arg = "X",
     .help = "simulated over real time: 1 is real time, max as fast as it goes (default: max, and "
             "1 for a daemon); with --cluster local how much faster time runs for the controllers "
             "and the load, whose rates stay (default: 1)"},
    {.name = "state",
     .kind = AW_ARG_DIR,
     .arg = "DIR",
     .help = "where the run is kept and resumed from; none keeps nothing (default: aware-state in "
             "the working directory, and none for the demo without --daemon)"},
    {.name = "models",
     .kind = AW_ARG_DIR,
     .arg = "DIR",
     .help = "where the shipped model is looked for first (default: AWARE_MODELS, then beside this "
             "program)"},
    {.name = "fresh", .kind = AW_ARG_FLAG, .help = "forget what is kept and begin anew"},
    {.name = "store",
     .kind = AW_ARG_FILE,
     .arg = "STORE",
     .help = "trajectories: an SQLite file, memory, or influx+http://HOST:PORT/DATABASE (default: "
             "trajectories.db in --state, or memory)"},
    {.name = "report",
     .letter = 'r',
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "write a page with plots that needs no other file; none writes none (default: "
             "report.html for the demo, none with --file)"},
    {.name = "no-twin",
     .kind = AW_ARG_FLAG,
     .help = "do not run the fallback alone on the same load: faster, and nothing to compare with"},
    {.name = "seed",
     .letter = 's',
     .kind = AW_ARG_NUMBER,
     .arg = "S",
     .max = INT64_MAX,
     .help = "chance of the cluster and of the learners (default: as the files say)"},
    {.name = "threads",
     .letter = 'j',
     .kind = AW_ARG_NUMBER,
     .arg = "N",
     .initial = "0",
     .max = AW_THREADS_MAX,
     .help = "threads that learn; 0: one per processor; decisions do not depend on it"},
    {.name = "daemon",
     .kind = AW_ARG_FLAG,
     .help = "run for good: no table, an API on a socket, an audit log, journald and systemd"},
    {.name = "socket",
     .kind = AW_ARG_FILE,
     .arg = "PATH",
     .help = "of a daemon: where it listens, for its owner alone (default: socket in --state)"},
    {.name = "listen",
     .kind = AW_ARG_TEXT,
     .arg = "ADDRESS",
     .help = "of a daemon: a page to watch, metrics to scrape and the API at 127.0.0.1:PORT, to "
             "look at alone (default: none)"},
    {.name = "token-file",
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "with --listen: anyone who sends the token in this file may give orders too; needed "
             "beyond loopback"},
    {.name = "probes",
     .kind = AW_ARG_TEXT,
     .arg = "ADDRESS",
     .help = "of a daemon: /healthz and /readyz, and nothing else, for anyone who asks (default: "
             "none)"},
    {.name = "reports",
     .kind = AW_ARG_DIR,
     .arg = "DIR",
     .help = "with --listen: reports (.html, .json) and runs of aware train that the page lists"},
    {.name = "traces",
     .kind = AW_ARG_TEXT,
     .arg = "ADDRESS",
     .help = "of a daemon: where spans are taken over HTTP (OTLP, Zipkin), usually "
             "127.0.0.1:4318; kept in traces.db of --state, for aware trace (default: none)"},
    {.name = "traces-grpc",
     .kind = AW_ARG_TEXT,
     .arg = "ADDRESS",
     .help = "the same over gRPC, usually 127.0.0.1:4317 (default: none)"},
    {.name = "traces-token-file",
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "with --traces: senders have to send the first line of this file"},
    {.name = "traces-tls-cert",
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "with --traces: certificate of both servers of spans (PEM)"},
    {.name = "traces-tls-key", .kind = AW_ARG_FILE, .arg = "FILE", .help = "its key"},
    {.name = "traces-forward",
     .kind = AW_ARG_TEXT,
     .arg = "URL",
     .help = "with --traces: pass every message on to this OTLP receiver over HTTP, such as "
             "http://tempo:4318"},
    {.name = "traces-forward-token-file",
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "with --traces-forward: a token to give there"},
    {.name = "agents",
     .kind = AW_ARG_TEXT,
     .arg = "ADDRESS",
     .help = "where agents of other processes come in over gRPC, for workloads whose agent is "
             "external: unix:/PATH, or HOST:PORT with --agents-token-file; beyond this machine "
             "with --agents-tls-cert and --agents-tls-key too (default: unix:agents in --state)"},
    {.name = "agents-wait",
     .kind = AW_ARG_TEXT,
     .arg = "TIME",
     .help = "before the first step, wait so long for every external agent to have registered "
             "(default: 0s; not for a daemon)"},
    {.name = "agents-token-file",
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "with --agents: agents have to send the first line of this file"},
    {.name = "agents-tls-cert",
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "with --agents: certificate chain, PEM"},
    {.name = "agents-tls-key",
     .kind = AW_ARG_FILE,
     .arg = "FILE",
     .help = "with --agents: its key, PEM"},
    {.name = "audit",
     .kind = AW_ARG_FLAG,
     .help = "keep the audit log and explanations without a daemon too; slower"},
    {.name = "quiet", .letter = 'q', .kind = AW_ARG_FLAG, .help = "no table and no rows"},
    {.name = "print-demo", .kind = AW_ARG_FLAG, .help = "print the demo as a file to start from"},
    {.name = NULL},
};
static const struct aw_example run_examples[] = {
    {"aware run", "the demo: about a minute, then a summary and report.html"},
    {"aware run -f examples/demo.yaml --report report.html", "the same from a file"},
    {"aware run -f shop.yaml -f cluster.yaml --duration 7d", "a week of one's own workloads"},
    {"aware run -f shop.yaml --speed 60", "an hour a minute, to watch"},
    {"aware run -f examples/services/shop.yaml -f examples/services/shop-anomalies.yaml -d 60s",
     "a graph of services under one SLO, and something that goes wrong in it"},
    {"aware run -f shop.yaml --output json", "every decision as a line of JSON"},
    {"aware run --daemon -f shop.yaml --state /var/lib/aware", "as a service, in real time"},
    {"aware run --cluster local -f examples/local.yaml --duration 5m", "real processes, real load"},
    {"aware run --cluster local -f examples/trial/trial.yaml --speed 15 --duration 2h",
     "two hours of control in eight minutes"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_run = {
    .name = "run",
    .summary = "Autoscale workloads: learn from the fallback, take over, serve, retrain",
    .text =
        "Every workload begins OFFLINE: the fallback (HPA and VPA) acts and the agent learns from "
        "what it does. After ten minutes a rule that did well in similar applications acts. Where "
        "none is known, the agent goes ONLINE when it is estimated to do as well as the fallback: "
        "it acts, explores a little and learns from itself. When mean and deviation of its "
        "episodes are good it is "
        "SERVING; when they no longer are, it learns again. Rails clip every decision, and a "
        "watchdog hands back to the fallback at once when something is wrong.\n\n"
        "Beside it a twin of the cluster has the same load and random seed under the fallback "
        "alone, "
        "so that comparisons are measured, not estimated. On a terminal a table is redrawn in "
        "place; "
        "elsewhere there is a row per workload and episode, and a line per change of stage. With "
        "--output json every step of a workload is one line of JSON, the last line a summary; with "
        "csv a row.\n\n"
        "An interrupt ends the run after the step in hand, with status 130; a second one at once. "
        "A run with a state goes on from there when the same command is given again, with the same "
        "decisions as if it had never stopped; the demo keeps none unless --state is given.\n\n"
        "With --cluster local the workloads are processes of this machine under real load, in real "
        "time and without a twin. A run that goes on begins them anew, as many and as large as "
        "they were, and changes nothing before it has seen them.\n\n"
        "With --daemon it runs in real time until it is told to end (SIGTERM, SIGINT: saved, "
        "status 0), writes down every decision before it is carried out, and answers 'aware get', "
        "'explain', 'freeze' and their like on a socket. SIGHUP reads the files anew. Log lines go "
        "to stderr.",
    .options = run_options,
    .examples = run_examples,
    .json = true,
    .csv = true,
    .run = run_run,
};
