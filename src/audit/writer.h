/*
 * writer.h - the insides of a log that is being written: audit.c adds to it, open.c begins and ends
 * it.
 *
 * Everything up to `size` of the current file is acknowledged: written, and synced. A commit writes
 * behind it; a commit that fails leaves something there, or a new file with something in it, and
 * `mess` says which. A mess is cleared, and the clearing synced, before anything else is written:
 * so at any moment only the last commit can be torn by a power cut, which is what chain.c relies
 * on.
 */
#ifndef AW_AUDIT_WRITER_H
#define AW_AUDIT_WRITER_H

#include <stdio.h>
#include <sys/types.h>

#include "audit/audit.h"
#include "audit/chain.h"

/* Of the group's buffer, kept free for an entry of kind retained. */
#define AW__AUDIT_RETAINED_BYTES 512u

enum aw__audit_mess {
    AW__AUDIT_CLEAN,
    AW__AUDIT_OPENED,   /* the former process may have died before syncing this file */
    AW__AUDIT_TAIL,     /* bytes behind `size` of the current file */
    AW__AUDIT_TORN,     /* the same, found when opening: they are kept aside first */
    AW__AUDIT_NEW_FILE, /* a file after the current one */
};

struct aw_audit {
    const struct aw_disk *disk;
    const struct aw_alloc *alloc;
    struct aw_audit_config config;
    char folder[AW_DISK_PATH_MAX];
    int lock, file;            /* -1: not open */
    uint32_t number;           /* of the current file; 0: none yet */
    uint64_t size;             /* acknowledged bytes of it */
    struct aw_audit_head last; /* acknowledged; seq 0 and zeros: none */
    uint64_t head_seq;         /* of the file `head` */
    enum aw__audit_mess mess;
    bool reserved;   /* the file `reserve` is there and has its blocks */
    bool no_reserve; /* this file system cannot reserve blocks */
    bool on_reserve; /* what was `reserve` is the current file, and the disk was full since */
    struct aw__audit_digest digest;

    uint32_t *numbers; /* [number_count] of all files, ascending; kept when files_max is set */
    uint32_t number_count, number_size;

    char *group; /* [group_size] whole lines that wait for a commit */
    size_t group_size, group_len;
    struct aw_audit_head group_last;
    int64_t group_at_us;

    FILE *to_text; /* where JSON becomes text, in `text` */
    char *text;    /* [AW_AUDIT_LINE_MAX] */
    size_t text_len;
    bool text_cut;
};

AW_NODISCARD enum aw_err aw__audit_path_of(const struct aw_audit *a, uint32_t number, char *buf,
                                           size_t size, struct aw_diag *diag);
/* The file that keeps what was torn off the current one. */
void aw__audit_aside_name(const struct aw_audit *a, char *buf, size_t size);
/* Clears the mess; what cannot be cleared now is tried again before the next write. */
AW_NODISCARD enum aw_err aw__audit_clear(struct aw_audit *a, struct aw_diag *diag);
/* How far the log goes, replaced in one step. A failure leaves the old head, which is true too. */
AW_NODISCARD enum aw_err aw__audit_write_head(struct aw_audit *a);

/* One more line in the group, whose buffer has `size` bytes left for it. */
AW_NODISCARD enum aw_err aw__audit_add_line(struct aw_audit *a, int64_t at_us, const char *kind,
                                            const char *members, size_t len, size_t size,
                                            struct aw_diag *diag);
/* How a group is written. */
struct aw__audit_how {
    bool new_file; /* it begins one */
    bool reserved; /* the reserve may be used for it */
    uint32_t drop; /* so many of the oldest files go */
};
AW_NODISCARD enum aw_err aw__audit_commit_group(struct aw_audit *a, struct aw__audit_how how,
                                                struct aw_diag *diag);
/* Takes blocks while there are some. AW_OK: they are there, or not wanted, or not to be had on this
 * file system. */
AW_NODISCARD enum aw_err aw__audit_reserve(struct aw_audit *a, struct aw_diag *diag);
/* The group becomes the beginning of the next file, in the blocks of the reserve. */
AW_NODISCARD enum aw_err aw__audit_write_reserved(struct aw_audit *a, struct aw_diag *diag);
/* Writes the group into `file`, which will be number + 1 of the log and is current then. The caller
 * has made a mess of it (AW__AUDIT_NEW_FILE). On failure the file is closed. */
AW_NODISCARD enum aw_err aw__audit_begin_file(struct aw_audit *a, int file, struct aw_diag *diag);
/* The members of a JSON object as text, which begins at `text` + 1. */
AW_NODISCARD enum aw_err aw__audit_members_text(struct aw_audit *a, const json_t *members,
                                                size_t *ret_len, struct aw_diag *diag);
/* Behind `to_text` (fopencookie). */
ssize_t aw__audit_text_write(void *cookie, const char *bytes, size_t len);

#endif
