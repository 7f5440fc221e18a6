/* informer_test.c - a copy of a collection stays true, whatever happens to its watch. */
#include "kube/informer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kube/client_internal.h"
#include "kube/kube_testing.h"

#define PODS       "/api/v1/pods"
#define NAMES_MAX  64u
#define WATCH_PODS "GET /api/v1/pods?watch=true"
#define LIST_PODS  "GET /api/v1/pods?limit"

struct world {
    struct aw_kube_world base;
    struct aw_kube_informer *informer;
    uint32_t appeared, changed, vanished, resynced;
    char last[AW_KUBE_KEY_MAX];
    uint32_t alive; /* items that the handler believes in */
};

/* Keeps the value of spec.x; refuses an object whose x is text. */
static enum aw_err project(void *ctx, const json_t *object, void *buf, size_t size, size_t *ret_len)
{
    const json_t *x = aw_kube_at(object, "spec.x");
    (void)ctx;
    if (json_is_string(x))
        return AW_ERR_FORMAT;
    const int64_t value = json_is_integer(x) ? (int64_t)json_integer_value(x) : -1;
    assert_true(sizeof value <= size);
    memcpy(buf, &value, sizeof value);
    *ret_len = sizeof value;
    return AW_OK;
}

static void changed(void *ctx, enum aw_kube_change change, const struct aw_kube_item *before,
                    const struct aw_kube_item *after)
{
    struct world *world = ctx;
    const struct aw_kube_item *item = after ? after : before;
    assert_int_equal(before == NULL, change == AW_KUBE_APPEARED);
    assert_int_equal(after == NULL, change == AW_KUBE_VANISHED);
    world->appeared += change == AW_KUBE_APPEARED;
    world->changed += change == AW_KUBE_CHANGED;
    world->vanished += change == AW_KUBE_VANISHED;
    world->resynced += change == AW_KUBE_RESYNC;
    world->alive += (change == AW_KUBE_APPEARED) - (change == AW_KUBE_VANISHED);
    snprintf(world->last, sizeof world->last, "%s", item->key);
}

static void set(struct world *world, const char *name, int x)
{
    char json[256];
    snprintf(json, sizeof json,
             "{\"metadata\":{\"namespace\":\"n\",\"name\":\"%s\"},\"spec\":{\"x\":%d}}", name, x);
    aw_fake_apiserver_set(world->base.twin, PODS, json);
}

static void open_world(struct world *world, const struct aw_kube_informer_config *like)
{
    struct aw_kube_informer_config config = like ? *like : (struct aw_kube_informer_config){0};
    *world = (struct world){0};
    aw_kube_world_open(&world->base, &(struct aw_kube_options){.requests_per_second = 1000});
    config.query.kind = &aw_kube_pods;
    config.project = project;
    config.changed = changed;
    config.ctx = world;
    assert_ok(aw_kube_informer_open(&world->informer, world->base.kube, &config, NULL));
}

static void close_world(struct world *world)
{
    aw_kube_informer_close(world->informer);
    aw_kube_world_close(&world->base);
}

/* One turn of an owner's loop. Waits of the informer are skipped by the virtual clock; those for
 * the server take real time. */
static enum aw_err turn(struct world *world)
{
    struct aw_diag diag = {0};
    const enum aw_err err = aw_kube_informer_step(world->informer, &diag);
    const int64_t due_us = aw_kube_informer_due(world->informer);
    if (err)
        assert_true(diag.text[0]);
    if (due_us != INT64_MAX && due_us > world->base.clock.mono_us)
        aw_clock_virtual_advance(&world->base.clock, due_us - world->base.clock.mono_us);
    assert_ok(aw_kube_wait(world->base.kube, world->base.clock.mono_us));
    usleep(200);
    return err;
}

