#include "base/testing.h"
#include "base/units.h"
#include "cluster/sim.h"
#include "cluster/surrogate.h"

#include <math.h>
#include <string.h>

#define STEP_US 15000000

/* A cluster with one workload of one segment under constant load. */
struct world {
    struct aw_sim_settings settings;
    struct aw_segment segment;
    double rate_per_s;
    uint32_t replicas;
    double cores;
    int64_t memory_mib;

    float rate;
    struct aw_load load;
    struct aw_sim *sim;
    struct aw_cluster cluster;
    int64_t now_us;
};

static void world_defaults(struct world *world, enum aw_sim_model model)
{
    *world = (struct world){.rate_per_s = 50, .replicas = 1, .cores = 2, .memory_mib = 4096};
    aw_conf_defaults(aw_sim_fields, &world->settings);
    world->settings.model = model;
    world->settings.metric_noise = 0;
    world->segment = (struct aw_segment){.name = "test",
                                         .cpu_ms = 10,
                                         .memory_base_mib = 100,
                                         .memory_flight_mib = 1,
                                         .parallelism = 1,
                                         .cold_start_ms = 1000};
}

static struct aw_sim_workload workload_of(const struct world *world)
{
    struct aw_sim_workload workload = {.load = &world->load,
                                       .replicas = world->replicas,
                                       .replicas_max = 20,
                                       .cpu_millicores = (int64_t)(world->cores * 1e3),
                                       .memory_bytes = world->memory_mib * AW_MIB};
    workload.app.segment_count = 1;
    workload.app.segment[0] = world->segment;
    return workload;
}

static void world_begin(struct world *world, uint64_t seed)
{
    struct aw_diag diag;
    uint32_t index;
    world->rate = (float)world->rate_per_s;
    world->load = (struct aw_load){.slot_count = 1, .slot_us = 1000000, .rate_per_s = &world->rate};
    assert_ok(aw_sim_new(&world->settings, seed, 2, NULL, &world->sim, &diag));
    struct aw_sim_workload workload = workload_of(world);
    assert_ok(aw_sim_add(world->sim, &workload, &index, &diag));
    assert_int_equal(index, 0);
    world->cluster = aw_sim_cluster(world->sim);
    world->now_us = 0;
}

static const struct aw_sim_truth *world_step(struct world *world, int64_t span_us)
{
    world->now_us += span_us;
    assert_ok(world->cluster.ops->advance(world->cluster.self, world->now_us));
    return aw_sim_truth(world->sim, 0);
}

static struct aw_sample world_observe(struct world *world)
{
    struct aw_sample sample;
    assert_ok(world->cluster.ops->observe(world->cluster.self, 0, 0, &sample));
    return sample;
}

static void world_apply(struct world *world, const struct aw_plan *plan)
{
    assert_ok(world->cluster.ops->apply(world->cluster.self, 0, plan, 0));
}

/* --- the reference against queueing theory -------------------------------------------------------
 */

static void one_worker_waits_as_pollaczek_and_khinchine_say(void **state)
{
    (void)state;
    const struct {
        double cv, load;
        const char *why;
    } table[] = {{0, 0.6, "constant work: M/D/1"},
                 {1, 0.5, "lognormal work with the variance of M/M/1"},
                 {1.5, 0.7, "heavy variance"}};
    for (size_t i = 0; i < 3; i++) {
        struct world world;
        world_defaults(&world, AW_SIM_REFERENCE);
        world.cores = 4; /* one worker never meets the quota */
        world.segment.threads = 1;
        world.segment.cpu_cv = table[i].cv;
        world.rate_per_s = table[i].load * 100;
        world_begin(&world, 1);
        world_step(&world, STEP_US);
        const struct aw_sim_truth *truth = world_step(&world, (int64_t)10000 * 1000000);
        double cv2 = table[i].cv * table[i].cv, rho = table[i].load;
        double want_us = 1e4 * (1 + rho * (1 + cv2) / (2 * (1 - rho)));
        if (fabs(truth->latency_us_mean / want_us - 1) > 0.04)
            print_error("%s: %g instead of %g us\n", table[i].why, truth->latency_us_mean, want_us);
        assert_true(fabs(truth->latency_us_mean / want_us - 1) <= 0.04);
        assert_close(truth->cpu_core_s / 1e4, rho, 0.03);
        aw_sim_free(world.sim);
    }
}

