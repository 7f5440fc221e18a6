/* api_policy_test.c - the routes of policies: what is told, what comes out, what goes in. */
#include "web/api.h"

#include "base/testing.h"
#include "web/api_testing.h"

#include <jansson.h>

static struct aw_api_world world;

static int set_up(void **state)
{
    (void)state;
    aw_api_world_open_as(&world, AW_GUARD_AUTO, true, true);
    aw_api_world_run(&world, 30); /* until there are figures, and the watchdog trusts them */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    aw_api_world_close(&world);
    return 0;
}

/* The text of an answer, which the caller frees; fails where the status is another one. */
static char *ask(const char *method, const char *path, const char *body, const char *by, int status)
{
    struct aw_api_response answer;
    const struct aw_api_request request = {.method = method,
                                           .path = path,
                                           .body = body,
                                           .body_len = body ? strlen(body) : 0,
                                           .by = by};
    assert_ok(aw_api_answer(&world.api, &request, &answer));
    if (answer.status != status)
        fail_msg("%s %s: %d %.*s", method, path, answer.status, (int)answer.len, answer.body);
    char *text = strndup(answer.body, answer.len);
    aw_api_response_deinit(&answer);
    return text;
}

static json_t *json_of(char *text)
{
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!json)
        fail_msg("not JSON: %s", text);
    free(text);
    return json;
}

static json_t *view_of(const char *path)
{
    return json_of(ask("GET", path, NULL, NULL, 200));
}

static char *file_of(const char *path)
{
    return ask("GET", path, NULL, NULL, 200);
}

static const char *text_at(const json_t *json, const char *first, const char *second)
{
    const json_t *part = json_object_get(json, first);
    return json_string_value(second ? json_object_get(part, second) : part);
}

static void a_policy_goes_out_and_in_and_is_told_all_the_way(void **state)
{
    (void)state;
    json_t *own = view_of("/v1/workloads/shop/web/policy");
    json_t *before = view_of("/v1/workloads/shop/cart/policy");
    assert_string_equal(text_at(before, "workload", NULL), "shop/cart");
    assert_string_equal(text_at(before, "actor", NULL), "agent");
    assert_string_equal(text_at(before, "acting", "id"), text_at(before, "good", "id"));
    assert_int_equal(strlen(text_at(before, "acting", "checksum")), 16);
    assert_true(json_is_null(json_object_get(before, "trial")));
    assert_true(json_is_null(json_object_get(before, "texts_error")));
    assert_string_equal(text_at(before, "canary", "state"), "none");

    char *file = file_of("/v1/workloads/shop/web/policy/file");
    assert_non_null(strstr(file, text_at(own, "good", "checksum")));
    json_t *taken = json_of(ask("POST", "/v1/workloads/shop/cart/policy?reason=from%20web", file,
                                AW_API_TESTING_BY, 201));
    assert_string_equal(text_at(taken, "order", "kind"), "propose");
    assert_string_equal(text_at(taken, "order", "reason"), "from web");
    assert_string_equal(text_at(taken, "order", "by"), AW_API_TESTING_BY);
    const json_int_t id = json_integer_value(json_object_get(taken, "id"));
    json_t *waits = view_of("/v1/workloads/shop/cart/policy");
    assert_int_equal(json_integer_value(json_object_get(waits, "waits")), id);
    json_decref(waits);

    aw_api_world_run(&world, 2);
    json_t *watched = view_of("/v1/workloads/shop/cart/policy");
    assert_string_equal(text_at(watched, "canary", "state"), "shadow");
    assert_string_equal(text_at(watched, "trial", "id"), text_at(own, "good", "id"));
    assert_string_equal(text_at(watched, "trial", "checksum"), text_at(own, "good", "checksum"));
    assert_string_equal(text_at(watched, "acting", "id"), text_at(before, "good", "id"));
    assert_string_equal(text_at(watched, "order", "result"), "done");
    json_decref(watched);
    char *tried = file_of("/v1/workloads/shop/cart/policy/file?which=trial");
    assert_string_equal(tried, file);
    free(tried);

    json_decref(json_of(ask("POST", "/v1/orders",
                            "{\"kind\":\"rollback\",\"name\":\"shop/cart\",\"reason\":\"enough\"}",
                            AW_API_TESTING_BY, 201)));
    aw_api_world_run(&world, 1);
    json_t *back = view_of("/v1/workloads/shop/cart/policy");
    assert_string_equal(text_at(back, "canary", "state"), "rolled_back");
    assert_string_equal(text_at(back, "acting", "id"), text_at(before, "good", "id"));
    assert_true(json_is_null(json_object_get(back, "trial")));
    json_decref(back);
    json_decref(taken);
    json_decref(before);
    json_decref(own);
    free(file);
}

