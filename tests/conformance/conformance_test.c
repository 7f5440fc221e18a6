#include "conformance.h"

#include "base/file.h"
#include "base/rng.h"
#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct aw_conformance_result last;

static void keep(void *ctx, const struct aw_conformance_result *result)
{
    (void)ctx;
    last = *result;
}

static enum aw_err run(const char *json, const struct aw_alloc *alloc,
                       struct aw_conformance_summary *summary, struct aw_diag *diag)
{
    struct aw_tree tree = {0};
    enum aw_err err = aw_tree_load(&tree, "cases.json", json, strlen(json), alloc, diag);
    if (!err)
        err = aw_conformance_run(&tree, keep, NULL, summary, diag);
    aw_tree_deinit(&tree);
    return err;
}

#define GOOD                                                                        \
    "{\"id\": \"good\", \"kind\": \"clamp_no_behavior\", \"test\": \"somebody's\"," \
    " \"in\": {\"current\": 5, \"desired\": 7, \"min\": 3, \"max\": 8},"            \
    " \"expect\": {\"replicas\": 7, \"scaling_limited_reason\": \"DesiredWithinRange\"}}"

static void a_result_says_what_was_expected_and_what_was_found(void **state)
{
    (void)state;
    struct aw_conformance_summary summary;
    assert_ok(run("{\"cases\": [\n  " GOOD "]}", NULL, &summary, NULL));
    assert_int_equal(summary.passed, 1);
    assert_int_equal(summary.failed, 0);
    assert_true(last.passed);
    assert_string_equal(last.id, "good");
    assert_string_equal(last.kind, "clamp_no_behavior");
    assert_string_equal(last.test, "somebody's");
    assert_int_equal(last.line, 2);
    assert_int_equal(last.column, 3);
    assert_string_equal(last.expected, "replicas 7, scaling_limited_reason DesiredWithinRange");
    assert_string_equal(last.found, last.expected);
}

