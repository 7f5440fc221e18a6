#include "fallback/policy.h"

#include "base/rng.h"
#include "base/testing.h"
#include "fallback/policy_kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US 1000000ll
#define STEP_US   (15 * SECOND_US)
#define MIB       1048576.0
#define NOW_US    (3600 * SECOND_US)

/* A workload of equal replicas, as a cluster would show it. */
struct shown {
    struct aw_sample sample;
    struct aw_pod pods[AW_CLUSTER_PODS_MAX];
};

struct view {
    uint32_t replicas;
    int64_t millicores;
    double mib;
    double cores_used;      /* of one replica */
    double mib_used;        /* likewise */
    double p99_us;          /* NAN: no figure */
    int64_t age_us;         /* of every figure; negative: all are missing */
    uint32_t oom_kills;     /* since the last look, of the first replica */
    uint32_t oom_kills_old; /* and in its life before */
};

static struct aw_figure figure(const struct view *view, double value, int64_t now_us)
{
    if (view->age_us < 0 || isnan(value))
        return (struct aw_figure){.at_us = AW_NEVER};
    return (struct aw_figure){.value = value, .at_us = now_us - view->age_us};
}

static const struct aw_sample *show(struct shown *shown, const struct view *v, int64_t now_us)
{
    for (uint32_t i = 0; i < v->replicas; i++)
        shown->pods[i] = (struct aw_pod){
            .id = i + 1,
            .phase = AW_POD_RUNNING,
            .ready = true,
            .started_us = now_us - 7200 * SECOND_US,
            .ready_change_us = now_us - 7100 * SECOND_US,
            .cpu_millicores = v->millicores,
            .memory_bytes = (int64_t)(v->mib * MIB),
            .cpu_cores_used = figure(v, v->cores_used, now_us),
            .memory_bytes_used = figure(v, v->mib_used * MIB, now_us),
            .oom_kill_count = i == 0 ? v->oom_kills_old + v->oom_kills : 0,
        };
    shown->sample = (struct aw_sample){
        .at_us = now_us,
        .replicas_wanted = v->replicas,
        .cpu_millicores_wanted = v->millicores,
        .memory_bytes_wanted = (int64_t)(v->mib * MIB),
        .replicas_ready = v->replicas,
        .cpu_cores_used = figure(v, v->cores_used * v->replicas, now_us),
        .memory_bytes_used = figure(v, v->mib_used * MIB, now_us),
        .memory_bytes_peak = figure(v, v->mib_used * MIB, now_us),
        .latency_us_p99 = figure(v, v->p99_us, now_us),
        .arrivals_per_s = figure(v, 10, now_us),
        .oom_kills = v->oom_kills,
        .pod_count = v->replicas,
        .pods = shown->pods,
    };
    return &shown->sample;
}

static const struct aw_policy_task task = {
    .bounds = {.replicas_min = 1,
               .replicas_max = 20,
               .cpu_millicores_min = 100,
               .cpu_millicores_max = 4000,
               .memory_bytes_min = 64 << 20,
               .memory_bytes_max = 8ll << 30},
    .slo_latency_us = 100e3,
    .replicas = 4,
    .cpu_millicores = 1000,
    .memory_bytes = 512 << 20,
};

static struct aw_policy *make_at(enum aw_policy_kind kind, uint32_t hpa_target)
{
    struct aw_policy_settings settings;
    struct aw_policy *policy = NULL;
    aw_conf_defaults(aw_policy_fields, &settings);
    settings.kind = kind;
    settings.hpa_target = hpa_target;
    assert_ok(aw_policy_new(&settings, &task, NULL, &policy, NULL));
    return policy;
}

static struct aw_policy *make(enum aw_policy_kind kind)
{
    return make_at(kind, 80);
}

