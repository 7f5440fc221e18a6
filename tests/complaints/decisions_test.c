/* decisions_test.c - what people have suffered from controllers that fight, shrink for ever, forget
 * when they are restarted, and do not say why. Each test is named after a thread. */
#include "bench.h"
#include "desk/explanation.h"
#include "desk/standing_orders.h"
#include "profile/profile_testing.h"

#include "base/quantity.h"

/* --- two controllers, one workload ------------------------------------------------------------ */

static void kubernetes_autoscaler_1726_replicas_and_sizes_do_not_chase_each_other(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    bench_run(&b, 8 * 240); /* eight hours to settle */
    const uint32_t before = b.applied, replicas = b.sample.replicas_wanted;
    bench_run(&b, 8 * 240);
    assert_in_range(b.applied - before, 0, 8); /* an hour without a change, on average */
    assert_in_range(b.sample.replicas_wanted, replicas - 1, replicas + 1);
    bench_end(&b);
}

static void gardener_gardener_7410_both_dimensions_arrive_together_or_not_at_all(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    bench_run(&b, 60);
    const struct aw_sample before = b.sample;
    b.orders.pin = (struct aw_plan){.set = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY,
                                    .amount = {6, 1500, 3072 * AW_MIB}};
    b.orders.pin_kind = AW_ORDER_APPROVE;
    b.apply_fails = AW_ERR_UNAVAILABLE;
    for (uint32_t t = 0; t < 5; t++) {
        const struct aw_decision *d = bench_tick(&b);
        assert_int_equal(d->guard.plan.set, AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY);
        assert_false(d->applied);
    }
    assert_int_equal(b.sample.replicas_wanted, before.replicas_wanted);
    assert_int_equal(b.sample.cpu_millicores_wanted, before.cpu_millicores_wanted);
    b.apply_fails = AW_OK;
    bench_run(&b, 2);
    assert_int_equal(b.sample.replicas_wanted, 6);
    assert_int_equal(b.sample.cpu_millicores_wanted, 1500);
    assert_int_equal(b.sample.memory_bytes_wanted, 3072 * AW_MIB);
    bench_end(&b);
}

static void robusta_dev_krr_80_requests_do_not_shrink_for_ever(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    bench_run(&b, 12 * 240);
    const int64_t cpu = b.sample.cpu_millicores_wanted, memory = b.sample.memory_bytes_wanted;
    bench_run(&b, 24 * 240); /* a day of the same load: what it needs does not change */
    assert_true(b.sample.cpu_millicores_wanted * 10 >= cpu * 9);
    assert_true(b.sample.memory_bytes_wanted * 10 >= memory * 9);
    bench_end(&b);
}

/* --- dry run, why, units ---------------------------------------------------------------------- */

static void kubernetes_kubernetes_106765_recommending_only_is_the_default(void **state)
{
    (void)state;
    struct aw_profile_set set = read_sound(CART SLO BOUNDS);
    struct aw_pilot_config config;
    aw_pilot_config_of(&config, &set.profiles[0], false);
    assert_int_equal(config.guard.mode, AW_GUARD_OFF);
    aw_profile_set_deinit(&set);

    struct bench b;
    bench_prepare(&b);
    b.config.guard.mode = AW_GUARD_OFF;
    b.task.replicas = 1;
    bench_begin(&b);
    bool recommended = false;
    for (uint32_t t = 0; t < 120; t++)
        recommended |= bench_tick(&b)->guard.recommended.set != 0;
    assert_true(recommended);
    assert_int_equal(b.applied, 0);
    bench_end(&b);
}

static void kubernetes_autoscaler_5999_the_proposals_fields_are_understood(void **state)
{
    (void)state;
    struct aw_profile_set set =
        read_sound(MPA "metadata: {name: cart, namespace: shop}\n"
                       "spec:\n"
                       "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: cart}\n"
                       "  goals: {slo: {latency: {target: 200ms}}}\n"
                       "  constraints: {global: {minReplicas: 2, maxReplicas: 9}}\n"
                       "  policy: {updateMode: Auto}\n");
    assert_int_equal(set.profile_count, 1);
    assert_int_equal(set.profiles[0].pilot.bounds.replicas_max, 9);
    aw_profile_set_deinit(&set);
}

