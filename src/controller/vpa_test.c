/* vpa_test.c - stock VerticalPodAutoscalers that name us, from samples to their status. */
#include "base/units.h"
#include "controller/recommender_testing.h"
#include "controller/vpa_internal.h"

#define VPAS        "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
#define DEFINITIONS "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

struct vpa_world {
    struct rec_world w;
    const char *memory_file;
    bool usage; /* of pods is told */
    int64_t web_millicores, web_mib, side_millicores, side_mib;
};

static void define(struct vpa_world *v, bool status)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"metadata\":{\"name\":\"verticalpodautoscalers.autoscaling.k8s.io\"},\"spec\":{"
             "\"group\":\"autoscaling.k8s.io\",\"names\":{\"plural\":\"verticalpodautoscalers\"},"
             "\"versions\":[{\"name\":\"v1\"%s}]}}",
             status ? ",\"subresources\":{\"status\":{}}" : "");
    aw_fake_apiserver_set(v->w.api.twin, DEFINITIONS, text);
}

/* `spec` is JSON of members behind the target, beginning with a comma; "" is none. */
static void put_vpa(struct vpa_world *v, const char *name, const char *target, const char *spec,
                    const char *status)
{
    char text[4096];
    snprintf(text, sizeof text,
             "{\"apiVersion\":\"autoscaling.k8s.io/v1\",\"kind\":\"VerticalPodAutoscaler\","
             "\"metadata\":{\"namespace\":\"shop\",\"name\":\"%s\",\"generation\":1},"
             "\"spec\":{\"targetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\","
             "\"name\":\"%s\"}%s}%s%s}",
             name, target, spec, *status ? ",\"status\":" : "", status);
    aw_fake_apiserver_set(v->w.api.twin, VPAS, text);
}
#define OURS ",\"recommenders\":[{\"name\":\"aware\"}]"

/* A pod of two containers; `killed` is when web ran out of memory, "": it did not. */
static void put_pair(struct vpa_world *v, const char *app, int n, const char *killed)
{
    char text[2048], last[200] = "";
    if (*killed)
        snprintf(last, sizeof last,
                 ",\"lastState\":{\"terminated\":{\"reason\":\"OOMKilled\",\"finishedAt\":\"%s\"}}",
                 killed);
    snprintf(text, sizeof text,
             "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"%s-77-%d\",\"uid\":\"uid-%s-%d\","
             "\"creationTimestamp\":\"2026-01-31T10:00:00Z\",\"labels\":{\"app\":\"%s\"},"
             "\"ownerReferences\":[{\"kind\":\"ReplicaSet\",\"name\":\"%s-77\",\"uid\":\"u\","
             "\"controller\":true}]},\"spec\":{\"nodeName\":\"n1\",\"containers\":["
             "{\"name\":\"web\",\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\"}}},"
             "{\"name\":\"side\",\"resources\":{}}]},\"status\":{\"phase\":\"Running\","
             "\"startTime\":\"2026-01-31T10:00:00Z\",\"conditions\":[{\"type\":\"Ready\","
             "\"status\":\"True\",\"lastTransitionTime\":\"2026-01-31T10:00:05Z\"}],"
             "\"containerStatuses\":[{\"name\":\"web\",\"restartCount\":0,\"ready\":true,"
             "\"state\":{\"running\":{}}%s}]}}",
             app, n, app, n, app, app, last);
    aw_fake_apiserver_set(v->w.api.twin, PODS, text);
}

static void put_web(struct vpa_world *v, int replicas)
{
    put_deployment(&v->w, "web", replicas);
    for (int i = 0; i < replicas; i++)
        put_pair(v, "web", i, "");
}

static void tell_usage(struct vpa_world *v)
{
    const struct aw_kube_item *item;
    char when[AW_KUBE_TIME_MAX], text[800];
    uint32_t at = 0;
    aw_kube_time_print(v->w.api.clock.wall_us, when, sizeof when);
    while (v->usage && (item = aw__cluster_view_pod_walk(v->w.r->scene, &at))) {
        snprintf(
            text, sizeof text,
            "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"%s\"},\"timestamp\":\"%s\","
            "\"window\":\"30s\",\"containers\":[{\"name\":\"web\",\"usage\":{\"cpu\":\"%lldm\","
            "\"memory\":\"%lldMi\"}},{\"name\":\"side\",\"usage\":{\"cpu\":\"%lldm\","
            "\"memory\":\"%lldMi\"}}]}",
            strchr(item->key, '/') + 1, when, (long long)v->web_millicores, (long long)v->web_mib,
            (long long)v->side_millicores, (long long)v->side_mib);
        aw_fake_apiserver_set(v->w.api.twin, USAGE, text);
    }
}

