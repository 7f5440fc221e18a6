/*
 * evaluate.h - what the files of the verb `evaluate` share: what was asked, and how it is printed.
 *
 * Memory:  everything is sized by what was asked.
 * Threads: single owner.
 */
#ifndef AW_LAB_EVALUATE_H
#define AW_LAB_EVALUATE_H

#include "frame/verb.h"
#include "policy/models.h"
#include "study/evaluate.h"

enum aw__evaluate_what {
    AW__EVALUATE_BOOTSTRAP,
    AW__EVALUATE_CONVERGED,
    AW__EVALUATE_DISTURBED,
    AW__EVALUATE_ESTIMATES,
    AW__EVALUATE_DAY
};

enum aw__evaluate_format {
    AW__EVALUATE_TEXT,
    AW__EVALUATE_MARKDOWN,
    AW__EVALUATE_JSON,
    AW__EVALUATE_CSV
};

struct aw__evaluate {
    struct aw_evaluate_config config;
    enum aw__evaluate_what what;
    enum aw__evaluate_format format;
    bool paper; /* the paper's preset */
    uint64_t pool;
    uint32_t first, count; /* applications of the pool */
    struct aw_evaluate_app *apps;
    struct aw_model_shelf *shelf;   /* of config.pilot.model; NULL: none */
    struct aw_evaluate_shelf doors; /* of `baselines` */
    char baselines[AW_TEXT_MAX];    /* folder of those that were tuned before; empty: none */
    char load[512];                 /* as asked, without directories */
    char command[1024];             /* that makes the same table */
    double seconds;                 /* that it took */
};

/* Tuned baselines are taken from `folder`, and kept there. */
AW_NODISCARD enum aw_err aw__evaluate_baselines(struct aw__evaluate *ask, const char *folder,
                                                struct aw_diag *diag);

/* Each prints one whole document to stdout. */
enum aw_err aw__evaluate_print_bootstrap(const struct aw_call *run, const struct aw__evaluate *ask,
                                         const struct aw_evaluate_bootstrap *rows,
                                         const struct aw_evaluate_bootstrap_sum *sum,
                                         struct aw_diag *diag);
enum aw_err aw__evaluate_print_converged(const struct aw_call *run, const struct aw__evaluate *ask,
                                         const struct aw_evaluate_converged *rows,
                                         const struct aw_evaluate_converged_sum *sum,
                                         struct aw_diag *diag);
enum aw_err aw__evaluate_print_disturbed(const struct aw_call *run, const struct aw__evaluate *ask,
                                         const struct aw_evaluate_disturbed *rows,
                                         uint32_t row_count,
                                         const struct aw_evaluate_disturbed_sum *sum,
                                         struct aw_diag *diag);
enum aw_err aw__evaluate_print_estimates(const struct aw_call *run, const struct aw__evaluate *ask,
                                         const struct aw_evaluate_estimate *rows,
                                         uint32_t row_count,
                                         const struct aw_evaluate_estimates_sum *sum,
                                         struct aw_diag *diag);

enum aw_err aw__evaluate_print_day(const struct aw_call *run, const struct aw__evaluate *ask,
                                   const struct aw_evaluate_day *rows,
                                   const struct aw_evaluate_day_sum *sum, struct aw_diag *diag);

enum aw_err aw__evaluate_print_drift(const struct aw_call *run, const struct aw__evaluate *ask,
                                     const struct aw_evaluate_drift *rows, uint32_t row_count,
                                     const struct aw_evaluate_drift_sum *sum, struct aw_diag *diag);

#endif
