/* pilot_orders_test.c - an emergency, from the order to the last of it, whatever may be scaled.
 *
 * The complaint behind it (mercari/tortoise#422, #444, #446): an emergency mode that misfired where
 * only sizes are scaled, and that never came back to normal. */
#include "base/units.h"
#include "control/pilot_internal.h"
#include "control/pilot_testing.h"
#include "desk/standing_orders.h"

#define MINUTE_US INT64_C(60000000)
#define LASTS_MIN 30
#define ALL       (AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY)

static const struct aw_plan generous = {
    .set = ALL, .replicas = 9, .cpu_millicores = 3000, .memory_bytes = 3072 * AW_MIB};

static const struct {
    uint32_t controlled;
    const char *why;
} scaled[] = {
    {AW_PLAN_REPLICAS, "replicas alone"},
    {AW_PLAN_CPU | AW_PLAN_MEMORY, "sizes alone"},
    {ALL, "both"},
    {AW_PLAN_REPLICAS | AW_PLAN_MEMORY, "replicas and memory"},
};
#define SCALED (sizeof scaled / sizeof *scaled)

/* The amounts of a sample, in the order of enum aw_resource. */
static void amounts(const struct aw_sample *sample, double *ret)
{
    ret[AW_RESOURCE_REPLICAS] = sample->replicas_wanted;
    ret[AW_RESOURCE_CPU] = (double)sample->cpu_millicores_wanted;
    ret[AW_RESOURCE_MEMORY] = (double)sample->memory_bytes_wanted;
}

static void wanted_now(struct bench *b, double *ret)
{
    struct aw_sample sample;
    assert_ok(b->cluster.ops->observe(b->cluster.self, 0, INT64_MAX, &sample));
    amounts(&sample, ret);
}

static void begin(struct bench *b, uint32_t controlled, bool agent)
{
    bench_prepare(b);
    b->config.controlled = controlled;
    b->config.learning = agent;
    b->config.lifecycle.bootstrap = false; /* the agent acts, whatever it is worth */
    b->config.watchdog.slack = 1e9;
    b->config.fallback.kind = AW_FALLBACK_HPA_VPA;
    bench_begin(b);
    if (agent) {
        bench_until_it_acts(b, EPISODE);
        b->pilot->config.learning = false; /* who acts, acts as he does */
    } else
        for (uint32_t t = 0; t < 3 * EPISODE; t++)
            bench_tick(b);
}

static int64_t now_us(const struct bench *b)
{
    return b->cluster.ops->now_us(b->cluster.self);
}

static void order_emergency(struct aw_standing_orders *book, const struct bench *b)
{
    struct aw_order order = {.kind = AW_ORDER_EMERGENCY,
                             .scope = AW_SCOPE_WORKLOAD,
                             .until_us = now_us(b) + LASTS_MIN * MINUTE_US,
                             .plan = generous,
                             .reason = "the sale begins",
                             .by = "tester"};
    snprintf(order.name, sizeof order.name, "%s", b->config.name);
    assert_ok(aw_order_check(&order, NULL));
    assert_ok(aw_standing_orders_apply(book, 1, now_us(b), &order, NULL));
}

static const struct aw_decision *tick(struct bench *b, const struct aw_standing_orders *book)
{
    memset(&b->orders, 0, sizeof b->orders);
    aw_standing_orders_orders(book, b->config.name, now_us(b), &b->orders);
    return bench_tick(b);
}

