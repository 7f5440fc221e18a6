/* doctor_test.c - what is there is found, what is missing is said with its remedy. */
#include "kube/doctor.h"

#include <stdio.h>

#include "kube/kube_testing.h"

struct notes {
    struct aw_kube_finding finding[64];
    uint32_t count;
};

static void note(void *ctx, const struct aw_kube_finding *finding)
{
    struct notes *notes = ctx;
    assert_true(notes->count < 64);
    assert_true(finding->text[0]);
    if (finding->verdict == AW_KUBE_LACK)
        assert_true(finding->fix[0]);
    notes->finding[notes->count++] = *finding;
}

static const struct aw_kube_finding *find(const struct notes *notes, const char *check,
                                          enum aw_kube_verdict verdict)
{
    for (uint32_t i = 0; i < notes->count; i++)
        if (!strcmp(notes->finding[i].check, check) && notes->finding[i].verdict == verdict)
            return &notes->finding[i];
    return NULL;
}

static void a_server_is_examined_without_writing_to_it(void **state)
{
    struct aw_kube_world world;
    struct notes notes = {0};
    struct aw_kube_health health;
    const struct aw_kube_doctor doctor = {.acts = true, .found = note, .ctx = &notes};
    (void)state;
    aw_kube_world_open(&world, &(struct aw_kube_options){.requests_per_second = 1000});
    aw_fake_apiserver_set(world.twin, "/apis/autoscaling/v2/horizontalpodautoscalers",
                          "{\"metadata\":{\"namespace\":\"n\",\"name\":\"web\"}}");
    assert_ok(aw_kube_examine(world.kube, &doctor, &health, NULL));
    assert_non_null(strstr(find(&notes, "server", AW_KUBE_FINE)->text, "v1.33.1"));
    assert_non_null(find(&notes, "resize", AW_KUBE_FINE));
    assert_non_null(find(&notes, "eviction", AW_KUBE_FINE));
    assert_null(find(&notes, "rights", AW_KUBE_LACK));
    assert_non_null(find(&notes, "metrics", AW_KUBE_LACK)); /* the double has none */
    assert_non_null(
        strstr(find(&notes, "others", AW_KUBE_NOTE)->text, "1 HorizontalPodAutoscaler"));
    assert_int_equal(health.fine + health.notes + health.lacks, notes.count);
    assert_int_equal(
        aw_fake_apiserver_count(world.twin, "POST"),
        aw_fake_apiserver_count(world.twin,
                                "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"));
    assert_int_equal(aw_fake_apiserver_count(world.twin, "P"),
                     aw_fake_apiserver_count(world.twin, "POST"));
    aw_kube_world_close(&world);
}

static void a_right_that_is_missing_comes_with_its_rule(void **state)
{
    struct aw_kube_world world;
    struct notes notes = {0};
    struct aw_kube_health health;
    const struct aw_kube_doctor doctor = {.ns = "n", .found = note, .ctx = &notes};
    (void)state;
    aw_kube_world_open(&world, &(struct aw_kube_options){.requests_per_second = 1000});
    aw_fake_apiserver_deny(world.twin, "pods");
    assert_ok(aw_kube_examine(world.kube, &doctor, &health, NULL));
    const struct aw_kube_finding *lack = find(&notes, "rights", AW_KUBE_LACK);
    assert_non_null(lack);
    assert_non_null(strstr(lack->text, "may not list pods"));
    assert_non_null(strstr(lack->fix, "resources [\"pods\"] verbs [\"list\"]"));
    assert_null(find(&notes, "rights", AW_KUBE_NOTE)); /* secrets are denied by the double */
    aw_kube_world_close(&world);
}

static void a_server_that_is_away_is_the_only_finding(void **state)
{
    struct aw_kube_world world;
    struct notes notes = {0};
    struct aw_kube_health health;
    struct aw_diag diag = {0};
    const struct aw_kube_doctor doctor = {.found = note, .ctx = &notes};
    (void)state;
    aw_kube_world_open(&world, NULL);
    aw_fake_apiserver_fault(world.twin, &(struct aw_fake_apiserver_fault){
                                            .match = "", .count = UINT32_MAX, .status = 401});
    assert_int_equal(aw_kube_examine(world.kube, &doctor, &health, &diag), AW_ERR_CONFIG);
    assert_int_equal(notes.count, 1);
    assert_int_equal(health.lacks, 1);
    assert_non_null(strstr(notes.finding[0].fix, "token"));
    aw_kube_world_close(&world);
}

static void leases_are_asked_for_where_the_controllers_run(void **state)
{
    struct aw_kube_world world;
    struct notes notes = {0};
    struct aw_kube_health health;
    const struct aw_kube_doctor doctor = {.own_ns = "aware-system",
                                          .prometheus = "monitoring/prometheus:9090",
                                          .acts = true,
                                          .found = note,
                                          .ctx = &notes};
    (void)state;
    aw_kube_world_open(&world, &(struct aw_kube_options){.requests_per_second = 1000});
    aw_fake_apiserver_deny(world.twin, "leases");
    assert_ok(aw_kube_examine(world.kube, &doctor, &health, NULL));
    const struct aw_kube_finding *lack = find(&notes, "rights", AW_KUBE_LACK);
    assert_non_null(strstr(lack->text, "may not create leases in aware-system"));
    assert_non_null(find(&notes, "prometheus", AW_KUBE_FINE));
    aw_kube_world_close(&world);

    notes.count = 0;
    aw_kube_world_open(&world, &(struct aw_kube_options){.requests_per_second = 1000});
    aw_fake_apiserver_deny(world.twin, "services");
    assert_ok(aw_kube_examine(world.kube, &doctor, &health, NULL));
    assert_null(find(&notes, "rights", AW_KUBE_LACK));
    lack = find(&notes, "prometheus", AW_KUBE_LACK);
    assert_non_null(strstr(lack->fix, "resourceNames [\"prometheus:9090\"]"));
    aw_kube_world_close(&world);
}

AW_TEST_GROUP("kube-doctor")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_examined_without_writing_to_it),
        cmocka_unit_test(a_right_that_is_missing_comes_with_its_rule),
        cmocka_unit_test(a_server_that_is_away_is_the_only_finding),
        cmocka_unit_test(leases_are_asked_for_where_the_controllers_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
