/* fallback_test.c - what each kind of controller does. */
#include "fallback/fallback_testing.h"

static const struct {
    const char *why;
    enum aw_fallback_kind kind;
    struct view view;
    int replicas, cpu, memory;
    enum aw_fallback_cause cause;
} rule_cases[] = {
    {"static looks away",
     AW_FALLBACK_STATIC,
     {4, 1000, 512, 1.0, 500, 900e3, 0, 1, 0},
     0,
     0,
     0,
     AW_FALLBACK_CAUSE_NONE},
    {"utilisation above the target",
     AW_FALLBACK_HPA,
     {4, 1000, 512, 1.0, 300, 50e3, 0, 0, 0},
     1,
     0,
     0,
     AW_FALLBACK_CAUSE_UP},
    {"utilisation within the tolerance",
     AW_FALLBACK_HPA,
     {4, 1000, 512, 0.85, 300, 50e3, 0, 0, 0},
     0,
     0,
     0,
     AW_FALLBACK_CAUSE_NONE},
    {"utilisation below the target, for the first time",
     AW_FALLBACK_HPA,
     {4, 1000, 512, 0.2, 300, 50e3, 0, 0, 0},
     0,
     0,
     0,
     AW_FALLBACK_CAUSE_STABILIZED},
    {"nothing is known",
     AW_FALLBACK_HPA,
     {4, 1000, 512, 0.2, 300, 50e3, -1, 0, 0},
     0,
     0,
     0,
     AW_FALLBACK_CAUSE_NO_DATA},
    {"what is known is old",
     AW_FALLBACK_HPA,
     {4, 1000, 512, 0.2, 300, 50e3, 46 * SECOND_US, 0, 0},
     0,
     0,
     0,
     AW_FALLBACK_CAUSE_NO_DATA},
    {"use above all bounds of the VPA",
     AW_FALLBACK_VPA,
     {4, 100, 100, 0.9, 300, 50e3, 0, 0, 0},
     0,
     1,
     1,
     AW_FALLBACK_CAUSE_RESIZE},
    {"memory alone belongs to the VPA",
     AW_FALLBACK_HPA_VPA_MEM,
     {4, 1000, 100, 0.8, 300, 50e3, 0, 0, 0},
     0,
     0,
     1,
     AW_FALLBACK_CAUSE_RESIZE},
    {"both at once",
     AW_FALLBACK_HPA_VPA,
     {4, 100, 100, 0.3, 300, 50e3, 0, 0, 0},
     1,
     1,
     1,
     AW_FALLBACK_CAUSE_UP_RESIZE},
    {"the SLO is missed: more cores, in as many replicas",
     AW_FALLBACK_AIMD,
     {4, 1000, 512, 0.5, 400, 101e3, 0, 0, 0},
     0,
     1,
     0,
     AW_FALLBACK_CAUSE_SLO_MISSED},
    {"the SLO is missed at the largest size",
     AW_FALLBACK_AIMD,
     {4, 4000, 512, 0.5, 400, 101e3, 0, 0, 0},
     1,
     -1,
     0,
     AW_FALLBACK_CAUSE_SLO_MISSED},
    {"the SLO is neither missed nor easy",
     AW_FALLBACK_AIMD,
     {4, 1000, 512, 0.5, 400, 90e3, 0, 0, 0},
     0,
     0,
     0,
     AW_FALLBACK_CAUSE_NONE},
    {"the SLO is easy: fewer cores, in fewer replicas",
     AW_FALLBACK_AIMD,
     {4, 1000, 512, 0.5, 400, 30e3, 0, 0, 0},
     -1,
     1,
     0,
     AW_FALLBACK_CAUSE_SLO_EASY},
    {"the SLO is easy for the last replica",
     AW_FALLBACK_AIMD,
     {1, 1000, 512, 0.5, 400, 30e3, 0, 0, 0},
     0,
     -1,
     0,
     AW_FALLBACK_CAUSE_SLO_EASY},
    {"memory is short",
     AW_FALLBACK_AIMD,
     {1, 1000, 512, 0.5, 500, 90e3, 0, 0, 0},
     0,
     0,
     1,
     AW_FALLBACK_CAUSE_MEMORY_LOW},
    {"memory is plenty",
     AW_FALLBACK_AIMD,
     {1, 1000, 512, 0.5, 100, 90e3, 0, 0, 0},
     0,
     0,
     -1,
     AW_FALLBACK_CAUSE_NONE},
    {"no latency, no reason",
     AW_FALLBACK_AIMD,
     {4, 1000, 512, 0.0, 400, (double)NAN, 0, 0, 0},
     0,
     0,
     0,
     AW_FALLBACK_CAUSE_NO_DATA},
    {"a constant follows the peaks, and keeps a size that is near",
     AW_FALLBACK_CONSTANT,
     {2, 1000, 128, 1.0, 300, 50e3, 0, 0, 0},
     1,
     0,
     1,
     AW_FALLBACK_CAUSE_ANCHORED},
};

