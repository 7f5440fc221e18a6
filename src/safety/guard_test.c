/* guard_test.c - each rail by itself; all of them together are in guard_walk_test.c. */
#include "safety/guard.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"
#include "base/units.h"

#define S        INT64_C(1000000)
#define R        AW_PLAN_REPLICAS
#define C        AW_PLAN_CPU
#define M        AW_PLAN_MEMORY
#define CLIP(id) AW_CLIP_BIT(AW_CLIP_##id)

static const struct aw_bounds bounds = {.min = {1, 100, 64 * AW_MIB},
                                        .max = {20, 4000, 4096 * AW_MIB}};

static struct aw_guard make(void)
{
    struct aw_guard_settings settings;
    struct aw_guard guard;
    aw_conf_defaults(aw_guard_fields, &settings);
    settings.mode = AW_GUARD_AUTO;
    assert_ok(aw_guard_init(&guard, &settings, &bounds, NULL));
    return guard;
}

/* 4 replicas of 1 core and 1 GiB, calm: 1 core in all and 300 MiB in each are used. */
static struct aw_reading calm(void)
{
    return (struct aw_reading){.replicas_wanted = 4,
                               .replicas_ready = 4,
                               .cpu_millicores_wanted = 1000,
                               .memory_bytes_wanted = 1024 * AW_MIB,
                               .cpu_cores_used = 1,
                               .memory_bytes_used = 250.0 * AW_MIB,
                               .memory_bytes_peak = 300.0 * AW_MIB,
                               .cpu_utilisation = 0.25,
                               .memory_utilisation = 0.25};
}

/* A workload that has been calm for long enough to be known; `now` is 1000 s. */
struct scene {
    struct aw_guard guard;
    struct aw_guard_memory memory;
    struct aw_reading reading;
    struct aw_guard_input input;
    int64_t now_us;
};

static void scene_begin(struct scene *scene)
{
    *scene = (struct scene){.guard = make(), .reading = calm()};
    scene->input = (struct aw_guard_input){.reading = &scene->reading};
    aw_guard_begin(&scene->memory);
    for (scene->now_us = 0; scene->now_us < 1000 * S; scene->now_us += 15 * S)
        aw_guard_observe(&scene->guard, &scene->memory, &scene->input, scene->now_us);
}

static struct aw_guard_result pass(const struct scene *scene, uint32_t set, uint32_t replicas,
                                   int64_t cpu, int64_t memory)
{
    struct aw_guard_result result;
    const struct aw_plan plan = {.set = set, .amount = {replicas, cpu, memory}};
    aw_guard_pass(&scene->guard, &scene->memory, &scene->input, &plan, scene->now_us, &result);
    return result;
}

static void observe(struct scene *scene)
{
    aw_guard_observe(&scene->guard, &scene->memory, &scene->input, scene->now_us);
}

static void apply(struct scene *scene, const struct aw_plan *plan)
{
    aw_guard_applied(&scene->guard, &scene->memory, plan, scene->now_us);
    if (plan->set & R)
        scene->reading.replicas_wanted = scene->reading.replicas_ready = plan->replicas;
    if (plan->set & C)
        scene->reading.cpu_millicores_wanted = plan->cpu_millicores;
    if (plan->set & M)
        scene->reading.memory_bytes_wanted = plan->memory_bytes;
}

/* Time passes in ticks of 15 s. */
static void wait(struct scene *scene, double seconds)
{
    for (int64_t end = scene->now_us + (int64_t)(seconds * 1e6); scene->now_us < end;) {
        scene->now_us += 15 * S;
        observe(scene);
    }
}

static void expect(const struct aw_guard_result *result, uint32_t set, uint32_t replicas,
                   int64_t cpu, int64_t memory, uint32_t clips, const char *why)
{
    const struct aw_plan *plan = &result->plan;
    char text[AW_GUARD_TEXT_MAX];
    if (plan->set != set || plan->replicas != replicas || plan->cpu_millicores != cpu ||
        plan->memory_bytes != memory || result->clips != clips)
        fail_msg("%s: set %u, %u replicas, %lldm, %lld bytes, clips %#x (%s); expected %#x", why,
                 (unsigned)plan->set, (unsigned)plan->replicas, (long long)plan->cpu_millicores,
                 (long long)plan->memory_bytes, result->clips,
                 aw_guard_clips_format(result, text, sizeof text), clips);
}

static void every_clip_has_a_name_and_a_sentence(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < AW_CLIP_COUNT; i++) {
        assert_true(strlen(aw_clip_name(i)) > 0 && strlen(aw_clip_sentence(i)) > 10);
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(aw_clip_name(i), aw_clip_name(k));
    }
}

