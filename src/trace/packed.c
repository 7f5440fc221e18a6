/* packed.c - whole files, unpacked where they are gzip. */
#define ZLIB_CONST /* what is read is not written to */
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "trace/read.h"

#define FIRST_ROOM ((size_t)1 << 16)

bool aw_packed_is(const char *bytes, size_t size)
{
    return size >= 2 && (unsigned char)bytes[0] == 0x1f && (unsigned char)bytes[1] == 0x8b;
}

/* Room for more of what comes out; false: at the maximum, or out of memory. */
static bool grow(char **bytes, size_t *room, size_t used, size_t bytes_max,
                 const struct aw_alloc *alloc)
{
    size_t wanted = *room ? *room * 2 : FIRST_ROOM;
    wanted = wanted < bytes_max ? wanted : bytes_max;
    if (wanted <= used)
        return false;
    char *larger = aw_alloc_new(alloc, wanted + 1, 1);
    if (!larger)
        return false;
    if (used)
        memcpy(larger, *bytes, used);
    aw_alloc_free(alloc, *bytes);
    *bytes = larger;
    *room = wanted;
    return true;
}

enum aw_err aw_packed_inflate(const char *name, const void *bytes, size_t size, size_t bytes_max,
                              const struct aw_alloc *alloc, char **ret_bytes, size_t *ret_size,
                              struct aw_diag *diag)
{
    z_stream stream = {0};
    const unsigned char *in = bytes;
    size_t room = 0, used = 0, left = size;
    char *out = NULL;
    int status = Z_OK;
    if (inflateInit2(&stream, 15 + 16) != Z_OK)
        return aw_fail(diag, AW_ERR_NOMEM, "zlib: no memory to inflate");
    enum aw_err err = AW_OK;
    while (!err && (left || status != Z_STREAM_END)) {
        if (used == room && !grow(&out, &room, used, bytes_max, alloc)) {
            err = aw_fail_at(diag, room >= bytes_max ? AW_ERR_LIMIT : AW_ERR_NOMEM, name, 0, 0,
                             NULL, "unpacks to more than %zu bytes", room);
            break;
        }
        if (status == Z_STREAM_END) /* files that were joined are one file */
            (void)inflateReset(&stream);
        const size_t step_in = left < (1u << 30) ? left : 1u << 30;
        const size_t step_out = room - used < (1u << 30) ? room - used : 1u << 30;
        stream.next_in = in;
        stream.avail_in = (uInt)step_in;
        stream.next_out = (unsigned char *)out + used;
        stream.avail_out = (uInt)step_out;
        status = inflate(&stream, Z_NO_FLUSH);
        in += step_in - stream.avail_in;
        left -= step_in - stream.avail_in;
        used += step_out - stream.avail_out;
        const bool stuck = step_in == stream.avail_in && step_out == stream.avail_out;
        if ((status != Z_OK && status != Z_STREAM_END) || (stuck && status != Z_STREAM_END))
            err = aw_fail_at(diag, AW_ERR_FORMAT, name, 0, 0, NULL,
                             "expected gzip to the end, found it %s after %zu of %zu bytes",
                             left ? "damaged" : "cut", size - left, size);
    }
    (void)inflateEnd(&stream);
    if (!err && !out && !grow(&out, &room, used, bytes_max ? bytes_max : 1, alloc))
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory");
    if (err || !out) {
        aw_alloc_free(alloc, out);
        return err ? err : AW_ERR_NOMEM;
    }
    out[used] = '\0';
    *ret_bytes = out;
    *ret_size = used;
    return AW_OK;
}

enum aw_err aw_packed_read(const char *path, size_t bytes_max, const struct aw_alloc *alloc,
                           char **ret_bytes, size_t *ret_size, struct aw_diag *diag)
{
    char *bytes = NULL, *unpacked = NULL;
    size_t size = 0;
    const bool standard = !strcmp(path, "-");
    enum aw_err err = standard ? aw_file_read_fd(STDIN_FILENO, "standard input", bytes_max, alloc,
                                                 &bytes, &size, diag)
                               : aw_file_read(path, bytes_max, alloc, &bytes, &size, diag);
    if (err || !aw_packed_is(bytes, size)) {
        if (!err) {
            *ret_bytes = bytes;
            *ret_size = size;
        }
        return err;
    }
    err = aw_packed_inflate(standard ? "standard input" : path, bytes, size, bytes_max, alloc,
                            &unpacked, ret_size, diag);
    if (!err)
        *ret_bytes = unpacked;
    aw_alloc_free(alloc, bytes);
    return err;
}
