/*
 * bcq_offline.c - BCQ against the policy that made its data, and against DDPG on the same data.
 *
 * A fixed data set is gathered from a mediocre policy on pendulum-v1: a timid swing-up with
 * Gaussian noise on top, worth about -570, where a good policy reaches -150. BCQ and DDPG then
 * learn from those transitions alone, without a single step in the environment, and are evaluated
 * without exploration. What offline DDPG lacks is any reason not to choose actions that nobody
 * tried and that its critic therefore overrates.
 *
 *   bcq_offline          one seed, short: the test
 *   bcq_offline --full   five seeds, as in docs/algorithms/bcq.md
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aware/env.h>

#include "base/rng.h"
#include "rl/agents.h"

#define OBS_DIM       3u
#define EPISODE_STEPS 200u
#define SEEDS_MAX     5u
#define DATA_SEED     1000u
#define EVAL_SEED     500000u /* apart from the episodes of the data */

#define PUMP_GAIN      0.1f /* N m per joule missing; 1 would swing up at once */
#define UPRIGHT_COSINE 0.9f /* balances from here on */

struct plan {
    float behaviour_noise; /* deviation on its actions, of a torque of 2 */
    uint32_t data_episodes;
    uint32_t updates; /* of each learner */
    uint32_t seeds;
    uint32_t eval_episodes;
};

struct data {
    uint32_t count;
    float *obs, *action, *reward, *next_obs;
    bool *terminated, *truncated;
    double behaviour_return; /* mean over its episodes: what the data themselves earned */
};

static void check(enum aw_err err, const struct aw_diag *diag, const char *what)
{
    if (!err)
        return;
    char line[1024];
    fprintf(stderr, "bcq_offline: %s: %s\n", what, aw_diag_format(diag, err, line, sizeof line));
    exit(1);
}

static struct aw_agent make_agent(const char *name, const char *preset, const char *const *pairs,
                                  uint64_t seed)
{
    _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    static const float low = -2, high = 2;
    const struct aw_agent_shape shape = {1, OBS_DIM, AW_AGENT_CONTINUOUS, 1, 0, &low, &high};
    const struct aw_agent_factory *factory = NULL;
    struct aw_agent agent;
    struct aw_diag diag = {0};
    check(aw_agent_factory_find(name, &factory, &diag), &diag, name);
    check(aw_agent_settings(factory, preset, settings, &diag), &diag, name);
    for (size_t i = 0; pairs[i]; i++)
        check(aw_conf_set_pair(factory->fields, settings, pairs[i], &diag), &diag, pairs[i]);
    check(factory->make(&shape, settings, seed, NULL, &agent, &diag), &diag, name);
    return agent;
}

/* The policy that makes the data: pumps energy far too timidly, then balances with a PD law. Being
 * a formula, it makes the same data whatever becomes of the learners. */
static float behave(const float *obs)
{
    float energy = obs[2] * obs[2] / 6 + 5 * obs[0]; /* of a rod of 1 kg and 1 m, g = 10; 5 at rest
                                                        upright */
    if (obs[0] > UPRIGHT_COSINE)
        return -8 * atan2f(obs[1], obs[0]) - 2 * obs[2];
    return PUMP_GAIN * (5 - energy) * (obs[2] >= 0 ? 1.0f : -1.0f);
}

static void *grow(size_t count, size_t size)
{
    void *block = calloc(count, size);
    check(block ? AW_OK : AW_ERR_NOMEM, NULL, "data");
    return block;
}

static struct data gather(struct aw_env *env, const struct plan *plan)
{
    uint32_t most = plan->data_episodes * EPISODE_STEPS;
    struct data data = {
        .obs = grow(most * OBS_DIM, sizeof(float)),
        .action = grow(most, sizeof(float)),
        .reward = grow(most, sizeof(float)),
        .next_obs = grow(most * OBS_DIM, sizeof(float)),
        .terminated = grow(most, sizeof(bool)),
        .truncated = grow(most, sizeof(bool)),
    };
    struct aw_rng rng;
    aw_rng_init(&rng, DATA_SEED, 1);
    double sum = 0;
    for (uint32_t e = 0; e < plan->data_episodes; e++) {
        float obs[OBS_DIM];
        struct aw_step step = {0};
        check(env->ops->reset(env->self, DATA_SEED + e, obs), NULL, "reset");
        while (!step.terminated && !step.truncated) {
            uint32_t i = data.count++;
            float *action = data.action + i;
            memcpy(data.obs + i * OBS_DIM, obs, sizeof obs);
            *action = behave(obs) + plan->behaviour_noise * (float)aw_rng_normal(&rng);
            *action = fminf(2, fmaxf(-2, *action));
            check(env->ops->step(env->self, action, obs, &step), NULL, "step");
            memcpy(data.next_obs + i * OBS_DIM, obs, sizeof obs);
            data.reward[i] = step.reward;
            data.terminated[i] = step.terminated;
            data.truncated[i] = step.truncated;
            sum += (double)step.reward;
        }
    }
    data.behaviour_return = sum / plan->data_episodes;
    return data;
}

