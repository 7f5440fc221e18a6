#include "fallback/hpa_replicas.h"

#include "base/rng.h"
#include "base/testing.h"

#include <math.h>
#include <string.h>

#define SECOND_US ((int64_t)1000000)
#define NOW_US    (100000 * SECOND_US)
#define PODS_MAX  24

static void a_pod_counts_as_the_rules_for_its_state_say(void **state)
{
    (void)state;
    struct aw_hpa_controller controller;
    aw_hpa_controller_defaults(&controller);
    /* start, change: seconds before now; sample: seconds before now, -1 for none */
    static const struct {
        const char *why;
        enum aw_hpa_phase phase;
        enum aw_hpa_ready ready;
        bool deleted, started;
        int start_ago_s, change_ago_s, sample_ago_s, window_s;
        enum aw__hpa_group cpu, other;
    } cases[] = {
        {"long ready", AW_HPA_RUNNING, AW_HPA_READY_TRUE, 0, 1, 3600, 3590, 10, 60, AW__HPA_READY,
         AW__HPA_READY},
        {"going away", AW_HPA_RUNNING, AW_HPA_READY_TRUE, 1, 1, 3600, 3590, 10, 60, AW__HPA_IGNORED,
         AW__HPA_IGNORED},
        {"failed", AW_HPA_FAILED, AW_HPA_READY_FALSE, 0, 1, 3600, 3590, 10, 60, AW__HPA_IGNORED,
         AW__HPA_IGNORED},
        {"not placed yet, whatever its sample says", AW_HPA_PENDING, AW_HPA_READY_ABSENT, 0, 0, 0,
         0, 10, 60, AW__HPA_UNREADY, AW__HPA_UNREADY},
        {"no sample", AW_HPA_RUNNING, AW_HPA_READY_TRUE, 0, 1, 3600, 3590, -1, 60, AW__HPA_MISSING,
         AW__HPA_MISSING},
        {"no sample and unready is still missing", AW_HPA_RUNNING, AW_HPA_READY_FALSE, 0, 1, 3600,
         3600, -1, 60, AW__HPA_MISSING, AW__HPA_MISSING},
        {"nothing said about readiness", AW_HPA_RUNNING, AW_HPA_READY_ABSENT, 0, 1, 3600, 3590, 10,
         60, AW__HPA_UNREADY, AW__HPA_READY},
        {"no start time", AW_HPA_RUNNING, AW_HPA_READY_TRUE, 0, 0, 3600, 3590, 10, 60,
         AW__HPA_UNREADY, AW__HPA_READY},
        {"young and unready", AW_HPA_RUNNING, AW_HPA_READY_FALSE, 0, 1, 100, 100, 10, 60,
         AW__HPA_UNREADY, AW__HPA_READY},
        {"young, window reaches back before it was ready", AW_HPA_RUNNING, AW_HPA_READY_TRUE, 0, 1,
         100, 69, 10, 60, AW__HPA_UNREADY, AW__HPA_READY},
        {"young, window begins as it became ready", AW_HPA_RUNNING, AW_HPA_READY_TRUE, 0, 1, 100,
         70, 10, 60, AW__HPA_READY, AW__HPA_READY},
        {"just past the initialisation period", AW_HPA_RUNNING, AW_HPA_READY_TRUE, 0, 1, 300, 69,
         10, 60, AW__HPA_READY, AW__HPA_READY},
        {"old, unready since 29 s after its start: never was ready", AW_HPA_RUNNING,
         AW_HPA_READY_FALSE, 0, 1, 3600, 3571, 10, 60, AW__HPA_UNREADY, AW__HPA_READY},
        {"old, unready since 30 s after its start: was ready once", AW_HPA_RUNNING,
         AW_HPA_READY_FALSE, 0, 1, 3600, 3570, 10, 60, AW__HPA_READY, AW__HPA_READY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_hpa_pod pod = {
            .phase = cases[i].phase,
            .ready = cases[i].ready,
            .deleted = cases[i].deleted,
            .started = cases[i].started,
            .start_us = NOW_US - cases[i].start_ago_s * SECOND_US,
            .ready_change_us = NOW_US - cases[i].change_ago_s * SECOND_US,
        };
        struct aw_hpa_sample sample = {
            .present = cases[i].sample_ago_s >= 0,
            .timestamp_us = NOW_US - cases[i].sample_ago_s * SECOND_US,
            .window_us = cases[i].window_s * SECOND_US,
        };
        if (aw__hpa_group_of(&controller, &pod, &sample, true, NOW_US) != cases[i].cpu ||
            aw__hpa_group_of(&controller, &pod, &sample, false, NOW_US) != cases[i].other)
            fail_msg("%s", cases[i].why);
    }
}

struct world {
    struct aw_hpa_controller controller;
    struct aw_hpa_spec spec;
    struct aw_hpa_snapshot snapshot;
    struct aw_hpa_pod pods[PODS_MAX];
    struct aw_hpa_sample samples[PODS_MAX];
};

static void world_init(struct world *world, enum aw_hpa_metric_type type,
                       enum aw_hpa_target_type target_type, const char *name, int64_t target)
{
    memset(world, 0, sizeof *world);
    aw_hpa_controller_defaults(&world->controller);
    aw_hpa_spec_defaults(&world->spec, 1000);
    world->spec.metrics[0].type = type;
    world->spec.metrics[0].target_type = target_type;
    memcpy(world->spec.metrics[0].name, name, strlen(name) + 1);
    world->spec.metrics[0].target = target;
    world->snapshot.now_us = NOW_US;
    world->snapshot.pods = world->pods;
    world->snapshot.readings[0].samples = world->samples;
}

static void add_pod(struct world *world, enum aw__hpa_group group, int64_t value, int64_t request)
{
    uint32_t i = world->snapshot.pod_count++;
    int64_t start_us = NOW_US - 3600 * SECOND_US;
    assert_true(i < PODS_MAX);
    world->pods[i] = (struct aw_hpa_pod){
        .phase = group == AW__HPA_UNREADY ? AW_HPA_PENDING : AW_HPA_RUNNING,
        .ready = AW_HPA_READY_TRUE,
        .deleted = group == AW__HPA_IGNORED,
        .started = true,
        .start_us = start_us,
        .ready_change_us = start_us,
    };
    world->samples[i] = (struct aw_hpa_sample){
        .present = group != AW__HPA_MISSING,
        .has_request = true,
        .value = value,
        .request = request,
        .timestamp_us = NOW_US,
        .window_us = 30 * SECOND_US,
    };
}

static struct aw_hpa_proposal propose(struct world *world)
{
    return aw__hpa_propose(&world->controller, &world->spec, 0, &world->snapshot);
}

/* The same question answered the way upstream is written: a map from pods to values that is
 * changed step by step, here as two arrays, and everything summed again each time. */
static int32_t twin(const struct world *world, const enum aw__hpa_group *groups)
{
    bool in[PODS_MAX + 1];
    int64_t value[PODS_MAX + 1];
    uint32_t n = world->snapshot.pod_count;
    double target = (double)world->spec.metrics[0].target, ratio = 0;
    bool by_request = world->spec.metrics[0].target_type == AW_HPA_UTILIZATION;
    int unready = 0, missing = 0, ready = 0;
    for (uint32_t i = 0; i < n; i++) {
        in[i] = groups[i] == AW__HPA_READY;
        value[i] = world->samples[i].value;
        unready += groups[i] == AW__HPA_UNREADY;
        missing += groups[i] == AW__HPA_MISSING;
        ready += in[i];
    }
    for (int pass = 0;; pass++) {
        long double usage = 0, request = 0;
        int count = 0;
        for (uint32_t i = 0; i < n; i++)
            if (in[i]) {
                usage += value[i];
                request += world->samples[i].request;
                count++;
            }
        double level = (double)truncl(by_request ? usage * 100 / request : usage / count);
        double now = level / target;
        bool keep = now >= 0.9 && now <= 1.1;
        if (pass == 1) {
            int32_t result = (int32_t)ceil(now * count), current = world->snapshot.spec_replicas;
            bool flipped = (ratio - 1) * (now - 1) < 0;
            bool turned = (now < 1 && result > current) || (now > 1 && result < current);
            return keep || flipped || turned ? current : result;
        }
        ratio = now;
        bool with_unready = unready && ratio > 1;
        if (!with_unready && !missing)
            return keep ? world->snapshot.spec_replicas : (int32_t)ceil(ratio * ready);
        for (uint32_t i = 0; i < n; i++) {
            if (groups[i] == AW__HPA_MISSING && ratio != 1) {
                int64_t full = by_request ? world->samples[i].request *
                                                (target > 100 ? (int)target : 100) / 100
                                          : (int64_t)target;
                in[i] = true;
                value[i] = ratio < 1 ? full : 0;
            }
            if (groups[i] == AW__HPA_UNREADY && with_unready) {
                in[i] = true;
                value[i] = 0;
            }
        }
    }
}

static void random_pods_give_the_count_of_the_twin(void **state)
{
    (void)state;
    int changed = 0;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        struct world world;
        struct aw_rng rng;
        enum aw__hpa_group groups[PODS_MAX];
        aw_rng_init(&rng, seed, 0);
        bool by_request = aw_rng_below(&rng, 2);
        world_init(&world, by_request ? AW_HPA_RESOURCE : AW_HPA_PODS,
                   by_request ? AW_HPA_UTILIZATION : AW_HPA_AVERAGE_VALUE, "cpu",
                   by_request ? 10 + aw_rng_below(&rng, 190) : 100 + aw_rng_below(&rng, 1000));
        uint32_t n = 1 + aw_rng_below(&rng, PODS_MAX);
        double level = aw_rng_double(&rng) * 2;
        bool any = false;
        for (uint32_t i = 0; i < n; i++) {
            groups[i] =
                aw_rng_below(&rng, 2) ? AW__HPA_READY : (enum aw__hpa_group)aw_rng_below(&rng, 4);
            int64_t request = 100 + aw_rng_below(&rng, 2000);
            double full = (double)world.spec.metrics[0].target;
            full = by_request ? (double)request * full / 100 : full;
            add_pod(&world, groups[i], (int64_t)(full * level * aw_rng_uniform(&rng, 0.5, 1.5)),
                    request);
            any |= groups[i] == AW__HPA_READY;
        }
        /* during a rollout there are more pods than replicas, or fewer */
        int32_t current = (int32_t)n + (int32_t)aw_rng_below(&rng, 9) - 4;
        current = current < 1 ? 1 : current;
        world.snapshot.spec_replicas = current;
        struct aw_hpa_proposal proposal = propose(&world);
        if (!any) {
            assert_int_equal(proposal.failure, AW_HPA_FAILURE_NO_SAMPLES);
            continue;
        }
        assert_int_equal(proposal.failure, AW_HPA_FAILURE_NONE);
        changed += proposal.replicas != current;
        if (proposal.replicas != twin(&world, groups))
            fail_msg("seed %d: %d replicas, the twin %d", (int)seed, proposal.replicas,
                     twin(&world, groups));
    }
    assert_true(changed > 5000); /* or the comparison compared nothing */
}

