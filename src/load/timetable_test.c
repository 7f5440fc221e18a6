/* timetable_test.c - when requests are due, without a socket. */
#include "load/timetable.h"

#include <math.h>
#include <stdlib.h>

#include "base/testing.h"

#define SECOND 1000000

static struct aw_timetable_config plain(double rate, int64_t duration_us)
{
    return (struct aw_timetable_config){.rate_per_s = rate,
                                        .speed = 1,
                                        .arrivals = AW_ARRIVALS_EVEN,
                                        .seed = 1,
                                        .duration_us = duration_us};
}

static uint64_t count(const struct aw_timetable_config *config)
{
    struct aw_timetable timetable;
    int64_t at_us, last_us = -1;
    uint64_t n = 0;
    assert_ok(aw_timetable_init(&timetable, config, NULL));
    for (; aw_timetable_next(&timetable, &at_us); n++) {
        assert_true(at_us >= last_us);
        assert_true(config->duration_us <= 0 || at_us < config->duration_us);
        last_us = at_us;
    }
    assert_false(aw_timetable_next(&timetable, &at_us));
    return n;
}

static void even_requests_are_as_far_apart_as_the_rate_says(void **state)
{
    (void)state;
    struct aw_timetable_config config = plain(400, 3 * SECOND);
    struct aw_timetable timetable;
    int64_t at_us;
    assert_ok(aw_timetable_init(&timetable, &config, NULL));
    for (int64_t i = 0; i < 1200; i++) {
        assert_true(aw_timetable_next(&timetable, &at_us));
        assert_true(llabs(at_us - (1250 + 2500 * i)) <= 1);
    }
    assert_false(aw_timetable_next(&timetable, &at_us));
    config = plain(60007, SECOND); /* no drift, although a gap is no whole number */
    assert_int_equal(count(&config), 60007);
}

static void the_same_seed_gives_the_same_moments_and_another_one_others(void **state)
{
    (void)state;
    struct aw_timetable_config config = plain(1000, 10 * SECOND);
    struct aw_timetable a, b, c;
    config.arrivals = AW_ARRIVALS_POISSON;
    assert_ok(aw_timetable_init(&a, &config, NULL));
    assert_ok(aw_timetable_init(&b, &config, NULL));
    config.seed = 2;
    assert_ok(aw_timetable_init(&c, &config, NULL));
    uint32_t same = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        int64_t x = 0, y = 0, z = 0;
        assert_true(aw_timetable_next(&a, &x) && aw_timetable_next(&b, &y) &&
                    aw_timetable_next(&c, &z));
        assert_int_equal(x, y);
        same += x == z;
    }
    assert_true(same < 50);
    struct aw_timetable copy = a; /* a copy goes on as the original does */
    int64_t x = 0, y = 0;
    assert_true(aw_timetable_next(&a, &x) && aw_timetable_next(&copy, &y));
    assert_int_equal(x, y);
}

static void poisson_gaps_have_the_mean_and_deviation_of_an_exponential(void **state)
{
    (void)state;
    struct aw_timetable_config config = plain(2000, 100 * SECOND);
    struct aw_timetable timetable;
    int64_t at_us, last_us = 0;
    double n = 0, sum = 0, squares = 0;
    config.arrivals = AW_ARRIVALS_POISSON;
    assert_ok(aw_timetable_init(&timetable, &config, NULL));
    while (aw_timetable_next(&timetable, &at_us)) {
        const double gap = (double)(at_us - last_us);
        last_us = at_us;
        n++;
        sum += gap;
        squares += gap * gap;
    }
    const double mean = sum / n, deviation = sqrt(squares / n - mean * mean);
    assert_close(n, 200000, 0.01);
    assert_close(mean, 500, 0.01);
    assert_close(deviation, 500, 0.02);
}

/* Requests due in each slot of a load: its rate, in its own time divided by the speed. */
static void a_load_is_followed_slot_by_slot_and_repeats(void **state)
{
    (void)state;
    float rate[] = {100, 0, 0, 400, 37};
    const struct aw_load load = {.slot_count = 5, .slot_us = 10 * SECOND, .rate_per_s = rate};
    for (uint32_t speed = 1; speed <= 20; speed += 19) {
        struct aw_timetable_config config = plain(0, 100 * SECOND / speed); /* twice through */
        struct aw_timetable timetable;
        uint32_t in_slot[10] = {0};
        int64_t at_us;
        config.load = &load;
        config.speed = speed;
        assert_ok(aw_timetable_init(&timetable, &config, NULL));
        while (aw_timetable_next(&timetable, &at_us))
            in_slot[at_us * speed / (10 * SECOND)]++;
        for (uint32_t i = 0; i < 10; i++)
            assert_true(fabs(in_slot[i] - (double)rate[i % 5] * 10 / speed) <= 1);
    }
}

static void it_ends_after_so_many_requests_or_so_much_time(void **state)
{
    (void)state;
    struct aw_timetable_config config = plain(100, 0);
    config.requests = 17;
    assert_int_equal(count(&config), 17);
    config.duration_us = SECOND / 10;
    assert_int_equal(count(&config), 10);
    config.requests = 3;
    assert_int_equal(count(&config), 3);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    float none[] = {0, 0};
    const struct aw_load idle = {.slot_count = 2, .slot_us = SECOND, .rate_per_s = none};
    const struct aw_timetable_config good = plain(100, SECOND);
    struct aw_timetable_config endless = good, still = good, backward = good, fast = good,
                               empty = good;
    endless.duration_us = 0;
    still.speed = 0;
    backward.speed = -1;
    fast.rate_per_s = 1e9;
    empty.load = &idle;
    const struct {
        const struct aw_timetable_config *config;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {&good, AW_OK, "a plain one"},
        {&endless, AW_ERR_CONFIG, "neither duration nor requests: it would never end"},
        {&still, AW_ERR_CONFIG, "time stands still"},
        {&backward, AW_ERR_CONFIG, "time runs backward"},
        {&fast, AW_ERR_LIMIT, "more than can be sent"},
        {&empty, AW_ERR_NODATA, "a load without a request: the walk would never end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_timetable timetable;
        struct aw_diag diag = {0};
        if (aw_timetable_init(&timetable, cases[i].config, &diag) != cases[i].err)
            fail_msg("%s", cases[i].why);
        assert_true(cases[i].err == AW_OK || *diag.text);
    }
}

AW_TEST_GROUP("load-timetable")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_requests_are_as_far_apart_as_the_rate_says),
        cmocka_unit_test(the_same_seed_gives_the_same_moments_and_another_one_others),
        cmocka_unit_test(poisson_gaps_have_the_mean_and_deviation_of_an_exponential),
        cmocka_unit_test(a_load_is_followed_slot_by_slot_and_repeats),
        cmocka_unit_test(it_ends_after_so_many_requests_or_so_much_time),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
