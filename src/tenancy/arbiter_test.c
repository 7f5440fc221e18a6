/* arbiter_test.c - what the arbiter promises, on cases with known answers and on random ones. */
#include "tenancy/arbiter.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/testing.h"

#define TENANTS   6u
#define WORKLOADS 24u
#define CORE      1000

struct world {
    struct aw_arbiter arbiter;
    struct aw_arbiter_tenant tenant[TENANTS];
    struct aw_arbiter_workload workload[WORKLOADS];
    struct aw_arbiter_grant grant[WORKLOADS];
    struct aw_arbiter_standing standing[TENANTS + WORKLOADS];
    struct aw_arbiter_case of;
};

static void setup(struct world *w, int64_t cores, int64_t bytes, double reclaim_s)
{
    memset(w, 0, sizeof *w);
    struct aw_arbiter_settings settings;
    aw_conf_defaults(aw_arbiter_fields, &settings);
    settings.reclaim_s = reclaim_s;
    assert_ok(aw_arbiter_init(&w->arbiter, &settings, TENANTS, WORKLOADS, NULL, NULL));
    w->of = (struct aw_arbiter_case){
        .capacity = {cores * CORE, bytes}, .tenants = w->tenant, .workloads = w->workload};
}

static struct aw_arbiter_workload *add(struct world *w, uint32_t asked, int64_t held)
{
    struct aw_arbiter_workload *it = &w->workload[w->of.workload_count++];
    *it = (struct aw_arbiter_workload){.tenant = AW_ARBITER_ALONE,
                                       .holds = {held * CORE, held},
                                       .quantum = {CORE, 1},
                                       .replicas_asked = asked};
    aw_tenancy_terms_init(&it->terms);
    return it;
}

static void run(struct world *w)
{
    aw_arbiter_run(&w->arbiter, &w->of, w->grant, w->standing);
}

static void who_asks_for_what_is_there_gets_it(void **state)
{
    (void)state;
    struct world w;
    setup(&w, 10, 1000, 0);
    add(&w, 4, 1);
    add(&w, 6, 7);
    run(&w);
    assert_int_equal(w.grant[0].replicas, 3); /* 2 are free now, one more when it is given back */
    assert_int_equal(w.grant[0].target, 4);
    assert_int_equal(w.grant[0].reason, AW_ARBITER_WAITING);
    assert_int_equal(w.grant[1].replicas, 6);
    assert_int_equal(w.grant[1].reason, AW_ARBITER_GRANTED);
    aw_arbiter_deinit(&w.arbiter);
}

static void weights_divide_a_full_cluster(void **state)
{
    (void)state;
    struct world w;
    setup(&w, 12, 1000, 0);
    add(&w, 12, 0)->terms.weight = 1;
    add(&w, 12, 0)->terms.weight = 2;
    add(&w, 12, 0)->terms.weight = 3;
    run(&w);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(w.grant[i].replicas, 2 * (i + 1));
        assert_int_equal(w.grant[i].reason, AW_ARBITER_SHARE);
        assert_int_equal(w.standing[i].of, 3);
    }
    aw_arbiter_deinit(&w.arbiter);
}

/* The example of the DRF paper (NSDI'11, 4.1): 9 CPU and 18 GB, tasks of <1, 4> and <3, 1>. */
static void dominant_shares_are_equalised(void **state)
{
    (void)state;
    struct world w;
    setup(&w, 9, 18, 0);
    struct aw_arbiter_workload *a = add(&w, 100, 0), *b = add(&w, 100, 0);
    a->quantum[AW_POOL_MEMORY] = 4;
    b->quantum[AW_POOL_CPU] = 3 * CORE;
    run(&w);
    assert_int_equal(w.grant[0].replicas, 3);
    assert_int_equal(w.grant[1].replicas, 2);
    aw_arbiter_deinit(&w.arbiter);
}

