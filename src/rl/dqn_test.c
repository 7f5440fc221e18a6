#include "rl/dqn.h"

#include "nn/safetensors.h"
#include "rl/toy_testing.h"

/* A ring that wraps and rounds of updates that begin soon, so that the runs of the checks see both.
 */
static const char *const plain[] = {"hidden=8,8",
                                    "batch=16",
                                    "replay_capacity=50",
                                    "warmup_steps=9",
                                    "update_every=4",
                                    "updates_per_step=2",
                                    "target_every=7",
                                    "epsilon_steps=100",
                                    "lr=1e-3",
                                    NULL};
static const char *const all_on[] = {
    "hidden=8",        "batch=16",           "replay_capacity=1000",
    "warmup_steps=20", "update_every=1",     "target_every=1",
    "tau=0.1",         "normalise_obs=true", "n_steps=3",
    "double_q=false",  "anneal_lr=true",     "total_steps=1000",
    "epsilon_end=0.2", "reward_scale=0.5",   NULL};
static const char *const *const kinds[] = {plain, all_on};
#define EACH_KIND(k) for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)

static void a_resumed_run_gives_the_same_bytes(void **state)
{
    (void)state;
    EACH_KIND(k)
    {
        toy_check_resume(&aw_dqn_factory, kinds[k], AW_AGENT_DISCRETE, 1, false); /* warming up */
        toy_check_resume(&aw_dqn_factory, kinds[k], AW_AGENT_DISCRETE, 12, false);
        toy_check_resume(&aw_dqn_factory, kinds[k], AW_AGENT_DISCRETE, 41, true); /* wrapped */
    }
}

static void act_observe_and_learn_allocate_nothing(void **state)
{
    (void)state;
    EACH_KIND(k)
    toy_check_no_allocation(&aw_dqn_factory, kinds[k], AW_AGENT_DISCRETE);
}

static void every_failed_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    EACH_KIND(k)
    toy_check_failed_allocations(&aw_dqn_factory, kinds[k], AW_AGENT_DISCRETE);
}

static void acting_without_exploration_changes_nothing(void **state)
{
    (void)state;
    EACH_KIND(k)
    toy_check_greedy(&aw_dqn_factory, kinds[k], AW_AGENT_DISCRETE);
}

static void numbers_that_are_not_finite_stop_at_the_wall(void **state)
{
    (void)state;
    EACH_KIND(k)
    toy_check_walls(&aw_dqn_factory, kinds[k], AW_AGENT_DISCRETE);
}

static void the_same_seed_gives_the_same_bytes(void **state)
{
    (void)state;
    EACH_KIND(k)
    toy_check_seeds(&aw_dqn_factory, kinds[k], AW_AGENT_DISCRETE);
}

static void an_action_that_is_no_choice_is_refused(void **state)
{
    (void)state;
    struct aw_agent agent, twin;
    struct toy toy;
    toy_make(&aw_dqn_factory, plain, AW_AGENT_DISCRETE, 1, NULL, &agent);
    toy_make(&aw_dqn_factory, plain, AW_AGENT_DISCRETE, 1, NULL, &twin);
    toy_init(&toy, AW_AGENT_DISCRETE, 3);
    static const float bad[] = {-1, TOY_CHOICES, 0.5f, 1e9f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        toy.action[TOY_ENVS - 1] = bad[i];
        struct aw_transition transition = toy_transition(&toy);
        assert_int_equal(agent.ops->observe(agent.self, &transition), AW_ERR_RANGE);
    }
    assert_true(toy_same(&agent, &twin));
    aw_agent_free(&agent);
    aw_agent_free(&twin);
}

/* Share of actions in `rounds` exploring acts that are not the greedy one. */
static double random_share(struct aw_agent *agent, struct toy *toy, int rounds)
{
    uint32_t other = 0;
    for (int i = 0; i < rounds; i++) {
        float best[TOY_ENVS];
        assert_ok(agent->ops->act(agent->self, toy->obs, TOY_ENVS, false, best));
        assert_ok(toy_act(toy, agent));
        for (uint32_t n = 0; n < TOY_ENVS; n++)
            other += toy->action[n] != best[n];
    }
    /* a random draw is the greedy choice once in TOY_CHOICES */
    return (double)other / (rounds * TOY_ENVS) * TOY_CHOICES / (TOY_CHOICES - 1);
}