static void kubernetes_kubernetes_138992_every_difference_has_a_name_and_a_sentence(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.load_text = "spikes:peak=6,period=1800";
    bench_begin(&b);
    uint32_t clipped = 0;
    for (uint32_t t = 0; t < 960; t++) {
        const struct aw_decision *d = bench_tick(&b);
        const struct aw_plan *proposed = &d->guard.proposed, *plan = &d->guard.plan;
        const bool differs =
            ((proposed->set & AW_PLAN_REPLICAS) && proposed->replicas != plan->replicas) ||
            ((proposed->set & AW_PLAN_CPU) && proposed->cpu_millicores != plan->cpu_millicores) ||
            ((proposed->set & AW_PLAN_MEMORY) && proposed->memory_bytes != plan->memory_bytes);
        if (!differs)
            continue;
        clipped++;
        assert_true(d->guard.clips != 0);
        for (uint32_t i = 0; i < AW_CLIP_COUNT; i++)
            if (d->guard.clips & AW_CLIP_BIT(i))
                assert_true(strlen(aw_clip_sentence((enum aw_clip)i)) > 10);
    }
    assert_true(clipped > 0);
    bench_end(&b);
}

static void kubernetes_autoscaler_3442_amounts_are_printed_for_people(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } memory[] = {{262144 * INT64_C(1000), "250Mi"}, /* upstream prints 262144k */
                  {268435456, "256Mi"},
                  {INT64_C(1610612736), "1.5Gi"}};
    char buf[64];
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        assert_string_equal(aw_quantity_round_memory(memory[i].bytes, buf, sizeof buf),
                            memory[i].text);
    assert_string_equal(aw_quantity_round_cpu(120586239, AW_QUANTITY_NANO, buf, sizeof buf),
                        "121m");
}

static void mercari_tortoise_46_every_change_is_told_with_who_and_why(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.load_text = "bursts:peak=4,period=1800";
    bench_begin(&b);
    uint32_t told = 0;
    for (uint32_t t = 0; t < 960; t++) {
        const struct aw_decision *d = bench_tick(&b);
        if (!d->guard.plan.set)
            continue;
        char text[AW_EXPLANATION_SENTENCE_MAX];
        aw_explanation_sentence(&b.config, d, text, sizeof text);
        assert_non_null(strstr(text, "->"));
        assert_non_null(strstr(text, aw_actor_name(d->actor)));
        told++;
    }
    assert_true(told > 3);
    bench_end(&b);
}

static void jthomperoo_predictive_horizontal_pod_autoscaler_74_too_little_data_is_said(void **state)
{
    (void)state;
    struct bench b;
    struct aw_diag diag = {0};
    bench_prepare(&b);
    b.config.learning = true;
    bench_begin(&b);
    bench_run(&b, 3);
    assert_ok(aw_pilot_recall(b.pilot, NULL, NULL));
    assert_int_equal(aw_pilot_learn(b.pilot, &diag), AW_ERR_NODATA);
    assert_non_null(strstr(diag.text, "needed"));
    bench_end(&b);
}

/* --- vertical --------------------------------------------------------------------------------- */

static void
kubernetes_autoscaler_10093_a_failure_that_passes_is_not_remembered_for_ever(void **state)
{
    (void)state;
    static const enum aw_err failures[] = {AW_ERR_CONFLICT, AW_ERR_DEADLINE, AW_ERR_UNAVAILABLE,
                                           AW_ERR_RANGE};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct bench b;
        bench_prepare(&b);
        b.task.replicas = 1;
        bench_begin(&b);
        b.apply_fails = failures[i];
        bench_run(&b, 40);
        assert_int_equal(b.applied, 0);
        b.apply_fails = AW_OK;
        bench_run(&b, 10);
        assert_true(b.applied > 0);
        assert_true(b.sample.replicas_wanted > 1);
        bench_end(&b);
    }
}

