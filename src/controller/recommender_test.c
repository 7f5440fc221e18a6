/* recommender_test.c - from an object to a recommendation, and what is said on the way. */
#include "base/disk_sim.h"
#include "base/file.h"
#include "controller/recommender_testing.h"
#include "store/archive_testing.h"

static void an_object_becomes_a_recommendation(void **state)
{
    (void)state;
    struct rec_world w;
    rec_open(&w);
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, BOUNDS);
    rec_start(&w);
    rec_rounds(&w, 3);
    const struct aw_mpa_status s = status_of(&w, "web");
    assert_true(s.recommendation.given);
    assert_string_equal(s.mode, "Off");
    assert_string_equal(s.recommendation.container, "web");
    assert_int_equal(s.generation, 1);
    assert_int_equal(s.replicas, 2);
    assert_true(says(&w, "web", AW_MPA_ABLE_TO_SCALE, AW_MPA_TRUE, "TargetFound"));
    assert_true(says(&w, "web", AW_MPA_CONFIG_INVALID, AW_MPA_FALSE, NULL));
    assert_true(says(&w, "web", AW_MPA_SCALING_ACTIVE, AW_MPA_TRUE, NULL));
    assert_true(says(&w, "web", AW_MPA_RECOMMENDATION_PROVIDED, AW_MPA_TRUE, NULL));
    assert_true(says(&w, "web", AW_MPA_NO_PODS_MATCHED, AW_MPA_FALSE, NULL));
    assert_true(says(&w, "web", AW_MPA_FALLBACK_ACTIVE, AW_MPA_TRUE, NULL));
    assert_true(says(&w, "web", AW_MPA_LOW_CONFIDENCE, AW_MPA_TRUE, "NoRequestMetrics"));
    assert_true(says(&w, "web", AW_MPA_FROZEN, AW_MPA_FALSE, NULL));
    assert_int_equal(aw_recommender_counts(w.r)->active, 1);
    rec_close(&w);
}

static void busy_pods_are_given_more_and_only_by_recommending(void **state)
{
    (void)state;
    struct rec_world w;
    rec_open(&w);
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, AUTO);
    rec_start(&w);
    w.cores = 0.49; /* of 0.5: HPA wants more */
    rec_rounds(&w, 12);
    const struct aw_mpa_status s = status_of(&w, "web");
    assert_string_equal(s.mode, "Auto");
    assert_true(s.recommendation.replicas > 2);
    assert_true(llabs(s.recommendation.at_us - w.api.clock.wall_us) < 300 * S);
    assert_int_equal(aw_fake_apiserver_count(w.api.twin, "PATCH /apis/apps"), 0);
    assert_int_equal(aw_fake_apiserver_count(w.api.twin, "PATCH /api/v1"), 0);
    assert_int_equal(aw_fake_apiserver_count(w.api.twin, "PUT "), 0);
    assert_int_equal(aw_fake_apiserver_count(w.api.twin, "DELETE "), 0);
    rec_close(&w);
}

static void nothing_is_written_when_nothing_changes(void **state)
{
    (void)state;
    struct rec_world w;
    rec_open(&w);
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, BOUNDS);
    rec_start(&w);
    w.cores = 0.4;
    rec_rounds(&w, 60); /* a quarter of an hour: beginnings are over */
    const uint32_t before = aw_fake_apiserver_count(w.api.twin, PATCHES);
    rec_rounds(&w, 40);
    const uint32_t writes = aw_fake_apiserver_count(w.api.twin, PATCHES) - before;
    if (writes > 3) /* ten minutes: figures for people, twice */
        fail_msg("%u writes in 40 rounds", writes);
    rec_close(&w);
}

