/*
 * account.h - a decision told: everything that led to it, as JSON that stays the same.
 *
 * The same decision gives the same bytes, so that a decision which is replayed can be compared with
 * one that was recorded. Numbers that are not known are null. Times are RFC 3339 with microseconds.
 *
 * Call order: none.
 * Memory:     jansson's; the caller decrefs. NULL: no memory.
 * Threads:    pure functions of their arguments.
 */
#ifndef AW_CONTROL_ACCOUNT_H
#define AW_CONTROL_ACCOUNT_H

#include <jansson.h>

#include "control/pilot.h"

#define AW_ACCOUNT_FORMAT_VERSION 1

/* The whole of it: inputs with their age, state, both controllers' plans and actions, orders, the
 * guard chain with what each rail clipped and its sentence, plan before and after, watchdog,
 * lifecycle, score of the last step, estimate, model id, seed, cost per hour before and after. */
json_t *aw_account_json(const struct aw_pilot_config *config, const struct aw_decision *decision);
/* The same as text without white space, keys sorted; the caller frees it. NULL: no memory. */
char *aw_account_text(const struct aw_pilot_config *config, const struct aw_decision *decision);
/* What an audit entry keeps of it: who, from what to what, why, in under 2 KiB. */
json_t *aw_account_brief(const struct aw_pilot_config *config, const struct aw_decision *decision);
/* One sentence for people: "fallback (hpa+vpa-mem): replicas 3 -> 5, because ...". Returns `buf`.
 */
#define AW_ACCOUNT_SENTENCE_MAX 640u
const char *aw_account_sentence(const struct aw_pilot_config *config,
                                const struct aw_decision *decision, char *buf, size_t size);

/* Whether a decision is worth keeping: it changes something, or who decides, or the stage, or what
 * holds it back, is not as in `before` (NULL: it is the first). */
bool aw_account_notable(const struct aw_decision *before, const struct aw_decision *decision);

/* Config that decisions depend on, as bytes to keep beside them: a pilot made from it decides the
 * same. Text form is JSON. from_text: AW_ERR_FORMAT. */
char *aw_account_config_text(const struct aw_pilot_config *config,
                             const struct aw_policy_task *task);
AW_NODISCARD enum aw_err aw_account_config_read(const char *text, struct aw_pilot_config *ret,
                                                struct aw_policy_task *ret_task,
                                                struct aw_diag *diag);

/* Takes the decision again from its moment. `ret_text`, freed by the caller, is what
 * aw_account_text says of it now. AW_ERR_FORMAT: the moment is not one of such a pilot. */
AW_NODISCARD enum aw_err aw_account_replay(const struct aw_pilot_config *config,
                                           const struct aw_policy_task *task, const void *moment,
                                           size_t moment_bytes, const struct aw_orders *orders,
                                           int64_t at_us, const struct aw_alloc *alloc,
                                           char **ret_text, struct aw_diag *diag);

/* Which inputs moved a decision: each figure by itself a little more and a little less, everything
 * else as it was, and what would have been recommended then. */
struct aw_account_push {
    const char *input;         /* "arrivals_per_s" */
    double value;              /* as it was; NAN: it was missing */
    double by;                 /* relative change that was tried, e.g. 0.1 */
    struct aw_plan less, more; /* recommended then */
    double effect; /* relative change of the plan's cost per relative change of the input */
};
#define AW_ACCOUNT_PUSHES_MAX 16u
/* By size of the effect, largest first. */
AW_NODISCARD enum aw_err aw_account_pushes(const struct aw_pilot_config *config,
                                           const struct aw_policy_task *task, const void *moment,
                                           size_t moment_bytes, const struct aw_orders *orders,
                                           int64_t at_us, const struct aw_alloc *alloc,
                                           struct aw_account_push *ret_pushes, uint32_t *ret_count,
                                           struct aw_diag *diag);

#endif