static void each_kind_does_what_its_rules_say(void **state)
{
    (void)state;
    /* what is asked of it: 0 stays, 1 grows, -1 shrinks, for replicas, CPU and memory */
    static const struct {
        const char *why;
        enum aw_policy_kind kind;
        struct view view;
        int replicas, cpu, memory;
        enum aw_policy_cause cause;
    } cases[] = {
        {"static looks away",
         AW_POLICY_STATIC,
         {4, 1000, 512, 1.0, 500, 900e3, 0, 1, 0},
         0,
         0,
         0,
         AW_POLICY_CAUSE_NONE},
        {"utilisation above the target",
         AW_POLICY_HPA,
         {4, 1000, 512, 1.0, 300, 50e3, 0, 0, 0},
         1,
         0,
         0,
         AW_POLICY_CAUSE_UP},
        {"utilisation within the tolerance",
         AW_POLICY_HPA,
         {4, 1000, 512, 0.85, 300, 50e3, 0, 0, 0},
         0,
         0,
         0,
         AW_POLICY_CAUSE_NONE},
        {"utilisation below the target, for the first time",
         AW_POLICY_HPA,
         {4, 1000, 512, 0.2, 300, 50e3, 0, 0, 0},
         0,
         0,
         0,
         AW_POLICY_CAUSE_STABILIZED},
        {"nothing is known",
         AW_POLICY_HPA,
         {4, 1000, 512, 0.2, 300, 50e3, -1, 0, 0},
         0,
         0,
         0,
         AW_POLICY_CAUSE_NO_DATA},
        {"what is known is old",
         AW_POLICY_HPA,
         {4, 1000, 512, 0.2, 300, 50e3, 46 * SECOND_US, 0, 0},
         0,
         0,
         0,
         AW_POLICY_CAUSE_NO_DATA},
        {"use above all bounds of the VPA",
         AW_POLICY_VPA,
         {4, 100, 100, 0.9, 300, 50e3, 0, 0, 0},
         0,
         1,
         1,
         AW_POLICY_CAUSE_RESIZE},
        {"memory alone belongs to the VPA",
         AW_POLICY_HPA_VPA_MEM,
         {4, 1000, 100, 0.8, 300, 50e3, 0, 0, 0},
         0,
         0,
         1,
         AW_POLICY_CAUSE_RESIZE},
        {"both at once",
         AW_POLICY_HPA_VPA,
         {4, 100, 100, 0.3, 300, 50e3, 0, 0, 0},
         1,
         1,
         1,
         AW_POLICY_CAUSE_UP_RESIZE},
        {"the SLO is missed: more cores, in as many replicas",
         AW_POLICY_AIMD,
         {4, 1000, 512, 0.5, 400, 101e3, 0, 0, 0},
         0,
         1,
         0,
         AW_POLICY_CAUSE_SLO_MISSED},
        {"the SLO is missed at the largest size",
         AW_POLICY_AIMD,
         {4, 4000, 512, 0.5, 400, 101e3, 0, 0, 0},
         1,
         -1,
         0,
         AW_POLICY_CAUSE_SLO_MISSED},
        {"the SLO is neither missed nor easy",
         AW_POLICY_AIMD,
         {4, 1000, 512, 0.5, 400, 90e3, 0, 0, 0},
         0,
         0,
         0,
         AW_POLICY_CAUSE_NONE},
        {"the SLO is easy: fewer cores, in fewer replicas",
         AW_POLICY_AIMD,
         {4, 1000, 512, 0.5, 400, 30e3, 0, 0, 0},
         -1,
         1,
         0,
         AW_POLICY_CAUSE_SLO_EASY},
        {"the SLO is easy for the last replica",
         AW_POLICY_AIMD,
         {1, 1000, 512, 0.5, 400, 30e3, 0, 0, 0},
         0,
         -1,
         0,
         AW_POLICY_CAUSE_SLO_EASY},
        {"memory is short",
         AW_POLICY_AIMD,
         {1, 1000, 512, 0.5, 500, 90e3, 0, 0, 0},
         0,
         0,
         1,
         AW_POLICY_CAUSE_MEMORY_LOW},
        {"memory is plenty",
         AW_POLICY_AIMD,
         {1, 1000, 512, 0.5, 100, 90e3, 0, 0, 0},
         0,
         0,
         -1,
         AW_POLICY_CAUSE_NONE},
        {"no latency, no reason",
         AW_POLICY_AIMD,
         {4, 1000, 512, 0.0, 400, (double)NAN, 0, 0, 0},
         0,
         0,
         0,
         AW_POLICY_CAUSE_NO_DATA},
        {"a constant follows the peaks, and keeps a size that is near",
         AW_POLICY_CONSTANT,
         {2, 1000, 128, 1.0, 300, 50e3, 0, 0, 0},
         1,
         0,
         1,
         AW_POLICY_CAUSE_ANCHORED},
    };
    static struct shown shown;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_policy *policy = make(cases[i].kind);
        const struct view *v = &cases[i].view;
        const struct aw_sample *sample = show(&shown, v, NOW_US);
        struct aw_plan plan;
        struct aw_policy_reason reason;
        char text[AW_POLICY_REASON_TEXT_MAX];
        aw_policy_decide(policy, sample, NOW_US, &plan, &reason);
        const int64_t before[] = {v->replicas, v->millicores, sample->memory_bytes_wanted};
        const int64_t after[] = {plan.replicas, plan.cpu_millicores, plan.memory_bytes};
        const int expected[] = {cases[i].replicas, cases[i].cpu, cases[i].memory};
        const uint32_t bits[] = {AW_PLAN_REPLICAS, AW_PLAN_CPU, AW_PLAN_MEMORY};
        for (int k = 0; k < 3; k++) {
            int moved = plan.set & bits[k] ? (after[k] > before[k]) - (after[k] < before[k]) : 0;
            if (moved != expected[k])
                fail_msg("%s: %s moved by %d from %lld to %lld (%s)", cases[i].why,
                         k == 0   ? "replicas"
                         : k == 1 ? "cpu"
                                  : "memory",
                         moved, (long long)before[k], (long long)after[k],
                         aw_policy_reason_format(&reason, text, sizeof text));
        }
        if (reason.cause != cases[i].cause)
            fail_msg("%s: found \"%s\"", cases[i].why, aw_policy_cause_text(reason.cause));
        assert_true(strlen(aw_policy_reason_format(&reason, text, sizeof text)) > 0);
        aw_policy_free(policy);
    }
}

