/*
 * run_local.c - `aware run --cluster local`: the same loop over real processes, in real time.
 *
 * Replicas run in control groups of this machine behind a balancer (cluster/local.h); the load that
 * the file describes is sent for real (load/drive.h), from a thread per workload. There is no twin:
 * a second machine would be needed. What is told is what was measured, a step later than in a
 * simulation: the step that a row is about has ended when its figures are known.
 */
#include "cli/run.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/quantity.h"
#include "cli/json.h"
#include "cli/layout.h"
#include "cluster/local.h"
#include "load/drive.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define DURATION_US (INT64_C(600) * 1000000) /* when --duration does not say */
#define READY_US    (INT64_C(60) * 1000000)  /* for the first replicas */
#define FRAME_US    100000
#define REPORT_US   200000 /* between two looks of the load at the end of the run */
#define CONNECTIONS 2048u  /* of one workload's load */
#define GIB         1073741824.0
#define DEADLINE_US 1000000
#define PROGRAM     "aware-workload"

enum look { LOOK_NONE, LOOK_ROWS, LOOK_JSON, LOOK_CSV };

struct runner;

/* The load of one workload. */
struct sender {
    struct runner *runner;
    struct aw_drive_config config;
    struct aw_drive_result result;
    enum aw_err err;
    struct aw_diag diag;
    pthread_t thread;
    bool made;
};

struct runner {
    const struct aw__run *run;
    struct aw__runask ask;
    struct aw_local *local;
    struct aw_cluster cluster;
    struct aw_store store;
    struct aw_loop *loop;
    struct aw__runhistory history;
    struct aw__runlive *live;
    struct aw_job_view *view;     /* [count] */
    struct aw_job_tally *episode; /* [count] so far */
    struct aw__runrow *row;       /* [count] */
    struct sender *sender;        /* [count] */
    uint64_t steps;
    enum look look;
    _Atomic bool load_stop, done;
    enum aw_err err;
    struct aw_diag diag;
};

static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
}

static void signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* --- what was asked --------------------------------------------------------------------------- */

static enum aw_err ask_read(struct runner *r, struct aw_diag *diag)
{
    static const char *const others[] = {"speed", "report", "daemon", "audit", "fresh"};
    const struct aw__args *args = r->run->args;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (aw__args_given(args, others[i]))
            return aw_fail(diag, AW_ERR_USAGE, "--%s goes without --cluster local", others[i]);
    if (args->repeat_count == 0)
        return aw_fail(diag, AW_ERR_USAGE,
                       "--cluster local needs a file: aware run --cluster local -f "
                       "examples/local.yaml");
    enum aw_err err = aw__runask_read(r->run, &r->ask, diag);
    if (err)
        return err;
    struct aw__runask *ask = &r->ask;
    ask->twin = false;
    ask->speed = 1;
    ask->report[0] = '\0';
    if (!aw__args_given(args, "duration"))
        ask->steps_total = (uint64_t)ceil(1e-6 * (double)DURATION_US / ask->step_s);
    if (!aw__args_given(args, "state") && !aw__args_given(args, "store")) {
        ask->state[0] = '\0';
        snprintf(ask->store, sizeof ask->store, "memory");
    }
    if (ask->count > AW_LOCAL_WORKLOADS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "at most %u workloads on one machine, found %" PRIu32,
                       AW_LOCAL_WORKLOADS_MAX, ask->count);
    return AW_OK;
}

/* The program beside this one, or by its name in PATH. */
static void program_find(char *buf, size_t size)
{
    char path[PATH_MAX];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof path - sizeof PROGRAM - 1);
    snprintf(buf, size, PROGRAM);
    if (len <= 0)
        return;
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return;
    snprintf(slash + 1, sizeof PROGRAM, PROGRAM);
    if (access(path, X_OK) == 0 && strlen(path) < size)
        snprintf(buf, size, "%s", path);
}

