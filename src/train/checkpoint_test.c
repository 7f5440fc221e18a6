#include "train/train.h"

#include "train/train_testing.h"

/* ---- resume ---- */

static void a_resumed_run_equals_an_uninterrupted_one_wherever_it_was_cut(void **state)
{
    (void)state;
    static const struct {
        const char *env;
        uint32_t env_count;
    } rows[] = {{"cartpole-v1", 1}, {"cartpole-v1", 4}, {"pendulum-v1", 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_train *train = train_of(rows[i].env, 1500, rows[i].env_count);
        train_all(train);
        assert_ok(aw_train_save(train, in("whole", ""), true, NULL));
        aw_train_free(train);
        for (uint64_t cut = 0; cut < 1500; cut += 467) {
            train = train_of(rows[i].env, 1500, rows[i].env_count);
            assert_ok(aw_train_step(train, cut, NULL, NULL, NULL));
            assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
            struct aw_train_progress before = *aw_train_progress(train);
            assert_ok(aw_train_step(train, 50, NULL, NULL, NULL)); /* lost in the crash */
            aw_train_free(train);
            train = NULL;
            assert_ok(aw__train_load(in("cut", ""), 0, true, &probe_factory, NULL, &train, NULL));
            const struct aw_train_progress *after = aw_train_progress(train);
            assert_int_equal(after->step, before.step);
            assert_int_equal(after->episode_count, before.episode_count);
            assert_int_equal(after->learn.count, before.learn.count);
            assert_true(after->return_mean == before.return_mean || isnan(before.return_mean));
            train_all(train);
            assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
            aw_train_free(train);
            assert_same_run("whole", "cut");
            assert_int_not_equal(access(in("cut", "checkpoint.tmp"), F_OK), 0);
        }
        wipe("cut");
        wipe("whole");
    }
}

/* The learners that ship, each on an environment whose actions it can take. */
static void every_learner_resumes_to_the_same_bytes(void **state)
{
    (void)state;
    static const char *const smaller[] = {"replay_capacity=2000", "warmup_steps=100",
                                          "rollout_steps=64", NULL};
    for (const struct aw_agent_factory *const *f = aw_agent_builtin(); *f; f++) {
        struct aw_train_config config = {.steps = 500, .seed = 3, .env_count = 2};
        struct aw_train *train = NULL;
        const char *preset;
        snprintf(config.env, sizeof config.env, "%s",
                 (*f)->discrete ? "cartpole-v1" : "pendulum-v1");
        snprintf(config.agent, sizeof config.agent, "%s", (*f)->name);
        assert_ok(aw_train_settings(*f, config.env, NULL, config.settings, &preset, NULL));
        for (const char *const *pair = smaller; *pair; pair++) {
            enum aw_err err = aw_conf_set_pair((*f)->fields, config.settings, *pair, NULL);
            assert_true(err == AW_OK || err == AW_ERR_CONFIG); /* not every learner has each */
        }
        assert_ok(aw_train_new(&config, NULL, &train, NULL));
        train_all(train);
        assert_ok(aw_train_save(train, in("whole", ""), true, NULL));
        double whole[40], cut[40];
        assert_ok(aw_train_evaluate(train, 40, 1, whole, NULL));
        assert_ok(aw_train_evaluate(train, 10, 1, cut, NULL));
        assert_memory_equal(whole, cut, 10 * sizeof *whole); /* whatever else was asked for */
        aw_train_free(train);
        assert_ok(aw_train_new(&config, NULL, &train, NULL));
        assert_ok(aw_train_step(train, 282, NULL, NULL, NULL));
        assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
        aw_train_free(train);
        struct aw_diag diag = {0};
        if (aw_train_resume(in("cut", ""), 0, NULL, &train, &diag))
            fail_msg("%s: %s", (*f)->name, diag.text);
        train_all(train);
        assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
        aw_train_free(train);
        assert_same_run("whole", "cut");
        assert_ok(aw_train_open(in("cut", ""), NULL, &train, NULL));
        assert_ok(aw_train_evaluate(train, 40, 1, cut, NULL));
        assert_memory_equal(whole, cut, sizeof whole);
        aw_train_free(train);
        wipe("whole");
        wipe("cut");
    }
}

static void a_learner_that_cannot_take_the_actions_names_those_that_can(void **state)
{
    (void)state;
    const struct aw_agent_factory *ddpg = NULL;
    struct aw_train_config config = {
        .env = "cartpole-v1", .agent = "ddpg", .steps = 10, .env_count = 1};
    struct aw_train *train = NULL;
    struct aw_diag diag;
    assert_ok(aw_agent_factory_find("ddpg", &ddpg, NULL));
    aw_conf_defaults(ddpg->fields, config.settings);
    assert_int_equal(aw_train_new(&config, NULL, &train, &diag), AW_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "dqn"));
    assert_null(strstr(diag.text, "td3"));
}

