/*
 * replica.c - the life of a replica: placed, started, ready, drained, ended; or ended by itself,
 * and started again.
 *
 *   NONE -> PENDING -> BACKOFF (0 s) -> RUNS -> DRAINS -> STOPS -> GONE -> NONE
 *                         ^               |
 *                         +-- it ended ---+
 *
 * As Kubernetes does: a replica that ended by itself keeps its identity and its group; the first
 * restart is at once, later ones after a pause that doubles.
 */
#include "base/units.h"
#include "cluster/local/internal.h"

#include "base/net.h"
#include "cluster/local/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ENV_MAX 1024u /* variables that are handed on */

extern char **environ;

static int64_t us(double seconds)
{
    return (int64_t)llround(seconds * 1e6);
}

static bool placed(const struct aw__replica *r)
{
    return r->phase != AW__REPLICA_NONE && r->phase != AW__REPLICA_PENDING;
}

/* Counts towards what is wanted. */
static bool stays(const struct aw__replica *r)
{
    return r->phase == AW__REPLICA_PENDING || r->phase == AW__REPLICA_BACKOFF ||
           r->phase == AW__REPLICA_RUNS;
}

bool aw__replica_any(const struct aw__local_workload *workload)
{
    for (uint32_t i = 0; i < workload->slots; i++)
        if (workload->replica[i].phase != AW__REPLICA_NONE)
            return true;
    return false;
}

void aw__replica_reap(struct aw__local_workload *workload, bool ended)
{
    for (uint32_t i = 0; workload && workload->replica && i < workload->slots; i++) {
        struct aw__replica *r = &workload->replica[i];
        int code;
        if (r->pid && ended)
            aw__process_wait(r->pid);
        else if (r->pid)
            (void)aw__process_status(r->pid, &code);
        r->pid = 0;
    }
}

/* Whether the machine has room for so much more. */
static bool fits(const struct aw_local *local, int64_t millicores, int64_t bytes)
{
    for (uint32_t w = 0; w < local->workload_count + local->retired_count; w++)
        for (uint32_t i = 0; i < local->workload[w]->slots; i++) {
            const struct aw__replica *r = &local->workload[w]->replica[i];
            millicores += placed(r) ? r->cpu_millicores : 0;
            bytes += placed(r) ? r->memory_bytes : 0;
        }
    return millicores <= local->capacity_millicores && bytes <= local->capacity_bytes;
}

static void ready_set(struct aw_local *local, struct aw__replica *r, bool ready)
{
    if (r->ready != ready)
        r->ready_change_us = aw__local_now_us(local);
    r->ready = ready;
    r->was_ready = r->was_ready || ready;
}

static uint32_t slot_of(const struct aw__local_workload *workload, const struct aw__replica *r)
{
    return (uint32_t)(r - workload->replica);
}

const char *aw__replica_socket(const struct aw_local *local, const struct aw__replica *r,
                               char buf[AW_NET_UNIX_PATH_MAX])
{
    const int len = snprintf(buf, AW_NET_UNIX_PATH_MAX, "%s/%s.sock", local->rundir.path, r->group);
    if (len < 0 || (size_t)len >= AW_NET_UNIX_PATH_MAX)
        buf[0] = '\0';
    return buf;
}

/* What a life that ended too suddenly for that has not taken away itself. */
static void socket_remove(const struct aw_local *local, const struct aw__replica *r)
{
    char path[AW_NET_UNIX_PATH_MAX];
    if (*aw__replica_socket(local, r, path))
        unlink(path);
}

/* --- started ---------------------------------------------------------------------------------- */

/* A port that is free now. Somebody may take it before the replica does: then it ends, and is
 * started again on another. */
static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    if (bind(fd, (struct sockaddr *)&address, len) ||
        getsockname(fd, (struct sockaddr *)&address, &len))
        address.sin_port = 0;
    close(fd);
    return ntohs(address.sin_port);
}