static void an_emergency_is_generous_in_its_first_tick_past_every_rail_of_pace(void **state)
{
    (void)state;
    static const struct {
        bool frozen, off, silent, agent;
        const char *why;
    } row[] = {
        {false, false, false, false, "as it is"},
        {true, false, false, false, "frozen"},
        {false, true, false, false, "where aware only recommends"},
        {false, false, true, false, "while the cluster shows no figures"},
        {false, false, false, true, "while the agent acts"},
    };
    for (size_t i = 0; i < SCALED; i++)
        for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
            struct bench b;
            struct aw_standing_orders book;
            assert_ok(aw_standing_orders_init(&book, NULL));
            begin(&b, scaled[i].controlled, row[k].agent);
            if (row[k].off)
                b.pilot->rules.guard.settings.mode = AW_GUARD_OFF;
            /* tight: nothing may grow by more than a tenth, and not now */
            struct aw_guard_settings *guard = &b.pilot->rules.guard.settings;
            guard->replicas_up_factor = guard->cpu_up_factor = guard->memory_up_factor = 1.1;
            guard->replicas_up_least = 0;
            guard->restart_count = 1;
            guard->change_factor = 1.1;
            guard->size_up_cooldown = guard->replicas_up_cooldown = 3600;
            b.silent = row[k].silent;
            if (row[k].frozen) {
                struct aw_order freeze = {.kind = AW_ORDER_FREEZE,
                                          .scope = AW_SCOPE_ALL,
                                          .until_us = AW_FOR_EVER,
                                          .reason = "holidays",
                                          .by = "tester"};
                assert_ok(aw_standing_orders_apply(&book, 0, now_us(&b), &freeze, NULL));
            }
            double before[AW_RESOURCES], after[AW_RESOURCES];
            wanted_now(&b, before);
            order_emergency(&book, &b);
            const struct aw_decision *d = tick(&b, &book);
            wanted_now(&b, after);
            const double floor[] = {generous.replicas, (double)generous.cpu_millicores,
                                    (double)generous.memory_bytes};
            assert_int_equal(d->guard.plan.set & ~scaled[i].controlled, 0);
            assert_true(d->orders.urgent && d->orders.floor_id == 1);
            for (uint32_t a = 0; a < AW_RESOURCES; a++) {
                const bool ours = scaled[i].controlled & (1u << a);
                if (ours ? after[a] < floor[a] : after[a] != before[a])
                    fail_msg("%s, %s: axis %u went from %g to %g", scaled[i].why, row[k].why, a,
                             before[a], after[a]);
            }
            aw_standing_orders_deinit(&book);
            bench_end(&b);
        }
}

static void an_emergency_shrinks_nothing_while_it_lasts_and_ends_slowly_and_for_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < SCALED; i++)
        for (uint32_t agent = 0; agent < 2; agent++) {
            struct bench b, twin; /* the twin had no emergency */
            struct aw_standing_orders book, nothing;
            assert_ok(aw_standing_orders_init(&book, NULL));
            assert_ok(aw_standing_orders_init(&nothing, NULL));
            begin(&b, scaled[i].controlled, agent);
            begin(&twin, scaled[i].controlled, agent);
            order_emergency(&book, &b);
            const int64_t over = now_us(&b) + LASTS_MIN * MINUTE_US;
            const struct aw_guard_settings *guard = &b.config.guard;
            const double pace[] = {guard->replicas_down_factor, guard->cpu_down_factor,
                                   guard->memory_down_factor};
            const double floor[] = {generous.replicas, (double)generous.cpu_millicores,
                                    (double)generous.memory_bytes};
            double before[AW_RESOURCES], after[AW_RESOURCES], other[AW_RESOURCES];
            double least[AW_RESOURCES], least_other[AW_RESOURCES]; /* in the last hour */
            for (uint32_t a = 0; a < AW_RESOURCES; a++)
                least[a] = least_other[a] = INFINITY;
            wanted_now(&b, before);
            while (now_us(&b) < over + 2 * 60 * MINUTE_US) {
                const int64_t now = now_us(&b);
                const struct aw_decision *d = tick(&b, &book);
                tick(&twin, &nothing);
                wanted_now(&b, after);
                wanted_now(&twin, other);
                assert_int_equal(d->guard.plan.set & ~scaled[i].controlled, 0);
                for (uint32_t a = 0; a < AW_RESOURCES; a++) {
                    if (!(scaled[i].controlled & (1u << a)))
                        continue;
                    if (now < over)
                        assert_true(after[a] >= before[a]); /* nothing shrinks */
                    if (now < over + 5 * MINUTE_US)
                        assert_true(after[a] >= 0.7 * floor[a]);            /* slowly */
                    assert_true(ceil(before[a] / pace[a]) <= after[a] + 1); /* at the rails' pace */
                }
                for (uint32_t a = 0; a < AW_RESOURCES && now > over + 60 * MINUTE_US; a++) {
                    least[a] = fmin(least[a], after[a]);
                    least_other[a] = fmin(least_other[a], other[a]);
                }
                memcpy(before, after, sizeof before);
            }
            assert_false(b.orders.floor.set); /* it is over */
            for (uint32_t a = 0; a < AW_RESOURCES; a++)
                if (scaled[i].controlled & (1u << a) &&
                    least[a] > 1.25 * least_other[a] + (a == AW_RESOURCE_REPLICAS))
                    fail_msg("%s, %s: axis %u falls to %g, without an emergency to %g",
                             scaled[i].why, agent ? "agent" : "fallback", a, least[a],
                             least_other[a]);
            aw_standing_orders_deinit(&book);
            aw_standing_orders_deinit(&nothing);
            bench_end(&b);
            bench_end(&twin);
        }
}

