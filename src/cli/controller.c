/*
 * controller.c - the verb `controller`: the controllers of a Kubernetes cluster, as roles of one
 * process.
 *
 * Every role has a thread and a client of its own, so that a request of one that takes long keeps
 * no other waiting; the Lease has one too, because leading ends when it is not renewed in time.
 * This thread waits for signals. SIGTERM ends the roles first and gives the Lease back last: nobody
 * else begins while we still write.
 */
#include "cli/controller.h"

#include "base/quantity.h"
#include "base/threads.h"
#include "controller/recommender.h"
#include "frame/stop.h"
#include "frame/verbs.h"
#include "kube/lease.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define STATE_DEFAULT "aware-state"
#define LEASE_DEFAULT "aware"
#define PIECE_US      100000   /* between two looks at the signals */
#define AGAIN_US      500000   /* before a role that failed is stepped again */
#define IDLE_US       1000000  /* between two looks of a role that waits to lead */
#define WAIT_MAX_US   10000000 /* a role looks up at least so often */
#define ASK_US        5000000  /* for one question about the server, at the start */
/* Requests a second of a role: a new leader writes thousands of statuses, and the server's own
 * fairness is between it and others. */
#define RATE       50.0
#define STEP_S_MIN 1.0
#define STEP_S_MAX 3600.0
/* Of --speed: beyond the second, dates of the controllers' time would have five digits of a year.
 */
#define SPEED_MIN 1.0
#define SPEED_MAX 100.0

static const struct aw__role *const roles[] = {&aw__role_recommender, &aw__role_updater,
                                               &aw__role_admission, NULL};
#define ROLES_MAX 4u

/* A role that runs. */
struct runner {
    struct aw__controller *controller;
    const struct aw__role *role;
    struct aw_kube *kube;
    pthread_t thread;
    bool made;
    _Atomic bool done;
    enum aw_err err; /* that ended it; AW_OK: it was told to */
    struct aw_diag diag;
};

/* The election. */
struct election {
    struct aw__controller *controller;
    struct aw_kube *kube;
    struct aw_kube_leader leader;
    pthread_t thread;
    bool made, ails;
    _Atomic bool stop;
};

