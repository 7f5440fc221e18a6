/*
 * client_test.c - the client against a real API server, and against one that is killed, compacted
 * and changed by others.
 *
 * tests/e2e/e2e.py runs it, with the server's kubeconfig in AWARE_E2E_KUBECONFIG, a namespace that
 * is ours in AWARE_E2E_NAMESPACE, and in AWARE_E2E_CLUSTER the folder of the scripts that do harm.
 */
#include "base/testing.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kube/discovery.h"
#include "kube/events.h"
#include "kube/informer.h"
#include "kube/lease.h"
#include "kube/project.h"
#include "kube/verbs.h"

#define PATIENCE_US 300000000 /* the machine may be busy with other things */
#define TURN_US     200000
#define OBJECTS     24

extern char **environ;

struct world {
    struct aw_kube_config config;
    struct aw_kube *kube;
    struct aw_kube_server server;
    const char *ns;
    struct aw_kube_informer *informer;
    uint32_t appeared, changed, vanished;
};

static int64_t now(void)
{
    return aw_clock_monotonic_us(NULL);
}

static int open_world(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    struct aw_diag diag = {0};
    assert_non_null(world);
    *state = world;
    world->ns = getenv("AWARE_E2E_NAMESPACE");
    assert_non_null(world->ns);
    const struct aw_kube_config_from from = {.path = getenv("AWARE_E2E_KUBECONFIG")};
    const struct aw_kube_options options = {.requests_per_second = 200};
    enum aw_err err = aw_kube_config_load(&world->config, &from, NULL, &diag);
    err = err ? err : aw_kube_open(&world->kube, &world->config, &options, NULL, &diag);
    err = err ? err : aw_kube_discover(world->kube, &world->server, &diag);
    if (err)
        print_error("%s\n", diag.text);
    return err != AW_OK;
}

static int close_world(void **state)
{
    struct world *world = *state;
    aw_kube_informer_close(world->informer);
    aw_kube_close(world->kube);
    aw_kube_config_deinit(&world->config);
    free(world);
    return 0;
}

