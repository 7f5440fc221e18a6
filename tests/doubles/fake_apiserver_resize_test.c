/* fake_apiserver_resize_test.c - pods/resize of the fake keeps the rules that a real server has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/kube_testing.h"
#include "kube/project.h"
#include "kube/verbs.h"

#define PODS "/api/v1/pods"

static void set_pod(struct aw_kube_world *world, const char *meta, const char *resources,
                    const char *more)
{
    char json[640];
    snprintf(json, sizeof json,
             "{\"metadata\":{\"namespace\":\"n\",\"name\":\"p\"%s},\"spec\":{\"containers\":["
             "{\"name\":\"app\",\"resources\":{%s}%s}]},\"status\":{\"conditions\":[{\"type\":"
             "\"Ready\",\"status\":\"True\"}]}}",
             meta, resources, more);
    aw_fake_apiserver_set(world->twin, PODS, json);
}

/* A patch of the one container by hand; the code of the answer. */
static int patch(struct aw_kube_world *world, const char *container)
{
    const struct aw_kube_ref ref = {&aw_kube_pods, "n", "p", "resize"};
    struct aw_kube_status status = {0};
    char json[320];
    snprintf(json, sizeof json, "{\"spec\":{\"containers\":[{%s}]}}", container);
    json_t *body = json_loads(json, 0, NULL);
    assert_non_null(body);
    enum aw_err err =
        aw_kube_patch(world->kube, &ref, AW_KUBE_PATCH_STRATEGIC, body, NULL, &status, NULL);
    json_decref(body);
    return err ? status.code : 200;
}

#define APP(resources) "\"name\":\"app\",\"resources\":{" resources "}"
#define GUARANTEED                                                                          \
    "\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\"},\"limits\":{\"cpu\":\"1\",\"memory\":" \
    "\"1Gi\"}"
#define BURSTABLE                                                                           \
    "\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\"},\"limits\":{\"cpu\":\"2\",\"memory\":" \
    "\"2Gi\"}"

static void what_a_server_refuses_is_refused(void **state)
{
    static const struct {
        const char *why, *meta, *resources, *more, *patch;
        int code;
    } cases[] = {
        {"more of everything", "", BURSTABLE, "",
         APP("\"requests\":{\"cpu\":\"1500m\",\"memory\":\"1500Mi\"}"), 200},
        {"request and limit of a Guaranteed pod together", "", GUARANTEED, "",
         APP("\"requests\":{\"cpu\":\"2\"},\"limits\":{\"cpu\":\"2\"}"), 200},
        {"a Guaranteed pod would become Burstable", "", GUARANTEED, "",
         APP("\"limits\":{\"cpu\":\"2\"}"), 422},
        {"a Burstable pod would become Guaranteed", "", BURSTABLE, "",
         APP("\"requests\":{\"cpu\":\"2\",\"memory\":\"2Gi\"}"), 422},
        {"a BestEffort pod would become Burstable", "", "", "", APP("\"requests\":{\"cpu\":\"1\"}"),
         422},
        {"a request above its limit", "", BURSTABLE, "", APP("\"requests\":{\"cpu\":\"3\"}"), 422},
        {"an amount is taken away", "", BURSTABLE, "", APP("\"limits\":{\"cpu\":null}"), 422},
        {"another resource", "", BURSTABLE, "", APP("\"limits\":{\"nvidia.com/gpu\":\"1\"}"), 422},
        {"another container", "", BURSTABLE, "", "\"name\":\"new\",\"resources\":{}", 422},
        {"not an amount", "", BURSTABLE, "", APP("\"requests\":{\"cpu\":\"much\"}"), 422},
        {"a mirror pod", ",\"annotations\":{\"kubernetes.io/config.mirror\":\"x\"}", BURSTABLE, "",
         APP("\"requests\":{\"cpu\":\"1500m\"}"), 422},
        {"less memory at most", "", BURSTABLE, "", APP("\"limits\":{\"memory\":\"1500Mi\"}"), 200},
        {"more than a LimitRange allows", "", BURSTABLE, "", APP("\"limits\":{\"cpu\":\"7\"}"),
         403},
        {"more than the node has", "", BURSTABLE, "",
         APP("\"requests\":{\"cpu\":\"9\"},\"limits\":{\"cpu\":\"9\"}"), 403},
        {"less memory at most, with a restart", "", BURSTABLE,
         ",\"resizePolicy\":[{\"resourceName\":\"memory\",\"restartPolicy\":\"RestartContainer\"}]",
         APP("\"limits\":{\"memory\":\"1500Mi\"}"), 200},
    };
    struct aw_kube_world world;
    (void)state;
    aw_kube_world_open(&world, &(struct aw_kube_options){.requests_per_second = 1000});
    aw_fake_apiserver_allocatable(world.twin, 8000, (int64_t)16 << 30);
    aw_fake_apiserver_set(
        world.twin, "/api/v1/limitranges",
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"l\"},\"spec\":{\"limits\":[{"
        "\"type\":\"Container\",\"max\":{\"cpu\":\"6\"}}]}}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!strcmp(cases[i].why, "more than the node has"))
            aw_fake_apiserver_remove(world.twin, "/api/v1/limitranges", "n", "l");
        set_pod(&world, cases[i].meta, cases[i].resources, cases[i].more);
        json_t *before = aw_fake_apiserver_get(world.twin, PODS, "n", "p");
        const int code = patch(&world, cases[i].patch);
        if (code != cases[i].code)
            fail_msg("%s: %d", cases[i].why, code);
        json_t *after = aw_fake_apiserver_get(world.twin, PODS, "n", "p");
        assert_int_equal(json_equal(before, after), code != 200); /* refused is untouched */
        json_decref(before);
        json_decref(after);
    }
    aw_kube_world_close(&world);
}

