/*
 * receiver.h - a door for spans over HTTP, by libmicrohttpd: OTLP (POST /v1/traces, protobuf or
 * JSON by its Content-Type) and Zipkin (POST /api/v2/spans), gzip either way.
 *
 * Answers as OTLP's specification has them: 200 with the response in the same encoding, and a
 * partial success where spans were rejected; 400, 413 and 415 for what will never be taken; 429
 * with Retry-After when all is full. Zipkin is answered with 202.
 *
 * Call order: open once there is a collector; close before it goes.
 * Memory:     bodies of up to AW_RECEIVER_BODY_MAX, also unpacked, and AW_RECEIVER_BODIES_MAX
 *             together; what is more is told to come again.
 * Threads:    one of its own, which takes no signals.
 *
 * The trap: without TLS a token beyond loopback can be read on the way.
 */
#ifndef AW_TRACE_RECEIVER_H
#define AW_TRACE_RECEIVER_H

#include "base/file.h"
#include "base/net.h"
#include "trace/collector.h"

#define AW_RECEIVER_PORT        4318
#define AW_RECEIVER_BODY_MAX    ((size_t)20 << 20) /* as the OpenTelemetry collector has it */
#define AW_RECEIVER_BODIES_MAX  ((size_t)64 << 20)
#define AW_RECEIVER_CONNECTIONS 256u
#define AW_RECEIVER_IDLE_S      30u
#define AW_RECEIVER_RETRY_S     1u

struct aw_receiver_config {
    struct sockaddr_in address;
    char token[AW_TOKEN_MAX];                 /* "": none is asked for */
    const char *tls_cert_path, *tls_key_path; /* PEM; both or none */
};

struct aw_receiver;

/* OTLP's ExportTraceServiceResponse: nothing where no span was rejected, else a partial success.
 * Returns its bytes. */
#define AW_RECEIVER_ANSWER_MAX 256u
size_t aw_receiver_answer(uint64_t rejected, uint8_t ret[AW_RECEIVER_ANSWER_MAX]);

/* AW_ERR_USAGE: reachable from other machines, and no token; a certificate without its key.
 * AW_ERR_CONFIG: they are not PEM. As aw_file_read, aw_net_listen. */
AW_NODISCARD enum aw_err aw_receiver_open(struct aw_receiver **ret,
                                          const struct aw_receiver_config *config,
                                          struct aw_collector *collector, struct aw_diag *diag);
void aw_receiver_close(struct aw_receiver *receiver); /* NULL is a no-op */
uint16_t aw_receiver_port(const struct aw_receiver *receiver);

#endif
