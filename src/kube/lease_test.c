/* lease_test.c - leaders over a Lease of the fake API server: one at a time, and handed over at the
 * end. */
#include "kube/lease.h"

#include <stdio.h>

#include "kube/kube_testing.h"

#define LEASES "/apis/coordination.k8s.io/v1/leases"

/* Two processes: each has its client; the clock is one. */
struct world {
    struct aw_kube_world base; /* of the first */
    struct aw_kube *second;
    struct aw_kube_leader a, b;
};

static void open_world(struct world *world)
{
    struct aw_kube_election_config config = {.identity = "a"};
    *world = (struct world){0};
    aw_kube_world_open(&world->base, NULL);
    const struct aw_kube_options options = {.clock = &world->base.clock.clock, .seed = 2};
    assert_ok(aw_kube_open(&world->second, &world->base.config, &options, NULL, NULL));
    assert_ok(aw_kube_leader_init(&world->a, world->base.kube, "n", "aware", &config, NULL));
    snprintf(config.identity, sizeof config.identity, "b");
    assert_ok(aw_kube_leader_init(&world->b, world->second, "n", "aware", &config, NULL));
}

static void close_world(struct world *world)
{
    aw_kube_close(world->second);
    aw_kube_world_close(&world->base);
}

/* Steps both for so long; returns false when there were two leaders at once. */
static bool run(struct world *world, int64_t us, bool with_a)
{
    int64_t due_us;
    for (int64_t left_us = us; left_us > 0; left_us -= 500000) {
        if (with_a)
            (void)!aw_kube_leader_step(&world->a, &due_us, NULL);
        (void)!aw_kube_leader_step(&world->b, &due_us, NULL);
        if (aw_kube_leader_leads(&world->a) && aw_kube_leader_leads(&world->b))
            return false;
        aw_clock_virtual_advance(&world->base.clock, 500000);
    }
    return true;
}

static void one_leads_and_the_other_takes_over_when_it_is_gone(void **state)
{
    struct world world;
    (void)state;
    open_world(&world);
    assert_true(run(&world, 60000000, true));
    assert_true(aw_kube_leader_leads(&world.a));
    json_t *lease = aw_fake_apiserver_get(world.base.twin, LEASES, "n", "aware");
    assert_string_equal(aw_kube_text_at(lease, "spec.holderIdentity"), "a");
    assert_int_equal(aw_kube_int_at(lease, "spec.leaseTransitions", -1), 0);
    json_decref(lease);
    assert_true(run(&world, 14000000, false)); /* a says nothing any more */
    assert_false(aw_kube_leader_leads(&world.a));
    assert_false(aw_kube_leader_leads(&world.b));
    assert_true(run(&world, 5000000, false));
    assert_true(aw_kube_leader_leads(&world.b));
    assert_true(run(&world, 10000000, true)); /* a is back, and waits */
    assert_true(aw_kube_leader_leads(&world.b));
    close_world(&world);
}

static void a_leader_that_was_told_to_stop_hands_over_at_once(void **state)
{
    struct world world;
    (void)state;
    open_world(&world);
    assert_true(run(&world, 10000000, true));
    aw_kube_stop(world.base.kube); /* what a handler of SIGTERM does */
    assert_ok(aw_kube_leader_release(&world.a, NULL));
    assert_false(aw_kube_leader_leads(&world.a));
    assert_true(run(&world, 3000000, false));
    assert_true(aw_kube_leader_leads(&world.b));
    assert_ok(aw_kube_leader_release(&world.a, NULL)); /* again: nothing to do */
    close_world(&world);
}

static void trouble_with_the_server_never_makes_two_leaders(void **state)
{
    static const struct aw_fake_apiserver_fault faults[] = {
        {.match = "PUT", .count = 3, .status = 500},
        {.match = "PUT", .count = 9, .status = 409, .reason = "Conflict"},
        {.match = "GET", .count = 5, .status = 503},
        {.match = "PUT", .count = 2, .cut = true},
        {.match = "", .count = 20, .status = 429, .retry_after_s = 1},
        {.match = "GET", .count = 3, .rubbish = true},
    };
    struct world world;
    struct aw_rng rng;
    (void)state;
    aw_rng_init(&rng, 5, 0);
    open_world(&world);
    for (int i = 0; i < 40; i++) {
        aw_fake_apiserver_clear_faults(world.base.twin);
        aw_fake_apiserver_fault(world.base.twin, &faults[aw_rng_below(&rng, 6)]);
        assert_true(run(&world, (1 + (int64_t)aw_rng_below(&rng, 20)) * 1000000,
                        aw_rng_below(&rng, 3) > 0));
    }
    aw_fake_apiserver_clear_faults(world.base.twin);
    assert_true(run(&world, 30000000, true));
    assert_true(aw_kube_leader_leads(&world.a) != aw_kube_leader_leads(&world.b));
    close_world(&world);
}

static void a_lease_reads_back_as_it_was_written(void **state)
{
    struct aw_kube_lease lease = {.holder = "x",
                                  .duration_s = 15,
                                  .acquired_us = 1769860800000001,
                                  .renewed_us = 1769860800999999,
                                  .transitions = 4,
                                  .resource_version = "7"},
                         back;
    json_t *object = aw_kube_lease_write(&lease, "n", "aware");
    (void)state;
    assert_ok(aw_kube_lease_read(object, &back, NULL));
    assert_memory_equal(&lease, &back, sizeof lease);
    json_object_set_new(object, "kind", json_string("Pod"));
    assert_int_equal(aw_kube_lease_read(object, &back, NULL), AW_ERR_FORMAT);
    json_decref(object);
}

AW_TEST_GROUP("kube-lease")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_leads_and_the_other_takes_over_when_it_is_gone),
        cmocka_unit_test(a_leader_that_was_told_to_stop_hands_over_at_once),
        cmocka_unit_test(trouble_with_the_server_never_makes_two_leaders),
        cmocka_unit_test(a_lease_reads_back_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
