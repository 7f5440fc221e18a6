#include "train/train.h"

#include "train/train_testing.h"

/* ---- the loop ---- */

struct tally {
    uint64_t episodes, steps, step_last;
    double return_sum;
};

static void tally_episode(void *ctx, const struct aw_train_episode *episode)
{
    struct tally *tally = ctx;
    tally->episodes++;
    tally->steps += episode->length;
    tally->return_sum += episode->episode_return;
    assert_true(episode->step >= tally->step_last);
    tally->step_last = episode->step;
}

static void a_run_ends_at_the_first_multiple_that_reaches_its_steps(void **state)
{
    (void)state;
    struct aw_train *train = train_of("cartpole-v1", 1001, 4);
    struct tally tally = {0};
    assert_false(aw_train_done(train));
    assert_true(isnan(aw_train_progress(train)->return_mean));
    assert_ok(aw_train_step(train, 1, tally_episode, &tally, NULL));
    assert_int_equal(aw_train_progress(train)->step, 4);
    assert_ok(aw_train_step(train, UINT32_MAX, tally_episode, &tally, NULL));
    const struct aw_train_progress *progress = aw_train_progress(train);
    assert_int_equal(progress->step, 1004);
    assert_true(aw_train_done(train));
    assert_int_equal(progress->episode_count, tally.episodes);
    assert_int_equal(progress->update_count, 251 / 3);
    assert_true(tally.episodes > 10 && tally.steps <= 1004);
    assert_close(tally.return_sum, (double)tally.steps, 1e-9); /* CartPole pays 1 for each step */
    if (tally.episodes < AW_TRAIN_RECENT)
        assert_close(progress->return_mean, tally.return_sum / (double)tally.episodes, 1e-12);
    assert_string_equal(progress->learn.stat[0].name, "weight");
    assert_ok(aw_train_step(train, 100, tally_episode, &tally, NULL));
    assert_int_equal(aw_train_progress(train)->step, 1004);
    aw_train_free(train);
    aw_train_free(NULL);
}

static void the_learner_sees_the_final_observation_and_acts_on_the_first(void **state)
{
    (void)state;
    continued_count = ended_count = broken_count = 0;
    struct aw_train *train = train_of("cartpole-v1", 4000, 8);
    train_all(train);
    assert_true(ended_count > 100);
    assert_true(continued_count > 3000);
    assert_int_equal(broken_count, 0);
    aw_train_free(train);
}

static void the_ring_keeps_the_last_hundred_returns_oldest_first(void **state)
{
    (void)state;
    struct aw_train *train = train_of("cartpole-v1", 100, 1);
    double recent[AW_TRAIN_RECENT];
    assert_int_equal(aw_train_recent(train, recent), 0);
    for (uint32_t n = 0; n < 150; n++) {
        train->recent_return[train->recent_next] = n;
        train->recent_next = (train->recent_next + 1) % AW_TRAIN_RECENT;
        train->recent_count += train->recent_count < AW_TRAIN_RECENT;
        uint32_t count = aw_train_recent(train, recent);
        assert_int_equal(count, n + 1 < AW_TRAIN_RECENT ? n + 1 : AW_TRAIN_RECENT);
        for (uint32_t i = 0; i < count; i++)
            assert_true(recent[i] == n + 1 - count + i);
    }
    aw_train_free(train);
}

static void threads_and_slices_change_no_bytes(void **state)
{
    (void)state;
    struct aw_train_config config = config_of("pendulum-v1", 2400, 8);
    struct aw_train *train = train_of("pendulum-v1", 2400, 8), *other = NULL;
    train_all(train);
    assert_ok(aw_train_save(train, in("a", ""), true, NULL));
    aw_train_free(train);
    config.thread_count = 3;
    assert_ok(aw__train_new(&config, &probe_factory, NULL, &other, NULL));
    while (!aw_train_done(other))
        assert_ok(aw_train_step(other, 13, NULL, NULL, NULL));
    assert_ok(aw_train_save(other, in("b", ""), true, NULL));
    aw_train_free(other);
    for (const char *const *name = run_files + 1; *name; name++)
        assert_true(same_file(in("a", *name), in("b", *name)));
    wipe("a");
    wipe("b");
}

/* ---- evaluation ---- */

