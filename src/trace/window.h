/*
 * window.h - the requests of a period, reduced to what localization needs: of each, its type, its
 * latency, and how the latency divides into parts.
 *
 * A part is the exclusive time of a service on the critical path, or the time of a call outside of
 * its server: the gap of an edge, caller to callee. Parts of a request sum to its latency exactly.
 * Of every call, on the path or not, the gap is kept beside, to find out whose fault gaps are.
 *
 * Call order: new; add requests; read; reset for the next period; free.
 * Memory:     grows up to the maxima below; beyond them requests are counted and left out.
 * Threads:    single owner. Names are those of the spans' list, which must outlive the window.
 */
#ifndef AW_TRACE_WINDOW_H
#define AW_TRACE_WINDOW_H

#include "trace/request.h"

#define AW_WINDOW_PARTS_MAX    4096u /* services and edges */
#define AW_WINDOW_REQUESTS_MAX (1u << 20)
#define AW_WINDOW_SHARES_MAX   (16u << 20)
#define AW_WINDOW_CALLS_MAX    (8u << 20)

struct aw_part {
    uint32_t service; /* name: whose time it is; of an edge, the callee */
    uint32_t caller;  /* name; AW_NAME_NONE: not an edge */
};

struct aw_share {
    uint32_t part;
    int64_t ns;
};

struct aw_call_gap {
    uint32_t part;               /* the edge */
    int64_t before_ns, after_ns; /* from the client's start to the server's, and back */
};

struct aw_window_request {
    uint32_t type; /* a name */
    uint32_t root_service;
    int64_t start_ns, latency_ns;
    uint32_t share_first, share_count;
    bool failed; /* its root has an error */
};

struct aw_window {
    struct aw_part *parts;
    struct aw_window_request *requests;
    struct aw_share *shares;
    struct aw_call_gap *calls;
    uint32_t part_count, request_count, share_count, call_count;
    uint32_t part_room, request_room, share_room, call_room;
    uint64_t dropped;           /* requests beyond a maximum, or out of memory */
    struct aw_hash_table index; /* of parts */
    int64_t *sum;               /* [part_room]: of the request that is being added */
    uint32_t *touched;          /* [part_room] */
    struct aw_names *names;
    const struct aw_alloc *alloc;
};

/* AW_ERR_NOMEM: left zeroed. */
AW_NODISCARD enum aw_err aw_window_init(struct aw_window *window, struct aw_names *names,
                                        const struct aw_alloc *alloc);
void aw_window_deinit(struct aw_window *window); /* zeroed is a no-op */
void aw_window_reset(struct aw_window *window);  /* keeps parts and memory */

/* False: left out, and counted. */
bool aw_window_add(struct aw_window *window, const struct aw_request *request);

/* The type of a request: service and operation of its root; behind a gateway that only passes on,
 * those of what it calls beside. */
uint32_t aw_window_type(struct aw_names *names, const struct aw_request *request);

#endif
