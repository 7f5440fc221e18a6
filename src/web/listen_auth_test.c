/* listen_auth_test.c - addresses, hosts and tokens: what is let in and what is not. */
#include "web/listen_auth.h"

#include "base/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef-right"

static void addresses_are_numeric_and_loopback_is_known(void **state)
{
    static const struct {
        const char *address, *host; /* host NULL: refused */
        uint16_t port;
        bool loopback;
        const char *why;
    } cases[] = {
        {"127.0.0.1:9180", "127.0.0.1", 9180, true, "as the help says"},
        {"localhost:9180", "127.0.0.1", 9180, true, "the one name that is taken"},
        {"9180", "127.0.0.1", 9180, true, "a port alone is loopback's"},
        {"127.1.2.3:0", "127.1.2.3", 0, true, "all of 127/8, and any port"},
        {"[::1]:9180", "::1", 9180, true, "six"},
        {"0.0.0.0:9180", "0.0.0.0", 9180, false, "everybody"},
        {"[::]:80", "::", 80, false, "everybody, six"},
        {"10.0.0.7:65535", "10.0.0.7", 65535, false, "another machine's side"},
        {"::1:9180", NULL, 0, false, "which colon?"},
        {"[127.0.0.1]:9180", "127.0.0.1", 9180, true, "brackets do no harm"},
        {"example.org:80", NULL, 0, false, "a name may come to mean anything"},
        {"127.0.0.1", NULL, 0, false, "no port"},
        {"127.0.0.1:", NULL, 0, false, "an empty port"},
        {"127.0.0.1:65536", NULL, 0, false, "beyond all ports"},
        {"127.0.0.1:-1", NULL, 0, false, "below all ports"},
        {"127.0.0.1:9_180", NULL, 0, false, "ports have no underscores"},
        {"", NULL, 0, false, "nothing"},
        {"[::1", NULL, 0, false, "half"},
        {"[::1]9180", NULL, 0, false, "no colon"},
        {"0127.0.0.1:1", NULL, 0, false, "not an address of four"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_listen_auth door = {.token = TOKEN};
        struct aw_diag diag = {0};
        const enum aw_err err = aw_listen_auth_parse(&door, cases[i].address, &diag);
        if ((err == AW_OK) != (cases[i].host != NULL))
            fail_msg("%s: %s", cases[i].address, cases[i].why);
        assert_string_equal(door.token, TOKEN); /* whatever came of it */
        if (err) {
            assert_true(diag.text[0] != '\0' && door.host[0] == '\0');
            continue;
        }
        assert_string_equal(door.host, cases[i].host);
        assert_int_equal(door.port, cases[i].port);
        assert_int_equal(door.loopback, cases[i].loopback);
    }
}

static void each_request_gets_the_verdict_it_deserves(void **state)
{
    static const struct {
        const char *listen, *token; /* token "": none */
        const char *method, *path, *host, *authorization;
        enum aw_listen_auth_verdict verdict;
        const char *why;
    } cases[] = {
        {"127.0.0.1:1", "", "GET", "/v1/status", "127.0.0.1:1", NULL, AW_LISTEN_AUTH_OPEN,
         "a reader"},
        {"127.0.0.1:1", "", "HEAD", "/metrics", "localhost", NULL, AW_LISTEN_AUTH_OPEN,
         "a scraper"},
        {"127.0.0.1:1", "", "GET", "/", "LocalHost:8080", NULL, AW_LISTEN_AUTH_OPEN,
         "a tunnel's port"},
        {"127.0.0.1:1", "", "GET", "/", "[::1]:1", NULL, AW_LISTEN_AUTH_OPEN, "loopback by six"},
        {"[::1]:1", "", "GET", "/", "[::1]", NULL, AW_LISTEN_AUTH_OPEN, "no port is its default"},
        {"127.0.0.1:1", "", "GET", "/", "127.9.9.9", NULL, AW_LISTEN_AUTH_OPEN, "all of 127/8"},
        {"127.0.0.1:1", "", "GET", "/", NULL, NULL, AW_LISTEN_AUTH_NO_HOST,
         "HTTP/1.0, or a forger"},
        {"127.0.0.1:1", "", "GET", "/", "", NULL, AW_LISTEN_AUTH_NO_HOST, "an empty one"},
        {"127.0.0.1:1", "", "GET", "/", "evil.example", NULL, AW_LISTEN_AUTH_WRONG_HOST,
         "rebinding"},
        {"127.0.0.1:1", "", "GET", "/", "localhost.evil.example:1", NULL, AW_LISTEN_AUTH_WRONG_HOST,
         "a name that begins well"},
        {"127.0.0.1:1", "", "GET", "/", "127.0.0.1.evil.example", NULL, AW_LISTEN_AUTH_WRONG_HOST,
         "an address that goes on"},
        {"127.0.0.1:1", "", "GET", "/", "localhost:1@evil.example", NULL, AW_LISTEN_AUTH_WRONG_HOST,
         "user and password"},
        {"127.0.0.1:1", "", "GET", "/", "[::1", NULL, AW_LISTEN_AUTH_WRONG_HOST, "half"},
        {"127.0.0.1:1", "", "GET", "/", "10.0.0.7", NULL, AW_LISTEN_AUTH_WRONG_HOST,
         "another machine"},
        {"127.0.0.1:1", "", "POST", "/v1/orders", "localhost", NULL, AW_LISTEN_AUTH_READ_ONLY,
         "nobody may order"},
        {"127.0.0.1:1", "", "POST", "/v1/orders", "localhost", "Bearer ", AW_LISTEN_AUTH_READ_ONLY,
         "nor by an empty token"},
        {"127.0.0.1:1", "", "DELETE", "/", "localhost", NULL, AW_LISTEN_AUTH_READ_ONLY,
         "nor otherwise"},
        {"127.0.0.1:1", "", "get", "/", "localhost", NULL, AW_LISTEN_AUTH_READ_ONLY,
         "methods have a case"},
        {"127.0.0.1:1", TOKEN, "POST", "/v1/orders", "localhost", "Bearer " TOKEN,
         AW_LISTEN_AUTH_OPEN, "with the token"},
        {"127.0.0.1:1", TOKEN, "POST", "/v1/orders", "localhost", "bearer " TOKEN,
         AW_LISTEN_AUTH_OPEN, "schemes have no case"},
        {"127.0.0.1:1", TOKEN, "POST", "/v1/orders", "evil.example", "Bearer " TOKEN,
         AW_LISTEN_AUTH_WRONG_HOST, "the token does not excuse the host"},
        {"127.0.0.1:1", TOKEN, "POST", "/v1/orders", "localhost", NULL, AW_LISTEN_AUTH_NO_TOKEN,
         "none"},
        {"127.0.0.1:1", TOKEN, "POST", "/v1/orders", "localhost", "Bearer " TOKEN "x",
         AW_LISTEN_AUTH_NO_TOKEN, "one byte more"},
        {"127.0.0.1:1", TOKEN, "POST", "/v1/orders", "localhost", "Bearer 0123456789abcdef-righ",
         AW_LISTEN_AUTH_NO_TOKEN, "one byte less"},
        {"127.0.0.1:1", TOKEN, "POST", "/v1/orders", "localhost", "Basic " TOKEN,
         AW_LISTEN_AUTH_NO_TOKEN, "another scheme"},
        {"0.0.0.0:1", TOKEN, "GET", "/v1/status", "cluster.example", "Bearer " TOKEN,
         AW_LISTEN_AUTH_OPEN, "beyond loopback the token opens all"},
        {"0.0.0.0:1", TOKEN, "GET", "/v1/status?x", "cluster.example", NULL,
         AW_LISTEN_AUTH_NO_TOKEN, "and nothing else does"},
        {"0.0.0.0:1", TOKEN, "GET", "/metrics", "cluster.example", NULL, AW_LISTEN_AUTH_NO_TOKEN,
         "metrics tell of workloads too"},
        {"0.0.0.0:1", TOKEN, "GET", "/reports/x.html", "cluster.example", NULL,
         AW_LISTEN_AUTH_NO_TOKEN, "and so do reports"},
        {"0.0.0.0:1", TOKEN, "GET", "/healthz", "10.1.1.1:1", NULL, AW_LISTEN_AUTH_OPEN, "a probe"},
        {"0.0.0.0:1", TOKEN, "GET", "/main.js", "cluster.example", NULL, AW_LISTEN_AUTH_OPEN,
         "the page's files are no secret"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_listen_auth door = {0};
        snprintf(door.token, sizeof door.token, "%s", cases[i].token);
        assert_ok(aw_listen_auth_parse(&door, cases[i].listen, NULL));
        const struct aw_listen_auth_request request = {cases[i].method, cases[i].path,
                                                       cases[i].host, cases[i].authorization};
        const enum aw_listen_auth_verdict found = aw_listen_auth_judge(&door, &request);
        if (found != cases[i].verdict)
            fail_msg("%s: %d instead of %d", cases[i].why, (int)found, (int)cases[i].verdict);
    }
}

static void a_door_for_probes_answers_everybody_and_nothing_else(void **state)
{
    static const struct {
        const char *method, *path;
        bool open;
    } cases[] = {
        {"GET", "/healthz", true},    {"HEAD", "/readyz", true},
        {"POST", "/healthz", false},  {"GET", "/healthz/../v1", false},
        {"GET", "/v1/status", false}, {"GET", "/metrics", false},
        {"GET", "/", false},          {"POST", "/v1/orders", false},
    };
    struct aw_listen_auth door = {.probes = true};
    (void)state;
    assert_ok(aw_listen_auth_parse(&door, "0.0.0.0:9181", NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aw_listen_auth_request request = {
            .method = cases[i].method, .path = cases[i].path, .host = "10.1.2.3:9181"};
        assert_int_equal(aw_listen_auth_judge(&door, &request),
                         cases[i].open ? AW_LISTEN_AUTH_OPEN : AW_LISTEN_AUTH_NO_PROBE);
    }
}

AW_TEST_GROUP("listen-auth")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_numeric_and_loopback_is_known),
        cmocka_unit_test(each_request_gets_the_verdict_it_deserves),
        cmocka_unit_test(a_door_for_probes_answers_everybody_and_nothing_else),
    };
    return cmocka_run_group_tests_name("door", tests, NULL, NULL);
}
