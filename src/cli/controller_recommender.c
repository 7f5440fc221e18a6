/* controller_recommender.c - the recommender as a role: its store, its audit log, its doors. */
#include "cli/controller.h"

#include "controller/recommender.h"
#include "daemon/config.h"
#include "frame/version.h"
#include "kube/prom_queries.h"
#include "kube/watch.h"
#include "policy/models.h"
#include "telemetry/metrics.h"
#include "web/tick_timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* Between two saves of what was learned, and so many times what the last one took: thousands of
 * pilots are a hundred megabytes. What is lost in a crash is learned again from the store. */
#define SAVE_US     (INT64_C(60) * 1000000)
#define SAVE_RARE   100
#define PILOTS_FILE "pilots.state"
#define VPAS_FILE   "vpas.json"

struct recommender {
    struct aw__controller *controller;
    struct aw_recommender *it;
    struct aw_kube_prom *prom;
    struct aw_kube_prom_queries questions;
    struct aw_kube_metrics *metrics;
    struct aw_store store;
    struct aw_desk *desk;
    struct aw_model_shelf *shelf;
    struct aw_tick_timing timing;
    struct aw_api api;
    struct aw_doors doors;
    int lock_fd; /* -1: none */
    char pilots[AW_TEXT_MAX + 32];
    char vpas[AW_TEXT_MAX + 32]; /* what is known for VerticalPodAutoscalers; "": nothing */
    int64_t save_us;
    uint64_t rounds, writes; /* that were told */
    bool save_ails, synced;
    _Atomic uint64_t vpa_objects, vpa_writes; /* whoever scrapes comes on another thread */
};

/* --- what is kept ----------------------------------------------------------------------------- */

static enum aw_err keep_open(struct recommender *r, struct aw_diag *diag)
{
    const struct aw__controller *c = r->controller;
    const struct aw_store_options options = {.workloads_max = AW_WORKLOADS_MAX};
    enum aw_err err = AW_OK;
    if (*c->state)
        err = aw_daemon_lock(c->state, true, &r->lock_fd, diag);
    const size_t len = strlen(c->state);
    if (!err && len && strncmp(c->store, c->state, len) == 0 && c->store[len] == '/')
        aw_daemon_mend(c->store, &r->controller->log);
    if (!err && *c->store)
        err = aw_store_open(&r->store, c->store, &options, NULL, diag);
    if (err || !*c->state)
        return err;
    snprintf(r->pilots, sizeof r->pilots, "%s/" PILOTS_FILE, c->state);
    snprintf(r->vpas, sizeof r->vpas, "%s/" VPAS_FILE, c->state);
    return aw_daemon_record_open(&(struct aw_daemon_record){.state = c->state}, &r->controller->log,
                                 &r->desk, diag);
}

static void save(struct recommender *r)
{
    struct aw_log *log = &r->controller->log;
    struct aw_diag why = {0};
    if (!*r->pilots || aw_recommender_counts(r->it)->rounds == 0)
        return;
    const enum aw_err err = aw_recommender_save(r->it, r->pilots, &why);
    if (err && !r->save_ails)
        aw_log_error(log, "what was learned cannot be saved", AW_LOG_STR("why", why.text));
    else if (!err && r->save_ails)
        aw_log_info(log, "over", AW_LOG_STR("what", "what was learned cannot be saved"));
    r->save_ails = err != AW_OK;
}

/* --- what is measured ------------------------------------------------------------------------- */

static void metrics_told(void *ctx, const char *source, enum aw_err err, const char *text)
{
    struct aw__controller *c = ctx;
    if (err)
        aw_log_warn(&c->log, "metrics", AW_LOG_STR("source", source), AW_LOG_STR("why", text));
    else
        aw_log_info(&c->log, "metrics", AW_LOG_STR("source", source), AW_LOG_STR("say", text));
}

