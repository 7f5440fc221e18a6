#include "fallback/hpa.h"

#include "base/rng.h"
#include "base/testing.h"

#include <string.h>

#define SECOND_US ((int64_t)1000000)
#define NOW_US    (100000 * SECOND_US)
#define PODS_MAX  64

/* A workload whose pods all use the same, and an autoscaler for it. */
struct world {
    struct aw_hpa_controller controller;
    struct aw_hpa_spec spec;
    struct aw_hpa_state state;
    struct aw_hpa_snapshot snapshot;
    struct aw_hpa_decision decision;
    struct aw_hpa_pod pods[PODS_MAX];
    struct aw_hpa_sample samples[AW_HPA_METRICS_MAX][PODS_MAX];
};

static void world_init(struct world *world, int32_t min, int32_t max, int32_t replicas)
{
    memset(world, 0, sizeof *world);
    aw_hpa_controller_defaults(&world->controller);
    aw_hpa_spec_defaults(&world->spec, max);
    world->spec.replicas_min = min;
    world->snapshot.now_us = NOW_US;
    world->snapshot.pods = world->pods;
    world->snapshot.spec_replicas = replicas;
    world->snapshot.status_replicas = replicas;
    world->snapshot.pod_count = (uint32_t)replicas;
    for (int m = 0; m < (int)AW_HPA_METRICS_MAX; m++)
        world->snapshot.readings[m].samples = world->samples[m];
    for (int i = 0; i < PODS_MAX; i++)
        world->pods[i] = (struct aw_hpa_pod){.phase = AW_HPA_RUNNING,
                                             .ready = AW_HPA_READY_TRUE,
                                             .started = true,
                                             .start_us = NOW_US - 3600 * SECOND_US,
                                             .ready_change_us = NOW_US - 3590 * SECOND_US};
}

static void set_usage(struct world *world, int metric, int64_t value)
{
    for (int i = 0; i < PODS_MAX; i++)
        world->samples[metric][i] = (struct aw_hpa_sample){.present = true,
                                                           .has_request = true,
                                                           .value = value,
                                                           .request = 1000,
                                                           .timestamp_us = world->snapshot.now_us,
                                                           .window_us = 30 * SECOND_US};
}

static int32_t decide(struct world *world)
{
    assert_ok(aw_hpa_spec_check(&world->spec, NULL));
    aw_hpa_decide(&world->controller, &world->spec, &world->snapshot, &world->state,
                  &world->decision);
    return world->decision.replicas;
}

static void a_second_metric(struct world *world, enum aw_hpa_metric_type type, int64_t target)
{
    struct aw_hpa_metric *metric = &world->spec.metrics[world->spec.metric_count++];
    *metric = (struct aw_hpa_metric){
        .type = type, .target_type = AW_HPA_AVERAGE_VALUE, .name = "qps", .target = target};
}

static void the_largest_of_several_metrics_wins(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1, 20, 5);
    a_second_metric(&world, AW_HPA_PODS, 100);
    set_usage(&world, 0, 960); /* 96 of 80 %: 6 */
    set_usage(&world, 1, 150); /* 8 */
    assert_int_equal(decide(&world), 8);
    assert_int_equal(world.decision.metric, 1);
    assert_int_equal(world.decision.proposals[0].replicas, 6);
    assert_true(world.decision.rescale);
    assert_int_equal(world.decision.scaling_active.reason, AW_HPA_REASON_VALID_METRIC);
    assert_int_equal(world.decision.scaling_limited.reason, AW_HPA_REASON_WITHIN_RANGE);
    assert_false(world.decision.scaling_limited.status);
}

static void a_missing_metric_lets_the_others_grow_but_not_shrink(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1, 20, 5);
    world.controller.downscale_stabilization_us = 0;
    a_second_metric(&world, AW_HPA_EXTERNAL, 100);
    world.snapshot.readings[1].failed = true;
    set_usage(&world, 0, 960);
    assert_int_equal(decide(&world), 6);
    assert_true(world.decision.scaling_active.status);

    set_usage(&world, 0, 100);
    world.snapshot.now_us += SECOND_US;
    assert_int_equal(decide(&world), 5);
    assert_false(world.decision.rescale);
    assert_false(world.decision.scaling_active.status);
    assert_int_equal(world.decision.scaling_active.reason, AW_HPA_REASON_FAILED_EXTERNAL);
    assert_int_equal(world.decision.able_to_scale.reason, AW_HPA_REASON_SUCCEEDED_GET_SCALE);

    world.snapshot.readings[1].failed = false;
    world.snapshot.readings[1].value = 100; /* asks for 1 */
    world.snapshot.now_us += SECOND_US;
    assert_int_equal(decide(&world), 1);
}

