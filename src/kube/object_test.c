/* object_test.c - names, paths, metadata and times. */
#include "kube/object.h"

#include <string.h>

#include "base/testing.h"

static void a_path_is_built_from_the_kind_and_checked_names(void **state)
{
    static const struct aw_kube_kind crd = {"aware.dev", "v1alpha1", "mpas", "Mpa", true};
    static const struct {
        const char *why;
        struct aw_kube_ref ref;
        const char *path; /* NULL: refused */
    } cases[] = {
        {"core", {&aw_kube_pods, "a", "b", NULL}, "/api/v1/namespaces/a/pods/b"},
        {"all namespaces", {&aw_kube_pods, NULL, NULL, NULL}, "/api/v1/pods"},
        {"no namespace", {&aw_kube_nodes, NULL, "n1", NULL}, "/api/v1/nodes/n1"},
        {"group",
         {&aw_kube_deployments, "a", "b", "scale"},
         "/apis/apps/v1/namespaces/a/deployments/b/scale"},
        {"custom", {&crd, "a", NULL, NULL}, "/apis/aware.dev/v1alpha1/namespaces/a/mpas"},
        {"RBAC names have colons", {&aw_kube_nodes, NULL, "a:b", NULL}, "/api/v1/nodes/a%3Ab"},
        {"a namespace is needed", {&aw_kube_pods, NULL, "b", NULL}, NULL},
        {"climbing", {&aw_kube_pods, "..", "b", NULL}, NULL},
        {"climbing on", {&aw_kube_pods, "a", "../../secrets", NULL}, NULL},
        {"escaped climbing", {&aw_kube_pods, "a", "%2e%2e", NULL}, NULL},
        {"nothing", {&aw_kube_pods, "a", "", NULL}, NULL},
        {"a line break", {&aw_kube_pods, "a", "b\r\nHost: x", NULL}, NULL},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buf[512];
        struct aw_text text;
        struct aw_diag diag = {0};
        aw_text_init(&text, buf, sizeof buf);
        const enum aw_err err = aw_kube_path(&text, &cases[i].ref, &diag);
        if (err != (cases[i].path ? AW_OK : AW_ERR_CONFIG))
            fail_msg("%s: %s %s", cases[i].why, aw_err_name(err), buf);
        if (cases[i].path)
            assert_string_equal(buf, cases[i].path);
        else
            assert_true(diag.text[0]);
    }
}

static void a_query_is_escaped(void **state)
{
    char buf[128];
    struct aw_text text;
    (void)state;
    aw_text_init(&text, buf, sizeof buf);
    aw_text_add(&text, "/x");
    aw_kube_path_query(&text, "labelSelector", "app in (a,b)");
    aw_kube_path_query(&text, "fieldSelector", "");
    aw_kube_path_query(&text, "continue", "a&b=");
    assert_string_equal(buf, "/x?labelSelector=app%20in%20%28a%2Cb%29&continue=a%26b%3D");
}

static void metadata_is_read_or_refused(void **state)
{
    struct aw_kube_meta meta = {0};
    char key[AW_KUBE_KEY_MAX];
    (void)state;
    json_t *object = json_loads("{\"metadata\":{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"u\","
                                "\"resourceVersion\":\"7\",\"generation\":3,"
                                "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}",
                                0, NULL);
    assert_ok(aw_kube_meta_read(object, &meta, NULL));
    assert_string_equal(aw_kube_meta_key(&meta, key, sizeof key), "a/b");
    assert_string_equal(meta.resource_version, "7");
    assert_int_equal(meta.generation, 3);
    assert_true(meta.deleting);
    json_decref(object);
    static const char *const refused[] = {"{}", "{\"metadata\":[]}", "{\"metadata\":{}}",
                                          "{\"metadata\":{\"name\":\"a/b\"}}",
                                          "{\"metadata\":{\"name\":\"a\",\"namespace\":\"..\"}}"};
    for (uint32_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        object = json_loads(refused[i], 0, NULL);
        assert_non_null(object);
        assert_int_equal(aw_kube_meta_read(object, &meta, NULL), AW_ERR_FORMAT);
        json_decref(object);
    }
}

static void values_are_found_by_path_or_not_at_all(void **state)
{
    json_t *object = json_loads(
        "{\"a\":{\"b\":5,\"l\":{\"x.y/z\":\"label\"}},\"c\":[{\"type\":\"A\",\"s\":\"no\"},"
        "{\"type\":\"Ready\",\"s\":\"yes\"}],\"n\":null}",
        0, NULL);
    (void)state;
    assert_int_equal(aw_kube_int_at(object, "a.b", -1), 5);
    assert_string_equal(aw_kube_text_at(object, "a.l[x.y/z]"), "label");
    assert_string_equal(aw_kube_text_at(object, "c[type=Ready].s"), "yes");
    assert_string_equal(aw_kube_text_at(object, "c[type=Read].s"), "");
    assert_string_equal(aw_kube_text_at(object, "a.b.c"), "");
    assert_string_equal(aw_kube_text_at(object, "a.b"), "");
    assert_string_equal(aw_kube_text_at(object, "n.x"), "");
    assert_int_equal(aw_kube_int_at(object, "c", -1), -1);
    assert_string_equal(aw_kube_text_at(NULL, "a"), "");
    json_decref(object);
}

static void times_are_read_as_rfc_3339_says(void **state)
{
    static const struct {
        const char *text;
        int64_t us; /* -1: refused */
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-01-31T12:00:00Z", 1769860800000000},
        {"2026-01-31T12:00:00.5Z", 1769860800500000},
        {"2026-01-31T12:00:00.123456789Z", 1769860800123456},
        {"2026-01-31T13:30:00+01:30", 1769860800000000},
        {"2026-01-31T11:00:00-01:00", 1769860800000000},
        {"2026-01-31 12:00:00Z", -1},
        {"2026-01-31T12:00:00", -1},
        {"2026-01-31T12:00:00.Z", -1},
        {"2026-13-31T12:00:00Z", -1},
        {"2026-01-31T12:00:00Zx", -1},
        {"2026-01-31T12:00:00+1:00", -1},
        {"", -1},
    };
    char buf[AW_KUBE_TIME_MAX];
    int64_t back = -1;
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t us = -1;
        const enum aw_err err = aw_kube_time_parse(cases[i].text, &us);
        if (us != cases[i].us || (err != AW_OK) != (cases[i].us < 0))
            fail_msg("%s: %lld", cases[i].text, (long long)us);
    }
    assert_string_equal(aw_kube_time_print(1769860800123456, buf, sizeof buf),
                        "2026-01-31T12:00:00.123456Z");
    assert_ok(aw_kube_time_parse(buf, &back));
    assert_int_equal(back, 1769860800123456);
}

AW_TEST_GROUP("kube-object")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_built_from_the_kind_and_checked_names),
        cmocka_unit_test(a_query_is_escaped),
        cmocka_unit_test(metadata_is_read_or_refused),
        cmocka_unit_test(values_are_found_by_path_or_not_at_all),
        cmocka_unit_test(times_are_read_as_rfc_3339_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