static enum aw_err metrics_open(struct recommender *r, struct aw_kube *kube, struct aw_diag *diag)
{
    struct aw__controller *c = r->controller;
    const char *named = aw_args_text(c->run->args, "prometheus");
    struct aw_kube_prom_config where = {.kube = kube,
                                        .token_file =
                                            aw_args_text(c->run->args, "prometheus-token"),
                                        .ca_file = aw_args_text(c->run->args, "prometheus-ca")};
    enum aw_err err = AW_OK;
    if (named && strstr(named, "://"))
        where.url = named;
    else
        where.service = named;
    if (named)
        err = aw_kube_prom_open(&r->prom, &where, NULL, diag);
    if (!err && !named && !*c->server.metrics) {
        aw_log_warn(&c->log, "no metrics: nothing is recommended but what there is",
                    AW_LOG_STR("fix", "give --prometheus, or install metrics-server"));
        return AW_OK;
    }
    const char *questions = aw_args_text(c->run->args, "questions");
    struct aw_kube_metrics_config config = {.prom = r->prom,
                                            .kube = kube,
                                            .metrics_version = c->server.metrics,
                                            .pods_max = AW_RECOMMENDER_PODS_MAX,
                                            .told = metrics_told,
                                            .ctx = c};
    if (!err && questions)
        err = aw_kube_prom_queries_load(&r->questions, questions, diag);
    if (!err)
        aw_kube_prom_queries_apply(&r->questions, &config);
    return err ? err : aw_kube_metrics_open(&r->metrics, &config, NULL, diag);
}

/* --- doors ------------------------------------------------------------------------------------ */

/* The other roles, and VerticalPodAutoscalers. */
static void more_metrics(void *ctx, struct aw_metrics *m)
{
    struct recommender *r = ctx;
    aw__actors_metrics(m);
    aw_metrics_family(m, "aware_vpa_objects", AW_METRIC_GAUGE, NULL,
                      "VerticalPodAutoscalers that name us.");
    aw_metrics_sample(m, NULL, 0, (double)r->vpa_objects);
    aw_metrics_family(m, "aware_vpa_status_writes", AW_METRIC_COUNTER, NULL,
                      "Writes of their statuses.");
    aw_metrics_sample(m, NULL, 0, (double)r->vpa_writes);
}

static enum aw_err api_open(struct recommender *r, struct aw_diag *diag)
{
    const struct aw__controller *c = r->controller;
    struct aw_api_config *config = aw_alloc_new(NULL, 1, sizeof *config);
    if (!config)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the API");
    config->desk = r->desk;
    config->speed = c->speed;
    config->step_s = c->step_s;
    config->timing = &r->timing;
    config->more = more_metrics;
    config->ctx = r;
    snprintf(config->version, sizeof config->version, "%s", AW_VERSION_NUMBER);
    snprintf(config->cluster, sizeof config->cluster, "kubernetes");
    snprintf(config->state, sizeof config->state, "%.*s", (int)sizeof config->state - 1, c->state);
    snprintf(config->audit, sizeof config->audit, "%.*s/" AW_DAEMON_AUDIT,
             (int)(sizeof config->audit - sizeof AW_DAEMON_AUDIT - 1), c->state);
    snprintf(config->store, sizeof config->store, "%.*s", (int)sizeof config->store - 1, c->store);
    enum aw_err err = aw_api_init(&r->api, config);
    if (err)
        aw_fail(diag, err, "no memory for the API");
    aw_alloc_free(NULL, config);
    err = err ? err : aw_doors_open(&r->doors, &r->api, c->socket, &c->door, &c->probes, diag);
    if (!err)
        aw_doors_tell(&r->doors, &c->door, &r->controller->log);
    return err;
}

static void ticked(void *ctx, const struct aw_loop_counts *counts, const char *store_trouble)
{
    struct recommender *r = ctx;
    if (r->api.made)
        aw_api_tick(&r->api, counts, store_trouble);
}

/* --- the role --------------------------------------------------------------------------------- */

static bool leads(void *ctx)
{
    return aw__controller_leads(((struct recommender *)ctx)->controller);
}

static void role_close(void *self)
{
    struct recommender *r = self;
    if (!r)
        return;
    if (r->api.made)
        aw_api_stopping(&r->api);
    if (r->it)
        save(r);
    aw_doors_close(&r->doors);
    aw_recommender_free(r->it);
    aw_api_deinit(&r->api);
    aw_desk_free(r->desk);
    aw_tick_timing_deinit(&r->timing);
    aw_store_close(&r->store);
    aw_model_shelf_free(r->shelf);
    aw_kube_metrics_close(r->metrics);
    aw_kube_prom_queries_deinit(&r->questions);
    aw_kube_prom_close(r->prom);
    if (r->lock_fd >= 0)
        close(r->lock_fd);
    aw_alloc_free(NULL, r);
}

