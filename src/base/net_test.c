/* net_test.c - addresses and listening sockets. */
#include "base/net.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/testing.h"

static void addresses_are_read_and_printed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
        bool loopback;
    } good[] = {
        {"127.0.0.1:8080", "127.0.0.1:8080", true}, {":80", "127.0.0.1:80", true},
        {"localhost:1", "127.0.0.1:1", true},       {"0.0.0.0:65535", "0.0.0.0:65535", false},
        {"127.255.0.9:0", "127.255.0.9:0", true},   {"10.1.2.3:7", "10.1.2.3:7", false},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct sockaddr_in address;
        char text[AW_NET_TEXT_MAX];
        assert_ok(aw_net_parse(good[i].text, &address, NULL));
        assert_string_equal(aw_net_print(&address, text, sizeof text), good[i].printed);
        assert_int_equal(aw_net_is_loopback(&address), good[i].loopback);
    }
    static const char *const bad[] = {"",
                                      "8080",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:-1",
                                      "127.1:80",
                                      "example.com:80",
                                      "[::1]:80",
                                      "1111111111111111111111111111111111111111:80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sockaddr_in address = {.sin_port = 4711};
        struct aw_diag diag = {0};
        assert_int_equal(aw_net_parse(bad[i], &address, &diag), AW_ERR_USAGE);
        assert_int_equal(address.sin_port, 4711);
        assert_true(*diag.text);
    }
}

static void port_0_is_a_free_one_and_a_taken_one_is_a_conflict(void **state)
{
    (void)state;
    struct sockaddr_in any, bound = {0}, again;
    struct aw_diag diag = {0};
    int fd = -1, second = -1;
    assert_ok(aw_net_parse("127.0.0.1:0", &any, NULL));
    assert_ok(aw_net_listen(&any, 4, &fd, &bound, NULL));
    assert_int_not_equal(ntohs(bound.sin_port), 0);
    assert_int_equal(aw_net_listen(&bound, 4, &second, &again, &diag), AW_ERR_CONFLICT);
    assert_int_equal(second, -1);
    assert_true(*diag.text);
    assert_int_equal(accept4(fd, NULL, NULL, 0), -1); /* and does not block */
    (void)close(fd);
    assert_ok(aw_net_listen(&bound, 4, &second, &again, NULL));
    (void)close(second);
}

static void a_unix_socket_is_its_owners_and_a_file_in_the_way_is_a_conflict(void **state)
{
    (void)state;
    char dir[] = "/tmp/aware-net-XXXXXX", path[64], text[AW_NET_UNIX_PATH_MAX + 1];
    struct sockaddr_un address;
    struct aw_diag diag = {0};
    struct stat st;
    int fd = -1, second = -1;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    assert_ok(aw_net_listen_unix(path, 4, &fd, NULL));
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(accept4(fd, NULL, NULL, 0), -1); /* and does not block */
    assert_int_equal(aw_net_listen_unix(path, 4, &second, &diag), AW_ERR_CONFLICT);
    (void)close(fd);
    assert_int_equal(aw_net_listen_unix(path, 4, &second, &diag), AW_ERR_CONFLICT);
    assert_int_equal(second, -1);
    assert_non_null(strstr(diag.text, path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(aw_net_listen_unix("/nowhere/at/all", 4, &second, NULL), AW_ERR_UNAVAILABLE);
    assert_int_equal(rmdir(dir), 0);

    memset(text, 'x', sizeof text);
    text[AW_NET_UNIX_PATH_MAX] = '\0';
    assert_int_equal(aw_net_unix(text, &address, &diag), AW_ERR_LIMIT);
    assert_non_null(strstr(diag.text, "1 to 107 bytes, found 108"));
    text[AW_NET_UNIX_PATH_MAX - 1] = '\0';
    assert_ok(aw_net_unix(text, &address, NULL));
    assert_string_equal(address.sun_path, text);
    assert_int_equal(aw_net_unix("", &address, NULL), AW_ERR_LIMIT);
}

AW_TEST_GROUP("net")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_and_printed),
        cmocka_unit_test(port_0_is_a_free_one_and_a_taken_one_is_a_conflict),
        cmocka_unit_test(a_unix_socket_is_its_owners_and_a_file_in_the_way_is_a_conflict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
