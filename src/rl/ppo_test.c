#include "rl/ppo.h"

#include "nn/safetensors.h"
#include "rl/dqn.h"
#include "rl/toy_testing.h"

/* 8 steps of 3 environments per rollout, so that the runs of the checks pass several. */
static const char *const plain[] = {
    "hidden=8,8", "rollout_steps=24",  "minibatches=4",    "epochs=2",
    "lr=1e-3",    "entropy_coef=0.01", "total_steps=1000", NULL};
static const char *const all_on[] = {"hidden=8",
                                     "rollout_steps=24",
                                     "minibatches=5",
                                     "epochs=2",
                                     "lr=1e-3",
                                     "normalise_obs=true",
                                     "target_kl=0.05",
                                     "scale_reward=true",
                                     "total_steps=1000",
                                     "anneal_clip=true",
                                     "activation=relu",
                                     "value_clip_range=0.2",
                                     NULL};

static const struct {
    enum aw_agent_action action;
    const char *const *pairs;
} kinds[] = {
    {AW_AGENT_CONTINUOUS, plain},
    {AW_AGENT_CONTINUOUS, all_on},
    {AW_AGENT_DISCRETE, plain},
    {AW_AGENT_DISCRETE, all_on},
};
#define EACH_KIND(k) for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)

static void a_resumed_run_gives_the_same_bytes(void **state)
{
    (void)state;
    EACH_KIND(k)
    {
        toy_check_resume(&aw_ppo_factory, kinds[k].pairs, kinds[k].action, 16, false); /* empty */
        toy_check_resume(&aw_ppo_factory, kinds[k].pairs, kinds[k].action, 21, false); /* part */
        toy_check_resume(&aw_ppo_factory, kinds[k].pairs, kinds[k].action, 21, true);
    }
}

static void act_observe_and_learn_allocate_nothing(void **state)
{
    (void)state;
    EACH_KIND(k)
    toy_check_no_allocation(&aw_ppo_factory, kinds[k].pairs, kinds[k].action);
}

static void every_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    EACH_KIND(k)
    toy_check_failed_allocations(&aw_ppo_factory, kinds[k].pairs, kinds[k].action);
}

static void acting_without_exploration_changes_nothing(void **state)
{
    (void)state;
    EACH_KIND(k)
    toy_check_greedy(&aw_ppo_factory, kinds[k].pairs, kinds[k].action);
}

static void numbers_that_are_not_finite_stop_at_the_wall(void **state)
{
    (void)state;
    EACH_KIND(k)
    toy_check_walls(&aw_ppo_factory, kinds[k].pairs, kinds[k].action);
}

static void the_same_seed_gives_the_same_bytes(void **state)
{
    (void)state;
    EACH_KIND(k)
    toy_check_seeds(&aw_ppo_factory, kinds[k].pairs, kinds[k].action);
}

static void observe_needs_the_act_before_it(void **state)
{
    (void)state;
    struct aw_agent agent;
    struct toy toy;
    toy_make(&aw_ppo_factory, plain, AW_AGENT_DISCRETE, 1, NULL, &agent);
    toy_init(&toy, AW_AGENT_DISCRETE, 3);
    struct aw_transition transition = toy_transition(&toy);
    assert_int_equal(agent.ops->observe(agent.self, &transition), AW_ERR_USAGE); /* none at all */
    assert_ok(agent.ops->act(agent.self, toy.obs, TOY_ENVS, false, toy.action));
    assert_int_equal(agent.ops->observe(agent.self, &transition), AW_ERR_USAGE); /* not explored */
    assert_ok(agent.ops->act(agent.self, toy.obs, TOY_ENVS - 1, true, toy.action));
    assert_int_equal(agent.ops->observe(agent.self, &transition), AW_ERR_USAGE); /* not all rows */
    assert_ok(toy_act(&toy, &agent));
    assert_ok(agent.ops->observe(agent.self, &transition));
    assert_int_equal(agent.ops->observe(agent.self, &transition), AW_ERR_USAGE); /* used up */
    for (int t = 1; t < 8; t++) {
        assert_ok(toy_act(&toy, &agent));
        assert_ok(agent.ops->observe(agent.self, &transition));
    }
    assert_ok(toy_act(&toy, &agent));
    assert_int_equal(agent.ops->observe(agent.self, &transition), AW_ERR_USAGE); /* full */
    assert_ok(agent.ops->learn(agent.self, NULL));
    assert_ok(agent.ops->observe(agent.self, &transition));
    aw_agent_free(&agent);
}