static void an_episode_of_an_evaluation_depends_on_seed_and_index_alone(void **state)
{
    (void)state;
    double all[50], some[50], again[50];
    struct aw_train *train = train_of("cartpole-v1", 600, 2);
    assert_ok(aw_train_step(train, 300, NULL, NULL, NULL));
    assert_ok(aw_train_evaluate(train, 50, 1, all, NULL));
    for (uint32_t count = 1; count <= 50; count += 7) {
        assert_ok(aw_train_evaluate(train, count, 1, some, NULL));
        assert_memory_equal(all, some, count * sizeof *all);
    }
    assert_ok(aw_train_evaluate(train, 50, 2, again, NULL));
    assert_memory_not_equal(all, again, sizeof all);
    assert_ok(aw_train_evaluate(train, 0, 1, again, NULL));
    assert_int_equal(aw_train_evaluate(train, AW_TRAIN_EVAL_EPISODES_MAX + 1, 1, again, NULL),
                     AW_ERR_LIMIT);
    aw_train_free(train);
}

static void no_two_episodes_of_an_evaluation_are_the_same(void **state)
{
    (void)state;
    enum { COUNT = 3 * AW__EVAL_LANES };
    double returns[COUNT];
    struct aw_train *train = train_of("pendulum-v1", 600, 1);
    assert_ok(aw_train_evaluate(train, COUNT, 1, returns, NULL));
    for (uint32_t i = 0; i < COUNT; i++) {
        for (uint32_t k = 0; k < i; k++)
            assert_true(returns[i] != returns[k]);
    }
    aw_train_free(train);
}

static void evaluating_and_saving_do_not_disturb_the_run(void **state)
{
    (void)state;
    double returns[5];
    struct aw_train *train = train_of("pendulum-v1", 900, 2);
    train_all(train);
    assert_ok(aw_train_save(train, in("a", ""), true, NULL));
    aw_train_free(train);
    train = train_of("pendulum-v1", 900, 2);
    while (!aw_train_done(train)) {
        assert_ok(aw_train_step(train, 100, NULL, NULL, NULL));
        assert_ok(aw_train_evaluate(train, 5, 3, returns, NULL));
        assert_ok(aw_train_save(train, in("b", ""), true, NULL));
    }
    aw_train_free(train);
    assert_same_run("a", "b");
    wipe("a");
    wipe("b");
}

static void an_opened_run_acts_like_the_one_that_was_saved(void **state)
{
    (void)state;
    double saved[20], opened[20];
    struct aw_train *train = train_of("pendulum-v1", 900, 2);
    train_all(train);
    assert_ok(aw_train_evaluate(train, 20, 5, saved, NULL));
    assert_ok(aw_train_save(train, in("x", ""), false, NULL));
    aw_train_free(train);
    assert_int_not_equal(access(in("x", "state.safetensors"), F_OK), 0);
    assert_ok(aw__train_load(in("x", ""), 0, false, &probe_factory, NULL, &train, NULL));
    assert_ok(aw_train_evaluate(train, 20, 5, opened, NULL));
    assert_memory_equal(saved, opened, sizeof saved);
    aw_train_free(train);
    wipe("x");
}

/* ---- memory and refusals ---- */

static void options_of_the_environment_are_part_of_the_run(void **state)
{
    (void)state;
    const char *pairs[] = {"episode_steps=7", "slo_factor=2.5", "app=3:1"};
    struct aw_train_config config = {
        .env = "autoscale-v0", .agent = "td3", .steps = 40, .seed = 1, .env_count = 1};
    const struct aw_agent_factory *agent;
    const struct aw_env_factory *env;
    struct aw_train *train, *opened;
    double first[3], again[3];
    assert_ok(aw_agent_factory_find("td3", &agent, NULL));
    assert_ok(aw_agent_settings(agent, NULL, config.settings, NULL));
    assert_ok(aw_env_find("autoscale-v0", &env, NULL));
    assert_ok(aw_env_settings(env, pairs, 3, config.env_settings, NULL));
    config.has_env_settings = true;
    assert_ok(aw_train_new(&config, NULL, &train, NULL));
    assert_ok(aw_train_step(train, 40, NULL, NULL, NULL));
    assert_int_equal(aw_train_progress(train)->episode_count, 5); /* of seven steps each */
    assert_ok(aw_train_save(train, in("x", ""), true, NULL));
    assert_ok(aw_train_evaluate(train, 3, 9, first, NULL));
    assert_ok(aw_train_open(in("x", ""), NULL, &opened, NULL));
    assert_true(aw_train_config(opened)->has_env_settings);
    assert_memory_equal(aw_train_config(opened)->env_settings, config.env_settings,
                        env->settings_bytes);
    assert_ok(aw_train_evaluate(opened, 3, 9, again, NULL));
    assert_memory_equal(first, again, sizeof first);
    aw_train_free(opened);
    aw_train_free(train);
    wipe("x");
}