static void what_is_wrong_with_an_object_is_said_and_disturbs_nobody(void **state)
{
    (void)state;
    static const struct {
        const char *name, *target, *more;
        enum aw_mpa_condition_type type;
        enum aw_mpa_holds holds;
        const char *reason;
    } bad[] = {
        {"unknown", "web2", BOUNDS ",\"colour\":\"red\"", AW_MPA_CONFIG_INVALID, AW_MPA_TRUE,
         "Invalid"},
        {"amount", "web2",
         ",\"constraints\":{\"global\":{\"minReplicas\":1,\"maxReplicas\":3},\"container\":[{"
         "\"name\":\"*\",\"requests\":{\"minAllowed\":{\"cpu\":\"much\"}}}]}",
         AW_MPA_CONFIG_INVALID, AW_MPA_TRUE, "Invalid"},
        {"missing", "nobody", BOUNDS, AW_MPA_ABLE_TO_SCALE, AW_MPA_FALSE, "TargetNotFound"},
        {"empty", "empty", BOUNDS, AW_MPA_NO_PODS_MATCHED, AW_MPA_TRUE, "NoPods"},
        {"web-twin", "web", BOUNDS, AW_MPA_CONFIG_INVALID, AW_MPA_TRUE, "TargetTaken"},
        {"other", "web3", BOUNDS ",\"recommenders\":[{\"name\":\"theirs\"}]", AW_MPA_CONFIG_INVALID,
         AW_MPA_TRUE, "OtherRecommender"},
    };
    struct rec_world w;
    rec_open(&w);
    put_app(&w, "web", 2);
    put_app(&w, "web2", 1);
    put_app(&w, "web3", 1);
    put_deployment(&w, "empty", 2);
    put_mpa(&w, "web", "web", 1, BOUNDS);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        put_mpa(&w, bad[i].name, bad[i].target, 1, bad[i].more);
    rec_start(&w);
    rec_rounds(&w, 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!says(&w, bad[i].name, bad[i].type, bad[i].holds, bad[i].reason))
            fail_msg("%s: %s", bad[i].name,
                     status_of(&w, bad[i].name).condition[bad[i].type].message);
    assert_true(status_of(&w, "web").recommendation.given);
    assert_true(says(&w, "web", AW_MPA_CONFIG_INVALID, AW_MPA_FALSE, NULL));
    assert_int_equal(aw_recommender_counts(w.r)->active, 1);
    assert_true(aw_fake_apiserver_count(w.api.twin, "POST /apis/events.k8s.io/v1") >= 5);

    put_mpa(&w, "unknown", "web2", 2, BOUNDS); /* put right */
    put_app(&w, "nobody", 1);
    put_pod(&w, "empty", 0, "500m", "512Mi");
    aw_fake_apiserver_remove(w.api.twin, MPAS, "shop", "web");
    for (uint32_t i = 0; i < 40 && aw_recommender_counts(w.r)->active < 4; i++)
        rec_rounds(&w, 1);
    rec_rounds(&w, 2);
    assert_int_equal(aw_recommender_counts(w.r)->active, 4);
    assert_true(says(&w, "unknown", AW_MPA_CONFIG_INVALID, AW_MPA_FALSE, NULL));
    assert_true(says(&w, "missing", AW_MPA_ABLE_TO_SCALE, AW_MPA_TRUE, NULL));
    assert_true(says(&w, "empty", AW_MPA_NO_PODS_MATCHED, AW_MPA_FALSE, NULL));
    assert_true(says(&w, "web-twin", AW_MPA_CONFIG_INVALID, AW_MPA_FALSE, NULL));
    rec_close(&w);
}

static void an_edit_that_cannot_be_taken_leaves_the_old_settings_in_force(void **state)
{
    (void)state;
    struct rec_world w;
    rec_open(&w);
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, BOUNDS);
    rec_start(&w);
    rec_rounds(&w, 3);
    put_mpa(&w, "web", "web", 2, BOUNDS ",\"colour\":\"red\"");
    rec_until(&w, w.r->object[0]->dirty || w.r->object[0]->generation == 2);
    rec_rounds(&w, 2);
    assert_true(says(&w, "web", AW_MPA_CONFIG_INVALID, AW_MPA_TRUE, "Invalid"));
    assert_int_equal(status_of(&w, "web").generation, 1); /* whoever acts sees that it is not his */
    assert_int_equal(aw_recommender_counts(w.r)->active, 1);
    put_mpa(&w, "web", "web", 3, AUTO);
    rec_until(&w, w.r->object[0]->dirty || w.r->object[0]->generation == 3);
    rec_rounds(&w, 2);
    assert_int_equal(status_of(&w, "web").generation, 3);
    assert_string_equal(status_of(&w, "web").mode, "Auto");
    rec_close(&w);
}

