/* signals_test.c - what people have suffered when figures were missing, late or wrong, and when a
 * rollout or a crash was taken for load. Each test is named after a thread. */
#include "bench.h"

/* A load that falls to nothing wants to shrink; a test that shows no shrinking shows it wanted to.
 */
static void falling(struct bench *b)
{
    bench_prepare(b);
    b->cores[0] = 4;
    b->cores[1] = 0.2;
    b->task.replicas = 8;
}

static struct aw_figure unknown(void)
{
    return (struct aw_figure){.at_us = AW_NEVER};
}

static void lose_everything(struct bench *b, struct aw_sample *sample)
{
    (void)b;
    sample->cpu_cores_used = sample->memory_bytes_used = sample->memory_bytes_peak = unknown();
    sample->throttled_share = sample->disk_bytes_per_s = sample->net_bytes_per_s = unknown();
    sample->arrivals_per_s = sample->completions_per_s = sample->errors_per_s = unknown();
    sample->in_flight = sample->latency_us_mean = unknown();
    sample->latency_us_p50 = sample->latency_us_p95 = sample->latency_us_p99 = unknown();
    for (uint32_t i = 0; i < sample->pod_count; i++)
        b->pods[i].cpu_cores_used = b->pods[i].memory_bytes_used = unknown();
}

static void show_zeros(struct bench *b, struct aw_sample *sample)
{
    const struct aw_figure zero = {.at_us = sample->at_us};
    lose_everything(b, sample);
    sample->cpu_cores_used = zero;
    for (uint32_t i = 0; i < sample->pod_count; i++)
        b->pods[i].cpu_cores_used = zero;
}

static void make_old(struct bench *b, struct aw_sample *sample)
{
    const int64_t old = INT64_C(600000000);
    sample->cpu_cores_used.at_us -= old;
    sample->memory_bytes_used.at_us -= old;
    sample->memory_bytes_peak.at_us -= old;
    sample->arrivals_per_s.at_us -= old;
    sample->latency_us_p99.at_us -= old;
    for (uint32_t i = 0; i < sample->pod_count; i++) {
        b->pods[i].cpu_cores_used.at_us -= old;
        b->pods[i].memory_bytes_used.at_us -= old;
    }
}

static void kedacore_keda_1850_a_metrics_source_that_is_down_never_scales_down(void **state)
{
    (void)state;
    static void (*const tampers[])(struct bench *, struct aw_sample *) = {lose_everything,
                                                                          make_old};
    for (size_t i = 0; i < sizeof tampers / sizeof *tampers; i++) {
        struct bench b;
        falling(&b);
        bench_begin(&b);
        bench_run(&b, 110);
        b.tamper = tampers[i];
        assert_int_equal(bench_shrinks(&b, 240), 0); /* an hour */
        b.tamper = NULL;
        assert_true(bench_shrinks(&b, 240) > 0); /* it did want to */
        bench_end(&b);
    }
}

static void kedacore_keda_2244_no_answer_at_all_never_scales_down(void **state)
{
    (void)state;
    struct bench b;
    falling(&b);
    bench_begin(&b);
    bench_run(&b, 110);
    b.silent = true;
    const uint32_t before = b.applied;
    bench_run(&b, 240);
    assert_int_equal(b.applied, before);
    bench_end(&b);
}

static void kedacore_keda_8056_every_way_of_failing_counts_as_failing(void **state)
{
    (void)state;
    /* what an agent that acts is given when the signal fails, in each way it can */
    static void (*const tampers[])(struct bench *, struct aw_sample *) = {lose_everything, make_old,
                                                                          NULL};
    for (size_t i = 0; i < sizeof tampers / sizeof *tampers; i++) {
        struct bench b;
        bench_prepare(&b);
        b.config.learning = true;
        b.config.lifecycle.bootstrap = false; /* the agent acts from the first tick on */
        b.config.watchdog.slack = b.config.watchdog.strange = 1e9;
        bench_begin(&b);
        bench_run(&b, 20);
        b.tamper = tampers[i];
        b.silent = !tampers[i];
        const struct aw_decision *d = NULL;
        for (uint32_t t = 0; t < 12; t++)
            d = bench_tick(&b);
        assert_int_equal(d->actor, AW_ACTOR_FALLBACK);
        assert_int_not_equal(d->verdict, AW_WATCHDOG_PASS);
        bench_end(&b);
    }
}

