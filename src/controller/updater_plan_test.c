/* updater_plan_test.c - what may be done for an object, rule by rule. */
#include "controller/updater_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/testing.h"

#define NOW_US  1769860800000000 /* 2026-01-31T12:00:00Z */
#define PODS    8u
#define MINUTES 60000000

/* An object, its target and its pods, as an API server would show them. */
struct scene {
    _Alignas(8) char intent[2048], target[512], pods[PODS][2048];
    char name[PODS][16], uid[PODS][16];
    struct aw__update_pod list[PODS];
    struct aw__update_facts facts;
    struct aw__update_memory memory;
    struct aw__update_plan plan;
};

static void load(char *buf, size_t size, const char *json,
                 enum aw_err (*project)(void *, const json_t *, void *, size_t, size_t *))
{
    size_t len;
    json_error_t error;
    json_t *object = json_loads(json, 0, &error);
    if (!object)
        fail_msg("%s in %s", error.text, json);
    assert_ok(project(NULL, object, buf, size, &len));
    json_decref(object);
}

static void set_intent(struct scene *scene, const char *mode, const char *recommendation,
                       const char *more)
{
    char json[1024];
    snprintf(
        json, sizeof json,
        "{\"metadata\":{\"generation\":3},\"spec\":{\"scaleTargetRef\":{\"name\":\"web\"},"
        "\"policy\":{\"updateMode\":\"%s\"},\"constraints\":{\"global\":{\"minReplicas\":1,"
        "\"maxReplicas\":10}}},\"status\":{\"observedGeneration\":3,\"recommendation\":{%s}%s}}",
        mode, recommendation, more);
    load(scene->intent, sizeof scene->intent, json, aw__mpa_intent_project);
    scene->facts.intent = (const struct aw__mpa_intent *)scene->intent;
}

static void set_target(struct scene *scene, int replicas)
{
    char json[256];
    snprintf(json, sizeof json,
             "{\"metadata\":{\"generation\":1},\"spec\":{\"replicas\":%d},\"status\":"
             "{\"observedGeneration\":1,\"replicas\":%d,\"readyReplicas\":%d,"
             "\"updatedReplicas\":%d}}",
             replicas, replicas, replicas, replicas);
    load(scene->target, sizeof scene->target, json, aw_kube_project_workload);
    scene->facts.target = (const struct aw_kube_workload *)scene->target;
}

/* `more` goes into the container, `status` into the status. */
static void set_pod(struct scene *scene, uint32_t i, const char *resources, const char *more,
                    const char *status)
{
    char json[1200];
    snprintf(
        json, sizeof json,
        "{\"metadata\":{\"name\":\"p%u\",\"creationTimestamp\":\"2026-01-31T10:00:00Z\"},"
        "\"spec\":{\"containers\":[{\"name\":\"app\",\"resources\":{%s}%s}]},\"status\":"
        "{\"phase\":\"Running\",\"qosClass\":\"Burstable\",\"conditions\":[{\"type\":\"Ready\","
        "\"status\":\"True\"}]%s}}",
        i, resources, more, status);
    load(scene->pods[i], sizeof scene->pods[i], json, aw_kube_project_pod);
    snprintf(scene->name[i], sizeof scene->name[i], "p%u", i);
    snprintf(scene->uid[i], sizeof scene->uid[i], "uid-%u", i);
    scene->list[i] = (struct aw__update_pod){scene->name[i], scene->uid[i],
                                             (const struct aw_kube_pod *)scene->pods[i]};
}

#define TIME      "\"time\":\"2026-01-31T11:59:00Z\""
#define BIGGER    "\"replicas\":3,\"cpu\":\"500m\",\"memory\":\"1Gi\",\"container\":\"app\"," TIME
#define SAME      "\"replicas\":3,\"cpu\":\"250m\",\"memory\":\"512Mi\",\"container\":\"app\"," TIME
#define RESOURCES "\"requests\":{\"cpu\":\"250m\",\"memory\":\"512Mi\"}"

/* Three ready pods of 250m and 512Mi; a server that resizes and a webhook that lives. */
static void open_scene(struct scene *scene, const char *mode, const char *recommendation)
{
    *scene = (struct scene){0};
    set_intent(scene, mode, recommendation, "");
    set_target(scene, 3);
    for (uint32_t i = 0; i < 3; i++)
        set_pod(scene, i, RESOURCES, "", "");
    scene->facts.pods = scene->list;
    scene->facts.pod_count = 3;
    scene->facts.can_resize = true;
    scene->facts.webhook_lives = true;
    scene->facts.pause_us = MINUTES;
    scene->facts.now_us = NOW_US;
}