static void an_object_that_goes_takes_its_pilot_with_it(void **state)
{
    (void)state;
    struct rec_world w;
    rec_open(&w);
    put_app(&w, "web", 2);
    put_app(&w, "db", 1);
    put_mpa(&w, "web", "web", 1, BOUNDS);
    put_mpa(&w, "db", "db", 1, BOUNDS);
    rec_start(&w);
    rec_rounds(&w, 2);
    assert_int_equal(aw_recommender_counts(w.r)->active, 2);
    aw_fake_apiserver_remove(w.api.twin, MPAS, "shop", "web");
    rec_until(&w, !aw__cluster_view_object_find(w.r->scene, "shop/web"));
    rec_rounds(&w, 2);
    assert_int_equal(aw_recommender_counts(w.r)->active, 1);
    assert_int_equal(aw_recommender_counts(w.r)->objects, 1);
    put_mpa(&w, "web", "web", 1, BOUNDS); /* another one of that name */
    rec_until(&w, aw__cluster_view_object_find(w.r->scene, "shop/web") != NULL);
    rec_rounds(&w, 2);
    assert_int_equal(aw_recommender_counts(w.r)->active, 2);
    assert_true(status_of(&w, "web").recommendation.given);
    rec_close(&w);
}

static void other_kinds_are_asked_for_their_scale(void **state)
{
    (void)state;
    struct rec_world w;
    rec_open(&w);
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, BOUNDS);
    aw_fake_apiserver_set(
        w.api.twin, MPAS,
        "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"odd\",\"generation\":1},"
        "\"spec\":{\"scaleTargetRef\":{\"apiVersion\":\"example.com/v1\","
        "\"kind\":\"Rollout\",\"name\":\"x\"}" BOUNDS "}}");
    aw_fake_apiserver_set(
        w.api.twin, MPAS,
        "{\"metadata\":{\"namespace\":\"shop\",\"name\":\"pod\",\"generation\":1},"
        "\"spec\":{\"scaleTargetRef\":{\"apiVersion\":\"v1\","
        "\"kind\":\"Pod\",\"name\":\"x\"}" BOUNDS "}}");
    rec_start(&w);
    rec_rounds(&w, 3);
    assert_true(says(&w, "odd", AW_MPA_ABLE_TO_SCALE, AW_MPA_FALSE, "KindNotFound"));
    assert_true(says(&w, "pod", AW_MPA_ABLE_TO_SCALE, AW_MPA_FALSE, "TargetNotScalable"));
    assert_true(status_of(&w, "web").recommendation.given);
    rec_close(&w);
}

static void who_does_not_lead_writes_nothing(void **state)
{
    (void)state;
    struct rec_world w;
    rec_open(&w);
    w.leads = false;
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, BOUNDS);
    rec_begin_with(&w, NULL);
    rec_until(&w, aw_recommender_synced(w.r));
    rec_synced(&w);
    for (uint32_t i = 0; i < 20; i++) {
        rec_pass(&w, 15 * S);
        (void)!rec_turn(&w);
    }
    assert_int_equal(aw_recommender_counts(w.r)->rounds, 0);
    assert_int_equal(aw_fake_apiserver_count(w.api.twin, "PATCH "), 0);
    assert_int_equal(aw_fake_apiserver_count(w.api.twin, "POST "), 0);
    w.leads = true;
    rec_rounds(&w, 3);
    assert_true(status_of(&w, "web").recommendation.given);
    rec_close(&w);
}

static void a_restart_decides_nothing_and_knows_what_was_recommended(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-recommender-XXXXXX";
    struct rec_world w;
    struct aw_diag diag = {0};
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    rec_open(&w);
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, AUTO);
    rec_start(&w);
    w.cores = 0.49;
    rec_rounds(&w, 12);
    const struct aw_mpa_status before = status_of(&w, "web");
    assert_true(before.recommendation.replicas > 2);
    const uint32_t episode = aw_pilot_decision(aw_loop_pilot(w.r->loop, 0))->episode;
    if (aw_recommender_save(w.r, path, &diag))
        fail_msg("%s", diag.text);
    aw_recommender_free(w.r);
    w.r = NULL;

    rec_begin_with(&w, path);
    rec_until(&w, aw_recommender_synced(w.r));
    rec_synced(&w);
    w.cores = 0.01; /* and now it looks idle */
    rec_rounds(&w, 1);
    const struct aw_mpa_status after = status_of(&w, "web");
    assert_int_equal(after.recommendation.replicas, before.recommendation.replicas);
    assert_int_equal(after.recommendation.cpu_millicores, before.recommendation.cpu_millicores);
    for (uint32_t i = 0; i < AW_MPA_CONDITION_COUNT; i++)
        if (after.condition[i].holds == before.condition[i].holds)
            assert_int_equal(after.condition[i].changed_us, before.condition[i].changed_us);
    assert_true(aw_pilot_decision(aw_loop_pilot(w.r->loop, 0))->episode > episode);
    rec_close(&w);
    unlink(path);
}