static void box_actions_use_their_range_and_never_leave_it(void **state)
{
    (void)state;
    static const char *const wide[] = {"log_std_init=1", NULL}, *const narrow[] = {
                                                                    "log_std_init=-20", NULL};
    struct aw_agent agent;
    struct toy toy;
    uint32_t at_low = 0, at_high = 0, inside = 0;
    toy_make(&aw_ppo_factory, wide, AW_AGENT_CONTINUOUS, 1, NULL, &agent);
    toy_init(&toy, AW_AGENT_CONTINUOUS, 3);
    for (int i = 0; i < 200; i++) {
        assert_ok(toy_act(&toy, &agent));
        for (uint32_t k = 0; k < TOY_ENVS * TOY_ACT; k++) {
            float low = toy_low[k % TOY_ACT], high = toy_high[k % TOY_ACT];
            assert_true(toy.action[k] >= low && toy.action[k] <= high);
            at_low += toy.action[k] == low;
            at_high += toy.action[k] == high;
            inside += toy.action[k] > low && toy.action[k] < high;
        }
    }
    assert_true(at_low > 100 && at_high > 100 && inside > 100);
    aw_agent_free(&agent);
    /* no noise to speak of, and a head that begins near 0: the middle of the range */
    toy_make(&aw_ppo_factory, narrow, AW_AGENT_CONTINUOUS, 1, NULL, &agent);
    assert_ok(toy_act(&toy, &agent));
    assert_true(fabsf(toy.action[0]) < 0.1f && fabsf(toy.action[1] - 30) < 1);
    aw_agent_free(&agent);
}

static double stat_of(const struct aw_learn_stats *stats, const char *name)
{
    for (uint32_t i = 0; i < stats->count; i++)
        if (strcmp(stats->stat[i].name, name) == 0)
            return stats->stat[i].value;
    fail_msg("no figure is called %s", name);
    return 0;
}

/* The stats of the `count`-th learn that did something. */
static struct aw_learn_stats learn_times(const char *const *pairs, int count)
{
    struct aw_agent agent;
    struct aw_learn_stats stats = {0};
    struct toy toy;
    toy_make(&aw_ppo_factory, pairs, AW_AGENT_CONTINUOUS, 1, NULL, &agent);
    toy_init(&toy, AW_AGENT_CONTINUOUS, 3);
    for (int i = 0; i < 8 * count; i++) {
        assert_ok(toy_act(&toy, &agent));
        assert_ok(toy_finish(&toy, &agent, &stats));
        assert_true((stats.update_count > 0) == (i % 8 == 7));
    }
    aw_agent_free(&agent);
    return stats;
}

static void the_learning_rate_falls_to_zero_at_the_end_of_the_run(void **state)
{
    (void)state;
    /* 24 transitions per rollout, 96 in all: 1, 3/4, 1/2, 1/4 of the rate */
    static const char *const fade[] = {"rollout_steps=24", "minibatches=1",  "hidden=4",
                                       "lr=0.01",          "total_steps=96", NULL};
    static const char *const keep[] = {"rollout_steps=24", "minibatches=1", "hidden=4",
                                       "lr=0.01",          "total_steps=0", NULL};
    for (int i = 1; i <= 5; i++) {
        struct aw_learn_stats stats = learn_times(fade, i);
        assert_close(stat_of(&stats, "learning_rate"), 0.01 * fmax(0, (5 - i) / 4.0), 1e-8);
        stats = learn_times(keep, i);
        assert_close(stat_of(&stats, "learning_rate"), 0.01, 1e-8);
    }
}