/* However the other pods are doing: a pod that has no sample is never a reason for fewer replicas
 * than if it had used all of its request (or the target, where that is more). */
static void a_pod_without_a_sample_never_argues_for_fewer(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5000; seed++) {
        struct world missing, full;
        struct aw_rng rng;
        aw_rng_init(&rng, seed, 1);
        int64_t target = 10 + aw_rng_below(&rng, 150);
        world_init(&missing, AW_HPA_RESOURCE, AW_HPA_UTILIZATION, "memory", target);
        uint32_t n = 2 + aw_rng_below(&rng, PODS_MAX - 2);
        for (uint32_t i = 0; i < n; i++)
            add_pod(&missing, i > 0 && aw_rng_below(&rng, 3) == 0 ? AW__HPA_MISSING : AW__HPA_READY,
                    (int64_t)(10 * target * aw_rng_double(&rng)), 1000);
        missing.snapshot.spec_replicas = (int32_t)n;
        full = missing;
        full.snapshot.pods = full.pods;
        full.snapshot.readings[0].samples = full.samples;
        for (uint32_t i = 0; i < n; i++)
            if (!full.samples[i].present) {
                full.samples[i].present = true;
                full.samples[i].value = 1000 * (target > 100 ? target : 100) / 100;
            }
        int32_t a = propose(&missing).replicas, b = propose(&full).replicas;
        int32_t safe = b < (int32_t)n ? b : (int32_t)n;
        if (a < safe)
            fail_msg("seed %d: %d replicas, with full pods %d of %u", (int)seed, a, b, n);
    }
}