/* A change that was taken and not seen since may have been done by half. */
static void while_the_cluster_does_not_answer_steps_count_from_what_was_seen(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    scene.guard.settings.cpu_up_factor = scene.guard.settings.cpu_down_factor = 2;
    apply(&scene, &(struct aw_plan){.set = C, .cpu_millicores = 2000}); /* seen: 1000 */
    scene.input.blind = true;
    wait(&scene, 1200); /* no cool-down lasts so long */
    struct aw_guard_result result = pass(&scene, C, 4, 3000, 0);
    assert_int_equal(result.plan.set & C, 0);
    assert_int_equal(result.plan.cpu_millicores, 2000);
    assert_true(result.axis_clips[AW_RESOURCE_CPU] & AW_CLIP_BIT(AW_CLIP_STEP));
    scene.input.blind = false;
    observe(&scene);
    result = pass(&scene, C, 4, 3000, 0);
    assert_int_equal(result.plan.cpu_millicores, 3000);
    /* what somebody pinned meanwhile is not taken back */
    apply(&scene, &(struct aw_plan){.set = C, .cpu_millicores = 3900});
    scene.memory.seen[AW_RESOURCE_CPU] = 1000;
    scene.input.blind = true;
    wait(&scene, 1200);
    result = pass(&scene, C, 4, 3900, 0);
    assert_int_equal(result.plan.set & C, 0);
    assert_int_equal(result.plan.cpu_millicores, 3900);
}

static void what_is_reasonable_passes_untouched(void **state)
{
    (void)state;
    static const struct {
        uint32_t set, replicas;
        int64_t cpu, memory;
        const char *why;
    } rows[] = {
        {0, 0, 0, 0, "nothing proposed"},
        {R, 5, 0, 0, "a replica more"},
        {R, 3, 0, 0, "a replica less, three cores are enough"},
        {C, 0, 2000, 0, "twice the CPU"},
        {C, 0, 600, 0, "less CPU"},
        {M, 0, 0, 2048 * AW_MIB, "twice the memory"},
        {M, 0, 0, 600 * AW_MIB, "less memory, still above the peak"},
        {R | C | M, 6, 1500, 800 * AW_MIB, "everything at once"},
    };
    struct scene scene;
    scene_begin(&scene);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_guard_result result =
            pass(&scene, rows[i].set, rows[i].replicas, rows[i].cpu, rows[i].memory);
        expect(&result, rows[i].set, rows[i].set & R ? rows[i].replicas : 4,
               rows[i].set & C ? rows[i].cpu : 1000,
               rows[i].set & M ? rows[i].memory : 1024 * AW_MIB, 0, rows[i].why);
        assert_int_equal(result.proposed.set, rows[i].set);
        assert_memory_equal(&result.recommended, &result.plan, sizeof result.plan);
    }
}

/* Each row changes the calm scene a little and proposes something. */
enum twist {
    NOTHING,
    CPU_MISSING,
    CPU_INFINITE,
    CPU_NEGATIVE,
    MEMORY_MISSING,
    PEAK_MISSING,
    SLO_UNKNOWN,
    ROLLING_OUT,
    ROLLING_OUT_MISSED,
    ROLLING_OUT_BUSY,
    SMALL_NODE,
    TINY_NODE,
    FROZEN,
    FROZEN_DOWN,
    MODE_OFF,
    MODE_INITIAL,
    MODE_INITIAL_SIZED,
    SCALED_TO_ZERO,
    BUSY,
    NOT_READY,
    BARE,
    BARE_BLIND,
    IN_PLACE,
    TOO_MANY,
    MEMORY_NOT_OURS,
};

