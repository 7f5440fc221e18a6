/*
 * learner.c - rounds of learning from a record.
 *
 * A round is batch-constrained Q-learning (rl/bcq.c) from nothing on the whole record, whose policy
 * is then taught to the actor that serves: BCQ itself asks a generative model and two critics for
 * every action, the actor is one small network. What the record does not speak of stays undone in
 * both kinds of round; online the record holds the policy's own actions and its exploration, so
 * each round may go a little further than the last. Rounds of the other methods, which act on
 * copies of the workload, are in learner_copies.c.
 */
#include "rehearsal/learner.h"

#include <math.h>
#include <string.h>

#include "rehearsal/learner_internal.h"
#include "rl/bcq.h"

#define BYTES_PER_FLOAT sizeof(float)

const char *const aw_learner_method_names[] = {"bcq", "ppo", "td3", "ddpg", NULL};

#define AW_CONF_OF struct aw_learner_settings
const struct aw_conf_field aw_learner_fields[] = {
    AW_CONF_ONE_OF(
        method, "bcq", aw_learner_method_names,
        "Where a round learns: bcq from the record alone, the others on copies fitted to it."),
    AW_CONF_NUMBER(copy_steps, "40_000", AW_LEARNER_COPY_STEPS_MIN, 1e6,
                   "Steps on copies in one round, all copies together; bcq makes none."),
    AW_CONF_NUMBER(episodes, "60", AW_OPE_EPISODES_MIN, 1000,
                   "Episodes a workload learns from, the latest ones."),
    AW_CONF_NUMBER(hidden, "64", 4, 256, "Units of each of the policy's two layers."),
    AW_CONF_NUMBER(updates, "600", 1, 1e6, "Gradient updates of one round."),
    AW_CONF_NUMBER(fit_updates, "400", 1, 1e6,
                   "Gradient updates that teach what was learned to the policy that serves."),
    AW_CONF_NUMBER(batch, "64", 1, 1024, "Steps in one gradient update."),
    AW_CONF_NUMBER(
        gamma, "0.9", 0, 0.999,
        "Discount of the reward one step later; 0.9 looks ahead two and a half minutes."),
    AW_CONF_NUMBER(learning_rate, "1e-3", 1e-6, 0.1, "Of Adam, for every network of a round."),
    AW_CONF_NUMBER(reach_offline, "0.1", 0, 2,
                   "How far a policy learned from the fallback may depart from actions on record."),
    AW_CONF_NUMBER(reach_online, "0.15", 0, 2, "How far one may that has acted itself."),
    {0},
};

static void carve(struct aw_learner *learner, struct aw_carve *take)
{
    const size_t N = learner->steps_max, S = learner->shape.obs_dim, A = learner->shape.act_dim;
    learner->begin = aw_carve_take(take, learner->episodes_max + 2u, sizeof *learner->begin);
    learner->obs = aw_carve_take(take, N * S, BYTES_PER_FLOAT);
    learner->next_obs = aw_carve_take(take, N * S, BYTES_PER_FLOAT);
    learner->action = aw_carve_take(take, N * A, BYTES_PER_FLOAT);
    learner->gain = aw_carve_take(take, N, BYTES_PER_FLOAT);
    learner->violated = aw_carve_take(take, N, BYTES_PER_FLOAT);
    learner->by_fallback = aw_carve_take(take, N, BYTES_PER_FLOAT);
    learner->read = aw_carve_take(take, N, BYTES_PER_FLOAT);
    learner->reward = aw_carve_take(take, N, BYTES_PER_FLOAT);
    learner->taught = aw_carve_take(take, N * A, BYTES_PER_FLOAT);
    learner->low = aw_carve_take(take, A, BYTES_PER_FLOAT);
    learner->high = aw_carve_take(take, A, BYTES_PER_FLOAT);
}

