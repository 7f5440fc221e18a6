/* local_run.c - the workloads of a run as real processes under real load. */
#include "daemon/local_run.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "daemon/daemon_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define READY_US        (INT64_C(60) * 1000000) /* real, for the first replicas */
#define FRAME_US        100000                  /* real, between two looks at a signal */
#define REPORT_US       200000                  /* between two looks of the load at the end */
#define CONNECTIONS     2048u                   /* of one workload's load */
#define CONNECTIONS_FEW 64u                     /* where nobody says how many files may be open */
#define LATE            4.0  /* times as long as it should take, and then some: a run whose ticks */
#define LATE_S          60.0 /* are late, or that learns in between, has load until its end */
#define LOAD_MAX_S      3e8  /* of a daemon's: ten years */
#define DEADLINE_US     1000000
#define PROGRAM         "aware-workload"
#define METRICS         "/metrics" /* of it */
#define RETIRED_MAX     64u        /* workloads of one life, the cluster's own limit */

/* --- processes -------------------------------------------------------------------------------- */

/* The file that replicas of one workload share, so that all of them do the same work. */
static const char *costs_path(const struct aw_local_run *run, uint32_t i, char buf[PATH_MAX])
{
    snprintf(buf, PATH_MAX, "%s/w%" PRIu32 ".costs", aw_local_dir(run->local), i);
    return buf;
}

static enum aw_err costs_put(const struct aw_local_run *run, uint32_t i, struct aw_diag *diag)
{
    const struct aw_local_costs *costs = run->config.costs ? &run->config.costs[i] : NULL;
    char path[PATH_MAX];
    if (!costs || !costs->len)
        return AW_OK;
    return aw_file_replace(costs_path(run, i, path), costs->bytes, costs->len, NULL, diag);
}

/* Where there are none, because of another command or an early end, those of before stay. */
static void costs_take(const struct aw_local_run *run, uint32_t i)
{
    struct aw_local_costs *costs = &run->config.costs[i];
    char path[PATH_MAX], *bytes = NULL;
    size_t len = 0;
    const enum aw_err err =
        aw_file_read(costs_path(run, i, path), sizeof costs->bytes, NULL, &bytes, &len, NULL);
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

/* A command of a file is not run as root unless the file says so. */
static enum aw_err user_of(const struct aw_profile_app *app, uint32_t *ret_uid, uint32_t *ret_gid,
                           struct aw_diag *diag)
{
    struct passwd entry, *found = NULL;
    char scratch[4096];
    *ret_uid = *ret_gid = 0;
    if (!app->local.command[0] || geteuid() != 0)
        return AW_OK;
    const int why = getpwnam_r(app->local.user, &entry, scratch, sizeof scratch, &found);
    if (!found)
        return aw_fail_at(diag, AW_ERR_CONFIG, app->place.file, app->place.line, app->place.column,
                          "spec.local.user", "there is no user %s%s%s", app->local.user,
                          why ? ": " : "", why ? strerror(why) : "");
    *ret_uid = entry.pw_uid;
    *ret_gid = entry.pw_gid;
    return AW_OK;
}

enum aw_err aw_local_run_check(const struct aw_daemon_config *ask, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < ask->count; i++) {
        const struct aw_profile *profile = &ask->set.profiles[i];
        const uint32_t max = ask->workload[i].pilot.bounds.replicas_max;
        if (max > AW_LOCAL_REPLICAS_MAX)
            return aw_fail_at(diag, AW_ERR_RANGE, profile->place.file, profile->place.line,
                              profile->place.column, "spec.constraints.global.maxReplicas",
                              "expected at most %u replicas on one machine, found %" PRIu32,
                              AW_LOCAL_REPLICAS_MAX, max);
    }
    return AW_OK;
}

