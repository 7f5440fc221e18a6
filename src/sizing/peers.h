/*
 * peers.h - other ways to learn from known workloads, at the budget of the neural process (net.h):
 * the same inputs but for the embedding, the same layers, as many rows of training. They get to
 * know a workload by some gradient steps on its shots instead of by an encoder.
 *
 * Call order: new (which trains), predict, free.
 * Memory:     sized at new. predict does not allocate.
 * Threads:    single owner. Same seed, same bytes.
 */
#ifndef AW_SIZING_PEERS_H
#define AW_SIZING_PEERS_H

#include "sizing/memory.h"

enum aw_size_peers {
    AW_SIZE_PEER_TRANSFER, /* all known workloads at once, then fine-tuned */
    AW_SIZE_PEER_REPTILE,  /* Nichol et al., 2018 */
    AW_SIZE_PEER_MAML,     /* Finn et al., ICML 2017, first order */
    AW_SIZE_PEERS
};

struct aw_size_peer;
/* AW_ERR_NODATA: fewer than three workloads. */
AW_NODISCARD enum aw_err aw_size_peer_new(const struct aw_size_memory *memory,
                                          enum aw_size_peers kind, uint64_t seed, uint32_t updates,
                                          struct aw_size_peer **ret_peer, struct aw_diag *diag);
void aw_size_peer_free(struct aw_size_peer *peer); /* NULL is a no-op */
void aw_size_peer_predict(struct aw_size_peer *peer, const struct aw_size_shot *shots,
                          uint32_t count, double *ret);

#endif
