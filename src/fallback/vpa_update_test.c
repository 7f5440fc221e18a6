#include "fallback/vpa_update.h"

#include "base/testing.h"

#define MINUTE_US ((int64_t)60 * 1000000)
#define HOUR_US   (60 * MINUTE_US)
#define NOW_US    (1000 * HOUR_US)

static const struct aw_vpa_recommendation wanted = {
    .target = {1000, 1000}, .lower = {800, 800}, .upper = {1500, 1500}};

static struct aw_vpa_pod_container container_of(int64_t cpu, int64_t memory)
{
    return (struct aw_vpa_pod_container){.recommendation = &wanted,
                                         .has_bounds = true,
                                         .controlled = {true, true},
                                         .has_request = {true, true},
                                         .request = {cpu, memory}};
}

static void a_pod_is_disturbed_only_with_a_reason(void **state)
{
    (void)state;
    struct aw_vpa_updater updater;
    aw_vpa_updater_init(&updater);
    static const struct {
        const char *why;
        int64_t cpu, memory, age_us;
        bool started, oom;
        int64_t oom_after_us;
        enum aw_vpa_verdict expected;
    } cases[] = {
        {"what it should have", 1000, 1000, 99 * HOUR_US, 1, 0, 0, AW_VPA_KEEP_CLOSE},
        {"a little off and old", 1000, 1099, 99 * HOUR_US, 1, 0, 0, AW_VPA_KEEP_CLOSE},
        {"a tenth off and old", 1000, 909, 99 * HOUR_US, 1, 0, 0, AW_VPA_UPDATE_DIFF},
        {"two small differences add up", 950, 945, 99 * HOUR_US, 1, 0, 0, AW_VPA_UPDATE_DIFF},
        {"a tenth off at exactly 12 h", 1000, 900, 12 * HOUR_US, 1, 0, 0, AW_VPA_UPDATE_DIFF},
        {"a tenth off and younger", 1000, 900, 12 * HOUR_US - 1, 1, 0, 0, AW_VPA_KEEP_YOUNG},
        {"a tenth off, age unknown", 1000, 900, 99 * HOUR_US, 0, 0, 0, AW_VPA_KEEP_YOUNG},
        {"below the lower bound at once", 799, 1000, 0, 1, 0, 0, AW_VPA_UPDATE_RANGE},
        {"at the lower bound", 800, 1000, 0, 1, 0, 0, AW_VPA_KEEP_YOUNG},
        {"above the upper bound at once", 1000, 1501, 0, 1, 0, 0, AW_VPA_UPDATE_RANGE},
        {"at the upper bound", 1000, 1500, 0, 1, 0, 0, AW_VPA_KEEP_YOUNG},
        {"killed soon", 1000, 990, 0, 1, 1, 10 * MINUTE_US - 1, AW_VPA_UPDATE_OOM},
        {"killed later", 1000, 990, 0, 1, 1, 10 * MINUTE_US, AW_VPA_KEEP_YOUNG},
        {"killed soon, nothing to gain", 1000, 1000, 0, 1, 1, 1, AW_VPA_KEEP_SAME},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_vpa_pod_container container = container_of(cases[i].cpu, cases[i].memory);
        container.oom_killed = cases[i].oom;
        container.oom_after_start_us = cases[i].oom_after_us;
        struct aw_vpa_pod pod = {.containers = &container,
                                 .container_count = 1,
                                 .started = cases[i].started,
                                 .start_us = NOW_US - cases[i].age_us};
        struct aw_vpa_priority priority;
        enum aw_vpa_verdict verdict = aw_vpa_pod_verdict(&updater, &pod, NOW_US, &priority);
        if (verdict != cases[i].expected)
            fail_msg("%s: verdict %d (diff %g)", cases[i].why, verdict, priority.diff);
    }
}

static void the_smallest_change_is_itself_a_change(void **state)
{
    (void)state;
    struct aw_vpa_updater updater;
    struct aw_vpa_priority priority;
    struct aw_vpa_pod_container container = container_of(800, 1000);
    struct aw_vpa_pod pod = {.containers = &container, .container_count = 1, .started = true};
    aw_vpa_updater_init(&updater);
    updater.change_min = 0.25; /* 200 of 800 */
    assert_int_equal(aw_vpa_pod_verdict(&updater, &pod, NOW_US, &priority), AW_VPA_UPDATE_DIFF);
    updater.change_min = 0.2500001;
    assert_int_equal(aw_vpa_pod_verdict(&updater, &pod, NOW_US, &priority), AW_VPA_KEEP_CLOSE);
}

static void a_missing_request_is_out_of_range_and_a_container_left_alone_is_not(void **state)
{
    (void)state;
    struct aw_vpa_pod_container containers[2] = {container_of(1000, 1000), {0}};
    struct aw_vpa_pod pod = {.containers = containers, .container_count = 2};
    assert_false(aw_vpa_pod_priority(&pod).outside_range);
    containers[0].has_request[AW_VPA_MEMORY] = false;
    struct aw_vpa_priority priority = aw_vpa_pod_priority(&pod);
    assert_true(priority.outside_range && priority.scale_up);
    assert_close(priority.diff, 1000 * 1000 - 1, 1e-12); /* against a thousandth of a byte */
    containers[0].controlled[AW_VPA_MEMORY] = false;
    assert_close(aw_vpa_pod_priority(&pod).diff, 0, 0);
}

AW_TEST_GROUP("vpa-update")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_is_disturbed_only_with_a_reason),
        cmocka_unit_test(the_smallest_change_is_itself_a_change),
        cmocka_unit_test(a_missing_request_is_out_of_range_and_a_container_left_alone_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