#define until(world, condition)                                              \
    do {                                                                     \
        const int64_t begun_us = aw_clock_monotonic_us(NULL);                \
        while (!(condition)) {                                               \
            (void)!turn(world);                                              \
            if (aw_clock_monotonic_us(NULL) - begun_us > AW_TESTING_WAIT_US) \
                fail_msg("it never came true: %s", #condition);              \
        }                                                                    \
    } while (0)

static const struct aw_kube_informer_state *state_of(const struct world *world)
{
    return aw_kube_informer_state(world->informer);
}

static int64_t value_of(const struct world *world, const char *key)
{
    const struct aw_kube_item *item = aw_kube_informer_find(world->informer, key);
    int64_t value = -100;
    if (item)
        memcpy(&value, item->data, sizeof value);
    return value;
}

static void a_page_can_be_asked_for_without_a_status(void **state)
{
    struct world world;
    struct aw_kube_page page;
    const struct aw_kube_query pods = {.kind = &aw_kube_pods};
    (void)state;
    open_world(&world, NULL);
    assert_ok(aw_kube_list_page(world.base.kube, &pods, NULL, &page, NULL, NULL));
    json_t *item = NULL;
    assert_ok(aw_kube_slices_next(&page.items, &item, NULL));
    assert_null(item);
    aw_kube_page_deinit(&page);
    close_world(&world);
}

static void it_lists_in_pages_and_then_follows(void **state)
{
    struct world world;
    char name[16];
    (void)state;
    open_world(&world, &(struct aw_kube_informer_config){.query = {.limit = 3}});
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "p%d", i);
        set(&world, name, i);
    }
    until(&world, state_of(&world)->synced);
    assert_int_equal(world.appeared, 10);
    assert_int_equal(aw_fake_apiserver_count(world.base.twin, LIST_PODS), 4);
    assert_true(state_of(&world)->complete);
    assert_int_equal(value_of(&world, "n/p7"), 7);
    until(&world, aw_fake_apiserver_watching(world.base.twin) == 1);
    set(&world, "p7", 7); /* a new version, and nothing that we keep is new */
    set(&world, "p7", 70);
    until(&world, world.changed >= 1);
    assert_int_equal(world.changed, 1);
    assert_int_equal(value_of(&world, "n/p7"), 70);
    set(&world, "new", 1);
    until(&world, world.appeared == 11);
    aw_fake_apiserver_remove(world.base.twin, PODS, "n", "p7");
    until(&world, world.vanished == 1);
    assert_string_equal(world.last, "n/p7");
    assert_null(aw_kube_informer_find(world.informer, "n/p7"));
    uint32_t at = 0, walked = 0;
    while (aw_kube_informer_walk(world.informer, &at))
        walked++;
    assert_int_equal(walked, 10);
    assert_int_equal(state_of(&world)->objects, 10);
    close_world(&world);
}

/* Servers send no bookmark of a kind of which nothing has changed. */
static void a_watch_that_ends_without_a_word_was_in_touch(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, NULL);
    until(&world, aw_fake_apiserver_watching(world.base.twin) == 1);
    const int64_t listed_us = state_of(&world)->in_touch_us;
    aw_clock_virtual_advance(&world.base.clock, 60000000);
    aw_fake_apiserver_end_watches(world.base.twin);
    until(&world,
          state_of(&world)->watches == 2 && aw_fake_apiserver_watching(world.base.twin) == 1);
    assert_int_equal(state_of(&world)->events, 0);
    assert_true(state_of(&world)->in_touch_us >= listed_us + 60000000);
    close_world(&world);
}

static void a_watch_that_ends_goes_on_where_the_bookmark_was(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, NULL);
    set(&world, "a", 1);
    until(&world, aw_fake_apiserver_watching(world.base.twin) == 1);
    aw_fake_apiserver_bookmark(world.base.twin); /* the server's version is 1002 now */
    until(&world, state_of(&world)->events == 1);
    aw_fake_apiserver_end_watches(world.base.twin);
    until(&world,
          state_of(&world)->watches == 2 && aw_fake_apiserver_watching(world.base.twin) == 1);
    assert_int_equal(aw_fake_apiserver_count(world.base.twin, WATCH_PODS
                                             "&allowWatchBookmarks=true&resourceVersion=1002"),
                     1);
    set(&world, "a", 2);
    until(&world, world.changed == 1);
    assert_int_equal(state_of(&world)->lists, 1); /* nothing was listed again */
    assert_int_equal(world.appeared, 1);
    close_world(&world);
}

static void a_line_that_breaks_off_in_the_middle_comes_again(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, NULL);
    aw_fake_apiserver_fault(world.base.twin,
                            &(struct aw_fake_apiserver_fault){
                                .match = WATCH_PODS, .count = 1, .cut = true, .watch_lines = 1});
    until(&world, aw_fake_apiserver_watching(world.base.twin) == 1);
    set(&world, "a", 1);
    set(&world, "b", 2);
    set(&world, "c", 3);
    until(&world, world.appeared == 3);
    assert_int_equal(value_of(&world, "n/c"), 3);
    assert_int_equal(state_of(&world)->lists, 1);
    assert_int_equal(state_of(&world)->watches, 2);
    close_world(&world);
}