/* Runs a script of the cluster, and waits for its end. */
static void harm(const char *script, const char *first, const char *second)
{
    char path[4096];
    char *argv[] = {path, NULL, NULL, NULL};
    int status = -1;
    pid_t pid = 0;
    snprintf(path, sizeof path, "%s/%s", getenv("AWARE_E2E_CLUSTER"), script);
    argv[1] = first ? strdup(first) : NULL;
    argv[2] = second ? strdup(second) : NULL;
    assert_int_equal(posix_spawn(&pid, path, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(argv[1]);
    free(argv[2]);
}

/* Tries until the server takes it: after a restart it refuses for a while what it does not know. */
static void create(struct world *world, const struct aw_kube_kind *kind, json_t *object)
{
    const struct aw_kube_ref ref = {.kind = kind, .ns = world->ns};
    const int64_t until_us = now() + PATIENCE_US;
    struct aw_diag diag = {0};
    enum aw_err err = AW_OK;
    assert_non_null(object);
    do {
        err = aw_kube_create(world->kube, &ref, object, NULL, NULL, &diag);
        if (err && err != AW_ERR_EXISTS)
            usleep(TURN_US);
    } while (err && err != AW_ERR_EXISTS && now() < until_us);
    if (err && err != AW_ERR_EXISTS)
        print_error("%s\n", diag.text);
    json_decref(object);
    assert_true(err == AW_OK || err == AW_ERR_EXISTS);
}

/* A Deployment without pods: cheap, and it can be scaled. */
static json_t *deployment(const char *name)
{
    return json_pack(
        "{s:s, s:s, s:{s:s}, s:{s:i, s:{s:{s:s}}, s:{s:{s:{s:s}}, s:{s:[{s:s, s:s}]}}}}",
        "apiVersion", "apps/v1", "kind", "Deployment", "metadata", "name", name, "spec", "replicas",
        0, "selector", "matchLabels", "app", name, "template", "metadata", "labels", "app", name,
        "spec", "containers", "name", "app", "image", "aware.local/busybox:1");
}

static void pause_deployment(struct world *world, const char *name, bool paused)
{
    const struct aw_kube_ref ref = {.kind = &aw_kube_deployments, .ns = world->ns, .name = name};
    const int64_t until_us = now() + PATIENCE_US;
    json_t *patch = json_pack("{s:{s:b}}", "spec", "paused", paused);
    struct aw_diag diag = {0};
    enum aw_err err = AW_OK;
    do
        err = aw_kube_patch(world->kube, &ref, AW_KUBE_PATCH_MERGE, patch, NULL, NULL, &diag);
    while (err && now() < until_us && usleep(TURN_US) == 0);
    json_decref(patch);
    if (err)
        print_error("%s: %s\n", name, diag.text);
    assert_ok(err);
}

static void heard(void *ctx, enum aw_kube_change change, const struct aw_kube_item *before,
                  const struct aw_kube_item *after)
{
    struct world *world = ctx;
    (void)before;
    (void)after;
    world->appeared += change == AW_KUBE_APPEARED;
    world->changed += change == AW_KUBE_CHANGED;
    world->vanished += change == AW_KUBE_VANISHED;
}

static struct aw_kube_informer *follow(struct world *world)
{
    const struct aw_kube_informer_config config = {
        .query = {.kind = &aw_kube_deployments, .ns = world->ns, .limit = 7},
        .project = aw_kube_project_workload,
        .changed = heard,
        .ctx = world};
    world->appeared = world->changed = world->vanished = 0;
    assert_ok(aw_kube_informer_open(&world->informer, world->kube, &config, NULL));
    return world->informer;
}

static bool paused(const struct aw_kube_informer *informer, const struct world *world,
                   const char *name)
{
    char key[AW_KUBE_KEY_MAX];
    snprintf(key, sizeof key, "%s/%s", world->ns, name);
    const struct aw_kube_item *item = aw_kube_informer_find(informer, key);
    return item && ((const struct aw_kube_workload *)item->data)->paused;
}

/* Turns the owner's loop until the copy has `count` objects and `name` is paused or not. */
static bool becomes(struct world *world, struct aw_kube_informer *informer, uint32_t count,
                    const char *name, bool wanted)
{
    const struct aw_kube_informer_state *state = aw_kube_informer_state(informer);
    const int64_t until_us = now() + PATIENCE_US;
    while (now() < until_us) {
        struct aw_diag diag = {0};
        if (aw_kube_informer_step(informer, &diag) == AW_OK && state->synced &&
            state->objects == count && paused(informer, world, name) == wanted)
            return true;
        const int64_t due_us = aw_kube_informer_due(informer);
        const int64_t turn_us = now() + TURN_US;
        assert_ok(aw_kube_wait(world->kube, due_us < turn_us ? due_us : turn_us));
    }
    return false;
}

static void make_deployments(struct world *world)
{
    for (int i = 0; i < OBJECTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "copy-%02d", i);
        create(world, &aw_kube_deployments, deployment(name));
    }
}

static void delete_deployment(struct world *world, const char *name)
{
    const struct aw_kube_ref ref = {.kind = &aw_kube_deployments, .ns = world->ns, .name = name};
    const enum aw_err err = aw_kube_delete(world->kube, &ref, NULL, NULL, NULL);
    assert_true(err == AW_OK || err == AW_ERR_NOTFOUND);
}

static void a_real_server_is_known_by_what_it_has(void **state)
{
    const struct world *world = *state;
    assert_int_equal(world->server.major, 1);
    const bool modern = world->server.minor >= 33;
    assert_true(modern || world->server.minor == 20);
    assert_string_equal(world->server.eviction, modern ? "v1" : "v1beta1");
    assert_string_equal(world->server.autoscaling, modern ? "v2" : "v2beta2");
    assert_string_equal(world->server.leases, "v1");
    assert_string_equal(world->server.events, "v1");
    assert_int_equal(world->server.pod_resize, modern);
}

static void a_copy_follows_what_others_do(void **state)
{
    struct world *world = *state;
    make_deployments(world);
    struct aw_kube_informer *informer = follow(world);
    assert_true(becomes(world, informer, OBJECTS, "copy-00", false));
    assert_int_equal(world->appeared, OBJECTS);
    pause_deployment(world, "copy-00", true);
    assert_true(becomes(world, informer, OBJECTS, "copy-00", true));
    assert_true(world->changed >= 1);
    delete_deployment(world, "copy-23");
    assert_true(becomes(world, informer, OBJECTS - 1, "copy-00", true));
    assert_int_equal(world->vanished, 1);
    assert_int_equal(aw_kube_informer_state(informer)->lists, 1);
}

static void a_server_that_was_killed_is_found_again_and_nothing_is_missed(void **state)
{
    struct world *world = *state;
    make_deployments(world);
    pause_deployment(world, "copy-01", false);
    struct aw_kube_informer *informer = follow(world);
    assert_true(becomes(world, informer, OBJECTS, "copy-01", false));
    harm("again", "--end", "apiserver");
    for (int i = 0; i < 10; i++) { /* nobody there: it tries, and keeps what it has */
        struct aw_diag diag = {0};
        const enum aw_err err = aw_kube_informer_step(informer, &diag);
        assert_true(err == AW_OK || aw_err_transient(err));
        assert_ok(aw_kube_wait(world->kube, now() + TURN_US));
    }
    assert_int_equal(aw_kube_informer_state(informer)->objects, OBJECTS);
    harm("again", "--wait", "apiserver");
    pause_deployment(world, "copy-01", true); /* before the copy is back */
    delete_deployment(world, "copy-22");
    assert_true(becomes(world, informer, OBJECTS - 1, "copy-01", true));
    assert_int_equal(world->vanished, 1);
}

struct pages {
    struct world *world;
    int begun, objects;
};

static void page_begin(void *ctx)
{
    struct pages *pages = ctx;
    pages->begun++;
    pages->objects = 0;
}

static enum aw_err page_object(void *ctx, const json_t *object)
{
    struct pages *pages = ctx;
    (void)object;
    pages->objects++;
    if (pages->begun == 1 && pages->objects == 1) { /* between the first page and the second */
        pause_deployment(pages->world, "copy-02", true);
        pause_deployment(pages->world, "copy-02", false);
        harm("compact", NULL, NULL);
    }
    return AW_OK;
}

static void a_list_whose_version_was_compacted_begins_anew(void **state)
{
    struct world *world = *state;
    struct pages pages = {.world = world};
    const struct aw_kube_query query = {.kind = &aw_kube_deployments, .ns = world->ns, .limit = 5};
    const struct aw_kube_visitor visitor = {page_begin, page_object, &pages};
    make_deployments(world);
    assert_ok(aw_kube_list(world->kube, &query, &visitor, NULL));
    /* since 1.34 a server answers the rest from snapshots of its own, whatever etcd forgot */
    assert_true(pages.begun == 2 || world->server.minor >= 34);
    assert_int_equal(pages.objects, OBJECTS);
}

static void a_watch_from_a_compacted_version_lists_again(void **state)
{
    struct world *world = *state;
    make_deployments(world);
    pause_deployment(world, "copy-03", false);
    struct aw_kube_informer *informer = follow(world);
    assert_true(becomes(world, informer, OBJECTS, "copy-03", false));
    /* A server that starts knows no version before its own: something has to have happened that we
     * have not heard of, or ours is just that one. */
    pause_deployment(world, "copy-02", true);
    pause_deployment(world, "copy-02", false);
    harm("again", "--end", "apiserver");
    harm("again", "--wait", "apiserver");
    pause_deployment(world, "copy-03", true);
    harm("compact", NULL, NULL);
    assert_true(becomes(world, informer, OBJECTS, "copy-03", true));
    assert_true(aw_kube_informer_state(informer)->lists >= 2);
}

static void a_scale_from_an_old_version_is_a_conflict(void **state)
{
    struct world *world = *state;
    const struct aw_kube_ref ref = {
        .kind = &aw_kube_deployments, .ns = world->ns, .name = "scaled"};
    struct aw_kube_scale seen = {0}, after = {0};
    create(world, &aw_kube_deployments, deployment("scaled"));
    assert_ok(aw_kube_scale_get(world->kube, &ref, &seen, NULL));
    pause_deployment(world, "scaled", true); /* somebody was there */
    assert_int_equal(aw_kube_scale_set(world->kube, &ref, 3, seen.resource_version, NULL, NULL),
                     AW_ERR_CONFLICT);
    assert_ok(aw_kube_scale_get(world->kube, &ref, &after, NULL));
    assert_int_equal(after.replicas_wanted, 0);
    /* Its controller writes too: take a version until one holds. */
    enum aw_err err = AW_ERR_CONFLICT;
    for (int i = 0; i < 50 && err == AW_ERR_CONFLICT; i++) {
        assert_ok(aw_kube_scale_get(world->kube, &ref, &seen, NULL));
        err = aw_kube_scale_set(world->kube, &ref, 1, seen.resource_version, &after, NULL);
    }
    assert_ok(err);
    assert_int_equal(after.replicas_wanted, 1);
    assert_string_equal(after.selector, "app=scaled");
    delete_deployment(world, "scaled");
}

static void a_lease_is_handed_over_at_once_when_it_is_given_back(void **state)
{
    struct world *world = *state;
    struct aw_kube_leader one = {0}, two = {0};
    struct aw_kube_election_config config = {.retry_us = 500000};
    const int64_t until_us = now() + PATIENCE_US;
    int64_t due_us = 0;
    snprintf(config.identity, sizeof config.identity, "one");
    assert_ok(aw_kube_leader_init(&one, world->kube, world->ns, "e2e", &config, NULL));
    snprintf(config.identity, sizeof config.identity, "two");
    assert_ok(aw_kube_leader_init(&two, world->kube, world->ns, "e2e", &config, NULL));
    assert_ok(aw_kube_leader_step(&one, &due_us, NULL));
    assert_true(aw_kube_leader_leads(&one));
    assert_ok(aw_kube_leader_step(&two, &due_us, NULL));
    assert_false(aw_kube_leader_leads(&two));
    assert_ok(aw_kube_leader_release(&one, NULL));
    assert_false(aw_kube_leader_leads(&one));
    while (!aw_kube_leader_leads(&two) && now() < until_us) {
        assert_ok(aw_kube_wait(world->kube, now() + TURN_US));
        (void)!aw_kube_leader_step(&two, &due_us, NULL);
    }
    assert_true(aw_kube_leader_leads(&two));
    assert_ok(aw_kube_leader_release(&two, NULL));
}

static void an_event_can_be_read_and_its_repetition_is_counted(void **state)
{
    struct world *world = *state;
    struct aw_kube_recorder *recorder = calloc(1, sizeof *recorder);
    const struct aw_kube_event event = {.kind = &aw_kube_deployments,
                                        .ns = world->ns,
                                        .name = "copy-00",
                                        .uid = "8a2f0f4c-0000-4000-8000-000000000000",
                                        .reason = "Tested",
                                        .action = "Test",
                                        .note = "a sentence for people"};
    assert_non_null(recorder);
    aw_kube_recorder_init(recorder, world->kube, &world->server, "e2e");
    assert_ok(aw_kube_record(recorder, &event, NULL));
    assert_ok(aw_kube_record(recorder, &event, NULL));
    assert_int_equal(recorder->created, 1);
    free(recorder);
    const struct aw_kube_query query = {
        .kind = &aw_kube_events_core, .ns = world->ns, .fields = "reason=Tested"};
    struct aw_kube_status status = {0};
    struct aw_kube_page page = {0};
    assert_ok(aw_kube_list_page(world->kube, &query, NULL, &page, &status, NULL));
    json_t *read = NULL;
    assert_ok(aw_kube_slices_next(&page.items, &read, NULL));
    assert_string_equal(aw_kube_text_at(read, "message"), "a sentence for people");
    assert_string_equal(aw_kube_text_at(read, "involvedObject.name"), "copy-00");
    json_decref(read);
    assert_ok(aw_kube_slices_next(&page.items, &read, NULL));
    assert_null(read);
    aw_kube_page_deinit(&page);
}

static json_t *get_pod(struct world *world, const char *name)
{
    const struct aw_kube_ref ref = {.kind = &aw_kube_pods, .ns = world->ns, .name = name};
    json_t *pod = NULL;
    (void)!aw_kube_get(world->kube, &ref, &pod, NULL, NULL);
    return pod;
}

static void a_budget_blocks_an_eviction_and_another_pod_is_not_evicted(void **state)
{
    struct world *world = *state;
    const struct aw_kube_kind budgets = {"policy", world->server.minor >= 21 ? "v1" : "v1beta1",
                                         "poddisruptionbudgets", "PodDisruptionBudget", true};
    const struct aw_kube_ref budget = {.kind = &budgets, .ns = world->ns, .name = "held"};
    const int64_t until_us = now() + PATIENCE_US;
    enum aw_kube_eviction told = AW_KUBE_EVICTED;
    char uid[AW_KUBE_UID_MAX] = "";
    create(world, &aw_kube_pods,
           json_pack("{s:{s:s, s:{s:s}}, s:{s:i, s:[{s:s, s:s, s:s, s:[s, s]}]}}", "metadata",
                     "name", "held", "labels", "app", "held", "spec",
                     "terminationGracePeriodSeconds", 0, "containers", "name", "app", "image",
                     "aware.local/busybox:1", "imagePullPolicy", "Never", "command", "/bin/sleep",
                     "3600"));
    create(world, &budgets,
           json_pack("{s:{s:s}, s:{s:i, s:{s:{s:s}}}}", "metadata", "name", "held", "spec",
                     "minAvailable", 1, "selector", "matchLabels", "app", "held"));
    /* A pod that does not run yet may go, and a budget that nobody has counted yet lets none. */
    for (bool ready = false; !ready && now() < until_us; usleep(TURN_US)) {
        json_t *pod = get_pod(world, "held"), *counted = NULL;
        (void)!aw_kube_get(world->kube, &budget, &counted, NULL, NULL);
        ready = pod && !strcmp(aw_kube_text_at(pod, "status.phase"), "Running") && counted &&
                aw_kube_int_at(counted, "status.currentHealthy", 0) == 1;
        snprintf(uid, sizeof uid, "%s", pod ? aw_kube_text_at(pod, "metadata.uid") : "");
        json_decref(pod);
        json_decref(counted);
    }
    const char *policy = world->server.eviction;
    assert_ok(aw_kube_evict(world->kube, policy, world->ns, "held", uid, &told, NULL));
    assert_int_equal(told, AW_KUBE_BLOCKED);
    assert_ok(aw_kube_delete(world->kube, &budget, NULL, NULL, NULL));
    assert_ok(aw_kube_evict(world->kube, policy, world->ns, "held",
                            "8a2f0f4c-0000-4000-8000-000000000000", &told, NULL));
    assert_int_equal(told, AW_KUBE_REPLACED);
    assert_ok(aw_kube_evict(world->kube, policy, world->ns, "held", uid, &told, NULL));
    assert_int_equal(told, AW_KUBE_EVICTED);
    json_t *pod = get_pod(world, "held");
    while (pod && now() < until_us) {
        json_decref(pod);
        usleep(TURN_US);
        pod = get_pod(world, "held");
    }
    assert_null(pod);
    assert_ok(aw_kube_evict(world->kube, policy, world->ns, "held", uid, &told, NULL));
    assert_int_equal(told, AW_KUBE_EVICTED); /* gone already is what was wanted */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
        T(a_real_server_is_known_by_what_it_has),
        T(a_copy_follows_what_others_do),
        T(a_scale_from_an_old_version_is_a_conflict),
        T(a_lease_is_handed_over_at_once_when_it_is_given_back),
        T(an_event_can_be_read_and_its_repetition_is_counted),
        T(a_budget_blocks_an_eviction_and_another_pod_is_not_evicted),
        T(a_list_whose_version_was_compacted_begins_anew),
        T(a_watch_from_a_compacted_version_lists_again),
        T(a_server_that_was_killed_is_found_again_and_nothing_is_missed),
#undef T
    };
    cmocka_set_test_filter(getenv("AWARE_E2E_ONLY")); /* NULL: all */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