static void random_actions_fall_linearly_after_the_warm_up(void **state)
{
    (void)state;
    static const char *const by_steps[] = {"warmup_steps=30", "epsilon_start=0.8",
                                           "epsilon_end=0.2", "epsilon_steps=600", NULL};
    static const char *const by_share[] = {"warmup_steps=30",       "epsilon_start=0.8",
                                           "epsilon_end=0.2",       "total_steps=2400",
                                           "epsilon_fraction=0.25", NULL};
    const char *const *const schedule[] = {by_steps, by_share};
    for (int s = 0; s < 2; s++) {
        struct aw_agent agent;
        struct toy toy;
        toy_make(&aw_dqn_factory, schedule[s], AW_AGENT_DISCRETE, 1, NULL, &agent);
        toy_init(&toy, AW_AGENT_DISCRETE, 3);
        assert_true(fabs(random_share(&agent, &toy, 1000) - 1) < 0.05); /* warming up */
        toy_run(&toy, &agent, 100);
        assert_true(fabs(random_share(&agent, &toy, 1000) - 0.5) < 0.05); /* half of the way */
        toy_run(&toy, &agent, 200);
        assert_true(fabs(random_share(&agent, &toy, 1000) - 0.2) < 0.05); /* beyond the end */
        aw_agent_free(&agent);
    }
}

static void updates_come_in_rounds_after_the_warm_up(void **state)
{
    (void)state;
    /* 3 transitions a step; updates from the first round of 12 at or after 30 transitions */
    static const char *const pairs[] = {
        "hidden=4", "batch=8", "warmup_steps=30", "update_every=12", "updates_per_step=5", NULL};
    struct aw_agent agent;
    struct toy toy;
    uint64_t updates = 0;
    toy_make(&aw_dqn_factory, pairs, AW_AGENT_DISCRETE, 1, NULL, &agent);
    toy_init(&toy, AW_AGENT_DISCRETE, 3);
    for (int i = 1; i <= 40; i++) {
        struct aw_learn_stats stats;
        assert_ok(toy_act(&toy, &agent));
        assert_ok(toy_finish(&toy, &agent, &stats));
        assert_true(stats.update_count == 0 || stats.update_count == 5);
        assert_true(i * 3 >= 30 || stats.update_count == 0);
        updates += stats.update_count;
    }
    assert_int_equal(updates, 5 * ((120 - 27) / 12));
    aw_agent_free(&agent);
}

/* Q of one observation for two choices, read from the checkpoint: 1 -> 4 ReLU -> 2. */
static void saved_values(struct aw_agent *agent, float obs, double q[2])
{
    char dir[256], path[300];
    struct aw_diag diag = {0};
    struct aw_safetensors *file;
    float weight[4], bias[4], out[8], out_bias[2];
    toy_dir(dir, sizeof dir);
    assert_ok(agent->ops->save(agent->self, dir, false, &diag));
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_ok(aw_safetensors_open(path, NULL, &file, &diag));
    assert_ok(aw_safetensors_copy(file, "q.0.weight", AW_DTYPE_F32, 2, (const uint64_t[]){4, 1},
                                  weight, &diag));
    assert_ok(
        aw_safetensors_copy(file, "q.0.bias", AW_DTYPE_F32, 1, (const uint64_t[]){4}, bias, &diag));
    assert_ok(aw_safetensors_copy(file, "q.2.weight", AW_DTYPE_F32, 2, (const uint64_t[]){2, 4},
                                  out, &diag));
    assert_ok(aw_safetensors_copy(file, "q.2.bias", AW_DTYPE_F32, 1, (const uint64_t[]){2},
                                  out_bias, &diag));
    aw_safetensors_close(file);
    toy_dir_remove(dir);
    for (int k = 0; k < 2; k++) {
        q[k] = (double)out_bias[k];
        for (int i = 0; i < 4; i++)
            q[k] +=
                (double)out[k * 4 + i] * fmax(0, (double)weight[i] * (double)obs + (double)bias[i]);
    }
}