static void shared_processors_do_not_see_variance(void **state)
{
    (void)state;
    /* A node of one core without quota below it: M/G/1 with processor sharing, whose mean is
     * s / (1 - rho) whatever the distribution. */
    const double cvs[] = {0, 1, 2};
    for (size_t i = 0; i < 3; i++) {
        struct world world;
        world_defaults(&world, AW_SIM_REFERENCE);
        world.settings.node_cores = world.cores = 1;
        world.segment.cpu_cv = cvs[i];
        world.rate_per_s = 60;
        world_begin(&world, 2);
        /* a quota that never binds: the same one core for every period */
        world_step(&world, STEP_US);
        const struct aw_sim_truth *truth = world_step(&world, (int64_t)20000 * 1000000);
        assert_true(fabs(truth->latency_us_mean / 25e3 - 1) <= 0.05);
        aw_sim_free(world.sim);
    }
}

static void a_quota_stalls_until_its_period_ends(void **state)
{
    (void)state;
    /* 50 ms of work at 0.2 cores, 20 ms a period. Arriving u ms into a period: 210 - u while 20 ms
     * are left of it; else, with r = 100 - u, 210 for r < 10 and 130 beyond: 170 ms on average. */
    struct world world;
    world_defaults(&world, AW_SIM_REFERENCE);
    world.cores = 0.2;
    world.segment.cpu_ms = 50;
    world.rate_per_s = 0.05;
    world_begin(&world, 3);
    world_step(&world, STEP_US);
    const struct aw_sim_truth *truth = world_step(&world, (int64_t)40000 * 1000000);
    assert_true(fabs(truth->latency_us_mean / 170e3 - 1) < 0.03);
    assert_true(truth->throttled_share > 0.5);
    assert_close(truth->cpu_core_s, truth->completions * 0.05, 0.01);
    aw_sim_free(world.sim);
}

static void requests_are_never_lost_from_the_books(void **state)
{
    (void)state;
    struct world world;
    world_defaults(&world, AW_SIM_REFERENCE);
    world.segment.cpu_cv = 0.5;
    world.segment.io_ms = 30;
    world.segment.io_cv = 0.5;
    world.segment.memory_flight_mib = 40;
    world.memory_mib = 400; /* kills now and then */
    world.replicas = 3;
    world.rate_per_s = 150;
    world_begin(&world, 4);
    double arrivals = 0, ended = 0;
    uint32_t kills = 0;
    for (int i = 0; i < 200; i++) {
        const struct aw_sim_truth *truth = world_step(&world, STEP_US);
        arrivals += truth->arrivals;
        ended += truth->completions + truth->failures;
        kills += truth->oom_kills;
        assert_close(arrivals, ended + truth->in_flight, 1e-9);
        if (i % 7 == 0)
            world_apply(&world, &(struct aw_plan){.set = AW_PLAN_REPLICAS,
                                                  .replicas = 2 + (uint32_t)i % 5});
        if (i % 11 == 0)
            world_apply(&world, &(struct aw_plan){.set = AW_PLAN_CPU,
                                                  .cpu_millicores = 1000 + 100 * (i % 9)});
    }
    assert_true(kills > 0);
    aw_sim_free(world.sim);
}

/* --- both models
 * ---------------------------------------------------------------------------------- */

#define FOR_BOTH_MODELS \
    for (enum aw_sim_model model = AW_SIM_FAST; model <= AW_SIM_REFERENCE; model++)

