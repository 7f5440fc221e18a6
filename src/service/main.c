/* main.c - aware-workload: an application, or the object server, as a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/net.h"
#include "base/quantity.h"
#include "base/text.h"
#include "service/member.h"
#include "service/objects.h"
#include "service/pages.h"
#include "service/service.h"
#include "service/stress.h"
#include "workload/apps.h"

#define BACKLOG         4096
#define CONNECTIONS     4096u
#define QUEUE           10000u
#define QUEUE_MAX       1000000u
#define MEASURE_US      30000
#define DRAIN_US        30000000 /* as long as Kubernetes waits after SIGTERM */
#define OBJECT_CONNECTS 1024u
#define MEMBER_THREADS  64u      /* visits at once: those that wait for others are many */
#define CALL_TIMEOUT_US 10000000 /* of a call from one service of a graph to another */
#define FILES_SPARE     1600u    /* beside the connections: objects, workers' sockets, files */

static const char usage[] =
    "usage: aware-workload [OPTION]... --app APP\n"
    "       aware-workload [OPTION]... --graph FILE --service NAME --peers FILE\n"
    "       aware-workload object-server [--listen ADDR:PORT]\n"
    "       aware-workload stress --kind KIND --amount X --for DURATION [--at A:P]\n"
    "\n"
    "Serves an application over HTTP and really does its work: GET or POST / is one\n"
    "request through all its segments; /healthz, /readyz and /metrics are as usual.\n"
    "SIGTERM drains and ends it.\n"
    "\n"
    "  --app APP              SEED:INDEX as in 'aware apps describe', FILE or\n"
    "                         FILE:NAME of applications, or kind:KIND[,KIND]...\n"
    "  --listen ADDR:PORT     where to listen (127.0.0.1:8080); port 0 takes a free\n"
    "                         one and says which; fd:N is one that listens already\n"
    "  --socket PATH          and on a Unix socket there, removed at the end; without\n"
    "                         this, on $AWARE_SOCKET where that can be had; '': none\n"
    "  --threads N            requests worked on at once (as described; 64: no limit)\n"
    "  --queue N              requests that may wait for that (10000)\n"
    "  --connections N        connections at once (4096)\n"
    "  --payload X            multiplies the payload of every segment (1)\n"
    "  --families F[,F]...    of these alone: file, table, float, image, text, model\n"
    "  --work-scale X         multiplies the CPU time of every request (1)\n"
    "  --waits HOW            described, or real: as this machine takes (described)\n"
    "  --costs FILE           measured costs: read from here, or kept here\n"
    "  --measure DURATION     CPU time to measure each segment with (30ms)\n"
    "  --start DURATION       from start to ready (as described)\n"
    "  --no-memory            hold no memory for the runtime that is described\n"
    "  --answer BYTES         size of an answer (as described)\n"
    "  --temp DIR             for files without a name ($TMPDIR, /tmp)\n"
    "  --object-server A:P    where objects are (one of its own, if there is need)\n"
    "  --seed N               of everything drawn (1)\n"
    "  --linger DURATION      go on serving after SIGTERM, not ready (0s)\n"
    "  --drain DURATION       then wait for what is in flight (30s)\n"
    "\n"
    "One service of a graph (kind ServiceGraph), which calls the others:\n"
    "  --graph FILE           the graph, or the name of a built-in one\n"
    "  --service NAME         which of its services this is\n"
    "  --peers FILE           lines of 'SERVICE PORT': where the others are on\n"
    "                         127.0.0.1\n"
    "  --traces ADDR:PORT     a receiver of OTLP over HTTP (none)\n"
    "\n"
    "A stressor, which ends by itself when its time is over:\n"
    "  --kind KIND            cpu (cores), disk, network, memory (bytes/s), llc\n"
    "                         (bytes) or visits (requests/s)\n"
    "  --amount X             so much of it\n"
    "  --for DURATION         at most an hour\n"
    "  --at ADDR:PORT         network, visits: the server that is asked, on loopback\n"
    "  --path PATH            visits: what is asked for (/?alone=1)\n"
    "\n"
    "  --help\n";