static struct view draw(struct aw_rng *rng)
{
    return (struct view){
        .replicas = 1 + aw_rng_below(rng, 20),
        .millicores = 100 + aw_rng_below(rng, 3900),
        .mib = 64 + aw_rng_below(rng, 4000),
        .cores_used = aw_rng_double(rng) < 0.2 ? 0 : aw_rng_uniform(rng, 0, 4),
        .mib_used = aw_rng_uniform(rng, 0, 4000),
        .p99_us = aw_rng_double(rng) < 0.1 ? (double)NAN : aw_rng_uniform(rng, 1e3, 300e3),
        .age_us = aw_rng_double(rng) < 0.3 ? -1 : (int64_t)aw_rng_below(rng, 90) * SECOND_US,
        .oom_kills = aw_rng_below(rng, 10) == 0,
    };
}

static void no_sample_leads_out_of_the_bounds_or_shrinks_on_missing_figures(void **state)
{
    (void)state;
    static struct shown shown;
    for (int kind = 0; kind < AW_POLICY_COUNT; kind++) {
        struct aw_policy *policy = make((enum aw_policy_kind)kind);
        struct aw_rng rng;
        uint32_t shrunk = 0, held = 0;
        aw_rng_init(&rng, 7, (uint64_t)kind);
        for (int i = 0; i < 4000; i++) {
            const int64_t now_us = NOW_US + i * STEP_US;
            struct view v = draw(&rng);
            struct aw_plan plan;
            struct aw_policy_reason reason;
            const struct aw_sample *s = show(&shown, &v, now_us);
            aw_policy_decide(policy, s, now_us, &plan, &reason);
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
                fail_msg("%s shrinks on figures of %lld us", aw_policy_names[kind],
                         (long long)v.age_us);
            shrunk += less;
            held += reason.held != 0;
        }
        if (kind != AW_POLICY_STATIC)
            assert_true(shrunk > 0); /* else the test above would say nothing */
        if (kind == AW_POLICY_VPA || kind == AW_POLICY_HPA_VPA)
            assert_true(held > 0);
        aw_policy_free(policy);
    }
}

/* Follows its own plans on a load that is given; fills the last view. */
static void live(struct aw_policy *policy, struct view *v, double cores, double mib, int steps,
                 int64_t from_us)
{
    static struct shown shown;
    for (int i = 0; i < steps; i++) {
        const int64_t now_us = from_us + i * STEP_US;
        struct aw_plan plan;
        v->cores_used = fmin(cores / v->replicas, 1e-3 * (double)v->millicores);
        v->mib_used = mib;
        aw_policy_decide(policy, show(&shown, v, now_us), now_us, &plan, NULL);
        v->oom_kills_old += v->oom_kills;
        v->oom_kills = 0;
        v->replicas = plan.replicas;
        v->millicores = plan.cpu_millicores;
        v->mib = (double)plan.memory_bytes / MIB;
    }
}