static void every_epoch_makes_every_minibatch_unless_the_policy_moved_too_far(void **state)
{
    (void)state;
    static const char *const all[] = {"rollout_steps=24", "minibatches=5", "epochs=7",
                                      "hidden=8",         "lr=0.01",       NULL};
    static const char *const stop[] = {"rollout_steps=24", "minibatches=5",  "epochs=7", "hidden=8",
                                       "lr=0.01",          "target_kl=1e-4", NULL};
    struct aw_learn_stats stats = learn_times(all, 1);
    assert_int_equal(stats.update_count, 35);
    double kl = stat_of(&stats, "approx_kl");
    assert_true(kl > 1e-4);
    assert_true(stat_of(&stats, "clip_fraction") >= 0 && stat_of(&stats, "grad_norm") > 0);
    assert_true(stat_of(&stats, "entropy") > 0 && stat_of(&stats, "action_std") > 0);
    stats = learn_times(stop, 1);
    assert_true(stats.update_count >= 1 && stats.update_count < 35);
    assert_true(stat_of(&stats, "approx_kl") < kl);
}

/* The critic's value of one observation, read from the checkpoint: 1 -> 4 tanh -> 1. */
static double saved_value(struct aw_agent *agent, float obs)
{
    char dir[256], path[300];
    struct aw_diag diag = {0};
    struct aw_safetensors *file;
    float weight[4], bias[4], out[4], out_bias;
    toy_dir(dir, sizeof dir);
    assert_ok(agent->ops->save(agent->self, dir, false, &diag));
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_ok(aw_safetensors_open(path, NULL, &file, &diag));
    assert_ok(aw_safetensors_copy(file, "critic.0.weight", AW_DTYPE_F32, 2,
                                  (const uint64_t[]){4, 1}, weight, &diag));
    assert_ok(aw_safetensors_copy(file, "critic.0.bias", AW_DTYPE_F32, 1, (const uint64_t[]){4},
                                  bias, &diag));
    assert_ok(aw_safetensors_copy(file, "critic.2.weight", AW_DTYPE_F32, 2,
                                  (const uint64_t[]){1, 4}, out, &diag));
    assert_ok(aw_safetensors_copy(file, "critic.2.bias", AW_DTYPE_F32, 1, (const uint64_t[]){1},
                                  &out_bias, &diag));
    aw_safetensors_close(file);
    toy_dir_remove(dir);
    double value = (double)out_bias;
    for (int i = 0; i < 4; i++)
        value += (double)out[i] * tanh((double)weight[i] * (double)obs + (double)bias[i]);
    return value;
}

static void a_truncated_episode_has_a_future_and_a_terminated_one_has_none(void **state)
{
    (void)state;
    /* One step per episode, reward 1, discount 1/2; every episode begins at 1 and shows -1 at its
     * end. Terminated, V(1) = 1. Truncated, V(1) = 1 + V(-1) / 2, where V(-1) is whatever the
     * critic says there; bootstrapping from the observation after the reset would give V(1) = 2. */
    static const char *const pairs[] = {
        "hidden=4",         "gamma=0.5",     "gae_lambda=1", "lr=0.02",
        "rollout_steps=16", "minibatches=1", "epochs=10",    NULL};
    for (int truncated = 0; truncated < 2; truncated++) {
        _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
        struct aw_agent agent;
        struct aw_agent_shape shape = {1, 1, AW_AGENT_DISCRETE, 1, 2, NULL, NULL};
        toy_settings(&aw_ppo_factory, pairs, settings);
        assert_ok(aw_ppo_factory.make(&shape, settings, 1, NULL, &agent, NULL));
        const float begin = 1, end = -1, reward = 1;
        const bool yes = true, no = false;
        for (int i = 0; i < 16 * 40; i++) {
            float action;
            assert_ok(agent.ops->act(agent.self, &begin, 1, true, &action));
            assert_ok(agent.ops->observe(agent.self,
                                         &(struct aw_transition){&begin, &action, &reward, &end,
                                                                 truncated ? &no : &yes, &yes}));
            assert_ok(agent.ops->learn(agent.self, NULL));
        }
        double value = saved_value(&agent, begin), after = saved_value(&agent, end);
        assert_close(value, truncated ? 1 + 0.5 * after : 1, 0.02);
        assert_true(fabs(after) > 0.2 && fabs(value - 2) > 0.2); /* or nothing is told apart */
        aw_agent_free(&agent);
    }
}

