/* library.c - see library.h. */
#include "rpc/library.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdlib.h>

static void say_nothing(gpr_log_func_args *args)
{
    (void)args;
}

static void silence(void)
{
    if (!getenv("GRPC_VERBOSITY") && !getenv("GRPC_TRACE"))
        gpr_set_log_function(say_nothing);
}

void aw__library_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, silence);
    grpc_init();
}

void aw__library_close(void)
{
    grpc_shutdown();
}

bool aw__message_flatten(grpc_byte_buffer *buffer, grpc_slice *ret_slice)
{
    grpc_byte_buffer_reader reader;
    size_t total = grpc_byte_buffer_length(buffer);
    if (!grpc_byte_buffer_reader_init(&reader, buffer))
        return false;
    grpc_slice first;
    if (!grpc_byte_buffer_reader_next(&reader, &first)) {
        *ret_slice = grpc_empty_slice();
    } else if (GRPC_SLICE_LENGTH(first) == total) {
        *ret_slice = first;
    } else {
        grpc_slice_unref(first);
        grpc_byte_buffer_reader_destroy(&reader);
        if (!grpc_byte_buffer_reader_init(&reader, buffer))
            return false;
        *ret_slice = grpc_byte_buffer_reader_readall(&reader);
    }
    grpc_byte_buffer_reader_destroy(&reader);
    return true;
}

grpc_byte_buffer *aw__message_copy(const uint8_t *bytes, size_t size)
{
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)bytes, size);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

gpr_timespec aw__deadline_in_us(int64_t us)
{
    if (us < 0)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(us, GPR_TIMESPAN));
}