enum aw_err aw_learner_new(const struct aw_learner_shape *shape,
                           const struct aw_learner_settings *settings, const struct aw_alloc *alloc,
                           struct aw_learner **ret_learner, struct aw_diag *diag)
{
    const uint64_t steps = ((uint64_t)settings->episodes + 1) * shape->episode_steps;
    if (shape->obs_dim == 0 || shape->obs_dim > AW_ACTNET_OBS_MAX || shape->act_dim == 0 ||
        shape->act_dim > AW_ACTNET_ACT_MAX || shape->episode_steps == 0)
        return aw_fail(diag, AW_ERR_CONFIG, "a learner cannot see %u and act with %u numbers",
                       shape->obs_dim, shape->act_dim);
    if (steps > AW_LEARNER_STEPS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "a record has at most %u steps, %u episodes of %u have more",
                       AW_LEARNER_STEPS_MAX, settings->episodes, shape->episode_steps);
    struct aw_learner *learner = aw_alloc_new(alloc, 1, sizeof *learner);
    if (!learner)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a learner");
    *learner = (struct aw_learner){.shape = *shape,
                                   .settings = *settings,
                                   .steps_max = (uint32_t)steps,
                                   .episodes_max = settings->episodes,
                                   .alloc = alloc};
    struct aw_carve take = {0};
    carve(learner, &take);
    learner->block_bytes = take.used;
    learner->block = aw_alloc_new(alloc, take.used, 1);
    if (!learner->block) {
        aw_learner_free(learner);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a record of %u steps", (uint32_t)steps);
    }
    take = (struct aw_carve){.base = learner->block};
    carve(learner, &take);
    for (uint32_t a = 0; a < shape->act_dim; a++) {
        learner->low[a] = -1;
        learner->high[a] = 1;
    }
    *ret_learner = learner;
    return AW_OK;
}

void aw_learner_free(struct aw_learner *learner)
{
    if (!learner)
        return;
    aw_alloc_free(learner->alloc, learner->block);
    aw_alloc_free(learner->alloc, learner);
}

/* Drops the oldest `count` complete episodes. */
static void drop(struct aw_learner *learner, uint32_t count)
{
    const size_t S = learner->shape.obs_dim, A = learner->shape.act_dim;
    const uint32_t first = learner->begin[count], left = learner->steps - first;
    memmove(learner->obs, learner->obs + first * S, left * S * BYTES_PER_FLOAT);
    memmove(learner->next_obs, learner->next_obs + first * S, left * S * BYTES_PER_FLOAT);
    memmove(learner->action, learner->action + first * A, left * A * BYTES_PER_FLOAT);
    memmove(learner->gain, learner->gain + first, left * BYTES_PER_FLOAT);
    memmove(learner->violated, learner->violated + first, left * BYTES_PER_FLOAT);
    memmove(learner->by_fallback, learner->by_fallback + first, left * BYTES_PER_FLOAT);
    memmove(learner->read, learner->read + first, left * BYTES_PER_FLOAT);
    for (uint32_t e = count; e <= learner->episodes; e++)
        learner->begin[e - count] = learner->begin[e] - first;
    learner->episodes -= count;
    learner->steps = left;
}

enum aw_err aw_learner_add(struct aw_learner *learner, const struct aw_learner_step *step)
{
    const size_t S = learner->shape.obs_dim, A = learner->shape.act_dim;
    if (!aw_params_finite(step->obs, S) || !aw_params_finite(step->next_obs, S) ||
        !aw_params_finite(step->action, A) || !isfinite((float)step->gain) ||
        !isfinite((float)step->read))
        return AW_ERR_DIVERGED;
    if (learner->steps - learner->begin[learner->episodes] >= learner->shape.episode_steps)
        aw_learner_end(learner);
    const size_t t = learner->steps;
    memcpy(learner->obs + t * S, step->obs, S * BYTES_PER_FLOAT);
    memcpy(learner->next_obs + t * S, step->next_obs, S * BYTES_PER_FLOAT);
    memcpy(learner->action + t * A, step->action, A * BYTES_PER_FLOAT);
    learner->gain[t] = (float)step->gain;
    learner->violated[t] = step->violated;
    learner->by_fallback[t] = step->by_fallback;
    learner->read[t] = (float)step->read;
    learner->steps++;
    return AW_OK;
}

void aw_learner_end(struct aw_learner *learner)
{
    if (learner->steps == learner->begin[learner->episodes])
        return;
    learner->begin[++learner->episodes] = learner->steps;
    if (learner->episodes > learner->episodes_max)
        drop(learner, 1); /* the block has room for one more than are kept */
}

size_t aw_learner_bytes(const struct aw_learner *learner)
{
    return sizeof *learner + learner->block_bytes;
}

uint32_t aw_learner_episodes(const struct aw_learner *learner)
{
    return learner->episodes;
}

