/*
 * peers_model.h - networks of agents that learned together, one for each category of workloads.
 *
 * `aware pretrain multi` writes the file: for each category an actor, where its states lay, and
 * what share of steps it missed on applications that it had not learned from.
 *
 * A network is small and plain, so that a policy carries a copy of its category's in its state:
 * what was decided by it can be decided again, wherever the record is read.
 *
 * Call order: open, or fill in and prepare.
 * Memory:     plain structs.
 * Threads:    read-only once prepared.
 */
#ifndef AW_POLICY_PEERS_MODEL_H
#define AW_POLICY_PEERS_MODEL_H

#include <aware/err.h>

#include "base/alloc.h"
#include "policy/library.h"

#define AW_PEERS_STATE   12u /* numbers that an agent sees */
#define AW_PEERS_CHOICES 8u  /* factors on its rule's margin that it chooses from */
#define AW_PEERS_HIDDEN  16u /* units of each of two layers */
#define AW_PEERS_THETA                                          \
    (AW_PEERS_HIDDEN * (AW_PEERS_STATE + AW_PEERS_HIDDEN + 2) + \
     AW_PEERS_CHOICES * (AW_PEERS_HIDDEN + 1)) /* weights and biases */

/* What a workload is short of first. */
enum aw_peers_category { AW_PEERS_CPU, AW_PEERS_MEMORY, AW_PEERS_IO, AW_PEERS_CATEGORIES };
extern const char *const aw_peers_category_names[];

struct aw_peers_net {
    float theta[AW_PEERS_THETA]; /* layer by layer: weights [out][in], biases; ReLU between */
    float centre[AW_PEERS_STATE], spread[AW_PEERS_STATE]; /* of the states it has learned on */
};
/* Of each choice; more is likelier. */
void aw_peers_net_worth(const struct aw_peers_net *net, const float state[AW_PEERS_STATE],
                        float ret[AW_PEERS_CHOICES]);
/* Whether all of it is finite and in range. */
bool aw_peers_net_sound(const struct aw_peers_net *net);

struct aw_peers_model {
    struct aw_peers_net net[AW_PEERS_CATEGORIES];
    float missed[AW_PEERS_CATEGORIES]; /* share of steps, where it was checked */
    uint64_t checksum;                 /* 0: there is none */
};

/* Computes the checksum. AW_ERR_DIVERGED: a number is not finite or out of range. */
AW_NODISCARD enum aw_err aw_peers_model_prepare(struct aw_peers_model *model);

/* Replaces `path` atomically. */
AW_NODISCARD enum aw_err aw_peers_model_save(const struct aw_peers_model *model, const char *path,
                                             const struct aw_library_note *notes,
                                             uint32_t note_count, const struct aw_alloc *alloc,
                                             struct aw_diag *diag);
/* Prepared. AW_ERR_FORMAT: damaged, or not such a file. On failure `ret` is untouched. */
AW_NODISCARD enum aw_err aw_peers_model_open(const char *path, const struct aw_alloc *alloc,
                                             struct aw_peers_model *ret, struct aw_diag *diag);

#endif