static void hpa_settles_at_its_target(void **state)
{
    (void)state;
    struct aw_policy *policy = make(AW_POLICY_HPA);
    struct view v = {.replicas = 4, .millicores = 1000, .mib = 512, .p99_us = 50e3};
    live(policy, &v, 8, 300, 60, NOW_US);
    assert_int_equal(v.replicas, 9); /* 88 %, in whole percent: just within the tolerance */
    live(policy, &v, 4, 300, 19, NOW_US + 60 * STEP_US);
    assert_int_equal(v.replicas, 9); /* the window of 5 minutes holds */
    live(policy, &v, 4, 300, 3, NOW_US + 79 * STEP_US);
    assert_int_equal(v.replicas, 5);
    aw_policy_free(policy);
}

static void vpa_follows_use_down_within_a_few_half_lives(void **state)
{
    (void)state;
    struct aw_policy *policy = make(AW_POLICY_VPA);
    struct view v = {.replicas = 4, .millicores = 4000, .mib = 4096, .p99_us = 50e3};
    live(policy, &v, 2, 300, 4 * 240, NOW_US); /* 4 hours at half-lives of 30 minutes */
    assert_int_equal(v.replicas, 4);
    /* half a core is used: the target is its bucket's end with a margin of 15 % */
    assert_true(v.millicores > 500 && v.millicores < 700);
    assert_true(v.mib > 300 && v.mib < 420);
    aw_policy_free(policy);
}

static void vpa_gives_more_memory_after_a_kill(void **state)
{
    (void)state;
    struct aw_policy *policy = make(AW_POLICY_HPA_VPA_MEM);
    struct view v = {.replicas = 4, .millicores = 1000, .mib = 350, .p99_us = 50e3};
    live(policy, &v, 3, 290, 40, NOW_US);
    const double before = v.mib;
    v.oom_kills = 1;
    live(policy, &v, 3, 290, 8, NOW_US + 40 * STEP_US);
    assert_true(v.mib > before * 1.15);
    assert_int_equal(v.millicores, 1000);
    aw_policy_free(policy);
}

/* VPA keeps making the request 1.15 times the use; an HPA that wants less cannot be satisfied. */
static void hpa_with_vpa_on_cpu_spirals_into_tiny_pods(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        enum aw_policy_kind kind;
        uint32_t target;
        bool spirals;
    } cases[] = {
        {"both on CPU, a usual target", AW_POLICY_HPA_VPA, 60, true},
        {"both on CPU, a target within reach of 87 %", AW_POLICY_HPA_VPA, 82, false},
        {"VPA on memory alone", AW_POLICY_HPA_VPA_MEM, 60, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_policy *policy = make_at(cases[i].kind, cases[i].target);
        struct view v = {.replicas = 4, .millicores = 1000, .mib = 512, .p99_us = 50e3};
        live(policy, &v, 4, 300, 1920, NOW_US); /* 8 hours of the same load */
        const bool spirals = v.replicas == task.bounds.replicas_max && v.millicores < 300;
        if (spirals != cases[i].spirals)
            fail_msg("%s: %u replicas of %lldm", cases[i].why, v.replicas, (long long)v.millicores);
        aw_policy_free(policy);
    }
}

static void a_saved_state_continues_to_the_byte(void **state)
{
    (void)state;
    static struct shown shown;
    for (int kind = 0; kind < AW_POLICY_COUNT; kind++) {
        struct aw_policy *a = make((enum aw_policy_kind)kind);
        struct aw_policy *b = make((enum aw_policy_kind)kind);
        const size_t size = aw_policy_state_bytes(a);
        unsigned char *bytes = malloc(size);
        assert_non_null(bytes);
        struct aw_rng rng;
        aw_rng_init(&rng, 3, (uint64_t)kind);
        for (int i = 0; i < 400; i++) {
            const int64_t now_us = NOW_US + i * STEP_US;
            struct view v = draw(&rng);
            struct aw_plan plan_a, plan_b;
            if (i == 200) {
                aw_policy_state_save(a, bytes);
                bytes[size / 2] ^= 1;
                assert_int_equal(aw_policy_state_load(b, bytes), AW_ERR_FORMAT);
                bytes[size / 2] ^= 1;
                assert_ok(aw_policy_state_load(b, bytes));
            }
            aw_policy_decide(a, show(&shown, &v, now_us), now_us, &plan_a, NULL);
            if (i < 200)
                continue;
            aw_policy_decide(b, show(&shown, &v, now_us), now_us, &plan_b, NULL);
            assert_memory_equal(&plan_a, &plan_b, sizeof plan_a);
        }
        struct aw_policy *other = make((enum aw_policy_kind)((kind + 1) % AW_POLICY_COUNT));
        assert_int_equal(aw_policy_state_load(other, bytes), AW_ERR_FORMAT);
        aw_policy_free(other);
        aw_policy_free(a);
        aw_policy_free(b);
        free(bytes);
    }
}