static void the_first_of_several_missing_metrics_is_named(void **state)
{
    (void)state;
    static const struct {
        enum aw_hpa_metric_type type;
        enum aw_hpa_reason reason;
    } cases[] = {
        {AW_HPA_RESOURCE, AW_HPA_REASON_FAILED_RESOURCE},
        {AW_HPA_CONTAINER_RESOURCE, AW_HPA_REASON_FAILED_CONTAINER},
        {AW_HPA_PODS, AW_HPA_REASON_FAILED_PODS},
        {AW_HPA_OBJECT, AW_HPA_REASON_FAILED_OBJECT},
        {AW_HPA_EXTERNAL, AW_HPA_REASON_FAILED_EXTERNAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world;
        world_init(&world, 1, 20, 5);
        a_second_metric(&world, AW_HPA_EXTERNAL, 100);
        world.spec.metrics[0].type = cases[i].type;
        world.spec.metrics[0].target_type = AW_HPA_AVERAGE_VALUE;
        world.snapshot.readings[0].failed = true;
        world.snapshot.readings[1].failed = true;
        assert_int_equal(decide(&world), 5);
        assert_int_equal(world.decision.scaling_active.reason, cases[i].reason);
        /* nothing was learned from it either */
        assert_int_equal(world.state.recommendation_count, 1);
    }
}

static void a_count_outside_the_bounds_is_mended_without_metrics(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 3, 10, 12);
    world.snapshot.readings[0].failed = true;
    assert_int_equal(decide(&world), 10);
    assert_int_equal(world.decision.rescale_cause, AW_HPA_REASON_ABOVE_MAX);
    world_init(&world, 3, 10, 2);
    world.snapshot.readings[0].failed = true;
    assert_int_equal(decide(&world), 3);
    assert_int_equal(world.decision.rescale_cause, AW_HPA_REASON_BELOW_MIN);
}

static void somebody_elses_zero_stays_and_its_own_wakes_up(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 0, 10, 0);
    a_second_metric(&world, AW_HPA_EXTERNAL, 1000);
    world.snapshot.readings[0].failed = true;
    world.snapshot.readings[1].value = 2500;
    assert_int_equal(decide(&world), 0);
    assert_int_equal(world.decision.scaling_active.reason, AW_HPA_REASON_DISABLED);
    assert_false(world.decision.scaled_to_zero);

    aw_hpa_applied(&world.spec, &world.state, NOW_US, 1, 0);
    assert_int_equal(decide(&world), 3);
    assert_true(world.decision.scaled_to_zero);
    /* seen with replicas again, a later zero is not its own */
    world.snapshot.spec_replicas = 3;
    decide(&world);
    world.snapshot.spec_replicas = 0;
    assert_int_equal(decide(&world), 0);
    assert_int_equal(world.decision.scaling_active.reason, AW_HPA_REASON_DISABLED);
}

static void the_count_first_seen_is_a_recommendation(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1, 20, 10);
    set_usage(&world, 0, 80); /* asks for 1 */
    assert_int_equal(decide(&world), 10);
    assert_int_equal(world.decision.proposed, 1);
    assert_int_equal(world.decision.able_to_scale.reason, AW_HPA_REASON_DOWN_STABILIZED);
    world.snapshot.now_us += 300 * SECOND_US;
    assert_int_equal(decide(&world), 10);
    world.snapshot.now_us += SECOND_US;
    assert_int_equal(decide(&world), 1);
    assert_int_equal(world.decision.able_to_scale.reason, AW_HPA_REASON_READY);
}