static void plan(struct scene *scene)
{
    aw__update_plan(&scene->facts, &scene->memory, &scene->plan);
}

#define assert_nothing(scene, why)                                 \
    do {                                                           \
        plan(scene);                                               \
        assert_string_equal(aw__update_word((scene)->plan.reason), \
                            aw__update_word(AW__UPDATE_##why));    \
        assert_int_equal((scene)->plan.step_count, 0);             \
    } while (0)

#define assert_step(scene, what)                                                \
    do {                                                                        \
        plan(scene);                                                            \
        assert_string_equal(aw__update_word((scene)->plan.reason), "Updating"); \
        assert_int_equal((scene)->plan.step_count, 1);                          \
        assert_int_equal((scene)->plan.steps[0].action, AW__UPDATE_##what);     \
    } while (0)

static void nothing_is_done_unless_the_mode_asks_for_it(void **state)
{
    static const char *const modes[] = {"Off", "", "Initial", "auto", "Whatever"};
    struct scene scene;
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        open_scene(&scene, modes[i], BIGGER);
        assert_nothing(&scene, OFF);
    }
}

static void an_old_or_unread_or_frozen_object_changes_nothing(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", BIGGER);
    assert_step(&scene, RESIZE);
    scene.facts.now_us = NOW_US + 4 * MINUTES; /* five minutes after it was made: the last moment */
    assert_step(&scene, RESIZE);
    scene.facts.now_us += 1;
    assert_nothing(&scene, STALE);
    scene.facts.now_us = NOW_US - 3 * MINUTES;
    assert_nothing(&scene, SKEW);
    scene.facts.now_us = NOW_US;
    scene.facts.conflict = "HorizontalPodAutoscaler n/web";
    assert_nothing(&scene, CONFLICT);
    scene.facts.conflict = NULL;
    set_intent(&scene, "Auto", BIGGER,
               ",\"conditions\":[{\"type\":\"Frozen\",\"status\":\"True\"}]");
    assert_nothing(&scene, FROZEN);
    set_intent(&scene, "Auto", BIGGER,
               ",\"conditions\":[{\"type\":\"Frozen\",\"status\":\"False\"}]");
    assert_step(&scene, RESIZE);
    ((struct aw__mpa_intent *)(void *)scene.intent)->generation_seen = 2;
    assert_nothing(&scene, NOT_OBSERVED);
    set_intent(&scene, "Auto", "", "");
    assert_nothing(&scene, NONE_GIVEN);
}

static void replicas_beyond_the_bounds_are_refused(void **state)
{
    static const struct {
        const char *replicas;
        bool fine;
    } cases[] = {{"1", true}, {"10", true}, {"0", false}, {"11", false}, {"-4", true}};
    struct scene scene;
    char text[128];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_scene(&scene, "Auto", SAME);
        snprintf(text, sizeof text, "\"replicas\":%s," TIME, cases[i].replicas);
        set_intent(&scene, "Auto", text, "");
        plan(&scene);
        assert_int_equal(scene.plan.reason == AW__UPDATE_OUT_OF_BOUNDS, !cases[i].fine);
    }
}

static void a_target_that_is_missing_parked_rolling_or_crashing_is_left_alone(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", BIGGER);
    scene.facts.target = NULL;
    assert_nothing(&scene, NO_TARGET);
    set_target(&scene, 0);
    assert_nothing(&scene, PARKED);
    set_target(&scene, 3);
    struct aw_kube_workload *target = (void *)scene.target;
    target->replicas_updated = 2;
    assert_nothing(&scene, ROLLOUT);
    target->replicas_updated = 3;
    target->paused = true;
    assert_nothing(&scene, ROLLOUT);
    set_target(&scene, 3);
    set_pod(&scene, 1, RESOURCES, "",
            ",\"containerStatuses\":[{\"name\":\"app\",\"state\":{\"waiting\":"
            "{\"reason\":\"CrashLoopBackOff\"}}}]");
    assert_nothing(&scene, CRASH_LOOP);
}

static void what_grows_goes_first(void **state)
{
    struct scene scene;
    (void)state;
    /* more and smaller: first more */
    open_scene(&scene, "Auto", "\"replicas\":5,\"cpu\":\"100m\"," TIME);
    assert_step(&scene, SCALE);
    assert_int_equal(scene.plan.steps[0].replicas, 5);
    /* fewer and larger: first larger */
    open_scene(&scene, "Auto", "\"replicas\":2,\"cpu\":\"500m\"," TIME);
    assert_step(&scene, RESIZE);
    for (uint32_t i = 0; i < 3; i++)
        set_pod(&scene, i, "\"requests\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"}", "", "");
    assert_step(&scene, SCALE);
    assert_int_equal(scene.plan.steps[0].replicas, 2);
    /* larger is in the spec, and the node has not done it: still not fewer */
    set_pod(&scene, 2, "\"requests\":{\"cpu\":\"500m\",\"memory\":\"512Mi\"}", "",
            ",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},{\"type\":"
            "\"PodResizePending\",\"status\":\"True\",\"reason\":\"Deferred\"}]");
    assert_nothing(&scene, DEFERRED);
}

static void pending_pods_stop_everything_but_taking_them_away(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", "\"replicas\":5," TIME);
    set_pod(&scene, 2, RESOURCES, "", ",\"phase\":\"Pending\",\"conditions\":[]");
    assert_nothing(&scene, PENDING);
    open_scene(&scene, "Auto", BIGGER);
    set_pod(&scene, 2, RESOURCES, "", ",\"phase\":\"Pending\",\"conditions\":[]");
    assert_nothing(&scene, PENDING);
    open_scene(&scene, "Auto", "\"replicas\":1," TIME);
    set_pod(&scene, 2, RESOURCES, "", ",\"phase\":\"Pending\",\"conditions\":[]");
    assert_step(&scene, SCALE);
    assert_int_equal(scene.plan.steps[0].replicas, 2); /* those that are ready stay for now */
}