static void kedacore_keda_7239_zero_that_was_not_measured_is_not_zero(void **state)
{
    (void)state;
    struct bench b;
    falling(&b);
    bench_begin(&b);
    bench_run(&b, 60);
    b.tamper = show_zeros; /* CPU 0, and nothing known of load and latency */
    assert_int_equal(bench_shrinks(&b, 100), 0);
    bench_end(&b);
}

static void lose_one_pod(struct bench *b, struct aw_sample *sample)
{
    if (sample->pod_count > 0)
        b->pods[0].cpu_cores_used = b->pods[0].memory_bytes_used = unknown();
}

static void
kubernetes_kubernetes_127193_one_pod_without_metrics_does_not_pin_the_others(void **state)
{
    (void)state;
    struct bench b;
    falling(&b);
    b.config.fallback.kind = AW_FALLBACK_HPA;
    bench_begin(&b);
    b.tamper = lose_one_pod;
    bench_run(&b, 110);
    assert_true(bench_shrinks(&b, 240) > 0); /* most of it is known: it may shrink */
    assert_true(b.sample.replicas_wanted < 8);
    bench_end(&b);
}

static void kubernetes_kubernetes_30471_one_pod_without_metrics_does_not_stop_growth(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.task.replicas = 6;
    b.cores[0] = 8;
    b.config.fallback.kind = AW_FALLBACK_HPA;
    b.config.fallback.hpa_target = 60; /* an unknown pod counts as idle: upstream's rule */
    bench_begin(&b);
    b.tamper = lose_one_pod;
    bench_run(&b, 60);
    assert_true(b.sample.replicas_wanted > 6);
    bench_end(&b);
}

/* --- rollouts, crashes, flapping -------------------------------------------------------------- */

static void roll_out(struct bench *b, struct aw_sample *sample)
{
    /* surging replicas burn CPU while they start: it reads as twice the load */
    sample->rollout = true;
    sample->cpu_cores_used.value = (double)sample->replicas_wanted;
    for (uint32_t i = 0; i < sample->pod_count; i++)
        b->pods[i].cpu_cores_used.value = 1;
}

static void kubernetes_kubernetes_72775_a_rollout_is_not_load(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.slo.latency_us_p99 = 0; /* nothing is missed */
    b.config.guard.pressure = 2;     /* CPU of starting replicas is no pressure */
    b.config.fallback.kind = AW_FALLBACK_HPA;
    bench_begin(&b);
    bench_run(&b, 60);
    const uint32_t before = b.sample.replicas_wanted;
    b.tamper = roll_out;
    for (uint32_t t = 0; t < 60; t++) {
        const struct aw_decision *d = bench_tick(&b);
        assert_int_equal(d->guard.plan.set, 0);
        if (d->guard.proposed.set)
            assert_true(d->guard.clips & AW_CLIP_BIT(AW_CLIP_ROLLOUT));
    }
    assert_int_equal(b.sample.replicas_wanted, before);
    bench_end(&b);
}

static void crash(struct bench *b, struct aw_sample *sample)
{
    (void)b;
    sample->restarts = sample->replicas_wanted;
    sample->cpu_cores_used.value = (double)sample->replicas_wanted;
    for (uint32_t i = 0; i < sample->pod_count; i++)
        b->pods[i].cpu_cores_used.value = 1;
}

static void mercari_tortoise_405_a_crash_loop_is_not_scaled_out(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.fallback.kind = AW_FALLBACK_HPA;
    bench_begin(&b);
    bench_run(&b, 60);
    b.tamper = crash;
    bench_run(&b, 3); /* a crash is no loop */
    const uint32_t before = b.sample.replicas_wanted;
    uint32_t named = 0;
    for (uint32_t t = 0; t < 60; t++)
        named += (bench_tick(&b)->guard.clips & AW_CLIP_BIT(AW_CLIP_CRASH_LOOP)) != 0;
    assert_true(named > 0);
    assert_in_range(b.sample.replicas_wanted, 1, before + 4);
    bench_end(&b);
}

