/* experiment_graph.h - what the experiments on graphs of services share. */
#ifndef AW_STUDY_EXPERIMENT_GRAPH_H
#define AW_STUDY_EXPERIMENT_GRAPH_H

#include "firm/lesson.h"
#include "firm/trial.h"
#include "study/experiment_internal.h"

#define AW__GRAPHS 4u
#define AW__GRAPH_SEEN \
    0u /* train-ticket: all that is learned and tuned is of it; the rest report */

struct aw__graphs {
    struct aw_graph_app app[AW__GRAPHS];
    struct aw_calibration calibration[AW__GRAPHS];
};
/* Calibrates them, as pieces. The caller frees it. */
AW_NODISCARD enum aw_err aw__graphs_new(const struct aw_experiment_config *config,
                                        const struct aw_alloc *alloc, struct aw__graphs **ret,
                                        struct aw_diag *diag);

/* A mean over `groups` (seeds) of `count` with its interval. */
struct aw_study_report_figure *aw__graph_figure(struct aw_study_report *report,
                                                enum aw_study_report_unit unit, const double *x,
                                                uint32_t groups, uint32_t count, double paper,
                                                double goal, bool lower, const char *name);

#endif
