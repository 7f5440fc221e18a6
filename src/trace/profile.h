/*
 * profile.h - a window of requests as typical figures: what each part takes in a request of each
 * type, and what the calls of each edge take outside of their server.
 *
 * Typical is the winsorised mean: what lies above the 90th percentile counts as that. A mean would
 * be one slow request's, a median would not see a fault that hits a third of the requests.
 *
 * A profile of fault-free requests is the baseline of localize.h.
 *
 * Call order: make from a window, or several; deinit.
 * Memory:     blocks of its own; the window is not needed any more.
 * Threads:    read by any number.
 */
#ifndef AW_TRACE_PROFILE_H
#define AW_TRACE_PROFILE_H

#include "trace/window.h"

#define AW_TYPICAL_QUANTILE 0.9

struct aw_profile_type {
    uint32_t type; /* name */
    uint32_t requests;
    double latency_ns;
};

struct aw_profile_part {
    uint32_t type, caller, service; /* names; caller AW_NAME_NONE: the service's own time */
    double ns;                      /* of a request; requests without it count as 0 */
};

struct aw_profile_edge {
    uint32_t caller, service;
    uint32_t calls;
    double side_ns[2]; /* before the server begins, after it has ended */
};

struct aw_span_profile {
    struct aw_profile_type *types; /* all three sorted by their names' numbers */
    struct aw_profile_part *parts;
    struct aw_profile_edge *edges;
    uint32_t type_count, part_count, edge_count;
    const struct aw_alloc *alloc;
};

/* Of requests `first`, `first` + `step`, ... of a window: 0 and 1 for all. Calls are of all of it.
 * AW_ERR_NOMEM: left zeroed. */
AW_NODISCARD enum aw_err aw_profile_make(struct aw_span_profile *profile,
                                         const struct aw_window *window, uint32_t first,
                                         uint32_t step, const struct aw_alloc *alloc);
void aw_profile_deinit(struct aw_span_profile *profile); /* zeroed is a no-op */

/* NULL: not there. */
const struct aw_profile_type *aw_profile_type(const struct aw_span_profile *profile, uint32_t type);
const struct aw_profile_edge *aw_profile_edge(const struct aw_span_profile *profile,
                                              uint32_t caller, uint32_t service);
double aw_profile_part_ns(const struct aw_span_profile *profile, uint32_t type, uint32_t caller,
                          uint32_t service); /* 0: not there */
bool aw_profile_has_part(const struct aw_span_profile *profile, uint32_t type, uint32_t caller,
                         uint32_t service);

/* The winsorised mean of `sorted` values, in front of which `zeros` stand. */
double aw_typical(const double *sorted, size_t count, size_t zeros);

#endif
