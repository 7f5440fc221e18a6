/*
 * helper_wire.h - what a client asks of the helper, and what it tells: one packet each
 * (SOCK_SEQPACKET), between processes of one build.
 */
#ifndef AW_DEVICE_HELPER_WIRE_H
#define AW_DEVICE_HELPER_WIRE_H

#include <aware/device.h>

#define AW__HELPER_MAGIC 0x61770002u /* rises with the structs */

enum aw__helper_op {
    AW__HELPER_HELLO, /* answered with the count */
    AW__HELPER_DESCRIBE,
    AW__HELPER_READ,
    AW__HELPER_CLOCK,
    AW__HELPER_LIMIT,
    AW__HELPER_RESET,
    AW__HELPER_BEAT,
    AW__HELPER_OPS
};

struct aw__helper_ask {
    uint32_t magic, op, index, value;
    int64_t now_us;
};

struct aw__helper_tell {
    uint32_t magic, op, err, count;
    char text[256]; /* of an error */
    union {
        struct aw_device_info info;
        struct aw_device_reading reading;
    };
};

#endif