/* This process's own environment, but for the two variables that are the replica's alone. */
static void environment(char *port_text, char *socket_text, char *envp[ENV_MAX + 3])
{
    uint32_t count = 0;
    for (char **variable = environ; *variable && count < ENV_MAX; variable++)
        if (strncmp(*variable, "PORT=", 5) != 0 &&
            strncmp(*variable, AW_NET_UNIX_ENV "=", sizeof AW_NET_UNIX_ENV) != 0)
            envp[count++] = *variable;
    envp[count++] = port_text;
    if (socket_text)
        envp[count++] = socket_text;
    envp[count] = NULL;
}

static void argument(const char *from, uint16_t port, char to[AW_LOCAL_ARG_MAX])
{
    static const char mark[] = "{port}";
    const char *at = strstr(from, mark);
    if (at)
        snprintf(to, AW_LOCAL_ARG_MAX, "%.*s%u%s", (int)(at - from), from, (unsigned)port,
                 at + strlen(mark));
    else
        snprintf(to, AW_LOCAL_ARG_MAX, "%s", from);
}

static enum aw_err disk_set(const struct aw_local *local, const struct aw__replica *r,
                            struct aw_diag *diag)
{
    const struct aw_local_settings *settings = &local->settings;
    int64_t read = (int64_t)(settings->io_read_mib_per_s * AW_MIB_REAL);
    int64_t write = (int64_t)(settings->io_write_mib_per_s * AW_MIB_REAL);
    if (r->disk_bytes_per_s)
        read = write = r->disk_bytes_per_s;
    return settings->io_device[0]
               ? aw__cgroup_limit_io(&local->tree, r->group, settings->io_device, read, write, diag)
               : AW_OK;
}

static enum aw_err limits_set(struct aw_local *local, struct aw__replica *r, struct aw_diag *diag)
{
    enum aw_err err = aw__cgroup_limit_cpu(&local->tree, r->group, r->cpu_millicores, diag);
    err = err ? err : aw__cgroup_weigh(&local->tree, r->group, r->cpu_millicores, diag);
    err = err ? err : aw__cgroup_limit_memory(&local->tree, r->group, r->memory_bytes, diag);
    return err ? err : disk_set(local, r, diag);
}

/* A group has all of its limits, or is not there: nobody ever runs in one without. */
static enum aw_err group_make(struct aw_local *local, struct aw__local_workload *workload,
                              struct aw__replica *r, struct aw_diag *diag)
{
    enum aw_err err = aw__cgroup_add(&local->tree, r->group, diag);
    if (err)
        return err;
    r->cpu_millicores = workload->cpu_millicores;
    r->memory_bytes = workload->memory_bytes;
    r->disk_bytes_per_s = workload->disk_bytes_per_s;
    r->oom_seen = 0;
    r->usage = (struct aw__cgroup_usage){0};
    r->usage_us = aw__local_now_us(local);
    if ((err = limits_set(local, r, diag))) {
        const enum aw_err gone = aw__cgroup_remove(&local->tree, r->group);
        (void)gone; /* where it stays, the next try fails to make it */
    }
    r->has_group = !err;
    return err;
}

