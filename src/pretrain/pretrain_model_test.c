/* pretrain_model_test.c - a model says how it was taught, and is adapted with that. */
#include "pretrain/pretrain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"
#include "env/autoscale.h"
#include "meta/known_apps.h"

static char path[] = "/tmp/aware-model-XXXXXX";

static void load_of(void *ctx, uint32_t app, char *buf, size_t size)
{
    (void)ctx;
    snprintf(buf, size, "diurnal:peak=2,noise=0,period=%u", 1200 + 60 * (app % 7));
}

static enum aw_err load_make(void *ctx, uint32_t app, const struct aw_alloc *alloc,
                             struct aw_load *ret, struct aw_diag *diag)
{
    char text[AW_CONF_TEXT_MAX];
    load_of(ctx, app, text, sizeof text);
    return aw_load_parse(text, 0, alloc, ret, diag);
}

static struct aw_pretrain_config small(void)
{
    struct aw_pretrain_config config;
    aw_pretrain_config_init(&config);
    config.learn = (struct aw_pretrain_pool){.seed = 1, .first = 10, .count = 4, .load = load_of};
    config.pairs[0] = "objective=paper";
    config.pairs[1] = "episode_steps=40";
    config.pair_count = 2;
    config.context.hidden = 16;
    config.context.encoder_hidden = config.context.encoder_dense = 8;
    config.context.embedding = 4;
    config.teacher_tries = 10;
    config.teacher_episodes = 1;
    config.reward_miss = 0.625;
    config.rounds = 2;
    return config;
}

static struct aw_pretrain *begin(const struct aw_pretrain_config *config)
{
    struct aw_pretrain *pretrain = NULL;
    struct aw_diag diag = {0};
    if (aw_pretrain_new(config, NULL, &pretrain, &diag))
        fail_msg("%s", diag.text);
    return pretrain;
}

static void a_load_that_is_handed_in_is_the_same_as_one_that_is_named(void **state)
{
    (void)state;
    uint64_t checksum[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct aw_pretrain_config config = small();
        config.load_make = i ? load_make : NULL;
        struct aw_pretrain *pretrain = begin(&config);
        assert_ok(aw_pretrain_round(pretrain, NULL, NULL));
        checksum[i] = aw_context_checksum(aw_pretrain_context(pretrain));
        aw_pretrain_free(pretrain);
    }
    assert_true(checksum[0] == checksum[1]);
    struct aw_env env;
    assert_int_equal(aw_autoscale_make("pendulum-v1", NULL, 0, NULL, NULL, NULL, &env, NULL),
                     AW_ERR_UNSUPPORTED);
}

static void applications_of_a_file_are_the_same_as_those_of_the_generator(void **state)
{
    (void)state;
    uint64_t checksum[4];
    static struct aw_app apps[14];
    for (uint32_t i = 0; i < 14; i++)
        aw_app_generate(1, i, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &apps[i]);
    snprintf(apps[12].name, sizeof apps[12].name, "cart");
    for (uint32_t i = 0; i < 4; i++) {
        struct aw_pretrain_config config = small();
        if (i > 0) {
            config.learn.apps = apps;
            config.learn.file = "apps.yaml";
        }
        config.load_make = i == 2 ? load_make : NULL;
        config.learn.seed = i == 3 ? 2 : 1; /* the same applications, other episodes */
        struct aw_pretrain *pretrain = begin(&config);
        assert_ok(aw_pretrain_round(pretrain, NULL, NULL));
        checksum[i] = aw_context_checksum(aw_pretrain_context(pretrain));
        struct aw_known_apps known;
        assert_ok(aw_pretrain_known(pretrain, &known, NULL));
        assert_string_equal(known.name[2], i ? "cart" : "1:12");
        assert_string_equal(known.name[3], i ? "app-1-13" : "1:13");
        aw_known_apps_deinit(&known);
        aw_pretrain_free(pretrain);
    }
    assert_true(checksum[0] == checksum[1] && checksum[0] == checksum[2]);
    assert_true(checksum[0] != checksum[3]);
}

