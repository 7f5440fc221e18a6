/*
 * dynamics.h - a learned model of the world behind a record: (s, a) -> change of s, and reward,
 * each a Gaussian; one member of an ensemble at a time.
 *
 * Trained by maximum likelihood on a resample of the episodes; the episodes that the resample left
 * out decide when to stop. Played from recorded beginnings under another policy, with the noise
 * that the record itself had: z_t = (what happened - mean) / deviation at the recorded step, and
 * then mean + deviation * z_t at the step being imagined (abduction, action, prediction: Pearl,
 * 2009, chapter 7; Buesing et al., 2019). Played with the recorded actions it gives back the record
 * to the last digit, so what it says of another policy is a difference to what happened, under the
 * same load and the same luck.
 *
 * Call order: init; then train and play for each member; deinit.
 * Memory:     all at init. Threads: single owner.
 *
 * The trap: it knows no end of an episode. Records that terminate are not for it.
 */
#ifndef AW_RL_DYNAMICS_H
#define AW_RL_DYNAMICS_H

#include "nn/mlp.h"
#include "rl/prepared.h"

#define AW__DYNAMICS_PLAYS_MAX 1024u /* episodes played in lockstep */

struct aw__dynamics_config {
    uint32_t hidden; /* units of each of two layers */
    uint32_t batch;
    uint32_t updates; /* at most */
    double lr;
    uint32_t plays_max; /* episodes played in lockstep, at most */
};

enum aw__dynamics_noise {
    AW__DYNAMICS_RECORDED, /* the noise that the record had */
    AW__DYNAMICS_SAMPLED,  /* new noise */
};

struct aw__dynamics {
    struct aw__dynamics_config config;
    uint32_t S, A, D; /* D = S + 1: changes of the state, and the reward */
    struct aw_params params;
    struct aw_mlp net; /* [S + A] -> [mean D | log_std D] */
    struct aw_mlp_cache cache;
    uint32_t rows_max;
    float *best;         /* [params.count]: lowest loss on hold-out */
    float *change_scale; /* [S] of one step's change */
    float *x;            /* [rows_max][S + A] */
    float *y;            /* [rows_max][D] */
    float *dout;         /* [batch][2 D] */
    float *hold_x;       /* hold-out, likewise */
    float *hold_y;
    float *sa;   /* [plays_max][S + A]: where each play stands */
    float *past; /* [plays_max][2 D]: what was expected at the recorded step */
    const struct aw_alloc *alloc;
    void *block;
};

/* On failure `dynamics` is left zeroed. */
AW_NODISCARD enum aw_err aw__dynamics_init(struct aw__dynamics *dynamics, uint32_t S, uint32_t A,
                                           const struct aw__dynamics_config *config,
                                           const struct aw_alloc *alloc);
void aw__dynamics_deinit(struct aw__dynamics *dynamics); /* a zeroed one is a no-op */

/* Fits one member, from the beginning (aw__resample gives `slot` and `left_out`). `ret_fit` (may be
 * NULL): share of the reward's variance on hold-out that is explained; below 0: worse than the
 * mean. AW_ERR_DIVERGED: nothing finite was found. */
AW_NODISCARD enum aw_err aw__dynamics_train(struct aw__dynamics *dynamics,
                                            const struct aw__prepared *prepared,
                                            const uint32_t *slot, const bool *left_out,
                                            struct aw_rng *rng, double *ret_fit);

/* Plays `count` recorded episodes under `policy`. `ret_gain` [count]: return beyond the recorded
 * one, in units of reward, undiscounted. Episodes have their recorded lengths. `rng` is drawn from
 * with sampled noise alone. */
AW_NODISCARD enum aw_err
aw__dynamics_play(struct aw__dynamics *dynamics, struct aw__prepared *prepared,
                  const struct aw_logged_policy *policy, const uint32_t *episode, uint32_t count,
                  enum aw__dynamics_noise noise, struct aw_rng *rng, double *ret_gain);

/* Mean over B D elements of -log N(y; mean, exp(log_std)) without its constant; out [B][2 D] holds
 * means, then log_std, cut to AW__LOG_STD_MIN .. AW__LOG_STD_MAX (there its gradient is 0). Writes
 * dout [B][2 D] unless NULL. */
#define AW__LOG_STD_MIN (-4.0f)
#define AW__LOG_STD_MAX 2.0f
double aw__gaussian_nll(const float *out, const float *y, uint32_t B, uint32_t D, float *dout);

#endif
