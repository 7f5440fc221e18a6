/* app_test.c - programs of services: what they may say, and what a load comes to. */
#include "graph/app.h"

#include <string.h>

#include "base/testing.h"

static struct aw_graph_app app;

static enum aw_err make(const char *program, struct aw_diag *diag)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    aw_graph_app_init(&app, "test", 100);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t service;
        assert_ok(aw_graph_app_service(&app, names[i], AW_GRAPH_LOGIC, &service, NULL));
        assert_ok(aw_graph_app_op(&app, service, "", 1, i ? i == 3 ? "a" : "" : program, NULL));
    }
    assert_ok(aw_graph_app_op(&app, 1, "write", 2, "c", NULL));
    assert_ok(aw_graph_app_type(&app, "get", "a", 1, 50, NULL));
    return aw_graph_app_finish(&app, diag);
}

static void a_load_comes_to_visits_by_repeats_and_probabilities(void **state)
{
    (void)state;
    assert_ok(make("b, 3*c, 0.5?b.write, par(seq(b, 2*c), c), async(c)", NULL));
    /* a 1, b 1 + 1, write 0.5, c 3 + 0.5 + 2 + 1 + 1 */
    assert_close(aw_graph_visits(&app, 0), 1 + 2 + 0.5 + 7.5, 1e-9);
    assert_close(app.services[2].visits_per_s, 750, 1e-9);
    assert_true(app.services[2].limit[AW_GRAPH_CPU] > 0.75);
    assert_close(app.services[3].visits_per_s, 0, 1e-9);
}

static void a_program_that_cannot_be_says_what_was_expected_and_where(void **state)
{
    static const struct {
        const char *program, *words, *why;
    } rows[] = {
        {"b, nobody", "a service that is there at byte 4", "an unknown service"},
        {"b, b.read", "a service that is there at byte 4", "an unknown operation"},
        {"par(b", "')' at byte 6", "a bracket that stays open"},
        {"b)", "',' or the end at byte 2", "a bracket too many"},
        {"some(b)", "par(, seq( or async( at byte 1", "no such group"},
        {"0*b", "from 1 to 64", "no times at all"},
        {"2?b", "above 0 and up to 1", "a probability above 1"},
        {"b,", "a service, or par(", "nothing after a comma"},
        {"64*seq(64*seq(64*0.1?b))", "more than 4096 steps", "repeats within repeats"},
        {"", NULL, "calls nobody"},
        {"d", "circle", "d calls a"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_diag diag = {0};
        const enum aw_err err = make(rows[i].program, &diag);
        if (err != (rows[i].words ? AW_ERR_CONFIG : AW_OK) ||
            (rows[i].words && !strstr(diag.text, rows[i].words)))
            fail_msg("%s: \"%s\"", rows[i].why, diag.text);
    }
}

static void all_built_in_applications_are_graphs_of_their_size(void **state)
{
    static const struct {
        const char *name;
        uint32_t services;
    } rows[] = {{"social-network", 38}, {"media", 42}, {"hotel", 15}, {"train-ticket", 42}};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(aw_graph_builtin_names[i], rows[i].name);
        assert_ok(aw_graph_builtin(rows[i].name, &app, NULL));
        assert_int_equal(app.service_count, rows[i].services);
        for (uint32_t k = 0; k < app.service_count; k++) /* nobody is there for nothing */
            if (!(app.services[k].visits_per_s > 0))
                fail_msg("%s: nobody calls %s", rows[i].name, app.services[k].name);
    }
    assert_int_equal(aw_graph_builtin("shop", &app, NULL), AW_ERR_NOTFOUND);
}

AW_TEST_GROUP("graph-app")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_comes_to_visits_by_repeats_and_probabilities),
        cmocka_unit_test(a_program_that_cannot_be_says_what_was_expected_and_where),
        cmocka_unit_test(all_built_in_applications_are_graphs_of_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
