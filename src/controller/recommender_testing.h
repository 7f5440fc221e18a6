/*
 * recommender_testing.h - a recommender on the double, with time that tests move; included by tests
 * alone.
 *
 * Virtual time runs as fast as it is asked to; what the server sends takes real time. So the clock
 * is only moved when every informer has heard of the server lately.
 */
#ifndef AW_CONTROLLER_RECOMMENDER_TESTING_H
#define AW_CONTROLLER_RECOMMENDER_TESTING_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "controller/recommender_internal.h"
#include "kube/kube_testing.h"

#define MPAS        "/apis/autoscaling.aware.dev/v1alpha1/multidimpodautoscalers"
#define PODS        "/api/v1/pods"
#define DEPLOYMENTS "/apis/apps/v1/deployments"
#define USAGE       "/apis/metrics.k8s.io/v1beta1/pods"
#define PATCHES     "PATCH /apis/autoscaling.aware.dev"
#define S           INT64_C(1000000)
/* Of an object, behind its target and its goals. */
#define BOUNDS                                                             \
    ",\"constraints\":{\"global\":{\"minReplicas\":1,\"maxReplicas\":10}," \
    "\"container\":[{\"name\":\"*\",\"requests\":{"                        \
    "\"minAllowed\":{\"cpu\":\"100m\",\"memory\":\"128Mi\"},"              \
    "\"maxAllowed\":{\"cpu\":\"2\",\"memory\":\"2Gi\"}}}]}"
#define GOALS_SLO "{\"slo\":{\"latency\":{\"quantile\":\"p99\",\"target\":\"200ms\"}}}"
#define GOALS_USE                                                                      \
    "{\"metrics\":[{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"target\":{" \
    "\"type\":\"Utilization\",\"averageUtilization\":60}}}]}"
#define AUTO BOUNDS ",\"policy\":{\"updateMode\":\"Auto\"}"

struct rec_world {
    struct aw_kube_world api;
    struct aw_kube_metrics *metrics;
    struct aw_store store;
    struct aw_recommender *r;
    struct aw_desk *desk;
    bool leads;
    double speed;       /* of the loop's time; 0: the real one */
    double cores;       /* that each pod uses */
    const char *memory; /* the same */
    bool measured;      /* usage is refreshed before each round */
    const char *goals;  /* of objects, as JSON */
    int64_t heard_us;   /* virtual time of the last bookmark */
    uint32_t ticked;
    struct aw_log *log; /* NULL: nobody reads it */
};

static bool rec_leads(void *ctx)
{
    return ((struct rec_world *)ctx)->leads;
}

static void rec_ticked(void *ctx, const struct aw_loop_counts *counts, const char *trouble)
{
    (void)counts;
    (void)trouble;
    ((struct rec_world *)ctx)->ticked++;
}

static void rec_begin_with(struct rec_world *w, const char *memory)
{
    const struct aw_recommender_config config = {
        .kube = w->api.kube,
        .server = {.events = "v1", .metrics = "v1beta1", .pod_resize = true},
        .metrics = w->metrics,
        .store = &w->store,
        .desk = w->desk,
        .clock = &w->api.clock.clock,
        .leads = rec_leads,
        .ticked = rec_ticked,
        .ctx = w,
        .memory = memory,
        .log = w->log,
        .speed = w->speed,
        .objects_max = 64,
        .pods_max = 256};
    struct aw_diag diag = {0};
    if (aw_recommender_new(&w->r, &config, NULL, &diag))
        fail_msg("%s", diag.text);
}

static void rec_open(struct rec_world *w)
{
    const struct aw_store_options options = {
        .rows_max = 4096, .episodes_max = 256, .workloads_max = 64};
    *w = (struct rec_world){
        .leads = true, .cores = 0.2, .memory = "200Mi", .measured = true, .goals = GOALS_SLO};
    aw_kube_world_open(&w->api, &(struct aw_kube_options){.requests_per_second = 10000});
    const struct aw_kube_metrics_config metrics = {
        .kube = w->api.kube, .metrics_version = "v1beta1", .clock = &w->api.clock.clock};
    assert_ok(aw_kube_metrics_open(&w->metrics, &metrics, NULL, NULL));
    assert_ok(aw_store_open(&w->store, "memory", &options, NULL, NULL));
}

