#include "rl/dpg.h"

#include "rl/twin_testing.h"

#define B       8u
#define ROWS    20u
#define PENALTY 0.05

/* What one update sees, and the losses as the papers write them. */
struct twin {
    bool late;
    uint32_t critic_count;
    struct twin_batch batch;
    struct twin_net actor, target_actor;
    struct twin_net critic[2], target_critic[2];             /* early: all of it; late: the head */
    struct twin_net critic_state[2], target_critic_state[2]; /* late */
    uint32_t which; /* the critic whose loss is asked for */
    double imitate; /* weight, and what it is times mean |Q| of the actor as it is */
    double copying;
    double y[B];
};

static double value(const struct twin *twin, const struct twin_net *state,
                    const struct twin_net *head, const double *s, const double *a)
{
    double x[TWIN_WIDTH_MAX] = {0}, q = 0;
    uint32_t n = 0;
    if (twin->late) {
        twin_forward(state, s, true, x);
        n = state->layer[0].out;
    } else {
        for (; n < TWIN_S; n++)
            x[n] = s[n];
    }
    memcpy(x + n, a, TWIN_A * sizeof *a);
    twin_forward(head, x, false, &q);
    return q;
}

static double critic_loss(void *ctx)
{
    struct twin *twin = ctx;
    uint32_t k = twin->which;
    double sum = 0;
    for (uint32_t b = 0; b < B; b++) {
        double e = value(twin, &twin->critic_state[k], &twin->critic[k], twin->batch.obs[b],
                         twin->batch.act[b]) -
                   twin->y[b];
        sum += e * e;
    }
    return sum / B;
}

static double actor_loss(void *ctx)
{
    struct twin *twin = ctx;
    double sum = 0;
    for (uint32_t b = 0; b < B; b++) {
        double z[TWIN_WIDTH_MAX] = {0}, a[TWIN_A];
        twin_forward(&twin->actor, twin->batch.obs[b], false, z);
        for (uint32_t j = 0; j < TWIN_A; j++) {
            a[j] = tanh(z[j]);
            sum += PENALTY * z[j] * z[j];
            sum += twin->copying * (a[j] - twin->batch.act[b][j]) * (a[j] - twin->batch.act[b][j]) /
                   TWIN_A;
        }
        sum -= value(twin, &twin->critic_state[0], &twin->critic[0], twin->batch.obs[b], a);
    }
    return sum / B;
}

/* The size of values passes no gradient: it is taken once, before the actor moves. */
static void copying_find(struct twin *twin)
{
    double size = 0;
    for (uint32_t b = 0; b < B; b++) {
        double z[TWIN_WIDTH_MAX] = {0}, a[TWIN_A];
        twin_forward(&twin->actor, twin->batch.obs[b], false, z);
        for (uint32_t j = 0; j < TWIN_A; j++)
            a[j] = tanh(z[j]);
        size += fabs(value(twin, &twin->critic_state[0], &twin->critic[0], twin->batch.obs[b], a));
    }
    twin->copying = twin->imitate * size / B;
}

static void load_critics(struct twin *twin, const struct twin_save *save, const char *prefix,
                         struct twin_net *state, struct twin_net *head)
{
    static const char *const twin_names[] = {"critic1", "critic2"};
    for (uint32_t k = 0; k < twin->critic_count && k < 2; k++) {
        char name[64];
        const char *base = twin->critic_count == 1 ? "critic" : twin_names[k];
        snprintf(name, sizeof name, "%s%s%s", prefix, base, twin->late ? ".head" : "");
        twin_net_load(&head[k], save, name);
        snprintf(name, sizeof name, "%s%s.state", prefix, base);
        twin_net_load(&state[k], save, name);
        assert_int_equal(state[k].layer_count, twin->late ? 1 : 0);
    }
}

static void targets(struct twin *twin, struct aw_rng *rng, double gamma, double reward_scale)
{
    float noise[B * TWIN_A] = {0};
    if (twin->critic_count == 2)
        aw_rng_fill_normal(rng, noise, B * TWIN_A);
    for (uint32_t b = 0; b < B; b++) {
        double z[TWIN_WIDTH_MAX] = {0}, a[TWIN_A], low = INFINITY;
        twin_forward(&twin->target_actor, twin->batch.next_obs[b], false, z);
        for (uint32_t j = 0; j < TWIN_A; j++)
            a[j] = twin_clip(tanh(z[j]) + twin_clip(0.2 * (double)noise[b * TWIN_A + j], 0.25), 1);
        for (uint32_t k = 0; k < twin->critic_count; k++)
            low = fmin(low, value(twin, &twin->target_critic_state[k], &twin->target_critic[k],
                                  twin->batch.next_obs[b], a));
        twin->y[b] =
            reward_scale * twin->batch.reward[b] + gamma * (1 - twin->batch.terminal[b]) * low;
    }
}

