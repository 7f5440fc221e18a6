/*
 * context.h - one policy for many workloads: a deterministic actor and two critics that see, beside
 * the state, the embedding of the workload (AWARE section 3.2, FLASH section 3).
 *
 * The learner is TD3 (Fujimoto et al., 2018; one critic and no delay make it DDPG). A batch has
 * rows of several workloads; the gradient that reaches the embedding of a workload, from the loss
 * of the critics and from that of the actor, flows on into the encoder. With a frozen encoder the
 * rest is fine-tuned on one workload.
 *
 * Call order: config_init, new; per workload: episode when one has ended (what the encoder reads)
 *             and push (what is learned from); learn; act; save, load; free.
 * Memory:     sized at new. act, push, episode, embed and learn never allocate.
 * Threads:    single owner. Same seed, same calls, same bytes.
 *
 * The trap: embeddings are cached per content of a bundle and per version of the encoder. Between
 * two updates of the encoder asking again costs nothing; after each, every workload is read anew.
 */
#ifndef AW_META_CONTEXT_H
#define AW_META_CONTEXT_H

#include "base/conf.h"
#include "meta/encoder.h"
#include "nn/adam.h"
#include "rl/replay.h"

#define AW_CONTEXT_WORKLOADS_MAX 4096u
#define AW_CONTEXT_HIDDEN_MAX    512u
#define AW_CONTEXT_GROUP_MAX     64u /* workloads of one batch */

struct aw_context_settings {
    uint32_t encoder; /* enum aw_encoder_kind */
    uint32_t encoder_hidden, encoder_dense, embedding;
    uint32_t episodes, choice; /* of a bundle */
    uint32_t hidden;           /* of two layers, of actor and critics */
    bool to_actor, to_critic;  /* which nets see the embedding; none: a learner without context */
    double gamma, tau;
    double actor_lr, critic_lr, encoder_lr;
    double pretanh_penalty;
    double imitate; /* weight of the squared distance from a teacher's action in the actor's loss */
    double anchor;  /* the same from what a loaded actor is held to */
    double improve; /* weight of what the critics say, beside it */
    uint32_t policy_delay;
    double target_noise, target_noise_clip;
    uint32_t thin;        /* while learning every so-manieth step is read; of a GRU, episode */
    uint32_t reads;       /* workloads of a batch that are read anew; 0: all */
    double context_noise; /* deviation added to embeddings while learning */
    uint32_t replay;      /* transitions kept of each workload */
    uint32_t group;       /* workloads of a batch */
    uint32_t rows;        /* transitions of each of them */
};
extern const struct aw_conf_field aw_context_fields[];

struct aw_context_config {
    struct aw_context_settings settings;
    uint32_t obs_dim, act_dim, steps; /* steps: of an episode, at most */
    uint32_t workloads;
    uint64_t seed;
};
/* Every default; shape, workloads and seed are the caller's. */
void aw_context_config_init(struct aw_context_config *config);
/* What the paper has: GRU 256, dense 256, embedding 64, best 20 episodes. */
void aw_context_paper(struct aw_context_settings *settings);

struct aw_context_stats {
    double critic_loss, q_mean, actor_loss;
    double encoder_grad; /* its norm */
    uint64_t updates;
};

struct aw_context; /* opaque */

AW_NODISCARD enum aw_err aw_context_new(const struct aw_context_config *config,
                                        const struct aw_alloc *alloc,
                                        struct aw_context **ret_context, struct aw_diag *diag);
void aw_context_free(struct aw_context *context); /* NULL is a no-op */

/* Copies. AW_ERR_DIVERGED: not finite, nothing stored. */
AW_NODISCARD enum aw_err aw_context_push(struct aw_context *context, uint32_t workload,
                                         const float *obs, const float *action, float reward,
                                         const float *next_obs, bool terminated);
/* A finished episode for the bundle; see aw_bundle_add. */
bool aw_context_episode(struct aw_context *context, uint32_t workload, const float *obs,
                        const float *action, const float *reward, uint32_t steps);
/* What a teacher would do in this workload, whatever its state: the actor is drawn towards it. */
void aw_context_teach(struct aw_context *context, uint32_t workload, const float *action);

/* Means and scales of what the encoder reads, from the bundles there are (of all processes that
 * learn together): once, before learning. Fails where sharing does. */
AW_NODISCARD enum aw_err aw_context_normalise(struct aw_context *context);

