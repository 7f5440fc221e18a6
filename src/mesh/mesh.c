/* mesh.c - services started and ended, load sent, spans taken; see mesh.h. */
#include "mesh/mesh_internal.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "base/units.h"

#define PROGRAM      "aware-workload"
#define PEERS        "peers"
#define READY_US     60000000
#define LOOK_US      20000
#define REPORT_US    100000
#define TIMEOUT_US   5000000 /* of a request */
#define CONNECTIONS  512u
#define LOAD_MAX_US  (INT64_C(30) * 24 * 3600 * 1000000)
#define MEMORY_BYTES (256 * AW_MIB) /* of a replica, with a stressor inside */
#define QUIET_US     2000000

int64_t aw__mesh_now_us(const struct aw_mesh *mesh)
{
    return aw_clock_monotonic_us(NULL) - mesh->begin_us;
}

/* --- spans ------------------------------------------------------------------------------------ */

static uint32_t rename_in(struct aw_mesh *mesh, const struct aw_spans *spans, uint32_t name)
{
    const char *text = aw_names_text(&spans->names, name);
    return name == AW_NAME_NONE ? AW_NAME_NONE : aw_names_add(&mesh->names, text, strlen(text));
}

static void spans_seen(void *ctx, const struct aw_spans *spans, int64_t now_us)
{
    struct aw_mesh *mesh = ctx;
    (void)now_us; /* of the wall, which may be set */
    pthread_mutex_lock(&mesh->lock);
    const int64_t at_us = aw__mesh_now_us(mesh);
    for (uint32_t i = 0; i < spans->count; i++) {
        if (mesh->span_count == AW__MESH_SPANS) {
            mesh->spans_dropped++;
            continue;
        }
        struct aw_span span = spans->at[i];
        span.service = rename_in(mesh, spans, span.service);
        span.instance = rename_in(mesh, spans, span.instance);
        span.operation = rename_in(mesh, spans, span.operation);
        span.peer = rename_in(mesh, spans, span.peer);
        mesh->arrived_us[mesh->filled][mesh->span_count] = at_us;
        mesh->span[mesh->filled][mesh->span_count++] = span;
    }
    pthread_mutex_unlock(&mesh->lock);
}

void aw_mesh_spans(struct aw_mesh *mesh, struct aw_mesh_spans *ret)
{
    pthread_mutex_lock(&mesh->lock);
    *ret = (struct aw_mesh_spans){.at = mesh->span[mesh->filled],
                                  .arrived_us = mesh->arrived_us[mesh->filled],
                                  .count = mesh->span_count,
                                  .dropped = mesh->spans_dropped};
    mesh->filled = !mesh->filled;
    mesh->span_count = 0;
    pthread_mutex_unlock(&mesh->lock);
}

struct aw_names *aw_mesh_names(struct aw_mesh *mesh)
{
    return &mesh->names;
}

static enum aw_err traces_open(struct aw_mesh *mesh, struct aw_diag *diag)
{
    const struct aw_collector_config collector = {.store = mesh->config.store,
                                                  .quiet_us = QUIET_US,
                                                  .keep_us = INT64_C(24) * 3600 * 1000000,
                                                  .traces_max = 1000000,
                                                  .seen = spans_seen,
                                                  .ctx = mesh};
    struct aw_receiver_config receiver = {
        .address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    if (aw_names_init(&mesh->names, NULL))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for spans");
    for (int i = 0; i < 2; i++) {
        mesh->span[i] = aw_alloc_new(NULL, AW__MESH_SPANS, sizeof *mesh->span[i]);
        mesh->arrived_us[i] = aw_alloc_new(NULL, AW__MESH_SPANS, sizeof *mesh->arrived_us[i]);
        if (!mesh->span[i] || !mesh->arrived_us[i])
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for spans");
    }
    enum aw_err err = aw_collector_new(&mesh->collector, &collector, diag);
    return err ? err : aw_receiver_open(&mesh->receiver, &receiver, mesh->collector, diag);
}

/* --- services --------------------------------------------------------------------------------- */

/* The program that lies beside this one, or else one that PATH knows. */
static void program_find(char *buf, size_t size)
{
    char path[PATH_MAX];
    snprintf(buf, size, PROGRAM);
    const ssize_t len = readlink("/proc/self/exe", path, sizeof path - sizeof PROGRAM - 1);
    if (len <= 0)
        return;
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return;
    snprintf(slash + 1, sizeof PROGRAM, PROGRAM);
    if (access(path, X_OK) == 0 && strlen(path) < size)
        snprintf(buf, size, "%s", path);
}

static bool calls_ready(const struct aw_mesh *mesh, uint32_t first)
{
    const struct aw_graph_app *app = mesh->app;
    for (uint32_t i = first; i != AW_GRAPH_NONE; i = app->steps[i].next)
        if (app->steps[i].kind == AW_GRAPH_CALL
                ? !mesh->service[app->ops[app->steps[i].op].service].started
                : !calls_ready(mesh, app->steps[i].child))
            return false;
    return true;
}

static bool callees_ready(const struct aw_mesh *mesh, uint32_t service)
{
    const struct aw_graph_app *app = mesh->app;
    for (uint32_t i = 0; i < app->op_count; i++)
        if (app->ops[i].service == service && !calls_ready(mesh, app->ops[i].first))
            return false;
    return true;
}

static const char *peers_path(const struct aw_mesh *mesh, char buf[AW__MESH_PATH_MAX])
{
    snprintf(buf, AW__MESH_PATH_MAX, "%.400s/" PEERS, aw_local_dir(mesh->local));
    return buf;
}

/* Where everybody is who has been started so far. */
static enum aw_err peers_write(const struct aw_mesh *mesh, struct aw_diag *diag)
{
    char text[AW_GRAPH_SERVICES_MAX * (AW_GRAPH_NAME_MAX + 8)] = "", path[AW__MESH_PATH_MAX];
    size_t len = 0;
    for (uint32_t s = 0; s < mesh->app->service_count; s++)
        if (mesh->service[s].started)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s %u\n",
                                    mesh->app->services[s].name, (unsigned)aw_mesh_port(mesh, s));
    return aw_file_replace(peers_path(mesh, path), text, len, NULL, diag);
}

