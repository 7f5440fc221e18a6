/* admission_review_test.c - what becomes of a new pod, as the API server would apply the answer. */
#include "controller/admission_review.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/testing.h"

/* A cluster with one object, for one target. */
struct cluster {
    _Alignas(8) char intent[2048];
    const char *target;     /* its key */
    const char *deployment; /* of every ReplicaSet; NULL: not known */
    struct aw__limit_range limits;
    bool limited;
};

static const char *deployment_of(void *ctx, const char *ns, const char *set)
{
    struct cluster *cluster = ctx;
    (void)ns;
    (void)set;
    return cluster->deployment;
}

static const struct aw__mpa_intent *intent_of(void *ctx, const char *target, const char **ret_name)
{
    struct cluster *cluster = ctx;
    *ret_name = "web";
    return !strcmp(target, cluster->target) ? (const struct aw__mpa_intent *)cluster->intent : NULL;
}

static const struct aw__limit_range *limits_of(void *ctx, const char *ns)
{
    struct cluster *cluster = ctx;
    assert_string_equal(ns, "n");
    return cluster->limited ? &cluster->limits : NULL;
}

static void set_object(struct cluster *cluster, const char *mode, const char *more)
{
    char json[800];
    size_t len;
    snprintf(json, sizeof json,
             "{\"metadata\":{\"generation\":2},\"spec\":{\"scaleTargetRef\":{\"name\":\"web\"},"
             "\"policy\":{\"updateMode\":\"%s\"}},\"status\":{\"observedGeneration\":2,"
             "\"recommendation\":{\"replicas\":3,\"cpu\":\"500m\",\"memory\":\"1Gi\",\"container\":"
             "\"app\",\"decision\":\"17\",\"time\":\"2020-01-01T00:00:00Z\"}%s}}",
             mode, more);
    json_t *object = json_loads(json, 0, NULL);
    assert_non_null(object);
    assert_ok(aw__mpa_intent_project(NULL, object, cluster->intent, sizeof cluster->intent, &len));
    json_decref(object);
}

static void open_cluster(struct cluster *cluster)
{
    *cluster = (struct cluster){.target = "n/apps/Deployment/web", .deployment = "web"};
    cluster->limits = aw__limit_range_none;
    set_object(cluster, "Auto", "");
}

/* RFC 6902, of which only "add" to objects and into lists is used. */
static void apply(json_t *pod, const json_t *patch)
{
    size_t i;
    const json_t *op;
    json_array_foreach(patch, i, op)
    {
        char path[256], *rest = path + 1, *word;
        json_t *at = pod;
        assert_string_equal(json_string_value(json_object_get(op, "op")), "add");
        snprintf(path, sizeof path, "%s", json_string_value(json_object_get(op, "path")));
        while ((word = strsep(&rest, "/"))) {
            char *tilde = strstr(word, "~1");
            if (tilde) {
                *tilde = '/';
                memmove(tilde + 1, tilde + 2, strlen(tilde + 2) + 1);
            }
            if (!rest) {
                assert_true(json_is_object(at)); /* the parent must be there */
                json_object_set(at, word, json_object_get(op, "value"));
            } else {
                at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(word, NULL, 10))
                                       : json_object_get(at, word);
                assert_non_null(at);
            }
        }
    }
}

static const char plain_pod[] =
    "{\"metadata\":{\"generateName\":\"web-5d-\",\"labels\":{\"pod-template-hash\":\"5d\"},"
    "\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":\"web-5d\","
    "\"controller\":true}]},\"spec\":{\"containers\":[{\"name\":\"proxy\"},{\"name\":\"app\"%s}]}}";

