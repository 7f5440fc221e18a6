/*
 * learner_copies.c - a round of learning by acting on copies of the workload (AWARE section 7).
 *
 * Two copies, of which the second believes the record a little differently, run in lockstep under
 * one learner: what pays on one alone is an error of the fit. The learner is made anew, so a round
 * depends on record, load and seed alone, as one of BCQ does; when it is done its answers are
 * taught to the actor that serves, in the states it came through last and in those on record.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "rehearsal/learner_internal.h"
#include "rl/agents.h"

#define EPISODE_STREAM 2u      /* of the first copy; stream 1 is the teacher's */
#define VISITED_MAX    8192u   /* states of the copies that are taught: the latest */
#define REPLAY_MAX     100000u /* steps that an off-policy learner keeps */
#define ROLLOUTS_MIN   2u      /* of a round, for PPO */
#define ROLLOUT_MAX    512u    /* steps of one */
#define WARMUP_SHARE   16u     /* one in so many steps of a round is taken at random first */

/* --- the learner ------------------------------------------------------------------------------ */

/* Laid over the learner's own defaults. Rewards are of the size of lambda and states of different
 * spread, so both are scaled. PPO looks ahead as little as `gamma` does, and begins to act near its
 * mean; the others make one update for five steps, which is as long a round as PPO's. Found on one
 * application, docs/mechanisms/learning.md. */
static const char *const ppo_pairs[] = {"normalise_obs=true", "scale_reward=true", "minibatches=8",
                                        "gae_lambda=0.8",     "log_std_init=-0.5", NULL};
static const char *const dpg_pairs[] = {"normalise_obs=true", "update_every=5", NULL};

static enum aw_err set(const struct aw_agent_factory *factory, void *settings, const char *key,
                       double value, struct aw_diag *diag)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", value);
    return aw_conf_set(factory->fields, settings, key, text, diag);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static enum aw_err settings_fill(const struct aw_learner_settings *set_,
                                 const struct aw_agent_factory *factory, void *settings,
                                 struct aw_diag *diag)
{
    const bool ppo = set_->method == AW_LEARNER_PPO;
    const uint32_t steps = set_->copy_steps;
    char hidden[32];
    snprintf(hidden, sizeof hidden, "%u,%u", set_->hidden, set_->hidden);
    enum aw_err err = aw_agent_settings(factory, NULL, settings, diag);
    for (const char *const *pair = ppo ? ppo_pairs : dpg_pairs; !err && *pair; pair++)
        err = aw_conf_set_pair(factory->fields, settings, *pair, diag);
    err = err ? err : aw_conf_set(factory->fields, settings, "hidden", hidden, diag);
    err = err ? err : set(factory, settings, "gamma", set_->gamma, diag);
    const struct {
        const char *key;
        double value;
    } on_policy[] = {{"lr", set_->learning_rate},
                     {"total_steps", steps},
                     {"rollout_steps", least(ROLLOUT_MAX, steps / ROLLOUTS_MIN)}},
      off_policy[] = {{"actor_lr", set_->learning_rate},
                      {"critic_lr", set_->learning_rate},
                      {"batch", set_->batch},
                      {"reward_scale", 1 - set_->gamma},
                      {"replay_capacity", least(REPLAY_MAX, steps)},
                      {"warmup_steps", steps / WARMUP_SHARE}};
    for (size_t i = 0; !err && ppo && i < sizeof on_policy / sizeof *on_policy; i++)
        err = set(factory, settings, on_policy[i].key, on_policy[i].value, diag);
    for (size_t i = 0; !err && !ppo && i < sizeof off_policy / sizeof *off_policy; i++)
        err = set(factory, settings, off_policy[i].key, off_policy[i].value, diag);
    return err;
}

static enum aw_err make(const struct aw_learner *learner, uint32_t copies, uint64_t seed,
                        struct aw_agent *ret_agent, struct aw_diag *diag)
{
    const struct aw_agent_factory *factory = NULL;
    _Alignas(16) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    enum aw_err err =
        aw_agent_factory_find(aw_learner_method_names[learner->settings.method], &factory, diag);
    err = err ? err : settings_fill(&learner->settings, factory, settings, diag);
    if (err)
        return err;
    const struct aw_agent_shape shape = {.env_count = copies,
                                         .obs_dim = learner->shape.obs_dim,
                                         .action = AW_AGENT_CONTINUOUS,
                                         .act_dim = learner->shape.act_dim,
                                         .act_low = learner->low,
                                         .act_high = learner->high};
    return factory->make(&shape, settings, seed, learner->alloc, ret_agent, diag);
}