/* Words of a command; `text` is cut into them. */
static uint32_t words_of(char *text, const char **ret, uint32_t max)
{
    uint32_t count = 0;
    for (char *at = text; count < max;) {
        at += strspn(at, " \t\n");
        if (!*at)
            break;
        ret[count++] = at;
        at += strcspn(at, " \t\n");
        if (*at)
            *at++ = '\0';
    }
    ret[count] = NULL;
    return count;
}

static enum aw_err workload_add(struct runner *r, uint32_t i, struct aw_diag *diag)
{
    const struct aw_profile_app *app = aw_profile_set_app(&r->ask.set, &r->ask.set.profiles[i]);
    const struct aw_policy_task *task = &r->ask.workload[i].task;
    const char *words[AW_LOCAL_ARGS_MAX + 1];
    char text[PATH_MAX + sizeof app->local.command], program[PATH_MAX];
    uint32_t index;
    AW_ASSERT(app);
    if (!app->local.command[0] && !app->pool[0])
        return aw_fail_at(diag, AW_ERR_CONFIG, app->place.file, app->place.line, app->place.column,
                          "spec.local.command",
                          "an application that is written out needs the command of its replicas");
    program_find(program, sizeof program);
    if (app->local.command[0])
        snprintf(text, sizeof text, "%s", app->local.command);
    else
        snprintf(text, sizeof text, "%s --app %s --listen 127.0.0.1:{port}", program, app->pool);
    words_of(text, words, AW_LOCAL_ARGS_MAX);
    const struct aw_local_workload workload = {
        .command = words,
        .health_path = app->local.health,
        .port = (uint16_t)app->local.port,
        .replicas = task->replicas,
        .replicas_max = r->ask.workload[i].pilot.bounds.replicas_max,
        .cpu_millicores = task->cpu_millicores,
        .memory_bytes = task->memory_bytes,
    };
    struct aw_diag why;
    const enum aw_err err = aw_local_add(r->local, &workload, &index, &why);
    if (err)
        return aw_fail_at(diag, err, app->place.file, app->place.line, app->place.column,
                          "spec.local", "%s", why.text);
    return AW_OK;
}

/* --- made ------------------------------------------------------------------------------------- */

static enum aw_err loop_make(struct runner *r, struct aw_diag *diag)
{
    const struct aw__runask *ask = &r->ask;
    const struct aw_local_settings *settings = &ask->set.cluster.local;
    struct aw_pilot_config *pilots = aw_alloc_new(NULL, ask->count, sizeof *pilots);
    struct aw_policy_task *tasks = aw_alloc_new(NULL, ask->count, sizeof *tasks);
    enum aw_err err =
        pilots && tasks ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for the loop");
    const double cores = settings->cores > 0 ? settings->cores : aw_threads_cpu_count();
    for (uint32_t i = 0; !err && i < ask->count; i++) {
        pilots[i] = ask->workload[i].pilot;
        pilots[i].in_place = true;
        pilots[i].node_cpu_millicores = (int64_t)llround(1e3 * cores);
        pilots[i].node_memory_bytes = (int64_t)(settings->memory_gib * GIB); /* 0: unknown */
        tasks[i] = ask->workload[i].task;
    }
    if (!err) {
        const struct aw_loop_config config = {
            .cluster = r->cluster,
            .store = &r->store,
            .pilots = pilots,
            .tasks = tasks,
            .workload_count = ask->count,
            .thread_count = ask->thread_count,
            .deadline_us = DEADLINE_US,
        };
        err = aw_loop_new(&config, NULL, &r->loop, diag);
    }
    aw_alloc_free(NULL, tasks);
    aw_alloc_free(NULL, pilots);
    return err;
}