/* The i-th of `ask`, behind those that are there. */
static enum aw_err workload_add(struct aw_local_run *run, const struct aw_daemon_config *ask,
                                uint32_t i, struct aw_diag *diag)
{
    const struct aw_profile_app *app = aw_profile_set_app(&ask->set, &ask->set.profiles[i]);
    const struct aw_fallback_task *task = &ask->workload[i].task;
    const char *words[AW_LOCAL_ARGS_MAX + 1];
    char text[sizeof app->local.command], program[PATH_MAX], costs[PATH_MAX];
    uint32_t index;
    AW_ASSERT(app);
    if (!app->local.command[0] && !app->pool[0])
        return aw_fail_at(diag, AW_ERR_CONFIG, app->place.file, app->place.line, app->place.column,
                          "spec.local.command",
                          "an application that is written out needs the command of its replicas");
    aw_file_program_beside(PROGRAM, program, sizeof program);
    const char *const own[] = {program,
                               "--app",
                               app->pool,
                               "--listen",
                               "127.0.0.1:{port}",
                               "--costs",
                               costs_path(run, run->made, costs),
                               NULL};
    snprintf(text, sizeof text, "%s", app->local.command);
    words_of(text, words, AW_LOCAL_ARGS_MAX);
    uint32_t uid, gid;
    enum aw_err kept = user_of(app, &uid, &gid, diag);
    kept = kept ? kept : costs_put(run, i, diag);
    if (kept)
        return kept;
    const struct aw_local_workload workload = {
        .command = app->local.command[0] ? words : own,
        .uid = uid,
        .gid = gid,
        .health_path = app->local.health,
        .metrics_path = app->local.metrics[0]   ? app->local.metrics
                        : app->local.command[0] ? NULL
                                                : METRICS,
        .metrics_histogram = app->local.histogram,
        .port = (uint16_t)app->local.port,
        .replicas = task->replicas,
        .replicas_max = AW_LOCAL_REPLICAS_MAX, /* the bounds may be raised while they run */
        .cpu_millicores = task->cpu_millicores,
        .memory_bytes = task->memory_bytes,
    };
    struct aw_diag why;
    const enum aw_err err = aw_local_add(run->local, &workload, &index, &why);
    if (err)
        return aw_fail_at(diag, err, app->place.file, app->place.line, app->place.column,
                          "spec.local", "%s", why.text);
    snprintf(run->name[index], sizeof run->name[index], "%s", ask->workload[i].pilot.name);
    run->made++;
    run->count++;
    return AW_OK;
}

static uint32_t index_of(const struct aw_local_run *run, const char *name)
{
    uint32_t i = 0;
    while (i < run->count && strcmp(run->name[i], name) != 0)
        i++;
    return i;
}

static void retire(struct aw_local_run *run, uint32_t i)
{
    if (aw_local_retire(run->local, i))
        return; /* grow has looked for room */
    run->count--;
    memmove(run->name[i], run->name[i + 1], (run->count - i) * sizeof *run->name);
}

enum aw_err aw_local_run_grow(struct aw_local_run *run, const struct aw_daemon_config *next,
                              struct aw_diag *diag)
{
    const uint32_t before = run->count;
    enum aw_err err =
        next->count > AW_LOCAL_WORKLOADS_MAX
            ? aw_fail(diag, AW_ERR_LIMIT, "at most %u workloads on one machine, found %" PRIu32,
                      AW_LOCAL_WORKLOADS_MAX, next->count)
            : aw_local_run_check(next, diag);
    uint32_t fresh = 0;
    for (uint32_t i = 0; !err && i < next->count; i++)
        fresh += index_of(run, next->workload[i].pilot.name) == run->count;
    if (!err && run->made + fresh > RETIRED_MAX)
        err = aw_fail(diag, AW_ERR_LIMIT,
                      "too many workloads have come and gone: restart it; nothing learned is lost");
    for (uint32_t i = 0; !err && i < next->count; i++)
        if (index_of(run, next->workload[i].pilot.name) == run->count)
            err = workload_add(run, next, i, diag);
    while (err && run->count > before)
        retire(run, run->count - 1);
    return err;
}

