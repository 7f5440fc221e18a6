/* relief_test.c - more while the SLO is missed, and slowly back. */
#include "safety/relief.h"

#include <math.h>

#include "base/testing.h"
#include "task/testing.h"

struct scene {
    struct aw_relief_settings settings;
    struct aw_relief_memory memory;
    struct aw_reading reading;
    struct aw_plan fallback; /* what it asks for */
    uint32_t controlled;
};

static void begin(struct scene *s)
{
    aw_conf_defaults(aw_relief_fields, &s->settings);
    aw_relief_begin(&s->memory);
    s->reading = aw_testing_reading(0);
    s->reading.replicas_ready = s->reading.replicas_wanted;
    s->fallback = (struct aw_plan){0};
    s->controlled = AW_PLAN_COMMON;
}

/* One step, and what comes of the fallback's plan. */
static struct aw_plan step(struct scene *s, enum aw_guard_slo slo, bool acted, uint32_t *raised)
{
    struct aw_plan plan = s->fallback;
    aw_relief_observe(&s->settings, &s->memory, &aw_testing_bounds, s->controlled, &s->reading, slo,
                      acted);
    const uint32_t set = aw_relief_floor(&s->settings, &s->memory, &aw_testing_bounds,
                                         s->controlled, &s->reading, &plan);
    if (raised)
        *raised = set;
    return plan;
}

/* The cluster follows at once. */
static void follow(struct scene *s, const struct aw_plan *plan)
{
    for (uint32_t r = 0; r < AW_RESOURCES; r++)
        if (plan->set & AW_PLAN_BIT(r))
            s->reading.wanted[r] = plan->amount[r];
    s->reading.replicas_ready = s->reading.replicas_wanted;
}

static void an_slo_that_is_met_raises_nothing(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    for (uint32_t t = 0; t < 100; t++) {
        uint32_t raised;
        const struct aw_plan plan = step(&s, t % 4 ? AW_GUARD_SLO_MET : AW_GUARD_SLO_MISSED, true,
                                         &raised); /* one of four is not two */
        assert_int_equal(raised, 0);
        assert_int_equal(plan.set, 0);
    }
}

static void misses_raise_replicas_then_size_in_turns(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    uint32_t first = 0, second = 0;
    for (uint32_t t = 0; t < 40 && !second; t++) {
        uint32_t raised;
        const struct aw_plan plan = step(&s, AW_GUARD_SLO_MISSED, true, &raised);
        const uint32_t changes = raised & aw_plan_differs(plan.amount, s.reading.wanted);
        if (changes && !first)
            first = changes;
        else if (changes)
            second = changes;
        follow(&s, &plan);
        s.reading.cpu_cores_used = 3.9; /* busy whatever it has */
    }
    assert_int_equal(first, AW_PLAN_REPLICAS);
    assert_true(second & AW_PLAN_CPU);
}

static void at_the_bound_the_size_grows_at_once(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    s.reading.replicas_wanted = s.reading.replicas_ready = aw_testing_bounds.replicas_max;
    uint32_t raised = 0;
    struct aw_plan plan = {0};
    for (uint32_t t = 0; t < 4; t++)
        plan = step(&s, AW_GUARD_SLO_MISSED, true, &raised);
    assert_int_equal(raised, AW_PLAN_CPU);
    assert_int_equal(plan.cpu_millicores, 1600);
}

static void a_raise_waits_for_the_one_before(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    for (uint32_t t = 0; t < 4; t++)
        step(&s, AW_GUARD_SLO_MISSED, true, NULL);
    assert_int_equal(s.memory.raises, 1);
    s.reading.replicas_wanted = 6; /* and four are ready */
    for (uint32_t t = 0; t < 10; t++)
        step(&s, AW_GUARD_SLO_MISSED, true, NULL);
    assert_int_equal(s.memory.raises, 1);
    for (uint32_t t = 0; t < 10; t++) /* who never gets ready does not wait for ever */
        step(&s, AW_GUARD_SLO_MISSED, true, NULL);
    assert_true(s.memory.raises >= 2);
}

