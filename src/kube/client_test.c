/* client_test.c - requests against a server that is strict, slow, busy, broken or gone. */
#include "kube/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kube/kube_testing.h"

#define PODS "/api/v1/pods"
#define POD  "/api/v1/namespaces/default/pods/a"

static void put_pod(struct aw_kube_world *world)
{
    aw_fake_apiserver_set(world->twin, PODS,
                          "{\"metadata\":{\"namespace\":\"default\",\"name\":\"a\"}}");
}

static enum aw_err ask(struct aw_kube_world *world, const struct aw_kube_request *request,
                       struct aw_kube_status *status, struct aw_diag *diag)
{
    json_t *body = NULL;
    enum aw_err err = aw_kube_send(world->kube, request, &body, status, diag);
    json_decref(body);
    return err;
}

static void an_answer_is_json_and_a_refusal_is_typed(void **state)
{
    struct aw_kube_world world;
    struct aw_kube_status status;
    struct aw_diag diag = {0};
    json_t *body = NULL;
    (void)state;
    aw_kube_world_open(&world, NULL);
    put_pod(&world);
    assert_ok(
        aw_kube_send(world.kube, &(struct aw_kube_request){.path = POD}, &body, &status, NULL));
    assert_string_equal(aw_kube_text_at(body, "metadata.name"), "a");
    assert_int_equal(status.code, 200);
    json_decref(body);
    body = NULL;
    const struct aw_kube_request missing = {.path = POD "x?limit=3"};
    assert_int_equal(aw_kube_send(world.kube, &missing, &body, &status, &diag), AW_ERR_NOTFOUND);
    assert_null(body);
    assert_int_equal(status.reason, AW_KUBE_NOT_FOUND);
    assert_string_equal(diag.file, "GET " POD "x");
    assert_int_equal(aw_fake_apiserver_count(world.twin, "GET"), 2); /* and was not tried again */
    aw_kube_world_close(&world);
}

static void what_is_harmless_is_tried_again(void **state)
{
    static const struct {
        const char *why, *method;
        struct aw_fake_apiserver_fault fault;
        enum aw_err err;
        uint32_t attempts;
        int64_t wait_min_us;
    } cases[] = {
        {"busy", "GET", {.status = 429, .retry_after_s = 3, .count = 2}, AW_OK, 3, 6000000},
        {"broken server", "GET", {.status = 500, .count = 3}, AW_OK, 4, 350000},
        {"unavailable", "PUT", {.status = 503, .count = 1}, AW_OK, 2, 50000},
        {"cut off", "GET", {.cut = true, .count = 2}, AW_OK, 3, 150000},
        {"a POST that was not taken", "POST", {.status = 429, .count = 1}, AW_ERR_EXISTS, 2, 50000},
        {"a POST with leave to retry",
         "POST",
         {.status = 503, .retry_after_s = 1, .count = 1},
         AW_ERR_EXISTS,
         2,
         1000000},
        {"a POST that may have been done",
         "POST",
         {.status = 500, .count = 1},
         AW_ERR_UNAVAILABLE,
         1,
         0},
        {"a POST that was cut off", "POST", {.cut = true, .count = 1}, AW_ERR_UNAVAILABLE, 1, 0},
        {"forbidden", "GET", {.status = 403, .count = 9}, AW_ERR_CONFIG, 1, 0},
        {"not implemented", "GET", {.status = 501, .count = 9}, AW_ERR_UNAVAILABLE, 1, 0},
        {"always busy", "GET", {.status = 429, .count = 99}, AW_ERR_UNAVAILABLE, 8, 0},
        {"rubbish", "GET", {.rubbish = true, .count = 9}, AW_ERR_FORMAT, 1, 0},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_kube_world world;
        struct aw_fake_apiserver_fault fault = cases[i].fault;
        struct aw_diag diag = {0};
        const bool post = !strcmp(cases[i].method, "POST"), get = !strcmp(cases[i].method, "GET");
        aw_kube_world_open(&world, NULL);
        put_pod(&world);
        fault.match = "";
        aw_fake_apiserver_fault(world.twin, &fault);
        json_t *body = json_pack("{s:{s:s, s:s}}", "metadata", "namespace", "default", "name", "a");
        const struct aw_kube_request request = {.method = cases[i].method,
                                                .path =
                                                    post ? "/api/v1/namespaces/default/pods" : POD,
                                                .body = get ? NULL : body,
                                                .timeout_us = 100000000};
        const int64_t before_us = world.clock.mono_us;
        const enum aw_err err = ask(&world, &request, NULL, &diag);
        const uint32_t attempts = aw_fake_apiserver_count(world.twin, cases[i].method);
        if (err != cases[i].err || attempts != cases[i].attempts ||
            world.clock.mono_us - before_us < cases[i].wait_min_us)
            fail_msg("%s: %s after %u attempts and %lld us: %s", cases[i].why, aw_err_name(err),
                     attempts, (long long)(world.clock.mono_us - before_us), diag.text);
        assert_int_equal(aw_kube_counts(world.kube)->retries, attempts - 1);
        json_decref(body);
        aw_kube_world_close(&world);
    }
}

