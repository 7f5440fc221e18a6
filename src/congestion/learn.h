/*
 * learn.h - which control law for which link: the search that makes a policy (adaptive.h).
 *
 * Links to learn from are drawn: some of FLASH's boxes (the 200 to learn from), and links whose
 * bandwidth moves every half second by more or less (no recording is used, so every recording is
 * unseen). CMA-ES looks first for the law that is best on all, then, trait by trait, for what the
 * embedding adds. Judged is what a user loses: regret in boxes, and on moving links the share of
 * the oracle's score that is not reached.
 *
 * Memory:  one flow per draw while it is judged.
 * Threads: as many as asked for; the result does not depend on how many.
 */
#ifndef AW_CONGESTION_LEARN_H
#define AW_CONGESTION_LEARN_H

#include "base/parallel_tasks.h"
#include "congestion/adaptive.h"
#include "congestion/episode.h"

struct aw_alloc;

#define AW_BOXES_LEARNED 200u /* of 625, FLASH's pre-training pool */

/* The pools: a permutation of all boxes, of which the first 200 are learned from. One for all
 * seeds, so that a policy of any seed has met none of the rest. */
void aw_box_order(uint32_t order[AW_BOX_COUNT]);

#define AW_MOVING_POINTS 60u
/* A link whose bandwidth moves: drawn; the trace lives in it. */
struct aw_moving_link {
    double time_s[AW_MOVING_POINTS], rate[AW_MOVING_POINTS], served[AW_MOVING_POINTS + 1];
    struct aw_bandwidth trace;
    struct aw_link link;
};
void aw_moving_link_draw(struct aw_moving_link *moving, uint64_t seed, uint64_t index);

struct aw_congestion_lesson {
    uint32_t boxes, moving;     /* links that a law is judged on */
    uint32_t draws;             /* of a generation */
    uint32_t generations;       /* of the search for the base, */
    uint32_t generations_trait; /* and of that for each trait */
    uint64_t seed;
    uint32_t threads;
};
struct aw_congestion_lesson aw_congestion_lesson_default(void);

/* A share of all, and the loss so far. False: stop, AW_ERR_INTERRUPTED. */
typedef bool aw_congestion_progress(void *ctx, double share, double loss);
AW_NODISCARD enum aw_err aw_congestion_learn(const struct aw_congestion_lesson *lesson,
                                             const struct aw_alloc *alloc,
                                             aw_congestion_progress *progress, void *ctx,
                                             struct aw_adaptive_policy *ret_policy,
                                             double *ret_loss, struct aw_diag *diag);

/* A policy as JSON, and back. AW_ERR_FORMAT: not one, or of another map of laws. */
AW_NODISCARD enum aw_err aw_adaptive_write(const struct aw_adaptive_policy *policy,
                                           const char *path, const char *how, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_adaptive_read(const char *path, struct aw_adaptive_policy *ret,
                                          struct aw_diag *diag);
/* The one that ships with the program. */
AW_NODISCARD enum aw_err aw_adaptive_shipped(struct aw_adaptive_policy *ret, struct aw_diag *diag);

#endif