static void a_case_that_proves_nothing_fails(void **state)
{
    (void)state;
    static const struct {
        const char *why, *json, *found;
    } cases[] = {
        {"a wrong number",
         "{\"id\": \"x\", \"kind\": \"clamp_no_behavior\", \"in\": {\"current\": 5, \"desired\": "
         "7, \"min\": 3, \"max\": 8}, \"expect\": {\"replicas\": 6}}",
         "replicas 7"},
        {"a wrong word",
         "{\"id\": \"x\", \"kind\": \"clamp_no_behavior\", \"in\": {\"current\": 5, \"desired\": "
         "7, \"min\": 3, \"max\": 8}, \"expect\": {\"scaling_limited_reason\": \"TooFew\"}}",
         "DesiredWithinRange"},
        {"an unknown kind", "{\"id\": \"x\", \"kind\": \"astrology\", \"in\": {}, \"expect\": {}}",
         "kind of case is not known"},
        {"no kind", "{\"id\": \"x\", \"in\": {}, \"expect\": {}}", "kind of case is not known"},
        {"an input that is not known",
         "{\"id\": \"x\", \"kind\": \"clamp_no_behavior\", \"in\": {\"current\": 5, \"desired\": "
         "7, \"min\": 3, \"max\": 8, \"mood\": 1}, \"expect\": {\"replicas\": 7}}",
         "mood"},
        {"an input that is missing",
         "{\"id\": \"x\", \"kind\": \"clamp_no_behavior\", \"in\": {\"current\": 5, \"desired\": "
         "7, \"min\": 3}, \"expect\": {\"replicas\": 7}}",
         "missing key \"max\""},
        {"an input of the wrong type",
         "{\"id\": \"x\", \"kind\": \"clamp_no_behavior\", \"in\": {\"current\": \"5\", "
         "\"desired\": 7, \"min\": 3, \"max\": 8}, \"expect\": {\"replicas\": 7}}",
         "current"},
        {"an expectation that is not compared",
         "{\"id\": \"x\", \"kind\": \"clamp_no_behavior\", \"in\": {\"current\": 5, \"desired\": "
         "7, \"min\": 3, \"max\": 8}, \"expect\": {\"replicas\": 7, \"joy\": 1}}",
         "an expectation is not known"},
        {"no expectation",
         "{\"id\": \"x\", \"kind\": \"clamp_no_behavior\", \"in\": {\"current\": 5, \"desired\": "
         "7, \"min\": 3, \"max\": 8}, \"expect\": {\"note\": \"none\"}}",
         "expects nothing"},
        {"not a map", "7", "expected"},
        {"a pod in no known state",
         "{\"id\": \"x\", \"kind\": \"resource_utilization\", \"in\": {\"current_replicas\": 1, "
         "\"target_utilization_pct\": 50, \"tolerance_down\": 0, \"tolerance_up\": 0, \"pods\": "
         "[{\"usage_m\": 1, \"request_m\": 1, \"state\": \"tired\"}]}, \"expect\": "
         "{\"replicas\": 1}}",
         "state: expected one of"},
        {"a metric that gives no count",
         "{\"id\": \"x\", \"kind\": \"resource_utilization\", \"in\": {\"current_replicas\": 1, "
         "\"target_utilization_pct\": 50, \"tolerance_down\": 0, \"tolerance_up\": 0, \"pods\": "
         "[{\"usage_m\": null, \"request_m\": 1, \"state\": \"ready\"}]}, \"expect\": "
         "{\"replicas\": 1}}",
         "no pod that counts has a sample"},
        {"a histogram that cannot be",
         "{\"id\": \"x\", \"kind\": \"histogram_percentile\", \"in\": {\"histogram\": {\"type\": "
         "\"linear\", \"max\": 10, \"bucket_size\": 0, \"epsilon\": 1}, "
         "\"samples_[value,weight]\": []}, \"expect\": {\"percentile->value\": {\"0\": 0}}}",
         "bucket size"},
        {"a negative weight",
         "{\"id\": \"x\", \"kind\": \"histogram_percentile\", \"in\": {\"histogram\": {\"type\": "
         "\"linear\", \"max\": 10, \"bucket_size\": 1, \"epsilon\": 1}, "
         "\"samples_[value,weight]\": [[1, -1]]}, \"expect\": {\"percentile->value\": {\"0\": "
         "0}}}",
         "weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[2048];
        struct aw_conformance_summary summary = {0};
        struct aw_diag diag;
        int len = snprintf(json, sizeof json, "{\"cases\": [%s, " GOOD "]}", cases[i].json);
        assert_true(len > 0 && len < (int)sizeof json);
        /* the failed case first: the good one after it must still run */
        assert_ok(run(json, NULL, &summary, &diag));
        assert_string_equal(last.id, "good");
        if (summary.failed != 1 || summary.passed != 1)
            fail_msg("%s: %u failed, %u passed", cases[i].why, summary.failed, summary.passed);
        len = snprintf(json, sizeof json, "{\"cases\": [%s]}", cases[i].json);
        assert_ok(run(json, NULL, &summary, &diag));
        if (last.passed || !strstr(last.found, cases[i].found))
            fail_msg("%s: found \"%s\"", cases[i].why, last.found);
    }
}

static void a_file_without_cases_is_an_error(void **state)
{
    (void)state;
    struct aw_conformance_summary summary = {7, 7};
    struct aw_diag diag;
    assert_int_equal(run("{\"cases\": []}", NULL, &summary, &diag), AW_ERR_NODATA);
    assert_int_equal(run("{\"cases\": {}}", NULL, &summary, &diag), AW_ERR_CONFIG);
    assert_int_equal(run("{}", NULL, &summary, &diag), AW_ERR_CONFIG);
    assert_int_equal(run("{\"cases\": [", NULL, &summary, &diag), AW_ERR_FORMAT);
    assert_int_equal(
        aw_conformance_run_file("/nonexistent/cases.json", NULL, keep, NULL, &summary, &diag),
        AW_ERR_NOTFOUND);
    assert_int_equal(summary.passed, 7);
    assert_int_equal(summary.failed, 7);
}

static void every_kind_has_a_name_of_its_own(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (; aw_conformance_kind(count); count++)
        for (uint32_t i = 0; i < count; i++)
            assert_string_not_equal(aw_conformance_kind(i), aw_conformance_kind(count));
    assert_int_equal(count, 25);
}

static void no_memory_is_an_error_and_leaves_nothing_behind(void **state)
{
    (void)state;
    for (uint64_t budget = 0;; budget++) {
        struct aw_alloc_counting counting;
        struct aw_conformance_summary summary;
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        enum aw_err err = run("{\"cases\": [" GOOD "]}", &counting.alloc, &summary, NULL);
        assert_int_equal(counting.alloc_count - counting.free_count, 0);
        if (!err) {
            assert_true(budget > 0);
            break;
        }
        assert_int_equal(err, AW_ERR_NOMEM);
    }
}

/* Numbers made larger, signs turned, brackets lost: the worst that may happen is a failed case. */
static void a_mangled_file_never_does_more_than_fail(void **state)
{
    (void)state;
    static const char *const names[] = {"hpa_cases.json", "vpa_cases.json"};
    static const char *const splices[] = {"9", "99999999999", "-",  ".5",    "e9",   "null",
                                          "0", "[]",          "{}", "\"x\"", "1e300"};
    const char *folder = getenv("AW_TESTDATA");
    uint64_t ran = 0;
    for (size_t f = 0; f < 2; f++) {
        char path[4096], *bytes = NULL;
        size_t len = 0;
        snprintf(path, sizeof path, "%s/conformance/%s", folder ? folder : "tests", names[f]);
        assert_ok(aw_file_read(path, AW_TREE_BYTES_MAX, NULL, &bytes, &len, NULL));
        char *mangled = aw_alloc_new(NULL, len + 64, 1);
        assert_non_null(mangled);
        for (uint64_t seed = 0; seed < 400; seed++) {
            struct aw_rng rng;
            struct aw_tree tree = {0};
            struct aw_conformance_summary summary = {0};
            aw_rng_init(&rng, seed, f);
            /* over a digit, most of the time, so that most files still parse */
            uint32_t at = aw_rng_below(&rng, (uint32_t)len);
            while (aw_rng_below(&rng, 50) && !(bytes[at] >= '0' && bytes[at] <= '9'))
                at = aw_rng_below(&rng, (uint32_t)len);
            const char *splice = splices[aw_rng_below(&rng, 11)];
            size_t splice_len = strlen(splice);
            memcpy(mangled, bytes, at);
            memcpy(mangled + at, splice, splice_len);
            memcpy(mangled + at + splice_len, bytes + at + 1, len - at - 1);
            if (aw_tree_load(&tree, "x.json", mangled, len + splice_len - 1, NULL, NULL) != AW_OK)
                continue;
            if (aw_conformance_run(&tree, keep, NULL, &summary, NULL) == AW_OK)
                ran++;
            aw_tree_deinit(&tree);
        }
        aw_alloc_free(NULL, mangled);
        aw_alloc_free(NULL, bytes);
    }
    assert_true(ran > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_says_what_was_expected_and_what_was_found),
        cmocka_unit_test(a_case_that_proves_nothing_fails),
        cmocka_unit_test(a_file_without_cases_is_an_error),
        cmocka_unit_test(every_kind_has_a_name_of_its_own),
        cmocka_unit_test(a_mangled_file_never_does_more_than_fail),
        cmocka_unit_test(no_memory_is_an_error_and_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