static enum aw_err role_open(struct aw__controller *c, struct aw_kube *kube, void **ret_self,
                             struct aw_diag *diag)
{
    struct recommender *r = aw_alloc_new(NULL, 1, sizeof *r);
    if (!r)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a recommender");
    r->controller = c;
    r->lock_fd = -1;
    enum aw_err err = keep_open(r, diag);
    err = err ? err : metrics_open(r, kube, diag);
    err = err ? err : aw_models_open(aw_args_text(c->run->args, "models"), &r->shelf, diag);
    if (!err && (err = aw_tick_timing_init(&r->timing, NULL)))
        aw_fail(diag, err, "no memory for a clock");
    const struct aw_recommender_config config = {
        .kube = kube,
        .server = c->server,
        .ns = c->ns,
        .instance = c->instance,
        .metrics = r->metrics,
        .store = *c->store ? &r->store : NULL,
        .desk = r->desk,
        .hooks = r->desk ? aw_tick_timing_desk(&r->timing, aw_desk_hooks(r->desk)) : NULL,
        .shelf = r->shelf,
        .log = &c->log,
        .memory = *r->pilots ? r->pilots : NULL,
        .vpa_memory = *r->vpas ? r->vpas : NULL,
        .vpa_name = aw_args_text(c->run->args, "recommender-name"),
        .prom = r->prom,
        .prom_selector = r->questions.selector,
        .leads = leads,
        .ticked = ticked,
        .ctx = r,
        .step_s = c->step_s,
        .speed = c->speed,
        .thread_count = c->thread_count,
        .learns_beside = true};
    err = err ? err : aw_recommender_new(&r->it, &config, NULL, diag);
    if (!err && r->desk && *c->socket)
        err = api_open(r, diag);
    if (err) {
        role_close(r);
        return err;
    }
    r->save_us = aw_clock_monotonic_us(NULL) + SAVE_US;
    *ret_self = r;
    return AW_OK;
}

static void round_tell(struct recommender *r)
{
    const struct aw_recommender_counts *counts = aw_recommender_counts(r->it);
    r->vpa_objects = counts->vpas;
    r->vpa_writes = counts->vpa_writes;
    if (counts->rounds == r->rounds)
        return;
    aw_log_debug(&r->controller->log, "round", AW_LOG_INT("ms", counts->round_us / 1000),
                 AW_LOG_INT("cpu_ms", counts->round_cpu_us / 1000),
                 AW_LOG_INT("pilot_kib", (int64_t)(counts->pilot_bytes >> 10)),
                 AW_LOG_INT("copy_kib", (int64_t)(counts->copy_bytes >> 10)),
                 AW_LOG_INT("objects", counts->objects), AW_LOG_INT("active", counts->active),
                 AW_LOG_INT("invalid", counts->invalid),
                 AW_LOG_INT("writes", (int64_t)(counts->writes - r->writes)),
                 AW_LOG_INT("waiting", counts->waiting));
    r->rounds = counts->rounds;
    r->writes = counts->writes;
}

static enum aw_err role_step(void *self, struct aw_diag *diag)
{
    struct recommender *r = self;
    const enum aw_err err = aw_recommender_step(r->it, diag);
    round_tell(r);
    if (r->api.made) /* who follows another is as ready as it can be */
        aw_api_standby(&r->api, aw_recommender_synced(r->it) && !leads(r));
    const int64_t now_us = aw_clock_monotonic_us(NULL);
    if (!r->synced && aw_recommender_synced(r->it)) {
        r->synced = true;
        aw_alloc_trim(); /* lists were long, and little of them is kept */
        aw_log_info(&r->controller->log, "following");
        sd_notify(0, "READY=1");
    }
    if (now_us >= r->save_us) {
        save(r);
        aw_alloc_trim();
        const int64_t took_us = aw_clock_monotonic_us(NULL) - now_us;
        r->save_us = now_us + (SAVE_RARE * took_us > SAVE_US ? SAVE_RARE * took_us : SAVE_US);
    }
    return err;
}

static int64_t role_due(const void *self)
{
    return aw_recommender_due(((const struct recommender *)self)->it);
}

const struct aw__role aw__role_recommender = {.name = "recommender",
                                              .open = role_open,
                                              .step = role_step,
                                              .due = role_due,
                                              .close = role_close};
