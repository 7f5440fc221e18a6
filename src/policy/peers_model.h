/*
 * peers_model.h - networks of agents that learned together, one for each category of workloads.
 *
 * `aware pretrain multi` writes the file: for each category an actor, where its states lay, and
 * what share of steps it missed on applications that it had not learned from.
 *
 * Call order: open, or init and fill in, then prepare; deinit.
 * Memory:     three actors of one block each.
 * Threads:    read-only once prepared: any number of policies act by one.
 */
#ifndef AW_POLICY_PEERS_MODEL_H
#define AW_POLICY_PEERS_MODEL_H

#include "base/alloc.h"
#include "policy/library.h"
#include "rl/actnet.h"

#define AW_PEERS_STATE   12u /* numbers that an agent sees */
#define AW_PEERS_CHOICES 8u  /* factors of square-root staffing that it chooses from */

/* What a workload is short of first. */
enum aw_peers_category { AW_PEERS_CPU, AW_PEERS_MEMORY, AW_PEERS_IO, AW_PEERS_CATEGORIES };
extern const char *const aw_peers_category_names[];

struct aw_peers_model {
    struct aw_actnet actor[AW_PEERS_CATEGORIES]; /* sees raw states: mean 0, scale 1 */
    float centre[AW_PEERS_CATEGORIES][AW_PEERS_STATE], spread[AW_PEERS_CATEGORIES][AW_PEERS_STATE];
    float missed[AW_PEERS_CATEGORIES]; /* share of steps, where it was checked */
    uint64_t checksum;
};

/* Weights 0, centre 0, spread 1. On failure zeroed. */
AW_NODISCARD enum aw_err aw_peers_model_init(struct aw_peers_model *model, uint32_t hidden,
                                             const struct aw_alloc *alloc);
void aw_peers_model_deinit(struct aw_peers_model *model); /* a zeroed one is a no-op */
/* Seals the actors and computes the checksum. AW_ERR_DIVERGED: a number is not finite. */
AW_NODISCARD enum aw_err aw_peers_model_prepare(struct aw_peers_model *model);

/* Replaces `path` atomically. */
AW_NODISCARD enum aw_err aw_peers_model_save(const struct aw_peers_model *model, const char *path,
                                             const struct aw_library_note *notes,
                                             uint32_t note_count, struct aw_diag *diag);
/* Prepared. AW_ERR_FORMAT: damaged, or not such a file. On failure `ret` is untouched. */
AW_NODISCARD enum aw_err aw_peers_model_open(const char *path, const struct aw_alloc *alloc,
                                             struct aw_peers_model *ret, struct aw_diag *diag);

#endif
