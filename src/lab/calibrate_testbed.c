/*
 * calibrate_testbed.c - replicas of aware-workload in control groups, and requests to them.
 *
 * Latency is the load generator's, from when a request was due: what a client sees, the balancer
 * included. CPU, throttling and memory are the kernel's, looked at several times a second and added
 * up from the end of the warm-up on.
 */
#include "lab/calibrate_testbed.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/units.h"
#include "cluster/local.h"
#include "load/drive.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PROGRAM      "aware-workload"
#define WARM_UP_US   1000000
#define LOOK_US      100000 /* between two looks at the replicas */
#define READY_US     60000000
#define DEADLINE_US  1000000
#define TIMEOUT_US   20000000
#define CONNECTIONS  512u
#define NICE         (-5) /* of the generator: its lateness would count as latency */
#define DRAIN_S      2
#define FAILED_SHARE 0.01 /* of requests: more say that something else is wrong */

/* What has been added up since the warm-up. */
struct sums {
    int64_t from_us; /* 0: not begun */
    int64_t at_us;
    double cpu_core_us, memory_byte_us, completions;
    struct busy {
        double machine_us,
            own_us; /* CPU time since the beginning of time: of all; of this process */
    } first, last;
};

struct aw__testbed {
    struct aw__testbed_config config;
    struct aw_local *local;
    struct aw_cluster cluster;
    uint32_t workload;
    struct aw_drive_result result;
    uint32_t connections;
    /* of the present measurement */
    struct sums sums;
    int64_t begin_us, span_us; /* on the cluster's clock; with the warm-up */
    uint64_t measured;         /* how many so far: arrivals are never the same twice */
    bool ended;
};

static int64_t now_us(const struct aw__testbed *bed)
{
    return bed->cluster.ops->now_us(bed->cluster.self);
}

static enum aw_err observe(struct aw__testbed *bed, struct aw_sample *ret, struct aw_diag *diag)
{
    const enum aw_err err =
        bed->cluster.ops->observe(bed->cluster.self, bed->workload, now_us(bed) + DEADLINE_US, ret);
    return err && err != AW_ERR_NODATA ? aw_fail(diag, err, "the replicas cannot be observed")
                                       : err;
}

/* Until exactly `replicas` are ready with the limits that were asked for. */
static enum aw_err ready_wait(struct aw__testbed *bed, uint32_t replicas, struct aw_diag *diag)
{
    const int64_t limit_us = now_us(bed) + READY_US;
    for (;;) {
        struct aw_sample sample;
        enum aw_err err = observe(bed, &sample, diag);
        if (err && err != AW_ERR_NODATA)
            return err;
        if (!err && sample.replicas_ready == replicas && sample.pod_count == replicas &&
            !sample.rollout)
            return AW_OK;
        if (!err && sample.replicas_pending > 0)
            return aw_fail(diag, AW_ERR_LIMIT, "this machine has no room for %u replicas",
                           replicas);
        if (!bed->config.goes_on(bed->config.ctx, 0))
            return aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
        if (now_us(bed) > limit_us) {
            char trouble[AW_DIAG_TEXT_MAX / 2];
            aw_local_trouble(bed->local, bed->workload, trouble, sizeof trouble);
            return aw_fail(diag, AW_ERR_DEADLINE, "replicas did not become ready in %d s%s%s",
                           READY_US / 1000000, *trouble ? ": " : "", trouble);
        }
        err = bed->cluster.ops->advance(bed->cluster.self, now_us(bed) + LOOK_US);
        if (err && err != AW_ERR_INTERRUPTED)
            return aw_fail(diag, err, "time does not pass");
    }
}

