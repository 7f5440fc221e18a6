/* fallback_memory_test.c - what a controller keeps: sizes, tracks of pods, saved bytes. */
#include "fallback/fallback_testing.h"

/* The heap, with the size of all blocks written down. */
struct measuring {
    struct aw_alloc alloc;
    size_t bytes;
};

static void *measuring_alloc(void *ctx, size_t bytes)
{
    ((struct measuring *)ctx)->bytes += bytes;
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
        enum aw_fallback_kind kind;
        uint32_t replicas_max;
        size_t bytes_max;
        const char *why;
    } cases[] = {
        {AW_FALLBACK_STATIC, 256, 640, "nothing but settings, task and times"},
        {AW_FALLBACK_AIMD, 256, 640, "likewise"},
        {AW_FALLBACK_HPA, 256, 1280, "recommendations of a window, whatever the pods"},
        {AW_FALLBACK_CONSTANT, 256, 3072, "two rings of peaks"},
        {AW_FALLBACK_VPA, 20, 3392, "two histograms, a track for each pod"},
        {AW_FALLBACK_HPA_VPA, 20, 3968, "both"},
        {AW_FALLBACK_HPA_VPA_MEM, 1, 2496, "one histogram less, and no more tracks than pods"},
        {AW_FALLBACK_HPA_VPA_MEM, 20, 3072, "tracks of 16 pods"},
        {AW_FALLBACK_HPA_VPA_MEM, 256, 3072, "no more: how many there may be takes nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_fallback_settings settings;
        struct aw_fallback_task t = task;
        struct aw_fallback *policy = NULL;
        struct measuring measuring = {.alloc = {measuring_alloc, measuring_free, &measuring}};
        aw_conf_defaults(aw_fallback_fields, &settings);
        settings.kind = cases[i].kind;
        t.bounds.replicas_max = cases[i].replicas_max;
        t.replicas = t.replicas < t.bounds.replicas_max ? t.replicas : t.bounds.replicas_max;
        assert_ok(aw_fallback_new(&settings, &t, &measuring.alloc, &policy, NULL));
        assert_int_equal(aw_fallback_bytes(policy), measuring.bytes);
        if (aw_fallback_bytes(policy) > cases[i].bytes_max)
            fail_msg("%s with %u replicas: %zu bytes, at most %zu expected: %s",
                     aw_fallback_names[cases[i].kind], cases[i].replicas_max,
                     aw_fallback_bytes(policy), cases[i].bytes_max, cases[i].why);
        aw_fallback_free(policy);
    }
}

static struct aw_fallback *with_replicas(uint32_t replicas_max, const struct aw_alloc *alloc)
{
    struct aw_fallback_settings settings;
    struct aw_fallback_task t = task;
    struct aw_fallback *policy = NULL;
    aw_conf_defaults(aw_fallback_fields, &settings);
    settings.kind = AW_FALLBACK_HPA_VPA_MEM;
    t.bounds.replicas_max = replicas_max;
    assert_ok(aw_fallback_new(&settings, &t, alloc, &policy, NULL));
    return policy;
}

/* One step of a workload with so many pods. */
static void see(struct aw_fallback *policy, uint32_t pods, int64_t now_us)
{
    static struct shown shown;
    const struct view v = {.replicas = pods, .millicores = 500, .mib = 512, .p99_us = 200e3};
    struct aw_plan plan;
    aw_fallback_decide(policy, show(&shown, &v, now_us), now_us, &plan, NULL);
}

static void room_for_tracks_grows_with_the_pods_and_no_further(void **state)
{
    (void)state;
    static const struct {
        uint32_t pods, room;
        bool grows;
    } step[] = {{2, 16, false},  {16, 16, false}, {17, 32, true}, {20, 32, false},
                {3, 32, false},  {32, 32, false}, {33, 44, true}, {44, 44, false},
                {60, 44, false}, {2, 44, false},  {60, 44, false}};
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    struct aw_fallback *policy = with_replicas(20, &counting.alloc);
    const uint64_t blocks = counting.alloc_count - counting.free_count;
    assert_int_equal(policy->track_max, 2 * 20 + AW__FALLBACK_STRAY_PODS);
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        const uint64_t before = counting.alloc_count;
        see(policy, step[i].pods, NOW_US + (int64_t)i * STEP_US);
        assert_int_equal(policy->track_room, step[i].room);
        assert_int_equal(counting.alloc_count - before, step[i].grows);
        assert_int_equal(counting.alloc_count - counting.free_count, blocks);
        assert_int_equal(policy->state->track_count,
                         step[i].pods < step[i].room ? step[i].pods : step[i].room);
    }
    aw_fallback_free(policy);
    assert_int_equal(counting.alloc_count, counting.free_count);
}

/* Without memory the first are followed: the tick goes on, and a later one has room again. */
static void pods_that_there_is_no_memory_for_are_not_followed(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    struct aw_fallback *policy = with_replicas(20, &counting.alloc);
    counting.fail_after = counting.alloc_count;
    see(policy, 30, NOW_US);
    assert_int_equal(policy->state->track_count, AW__FALLBACK_TRACK_ROOM);
    counting.fail_after = UINT64_MAX;
    see(policy, 30, NOW_US + STEP_US);
    assert_int_equal(policy->state->track_count, 30);
    aw_fallback_free(policy);
}