static enum aw_err service_start(struct aw_mesh *mesh, uint32_t s, struct aw_diag *diag)
{
    const struct aw_graph_service *its = &mesh->app->services[s];
    struct aw__mesh_service *service = &mesh->service[s];
    char peers[AW__MESH_PATH_MAX], traces[32];
    snprintf(traces, sizeof traces, "127.0.0.1:%u", (unsigned)aw_mesh_traces_port(mesh));
    const char *const command[] = {mesh->program,
                                   "--graph",
                                   mesh->config.graph,
                                   "--service",
                                   its->name,
                                   "--peers",
                                   peers_path(mesh, peers),
                                   "--traces",
                                   traces,
                                   "--temp",
                                   mesh->temp_dir,
                                   "--listen",
                                   "127.0.0.1:{port}",
                                   NULL};
    const bool disk = !*mesh->actuators.why[AW_GRAPH_DISK];
    const struct aw_local_workload workload = {
        .command = command,
        .health_path = "/healthz",
        .replicas = its->replicas,
        .replicas_max = AW__MESH_REPLICAS_MAX,
        .cpu_millicores = llround(1e3 * service->limit[AW_GRAPH_CPU]),
        .memory_bytes = MEMORY_BYTES,
        .disk_bytes_per_s = disk ? llround(service->limit[AW_GRAPH_DISK]) : 0,
        .network_bytes_per_s = llround(service->limit[AW_GRAPH_NET])};
    struct aw_diag why = {0};
    enum aw_err err = aw_local_add(mesh->local, &workload, &service->workload, &why);
    if (err)
        return aw_fail(diag, err, "%s: %.400s", its->name, why.text);
    service->started = true;
    return peers_write(mesh, diag);
}

static enum aw_err services_start(struct aw_mesh *mesh, struct aw_diag *diag)
{
    const uint32_t count = mesh->app->service_count;
    enum aw_err err = AW_OK;
    for (uint32_t begun = 0; begun < count && !err;) {
        const uint32_t before = begun;
        for (uint32_t s = 0; s < count && !err; s++)
            if (!mesh->service[s].started && callees_ready(mesh, s)) {
                err = service_start(mesh, s, diag);
                begun += !err;
            }
        if (begun == before && !err) /* two services that call each other by different operations */
            err = aw_fail(diag, AW_ERR_UNSUPPORTED,
                          "services of %s call each other in a circle: real processes are started "
                          "callees first",
                          mesh->app->name);
    }
    return err;
}

static void settings_make(struct aw_mesh *mesh)
{
    struct aw_local_settings *settings = &mesh->settings;
    const char *temp = getenv("TMPDIR");
    *settings = *mesh->config.cluster;
    snprintf(mesh->temp_dir, sizeof mesh->temp_dir, "%s",
             mesh->config.temp_dir ? mesh->config.temp_dir
             : temp && *temp       ? temp
                                   : "/tmp");
    if (mesh->config.program)
        snprintf(mesh->program, sizeof mesh->program, "%s", mesh->config.program);
    else
        program_find(mesh->program, sizeof mesh->program);
    if (!settings->io_device[0] &&
        !aw_local_device(mesh->temp_dir, settings->io_device, sizeof settings->io_device))
        settings->io_device[0] = '\0';
    /* limits may sum to more than the machine has, as in Kubernetes: groups that want it at once
     * share by weight. One alone may have all of it. */
    if (settings->cores == 0)
        settings->cores =
            (double)aw_threads_cpu_count() * AW_GRAPH_SCALE_MAX * mesh->app->service_count;
}

