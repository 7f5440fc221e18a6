/* campaign_test.c - anomalies: from a file, by draw, and as they begin and end. */
#include "graph/campaign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"

static struct aw_graph_app app;
static struct aw_calibration calibration;
static struct aw_campaign campaign;

static enum aw_err read_text(const char *text, struct aw_diag *diag)
{
    char path[] = "/tmp/aware-campaign-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    memset(&app, 0, sizeof app);
    const enum aw_err err = aw_campaign_read(path, &campaign, &app, diag);
    unlink(path);
    return err;
}

static void a_file_says_what_where_how_strong_and_when(void **state)
{
    (void)state;
    assert_ok(read_text("kind: AnomalyCampaign\napplication: hotel\nseed: 7\nduration: 2m\n"
                        "anomalies:\n- {target: geo, kind: disk, intensity: 0.4, at: 20s, for: 5s, "
                        "pattern: ramp}\nrandom:\n  rate: 0.5/s\n  kinds: [cpu, llc]\n"
                        "  targets: [user, rate]\n  intensity: [0.2, 0.6]\n  for: 3s\n",
                        NULL));
    assert_string_equal(app.name, "hotel");
    assert_int_equal(campaign.count, 1);
    assert_int_equal(campaign.anomaly[0].kind, AW_ANOMALY_DISK);
    assert_int_equal(campaign.anomaly[0].pattern, AW_ANOMALY_RAMP);
    assert_int_equal(campaign.anomaly[0].at_ns, 20 * AW_GRAPH_S_NS);
    for (uint32_t s = 0; s < app.service_count; s++)
        for (uint32_t k = 0; k < AW_ANOMALY_KINDS; k++)
            calibration.start[s][k] = 0.2, calibration.end[s][k] = 0.8;
    aw_campaign_draw(&campaign, &app, &calibration);
    assert_true(campaign.count > 35 && campaign.count < 90); /* 60 are expected */
    for (uint32_t i = 0; i < campaign.count; i++) {
        const struct aw_anomaly *anomaly = &campaign.anomaly[i];
        assert_true(i == 0 || anomaly->at_ns >= campaign.anomaly[i - 1].at_ns);
        if (anomaly->kind == AW_ANOMALY_DISK)
            continue;
        assert_true(anomaly->kind == AW_ANOMALY_CPU || anomaly->kind == AW_ANOMALY_LLC);
        assert_true(anomaly->intensity >= 0.2 && anomaly->intensity <= 0.6);
    }
}

static void a_file_that_is_wrong_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *text, *words;
        uint32_t line;
    } rows[] = {
        {"kind: Deployment\napplication: hotel\n", "AnomalyCampaign", 1},
        {"kind: AnomalyCampaign\napplication: shop\n", "there are social-network", 2},
        {"kind: AnomalyCampaign\napplication: hotel\nanomalies:\n- {target: geoo, kind: cpu, at: "
         "1s}\n",
         "did you mean 'geo'?", 4},
        {"kind: AnomalyCampaign\napplication: hotel\nanomalies:\n- {target: geo, kind: heat, at: "
         "1s}\n",
         "kind of anomaly", 4},
        {"kind: AnomalyCampaign\napplication: hotel\nanomalies:\n- {target: geo, kind: cpu}\n",
         "missing key \"at\"", 4},
        {"kind: AnomalyCampaign\napplication: hotel\nanomalies:\n"
         "- {target: geo, kind: cpu, at: 1s, intensity: 2}\n",
         "from 0 to 1", 4},
        {"kind: AnomalyCampaign\napplication: hotel\nspeed: 3\n", "seed", 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_diag diag = {0};
        const enum aw_err err = read_text(rows[i].text, &diag);
        if (!err || diag.line != rows[i].line || !strstr(diag.text, rows[i].words))
            fail_msg("line %u: \"%s\"", diag.line, diag.text);
    }
}