static void twist(struct scene *s, enum twist how)
{
    switch (how) {
    case NOTHING:
        break;
    case CPU_MISSING:
        s->reading.cpu_cores_used = NAN;
        break;
    case CPU_INFINITE:
        s->reading.cpu_cores_used = INFINITY;
        break;
    case CPU_NEGATIVE:
        s->reading.cpu_cores_used = -1;
        break;
    case MEMORY_MISSING:
        s->reading.memory_bytes_used = s->reading.memory_bytes_peak = NAN;
        break;
    case PEAK_MISSING:
        s->reading.memory_bytes_peak = NAN;
        break;
    case SLO_UNKNOWN:
        s->input.slo = AW_GUARD_SLO_UNKNOWN;
        break;
    case ROLLING_OUT_MISSED:
        s->input.slo = AW_GUARD_SLO_MISSED;
        s->reading.rollout = 1;
        break;
    case ROLLING_OUT_BUSY:
        s->reading.cpu_utilisation = 0.71;
        s->reading.rollout = 1;
        break;
    case ROLLING_OUT:
        s->reading.rollout = 1;
        break;
    case SMALL_NODE:
        s->input.node.cpu_millicores = 1500;
        s->input.node.memory_bytes = 1500 * AW_MIB;
        break;
    case TINY_NODE:
        s->input.node.cpu_millicores = 50;
        s->input.node.memory_bytes = AW_MIB;
        break;
    case FROZEN:
        s->input.freeze = AW_GUARD_FREEZE_ALL;
        break;
    case FROZEN_DOWN:
        s->input.freeze = AW_GUARD_FREEZE_DOWN;
        break;
    case MODE_OFF:
        s->guard.settings.mode = AW_GUARD_OFF;
        break;
    case MODE_INITIAL_SIZED:
        s->memory.sized = 1;
        s->guard.settings.mode = AW_GUARD_INITIAL;
        break;
    case MODE_INITIAL:
        s->guard.settings.mode = AW_GUARD_INITIAL;
        break;
    case SCALED_TO_ZERO:
        s->reading.replicas_wanted = s->reading.replicas_ready = 0;
        break;
    case BUSY:
        s->reading.cpu_cores_used = 3.5;
        s->reading.cpu_utilisation = 0.875;
        s->reading.memory_bytes_peak = 900.0 * AW_MIB;
        break;
    case NOT_READY:
        s->reading.replicas_ready = 1;
        break;
    case BARE_BLIND:
        s->reading.memory_bytes_used = s->reading.memory_bytes_peak = NAN;
        s->reading.cpu_cores_used = NAN;
        s->reading.cpu_millicores_wanted = s->reading.memory_bytes_wanted = 0;
        break;
    case BARE:
        s->reading.cpu_millicores_wanted = s->reading.memory_bytes_wanted = 0;
        break;
    case IN_PLACE:
        s->input.in_place = true;
        break;
    case MEMORY_NOT_OURS:
        s->reading.oom_kills = 1;
        s->input.uncontrolled = M;
        break;
    case TOO_MANY:
        s->reading.replicas_wanted = s->reading.replicas_ready = 40;
        break;
    }
}

