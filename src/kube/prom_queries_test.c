/* prom_queries_test.c - files that say what to ask: what is taken, what is refused and where. */
#include "kube/prom_queries.h"

#include <string.h>

#include "base/testing.h"

static enum aw_err parse(struct aw_kube_prom_queries *questions, const char *text,
                         struct aw_diag *diag)
{
    return aw_kube_prom_queries_parse(questions, "q.yaml", text, strlen(text), diag);
}

static void what_a_file_says_goes_before_the_defaults(void **state)
{
    struct aw_kube_prom_queries questions;
    struct aw_kube_metrics_config config = {0};
    (void)state;
    assert_ok(parse(&questions,
                    "selector: cluster=\"a\"\nwindow: 2m\nlatencyUnit: 1ms\n"
                    "queries:\n  cpu: my_cpu\n  inFlight: \"\"\n",
                    NULL));
    aw_kube_prom_queries_apply(&questions, &config);
    assert_string_equal(config.query[AW_KUBE_QUERY_CPU], "my_cpu");
    assert_string_equal(config.query[AW_KUBE_QUERY_IN_FLIGHT], "");
    assert_null(config.query[AW_KUBE_QUERY_MEMORY]);
    assert_string_equal(config.selector, "cluster=\"a\"");
    assert_int_equal(config.window_us, 120000000);
    assert_close(config.latency_unit_s, 0.001, 1e-12);
    aw_kube_prom_queries_deinit(&questions);
}

static void a_preset_can_be_corrected(void **state)
{
    struct aw_kube_prom_queries questions;
    (void)state;
    assert_ok(parse(&questions, "preset: istio\nqueries: {errors: mine}\n", NULL));
    assert_close(questions.latency_unit_s, 0.001, 1e-12);
    assert_string_equal(questions.query[AW_KUBE_QUERY_ERRORS], "mine");
    assert_non_null(strstr(questions.query[AW_KUBE_QUERY_LATENCY], "istio_request_duration"));
    assert_null(questions.query[AW_KUBE_QUERY_CPU]); /* usage is still cAdvisor's */
    aw_kube_prom_queries_deinit(&questions);
}

static void what_is_wrong_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *text, *key;
    } cases[] = {
        {"preset: envoy\n", "preset"},
        {"windw: 5m\n", "windw"},
        {"window: 0s\n", "window"},
        {"window: 2d\n", "window"},
        {"window: soon\n", "window"},
        {"latencyUnit: 0s\n", "latencyUnit"},
        {"queries: {latencies: x}\n", "queries.latencies"},
        {"queries: {latency: 7}\n", "queries.latency"},
        {"queries: [a]\n", "queries"},
        {"selector: [a]\n", "selector"},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_kube_prom_queries questions;
        struct aw_diag diag = {0};
        const enum aw_err err = parse(&questions, cases[i].text, &diag);
        if (err == AW_OK || diag.line != 1 || strcmp(diag.key, cases[i].key) != 0)
            fail_msg("%s: %s at %u, %s: %s", cases[i].text, aw_err_name(err), diag.line, diag.key,
                     diag.text);
        assert_null(questions.tree.first);
    }
}

AW_TEST_GROUP("kube-prom-queries")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_file_says_goes_before_the_defaults),
        cmocka_unit_test(a_preset_can_be_corrected),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