static void the_floor_does_not_climb_on_itself(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    struct aw_plan plan = {0};
    for (uint32_t t = 0; t < 4; t++)
        plan = step(&s, AW_GUARD_SLO_MISSED, true, NULL);
    follow(&s, &plan);
    const int64_t once = s.reading.replicas_wanted;
    for (uint32_t t = 0; t < 20;
         t++) { /* missing nothing, the fallback content with what is there */
        plan = step(&s, AW_GUARD_SLO_MET, true, NULL);
        follow(&s, &plan);
        assert_true(s.reading.replicas_wanted <= once);
    }
}

static void met_steps_give_it_back_and_unknown_ones_do_not(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    for (uint32_t t = 0; t < 4; t++)
        step(&s, AW_GUARD_SLO_MISSED, true, NULL);
    const double raised = s.memory.replicas_ln;
    assert_true(raised > 0);
    for (uint32_t t = 0; t < 1000; t++)
        step(&s, AW_GUARD_SLO_UNKNOWN, true, NULL);
    assert_true(s.memory.replicas_ln == raised);
    uint32_t steps = 0;
    while (s.memory.replicas_ln > 0 && steps < 10000) {
        step(&s, AW_GUARD_SLO_MET, true, NULL);
        steps++;
    }
    assert_in_range(steps, s.settings.give_back - 1, s.settings.give_back + 1);
}

static void what_the_policy_brought_about_raises_nothing(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    for (uint32_t t = 0; t < 50; t++)
        assert_int_equal(step(&s, AW_GUARD_SLO_MISSED, false, NULL).set, 0);
    assert_int_equal(s.memory.raises, 0);
}

static void what_is_not_ours_is_not_raised_and_the_rest_goes_on_rising(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    s.controlled = AW_PLAN_REPLICAS;
    int64_t last = s.reading.replicas_wanted;
    for (uint32_t t = 0; t < 60; t++) {
        uint32_t raised;
        const struct aw_plan plan = step(&s, AW_GUARD_SLO_MISSED, true, &raised);
        assert_false(raised & AW_PLAN_CPU);
        follow(&s, &plan);
        assert_true(s.reading.replicas_wanted >= last);
        last = s.reading.replicas_wanted;
    }
    assert_true(last >= 12); /* four, raised again and again */
}

static void it_never_asks_for_less_than_the_fallback_nor_beyond_the_bounds(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 3, 0);
    for (uint32_t k = 0; k < 200; k++) {
        struct scene s;
        begin(&s);
        for (uint32_t t = 0; t < 60; t++) {
            s.fallback =
                (struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 1 + aw_rng_below(&rng, 20)};
            s.reading.cpu_cores_used = aw_rng_below(&rng, 5) ? 40 * aw_rng_double(&rng) : NAN;
            const struct aw_plan plan =
                step(&s, (enum aw_guard_slo)aw_rng_below(&rng, 3), aw_rng_below(&rng, 2), NULL);
            assert_true(plan.replicas >= s.fallback.replicas);
            assert_true(plan.replicas <= aw_testing_bounds.replicas_max);
            assert_true(plan.cpu_millicores <= aw_testing_bounds.cpu_millicores_max);
            follow(&s, &plan);
        }
    }
}

AW_TEST_GROUP("relief")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_slo_that_is_met_raises_nothing),
        cmocka_unit_test(misses_raise_replicas_then_size_in_turns),
        cmocka_unit_test(at_the_bound_the_size_grows_at_once),
        cmocka_unit_test(a_raise_waits_for_the_one_before),
        cmocka_unit_test(the_floor_does_not_climb_on_itself),
        cmocka_unit_test(met_steps_give_it_back_and_unknown_ones_do_not),
        cmocka_unit_test(what_the_policy_brought_about_raises_nothing),
        cmocka_unit_test(what_is_not_ours_is_not_raised_and_the_rest_goes_on_rising),
        cmocka_unit_test(it_never_asks_for_less_than_the_fallback_nor_beyond_the_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