enum code {
    OPT_APP = 1,
    OPT_LISTEN,
    OPT_SOCKET,
    OPT_THREADS,
    OPT_QUEUE,
    OPT_CONNECTIONS,
    OPT_PAYLOAD,
    OPT_FAMILIES,
    OPT_SCALE,
    OPT_WAITS,
    OPT_COSTS,
    OPT_MEASURE,
    OPT_START,
    OPT_NO_MEMORY,
    OPT_ANSWER,
    OPT_TEMP,
    OPT_OBJECTS,
    OPT_SEED,
    OPT_LINGER,
    OPT_DRAIN,
    OPT_GRAPH,
    OPT_SERVICE,
    OPT_PEERS,
    OPT_TRACES,
    OPT_KIND,
    OPT_AMOUNT,
    OPT_FOR,
    OPT_AT,
    OPT_PATH,
    OPT_HELP,
};

static const struct option options[] = {
    {"app", required_argument, NULL, OPT_APP},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"socket", required_argument, NULL, OPT_SOCKET},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"queue", required_argument, NULL, OPT_QUEUE},
    {"connections", required_argument, NULL, OPT_CONNECTIONS},
    {"payload", required_argument, NULL, OPT_PAYLOAD},
    {"families", required_argument, NULL, OPT_FAMILIES},
    {"work-scale", required_argument, NULL, OPT_SCALE},
    {"waits", required_argument, NULL, OPT_WAITS},
    {"costs", required_argument, NULL, OPT_COSTS},
    {"measure", required_argument, NULL, OPT_MEASURE},
    {"start", required_argument, NULL, OPT_START},
    {"no-memory", no_argument, NULL, OPT_NO_MEMORY},
    {"answer", required_argument, NULL, OPT_ANSWER},
    {"temp", required_argument, NULL, OPT_TEMP},
    {"object-server", required_argument, NULL, OPT_OBJECTS},
    {"seed", required_argument, NULL, OPT_SEED},
    {"linger", required_argument, NULL, OPT_LINGER},
    {"drain", required_argument, NULL, OPT_DRAIN},
    {"graph", required_argument, NULL, OPT_GRAPH},
    {"service", required_argument, NULL, OPT_SERVICE},
    {"peers", required_argument, NULL, OPT_PEERS},
    {"traces", required_argument, NULL, OPT_TRACES},
    {"kind", required_argument, NULL, OPT_KIND},
    {"amount", required_argument, NULL, OPT_AMOUNT},
    {"for", required_argument, NULL, OPT_FOR},
    {"at", required_argument, NULL, OPT_AT},
    {"path", required_argument, NULL, OPT_PATH},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

struct asked {
    struct aw_service_config service;
    const char *app, *listen;
    const char *socket; /* NULL: none was asked for */
    const char *graph, *service_name, *peers;
    struct sockaddr_in traces;
    struct aw_stress_config stress;
    const char *stress_kind;
    bool help, object_server, stresses;
};

/* ---- options ---- */

static enum aw_err number(const char *text, uint64_t low, uint64_t high, uint64_t *ret,
                          struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    uint64_t value;
    if (aw_text_parse_u64(text, &value) || value < low || value > high)
        return aw_fail(diag, AW_ERR_USAGE, "expected a whole number from %llu to %llu, found %s",
                       (unsigned long long)low, (unsigned long long)high,
                       aw_text_quote(text, strlen(text), quoted, sizeof quoted));
    *ret = value;
    return AW_OK;
}

static enum aw_err real(const char *text, double low, double high, double *ret,
                        struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    double value;
    if (aw_text_parse_real(text, &value) || !(value >= low) || !(value <= high))
        return aw_fail(diag, AW_ERR_USAGE, "expected a number from %g to %g, found %s", low, high,
                       aw_text_quote(text, strlen(text), quoted, sizeof quoted));
    *ret = value;
    return AW_OK;
}

static enum aw_err count(const char *text, uint32_t high, uint32_t *ret, struct aw_diag *diag)
{
    uint64_t value = 0;
    enum aw_err err = number(text, 1, high, &value, diag);
    if (!err)
        *ret = (uint32_t)value;
    return err;
}

static enum aw_err duration(const char *text, int64_t *ret, struct aw_diag *diag)
{
    return aw_duration_parse(text, AW_QUANTITY_POSITIVE_OR_0, ret, diag);
}

static enum aw_err waits(const char *text, enum aw_runner_waits *ret, struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    if (strcmp(text, "described") != 0 && strcmp(text, "real") != 0)
        return aw_fail(diag, AW_ERR_USAGE, "expected described or real, found %s",
                       aw_text_quote(text, strlen(text), quoted, sizeof quoted));
    *ret = strcmp(text, "real") != 0 ? AW_RUNNER_WAITS_DESCRIBED : AW_RUNNER_WAITS_REAL;
    return AW_OK;
}