static void rec_close(struct rec_world *w)
{
    aw_recommender_free(w->r);
    aw_desk_free(w->desk);
    aw_store_close(&w->store);
    aw_kube_metrics_close(w->metrics);
    aw_kube_world_close(&w->api);
}

/* --- what is in the cluster ------------------------------------------------------------------- */

static void put_object(struct rec_world *w, const char *collection, json_t *object)
{
    assert_non_null(object);
    char *text = json_dumps(object, JSON_COMPACT);
    aw_fake_apiserver_set(w->api.twin, collection, text);
    free(text);
    json_decref(object);
}

static void put_deployment(struct rec_world *w, const char *name, int replicas)
{
    put_object(w, DEPLOYMENTS,
               json_pack("{s:{s:s,s:s,s:i},s:{s:i,s:{s:{s:s}}},s:{s:i,s:i,s:i,s:i}}", "metadata",
                         "namespace", "shop", "name", name, "generation", 1, "spec", "replicas",
                         replicas, "selector", "matchLabels", "app", name, "status", "replicas",
                         replicas, "readyReplicas", replicas, "updatedReplicas", replicas,
                         "observedGeneration", 1));
}

static void put_pod(struct rec_world *w, const char *app, int n, const char *cpu,
                    const char *memory)
{
    char name[64], owner[64];
    snprintf(name, sizeof name, "%s-77-%d", app, n);
    snprintf(owner, sizeof owner, "%s-77", app);
    put_object(w, PODS,
               json_pack("{s:{s:s,s:s,s:s,s:{s:s},s:[{s:s,s:s,s:s,s:b}]},"
                         "s:{s:s,s:[{s:s,s:{s:{s:s,s:s}}}]},"
                         "s:{s:s,s:s,s:[{s:s,s:s,s:s}],s:[{s:s,s:i,s:b,s:{s:{}}}]}}",
                         "metadata", "namespace", "shop", "name", name, "creationTimestamp",
                         "2026-01-31T10:00:00Z", "labels", "app", app, "ownerReferences", "kind",
                         "ReplicaSet", "name", owner, "uid", "u", "controller", 1, "spec",
                         "nodeName", "n1", "containers", "name", "web", "resources", "requests",
                         "cpu", cpu, "memory", memory, "status", "phase", "Running", "startTime",
                         "2026-01-31T10:00:00Z", "conditions", "type", "Ready", "status", "True",
                         "lastTransitionTime", "2026-01-31T10:00:05Z", "containerStatuses", "name",
                         "web", "restartCount", 0, "ready", 1, "state", "running"));
}

static inline void put_app(struct rec_world *w, const char *app, int replicas)
{
    put_deployment(w, app, replicas);
    for (int i = 0; i < replicas; i++)
        put_pod(w, app, i, "500m", "512Mi");
}

/* `more` is JSON of further members of the spec, beginning with a comma; "" is none. */
static void put_mpa(struct rec_world *w, const char *name, const char *target, int generation,
                    const char *more)
{
    char text[16384];
    json_t *was = aw_fake_apiserver_get(w->api.twin, MPAS, "shop", name);
    char *status = json_dumps(json_object_get(was, "status"), JSON_COMPACT);
    snprintf(
        text, sizeof text,
        "{\"apiVersion\":\"autoscaling.aware.dev/v1alpha1\",\"kind\":\"MultidimPodAutoscaler\","
        "\"metadata\":{\"namespace\":\"shop\",\"name\":\"%s\",\"generation\":%d,"
        "\"creationTimestamp\":\"2026-01-31T11:00:00Z\"},"
        "\"spec\":{\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\","
        "\"name\":\"%s\"},\"goals\":%s%s}%s%s}",
        name, generation, target, w->goals, more, status ? ",\"status\":" : "",
        status ? status : "");
    free(status);
    json_decref(was);
    aw_fake_apiserver_set(w->api.twin, MPAS, text);
}

