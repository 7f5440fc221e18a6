/* standing_orders_test.c - what stands when, and for whom. */
#include "desk/standing_orders.h"

#include <stdio.h>
#include <string.h>

#include "base/testing.h"

#define MIN INT64_C(60000000)

static struct aw_order order_of(uint32_t kind, uint32_t scope, const char *name)
{
    struct aw_order order = {.kind = kind,
                             .scope = scope,
                             .until_us = AW_FOR_EVER,
                             .freeze_until_us = AW_NEVER,
                             .reason = "a test",
                             .by = "tester"};
    snprintf(order.name, sizeof order.name, "%s", name);
    return order;
}

static void a_freeze_holds_whom_it_is_about_and_nobody_else(void **state)
{
    (void)state;
    static const struct {
        uint32_t scope;
        const char *name, *workload;
        bool frozen;
        const char *why;
    } cases[] = {
        {AW_SCOPE_WORKLOAD, "shop/cart", "shop/cart", true, "by its name"},
        {AW_SCOPE_WORKLOAD, "shop/cart", "shop/cart2", false, "a longer name is another one"},
        {AW_SCOPE_WORKLOAD, "shop/cart", "bank/cart", false, "another namespace"},
        {AW_SCOPE_NAMESPACE, "shop", "shop/cart", true, "by its namespace"},
        {AW_SCOPE_NAMESPACE, "shop", "shopping/cart", false, "a longer namespace is another one"},
        {AW_SCOPE_ALL, "", "bank/cart", true, "all are all"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_standing_orders book;
        assert_ok(aw_standing_orders_init(&book, NULL));
        const struct aw_order order = order_of(AW_ORDER_FREEZE, cases[i].scope, cases[i].name);
        assert_ok(aw_standing_orders_apply(&book, 5, 0, &order, NULL));
        struct aw_orders orders;
        aw_standing_orders_orders(&book, cases[i].workload, MIN, &orders);
        if ((orders.freeze == AW_GUARD_FREEZE_ALL) != cases[i].frozen)
            fail_msg("%s", cases[i].why);
        assert_int_equal(orders.freeze_id, cases[i].frozen ? 5 : 0);
        aw_standing_orders_deinit(&book);
    }
}

static void a_freeze_ends_when_it_said_and_not_before(void **state)
{
    (void)state;
    struct aw_standing_orders book;
    assert_ok(aw_standing_orders_init(&book, NULL));
    struct aw_order order = order_of(AW_ORDER_FREEZE, AW_SCOPE_ALL, "");
    order.until_us = 10 * MIN;
    assert_ok(aw_standing_orders_apply(&book, 1, 0, &order, NULL));
    struct aw_orders orders;
    aw_standing_orders_orders(&book, "a/b", 10 * MIN - 1, &orders);
    assert_int_equal(orders.freeze, AW_GUARD_FREEZE_ALL);
    aw_standing_orders_orders(&book, "a/b", 10 * MIN, &orders);
    assert_int_equal(orders.freeze, AW_GUARD_FREEZE_NONE);
    aw_standing_orders_expire(&book, 10 * MIN);
    assert_int_equal(book.freeze_count, 0);
    aw_standing_orders_deinit(&book);
}

static void the_strictest_freeze_counts(void **state)
{
    (void)state;
    struct aw_standing_orders book;
    assert_ok(aw_standing_orders_init(&book, NULL));
    struct aw_order all = order_of(AW_ORDER_FREEZE, AW_SCOPE_ALL, "");
    all.down_only = true;
    const struct aw_order one = order_of(AW_ORDER_FREEZE, AW_SCOPE_WORKLOAD, "a/b");
    assert_ok(aw_standing_orders_apply(&book, 1, 0, &all, NULL));
    struct aw_orders orders;
    aw_standing_orders_orders(&book, "a/b", MIN, &orders);
    assert_int_equal(orders.freeze, AW_GUARD_FREEZE_DOWN);
    assert_ok(aw_standing_orders_apply(&book, 2, 0, &one, NULL));
    aw_standing_orders_orders(&book, "a/b", MIN, &orders);
    assert_int_equal(orders.freeze, AW_GUARD_FREEZE_ALL);
    assert_int_equal(orders.freeze_id, 2);
    aw_standing_orders_orders(&book, "a/c", MIN, &orders);
    assert_int_equal(orders.freeze, AW_GUARD_FREEZE_DOWN);
    aw_standing_orders_deinit(&book);
}

static void unfreezing_lifts_the_very_scope_or_the_very_number(void **state)
{
    (void)state;
    struct aw_standing_orders book;
    assert_ok(aw_standing_orders_init(&book, NULL));
    const struct aw_order one = order_of(AW_ORDER_FREEZE, AW_SCOPE_WORKLOAD, "a/b");
    const struct aw_order all = order_of(AW_ORDER_FREEZE, AW_SCOPE_ALL, "");
    assert_ok(aw_standing_orders_apply(&book, 1, 0, &one, NULL));
    assert_ok(aw_standing_orders_apply(&book, 2, 0, &all, NULL));
    assert_ok(aw_standing_orders_apply(&book, 3, 0, &one, NULL));
    struct aw_order lift = order_of(AW_ORDER_UNFREEZE, AW_SCOPE_ALL, "");
    assert_ok(aw_standing_orders_apply(&book, 4, 0, &lift, NULL));
    assert_int_equal(book.freeze_count, 2); /* what a colleague froze by name stays */
    struct aw_orders orders;
    aw_standing_orders_orders(&book, "a/b", MIN, &orders);
    assert_int_equal(orders.freeze, AW_GUARD_FREEZE_ALL);
    lift = order_of(AW_ORDER_UNFREEZE, AW_SCOPE_ALL, "");
    lift.decision = 1;
    assert_ok(aw_standing_orders_apply(&book, 5, 0, &lift, NULL));
    assert_int_equal(book.freeze_count, 1);
    assert_int_equal(book.freeze[0].id, 3);
    aw_standing_orders_deinit(&book);
}

static void an_undo_pins_until_it_is_done_and_freezes_for_a_while(void **state)
{
    (void)state;
    struct aw_standing_orders book;
    assert_ok(aw_standing_orders_init(&book, NULL));
    struct aw_order undo = order_of(AW_ORDER_UNDO, AW_SCOPE_WORKLOAD, "a/b");
    undo.decision = 3;
    undo.plan = (struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 4};
    undo.until_us = 10 * MIN;
    undo.freeze_until_us = 30 * MIN;
    assert_ok(aw_standing_orders_apply(&book, 7, 0, &undo, NULL));
    struct aw_orders orders;
    aw_standing_orders_orders(&book, "a/b", MIN, &orders);
    assert_int_equal(orders.pin_kind, AW_ORDER_UNDO);
    assert_int_equal(orders.pin.replicas, 4);
    assert_int_equal(orders.freeze, AW_GUARD_FREEZE_ALL);
    aw_standing_orders_done(&book, 7);
    aw_standing_orders_orders(&book, "a/b", MIN, &orders);
    assert_int_equal(orders.pin.set, 0);
    assert_int_equal(orders.freeze, AW_GUARD_FREEZE_ALL);
    aw_standing_orders_orders(&book, "a/b", 30 * MIN, &orders);
    assert_int_equal(orders.freeze, AW_GUARD_FREEZE_NONE);
    aw_standing_orders_deinit(&book);
}

static void a_later_pin_takes_the_place_of_an_earlier_one(void **state)
{
    (void)state;
    struct aw_standing_orders book;
    assert_ok(aw_standing_orders_init(&book, NULL));
    struct aw_order pin = order_of(AW_ORDER_APPROVE, AW_SCOPE_WORKLOAD, "a/b");
    pin.plan = (struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 4};
    assert_ok(aw_standing_orders_apply(&book, 1, 0, &pin, NULL));
    pin.kind = AW_ORDER_UNDO;
    pin.plan.replicas = 2;
    assert_ok(aw_standing_orders_apply(&book, 2, 0, &pin, NULL));
    assert_int_equal(book.pin_count, 1);
    struct aw_orders orders;
    aw_standing_orders_orders(&book, "a/b", MIN, &orders);
    assert_int_equal(orders.pin.replicas, 2);
    aw_standing_orders_deinit(&book);
}

static void an_emergency_stands_then_is_let_down_slowly_then_is_gone(void **state)
{
    (void)state;
    struct aw_standing_orders book;
    assert_ok(aw_standing_orders_init(&book, NULL));
    struct aw_order order = order_of(AW_ORDER_EMERGENCY, AW_SCOPE_WORKLOAD, "a/b");
    order.until_us = 60 * MIN;
    order.plan = (struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 20};
    assert_ok(aw_standing_orders_apply(&book, 1, 0, &order, NULL));
    struct aw_orders orders;
    uint32_t last = 20;
    for (int64_t minute = 0; minute < 60; minute++) {
        aw_standing_orders_orders(&book, "a/b", minute * MIN, &orders);
        assert_true(orders.urgent);
        assert_int_equal(orders.floor.replicas, 20);
    }
    for (int64_t minute = 60; minute < 120; minute++) {
        aw_standing_orders_orders(&book, "a/b", minute * MIN, &orders);
        assert_false(orders.urgent);
        assert_in_range(orders.floor.replicas, 1, last);
        assert_true(10 * (orders.floor.replicas + 1) >= 7 * last); /* never much at once */
        last = orders.floor.replicas;
    }
    assert_in_range(last, 1, 2);
    aw_standing_orders_orders(&book, "a/b", 120 * MIN, &orders);
    assert_int_equal(orders.floor.set, 0);
    aw_standing_orders_expire(&book, 120 * MIN);
    assert_int_equal(book.pin_count, 0);
    aw_standing_orders_deinit(&book);
}

static void calming_begins_the_let_down_now(void **state)
{
    (void)state;
    struct aw_standing_orders book;
    assert_ok(aw_standing_orders_init(&book, NULL));
    struct aw_order order = order_of(AW_ORDER_EMERGENCY, AW_SCOPE_WORKLOAD, "a/b");
    order.plan = (struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 20};
    assert_ok(aw_standing_orders_apply(&book, 1, 0, &order, NULL));
    const struct aw_order calm = order_of(AW_ORDER_CALM, AW_SCOPE_WORKLOAD, "a/b");
    assert_ok(aw_standing_orders_apply(&book, 2, 5 * MIN, &calm, NULL));
    struct aw_orders orders;
    aw_standing_orders_orders(&book, "a/b", 5 * MIN, &orders);
    assert_false(orders.urgent);
    assert_in_range(orders.floor.replicas, 14, 19);
    aw_standing_orders_deinit(&book);
}

static void a_full_book_refuses_and_loses_nothing(void **state)
{
    (void)state;
    struct aw_standing_orders book;
    struct aw_diag diag = {0};
    assert_ok(aw_standing_orders_init(&book, NULL));
    const struct aw_order order = order_of(AW_ORDER_FREEZE, AW_SCOPE_WORKLOAD, "a/b");
    for (uint32_t i = 0; i < AW_STANDING_ORDERS_FREEZES_MAX; i++)
        assert_ok(aw_standing_orders_apply(&book, i + 1, 0, &order, NULL));
    assert_int_equal(aw_standing_orders_apply(&book, 9999, 0, &order, &diag), AW_ERR_LIMIT);
    assert_non_null(strstr(diag.text, "lift some first"));
    assert_int_equal(book.freeze_count, AW_STANDING_ORDERS_FREEZES_MAX);
    aw_standing_orders_deinit(&book);
}

static void an_order_survives_the_log(void **state)
{
    (void)state;
    struct aw_order order = order_of(AW_ORDER_UNDO, AW_SCOPE_WORKLOAD, "a/b"), back;
    order.down_only = true;
    order.decision = 1234567890123;
    order.until_us = 77;
    order.freeze_until_us = -5;
    order.plan = (struct aw_plan){.set = AW_PLAN_REPLICAS | AW_PLAN_MEMORY,
                                  .amount = {4, 0, (int64_t)3 << 30}};
    json_t *json = aw_order_to_json(&order);
    assert_non_null(json);
    assert_ok(aw_order_from_json(json, &back, NULL));
    assert_memory_equal(&order.plan, &back.plan, sizeof order.plan);
    assert_int_equal(back.kind, order.kind);
    assert_int_equal(back.decision, order.decision);
    assert_int_equal(back.until_us, 77);
    assert_int_equal(back.freeze_until_us, -5);
    assert_true(back.down_only);
    assert_string_equal(back.reason, "a test");
    assert_string_equal(back.by, "tester");
    json_decref(json);
    order.until_us = AW_FOR_EVER;
    order.freeze_until_us = AW_NEVER;
    json = aw_order_to_json(&order);
    assert_ok(aw_order_from_json(json, &back, NULL));
    assert_true(back.until_us == AW_FOR_EVER && back.freeze_until_us == AW_NEVER);
    json_decref(json);
}

static void where_a_policy_is_survives_the_log(void **state)
{
    (void)state;
    struct aw_order order = order_of(AW_ORDER_PROPOSE, AW_SCOPE_WORKLOAD, "a/b"), back;
    order.policy = (struct aw_order_policy){
        .id = UINT64_C(0x00ab54a98ceb1f0a), .first = 41, .parts = 3, .bytes = 70000};
    snprintf(order.policy.checksum, sizeof order.policy.checksum, "0123456789abcdef");
    json_t *json = aw_order_to_json(&order);
    assert_ok(aw_order_from_json(json, &back, NULL));
    assert_memory_equal(&order.policy, &back.policy, sizeof order.policy);
    json_object_set_new(json_object_get(json, "policy"), "id", json_string("another"));
    assert_int_equal(aw_order_from_json(json, &back, NULL), AW_ERR_FORMAT);
    json_decref(json);
}

static void what_is_no_order_is_refused_by_the_member_that_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *key;
    } cases[] = {
        {"[]", ""},
        {"{}", "order"},
        {"{\"order\":\"explode\"}", "order"},
        {"{\"order\":7}", "order"},
        {"{\"order\":\"freeze\",\"scope\":\"galaxy\"}", "scope"},
        {"{\"order\":\"freeze\",\"name\":7}", "name"},
        {"{\"order\":\"freeze\",\"name\":\"a\\u0000b\"}", "name"},
        {"{\"order\":\"freeze\",\"down_only\":\"false\"}", "down_only"},
        {"{\"order\":\"freeze\",\"until_us\":\"2h\"}", "until_us"},
        {"{\"order\":\"freeze\",\"until_us\":1.5}", "until_us"},
        {"{\"order\":\"undo\",\"decision\":-1}", "decision"},
        {"{\"order\":\"undo\",\"plan\":7}", "plan"},
        {"{\"order\":\"undo\",\"plan\":{\"replicas\":0}}", "replicas"},
        {"{\"order\":\"undo\",\"plan\":{\"replicas\":99999}}", "replicas"},
        {"{\"order\":\"undo\",\"plan\":{\"memory_bytes\":-4}}", "memory_bytes"},
        {"{\"order\":\"freeze\",\"forever\":true}", "forever"},
        {"{\"order\":\"propose\"}", "policy"},
        {"{\"order\":\"propose\",\"policy\":{\"id\":\"0123456789abcdef\"}}", "policy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *json = json_loads(cases[i].text, JSON_ALLOW_NUL, NULL);
        struct aw_order order = {.kind = 42};
        struct aw_diag diag = {0};
        assert_non_null(json);
        assert_int_equal(aw_order_from_json(json, &order, &diag), AW_ERR_FORMAT);
        assert_string_equal(diag.key, cases[i].key);
        assert_int_equal(order.kind, 42);
        json_decref(json);
    }
}