static void the_same_seed_gives_the_same_bytes(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct aw_sim_truth truth[2][20];
        for (int run = 0; run < 2; run++) {
            struct world world;
            world_defaults(&world, model);
            world.segment.cpu_cv = 0.7;
            world.settings.metric_noise = 0.05;
            world_begin(&world, 5);
            for (int i = 0; i < 20; i++)
                truth[run][i] = *world_step(&world, STEP_US);
            aw_sim_free(world.sim);
        }
        assert_memory_equal(truth[0], truth[1], sizeof truth[0]);
    }
}

static void a_reset_begins_anew(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world.segment.cpu_cv = 0.7;
        world_begin(&world, 6);
        struct aw_sim_truth first = *world_step(&world, STEP_US);
        world_apply(&world, &(struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 7});
        world_step(&world, STEP_US);
        assert_ok(aw_sim_reset(world.sim, 6));
        world.now_us = 0;
        struct aw_sim_truth again = *world_step(&world, STEP_US);
        assert_memory_equal(&first, &again, sizeof first);
        aw_sim_free(world.sim);
    }
}

static void scaling_out_takes_a_cold_start_and_scaling_in_drains(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world.settings.image_pull_s = 6;
        world_begin(&world, 7);
        world_step(&world, STEP_US);
        assert_int_equal(world_observe(&world).replicas_ready, 1);
        world_apply(&world, &(struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 4});
        struct aw_sample sample = world_observe(&world);
        assert_int_equal(sample.replicas_wanted, 4);
        assert_int_equal(sample.replicas_ready, 1);
        assert_int_equal(sample.replicas_starting, 3);
        /* 6 s of image (new nodes), 1 s start, 1.7 s cold start, the probe at 5 s: 11 s */
        world_step(&world, 10000000);
        assert_int_equal(world_observe(&world).replicas_ready, 1);
        world_step(&world, 2000000);
        assert_int_equal(world_observe(&world).replicas_ready, 4);
        world_apply(&world, &(struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 2});
        world_step(&world, STEP_US);
        sample = world_observe(&world);
        assert_int_equal(sample.replicas_ready, 2);
        assert_int_equal(sample.pod_count, 2);
        assert_true(aw_sim_truth(world.sim, 0)->failures == 0);
        aw_sim_free(world.sim);
    }
}

static void a_vertical_change_is_rolled_out_without_an_outage(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world.replicas = 4;
        world_begin(&world, 8);
        world_step(&world, STEP_US);
        world_apply(&world, &(struct aw_plan){.set = AW_PLAN_CPU | AW_PLAN_MEMORY,
                                              .cpu_millicores = 1500,
                                              .memory_bytes = (int64_t)2048 * AW_MIB});
        assert_true(world_observe(&world).rollout);
        uint32_t ready_min = 4;
        for (int i = 0; i < 40; i++) {
            world_step(&world, 2000000);
            struct aw_sample sample = world_observe(&world);
            ready_min = sample.replicas_ready < ready_min ? sample.replicas_ready : ready_min;
            assert_true(sample.pod_count <= 5); /* maxSurge of 4 is 1 */
        }
        struct aw_sample sample = world_observe(&world);
        assert_false(sample.rollout);
        assert_int_equal(ready_min, 3); /* maxUnavailable of 4 is 1 */
        assert_int_equal(sample.replicas_ready, 4);
        for (uint32_t i = 0; i < sample.pod_count; i++)
            assert_int_equal(sample.pods[i].cpu_millicores, 1500);
        aw_sim_free(world.sim);
    }
}

static void a_resize_in_place_restarts_nothing(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world.settings.in_place = true;
        world.replicas = 3;
        world_begin(&world, 9);
        world_step(&world, STEP_US);
        world_apply(&world, &(struct aw_plan){.set = AW_PLAN_CPU, .cpu_millicores = 3000});
        struct aw_sample sample = world_observe(&world);
        assert_false(sample.rollout);
        assert_int_equal(sample.replicas_ready, 3);
        assert_int_equal(sample.pods[0].cpu_millicores, 3000);
        world_step(&world, STEP_US);
        assert_int_equal(world_observe(&world).restarts, 0);
        aw_sim_free(world.sim);
    }
}

