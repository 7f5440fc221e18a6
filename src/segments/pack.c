/*
 * pack.c - gzip and gunzip with zlib, and the processor's side of reading and writing files.
 *
 * The bytes of a file pass in pieces of a few KiB. The stream of a lane goes through the whole
 * file, then starts over, as a service does that takes one file after another. What is read from
 * and written to the disk meanwhile is the runner's part.
 */
#include "segments/kind.h"

#include <string.h>
#include <zlib.h>

#define FILE_BYTES     262144.0 /* at payload 1, the middle of 128 to 384 KiB: AWARE section 2.3 */
#define FILE_BYTES_MAX (4u << 20)
#define GZIP_PIECE     2048u  /* bytes that go in */
#define GUNZIP_PIECE   8192u  /* bytes that come out */
#define COPY_PIECE     16384u /* bytes that are summed, or made */
#define LEVEL          6      /* gzip's own default */

struct lane {
    z_stream stream;
    bool begun;
    uint64_t taken; /* pieces since the stream began */
};

struct pack {
    const struct aw_alloc *alloc;
    uint32_t lane_count, piece_bytes, piece_count;
    bool deflates;
    uint8_t *plain;    /* [piece_count][piece_bytes] */
    uint8_t *packed;   /* gunzip: [piece_count][packed_bytes] */
    uint32_t *lengths; /* gunzip: [piece_count], of each in `packed` */
    size_t packed_bytes, out_bytes;
    uint8_t *out; /* [lane][out_bytes] */
    struct lane *lane;
};

static void pack_close(void *state)
{
    struct pack *pack = state;
    if (!pack)
        return;
    for (uint32_t i = 0; i < pack->lane_count; i++) {
        if (pack->lane[i].begun && pack->deflates)
            (void)deflateEnd(&pack->lane[i].stream);
        else if (pack->lane[i].begun)
            (void)inflateEnd(&pack->lane[i].stream);
    }
    aw_alloc_free(pack->alloc, pack);
}