static enum aw_err make(struct runner *r, struct aw_diag *diag)
{
    const struct aw__runask *ask = &r->ask;
    uint64_t rows = 0, episodes = 0;
    for (uint32_t i = 0; i < ask->count; i++) { /* what learners look back on, and one in flight */
        const struct aw_pilot_config *pilot = &ask->workload[i].pilot;
        episodes += pilot->learner.episodes + 2;
        rows += (uint64_t)(pilot->learner.episodes + 2) * pilot->episode_steps;
    }
    const struct aw_store_options options = {
        .rows_max = rows > UINT32_MAX ? UINT32_MAX : (uint32_t)rows,
        .episodes_max = episodes > UINT32_MAX ? UINT32_MAX : (uint32_t)episodes,
        .workloads_max = ask->count,
    };
    r->view = aw_alloc_new(NULL, ask->count, sizeof *r->view);
    r->episode = aw_alloc_new(NULL, ask->count, sizeof *r->episode);
    r->row = aw_alloc_new(NULL, ask->count, sizeof *r->row);
    r->sender = aw_alloc_new(NULL, ask->count, sizeof *r->sender);
    enum aw_err err = AW_OK;
    if (!r->view || !r->episode || !r->row || !r->sender)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " workloads", ask->count);
    if (*ask->state && (err = aw_file_mkdirs(ask->state, diag)))
        return err;
    err = aw_store_open(&r->store, ask->store, &options, NULL, diag);
    err = err ? err : aw_local_new(&ask->set.cluster.local, ask->count, NULL, &r->local, diag);
    for (uint32_t i = 0; !err && i < ask->count; i++)
        err = workload_add(r, i, diag);
    if (err)
        return err;
    r->cluster = aw_local_cluster(r->local);
    err = aw__runhistory_init(&r->history, ask, diag);
    err = err ? err : loop_make(r, diag);
    if (!err && *ask->state) /* steps of an earlier run may be there */
        aw_loop_resume(r->loop);
    return err;
}

/* Lets real time pass in pieces that notice a signal. */
static enum aw_err pause_until(const struct runner *r, int64_t until_us)
{
    const struct aw_cluster_ops *ops = r->cluster.ops;
    enum aw_err err = AW_OK;
    for (int64_t now; !err && !stop_signal && (now = ops->now_us(r->cluster.self)) < until_us;)
        err = ops->advance(r->cluster.self, now + FRAME_US < until_us ? now + FRAME_US : until_us);
    return err;
}

static enum aw_err ready_wait(struct runner *r, struct aw_diag *diag)
{
    const struct aw_cluster_ops *ops = r->cluster.ops;
    const int64_t until = ops->now_us(r->cluster.self) + READY_US;
    for (uint32_t i = 0; i < r->ask.count && !stop_signal; i++) {
        struct aw_sample sample = {0};
        enum aw_err err = AW_OK;
        while (!err && !stop_signal && ops->now_us(r->cluster.self) < until) {
            err = ops->observe(r->cluster.self, i, DEADLINE_US, &sample);
            if (err || sample.replicas_ready > 0)
                break;
            err = pause_until(r, ops->now_us(r->cluster.self) + FRAME_US);
        }
        if (err)
            return aw_fail(diag, err, "the local cluster does not answer");
        if (sample.replicas_ready == 0 && !stop_signal) {
            char trouble[AW_DIAG_TEXT_MAX];
            aw_local_trouble(r->local, i, trouble, sizeof trouble);
            return aw_fail(diag, AW_ERR_UNAVAILABLE, "%s: no replica became ready%s%.300s",
                           aw__run_name(r->ask.workload[i].pilot.name), *trouble ? ": " : "",
                           trouble);
        }
    }
    return AW_OK;
}

/* --- load ------------------------------------------------------------------------------------- */

static bool load_goes_on(void *ctx, const struct aw_drive_report *report)
{
    const struct sender *sender = ctx;
    (void)report;
    return !sender->runner->load_stop;
}

static void *load_thread(void *ctx)
{
    struct sender *sender = ctx;
    sender->err = aw_drive_run(&sender->config, &sender->result, &sender->diag);
    return NULL;
}

/* A request in flight has three descriptors in this process: of the load, and on both sides of the
 * balancer. Returns how many connections that leaves to each workload. */
