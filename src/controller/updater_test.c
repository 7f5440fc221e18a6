/* updater_test.c - the updater against the double: what is written, and what is not. */
#include "controller/updater.h"

#include <stdio.h>
#include <string.h>

#include "kube/kube_testing.h"
#include "kube/lease.h"

#define MPAS           "/apis/autoscaling.aware.dev/v1alpha1/multidimpodautoscalers"
#define DEPLOYMENTS    "/apis/apps/v1/deployments"
#define REPLICASETS    "/apis/apps/v1/replicasets"
#define PODS           "/api/v1/pods"
#define HPAS           "/apis/autoscaling/v2/horizontalpodautoscalers"
#define VPAS           "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
#define SCALED_OBJECTS "/apis/keda.sh/v1alpha1/scaledobjects"
#define LEASES         "/apis/coordination.k8s.io/v1/leases"
#define SCALE          "PATCH /apis/apps/v1/namespaces/n/deployments/web/scale"
#define STATUS         "PUT /apis/autoscaling.aware.dev/"
#define EVENTS         "POST /apis/events.k8s.io/v1/namespaces/n/events"
#define SECOND_US      1000000

struct world {
    struct aw_kube_world kube;
    struct aw_kube_server server;
    struct aw_updater *updater;
    int64_t renewed_us; /* of the webhook's Lease */
    bool silent;        /* the recommender means nothing anew */
};

/* An object for Deployment web, whose recommendation is as old as `age_s`. */
static void set_object(struct world *world, const char *mode, const char *recommendation, int age_s)
{
    char json[800], time[AW_KUBE_TIME_MAX];
    aw_kube_time_print(aw_clock_now_us(&world->kube.clock.clock) - (int64_t)age_s * SECOND_US, time,
                       sizeof time);
    snprintf(json, sizeof json,
             "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web\",\"generation\":1},\"spec\":{"
             "\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":"
             "\"web\"},\"policy\":{\"updateMode\":\"%s\"},\"constraints\":{\"global\":{"
             "\"maxReplicas\":10}}},\"status\":{\"observedGeneration\":1,\"recommendation\":{%s,"
             "\"container\":\"app\",\"decision\":\"17\",\"time\":\"%s\"},\"conditions\":["
             "{\"type\":\"RecommendationProvided\",\"status\":\"True\"}]}}",
             mode, recommendation, time);
    aw_fake_apiserver_set(world->kube.twin, MPAS, json);
}

static void set_pod(struct world *world, int i, const char *resources)
{
    char json[800];
    snprintf(json, sizeof json,
             "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web-1-%d\",\"creationTimestamp\":"
             "\"2026-01-01T00:00:00Z\",\"ownerReferences\":[{\"kind\":\"ReplicaSet\",\"name\":"
             "\"web-1\",\"uid\":\"r\",\"controller\":true}]},\"spec\":{\"containers\":[{\"name\":"
             "\"app\",\"resources\":{%s}}]},\"status\":{\"phase\":\"Running\",\"qosClass\":"
             "\"Burstable\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
             i, resources);
    aw_fake_apiserver_set(world->kube.twin, PODS, json);
}

static void set_deployment(struct world *world, int replicas)
{
    char json[400];
    snprintf(json, sizeof json,
             "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web\",\"generation\":1},\"spec\":{"
             "\"replicas\":%d},\"status\":{\"observedGeneration\":1,\"replicas\":%d,"
             "\"readyReplicas\":%d,\"updatedReplicas\":%d}}",
             replicas, replicas, replicas, replicas);
    aw_fake_apiserver_set(world->kube.twin, DEPLOYMENTS, json);
}

#define SMALL "\"requests\":{\"cpu\":\"250m\",\"memory\":\"512Mi\"}"

