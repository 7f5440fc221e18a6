/*
 * image.c - resize, rotate and compress small pictures that were generated.
 *
 * A picture is a square of RGB bytes, gradients with some noise. Resizing and rotating sample
 * bilinearly; compressing is what JPEG does up to its entropy coder: 8 x 8 cosine transform
 * (ITU-T T.81 A.3.3), quantisation with the table of annex K, zigzag; zlib codes the result.
 * A piece is the whole operation on one picture.
 */
#include "segments/kind.h"

#include <math.h>
#include <string.h>
#include <zlib.h>

#define SIDE        40.0 /* pixels at payload 1: AWARE section 2.3 */
#define SIDE_MAX    320u
#define CHANNELS    3u
#define RESIZE_NUM  5u /* to 5/8 of its side */
#define RESIZE_DEN  8u
#define BLOCK       8u
#define BLOCK_CELLS 64u
#define LEVEL       1 /* of zlib: the picture's redundancy is gone by then */

struct image {
    const struct aw_alloc *alloc;
    uint32_t side;
    size_t out_bytes; /* of a lane */
    uint8_t *pixels;  /* [side][side][CHANNELS] */
    uint8_t *out;     /* [lane][out_bytes] */
    float cosine[BLOCK][BLOCK];
};

static enum aw_err image_open(const struct aw__setup *setup, void **ret_state, struct aw_diag *diag)
{
    /* a multiple of 8, so that compressing has whole blocks */
    const uint32_t side = aw__sized(setup, SIDE, 1, 16, SIDE_MAX) / BLOCK * BLOCK;
    const size_t bytes = (size_t)side * side * CHANNELS;
    size_t out_bytes = bytes * sizeof(int16_t) + compressBound((uLong)bytes * 2);
    out_bytes = (out_bytes + AW_ALLOC_ALIGN - 1) / AW_ALLOC_ALIGN * AW_ALLOC_ALIGN;
    struct image *image = NULL;
    for (struct aw_carve carve = {0};; carve = (struct aw_carve){.base = (unsigned char *)image}) {
        struct image *self = aw_carve_take(&carve, 1, sizeof *self);
        uint8_t *pixels = aw_carve_take(&carve, bytes, 1);
        uint8_t *out = aw_carve_take(&carve, setup->lane_count, out_bytes);
        if (image) {
            *self = (struct image){setup->alloc, side, out_bytes, pixels, out, {{0}}};
            break;
        }
        if (!(image = aw_alloc_new(setup->alloc, carve.used, 1)))
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for pictures of side %u", side);
    }
    struct aw_rng rng;
    aw_rng_init(&rng, setup->seed, 3);
    for (uint32_t y = 0; y < side; y++) {
        for (uint32_t x = 0; x < side; x++) {
            uint8_t *p = image->pixels + ((size_t)y * side + x) * CHANNELS;
            p[0] = (uint8_t)(x * 255 / side);
            p[1] = (uint8_t)(y * 255 / side);
            p[2] = (uint8_t)((x / 5 + y / 5) % 2 * 120 + aw_rng_below(&rng, 40));
        }
    }
    for (uint32_t u = 0; u < BLOCK; u++)
        for (uint32_t x = 0; x < BLOCK; x++)
            image->cosine[u][x] =
                (float)((u ? 0.5 : sqrt(0.125)) * cos((2 * x + 1) * u * M_PI / (2.0 * BLOCK)));
    *ret_state = image;
    return AW_OK;
}

static void image_close(void *state)
{
    struct image *image = state;
    if (image)
        aw_alloc_free(image->alloc, image);
}

/* The colour at (x, y), both in 1/256 of a pixel and inside of the picture. */
static void sample(const struct image *image, int32_t x, int32_t y, uint8_t *out)
{
    const uint32_t side = image->side, last = side - 1;
    const uint32_t x0 = (uint32_t)x >> 8, y0 = (uint32_t)y >> 8;
    const uint32_t x1 = x0 < last ? x0 + 1 : last, y1 = y0 < last ? y0 + 1 : last;
    const uint32_t fx = (uint32_t)x & 255, fy = (uint32_t)y & 255;
    const uint8_t *a = image->pixels + ((size_t)y0 * side + x0) * CHANNELS;
    const uint8_t *b = image->pixels + ((size_t)y0 * side + x1) * CHANNELS;
    const uint8_t *c = image->pixels + ((size_t)y1 * side + x0) * CHANNELS;
    const uint8_t *d = image->pixels + ((size_t)y1 * side + x1) * CHANNELS;
    for (uint32_t k = 0; k < CHANNELS; k++) {
        const uint32_t top = a[k] * (256 - fx) + b[k] * fx;
        const uint32_t bottom = c[k] * (256 - fx) + d[k] * fx;
        out[k] = (uint8_t)((top * (256 - fy) + bottom * fy) >> 16);
    }
}