static uint32_t connections_max(uint32_t workloads)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        return 64;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) || getrlimit(RLIMIT_NOFILE, &files))
        return 64;
    const uint64_t each = files.rlim_cur / 4 / workloads;
    return each > CONNECTIONS ? CONNECTIONS : each > 0 ? (uint32_t)each : 1;
}

static enum aw_err load_begin(struct runner *r, struct aw_diag *diag)
{
    const struct aw__runask *ask = &r->ask;
    const uint32_t connections = connections_max(ask->count);
    sigset_t all, before;
    enum aw_err err = AW_OK;
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; !err && i < ask->count; i++) {
        const struct aw_profile_app *app = aw_profile_set_app(&ask->set, &ask->set.profiles[i]);
        struct sender *sender = &r->sender[i];
        char url[256];
        snprintf(url, sizeof url, "http://127.0.0.1:%u%s", (unsigned)aw_local_port(r->local, i),
                 app->local.path);
        sender->runner = r;
        if ((err = aw_target_parse(url, false, &sender->config.target, diag)))
            break;
        const double span_s = (double)ask->steps_total * ask->step_s;
        sender->config.timetable = (struct aw_timetable_config){
            .load = &ask->load[i],
            .speed = 1,
            .arrivals = AW_ARRIVALS_POISSON,
            .seed = ask->seed + i,
            .duration_us = (int64_t)llround(1e6 * (span_s + 1)),
        };
        sender->config.connections_max = connections;
        sender->config.threads = 1;
        sender->config.timeout_us =
            (int64_t)llround(1e6 * ask->set.cluster.local.request_timeout_s);
        sender->config.report_us = REPORT_US;
        sender->config.report = load_goes_on;
        sender->config.ctx = sender;
        const int failed = pthread_create(&sender->thread, NULL, load_thread, sender);
        sender->made = failed == 0;
        if (failed)
            err = aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for the load: %s", strerror(failed));
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

static enum aw_err load_end(struct runner *r, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    r->load_stop = true;
    for (uint32_t i = 0; r->sender && i < r->ask.count; i++) {
        struct sender *sender = &r->sender[i];
        if (!sender->made)
            continue;
        pthread_join(sender->thread, NULL);
        sender->made = false;
        if (sender->err && !err) {
            err = sender->err;
            if (diag)
                *diag = sender->diag;
        }
    }
    return err;
}

/* --- steps ------------------------------------------------------------------------------------ */

static double or_zero(double value)
{
    return isfinite(value) ? value : 0;
}

static void tally_add(struct aw_job_tally *tally, const struct aw_decision *d, double step_s)
{
    tally->steps++;
    tally->violations += d->score.violated;
    tally->agent_steps += d->actor == AW_ACTOR_AGENT || d->actor == AW_ACTOR_EXPLORING;
    tally->cost += or_zero(d->score.cost);
    tally->reward += or_zero(d->score.paper_reward);
    tally->cpu_utilisation += or_zero(d->score.cpu_utilisation);
    tally->memory_utilisation += or_zero(d->score.memory_utilisation);
    tally->requests += or_zero(d->reading.arrivals_per_s) * step_s;
    tally->failed += or_zero(d->reading.errors_per_s) * step_s;
    tally->core_s += or_zero(d->reading.cores_allocated) * step_s;
    tally->gib_s += or_zero(d->reading.memory_bytes_allocated) / GIB * step_s;
    tally->replica_s += d->reading.replicas_ready * step_s;
    tally->oom_kills += d->reading.oom_kills;
}

static void step_tell(struct runner *r, uint32_t i, int64_t at_us)
{
    const struct aw__runask *ask = &r->ask;
    struct aw_job_view *view = &r->view[i];
    const struct aw_pilot *pilot = aw_loop_pilot(r->loop, i);
    const struct aw_decision *d = aw_pilot_decision(pilot);
    struct aw_job_tally *own = &r->episode[i];
    const uint32_t episodes = view->episodes;
    view->name = ask->workload[i].pilot.name;
    view->pilot = pilot;
    view->decision = d;
    tally_add(&view->total[AW_JOB_AWARE], d, ask->step_s);
    tally_add(&view->stage[AW_JOB_AWARE][d->stage], d, ask->step_s);
    tally_add(own, d, ask->step_s);
    view->transitions += d->moved;
    if (own->steps >= ask->workload[i].pilot.episode_steps) {
        view->recent[AW_JOB_AWARE] = *own;
        *own = (struct aw_job_tally){0};
        view->episodes++;
    }
    const struct aw_job_step step = {
        .workload = i,
        .decision = d,
        .at_us = at_us,
        .truth[AW_JOB_AWARE] = d->score,
        .arrivals_per_s = or_zero(d->reading.arrivals_per_s),
        .replicas_ready[AW_JOB_AWARE] = d->reading.replicas_ready,
        .plan[AW_JOB_AWARE] = d->guard.plan,
    };
    const uint32_t events = aw__runhistory_step(&r->history, ask, &step, view);
    aw__runrow_of(&r->row[i], &step, view);
    if (r->look == LOOK_JSON || r->look == LOOK_CSV)
        aw__runlines_step(stdout, r->look == LOOK_JSON, ask, &step);
    for (uint32_t n = events; r->look == LOOK_ROWS && n-- > 0;) {
        const struct aw__runevent *event = aw__runhistory_event(&r->history, n);
        if (event)
            aw__runrows_event(stdout, ask, event);
    }
    if (r->look == LOOK_ROWS && view->episodes > episodes)
        aw__runrows_episode(stdout, ask, &r->row[i], at_us);
}

static enum aw_err steps(struct runner *r, struct aw_diag *diag)
{
    const struct aw_cluster_ops *ops = r->cluster.ops;
    const int64_t step_us = llround(1e6 * r->ask.step_s);
    enum aw_err err = AW_OK;
    int64_t due_us = ops->now_us(r->cluster.self);
    while (!err && !stop_signal && r->steps <= r->ask.steps_total) {
        err = aw_loop_tick(r->loop, NULL, NULL, diag);
        /* at the first tick no step has ended yet */
        for (uint32_t i = 0; !err && r->steps > 0 && i < r->ask.count; i++)
            step_tell(r, i, (int64_t)(r->steps - 1) * step_us);
        if (r->live && r->steps > 0)
            aw__runlive_tell(r->live, r->row, r->steps, &r->history);
        if (r->look != LOOK_NONE)
            fflush(stdout);
        if (err || ++r->steps > r->ask.steps_total)
            break;
        due_us += step_us;
        const int64_t now = ops->now_us(r->cluster.self);
        due_us = due_us < now ? now : due_us; /* learning took long: nothing is made up for */
        err = pause_until(r, due_us);
    }
    return err;
}

static void *steps_thread(void *ctx)
{
    struct runner *r = ctx;
    r->err = steps(r, &r->diag);
    r->done = true;
    return NULL;
}

static enum aw_err steps_shown(struct runner *r, struct aw_diag *diag)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&thread, NULL, steps_thread, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread to run on: %s", strerror(failed));
    while (!r->done) {
        aw__runlive_draw(r->live, stop_signal != 0);
        const enum aw_err err = aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + FRAME_US);
        (void)err; /* a signal only brings the next frame forward */
    }
    pthread_join(thread, NULL);
    if (r->err)
        *diag = r->diag;
    return r->err;
}

