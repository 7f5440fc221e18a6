/* step_test.c - one step of a loop on a cluster of a few lines. */
#include "safety/step.h"

#include <math.h>

#include "base/testing.h"
#include "base/units.h"

#define S INT64_C(1000000)

/* A cluster that takes what it is given, or says why not. */
struct toy {
    struct aw_sample sample;
    int64_t now_us;
    enum aw_err observes, applies;
    struct aw_plan applied;
    uint32_t applies_count;
};

static enum aw_err toy_observe(void *self, uint32_t workload, int64_t deadline_us,
                               struct aw_sample *ret)
{
    struct toy *toy = self;
    (void)deadline_us;
    assert_int_equal(workload, 3);
    if (!toy->observes)
        *ret = toy->sample;
    return toy->observes;
}

static enum aw_err toy_apply(void *self, uint32_t workload, const struct aw_plan *plan,
                             int64_t deadline_us)
{
    struct toy *toy = self;
    (void)deadline_us;
    assert_int_equal(workload, 3);
    toy->applies_count++;
    toy->applied = *plan;
    return toy->applies;
}

static enum aw_err toy_advance(void *self, int64_t until_us)
{
    ((struct toy *)self)->now_us = until_us;
    return AW_OK;
}

static int64_t toy_now_us(const void *self)
{
    return ((const struct toy *)self)->now_us;
}

static const struct aw_cluster_ops toy_ops = {
    .name = "toy",
    .observe = toy_observe,
    .apply = toy_apply,
    .advance = toy_advance,
    .now_us = toy_now_us,
};

struct scene {
    struct toy toy;
    struct aw_cluster cluster;
    struct aw_step_rules rules;
    struct aw_guard_memory memory;
    struct aw_step_seen seen;
    struct aw_guard_result rails;
};

static struct aw_figure now(const struct scene *scene, double value)
{
    return (struct aw_figure){value, scene->toy.now_us};
}

/* 4 replicas of 1 core and 1 GiB at rest, watched for long enough to be known. */
static void begin(struct scene *scene)
{
    *scene = (struct scene){0};
    scene->cluster = (struct aw_cluster){&toy_ops, &scene->toy};
    struct aw_step_rules *rules = &scene->rules;
    *rules = (struct aw_step_rules){
        .objective = {.slo = {.latency_us_p99 = 2e5, .timeout_us = 1e7},
                      .prices = {.core_hour = 0.04, .gib_hour = 0.005},
                      .cost_reference_per_hour = 1},
        .controlled = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
    };
    aw_step_times(rules, 15, 60);
    struct aw_guard_settings settings;
    aw_conf_defaults(aw_guard_fields, &settings);
    settings.mode = AW_GUARD_AUTO;
    const struct aw_bounds bounds = {.min = {1, 100, 64 * AW_MIB},
                                     .max = {20, 4000, 4096 * AW_MIB}};
    assert_ok(aw_guard_init(&rules->guard, &settings, &bounds, NULL));
    aw_guard_begin(&scene->memory);
}

static void measure(struct scene *scene)
{
    struct aw_sample *s = &scene->toy.sample;
    *s = (struct aw_sample){.at_us = scene->toy.now_us,
                            .replicas_wanted = 4,
                            .replicas_ready = 4,
                            .cpu_millicores_wanted = 1000,
                            .memory_bytes_wanted = 1024 * AW_MIB,
                            .cpu_cores_used = now(scene, 1),
                            .memory_bytes_used = now(scene, 250.0 * AW_MIB),
                            .memory_bytes_peak = now(scene, 300.0 * AW_MIB),
                            .arrivals_per_s = now(scene, 100),
                            .completions_per_s = now(scene, 100),
                            .errors_per_s = now(scene, 0),
                            .in_flight = now(scene, 5),
                            .latency_us_p50 = now(scene, 1e5),
                            .latency_us_p95 = now(scene, 1.8e5),
                            .latency_us_p99 = now(scene, 3e5)};
}