static void a_higher_class_goes_first_but_not_below_guarantees(void **state)
{
    (void)state;
    struct world w;
    setup(&w, 10, 1000, 0);
    add(&w, 20, 0)->terms.priority = 5;
    add(&w, 20, 0)->terms.guarantee[AW_POOL_CPU] = 3 * CORE;
    add(&w, 20, 0)->replicas_floor = 1;
    run(&w);
    assert_int_equal(w.grant[0].replicas, 6);
    assert_int_equal(w.grant[1].replicas, 3);
    assert_int_equal(w.grant[1].reason, AW_ARBITER_PRIORITY);
    assert_int_equal(w.grant[2].replicas, 1);
    aw_arbiter_deinit(&w.arbiter);
}

static void a_borrow_limit_holds_with_room_to_spare(void **state)
{
    (void)state;
    struct world w;
    setup(&w, 100, 1000, 0);
    struct aw_arbiter_workload *a = add(&w, 20, 0);
    a->terms.guarantee[AW_POOL_CPU] = 3 * CORE;
    a->terms.borrow_limit[AW_POOL_CPU] = 2 * CORE;
    run(&w);
    assert_int_equal(w.grant[0].replicas, 5);
    assert_int_equal(w.grant[0].reason, AW_ARBITER_BORROW);
    aw_arbiter_deinit(&w.arbiter);
}

static void workloads_share_what_their_tenant_gets(void **state)
{
    (void)state;
    struct world w;
    setup(&w, 12, 1000, 0);
    w.of.tenant_count = 1;
    aw_tenancy_terms_init(&w.tenant[0].terms);
    for (uint32_t i = 0; i < 3; i++)
        add(&w, 12, 0);
    w.workload[0].tenant = w.workload[1].tenant = 0; /* two of one tenant, one alone */
    run(&w);
    assert_int_equal(w.grant[0].replicas, 3);
    assert_int_equal(w.grant[1].replicas, 3);
    assert_int_equal(w.grant[2].replicas, 6);
    aw_arbiter_deinit(&w.arbiter);
}

static void what_was_borrowed_is_kept_for_the_reclaim_time(void **state)
{
    (void)state;
    struct world w;
    setup(&w, 10, 1000, 60);
    add(&w, 10, 10); /* borrows everything */
    add(&w, 4, 0)->terms.guarantee[AW_POOL_CPU] = 4 * CORE;
    w.of.elapsed_s = 20;
    for (uint32_t tick = 0; tick < 2; tick++) {
        run(&w);
        assert_true(w.grant[0].keeps);
        assert_int_equal(w.grant[1].replicas, 0); /* not promised: it is not free */
        assert_int_equal(w.grant[1].target, 4);
        assert_int_equal(w.grant[1].reason, AW_ARBITER_WAITING);
        assert_close(w.grant[1].wait_s, 60 - 20.0 * (tick + 1), 1e-9);
    }
    run(&w);
    assert_false(w.grant[0].keeps);
    assert_int_equal(w.grant[0].reason, AW_ARBITER_RECLAIMED);
    assert_int_equal(w.grant[0].replicas, 6);
    assert_int_equal(w.grant[1].replicas, 0); /* still held */
    w.workload[0].holds[AW_POOL_CPU] = 6 * CORE;
    w.workload[0].holds[AW_POOL_MEMORY] = 6;
    run(&w);
    assert_int_equal(w.grant[1].replicas, 4);
    assert_int_equal(w.grant[1].reason, AW_ARBITER_GRANTED);
    aw_arbiter_deinit(&w.arbiter);
}

static void who_lent_is_ahead_of_who_borrowed(void **state)
{
    (void)state;
    struct world w;
    setup(&w, 12, 1000, 0);
    w.of.tenant_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        aw_tenancy_terms_init(&w.tenant[i].terms);
        add(&w, i ? 12 : 1, i ? 11 : 1)->tenant = i;
    }
    w.of.elapsed_s = 3600;
    run(&w); /* the first lends five of its six cores to the second */
    assert_int_equal(w.standing[0].lends[AW_POOL_CPU], 5 * CORE);
    assert_int_equal(w.standing[1].borrows[AW_POOL_CPU], 5 * CORE);
    assert_true(w.tenant[0].credit.credit > 0.4);
    assert_true(w.tenant[1].credit.credit < -0.4);
    w.workload[0].replicas_asked = 12;
    run(&w);
    assert_true(w.grant[0].target >= 8);
    assert_int_equal(w.grant[0].target + w.grant[1].replicas, 12);
    aw_arbiter_deinit(&w.arbiter);
}

