/*
 * net.h - a neural process: a meta-learner (aware/meta.h) and a small network upon its embedding.
 *
 * The encoder reads the shots of a workload (features of a configuration, its rest) and averages;
 * the network predicts the rest of any other configuration from that configuration's features, the
 * workload's level and the embedding. It is trained on workloads that were measured, each time with
 * other shots, so that it learns what a few of them say of all others.
 *
 * Call order: new (which trains), predict, free.
 * Memory:     sized at new. predict does not allocate.
 * Threads:    single owner: predict changes what the meta-learner remembers of the workload asked
 *             about. Same seed, same bytes.
 */
#ifndef AW_SIZING_NET_H
#define AW_SIZING_NET_H

#include "sizing/memory.h"

struct aw_size_net;

/* What the network is told about the workload: ablations of the embedding. */
enum aw_size_told {
    AW_SIZE_TOLD_RIGHT,
    AW_SIZE_TOLD_ZERO,     /* zeros */
    AW_SIZE_TOLD_SHUFFLED, /* of another workload */
};

/* Learns from the workloads of `memory`, which must outlive it. AW_ERR_NODATA: fewer than three. */
AW_NODISCARD enum aw_err aw_size_net_new(const struct aw_size_memory *memory, uint64_t seed,
                                         uint32_t updates, struct aw_size_net **ret_net,
                                         struct aw_diag *diag);
void aw_size_net_free(struct aw_size_net *net); /* NULL is a no-op */

/* ret [target_count] of ln at the configurations `targets`. `context` is the workload's, or NULL.
 */
void aw_size_net_predict(struct aw_size_net *net, const float *context, enum aw_size_told told,
                         const struct aw_size_shot *shots, uint32_t count, const uint32_t *targets,
                         uint32_t target_count, double *ret);
/* How usual a workload with these shots is among those learned from: the share of them that are no
 * nearer to their nearest than it is to its own. Small: a stranger. */
double aw_size_net_usual(struct aw_size_net *net, const float *context,
                         const struct aw_size_shot *shots, uint32_t count);

/* The encoder as a file of aware/meta.h. */
AW_NODISCARD enum aw_err aw_size_net_save(const struct aw_size_net *net, const char *path,
                                          struct aw_diag *diag);

#endif
