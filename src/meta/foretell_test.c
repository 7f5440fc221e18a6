/*
 * foretell_test.c - an encoder that learns by what it foretells alone, and base learners that see
 * its embedding: DQN (both networks) and PPO (actor and critic) on workloads never seen.
 *
 * The world: a hidden knob h in [-1, 1]; s' = 0.5 s + 0.5 h a, r = -(a - h)^2. Nothing that a state
 * shows tells h; a few steps that were lived do.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/rng.h"
#include "base/testing.h"
#include "meta/foretell.h"
#include "rl/dqn.h"
#include "rl/ppo.h"

#define KNOWN   48u
#define UNSEEN  24u
#define STEPS   12u
#define ROWS    16u
#define CHOICES 5u
#define E       4u

struct lived {
    float state[STEPS + ROWS], action[STEPS + ROWS], reward[STEPS + ROWS], next[STEPS + ROWS];
};

static float knob(uint32_t workload)
{
    struct aw_rng rng;
    aw_rng_init(&rng, workload, 5);
    return (float)aw_rng_uniform(&rng, -1, 1);
}

static float reward_of(float h, float a)
{
    return -(a - h) * (a - h);
}

static void live(uint32_t workload, uint64_t seed, struct lived *lived)
{
    struct aw_rng rng;
    const float h = knob(workload);
    float s = 0;
    aw_rng_init(&rng, seed, workload);
    for (uint32_t i = 0; i < STEPS + ROWS; i++) {
        const float a = (float)aw_rng_uniform(&rng, -1, 1);
        lived->state[i] = s;
        lived->action[i] = a;
        lived->reward[i] = reward_of(h, a);
        lived->next[i] = s = 0.5f * s + 0.5f * h * a;
    }
}

/* What the encoder did not read. */
static struct aw_foretell_steps held_back(const struct lived *lived)
{
    return (struct aw_foretell_steps){.state = lived->state + STEPS,
                                      .action = lived->action + STEPS,
                                      .reward = lived->reward + STEPS,
                                      .next = lived->next + STEPS,
                                      .count = ROWS};
}

struct school {
    struct aw_meta *meta;
    struct aw_foretell *foretell;
    uint32_t workload[KNOWN + UNSEEN];
    float z[KNOWN + UNSEEN][E];
};

static void school_open(struct school *school)
{
    struct aw_meta_settings settings = aw_meta_default();
    struct aw_diag diag;
    struct lived lived;
    settings.hidden = settings.dense = 32;
    settings.embedding = E;
    settings.keep_count = 2;
    settings.learning_rate = 3e-3;
    settings.workloads_max = KNOWN + UNSEEN;
    assert_ok(aw_meta_register_rl("knob", 1, 1, STEPS, &settings, NULL, &school->meta, &diag));
    assert_ok(aw_foretell_new(1, 1, E, ROWS, 3e-3, 1, &school->foretell, &diag));
    for (uint32_t w = 0; w < KNOWN + UNSEEN; w++) {
        char name[16];
        snprintf(name, sizeof name, "%u", w);
        assert_ok(aw_meta_workload(school->meta, name, &school->workload[w]));
        live(w, 1, &lived);
        assert_ok(aw_meta_insert_trajectory(school->meta, school->workload[w], lived.state,
                                            lived.action, lived.reward, STEPS));
    }
    for (uint32_t u = 0; u < 250; u++) {
        for (uint32_t w = u % 4; w < KNOWN; w += 4) {
            live(w, 2 + u, &lived);
            const struct aw_foretell_steps steps = held_back(&lived);
            assert_ok(aw_foretell_learn(school->foretell, school->meta, school->workload[w], &steps,
                                        1, NULL));
        }
        assert_ok(aw_meta_update(school->meta, NULL));
    }
    for (uint32_t w = 0; w < KNOWN + UNSEEN; w++)
        assert_ok(aw_meta_embedding(school->meta, school->workload[w], school->z[w]));
}

static void school_close(struct school *school)
{
    aw_meta_free(school->meta);
    aw_foretell_free(school->foretell);
}

