/* run_options.c - what `aware run` was asked: options, files of autoscalers, or the demo. */
#include "cli/run.h"

#include "base/quantity.h"
#include "base/yaml.h"
#include "cluster/time_scale.h"
#include "daemon/doors.h"
#include "frame/findings.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define STATE_DEFAULT  "aware-state"
#define STORE_FILE     "trajectories.db"
#define REPORT_DEFAULT "report.html" /* of the demo */
#define STEPS_MAX      (UINT64_C(1) << 40)
#define LOCAL_S        600.0 /* real, of real processes, when --duration does not say */
#define SPEED_MIN      0.01
#define SPEED_MAX      1e9

static enum aw_err demo_read(struct aw_daemon_config *ask, struct aw_profile_report *report,
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
static enum aw_err keeping_read(const struct aw_args *args, struct aw_daemon_config *ask,
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
        snprintf(ask->socket, sizeof ask->socket, "%.*s/" AW_DAEMON_SOCKET,
                 (int)(sizeof ask->socket - sizeof AW_DAEMON_SOCKET - 1), ask->state);
    if (ask->audit && !*ask->state)
        return aw_fail(diag, AW_ERR_USAGE, "--audit: this run keeps no state; give --state DIR");
    if (ask->fresh && !*ask->state)
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
static enum aw_err door_read(const struct aw_args *args, struct aw_daemon_config *ask,
                             struct aw_diag *diag)
{
    const char *listen = aw_args_text(args, "listen"), *reports = aw_args_text(args, "reports");
    const char *probes = aw_args_text(args, "probes");
    if (!ask->daemon && (listen || reports || probes))
        return aw_fail(diag, AW_ERR_USAGE, "--%s goes with --daemon alone",
                       listen    ? "listen"
                       : reports ? "reports"
                                 : "probes");
    if (!listen && reports)
        return aw_fail(diag, AW_ERR_USAGE, "--reports goes with --listen alone");
    snprintf(ask->reports, sizeof ask->reports, "%s", reports ? reports : "");
    const enum aw_err err = aw_daemon_probes_read(probes, &ask->probes, diag);
    return err ? err
               : aw_daemon_door_read(listen, aw_args_text(args, "token-file"), &ask->door, diag);
}

/* Where spans of requests come in. */
static enum aw_err traces_read(const struct aw_args *args, struct aw_daemon_config *ask,
                               struct aw_diag *diag)
{
    ask->traces = (struct aw_daemon_traces){.http = aw_args_text(args, "traces"),
                                            .grpc = aw_args_text(args, "traces-grpc"),
                                            .token_file = aw_args_text(args, "traces-token-file"),
                                            .tls_cert = aw_args_text(args, "traces-tls-cert"),
                                            .tls_key = aw_args_text(args, "traces-tls-key"),
                                            .forward = aw_args_text(args, "traces-forward"),
                                            .forward_token_file =
                                                aw_args_text(args, "traces-forward-token-file")};
    static const char *const others[] = {"traces-token-file", "traces-tls-cert", "traces-tls-key",
                                         "traces-forward", "traces-forward-token-file"};
    if ((ask->traces.http || ask->traces.grpc) && !ask->daemon)
        return aw_fail(diag, AW_ERR_USAGE, "--traces%s goes with --daemon alone",
                       ask->traces.http ? "" : "-grpc");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (aw_args_text(args, others[i]) && !ask->traces.http && !ask->traces.grpc)
            return aw_fail(diag, AW_ERR_USAGE, "--%s goes with --traces alone", others[i]);
    if (ask->traces.forward_token_file && !ask->traces.forward)
        return aw_fail(diag, AW_ERR_USAGE,
                       "--traces-forward-token-file goes with --traces-forward alone");
    return AW_OK;
}

/* Where agents of other processes come in. */
static enum aw_err agents_read(const struct aw_args *args, struct aw_daemon_config *ask,
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
    struct aw_daemon_agents *door = &ask->agents;
    *door = (struct aw_daemon_agents){.asked = agents != NULL,
                                      .wait_s = 1e-6 * (double)wait_us,
                                      .token_file = aw_args_text(args, "agents-token-file"),
                                      .tls_cert = aw_args_text(args, "agents-tls-cert"),
                                      .tls_key = aw_args_text(args, "agents-tls-key")};
    if (agents)
        snprintf(door->address, sizeof door->address, "%s", agents);
    else if (*ask->state)
        snprintf(door->address, sizeof door->address, "unix:%.*s/" AW_DAEMON_AGENTS,
                 (int)(sizeof door->address - sizeof AW_DAEMON_AGENTS - sizeof "unix:"),
                 ask->state);
    return AW_OK;
}

/* Files, or the demo, and the workloads that they describe. */
static enum aw_err workloads_read(const struct aw_call *run, struct aw_daemon_config *ask,
                                  struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    const uint64_t seed = aw_args_number(args, "seed");
    bool color = run->color_err;
    struct aw_profile_report report = {.take = aw_finding_print, .ctx = &color};
    enum aw_err err = ask->demo ? demo_read(ask, &report, diag) : AW_OK;
    err = err ? err
              : aw_daemon_config_files(ask, args->repeat, args->repeat_count,
                                       aw_args_given(args, "seed") ? &seed : NULL, &report, diag);
    return err ? err
               : aw_daemon_config_workloads(ask, (uint32_t)aw_args_number(args, "threads"),
                                            run->log, diag);
}

/* What real processes ask otherwise: a file, a time that they can keep up with, no twin. */
static enum aw_err local_read(struct aw_daemon_config *ask, struct aw_diag *diag)
{
    if (ask->demo)
        return aw_fail(diag, AW_ERR_USAGE,
                       "--cluster local needs a file: aware run --cluster local -f "
                       "examples/local.yaml");
    if (!(ask->speed >= AW_TIME_SCALE_MIN && ask->speed <= AW_TIME_SCALE_MAX))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--speed",
                          "with --cluster local from %g to %g: real processes cannot be hurried",
                          AW_TIME_SCALE_MIN, AW_TIME_SCALE_MAX);
    ask->twin = false;
    return AW_OK;
}

enum aw_err aw__run_options_read(const struct aw_call *run, struct aw_daemon_config *ret,
                                 struct aw_diag *diag)
{
    const struct aw_args *args = run->args;
    struct aw_daemon_config *ask = ret;
    *ask = (struct aw_daemon_config){
        .demo = args->repeat_count == 0,
        .local = !strcmp(aw_args_text(args, "cluster"), "local"),
        .models = aw_args_text(args, "models"),
        .fresh = aw_args_given(args, "fresh"),
        .twin = !aw_args_given(args, "no-twin"),
        .daemon = aw_args_given(args, "daemon"),
        .audit = aw_args_given(args, "daemon") || aw_args_given(args, "audit"),
    };
    aw_profile_set_init(&ask->set, NULL);
    const char *speed = aw_args_text(args, "speed"), *duration = aw_args_text(args, "duration");
    const bool real_time = ask->daemon || ask->local;
    enum aw_err err = speed_read(speed ? speed : real_time ? "1" : "max", &ask->speed, diag);
    err = err || !ask->local ? err : local_read(ask, diag);
    err = err ? err : keeping_read(args, ask, diag);
    err = err ? err : door_read(args, ask, diag);
    err = err ? err : workloads_read(run, ask, diag);
    err = err ? err : traces_read(args, ask, diag);
    err = err ? err : agents_read(args, ask, diag);
    ask->steps_total = STEPS_MAX; /* a daemon's */
    if (!err && !duration && ask->local && !ask->daemon)
        ask->steps_total = (uint64_t)ceil(LOCAL_S * ask->speed / ask->step_s);
    else if (!err && (duration || !ask->daemon))
        err = duration_read(duration ? duration : AW__RUN_DURATION_TEXT, ask->step_s,
                            &ask->steps_total, diag);
    if (err)
        aw_daemon_config_deinit(ask);
    return err;
}
