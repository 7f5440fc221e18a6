/*
 * conformance_test.c - what cluster.h promises, asked of every backend by the same questions.
 *
 * A backend is a way to make a cluster with one workload under load. Questions wait for what they
 * expect instead of assuming how long it takes: a simulated hour costs nothing, a real second does.
 */
#include "base/units.h"
#include "cluster/local/local_testing.h"
#include "cluster/sim.h"
#include "cluster/time_scale.h"

#include <math.h>

#define REPLICAS_MAX 12u

struct world {
    struct aw_cluster cluster;
    uint32_t workload;
    int64_t step_us, patience_us; /* of waiting */
    int64_t cpu_millicores, memory_bytes;

    /* of the one or the other */
    struct aw_sim *sim;
    struct aw_time_scale pace;
    struct aw_load load;
    float rate;
    struct yard yard;
    struct standin_load clients;
};

struct backend {
    const char *test; /* its name */
    const char *ops;  /* who must answer: aw_cluster_ops.name */
    bool (*begin)(struct world *world, uint32_t replicas, bool starved); /* false: not here */
    void (*end)(struct world *world);
};

/* --- the simulated cluster -------------------------------------------------------------------- */

static bool sim_begin_as(struct world *world, uint32_t replicas, bool starved,
                         enum aw_sim_model model, bool in_place)
{
    struct aw_sim_settings settings;
    struct aw_diag diag = {0};
    *world = (struct world){.step_us = 1000000,
                            .patience_us = INT64_C(1800) * 1000000,
                            .cpu_millicores = 1000,
                            .memory_bytes = 2048 * AW_MIB};
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.model = model;
    settings.in_place = in_place;
    world->rate = 20;
    world->load =
        (struct aw_load){.slot_count = 1, .slot_us = 1000000000000, .rate_per_s = &world->rate};
    struct aw_sim_workload workload = {.load = &world->load,
                                       .replicas = replicas,
                                       .replicas_max = REPLICAS_MAX,
                                       .cpu_millicores = world->cpu_millicores,
                                       .memory_bytes = starved ? 2 * AW_MIB : world->memory_bytes};
    aw_app_generate(1, 0, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &workload.app);
    if (aw_sim_new(&settings, 1, 1, NULL, &world->sim, &diag) ||
        aw_sim_add(world->sim, &workload, &world->workload, &diag))
        fail_msg("%s", diag.text);
    world->cluster = aw_sim_cluster(world->sim);
    return true;
}

static bool fast_begin(struct world *world, uint32_t replicas, bool starved)
{
    return sim_begin_as(world, replicas, starved, AW_SIM_FAST, false);
}

static bool fast_in_place_begin(struct world *world, uint32_t replicas, bool starved)
{
    return sim_begin_as(world, replicas, starved, AW_SIM_FAST, true);
}

/* By a clock that runs four times faster, and began at another time. */
static bool hurried_begin(struct world *world, uint32_t replicas, bool starved)
{
    const bool begun = sim_begin_as(world, replicas, starved, AW_SIM_FAST, true);
    aw_time_scale_init(&world->pace, world->cluster, 4, 1000);
    world->cluster = aw_time_scale_cluster(&world->pace);
    world->step_us *= 4;
    world->patience_us *= 4;
    return begun;
}

static bool reference_begin(struct world *world, uint32_t replicas, bool starved)
{
    return sim_begin_as(world, replicas, starved, AW_SIM_REFERENCE, false);
}

static void sim_end(struct world *world)
{
    world->cluster.ops->free(world->cluster.self);
}

/* --- the local cluster ------------------------------------------------------------------------ */

static bool local_begin(struct world *world, uint32_t replicas, bool starved)
{
    static const char *const words[] = {"touch", TOUCHED, NULL};
    struct aw_diag diag = {0};
    *world = (struct world){.step_us = 20000,
                            .patience_us = INT64_C(10) * 1000000 * PATIENCE,
                            .cpu_millicores = 500,
                            .memory_bytes = 256 * AW_MIB};
    yard_settings(&world->yard);
    if (!yard_new(&world->yard))
        return false;
    if (yard_add(&world->yard, words, replicas, starved ? 16 * AW_MIB : world->memory_bytes, &diag))
        fail_msg("%s", diag.text);
    world->cluster = world->yard.cluster;
    world->workload = world->yard.workload;
    world->clients = (struct standin_load){.port = aw_local_port(world->yard.local, 0),
                                           .path = "/spin/500",
                                           .clients = starved ? 0 : 3,
                                           .pause_us = 10000};
    standin_load_begin(&world->clients);
    return true;
}

static void local_end(struct world *world)
{
    standin_load_end(&world->clients);
    yard_end(&world->yard);
}

