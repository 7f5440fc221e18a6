/* limits_test.c - what is left, against what the guard then does. */
#include "control/limits.h"

#include "base/testing.h"
#include "control/pilot_internal.h"

#include <string.h>

#define S          INT64_C(1000000)
#define CHANGED_US (1000 * S)

/* A pilot whose memories are set by hand; nothing else of it is read. */
static void prepare(struct aw_pilot *pilot)
{
    memset(pilot, 0, sizeof *pilot);
    aw_pilot_config_init(&pilot->config);
    aw_guard_begin(&pilot->memory.guard);
    aw_watchdog_begin(&pilot->memory.watchdog, 0);
    pilot->guard.settings = pilot->config.guard;
    pilot->guard.settings.replicas_up_cooldown = 10;
    pilot->guard.settings.replicas_down_cooldown = 300;
    pilot->guard.settings.size_up_cooldown = 60;
    pilot->guard.settings.size_down_cooldown = 600;
    pilot->guard.settings.restart_window = 3600;
    pilot->guard.settings.restart_count = 4;
    pilot->guard.settings.change_window = 600;
}

static void a_new_workload_has_everything_left(void **state)
{
    static struct aw_pilot pilot;
    struct aw_limits limits;
    (void)state;
    prepare(&pilot);
    aw_limits_of(&pilot, CHANGED_US, &limits);
    assert_true(limits.changed_us == AW_NEVER);
    assert_int_equal(limits.restarts_left_grow, 4);
    assert_int_equal(limits.restarts_left_shrink, 2);
    assert_close(limits.replicas_down_left_s + limits.size_down_left_s, 0, 0);
    assert_int_equal(limits.change_low[AW_GUARD_REPLICAS], 0);
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
        static struct aw_pilot pilot;
        struct aw_limits limits;
        prepare(&pilot);
        struct aw_guard_memory *memory = &pilot.memory.guard;
        memory->wanted[AW_GUARD_REPLICAS] = 2;
        memory->wanted[AW_GUARD_CPU] = 500;
        memory->wanted[AW_GUARD_MEMORY] = 1 << 20;
        const struct aw_plan plan = {AW_PLAN_REPLICAS | AW_PLAN_CPU, 3, 1000, 0};
        aw_guard_applied(&pilot.guard, memory, &plan, CHANGED_US);
        aw_limits_of(&pilot, CHANGED_US + rows[i].after_s * S, &limits);
        if (limits.restarts_left_grow != rows[i].restarts ||
            limits.change_low[AW_GUARD_REPLICAS] != rows[i].low)
            fail_msg("%s: %u restarts, from %lld replicas", rows[i].why, limits.restarts_left_grow,
                     (long long)limits.change_low[AW_GUARD_REPLICAS]);
        assert_close(limits.replicas_up_left_s, rows[i].replicas_up, 1e-9);
        assert_close(limits.replicas_down_left_s, rows[i].replicas_down, 1e-9);
        assert_close(limits.size_up_left_s, rows[i].size_up, 1e-9);
        assert_close(limits.size_down_left_s, rows[i].size_down, 1e-9);
        assert_true(limits.changed_us == CHANGED_US);
        if (rows[i].low) {
            assert_int_equal(limits.change_high[AW_GUARD_REPLICAS], 3);
            assert_int_equal(limits.change_high[AW_GUARD_CPU], 1000);
        }
    }
}

static void a_floor_for_want_of_memory_goes_with_its_time(void **state)
{
    static struct aw_pilot pilot;
    struct aw_limits limits;
    (void)state;
    prepare(&pilot);
    pilot.guard.settings.oom_hold = 100;
    pilot.memory.guard.oom_us = CHANGED_US;
    pilot.memory.guard.oom_floor_bytes = 77;
    aw_limits_of(&pilot, CHANGED_US + 40 * S, &limits);
    assert_int_equal(limits.oom_floor_bytes, 77);
    assert_close(limits.oom_left_s, 60, 1e-9);
    aw_limits_of(&pilot, CHANGED_US + 100 * S, &limits);
    assert_int_equal(limits.oom_floor_bytes, 0);
}

static void what_the_watchdog_counted_is_what_is_told(void **state)
{
    static struct aw_pilot pilot;
    struct aw_limits limits;
    (void)state;
    prepare(&pilot);
    pilot.memory.watchdog.step_count = 50;
    pilot.memory.watchdog.missed_count = 3;
    pilot.memory.watchdog.trips = 2;
    aw_limits_of(&pilot, CHANGED_US, &limits);
    assert_int_equal(limits.slo_steps, 50);
    assert_int_equal(limits.slo_missed, 3);
    assert_int_equal(limits.trips, 2);
    assert_close(limits.slo_left,
                 aw_watchdog_allowed(&pilot.config.watchdog, &pilot.memory.watchdog), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_workload_has_everything_left),
        cmocka_unit_test(a_change_begins_cool_downs_and_takes_a_restart),
        cmocka_unit_test(a_floor_for_want_of_memory_goes_with_its_time),
        cmocka_unit_test(what_the_watchdog_counted_is_what_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
