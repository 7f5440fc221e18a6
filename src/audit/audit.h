/*
 * audit.h - the record of what was decided: a tamper-evident log.
 *
 * A folder of files audit-00000001.jsonl, audit-00000002.jsonl, ... Every line is one JSON object:
 *
 *     {"seq":7,"at":"2026-11-16T02:03:04.123456Z","kind":"decision","first":true,
 *      ...the caller's members...,"prev":"<64 hex digits>","hash":"<64 hex digits>"}
 *
 * without the line break shown here. The chain, exactly:
 *
 *     the last 75 bytes of a line (without its newline) are   ,"hash":"<64 hex>"}
 *     hash = SHA-256 of the line with those 75 bytes replaced by }   (the line without its hash)
 *     prev = hash of the line before; 64 zeros in the very first line
 *     seq  = 1 in the very first line, then one more in every line
 *
 * "first" is there, and true, in the first line of every commit: what a power cut has torn is never
 * followed by the beginning of another commit; an edited line may be.
 *
 * Call order: aw_audit_open; then append any number of times, commit, and so on; aw_audit_close.
 *             Verify, scan and tail need no open log and may run beside one.
 * Memory:     one block at open; append_text and commit allocate nothing. jansson, stdio and
 *             libcrypto use the process heap inside.
 * Threads:    single owner; a second process that opens the folder is refused (UNAVAILABLE).
 *
 * The trap: appending is not recording. An entry is recorded once aw_audit_commit has returned
 * AW_OK; after a failure nothing of the group is, its numbers are given out again, and what it
 * describes must not be done. (One exception that no log can avoid: when the process or the power
 * dies while a commit is under way, or before what a failed one left could be taken back, its
 * entries may be there afterwards although append reported no success.)
 *
 * What the chain shows and what it cannot: docs/mechanisms/audit.md.
 */
#ifndef AW_AUDIT_AUDIT_H
#define AW_AUDIT_AUDIT_H

#include "base/alloc.h"
#include "base/disk.h"

#include <jansson.h>

#define AW_AUDIT_LINE_MAX          65536u /* bytes of a line with its newline */
#define AW_AUDIT_KIND_MAX          32u    /* bytes of a kind with its NUL: a-z 0-9 . _ - */
#define AW_AUDIT_HASH_LEN          64u    /* hexadecimal digits of a hash */
#define AW_AUDIT_NAME_MAX          64u    /* bytes of a file's name with its NUL */
#define AW_AUDIT_WHY_MAX           256u   /* bytes of a reason with its NUL */
#define AW_AUDIT_FILES_LISTED      65536u /* files of a folder */
#define AW_AUDIT_FILE_BYTES        (16u << 20)
#define AW_AUDIT_FILE_BYTES_MAX    (1ull << 40)
#define AW_AUDIT_RESERVE_BYTES_MAX (64u << 20)
#define AW_AUDIT_GROUP_BYTES       (1u << 20)
#define AW_AUDIT_GROUP_BYTES_MAX   (64u << 20)

/* Kinds that the log writes itself; callers may not use them.
 * retained: whole oldest files were dropped; members "through_seq" and "through_hash".
 * break:    a new chain was begun after damage; members "file", "line", "why". */
#define AW_AUDIT_KIND_RETAINED "retained"
#define AW_AUDIT_KIND_BREAK    "break"

/* Zeroed is all defaults. */
struct aw_audit_config {
    uint64_t file_bytes_max;  /* a commit that would go beyond begins a file; 0: _FILE_BYTES */
    uint32_t files_max;       /* older files are dropped; 0: all are kept; else at least 2 */
    uint32_t group_bytes_max; /* of one commit, allocated at open; 0: _GROUP_BYTES */
    uint64_t reserve_bytes;   /* blocks for aw_audit_commit_reserved on a full disk; 0: none */
    bool no_sync;             /* acknowledged lines survive kill -9, not a power cut */
    bool begin_new_chain;     /* where the log is damaged: begin a file that says so */
    int64_t now_us;           /* of the entry that says so */
};