static void signals_catch(void)
{
    aw_stop_catch(&(struct aw_stop_config){.twice = false});
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

bool aw__controller_leads(void *ctx)
{
    struct aw__controller *c = ctx;
    return !c->stopping && (!c->lease || aw_clock_monotonic_us(NULL) < c->leads_until_us);
}

/* --- roles ------------------------------------------------------------------------------------ */

/* One line when trouble begins or becomes another one, one when it is over. */
static void tell(struct runner *runner, struct aw_diag *told, enum aw_err err,
                 const struct aw_diag *diag)
{
    struct aw_log *log = &runner->controller->log;
    if (err && strcmp(told->text, diag->text) != 0) {
        aw_log_warn(log, "trouble", AW_LOG_STR("role", runner->role->name),
                    AW_LOG_STR("why", diag->text));
        *told = *diag;
    } else if (!err && told->text[0]) {
        aw_log_info(log, "over", AW_LOG_STR("role", runner->role->name),
                    AW_LOG_STR("what", told->text));
        *told = (struct aw_diag){0};
    }
}

static void *role_thread(void *ctx)
{
    struct runner *runner = ctx;
    struct aw__controller *c = runner->controller;
    const struct aw__role *role = runner->role;
    struct aw_diag told = {0};
    void *self = NULL;
    runner->err = role->open(c, runner->kube, &self, &runner->diag);
    if (runner->err)
        c->failed = true;
    while (!runner->err && !c->stopping) {
        struct aw_diag diag = {0};
        enum aw_err err = AW_OK;
        const int64_t now_us = aw_clock_monotonic_us(NULL);
        int64_t until_us = now_us + IDLE_US;
        if (!role->leads || aw__controller_leads(c)) {
            err = role->step(self, &diag);
            until_us = role->due(self);
            if (err == AW_ERR_INTERRUPTED)
                break;
            tell(runner, &told, err, &diag);
        }
        if (err && until_us < now_us + AGAIN_US)
            until_us = now_us + AGAIN_US;
        if (until_us > now_us + WAIT_MAX_US)
            until_us = now_us + WAIT_MAX_US;
        /* a change of who leads shows within the shorter of the two */
        if (c->lease && until_us > now_us + IDLE_US)
            until_us = now_us + IDLE_US;
        err = aw_kube_wait(runner->kube, until_us);
        if (err == AW_ERR_INTERRUPTED)
            break;
    }
    role->close(self);
    runner->done = true;
    return NULL;
}

static enum aw_err thread_begin(pthread_t *thread, void *(*main)(void *), void *ctx,
                                struct aw_diag *diag)
{
    const int failed = aw_thread_begin(thread, main, ctx);
    if (failed)
        return aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread to run on: %s", strerror(failed));
    return AW_OK;
}

static enum aw_err runner_begin(struct runner *runner, struct aw_diag *diag)
{
    const struct aw_kube_options options = {.seed = (uint64_t)aw_clock_now_us(NULL),
                                            .requests_per_second = RATE,
                                            .burst = 2 * (uint32_t)RATE};
    enum aw_err err = aw_kube_open(&runner->kube, &runner->controller->where, &options, NULL, diag);
    err = err ? err : thread_begin(&runner->thread, role_thread, runner, diag);
    runner->made = !err;
    return err;
}

static void runner_end(struct runner *runner)
{
    if (runner->kube)
        aw_kube_stop(runner->kube);
    if (runner->made)
        pthread_join(runner->thread, NULL);
    aw_kube_close(runner->kube);
}

/* --- who leads -------------------------------------------------------------------------------- */

static void *election_thread(void *ctx)
{
    struct election *e = ctx;
    struct aw__controller *c = e->controller;
    bool led = false;
    while (!e->stop) {
        struct aw_diag diag = {0};
        int64_t due_us = 0;
        enum aw_err err = aw_kube_leader_step(&e->leader, &due_us, &diag);
        c->leads_until_us = aw_kube_election_until_us(&e->leader.election);
        const bool now_leads = aw_kube_leader_leads(&e->leader);
        if (now_leads != led)
            aw_log_info(&c->log, now_leads ? "leading" : "no longer leading",
                        AW_LOG_STR("lease", c->lease), AW_LOG_STR("as", c->instance));
        led = now_leads;
        if (err && err != AW_ERR_INTERRUPTED && !e->ails)
            aw_log_warn(&c->log, "the Lease cannot be looked at", AW_LOG_STR("why", diag.text));
        else if (!err && e->ails)
            aw_log_info(&c->log, "over", AW_LOG_STR("what", "the Lease cannot be looked at"));
        e->ails = err != AW_OK;
        const int64_t most_us = aw_clock_monotonic_us(NULL) + IDLE_US;
        err = aw_kube_wait(e->kube, due_us < most_us ? due_us : most_us);
        (void)err; /* told to stop: the loop looks */
    }
    return NULL;
}

static enum aw_err election_begin(struct election *e, struct aw_diag *diag)
{
    struct aw__controller *c = e->controller;
    struct aw_kube_election_config config = {0};
    if (!c->lease)
        return AW_OK;
    snprintf(config.identity, sizeof config.identity, "%s", c->instance);
    const struct aw_kube_options options = {.seed = (uint64_t)aw_clock_now_us(NULL),
                                            .attempts_max = 1, /* it has a rhythm of its own */
                                            .timeout_us = AW_KUBE_RENEW_US / 2};
    enum aw_err err = aw_kube_open(&e->kube, &c->where, &options, NULL, diag);
    err = err ? err : aw_kube_leader_init(&e->leader, e->kube, c->own_ns, c->lease, &config, diag);
    err = err ? err : thread_begin(&e->thread, election_thread, e, diag);
    e->made = !err;
    return err;
}

/* After the roles: nobody of us writes any more. */
static void election_end(struct election *e)
{
    struct aw_diag diag = {0};
    e->stop = true;
    if (e->kube)
        aw_kube_stop(e->kube);
    if (e->made) {
        pthread_join(e->thread, NULL);
        const enum aw_err err = aw_kube_leader_release(&e->leader, &diag);
        if (err)
            aw_log_warn(&e->controller->log, "the Lease could not be given back",
                        AW_LOG_STR("why", diag.text));
    }
    aw_kube_close(e->kube);
}

/* --- what was asked --------------------------------------------------------------------------- */

static enum aw_err roles_read(const char *text, const struct aw__role **ret, uint32_t *ret_count,
                              struct aw_diag *diag)
{
    uint32_t count = 0;
    for (const char *at = text; *at;) {
        const size_t len = strcspn(at, ",");
        const struct aw__role *found = NULL;
        bool twice = false;
        for (uint32_t i = 0; roles[i]; i++)
            if (strlen(roles[i]->name) == len && !strncmp(roles[i]->name, at, len))
                found = roles[i];
        for (uint32_t i = 0; i < count; i++)
            twice = twice || ret[i] == found;
        if (!found || twice)
            return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--roles",
                              "%s %.*s; there are recommender, updater and admission",
                              twice ? "named twice:" : "no such role:", (int)len, at);
        ret[count++] = found;
        at += len + (at[len] == ',');
    }
    *ret_count = count;
    if (count == 0)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--roles", "expected at least one role");
    return AW_OK;
}