static void each_kind_does_what_its_rules_say(void **state)
{
    (void)state;
    /* what is asked of it: 0 stays, 1 grows, -1 shrinks, for replicas, CPU and memory */
    static struct shown shown;
    for (size_t i = 0; i < sizeof rule_cases / sizeof *rule_cases; i++) {
        struct aw_fallback *policy = make(rule_cases[i].kind);
        const struct view *v = &rule_cases[i].view;
        const struct aw_sample *sample = show(&shown, v, NOW_US);
        struct aw_plan plan;
        struct aw_fallback_reason reason;
        char text[AW_FALLBACK_REASON_TEXT_MAX];
        aw_fallback_decide(policy, sample, NOW_US, &plan, &reason);
        const int64_t before[] = {v->replicas, v->millicores, sample->memory_bytes_wanted};
        const int64_t after[] = {plan.replicas, plan.cpu_millicores, plan.memory_bytes};
        const int expected[] = {rule_cases[i].replicas, rule_cases[i].cpu, rule_cases[i].memory};
        const uint32_t bits[] = {AW_PLAN_REPLICAS, AW_PLAN_CPU, AW_PLAN_MEMORY};
        for (int k = 0; k < 3; k++) {
            int moved = plan.set & bits[k] ? (after[k] > before[k]) - (after[k] < before[k]) : 0;
            if (moved != expected[k])
                fail_msg("%s: %s moved by %d from %lld to %lld (%s)", rule_cases[i].why,
                         k == 0   ? "replicas"
                         : k == 1 ? "cpu"
                                  : "memory",
                         moved, (long long)before[k], (long long)after[k],
                         aw_fallback_reason_format(&reason, text, sizeof text));
        }
        if (reason.cause != rule_cases[i].cause)
            fail_msg("%s: found \"%s\"", rule_cases[i].why, aw_fallback_cause_text(reason.cause));
        assert_true(strlen(aw_fallback_reason_format(&reason, text, sizeof text)) > 0);
        aw_fallback_free(policy);
    }
}

