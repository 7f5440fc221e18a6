/* show_test.c - figures as people read them: human units, and never more than is known. */
#include "frame/show.h"

#include "base/json.h"
#include "base/testing.h"
#include "base/yaml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void amounts_have_human_units_whatever_they_are(void **state)
{
    static const struct {
        const char *why, *name;
        double value;
        const char *text;
    } cases[] = {
        {"CPU in millicores", "cpu_millicores", 500, "500m"},
        {"whole cores", "cpu_cores_used", 1.5, "1.5"},
        {"memory never in millibytes", "memory_bytes", 126443839, "121Mi"},
        {"memory per second", "net_bytes_per_s", 1048576, "1Mi/s"},
        {"latency", "latency_us_p99", 41000, "41ms"},
        {"a rate", "arrivals_per_s", 120.5, "121/s"},
        {"a share", "throttled_share", 0.021, "2.1%"},
        {"a plain number", "in_flight", 9.01696, "9.02"},
        {"what is not known", "latency_us_p99", NAN, "-"},
        {"what cannot be", "memory_bytes", -1, "-"},
        {"infinity", "latency_us", INFINITY, "-"},
    };
    char buf[AW_SHOW_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        aw_show_named(cases[i].name, cases[i].value, buf, sizeof buf);
        if (strcmp(buf, cases[i].text) != 0)
            fail_msg("%s: expected %s, found %s", cases[i].why, cases[i].text, buf);
    }
}

static void ages_money_and_changes_are_short(void **state)
{
    static const struct {
        double s;
        const char *text;
    } ages[] = {{0, "0s"},      {119, "119s"},   {120, "2m"},    {7199, "119m"},
                {7200, "2h"},   {9000, "2h30m"}, {36000, "10h"}, {90000, "25h"},
                {172800, "2d"}, {NAN, "-"},      {-5, "0s"}};
    char buf[AW_SHOW_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++)
        assert_string_equal(aw_show_age(ages[i].s, buf, sizeof buf), ages[i].text);
    assert_string_equal(aw_show_money(0.2399, buf, sizeof buf), "$0.240");
    assert_string_equal(aw_show_money(12.345, buf, sizeof buf), "$12.35");
    assert_string_equal(aw_show_money(NAN, buf, sizeof buf), "-");
    assert_string_equal(aw_show_change(77, 100, buf, sizeof buf), "-23%");
    assert_string_equal(aw_show_change(100.2, 100, buf, sizeof buf), "same");
    assert_string_equal(aw_show_change(1, 0, buf, sizeof buf), "-");
    assert_string_equal(aw_show_percent(0.5, buf, sizeof buf), "50%");
}

static void a_policy_says_which_model_it_began_at(void **state)
{
    static const struct {
        const char *account, *text, *why;
    } cases[] = {
        {"{\"agent\":{\"kind\":\"formula\",\"specialised_from\":{\"model\":\"default\","
         "\"checksum\":\"3f49\",\"episodes\":3}}}",
         "searched from the shared model default (3f49), known by 3 episodes of the fallback",
         "a formula"},
        {"{\"agent\":{\"kind\":\"network\",\"specialised_from\":{\"model\":\"default\","
         "\"checksum\":\"3f49\",\"episodes\":1}}}",
         "specialised from the shared model default (3f49), known by 1 episode of the fallback",
         "a network"},
        {"{\"agent\":{\"kind\":\"formula\"}}", "-", "one that chance found"},
    };
    char buf[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *account = json_loads(cases[i].account, 0, NULL);
        if (strcmp(aw_show_origin(account, buf, sizeof buf), cases[i].text) != 0)
            fail_msg("%s: %s", cases[i].why, buf);
        json_decref(account);
    }
}

static void times_read_back_and_simulated_ones_are_clocks(void **state)
{
    static const char *const wrong[] = {"",
                                        "now",
                                        "2026-11-16",
                                        "2026-11-16T02:03:04",
                                        "2026-11-16 02:03:04Z",
                                        "2026-11-16T02:03:04.12x456Z",
                                        "xxxx-11-16T02:03:04Z",
                                        "2026-11-16T02:03:04+01:00"};
    char buf[AW_SHOW_MAX];
    int64_t us = 7;
    (void)state;
    assert_ok(aw_time_read("2026-11-16T02:03:04.123456Z", &us));
    assert_int_equal(us, 1794794584123456);
    assert_string_equal(aw_time_write(us, buf, sizeof buf), "2026-11-16T02:03:04.123456Z");
    assert_string_equal(aw_time_show("2026-11-16T02:03:04.123456Z", buf, sizeof buf),
                        "2026-11-16 02:03:04");
    assert_string_equal(aw_time_show("1970-01-01T03:04:00.000000Z", buf, sizeof buf), "3:04:00");
    assert_string_equal(aw_time_show("1970-01-03T03:04:00Z", buf, sizeof buf), "2d 03:04:00");
    assert_string_equal(aw_time_show("never", buf, sizeof buf), "-");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        us = 7;
        if (aw_time_read(wrong[i], &us) != AW_ERR_FORMAT || us != 7)
            fail_msg("%s was read as a time", wrong[i]);
    }
    assert_true(aw__seconds_between("1970-01-01T00:00:01Z", "1970-01-01T00:01:00.5Z") == 59.5);
    assert_true(isnan(aw__seconds_between("", "1970-01-01T00:01:00Z")));
}