/* What opening found. */
struct aw_audit_recovery {
    uint64_t entry_count;               /* kept */
    uint64_t torn_bytes;                /* cut off the newest file: of an unacknowledged commit */
    char torn_file[AW_AUDIT_NAME_MAX];  /* from where */
    char torn_aside[AW_AUDIT_NAME_MAX]; /* the file that has them now; "" : none */
    char why[AW_AUDIT_WHY_MAX]; /* what was wrong with the first of them, or with the chain */
    bool new_chain;             /* the log was damaged, and a new chain was begun */
};

struct aw_audit;

/* Makes the folder where it is missing. AW_ERR_FORMAT: lines were edited, removed, added or
 * reordered; the diagnostic says file, line, what was expected and what was found; nothing was
 * changed, and config.begin_new_chain is the way on. AW_ERR_UNAVAILABLE: another process has it
 * open. AW_ERR_IO, AW_ERR_NOMEM, AW_ERR_RANGE (config). `disk` NULL is the machine's; it is
 * borrowed until close. `ret_recovery` may be NULL. */
AW_NODISCARD enum aw_err aw_audit_open(struct aw_audit **ret_audit, const struct aw_disk *disk,
                                       const char *folder, const struct aw_audit_config *config,
                                       const struct aw_alloc *alloc,
                                       struct aw_audit_recovery *ret_recovery,
                                       struct aw_diag *diag);
/* Drops what was not committed and records how far the log goes. NULL is a no-op. */
void aw_audit_close(struct aw_audit *audit);

/* Adds one entry to the group. `members` is a JSON object, borrowed, or NULL for none; its keys may
 * not be seq, at, kind, first, prev or hash. `ret_seq` may be NULL; it counts once the group is
 * committed. AW_ERR_LIMIT: the line is longer than AW_AUDIT_LINE_MAX, or the group is full (commit
 * and append it again). AW_ERR_RANGE: a kind, time or key that may not be, or a number that JSON
 * cannot say. The group is as it was then. */
AW_NODISCARD enum aw_err aw_audit_append(struct aw_audit *audit, int64_t at_us, const char *kind,
                                         const json_t *members, uint64_t *ret_seq,
                                         struct aw_diag *diag);
/* The same with members that are text already: "key":value,"key":value without braces, no white
 * space between them, as UTF-8; or 0 bytes. AW_ERR_FORMAT: they are not that. */
AW_NODISCARD enum aw_err aw_audit_append_text(struct aw_audit *audit, int64_t at_us,
                                              const char *kind, const char *members, size_t len,
                                              uint64_t *ret_seq, struct aw_diag *diag);
/* One write and one sync for the whole group; AW_OK: it is recorded. A failure: nothing of it is,
 * the group is empty, and what reached the file is taken back; when even that is refused, every
 * commit tries it first, and works again once the disk does. An empty group is AW_OK without
 * touching the disk. */
AW_NODISCARD enum aw_err aw_audit_commit(struct aw_audit *audit, struct aw_diag *diag);
/* The same, for what must be recorded though the disk is full: where the write fails, the file
 * `reserve`, whose blocks were taken while there was room, becomes the next file of the log. From
 * then on aw_audit_commit fails (IO) until as many blocks can be reserved again. */
AW_NODISCARD enum aw_err aw_audit_commit_reserved(struct aw_audit *audit, struct aw_diag *diag);
/* The disk was full, and the reserve is in use. */
bool aw_audit_on_reserve(const struct aw_audit *audit);
void aw_audit_abort(struct aw_audit *audit); /* empties the group */

/* The latest entry that is recorded: worth keeping elsewhere (see verify). 0 and zeros: none. */
struct aw_audit_head {
    uint64_t seq;
    char hash[AW_AUDIT_HASH_LEN + 1];
};
void aw_audit_last(const struct aw_audit *audit, struct aw_audit_head *ret);

