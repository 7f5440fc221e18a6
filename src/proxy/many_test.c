/* many_test.c - ten thousand connections at once, each of which gets its answer. */
#include "proxy/proxy_testing.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define CONNECTIONS 10000
#define SPARE       500 /* descriptors beside the connections */

/* In a process of its own, which has descriptors of its own: connects all, then asks on each, and
 * reads every answer while all stay open. 0: all were right. */
static int clients_run(int from)
{
    static int fd[CONNECTIONS];
    uint16_t port;
    if (read(from, &port, sizeof port) != sizeof port)
        return 1;
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < CONNECTIONS; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd[i] < 0 || connect(fd[i], (const struct sockaddr *)&address, sizeof address))
            return 2;
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        char request[256];
        const char *body = "{\"stream\":true,\"prompt\":\"a\"}";
        const int len =
            snprintf(request, sizeof request,
                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Seed: %d\r\n"
                     "X-Tokens: 2\r\nContent-Length: %zu\r\n\r\n%s",
                     i, strlen(body), body);
        if (send(fd[i], request, (size_t)len, MSG_NOSIGNAL) != len)
            return 3;
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        char answer[2048], event[256];
        size_t have = 0;
        while (!have || !memmem(answer, have, "\r\n0\r\n\r\n", 7)) {
            const ssize_t got = recv(fd[i], answer + have, sizeof answer - have, 0);
            if (got <= 0)
                return 4;
            have += (size_t)got;
        }
        const size_t len = aw_standin_event((uint32_t)i, 1, 2, event, sizeof event);
        if (memcmp(answer, "HTTP/1.1 200", 12) != 0 || !memmem(answer, have, event, len))
            return 5;
    }
    return 0;
}

static void ten_thousand_connections_are_all_answered(void **state)
{
    struct rlimit limit;
    int ends[2], status = 0;
    struct scene s;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < CONNECTIONS + SPARE) {
        print_message("skipped: %llu descriptors are allowed, %d are needed\n",
                      (unsigned long long)limit.rlim_max, CONNECTIONS + SPARE);
        skip();
    }
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork(); /* before there are threads */
    if (!pid) {
        close(ends[1]);
        _exit(clients_run(ends[0]));
    }
    close(ends[0]);
    const struct aw_standin_config model = {0};
    scene_make(&s,
               &(struct aw_proxy_config){.connections_max = CONNECTIONS + SPARE / 5,
                                         .slots = 64,
                                         .idle_us = 300000000,
                                         .arrive_us = 300000000},
               &model, 1);
    const uint16_t port = aw_proxy_port(s.proxy);
    assert_int_equal(write(ends[1], &port, sizeof port), sizeof port);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(page_figure(port, "aware_proxy_answered_total") == CONNECTIONS);
    close(ends[1]);
    scene_end(&s);
}

AW_TEST_GROUP("proxy-many")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_connections_are_all_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