void aw_local_run_settle(struct aw_local_run *run, const struct aw_daemon_config *next)
{
    for (uint32_t i = run->count; i-- > 0;) {
        uint32_t n = 0;
        while (n < next->count && strcmp(next->workload[n].pilot.name, run->name[i]) != 0)
            n++;
        if (n == next->count)
            retire(run, i);
    }
    for (uint32_t i = 0; i < next->count; i++) {
        char name[AW_STORE_NAME_MAX];
        const uint32_t at = index_of(run, next->workload[i].pilot.name);
        AW_ASSERT(at < run->count);
        aw_local_swap(run->local, i, at);
        memcpy(name, run->name[i], sizeof name);
        memcpy(run->name[i], run->name[at], sizeof name);
        memcpy(run->name[at], name, sizeof name);
    }
}

enum aw_err aw_local_run_open(struct aw_local_run *run, const struct aw_local_run_config *config,
                              struct aw_diag *diag)
{
    const struct aw_daemon_config *ask = config->ask;
    *run = (struct aw_local_run){.config = *config};
    if (ask->count > AW_LOCAL_WORKLOADS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "at most %u workloads on one machine, found %" PRIu32,
                       AW_LOCAL_WORKLOADS_MAX, ask->count);
    if (!(run->load = aw_alloc_new(NULL, AW_LOCAL_WORKLOADS_MAX, sizeof *run->load)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " workloads", ask->count);
    enum aw_err err = aw_local_run_check(ask, diag);
    err = err ? err
              : aw_local_new(&ask->set.cluster.local, AW_LOCAL_WORKLOADS_MAX, NULL, &run->local,
                             diag);
    for (uint32_t i = 0; !err && i < ask->count; i++)
        err = workload_add(run, ask, i, diag);
    if (err)
        return err;
    aw_time_scale_init(&run->pace, aw_local_cluster(run->local), ask->speed, config->begin_us);
    run->cluster = aw_time_scale_cluster(&run->pace);
    return AW_OK;
}

void aw_local_run_close(struct aw_local_run *run)
{
    const enum aw_err err = aw_local_run_load_end(run, NULL); /* before those who answer it */
    (void)err;                                                /* told by who looked for it */
    for (uint32_t i = 0; run->local && run->config.costs && i < run->config.ask->count; i++)
        costs_take(run, i);
    aw_local_free(run->local);
    aw_alloc_free(NULL, run->load);
    run->local = NULL;
    run->load = NULL;
}

/* --- time ------------------------------------------------------------------------------------- */

static bool stopped(const struct aw_local_run *run)
{
    return run->config.stop && *run->config.stop;
}

static enum aw_err ready_one(struct aw_local_run *run, uint32_t i, int64_t until_us,
                             struct aw_diag *diag)
{
    const struct aw_cluster_ops *ops = run->cluster.ops;
    struct aw_sample sample = {0};
    enum aw_err err = AW_OK;
    while (!err && !stopped(run) && aw_clock_monotonic_us(NULL) < until_us) {
        err = ops->observe(run->cluster.self, i, DEADLINE_US, &sample);
        if (err || sample.replicas_ready > 0)
            break;
        (void)!aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + FRAME_US);
    }
    if (err)
        return aw_fail(diag, err, "the local cluster does not answer");
    if (sample.replicas_ready > 0 || stopped(run))
        return AW_OK;
    char trouble[AW_DIAG_TEXT_MAX];
    aw_local_trouble(run->local, i, trouble, sizeof trouble);
    return aw_fail(diag, AW_ERR_UNAVAILABLE, "%s: no replica became ready%s%.300s",
                   aw_run_name(run->config.ask->workload[i].pilot.name), *trouble ? ": " : "",
                   trouble);
}

enum aw_err aw_local_run_ready(struct aw_local_run *run, struct aw_diag *diag)
{
    const int64_t until = aw_clock_monotonic_us(NULL) + READY_US;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < run->config.ask->count; i++)
        err = ready_one(run, i, until, diag);
    return err;
}

