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
struct school {
    struct aw_env env[AW_LEARNER_COPIES];
    struct aw_rng episodes[AW_LEARNER_COPIES]; /* seeds of them */
    uint32_t copies;
    uint32_t obs_dim, act_dim;
    float obs[AW_LEARNER_COPIES * AW_STATE_DIM_MAX];      /* [copies][obs_dim] */
    float next_obs[AW_LEARNER_COPIES * AW_STATE_DIM_MAX]; /* likewise */
    float action[AW_LEARNER_COPIES * AW_ACTION_DIM];      /* [copies][act_dim] */
    float reward[AW_LEARNER_COPIES];
    bool terminated[AW_LEARNER_COPIES], truncated[AW_LEARNER_COPIES];

    float *visited; /* [visited_max][obs_dim], a ring, and room for the record behind it */
    float *taught;  /* [visited_max + record][act_dim] */
    uint32_t visited_max, visited_count;
};

static void school_end(struct school *school, const struct aw_alloc *alloc)
{
    for (uint32_t i = 0; i < school->copies; i++)
        aw_env_free(&school->env[i]);
    aw_alloc_free(alloc, school->visited);
    aw_alloc_free(alloc, school->taught);
}

/* A copy that cannot be believed is left out; without any there is nothing to learn on. */
static enum aw_err school_begin(struct school *school, const struct aw_learner *learner,
                                const struct aw_copyenv_config *copy, uint64_t seed,
                                struct aw_diag *diag)
{
    enum aw_err err = AW_ERR_NODATA;
    for (uint32_t i = 0; i < AW_LEARNER_COPIES; i++) {
        struct aw_copyenv_config config = *copy;
        config.seed = i ? seed + i : 0; /* the first believes the record as it is */
        err = aw_copyenv_make(&config, learner->alloc, &school->env[school->copies], diag);
        if (err && err != AW_ERR_NODATA)
            return err;
        if (!err)
            aw_rng_init(&school->episodes[school->copies++], seed, EPISODE_STREAM + i);
    }
    if (school->copies == 0)
        return err;
    const struct aw_env_spec *spec = school->env[0].spec;
    AW_ASSERT(spec->observation.dim == learner->shape.obs_dim);
    AW_ASSERT(spec->action.dim == learner->shape.act_dim);
    school->obs_dim = spec->observation.dim;
    school->act_dim = spec->action.dim;
    const uint32_t steps = learner->settings.copy_steps;
    school->visited_max = least(VISITED_MAX, steps);
    const size_t rows = school->visited_max + learner->begin[learner->episodes];
    school->visited = aw_alloc_new(learner->alloc, rows * school->obs_dim, sizeof(float));
    school->taught = aw_alloc_new(learner->alloc, rows * school->act_dim, sizeof(float));
    if (!school->visited || !school->taught)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a round on copies");
    err = AW_OK;
    for (uint32_t i = 0; !err && i < school->copies; i++)
        err = school->env[i].ops->reset(school->env[i].self, aw_rng_u64(&school->episodes[i]),
                                        school->obs + (size_t)i * school->obs_dim);
    return err;
}

/* One step of every copy, remembered. `next_obs` is what it showed; `obs` what is to be answered
 * next, which after an end is another episode's. */
static enum aw_err turn(struct school *school, const struct aw_agent *agent,
                        struct aw_learn_stats *stats)
{
    const size_t S = school->obs_dim, A = school->act_dim;
    enum aw_err err =
        agent->ops->act(agent->self, school->obs, school->copies, true, school->action);
    for (uint32_t i = 0; !err && i < school->copies; i++) {
        struct aw_step step;
        memcpy(school->visited + school->visited_count++ % school->visited_max * S,
               school->obs + i * S, S * sizeof(float));
        err = school->env[i].ops->step(school->env[i].self, school->action + i * A,
                                       school->next_obs + i * S, &step);
        if (err)
            return err;
        school->reward[i] = step.reward;
        school->terminated[i] = step.terminated;
        school->truncated[i] = step.truncated;
    }
    if (err)
        return err;
    struct aw_learn_stats made = {0};
    err = agent->ops->observe(agent->self, &(struct aw_transition){
                                               .obs = school->obs,
                                               .action = school->action,
                                               .reward = school->reward,
                                               .next_obs = school->next_obs,
                                               .terminated = school->terminated,
                                               .truncated = school->truncated,
                                           });
    err = err ? err : agent->ops->learn(agent->self, &made);
    if (!err && made.update_count)
        *stats = made;
    memcpy(school->obs, school->next_obs, school->copies * S * sizeof(float));
    for (uint32_t i = 0; !err && i < school->copies; i++)
        if (school->terminated[i] || school->truncated[i])
            err = school->env[i].ops->reset(school->env[i].self, aw_rng_u64(&school->episodes[i]),
                                            school->obs + i * S);
    return err;
}

static enum aw_err attend(struct school *school, const struct aw_agent *agent, uint32_t steps,
                          struct aw_learner_stats *told)
{
    struct aw_learn_stats stats = {0};
    double first = 0, last = 0;
    uint32_t first_count = 0, last_count = 0;
    for (uint32_t t = 0; t < steps; t += school->copies) {
        const enum aw_err err = turn(school, agent, &stats);
        if (err)
            return err;
        for (uint32_t i = 0; i < school->copies; i++) {
            if (t < steps / 4) {
                first += (double)school->reward[i];
                first_count++;
            } else if (t >= steps - steps / 4) {
                last += (double)school->reward[i];
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
    struct school school = {0};
    struct aw_agent agent = {0};
    struct aw_learner_stats told = {.steps = recorded, .episodes = learner->episodes};
    err = school_begin(&school, learner, copy, seed, diag);
    err = err ? err : make(learner, school.copies, seed, &agent, diag);
    err = err ? err : attend(&school, &agent, learner->settings.copy_steps, &told);
    if (err)
        goto out;
    told.copies = school.copies;
    const uint32_t visited = least(school.visited_max, school.visited_count);
    memcpy(school.visited + (size_t)visited * school.obs_dim, learner->obs,
           (size_t)recorded * school.obs_dim * sizeof(float));
    err = aw__learner_teach(learner, &agent, school.visited, school.taught, visited + recorded,
                            seed, actor, &told.imitation);
    if (!err && ret_stats)
        *ret_stats = told;
out:
    if (err && diag && !diag->text[0])
        aw_fail(diag, err, "a round of learning on copies failed");
    aw_agent_free(&agent);
    school_end(&school, learner->alloc);
    return err;
}
