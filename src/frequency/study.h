/*
 * study.h - every way to choose a frequency on the same machines, as rows; and DQN as its peers.
 *
 * Memory:  one machine at a time. Threads: pairs are spread; the rows do not depend on how.
 */
#ifndef AW_FREQUENCY_STUDY_H
#define AW_FREQUENCY_STUDY_H

#include <aware/task.h>

#include "frequency/learn.h"

/* Unseen applications on unseen processors, without phases and with them. Rows: set, method, pairs,
 * reward, reward_low, reward_high, drop (of the oracle's reward), regret ((oracle - reward) /
 * (oracle - nominal)), watts, joules_of_schedutil (all joules), joules_per_work (per instruction,
 * mean of pairs, of schedutil's), missed, throughput. `truth` may be NULL: a learner that is told
 * the true parameters. */
AW_NODISCARD enum aw_err aw_frequency_evaluate(struct aw_frequency_learner *learner,
                                               struct aw_frequency_learner *truth,
                                               const struct aw_task_ask *ask, uint32_t pairs,
                                               const struct aw_task_sink *sink,
                                               struct aw_diag *diag);

/* DQN by src/rl on single pairs, `pairs` of each seed: to convergence there; trained on one and put
 * on another (vanilla); trained on one, or on eight in turn, and trained on (transfer, multi-task);
 * and the learner of ours, met and adapting. Rows: method, pairs, reward, drop (of the converged
 * agent's reward), episodes (until 95 % of it for good; where that never comes all of them and
 * one), their median, the lowest and highest mean of a seed, never (pairs). */
AW_NODISCARD enum aw_err aw_frequency_peers(struct aw_frequency_learner *learner,
                                            const struct aw_task_ask *ask, uint32_t pairs,
                                            uint32_t episodes, const struct aw_task_sink *sink,
                                            struct aw_diag *diag);

/* FLASH's reward and ours for holding the top frequency and for swinging. Rows: reward, behaviour,
 * mean. */
void aw_frequency_swing(const struct aw_task_ask *ask, const struct aw_task_sink *sink);

#endif
