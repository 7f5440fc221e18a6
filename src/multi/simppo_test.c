/* simppo_test.c - agents that learn together do better than they began, and take no memory. */
#include "multi/simppo.h"

#include <math.h>
#include <string.h>

#include "base/testing.h"
#include "multi/serve.h"

#define EPISODES 150u

static void make(struct aw_multi_world *w, struct aw_team *team, double team_weight,
                 const struct aw_alloc *alloc)
{
    struct aw_multi_settings settings;
    struct aw_team_settings how;
    aw_conf_defaults(aw_multi_fields, &settings);
    aw_team_settings_init(&how, false);
    how.team_weight = team_weight;
    assert_ok(aw_multi_init(w, &settings, alloc, NULL));
    assert_ok(aw_team_init(team, w, &how, alloc));
}

static double live(struct aw_simppo *agents, struct aw_multi_world *w, struct aw_team *team,
                   uint64_t seed, uint32_t episodes, bool learn)
{
    double sum = 0;
    for (uint32_t e = 0; e < episodes; e++) {
        aw_multi_reset(w, seed + e);
        aw_team_begin(team);
        sum += aw_simppo_episode(agents, learn);
    }
    return sum / episodes;
}

static void it_learns_more_than_it_began_with(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct aw_multi_world w;
        struct aw_team team;
        struct aw_simppo_settings settings;
        struct aw_simppo *agents;
        make(&w, &team, 0.5, NULL);
        aw_simppo_settings_init(&settings, false);
        assert_ok(aw_simppo_new(&settings, &team, seed, NULL, &agents, NULL));
        const double before = live(agents, &w, &team, 900000, 20, false);
        (void)live(agents, &w, &team, seed * 1000, EPISODES, true);
        const double after = live(agents, &w, &team, 900000, 20, false);
        print_message("# seed %u: %.2f -> %.2f per episode of 50 steps\n", (unsigned)seed, before,
                      after);
        assert_true(after > before + 1.5);
        aw_simppo_free(agents);
        aw_team_deinit(&team);
        aw_multi_deinit(&w);
    }
}

static void episodes_allocate_nothing_and_the_same_seed_gives_the_same(void **state)
{
    (void)state;
    double reward[2];
    for (uint32_t k = 0; k < 2; k++) {
        struct aw_alloc_counting counting;
        struct aw_multi_world w;
        struct aw_team team;
        struct aw_simppo_settings settings;
        struct aw_simppo *agents;
        aw_alloc_counting_init(&counting);
        make(&w, &team, 1, &counting.alloc);
        aw_simppo_settings_init(&settings, false);
        settings.critic = AW_SIMPPO_ALL;
        assert_ok(aw_simppo_new(&settings, &team, 5, &counting.alloc, &agents, NULL));
        const uint64_t before = counting.alloc_count;
        reward[k] = live(agents, &w, &team, 77, 5, true);
        assert_int_equal(counting.alloc_count, before);
        aw_simppo_free(agents);
        aw_team_deinit(&team);
        aw_multi_deinit(&w);
        assert_int_equal(counting.alloc_count, counting.free_count);
    }
    assert_true(reward[0] == reward[1]);
}

/* Of its own nets each agent learns from its own rows; one that leaves is not learned from. */
static void agents_come_and_go_while_it_learns(void **state)
{
    (void)state;
    struct aw_multi_world w;
    struct aw_multi_settings world;
    struct aw_team_settings how;
    struct aw_team team;
    struct aw_simppo_settings settings;
    struct aw_simppo *agents;
    aw_conf_defaults(aw_multi_fields, &world);
    world.agents_max = 16;
    aw_team_settings_init(&how, false);
    assert_ok(aw_multi_init(&w, &world, NULL, NULL));
    assert_ok(aw_team_init(&team, &w, &how, NULL));
    for (uint32_t shared = 0; shared < 2; shared++) {
        aw_simppo_settings_init(&settings, false);
        settings.shared = shared;
        assert_ok(aw_simppo_new(&settings, &team, 1, NULL, &agents, NULL));
        aw_multi_reset(&w, 1);
        aw_team_begin(&team);
        for (uint32_t e = 0; e < 6; e++) {
            const double sum = aw_simppo_episode(agents, true);
            assert_true(sum > 0 && sum < 50);
            const uint32_t agent = aw_multi_add(&w, e, true);
            aw_team_join(&team, agent);
            aw_simppo_inherit(agents, agent, e);
            if (e % 2)
                aw_multi_remove(&w, e, true);
        }
        assert_int_equal(w.live, 12 + 6 - 3);
        aw_simppo_free(agents);
    }
    aw_team_deinit(&team);
    aw_multi_deinit(&w);
}

