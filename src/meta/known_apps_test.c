/* known_apps_test.c - who is known: measured, kept in a model's file, and found again. */
#include "meta/known_apps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "meta/similarity.h"

#define DIM   4u
#define COUNT 200u

static char path[] = "/tmp/aware-known-XXXXXX";

static struct aw_context *model(const struct aw_alloc *alloc)
{
    struct aw_context_config config;
    struct aw_context *context = NULL;
    aw_context_config_init(&config);
    config.obs_dim = 2;
    config.act_dim = 1;
    config.steps = 5;
    config.workloads = 1;
    config.settings.embedding = DIM;
    config.settings.hidden = 8;
    config.settings.encoder_hidden = config.settings.encoder_dense = 8;
    config.settings.replay = 16;
    config.settings.group = 1;
    assert_ok(aw_context_new(&config, alloc, &context, NULL));
    return context;
}

static void fill(struct aw_known_apps *known, uint64_t seed)
{
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    aw_rng_fill_normal(&rng, known->embedding, (size_t)known->count * known->dim);
    for (uint32_t i = 0; i < known->count; i++)
        snprintf(known->name[i], sizeof known->name[i], "1:%u", i);
    aw_known_apps_measure(known);
}

static void each_is_measured_against_its_nearest(void **state)
{
    (void)state;
    struct aw_known_apps known;
    assert_ok(aw_known_apps_init(&known, 30, DIM, NULL));
    fill(&known, 1);
    for (uint32_t i = 0; i < known.count; i++) {
        double best = -2;
        for (uint32_t k = 0; k < known.count; k++)
            if (k != i)
                best = fmax(
                    best, aw_similarity(known.embedding + i * DIM, known.embedding + k * DIM, DIM));
        assert_close(known.nearest[i], best, 1e-12);
    }
    aw_known_apps_deinit(&known);
}

static void one_of_those_known_is_in_place_and_a_stranger_is_odd(void **state)
{
    (void)state;
    struct aw_known_apps known;
    struct aw_known_apps_place place;
    struct aw_rng rng;
    assert_ok(aw_known_apps_init(&known, COUNT, DIM, NULL));
    fill(&known, 2);
    aw_rng_init(&rng, 9, 0);
    for (uint32_t i = 0; i < COUNT; i++) /* all in one corner */
        for (uint32_t k = 0; k < DIM; k++)
            known.embedding[i * DIM + k] = (float)(3 + 0.1 * aw_rng_normal(&rng));
    aw_known_apps_measure(&known);
    aw_known_apps_place(&known, known.embedding + 7 * DIM, 3, &place);
    assert_int_equal(place.count, 3);
    assert_int_equal(place.index[0], 7);
    assert_close(place.similarity[0], 1, 1e-9);
    assert_true(place.similarity[1] >= place.similarity[2]);
    assert_false(place.odd);
    const float stranger[DIM] = {-3, 3, -3, 3};
    aw_known_apps_place(&known, stranger, 1, &place);
    assert_true(place.odd && place.quantile == 0);
    struct aw_known_apps nobody = {.dim = DIM};
    aw_known_apps_place(&nobody, stranger, 1, &place);
    assert_true(place.count == 0 && isnan(place.quantile) && !place.odd);
    aw_known_apps_deinit(&known);
}

static void take_env(void *ctx, const char *key, const char *value)
{
    if (!strcmp(key, "env"))
        snprintf(ctx, 16, "%s", value);
}

static void a_model_carries_those_known_and_loads_as_before(void **state)
{
    (void)state;
    struct aw_context *context = model(NULL), *other = model(NULL);
    struct aw_known_apps known, found;
    char text[16];
    static const char *const meta[] = {"env", "autoscale-v0"};
    assert_ok(aw_known_apps_init(&known, 5, DIM, NULL));
    fill(&known, 3);
    known.drop = (struct aw_known_apps_line){.there = true,
                                             .slope = -0.5,
                                             .intercept = 0.625,
                                             .deviation = 0.03125,
                                             .at = 0.75,
                                             .error = 0.125,
                                             .growth = 0.25,
                                             .lowest = (double)NAN,
                                             .related = true};
    assert_ok(aw_known_apps_save(context, &known, path, meta, 1, NULL));
    assert_ok(aw_context_load(other, path, NULL));
    assert_true(aw_context_checksum(other) == aw_context_checksum(context));
    assert_ok(aw_known_apps_load(&found, path, NULL, NULL));
    assert_int_equal(found.count, 5);
    assert_memory_equal(found.embedding, known.embedding, 5 * DIM * sizeof(float));
    assert_memory_equal(found.nearest, known.nearest, 5 * sizeof(double));
    assert_string_equal(found.name[4], "1:4");
    assert_true(found.drop.there && found.drop.slope == -0.5 && found.drop.intercept == 0.625 &&
                found.drop.deviation == 0.03125 && !found.episodes.there);
    assert_true(found.drop.at == 0.75 && found.drop.error == 0.125 && found.drop.growth == 0.25 &&
                isnan(found.drop.lowest) && found.drop.related);
    assert_ok(aw_known_apps_meta(path, take_env, text, NULL, NULL));
    assert_string_equal(text, "autoscale-v0");
    aw_known_apps_deinit(&found);
    assert_ok(aw_context_save(context, path, NULL, 0, NULL)); /* one that knows nobody */
    assert_ok(aw_known_apps_load(&found, path, NULL, NULL));
    assert_int_equal(found.count, 0);
    aw_known_apps_deinit(&found);
    aw_known_apps_deinit(&known);
    aw_context_free(other);
    aw_context_free(context);
}