static const struct backend backends[] = {
    {"the_simulated_cluster_conforms", "sim", fast_begin, sim_end},
    {"the_simulated_cluster_conforms_in_place", "sim", fast_in_place_begin, sim_end},
    {"a_hurried_cluster_conforms", "pace", hurried_begin, sim_end},
    {"the_reference_model_conforms", "sim", reference_begin, sim_end},
    {"the_local_cluster_conforms", "local", local_begin, local_end},
};
#define BACKENDS 5u
_Static_assert(sizeof backends / sizeof *backends == BACKENDS, "every backend is asked");

/* --- asking ----------------------------------------------------------------------------------- */

static int64_t now_of(const struct world *world)
{
    return world->cluster.ops->now_us(world->cluster.self);
}

static void pass(struct world *world, int64_t us)
{
    assert_ok(world->cluster.ops->advance(world->cluster.self, now_of(world) + us));
}

static bool finite_or_missing(struct aw_figure figure, int64_t at_us)
{
    if (figure.at_us == AW_NEVER)
        return figure.value == 0;
    return isfinite(figure.value) && figure.value >= 0 && figure.at_us <= at_us;
}

/* What holds of every sample whatever has happened. */
static struct aw_sample look(struct world *world)
{
    struct aw_sample s;
    assert_ok(world->cluster.ops->observe(world->cluster.self, world->workload, INT64_MAX, &s));
    const struct aw_figure figures[] = {s.cpu_cores_used,  s.memory_bytes_used, s.memory_bytes_peak,
                                        s.throttled_share, s.disk_bytes_per_s,  s.net_bytes_per_s,
                                        s.arrivals_per_s,  s.completions_per_s, s.errors_per_s,
                                        s.in_flight,       s.latency_us_p50,    s.latency_us_p95,
                                        s.latency_us_p99,  s.latency_us_mean};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (!finite_or_missing(figures[i], s.at_us))
            fail_msg("figure %zu: %g at %lld", i, figures[i].value, (long long)figures[i].at_us);
    assert_true(s.throttled_share.value <= 1);
    assert_true(s.latency_us_p50.value <= s.latency_us_p95.value);
    assert_true(s.latency_us_p95.value <= s.latency_us_p99.value);
    assert_true(s.at_us <= now_of(world));
    assert_int_equal(s.replicas_ready + s.replicas_pending + s.replicas_starting, s.pod_count);
    uint32_t ready = 0;
    for (uint32_t i = 0; i < s.pod_count; i++) {
        const struct aw_pod *pod = &s.pods[i];
        ready += pod->ready;
        assert_true(pod->cpu_millicores > 0 && pod->memory_bytes > 0);
        assert_true(finite_or_missing(pod->cpu_cores_used, s.at_us));
        assert_true(finite_or_missing(pod->memory_bytes_used, s.at_us));
        assert_true(!pod->ready || pod->phase == AW_POD_RUNNING);
        assert_true(!pod->ready || pod->started_us != AW_NEVER);
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(pod->id, s.pods[k].id);
    }
    assert_int_equal(ready, s.replicas_ready);
    return s;
}

static void ask(struct world *world, struct aw_plan plan)
{
    assert_ok(world->cluster.ops->apply(world->cluster.self, world->workload, &plan, INT64_MAX));
}

/* Until `ready` replicas are there, all of the size that was asked for. */
static struct aw_sample settle(struct world *world, uint32_t ready)
{
    const int64_t until = now_of(world) + world->patience_us;
    struct aw_sample s = look(world);
    while ((s.replicas_ready != ready || s.pod_count != ready || s.rollout) &&
           now_of(world) < until) {
        pass(world, world->step_us);
        s = look(world);
    }
    assert_int_equal(s.replicas_ready, ready);
    assert_int_equal(s.pod_count, ready);
    assert_false(s.rollout);
    return s;
}

/* --- questions -------------------------------------------------------------------------------- */

static void every_slot_is_filled_and_strangers_are_not_found(struct world *world)
{
    const struct aw_cluster_ops *ops = world->cluster.ops;
    struct aw_sample sample;
    const struct aw_plan plan = {.set = AW_PLAN_REPLICAS, .replicas = 1};
    assert_true(ops->name && ops->capabilities && ops->observe && ops->apply && ops->advance &&
                ops->now_us && ops->free);
    memset(&sample, 0x5a, sizeof sample);
    assert_int_equal(ops->observe(world->cluster.self, 7, INT64_MAX, &sample), AW_ERR_NOTFOUND);
    for (size_t i = 0; i < sizeof sample; i++)
        assert_int_equal(((unsigned char *)&sample)[i], 0x5a); /* untouched */
    assert_int_equal(ops->apply(world->cluster.self, 7, &plan, INT64_MAX), AW_ERR_NOTFOUND);
    ops->free(NULL);
}

