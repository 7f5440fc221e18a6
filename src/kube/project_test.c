/* project_test.c - a pod becomes a few hundred bytes that say the same. */
#include "kube/project.h"

#include <string.h>

#include "base/testing.h"

static const char pod_text[] =
    "{\"metadata\":{\"name\":\"web-1\",\"namespace\":\"n\",\"creationTimestamp\":"
    "\"2026-01-31T12:00:00Z\",\"managedFields\":[{\"manager\":\"kubelet\"}],\"ownerReferences\":["
    "{\"kind\":\"Other\",\"name\":\"x\"},{\"kind\":\"ReplicaSet\",\"name\":\"web\",\"uid\":\"u1\","
    "\"controller\":true}]},"
    "\"spec\":{\"nodeName\":\"n1\",\"containers\":[{\"name\":\"app\",\"image\":\"i\",\"resources\":"
    "{\"requests\":{\"cpu\":\"250m\",\"memory\":\"64Mi\"},\"limits\":{\"cpu\":1}},"
    "\"resizePolicy\":[{\"resourceName\":\"memory\",\"restartPolicy\":\"RestartContainer\"}]},"
    "{\"name\":\"side\"}]},"
    "\"status\":{\"phase\":\"Running\",\"qosClass\":\"Burstable\",\"conditions\":[{\"type\":"
    "\"Ready\",\"status\":\"True\"},{\"type\":\"PodResizePending\",\"status\":\"True\",\"reason\":"
    "\"Deferred\"}],\"containerStatuses\":[{\"name\":\"app\",\"ready\":true,\"restartCount\":3,"
    "\"state\":{\"running\":{}},\"lastState\":{\"terminated\":{\"reason\":\"OOMKilled\","
    "\"finishedAt\":\"2026-01-31T12:30:00Z\"}},\"resources\":{\"limits\":{\"cpu\":\"900m\"}}}]}}";

static void a_pod_keeps_what_we_use(void **state)
{
    _Alignas(8) char buf[4096];
    size_t len = 0;
    json_t *object = json_loads(pod_text, 0, NULL);
    (void)state;
    assert_ok(aw_kube_project_pod(NULL, object, buf, sizeof buf, &len));
    const struct aw_kube_pod *pod = (const void *)buf;
    assert_string_equal(aw_kube_span_text(pod, pod->owner_name), "web");
    assert_string_equal(aw_kube_span_text(pod, pod->phase), "Running");
    assert_string_equal(aw_kube_span_text(pod, pod->resize_pending), "Deferred");
    assert_string_equal(aw_kube_span_text(pod, pod->resize_error), "");
    assert_true(pod->ready);
    assert_false(pod->resizing || pod->deleting || pod->static_pod);
    assert_int_equal(pod->created_us, 1769860800000000);
    assert_int_equal(pod->containers.count, 2);
    const struct aw_kube_container *app = aw_kube_span_item(pod, pod->containers, sizeof *app, 0);
    assert_string_equal(aw_kube_span_text(pod, app->name), "app");
    assert_int_equal(app->cpu_request_millicores, 250);
    assert_int_equal(app->cpu_limit_millicores, 1000);
    assert_int_equal(app->memory_request_bytes, 64 << 20);
    assert_int_equal(app->memory_limit_bytes, -1);
    assert_string_equal(aw_kube_span_text(pod, app->cpu_policy), "");
    assert_string_equal(aw_kube_span_text(pod, app->memory_policy), "RestartContainer");
    const struct aw_kube_container *side = aw_kube_span_item(pod, pod->containers, sizeof *side, 1);
    assert_string_equal(aw_kube_span_text(pod, side->name), "side");
    assert_int_equal(side->cpu_request_millicores, -1);
    assert_int_equal(pod->statuses.count, 1);
    const struct aw_kube_container_status *status =
        aw_kube_span_item(pod, pod->statuses, sizeof *status, 0);
    assert_int_equal(status->restarts, 3);
    assert_string_equal(aw_kube_span_text(pod, status->ended), "OOMKilled");
    assert_string_equal(aw_kube_span_text(pod, status->waiting), "");
    assert_int_equal(status->cpu_limit_millicores, 900);
    assert_int_equal(status->memory_limit_bytes, -1);
    assert_true(len < 700);
    json_decref(object);
}

