/* calibrate_test.c - the plan, the models' answers and the verdict. */
#include "fitting/calibrate.h"

#include "base/testing.h"

#include <math.h>

#define SPAN_S 8

static const struct aw_calibrate_size sizes[] = {
    {1, 150, true}, {1, 450, true}, {1, 220, false}, {2, 250, false}};

static const struct aw_calibrate_world world = {.node_cores = 2, .seed = 7, .windows = 8};

static struct aw_app app_described(void)
{
    struct aw_app app = {.name = "described", .segment_count = 2};
    app.segment[0] = aw_segment_builtin()[8]; /* web_serving */
    app.segment[1] = aw_segment_builtin()[7]; /* gunzip */
    for (uint32_t i = 0; i < app.segment_count; i++)
        app.segment[i].cpu_ms *= 0.2; /* many requests: less is left to chance */
    return app;
}

static void capacity_is_what_was_answered_under_too_much(void **state)
{
    (void)state;
    struct aw_calibrate_point point = {
        .setting = aw_calibrate_saturate(&(struct aw_calibrate_size){1, 300, true}, 1, 10, 4),
        .measured = {.requests = 160, .throughput_per_s = 30, .utilisation = 1}};
    assert_close(point.setting.rate_per_s, 1.3 * 30, 1e-9);
    assert_true(point.setting.load > 1);
    assert_close(aw_calibrate_capacity(&point), 30, 1e-9);
    /* everything was answered at half of the limit: twice as much would be, too */
    point.measured.throughput_per_s = 40;
    point.measured.utilisation = 0.5;
    assert_close(aw_calibrate_capacity(&point), 80, 1e-9);
    /* the limit was not reached, yet not everything answered: workers were short */
    point.measured.throughput_per_s = 20;
    assert_close(aw_calibrate_capacity(&point), 20, 1e-9);
}

static void loads_grow_and_unseen_sizes_have_more_of_them(void **state)
{
    (void)state;
    struct aw_calibrate_setting ladder[AW_CALIBRATE_LOADS_MAX];
    const uint32_t seen = aw_calibrate_ladder(&sizes[0], 0, 40, SPAN_S, ladder);
    const uint32_t unseen = aw_calibrate_ladder(&sizes[2], 2, 40, SPAN_S, ladder);
    uint32_t below = 0;
    assert_true(seen >= 3 && unseen > seen);
    for (uint32_t i = 0; i < unseen; i++) {
        assert_close(ladder[i].rate_per_s, 40 * ladder[i].load, 1e-9);
        assert_true(i == 0 || ladder[i].load > ladder[i - 1].load);
        assert_int_equal(ladder[i].size_index, 2);
        assert_false(ladder[i].size.seen);
        below += ladder[i].load <= AW_CALIBRATE_BELOW;
    }
    assert_int_equal(below, 5);
}

static void models_use_what_a_request_costs_and_no_more_than_the_limit(void **state)
{
    (void)state;
    const struct aw_app app = app_described();
    struct aw_demand demand;
    struct aw_diag diag = {0};
    aw_app_demand(&app, 1, 0, &demand);
    for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++) {
        struct aw_calibrate_figures half, full;
        struct aw_calibrate_setting setting = {.size = {2, 250, false}, .load = 0.5, .span_s = 20};
        setting.rate_per_s = 0.5 * 500 / demand.cpu_ms;
        assert_ok(aw_calibrate_predict((enum aw_calibrate_model)m, &app, &world, &setting, NULL,
                                       &half, &diag));
        assert_close(half.utilisation, 0.5, 0.05);
        assert_close(half.throughput_per_s / setting.rate_per_s, 1, 0.1);
        assert_true(half.p50_ms < half.mean_ms && half.mean_ms < half.p99_ms);
        setting.rate_per_s *= 2.6;
        setting.load = 1.3;
        assert_ok(aw_calibrate_predict((enum aw_calibrate_model)m, &app, &world, &setting, NULL,
                                       &full, &diag));
        assert_close(full.utilisation, 1, 0.03);
        assert_close(full.throughput_per_s / (500 / demand.cpu_ms), 1, 0.1);
        assert_true(full.p99_ms > 10 * half.p99_ms);
        setting.size.replicas = 9;
        assert_int_equal(aw_calibrate_predict((enum aw_calibrate_model)m, &app, &world, &setting,
                                              NULL, &full, &diag),
                         AW_ERR_RANGE);
    }
}