/* What metrics-server would say of every pod now. */
static void put_usage(struct rec_world *w)
{
    uint32_t at = 0;
    const struct aw_kube_item *item;
    char when[AW_KUBE_TIME_MAX], cpu[32];
    if (!w->r)
        return;
    aw_kube_time_print(w->api.clock.wall_us, when, sizeof when);
    snprintf(cpu, sizeof cpu, "%lldn", (long long)(w->cores * 1e9));
    while ((item = aw__cluster_view_pod_walk(w->r->scene, &at)))
        put_object(w, USAGE,
                   json_pack("{s:{s:s,s:s},s:s,s:s,s:[{s:s,s:{s:s,s:s}}]}", "metadata", "namespace",
                             "shop", "name", strchr(item->key, '/') + 1, "timestamp", when,
                             "window", "30s", "containers", "name", "web", "usage", "cpu", cpu,
                             "memory", w->memory));
}

/* --- time ------------------------------------------------------------------------------------- */

static enum aw_err rec_turn(struct rec_world *w)
{
    struct aw_diag diag = {0};
    const enum aw_err err = aw_recommender_step(w->r, &diag);
    assert_ok(aw_kube_wait(w->api.kube, w->api.clock.mono_us));
    usleep(200);
    return err;
}

/* Real time for the server, none for us. */
#define rec_until(world, condition)                                          \
    do {                                                                     \
        const int64_t begun_us = aw_clock_monotonic_us(NULL);                \
        while (!(condition)) {                                               \
            (void)!rec_turn(world);                                          \
            if (aw_clock_monotonic_us(NULL) - begun_us > AW_TESTING_WAIT_US) \
                fail_msg("it never came true: %s", #condition);              \
        }                                                                    \
    } while (0)

static bool rec_heard(const struct rec_world *w, int64_t since_us)
{
    const struct aw_kube_informer_state *state;
    const char *name;
    for (uint32_t i = 0; (state = aw__cluster_view_state(w->r->scene, i, &name)); i++)
        if (!state->synced || state->in_touch_us < since_us)
            return false;
    return true;
}

static void rec_synced(struct rec_world *w)
{
    rec_until(w, rec_heard(w, 0));
    w->heard_us = w->api.clock.mono_us;
}

static void rec_pass(struct rec_world *w, int64_t us)
{
    aw_clock_virtual_advance(&w->api.clock, us);
    if (w->api.clock.mono_us - w->heard_us < 45 * S)
        return;
    w->heard_us = w->api.clock.mono_us;
    const int64_t begun_us = aw_clock_monotonic_us(NULL);
    for (uint32_t i = 0; !rec_heard(w, w->heard_us); i++) {
        if (i % 64 == 0) /* a watch that is just being opened has missed the one before */
            aw_fake_apiserver_bookmark(w->api.twin);
        (void)!rec_turn(w);
        if (aw_clock_monotonic_us(NULL) - begun_us > AW_TESTING_WAIT_US)
            fail_msg("the server was never heard again");
    }
}

/* Rounds of 15 seconds each. */
static void rec_rounds(struct rec_world *w, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t before = aw_recommender_counts(w->r)->rounds;
        if (w->measured)
            put_usage(w);
        rec_pass(w, 15 * S);
        if (aw_recommender_counts(w->r)->rounds == before)
            rec_until(w, aw_recommender_counts(w->r)->rounds > before);
    }
}

static inline void rec_start(struct rec_world *w)
{
    rec_begin_with(w, NULL);
    rec_until(w, aw_recommender_synced(w->r));
    rec_synced(w);
}

/* --- what is said ----------------------------------------------------------------------------- */

static struct aw_mpa_status status_of(struct rec_world *w, const char *name)
{
    struct aw_mpa_status status;
    json_t *object = aw_fake_apiserver_get(w->api.twin, MPAS, "shop", name);
    assert_non_null(object);
    aw_mpa_status_read(json_object_get(object, "status"), &status);
    json_decref(object);
    return status;
}

static bool says(struct rec_world *w, const char *name, enum aw_mpa_condition_type type,
                 enum aw_mpa_holds holds, const char *reason)
{
    const struct aw_mpa_status status = status_of(w, name);
    return status.condition[type].holds == holds &&
           (!reason || !strcmp(status.condition[type].reason, reason));
}

#endif
