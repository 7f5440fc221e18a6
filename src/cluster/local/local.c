/* local.c - the local cluster: made, supervised, asked, ended. */
#include "cluster/local.h"

#include "base/clock.h"
#include "base/threads.h"
#include "base/units.h"
#include "cluster/local/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_US      5000     /* between two looks of the supervisor */
#define SAMPLE_US    250000   /* between two looks at memory */
#define PATIENCE_US  10000000 /* for processes that were sent SIGKILL */
#define MEMORY_SHARE 0.9      /* of the machine's, for replicas */

#define AW_CONF_OF struct aw_local_settings
const struct aw_conf_field aw_local_fields[] = {
    AW_CONF_PLAIN(run_dir, "",
                  "where runs are written down for 'aware local clean'; empty: the usual place"),
    AW_CONF_PLAIN(cgroup_root, AW__CGROUP_ROOT, "where control groups are mounted"),
    AW_CONF_PLAIN(cgroup_parent, "",
                  "the group to work in; empty: the top, or the one of this process"),
    AW_CONF_PLAIN(log_dir, "", "where output of replicas goes, a file each; empty: nowhere"),
    AW_CONF_NUMBER(cores, "0", 0, 4096,
                   "cores that replicas may have together; 0: those of the machine"),
    AW_CONF_NUMBER(memory_gib, "0", 0, 65536,
                   "memory likewise, in GiB; 0: nine tenths of the machine's"),
    AW_CONF_NUMBER(readiness_period_s, "1", 0.01, 300,
                   "seconds between health checks of a ready replica"),
    AW_CONF_NUMBER(readiness_timeout_s, "1", 0.01, 300, "seconds that a health check may take"),
    AW_CONF_NUMBER(readiness_failures, "3", 1, 100,
                   "failed health checks in a row after which a replica gets no requests"),
    AW_CONF_NUMBER(drain_s, "30", 0, 3600, "seconds of grace for requests in flight on scale-in"),
    AW_CONF_NUMBER(stop_s, "5", 0, 3600, "seconds between SIGTERM and SIGKILL"),
    AW_CONF_NUMBER(wait_s, "5", 0, 300, "seconds that a request waits while no replica is ready"),
    AW_CONF_NUMBER(request_timeout_s, "30", 0.01, 3600, "seconds that a client waits"),
    AW_CONF_NUMBER(keep_s, "2", 0.01, 3600, "seconds that idle connections to replicas are kept"),
    AW_CONF_NUMBER(backoff_s, "10", 0, 3600, "seconds before the second restart in a row; doubles"),
    AW_CONF_NUMBER(backoff_max_s, "300", 0, 86400, "longest pause between restarts in seconds"),
    AW_CONF_NUMBER(connections, "4096", 1, AW__BALANCER_CLIENTS_MAX,
                   "connections of clients at a time, of one workload"),
    AW_CONF_PLAIN(io_device, "", "major:minor of the disk whose use is limited; empty: none"),
    AW_CONF_NUMBER(io_read_mib_per_s, "0", 0, 1e6,
                   "MiB/s that a replica may read from it; 0: no limit"),
    AW_CONF_NUMBER(io_write_mib_per_s, "0", 0, 1e6,
                   "MiB/s that a replica may write to it; 0: no limit"),
    AW_CONF_NUMBER(network_in_mib_per_s, "0", 0, 1e6,
                   "MiB/s of requests that the balancer gives to a replica; 0: no limit"),
    AW_CONF_NUMBER(network_out_mib_per_s, "0", 0, 1e6,
                   "MiB/s of answers that the balancer takes from a replica; 0: no limit"),
    {0},
};

int64_t aw__local_now_us(const struct aw_local *local)
{
    return aw_clock_monotonic_us(NULL) - local->begin_us;
}

/* --- the supervisor --------------------------------------------------------------------------- */

static void wait_a_little(struct aw_local *local)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_US * 1000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&local->kick, &local->lock, &until);
}

