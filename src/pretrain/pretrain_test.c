/* pretrain_test.c - a small pool, few rounds: that it runs, repeats itself, and learns something.
 */
#include "pretrain/pretrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/testing.h"

static void load_of(void *ctx, uint32_t app, char *buf, size_t size)
{
    (void)ctx;
    snprintf(buf, size, "diurnal:peak=2,period=%u", 1200 + 60 * (app % 7));
}

static struct aw_pretrain_config small(void)
{
    struct aw_pretrain_config config;
    aw_pretrain_config_init(&config);
    config.learn = (struct aw_pretrain_pool){.seed = 1, .count = 6, .load = load_of};
    config.check = (struct aw_pretrain_pool){.seed = 1, .first = 600, .count = 3, .load = load_of};
    config.pairs[0] = "objective=paper";
    config.pairs[1] = "episode_steps=30";
    config.pair_count = 2;
    config.context.hidden = 32;
    config.context.encoder_hidden = config.context.encoder_dense = 16;
    config.context.embedding = 8;
    config.context.episodes = 2;
    config.context.choice = AW_BUNDLE_LATEST;
    config.fallback_episodes = 2;
    config.rounds = 4;
    config.updates = 8;
    config.reward_shift = -1;
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

static void the_same_seed_gives_the_same_policy(void **state)
{
    (void)state;
    uint64_t checksum[2];
    double reward[2];
    for (uint32_t i = 0; i < 2; i++) {
        const struct aw_pretrain_config config = small();
        struct aw_pretrain *pretrain = begin(&config);
        struct aw_pretrain_score learned, checked, by_fallback, each[3];
        for (uint32_t r = 0; r < config.rounds; r++)
            assert_ok(aw_pretrain_round(pretrain, &learned, NULL));
        assert_int_equal(aw_pretrain_rounds(pretrain), config.rounds);
        checksum[i] = aw_context_checksum(aw_pretrain_context(pretrain));
        if (i) /* looking changes nothing */
            assert_ok(aw_pretrain_check_fallback(pretrain, &by_fallback, each, NULL));
        assert_ok(aw_pretrain_check(pretrain, &checked, each, NULL));
        reward[i] = checked.reward;
        assert_close((each[0].paper + each[1].paper + each[2].paper) / 3, checked.paper, 1e-9);
        assert_true(checked.paper > 10 && checked.paper < 60); /* 30 steps of at most 2 */
        assert_true(checked.cost > 0 && checked.violations >= 0 && checked.violations <= 1);
        aw_pretrain_free(pretrain);
    }
    assert_true(checksum[0] == checksum[1]);
    assert_true(reward[0] == reward[1]);
}

static void pools_that_are_none_are_refused(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    struct aw_pretrain *pretrain = NULL;
    struct aw_diag diag = {0};
    config.learn.count = 0;
    assert_int_equal(aw_pretrain_new(&config, NULL, &pretrain, &diag), AW_ERR_CONFIG);
    config = small();
    snprintf(config.env, sizeof config.env, "pendulum-v1");
    assert_int_not_equal(aw_pretrain_new(&config, NULL, &pretrain, &diag), AW_OK);
    assert_null(pretrain);
}

static void episodes_are_counted_whoever_lives_them(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    config.learn.count = 5;
    config.check.count = 3;
    config.rounds = 7;
    config.check_every = 3;
    config.check_episodes = 2;
    config.fallback_episodes = 2;
    config.refresh = true;
    config.teacher_tries = 15; /* asked for by ten */
    config.teacher_episodes = 4;
    struct aw_pretrain_episodes lived = aw_pretrain_episodes(&config);
    assert_close(lived.policy, 35, 0);
    assert_close(lived.fallback, 5 * (2 + 7) + 3 * 2, 0);
    assert_close(lived.search, 5 * 20 * 4, 0);
    assert_close(lived.checks, 3 * 3 * 2, 0); /* after rounds 3, 6 and 7 */
    config.refresh = false;
    config.teacher_tries = 0;
    lived = aw_pretrain_episodes(&config);
    assert_close(lived.fallback, 16, 0);
    assert_close(lived.search, 0, 0);
}

static void too_large_a_batch_is_told(void **state)
{
    (void)state;
    struct aw_pretrain_config config = small();
    struct aw_diag diag = {0};
    struct aw_pretrain_score learned;
    config.context.rows = 1024;
    struct aw_pretrain *pretrain = begin(&config);
    assert_int_equal(aw_pretrain_round(pretrain, &learned, &diag), AW_ERR_NODATA);
    assert_non_null(strstr(diag.text, "rows: a batch takes 1024 steps of an application"));
    aw_pretrain_free(pretrain);
}

static void offsets_are_found_by_living_episodes(void **state)
{
    (void)state;
    char path[] = "/tmp/aware-offset-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct aw_pretrain_config config = small();
    struct aw_pretrain *pretrain = begin(&config); /* taught nothing: there is something to find */
    assert_ok(aw_context_save(aw_pretrain_context(pretrain), path, NULL, 0, NULL));
    aw_pretrain_free(pretrain);
    aw_pretrain_config_adapt(&config);
    config.learn.count = 1;
    config.check.count = 0;
    config.model = path;
    config.offset_search = 0.3;
    struct aw_pretrain_score first, last[2];
    for (uint32_t again = 0; again < 2; again++) {
        pretrain = begin(&config);
        assert_ok(aw_pretrain_try(pretrain, 0, &first, NULL));
        for (uint32_t r = 0; r < 40; r++)
            assert_ok(aw_pretrain_round(pretrain, NULL, NULL));
        assert_ok(aw_pretrain_try(pretrain, 0, &last[again], NULL));
        aw_pretrain_free(pretrain);
    }
    print_message("worth %.1f before, %.1f after forty episodes\n", first.reward, last[0].reward);
    assert_true(last[0].reward > first.reward + 3);
    assert_true(last[0].reward == last[1].reward); /* same seed, same episodes */
    unlink(path);
}

AW_TEST_GROUP("pretrain")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_policy),
        cmocka_unit_test(pools_that_are_none_are_refused),
        cmocka_unit_test(episodes_are_counted_whoever_lives_them),
        cmocka_unit_test(too_large_a_batch_is_told),
        cmocka_unit_test(offsets_are_found_by_living_episodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
