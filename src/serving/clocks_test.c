/* clocks_test.c - the guard holds whatever the rule says, and the cap holds whatever both say. */
#include "serving/clocks.h"

#include <math.h>

#include "base/testing.h"

#define X_MIN 0.3

static struct aw_clocks_server server_at(double now_s, double worst_s)
{
    return (struct aw_clocks_server){
        .at_s = now_s,
        .missed_s = -INFINITY,
        .memory = 0.5,
        .healthy = true,
        .known = true,
        .slots = 4,
        .in_flight = 1,
        .goal = {{.slo_s = 10, .memory = 0.5, .worst_s = worst_s, .latency_s = worst_s}},
        .runs = 1,
        .run = {{10 - worst_s, 1, 0.5}}};
}

static struct aw_clocks_config config_of(uint32_t rule)
{
    struct aw_clocks_config config = {.power = aw_power_defaults};
    config.power.rule = rule;
    return config;
}

static void a_clock_goes_down_in_bounded_steps_and_up_at_once(void **state)
{
    static const uint32_t rules[] = {AW_POWER_MIAD, AW_POWER_PREDICTIVE};
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        const struct aw_clocks_config config = config_of(rules[k]);
        struct aw_clocks clocks;
        struct aw_clocks_choice c;
        const struct aw_clocks_device device = {.read_x = 1, .servers = 1};
        assert_ok(aw_clocks_init(&clocks, &config, 1, X_MIN, NULL));
        double now_s = 100, before = 1;
        for (; now_s < 140; now_s++) {
            struct aw_clocks_server s = server_at(now_s, 1);
            assert_true(aw_clocks_decide(&clocks, now_s, &s, 1, &device, &c));
            assert_true(c.x >= before - 0.1 - 1e-9 && c.x >= X_MIN);
            before = c.x;
        }
        assert_true(before < 0.7);
        struct aw_clocks_server s = server_at(now_s, 11);
        s.missed_s = now_s;
        (void)aw_clocks_decide(&clocks, now_s, &s, 1, &device, &c);
        assert_true(c.x > 0.999 && c.why == AW_CLOCKS_MISSED);
        s = server_at(now_s + 5, 1);
        s.missed_s = now_s;
        (void)aw_clocks_decide(&clocks, now_s + 5, &s, 1, &device, &c);
        assert_true(c.x > 0.999 && c.why == AW_CLOCKS_HOLD);
    }
}

static void what_is_not_known_is_no_reason_to_go_down(void **state)
{
    static const struct {
        enum aw_clocks_why why;
        bool unhealthy, unknown, lost, unset;
        double age_s;
        const char *name;
    } cases[] = {
        {AW_CLOCKS_DOWN, .unhealthy = true, .name = "an upstream that is down"},
        {AW_CLOCKS_UNKNOWN, .unknown = true, .name = "no lengths yet"},
        {AW_CLOCKS_LOST, .lost = true, .name = "a device that is lost"},
        {AW_CLOCKS_UNSET, .unset = true, .name = "a set that failed"},
        {AW_CLOCKS_STALE, .age_s = 3, .name = "figures that are old"},
        {AW_CLOCKS_STALE, .age_s = INFINITY, .name = "no figures at all"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aw_clocks_config config = config_of(AW_POWER_MIAD);
        struct aw_clocks clocks;
        struct aw_clocks_choice c;
        struct aw_clocks_device device = {.read_x = 1, .servers = 1};
        assert_ok(aw_clocks_init(&clocks, &config, 1, X_MIN, NULL));
        struct aw_clocks_server s = server_at(100, 1);
        for (uint32_t k = 0; k < 5; k++)
            (void)aw_clocks_decide(&clocks, 100, &s, 1, &device, &c);
        assert_true(c.x < 0.95);
        s.healthy = !cases[i].unhealthy;
        s.known = !cases[i].unknown;
        s.at_s -= cases[i].age_s;
        device.read_x = cases[i].lost ? NAN : 1;
        device.unset = cases[i].unset;
        (void)aw_clocks_decide(&clocks, 100, &s, 1, &device, &c);
        if (c.why != cases[i].why || c.x < 0.999)
            fail_msg("%s: %s, %g", cases[i].name, aw_clocks_why_text(c.why), c.x);
    }
}

/* One server that is slow on two devices, one that is fast on the second. */
static void a_shared_device_follows_the_server_that_needs_most(void **state)
{
    const struct aw_clocks_config config = config_of(AW_POWER_PREDICTIVE);
    struct aw_clocks clocks;
    struct aw_clocks_choice c[2];
    const struct aw_clocks_device device[] = {{.read_x = 1, .servers = 1},
                                              {.read_x = 1, .servers = 3}};
    (void)state;
    assert_ok(aw_clocks_init(&clocks, &config, 2, X_MIN, NULL));
    for (double t = 0; t < 20; t++) {
        struct aw_clocks_server s[] = {server_at(t, 1), server_at(t, 1)};
        s[1].run[0].work_s = 7;
        (void)aw_clocks_decide(&clocks, t, s, 2, device, c);
    }
    assert_true(c[0].x < 0.5 && c[1].x > 0.8);
    assert_int_equal(c[1].server, 1);
}

static void the_cap_is_above_the_guard_and_a_cap_that_cannot_be_is_refused(void **state)
{
    const struct aw_gpu_kind *kind = aw_gpu_kind_find("v100");
    struct aw_clocks_config config = config_of(AW_POWER_FIXED);
    struct aw_clocks clocks;
    struct aw_clocks_choice c[2];
    struct aw_diag diag = {0};
    (void)state;
    config.cap_w = 20;
    config.kind = kind;
    assert_int_equal(aw_clocks_init(&clocks, &config, 2, aw_gpu_x_min(kind), &diag), AW_ERR_CONFIG);
    config.cap_w = 250;
    assert_ok(aw_clocks_init(&clocks, &config, 2, aw_gpu_x_min(kind), NULL));
    double read[2] = {1, 1};
    for (double t = 0; t < 5; t += 0.1) {
        struct aw_clocks_server s = server_at(t, 11);
        s.missed_s = t; /* it wants all there is */
        const struct aw_clocks_device device[] = {{.read_x = read[0], .servers = 1},
                                                  {.read_x = read[1], .servers = 1}};
        assert_true(aw_clocks_decide(&clocks, t, &s, 1, device, c));
        read[0] = c[0].x;
        read[1] = c[1].x;
        assert_true(aw_cap_watts(&clocks.cap, c[0].x) + aw_cap_watts(&clocks.cap, c[1].x) <= 250);
    }
    assert_int_equal(c[0].why, AW_CLOCKS_CAP);
    assert_true(c[0].x > aw_gpu_x_min(kind) + 0.1); /* and what it leaves is used */
}

AW_TEST_GROUP("serving-clocks")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_goes_down_in_bounded_steps_and_up_at_once),
        cmocka_unit_test(what_is_not_known_is_no_reason_to_go_down),
        cmocka_unit_test(a_shared_device_follows_the_server_that_needs_most),
        cmocka_unit_test(the_cap_is_above_the_guard_and_a_cap_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