static void *supervise(void *ctx)
{
    struct aw_local *local = ctx;
    pthread_mutex_lock(&local->lock);
    while (!local->stop) {
        const int64_t now = aw__local_now_us(local);
        const bool sample = now - local->sampled_us >= SAMPLE_US;
        for (uint32_t w = 0; w < local->workload_count + local->retired_count; w++) {
            if (!local->workload[w]->balancer)
                continue;
            aw__replica_reconcile(local, local->workload[w]);
            if (sample)
                aw__observe_peaks(local, local->workload[w]);
        }
        local->sampled_us = sample ? now : local->sampled_us;
        wait_a_little(local);
    }
    pthread_mutex_unlock(&local->lock);
    return NULL;
}

/* --- made ------------------------------------------------------------------------------------- */

const char *aw_local_run_dir(char *buf, size_t size)
{
    const char *own = getenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0)
        snprintf(buf, size, "/run/aware-local");
    else if (own && *own == '/')
        snprintf(buf, size, "%s/aware-local", own);
    else
        snprintf(buf, size, "/tmp/aware-local-%ld", (long)geteuid());
    return buf;
}

enum aw_err aw_local_clean(const char *run_dir, struct aw_local_cleaned *ret, struct aw_diag *diag)
{
    struct aw__rundir_counts counts = {0};
    char usual[AW_CONF_TEXT_MAX];
    const enum aw_err err = aw__rundir_clean(
        *run_dir ? run_dir : aw_local_run_dir(usual, sizeof usual), PATIENCE_US, &counts, diag);
    *ret = (struct aw_local_cleaned){.alive = counts.alive, .cleared = counts.cleared};
    return err;
}

static void capacity_find(struct aw_local *local)
{
    const struct aw_local_settings *settings = &local->settings;
    const double pages = (double)sysconf(_SC_PHYS_PAGES), page = (double)sysconf(_SC_PAGESIZE);
    const double cores = settings->cores > 0 ? settings->cores : aw_threads_cpu_count();
    local->capacity_millicores = (int64_t)llround(cores * 1e3);
    local->capacity_bytes = (int64_t)(settings->memory_gib > 0 ? settings->memory_gib * AW_GIB_REAL
                                                               : MEMORY_SHARE * pages * page);
}

void aw_local_capacity(const struct aw_local *local, int64_t *ret_cpu_millicores,
                       int64_t *ret_memory_bytes)
{
    *ret_cpu_millicores = local->capacity_millicores;
    *ret_memory_bytes = local->capacity_bytes;
}

/* Whether I/O of the device can be limited: the kernel is asked for no limit, and says. */
static enum aw_err io_check(const struct aw_local *local, struct aw_diag *diag)
{
    const char *device = local->settings.io_device;
    struct aw_diag why = {0};
    if (!*device || !aw__cgroup_limit_io(&local->tree, "", device, 0, 0, &why))
        return AW_OK;
    return aw_fail(diag, AW_ERR_CONFIG,
                   "ioDevice: expected major:minor of a disk, as lsblk shows them, whose I/O can "
                   "be limited; found \"%.32s\" (%.200s)",
                   device, why.text);
}

/* In this order: written down, made, watched. */
static enum aw_err begin(struct aw_local *local, struct aw_diag *diag)
{
    struct aw_local_settings *settings = &local->settings;
    struct aw_local_cleaned cleaned;
    char id[AW__CGROUP_ID_MAX];
    if (!settings->run_dir[0])
        aw_local_run_dir(settings->run_dir, sizeof settings->run_dir);
    enum aw_err err = aw__rundir_id(id, diag);
    err = err ? err
              : aw__cgroup_find(&local->tree, settings->cgroup_root, settings->cgroup_parent, id,
                                diag);
    err = err ? err : aw_local_clean(settings->run_dir, &cleaned, diag);
    err = err ? err : aw__rundir_make(&local->rundir, settings->run_dir, &local->tree, diag);
    if (err || (err = aw__cgroup_make(&local->tree, diag)))
        return err;
    local->tree_made = true;
    if ((err = io_check(local, diag)))
        return err;
    /* all replicas together beside the rest of the machine, as Kubernetes weighs its pods */
    if ((err = aw__cgroup_weigh(&local->tree, "", 1000 * (int64_t)aw_threads_cpu_count(), diag)))
        return err;
    const int failed = aw_thread_begin(&local->thread, supervise, local);
    if (failed)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread: %s", strerror(failed));
    local->thread_made = true;
    return AW_OK;
}

