/*
 * model_card.h - what a model's file says of how it was taught: where, with which options, and how
 * rewards are to be read.
 *
 * Memory:  plain struct.
 * Threads: pure but for the file that is read.
 */
#ifndef AW_META_MODEL_CARD_H
#define AW_META_MODEL_CARD_H

#include "base/alloc.h"
#include "base/conf.h"

#define AW_MODEL_CARD_OPTIONS_MAX 4096u /* bytes of all pairs, with their ends */
#define AW_MODEL_CARD_PAIRS_MAX   32u
#define AW_MODEL_CARD_PATH_MAX    4096u

struct aw_model_card {
    char path[AW_MODEL_CARD_PATH_MAX];
    char env[64];                               /* name of the environment */
    char options[AW_MODEL_CARD_OPTIONS_MAX];    /* what `pairs` points into */
    const char *pairs[AW_MODEL_CARD_PAIRS_MAX]; /* "key=value" */
    uint32_t pair_count;
    bool foresight;                                 /* its state also has a forecast */
    double reward_shift, reward_scale, reward_miss; /* (reward - miss if missed + shift) * scale */
};

/* AW_ERR_FORMAT: not a model that says where it was taught. Keys it does not know are passed over;
 * reward keys that are missing have the defaults of the versions that wrote models without them. */
AW_NODISCARD enum aw_err aw_model_card_read(const char *path, struct aw_model_card *ret,
                                            const struct aw_alloc *alloc, struct aw_diag *diag);

#endif