/* Two who want the last replica do not take it from each other in turn. */
static void halves_do_not_go_back_and_forth(void **state)
{
    (void)state;
    struct world w;
    setup(&w, 7, 1000, 0);
    add(&w, 7, 3);
    add(&w, 7, 4);
    w.of.elapsed_s = 100;
    for (uint32_t tick = 0; tick < 5; tick++) {
        run(&w);
        assert_int_equal(w.grant[0].replicas, 3);
        assert_int_equal(w.grant[1].replicas, 4);
    }
    aw_arbiter_deinit(&w.arbiter);
}

/* --- random cases ----------------------------------------------------------------------------- */

static int64_t total(const struct world *w, bool held, uint32_t pool)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < w->of.workload_count; i++) {
        const struct aw_arbiter_workload *it = &w->workload[i];
        const int64_t got = (int64_t)w->grant[i].replicas * it->quantum[pool];
        sum += held ? it->holds[pool] : got > it->holds[pool] ? got : it->holds[pool];
    }
    return sum;
}

static void draw(struct world *w, struct aw_rng *rng)
{
    setup(w, 20 + aw_rng_below(rng, 200), 200 + aw_rng_below(rng, 2000), 0);
    w->of.tenant_count = aw_rng_below(rng, TENANTS + 1);
    w->of.elapsed_s = aw_rng_below(rng, 3) ? 15 : 0;
    for (uint32_t t = 0; t < w->of.tenant_count; t++) {
        aw_tenancy_terms_init(&w->tenant[t].terms);
        w->tenant[t].terms.weight = aw_rng_uniform(rng, 0.25, 4);
        w->tenant[t].terms.priority = aw_rng_below(rng, 3);
        w->tenant[t].credit.credit = aw_rng_uniform(rng, -1, 1);
        if (aw_rng_below(rng, 2))
            w->tenant[t].terms.guarantee[AW_POOL_CPU] = w->of.capacity[AW_POOL_CPU] / (2 * TENANTS);
        if (aw_rng_below(rng, 3) == 0)
            w->tenant[t].terms.borrow_limit[AW_POOL_CPU] = aw_rng_below(rng, 30) * CORE;
    }
    const uint32_t n = 1 + aw_rng_below(rng, WORKLOADS);
    int64_t left[AW_POOLS] = {w->of.capacity[0], w->of.capacity[1]};
    for (uint32_t i = 0; i < n; i++) {
        struct aw_arbiter_workload *it = add(w, aw_rng_below(rng, 40), 0);
        if (w->of.tenant_count && aw_rng_below(rng, 3))
            it->tenant = aw_rng_below(rng, w->of.tenant_count);
        it->terms.weight = aw_rng_uniform(rng, 0.5, 2);
        it->terms.priority = aw_rng_below(rng, 2);
        it->quantum[AW_POOL_CPU] = 100 * (1 + aw_rng_below(rng, 40));
        it->quantum[AW_POOL_MEMORY] = 1 + aw_rng_below(rng, 20);
        if (aw_rng_below(rng, 20) == 0)
            it->replicas_asked = UINT32_MAX; /* a liar */
        const uint32_t held = aw_rng_below(rng, 8);
        bool room = true;
        for (uint32_t r = 0; r < AW_POOLS; r++)
            room = room && held * it->quantum[r] <= left[r];
        for (uint32_t r = 0; room && r < AW_POOLS; r++) {
            it->holds[r] = held * it->quantum[r];
            left[r] -= it->holds[r];
        }
        it->replicas_floor = room && held ? aw_rng_below(rng, 2) : 0;
        if (it->replicas_asked < it->replicas_floor)
            it->replicas_asked = it->replicas_floor;
    }
}

/* What is asked of a tenant within its limits, and what its guarantee covers of it: the naive way,
 * by whole replicas of the one workload that it has here. */