static enum aw_err start(struct aw_local *local, struct aw__local_workload *workload,
                         struct aw__replica *r, struct aw_diag *diag)
{
    char text[AW_LOCAL_ARGS_MAX][AW_LOCAL_ARG_MAX], log[AW_CONF_TEXT_MAX + 64], port_text[32];
    char path[AW_NET_UNIX_PATH_MAX], socket_text[sizeof AW_NET_UNIX_ENV + AW_NET_UNIX_PATH_MAX];
    char *argv[AW_LOCAL_ARGS_MAX + 1], *envp[ENV_MAX + 3];
    enum aw_err err = r->has_group ? AW_OK : group_make(local, workload, r, diag);
    if (err)
        return err;
    if ((r->port = free_port()) == 0)
        return aw_fail(diag, AW_ERR_IO, "no free port on 127.0.0.1");
    for (uint32_t i = 0; i < workload->arg_count; i++) {
        argument(workload->args[i], r->port, text[i]);
        argv[i] = text[i];
    }
    argv[workload->arg_count] = NULL;
    socket_remove(local, r);
    snprintf(port_text, sizeof port_text, "PORT=%u", (unsigned)r->port);
    snprintf(socket_text, sizeof socket_text, AW_NET_UNIX_ENV "=%s",
             aw__replica_socket(local, r, path));
    environment(port_text, *path ? socket_text : NULL, envp);
    snprintf(log, sizeof log, "%s/%s.log", local->settings.log_dir, r->group);
    r->oom_kills_before = r->oom_kill_count;
    const struct aw__process_start how = {
        .argv = argv,
        .envp = envp,
        .log = local->settings.log_dir[0] ? log : NULL,
        .uid = workload->uid,
        .gid = workload->gid,
        .door_count = aw__cgroup_doors(&local->tree, r->group, local->doors),
        .doors = (const char(*)[AW__CGROUP_PATH_MAX])local->doors,
    };
    if ((err = aw__process_spawn(&how, &r->pid, diag)))
        return err;
    r->phase = AW__REPLICA_RUNS;
    r->started_us = aw__local_now_us(local);
    r->was_ready = false;
    aw__balancer_set(workload->balancer, slot_of(workload, r), AW__BACKEND_ON, r->port, path);
    return AW_OK;
}

/* The pause before the next start, longer every time. A long life wipes the past out. */
static void back_off(struct aw_local *local, struct aw__replica *r)
{
    const struct aw_local_settings *settings = &local->settings;
    const int64_t now = aw__local_now_us(local);
    if (r->pid && now - r->started_us > us(settings->backoff_max_s))
        r->backoff_s = 0;
    r->until_us = now + us(r->backoff_s);
    r->backoff_s = r->backoff_s > 0 ? fmin(2 * r->backoff_s, settings->backoff_max_s)
                                    : fmin(settings->backoff_s, settings->backoff_max_s);
    r->phase = AW__REPLICA_BACKOFF;
    r->pid = 0;
    ready_set(local, r, false);
}

/* Its turn has come: place, clear what is left of the last life, start. */
static void backoff_step(struct aw_local *local, struct aw__local_workload *workload,
                         struct aw__replica *r)
{
    struct aw_diag diag = {0};
    struct aw__backend_view view;
    const bool again = r->started_us != AW_NEVER;
    aw__balancer_view(workload->balancer, slot_of(workload, r), &view);
    if (aw__local_now_us(local) < r->until_us || !view.seen)
        return;
    if (r->has_group && aw__cgroup_end(&local->tree, r->group) > 0)
        return; /* children of the last life */
    if (start(local, workload, r, &diag)) {
        snprintf(workload->trouble, sizeof workload->trouble, "%s", diag.text);
        back_off(local, r);
        return;
    }
    r->restart_count += again;
    workload->restarts += again;
}

/* --- ended ------------------------------------------------------------------------------------ */

static void ended_by_itself(struct aw_local *local, struct aw__local_workload *workload,
                            struct aw__replica *r, enum aw__process_state state, int code)
{
    (void)aw__observe_oom(local, workload, r);
    /* where the kernel does not count: SIGKILL, and it was not ours */
    if (aw__cgroup_oom_kills(&local->tree, r->group) < 0 && state == AW__PROCESS_SIGNALLED &&
        code == SIGKILL) {
        r->oom_kill_count++;
        workload->oom_kills++;
    }
    if (state == AW__PROCESS_SIGNALLED)
        snprintf(workload->trouble, sizeof workload->trouble, "replica %" PRIu32 " ended by %s%s",
                 r->id, strsignal(code),
                 r->oom_kill_count > r->oom_kills_before ? ": out of memory" : "");
    else
        snprintf(workload->trouble, sizeof workload->trouble,
                 "replica %" PRIu32 " ended with status %d%s", r->id, code,
                 r->was_ready ? "" : " before it was ready");
    aw__balancer_set(workload->balancer, slot_of(workload, r), AW__BACKEND_OFF, 0, NULL);
    aw__cgroup_end(&local->tree, r->group);
    back_off(local, r);
}

