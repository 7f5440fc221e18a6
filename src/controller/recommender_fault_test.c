/*
 * recommender_fault_test.c - what goes wrong between us, the API server and the metrics: nothing
 * shrinks, nothing is lost, and it goes on afterwards.
 */
#include "controller/recommender_testing.h"

/* An application that does nothing with four replicas: with figures, it is scaled in. */
static void idle_begin(struct rec_world *w)
{
    rec_open(w);
    w->goals = GOALS_USE; /* with an SLO that nobody measures nothing would shrink anyway */
    put_app(w, "web", 4);
    put_mpa(w, "web", "web", 1, AUTO);
    rec_start(w);
    w->cores = 0.4;
    rec_rounds(w, 8);
    const struct aw_mpa_status s = status_of(w, "web");
    assert_true(s.recommendation.given);
    assert_true(s.recommendation.replicas >= 4);
}

static void check_not_shrunk(struct rec_world *w)
{
    const struct aw_mpa_recommendation r = status_of(w, "web").recommendation;
    assert_true(r.given);
    if (r.replicas < 4 || r.cpu_millicores < 500 || r.memory_bytes < INT64_C(512) << 20)
        fail_msg("shrunk to %d replicas of %lldm, %lld bytes", r.replicas,
                 (long long)r.cpu_millicores, (long long)r.memory_bytes);
}

static void remove_usage(struct rec_world *w)
{
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "web-77-%d", i);
        aw_fake_apiserver_remove(w->api.twin, USAGE, "shop", name);
    }
}

static void with_figures_an_idle_workload_is_scaled_in(void **state)
{
    (void)state;
    struct rec_world w;
    idle_begin(&w);
    w.cores = 0.01;
    rec_rounds(&w, 60);
    assert_true(status_of(&w, "web").recommendation.replicas < 4); /* or the tests below are void */
    rec_close(&w);
}

static void metrics_that_are_gone_stale_empty_or_rubbish_shrink_nothing(void **state)
{
    (void)state;
    enum { REFUSED, EMPTY, STALE, NONSENSE, CUT, CASES };
    for (uint32_t i = 0; i < CASES; i++) {
        struct rec_world w;
        idle_begin(&w);
        w.cores = 0.01;
        w.measured = false;
        const struct aw_fake_apiserver_fault fault = {.match = "GET /apis/metrics.k8s.io",
                                                      .count = UINT32_MAX,
                                                      .status = i == REFUSED ? 503 : 0,
                                                      .reason = "ServiceUnavailable",
                                                      .rubbish = i == NONSENSE,
                                                      .cut = i == CUT};
        if (i == REFUSED || i == NONSENSE || i == CUT)
            aw_fake_apiserver_fault(w.api.twin, &fault);
        if (i == EMPTY)
            remove_usage(&w);
        if (i == STALE) /* once idle, and then never again */
            put_usage(&w);
        rec_rounds(&w, 60);
        check_not_shrunk(&w);
        assert_true(says(&w, "web", AW_MPA_SCALING_ACTIVE, AW_MPA_FALSE, "NoMetrics"));
        aw_fake_apiserver_clear_faults(w.api.twin);
        w.measured = true;
        w.cores = 0.4;
        rec_rounds(&w, 4);
        assert_true(says(&w, "web", AW_MPA_SCALING_ACTIVE, AW_MPA_TRUE, NULL));
        rec_close(&w);
    }
}

static void usage_that_is_no_number_is_no_usage(void **state)
{
    (void)state;
    struct rec_world w;
    idle_begin(&w);
    w.cores = 0.01;
    w.memory = "NaN";
    rec_rounds(&w, 60);
    check_not_shrunk(&w);
    rec_close(&w);
}

/* Time without being heard. */
static void silence(struct rec_world *w, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        aw_clock_virtual_advance(&w->api.clock, 15 * S);
        (void)!rec_turn(w);
    }
}