/* `others`: the server has VerticalPodAutoscalers and KEDA. */
static void open_world_with(struct world *world, bool resize, bool others)
{
    *world = (struct world){0};
    aw_kube_world_open(&world->kube, &(struct aw_kube_options){.requests_per_second = 10000});
    set_deployment(world, 3);
    aw_fake_apiserver_set(
        world->kube.twin, REPLICASETS,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web-1\",\"ownerReferences\":[{"
        "\"kind\":\"Deployment\",\"name\":\"web\",\"uid\":\"d\",\"controller\":true}]}}");
    for (int i = 0; i < 3; i++)
        set_pod(world, i, SMALL);
    assert_ok(aw_kube_discover(world->kube.kube, &world->server, NULL));
    world->server.pod_resize = resize;
    snprintf(world->server.vpa, sizeof world->server.vpa, "%s", others ? "v1" : "");
    snprintf(world->server.keda, sizeof world->server.keda, "%s", others ? "v1alpha1" : "");
    const struct aw_updater_config config = {
        .clock = &world->kube.clock.clock, .lease_ns = "sys", .lease_name = "aware-admission"};
    assert_ok(
        aw_updater_new(&world->updater, world->kube.kube, &world->server, &config, NULL, NULL));
}

static void open_world(struct world *world, bool resize)
{
    open_world_with(world, resize, false);
}

static void close_world(struct world *world)
{
    aw_updater_free(world->updater);
    aw_kube_world_close(&world->kube);
}

/* The recommendation is meant anew, as the recommender does: all else of the object stays. */
static void refresh(struct world *world)
{
    json_t *object = aw_fake_apiserver_get(world->kube.twin, MPAS, "n", "web");
    json_t *recommendation = json_object_get(json_object_get(object, "status"), "recommendation");
    char time[AW_KUBE_TIME_MAX];
    if (recommendation && !world->silent) {
        aw_kube_time_print(aw_clock_now_us(&world->kube.clock.clock), time, sizeof time);
        json_object_set_new(recommendation, "time", json_string(time));
        char *text = json_dumps(object, 0);
        aw_fake_apiserver_set(world->kube.twin, MPAS, text);
        free(text);
    }
    json_decref(object);
}

/* Steps until a round was made, or nobody asks for one. Watches are real threads and take as long
 * as they take; the clock of the updater is virtual. */
static void do_round(struct world *world)
{
    const uint64_t rounds = aw_updater_counts(world->updater)->rounds;
    const int64_t end_us = aw_clock_monotonic_us(NULL) + AW_TESTING_WAIT_US;
    refresh(world);
    for (int i = 0; aw_updater_counts(world->updater)->rounds == rounds &&
                    aw_clock_monotonic_us(NULL) < end_us;
         i++) {
        (void)!aw_updater_step(world->updater, NULL);
        if (aw_updater_counts(world->updater)->acting == 0 && aw_updater_synced(world->updater) &&
            i > 20)
            break;
        aw_clock_virtual_advance(&world->kube.clock, SECOND_US / 2);
        (void)!aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + 500);
        (void)!aw_kube_wait(world->kube.kube, aw_clock_monotonic_us(&world->kube.clock.clock));
    }
}

/* Rounds until `done`. */
static bool until(struct world *world, bool (*done)(struct world *world))
{
    const int64_t end_us = aw_clock_monotonic_us(NULL) + AW_TESTING_WAIT_US;
    while (!done(world)) {
        if (aw_clock_monotonic_us(NULL) > end_us)
            return false;
        do_round(world);
    }
    return true;
}

static uint32_t count(struct world *world, const char *match)
{
    return aw_fake_apiserver_count(world->kube.twin, match);
}

static int64_t int_in(struct world *world, const char *collection, const char *name,
                      const char *path)
{
    json_t *object = aw_fake_apiserver_get(world->kube.twin, collection, "n", name);
    const int64_t value = aw_kube_int_at(object, path, -1);
    json_decref(object);
    return value;
}

/* The webhook's Lease is renewed, as it is while somebody serves. */
static void renew(struct world *world)
{
    struct aw_kube_lease lease = {.holder = "pod", .duration_s = 60};
    world->renewed_us += 10 * SECOND_US;
    lease.renewed_us = 1769860800000000 + world->renewed_us;
    json_t *object = aw_kube_lease_write(&lease, "sys", "aware-admission");
    char *text = json_dumps(object, 0);
    aw_fake_apiserver_set(world->kube.twin, LEASES, text);
    free(text);
    json_decref(object);
}