static void rules_count_only_changes_that_were_made(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1, 100, 10);
    world.spec.has_behavior = true;
    world.spec.up.policy_count = 1;
    world.spec.up.policies[0] = (struct aw_hpa_policy){AW_HPA_POLICY_PODS, 5, 60};
    set_usage(&world, 0, 4000);
    assert_int_equal(decide(&world), 15);
    assert_int_equal(world.decision.scaling_limited.reason, AW_HPA_REASON_UP_LIMIT);
    assert_true(world.decision.scaling_limited.status);
    world.snapshot.now_us += 15 * SECOND_US;
    assert_int_equal(decide(&world), 15); /* the write was lost: try again */
    aw_hpa_applied(&world.spec, &world.state, world.snapshot.now_us, 10, 15);
    world.snapshot.spec_replicas = 15;
    world.snapshot.now_us += 15 * SECOND_US;
    assert_int_equal(decide(&world), 15);
    world.snapshot.now_us += 45 * SECOND_US;
    assert_int_equal(decide(&world), 20);
}

/* Any metrics, gaps, history and rules: the result lies within the bounds, and where no metric can
 * be read it is what it was. */
static void a_decision_never_leaves_the_bounds(void **state)
{
    (void)state;
    static struct world world;
    int rescales = 0, stays = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct aw_rng rng;
        aw_rng_init(&rng, seed, 0);
        int32_t min = 1 + (int32_t)aw_rng_below(&rng, 10);
        int32_t max = min + (int32_t)aw_rng_below(&rng, 40);
        int32_t replicas = min + (int32_t)aw_rng_below(&rng, (uint32_t)(max - min + 1));
        world_init(&world, min, max, replicas);
        uint32_t extra = aw_rng_below(&rng, 3);
        for (uint32_t i = 0; i < extra; i++)
            a_second_metric(&world, i ? AW_HPA_PODS : AW_HPA_OBJECT, 1 + aw_rng_below(&rng, 500));
        world.spec.has_behavior = aw_rng_below(&rng, 2);
        world.spec.up.window_s = (int32_t)aw_rng_below(&rng, 120);
        world.spec.up.select = (enum aw_hpa_select)aw_rng_below(&rng, 3);
        world.spec.down.select = (enum aw_hpa_select)aw_rng_below(&rng, 3);
        for (int step = 0; step < 30; step++) {
            bool any_read = false;
            for (uint32_t m = 0; m < world.spec.metric_count; m++) {
                set_usage(&world, (int)m, aw_rng_below(&rng, 3000));
                world.snapshot.readings[m].value = (int64_t)aw_rng_below(&rng, 100000) - 1000;
                world.snapshot.readings[m].failed = aw_rng_below(&rng, 4) == 0;
                any_read |= !world.snapshot.readings[m].failed;
            }
            for (int i = 0; i < PODS_MAX; i++) {
                world.pods[i].phase = aw_rng_below(&rng, 8) ? AW_HPA_RUNNING : AW_HPA_PENDING;
                for (uint32_t m = 0; m < world.spec.metric_count; m++)
                    world.samples[m][i].present = aw_rng_below(&rng, 8) != 0;
            }
            int32_t current = world.snapshot.spec_replicas, found = decide(&world);
            if (found < min || found > max)
                fail_msg("seed %d: %d is outside [%d, %d]", (int)seed, found, min, max);
            if (!any_read)
                assert_int_equal(found, current);
            for (uint32_t m = 0; m < world.spec.metric_count; m++)
                if (world.decision.proposals[m].failure)
                    assert_true(found >= current); /* a gap never shrinks anything */
            assert_true(world.decision.rescale == (found != current));
            assert_true(aw_hpa_state_valid(&world.state));
            if (found != current)
                aw_hpa_applied(&world.spec, &world.state, world.snapshot.now_us, current, found);
            rescales += found != current;
            stays += found == current;
            world.snapshot.spec_replicas = found;
            world.snapshot.status_replicas = found;
            world.snapshot.pod_count = (uint32_t)found;
            world.snapshot.now_us += 15 * SECOND_US;
        }
    }
    assert_true(rescales > 3000 && stays > 3000);
}