static void utilisation_is_cut_to_a_whole_percentage(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, AW_HPA_RESOURCE, AW_HPA_UTILIZATION, "cpu", 50);
    for (int i = 0; i < 10; i++)
        add_pod(&world, AW__HPA_READY, 559, 1000); /* 55.9 % */
    world.snapshot.spec_replicas = 10;
    struct aw_hpa_proposal proposal = propose(&world);
    assert_int_equal(proposal.utilization_pct, 55);
    assert_int_equal(proposal.replicas, 10); /* 1.1 is within; 1.118 would not be */
    for (int i = 0; i < 10; i++)
        world.samples[i].value = 560;
    assert_int_equal(propose(&world).replicas, 12);
}

static void the_ends_of_the_tolerance_belong_to_it(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, AW_HPA_EXTERNAL, AW_HPA_VALUE, "queue", 1000);
    world.snapshot.spec_replicas = 10;
    for (int i = 0; i < 10; i++)
        add_pod(&world, AW__HPA_READY, 0, 0);
    static const struct {
        int64_t value;
        int32_t replicas;
    } cases[] = {{1100, 10}, {1101, 12}, {900, 10}, {899, 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world.snapshot.readings[0].value = cases[i].value;
        assert_int_equal(propose(&world).replicas, cases[i].replicas);
    }
    world.spec.has_behavior = true;
    world.spec.up.tolerance = 0.3;
    world.spec.down.tolerance = 0;
    world.snapshot.readings[0].value = 1300;
    assert_int_equal(propose(&world).replicas, 10);
    world.snapshot.readings[0].value = 999;
    assert_int_equal(propose(&world).replicas, 10); /* 9.99, up to 10 */
    world.snapshot.readings[0].value = 900;
    assert_int_equal(propose(&world).replicas, 9);
}