static void stress_is_there_while_its_anomaly_is_and_not_after(void **state)
{
    struct aw_graph_world *world = NULL;
    struct aw_injector injector;
    struct aw_graph_reading readings[AW_GRAPH_SERVICES_MAX];
    (void)state;
    assert_ok(read_text("kind: AnomalyCampaign\napplication: hotel\nduration: 12s\nanomalies:\n"
                        "- {target: geo, kind: cpu, intensity: 1, at: 3.25s, for: 4s}\n",
                        NULL));
    const uint32_t geo = aw_graph_service_find(&app, "geo");
    calibration.start[geo][AW_ANOMALY_CPU] = 0.2;
    calibration.end[geo][AW_ANOMALY_CPU] = 0.8;
    assert_ok(aw_graph_world_new(&app, &(struct aw_graph_config){.seed = 1}, NULL, &world));
    aw_injector_init(&injector, &app, &calibration, &campaign);
    for (int64_t s = 1; s <= 12; s++) {
        aw_injector_run(&injector, world, s * AW_GRAPH_S_NS);
        aw_graph_world_read(world, readings);
        if (s >= 5 && s <= 7)
            assert_true(readings[geo].use[AW_GRAPH_CPU] > 0.9);
        if (s <= 3 || s >= 9)
            assert_true(readings[geo].use[AW_GRAPH_CPU] < 0.6);
    }
    aw_graph_world_free(world);
}

static void a_calibration_lies_between_the_first_miss_and_four_fifths(void **state)
{
    static struct aw_calibration found;
    uint32_t service;
    (void)state;
    aw_graph_app_init(&app, "two", 200);
    assert_ok(aw_graph_app_service(&app, "front", AW_GRAPH_WEB, &service, NULL));
    assert_ok(aw_graph_app_op(&app, service, "", 0.5, "back", NULL));
    assert_ok(aw_graph_app_service(&app, "back", AW_GRAPH_STORE, &service, NULL));
    assert_ok(aw_graph_app_op(&app, service, "", 0.8, "", NULL));
    assert_ok(aw_graph_app_type(&app, "get", "front", 1, 12, NULL));
    assert_ok(aw_graph_app_finish(&app, NULL));
    assert_ok(aw_calibrate_graph(&app, 1, NULL, &found));
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t k = 0; k < AW_ANOMALY_KINDS; k++)
            if (aw_calibration_has(&found, s, (enum aw_anomaly_kind)k))
                assert_true(found.start[s][k] > 0 && found.start[s][k] <= found.end[s][k] &&
                            found.end[s][k] <= 1);
    assert_true(aw_calibration_has(&found, 1, AW_ANOMALY_CPU));
    assert_true(aw_calibration_has(&found, 1, AW_ANOMALY_DISK));
}

static enum aw_err graph_text(const char *text, struct aw_diag *diag)
{
    char path[] = "/tmp/aware-graph-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    const enum aw_err err = aw_graph_app_read(path, &app, diag);
    unlink(path);
    return err;
}

#define HEAD "kind: ServiceGraph\nname: shop\nrate: 100/s\nservices:\n"
#define TAIL "requests:\n- {name: get, entry: a, slo: 20ms}\n"

static void a_graph_of_ones_own_is_read_or_refused_with_its_place(void **state)
{
    static const struct {
        const char *text, *words; /* NULL: it is fine */
        uint32_t line;
    } rows[] = {
        {HEAD "- {name: a, class: web, cpu: 1ms, calls: \"2*b\"}\n- {name: b, cpu: 500us}\n" TAIL,
         NULL, 0},
        {HEAD "- {name: a, class: disk, cpu: 1ms}\n" TAIL, "one of logic", 5},
        {HEAD "- {name: a, calls: b}\n" TAIL, "missing key \"cpu\"", 5},
        {HEAD "- {name: a, cpu: 1ms, calls: \"par(b\"}\n- {name: b, cpu: 1ms}\n" TAIL, "')'", 1},
        {HEAD "- {name: b, cpu: 1ms}\n" TAIL, "which is not there", 7},
        {"kind: Pod\n", "ServiceGraph", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_diag diag = {0};
        const enum aw_err err = graph_text(rows[i].text, &diag);
        if (rows[i].words ? !err || diag.line != rows[i].line || !strstr(diag.text, rows[i].words)
                          : err != AW_OK)
            fail_msg("%zu: line %u: \"%s\"", i, diag.line, diag.text);
        if (!rows[i].words)
            assert_close(app.services[1].visits_per_s, 200, 1e-9);
    }
}

AW_TEST_GROUP("graph-campaign")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_says_what_where_how_strong_and_when),
        cmocka_unit_test(a_file_that_is_wrong_is_refused_with_its_place),
        cmocka_unit_test(stress_is_there_while_its_anomaly_is_and_not_after),
        cmocka_unit_test(a_calibration_lies_between_the_first_miss_and_four_fifths),
        cmocka_unit_test(a_graph_of_ones_own_is_read_or_refused_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
