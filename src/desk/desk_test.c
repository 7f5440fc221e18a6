/* desk_test.c - the log before the deed, orders that hold, and what survives. */
#include "desk/desk_testing.h"

#include <pthread.h>
#include <unistd.h>

/* --- reading the log -------------------------------------------------------------------------- */

struct tally {
    uint32_t decisions, changes, outcomes, proposals, orders;
    uint64_t last_change; /* entry */
    uint64_t proposal;
    const char *workload; /* count only this one; NULL: all */
};

static bool about(const struct tally *tally, const struct aw_audit_entry *entry)
{
    if (!tally->workload)
        return true;
    char needle[AW_STORE_NAME_MAX + 16];
    snprintf(needle, sizeof needle, "\"workload\":\"%s\"", tally->workload);
    return memmem(entry->members, entry->members_len, needle, strlen(needle)) != NULL;
}

static enum aw_err count(void *ctx, const struct aw_audit_entry *entry)
{
    struct tally *tally = ctx;
    assert_true(entry->intact);
    if (!about(tally, entry))
        return AW_OK;
    if (!strcmp(entry->kind, "decision")) {
        static const char nothing[] = "\"changed\":[]";
        tally->decisions++;
        if (!memmem(entry->members, entry->members_len, nothing, sizeof nothing - 1)) {
            tally->changes++;
            tally->last_change = entry->seq;
        }
    }
    tally->outcomes += !strcmp(entry->kind, "outcome");
    tally->orders += !strcmp(entry->kind, "order");
    if (!strcmp(entry->kind, "proposal")) {
        tally->proposals++;
        tally->proposal = entry->seq;
    }
    return AW_OK;
}

