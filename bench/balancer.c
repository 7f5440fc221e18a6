/*
 * balancer.c - `aware-bench balancer`: what the balancer of the local cluster costs and
 * loses.
 *
 * wrk asks the same replicas twice in turn: directly, half of its connections each, and through the
 * balancer. All of them share the machine, so a request that passes the balancer costs a second
 * connection's work on the same processors. The same again with replicas that do not take the Unix
 * socket they are offered, as any other program would not. Then replicas come, go and are resized
 * under wrk, and the balancer's books tell what became of every request.
 */
#include "bench/bench.h"

#include "base/clock.h"
#include "base/file.h"
#include "cluster/local.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum workload { OFFER_TAKEN, OFFER_REFUSED, WORKLOADS }; /* of a Unix socket */

#define REPLICAS    2u
#define ROUNDS      5u
#define CONNECTIONS 32u
#define SECONDS     "2s"
#define CHANGES     24u
#define CHANGE_US   250000
#define READY_US    20000000
#define GOAL        0.5 /* of wrk's own rate */
#define PROGRAM     "aware-workload"
#define COUNT(list) (sizeof(list) / sizeof *(list))

struct wrk {
    pid_t pid;
    FILE *from;
};

static enum aw_err wrk_begin(struct wrk *wrk, uint16_t port, const char *path, uint32_t connections,
                             const char *duration, struct aw_diag *diag)
{
    char url[160], count[16];
    int ends[2];
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", (unsigned)port, path);
    snprintf(count, sizeof count, "%u", connections);
    if (pipe2(ends, O_CLOEXEC))
        return aw_fail(diag, AW_ERR_IO, "no pipe to wrk: %s", strerror(errno));
    wrk->pid = fork();
    if (wrk->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execlp("wrk", "wrk", "-t1", "-c", count, "-d", duration, url, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    wrk->from = wrk->pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (!wrk->from) {
        close(ends[0]);
        return aw_fail(diag, AW_ERR_IO, "no process for wrk");
    }
    return AW_OK;
}

/* Waits for it; its rate is 0 where it did not say. */
static double wrk_end(struct wrk *wrk, bool *ret_missing)
{
    char line[256];
    double rate = 0;
    int status = 0;
    while (wrk->from && fgets(line, sizeof line, wrk->from))
        if (strncmp(line, "Requests/sec:", 13) == 0)
            rate = strtod(line + 13, NULL);
    if (wrk->from)
        fclose(wrk->from);
    while (wrk->pid > 0 && waitpid(wrk->pid, &status, 0) < 0 && errno == EINTR)
        ;
    *ret_missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    *wrk = (struct wrk){0};
    return rate;
}

/* All of them at once; the sum of their rates. */
static enum aw_err ask(const uint16_t *ports, uint32_t count, const char *path, double *ret,
                       struct aw_diag *diag)
{
    struct wrk wrk[REPLICAS] = {0};
    enum aw_err err = AW_OK;
    bool missing = false;
    double sum = 0;
    for (uint32_t i = 0; !err && i < count; i++)
        err = wrk_begin(&wrk[i], ports[i], path, CONNECTIONS / count, SECONDS, diag);
    for (uint32_t i = 0; i < count; i++) {
        bool absent = false;
        sum += wrk_end(&wrk[i], &absent);
        missing = missing || absent;
    }
    if (!err && missing)
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "wrk was not found: install the package wrk");
    if (!err && !(sum > 0))
        err = aw_fail(diag, AW_ERR_FORMAT, "wrk told no rate");
    *ret = sum;
    return err;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* CPU time so far, in microseconds: of this process, and of wrk and the replicas. */
static enum aw_err cpu_now(struct aw_local *local, uint32_t workload, double *ret_own,
                           double *ret_theirs, struct aw_diag *diag)
{
    const struct aw_cluster cluster = aw_local_cluster(local);
    struct rusage own, children;
    struct aw_sample sample;
    static double replicas_us[WORKLOADS]; /* observed cores times the time since the last look */
    static int64_t looked_us[WORKLOADS];
    if (cluster.ops->observe(cluster.self, workload, READY_US, &sample))
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "the local cluster does not answer");
    if (looked_us[workload])
        replicas_us[workload] +=
            sample.cpu_cores_used.value * (double)(sample.at_us - looked_us[workload]);
    looked_us[workload] = sample.at_us;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &children);
    *ret_own = 1e6 * (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
               (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec);
    *ret_theirs = replicas_us[workload] +
                  1e6 * (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
                  (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec);
    return AW_OK;
}

static enum aw_err compare(struct aw_local *local, uint32_t workload, const char *path,
                           const char *name, struct aw__bench *bench, struct aw_diag *diag)
{
    double through[ROUNDS], direct[ROUNDS], ratio[ROUNDS];
    double own_us = 0, theirs_us = 0, own[2], theirs[2];
    struct aw_local_requests before, after;
    uint64_t answered = 0;
    uint16_t ports[REPLICAS], front = aw_local_port(local, workload);
    enum aw_err err = AW_OK;
    if (aw_local_replica_ports(local, workload, ports, REPLICAS) != REPLICAS)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "the replicas are not ready");
    for (uint32_t round = 0; !err && round < ROUNDS; round++) {
        err = ask(ports, REPLICAS, path, &direct[round], diag);
        err = err ? err : cpu_now(local, workload, &own[0], &theirs[0], diag);
        aw_local_requests(local, workload, &before);
        err = err ? err : ask(&front, 1, path, &through[round], diag);
        aw_local_requests(local, workload, &after);
        err = err ? err : cpu_now(local, workload, &own[1], &theirs[1], diag);
        if (!err) {
            own_us += own[1] - own[0];
            theirs_us += theirs[1] - theirs[0];
            answered += after.completions - before.completions;
        }
        ratio[round] = err ? 0 : through[round] / direct[round];
    }
    if (err)
        return err;
    qsort(through, ROUNDS, sizeof *through, by_value);
    qsort(direct, ROUNDS, sizeof *direct, by_value);
    qsort(ratio, ROUNDS, sizeof *ratio, by_value);
    struct aw__bench_figure *figure = aw__bench_add(bench, "requests/s", "balancer, %s", name);
    figure->value = through[ROUNDS / 2];
    figure->against = direct[ROUNDS / 2];
    figure->ratio = ratio[ROUNDS / 2];
    if (workload == OFFER_TAKEN)
        figure->goal = GOAL;
    figure = aw__bench_add(bench, "us/request", "its CPU time, beside that of wrk and replica, %s",
                           name);
    figure->value = answered ? own_us / (double)answered : NAN;
    figure->against = answered ? theirs_us / (double)answered : NAN;
    return AW_OK;
}

static enum aw_err ready_wait(const struct aw_cluster *cluster, uint32_t workload, uint32_t count,
                              struct aw_diag *diag)
{
    const int64_t until = cluster->ops->now_us(cluster->self) + READY_US;
    struct aw_sample sample;
    enum aw_err err;
    while (!(err = cluster->ops->observe(cluster->self, workload, READY_US, &sample)) &&
           sample.replicas_ready != count && cluster->ops->now_us(cluster->self) < until)
        err = cluster->ops->advance(cluster->self, cluster->ops->now_us(cluster->self) + 20000);
    if (!err && sample.replicas_ready != count)
        err = aw_fail(diag, AW_ERR_UNAVAILABLE, "replicas of " PROGRAM " do not become ready");
    return err;
}

/* Replicas come and go, grow and shrink, while wrk asks. */
static enum aw_err change(struct aw_local *local, struct aw__bench *bench, struct aw_diag *diag)
{
    const struct aw_cluster cluster = aw_local_cluster(local);
    struct aw_local_requests before, after;
    struct wrk wrk = {0};
    bool missing;
    aw_local_requests(local, 0, &before);
    enum aw_err err = wrk_begin(&wrk, aw_local_port(local, 0), "/healthz", CONNECTIONS, "7s", diag);
    for (uint32_t i = 0; !err && i < CHANGES; i++) {
        const struct aw_plan plan = {.set = AW_PLAN_REPLICAS | AW_PLAN_CPU,
                                     .replicas = 1 + (i + 1) % 4,
                                     .cpu_millicores = 1000 + 250 * (i % 3)};
        err = cluster.ops->apply(cluster.self, 0, &plan, READY_US);
        err =
            err ? err
                : cluster.ops->advance(cluster.self, cluster.ops->now_us(cluster.self) + CHANGE_US);
    }
    wrk_end(&wrk, &missing);
    aw_local_requests(local, 0, &after);
    if (err)
        return aw_fail(diag, err, "the local cluster does not answer");
    struct aw__bench_figure *figure =
        aw__bench_add(bench, "requests", "answered under %u scalings and resizes", CHANGES);
    figure->value = (double)(after.completions - before.completions);
    figure = aw__bench_add(bench, "requests", "of them lost, refused or late");
    figure->value = (double)(after.lost + after.refused + after.timed_out + after.failed -
                             before.lost - before.refused - before.timed_out - before.failed);
    figure->goal = 0;
    figure->lower_is_better = true;
    return AW_OK;
}

enum aw_err aw__bench_balancer(struct aw__bench *bench, struct aw_diag *diag)
{
    char path[PATH_MAX];
    aw_file_program_beside(PROGRAM, path, sizeof path);
    const char *command[] = {
        path, "--app",    "kind:web_serving", "--waits", "real", "--no-memory", "--start",
        "0s", "--listen", "127.0.0.1:{port}", NULL,      NULL,   NULL};
    const struct aw_local_workload workload = {.command = command,
                                               .health_path = "/readyz",
                                               .replicas = REPLICAS,
                                               .replicas_max = 4,
                                               .cpu_millicores = 16000,
                                               .memory_bytes = (int64_t)512 << 20};
    struct aw_local_settings settings;
    struct aw_local *local = NULL;
    uint32_t index;
    aw_conf_defaults(aw_local_fields, &settings);
    settings.cores = 256; /* what limits here is the machine, not a quota */
    signal(SIGPIPE, SIG_IGN);
    enum aw_err err = aw_local_new(&settings, WORKLOADS, NULL, &local, diag);
    for (uint32_t i = 0; !err && i < WORKLOADS; i++) {
        if (i == OFFER_REFUSED) {
            command[COUNT(command) - 3] = "--socket";
            command[COUNT(command) - 2] = "";
        }
        err = aw_local_add(local, &workload, &index, diag);
        const struct aw_cluster cluster = aw_local_cluster(local);
        err = err ? err : ready_wait(&cluster, i, REPLICAS, diag);
    }
    err = err ? err : compare(local, OFFER_TAKEN, "/healthz", "the least of answers", bench, diag);
    err = err ? err
              : compare(local, OFFER_REFUSED, "/healthz", "the same over TCP alone", bench, diag);
    err = err ? err : compare(local, OFFER_TAKEN, "/", "a web page made", bench, diag);
    err = err ? err : change(local, bench, diag);
    aw_local_free(local);
    return err;
}