static void a_size_within_the_tolerance_is_left_alone(void **state)
{
    static const struct {
        const char *cpu, *memory;
        bool acts;
    } cases[] = {{"250m", "512Mi", false}, {"274m", "512Mi", false}, {"226m", "470Mi", false},
                 {"276m", "512Mi", true},  {"250m", "300Mi", true},  {"224m", "512Mi", true}};
    struct scene scene;
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "\"replicas\":3,\"cpu\":\"%s\",\"memory\":\"%s\"," TIME,
                 cases[i].cpu, cases[i].memory);
        open_scene(&scene, "Auto", text);
        plan(&scene);
        assert_int_equal(scene.plan.reason, cases[i].acts ? AW__UPDATE_GO : AW__UPDATE_DONE);
    }
}

static void a_quarter_of_the_pods_is_resized_at_a_time_and_the_furthest_off_first(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", "\"replicas\":8,\"cpu\":\"500m\"," TIME);
    set_target(&scene, 8);
    for (uint32_t i = 0; i < 8; i++)
        set_pod(&scene, i, i == 5 ? "\"requests\":{\"cpu\":\"100m\"}" : RESOURCES, "", "");
    scene.facts.pod_count = 8;
    plan(&scene);
    assert_int_equal(scene.plan.step_count, 2);
    assert_int_equal(scene.plan.steps[0].pod, 5);
    assert_int_equal(scene.plan.steps[0].size.request[AW__CPU], 500);
    /* one of them is on its way: one more may go */
    set_pod(&scene, 5, "\"requests\":{\"cpu\":\"500m\"}", "",
            ",\"conditions\":[{\"type\":\"PodResizeInProgress\",\"status\":\"True\"}]");
    plan(&scene);
    assert_int_equal(scene.plan.step_count, 1);
    assert_int_equal(scene.plan.steps[0].pod, 0);
    set_pod(&scene, 4, "\"requests\":{\"cpu\":\"500m\"}", "",
            ",\"conditions\":[{\"type\":\"PodResizeInProgress\",\"status\":\"True\"}]");
    assert_nothing(&scene, RESIZING);
}

