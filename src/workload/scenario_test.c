#include "workload/scenario.h"

#include "base/testing.h"
#include "workload/app.h"

#include <string.h>

#define MINUTE_US INT64_C(60000000)

static struct aw_effect effect_at(const struct aw_schedule *schedule, int64_t minutes)
{
    struct aw_effect effect;
    aw_schedule_effect(schedule, minutes * MINUTE_US, &effect);
    return effect;
}

static void the_seven_disturbances_are_those_of_the_paper(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double payload;
        uint32_t family;
        double load;
    } paper[] = {
        {"file-size", 3, AW_PAYLOAD_FILE, 1},
        {"table-size", 10, AW_PAYLOAD_TABLE, 1},
        {"float-ops", 2, AW_PAYLOAD_FLOAT, 1},
        {"image-size", 4, AW_PAYLOAD_IMAGE, 1},
        {"text-size", 5.714286, AW_PAYLOAD_TEXT, 1},
        {"model-size", 3, AW_PAYLOAD_MODEL, 1},
        {"load-high-to-low", 1, 0, 0.1},
        {"load-low-to-high", 1, 0, 10},
    };
    for (size_t i = 0; i < sizeof paper / sizeof *paper; i++) {
        const struct aw_scenario *s = NULL;
        assert_ok(aw_scenario_find(paper[i].name, &s, NULL));
        assert_close(s->effect.payload, paper[i].payload, 1e-6);
        assert_int_equal(s->effect.families, paper[i].family ? 1u << paper[i].family : 0);
        assert_close(s->effect.load_factor, paper[i].load, 1e-12);
        assert_true(s->effect.cpu_slowdown == 1 && s->effect.io_slowdown == 1);
        assert_true(s->effect.memory_leak_mib == 0);
    }
}

static void every_scenario_changes_something_and_every_payload_has_a_kind(void **state)
{
    (void)state;
    for (const struct aw_scenario *s = aw_scenarios; s->name; s++) {
        assert_memory_not_equal(&s->effect, &aw_effect_none, sizeof s->effect);
        uint32_t kinds = 0;
        for (uint32_t i = 0; i < AW_SEGMENT_BUILTIN_COUNT; i++)
            kinds += (s->effect.families >> aw_segment_builtin()[i].family) & 1;
        assert_true(s->effect.payload == 1 || kinds > 0);
    }
}

static void a_schedule_is_read_from_text(void **state)
{
    (void)state;
    struct aw_schedule s;
    assert_ok(aw_schedule_parse("file-size@30m, neighbour-cpu@10m+25m,load-low-to-high@20m+20m", &s,
                                NULL));
    assert_int_equal(s.count, 3);
    assert_string_equal(s.event[0].name, "neighbour-cpu"); /* by time */
    struct aw_effect e = effect_at(&s, 9);
    assert_memory_equal(&e, &aw_effect_none, sizeof e);
    e = effect_at(&s, 10);
    assert_close(e.cpu_slowdown, 1.6, 1e-12);
    assert_close(e.load_factor, 1, 0);
    e = effect_at(&s, 32); /* all three */
    assert_close(e.cpu_slowdown, 1.6, 1e-12);
    assert_close(e.load_factor, 10, 1e-12);
    assert_close(e.payload, 3, 1e-12);
    assert_int_equal(e.families, 1u << AW_PAYLOAD_FILE);
    e = effect_at(&s, 35);
    assert_close(e.cpu_slowdown, 1, 0);
    e = effect_at(&s, 100000);
    assert_close(e.payload, 3, 1e-12);

    const int64_t edges[] = {10, 20, 30, 35, 40};
    int64_t at_us = -1;
    for (size_t i = 0; i < 5; i++) {
        at_us = aw_schedule_next(&s, at_us);
        assert_int_equal(at_us, edges[i] * MINUTE_US);
    }
    assert_int_equal(aw_schedule_next(&s, at_us), INT64_MAX);
    assert_ok(aw_schedule_parse("", &s, NULL));
    assert_int_equal(s.count, 0);
}

static void effects_of_one_kind_multiply_and_leaks_add(void **state)
{
    (void)state;
    struct aw_schedule s;
    assert_ok(
        aw_schedule_parse("neighbour-memory@0,neighbour-cpu@0,neighbour-memory@5m", &s, NULL));
    struct aw_effect e = effect_at(&s, 6);
    assert_close(e.cpu_slowdown, 1.3 * 1.6 * 1.3, 1e-12);
    assert_close(e.memory_leak_mib, 128, 0);
}