static void a_server_that_is_gone_changes_nothing_and_is_found_again(void **state)
{
    (void)state;
    struct rec_world w;
    idle_begin(&w);
    const struct aw_mpa_status before = status_of(&w, "web");
    const struct aw_fake_apiserver_fault all = {
        .match = "", .count = UINT32_MAX, .status = 503, .reason = "ServiceUnavailable"};
    aw_fake_apiserver_fault(w.api.twin, &all);
    aw_fake_apiserver_error_watches(w.api.twin, 500, "InternalError");
    w.cores = 0.01;
    silence(&w, 60);
    assert_true(aw_recommender_counts(w.r)->active == 1); /* nobody was let go */
    const struct aw_mpa_status there = status_of(&w, "web");
    assert_int_equal(there.recommendation.replicas, before.recommendation.replicas);
    put_app(&w, "db", 1);
    put_mpa(&w, "db", "db", 1, BOUNDS); /* while nobody heard of it */
    aw_fake_apiserver_clear_faults(w.api.twin);
    w.cores = 0.4;
    for (uint32_t i = 0; i < 8; i++) { /* whatever waits for its turn to try again */
        aw_clock_virtual_advance(&w.api.clock, 30 * S);
        (void)!rec_turn(&w);
    }
    rec_until(&w, aw__cluster_view_object_find(w.r->scene, "shop/db") != NULL);
    w.heard_us = 0;
    rec_rounds(&w, 4);
    check_not_shrunk(&w);
    assert_true(status_of(&w, "db").recommendation.given);
    assert_int_equal(aw_recommender_counts(w.r)->active, 2);
    rec_close(&w);
}

static void broken_watches_and_lost_history_lose_no_object(void **state)
{
    (void)state;
    struct rec_world w;
    idle_begin(&w);
    for (uint32_t i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "app%u", i);
        if (i % 3 == 0)
            aw_fake_apiserver_end_watches(w.api.twin);
        else
            aw_fake_apiserver_compact(w.api.twin);
        put_app(&w, name, 1);
        put_mpa(&w, name, name, 1, BOUNDS);
        if (i % 3 == 1)
            aw_fake_apiserver_error_watches(w.api.twin, 410, "Expired");
        if (i % 3 == 2)
            aw_fake_apiserver_error_watches(w.api.twin, 500, "InternalError");
        char key[32];
        snprintf(key, sizeof key, "shop/%s", name);
        const int64_t begun_us = aw_clock_monotonic_us(NULL);
        while (!aw__cluster_view_object_find(w.r->scene, key)) {
            aw_clock_virtual_advance(&w.api.clock, S);
            (void)!rec_turn(&w);
            assert_true(aw_clock_monotonic_us(NULL) - begun_us < AW_TESTING_WAIT_US);
        }
    }
    aw_fake_apiserver_remove(w.api.twin, MPAS, "shop", "app0");
    aw_fake_apiserver_compact(w.api.twin);
    aw_fake_apiserver_error_watches(w.api.twin, 410, "Expired");
    const int64_t begun_us = aw_clock_monotonic_us(NULL);
    while (aw__cluster_view_object_find(w.r->scene, "shop/app0")) {
        aw_clock_virtual_advance(&w.api.clock, S);
        (void)!rec_turn(&w);
        assert_true(aw_clock_monotonic_us(NULL) - begun_us < AW_TESTING_WAIT_US);
    }
    for (uint32_t i = 0; i < 40 && aw_recommender_counts(w.r)->active != 6; i++)
        rec_rounds(&w, 1);
    assert_int_equal(aw_recommender_counts(w.r)->active, 6);
    check_not_shrunk(&w);
    rec_close(&w);
}

static void a_status_that_could_not_be_written_is_written_later(void **state)
{
    (void)state;
    static const struct aw_fake_apiserver_fault faults[] = {
        {.match = PATCHES, .count = 3, .status = 409, .reason = "Conflict"},
        {.match = PATCHES,
         .count = 3,
         .status = 429,
         .reason = "TooManyRequests",
         .retry_after_s = 1},
        {.match = PATCHES, .count = 30, .status = 503, .reason = "ServiceUnavailable"},
        {.match = PATCHES, .count = 3, .cut = true},
        {.match = PATCHES, .count = 2, .slow_ms = 100},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct rec_world w;
        rec_open(&w);
        put_app(&w, "web", 2);
        rec_start(&w);
        rec_rounds(&w, 1);
        aw_fake_apiserver_fault(w.api.twin, &faults[i]);
        put_mpa(&w, "web", "web", 1, BOUNDS);
        rec_until(&w, aw__cluster_view_object_find(w.r->scene, "shop/web") != NULL);
        for (uint32_t n = 0; n < 20 && !status_of(&w, "web").recommendation.given; n++)
            rec_rounds(&w, 1);
        assert_true(status_of(&w, "web").recommendation.given);
        assert_int_equal(aw_recommender_counts(w.r)->waiting, 0);
        rec_close(&w);
    }
}