static enum aw_err act(struct scene *scene, const struct aw_plan *proposed)
{
    const struct aw_step_seen *seen = &scene->seen;
    const struct aw_guard_input input = aw_step_input(
        &scene->rules, &seen->reading, aw_step_slo(&scene->rules, &seen->reading, &seen->score),
        seen->sample.restarts);
    return aw_step_act(&scene->rules, &scene->memory, &scene->cluster, 3, &input, proposed,
                       &scene->rails);
}

static void look(struct scene *scene)
{
    measure(scene);
    assert_ok(aw_step_look(&scene->rules, &scene->cluster, 3, &scene->seen));
}

static void settle(struct scene *scene)
{
    for (uint32_t t = 0; t < 400; t++) {
        look(scene);
        assert_ok(act(scene, &(struct aw_plan){0}));
        assert_ok(aw_step_advance(&scene->rules, &scene->cluster));
    }
    assert_int_equal(scene->toy.now_us, 400 * 15 * S);
    assert_int_equal(scene->toy.applies_count, 0);
    look(scene);
}

static const struct aw_plan less = {.set = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
                                    .replicas = 3,
                                    .cpu_millicores = 700,
                                    .memory_bytes = 700 * AW_MIB};

static void the_slo_is_judged_at_its_own_quantile(void **state)
{
    (void)state;
    static const struct {
        double quantile, latency_us;
        bool violated;
    } row[] = {{0.5, 1e5, false}, {0.95, 1.8e5, false}, {0.99, 3e5, true}, {0, 3e5, true}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct scene scene;
        begin(&scene);
        scene.rules.objective.slo.quantile = row[i].quantile;
        look(&scene);
        assert_close(scene.seen.reading.latency_us_slo, row[i].latency_us, 1e-12);
        assert_true(scene.seen.score.violated == row[i].violated);
    }
}

static void an_slo_of_which_nothing_is_known_lets_nothing_shrink(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    scene.rules.objective.slo.quantile = 0.5; /* met, as long as it is known */
    settle(&scene);
    const struct aw_reading known = scene.seen.reading;
    assert_int_equal(aw_step_slo(&scene.rules, &known, &scene.seen.score), AW_GUARD_SLO_MET);
    measure(&scene);
    scene.toy.sample.arrivals_per_s.at_us = scene.toy.sample.latency_us_p50.at_us = AW_NEVER;
    assert_ok(aw_step_look(&scene.rules, &scene.cluster, 3, &scene.seen));
    assert_ok(act(&scene, &less));
    assert_int_equal(scene.rails.plan.set, 0);
    assert_true(scene.rails.clips & AW_CLIP_BIT(AW_CLIP_NO_DATA));
    assert_int_equal(scene.toy.applies_count, 0);

    scene.rules.objective.slo.latency_us_p99 = 0; /* who has no SLO need not know it */
    assert_int_equal(aw_step_slo(&scene.rules, &scene.seen.reading, &scene.seen.score),
                     AW_GUARD_SLO_MET);
    assert_ok(act(&scene, &less));
    assert_int_equal(scene.toy.applies_count, 1);
}