static void a_version_that_is_gone_is_listed_again_and_deletions_are_found(void **state)
{
    struct world world;
    (void)state;
    for (int inside = 0; inside < 2; inside++) {
        open_world(&world, NULL);
        set(&world, "a", 1);
        set(&world, "b", 2);
        set(&world, "c", 3);
        until(&world, aw_fake_apiserver_watching(world.base.twin) == 1);
        /* nothing passes between the end of this watch and the compaction */
        aw_fake_apiserver_fault(world.base.twin,
                                &(struct aw_fake_apiserver_fault){
                                    .match = WATCH_PODS, .count = UINT32_MAX, .status = 503});
        if (inside) /* an ERROR event in the stream, or the refusal of the next watch */
            aw_fake_apiserver_error_watches(world.base.twin, 410, "Expired");
        else
            aw_fake_apiserver_end_watches(world.base.twin);
        until(&world, aw_fake_apiserver_watching(world.base.twin) == 0);
        aw_fake_apiserver_remove(world.base.twin, PODS, "n", "b");
        set(&world, "c", 30);
        aw_fake_apiserver_compact(world.base.twin);
        aw_fake_apiserver_clear_faults(world.base.twin);
        until(&world, state_of(&world)->lists >= 2 && world.vanished == 1 && world.changed == 1);
        assert_null(aw_kube_informer_find(world.informer, "n/b"));
        assert_int_equal(value_of(&world, "n/c"), 30);
        assert_int_equal(world.appeared, 3); /* a was seen twice and told once */
        assert_true(state_of(&world)->gone >= 1);
        close_world(&world);
    }
}

static void a_token_that_is_gone_begins_the_list_anew(void **state)
{
    struct world world;
    char name[16];
    (void)state;
    open_world(&world, &(struct aw_kube_informer_config){.query = {.limit = 2}});
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "p%d", i);
        set(&world, name, i);
    }
    until(&world, world.appeared == 2); /* the first page */
    aw_fake_apiserver_compact(world.base.twin);
    until(&world, state_of(&world)->synced);
    assert_int_equal(world.appeared, 6);
    assert_int_equal(world.vanished, 0);
    assert_int_equal(state_of(&world)->gone, 1);
    assert_int_equal(state_of(&world)->lists, 2);
    close_world(&world);
}

static void refusals_are_waited_out(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, NULL);
    set(&world, "a", 1);
    const int64_t before_us = world.base.clock.mono_us;
    aw_fake_apiserver_fault(world.base.twin,
                            &(struct aw_fake_apiserver_fault){
                                .match = LIST_PODS, .count = 2, .status = 429, .retry_after_s = 5});
    aw_fake_apiserver_fault(world.base.twin, &(struct aw_fake_apiserver_fault){
                                                 .match = LIST_PODS, .count = 1, .rubbish = true});
    aw_fake_apiserver_fault(world.base.twin, &(struct aw_fake_apiserver_fault){
                                                 .match = WATCH_PODS, .count = 3, .status = 500});
    until(&world, aw_fake_apiserver_watching(world.base.twin) == 1);
    assert_true(world.base.clock.mono_us - before_us >= 10000000);
    assert_int_equal(aw_fake_apiserver_count(world.base.twin, LIST_PODS), 4);
    assert_int_equal(aw_fake_apiserver_count(world.base.twin, WATCH_PODS), 4);
    assert_int_equal(world.appeared, 1);
    close_world(&world);
}

static void another_object_under_the_same_name_is_another_object(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, NULL);
    set(&world, "a", 1);
    until(&world, aw_fake_apiserver_watching(world.base.twin) == 1);
    aw_fake_apiserver_fault(
        world.base.twin,
        &(struct aw_fake_apiserver_fault){.match = WATCH_PODS, .count = UINT32_MAX, .status = 503});
    aw_fake_apiserver_end_watches(world.base.twin);
    until(&world, aw_fake_apiserver_watching(world.base.twin) == 0);
    aw_fake_apiserver_remove(world.base.twin, PODS, "n", "a");
    set(&world, "a", 2);
    aw_fake_apiserver_compact(world.base.twin); /* only the new list shows it, with another uid */
    aw_fake_apiserver_clear_faults(world.base.twin);
    until(&world, world.appeared == 2);
    assert_int_equal(world.vanished, 1);
    assert_int_equal(world.changed, 0);
    close_world(&world);
}

