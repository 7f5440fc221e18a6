#include "base/testing.h"
#include "base/units.h"
#include "cluster/sim/internal.h"

#define STEP_US 15000000
#define STEPS   400

/* What must hold at any time: every pod is on one node or on none, no id is there twice, and nodes
 * have given away what their pods have. */
static void books_are_right(const struct aw_sim *sim)
{
    double cores[AW_SIM_NODES_MAX] = {0}, memory_mib[AW_SIM_NODES_MAX] = {0};
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        const struct aw__pod *pods = aw__pods(sim, w);
        uint32_t all = 0;
        for (uint32_t i = 0; i < sim->profile[w].pods_max; i++) {
            const struct aw__pod *pod = &pods[i];
            if (pod->phase == AW__POD_NONE)
                continue;
            assert_true(i < sim->workload[w].place_end);
            assert_true(pod->count > 0 && (pod->count == 1 || !aw__pods_apart(sim)));
            assert_true(pod->id + pod->count - 1 <= sim->workload[w].next_id);
            for (uint32_t k = 0; k < i; k++)
                assert_true(pods[k].phase == AW__POD_NONE ||
                            pod->id >= pods[k].id + pods[k].count ||
                            pods[k].id >= pod->id + pod->count);
            uint32_t placed = 0;
            for (uint32_t n = 0; n < AW_SIM_NODES_MAX; n++) {
                placed += pod->on_node[n];
                cores[n] += pod->on_node[n] * pod->cores;
                memory_mib[n] += pod->on_node[n] * pod->memory_mib;
            }
            assert_int_equal(placed, pod->node == AW__NO_NODE ? 0 : pod->count);
            assert_true(pod->node == AW__NO_NODE || pod->on_node[pod->node] > 0);
            double noise = 0, high = 0;
            for (uint32_t k = 0; k < pod->count; k++) {
                noise += aw__memory_noise(&sim->workload[w], pod->id + k) / pod->count;
                high = fmax(high, aw__memory_noise(&sim->workload[w], pod->id + k));
            }
            if (pod->phase == AW__POD_READY) { /* those that serve, and each of them */
                assert_close(pod->memory_noise, noise, 1e-9);
                assert_true(pod->memory_noise_high == high);
            }
            all += pod->count;
        }
        assert_true(all <= sim->profile[w].pods_max);
    }
    for (uint32_t n = 0; n < sim->settings.node_count; n++) {
        assert_close(sim->nodes->cores_taken[n], cores[n], 1e-6);
        assert_close(sim->nodes->memory_taken_mib[n], memory_mib[n], 1e-6);
    }
}

static void sample_is_right(struct aw_sim *sim, struct aw_cluster *cluster)
{
    struct aw_sample brief, sample;
    struct aw_sim_placed placed;
    assert_ok(aw_sim_observe(sim, 0, &brief, &placed));
    assert_int_equal(brief.pod_count, 0);
    assert_ok(cluster->ops->observe(cluster->self, 0, 0, &sample));
    uint32_t ready = 0, pending = 0, starting = 0;
    for (uint32_t i = 0; i < sample.pod_count; i++) {
        const struct aw_pod *pod = &sample.pods[i];
        const bool there = pod->phase == AW_POD_RUNNING || pod->phase == AW_POD_STARTING;
        ready += pod->ready;
        pending += pod->phase == AW_POD_PENDING;
        starting += pod->phase == AW_POD_STARTING;
        placed.cpu_millicores -= there ? pod->cpu_millicores : 0;
        placed.memory_bytes -= there ? pod->memory_bytes : 0;
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(pod->id, sample.pods[k].id);
    }
    assert_int_equal(ready, brief.replicas_ready);
    assert_int_equal(pending, brief.replicas_pending);
    assert_int_equal(starting, brief.replicas_starting);
    assert_true(placed.cpu_millicores == 0 && placed.memory_bytes == 0);
}

/* Plans, lost nodes, neighbours and leaks by chance, on nodes that are soon full. */
static void walk(uint32_t model, bool in_place, uint64_t seed)
{
    struct aw_sim_settings settings;
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.model = model;
    settings.in_place = in_place;
    settings.node_count = 5;
    settings.node_cores = 6;
    settings.node_memory_gib = 4;
    float rate = model == AW_SIM_FAST ? 60 : 6;
    const struct aw_load load = {.slot_count = 1, .slot_us = 1000000, .rate_per_s = &rate};
    struct aw_sim_workload workload = {.load = &load,
                                       .replicas = 4,
                                       .replicas_max = 20,
                                       .cpu_millicores = 1000,
                                       .memory_bytes = 512ll * AW_MIB};
    workload.app.segment_count = 1;
    workload.app.segment[0] = (struct aw_segment){.cpu_ms = 30,
                                                  .memory_base_mib = 150,
                                                  .memory_flight_mib = 2,
                                                  .parallelism = 1,
                                                  .cold_start_ms = 3000};
    struct aw_sim *sim = NULL;
    struct aw_rng rng;
    uint32_t index, kills = 0, parted = 0;
    aw_rng_init(&rng, seed, 0);
    assert_ok(aw_sim_new(&settings, seed, 2, NULL, &sim, NULL));
    assert_ok(aw_sim_add(sim, &workload, &index, NULL));
    assert_ok(aw_sim_add(sim, &workload, &index, NULL));
    struct aw_cluster cluster = aw_sim_cluster(sim);
    for (int64_t step = 1; step <= STEPS; step++) {
        const uint32_t what = aw_rng_below(&rng, 10);
        const struct aw_plan plan = {
            .set = 1 + aw_rng_below(&rng, 7),
            .replicas = 1 + aw_rng_below(&rng, 20),
            .cpu_millicores = 100 + aw_rng_below(&rng, 3000),
            .memory_bytes = (140 + (int64_t)aw_rng_below(&rng, 400)) * AW_MIB,
        };
        struct aw_sim_disturbance disturbance = aw_sim_undisturbed;
        disturbance.memory_leak_mib = aw_rng_uniform(&rng, 0, 100);
        if (what < 4)
            assert_ok(cluster.ops->apply(cluster.self, aw_rng_below(&rng, 2), &plan, 0));
        else if (what == 4)
            aw_sim_fail_node(sim, aw_rng_below(&rng, 5), (step + 5) * STEP_US);
        else if (what == 5)
            aw_sim_disturb(sim, 0, &disturbance);
        else if (what == 6)
            aw_sim_neighbours(sim, aw_rng_below(&rng, 3) ? 0 : 0.3, 0);
        books_are_right(sim);
        assert_ok(cluster.ops->advance(cluster.self, step * STEP_US));
        books_are_right(sim);
        sample_is_right(sim, &cluster);
        kills += aw_sim_truth(sim, 0)->oom_kills;
        parted += aw__pods(sim, 0)->count > 1;
    }
    assert_true(kills > 0);
    assert_true(model == AW_SIM_REFERENCE ? parted == 0 : parted > 0);
    aw_sim_free(sim);
}