static void too_little_memory_kills_and_backs_off(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world.memory_mib = 140; /* less than base memory and runtime together */
        world_begin(&world, 10);
        uint32_t kills = 0;
        uint32_t restarts = 0;
        double failures = 0;
        for (int i = 0; i < 40; i++) {
            const struct aw_sim_truth *truth = world_step(&world, STEP_US);
            kills += truth->oom_kills;
            restarts += truth->restarts;
            failures += truth->failures;
        }
        /* 600 s with back-offs 0, 10, 20, 40, 80, 160: some six lives, not forty */
        assert_in_range(kills, 4, 9);
        assert_true(restarts + 1 >= kills);
        assert_true(failures > 0);
        struct aw_sample sample = world_observe(&world);
        assert_true(sample.pod_count == 1 && sample.pods[0].oom_kill_count == kills);
        aw_sim_free(world.sim);
    }
}

static void what_fits_no_node_stays_pending(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world.settings.node_count = 2;
        world.settings.node_cores = 4;
        world_begin(&world, 11);
        world_apply(&world, &(struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 6});
        for (int i = 0; i < 4; i++)
            world_step(&world, STEP_US);
        struct aw_sample sample = world_observe(&world);
        assert_int_equal(sample.replicas_ready, 4); /* two of two cores a node */
        assert_int_equal(sample.replicas_pending, 2);
        /* room made by scaling in is used */
        world_apply(&world, &(struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 3});
        world_step(&world, STEP_US);
        assert_int_equal(world_observe(&world).replicas_pending, 0);
        aw_sim_free(world.sim);
    }
}

static void a_lost_node_is_replaced_after_its_grace(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world.replicas = 4;
        world.settings.node_count = 4;
        world_begin(&world, 12);
        world_step(&world, STEP_US);
        aw_sim_fail_node(world.sim, 0, (int64_t)3600 * 1000000);
        world_step(&world, STEP_US);
        assert_int_equal(world_observe(&world).replicas_ready, 3);
        for (int i = 0; i < 5; i++)
            world_step(&world, STEP_US);
        assert_int_equal(world_observe(&world).replicas_ready, 4);
        aw_sim_free(world.sim);
    }
}

static void figures_are_missing_before_the_first_reading_and_age_in_a_gap(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world_begin(&world, 13);
        struct aw_sample sample = world_observe(&world);
        assert_true(sample.cpu_cores_used.at_us == AW_NEVER);
        assert_true(sample.latency_us_p99.at_us == AW_NEVER);
        world_step(&world, STEP_US);
        sample = world_observe(&world);
        assert_int_equal(sample.at_us - sample.cpu_cores_used.at_us, 1000000);
        assert_close(sample.cpu_cores_used.value, 0.5, 0.2);
        assert_close(sample.arrivals_per_s.value, 50, 0.2);
        double before = sample.cpu_cores_used.value;
        aw_sim_fail_metrics(world.sim, world.now_us + 2 * STEP_US + 1);
        world_step(&world, STEP_US);
        world_step(&world, STEP_US);
        sample = world_observe(&world);
        assert_true(sample.cpu_cores_used.value == before);
        assert_int_equal(sample.at_us - sample.cpu_cores_used.at_us, 1000000 + 2 * STEP_US);
        world_step(&world, STEP_US);
        sample = world_observe(&world);
        assert_int_equal(sample.at_us - sample.cpu_cores_used.at_us, 1000000);
        aw_sim_fail_api(world.sim, world.now_us + STEP_US);
        struct aw_plan plan = {.set = AW_PLAN_REPLICAS, .replicas = 2};
        assert_int_equal(world.cluster.ops->observe(world.cluster.self, 0, 0, &sample),
                         AW_ERR_UNAVAILABLE);
        assert_int_equal(world.cluster.ops->apply(world.cluster.self, 0, &plan, 0),
                         AW_ERR_UNAVAILABLE);
        aw_sim_free(world.sim);
    }
}

