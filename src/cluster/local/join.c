/* join.c - other limits for replicas, and programs that share a replica's group. */
#include "cluster/local/internal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cluster/local/cgroup_file.h"
#include "cluster/local/process.h"

extern char **environ;

enum aw_err aw_local_limit_disk(struct aw_local *local, uint32_t workload, int64_t bytes_per_s)
{
    AW_ASSERT(workload < local->workload_count && bytes_per_s > 0);
    if (!local->settings.io_device[0])
        return AW_ERR_UNSUPPORTED;
    pthread_mutex_lock(&local->lock);
    local->workload[workload]->disk_bytes_per_s = bytes_per_s;
    pthread_cond_broadcast(&local->kick);
    pthread_mutex_unlock(&local->lock);
    return AW_OK;
}

void aw_local_limit_network(struct aw_local *local, uint32_t workload, int64_t bytes_per_s)
{
    AW_ASSERT(workload < local->workload_count && bytes_per_s > 0);
    for (int way = 0; way < AW__METER_WAYS; way++)
        aw__balancer_network(local->workload[workload]->balancer, (enum aw__meter_way)way,
                             bytes_per_s);
}

enum aw_err aw_local_limits(struct aw_local *local, uint32_t workload, uint32_t nth,
                            int64_t *ret_cpu_millicores, int64_t *ret_disk_bytes_per_s)
{
    AW_ASSERT(workload < local->workload_count);
    enum aw_err err = AW_ERR_NOTFOUND;
    pthread_mutex_lock(&local->lock);
    const struct aw__local_workload *of = local->workload[workload];
    for (uint32_t i = 0; i < of->slots && err; i++) {
        const struct aw__replica *r = &of->replica[i];
        if (r->phase != AW__REPLICA_RUNS || nth-- > 0)
            continue;
        *ret_cpu_millicores = aw__cgroup_cpu_limit(&local->tree, r->group);
        *ret_disk_bytes_per_s =
            aw__cgroup_io_limit(&local->tree, r->group, local->settings.io_device);
        err = AW_OK;
    }
    pthread_mutex_unlock(&local->lock);
    return err;
}

enum aw_err aw_local_probe_disk(struct aw_local *local, struct aw_diag *diag)
{
    static const char group[] = "probe";
    const int64_t wanted = 12345678;
    if (!local->settings.io_device[0])
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "the files of services are on no disk of their own");
    enum aw_err err = aw__cgroup_add(&local->tree, group, diag);
    if (err)
        return err;
    err = aw__cgroup_limit_io(&local->tree, group, local->settings.io_device, wanted, wanted, diag);
    if (!err && aw__cgroup_io_limit(&local->tree, group, local->settings.io_device) != wanted)
        err = aw_fail(diag, AW_ERR_UNSUPPORTED, "a limit of disk %s does not stay as it is written",
                      local->settings.io_device);
    (void)!aw__cgroup_remove(&local->tree, group); /* else it goes with the run */
    return err ? AW_ERR_UNSUPPORTED : AW_OK;
}

bool aw_local_device(const char *path, char *buf, size_t size)
{
    struct stat st;
    char file[AW__CGROUP_PATH_MAX], text[AW__CGROUP_TEXT_MAX];
    if (stat(path, &st) || major(st.st_dev) == 0)
        return false;
    snprintf(buf, size, "%u:%u", major(st.st_dev), minor(st.st_dev));
    snprintf(file, sizeof file, "/sys/dev/block/%s/partition", buf);
    if (access(file, F_OK))
        return true;
    snprintf(file, sizeof file, "/sys/dev/block/%s/../dev", buf);
    if (aw__cgroup_file_read(file, text, sizeof text) < 0)
        return false;
    snprintf(buf, size, "%.*s", (int)strcspn(text, "\n"), text);
    return true;
}

enum aw_err aw_local_join(struct aw_local *local, uint32_t workload, uint32_t nth,
                          const char *const *command, int *ret_pid, struct aw_diag *diag)
{
    AW_ASSERT(workload < local->workload_count);
    char doors[AW__CGROUP_ROLES][AW__CGROUP_PATH_MAX];
    char *argv[AW_LOCAL_ARGS_MAX + 1];
    uint32_t count = 0;
    enum aw_err err =
        aw_fail(diag, AW_ERR_NOTFOUND, "fewer than %u replicas run", (unsigned)nth + 1);
    for (; command[count] && count < AW_LOCAL_ARGS_MAX; count++)
        argv[count] = (char *)(uintptr_t)command[count]; /* execve(2) takes them so, and reads */
    argv[count] = NULL;
    if (nth == AW_LOCAL_OUTSIDE)
        return aw__process_spawn(&(struct aw__process_start){.argv = argv, .envp = environ},
                                 ret_pid, diag);
    pthread_mutex_lock(&local->lock); /* the group stays while it is entered */
    const struct aw__local_workload *of = local->workload[workload];
    for (uint32_t i = 0; i < of->slots; i++) {
        const struct aw__replica *r = &of->replica[i];
        if (r->phase != AW__REPLICA_RUNS || nth-- > 0)
            continue;
        const struct aw__process_start how = {
            .argv = argv,
            .envp = environ,
            .uid = of->uid,
            .gid = of->gid,
            .door_count = aw__cgroup_doors(&local->tree, r->group, doors),
            .doors = (const char(*)[AW__CGROUP_PATH_MAX])doors,
        };
        err = aw__process_spawn(&how, ret_pid, diag);
        break;
    }
    pthread_mutex_unlock(&local->lock);
    return err;
}

void aw_local_leave(int pid)
{
    kill(pid, SIGKILL); /* not reaped yet: the number is its own */
    aw__process_wait(pid);
}

bool aw_local_left(int pid, int *ret_status)
{
    return aw__process_status(pid, ret_status) != AW__PROCESS_RUNS;
}
