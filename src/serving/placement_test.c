/* placement_test.c - clusters, the search by hand, and against all assignments of small cases. */
#include "serving/placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/testing.h"
#include "serving/requests.h"

static void neighbours_of_like_score_are_one_cluster(void **state)
{
    (void)state;
    const double score[] = {1.9, 1.8, 1.95, 0.4, 0.5, 1.7};
    uint32_t cluster[6];
    assert_int_equal(aw_cluster(score, 6, 0.5, cluster), 3);
    const uint32_t expected[] = {0, 0, 0, 1, 1, 2};
    assert_memory_equal(cluster, expected, sizeof expected);
    assert_int_equal(aw_cluster(score, 0, 0.5, cluster), 0);
    /* as printed: a fall is never a border, and the last cluster is lost */
    aw_cluster_printed(score, 6, 0.5, cluster);
    assert_true(cluster[3] == cluster[2] && cluster[5] == UINT32_MAX);
}

/* Two models of 2 GB and 100 ms, requests by hand (mms' toy profiles). */
static void the_fast_simulation_is_as_by_hand(void **state)
{
    (void)state;
    const double arrival[] = {0, 0, 0, 0.05};
    const uint16_t model[] = {0, 0, 0, 1};
    const float work[] = {0.1f, 0.1f, 0.1f, 0.1f};
    const struct aw_place_problem problem = {.kind = aw_gpu_kind_find("v100"),
                                             .devices = 2,
                                             .models = 2,
                                             .weights_gb = {2, 2},
                                             .latency_s = {0.1, 0.1},
                                             .slo_s = {0.25, 0.25},
                                             .count = 4,
                                             .arrival_s = arrival,
                                             .model = model,
                                             .work_s = work};
    uint64_t unserved[2], handled[2];
    /* one device each: of three at once two end in time (.111, .211), the third would need .311 */
    struct aw_place place = {.op = 1, .pp = 1, .groups = 2, .models = {1, 2}};
    aw_place_simulate(&problem, &place, unserved, handled);
    assert_true(unserved[0] == 1 && unserved[1] == 0 && handled[0] == 2 && handled[1] == 1);
    assert_close(place.latency_s, (0.111 + 0.211 + 0.111) / 3, 1e-6);
    /* both on both: all are served */
    place = (struct aw_place){.op = 1, .pp = 1, .groups = 2, .models = {3, 3}};
    aw_place_simulate(&problem, &place, unserved, handled);
    assert_true(unserved[0] + unserved[1] == 0);
    /* the search finds that by itself */
    assert_ok(aw_place_search(&problem, 1, &place, NULL));
    assert_true(place.attainment == 1);
}

static void load_make(uint32_t models, uint32_t count, double *arrival, uint16_t *model,
                      float *work, double gap, const double *latency)
{
    struct aw_rng rng;
    double at = 0;
    aw_rng_init(&rng, 4, models);
    for (uint32_t i = 0; i < count; i++) {
        at += aw_rng_exponential(&rng, gap);
        arrival[i] = at;
        model[i] = (uint16_t)aw_rng_below(&rng, models);
        work[i] = (float)latency[model[i]];
    }
}

/* Three models, two devices: all 3^3 x ... assignments are tried; the greedy search comes close. */
static void the_search_is_near_the_best_of_all_assignments(void **state)
{
    (void)state;
    enum { N = 400 };
    double arrival[N];
    uint16_t model[N];
    float work[N];
    for (uint32_t seed = 0; seed < 8; seed++) {
        struct aw_place_problem problem = {.kind = aw_gpu_kind_find("v100"),
                                           .devices = 2,
                                           .models = 3,
                                           .weights_gb = {3 + seed, 6, 5},
                                           .latency_s = {0.1, 0.3, 0.2 + 0.05 * seed},
                                           .count = N,
                                           .arrival_s = arrival,
                                           .model = model,
                                           .work_s = work};
        for (uint32_t m = 0; m < 3; m++)
            problem.slo_s[m] = 3 * problem.latency_s[m];
        load_make(3, N, arrival, model, work, 0.15, problem.latency_s);
        struct aw_place found, best = {.attainment = 0};
        assert_ok(aw_place_search(&problem, 1, &found, NULL));
        for (uint32_t code = 0; code < 64; code++) {
            struct aw_place place = {
                .op = 1, .pp = 1, .groups = 2, .models = {code & 7, code >> 3}};
            bool fits = (place.models[0] | place.models[1]) == 7;
            for (uint32_t g = 0; g < 2; g++) {
                double used = 0;
                for (uint32_t m = 0; m < 3; m++)
                    used += place.models[g] >> m & 1 ? problem.weights_gb[m] : 0;
                fits &= used <= problem.kind->memory_gb;
            }
            if (!fits)
                continue;
            aw_place_simulate(&problem, &place, NULL, NULL);
            best = place.attainment > best.attainment ? place : best;
        }
        assert_true(found.attainment >= best.attainment - 0.03);
    }
}