static void a_disturbance_makes_requests_dearer(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world.segment.cpu_exponent = 1;
        world.segment.family = AW_PAYLOAD_FLOAT;
        world_begin(&world, 14);
        double before = world_step(&world, 4 * STEP_US)->cpu_core_s;
        struct aw_sim_disturbance disturbance = aw_sim_undisturbed;
        disturbance.payload = 2;
        disturbance.families = 1u << AW_PAYLOAD_FLOAT;
        aw_sim_disturb(world.sim, 0, &disturbance);
        world_step(&world, STEP_US);
        assert_close(world_step(&world, 4 * STEP_US)->cpu_core_s / before, 2, 0.1);
        disturbance.families = 1u << AW_PAYLOAD_TEXT; /* not this application's */
        aw_sim_disturb(world.sim, 0, &disturbance);
        world_step(&world, STEP_US);
        assert_close(world_step(&world, 4 * STEP_US)->cpu_core_s / before, 1, 0.1);
        aw_sim_free(world.sim);
    }
}

static void overload_serves_what_it_can_and_fails_the_rest(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world.cores = 1;
        world.rate_per_s = 150; /* capacity is 100 */
        world.segment.memory_flight_mib = 0.1;
        world_begin(&world, 15);
        for (int i = 0; i < 30; i++)
            world_step(&world, STEP_US);
        const struct aw_sim_truth *truth = world_step(&world, 4 * STEP_US);
        assert_close(truth->completions / 60, 100, 0.06);
        assert_close(truth->cpu_core_s / 60, 1, 0.02);
        assert_true(truth->latency_us_p99 > 15e6);
        aw_sim_free(world.sim);
    }
}

static void several_workloads_share_the_nodes(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        world_defaults(&world, model);
        world.settings.node_count = 1;
        world.settings.node_cores = 4;
        world_begin(&world, 16);
        struct aw_sim_workload other = workload_of(&world);
        struct aw_diag diag;
        uint32_t index;
        other.replicas = 2;
        assert_ok(aw_sim_add(world.sim, &other, &index, &diag));
        assert_int_equal(index, 1);
        world_step(&world, STEP_US);
        struct aw_sample sample;
        assert_ok(world.cluster.ops->observe(world.cluster.self, 1, 0, &sample));
        assert_int_equal(sample.replicas_ready, 1); /* 2 + 2 of 4 cores; the third does not fit */
        assert_int_equal(sample.replicas_pending, 1);
        assert_int_equal(world.cluster.ops->observe(world.cluster.self, 2, 0, &sample),
                         AW_ERR_NOTFOUND);
        assert_int_equal(aw_sim_add(world.sim, &other, &index, &diag), AW_ERR_LIMIT);
        aw_sim_free(world.sim);
    }
}