/* Of two pilots one was damaged in the file: the other one knows what it knew. */
static void what_was_learned_and_cannot_be_read_costs_one_and_is_kept_aside(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-recommender-XXXXXX", lines[] = "/tmp/aware-recommender-XXXXXX";
    char aside[64], *bytes = NULL, *kept = NULL, *said = NULL;
    size_t len = 0, kept_len = 0, said_len = 0;
    struct aw_log log;
    struct rec_world w;
    const int fd = mkstemp(path), log_fd = mkstemp(lines);
    assert_true(fd >= 0 && log_fd >= 0);
    close(fd);
    snprintf(aside, sizeof aside, "%s.refused", path);
    rec_open(&w);
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, AUTO);
    put_app(&w, "api", 2);
    put_mpa(&w, "api", "api", 1, AUTO);
    rec_start(&w);
    rec_rounds(&w, 3);
    assert_ok(aw_recommender_save(w.r, path, NULL));
    assert_ok(aw_file_read(path, 1 << 20, NULL, &bytes, &len, NULL));
    aw_testing_archive_version(bytes, len, "shop/web/memory");
    bytes[len - 40] ^= 1; /* of the end */
    assert_ok(aw_file_replace(path, bytes, len, NULL, NULL));
    aw_recommender_free(w.r);
    w.r = NULL;
    aw_log_init(&log, log_fd, AW_LOG_WARN, AW_LOG_TEXT, &w.api.clock.clock);
    w.log = &log;
    rec_begin_with(&w, path);
    assert_non_null(w.r->remembered);
    rec_until(&w, aw_recommender_synced(w.r));
    rec_synced(&w);
    rec_rounds(&w, 1);
    assert_ok(aw_file_read(lines, 1 << 16, NULL, &said, &said_len, NULL));
    assert_non_null(strstr(said, "some of what was learned before cannot be read"));
    assert_non_null(strstr(said, "learns again, the others do not workload=shop/web"));
    assert_null(strstr(said, "workload=shop/api"));
    assert_ok(aw_recommender_save(w.r, path, NULL)); /* does not take its place */
    assert_ok(aw_file_read(aside, 1 << 20, NULL, &kept, &kept_len, NULL));
    assert_int_equal(kept_len, len);
    assert_memory_equal(kept, bytes, len);
    aw_alloc_free(NULL, said);
    aw_alloc_free(NULL, bytes);
    aw_alloc_free(NULL, kept);
    rec_close(&w);
    close(log_fd);
    unlink(lines);
    unlink(path);
    unlink(aside);
}

/* The leader that takes over is of another version of the program, and bounds were edited
 * meanwhile. */
static void
what_another_build_has_learned_is_read_by_name_and_other_bounds_lose_nothing(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-recommender-XXXXXX", lines[] = "/tmp/aware-recommender-XXXXXX";
    char *bytes = NULL, *said = NULL;
    size_t len = 0, said_len = 0;
    struct aw_log log;
    struct rec_world w;
    const int fd = mkstemp(path), log_fd = mkstemp(lines);
    assert_true(fd >= 0 && log_fd >= 0);
    close(fd);
    rec_open(&w);
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, AUTO);
    rec_start(&w);
    rec_rounds(&w, 12);
    assert_ok(aw_recommender_save(w.r, path, NULL));
    assert_ok(aw_file_read(path, 1 << 20, NULL, &bytes, &len, NULL));
    assert_true(aw_testing_archive_rename(bytes, len, "extra_cost") > 0);
    assert_ok(aw_file_replace(path, bytes, len, NULL, NULL));
    aw_recommender_free(w.r);
    w.r = NULL;
    put_mpa(&w, "web", "web", 2,
            ",\"constraints\":{\"global\":{\"minReplicas\":1,\"maxReplicas\":14}}"
            ",\"policy\":{\"updateMode\":\"Auto\"}");
    aw_log_init(&log, log_fd, AW_LOG_INFO, AW_LOG_TEXT, &w.api.clock.clock);
    w.log = &log;
    rec_begin_with(&w, path);
    rec_until(&w, aw_recommender_synced(w.r));
    rec_synced(&w);
    rec_rounds(&w, 1);
    assert_true(aw_pilot_decision(aw_loop_pilot(w.r->loop, 0))->episode > 0);
    assert_ok(aw_file_read(lines, 1 << 16, NULL, &said, &said_len, NULL));
    if (!strstr(said, "what was learned is kept"))
        fail_msg("%s", said);
    assert_non_null(strstr(said, "replicas_max"));
    aw_alloc_free(NULL, said);
    aw_alloc_free(NULL, bytes);
    rec_close(&w);
    close(log_fd);
    unlink(lines);
    unlink(path);
}

