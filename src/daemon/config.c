/* config.c - workloads of a run, from the files that describe them. */
#include "daemon/config.h"

#include "base/threads.h"
#include "base/units.h"
#include "policy/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum aw_err aw_daemon_config_files(struct aw_daemon_config *config, const char *const *files,
                                   uint32_t count, const uint64_t *seed,
                                   struct aw_profile_report *report, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < count; i++)
        err = aw_profile_set_read(&config->set, files[i], report, NULL, NULL, diag);
    err = err ? err : aw_profile_set_check(&config->set, report, diag);
    if (!err && config->set.profile_count == 0)
        err = aw_fail(diag, AW_ERR_CONFIG,
                      "no MultidimPodAutoscaler in what was given: there is nothing to run; 'aware "
                      "explain-schema' shows what can be written");
    if (err)
        return err;
    config->seed = seed ? *seed : config->set.cluster.seed;
    for (uint32_t i = 0; seed && i < config->set.profile_count; i++)
        config->set.profiles[i].seed = *seed;
    return AW_OK;
}

/* The shared models that learning begins at. A run goes on without one that cannot be used: its
 * workloads learn by themselves, and whoever asked for it is told once for each. */
static enum aw_err models_take(struct aw_daemon_config *config, struct aw_log *log,
                               struct aw_diag *diag)
{
    const char *told[AW_MODEL_SHELF_MODELS_MAX];
    uint32_t told_count = 0;
    for (uint32_t i = 0; i < config->count; i++) {
        struct aw_pilot_config *pilot = &config->workload[i].pilot;
        const char *what = config->set.profiles[i].model;
        struct aw_diag why = {0};
        if (!aw_pilot_wants_model(pilot))
            continue;
        if (!config->shelf) {
            const enum aw_err err = aw_models_open(config->models, &config->shelf, diag);
            if (err)
                return err;
        }
        const enum aw_err err = aw_pilot_model_take(pilot, config->shelf, what, &why);
        bool first = err != AW_OK && told_count < AW_MODEL_SHELF_MODELS_MAX;
        for (uint32_t k = 0; k < told_count; k++)
            first = first && strcmp(told[k], what) != 0;
        if (!first)
            continue;
        told[told_count++] = what;
        char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
        aw_diag_format(&why, err, line, sizeof line);
        if (err == AW_ERR_NOTFOUND && !strcmp(what, AW_MODEL_SHELF_SHIPPED))
            aw_log_info(log, "no shipped model: workloads learn from nothing",
                        AW_LOG_STR("why", line));
        else
            aw_log_warn(log, "a model cannot be used: workloads learn from nothing",
                        AW_LOG_STR("workload", pilot->name), AW_LOG_STR("why", line));
    }
    return AW_OK;
}

static const char *fallback_of(const struct aw_daemon_config *config)
{
    const uint32_t kind = config->workload[0].pilot.fallback.kind;
    for (uint32_t i = 1; i < config->count; i++)
        if (config->workload[i].pilot.fallback.kind != kind)
            return "the fallback";
    return aw_fallback_names[kind];
}

/* What is known of the machine as a node. */
static void machine_take(struct aw_daemon_config *config)
{
    const struct aw_local_settings *settings = &config->set.cluster.local;
    const double cores = settings->cores > 0 ? settings->cores : aw_threads_cpu_count();
    for (uint32_t i = 0; config->local && i < config->count; i++) {
        struct aw_pilot_config *pilot = &config->workload[i].pilot;
        pilot->in_place = true;
        pilot->node.cpu_millicores = (int64_t)llround(1e3 * cores);
        pilot->node.memory_bytes = (int64_t)(settings->memory_gib * AW_GIB_REAL); /* 0: unknown */
    }
}

enum aw_err aw_daemon_config_workloads(struct aw_daemon_config *config, uint32_t threads,
                                       struct aw_log *log, struct aw_diag *diag)
{
    const uint32_t count = config->set.profile_count;
    config->workload = aw_alloc_new(NULL, count, sizeof *config->workload);
    config->load = aw_alloc_new(NULL, count, sizeof *config->load);
    if (!config->workload || !config->load)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " workloads", count);
    enum aw_err err = AW_OK;
    if (!config->local && count > 0 && !config->set.app_count) {
        if ((err = aw_profile_set_stand_in(&config->set, diag)))
            return err;
        aw_log_warn(log, "no SimulatedApplication in the files: generated ones stand in",
                    AW_LOG_STR("load", config->set.apps[0].load),
                    AW_LOG_STR("application", config->set.apps[0].pool));
    }
    err = aw_job_workloads_of(&config->set, NULL, config->workload, config->load, diag);
    if (err)
        return err;
    config->count = count;
    machine_take(config);
    if ((err = models_take(config, log, diag)))
        return err;
    config->step_s = config->workload[0].pilot.step_s;
    config->fallback = fallback_of(config);
    config->thread_count = threads ? threads : aw_threads_cpu_count();
    return AW_OK;
}

void aw_daemon_config_deinit(struct aw_daemon_config *config)
{
    for (uint32_t i = 0; i < config->count; i++)
        aw_load_deinit(&config->load[i]);
    aw_alloc_free(NULL, config->load);
    aw_alloc_free(NULL, config->workload);
    aw_profile_set_deinit(&config->set);
    aw_model_shelf_free(config->shelf);
    *config = (struct aw_daemon_config){0};
}

bool aw_daemon_config_keeps(const struct aw_daemon_config *config)
{
    return config->local || config->set.cluster.sim.model == AW_SIM_FAST;
}

const char *aw_run_name(const char *name)
{
    static const char ours[] = "default/";
    return strncmp(name, ours, strlen(ours)) != 0 ? name : name + strlen(ours);
}

const char *aw_run_clock(int64_t us, char *buf, size_t size)
{
    const int64_t minutes = us / 60000000;
    if (minutes < 24 * 60)
        snprintf(buf, size, "%" PRId64 ":%02" PRId64, minutes / 60, minutes % 60);
    else
        snprintf(buf, size, "%" PRId64 "d %02" PRId64 ":%02" PRId64, minutes / 1440,
                 minutes / 60 % 24, minutes % 60);
    return buf;
}