static void recommend_only_writes_nothing_and_follows_nothing(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    set_object(&world, "Off", "\"replicas\":5,\"cpu\":\"500m\",\"memory\":\"1Gi\"", 0);
    for (int i = 0; i < 3; i++)
        do_round(&world);
    assert_true(aw_updater_synced(world.updater));
    assert_int_equal(aw_updater_counts(world.updater)->objects, 1);
    assert_int_equal(aw_updater_counts(world.updater)->acting, 0);
    assert_int_equal(count(&world, "P"), 0); /* POST, PUT, PATCH */
    assert_int_equal(count(&world, "GET " PODS), 0);
    close_world(&world);
}

/* Steps until nothing is due before the next news or the next round. */
static bool rests(struct world *world)
{
    const int64_t end_us = aw_clock_monotonic_us(NULL) + AW_TESTING_WAIT_US;
    while (aw_clock_monotonic_us(NULL) < end_us) {
        (void)!aw_updater_step(world->updater, NULL);
        if (aw_updater_due(world->updater) > aw_clock_monotonic_us(&world->kube.clock.clock))
            return true;
        (void)!aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + 500);
    }
    return false;
}

static void who_has_nothing_to_do_waits_for_news(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    set_object(&world, "Off", "\"replicas\":5", 0);
    assert_true(rests(&world));
    assert_true(aw_updater_synced(world.updater));
    assert_int_equal(aw_updater_due(world.updater), INT64_MAX);
    set_object(&world, "Auto", "\"replicas\":5", 0);
    do_round(&world);
    assert_int_equal(aw_updater_counts(world.updater)->acting, 1);
    assert_true(rests(&world));
    assert_true(aw_updater_due(world.updater) < INT64_MAX); /* the next round */
    close_world(&world);
}

static bool scaled(struct world *world)
{
    return int_in(world, DEPLOYMENTS, "web", "spec.replicas") == 5;
}

static void replicas_follow_the_recommendation(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    set_object(&world, "Auto", "\"replicas\":5", 0);
    assert_true(until(&world, scaled));
    json_t *body = aw_fake_apiserver_body(world.kube.twin, SCALE);
    assert_true(aw_kube_text_at(body, "metadata.resourceVersion")[0]); /* never blindly */
    json_decref(body);
    body = aw_fake_apiserver_body(world.kube.twin, EVENTS);
    assert_string_equal(aw_kube_text_at(body, "reason"), "ScaledHorizontally");
    assert_string_equal(aw_kube_text_at(body, "regarding.name"), "web");
    assert_non_null(strstr(aw_kube_text_at(body, "note"), "from 3 to 5 replicas (decision 17"));
    json_decref(body);
    assert_int_equal(count(&world, STATUS), 0); /* nothing that needs anybody */
    close_world(&world);
}

static bool set_scaled(struct world *world)
{
    return int_in(world, REPLICASETS, "alone", "spec.replicas") == 5;
}

static void a_replica_set_of_its_own_is_scaled_too(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    aw_fake_apiserver_set(
        world.kube.twin, REPLICASETS,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"alone\",\"generation\":1},\"spec\":{"
        "\"replicas\":2},\"status\":{\"observedGeneration\":1,\"replicas\":2}}");
    set_object(&world, "Auto", "\"replicas\":5", 0);
    json_t *object = aw_fake_apiserver_get(world.kube.twin, MPAS, "n", "web");
    json_t *target = json_object_get(json_object_get(object, "spec"), "scaleTargetRef");
    json_object_set_new(target, "kind", json_string("ReplicaSet"));
    json_object_set_new(target, "name", json_string("alone"));
    char *text = json_dumps(object, 0);
    aw_fake_apiserver_set(world.kube.twin, MPAS, text);
    free(text);
    json_decref(object);
    assert_true(until(&world, set_scaled));
    assert_int_equal(int_in(&world, DEPLOYMENTS, "web", "spec.replicas"), 3);
    close_world(&world);
}

static bool refused_once(struct world *world)
{
    return aw_updater_counts(world->updater)->conflicts > 0;
}

