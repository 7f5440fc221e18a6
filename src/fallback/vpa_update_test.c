#include "fallback/vpa_update.h"

#include "base/rng.h"
#include "base/testing.h"

#include <string.h>

#define MINUTE_US ((int64_t)60 * 1000000)
#define HOUR_US   (60 * MINUTE_US)
#define NOW_US    (1000 * HOUR_US)
#define PODS_MAX  40

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
            fail_msg("%s: %s (diff %g)", cases[i].why, aw_vpa_verdict_text(verdict), priority.diff);
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

static void requirements_hold_back_what_they_name(void **state)
{
    (void)state;
    struct aw_vpa_updater updater;
    struct aw_vpa_priority priority;
    struct aw_vpa_pod_container container = container_of(2000, 500); /* CPU down, memory up */
    struct aw_vpa_pod pod = {.containers = &container, .container_count = 1};
    aw_vpa_updater_init(&updater);
    updater.requirement_count = 1;
    static const struct {
        bool cpu, memory;
        enum aw_vpa_change change;
        enum aw_vpa_verdict expected;
    } cases[] = {
        {true, false, AW_VPA_TARGET_HIGHER, AW_VPA_KEEP_REQUIRED},
        {true, false, AW_VPA_TARGET_LOWER, AW_VPA_UPDATE_RANGE},
        {false, true, AW_VPA_TARGET_HIGHER, AW_VPA_UPDATE_RANGE},
        {false, true, AW_VPA_TARGET_LOWER, AW_VPA_KEEP_REQUIRED},
        {true, true, AW_VPA_TARGET_HIGHER, AW_VPA_UPDATE_RANGE}, /* any resource will do */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        updater.requirements[0] = (struct aw_vpa_requirement){
            .resource = {cases[i].cpu, cases[i].memory}, .change = cases[i].change};
        assert_int_equal(aw_vpa_pod_verdict(&updater, &pod, NOW_US, &priority), cases[i].expected);
    }
    updater.requirement_count = 2; /* all requirements must hold */
    updater.requirements[0] =
        (struct aw_vpa_requirement){.resource = {true, false}, .change = AW_VPA_TARGET_LOWER};
    updater.requirements[1] =
        (struct aw_vpa_requirement){.resource = {false, true}, .change = AW_VPA_TARGET_LOWER};
    assert_int_equal(aw_vpa_pod_verdict(&updater, &pod, NOW_US, &priority), AW_VPA_KEEP_REQUIRED);
}