static void keeping_read(struct aw__controller *c)
{
    const struct aw_args *args = c->run->args;
    const char *state = aw_args_text(args, "state"), *store = aw_args_text(args, "store"),
               *socket = aw_args_text(args, "socket");
    if (strcmp(state, "none") != 0)
        snprintf(c->state, sizeof c->state, "%s", state);
    if (store)
        snprintf(c->store, sizeof c->store, "%s", store);
    else if (*c->state)
        snprintf(c->store, sizeof c->store, "%.*s/trajectories.db", (int)sizeof c->store - 32,
                 c->state);
    if (socket)
        snprintf(c->socket, sizeof c->socket, "%s", socket);
    else if (*c->state)
        snprintf(c->socket, sizeof c->socket, "%.*s/socket", (int)sizeof c->socket - 16, c->state);
}

/* In a pod the manifests say who we are (the downward API); elsewhere host and process do. */
static void identity_read(struct aw__controller *c)
{
    const char *pod = getenv("POD_NAME"), *ns = getenv("POD_NAMESPACE");
    char host[AW__CONTROLLER_INSTANCE_MAX - 32] = "";
    snprintf(c->own_ns, sizeof c->own_ns, "%s", ns && *ns ? ns : c->where.ns);
    if (!pod || !*pod)
        gethostname(host, sizeof host - 1);
    /* a container that was started again in the same pod is another one */
    snprintf(c->instance, sizeof c->instance, "%.*s_%ld-%" PRIx64, (int)sizeof host - 1,
             pod && *pod ? pod : host, (long)getpid(),
             (uint64_t)aw_clock_now_us(NULL) & 0xffffffff);
}

static enum aw_err step_read(struct aw__controller *c, struct aw_diag *diag)
{
    const char *text = aw_args_text(c->run->args, "step");
    int64_t us = 0;
    struct aw_diag why = {0};
    if (aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, &us, &why))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--step", "%s", why.text);
    c->step_s = 1e-6 * (double)us;
    if (!(c->step_s >= STEP_S_MIN && c->step_s <= STEP_S_MAX))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--step",
                          "expected %g s to %g s, found %s", STEP_S_MIN, STEP_S_MAX,
                          AW_QUOTE(text));
    return AW_OK;
}

