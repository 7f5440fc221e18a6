/* run_ask.c - what `aware run` was asked: options, files of autoscalers, or the demo. */
#include "cli/run.h"

#include "base/quantity.h"
#include "base/threads.h"
#include "base/yaml.h"
#include "cli/daemon.h"
#include "frame/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define STATE_DEFAULT  "aware-state"
#define STORE_FILE     "trajectories.db"
#define REPORT_DEFAULT "report.html" /* of the demo */
#define STEPS_MAX      (UINT64_C(1) << 40)
#define SPEED_MIN      0.01
#define SPEED_MAX      1e9

static void finding_take(void *ctx, const struct aw_profile_finding *finding)
{
    const struct aw_call *run = ctx;
    const bool color = run->color_err;
    char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
    aw_diag_format(&finding->diag, finding->err ? finding->err : AW_ERR_CONFIG, line, sizeof line);
    if (finding->err)
        fprintf(stderr, "%s%s%s\n", color ? "\033[31m" : "", line, color ? "\033[0m" : "");
    else
        fprintf(stderr, "%swarning: %s [%s]%s\n", color ? "\033[33m" : "", line, finding->warning,
                color ? "\033[0m" : "");
}

static enum aw_err demo_read(struct aw_runask *ask, struct aw_profile_report *report,
                             struct aw_diag *diag)
{
    struct aw_tree tree = {0};
    char *yaml = aw__run_demo_yaml();
    if (!yaml)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the demo");
    enum aw_err err = aw_yaml_parse(&tree, "the built-in demo", yaml, strlen(yaml), NULL, diag);
    if (!err)
        err = aw_profile_set_add(&ask->set, &tree, report, NULL, diag);
    aw_tree_deinit(&tree);
    free(yaml);
    return err;
}

static enum aw_err files_read(const struct aw_call *run, struct aw_runask *ask,
                              struct aw_diag *diag)
{
    struct aw_call reader = *run; /* the report's context is not const */
    struct aw_profile_report report = {.take = finding_take, .ctx = &reader};
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < run->args->repeat_count; i++)
        err = aw_profile_set_read(&ask->set, run->args->repeat[i], &report, NULL, NULL, diag);
    if (ask->demo)
        err = demo_read(ask, &report, diag);
    if (!err)
        err = aw_profile_set_check(&ask->set, &report, diag);
    if (!err && ask->set.profile_count == 0)
        err = aw_fail(diag, AW_ERR_CONFIG,
                      "no MultidimPodAutoscaler in what was given: there is nothing to run; 'aware "
                      "explain-schema' shows what can be written");
    return err;
}

/* --- options ---------------------------------------------------------------------------------- */

static enum aw_err speed_read(const char *text, double *ret, struct aw_diag *diag)
{
    double speed;
    if (!strcmp(text, "max")) {
        *ret = INFINITY;
        return AW_OK;
    }
    char digits[64];
    const size_t len = strlen(text);
    snprintf(digits, sizeof digits, "%.*s", (int)(len && text[len - 1] == 'x' ? len - 1 : len),
             text); /* 100x as well */
    if (aw_text_parse_real(digits, &speed) || speed < SPEED_MIN || speed > SPEED_MAX)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--speed",
                          "expected max, or simulated over real time from %g to %g, found %s",
                          SPEED_MIN, SPEED_MAX, AW_QUOTE(text));
    *ret = speed;
    return AW_OK;
}

static enum aw_err duration_read(const char *text, double step_s, uint64_t *ret_steps,
                                 struct aw_diag *diag)
{
    int64_t us;
    struct aw_diag why;
    if (aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, &us, &why))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--duration", "%s", why.text);
    const double steps = ceil(1e-6 * (double)us / step_s);
    if (steps < 1 || steps > (double)STEPS_MAX)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--duration",
                          "expected at least one step of %g s, found %s", step_s, AW_QUOTE(text));
    *ret_steps = (uint64_t)steps;
    return AW_OK;
}

