/*
 * calibrate_testbed_test.c - real processes under real limits, measured for a few seconds.
 *
 * Others may use the machine while this runs, so nothing here is about how fast anything is: only
 * about what must hold whoever else runs. Where control groups cannot be written, or the program
 * that replicas run has not been built, the test says so and is skipped.
 */
#include "lab/calibrate_testbed.h"

#include "base/testing.h"
#include "cluster/local.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define APP       "kind:float_ops"
#define TRIES_MAX 5u

static bool goes_on(void *ctx, double share)
{
    uint32_t *left = ctx;
    assert_true(share >= 0 && share <= 1);
    return !left || (*left > 0 && --*left > 0);
}

/* Beside the test, where the build puts both. */
static bool program_is_there(void)
{
    char path[4096];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof path - 32);
    assert_true(len > 0);
    path[len] = '\0';
    snprintf(strrchr(path, '/') + 1, 32, "aware-workload");
    return access(path, X_OK) == 0;
}

static struct aw__testbed *bed_open(void *ctx)
{
    const struct aw__testbed_config config = {.app = APP,
                                              .replicas_max = 2,
                                              .cpu_millicores = 500,
                                              .memory_bytes = (int64_t)256 << 20,
                                              .seed = 1,
                                              .goes_on = goes_on,
                                              .ctx = ctx};
    struct aw__testbed *bed = NULL;
    struct aw_diag diag = {0};
    if (!program_is_there()) {
        print_message("skipped: aware-workload has not been built\n");
        return NULL;
    }
    const enum aw_err err = aw__testbed_open(&config, &bed, &diag);
    if (err == AW_ERR_UNSUPPORTED) {
        print_message("skipped: %s\n", diag.text);
        return NULL;
    }
    if (err)
        fail_msg("%s", diag.text);
    return bed;
}

/* Nothing that a dead run left: what was measured cleans up by itself. */
static void nothing_is_left(void)
{
    char dir[512];
    struct aw_local_cleaned cleaned = {0};
    struct aw_diag diag = {0};
    assert_ok(aw_local_clean(aw_local_run_dir(dir, sizeof dir), &cleaned, &diag));
}

/* Where others have the whole machine for a while, a span may end without an answer: once more. */
static void measure(struct aw__testbed *bed, const struct aw_calibrate_setting *setting,
                    struct aw_calibrate_figures *ret_figures)
{
    struct aw_diag diag = {0};
    enum aw_err err = AW_ERR_NODATA;
    for (uint32_t tries = 0; err == AW_ERR_NODATA && tries < TRIES_MAX; tries++)
        err = aw__testbed_measure(bed, setting, ret_figures, &diag);
    if (err)
        fail_msg("%s", diag.text);
}

static void more_load_uses_more_of_the_limit_and_never_more_than_it(void **state)
{
    (void)state;
    struct aw__testbed *bed = bed_open(NULL);
    if (!bed)
        skip();
    /* a request takes about 24 ms of CPU: 0.4 of one replica's limit, and 0.8 of two */
    static const double rates[] = {4, 16};
    struct aw_calibrate_figures seen[2];
    for (uint32_t i = 0; i < 2; i++) {
        const struct aw_calibrate_setting setting = {
            .size = {1 + i, 250, false}, .rate_per_s = rates[i], .load = 0.4 + i, .span_s = 3};
        measure(bed, &setting, &seen[i]);
        assert_true(seen[i].requests > 0 && seen[i].throughput_per_s >= 0);
        assert_true(seen[i].p50_ms > 0 && seen[i].p50_ms <= seen[i].p99_ms);
        assert_true(seen[i].mean_ms > 0);
        assert_true(seen[i].utilisation >= 0 && seen[i].utilisation < 1.2);
        assert_true(seen[i].memory_mib > 1 && seen[i].memory_mib < 256);
        assert_true(!(seen[i].others_cores < 0));
    }
    assert_true(seen[1].requests > seen[0].requests);
    assert_true(seen[1].utilisation * 2 > seen[0].utilisation);
    aw__testbed_close(bed);
    nothing_is_left();
}

static void what_is_interrupted_ends_and_says_so(void **state)
{
    (void)state;
    uint32_t looks = 100000;
    struct aw__testbed *bed = bed_open(&looks);
    struct aw_diag diag = {0};
    if (!bed)
        skip();
    const struct aw_calibrate_setting setting = {
        .size = {1, 250, false}, .rate_per_s = 2, .load = 0.2, .span_s = 600};
    struct aw_calibrate_figures seen = {.requests = 42};
    looks = 5;
    assert_int_equal(aw__testbed_measure(bed, &setting, &seen, &diag), AW_ERR_INTERRUPTED);
    assert_close(seen.requests, 42, 0);
    aw__testbed_close(bed);
    nothing_is_left();
}

AW_TEST_GROUP("cli-calibrate-testbed")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_load_uses_more_of_the_limit_and_never_more_than_it),
        cmocka_unit_test(what_is_interrupted_ends_and_says_so),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
