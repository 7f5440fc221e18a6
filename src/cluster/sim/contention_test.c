/* contention_test.c - pods that share the cores of a node whose limits exceed them. */
#include "cluster/sim/contention_testing.h"

#include "base/testing.h"

#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of what neighbours make of a p99, and on applications that nothing was chosen on. */
static void the_fast_model_sees_the_contention_that_the_reference_has(void **state)
{
    (void)state;
    double error[24 * TENANTS_MAX], quiet = 0, busy = 0;
    uint32_t count = 0, quiet_count = 0, busy_count = 0;
    for (uint32_t seed = 5000; seed < 5024; seed++) {
        struct crowd c;
        double slower[2][TENANTS_MAX];
        crowd_draw(seed, 0.8, &c);
        assert_ok(crowd_compare(&c, 120, slower));
        for (uint32_t i = 0; i < c.count; i++) {
            const double reference = slower[AW_SIM_REFERENCE][i], fast = slower[AW_SIM_FAST][i];
            if (isnan(reference))
                continue;
            error[count++] = fabs(fast - reference);
            *(reference > 0.4 ? &busy : &quiet) += fast;
            *(reference > 0.4 ? &busy_count : &quiet_count) += 1;
        }
    }
    qsort(error, count, sizeof *error, by_size);
    assert_true(busy_count > 10); /* or there would be nothing to see */
    assert_true(error[count / 2] < log(1.2));
    assert_true(busy / busy_count > quiet / quiet_count + 0.2); /* and the order is right */
}

static double total(const struct aw__sharer *s, uint32_t count, double part)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += s[i].busy * fmin(s[i].want, part * s[i].weight);
    return sum;
}

static void all_is_shared_and_in_proportion_to_weights(void **state)
{
    (void)state;
    struct aw_rng rng;
    aw_rng_init(&rng, 1, 0);
    uint32_t full = 0, spare = 0;
    for (uint32_t turn = 0; turn < 3000; turn++) {
        struct aw__sharer s[12];
        const uint32_t count = 1 + aw_rng_below(&rng, 12);
        const double cores = aw_rng_uniform(&rng, 1, 16);
        double wanted = 0;
        for (uint32_t i = 0; i < count; i++) {
            s[i] = (struct aw__sharer){.busy = turn % 2 ? 1 : aw_rng_double(&rng),
                                       .want = aw_rng_uniform(&rng, 0, 4),
                                       .weight = aw_rng_uniform(&rng, 0.1, 4)};
            wanted += s[i].busy * s[i].want;
        }
        const double part = aw__share(s, count, cores);
        /* a pod that gets less than it wants gets exactly `part` of its weight: total() says so */
        assert_close(total(s, count, part), fmin(wanted, cores), 1e-9 * cores);
        full += wanted > cores;
        spare += wanted < cores;
    }
    assert_true(full > 300 && spare > 300);
    const struct aw__sharer two[] = {{1, 8, 1}, {1, 8, 3}};
    assert_close(aw__share(two, 2, 4), 1, 1e-12); /* 1 and 3 of 4 cores */
    assert_true(isinf(aw__share(two, 2, 17)));
}

/* Two workloads of one replica on one node, both with more to do than it has cores for. */
static void rivals_run(uint32_t model, double overcommit, int64_t first_millicores,
                       struct aw_sim_truth *ret)
{
    struct aw_sim_settings settings;
    struct aw_sim *sim = NULL;
    float rate = 400;
    const struct aw_load load = {.slot_count = 1, .slot_us = 1000000000000, .rate_per_s = &rate};
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.model = model;
    settings.node_count = 1;
    settings.node_cores = 4;
    settings.overcommit_cpu = overcommit;
    assert_ok(aw_sim_new(&settings, 1, 2, NULL, &sim, NULL));
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_sim_workload w = {.load = &load,
                                    .replicas = 1,
                                    .replicas_max = 1,
                                    .cpu_millicores = i ? 4000 : first_millicores,
                                    .memory_bytes = (int64_t)1 << 30};
        uint32_t index;
        w.app.segment_count = 1;
        w.app.segment[0] = (struct aw_segment){.cpu_ms = 20, .cpu_cv = 0.5, .parallelism = 1};
        assert_ok(aw_sim_add(sim, &w, &index, NULL));
    }
    const struct aw_cluster cluster = aw_sim_cluster(sim);
    for (int64_t step = 1; step <= 20; step++)
        assert_ok(cluster.ops->advance(cluster.self, step * 15000000));
    for (uint32_t i = 0; i < 2; i++)
        ret[i] = *aw_sim_truth(sim, i);
    aw_sim_free(sim);
}