static uint32_t covered(const struct aw_arbiter_workload *it, const struct aw_tenancy_terms *terms,
                        bool with_loan)
{
    uint32_t n = it->replicas_asked;
    bool named = false;
    for (uint32_t r = 0; r < AW_POOLS; r++) {
        const bool unlimited = terms->borrow_limit[r] == AW_TENANCY_UNLIMITED;
        if (with_loan ? unlimited : terms->guarantee[r] == 0)
            continue;
        named = true;
        const int64_t most =
            (terms->guarantee[r] + (with_loan ? terms->borrow_limit[r] : 0)) / it->quantum[r];
        n = most < n ? (uint32_t)most : n;
    }
    n = named || with_loan ? n : 0;
    return n > it->replicas_floor ? n : it->replicas_floor;
}

static void promises_hold_on_random_cases(void **state)
{
    (void)state;
    struct aw_rng rng;
    uint32_t scarce = 0, clipped = 0;
    aw_rng_init(&rng, 26, 0);
    for (uint32_t round = 0; round < 5000; round++) {
        struct world w;
        draw(&w, &rng);
        run(&w);
        for (uint32_t r = 0; r < AW_POOLS; r++) {
            assert_true(total(&w, false, r) <= w.of.capacity[r]);
            assert_true(total(&w, true, r) <= w.of.capacity[r]);
        }
        double target[AW_POOLS] = {0};
        for (uint32_t i = 0; i < w.of.workload_count; i++) {
            const struct aw_arbiter_workload *it = &w.workload[i];
            assert_true(w.grant[i].target >= it->replicas_floor);
            assert_true(w.grant[i].target <= it->replicas_asked);
            assert_true(w.grant[i].replicas <= w.grant[i].target);
            assert_true((w.grant[i].reason == AW_ARBITER_GRANTED) ==
                        (w.grant[i].replicas == it->replicas_asked));
            clipped += w.grant[i].reason != AW_ARBITER_GRANTED;
            for (uint32_t r = 0; r < AW_POOLS; r++)
                target[r] += (double)w.grant[i].target * (double)it->quantum[r];
            if (it->tenant == AW_ARBITER_ALONE)
                assert_true(w.grant[i].target <= covered(it, &it->terms, true));
        }
        for (uint32_t r = 0; r < AW_POOLS; r++)
            assert_true(target[r] <= (double)w.of.capacity[r] + 0.5);
        /* work conserving: nobody is refused a replica that fits, but by a limit */
        for (uint32_t i = 0; i < w.of.workload_count; i++) {
            const struct aw_arbiter_workload *it = &w.workload[i];
            bool fits = w.grant[i].target < it->replicas_asked && it->tenant == AW_ARBITER_ALONE;
            for (uint32_t r = 0; r < AW_POOLS; r++)
                fits = fits && target[r] + (double)it->quantum[r] <= (double)w.of.capacity[r];
            scarce += w.grant[i].target < it->replicas_asked;
            assert_false(fits);
        }
        aw_arbiter_deinit(&w.arbiter);
    }
    assert_true(scarce > 10000 && clipped > scarce); /* it was worth asking */
}

/* DRF as its paper prints it: the next replica goes to the lowest level that it still fits; in the
 * phase of guarantees first, then class by class. */
static void naive(const struct world *w, uint32_t *ret)
{
    double left[AW_POOLS] = {(double)w->of.capacity[0], (double)w->of.capacity[1]};
    bool shut[WORKLOADS] = {0};
    memset(ret, 0, WORKLOADS * sizeof *ret);
    for (uint32_t phase = 0; phase < 2; phase++) {
        memset(shut, 0, sizeof shut);
        for (;;) {
            uint32_t best = WORKLOADS;
            double lowest = INFINITY;
            int64_t class = -1;
            for (uint32_t i = 0; i < w->of.workload_count; i++) {
                const struct aw_arbiter_workload *it = &w->workload[i];
                double level = 0;
                for (uint32_t r = 0; r < AW_POOLS; r++)
                    level = fmax(level, ret[i] * (double)it->quantum[r] /
                                            (double)w->of.capacity[r] / it->terms.weight);
                if (shut[i] || ret[i] >= covered(it, &it->terms, phase == 1) ||
                    it->terms.priority < class || (it->terms.priority == class && level >= lowest))
                    continue;
                best = i;
                lowest = level;
                class = it->terms.priority;
            }
            if (best == WORKLOADS)
                break;
            for (uint32_t r = 0; r < AW_POOLS; r++)
                shut[best] |= (double)w->workload[best].quantum[r] > left[r];
            if (shut[best])
                continue;
            ret[best]++;
            for (uint32_t r = 0; r < AW_POOLS; r++)
                left[r] -= (double)w->workload[best].quantum[r];
        }
    }
}

