/* selector_test.c - selectors mean what Kubernetes means by them, but for the empty one. */
#include "controller/selector.h"

#include "base/testing.h"

#include <string.h>

#define POD "app=web\0env=b\0example.com/tier=front\0empty=\0"

static void a_selector_means_the_pods_that_meet_every_demand(void **state)
{
    (void)state;
    static const struct {
        const char *selector;
        bool matches;
    } cases[] = {
        {"app=web", true},
        {"app==web", true},
        {" app = web , env = b ", true},
        {"app=we", false},
        {"ap=web", false},
        {"app=web,env=c", false},
        {"app!=db", true},
        {"app!=web", false},
        {"missing!=x", true},
        {"env in (a,b)", true},
        {"env in (a, b ),app=web", true},
        {"env in (a,c)", false},
        {"env in(b)", true},
        {"env notin (a,c)", true},
        {"env notin (b)", false},
        {"missing notin (b)", true},
        {"missing in (b)", false},
        {"app", true},
        {"missing", false},
        {"!missing", true},
        {"!app", false},
        {"example.com/tier=front", true},
        {"empty=", true},
        {"app=", false},
        {"", false},  /* nobody scales everything */
        {",", false}, /* and these are no selectors */
        {"app=web,", false},
        {"=web", false},
        {"!", false},
        {"env in b", false},
        {"env in (b", false},
        {"env in x (b)", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (aw__selector_matches(cases[i].selector, POD, sizeof POD - 1) != cases[i].matches)
            fail_msg("\"%s\"", cases[i].selector);
    assert_false(aw__selector_matches("app=web", "", 0));
}

static void a_selector_of_a_deployment_becomes_text(void **state)
{
    (void)state;
    char buf[128];
    json_t *s = json_loads(
        "{\"matchLabels\":{\"app\":\"web\"},\"matchExpressions\":["
        "{\"key\":\"env\",\"operator\":\"In\",\"values\":[\"a\",\"b\"]},"
        "{\"key\":\"old\",\"operator\":\"DoesNotExist\"},{\"key\":\"app\",\"operator\":\"Exists\"},"
        "{\"key\":\"x\",\"operator\":\"NotIn\",\"values\":[\"y\"]}]}",
        0, NULL);
    assert_ok(aw__selector_print(s, buf, sizeof buf));
    assert_string_equal(buf, "app=web,env in (a,b),!old,app,x notin (y)");
    assert_true(aw__selector_matches(buf, POD, sizeof POD - 1));
    assert_int_equal(aw__selector_print(s, buf, 10), AW_ERR_LIMIT);
    json_decref(s);
    static const char *const bad[] = {
        "{\"matchLabels\":{\"a\":1}}", "{\"matchExpressions\":[{\"key\":\"a\"}]}",
        "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Gt\",\"values\":[\"1\"]}]}",
        "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[]}]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *value = json_loads(bad[i], 0, NULL);
        assert_int_equal(aw__selector_print(value, buf, sizeof buf), AW_ERR_FORMAT);
        json_decref(value);
    }
}

static void a_pair_is_what_everything_selected_has(void **state)
{
    (void)state;
    char buf[64];
    assert_true(aw__selector_pair("!x,app = web,env=b", buf, sizeof buf));
    assert_string_equal(buf, "app=web");
    assert_true(aw__selector_pair("env in (b)", buf, sizeof buf));
    assert_string_equal(buf, "env=b");
    assert_false(aw__selector_pair("env in (a,b),app!=web,x", buf, sizeof buf));
    assert_false(aw__selector_pair("app=web", buf, 4));
    assert_false(aw__selector_pair("", buf, sizeof buf));
}

static void labels_are_packed_one_behind_the_other(void **state)
{
    (void)state;
    char buf[32];
    size_t len = 0;
    json_t *labels = json_pack("{s:s,s:s}", "app", "web", "env", "b");
    assert_ok(aw__labels_pack(labels, buf, sizeof buf, &len));
    assert_int_equal(len, 14);
    assert_memory_equal(buf, "app=web\0env=b", 14);
    assert_int_equal(aw__labels_pack(labels, buf, 13, &len), AW_ERR_LIMIT);
    assert_int_equal(aw__labels_pack(labels, buf, 8, &len), AW_ERR_LIMIT);
    json_decref(labels);
    assert_ok(aw__labels_pack(NULL, buf, sizeof buf, &len));
    assert_int_equal(len, 0);
}

AW_TEST_GROUP("controller-selector")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_selector_means_the_pods_that_meet_every_demand),
        cmocka_unit_test(a_selector_of_a_deployment_becomes_text),
        cmocka_unit_test(a_pair_is_what_everything_selected_has),
        cmocka_unit_test(labels_are_packed_one_behind_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