static void a_removed_workload_leaves_its_nodes_and_its_index(void **state)
{
    (void)state;
    struct world world;
    struct aw_diag diag;
    struct aw_sample sample;
    uint32_t index;
    world_defaults(&world, AW_SIM_FAST);
    world.settings.node_count = 1;
    world.settings.node_cores = 4;
    world_begin(&world, 21);
    struct aw_sim_workload other = workload_of(&world);
    assert_ok(aw_sim_add(world.sim, &other, &index, &diag)); /* 2 + 2 of 4 cores */
    world_step(&world, STEP_US);
    const size_t bytes = aw_sim_state_bytes(world.sim);
    void *saved = aw_alloc_new(NULL, bytes, 1);
    aw_sim_state_save(world.sim, saved);

    assert_ok(aw_sim_remove(world.sim, 0));
    assert_true(aw_sim_state_bytes(world.sim) < bytes);
    assert_int_equal(aw_sim_state_load(world.sim, saved), AW_ERR_FORMAT); /* there were two */
    assert_int_equal(aw_sim_remove(world.sim, 0), AW_ERR_NOTFOUND);
    assert_int_equal(aw_sim_remove(world.sim, 7), AW_ERR_NOTFOUND);
    assert_int_equal(world.cluster.ops->observe(world.cluster.self, 0, 0, &sample),
                     AW_ERR_NOTFOUND);
    assert_int_equal(
        world.cluster.ops->apply(world.cluster.self, 0, &(struct aw_plan){.set = 0}, 0),
        AW_ERR_NOTFOUND);
    world.now_us += STEP_US;
    assert_ok(world.cluster.ops->advance(world.cluster.self, world.now_us));
    assert_true(aw_sim_truth(world.sim, 1)->completions > 0); /* the other one serves on */

    assert_ok(aw_sim_add(world.sim, &other, &index, &diag));
    assert_int_equal(index, 0);
    assert_int_equal(aw_sim_state_bytes(world.sim), bytes);
    world_step(&world, STEP_US);
    for (uint32_t w = 0; w < 2; w++) {
        assert_ok(world.cluster.ops->observe(world.cluster.self, w, 0, &sample));
        assert_int_equal(sample.replicas_ready, 1); /* there was room again */
    }
    aw_alloc_free(NULL, saved);
    aw_sim_free(world.sim);

    world_defaults(&world, AW_SIM_REFERENCE);
    world_begin(&world, 21);
    assert_int_equal(aw_sim_remove(world.sim, 0), AW_ERR_UNSUPPORTED);
    aw_sim_free(world.sim);
}

static void workloads_that_come_and_go_leave_no_memory_behind(void **state)
{
    (void)state;
    struct world world;
    struct aw_alloc_counting counting;
    struct aw_diag diag;
    uint32_t index;
    world_defaults(&world, AW_SIM_FAST);
    aw_alloc_counting_init(&counting);
    world.rate = 50;
    world.load = (struct aw_load){.slot_count = 1, .slot_us = 1000000, .rate_per_s = &world.rate};
    assert_ok(aw_sim_new(&world.settings, 22, 8, &counting.alloc, &world.sim, &diag));
    world.cluster = aw_sim_cluster(world.sim);
    struct aw_sim_workload workload = workload_of(&world);
    for (uint32_t i = 0; i < 8; i++)
        assert_ok(aw_sim_add(world.sim, &workload, &index, &diag));
    const uint64_t held = counting.alloc_count - counting.free_count;
    for (uint32_t i = 0; i < 200; i++) {
        assert_ok(aw_sim_remove(world.sim, i * 5 % 8));
        workload.replicas_max = 2 + i % 40;
        assert_ok(aw_sim_add(world.sim, &workload, &index, &diag));
        assert_int_equal(index, i * 5 % 8);
        world.now_us += STEP_US;
        assert_ok(world.cluster.ops->advance(world.cluster.self, world.now_us));
        assert_int_equal(counting.alloc_count - counting.free_count, held);
    }
    assert_int_equal(aw_sim_add(world.sim, &workload, &index, &diag), AW_ERR_LIMIT);
    assert_ok(aw_sim_remove(world.sim, 3));
    workload.app.segment[0].cpu_ms = 11; /* nobody else is this application */
    counting.fail_after = counting.alloc_count;
    assert_int_equal(aw_sim_add(world.sim, &workload, &index, &diag), AW_ERR_NOMEM);
    counting.fail_after = UINT64_MAX;
    assert_ok(aw_sim_add(world.sim, &workload, &index, &diag));
    assert_int_equal(index, 3);
    aw_sim_free(world.sim);
    assert_int_equal(counting.free_count, counting.alloc_count);
}

/* --- the fast model
 * --------------------------------------------------------------------------------- */

