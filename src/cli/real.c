/* real.c - workloads as real processes under real load, in one control loop. */
#include "cli/real.h"

#include "base/clock.h"
#include "base/file.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define READY_US        (INT64_C(60) * 1000000) /* real, for the first replicas */
#define FRAME_US        100000                  /* real, between two looks at a signal */
#define REPORT_US       200000                  /* between two looks of the load at the end */
#define CONNECTIONS     2048u                   /* of one workload's load */
#define CONNECTIONS_FEW 64u                     /* where nobody says how many files may be open */
#define LATE            4.0  /* times as long as it should take, and then some: a run whose ticks */
#define LATE_S          60.0 /* are late, or that learns in between, has load until its end */
#define GIB             1073741824.0
#define DEADLINE_US     1000000
#define PROGRAM         "aware-workload"
#define METRICS         "/metrics" /* of it */

/* --- processes -------------------------------------------------------------------------------- */

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

/* The file that replicas of one workload share, so that all of them do the same work. */
static const char *costs_path(const struct aw_real *real, uint32_t i, char buf[PATH_MAX])
{
    snprintf(buf, PATH_MAX, "%s/w%" PRIu32 ".costs", aw_local_dir(real->local), i);
    return buf;
}

static enum aw_err costs_put(const struct aw_real *real, uint32_t i, struct aw_diag *diag)
{
    const struct aw_real_costs *costs = real->config.costs ? &real->config.costs[i] : NULL;
    char path[PATH_MAX];
    if (!costs || !costs->len)
        return AW_OK;
    return aw_file_replace(costs_path(real, i, path), costs->bytes, costs->len, NULL, diag);
}

