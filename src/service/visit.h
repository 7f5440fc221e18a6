/*
 * visit.h - a visit of a service of a graph: its work, then its calls, as its ServiceGraph says.
 *
 * Work is real: CPU time of the thread, bytes of memory walked through, bytes written past the page
 * cache to a file without a name. Calls are real requests with a W3C traceparent; those of par(..)
 * go out at once, as far as there are helpers who are free, those of async(..) are waited for by
 * nobody. Spans of server, client and what goes on in the background are handed to an exporter.
 *
 * Call order: new; run from as many threads as wanted; free, which waits for the background.
 * Memory:     at new.
 * Threads:    helpers of its own; run from any.
 */
#ifndef AW_SERVICE_VISIT_H
#define AW_SERVICE_VISIT_H

#include "graph/app.h"
#include "service/exporter.h"

#define AW__VISIT_QUEUE 256u /* calls in the background that wait for a helper; more are dropped */
#define AW__VISIT_DISK  (INT64_C(16) << 20) /* bytes of the file that visits write into */

struct aw__visits_config {
    const struct aw_graph_app *app; /* borrowed */
    uint32_t service;
    const char *peers;         /* file: lines of "SERVICE PORT", on 127.0.0.1 */
    const char *temp_dir;      /* on a disk that can be written past the page cache */
    struct sockaddr_in traces; /* a receiver of OTLP; port 0: none */
    uint32_t helpers;
    int64_t call_timeout_us;
    uint64_t seed;
};

/* Who asked, as the header says; trace 0: nobody has begun a trace. */
struct aw__traceparent {
    uint64_t trace_hi, trace_lo, parent;
    bool sampled;
    bool background; /* nobody waits for the answer (beside the header: `x-background: 1`) */
};
/* "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" (W3C Trace Context, level 1). False:
 * none, or malformed, and then a new trace is begun. */
bool aw__traceparent_read(const char *text, size_t len, struct aw__traceparent *ret);
#define AW__TRACEPARENT_MAX 56u
const char *aw__traceparent_print(const struct aw__traceparent *from,
                                  char buf[AW__TRACEPARENT_MAX]);

struct aw__visits_counts {
    uint64_t calls, calls_failed;
    uint64_t background_dropped; /* found no helper, nor a place to wait for one */
    uint64_t disk_bytes, disk_failed;
    struct aw__exporter_counts spans;
};

struct aw__visits;
AW_NODISCARD enum aw_err aw__visits_new(struct aw__visits **ret,
                                        const struct aw__visits_config *config,
                                        struct aw_diag *diag);
void aw__visits_free(struct aw__visits *visits); /* NULL is a no-op */
/* `op` of this service, asked for at `arrived_ns` (since 1970). `alone`: calls nobody. False: it
 * failed, here or below. */
bool aw__visits_run(struct aw__visits *visits, uint32_t op, const struct aw__traceparent *from,
                    int64_t arrived_ns, bool alone);
void aw__visits_counts(struct aw__visits *visits, struct aw__visits_counts *ret);

#endif