static void fiaas_fiaas_deploy_daemon_205_a_load_that_swings_does_not_make_it_swing(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.load_text = "diurnal:peak=3,period=120"; /* up and down in two minutes */
    b.config.fallback.kind = AW_FALLBACK_HPA;
    bench_begin(&b);
    bench_run(&b, 60);
    uint32_t turns = 0;
    int direction = 0;
    for (uint32_t t = 0; t < 240; t++) { /* thirty swings */
        const struct aw_decision *d = bench_tick(&b);
        if (!(d->guard.plan.set & AW_PLAN_REPLICAS))
            continue;
        const int now = d->guard.plan.replicas > d->reading.replicas_wanted ? 1 : -1;
        turns += direction && now != direction;
        direction = now;
    }
    assert_in_range(turns, 0, 8); /* of the HPA, and where steps are missed of relief */
    bench_end(&b);
}

/* Proposes in every tick to halve or to double: what passes depends on time, not on ticks. */
static uint32_t changes_in_an_hour(int64_t tick_us)
{
    struct aw_guard guard;
    struct aw_guard_settings settings;
    struct aw_guard_memory memory;
    struct aw_reading reading = {.replicas_wanted = 4,
                                 .replicas_ready = 4,
                                 .cpu_millicores_wanted = 1000,
                                 .memory_bytes_wanted = 1024 * AW_MIB,
                                 .cpu_cores_used = 0.4,
                                 .memory_bytes_used = 100.0 * AW_MIB,
                                 .memory_bytes_peak = 120.0 * AW_MIB,
                                 .cpu_utilisation = 0.1,
                                 .memory_utilisation = 0.1};
    const struct aw_bounds bounds = {.min = {1, 100, 64 * AW_MIB},
                                     .max = {20, 4000, 4096 * AW_MIB}};
    const struct aw_guard_input input = {.reading = &reading};
    uint32_t changes = 0;
    aw_conf_defaults(aw_guard_fields, &settings);
    settings.mode = AW_GUARD_AUTO;
    assert_ok(aw_guard_init(&guard, &settings, &bounds, NULL));
    aw_guard_begin(&memory);
    for (int64_t now = 0; now < INT64_C(7200000000); now += tick_us) {
        aw_guard_observe(&guard, &memory, &input, now);
        const bool up = (now / INT64_C(60000000)) % 2;
        const struct aw_plan plan = {.set = AW_PLAN_CPU, .cpu_millicores = up ? 2000 : 500};
        struct aw_guard_result result;
        aw_guard_pass(&guard, &memory, &input, &plan, now, &result);
        if (result.plan.set) {
            aw_guard_applied(&guard, &memory, &result.plan, now);
            reading.cpu_millicores_wanted = result.plan.cpu_millicores;
            changes += now >= INT64_C(3600000000);
        }
    }
    return changes;
}

static void kubernetes_sigs_karpenter_2909_budgets_are_over_time_not_per_loop(void **state)
{
    (void)state;
    const uint32_t slow = changes_in_an_hour(15000000), quick = changes_in_an_hour(1000000);
    assert_in_range(slow, 1, 12);
    assert_in_range(quick, 1, slow + 2); /* a loop that is fifteen times faster disturbs no more */
}

/* --- start-up, panic -------------------------------------------------------------------------- */

static void knative_serving_13284_slow_starters_are_not_piled_up(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.settings.container_start_s = 45; /* three ticks until a new replica helps */
    b.cores[0] = 1;
    b.cores[1] = 4;
    b.config.fallback.kind = AW_FALLBACK_HPA;
    bench_begin(&b);
    bench_run(&b, 110);
    uint32_t most = 0;
    for (uint32_t t = 0; t < 120; t++) {
        bench_tick(&b);
        most = b.sample.replicas_wanted > most ? b.sample.replicas_wanted : most;
    }
    const uint32_t settled = b.sample.replicas_wanted;
    assert_in_range(most, settled, settled + settled / 2 + 1);
    bench_end(&b);
}