/* --- the end ---------------------------------------------------------------------------------- */

static uint64_t failed_of(const struct aw_drive_totals *all)
{
    uint64_t failed = 0;
    for (uint32_t i = 0; i < AW_DRIVE_ERRORS; i++)
        failed += all->error[i];
    return failed;
}

static enum aw_err summary_print(struct runner *r, struct aw_diag *diag)
{
    static const char *const heads[] = {"WORKLOAD", "STAGE",  ">STEPS", ">MISSED", ">REWARD",
                                        ">COST $",  ">CORES", ">CPU%",  ">MEM%",   ">REQUESTS",
                                        ">FAILED",  ">P99",   ">OOM",   NULL};
    struct aw__table table;
    aw__table_init(&table, heads);
    for (uint32_t i = 0; i < r->ask.count; i++) {
        const struct aw_job_tally *t = &r->view[i].total[AW_JOB_AWARE];
        const struct aw_drive_result *sent = &r->sender[i].result;
        const double n = t->steps ? (double)t->steps : 1;
        char p99[AW_QUANTITY_TEXT_MAX];
        aw__table_add(&table, "%s", aw__run_name(r->ask.workload[i].pilot.name));
        aw__table_add(&table, "%s", aw_stage_name(aw_pilot_stage(aw_loop_pilot(r->loop, i))));
        aw__table_add(&table, "%" PRIu64, t->steps);
        aw__table_add(&table, "%" PRIu64, t->violations);
        aw__table_add(&table, "%.1f", aw__run_reward(t, r->ask.workload[i].pilot.episode_steps));
        aw__table_add(&table, "%.5f", t->cost);
        aw__table_add(&table, "%.2f", t->core_s / (n * r->ask.step_s));
        aw__table_add(&table, "%.1f", 100 * t->cpu_utilisation / n);
        aw__table_add(&table, "%.1f", 100 * t->memory_utilisation / n);
        aw__table_add(&table, "%" PRIu64, sent->all.due);
        aw__table_add(&table, "%" PRIu64, failed_of(&sent->all));
        aw__table_add(
            &table, "%s",
            aw_duration_round((int64_t)aw_hist_quantile(&sent->latency, 0.99), p99, sizeof p99));
        aw__table_add(&table, "%" PRIu64, t->oom_kills);
    }
    return aw__table_print(&table, stdout, r->run->color_out, diag);
}

