/*
 * flash_scaling.c - a reinforcement learner with and without a meta-learner (aware/meta.h).
 *
 *     flash_scaling [--seeds N] [--check]
 *
 * The smallest task that no policy can do without knowing which workload it has before it: a knob
 * whose best setting in state x is (x + c) / 2, with a c of each workload that no state shows. The
 * reward is minus the squared distance from the best setting. Without knowing c, the best that one
 * policy can do for all workloads is c = 0, for a reward of -1/12 on average; 0 is perfect.
 *
 * The base learner is a deterministic actor with a critic (Silver et al., 2014; steps do not depend
 * on each other, so gamma is 0), learning from what random actions earned. It is made once as it is
 * and once with an embedding appended to the state of both networks. For workloads never seen
 * before there are EPISODES trajectories of random actions to make an embedding of, and then no
 * learning.
 *
 * With --check the exit status is 1 unless with FLASH at most HELPS of the lost reward is left.
 */
#include <aware/meta.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/text.h"
#include "nn/adam.h"
#include "nn/loss.h"
#include "nn/mlp.h"

#define HELPS 0.15

#define TRAINED   64u /* workloads learned from */
#define UNSEEN    64u
#define EPISODES  2u
#define STEPS     20u
#define EMBEDDING 8u
#define ACTOR_IN  (1 + EMBEDDING) /* state, embedding */
#define CRITIC_IN (2 + EMBEDDING) /* state, action, embedding */
#define GROUP     8u              /* workloads of a batch */
#define ROWS      8u              /* steps of each of them */
#define BATCH     (GROUP * ROWS)
#define UPDATES   4000u
#define RATE      2e-3
#define SEEDS_MAX 100u

struct workload {
    double c;
    uint32_t id;
    float state[EPISODES * STEPS], action[EPISODES * STEPS], reward[EPISODES * STEPS];
};

struct net {
    struct aw_params params;
    struct aw_mlp mlp;
    struct aw_mlp_cache cache;
};

struct trial {
    struct aw_rng rng;
    struct aw_meta *meta; /* NULL: without */
    struct workload workload[TRAINED + UNSEEN];
    struct net actor, critic;
};

static void must(enum aw_err err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "flash_scaling: %s: %s\n", what, aw_err_text(err));
    exit(aw_err_exit_code(err));
}

static double reward_of(double c, double state, double action)
{
    const double off = action - (state + c) / 2;
    return -off * off;
}

/* --- networks --------------------------------------------------------------------------------- */

static void net_open(struct net *net, uint32_t in, enum aw_act output, struct aw_rng *rng)
{
    const uint32_t widths[] = {in, 32, 32, 1};
    aw_mlp_declare(&net->mlp, &net->params, "base", widths, 4, AW_ACT_RELU, output);
    must(aw_params_alloc(&net->params, NULL), "a network");
    aw_mlp_init_fan_in(&net->mlp, net->params.value, 0, rng);
    must(aw_mlp_cache_init(&net->cache, &net->mlp, BATCH, NULL), "a network");
}

static void net_close(struct net *net)
{
    aw_mlp_cache_deinit(&net->cache);
    aw_params_deinit(&net->params);
}

static const float *forward(struct net *net, const float *x)
{
    return aw_mlp_forward(&net->mlp, net->params.value, x, BATCH, &net->cache);
}

static void backward(struct net *net, const float *x, const float *dy, bool learn, float *dx)
{
    aw_mlp_backward(&net->mlp, net->params.value, x, BATCH, &net->cache, dy,
                    learn ? net->params.grad : NULL, dx);
}

static void net_step(struct net *net)
{
    const struct aw_adam adam = aw_adam_default(RATE);
    aw_adam_step(&adam, &net->params);
    aw_params_zero_grad(&net->params);
}

/* --- learning --------------------------------------------------------------------------------- */

static void live(struct trial *trial, struct workload *workload)
{
    for (uint32_t t = 0; t < EPISODES * STEPS; t++) {
        workload->state[t] = (float)aw_rng_uniform(&trial->rng, -1, 1);
        workload->action[t] = (float)aw_rng_uniform(&trial->rng, -1, 1);
        workload->reward[t] =
            (float)reward_of(workload->c, (double)workload->state[t], (double)workload->action[t]);
    }
    for (uint32_t at = 0; trial->meta && at < EPISODES * STEPS; at += STEPS)
        must(aw_meta_insert_trajectory(trial->meta, workload->id, workload->state + at,
                                       workload->action + at, workload->reward + at, STEPS),
             "insert_trajectory");
}

static void trial_open(struct trial *trial, bool flash, uint64_t seed)
{
    aw_rng_init(&trial->rng, seed, 0);
    if (flash) {
        struct aw_meta_settings settings = aw_meta_default();
        struct aw_diag diag = {0};
        settings.hidden = settings.dense = 32;
        settings.embedding = EMBEDDING;
        settings.keep = AW_META_KEEP_LATEST; /* random actions: none is better than another */
        settings.keep_count = EPISODES;
        settings.workloads_max = TRAINED + UNSEEN;
        settings.learning_rate = RATE;
        settings.seed = seed;
        must(aw_meta_register_rl("knob", 1, 1, STEPS, &settings, NULL, &trial->meta, &diag),
             diag.text);
    }
    for (uint32_t w = 0; w < TRAINED + UNSEEN; w++) {
        struct workload *workload = &trial->workload[w];
        char name[AW_META_NAME_MAX];
        snprintf(name, sizeof name, "workload-%u", w);
        if (flash)
            must(aw_meta_workload(trial->meta, name, &workload->id), "workload");
        workload->c = aw_rng_uniform(&trial->rng, -1, 1);
        if (w < TRAINED)
            live(trial, workload);
    }
    net_open(&trial->actor, ACTOR_IN, AW_ACT_TANH, &trial->rng);
    net_open(&trial->critic, CRITIC_IN, AW_ACT_NONE, &trial->rng);
}