void aw_mesh_fit(struct aw_graph_app *app)
{
    const double cores = (double)aw_threads_cpu_count();
    for (uint32_t s = 0; s < app->service_count; s++) {
        struct aw_graph_service *its = &app->services[s];
        its->limit[AW_GRAPH_CPU] = fmin(its->limit[AW_GRAPH_CPU], cores);
        its->high[AW_GRAPH_CPU] = fmin(its->high[AW_GRAPH_CPU], cores);
        its->low[AW_GRAPH_CPU] = fmin(its->low[AW_GRAPH_CPU], cores);
    }
}

enum aw_err aw_mesh_open(struct aw_mesh **ret, const struct aw_mesh_config *config,
                         struct aw_diag *diag)
{
    struct aw_mesh *mesh = aw_alloc_new(NULL, 1, sizeof *mesh);
    if (!mesh)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a graph");
    mesh->config = *config;
    mesh->app = config->app;
    mesh->begin_us = aw_clock_monotonic_us(NULL);
    pthread_mutex_init(&mesh->lock, NULL);
    settings_make(mesh);
    for (uint32_t s = 0; s < mesh->app->service_count; s++) {
        struct aw__mesh_service *service = &mesh->service[s];
        memcpy(service->limit, mesh->app->services[s].limit, sizeof service->limit);
        service->replicas = mesh->app->services[s].replicas;
    }
    enum aw_err err = traces_open(mesh, diag);
    err = err ? err
              : aw_local_new(&mesh->settings, mesh->app->service_count, NULL, &mesh->local, diag);
    if (!err) {
        mesh->cluster = aw_local_cluster(mesh->local);
        aw__mesh_probe(mesh);
        err = services_start(mesh, diag);
    }
    if (err)
        aw_mesh_close(mesh);
    else
        *ret = mesh;
    return err;
}

void aw_mesh_close(struct aw_mesh *mesh)
{
    char path[AW__MESH_PATH_MAX];
    if (!mesh)
        return;
    (void)!aw_mesh_load_end(mesh, NULL); /* told by who looked for it */
    aw__mesh_stress_end(mesh);
    if (mesh->local)
        unlink(peers_path(mesh, path));
    aw_local_free(mesh->local);
    aw_receiver_close(mesh->receiver);
    aw_collector_free(mesh->collector);
    for (int i = 0; i < 2; i++) {
        aw_alloc_free(NULL, mesh->span[i]);
        aw_alloc_free(NULL, mesh->arrived_us[i]);
    }
    aw_names_deinit(&mesh->names);
    pthread_mutex_destroy(&mesh->lock);
    aw_alloc_free(NULL, mesh);
}

enum aw_err aw_mesh_ready(struct aw_mesh *mesh, const _Atomic int *stop, struct aw_diag *diag)
{
    const int64_t until = aw_clock_monotonic_us(NULL) + READY_US;
    for (uint32_t s = 0; s < mesh->app->service_count; s++) {
        struct aw_sample sample = {0};
        char trouble[AW_DIAG_TEXT_MAX];
        for (;;) {
            if (stop && *stop)
                return AW_OK;
            if (mesh->cluster.ops->observe(mesh->cluster.self, mesh->service[s].workload, INT64_MAX,
                                           &sample))
                return aw_fail(diag, AW_ERR_UNAVAILABLE, "the local cluster does not answer");
            if (sample.replicas_ready > 0)
                break;
            if (aw_clock_monotonic_us(NULL) > until) {
                aw_local_trouble(mesh->local, mesh->service[s].workload, trouble, sizeof trouble);
                return aw_fail(diag, AW_ERR_UNAVAILABLE, "%s: no replica became ready%s%.300s",
                               mesh->app->services[s].name, *trouble ? ": " : "", trouble);
            }
            (void)!aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + LOOK_US);
        }
    }
    return AW_OK;
}

/* --- load ------------------------------------------------------------------------------------- */

static bool load_report(void *ctx, const struct aw_drive_report *report)
{
    struct aw__mesh_load *load = ctx;
    struct aw_mesh *mesh = load->mesh;
    const uint64_t count = report->latency->count;
    const uint64_t failed = report->all.error[AW_DRIVE_STATUS];
    /* an answer of 5xx may come fast; whatever else failed has taken its time */
    uint64_t missed = aw_latency_histogram_above(report->latency, (int64_t)load->slo_us) +
                      (failed - load->failed_before);
    load->failed_before = failed;
    missed = missed < count ? missed : count;
    pthread_mutex_lock(&mesh->lock);
    mesh->requests += count;
    mesh->missed += missed;
    pthread_mutex_unlock(&mesh->lock);
    return !mesh->load_stop;
}