/* `inflates`: keep every piece deflated as well. */
static enum aw_err pack_open(const struct aw__setup *setup, uint32_t piece_bytes, bool inflates,
                             struct pack **ret, struct aw_diag *diag)
{
    const uint32_t bytes = aw__sized(setup, FILE_BYTES, 1, piece_bytes, FILE_BYTES_MAX);
    const uint32_t pieces = bytes / piece_bytes;
    const size_t bound = compressBound(piece_bytes) + 64;
    struct pack *pack = NULL;
    for (struct aw_carve carve = {0};; carve = (struct aw_carve){.base = (unsigned char *)pack}) {
        struct pack *self = aw_carve_take(&carve, 1, sizeof *self);
        uint8_t *plain = aw_carve_take(&carve, pieces, piece_bytes);
        uint8_t *packed = aw_carve_take(&carve, inflates ? pieces : 0, bound);
        uint32_t *lengths = aw_carve_take(&carve, pieces, sizeof *lengths);
        uint8_t *out = aw_carve_take(&carve, setup->lane_count, bound);
        struct lane *lane = aw_carve_take(&carve, setup->lane_count, sizeof *lane);
        if (pack) {
            *self = (struct pack){.alloc = setup->alloc,
                                  .lane_count = setup->lane_count,
                                  .piece_bytes = piece_bytes,
                                  .piece_count = pieces,
                                  .deflates = !inflates,
                                  .plain = plain,
                                  .packed = packed,
                                  .lengths = lengths,
                                  .packed_bytes = bound,
                                  .out_bytes = bound,
                                  .out = out,
                                  .lane = lane};
            break;
        }
        if (!(pack = aw_alloc_new(setup->alloc, carve.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for a file of %u bytes", bytes);
    }
    aw__prose(setup->seed, (char *)pack->plain, (size_t)pieces * piece_bytes);
    for (uint32_t i = 0; inflates && i < pieces; i++) {
        uLongf len = (uLongf)bound;
        if (compress2(pack->packed + i * bound, &len, pack->plain + (size_t)i * piece_bytes,
                      piece_bytes, LEVEL) != Z_OK) {
            pack_close(pack);
            return aw_fail(diag, AW_ERR_NOMEM, "zlib: no memory");
        }
        pack->lengths[i] = (uint32_t)len;
    }
    *ret = pack;
    return AW_OK;
}

static enum aw_err gzip_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    struct pack *pack = NULL;
    enum aw_err err = pack_open(setup, GZIP_PIECE, false, &pack, diag);
    if (!err)
        *ret_state = pack;
    return err;
}

static enum aw_err gunzip_open(const struct aw__setup *setup, void **ret_state,
                               struct aw_diag *diag)
{
    struct pack *pack = NULL;
    enum aw_err err = pack_open(setup, GUNZIP_PIECE, true, &pack, diag);
    if (!err)
        *ret_state = pack;
    return err;
}

static enum aw_err gzip_pieces(void *state, uint32_t lane_index, uint64_t first, uint64_t count,
                               struct aw_diag *diag)
{
    (void)first;
    const struct pack *pack = state;
    struct lane *lane = &pack->lane[lane_index];
    uint8_t *out = pack->out + lane_index * pack->out_bytes;
    if (!lane->begun) {
        /* 16 more than the window: with gzip's head and tail around it */
        if (deflateInit2(&lane->stream, LEVEL, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) !=
            Z_OK)
            return aw_fail(diag, AW_ERR_NOMEM, "zlib: no memory to deflate");
        lane->begun = true;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = lane->taken++ % pack->piece_count;
        if (at == 0 && deflateReset(&lane->stream) != Z_OK)
            return aw_fail(diag, AW_ERR_CHECK, "zlib: a stream that cannot start over");
        lane->stream.next_in = pack->plain + at * pack->piece_bytes;
        lane->stream.avail_in = pack->piece_bytes;
        const int flush = at + 1 == pack->piece_count ? Z_FINISH : Z_NO_FLUSH;
        int ret;
        do { /* what comes out is dropped, as a socket would take it */
            lane->stream.next_out = out;
            lane->stream.avail_out = (uInt)pack->out_bytes;
            ret = deflate(&lane->stream, flush);
        } while (ret == Z_OK && lane->stream.avail_out == 0);
    }
    aw__keep(out[0]);
    return AW_OK;
}

static enum aw_err gunzip_pieces(void *state, uint32_t lane_index, uint64_t first, uint64_t count,
                                 struct aw_diag *diag)
{
    const struct pack *pack = state;
    struct lane *lane = &pack->lane[lane_index];
    uint8_t *out = pack->out + lane_index * pack->out_bytes;
    if (!lane->begun) {
        if (inflateInit(&lane->stream) != Z_OK)
            return aw_fail(diag, AW_ERR_NOMEM, "zlib: no memory to inflate");
        lane->begun = true;
    }
    for (uint64_t i = first; i < first + count; i++) {
        const uint64_t at = i % pack->piece_count;
        (void)inflateReset(&lane->stream);
        lane->stream.next_in = pack->packed + at * pack->packed_bytes;
        lane->stream.avail_in = pack->lengths[at];
        lane->stream.next_out = out;
        lane->stream.avail_out = (uInt)pack->out_bytes;
        if (inflate(&lane->stream, Z_FINISH) != Z_STREAM_END ||
            lane->stream.total_out != pack->piece_bytes)
            return aw_fail(diag, AW_ERR_CHECK, "zlib: a piece that does not inflate");
    }
    aw__keep(out[0]);
    return AW_OK;
}

const struct aw__segment_kind aw__kind_gzip = {"gzip", gzip_open, pack_close, gzip_pieces,
                                               aw__agent_exchange_none};
const struct aw__segment_kind aw__kind_gunzip = {"gunzip", gunzip_open, pack_close, gunzip_pieces,
                                                 aw__agent_exchange_none};

/* ---- files ---- */

static enum aw_err copy_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    struct pack *pack = NULL;
    enum aw_err err = pack_open(setup, COPY_PIECE, false, &pack, diag);
    if (!err)
        *ret_state = pack;
    return err;
}

static enum aw_err read_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                               struct aw_diag *diag)
{
    (void)lane;
    (void)diag;
    const struct pack *pack = state;
    uLong sum = crc32(0, NULL, 0);
    for (uint64_t i = first; i < first + count; i++)
        sum =
            crc32(sum, pack->plain + i % pack->piece_count * pack->piece_bytes, pack->piece_bytes);
    aw__keep((double)sum);
    return AW_OK;
}

static enum aw_err write_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                                struct aw_diag *diag)
{
    (void)diag;
    const struct pack *pack = state;
    char *out = (char *)pack->out + lane * pack->out_bytes;
    for (uint64_t i = first; i < first + count; i++)
        aw__prose(i, out, COPY_PIECE / 4);
    aw__keep(out[0]);
    return AW_OK;
}

const struct aw__segment_kind aw__kind_file_read = {"file_read", copy_open, pack_close, read_pieces,
                                                    aw__agent_exchange_none};
const struct aw__segment_kind aw__kind_file_write = {"file_write", copy_open, pack_close,
                                                     write_pieces, aw__agent_exchange_none};