static void after_new_nothing_allocates_and_no_failed_allocation_leaks(void **state)
{
    (void)state;
    struct aw_train_config config = config_of("cartpole-v1", 2000, 2);
    struct aw_alloc_counting counting;
    double returns[20];
    for (uint64_t budget = 0;; budget++) {
        struct aw_train *train = NULL;
        aw_alloc_counting_init(&counting);
        counting.fail_after = budget;
        enum aw_err err = aw__train_new(&config, &probe_factory, &counting.alloc, &train, NULL);
        if (!err) {
            uint64_t before = counting.alloc_count;
            assert_ok(aw_train_step(train, 1000, NULL, NULL, NULL));
            assert_ok(aw_train_evaluate(train, 20, 1, returns, NULL));
            assert_int_equal(counting.alloc_count, before);
            aw_train_free(train);
            assert_int_equal(counting.alloc_count, counting.free_count);
            assert_true(budget > 3);
            break;
        }
        assert_int_equal(err, AW_ERR_NOMEM);
        assert_null(train);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
}

static void a_config_out_of_range_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t steps, seed;
        uint32_t env_count;
        const char *key;
    } rows[] = {
        {0, 0, 1, "steps"},
        {(uint64_t)AW_TRAIN_STEPS_MAX + 1, 0, 1, "steps"},
        {10, UINT64_MAX, 1, "seed"},
        {10, 0, 0, "envs"},
        {10, 0, AW_TRAIN_ENVS_MAX + 1, "envs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_train_config config = config_of("cartpole-v1", rows[i].steps, rows[i].env_count);
        struct aw_train *train = NULL;
        struct aw_diag diag;
        config.seed = rows[i].seed;
        assert_int_equal(aw__train_new(&config, &probe_factory, NULL, &train, &diag), AW_ERR_RANGE);
        assert_string_equal(diag.key, rows[i].key);
        assert_null(train);
    }
}

static void a_learner_that_diverges_says_so_and_when(void **state)
{
    (void)state;
    struct aw_diag diag;
    struct aw_train *train = train_of("cartpole-v1", 100, 1);
    assert_ok(aw_train_step(train, 5, NULL, NULL, NULL));
    probe_learn_answer = AW_ERR_DIVERGED;
    assert_int_equal(aw_train_step(train, 5, NULL, NULL, &diag), AW_ERR_DIVERGED);
    probe_learn_answer = AW_OK;
    assert_non_null(strstr(diag.text, "step 6"));
    aw_train_free(train);
}

static void a_preset_named_like_the_environment_is_taken_by_itself(void **state)
{
    (void)state;
    static const struct {
        const char *env, *preset, *name;
        double gain;
    } rows[] = {
        {"pendulum-v1", NULL, "pendulum-v1", 0.25},
        {"pendulum-v1", "", "pendulum-v1", 0.25},
        {"pendulum-v1", "none", "", 0.5},
        {"pendulum-v1", "slow", "slow", 0.125},
        {"cartpole-v1", NULL, "", 0.5},
        {"cartpole-v1", "slow", "slow", 0.125},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct probe_settings settings;
        const char *name = NULL;
        assert_ok(
            aw_train_settings(&probe_factory, rows[i].env, rows[i].preset, &settings, &name, NULL));
        assert_string_equal(name, rows[i].name);
        assert_close((double)settings.gain, rows[i].gain, 0);
    }
    struct probe_settings settings;
    const char *name = "untouched";
    struct aw_diag diag;
    assert_int_equal(
        aw_train_settings(&probe_factory, "pendulum-v1", "quick", &settings, &name, &diag),
        AW_ERR_NOTFOUND);
    assert_string_equal(name, "untouched");
    assert_non_null(strstr(diag.text, "quick"));
}

AW_TEST_GROUP("train")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_ends_at_the_first_multiple_that_reaches_its_steps),
        cmocka_unit_test(the_learner_sees_the_final_observation_and_acts_on_the_first),
        cmocka_unit_test(the_ring_keeps_the_last_hundred_returns_oldest_first),
        cmocka_unit_test(threads_and_slices_change_no_bytes),
        cmocka_unit_test(an_episode_of_an_evaluation_depends_on_seed_and_index_alone),
        cmocka_unit_test(no_two_episodes_of_an_evaluation_are_the_same),
        cmocka_unit_test(evaluating_and_saving_do_not_disturb_the_run),
        cmocka_unit_test(an_opened_run_acts_like_the_one_that_was_saved),
        cmocka_unit_test(options_of_the_environment_are_part_of_the_run),
        cmocka_unit_test(after_new_nothing_allocates_and_no_failed_allocation_leaks),
        cmocka_unit_test(a_config_out_of_range_is_refused),
        cmocka_unit_test(a_learner_that_diverges_says_so_and_when),
        cmocka_unit_test(a_preset_named_like_the_environment_is_taken_by_itself),
    };
    return cmocka_run_group_tests_name("train", tests, setup, teardown);
}