static void knative_serving_3153_the_end_of_an_emergency_does_not_undo_everything(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    bench_run(&b, 60);
    b.orders.floor = (struct aw_plan){.set = AW_PLAN_REPLICAS, .replicas = 16};
    b.orders.urgent = true;
    bench_run(&b, 8);
    assert_int_equal(b.sample.replicas_wanted, 16);
    /* let down as the book does, a step at a time; replicas follow at the pace of all */
    b.orders.urgent = false;
    uint32_t last = 16;
    for (uint32_t minute = 0; minute < 60; minute++) {
        b.orders.floor.replicas = (uint32_t)ceil(16 * pow(0.95, minute));
        for (uint32_t t = 0; t < 4; t++) {
            bench_tick(&b);
            assert_true(2 * b.sample.replicas_wanted + 1 >= last);
            last = b.sample.replicas_wanted;
        }
    }
    b.orders = (struct aw_orders){0};
    bench_run(&b, 60);
    assert_true(b.sample.replicas_wanted < 10);
    bench_end(&b);
}

static void mercari_tortoise_422_an_emergency_fits_what_is_controlled(void **state)
{
    (void)state;
    static const uint32_t controlled[] = {AW_PLAN_REPLICAS, AW_PLAN_CPU | AW_PLAN_MEMORY,
                                          AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY};
    for (size_t i = 0; i < sizeof controlled / sizeof *controlled; i++) {
        struct bench b;
        bench_prepare(&b);
        b.config.controlled = controlled[i];
        bench_begin(&b);
        bench_run(&b, 60);
        const struct aw_sample before = b.sample;
        b.orders.floor = (struct aw_plan){.set = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
                                          .amount = {12, 2000, 3072 * AW_MIB}};
        b.orders.urgent = true;
        bench_run(&b, 20);
        const bool replicas = controlled[i] & AW_PLAN_REPLICAS, size = controlled[i] & AW_PLAN_CPU;
        assert_int_equal(b.sample.replicas_wanted, replicas ? 12 : before.replicas_wanted);
        if (size) /* relief may have gone further */
            assert_in_range(b.sample.cpu_millicores_wanted, 2000, b.config.bounds.max[1]);
        else
            assert_int_equal(b.sample.cpu_millicores_wanted, before.cpu_millicores_wanted);
        assert_int_equal(b.sample.memory_bytes_wanted,
                         size ? 3072 * AW_MIB : before.memory_bytes_wanted);
        b.orders = (struct aw_orders){0}; /* and it is not stuck there */
        bench_run(&b, 480);
        if (replicas)
            assert_true(b.sample.replicas_wanted < 12);
        bench_end(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kedacore_keda_1850_a_metrics_source_that_is_down_never_scales_down),
        cmocka_unit_test(kedacore_keda_2244_no_answer_at_all_never_scales_down),
        cmocka_unit_test(kedacore_keda_8056_every_way_of_failing_counts_as_failing),
        cmocka_unit_test(kedacore_keda_7239_zero_that_was_not_measured_is_not_zero),
        cmocka_unit_test(
            kubernetes_kubernetes_127193_one_pod_without_metrics_does_not_pin_the_others),
        cmocka_unit_test(kubernetes_kubernetes_30471_one_pod_without_metrics_does_not_stop_growth),
        cmocka_unit_test(kubernetes_kubernetes_72775_a_rollout_is_not_load),
        cmocka_unit_test(mercari_tortoise_405_a_crash_loop_is_not_scaled_out),
        cmocka_unit_test(fiaas_fiaas_deploy_daemon_205_a_load_that_swings_does_not_make_it_swing),
        cmocka_unit_test(kubernetes_sigs_karpenter_2909_budgets_are_over_time_not_per_loop),
        cmocka_unit_test(knative_serving_13284_slow_starters_are_not_piled_up),
        cmocka_unit_test(knative_serving_3153_the_end_of_an_emergency_does_not_undo_everything),
        cmocka_unit_test(mercari_tortoise_422_an_emergency_fits_what_is_controlled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
