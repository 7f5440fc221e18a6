/*
 * actnet.h - a policy ready to serve: a small network, how to scale what it sees, and nothing else.
 *
 * Learners carry replay, critics and moments; what acts in production needs none of that. An actor
 * is what is left: action = clip(base + reach * tanh(net((obs - mean) * scale)), -1, 1). With
 * `base` and a small `reach` it is a known good action and a bounded departure from it; with base 0
 * and reach 1 it is the actor of DDPG and TD3.
 *
 * Call order: init, then fit or set the parts by hand, seal; act as often as wanted; deinit.
 * Memory:     one block, sized at init. act never allocates; fit allocates its scratch and frees
 * it. Threads:    act only reads. fit and set have one owner.
 *
 * `id` names the content: two actors that would act alike have the same id, and any change another.
 * It is 0 until the first seal, which stands for "no policy".
 */
#ifndef AW_RL_ACTNET_H
#define AW_RL_ACTNET_H

#include "base/alloc.h"
#include "base/rng.h"
#include "nn/mlp.h"

#define AW_ACTNET_OBS_MAX    1024u
#define AW_ACTNET_ACT_MAX    16u
#define AW_ACTNET_HIDDEN_MAX 1024u

struct aw_actnet_shape {
    uint32_t obs_dim, act_dim;
    uint32_t hidden; /* units of each of two layers */
};

struct aw_actnet {
    struct aw_actnet_shape shape;
    struct aw_mlp net; /* no output activation */
    size_t count;      /* floats of theta */
    float *theta;      /* laid out as any aw_mlp of these widths */
    float *mean;       /* [obs_dim] */
    float *scale;      /* [obs_dim]; 1 over a deviation */
    float *base;       /* [act_dim] in [-1, 1] */
    float *reach;      /* [act_dim] in (0, 2] */
    uint64_t id;
    const struct aw_alloc *alloc;
    void *block;
    size_t block_bytes;
};

/* mean 0, scale 1, base 0, reach 1, weights 0: the action is `base`. On failure it is zeroed. */
AW_NODISCARD enum aw_err aw_actnet_init(struct aw_actnet *actor,
                                        const struct aw_actnet_shape *shape,
                                        const struct aw_alloc *alloc);
void aw_actnet_deinit(struct aw_actnet *actor); /* a zeroed one is a no-op */

/* One action. Finite in, finite out: AW_ERR_DIVERGED where an observation is not, and `action` is
 * untouched then. */
AW_NODISCARD enum aw_err aw_actnet_act(const struct aw_actnet *actor, const float *obs,
                                       float *action);

/* Copies everything, id included; both have one shape. */
void aw_actnet_copy(struct aw_actnet *to, const struct aw_actnet *from);
/* Gives the present content its id. AW_ERR_DIVERGED: a number is not finite or out of range; the id
 * is as it was. */
AW_NODISCARD enum aw_err aw_actnet_seal(struct aw_actnet *actor);

/* Fresh weights as a learner's actor begins with: the last layer within +-final_limit. */
void aw_actnet_init_weights(struct aw_actnet *actor, float final_limit, struct aw_rng *rng);
/* Observations of `count` rows as mean 0, deviation 1; an axis that hardly moves keeps scale 1. */
void aw_actnet_normalise(struct aw_actnet *actor, const float *obs, size_t count);

struct aw_actnet_fit {
    uint32_t updates;
    uint32_t batch;
    double lr;
};
/* Teaches the weights to give action[i] at obs[i] (mean square, Adam), from what they are now: how
 * a policy of another kind becomes an actor. `ret_loss` (may be NULL): mean square of the last
 * tenth. Seals. AW_ERR_DIVERGED: nothing changed. */
AW_NODISCARD enum aw_err aw_actnet_fit(struct aw_actnet *actor, const struct aw_actnet_fit *fit,
                                       const float *obs, const float *action, size_t count,
                                       struct aw_rng *rng, double *ret_loss);

/* The content as bytes of one length per shape; of this build alone. load refuses (AW_ERR_FORMAT)
 * what save did not write, and then nothing changed. */
size_t aw_actnet_state_bytes(const struct aw_actnet *actor);
void aw_actnet_state_save(const struct aw_actnet *actor, void *bytes);
AW_NODISCARD enum aw_err aw_actnet_state_load(struct aw_actnet *actor, const void *bytes);

#endif