static void *load_thread(void *ctx)
{
    struct aw__mesh_load *load = ctx;
    load->err = aw_drive_run(&load->config, &load->result, &load->diag);
    return NULL;
}

static enum aw_err load_one(struct aw_mesh *mesh, uint32_t t, struct aw_diag *diag)
{
    const struct aw_graph_type *type = &mesh->app->types[t];
    const struct aw_graph_op *entry = &mesh->app->ops[type->op];
    struct aw__mesh_load *load = &mesh->load[t];
    char url[AW_GRAPH_NAME_MAX + 64];
    snprintf(url, sizeof url, *entry->name ? "http://127.0.0.1:%u/op/%s" : "http://127.0.0.1:%u/%s",
             (unsigned)aw_mesh_port(mesh, entry->service), entry->name);
    *load = (struct aw__mesh_load){.mesh = mesh, .slo_us = 1e3 * type->slo_ms};
    const enum aw_err err = aw_target_parse(url, false, &load->config.target, diag);
    if (err)
        return err;
    const double rate = mesh->app->rate * (mesh->config.load > 0 ? mesh->config.load : 1);
    load->config.timetable = (struct aw_timetable_config){.rate_per_s = rate * type->share,
                                                          .speed = 1,
                                                          .arrivals = AW_ARRIVALS_POISSON,
                                                          .seed = mesh->config.seed + t,
                                                          .duration_us = LOAD_MAX_US};
    load->config.connections_max = CONNECTIONS;
    load->config.threads = 1;
    load->config.timeout_us = TIMEOUT_US;
    load->config.report_us = REPORT_US;
    load->config.report = load_report;
    load->config.ctx = load;
    const int failed = aw_thread_begin(&load->thread, load_thread, load);
    load->made = failed == 0;
    return failed
               ? aw_fail(diag, AW_ERR_UNAVAILABLE, "no thread for the load: %s", strerror(failed))
               : AW_OK;
}

enum aw_err aw_mesh_load_begin(struct aw_mesh *mesh, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    struct aw_graph_reading none[AW_GRAPH_SERVICES_MAX];
    mesh->load_stop = false;
    aw_mesh_read(mesh, none); /* of starting up */
    pthread_mutex_lock(&mesh->lock);
    mesh->begin_us = aw_clock_monotonic_us(NULL);
    pthread_mutex_unlock(&mesh->lock);
    for (uint32_t t = 0; t < mesh->app->type_count && !err; t++)
        err = load_one(mesh, t, diag);
    return err;
}

enum aw_err aw_mesh_load_end(struct aw_mesh *mesh, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    mesh->load_stop = true;
    for (uint32_t t = 0; t < mesh->app->type_count; t++) {
        struct aw__mesh_load *load = &mesh->load[t];
        if (!load->made)
            continue;
        pthread_join(load->thread, NULL);
        load->made = false;
        if (load->err && !err) {
            err = load->err;
            if (diag)
                *diag = load->diag;
        }
    }
    return err;
}

void aw_mesh_count(struct aw_mesh *mesh, uint32_t *ret_requests, uint32_t *ret_missed)
{
    pthread_mutex_lock(&mesh->lock);
    *ret_requests = (uint32_t)(mesh->requests - mesh->requests_told);
    *ret_missed = (uint32_t)(mesh->missed - mesh->missed_told);
    mesh->requests_told = mesh->requests;
    mesh->missed_told = mesh->missed;
    pthread_mutex_unlock(&mesh->lock);
}

void aw_mesh_wait(struct aw_mesh *mesh, int64_t until_ns)
{
    const int64_t until_us = mesh->begin_us + until_ns / 1000;
    (void)!aw_clock_sleep_until(NULL, until_us); /* a signal ends the wait */
    (void)!aw_collector_tick(mesh->collector, aw_clock_now_us(NULL), NULL);
}

/* --- told ------------------------------------------------------------------------------------- */

const struct aw_mesh_actuators *aw_mesh_actuators(const struct aw_mesh *mesh)
{
    return &mesh->actuators;
}

const char *aw_mesh_trouble(const struct aw_mesh *mesh)
{
    return mesh->trouble;
}

const struct aw_graph_app *aw_mesh_app(const struct aw_mesh *mesh)
{
    return mesh->app;
}

struct aw_local *aw_mesh_local(struct aw_mesh *mesh)
{
    return mesh->local;
}

uint16_t aw_mesh_port(const struct aw_mesh *mesh, uint32_t service)
{
    return aw_local_port(mesh->local, mesh->service[service].workload);
}

uint16_t aw_mesh_traces_port(const struct aw_mesh *mesh)
{
    return aw_receiver_port(mesh->receiver);
}
