/*
 * meta.h - what a learner of any kind may ask of a meta-learner (FLASH section 3.4, listing 1).
 *
 * There is one meta-learner for each task of managing a system, and one base learner with it: a
 * supervised model or a reinforcement learner, which keeps its own networks and its own loss. The
 * meta-learner is shown data of each workload (an application in its environment), and gives back
 * an embedding: some numbers that the base learner appends to its features or to its state. In
 * return the base learner says how its loss changes with those numbers; from that the meta-learner
 * learns what is worth saying about a workload.
 *
 * Call order: register_sl or register_rl; workload (once for each); insert_samples or
 *             insert_trajectory; embedding; and, while it learns: feedback, update. toggle, save
 *             and load at any time between; free.
 * Memory:     sized at register, and bounded there. Nothing but save and load allocates later.
 * Threads:    single owner. Same seed and same calls, same bytes.
 *
 * Every number that crosses this wall is checked: what is not finite is AW_ERR_DIVERGED, and
 * nothing was stored or learned from it.
 *
 * The trap: feedback is about the embedding that was given last. An update changes the embeddings
 * of all workloads, an insertion that of one: ask again before the next feedback.
 */
#ifndef AWARE_META_H
#define AWARE_META_H

#include <aware/err.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what libaware.so exports */

#define AW_META_NAME_MAX      64u   /* bytes of the name of a task or workload, with its NUL */
#define AW_META_WORKLOADS_MAX 4096u /* of one task */
#define AW_META_DIM_MAX       256u  /* features and labels; states, actions and the reward */
#define AW_META_SAMPLES_MAX   4096u /* labelled samples kept of a workload */
#define AW_META_TRAJ_MAX      64u   /* trajectories kept of a workload */
#define AW_META_STEPS_MAX     4096u /* of one trajectory */
#define AW_META_WIDTH_MAX     512u  /* of the encoder's layers */
#define AW_META_EMBEDDING_MAX 256u
#define AW_META_GROUP_MAX     256u              /* workloads that an update reads at once */
#define AW_META_BYTES_MAX     ((size_t)1 << 31) /* of data, and of work space: 2 GiB each */

struct aw_alloc; /* where memory comes from (base/alloc.h); NULL is the process heap */

enum aw_meta_encoder {
    AW_META_POOL, /* reads each sample or step by itself, and averages: order does not matter */
    AW_META_GRU,  /* two bidirectional layers read them in their order, as FLASH section 3.2 has it
                   */
};

/* Which data of a workload are kept, once there is more than `keep_count`. */
enum aw_meta_keep {
    AW_META_KEEP_DEFAULT, /* LATEST for samples, BEST for trajectories */
    AW_META_KEEP_LATEST,  /* either: the newest */
    AW_META_KEEP_RANDOM,  /* samples: of all that there ever were, each with the same chance */
    AW_META_KEEP_BEST,    /* trajectories: those of the highest sum of rewards */
    AW_META_KEEP_ENDS,    /* trajectories: half the best, half the worst (FLASH section 3.2) */
};

struct aw_meta_settings {
    enum aw_meta_encoder encoder;
    uint32_t hidden;    /* of the layers that read a step, or of the GRU */
    uint32_t dense;     /* of the layer between them and the embedding */
    uint32_t embedding; /* numbers given to the base learner */
    enum aw_meta_keep keep;
    uint32_t keep_count;    /* FLASH's numSamples, or numTrajs */
    uint32_t workloads_max; /* known at one time */
    uint32_t group;         /* workloads that an update reads at once: memory, not result */
    double learning_rate;   /* of Adam */
    double grad_norm_max;   /* gradients are scaled down to this length */
    uint64_t seed;          /* of the first weights, and of KEEP_RANDOM */
};
/* Pool 64, 64, embedding 16, 16 samples or trajectories, 256 workloads. */
struct aw_meta_settings aw_meta_default(void);
/* FLASH's Table 4: GRU 256, dense 256, embedding 32, learning rate 3e-4; AWARE's 20 trajectories.
 */
struct aw_meta_settings aw_meta_paper(void);

struct aw_meta; /* opaque */

/* FLASH's RegisterBaseLearner. `task` is written into files, and a file of another task is refused.
 * `settings` NULL: the default. AW_ERR_CONFIG: a name, shape or setting that cannot be, or more
 * memory than AW_META_BYTES_MAX; `diag` says which. */
AW_NODISCARD enum aw_err aw_meta_register_sl(const char *task, uint32_t feature_dim,
                                             uint32_t label_dim,
                                             const struct aw_meta_settings *settings,
                                             const struct aw_alloc *alloc,
                                             struct aw_meta **ret_meta, struct aw_diag *diag);
/* `steps_max`: of a trajectory; a shorter one is padded with zeros. */
AW_NODISCARD enum aw_err aw_meta_register_rl(const char *task, uint32_t state_dim,
                                             uint32_t action_dim, uint32_t steps_max,
                                             const struct aw_meta_settings *settings,
                                             const struct aw_alloc *alloc,
                                             struct aw_meta **ret_meta, struct aw_diag *diag);