static void an_encoder_learns_by_what_it_foretells(void **state)
{
    (void)state;
    static struct school school;
    static const float zero[E];
    double right = 0, zeroed = 0, shuffled = 0;
    school_open(&school);
    for (uint32_t w = KNOWN; w < KNOWN + UNSEEN; w++) {
        struct lived lived;
        live(w, 99, &lived);
        const struct aw_foretell_steps steps = held_back(&lived);
        right += aw_foretell_error(school.foretell, school.z[w], &steps) / UNSEEN;
        zeroed += aw_foretell_error(school.foretell, zero, &steps) / UNSEEN;
        shuffled +=
            aw_foretell_error(school.foretell, school.z[KNOWN + (w + 7 - KNOWN) % UNSEEN], &steps) /
            UNSEEN;
    }
    printf("mean square on workloads never seen: %.4f, zeroed %.4f, shuffled %.4f\n", right, zeroed,
           shuffled);
    assert_true(right < 0.3 * zeroed);
    assert_true(right < 0.3 * shuffled);
    assert_int_equal(aw_foretell_learn(school.foretell, school.meta, school.workload[0],
                                       &(struct aw_foretell_steps){.count = ROWS + 1}, 1, NULL),
                     AW_ERR_RANGE);
    school_close(&school);
}

static float choice(float action)
{
    return 2 * action / (CHOICES - 1) - 1;
}

/* Mean reward on workloads never seen, of an agent that was taught on the known ones. */
static double taught(const struct aw_agent_factory *factory, const struct school *school, bool told)
{
    static _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    const struct aw_agent_shape shape = {.env_count = 1,
                                         .obs_dim = 1 + E,
                                         .action = AW_AGENT_DISCRETE,
                                         .act_dim = 1,
                                         .act_n = CHOICES};
    const char *const dqn[] = {"warmup_steps=200",   "replay_capacity=4000", "gamma=0",
                               "epsilon_fraction=0", "epsilon_steps=3000",   NULL};
    const char *const ppo[] = {"rollout_steps=192", "gamma=0", "lr=0.003", NULL};
    struct aw_agent agent = {0};
    struct aw_diag diag;
    double sum = 0;
    assert_ok(aw_agent_settings(factory, "", settings, &diag));
    for (const char *const *pair = factory == &aw_dqn_factory ? dqn : ppo; *pair; pair++)
        if (aw_conf_set_pair(factory->fields, settings, *pair, &diag))
            fail_msg("%s: %s", *pair, diag.text);
    assert_ok(factory->make(&shape, settings, 1, NULL, &agent, &diag));
    for (uint32_t step = 0; step < 9600; step++) {
        const uint32_t w = step * 7 % KNOWN;
        const bool ended = true, cut = false;
        float obs[1 + E] = {0}, action;
        if (told)
            memcpy(obs + 1, school->z[w], sizeof school->z[w]);
        assert_ok(agent.ops->act(agent.self, obs, 1, true, &action));
        const float reward = reward_of(knob(w), choice(action));
        const struct aw_transition transition = {.obs = obs,
                                                 .action = &action,
                                                 .reward = &reward,
                                                 .next_obs = obs,
                                                 .terminated = &ended,
                                                 .truncated = &cut};
        assert_ok(agent.ops->observe(agent.self, &transition));
        assert_ok(agent.ops->learn(agent.self, NULL));
    }
    for (uint32_t w = KNOWN; w < KNOWN + UNSEEN; w++) {
        float obs[1 + E] = {0}, action;
        if (told)
            memcpy(obs + 1, school->z[w], sizeof school->z[w]);
        assert_ok(agent.ops->act(agent.self, obs, 1, false, &action));
        sum += (double)reward_of(knob(w), choice(action)) / UNSEEN;
    }
    aw_agent_free(&agent);
    return sum;
}

static void base_learners_that_see_it_act_well_at_once(void **state)
{
    (void)state;
    static struct school school;
    static const struct aw_agent_factory *const factories[] = {&aw_dqn_factory, &aw_ppo_factory};
    school_open(&school);
    for (uint32_t i = 0; i < 2; i++) {
        const double with = taught(factories[i], &school, true);
        const double without = taught(factories[i], &school, false);
        printf("%u: with the embedding %.3f, without %.3f\n", i, with, without);
        assert_true(with > -0.15);
        assert_true(with > without + 0.1);
    }
    school_close(&school);
}

AW_TEST_GROUP("foretell")
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_encoder_learns_by_what_it_foretells),
        cmocka_unit_test(base_learners_that_see_it_act_well_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