static void a_wait_beyond_the_deadline_is_not_begun(void **state)
{
    struct aw_kube_world world;
    struct aw_kube_status status;
    (void)state;
    aw_kube_world_open(&world, NULL);
    aw_fake_apiserver_fault(
        world.twin, &(struct aw_fake_apiserver_fault){
                        .match = "", .count = UINT32_MAX, .status = 429, .retry_after_s = 60});
    const int64_t before_us = world.clock.mono_us;
    const struct aw_kube_request request = {.path = POD, .timeout_us = 5000000};
    assert_int_equal(ask(&world, &request, &status, NULL), AW_ERR_UNAVAILABLE);
    assert_int_equal(status.code, 429);
    assert_int_equal(status.retry_after_us, 60000000); /* the caller may know better */
    assert_int_equal(world.clock.mono_us, before_us);
    aw_kube_world_close(&world);
}

static void a_slow_server_costs_no_more_than_the_deadline(void **state)
{
    struct aw_kube_world world;
    struct aw_kube_status status;
    (void)state;
    aw_kube_world_open(&world, &(struct aw_kube_options){.clock = &aw_clock_real});
    aw_fake_apiserver_fault(
        world.twin, &(struct aw_fake_apiserver_fault){.match = "", .count = 1, .slow_ms = 1000});
    const struct aw_kube_request request = {.path = POD, .timeout_us = 100000};
    assert_int_equal(ask(&world, &request, &status, NULL), AW_ERR_DEADLINE);
    assert_int_equal(status.code, 0);
    assert_int_equal(aw_fake_apiserver_count(world.twin, ""), 1);
    aw_kube_world_close(&world);
}

static void nobody_there_is_tried_again_and_then_said(void **state)
{
    struct aw_kube_world world;
    struct aw_diag diag = {0};
    (void)state;
    aw_kube_world_open(&world, NULL);
    aw_fake_apiserver_close(world.twin);
    const struct aw_kube_request request = {.path = POD, .method = "POST", .timeout_us = 60000000};
    assert_int_equal(ask(&world, &request, NULL, &diag), AW_ERR_UNAVAILABLE);
    assert_int_equal(aw_kube_counts(world.kube)->requests, AW_KUBE_ATTEMPTS_DEFAULT);
    assert_true(diag.text[0]);
    aw_kube_close(world.kube);
}

static void our_own_rate_is_kept(void **state)
{
    struct aw_kube_world world;
    (void)state;
    aw_kube_world_open(&world, &(struct aw_kube_options){.requests_per_second = 10, .burst = 5});
    put_pod(&world);
    const int64_t before_us = world.clock.mono_us;
    for (int i = 0; i < 25; i++)
        assert_ok(ask(&world, &(struct aw_kube_request){.path = POD}, NULL, NULL));
    assert_int_equal(world.clock.mono_us - before_us, 2000000); /* 20 beyond the burst */
    assert_int_equal(aw_kube_counts(world.kube)->held, 20);
    const struct aw_kube_request hurried = {.path = POD, .timeout_us = 1000};
    assert_int_equal(ask(&world, &hurried, NULL, NULL), AW_ERR_DEADLINE);
    aw_kube_world_close(&world);
}