static void no_sample_leads_out_of_the_bounds_or_shrinks_on_missing_figures(void **state)
{
    (void)state;
    static struct shown shown;
    for (int kind = 0; kind < AW_FALLBACK_COUNT; kind++) {
        struct aw_fallback *policy = make((enum aw_fallback_kind)kind);
        struct aw_rng rng;
        uint32_t shrunk = 0, held = 0;
        aw_rng_init(&rng, 7, (uint64_t)kind);
        for (int i = 0; i < 4000; i++) {
            const int64_t now_us = NOW_US + i * STEP_US;
            struct view v = draw(&rng);
            struct aw_plan plan;
            struct aw_fallback_reason reason;
            const struct aw_sample *s = show(&shown, &v, now_us);
            aw_fallback_decide(policy, s, now_us, &plan, &reason);
            struct aw_plan clipped = plan;
            aw_bounds_clip(&task.bounds, &clipped);
            assert_int_equal(clipped.replicas, plan.replicas);
            assert_int_equal(clipped.cpu_millicores, plan.cpu_millicores);
            assert_int_equal(clipped.memory_bytes, plan.memory_bytes);
            /* a plan names what changes, and nothing else */
            assert_false(plan.set & AW_PLAN_REPLICAS && plan.replicas == v.replicas);
            assert_false(plan.set & AW_PLAN_CPU && plan.cpu_millicores == v.millicores);
            assert_false(plan.set & AW_PLAN_MEMORY && plan.memory_bytes == s->memory_bytes_wanted);
            const bool less =
                (plan.set & AW_PLAN_REPLICAS && plan.replicas < v.replicas) ||
                (plan.set & AW_PLAN_CPU && plan.cpu_millicores < v.millicores) ||
                (plan.set & AW_PLAN_MEMORY && plan.memory_bytes < s->memory_bytes_wanted);
            const bool known = v.age_us >= 0 && v.age_us <= 45 * SECOND_US;
            if (less && !known)
                fail_msg("%s shrinks on figures of %lld us", aw_fallback_names[kind],
                         (long long)v.age_us);
            shrunk += less;
            held += reason.held != 0;
        }
        if (kind != AW_FALLBACK_STATIC)
            assert_true(shrunk > 0); /* else the test above would say nothing */
        if (kind == AW_FALLBACK_VPA || kind == AW_FALLBACK_HPA_VPA)
            assert_true(held > 0);
        aw_fallback_free(policy);
    }
}

static void hpa_settles_at_its_target(void **state)
{
    (void)state;
    struct aw_fallback *policy = make(AW_FALLBACK_HPA);
    struct view v = {.replicas = 4, .millicores = 1000, .mib = 512, .p99_us = 50e3};
    live(policy, &v, 8, 300, 60, NOW_US);
    assert_int_equal(v.replicas, 9); /* 88 %, in whole percent: just within the tolerance */
    live(policy, &v, 4, 300, 19, NOW_US + 60 * STEP_US);
    assert_int_equal(v.replicas, 9); /* the window of 5 minutes holds */
    live(policy, &v, 4, 300, 3, NOW_US + 79 * STEP_US);
    assert_int_equal(v.replicas, 5);
    aw_fallback_free(policy);
}

static void vpa_follows_use_down_within_a_few_half_lives(void **state)
{
    (void)state;
    struct aw_fallback *policy = make(AW_FALLBACK_VPA);
    struct view v = {.replicas = 4, .millicores = 4000, .mib = 4096, .p99_us = 50e3};
    live(policy, &v, 2, 300, 4 * 240, NOW_US); /* 4 hours at half-lives of 30 minutes */
    assert_int_equal(v.replicas, 4);
    /* half a core is used: the target is its bucket's end with a margin of 15 % */
    assert_true(v.millicores > 500 && v.millicores < 700);
    assert_true(v.mib > 300 && v.mib < 420);
    aw_fallback_free(policy);
}

static void vpa_gives_more_memory_after_a_kill(void **state)
{
    (void)state;
    struct aw_fallback *policy = make(AW_FALLBACK_HPA_VPA_MEM);
    struct view v = {.replicas = 4, .millicores = 1000, .mib = 350, .p99_us = 50e3};
    live(policy, &v, 3, 290, 40, NOW_US);
    const double before = v.mib;
    v.oom_kills = 1;
    live(policy, &v, 3, 290, 8, NOW_US + 40 * STEP_US);
    assert_true(v.mib > before * 1.15);
    assert_int_equal(v.millicores, 1000);
    aw_fallback_free(policy);
}