static void a_line_is_followed_only_where_likeness_tells_something(void **state)
{
    (void)state;
    struct aw_known_apps_line line = {.there = true,
                                      .slope = -0.5,
                                      .intercept = 0.5,
                                      .deviation = 0.03,
                                      .at = 0.9,
                                      .growth = 0.1,
                                      .lowest = -0.25,
                                      .related = true};
    struct aw_known_apps_prediction told = aw_known_apps_predict(&line, 0.9, false);
    assert_true(told.there && told.related && !told.outside);
    assert_close(told.value, 0.05, 1e-12);
    assert_close(told.deviation, 0.03, 1e-12);
    told =
        aw_known_apps_predict(&line, 0.5, true); /* the error grows, and it is said to be outside */
    assert_close(told.value, 0.25, 1e-12);
    assert_close(told.deviation, 0.05, 1e-12);
    assert_true(told.outside);
    assert_true(
        aw_known_apps_predict(&line, -0.3, false).outside); /* less like than was measured */
    assert_false(aw_known_apps_predict(&line, (double)NAN, false).there);
    line.related = false; /* then it is what validation came to, wherever the workload lies */
    told = aw_known_apps_predict(&line, 0.5, false);
    assert_true(told.there && !told.related);
    assert_close(told.value, 0.05, 1e-12);
    assert_close(told.deviation, 0.03, 1e-12);
    assert_false(aw_known_apps_predict(&(struct aw_known_apps_line){0}, 0.9, false).there);
}

static void a_model_from_before_is_taken_at_its_slope(void **state)
{
    (void)state;
    struct aw_context *context = model(NULL);
    struct aw_known_apps found;
    static const char *const meta[] = {
        "predict.drop.slope",         "0.25", "predict.drop.intercept",     "-0.125",
        "predict.drop.deviation",     "0.5",  "predict.episodes.slope",     "-2",
        "predict.episodes.intercept", "3",    "predict.episodes.deviation", "0"};
    assert_ok(aw_context_save(context, path, meta, 6, NULL));
    assert_ok(aw_known_apps_load(&found, path, NULL, NULL));
    struct aw_known_apps_prediction told = aw_known_apps_predict(&found.drop, 0.5, false);
    assert_true(told.there && !told.related && !told.outside); /* likeness that hurts is none */
    assert_close(told.value, 0.125, 1e-12);
    assert_close(told.deviation, 0.5, 1e-12);
    told = aw_known_apps_predict(&found.episodes, 0.5, false);
    assert_true(told.there && told.related);
    assert_close(told.value, 2, 1e-12);
    assert_close(told.deviation, 1, 1e-12); /* nobody knows it to the episode */
    aw_known_apps_deinit(&found);
    aw_context_free(context);
}

static void what_is_no_model_is_refused_and_every_allocation_may_fail(void **state)
{
    (void)state;
    struct aw_context *context = model(NULL);
    struct aw_known_apps known, found;
    struct aw_diag diag = {0};
    assert_ok(aw_known_apps_init(&known, 5, DIM, NULL));
    fill(&known, 4);
    assert_ok(aw_known_apps_save(context, &known, path, NULL, 0, NULL));
    struct aw_alloc_counting counting;
    enum aw_err err = AW_ERR_NOMEM;
    aw_alloc_counting_init(&counting);
    for (uint64_t n = 0; err == AW_ERR_NOMEM; n++) {
        counting.fail_after = counting.alloc_count + n;
        err = aw_known_apps_load(&found, path, &counting.alloc, &diag);
        if (err)
            assert_int_equal(counting.alloc_count, counting.free_count);
    }
    assert_ok(err);
    aw_known_apps_deinit(&found);
    assert_ok(aw_context_save_state(context, path, "", NULL, 0, NULL));
    assert_int_equal(aw_known_apps_load(&found, path, NULL, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "aware-context-1"));
    known.name[2][0] = '\n'; /* a name in two: no longer as many as there are */
    assert_ok(aw_known_apps_save(context, &known, path, NULL, 0, NULL));
    assert_int_equal(aw_known_apps_load(&found, path, NULL, &diag), AW_ERR_FORMAT);
    aw_known_apps_deinit(&known);
    aw_context_free(context);
}

static int set_up(void **state)
{
    (void)state;
    const int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

AW_TEST_GROUP("known-apps")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_measured_against_its_nearest),
        cmocka_unit_test(one_of_those_known_is_in_place_and_a_stranger_is_odd),
        cmocka_unit_test(a_model_carries_those_known_and_loads_as_before),
        cmocka_unit_test(a_line_is_followed_only_where_likeness_tells_something),
        cmocka_unit_test(a_model_from_before_is_taken_at_its_slope),
        cmocka_unit_test(what_is_no_model_is_refused_and_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
