/* tfevents.c - TFRecord framing and the few protobuf fields of an Event, written by hand. */
#include "telemetry/tfevents.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"

#define FRAME_HEAD 12u /* u64 length, u32 checksum of it */
#define FRAME_TAIL 4u  /* u32 checksum of the content */

/* Protobuf keys, field << 3 | wire type. */
enum {
    EVENT_WALL_TIME = 1 << 3 | 1,    /* double */
    EVENT_STEP = 2 << 3 | 0,         /* varint */
    EVENT_FILE_VERSION = 3 << 3 | 2, /* bytes */
    EVENT_SUMMARY = 5 << 3 | 2,      /* message */
    SUMMARY_VALUE = 1 << 3 | 2,      /* message */
    VALUE_TAG = 1 << 3 | 2,          /* bytes */
    VALUE_SIMPLE = 2 << 3 | 5,       /* float */
};

static const char file_version[] = "brain.Event:2";

struct record {
    unsigned char bytes[FRAME_HEAD + AW_TFEVENTS_RECORD_MAX + FRAME_TAIL];
    size_t len; /* of the content, which starts at FRAME_HEAD */
};

static void store_le(unsigned char *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t load_le(const unsigned char *from, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

/* The mask of the TFRecord format. */
static uint32_t masked(const void *bytes, size_t size)
{
    uint32_t crc = aw_crc32c(0, bytes, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_bytes(struct record *record, const void *bytes, size_t len)
{
    AW_ASSERT(len <= AW_TFEVENTS_RECORD_MAX - record->len);
    memcpy(record->bytes + FRAME_HEAD + record->len, bytes, len);
    record->len += len;
}

static void put_byte(struct record *record, unsigned byte)
{
    put_bytes(record, &(unsigned char){(unsigned char)byte}, 1);
}

static void put_varint(struct record *record, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(record, (unsigned)(value & 0x7f) | 0x80);
    put_byte(record, (unsigned)value);
}

static void put_double(struct record *record, double value)
{
    unsigned char le[8];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    store_le(le, bits, 8);
    put_bytes(record, le, 8);
}

static void put_float(struct record *record, float value)
{
    unsigned char le[4];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    store_le(le, bits, 4);
    put_bytes(record, le, 4);
}

/* Frames the content and writes all of it. */
static enum aw_err record_write(struct aw_tfevents *events, struct record *record,
                                struct aw_diag *diag)
{
    store_le(record->bytes, record->len, 8);
    store_le(record->bytes + 8, masked(record->bytes, 8), 4);
    store_le(record->bytes + FRAME_HEAD + record->len,
             masked(record->bytes + FRAME_HEAD, record->len), 4);
    const unsigned char *p = record->bytes;
    for (size_t left = FRAME_HEAD + record->len + FRAME_TAIL; left;) {
        ssize_t wrote = write(events->fd_plus_1 - 1, p, left);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return aw_fail(diag, AW_ERR_IO, "cannot write the TensorBoard file: %s",
                           strerror(errno));
        p += wrote;
        left -= (size_t)wrote;
    }
    return AW_OK;
}

static enum aw_err version_write(struct aw_tfevents *events, double wall_s, struct aw_diag *diag)
{
    struct record record = {.len = 0};
    put_byte(&record, EVENT_WALL_TIME);
    put_double(&record, wall_s);
    put_byte(&record, EVENT_FILE_VERSION);
    put_varint(&record, sizeof file_version - 1);
    put_bytes(&record, file_version, sizeof file_version - 1);
    return record_write(events, &record, diag);
}

static enum aw_err file_open(struct aw_tfevents *events, const char *path, int flags,
                             struct aw_diag *diag)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0666);
    if (fd < 0)
        return aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    events->fd_plus_1 = fd + 1;
    return AW_OK;
}

enum aw_err aw_tfevents_create(struct aw_tfevents *events, const char *path, double wall_s,
                               struct aw_diag *diag)
{
    *events = (struct aw_tfevents){0};
    enum aw_err err = file_open(events, path, O_TRUNC, diag);
    if (!err)
        err = version_write(events, wall_s, diag);
    if (err)
        aw_tfevents_close(events);
    return err;
}

/* Up to `size` bytes; fewer at the end of the file. */
static size_t read_up_to(int fd, unsigned char *to, size_t size)
{
    size_t have = 0;
    while (have < size) {
        ssize_t got = read(fd, to + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

/* Reads the next record; false at the end or at anything that is not a whole sound record. */
static bool record_read(int fd, struct record *record)
{
    if (read_up_to(fd, record->bytes, FRAME_HEAD) != FRAME_HEAD)
        return false;
    uint64_t len = load_le(record->bytes, 8);
    if (load_le(record->bytes + 8, 4) != masked(record->bytes, 8) || len > AW_TFEVENTS_RECORD_MAX)
        return false;
    record->len = (size_t)len;
    unsigned char *content = record->bytes + FRAME_HEAD;
    return read_up_to(fd, content, record->len + FRAME_TAIL) == record->len + FRAME_TAIL &&
           load_le(content + record->len, 4) == masked(content, record->len);
}

/* The step of an event as this file writes it: wall time first, then the step if it is not 0. */
static bool record_step(const struct record *record, uint64_t *ret_step)
{
    const unsigned char *p = record->bytes + FRAME_HEAD, *end = p + record->len;
    uint64_t step = 0;
    if (end - p < 9 || *p != EVENT_WALL_TIME)
        return false;
    p += 9;
    if (p < end && *p == EVENT_STEP) {
        unsigned shift = 0;
        do {
            if (++p == end || shift > 63)
                return false;
            step |= (uint64_t)(*p & 0x7f) << shift;
            shift += 7;
        } while (*p & 0x80);
    }
    *ret_step = step;
    return true;
}

enum aw_err aw_tfevents_resume(struct aw_tfevents *events, const char *path, uint64_t step_max,
                               double wall_s, struct aw_diag *diag)
{
    struct record record;
    uint64_t step;
    off_t keep = 0;
    *events = (struct aw_tfevents){0};
    enum aw_err err = file_open(events, path, 0, diag);
    if (err)
        return err;
    int fd = events->fd_plus_1 - 1;
    while (record_read(fd, &record) && record_step(&record, &step) && step <= step_max)
        keep += (off_t)(FRAME_HEAD + record.len + FRAME_TAIL);
    off_t size = lseek(fd, 0, SEEK_END);
    if (keep == 0 && size > 0)
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, NULL,
                         "does not begin like a TensorBoard event file");
    else if (size < 0 || ftruncate(fd, keep) != 0 || lseek(fd, keep, SEEK_SET) != keep)
        err = aw_fail_at(diag, AW_ERR_IO, path, 0, 0, NULL, "%s", strerror(errno));
    else if (keep == 0)
        err = version_write(events, wall_s, diag);
    if (err)
        aw_tfevents_close(events);
    return err;
}

enum aw_err aw_tfevents_add(struct aw_tfevents *events, double wall_s, uint64_t step,
                            const struct aw_tfevents_scalar *scalars, uint32_t count,
                            struct aw_diag *diag)
{
    struct record record = {.len = 0};
    uint64_t summary_len = 0;
    AW_ASSERT(count <= AW_TFEVENTS_SCALARS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        size_t tag = strlen(scalars[i].tag);
        AW_ASSERT(tag < AW_TFEVENTS_TAG_MAX);
        /* key, length (one byte: the value is below 128), then key, length, tag, key, float */
        if (isfinite(scalars[i].value))
            summary_len += 2 + 2 + tag + 5;
    }
    put_byte(&record, EVENT_WALL_TIME);
    put_double(&record, wall_s);
    if (step) { /* proto3 leaves a zero out */
        put_byte(&record, EVENT_STEP);
        put_varint(&record, step);
    }
    put_byte(&record, EVENT_SUMMARY);
    put_varint(&record, summary_len);
    for (uint32_t i = 0; i < count; i++) {
        size_t tag = strlen(scalars[i].tag);
        if (!isfinite(scalars[i].value))
            continue;
        put_byte(&record, SUMMARY_VALUE);
        put_varint(&record, 2 + tag + 5);
        put_byte(&record, VALUE_TAG);
        put_varint(&record, tag);
        put_bytes(&record, scalars[i].tag, tag);
        put_byte(&record, VALUE_SIMPLE);
        put_float(&record, (float)scalars[i].value);
    }
    return record_write(events, &record, diag);
}

void aw_tfevents_close(struct aw_tfevents *events)
{
    if (events->fd_plus_1)
        close(events->fd_plus_1 - 1);
    *events = (struct aw_tfevents){0};
}