static void it_learns_which_of_two_choices_pays(void **state)
{
    (void)state;
    static const char *const pairs[] = {"hidden=8", "rollout_steps=32", "minibatches=2", "lr=0.01",
                                        NULL};
    for (int wanted = 0; wanted < 2; wanted++) {
        _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
        struct aw_agent agent;
        struct aw_agent_shape shape = {1, 1, AW_AGENT_DISCRETE, 1, 2, NULL, NULL};
        toy_settings(&aw_ppo_factory, pairs, settings);
        assert_ok(aw_ppo_factory.make(&shape, settings, 1, NULL, &agent, NULL));
        const float obs = 1;
        const bool yes = true, no = false;
        float action;
        for (int i = 0; i < 320; i++) {
            assert_ok(agent.ops->act(agent.self, &obs, 1, true, &action));
            float reward = action == (float)wanted ? 1 : 0;
            assert_ok(agent.ops->observe(
                agent.self, &(struct aw_transition){&obs, &action, &reward, &obs, &yes, &no}));
            assert_ok(agent.ops->learn(agent.self, NULL));
        }
        assert_ok(agent.ops->act(agent.self, &obs, 1, false, &action));
        assert_true(action == (float)wanted);
        aw_agent_free(&agent);
    }
}

static void impossible_shapes_and_settings_are_refused(void **state)
{
    (void)state;
    static const float low[2] = {0, 1}, high[2] = {1, 1}, infinite[2] = {1, INFINITY};
    static const char *const few[] = {"rollout_steps=10", "minibatches=100", NULL};
    static const char *const deep[] = {"hidden=1,1,1,1,1,1,1,1", NULL};
    static const struct {
        const char *why;
        struct aw_agent_shape shape;
        const char *const *pairs;
    } cases[] = {
        {"no environment", {0, 1, AW_AGENT_DISCRETE, 1, 2, NULL, NULL}, NULL},
        {"no observation", {1, 0, AW_AGENT_DISCRETE, 1, 2, NULL, NULL}, NULL},
        {"no choice", {1, 1, AW_AGENT_DISCRETE, 1, 0, NULL, NULL}, NULL},
        {"two discrete actions", {1, 1, AW_AGENT_DISCRETE, 2, 2, NULL, NULL}, NULL},
        {"an empty range", {1, 1, AW_AGENT_CONTINUOUS, 2, 0, low, high}, NULL},
        {"an infinite range", {1, 1, AW_AGENT_CONTINUOUS, 2, 0, low, infinite}, NULL},
        {"more minibatches than rows", {1, 1, AW_AGENT_DISCRETE, 1, 2, NULL, NULL}, few},
        {"too many layers", {1, 1, AW_AGENT_DISCRETE, 1, 2, NULL, NULL}, deep},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
        struct aw_agent agent = {0};
        struct aw_diag diag = {0};
        toy_settings(&aw_ppo_factory, cases[c].pairs, settings);
        enum aw_err err = aw_ppo_factory.make(&cases[c].shape, settings, 1, NULL, &agent, &diag);
        if (err != AW_ERR_CONFIG || !diag.text[0] || agent.ops)
            fail_msg("%s: %s", cases[c].why, aw_err_name(err));
    }
}