static void vpa_open(struct vpa_world *v)
{
    *v = (struct vpa_world){
        .usage = true, .web_millicores = 400, .web_mib = 600, .side_millicores = 5, .side_mib = 20};
    rec_open(&v->w);
    v->w.measured = false;
}

static void vpa_begin(struct vpa_world *v)
{
    struct aw_recommender_config config = {.kube = v->w.api.kube,
                                           .server = {.events = "v1", .metrics = "v1beta1"},
                                           .metrics = v->w.metrics,
                                           .store = &v->w.store,
                                           .clock = &v->w.api.clock.clock,
                                           .leads = rec_leads,
                                           .ctx = &v->w,
                                           .vpa_memory = v->memory_file,
                                           .objects_max = 64,
                                           .pods_max = 256};
    assert_ok(aw_recommender_new(&v->w.r, &config, NULL, NULL));
    rec_until(&v->w, aw_recommender_synced(v->w.r));
    rec_synced(&v->w);
}

static const struct aw__vpas_counts *counts(const struct vpa_world *v)
{
    return aw__vpas_counts(v->w.r->vpas);
}

/* Rounds of a minute each. */
static void minutes(struct vpa_world *v, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t before = counts(v)->rounds;
        tell_usage(v);
        for (int quarter = 0; quarter < 4; quarter++)
            rec_pass(&v->w, 15 * S);
        rec_until(&v->w, counts(v)->rounds > before);
    }
}

/* The first round comes when the kind was found and listed. */
static void first_round(struct vpa_world *v)
{
    tell_usage(v);
    rec_until(&v->w, counts(v)->rounds > 0);
}

static json_t *vpa_status(struct vpa_world *v, const char *name)
{
    json_t *object = aw_fake_apiserver_get(v->w.api.twin, VPAS, "shop", name);
    json_t *status = json_incref(json_object_get(object, "status"));
    json_decref(object);
    return status;
}

static struct aw__vpa_advices advices_of(struct vpa_world *v, const char *name)
{
    struct aw__vpa_advices advices;
    json_t *status = vpa_status(v, name);
    aw__vpa_advices_read(status, &advices);
    json_decref(status);
    return advices;
}

/* A condition as "True", "False" or "" where it is not there. */
static void assert_condition(struct vpa_world *v, const char *name, const char *type,
                             const char *status)
{
    char path[128];
    json_t *found = vpa_status(v, name);
    snprintf(path, sizeof path, "conditions[type=%s].status", type);
    if (strcmp(aw_kube_text_at(found, path), status) != 0)
        fail_msg("%s of %s: expected '%s', found '%s'", type, name, status,
                 aw_kube_text_at(found, path));
    json_decref(found);
}

