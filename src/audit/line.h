/*
 * line.h - one line of the audit log: how it is written, read and hashed. Inside audit alone.
 *
 * The format is in audit.h. Reading is strict: a line that these functions accept is, byte for
 * byte, one that they could have written.
 *
 * Memory:  a digest holds what libcrypto wants; nothing else allocates.
 * Threads: a digest has one owner.
 */
#ifndef AW_AUDIT_LINE_H
#define AW_AUDIT_LINE_H

#include "audit/audit.h"

#define AW__AUDIT_AT_LEN   27u /* 2026-11-16T02:03:04.123456Z */
#define AW__AUDIT_TAIL_LEN 75u /* ,"hash":"<64 hex>"} */

/* The prev of the very first line. */
extern const char aw__audit_zeros[AW_AUDIT_HASH_LEN + 1];

struct aw__audit_digest {
    void *method, *context; /* of libcrypto */
};
AW_NODISCARD enum aw_err aw__audit_digest_init(struct aw__audit_digest *digest,
                                               struct aw_diag *diag);
void aw__audit_digest_deinit(struct aw__audit_digest *digest); /* a zeroed one is a no-op */
/* The hash of a line that begins with `body` and goes on with its hash. */
AW_NODISCARD enum aw_err aw__audit_hash(struct aw__audit_digest *digest, const char *body,
                                        size_t len, char hash[AW_AUDIT_HASH_LEN + 1],
                                        struct aw_diag *diag);

bool aw__audit_kind_fine(const char *kind);
/* AW_ERR_FORMAT or AW_ERR_RANGE: what aw_audit_append_text says of its members. */
AW_NODISCARD enum aw_err aw__audit_check_members(const char *members, size_t len,
                                                 struct aw_diag *diag);

struct aw__audit_fields {
    uint64_t seq;
    int64_t at_us;
    const char *kind;
    bool first;
    const char *members;
    size_t members_len;
    const char *prev; /* AW_AUDIT_HASH_LEN digits */
};
/* Writes a line with its newline to `buf`, of `size` bytes, and its hash. The fields have been
 * checked. AW_ERR_LIMIT: it does not fit. */
AW_NODISCARD enum aw_err aw__audit_write_line(struct aw__audit_digest *digest,
                                              const struct aw__audit_fields *fields, char *buf,
                                              size_t size, size_t *ret_len,
                                              char hash[AW_AUDIT_HASH_LEN + 1],
                                              struct aw_diag *diag);

/* Reads a line without its newline into seq, at_us, kind, members, prev and hash of `entry`, and
 * `ret_first`. NULL: all is well. Else what is wrong, as "expected ..., found ...", for people;
 * `entry` has no meaning then. */
const char *aw__audit_read_line(struct aw__audit_digest *digest, const char *line, size_t len,
                                struct aw_audit_entry *entry, bool *ret_first);

/* The value of a top-level member that the log itself has written. */
bool aw__audit_member_u64(const struct aw_audit_entry *entry, const char *key, uint64_t *ret);
bool aw__audit_member_hash(const struct aw_audit_entry *entry, const char *key,
                           char hash[AW_AUDIT_HASH_LEN + 1]);

#endif