/* Two objects are known of; a save comes before either has a pilot again, and another when one
 * has. */
static void what_was_learned_of_who_has_not_come_yet_is_saved_again(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-recommender-XXXXXX", *first = NULL, *again = NULL;
    size_t first_len = 0, again_len = 0;
    struct rec_world w;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    rec_open(&w);
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, AUTO);
    put_app(&w, "api", 2);
    put_mpa(&w, "api", "api", 1, AUTO);
    rec_start(&w);
    rec_rounds(&w, 3);
    assert_int_equal(aw_recommender_counts(w.r)->active, 2);
    assert_ok(aw_recommender_save(w.r, path, NULL));
    assert_ok(aw_file_read(path, 1 << 20, NULL, &first, &first_len, NULL));
    aw_recommender_free(w.r);
    w.r = NULL;

    aw_fake_apiserver_remove(w.api.twin, DEPLOYMENTS, "shop", "api"); /* for now */
    rec_begin_with(&w, path);
    assert_non_null(w.r->remembered);
    assert_ok(aw_recommender_save(w.r, path, NULL)); /* nobody has come yet */
    assert_ok(aw_file_read(path, 1 << 20, NULL, &again, &again_len, NULL));
    assert_int_equal(again_len, first_len);
    assert_memory_equal(again, first, first_len);
    aw_alloc_free(NULL, again);

    rec_until(&w, aw_recommender_synced(w.r));
    rec_synced(&w);
    rec_rounds(&w, 1);
    assert_int_equal(aw_recommender_counts(w.r)->active, 1);
    assert_ok(aw_recommender_save(w.r, path, NULL));
    assert_ok(aw_file_read(path, 1 << 20, NULL, &again, &again_len, NULL));
    assert_int_equal(again_len, first_len); /* both, each once */
    aw_alloc_free(NULL, again);
    aw_alloc_free(NULL, first);
    rec_close(&w);
    unlink(path);
}

static void of_two_at_once_only_one_writes(void **state)
{
    (void)state;
    struct rec_world w;
    struct aw_recommender *other;
    rec_open(&w);
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, AUTO);
    rec_start(&w);
    other = w.r;
    rec_begin_with(&w, NULL); /* both follow; w.leads is asked by both */
    rec_until(&w, aw_recommender_synced(w.r));
    /* a write with an old version is refused, so even two that both believe to lead cannot undo
     * each other's words */
    for (uint32_t i = 0; i < 10; i++) {
        put_usage(&w);
        aw_clock_virtual_advance(&w.api.clock, 15 * S);
        (void)!aw_recommender_step(other, NULL);
        (void)!rec_turn(&w);
    }
    const struct aw_recommender_counts *a = aw_recommender_counts(w.r);
    const struct aw_recommender_counts *b = aw_recommender_counts(other);
    assert_int_equal(a->writes + b->writes + a->conflicts + b->conflicts + a->failures +
                         b->failures,
                     aw_fake_apiserver_count(w.api.twin, PATCHES));
    assert_int_equal(a->failures + b->failures, 0);
    aw_recommender_free(other);
    rec_close(&w);
}

