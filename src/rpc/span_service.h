/*
 * span_service.h - OTLP over gRPC: what senders of spans expect on port 4317,
 * opentelemetry.proto.collector.trace.v1.TraceService/Export.
 *
 * Answers as OTLP's specification has them: OK, with a partial success where spans were rejected;
 * INVALID_ARGUMENT for what will never be taken; UNAVAILABLE when all is full, which senders try
 * again. Messages are up to AW_RPC_MESSAGE_BYTES_MAX.
 *
 * Call order: init; open a server with `service`; close that before the collector goes.
 * Memory:     none of its own.
 * Threads:    asked on the server's; the collector has a lock of its own.
 */
#ifndef AW_RPC_SPAN_SERVICE_H
#define AW_RPC_SPAN_SERVICE_H

#include "rpc/server.h"
#include "trace/collector.h"

#define AW_SPAN_SERVICE_PATH "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

/* `ret` borrows the collector. */
void aw_span_service_init(struct aw_rpc_service *ret, struct aw_collector *collector);

#endif