static void extreme_values_saturate(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, AW_HPA_PODS, AW_HPA_AVERAGE_VALUE, "qps", 1);
    for (int i = 0; i < PODS_MAX; i++)
        add_pod(&world, AW__HPA_READY, INT64_MAX, 0);
    world.snapshot.spec_replicas = PODS_MAX;
    assert_int_equal(propose(&world).replicas, INT32_MAX);
    for (int i = 0; i < PODS_MAX; i++)
        world.samples[i].value = INT64_MIN;
    assert_int_equal(propose(&world).replicas, INT32_MIN);

    world_init(&world, AW_HPA_EXTERNAL, AW_HPA_AVERAGE_VALUE, "queue", 1);
    world.snapshot.readings[0].value = INT64_MAX;
    world.snapshot.status_replicas = 3;
    assert_int_equal(propose(&world).replicas, INT32_MAX);
    assert_true(propose(&world).usage == INT64_MAX);
    world.snapshot.status_replicas = 0; /* nothing exists: the target alone decides */
    world.snapshot.readings[0].value = 7;
    assert_int_equal(propose(&world).replicas, 7);
    world.snapshot.readings[0].value = 0;
    assert_int_equal(propose(&world).replicas, 0);
    assert_int_equal(aw__hpa_ceil(NAN), 0);
}

static void what_cannot_be_computed_is_named(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, AW_HPA_RESOURCE, AW_HPA_UTILIZATION, "cpu", 50);
    world.snapshot.spec_replicas = 2;
    assert_int_equal(propose(&world).failure, AW_HPA_FAILURE_NO_PODS);
    add_pod(&world, AW__HPA_MISSING, 0, 1000);
    add_pod(&world, AW__HPA_UNREADY, 500, 1000);
    assert_int_equal(propose(&world).failure, AW_HPA_FAILURE_NO_SAMPLES);
    add_pod(&world, AW__HPA_READY, 500, 1000);
    assert_int_equal(propose(&world).failure, AW_HPA_FAILURE_NONE);
    world.samples[0].has_request = false; /* even of a pod that has no sample */
    assert_int_equal(propose(&world).failure, AW_HPA_FAILURE_NO_REQUEST);
    world.samples[0].has_request = true;
    world.samples[2].request = 0;
    assert_int_equal(propose(&world).failure, AW_HPA_FAILURE_DISJOINT);
    world.snapshot.readings[0].failed = true;
    assert_int_equal(propose(&world).failure, AW_HPA_FAILURE_UNREADABLE);
}

static void samples_of_unknown_pods_count_for_averages_alone(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, AW_HPA_PODS, AW_HPA_AVERAGE_VALUE, "qps", 100);
    add_pod(&world, AW__HPA_READY, 100, 0);
    world.snapshot.spec_replicas = 1;
    world.snapshot.readings[0].stray_count = 1;
    world.snapshot.readings[0].stray_sum = 300;
    assert_int_equal(propose(&world).usage, 200);
    assert_int_equal(propose(&world).replicas, 2); /* 2.0 of one ready pod */
}

AW_TEST_GROUP("hpa-replicas")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pod_counts_as_the_rules_for_its_state_say),
        cmocka_unit_test(random_pods_give_the_count_of_the_twin),
        cmocka_unit_test(a_pod_without_a_sample_never_argues_for_fewer),
        cmocka_unit_test(utilisation_is_cut_to_a_whole_percentage),
        cmocka_unit_test(the_ends_of_the_tolerance_belong_to_it),
        cmocka_unit_test(extreme_values_saturate),
        cmocka_unit_test(what_cannot_be_computed_is_named),
        cmocka_unit_test(samples_of_unknown_pods_count_for_averages_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
