/*
 * local_testing.h - a local cluster of stand-ins, for tests alone.
 *
 * Where control groups cannot be written the test says so and is skipped. The sub-tree of a test is
 * its own, and so is its run directory.
 */
#ifndef AW_CLUSTER_LOCAL_LOCAL_TESTING_H
#define AW_CLUSTER_LOCAL_LOCAL_TESTING_H

#include "base/units.h"
#include "cluster/local.h"
#include "cluster/local/internal.h"
#include "cluster/local/standin_testing.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* MiB that a replica touches. The thread sanitizer remembers four times what is touched, and that
 * is in the same control group. */
#if defined(__SANITIZE_THREAD__)
#define TOUCHED "8"
#else
#define TOUCHED "64"
#endif

struct yard {
    char run_dir[64];
    struct aw_local_settings settings;
    struct aw_local *local;
    struct aw_cluster cluster;
    uint32_t workload;
};

#define PATIENCE 8 /* others may have the machine */
#define wait_until(seconds, condition)                                                    \
    do {                                                                                  \
        const int64_t limit_ =                                                            \
            aw_clock_monotonic_us(NULL) + (int64_t)((seconds)*1000000.0 * PATIENCE);      \
        bool met_;                                                                        \
        while (!(met_ = (condition)) && aw_clock_monotonic_us(NULL) < limit_)             \
            standin_wait_ms(2);                                                           \
        assert_true(met_); /* as it was then: what is asked may change the next moment */ \
    } while (0)

static inline void yard_settings(struct yard *yard)
{
    *yard = (struct yard){.run_dir = "/tmp/aware-yard-XXXXXX"};
    assert_non_null(mkdtemp(yard->run_dir));
    aw_conf_defaults(aw_local_fields, &yard->settings);
    snprintf(yard->settings.run_dir, sizeof yard->settings.run_dir, "%s", yard->run_dir);
    yard->settings.cores = 64; /* a test is about order, not about speed */
    yard->settings.memory_gib = 16;
    yard->settings.readiness_period_s = 0.2;
    yard->settings.drain_s = 5;
    yard->settings.stop_s = 1;
    yard->settings.backoff_s = 0.1;
    yard->settings.backoff_max_s = 0.4;
    yard->settings.connections = 256;
    yard->settings.request_timeout_s = 10;
}

/* False: not here, and it has been said why. */
static inline bool yard_new(struct yard *yard)
{
    struct aw_diag diag = {0};
    const enum aw_err err = aw_local_new(&yard->settings, 2, NULL, &yard->local, &diag);
    if (err == AW_ERR_UNSUPPORTED) {
        char path[128];
        print_message("skipped: %s\n", diag.text);
        snprintf(path, sizeof path, "%s/lock", yard->run_dir);
        unlink(path);
        rmdir(yard->run_dir);
        return false;
    }
    if (err)
        fail_msg("%s", diag.text);
    yard->cluster = aw_local_cluster(yard->local);
    return true;
}

static inline enum aw_err yard_add(struct yard *yard, const char *const *words, uint32_t replicas,
                                   int64_t memory_bytes, struct aw_diag *diag)
{
    const char *command[AW_LOCAL_ARGS_MAX + 1] = {"/proc/self/exe", aw_test_group_name, "serve",
                                                  "{port}"};
    for (uint32_t i = 0; words && words[i]; i++)
        command[4 + i] = words[i];
    const struct aw_local_workload workload = {.command = command,
                                               .health_path = "/healthz",
                                               .replicas = replicas,
                                               .replicas_max = 12,
                                               .cpu_millicores = 500,
                                               .memory_bytes = memory_bytes};
    return aw_local_add(yard->local, &workload, &yard->workload, diag);
}

static inline bool yard_begin(struct yard *yard, const char *const *words, uint32_t replicas)
{
    struct aw_diag diag = {0};
    yard_settings(yard);
    if (!yard_new(yard))
        return false;
    if (yard_add(yard, words, replicas, 256 * AW_MIB, &diag))
        fail_msg("%s", diag.text);
    return true;
}

static inline struct aw_sample yard_observe(struct yard *yard)
{
    struct aw_sample sample;
    assert_ok(yard->cluster.ops->observe(yard->cluster.self, yard->workload, INT64_MAX, &sample));
    return sample;
}

static inline void yard_apply(struct yard *yard, const struct aw_plan *plan)
{
    assert_ok(yard->cluster.ops->apply(yard->cluster.self, yard->workload, plan, INT64_MAX));
}

static inline bool yard_is(struct yard *yard, uint32_t ready)
{
    const struct aw_sample sample = yard_observe(yard);
    return sample.replicas_ready == ready && sample.pod_count == ready && !sample.rollout;
}

/* Directories of groups below the sub-tree in the first hierarchy; -1: it is not there. */
static inline int yard_groups(const struct aw__cgroup_tree *tree, uint32_t part)
{
    DIR *dir = opendir(tree->part[part]);
    int count = 0;
    if (!dir)
        return -1;
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_type == DT_DIR && entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* Unix sockets of replicas, of this run. */
static inline uint32_t yard_sockets(const struct yard *yard)
{
    DIR *dir = opendir(yard->local->rundir.path);
    uint32_t count = 0;
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += strstr(entry->d_name, ".sock") != NULL;
    closedir(dir);
    return count;
}

/* Whether every ready replica is asked over its Unix socket, or else none. */
static inline bool yard_is_unix(struct yard *yard, bool is_unix)
{
    bool all = true;
    pthread_mutex_lock(&yard->local->lock);
    const struct aw__local_workload *workload = yard->local->workload[yard->workload];
    for (uint32_t i = 0; i < workload->slots; i++) {
        struct aw__backend_view view;
        aw__balancer_view(workload->balancer, i, &view);
        all = all && (!view.ready || view.is_unix == is_unix);
    }
    pthread_mutex_unlock(&yard->local->lock);
    return all;
}

/* Nothing is left of `tree`: no group in any hierarchy. */
static inline void yard_tree_gone(const struct aw__cgroup_tree *tree)
{
    for (uint32_t i = 0; i < tree->part_count; i++)
        assert_int_equal(yard_groups(tree, i), -1);
}

static inline void yard_end(struct yard *yard)
{
    const struct aw__cgroup_tree tree = yard->local->tree;
    char path[128];
    aw_local_free(yard->local);
    yard_tree_gone(&tree);
    assert_true(waitpid(-1, NULL, WNOHANG) <= 0); /* nor a process that nobody took leave of */
    snprintf(path, sizeof path, "%s/lock", yard->run_dir);
    unlink(path);
    assert_int_equal(rmdir(yard->run_dir), 0); /* nothing else is in it */
}

/* A signal to the nth ready replica. False: there is none. */
static inline bool signal_replica(struct aw_local *local, uint32_t workload, uint32_t nth,
                                  int number)
{
    bool sent = false;
    pthread_mutex_lock(&local->lock); /* nobody reaps it meanwhile: the number is its own */
    const struct aw__local_workload *of = local->workload[workload];
    for (uint32_t i = 0; i < of->slots && !sent; i++) {
        const struct aw__replica *r = &of->replica[i];
        if (r->phase == AW__REPLICA_RUNS && r->ready && r->pid && nth-- == 0)
            sent = kill(r->pid, number) == 0;
    }
    pthread_mutex_unlock(&local->lock);
    return sent;
}

#endif