static void kill_for_memory(struct bench *b, struct aw_sample *sample)
{
    sample->oom_kills = 1;
    sample->restarts = 1;
    sample->memory_bytes_peak.value = (double)sample->memory_bytes_wanted;
    b->tamper = NULL;
}

static void kubernetes_autoscaler_6705_a_kill_raises_memory_at_once_and_keeps_it_up(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    bench_run(&b, 120);
    const int64_t killed = b.sample.memory_bytes_wanted;
    b.tamper = kill_for_memory;
    bench_run(&b, 4);
    assert_true(b.sample.memory_bytes_wanted > killed);
    for (uint32_t t = 0; t < 110; t++) {
        bench_tick(&b);
        assert_true(b.sample.memory_bytes_wanted > killed);
    }
    bench_end(&b);
}

static void kill_always(struct bench *b, struct aw_sample *sample)
{
    kill_for_memory(b, sample);
    b->tamper = kill_always;
}

static void kubernetes_autoscaler_9521_kills_do_not_raise_memory_without_end(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.node.memory_bytes = 3072 * AW_MIB;
    bench_begin(&b);
    bench_run(&b, 60);
    b.tamper = kill_always;
    for (uint32_t t = 0; t < 240; t++) {
        bench_tick(&b);
        assert_true(b.sample.memory_bytes_wanted <= 3072 * AW_MIB);
    }
    bench_end(&b);
}

static void peaks_between(struct bench *b, struct aw_sample *sample)
{
    sample->memory_bytes_used.value = 100.0 * AW_MIB; /* what an average over a minute shows */
    for (uint32_t i = 0; i < sample->pod_count; i++)
        b->pods[i].memory_bytes_used.value = 100.0 * AW_MIB;
    sample->memory_bytes_peak.value = 1500.0 * AW_MIB;
}

static void kubernetes_autoscaler_2016_averages_do_not_hide_peaks(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.config.fallback.kind = AW_FALLBACK_HPA_VPA; /* wants to give it what it uses on average */
    bench_begin(&b);
    b.tamper = peaks_between;
    for (uint32_t t = 0; t < 480; t++) {
        bench_tick(&b);
        assert_true(b.sample.memory_bytes_wanted >= 1500 * AW_MIB);
    }
    bench_end(&b);
}

/* --- restarts --------------------------------------------------------------------------------- */

static void kubernetes_autoscaler_7726_a_restart_decides_nothing(void **state)
{
    (void)state;
    for (uint32_t keep = 0; keep < 2; keep++) {
        struct bench b;
        bench_prepare(&b);
        bench_begin(&b);
        bench_run(&b, 480);
        const struct aw_sample before = b.sample;
        for (uint32_t i = 0; i < 5; i++) {
            bench_restart(&b, keep);
            const struct aw_decision *d = bench_tick(&b);
            assert_true(d->guard.plan.replicas >= before.replicas_wanted);
            assert_true(d->guard.plan.cpu_millicores >= before.cpu_millicores_wanted);
            assert_true(d->guard.plan.memory_bytes >= before.memory_bytes_wanted);
        }
        bench_end(&b);
    }
}

static void forget_peaks(struct bench *b, struct aw_sample *sample)
{
    sample->memory_bytes_used.value = sample->memory_bytes_peak.value = 1 * (double)AW_MIB;
    for (uint32_t i = 0; i < sample->pod_count; i++)
        b->pods[i].memory_bytes_used.value = 1 * (double)AW_MIB;
}

static void
kubernetes_autoscaler_9891_lost_history_does_not_collapse_the_recommendation(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    bench_begin(&b);
    bench_run(&b, 480);
    const int64_t before = b.sample.memory_bytes_wanted;
    bench_restart(&b, false);
    b.tamper = forget_peaks; /* pods that have just come up show next to nothing */
    for (uint32_t t = 0; t < 20; t++) {
        bench_tick(&b);
        assert_true(b.sample.memory_bytes_wanted >= before);
    }
    bench_end(&b);
}

/* --- pause ------------------------------------------------------------------------------------ */

