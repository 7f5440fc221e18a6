/* graph_run.c - see graph_run.h. */
#include "daemon/graph_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "daemon/config.h"
#include "daemon/daemon_internal.h"
#include "daemon/doors.h"

#define RUN_STATE "run.state" /* of a run of autoscalers */
#define STEP_S    (1e-9 * (double)AW_FIRM_STEP_NS)
#define SUSPECTS  3u

struct aw_graph_run {
    struct aw_graph_run_config config;
    int lock_fd;
    int64_t base_us; /* time of the record at this run's beginning */
    int64_t now_ns;
    struct aw_graph_world *world; /* NULL: real processes */
    struct aw_graph_plant plant;
    struct aw_firm_intake *intake;
    struct aw_firm_watch *watch;
    struct aw_firm_manager *manager;
    struct aw_firm_desk desk;
    struct aw_service_desk *record; /* NULL: nothing is kept */
    struct aw_injector injector;
    const struct aw_firm_sight *sight; /* of the step that is under way */
    struct aw_firm_taken taken;
    bool was_missed;
    struct aw_graph_run_totals totals;
    double cores_sum;
    struct {
        uint64_t id; /* entry; 0: never */
        char what[128], why[AW_FIRM_REASON_MAX];
    } given[AW_GRAPH_SERVICES_MAX]; /* what each service was given last */
    struct aw_diag trouble;         /* why the last order could not be written down */
    enum aw_err trouble_err;
};

/* --- the record ----------------------------------------------------------------------------- */

static const char *resource_name(const struct aw_firm_order *order)
{
    return order->kind == AW_FIRM_LIMIT   ? aw_graph_resource_names[order->resource]
           : order->kind == AW_FIRM_SCALE ? "replicas"
                                          : "fresh replicas";
}

/* "disk 160.0 MB/s -> 480.0 MB/s". */
static void what_text(const struct aw_firm_order *order, char *buf, size_t size)
{
    char from[32], to[32];
    if (order->kind == AW_FIRM_LIMIT)
        snprintf(buf, size, "%s %s -> %s", aw_graph_resource_names[order->resource],
                 aw_graph_amount_text(order->resource, order->from, from, sizeof from),
                 aw_graph_amount_text(order->resource, order->to, to, sizeof to));
    else if (order->kind == AW_FIRM_SCALE)
        snprintf(buf, size, "replicas %.0f -> %.0f", order->from, order->to);
    else
        snprintf(buf, size, "%.0f fresh replicas", order->to);
}

/* What the traces and the group said when it was decided. */
static json_t *account_of(const struct aw_graph_run *run, const struct aw_firm_order *order)
{
    const struct aw_firm_sight *sight = run->sight;
    const struct aw_graph_app *app = run->config.app;
    const struct aw_graph_service *its = &app->services[order->service];
    const struct aw_graph_reading *reading = &sight->readings[order->service];
    json_t *groups = json_object(), *suspects = json_array();
    char text[AW_FIRM_REASON_MAX], limit[32], low[32], high[32];
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
        const enum aw_graph_resource which = (enum aw_graph_resource)r;
        json_object_set_new(
            groups, aw_graph_resource_names[r],
            json_pack("{s:f, s:f, s:s, s:s, s:s}", "use", reading->use[r], "waiting",
                      reading->stall[r], "limit",
                      aw_graph_amount_text(which, reading->limit[r], limit, sizeof limit), "least",
                      aw_graph_amount_text(which, its->low[r], low, sizeof low), "most",
                      aw_graph_amount_text(which, its->high[r], high, sizeof high)));
    }
    for (uint32_t i = 0; i < sight->suspect_count && i < SUSPECTS; i++) {
        const struct aw_firm_suspect *suspect = &sight->suspect[i];
        json_array_append_new(suspects,
                              json_pack("{s:s, s:f, s:b, s:s}", "service",
                                        app->services[suspect->service].name, "score",
                                        suspect->score, "sure", suspect->score > 0, "evidence",
                                        aw_firm_suspect_text(suspect, sight, text, sizeof text)));
    }
    return json_pack(
        "{s:s, s:s, s:{s:s, s:f, s:f, s:f, s:I, s:b}, s:o, s:f, s:f, s:o, s:s}", "graph", app->name,
        "service", its->name, "slo", "type", app->types[sight->worst_type].name, "p95_ms",
        sight->worst_latency_ms, "limit_ms", app->types[sight->worst_type].slo_ms, "missed_share",
        sight->missed_share, "requests", (json_int_t)sight->requests, "missed", sight->missed,
        "groups", groups, "throttled", reading->throttled, "visits_per_s", reading->visits_per_s,
        "suspects", suspects, "doubt", run->taken.why);
}

