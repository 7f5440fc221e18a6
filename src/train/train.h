/*
 * train.h - the loop in which a learner and an environment meet: train, evaluate, resume.
 *
 * Call order: new (or resume), then step in slices until done, evaluate and save in between, free.
 * Memory:     sized at new; step and evaluate do not allocate. save and resume do, while they run.
 * Threads:    single owner; the environments may step on a pool of the loop's own.
 *
 * A run directory holds run.json (what was asked, so that eval and resume need only the directory),
 * model.safetensors and state.safetensors (the learner's), and loop.state (environments in
 * mid-episode and counters, with the checksums of the other two). A run that was saved, ended and
 * resumed gives the same bytes as one that was not.
 *
 * A save first writes all files into DIR/checkpoint.tmp and then moves them up; loop.state is
 * written last and moved last. A crash at any point leaves either the old checkpoint or the new
 * one: resume finishes a move that was begun, and drops a checkpoint that was not complete.
 *
 * A run may begin with the agent that the environment brings along (aw_env_fallback): it acts for
 * bootstrap_episodes, while the learner takes in every step and makes its updates from them, which
 * is offline learning; then the learner acts, and goes on learning from what it does itself.
 *
 * A learner's setting `total_steps` that is 0 is given the run's steps, for what anneals over a
 * run.
 *
 * The trap: every call of `step` advances all environments at once, so a run ends at the first
 * multiple of env_count that reaches `steps`.
 */
#ifndef AW_TRAIN_TRAIN_H
#define AW_TRAIN_TRAIN_H

#include <aware/agent.h>
#include <aware/env.h>

#include "base/stats.h"
#include "rl/agents.h"

#define AW_TRAIN_STEPS_MAX         1000000000u /* environment steps of one run */
#define AW_TRAIN_ENVS_MAX          1024u       /* environments in lockstep */
#define AW_TRAIN_BOOTSTRAP_MAX     1000000u    /* episodes of the environment's own agent */
#define AW_TRAIN_SEED_MAX          INT64_MAX   /* what run.json can hold */
#define AW_TRAIN_EVAL_EPISODES_MAX 1000000u    /* of one evaluation */
#define AW_TRAIN_EVAL_STEPS_MAX    1000000u    /* of one episode of an evaluation */

struct aw_train_config {
    char env[AW_ENV_ADDRESS_MAX]; /* a name, or where it is served */
    char agent[AW_ENV_NAME_MAX];
    char preset[AW_ENV_NAME_MAX]; /* what the settings started from, for the record; "": none */
    uint64_t steps;               /* environment steps in all, over all environments */
    uint64_t seed;
    uint32_t env_count;          /* environments in lockstep */
    uint32_t thread_count;       /* that step them; 0 and 1: the caller alone. Changes no bytes */
    uint32_t bootstrap_episodes; /* in which the environment's own agent acts first; 0: none */
    _Alignas(16) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX]; /* after every --set */
    /* Options of the environment, as aw_env_settings makes them; has_env_settings false: defaults.
     */
    bool has_env_settings;
    _Alignas(16) unsigned char env_settings[AW_ENV_SETTINGS_BYTES_MAX];
};

/* Fills `settings` with the learner's defaults and a preset. `preset` NULL or "": the preset named
 * like the environment, if the learner has one; "none": no preset. `ret_preset` gets the name of
 * what was laid over the defaults, "" for nothing, and lives as long as the factory. */
AW_NODISCARD enum aw_err aw_train_settings(const struct aw_agent_factory *factory, const char *env,
                                           const char *preset, void *settings,
                                           const char **ret_preset, struct aw_diag *diag);

/* Where a run stands; what a progress line shows. */
struct aw_train_progress {
    uint64_t step;               /* environment steps done */
    uint64_t update_count;       /* gradient updates done */
    uint64_t episode_count;      /* episodes finished */
    double return_mean;          /* over the last AW_TRAIN_RECENT episodes; NAN before the first */
    double length_mean;          /* steps of those episodes */
    uint64_t bootstrap_count;    /* episodes that the environment's own agent finished */
    double bootstrap_return;     /* the mean of those; NAN before the first */
    struct aw_learn_stats learn; /* of the last learn that made updates */
};
#define AW_TRAIN_RECENT 100u

/* One finished episode, handed to the callback as it ends. */
struct aw_train_episode {
    uint64_t step; /* environment steps done when it ended */
    double episode_return;
    uint32_t length;
};

struct aw_train; /* opaque */

/* Makes environments and learner. A learner that cannot take the environment's actions is
 * AW_ERR_UNSUPPORTED with a diagnostic that names those that can; so is bootstrapping where the
 * environment has no agent of its own, or the learner learns from its own actions alone. */
AW_NODISCARD enum aw_err aw_train_new(const struct aw_train_config *config,
                                      const struct aw_alloc *alloc, struct aw_train **ret_train,
                                      struct aw_diag *diag);
/* Reads a run directory and continues it exactly. `steps` > 0 replaces the run's own total.
 * AW_ERR_RANGE: the run has done more than that already. AW_ERR_NOTFOUND: no run there.
 * AW_ERR_FORMAT: truncated, foreign or mixed files, with the name of the one that is wrong. */
AW_NODISCARD enum aw_err aw_train_resume(const char *dir, uint64_t steps,
                                         const struct aw_alloc *alloc, struct aw_train **ret_train,
                                         struct aw_diag *diag);
void aw_train_free(struct aw_train *train); /* NULL is a no-op */

const struct aw_train_config *aw_train_config(const struct aw_train *train);
const struct aw_train_progress *aw_train_progress(const struct aw_train *train);
bool aw_train_done(const struct aw_train *train);
/* The returns of the last episodes, oldest first: at most AW_TRAIN_RECENT. Returns how many. */
uint32_t aw_train_recent(const struct aw_train *train, double *ret_returns);

/* Runs up to `steps` more environment steps, calling `episode` (may be NULL) as episodes end. */
AW_NODISCARD enum aw_err aw_train_step(struct aw_train *train, uint64_t steps,
                                       void (*episode)(void *ctx, const struct aw_train_episode *),
                                       void *ctx, struct aw_diag *diag);

/* Deterministic episodes on fresh environments; episode i begins from (seed, i) whatever `count`
 * is. The run is not disturbed. Writes `count` returns, in order. AW_ERR_LIMIT: an episode did not
 * end within AW_TRAIN_EVAL_STEPS_MAX steps. On failure some of `ret_returns` are not written. */
AW_NODISCARD enum aw_err aw_train_evaluate(struct aw_train *train, uint32_t count, uint64_t seed,
                                           double *ret_returns, struct aw_diag *diag);

/* Writes the run directory (made if missing). Without `resumable` only what acting needs. On
 * failure an earlier checkpoint in it is still whole. */
AW_NODISCARD enum aw_err aw_train_save(struct aw_train *train, const char *dir, bool resumable,
                                       struct aw_diag *diag);
/* What the policy does in one state, without exploring. AW_ERR_CONFIG: it was made for other sizes,
 * or for a choice among few. On failure `ret_action` is untouched or partly written. */
AW_NODISCARD enum aw_err aw_train_act(struct aw_train *train, const float *obs, uint32_t obs_dim,
                                      float *ret_action, uint32_t act_dim, struct aw_diag *diag);

/* A run directory for evaluation only: networks and normalisers, no replay. */
AW_NODISCARD enum aw_err aw_train_open(const char *dir, const struct aw_alloc *alloc,
                                       struct aw_train **ret_train, struct aw_diag *diag);

#endif