/* VPA keeps making the request 1.15 times the use; an HPA that wants less cannot be satisfied. */
static void hpa_with_vpa_on_cpu_spirals_into_tiny_pods(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        enum aw_fallback_kind kind;
        uint32_t target;
        bool spirals;
    } cases[] = {
        {"both on CPU, a usual target", AW_FALLBACK_HPA_VPA, 60, true},
        {"both on CPU, a target within reach of 87 %", AW_FALLBACK_HPA_VPA, 82, false},
        {"VPA on memory alone", AW_FALLBACK_HPA_VPA_MEM, 60, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_fallback *policy = make_at(cases[i].kind, cases[i].target);
        struct view v = {.replicas = 4, .millicores = 1000, .mib = 512, .p99_us = 50e3};
        live(policy, &v, 4, 300, 1920, NOW_US); /* 8 hours of the same load */
        const bool spirals = v.replicas == task.bounds.replicas_max && v.millicores < 300;
        if (spirals != cases[i].spirals)
            fail_msg("%s: %u replicas of %lldm", cases[i].why, v.replicas, (long long)v.millicores);
        aw_fallback_free(policy);
    }
}

static void a_saved_state_continues_to_the_byte(void **state)
{
    (void)state;
    static struct shown shown;
    for (int kind = 0; kind < AW_FALLBACK_COUNT; kind++) {
        struct aw_fallback *a = make((enum aw_fallback_kind)kind);
        struct aw_fallback *b = make((enum aw_fallback_kind)kind);
        const size_t size = aw_fallback_state_bytes(a);
        unsigned char *bytes = malloc(size);
        assert_non_null(bytes);
        struct aw_rng rng;
        aw_rng_init(&rng, 3, (uint64_t)kind);
        for (int i = 0; i < 400; i++) {
            const int64_t now_us = NOW_US + i * STEP_US;
            struct view v = draw(&rng);
            struct aw_plan plan_a, plan_b;
            if (i == 200) {
                aw_fallback_state_save(a, bytes);
                bytes[size / 2] ^= 1;
                assert_int_equal(aw_fallback_state_load(b, bytes), AW_ERR_FORMAT);
                bytes[size / 2] ^= 1;
                assert_ok(aw_fallback_state_load(b, bytes));
            }
            aw_fallback_decide(a, show(&shown, &v, now_us), now_us, &plan_a, NULL);
            if (i < 200)
                continue;
            aw_fallback_decide(b, show(&shown, &v, now_us), now_us, &plan_b, NULL);
            assert_memory_equal(&plan_a, &plan_b, sizeof plan_a);
        }
        struct aw_fallback *other = make((enum aw_fallback_kind)((kind + 1) % AW_FALLBACK_COUNT));
        assert_int_equal(aw_fallback_state_load(other, bytes), AW_ERR_FORMAT);
        aw_fallback_free(other);
        aw_fallback_free(a);
        aw_fallback_free(b);
        free(bytes);
    }
}

static void a_reset_policy_is_as_new(void **state)
{
    (void)state;
    static struct shown shown;
    for (int kind = 0; kind < AW_FALLBACK_COUNT; kind++) {
        struct aw_fallback *used = make((enum aw_fallback_kind)kind);
        struct aw_fallback *fresh = make((enum aw_fallback_kind)kind);
        struct view v = {.replicas = 2, .millicores = 500, .mib = 512, .p99_us = 200e3};
        live(used, &v, 8, 300, 100, NOW_US);
        aw_fallback_reset(used);
        struct aw_rng rng;
        aw_rng_init(&rng, 5, (uint64_t)kind);
        for (int i = 0; i < 100; i++) {
            struct view seen = draw(&rng);
            struct aw_plan a, b;
            const int64_t now_us = i * STEP_US; /* time begins anew too */
            aw_fallback_decide(used, show(&shown, &seen, now_us), now_us, &a, NULL);
            aw_fallback_decide(fresh, show(&shown, &seen, now_us), now_us, &b, NULL);
            assert_memory_equal(&a, &b, sizeof a);
        }
        aw_fallback_free(used);
        aw_fallback_free(fresh);
    }
}