/* "image,file" as bits of 1 << enum aw_payload_family. */
static enum aw_err families(const char *list, uint32_t *ret, struct aw_diag *diag)
{
    char quoted[AW_TEXT_QUOTE_MAX];
    uint32_t bits = 0;
    for (const char *at = list;; at++) {
        const size_t len = strcspn(at, ",");
        uint32_t i = AW_PAYLOAD_NONE + 1;
        while (aw_payload_family_names[i] && (strlen(aw_payload_family_names[i]) != len ||
                                              memcmp(aw_payload_family_names[i], at, len) != 0))
            i++;
        if (!aw_payload_family_names[i])
            return aw_fail(diag, AW_ERR_USAGE, "expected a family of payloads, found %s",
                           aw_text_quote(at, len, quoted, sizeof quoted));
        bits |= 1u << i;
        at += len;
        if (!*at)
            break;
    }
    *ret = bits;
    return AW_OK;
}

/* Spans and stress stay on this machine. */
static enum aw_err loopback(const char *text, struct sockaddr_in *ret, struct aw_diag *diag)
{
    struct sockaddr_in address;
    const enum aw_err err = aw_net_parse(text, &address, diag);
    if (!err && !aw_net_is_loopback(&address))
        return aw_fail(diag, AW_ERR_USAGE, "expected an address of this machine's loopback");
    if (!err)
        *ret = address;
    return err;
}

static enum aw_err option_read(struct asked *asked, int code, const char *text,
                               struct aw_diag *diag)
{
    struct aw_service_config *service = &asked->service;
    struct aw_runner_config *runner = &service->runner;
    switch ((enum code)code) {
    case OPT_APP:
        asked->app = text;
        return AW_OK;
    case OPT_LISTEN:
        asked->listen = text;
        return AW_OK;
    case OPT_SOCKET:
        asked->socket = text;
        return AW_OK;
    case OPT_THREADS:
        return count(text, AW_RUNNER_WORKERS_MAX, &runner->worker_count, diag);
    case OPT_QUEUE:
        return count(text, QUEUE_MAX, &service->queue_max, diag);
    case OPT_CONNECTIONS:
        return count(text, 65536, &service->connections_max, diag);
    case OPT_PAYLOAD:
        return real(text, 1e-3, AW_RUNNER_PAYLOAD_MAX, &runner->payload, diag);
    case OPT_FAMILIES:
        return families(text, &runner->families, diag);
    case OPT_SCALE:
        return real(text, 0, 1000, &runner->work_scale, diag);
    case OPT_WAITS:
        return waits(text, &runner->waits, diag);
    case OPT_COSTS:
        service->costs_file = text;
        return AW_OK;
    case OPT_MEASURE:
        return duration(text, &service->measure_us, diag);
    case OPT_START:
        return duration(text, &service->start_us, diag);
    case OPT_NO_MEMORY:
        service->hold_memory = false;
        return AW_OK;
    case OPT_ANSWER:
        return aw_quantity_parse_memory(text, &service->answer_bytes, diag);
    case OPT_TEMP:
        runner->temp_dir = text;
        return AW_OK;
    case OPT_OBJECTS:
        runner->object_server = text;
        return AW_OK;
    case OPT_SEED:
        return number(text, 0, UINT64_MAX, &runner->seed, diag);
    case OPT_LINGER:
        return duration(text, &service->linger_us, diag);
    case OPT_DRAIN:
        return duration(text, &service->drain_us, diag);
    case OPT_GRAPH:
        asked->graph = text;
        return AW_OK;
    case OPT_SERVICE:
        asked->service_name = text;
        return AW_OK;
    case OPT_PEERS:
        asked->peers = text;
        return AW_OK;
    case OPT_TRACES:
        return loopback(text, &asked->traces, diag);
    case OPT_KIND:
        asked->stress_kind = text;
        return AW_OK;
    case OPT_AMOUNT:
        return real(text, 1e-3, 1e12, &asked->stress.amount, diag);
    case OPT_FOR:
        return duration(text, &asked->stress.for_us, diag);
    case OPT_AT:
        return loopback(text, &asked->stress.server, diag);
    case OPT_PATH:
        asked->stress.path = text;
        return AW_OK;
    case OPT_HELP:
        asked->help = true;
        return AW_OK;
    }
    return aw_fail(diag, AW_ERR_USAGE, "see aware-workload --help");
}

