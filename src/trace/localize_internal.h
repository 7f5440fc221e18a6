/* localize_internal.h - what the parts of localization share. */
#ifndef AW_TRACE_LOCALIZE_INTERNAL_H
#define AW_TRACE_LOCALIZE_INTERNAL_H

#include "trace/localize.h"

struct aw__edge {
    uint32_t caller, callee; /* places among the services */
    uint32_t calls;
    double excess_ns[2];  /* of a call, over the baseline: before the server, after it */
    double callers_share; /* out: 0 to 1 */
};

struct aw__edges {
    struct aw__edge *at;
    uint32_t count;
    double *mean_ns; /* of each type of the window's profile: its latency */
};

/* Fills callers_share. AW_ERR_NOMEM. */
enum aw_err aw__pursue(struct aw__edges *edges, uint32_t service_count,
                       const struct aw_alloc *alloc);
/* The place of a service, which must be there. */
uint32_t aw__localize_find(const struct aw_localization *at, uint32_t service);

#endif