static enum aw_err speed_read(struct aw__controller *c, struct aw_diag *diag)
{
    const char *text = aw_args_text(c->run->args, "speed");
    if (aw_text_parse_real(text, &c->speed) || !(c->speed >= SPEED_MIN && c->speed <= SPEED_MAX))
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--speed", "expected %g to %g, found %s",
                          SPEED_MIN, SPEED_MAX, AW_QUOTE(text));
    if (c->step_s / c->speed < STEP_S_MIN)
        return aw_fail_at(diag, AW_ERR_USAGE, NULL, 0, 0, "--speed",
                          "expected a step to take %g s of real time or more, found %g s",
                          STEP_S_MIN, c->step_s / c->speed);
    return AW_OK;
}

static enum aw_err ask_read(struct aw__controller *c, struct aw_diag *diag)
{
    const struct aw_args *args = c->run->args;
    struct aw_kube_config_from from = {.path = aw_args_text(args, "kubeconfig"),
                                       .context = aw_args_text(args, "context")};
    c->ns = aw_args_text(args, "namespace");
    c->thread_count = (uint32_t)aw_args_number(args, "threads");
    if (c->thread_count == 0)
        c->thread_count = aw_threads_cpu_count();
    keeping_read(c);
    enum aw_err err = step_read(c, diag);
    err = err ? err : speed_read(c, diag);
    err = err ? err
              : aw_daemon_door_read(aw_args_text(args, "listen"), aw_args_text(args, "token-file"),
                                    &c->door, diag);
    err = err ? err : aw_daemon_probes_read(aw_args_text(args, "probes"), &c->probes, diag);
    aw_kube_config_environment(&from);
    err = err ? err : aw_kube_config_load(&c->where, &from, NULL, diag);
    if (err)
        return err;
    identity_read(c);
    const char *lease = aw_args_text(args, "lease");
    c->lease = strcmp(lease, "none") != 0 ? lease : NULL;
    return AW_OK;
}

/* What the server is. One that does not answer yet is waited for: in a cluster that comes up we may
 * be the first. */
static enum aw_err server_meet(struct aw__controller *c, struct aw_diag *diag)
{
    const struct aw_kube_options options = {.attempts_max = 1, .timeout_us = ASK_US};
    struct aw_kube *kube = NULL;
    bool told = false;
    enum aw_err err = aw_kube_open(&kube, &c->where, &options, NULL, diag);
    while (!err && !aw_stop_signal) {
        struct aw_diag why = {0};
        err = aw_kube_discover(kube, &c->server, &why);
        if (!err)
            break;
        if (err != AW_ERR_UNAVAILABLE && err != AW_ERR_DEADLINE) {
            *diag = why;
            break;
        }
        if (!told)
            aw_log_warn(&c->log, "waiting for the API server", AW_LOG_STR("why", why.text));
        told = true;
        err = AW_OK;
        for (uint32_t i = 0; i < 20 && !aw_stop_signal; i++)
            (void)!aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + PIECE_US);
    }
    aw_kube_close(kube);
    return err;
}

/* --- the verb --------------------------------------------------------------------------------- */

static void watch_signals(struct aw__controller *c, const struct runner *runners, uint32_t count)
{
    while (!aw_stop_signal && !c->failed) {
        bool done = false;
        for (uint32_t i = 0; i < count; i++)
            done = done || runners[i].done;
        if (done)
            break;
        (void)!aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + PIECE_US);
    }
    if (aw_stop_signal) {
        sd_notify(0, "STOPPING=1");
        aw_log_info(&c->log, "stopping", AW_LOG_STR("signal", strsignal(aw_stop_signal)));
    }
}