static void a_reset_policy_is_as_new(void **state)
{
    (void)state;
    static struct shown shown;
    for (int kind = 0; kind < AW_POLICY_COUNT; kind++) {
        struct aw_policy *used = make((enum aw_policy_kind)kind);
        struct aw_policy *fresh = make((enum aw_policy_kind)kind);
        struct view v = {.replicas = 2, .millicores = 500, .mib = 512, .p99_us = 200e3};
        live(used, &v, 8, 300, 100, NOW_US);
        aw_policy_reset(used);
        struct aw_rng rng;
        aw_rng_init(&rng, 5, (uint64_t)kind);
        for (int i = 0; i < 100; i++) {
            struct view seen = draw(&rng);
            struct aw_plan a, b;
            const int64_t now_us = i * STEP_US; /* time begins anew too */
            aw_policy_decide(used, show(&shown, &seen, now_us), now_us, &a, NULL);
            aw_policy_decide(fresh, show(&shown, &seen, now_us), now_us, &b, NULL);
            assert_memory_equal(&a, &b, sizeof a);
        }
        aw_policy_free(used);
        aw_policy_free(fresh);
    }
}

static void what_cannot_work_is_refused(void **state)
{
    (void)state;
    struct aw_policy_settings settings;
    struct aw_policy_task t;
    struct aw_diag diag;
    struct aw_policy *policy = NULL;
    aw_conf_defaults(aw_policy_fields, &settings);
#define REFUSED(change)                                                                      \
    do {                                                                                     \
        t = task;                                                                            \
        aw_conf_defaults(aw_policy_fields, &settings);                                       \
        change;                                                                              \
        assert_int_equal(aw_policy_new(&settings, &t, NULL, &policy, &diag), AW_ERR_CONFIG); \
        assert_true(strlen(diag.text) > 0);                                                  \
        assert_null(policy);                                                                 \
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
    REFUSED((settings.kind = AW_POLICY_AIMD, t.slo_latency_us = 0));
#undef REFUSED
}

static void memory_is_asked_for_once(void **state)
{
    (void)state;
    static struct shown shown;
    struct aw_policy_settings settings;
    struct aw_alloc_counting counting;
    struct aw_policy *policy = NULL;
    aw_conf_defaults(aw_policy_fields, &settings);
    aw_alloc_counting_init(&counting);
    counting.fail_after = 0;
    assert_int_equal(aw_policy_new(&settings, &task, &counting.alloc, &policy, NULL), AW_ERR_NOMEM);
    assert_null(policy);
    counting.fail_after = 1;
    for (settings.kind = 0; settings.kind < AW_POLICY_COUNT; settings.kind++) {
        counting.alloc_count = counting.free_count = 0;
        assert_ok(aw_policy_new(&settings, &task, &counting.alloc, &policy, NULL));
        struct view v = {.replicas = 4, .millicores = 1000, .mib = 512, .p99_us = 200e3};
        for (int i = 0; i < 50; i++) {
            struct aw_plan plan;
            aw_policy_decide(policy, show(&shown, &v, i * STEP_US), i * STEP_US, &plan, NULL);
        }
        assert_int_equal(counting.alloc_count, 1);
        aw_policy_free(policy);
        assert_int_equal(counting.free_count, 1);
    }
    aw_policy_free(NULL);
}

/* The heap, with the size of the last block written down. */
struct measuring {
    struct aw_alloc alloc;
    size_t bytes;
};

static void *measuring_alloc(void *ctx, size_t bytes)
{
    ((struct measuring *)ctx)->bytes = bytes;
    return aw_alloc_heap.alloc(aw_alloc_heap.ctx, bytes);
}

static void measuring_free(void *ctx, void *block)
{
    (void)ctx;
    aw_alloc_heap.free(aw_alloc_heap.ctx, block);
}

/* 10 000 workloads have 256 MB among them, some 25 KB each, and a policy is not all of one. */
static void a_policy_takes_what_its_kind_and_bounds_ask_for(void **state)
{
    (void)state;
    static const struct {
        enum aw_policy_kind kind;
        uint32_t replicas_max;
        size_t bytes_max;
        const char *why;
    } cases[] = {
        {AW_POLICY_STATIC, 256, 640, "nothing but settings, task and times"},
        {AW_POLICY_AIMD, 256, 640, "likewise"},
        {AW_POLICY_HPA, 256, 1280, "recommendations of a window, whatever the pods"},
        {AW_POLICY_CONSTANT, 256, 3072, "two rings of peaks"},
        {AW_POLICY_VPA, 20, 7168, "two histograms, a track for each pod"},
        {AW_POLICY_HPA_VPA, 20, 7680, "both"},
        {AW_POLICY_HPA_VPA_MEM, 10, 4608, "one histogram less"},
        {AW_POLICY_HPA_VPA_MEM, 20, 6144, "tracks of 20 pods more"},
        {AW_POLICY_HPA_VPA_MEM, 256, 20480, "tracks of all the pods that there can be"},
    };
    struct measuring measuring = {.alloc = {measuring_alloc, measuring_free, &measuring}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_policy_settings settings;
        struct aw_policy_task t = task;
        struct aw_policy *policy = NULL;
        aw_conf_defaults(aw_policy_fields, &settings);
        settings.kind = cases[i].kind;
        t.bounds.replicas_max = cases[i].replicas_max;
        assert_ok(aw_policy_new(&settings, &t, &measuring.alloc, &policy, NULL));
        assert_int_equal(aw_policy_bytes(policy), measuring.bytes);
        assert_true(aw_policy_state_bytes(policy) < aw_policy_bytes(policy));
        if (aw_policy_bytes(policy) > cases[i].bytes_max)
            fail_msg("%s with %u replicas: %zu bytes, at most %zu expected: %s",
                     aw_policy_names[cases[i].kind], cases[i].replicas_max, aw_policy_bytes(policy),
                     cases[i].bytes_max, cases[i].why);
        aw_policy_free(policy);
    }
}

/* A list of pods that come, go and change places, and never become more than `max`. */
static uint32_t churn(struct aw_rng *rng, struct aw_pod *pods, uint32_t count, uint32_t max,
                      uint32_t *next_id, int64_t now_us)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (aw_rng_below(rng, 8) != 0)
            pods[kept++] = pods[i];
    const uint32_t wanted = aw_rng_below(rng, 3) == 0 ? max : aw_rng_below(rng, max + 1);
    for (; kept < wanted; kept++)
        pods[kept] = (struct aw_pod){.id = (*next_id)++,
                                     .phase = AW_POD_RUNNING,
                                     .ready = true,
                                     .started_us = now_us,
                                     .cpu_millicores = 1000,
                                     .memory_bytes = 512 << 20,
                                     .cpu_cores_used = {.at_us = AW_NEVER},
                                     .memory_bytes_used = {.at_us = AW_NEVER}};
    for (uint32_t i = 0; i + 1 < kept; i++) {
        const uint32_t other = i + aw_rng_below(rng, 2) * aw_rng_below(rng, kept - i);
        const struct aw_pod pod = pods[i];
        pods[i] = pods[other];
        pods[other] = pod;
    }
    for (uint32_t i = 0; i < kept; i++)
        pods[i].oom_kill_count += aw_rng_below(rng, 20) == 0;
    return kept;
}