static void fifteen_models_on_sixteen_gpus_take_less_than_ten_seconds(void **state)
{
    (void)state;
    enum { N = 30000 };
    double *arrival = calloc(N, sizeof *arrival);
    uint16_t *model = calloc(N, sizeof *model);
    float *work = calloc(N, sizeof *work);
    struct aw_place_problem problem = {.kind = aw_gpu_kind_find("v100"),
                                       .devices = 16,
                                       .models = AW_SERVING_MODELS,
                                       .count = N,
                                       .arrival_s = arrival,
                                       .model = model,
                                       .work_s = work};
    for (uint32_t m = 0; m < problem.models; m++) {
        problem.weights_gb[m] = aw_serving_models[m].weights_gb;
        problem.latency_s[m] = aw_serving_models[m].latency_s;
        problem.slo_s[m] = 5 * problem.latency_s[m];
    }
    load_make(problem.models, N, arrival, model, work, 0.12, problem.latency_s);
    struct aw_place place;
    const clock_t begin = clock();
    assert_ok(aw_place_search(&problem, 8, &place, NULL));
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    print_message("%u shapes, %u simulations of %u requests: %.2f s; op %u pp %u, %.4f\n",
                  place.shapes, place.simulations, (uint32_t)N, seconds, place.op, place.pp,
                  place.attainment);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__has_feature)
    assert_true(seconds < 10);
#endif
    for (uint32_t m = 0; m < problem.models; m++) {
        bool somewhere = false;
        for (uint32_t g = 0; g < place.groups; g++)
            somewhere |= place.models[g] >> m & 1;
        assert_true(somewhere);
    }
    free(arrival);
    free(model);
    free(work);
}

static void likeness_keeps_replicas_and_memory(void **state)
{
    (void)state;
    struct aw_fleet_world world;
    double share[AW_SERVING_MODELS];
    for (uint32_t m = 0; m < AW_SERVING_MODELS; m++)
        share[m] = aw_serving_models[m].latency_s;
    for (uint32_t way = 0; way < 2; way++)
        for (uint32_t s = 0; s <= 4; s++) {
            assert_ok(aw_fleet_world_table(&world, aw_gpu_kind_find("v100"), 16, NULL));
            for (uint32_t m = 0; m < world.models; m++)
                world.slo_s[m] = 5 * share[m];
            assert_ok(way ? aw_place_by_latency(&world, share, 0.25 * s, NULL)
                          : aw_place_by_sensitivity(&world, share, 0.25 * s, NULL));
            for (uint32_t d = 0; d < world.devices; d++) {
                double used = 0;
                for (uint32_t m = 0; m < world.models; m++)
                    used += world.replicas[m] >> d & 1 ? world.weights_gb[m] : 0;
                assert_true(used <= world.kind->memory_gb + 1e-9);
            }
            for (uint32_t m = 0; m < world.models; m++)
                assert_true(world.replicas[m] != 0);
        }
}

AW_TEST_GROUP("serving-placement")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_of_like_score_are_one_cluster),
        cmocka_unit_test(the_fast_simulation_is_as_by_hand),
        cmocka_unit_test(the_search_is_near_the_best_of_all_assignments),
        cmocka_unit_test(fifteen_models_on_sixteen_gpus_take_less_than_ten_seconds),
        cmocka_unit_test(likeness_keeps_replicas_and_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