enum aw_err aw_local_new(const struct aw_local_settings *settings, uint32_t workloads_max,
                         const struct aw_alloc *alloc, struct aw_local **ret_local,
                         struct aw_diag *diag)
{
    pthread_condattr_t attributes;
    if (workloads_max == 0 || workloads_max > AW_LOCAL_WORKLOADS_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected 1 to %u workloads, found %" PRIu32,
                       AW_LOCAL_WORKLOADS_MAX, workloads_max);
    struct aw_local *local = aw_alloc_new(alloc, 1, sizeof *local);
    if (!local)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a local cluster");
    local->alloc = alloc;
    local->settings = *settings;
    local->workloads_max = workloads_max;
    local->begin_us = aw_clock_monotonic_us(NULL);
    pthread_mutex_init(&local->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&local->kick, &attributes);
    pthread_condattr_destroy(&attributes);
    capacity_find(local);
    local->workload = aw_alloc_new(alloc, workloads_max + AW__LOCAL_RETIRED_MAX,
                                   sizeof(struct aw__local_workload *));
    enum aw_err err =
        local->workload ? AW_OK : aw_fail(diag, AW_ERR_NOMEM, "no memory for a local cluster");
    err = err ? err : begin(local, diag);
    if (err) {
        aw_local_free(local);
        return err;
    }
    *ret_local = local;
    return AW_OK;
}

static void workload_free(struct aw_local *local, struct aw__local_workload *workload)
{
    if (!workload)
        return;
    if (workload->balancer)
        aw__balancer_free(workload->balancer);
    aw_alloc_free(local->alloc, workload->scrape.last);
    aw_alloc_free(local->alloc, workload->shown);
    aw_alloc_free(local->alloc, workload->replica);
    aw_alloc_free(local->alloc, workload);
}

/* Everybody drains, and is given the time that settings allow. */
static void wind_down(struct aw_local *local)
{
    const struct aw_local_settings *settings = &local->settings;
    const int64_t patience = (int64_t)llround(1e6 * (settings->drain_s + settings->stop_s + 1));
    pthread_mutex_lock(&local->lock);
    const int64_t until = aw__local_now_us(local) + patience;
    local->closing = true;
    const uint32_t there = local->workload_count + local->retired_count;
    for (uint32_t w = 0; w < local->workload_count; w++)
        aw__balancer_shut(local->workload[w]->balancer);
    for (bool any = true; any && aw__local_now_us(local) < until;) {
        any = false;
        for (uint32_t w = 0; w < there; w++)
            any = any || aw__replica_any(local->workload[w]);
        if (any)
            wait_a_little(local);
    }
    local->stop = true;
    pthread_cond_broadcast(&local->kick);
    pthread_mutex_unlock(&local->lock);
    pthread_join(local->thread, NULL);
}

void aw_local_free(struct aw_local *local)
{
    if (!local)
        return;
    aw__scrape_free(local->scrape); /* before those whom it asks */
    if (local->thread_made)
        wind_down(local);
    enum aw_err left = AW_OK;
    if (local->tree_made)
        left = aw__cgroup_drop(&local->tree, PATIENCE_US, NULL);
    for (uint32_t w = 0; w < local->workload_count + local->retired_count; w++) {
        aw__replica_reap(local->workload[w], left == AW_OK);
        workload_free(local, local->workload[w]);
    }
    if (left == AW_OK) {
        aw__rundir_remove(&local->rundir);
    } else if (local->rundir.lock_fd_plus_1) { /* the next run, or `clean`, tries again */
        close(local->rundir.lock_fd_plus_1 - 1);
    }
    pthread_cond_destroy(&local->kick);
    pthread_mutex_destroy(&local->lock);
    aw_alloc_free(local->alloc, local->workload);
    aw_alloc_free(local->alloc, local);
}

/* --- workloads -------------------------------------------------------------------------------- */