/* The twin keeps one entry for each pod that there ever was. */
static void each_track_stays_with_its_pod_while_others_come_and_go(void **state)
{
    (void)state;
    enum { MAX = 2, TRACKS = 2 * MAX + AW__POLICY_STRAY_PODS, STEPS = 2000 };
    static int64_t oom_after_us[1 + STEPS * TRACKS];
    static uint32_t seen_next[1 + STEPS * TRACKS], kills[1 + STEPS * TRACKS];
    static const struct aw__pod_track none;
    struct aw_policy_settings settings;
    struct aw_policy_task t = task;
    struct aw_policy *policy = NULL;
    struct aw_pod pods[TRACKS];
    struct aw_rng rng;
    uint32_t count = 0, next_id = 1, full = 0;
    aw_conf_defaults(aw_policy_fields, &settings);
    settings.kind = AW_POLICY_VPA;
    t.bounds.replicas_max = t.replicas = MAX;
    assert_ok(aw_policy_new(&settings, &t, NULL, &policy, NULL));
    assert_int_equal(policy->track_max, TRACKS);
    aw_rng_init(&rng, 11, 0);
    for (uint32_t step = 1; step <= STEPS; step++) {
        const int64_t now_us = NOW_US + step * STEP_US;
        const struct aw_figure unknown = {.at_us = AW_NEVER};
        struct aw_plan plan;
        count = churn(&rng, pods, count, TRACKS, &next_id, now_us);
        full += count == TRACKS;
        const struct aw_sample sample = {.at_us = now_us,
                                         .replicas_wanted = MAX,
                                         .cpu_millicores_wanted = 1000,
                                         .memory_bytes_wanted = 512 << 20,
                                         .cpu_cores_used = unknown,
                                         .memory_bytes_used = unknown,
                                         .pod_count = count,
                                         .pods = pods};
        aw_policy_decide(policy, &sample, now_us, &plan, NULL);
        assert_int_equal(policy->state->track_count, count);
        for (uint32_t i = 0; i < count; i++) {
            const struct aw_pod *pod = &pods[i];
            const struct aw__pod_track *track = &policy->track[i];
            if (seen_next[pod->id] != step) { /* forgotten in between, if ever known */
                kills[pod->id] = 0;
                oom_after_us[pod->id] = AW_NEVER;
            }
            if (pod->oom_kill_count > kills[pod->id])
                oom_after_us[pod->id] = now_us - pod->started_us;
            kills[pod->id] = pod->oom_kill_count;
            seen_next[pod->id] = step + 1;
            assert_int_equal(track->id, pod->id);
            assert_int_equal(track->oom_kill_count, pod->oom_kill_count);
            assert_int_equal(track->started_us, pod->started_us);
            assert_true(track->oom_after_start_us == oom_after_us[pod->id]);
        }
        for (uint32_t i = count; i < TRACKS; i++)
            assert_memory_equal(&policy->track[i], &none, sizeof none);
    }
    assert_true(full > STEPS / 10); /* the place for a new one had to be found */
    aw_policy_free(policy);
}

