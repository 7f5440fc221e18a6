/* limits_test.c - what is left, against what the guard then does. */
#include "safety/limits.h"

#include "base/testing.h"

#include <string.h>

#define S          INT64_C(1000000)
#define CHANGED_US (1000 * S)

struct rig {
    struct aw_guard guard;
    struct aw_guard_memory memory;
    struct aw_watchdog_settings watchdog;
    struct aw_watchdog_memory watched;
};

static void prepare(struct rig *rig)
{
    memset(rig, 0, sizeof *rig);
    aw_conf_defaults(aw_guard_fields, &rig->guard.settings);
    aw_conf_defaults(aw_watchdog_fields, &rig->watchdog);
    aw_guard_begin(&rig->memory);
    aw_watchdog_begin(&rig->watched, 0);
    rig->guard.settings.replicas_up_cooldown = 10;
    rig->guard.settings.replicas_down_cooldown = 300;
    rig->guard.settings.size_up_cooldown = 60;
    rig->guard.settings.size_down_cooldown = 600;
    rig->guard.settings.restart_window = 3600;
    rig->guard.settings.restart_count = 4;
    rig->guard.settings.change_window = 600;
}

static void left(const struct rig *rig, int64_t now_us, struct aw_limits *ret)
{
    aw_limits_of(&rig->guard, &rig->memory, &rig->watchdog, &rig->watched, now_us, ret);
}

static void a_new_workload_has_everything_left(void **state)
{
    struct rig rig;
    struct aw_limits limits;
    (void)state;
    prepare(&rig);
    left(&rig, CHANGED_US, &limits);
    assert_true(limits.changed_us == AW_NEVER);
    assert_int_equal(limits.restarts_left_grow, 4);
    assert_int_equal(limits.restarts_left_shrink, 2);
    assert_close(limits.replicas_down_left_s + limits.size_down_left_s, 0, 0);
    assert_int_equal(limits.change_low[AW_RESOURCE_REPLICAS], 0);
    assert_int_equal(limits.oom_floor_bytes, 0);
    assert_int_equal(limits.slo_steps, 0);
}

static void a_change_begins_cool_downs_and_takes_a_restart(void **state)
{
    static const struct {
        int64_t after_s;
        double replicas_up, replicas_down, size_up, size_down;
        uint32_t restarts;
        int64_t low;
        const char *why;
    } rows[] = {
        {0, 10, 300, 60, 600, 3, 2, "at once"},
        {10, 0, 290, 50, 590, 3, 2, "one is over at its very end"},
        {59, 0, 241, 1, 541, 3, 2, "the next is not yet"},
        {599, 0, 0, 0, 1, 3, 2, "the window of changes still sees what was"},
        {3599, 0, 0, 0, 0, 3, 0, "the window of restarts does longer"},
        {3600, 0, 0, 0, 0, 4, 0, "and no more"},
        {-5, 10, 300, 60, 600, 3, 2, "a clock that went back makes nothing longer"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rig rig;
        struct aw_limits limits;
        prepare(&rig);
        struct aw_guard_memory *memory = &rig.memory;
        memory->wanted[AW_RESOURCE_REPLICAS] = 2;
        memory->wanted[AW_RESOURCE_CPU] = 500;
        memory->wanted[AW_RESOURCE_MEMORY] = 1 << 20;
        const struct aw_plan plan = {.set = AW_PLAN_REPLICAS | AW_PLAN_CPU, .amount = {3, 1000, 0}};
        aw_guard_applied(&rig.guard, memory, &plan, CHANGED_US);
        left(&rig, CHANGED_US + rows[i].after_s * S, &limits);
        if (limits.restarts_left_grow != rows[i].restarts ||
            limits.change_low[AW_RESOURCE_REPLICAS] != rows[i].low)
            fail_msg("%s: %u restarts, from %lld replicas", rows[i].why, limits.restarts_left_grow,
                     (long long)limits.change_low[AW_RESOURCE_REPLICAS]);
        assert_close(limits.replicas_up_left_s, rows[i].replicas_up, 1e-9);
        assert_close(limits.replicas_down_left_s, rows[i].replicas_down, 1e-9);
        assert_close(limits.size_up_left_s, rows[i].size_up, 1e-9);
        assert_close(limits.size_down_left_s, rows[i].size_down, 1e-9);
        assert_true(limits.changed_us == CHANGED_US);
        if (rows[i].low) {
            assert_int_equal(limits.change_high[AW_RESOURCE_REPLICAS], 3);
            assert_int_equal(limits.change_high[AW_RESOURCE_CPU], 1000);
        }
    }
}

static void a_floor_for_want_of_memory_goes_with_its_time(void **state)
{
    struct rig rig;
    struct aw_limits limits;
    (void)state;
    prepare(&rig);
    rig.guard.settings.oom_hold = 100;
    rig.memory.oom_us = CHANGED_US;
    rig.memory.oom_floor_bytes = 77;
    left(&rig, CHANGED_US + 40 * S, &limits);
    assert_int_equal(limits.oom_floor_bytes, 77);
    assert_close(limits.oom_left_s, 60, 1e-9);
    left(&rig, CHANGED_US + 100 * S, &limits);
    assert_int_equal(limits.oom_floor_bytes, 0);
}

static void what_the_watchdog_counted_is_what_is_told(void **state)
{
    struct rig rig;
    struct aw_limits limits;
    (void)state;
    prepare(&rig);
    rig.watched.step_count = 50;
    rig.watched.missed_count = 3;
    rig.watched.trips = 2;
    left(&rig, CHANGED_US, &limits);
    assert_int_equal(limits.slo_steps, 50);
    assert_int_equal(limits.slo_missed, 3);
    assert_int_equal(limits.trips, 2);
    assert_close(limits.slo_left, aw_watchdog_allowed(&rig.watchdog, &rig.watched), 0);
}

AW_TEST_GROUP("limits")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_workload_has_everything_left),
        cmocka_unit_test(a_change_begins_cool_downs_and_takes_a_restart),
        cmocka_unit_test(a_floor_for_want_of_memory_goes_with_its_time),
        cmocka_unit_test(what_the_watchdog_counted_is_what_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
