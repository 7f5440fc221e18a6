/*
 * tune.h - tunes a rule-based policy for one application, as well as its users could.
 *
 * What is tuned depends on the kind:
 *
 *   hpa          CPU of a replica, HPA target, then memory from the peak that was seen
 *   hpa+vpa-mem  CPU of a replica, HPA target
 *   hpa+vpa      HPA target (the VPA sets the rest)
 *   constant     the three numbers of its action
 *   aimd         the largest replica (of the task's bounds), step, decrease, slack and period
 *   others       nothing
 *
 * Goal `slo`: of all that keep the SLO budget the cheapest; for a given size that is the highest
 * target, found by bisection, because violations grow with it. Where nothing keeps the budget, what
 * violates least. Goal `reward`: the highest reward of the paper.
 *
 * Call order: one call. The caller runs the policy in `evaluate`, on load that is not reported.
 * Memory:     none.
 * Threads:    pure, apart from `evaluate`. Same answers, same result.
 *
 * The trap: an evaluation must use the same chance every time, or noise is what gets tuned.
 */
#ifndef AW_FALLBACK_TUNE_H
#define AW_FALLBACK_TUNE_H

#include "fallback/fallback.h"

enum aw_tune_goal { AW_TUNE_SLO, AW_TUNE_REWARD };

struct aw_tune_config {
    enum aw_tune_goal goal;
    double slo_budget;        /* share of steps */
    uint32_t evaluations_max; /* at least 1 */
};

/* What one evaluation says. */
struct aw_tune_result {
    double violation_share;
    double cost;              /* per hour, or any other time that is the same for all */
    double reward;            /* per episode, likewise */
    double memory_bytes_peak; /* highest replica, highest moment */
};

/* On failure the tuning ends with the same error. */
typedef enum aw_err aw_tune_evaluate(void *ctx, const struct aw_fallback_settings *settings,
                                     const struct aw_fallback_task *task,
                                     struct aw_tune_result *ret, struct aw_diag *diag);

/* `settings` and `task` hold where to begin, and get the best that was found, with its result in
 * `ret`. On failure none of them is changed. `ret_evaluations` may be NULL. */
AW_NODISCARD enum aw_err aw_tune(const struct aw_tune_config *config, aw_tune_evaluate *evaluate,
                                 void *ctx, struct aw_fallback_settings *settings,
                                 struct aw_fallback_task *task, struct aw_tune_result *ret,
                                 uint32_t *ret_evaluations, struct aw_diag *diag);

/* Whether `a` is to be preferred to `b`. */
bool aw_tune_better(const struct aw_tune_config *config, const struct aw_tune_result *a,
                    const struct aw_tune_result *b);

#endif
