/*
 * aurora.h - Aurora as printed (Jay et al., ICML 2019; FLASH's Table 12): PPO over ten intervals of
 * three features, which changes the rate by a few percent; to convergence on one link, moved to
 * another, and trained on there.
 *
 * It starts where PCC-RL starts it, at 0.3 to 1.5 times the link's bandwidth, which no sender
 * knows: a handicap for its rivals, not for it.
 *
 * Memory:  one flow and one learner for each thread. Threads: boxes are spread; rows do not depend
 *          on how.
 */
#ifndef AW_CONGESTION_AURORA_H
#define AW_CONGESTION_AURORA_H

#include <aware/task.h>

#include "congestion/adaptive.h"

/* `boxes` unseen boxes of each seed, `episodes` of training on each. Rows: method, boxes, regret,
 * drop (of the converged agent's reward), episodes (until 95 % of that for good; where that never
 * comes all of them and one), their median, lowest and highest mean of a seed, never (boxes). */
AW_NODISCARD enum aw_err aw_aurora_compare(const struct aw_adaptive_policy *policy,
                                           const struct aw_task_ask *ask, uint32_t boxes,
                                           uint32_t episodes, const struct aw_task_sink *sink,
                                           struct aw_diag *diag);

#endif