static void a_resize_that_restarts_is_a_disruption(void **state)
{
    static const char policy[] = ",\"resizePolicy\":[{\"resourceName\":\"memory\","
                                 "\"restartPolicy\":\"RestartContainer\"}]";
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", BIGGER);
    for (uint32_t i = 0; i < 3; i++)
        set_pod(&scene, i, RESOURCES, policy, "");
    assert_step(&scene, RESIZE_RESTART);
    aw__update_done(&scene.memory, &scene.plan.steps[0], NOW_US);
    assert_nothing(&scene, SETTLING);
    scene.facts.now_us = NOW_US + MINUTES;
    assert_step(&scene, RESIZE_RESTART);
    /* more CPU alone restarts nothing */
    set_intent(&scene, "Auto", "\"replicas\":3,\"cpu\":\"500m\"," TIME, "");
    scene.facts.now_us = NOW_US;
    assert_step(&scene, RESIZE);
}

static void an_eviction_wants_a_webhook_and_two_ready_replicas(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", BIGGER);
    scene.facts.can_resize = false;
    assert_step(&scene, EVICT);
    scene.facts.webhook_lives = false;
    assert_nothing(&scene, NO_WEBHOOK);
    scene.facts.webhook_lives = true;
    set_pod(&scene, 1, RESOURCES, "", ",\"conditions\":[]");
    assert_nothing(&scene, NOT_READY);
    set_pod(&scene, 1, RESOURCES, "", "");
    ((struct aw_kube_pod *)(void *)scene.pods[0])->deleting = true;
    assert_nothing(&scene, UNSEEN);
    open_scene(&scene, "Recreate", "\"replicas\":1,\"cpu\":\"500m\"," TIME);
    set_target(&scene, 1);
    scene.facts.pod_count = 1;
    assert_nothing(&scene, TOO_FEW);
}

static void one_disruption_at_a_time(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Recreate", BIGGER); /* evicts though the server could resize */
    assert_step(&scene, EVICT);
    aw__update_done(&scene.memory, &scene.plan.steps[0], NOW_US);
    scene.facts.now_us = NOW_US + MINUTES - 1;
    assert_nothing(&scene, SETTLING);
    scene.facts.now_us = NOW_US + MINUTES;
    assert_step(&scene, EVICT);
}

static void an_annotation_keeps_a_pod_from_eviction(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Recreate", BIGGER);
    for (uint32_t i = 0; i < 3; i++)
        ((struct aw_kube_pod *)(void *)scene.pods[i])->keep = i != 1;
    assert_step(&scene, EVICT);
    assert_int_equal(scene.plan.steps[0].pod, 1);
    ((struct aw_kube_pod *)(void *)scene.pods[1])->keep = true;
    assert_nothing(&scene, KEPT);
}

static void evictions_without_effect_end(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Recreate", BIGGER);
    for (int i = 0; i < 2; i++) {
        assert_step(&scene, EVICT);
        aw__update_done(&scene.memory, &scene.plan.steps[0], scene.facts.now_us);
        scene.facts.now_us += MINUTES + 1;
        /* the new pod came with the old size: the webhook is not asked, or somebody undoes it */
        ((struct aw_kube_pod *)(void *)scene.pods[i])->created_us = scene.facts.now_us;
    }
    assert_nothing(&scene, FRUITLESS);
    const struct aw__update_memory memory = scene.memory;
    scene.facts.now_us += 61 * (int64_t)MINUTES; /* an hour later it may have been put right */
    ((struct aw__mpa_intent *)(void *)scene.intent)->time_us = scene.facts.now_us;
    assert_step(&scene, EVICT);
    scene.facts.now_us -= 61 * (int64_t)MINUTES;
    scene.memory = memory;
    set_intent(&scene, "Recreate", BIGGER, "");
    assert_nothing(&scene, FRUITLESS);
    /* another size is worth another try, a trembling one is not */
    set_intent(&scene, "Recreate", "\"replicas\":3,\"cpu\":\"510m\",\"memory\":\"1Gi\"," TIME, "");
    assert_nothing(&scene, FRUITLESS);
    set_intent(&scene, "Recreate", "\"replicas\":3,\"cpu\":\"900m\",\"memory\":\"1Gi\"," TIME, "");
    assert_step(&scene, EVICT);
}