static enum aw_err resize_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                                 struct aw_diag *diag)
{
    (void)first;
    (void)diag;
    const struct image *image = state;
    uint8_t *out = image->out + lane * image->out_bytes;
    const uint32_t to = image->side * RESIZE_NUM / RESIZE_DEN;
    const int32_t step = (int32_t)((image->side - 1) * 256 / to);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *p = out;
        for (uint32_t y = 0; y < to; y++)
            for (uint32_t x = 0; x < to; x++, p += CHANNELS)
                sample(image, (int32_t)x * step, (int32_t)y * step, p);
    }
    aw__keep(out[0]);
    return AW_OK;
}

static enum aw_err rotate_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                                 struct aw_diag *diag)
{
    (void)diag;
    const struct image *image = state;
    uint8_t *out = image->out + lane * image->out_bytes;
    const int32_t side = (int32_t)image->side, high = (side - 1) * 256;
    for (uint64_t i = first; i < first + count; i++) {
        const double angle = (double)(i % 360) * M_PI / 180;
        const int32_t c = (int32_t)(256 * cos(angle)), s = (int32_t)(256 * sin(angle));
        uint8_t *p = out;
        for (int32_t y = 0; y < side; y++) {
            for (int32_t x = 0; x < side; x++, p += CHANNELS) {
                const int32_t dx = x - side / 2, dy = y - side / 2;
                const int32_t sx = c * dx + s * dy + side * 128;
                const int32_t sy = c * dy - s * dx + side * 128;
                if (sx >= 0 && sy >= 0 && sx <= high && sy <= high)
                    sample(image, sx, sy, p);
                else
                    memset(p, 0, CHANNELS);
            }
        }
    }
    aw__keep(out[0]);
    return AW_OK;
}

/* ITU-T T.81, table K.1, in zigzag order. */
static const uint8_t quant[BLOCK_CELLS] = {
    16, 11, 12,  14,  12,  10, 16, 14,  13,  14,  18,  17,  16, 19,  24,  40,
    26, 24, 22,  22,  24,  49, 35, 37,  29,  40,  58,  51,  61, 60,  57,  51,
    56, 55, 64,  72,  92,  78, 64, 68,  87,  69,  55,  56,  80, 109, 81,  87,
    95, 98, 103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99};
static const uint8_t zigzag[BLOCK_CELLS] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

static void block_transform(const struct image *image, uint32_t bx, uint32_t by, uint32_t channel,
                            int16_t *out)
{
    float in[BLOCK][BLOCK], half[BLOCK][BLOCK], whole[BLOCK_CELLS];
    for (uint32_t y = 0; y < BLOCK; y++)
        for (uint32_t x = 0; x < BLOCK; x++)
            in[y][x] =
                (float)
                    image->pixels[((size_t)(by + y) * image->side + bx + x) * CHANNELS + channel] -
                128.0f;
    for (uint32_t y = 0; y < BLOCK; y++)
        for (uint32_t u = 0; u < BLOCK; u++) {
            float sum = 0;
            for (uint32_t x = 0; x < BLOCK; x++)
                sum += image->cosine[u][x] * in[y][x];
            half[y][u] = sum;
        }
    for (uint32_t v = 0; v < BLOCK; v++)
        for (uint32_t u = 0; u < BLOCK; u++) {
            float sum = 0;
            for (uint32_t y = 0; y < BLOCK; y++)
                sum += image->cosine[v][y] * half[y][u];
            whole[v * BLOCK + u] = sum;
        }
    for (uint32_t i = 0; i < BLOCK_CELLS; i++)
        out[i] = (int16_t)lrintf(whole[zigzag[i]] / (float)quant[i]);
}

static enum aw_err compress_pieces(void *state, uint32_t lane, uint64_t first, uint64_t count,
                                   struct aw_diag *diag)
{
    (void)first;
    const struct image *image = state;
    const size_t cells = (size_t)image->side * image->side * CHANNELS;
    int16_t *coefficients = (int16_t *)(void *)(image->out + lane * image->out_bytes);
    uint8_t *coded = (uint8_t *)(coefficients + cells);
    for (uint64_t i = 0; i < count; i++) {
        int16_t *at = coefficients;
        for (uint32_t by = 0; by < image->side; by += BLOCK)
            for (uint32_t bx = 0; bx < image->side; bx += BLOCK)
                for (uint32_t c = 0; c < CHANNELS; c++, at += BLOCK_CELLS)
                    block_transform(image, bx, by, c, at);
        uLongf len = (uLongf)(image->out_bytes - cells * sizeof *coefficients);
        if (compress2(coded, &len, (const Bytef *)coefficients, (uLong)(cells * 2), LEVEL) != Z_OK)
            return aw_fail(diag, AW_ERR_NOMEM, "zlib: no memory for a picture");
        aw__keep((double)len);
    }
    return AW_OK;
}

const struct aw__segment_kind aw__kind_image_resize = {"image_resize", image_open, image_close,
                                                       resize_pieces, aw__agent_exchange_none};
const struct aw__segment_kind aw__kind_image_rotate = {"image_rotate", image_open, image_close,
                                                       rotate_pieces, aw__agent_exchange_none};
const struct aw__segment_kind aw__kind_image_compress = {"image_compress", image_open, image_close,
                                                         compress_pieces, aw__agent_exchange_none};