static enum aw_err check(const struct aw_local *local, const struct aw_local_workload *workload,
                         struct aw_diag *diag)
{
    uint32_t args = 0;
    for (; workload->command[args]; args++) {
        if (args == AW_LOCAL_ARGS_MAX)
            return aw_fail(diag, AW_ERR_LIMIT, "a command has at most %u words", AW_LOCAL_ARGS_MAX);
        if (strlen(workload->command[args]) + 8 > AW_LOCAL_ARG_MAX)
            return aw_fail(diag, AW_ERR_LIMIT, "a word of a command has at most %u bytes",
                           AW_LOCAL_ARG_MAX - 8);
    }
    if (args == 0 || !workload->command[0][0])
        return aw_fail(diag, AW_ERR_CONFIG, "a replica needs a command");
    if (workload->replicas_max == 0 || workload->replicas_max > AW_LOCAL_REPLICAS_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected 1 to %u replicas at most, found %" PRIu32,
                       AW_LOCAL_REPLICAS_MAX, workload->replicas_max);
    if (workload->replicas == 0 || workload->replicas > workload->replicas_max)
        return aw_fail(diag, AW_ERR_RANGE,
                       "expected 1 to %" PRIu32 " replicas to start with, found %" PRIu32,
                       workload->replicas_max, workload->replicas);
    if (workload->cpu_millicores <= 0 || workload->memory_bytes <= 0)
        return aw_fail(diag, AW_ERR_RANGE, "CPU and memory of a replica must be positive");
    if (workload->cpu_millicores > local->capacity_millicores ||
        workload->memory_bytes > local->capacity_bytes)
        return aw_fail(diag, AW_ERR_RANGE, "the machine is not large enough for one replica");
    if (workload->disk_bytes_per_s && !local->settings.io_device[0])
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "no disk is named whose use could be limited");
    if (strlen(workload->health_path) >= AW__BALANCER_PATH_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "the path of a health check has at most %u bytes",
                       AW__BALANCER_PATH_MAX - 1);
    return AW_OK;
}

/* The least is a byte: only 0 is none. */
static int64_t bytes_per_s(double mib_per_s)
{
    return (int64_t)ceil(mib_per_s * AW_MIB_REAL);
}

static enum aw_err balancer_make(const struct aw_local *local,
                                 const struct aw_local_workload *workload,
                                 struct aw__local_workload *made, struct aw_diag *diag)
{
    const struct aw_local_settings *settings = &local->settings;
    struct aw__balancer_config config = {
        .port = workload->port,
        .slots = made->slots,
        .clients = settings->connections,
        .health_period_us = (int64_t)(settings->readiness_period_s * 1e6),
        .health_timeout_us = (int64_t)(settings->readiness_timeout_s * 1e6),
        .health_failures = settings->readiness_failures,
        .connect_timeout_us = (int64_t)(settings->readiness_timeout_s * 1e6),
        .wait_us = (int64_t)(settings->wait_s * 1e6),
        .request_timeout_us = (int64_t)(settings->request_timeout_s * 1e6),
        .idle_us = (int64_t)(settings->keep_s * 1e6),
        .network_bytes_per_s = {bytes_per_s(settings->network_in_mib_per_s),
                                bytes_per_s(settings->network_out_mib_per_s)},
    };
    for (int way = 0; way < AW__METER_WAYS && workload->network_bytes_per_s; way++)
        config.network_bytes_per_s[way] = workload->network_bytes_per_s;
    snprintf(config.health_path, sizeof config.health_path, "%s", workload->health_path);
    return aw__balancer_new(&config, local->alloc, &made->balancer, diag);
}