static void what_no_node_can_hold_is_not_recommended(void **state)
{
    (void)state;
    struct rec_world w;
    rec_open(&w);
    aw_fake_apiserver_set(w.api.twin, "/api/v1/nodes",
                          "{\"metadata\":{\"name\":\"small\"},\"status\":{\"allocatable\":"
                          "{\"cpu\":\"1500m\",\"memory\":\"1Gi\"}}}");
    aw_fake_apiserver_set(w.api.twin, "/api/v1/nodes",
                          "{\"metadata\":{\"name\":\"drained\"},\"spec\":{\"unschedulable\":true},"
                          "\"status\":{\"allocatable\":{\"cpu\":\"64\",\"memory\":\"256Gi\"}}}");
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, BOUNDS);
    rec_start(&w);
    rec_rounds(&w, 2);
    const struct aw_pilot_config *config = aw_pilot_config(aw_loop_pilot(w.r->loop, 0));
    assert_int_equal(config->node.cpu_millicores, 1500);
    assert_int_equal(config->node.memory_bytes, INT64_C(1) << 30);
    aw_fake_apiserver_remove(w.api.twin, "/api/v1/nodes", "", "small");
    rec_rounds(&w, 45); /* looked at again after ten minutes */
    config = aw_pilot_config(aw_loop_pilot(w.r->loop, 0));
    assert_int_equal(config->node.cpu_millicores, 0);
    rec_close(&w);
}

static uint64_t order(struct rec_world *w, enum aw_order_kind kind, uint64_t decision)
{
    struct aw_order given = {.kind = kind,
                             .scope = AW_SCOPE_WORKLOAD,
                             .name = "shop/web",
                             .decision = decision,
                             .until_us = AW_FOR_EVER,
                             .freeze_until_us = AW_FOR_EVER,
                             .reason = "a test",
                             .by = "a person"};
    struct aw_diag diag = {0};
    uint64_t id = 0;
    if (aw_desk_order(w->desk, &given, w->api.clock.wall_us, &id, &diag))
        fail_msg("%s", diag.text);
    return id;
}

static void orders_of_people_show_in_the_status(void **state)
{
    (void)state;
    struct rec_world w;
    struct aw_disk_sim disk;
    struct aw_desk_view view;
    assert_ok(aw_disk_sim_init(&disk, 1, NULL));
    const struct aw_desk_config config = {.disk = &disk.disk, .folder = "/state/audit"};
    rec_open(&w);
    w.goals = GOALS_USE; /* what nobody measures would keep even an order from shrinking */
    assert_ok(aw_desk_new(&config, NULL, &w.desk, NULL, NULL));
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, AUTO);
    rec_start(&w);
    w.cores = 0.49;
    for (uint32_t i = 0; i < 20 && status_of(&w, "web").recommendation.replicas <= 2; i++)
        rec_rounds(&w, 1);
    struct aw_mpa_status s = status_of(&w, "web");
    const int32_t more = s.recommendation.replicas;
    assert_true(more > 2);
    assert_true(*s.last.id && *s.last.message);
    assert_string_equal(s.last.actor, "fallback");
    assert_string_equal(s.recommendation.decision, s.last.id);
    put_app(&w, "web", more); /* somebody has carried it out, and that was enough */
    w.cores = 0.3;
    rec_rounds(&w, 2);

    order(&w, AW_ORDER_FREEZE, 0);
    rec_rounds(&w, 1);
    assert_true(says(&w, "web", AW_MPA_FROZEN, AW_MPA_TRUE, "Ordered"));
    w.cores = 0.49;
    rec_rounds(&w, 25);
    assert_int_equal(status_of(&w, "web").recommendation.replicas, more);

    aw_desk_lock(w.desk);
    aw_desk_peek(w.desk, 0, &view);
    const uint64_t changed = view.changed_id;
    aw_desk_unlock(w.desk);
    assert_true(changed > 0);
    w.cores = 0.1;
    rec_rounds(&w, 30); /* an order does not shrink below recent peaks either: they are forgotten */
    order(&w, AW_ORDER_UNDO, changed);
    rec_rounds(&w, 1);
    s = status_of(&w, "web"); /* whoever acts must be able to, though it is frozen */
    assert_true(says(&w, "web", AW_MPA_FROZEN, AW_MPA_FALSE, "OrderUnderWay"));
    assert_true(s.recommendation.replicas < more);
    rec_close(&w);
    aw_disk_sim_deinit(&disk);
}