/* Where the run is kept. In memory nothing outlives the run, so nothing can be resumed. */
static enum aw_err keeping_read(const struct aw_args *args, struct aw_runask *ask,
                                struct aw_diag *diag)
{
    const char *state = aw_args_text(args, "state"), *store = aw_args_text(args, "store");
    const bool in_memory = store && !strcmp(store, "memory");
    if (state && strcmp(state, "none") != 0 && in_memory)
        return aw_fail(diag, AW_ERR_USAGE,
                       "--store memory forgets what a run with --state would resume from; leave "
                       "one of them out");
    if (ask->daemon && ((state && !strcmp(state, "none")) || in_memory))
        return aw_fail(diag, AW_ERR_USAGE,
                       "--daemon: a daemon keeps its state, so that it can be ended at any time; "
                       "give --state DIR, and no --store memory");
    if (!state)
        state = (ask->demo && !ask->daemon) || in_memory ? "none" : STATE_DEFAULT;
    if (strcmp(state, "none") != 0)
        snprintf(ask->state, sizeof ask->state, "%s", state);
    if (store)
        snprintf(ask->store, sizeof ask->store, "%s", store);
    else if (*ask->state)
        snprintf(ask->store, sizeof ask->store, "%.*s/" STORE_FILE,
                 (int)(sizeof ask->store - sizeof STORE_FILE - 1), ask->state);
    else
        snprintf(ask->store, sizeof ask->store, "memory");
    const char *socket = aw_args_text(args, "socket");
    if (socket && !ask->daemon)
        return aw_fail(diag, AW_ERR_USAGE, "--socket goes with --daemon alone");
    if (socket)
        snprintf(ask->socket, sizeof ask->socket, "%s", socket);
    else
        snprintf(ask->socket, sizeof ask->socket, "%.*s/" AW__RUN_SOCKET,
                 (int)(sizeof ask->socket - sizeof AW__RUN_SOCKET - 1), ask->state);
    if (ask->audit && !*ask->state)
        return aw_fail(diag, AW_ERR_USAGE, "--audit: this run keeps no state; give --state DIR");
    if (aw_args_given(args, "fresh") && !*ask->state)
        return aw_fail(diag, AW_ERR_USAGE, "--fresh: this run keeps no state; it is always fresh");
    const char *report = aw_args_text(args, "report");
    if (report && ask->daemon)
        return aw_fail(diag, AW_ERR_USAGE, "--report goes without --daemon");
    if (!report)
        report = ask->demo && !ask->daemon ? REPORT_DEFAULT : "";
    if (strcmp(report, "none") != 0)
        snprintf(ask->report, sizeof ask->report, "%s", report);
    return AW_OK;
}

/* Where a daemon's page and metrics are, and who may do more than look. */
static enum aw_err door_read(const struct aw_args *args, struct aw_runask *ask,
                             struct aw_diag *diag)
{
    const char *listen = aw_args_text(args, "listen"), *reports = aw_args_text(args, "reports");
    if (!ask->daemon && (listen || reports))
        return aw_fail(diag, AW_ERR_USAGE, "--%s goes with --daemon alone",
                       listen ? "listen" : "reports");
    if (!listen && reports)
        return aw_fail(diag, AW_ERR_USAGE, "--reports goes with --listen alone");
    snprintf(ask->reports, sizeof ask->reports, "%s", reports ? reports : "");
    return aw__daemon_door_read(args, &ask->door, diag);
}

/* Where agents of other processes come in. */
static enum aw_err agents_read(const struct aw_args *args, struct aw_runask *ask,
                               struct aw_diag *diag)
{
    static const char *const others[] = {"agents-token-file", "agents-tls-cert", "agents-tls-key"};
    const char *agents = aw_args_text(args, "agents"), *wait = aw_args_text(args, "agents-wait");
    int64_t wait_us = 0;
    struct aw_diag why;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (aw_args_given(args, others[i]) && !agents)
            return aw_fail(diag, AW_ERR_USAGE, "--%s goes with --agents alone", others[i]);
    if (wait && aw_duration_parse(wait, AW_QUANTITY_POSITIVE_OR_0, &wait_us, &why))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--agents-wait", "%s", why.text);
    ask->agents_wait_s = 1e-6 * (double)wait_us;
    if (agents) {
        snprintf(ask->agents, sizeof ask->agents, "%s", agents);
        return AW_OK;
    }
    if (*ask->state)
        snprintf(ask->agents, sizeof ask->agents, "unix:%.*s/" AW__RUN_AGENTS,
                 (int)(sizeof ask->agents - sizeof AW__RUN_AGENTS - sizeof "unix:"), ask->state);
    return AW_OK;
}

/* The shared models that learning begins at. A run goes on without one that cannot be used: its
 * workloads learn by themselves, and whoever asked for it is told once for each. */
