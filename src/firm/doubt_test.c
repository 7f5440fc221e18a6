/*
 * doubt_test.c - spans that are late, missing or lie: nothing shrinks on their word, and nobody is
 * touched but who is short of something by its own group's figures.
 *
 * Each seed is a day of its own: a graph, a spell in which spans lie in one way or another, and in
 * half of the days something that is really wrong with one service.
 */
#include <math.h>
#include <string.h>

#include "base/testing.h"
#include "firm/intake.h"
#include "firm/manager.h"
#include "graph/campaign.h"

#define SEEDS       200u
#define STEPS       64u /* 32 s */
#define LIE_FROM    24u /* what is usual is known by then */
#define LIE_UNTIL   48u
#define HELD_MAX    (1u << 17)
#define FAULT_FROM  30u
#define FAULT_UNTIL 44u

enum lie { LIE_NONE, LIE_MISSING, LIE_MOST, LIE_ROOTS, LIE_LATE, LIE_SKEW, LIE_STRETCHED, LIES };

struct day {
    enum lie lie;
    uint32_t victim; /* service that spans lie about */
    uint32_t target; /* service with a real fault; AW_GRAPH_NONE: none */
    struct aw_rng rng;
    uint32_t held_count;
    double limit[AW_GRAPH_SERVICES_MAX][AW_GRAPH_RESOURCES]; /* when the lie began */
    uint64_t next_order;
    uint32_t shrunk_in_lie, shrunk, elsewhere, on_target;
    bool lied;  /* within this step */
    bool shows; /* and what is decided on has it */
};

static struct aw_graph_app app;
static struct aw_classifier classifier;
static struct aw_span held[HELD_MAX];
static struct aw_span told[AW_GRAPH_SPANS_MAX];

static void shop_make(void)
{
    static const struct {
        const char *name, *calls;
        enum aw_graph_class sort;
        double cpu_ms;
    } services[] = {
        {"front", "auth, par(cart, catalogue), 0.2?pay", AW_GRAPH_WEB, 0.5},
        {"auth", "", AW_GRAPH_LOGIC, 0.6},
        {"cart", "cart-db", AW_GRAPH_LOGIC, 1},
        {"cart-db", "", AW_GRAPH_STORE, 0.8},
        {"catalogue", "", AW_GRAPH_CACHE, 0.4},
        {"pay", "", AW_GRAPH_LOGIC, 1.5},
    };
    aw_graph_app_init(&app, "shop", 200);
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        uint32_t service;
        assert_ok(aw_graph_app_service(&app, services[i].name, services[i].sort, &service, NULL));
        assert_ok(aw_graph_app_op(&app, service, "", services[i].cpu_ms, services[i].calls, NULL));
    }
    assert_ok(aw_graph_app_type(&app, "order", "front", 1, 40, NULL));
    assert_ok(aw_graph_app_finish(&app, NULL));
    assert_ok(aw_firm_localizer(&classifier, NULL));
}

/* What arrives of what was sent. */
static uint32_t tell(struct day *day, const struct aw_spans *spans, const struct aw_names *names,
                     bool lying)
{
    uint32_t count = 0;
    /* traces are whole one step later: how long the first of them took shows only then */
    const bool shows = day->lied || (day->lie != LIE_SKEW && day->lie != LIE_STRETCHED);
    day->lied = lying && day->lie != LIE_NONE;
    day->shows = day->lied && shows;
    if (!lying || day->lie != LIE_LATE) { /* what was held back comes at last */
        memcpy(told, held, day->held_count * sizeof *held);
        count = day->held_count;
        day->held_count = 0;
    }
    for (uint32_t i = 0; i < spans->count && count < AW_GRAPH_SPANS_MAX; i++) {
        struct aw_span span = spans->at[i];
        const bool of_victim =
            strcmp(aw_names_text(names, span.service), app.services[day->victim].name) == 0;
        if (!day->lied) {
            told[count++] = span;
            continue;
        }
        switch (day->lie) {
        case LIE_MISSING:
            continue;
        case LIE_MOST:
            if (aw_rng_double(&day->rng) < 0.6)
                continue;
            break;
        case LIE_ROOTS:
            if (!span.parent)
                continue;
            break;
        case LIE_LATE:
            if (day->held_count < HELD_MAX)
                held[day->held_count++] = span;
            continue;
        case LIE_SKEW: /* a clock that is off by more than the SLO */
            if (of_victim) {
                span.start_ns += 70000000;
                span.end_ns += 70000000;
            }
            break;
        case LIE_STRETCHED: /* says that it was slow, and was not */
            if (of_victim)
                span.start_ns -= 60000000;
            if (!span.parent)
                span.end_ns += 60000000;
            break;
        case LIE_NONE:
        case LIES:
            break;
        }
        told[count++] = span;
    }
    return count;
}

static void orders_check(struct day *day, const struct aw_firm_desk *desk)
{
    for (; day->next_order < desk->order_count; day->next_order++) {
        const struct aw_firm_order *order = &desk->order[day->next_order % AW_FIRM_ORDERS_MAX];
        if (aw_firm_order_shrinks(order)) {
            day->shrunk++;
            /* whole traces that say it was slow: what was given in vain goes back, no further */
            const bool back = day->lie == LIE_STRETCHED && order->undo &&
                              order->kind == AW_FIRM_LIMIT &&
                              order->to >= 0.999 * day->limit[order->service][order->resource];
            day->shrunk_in_lie += day->shows && !back;
        } else if (order->service == day->target) {
            day->on_target++;
        } else {
            day->elsewhere++;
        }
    }
}