/* A kubelet from before resizes names no resources of what runs. */
static void a_pod_on_an_old_node_is_refused(void **state)
{
    struct aw_kube_world world;
    (void)state;
    aw_kube_world_open(&world, &(struct aw_kube_options){.requests_per_second = 1000});
    set_pod(&world, "", BURSTABLE, "");
    json_t *pod = aw_fake_apiserver_get(world.twin, PODS, "n", "p");
    json_object_set_new(json_object_get(pod, "status"), "containerStatuses",
                        json_pack("[{s:s, s:{s:{}}}]", "name", "app", "state", "running"));
    char *text = json_dumps(pod, 0);
    aw_fake_apiserver_set(world.twin, PODS, text);
    free(text);
    json_decref(pod);
    assert_int_equal(patch(&world, APP("\"requests\":{\"cpu\":\"1500m\"}")), 422);
    aw_kube_world_close(&world);
}

/* Seen on 1.36: such a patch is 200, and nothing has changed. */
static void other_fields_of_a_patch_are_dropped_without_a_word(void **state)
{
    struct aw_kube_world world;
    (void)state;
    aw_kube_world_open(&world, &(struct aw_kube_options){.requests_per_second = 1000});
    set_pod(&world, "", BURSTABLE, "");
    json_t *before = aw_fake_apiserver_get(world.twin, PODS, "n", "p");
    assert_int_equal(patch(&world, "\"name\":\"app\",\"image\":\"x\""), 200);
    json_t *after = aw_fake_apiserver_get(world.twin, PODS, "n", "p");
    assert_true(json_equal(json_object_get(before, "spec"), json_object_get(after, "spec")));
    json_decref(before);
    json_decref(after);
    aw_kube_world_close(&world);
}

static void what_the_node_says_stands_in_the_conditions(void **state)
{
    static const struct {
        enum aw_fake_apiserver_resize resize;
        const char *pending;
        bool resizing, has_it;
    } cases[] = {
        {AW_FAKE_RESIZE_DEFERRED, "Deferred", false, false},
        {AW_FAKE_RESIZE_INFEASIBLE, "Infeasible", false, false},
        {AW_FAKE_RESIZE_IN_PROGRESS, "", true, false},
        {AW_FAKE_RESIZE_ERROR, "", true, false},
        {AW_FAKE_RESIZE_DONE, "", false, true},
    };
    struct aw_kube_world world;
    _Alignas(8) char record[2048];
    const struct aw_kube_pod *pod = (const struct aw_kube_pod *)record;
    size_t len;
    (void)state;
    aw_kube_world_open(&world, &(struct aw_kube_options){.requests_per_second = 1000});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_pod(&world, "", BURSTABLE, "");
        aw_fake_apiserver_nodes_resize(world.twin, cases[i].resize);
        assert_int_equal(patch(&world, APP("\"limits\":{\"cpu\":\"3\"}")), 200);
        json_t *object = aw_fake_apiserver_get(world.twin, PODS, "n", "p");
        assert_ok(aw_kube_project_pod(NULL, object, record, sizeof record, &len));
        json_decref(object);
        const struct aw_kube_container *container =
            aw_kube_span_item(pod, pod->containers, sizeof *container, 0);
        assert_int_equal(container->cpu_limit_millicores, 3000); /* the spec has it at once */
        assert_string_equal(aw_kube_span_text(pod, pod->resize_pending), cases[i].pending);
        assert_int_equal(pod->resizing, cases[i].resizing);
        assert_true(pod->ready);
        assert_int_equal(pod->statuses.count, cases[i].has_it);
        if (cases[i].has_it) {
            const struct aw_kube_container_status *status =
                aw_kube_span_item(pod, pod->statuses, sizeof *status, 0);
            assert_int_equal(status->cpu_limit_millicores, 3000);
        }
    }
    aw_kube_world_close(&world);
}

AW_TEST_GROUP("fake-apiserver-resize")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_server_refuses_is_refused),
        cmocka_unit_test(a_pod_on_an_old_node_is_refused),
        cmocka_unit_test(other_fields_of_a_patch_are_dropped_without_a_word),
        cmocka_unit_test(what_the_node_says_stands_in_the_conditions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
