/* vpa_spec_test.c - what a VerticalPodAutoscaler says, what it is told, and what its pods use. */
#include "base/testing.h"
#include "controller/vpa_spec.h"
#include "controller/vpa_usage.h"

#include <stdlib.h>
#include <string.h>

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

static void an_object_is_for_whom_it_names(void **state)
{
    static const struct {
        const char *spec, *why;
        bool ours;
    } cases[] = {
        {"{}", "nobody: the stock recommender", false},
        {"{\"recommenders\":[]}", "an empty list is nobody", false},
        {"{\"recommenders\":[{\"name\":\"aware\"}]}", "us", true},
        {"{\"recommenders\":[{\"name\":\"aware2\"}]}", "a longer name", false},
        {"{\"recommenders\":[{\"name\":\"x\"},{\"name\":\"aware\"}]}", "us among others", true},
        {"{\"recommenders\":\"aware\"}", "not a list", false},
        {"{\"recommenders\":[\"aware\",7,null]}", "not objects", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *spec = parse(cases[i].spec);
        if (aw__vpa_is_for(spec, "aware") != cases[i].ours)
            fail_msg("%s", cases[i].why);
        json_decref(spec);
    }
}

static void a_rule_of_its_own_comes_before_that_of_all(void **state)
{
    struct aw__vpa_rules rules;
    json_t *spec = parse(
        "{\"resourcePolicy\":{\"containerPolicies\":[{\"containerName\":\"*\",\"mode\":\"Off\"},"
        "{\"containerName\":\"web\",\"minAllowed\":{\"cpu\":1,\"memory\":\"1Gi\"},\"maxAllowed\":{"
        "\"cpu\":\"1500m\",\"nvidia.com/gpu\":\"1\"},\"controlledResources\":[\"memory\",\"disk\"]}"
        "]}}");
    (void)state;
    assert_ok(aw__vpa_rules_read(spec, &rules, NULL));
    const struct aw__vpa_rule *web = aw__vpa_rule_of(&rules, "web");
    assert_false(web->off);
    assert_int_equal(web->bounds.min_allowed[AW_VPA_CPU], 1000);
    assert_int_equal(web->bounds.max_allowed[AW_VPA_CPU], 1500);
    assert_int_equal(web->bounds.max_allowed[AW_VPA_MEMORY], 0);
    assert_false(web->controls[AW_VPA_CPU]);
    assert_true(web->controls[AW_VPA_MEMORY]);
    assert_true(aw__vpa_rule_of(&rules, "side")->off);
    rules.count = 0;
    assert_true(aw__vpa_rule_of(&rules, "side")->controls[AW_VPA_CPU]);
    json_decref(spec);
}

static void amounts_that_are_none_are_named(void **state)
{
    static const char *const bad[] = {"\"much\"", "\"-1\"", "true", "[]", "\"1Xi\""};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct aw__vpa_rules rules;
        struct aw_diag diag = {0};
        char text[200];
        snprintf(text, sizeof text,
                 "{\"resourcePolicy\":{\"containerPolicies\":[{\"containerName\":\"a\"},"
                 "{\"containerName\":\"b\",\"maxAllowed\":{\"memory\":%s}}]}}",
                 bad[i]);
        json_t *spec = parse(text);
        assert_int_equal(aw__vpa_rules_read(spec, &rules, &diag), AW_ERR_CONFIG);
        assert_non_null(strstr(diag.text, "containerPolicies[1]"));
        assert_int_equal(rules.count, 0);
        json_decref(spec);
    }
}

static void what_is_written_reads_back_the_same(void **state)
{
    static const struct aw_vpa_recommendation made = {
        .target = {477, 700000001},
        .lower = {25, 262144000},
        .upper = {AW_VPA_AMOUNT_MAX, INT64_C(1) << 40},
        .uncapped_target = {477, 700000001}};
    static const int64_t none[] = {-1, -1}, above[] = {900, 10};
    struct aw__vpa_advices written = {0}, back;
    struct aw__vpa_advice advice = {.container = "web"};
    struct aw__vpa_rules rules = {0};
    (void)state;
    aw__vpa_advice_make(&made, aw__vpa_rule_of(&rules, "web"), none, &advice);
    assert_true(aw__vpa_advices_put(&written, &advice));
    aw__vpa_advice_make(&made, aw__vpa_rule_of(&rules, "a"), above, &advice);
    memcpy(advice.container, "a", 2);
    assert_true(aw__vpa_advices_put(&written, &advice));
    assert_string_equal(written.item[0].container, "a"); /* by name */
    assert_int_equal(written.item[0].amount[AW__VPA_TARGET][AW_VPA_CPU], 900);
    assert_int_equal(written.item[0].amount[AW__VPA_TARGET][AW_VPA_MEMORY], 700000001);
    json_t *status = aw__vpa_status_json(&written, json_array(), 3);
    aw__vpa_advices_read(status, &back);
    assert_int_equal(aw__vpa_advices_differ(&written, &back, 0), AW__VPA_SAME);
    assert_int_equal(aw_kube_int_at(status, "observedGeneration", 0), 3);
    json_decref(status);
    /* a bound that moves a little, one that moves much, a target that moves at all */
    back.item[1].amount[AW__VPA_LOWER][AW_VPA_CPU] = 26;
    assert_int_equal(aw__vpa_advices_differ(&written, &back, 0.1), AW__VPA_WORDS);
    back.item[1].amount[AW__VPA_LOWER][AW_VPA_CPU] = 30;
    assert_int_equal(aw__vpa_advices_differ(&written, &back, 0.1), AW__VPA_NEWS);
    back = written;
    back.item[1].amount[AW__VPA_TARGET][AW_VPA_CPU]++;
    assert_int_equal(aw__vpa_advices_differ(&written, &back, 0.1), AW__VPA_NEWS);
}

