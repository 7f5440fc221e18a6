/* calibrate_fit_test.c - the fit, on figures that a model made: what was put in is found. */
#include "fitting/calibrate.h"

#include "base/testing.h"

#include <math.h>

#define SPAN_S 12

static const struct aw_calibrate_size sizes[] = {
    {1, 150, true}, {1, 450, true}, {1, 220, false}, {2, 250, false}};
#define SIZES (sizeof sizes / sizeof *sizes)

static const struct aw_calibrate_world world = {.node_cores = 2, .seed = 7, .windows = 8};

/* What "really" runs: a description that is off in all that a fit seeks. */
static struct aw_app app_described(void)
{
    struct aw_app app = {.name = "described", .segment_count = 2};
    app.segment[0] = aw_segment_builtin()[8]; /* web_serving */
    app.segment[1] = aw_segment_builtin()[7]; /* gunzip */
    for (uint32_t i = 0; i < app.segment_count; i++)
        app.segment[i].cpu_ms *= 0.2; /* many requests: less is left to chance */
    return app;
}

static struct aw_app app_real(void)
{
    struct aw_app app = app_described();
    for (uint32_t i = 0; i < app.segment_count; i++) {
        app.segment[i].cpu_ms *= 1.4;
        app.segment[i].cpu_cv *= 1.2;
        app.segment[i].crowding = 0.6;
        app.segment[i].memory_base_mib += 10;
    }
    app.segment[0].io_cv *= app.segment[0].io_ms / (app.segment[0].io_ms + 2);
    app.segment[0].io_ms += 2;
    return app;
}

/* Measures with the reference model, under another seed than the fit has. */
static void measure(const struct aw_app *app, struct aw_calibrate_point *point)
{
    struct aw_diag diag = {0};
    struct aw_calibrate_world real = world;
    real.seed = 12345 + (uint64_t)(100 * point->setting.load) + point->setting.size_index;
    real.windows = 1;
    if (aw_calibrate_predict(AW_CALIBRATE_REFERENCE, app, &real, &point->setting, NULL,
                             &point->measured, &diag))
        fail_msg("%s", diag.text);
}

static uint32_t measure_all(const struct aw_app *app, struct aw_calibrate_point *points)
{
    struct aw_demand demand;
    uint32_t count = 0;
    aw_app_demand(app, 1, 0, &demand);
    for (uint32_t s = 0; s < SIZES; s++) {
        struct aw_calibrate_setting ladder[AW_CALIBRATE_LOADS_MAX];
        points[count] = (struct aw_calibrate_point){
            .setting = aw_calibrate_saturate(&sizes[s], s, demand.cpu_ms, 4)};
        measure(app, &points[count]);
        const double capacity = aw_calibrate_capacity(&points[count++]);
        const uint32_t loads = aw_calibrate_ladder(&sizes[s], s, capacity, SPAN_S, ladder);
        for (uint32_t i = 0; i < loads; i++) {
            points[count] = (struct aw_calibrate_point){.setting = ladder[i]};
            measure(app, &points[count++]);
        }
    }
    return count;
}