/* Reviews a pod; returns it as it would be created. */
static json_t *admit(struct cluster *cluster, json_t *pod, const char *version,
                     enum aw__review_verdict *ret_verdict)
{
    const struct aw__review_world world = {deployment_of, intent_of, limits_of, cluster};
    json_t *answer = NULL;
    char api[64];
    snprintf(api, sizeof api, "admission.k8s.io/%s", version);
    json_t *review = json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:O}}",
                               "apiVersion", api, "kind", "AdmissionReview", "request", "uid",
                               "u-1", "operation", "CREATE", "namespace", "n", "resource", "group",
                               "", "version", "v1", "resource", "pods", "object", pod);
    char *text = json_dumps(review, 0);
    assert_ok(aw__review(text, strlen(text), &world, &answer, ret_verdict, NULL));
    free(text);
    json_decref(review);
    assert_string_equal(aw_kube_text_at(answer, "apiVersion"), api);
    assert_string_equal(aw_kube_text_at(answer, "response.uid"), "u-1");
    assert_true(json_is_true(aw_kube_at(answer, "response.allowed")));
    const char *encoded = aw_kube_text_at(answer, "response.patch");
    if (encoded[0]) {
        unsigned char decoded[4096] = {0};
        assert_string_equal(aw_kube_text_at(answer, "response.patchType"), "JSONPatch");
        assert_true(strlen(encoded) < sizeof decoded);
        const int len =
            EVP_DecodeBlock(decoded, (const unsigned char *)encoded, (int)strlen(encoded));
        assert_true(len > 0);
        json_t *patch = json_loadb((char *)decoded, strlen((char *)decoded), 0, NULL);
        assert_non_null(patch);
        apply(pod, patch);
        json_decref(patch);
    }
    json_decref(answer);
    return pod;
}

static json_t *pod_with(const char *resources)
{
    char json[900];
    snprintf(json, sizeof json, plain_pod, resources);
    json_t *pod = json_loads(json, 0, NULL);
    assert_non_null(pod);
    return pod;
}

static const char *resource(const json_t *pod, const char *path)
{
    return aw_kube_text_at(json_array_get(aw_kube_at(pod, "spec.containers"), 1), path);
}

static void a_new_pod_gets_the_recommended_size(void **state)
{
    static const struct {
        const char *why, *resources, *cpu, *memory, *cpu_limit, *memory_limit;
    } cases[] = {
        {"it had none", "", "500m", "1Gi", "", ""},
        {"it had an empty one", ",\"resources\":{}", "500m", "1Gi", "", ""},
        {"null is none", ",\"resources\":null", "500m", "1Gi", "", ""},
        {"requests alone", ",\"resources\":{\"requests\":{\"cpu\":\"100m\",\"memory\":\"1Gi\"}}",
         "500m", "1Gi", "", ""},
        {"the ratio of limits is kept",
         ",\"resources\":{\"requests\":{\"cpu\":\"100m\",\"memory\":\"512Mi\"},\"limits\":{\"cpu\":"
         "\"400m\",\"memory\":\"768Mi\"}}",
         "500m", "1Gi", "2", "1.5Gi"},
        {"Guaranteed stays so",
         ",\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"2Gi\"},\"limits\":{\"cpu\":"
         "\"1\","
         "\"memory\":\"2Gi\"}}",
         "500m", "1Gi", "500m", "1Gi"},
        {"a limit without a request is one",
         ",\"resources\":{\"limits\":{\"cpu\":\"1\",\"memory\":\"2Gi\"}}", "500m", "1Gi", "500m",
         "1Gi"},
    };
    struct cluster cluster;
    enum aw__review_verdict verdict;
    (void)state;
    open_cluster(&cluster);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *pod =
            admit(&cluster, pod_with(cases[i].resources), i % 2 ? "v1" : "v1beta1", &verdict);
        if (verdict != AW__REVIEW_SIZED)
            fail_msg("%s", cases[i].why);
        assert_string_equal(resource(pod, "resources.requests.cpu"), cases[i].cpu);
        assert_string_equal(resource(pod, "resources.requests.memory"), cases[i].memory);
        assert_string_equal(resource(pod, "resources.limits.cpu"), cases[i].cpu_limit);
        assert_string_equal(resource(pod, "resources.limits.memory"), cases[i].memory_limit);
        assert_string_equal(aw_kube_text_at(pod, "metadata.annotations[" AW__REVIEW_ANNOTATION "]"),
                            "app: cpu 500m, memory 1Gi; decision 17 of web");
        /* the other container is nobody's business */
        assert_null(
            json_object_get(json_array_get(aw_kube_at(pod, "spec.containers"), 0), "resources"));
        json_decref(pod);
    }
}

static void a_pod_that_has_its_size_is_not_patched(void **state)
{
    struct cluster cluster;
    enum aw__review_verdict verdict;
    (void)state;
    open_cluster(&cluster);
    json_t *pod = pod_with(",\"resources\":{\"requests\":{\"cpu\":\"0.5\",\"memory\":\"1024Mi\"}}");
    json_t *before = json_deep_copy(pod);
    pod = admit(&cluster, pod, "v1", &verdict);
    assert_int_equal(verdict, AW__REVIEW_FITTING);
    assert_true(json_equal(pod, before));
    json_decref(before);
    json_decref(pod);
}

