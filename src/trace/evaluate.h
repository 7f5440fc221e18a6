/*
 * evaluate.h - learning from known faults, and how often the culprit is found.
 *
 * The protocol: learn on some faults, report on others. aw_evaluate judges all cases with what was
 * learned elsewhere; aw_evaluate_held_out learns, for every service in turn, on the faults of all
 * other services, and reports on its own.
 */
#ifndef AW_TRACE_EVALUATE_H
#define AW_TRACE_EVALUATE_H

#include "trace/cases.h"

struct aw_evaluation_part {
    uint32_t cases;
    uint32_t top1, top3, confident;
};
struct aw_evaluation {
    struct aw_evaluation_part part[AW_CASE_SORTS];
};

/* Learns from cases, but for those that `without` (a service; NULL: none) is the culprit of.
 * Resource faults are what is to be found; services in all other windows are not to blame.
 * AW_ERR_NODATA: no resource fault among them. */
AW_NODISCARD enum aw_err aw_evaluate_learn(struct aw_classifier *ret, const struct aw_cases *cases,
                                           const char *without, enum aw_features features,
                                           uint64_t seed, struct aw_diag *diag);
/* Fills rank, confident, first to third and text of every case. */
void aw_evaluate(struct aw_cases *cases, const struct aw_classifier *classifier,
                 struct aw_evaluation *ret);
/* AW_ERR_NODATA: fewer than two services have resource faults. */
AW_NODISCARD enum aw_err aw_evaluate_held_out(struct aw_cases *cases, enum aw_features features,
                                              uint64_t seed, struct aw_evaluation *ret,
                                              struct aw_diag *diag);

#endif