/* Of the same length whatever there is room for, and with the same bytes. */
static void a_saved_state_does_not_tell_how_much_room_there_was(void **state)
{
    (void)state;
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    struct aw_fallback *grown = with_replicas(20, NULL), *small = with_replicas(20, NULL);
    struct aw_fallback *loaded = with_replicas(20, &counting.alloc);
    const size_t size = aw_fallback_state_bytes(small);
    unsigned char *a = malloc(size), *b = malloc(size);
    assert_non_null(a);
    assert_non_null(b);
    see(grown, 40, NOW_US);
    assert_int_equal(aw_fallback_state_bytes(grown), size);
    aw_fallback_reset(grown);
    for (int i = 1; i < 20; i++) {
        see(grown, 10, NOW_US + i * STEP_US);
        see(small, 10, NOW_US + i * STEP_US);
    }
    assert_true(grown->track_room > small->track_room);
    aw_fallback_state_save(grown, a);
    aw_fallback_state_save(small, b);
    assert_memory_equal(a, b, size);

    see(grown, 40, NOW_US + 20 * STEP_US);
    aw_fallback_state_save(grown, a);
    counting.fail_after = counting.alloc_count;
    assert_int_equal(aw_fallback_state_load(loaded, a), AW_ERR_NOMEM);
    assert_int_equal(loaded->state->track_count, 0); /* nothing changed */
    counting.fail_after = UINT64_MAX;
    assert_ok(aw_fallback_state_load(loaded, a));
    assert_int_equal(loaded->track_room, 44);
    aw_fallback_state_save(loaded, b);
    assert_memory_equal(a, b, size);
    aw_fallback_free(grown);
    aw_fallback_free(small);
    aw_fallback_free(loaded);
    free(a);
    free(b);
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
    enum { MAX = 2, TRACKS = 2 * MAX + AW__FALLBACK_STRAY_PODS, STEPS = 2000 };
    static int64_t oom_after_us[1 + STEPS * TRACKS];
    static uint32_t seen_next[1 + STEPS * TRACKS], kills[1 + STEPS * TRACKS];
    static const struct aw__pod_track none;
    struct aw_fallback_settings settings;
    struct aw_fallback_task t = task;
    struct aw_fallback *policy = NULL;
    struct aw_pod pods[TRACKS];
    struct aw_rng rng;
    uint32_t count = 0, next_id = 1, full = 0;
    aw_conf_defaults(aw_fallback_fields, &settings);
    settings.kind = AW_FALLBACK_VPA;
    t.bounds.replicas_max = t.replicas = MAX;
    assert_ok(aw_fallback_new(&settings, &t, NULL, &policy, NULL));
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
        aw_fallback_decide(policy, &sample, now_us, &plan, NULL);
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
    aw_fallback_free(policy);
}

static void pods_that_were_never_asked_for_do_no_harm(void **state)
{
    (void)state;
    static struct shown shown;
    for (int kind = 0; kind < AW_FALLBACK_COUNT; kind++) {
        struct aw_fallback_settings settings;
        struct aw_fallback_task t = task;
        struct aw_fallback *policy = NULL;
        struct aw_rng rng;
        aw_conf_defaults(aw_fallback_fields, &settings);
        settings.kind = (uint32_t)kind;
        t.bounds.replicas_max = t.replicas = 1;
        assert_ok(aw_fallback_new(&settings, &t, NULL, &policy, NULL));
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
            aw_fallback_decide(policy, &shown.sample, now_us, &plan, NULL);
            if (plan.set & AW_PLAN_REPLICAS)
                assert_int_equal(plan.replicas, 1);
        }
        aw_fallback_free(policy);
    }
}

static void equal_lives_leave_equal_bytes(void **state)
{
    (void)state;
    static struct shown shown;
    for (int kind = 0; kind < AW_FALLBACK_COUNT; kind++) {
        struct aw_fallback *a = make((enum aw_fallback_kind)kind);
        struct aw_fallback *b = make((enum aw_fallback_kind)kind);
        const size_t size = aw_fallback_state_bytes(a);
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
        aw_fallback_reset(a);
        for (int i = 0; i < 100; i++) {
            const int64_t now_us = NOW_US + i * STEP_US;
            struct aw_plan plan;
            v = draw(&rng);
            aw_fallback_decide(a, show(&shown, &v, now_us), now_us, &plan, NULL);
            aw_fallback_decide(b, show(&shown, &v, now_us), now_us, &plan, NULL);
        }
        aw_fallback_state_save(a, of_a);
        aw_fallback_state_save(b, of_b);
        assert_memory_equal(of_a, of_b, size);
        aw_fallback_free(a);
        aw_fallback_free(b);
        free(of_a);
        free(of_b);
    }
}

