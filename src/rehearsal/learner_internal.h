/* learner_internal.h - a learner's record, for the files that make rounds of it. */
#ifndef AW_REHEARSAL_LEARNER_INTERNAL_H
#define AW_REHEARSAL_LEARNER_INTERNAL_H

#include <aware/agent.h>

#include "rehearsal/learner.h"

struct aw_learner {
    struct aw_learner_shape shape;
    struct aw_learner_settings settings;
    uint32_t steps_max, episodes_max;
    uint32_t steps, episodes; /* complete episodes; steps of them and of the one begun */
    uint32_t *begin;          /* [episodes_max + 2] first step of each, then of the one begun */
    float *obs, *next_obs;    /* [steps_max][obs_dim] */
    float *action;            /* [steps_max][act_dim] */
    float *gain;              /* [steps_max] */
    float *violated;          /* [steps_max] 0 or 1 */
    float *by_fallback;       /* [steps_max] 0 or 1 */
    float *read;              /* [steps_max] */
    float *reward;            /* [steps_max] of the round in hand */
    float *taught;            /* [steps_max][act_dim] of the round in hand */
    float *low, *high;        /* [act_dim] */
    const struct aw_alloc *alloc;
    void *block;
    size_t block_bytes;
};

/* AW_ERR_NODATA: too few episodes on record to judge what a round would give. */
AW_NODISCARD enum aw_err aw__learner_enough(const struct aw_learner *learner, struct aw_diag *diag);

/* Teaches `actor` what `agent` does in `rows` states, from nothing; `taught` [rows][act_dim] is
 * scratch. On failure `actor` is as it was. */
AW_NODISCARD enum aw_err aw__learner_teach(const struct aw_learner *learner,
                                           const struct aw_agent *agent, const float *obs,
                                           float *taught, uint32_t rows, uint64_t seed,
                                           struct aw_actnet *actor, double *ret_imitation);

/* The figure of that name, or `otherwise`. */
double aw__learner_stat(const struct aw_learn_stats *stats, const char *name, double otherwise);

#endif
