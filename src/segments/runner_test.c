/* runner_test.c - descriptions that come true: CPU time, waiting, files, memory. */
#include "segments/runner.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/testing.h"

#define MEASURE_US 10000

static struct aw_segment kind_named(const char *name)
{
    for (uint32_t i = 0; i < AW_SEGMENT_BUILTIN_COUNT; i++) {
        if (!strcmp(aw_segment_builtin()[i].name, name))
            return aw_segment_builtin()[i];
    }
    struct aw_segment segment = {.io_ms = 5, .parallelism = 1};
    snprintf(segment.name, sizeof segment.name, "%s", name);
    return segment;
}

static struct aw_runner_config config_of(const struct aw_segment *segment)
{
    struct aw_runner_config config = {.app = {.name = "test", .segment_count = 1},
                                      .payload = 1,
                                      .work_scale = 1,
                                      .worker_count = 2,
                                      .temp_dir = "/tmp",
                                      .seed = 1};
    config.app.segment[0] = *segment;
    return config;
}

static struct aw_runner *runner_of(const struct aw_runner_config *config)
{
    struct aw_runner *runner = NULL;
    struct aw_diag diag = {0};
    if (aw_runner_new(config, NULL, &runner, &diag) || aw_runner_measure(runner, MEASURE_US, &diag))
        fail_msg("%s", diag.text);
    return runner;
}

static bool needs_objects(const char *kind)
{
    return !strncmp(kind, "object_", 7);
}

static void every_built_in_kind_can_run_and_has_its_place_in_the_table(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < AW_SEGMENT_BUILTIN_COUNT; i++) {
        assert_string_equal(aw_runner_kind_name(i), aw_segment_builtin()[i].name);
        assert_int_equal(aw_runner_kind(aw_segment_builtin()[i].name), i);
    }
    assert_string_equal(aw_runner_kind_name(AW_RUNNER_KINDS - 1), "sleep");
    assert_null(aw_runner_kind_name(AW_RUNNER_KINDS));
    assert_int_equal(aw_runner_kind("gzi"), -1);
}

/* CPU time as the thread clocks count it: waiting for a processor that others use is not in it.
 * What others take from caches and from a shared core is; so the least of some requests is
 * compared, as it was when a piece was measured. */
static double least_cpu_us(struct aw_runner *runner, uint32_t requests)
{
    double least_us = INFINITY;
    for (uint32_t i = 0; i < requests; i++) {
        struct aw_run run;
        assert_ok(aw_runner_run(runner, i % 2, 1, &run, NULL));
        assert_true(run.pieces[0] > 0);
        least_us = fmin(least_us, run.cpu_us[0]);
    }
    return least_us;
}

static void each_kind_spends_the_cpu_time_that_is_described(void **state)
{
    (void)state;
    for (uint32_t k = 0; aw_runner_kind_name(k); k++) {
        const char *name = aw_runner_kind_name(k);
        if (needs_objects(name))
            continue; /* with an object server: see the tests of the service */
        struct aw_segment segment = kind_named(name);
        segment.cpu_ms = 6;
        segment.cpu_cv = 0;
        segment.io_ms = 0;
        const struct aw_runner_config config = config_of(&segment);
        struct aw_runner *runner = runner_of(&config);
        const struct aw_runner_cost *cost = aw_runner_costs(runner);
        /* a piece is real work, and fine enough: that of a fast processor is a third of a
         * microsecond, and a sanitizer may make it twenty times dearer */
        if (!(cost->piece_us > 0.05) || !(cost->piece_us < 20000))
            fail_msg("%s: a piece of %g us", name, cost->piece_us);
        if (cost->piece_us > 600 || cost->fixed_us > 2000) { /* one that made it so */
            aw_runner_free(runner);
            continue;
        }
        const double least_us = least_cpu_us(runner, 12);
        if (fabs(log2(least_us / 6000)) > 1)
            fail_msg("%s: %g us for 6000", name, least_us);
        aw_runner_free(runner);
    }
}