static void day_live(uint64_t seed, struct day *day)
{
    struct aw_graph_world *world;
    struct aw_firm_intake *intake;
    struct aw_firm_watch *watch;
    struct aw_firm_manager *manager;
    struct aw_firm_desk desk;
    const struct aw_graph_config config = {.seed = seed, .traced = 1, .skew_us = 300};
    const struct aw_firm_settings settings = {.trim_use = 0.5}; /* always something to take */
    *day = (struct day){.lie = (enum lie)(seed % LIES), .target = AW_GRAPH_NONE};
    aw_rng_init(&day->rng, seed, 3);
    day->victim = aw_rng_below(&day->rng, app.service_count);
    if (seed / LIES % 2)
        day->target = aw_rng_below(&day->rng, app.service_count);
    const struct aw_graph_stress none = {0};
    struct aw_graph_stress stress = {0};
    if (day->target != AW_GRAPH_NONE)
        aw_anomaly_add(&app, day->target, AW_ANOMALY_CPU, 0.8, &stress);
    assert_ok(aw_graph_world_new(&app, &config, NULL, &world));
    struct aw_names *names = &aw_graph_world_spans(world)->names;
    assert_ok(aw_firm_intake_new(&app, names, 1, NULL, &intake));
    assert_ok(aw_firm_watch_new(&app, names, &classifier, NULL, &watch));
    assert_ok(aw_firm_manager_new(AW_FIRM_RULE, &settings, &app, NULL, &manager));
    assert_ok(aw_firm_desk_init(&desk, &app, aw_graph_world_plant(world), NULL));
    for (uint32_t n = 1; n <= STEPS; n++) {
        struct aw_graph_reading readings[AW_GRAPH_SERVICES_MAX];
        struct aw_firm_taken taken;
        const struct aw_firm_sight *sight;
        const int64_t now = n * AW_FIRM_STEP_NS;
        if (day->target != AW_GRAPH_NONE && (n == FAULT_FROM || n == FAULT_UNTIL))
            aw_graph_world_stress(world, day->target, n == FAULT_FROM ? &stress : &none);
        if (n == LIE_FROM + 2)
            memcpy(day->limit, desk.limit, sizeof day->limit);
        aw_graph_world_run(world, now);
        aw_graph_world_read(world, readings);
        struct aw_spans *spans = aw_graph_world_spans(world);
        const uint32_t count = tell(day, spans, names, n > LIE_FROM && n <= LIE_UNTIL);
        aw_firm_intake_take(intake, told, count, readings, now, 0.5, &taken);
        aw_spans_reset(spans);
        assert_ok(aw_firm_watch_take(watch, taken.spans, taken.done, taken.done_count, readings,
                                     false, &sight));
        desk.doubt = taken.doubt;
        assert_ok(aw_firm_manager_step(manager, &desk, sight));
        orders_check(day, &desk);
    }
    aw_firm_desk_deinit(&desk);
    aw_firm_manager_free(manager);
    aw_firm_watch_free(watch);
    aw_firm_intake_free(intake);
    aw_graph_world_free(world);
}

static void spans_that_lie_shrink_nothing_and_touch_nobody_else(void **state)
{
    uint32_t trimmed = 0, mended = 0, faults = 0;
    (void)state;
    shop_make();
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct day day;
        day_live(seed, &day);
        if (day.shrunk_in_lie || day.elsewhere)
            fail_msg("seed %u, lie %u about %s, fault in %s: %u shrunk while spans lied, %u given "
                     "to others",
                     (unsigned)seed, day.lie, app.services[day.victim].name,
                     day.target == AW_GRAPH_NONE ? "nobody" : app.services[day.target].name,
                     day.shrunk_in_lie, day.elsewhere);
        if (day.lie == LIE_NONE) { /* the test could fail: while spans are good, things happen */
            trimmed += day.shrunk > 0;
            faults += day.target != AW_GRAPH_NONE;
            mended += day.on_target > 0;
        }
    }
    assert_true(trimmed > 0);
    assert_true(faults > 0 && mended > faults / 2);
}

static void doubt_has_a_reason_and_goes_when_spans_are_good_again(void **state)
{
    struct aw_graph_world *world;
    struct aw_firm_intake *intake;
    const struct aw_graph_config config = {.seed = 5, .traced = 1};
    struct aw_firm_taken taken;
    (void)state;
    shop_make();
    assert_ok(aw_graph_world_new(&app, &config, NULL, &world));
    struct aw_spans *spans = aw_graph_world_spans(world);
    assert_ok(aw_firm_intake_new(&app, &spans->names, 1, NULL, &intake));
    for (uint32_t n = 1; n <= 30; n++) {
        struct aw_graph_reading readings[AW_GRAPH_SERVICES_MAX];
        aw_graph_world_run(world, n * AW_FIRM_STEP_NS);
        aw_graph_world_read(world, readings);
        aw_firm_intake_take(intake, spans->at, n == 15 ? 0 : spans->count, readings,
                            n * AW_FIRM_STEP_NS, 0.5, &taken);
        aw_spans_reset(spans);
        if (n == 14 || n == 30)
            assert_false(taken.doubt);
        if (n == 16)
            assert_non_null(strstr(taken.why, "late or missing"));
        if (n == 18)
            assert_true(taken.doubt);
    }
    assert_true(taken.done_count > 50);
    aw_firm_intake_free(intake);
    aw_graph_world_free(world);
}

AW_TEST_GROUP("firm-doubt")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_that_lie_shrink_nothing_and_touch_nobody_else),
        cmocka_unit_test(doubt_has_a_reason_and_goes_when_spans_are_good_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
