/* verbs_test.c - what is done to objects, what a server has, what is told about it. */
#include "kube/verbs.h"

#include <stdio.h>

#include "kube/discovery.h"
#include "kube/events.h"
#include "kube/kube_testing.h"
#include "kube/watch.h"

#define DEPLOYMENTS "/apis/apps/v1/deployments"
#define PODS        "/api/v1/pods"

static const struct aw_kube_ref web = {&aw_kube_deployments, "n", "web", NULL};

static void open_world(struct aw_kube_world *world)
{
    aw_kube_world_open(world, &(struct aw_kube_options){.requests_per_second = 1000});
    aw_fake_apiserver_set(
        world->twin, DEPLOYMENTS,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web\"},\"spec\":{\"replicas\":3},"
        "\"status\":{\"replicas\":2}}");
    aw_fake_apiserver_set(
        world->twin, PODS,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"p\"},\"spec\":{\"containers\":["
        "{\"name\":\"app\",\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\"}}}"
        "]}}");
}

static int64_t int_in(struct aw_kube_world *world, const char *path)
{
    json_t *object = aw_fake_apiserver_get(world->twin, DEPLOYMENTS, "n", "web");
    const int64_t value = aw_kube_int_at(object, path, -1);
    json_decref(object);
    return value;
}

static void a_scale_is_read_and_set_and_a_conflict_is_told(void **state)
{
    struct aw_kube_world world;
    struct aw_kube_scale scale, after;
    (void)state;
    open_world(&world);
    assert_ok(aw_kube_scale_get(world.kube, &web, &scale, NULL));
    assert_int_equal(scale.replicas_wanted, 3);
    assert_int_equal(scale.replicas_seen, 2);
    assert_string_equal(scale.selector, "app=x");
    assert_ok(aw_kube_scale_set(world.kube, &web, 5, scale.resource_version, &after, NULL));
    assert_int_equal(after.replicas_wanted, 5);
    assert_int_equal(int_in(&world, "spec.replicas"), 5);
    /* what was read first is old by now */
    assert_int_equal(aw_kube_scale_set(world.kube, &web, 9, scale.resource_version, NULL, NULL),
                     AW_ERR_CONFLICT);
    assert_int_equal(int_in(&world, "spec.replicas"), 5);
    assert_ok(aw_kube_scale_set(world.kube, &web, 0, NULL, &after, NULL));
    assert_int_equal(after.replicas_wanted, 0);
    const struct aw_kube_ref missing = {&aw_kube_deployments, "n", "none", NULL};
    assert_int_equal(aw_kube_scale_get(world.kube, &missing, &scale, NULL), AW_ERR_NOTFOUND);
    aw_kube_world_close(&world);
}

/* Somebody else writes in between, so many times. */
struct race {
    struct aw_kube_world *world;
    int left, calls;
};

static enum aw_err add_one(void *ctx, json_t *object)
{
    struct race *race = ctx;
    const int64_t now = aw_kube_int_at(object, "spec.n", 0);
    race->calls++;
    if (race->left-- > 0) {
        char json[160];
        snprintf(json, sizeof json,
                 "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web\"},\"spec\":{\"n\":%d}}",
                 (int)now + 10);
        aw_fake_apiserver_set(race->world->twin, DEPLOYMENTS, json);
    }
    if (now >= 1000)
        return AW_ERR_NODATA;
    json_object_set_new(json_object_get(object, "spec"), "n", json_integer(now + 1));
    return AW_OK;
}

static void an_update_survives_conflicts_and_loses_nothing(void **state)
{
    struct aw_kube_world world;
    (void)state;
    open_world(&world);
    struct race race = {&world, 2, 0};
    assert_ok(aw_kube_update(world.kube, &web, add_one, &race, NULL));
    assert_int_equal(race.calls, 3);
    assert_int_equal(int_in(&world, "spec.n"), 21); /* both tens and our one */
    race = (struct race){&world, 99, 0};
    assert_int_equal(aw_kube_update(world.kube, &web, add_one, &race, NULL), AW_ERR_CONFLICT);
    assert_int_equal(race.calls, AW_KUBE_UPDATE_ATTEMPTS_MAX);
    aw_fake_apiserver_set(
        world.twin, DEPLOYMENTS,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web\"},\"spec\":{\"n\":1000}}");
    race = (struct race){&world, 0, 0};
    const uint32_t puts = aw_fake_apiserver_count(world.twin, "PUT");
    assert_ok(aw_kube_update(world.kube, &web, add_one, &race, NULL)); /* nothing to write */
    assert_int_equal(aw_fake_apiserver_count(world.twin, "PUT"), puts);
    aw_kube_world_close(&world);
}