static void what_others_wrote_into_a_status_is_kept(void **state)
{
    (void)state;
    struct rec_world w;
    idle_begin(&w);
    json_t *object = aw_fake_apiserver_get(w.api.twin, MPAS, "shop", "web"), *item;
    size_t i;
    json_array_foreach(json_object_get(json_object_get(object, "status"), "conditions"), i, item)
    {
        if (!strcmp(json_string_value(json_object_get(item, "type")), "AbleToScale")) {
            json_object_set_new(item, "status", json_string("False"));
            json_object_set_new(item, "reason", json_string("ConflictingAutoscaler"));
        }
    }
    put_object(&w, MPAS, object);
    w.cores = 0.49; /* something else to write */
    rec_rounds(&w, 12);
    assert_true(says(&w, "web", AW_MPA_ABLE_TO_SCALE, AW_MPA_FALSE, "ConflictingAutoscaler"));
    rec_close(&w);
}

/* A pod that no node has room for. */
static void put_waiting(struct rec_world *w, int n)
{
    char name[32];
    snprintf(name, sizeof name, "web-77-%d", n);
    put_object(w, PODS,
               json_pack("{s:{s:s,s:s,s:s,s:{s:s},s:[{s:s,s:s,s:s,s:b}]},s:{s:[{s:s,s:{s:{s:s}}}]},"
                         "s:{s:s}}",
                         "metadata", "namespace", "shop", "name", name, "creationTimestamp",
                         "2026-01-31T10:00:00Z", "labels", "app", "web", "ownerReferences", "kind",
                         "ReplicaSet", "name", "web-77", "uid", "u", "controller", 1, "spec",
                         "containers", "name", "web", "resources", "requests", "cpu", "500m",
                         "status", "phase", "Pending"));
}

static void pods_without_a_node_are_said_and_neither_shrink_nor_multiply(void **state)
{
    (void)state;
    struct rec_world w;
    idle_begin(&w);
    put_deployment(&w, "web", 6);
    put_waiting(&w, 4);
    put_waiting(&w, 5);
    w.cores = 0.4;
    for (uint32_t i = 0; i < 10; i++) {
        rec_rounds(&w, 1);
        for (int n = 4; n < 6; n++) { /* what does not run uses nothing */
            char name[32];
            snprintf(name, sizeof name, "web-77-%d", n);
            json_t *said = aw_fake_apiserver_get(w.api.twin, USAGE, "shop", name);
            if (said)
                aw_fake_apiserver_remove(w.api.twin, USAGE, "shop", name);
            json_decref(said);
        }
    }
    check_not_shrunk(&w);
    assert_true(says(&w, "web", AW_MPA_SCALING_LIMITED, AW_MPA_TRUE, "PodsPending"));
    assert_true(status_of(&w, "web").recommendation.replicas <= 8);
    put_pod(&w, "web", 4, "500m", "512Mi");
    put_pod(&w, "web", 5, "500m", "512Mi");
    rec_rounds(&w, 6);
    assert_false(says(&w, "web", AW_MPA_SCALING_LIMITED, AW_MPA_TRUE, "PodsPending"));
    rec_close(&w);
}

AW_TEST_GROUP("controller-recommender-fault")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_figures_an_idle_workload_is_scaled_in),
        cmocka_unit_test(metrics_that_are_gone_stale_empty_or_rubbish_shrink_nothing),
        cmocka_unit_test(usage_that_is_no_number_is_no_usage),
        cmocka_unit_test(a_server_that_is_gone_changes_nothing_and_is_found_again),
        cmocka_unit_test(broken_watches_and_lost_history_lose_no_object),
        cmocka_unit_test(a_status_that_could_not_be_written_is_written_later),
        cmocka_unit_test(what_others_wrote_into_a_status_is_kept),
        cmocka_unit_test(pods_without_a_node_are_said_and_neither_shrink_nor_multiply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