static void a_truncated_episode_has_a_future_and_a_terminated_one_has_none(void **state)
{
    (void)state;
    /* Two choices that pay 1 and 0 and lead back to the same observation, discount 1/2. Truncated,
     * the future counts: Q = 2 and 1. Terminated, it does not: Q = 1 and 0. */
    static const char *const pairs[] = {
        "hidden=4",       "gamma=0.5",       "lr=0.01",       "batch=32",
        "update_every=1", "target_every=20", "epsilon_end=1", NULL};
    for (int truncated = 0; truncated < 2; truncated++) {
        _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
        struct aw_agent agent;
        struct aw_agent_shape shape = {1, 1, AW_AGENT_DISCRETE, 1, 2, NULL, NULL};
        toy_settings(&aw_dqn_factory, pairs, settings);
        assert_ok(aw_dqn_factory.make(&shape, settings, 1, NULL, &agent, NULL));
        const float obs = 1;
        const bool yes = true, no = false;
        float action;
        for (int i = 0; i < 1500; i++) {
            assert_ok(agent.ops->act(agent.self, &obs, 1, true, &action));
            float reward = 1 - action;
            assert_ok(agent.ops->observe(agent.self,
                                         &(struct aw_transition){&obs, &action, &reward, &obs,
                                                                 truncated ? &no : &yes, &yes}));
            assert_ok(agent.ops->learn(agent.self, NULL));
        }
        double q[2];
        saved_values(&agent, obs, q);
        assert_close(q[0], truncated ? 2 : 1, 0.02);
        assert_close(q[1], truncated ? 1 : 0, 0.02);
        assert_ok(agent.ops->act(agent.self, &obs, 1, false, &action));
        assert_true(action == 0);
        aw_agent_free(&agent);
    }
}

/* The rows of the ring, [obs, action, reward, terminal, next_obs] each, after the transitions of
 * one episode with observations 0, 1, 2, ... and rewards 1, 2, 4, ... Returns how many there are.
 */
static uint32_t rows_of_episode(uint32_t n_steps, uint32_t length, bool terminated, float rows[][5])
{
    _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    char dir[256], path[300];
    struct aw_agent agent;
    struct aw_agent_shape shape = {1, 1, AW_AGENT_DISCRETE, 1, 2, NULL, NULL};
    struct aw_diag diag = {0};
    toy_settings(&aw_dqn_factory, (const char *const[]){"gamma=0.5", NULL}, settings);
    ((struct aw_dqn_settings *)(void *)settings)->n_steps = n_steps;
    assert_ok(aw_dqn_factory.make(&shape, settings, 1, NULL, &agent, NULL));
    for (uint32_t t = 0; t < length; t++) {
        const float obs = (float)t, action = (float)(t % 2), reward = (float)(1u << t);
        const float next_obs = (float)(t + 1);
        const bool end = t + 1 == length, done = end && terminated;
        assert_ok(agent.ops->observe(
            agent.self, &(struct aw_transition){&obs, &action, &reward, &next_obs, &done, &end}));
    }
    toy_dir(dir, sizeof dir);
    assert_ok(agent.ops->save(agent.self, dir, true, &diag));
    snprintf(path, sizeof path, "%s/state.safetensors", dir);
    struct aw_safetensors *file;
    uint32_t count = 0;
    assert_ok(aw_safetensors_open(path, NULL, &file, &diag));
    for (uint32_t i = 0; i < aw_safetensors_count(file); i++) {
        struct aw_tensor_view view;
        aw_safetensors_at(file, i, &view);
        if (strcmp(view.name, "replay.rows") == 0) {
            count = (uint32_t)view.shape[0];
            memcpy(rows, view.data, view.bytes);
        }
    }
    aw_safetensors_close(file);
    toy_dir_remove(dir);
    aw_agent_free(&agent);
    return count;
}

static void n_step_returns_equal_the_sums_done_by_hand(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        uint32_t n_steps, length;
        bool terminated;
        uint32_t count;
        float rows[5][5]; /* obs, action, reward, terminal, next_obs */
    } cases[] = {
        {"one step", 1, 2, true, 2, {{0, 0, 1, 0, 1}, {1, 1, 2, 1, 2}}},
        {"one step, truncated", 1, 2, false, 2, {{0, 0, 1, 0, 1}, {1, 1, 2, 0, 2}}},
        /* 1 + 2/2 + 4/4, 2 + 4/2 + 8/4; then the end: 4 + 8/2, 8 */
        {"three steps, terminated: the last are shorter",
         3,
         4,
         true,
         4,
         {{0, 0, 3, 0, 3}, {1, 1, 6, 1, 4}, {2, 0, 8, 1, 4}, {3, 1, 8, 1, 4}}},
        {"three steps, truncated: only whole sums",
         3,
         4,
         false,
         2,
         {{0, 0, 3, 0, 3}, {1, 1, 6, 0, 4}}},
        {"an episode shorter than the sum", 3, 2, true, 2, {{0, 0, 2, 1, 2}, {1, 1, 2, 1, 2}}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        float rows[8][5];
        uint32_t count =
            rows_of_episode(cases[c].n_steps, cases[c].length, cases[c].terminated, rows);
        if (count != cases[c].count || memcmp(rows, cases[c].rows, count * sizeof rows[0]) != 0)
            fail_msg("%s: %u rows, the first of reward %g", cases[c].why, count,
                     (double)rows[0][2]);
    }
}