static void a_fit_finds_what_really_runs(void **state)
{
    (void)state;
    static struct aw_calibrate_point points[AW_CALIBRATE_POINTS_MAX];
    const struct aw_app described = app_described(), real = app_real();
    struct aw_calibrate_fit fit;
    struct aw_calibrate_verdict verdict;
    struct aw_diag diag = {0};
    struct aw_demand is;
    const uint32_t count = measure_all(&real, points);
    if (aw_calibrate_fit(&described, points, count, &world, NULL, NULL, &fit, &diag))
        fail_msg("%s", diag.text);
    aw_app_demand(&real, 1, 0, &is);
    assert_close(fit.value[AW_CALIBRATE_CPU].found / is.cpu_ms, 1, 0.12);
    assert_close(fit.value[AW_CALIBRATE_WAIT].found / is.io_ms, 1, 0.25);
    assert_close(fit.value[AW_CALIBRATE_CROWDING].found, 0.6, 0.35);
    assert_close(fit.value[AW_CALIBRATE_MEMORY].found / is.memory_base_mib, 1, 0.05);
    assert_true(fit.loss < 2.5);
    for (uint32_t i = 0; i < AW_CALIBRATE_VALUES; i++) {
        const double error = fit.value[i].error;
        assert_true(error > 0 && isfinite(error));
        if (i != AW_CALIBRATE_MEMORY_FLIGHT) /* few requests are in flight: little is known of it */
            assert_true(error < fmax(0.5, 0.5 * fit.value[i].found));
    }
    struct aw_demand found;
    aw_app_demand(&fit.app, 1, 0, &found);
    assert_close(found.memory_base_mib, fit.value[AW_CALIBRATE_MEMORY].found, 1e-9);
    assert_close(found.cpu_ms, fit.value[AW_CALIBRATE_CPU].found, 1e-9);
    assert_int_equal(found.threads, is.threads);

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t m = 0; m < AW_CALIBRATE_MODELS; m++)
            assert_ok(aw_calibrate_predict((enum aw_calibrate_model)m, &fit.app, &world,
                                           &points[i].setting, &points[i].measured,
                                           &points[i].model[m], &diag));
    aw_calibrate_judge(points, count, &verdict);
    assert_int_equal(verdict.below_count, 10);
    assert_int_equal(verdict.knee_count, 2);
    assert_true(verdict.model[AW_CALIBRATE_REFERENCE].p99_median < 0.25);
    assert_true(verdict.model[AW_CALIBRATE_REFERENCE].utilisation_max < 0.1);
    assert_true(verdict.model[AW_CALIBRATE_REFERENCE].knee_max < 0.3);
    assert_true(verdict.model[AW_CALIBRATE_FAST].p99_median < 0.25);
}

static void a_corrected_tail_is_that_of_light_load_alone(void **state)
{
    (void)state;
    static const struct {
        double load, least, most; /* of p99, with the correction over without it */
    } table[] = {{0.2, 0.4, 0.7}, {0.5, 0.4, 0.75}, {0.9, 0.999, 1.001}};
    struct aw_app app = app_described();
    struct aw_demand demand;
    struct aw_diag diag = {0};
    aw_app_demand(&app, 1, 0, &demand);
    for (uint32_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct aw_calibrate_figures said[2];
        const struct aw_calibrate_setting setting = {.size = {1, 400, false},
                                                     .rate_per_s =
                                                         table[i].load * 400 / demand.cpu_ms,
                                                     .load = table[i].load,
                                                     .span_s = SPAN_S};
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t s = 0; s < app.segment_count; s++)
                app.segment[s].fast_tail = k ? 0.5 : 0;
            assert_ok(aw_calibrate_predict(AW_CALIBRATE_FAST, &app, &world, &setting, NULL,
                                           &said[k], &diag));
        }
        const double ratio = said[1].p99_ms / said[0].p99_ms;
        assert_true(ratio > table[i].least && ratio < table[i].most);
        assert_true(said[1].p50_ms <= said[1].p99_ms);
    }
}

static bool never(void *ctx, double share)
{
    (void)share;
    ++*(uint32_t *)ctx;
    return false;
}

static void a_fit_ends_when_it_is_told_to(void **state)
{
    (void)state;
    static struct aw_calibrate_point points[AW_CALIBRATE_POINTS_MAX];
    const struct aw_app described = app_described();
    struct aw_calibrate_fit fit = {.loss = 42};
    struct aw_diag diag = {0};
    uint32_t asked = 0;
    const uint32_t count = measure_all(&described, points);
    assert_int_equal(
        aw_calibrate_fit(&described, points, count, &world, never, &asked, &fit, &diag),
        AW_ERR_INTERRUPTED);
    assert_int_equal(asked, 1);
    assert_close(fit.loss, 42, 0);
}

AW_TEST_GROUP("calibrate-fit")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fit_finds_what_really_runs),
        cmocka_unit_test(a_corrected_tail_is_that_of_light_load_alone),
        cmocka_unit_test(a_fit_ends_when_it_is_told_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