/* --- the copies ------------------------------------------------------------------------------- */

/* Copies in lockstep, and the states they came through. */
struct lockstep {
    struct aw_env env[AW_LEARNER_COPIES];
    struct aw_rng episodes[AW_LEARNER_COPIES]; /* seeds of them */
    uint32_t copies;
    uint32_t obs_dim, act_dim;
    float obs[AW_LEARNER_COPIES * AW_STATE_DIM_MAX];      /* [copies][obs_dim] */
    float next_obs[AW_LEARNER_COPIES * AW_STATE_DIM_MAX]; /* likewise */
    float action[AW_LEARNER_COPIES * AW_ACTION_MAX];      /* [copies][act_dim] */
    float reward[AW_LEARNER_COPIES];
    bool terminated[AW_LEARNER_COPIES], truncated[AW_LEARNER_COPIES];

    float *visited; /* [visited_max][obs_dim], a ring, and room for the record behind it */
    float *taught;  /* [visited_max + record][act_dim] */
    uint32_t visited_max, visited_count;
};

static void lockstep_end(struct lockstep *lockstep, const struct aw_alloc *alloc)
{
    for (uint32_t i = 0; i < lockstep->copies; i++)
        aw_env_free(&lockstep->env[i]);
    aw_alloc_free(alloc, lockstep->visited);
    aw_alloc_free(alloc, lockstep->taught);
}

/* A copy that cannot be believed is left out; without any there is nothing to learn on. */
static enum aw_err lockstep_begin(struct lockstep *lockstep, const struct aw_learner *learner,
                                  const struct aw_copyenv_config *copy, uint64_t seed,
                                  struct aw_diag *diag)
{
    enum aw_err err = AW_ERR_NODATA;
    for (uint32_t i = 0; i < AW_LEARNER_COPIES; i++) {
        struct aw_copyenv_config config = *copy;
        config.seed = i ? seed + i : 0; /* the first believes the record as it is */
        err = aw_copyenv_make(&config, learner->alloc, &lockstep->env[lockstep->copies], diag);
        if (err && err != AW_ERR_NODATA)
            return err;
        if (!err)
            aw_rng_init(&lockstep->episodes[lockstep->copies++], seed, EPISODE_STREAM + i);
    }
    if (lockstep->copies == 0)
        return err;
    const struct aw_env_spec *spec = lockstep->env[0].spec;
    AW_ASSERT(spec->observation.dim == learner->shape.obs_dim);
    AW_ASSERT(spec->action.dim == learner->shape.act_dim);
    lockstep->obs_dim = spec->observation.dim;
    lockstep->act_dim = spec->action.dim;
    const uint32_t steps = learner->settings.copy_steps;
    lockstep->visited_max = least(VISITED_MAX, steps);
    const size_t rows = lockstep->visited_max + learner->begin[learner->episodes];
    lockstep->visited = aw_alloc_new(learner->alloc, rows * lockstep->obs_dim, sizeof(float));
    lockstep->taught = aw_alloc_new(learner->alloc, rows * lockstep->act_dim, sizeof(float));
    if (!lockstep->visited || !lockstep->taught)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a round on copies");
    err = AW_OK;
    for (uint32_t i = 0; !err && i < lockstep->copies; i++)
        err = lockstep->env[i].ops->reset(lockstep->env[i].self, aw_rng_u64(&lockstep->episodes[i]),
                                          lockstep->obs + (size_t)i * lockstep->obs_dim);
    return err;
}

/* One step of every copy, remembered. `next_obs` is what it showed; `obs` what is to be answered
 * next, which after an end is another episode's. */