static void wrong_requests_get_one_clear_line(void **state)
{
    (void)state;
    char *own = file_of("/v1/workloads/bank/cart/policy/file");
    char *edited = strdup(own);
    char *digit = strpbrk(strstr(edited, "\"cpu\":") + 6, "123456789");
    *digit = *digit == '9' ? '8' : (char)(*digit + 1);
    static const char by[] = AW_API_TESTING_BY;
    const char *at = "/v1/workloads/bank/cart/policy";
    char long_reason[400];
    snprintf(long_reason, sizeof long_reason, "%s?reason=%0300d", at, 1);
    const struct {
        const char *method, *path, *body, *by;
        int status;
        const char *says, *why;
    } rows[] = {
        {"POST", at, own, by, 409, "is the one that bank/cart has", "it is in force"},
        {"POST", at, edited, by, 400, "damaged or was edited", "a number was changed"},
        {"POST", at, "", by, 400, "not a policy", "nothing"},
        {"POST", at, "[]", by, 400, "expected an object", "another JSON"},
        {"POST", at, "numbers: 1", by, 400, "no JSON at line 1", "YAML"},
        {"POST", at, "{\"format\":\"aware-policy\",\"version\":9}", by, 400, "another version",
         "from the future"},
        {"POST", at, own, NULL, 400, "nobody knows who asks", "unsigned"},
        {"POST", "/v1/workloads/bank/cart/policy?why=x", own, by, 400, "no such parameter",
         "misspelt"},
        {"POST", long_reason, own, by, 400, "reason: expected at most", "an essay"},
        {"POST", "/v1/workloads/no/such/policy", own, by, 404, "no workload", "nobody"},
        {"PUT", at, own, by, 405, "takes GET", "another method"},
        {"GET", "/v1/workloads/bank/cart/policy/file?which=both", NULL, NULL, 400,
         "expected good or trial", "which"},
        {"GET", "/v1/workloads/bank/cart/policy/file?which=trial", NULL, NULL, 404,
         "tries no policy", "there is none"},
        {"GET", "/v1/workloads/bank/cart/policy/text", NULL, NULL, 404, "no such address", "file"},
        {"POST", "/v1/orders", "{\"kind\":\"rollback\",\"name\":\"bank/cart\"}", by, 409,
         "last known good", "nothing to take back"},
        {"POST", "/v1/orders", "{\"kind\":\"propose\",\"name\":\"bank/cart\"}", by, 400,
         "kind: expected", "a policy comes with its file"},
        {"POST", "/v1/orders", "{\"kind\":\"rollback\",\"scope\":\"all\"}", by, 400,
         "about one workload", "of all at once"},
    };
    const uint64_t orders = aw_desk_counts(world.desk)->orders;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *json =
            json_of(ask(rows[i].method, rows[i].path, rows[i].body, rows[i].by, rows[i].status));
        const char *message = text_at(json, "error", "message");
        if (!message || !strstr(message, rows[i].says) || strchr(message, '\n'))
            fail_msg("%s: %s", rows[i].why, message);
        json_decref(json);
    }
    assert_int_equal(aw_desk_counts(world.desk)->orders, orders);
    free(own);
    free(edited);
}

static void without_a_journal_ids_are_told_and_checksums_are_not(void **state)
{
    (void)state;
    const struct aw_api_world kept = world;
    aw_api_world_open_as(&world, AW_GUARD_AUTO, false, true);
    char *early = ask("GET", "/v1/workloads/shop/cart/policy", NULL, NULL, 404);
    assert_non_null(strstr(early, "nothing has been decided"));
    free(early);
    aw_api_world_run(&world, 2);
    json_t *view = view_of("/v1/workloads/shop/cart/policy");
    assert_int_equal(strlen(text_at(view, "good", "id")), 16);
    assert_null(text_at(view, "good", "checksum"));
    assert_non_null(strstr(text_at(view, "texts_error", NULL), "no journal"));
    json_decref(view);
    char *none = ask("GET", "/v1/workloads/shop/cart/policy/file", NULL, NULL, 404);
    assert_non_null(strstr(none, "no journal"));
    free(none);
    aw_api_world_close(&world);
    world = kept;
}

AW_TEST_GROUP("api-policy")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_goes_out_and_in_and_is_told_all_the_way),
        cmocka_unit_test(wrong_requests_get_one_clear_line),
        cmocka_unit_test(without_a_journal_ids_are_told_and_checksums_are_not),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