enum aw_err aw_local_add(struct aw_local *local, const struct aw_local_workload *workload,
                         uint32_t *ret_index, struct aw_diag *diag)
{
    enum aw_err err = check(local, workload, diag);
    if (err)
        return err;
    if (local->workload_count == local->workloads_max)
        return aw_fail(diag, AW_ERR_LIMIT, "the cluster was made for %" PRIu32 " workloads",
                       local->workloads_max);
    struct aw__local_workload *made = aw_alloc_new(local->alloc, 1, sizeof *made);
    if (!made)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a workload");
    made->index = local->made_count++;
    made->wanted = workload->replicas;
    made->uid = workload->uid;
    made->gid = workload->gid;
    made->replicas_max = workload->replicas_max;
    made->cpu_millicores = workload->cpu_millicores;
    made->memory_bytes = workload->memory_bytes;
    made->disk_bytes_per_s = workload->disk_bytes_per_s;
    made->slots = 2 * workload->replicas_max + 8; /* those that still drain are there as well */
    for (; workload->command[made->arg_count]; made->arg_count++)
        snprintf(made->args[made->arg_count], AW_LOCAL_ARG_MAX, "%s",
                 workload->command[made->arg_count]);
    made->replica = aw_alloc_new(local->alloc, made->slots, sizeof *made->replica);
    made->shown = aw_alloc_new(local->alloc, made->slots, sizeof *made->shown);
    if (!made->replica || !made->shown)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " replicas", made->slots);
    err = err ? err
              : aw__scrape_add(&made->scrape, workload->metrics_path, workload->metrics_histogram,
                               made->slots, local->alloc, diag);
    if (!err && made->scrape.path[0] && !local->scrape)
        err = aw__scrape_begin(local, local->alloc, &local->scrape, diag);
    err = err ? err : balancer_make(local, workload, made, diag);
    if (err) {
        workload_free(local, made);
        return err;
    }
    const struct aw_figure never = {.at_us = AW_NEVER};
    made->figures = (struct aw_sample){
        .cpu_cores_used = never,
        .memory_bytes_used = never,
        .memory_bytes_peak = never,
        .throttled_share = never,
        .disk_bytes_per_s = never,
        .net_bytes_per_s = never,
        .arrivals_per_s = never,
        .completions_per_s = never,
        .errors_per_s = never,
        .in_flight = never,
        .latency_us_p50 = never,
        .latency_us_p95 = never,
        .latency_us_p99 = never,
        .latency_us_mean = never,
        .inside_us_p50 = never,
        .inside_us_p99 = never,
    };
    made->observed_us = aw__local_now_us(local);
    pthread_mutex_lock(&local->lock);
    *ret_index = local->workload_count;
    local->workload[local->workload_count + local->retired_count] =
        local->workload[local->workload_count];
    local->workload[local->workload_count++] = made;
    pthread_cond_broadcast(&local->kick);
    pthread_mutex_unlock(&local->lock);
    return AW_OK;
}

/* The doors of those that have ended are closed: all but a few bytes of them is given back. */
static void retired_sweep(struct aw_local *local)
{
    for (uint32_t n = 0; n < local->retired_count; n++) {
        struct aw__local_workload *of = local->workload[local->workload_count + n];
        pthread_mutex_lock(&local->lock);
        struct aw__balancer *gone = aw__replica_any(of) ? NULL : of->balancer;
        of->balancer = gone ? NULL : of->balancer;
        pthread_mutex_unlock(&local->lock);
        if (gone)
            aw__balancer_free(gone);
    }
}

enum aw_err aw_local_retire(struct aw_local *local, uint32_t workload)
{
    AW_ASSERT(workload < local->workload_count);
    retired_sweep(local);
    if (local->retired_count == AW__LOCAL_RETIRED_MAX)
        return AW_ERR_LIMIT;
    pthread_mutex_lock(&local->lock);
    struct aw__local_workload *of = local->workload[workload];
    aw__balancer_shut(of->balancer);
    of->wanted = 0;
    local->workload_count--;
    for (uint32_t w = workload; w < local->workload_count; w++)
        local->workload[w] = local->workload[w + 1];
    local->workload[local->workload_count] = of;
    local->retired_count++;
    pthread_cond_broadcast(&local->kick);
    pthread_mutex_unlock(&local->lock);
    return AW_OK;
}

void aw_local_swap(struct aw_local *local, uint32_t a, uint32_t b)
{
    AW_ASSERT(a < local->workload_count && b < local->workload_count);
    pthread_mutex_lock(&local->lock);
    struct aw__local_workload *of = local->workload[a];
    local->workload[a] = local->workload[b];
    local->workload[b] = of;
    pthread_mutex_unlock(&local->lock);
}

uint16_t aw_local_port(const struct aw_local *local, uint32_t workload)
{
    AW_ASSERT(workload < local->workload_count);
    return aw__balancer_port(local->workload[workload]->balancer);
}

const char *aw_local_dir(const struct aw_local *local)
{
    return local->rundir.path;
}

void aw_local_requests(const struct aw_local *local, uint32_t workload,
                       struct aw_local_requests *ret)
{
    struct aw__balancer_counts counts;
    AW_ASSERT(workload < local->workload_count);
    aw__balancer_counts(local->workload[workload]->balancer, &counts);
    *ret = (struct aw_local_requests){
        .arrivals = counts.arrivals,
        .completions = counts.completions,
        .refused = counts.refused,
        .lost = counts.lost,
        .timed_out = counts.timed_out,
        .failed = counts.failed,
        .aborted = counts.aborted,
        .retries = counts.retries,
        .in_flight = counts.in_flight,
    };
}

