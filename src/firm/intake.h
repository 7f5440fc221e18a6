/*
 * intake.h - spans as they arrive, as the requests of a step: put together by trace, told apart by
 * type, and judged whether anything may be taken away on their word.
 *
 * The SLO is judged by the root spans. A step is in doubt where spans are late or missing (fewer
 * roots than the entry services were visited), where traces have holes (spans whose caller is
 * missing, traces without a root), where clocks are off by much of an SLO, and for a while after
 * any of these. In doubt nothing shrinks; that is the desk's to keep (manager.h, `doubt`). Whoever
 * is given something has to be short of it by its own group's figures, whatever spans say.
 *
 * Call order: new; take once a step; free.
 * Memory:     at new; a list of spans grows up to its maximum.
 * Threads:    single owner. Time is an argument.
 *
 * The trap: what take returns is good until it is called again.
 */
#ifndef AW_FIRM_INTAKE_H
#define AW_FIRM_INTAKE_H

#include "graph/world.h"
#include "trace/analysis.h"

#define AW_FIRM_QUIET_US     INT64_C(150000) /* a trace without news for so long is complete */
#define AW_FIRM_ROOTS_LEAST  0.8             /* of the requests that entry services have seen */
#define AW_FIRM_HOLES_MOST   0.2             /* share of traces with a caller or root missing */
#define AW_FIRM_SKEW_OF_SLO  0.1             /* by which a clock may be off, .. */
#define AW_FIRM_SKEWED_MOST  0.1             /* .. and in which share of traces further */
#define AW_FIRM_TRUST_STEPS  6u              /* good ones in a row before anything shrinks */
#define AW_FIRM_EXPECT_LEAST 5.0             /* requests of a step that say anything */
#define AW_FIRM_DOUBT_MAX    160u

struct aw_firm_taken {
    struct aw_spans *spans; /* of complete traces */
    const struct aw_graph_done *done;
    uint32_t done_count;
    bool doubt;
    const char *why; /* "": no doubt */
};

struct aw_firm_intake;

/* `names`: those of the spans that will come. `traced`: share of requests that leave spans.
 * AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_firm_intake_new(const struct aw_graph_app *app, struct aw_names *names,
                                            double traced, const struct aw_alloc *alloc,
                                            struct aw_firm_intake **ret);
void aw_firm_intake_free(struct aw_firm_intake *intake); /* NULL is a no-op */

/* One that has arrived, then; for those who know when. Before the step's take. */
void aw_firm_intake_push(struct aw_firm_intake *intake, const struct aw_span *span,
                         int64_t arrived_us);
/* `spans` [count] have arrived since the last step, `step_s` ago, beside those that were pushed. */
void aw_firm_intake_take(struct aw_firm_intake *intake, const struct aw_span *spans, uint32_t count,
                         const struct aw_graph_reading *readings, int64_t now_ns, double step_s,
                         struct aw_firm_taken *ret);
/* Of spans: arrived, late, dropped. */
struct aw_assembly_counts aw_firm_intake_counts(const struct aw_firm_intake *intake);

#endif