static void a_longer_total_goes_on_where_the_shorter_ended(void **state)
{
    (void)state;
    struct aw_train *train = train_of("pendulum-v1", 900, 3);
    train_all(train);
    assert_ok(aw_train_save(train, in("whole", ""), true, NULL));
    aw_train_free(train);
    train = train_of("pendulum-v1", 300, 3);
    train_all(train);
    assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
    aw_train_free(train);
    assert_ok(aw__train_load(in("cut", ""), 900, true, &probe_factory, NULL, &train, NULL));
    assert_false(aw_train_done(train));
    train_all(train);
    assert_ok(aw_train_save(train, in("cut", ""), true, NULL));
    aw_train_free(train);
    assert_same_run("whole", "cut");
    wipe("whole");
    wipe("cut");
}

static void a_total_below_what_was_done_is_refused_and_nothing_is_written(void **state)
{
    (void)state;
    struct aw_train *train = train_of("pendulum-v1", 301, 3); /* ends at 303 */
    struct aw_diag diag = {0};
    train_all(train);
    assert_ok(aw_train_save(train, in("old", ""), true, NULL));
    assert_ok(aw_train_save(train, in("x", ""), true, NULL));
    aw_train_free(train);
    train = NULL;
    assert_int_equal(aw__train_load(in("x", ""), 300, true, &probe_factory, NULL, &train, &diag),
                     AW_ERR_RANGE);
    assert_null(train);
    assert_non_null(strstr(diag.text, "303"));
    assert_same_run("old", "x");
    assert_ok(aw__train_load(in("x", ""), 301, true, &probe_factory, NULL, &train, NULL));
    assert_true(aw_train_done(train));
    aw_train_free(train);
    wipe("old");
    wipe("x");
}

/* The halves of files that a killed process left in checkpoint.tmp go with the next save or
 * resume; what somebody else put there stays. */
static void what_a_killed_save_left_behind_is_removed(void **state)
{
    (void)state;
    struct aw_train *train = train_of("cartpole-v1", 100, 1);
    assert_ok(aw_train_save(train, in("x", ""), true, NULL));
    for (uint32_t resumed = 0; resumed < 2; resumed++) {
        assert_ok(aw_file_mkdirs(in("x", "checkpoint.tmp"), NULL));
        copy_file(in("x", "run.json"), in("x", "checkpoint.tmp/state.safetensors.7-1.tmp"));
        copy_file(in("x", "run.json"), in("x", "checkpoint.tmp/notes"));
        if (resumed)
            aw_train_free(train);
        if (resumed)
            assert_ok(aw__train_load(in("x", ""), 0, true, &probe_factory, NULL, &train, NULL));
        else
            assert_ok(aw_train_save(train, in("x", ""), true, NULL));
        assert_int_not_equal(access(in("x", "checkpoint.tmp/state.safetensors.7-1.tmp"), F_OK), 0);
        assert_int_equal(unlink(in("x", "checkpoint.tmp/notes")), 0);
    }
    aw_train_free(train);
    wipe("x");
}

/* A save is: the learner's files and loop.state into checkpoint.tmp, then three moves. Whatever was
 * done of it when the power went, resume finds the old checkpoint or the new one. */
static void a_crash_in_the_middle_of_a_save_loses_no_checkpoint(void **state)
{
    (void)state;
    static const char *const files[] = {"model.safetensors", "state.safetensors", "loop.state"};
    struct aw_train *train = train_of("cartpole-v1", 1000, 2);
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_ok(aw_train_save(train, in("old", ""), true, NULL));
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_ok(aw_train_save(train, in("new", ""), true, NULL));
    aw_train_free(train);
    for (uint32_t done = 0; done <= 6; done++) {
        char saving[64];
        assert_ok(aw_file_mkdirs(in("x", "checkpoint.tmp"), NULL));
        copy_file(in("old", "run.json"), in("x", "run.json"));
        for (uint32_t i = 0; i < 3; i++) {
            bool written = done > i, moved = done > 3 + i;
            snprintf(saving, sizeof saving, "checkpoint.tmp/%s", files[i]);
            copy_file(in(moved ? "new" : "old", files[i]), in("x", files[i]));
            if (written && !moved)
                copy_file(in("new", files[i]), in("x", saving));
        }
        train = NULL;
        assert_ok(aw__train_load(in("x", ""), 0, true, &probe_factory, NULL, &train, NULL));
        assert_int_equal(aw_train_progress(train)->step, done < 3 ? 400 : 800);
        aw_train_free(train);
        assert_same_run(done < 3 ? "old" : "new", "x");
        assert_int_not_equal(access(in("x", "checkpoint.tmp"), F_OK), 0);
        wipe("x");
    }
    wipe("old");
    wipe("new");
}

static enum aw_err load_error(const char *dir, struct aw_diag *diag)
{
    struct aw_train *train = NULL;
    enum aw_err err = aw__train_load(in(dir, ""), 0, true, &probe_factory, NULL, &train, diag);
    assert_null(train);
    return err;
}