static enum aw_err cluster_make(struct aw__testbed *bed, struct aw_diag *diag)
{
    struct aw_local_settings settings;
    char program[PATH_MAX], costs[PATH_MAX]; /* shared, so that replicas do the same work */
    aw_conf_defaults(aw_local_fields, &settings);
    settings.drain_s = DRAIN_S;
    settings.request_timeout_s = 1e-6 * TIMEOUT_US;
    enum aw_err err = aw_local_new(&settings, 1, NULL, &bed->local, diag);
    if (err)
        return err;
    bed->cluster = aw_local_cluster(bed->local);
    aw_file_program_beside(PROGRAM, program, sizeof program);
    snprintf(costs, sizeof costs, "%s/costs", aw_local_dir(bed->local));
    const char *const command[] = {
        program,   "--app", bed->config.app, "--listen", "127.0.0.1:{port}",
        "--costs", costs,   "--start",       "0s",       NULL};
    const struct aw_local_workload workload = {
        .command = command,
        .health_path = "/readyz",
        .replicas = 1,
        .replicas_max = bed->config.replicas_max,
        .cpu_millicores = bed->config.cpu_millicores,
        .memory_bytes = bed->config.memory_bytes,
    };
    return aw_local_add(bed->local, &workload, &bed->workload, diag);
}

/* A request in flight has three descriptors here: of the load, and on both sides of the balancer.
 */
static uint32_t connections_max(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        return 64;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) || getrlimit(RLIMIT_NOFILE, &files))
        return 64;
    return files.rlim_cur / 4 < CONNECTIONS ? (uint32_t)(files.rlim_cur / 4) : CONNECTIONS;
}

enum aw_err aw__testbed_open(const struct aw__testbed_config *config, struct aw__testbed **ret,
                             struct aw_diag *diag)
{
    struct aw__testbed *bed = aw_alloc_new(NULL, 1, sizeof *bed);
    if (!bed)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the replicas");
    bed->config = *config;
    bed->connections = connections_max();
    enum aw_err err = cluster_make(bed, diag);
    if (!err)
        err = ready_wait(bed, 1, diag);
    if (err) {
        aw__testbed_close(bed);
        return err;
    }
    /* inherited by the threads of the load; who may not (no root) measures without */
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    *ret = bed;
    return AW_OK;
}

void aw__testbed_close(struct aw__testbed *bed)
{
    if (!bed)
        return;
    aw_local_free(bed->local);
    aw_alloc_free(NULL, bed);
}

static double value_of(struct aw_figure figure)
{
    return figure.at_us == AW_NEVER ? 0 : figure.value;
}

/* What the machine has done so far, by its own account. Zeroes: it does not say. */
static struct busy busy_now(void)
{
    struct busy busy = {0};
    struct rusage own;
    unsigned long long user, nice_user, kernel, idle, wait, irq, soft, steal;
    FILE *file = fopen("/proc/stat", "re");
    if (!file)
        return busy;
    if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice_user, &kernel,
               &idle, &wait, &irq, &soft, &steal) == 8)
        busy.machine_us = 1e6 / (double)sysconf(_SC_CLK_TCK) *
                          (double)(user + nice_user + kernel + irq + soft + steal);
    (void)fclose(file); /* was only read */
    if (getrusage(RUSAGE_SELF, &own) == 0)
        busy.own_us = 1e6 * (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
                      (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec);
    return busy;
}

/* Looks at the replicas; the first look after the warm-up only begins. */
static void sums_add(struct aw__testbed *bed, int64_t passed_us)
{
    struct sums *sums = &bed->sums;
    struct aw_sample sample;
    if (passed_us < WARM_UP_US || passed_us > bed->span_us || observe(bed, &sample, NULL))
        return;
    if (sums->from_us == 0) {
        sums->from_us = sums->at_us = sample.at_us;
        sums->first = sums->last = busy_now();
        return;
    }
    const double us = (double)(sample.at_us - sums->at_us);
    sums->cpu_core_us += us * value_of(sample.cpu_cores_used);
    sums->memory_byte_us += us * value_of(sample.memory_bytes_used);
    sums->completions += 1e-6 * us * value_of(sample.completions_per_s);
    sums->at_us = sample.at_us;
    sums->last = busy_now();
}

