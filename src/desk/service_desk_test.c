/* service_desk_test.c - services of a graph on the record: before the deed, frozen, undone. */
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/testing.h"
#include "desk/service_desk.h"

static const char *const names[] = {"front", "cart"};
static char folder[64];

static struct aw_service_desk *desk_open(int64_t *ret_last_us)
{
    static struct aw_service_desk_config config;
    struct aw_service_desk *desk = NULL;
    snprintf(config.folder, sizeof config.folder, "%s/audit", folder);
    snprintf(config.journal, sizeof config.journal, "%s/decisions.db", folder);
    config.audit.no_sync = true;
    config.graph = "shop";
    config.services = names;
    config.count = 2;
    assert_ok(aw_service_desk_new(&config, &desk, ret_last_us, NULL));
    return desk;
}

static void folder_make(void)
{
    snprintf(folder, sizeof folder, "/tmp/aw-services-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static const struct aw_service_change give = {.service = 1,
                                              .actor = "firm-rule",
                                              .resource = "disk",
                                              .from = 160,
                                              .to = 480,
                                              .undoable = true,
                                              .what = "disk 160 -> 480",
                                              .why = "+84 ms exclusive: needs disk"};
static const struct aw_service_change shrink = {.service = 1,
                                                .actor = "firm-rule",
                                                .resource = "cpu",
                                                .from = 2,
                                                .to = 1,
                                                .shrinks = true,
                                                .undoable = true,
                                                .what = "cpu 2 -> 1",
                                                .why = "it uses less"};

static enum aw_err count_decisions(void *ctx, const struct aw_audit_entry *entry)
{
    *(uint32_t *)ctx += !strcmp(entry->kind, "decision");
    return AW_OK;
}

static uint32_t decisions(void)
{
    char audit[96];
    uint32_t count = 0;
    struct aw_audit_report report;
    snprintf(audit, sizeof audit, "%s/audit", folder);
    assert_ok(aw_audit_verify(NULL, audit, NULL, count_decisions, &count, NULL, &report, NULL));
    return count;
}

static void a_change_is_in_the_log_before_it_is_done_and_can_be_explained(void **state)
{
    int64_t last_us;
    uint64_t id = 0;
    json_t *told = NULL;
    (void)state;
    folder_make();
    struct aw_service_desk *desk = desk_open(&last_us);
    assert_int_equal(last_us, 0);
    aw_service_desk_now(desk, 5000000);
    assert_ok(aw_service_desk_record(desk, &give, &id, NULL));
    assert_int_equal(decisions(), 1); /* whoever reads now finds it */
    aw_service_desk_outcome(desk, 1, id, 0, AW_OK);
    assert_ok(aw_service_desk_explain(desk, 1, 0, &told, NULL));
    assert_non_null(strstr(json_string_value(json_object_get(told, "sentence")), "needs disk"));
    json_decref(told);
    assert_int_equal(AW_ERR_NOTFOUND, aw_service_desk_explain(desk, 0, 0, &told, NULL));
    assert_int_equal(AW_ERR_NOTFOUND, aw_service_desk_explain(desk, 0, id, &told, NULL));
    aw_service_desk_free(desk, "the end");
}

static void a_freeze_holds_what_it_says_and_outlives_a_restart(void **state)
{
    int64_t last_us;
    uint64_t id = 0, order_id = 0;
    (void)state;
    folder_make();
    struct aw_service_desk *desk = desk_open(&last_us);
    struct aw_order order = {.kind = AW_ORDER_FREEZE,
                             .scope = AW_SCOPE_WORKLOAD,
                             .name = "cart",
                             .down_only = true,
                             .until_us = AW_FOR_EVER,
                             .freeze_until_us = AW_NEVER,
                             .reason = "launch"};
    aw_service_desk_now(desk, 1000000);
    assert_ok(aw_service_desk_order(desk, &order, &order_id, NULL));
    assert_int_equal(AW_ERR_CONFLICT, aw_service_desk_record(desk, &shrink, &id, NULL));
    assert_int_equal(AW_ERR_CONFLICT, aw_service_desk_record(desk, &shrink, &id, NULL));
    assert_int_equal(decisions(), 1); /* the wish, once */
    assert_ok(aw_service_desk_record(desk, &give, &id, NULL));
    order.down_only = false;
    assert_ok(aw_service_desk_order(desk, &order, &order_id, NULL));
    assert_int_equal(AW_ERR_CONFLICT, aw_service_desk_record(desk, &give, &id, NULL));
    aw_service_desk_free(desk, "the end");

    desk = desk_open(&last_us);
    assert_true(last_us >= 1000000);
    assert_int_equal(AW_ERR_CONFLICT, aw_service_desk_record(desk, &give, &id, NULL));
    struct aw_service_change other = give;
    other.service = 0;
    assert_ok(aw_service_desk_record(desk, &other, &id, NULL));
    order.kind = AW_ORDER_UNFREEZE;
    assert_ok(aw_service_desk_order(desk, &order, &order_id, NULL));
    assert_ok(aw_service_desk_record(desk, &give, &id, NULL));
    order.kind = AW_ORDER_EMERGENCY;
    assert_int_equal(AW_ERR_UNSUPPORTED, aw_service_desk_order(desk, &order, &order_id, NULL));
    aw_service_desk_free(desk, "the end");
}

static void the_latest_change_can_be_undone_and_then_the_service_rests(void **state)
{
    int64_t last_us;
    uint64_t first = 0, id = 0, order_id = 0;
    struct aw_service_undo undo;
    (void)state;
    folder_make();
    struct aw_service_desk *desk = desk_open(&last_us);
    assert_ok(aw_service_desk_record(desk, &shrink, &first, NULL));
    assert_ok(aw_service_desk_record(desk, &give, &id, NULL));
    struct aw_order order = {.kind = AW_ORDER_UNDO,
                             .decision = first,
                             .until_us = AW_FOR_EVER,
                             .freeze_until_us = AW_NEVER};
    assert_int_equal(AW_ERR_CONFLICT, aw_service_desk_order(desk, &order, &order_id, NULL));
    assert_false(aw_service_desk_undo(desk, &undo));
    order.decision = id;
    assert_ok(aw_service_desk_order(desk, &order, &order_id, NULL));
    assert_true(aw_service_desk_undo(desk, &undo));
    assert_int_equal(undo.service, 1);
    assert_string_equal(undo.resource, "disk");
    assert_true(undo.to == 160 && undo.from == 480);
    aw_service_desk_outcome(desk, 1, id, order_id, AW_OK);
    assert_int_equal(AW_ERR_CONFLICT, aw_service_desk_record(desk, &give, &id, NULL));
    aw_service_desk_now(desk, (int64_t)3600 * 1000000);
    assert_ok(aw_service_desk_record(desk, &give, &id, NULL));
    order.decision = 9999;
    assert_int_equal(AW_ERR_NOTFOUND, aw_service_desk_order(desk, &order, &order_id, NULL));
    aw_service_desk_free(desk, "the end");
}

AW_TEST_GROUP("service-desk")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_in_the_log_before_it_is_done_and_can_be_explained),
        cmocka_unit_test(a_freeze_holds_what_it_says_and_outlives_a_restart),
        cmocka_unit_test(the_latest_change_can_be_undone_and_then_the_service_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