static void a_model_alone_acts_the_same_and_starts_learning_anew(void **state)
{
    (void)state;
    struct aw_agent trained, fresh;
    struct toy toy;
    char dir[256];
    toy_dir(dir, sizeof dir);
    toy_make(&aw_dqn_factory, all_on, AW_AGENT_DISCRETE, 1, NULL, &trained);
    toy_make(&aw_dqn_factory, all_on, AW_AGENT_DISCRETE, 2, NULL, &fresh);
    toy_init(&toy, AW_AGENT_DISCRETE, 3);
    toy_run(&toy, &trained, 60);
    assert_ok(trained.ops->save(trained.self, dir, false, NULL));
    assert_ok(fresh.ops->load(fresh.self, dir, false, NULL));
    assert_int_not_equal(fresh.ops->load(fresh.self, dir, true, NULL), AW_OK); /* no state saved */
    static float obs[200 * TOY_OBS], a[200], b[200];
    aw_rng_fill_normal(&toy.rng, obs, 200 * TOY_OBS);
    assert_ok(trained.ops->act(trained.self, obs, 200, false, a));
    assert_ok(fresh.ops->act(fresh.self, obs, 200, false, b));
    assert_memory_equal(a, b, sizeof a);
    toy_run(&toy, &fresh, 60);
    aw_agent_free(&trained);
    aw_agent_free(&fresh);
    toy_dir_remove(dir);
}

static void impossible_shapes_and_settings_are_refused(void **state)
{
    (void)state;
    static const float low = 0, high = 1;
    static const char *const small[] = {"batch=64", "replay_capacity=10", NULL};
    static const char *const deep[] = {"hidden=1,1,1,1,1,1,1,1", NULL};
    static const struct {
        const char *why;
        struct aw_agent_shape shape;
        const char *const *pairs;
        enum aw_err want;
    } cases[] = {
        {"box actions", {1, 1, AW_AGENT_CONTINUOUS, 1, 0, &low, &high}, NULL, AW_ERR_UNSUPPORTED},
        {"no environment", {0, 1, AW_AGENT_DISCRETE, 1, 2, NULL, NULL}, NULL, AW_ERR_CONFIG},
        {"no observation", {1, 0, AW_AGENT_DISCRETE, 1, 2, NULL, NULL}, NULL, AW_ERR_CONFIG},
        {"no choice", {1, 1, AW_AGENT_DISCRETE, 1, 0, NULL, NULL}, NULL, AW_ERR_CONFIG},
        {"a batch beyond the ring",
         {1, 1, AW_AGENT_DISCRETE, 1, 2, NULL, NULL},
         small,
         AW_ERR_CONFIG},
        {"too many layers", {1, 1, AW_AGENT_DISCRETE, 1, 2, NULL, NULL}, deep, AW_ERR_CONFIG},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
        struct aw_agent agent = {0};
        struct aw_diag diag = {0};
        toy_settings(&aw_dqn_factory, cases[c].pairs, settings);
        enum aw_err err = aw_dqn_factory.make(&cases[c].shape, settings, 1, NULL, &agent, &diag);
        if (err != cases[c].want || !diag.text[0] || agent.ops)
            fail_msg("%s: %s", cases[c].why, aw_err_name(err));
    }
}

AW_TEST_GROUP("dqn")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_gives_the_same_bytes),
        cmocka_unit_test(act_observe_and_learn_allocate_nothing),
        cmocka_unit_test(every_failed_allocation_leaves_nothing_behind),
        cmocka_unit_test(acting_without_exploration_changes_nothing),
        cmocka_unit_test(numbers_that_are_not_finite_stop_at_the_wall),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes),
        cmocka_unit_test(an_action_that_is_no_choice_is_refused),
        cmocka_unit_test(random_actions_fall_linearly_after_the_warm_up),
        cmocka_unit_test(updates_come_in_rounds_after_the_warm_up),
        cmocka_unit_test(a_truncated_episode_has_a_future_and_a_terminated_one_has_none),
        cmocka_unit_test(n_step_returns_equal_the_sums_done_by_hand),
        cmocka_unit_test(a_model_alone_acts_the_same_and_starts_learning_anew),
        cmocka_unit_test(impossible_shapes_and_settings_are_refused),
    };
    return cmocka_run_group_tests_name("dqn", tests, NULL, NULL);
}