static void a_refused_token_is_read_again_once(void **state)
{
    struct aw_kube_world world;
    struct aw_diag diag = {0};
    char file[] = "/tmp/aw-token-XXXXXX";
    const int fd = mkstemp(file);
    (void)state;
    assert_int_equal(write(fd, "old-secret", 10), 10);
    aw_kube_world_open(&world, NULL);
    put_pod(&world);
    world.config.token_file = file;
    aw_fake_apiserver_token(world.twin, "old-secret");
    assert_ok(ask(&world, &(struct aw_kube_request){.path = POD}, NULL, NULL));
    aw_fake_apiserver_token(world.twin, "new-secret");
    assert_int_equal(pwrite(fd, "new-secret", 10, 0), 10);
    assert_ok(ask(&world, &(struct aw_kube_request){.path = POD}, NULL, NULL));
    assert_int_equal(aw_fake_apiserver_count(world.twin, "GET"), 3);
    aw_fake_apiserver_token(world.twin, "another-secret");
    assert_int_equal(ask(&world, &(struct aw_kube_request){.path = POD}, NULL, &diag),
                     AW_ERR_CONFIG);
    assert_int_equal(aw_fake_apiserver_count(world.twin, "GET"), 5); /* once more, and no oftener */
    assert_null(strstr(diag.text, "secret"));
    close(fd);
    unlink(file);
    aw_kube_world_close(&world);
}

static void after_stop_only_last_words_are_sent(void **state)
{
    struct aw_kube_world world;
    (void)state;
    aw_kube_world_open(&world, NULL);
    put_pod(&world);
    aw_kube_stop(world.kube);
    assert_int_equal(aw_kube_wait(world.kube, INT64_MAX), AW_ERR_INTERRUPTED);
    assert_int_equal(ask(&world, &(struct aw_kube_request){.path = POD}, NULL, NULL),
                     AW_ERR_INTERRUPTED);
    assert_ok(ask(&world, &(struct aw_kube_request){.path = POD, .last_words = true}, NULL, NULL));
    aw_kube_world_close(&world);
}

static void an_answer_that_is_too_large_is_refused(void **state)
{
    struct aw_kube_world world;
    struct aw_diag diag = {0};
    (void)state;
    aw_kube_world_open(&world, &(struct aw_kube_options){.answer_bytes_max = 50});
    put_pod(&world);
    assert_int_equal(ask(&world, &(struct aw_kube_request){.path = POD}, NULL, &diag),
                     AW_ERR_LIMIT);
    aw_kube_world_close(&world);
}

static void an_address_that_is_none_is_refused(void **state)
{
    char server[] = "https://[::1";
    const struct aw_kube_config config = {.server = server};
    struct aw_kube *kube = NULL;
    struct aw_diag diag = {0};
    (void)state;
    assert_int_equal(aw_kube_open(&kube, &config, NULL, NULL, &diag), AW_ERR_CONFIG);
    assert_null(kube);
    aw_kube_close(kube);
}

AW_TEST_GROUP("kube-client")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_json_and_a_refusal_is_typed),
        cmocka_unit_test(what_is_harmless_is_tried_again),
        cmocka_unit_test(a_wait_beyond_the_deadline_is_not_begun),
        cmocka_unit_test(a_slow_server_costs_no_more_than_the_deadline),
        cmocka_unit_test(nobody_there_is_tried_again_and_then_said),
        cmocka_unit_test(our_own_rate_is_kept),
        cmocka_unit_test(a_refused_token_is_read_again_once),
        cmocka_unit_test(after_stop_only_last_words_are_sent),
        cmocka_unit_test(an_answer_that_is_too_large_is_refused),
        cmocka_unit_test(an_address_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