static void a_fit_needs_points(void **state)
{
    (void)state;
    const struct aw_app described = app_described();
    struct aw_calibrate_point points[4] = {0};
    struct aw_calibrate_fit fit;
    struct aw_diag diag = {0};
    assert_int_equal(aw_calibrate_fit(&described, points, 4, &world, NULL, NULL, &fit, &diag),
                     AW_ERR_NODATA);
}

static void the_verdict_is_about_unseen_points_below_saturation(void **state)
{
    (void)state;
    /* load, mean measured, mean of the model; a curve that doubles at 30/s, and at 33/s */
    static const double rows[][3] = {{0.1, 10, 10}, {0.5, 10, 10}, {0.75, 40, 20}, {1.3, 400, 400}};
    struct aw_calibrate_point points[8] = {0};
    struct aw_calibrate_verdict verdict;
    uint32_t count = 0;
    for (uint32_t seen = 0; seen < 2; seen++)
        for (uint32_t i = 0; i < 4; i++) {
            struct aw_calibrate_point *p = &points[count++];
            p->setting = (struct aw_calibrate_setting){
                .size = {1, 500, seen}, .size_index = seen, .load = rows[i][0], .span_s = 10};
            const double rate = 40 * rows[i][0];
            p->measured = (struct aw_calibrate_figures){.requests = 10 * rate,
                                                        .p50_ms = 5,
                                                        .p99_ms = 100,
                                                        .mean_ms = rows[i][1],
                                                        .utilisation = fmin(1, rows[i][0]),
                                                        .throughput_per_s = fmin(rate, 40)};
            for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++) {
                p->model[m] = p->measured;
                p->model[m].mean_ms = rows[i][2];
                p->model[m].p99_ms *= seen ? 7 : m == AW_CALIBRATE_FAST ? 0.7 : 1.1;
                p->model[m].utilisation += i == 1 ? 0.04 : 0.01;
            }
        }
    aw_calibrate_judge(points, count, &verdict);
    assert_int_equal(verdict.below_count, 3);
    assert_close(verdict.model[AW_CALIBRATE_REFERENCE].p99_median, 0.1, 1e-9);
    assert_close(verdict.model[AW_CALIBRATE_FAST].p99_median, 0.3, 1e-9);
    assert_close(verdict.model[AW_CALIBRATE_FAST].p50_median, 0, 1e-9);
    assert_close(verdict.model[AW_CALIBRATE_FAST].utilisation_median, 0.01, 1e-9);
    assert_close(verdict.model[AW_CALIBRATE_FAST].utilisation_max, 0.04, 1e-9);
    assert_int_equal(verdict.knee_count, 1);
    /* from 10 to 40 ms between 20/s and 30/s: 20 ms at 25/s; the model reaches 20 ms at 30/s */
    assert_close(verdict.knee[0].measured_per_s, 25, 1e-9);
    assert_close(verdict.knee[0].model_per_s[0], 30, 1e-9);
    assert_close(verdict.knee[0].capacity_per_s, 40, 1e-9);
    assert_close(verdict.model[AW_CALIBRATE_REFERENCE].knee_max, 0.2, 1e-9);
}

AW_TEST_GROUP("calibrate")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacity_is_what_was_answered_under_too_much),
        cmocka_unit_test(loads_grow_and_unseen_sizes_have_more_of_them),
        cmocka_unit_test(models_use_what_a_request_costs_and_no_more_than_the_limit),
        cmocka_unit_test(a_fit_needs_points),
        cmocka_unit_test(the_verdict_is_about_unseen_points_below_saturation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
