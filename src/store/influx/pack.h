/*
 * pack.h - a row as one word of base64, and back, bit by bit.
 *
 * InfluxDB keeps a row as one string field. A field per number would be two per observed number,
 * each a column of its own with its own index and timestamps, and would lose what its JSON cannot
 * say (the sign of a zero). Numbers that the server itself works with are fields too.
 *
 * Memory:  nothing is allocated.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_STORE_INFLUX_PACK_H
#define AW_STORE_INFLUX_PACK_H

#include "base/text.h"
#include "store/backend.h"

#define AW__PACK_AMOUNTS_MAX 64u /* resources beyond the first three */
#define AW__PACK_BYTES_MAX \
    (256u + (2u * AW_STORE_OBS_MAX + 2u * AW_STORE_ACT_MAX) * 4u + AW__PACK_AMOUNTS_MAX * 16u)
#define AW__PACK_TEXT_MAX ((AW__PACK_BYTES_MAX + 2u) / 3u * 4u + 1u) /* with its NUL */

/* What an unpacked row points into. */
struct aw__packed {
    unsigned char bytes[AW__PACK_BYTES_MAX];
    float obs[AW_STORE_OBS_MAX], next_obs[AW_STORE_OBS_MAX];
    float action[AW_STORE_ACT_MAX], shadow[AW_STORE_ACT_MAX];
};

/* Everything but workload, episode and step. `scratch` is overwritten. */
void aw__pack(const struct aw_store_row *row, struct aw__packed *scratch, struct aw_text *text);
/* False: not what aw__pack writes. Sets all but workload, episode and step. */
bool aw__unpack(const char *text, size_t len, struct aw__packed *packed, struct aw_store_row *row);

#endif