static void a_conflict_is_looked_at_again(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    set_object(&world, "Auto", "\"replicas\":5", 0);
    aw_fake_apiserver_fault(world.kube.twin,
                            &(struct aw_fake_apiserver_fault){
                                .match = SCALE, .count = 1, .status = 409, .reason = "Conflict"});
    assert_true(until(&world, refused_once));
    set_object(&world, "Auto", "\"replicas\":5", 0);
    assert_true(until(&world, scaled));
    assert_int_equal(aw_updater_counts(world.updater)->failed, 0);
    close_world(&world);
}

static void a_stale_recommendation_is_not_acted_on(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    world.silent = true;
    set_object(&world, "Auto", "\"replicas\":5", 301);
    for (int i = 0; i < 3; i++)
        do_round(&world);
    assert_int_equal(aw_updater_counts(world.updater)->acting, 1);
    assert_int_equal(aw_updater_counts(world.updater)->waiting, 1);
    assert_int_equal(count(&world, "PATCH"), 0);
    close_world(&world);
}

static bool told_once(struct world *world)
{
    return aw_updater_counts(world->updater)->told > 0;
}

static bool told_twice(struct world *world)
{
    return aw_updater_counts(world->updater)->told > 1;
}

static void another_autoscaler_of_the_same_target_is_told_and_not_fought(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    aw_fake_apiserver_set(world.kube.twin, HPAS,
                          "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web-hpa\"},\"spec\":{"
                          "\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\","
                          "\"name\":\"web\"}}}");
    set_object(&world, "Auto", "\"replicas\":5", 0);
    assert_true(until(&world, told_once));
    json_t *object = aw_fake_apiserver_get(world.kube.twin, MPAS, "n", "web");
    const char *able = "status.conditions[type=AbleToScale].";
    char path[64];
    snprintf(path, sizeof path, "%sstatus", able);
    assert_string_equal(aw_kube_text_at(object, path), "False");
    snprintf(path, sizeof path, "%sreason", able);
    assert_string_equal(aw_kube_text_at(object, path), "ConflictingAutoscaler");
    snprintf(path, sizeof path, "%smessage", able);
    assert_non_null(strstr(aw_kube_text_at(object, path), "HorizontalPodAutoscaler web-hpa"));
    /* what others wrote is still there */
    assert_string_equal(
        aw_kube_text_at(object, "status.conditions[type=RecommendationProvided].status"), "True");
    assert_string_equal(aw_kube_text_at(object, "status.recommendation.decision"), "17");
    json_decref(object);
    for (int i = 0; i < 10; i++)
        do_round(&world);
    assert_int_equal(aw_updater_counts(world.updater)->told, 1); /* once is enough */
    assert_int_equal(count(&world, "PATCH"), 0);
    /* it goes away: that is told too, and work goes on */
    aw_fake_apiserver_remove(world.kube.twin, HPAS, "n", "web-hpa");
    assert_true(until(&world, scaled));
    assert_true(until(&world, told_twice));
    object = aw_fake_apiserver_get(world.kube.twin, MPAS, "n", "web");
    snprintf(path, sizeof path, "%sstatus", able);
    assert_string_equal(aw_kube_text_at(object, path), "True");
    json_decref(object);
    close_world(&world);
}

static void set_vpa(struct world *world, const char *mode)
{
    char json[320];
    snprintf(
        json, sizeof json,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"v\"},\"spec\":{\"targetRef\":{\"apiVersion\""
        ":\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"web\"},\"updatePolicy\":{\"updateMode\":"
        "\"%s\"}}}",
        mode);
    aw_fake_apiserver_set(world->kube.twin, VPAS, json);
}