static enum aw_err options_read(int argc, char **argv, struct asked *asked, struct aw_diag *diag)
{
    const char *temp = getenv("TMPDIR");
    *asked = (struct asked){.listen = "127.0.0.1:8080",
                            .service = {.runner = {.payload = 1,
                                                   .work_scale = 1,
                                                   .temp_dir = temp && *temp ? temp : "/tmp",
                                                   .seed = 1},
                                        .unix_fd = -1,
                                        .connections_max = CONNECTIONS,
                                        .queue_max = QUEUE,
                                        .hold_memory = true,
                                        .start_us = -1,
                                        .measure_us = MEASURE_US,
                                        .answer_bytes = -1,
                                        .drain_us = DRAIN_US,
                                        .alloc = &aw_pages_alloc}};
    asked->stress.path = "/?alone=1";
    if (argc > 1 && (!strcmp(argv[1], "object-server") || !strcmp(argv[1], "stress"))) {
        asked->object_server = !strcmp(argv[1], "object-server");
        asked->stresses = !asked->object_server;
        argc--;
        argv++;
    }
    opterr = 0;
    for (int code, index = 0; (code = getopt_long(argc, argv, ":", options, &index)) != -1;) {
        if (code == ':' || code == '?')
            return aw_fail(diag, AW_ERR_USAGE, "%s: %s", argv[optind - 1],
                           code == ':' ? "needs a value" : "no such option");
        enum aw_err err = option_read(asked, code, optarg, diag);
        if (err) {
            char why[AW_DIAG_TEXT_MAX];
            snprintf(why, sizeof why, "%s", diag->text);
            return aw_fail(diag, err, "--%s: %s", options[index].name, why);
        }
    }
    if (optind < argc)
        return aw_fail(diag, AW_ERR_USAGE, "%s: see aware-workload --help", argv[optind]);
    if (asked->object_server && asked->socket)
        return aw_fail(diag, AW_ERR_USAGE, "--socket: objects are served over TCP alone");
    if (asked->help || asked->object_server || asked->stresses)
        return AW_OK;
    if (asked->graph && (asked->app || !asked->service_name || !asked->peers))
        return aw_fail(diag, AW_ERR_USAGE, "--graph needs --service and --peers, and no --app");
    if (!asked->graph && !asked->app)
        return aw_fail(diag, AW_ERR_USAGE, "--app is missing; see aware-workload --help");
    return AW_OK;
}

/* ---- the application ---- */

/* "kind:gzip,sleep": one segment of each kind, as the kind is described. */
static enum aw_err app_of_kinds(const char *list, struct aw_app *ret, struct aw_diag *diag)
{
    static const struct aw_segment sleep_kind = {
        .name = "sleep", .io_ms = 10, .memory_flight_mib = 0.1, .parallelism = 1};
    struct aw_app app = {0};
    char quoted[AW_TEXT_QUOTE_MAX];
    snprintf(app.name, sizeof app.name, "%.60s", list);
    for (const char *at = list;;) {
        const size_t len = strcspn(at, ",");
        const struct aw_segment *found = NULL;
        for (uint32_t i = 0; i <= AW_SEGMENT_BUILTIN_COUNT && !found; i++) {
            const struct aw_segment *kind =
                i < AW_SEGMENT_BUILTIN_COUNT ? &aw_segment_builtin()[i] : &sleep_kind;
            if (strlen(kind->name) == len && !memcmp(kind->name, at, len))
                found = kind;
        }
        if (!found)
            return aw_fail(diag, AW_ERR_USAGE, "--app: expected a segment kind, found %s",
                           aw_text_quote(at, len, quoted, sizeof quoted));
        if (app.segment_count == AW_APP_SEGMENTS_MAX)
            return aw_fail(diag, AW_ERR_LIMIT, "--app: more than %u segments", AW_APP_SEGMENTS_MAX);
        app.segment[app.segment_count++] = *found;
        if (!at[len])
            break;
        at += len + 1;
    }
    *ret = app;
    return AW_OK;
}

static enum aw_err app_find(const char *text, struct aw_app *ret, struct aw_diag *diag)
{
    char seed_text[24] = "";
    uint64_t seed, index;
    AW_ASSERT(text);
    const size_t len = strcspn(text, ":");
    if (!strncmp(text, "kind:", 5))
        return app_of_kinds(text + 5, ret, diag);
    if (len < sizeof seed_text && text[len])
        memcpy(seed_text, text, len);
    if (!aw_text_parse_u64(seed_text, &seed) && !aw_text_parse_u64(text + len + 1, &index) &&
        index <= UINT32_MAX) {
        aw_app_generate(seed, (uint32_t)index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, ret);
        return AW_OK;
    }
    return aw_apps_read_one(text, ret, diag);
}