static bool on_report(void *ctx, const struct aw_drive_report *report)
{
    struct aw__testbed *bed = ctx;
    sums_add(bed, report->at_us);
    bed->ended = !bed->config.goes_on(bed->config.ctx,
                                      fmin(1, (double)report->at_us / (double)bed->span_us));
    return !bed->ended;
}

static enum aw_err load_run(struct aw__testbed *bed, const struct aw_calibrate_setting *setting,
                            struct aw_diag *diag)
{
    struct aw_drive_config config = {
        .timetable = {.rate_per_s = setting->rate_per_s,
                      .speed = 1,
                      .arrivals = AW_ARRIVALS_POISSON,
                      .seed = bed->config.seed + bed->measured++,
                      .duration_us = bed->span_us},
        .connections_max = bed->connections,
        .threads = 1,
        .timeout_us = TIMEOUT_US,
        .warm_up_us = WARM_UP_US,
        .report_us = LOOK_US,
        .report = on_report,
        .ctx = bed,
    };
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u/",
             (unsigned)aw_local_port(bed->local, bed->workload));
    enum aw_err err = aw_target_parse(url, false, &config.target, diag);
    if (!err)
        err = aw_drive_run(&config, &bed->result, diag);
    if (!err && bed->ended)
        err = aw_fail(diag, AW_ERR_INTERRUPTED, "interrupted");
    return err;
}

enum aw_err aw__testbed_measure(struct aw__testbed *bed, const struct aw_calibrate_setting *setting,
                                struct aw_calibrate_figures *ret, struct aw_diag *diag)
{
    const struct aw_plan plan = {
        .set = AW_PLAN_REPLICAS | AW_PLAN_CPU,
        .replicas = setting->size.replicas,
        .cpu_millicores = setting->size.cpu_millicores,
    };
    enum aw_err err =
        bed->cluster.ops->apply(bed->cluster.self, bed->workload, &plan, now_us(bed) + DEADLINE_US);
    if (err)
        return aw_fail(diag, err, "the replicas cannot be scaled");
    if ((err = ready_wait(bed, setting->size.replicas, diag)))
        return err;
    bed->sums = (struct sums){0};
    bed->ended = false;
    bed->span_us = WARM_UP_US + (int64_t)llround(1e6 * setting->span_s);
    if ((err = load_run(bed, setting, diag)))
        return err;

    const struct sums *sums = &bed->sums;
    const struct aw_drive_totals *all = &bed->result.all;
    const double us = (double)(sums->at_us - sums->from_us);
    if (all->answered == 0 || !(us > 0))
        return aw_fail(diag, AW_ERR_NODATA, "nothing was answered at %.3g requests/s",
                       setting->rate_per_s);
    if ((double)(all->due - all->ok) > FAILED_SHARE * (double)all->due)
        return aw_fail(diag, AW_ERR_CHECK, "%llu of %llu requests failed at %.3g/s",
                       (unsigned long long)(all->due - all->ok), (unsigned long long)all->due,
                       setting->rate_per_s);
    const double others_us = sums->last.machine_us - sums->first.machine_us - sums->cpu_core_us -
                             (sums->last.own_us - sums->first.own_us);
    const double cores = 1e-3 * (double)setting->size.cpu_millicores * setting->size.replicas;
    *ret = (struct aw_calibrate_figures){
        .requests = (double)all->answered,
        .p50_ms = 1e-3 * (double)aw_latency_histogram_quantile(&bed->result.latency, 0.5),
        .p99_ms = 1e-3 * (double)aw_latency_histogram_quantile(&bed->result.latency, 0.99),
        .mean_ms = 1e-3 * aw_latency_histogram_mean(&bed->result.latency),
        .utilisation = sums->cpu_core_us / us / cores,
        .throughput_per_s = 1e6 * sums->completions / us,
        .memory_mib = sums->memory_byte_us / us / AW_MIB_REAL,
        .others_cores = sums->last.machine_us > 0 ? fmax(0, others_us / us) : NAN,
    };
    return AW_OK;
}
