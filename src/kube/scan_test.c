/* scan_test.c - waste and risk of workloads: what is read, whose it is, what follows. */
#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "doubles/fake_prometheus.h"
#include "kube/kube_testing.h"
#include "kube/scan_internal.h"

static void what_follows_from_a_row(void **state)
{
    const struct aw_kube_scan_row base = {
        .kind = "Deployment",
        .pods = 4,
        .cpu_request = 1,
        .cpu_limit = -1,
        .memory_request = 1024 * AW_MIB_REAL,
        .memory_limit = 1024 * AW_MIB_REAL,
        .cpu = {0.1, 0.2, 0.9, 100},
        .memory = {100 * AW_MIB_REAL, 150 * AW_MIB_REAL, 200 * AW_MIB_REAL, 100},
        .throttled_share = -1};
    struct aw_kube_scan_row row = base;
    (void)state;
    aw_kube_scan_judge(&row);
    assert_close(row.cpu_need, 0.23, 1e-12);
    assert_close(row.memory_need, 230 * AW_MIB_REAL, 1e-12);
    assert_close(row.cpu_waste, 4 * 0.77, 1e-12);
    assert_close(row.memory_waste, 4 * 794 * AW_MIB_REAL, 1e-12);
    assert_int_equal(row.risk, 0);

    row = base;
    row.cpu = row.memory = (struct aw_kube_scan_usage){0};
    aw_kube_scan_judge(&row); /* what was not measured is not wasted */
    assert_true(row.cpu_waste == 0 && row.memory_waste == 0 && row.cpu_need < 0);

    row = base;
    row.cpu = (struct aw_kube_scan_usage){0, 0, 0, 100};
    aw_kube_scan_judge(&row); /* idle: needs a little all the same */
    assert_close(row.cpu_need, AW_KUBE_SCAN_CPU_MIN, 1e-12);

    row = base;
    row.memory.max = 950 * AW_MIB_REAL;
    row.throttled_share = 0.3;
    row.oom_kills = 1;
    row.cpu_request = -1;
    row.cpu.p95 = 2;
    aw_kube_scan_judge(&row);
    assert_int_equal(row.risks, 1 << AW_KUBE_RISK_MEMORY_NEAR | 1 << AW_KUBE_RISK_THROTTLED |
                                    1 << AW_KUBE_RISK_OOM | 1 << AW_KUBE_RISK_NO_CPU);
    assert_true(row.cpu_waste == 0); /* nothing is requested */
}

static void quantiles_are_never_less_than_what_was_used(void **state)
{
    static struct aw__scan_usage usage;
    struct aw_kube_scan_usage found;
    (void)state;
    for (uint32_t i = 1; i <= 1000; i++)
        aw__scan_push(&usage, AW__SCAN_CPU_FIRST, i / 1000.0);
    aw__scan_push(&usage, AW__SCAN_CPU_FIRST, (double)NAN);
    aw__scan_push(&usage, AW__SCAN_CPU_FIRST, (double)INFINITY);
    aw__scan_push(&usage, AW__SCAN_CPU_FIRST, -1);
    found = aw__scan_usage_of(&usage, AW__SCAN_CPU_FIRST);
    assert_int_equal(found.samples, 1000);
    assert_true(found.p50 >= 0.5 && found.p50 <= 0.5 * AW__SCAN_GROWTH + 1e-3);
    assert_true(found.p95 >= 0.95 && found.p95 <= 1);
    assert_close(found.max, 1, 1e-12);
}

static struct aw_kube_scan_row rows[] = {
    {.ns = "a", .kind = "DaemonSet", .name = "log"},
    {.ns = "a", .kind = "Deployment", .name = "web"},
    {.ns = "a", .kind = "Deployment", .name = "web-api"},
    {.ns = "a", .kind = "StatefulSet", .name = "db"},
    {.ns = "b", .kind = "Deployment", .name = "web"},
};

static void a_pod_is_known_by_its_name(void **state)
{
    static const struct {
        const char *ns, *pod;
        int row;
    } cases[] = {
        {"a", "web-5d9c7b8f6-x2x4z", 1},
        {"a", "web-api-5d9c7b8f6-x2x4z", 2},
        {"b", "web-5d9c7b8f6-x2x4z", 4},
        {"a", "db-0", 3},
        {"a", "db-x2x4z", -1},
        {"a", "log-x2x4z", 0},
        {"a", "web-x2x4z", -1},
        {"a", "web", -1},
        {"a", "-", -1},
        {"a", "", -1},
        {"a", "web-5d9c7b8f6-x2x4zz", -1},
        {"c", "db-0", -1},
        {"a", "db-", -1},
        {"a", "web-api-x2x4z", 1}, /* "api" as a hash */
    };
    const struct aw_kube_scan scan = {.row = rows, .count = sizeof rows / sizeof *rows};
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aw_kube_scan_row *row = aw__scan_owner(&scan, cases[i].ns, cases[i].pod);
        if (row != (cases[i].row < 0 ? NULL : &rows[cases[i].row]))
            fail_msg("%s/%s: %s", cases[i].ns, cases[i].pod, row ? row->name : "nobody");
    }
}

