/*
 * explanation.h - a decision told: everything that led to it, as JSON that stays the same, as a
 * sentence for people, and taken again from its moment.
 *
 * The same decision gives the same bytes, so that a decision which is replayed can be compared with
 * one that was recorded. Numbers that are not known are null. Times are RFC 3339 with microseconds.
 * An account tells what was decided; what the cluster then made of it is not part of it.
 *
 * Call order: none. explanation.c tells, explanation_words.c speaks, explanation_config.c keeps
 *             and reads config, explanation_replay.c takes decisions again.
 * Memory:     jansson's; the caller decrefs. NULL: no memory. note, notable and
 *             aw_explanation_sentence allocate nothing. What takes decisions again makes a pilot
 *             from `alloc`, and frees it.
 * Threads:    pure functions of their arguments.
 *
 * The trap: a moment is bytes of structs. A build that lays them out otherwise refuses it, and says
 * so; the account itself it can always read.
 */
#ifndef AW_DESK_EXPLANATION_H
#define AW_DESK_EXPLANATION_H

#include <jansson.h>

#include "control/pilot_peek.h"

#define AW_EXPLANATION_FORMAT_VERSION 1

/* The whole of it: inputs with their age, state, both controllers' plans and actions, orders, the
 * guard chain with what each rail clipped and its sentence, plan before and after, watchdog,
 * lifecycle, score of the last step, estimate, model id, seed, cost per hour before and after. */
json_t *aw_explanation_json(const struct aw_pilot_config *config,
                            const struct aw_decision *decision);
/* The same as text without white space, keys sorted; the caller frees it. NULL: no memory. */
char *aw_explanation_text(const struct aw_pilot_config *config, const struct aw_decision *decision);
/* What an audit entry keeps of it: the actor, from what to what, why, in under
 * AW_EXPLANATION_BRIEF_MAX bytes of text. `from` and `to` name all three amounts, `changed` those
 * that differ; `recommended` is there where more was recommended than may be done. */
#define AW_EXPLANATION_BRIEF_MAX 2560u
json_t *aw_explanation_brief(const struct aw_pilot_config *config,
                             const struct aw_decision *decision);
/* One sentence for people: "fallback (hpa+vpa-mem): replicas 3 -> 5, because ...". Returns `buf`.
 */
#define AW_EXPLANATION_SENTENCE_MAX 960u
const char *aw_explanation_sentence(const struct aw_pilot_config *config,
                                    const struct aw_decision *decision, char *buf, size_t size);

/* Only the amounts that `set` names: {"replicas":3,"memory_bytes":536870912}. */
json_t *aw_explanation_plan_json(const struct aw_plan *plan);
/* How a workload stood when this was decided: all that is known is set. */
struct aw_plan aw_explanation_before(const struct aw_decision *decision);

/* What is to be known of the decisions before, to see whether the next one says anything new. */
struct aw_explanation_noted {
    uint64_t policy_id;
    uint64_t freeze_id, pin_id, floor_id; /* of orders */
    struct aw_plan recommended;
    uint32_t axis_clips[AW_RESOURCES];
    uint32_t clips;
    uint8_t freeze, pin_kind, urgent;
    uint8_t actor, stage, verdict, cause; /* cause: of the watchdog */
    uint8_t answered, restoring;
};
void aw_explanation_note(struct aw_explanation_noted *noted, const struct aw_decision *decision);
/* Whether a decision is worth keeping: it changes something, or actor, stage or what holds it back
 * differ from `before` (NULL: it is the first). Two differences do not count: one that is not worth
 * a restart, which comes and goes with every tick; and that the fallback has not looked at an
 * amount again yet, since its last word still stands. */
bool aw_explanation_notable(const struct aw_explanation_noted *before,
                            const struct aw_decision *decision);

/* --- config ------------------------------------------------------------------------------------
 */

/* Config that decisions depend on, as bytes to keep beside them: a pilot made from it decides the
 * same. Text form is JSON; the caller frees it. config_read: AW_ERR_FORMAT names what is missing,
 * unknown or cannot be; outputs are untouched then. */
char *aw_explanation_config_text(const struct aw_pilot_config *config,
                                 const struct aw_fallback_task *task);
AW_NODISCARD enum aw_err aw_explanation_config_read(const char *text, struct aw_pilot_config *ret,
                                                    struct aw_fallback_task *ret_task,
                                                    struct aw_diag *diag);

/* --- again -------------------------------------------------------------------------------------
 */

/* A decision that was taken, with all that it takes to take it again. */
struct aw_explanation_snapshot {
    const struct aw_pilot_config *config;
    const struct aw_fallback_task *task;
    const void *bytes; /* aw_pilot_snapshot_save */
    size_t size;
    const struct aw_orders *orders; /* NULL: none */
    int64_t at_us;
};

/* Takes the decision again from its moment. `ret_text`, freed by the caller, is what
 * aw_explanation_text says of it now. AW_ERR_FORMAT: not a snapshot of a pilot with this config. */
AW_NODISCARD enum aw_err aw_explanation_replay(const struct aw_explanation_snapshot *moment,
                                               const struct aw_alloc *alloc, char **ret_text,
                                               struct aw_diag *diag);

/* Which inputs moved a decision: each figure by itself a little more and a little less, everything
 * else as it was, and what the actor would have proposed then. */
struct aw_explanation_push {
    const char *input;         /* "arrivals_per_s" */
    double value;              /* as it was; NAN: it was missing, and nothing was tried */
    double by;                 /* relative change that was tried, e.g. 0.1 */
    struct aw_plan less, more; /* proposed then; all three amounts are set */
    double effect; /* relative change of the plan's cost per relative change of the input */
};
#define AW_EXPLANATION_PUSHES_MAX 16u
/* By size of the effect, largest first; those without any are among them. */
AW_NODISCARD enum aw_err aw_explanation_pushes(const struct aw_explanation_snapshot *moment,
                                               const struct aw_alloc *alloc,
                                               struct aw_explanation_push *ret_pushes,
                                               uint32_t *ret_count, struct aw_diag *diag);

/* aw_pilot_forecast of that decision. Takes a tenth of a second. */
AW_NODISCARD enum aw_err aw_explanation_predict(const struct aw_explanation_snapshot *moment,
                                                const struct aw_alloc *alloc,
                                                struct aw_pilot_forecast *ret,
                                                struct aw_diag *diag);

/* All that is computed only on demand: `predicted` (SLO and cost before and after), `reasons`
 * (which inputs moved it most), `policy` (its numbers, where it has names for them), `replayed`
 * (whether taking the decision again gives `recorded`; NULL: not compared). */
AW_NODISCARD enum aw_err aw_explanation_detail(const struct aw_explanation_snapshot *moment,
                                               const char *recorded, const struct aw_alloc *alloc,
                                               json_t **ret_json, struct aw_diag *diag);

#endif