static void a_snapshot_replays_the_same_future(void **state)
{
    (void)state;
    struct world world;
    world_defaults(&world, AW_SIM_FAST);
    world.settings.metric_noise = 0.05;
    world_begin(&world, 17);
    world_step(&world, STEP_US);
    world_apply(&world, &(struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 5});
    void *bytes = aw_alloc_new(NULL, aw_sim_state_bytes(world.sim), 1);
    aw_sim_state_save(world.sim, bytes);
    struct aw_sim_truth truth[2][5];
    for (int run = 0; run < 2; run++) {
        for (int i = 0; i < 5; i++)
            truth[run][i] = *world_step(&world, STEP_US);
        assert_ok(aw_sim_state_load(world.sim, bytes));
        world.now_us = STEP_US;
    }
    assert_memory_equal(truth[0], truth[1], sizeof truth[0]);
    aw_alloc_free(NULL, bytes);
    aw_sim_free(world.sim);
}

static void nothing_is_allocated_as_time_passes(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct world world;
        struct aw_alloc_counting counting;
        struct aw_diag diag;
        uint32_t index;
        world_defaults(&world, model);
        aw_alloc_counting_init(&counting);
        world.rate = 50;
        world.load =
            (struct aw_load){.slot_count = 1, .slot_us = 1000000, .rate_per_s = &world.rate};
        assert_ok(aw_sim_new(&world.settings, 18, 1, &counting.alloc, &world.sim, &diag));
        struct aw_sim_workload workload = workload_of(&world);
        assert_ok(aw_sim_add(world.sim, &workload, &index, &diag));
        world.cluster = aw_sim_cluster(world.sim);
        uint64_t allocations = counting.alloc_count;
        for (uint32_t i = 0; i < 20; i++) {
            world_apply(&world, &(struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 1 + i % 5});
            world_step(&world, STEP_US);
            world_observe(&world);
        }
        assert_ok(aw_sim_reset(world.sim, 1));
        assert_int_equal(counting.alloc_count, allocations);
        aw_sim_free(world.sim);
        assert_int_equal(counting.free_count, counting.alloc_count);
    }
}

static void every_allocation_that_fails_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    FOR_BOTH_MODELS
    {
        struct aw_sim_settings settings;
        aw_conf_defaults(aw_sim_fields, &settings);
        settings.model = model;
        enum aw_err err = AW_ERR_NOMEM;
        for (uint64_t n = 0; err; n++) {
            struct aw_alloc_counting counting;
            struct aw_sim *sim = NULL;
            struct aw_diag diag;
            aw_alloc_counting_init(&counting);
            counting.fail_after = n;
            err = aw_sim_new(&settings, 1, 1, &counting.alloc, &sim, &diag);
            if (!err)
                aw_sim_free(sim);
            else
                assert_int_equal(err, AW_ERR_NOMEM);
            assert_int_equal(counting.alloc_count, counting.free_count);
        }
    }
}

static void an_impossible_workload_gets_a_sentence(void **state)
{
    (void)state;
    struct world world;
    struct aw_diag diag;
    uint32_t index;
    world_defaults(&world, AW_SIM_FAST);
    world_begin(&world, 19);
    struct aw_sim_workload workload = workload_of(&world);
    workload.cpu_millicores = 1000000;
    assert_int_equal(aw_sim_add(world.sim, &workload, &index, &diag), AW_ERR_RANGE);
    assert_non_null(strstr(diag.text, "no node is large enough"));
    workload = workload_of(&world);
    workload.replicas = 21;
    assert_int_equal(aw_sim_add(world.sim, &workload, &index, &diag), AW_ERR_RANGE);
    workload = workload_of(&world);
    workload.app.segment_count = 0;
    assert_int_equal(aw_sim_add(world.sim, &workload, &index, &diag), AW_ERR_RANGE);
    aw_sim_free(world.sim);
}