/* Where there are none, because of another command or an early end, those of before stay. */
static void costs_take(const struct aw_real *real, uint32_t i)
{
    struct aw_real_costs *costs = &real->config.costs[i];
    char path[PATH_MAX], *bytes = NULL;
    size_t len = 0;
    const enum aw_err err =
        aw_file_read(costs_path(real, i, path), sizeof costs->bytes, NULL, &bytes, &len, NULL);
    if (!err && len) {
        memcpy(costs->bytes, bytes, len);
        costs->len = len;
    }
    aw_alloc_free(NULL, bytes);
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

static enum aw_err workload_add(struct aw_real *real, uint32_t i, struct aw_diag *diag)
{
    const struct aw_runask *ask = real->config.ask;
    const struct aw_profile_app *app = aw_profile_set_app(&ask->set, &ask->set.profiles[i]);
    const struct aw_policy_task *task = &ask->workload[i].task;
    const char *words[AW_LOCAL_ARGS_MAX + 1];
    char text[sizeof app->local.command], program[PATH_MAX], costs[PATH_MAX];
    uint32_t index;
    AW_ASSERT(app);
    if (!app->local.command[0] && !app->pool[0])
        return aw_fail_at(diag, AW_ERR_CONFIG, app->place.file, app->place.line, app->place.column,
                          "spec.local.command",
                          "an application that is written out needs the command of its replicas");
    program_find(program, sizeof program);
    const char *const own[] = {program,
                               "--app",
                               app->pool,
                               "--listen",
                               "127.0.0.1:{port}",
                               "--costs",
                               costs_path(real, i, costs),
                               NULL};
    snprintf(text, sizeof text, "%s", app->local.command);
    words_of(text, words, AW_LOCAL_ARGS_MAX);
    const enum aw_err kept = costs_put(real, i, diag);
    if (kept)
        return kept;
    const struct aw_local_workload workload = {
        .command = app->local.command[0] ? words : own,
        .health_path = app->local.health,
        .metrics_path = app->local.metrics[0]   ? app->local.metrics
                        : app->local.command[0] ? NULL
                                                : METRICS,
        .metrics_histogram = app->local.histogram,
        .port = (uint16_t)app->local.port,
        .replicas = task->replicas,
        .replicas_max = ask->workload[i].pilot.bounds.replicas_max,
        .cpu_millicores = task->cpu_millicores,
        .memory_bytes = task->memory_bytes,
    };
    struct aw_diag why;
    const enum aw_err err = aw_local_add(real->local, &workload, &index, &why);
    if (err)
        return aw_fail_at(diag, err, app->place.file, app->place.line, app->place.column,
                          "spec.local", "%s", why.text);
    return AW_OK;
}

static enum aw_err loop_make(struct aw_real *real, struct aw_diag *diag)
{
    const struct aw_runask *ask = real->config.ask;
    const struct aw_local_settings *settings = &ask->set.cluster.local;
    struct aw_pilot_config *pilots = aw_alloc_new(NULL, ask->count, sizeof *pilots);
    struct aw_policy_task *tasks = aw_alloc_new(NULL, ask->count, sizeof *tasks);
    enum aw_err err =
        pilots && tasks ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for the loop");
    const double cores = settings->cores > 0 ? settings->cores : aw_threads_cpu_count();
    for (uint32_t i = 0; !err && i < ask->count; i++) {
        pilots[i] = real->config.pilots ? real->config.pilots[i] : ask->workload[i].pilot;
        pilots[i].in_place = true;
        pilots[i].node_cpu_millicores = (int64_t)llround(1e3 * cores);
        pilots[i].node_memory_bytes = (int64_t)(settings->memory_gib * GIB); /* 0: unknown */
        tasks[i] = ask->workload[i].task;
    }
    if (!err) {
        const struct aw_loop_config config = {
            .cluster = real->cluster,
            .store = real->config.store,
            .pilots = pilots,
            .tasks = tasks,
            .workload_count = ask->count,
            .thread_count = ask->thread_count,
            .deadline_us = DEADLINE_US,
            .exchange = real->config.exchange,
        };
        err = aw_loop_new(&config, NULL, &real->loop, diag);
    }
    aw_alloc_free(NULL, tasks);
    aw_alloc_free(NULL, pilots);
    return err;
}

enum aw_err aw_real_open(struct aw_real *real, const struct aw_real_config *config,
                         struct aw_diag *diag)
{
    const struct aw_runask *ask = config->ask;
    *real = (struct aw_real){.config = *config};
    if (ask->count > AW_LOCAL_WORKLOADS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "at most %u workloads on one machine, found %" PRIu32,
                       AW_LOCAL_WORKLOADS_MAX, ask->count);
    if (!(real->load = aw_alloc_new(NULL, ask->count, sizeof *real->load)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " workloads", ask->count);
    enum aw_err err = aw_local_new(&ask->set.cluster.local, ask->count, NULL, &real->local, diag);
    for (uint32_t i = 0; !err && i < ask->count; i++)
        err = workload_add(real, i, diag);
    if (err)
        return err;
    aw_pace_init(&real->pace, aw_local_cluster(real->local), config->speed, config->begin_us);
    real->cluster = aw_pace_cluster(&real->pace);
    return loop_make(real, diag);
}

void aw_real_close(struct aw_real *real)
{
    const enum aw_err err = aw_real_load_end(real, NULL); /* before those who answer it */
    (void)err;                                            /* told by who looked for it */
    aw_loop_free(real->loop);
    for (uint32_t i = 0; real->local && real->config.costs && i < real->config.ask->count; i++)
        costs_take(real, i);
    aw_local_free(real->local);
    aw_alloc_free(NULL, real->load);
    real->loop = NULL;
    real->local = NULL;
    real->load = NULL;
}

enum aw_err aw_real_store_open(const struct aw_runask *ask, const char *where,
                               struct aw_store *ret_store, struct aw_diag *diag)
{
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
    return aw_store_open(ret_store, where, &options, NULL, diag);
}

/* --- time ------------------------------------------------------------------------------------- */

static bool stopped(const struct aw_real *real)
{
    return real->config.stop && *real->config.stop;
}

/* Lets time pass in pieces that notice a signal. */
static enum aw_err pause_until(const struct aw_real *real, int64_t until_us)
{
    const struct aw_cluster_ops *ops = real->cluster.ops;
    const int64_t frame_us = llround(FRAME_US * real->config.speed);
    enum aw_err err = AW_OK;
    for (int64_t now; !err && !stopped(real) && (now = ops->now_us(real->cluster.self)) < until_us;)
        err =
            ops->advance(real->cluster.self, now + frame_us < until_us ? now + frame_us : until_us);
    return err;
}

static enum aw_err ready_one(struct aw_real *real, uint32_t i, int64_t until_us,
                             struct aw_diag *diag)
{
    const struct aw_cluster_ops *ops = real->cluster.ops;
    struct aw_sample sample = {0};
    enum aw_err err = AW_OK;
    while (!err && !stopped(real) && aw_clock_monotonic_us(NULL) < until_us) {
        err = ops->observe(real->cluster.self, i, DEADLINE_US, &sample);
        if (err || sample.replicas_ready > 0)
            break;
        err = pause_until(real, ops->now_us(real->cluster.self) + 1 +
                                    llround(FRAME_US * real->config.speed));
    }
    if (err)
        return aw_fail(diag, err, "the local cluster does not answer");
    if (sample.replicas_ready > 0 || stopped(real))
        return AW_OK;
    char trouble[AW_DIAG_TEXT_MAX];
    aw_local_trouble(real->local, i, trouble, sizeof trouble);
    return aw_fail(diag, AW_ERR_UNAVAILABLE, "%s: no replica became ready%s%.300s",
                   aw_run_name(real->config.ask->workload[i].pilot.name), *trouble ? ": " : "",
                   trouble);
}

enum aw_err aw_real_ready(struct aw_real *real, struct aw_diag *diag)
{
    const int64_t until = aw_clock_monotonic_us(NULL) + READY_US;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < real->config.ask->count; i++)
        err = ready_one(real, i, until, diag);
    return err;
}

enum aw_err aw_real_steps(struct aw_real *real, uint64_t steps, aw_real_told *told, void *ctx,
                          struct aw_diag *diag)
{
    const struct aw_cluster_ops *ops = real->cluster.ops;
    const int64_t step_us = llround(1e6 * real->config.ask->step_s);
    int64_t due_us = ops->now_us(real->cluster.self);
    enum aw_err err = AW_OK;
    for (uint64_t ended = 0; !err && !stopped(real); ended++) {
        err = aw_loop_tick(real->loop, NULL, NULL, diag);
        if (!err && ended > 0) /* at the first tick no step has ended yet */
            told(ctx, ended);
        if (err || ended >= steps)
            break;
        due_us += step_us;
        const int64_t now = ops->now_us(real->cluster.self);
        due_us = due_us < now ? now : due_us; /* learning took long: nothing is made up for */
        err = pause_until(real, due_us);
    }
    return err;
}

/* --- load ------------------------------------------------------------------------------------- */

static bool load_goes_on(void *ctx, const struct aw_drive_report *report)
{
    const struct aw__real_load *load = ctx;
    (void)report;
    return !*load->stop;
}

static void *load_thread(void *ctx)
{
    struct aw__real_load *load = ctx;
    load->err = aw_drive_run(&load->config, &load->result, &load->diag);
    return NULL;
}

/* A request in flight has three descriptors in this process: of the load, and on both sides of the
 * balancer. Returns how many connections that leaves to each workload. */
static uint32_t connections_max(uint32_t workloads)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        return CONNECTIONS_FEW;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) || getrlimit(RLIMIT_NOFILE, &files))
        return CONNECTIONS_FEW;
    const uint64_t each = files.rlim_cur / 4 / workloads;
    return each > CONNECTIONS ? CONNECTIONS : each > 0 ? (uint32_t)each : 1;
}

