/*
 * train.h - the loop in which a learner and an environment meet: train, evaluate, resume.
 *
 * Call order: init, then step in slices until done, evaluate and save in between, then deinit.
 * Memory:     sized at init; step and evaluate do not allocate.
 * Threads:    single owner; the environments may step on a thread pool.
 *
 * A run directory holds run.json (what was asked, so that eval and resume need only the directory),
 * model.safetensors, state.safetensors and loop.safetensors (environments, counters, generator).
 * A run that was saved, ended and resumed gives the same bytes as one that was not.
 */
#ifndef AW_CONTROL_TRAIN_H
#define AW_CONTROL_TRAIN_H

#include <aware/agent.h>
#include <aware/env.h>

#include "base/stats.h"
#include "rl/agents.h"

#define AW_TRAIN_STEPS_MAX 1000000000u /* environment steps of one run */

struct aw_train_config {
    char env[AW_ENV_NAME_MAX];
    char agent[AW_ENV_NAME_MAX];
    char preset[AW_ENV_NAME_MAX]; /* "": the learner's defaults for this environment */
    uint64_t steps;               /* environment steps in all, over all environments */
    uint64_t seed;
    unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX]; /* of the learner, after every --set */
    uint32_t env_count;                                  /* environments in lockstep */
};

/* Where a run stands; what a progress line shows. */
struct aw_train_progress {
    uint64_t step;               /* environment steps done */
    uint64_t update_count;       /* gradient updates done */
    uint64_t episode_count;      /* episodes finished */
    double return_mean;          /* over the last AW_TRAIN_RECENT episodes; NAN before the first */
    double length_mean;          /* steps of those episodes */
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
 * AW_ERR_UNSUPPORTED with a diagnostic that names those that can. */
AW_NODISCARD enum aw_err aw_train_new(const struct aw_train_config *config,
                                      const struct aw_alloc *alloc, struct aw_train **ret_train,
                                      struct aw_diag *diag);
/* Reads a run directory and continues it exactly. `steps` > 0 replaces the run's own total. */
AW_NODISCARD enum aw_err aw_train_resume(const char *dir, uint64_t steps,
                                         const struct aw_alloc *alloc, struct aw_train **ret_train,
                                         struct aw_diag *diag);
void aw_train_free(struct aw_train *train); /* NULL is a no-op */

const struct aw_train_config *aw_train_config(const struct aw_train *train);
const struct aw_train_progress *aw_train_progress(const struct aw_train *train);
bool aw_train_done(const struct aw_train *train);

/* Runs up to `steps` more environment steps, calling `episode` (may be NULL) as episodes end. */
AW_NODISCARD enum aw_err aw_train_step(struct aw_train *train, uint64_t steps,
                                       void (*episode)(void *ctx, const struct aw_train_episode *),
                                       void *ctx, struct aw_diag *diag);

/* Deterministic episodes on fresh environments seeded from `seed`; the run is not disturbed.
 * Writes `count` returns. */
AW_NODISCARD enum aw_err aw_train_evaluate(struct aw_train *train, uint32_t count, uint64_t seed,
                                           double *ret_returns, struct aw_diag *diag);

/* Writes the run directory (made if missing). Without `resumable` only what acting needs. */
AW_NODISCARD enum aw_err aw_train_save(struct aw_train *train, const char *dir, bool resumable,
                                       struct aw_diag *diag);
/* A run directory for evaluation only: networks and normalisers, no replay. */
AW_NODISCARD enum aw_err aw_train_open(const char *dir, const struct aw_alloc *alloc,
                                       struct aw_train **ret_train, struct aw_diag *diag);

#endif
