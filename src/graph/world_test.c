/* world_test.c - the simulated graph: its spans, its limits, its stress. */
#include "graph/world.h"

#include <stdlib.h>
#include <string.h>

#include "base/testing.h"
#include "trace/analysis.h"

static struct aw_graph_app app;

static struct aw_graph_world *world_of(const char *name, const struct aw_graph_config *config)
{
    struct aw_graph_world *world = NULL;
    assert_ok(aw_graph_builtin(name, &app, NULL));
    assert_ok(aw_graph_world_new(&app, config, NULL, &world));
    return world;
}

/* Share of the requests that ended until `until_s` and missed their SLO. */
static double missed(struct aw_graph_world *world, double until_s)
{
    uint32_t count, over = 0;
    aw_graph_world_done(world, &count);
    aw_graph_world_run(world, (int64_t)(until_s * 1e9));
    const struct aw_graph_done *done = aw_graph_world_done(world, &count);
    for (uint32_t i = 0; i < count; i++)
        over += done[i].failed || (double)done[i].latency_ns > 1e6 * app.types[done[i].type].slo_ms;
    assert_true(count > 100);
    return (double)over / count;
}

struct sums {
    int64_t latency_ns, exclusive_ns;
    uint32_t requests;
};

static bool add(void *ctx, const struct aw_request *request)
{
    struct sums *sums = ctx;
    int64_t exclusive = 0;
    for (uint32_t i = 0; i < request->count; i++)
        exclusive += request->nodes[i].exclusive_ns;
    assert_int_equal(exclusive, aw_request_latency_ns(request));
    sums->latency_ns += aw_request_latency_ns(request);
    sums->requests++;
    return true;
}

static void its_spans_give_the_latency_that_requests_had(void **state)
{
    struct aw_graph_world *world =
        world_of("train-ticket", &(struct aw_graph_config){.seed = 3, .traced = 1});
    struct aw_analysis analysis;
    struct sums sums = {0};
    uint32_t count;
    int64_t latency_ns = 0;
    (void)state;
    aw_graph_world_run(world, 2 * AW_GRAPH_S_NS);
    const struct aw_graph_done *done = aw_graph_world_done(world, &count);
    for (uint32_t i = 0; i < count; i++)
        latency_ns += done[i].latency_ns;
    assert_ok(aw_analysis_init(&analysis, NULL));
    aw_analysis_each(&analysis, aw_graph_world_spans(world), add, &sums);
    assert_int_equal(sums.requests, count);
    /* a root's span has no way to its client and back: 0.3 to 0.6 ms, and its answer's bytes */
    const double away_ms = (double)(latency_ns - sums.latency_ns) / count / 1e6;
    assert_true(away_ms > 0.3 && away_ms < 1.2);
    /* callers in the background that outlive the request leave their callees alone */
    assert_true(analysis.counts.orphaned < sums.requests / 20);
    assert_int_equal(analysis.counts.skewed + analysis.counts.clipped, 0);
    aw_analysis_deinit(&analysis);
    aw_graph_world_free(world);
}

static void skewed_clocks_and_lost_spans_are_what_the_tree_says(void **state)
{
    struct aw_graph_world *world = world_of(
        "hotel",
        &(struct aw_graph_config){.seed = 3, .traced = 0.5, .span_loss = 0.02, .skew_us = 20000});
    struct aw_analysis analysis;
    struct sums sums = {0};
    uint32_t count;
    (void)state;
    aw_graph_world_run(world, 2 * AW_GRAPH_S_NS);
    aw_graph_world_done(world, &count);
    assert_ok(aw_analysis_init(&analysis, NULL));
    aw_analysis_each(&analysis, aw_graph_world_spans(world), add, &sums);
    assert_true(sums.requests > 0.4 * count && sums.requests < 0.6 * count);
    assert_true(analysis.counts.skewed > 100);
    assert_true(analysis.counts.orphaned + analysis.counts.adopted > 10);
    aw_analysis_deinit(&analysis);
    aw_graph_world_free(world);
}

static void the_same_seed_is_the_same_world(void **state)
{
    const struct aw_graph_config config = {.seed = 9, .traced = 1, .span_loss = 0.1};
    struct aw_graph_world *worlds[2];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        worlds[i] = world_of("media", &config);
        aw_graph_world_run(worlds[i], AW_GRAPH_S_NS);
    }
    const struct aw_spans *a = aw_graph_world_spans(worlds[0]),
                          *b = aw_graph_world_spans(worlds[1]);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->at, b->at, a->count * sizeof *a->at);
    aw_graph_world_free(worlds[0]);
    aw_graph_world_free(worlds[1]);
}

