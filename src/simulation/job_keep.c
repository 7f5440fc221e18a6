/*
 * job_keep.c - what a job keeps of itself, and how the next one goes on from it.
 *
 * Everything has a name (store/archive.h): the run, each workload's account, its pilot in each
 * world, and the simulated cluster as a whole. A job with the same settings goes on as if it had
 * never ended. With others, or in a program of another build, the simulated cluster is set up again
 * at the time that it had come to, with the replicas and sizes that workloads had last been asked
 * to have; the pilots know what they knew, as far as that is still true; and nothing is changed
 * before the cluster has been seen.
 */
#include "simulation/job_internal.h"

#include <stdio.h>
#include <string.h>

#define KIND          "run"
#define WHAT          "the state of a run"
#define RUN_VERSION   1u
#define SIM_VERSION   1u
#define ACCOUNT_PLACE "account"
#define CLUSTER_MAX   16u /* bytes of the name of a kind of cluster, with its NUL */

struct run {
    uint64_t steps;
    uint64_t settings; /* hash */
    int64_t lived_us;
    char cluster[CLUSTER_MAX];
};
AW_LAYOUT(run_layout, struct run, 0, steps, settings, lived_us, cluster);
AW_LAYOUT(account_struct_layout, struct aw__job_account, 0, total, stage, before_serving, recent,
          episode, serving_us, episodes, transitions, at_us, asked, track);
AW_LAYOUT(track_layout, struct aw_replica_track, 0, replicas, unused, more_us, fewer_us);
AW_LAYOUT(totals_layout, struct aw_totals, 0, steps, violations, agent_steps, cost, reward,
          cpu_utilisation, memory_utilisation, requests, failed, core_s, gib_s, replica_s,
          oom_kills, restarts, replica_changes, reversals_down, reversals_up);
AW_LAYOUT(plan_layout, struct aw_plan, 0, set, amount);

static uint64_t account_layout(uint64_t hash)
{
    return account_struct_layout(plan_layout(track_layout(totals_layout(hash))));
}

static const char *const world_place[AW_JOB_WORLDS] = {[AW_JOB_AWARE] = "0", [AW_JOB_TWIN] = "1"};

static const char *name_of(const char *place, const char *name, const char *part, char *buf)
{
    snprintf(buf, AW_ARCHIVE_NAME_MAX, "%s/%s%s", place, name, part);
    return buf;
}

static const char *cluster_of(const struct aw_job *job)
{
    return job->simulated ? "simulated" : job->world[AW_JOB_AWARE].cluster.ops->name;
}

/* --- kept ------------------------------------------------------------------------------------- */

/* Of workloads that are not here now, what was kept before: they may come back. */
static void left_keep(const struct aw_job *job, struct aw_archive_writer *to)
{
    for (uint32_t i = 0; i < job->left.count; i++)
        aw_archive_copy(to, &job->left, &job->left.part[i]);
}

enum aw_err aw_job_save(const struct aw_job *job, const char *path, struct aw_diag *diag)
{
    if (job->simulated && job->sim.model != AW_SIM_FAST)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "only the fast model can be saved");
    struct aw_archive_writer to;
    char name[AW_ARCHIVE_NAME_MAX];
    struct aw_shape run_shape, account_shape, sim_shape;
    aw_shape_of(&run_shape, RUN_VERSION, run_layout);
    aw_shape_of(&account_shape, RUN_VERSION, account_layout);
    aw_shape_of(&sim_shape, SIM_VERSION, aw_sim_layout);
    const enum aw_err err = aw_archive_create(&to, path, KIND, job->alloc, diag);
    if (err)
        return err;
    struct run run = {job->steps, job->settings_hash, aw_job_lived_us(job), ""};
    snprintf(run.cluster, sizeof run.cluster, "%s", cluster_of(job));
    void *bytes = aw_archive_add(&to, "run", &run_shape, sizeof run);
    if (bytes)
        memcpy(bytes, &run, sizeof run);
    for (uint32_t i = 0; i < job->count; i++) {
        name_of(ACCOUNT_PLACE, job->workload[i].pilot.name, "", name);
        if ((bytes = aw_archive_add(&to, name, &account_shape, sizeof *job->account)))
            memcpy(bytes, &job->account[i], sizeof *job->account);
    }
    for (uint32_t w = 0; w < job->worlds; w++) {
        const struct aw__job_world *world = &job->world[w];
        aw_loop_keep(world->loop, world_place[w], &to);
        snprintf(name, sizeof name, "%s/cluster", world_place[w]);
        if (world->sim &&
            (bytes = aw_archive_add(&to, name, &sim_shape, aw_sim_state_bytes(world->sim))))
            aw_sim_state_save(world->sim, bytes);
    }
    left_keep(job, &to);
    return aw_archive_commit(&to, diag);
}