static void a_faster_loop_lives_more_and_tells_real_times(void **state)
{
    (void)state;
    enum { SPEED = 5, ROUNDS = 20 };
    struct rec_world w;
    struct aw_disk_sim disk;
    assert_ok(aw_disk_sim_init(&disk, 1, NULL));
    const struct aw_desk_config config = {.disk = &disk.disk, .folder = "/state/audit"};
    rec_open(&w);
    assert_ok(aw_desk_new(&config, NULL, &w.desk, NULL, NULL));
    w.speed = SPEED;
    w.cores = 0.49;
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, AUTO);
    rec_start(&w);
    const uint64_t before = aw_recommender_counts(w.r)->rounds;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        put_usage(&w);
        rec_pass(&w, 15 * S / SPEED);
        rec_until(&w, aw_recommender_counts(w.r)->rounds >= before + i);
    }
    const struct aw_decision *d = aw_pilot_decision(aw_loop_pilot(w.r->loop, 0));
    const struct aw_mpa_status s = status_of(&w, "web");
    const int64_t wall_us = w.api.clock.wall_us;
    assert_true(llabs(d->at_us - SPEED * wall_us) < 15 * S);
    assert_true(s.recommendation.replicas > 2); /* a minute: the figures are as fresh as ever */
    assert_true(llabs(s.recommendation.at_us - wall_us) < 120 * S);
    assert_true(*s.last.id && llabs(s.last.at_us - wall_us) < 120 * S);
    rec_close(&w);
    aw_disk_sim_deinit(&disk);
}

static void what_nobody_approved_of_is_not_recommended(void **state)
{
    (void)state;
    struct rec_world w;
    struct aw_disk_sim disk;
    struct aw_desk_view view = {0};
    assert_ok(aw_disk_sim_init(&disk, 1, NULL));
    const struct aw_desk_config config = {.disk = &disk.disk, .folder = "/state/audit"};
    rec_open(&w);
    w.goals = GOALS_USE;
    assert_ok(aw_desk_new(&config, NULL, &w.desk, NULL, NULL));
    put_app(&w, "web", 2);
    put_mpa(&w, "web", "web", 1, BOUNDS ",\"policy\":{\"updateMode\":\"Approve\"}");
    rec_start(&w);
    w.cores = 0.49;
    for (uint32_t i = 0; i < 40 && view.proposal.id == 0; i++) {
        rec_rounds(&w, 1);
        aw_desk_lock(w.desk);
        aw_desk_peek(w.desk, 0, &view);
        aw_desk_unlock(w.desk);
    }
    assert_true(view.proposal.id > 0 && view.proposal.plan.replicas > 2);
    rec_rounds(&w, 2);
    assert_string_equal(status_of(&w, "web").mode, "Approve");
    assert_int_equal(status_of(&w, "web").recommendation.replicas, 2);
    order(&w, AW_ORDER_APPROVE, view.proposal.id);
    rec_rounds(&w, 2);
    assert_true(status_of(&w, "web").recommendation.replicas > 2);
    rec_close(&w);
    aw_disk_sim_deinit(&disk);
}

AW_TEST_GROUP("controller-recommender")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_becomes_a_recommendation),
        cmocka_unit_test(busy_pods_are_given_more_and_only_by_recommending),
        cmocka_unit_test(nothing_is_written_when_nothing_changes),
        cmocka_unit_test(what_is_wrong_with_an_object_is_said_and_disturbs_nobody),
        cmocka_unit_test(an_edit_that_cannot_be_taken_leaves_the_old_settings_in_force),
        cmocka_unit_test(an_object_that_goes_takes_its_pilot_with_it),
        cmocka_unit_test(other_kinds_are_asked_for_their_scale),
        cmocka_unit_test(who_does_not_lead_writes_nothing),
        cmocka_unit_test(a_restart_decides_nothing_and_knows_what_was_recommended),
        cmocka_unit_test(what_was_learned_and_cannot_be_read_costs_one_and_is_kept_aside),
        cmocka_unit_test(
            what_another_build_has_learned_is_read_by_name_and_other_bounds_lose_nothing),
        cmocka_unit_test(what_was_learned_of_who_has_not_come_yet_is_saved_again),
        cmocka_unit_test(of_two_at_once_only_one_writes),
        cmocka_unit_test(what_no_node_can_hold_is_not_recommended),
        cmocka_unit_test(orders_of_people_show_in_the_status),
        cmocka_unit_test(a_faster_loop_lives_more_and_tells_real_times),
        cmocka_unit_test(what_nobody_approved_of_is_not_recommended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