static void check_update(const char *name, const char *const *pairs, bool late, double imitate)
{
    struct twin_save before, after;
    struct aw_agent agent;
    struct twin twin = {
        .late = late, .critic_count = strcmp(name, "td3") == 0 ? 2 : 1, .imitate = imitate};
    twin_agent(name, pairs, ROWS, 3, &agent);
    for (int i = 0; i < 40; i++) /* so that targets and online networks differ */
        assert_ok(agent.ops->learn(agent.self, NULL));
    twin_save_take(&before, &agent);
    assert_ok(agent.ops->learn(agent.self, NULL));
    twin_save_take(&after, &agent);

    struct aw_rng rng = twin_rng(&before);
    twin_batch_draw(&twin.batch, &before, &rng, B, TWIN_S, TWIN_A);
    twin_net_load(&twin.actor, &before, "actor");
    twin_net_load(&twin.target_actor, &before, "target.actor");
    load_critics(&twin, &before, "", twin.critic_state, twin.critic);
    load_critics(&twin, &before, "target.", twin.target_critic_state, twin.target_critic);
    targets(&twin, &rng, 0.9, 0.5);
    for (twin.which = 0; twin.which < twin.critic_count; twin.which++) {
        uint32_t k = twin.which;
        twin_check_gradient(&twin.critic[k], &before, &after, "critic.", critic_loss, &twin);
        if (late)
            twin_check_gradient(&twin.critic_state[k], &before, &after, "critic.", critic_loss,
                                &twin);
    }
    /* the actor climbs the critic as it is after its own step */
    load_critics(&twin, &after, "", twin.critic_state, twin.critic);
    copying_find(&twin);
    twin_check_gradient(&twin.actor, &before, &after, "actor.", actor_loss, &twin);
    twin_check_targets(&before, &after, 0.1);
    twin_save_drop(&before);
    twin_save_drop(&after);
    aw_agent_free(&agent);
}

#define COMMON                                                                                    \
    "hidden=6,5", "batch=8", "offline=true", "final_init=0", "gamma=0.9", "tau=0.1",              \
        "reward_scale=0.5", "actor_pretanh_penalty=0.05", "replay_capacity=32", "critic_lr=1e-2", \
        "actor_lr=1e-2"

static void an_update_of_ddpg_follows_the_slope_of_the_papers_losses(void **state)
{
    (void)state;
    static const char *const pairs[] = {COMMON, NULL};
    check_update("ddpg", pairs, false, 0);
}

static void the_action_may_join_at_the_second_layer(void **state)
{
    (void)state;
    static const char *const pairs[] = {COMMON, "critic_action_layer=1", NULL};
    check_update("ddpg", pairs, true, 0);
}

static void an_update_of_td3_follows_the_slope_of_the_papers_losses(void **state)
{
    (void)state;
    static const char *const pairs[] = {COMMON, "policy_delay=1", "target_noise=0.2",
                                        "target_noise_clip=0.25", NULL};
    check_update("td3", pairs, false, 0);
}

static void an_actor_that_imitates_follows_the_slope_of_both_losses(void **state)
{
    (void)state;
    static const char *const always[] = {
        COMMON, "policy_delay=1", "target_noise=0.2", "target_noise_clip=0.25", "imitate=0.4",
        NULL};
    static const char *const fading[] = {COMMON,
                                         "policy_delay=1",
                                         "target_noise=0.2",
                                         "target_noise_clip=0.25",
                                         "imitate=0.4",
                                         "imitate_steps=80",
                                         NULL};
    static const char *const faded[] = {COMMON,
                                        "policy_delay=1",
                                        "target_noise=0.2",
                                        "target_noise_clip=0.25",
                                        "imitate=0.4",
                                        "imitate_steps=20",
                                        NULL};
    check_update("td3", always, false, 0.4);
    check_update("td3", fading, false, 0.4 * (1 - ROWS / 80.0)); /* ROWS steps were seen */
    check_update("td3", faded, false, 0);
}