/* --- and taken up again ----------------------------------------------------------------------- */

static enum aw_err run_find(struct aw_job *job, struct aw_archive *from, const char *path,
                            struct run *ret, struct aw_diag *diag)
{
    struct aw_shape shape;
    struct aw_archive_match match;
    const struct aw_archive_part *part = aw_archive_find(from, "run");
    aw_shape_of(&shape, RUN_VERSION, run_layout);
    if (!part || aw_archive_take(from, part, &shape, ret, sizeof *ret, &match))
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                          "damaged: how far the run had come cannot be read");
    if (strncmp(ret->cluster, cluster_of(job), sizeof ret->cluster - 1) != 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                          WHAT " on another kind of cluster: expected %s, found %.*s",
                          cluster_of(job), (int)sizeof ret->cluster, ret->cluster);
    job->steps = ret->steps;
    job->before_us = ret->lived_us - (int64_t)ret->steps * job->step_us;
    return AW_OK;
}

/* Accounts by name; who is new begins at zero. */
static void accounts_find(struct aw_job *job, struct aw_archive *from)
{
    char name[AW_ARCHIVE_NAME_MAX];
    struct aw_shape shape;
    struct aw_archive_match match;
    aw_shape_of(&shape, RUN_VERSION, account_layout);
    for (uint32_t i = 0; i < job->count; i++) {
        const struct aw_archive_part *part =
            aw_archive_find(from, name_of(ACCOUNT_PLACE, job->workload[i].pilot.name, "", name));
        if (part)
            (void)!aw_archive_take(from, part, &shape, &job->account[i], sizeof *job->account,
                                   &match);
    }
}

/* The simulated cluster as it was. False: it is of other settings or of another build. */
static bool sim_find(const struct aw_job *job, struct aw_archive *from, uint32_t w)
{
    char name[AW_ARCHIVE_NAME_MAX];
    struct aw_shape shape;
    struct aw_sim *sim = job->world[w].sim;
    aw_shape_of(&shape, SIM_VERSION, aw_sim_layout);
    snprintf(name, sizeof name, "%s/cluster", world_place[w]);
    const struct aw_archive_part *part = aw_archive_find(from, name);
    return part && aw_archive_same(part, &shape, aw_sim_state_bytes(sim)) &&
           !aw_sim_state_load(sim, part->bytes);
}

/* Set up again; workloads have what they were last asked to have. It begins a step before the
 * present, so that there is something to be seen of it. */
static enum aw_err sim_again(const struct aw_job *job, uint32_t w, struct aw_diag *diag)
{
    const struct aw__job_world *world = &job->world[w];
    const int64_t now = aw_job_lived_us(job), from = now > job->step_us ? now - job->step_us : 0;
    aw_sim_reset_at(world->sim, job->seed, from);
    for (uint32_t i = 0; i < job->count; i++) {
        const struct aw_plan begin = aw_plan_of(job->workload[i].task.amount);
        struct aw_plan start = job->account[i].asked[w];
        if (start.replicas == 0)
            start = begin;
        aw_bounds_clip(&job->workload[i].pilot.bounds, &start);
        struct aw_sim_workload placed = aw__job_placed(job, i, &start);
        enum aw_err err = aw_sim_replace(world->sim, i, &placed, 0);
        if (err == AW_ERR_RANGE) { /* no node has room for it now */
            placed = aw__job_placed(job, i, &begin);
            err = aw_sim_replace(world->sim, i, &placed, 0);
        }
        if (err)
            return aw_fail(diag, err, "%s: the simulated cluster cannot be set up again",
                           job->workload[i].pilot.name);
    }
    aw__job_disturb_again(job, world, from);
    const enum aw_err err = world->cluster.ops->advance(world->cluster.self, now);
    if (err)
        return aw_fail(diag, err, "the simulated cluster stopped");
    aw__job_disturb_again(job, world, now);
    return AW_OK;
}