static void costs_rule_how_many_pieces_a_request_takes(void **state)
{
    (void)state;
    struct aw_segment segment = kind_named("float_ops");
    segment.cpu_ms = 1;
    segment.cpu_cv = 0;
    struct aw_runner_config config = config_of(&segment);
    config.work_scale = 0.5;
    struct aw_runner *runner = NULL;
    assert_ok(aw_runner_new(&config, NULL, &runner, NULL));
    /* (0.5 * 1000 - 100) / 40 = 10 pieces; a payload of 4 makes it (2000 - 100) / 40 */
    const struct aw_runner_cost cost = {.piece_us = 40, .fixed_us = 100};
    aw_runner_costs_set(runner, &cost);
    struct aw_run run;
    assert_ok(aw_runner_run(runner, 0, 1, &run, NULL));
    assert_int_equal(run.pieces[0], 10);
    assert_ok(aw_runner_run(runner, 0, 4, &run, NULL));
    assert_in_range(run.pieces[0], 47, 48);
    /* halves are made up over requests */
    const struct aw_runner_cost coarse = {.piece_us = 1000, .fixed_us = 0};
    aw_runner_costs_set(runner, &coarse);
    uint64_t pieces = 0;
    for (uint32_t i = 0; i < 400; i++) {
        assert_ok(aw_runner_run(runner, 0, 1, &run, NULL));
        pieces += run.pieces[0];
    }
    assert_in_range(pieces, 150, 250);
    /* a request that costs less than nothing takes no piece */
    const struct aw_runner_cost dear = {.piece_us = 1, .fixed_us = 1e6};
    aw_runner_costs_set(runner, &dear);
    assert_ok(aw_runner_run(runner, 0, 1, &run, NULL));
    assert_int_equal(run.pieces[0], 0);
    aw_runner_free(runner);
}

static void waits_are_as_described_or_as_short_as_the_machine_can(void **state)
{
    (void)state;
    struct aw_segment segment = kind_named("sleep");
    segment.io_ms = 30;
    struct aw_runner_config config = config_of(&segment);
    struct aw_runner *runner = runner_of(&config);
    struct aw_run run;
    assert_ok(aw_runner_run(runner, 0, 1, &run, NULL));
    assert_true(run.wait_us[0] >= 30000);
    aw_runner_free(runner);
    segment.io_ms = 5000;
    config = config_of(&segment);
    config.waits = AW_RUNNER_WAITS_REAL;
    runner = runner_of(&config);
    assert_ok(aw_runner_run(runner, 0, 1, &run, NULL));
    assert_true(run.wait_us[0] < 2000000);
    aw_runner_free(runner);
}