static enum aw_err rails_before(void *ctx, const struct aw_firm_order *order, uint64_t *ret_id)
{
    struct aw_graph_run *run = ctx;
    char what[128];
    if (!run->record)
        return AW_OK;
    what_text(order, what, sizeof what);
    json_t *account = account_of(run, order);
    const struct aw_service_change change = {
        .service = order->service,
        .actor = aw_firm_kind_names[run->config.kind],
        .resource = resource_name(order),
        .from = order->from,
        .to = order->to,
        .shrinks = aw_firm_order_shrinks(order),
        .undoable = order->kind != AW_FIRM_REPLACE,
        .what = what,
        .why = order->reason,
        .account = account,
    };
    struct aw_diag why = {0};
    if (change.shrinks && run->given[order->service].id)
        json_object_set_new(account, "given_before",
                            json_pack("{s:I, s:s, s:s}", "decision",
                                      (json_int_t)run->given[order->service].id, "what",
                                      run->given[order->service].what, "why",
                                      run->given[order->service].why));
    const enum aw_err err = aw_service_desk_record(run->record, &change, ret_id, &why);
    json_decref(account);
    if (!err && !change.shrinks) {
        run->given[order->service].id = *ret_id;
        snprintf(run->given[order->service].what, sizeof run->given[0].what, "%s", what);
        snprintf(run->given[order->service].why, sizeof run->given[0].why, "%s", order->reason);
    }
    if (err && err != AW_ERR_CONFLICT) {
        run->trouble_err = err;
        run->trouble = why;
    }
    return err;
}

static void rails_after(void *ctx, const struct aw_firm_order *order, uint64_t id, enum aw_err err)
{
    struct aw_graph_run *run = ctx;
    if (run->record)
        aw_service_desk_outcome(run->record, order->service, id, 0, err);
}

/* What people want back, before anything else is decided. */
static void undo_all(struct aw_graph_run *run)
{
    struct aw_service_undo undo;
    while (run->record && aw_service_desk_undo(run->record, &undo)) {
        struct aw_firm_order order = {.at_ns = run->now_ns,
                                      .service = undo.service,
                                      .kind = AW_FIRM_SCALE,
                                      .from = undo.from,
                                      .to = undo.to,
                                      .undo = true};
        for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
            if (strcmp(aw_graph_resource_names[r], undo.resource) == 0) {
                order.kind = AW_FIRM_LIMIT;
                order.resource = (enum aw_graph_resource)r;
            }
        snprintf(order.reason, sizeof order.reason, "a person undid decision %llu",
                 (unsigned long long)undo.decision);
        const enum aw_err err = aw_firm_desk_put_back(&run->desk, &order);
        aw_service_desk_outcome(run->record, undo.service, undo.decision, undo.order, err);
    }
}

/* --- what there is to see ------------------------------------------------------------------- */

static json_t *row_of(const struct aw_graph_run *run, uint32_t s)
{
    const struct aw_graph_app *app = run->config.app;
    const struct aw_graph_reading *reading = &run->sight->readings[s];
    char name[AW_STORE_NAME_MAX];
    snprintf(name, sizeof name, "%s/%s", app->name, app->services[s].name);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:{s:I, s:I}, s:f, s:f, s:f, s:s}", "name",
                     name, "namespace", app->name, "workload", app->services[s].name, "kind",
                     "service", "mode", app->services[s].fixed ? "fixed" : "auto", "actor",
                     aw_firm_kind_names[run->config.kind], "replicas", "ready",
                     (json_int_t)reading->replicas, "wanted", (json_int_t)run->desk.replicas[s],
                     "cpu_millicores", 1e3 * run->desk.limit[s][AW_GRAPH_CPU], "cpu_used",
                     reading->use[AW_GRAPH_CPU], "arrivals_per_s", reading->visits_per_s, "stage",
                     "serving");
}