static void pods_that_were_never_asked_for_do_no_harm(void **state)
{
    (void)state;
    static struct shown shown;
    for (int kind = 0; kind < AW_POLICY_COUNT; kind++) {
        struct aw_policy_settings settings;
        struct aw_policy_task t = task;
        struct aw_policy *policy = NULL;
        struct aw_rng rng;
        aw_conf_defaults(aw_policy_fields, &settings);
        settings.kind = (uint32_t)kind;
        t.bounds.replicas_max = t.replicas = 1;
        assert_ok(aw_policy_new(&settings, &t, NULL, &policy, NULL));
        aw_rng_init(&rng, 13, (uint64_t)kind);
        for (int i = 0; i < 500; i++) {
            const int64_t now_us = NOW_US + i * STEP_US;
            struct view v = draw(&rng);
            struct aw_plan plan;
            v.replicas = aw_rng_below(&rng, 3) == 0 ? AW_CLUSTER_PODS_MAX : v.replicas;
            show(&shown, &v, now_us);
            if (aw_rng_below(&rng, 4) == 0) /* even if all have the same name */
                for (uint32_t k = 0; k < v.replicas; k++)
                    shown.pods[k].id = 1 + aw_rng_below(&rng, 2);
            aw_policy_decide(policy, &shown.sample, now_us, &plan, NULL);
            if (plan.set & AW_PLAN_REPLICAS)
                assert_int_equal(plan.replicas, 1);
        }
        aw_policy_free(policy);
    }
}

static void equal_lives_leave_equal_bytes(void **state)
{
    (void)state;
    static struct shown shown;
    for (int kind = 0; kind < AW_POLICY_COUNT; kind++) {
        struct aw_policy *a = make((enum aw_policy_kind)kind);
        struct aw_policy *b = make((enum aw_policy_kind)kind);
        const size_t size = aw_policy_state_bytes(a);
        unsigned char *of_a = malloc(size), *of_b = malloc(size);
        assert_non_null(of_a);
        assert_non_null(of_b);
        memset(of_a, 0x5a, size);
        memset(of_b, 0xa5, size);
        struct aw_rng rng;
        aw_rng_init(&rng, 17, (uint64_t)kind);
        /* the one has lived before */
        struct view v = {.replicas = 2, .millicores = 500, .mib = 512, .p99_us = 200e3};
        live(a, &v, 8, 300, 100, NOW_US);
        aw_policy_reset(a);
        for (int i = 0; i < 100; i++) {
            const int64_t now_us = NOW_US + i * STEP_US;
            struct aw_plan plan;
            v = draw(&rng);
            aw_policy_decide(a, show(&shown, &v, now_us), now_us, &plan, NULL);
            aw_policy_decide(b, show(&shown, &v, now_us), now_us, &plan, NULL);
        }
        aw_policy_state_save(a, of_a);
        aw_policy_state_save(b, of_b);
        assert_memory_equal(of_a, of_b, size);
        aw_policy_free(a);
        aw_policy_free(b);
        free(of_a);
        free(of_b);
    }
}