static void td3_leaves_actor_and_targets_alone_between_its_delayed_updates(void **state)
{
    (void)state;
    static const char *const pairs[] = {COMMON, "policy_delay=3", NULL};
    struct aw_agent agent;
    struct twin_save save[4];
    twin_agent("td3", pairs, ROWS, 3, &agent);
    for (int i = 0; i < 4; i++) {
        twin_save_take(&save[i], &agent);
        assert_ok(agent.ops->learn(agent.self, NULL));
    }
    static const char *const held[] = {"actor.0.weight", "target.actor.0.weight",
                                       "target.critic2.2.weight"};
    for (size_t t = 0; t < sizeof held / sizeof *held; t++) {
        struct aw_tensor_view view[4];
        for (int i = 0; i < 4; i++)
            view[i] = twin_view(&save[i], held[t]);
        assert_memory_equal(view[0].data, view[1].data, view[0].bytes);
        assert_memory_equal(view[1].data, view[2].data, view[0].bytes);
        assert_memory_not_equal(view[2].data, view[3].data, view[0].bytes);
    }
    struct aw_tensor_view first = twin_view(&save[0], "critic1.0.weight");
    assert_memory_not_equal(first.data, twin_view(&save[1], "critic1.0.weight").data, first.bytes);
    for (int i = 0; i < 4; i++)
        twin_save_drop(&save[i]);
    aw_agent_free(&agent);
}

static void the_targets_begin_as_copies(void **state)
{
    (void)state;
    static const char *const pairs[] = {COMMON, NULL};
    struct aw_agent agent;
    struct twin_save save;
    twin_agent("ddpg", pairs, ROWS, 3, &agent);
    twin_save_take(&save, &agent);
    twin_check_targets(&save, &save, 1);
    twin_save_drop(&save);
    aw_agent_free(&agent);
}

static void random_actions_come_first_then_the_policy_with_fading_noise(void **state)
{
    (void)state;
    static const float low = -1, high = 1;
    const struct aw_agent_shape shape = {1, 1, AW_AGENT_CONTINUOUS, 1, 0, &low, &high};
    const struct aw_agent_factory *factory;
    struct aw_dpg_settings settings;
    struct aw_agent agent;
    assert_ok(aw_agent_factory_find("ddpg", &factory, NULL));
    assert_ok(aw_agent_settings(factory, NULL, &settings, NULL));
    settings.base.warmup_steps = 200;
    settings.base.replay_capacity = 5000;
    settings.base.batch = 4096; /* never learns here: only the exploration is looked at */
    settings.noise_sigma = 0.1f;
    settings.noise_sigma_end = 0;
    settings.noise_decay_steps = 1000;
    assert_ok(factory->make(&shape, &settings, 1, NULL, &agent, NULL));
    double spread[3] = {0}; /* before the end of the warm-up, after it, at the end */
    for (int t = 0; t < 1200; t++) {
        float obs = 0, action, quiet, reward = 0;
        bool no = false;
        assert_ok(agent.ops->act(agent.self, &obs, 1, true, &action));
        assert_ok(agent.ops->act(agent.self, &obs, 1, false, &quiet));
        double e = (double)action - (double)quiet;
        if (t < 200 || (t < 400 && t >= 200) || t >= 1000)
            spread[t < 200 ? 0 : t < 400 ? 1 : 2] += e * e / 200;
        const struct aw_transition transition = {&obs, &action, &reward, &obs, &no, &no};
        assert_ok(agent.ops->observe(agent.self, &transition));
        assert_ok(agent.ops->learn(agent.self, NULL));
    }
    assert_close(sqrt(spread[0]), 1 / sqrt(3), 0.06); /* uniform in [-1, 1] */
    assert_close(sqrt(spread[1]), 0.07, 0.02);        /* 0.1 fading over 1000 steps, at 200..400 */
    assert_true(spread[2] == 0);
    aw_agent_free(&agent);
}