static void time_goes_where_it_is_told_and_never_back(struct world *world)
{
    int64_t before = now_of(world);
    for (int i = 0; i < 10; i++) {
        const int64_t until = now_of(world) + world->step_us;
        assert_ok(world->cluster.ops->advance(world->cluster.self, until));
        assert_true(now_of(world) >= until && now_of(world) > before);
        before = now_of(world);
    }
}

static void what_is_asked_for_is_shown_at_once_and_nothing_else_changes(struct world *world)
{
    settle(world, 2);
    ask(world, (struct aw_plan){.set = AW_PLAN_CPU, .cpu_millicores = 750, .replicas = 9});
    struct aw_sample s = look(world);
    assert_int_equal(s.replicas_wanted, 2);
    assert_int_equal(s.cpu_millicores_wanted, 750);
    assert_int_equal(s.memory_bytes_wanted, world->memory_bytes);
    ask(world, (struct aw_plan){.set = AW_PLAN_MEMORY | AW_PLAN_REPLICAS,
                                .replicas = 3,
                                .memory_bytes = 3 * world->memory_bytes / 2});
    s = look(world);
    assert_int_equal(s.replicas_wanted, 3);
    assert_int_equal(s.cpu_millicores_wanted, 750);
    assert_int_equal(s.memory_bytes_wanted, 3 * world->memory_bytes / 2);
    s = settle(world, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(s.pods[i].cpu_millicores, 750);
        assert_int_equal(s.pods[i].memory_bytes, 3 * world->memory_bytes / 2);
    }
}

static void scaling_goes_up_and_down_and_ids_are_never_used_again(struct world *world)
{
    static const uint32_t counts[] = {2, 6, 1, 4, 3};
    uint32_t highest = 0, known[AW_CLUSTER_PODS_MAX], known_count = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ask(world, (struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = counts[i]});
        const struct aw_sample s = settle(world, counts[i]);
        uint32_t top = highest;
        for (uint32_t p = 0; p < s.pod_count; p++) {
            bool stayed = false;
            for (uint32_t k = 0; k < known_count; k++)
                stayed = stayed || known[k] == s.pods[p].id;
            assert_true(stayed || s.pods[p].id > highest || i == 0);
            top = s.pods[p].id > top ? s.pods[p].id : top;
        }
        highest = top;
        known_count = s.pod_count;
        for (uint32_t p = 0; p < s.pod_count; p++)
            known[p] = s.pods[p].id;
    }
}

static void asking_twice_is_asking_once(struct world *world)
{
    const struct aw_plan plan = {.set = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
                                 .replicas = 3,
                                 .cpu_millicores = 600,
                                 .memory_bytes = world->memory_bytes};
    ask(world, plan);
    uint32_t ids[3];
    struct aw_sample s = settle(world, 3);
    for (uint32_t i = 0; i < 3; i++)
        ids[i] = s.pods[i].id;
    for (int again = 0; again < 5; again++) {
        ask(world, plan);
        pass(world, world->step_us);
        s = look(world);
        assert_false(s.rollout);
        assert_int_equal(s.restarts, 0);
        assert_int_equal(s.pod_count, 3);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(s.pods[i].id, ids[i]);
    }
}

static void a_resize_in_place_restarts_nobody(struct world *world)
{
    if (!(world->cluster.ops->capabilities(world->cluster.self) & AW_CLUSTER_IN_PLACE_RESIZE))
        return;
    uint32_t ids[2];
    struct aw_sample s = settle(world, 2);
    for (uint32_t i = 0; i < 2; i++)
        ids[i] = s.pods[i].id;
    for (int64_t cpu = 300; cpu <= 900; cpu += 200) {
        ask(world, (struct aw_plan){.set = AW_PLAN_CPU, .cpu_millicores = cpu});
        s = settle(world, 2);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(s.pods[i].id, ids[i]);
            assert_int_equal(s.pods[i].restart_count, 0);
            assert_int_equal(s.pods[i].cpu_millicores, cpu);
        }
    }
}