static void the_steady_state_is_ordered_and_grows_with_the_load(void **state)
{
    (void)state;
    for (uint32_t index = 0; index < 200; index++) {
        struct aw_app app;
        struct aw_replica replica;
        aw_app_generate(77, index, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &app);
        aw_app_demand(&app, 1, 0, &replica.demand);
        replica.cores = 0.25 * (1 + index % 16);
        const double capacity = aw_replica_capacity(&replica.demand, replica.cores);
        double last = 0;
        for (int k = 1; k <= 9; k++) {
            struct aw_steady steady;
            replica.rate_per_s = 0.1 * k * capacity;
            aw_surrogate_eval(&replica, &steady);
            assert_true(steady.p50_us > 0 && steady.p95_us > steady.p50_us);
            assert_true(steady.p99_us > steady.p95_us && isfinite(steady.p99_us));
            assert_true(steady.throttled_share >= 0 && steady.throttled_share <= 1);
            assert_true(steady.in_flight_peak >= steady.in_flight);
            assert_true(steady.mean_us > 0.8 * last); /* a fitted network wobbles, but no more */
            last = steady.mean_us;
        }
    }
}

static void encoding_and_decoding_a_steady_state_agree(void **state)
{
    (void)state;
    struct aw_replica replica = {
        .demand = {.cpu_ms = 12, .io_ms = 30, .parallelism = 1}, .cores = 0.5, .rate_per_s = 10};
    const struct aw_steady want = {.mean_us = 60e3,
                                   .p50_us = 50e3,
                                   .p95_us = 90e3,
                                   .p99_us = 140e3,
                                   .throttled_share = 0.3,
                                   .in_flight = 0.6,
                                   .in_flight_peak = 4,
                                   .p99_spread = 0.2};
    float outputs[AW_SURROGATE_OUTPUTS];
    struct aw_steady got;
    aw_surrogate_encode(&replica, &want, outputs);
    aw_surrogate_decode(&replica, outputs, &got);
    assert_close(got.mean_us / want.mean_us, 1, 1e-5);
    assert_close(got.p99_us / want.p99_us, 1, 1e-5);
    assert_close(got.throttled_share, want.throttled_share, 1e-5);
    assert_close(got.in_flight_peak, want.in_flight_peak, 1e-5);
    assert_close(got.p99_spread, want.p99_spread, 1e-5);
}

AW_TEST_GROUP("sim")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_waits_as_pollaczek_and_khinchine_say),
        cmocka_unit_test(shared_processors_do_not_see_variance),
        cmocka_unit_test(a_quota_stalls_until_its_period_ends),
        cmocka_unit_test(requests_are_never_lost_from_the_books),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes),
        cmocka_unit_test(a_reset_begins_anew),
        cmocka_unit_test(scaling_out_takes_a_cold_start_and_scaling_in_drains),
        cmocka_unit_test(a_vertical_change_is_rolled_out_without_an_outage),
        cmocka_unit_test(a_resize_in_place_restarts_nothing),
        cmocka_unit_test(too_little_memory_kills_and_backs_off),
        cmocka_unit_test(what_fits_no_node_stays_pending),
        cmocka_unit_test(a_lost_node_is_replaced_after_its_grace),
        cmocka_unit_test(figures_are_missing_before_the_first_reading_and_age_in_a_gap),
        cmocka_unit_test(a_disturbance_makes_requests_dearer),
        cmocka_unit_test(overload_serves_what_it_can_and_fails_the_rest),
        cmocka_unit_test(several_workloads_share_the_nodes),
        cmocka_unit_test(a_removed_workload_leaves_its_nodes_and_its_index),
        cmocka_unit_test(workloads_that_come_and_go_leave_no_memory_behind),
        cmocka_unit_test(a_snapshot_replays_the_same_future),
        cmocka_unit_test(nothing_is_allocated_as_time_passes),
        cmocka_unit_test(every_allocation_that_fails_is_an_error_and_leaks_nothing),
        cmocka_unit_test(an_impossible_workload_gets_a_sentence),
        cmocka_unit_test(the_steady_state_is_ordered_and_grows_with_the_load),
        cmocka_unit_test(encoding_and_decoding_a_steady_state_agree),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