static void a_state_restored_from_bytes_goes_on_alike(void **state)
{
    (void)state;
    static struct world a, b;
    struct aw_rng rng;
    aw_rng_init(&rng, 11, 0);
    world_init(&a, 1, 50, 10);
    a.spec.has_behavior = true;
    for (int step = 0; step < 200; step++) {
        unsigned char bytes[sizeof a.state];
        set_usage(&a, 0, aw_rng_below(&rng, 2000));
        b = a;
        b.snapshot.pods = b.pods;
        b.snapshot.readings[0].samples = b.samples[0];
        memcpy(bytes, &a.state, sizeof bytes);
        memset(&b.state, 0xff, sizeof b.state);
        assert_false(aw_hpa_state_valid(&b.state));
        memcpy(&b.state, bytes, sizeof bytes);
        assert_true(aw_hpa_state_valid(&b.state));
        assert_int_equal(decide(&a), decide(&b));
        assert_memory_equal(&a.state, &b.state, sizeof a.state);
        aw_hpa_applied(&a.spec, &a.state, a.snapshot.now_us, a.decision.current,
                       a.decision.replicas);
        a.snapshot.spec_replicas = a.decision.replicas;
        a.snapshot.pod_count = (uint32_t)a.decision.replicas;
        a.snapshot.now_us += 15 * SECOND_US;
    }
}

static void what_the_api_server_refuses_is_refused(void **state)
{
    (void)state;
    struct aw_hpa_spec good;
    aw_hpa_spec_defaults(&good, 10);
    good.has_behavior = true;
    assert_ok(aw_hpa_spec_check(&good, NULL));
    for (int i = 0;; i++) {
        struct aw_hpa_spec spec = good;
        const char *key = "";
        switch (i) {
        case 0:
            spec.replicas_min = 11;
            key = "minReplicas";
            break;
        case 1:
            spec.replicas_min = -1;
            key = "minReplicas";
            break;
        case 2:
            spec.replicas_max = 0;
            key = "maxReplicas";
            break;
        case 3:
            spec.replicas_min = 0; /* CPU alone cannot wake anything */
            key = "minReplicas";
            break;
        case 4:
            spec.metric_count = 0;
            key = "metrics";
            break;
        case 5:
            spec.metric_count = AW_HPA_METRICS_MAX + 1;
            key = "metrics";
            break;
        case 6:
            spec.metrics[0].target = 0;
            key = "metrics[0]";
            break;
        case 7:
            spec.metrics[0].target_type = AW_HPA_VALUE;
            key = "metrics[0]";
            break;
        case 8:
            spec.metrics[0].type = AW_HPA_PODS; /* still Utilization */
            key = "metrics[0]";
            break;
        case 9:
            memset(spec.metrics[0].name, 'x', sizeof spec.metrics[0].name);
            key = "metrics[0]";
            break;
        case 10:
            spec.up.window_s = AW_HPA_WINDOW_OF_CONTROLLER;
            key = "behavior.scaleUp";
            break;
        case 11:
            spec.down.window_s = 3601;
            key = "behavior.scaleDown";
            break;
        case 12:
            spec.down.policies[0].period_s = 1801;
            key = "behavior.scaleDown";
            break;
        case 13:
            spec.up.policies[1].value = 0;
            key = "behavior.scaleUp";
            break;
        case 14:
            spec.up.policy_count = 0;
            key = "behavior.scaleUp";
            break;
        case 15:
            spec.up.tolerance = -0.5;
            key = "behavior.scaleUp";
            break;
        case 16:
            spec.up.tolerance = 1.0 / 0.0;
            key = "behavior.scaleUp";
            break;
        default:
            return;
        }
        struct aw_diag diag = {0};
        if (aw_hpa_spec_check(&spec, &diag) != AW_ERR_CONFIG || strcmp(diag.key, key) != 0 ||
            diag.text[0] == 0)
            fail_msg("case %d: key \"%s\", text \"%s\"", i, diag.key, diag.text);
    }
}

AW_TEST_GROUP("hpa")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_of_several_metrics_wins),
        cmocka_unit_test(a_missing_metric_lets_the_others_grow_but_not_shrink),
        cmocka_unit_test(the_first_of_several_missing_metrics_is_named),
        cmocka_unit_test(a_count_outside_the_bounds_is_mended_without_metrics),
        cmocka_unit_test(somebody_elses_zero_stays_and_its_own_wakes_up),
        cmocka_unit_test(the_count_first_seen_is_a_recommendation),
        cmocka_unit_test(rules_count_only_changes_that_were_made),
        cmocka_unit_test(a_decision_never_leaves_the_bounds),
        cmocka_unit_test(a_state_restored_from_bytes_goes_on_alike),
        cmocka_unit_test(what_the_api_server_refuses_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
