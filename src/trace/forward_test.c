/* forward_test.c - messages to a receiver that is silent, long-winded, or busy for one of them. */
#include "trace/forward.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/testing.h"

#define LONG_ANSWER (200 << 10)

/* A connection for every request. By the first byte of its body: 'b' finds it busy for ever, 'l' is
 * answered at length, 's' not at all, the rest is taken. */
struct receiver {
    int listener;
    pthread_t thread;
    char url[64];
    uint32_t busy; /* read once it is stopped */
};

static void answer(struct receiver *receiver, int fd)
{
    char seen[8192], *body = NULL;
    char head[128];
    size_t len = 0, wanted = 0;
    ssize_t n = 1;
    while ((!body || len < (size_t)(body - seen) + wanted) &&
           (n = read(fd, seen + len, sizeof seen - 1 - len)) > 0) {
        len += (size_t)n;
        seen[len] = '\0';
        const char *length = strstr(seen, "Content-Length: ");
        wanted = length ? strtoul(length + 16, NULL, 10) : 0;
        if ((body = strstr(seen, "\r\n\r\n")))
            body += 4;
    }
    if (!body || n <= 0)
        return;
    while (*body == 's' && n > 0)
        n = read(fd, seen, 1); /* until the client is gone */
    receiver->busy += *body == 'b';
    const bool at_length = *body == 'l';
    snprintf(head, sizeof head, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
             *body == 'b' ? "503 Busy" : "200 OK", at_length ? LONG_ANSWER : 0);
    n = send(fd, head, strlen(head), MSG_NOSIGNAL);
    for (int sent = 0; at_length && n > 0 && sent < LONG_ANSWER; sent += (int)n)
        n = send(fd, seen, 1, MSG_NOSIGNAL);
}

static void *serve(void *ctx)
{
    struct receiver *receiver = ctx;
    for (int fd; (fd = accept(receiver->listener, NULL, NULL)) >= 0;) {
        answer(receiver, fd);
        close(fd);
    }
    return NULL;
}

static struct aw_forward *start(struct receiver *receiver)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct aw_forward_config config = {.url = receiver->url, .again_us = 1000};
    struct aw_forward *forward = NULL;
    *receiver = (struct receiver){.listener = socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(bind(receiver->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(receiver->listener, 8), 0);
    assert_int_equal(getsockname(receiver->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(receiver->url, sizeof receiver->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&receiver->thread, NULL, serve, receiver), 0);
    assert_ok(aw_forward_new(&forward, &config, NULL));
    return forward;
}

static void stop(struct receiver *receiver)
{
    shutdown(receiver->listener, SHUT_RDWR);
    pthread_join(receiver->thread, NULL);
    close(receiver->listener);
}

/* Waits until `*count` of `counts` is `wanted`, for up to 30 s. */
static void wait_for(struct aw_forward *forward, struct aw_forward_counts *counts,
                     const uint64_t *count, uint64_t wanted)
{
    const int64_t until = aw_clock_monotonic_us(NULL) + 30000000;
    for (aw_forward_counts(forward, counts);
         *count < wanted && aw_clock_monotonic_us(NULL) < until;) {
        usleep(2000);
        aw_forward_counts(forward, counts);
    }
    assert_int_equal(*count, wanted);
}

static void one_that_never_arrives_holds_up_no_other(void **state)
{
    struct receiver receiver;
    struct aw_forward_counts counts;
    struct aw_forward *forward = start(&receiver);
    (void)state;
    aw_forward_put(forward, "b", 1, AW_SPANS_OTLP);
    for (uint32_t i = 1; i <= 1000 && (aw_forward_counts(forward, &counts), !counts.dropped); i++) {
        aw_forward_put(forward, "x", 1, AW_SPANS_OTLP);
        wait_for(forward, &counts, &counts.sent, i);
    }
    assert_int_equal(counts.dropped, 1);
    assert_true(counts.sent >= AW_FORWARD_TRIES - 1);
    assert_int_equal(counts.waiting, 0);
    aw_forward_free(forward);
    stop(&receiver);
    assert_true(receiver.busy >= AW_FORWARD_TRIES);
}

static void a_long_answer_is_an_answer(void **state)
{
    struct receiver receiver;
    struct aw_forward_counts counts;
    struct aw_forward *forward = start(&receiver);
    (void)state;
    aw_forward_put(forward, "l", 1, AW_SPANS_OTLP);
    wait_for(forward, &counts, &counts.sent, 1);
    assert_int_equal(counts.tried_again, 0);
    aw_forward_free(forward);
    stop(&receiver);
}

static void the_end_waits_for_no_try_under_way(void **state)
{
    struct receiver receiver;
    struct aw_forward_counts counts;
    struct aw_forward *forward = start(&receiver);
    (void)state;
    aw_forward_put(forward, "s", 1, AW_SPANS_OTLP);
    usleep(200000); /* it is under way, and has 5 s */
    const int64_t begin = aw_clock_monotonic_us(NULL);
    aw_forward_end(forward, &counts);
    assert_true(aw_clock_monotonic_us(NULL) - begin < 4000000);
    assert_int_equal(counts.dropped, 1);
    aw_forward_free(forward);
    stop(&receiver);
}

AW_TEST_GROUP("trace-forward")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_never_arrives_holds_up_no_other),
        cmocka_unit_test(a_long_answer_is_an_answer),
        cmocka_unit_test(the_end_waits_for_no_try_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