static void each_rail_clips_what_it_names(void **state)
{
    (void)state;
    static const struct {
        enum twist twist;
        uint32_t set, replicas; /* proposed */
        int64_t cpu, memory;
        uint32_t set_out, replicas_out; /* applied */
        int64_t cpu_out, memory_out;
        uint32_t clips;
        const char *why;
    } rows[] = {
        {NOTHING, R | C | M, 0, 0, 0, 0, 4, 1000, 1024 * AW_MIB, CLIP(ABSURD),
         "nothing at all is no amount: a mistake does not shrink"},
        {NOTHING, C | M, 4, INT64_MIN, INT64_MAX, 0, 4, 1000, 1024 * AW_MIB, CLIP(ABSURD),
         "a cast of NaN or infinity"},
        {NOTHING, R, UINT32_MAX, 0, 0, 0, 4, 1000, 1024 * AW_MIB, CLIP(ABSURD),
         "four thousand million replicas"},
        {NOTHING, R | 8, 5, 0, 0, R, 5, 1000, 1024 * AW_MIB, CLIP(ABSURD), "a bit nobody knows"},
        {NOTHING, R, 100, 0, 0, R, 16, 1000, 1024 * AW_MIB, CLIP(BOUNDS) | CLIP(STEP),
         "bounds allow 20, a step from 4 allows 16"},
        {NOTHING, C, 0, 9000, 0, C, 4, 4000, 1024 * AW_MIB, CLIP(BOUNDS), "above the bounds"},
        {TOO_MANY, 0, 0, 0, 0, R, 20, 1000, 1024 * AW_MIB, CLIP(BOUNDS),
         "outside its bounds it is moved in although nobody asked"},
        {SMALL_NODE, C | M, 0, 2000, 2048 * AW_MIB, C | M, 4, 1500, 1500 * AW_MIB, CLIP(NODE),
         "no node could hold it"},
        {TINY_NODE, 0, 0, 0, 0, C | M, 4, 100, 64 * AW_MIB, CLIP(NODE),
         "bounds are stronger than nodes, and a hard rail knows no step"},
        {CPU_MISSING, R | C | M, 2, 500, 600 * AW_MIB, M, 4, 1000, 600 * AW_MIB, CLIP(NO_DATA),
         "without CPU figures neither replicas nor CPU fall, memory may"},
        {CPU_INFINITE, R | C, 2, 500, 0, 0, 4, 1000, 1024 * AW_MIB, CLIP(NO_DATA), "no figure"},
        {CPU_NEGATIVE, R | C, 2, 500, 0, 0, 4, 1000, 1024 * AW_MIB, CLIP(NO_DATA), "no figure"},
        {CPU_MISSING, R | C, 6, 2000, 0, R | C, 6, 2000, 1024 * AW_MIB, 0, "growing needs none"},
        {MEMORY_MISSING, R | C | M, 3, 600, 600 * AW_MIB, R | C, 3, 600, 1024 * AW_MIB,
         CLIP(NO_DATA), "memory stays"},
        {PEAK_MISSING, M, 0, 0, 600 * AW_MIB, M, 4, 1000, 600 * AW_MIB, 0,
         "the mean stands in for a peak that is not measured"},
        {SLO_UNKNOWN, R | C | M, 3, 600, 600 * AW_MIB, 0, 4, 1000, 1024 * AW_MIB, CLIP(NO_DATA),
         "nobody knows whether less would do"},
        {ROLLING_OUT, R | C | M, 8, 2000, 2048 * AW_MIB, 0, 4, 1000, 1024 * AW_MIB, CLIP(ROLLOUT),
         "calm: nothing changes"},
        {ROLLING_OUT, R | C | M, 3, 600, 600 * AW_MIB, 0, 4, 1000, 1024 * AW_MIB, CLIP(ROLLOUT),
         "nothing shrinks"},
        {ROLLING_OUT_MISSED, R | C, 8, 2000, 0, R, 8, 1000, 1024 * AW_MIB, CLIP(ROLLOUT),
         "with the SLO missed replicas grow, sizes stay"},
        {ROLLING_OUT_BUSY, R | C, 8, 2000, 0, R, 8, 1000, 1024 * AW_MIB, CLIP(ROLLOUT),
         "busy is seen before the SLO is missed"},
        {NOTHING, C | M, 0, 300, 400 * AW_MIB, C | M, 4, 500, 512 * AW_MIB, CLIP(STEP),
         "by halves"},
        {BUSY, R, 2, 0, 0, 0, 4, 1000, 1024 * AW_MIB, CLIP(WORKING_SET),
         "3.5 cores and 5 % fit no fewer replicas"},
        {BUSY, M, 0, 0, 700 * AW_MIB, 0, 4, 1000, 1024 * AW_MIB, CLIP(WORKING_SET) | CLIP(DEADBAND),
         "945 MiB would be free, which is too near to be worth a restart"},
        {NOTHING, R | C, 2, 2000, 0, R | C, 2, 2000, 1024 * AW_MIB, 0,
         "half the replicas of twice the size: two old ones would do, too"},
        {BUSY, R | C, 2, 2000, 0, C, 4, 2000, 1024 * AW_MIB, CLIP(WORKING_SET),
         "they would not: the size first, the replicas when it has arrived"},
        {BUSY, R | C, 8, 500, 0, R, 8, 1000, 1024 * AW_MIB, CLIP(WORKING_SET) | CLIP(DEADBAND),
         "and the other way round"},
        {NOT_READY, C, 0, 600, 0, 0, 4, 1000, 1024 * AW_MIB, CLIP(WORKING_SET),
         "three replicas are not ready: the one that is carries all"},
        {NOTHING, C | M, 0, 950, 1000 * AW_MIB, 0, 4, 1000, 1024 * AW_MIB, CLIP(DEADBAND),
         "5 % are not worth a restart"},
        {NOTHING, C | M, 0, 950, 600 * AW_MIB, C | M, 4, 950, 600 * AW_MIB, 0,
         "they restart anyway: both"},
        {IN_PLACE, C, 0, 950, 0, C, 4, 950, 1024 * AW_MIB, 0, "nothing restarts: any difference"},
        {MEMORY_NOT_OURS, R | M, 6, 0, 2048 * AW_MIB, R, 6, 1000, 1024 * AW_MIB,
         CLIP(OOM_FLOOR) | CLIP(UNCONTROLLED), "not even to a kill's floor"},
        {SCALED_TO_ZERO, R, 3, 0, 0, 0, 0, 1000, 1024 * AW_MIB, CLIP(ZERO), "paused by a person"},
        {FROZEN, R | C, 8, 2000, 0, 0, 4, 1000, 1024 * AW_MIB, CLIP(FREEZE), "all"},
        {FROZEN_DOWN, R | C, 8, 600, 0, R, 8, 1000, 1024 * AW_MIB, CLIP(FREEZE), "only growing"},
        {MODE_OFF, R | C, 8, 2000, 0, 0, 4, 1000, 1024 * AW_MIB, CLIP(MODE), "recommended only"},
        {MODE_INITIAL, R | C, 8, 2000, 0, R | C, 8, 2000, 1024 * AW_MIB, 0, "the first time"},
        {MODE_INITIAL_SIZED, R | C, 8, 2000, 0, R, 8, 1000, 1024 * AW_MIB, CLIP(MODE),
         "and never again; replicas disturb nobody"},
        {BARE, C | M, 0, 500, 400 * AW_MIB, C | M, 4, 500, 400 * AW_MIB, 0,
         "without a size until now: the first"},
        {BARE, C | M, 0, 100, 100 * AW_MIB, C | M, 4, 263, 315 * AW_MIB, CLIP(WORKING_SET),
         "but not below what is used"},
        {BARE, R, 3, 0, 0, 0, 4, 0, 0, CLIP(WORKING_SET),
         "replicas whose size nobody knows are not removed"},
        {BARE_BLIND, C | M, 0, 500, 400 * AW_MIB, 0, 4, 0, 0, CLIP(NO_DATA),
         "a limit where there was none may shrink: not blindly"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene scene;
        scene_begin(&scene);
        twist(&scene, rows[i].twist);
        observe(&scene);
        if (rows[i].twist == TOO_MANY) /* the change itself is not what is tested */
            wait(&scene, 1200);
        struct aw_guard_result result =
            pass(&scene, rows[i].set, rows[i].replicas, rows[i].cpu, rows[i].memory);
        expect(&result, rows[i].set_out, rows[i].replicas_out, rows[i].cpu_out, rows[i].memory_out,
               rows[i].clips, rows[i].why);
    }
}

static void recommend_only_still_says_what_it_would_do(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    scene.guard.settings.mode = AW_GUARD_OFF;
    struct aw_guard_result result = pass(&scene, R | C, 100, 2000, 0);
    assert_int_equal(result.plan.set, 0);
    assert_int_equal(result.recommended.set, R | C);
    assert_int_equal(result.recommended.replicas, 16);
    assert_int_equal(result.recommended.cpu_millicores, 2000);
    assert_int_equal(result.proposed.replicas, 100);
    assert_int_equal(result.axis_clips[AW_RESOURCE_MEMORY], 0);
    char text[AW_GUARD_TEXT_MAX];
    assert_string_equal(aw_guard_clips_format(&result, text, sizeof text),
                        "replicas: bounds, step, mode; cpu: mode");
}

static void a_new_guard_shrinks_nothing_until_it_knows_the_peaks(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    aw_guard_begin(&scene.memory);
    for (double s = 0; s < 300; s += 15) {
        struct aw_guard_result result = pass(&scene, R | C | M, 3, 600, 600 * AW_MIB);
        expect(&result, 0, 4, 1000, 1024 * AW_MIB, CLIP(YOUNG), "young");
        result = pass(&scene, R, 5, 0, 0);
        assert_int_equal(result.plan.replicas, 5);
        wait(&scene, 15);
    }
    wait(&scene, 15);
    assert_int_equal(pass(&scene, R | C | M, 3, 600, 600 * AW_MIB).plan.set, R | C | M);

    scene.reading.cpu_cores_used = NAN; /* an outage of the metrics that outlasts the window */
    wait(&scene, 600);
    scene.reading.cpu_cores_used = 0.1;
    wait(&scene, 15);
    struct aw_guard_result result = pass(&scene, R | C | M, 3, 600, 600 * AW_MIB);
    expect(&result, M, 4, 1000, 600 * AW_MIB, CLIP(YOUNG), "memory has been known all along");
    wait(&scene, 300);
    assert_int_equal(pass(&scene, R, 3, 0, 0).plan.set, R);
}

static void a_peak_counts_for_its_window_and_no_longer(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    scene.reading.memory_bytes_peak = 800.0 * AW_MIB;
    wait(&scene, 15);
    scene.reading.memory_bytes_peak = 300.0 * AW_MIB;
    for (double s = 0; s < 300; s += 15) {
        assert_int_equal(pass(&scene, M, 0, 0, 600 * AW_MIB).plan.memory_bytes, 840 * AW_MIB);
        wait(&scene, 15);
    }
    wait(&scene, 30); /* a piece of the window more */
    assert_int_equal(pass(&scene, M, 0, 0, 600 * AW_MIB).plan.memory_bytes, 600 * AW_MIB);
}

static void after_a_kill_memory_grows_and_stays_above_for_a_time(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    scene.reading.oom_kills = 1;
    wait(&scene, 15);
    scene.reading.oom_kills = 0;
    const int64_t floor = (int64_t)ceil(1.2 * 1024 * AW_MIB);
    struct aw_guard_result result = pass(&scene, 0, 0, 0, 0);
    expect(&result, M, 4, 1000, floor, CLIP(OOM_FLOOR), "it grows although nobody asked");
    result = pass(&scene, M, 0, 0, 512 * AW_MIB);
    assert_int_equal(result.plan.memory_bytes, floor);
    result = pass(&scene, M, 0, 0, 2048 * AW_MIB);
    expect(&result, M, 4, 1000, 2048 * AW_MIB, 0, "more than the floor is fine");

    apply(&scene, &(struct aw_plan){.set = M, .amount = {0, 0, floor}});
    /* While it is rolled out, old replicas are killed: that does not raise the floor again. */
    scene.reading.rollout = 1;
    scene.reading.oom_kills = 2;
    wait(&scene, 30);
    scene.reading.rollout = 0;
    scene.reading.oom_kills = 0;
    assert_int_equal(pass(&scene, 0, 0, 0, 0).plan.set, 0);
    wait(&scene, 1785);
    result = pass(&scene, M, 0, 0, 700 * AW_MIB);
    assert_int_equal(result.plan.set, 0);
    assert_true(result.clips & CLIP(OOM_FLOOR));
    wait(&scene, 45);
    assert_int_equal(pass(&scene, M, 0, 0, 700 * AW_MIB).plan.memory_bytes, 700 * AW_MIB);
}

static void a_kill_of_the_new_size_raises_the_floor_again_up_to_the_bounds(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    int64_t before = scene.reading.memory_bytes_wanted;
    for (int i = 0; i < 12; i++) {
        scene.reading.oom_kills = 1;
        wait(&scene, 15);
        struct aw_guard_result result = pass(&scene, 0, 0, 0, 0);
        int64_t next = (int64_t)ceil((double)before * 1.2);
        next = next < bounds.memory_bytes_max ? next : bounds.memory_bytes_max;
        assert_int_equal(result.plan.memory_bytes, next);
        apply(&scene, &result.plan);
        before = next;
    }
    assert_int_equal(before, bounds.memory_bytes_max);
}

static void a_crash_loop_holds_everything_but_the_growth_that_may_end_it(void **state)
{
    (void)state;
    static const struct {
        uint32_t kills, restarts;
        uint32_t set_out;
        const char *why;
    } rows[] = {
        {0, 0, R | C | M, "no crash"},
        {0, 2, R | C | M, "two are no loop yet"},
        {0, 3, 0, "a program that breaks: nothing helps"},
        {3, 3, R | M, "kills: memory, and replicas to share the requests"},
        {3, 0, R | M, "a kill whose restart has not been seen yet"},
        {2, 4, R | M, "mostly kills"},
        {1, 4, M, "mostly not; memory goes no further than the kill's own floor"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene scene;
        scene_begin(&scene);
        scene.reading.oom_kills = rows[i].kills;
        scene.input.restarts = rows[i].restarts;
        observe(&scene);
        scene.reading.oom_kills = 0;
        scene.input.restarts = 0;
        struct aw_guard_result result = pass(&scene, R | C | M, 8, 2000, 2048 * AW_MIB);
        if (result.plan.set != rows[i].set_out)
            fail_msg("%s: set %u", rows[i].why, (unsigned)result.plan.set);
        assert_int_equal(!!(result.clips & CLIP(CRASH_LOOP)), rows[i].set_out != (R | C | M));
        if (rows[i].kills == 1)
            assert_int_equal(result.plan.memory_bytes, (int64_t)ceil(1.2 * 1024 * AW_MIB));
        if (rows[i].set_out != (R | C | M)) {
            result = pass(&scene, R | C, 3, 600, 0);
            assert_int_equal(result.plan.set & (R | C), 0);
            wait(&scene, 660);
            assert_int_equal(pass(&scene, R | C, 3, 600, 0).plan.set & (R | C), R | C);
        }
    }
}

static void one_bad_replica_of_many_freezes_nothing(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    scene.reading.replicas_wanted = scene.reading.replicas_ready = 20;
    wait(&scene, 1200);
    scene.input.restarts = 3;
    wait(&scene, 15);
    scene.input.restarts = 0;
    assert_int_equal(pass(&scene, R, 18, 0, 0).plan.replicas, 18);
    scene.input.restarts = 7;
    wait(&scene, 15);
    scene.input.restarts = 0;
    assert_int_equal(pass(&scene, R, 18, 0, 0).plan.set, 0);
}

static void
a_cool_down_holds_shrinking_longer_than_growing_and_never_growth_under_pressure(void **state)
{
    (void)state;
    static const struct {
        uint32_t axis;
        double after;
        bool up, missed;
        bool through;
        const char *why;
    } rows[] = {
        {R, 15, true, false, true, "replicas grow at once"},
        {R, 285, false, false, false, "and stay for five minutes"},
        {R, 285, false, true, false, "and stay for five minutes"},
        {R, 300, false, false, true, "and stay for five minutes"},
        {C, 45, true, false, false, "a size grows after a minute"},
        {C, 60, true, false, true, "a size grows after a minute"},
        {C, 45, true, true, true, "at once when the SLO is missed"},
        {C, 285, false, false, false, "and shrinks after five"},
        {C, 285, false, true, false, "and shrinks after five"},
        {C, 300, false, false, true, "and shrinks after five"},
        {M, 45, true, false, false, "CPU's change was a restart, too"},
        {M, 45, true, true, true, "under pressure"},
        {M, 285, false, false, false, "a restart"},
        {M, 300, false, false, true, "a restart"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene scene;
        scene_begin(&scene);
        struct aw_guard_result result =
            pass(&scene, rows[i].axis == R ? R : C, 6, 2000, 0); /* the change that cools */
        apply(&scene, &result.plan);
        wait(&scene, rows[i].after);
        scene.input.slo = rows[i].missed ? AW_GUARD_SLO_MISSED : AW_GUARD_SLO_MET;
        result = rows[i].up ? pass(&scene, rows[i].axis, 8, 3000, 2048 * AW_MIB)
                            : pass(&scene, rows[i].axis, 5, 1500, 700 * AW_MIB);
        if (!!result.plan.set != rows[i].through)
            fail_msg("row %zu, %s: set %u, clips %#x", i, rows[i].why, (unsigned)result.plan.set,
                     result.clips);
        assert_int_equal(result.clips, rows[i].through ? 0 : CLIP(COOL_DOWN));
    }
}

static void somebody_elses_change_cools_down_too(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    scene.reading.replicas_wanted = scene.reading.replicas_ready = 8;
    wait(&scene, 15);
    struct aw_guard_result result = pass(&scene, R, 6, 0, 0);
    expect(&result, 0, 8, 1000, 1024 * AW_MIB, CLIP(COOL_DOWN), "a person scaled it");
    wait(&scene, 300);
    assert_int_equal(pass(&scene, R, 6, 0, 0).plan.replicas, 6);
}

static void replicas_that_were_removed_do_not_keep_others_from_going(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    struct aw_guard_result result = pass(&scene, R, 3, 0, 0);
    assert_int_equal(result.plan.replicas, 3);
    apply(&scene, &result.plan);
    wait(&scene, 60); /* the cool-down alone; nothing was added */
    assert_int_equal(pass(&scene, R, 2, 0, 0).plan.replicas, 2);
}

static void half_of_the_restarts_are_kept_for_growing(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    scene.guard.settings.size_up_cooldown = scene.guard.settings.size_down_cooldown = 0;
    assert_int_equal(aw_guard_restarts_left(&scene.guard, &scene.memory, false, scene.now_us), 6);
    uint32_t down = 0, up = 0;
    for (int i = 0; i < 40; i++) { /* 10 minutes of a decider that cannot make up its mind */
        const int64_t next = scene.reading.cpu_millicores_wanted == 1000 ? 700 : 1000;
        struct aw_guard_result result = pass(&scene, C, 0, next, 0);
        if (result.plan.set) {
            up += next == 1000;
            down += next != 1000;
            apply(&scene, &result.plan);
        } else {
            assert_int_equal(result.clips, CLIP(RESTART_BUDGET));
        }
        wait(&scene, 15);
    }
    assert_int_equal(down, 3);
    assert_int_equal(up, 3);
    assert_int_equal(aw_guard_restarts_left(&scene.guard, &scene.memory, true, scene.now_us), 6);
    for (int i = 0; i < 10; i++) { /* growing may go on */
        const int64_t cpu = scene.reading.cpu_millicores_wanted;
        struct aw_guard_result result = pass(&scene, C, 0, cpu + cpu / 8, 0);
        if (i < 6)
            apply(&scene, &result.plan);
        assert_int_equal(!!result.plan.set, i < 6);
        wait(&scene, 15);
    }
    scene.input.slo = AW_GUARD_SLO_MISSED;
    assert_int_equal(pass(&scene, C, 0, 3000, 0).plan.set, 0);
    scene.input.in_place = true;
    assert_int_equal(pass(&scene, C, 0, 3000, 0).plan.set, C);
    scene.input.in_place = false;
    scene.reading.oom_kills = 1;
    wait(&scene, 15);
    struct aw_guard_result result = pass(&scene, M, 0, 0, 4096 * AW_MIB);
    assert_int_equal(result.plan.memory_bytes, (int64_t)ceil(1.2 * 1024 * AW_MIB));
    scene.reading.oom_kills = 0;
    wait(&scene, 3600); /* the kill is forgotten by then, too */
    assert_int_equal(pass(&scene, C, 0, 3000, 0).plan.set, C);
}

static void the_change_budget_bounds_a_window_and_not_a_loop(void **state)
{
    (void)state;
    for (int64_t tick = 5; tick <= 60; tick += 5) { /* a faster loop changes no more */
        struct scene scene;
        scene_begin(&scene);
        scene.reading.replicas_wanted = scene.reading.replicas_ready = 20;
        wait(&scene, 1200);
        scene.reading.cpu_cores_used = 0.01;
        wait(&scene, 600);
        scene.guard.settings.replicas_down_cooldown = 0;
        scene.guard.settings.change_factor = 4;
        for (int64_t s = 0; s < 600; s += tick) {
            struct aw_guard_result result = pass(&scene, R, 1, 0, 0);
            apply(&scene, &result.plan);
            assert_true(scene.reading.replicas_wanted >= 5);
            scene.now_us += tick * S;
            observe(&scene);
        }
        assert_int_equal(scene.reading.replicas_wanted, 5);
    }
}

static void growth_under_pressure_is_free_of_the_change_budget(void **state)
{
    (void)state;
    for (int missed = 0; missed < 2; missed++) {
        struct scene scene;
        scene_begin(&scene);
        scene.guard.settings.change_factor = 1.5;
        scene.guard.settings.replicas_up_least = 0;
        scene.input.slo = missed ? AW_GUARD_SLO_MISSED : AW_GUARD_SLO_MET;
        struct aw_guard_result result = pass(&scene, R, 12, 0, 0);
        assert_int_equal(result.plan.replicas, missed ? 12 : 6);
        assert_int_equal(result.clips, missed ? 0 : CLIP(CHANGE_BUDGET));
    }
}

static void a_clock_that_goes_back_neither_forgets_nor_freezes(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    scene.reading.memory_bytes_peak = 800.0 * AW_MIB;
    wait(&scene, 15);
    scene.reading.memory_bytes_peak = 300.0 * AW_MIB;
    struct aw_guard_result result = pass(&scene, R, 8, 0, 0);
    apply(&scene, &result.plan);
    wait(&scene, 30);
    scene.now_us -= INT64_C(400) * 86400 * S;
    observe(&scene);
    assert_int_equal(pass(&scene, R, 6, 0, 0).clips, CLIP(COOL_DOWN));
    assert_int_equal(pass(&scene, M, 0, 0, 600 * AW_MIB).plan.memory_bytes, 840 * AW_MIB);
    wait(&scene, 270);
    assert_int_equal(pass(&scene, R, 6, 0, 0).plan.replicas, 6);
    wait(&scene, 60);
    assert_int_equal(pass(&scene, M, 0, 0, 600 * AW_MIB).plan.memory_bytes, 600 * AW_MIB);
}

static void bounds_that_are_none_are_refused(void **state)
{
    (void)state;
    struct aw_guard guard = make(), before = guard;
    struct aw_bounds bad = bounds;
    struct aw_diag diag;
    bad.cpu_millicores_min = 5000;
    assert_int_equal(aw_guard_init(&guard, &before.settings, &bad, &diag), AW_ERR_CONFIG);
    assert_non_null(strstr(diag.text, "CPU"));
    assert_memory_equal(&guard, &before, sizeof guard);
}

AW_TEST_GROUP("guard")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_clip_has_a_name_and_a_sentence),
        cmocka_unit_test(what_is_reasonable_passes_untouched),
        cmocka_unit_test(while_the_cluster_does_not_answer_steps_count_from_what_was_seen),
        cmocka_unit_test(each_rail_clips_what_it_names),
        cmocka_unit_test(recommend_only_still_says_what_it_would_do),
        cmocka_unit_test(a_new_guard_shrinks_nothing_until_it_knows_the_peaks),
        cmocka_unit_test(a_peak_counts_for_its_window_and_no_longer),
        cmocka_unit_test(after_a_kill_memory_grows_and_stays_above_for_a_time),
        cmocka_unit_test(a_kill_of_the_new_size_raises_the_floor_again_up_to_the_bounds),
        cmocka_unit_test(a_crash_loop_holds_everything_but_the_growth_that_may_end_it),
        cmocka_unit_test(one_bad_replica_of_many_freezes_nothing),
        cmocka_unit_test(
            a_cool_down_holds_shrinking_longer_than_growing_and_never_growth_under_pressure),
        cmocka_unit_test(somebody_elses_change_cools_down_too),
        cmocka_unit_test(replicas_that_were_removed_do_not_keep_others_from_going),
        cmocka_unit_test(half_of_the_restarts_are_kept_for_growing),
        cmocka_unit_test(the_change_budget_bounds_a_window_and_not_a_loop),
        cmocka_unit_test(growth_under_pressure_is_free_of_the_change_budget),
        cmocka_unit_test(a_clock_that_goes_back_neither_forgets_nor_freezes),
        cmocka_unit_test(bounds_that_are_none_are_refused),
    };
    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
