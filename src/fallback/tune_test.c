#include "fallback/tune.h"

#include "base/testing.h"

#include <math.h>
#include <string.h>

/* A made-up application whose best settings are known, and a book of all that was asked. */
struct world {
    double target_best; /* reward peaks here, in percent */
    double knee;        /* violations begin above this target at one core */
    double action[3];   /* best constant */
    double memory_needed;
    uint32_t fail_at; /* evaluation that fails; 0: none */
    uint32_t asked;
    struct aw_tune_result all[4096];
};

static enum aw_err evaluate(void *ctx, const struct aw_fallback_settings *settings,
                            const struct aw_fallback_task *task, struct aw_tune_result *ret,
                            struct aw_diag *diag)
{
    struct world *w = ctx;
    struct aw_tune_result r = {.memory_bytes_peak = w->memory_needed};
    if (w->fail_at && w->asked + 1 == w->fail_at)
        return aw_fail(diag, AW_ERR_DIVERGED, "as asked");
    assert_true(task->cpu_millicores >= task->bounds.cpu_millicores_min);
    assert_true(task->cpu_millicores <= task->bounds.cpu_millicores_max);
    assert_true(task->memory_bytes >= task->bounds.memory_bytes_min);
    if (settings->kind == AW_FALLBACK_CONSTANT) {
        const double a[] = {settings->constant_cpu, settings->constant_memory,
                            settings->constant_replicas};
        double far = 0;
        for (int i = 0; i < 3; i++) {
            assert_true(a[i] >= -1 && a[i] <= 1);
            far += (a[i] - w->action[i]) * (a[i] - w->action[i]);
        }
        r.reward = 200 - 50 * far;
        r.cost = 1 + far;
    } else if (settings->kind == AW_FALLBACK_AIMD) {
        /* in logarithms from a largest replica of 800m, a step of 0.2, and a slack of 0.6 */
        assert_true(task->cpu_millicores <= task->bounds.cpu_millicores_max);
        assert_true(task->cpu_millicores * task->replicas >= 4000);
        const double size = log((double)task->bounds.cpu_millicores_max / 800);
        const double more = log(settings->aimd_cpu_step / 0.2), slack = settings->aimd_slack - 0.6;
        r.violation_share = settings->aimd_slack > 0.9 ? 0.5 : 0;
        r.cost = 1 + size * size + more * more + slack * slack;
        r.reward = -r.cost;
    } else {
        /* larger replicas stand more utilisation: the knee rises with the size */
        const double size = (double)task->cpu_millicores / 1000;
        const double knee = fmin(w->knee * pow(size, 0.2), 94);
        const double target = settings->hpa_target;
        r.violation_share = target > knee ? (target - knee) / 100 : 0;
        r.cost = 100 / target * (1 + 0.05 * size) + (double)task->memory_bytes / (1 << 30);
        r.reward = 200 - pow(target - w->target_best, 2) / 50 - fabs(log(size));
        if ((double)task->memory_bytes < 1.15 * w->memory_needed)
            r.violation_share = 1; /* runs out of memory */
    }
    assert_true(w->asked < sizeof w->all / sizeof *w->all);
    w->all[w->asked++] = r;
    *ret = r;
    return AW_OK;
}

static const struct aw_fallback_task start = {
    .bounds = {.min = {1, 100, 64 << 20}, .max = {20, 4000, 8ll << 30}},
    .slo_latency_us = 1e5,
    .replicas = 4,
    .cpu_millicores = 1000,
    .memory_bytes = 2ll << 30,
};

static struct aw_fallback_settings settings_of(enum aw_fallback_kind kind)
{
    struct aw_fallback_settings settings;
    aw_conf_defaults(aw_fallback_fields, &settings);
    settings.kind = kind;
    return settings;
}

static void what_is_returned_is_the_best_of_all_that_was_asked(void **state)
{
    (void)state;
    static struct world w;
    for (int kind = 0; kind < AW_FALLBACK_COUNT; kind++)
        for (int goal = AW_TUNE_SLO; goal <= AW_TUNE_REWARD; goal++) {
            for (uint32_t budget = 1; budget < 200; budget = budget * 2 + 1) {
                const struct aw_tune_config config = {(enum aw_tune_goal)goal, 0.01, budget};
                struct aw_fallback_settings settings = settings_of((enum aw_fallback_kind)kind);
                struct aw_fallback_task task = start;
                struct aw_tune_result result;
                uint32_t evaluations;
                w = (struct world){.target_best = 63,
                                   .knee = 57,
                                   .action = {0.4, -0.2, -0.66},
                                   .memory_needed = 300 << 20};
                assert_ok(
                    aw_tune(&config, evaluate, &w, &settings, &task, &result, &evaluations, NULL));
                assert_int_equal(evaluations, w.asked);
                assert_true(w.asked <= budget);
                for (uint32_t i = 0; i < w.asked; i++)
                    assert_false(aw_tune_better(&config, &w.all[i], &result));
                /* and the settings are those of the result */
                struct aw_tune_result again;
                w.asked = 0;
                assert_ok(evaluate(&w, &settings, &task, &again, NULL));
                assert_memory_equal(&again, &result, sizeof again);
            }
        }
}

