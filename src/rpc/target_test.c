/* target_test.c - addresses of environments that live elsewhere. */
#include "rpc/target.h"

#include <string.h>

#include "base/testing.h"

static void addresses_are_read(void **state)
{
    static const struct {
        const char *text, *address, *env, *ca, *token;
        uint32_t timeout_s;
        bool tls;
    } cases[] = {
        {"grpc://127.0.0.1:50051/pendulum-v1", "127.0.0.1:50051", "pendulum-v1", "", "", 60, false},
        {"grpc://[::1]:7/a", "[::1]:7", "a", "", "", 60, false},
        {"grpc://host:7?env=b&timeout=5", "host:7", "b", "", "", 5, false},
        {"grpcs://host.example:443/a?ca=/x/ca.pem&token=/x/t", "host.example:443", "a", "/x/ca.pem",
         "/x/t", 60, true},
        {"grpc://localhost:7/a?token=t", "localhost:7", "a", "", "t", 60, false},
        {"grpc+unix:///run/a.sock?env=my-env", "unix:/run/a.sock", "my-env", "", "", 60, false},
        {"grpc+unix:///run/a.sock?env=e&token=/t", "unix:/run/a.sock", "e", "", "/t", 60, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_rpc_target target;
        struct aw_diag diag = {0};
        if (aw_rpc_target_parse(&target, cases[i].text, &diag))
            fail_msg("%s: %s", cases[i].text, diag.text);
        assert_string_equal(target.address, cases[i].address);
        assert_string_equal(target.env, cases[i].env);
        assert_string_equal(target.ca_path, cases[i].ca);
        assert_string_equal(target.token_path, cases[i].token);
        assert_int_equal(target.timeout_s, cases[i].timeout_s);
        assert_int_equal(target.tls, cases[i].tls);
    }
}

static void what_is_no_address_is_refused_and_why(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"http://host:7/a", "expected grpc://"},
        {"pendulum-v1", "expected grpc://"},
        {"grpc://", "HOST:PORT"},
        {"grpc://host/a", "HOST:PORT"},
        {"grpc://:7/a", "HOST:PORT"},
        {"grpc://host:port/a", "HOST:PORT"},
        {"grpc://host:123456/a", "HOST:PORT"},
        {"grpc://host:7", "which environment"},
        {"grpc://host:7/", "which environment"},
        {"grpc+unix://relative?env=a", "absolute"},
        {"grpc+unix:///run/a.sock", "?env=NAME"},
        {"grpc://host:7/a?timeout=0", "timeout"},
        {"grpc://host:7/a?timeout=x", "timeout"},
        {"grpc://host:7/a?colour=red", "found \"colour\""},
        {"grpc://host:7/a?ca", "KEY=VALUE"},
        {"grpc://host:7/a?ca=", "1 to"},
        {"grpc://host:7/a?ca=/x", "only grpcs"},
        {"grpc://host:7/a?token=/x", "a token is sent only"},
        {"grpc://ho st:7/a", "spaces"},
        {"grpc://host:7/a?set.=1", "found \"set.\""},
        {"grpc://host:7/a?set.x=", "1 to"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_rpc_target target = {.env = "kept"};
        struct aw_diag diag = {0};
        if (aw_rpc_target_parse(&target, cases[i].text, &diag) != AW_ERR_USAGE)
            fail_msg("%s was taken", cases[i].text);
        if (!strstr(diag.text, cases[i].why))
            fail_msg("%s: %s", cases[i].text, diag.text);
        assert_string_equal(target.env, "kept");
    }
}

static void options_of_the_environment_are_kept_in_their_order(void **state)
{
    struct aw_rpc_target target;
    (void)state;
    assert_ok(aw_rpc_target_parse(
        &target, "grpc://host:7/a?set.load=diurnal:mean=2,peak=3&timeout=5&set.step_s=30", NULL));
    assert_int_equal(target.option_count, 2);
    assert_string_equal(target.option[0].key, "load");
    assert_string_equal(target.option[0].value, "diurnal:mean=2,peak=3");
    assert_string_equal(target.option[1].key, "step_s");
    assert_string_equal(target.option[1].value, "30");
    assert_int_equal(target.timeout_s, 5);
}

static void names_that_are_too_long_are_not_cut(void **state)
{
    char text[2 * AW_ENV_ADDRESS_MAX] = "grpc://host:7/";
    struct aw_rpc_target target;
    struct aw_diag diag = {0};
    (void)state;
    memset(text + strlen(text), 'a', AW_ENV_NAME_MAX);
    assert_int_equal(aw_rpc_target_parse(&target, text, &diag), AW_ERR_USAGE);
    memset(text, 0, sizeof text);
    memcpy(text, "grpc+unix:///", 13);
    memset(text + 13, 'a', AW_ENV_ADDRESS_MAX);
    memcpy(text + 13 + AW_ENV_ADDRESS_MAX, "?env=a", 7);
    assert_int_equal(aw_rpc_target_parse(&target, text, &diag), AW_ERR_USAGE);
}

AW_TEST_GROUP("rpc-target")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(what_is_no_address_is_refused_and_why),
        cmocka_unit_test(options_of_the_environment_are_kept_in_their_order),
        cmocka_unit_test(names_that_are_too_long_are_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
