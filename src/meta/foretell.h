/*
 * foretell.h - an auxiliary loss for encoders of reinforcement tasks: what the embedding of a
 * workload says of the reward and the next state of steps that the encoder has not read.
 *
 * A small network predicts reward and change of state from [state, action, embedding]; the gradient
 * of its error goes to the encoder as feedback (aware/meta.h). So an encoder learns from the first
 * trajectory on, without waiting for a critic, and for any base learner: its embedding is appended
 * to the state of DQN (which both Q networks see), PPO (actor and critic), DDPG or TD3.
 *
 * Call order: new; learn for some workloads, then aw_meta_update; again; free.
 * Memory:     sized at new.
 * Threads:    single owner. Same seed and calls, same bytes.
 *
 * The trap: steps that the encoder has read tell it the answer. Hold back what is foretold.
 */
#ifndef AW_META_FORETELL_H
#define AW_META_FORETELL_H

#include <aware/meta.h>

/* Steps that were lived: [count] rows each. States are of about 1. */
struct aw_foretell_steps {
    const float *state, *action, *reward, *next;
    uint32_t count;
};

struct aw_foretell;
AW_NODISCARD enum aw_err aw_foretell_new(uint32_t state_dim, uint32_t action_dim,
                                         uint32_t embedding_dim, uint32_t rows_max, double rate,
                                         uint64_t seed, struct aw_foretell **ret,
                                         struct aw_diag *diag);
void aw_foretell_free(struct aw_foretell *foretell); /* NULL is a no-op */

/* One step of the network's weights, and feedback about the embedding of `workload`, times
 * `weight`. `ret_error` may be NULL: the mean square before. Fails as aw_meta_embedding and
 * aw_meta_feedback do. AW_ERR_RANGE: 0 rows, or more than rows_max. */
AW_NODISCARD enum aw_err aw_foretell_learn(struct aw_foretell *foretell, struct aw_meta *meta,
                                           uint32_t workload, const struct aw_foretell_steps *steps,
                                           double weight, double *ret_error);
/* The mean square of what is foretold with an embedding; learns nothing. */
double aw_foretell_error(struct aw_foretell *foretell, const float *embedding,
                         const struct aw_foretell_steps *steps);

#endif
