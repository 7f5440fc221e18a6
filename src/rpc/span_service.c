/* span_service.c - see span_service.h. */
#include "rpc/span_service.h"

#include <string.h>

#include "base/clock.h"
#include "trace/receiver.h"

static void export(void *ctx, const uint8_t *bytes, size_t size, struct aw_rpc_reply *reply)
{
    struct aw_diag diag = {0};
    uint8_t answer[AW_RECEIVER_ANSWER_MAX];
    uint64_t rejected = 0;
    const enum aw_err err =
        aw_collector_take(ctx, size ? (const char *)bytes : "", size, AW_SPANS_OTLP,
                          aw_clock_now_us(NULL), &rejected, &diag);
    if (err == AW_ERR_UNAVAILABLE || err == AW_ERR_NOMEM) {
        aw_rpc_reply_fail(reply, AW_RPC_UNAVAILABLE, "%.200s", diag.text);
        return;
    }
    if (err) {
        aw_rpc_reply_fail(reply, AW_RPC_INVALID_ARGUMENT, "%.200s", diag.text);
        return;
    }
    const size_t len = aw_receiver_answer(rejected, answer);
    uint8_t *room = aw_rpc_reply_room(reply, len);
    if (room && len)
        memcpy(room, answer, len);
}

static const struct aw_rpc_method methods[] = {
    {.path = AW_SPAN_SERVICE_PATH, .kind = AW_RPC_UNARY, .unary = export},
    {.path = NULL},
};

void aw_span_service_init(struct aw_rpc_service *ret, struct aw_collector *collector)
{
    *ret = (struct aw_rpc_service){.name = "opentelemetry.proto.collector.trace.v1.TraceService",
                                   .methods = methods,
                                   .ctx = collector};
}