static void a_damaged_loop_state_is_refused_at_every_byte(void **state)
{
    (void)state;
    struct aw_diag diag;
    unsigned char *bytes;
    struct aw_train *train = train_of("cartpole-v1", 1000, 2);
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_ok(aw_train_save(train, in("x", ""), true, NULL));
    aw_train_free(train);
    size_t len = slurp(in("x", "loop.state"), &bytes);
    for (size_t i = 0; i < len; i += i < 64 ? 1 : 97) {
        bytes[i] ^= 0x04;
        spill(in("x", "loop.state"), bytes, len);
        assert_int_equal(load_error("x", &diag), AW_ERR_FORMAT);
        bytes[i] ^= 0x04;
        spill(in("x", "loop.state"), bytes, i);
        assert_int_equal(load_error("x", &diag), AW_ERR_FORMAT);
    }
    spill(in("x", "loop.state"), "PK\3\4 something else", 20);
    assert_int_equal(load_error("x", &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.file, "loop.state"));
    unlink(in("x", "loop.state"));
    assert_int_equal(load_error("x", &diag), AW_ERR_NOTFOUND);
    aw_alloc_free(NULL, bytes);
    wipe("x");
}

static void a_file_of_another_checkpoint_is_refused_by_name(void **state)
{
    (void)state;
    struct aw_diag diag;
    struct aw_train *train = train_of("cartpole-v1", 1000, 2);
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_ok(aw_train_save(train, in("old", ""), true, NULL));
    assert_ok(aw_train_step(train, 400, NULL, NULL, NULL));
    assert_ok(aw_train_save(train, in("x", ""), true, NULL));
    aw_train_free(train);
    copy_file(in("old", "state.safetensors"), in("x", "state.safetensors"));
    assert_int_equal(load_error("x", &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.file, "state.safetensors"));
    unlink(in("x", "state.safetensors"));
    assert_int_equal(load_error("x", &diag), AW_ERR_NOTFOUND);
    wipe("old");
    wipe("x");
}

static void a_bad_run_json_is_refused_with_its_place(void **state)
{
    (void)state;
#define RUN(env, seed, settings)                                                                \
    "{\"format\": \"aware-run\", \"version\": 1,\n \"env\": \"" env "\", \"agent\": \"probe\"," \
    " \"preset\": \"\",\n \"seed\": " seed ", \"steps\": 10, \"envs\": 1, \"threads\": 1,\n"    \
    " \"settings\": {" settings "}}"
    static const struct {
        const char *json;
        enum aw_err err;
        uint32_t line;
        const char *text, *why;
    } rows[] = {
        {"", AW_ERR_FORMAT, 0, "", "empty"},
        {"{", AW_ERR_FORMAT, 0, "", "cut off"},
        {"[1]", AW_ERR_CONFIG, 0, "", "not a map"},
        {"{\"format\": \"other\"}", AW_ERR_FORMAT, 0, "not a run", "of another program"},
        {"{\"format\": \"aware-run\", \"version\": 2}", AW_ERR_CONFIG, 1, "1",
         "of a later version"},
        {RUN("nowhere", "1", ""), AW_ERR_NOTFOUND, 0, "nowhere", "no such environment"},
        {RUN("cartpole-v1", "-1", ""), AW_ERR_CONFIG, 3, "-1", "a seed below zero"},
        {RUN("cartpole-v1", "1.5", ""), AW_ERR_CONFIG, 3, "1.5", "half a seed"},
        {RUN("cartpole-v1", "1", "\"gian\": \"1\""), AW_ERR_CONFIG, 4, "gain",
         "an unknown setting, with the nearest"},
        {RUN("cartpole-v1", "1", "\"gain\": \"2\""), AW_ERR_CONFIG, 4, "2", "a setting too high"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aw_diag diag = {0};
        assert_ok(aw_file_mkdirs(in("x", ""), NULL));
        spill(in("x", "run.json"), rows[i].json, strlen(rows[i].json));
        enum aw_err err = load_error("x", &diag);
        if (err != rows[i].err || (rows[i].line && diag.line != rows[i].line) ||
            !strstr(diag.text, rows[i].text))
            fail_msg("%s: %s, line %u: %s", rows[i].why, aw_err_name(err), diag.line, diag.text);
    }
    wipe("x");
    assert_int_equal(load_error("x", NULL), AW_ERR_NOTFOUND);
}

AW_TEST_GROUP("checkpoint")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_equals_an_uninterrupted_one_wherever_it_was_cut),
        cmocka_unit_test(every_learner_resumes_to_the_same_bytes),
        cmocka_unit_test(a_learner_that_cannot_take_the_actions_names_those_that_can),
        cmocka_unit_test(a_longer_total_goes_on_where_the_shorter_ended),
        cmocka_unit_test(a_total_below_what_was_done_is_refused_and_nothing_is_written),
        cmocka_unit_test(what_a_killed_save_left_behind_is_removed),
        cmocka_unit_test(a_crash_in_the_middle_of_a_save_loses_no_checkpoint),
        cmocka_unit_test(a_damaged_loop_state_is_refused_at_every_byte),
        cmocka_unit_test(a_file_of_another_checkpoint_is_refused_by_name),
        cmocka_unit_test(a_bad_run_json_is_refused_with_its_place),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, setup, teardown);
}