static enum aw_err turn(struct lockstep *lockstep, const struct aw_agent *agent,
                        struct aw_learn_stats *stats)
{
    const size_t S = lockstep->obs_dim, A = lockstep->act_dim;
    enum aw_err err =
        agent->ops->act(agent->self, lockstep->obs, lockstep->copies, true, lockstep->action);
    for (uint32_t i = 0; !err && i < lockstep->copies; i++) {
        struct aw_step step;
        memcpy(lockstep->visited + lockstep->visited_count++ % lockstep->visited_max * S,
               lockstep->obs + i * S, S * sizeof(float));
        err = lockstep->env[i].ops->step(lockstep->env[i].self, lockstep->action + i * A,
                                         lockstep->next_obs + i * S, &step);
        if (err)
            return err;
        lockstep->reward[i] = step.reward;
        lockstep->terminated[i] = step.terminated;
        lockstep->truncated[i] = step.truncated;
    }
    if (err)
        return err;
    struct aw_learn_stats made = {0};
    err = agent->ops->observe(agent->self, &(struct aw_transition){
                                               .obs = lockstep->obs,
                                               .action = lockstep->action,
                                               .reward = lockstep->reward,
                                               .next_obs = lockstep->next_obs,
                                               .terminated = lockstep->terminated,
                                               .truncated = lockstep->truncated,
                                           });
    err = err ? err : agent->ops->learn(agent->self, &made);
    if (!err && made.update_count)
        *stats = made;
    memcpy(lockstep->obs, lockstep->next_obs, lockstep->copies * S * sizeof(float));
    for (uint32_t i = 0; !err && i < lockstep->copies; i++)
        if (lockstep->terminated[i] || lockstep->truncated[i])
            err = lockstep->env[i].ops->reset(
                lockstep->env[i].self, aw_rng_u64(&lockstep->episodes[i]), lockstep->obs + i * S);
    return err;
}

static enum aw_err attend(struct lockstep *lockstep, const struct aw_agent *agent, uint32_t steps,
                          struct aw_learner_stats *told)
{
    struct aw_learn_stats stats = {0};
    double first = 0, last = 0;
    uint32_t first_count = 0, last_count = 0;
    for (uint32_t t = 0; t < steps; t += lockstep->copies) {
        const enum aw_err err = turn(lockstep, agent, &stats);
        if (err)
            return err;
        for (uint32_t i = 0; i < lockstep->copies; i++) {
            if (t < steps / 4) {
                first += (double)lockstep->reward[i];
                first_count++;
            } else if (t >= steps - steps / 4) {
                last += (double)lockstep->reward[i];
                last_count++;
            }
        }
    }
    told->copy_first = first_count ? first / first_count : NAN;
    told->copy_last = last_count ? last / last_count : NAN;
    told->critic_loss =
        aw__learner_stat(&stats, "critic_loss", aw__learner_stat(&stats, "value_loss", 0));
    return AW_OK;
}

/* --- a round ---------------------------------------------------------------------------------- */

enum aw_err aw_learner_round_on_copies(struct aw_learner *learner,
                                       const struct aw_copyenv_config *copy, uint64_t seed,
                                       struct aw_actnet *actor, struct aw_learner_stats *ret_stats,
                                       struct aw_diag *diag)
{
    AW_ASSERT(learner->settings.method != AW_LEARNER_BCQ);
    enum aw_err err = aw__learner_enough(learner, diag);
    if (err)
        return err;
    const uint32_t recorded = learner->begin[learner->episodes];
    struct lockstep lockstep = {0};
    struct aw_agent agent = {0};
    struct aw_learner_stats told = {.steps = recorded, .episodes = learner->episodes};
    err = lockstep_begin(&lockstep, learner, copy, seed, diag);
    err = err ? err : make(learner, lockstep.copies, seed, &agent, diag);
    err = err ? err : attend(&lockstep, &agent, learner->settings.copy_steps, &told);
    if (err)
        goto out;
    told.copies = lockstep.copies;
    const uint32_t visited = least(lockstep.visited_max, lockstep.visited_count);
    memcpy(lockstep.visited + (size_t)visited * lockstep.obs_dim, learner->obs,
           (size_t)recorded * lockstep.obs_dim * sizeof(float));
    err = aw__learner_teach(learner, &agent, lockstep.visited, lockstep.taught, visited + recorded,
                            seed, actor, &told.imitation);
    if (!err && ret_stats)
        *ret_stats = told;
out:
    if (err && diag && !diag->text[0])
        aw_fail(diag, err, "a round of learning on copies failed");
    aw_agent_free(&agent);
    lockstep_end(&lockstep, learner->alloc);
    return err;
}