/* The load from one of its slots to its end, where it begins again from that slot. */
static struct aw_load part_of(const struct aw_load *load, int64_t from_us)
{
    struct aw_load part = *load;
    const uint32_t skip = (uint32_t)(from_us / load->slot_us % load->slot_count);
    part.rate_per_s += skip;
    part.slot_count -= skip;
    return part;
}

static enum aw_err load_one(struct aw_real *real, uint32_t i, int64_t from_us, double span_s,
                            uint64_t seed, struct aw_diag *diag)
{
    const struct aw_runask *ask = real->config.ask;
    const struct aw_profile_app *app = aw_profile_set_app(&ask->set, &ask->set.profiles[i]);
    struct aw__real_load *load = &real->load[i];
    char url[256];
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", (unsigned)aw_local_port(real->local, i),
             app->local.path);
    *load =
        (struct aw__real_load){.stop = &real->load_stop, .part = part_of(&ask->load[i], from_us)};
    enum aw_err err = aw_target_parse(url, false, &load->config.target, diag);
    if (err)
        return err;
    load->config.timetable = (struct aw_timetable_config){
        .load = &load->part,
        .speed = real->config.speed,
        .arrivals = AW_ARRIVALS_POISSON,
        .seed = seed + i,
        .duration_us = (int64_t)llround(1e6 * span_s),
    };
    load->config.connections_max = connections_max(ask->count);
    load->config.threads = 1;
    load->config.timeout_us = (int64_t)llround(1e6 * ask->set.cluster.local.request_timeout_s);
    load->config.report_us = REPORT_US;
    load->config.report = load_goes_on;
    load->config.ctx = load;
    const int failed = pthread_create(&load->thread, NULL, load_thread, load);
    load->made = failed == 0;
    return failed
               ? aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for the load: %s", strerror(failed))
               : AW_OK;
}

enum aw_err aw_real_load_begin(struct aw_real *real, int64_t from_us, uint64_t steps, uint64_t seed,
                               struct aw_diag *diag)
{
    const struct aw_runask *ask = real->config.ask;
    const double span_s = (double)steps * ask->step_s / real->config.speed * LATE + LATE_S;
    sigset_t all, before;
    enum aw_err err = AW_OK;
    real->load_stop = false;
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; !err && i < ask->count; i++)
        err = load_one(real, i, from_us, span_s, seed, diag);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

enum aw_err aw_real_load_end(struct aw_real *real, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    real->load_stop = true;
    for (uint32_t i = 0; real->load && i < real->config.ask->count; i++) {
        struct aw__real_load *load = &real->load[i];
        if (!load->made)
            continue;
        pthread_join(load->thread, NULL);
        load->made = false;
        if (load->err && !err) {
            err = load->err;
            if (diag)
                *diag = load->diag;
        }
    }
    return err;
}

/* --- what came of it -------------------------------------------------------------------------- */

static double or_zero(double value)
{
    return isfinite(value) ? value : 0;
}

void aw_real_tally(struct aw_job_tally *tally, const struct aw_decision *d, double step_s)
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

uint64_t aw_real_failed(const struct aw_drive_totals *all)
{
    uint64_t failed = 0;
    for (uint32_t i = 0; i < AW_DRIVE_ERRORS; i++)
        failed += all->error[i];
    return failed;
}