static void a_patch_says_what_kind_it_is(void **state)
{
    struct aw_kube_world world;
    struct aw_kube_ref status = web;
    json_t *patch = json_pack("{s:{s:i}, s:{s:i}}", "spec", "replicas", 7, "status", "seen", 1);
    (void)state;
    open_world(&world);
    status.sub = "status";
    assert_ok(aw_kube_patch(world.kube, &status, AW_KUBE_PATCH_MERGE, patch, NULL, NULL, NULL));
    assert_int_equal(int_in(&world, "spec.replicas"), 3); /* a status is only a status */
    assert_int_equal(int_in(&world, "status.seen"), 1);
    assert_ok(aw_kube_patch(world.kube, &web, AW_KUBE_PATCH_APPLY_FORCE, patch, NULL, NULL, NULL));
    assert_int_equal(aw_fake_apiserver_count(world.twin,
                                             "PATCH /apis/apps/v1/namespaces/n/deployments/web"
                                             "?fieldManager=aware&force=true"),
                     1);
    json_decref(patch);
    aw_kube_world_close(&world);
}

static void an_eviction_is_done_blocked_or_not_for_this_pod(void **state)
{
    struct aw_kube_world world;
    enum aw_kube_eviction eviction = AW_KUBE_EVICTED;
    (void)state;
    open_world(&world);
    aw_fake_apiserver_fault(world.twin, &(struct aw_fake_apiserver_fault){
                                            .match = "POST /api/v1/namespaces/n/pods/p/eviction",
                                            .count = 1,
                                            .status = 429,
                                            .reason = "TooManyRequests",
                                            .retry_after_s = 10});
    assert_ok(aw_kube_evict(world.kube, "v1", "n", "p", NULL, &eviction, NULL));
    assert_int_equal(eviction, AW_KUBE_BLOCKED);
    assert_int_equal(aw_fake_apiserver_count(world.twin, "POST"), 1); /* not tried again */
    assert_ok(aw_kube_evict(world.kube, "v1", "n", "p", "another-uid", &eviction, NULL));
    assert_int_equal(eviction, AW_KUBE_REPLACED);
    assert_int_equal(aw_kube_evict(world.kube, "v1beta1", "n", "p", NULL, &eviction, NULL),
                     AW_ERR_FORMAT); /* the double is a new server */
    assert_ok(aw_kube_evict(world.kube, "v1", "n", "p", NULL, &eviction, NULL));
    assert_int_equal(eviction, AW_KUBE_EVICTED);
    assert_ok(aw_kube_evict(world.kube, "v1", "n", "p", NULL, &eviction, NULL)); /* gone already */
    assert_int_equal(eviction, AW_KUBE_EVICTED);
    aw_kube_world_close(&world);
}

static void a_resize_names_containers_and_leaves_the_rest(void **state)
{
    static const struct aw_kube_container_size sizes[] = {{"app", 250, -1, 512 << 20, 1 << 30}};
    static const struct aw_kube_container_size wrong[] = {{"none", 250, -1, -1, -1}};
    struct aw_kube_world world;
    struct aw_kube_status status;
    json_t *pod = NULL;
    (void)state;
    open_world(&world);
    assert_ok(aw_kube_resize(world.kube, "n", "p", sizes, 1, &pod, NULL, NULL));
    const json_t *resources = aw_kube_at(pod, "spec.containers[name=app].resources");
    assert_string_equal(aw_kube_text_at(resources, "requests.cpu"), "250m");
    assert_string_equal(aw_kube_text_at(resources, "requests.memory"), "512Mi");
    assert_string_equal(aw_kube_text_at(resources, "limits.memory"), "1Gi");
    assert_null(aw_kube_at(resources, "limits.cpu"));
    json_decref(pod);
    assert_int_equal(aw_kube_resize(world.kube, "n", "p", wrong, 1, NULL, &status, NULL),
                     AW_ERR_RANGE);
    assert_int_equal(status.reason, AW_KUBE_INVALID);
    aw_kube_world_close(&world);
}

