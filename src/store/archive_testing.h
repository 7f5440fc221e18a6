/* archive_testing.h - archives as another program would have written them. */
#ifndef AW_STORE_ARCHIVE_TESTING_H
#define AW_STORE_ARCHIVE_TESTING_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <aware/err.h>

#include "base/crc32c.h"

/* Heads of parts, as archive.c has them: mark, crc, bytes, shape, version, bytes of the name. */
#define AW_TESTING_PART_HEAD 32u
#define AW_TESTING_PART_FROM 8u /* what the checksum is of begins here */

static inline uint64_t aw_testing_part_u64(const char *part, size_t at)
{
    uint64_t value;
    memcpy(&value, part + at, sizeof value);
    return value;
}

static inline size_t aw_testing_part_size(const char *part)
{
    uint32_t name;
    memcpy(&name, part + 28, sizeof name);
    return AW_TESTING_PART_HEAD + (name + 7u) / 8u * 8u +
           (size_t)((aw_testing_part_u64(part, 8) + 7) / 8 * 8);
}

static inline void aw_testing_part_seal(char *part)
{
    const uint32_t crc = aw_crc32c(0, part + AW_TESTING_PART_FROM,
                                   aw_testing_part_size(part) - AW_TESTING_PART_FROM);
    memcpy(part + 4, &crc, sizeof crc);
}

/* As a program would have left it in whose structs the members called `member` had another name:
 * a later one has lost those, and has some that are new. Returns how many there were. */
static inline uint32_t aw_testing_archive_rename(char *bytes, size_t size, const char *member)
{
    uint32_t renamed = 0;
    uint64_t other[64];
    uint32_t others = 0;
    for (size_t at = 16; at < size; at += aw_testing_part_size(bytes + at)) {
        char *part = bytes + at;
        const size_t part_size = aw_testing_part_size(part);
        uint64_t shape = aw_testing_part_u64(part, 16);
        const bool described = strcmp(part + AW_TESTING_PART_HEAD, "shape") == 0;
        bool is = false;
        for (size_t i = 40; described && i + strlen(member) + 1 < part_size; i += 8)
            if (strcmp(part + i, member) == 0) {
                part[i] ^= 0x20;
                is = true;
                renamed++;
            }
        if (is)
            other[others++] = shape;
        for (uint32_t k = 0; k < others; k++)
            is = is || other[k] == shape;
        if (is) {
            shape ^= 1;
            memcpy(part + 16, &shape, sizeof shape);
        }
        aw_testing_part_seal(part);
    }
    return renamed;
}

/* Another version of everything called ".../part". */
static inline void aw_testing_archive_version(char *bytes, size_t size, const char *name)
{
    for (size_t at = 16; at < size; at += aw_testing_part_size(bytes + at)) {
        char *part = bytes + at;
        if (strcmp(part + AW_TESTING_PART_HEAD, name) == 0) {
            part[24]++;
            part[16] ^= 1; /* the version is part of a shape's hash */
            aw_testing_part_seal(part);
        }
    }
}

#endif