static void vertical_and_event_driven_autoscalers_are_not_fought_either(void **state)
{
    static const struct {
        const char *why, *vpa, *keda; /* its mode; the name of its target */
        bool acts;
    } cases[] = {
        {"a VPA that acts", "Auto", NULL, false},
        {"a VPA that sizes new pods", "Initial", NULL, false},
        {"a VPA that recommends", "Off", NULL, true},
        {"KEDA, whose targets are Deployments unless it says so", NULL, "web", false},
        {"KEDA, about another target", NULL, "other", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world;
        char json[200];
        open_world_with(&world, true, true);
        if (cases[i].vpa)
            set_vpa(&world, cases[i].vpa);
        snprintf(json, sizeof json,
                 "{\"metadata\":{\"namespace\":\"n\",\"name\":\"k\"},\"spec\":{\"scaleTargetRef\":{"
                 "\"name\":\"%s\"}}}",
                 cases[i].keda ? cases[i].keda : "");
        if (cases[i].keda)
            aw_fake_apiserver_set(world.kube.twin, SCALED_OBJECTS, json);
        set_object(&world, "Auto", "\"replicas\":5", 0);
        if (!until(&world, cases[i].acts ? scaled : told_once))
            fail_msg("%s", cases[i].why);
        assert_int_equal(scaled(&world), cases[i].acts);
        close_world(&world);
    }
}

static bool all_resized(struct world *world)
{
    uint32_t done = 0;
    char name[16];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "web-1-%d", i);
        json_t *pod = aw_fake_apiserver_get(world->kube.twin, PODS, "n", name);
        const json_t *container = json_array_get(aw_kube_at(pod, "spec.containers"), 0);
        done += !strcmp(aw_kube_text_at(container, "resources.requests.cpu"), "500m");
        json_decref(pod);
    }
    return done == 3;
}

static void sizes_follow_in_place_where_the_server_can(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    set_object(&world, "Auto", "\"replicas\":3,\"cpu\":\"500m\",\"memory\":\"1Gi\"", 0);
    assert_true(until(&world, all_resized));
    assert_int_equal(aw_updater_counts(world.updater)->resized, 3);
    assert_int_equal(count(&world, "POST /api/v1/namespaces/n/pods/"), 0); /* nobody was evicted */
    do_round(&world);
    assert_int_equal(aw_updater_counts(world.updater)->waiting, 0);
    close_world(&world);
}

static void what_the_node_cannot_hold_is_told_and_not_tried_for_ever(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    set_object(&world, "Auto", "\"replicas\":3,\"cpu\":\"500m\",\"memory\":\"1Gi\"", 0);
    aw_fake_apiserver_nodes_resize(world.kube.twin, AW_FAKE_RESIZE_INFEASIBLE);
    assert_true(until(&world, told_once));
    for (int i = 0; i < 10; i++)
        do_round(&world);
    assert_int_equal(aw_updater_counts(world.updater)->resized, 3); /* each pod once */
    assert_int_equal(count(&world, "POST /api/v1/namespaces/n/pods/"), 0);
    close_world(&world);
}

static void assert_able_reason(struct world *world, const char *reason, const char *words)
{
    json_t *object = aw_fake_apiserver_get(world->kube.twin, MPAS, "n", "web");
    const char *path = "status.conditions[type=AbleToScale].reason";
    assert_string_equal(aw_kube_text_at(object, path), reason);
    const char *message = aw_kube_text_at(object, "status.conditions[type=AbleToScale].message");
    if (!strstr(message, words))
        fail_msg("%s", message);
    json_decref(object);
}