static void an_eviction_that_helped_is_followed_by_the_next(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Recreate", BIGGER);
    for (uint32_t i = 0; i < 3; i++) {
        assert_step(&scene, EVICT);
        const uint32_t pod = scene.plan.steps[0].pod;
        assert_int_equal(pod, i);
        aw__update_done(&scene.memory, &scene.plan.steps[0], scene.facts.now_us);
        scene.facts.now_us += MINUTES + 1;
        set_pod(&scene, pod, "\"requests\":{\"cpu\":\"500m\",\"memory\":\"1Gi\"}", "", "");
        ((struct aw_kube_pod *)(void *)scene.pods[pod])->created_us = scene.facts.now_us;
    }
    assert_nothing(&scene, DONE);
    assert_int_equal(scene.memory.fruitless, 0);
}

#define INFEASIBLE                                                                              \
    ",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},{\"type\":\"PodResizePending\"," \
    "\"status\":\"True\",\"reason\":\"Infeasible\",\"lastTransitionTime\":"                     \
    "\"2026-01-31T11:50:00Z\"}]"
#define DEFERRED(since)                                                                         \
    ",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},{\"type\":\"PodResizePending\"," \
    "\"status\":\"True\",\"reason\":\"Deferred\",\"lastTransitionTime\":\"" since "\"}]"
#define LARGE "\"requests\":{\"cpu\":\"500m\",\"memory\":\"1Gi\"}"

static void a_resize_that_is_deferred_waits(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", BIGGER);
    for (uint32_t i = 0; i < 3; i++)
        set_pod(&scene, i, LARGE, "", DEFERRED("2026-01-31T11:58:00Z"));
    assert_nothing(&scene, DEFERRED);
    for (uint32_t i = 0; i < 3; i++)
        set_pod(&scene, i, LARGE, "", DEFERRED("2026-01-31T11:50:00Z"));
    assert_nothing(&scene, INFEASIBLE); /* for longer than five minutes */
}

static void what_a_node_cannot_hold_is_evicted_only_where_the_object_allows(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", BIGGER);
    for (uint32_t i = 0; i < 3; i++)
        set_pod(&scene, i, LARGE, "", i == 1 ? INFEASIBLE : "");
    assert_nothing(&scene, INFEASIBLE);
    set_intent(&scene, "InPlaceOrRecreate", BIGGER, "");
    assert_step(&scene, EVICT);
    assert_int_equal(scene.plan.steps[0].pod, 1);
}

static void what_is_infeasible_is_asked_again_only_for_less(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", "\"replicas\":3,\"cpu\":\"600m\",\"memory\":\"1Gi\"," TIME);
    for (uint32_t i = 0; i < 3; i++)
        set_pod(&scene, i, LARGE, "", INFEASIBLE);
    assert_nothing(&scene, INFEASIBLE);
    set_intent(&scene, "Auto", "\"replicas\":3,\"cpu\":\"490m\",\"memory\":\"1Gi\"," TIME, "");
    assert_nothing(&scene, INFEASIBLE); /* a little less is the same */
    set_intent(&scene, "Auto", "\"replicas\":3,\"cpu\":\"400m\",\"memory\":\"1Gi\"," TIME, "");
    assert_step(&scene, RESIZE);
}

static void what_the_server_refused_is_remembered_for_an_hour(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", BIGGER);
    for (uint32_t i = 0; i < 3; i++) {
        assert_step(&scene, RESIZE);
        aw__update_refused(&scene.memory, &scene.plan.steps[0],
                           scene.list[scene.plan.steps[0].pod].uid, AW__UPDATE_REFUSED, NOW_US);
    }
    assert_nothing(&scene, REFUSED);
    scene.list[1].uid = "another"; /* a new pod is another matter */
    assert_step(&scene, RESIZE);
    scene.list[1].uid = scene.uid[1];
    scene.facts.now_us = NOW_US + 60 * (int64_t)MINUTES;
    ((struct aw__mpa_intent *)(void *)scene.intent)->time_us = scene.facts.now_us;
    assert_step(&scene, RESIZE);
}

/* Every pod is refused its size for `reason`. */
static void refuse_all(struct scene *scene, enum aw__update_reason reason)
{
    for (uint32_t i = 0; i < 3; i++) {
        assert_step(scene, RESIZE);
        aw__update_refused(&scene->memory, &scene->plan.steps[0],
                           scene->list[scene->plan.steps[0].pod].uid, reason, NOW_US);
    }
}