uint32_t aw_learner_bundle(const struct aw_learner *learner, struct aw_bundle *bundle)
{
    const size_t S = learner->shape.obs_dim, A = learner->shape.act_dim;
    uint32_t kept = 0;
    AW_ASSERT(bundle->config.obs_dim == S && bundle->config.act_dim == A);
    for (uint32_t e = 0; e < learner->episodes; e++) {
        const uint32_t first = learner->begin[e], steps = learner->begin[e + 1] - first;
        bool alone = true;
        for (uint32_t t = first; t < first + steps && alone; t++)
            alone = learner->by_fallback[t] > 0;
        kept += alone && aw_bundle_add(bundle, learner->obs + first * S,
                                       learner->action + first * A, learner->read + first, steps);
    }
    return kept;
}

void aw_learner_forget(struct aw_learner *learner, uint32_t episodes)
{
    if (learner->episodes > episodes)
        drop(learner, learner->episodes - episodes);
}

static void weigh(struct aw_learner *learner, double lambda)
{
    for (uint32_t t = 0; t < learner->steps; t++)
        learner->reward[t] = learner->gain[t] - (float)lambda * learner->violated[t];
}

/* Everything on record into a learner of the agent contract. */
static enum aw_err show(const struct aw_learner *learner, const struct aw_agent *agent)
{
    const size_t S = learner->shape.obs_dim, A = learner->shape.act_dim;
    static const bool no = false, yes = true;
    for (uint32_t e = 0; e < learner->episodes; e++)
        for (uint32_t t = learner->begin[e]; t < learner->begin[e + 1]; t++) {
            const struct aw_transition transition = {
                .obs = learner->obs + t * S,
                .action = learner->action + t * A,
                .reward = learner->reward + t,
                .next_obs = learner->next_obs + t * S,
                .terminated = &no,
                .truncated = t + 1 == learner->begin[e + 1] ? &yes : &no,
            };
            enum aw_err err = agent->ops->observe(agent->self, &transition);
            if (err)
                return err;
        }
    return AW_OK;
}

static enum aw_err make(const struct aw_learner *learner, enum aw_learner_round kind, uint64_t seed,
                        struct aw_agent *ret_agent, struct aw_diag *diag)
{
    const struct aw_learner_settings *set = &learner->settings;
    struct aw_bcq_settings bcq;
    enum aw_err err = aw_agent_settings(&aw_bcq_factory, NULL, &bcq, diag);
    if (err)
        return err;
    bcq.base.batch = set->batch;
    bcq.base.gamma = (float)set->gamma;
    bcq.base.reward_scale = (float)(1 - set->gamma);
    bcq.base.replay_capacity = learner->steps_max;
    bcq.base.normalise_obs = true;
    bcq.base.offline = true;
    bcq.base.updates_per_step = set->updates;
    bcq.hidden = bcq.vae_hidden = (struct aw_conf_u32_list){2, {set->hidden, set->hidden}};
    bcq.actor_lr = bcq.critic_lr = bcq.vae_lr = (float)set->learning_rate;
    bcq.phi = (float)(kind == AW_LEARNER_OFFLINE ? set->reach_offline : set->reach_online);
    const struct aw_agent_shape shape = {.env_count = 1,
                                         .obs_dim = learner->shape.obs_dim,
                                         .action = AW_AGENT_CONTINUOUS,
                                         .act_dim = learner->shape.act_dim,
                                         .act_low = learner->low,
                                         .act_high = learner->high};
    return aw_bcq_factory.make(&shape, &bcq, seed, learner->alloc, ret_agent, diag);
}

/* What the learned policy does in every state. */
static enum aw_err ask(const struct aw_agent *agent, const struct aw_learner_shape *shape,
                       const float *obs, uint32_t rows, float *ret_action)
{
    for (uint32_t t = 0; t < rows;) {
        const uint32_t count = rows - t < AW_AGENT_ACT_ROWS_MAX ? rows - t : AW_AGENT_ACT_ROWS_MAX;
        enum aw_err err = agent->ops->act(agent->self, obs + (size_t)t * shape->obs_dim, count,
                                          false, ret_action + (size_t)t * shape->act_dim);
        if (err)
            return err;
        t += count;
    }
    return AW_OK;
}