/* What a batch says of the embeddings in its rows; they begin at column `from` of `wide`. */
static void give_back(struct trial *trial, const uint32_t *who, const float *dx, uint32_t from,
                      uint32_t wide)
{
    for (uint32_t row = 0; trial->meta && row < BATCH; row++)
        must(aw_meta_feedback(trial->meta, trial->workload[who[row / ROWS]].id,
                              dx + (size_t)row * wide + from),
             "feedback");
}

static void update(struct trial *trial)
{
    static float x_actor[BATCH * ACTOR_IN], dx_actor[BATCH * ACTOR_IN];
    static float x_critic[BATCH * CRITIC_IN], dx_critic[BATCH * CRITIC_IN];
    static float reward[BATCH], dy[BATCH];
    uint32_t who[GROUP];
    for (uint32_t g = 0; g < GROUP; g++) {
        float e[EMBEDDING] = {0};
        who[g] = aw_rng_below(&trial->rng, TRAINED);
        const struct workload *workload = &trial->workload[who[g]];
        if (trial->meta)
            must(aw_meta_embedding(trial->meta, workload->id, e), "embedding");
        for (uint32_t r = 0; r < ROWS; r++) {
            const uint32_t row = g * ROWS + r, t = aw_rng_below(&trial->rng, EPISODES * STEPS);
            float *actor = x_actor + row * ACTOR_IN, *critic = x_critic + row * CRITIC_IN;
            actor[0] = critic[0] = workload->state[t];
            critic[1] = workload->action[t];
            memcpy(actor + 1, e, sizeof e);
            memcpy(critic + 2, e, sizeof e);
            reward[row] = workload->reward[t];
        }
    }
    /* the critic: what an action earns */
    aw_loss_mse(forward(&trial->critic, x_critic), reward, BATCH, dy);
    backward(&trial->critic, x_critic, dy, true, dx_critic);
    give_back(trial, who, dx_critic, 2, CRITIC_IN);
    net_step(&trial->critic);
    /* the actor: uphill on what the critic says of its actions */
    const float *action = forward(&trial->actor, x_actor);
    for (uint32_t row = 0; row < BATCH; row++) {
        x_critic[row * CRITIC_IN + 1] = action[row];
        dy[row] = -1.0f / BATCH;
    }
    forward(&trial->critic, x_critic);
    backward(&trial->critic, x_critic, dy, false, dx_critic);
    for (uint32_t row = 0; row < BATCH; row++)
        dy[row] = dx_critic[row * CRITIC_IN + 1];
    backward(&trial->actor, x_actor, dy, true, dx_actor);
    give_back(trial, who, dx_actor, 1, ACTOR_IN);
    net_step(&trial->actor);
    if (trial->meta)
        must(aw_meta_update(trial->meta, NULL), "update");
}

/* Mean reward on workloads never seen, acting without learning. */
static double reward_on_unseen(struct trial *trial)
{
    double sum = 0;
    for (uint32_t w = TRAINED; w < TRAINED + UNSEEN; w++) {
        struct workload *workload = &trial->workload[w];
        float x[ACTOR_IN] = {0}, action;
        live(trial, workload);
        if (trial->meta)
            must(aw_meta_embedding(trial->meta, workload->id, x + 1), "embedding");
        for (uint32_t t = 0; t < STEPS; t++) {
            x[0] = (float)(2 * ((double)t + 0.5) / STEPS - 1);
            aw_mlp_infer(&trial->actor.mlp, trial->actor.params.value, x, &action);
            sum += reward_of(workload->c, (double)x[0], (double)action);
        }
    }
    return sum / (UNSEEN * STEPS);
}

static double run(bool flash, uint64_t seed)
{
    static struct trial trial;
    memset(&trial, 0, sizeof trial);
    trial_open(&trial, flash, seed);
    for (uint32_t n = 0; n < UPDATES; n++)
        update(&trial);
    if (trial.meta)
        aw_meta_toggle(trial.meta, false);
    const double reward = reward_on_unseen(&trial);
    aw_meta_free(trial.meta);
    net_close(&trial.actor);
    net_close(&trial.critic);
    return reward;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 3;
    bool check = false, bad = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0)
            check = true;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            bad |= aw_text_parse_u64(argv[++i], &seeds) || seeds == 0 || seeds > SEEDS_MAX;
        else
            bad = true;
    }
    if (bad) {
        fprintf(stderr, "usage: flash_scaling [--seeds N] [--check]\n");
        return aw_err_exit_code(AW_ERR_USAGE);
    }
    double mean[2] = {0};
    printf("mean reward on %u workloads never seen (0 is perfect)\n\nseed    alone     flash\n",
           UNSEEN);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const double reward[2] = {run(false, seed), run(true, seed)};
        printf("%-6llu %7.4f   %7.4f\n", (unsigned long long)seed, reward[0], reward[1]);
        for (uint32_t i = 0; i < 2; i++)
            mean[i] += reward[i] / (double)seeds;
    }
    printf("mean   %7.4f   %7.4f   of what was lost, %.2f is left\n", mean[0], mean[1],
           mean[1] / mean[0]);
    if (check && !(mean[1] >= HELPS * mean[0])) {
        printf("\nflash leaves more than %.2f of the lost reward\n", HELPS);
        return aw_err_exit_code(AW_ERR_CHECK);
    }
    return 0;
}
