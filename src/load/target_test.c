/* target_test.c - URLs, and who may be pressed. */
#include "load/target.h"

#include <string.h>

#include "base/net.h"
#include "base/testing.h"

static void urls_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *url, *address, *host, *path, *why;
    } cases[] = {
        {"http://127.0.0.1:8080/a/b?c=d", "127.0.0.1:8080", "127.0.0.1:8080", "/a/b?c=d", "all"},
        {"http://127.0.0.1", "127.0.0.1:80", "127.0.0.1", "/", "neither port nor path"},
        {"localhost:81", "127.0.0.1:81", "localhost:81", "/", "no scheme; a name that is known"},
        {":8080/x", "127.0.0.1:8080", "127.0.0.1:8080", "/x", "a port alone is this machine"},
        {"http://127.9.9.9:1?q", "127.9.9.9:1", "127.9.9.9:1", "/?q", "a query without a path"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_target target;
        char text[AW_NET_TEXT_MAX];
        if (aw_target_parse(cases[i].url, false, &target, NULL) != AW_OK)
            fail_msg("%s", cases[i].why);
        assert_string_equal(aw_net_print(&target.address, text, sizeof text), cases[i].address);
        assert_string_equal(target.host, cases[i].host);
        assert_string_equal(target.path, cases[i].path);
    }
}

static void what_is_no_url_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {"", AW_ERR_USAGE, "nothing"},
        {"http://", AW_ERR_USAGE, "no host"},
        {"http:///x", AW_ERR_USAGE, "no host before the path"},
        {"http://127.0.0.1:0/", AW_ERR_USAGE, "port 0"},
        {"http://127.0.0.1:65536/", AW_ERR_USAGE, "a port too large"},
        {"http://127.0.0.1:80x/", AW_ERR_USAGE, "a port that is none"},
        {"http://127.0.0.1:/", AW_ERR_USAGE, "a colon without a port"},
        {"http://127.0.0.1/a b", AW_ERR_USAGE, "a space would end the request line"},
        {"http://127.0.0.1/a\r\nX: y", AW_ERR_USAGE, "a line end would begin a header"},
        {"http://127.0.0.1/#part", AW_ERR_USAGE, "a fragment is not sent"},
        {"http://me@127.0.0.1/", AW_ERR_USAGE, "no passwords"},
        {"https://127.0.0.1/", AW_ERR_UNSUPPORTED, "no TLS"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_target target = {.host = "untouched"};
        struct aw_diag diag = {0};
        if (aw_target_parse(cases[i].url, true, &target, &diag) != cases[i].err)
            fail_msg("%s", cases[i].why);
        assert_true(*diag.text);
        assert_string_equal(target.host, "untouched");
    }
}

static void only_this_machine_is_pressed_unless_somebody_says_so(void **state)
{
    (void)state;
    struct aw_target target;
    struct aw_diag diag = {0};
    assert_int_equal(aw_target_parse("http://10.0.0.1:80/", false, &target, &diag), AW_ERR_USAGE);
    assert_non_null(strstr(diag.text, "--allow-remote"));
    assert_int_equal(aw_target_parse("http://0.0.0.0:80/", false, &target, &diag), AW_ERR_USAGE);
    assert_int_equal(aw_target_parse("http://shop.example/", false, &target, &diag), AW_ERR_USAGE);
    assert_non_null(strstr(diag.text, "--allow-remote"));
    assert_ok(aw_target_parse("http://10.0.0.1:80/", true, &target, &diag)); /* nothing is sent */
}

AW_TEST_GROUP("load-target")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_read_as_people_write_them),
        cmocka_unit_test(what_is_no_url_is_refused_with_a_reason),
        cmocka_unit_test(only_this_machine_is_pressed_unless_somebody_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