static void what_does_not_fit_stays_pending_and_the_rest_serves(struct world *world)
{
    settle(world, 2);
    /* a replica larger than what is left, twelve times */
    const bool local = world->sim == NULL;
    const int64_t memory = local ? 3072 * AW_MIB : 40960 * AW_MIB;
    ask(world, (struct aw_plan){.set = AW_PLAN_REPLICAS | AW_PLAN_MEMORY,
                                .replicas = REPLICAS_MAX,
                                .memory_bytes = memory});
    const int64_t until = now_of(world) + world->patience_us;
    struct aw_sample s = look(world);
    while (!(s.replicas_pending > 0 && s.replicas_ready > 0 && s.replicas_starting == 0) &&
           now_of(world) < until) {
        pass(world, world->step_us);
        s = look(world);
    }
    assert_true(s.replicas_pending > 0 && s.replicas_ready > 0);
    pass(world, 5 * world->step_us);
    assert_true(look(world).replicas_pending > 0);
    ask(world, (struct aw_plan){.set = AW_PLAN_REPLICAS | AW_PLAN_MEMORY,
                                .replicas = 2,
                                .memory_bytes = world->memory_bytes});
    settle(world, 2);
}

static void served_requests_are_seen_and_cost_something(struct world *world)
{
    settle(world, 2);
    look(world);
    /* long enough for two readings of any pipeline */
    pass(world, world->sim ? 60000000 : 1500000);
    const struct aw_sample s = look(world);
    assert_true(s.arrivals_per_s.at_us != AW_NEVER && s.arrivals_per_s.value > 5);
    assert_close(s.completions_per_s.value, s.arrivals_per_s.value, 0.3);
    assert_true(s.errors_per_s.value == 0);
    assert_true(s.latency_us_p50.at_us != AW_NEVER && s.latency_us_p50.value > 0);
    assert_true(s.latency_us_mean.value > 0);
    assert_true(s.cpu_cores_used.value > 0);
    assert_true(s.cpu_cores_used.value < 1e-3 * 2 * (double)world->cpu_millicores * 1.1);
    assert_true(s.memory_bytes_used.value > 0);
    assert_true(s.memory_bytes_peak.value >= 0.9 * s.memory_bytes_used.value);
    assert_true(s.memory_bytes_used.value < (double)world->memory_bytes);
    double sum = 0;
    for (uint32_t i = 0; i < s.pod_count; i++)
        sum += s.pods[i].cpu_cores_used.value;
    assert_close(sum, s.cpu_cores_used.value, 0.2);
}

static void too_little_memory_kills_and_every_kill_is_told_once(struct world *world)
{
    const int64_t until = now_of(world) + world->patience_us;
    uint32_t kills = 0, restarts = 0, of_pods = 0, restarts_of_pods = 0;
    struct aw_sample s = {0};
    while (kills < 3 && now_of(world) < until) {
        s = look(world);
        kills += s.oom_kills;
        restarts += s.restarts;
        pass(world, world->step_us);
    }
    assert_true(kills >= 3);
    s = look(world);
    kills += s.oom_kills;
    restarts += s.restarts;
    for (uint32_t i = 0; i < s.pod_count; i++) {
        of_pods += s.pods[i].oom_kill_count;
        restarts_of_pods += s.pods[i].restart_count;
    }
    assert_int_equal(of_pods, kills);
    assert_int_equal(restarts_of_pods, restarts);
    assert_true(restarts <= kills);
}

/* --- all of them, of all ---------------------------------------------------------------------- */

struct question {
    const char *name;
    void (*fn)(struct world *world);
    bool starved;
};
#define ASK(fn)        \
    {                  \
#fn, fn, false \
    }
static const struct question questions[] = {
    ASK(every_slot_is_filled_and_strangers_are_not_found),
    ASK(time_goes_where_it_is_told_and_never_back),
    ASK(what_is_asked_for_is_shown_at_once_and_nothing_else_changes),
    ASK(scaling_goes_up_and_down_and_ids_are_never_used_again),
    ASK(asking_twice_is_asking_once),
    ASK(a_resize_in_place_restarts_nobody),
    ASK(what_does_not_fit_stays_pending_and_the_rest_serves),
    ASK(served_requests_are_seen_and_cost_something),
    {"too_little_memory_kills_and_every_kill_is_told_once",
     too_little_memory_kills_and_every_kill_is_told_once, true},
};

static void conforms(void **state)
{
    const struct backend *backend = *state;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        struct world world;
        if (!backend->begin(&world, 2, questions[i].starved))
            skip(); /* it has been said why */
        assert_string_equal(world.cluster.ops->name, backend->ops);
        print_message("%s: %s\n", backend->test, questions[i].name);
        questions[i].fn(&world);
        backend->end(&world);
    }
}

AW_TEST_GROUP("cluster-conformance")
{
    struct CMUnitTest tests[BACKENDS];
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return standin_main(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    for (uint32_t i = 0; i < BACKENDS; i++)
        tests[i] = (struct CMUnitTest){
            .name = backends[i].test,
            .test_func = conforms,
            .initial_state = (void *)(uintptr_t)&backends[i], /* cmocka's state is not const */
        };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
