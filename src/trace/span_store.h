/*
 * span_store.h - requests that were seen, in a file of SQLite: their spans, and by the hour the
 * graph of services and calls, which any tool can ask.
 *
 *     trace(id, start_ns, latency_ns, type, spans, errors, otlp)   otlp: the spans, as protobuf
 *     service(hour, name, spans, errors, on_path_ns)
 *     call(hour, caller, callee, calls, errors, gap_ns)            hour: since 1970
 *
 * Call order: open; begin, add any number of times, commit; retain now and then; close. To read,
 *             open read only.
 * Memory:     one buffer for a request's bytes, and SQLite's.
 * Threads:    one owner at a time. Others may read the file while it is written.
 */
#ifndef AW_TRACE_SPAN_STORE_H
#define AW_TRACE_SPAN_STORE_H

#include "trace/request.h"

struct aw_span_store;

/* As aw_sqlite_open. */
AW_NODISCARD enum aw_err aw_span_store_open(struct aw_span_store **ret, const char *path,
                                            bool read_only, struct aw_diag *diag);
void aw_span_store_close(struct aw_span_store *store); /* NULL is a no-op */
/* Whether there is a file of SQLite at `path`: what it holds shows when it is opened. */
bool aw_span_store_is(const char *path);

AW_NODISCARD enum aw_err aw_span_store_begin(struct aw_span_store *store, struct aw_diag *diag);
/* A request of an id that is kept already is left as it was. `type` as aw_window_type. */
AW_NODISCARD enum aw_err aw_span_store_add(struct aw_span_store *store,
                                           const struct aw_request *request, uint32_t type,
                                           const struct aw_names *names, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_span_store_commit(struct aw_span_store *store, struct aw_diag *diag);
/* Ends what was begun, and keeps nothing of it. */
void aw_span_store_rollback(struct aw_span_store *store);

/* Drops what began before, and the oldest beyond `traces_max`. */
AW_NODISCARD enum aw_err aw_span_store_retain(struct aw_span_store *store, int64_t before_ns,
                                              uint64_t traces_max, struct aw_diag *diag);
AW_NODISCARD enum aw_err aw_span_store_count(struct aw_span_store *store, uint64_t *ret_traces,
                                             struct aw_diag *diag);
/* The spans of all requests, the latest first, until the list is full. */
AW_NODISCARD enum aw_err aw_span_store_read(struct aw_span_store *store, struct aw_spans *spans,
                                            struct aw_diag *diag);

#endif