static enum aw_err controller_run(const struct aw_call *run, struct aw_diag *diag)
{
    const struct aw__role *wanted[ROLES_MAX];
    struct runner runners[ROLES_MAX] = {0};
    uint32_t count = 0;
    struct aw__controller *c = aw_alloc_new(NULL, 1, sizeof *c);
    struct election *election = aw_alloc_new(NULL, 1, sizeof *election);
    enum aw_err err = AW_OK;
    if (!c || !election) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a controller");
        goto out;
    }
    aw_alloc_steady();
    c->run = run;
    c->log = *run->log;
    aw_daemon_log(&c->log, aw_args_given(run->args, "log-level"),
                  aw_args_given(run->args, "log-format"));
    election->controller = c;
    err = roles_read(aw_args_text(run->args, "roles"), wanted, &count, diag);
    err = err ? err : ask_read(c, diag);
    if (err)
        goto out;
    signals_catch();
    err = server_meet(c, diag);
    if (err || aw_stop_signal)
        goto out;
    aw_log_info(&c->log, "started", AW_LOG_STR("roles", aw_args_text(run->args, "roles")),
                AW_LOG_STR("server", c->server.release), AW_LOG_STR("as", c->instance),
                AW_LOG_STR("namespace", c->ns ? c->ns : "all"));
    err = election_begin(election, diag);
    for (uint32_t i = 0; !err && i < count; i++) {
        runners[i].controller = c;
        runners[i].role = wanted[i];
        err = runner_begin(&runners[i], diag);
    }
    if (!err)
        watch_signals(c, runners, count);
    c->stopping = true;
    for (uint32_t i = 0; i < count; i++) {
        runner_end(&runners[i]);
        if (runners[i].err && !err) {
            err = runners[i].err;
            *diag = runners[i].diag;
        }
    }
    election_end(election);
    if (!err)
        aw_log_info(&c->log, "stopped");
out:
    if (c)
        aw_kube_config_deinit(&c->where);
    aw_alloc_free(NULL, election);
    aw_alloc_free(NULL, c);
    return err;
}

