/*
 * snapshot.h - the head of every snapshot in this room, so that foreign bytes are refused.
 *
 * A snapshot is a struct without padding that begins with struct aw__snapshot. Fill the rest, seal
 * it, copy it out; on the way back copy it in and ask whether it is valid before believing a field.
 * The checksum finds accidents (a truncated, mixed up or damaged file), not forgeries: whoever
 * loads a snapshot still checks that its numbers are finite and in range.
 */
#ifndef AW_ENV_SNAPSHOT_H
#define AW_ENV_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aw__snapshot {
    uint32_t magic;    /* whose */
    uint32_t version;  /* of its layout */
    uint64_t checksum; /* of all other bytes */
};

void aw__snapshot_seal(void *bytes, size_t size, uint32_t magic, uint32_t version);
bool aw__snapshot_valid(const void *bytes, size_t size, uint32_t magic, uint32_t version);

#endif