static void a_checkpoint_of_something_else_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    static const char *const other[] = {"hidden=8,9", "rollout_steps=24", "minibatches=4", NULL};
    struct aw_agent agent, twin, wider, dqn;
    struct toy toy, same;
    char dir[256];
    toy_make(&aw_ppo_factory, plain, AW_AGENT_DISCRETE, 1, NULL, &agent);
    toy_make(&aw_ppo_factory, plain, AW_AGENT_DISCRETE, 1, NULL, &twin);
    toy_make(&aw_ppo_factory, other, AW_AGENT_DISCRETE, 1, NULL, &wider);
    toy_make(&aw_dqn_factory, NULL, AW_AGENT_DISCRETE, 1, NULL, &dqn);
    toy_init(&toy, AW_AGENT_DISCRETE, 3);
    same = toy;
    toy_run(&toy, &agent, 12);
    toy_run(&same, &twin, 12);
    for (int resumable = 0; resumable < 2; resumable++) {
        struct aw_diag diag = {0};
        toy_dir(dir, sizeof dir);
        assert_int_not_equal(agent.ops->load(agent.self, dir, resumable, &diag), AW_OK); /* none */
        assert_true(diag.text[0]);
        assert_ok(wider.ops->save(wider.self, dir, true, NULL));
        assert_int_equal(agent.ops->load(agent.self, dir, resumable, &diag), AW_ERR_FORMAT);
        assert_ok(dqn.ops->save(dqn.self, dir, true, NULL));
        assert_int_equal(agent.ops->load(agent.self, dir, resumable, &diag), AW_ERR_FORMAT);
        assert_non_null(strstr(diag.text, "dqn"));
        toy_dir_remove(dir);
    }
    assert_true(toy_same(&agent, &twin));
    aw_agent_free(&agent);
    aw_agent_free(&twin);
    aw_agent_free(&wider);
    aw_agent_free(&dqn);
}

static void a_stored_action_that_is_no_choice_is_refused(void **state)
{
    (void)state;
    /* A file whose every number is finite and of the right shape may still hold an index that
     * would be read out of bounds. The pending action is the last F32 tensor we can find by its
     * value: write an unmistakable one by saving, patching the bytes and loading. */
    struct aw_agent agent;
    struct toy toy;
    char dir[256], path[300];
    struct aw_diag diag = {0};
    toy_make(&aw_ppo_factory, plain, AW_AGENT_DISCRETE, 1, NULL, &agent);
    toy_init(&toy, AW_AGENT_DISCRETE, 3);
    toy_run(&toy, &agent, 3);
    toy_dir(dir, sizeof dir);
    assert_ok(agent.ops->save(agent.self, dir, true, &diag));
    struct toy_file file = toy_read(dir, "state.safetensors");
    struct aw_safetensors *tensors;
    assert_ok(aw_safetensors_parse(file.bytes, file.size, "state", NULL, &tensors, &diag));
    for (uint32_t i = 0; i < aw_safetensors_count(tensors); i++) {
        struct aw_tensor_view view;
        aw_safetensors_at(tensors, i, &view);
        if (strcmp(view.name, "rollout.action") == 0) {
            size_t offset = (size_t)((const unsigned char *)view.data - file.bytes);
            const float bad = 1e6f;
            memcpy(file.bytes + offset, &bad, sizeof bad);
        }
    }
    aw_safetensors_close(tensors);
    snprintf(path, sizeof path, "%s/state.safetensors", dir);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(file.bytes, 1, file.size, out), file.size);
    assert_int_equal(fclose(out), 0);
    free(file.bytes);
    assert_int_equal(agent.ops->load(agent.self, dir, true, &diag), AW_ERR_FORMAT);
    assert_non_null(strstr(diag.text, "whole number"));
    toy_dir_remove(dir);
    aw_agent_free(&agent);
}

AW_TEST_GROUP("ppo")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_gives_the_same_bytes),
        cmocka_unit_test(act_observe_and_learn_allocate_nothing),
        cmocka_unit_test(every_failed_allocation_leaves_nothing_behind),
        cmocka_unit_test(acting_without_exploration_changes_nothing),
        cmocka_unit_test(numbers_that_are_not_finite_stop_at_the_wall),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes),
        cmocka_unit_test(observe_needs_the_act_before_it),
        cmocka_unit_test(box_actions_use_their_range_and_never_leave_it),
        cmocka_unit_test(the_learning_rate_falls_to_zero_at_the_end_of_the_run),
        cmocka_unit_test(every_epoch_makes_every_minibatch_unless_the_policy_moved_too_far),
        cmocka_unit_test(a_truncated_episode_has_a_future_and_a_terminated_one_has_none),
        cmocka_unit_test(it_learns_which_of_two_choices_pays),
        cmocka_unit_test(impossible_shapes_and_settings_are_refused),
        cmocka_unit_test(a_checkpoint_of_something_else_is_refused_and_changes_nothing),
        cmocka_unit_test(a_stored_action_that_is_no_choice_is_refused),
    };
    return cmocka_run_group_tests_name("ppo", tests, NULL, NULL);
}
