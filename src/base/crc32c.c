/*
 * crc32c.c - by the instruction that x86-64 has for it, else half a byte at a time.
 *
 * The replay of a long run is hundreds of megabytes, and a save sums it all: the instruction does
 * gigabytes a second. The table of the other way is small enough to be written out.
 */
#include "base/crc32c.h"

#include <string.h>

/* Remainders of 0..15 under the reflected polynomial 0x82F63B78, four bits at a time. */
static const uint32_t nibble[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t aw__crc32c_portable(uint32_t crc, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const void *bytes,
                                                                 size_t size)
{
    const unsigned char *p = bytes;
    uint64_t sum = ~crc;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        sum = __builtin_ia32_crc32di(sum, word);
    }
    for (; size; p++, size--)
        sum = __builtin_ia32_crc32qi((uint32_t)sum, *p);
    return ~(uint32_t)sum;
}
#endif

uint32_t aw_crc32c(uint32_t crc, const void *bytes, size_t size)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return by_instruction(crc, bytes, size);
#endif
    return aw__crc32c_portable(crc, bytes, size);
}
