#include "base/clock.h"
#include "base/testing.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static void the_real_clock_moves_forward_and_sleeps_as_long_as_asked(void **state)
{
    (void)state;
    int64_t wall = aw_clock_now_us(NULL);
    assert_true(wall > 1600000000000000); /* after 2020: the unit is microseconds */
    int64_t start = aw_clock_monotonic_us(&aw_clock_real);
    assert_ok(aw_clock_sleep_until(&aw_clock_real, start + 3000));
    assert_true(aw_clock_monotonic_us(&aw_clock_real) >= start + 3000);
    assert_ok(aw_clock_sleep_until(NULL, start)); /* the past is reached already */
    assert_ok(aw_clock_sleep_until(NULL, -5));
}

static void on_signal(int number)
{
    (void)number;
}

static void *poke(void *arg)
{
    usleep(20000);
    pthread_kill(*(pthread_t *)arg, SIGUSR1);
    return NULL;
}

static void a_signal_ends_a_sleep(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_t self = pthread_self(), poker;
    assert_int_equal(pthread_create(&poker, NULL, poke, &self), 0);
    int64_t start = aw_clock_monotonic_us(NULL);
    assert_int_equal(aw_clock_sleep_until(NULL, start + 30000000), AW_ERR_INTERRUPTED);
    assert_true(aw_clock_monotonic_us(NULL) < start + 20000000);
    pthread_join(poker, NULL);
}

static void a_virtual_clock_stands_still_until_it_is_moved(void **state)
{
    (void)state;
    struct aw_clock_virtual virt;
    aw_clock_virtual_init(&virt, 1000);
    assert_int_equal(aw_clock_now_us(&virt.clock), 1000);
    assert_int_equal(aw_clock_monotonic_us(&virt.clock), 0);
    aw_clock_virtual_advance(&virt, 250);
    assert_int_equal(aw_clock_now_us(&virt.clock), 1250);
    assert_int_equal(aw_clock_monotonic_us(&virt.clock), 250);
    assert_ok(aw_clock_sleep_until(&virt.clock, 15000000));
    assert_int_equal(aw_clock_monotonic_us(&virt.clock), 15000000);
    assert_int_equal(aw_clock_now_us(&virt.clock), 15001000);
    assert_ok(aw_clock_sleep_until(&virt.clock, 10));
    assert_int_equal(virt.sleep_count, 1);
    assert_int_equal(virt.mono_us, 15000000);
}

static void cpu_time_is_what_the_thread_did_and_not_what_it_slept(void **state)
{
    (void)state;
    const double before = aw_clock_thread_cpu_s();
    assert_ok(aw_clock_sleep_until(NULL, aw_clock_monotonic_us(NULL) + 50000));
    assert_true(aw_clock_thread_cpu_s() - before < 0.04);
    volatile double sum = 0;
    while (aw_clock_thread_cpu_s() - before < 0.01)
        sum = sum + 1;
    assert_true(sum > 0);
}

static void simulated_times_are_not_shown_as_1970(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *shown, *why;
    } rows[] = {
        {0, "0:00:00", "the beginning of a simulation"},
        {INT64_C(5175000000), "1:26:15", "an hour of it"},
        {INT64_C(1209600000000), "14d 00:00:00", "two weeks of it"},
        {INT64_C(1794877384000000), "2026-11-17 01:03:04", "real time"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char buf[32];
        assert_string_equal(aw_time_show_us(rows[i].us, buf, sizeof buf), rows[i].shown);
    }
}

AW_TEST_GROUP("clock")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_real_clock_moves_forward_and_sleeps_as_long_as_asked),
        cmocka_unit_test(a_signal_ends_a_sleep),
        cmocka_unit_test(a_virtual_clock_stands_still_until_it_is_moved),
        cmocka_unit_test(cpu_time_is_what_the_thread_did_and_not_what_it_slept),
        cmocka_unit_test(simulated_times_are_not_shown_as_1970),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
