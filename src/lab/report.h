/*
 * report.h - one run after another as a page: plots over time, a summary, no other file needed.
 *
 * Call order: new, one series per policy filled by add (a step each, in order), write, free.
 * Memory:     sized at new; where a run has more steps than a page has points, several become one.
 * Threads:    each series has one owner.
 */
#ifndef AW_LAB_REPORT_H
#define AW_LAB_REPORT_H

#include "lab/simulate.h"

#define AW__REPORT_POINTS_MAX 4000u /* of one policy */

/* How a figure of a summary is written. */
enum aw__figure_kind { AW__FIGURE_PLAIN, AW__FIGURE_SHARE, AW__FIGURE_TIME, AW__FIGURE_MONEY };
enum aw__figure_kind aw__simulate_kind(uint32_t column);
/* Whether a policy may be the best of a column. */
bool aw__simulate_competes(const struct aw__simulate *ask,
                           const struct aw_simulate_summary *summary, uint32_t column,
                           uint32_t policy);
/* What a policy was set to, in a few words. Returns `buf` or a constant text. */
const char *aw__simulate_tuned(const struct aw__simulate *ask, uint32_t policy,
                               const struct aw_simulate_summary *summary, char *buf, size_t size);

struct aw__report; /* opaque */

AW_NODISCARD enum aw_err aw__report_new(const struct aw__simulate *ask, struct aw__report **ret,
                                        struct aw_diag *diag);
void aw__report_free(struct aw__report *report); /* NULL is a no-op */
void aw__report_add(struct aw__report *report, uint32_t policy,
                    const struct aw_simulate_step *step);
/* Replaces `path`, wholly or not at all. */
AW_NODISCARD enum aw_err aw__report_write(const struct aw__report *report,
                                          const struct aw_simulate_summary *summary,
                                          const char *path, struct aw_diag *diag);

#endif
