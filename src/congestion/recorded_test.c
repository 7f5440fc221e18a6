/* Tests of files: recorded paths and their errors, policies, and the task's own table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/testing.h"
#include "congestion/learn.h"
#include "congestion/recorded.h"
#include "congestion/task.h"

static char folder[64], traces[96], runs[96];

static int folder_open(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/aware-paths-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(traces, sizeof traces, "%s/traces.csv", folder);
    snprintf(runs, sizeof runs, "%s/runs.csv", folder);
    return 0;
}

static int folder_close(void **state)
{
    (void)state;
    (void)unlink(traces);
    (void)unlink(runs);
    return rmdir(folder);
}

static void put(const char *path, const char *text)
{
    assert_ok(aw_file_replace(path, text, strlen(text), NULL, NULL));
}

static void runs_are_read_with_their_delays(void **state)
{
    struct aw_recorded recorded;
    (void)state;
    put(traces, "run_id,time_s,bandwidth_mbps\r\n7,10,12\n7,10.5,24\n\n9,0,1.2\n9,1,1.2\n9,2,0\n");
    assert_ok(aw_recorded_read(traces, NULL, &recorded, NULL));
    assert_int_equal(recorded.count, 2);
    assert_false(recorded.described);
    assert_close(recorded.run[0].delay_s, AW_RECORDED_DELAY_S, 0);
    assert_close(aw_bandwidth_at(&recorded.run[0].trace, 0.2), 1000, 1e-9);
    assert_close(aw_bandwidth_at(&recorded.run[0].trace, 0.7), 2000, 1e-9);
    assert_close(aw_bandwidth_mean(&recorded.run[0].trace), 1500, 1e-9);
    assert_close(recorded.run[1].trace.period_s, 3, 1e-9);
    assert_true(aw_bandwidth_at(&recorded.run[1].trace, 2.5) > 0); /* never quite 0 */
    aw_recorded_deinit(&recorded);
    put(runs, "site,run_id,delay_ms,kind\nhere,9,80,cellular\nthere,7,5,ethernet\nfar,8,1,x\n");
    assert_ok(aw_recorded_read(traces, NULL, &recorded, NULL));
    assert_true(recorded.described);
    assert_close(recorded.run[0].delay_s, 0.005, 1e-12);
    assert_string_equal(recorded.run[1].kind, "cellular");
    aw_recorded_deinit(&recorded);
    assert_ok(aw_recorded_read(runs, NULL, &recorded, NULL)); /* the other way round */
    assert_int_equal(recorded.count, 2);
    aw_recorded_deinit(&recorded);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    static const struct {
        const char *text, *said;
        uint32_t line;
    } cases[] = {
        {"", "empty file", 1},
        {"run_id,time_s\n1,0\n", "bandwidth_mbps", 1},
        {"run_id,time_s,bandwidth_mbps\n", "found none", 1},
        {"run_id,time_s,bandwidth_mbps\n1,0,x\n", "\"x\"", 2},
        {"run_id,time_s,bandwidth_mbps\n1,0,1\n1,0,1\n", "a time after 0", 3},
        {"run_id,time_s,bandwidth_mbps\n1,0,1\n", "two rows", 2},
        {"run_id,time_s,bandwidth_mbps\n-1,0,1\n", "whole number", 2},
        {"run_id,time_s,bandwidth_mbps\n1,0,-4\n", "\"-4\"", 2},
    };
    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_recorded recorded;
        struct aw_diag diag = {0};
        put(traces, cases[i].text);
        assert_int_not_equal(aw_recorded_read(traces, NULL, &recorded, &diag), AW_OK);
        assert_int_equal(recorded.count, 0);
        assert_int_equal(diag.line, cases[i].line);
        assert_non_null(strstr(diag.text, cases[i].said));
    }
}

static void a_policy_survives_its_file(void **state)
{
    struct aw_adaptive_policy policy = aw_adaptive_first(), again;
    struct aw_diag diag;
    (void)state;
    policy.weight[2][1] = -0.125;
    assert_ok(aw_adaptive_write(&policy, traces, "a test", &diag));
    assert_ok(aw_adaptive_read(traces, &again, &diag));
    assert_memory_equal(&policy, &again, sizeof policy);
    put(traces, "{\"kind\": \"aware congestion policy\", \"law\": {}}");
    assert_int_equal(aw_adaptive_read(traces, &again, &diag), AW_ERR_FORMAT);
    put(traces, "not JSON");
    assert_int_equal(aw_adaptive_read(traces, &again, &diag), AW_ERR_FORMAT);
    assert_ok(aw_adaptive_shipped(&again, &diag));
}

static void the_shipped_law_holds_its_goal(void **state)
{
    static struct aw_flow flow;
    static struct aw_latency_histogram rtts;
    struct aw_adaptive_policy policy;
    struct aw_diag diag;
    uint32_t order[AW_BOX_COUNT];
    double ours = 0, bbr = 0;
    (void)state;
    assert_ok(aw_adaptive_shipped(&policy, &diag));
    aw_box_order(order); /* what ships learned from the first of them */
    for (uint32_t i = 0; i < 20; i++) {
        struct aw_episode_plan plan = {.steps = AW_BOX_STEPS, .seed = i};
        struct aw_episode episode;
        struct aw_adaptive adaptive = {.policy = &policy};
        char self[1024] __attribute__((aligned(16)));
        aw_box_link(order[AW_BOXES_LEARNED + i], 11, &plan.link);
        aw_episode_run(&plan, &aw_adaptive_controller, &flow, &adaptive, &rtts, NULL, NULL,
                       &episode);
        ours += episode.regret / 20;
        aw_episode_run(&plan, &aw_bbr_like, &flow, self, &rtts, NULL, NULL, &episode);
        bbr += episode.regret / 20;
    }
    print_message("regret %.3f, BBR-like %.3f\n", ours, bbr);
    assert_true(ours <= 0.05 && ours < bbr);
}

static void the_task_is_whole(void **state)
{
    struct aw_diag diag;
    (void)state;
    assert_ok(aw_task_check(&aw_congestion_task, &diag));
}

AW_TEST_GROUP("congestion-recorded")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(runs_are_read_with_their_delays, folder_open, folder_close),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_named_with_its_line, folder_open,
                                        folder_close),
        cmocka_unit_test_setup_teardown(a_policy_survives_its_file, folder_open, folder_close),
        cmocka_unit_test(the_shipped_law_holds_its_goal),
        cmocka_unit_test(the_task_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