static void the_books_are_right_whatever_happens(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        walk(AW_SIM_FAST, false, seed);
        walk(AW_SIM_FAST, true, seed);
    }
    walk(AW_SIM_REFERENCE, false, 1);
}

/* Those that part take with them what is theirs, and it adds up to what was there. */
static void what_parts_keeps_its_own(void **state)
{
    (void)state;
    struct aw_sim_settings settings;
    aw_conf_defaults(aw_sim_fields, &settings);
    float rate = 10;
    const struct aw_load load = {.slot_count = 1, .slot_us = 1000000, .rate_per_s = &rate};
    struct aw_sim_workload workload = {.load = &load,
                                       .replicas = 10,
                                       .replicas_max = 20,
                                       .cpu_millicores = 1000,
                                       .memory_bytes = 512ll * AW_MIB};
    workload.app.segment_count = 1;
    workload.app.segment[0] =
        (struct aw_segment){.cpu_ms = 30, .memory_base_mib = 150, .parallelism = 1};
    struct aw_sim *sim = NULL;
    uint32_t index;
    assert_ok(aw_sim_new(&settings, 1, 1, NULL, &sim, NULL));
    assert_ok(aw_sim_add(sim, &workload, &index, NULL));
    struct aw_cluster cluster = aw_sim_cluster(sim);
    assert_ok(cluster.ops->advance(cluster.self, STEP_US));
    struct aw_sample sample;
    double before[10];
    assert_ok(cluster.ops->observe(cluster.self, 0, 0, &sample));
    assert_int_equal(sample.pod_count, 10);
    for (uint32_t i = 0; i < 10; i++)
        before[sample.pods[i].id - 1] = sample.pods[i].memory_bytes_used.value;

    /* the image was nowhere: the first pods on eight nodes pulled it, two others did not */
    const uint32_t id = aw__pods(sim, 0)->id + 1;
    struct aw__pod *middle = aw__pod_only(sim, 0, id, 1);
    assert_true(middle->id == id && middle->count == 1);
    books_are_right(sim);
    aw__pod_part_all(sim, 0, aw__pods(sim, 0));
    books_are_right(sim);
    assert_ok(cluster.ops->observe(cluster.self, 0, 0, &sample));
    assert_int_equal(sample.pod_count, 10);
    assert_int_equal(sample.replicas_ready, 10);
    for (uint32_t i = 0; i < 10; i++)
        assert_close(sample.pods[i].memory_bytes_used.value, before[sample.pods[i].id - 1], 1e-9);
    assert_true(before[0] != before[1]); /* each process has its own */
    aw_sim_free(sim);
}

static size_t largest;

static void *noting_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    largest = bytes > largest ? bytes : largest;
    return aw_alloc_heap.alloc(NULL, bytes);
}

static void noting_free(void *ctx, void *block)
{
    (void)ctx;
    aw_alloc_heap.free(NULL, block);
}

/* Most places are never used. In a block that asks for huge pages (from four megabytes on) they
 * would be resident all the same, some 40 KiB for each workload. */
static void places_that_nobody_uses_are_not_resident(void **state)
{
    (void)state;
    const struct aw_alloc noting = {noting_alloc, noting_free, NULL};
    struct aw_sim_settings settings;
    struct aw_sim *sim = NULL;
    float rate = 1;
    const struct aw_load load = {.slot_count = 1, .slot_us = 1000000000000, .rate_per_s = &rate};
    struct aw_sim_workload workload = {.load = &load,
                                       .replicas = 1,
                                       .replicas_max = 64,
                                       .cpu_millicores = 100,
                                       .memory_bytes = (int64_t)64 << 20};
    aw_app_generate(1, 0, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &workload.app);
    aw_conf_defaults(aw_sim_fields, &settings);
    largest = 0;
    assert_ok(aw_sim_new(&settings, 1, 128, &noting, &sim, NULL));
    for (uint32_t i = 0; i < 128; i++) {
        uint32_t index;
        assert_ok(aw_sim_add(sim, &workload, &index, NULL));
    }
    assert_true(largest < (size_t)4 << 20);
    assert_true(largest > sizeof(struct aw__pod) * AW__PIECE_PLACES); /* it was asked */
    aw_sim_free(sim);
}

AW_TEST_GROUP("sim-together")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_books_are_right_whatever_happens),
        cmocka_unit_test(what_parts_keeps_its_own),
        cmocka_unit_test(places_that_nobody_uses_are_not_resident),
    };
    return cmocka_run_group_tests_name("sim-together", tests, NULL, NULL);
}