static struct tally read_log(struct bench *b, const char *workload)
{
    struct tally tally = {.workload = workload};
    assert_ok(aw_audit_scan(&b->disk.disk, FOLDER, &AW_AUDIT_EVERY, count, &tally, NULL, NULL));
    return tally;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void every_change_is_in_the_log_with_what_became_of_it(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    begin(&b);
    attach(&b);
    run(&b, 300);
    const struct tally tally = read_log(&b, NULL);
    assert_true(b.applied[0] + b.applied[1] > 5);
    assert_int_equal(tally.changes, b.applied[0] + b.applied[1]);
    assert_int_equal(tally.outcomes, tally.changes);
    assert_true(tally.decisions < 300); /* what tells nothing new is not told */
    struct aw_audit_report report;
    assert_ok(aw_audit_verify(&b.disk.disk, FOLDER, NULL, NULL, NULL, NULL, &report, NULL));
    end(&b);
}

static void what_cannot_be_written_down_is_not_done(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    for (uint32_t w = 0; w < WORKLOADS; w++) /* whatever its latency: no SLO is missed */
        b.workload[w].pilot.slo.latency_us_p99 = 1e12;
    begin(&b);
    attach(&b);
    run(&b, 40);
    b.applied[0] = b.applied[1] = 0;
    b.disk.faults.read_only = true;
    const struct aw_plan before[] = {b.plan[0], b.plan[1]};
    bool wanted = false;
    for (uint32_t i = 0; i < 200; i++) {
        run(&b, 1);
        for (uint32_t w = 0; w < WORKLOADS; w++) {
            const struct aw_decision *d = aw_pilot_decision(aw_loop_pilot(aw_job_loop(b.job), w));
            wanted |= (d->guard.clips & AW_CLIP_BIT(AW_CLIP_UNRECORDED)) != 0;
            assert_int_equal(d->guard.plan.set, 0);
            assert_int_equal(b.plan[w].replicas, before[w].replicas);
        }
    }
    assert_true(wanted);
    assert_int_equal(b.applied[0] + b.applied[1], 0);
    assert_true(aw_desk_counts(b.desk)->held > 0);
    struct aw_diag diag = {0};
    assert_int_not_equal(aw_desk_health(b.desk, &diag), AW_OK);
    assert_true(*diag.text);
    b.disk.faults.read_only = false;
    run(&b, 200);
    assert_true(b.applied[0] + b.applied[1] > 0);
    assert_ok(aw_desk_health(b.desk, NULL));
    end(&b);
}

static uint32_t told;
static void hear_unwritten(void *ctx, const char *entry)
{
    (void)ctx;
    assert_non_null(strstr(entry, "\"late\":true"));
    assert_non_null(strstr(entry, "\"workload\":"));
    told++;
}

/* Entries of changes that were carried out before they were written, and when they were decided. */
static enum aw_err count_late(void *ctx, const struct aw_audit_entry *entry)
{
    static const char late[] = "\"late\":true";
    *(uint32_t *)ctx += memmem(entry->members, entry->members_len, late, sizeof late - 1) != NULL;
    return AW_OK;
}

static void a_full_disk_stops_no_growth_on_a_missed_slo(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    for (uint32_t w = 0; w < WORKLOADS; w++) /* every step misses it: growth is wanted for long */
        b.workload[w].pilot.slo.latency_us_p99 = 1;
    b.steward_config.unwritten = hear_unwritten;
    begin(&b);
    attach(&b);
    run(&b, 40);
    b.applied[0] = b.applied[1] = 0;
    told = 0;
    b.disk.faults.read_only = true;
    uint32_t held = 0;
    for (uint32_t i = 0; i < 400; i++) {
        run(&b, 1);
        for (uint32_t w = 0; w < WORKLOADS; w++) {
            const struct aw_decision *d = aw_pilot_decision(aw_loop_pilot(aw_job_loop(b.job), w));
            for (uint32_t r = 0; r < AW_RESOURCES; r++)
                if (d->guard.plan.set & AW_PLAN_BIT(r))
                    assert_true(d->guard.plan.amount[r] > d->reading.wanted[r]);
            held += (d->guard.clips & AW_CLIP_BIT(AW_CLIP_UNRECORDED)) != 0;
        }
    }
    const uint64_t grown = b.applied[0] + b.applied[1];
    assert_true(grown > 0);
    assert_true(held > 0); /* what shrinks */
    assert_int_equal(told, grown);
    const struct aw_desk_counts *counts = aw_desk_counts(b.desk);
    assert_int_equal(counts->late, grown);
    assert_int_equal(counts->late_waiting, grown);
    assert_int_not_equal(aw_desk_health(b.desk, NULL), AW_OK);
    b.disk.faults.read_only = false;
    run(&b, 100);
    assert_int_equal(aw_desk_counts(b.desk)->late_waiting, 0);
    assert_int_equal(aw_desk_counts(b.desk)->late_lost, 0);
    assert_ok(aw_desk_health(b.desk, NULL));
    uint32_t late = 0;
    assert_ok(aw_audit_scan(&b.disk.disk, FOLDER, &AW_AUDIT_EVERY, count_late, &late, NULL, NULL));
    assert_int_equal(late, grown);
    const struct tally tally = read_log(&b, NULL);
    assert_int_equal(tally.outcomes, tally.changes); /* each with what became of it */
    struct aw_audit_report report;
    assert_ok(aw_audit_verify(&b.disk.disk, FOLDER, NULL, NULL, NULL, NULL, &report, NULL));
    end(&b);
}

static void a_full_disk_records_growth_and_orders_in_reserved_blocks(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    for (uint32_t w = 0; w < WORKLOADS; w++)
        b.workload[w].pilot.slo.latency_us_p99 = 1;
    b.steward_config.audit.reserve_bytes = 1u << 20;
    b.steward_config.unwritten = hear_unwritten;
    begin(&b);
    attach(&b);
    run(&b, 40);
    b.applied[0] = b.applied[1] = 0;
    told = 0;
    b.disk.faults.space_bytes = 1;
    run(&b, 400);
    const uint64_t grown = b.applied[0] + b.applied[1];
    const struct aw_desk_counts *counts = aw_desk_counts(b.desk);
    assert_true(grown > 0);
    assert_int_equal(counts->late, grown);
    assert_int_equal(counts->late_waiting, 0); /* each is in the log, though the disk is full */
    struct aw_diag diag = {0};
    assert_int_not_equal(aw_desk_health(b.desk, &diag), AW_OK); /* which is said */
    assert_non_null(strstr(diag.text, "No space left"));
    uint32_t late = 0;
    assert_ok(aw_audit_scan(&b.disk.disk, FOLDER, &AW_AUDIT_EVERY, count_late, &late, NULL, NULL));
    assert_int_equal(late, grown);
    const struct aw_order order = order_of(AW_ORDER_FREEZE, AW_SCOPE_ALL, "");
    give(&b, &order);
    assert_int_equal(aw_desk_book(b.desk)->freeze_count, 1);
    assert_int_not_equal(aw_desk_health(b.desk, NULL), AW_OK);
    b.disk.faults.space_bytes = 0;
    give(&b, &(struct aw_order){.kind = AW_ORDER_UNFREEZE, .scope = AW_SCOPE_ALL});
    run(&b, 100);
    assert_ok(aw_desk_health(b.desk, NULL));
    const struct tally tally = read_log(&b, NULL);
    assert_int_equal(tally.outcomes, tally.changes);
    struct aw_audit_report report;
    assert_ok(aw_audit_verify(&b.disk.disk, FOLDER, NULL, NULL, NULL, NULL, &report, NULL));
    end(&b);
}

static void an_order_that_cannot_be_written_down_is_not_taken(void **state)
{
    (void)state;
    struct bench b;
    struct aw_diag diag;
    prepare(&b);
    begin(&b);
    attach(&b);
    run(&b, 10);
    b.disk.faults.read_only = true;
    const struct aw_order order = order_of(AW_ORDER_FREEZE, AW_SCOPE_ALL, "");
    assert_int_not_equal(refused(&b, &order, &diag), AW_OK);
    assert_non_null(strstr(diag.text, "not taken"));
    b.disk.faults.read_only = false;
    assert_int_equal(aw_desk_book(b.desk)->freeze_count, 0);
    give(&b, &order);
    assert_int_equal(aw_desk_book(b.desk)->freeze_count, 1);
    end(&b);
}

static void a_freeze_holds_at_once_and_over_a_restart(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    begin(&b);
    attach(&b);
    run(&b, 60);
    const struct aw_order order = order_of(AW_ORDER_FREEZE, AW_SCOPE_NAMESPACE, "shop");
    const uint64_t id = give(&b, &order);
    b.applied[0] = b.applied[1] = 0;
    run(&b, 200);
    assert_int_equal(b.applied[0], 0);
    assert_true(b.applied[1] > 0);

    stop(&b); /* the cluster begins anew, but the log remembers */
    begin(&b);
    attach(&b);
    b.applied[0] = b.applied[1] = 0;
    run(&b, 200);
    assert_int_equal(b.applied[0], 0);
    assert_true(b.applied[1] > 0);
    struct aw_order lift = order_of(AW_ORDER_UNFREEZE, AW_SCOPE_ALL, "");
    lift.decision = id;
    give(&b, &lift);
    run(&b, 200);
    assert_true(b.applied[0] > 0);
    end(&b);
}

static void undo_puts_it_back_and_keeps_it_there(void **state)
{
    (void)state;
    struct bench b;
    struct aw_diag diag;
    prepare(&b);
    begin(&b);
    attach(&b);
    struct tally tally = {0};
    uint32_t before = 0;
    for (uint32_t i = 0; i < 300 && tally.changes == 0; i++) {
        before = b.plan[0].replicas;
        run(&b, 1);
        tally = read_log(&b, "shop/cart-0");
    }
    assert_int_equal(tally.changes, 1);
    assert_int_not_equal(b.plan[0].replicas, before ? before : 3);
    struct aw_order undo = order_of(AW_ORDER_UNDO, AW_SCOPE_WORKLOAD, "");
    undo.decision = tally.last_change;
    give(&b, &undo);
    run(&b, 2);
    assert_int_equal(b.plan[0].replicas, before ? before : 3);
    for (uint32_t i = 0; i < 60; i++) { /* a quarter of an hour: it stays */
        run(&b, 1);
        assert_int_equal(b.plan[0].replicas, before ? before : 3);
    }
    assert_int_equal(aw_desk_book(b.desk)->pin_count, 0); /* it was carried out */
    assert_int_equal(refused(&b, &undo, &diag), AW_ERR_CONFLICT);
    assert_non_null(strstr(diag.text, "changed again"));
    end(&b);
}

static void a_change_waits_for_approval(void **state)
{
    (void)state;
    struct bench b;
    struct aw_diag diag;
    prepare(&b);
    b.workload[0].pilot.guard.mode = AW_GUARD_APPROVE;
    begin(&b);
    attach(&b);
    struct aw_desk_view view = {0};
    for (uint32_t i = 0; i < 300 && view.proposal.id == 0; i++) {
        run(&b, 1);
        aw_desk_lock(b.desk);
        aw_desk_peek(b.desk, 0, &view);
        aw_desk_unlock(b.desk);
    }
    assert_true(view.proposal.id != 0);
    assert_int_equal(b.applied[0], 0);
    struct aw_order approve = order_of(AW_ORDER_APPROVE, AW_SCOPE_WORKLOAD, "");
    approve.decision = view.proposal.id + 1000;
    assert_int_equal(refused(&b, &approve, &diag), AW_ERR_NOTFOUND);
    approve.decision = view.proposal.id;
    const struct aw_plan plan = view.proposal.plan;
    give(&b, &approve);
    run(&b, 1);
    assert_int_equal(b.applied[0], 1);
    if (plan.set & AW_PLAN_REPLICAS)
        assert_int_equal(b.plan[0].replicas, plan.replicas);
    assert_int_equal(refused(&b, &approve, &diag), AW_ERR_NOTFOUND); /* once */
    end(&b);
}

static void a_proposal_expires(void **state)
{
    (void)state;
    struct bench b;
    struct aw_diag diag;
    prepare(&b);
    b.workload[0].pilot.guard.mode = AW_GUARD_APPROVE;
    b.steward_config.proposal_s = 20;
    begin(&b);
    attach(&b);
    struct aw_desk_view view = {0};
    for (uint32_t i = 0; i < 300 && view.proposal.id == 0; i++) {
        run(&b, 1);
        aw_desk_lock(b.desk);
        aw_desk_peek(b.desk, 0, &view);
        aw_desk_unlock(b.desk);
    }
    struct aw_order approve = order_of(AW_ORDER_APPROVE, AW_SCOPE_WORKLOAD, "");
    approve.decision = view.proposal.id;
    diag = (struct aw_diag){0};
    assert_int_equal(aw_desk_order(b.desk, &approve, view.proposal.expires_us, NULL, &diag),
                     AW_ERR_CONFLICT);
    assert_non_null(strstr(diag.text, "expired"));
    end(&b);
}

/* Also where its amount is one that is looked at once a minute alone. */
static void a_recommendation_that_still_stands_is_proposed_again(void **state)
{
    (void)state;
    struct bench b;
    uint32_t again = 0;
    struct aw_desk_view view = {0}, before = {0};
    prepare(&b);
    b.workload[0].pilot.guard.mode = AW_GUARD_APPROVE;
    b.steward_config.proposal_s = 20;
    begin(&b);
    attach(&b);
    for (uint32_t i = 0; i < 300; i++) {
        run(&b, 1);
        aw_desk_lock(b.desk);
        aw_desk_peek(b.desk, 0, &view);
        aw_desk_unlock(b.desk);
        const bool waits = view.decision->guard.recommended.set != 0;
        assert_true(!waits ||
                    (view.proposal.id && view.decision->at_us < view.proposal.expires_us));
        again += view.proposal.id != before.proposal.id && before.proposal.id &&
                 view.proposal.at_us >= before.proposal.expires_us &&
                 !memcmp(&view.proposal.plan, &before.proposal.plan, sizeof view.proposal.plan);
        before = view.proposal.id ? view : before;
    }
    assert_true(again > 0);
    assert_int_equal(b.applied[0], 0);
    end(&b);
}

static void an_emergency_gives_generously_at_once(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    begin(&b);
    attach(&b);
    run(&b, 30);
    const uint32_t before = b.plan[1].replicas;
    struct aw_order order = order_of(AW_ORDER_EMERGENCY, AW_SCOPE_WORKLOAD, "cart");
    order.until_us = aw_job_now_us(b.job) + INT64_C(600000000);
    give(&b, &order);
    run(&b, 1);
    assert_in_range(b.plan[1].replicas, 2 * before < 12 ? 2 * before : 12, 12);
    const uint32_t floor = b.plan[1].replicas;
    for (uint32_t i = 0; i < 38; i++) {
        run(&b, 1);
        assert_true(b.plan[1].replicas >= floor);
    }
    run(&b, 400);
    assert_true(b.plan[1].replicas < floor);
    end(&b);
}

static void orders_that_mean_nothing_are_refused_with_a_reason(void **state)
{
    (void)state;
    struct bench b;
    struct aw_diag diag;
    prepare(&b);
    begin(&b);
    attach(&b);
    run(&b, 5);
    struct aw_order order = order_of(AW_ORDER_FREEZE, AW_SCOPE_WORKLOAD, "shop/chart");
    assert_int_equal(refused(&b, &order, &diag), AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "no workload is called shop/chart"));
    order = order_of(AW_ORDER_UNFREEZE, AW_SCOPE_WORKLOAD, "bank/cart");
    assert_int_equal(refused(&b, &order, &diag), AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "no freeze of workload bank/cart stands"));
    order = order_of(AW_ORDER_FREEZE, AW_SCOPE_ALL, "");
    give(&b, &order);
    order = order_of(AW_ORDER_UNFREEZE, AW_SCOPE_WORKLOAD, "bank/cart");
    assert_int_equal(refused(&b, &order, &diag), AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "lift that one"));
    order = order_of(AW_ORDER_UNDO, AW_SCOPE_WORKLOAD, "");
    order.decision = 999999;
    assert_int_equal(refused(&b, &order, &diag), AW_ERR_NOTFOUND);
    assert_non_null(strstr(diag.text, "no decision 999999"));
    order = order_of(AW_ORDER_FREEZE, AW_SCOPE_ALL, "");
    order.until_us = aw_job_now_us(b.job) - 1;
    assert_int_equal(refused(&b, &order, &diag), AW_ERR_CONFIG);
    const struct tally tally = read_log(&b, NULL);
    assert_int_equal(tally.orders, 1);
    end(&b);
}