static void what_we_do_not_use_changes_nothing(void **state)
{
    _Alignas(8) char one[4096], two[4096];
    size_t one_len, two_len;
    json_t *object = json_loads(pod_text, 0, NULL);
    (void)state;
    memset(one, 0x55, sizeof one); /* what was in the buffer must not show */
    memset(two, 0xaa, sizeof two);
    assert_ok(aw_kube_project_pod(NULL, object, one, sizeof one, &one_len));
    json_object_set_new(json_object_get(object, "metadata"), "managedFields", json_array());
    json_object_set_new(json_object_get(object, "metadata"), "resourceVersion", json_string("9"));
    assert_ok(aw_kube_project_pod(NULL, object, two, sizeof two, &two_len));
    assert_int_equal(one_len, two_len);
    assert_memory_equal(one, two, one_len);
    json_decref(object);
}

static void too_little_room_and_wrong_kinds_are_refused(void **state)
{
    static const struct {
        const char *why, *text;
        enum aw_err err;
    } cases[] = {
        {"nothing is known", "{}", AW_OK},
        {"nulls", "{\"spec\":{\"containers\":null,\"nodeName\":null}}", AW_OK},
        {"a bad amount",
         "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"lots\"}}}]}}",
         AW_ERR_FORMAT},
        {"less than nothing",
         "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":-1}}}]}}", AW_ERR_FORMAT},
        {"beyond all bounds",
         "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":9223372036854775807}}}]}}",
         AW_ERR_FORMAT},
        {"a text as a list", "{\"spec\":{\"containers\":\"x\"}}", AW_ERR_FORMAT},
        {"a number as a text", "{\"spec\":{\"nodeName\":7}}", AW_ERR_FORMAT},
        {"a text as a number", "{\"status\":{\"containerStatuses\":[{\"restartCount\":\"7\"}]}}",
         AW_ERR_FORMAT},
        {"no time", "{\"metadata\":{\"creationTimestamp\":\"today\"}}", AW_ERR_FORMAT},
        {"items of another kind", "{\"spec\":{\"containers\":[1,null,[]]}}", AW_OK},
    };
    _Alignas(8) char buf[4096];
    size_t len = 0;
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *object = json_loads(cases[i].text, 0, NULL);
        assert_non_null(object);
        const enum aw_err err = aw_kube_project_pod(NULL, object, buf, sizeof buf, &len);
        if (err != cases[i].err)
            fail_msg("%s: %s", cases[i].why, aw_err_name(err));
        json_decref(object);
    }
    json_t *object = json_loads(pod_text, 0, NULL);
    size_t needed = 0;
    assert_ok(aw_kube_project_pod(NULL, object, buf, sizeof buf, &needed));
    for (size_t size = 0; size < needed; size++)
        assert_int_equal(aw_kube_project_pod(NULL, object, buf, size, &len), AW_ERR_LIMIT);
    assert_ok(aw_kube_project_pod(NULL, object, buf, needed, &len));
    json_t *many = json_array();
    for (uint32_t i = 0; i <= AW_KUBE_ITEMS_MAX; i++)
        json_array_append_new(many, json_object());
    json_object_set_new(json_object_get(object, "spec"), "containers", many);
    assert_int_equal(aw_kube_project_pod(NULL, object, buf, sizeof buf, &len), AW_ERR_LIMIT);
    json_decref(object);
}

static void a_rollout_is_seen(void **state)
{
    static const struct {
        const char *why, *text;
        bool rolling;
    } cases[] = {
        {"calm",
         "{\"metadata\":{\"generation\":2},\"spec\":{\"replicas\":3},\"status\":"
         "{\"observedGeneration\":2,\"replicas\":3,\"updatedReplicas\":3}}",
         false},
        {"not seen yet",
         "{\"metadata\":{\"generation\":3},\"status\":{\"observedGeneration\":2,\"replicas\":3,"
         "\"updatedReplicas\":3}}",
         true},
        {"old pods remain",
         "{\"metadata\":{\"generation\":3},\"status\":{\"observedGeneration\":3,\"replicas\":4,"
         "\"updatedReplicas\":2}}",
         true},
    };
    _Alignas(8) char buf[512];
    size_t len;
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *object = json_loads(cases[i].text, 0, NULL);
        assert_ok(aw_kube_project_workload(NULL, object, buf, sizeof buf, &len));
        if (aw_kube_workload_rolling((const void *)buf) != cases[i].rolling)
            fail_msg("%s", cases[i].why);
        json_decref(object);
    }
}

AW_TEST_GROUP("kube-project")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_keeps_what_we_use),
        cmocka_unit_test(what_we_do_not_use_changes_nothing),
        cmocka_unit_test(too_little_room_and_wrong_kinds_are_refused),
        cmocka_unit_test(a_rollout_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
