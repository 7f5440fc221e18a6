/* api_map_test.c - the map of workloads as others get it. */
#include "pretrain/embed_testing.h"
#include "web/api_internal.h"
#include "web/api_testing.h"

static struct aw_api_world world;
static struct embed_world kept;

static json_t *ask(const char *path)
{
    struct aw_api_response response;
    assert_ok(aw_api_answer(&world.api, &(struct aw_api_request){.method = "GET", .path = path},
                            &response));
    assert_int_equal(response.status, 200);
    json_t *body = json_loadb(response.body, response.len, 0, NULL);
    assert_non_null(body);
    aw_api_response_deinit(&response);
    return body;
}

static json_t *at(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    assert_non_null(value);
    return value;
}

static struct aw_workload_map *map_new(void)
{
    struct aw_workload_map_workload workloads[AW_API_TESTING_WORKLOADS];
    struct aw_workload_map *map = NULL;
    for (uint32_t i = 0; i < AW_API_TESTING_WORKLOADS; i++)
        workloads[i] = (struct aw_workload_map_workload){world.workload[i].pilot.name, i == 2};
    assert_ok(aw_workload_map_new(
        &(struct aw_workload_map_config){kept.model, kept.url, workloads, AW_API_TESTING_WORKLOADS},
        NULL, &map, NULL));
    return map;
}

static void a_daemon_without_a_model_says_what_is_missing(void **state)
{
    (void)state;
    aw_api_world_open_with(&world, AW_GUARD_OFF, false);
    json_t *body = ask("/v1/embeddings");
    assert_int_equal(json_array_size(at(body, "points")), 0);
    assert_string_equal(json_string_value(at(body, "missing")), "this daemon has no model");
    json_decref(body);
    aw_api_map(&world.api, NULL, "", "learning.model is none");
    body = ask("/v1/embeddings");
    assert_string_equal(json_string_value(at(body, "missing")), "learning.model is none");
    assert_int_equal(json_integer_value(at(body, "dimensions")), 0);
    json_decref(body);
    aw_api_world_close(&world);
}

static void the_map_shows_workloads_among_those_known(void **state)
{
    (void)state;
    aw_api_world_open_with(&world, AW_GUARD_OFF, false);
    embed_world_open(&kept, AW_BUNDLE_LATEST, 30);
    struct aw_workload_map *map = map_new();
    aw_api_map(&world.api, map, "default", "");
    json_t *body = ask("/v1/embeddings");
    assert_string_equal(json_string_value(at(body, "missing")),
                        "no workload has finished an episode yet");
    assert_int_equal(json_integer_value(at(body, "waiting")), 2);
    assert_int_equal(json_integer_value(at(body, "left_out")), 1);
    json_decref(body);

    aw_api_world_run(&world, 2);
    for (uint32_t i = 0; i < AW_API_TESTING_WORKLOADS; i++) {
        episode_write(&kept, world.workload[i].pilot.name, 0, i, EPISODE_STEPS, NULL);
        aw_workload_map_tell(map, i, 1);
    }
    assert_int_equal(aw_workload_map_work(map, 0, 100), 2);
    body = ask("/v1/embeddings");
    assert_true(json_is_null(at(body, "missing")));
    assert_int_equal(json_integer_value(at(body, "dimensions")), 6);
    assert_string_equal(json_string_value(at(body, "projection")), "principal components");
    assert_string_equal(json_string_value(at(at(body, "model"), "name")), "default");
    assert_int_equal(json_array_size(at(body, "explained")), 2);
    assert_int_equal(json_array_size(at(body, "known")), 30);
    assert_string_equal(json_string_value(at(json_array_get(at(body, "known"), 29), "name")),
                        "1:29");
    assert_int_equal(json_array_size(at(body, "points")), 2);
    const json_t *point = json_array_get(at(body, "points"), 0);
    assert_string_equal(json_string_value(at(point, "name")), "shop/cart");
    assert_non_null(json_string_value(at(point, "stage")));
    assert_true(json_is_number(at(point, "x")) && json_is_number(at(point, "y")));
    assert_true(json_is_true(at(point, "by_fallback")));
    assert_true(json_is_boolean(at(point, "out_of_distribution")));
    assert_true(json_is_number(at(at(point, "reward_drop"), "value")));
    assert_true(json_is_null(at(point, "retraining_episodes")));
    uint32_t peers = 0;
    double before = 1;
    const json_t *near = at(point, "nearest");
    for (size_t i = 0; i < json_array_size(near); i++) {
        const json_t *one = json_array_get(near, i);
        const double similarity = json_number_value(at(one, "similarity"));
        assert_true(similarity <= before);
        before = similarity;
        if (json_is_false(at(one, "known"))) {
            assert_string_equal(json_string_value(at(one, "name")), "shop/web");
            peers++;
        }
    }
    assert_int_equal(peers, 1);
    json_decref(body);

    body = ask("/v1/workloads/shop/cart");
    assert_true(json_array_size(at(at(body, "alike"), "nearest")) > 1);
    json_decref(body);
    body = ask("/v1/workloads/bank/cart");
    assert_true(json_is_null(at(body, "alike")));
    json_decref(body);

    aw_api_map(&world.api, NULL, "", "gone");
    aw_workload_map_free(map);
    body = ask("/v1/embeddings");
    assert_string_equal(json_string_value(at(body, "missing")), "gone");
    json_decref(body);
    embed_world_close(&kept);
    aw_api_world_close(&world);
}

AW_TEST_GROUP("api-map")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_daemon_without_a_model_says_what_is_missing),
        cmocka_unit_test(the_map_shows_workloads_among_those_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
