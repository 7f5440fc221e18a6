/* history_test.c - a run that goes on without its history, or with one that cannot be. */
#include "daemon/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"

#define STEPS_LONG 100000u /* far beyond what a page has points for */

static void prepare(struct aw_history *history, struct aw_daemon_config *config)
{
    static struct aw_job_workload workload;
    memset(config, 0, sizeof *config);
    config->workload = &workload;
    config->count = 1;
    config->step_s = 15;
    snprintf(config->state, sizeof config->state, "kept");
    assert_ok(aw_history_init(history, config, NULL));
}

static void live(struct aw_history *history, const struct aw_daemon_config *config, uint32_t steps)
{
    const struct aw_decision decision = {0};
    const struct aw_job_view view = {0};
    for (uint32_t i = 0; i < steps; i++) {
        const struct aw_job_step step = {.decision = &decision};
        aw_history_step(history, config, &step, &view);
    }
}

static void a_long_run_that_lost_its_history_goes_on(void **state)
{
    struct aw_history history;
    struct aw_daemon_config config;
    (void)state;
    prepare(&history, &config);
    history.steps = STEPS_LONG; /* as a session does that could not load it */
    live(&history, &config, 10);
    assert_true(history.steps / history.stride <= AW_HISTORY_POINTS_MAX);
    assert_true(history.points <= AW_HISTORY_POINTS_MAX);
    aw_history_deinit(&history);
}

static void a_history_with_figures_out_of_range_is_refused(void **state)
{
    static const struct {
        uint32_t stride, points, episodes, span;
        bool taken;
        const char *why;
    } rows[] = {
        {1, 3, 0, 1, true, "as it was"},
        {0, 3, 0, 1, false, "a stride that would be divided by"},
        {1, AW_HISTORY_POINTS_MAX + 1, 0, 1, false, "more points than there is room for"},
        {1, 3, AW_HISTORY_EPISODES_MAX + 1, 1, false, "more episodes than there is room for"},
        {1, 3, 0, 0, false, "records of no episode"},
    };
    char dir[] = "/tmp/aware-history-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_history saved, loaded;
        struct aw_daemon_config config;
        prepare(&saved, &config);
        live(&saved, &config, 3);
        saved.stride = rows[i].stride;
        saved.points = rows[i].points;
        saved.episode_count[0] = rows[i].episodes;
        saved.episode_span[0] = rows[i].span;
        assert_ok(aw_history_save(&saved, dir, NULL));
        prepare(&loaded, &config);
        const enum aw_err err = aw_history_load(&loaded, dir, 3, NULL);
        if (err != (rows[i].taken ? AW_OK : AW_ERR_FORMAT))
            fail_msg("%s: %s", rows[i].why, aw_err_name(err));
        live(&loaded, &config, 3); /* whatever came of it */
        aw_history_deinit(&loaded);
        aw_history_deinit(&saved);
        snprintf(path, sizeof path, "%s/history-3", dir);
        unlink(path);
        snprintf(path, sizeof path, "%s/history-3.refused", dir);
        unlink(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* Workloads that come and go: each has its own past, in another place perhaps. */
static void what_happened_is_found_by_the_names_of_workloads(void **state)
{
    char dir[] = "/tmp/aware-history-XXXXXX", path[64];
    static struct aw_job_workload before[3], after[3];
    struct aw_history history, again;
    struct aw_daemon_config config = {.workload = before, .count = 3, .step_s = 15};
    const char *const names[2][3] = {{"one", "two", "three"}, {"three", "new", "one"}};
    (void)state;
    assert_non_null(mkdtemp(dir));
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(before[i].pilot.name, sizeof before[i].pilot.name, "%s", names[0][i]);
        snprintf(after[i].pilot.name, sizeof after[i].pilot.name, "%s", names[1][i]);
    }
    snprintf(config.state, sizeof config.state, "kept");
    assert_ok(aw_history_init(&history, &config, NULL));
    for (uint32_t n = 0; n < 5; n++)
        for (uint32_t i = 0; i < 3; i++) {
            const struct aw_decision decision = {.moved = n == 2};
            const struct aw_job_view view = {0};
            const struct aw_job_step step = {
                .workload = i, .decision = &decision, .arrivals_per_s = 10 * (i + 1)};
            aw_history_step(&history, &config, &step, &view);
        }
    history.counts[0].held = 7;
    assert_ok(aw_history_save(&history, dir, NULL));
    aw_history_deinit(&history);

    config.workload = after;
    assert_ok(aw_history_init(&again, &config, NULL));
    assert_ok(aw_history_load(&again, dir, 5, NULL));
    assert_int_equal(again.steps, 5);
    assert_int_equal(again.counts[2].held, 7);
    assert_int_equal(again.counts[2].decisions, 5);
    assert_int_equal(again.counts[1].decisions, 0);
    assert_true(again.point[0 * AW_HISTORY_POINTS_MAX + 4].load == 30);
    assert_true(again.point[2 * AW_HISTORY_POINTS_MAX + 4].load == 10);
    assert_true(again.point[1 * AW_HISTORY_POINTS_MAX + 4].load == 0);
    assert_int_equal(again.event_count, 2); /* of the one that is gone nothing is told */
    assert_int_equal(aw_history_event(&again, 0)->workload, 0);
    assert_int_equal(aw_history_event(&again, 1)->workload, 2);
    aw_history_deinit(&again);

    config.count = 1; /* fewer */
    assert_ok(aw_history_init(&again, &config, NULL));
    assert_ok(aw_history_load(&again, dir, 5, NULL));
    assert_true(again.point[4].load == 30);
    assert_int_equal(again.event_count, 1);
    aw_history_deinit(&again);
    snprintf(path, sizeof path, "%s/history-5", dir);
    unlink(path);
    rmdir(dir);
}

AW_TEST_GROUP("history")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_run_that_lost_its_history_goes_on),
        cmocka_unit_test(a_history_with_figures_out_of_range_is_refused),
        cmocka_unit_test(what_happened_is_found_by_the_names_of_workloads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