static void the_naive_twin_agrees(void **state)
{
    (void)state;
    struct aw_rng rng;
    double off = 0, most = 0;
    uint32_t compared = 0;
    aw_rng_init(&rng, 27, 0);
    for (uint32_t round = 0; round < 2000; round++) {
        struct world w;
        uint32_t twin[WORKLOADS];
        draw(&w, &rng);
        for (uint32_t r = 0; r < AW_POOLS; r++)
            w.of.capacity[r] *= 8; /* many replicas each: what is left over matters little */
        for (uint32_t i = 0; i < w.of.workload_count; i++) {
            struct aw_arbiter_workload *it = &w.workload[i];
            it->tenant = AW_ARBITER_ALONE;
            it->replicas_floor = 0;
            it->replicas_asked = aw_rng_below(&rng, 400);
            memset(it->holds, 0, sizeof it->holds);
            if (aw_rng_below(&rng, 3) == 0)
                it->terms.guarantee[AW_POOL_CPU] = w.of.capacity[AW_POOL_CPU] / (2 * WORKLOADS);
            if (aw_rng_below(&rng, 4) == 0)
                it->terms.borrow_limit[AW_POOL_CPU] = aw_rng_below(&rng, 100) * CORE;
        }
        w.of.tenant_count = 0;
        run(&w);
        naive(&w, twin);
        for (uint32_t i = 0; i < w.of.workload_count; i++) {
            double share = 0;
            for (uint32_t r = 0; r < AW_POOLS; r++)
                share =
                    fmax(share, fabs((double)w.grant[i].target - twin[i]) *
                                    (double)w.workload[i].quantum[r] / (double)w.of.capacity[r]);
            off += share;
            most = fmax(most, share);
            compared++;
        }
        aw_arbiter_deinit(&w.arbiter);
    }
    print_message("# twin: mean %.5f, most %.4f of the cluster over %u\n", off / compared, most,
                  compared);
    assert_true(off / compared < 0.001); /* a tenth of a percent of the cluster */
    assert_true(most < 0.05);
}

static void a_run_allocates_nothing(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    struct aw_arbiter arbiter;
    struct aw_arbiter_settings settings;
    struct world w;
    struct aw_rng rng;
    aw_conf_defaults(aw_arbiter_fields, &settings);
    for (uint32_t n = 0;; n++) { /* every allocation may fail */
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        const enum aw_err err =
            aw_arbiter_init(&arbiter, &settings, TENANTS, WORKLOADS, &counting.alloc, NULL);
        if (!err)
            break;
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    aw_rng_init(&rng, 28, 0);
    draw(&w, &rng);
    const uint64_t before = counting.alloc_count;
    aw_arbiter_run(&arbiter, &w.of, w.grant, w.standing);
    assert_int_equal(counting.alloc_count, before);
    aw_arbiter_deinit(&arbiter);
    aw_arbiter_deinit(&w.arbiter);
}

AW_TEST_GROUP("arbiter")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_for_what_is_there_gets_it),
        cmocka_unit_test(weights_divide_a_full_cluster),
        cmocka_unit_test(dominant_shares_are_equalised),
        cmocka_unit_test(a_higher_class_goes_first_but_not_below_guarantees),
        cmocka_unit_test(a_borrow_limit_holds_with_room_to_spare),
        cmocka_unit_test(workloads_share_what_their_tenant_gets),
        cmocka_unit_test(what_was_borrowed_is_kept_for_the_reclaim_time),
        cmocka_unit_test(who_lent_is_ahead_of_who_borrowed),
        cmocka_unit_test(halves_do_not_go_back_and_forth),
        cmocka_unit_test(promises_hold_on_random_cases),
        cmocka_unit_test(the_naive_twin_agrees),
        cmocka_unit_test(a_run_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
