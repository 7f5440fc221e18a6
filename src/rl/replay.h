/*
 * replay.h - fixed-capacity ring of transitions for the off-policy learners.
 *
 * Call order: init, then push and sample in any order, then deinit.
 * Memory:     one block, sized at init. push and sample never allocate.
 * Threads:    single owner.
 *
 * A transition is one row [obs | action | reward | terminal | next_obs], so that sampling touches
 * one stretch of memory per transition and hands out contiguous arrays.
 *
 * An episode cut by its time limit is pushed with terminal = false and with the observation seen
 * before the environment was reset. Bootstrapping from the observation after the reset learns a
 * value that belongs to another episode.
 */
#ifndef AW_RL_REPLAY_H
#define AW_RL_REPLAY_H

#include "base/alloc.h"
#include "base/rng.h"
#include "rl/persist.h"

#define AW_REPLAY_CAPACITY_MAX 10000000u /* transitions */
#define AW_REPLAY_BATCH_MAX    4096u     /* transitions of one sample */
#define AW_REPLAY_DIM_MAX      4096u     /* elements of an observation or an action */

struct aw_replay_config {
    uint32_t capacity; /* transitions kept; the oldest is overwritten */
    uint32_t obs_dim;
    uint32_t act_dim;
};

struct aw_replay {
    struct aw_replay_config config;
    uint32_t row_floats;
    uint32_t count;  /* transitions held */
    uint64_t cursor; /* row that the next push writes */
    float *rows;     /* [capacity][row_floats] */
    const struct aw_alloc *alloc;
};

/* Where a sample goes, row by row; NULL: not wanted. */
struct aw_replay_batch {
    float *obs;      /* [B][obs_dim] */
    float *obs_act;  /* [B][obs_dim + act_dim]: a critic's input */
    float *act;      /* [B][act_dim] */
    float *reward;   /* [B] */
    float *terminal; /* [B]: 1 where the episode terminated, else 0 */
    float *next_obs; /* [B][obs_dim] */
};

/* On failure `replay` is left zeroed, and deinit of it is a no-op. AW_ERR_LIMIT: a size is 0 or
 * beyond its maximum. */
AW_NODISCARD enum aw_err aw_replay_init(struct aw_replay *replay,
                                        const struct aw_replay_config *config,
                                        const struct aw_alloc *alloc);
void aw_replay_deinit(struct aw_replay *replay);

/* Copies its inputs. A non-finite number is refused: AW_ERR_DIVERGED, nothing stored. */
AW_NODISCARD enum aw_err aw_replay_push(struct aw_replay *replay, const float *obs,
                                        const float *act, float reward, const float *next_obs,
                                        bool terminal);

/* B transitions drawn uniformly with replacement. Sampling an empty ring is a bug. */
void aw_replay_sample(const struct aw_replay *replay, struct aw_rng *rng, uint32_t B,
                      const struct aw_replay_batch *batch);

/* STATE parts NAME.rows and NAME.cursor. */
void aw_replay_persist(struct aw_replay *replay, struct aw_persist *persist, const char *name);
/* For an aw_persist_valid: the cursor found fits the rows found. */
AW_NODISCARD enum aw_err aw_replay_persist_valid(const struct aw_replay *replay,
                                                 const struct aw_persist_found *found,
                                                 const char *name, struct aw_diag *diag);

#endif