static void what_does_not_fit_is_left_out_and_said(void **state)
{
    struct world world;
    char name[16];
    (void)state;
    open_world(&world, &(struct aw_kube_informer_config){.objects_max = 4});
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "p%d", i);
        set(&world, name, i);
    }
    until(&world, state_of(&world)->synced);
    assert_int_equal(state_of(&world)->objects, 4);
    assert_int_equal(state_of(&world)->left_out, 2);
    assert_false(state_of(&world)->complete);
    close_world(&world);
    open_world(&world, &(struct aw_kube_informer_config){.bytes_max = 600});
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "p%d", i);
        set(&world, name, i);
    }
    until(&world, state_of(&world)->synced);
    assert_true(state_of(&world)->bytes <= 600 && state_of(&world)->objects > 1);
    assert_false(state_of(&world)->complete);
    close_world(&world);
}

static void one_bad_object_does_not_hide_the_others(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, NULL);
    set(&world, "a", 1);
    aw_fake_apiserver_set(
        world.base.twin, PODS,
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"bad\"},\"spec\":{\"x\":\"?\"}}");
    set(&world, "b", 2);
    until(&world, state_of(&world)->synced);
    assert_int_equal(state_of(&world)->objects, 2);
    assert_int_equal(state_of(&world)->unreadable, 1);
    assert_false(state_of(&world)->complete);
    close_world(&world);
}

static void a_resync_tells_everything_again(void **state)
{
    struct world world;
    (void)state;
    open_world(&world, &(struct aw_kube_informer_config){.resync_us = 60000000});
    set(&world, "a", 1);
    set(&world, "b", 2);
    until(&world, world.resynced >= 4);
    assert_int_equal(world.appeared, 2);
    close_world(&world);
}

/* Nobody reads the watch while other requests are made: the server is held back, and nothing of
 * what it had to say is lost. */
static void a_watch_that_nobody_reads_holds_the_server_back(void **state)
{
    enum { COUNT = 400, PADDING = 8000 };
    struct world world;
    char *json = malloc(PADDING + 200);
    size_t held = 0;
    (void)state;
    open_world(&world, NULL);
    until(&world, aw_fake_apiserver_watching(world.base.twin) == 1);
    for (int i = 0; i < COUNT; i++) {
        const int len = snprintf(json, 200,
                                 "{\"metadata\":{\"namespace\":\"n\",\"name\":\"p%d\"},"
                                 "\"spec\":{\"x\":%d},\"pad\":\"",
                                 i, i);
        memset(json + len, 'x', PADDING);
        memcpy(json + len + PADDING, "\"}", 3);
        aw_fake_apiserver_set(world.base.twin, PODS, json);
    }
    const struct aw_kube_request request = {.path = "/version"};
    const int64_t asked_us = aw_clock_monotonic_us(NULL);
    while (held < AW_KUBE_STREAM_HIGH) { /* the server has more than that to say */
        assert_ok(aw_kube_wait(world.base.kube, world.base.clock.mono_us));
        usleep(500);
        held = world.base.kube->watches[0]->len;
        assert_true(aw_clock_monotonic_us(NULL) - asked_us < AW_TESTING_WAIT_US);
    }
    for (int i = 0; i < 20; i++)
        assert_ok(aw_kube_send(world.base.kube, &request, NULL, NULL, NULL));
    held = world.base.kube->watches[0]->len;
    assert_true(held < AW_KUBE_STREAM_HIGH + 2 * CURL_MAX_WRITE_SIZE);
    assert_int_equal(world.appeared, 0);
    until(&world, world.appeared == COUNT);
    assert_int_equal(value_of(&world, "n/p399"), 399);
    assert_int_equal(state_of(&world)->watches, 1);
    free(json);
    close_world(&world);
}

static bool is_true_copy(const struct world *world)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < 20; k++) {
        char name[16], key[16];
        snprintf(name, sizeof name, "p%u", k);
        snprintf(key, sizeof key, "n/p%u", k);
        json_t *object = aw_fake_apiserver_get(world->base.twin, PODS, "n", name);
        const int64_t wanted = object ? aw_kube_int_at(object, "spec.x", -1) : -100;
        count += object != NULL;
        json_decref(object);
        if (value_of(world, key) != wanted)
            return false;
    }
    return state_of(world)->objects == count && state_of(world)->synced;
}

/* Changes, broken watches, compactions and refusals in any order: in the end the copy is the
 * collection, and the handler has been told exactly what makes it so. */
