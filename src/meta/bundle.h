/*
 * bundle.h - the episodes by which a workload is known: what an encoder reads.
 *
 * Each step of an episode is [state, action, reward]. The bundle keeps at most `episodes` of them,
 * by choice: those of the highest reward (AWARE section 3.2), or half the best and half the worst
 * (FLASH section 3.3), or the latest. Ties are kept as they come: two episodes of equal reward are
 * two episodes.
 *
 * Call order: init; add per finished episode; read through the members; deinit.
 * Memory:     one block at init; add never allocates.
 * Threads:    single owner.
 *
 * `version` moves when the content does: an embedding is computed once per version.
 */
#ifndef AW_META_BUNDLE_H
#define AW_META_BUNDLE_H

#include <aware/err.h>

#include "base/alloc.h"

#define AW_BUNDLE_EPISODES_MAX 64u
#define AW_BUNDLE_STEPS_MAX    4096u
#define AW_BUNDLE_DIM_MAX      256u /* of one step */

enum aw_bundle_choice { AW_BUNDLE_BEST, AW_BUNDLE_ENDS, AW_BUNDLE_LATEST };
extern const char *const aw_bundle_choice_names[]; /* "best", "ends", "latest", NULL */

struct aw_bundle_config {
    uint32_t episodes; /* M */
    uint32_t steps;    /* T, the longest episode; what is longer is cut at its end */
    uint32_t obs_dim, act_dim;
    uint32_t choice; /* enum aw_bundle_choice */
};

struct aw_bundle {
    struct aw_bundle_config config;
    uint32_t dim;     /* obs_dim + act_dim + 1 */
    uint32_t count;   /* episodes there are */
    uint64_t version; /* 0: empty, as at init */
    float *x;         /* [episodes][steps][dim], zeros beyond an episode's length */
    uint32_t *length; /* [episodes] steps */
    double *value;    /* [episodes] sum of rewards */
    uint64_t *id;     /* [episodes] ascending with age of adding; an encoder caches by it */
    uint64_t next_id;
    void *block;
    const struct aw_alloc *alloc;
};

/* AW_ERR_CONFIG: a shape beyond the maxima, or 0. On failure zeroed. */
AW_NODISCARD enum aw_err aw_bundle_init(struct aw_bundle *bundle,
                                        const struct aw_bundle_config *config,
                                        const struct aw_alloc *alloc);
void aw_bundle_deinit(struct aw_bundle *bundle); /* a zeroed one is a no-op */
void aw_bundle_clear(struct aw_bundle *bundle);

/* obs [steps][obs_dim], action [steps][act_dim], reward [steps]. Returns whether it was kept.
 * An episode with a number that is not finite, or without steps, is not. */
bool aw_bundle_add(struct aw_bundle *bundle, const float *obs, const float *action,
                   const float *reward, uint32_t steps);
static inline const float *aw_bundle_episode(const struct aw_bundle *bundle, uint32_t episode)
{
    return bundle->x + (size_t)episode * bundle->config.steps * bundle->dim;
}

#endif