static void a_model_is_adapted_as_it_was_taught(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    struct aw_pretrain *pretrain = begin(&config);
    static const char *const meta[] = {"author", "a test"};
    for (uint32_t r = 0; r < config.rounds; r++)
        assert_ok(aw_pretrain_round(pretrain, NULL, NULL));
    assert_ok(aw_pretrain_model_save(pretrain, path, NULL, meta, 1, NULL));
    struct aw_known_apps known;
    assert_ok(aw_known_apps_load(&known, path, NULL, NULL));
    assert_int_equal(known.count, 4);
    assert_string_equal(known.name[3], "1:13");
    assert_memory_equal(known.embedding + 2 * 4, aw_context_embed(aw_pretrain_context(pretrain), 2),
                        4 * sizeof(float));
    aw_known_apps_deinit(&known);

    struct aw_pretrain_model *model = malloc(sizeof *model);
    assert_non_null(model);
    assert_ok(aw_pretrain_model_read(path, model, NULL, NULL));
    assert_string_equal(model->config.env, "autoscale-v0");
    assert_int_equal(model->config.pair_count, 2);
    assert_string_equal(model->config.pairs[1], "episode_steps=40");
    assert_true(model->config.reward_miss == 0.625);
    assert_int_equal(model->config.context.embedding, 4);
    aw_pretrain_config_adapt(&model->config);
    model->config.learn =
        (struct aw_pretrain_pool){.seed = 1, .first = 900, .count = 1, .load = load_of};
    struct aw_pretrain *one = begin(&model->config);
    const uint64_t before = aw_context_checksum(aw_pretrain_context(one));
    assert_true(before == aw_context_checksum(aw_pretrain_context(pretrain)));
    struct aw_pretrain_score lived, judged;
    assert_ok(aw_pretrain_round(one, &lived, NULL));
    assert_ok(aw_pretrain_try(one, 0, &judged, NULL));
    assert_true(judged.paper > 0 && lived.paper > 0);
    assert_true(aw_context_checksum(aw_pretrain_context(one)) ==
                before); /* what is only offset stays .. */
    aw_pretrain_free(one);
    model->config.offset_search =
        0; /* .. as it was until there is evidence; what learns does not */
    one = begin(&model->config);
    assert_ok(aw_pretrain_round(one, NULL, NULL));
    assert_true(aw_context_checksum(aw_pretrain_context(one)) != before);
    aw_pretrain_free(one);
    aw_pretrain_free(pretrain);
    free(model);
}

static void likeness_tells_what_a_new_application_costs(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    config.check = config.learn;
    config.check.first += config.learn.count;
    config.check.count = 3;
    struct aw_pretrain *pretrain = begin(&config);
    struct aw_known_apps known;
    assert_ok(aw_pretrain_known(pretrain, &known, NULL));
    assert_ok(aw_pretrain_model_save(pretrain, path, &known, NULL, 0, NULL));
    assert_false(known.drop.there);
    assert_ok(aw_pretrain_predict(pretrain, path, 4, &known, NULL));
    assert_true(known.drop.there && known.episodes.there);
    assert_true(isfinite(known.drop.slope) && known.drop.deviation > 0 && known.drop.error >= 0);
    assert_true(known.drop.lowest <= known.drop.at && known.drop.growth >= 0);
    assert_true(known.episodes.deviation >= 1); /* they are whole ones */
    assert_true(!known.drop.related || known.drop.slope < 0);
    assert_ok(aw_pretrain_model_save(pretrain, path, &known, NULL, 0, NULL));
    struct aw_known_apps again;
    assert_ok(aw_known_apps_load(&again, path, NULL, NULL));
    assert_true(fabs(again.drop.slope - known.drop.slope) < 1e-9);
    assert_true(again.drop.related == known.drop.related);
    assert_true(fabs(again.episodes.intercept - known.episodes.intercept) < 1e-9);
    aw_known_apps_deinit(&again);
    aw_known_apps_deinit(&known);
    aw_pretrain_free(pretrain);
}