static void data_free(struct data *data)
{
    free(data->obs);
    free(data->action);
    free(data->reward);
    free(data->next_obs);
    free(data->terminated);
    free(data->truncated);
    *data = (struct data){0};
}

/* Mean return without exploration; `agent` NULL: of the behaviour without its noise. */
static double evaluate(struct aw_env *env, struct aw_agent *agent, uint32_t episodes)
{
    double sum = 0;
    for (uint32_t e = 0; e < episodes; e++) {
        float obs[OBS_DIM], action;
        struct aw_step step = {0};
        check(env->ops->reset(env->self, EVAL_SEED + e, obs), NULL, "reset");
        while (!step.terminated && !step.truncated) {
            action = behave(obs); /* a step clips what is beyond its bounds */
            if (agent)
                check(agent->ops->act(agent->self, obs, 1, false, &action), NULL, "act");
            check(env->ops->step(env->self, &action, obs, &step), NULL, "step");
            sum += (double)step.reward;
        }
    }
    return sum / episodes;
}

/* Fills a fresh learner with the data, then lets it learn, and asks what it is worth. */
static double learn_offline(struct aw_env *env, const char *name, const char *preset,
                            const char *const *pairs, const struct data *data,
                            const struct plan *plan, uint64_t seed)
{
    struct aw_agent agent = make_agent(name, preset, pairs, seed);
    for (uint32_t i = 0; i < data->count; i++) {
        const struct aw_transition transition = {
            data->obs + i * OBS_DIM,      data->action + i,     data->reward + i,
            data->next_obs + i * OBS_DIM, data->terminated + i, data->truncated + i};
        check(agent.ops->observe(agent.self, &transition), NULL, "observe");
    }
    for (uint32_t i = 0; i < plan->updates; i++)
        check(agent.ops->learn(agent.self, NULL), NULL, "learn");
    double mean = evaluate(env, &agent, plan->eval_episodes);
    aw_agent_free(&agent);
    return mean;
}

static int run(const struct plan *plan)
{
    static const char *const ddpg_pairs[] = {"offline=true", "replay_capacity=100_000", NULL};
    static const char *const bcq_pairs[] = {"replay_capacity=100_000", NULL};
    struct aw_diag diag = {0};
    struct aw_env env;
    check(aw_env_make("pendulum-v1", &env, &diag), &diag, "pendulum-v1");
    struct data data = gather(&env, plan);
    double quiet = evaluate(&env, NULL, plan->eval_episodes);
    printf("behaviour: %.1f with its noise over %u transitions, %.1f without\n",
           data.behaviour_return, data.count, quiet);
    printf("%4s %10s %10s %10s\n", "seed", "behaviour", "ddpg", "bcq");
    uint32_t won = 0;
    for (uint32_t seed = 0; seed < plan->seeds; seed++) {
        double ddpg = learn_offline(&env, "ddpg", "pendulum-v1", ddpg_pairs, &data, plan, seed);
        double bcq = learn_offline(&env, "bcq", "pendulum-v1", bcq_pairs, &data, plan, seed);
        bool best = bcq > data.behaviour_return && bcq > quiet && bcq > ddpg;
        won += best;
        printf("%4u %10.1f %10.1f %10.1f%s\n", seed, data.behaviour_return, ddpg, bcq,
               best ? "" : "  <- not the best");
        fflush(stdout);
    }
    printf("bcq is the best of the three on %u of %u seeds\n", won, plan->seeds);
    aw_env_free(&env);
    data_free(&data);
    return won == plan->seeds ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct plan plan = {.behaviour_noise = 0.2f,
                        .data_episodes = 50,
                        .updates = 5000,
                        .seeds = 1,
                        .eval_episodes = 20};
    if (argc > 1 && strcmp(argv[1], "--full") == 0) {
        plan.updates = 8000;
        plan.seeds = SEEDS_MAX;
        plan.eval_episodes = 100;
    }
    return run(&plan);
}