static void kedacore_keda_5215_false_means_false(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "{\"order\":\"freeze\",\"scope\":\"all\",\"down_only\":\"false\"}",
        "{\"order\":\"freeze\",\"scope\":\"all\",\"down_only\":0}",
        "{\"order\":\"freeze\",\"scope\":\"all\",\"down_only\":null}",
    };
    struct aw_order order;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *json = json_loads(wrong[i], 0, NULL);
        assert_int_equal(aw_order_from_json(json, &order, NULL), AW_ERR_FORMAT);
        json_decref(json);
    }
    json_t *json =
        json_loads("{\"order\":\"freeze\",\"scope\":\"all\",\"down_only\":false}", 0, NULL);
    assert_ok(aw_order_from_json(json, &order, NULL));
    assert_false(order.down_only);
    json_decref(json);
}

static void kedacore_keda_6902_scaling_down_can_be_frozen_alone(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.cores[0] = 0.3;
    b.cores[1] = 4;
    b.task.replicas = 3;
    bench_begin(&b);
    b.orders.freeze = AW_GUARD_FREEZE_DOWN;
    assert_int_equal(bench_shrinks(&b, 110), 0);
    bench_run(&b, 120);
    assert_true(b.sample.replicas_wanted > 3); /* it grew with the load */
    assert_int_equal(bench_shrinks(&b, 120), 0);
    bench_end(&b);
}

static void kedacore_keda_4733_after_a_freeze_it_goes_on(void **state)
{
    (void)state;
    struct bench b;
    bench_prepare(&b);
    b.task.replicas = 1;
    b.orders.freeze = AW_GUARD_FREEZE_ALL; /* from the very beginning */
    bench_begin(&b);
    for (uint32_t t = 0; t < 40; t++) {
        const struct aw_decision *d = bench_tick(&b);
        if (d->guard.recommended.set)
            assert_true(d->guard.clips & AW_CLIP_BIT(AW_CLIP_FREEZE));
    }
    assert_int_equal(b.applied, 0);
    b.orders.freeze = AW_GUARD_FREEZE_NONE;
    bench_run(&b, 4);
    assert_true(b.applied > 0);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kubernetes_autoscaler_1726_replicas_and_sizes_do_not_chase_each_other),
        cmocka_unit_test(gardener_gardener_7410_both_dimensions_arrive_together_or_not_at_all),
        cmocka_unit_test(robusta_dev_krr_80_requests_do_not_shrink_for_ever),
        cmocka_unit_test(kubernetes_kubernetes_106765_recommending_only_is_the_default),
        cmocka_unit_test(kubernetes_autoscaler_5999_the_proposals_fields_are_understood),
        cmocka_unit_test(kubernetes_kubernetes_138992_every_difference_has_a_name_and_a_sentence),
        cmocka_unit_test(kubernetes_autoscaler_3442_amounts_are_printed_for_people),
        cmocka_unit_test(mercari_tortoise_46_every_change_is_told_with_who_and_why),
        cmocka_unit_test(
            jthomperoo_predictive_horizontal_pod_autoscaler_74_too_little_data_is_said),
        cmocka_unit_test(
            kubernetes_autoscaler_10093_a_failure_that_passes_is_not_remembered_for_ever),
        cmocka_unit_test(kubernetes_autoscaler_6705_a_kill_raises_memory_at_once_and_keeps_it_up),
        cmocka_unit_test(kubernetes_autoscaler_9521_kills_do_not_raise_memory_without_end),
        cmocka_unit_test(kubernetes_autoscaler_2016_averages_do_not_hide_peaks),
        cmocka_unit_test(kubernetes_autoscaler_7726_a_restart_decides_nothing),
        cmocka_unit_test(
            kubernetes_autoscaler_9891_lost_history_does_not_collapse_the_recommendation),
        cmocka_unit_test(kedacore_keda_5215_false_means_false),
        cmocka_unit_test(kedacore_keda_6902_scaling_down_can_be_frozen_alone),
        cmocka_unit_test(kedacore_keda_4733_after_a_freeze_it_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
