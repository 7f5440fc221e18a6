/*
 * api_testing.h - a small world for tests of the API: three workloads on the simulated cluster, a
 * desk, a journal and a store in a temporary folder; included by tests alone.
 */
#ifndef AW_WEB_API_TESTING_H
#define AW_WEB_API_TESTING_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simulation/job.h"
#include "simulation/simulate.h"
#include "web/api.h"

#define AW_API_TESTING_WORKLOADS 3u
#define AW_API_TESTING_BY        "uid:1000 (sam), pid 4711"

struct aw_api_world {
    char folder[64];
    struct aw_job_workload workload[AW_API_TESTING_WORKLOADS];
    struct aw_fallback_task task[AW_API_TESTING_WORKLOADS];
    struct aw_load load[AW_API_TESTING_WORKLOADS];
    struct aw_job_config config;
    struct aw_desk_config steward_config;
    struct aw_desk *desk;
    struct aw_store store;
    struct aw_job *job;
    struct aw_api_config api_config;
    struct aw_api api;
};

static inline void aw_api_testing_remove(const char *folder)
{
    char path[512];
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        snprintf(path, sizeof path, "%.200s/%.255s", folder, entry->d_name);
        if (unlink(path))
            aw_api_testing_remove(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

/* A bug in the fixture ends the test. */
static inline void aw_api_testing_must(enum aw_err err, const struct aw_diag *diag)
{
    if (err)
        fprintf(stderr, "# %s: %s\n", aw_err_name(err), diag->text);
    AW_ASSERT(!err);
}

/* Without a journal explanations are of the last decision, and cheap. `served`: a policy acts from
 * the first tick on, untaught, and none is searched for within a hundred. `one_node_cores`: of the
 * only node; 0: the default cluster. */
static inline void aw_api_world_open_on(struct aw_api_world *w, enum aw_guard_mode mode,
                                        bool journal, bool served, double one_node_cores)
{
    static const char *const names[] = {"shop/cart", "shop/web", "bank/cart"};
    struct aw_diag diag = {0};
    memset(w, 0, sizeof *w);
    snprintf(w->folder, sizeof w->folder, "/tmp/aware-api-XXXXXX");
    AW_ASSERT(mkdtemp(w->folder));
    for (uint32_t i = 0; i < AW_API_TESTING_WORKLOADS; i++) {
        struct aw_job_workload *one = &w->workload[i];
        aw_app_generate(1, 3 + i, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &one->app);
        aw_api_testing_must(
            aw_load_parse("bursts:mean=20,peak=4,period=1800", 1, NULL, &w->load[i], &diag), &diag);
        aw_load_scale_mean(&w->load[i], aw_app_rate_for(&one->app, 1.5));
        one->load = &w->load[i];
        aw_pilot_config_init(&one->pilot);
        snprintf(one->pilot.name, sizeof one->pilot.name, "%s", names[i]);
        one->pilot.bounds =
            (struct aw_bounds){.min = {1, 100, 128 << 20}, .max = {12, 4000, (int64_t)4 << 30}};
        one->pilot.slo.latency_us_p99 = 1.5 * aw_app_unloaded_p99_us(&one->app, 1, 0);
        one->pilot.seed = i + 1;
        one->pilot.learning = served;
        one->pilot.lifecycle.bootstrap = !served;
        if (served) /* whatever it does to the SLO */
            one->pilot.watchdog.slack = 100;
        one->pilot.guard.mode = mode;
        one->task = (struct aw_fallback_task){.bounds = one->pilot.bounds,
                                              .slo_latency_us = one->pilot.slo.latency_us_p99,
                                              .replicas = 3,
                                              .cpu_millicores = 1000,
                                              .memory_bytes = (int64_t)2 << 30};
        w->task[i] = one->task;
    }
    snprintf(w->api_config.store, sizeof w->api_config.store, "%s/steps.db", w->folder);
    aw_api_testing_must(
        aw_store_open(&w->store, w->api_config.store, &(struct aw_store_options){0}, NULL, &diag),
        &diag);
    w->steward_config.virtual_time = true;
    w->steward_config.audit.no_sync = true;
    snprintf(w->steward_config.folder, sizeof w->steward_config.folder, "%s/audit", w->folder);
    if (journal)
        snprintf(w->steward_config.journal, sizeof w->steward_config.journal, "%s/why.db",
                 w->folder);
    aw_api_testing_must(aw_desk_new(&w->steward_config, NULL, &w->desk, NULL, &diag), &diag);
    w->config = (struct aw_job_config){.workloads = w->workload,
                                       .count = AW_API_TESTING_WORKLOADS,
                                       .seed = 7,
                                       .store = &w->store,
                                       .thread_count = 1,
                                       .hooks = aw_desk_hooks(w->desk),
                                       .steadfast = true};
    aw_conf_defaults(aw_sim_fields, &w->config.sim);
    if (one_node_cores > 0) {
        w->config.sim.node_count = 1;
        w->config.sim.node_cores = one_node_cores;
    }
    aw_api_testing_must(aw_job_new(&w->config, NULL, &w->job, &diag), &diag);
    aw_api_testing_must(
        aw_desk_attach(w->desk, aw_job_loop(w->job), w->task, aw_job_now_us(w->job), &diag), &diag);
    w->api_config.desk = w->desk;
    w->api_config.virtual_time = true;
    w->api_config.speed = 1;
    w->api_config.step_s = w->workload[0].pilot.step_s;
    snprintf(w->api_config.version, sizeof w->api_config.version, "test");
    snprintf(w->api_config.cluster, sizeof w->api_config.cluster, "sim");
    snprintf(w->api_config.state, sizeof w->api_config.state, "%s", w->folder);
    snprintf(w->api_config.audit, sizeof w->api_config.audit, "%s/audit", w->folder);
    AW_ASSERT(!aw_api_init(&w->api, &w->api_config));
}

static inline void aw_api_world_open_as(struct aw_api_world *w, enum aw_guard_mode mode,
                                        bool journal, bool served)
{
    aw_api_world_open_on(w, mode, journal, served, 0);
}

static inline void aw_api_world_open_with(struct aw_api_world *w, enum aw_guard_mode mode,
                                          bool journal)
{
    aw_api_world_open_as(w, mode, journal, false);
}

static inline void aw_api_world_open(struct aw_api_world *w, enum aw_guard_mode mode)
{
    aw_api_world_open_with(w, mode, true);
}

static inline void aw_api_world_run(struct aw_api_world *w, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        struct aw_diag diag = {0};
        aw_api_testing_must(aw_job_step(w->job, NULL, NULL, &diag), &diag);
        aw_api_tick(&w->api, aw_job_counts(w->job), NULL);
    }
}

static inline void aw_api_world_close(struct aw_api_world *w)
{
    aw_desk_detach(w->desk, aw_job_now_us(w->job), "the test is over");
    aw_api_deinit(&w->api);
    aw_job_free(w->job);
    aw_desk_free(w->desk);
    aw_store_close(&w->store);
    for (uint32_t i = 0; i < AW_API_TESTING_WORKLOADS; i++)
        aw_load_deinit(&w->load[i]);
    aw_api_testing_remove(w->folder);
}

#endif
