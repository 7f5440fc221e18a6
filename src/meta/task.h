/*
 * task.h - the insides of a meta-learner of one task (aware/meta.h), for its files and its tests.
 *
 * A workload's data is a bundle that the encoder reads. Trajectories go into it as they are. Of a
 * supervised task the samples that are kept make one "episode" of [features, labels]: the bundle's
 * last column, the reward elsewhere, is the last label.
 */
#ifndef AW_META_TASK_H
#define AW_META_TASK_H

#include <aware/meta.h>

#include "base/rng.h"
#include "meta/encoder.h"
#include "nn/adam.h"

#define AW__META_FORMAT "aware-meta-1" /* of a file */

struct aw__meta_workload {
    char name[AW_META_NAME_MAX]; /* empty: free */
    bool pending;                /* there is feedback */
    uint64_t weights, data;      /* versions that the embedding was made of; 0: no embedding */
    uint32_t sample_count;       /* kept */
    uint32_t sample_seen;        /* since it became known, up to UINT32_MAX */
};

struct aw_meta {
    char task[AW_META_NAME_MAX];
    struct aw_meta_settings settings;
    bool supervised;
    uint32_t in_dim, out_dim; /* features and labels, or states and actions */
    uint32_t steps_max;
    bool updates, normalised;
    uint64_t version; /* of weights and normalisation, from 1 */
    struct aw_rng rng;

    struct aw_params params;
    struct aw_encoder encoder;
    struct aw_encoder_cache *cache;
    struct aw_adam adam;

    struct aw__meta_workload *workload; /* [workloads_max] */
    struct aw_bundle *bundle;           /* [workloads_max] */
    float *sample_x;                    /* supervised: [workloads_max][keep][all but one] */
    float *sample_last;                 /* supervised: [workloads_max][keep] */
    float *embedding;                   /* [workloads_max][E] */
    float *d_embedding;                 /* the same: feedback so far */
    float *d_group;                     /* [group][E] */
    const struct aw_bundle **group;     /* [group] */
    uint32_t *pending;                  /* [workloads_max] */

    const struct aw_alloc *alloc;
    void *block;
};

/* Other weights or another normalisation: no embedding and no feedback holds any more. */
void aw__meta_changed(struct aw_meta *meta);

#endif