static enum aw_err summary_json(struct runner *r, struct aw_diag *diag)
{
    json_t *root = json_object(), *list = json_array();
    for (uint32_t i = 0; i < r->ask.count; i++) {
        const struct aw_job_tally *t = &r->view[i].total[AW_JOB_AWARE];
        const struct aw_drive_result *sent = &r->sender[i].result;
        struct aw_local_requests seen;
        json_t *one = json_object();
        const double n = t->steps ? (double)t->steps : 1;
        aw_local_requests(r->local, i, &seen);
        json_object_set_new(one, "name", json_string(r->ask.workload[i].pilot.name));
        json_object_set_new(one, "stage",
                            json_string(aw_stage_name(aw_pilot_stage(aw_loop_pilot(r->loop, i)))));
        json_object_set_new(one, "steps", json_integer((json_int_t)t->steps));
        json_object_set_new(one, "violations", json_integer((json_int_t)t->violations));
        json_object_set_new(one, "agent_steps", json_integer((json_int_t)t->agent_steps));
        json_object_set_new(one, "reward_per_step", aw__json_real(t->reward / n));
        json_object_set_new(one, "cost", aw__json_real(t->cost));
        json_object_set_new(one, "core_s", aw__json_real(t->core_s));
        json_object_set_new(one, "gib_s", aw__json_real(t->gib_s));
        json_object_set_new(one, "cpu_utilisation", aw__json_real(t->cpu_utilisation / n));
        json_object_set_new(one, "memory_utilisation", aw__json_real(t->memory_utilisation / n));
        json_object_set_new(one, "oom_kills", json_integer((json_int_t)t->oom_kills));
        json_object_set_new(one, "requests", json_integer((json_int_t)sent->all.due));
        json_object_set_new(one, "failed", json_integer((json_int_t)failed_of(&sent->all)));
        json_object_set_new(one, "answered_ok", json_integer((json_int_t)sent->all.ok));
        json_object_set_new(one, "latency_us_p99",
                            aw__json_real((double)aw_hist_quantile(&sent->latency, 0.99)));
        json_object_set_new(one, "balancer_lost", json_integer((json_int_t)seen.lost));
        json_object_set_new(one, "balancer_retries", json_integer((json_int_t)seen.retries));
        json_array_append_new(list, one);
    }
    json_object_set_new(root, "type", json_string("summary"));
    json_object_set_new(root, "cluster", json_string("local"));
    json_object_set_new(root, "interrupted", json_boolean(stop_signal != 0));
    json_object_set_new(root, "workloads", list);
    char *line = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(root);
    if (!line)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the summary");
    puts(line); /* one line, as every step is */
    free(line);
    return AW_OK;
}

