/* costs_test.c - measured costs survive a file, and only for the application they belong to. */
#include "service/costs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"

static char path[64];

static struct aw_runner_config config(void)
{
    struct aw_runner_config config = {.app = {.name = "shop", .segment_count = 2}, .payload = 1};
    config.app.segment[0] = aw_segment_builtin()[0];
    config.app.segment[1] = aw_segment_builtin()[6];
    return config;
}

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/aware-costs-%d.json", (int)getpid());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    return 0;
}

static const struct aw_runner_cost cost[2] = {{.piece_us = 0.1, .fixed_us = 0},
                                              {.piece_us = 1.0 / 3, .fixed_us = 123456.789}};

static void costs_are_read_back_to_the_same_bits(void **state)
{
    (void)state;
    const struct aw_runner_config shop = config();
    struct aw_runner_cost back[AW_APP_SEGMENTS_MAX];
    assert_int_equal(aw__costs_read(path, &shop, back, NULL), AW_ERR_NOTFOUND);
    assert_ok(aw__costs_write(path, &shop, cost, NULL));
    assert_ok(aw__costs_read(path, &shop, back, NULL));
    assert_memory_equal(back, cost, sizeof cost);
}

static void costs_of_something_else_count_as_none(void **state)
{
    (void)state;
    struct aw_runner_config shop = config();
    struct aw_runner_cost back[AW_APP_SEGMENTS_MAX] = {{.piece_us = 7}};
    assert_ok(aw__costs_write(path, &shop, cost, NULL));
    shop.payload = 2;
    assert_int_equal(aw__costs_read(path, &shop, back, NULL), AW_ERR_NOTFOUND);
    shop = config();
    shop.families = 1u << AW_PAYLOAD_FILE;
    assert_int_equal(aw__costs_read(path, &shop, back, NULL), AW_ERR_NOTFOUND);
    shop = config();
    shop.app.segment_count = 1;
    assert_int_equal(aw__costs_read(path, &shop, back, NULL), AW_ERR_NOTFOUND);
    shop = config();
    shop.app.segment[1] = aw_segment_builtin()[7];
    assert_int_equal(aw__costs_read(path, &shop, back, NULL), AW_ERR_NOTFOUND);
    shop = config();
    shop.app.name[0] = 'c';
    assert_int_equal(aw__costs_read(path, &shop, back, NULL), AW_ERR_NOTFOUND);
    assert_true(back[0].piece_us == 7);
}

static void a_file_that_is_none_is_an_error_with_its_place(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{",
        "[]",
        "{\"app\": 1, \"payload\": 1, \"families\": 0, \"segments\": []}",
        "{\"app\": \"shop\", \"payload\": 1, \"families\": 0, \"segments\": [{\"kind\": "
        "\"float_ops\"}, {}]}",
        "{\"app\": \"shop\", \"payload\": 1, \"families\": 0, \"segments\": [{\"kind\": "
        "\"float_ops\", "
        "\"piece_us\": 0, \"fixed_us\": 0}, {}]}",
        "{\"app\": \"shop\", \"payload\": 1, \"families\": 0, \"segments\": [{\"kind\": "
        "\"float_ops\", "
        "\"piece_us\": 1, \"fixed_us\": -1}, {}]}"};
    const struct aw_runner_config shop = config();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct aw_runner_cost back[AW_APP_SEGMENTS_MAX];
        struct aw_diag diag = {0};
        assert_ok(aw_file_replace(path, texts[i], strlen(texts[i]), NULL, NULL));
        const enum aw_err err = aw__costs_read(path, &shop, back, &diag);
        assert_true(err == AW_ERR_FORMAT || err == AW_ERR_CONFIG);
        assert_string_equal(diag.file, path);
    }
}

static void an_empty_file_counts_as_none(void **state)
{
    (void)state;
    const struct aw_runner_config shop = config();
    struct aw_runner_cost back[AW_APP_SEGMENTS_MAX];
    const int turn = aw__costs_turn(path);
    assert_true(turn >= 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(aw__costs_read(path, &shop, back, NULL), AW_ERR_NOTFOUND);
    close(turn);
}

/* As replicas do: the first one measures, and is slow at it. */
static int start_of_one(uint32_t index, int told)
{
    const struct aw_runner_config shop = config();
    struct aw_runner_cost found[AW_APP_SEGMENTS_MAX] = {{.piece_us = 1 + index, .fixed_us = 1},
                                                        {.piece_us = 1 + index, .fixed_us = 1}};
    int turn;
    while ((turn = aw__costs_turn(path)) < 0 && errno == EWOULDBLOCK)
        usleep(1000);
    enum aw_err err = aw__costs_read(path, &shop, found, NULL);
    if (err == AW_ERR_NOTFOUND) {
        usleep(50000);
        err = aw__costs_write(path, &shop, found, NULL);
    }
    close(turn);
    return turn >= 0 && !err &&
                   write(told, &found[0].piece_us, sizeof(double)) == (ssize_t)sizeof(double)
               ? 0
               : 1;
}

#define TOGETHER 8u

static void who_starts_together_has_the_costs_of_one(void **state)
{
    (void)state;
    int ends[2], status;
    double first = 0, other;
    assert_int_equal(pipe(ends), 0);
    /* one that is killed in its turn holds up nobody */
    const pid_t killed = fork();
    if (killed == 0) {
        const int turn = aw__costs_turn(path);
        (void)!write(ends[1], &first, sizeof first);
        for (;;)
            (void)turn, pause();
    }
    assert_int_equal(read(ends[0], &other, sizeof other), (ssize_t)sizeof other);
    assert_int_equal(aw__costs_turn(path), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    for (uint32_t i = 0; i < TOGETHER; i++) {
        const pid_t pid = fork();
        if (pid == 0)
            _exit(start_of_one(i, ends[1]));
    }
    usleep(20000);
    kill(killed, SIGKILL);
    for (uint32_t i = 0; i < TOGETHER + 1; i++) {
        const pid_t pid = wait(&status);
        assert_true(pid == killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
    assert_int_equal(read(ends[0], &first, sizeof first), (ssize_t)sizeof first);
    for (uint32_t i = 1; i < TOGETHER; i++) {
        assert_int_equal(read(ends[0], &other, sizeof other), (ssize_t)sizeof other);
        assert_true(other == first);
    }
    close(ends[0]);
    close(ends[1]);
}

AW_TEST_GROUP("service-costs")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(costs_are_read_back_to_the_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(costs_of_something_else_count_as_none, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_file_counts_as_none, setup, teardown),
        cmocka_unit_test_setup_teardown(who_starts_together_has_the_costs_of_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_none_is_an_error_with_its_place, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
