/*
 * chain.h - walks a whole log along its chain and says what is wrong. Inside audit alone.
 *
 * Two ask: verify wants the first thing that is wrong anywhere; a writer wants to know whether it
 * may go on, and after which line. They differ where damage was noticed earlier and a new chain was
 * begun: that log still has its finding, and may be gone on with.
 */
#ifndef AW_AUDIT_CHAIN_H
#define AW_AUDIT_CHAIN_H

#include "audit/folder.h"

#define AW__AUDIT_HEAD_NAME      "head"
#define AW__AUDIT_HEAD_TEMP_NAME "head.tmp"
#define AW__AUDIT_HEAD_BYTES_MAX 256u

struct aw__audit_chain {
    struct aw_audit_report report;

    /* The newest chain: everything, or what follows the last entry of kind break. */
    uint64_t last_seq; /* 0: it has no entry */
    char last_hash[AW_AUDIT_HASH_LEN + 1];
    uint64_t entry_count; /* of all chains */
    bool damaged;         /* it may not be gone on with; `why` and so on are of this damage */
    char file[AW_AUDIT_NAME_MAX];
    uint32_t line;
    char why[AW_AUDIT_WHY_MAX];
    bool torn;            /* instead of damaged: what follows was never acknowledged */
    uint64_t torn_offset; /* of the newest file: where that begins */
    uint64_t seq_max;     /* of any entry that can be read, and of the head */
};

/* The text of the file `head`: {"seq":N,"hash":"..."} and a newline. Returns its length. */
size_t aw__audit_head_format(const struct aw_audit_head *head, char *buf, size_t size);
/* Reads the file `head`: AW_OK with seq 0 where it does not exist. AW_ERR_FORMAT: damaged. */
AW_NODISCARD enum aw_err aw__audit_head_read(const struct aw_disk *disk, const char *folder,
                                             struct aw_audit_head *ret, struct aw_diag *diag);

/* Reads everything. AW_OK whatever was found. `head` has been read before `folder` was opened.
 * `visit` (may be NULL) sees the good entries before the first finding. */
AW_NODISCARD enum aw_err aw__audit_chain_walk(struct aw__audit_folder *folder,
                                              const struct aw_audit_head *head,
                                              const char *expect_hash, aw_audit_visit *visit,
                                              void *ctx, struct aw__audit_chain *ret,
                                              struct aw_diag *diag);

#endif