/* `at`: which one was found last. They are mostly in the same order. */
static bool is_here(const struct aw_job *job, const char *name, size_t length, uint32_t *at)
{
    for (uint32_t i = 0; i < job->count; i++, *at = (*at + 1) % job->count) {
        const char *here = job->workload[*at].pilot.name;
        if (strncmp(here, name, length) == 0 && here[length] == '\0')
            return true;
    }
    return false;
}

/* Keeps the archive if it has workloads that are not here; of its parts only theirs stay named.
 * "0/shop/api/memory" is of shop/api. */
static void left_take(struct aw_job *job, struct aw_archive *from)
{
    uint32_t left = 0, at = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        const char *name = from->part[i].name;
        const char *slash = strchr(name, '/'), *end = slash ? strrchr(name, '/') : NULL;
        const bool account = strncmp(name, ACCOUNT_PLACE "/", sizeof ACCOUNT_PLACE) == 0;
        const bool theirs =
            slash &&
            (account ? !is_here(job, slash + 1, strlen(slash + 1), &at)
                     : end > slash && !is_here(job, slash + 1, (size_t)(end - slash - 1), &at));
        left += theirs;
        if (!theirs && strcmp(name, "shape") != 0)
            from->part[i].name = "";
    }
    aw_archive_close(&job->left);
    if (left > 0) {
        job->left = *from;
        *from = (struct aw_archive){0};
    }
}

static enum aw_err take(struct aw_job *job, struct aw_archive *from, const char *path,
                        const struct aw_job_recovery *how, struct aw_diag *diag)
{
    struct run run = {0};
    enum aw_err err = run_find(job, from, path, &run, diag);
    if (err)
        return err;
    accounts_find(job, from);
    bool same = true, world = run.settings == job->settings_hash;
    for (uint32_t w = 0; !err && w < job->worlds; w++) {
        bool as_it_was = false;
        err = aw_loop_recover(job->world[w].loop, from, world_place[w],
                              w == AW_JOB_AWARE ? how->found : NULL, how->ctx, &as_it_was, diag);
        same = same && as_it_was;
    }
    for (uint32_t w = 0; !err && job->simulated && w < job->worlds; w++)
        world = world && sim_find(job, from, w);
    for (uint32_t w = 0; !err && job->simulated && !world && w < job->worlds; w++)
        err = sim_again(job, w, diag);
    if (err)
        return err;
    job->under_way = false;
    /* steps behind the save are lived again alike only where everything is as it was */
    if (!job->simulated || !world || (!same && !how->just_saved))
        for (uint32_t w = 0; w < job->worlds; w++)
            aw_loop_resume(job->world[w].loop);
    left_take(job, from);
    return AW_OK;
}

enum aw_err aw_job_recover(struct aw_job *job, const char *path, const struct aw_job_recovery *how,
                           struct aw_diag *diag)
{
    struct aw_archive archive;
    const enum aw_err read = aw_archive_read(&archive, path, KIND, WHAT, job->alloc, diag);
    if (read)
        return read;
    const enum aw_err err = take(job, &archive, path, how, diag);
    aw_archive_close(&archive);
    return err;
}

enum aw_err aw_job_load(struct aw_job *job, const char *path, struct aw_diag *diag)
{
    return aw_job_recover(job, path, &(struct aw_job_recovery){0}, diag);
}