void aw_meta_free(struct aw_meta *meta); /* NULL is a no-op */

/* The number by which the other calls know a workload; a name that is new becomes known.
 * AW_ERR_LIMIT: there are workloads_max already. AW_ERR_RANGE: the name is empty or too long.
 * Every call below that takes a workload says AW_ERR_NOTFOUND for a number not given here. */
AW_NODISCARD enum aw_err aw_meta_workload(struct aw_meta *meta, const char *name,
                                          uint32_t *ret_workload);
/* Drops its data and its name; the number may be given to another workload. */
AW_NODISCARD enum aw_err aw_meta_forget(struct aw_meta *meta, uint32_t workload);

/* FLASH's InsertDataSamples: features [count][feature_dim], labels [count][label_dim]. Copies.
 * AW_ERR_USAGE: the task is one of reinforcement learning. AW_ERR_RANGE: count is 0. */
AW_NODISCARD enum aw_err aw_meta_insert_samples(struct aw_meta *meta, uint32_t workload,
                                                const float *features, const float *labels,
                                                uint32_t count);
/* FLASH's InsertTrajSamples: states [steps][state_dim], actions [steps][action_dim], rewards
 * [steps]. Copies. AW_ERR_USAGE: the task is a supervised one. AW_ERR_RANGE: steps is 0 or beyond
 * steps_max. */
AW_NODISCARD enum aw_err aw_meta_insert_trajectory(struct aw_meta *meta, uint32_t workload,
                                                   const float *states, const float *actions,
                                                   const float *rewards, uint32_t steps);

/* Means and scales of what the encoder reads, from all data there are now. The first embedding does
 * this by itself, and they stay: so insert what is to be learned from before it. Again on demand,
 * e.g. before the weekly retraining. AW_ERR_NODATA: nothing was inserted yet. */
AW_NODISCARD enum aw_err aw_meta_normalise(struct aw_meta *meta);

uint32_t aw_meta_embedding_dim(const struct aw_meta *meta);
/* FLASH's GetEmbedding, into ret_embedding [embedding_dim]. Computed once for each state of the
 * data and of the weights. AW_ERR_NODATA: nothing of this workload was inserted yet; zeros are a
 * fair stand-in. AW_ERR_DIVERGED: it is not finite, because the data are extreme. */
AW_NODISCARD enum aw_err aw_meta_embedding(struct aw_meta *meta, uint32_t workload,
                                           float *ret_embedding);

/* How the base learner's loss changes with the embedding of this workload, [embedding_dim]: the
 * gradient of its network with respect to that part of its input. Several, e.g. of all rows of a
 * batch, add up until update. What was collected of a workload is dropped when its data change.
 * AW_ERR_CONFLICT: the data or the weights have changed since its embedding was given. */
AW_NODISCARD enum aw_err aw_meta_feedback(struct aw_meta *meta, uint32_t workload,
                                          const float *d_loss_d_embedding);

struct aw_meta_stats {
    uint32_t workloads; /* whose feedback was used; 0: there was none, nothing moved */
    double grad_norm;   /* before it was scaled down */
    uint64_t updates;   /* made since register or load */
};
/* One step of the encoder's weights along what feedback said. `ret_stats` may be NULL.
 * AW_ERR_DIVERGED: the gradient is not finite; the weights stay, the feedback is dropped. */
AW_NODISCARD enum aw_err aw_meta_update(struct aw_meta *meta, struct aw_meta_stats *ret_stats);

/* FLASH's ToggleMetaModelUpdate; on at register. Off: the weights stay as they are, feedback is
 * checked and ignored, data still come in and change embeddings. The base learner's own networks
 * are the caller's to freeze: aw_meta_updates says whether. */
void aw_meta_toggle(struct aw_meta *meta, bool updates);
bool aw_meta_updates(const struct aw_meta *meta);

/* The encoder with its normalisation as one safetensors file, without data, replaced atomically.
 * AW_ERR_NODATA: there is no normalisation yet. */
AW_NODISCARD enum aw_err aw_meta_save(const struct aw_meta *meta, const char *path,
                                      struct aw_diag *diag);
/* AW_ERR_FORMAT: damaged, no such file of ours, or of another task or shape; nothing has changed
 * then. After it the optimiser begins anew. */
AW_NODISCARD enum aw_err aw_meta_load(struct aw_meta *meta, const char *path, struct aw_diag *diag);
/* The same from memory, e.g. of a model inside a program; `name` is for diagnostics. */
AW_NODISCARD enum aw_err aw_meta_load_bytes(struct aw_meta *meta, const void *bytes, size_t size,
                                            const char *name, struct aw_diag *diag);

uint64_t aw_meta_checksum(const struct aw_meta *meta); /* of the weights and the normalisation */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