static void a_policy_may_take_an_application_for_another(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    struct aw_pretrain *pretrain = begin(&config);
    struct aw_pretrain_score own, as_itself, as_other;
    const float other[4] = {300, -300, 300, -300};
    float itself[4];
    assert_ok(aw_pretrain_round(pretrain, NULL, NULL));
    assert_ok(aw_pretrain_try(pretrain, 1, &own, NULL));
    memcpy(itself, aw_context_embed(aw_pretrain_context(pretrain), 1), sizeof itself);
    assert_ok(aw_pretrain_try_as(pretrain, 1, itself, &as_itself, NULL));
    assert_ok(aw_pretrain_try_as(pretrain, 1, other, &as_other, NULL));
    assert_memory_equal(&own, &as_itself, sizeof own);
    assert_true(own.paper != as_other.paper);
    aw_pretrain_free(pretrain);
}

static void too_few_applications_for_a_line_predict_nothing(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    config.check = config.learn;
    config.check.first += config.learn.count;
    config.check.count = 2;
    struct aw_pretrain *pretrain = begin(&config);
    struct aw_known_apps known;
    assert_ok(aw_pretrain_known(pretrain, &known, NULL));
    assert_ok(aw_pretrain_predict(pretrain, "nowhere", 4, &known, NULL));
    assert_false(known.drop.there || known.episodes.there);
    aw_known_apps_deinit(&known);
    aw_pretrain_free(pretrain);
}

static void a_model_that_does_not_say_how_it_was_taught_is_refused(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    struct aw_pretrain *pretrain = begin(&config);
    struct aw_pretrain_model *model = malloc(sizeof *model);
    struct aw_diag diag = {0};
    assert_non_null(model);
    assert_ok(aw_context_save(aw_pretrain_context(pretrain), path, NULL, 0, NULL));
    assert_int_equal(aw_pretrain_model_read(path, model, NULL, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "where it was taught"));
    static const char *const meta[] = {"env", "autoscale-v0", "pretrain.noise", "loud"};
    assert_ok(aw_context_save(aw_pretrain_context(pretrain), path, meta, 2, NULL));
    assert_int_equal(aw_pretrain_model_read(path, model, NULL, &diag), AW_ERR_FORMAT);
    assert_string_equal(diag.key, "pretrain.noise");
    free(model);
    aw_pretrain_free(pretrain);
}

static bool stop_at_once(void *ctx, uint32_t done, uint32_t total)
{
    uint32_t *calls = ctx;
    ++*calls;
    assert_true(done > 0 && done <= total);
    return false;
}

static void meeting_can_be_watched_and_stopped(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    uint32_t calls = 0;
    config.progress = stop_at_once;
    config.progress_ctx = &calls;
    struct aw_pretrain *pretrain = begin(&config);
    struct aw_diag diag = {0};
    assert_int_equal(aw_pretrain_meet(pretrain, &diag), AW_ERR_INTERRUPTED);
    assert_int_equal(calls, 1);
    aw_pretrain_free(pretrain);
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

AW_TEST_GROUP("pretrain-model")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_that_is_handed_in_is_the_same_as_one_that_is_named),
        cmocka_unit_test(applications_of_a_file_are_the_same_as_those_of_the_generator),
        cmocka_unit_test(a_model_is_adapted_as_it_was_taught),
        cmocka_unit_test(likeness_tells_what_a_new_application_costs),
        cmocka_unit_test(a_policy_may_take_an_application_for_another),
        cmocka_unit_test(too_few_applications_for_a_line_predict_nothing),
        cmocka_unit_test(a_model_that_does_not_say_how_it_was_taught_is_refused),
        cmocka_unit_test(meeting_can_be_watched_and_stopped),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
