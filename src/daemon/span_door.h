/*
 * span_door.h - the door of a daemon for spans: OTLP over HTTP and gRPC, Zipkin; requests are kept
 * in traces.db of the state directory, which all verbs of `aware trace` read.
 *
 * Call order: open, close.
 * Memory:     the collector's and the servers', bounded.
 * Threads:    theirs, and one that puts requests together. None of them is the loop's: a flood of
 *             spans costs spans.
 */
#ifndef AW_DAEMON_SPAN_DOOR_H
#define AW_DAEMON_SPAN_DOOR_H

#include "daemon/config.h"

struct aw__span_door; /* opaque */

/* NULL without failure: neither address was asked for. */
AW_NODISCARD enum aw_err aw__span_door_open(struct aw__span_door **ret,
                                            const struct aw_daemon_config *config,
                                            struct aw_log *log, struct aw_diag *diag);
void aw__span_door_close(struct aw__span_door *door); /* NULL is a no-op */

#endif