static void a_run_that_is_resumed_lives_its_orders_again_and_writes_nothing_twice(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-desk-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    uint64_t hash[2];
    uint32_t entries[2];
    for (uint32_t killed = 0; killed < 2; killed++) {
        struct bench b;
        prepare(&b);
        b.steward_config.virtual_time = true;
        begin(&b);
        attach(&b);
        run(&b, 80);
        if (killed)
            assert_ok(aw_job_save(b.job, path, NULL));
        const uint64_t at_save = b.hash;
        run(&b, 7);
        const struct aw_order order = order_of(AW_ORDER_FREEZE, AW_SCOPE_WORKLOAD, "bank/cart");
        give(&b, &order);
        run(&b, 50);
        if (killed) { /* as kill -9: what was saved is older than what was lived */
            aw_job_free(b.job);
            aw_desk_free(b.desk);
            b.job = NULL;
            b.desk = NULL;
            aw_disk_sim_kill(&b.disk);
            begin(&b);
            assert_ok(aw_job_load(b.job, path, NULL));
            attach(&b);
            b.hash = at_save;
            run(&b, 57);
        }
        run(&b, 100);
        hash[killed] = b.hash;
        entries[killed] = read_log(&b, NULL).decisions;
        end(&b);
    }
    assert_int_equal(hash[0], hash[1]);
    assert_int_equal(entries[0], entries[1]);
    unlink(path);
}