static void who_has_more_weight_gets_more_and_no_core_is_used_twice(void **state)
{
    (void)state;
    for (uint32_t model = 0; model < 2; model++) {
        struct aw_sim_truth equal[2], unequal[2], refused[2];
        rivals_run(model, 2, 4000, equal);
        assert_close(equal[0].cpu_core_s / 15, 2, 0.1);
        assert_close(equal[1].cpu_core_s / 15, 2, 0.1);
        rivals_run(model, 2, 1000, unequal); /* 1 to 4: 0.8 and 3.2 of 4 cores */
        assert_close(unequal[0].cpu_core_s / 15, 0.8, 0.05);
        assert_close(unequal[1].cpu_core_s / 15, 3.2, 0.15);
        rivals_run(model, 1, 4000, refused); /* nodes are not overcommitted: no room */
        assert_close(refused[0].cpu_core_s / 15, 4, 0.1);
        assert_true(refused[1].cpu_core_s == 0);
    }
}

/* Plans and lost nodes by chance: cores are never used twice, and a copy goes on as the original.
 */
static void whatever_happens_no_node_gives_more_than_it_has(void **state)
{
    (void)state;
    for (uint32_t model = 0; model < 2; model++) {
        struct crowd c;
        struct aw_sim *sim = NULL, *copy = NULL;
        struct aw_alloc_counting counting;
        struct aw_rng rng;
        uint32_t index;
        aw_rng_init(&rng, 3, 0);
        crowd_draw(9, 0.8, &c);
        c.settings.model = model;
        c.settings.node_count = 2;
        c.settings.in_place = true;
        aw_alloc_counting_init(&counting);
        assert_ok(aw_sim_new(&c.settings, 1, c.count, &counting.alloc, &sim, NULL));
        assert_ok(aw_sim_new(&c.settings, 1, c.count, NULL, &copy, NULL));
        for (uint32_t i = 0; i < c.count; i++) {
            c.workload[i].replicas_max = 6;
            assert_ok(aw_sim_add(sim, &c.workload[i], &index, NULL));
            assert_ok(aw_sim_add(copy, &c.workload[i], &index, NULL));
        }
        const struct aw_cluster cluster = aw_sim_cluster(sim), second = aw_sim_cluster(copy);
        const uint64_t allocations = counting.alloc_count;
        for (int64_t step = 1; step <= 60; step++) {
            const struct aw_plan plan = {
                .set = AW_PLAN_REPLICAS | AW_PLAN_CPU,
                .replicas = 1 + aw_rng_below(&rng, 6),
                .cpu_millicores = 100 + aw_rng_below(&rng, 3000),
            };
            assert_ok(cluster.ops->apply(cluster.self, aw_rng_below(&rng, c.count), &plan, 0));
            if (step % 20 == 0)
                aw_sim_fail_node(sim, aw_rng_below(&rng, 2), (step + 4) * 15000000);
            assert_ok(cluster.ops->advance(cluster.self, step * 15000000));
            double used = 0;
            for (uint32_t i = 0; i < c.count; i++)
                used += aw_sim_truth(sim, i)->cpu_core_s / 15;
            assert_true(used <= 2 * c.settings.node_cores * (model ? 1 + 1e-9 : 1.1));
        }
        assert_int_equal(counting.alloc_count, allocations);
        if (model == AW_SIM_FAST) {
            void *bytes = aw_alloc_new(NULL, 1, aw_sim_state_bytes(sim));
            aw_sim_state_save(sim, bytes);
            assert_ok(aw_sim_state_load(copy, bytes));
            assert_ok(cluster.ops->advance(cluster.self, INT64_C(61) * 15000000));
            assert_ok(second.ops->advance(second.self, INT64_C(61) * 15000000));
            for (uint32_t i = 0; i < c.count; i++)
                assert_memory_equal(aw_sim_truth(sim, i), aw_sim_truth(copy, i),
                                    sizeof(struct aw_sim_truth));
            aw_alloc_free(NULL, bytes);
        }
        aw_sim_free(copy);
        aw_sim_free(sim);
        assert_int_equal(counting.free_count, counting.alloc_count);
    }
}

static void capacity_is_what_limits_may_sum_to(void **state)
{
    (void)state;
    struct aw_sim_settings settings;
    struct aw_sim *sim = NULL;
    int64_t cpu, memory;
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.overcommit_cpu = 3;
    assert_ok(aw_sim_new(&settings, 1, 1, NULL, &sim, NULL));
    aw_sim_capacity(sim, &cpu, &memory);
    assert_int_equal(cpu, 3 * 8 * 16000);
    assert_int_equal(memory, INT64_C(8) * 64 << 30);
    aw_sim_free(sim);
}

AW_TEST_GROUP("sim-contention")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_shared_and_in_proportion_to_weights),
        cmocka_unit_test(who_has_more_weight_gets_more_and_no_core_is_used_twice),
        cmocka_unit_test(whatever_happens_no_node_gives_more_than_it_has),
        cmocka_unit_test(capacity_is_what_limits_may_sum_to),
        cmocka_unit_test(the_fast_model_sees_the_contention_that_the_reference_has),
    };
    return cmocka_run_group_tests_name("sim-contention", tests, NULL, NULL);
}