static void a_plan_tells_only_what_differs(void **state)
{
    static const struct {
        const char *why, *before, *after, *text;
    } cases[] = {
        {"one amount", "{\"replicas\":2,\"cpu_millicores\":500}", "{\"replicas\":3}",
         "replicas 2 -> 3"},
        {"what is the same is no change", "{\"replicas\":2,\"cpu_millicores\":500}",
         "{\"replicas\":2,\"cpu_millicores\":1500}", "cpu 500m -> 1.5"},
        {"three digits must not hide a change", "{\"memory_bytes\":110100480}",
         "{\"memory_bytes\":110166016}", "memory 105.00Mi -> 105.06Mi"},
        {"nothing", "{\"replicas\":2}", "{}", "nothing"},
        {"without a before", NULL, "{\"replicas\":3,\"memory_bytes\":134217728}",
         "replicas 3, memory 128Mi"},
    };
    char buf[AW_PLAN_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *before = cases[i].before ? json_loads(cases[i].before, 0, NULL) : NULL;
        json_t *after = json_loads(cases[i].after, 0, NULL);
        aw_plan_show(before, after, buf, sizeof buf);
        if (strcmp(buf, cases[i].text) != 0)
            fail_msg("%s: expected %s, found %s", cases[i].why, cases[i].text, buf);
        json_decref(before);
        json_decref(after);
    }
}

static void members_are_found_by_path_and_null_is_missing(void **state)
{
    json_t *object = json_loads("{\"a\":{\"b\":1.5,\"c\":null,\"d\":\"x\"},\"e\":true}", 0, NULL);
    (void)state;
    assert_true(aw_at_real(object, "a.b") == 1.5);
    assert_null(aw_at(object, "a.c"));
    assert_null(aw_at(object, "a.b.c"));
    assert_true(isnan(aw_at_real(object, "a.d")));
    assert_string_equal(aw_at_text(object, "a.d"), "x");
    assert_string_equal(aw_at_text(object, "e"), "");
    assert_true(aw_at_true(object, "e"));
    assert_null(aw_at(NULL, "a"));
    json_decref(object);
}

static void bars_fill_by_their_share(void **state)
{
    char buf[AW_SHOW_MAX];
    (void)state;
    assert_string_equal(aw_bar_show(0.5, 4, buf, sizeof buf), "##..");
    assert_string_equal(aw_bar_show(2, 4, buf, sizeof buf), "####");
    assert_string_equal(aw_bar_show(NAN, 4, buf, sizeof buf), "....");
}

/* Whatever is written as YAML is read back as the same values, by this project's own reader. */
static void a_document_survives_yaml(void **state)
{
    static const char *const documents[] = {
        "{\"v\":1,\"name\":\"default/cart\",\"why\":\"agent: 2 -> 3, because load\",\"none\":null}",
        "{\"list\":[1,2.5,-3,true,false,null,\"\",\"yes\",\"1.0\",\"0x10\",\"null\",\"~\",\"- "
        "a\"]}",
        "{\"empty\":{},\"also\":[],\"nested\":[[1,[2,3]],[],[{}]],\"a "
        "b\":{\"c\":[{\"d\":1,\"e\":2}]}}",
        "{\"text\":\"line\\nbreak \\\"quoted\\\" back\\\\slash \\u0001 tab\\t \\u00e9 # : end \"}",
        "[{\"a\":1},{\"b\":[{\"c\":2}]}]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        json_t *value = json_loads(documents[i], 0, NULL);
        struct aw_tree tree;
        const struct aw_node *root = NULL;
        struct aw_diag diag = {0};
        char *text = NULL;
        size_t size;
        assert_non_null(value);
        FILE *out = open_memstream(&text, &size);
        assert_ok(aw_yaml_write(value, out));
        fclose(out);
        if (aw_yaml_parse(&tree, "document", text, size, NULL, &diag) ||
            aw_tree_only(&tree, &root, &diag))
            fail_msg("%s\n%s", diag.text, text);
        json_t *again = aw_json_from_node(root);
        if (!json_equal(value, again))
            fail_msg("read back as something else:\n%s", text);
        json_decref(again);
        json_decref(value);
        aw_tree_deinit(&tree);
        free(text);
    }
}

AW_TEST_GROUP("cli-show")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_have_human_units_whatever_they_are),
        cmocka_unit_test(ages_money_and_changes_are_short),
        cmocka_unit_test(a_policy_says_which_model_it_began_at),
        cmocka_unit_test(times_read_back_and_simulated_ones_are_clocks),
        cmocka_unit_test(a_plan_tells_only_what_differs),
        cmocka_unit_test(members_are_found_by_path_and_null_is_missing),
        cmocka_unit_test(bars_fill_by_their_share),
        cmocka_unit_test(a_document_survives_yaml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