enum aw_err aw__learner_teach(const struct aw_learner *learner, const struct aw_agent *agent,
                              const float *obs, float *taught, uint32_t rows, uint64_t seed,
                              struct aw_actnet *actor, double *ret_imitation)
{
    const struct aw_learner_settings *set = &learner->settings;
    struct aw_actnet next = {0};
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 1);
    enum aw_err err = ask(agent, &learner->shape, obs, rows, taught);
    err = err ? err : aw_actnet_init(&next, &actor->shape, learner->alloc);
    if (err)
        return err;
    aw_actnet_normalise(&next, obs, rows);
    aw_actnet_init_weights(&next, 3e-3f, &rng);
    err = aw_actnet_fit(&next,
                        &(struct aw_actnet_fit){.updates = set->fit_updates,
                                                .batch = set->batch,
                                                .lr = set->learning_rate},
                        obs, taught, rows, &rng, ret_imitation);
    if (!err)
        aw_actnet_copy(actor, &next);
    aw_actnet_deinit(&next);
    return err;
}

double aw__learner_stat(const struct aw_learn_stats *stats, const char *name, double otherwise)
{
    for (uint32_t i = 0; i < stats->count; i++)
        if (!strcmp(stats->stat[i].name, name))
            return stats->stat[i].value;
    return otherwise;
}

enum aw_err aw__learner_enough(const struct aw_learner *learner, struct aw_diag *diag)
{
    if (learner->episodes < AW_OPE_EPISODES_MIN)
        return aw_fail(diag, AW_ERR_NODATA, "%u episodes on record, at least %u are needed",
                       learner->episodes, AW_OPE_EPISODES_MIN);
    return AW_OK;
}

enum aw_err aw_learner_round(struct aw_learner *learner, enum aw_learner_round kind, double lambda,
                             uint64_t seed, struct aw_actnet *actor,
                             struct aw_learner_stats *ret_stats, struct aw_diag *diag)
{
    enum aw_err err = aw__learner_enough(learner, diag);
    if (err)
        return err;
    const uint32_t steps = learner->begin[learner->episodes];
    struct aw_agent agent = {0};
    struct aw_learn_stats stats = {0};
    struct aw_learner_stats told = {.steps = steps, .episodes = learner->episodes};
    weigh(learner, lambda);
    err = make(learner, kind, seed, &agent, diag);
    err = err ? err : show(learner, &agent);
    err = err ? err : agent.ops->learn(agent.self, &stats);
    err = err ? err
              : aw__learner_teach(learner, &agent, learner->obs, learner->taught, steps, seed,
                                  actor, &told.imitation);
    told.critic_loss = aw__learner_stat(&stats, "critic_loss", 0);
    if (!err && ret_stats)
        *ret_stats = told;
    if (err && diag && !diag->text[0])
        aw_fail(diag, err, "a round of learning failed");
    aw_agent_free(&agent);
    return err;
}

static enum aw_err act_rows(void *ctx, const float *obs, uint32_t count, float *action)
{
    const struct aw_actnet *actor = ctx;
    for (uint32_t i = 0; i < count; i++) {
        enum aw_err err = aw_actnet_act(actor, obs + (size_t)i * actor->shape.obs_dim,
                                        action + (size_t)i * actor->shape.act_dim);
        if (err)
            return err;
    }
    return AW_OK;
}

enum aw_err aw_learner_estimate(struct aw_learner *learner, const struct aw_actnet *actor,
                                double lambda, double level, uint64_t seed,
                                struct aw_ope_estimate *ret, struct aw_diag *diag)
{
    enum aw_err err = aw__learner_enough(learner, diag);
    if (err)
        return err;
    weigh(learner, lambda);
    const struct aw_ope_shape shape = {.obs_dim = learner->shape.obs_dim,
                                       .act_dim = learner->shape.act_dim,
                                       .steps_max = learner->begin[learner->episodes],
                                       .episodes_max = learner->episodes};
    const struct aw_logged logged = {.obs_dim = learner->shape.obs_dim,
                                     .act_dim = learner->shape.act_dim,
                                     .episode_count = learner->episodes,
                                     .episode_begin = learner->begin,
                                     .obs = learner->obs,
                                     .action = learner->action,
                                     .reward = learner->reward,
                                     .next_obs = learner->next_obs,
                                     .act_low = learner->low,
                                     .act_high = learner->high};
    struct aw_actnet judged = *actor; /* act only reads; the contract wants a pointer to more */
    const struct aw_logged_policy policy = {.act = act_rows, .ctx = &judged};
    struct aw_ope *ope = NULL;
    err = aw_ope_new(&shape, &learner->settings.ope, learner->alloc, &ope, diag);
    err = err ? err
              : aw_ope_estimate(ope, &logged, &policy, learner->shape.episode_steps, level, seed,
                                ret, diag);
    aw_ope_free(ope);
    return err;
}