static int64_t target_of(struct vpa_world *v, const char *container, enum aw_vpa_resource resource)
{
    const struct aw__vpa_advices advices = advices_of(v, "web");
    const struct aw__vpa_advice *advice = aw__vpa_advice_of(&advices, container);
    return advice ? advice->amount[AW__VPA_TARGET][resource] : -1;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void an_object_that_names_us_is_recommended_for_and_others_are_left_alone(void **state)
{
    (void)state;
    struct vpa_world v;
    vpa_open(&v);
    define(&v, true);
    put_web(&v, 2);
    put_vpa(&v, "web", "web", OURS, "");
    put_vpa(&v, "stock", "web", "", "");
    put_vpa(&v, "theirs", "web", ",\"recommenders\":[{\"name\":\"theirs\"}]", "");
    vpa_begin(&v);
    first_round(&v);
    minutes(&v, 3);
    const struct aw__vpa_advices found = advices_of(&v, "web");
    assert_int_equal(found.count, 2);
    const struct aw__vpa_advice *side = &found.item[0], *web = &found.item[1];
    assert_string_equal(side->container, "side");
    assert_string_equal(web->container, "web");
    /* the bucket that holds 0.4 cores ends at 0.414, and 15 % more is 477 */
    assert_in_range(web->amount[AW__VPA_TARGET][AW_VPA_CPU], 460, 510);
    assert_in_range(web->amount[AW__VPA_TARGET][AW_VPA_MEMORY], 690 * AW_MIB, 760 * AW_MIB);
    /* half of 25 millicores and 250 MiB: what a pod has at least, over two containers */
    assert_int_equal(side->amount[AW__VPA_TARGET][AW_VPA_CPU], 12);
    assert_int_equal(side->amount[AW__VPA_TARGET][AW_VPA_MEMORY], 125 * AW_MIB);
    for (int r = 0; r < AW_VPA_RESOURCE_COUNT; r++) {
        assert_true(web->amount[AW__VPA_LOWER][r] <= web->amount[AW__VPA_TARGET][r]);
        assert_true(web->amount[AW__VPA_UPPER][r] > web->amount[AW__VPA_TARGET][r]);
        assert_int_equal(web->amount[AW__VPA_UNCAPPED][r], web->amount[AW__VPA_TARGET][r]);
    }
    assert_condition(&v, "web", "RecommendationProvided", "True");
    assert_condition(&v, "web", "LowConfidence", "True");
    assert_condition(&v, "web", "NoPodsMatched", "");
    assert_null(vpa_status(&v, "stock"));
    assert_null(vpa_status(&v, "theirs"));
    /* all that was written is the status of that one */
    assert_int_equal(aw_fake_apiserver_count(v.w.api.twin, "PATCH "),
                     aw_fake_apiserver_count(v.w.api.twin,
                                             "PATCH /apis/autoscaling.k8s.io/v1/namespaces/"
                                             "shop/verticalpodautoscalers/web/status"));
    assert_int_equal(aw_fake_apiserver_count(v.w.api.twin, "PUT "), 0);
    json_t *body = aw_fake_apiserver_body(v.w.api.twin, "PATCH ");
    assert_int_equal(json_object_size(body), 2); /* the version that it was made from, and status */
    assert_int_equal(json_object_size(json_object_get(body, "metadata")), 1);
    json_decref(body);
    rec_close(&v.w);
}

static void policies_of_containers_are_kept(void **state)
{
    (void)state;
    static const char policies[] =
        OURS ",\"resourcePolicy\":{\"containerPolicies\":["
             "{\"containerName\":\"side\",\"mode\":\"Off\"},"
             "{\"containerName\":\"*\",\"minAllowed\":{\"memory\":\"2Gi\"},\"maxAllowed\":{\"cpu\":"
             "0.3,\"memory\":\"4Gi\"},\"controlledValues\":\"RequestsOnly\"}]}";
    static const char cpu_alone[] =
        OURS ",\"resourcePolicy\":{\"containerPolicies\":["
             "{\"containerName\":\"*\",\"controlledResources\":[\"cpu\"]}]}";
    struct vpa_world v;
    vpa_open(&v);
    define(&v, true);
    put_web(&v, 1);
    put_vpa(&v, "web", "web", policies, "");
    put_deployment(&v.w, "cpu", 1);
    put_pair(&v, "cpu", 0, "");
    put_vpa(&v, "cpu", "cpu", cpu_alone, "");
    put_vpa(&v, "bad", "web",
            OURS ",\"resourcePolicy\":{\"containerPolicies\":[{\"containerName\":\"*\","
                 "\"minAllowed\":{\"cpu\":\"much\"}}]}",
            "");
    vpa_begin(&v);
    first_round(&v);
    minutes(&v, 1);
    const struct aw__vpa_advices web = advices_of(&v, "web");
    assert_int_equal(web.count, 1); /* side is Off */
    assert_string_equal(web.item[0].container, "web");
    assert_int_equal(web.item[0].amount[AW__VPA_TARGET][AW_VPA_CPU], 300);
    assert_int_equal(web.item[0].amount[AW__VPA_TARGET][AW_VPA_MEMORY], 2048 * AW_MIB);
    assert_int_equal(web.item[0].amount[AW__VPA_UPPER][AW_VPA_MEMORY], 4096 * AW_MIB);
    assert_true(web.item[0].amount[AW__VPA_UNCAPPED][AW_VPA_CPU] > 300);
    assert_condition(&v, "bad", "ConfigUnsupported", "True");
    assert_condition(&v, "bad", "RecommendationProvided", "False");
    const struct aw__vpa_advices cpu = advices_of(&v, "cpu");
    assert_int_equal(cpu.count, 2);
    assert_int_equal(cpu.item[1].amount[AW__VPA_TARGET][AW_VPA_MEMORY], -1);
    assert_true(cpu.item[1].amount[AW__VPA_TARGET][AW_VPA_CPU] > 400);
    rec_close(&v.w);
}

static void the_kind_may_come_later_and_go_again(void **state)
{
    (void)state;
    struct vpa_world v;
    vpa_open(&v);
    put_web(&v, 1);
    vpa_begin(&v);
    put_mpa(&v.w, "web", "web", 1, BOUNDS);
    rec_rounds(&v.w, 8);
    assert_null(v.w.r->vpas->informer);
    define(&v, true);
    put_vpa(&v, "web", "web", OURS, "");
    for (uint32_t i = 0; i < 40 && counts(&v)->provided == 0; i++) {
        tell_usage(&v);
        rec_rounds(&v.w, 1);
    }
    assert_int_equal(counts(&v)->provided, 1);
    /* deleted with all of its objects */
    aw_fake_apiserver_remove(v.w.api.twin, DEFINITIONS, "",
                             "verticalpodautoscalers.autoscaling.k8s.io");
    aw_fake_apiserver_fault(v.w.api.twin, &(struct aw_fake_apiserver_fault){.match = "GET " VPAS,
                                                                            .count = UINT32_MAX,
                                                                            .status = 404,
                                                                            .reason = "NotFound"});
    aw_fake_apiserver_end_watches(v.w.api.twin);
    for (uint32_t i = 0; i < 80 && v.w.r->vpas->informer; i++)
        rec_rounds(&v.w, 1);
    assert_null(v.w.r->vpas->informer);
    assert_true(says(&v.w, "web", AW_MPA_ABLE_TO_SCALE, AW_MPA_TRUE, NULL)); /* others go on */
    rec_close(&v.w);
}

static void without_a_status_of_its_own_the_object_is_patched(void **state)
{
    (void)state;
    struct vpa_world v;
    vpa_open(&v);
    define(&v, false);
    put_web(&v, 1);
    put_vpa(&v, "web", "web", OURS, "");
    vpa_begin(&v);
    first_round(&v);
    minutes(&v, 1);
    assert_true(target_of(&v, "web", AW_VPA_CPU) > 400);
    assert_true(aw_fake_apiserver_count(v.w.api.twin,
                                        "PATCH /apis/autoscaling.k8s.io/v1/namespaces/shop/"
                                        "verticalpodautoscalers/web?") > 0);
    assert_int_equal(aw_fake_apiserver_count(v.w.api.twin,
                                             "PATCH /apis/autoscaling.k8s.io/v1/namespaces/"
                                             "shop/verticalpodautoscalers/web/status"),
                     0);
    rec_close(&v.w);
}

/* The Deployment web, its object, and five minutes in which its pods were looked at. */
static void vpa_settled(struct vpa_world *v)
{
    vpa_open(v);
    define(v, true);
    put_web(v, 2);
    put_vpa(v, "web", "web", OURS, "");
    vpa_begin(v);
    first_round(v);
    minutes(v, 5);
}

static void missing_usage_never_shrinks_what_is_recommended(void **state)
{
    (void)state;
    struct vpa_world v;
    vpa_settled(&v);
    const int64_t cpu = target_of(&v, "web", AW_VPA_CPU);
    const int64_t memory = target_of(&v, "web", AW_VPA_MEMORY);
    assert_true(cpu > 400 && memory > 600 * AW_MIB);
    aw_fake_apiserver_fault(
        v.w.api.twin, &(struct aw_fake_apiserver_fault){
                          .match = "GET /apis/metrics.k8s.io", .count = UINT32_MAX, .status = 503});
    minutes(&v, 10);
    assert_true(counts(&v)->reads_failed >= 10);
    assert_int_equal(target_of(&v, "web", AW_VPA_CPU), cpu);
    assert_int_equal(target_of(&v, "web", AW_VPA_MEMORY), memory);
    aw_fake_apiserver_clear_faults(v.w.api.twin);
    v.usage = false; /* answered, and nothing new in it */
    minutes(&v, 5);
    assert_int_equal(target_of(&v, "web", AW_VPA_CPU), cpu);
    /* no pods: what is known stays, and the condition says so */
    put_deployment(&v.w, "web", 0);
    aw_fake_apiserver_remove(v.w.api.twin, PODS, "shop", "web-77-0");
    aw_fake_apiserver_remove(v.w.api.twin, PODS, "shop", "web-77-1");
    minutes(&v, 3);
    assert_condition(&v, "web", "NoPodsMatched", "True");
    assert_condition(&v, "web", "RecommendationProvided", "True");
    assert_int_equal(target_of(&v, "web", AW_VPA_MEMORY), memory);
    rec_close(&v.w);
}

static void a_restart_goes_on_where_it_was(void **state)
{
    (void)state;
    char folder[] = "/tmp/aware-vpa-XXXXXX", file[64];
    struct vpa_world v;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/vpas.json", folder);
    vpa_open(&v);
    v.memory_file = file;
    define(&v, true);
    put_web(&v, 2);
    put_vpa(&v, "web", "web", OURS, "");
    vpa_begin(&v);
    first_round(&v);
    minutes(&v, 5);
    const int64_t memory = target_of(&v, "web", AW_VPA_MEMORY);
    const struct aw_vpa_aggregate *known = &v.w.r->vpas->object[0]->part[0]->aggregate;
    const uint64_t samples = known->sample_count;
    const int64_t first_us = known->first_sample_us;
    assert_true(samples >= 10);
    assert_ok(aw__vpas_save(v.w.r->vpas, file, NULL));
    aw_recommender_free(v.w.r);
    v.web_mib = 100; /* it needs less by now; a day ago it did not */
    vpa_begin(&v);
    first_round(&v);
    minutes(&v, 2);
    known = &v.w.r->vpas->object[0]->part[0]->aggregate;
    assert_true(known->sample_count > samples);
    assert_int_equal(known->first_sample_us, first_us);
    assert_int_equal(target_of(&v, "web", AW_VPA_MEMORY), memory);
    unlink(file);
    rmdir(folder);
    rec_close(&v.w);
}

static void who_begins_without_memory_undercuts_nothing_for_a_day(void **state)
{
    (void)state;
    static const char stands[] =
        "{\"recommendation\":{\"containerRecommendations\":[{\"containerName\":\"web\",\"target\":{"
        "\"cpu\":\"2\",\"memory\":\"3Gi\"},\"lowerBound\":{\"cpu\":\"1\",\"memory\":\"2Gi\"},"
        "\"upperBound\":{\"cpu\":\"3\",\"memory\":\"4Gi\"},\"uncappedTarget\":{\"cpu\":\"2\","
        "\"memory\":\"3Gi\"}}]},\"conditions\":[{\"type\":\"FetchingHistory\",\"status\":\"True\","
        "\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}";
    struct vpa_world v;
    vpa_open(&v);
    define(&v, true);
    put_web(&v, 2);
    put_vpa(&v, "web", "web", OURS, stands);
    vpa_begin(&v);
    v.usage = false;
    first_round(&v);
    minutes(&v, 2);
    assert_int_equal(target_of(&v, "web", AW_VPA_CPU), 2000); /* nothing is known: it stands */
    v.usage = true;
    minutes(&v, 5);
    assert_int_equal(target_of(&v, "web", AW_VPA_CPU), 2000);
    assert_int_equal(target_of(&v, "web", AW_VPA_MEMORY), 3072 * AW_MIB);
    assert_condition(&v, "web", "FetchingHistory", "True"); /* somebody else's, and kept */
    /* a day later, what was seen counts */
    struct aw__vpa_part *part = v.w.r->vpas->object[0]->part[0];
    part->since_us -= AW__VPA_FLOOR_US;
    minutes(&v, 2);
    assert_in_range(target_of(&v, "web", AW_VPA_CPU), 460, 510);
    rec_close(&v.w);
}

/* A rate needs two scrapes, its time one: of a container that has just begun there is a time
 * without a value. */
static void half_an_answer_is_no_sample_and_shrinks_nothing(void **state)
{
    (void)state;
    struct vpa_world v;
    vpa_settled(&v);
    struct aw__vpas *vpas = v.w.r->vpas;
    struct aw__vpa *object = vpas->object[0];
    struct aw__vpa_part *part = object->part[0];
    const uint64_t samples = part->aggregate.sample_count;
    for (uint32_t i = 0; i < vpas->usage.samples.places; i++) {
        struct aw__usage_sample *sample = aw_hash_table_at(&vpas->usage.samples, i);
        if (!sample)
            continue;
        sample->cpu_millicores = sample->memory_bytes = -1;
        sample->cpu_at_us += 60000000;
    }
    aw__vpa_sample(vpas, object);
    assert_int_equal(part->aggregate.sample_count, samples);
    /* and an amount of which nothing was ever seen stays as it stands, or is not said */
    const int64_t memory = target_of(&v, "web", AW_VPA_MEMORY);
    aw_histogram_reset(&part->aggregate.usage[AW_VPA_MEMORY], &vpas->logic.shape[AW_VPA_MEMORY]);
    (void)aw__vpa_recommend(vpas, object);
    const struct aw__vpa_advice *now = aw__vpa_advice_of(&vpas->now, part->name);
    assert_int_equal(now->amount[AW__VPA_TARGET][AW_VPA_MEMORY], memory);
    assert_true(now->amount[AW__VPA_TARGET][AW_VPA_CPU] > 400);
    vpas->was.count = 0;
    (void)aw__vpa_recommend(vpas, object);
    now = aw__vpa_advice_of(&vpas->now, part->name);
    assert_int_equal(now->amount[AW__VPA_TARGET][AW_VPA_MEMORY], -1);
    rec_close(&v.w);
}

static void after_a_gap_what_stands_is_not_undercut(void **state)
{
    (void)state;
    struct vpa_world v;
    vpa_settled(&v);
    struct aw__vpa_part *part = v.w.r->vpas->object[0]->part[0];
    const int64_t since_us = part->since_us, cpu = target_of(&v, "web", AW_VPA_CPU);
    assert_int_equal(part->floor[AW_VPA_CPU], -1);
    v.usage = false;
    minutes(&v, AW__VPA_GAP_US / 60000000 + 2);
    v.usage = true;
    v.web_millicores = 10;
    minutes(&v, 3);
    assert_true(part->since_us > since_us);
    assert_in_range(part->floor[AW_VPA_CPU], cpu * 9 / 10, cpu * 11 / 10);
    aw_histogram_reset(&part->aggregate.usage[AW_VPA_CPU],
                       &v.w.r->vpas->logic.shape[AW_VPA_CPU]); /* as if the past had faded */
    minutes(&v, 5);
    assert_true(target_of(&v, "web", AW_VPA_CPU) >= part->floor[AW_VPA_CPU]);
    rec_close(&v.w);
}

static void where_rules_cannot_be_read_what_stands_stays(void **state)
{
    (void)state;
    static const char stands[] =
        "{\"recommendation\":{\"containerRecommendations\":[{\"containerName\":\"web\",\"target\":{"
        "\"cpu\":\"2\",\"memory\":\"3Gi\"}}]}}";
    struct vpa_world v;
    vpa_settled(&v);
    assert_in_range(target_of(&v, "web", AW_VPA_CPU), 400, 600);
    put_vpa(&v, "web", "web",
            OURS ",\"resourcePolicy\":{\"containerPolicies\":[{\"containerName\":\"web\","
                 "\"minAllowed\":{\"cpu\":\"three\"}}]}",
            stands);
    minutes(&v, 3);
    assert_int_equal(target_of(&v, "web", AW_VPA_CPU), 2000);
    assert_int_equal(target_of(&v, "web", AW_VPA_MEMORY), 3072 * AW_MIB);
    rec_close(&v.w);
}

static void running_out_of_memory_raises_the_target(void **state)
{
    (void)state;
    struct vpa_world v;
    char when[AW_KUBE_TIME_MAX];
    vpa_open(&v);
    define(&v, true);
    put_web(&v, 1);
    put_vpa(&v, "web", "web", OURS, "");
    vpa_begin(&v);
    first_round(&v);
    minutes(&v, 2);
    const int64_t before = target_of(&v, "web", AW_VPA_MEMORY);
    aw_kube_time_print(v.w.api.clock.wall_us, when, sizeof when);
    put_pair(&v, "web", 0, when);
    minutes(&v, 2);
    const int64_t after = target_of(&v, "web", AW_VPA_MEMORY);
    assert_true(after > before);
    assert_true(after > 1024 * AW_MIB); /* more than the request that was too little */
    minutes(&v, 3);                     /* the same kill is told in every round, and counts once */
    assert_int_equal(target_of(&v, "web", AW_VPA_MEMORY), after);
    rec_close(&v.w);
}

static void little_is_written_when_little_changes(void **state)
{
    (void)state;
    struct vpa_world v;
    vpa_open(&v);
    define(&v, true);
    put_web(&v, 2);
    put_vpa(&v, "web", "web", OURS, "");
    vpa_begin(&v);
    first_round(&v);
    minutes(&v, 30); /* bounds narrow quickly at first */
    const uint64_t before = counts(&v)->writes;
    minutes(&v, 30);
    const uint64_t writes = counts(&v)->writes - before;
    if (writes > 7)
        fail_msg("%u writes in 30 rounds", (unsigned)writes);
    rec_close(&v.w);
}

static void what_is_wrong_with_a_target_is_said(void **state)
{
    (void)state;
    struct vpa_world v;
    vpa_open(&v);
    define(&v, true);
    put_web(&v, 1);
    put_vpa(&v, "web", "web", OURS, "");
    put_vpa(&v, "nobody", "nobody", OURS, "");
    aw_fake_apiserver_set(v.w.api.twin, VPAS,
                          "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"blank\"},\"spec\":{"
                          "\"recommenders\":[{\"name\":\"aware\"}]}}");
    vpa_begin(&v);
    first_round(&v);
    minutes(&v, 1);
    assert_condition(&v, "nobody", "ConfigUnsupported", "True");
    assert_condition(&v, "blank", "ConfigUnsupported", "True");
    assert_condition(&v, "web", "RecommendationProvided", "True");
    put_deployment(&v.w, "nobody", 1);
    put_pair(&v, "nobody", 0, "");
    minutes(&v, 3);
    assert_condition(&v, "nobody", "ConfigUnsupported", "");
    assert_condition(&v, "nobody", "RecommendationProvided", "True");
    rec_close(&v.w);
}

static void a_status_that_somebody_else_wrote_is_made_anew(void **state)
{
    (void)state;
    struct vpa_world v;
    vpa_open(&v);
    define(&v, true);
    put_web(&v, 1);
    put_vpa(&v, "web", "web", OURS, "");
    aw_fake_apiserver_fault(v.w.api.twin,
                            &(struct aw_fake_apiserver_fault){.match = "PATCH "
                                                                       "/apis/autoscaling.k8s.io",
                                                              .count = 1,
                                                              .status = 409,
                                                              .reason = "Conflict"});
    vpa_begin(&v);
    first_round(&v);
    assert_int_equal(counts(&v)->conflicts, 1);
    minutes(&v, 1);
    assert_true(target_of(&v, "web", AW_VPA_CPU) > 400);
    rec_close(&v.w);
}

static void who_does_not_lead_writes_nothing(void **state)
{
    (void)state;
    struct vpa_world v;
    vpa_open(&v);
    define(&v, true);
    put_web(&v, 1);
    put_vpa(&v, "web", "web", OURS, "");
    v.w.leads = false;
    vpa_begin(&v);
    rec_until(&v.w, v.w.r->vpas->informer && aw_kube_informer_state(v.w.r->vpas->informer)->synced);
    for (int i = 0; i < 12; i++)
        rec_pass(&v.w, 15 * S);
    assert_int_equal(counts(&v)->rounds, 0);
    assert_int_equal(aw_fake_apiserver_count(v.w.api.twin, "PATCH "), 0);
    v.w.leads = true;
    first_round(&v);
    minutes(&v, 1);
    assert_true(target_of(&v, "web", AW_VPA_CPU) > 400);
    rec_close(&v.w);
}

AW_TEST_GROUP("controller-vpa")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_that_names_us_is_recommended_for_and_others_are_left_alone),
        cmocka_unit_test(policies_of_containers_are_kept),
        cmocka_unit_test(the_kind_may_come_later_and_go_again),
        cmocka_unit_test(without_a_status_of_its_own_the_object_is_patched),
        cmocka_unit_test(missing_usage_never_shrinks_what_is_recommended),
        cmocka_unit_test(a_restart_goes_on_where_it_was),
        cmocka_unit_test(who_begins_without_memory_undercuts_nothing_for_a_day),
        cmocka_unit_test(half_an_answer_is_no_sample_and_shrinks_nothing),
        cmocka_unit_test(after_a_gap_what_stands_is_not_undercut),
        cmocka_unit_test(where_rules_cannot_be_read_what_stands_stays),
        cmocka_unit_test(running_out_of_memory_raises_the_target),
        cmocka_unit_test(little_is_written_when_little_changes),
        cmocka_unit_test(what_is_wrong_with_a_target_is_said),
        cmocka_unit_test(a_status_that_somebody_else_wrote_is_made_anew),
        cmocka_unit_test(who_does_not_lead_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