/* --- a whole scan --- */

#define CONTAINER(requests, limits) \
    "{\"name\":\"app\",\"resources\":{\"requests\":{" requests "},\"limits\":{" limits "}}}"
#define WORKLOAD(ns, name, spec, containers)                                         \
    "{\"metadata\":{\"namespace\":\"" ns "\",\"name\":\"" name "\"},\"spec\":{" spec \
    "\"template\":{\"spec\":{\"containers\":[" containers "]}}}}"
#define DEPLOYMENTS "/apis/apps/v1/deployments"
#define HPAS        "/apis/autoscaling/v2/horizontalpodautoscalers"

struct world {
    struct aw_kube_world api;
    struct aw_fake_prometheus *twin;
    struct aw_kube_prom *prom;
    struct aw_kube_server server;
    struct aw_kube_scan scan;
    uint32_t told;
    char text[512]; /* the last */
};

static void told(void *ctx, const char *text)
{
    struct world *world = ctx;
    world->told++;
    snprintf(world->text, sizeof world->text, "%s", text);
}

static void open_world(struct world *world)
{
    *world = (struct world){.server = {.autoscaling = "v2"}};
    aw_kube_world_open(&world->api, &(struct aw_kube_options){.requests_per_second = 1000});
    world->twin = aw_fake_prometheus_open();
    assert_non_null(world->twin);
    const struct aw_kube_prom_config config = {.url = aw_fake_prometheus_url(world->twin)};
    assert_ok(aw_kube_prom_open(&world->prom, &config, NULL, NULL));
    aw_fake_apiserver_set(
        world->api.twin, DEPLOYMENTS,
        WORKLOAD("shop", "web", "\"replicas\":2,",
                 CONTAINER("\"cpu\":\"1\",\"memory\":\"1Gi\"", "\"memory\":\"1Gi\"")));
    aw_fake_apiserver_set(world->api.twin, DEPLOYMENTS,
                          WORKLOAD("shop", "bare", "", CONTAINER("", "\"cpu\":\"500m\"")));
    aw_fake_apiserver_set(world->api.twin, "/apis/apps/v1/statefulsets",
                          WORKLOAD("shop", "db", "\"replicas\":1,",
                                   CONTAINER("\"cpu\":\"100m\",\"memory\":\"64Mi\"", "")));
    aw_fake_apiserver_set(world->api.twin, "/apis/apps/v1/daemonsets",
                          "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"odd\"},\"spec\":{}}");
    aw_fake_apiserver_set(
        world->api.twin, "/api/v1/pods",
        "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"web-5d9c-aaaaa\","
        "\"ownerReferences\":[{\"controller\":true,\"kind\":\"ReplicaSet\",\"name\":"
        "\"web-5d9c\"}]},\"status\":{\"containerStatuses\":[{\"restartCount\":3,"
        "\"lastState\":{\"terminated\":{\"reason\":\"OOMKilled\"}},\"state\":{\"waiting\":"
        "{\"reason\":\"CrashLoopBackOff\"}}}]}}");
    for (uint32_t i = 0; i < 2; i++) {
        char json[512];
        snprintf(json, sizeof json,
                 "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"h%u\"},\"spec\":{"
                 "\"scaleTargetRef\":{\"kind\":\"StatefulSet\",\"name\":\"db\"}}}",
                 i);
        aw_fake_apiserver_set(world->api.twin, HPAS, json);
    }
}

static void scan_world(struct world *world, bool with_prom)
{
    const struct aw_kube_scan_config config = {.kube = world->api.kube,
                                               .server = &world->server,
                                               .prom = with_prom ? world->prom : NULL,
                                               .clock = &world->api.clock.clock,
                                               .told = told,
                                               .ctx = world};
    assert_ok(aw_kube_scan(&world->scan, &config, NULL, NULL));
    assert_int_equal(world->scan.count, 3); /* and "odd" has no containers */
}

static void close_world(struct world *world)
{
    aw_kube_scan_deinit(&world->scan);
    aw_kube_prom_close(world->prom);
    aw_fake_prometheus_close(world->twin);
    aw_kube_world_close(&world->api);
}

static struct aw_kube_scan_row *row_of(struct world *world, const char *kind, const char *name)
{
    struct aw_kube_scan_row *row = aw__scan_find(&world->scan, "shop", kind, name);
    assert_non_null(row);
    return row;
}

#define MATRIX(items) \
    "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[" items "]}}"
#define VECTOR(items) \
    "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[" items "]}}"
#define POD(name) "{\"metric\":{\"namespace\":\"shop\",\"pod\":\"" name "\"},"