/* ---- sockets and signals ---- */

static enum aw_err listener_open(const char *text, int *ret_fd, struct aw_diag *diag)
{
    struct sockaddr_in address, bound = {0};
    char name[AW_NET_TEXT_MAX];
    uint64_t fd = 0;
    if (!strncmp(text, "fd:", 3)) {
        int listening = 0;
        socklen_t len = sizeof listening;
        if (aw_text_parse_u64(text + 3, &fd) || fd > 1 << 20 ||
            getsockopt((int)fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) || !listening)
            return aw_fail(diag, AW_ERR_USAGE, "--listen %s: is no socket that listens", text);
        (void)fcntl((int)fd, F_SETFL, fcntl((int)fd, F_GETFL) | O_NONBLOCK);
        len = sizeof bound;
        (void)getsockname((int)fd, (struct sockaddr *)&bound, &len);
        *ret_fd = (int)fd;
    } else {
        enum aw_err err = aw_net_parse(text, &address, diag);
        if (!err)
            err = aw_net_listen(&address, BACKLOG, ret_fd, &bound, diag);
        if (err)
            return err;
    }
    printf("listening on %s\n", aw_net_print(&bound, name, sizeof name));
    (void)fflush(stdout);
    return AW_OK;
}

/* What was asked for must be had. What was merely offered, by whoever started us, is taken if it
 * can be: they find us on the port as well. `path` is set if there is something to unlink. */
static enum aw_err socket_open(const char *asked, struct aw_log *log, const char **path,
                               int *ret_fd, struct aw_diag *diag)
{
    const char *at = asked ? asked : getenv(AW_NET_UNIX_ENV);
    if (!at || !*at)
        return AW_OK;
    const enum aw_err err = aw_net_listen_unix(at, BACKLOG, ret_fd, diag);
    if (!err)
        *path = at;
    if (err && !asked) {
        aw_log_warn(log, "no Unix socket", AW_LOG_STR("why", diag->text));
        *diag = (struct aw_diag){0};
        return AW_OK;
    }
    return err;
}