/* A 403 to a resize is the word of four parties; only its text tells whose. */
static void what_a_403_means_is_read_from_its_text(void **state)
{
    static const struct {
        const char *message, *reason;
    } cases[] = {
        {"pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, requested: "
         "9000, allocatable: 2000",
         "ResizeInfeasible"},
        {"pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: "
         "requests.cpu=3, limited: requests.cpu=3",
         "QuotaExceeded"},
        {"pods \"p\" is forbidden: maximum cpu usage per Container is 400m, but limit is 500m",
         "ResizeRefused"},
        {"pods \"p\" is forbidden: User \"system:serviceaccount:s:aware\" cannot patch resource "
         "\"pods/resize\" in API group \"\" in the namespace \"n\"",
         "Forbidden"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world;
        open_world(&world, true);
        set_object(&world, "Auto", "\"replicas\":3,\"cpu\":\"500m\",\"memory\":\"1Gi\"", 0);
        aw_fake_apiserver_fault(world.kube.twin, &(struct aw_fake_apiserver_fault){
                                                     .match = "PATCH /api/v1/namespaces/n/pods/",
                                                     .count = UINT32_MAX,
                                                     .status = 403,
                                                     .reason = "Forbidden",
                                                     .message = cases[i].message});
        assert_true(until(&world, told_once));
        assert_able_reason(&world, cases[i].reason, "is forbidden");
        close_world(&world);
    }
}

static void a_size_beyond_the_node_is_infeasible(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    aw_fake_apiserver_allocatable(world.kube.twin, 2000, (int64_t)4 << 30);
    set_object(&world, "Auto", "\"replicas\":3,\"cpu\":\"3\",\"memory\":\"1Gi\"", 0);
    assert_true(until(&world, told_once));
    assert_able_reason(&world, "ResizeInfeasible", "allocatable: 2000");
    for (int i = 0; i < 10; i++)
        do_round(&world);
    assert_int_equal(aw_updater_counts(world.updater)->refused, 3); /* each pod once */
    close_world(&world);
}

static void a_resize_stays_within_the_limit_ranges_of_its_namespace(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    aw_fake_apiserver_set(
        world.kube.twin, "/api/v1/limitranges",
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"a\"},\"spec\":{\"limits\":[{\"type\":"
        "\"Container\",\"max\":{\"cpu\":\"500m\"}}]}}");
    aw_fake_apiserver_set(
        world.kube.twin, "/api/v1/limitranges",
        "{\"metadata\":{\"namespace\":\"other\",\"name\":\"a\"},\"spec\":{\"limits\":[{\"type\":"
        "\"Container\",\"max\":{\"cpu\":\"1m\"}}]}}");
    set_object(&world, "Auto", "\"replicas\":3,\"cpu\":\"2\",\"memory\":\"1Gi\"", 0);
    assert_true(until(&world, all_resized)); /* to 500m each */
    assert_int_equal(aw_updater_counts(world.updater)->refused, 0);
    close_world(&world);
}

static void a_node_that_fails_at_a_resize_is_waited_for(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    set_object(&world, "InPlaceOrRecreate", "\"replicas\":3,\"cpu\":\"500m\",\"memory\":\"1Gi\"",
               0);
    aw_fake_apiserver_nodes_resize(world.kube.twin, AW_FAKE_RESIZE_ERROR);
    for (int i = 0; i < 12; i++) {
        renew(&world);
        do_round(&world);
    }
    assert_int_equal(aw_updater_counts(world.updater)->evicted, 0);
    assert_true(aw_updater_counts(world.updater)->resized >= 1);
    close_world(&world);
}

static bool evicted_one(struct world *world)
{
    renew(world);
    return aw_updater_counts(world->updater)->evicted > 0;
}

static void nobody_is_evicted_unless_the_webhook_lives(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, false);
    set_object(&world, "Auto", "\"replicas\":3,\"cpu\":\"500m\",\"memory\":\"1Gi\"", 0);
    renew(&world);                         /* it was here once, and no more */
    assert_true(until(&world, told_once)); /* told: NoAdmissionWebhook */
    json_t *object = aw_fake_apiserver_body(world.kube.twin, STATUS);
    assert_string_equal(aw_kube_text_at(object, "status.conditions[type=AbleToScale].reason"),
                        "NoAdmissionWebhook");
    json_decref(object);
    assert_int_equal(aw_updater_counts(world.updater)->evicted, 0);
    assert_true(until(&world, evicted_one));
    assert_int_equal(count(&world, "POST /api/v1/namespaces/n/pods/"), 1);
    close_world(&world);
}

static bool blocked_once(struct world *world)
{
    renew(world);
    return aw_updater_counts(world->updater)->blocked > 0;
}

static bool blocked_thrice(struct world *world)
{
    renew(world);
    return aw_updater_counts(world->updater)->blocked >= 3;
}

