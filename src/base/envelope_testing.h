/* envelope_testing.h - saved bytes as another program would have made them; for tests alone. */
#ifndef AW_BASE_ENVELOPE_TESTING_H
#define AW_BASE_ENVELOPE_TESTING_H

#include <string.h>

#include "base/crc32c.h"
#include "base/envelope.h"

/* Makes good the checksum of an envelope that a test has changed. */
static inline void aw_testing_reseal(void *bytes, size_t size)
{
    struct aw_envelope head;
    const size_t from = offsetof(struct aw_envelope, kind);
    memcpy(&head, bytes, sizeof head);
    head.crc = aw_crc32c(head.version, (const unsigned char *)bytes + from, size - from);
    memcpy(bytes, &head, sizeof head);
}

/* The same by a build whose structs have other members in the same number of bytes. */
static inline void aw_testing_other_layout(void *bytes, size_t size)
{
    ((unsigned char *)bytes)[offsetof(struct aw_envelope, layout)] ^= 1;
    aw_testing_reseal(bytes, size);
}

#endif