static void half_of_a_group_stays(void **state)
{
    (void)state;
    struct aw_vpa_updater updater;
    aw_vpa_updater_init(&updater);
    static const struct {
        const char *why;
        double tolerance;
        uint32_t configured, running, evicted, resized;
        bool expected;
    } cases[] = {
        {"all there", 0.5, 4, 4, 0, 0, true},
        {"one gone", 0.5, 4, 4, 1, 0, true},
        {"two gone", 0.5, 4, 4, 2, 0, false},
        {"one evicted, one resized", 0.5, 4, 4, 1, 1, false},
        {"one of five still down", 0.5, 5, 4, 0, 0, true},
        {"half already down", 0.5, 4, 2, 0, 0, false},
        {"two, and one may go", 0.5, 2, 2, 0, 0, true},
        {"no tolerance, complete: one by one", 0.1, 4, 4, 0, 0, true},
        {"no tolerance, one gone", 0.1, 4, 4, 1, 0, false},
        {"no tolerance, one down", 0.1, 4, 3, 0, 0, false},
        {"surge: more than configured", 0.1, 4, 6, 1, 0, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_vpa_group group = {cases[i].configured, cases[i].running, cases[i].evicted,
                                     cases[i].resized};
        updater.eviction_tolerance = cases[i].tolerance;
        if (aw_vpa_group_disruptable(&updater, &group) != cases[i].expected)
            fail_msg("%s", cases[i].why);
    }
}

static void a_mode_decides_between_evicting_resizing_and_waiting(void **state)
{
    (void)state;
    struct aw_vpa_updater updater;
    aw_vpa_updater_init(&updater);
    static const struct aw_vpa_group whole = {4, 4, 0, 0}, spent = {4, 4, 2, 0};
    static const struct {
        const char *why;
        enum aw_vpa_mode mode;
        const struct aw_vpa_group *group;
        struct aw_vpa_pod pod;
        bool skip;
        enum aw_vpa_action expected;
    } cases[] = {
        {"off", AW_VPA_OFF, &whole, {0}, false, AW_VPA_NOTHING},
        {"initial", AW_VPA_INITIAL, &whole, {0}, false, AW_VPA_NOTHING},
        {"recreate", AW_VPA_RECREATE, &whole, {0}, false, AW_VPA_EVICT},
        {"recreate, budget spent", AW_VPA_RECREATE, &spent, {0}, false, AW_VPA_NOTHING},
        {"a pending pod costs nothing",
         AW_VPA_RECREATE,
         &spent,
         {.pending = true},
         false,
         AW_VPA_EVICT},
        {"in place", AW_VPA_IN_PLACE_OR_RECREATE, &whole, {0}, false, AW_VPA_RESIZE},
        {"in place, budget spent", AW_VPA_IN_PLACE_OR_RECREATE, &spent, {0}, false, AW_VPA_WAIT},
        {"a resize that restarts nothing may skip the budget",
         AW_VPA_IN_PLACE_OR_RECREATE,
         &spent,
         {0},
         true,
         AW_VPA_RESIZE},
        {"one that restarts may not",
         AW_VPA_IN_PLACE_OR_RECREATE,
         &spent,
         {.restarts_on_resize = true},
         true,
         AW_VPA_WAIT},
        {"pending is not resized", AW_VPA_IN_PLACE, &whole, {.pending = true}, false, AW_VPA_WAIT},
        {"deferred for 5 min",
         AW_VPA_IN_PLACE_OR_RECREATE,
         &whole,
         {.resize = AW_VPA_RESIZE_DEFERRED, .resize_since_us = NOW_US - 5 * MINUTE_US},
         false,
         AW_VPA_WAIT},
        {"deferred for longer",
         AW_VPA_IN_PLACE_OR_RECREATE,
         &whole,
         {.resize = AW_VPA_RESIZE_DEFERRED, .resize_since_us = NOW_US - 5 * MINUTE_US - 1},
         false,
         AW_VPA_EVICT},
        {"deferred for longer, budget spent",
         AW_VPA_IN_PLACE_OR_RECREATE,
         &spent,
         {.resize = AW_VPA_RESIZE_DEFERRED, .resize_since_us = 0},
         false,
         AW_VPA_WAIT},
        {"in progress for an hour",
         AW_VPA_IN_PLACE_OR_RECREATE,
         &whole,
         {.resize = AW_VPA_RESIZE_IN_PROGRESS, .resize_since_us = NOW_US - HOUR_US},
         false,
         AW_VPA_WAIT},
        {"in progress for longer",
         AW_VPA_IN_PLACE_OR_RECREATE,
         &whole,
         {.resize = AW_VPA_RESIZE_IN_PROGRESS, .resize_since_us = NOW_US - HOUR_US - 1},
         false,
         AW_VPA_EVICT},
        {"infeasible",
         AW_VPA_IN_PLACE_OR_RECREATE,
         &whole,
         {.resize = AW_VPA_RESIZE_INFEASIBLE, .resize_since_us = NOW_US},
         false,
         AW_VPA_EVICT},
        {"error",
         AW_VPA_IN_PLACE_OR_RECREATE,
         &whole,
         {.resize = AW_VPA_RESIZE_ERROR, .resize_since_us = NOW_US},
         false,
         AW_VPA_EVICT},
        {"in place alone never evicts",
         AW_VPA_IN_PLACE,
         &whole,
         {.resize = AW_VPA_RESIZE_DEFERRED, .resize_since_us = 0},
         false,
         AW_VPA_WAIT},
        {"in place alone, infeasible",
         AW_VPA_IN_PLACE,
         &whole,
         {.resize = AW_VPA_RESIZE_INFEASIBLE},
         false,
         AW_VPA_INFEASIBLE},
        {"infeasible before, nothing lower",
         AW_VPA_IN_PLACE,
         &whole,
         {.infeasible_before = true},
         false,
         AW_VPA_NOTHING},
        {"infeasible before, something lower",
         AW_VPA_IN_PLACE,
         &whole,
         {.infeasible_before = true, .lower_than_infeasible = true},
         false,
         AW_VPA_RESIZE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        updater.mode = cases[i].mode;
        updater.skip_disruption_budget = cases[i].skip;
        enum aw_vpa_action action =
            aw_vpa_pod_action(&updater, cases[i].group, &cases[i].pod, NOW_US);
        if (action != cases[i].expected)
            fail_msg("%s: %s", cases[i].why, aw_vpa_action_name(action));
    }
}

static void a_plan_serves_the_hungry_first_and_keeps_its_budget(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct aw_vpa_updater updater;
        struct aw_vpa_pod_container containers[PODS_MAX];
        struct aw_vpa_pod pods[PODS_MAX] = {0};
        struct aw_vpa_step steps[PODS_MAX];
        struct aw_rng rng;
        aw_rng_init(&rng, seed, 0);
        aw_vpa_updater_init(&updater);
        updater.mode = (enum aw_vpa_mode)(AW_VPA_RECREATE + aw_rng_below(&rng, 3));
        updater.eviction_tolerance = aw_rng_double(&rng);
        uint32_t n = aw_rng_below(&rng, PODS_MAX), worth = 0;
        for (uint32_t i = 0; i < n; i++) {
            struct aw_vpa_priority priority;
            containers[i] = container_of(500 + 100 * aw_rng_below(&rng, 15), 1000);
            pods[i] = (struct aw_vpa_pod){
                .containers = &containers[i],
                .container_count = 1,
                .started = true,
                .start_us = NOW_US - aw_rng_below(&rng, 24) * HOUR_US,
            };
            worth +=
                aw_vpa_verdict_updates(aw_vpa_pod_verdict(&updater, &pods[i], NOW_US, &priority));
        }
        struct aw_vpa_group group = {.configured = n, .running = n};
        uint32_t count = aw_vpa_update_plan(&updater, &group, pods, n, NOW_US, steps);
        assert_int_equal(count, n < updater.replicas_min ? 0 : worth);
        uint32_t disturbed = 0, tolerance = (uint32_t)((double)n * updater.eviction_tolerance);
        bool seen[PODS_MAX] = {false};
        for (uint32_t i = 0; i < count; i++) {
            assert_false(seen[steps[i].pod]);
            seen[steps[i].pod] = true;
            disturbed += steps[i].action == AW_VPA_EVICT || steps[i].action == AW_VPA_RESIZE;
            if (i == 0)
                continue;
            const struct aw_vpa_priority *a = &steps[i - 1].priority, *b = &steps[i].priority;
            assert_true(a->scale_up > b->scale_up ||
                        (a->scale_up == b->scale_up && a->diff > b->diff) ||
                        (a->scale_up == b->scale_up && !(a->diff < b->diff) &&
                         steps[i - 1].pod < steps[i].pod));
        }
        assert_int_equal(disturbed, group.evicted + group.resized);
        assert_true(disturbed <= (tolerance ? tolerance : 1));
        if (count > 0)
            assert_true(disturbed >= 1);
    }
}

static void modes_that_touch_nothing_plan_nothing(void **state)
{
    (void)state;
    struct aw_vpa_updater updater;
    struct aw_vpa_pod_container container = container_of(1, 1);
    struct aw_vpa_pod pods[2] = {{.containers = &container, .container_count = 1},
                                 {.containers = &container, .container_count = 1}};
    struct aw_vpa_step steps[2];
    struct aw_vpa_group group = {.configured = 2, .running = 2};
    aw_vpa_updater_init(&updater);
    assert_int_equal(aw_vpa_update_plan(&updater, &group, pods, 1, NOW_US, steps), 0);
    updater.mode = AW_VPA_OFF;
    assert_int_equal(aw_vpa_update_plan(&updater, &group, pods, 2, NOW_US, steps), 0);
    updater.mode = AW_VPA_INITIAL;
    assert_int_equal(aw_vpa_update_plan(&updater, &group, pods, 2, NOW_US, steps), 0);
    updater.mode = AW_VPA_RECREATE;
    assert_int_equal(aw_vpa_update_plan(&updater, &group, pods, 2, NOW_US, steps), 2);
    assert_int_equal(steps[0].action, AW_VPA_EVICT);
    assert_int_equal(steps[1].action, AW_VPA_NOTHING);
}

static void impossible_settings_are_refused(void **state)
{
    (void)state;
    struct aw_vpa_updater good, bad;
    aw_vpa_updater_init(&good);
    assert_ok(aw_vpa_updater_check(&good, NULL));
    static const double tolerances[] = {-0.1, 1.1, 0.0 / 0.0, 1.0 / 0.0};
    for (size_t i = 0; i < sizeof tolerances / sizeof *tolerances; i++) {
        bad = good;
        bad.eviction_tolerance = tolerances[i];
        assert_int_equal(aw_vpa_updater_check(&bad, NULL), AW_ERR_CONFIG);
    }
    bad = good;
    bad.change_min = -1;
    assert_int_equal(aw_vpa_updater_check(&bad, NULL), AW_ERR_CONFIG);
    bad = good;
    bad.lifetime_us = -1;
    assert_int_equal(aw_vpa_updater_check(&bad, NULL), AW_ERR_CONFIG);
    bad = good;
    bad.requirement_count = AW_VPA_REQUIREMENTS_MAX + 1;
    assert_int_equal(aw_vpa_updater_check(&bad, NULL), AW_ERR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_is_disturbed_only_with_a_reason),
        cmocka_unit_test(the_smallest_change_is_itself_a_change),
        cmocka_unit_test(a_missing_request_is_out_of_range_and_a_container_left_alone_is_not),
        cmocka_unit_test(requirements_hold_back_what_they_name),
        cmocka_unit_test(half_of_a_group_stays),
        cmocka_unit_test(a_mode_decides_between_evicting_resizing_and_waiting),
        cmocka_unit_test(a_plan_serves_the_hungry_first_and_keeps_its_budget),
        cmocka_unit_test(impossible_settings_are_refused),
        cmocka_unit_test(modes_that_touch_nothing_plan_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