static void a_state_of_another_size_is_refused(void **state)
{
    (void)state;
    struct aw_fallback_settings settings;
    struct aw_fallback_task t;
    struct aw_fallback *saved = make(AW_FALLBACK_HPA_VPA_MEM), *other = NULL;
    unsigned char *bytes = malloc(aw_fallback_state_bytes(saved));
    assert_non_null(bytes);
    aw_fallback_state_save(saved, bytes);
#define LOADED(change, result)                                          \
    do {                                                                \
        t = task;                                                       \
        aw_conf_defaults(aw_fallback_fields, &settings);                \
        change;                                                         \
        assert_ok(aw_fallback_new(&settings, &t, NULL, &other, NULL));  \
        assert_int_equal(aw_fallback_state_load(other, bytes), result); \
        aw_fallback_free(other);                                        \
    } while (0)
    LOADED(t.bounds.replicas_max = 21, AW_ERR_FORMAT);
    LOADED(t.bounds.replicas_max = 19, AW_ERR_FORMAT);
    LOADED(settings.hpa_down_window = 301, AW_ERR_FORMAT);
    LOADED(settings.hpa_period = 30, AW_ERR_FORMAT);
    LOADED(settings.kind = AW_FALLBACK_HPA_VPA, AW_ERR_FORMAT);
    LOADED(settings.hpa_target = 60, AW_OK);
    LOADED(t.bounds.memory_bytes_max = 4ll << 30, AW_OK);
#undef LOADED
    aw_fallback_free(saved);
    free(bytes);
}

/* On a real clock ticks of 15 s are never 15 s apart. */
static void a_tick_that_is_a_little_early_is_a_sync(void **state)
{
    (void)state;
    static struct shown shown;
    struct aw_fallback_settings settings;
    struct aw_fallback *policy = NULL;
    struct aw_rng rng;
    aw_conf_defaults(aw_fallback_fields, &settings);
    settings.kind = AW_FALLBACK_HPA;
    assert_ok(aw_fallback_new(&settings, &task, NULL, &policy, NULL));
    aw_rng_init(&rng, 20, 0);
    int64_t now_us = NOW_US;
    for (int step = 0; step < 200; step++) {
        struct view v = draw(&rng);
        struct aw_plan plan;
        struct aw_fallback_reason reason;
        v.age_us = 0;
        aw_fallback_decide(policy, show(&shown, &v, now_us), now_us, &plan, &reason);
        assert_int_not_equal(reason.cause, AW_FALLBACK_CAUSE_NOT_YET);
        now_us += 15 * SECOND_US - (step % 3 == 2 ? -SECOND_US : SECOND_US / 2);
    }
    aw_fallback_free(policy);
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
        {300, 15, 7 * SECOND_US, 22, 21, "fifteen seconds in the mean, of steps that are none"},
        {0, 15, 15 * SECOND_US, 2, 2, "what was found, and what was recommended first"},
        {10, 60, 60 * SECOND_US, 2, 1, "the first two are merged, and no other lasts as long"},
        {3600, 15, 15 * SECOND_US, 242, 241, "the longest window at the usual period"},
        {3600, 1, SECOND_US, 256, 241, "those of 15 s are merged"},
    };
    static struct shown shown;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aw_fallback_settings settings;
        struct aw_fallback *policy = NULL;
        struct aw_rng rng;
        uint32_t most = 0;
        aw_conf_defaults(aw_fallback_fields, &settings);
        settings.kind = AW_FALLBACK_HPA;
        settings.hpa_down_window = cases[i].window;
        settings.hpa_period = cases[i].period;
        assert_ok(aw_fallback_new(&settings, &task, NULL, &policy, NULL));
        assert_int_equal(policy->recommendation_max, cases[i].room);
        aw_rng_init(&rng, 19, i);
        for (int step = 0; step < 5000; step++) {
            const int64_t now_us = NOW_US + step * cases[i].step_us;
            struct view v = draw(&rng);
            struct aw_plan plan;
            v.age_us = 0;
            aw_fallback_decide(policy, show(&shown, &v, now_us), now_us, &plan, NULL);
            if (policy->state->recommendation_count > most)
                most = policy->state->recommendation_count;
        }
        if (most != cases[i].used)
            fail_msg("%u of a window of %u s, expected %u: %s", most, cases[i].window,
                     cases[i].used, cases[i].why);
        aw_fallback_free(policy);
    }
}

AW_TEST_GROUP("fallback-memory")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_takes_what_its_kind_and_bounds_ask_for),
        cmocka_unit_test(room_for_tracks_grows_with_the_pods_and_no_further),
        cmocka_unit_test(pods_that_there_is_no_memory_for_are_not_followed),
        cmocka_unit_test(a_saved_state_does_not_tell_how_much_room_there_was),
        cmocka_unit_test(each_track_stays_with_its_pod_while_others_come_and_go),
        cmocka_unit_test(pods_that_were_never_asked_for_do_no_harm),
        cmocka_unit_test(equal_lives_leave_equal_bytes),
        cmocka_unit_test(a_state_of_another_size_is_refused),
        cmocka_unit_test(the_hpa_has_room_for_a_window_of_any_length),
        cmocka_unit_test(a_tick_that_is_a_little_early_is_a_sync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
