/* context_internal.h - what the files of a learner with context share: its insides. */
#ifndef AW_META_CONTEXT_INTERNAL_H
#define AW_META_CONTEXT_INTERNAL_H

#include "meta/context.h"
#include "nn/safetensors.h"

/* Which content and which encoder an embedding is of; zeroed: none. */
struct aw__embedded {
    uint64_t encoder, bundle;
};

struct aw_context {
    struct aw_context_config config;
    uint32_t batch; /* rows of a batch, at most */
    uint64_t version, updates;
    bool encoder_frozen, actor_frozen;
    aw_context_reduce *reduce;
    void *reduce_ctx;
    struct aw_rng rng;

    struct aw_params encoding, actor, critic;
    struct aw_encoder encoder;
    struct aw_mlp actor_net; /* no output activation: the penalty needs what goes into the tanh */
    struct aw_mlp critic_net[2];
    float *actor_target, *critic_target;
    float *actor_held; /* what an anchor holds on to */
    bool loaded;
    float *kept; /* [encoding, actor, critic] as they were at their best */
    bool has_kept;
    struct aw_adam actor_adam, critic_adam, encoder_adam;
    struct aw_mlp_cache actor_cache, critic_cache; /* critics are shaped alike and take turns */
    struct aw_encoder_cache *encoder_cache;

    struct aw_replay *replay; /* [workloads] */
    struct aw_bundle *bundle; /* [workloads] */
    float *teacher;           /* [workloads][A]; NAN: none */
    uint32_t *eligible;       /* [workloads] the first `group` are this batch's */
    float *embedding;         /* [workloads][E] */
    struct aw__embedded *embedded;

    /* of a batch */
    uint32_t rows_now;
    float *obs, *next_obs, *act, *reward, *terminal;
    float *x_actor, *x_critic, *dx_actor, *dx_critic;
    float *a, *a_held, *du, *y, *dq;
    float *context, *d_context; /* [group][E] */

    const struct aw_alloc *alloc;
    void *block;
};

#define AW__CONTEXT_FORMAT "aware-context-1" /* of a model */

/* All of a model, with metadata of the caller's. */
enum aw_err aw__context_add(struct aw_safetensors_writer *writer, const struct aw_context *context,
                            const char *const *meta, size_t meta_pairs);
/* Settings and shape as metadata of a file, and back; `format` says of which kind the file is. */
enum aw_err aw__context_meta_add(struct aw_safetensors_writer *writer, const char *format,
                                 const struct aw_context_config *config);
enum aw_err aw__context_meta_read(const struct aw_safetensors *file, const char *format,
                                  const char *path, struct aw_context_config *ret,
                                  struct aw_diag *diag);
/* Opens the file of a model: every way to read one goes through here. AW_ERR_FORMAT: of another
 * kind, or not as it was written. A model from before there were seals (AW_SAFETENSORS_SEAL) has
 * none, and is taken. */
enum aw_err aw__context_open(const char *path, const struct aw_alloc *alloc,
                             struct aw_safetensors **ret_file, struct aw_context_config *ret_config,
                             struct aw_diag *diag);

#endif