static void tell(struct aw_graph_run *run)
{
    const struct aw_firm_sight *sight = run->sight;
    const struct aw_graph_app *app = run->config.app;
    json_t *rows = json_array();
    for (uint32_t s = 0; s < app->service_count; s++)
        json_array_append_new(rows, row_of(run, s));
    json_t *status = json_pack(
        "{s:s, s:s, s:I, s:s, s:b, s:b, s:f, s:{s:I}, s:{s:s, s:f, s:f, s:f, s:b}, s:s}", "version",
        run->config.version, "graph", app->name, "pid", (json_int_t)getpid(), "cluster",
        run->world ? "simulated graph" : "real processes", "virtual_time", run->world != NULL, "ok",
        run->trouble_err == AW_OK, "step_s", STEP_S, "workloads", "total",
        (json_int_t)app->service_count, "slo", "type", app->types[sight->worst_type].name, "p95_ms",
        sight->worst_latency_ms, "limit_ms", app->types[sight->worst_type].slo_ms, "missed_share",
        sight->missed_share, "missed", sight->missed, "doubt", run->taken.why);
    aw_service_desk_tell(run->record, status, rows);
}

enum aw_err aw_graph_run_save(struct aw_graph_run *run, struct aw_diag *diag)
{
    char path[AW_FILE_PATH_MAX + 32];
    if (!run->record || !run->sight)
        return AW_OK;
    tell(run);
    json_t *views = aw_service_desk_views(run->record);
    char *text = views ? json_dumps(views, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(views);
    if (!text)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for what is kept");
    snprintf(path, sizeof path, "%s/" AW__DAEMON_VIEWS, run->config.state);
    const enum aw_err err = aw_file_replace(path, text, strlen(text), NULL, diag);
    free(text);
    return err;
}

/* --- a run ---------------------------------------------------------------------------------- */

static enum aw_err state_open(struct aw_graph_run *run, struct aw_diag *diag)
{
    const struct aw_graph_run_config *config = &run->config;
    char path[AW_FILE_PATH_MAX + 32];
    const char *names[AW_GRAPH_SERVICES_MAX];
    if (!*config->state)
        return AW_OK;
    enum aw_err err = aw_daemon_lock(config->state, true, &run->lock_fd, diag);
    if (err)
        return err;
    if (config->fresh && (err = aw__session_forget(config->state, diag)))
        return err;
    snprintf(path, sizeof path, "%s/" RUN_STATE, config->state);
    if (access(path, F_OK) == 0)
        return aw_fail_at(diag, AW_ERR_EXISTS, config->state, 0, 0, NULL,
                          "this is the state of a run of autoscalers; give another --state");
    struct aw_service_desk_config *desk = aw_alloc_new(NULL, 1, sizeof *desk);
    if (!desk)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the desk");
    snprintf(desk->folder, sizeof desk->folder, "%.*s/" AW_DAEMON_AUDIT,
             (int)(sizeof desk->folder - sizeof AW_DAEMON_AUDIT - 1), config->state);
    snprintf(desk->journal, sizeof desk->journal, "%.*s/" AW_DAEMON_JOURNAL,
             (int)(sizeof desk->journal - sizeof AW_DAEMON_JOURNAL - 1), config->state);
    desk->audit.no_sync = !config->durable;
    desk->graph = config->app->name;
    desk->count = config->app->service_count;
    desk->services = names;
    for (uint32_t s = 0; s < desk->count; s++)
        names[s] = config->app->services[s].name;
    err = aw_service_desk_new(desk, &run->record, &run->base_us, diag);
    aw_alloc_free(NULL, desk);
    return err;
}

enum aw_err aw_graph_run_open(struct aw_graph_run **ret, const struct aw_graph_run_config *config,
                              struct aw_diag *diag)
{
    struct aw_graph_run *run = aw_alloc_new(NULL, 1, sizeof *run);
    struct aw_classifier *classifier = aw_alloc_new(NULL, 1, sizeof *classifier);
    const struct aw_graph_config world = {.seed = config->seed,
                                          .traced = 1,
                                          .span_loss = config->span_loss,
                                          .skew_us = config->skew_us};
    const struct aw_firm_settings settings = {.lent = config->app->lent};
    enum aw_err err = run && classifier ? AW_OK : AW_ERR_NOMEM;
    if (run) {
        run->config = *config;
        run->lock_fd = -1;
    }
    if (!err && !config->mesh)
        err = aw_graph_world_new(config->app, &world, NULL, &run->world);
    struct aw_names *names = err            ? NULL
                             : config->mesh ? aw_mesh_names(config->mesh)
                                            : &aw_graph_world_spans(run->world)->names;
    if (!err)
        run->plant = config->mesh ? aw_mesh_plant(config->mesh) : aw_graph_world_plant(run->world);
    err = err ? err : aw_firm_intake_new(config->app, names, world.traced, NULL, &run->intake);
    if (!err && (err = aw_firm_localizer(classifier, diag)))
        goto out;
    err = err ? err : aw_firm_watch_new(config->app, names, classifier, NULL, &run->watch);
    err =
        err ? err : aw_firm_manager_new(config->kind, &settings, config->app, NULL, &run->manager);
    err = err ? err : aw_firm_desk_init(&run->desk, config->app, run->plant, NULL);
    if (err) {
        aw_fail(diag, err, "no memory for the graph");
        goto out;
    }
    run->desk.rails = (struct aw_firm_rails){rails_before, rails_after, run};
    if (config->campaign)
        aw_injector_init(&run->injector, config->app, config->calibration, config->campaign);
    run->totals.cores_at_start = run->plant.ops->cores(run->plant.self);
    err = state_open(run, diag);
out:
    aw_alloc_free(NULL, classifier);
    if (err) {
        aw_graph_run_close(run, "an error");
        return err;
    }
    *ret = run;
    return AW_OK;
}

void aw_graph_run_close(struct aw_graph_run *run, const char *reason)
{
    if (!run)
        return;
    if (run->plant.ops && run->config.campaign)
        aw_injector_clean(&run->injector, run->plant);
    aw_service_desk_free(run->record, reason);
    aw_firm_desk_deinit(&run->desk);
    aw_firm_manager_free(run->manager);
    aw_firm_watch_free(run->watch);
    aw_firm_intake_free(run->intake);
    aw_graph_world_free(run->world);
    if (run->lock_fd >= 0)
        close(run->lock_fd);
    aw_alloc_free(NULL, run);
}

static void count(struct aw_graph_run *run, struct aw_graph_run_step *step)
{
    struct aw_graph_run_totals *totals = &run->totals;
    if (run->config.mesh) {
        aw_mesh_count(run->config.mesh, &step->requests, &step->missed);
    } else {
        const struct aw_graph_done *done = aw_graph_world_done(run->world, &step->requests);
        for (uint32_t i = 0; i < step->requests; i++)
            step->missed += done[i].failed || (double)done[i].latency_ns >
                                                  1e6 * run->config.app->types[done[i].type].slo_ms;
    }
    totals->requests += step->requests;
    totals->missed += step->missed;
}

static void total(struct aw_graph_run *run)
{
    struct aw_graph_run_totals *totals = &run->totals;
    totals->steps++;
    totals->missed_steps += run->sight->missed;
    totals->violations += run->sight->missed && !run->was_missed;
    totals->violated_s += run->sight->missed ? STEP_S : 0;
    totals->doubt_steps += run->taken.doubt;
    run->was_missed = run->sight->missed;
    run->cores_sum += run->plant.ops->cores(run->plant.self);
}

/* Half a second of the simulated world, and what came in meanwhile. */
static void live_world(struct aw_graph_run *run, struct aw_graph_run_step *step,
                       struct aw_graph_reading *readings)
{
    struct aw_spans *spans = aw_graph_world_spans(run->world);
    if (run->config.campaign)
        aw_injector_run(&run->injector, run->world, run->now_ns);
    else
        aw_graph_world_run(run->world, run->now_ns);
    count(run, step);
    aw_graph_world_read(run->world, readings);
    aw_firm_intake_take(run->intake, spans->at, spans->count, readings, run->now_ns, STEP_S,
                        &run->taken);
    aw_spans_reset(spans);
}

/* The same of real processes. A machine that is busy makes a step longer; what was missed
 * of it is not made up for. */
static enum aw_err live_mesh(struct aw_graph_run *run, struct aw_graph_run_step *step,
                             struct aw_graph_reading *readings, struct aw_diag *diag)
{
    struct aw_mesh *mesh = run->config.mesh;
    struct aw_mesh_spans spans;
    const int64_t before_ns = run->now_ns - AW_FIRM_STEP_NS;
    enum aw_err err = AW_OK;
    for (int64_t next = 0; next < run->now_ns && !err;) {
        next = run->now_ns;
        if (run->config.campaign)
            err = aw_injector_step(&run->injector, run->plant, &next);
        if (err)
            return aw_fail(diag, err, "the injector: %.400s", aw_mesh_trouble(mesh));
        next = next < run->now_ns ? next : run->now_ns;
        aw_mesh_wait(mesh, next);
        if (run->plant.ops->now(run->plant.self) < next)
            break; /* a signal came: this step is a short one */
    }
    const int64_t now_ns = run->plant.ops->now(run->plant.self);
    run->now_ns = now_ns > before_ns ? now_ns : run->now_ns;
    count(run, step);
    aw_mesh_read(mesh, readings);
    aw_mesh_spans(mesh, &spans);
    for (uint32_t i = 0; i < spans.count; i++)
        aw_firm_intake_push(run->intake, &spans.at[i], spans.arrived_us[i]);
    aw_firm_intake_take(run->intake, NULL, 0, readings, run->now_ns,
                        1e-9 * (double)(run->now_ns - before_ns), &run->taken);
    return AW_OK;
}

enum aw_err aw_graph_run_step(struct aw_graph_run *run, struct aw_graph_run_step *ret,
                              struct aw_diag *diag)
{
    struct aw_graph_reading readings[AW_GRAPH_SERVICES_MAX];
    enum aw_err err = AW_OK;
    run->now_ns += AW_FIRM_STEP_NS;
    *ret = (struct aw_graph_run_step){.desk = &run->desk, .orders_before = run->desk.order_count};
    if (run->config.mesh)
        err = live_mesh(run, ret, readings, diag);
    else
        live_world(run, ret, readings);
    if (err)
        return err;
    err = aw_firm_watch_take(run->watch, run->taken.spans, run->taken.done, run->taken.done_count,
                             readings, false, &run->sight);
    if (err)
        return aw_fail(diag, err, "no memory to look into traces");
    if (run->record)
        aw_service_desk_now(run->record, run->base_us + run->now_ns / 1000);
    undo_all(run);
    run->desk.doubt = run->taken.doubt;
    run->trouble_err = AW_OK;
    err = aw_firm_manager_step(run->manager, &run->desk, run->sight);
    if (err)
        return aw_fail(diag, err, "the manager could not decide");
    total(run);
    if (run->record)
        tell(run);
    if (run->trouble_err) /* nothing that is not in the log was done */
        return diag ? (*diag = run->trouble, run->trouble_err) : run->trouble_err;
    ret->at_s = 1e-9 * (double)run->now_ns;
    ret->sight = run->sight;
    ret->doubt = run->taken.doubt;
    ret->why = run->taken.why;
    return AW_OK;
}

void aw_graph_run_totals(const struct aw_graph_run *run, struct aw_graph_run_totals *ret)
{
    *ret = run->totals;
    ret->cores = run->totals.steps ? run->cores_sum / (double)run->totals.steps : 0;
    ret->spans = aw_firm_intake_counts(run->intake);
}

struct aw_service_desk *aw_graph_run_desk(struct aw_graph_run *run)
{
    return run->record;
}