static void an_slo_is_known_when_every_figure_that_it_speaks_of_is(void **state)
{
    (void)state;
    static const struct {
        double latency_us_p99, throughput_per_s;          /* the SLO */
        double arrivals, completions, latency_us, errors; /* what was read */
        enum aw_guard_slo slo;
        const char *why;
    } row[] = {
        {2e5, 0, 10, 10, NAN, 0, AW_GUARD_SLO_UNKNOWN, "load, and no latency"},
        {2e5, 0, 10, NAN, NAN, NAN, AW_GUARD_SLO_UNKNOWN, "load, and nothing else"},
        {2e5, 0, 10, 10, 1e5, 0, AW_GUARD_SLO_MET, "a latency"},
        {2e5, 0, 0, 0, NAN, 0, AW_GUARD_SLO_MET, "nobody asks"},
        {2e5, 0, NAN, 10, 1e5, 0, AW_GUARD_SLO_UNKNOWN, "nobody knows who asks"},
        {2e5, 0, 10, 10, NAN, 1, AW_GUARD_SLO_MISSED, "errors take the time-out"},
        {2e5, 0, 10, 0, NAN, 0, AW_GUARD_SLO_MISSED, "nothing is answered"},
        {0, 5, 10, NAN, NAN, 0, AW_GUARD_SLO_UNKNOWN, "no throughput"},
        {0, 5, 10, 10, NAN, 0, AW_GUARD_SLO_MET, "it speaks of no latency"},
        {0, 5, 10, 1, NAN, 0, AW_GUARD_SLO_MISSED, "too little throughput"},
        {0, 0, NAN, NAN, NAN, NAN, AW_GUARD_SLO_MET, "there is none"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct scene scene;
        begin(&scene);
        settle(&scene);
        struct aw_slo *slo = &scene.rules.objective.slo;
        *slo = (struct aw_slo){.latency_us_p99 = row[i].latency_us_p99,
                               .throughput_per_s = row[i].throughput_per_s,
                               .timeout_us = 30e6};
        struct aw_reading reading = scene.seen.reading;
        reading.arrivals_per_s = row[i].arrivals;
        reading.completions_per_s = row[i].completions;
        reading.latency_us_slo = row[i].latency_us;
        reading.errors_per_s = row[i].errors;
        struct aw_score score;
        aw_step_score(&scene.rules, &reading, &score);
        if (aw_step_slo(&scene.rules, &reading, &score) != row[i].slo)
            fail_msg("%s: %d", row[i].why, (int)aw_step_slo(&scene.rules, &reading, &score));
    }
}

static void what_is_not_controlled_stays(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    scene.rules.objective.slo.quantile = 0.5;
    scene.rules.controlled = AW_PLAN_REPLICAS;
    settle(&scene);
    assert_ok(act(&scene, &less));
    assert_int_equal(scene.toy.applied.set, AW_PLAN_REPLICAS);
    assert_int_equal(scene.toy.applied.replicas, 3);
    /* a floor that a kill has left raises no memory that is not ours */
    look(&scene);
    scene.seen.reading.oom_kills = 2;
    assert_ok(act(&scene, &(struct aw_plan){0}));
    assert_int_equal(scene.rails.plan.set, 0);
}

static void what_the_cluster_does_not_take_is_not_remembered(void **state)
{
    (void)state;
    const struct aw_plan more = {.set = AW_PLAN_REPLICAS, .replicas = 6};
    struct scene scene;
    begin(&scene);
    settle(&scene);
    const struct aw_guard_memory before = scene.memory;
    scene.toy.applies = AW_ERR_CONFLICT;
    assert_ok(act(&scene, &more)); /* asked again in the next step */
    assert_int_equal(scene.toy.applies_count, 1);
    assert_int_equal(scene.memory.replicas_change_us, before.replicas_change_us);
    scene.toy.applies = AW_ERR_RANGE;
    assert_int_equal(act(&scene, &more), AW_ERR_RANGE);
    assert_int_equal(scene.memory.replicas_change_us, before.replicas_change_us);
    scene.toy.applies = AW_OK;
    assert_ok(act(&scene, &more));
    assert_int_equal(scene.memory.replicas_change_us, scene.toy.now_us);
    scene.toy.observes = AW_ERR_NODATA;
    assert_int_equal(aw_step_look(&scene.rules, &scene.cluster, 3, &scene.seen), AW_ERR_NODATA);
}

static void without_rails_a_plan_is_applied_as_it_is(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    look(&scene);
    const struct aw_guard_input input =
        aw_step_input(&scene.rules, &scene.seen.reading, AW_GUARD_SLO_MET, 0);
    const struct aw_plan far = {.set = AW_PLAN_REPLICAS, .replicas = 999};
    assert_ok(aw_step_act(&scene.rules, NULL, &scene.cluster, 3, &input, &far, &scene.rails));
    assert_int_equal(scene.toy.applied.replicas, 999);
    assert_int_equal(scene.rails.clips, 0);
}

AW_TEST_GROUP("step")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slo_is_judged_at_its_own_quantile),
        cmocka_unit_test(an_slo_of_which_nothing_is_known_lets_nothing_shrink),
        cmocka_unit_test(an_slo_is_known_when_every_figure_that_it_speaks_of_is),
        cmocka_unit_test(what_is_not_controlled_stays),
        cmocka_unit_test(what_the_cluster_does_not_take_is_not_remembered),
        cmocka_unit_test(without_rails_a_plan_is_applied_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