static void updates_keep_pace_with_environment_steps(void **state)
{
    (void)state;
    static const struct {
        uint32_t warmup, every, per, steps, expected;
        const char *why;
    } cases[] = {
        {0, 1, 1, 50, 50 - 7, "from the first full batch on"},
        {20, 1, 1, 50, 31, "from the end of the warm-up on"},
        {20, 4, 2, 50, 14, "two every fourth step"},
        {100, 1, 1, 50, 0, "still warming up"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        static const float low = -1, high = 1;
        const struct aw_agent_shape shape = {1, 1, AW_AGENT_CONTINUOUS, 1, 0, &low, &high};
        const struct aw_agent_factory *factory;
        struct aw_dpg_settings settings;
        struct aw_agent agent;
        assert_ok(aw_agent_factory_find("td3", &factory, NULL));
        assert_ok(aw_agent_settings(factory, NULL, &settings, NULL));
        settings.base.replay_capacity = 100;
        settings.base.batch = 8;
        settings.base.warmup_steps = cases[c].warmup;
        settings.base.update_every = cases[c].every;
        settings.base.updates_per_step = cases[c].per;
        assert_ok(factory->make(&shape, &settings, 1, NULL, &agent, NULL));
        uint64_t updates = 0;
        for (uint32_t t = 0; t < cases[c].steps; t++) {
            float obs = 0, action = 0, reward = 0;
            bool no = false;
            struct aw_learn_stats stats;
            const struct aw_transition transition = {&obs, &action, &reward, &obs, &no, &no};
            assert_ok(agent.ops->observe(agent.self, &transition));
            assert_ok(agent.ops->learn(agent.self, &stats));
            updates += stats.update_count;
        }
        assert_int_equal(updates, cases[c].expected);
        aw_agent_free(&agent);
    }
}

static void impossible_settings_and_shapes_are_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        float low, high;
        uint32_t obs_dim, batch, hidden_count;
        enum aw_err err;
        const char *why;
    } cases[] = {
        {1, -1, 1, 8, 2, AW_ERR_CONFIG, "bounds the wrong way round"},
        {1, 1, 1, 8, 2, AW_ERR_CONFIG, "nothing between the bounds"},
        {-INFINITY, 1, 1, 8, 2, AW_ERR_CONFIG, "no finite bound"},
        {-3e38f, 3e38f, 1, 8, 2, AW_ERR_CONFIG, "a range that overflows"},
        {-1, 1, 0, 8, 2, AW_ERR_CONFIG, "nothing to observe"},
        {-1, 1, 5000, 8, 2, AW_ERR_LIMIT, "too much to observe"},
        {-1, 1, 1, 101, 2, AW_ERR_CONFIG, "a batch larger than the replay"},
        {-1, 1, 1, 8, 0, AW_ERR_CONFIG, "no hidden layer"},
        {-1, 1, 1, 8, 8, AW_ERR_CONFIG, "more layers than a stack has"},
    };
    const struct aw_agent_factory *factory;
    assert_ok(aw_agent_factory_find("ddpg", &factory, NULL));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct aw_agent_shape shape = {1, cases[c].obs_dim, AW_AGENT_CONTINUOUS, 1,
                                             0, &cases[c].low,    &cases[c].high};
        struct aw_dpg_settings settings;
        struct aw_agent agent = {0};
        struct aw_diag diag = {0};
        assert_ok(aw_agent_settings(factory, NULL, &settings, NULL));
        settings.base.replay_capacity = 100;
        settings.base.batch = cases[c].batch;
        settings.hidden.count = cases[c].hidden_count;
        for (uint32_t i = 0; i < AW_CONF_LIST_MAX; i++)
            settings.hidden.value[i] = 4;
        assert_int_equal(factory->make(&shape, &settings, 1, NULL, &agent, &diag), cases[c].err);
        assert_true(diag.text[0]);
        assert_null(agent.ops);
    }
}

AW_TEST_GROUP("dpg")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_of_ddpg_follows_the_slope_of_the_papers_losses),
        cmocka_unit_test(the_action_may_join_at_the_second_layer),
        cmocka_unit_test(an_update_of_td3_follows_the_slope_of_the_papers_losses),
        cmocka_unit_test(an_actor_that_imitates_follows_the_slope_of_both_losses),
        cmocka_unit_test(td3_leaves_actor_and_targets_alone_between_its_delayed_updates),
        cmocka_unit_test(the_targets_begin_as_copies),
        cmocka_unit_test(random_actions_come_first_then_the_policy_with_fading_noise),
        cmocka_unit_test(updates_keep_pace_with_environment_steps),
        cmocka_unit_test(impossible_settings_and_shapes_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests_name("dpg", tests, NULL, NULL);
}
