/* alone_test.c - what is remembered is what would be computed. */
#include "env/autoscale/alone.h"

#include <stdio.h>
#include <string.h>

#include "base/testing.h"

static void app_make(uint32_t index, struct aw_app *app)
{
    memset(app, 0, sizeof *app);
    aw_app_generate(3, index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, app);
}

static void what_is_remembered_is_what_would_be_computed(void **state)
{
    (void)state;
    struct aw_app app;
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 8; i++) {
            app_make(i, &app);
            assert_true(aw__alone_p99_us(&app) == aw_app_unloaded_p99_us(&app, 1, 0));
        }
}

static void the_same_application_is_computed_once_whatever_its_name(void **state)
{
    (void)state;
    struct aw_app app;
    app_make(100, &app);
    const uint64_t before = aw__alone_computed();
    const double first = aw__alone_p99_us(&app);
    for (uint32_t i = 0; i < 5; i++) {
        snprintf(app.name, sizeof app.name, "other-%u", i);
        assert_true(aw__alone_p99_us(&app) == first);
    }
    assert_int_equal(aw__alone_computed(), before + 1);
    app.segment[0].cpu_ms *= 2;
    assert_true(aw__alone_p99_us(&app) > first);
    assert_int_equal(aw__alone_computed(), before + 2);
}

AW_TEST_GROUP("autoscale-alone")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_remembered_is_what_would_be_computed),
        cmocka_unit_test(the_same_application_is_computed_once_whatever_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