static void the_server_says_what_it_has_and_what_we_may(void **state)
{
    struct aw_kube_world world;
    struct aw_kube_server server;
    struct aw_kube_found found;
    bool allowed = false;
    (void)state;
    open_world(&world);
    assert_ok(aw_kube_discover(world.kube, &server, NULL));
    assert_int_equal(server.major, 1);
    assert_int_equal(server.minor, 33);
    assert_string_equal(server.release, "v1.33.1");
    assert_string_equal(server.autoscaling, "v2");
    assert_string_equal(server.policy, "v1");
    assert_string_equal(server.events, "v1");
    assert_string_equal(server.metrics, "");
    assert_string_equal(server.eviction, "v1");
    assert_true(server.pod_resize);
    assert_ok(aw_kube_find_kind(world.kube, "apps/v1", "Deployment", &found, NULL));
    assert_string_equal(found.kind.plural, "deployments");
    assert_true(found.scalable && found.kind.namespaced);
    assert_int_equal(aw_kube_find_kind(world.kube, "apps/v1", "Deploy", &found, NULL),
                     AW_ERR_NOTFOUND);
    assert_int_equal(aw_kube_find_kind(world.kube, "../v1", "Pod", &found, NULL), AW_ERR_CONFIG);
    const struct aw_kube_access pods = {.verb = "list", .group = "", .resource = "pods", .ns = "n"};
    const struct aw_kube_access secrets = {.verb = "get", .group = "", .resource = "secrets"};
    assert_ok(aw_kube_may(world.kube, &pods, &allowed, NULL));
    assert_true(allowed);
    assert_ok(aw_kube_may(world.kube, &secrets, &allowed, NULL));
    assert_false(allowed);
    aw_kube_world_close(&world);
}

/* As a real server of 1.20 answers, shortened. */
static void an_old_server_is_known_by_its_lists(void **state)
{
    struct aw_kube_server server = {0};
    json_t *groups = json_loads(
        "{\"groups\":[{\"name\":\"autoscaling\",\"versions\":[{\"version\":\"v1\"},"
        "{\"version\":\"v2beta1\"},{\"version\":\"v2beta2\"}]},{\"name\":\"policy\",\"versions\":"
        "[{\"version\":\"v1beta1\"}]},{\"name\":7},null,{\"name\":\"events.k8s.io\"}]}",
        0, NULL);
    json_t *core = json_loads("{\"resources\":[{\"name\":\"pods\"},{\"name\":\"pods/eviction\","
                              "\"group\":\"policy\",\"version\":\"v1beta1\"}]}",
                              0, NULL);
    (void)state;
    assert_ok(aw_kube_read_groups(groups, &server, NULL));
    assert_ok(aw_kube_read_core(core, &server, NULL));
    assert_string_equal(server.autoscaling, "v2beta2");
    assert_string_equal(server.policy, "v1beta1");
    assert_string_equal(server.events, "");
    assert_string_equal(server.eviction, "v1beta1");
    assert_false(server.pod_resize);
    assert_int_equal(aw_kube_read_version(core, &server, NULL), AW_ERR_FORMAT);
    json_decref(groups);
    json_decref(core);
}

static void the_same_said_again_is_counted_not_created(void **state)
{
    static const struct aw_kube_event scaled = {&aw_kube_deployments, "n",     "web",   "u", false,
                                                "ScaledHorizontally", "Scale", "3 -> 5"};
    struct aw_kube_world world;
    struct aw_kube_recorder recorder;
    struct aw_kube_event other = scaled;
    (void)state;
    for (int v1 = 0; v1 < 2; v1++) {
        const char *collection = v1 ? "POST /apis/events.k8s.io/v1/namespaces/n/events"
                                    : "POST /api/v1/namespaces/n/events";
        open_world(&world);
        struct aw_kube_server server = {0};
        snprintf(server.events, sizeof server.events, "%s", v1 ? "v1" : "");
        aw_kube_recorder_init(&recorder, world.kube, &server, "pod-1");
        for (int i = 0; i < 10; i++)
            assert_ok(aw_kube_record(&recorder, &scaled, NULL));
        assert_int_equal(aw_fake_apiserver_count(world.twin, collection), 1);
        assert_int_equal(aw_fake_apiserver_count(world.twin, "PATCH"), 0);
        json_t *body = aw_fake_apiserver_body(world.twin, collection);
        assert_string_equal(aw_kube_text_at(body, v1 ? "note" : "message"), "3 -> 5");
        assert_string_equal(aw_kube_text_at(body, v1 ? "regarding.name" : "involvedObject.name"),
                            "web");
        json_decref(body);
        aw_clock_virtual_advance(&world.clock, AW_KUBE_EVENT_HEARTBEAT_US);
        assert_ok(aw_kube_record(&recorder, &scaled, NULL));
        body = aw_fake_apiserver_body(world.twin, "PATCH");
        assert_int_equal(aw_kube_int_at(body, v1 ? "series.count" : "count", 0), 11);
        json_decref(body);
        other.note = "5 -> 3";
        assert_ok(aw_kube_record(&recorder, &other, NULL));
        assert_int_equal(aw_fake_apiserver_count(world.twin, collection), 2);
        aw_clock_virtual_advance(&world.clock, AW_KUBE_EVENT_FORGET_US);
        assert_ok(aw_kube_record(&recorder, &scaled, NULL)); /* news again */
        assert_int_equal(aw_fake_apiserver_count(world.twin, collection), 3);
        aw_kube_world_close(&world);
    }
}

