/*
 * length.h - how long an answer will be: a small network over a prompt, taught by every answer.
 *
 * Predicted is the rank of the length among those of the same model, 0 to 1. A rank is the same
 * thing for a talkative model as for a terse one, so all models teach one network; what a rank is
 * worth in tokens comes from the lengths that the model has shown. The classes of the paper (below
 * p25, p50, p75, p99, and above; section 6.3.3) are ranks cut at these places. The p90 of a class
 * is measured: the lengths that followed predictions of that class.
 *
 *   rank = MLP([E x, hand, model, cache])    E: hashed words to 24 numbers, learned sparsely
 *
 * A prompt seen before (same bytes, same model) is remembered with the mean and the spread of its
 * answers, never with an answer; of the rest the nearest by hashed words counts, where it is near.
 *
 * Call order: new; predict and learn in any order; free.
 * Memory:     one block at new; predict and learn allocate nothing.
 * Threads:    single owner.
 *
 * The trap: predict before learn. What was learned from a prompt is no prediction of it.
 */
#ifndef AW_SERVING_LENGTH_H
#define AW_SERVING_LENGTH_H

#include "base/alloc.h"
#include "serving/prompt.h"

#define AW_LENGTH_CLASSES    5u
#define AW_LENGTH_MODELS_MAX 256u      /* further ones share the last place */
#define AW_LENGTH_TOKENS_MAX 10000000u /* of one answer; longer ones count as so long */

struct aw_length_settings {
    uint64_t seed;
    double rate;     /* of the optimisers */
    double decay;    /* of the weights of hashed words */
    uint32_t replay; /* finished requests that are kept to learn from again */
    uint32_t batch;  /* of them at each finished request */
    bool cache;      /* prompts seen before are remembered */
};
extern const struct aw_length_settings aw_length_defaults;

struct aw_length_guess {
    double rank;       /* 0 to 1 among the answers of this model */
    uint32_t class;    /* below AW_LENGTH_CLASSES */
    double tokens;     /* the median of what is expected */
    double tokens_p90; /* nine of ten answers are no longer */
    bool cached;       /* the prompt is known */
    bool known;        /* false: nothing has been learned yet; rank .5 */
};

struct aw_length;
AW_NODISCARD enum aw_err aw_length_new(const struct aw_length_settings *settings,
                                       const struct aw_alloc *alloc, struct aw_length **ret);
void aw_length_free(struct aw_length *length); /* NULL is a no-op */

void aw_length_predict(struct aw_length *length, const struct aw_prompt *prompt,
                       struct aw_length_guess *ret);
/* An answer to it has ended by itself after so many tokens. Answers that a client cut off teach
 * nothing: leave them out. */
void aw_length_learn(struct aw_length *length, const struct aw_prompt *prompt, uint32_t tokens);
uint64_t aw_length_learned(const struct aw_length *length); /* answers so far */

#endif