static enum aw_err models_take(const struct aw_call *run, struct aw_runask *ask,
                               struct aw_diag *diag)
{
    const char *told[AW_SHELF_MODELS_MAX];
    uint32_t told_count = 0;
    for (uint32_t i = 0; i < ask->count; i++) {
        struct aw_pilot_config *pilot = &ask->workload[i].pilot;
        const char *what = ask->set.profiles[i].model;
        struct aw_diag why = {0};
        if (!aw_pilot_wants_model(pilot))
            continue;
        if (!ask->shelf) {
            const enum aw_err err =
                aw_models_open(aw_args_text(run->args, "models"), &ask->shelf, diag);
            if (err)
                return err;
        }
        enum aw_err err = aw_shelf_get(ask->shelf, what, &pilot->model, &why);
        if (!err && pilot->model)
            err = aw_pilot_model_fits(pilot, pilot->model, &why);
        bool new = err != AW_OK &&told_count < AW_SHELF_MODELS_MAX;
        for (uint32_t k = 0; k < told_count; k++)
            new = new &&strcmp(told[k], what) != 0;
        if (err)
            pilot->model = NULL;
        if (!new)
            continue;
        told[told_count++] = what;
        char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
        aw_diag_format(&why, err, line, sizeof line);
        if (err == AW_ERR_NOTFOUND && !strcmp(what, AW_SHELF_SHIPPED))
            aw_log_info(run->log, "no shipped model: workloads learn from nothing",
                        AW_LOG_STR("why", line));
        else
            aw_log_warn(run->log, "a model cannot be used: workloads learn from nothing",
                        AW_LOG_STR("workload", pilot->name), AW_LOG_STR("why", line));
    }
    return AW_OK;
}

static const char *fallback_of(const struct aw_runask *ask)
{
    const uint32_t kind = ask->workload[0].pilot.fallback.kind;
    for (uint32_t i = 1; i < ask->count; i++) {
        if (ask->workload[i].pilot.fallback.kind != kind)
            return "the fallback";
    }
    return aw_policy_names[kind];
}

enum aw_err aw_runask_files(const struct aw_call *run, struct aw_runask *ask, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    enum aw_err err = files_read(run, ask, diag);
    if (err)
        return err;
    ask->seed = ask->set.cluster.seed;
    if (aw_args_given(args, "seed")) {
        ask->seed = aw_args_number(args, "seed");
        for (uint32_t i = 0; i < ask->set.profile_count; i++)
            ask->set.profiles[i].seed = ask->seed;
    }
    return AW_OK;
}

enum aw_err aw_runask_workloads(const struct aw_call *run, struct aw_runask *ask,
                                struct aw_diag *diag)
{
    const uint32_t count = ask->set.profile_count;
    ask->workload = aw_alloc_new(NULL, count, sizeof *ask->workload);
    ask->load = aw_alloc_new(NULL, count, sizeof *ask->load);
    if (!ask->workload || !ask->load)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %" PRIu32 " workloads", count);
    enum aw_err err = aw_job_workloads_of(&ask->set, NULL, ask->workload, ask->load, diag);
    if (err)
        return err;
    ask->count = count;
    if ((err = models_take(run, ask, diag)))
        return err;
    ask->step_s = ask->workload[0].pilot.step_s;
    ask->fallback = fallback_of(ask);
    ask->thread_count = (uint32_t)aw_args_number(run->args, "threads");
    if (ask->thread_count == 0)
        ask->thread_count = aw_threads_cpu_count();
    return AW_OK;
}

enum aw_err aw__runask_read(const struct aw_call *run, struct aw_runask *ret, struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    struct aw_runask *ask = ret;
    *ask =
        (struct aw_runask){.demo = args->repeat_count == 0,
                           .cluster = aw_args_text(args, "cluster"),
                           .twin = !aw_args_given(args, "no-twin"),
                           .daemon = aw_args_given(args, "daemon"),
                           .audit = aw_args_given(args, "daemon") || aw_args_given(args, "audit")};
    aw_profile_set_init(&ask->set, NULL);
    const char *speed = aw_args_text(args, "speed"), *duration = aw_args_text(args, "duration");
    enum aw_err err = speed_read(speed ? speed : ask->daemon ? "1" : "max", &ask->speed, diag);
    err = err ? err : keeping_read(args, ask, diag);
    err = err ? err : door_read(args, ask, diag);
    err = err ? err : aw_runask_files(run, ask, diag);
    err = err ? err : aw_runask_workloads(run, ask, diag);
    err = err ? err : agents_read(args, ask, diag);
    ask->steps_total = STEPS_MAX; /* a daemon's */
    if (!err && (duration || !ask->daemon))
        err = duration_read(duration ? duration : AW__RUN_DURATION_TEXT, ask->step_s,
                            &ask->steps_total, diag);
    if (err)
        aw_runask_deinit(ask);
    return err;
}

void aw_runask_deinit(struct aw_runask *ask)
{
    for (uint32_t i = 0; i < ask->count; i++)
        aw_load_deinit(&ask->load[i]);
    aw_alloc_free(NULL, ask->load);
    aw_alloc_free(NULL, ask->workload);
    aw_profile_set_deinit(&ask->set);
    aw_shelf_free(ask->shelf);
    *ask = (struct aw_runask){0};
}