struct crowd {
    struct bench *b;
    _Atomic bool stop;
    uint32_t taken;
    _Atomic uint32_t seen;
};

static void *people(void *ctx)
{
    struct crowd *crowd = ctx;
    while (!crowd->stop) {
        struct aw_order order = order_of(AW_ORDER_FREEZE, AW_SCOPE_WORKLOAD, "bank/cart");
        crowd->taken += !aw_desk_order(crowd->b->desk, &order, 0, NULL, NULL);
        order.kind = AW_ORDER_UNFREEZE;
        crowd->taken += !aw_desk_order(crowd->b->desk, &order, 0, NULL, NULL);
        aw_desk_lock(crowd->b->desk);
        for (uint32_t i = 0; i < aw_desk_count(crowd->b->desk); i++) {
            struct aw_desk_view view;
            aw_desk_peek(crowd->b->desk, i, &view);
            crowd->seen += view.decision->at_us != AW_NEVER;
        }
        aw_desk_unlock(crowd->b->desk);
        usleep(200);
    }
    return NULL;
}

static void people_may_order_and_look_while_it_ticks(void **state)
{
    (void)state;
    struct bench b;
    struct crowd crowd = {.b = &b};
    pthread_t thread;
    prepare(&b);
    begin(&b);
    attach(&b);
    run(&b, 1);
    assert_int_equal(pthread_create(&thread, NULL, people, &crowd), 0);
    run(&b, 300);
    for (uint32_t i = 0; i < 100000 && !crowd.seen; i++) /* a busy machine may let them wait */
        run(&b, 1);
    crowd.stop = true;
    pthread_join(thread, NULL);
    const struct tally tally = read_log(&b, NULL);
    assert_int_equal(tally.orders, crowd.taken);
    assert_true(crowd.seen > 0);
    end(&b);
}

AW_TEST_GROUP("desk")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_change_is_in_the_log_with_what_became_of_it),
        cmocka_unit_test(what_cannot_be_written_down_is_not_done),
        cmocka_unit_test(a_full_disk_stops_no_growth_on_a_missed_slo),
        cmocka_unit_test(a_full_disk_records_growth_and_orders_in_reserved_blocks),
        cmocka_unit_test(an_order_that_cannot_be_written_down_is_not_taken),
        cmocka_unit_test(a_freeze_holds_at_once_and_over_a_restart),
        cmocka_unit_test(undo_puts_it_back_and_keeps_it_there),
        cmocka_unit_test(a_change_waits_for_approval),
        cmocka_unit_test(a_proposal_expires),
        cmocka_unit_test(a_recommendation_that_still_stands_is_proposed_again),
        cmocka_unit_test(an_emergency_gives_generously_at_once),
        cmocka_unit_test(orders_that_mean_nothing_are_refused_with_a_reason),
        cmocka_unit_test(a_run_that_is_resumed_lives_its_orders_again_and_writes_nothing_twice),
        cmocka_unit_test(people_may_order_and_look_while_it_ticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