static void a_state_of_another_size_is_refused(void **state)
{
    (void)state;
    struct aw_policy_settings settings;
    struct aw_policy_task t;
    struct aw_policy *saved = make(AW_POLICY_HPA_VPA_MEM), *other = NULL;
    unsigned char *bytes = malloc(aw_policy_state_bytes(saved));
    assert_non_null(bytes);
    aw_policy_state_save(saved, bytes);
#define LOADED(change, result)                                        \
    do {                                                              \
        t = task;                                                     \
        aw_conf_defaults(aw_policy_fields, &settings);                \
        change;                                                       \
        assert_ok(aw_policy_new(&settings, &t, NULL, &other, NULL));  \
        assert_int_equal(aw_policy_state_load(other, bytes), result); \
        aw_policy_free(other);                                        \
    } while (0)
    LOADED(t.bounds.replicas_max = 21, AW_ERR_FORMAT);
    LOADED(t.bounds.replicas_max = 19, AW_ERR_FORMAT);
    LOADED(settings.hpa_down_window = 301, AW_ERR_FORMAT);
    LOADED(settings.hpa_period = 30, AW_ERR_FORMAT);
    LOADED(settings.kind = AW_POLICY_HPA_VPA, AW_ERR_FORMAT);
    LOADED(settings.hpa_target = 60, AW_OK);
    LOADED(t.bounds.memory_bytes_max = 4ll << 30, AW_OK);
#undef LOADED
    aw_policy_free(saved);
    free(bytes);
}

/* As many as the window has periods, however long it lasts. */
static void the_hpa_has_room_for_a_window_of_any_length(void **state)
{
    (void)state;
    static const struct {
        uint32_t window;
        double period;
        int64_t step_us;
        uint32_t room, used;
        const char *why;
    } cases[] = {
        {300, 15, 15 * SECOND_US, 22, 21, "a window's both ends count; one to spare"},
        {300, 15, 7 * SECOND_US, 22, 15, "a sync every 21 s is all that such steps allow"},
        {0, 15, 15 * SECOND_US, 2, 2, "what was found, and what was recommended first"},
        {10, 60, 60 * SECOND_US, 2, 1, "the first two are merged, and no other lasts as long"},
        {3600, 15, 15 * SECOND_US, 242, 241, "the longest window at the usual period"},
        {3600, 1, SECOND_US, 256, 241, "those of 15 s are merged"},
    };
    static struct shown shown;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_policy_settings settings;
        struct aw_policy *policy = NULL;
        struct aw_rng rng;
        uint32_t most = 0;
        aw_conf_defaults(aw_policy_fields, &settings);
        settings.kind = AW_POLICY_HPA;
        settings.hpa_down_window = cases[i].window;
        settings.hpa_period = cases[i].period;
        assert_ok(aw_policy_new(&settings, &task, NULL, &policy, NULL));
        assert_int_equal(policy->recommendation_max, cases[i].room);
        aw_rng_init(&rng, 19, i);
        for (int step = 0; step < 5000; step++) {
            const int64_t now_us = NOW_US + step * cases[i].step_us;
            struct view v = draw(&rng);
            struct aw_plan plan;
            v.age_us = 0;
            aw_policy_decide(policy, show(&shown, &v, now_us), now_us, &plan, NULL);
            if (policy->state->recommendation_count > most)
                most = policy->state->recommendation_count;
        }
        if (most != cases[i].used)
            fail_msg("%u of a window of %u s, expected %u: %s", most, cases[i].window,
                     cases[i].used, cases[i].why);
        aw_policy_free(policy);
    }
}

int main(void)
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
        cmocka_unit_test(a_policy_takes_what_its_kind_and_bounds_ask_for),
        cmocka_unit_test(each_track_stays_with_its_pod_while_others_come_and_go),
        cmocka_unit_test(pods_that_were_never_asked_for_do_no_harm),
        cmocka_unit_test(equal_lives_leave_equal_bytes),
        cmocka_unit_test(a_state_of_another_size_is_refused),
        cmocka_unit_test(the_hpa_has_room_for_a_window_of_any_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