static uint32_t entries(const char *path)
{
    uint32_t count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

static void files_are_really_read_and_written_and_have_no_name(void **state)
{
    (void)state;
    char dir[] = "/tmp/aware-runner-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct aw_runner_config config = config_of(&aw_segment_builtin()[0]);
    config.temp_dir = dir;
    config.app.segment_count = 2;
    config.app.segment[0] = kind_named("file_read");
    config.app.segment[1] = kind_named("file_write");
    config.waits = AW_RUNNER_WAITS_REAL;
    struct aw_runner *runner = runner_of(&config);
    struct aw_run run;
    assert_int_equal(entries(dir), 0);
    assert_ok(aw_runner_run(runner, 1, 1, &run, NULL));
    assert_int_equal(run.read_bytes, 256 * 1024);
    assert_int_equal(run.write_bytes, 256 * 1024);
    assert_ok(aw_runner_run(runner, 1, 2, &run, NULL)); /* bytes grow with the payload */
    assert_int_equal(run.read_bytes, 512 * 1024);
    aw_runner_free(runner);
    assert_int_equal(entries(dir), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void what_cannot_run_is_refused_by_name(void **state)
{
    (void)state;
    struct aw_runner *runner = NULL;
    struct aw_diag diag = {0};
    struct aw_segment segment = kind_named("quantum_leap");
    struct aw_runner_config config = config_of(&segment);
    assert_int_equal(aw_runner_new(&config, NULL, &runner, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "quantum_leap"));
    segment = kind_named("object_read");
    config = config_of(&segment);
    assert_true(aw_runner_needs_objects(&config.app));
    assert_int_equal(aw_runner_new(&config, NULL, &runner, &diag), AW_ERR_CONFIG);
    config.object_server = "127.0.0.1:1";
    assert_int_equal(aw_runner_new(&config, NULL, &runner, &diag), AW_ERR_UNAVAILABLE);
    config.object_server = "nowhere";
    assert_int_equal(aw_runner_new(&config, NULL, &runner, &diag), AW_ERR_USAGE);
    segment = kind_named("file_read");
    config = config_of(&segment);
    assert_false(aw_runner_needs_objects(&config.app));
    config.temp_dir = "/nonexistent/nowhere";
    assert_int_equal(aw_runner_new(&config, NULL, &runner, &diag), AW_ERR_IO);
    assert_string_equal(diag.file, "/nonexistent/nowhere");
    assert_null(runner);
}

static double resident_mib(void)
{
    char line[128];
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    (void)fclose(file);
    const double pages = (double)strtoull(strchr(line, ' '), NULL, 10);
    return pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

struct held {
    struct aw_runner *runner;
    enum aw_err err;
};

static void *hold(void *arg)
{
    struct held *held = arg;
    struct aw_run run;
    held->err = aw_runner_run(held->runner, 0, 1, &run, NULL);
    return NULL;
}

static void a_request_holds_its_memory_as_long_as_it_is_in_flight(void **state)
{
    (void)state;
    struct aw_segment segment = kind_named("sleep");
    segment.io_ms = 1000;
    segment.memory_flight_mib = 64;
    const struct aw_runner_config config = config_of(&segment);
    const struct aw_runner_cost cost = {.piece_us = 1}; /* measuring would hold memory, too */
    struct held held = {0};
    pthread_t thread;
    assert_ok(aw_runner_new(&config, NULL, &held.runner, NULL));
    aw_runner_costs_set(held.runner, &cost);
    const double before = resident_mib();
    assert_int_equal(pthread_create(&thread, NULL, hold, &held), 0);
    double highest = 0;
    for (uint32_t i = 0; i < 5000 && highest < before + 60; i++) {
        highest = fmax(highest, resident_mib());
        assert_ok(aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + 2000));
    }
    (void)pthread_join(thread, NULL);
    assert_ok(held.err);
    assert_true(highest >= before + 60);
    assert_true(resident_mib() >= before + 60); /* kept for the next request */
    assert_ok(
        aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + AW_RUNNER_MEMORY_KEPT_US + 50000));
    aw_runner_trim(held.runner);
    assert_true(resident_mib() < before + 32); /* which did not come */
    aw_runner_free(held.runner);
}

static void a_request_that_can_use_several_cores_costs_what_it_costs(void **state)
{
    (void)state;
    struct aw_segment segment = kind_named("matrix_multiply");
    segment.cpu_ms = 12;
    segment.cpu_cv = 0;
    segment.parallelism = 4;
    const struct aw_runner_config config = config_of(&segment);
    struct aw_runner *runner = runner_of(&config);
    const double least_us = least_cpu_us(runner, 10);
    if (aw_runner_costs(runner)->piece_us < 600)
        assert_true(fabs(log2(least_us / 12000)) < 1); /* all of its threads together */
    aw_runner_free(runner);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct aw_runner_config config = config_of(&aw_segment_builtin()[0]);
    static const char *const first[] = {"matrix_multiply", "ml_inference", "image_resize",
                                        "json_to_yaml",    "gzip",         "gunzip"};
    static const char *const second[] = {"web_serving", "table_scan", "file_read",
                                         "file_write",  "sleep",      "float_ops"};
    const char *const *const lists[] = {first, second};
    for (uint32_t list = 0; list < 2; list++) {
        config.app.segment_count = 6;
        for (uint32_t i = 0; i < 6; i++)
            config.app.segment[i] = kind_named(lists[list][i]);
        enum aw_err err = AW_ERR_NOMEM;
        for (uint64_t budget = 0; err; budget++) {
            struct aw_alloc_counting counting;
            struct aw_runner *runner = NULL;
            struct aw_diag diag = {0};
            aw_alloc_counting_init(&counting);
            counting.fail_after = budget;
            err = aw_runner_new(&config, &counting.alloc, &runner, &diag);
            assert_true(err == AW_OK || (err == AW_ERR_NOMEM && *diag.text && !runner));
            assert_true(budget < 32);
            aw_runner_free(runner);
            assert_int_equal(counting.alloc_count, counting.free_count);
        }
    }
}

static void the_same_seed_draws_the_same_requests(void **state)
{
    (void)state;
    struct aw_segment segment = kind_named("float_ops");
    struct aw_runner_config config = config_of(&segment);
    const struct aw_runner_cost cost = {.piece_us = 500, .fixed_us = 0};
    uint64_t pieces[2][20];
    for (uint32_t r = 0; r < 2; r++) {
        struct aw_runner *runner = NULL;
        assert_ok(aw_runner_new(&config, NULL, &runner, NULL));
        aw_runner_costs_set(runner, &cost);
        for (uint32_t i = 0; i < 20; i++) {
            struct aw_run run;
            assert_ok(aw_runner_run(runner, 0, 1, &run, NULL));
            pieces[r][i] = run.pieces[0];
        }
        aw_runner_free(runner);
    }
    assert_memory_equal(pieces[0], pieces[1], sizeof pieces[0]);
    assert_int_not_equal(pieces[0][0] + pieces[0][1], 2 * pieces[0][2]); /* they do differ */
}

AW_TEST_GROUP("segments-runner")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_built_in_kind_can_run_and_has_its_place_in_the_table),
        cmocka_unit_test(each_kind_spends_the_cpu_time_that_is_described),
        cmocka_unit_test(costs_rule_how_many_pieces_a_request_takes),
        cmocka_unit_test(waits_are_as_described_or_as_short_as_the_machine_can),
        cmocka_unit_test(files_are_really_read_and_written_and_have_no_name),
        cmocka_unit_test(what_cannot_run_is_refused_by_name),
        cmocka_unit_test(a_request_holds_its_memory_as_long_as_it_is_in_flight),
        cmocka_unit_test(a_request_that_can_use_several_cores_costs_what_it_costs),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_same_seed_draws_the_same_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