static void an_order_that_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    struct aw_diag diag = {0};
    struct aw_order order = order_of(AW_ORDER_FREEZE, AW_SCOPE_WORKLOAD, "");
    assert_int_equal(aw_order_check(&order, &diag), AW_ERR_CONFIG);
    assert_string_equal(diag.key, "name");
    order = order_of(AW_ORDER_FREEZE, AW_SCOPE_ALL, "shop");
    assert_int_equal(aw_order_check(&order, &diag), AW_ERR_CONFIG);
    order = order_of(AW_ORDER_EMERGENCY, AW_SCOPE_NAMESPACE, "shop");
    assert_int_equal(aw_order_check(&order, &diag), AW_ERR_CONFIG);
    assert_string_equal(diag.key, "scope");
    order = order_of(AW_ORDER_FREEZE, AW_SCOPE_ALL, "");
    order.reason[0] = '\0';
    assert_int_equal(aw_order_check(&order, &diag), AW_ERR_CONFIG);
    assert_string_equal(diag.key, "reason");
    order.kind = AW_ORDER_NONE;
    assert_int_equal(aw_order_check(&order, &diag), AW_ERR_CONFIG);
}

AW_TEST_GROUP("standing-orders")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_freeze_holds_whom_it_is_about_and_nobody_else),
        cmocka_unit_test(a_freeze_ends_when_it_said_and_not_before),
        cmocka_unit_test(the_strictest_freeze_counts),
        cmocka_unit_test(unfreezing_lifts_the_very_scope_or_the_very_number),
        cmocka_unit_test(an_undo_pins_until_it_is_done_and_freezes_for_a_while),
        cmocka_unit_test(a_later_pin_takes_the_place_of_an_earlier_one),
        cmocka_unit_test(an_emergency_stands_then_is_let_down_slowly_then_is_gone),
        cmocka_unit_test(calming_begins_the_let_down_now),
        cmocka_unit_test(a_full_book_refuses_and_loses_nothing),
        cmocka_unit_test(an_order_survives_the_log),
        cmocka_unit_test(where_a_policy_is_survives_the_log),
        cmocka_unit_test(what_is_no_order_is_refused_by_the_member_that_is_wrong),
        cmocka_unit_test(an_order_that_cannot_be_meant_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
