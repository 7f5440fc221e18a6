/*
 * hash.h - FNV-1a, 64 bits: to tell bytes apart where forgery is no concern, and to spread keys
 * over a table.
 *
 * It is part of what files and snapshots say of themselves: what it gives must never change.
 *
 * Call order: begin with AW_HASH_BEGIN, and mix in one thing after the other.
 * Threads:    pure functions of their arguments.
 *
 * The trap: "ab", "c" and "a", "bc" give the same; mix a byte in between that no text has.
 */
#ifndef AW_BASE_HASH_H
#define AW_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define AW_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

static inline uint64_t aw_hash_byte(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

static inline uint64_t aw_hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        hash = aw_hash_byte(hash, byte[i]);
    return hash;
}

/* NULL mixes in as much as "": nothing. */
static inline uint64_t aw_hash_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = aw_hash_byte(hash, (unsigned char)*text);
    return hash;
}

#endif