static void requests_meet_what_was_used(void **state)
{
    struct world world;
    (void)state;
    open_world(&world);
    aw_fake_prometheus_answer(
        world.twin, "cpu_usage", 200,
        MATRIX(POD("web-5d9c-aaaaa") "\"values\":[[1,\"0.1\"],[2,\"0.1\"],[3,\"NaN\"]]}," POD(
            "web-4444-bbbbb") "\"values\":[[1,\"0.1\"]]}," POD("db-0") "\"values\":[[1,\"0.2\"]]}"
                                                                       "," POD("stranger") "\"value"
                                                                                           "s\":[["
                                                                                           "1,"
                                                                                           "\"7\"]]"
                                                                                           "}"));
    aw_fake_prometheus_answer(world.twin, "working_set", 200,
                              MATRIX(POD("web-5d9c-aaaaa") "\"values\":[[1,\"104857600\"]]}"));
    aw_fake_prometheus_answer(world.twin, "throttled", 200,
                              VECTOR(POD("db-0") "\"value\":[1,\"0.5\"]}"));
    aw_fake_prometheus_answer(world.twin, "oom_events", 200,
                              VECTOR(POD("web-5d9c-aaaaa") "\"value\":[1,\"2.03\"]}"));
    scan_world(&world, true);
    assert_int_equal(world.scan.source, AW_KUBE_SCAN_HISTORY);
    assert_int_equal(world.told, 0);
    struct aw_kube_scan_row *row = row_of(&world, "Deployment", "web");
    assert_int_equal(row->cpu.samples, 3); /* the pod that is gone counts too */
    assert_close(row->cpu_need, 0.115, 0.001);
    assert_close(row->memory_waste, 2 * (1024 - 115) * AW_MIB_REAL, 1e-9);
    assert_int_equal(row->oom_kills, 2);
    assert_true(row->crash_loop && row->restarts == 3);
    row = row_of(&world, "StatefulSet", "db");
    assert_int_equal(row->hpa_count, 2);
    assert_string_equal(row->conflict, "2 HPAs");
    assert_int_equal(row->risks, 1 << AW_KUBE_RISK_CONFLICT | 1 << AW_KUBE_RISK_THROTTLED |
                                     1 << AW_KUBE_RISK_CPU_OVER | 1 << AW_KUBE_RISK_NO_LIMIT);
    row = row_of(&world, "Deployment", "bare");
    assert_close(row->cpu_request, 0.5, 1e-12); /* the limit stands for it */
    assert_true(row->memory_request < 0 && row->pods == 1);
    assert_int_equal(aw_fake_apiserver_count(world.api.twin, "P"), 0); /* nothing was written */
    close_world(&world);
}

static void without_a_history_one_look_must_do_and_is_said(void **state)
{
    struct world world;
    (void)state;
    open_world(&world);
    snprintf(world.server.metrics, sizeof world.server.metrics, "v1beta1");
    aw_fake_apiserver_set(world.api.twin, "/apis/metrics.k8s.io/v1beta1/pods",
                          "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"db-0\"},\"timestamp\":"
                          "\"2026-01-31T12:00:00Z\",\"containers\":[{\"usage\":{\"cpu\":\"20m\","
                          "\"memory\":\"50Mi\"}}]}");
    scan_world(&world, true); /* whose Prometheus knows nobody */
    assert_int_equal(world.scan.source, AW_KUBE_SCAN_SNAPSHOT);
    assert_int_equal(world.told, 2);
    assert_non_null(strstr(world.text, "metrics.k8s.io"));
    assert_close(row_of(&world, "StatefulSet", "db")->cpu.max, 0.02, 1e-12);
    close_world(&world);
}

static void without_any_source_the_rest_is_still_told(void **state)
{
    struct world world;
    (void)state;
    open_world(&world);
    scan_world(&world, false);
    assert_int_equal(world.scan.source, AW_KUBE_SCAN_NOTHING);
    assert_int_equal(world.told, 1);
    assert_int_equal(row_of(&world, "Deployment", "web")->oom_kills, 1);
    assert_true(row_of(&world, "Deployment", "web")->cpu_need < 0);
    close_world(&world);
}

static void who_may_not_look_is_told_so(void **state)
{
    struct world world;
    struct aw_diag diag = {0};
    (void)state;
    open_world(&world);
    aw_fake_apiserver_fault(world.api.twin,
                            &(struct aw_fake_apiserver_fault){.match = "GET " DEPLOYMENTS,
                                                              .count = UINT32_MAX,
                                                              .status = 403,
                                                              .reason = "Forbidden"});
    const struct aw_kube_scan_config config = {.kube = world.api.kube, .server = &world.server};
    assert_int_equal(aw_kube_scan(&world.scan, &config, NULL, &diag), AW_ERR_CONFIG);
    assert_null(world.scan.row);
    close_world(&world);
}

AW_TEST_GROUP("kube-scan")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows_from_a_row),
        cmocka_unit_test(quantiles_are_never_less_than_what_was_used),
        cmocka_unit_test(a_pod_is_known_by_its_name),
        cmocka_unit_test(requests_meet_what_was_used),
        cmocka_unit_test(without_a_history_one_look_must_do_and_is_said),
        cmocka_unit_test(without_any_source_the_rest_is_still_told),
        cmocka_unit_test(who_may_not_look_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