double aw_local_inside_us(struct aw_local *local, uint32_t workload, double quantile)
{
    AW_ASSERT(workload < local->workload_count);
    pthread_mutex_lock(&local->lock);
    const struct aw_promtext_histogram *h = &local->workload[workload]->scrape.total;
    const double s = aw_promtext_quantile(h->bound, h->count, h->buckets, quantile);
    pthread_mutex_unlock(&local->lock);
    return 1e6 * s;
}

void aw_local_trouble(struct aw_local *local, uint32_t workload, char *buf, size_t size)
{
    AW_ASSERT(workload < local->workload_count);
    pthread_mutex_lock(&local->lock);
    snprintf(buf, size, "%s", local->workload[workload]->trouble);
    pthread_mutex_unlock(&local->lock);
}

uint32_t aw_local_replica_ports(struct aw_local *local, uint32_t workload, uint16_t *ret_ports,
                                uint32_t max)
{
    uint32_t count = 0;
    AW_ASSERT(workload < local->workload_count);
    pthread_mutex_lock(&local->lock);
    const struct aw__local_workload *of = local->workload[workload];
    for (uint32_t i = 0; i < of->slots && count < max; i++)
        if (of->replica[i].phase == AW__REPLICA_RUNS && of->replica[i].ready)
            ret_ports[count++] = of->replica[i].port;
    pthread_mutex_unlock(&local->lock);
    return count;
}

/* --- the contract ----------------------------------------------------------------------------- */

static uint32_t local_capabilities(const void *self)
{
    (void)self;
    return AW_CLUSTER_IN_PLACE_RESIZE;
}

static enum aw_err local_observe(void *self, uint32_t workload, int64_t deadline_us,
                                 struct aw_sample *ret_sample)
{
    (void)deadline_us; /* a few files per replica: microseconds */
    struct aw_local *local = self;
    if (workload >= local->workload_count)
        return AW_ERR_NOTFOUND;
    pthread_mutex_lock(&local->lock);
    aw__observe(local, local->workload[workload], ret_sample);
    pthread_mutex_unlock(&local->lock);
    return AW_OK;
}

/* Says what is wanted; the supervisor brings it about. */
static enum aw_err local_apply(void *self, uint32_t workload, const struct aw_plan *plan,
                               int64_t deadline_us)
{
    (void)deadline_us;
    struct aw_local *local = self;
    if (workload >= local->workload_count)
        return AW_ERR_NOTFOUND;
    pthread_mutex_lock(&local->lock);
    struct aw__local_workload *of = local->workload[workload];
    if (plan->set & AW_PLAN_REPLICAS) {
        AW_ASSERT(plan->replicas > 0 && plan->replicas <= of->replicas_max);
        of->wanted = (uint32_t)plan->replicas;
    }
    if (plan->set & AW_PLAN_CPU) {
        AW_ASSERT(plan->cpu_millicores > 0);
        of->cpu_millicores = plan->cpu_millicores;
    }
    if (plan->set & AW_PLAN_MEMORY) {
        AW_ASSERT(plan->memory_bytes > 0);
        of->memory_bytes = plan->memory_bytes;
    }
    pthread_cond_broadcast(&local->kick);
    pthread_mutex_unlock(&local->lock);
    return AW_OK;
}

static enum aw_err local_advance(void *self, int64_t until_us)
{
    const struct aw_local *local = self;
    enum aw_err err = AW_OK;
    do
        err = aw_clock_sleep_until(NULL, local->begin_us + until_us);
    while (err == AW_ERR_INTERRUPTED);
    return err;
}

static int64_t local_now_us(const void *self)
{
    return aw__local_now_us(self);
}

static void local_free(void *self)
{
    aw_local_free(self);
}

static const struct aw_cluster_ops local_ops = {
    .name = "local",
    .capabilities = local_capabilities,
    .observe = local_observe,
    .apply = local_apply,
    .advance = local_advance,
    .now_us = local_now_us,
    .free = local_free,
};

struct aw_cluster aw_local_cluster(struct aw_local *local)
{
    return (struct aw_cluster){.ops = &local_ops, .self = local};
}
