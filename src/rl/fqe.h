/*
 * fqe.h - fitted Q evaluation (Le, Voloshin and Yue, 2019) of a policy on a fixed record: one
 * member of an ensemble at a time.
 *
 * y = (1 - gamma) r + gamma (1 - terminated) Q'(s', policy(s')), with a target network Q' that
 * follows by tau. The factor keeps values of the size of a reward.
 *
 * Call order: init; then train and advantage for each member; deinit.
 * Memory:     all at init. Threads: single owner.
 */
#ifndef AW_RL_FQE_H
#define AW_RL_FQE_H

#include "nn/mlp.h"
#include "rl/prepared.h"

struct aw__fqe_config {
    uint32_t hidden; /* units of each of two layers */
    uint32_t batch;
    uint32_t updates;
    double gamma, tau, lr;
};

struct aw__fqe {
    struct aw__fqe_config config;
    uint32_t S, A;
    struct aw_params params;
    struct aw_mlp q;
    struct aw_mlp_cache cache;
    float *target;    /* [params.count] */
    float *x, *next;  /* [batch][S + A] */
    float *y, *alive; /* [batch] */
    float *dq;
    uint32_t rows_max; /* of one forward */
    const struct aw_alloc *alloc;
    void *block;
};

/* On failure `fqe` is left zeroed. */
AW_NODISCARD enum aw_err aw__fqe_init(struct aw__fqe *fqe, uint32_t S, uint32_t A,
                                      const struct aw__fqe_config *config,
                                      const struct aw_alloc *alloc);
void aw__fqe_deinit(struct aw__fqe *fqe); /* a zeroed one is a no-op */

/* Fits one member, from the beginning, to the episodes of `slot` [episodes] (aw__resample).
 * AW_ERR_DIVERGED: the loss or a weight is not finite any more. */
AW_NODISCARD enum aw_err aw__fqe_train(struct aw__fqe *fqe, const struct aw__prepared *prepared,
                                       const uint32_t *slot, struct aw_rng *rng);

/* V(s) - Q(s, a) of each recorded step, undiscounted units of reward: [steps]. */
void aw__fqe_advantage(struct aw__fqe *fqe, const struct aw__prepared *prepared, float *out);

#endif
