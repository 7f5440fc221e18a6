/*
 * learn.h - the frequency policy that was learned: values of all levels, from what is seen now and
 * from an embedding of the pair (application and processor).
 *
 * The base learner is a Q-network over 12 levels; the embedding is FLASH's, by aware/meta.h: an
 * encoder over short trajectories, trained by the gradient that the Q-network's loss sends back. In
 * the simulator every level's value of the coming second is known, so each row teaches all twelve
 * (DQN would learn one); the discount is that of requests left over. docs/algorithms/frequency.md.
 *
 * Call order: train, or load; then per connection to a machine: begin, decide for each second.
 * Memory:     a learner is one object; decide and its embedding allocate nothing.
 * Threads:    single owner.
 */
#ifndef AW_FREQUENCY_LEARN_H
#define AW_FREQUENCY_LEARN_H

#include <aware/meta.h>

#include "frequency/governor.h"

#define AW_FREQUENCY_EMBEDDING 8u
#define AW_FREQUENCY_SWEEP     8u  /* seconds at set levels before the first decision */
#define AW_FREQUENCY_CONTEXT   24u /* seconds of one trajectory */
#define AW_FREQUENCY_SEEN      (2 * AW_FREQUENCY_OBS + 6)
#define AW_FREQUENCY_INPUT     (AW_FREQUENCY_SEEN + AW_FREQUENCY_EMBEDDING)

enum aw_frequency_mode {
    AW_FREQUENCY_EMBEDDED, /* what ships */
    AW_FREQUENCY_ZEROED,   /* ablation: zeros for the embedding */
    AW_FREQUENCY_SHUFFLED, /* ablation: another pair's */
    AW_FREQUENCY_TRUE,     /* ablation: the pair's parameters; needs a learner trained so */
};

struct aw_frequency_lesson {
    uint32_t pairs, updates, group, rows; /* pairs known; updates; pairs and seconds of an update */
    double lr;
    uint64_t seed;
    bool truth; /* the embedding is the pair's true parameters */
};
struct aw_frequency_lesson aw_frequency_lesson_default(void);

struct aw_frequency_learner;
typedef bool aw_frequency_progress(void *ctx, double share, double loss);
AW_NODISCARD enum aw_err aw_frequency_train(const struct aw_frequency_lesson *lesson,
                                            aw_frequency_progress *progress, void *ctx,
                                            struct aw_frequency_learner **ret_learner,
                                            struct aw_diag *diag);
/* Two files: PATH (the values) and PATH.encoder. */
AW_NODISCARD enum aw_err aw_frequency_save(const struct aw_frequency_learner *learner,
                                           const char *path, const char *how, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_frequency_load(const char *path,
                                           struct aw_frequency_learner **ret_learner,
                                           struct aw_diag *diag);
/* The one that ships with the program. */
AW_NODISCARD enum aw_err aw_frequency_shipped(struct aw_frequency_learner **ret_learner,
                                              struct aw_diag *diag);
void aw_frequency_learner_free(struct aw_frequency_learner *learner); /* NULL is a no-op */

/* One machine under the learner. */
struct aw_frequency_driver {
    struct aw_frequency_learner *learner;
    const struct aw_processor *processor;
    enum aw_frequency_mode mode;
    uint32_t workload; /* of the encoder */
    uint32_t second, level;
    float before[AW_FREQUENCY_OBS];
    float embedding[AW_FREQUENCY_EMBEDDING];
    float state[AW_FREQUENCY_CONTEXT][AW_FREQUENCY_OBS + 2];
    float action[AW_FREQUENCY_CONTEXT], reward[AW_FREQUENCY_CONTEXT];
    uint32_t kept;
    float mean[AW_FREQUENCY_EMBEDDING]; /* of all embeddings of the pair so far */
    uint32_t means;
    bool deaf;  /* nothing that it lives is learned from: an examination */
    bool known; /* the mean is what decisions are made with: episodes of the pair were lived */
    /* Added to the values, in their units: nothing at the least level, all of it at the most. What
     * episodes of the pair found better (peers.c). 0: as it was learned. */
    double lean;
};
/* `truth` is for AW_FREQUENCY_TRUE, `foreign` for AW_FREQUENCY_SHUFFLED: another driver's. */
AW_NODISCARD enum aw_err aw_frequency_begin(struct aw_frequency_driver *driver,
                                            struct aw_frequency_learner *learner,
                                            const struct aw_processor *processor,
                                            enum aw_frequency_mode mode, const char *name);
/* The level for the coming second, from what the last one showed and earned. */
uint32_t aw_frequency_decide(struct aw_frequency_driver *driver, const float obs[AW_FREQUENCY_OBS],
                             double reward);
/* Another episode of the same pair: there is no sweep, and from here on the embedding is the mean
 * of all that there were: one of some seconds is noisy. */
void aw_frequency_again(struct aw_frequency_driver *driver);
void aw_frequency_end(struct aw_frequency_driver *driver); /* forgets the workload */
void aw_frequency_truth(const struct aw_frequency_pair *pair, float truth[AW_FREQUENCY_EMBEDDING]);

#endif