static void trouble_tell(struct runner *r)
{
    for (uint32_t i = 0; i < r->ask.count; i++) {
        char trouble[AW_DIAG_TEXT_MAX];
        aw_local_trouble(r->local, i, trouble, sizeof trouble);
        if (*trouble)
            aw_log_warn(r->run->log, "replicas had trouble, last of all this",
                        AW_LOG_STR("workload", r->ask.workload[i].pilot.name),
                        AW_LOG_STR("why", trouble));
    }
}

static void runner_close(struct runner *r)
{
    const enum aw_err err = load_end(r, NULL); /* before those who answer it */
    (void)err;                                 /* told by who looked for it */
    aw__runlive_free(r->live);
    aw_loop_free(r->loop);
    aw_local_free(r->local);
    aw_store_close(&r->store);
    aw__runhistory_deinit(&r->history);
    aw_alloc_free(NULL, r->sender);
    aw_alloc_free(NULL, r->row);
    aw_alloc_free(NULL, r->episode);
    aw_alloc_free(NULL, r->view);
    aw__runask_deinit(&r->ask);
    aw_alloc_free(NULL, r);
}

enum aw_err aw__run_local(const struct aw__run *run, struct aw_diag *diag)
{
    struct runner *r = aw_alloc_new(NULL, 1, sizeof *r);
    const bool quiet = aw__args_given(run->args, "quiet");
    if (!r)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a run");
    r->run = run;
    r->look = run->json                                            ? LOOK_JSON
              : !strcmp(aw__args_text(run->args, "output"), "csv") ? LOOK_CSV
                                                                   : LOOK_NONE;
    enum aw_err err = ask_read(r, diag);
    if (err)
        goto out;
    signals_catch();
    err = make(r, diag);
    if (!err && !quiet && r->look == LOOK_NONE)
        for (uint32_t i = 0; i < r->ask.count; i++)
            fprintf(stderr, "%s listens on http://127.0.0.1:%u\n",
                    aw__run_name(r->ask.workload[i].pilot.name),
                    (unsigned)aw_local_port(r->local, i));
    err = err ? err : ready_wait(r, diag);
    if (err || stop_signal)
        goto out;
    const bool watched = !quiet && (r->look == LOOK_NONE || !isatty(STDOUT_FILENO));
    if ((err = aw__runlive_new(&r->ask, stderr, watched, run->color_err, 0, &r->live))) {
        err = aw_fail(diag, err, "no memory for the table");
        goto out;
    }
    if (r->look == LOOK_NONE && !r->live && !quiet)
        r->look = LOOK_ROWS;
    if (r->look == LOOK_ROWS)
        aw__runrows_head(stdout, &r->ask);
    else if (r->look != LOOK_NONE)
        aw__runlines_head(stdout, r->look == LOOK_JSON, &r->ask, 0);
    err = load_begin(r, diag);
    err = err ? err : r->live ? steps_shown(r, diag) : steps(r, diag);
    const enum aw_err sent = load_end(r, err ? NULL : diag);
    err = err ? err : sent;
    aw__runlive_free(r->live);
    r->live = NULL;
    if (!err && r->look != LOOK_CSV)
        err = r->look == LOOK_JSON ? summary_json(r, diag) : summary_print(r, diag);
    trouble_tell(r);
out:
    runner_close(r);
    if (!err && stop_signal)
        err = aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted; everything was ended");
    return err;
}