static const char *const webhook_choices[] = {"auto", "always", NULL};
static const struct aw_option controller_options[] = {
    AW_OPTION(TEXT, "roles", 0, "LIST", "recommender",
              "what this process does, with commas between: recommender writes what it recommends "
              "into the status of objects; updater makes the cluster so; admission sizes new pods"),
    AW_OPTION(FILE, "kubeconfig", 0, "FILE", NULL,
              "the cluster and who to be (default: $KUBECONFIG, ~/.kube/config, or the pod's "
              "service account)"),
    AW_OPTION(TEXT, "context", 0, "NAME", NULL, "a context of the kubeconfig"),
    AW_OPTION(TEXT, "namespace", 'n', "NAME", NULL,
              "only objects of this namespace (default: all)"),
    AW_OPTION(TEXT, "prometheus", 0, "WHERE", NULL,
              "a URL, or NAMESPACE/SERVICE:PORT to go through the API server (default: CPU and "
              "memory alone, from metrics.k8s.io)"),
    AW_OPTION(FILE, "prometheus-token", 0, "FILE", NULL, "a bearer token for a URL"),
    AW_OPTION(FILE, "prometheus-ca", 0, "FILE", NULL,
              "certificates to trust for a URL (default: the system's)"),
    AW_OPTION(FILE, "questions", 0, "FILE", NULL,
              "what to ask the Prometheus instead of the defaults: a preset (istio, linkerd), "
              "queries, a selector"),
    AW_OPTION(TEXT, "lease", 0, "NAME", LEASE_DEFAULT,
              "the Lease, in our own namespace, by which one of several processes leads; none: "
              "there are no others"),
    AW_OPTION(TEXT, "recommender-name", 0, "NAME", "aware",
              "the name in spec.recommenders by which stock VerticalPodAutoscalers mean us"),
    AW_OPTION(TEXT, "step", 0, "TIME", "15s", "time between decisions, for all objects alike"),
    AW_OPTION(TEXT, "speed", 0, "X", "1",
              "for trials: what controllers take for time (steps, windows, pauses) runs so many "
              "times faster than the cluster does"),
    AW_OPTION(DIR, "state", 0, "DIR", STATE_DEFAULT,
              "where the audit log, explanations and what was learned are kept; none keeps "
              "nothing, and takes no orders"),
    AW_OPTION(FILE, "store", 0, "STORE", NULL,
              "trajectories: an SQLite file, memory, or influx+http://HOST:PORT/DATABASE (default: "
              "trajectories.db in --state, or none: nothing is learned)"),
    AW_OPTION(DIR, "models", 0, "DIR", NULL,
              "where the shipped model is looked for first (default: AWARE_MODELS, then beside "
              "this program)"),
    AW_OPTION(FILE, "socket", 0, "PATH", NULL,
              "where it listens for 'aware get' and its like, for its owner alone (default: socket "
              "in --state)"),
    AW_OPTION(TEXT, "listen", 0, "ADDRESS", NULL,
              "a page to watch, metrics to scrape and the API at 127.0.0.1:PORT, to look at alone "
              "(default: none)"),
    AW_OPTION(FILE, "token-file", 0, "FILE", NULL,
              "with --listen: anyone who sends the token in this file may give orders too; needed "
              "beyond loopback"),
    AW_OPTION(TEXT, "probes", 0, "ADDRESS", NULL,
              "/healthz and /readyz, and nothing else, for anyone who asks, such as a kubelet at "
              "0.0.0.0:PORT (default: none)"),
    AW_OPTION_THREADS("1", "threads that learn; 0: one per processor"),
    AW_OPTION(
        CHOICE, "webhook", 0, "WHEN", "auto",
        "when the admission role serves: auto from the first object on whose mode sizes new pods "
        "(any but Off) and that has a size for them, always also before",
        .choices = webhook_choices),
    AW_OPTION(TEXT, "webhook-name", 0, "NAME", "aware",
              "of the Service it is reached by, in our own namespace, and of its "
              "MutatingWebhookConfiguration, whose caBundle it keeps"),
    AW_NUMBER("webhook-port", 0, "PORT", "9443", 0, 65535,
              "where the admission role listens; 0: any that is free"),
    {.name = NULL},
};
static const struct aw_example controller_examples[] = {
    {"aware controller", "recommend for all objects of the current context's cluster"},
    {"aware controller --prometheus monitoring/prometheus:9090 -n shop",
     "one namespace, with requests and latencies"},
    {"aware controller --roles recommender,updater --state /var/lib/aware", "and act on it"},
    {NULL, NULL},
};
const struct aw_verb aw_verb_controller = {
    .name = "controller",
    .summary = "Autoscale the workloads of a Kubernetes cluster, as its objects say",
    .text =
        "Follows the MultidimPodAutoscalers of a cluster and does what its roles are. The "
        "recommender decides for each object as 'aware run' does for a file, and writes what it "
        "recommends into the object's status, with conditions that say what holds and events that "
        "say what happened. It writes nothing else: an object whose updateMode is Off, which is "
        "the default, is never acted on. 'kubectl get mpa' shows it; 'aware get', 'explain', "
        "'freeze', 'undo' and their like ask this process over its socket.\n\n"
        "Stock VerticalPodAutoscalers whose spec.recommenders names us get their recommendations "
        "from the recommender too, where the server has that kind; the stock updater and webhook "
        "act on them.\n\n"
        "Several processes may run: one of them leads, by a Lease, and the others follow until it "
        "ends. A restart decides nothing: what was recommended stays until the workload has been "
        "seen again.\n\n"
        "It runs until it is told to end (SIGTERM, SIGINT: saved, the Lease given back, status 0). "
        "Log lines go to stderr.",
    .options = controller_options,
    .examples = controller_examples,
    .run = controller_run,
};