static void what_the_server_says_no_node_can_hold_is_told_as_such(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "InPlaceOrRecreate", BIGGER);
    refuse_all(&scene, AW__UPDATE_INFEASIBLE);
    assert_step(&scene, EVICT); /* another node may be larger */
    set_intent(&scene, "Auto", BIGGER, "");
    assert_nothing(&scene, INFEASIBLE);
}

static void a_quota_evicts_nobody_and_is_asked_again_soon(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "InPlaceOrRecreate", BIGGER);
    refuse_all(&scene, AW__UPDATE_QUOTA);
    assert_nothing(&scene, QUOTA); /* a pod that goes might not come back */
    scene.facts.now_us = NOW_US + 5 * (int64_t)MINUTES;
    ((struct aw__mpa_intent *)(void *)scene.intent)->time_us = scene.facts.now_us;
    assert_step(&scene, RESIZE);
}

#define FAILING(since)                                                                             \
    ",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},{\"type\":\"PodResizeInProgress\"," \
    "\"status\":\"True\",\"reason\":\"Error\",\"lastTransitionTime\":\"" since "\"}]"
#define RUNNING                                                                                    \
    ",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},{\"type\":\"PodResizeInProgress\"," \
    "\"status\":\"True\",\"lastTransitionTime\":\"2026-01-31T11:58:00Z\"}]"

static void set_pods(struct scene *scene, const char *resources, const char *status)
{
    for (uint32_t i = 0; i < 3; i++)
        set_pod(scene, i, resources, "", status);
}

/* Less memory than is in use: the node says Error, and does it when the memory is freed. */
static void a_node_that_fails_to_shrink_a_pod_evicts_nobody(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "InPlaceOrRecreate", BIGGER);
    set_pods(&scene, LARGE, RUNNING); /* at first without a reason */
    assert_nothing(&scene, RESIZING);
    set_pods(&scene, LARGE, FAILING("2026-01-31T11:58:00Z"));
    assert_nothing(&scene, RESIZING);
    set_pods(&scene, LARGE, FAILING("2026-01-31T11:50:00Z"));
    assert_nothing(&scene, RESIZE_ERROR); /* for longer than five minutes: told */
    set_pods(&scene, LARGE, FAILING("2026-01-31T10:50:00Z"));
    assert_step(&scene, EVICT); /* for longer than an hour */
}

static void a_resize_that_hangs_is_given_up_for_another_size(void **state)
{
    static const char more[] = "\"replicas\":3,\"cpu\":\"500m\",\"memory\":\"2Gi\"," TIME;
    static const char less[] = "\"replicas\":3,\"cpu\":\"500m\",\"memory\":\"700Mi\"," TIME;
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", more);
    set_pods(&scene, LARGE, RUNNING);
    assert_nothing(&scene, RESIZING); /* a moment */
    set_pods(&scene, LARGE, FAILING("2026-01-31T11:58:00Z"));
    assert_step(&scene, RESIZE); /* who needs more does not wait for what cannot be done */
    set_pods(&scene, LARGE, DEFERRED("2026-01-31T11:58:00Z"));
    assert_nothing(&scene, DEFERRED);
    set_intent(&scene, "Auto", less, "");
    assert_step(&scene, RESIZE); /* for less there may be room */
}

static void sizes_are_asked_within_the_limit_ranges(void **state)
{
    struct aw__limit_range limits = aw__limit_range_none;
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", BIGGER);
    limits.max[AW__CPU] = 400;
    limits.pod_max[AW__MEMORY] = (int64_t)768 << 20;
    scene.facts.limits = &limits;
    assert_step(&scene, RESIZE);
    assert_int_equal(scene.plan.steps[0].size.request[AW__CPU], 400);
    assert_int_equal(scene.plan.steps[0].size.request[AW__MEMORY], (int64_t)768 << 20);
    set_pods(&scene, "\"requests\":{\"cpu\":\"400m\",\"memory\":\"768Mi\"}", "");
    assert_nothing(&scene, DONE); /* as large as it may be */
}