static void an_emergency_that_is_called_off_ends_slowly_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < SCALED; i++) {
        struct bench b;
        struct aw_standing_orders book;
        assert_ok(aw_standing_orders_init(&book, NULL));
        begin(&b, scaled[i].controlled, false);
        order_emergency(&book, &b);
        tick(&b, &book);
        struct aw_order calm = {.kind = AW_ORDER_CALM,
                                .scope = AW_SCOPE_WORKLOAD,
                                .until_us = AW_FOR_EVER,
                                .decision = 1,
                                .reason = "false alarm",
                                .by = "tester"};
        snprintf(calm.name, sizeof calm.name, "%s", b.config.name);
        assert_ok(aw_standing_orders_apply(&book, 2, now_us(&b), &calm, NULL));
        double held[AW_RESOURCES];
        for (uint32_t t = 0; t < 8; t++) { /* two minutes */
            const struct aw_decision *d = tick(&b, &book);
            assert_false(d->orders.urgent);
        }
        wanted_now(&b, held);
        if (scaled[i].controlled & AW_PLAN_REPLICAS)
            assert_true(held[AW_RESOURCE_REPLICAS] >= 0.75 * generous.replicas);
        if (scaled[i].controlled & AW_PLAN_CPU)
            assert_true(held[AW_RESOURCE_CPU] >= 0.75 * (double)generous.cpu_millicores);
        for (uint32_t t = 0; t < 4 * 70 && b.orders.floor.set; t++)
            tick(&b, &book);
        assert_false(b.orders.floor.set);
        aw_standing_orders_deinit(&book);
        bench_end(&b);
    }
}

static void an_order_of_a_person_is_not_the_doing_of_a_policy(void **state)
{
    (void)state;
    struct bench b;
    begin(&b, ALL, true);
    b.orders.pin = generous;
    b.orders.pin_kind = AW_ORDER_UNDO;
    b.orders.pin_id = 5;
    const struct aw_decision *d = bench_tick(&b);
    assert_int_equal(d->actor, AW_ACTOR_PERSON);
    assert_false(d->canary.acts);
    assert_int_equal(d->guard.plan.replicas, generous.replicas);
    memset(&b.orders, 0, sizeof b.orders);
    assert_int_equal(bench_tick(&b)->actor, AW_ACTOR_AGENT);
    assert_int_equal(b.row.actor, AW_ACTOR_PERSON);
    bench_end(&b);
}

AW_TEST_GROUP("pilot-orders")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_emergency_is_generous_in_its_first_tick_past_every_rail_of_pace),
        cmocka_unit_test(an_emergency_shrinks_nothing_while_it_lasts_and_ends_slowly_and_for_good),
        cmocka_unit_test(an_emergency_that_is_called_off_ends_slowly_too),
        cmocka_unit_test(an_order_of_a_person_is_not_the_doing_of_a_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
