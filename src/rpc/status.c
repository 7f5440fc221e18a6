/* status.c - operating errors as gRPC's status codes and back; what a handler answers. */
#include <grpc/grpc.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rpc/call.h"
#include "rpc/server.h"

_Static_assert(sizeof(grpc_slice) <= AW_RPC_SLICE_BYTES, "a reply has room for a slice");

enum aw_rpc_status aw_rpc_status_of(enum aw_err err)
{
    switch (err) {
    case AW_OK:
        return AW_RPC_OK;
    case AW_ERR_NOMEM:
    case AW_ERR_LIMIT:
        return AW_RPC_RESOURCE_EXHAUSTED;
    case AW_ERR_NOTFOUND:
    case AW_ERR_NODATA:
        return AW_RPC_NOT_FOUND;
    case AW_ERR_EXISTS:
        return AW_RPC_ALREADY_EXISTS;
    case AW_ERR_CONFLICT:
        return AW_RPC_FAILED_PRECONDITION;
    case AW_ERR_USAGE:
    case AW_ERR_CONFIG:
    case AW_ERR_FORMAT:
        return AW_RPC_INVALID_ARGUMENT;
    case AW_ERR_RANGE:
        return AW_RPC_OUT_OF_RANGE;
    case AW_ERR_UNSUPPORTED:
        return AW_RPC_UNIMPLEMENTED;
    case AW_ERR_UNAVAILABLE:
        return AW_RPC_UNAVAILABLE;
    case AW_ERR_DEADLINE:
        return AW_RPC_DEADLINE_EXCEEDED;
    case AW_ERR_INTERRUPTED:
        return AW_RPC_CANCELLED;
    case AW_ERR_IO:
    case AW_ERR_DIVERGED:
    case AW_ERR_CHECK:
    case AW_ERR_COUNT:
        break;
    }
    return AW_RPC_INTERNAL;
}

enum aw_err aw_rpc_status_err(enum aw_rpc_status status)
{
    switch (status) {
    case AW_RPC_OK:
        return AW_OK;
    case AW_RPC_CANCELLED:
        return AW_ERR_INTERRUPTED;
    case AW_RPC_INVALID_ARGUMENT:
    case AW_RPC_UNAUTHENTICATED:
    case AW_RPC_PERMISSION_DENIED:
        return AW_ERR_CONFIG;
    case AW_RPC_DEADLINE_EXCEEDED:
        return AW_ERR_DEADLINE;
    case AW_RPC_NOT_FOUND:
        return AW_ERR_NOTFOUND;
    case AW_RPC_ALREADY_EXISTS:
        return AW_ERR_EXISTS;
    case AW_RPC_RESOURCE_EXHAUSTED:
        return AW_ERR_LIMIT;
    case AW_RPC_ABORTED:
    case AW_RPC_FAILED_PRECONDITION:
        return AW_ERR_CONFLICT;
    case AW_RPC_OUT_OF_RANGE:
        return AW_ERR_RANGE;
    case AW_RPC_UNIMPLEMENTED:
        return AW_ERR_UNSUPPORTED;
    case AW_RPC_UNAVAILABLE:
        return AW_ERR_UNAVAILABLE;
    case AW_RPC_UNKNOWN:
    case AW_RPC_INTERNAL:
    case AW_RPC_DATA_LOSS:
        break;
    }
    return AW_ERR_IO;
}

const char *aw_rpc_status_name(enum aw_rpc_status status)
{
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };
    return (size_t)status < sizeof names / sizeof *names ? names[status] : "?";
}

uint8_t *aw_rpc_reply_room(struct aw_rpc_reply *reply, size_t size)
{
    aw__reply_drop(reply);
    if (size > AW_RPC_MESSAGE_BYTES_MAX) {
        aw_rpc_reply_fail(reply, AW_RPC_RESOURCE_EXHAUSTED,
                          "the answer has %zu bytes, more than %u", size, AW_RPC_MESSAGE_BYTES_MAX);
        return NULL;
    }
    /* a small slice would lie inside the struct, and its bytes would move with it */
    grpc_slice slice = grpc_slice_malloc_large(size);
    memcpy(reply->slice, &slice, sizeof slice);
    reply->filled = true;
    return slice.data.refcounted.bytes;
}

bool aw_rpc_reply_defer(struct aw_rpc_reply *reply)
{
    AW_ASSERT(!reply->can_defer || !reply->filled);
    reply->deferred = reply->can_defer;
    return reply->deferred;
}

void aw__reply_drop(struct aw_rpc_reply *reply)
{
    if (reply->filled)
        grpc_slice_unref(aw__reply_slice(reply));
    reply->filled = false;
}

grpc_slice aw__reply_slice(const struct aw_rpc_reply *reply)
{
    grpc_slice slice;
    memcpy(&slice, reply->slice, sizeof slice);
    return slice;
}

void aw_rpc_reply_fail(struct aw_rpc_reply *reply, enum aw_rpc_status status, const char *fmt, ...)
{
    va_list args;
    reply->status = status;
    va_start(args, fmt);
    vsnprintf(reply->text, sizeof reply->text, fmt, args);
    va_end(args);
}

void aw_rpc_reply_err(struct aw_rpc_reply *reply, enum aw_err err, const struct aw_diag *diag)
{
    char line[AW_DIAG_FILE_MAX + AW_DIAG_KEY_MAX + AW_DIAG_TEXT_MAX + 64];
    aw_rpc_reply_fail(reply, aw_rpc_status_of(err), "%s",
                      aw_diag_format(diag, err, line, sizeof line));
}
