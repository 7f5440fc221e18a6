/*
 * encoder.h - from the episodes of a workload to its embedding, and the gradient back.
 *
 * Two kinds. `gru` is the paper's (AWARE section 3.2): a bidirectional GRU of two layers reads each
 * episode; the final states of the last layer, both directions, are averaged over the episodes.
 * `pool` reads every step by itself, through two layers, and averages over all steps of all
 * episodes: what matters of a workload is mostly which states and rewards go with which actions,
 * and that does not need their order. After either: a ReLU layer, and a linear one to the
 * embedding.
 *
 * Inputs are normalised with figures that belong to the encoder (aw_encoder_normal), beyond an
 * episode's end they are zero.
 *
 * Call order: declare (before aw_params_alloc), init; cache_new; forward; backward at most once
 *             after each forward with a training cache.
 * Memory:     a cache is sized for the most workloads and episodes at once. Nothing else allocates.
 * Threads:    read-only after declare; a cache has one owner.
 */
#ifndef AW_META_ENCODER_H
#define AW_META_ENCODER_H

#include "meta/bundle.h"
#include "nn/gru.h"
#include "nn/mlp.h"

#define AW_ENCODER_EMBEDDING_MAX 256u
#define AW_ENCODER_WORKLOADS_MAX 256u /* of one forward */

enum aw_encoder_kind { AW_ENCODER_POOL, AW_ENCODER_GRU };
extern const char *const aw_encoder_kind_names[]; /* "pool", "gru", NULL */

struct aw_encoder_config {
    uint32_t kind;      /* enum aw_encoder_kind */
    uint32_t in;        /* of one step */
    uint32_t hidden;    /* of the GRU, or of the layers that read a step */
    uint32_t dense;     /* of the ReLU layer after pooling */
    uint32_t embedding; /* numbers out */
};

/* Mean and scale of each of `in` numbers; identity at declare. */
struct aw_encoder_normal {
    float mean[AW_BUNDLE_DIM_MAX], scale[AW_BUNDLE_DIM_MAX];
};

struct aw_encoder {
    struct aw_encoder_config config;
    struct aw_gru gru;  /* kind gru */
    struct aw_mlp step; /* kind pool */
    struct aw_mlp head;
    uint32_t pooled; /* numbers between pooling and head */
    struct aw_encoder_normal normal;
};

void aw_encoder_declare(struct aw_encoder *encoder, struct aw_params *params, const char *prefix,
                        const struct aw_encoder_config *config);
void aw_encoder_init(const struct aw_encoder *encoder, float *theta, struct aw_rng *rng);

struct aw_encoder_cache; /* opaque */
AW_NODISCARD enum aw_err aw_encoder_cache_new(const struct aw_encoder *encoder,
                                              uint32_t workloads_max, uint32_t episodes_max,
                                              uint32_t steps_max, bool training,
                                              const struct aw_alloc *alloc,
                                              struct aw_encoder_cache **ret_cache);
void aw_encoder_cache_free(struct aw_encoder_cache *cache); /* NULL is a no-op */

/* From the next forward on a pooling encoder reads every `every`th step of an episode, from step
 * `from` < every on, and a GRU, for which steps without their neighbours are another thing, every
 * `every`th episode: cheaper to learn from, and another look at the same bundle each time. 1, 0:
 * all. */
void aw_encoder_thin(struct aw_encoder_cache *cache, uint32_t every, uint32_t from);

/* Embeddings [count][embedding] of `count` bundles, each with at least one episode. They live in
 * the cache until its next forward. */
const float *aw_encoder_forward(const struct aw_encoder *encoder, const float *theta,
                                const struct aw_bundle *const *bundles, uint32_t count,
                                struct aw_encoder_cache *cache);
/* Adds to `grad` what d_embedding [count][embedding] says of the last forward. */
void aw_encoder_backward(const struct aw_encoder *encoder, const float *theta,
                         struct aw_encoder_cache *cache, const float *d_embedding, float *grad);

#endif