static void what_a_stress_takes_its_limit_gives_back(void **state)
{
    static const struct {
        const char *service;
        enum aw_graph_resource resource;
        double stress, mends; /* of the limit at the start */
    } rows[] = {
        {"reservation", AW_GRAPH_CPU, 3, 5}, {"profile", AW_GRAPH_MEMORY, 4, 6},
        {"reservation", AW_GRAPH_LLC, 4, 6}, {"geo-db", AW_GRAPH_DISK, 4, 6},
        {"frontend", AW_GRAPH_NET, 4, 6},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_graph_world *world = world_of("hotel", &(struct aw_graph_config){.seed = 5});
        const uint32_t service = aw_graph_service_find(&app, rows[i].service);
        const double limit = app.services[service].limit[rows[i].resource];
        struct aw_graph_stress stress = {0};
        stress.amount[rows[i].resource] = rows[i].stress * limit;
        struct aw_graph_reading reading[AW_GRAPH_SERVICES_MAX];
        assert_true(missed(world, 5) < 0.01);
        aw_graph_world_read(world, reading);
        aw_graph_world_stress(world, service, &stress);
        const double under = missed(world, 10);
        aw_graph_world_read(world, reading);
        assert_true(reading[service].use[rows[i].resource] > 0.95);
        assert_ok(aw_graph_world_limit(world, service, rows[i].resource, rows[i].mends * limit));
        (void)missed(world, 13); /* what has queued up */
        const double mended = missed(world, 18);
        if (under < 0.05 || mended > 0.02)
            fail_msg("%s %s: missed %.3f, then %.3f", rows[i].service,
                     aw_graph_resource_names[rows[i].resource], under, mended);
        aw_graph_world_free(world);
    }
}

static void a_delay_stays_with_its_replica_and_extra_calls_are_shared(void **state)
{
    struct aw_graph_world *world = world_of("hotel", &(struct aw_graph_config){.seed = 5});
    const uint32_t service = aw_graph_service_find(&app, "profile");
    struct aw_graph_stress stress = {.delay_us = 30000};
    (void)state;
    (void)missed(world, 5);
    aw_graph_world_stress(world, service, &stress);
    assert_true(missed(world, 8) > 0.5);
    assert_ok(aw_graph_world_scale(world, service, 1, true)); /* another in its place */
    (void)missed(world, 9);
    assert_true(missed(world, 12) < 0.01);
    stress = (struct aw_graph_stress){.extra_per_s = 3000};
    aw_graph_world_stress(world, service, &stress);
    assert_true(missed(world, 15) > 0.5);
    assert_ok(aw_graph_world_scale(world, service, 8, false));
    (void)missed(world, 19);
    assert_true(missed(world, 22) < 0.02);
    aw_graph_world_free(world);
}

static void a_node_never_gives_more_than_it_has(void **state)
{
    struct aw_graph_world *world = world_of("hotel", &(struct aw_graph_config){.seed = 5});
    enum aw_err err = AW_OK;
    double most = 0;
    (void)state;
    for (uint32_t i = 0; i < app.service_count; i++) {
        const double high = app.services[i].high[AW_GRAPH_CPU];
        assert_int_equal(aw_graph_world_limit(world, i, AW_GRAPH_CPU, 1.01 * high), AW_ERR_RANGE);
        const enum aw_err its = aw_graph_world_limit(world, i, AW_GRAPH_CPU, high);
        assert_true(its == AW_OK || its == AW_ERR_LIMIT);
        err = its ? its : err;
        aw_graph_world_run(world, (int64_t)(i + 1) * AW_GRAPH_S_NS / 10);
    }
    assert_int_equal(err, AW_ERR_LIMIT); /* not all of them fit */
    most = app.node_count * app.node_pool[AW_GRAPH_CPU];
    assert_true(aw_graph_world_cores(world) <= most);
    aw_graph_world_free(world);
}

static void a_flood_is_turned_away_and_counted(void **state)
{
    struct aw_graph_world *world =
        world_of("hotel", &(struct aw_graph_config){.seed = 5, .load = 40, .traced = 1});
    uint32_t count, failed = 0;
    (void)state;
    aw_graph_world_run(world, 3 * AW_GRAPH_S_NS);
    const struct aw_graph_done *done = aw_graph_world_done(world, &count);
    for (uint32_t i = 0; i < count; i++)
        failed += done[i].failed;
    assert_true(failed > 1000);
    aw_graph_world_load(world, 0.5);
    aw_graph_world_run(world, 12 * AW_GRAPH_S_NS);
    assert_true(missed(world, 15) < 0.01); /* and nothing of it stays */
    aw_graph_world_free(world);
}

static void running_allocates_nothing_and_every_failed_init_is_clean(void **state)
{
    struct aw_alloc_counting counting;
    struct aw_graph_world *world = NULL;
    enum aw_err err = AW_ERR_NOMEM;
    (void)state;
    assert_ok(aw_graph_builtin("hotel", &app, NULL));
    for (uint64_t n = 0; err; n++) {
        aw_alloc_counting_init(&counting);
        counting.fail_after = n;
        err =
            aw_graph_world_new(&app, &(struct aw_graph_config){.seed = 1}, &counting.alloc, &world);
        if (err)
            assert_int_equal(counting.alloc_count, counting.free_count);
    }
    const uint64_t before = counting.alloc_count;
    aw_graph_world_run(world, AW_GRAPH_S_NS);
    assert_int_equal(counting.alloc_count, before);
    aw_graph_world_free(world);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

AW_TEST_GROUP("graph-world")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_spans_give_the_latency_that_requests_had),
        cmocka_unit_test(skewed_clocks_and_lost_spans_are_what_the_tree_says),
        cmocka_unit_test(the_same_seed_is_the_same_world),
        cmocka_unit_test(what_a_stress_takes_its_limit_gives_back),
        cmocka_unit_test(a_delay_stays_with_its_replica_and_extra_calls_are_shared),
        cmocka_unit_test(a_node_never_gives_more_than_it_has),
        cmocka_unit_test(a_flood_is_turned_away_and_counted),
        cmocka_unit_test(running_allocates_nothing_and_every_failed_init_is_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
