/*
 * localize.h - which service is to blame for what requests take beyond their baseline.
 *
 * Of every service: its share of the excess over the baseline (exclusive time on the critical
 * path), its share of the latency's covariance (which sums to 1 over all services), how much of the
 * baseline's latency the excess is, and what is known of its CPU. Time of a call outside of its
 * server belongs to one of the two ends; which one is found by pursuit (below).
 * docs/algorithms/localization.md has the equations and the measurements behind them.
 *
 * The pursuit: the service that explains most of all edges' excess (the edges that come in before
 * and after the server, and those that go out, each at a level of its own) gets what it explains;
 * then the next, of what is left. A service that answers late slows every edge that comes in; one
 * that is short of CPU is late to accept calls and late to see answers. One slow edge among many
 * fast ones of its caller is the callee's.
 *
 * Call order: windows and profiles of both periods, then aw_localize; deinit the result.
 * Memory:     blocks of the result's allocator.
 * Threads:    no shared state.
 */
#ifndef AW_TRACE_LOCALIZE_H
#define AW_TRACE_LOCALIZE_H

#include "trace/profile.h"

#define AW_LOCALIZE_SERVICES_MAX 4096u
#define AW_LOCALIZE_REQUESTS_MIN 20u /* fewer are not enough to say anything */

/* What is known of a service beside its spans. NAN: not known. */
struct aw_evidence {
    uint32_t service;
    double cpu_use;   /* of its limit, the highest in the window: 1 is all of it */
    double cpu_rise;  /* of that over its usual value, of the limit */
    double cpu_z;     /* the same in spreads of its own history */
    double throttled; /* share of periods */
};

enum aw_feature {
    AW_FEATURE_EXCESS,     /* share of all services' excess */
    AW_FEATURE_COVARIANCE, /* share of the latency's variance */
    AW_FEATURE_GROWTH,     /* ln(1 + excess / baseline's latency) */
    AW_FEATURE_CPU_RISE,
    AW_FEATURE_CPU_Z, /* z / (z + 100) */
    AW_FEATURES
};
/* FIRM's two features (3.2.3), kept to compare with: PCC(T_i, T_CP) and ln(p99 / p50). */
enum { AW_PAPER_RELATIVE, AW_PAPER_CONGESTION, AW_PAPER_FEATURES };

enum aw_lacks { AW_LACKS_UNKNOWN, AW_LACKS_CPU, AW_LACKS_NETWORK };
const char *aw_lacks_name(enum aw_lacks lacks); /* "cpu", "network", "" */

struct aw_culprit {
    uint32_t service;
    double excess_ns;  /* a request, over the baseline: the sum of the three below */
    double own_ns;     /* of its own exclusive time */
    double called_ns;  /* of calls to it, outside of its spans */
    double calling_ns; /* of calls by it, outside of their servers */
    double feature[AW_FEATURES];
    double paper[AW_PAPER_FEATURES];
    struct aw_evidence evidence;
    enum aw_lacks lacks;
    double score; /* of the classifier; 0 before aw_classifier_judge */
};

struct aw_localization {
    struct aw_culprit *culprits; /* [count], by score once judged */
    uint32_t count;
    uint32_t requests;         /* of the window */
    uint32_t requests_matched; /* of a type that the baseline knows */
    double latency_ns;         /* typical, of those */
    double latency_base_ns;
    bool confident; /* the first is to blame; set by aw_classifier_judge */
    const struct aw_alloc *alloc;
};

/* `base` NULL: no baseline, covariance alone. `evidence` may be NULL, of `evidence_count`.
 * AW_ERR_NOMEM, AW_ERR_LIMIT: more than AW_LOCALIZE_SERVICES_MAX services. AW_ERR_NODATA: no
 * request. On failure the result is zeroed. */
AW_NODISCARD enum aw_err aw_localize(struct aw_localization *ret, const struct aw_window *window,
                                     const struct aw_span_profile *base,
                                     const struct aw_evidence *evidence, uint32_t evidence_count,
                                     const struct aw_alloc *alloc);
/* Fills `paper` of every culprit, which aw_localize leaves 0: slower than all the rest.
 * AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_localize_paper(struct aw_localization *localization,
                                           const struct aw_window *window);
void aw_localization_deinit(struct aw_localization *localization); /* zeroed is a no-op */

/* "+84 ms exclusive (71 % of the excess), CPU at 99 % of its limit: needs CPU". Returns `buf`. */
#define AW_CULPRIT_TEXT 256u
const char *aw_culprit_text(const struct aw_culprit *culprit, char *buf, size_t size);

#endif
