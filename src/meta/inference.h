/*
 * inference.h - a model that is used and no longer taught: its encoder and its actor, read-only.
 *
 * Call order: open; embed as often as wanted; close.
 * Memory:     one block at open, without critics, targets and moments; embed allocates its scratch
 *             and frees it.
 * Threads:    read-only after open: any number of threads may embed at once.
 */
#ifndef AW_META_INFERENCE_H
#define AW_META_INFERENCE_H

#include "meta/context.h"

struct aw_inference {
    struct aw_context_config config; /* as it was taught; workloads 0 */
    struct aw_encoder encoder;
    struct aw_mlp actor;     /* [state, embedding] -> action before its tanh */
    float *encoding, *theta; /* weights of the two */
    uint64_t checksum;       /* as aw_context_checksum has it */
    const struct aw_alloc *alloc;
    void *block;
};

/* AW_ERR_FORMAT: damaged, no model, or weights of other shapes than its settings say.
 * AW_ERR_DIVERGED: a weight is no number. On failure zeroed. */
AW_NODISCARD enum aw_err aw_inference_open(struct aw_inference *frozen, const char *path,
                                           const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_inference_close(struct aw_inference *frozen); /* a zeroed one is a no-op */

/* The embedding [settings.embedding] of a bundle with at least one episode, as aw_context_embed has
 * it; zeros where the actor does not see it. AW_ERR_NOMEM: `embedding` is untouched. */
AW_NODISCARD enum aw_err aw_inference_embed(const struct aw_inference *frozen,
                                            const struct aw_bundle *bundle,
                                            const struct aw_alloc *alloc, float *embedding);

#endif