/* The embedding [embedding]; zeros for a workload without episodes. Until the next call. */
const float *aw_context_embed(struct aw_context *context, uint32_t workload);
/* action [act_dim] in [-1, 1]; `noise` is its deviation, 0: none. AW_ERR_DIVERGED: not finite. */
AW_NODISCARD enum aw_err aw_context_act(struct aw_context *context, uint32_t workload,
                                        const float *obs, double noise, float *action);

/* What one more thread embeds and acts with. One thread alone asks for a workload at a time
 * (pushing to it and adding to its episodes included), and no thread learns meanwhile. */
struct aw_context_reader; /* opaque */
AW_NODISCARD enum aw_err aw_context_reader_new(const struct aw_context *context,
                                               struct aw_context_reader **ret_reader);
void aw_context_reader_free(struct aw_context_reader *reader); /* NULL is a no-op */
const float *aw_context_reader_embed(struct aw_context *context, struct aw_context_reader *reader,
                                     uint32_t workload);
/* As act without noise. */
AW_NODISCARD enum aw_err aw_context_reader_act(struct aw_context *context,
                                               struct aw_context_reader *reader, uint32_t workload,
                                               const float *obs, float *action);
/* The same, told by `embedding` [embedding] in which workload it is, true or not. */
AW_NODISCARD enum aw_err aw_context_reader_act_as(struct aw_context *context,
                                                  struct aw_context_reader *reader,
                                                  const float *embedding, const float *obs,
                                                  float *action);

/* One update over workloads that have both transitions and episodes. AW_ERR_NODATA: none has.
 * AW_ERR_DIVERGED: a number left the finite range; the learner is to be thrown away. */
AW_NODISCARD enum aw_err aw_context_learn(struct aw_context *context,
                                          struct aw_context_stats *ret_stats);
/* What several processes that learn together do with a gradient before it is used: each calls it
 * for the same updates, and gets the mean over all. NULL: alone. */
typedef enum aw_err aw_context_reduce(void *ctx, float *gradient, size_t count);
void aw_context_together(struct aw_context *context, aw_context_reduce *reduce, void *ctx);
/* Another stream of chance from here on: processes that learn together begin with the same weights,
 * and draw different batches. */
void aw_context_reseed(struct aw_context *context, uint64_t stream);

/* Frozen: the encoder learns no more. `actor_too`: nor does the actor, until said otherwise. */
void aw_context_freeze(struct aw_context *context, bool encoder, bool actor_too);

/* The actor does what was loaded, with so much added to each action [act_dim] before the tanh. */
void aw_context_offset(struct aw_context *context, const double *by);

/* From here on rates of learning are so many times those of the settings. */
void aw_context_pace(struct aw_context *context, double factor);

/* The weights as they are now are kept, in the place of those kept before; recall puts them back
 * (false: none were kept). */
void aw_context_keep(struct aw_context *context);
bool aw_context_recall(struct aw_context *context);

/* One file: networks, encoder and its normaliser, settings as metadata, a checksum of it all. load:
 * AW_ERR_FORMAT where the file is damaged or its shapes and settings are not these; nothing has
 * changed then. */
AW_NODISCARD enum aw_err aw_context_save(const struct aw_context *context, const char *path,
                                         const char *const *meta, size_t meta_pairs,
                                         struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_context_load(struct aw_context *context, const char *path,
                                         struct aw_diag *diag);
/* Everything, so that learning goes on as if it had never stopped: weights, targets, moments,
 * chance, transitions, episodes, teachers, what is kept. `about`: lines "key value" that a load
 * must find as they were; `own` [own_count]: the caller's numbers. A checksum covers all of it.
 * load: AW_ERR_FORMAT where the file is damaged, of another learner or about something else;
 * nothing has changed then. */
AW_NODISCARD enum aw_err aw_context_save_state(const struct aw_context *context, const char *path,
                                               const char *about, const uint64_t *own,
                                               size_t own_count, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_context_load_state(struct aw_context *context, const char *path,
                                               const char *about, uint64_t *own, size_t own_count,
                                               struct aw_diag *diag);
/* Settings that a file was written with: what to make a context from that can load it. */
AW_NODISCARD enum aw_err aw_context_peek(const char *path, struct aw_context_config *ret,
                                         const struct aw_alloc *alloc, struct aw_diag *diag);

const struct aw_context_config *aw_context_config(const struct aw_context *context);
uint64_t aw_context_checksum(const struct aw_context *context); /* of all weights */

#endif
