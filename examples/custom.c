/*
 * custom.c - an agent and an environment of one's own, taught by a loop of one's own.
 *
 *     custom [--check]
 *
 * The agent (custom_agent.c) learns two environments: one of ours (custom_env.c), and CartPole-v1,
 * which the library brings along. It cannot tell the difference: both keep the same contract. Only
 * <aware/...> headers are used, which are what is installed:
 *
 *     cc custom.c custom_env.c custom_agent.c $(pkg-config --cflags --libs aware) -o custom
 *
 * With --check the exit status is 1 unless the agent has learned both.
 */
#include <stdio.h>
#include <string.h>

#include "custom.h"

#define ENVS     8u /* in lockstep */
#define OBS_MAX  16u
#define EPISODES 20u /* of one examination */

struct task {
    const char *env;
    uint32_t steps;  /* of each of the environments */
    double goal;     /* mean return that counts as learned */
    const char *why; /* why this goal */
};

/* The environment by its name: the library's own, or ours. */
static enum aw_err make(const char *name, struct aw_env *ret_env, struct aw_diag *diag)
{
    if (strcmp(name, pool_factory.spec->name) == 0)
        return pool_factory.make(NULL, ret_env, diag);
    return aw_env_make(name, ret_env, diag);
}

/* Mean return of the policy without exploration, on episodes that it was not taught on. */
static enum aw_err examine(const struct aw_agent *agent, const struct aw_env *env, double *ret_mean)
{
    double sum = 0;
    for (uint32_t e = 0; e < EPISODES; e++) {
        float obs[OBS_MAX], action[1];
        struct aw_step step = {0};
        enum aw_err err = env->ops->reset(env->self, 1000000u + e, obs);
        while (!err && !step.terminated && !step.truncated) {
            err = agent->ops->act(agent->self, obs, 1, false, action);
            if (!err)
                err = env->ops->step(env->self, action, obs, &step);
            sum += (double)step.reward;
        }
        if (err)
            return err;
    }
    *ret_mean = sum / EPISODES;
    return AW_OK;
}

/* The whole of training: act, step, observe, learn, and a new episode where one has ended. */
static enum aw_err teach(const struct aw_agent *agent, const struct aw_env envs[ENVS],
                         uint32_t steps)
{
    const uint32_t D = envs[0].spec->observation.dim;
    float obs[ENVS * OBS_MAX], next_obs[ENVS * OBS_MAX], action[ENVS], reward[ENVS];
    bool terminated[ENVS], truncated[ENVS];
    uint64_t seed = 1; /* every episode begins from another */
    enum aw_err err = AW_OK;

    for (uint32_t i = 0; i < ENVS && !err; i++)
        err = envs[i].ops->reset(envs[i].self, seed++, obs + i * D);
    for (uint32_t t = 0; t < steps && !err; t++) {
        err = agent->ops->act(agent->self, obs, ENVS, true, action);
        for (uint32_t i = 0; i < ENVS && !err; i++) {
            struct aw_step step;
            err = envs[i].ops->step(envs[i].self, action + i, next_obs + i * D, &step);
            if (err)
                break;
            reward[i] = step.reward;
            terminated[i] = step.terminated;
            truncated[i] = step.truncated;
        }
        if (!err)
            err = agent->ops->observe(
                agent->self,
                &(struct aw_transition){obs, action, reward, next_obs, terminated, truncated});
        if (!err)
            err = agent->ops->learn(agent->self, NULL);
        /* Only now, so that the agent was shown where each episode ended, not where one begins. */
        memcpy(obs, next_obs, ENVS * D * sizeof obs[0]);
        for (uint32_t i = 0; i < ENVS && !err; i++)
            if (terminated[i] || truncated[i])
                err = envs[i].ops->reset(envs[i].self, seed++, obs + i * D);
    }
    return err;
}

static enum aw_err run(const struct task *task, bool *ret_learned, struct aw_diag *diag)
{
    struct aw_env envs[ENVS] = {0};
    struct aw_agent agent = {0};
    double before = 0, after = 0;
    enum aw_err err = AW_OK;

    for (uint32_t i = 0; i < ENVS && !err; i++)
        err = make(task->env, &envs[i], diag);
    if (err)
        goto out;
    const struct aw_env_spec *spec = envs[0].spec;
    AW_ASSERT(spec->observation.dim <= OBS_MAX && spec->action.kind == AW_SPACE_DISCRETE);
    const struct aw_agent_shape shape = {.env_count = ENVS,
                                         .obs_dim = spec->observation.dim,
                                         .action = AW_AGENT_DISCRETE,
                                         .act_dim = 1,
                                         .act_n = spec->action.n};
    err = linear_agent_new(&shape, 1, &agent, diag);
    if (!err)
        err = examine(&agent, &envs[0], &before);
    if (!err)
        err = teach(&agent, envs, task->steps);
    if (!err)
        err = examine(&agent, &envs[0], &after);
    if (err)
        goto out;
    *ret_learned = after >= task->goal;
    printf("%-12s untaught %7.1f, taught %7.1f; goal %.0f: %s\n", task->env, before, after,
           task->goal, task->why);
out:
    aw_agent_free(&agent);
    for (uint32_t i = 0; i < ENVS; i++)
        aw_env_free(&envs[i]);
    return err;
}

int main(int argc, char **argv)
{
    static const struct task tasks[] = {
        {"pool-v0", 40000, -120, "24 workers, the best fixed number, earn -152"},
        {"cartpole-v1", 40000, 475, "where Gymnasium calls it solved"},
    };
    const bool check = argc == 2 && strcmp(argv[1], "--check") == 0;
    if (argc > 1 && !check) {
        fprintf(stderr, "usage: custom [--check]\n");
        return aw_err_exit_code(AW_ERR_USAGE);
    }
    bool all = true;
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        struct aw_diag diag = {0};
        char line[AW_DIAG_TEXT_MAX];
        bool learned = false;
        enum aw_err err = run(&tasks[i], &learned, &diag);
        if (err) {
            fprintf(stderr, "custom: %s\n", aw_diag_format(&diag, err, line, sizeof line));
            return aw_err_exit_code(err);
        }
        all &= learned;
    }
    return check && !all ? aw_err_exit_code(AW_ERR_CHECK) : 0;
}