enum aw_err aw_local_run_steps(struct aw_local_run *run, struct aw_job *job, uint64_t steps,
                               aw_job_sink *sink, void *ctx, struct aw_diag *diag)
{
    const uint64_t until = aw_job_steps(job) + steps;
    int64_t due_us = aw_clock_monotonic_us(NULL);
    enum aw_err err = AW_OK;
    while (!err && !stopped(run) && !(err = aw_job_step(job, sink, ctx, diag)) &&
           aw_job_steps(job) < until)
        aw__due_wait(&due_us, run->config.ask, run->config.stop, NULL);
    return err;
}

enum aw_err aw_local_run_restore(struct aw_local_run *run, const struct aw_job *job,
                                 struct aw_diag *diag)
{
    const struct aw_cluster_ops *ops = run->cluster.ops;
    int64_t begin_us = ops->now_us(run->cluster.self);
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < run->count; i++) {
        struct aw_job_view view;
        aw_job_view(job, i, &view);
        begin_us = view.at_us >= begin_us ? view.at_us + 1 : begin_us;
        if (!err && view.asked.replicas > 0 &&
            (err = ops->apply(run->cluster.self, i, &view.asked, DEADLINE_US)))
            aw_fail(diag, err, "%s: its replicas cannot be as they were", aw_run_name(view.name));
    }
    aw_time_scale_init(&run->pace, run->pace.inner, run->config.ask->speed, begin_us);
    return err;
}

/* --- load ------------------------------------------------------------------------------------- */

static bool load_goes_on(void *ctx, const struct aw_drive_report *report)
{
    const struct aw__local_load *load = ctx;
    (void)report;
    return !*load->stop;
}

static void *load_thread(void *ctx)
{
    struct aw__local_load *load = ctx;
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

static enum aw_err load_one(struct aw_local_run *run, uint32_t i, int64_t from_us, double span_s,
                            uint64_t seed, struct aw_diag *diag)
{
    const struct aw_daemon_config *ask = run->config.ask;
    const struct aw_profile_app *app = aw_profile_set_app(&ask->set, &ask->set.profiles[i]);
    struct aw__local_load *load = &run->load[i];
    char url[256];
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", (unsigned)aw_local_port(run->local, i),
             app->local.path);
    *load =
        (struct aw__local_load){.stop = &run->load_stop, .part = part_of(&ask->load[i], from_us)};
    enum aw_err err = aw_target_parse(url, false, &load->config.target, diag);
    if (err)
        return err;
    load->config.timetable = (struct aw_timetable_config){
        .load = &load->part,
        .speed = run->config.ask->speed,
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
    const int failed = aw_thread_begin(&load->thread, load_thread, load);
    load->made = failed == 0;
    return failed
               ? aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for the load: %s", strerror(failed))
               : AW_OK;
}

enum aw_err aw_local_run_load_begin(struct aw_local_run *run, int64_t from_us, uint64_t steps,
                                    uint64_t seed, struct aw_diag *diag)
{
    const struct aw_daemon_config *ask = run->config.ask;
    const double span_s =
        fmin((double)steps * ask->step_s / ask->speed * LATE + LATE_S, LOAD_MAX_S);
    enum aw_err err = AW_OK;
    run->load_stop = false;
    for (uint32_t i = 0; !err && i < ask->count; i++)
        err = load_one(run, i, from_us, span_s, seed, diag);
    return err;
}

enum aw_err aw_local_run_load_end(struct aw_local_run *run, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    run->load_stop = true;
    for (uint32_t i = 0; run->load && i < run->config.ask->count; i++) {
        struct aw__local_load *load = &run->load[i];
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

uint64_t aw_local_run_failed(const struct aw_drive_totals *all)
{
    uint64_t failed = 0;
    for (uint32_t i = 0; i < AW_DRIVE_ERRORS; i++)
        failed += all->error[i];
    return failed;
}
