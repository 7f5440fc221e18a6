/*
 * exporter.h - spans of this process to an OTLP receiver over HTTP: in batches, bounded.
 *
 * Whoever makes a span never waits: it goes into a ring, and a thread sends what is there ten times
 * a second. What does not fit, and what the receiver does not take, is counted and gone. While the
 * receiver is away everything else goes on.
 *
 * Call order: new; names before the first span; put from any thread; free, which sends what is
 *             left once.
 * Memory:     a ring of AW__EXPORTER_SPANS, and the bytes of one batch.
 * Threads:    put and counts from any; names by one, before threads begin.
 */
#ifndef AW_SERVICE_EXPORTER_H
#define AW_SERVICE_EXPORTER_H

#include <netinet/in.h>

#include "trace/span.h"

#define AW__EXPORTER_SPANS 8192u
#define AW__EXPORTER_BATCH 2048u
#define AW__EXPORTER_US    100000

struct aw__exporter_counts {
    uint64_t sent;    /* spans that the receiver has taken */
    uint64_t full;    /* that found no room */
    uint64_t refused; /* that no receiver took */
    uint64_t batches; /* that were tried */
};

struct aw__exporter;
AW_NODISCARD enum aw_err aw__exporter_new(struct aw__exporter **ret,
                                          const struct sockaddr_in *address, struct aw_diag *diag);
void aw__exporter_free(struct aw__exporter *exporter); /* NULL is a no-op */
/* A number for spans. */
uint32_t aw__exporter_name(struct aw__exporter *exporter, const char *text);
void aw__exporter_put(struct aw__exporter *exporter, const struct aw_span *span);
void aw__exporter_counts(struct aw__exporter *exporter, struct aw__exporter_counts *ret);

#endif