struct counted {
    uint32_t begun, objects;
    struct aw_kube_world *world; /* compacted after the first object; NULL: not */
};

static void count_begin(void *ctx)
{
    struct counted *counted = ctx;
    counted->begun++;
    counted->objects = 0;
}

static enum aw_err count_object(void *ctx, const json_t *object)
{
    struct counted *counted = ctx;
    assert_true(json_is_object(object));
    counted->objects++;
    if (counted->world)
        aw_fake_apiserver_compact(counted->world->twin);
    counted->world = NULL;
    return AW_OK;
}

static void a_list_of_many_pages_begins_anew_when_its_token_expires(void **state)
{
    struct aw_kube_world world;
    char json[128];
    (void)state;
    open_world(&world);
    for (int i = 0; i < 9; i++) {
        snprintf(json, sizeof json, "{\"metadata\":{\"namespace\":\"m\",\"name\":\"p%d\"}}", i);
        aw_fake_apiserver_set(world.twin, PODS, json);
    }
    struct counted counted = {0, 0, &world};
    const struct aw_kube_query query = {.kind = &aw_kube_pods, .limit = 4};
    const struct aw_kube_visitor visitor = {count_begin, count_object, &counted};
    assert_ok(aw_kube_list(world.kube, &query, &visitor, NULL));
    assert_int_equal(counted.begun, 2);
    assert_int_equal(counted.objects, 10);
    const struct aw_kube_query one = {.kind = &aw_kube_pods, .ns = "n"};
    assert_ok(aw_kube_list(world.kube, &one, &visitor, NULL));
    assert_int_equal(counted.objects, 1);
    aw_kube_world_close(&world);
}

static void objects_are_created_read_and_deleted(void **state)
{
    struct aw_kube_world world;
    const struct aw_kube_ref all = {&aw_kube_deployments, "n", NULL, NULL};
    const struct aw_kube_ref it = {&aw_kube_deployments, "n", "x", NULL};
    json_t *object = json_pack("{s:{s:s, s:s}}", "metadata", "namespace", "n", "name", "x");
    json_t *got = NULL;
    (void)state;
    open_world(&world);
    assert_ok(aw_kube_create(world.kube, &all, object, NULL, NULL, NULL));
    assert_int_equal(aw_kube_create(world.kube, &all, object, NULL, NULL, NULL), AW_ERR_EXISTS);
    assert_ok(aw_kube_get(world.kube, &it, &got, NULL, NULL));
    assert_string_equal(aw_kube_text_at(got, "metadata.name"), "x");
    assert_ok(aw_kube_replace(world.kube, &it, got, NULL, NULL, NULL));
    assert_int_equal(aw_kube_replace(world.kube, &it, got, NULL, NULL, NULL), AW_ERR_CONFLICT);
    assert_ok(aw_kube_delete(world.kube, &it, aw_kube_text_at(got, "metadata.uid"), NULL, NULL));
    assert_int_equal(aw_kube_get(world.kube, &it, NULL, NULL, NULL), AW_ERR_NOTFOUND);
    json_decref(got);
    json_decref(object);
    aw_kube_world_close(&world);
}

AW_TEST_GROUP("kube-verbs")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scale_is_read_and_set_and_a_conflict_is_told),
        cmocka_unit_test(an_update_survives_conflicts_and_loses_nothing),
        cmocka_unit_test(a_patch_says_what_kind_it_is),
        cmocka_unit_test(an_eviction_is_done_blocked_or_not_for_this_pod),
        cmocka_unit_test(a_resize_names_containers_and_leaves_the_rest),
        cmocka_unit_test(the_server_says_what_it_has_and_what_we_may),
        cmocka_unit_test(an_old_server_is_known_by_its_lists),
        cmocka_unit_test(the_same_said_again_is_counted_not_created),
        cmocka_unit_test(a_list_of_many_pages_begins_anew_when_its_token_expires),
        cmocka_unit_test(objects_are_created_read_and_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
