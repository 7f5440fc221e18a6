/*
 * balancer.h - one port in front of many replicas: HTTP/1.1, on a thread of its own.
 *
 * Clients come over TCP. A replica that listens on the Unix socket it was offered is asked there,
 * which costs the kernel half as much as a second connection over TCP; every other one is asked on
 * its port. A health check finds out which, each time. One that listens there and knows trunks
 * (base/mux_frame.h), is asked many things at once on one connection.
 *
 * Every request goes to the ready replica that has the fewest in flight. A replica is ready once
 * its health check has answered, and no longer after several that have not. A request whose
 * connection could not be made, or was found closed before a byte of it was taken, is tried
 * elsewhere; one of which a replica may have seen a byte never is: the client gets 502. While no
 * replica is ready requests wait, for a bounded time.
 *
 * Call order: new; set modes of slots as replicas come and go; views and counts at any time; shut
 *             (no new connections) and free.
 * Memory:     all at new.
 * Threads:    one of its own does everything; every function here may be called from any thread,
 *             but new and free from one.
 *
 * Books: arrivals = completions + failures of all kinds + aborted + in flight, whenever it rests.
 * The trap: DRAIN is an order, and an order is carried out by another thread. Do not end a replica
 * before aw__balancer_view says that the order was seen and nothing is in flight.
 */
#ifndef AW_CLUSTER_LOCAL_BALANCER_H
#define AW_CLUSTER_LOCAL_BALANCER_H

#include "base/alloc.h"
#include "base/latency_histogram.h"

#include <stddef.h>

#define AW__BALANCER_SLOTS_MAX   320u /* replicas of a workload, and those that still drain */
#define AW__BALANCER_CLIENTS_MAX 16384u
#define AW__BALANCER_PATH_MAX    128u

/* Of bytes, as a replica sees it. */
enum aw__meter_way { AW__METER_IN, AW__METER_OUT, AW__METER_WAYS };

struct aw__balancer_config {
    uint16_t port; /* on 127.0.0.1; 0: any that is free */
    uint32_t slots, clients;
    char health_path[AW__BALANCER_PATH_MAX]; /* "": accepting a connection is healthy enough */
    int64_t health_period_us, health_timeout_us;
    uint32_t health_failures;   /* in a row: no longer ready */
    int64_t connect_timeout_us; /* then it is tried elsewhere */
    int64_t wait_us;            /* for a ready replica: then 503 */
    int64_t request_timeout_us; /* then 504; also the latency of every request that failed */
    int64_t idle_us;            /* connections to replicas are kept so long; to clients ten times */
    int64_t network_bytes_per_s[AW__METER_WAYS]; /* of each replica; 0: no limit */
};

enum aw__backend_mode { AW__BACKEND_OFF, AW__BACKEND_ON, AW__BACKEND_DRAIN };

/* Of one slot. */
struct aw__backend_view {
    bool seen;      /* the last set has been carried out */
    bool ready;     /* takes requests */
    bool is_unix;   /* over its Unix socket */
    bool has_trunk; /* and there on one connection for many requests */
    uint32_t in_flight;
    uint64_t connect_failures;
};

/* Since new. */
struct aw__balancer_counts {
    uint64_t arrivals, completions;
    uint64_t refused;   /* 503: no replica was ready, or none could be reached */
    uint64_t lost;      /* a replica took it, or a part, and did not answer it whole */
    uint64_t timed_out; /* 504 */
    uint64_t failed;    /* answered by the replica with 5xx */
    uint64_t aborted;   /* the client went away, or wrote no HTTP */
    uint64_t retries;   /* tried elsewhere */
    uint64_t bytes;     /* to and from replicas */
    uint64_t in_flight; /* now */
    uint64_t clients;   /* connected now */
};

struct aw__balancer; /* opaque */

AW_NODISCARD enum aw_err aw__balancer_new(const struct aw__balancer_config *config,
                                          const struct aw_alloc *alloc,
                                          struct aw__balancer **ret_balancer, struct aw_diag *diag);
void aw__balancer_free(struct aw__balancer *balancer); /* NULL is a no-op */
uint16_t aw__balancer_port(const struct aw__balancer *balancer);

/* ON: a new replica listens on 127.0.0.1:port and perhaps, in its own time, on a Unix socket at
 * `path` (NULL or "": never), ready as soon as it answers. A path that is too long for a socket is
 * ignored. Both are ignored with the other modes. OFF: nothing is in flight there any more. What
 * the replica has said before is passed on all the same, however slow the client; what it has not
 * answered by then is lost. */
void aw__balancer_set(struct aw__balancer *balancer, uint32_t slot, enum aw__backend_mode mode,
                      uint16_t port, const char *path);
/* Another limit for every replica from now on; 0: none. */
void aw__balancer_network(struct aw__balancer *balancer, enum aw__meter_way way,
                          int64_t bytes_per_s);
void aw__balancer_view(const struct aw__balancer *balancer, uint32_t slot,
                       struct aw__backend_view *ret);
void aw__balancer_counts(const struct aw__balancer *balancer, struct aw__balancer_counts *ret);
void aw__balancer_latency(const struct aw__balancer *balancer, struct aw_latency_histogram *ret);
/* No connection is taken any more; what is in flight ends. */
void aw__balancer_shut(struct aw__balancer *balancer);

#endif
