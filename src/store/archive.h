/*
 * archive.h - a file of named parts, which later programs still read.
 *
 * What a run keeps outlives the program that wrote it. So nothing here is told apart by its place:
 * a part has a name ("0/shop/api/memory"), and the file says the name, type and place of every
 * member of the structs in it. A program whose structs have changed takes each member by its name:
 *
 *   - a member that is new keeps the value it begins with;
 *   - one that is gone is left behind;
 *   - one whose type or size has changed begins anew, and so do those it belongs with: everything
 *     in front of its first dot ("guard.window" and "guard.count" are "guard");
 *   - so does an array of structs, where these structs have changed.
 *
 * A part is whole or it is not there: each has its own checksum, so that a damaged byte costs one
 * part. Another version of a shape says that names mean something else now: it is not read.
 *
 * Call order: create, add as often as wanted, commit or abort. read, find and take as often as
 *             wanted, close.
 * Memory:     a writer has one buffer; an archive is in memory as a whole.
 * Threads:    single owner; an archive that is only looked at, any.
 */
#ifndef AW_STORE_ARCHIVE_H
#define AW_STORE_ARCHIVE_H

#include "base/envelope.h"
#include "base/file.h"

#define AW_ARCHIVE_NAME_MAX    192u /* bytes of a part's name, with its NUL */
#define AW_ARCHIVE_SHAPES_MAX  64u  /* different ones in a file */
#define AW_ARCHIVE_BYTES_MAX   ((size_t)2 << 30)
#define AW_ARCHIVE_MEMBERS_MAX 1024u /* of one struct */
#define AW_ARCHIVE_LOST_MAX    16u
#define AW_SHAPE_TABLES_MAX    8u

/* What the bytes of a part mean: a struct (the last table), with those that its arrays are made of
 * before it, and behind it in the part bytes of any number that mean the same in every version. */
struct aw_shape {
    uint32_t version; /* of what the names mean; from 1 on */
    uint32_t count;
    struct aw_layout_table table[AW_SHAPE_TABLES_MAX];
    uint64_t hash; /* of all of it */
};
void aw_shape_of(struct aw_shape *shape, uint32_t version, aw_layout *layout);
/* Of one struct whose members are listed at run time; `members` is borrowed. */
void aw_shape_of_members(struct aw_shape *shape, uint32_t version, const struct aw_member *members,
                         uint32_t count, uint32_t bytes);

/* --- writing ---------------------------------------------------------------------------------- */

struct aw_archive_writer {
    struct aw_file_writer file;
    const struct aw_alloc *alloc;
    unsigned char *buf;
    size_t used, room, open_at; /* open_at: where the part that is being filled in begins */
    bool open;
    uint64_t shapes[AW_ARCHIVE_SHAPES_MAX]; /* hashes of those that the file has */
    uint32_t shape_count;
    enum aw_err err; /* the first failure: everything after it is a no-op */
    struct aw_diag diag;
};

/* `kind`: at most 7 letters that say what the file is. On failure there is nothing to abort. */
AW_NODISCARD enum aw_err aw_archive_create(struct aw_archive_writer *writer, const char *path,
                                           const char *kind, const struct aw_alloc *alloc,
                                           struct aw_diag *diag);
/* Room for a part of `bytes`, zeroed, to be filled in before the next call. `shape` NULL: bytes
 * that mean the same in every version. NULL: it failed, and commit says why. */
void *aw_archive_add(struct aw_archive_writer *writer, const char *name,
                     const struct aw_shape *shape, size_t bytes);
struct aw_archive;
struct aw_archive_part;
/* A part of another archive, as it is; nothing where it was dropped. */
void aw_archive_copy(struct aw_archive_writer *writer, const struct aw_archive *from,
                     const struct aw_archive_part *part);
/* Replaces the file. Closes the writer whatever the outcome; on failure the file is as it was. */
AW_NODISCARD enum aw_err aw_archive_commit(struct aw_archive_writer *writer, struct aw_diag *diag);
void aw_archive_abort(struct aw_archive_writer *writer); /* a zeroed one is a no-op */

/* --- reading ---------------------------------------------------------------------------------- */

struct aw_archive_part {
    const char *name; /* "": dropped */
    const void *bytes;
    size_t size;
    uint64_t shape; /* hash; 0: none */
    uint32_t version;
};

struct aw_archive {
    const struct aw_alloc *alloc;
    char *bytes;
    size_t size;
    struct aw_archive_part *part; /* [count] in the order of the file */
    uint64_t *hash;               /* [count] of their names */
    uint32_t count, next;         /* next: where find looks first */
    uint32_t damaged;             /* parts that could not be read */
};

/* AW_ERR_FORMAT: no such archive; `what` ("the state of a run") is for the sentence. Damaged parts
 * are counted, and left out. On failure `archive` is zeroed. */
AW_NODISCARD enum aw_err aw_archive_read(struct aw_archive *archive, const char *path,
                                         const char *kind, const char *what,
                                         const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_archive_close(struct aw_archive *archive); /* a zeroed one is a no-op */

/* Parts under `place` ("shop/api" has "shop/api/memory") are not there any more. */
void aw_archive_drop(struct aw_archive *archive, const char *place);
/* NULL: there is no such part. */
const struct aw_archive_part *aw_archive_find(struct aw_archive *archive, const char *name);
/* Whether the bytes are what this program would write, so that they may be copied as they are. */
bool aw_archive_same(const struct aw_archive_part *part, const struct aw_shape *shape, size_t size);

/* How a part was taken. */
struct aw_archive_match {
    bool same;           /* as it was saved, to the byte */
    uint32_t lost_count; /* groups of members that begin anew */
    char lost[AW_ARCHIVE_LOST_MAX][32];
};
/* Into `to`, of `size` bytes, which has the values that members begin with. AW_ERR_FORMAT: it
 * cannot be read (another version, or what follows the struct has another length), and nothing
 * changed. */
AW_NODISCARD enum aw_err aw_archive_take(struct aw_archive *archive,
                                         const struct aw_archive_part *part,
                                         const struct aw_shape *shape, void *to, size_t size,
                                         struct aw_archive_match *ret_match);
bool aw_archive_lost(const struct aw_archive_match *match, const char *group);

#endif
