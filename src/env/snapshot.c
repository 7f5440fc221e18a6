/* snapshot.c - FNV-1a (Fowler, Noll, Vo) over what follows the checksum, keyed by what precedes. */
#include "env/snapshot.h"

#include <string.h>

#include "base/hash.h"

static uint64_t checksum(const unsigned char *bytes, size_t size, uint32_t magic, uint32_t version)
{
    uint64_t hash = AW_HASH_BEGIN ^ ((uint64_t)magic << 32 | version);
    return aw_hash_bytes(hash, bytes + sizeof(struct aw__snapshot),
                         size - sizeof(struct aw__snapshot));
}

void aw__snapshot_seal(void *bytes, size_t size, uint32_t magic, uint32_t version)
{
    struct aw__snapshot head = {magic, version, checksum(bytes, size, magic, version)};
    memcpy(bytes, &head, sizeof head);
}

bool aw__snapshot_valid(const void *bytes, size_t size, uint32_t magic, uint32_t version)
{
    struct aw__snapshot head;
    memcpy(&head, bytes, sizeof head);
    return head.magic == magic && head.version == version &&
           head.checksum == checksum(bytes, size, magic, version);
}