static void drain(struct aw_local *local, struct aw__local_workload *workload,
                  struct aw__replica *r)
{
    switch ((enum aw__replica_phase)r->phase) {
    case AW__REPLICA_RUNS:
        aw__balancer_set(workload->balancer, slot_of(workload, r), AW__BACKEND_DRAIN, 0, NULL);
        r->until_us = aw__local_now_us(local) + us(local->settings.drain_s);
        r->phase = AW__REPLICA_DRAINS;
        break;
    case AW__REPLICA_PENDING:
    case AW__REPLICA_BACKOFF:
        r->phase = AW__REPLICA_GONE;
        break;
    default:
        break;
    }
    ready_set(local, r, false);
}

static void stop(struct aw_local *local, struct aw__local_workload *workload, struct aw__replica *r)
{
    aw__balancer_set(workload->balancer, slot_of(workload, r), AW__BACKEND_OFF, 0, NULL);
    if (r->pid)
        kill(r->pid, SIGTERM); /* not reaped yet: the number is its own */
    r->until_us = aw__local_now_us(local) + us(local->settings.stop_s);
    r->phase = AW__REPLICA_STOPS;
}

static void gone_step(struct aw_local *local, struct aw__local_workload *workload,
                      struct aw__replica *r)
{
    if (r->has_group) {
        aw__observe_last(local, workload, r);
        if (aw__cgroup_remove(&local->tree, r->group))
            return; /* the next look finds it empty */
    }
    socket_remove(local, r);
    *r = (struct aw__replica){0};
}

/* --- looked at -------------------------------------------------------------------------------- */

static void process_look(struct aw_local *local, struct aw__local_workload *workload,
                         struct aw__replica *r)
{
    int code = 0;
    const enum aw__process_state state = aw__process_status(r->pid, &code);
    if (state == AW__PROCESS_RUNS)
        return;
    if (r->phase == AW__REPLICA_RUNS) {
        ended_by_itself(local, workload, r, state, code);
        return;
    }
    r->pid = 0;
    if (r->phase == AW__REPLICA_DRAINS)
        aw__balancer_set(workload->balancer, slot_of(workload, r), AW__BACKEND_OFF, 0, NULL);
    aw__observe_oom(local, workload, r);
    r->phase = AW__REPLICA_GONE;
}

/* In place. What does not fit the machine, or is in use, is tried again with the next look. */
static void resize(struct aw_local *local, struct aw__local_workload *workload,
                   struct aw__replica *r)
{
    const int64_t cpu = workload->cpu_millicores, memory = workload->memory_bytes;
    struct aw_diag diag = {0};
    enum aw_err err = AW_OK;
    if (cpu != r->cpu_millicores &&
        (cpu < r->cpu_millicores || fits(local, cpu - r->cpu_millicores, 0))) {
        err = aw__cgroup_limit_cpu(&local->tree, r->group, cpu, &diag);
        if (!err && !(err = aw__cgroup_weigh(&local->tree, r->group, cpu, &diag)))
            r->cpu_millicores = cpu;
    }
    if (!err && memory != r->memory_bytes &&
        (memory < r->memory_bytes || fits(local, 0, memory - r->memory_bytes))) {
        if (!(err = aw__cgroup_limit_memory(&local->tree, r->group, memory, &diag)))
            r->memory_bytes = memory;
    }
    if (!err && workload->disk_bytes_per_s != r->disk_bytes_per_s) {
        const int64_t before = r->disk_bytes_per_s;
        r->disk_bytes_per_s = workload->disk_bytes_per_s;
        if ((err = disk_set(local, r, &diag)))
            r->disk_bytes_per_s = before;
    }
    if (err)
        snprintf(workload->trouble, sizeof workload->trouble, "%s", diag.text);
}