static void a_floor_yields_to_what_the_owner_allows(void **state)
{
    static const struct aw_vpa_recommendation made = {
        .target = {100, 100}, .upper = {150, 150}, .uncapped_target = {100, 100}};
    static const int64_t floor[] = {800, -1};
    const struct aw__vpa_rule rule = {.controls = {true, true},
                                      .bounds = {.max_allowed = {500, 0}}};
    struct aw__vpa_advice advice = {.container = "web"}, kept;
    (void)state;
    aw__vpa_advice_make(&made, &rule, floor, &advice);
    assert_int_equal(advice.amount[AW__VPA_TARGET][AW_VPA_CPU], 500);
    assert_int_equal(advice.amount[AW__VPA_UNCAPPED][AW_VPA_CPU], 800);
    assert_int_equal(advice.amount[AW__VPA_UPPER][AW_VPA_CPU], 500);
    assert_int_equal(advice.amount[AW__VPA_TARGET][AW_VPA_MEMORY], 100);
    const struct aw__vpa_rule off = {.off = true, .controls = {true, true}};
    assert_false(aw__vpa_advice_keep(&advice, &off, &kept));
    const struct aw__vpa_rule less = {.controls = {true, false}, .bounds = {.max_allowed = {9, 0}}};
    assert_true(aw__vpa_advice_keep(&advice, &less, &kept));
    assert_int_equal(kept.amount[AW__VPA_TARGET][AW_VPA_CPU], 9);
    assert_int_equal(kept.amount[AW__VPA_TARGET][AW_VPA_MEMORY], -1);
}

static void conditions_keep_their_times_and_those_of_others(void **state)
{
    struct aw__vpa_conditions now = {.provided = true, .low_confidence = true};
    json_t *status = parse(
        "{\"conditions\":[{\"type\":\"RecommendationProvided\",\"status\":\"True\","
        "\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"},{\"type\":\"NoPodsMatched\",\"status\":"
        "\"True\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"},{\"type\":\"ConfigDeprecated\","
        "\"status\":\"True\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}");
    (void)state;
    json_t *list = aw__vpa_conditions_json(status, &now, INT64_C(1769860800000000));
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(aw_kube_text_at(json_array_get(list, 0), "type"), "ConfigDeprecated");
    assert_string_equal(aw_kube_text_at(json_array_get(list, 1), "type"), "LowConfidence");
    assert_string_equal(aw_kube_text_at(json_array_get(list, 1), "lastTransitionTime"),
                        "2026-01-31T12:00:00Z");
    assert_string_equal(aw_kube_text_at(json_array_get(list, 2), "lastTransitionTime"),
                        "2026-01-01T00:00:00Z");
    json_object_set_new(status, "conditions", list);
    json_t *again = aw__vpa_conditions_json(status, &now, INT64_C(1769860999000000));
    assert_true(json_equal(again, list)); /* nothing to write */
    json_decref(again);
    json_decref(status);
}

static void usage_that_is_none_is_not_taken_for_little(void **state)
{
    struct aw__usage usage;
    const int64_t now_us = INT64_C(1769860800000000);
    json_t *body = parse(
        "{\"kind\":\"PodMetricsList\",\"items\":["
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"good\"},\"timestamp\":\"2026-01-31T11:59:"
        "00Z\","
        "\"containers\":[{\"name\":\"a\",\"usage\":{\"cpu\":\"1500000n\",\"memory\":\"1Ki\"}},"
        "{\"name\":\"b\",\"usage\":{\"cpu\":\"NaN\",\"memory\":\"1Ki\"}}]},"
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"future\"},\"timestamp\":"
        "\"2026-02-02T00:00:00Z\",\"containers\":[{\"name\":\"a\",\"usage\":{\"cpu\":\"1\","
        "\"memory\":\"1Ki\"}}]},"
        "{\"metadata\":{\"namespace\":\"n\",\"name\":\"timeless\"},\"containers\":[{\"name\":\"a\","
        "\"usage\":{\"cpu\":\"1\",\"memory\":\"1Ki\"}}]},7]}");
    (void)state;
    assert_ok(aw__usage_init(&usage, 2, NULL));
    assert_ok(aw__usage_decode(&usage, body, now_us, NULL));
    const struct aw__usage_sample *good = aw__usage_find(&usage, "n", "good", "a");
    assert_non_null(good);
    assert_int_equal(good->cpu_millicores, 2); /* rounded up, as Kubernetes does */
    assert_int_equal(good->memory_bytes, 1024);
    assert_int_equal(good->cpu_at_us, now_us - 60 * INT64_C(1000000));
    assert_null(aw__usage_find(&usage, "n", "good", "b"));
    assert_null(aw__usage_find(&usage, "n", "future", "a"));
    assert_null(aw__usage_find(&usage, "n", "timeless", "a"));
    assert_null(aw__usage_find(&usage, "ng", "ood", "a"));
    assert_int_equal(usage.dropped, 4);
    json_decref(body);
    body = parse("{\"message\":\"busy\"}");
    assert_int_equal(aw__usage_decode(&usage, body, now_us, NULL), AW_ERR_FORMAT);
    json_decref(body);
    aw__usage_deinit(&usage);
}

AW_TEST_GROUP("controller-vpa-spec")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_is_for_whom_it_names),
        cmocka_unit_test(a_rule_of_its_own_comes_before_that_of_all),
        cmocka_unit_test(amounts_that_are_none_are_named),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(a_floor_yields_to_what_the_owner_allows),
        cmocka_unit_test(conditions_keep_their_times_and_those_of_others),
        cmocka_unit_test(usage_that_is_none_is_not_taken_for_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
