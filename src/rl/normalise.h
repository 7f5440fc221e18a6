/*
 * normalise.h - running mean and deviation of observations, and the running scale of rewards.
 *
 * Moments are kept in double and merged batch by batch (Chan, Golub and LeVeque, 1979), starting as
 * Gym's RunningMeanStd does: mean 0, variance 1, weight 1e-4. Applied:
 * y = clip((x - mean) / sqrt(variance + 1e-8), +-clip).
 *
 * Call order: init, then update and apply in any order, deinit. After a load: refresh.
 * Memory:     one block, sized at init. Nothing else allocates.
 * Threads:    single owner.
 *
 * The trap: statistics that go on moving while a policy is evaluated make two evaluations differ.
 * Evaluate without update, or set `frozen`.
 */
#ifndef AW_RL_NORMALISE_H
#define AW_RL_NORMALISE_H

#include "base/alloc.h"
#include "rl/persist.h"

#define AW_NORMALISE_CLIP 10.0f /* deviations; the "37 details" of PPO, detail 8 of continuous */

struct aw_normalise {
    uint32_t dim;
    float clip;
    bool frozen;          /* update does nothing; the caller may set it at any time */
    double *count;        /* [1] rows seen, plus 1e-4 */
    double *mean, *var;   /* [dim]; the variance of the population */
    float *shift, *scale; /* [dim]: mean and 1 / sqrt(var + 1e-8), derived */
    const struct aw_alloc *alloc;
    void *block;
};

AW_NODISCARD enum aw_err aw_normalise_init(struct aw_normalise *norm, uint32_t dim, float clip,
                                           const struct aw_alloc *alloc);
void aw_normalise_deinit(struct aw_normalise *norm); /* a zeroed one is a no-op */

/* Takes in `rows` rows of x [rows][dim], which the caller has found finite. */
void aw_normalise_update(struct aw_normalise *norm, const float *x, uint32_t rows);
/* y [rows][dim] may be x itself. */
void aw_normalise_apply(const struct aw_normalise *norm, const float *x, uint32_t rows, float *y);
/* Recomputes what is derived, after a load. */
void aw_normalise_refresh(struct aw_normalise *norm);
/* MODEL parts NAME.mean, NAME.var and NAME.count. */
void aw_normalise_persist(struct aw_normalise *norm, struct aw_persist *persist, const char *name);

/* Rewards divided by the running deviation of the discounted return, one return per environment
 * (Engstrom et al., 2020, appendix A.1, as gym's NormalizeReward). */
struct aw_reward_scale {
    uint32_t env_count;
    float gamma, clip;
    bool frozen;
    double *ret; /* [env_count] discounted return of the running episode */
    struct aw_normalise moments;
};

AW_NODISCARD enum aw_err aw_reward_scale_init(struct aw_reward_scale *scale, uint32_t env_count,
                                              float gamma, float clip,
                                              const struct aw_alloc *alloc);
void aw_reward_scale_deinit(struct aw_reward_scale *scale);
/* Takes in one reward per environment and writes the scaled ones (`scaled` may be `reward`); a
 * return starts anew after a step that ended its episode (either way). */
void aw_reward_scale_apply(struct aw_reward_scale *scale, const float *reward,
                           const bool *terminated, const bool *truncated, float *scaled);
/* STATE parts NAME.return, NAME.mean, NAME.var, NAME.count. After a load: refresh. */
void aw_reward_scale_persist(struct aw_reward_scale *scale, struct aw_persist *persist,
                             const char *name);
void aw_reward_scale_refresh(struct aw_reward_scale *scale);

#endif