static void look(struct aw_local *local, struct aw__local_workload *workload, struct aw__replica *r)
{
    struct aw__backend_view view;
    const int64_t now = aw__local_now_us(local);
    if (r->pid)
        process_look(local, workload, r);
    aw__balancer_view(workload->balancer, slot_of(workload, r), &view);
    switch ((enum aw__replica_phase)r->phase) {
    case AW__REPLICA_NONE:
        break;
    case AW__REPLICA_PENDING:
        if (fits(local, workload->cpu_millicores, workload->memory_bytes)) {
            r->cpu_millicores = workload->cpu_millicores; /* its place is taken from now on */
            r->memory_bytes = workload->memory_bytes;
            r->phase = AW__REPLICA_BACKOFF;
            r->until_us = now;
        }
        break;
    case AW__REPLICA_BACKOFF:
        if (!local->closing)
            backoff_step(local, workload, r);
        break;
    case AW__REPLICA_RUNS:
        ready_set(local, r, view.ready);
        break;
    case AW__REPLICA_DRAINS:
        if ((view.seen && view.in_flight == 0) || now >= r->until_us)
            stop(local, workload, r);
        break;
    case AW__REPLICA_STOPS:
        if (now >= r->until_us) {
            if (r->pid)
                kill(r->pid, SIGKILL);
            aw__cgroup_end(&local->tree, r->group);
        }
        break;
    case AW__REPLICA_GONE:
        if (view.seen)
            gone_step(local, workload, r);
        break;
    }
    if (r->has_group && stays(r) &&
        (r->cpu_millicores != workload->cpu_millicores ||
         r->memory_bytes != workload->memory_bytes ||
         r->disk_bytes_per_s != workload->disk_bytes_per_s))
        resize(local, workload, r);
}

/* --- as many as are wanted -------------------------------------------------------------------- */

static bool add_one(struct aw_local *local, struct aw__local_workload *workload)
{
    for (uint32_t i = 0; i < workload->slots; i++) {
        struct aw__replica *r = &workload->replica[i];
        if (r->phase != AW__REPLICA_NONE)
            continue;
        *r = (struct aw__replica){.phase = AW__REPLICA_PENDING,
                                  .id = ++local->next_id,
                                  .cpu_millicores = workload->cpu_millicores,
                                  .memory_bytes = workload->memory_bytes,
                                  .started_us = AW_NEVER,
                                  .ready_change_us = aw__local_now_us(local),
                                  .cpu_cores_used.at_us = AW_NEVER,
                                  .memory_bytes_used.at_us = AW_NEVER};
        snprintf(r->group, sizeof r->group, "w%" PRIu32 "-r%" PRIu32, workload->index, r->id);
        return true;
    }
    return false;
}

/* Who goes first: not placed, not running, not ready, the youngest (as ReplicaSets choose). */
static bool goes_before(const struct aw__replica *a, const struct aw__replica *b)
{
    if (placed(a) != placed(b))
        return !placed(a);
    if ((a->phase == AW__REPLICA_RUNS) != (b->phase == AW__REPLICA_RUNS))
        return a->phase != AW__REPLICA_RUNS;
    if (a->ready != b->ready)
        return !a->ready;
    return a->id > b->id;
}

static void drop_one(struct aw_local *local, struct aw__local_workload *workload)
{
    struct aw__replica *first = NULL;
    for (uint32_t i = 0; i < workload->slots; i++) {
        struct aw__replica *r = &workload->replica[i];
        if (stays(r) && (!first || goes_before(r, first)))
            first = r;
    }
    if (first)
        drain(local, workload, first);
}

void aw__replica_reconcile(struct aw_local *local, struct aw__local_workload *workload)
{
    uint32_t count = 0;
    const uint32_t wanted = local->closing ? 0 : workload->wanted;
    for (uint32_t i = 0; i < workload->slots; i++)
        count += stays(&workload->replica[i]);
    for (; count < wanted && add_one(local, workload); count++)
        ;
    for (; count > wanted; count--)
        drop_one(local, workload);
    for (uint32_t i = 0; i < workload->slots; i++)
        look(local, workload, &workload->replica[i]);
}
