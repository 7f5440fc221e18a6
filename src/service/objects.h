/*
 * objects.h - a small object server: what the segments that read, write and stream objects talk to.
 *
 *     PUT /name?delay_us=N            keeps the body under that name
 *     GET /name?delay_us=N&parts=M    gives it back, in M parts spread over the delay
 *     GET /healthz
 *
 * The delay is the thinking time of a store on the network, set by the client that plays one; it
 * costs no CPU. Objects live in memory; there is a limit on each and on all together.
 *
 * Call order: run, which returns after SIGTERM or SIGINT; or start and stop, for one beside a
 *             service in the same process.
 * Memory:     blocks at the start, and one per object.
 * Threads:    serves from one thread.
 */
#ifndef AW_SERVICE_OBJECTS_H
#define AW_SERVICE_OBJECTS_H

#include "base/alloc.h"

#define AW_OBJECTS_MAX           1024u
#define AW_OBJECTS_NAME_MAX      64u
#define AW_OBJECTS_BYTES_MAX     ((uint64_t)8 << 20)   /* of one */
#define AW_OBJECTS_ALL_BYTES_MAX ((uint64_t)512 << 20) /* of all together */
#define AW_OBJECTS_DELAY_US_MAX  25000000

struct aw_objects_config {
    int listen_fd; /* taken over, and closed */
    int signal_fd; /* borrowed; -1: none */
    uint32_t connections_max;
    const struct aw_alloc *alloc;
};

AW_NODISCARD enum aw_err aw_objects_run(const struct aw_objects_config *config,
                                        struct aw_diag *diag);

struct aw_objects;
AW_NODISCARD enum aw_err aw_objects_start(const struct aw_objects_config *config,
                                          struct aw_objects **ret_objects, struct aw_diag *diag);
void aw_objects_stop(struct aw_objects *objects); /* waits for its thread; NULL is a no-op */

#endif