/* CPQ-RL: whose SLO is kept the least acts; the others hold. */
static void in_turns_those_who_miss_most_act_and_the_others_hold(void **state)
{
    (void)state;
    struct aw_multi_world w;
    struct aw_team team;
    struct aw_simppo_settings settings;
    struct aw_simppo *agents;
    uint8_t action[AW_MULTI_FUNCTIONS], wanted[AW_MULTI_FUNCTIONS];
    make(&w, &team, 0, NULL);
    aw_simppo_settings_init(&settings, false);
    settings.turns = 4;
    assert_ok(aw_simppo_new(&settings, &team, 1, NULL, &agents, NULL));
    (void)live(agents, &w, &team, 1, 5, true);
    aw_multi_reset(&w, 9);
    aw_team_begin(&team);
    for (uint32_t step = 0; step < 20; step++) {
        uint32_t acted = 0;
        double least_held = 2, most_acted = 0;
        aw_team_observe(&team);
        aw_simppo_act(agents, false, action);
        memcpy(wanted, w.wanted, sizeof wanted);
        for (uint32_t i = 0; i < w.count; i++) {
            const double kept = (double)team.local[(size_t)i * AW_TEAM_LOCAL];
            acted += action[i] != AW_TEAM_HOLD;
            if (action[i] == AW_TEAM_HOLD)
                least_held = fmin(least_held, kept);
            else
                most_acted = fmax(most_acted, kept);
        }
        assert_int_equal(acted, 4);
        assert_true(most_acted <= least_held);
        aw_team_step(&team, action);
        for (uint32_t i = 0; i < w.count; i++)
            assert_true(action[i] != AW_TEAM_HOLD || w.wanted[i] == wanted[i]);
    }
    aw_simppo_free(agents);
    aw_team_deinit(&team);
    aw_multi_deinit(&w);
}

/* MAPPO's critic, and difference rewards, learn too. */
static void every_critic_and_reward_learns(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        struct aw_multi_world w;
        struct aw_team team;
        struct aw_simppo_settings settings;
        struct aw_simppo *agents;
        make(&w, &team, 0.25, NULL);
        aw_simppo_settings_init(&settings, false);
        settings.critic = k ? AW_SIMPPO_STATES : AW_SIMPPO_AUX;
        if (!k) {
            struct aw_team_settings how = team.settings;
            how.difference = true;
            aw_team_deinit(&team);
            assert_ok(aw_team_init(&team, &w, &how, NULL));
        }
        assert_ok(aw_simppo_new(&settings, &team, 1, NULL, &agents, NULL));
        const double before = live(agents, &w, &team, 900000, 20, false);
        (void)live(agents, &w, &team, 1000, EPISODES, true);
        assert_true(live(agents, &w, &team, 900000, 20, false) > before + 1);
        aw_simppo_free(agents);
        aw_team_deinit(&team);
        aw_multi_deinit(&w);
    }
}

AW_TEST_GROUP("simppo")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns_more_than_it_began_with),
        cmocka_unit_test(episodes_allocate_nothing_and_the_same_seed_gives_the_same),
        cmocka_unit_test(agents_come_and_go_while_it_learns),
        cmocka_unit_test(in_turns_those_who_miss_most_act_and_the_others_hold),
        cmocka_unit_test(every_critic_and_reward_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