/* Before the first thread is made, so that all have them blocked. */
static int signals_take(void)
{
    sigset_t set;
    (void)signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* As many files as connections need, as far as the system lets us. */
static void files_allow(uint32_t connections)
{
    struct rlimit limit;
    const rlim_t wanted = (rlim_t)connections + FILES_SPARE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* refused: the rest waits in the backlog */
}

static enum aw_err serve_objects(int listen_fd, int signal_fd, struct aw_diag *diag)
{
    const struct aw_objects_config config = {.listen_fd = listen_fd,
                                             .signal_fd = signal_fd,
                                             .connections_max = CONNECTIONS,
                                             .alloc = &aw_pages_alloc};
    return aw_objects_run(&config, diag);
}

static enum aw_err serve_app(struct aw_service_config *service, int listen_fd, int signal_fd,
                             struct aw_diag *diag)
{
    struct aw_objects *objects = NULL;
    struct sockaddr_in any, bound;
    char address[AW_NET_TEXT_MAX];
    int objects_fd = -1;
    enum aw_err err = AW_OK;
    service->listen_fd = listen_fd;
    service->signal_fd = signal_fd;
    if (aw_runner_needs_objects(&service->runner.app) && !service->runner.object_server) {
        err = aw_net_parse("127.0.0.1:0", &any, diag);
        if (!err)
            err = aw_net_listen(&any, BACKLOG, &objects_fd, &bound, diag);
        const struct aw_objects_config config = {.listen_fd = objects_fd,
                                                 .signal_fd = -1,
                                                 .connections_max = OBJECT_CONNECTS,
                                                 .alloc = &aw_pages_alloc};
        if (!err)
            err = aw_objects_start(&config, &objects, diag);
        service->runner.object_server = aw_net_print(&bound, address, sizeof address);
    }
    if (!err)
        err = aw_service_run(service, diag);
    aw_objects_stop(objects);
    return err;
}

/* ---- a service of a graph, and a stressor ---- */

static enum aw_err graph_find(const char *text, struct aw_graph_app *ret, struct aw_diag *diag)
{
    for (uint32_t i = 0; aw_graph_builtin_names[i]; i++)
        if (!strcmp(aw_graph_builtin_names[i], text))
            return aw_graph_builtin(text, ret, diag);
    return aw_graph_app_read(text, ret, diag);
}

static enum aw_err serve_member(const struct asked *asked, int listen_fd, int signal_fd,
                                struct aw_diag *diag)
{
    static struct aw_graph_app app; /* large, and there is one */
    const struct aw_service_config *service = &asked->service;
    uint64_t seed = 0;
    enum aw_err err = graph_find(asked->graph, &app, diag);
    if (err)
        return err;
    const uint32_t index = aw_graph_service_find(&app, asked->service_name);
    if (index == AW_GRAPH_NONE)
        return aw_fail(diag, AW_ERR_USAGE, "--service: %s has no such service: %.64s", app.name,
                       asked->service_name);
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return aw_fail(diag, AW_ERR_IO, "no random number for the ids of spans");
    const uint32_t threads =
        service->runner.worker_count ? service->runner.worker_count : MEMBER_THREADS;
    const struct aw_member_config config = {.visits = {.app = &app,
                                                       .service = index,
                                                       .peers = asked->peers,
                                                       .temp_dir = service->runner.temp_dir,
                                                       .traces = asked->traces,
                                                       .helpers = threads,
                                                       .call_timeout_us = CALL_TIMEOUT_US,
                                                       .seed = seed},
                                            .listen_fd = listen_fd,
                                            .unix_fd = service->unix_fd,
                                            .signal_fd = signal_fd,
                                            .connections_max = service->connections_max,
                                            .threads = threads,
                                            .drain_us = service->drain_us,
                                            .log = service->log,
                                            .alloc = service->alloc};
    return aw_member_run(&config, diag);
}

static enum aw_err stress(struct asked *asked, struct aw_diag *diag)
{
    struct aw_stress_config *config = &asked->stress;
    uint32_t kind = 0;
    while (aw_stress_kind_names[kind] &&
           (!asked->stress_kind || strcmp(aw_stress_kind_names[kind], asked->stress_kind) != 0))
        kind++;
    if (!aw_stress_kind_names[kind] || !(config->amount > 0))
        return aw_fail(diag, AW_ERR_USAGE,
                       "stress needs --kind, one of those of --help, and "
                       "--amount");
    config->kind = (enum aw_stress_kind)kind;
    config->temp_dir = asked->service.runner.temp_dir;
    if (config->for_us <= 0 || config->for_us > AW_STRESS_MOST_US)
        return aw_fail(diag, AW_ERR_USAGE, "--for: expected up to an hour");
    if ((kind == AW_STRESS_NETWORK || kind == AW_STRESS_VISITS) && !config->server.sin_port)
        return aw_fail(diag, AW_ERR_USAGE, "--at is missing: whom to ask");
    return aw_stress_run(config, diag);
}

int main(int argc, char **argv)
{
    struct asked asked;
    struct aw_diag diag = {0};
    struct aw_log log;
    char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
    const char *socket_path = NULL;
    int listen_fd = -1, signal_fd = -1;
    enum aw_err err = options_read(argc, argv, &asked, &diag);
    if (!err && asked.help) {
        fputs(usage, stdout);
        return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    aw_log_init(&log, STDERR_FILENO, AW_LOG_INFO, AW_LOG_TEXT, NULL);
    asked.service.log = &log;
    if (asked.stresses) {
        err = err ? err : stress(&asked, &diag);
        if (err)
            fprintf(stderr, "aware-workload: %s\n", aw_diag_format(&diag, err, line, sizeof line));
        return aw_err_exit_code(err);
    }
    if (!err && !asked.object_server && !asked.graph)
        err = app_find(asked.app, &asked.service.runner.app, &diag);
    if (!err && (signal_fd = signals_take()) < 0)
        err = aw_fail(&diag, AW_ERR_UNAVAILABLE, "signals: %s", strerror(errno));
    files_allow(asked.object_server ? CONNECTIONS : asked.service.connections_max);
    /* the socket first: who is found on the port has it already */
    if (!err && !asked.object_server)
        err = socket_open(asked.socket, &log, &socket_path, &asked.service.unix_fd, &diag);
    if (!err)
        err = listener_open(asked.listen, &listen_fd, &diag);
    if (!err)
        err = asked.object_server ? serve_objects(listen_fd, signal_fd, &diag)
              : asked.graph       ? serve_member(&asked, listen_fd, signal_fd, &diag)
                                  : serve_app(&asked.service, listen_fd, signal_fd, &diag);
    if (socket_path)
        (void)unlink(socket_path);
    if (err)
        fprintf(stderr, "aware-workload: %s\n", aw_diag_format(&diag, err, line, sizeof line));
    return aw_err_exit_code(err);
}