static void a_resize_never_changes_the_class_of_a_pod(void **state)
{
    static const struct {
        const char *qos, *resources, *recommendation, *why;
        bool acts;
    } cases[] = {
        {"Guaranteed",
         "\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\"},\"limits\":{\"cpu\":\"1\","
         "\"memory\":\"1Gi\"}",
         "\"cpu\":\"2\",\"memory\":\"2Gi\"", "request and limit go together", true},
        {"Guaranteed",
         "\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\"},\"limits\":{\"cpu\":\"1\","
         "\"memory\":\"1Gi\"}",
         "\"cpu\":\"2\"", "one of two resources is enough", true},
        {"Burstable",
         "\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\"},\"limits\":{\"cpu\":\"2\","
         "\"memory\":\"1Gi\"}",
         "\"cpu\":\"2\"", "the ratio keeps them apart", true},
        {"Burstable",
         "\"requests\":{\"cpu\":\"0\",\"memory\":\"1Gi\"},\"limits\":{\"cpu\":\"2\","
         "\"memory\":\"1Gi\"}",
         "\"cpu\":\"3\"", "capped at its limit it would be Guaranteed", false},
        {"BestEffort", "", "\"cpu\":\"1\"", "any amount makes it Burstable", false},
        {"", RESOURCES, "\"cpu\":\"1\"", "the class is not known yet", false},
    };
    struct scene scene;
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "\"replicas\":1,%s," TIME, cases[i].recommendation);
        open_scene(&scene, "Auto", text);
        set_target(&scene, 1);
        scene.facts.pod_count = 1;
        snprintf(text, sizeof text, ",\"qosClass\":\"%s\"", cases[i].qos);
        set_pod(&scene, 0, cases[i].resources, "", text);
        plan(&scene);
        if ((scene.plan.reason == AW__UPDATE_GO) != cases[i].acts)
            fail_msg("%s: %s", cases[i].why, aw__update_word(scene.plan.reason));
        if (!cases[i].acts)
            assert_int_equal(scene.plan.reason, AW__UPDATE_QOS);
    }
}

static void a_container_that_is_not_there_is_told(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", "\"replicas\":3,\"cpu\":\"1\",\"container\":\"other\"," TIME);
    assert_nothing(&scene, NO_CONTAINER);
    assert_true(aw__update_told(scene.plan.reason));
}

static void half_a_view_of_the_pods_sizes_nothing(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, "Auto", BIGGER);
    scene.facts.pod_count = 2;
    assert_nothing(&scene, UNSEEN);
}

AW_TEST_GROUP("controller-updater-plan")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_done_unless_the_mode_asks_for_it),
        cmocka_unit_test(an_old_or_unread_or_frozen_object_changes_nothing),
        cmocka_unit_test(replicas_beyond_the_bounds_are_refused),
        cmocka_unit_test(a_target_that_is_missing_parked_rolling_or_crashing_is_left_alone),
        cmocka_unit_test(what_grows_goes_first),
        cmocka_unit_test(pending_pods_stop_everything_but_taking_them_away),
        cmocka_unit_test(a_size_within_the_tolerance_is_left_alone),
        cmocka_unit_test(a_quarter_of_the_pods_is_resized_at_a_time_and_the_furthest_off_first),
        cmocka_unit_test(a_resize_that_restarts_is_a_disruption),
        cmocka_unit_test(an_eviction_wants_a_webhook_and_two_ready_replicas),
        cmocka_unit_test(one_disruption_at_a_time),
        cmocka_unit_test(an_annotation_keeps_a_pod_from_eviction),
        cmocka_unit_test(evictions_without_effect_end),
        cmocka_unit_test(an_eviction_that_helped_is_followed_by_the_next),
        cmocka_unit_test(a_resize_that_is_deferred_waits),
        cmocka_unit_test(what_a_node_cannot_hold_is_evicted_only_where_the_object_allows),
        cmocka_unit_test(what_is_infeasible_is_asked_again_only_for_less),
        cmocka_unit_test(what_the_server_refused_is_remembered_for_an_hour),
        cmocka_unit_test(what_the_server_says_no_node_can_hold_is_told_as_such),
        cmocka_unit_test(a_quota_evicts_nobody_and_is_asked_again_soon),
        cmocka_unit_test(a_node_that_fails_to_shrink_a_pod_evicts_nobody),
        cmocka_unit_test(a_resize_that_hangs_is_given_up_for_another_size),
        cmocka_unit_test(sizes_are_asked_within_the_limit_ranges),
        cmocka_unit_test(a_resize_never_changes_the_class_of_a_pod),
        cmocka_unit_test(a_container_that_is_not_there_is_told),
        cmocka_unit_test(half_a_view_of_the_pods_sizes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