static void nothing_is_done_for_objects_that_do_not_ask_for_it(void **state)
{
    static const struct {
        const char *why, *mode, *more;
        bool sized;
    } cases[] = {
        {"recommend only", "Off", "", false},
        {"nothing is said", "", "", false},
        {"a person approved of it", "Approve", "", true},
        {"new pods alone", "Initial", "", true},
        {"evictions", "Recreate", "", true},
        {"another autoscaler", "Auto",
         ",\"conditions\":[{\"type\":\"AbleToScale\",\"status\":\"False\",\"reason\":"
         "\"ConflictingAutoscaler\"}]",
         false},
        {"another trouble is no reason", "Auto",
         ",\"conditions\":[{\"type\":\"AbleToScale\",\"status\":\"False\",\"reason\":"
         "\"TooFewReplicas\"}]",
         true},
        {"frozen pods come back as they were", "Auto",
         ",\"conditions\":[{\"type\":\"Frozen\",\"status\":\"True\"}]", true},
        {"the recommender has not read it yet", "Auto", ",\"observedGeneration\":1", false},
        {"no recommendation", "Auto", ",\"recommendation\":{}", false},
    };
    struct cluster cluster;
    enum aw__review_verdict verdict;
    (void)state;
    open_cluster(&cluster);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_object(&cluster, cases[i].mode, cases[i].more);
        json_decref(admit(&cluster, pod_with(""), "v1", &verdict));
        if ((verdict == AW__REVIEW_SIZED) != cases[i].sized)
            fail_msg("%s", cases[i].why);
    }
}

static void the_owner_is_found_through_its_replica_set(void **state)
{
    struct cluster cluster;
    enum aw__review_verdict verdict;
    (void)state;
    open_cluster(&cluster);
    cluster.deployment = NULL; /* the set is a moment old: its name has the template's hash */
    json_decref(admit(&cluster, pod_with(""), "v1", &verdict));
    assert_int_equal(verdict, AW__REVIEW_SIZED);
    cluster.deployment = "other";
    json_decref(admit(&cluster, pod_with(""), "v1", &verdict));
    assert_int_equal(verdict, AW__REVIEW_FOREIGN);
    cluster.target = "n/apps/ReplicaSet/web-5d"; /* scaled by itself */
    json_decref(admit(&cluster, pod_with(""), "v1", &verdict));
    assert_int_equal(verdict, AW__REVIEW_SIZED);
    json_t *alone = pod_with("");
    json_object_del(json_object_get(alone, "metadata"), "ownerReferences");
    json_decref(admit(&cluster, alone, "v1", &verdict));
    assert_int_equal(verdict, AW__REVIEW_FOREIGN);
}

static void a_limit_range_is_obeyed(void **state)
{
    static const struct {
        const char *why, *range, *resources, *cpu, *cpu_limit;
    } cases[] = {
        {"not more than the maximum", "\"type\":\"Container\",\"max\":{\"cpu\":\"300m\"}",
         ",\"resources\":{\"requests\":{\"cpu\":\"100m\"}}", "300m", ""},
        {"the limit hits the maximum, and the ratio stays",
         "\"type\":\"Container\",\"max\":{\"cpu\":\"800m\"}",
         ",\"resources\":{\"requests\":{\"cpu\":\"100m\"},\"limits\":{\"cpu\":\"200m\"}}", "400m",
         "800m"},
        {"not less than the minimum", "\"type\":\"Container\",\"min\":{\"cpu\":\"750m\"}",
         ",\"resources\":{\"requests\":{\"cpu\":\"1\"},\"limits\":{\"cpu\":\"2\"}}", "750m", "1.5"},
        {"a default limit counts as its limit",
         "\"type\":\"Container\",\"default\":{\"cpu\":\"200m\"}",
         ",\"resources\":{\"requests\":{\"cpu\":\"100m\"}}", "500m", "1"},
        {"a maximum of the pod", "\"type\":\"Pod\",\"max\":{\"cpu\":\"400m\"}",
         ",\"resources\":{\"requests\":{\"cpu\":\"100m\"}}", "400m", ""},
        {"claims are another matter", "\"type\":\"PersistentVolumeClaim\",\"max\":{\"cpu\":\"1m\"}",
         ",\"resources\":{\"requests\":{\"cpu\":\"100m\"}}", "500m", ""},
    };
    struct cluster cluster;
    enum aw__review_verdict verdict;
    char json[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_cluster(&cluster);
        snprintf(json, sizeof json, "{\"spec\":{\"limits\":[{%s}]}}", cases[i].range);
        json_t *range = json_loads(json, 0, NULL);
        assert_ok(aw__limit_range_add(&cluster.limits, range));
        json_decref(range);
        cluster.limited = true;
        json_t *pod = admit(&cluster, pod_with(cases[i].resources), "v1", &verdict);
        if (strcmp(resource(pod, "resources.requests.cpu"), cases[i].cpu) != 0 ||
            strcmp(resource(pod, "resources.limits.cpu"), cases[i].cpu_limit) != 0)
            fail_msg("%s: %s, %s", cases[i].why, resource(pod, "resources.requests.cpu"),
                     resource(pod, "resources.limits.cpu"));
        json_decref(pod);
    }
}