static void the_copy_becomes_true_whatever_happened(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct world world;
        struct aw_rng rng;
        bool there[20] = {0};
        char name[16];
        aw_rng_init(&rng, seed, 0);
        open_world(&world, &(struct aw_kube_informer_config){.query = {.limit = 7}});
        for (int i = 0; i < 150; i++) {
            const uint32_t k = aw_rng_below(&rng, 20), what = aw_rng_below(&rng, 30);
            snprintf(name, sizeof name, "p%u", k);
            if (what < 12) {
                set(&world, name, i);
                there[k] = true;
            } else if (what < 18 && there[k]) {
                aw_fake_apiserver_remove(world.base.twin, PODS, "n", name);
                there[k] = false;
            } else if (what == 18) {
                aw_fake_apiserver_end_watches(world.base.twin);
            } else if (what == 19) {
                aw_fake_apiserver_error_watches(world.base.twin, 410, "Expired");
            } else if (what == 20) {
                aw_fake_apiserver_compact(world.base.twin);
            } else if (what == 21) {
                aw_fake_apiserver_error_watches(world.base.twin, 500, "InternalError");
            } else if (what == 22) {
                aw_fake_apiserver_bookmark(world.base.twin);
            } else if (what == 23) {
                aw_fake_apiserver_clear_faults(world.base.twin);
                aw_fake_apiserver_fault(
                    world.base.twin,
                    &(struct aw_fake_apiserver_fault){
                        .match = "GET", .count = 2, .cut = true, .watch_lines = 1});
            } else if (what == 24) {
                aw_fake_apiserver_clear_faults(world.base.twin);
                aw_fake_apiserver_fault(
                    world.base.twin,
                    &(struct aw_fake_apiserver_fault){.match = "GET", .count = 2, .status = 503});
            } else {
                (void)!turn(&world);
            }
        }
        aw_fake_apiserver_clear_faults(world.base.twin);
        /* later pages of the double may be newer than the list's version, as with any server that
         * has lost a snapshot; the watch then mends it */
        until(&world, is_true_copy(&world));
        aw_fake_apiserver_bookmark(world.base.twin);
        const uint64_t events = state_of(&world)->events;
        until(&world, state_of(&world)->events > events ||
                          aw_fake_apiserver_watching(world.base.twin) == 0);
        assert_true(is_true_copy(&world));
        assert_int_equal(world.alive, state_of(&world)->objects);
        close_world(&world);
    }
}

static void without_memory_nothing_is_followed(void **state)
{
    struct aw_kube_world base;
    struct aw_alloc_counting counting;
    (void)state;
    aw_kube_world_open(&base, NULL);
    for (uint64_t limit = 0; limit < 5; limit++) {
        struct aw_kube *kube = NULL;
        struct aw_kube_informer *informer = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = limit;
        const struct aw_kube_informer_config config = {.query = {.kind = &aw_kube_pods},
                                                       .changed = changed};
        enum aw_err err = aw_kube_open(&kube, &base.config, NULL, &counting.alloc, NULL);
        err = err ? err : aw_kube_informer_open(&informer, kube, &config, NULL);
        assert_int_equal(err, limit < 3 ? AW_ERR_NOMEM : AW_OK);
        aw_kube_informer_close(informer);
        aw_kube_close(kube);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    aw_kube_world_close(&base);
}

AW_TEST_GROUP("kube-informer")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_can_be_asked_for_without_a_status),
        cmocka_unit_test(it_lists_in_pages_and_then_follows),
        cmocka_unit_test(a_watch_that_ends_without_a_word_was_in_touch),
        cmocka_unit_test(a_watch_that_ends_goes_on_where_the_bookmark_was),
        cmocka_unit_test(a_line_that_breaks_off_in_the_middle_comes_again),
        cmocka_unit_test(a_version_that_is_gone_is_listed_again_and_deletions_are_found),
        cmocka_unit_test(a_token_that_is_gone_begins_the_list_anew),
        cmocka_unit_test(refusals_are_waited_out),
        cmocka_unit_test(another_object_under_the_same_name_is_another_object),
        cmocka_unit_test(what_does_not_fit_is_left_out_and_said),
        cmocka_unit_test(one_bad_object_does_not_hide_the_others),
        cmocka_unit_test(a_resync_tells_everything_again),
        cmocka_unit_test(a_watch_that_nobody_reads_holds_the_server_back),
        cmocka_unit_test(the_copy_becomes_true_whatever_happened),
        cmocka_unit_test(without_memory_nothing_is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