/* A time as entries have it: "2026-11-16T02:03:04.123456Z". False: before 1970 or after 9999. */
#define AW_AUDIT_AT_LEN 27u
bool aw_audit_format_at(int64_t at_us, char text[AW_AUDIT_AT_LEN + 1]);

/* One line, while the visitor runs. */
struct aw_audit_entry {
    uint64_t seq;
    int64_t at_us;
    char kind[AW_AUDIT_KIND_MAX];
    const char *line; /* without its newline, not NUL-terminated */
    size_t line_len;
    const char *members; /* the caller's part of it: "key":value,"key":value */
    size_t members_len;
    const char *prev, *hash; /* AW_AUDIT_HASH_LEN digits each, not NUL-terminated */
    const char *file;        /* its name, without the folder */
    uint32_t line_number;    /* in that file, from 1; 0: not known (tail) */
    bool intact;             /* its hash is right. Else only line, file and line_number are set */
};
/* Not AW_OK: the walk ends, and returns this. */
typedef enum aw_err aw_audit_visit(void *ctx, const struct aw_audit_entry *entry);

struct aw_audit_report {
    uint64_t entry_count; /* good ones, before the first finding */
    uint64_t file_count;
    uint64_t first_seq, last_seq;          /* of those; 0: none */
    char last_hash[AW_AUDIT_HASH_LEN + 1]; /* "" : none */
    uint64_t retained_seq;                 /* everything up to it was dropped by retention */
    uint64_t head_seq;                     /* what the file `head` vouches for; 0: nothing */
    bool torn;                             /* the finding may be a commit that is under way, or
                                              that a power cut has torn: nothing acknowledged */
    uint64_t new_chain_seq;                /* after damage, a chain begins here and holds; 0 */
    char file[AW_AUDIT_NAME_MAX];          /* of the first finding; "": none */
    uint32_t line;
    uint64_t seq;               /* that was expected there */
    char why[AW_AUDIT_WHY_MAX]; /* what was expected and what was found; "": all is well */
};

/* Reads everything and finds any edit, gap, reordering, repetition, removed line or file.
 * AW_OK: all is well. AW_ERR_FORMAT: something was found; `ret_report` and `diag` say what and
 * where. `expect_hash` (64 digits, or NULL): an entry with this hash must be there, e.g. one that
 * was written down elsewhere. `visit` (may be NULL) sees the good entries up to the first finding.
 * AW_ERR_NOTFOUND: no such folder, or no log in it. */
AW_NODISCARD enum aw_err aw_audit_verify(const struct aw_disk *disk, const char *folder,
                                         const char *expect_hash, aw_audit_visit *visit, void *ctx,
                                         const struct aw_alloc *alloc,
                                         struct aw_audit_report *ret_report, struct aw_diag *diag);

/* Which entries a walk visits. Zeroed but for until: AW_AUDIT_EVERY. */
struct aw_audit_filter {
    uint64_t seq_first, seq_last; /* inclusive */
    int64_t from_us, until_us;    /* inclusive */
    const char *kind;             /* NULL: all */
};
#define AW_AUDIT_EVERY \
    ((struct aw_audit_filter){.seq_last = UINT64_MAX, .from_us = INT64_MIN, .until_us = INT64_MAX})

/* Forwards. Each line's own hash is checked, the chain is not: damaged lines are visited too, as
 * not intact, whatever the filter. AW_ERR_NOTFOUND as verify. */
AW_NODISCARD enum aw_err aw_audit_scan(const struct aw_disk *disk, const char *folder,
                                       const struct aw_audit_filter *filter, aw_audit_visit *visit,
                                       void *ctx, const struct aw_alloc *alloc,
                                       struct aw_diag *diag);
/* The newest `count` lines, oldest of them first, then narrowed by `filter`. Reads no more than it
 * needs. */
AW_NODISCARD enum aw_err aw_audit_tail(const struct aw_disk *disk, const char *folder,
                                       uint64_t count, const struct aw_audit_filter *filter,
                                       aw_audit_visit *visit, void *ctx,
                                       const struct aw_alloc *alloc, struct aw_diag *diag);

#endif