static void what_is_not_understood_is_allowed_as_it_is(void **state)
{
    struct cluster cluster;
    enum aw__review_verdict verdict;
    (void)state;
    open_cluster(&cluster);
    json_t *pod = pod_with(",\"resources\":{\"requests\":{\"cpu\":\"lots\"}}");
    json_t *before = json_deep_copy(pod);
    pod = admit(&cluster, pod, "v1", &verdict);
    assert_int_equal(verdict, AW__REVIEW_UNREAD);
    assert_true(json_equal(pod, before));
    json_decref(before);
    json_decref(pod);
    /* other requests about pods, and other things */
    static const char *const changes[][2] = {
        {"operation", "\"UPDATE\""},
        {"operation", "\"DELETE\""},
        {"subResource", "\"resize\""},
        {"resource", "{\"group\":\"apps\",\"version\":\"v1\",\"resource\":\"pods\"}"},
        {"resource", "{\"group\":\"\",\"version\":\"v1\",\"resource\":\"services\"}"},
        {"resource", "7"},
        {"object", "null"},
        {"object", "[]"},
        {"namespace", "\"../x\""},
    };
    const struct aw__review_world world = {deployment_of, intent_of, limits_of, &cluster};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        json_t *answer = NULL;
        json_t *request =
            json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:o}", "uid", "u", "operation", "CREATE",
                      "namespace", "n", "resource", "group", "", "version", "v1", "resource",
                      "pods", "object", pod_with(""));
        json_object_set_new(request, changes[i][0],
                            json_loads(changes[i][1], JSON_DECODE_ANY, NULL));
        json_t *review = json_pack("{s:s, s:s, s:o}", "apiVersion", "admission.k8s.io/v1", "kind",
                                   "AdmissionReview", "request", request);
        char *text = json_dumps(review, 0);
        assert_ok(aw__review(text, strlen(text), &world, &answer, &verdict, NULL));
        assert_int_equal(verdict, AW__REVIEW_FOREIGN);
        assert_true(json_is_true(aw_kube_at(answer, "response.allowed")));
        assert_null(aw_kube_at(answer, "response.patch"));
        json_decref(answer);
        json_decref(review);
        free(text);
    }
}

static void what_is_no_review_has_no_answer(void **state)
{
    static const char *const bodies[] = {
        "",
        "{",
        "null",
        "[]",
        "{}",
        "{\"kind\":\"AdmissionReview\"}",
        "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{}}",
        "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"v1\",\"request\":{\"uid\":\"u\"}}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{\"uid\":\"u\"}}",
    };
    struct cluster cluster;
    enum aw__review_verdict verdict;
    (void)state;
    open_cluster(&cluster);
    const struct aw__review_world world = {deployment_of, intent_of, limits_of, &cluster};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        json_t *answer = NULL;
        assert_int_equal(aw__review(bodies[i], strlen(bodies[i]), &world, &answer, &verdict, NULL),
                         AW_ERR_FORMAT);
        assert_null(answer);
    }
}

AW_TEST_GROUP("controller-admission-review")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_pod_gets_the_recommended_size),
        cmocka_unit_test(a_pod_that_has_its_size_is_not_patched),
        cmocka_unit_test(nothing_is_done_for_objects_that_do_not_ask_for_it),
        cmocka_unit_test(the_owner_is_found_through_its_replica_set),
        cmocka_unit_test(a_limit_range_is_obeyed),
        cmocka_unit_test(what_is_not_understood_is_allowed_as_it_is),
        cmocka_unit_test(what_is_no_review_has_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