static void a_wrong_schedule_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum aw_err err;
        const char *says;
    } cases[] = {
        {"file-size", AW_ERR_CONFIG, "SCENARIO@TIME"},
        {"@3m", AW_ERR_NOTFOUND, "unknown scenario"},
        {"file-sise@3m", AW_ERR_NOTFOUND, "did you mean \"file-size\""},
        {"earthquake@3m", AW_ERR_NOTFOUND, "there are"},
        {"file-size@soon", AW_ERR_CONFIG, "soon"},
        {"file-size@-3m", AW_ERR_CONFIG, "-3m"},
        {"file-size@3m+0s", AW_ERR_CONFIG, "longer than 0"},
        {"file-size@3m+x", AW_ERR_CONFIG, "x"},
        {"file-size@3m,", AW_ERR_CONFIG, "after the last comma"},
        {"file-size@3m,,", AW_ERR_CONFIG, ""},
        {"file-size@3m,table-size@4m", AW_ERR_CONFIG, "overlap"},
        {"table-size@4m,file-size@3m+2m", AW_ERR_CONFIG, "overlap"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_schedule s = {.count = 77};
        struct aw_diag diag = {0};
        enum aw_err err = aw_schedule_parse(cases[i].text, &s, &diag);
        if (err != cases[i].err || !strstr(diag.text, cases[i].says))
            fail_msg("%s: %s: %s", cases[i].text, aw_err_name(err), diag.text);
        assert_int_equal(s.count, 77);
    }
    struct aw_schedule s;
    assert_ok(aw_schedule_parse("file-size@3m+1m,table-size@4m", &s, NULL)); /* they only touch */
    char many[2048] = "";
    for (uint32_t i = 0; i <= AW_SCHEDULE_EVENTS_MAX; i++)
        strncat(many, i ? ",neighbour-cpu@1s" : "neighbour-cpu@1s", sizeof many - strlen(many) - 1);
    assert_int_equal(aw_schedule_parse(many, &s, NULL), AW_ERR_LIMIT);
}

static enum aw_err decode(const char *text, struct aw_schedule *ret, struct aw_diag *diag)
{
    struct aw_tree tree;
    const struct aw_node *root = NULL;
    enum aw_err err = aw_tree_load(&tree, "s.yaml", text, strlen(text), NULL, diag);
    if (!err)
        err = aw_tree_only(&tree, &root, diag);
    if (!err)
        err = aw_schedule_decode(&tree, root, ret, diag);
    aw_tree_deinit(&tree);
    return err;
}

static void a_schedule_is_read_from_yaml(void **state)
{
    (void)state;
    struct aw_schedule s;
    assert_ok(decode("- {scenario: file-size, at: 30m}\n"
                     "- neighbour-network@1m+2m\n"
                     "- {scenario: neighbour-cpu, at: 1m, for: 5m, cpu_slowdown: 3}\n"
                     "- {at: 10m, for: 10m, load: 2, payload: 0.5, families: [image, text],\n"
                     "   memory_leak: 32Mi, io_slowdown: 2}\n",
                     &s, NULL));
    assert_int_equal(s.count, 4);
    struct aw_effect e = effect_at(&s, 2);
    assert_close(e.cpu_slowdown, 3, 0);
    assert_close(e.io_slowdown, 3, 0);
    e = effect_at(&s, 12);
    assert_close(e.load_factor, 2, 0);
    assert_close(e.payload, 0.5, 0);
    assert_int_equal(e.families, 1u << AW_PAYLOAD_IMAGE | 1u << AW_PAYLOAD_TEXT);
    assert_close(e.memory_leak_mib, 32, 0);
    assert_close(e.io_slowdown, 2, 0);
}

static void a_wrong_yaml_schedule_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t line;
        const char *says;
    } cases[] = {
        {"scenario: x\n", 1, "a list"},
        {"- {scenario: file-size}\n", 1, "missing key \"at\""},
        {"- {scenario: file-size, at: 3m}\n- {senario: file-size, at: 3m}\n", 2,
         "did you mean \"scenario\""},
        {"- {scenario: nothing, at: 3m}\n", 1, "unknown scenario"},
        {"- {scenario: file-size, at: 3}\n", 1, "duration"},
        {"- {at: 3m}\n", 1, "changes nothing"},
        {"- {at: 3m, load: -1}\n", 1, "0 to 1000"},
        {"- {at: 3m, load: 2, families: [cats]}\n", 1, "one of: file"},
        {"- {at: 3m, memory_leak: lots}\n", 1, "lots"},
        {"- {at: 3m, for: 0s, load: 2}\n", 1, "longer than 0"},
        {"- file-size@1m\n- table-size@2m\n", 2, "overlap"},
        {"- {at: 1m, scenario: file-size}\n- {at: 2m, scenario: table-size}\n", 2, "overlap"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_schedule s = {.count = 77};
        struct aw_diag diag = {0};
        enum aw_err err = decode(cases[i].text, &s, &diag);
        if (err == AW_OK || diag.line != cases[i].line || !strstr(diag.text, cases[i].says))
            fail_msg("case %zu: %s: line %u: %s", i, aw_err_name(err), diag.line, diag.text);
        assert_int_equal(s.count, 77);
    }
}

AW_TEST_GROUP("scenario")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_seven_disturbances_are_those_of_the_paper),
        cmocka_unit_test(every_scenario_changes_something_and_every_payload_has_a_kind),
        cmocka_unit_test(a_schedule_is_read_from_text),
        cmocka_unit_test(effects_of_one_kind_multiply_and_leaks_add),
        cmocka_unit_test(a_wrong_schedule_is_refused),
        cmocka_unit_test(a_schedule_is_read_from_yaml),
        cmocka_unit_test(a_wrong_yaml_schedule_is_refused_with_its_place),
    };
    return cmocka_run_group_tests_name("scenario", tests, NULL, NULL);
}
