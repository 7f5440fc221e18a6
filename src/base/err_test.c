#include "base/testing.h"

#include <string.h>

static void every_error_has_a_name_a_text_and_an_exit_code(void **state)
{
    (void)state;
    for (int i = 1; i < AW_ERR_COUNT; i++) {
        assert_true(strlen(aw_err_name(i)) > 0);
        assert_true(strlen(aw_err_text(i)) > 0);
        assert_in_range(aw_err_exit_code(i), 1, 255);
        assert_in_range(aw_err_http_status(i), 400, 599);
    }
    assert_int_equal(aw_err_exit_code(AW_OK), 0);
    assert_string_equal(aw_err_name(AW_ERR_CONFIG), "CONFIG");
    assert_true(aw_err_transient(AW_ERR_CONFLICT));
    assert_false(aw_err_transient(AW_ERR_FORMAT));
}

static void a_diagnostic_reads_as_one_line_with_its_place(void **state)
{
    (void)state;
    char buf[1024];
    struct aw_diag diag;
    assert_int_equal(aw_fail_at(&diag, AW_ERR_RANGE, "a.yaml", 3, 7, "slo.target",
                                "expected %s, found %d", "a positive number", -1),
                     AW_ERR_RANGE);
    assert_string_equal(aw_diag_format(&diag, AW_ERR_RANGE, buf, sizeof buf),
                        "a.yaml:3:7: slo.target: expected a positive number, found -1");
    assert_int_equal(aw_fail(&diag, AW_ERR_IO, "no such disk"), AW_ERR_IO);
    assert_string_equal(aw_diag_format(&diag, AW_ERR_IO, buf, sizeof buf), "no such disk");
    assert_string_equal(aw_diag_format(NULL, AW_ERR_NOMEM, buf, sizeof buf), "out of memory");
    assert_int_equal(aw_fail_at(NULL, AW_ERR_IO, "f", 1, 1, "k", "x"), AW_ERR_IO);
}

static void an_overlong_text_is_cut_and_a_diagnostic_may_quote_itself(void **state)
{
    (void)state;
    char longer[4 * AW_DIAG_TEXT_MAX];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    struct aw_diag diag;
    aw_fail(&diag, AW_ERR_FORMAT, "%s", longer);
    assert_int_equal(strlen(diag.text), AW_DIAG_TEXT_MAX - 1);
    aw_fail(&diag, AW_ERR_FORMAT, "inner");
    aw_fail_at(&diag, AW_ERR_FORMAT, "f", 0, 0, NULL, "outer: %s", diag.text);
    assert_string_equal(diag.text, "outer: inner");
}

AW_TEST_GROUP("err")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_a_name_a_text_and_an_exit_code),
        cmocka_unit_test(a_diagnostic_reads_as_one_line_with_its_place),
        cmocka_unit_test(an_overlong_text_is_cut_and_a_diagnostic_may_quote_itself),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