static void what_cannot_work_is_refused(void **state)
{
    (void)state;
    struct aw_fallback_settings settings;
    struct aw_fallback_task t;
    struct aw_diag diag;
    struct aw_fallback *policy = NULL;
    aw_conf_defaults(aw_fallback_fields, &settings);
#define REFUSED(change)                                                                        \
    do {                                                                                       \
        t = task;                                                                              \
        aw_conf_defaults(aw_fallback_fields, &settings);                                       \
        change;                                                                                \
        assert_int_equal(aw_fallback_new(&settings, &t, NULL, &policy, &diag), AW_ERR_CONFIG); \
        assert_true(strlen(diag.text) > 0);                                                    \
        assert_null(policy);                                                                   \
    } while (0)
    REFUSED(t.bounds.replicas_min = 21);
    REFUSED(t.bounds.replicas_min = 0);
    REFUSED(t.bounds.replicas_max = AW_CLUSTER_PODS_MAX + 1);
    REFUSED(t.bounds.cpu_millicores_min = 4001);
    REFUSED(t.bounds.memory_bytes_max = 1);
    REFUSED(t.replicas = 21);
    REFUSED(t.cpu_millicores = 50);
    REFUSED(t.memory_bytes = 1);
    REFUSED(settings.aimd_memory_low = 0.9);
    REFUSED((settings.kind = AW_FALLBACK_AIMD, t.slo_latency_us = 0));
#undef REFUSED
}

static void memory_is_asked_for_once(void **state)
{
    (void)state;
    static struct shown shown;
    struct aw_fallback_settings settings;
    struct aw_alloc_counting counting;
    struct aw_fallback *policy = NULL;
    aw_conf_defaults(aw_fallback_fields, &settings);
    aw_alloc_counting_init(&counting);
    for (uint64_t blocks = 0; blocks < 2; blocks++) {
        counting.fail_after = counting.alloc_count + blocks;
        assert_int_equal(aw_fallback_new(&settings, &task, &counting.alloc, &policy, NULL),
                         AW_ERR_NOMEM);
        assert_null(policy);
        assert_int_equal(counting.free_count, counting.alloc_count);
    }
    for (settings.kind = 0; settings.kind < AW_FALLBACK_COUNT; settings.kind++) {
        const uint64_t blocks = aw__fallback_has_vpa(settings.kind) ? 2 : 1;
        counting.alloc_count = counting.free_count = 0;
        counting.fail_after = blocks;
        assert_ok(aw_fallback_new(&settings, &task, &counting.alloc, &policy, NULL));
        struct view v = {.replicas = 4, .millicores = 1000, .mib = 512, .p99_us = 200e3};
        for (int i = 0; i < 50; i++) {
            struct aw_plan plan;
            aw_fallback_decide(policy, show(&shown, &v, i * STEP_US), i * STEP_US, &plan, NULL);
        }
        assert_int_equal(counting.alloc_count, blocks);
        aw_fallback_free(policy);
        assert_int_equal(counting.free_count, blocks);
    }
    aw_fallback_free(NULL);
}

AW_TEST_GROUP("fallback")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_does_what_its_rules_say),
        cmocka_unit_test(no_sample_leads_out_of_the_bounds_or_shrinks_on_missing_figures),
        cmocka_unit_test(hpa_settles_at_its_target),
        cmocka_unit_test(vpa_follows_use_down_within_a_few_half_lives),
        cmocka_unit_test(vpa_gives_more_memory_after_a_kill),
        cmocka_unit_test(hpa_with_vpa_on_cpu_spirals_into_tiny_pods),
        cmocka_unit_test(a_saved_state_continues_to_the_byte),
        cmocka_unit_test(a_reset_policy_is_as_new),
        cmocka_unit_test(what_cannot_work_is_refused),
        cmocka_unit_test(memory_is_asked_for_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