static void the_highest_target_that_keeps_the_budget_is_found(void **state)
{
    (void)state;
    static struct world w;
    static const struct {
        const char *why;
        double knee;
        uint32_t expected;
    } cases[] = {
        {"in the middle", 57, 58}, /* 1 % of violations are allowed: one percent beyond the knee */
        {"everything is too much", 3, 10},
        {"nothing is too much", 99, 95},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct aw_tune_config config = {AW_TUNE_SLO, 0.01, 100};
        struct aw_fallback_settings settings = settings_of(AW_FALLBACK_HPA_VPA); /* target alone */
        struct aw_fallback_task task = start;
        struct aw_tune_result result;
        w = (struct world){.knee = cases[i].knee};
        assert_ok(aw_tune(&config, evaluate, &w, &settings, &task, &result, NULL, NULL));
        if (settings.hpa_target != cases[i].expected)
            fail_msg("%s: %u", cases[i].why, settings.hpa_target);
    }
}

static void memory_of_an_hpa_is_cut_to_what_it_needs(void **state)
{
    (void)state;
    static struct world w;
    const struct aw_tune_config config = {AW_TUNE_SLO, 0.01, 100};
    struct aw_fallback_settings settings = settings_of(AW_FALLBACK_HPA);
    struct aw_fallback_task task = start;
    struct aw_tune_result result;
    w = (struct world){.knee = 60, .memory_needed = 300 << 20};
    assert_ok(aw_tune(&config, evaluate, &w, &settings, &task, &result, NULL, NULL));
    assert_true(task.memory_bytes >= 345ll << 20 && task.memory_bytes <= 361ll << 20);
    assert_true(result.violation_share <= 0.01);
}

static void the_best_constant_is_found(void **state)
{
    (void)state;
    static struct world w;
    const struct aw_tune_config config = {AW_TUNE_REWARD, 0.01, 200};
    struct aw_fallback_settings settings = settings_of(AW_FALLBACK_CONSTANT);
    struct aw_fallback_task task = start;
    struct aw_tune_result result;
    w = (struct world){.action = {0.45, -0.9, -0.33}};
    assert_ok(aw_tune(&config, evaluate, &w, &settings, &task, &result, NULL, NULL));
    assert_close(settings.constant_cpu, 0.45, 0.03);
    assert_close(settings.constant_memory, -0.9, 0.03);
    assert_close(settings.constant_replicas, -0.33, 0.03);
}

static void replicas_and_steps_of_an_aimd_are_found(void **state)
{
    (void)state;
    static struct world w;
    const struct aw_tune_config config = {AW_TUNE_SLO, 0.01, 150};
    struct aw_fallback_settings settings = settings_of(AW_FALLBACK_AIMD);
    struct aw_fallback_task task = start;
    struct aw_tune_result result;
    w = (struct world){0};
    assert_ok(aw_tune(&config, evaluate, &w, &settings, &task, &result, NULL, NULL));
    assert_true(task.bounds.cpu_millicores_max > 750 && task.bounds.cpu_millicores_max < 850);
    assert_close(settings.aimd_cpu_step, 0.2, 0.02);
    assert_close(settings.aimd_slack, 0.6, 0.03);
    assert_int_equal(task.bounds.replicas_max, start.bounds.replicas_max);
    assert_true(result.violation_share <= 0.01);
}

static void a_failed_evaluation_ends_it_and_changes_nothing(void **state)
{
    (void)state;
    static struct world w;
    for (uint32_t at = 1; at < 30; at++) {
        const struct aw_tune_config config = {AW_TUNE_SLO, 0.01, 100};
        struct aw_fallback_settings settings = settings_of(AW_FALLBACK_HPA), before = settings;
        struct aw_fallback_task task = start;
        struct aw_tune_result result = {.cost = -1};
        struct aw_diag diag;
        w = (struct world){.knee = 60, .fail_at = at};
        assert_int_equal(aw_tune(&config, evaluate, &w, &settings, &task, &result, NULL, &diag),
                         AW_ERR_DIVERGED);
        assert_string_equal(diag.text, "as asked");
        assert_memory_equal(&settings, &before, sizeof settings);
        assert_int_equal(task.cpu_millicores, start.cpu_millicores);
        assert_true(result.cost == -1);
    }
}

AW_TEST_GROUP("tune")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_returned_is_the_best_of_all_that_was_asked),
        cmocka_unit_test(the_highest_target_that_keeps_the_budget_is_found),
        cmocka_unit_test(memory_of_an_hpa_is_cut_to_what_it_needs),
        cmocka_unit_test(the_best_constant_is_found),
        cmocka_unit_test(replicas_and_steps_of_an_aimd_are_found),
        cmocka_unit_test(a_failed_evaluation_ends_it_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