static void a_disruption_budget_is_an_answer_and_the_next_try_waits(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, false);
    set_object(&world, "Auto", "\"replicas\":3,\"cpu\":\"500m\",\"memory\":\"1Gi\"", 0);
    aw_fake_apiserver_fault(world.kube.twin, &(struct aw_fake_apiserver_fault){
                                                 .match = "POST /api/v1/namespaces/n/pods/",
                                                 .count = 3,
                                                 .status = 429,
                                                 .reason = "TooManyRequests"});
    assert_true(until(&world, blocked_once));
    const int64_t first_us = aw_clock_monotonic_us(&world.kube.clock.clock);
    assert_true(until(&world, blocked_thrice)); /* half a minute between tries */
    assert_true(aw_clock_monotonic_us(&world.kube.clock.clock) - first_us >= 50 * SECOND_US);
    assert_true(until(&world, evicted_one));
    assert_int_equal(aw_updater_counts(world.updater)->failed, 0);
    close_world(&world);
}

static void a_missing_right_is_told(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    set_object(&world, "Auto", "\"replicas\":5", 0);
    aw_fake_apiserver_fault(
        world.kube.twin,
        &(struct aw_fake_apiserver_fault){
            .match = SCALE, .count = UINT32_MAX, .status = 403, .reason = "Forbidden"});
    assert_true(until(&world, told_once));
    json_t *body = aw_fake_apiserver_body(world.kube.twin, STATUS);
    assert_string_equal(aw_kube_text_at(body, "status.conditions[type=AbleToScale].reason"),
                        "Forbidden");
    json_decref(body);
    close_world(&world);
}

static void deleting_the_object_leaves_the_workload_as_it_is(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, true);
    set_object(&world, "Auto", "\"replicas\":5", 0);
    assert_true(until(&world, scaled));
    aw_fake_apiserver_remove(world.kube.twin, MPAS, "n", "web");
    const uint32_t writes = count(&world, "PATCH") + count(&world, "PUT");
    for (int i = 0; i < 5; i++)
        do_round(&world);
    assert_int_equal(count(&world, "PATCH") + count(&world, "PUT"), writes);
    assert_true(scaled(&world));
    close_world(&world);
}

static void every_allocation_that_fails_is_survived(void **state)
{
    struct aw_kube_world world;
    struct aw_kube_server server = {0};
    struct aw_updater *updater = NULL;
    struct aw_alloc_counting counting;
    enum aw_err err = AW_ERR_NOMEM;
    (void)state;
    aw_kube_world_open(&world, NULL);
    for (uint64_t n = 0; err; n++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err = aw_updater_new(&updater, world.kube, &server, NULL, &counting.alloc, NULL);
        if (err) {
            assert_int_equal(err, AW_ERR_NOMEM);
            assert_null(updater);
            assert_int_equal(counting.alloc_count, counting.free_count);
        }
    }
    aw_updater_free(updater);
    assert_int_equal(counting.alloc_count, counting.free_count);
    aw_kube_world_close(&world);
}

AW_TEST_GROUP("controller-updater")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recommend_only_writes_nothing_and_follows_nothing),
        cmocka_unit_test(who_has_nothing_to_do_waits_for_news),
        cmocka_unit_test(replicas_follow_the_recommendation),
        cmocka_unit_test(a_replica_set_of_its_own_is_scaled_too),
        cmocka_unit_test(a_conflict_is_looked_at_again),
        cmocka_unit_test(a_stale_recommendation_is_not_acted_on),
        cmocka_unit_test(another_autoscaler_of_the_same_target_is_told_and_not_fought),
        cmocka_unit_test(vertical_and_event_driven_autoscalers_are_not_fought_either),
        cmocka_unit_test(sizes_follow_in_place_where_the_server_can),
        cmocka_unit_test(what_the_node_cannot_hold_is_told_and_not_tried_for_ever),
        cmocka_unit_test(what_a_403_means_is_read_from_its_text),
        cmocka_unit_test(a_size_beyond_the_node_is_infeasible),
        cmocka_unit_test(a_resize_stays_within_the_limit_ranges_of_its_namespace),
        cmocka_unit_test(a_node_that_fails_at_a_resize_is_waited_for),
        cmocka_unit_test(nobody_is_evicted_unless_the_webhook_lives),
        cmocka_unit_test(a_disruption_budget_is_an_answer_and_the_next_try_waits),
        cmocka_unit_test(a_missing_right_is_told),
        cmocka_unit_test(deleting_the_object_leaves_the_workload_as_it_is),
        cmocka_unit_test(every_allocation_that_fails_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
