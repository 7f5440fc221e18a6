/*
 * qnet.h - the value network Q(s, a) of the continuous learners, one number per row.
 *
 * The action joins the state at the input ([s | a], as TD3 and BCQ have it) or at the second layer
 * (as Lillicrap et al., 2016, section 7, and FIRM have it). Names: PREFIX.0.weight ... for the
 * first, PREFIX.state.0.weight and PREFIX.head.0.weight ... for the second.
 *
 * Call order: declare (before aw_params_alloc), init, forward; backward right after its forward.
 * Memory:     a cache is sized at init for a largest batch. Nothing else allocates.
 * Threads:    a network is read-only after declare; a cache has one owner.
 */
#ifndef AW_RL_QNET_H
#define AW_RL_QNET_H

#include "base/conf.h"
#include "nn/mlp.h"

struct aw_qnet {
    uint32_t S, A;       /* elements of a state and of an action */
    bool late;           /* the action joins at the second layer */
    struct aw_mlp state; /* late: S -> first hidden layer */
    struct aw_mlp head;  /* early: S + A -> 1; late: first hidden + A -> 1 */
};

struct aw_qnet_cache {
    struct aw_mlp_cache state, head;
    float *joined; /* late: [batch_max][first hidden + A] */
    float *dx;     /* [batch_max][inputs of the head] */
    float *dstate; /* late: [batch_max][first hidden] */
    const struct aw_alloc *alloc;
    void *block;
};

void aw__qnet_declare(struct aw_qnet *net, struct aw_params *params, const char *prefix, uint32_t S,
                      uint32_t A, const struct aw_conf_u32_list *hidden, bool late);
/* PyTorch's default everywhere, the last layer U(+-final_limit) when that is > 0. */
void aw__qnet_init(const struct aw_qnet *net, float *theta, float final_limit, struct aw_rng *rng);

AW_NODISCARD enum aw_err aw__qnet_cache_init(struct aw_qnet_cache *cache, const struct aw_qnet *net,
                                             uint32_t batch_max, const struct aw_alloc *alloc);
void aw__qnet_cache_deinit(struct aw_qnet_cache *cache);

/* s [B][S] and sa [B][S + A], whose rows begin with those of s. Returns q [B], which lives in the
 * cache until its next forward. */
const float *aw__qnet_forward(const struct aw_qnet *net, const float *theta, const float *s,
                              const float *sa, uint32_t B, struct aw_qnet_cache *cache);

/* Given dq [B]: adds to `grad` (NULL: not wanted) and writes da [B][A] (NULL: not wanted). */
void aw__qnet_backward(const struct aw_qnet *net, const float *theta, const float *s,
                       const float *sa, uint32_t B, struct aw_qnet_cache *cache, const float *dq,
                       float *grad, float *da);

/* Writes a [B][A] behind the states of sa [B][S + A]. */
void aw__join_actions(float *sa, const float *a, uint32_t B, uint32_t S, uint32_t A);
/* Writes rows [s | a] to sa [B][S + A]. */
void aw__join(float *sa, const float *s, const float *a, uint32_t B, uint32_t S, uint32_t A);

#endif
