/*
 * journal.h - decisions with everything that is needed to take them again, in one SQLite file.
 *
 * The audit log says what was done, for ever; the journal keeps, for a while, why: the account of a
 * decision and the moment it was taken in. Losing it loses explanations, never the record.
 *
 * Call order: open; per tick begin, put for every notable decision, commit; get and list whenever;
 *             close. A journal may be open for reading beside its writer.
 * Memory:     SQLite's and zlib's; what get and latest return is the caller's, what list shows is
 *             its own.
 * Threads:    single owner.
 */
#ifndef AW_DESK_JOURNAL_H
#define AW_DESK_JOURNAL_H

#include <aware/cluster.h>
#include <aware/store.h>

#include "base/alloc.h"
#include "safety/orders.h"

#define AW_JOURNAL_PER_WORKLOAD 200u         /* kept of each workload; the oldest go */
#define AW_JOURNAL_BYTES_MAX    (1024 << 20) /* kept of all; the oldest go */

struct aw_journal; /* opaque */

struct aw_journal_entry {
    uint64_t id; /* its entry in the audit log */
    char workload[AW_STORE_NAME_MAX];
    int64_t at_us;
    struct aw_orders orders;
    char *account; /* aw_explanation_text */
    char *config;  /* aw_explanation_config_text; NULL in a list */
    void *moment;  /* NULL: not kept */
    size_t moment_bytes;
};
void aw_journal_entry_deinit(struct aw_journal_entry *entry); /* a zeroed one is a no-op */

/* AW_ERR_NOTFOUND (read only), AW_ERR_FORMAT (not a journal, damaged), AW_ERR_UNSUPPORTED (newer).
 * `per_workload` 0: AW_JOURNAL_PER_WORKLOAD. */
AW_NODISCARD enum aw_err aw_journal_open(struct aw_journal **ret, const char *path, bool read_only,
                                         uint32_t per_workload, struct aw_diag *diag);
void aw_journal_close(struct aw_journal *journal); /* NULL is a no-op */

AW_NODISCARD enum aw_err aw_journal_begin(struct aw_journal *journal, struct aw_diag *diag);
/* An id that is there already is replaced: a run that is resumed lives its steps again. */
AW_NODISCARD enum aw_err aw_journal_put(struct aw_journal *journal, uint64_t id,
                                        const char *workload, int64_t at_us,
                                        const struct aw_orders *orders, const char *account,
                                        const char *config, const void *moment, size_t moment_bytes,
                                        struct aw_diag *diag);
/* The number of a config, which is kept once. It is good in this group, and in later ones if this
 * one is committed: many decisions can share one. */
AW_NODISCARD enum aw_err aw_journal_config(struct aw_journal *journal, const char *config,
                                           int64_t *ret_number, struct aw_diag *diag);
/* As put, under a config by its number. */
AW_NODISCARD enum aw_err aw_journal_put_under(struct aw_journal *journal, uint64_t id,
                                              const char *workload, int64_t at_us,
                                              const struct aw_orders *orders, const char *account,
                                              int64_t config, const void *moment,
                                              size_t moment_bytes, struct aw_diag *diag);
/* A put that failed, for want of disk or memory, has taken back all since begin: commit says so
 * again, and the next begin starts afresh. */
AW_NODISCARD enum aw_err aw_journal_commit(struct aw_journal *journal, struct aw_diag *diag);
/* Takes back what was put since begin: its ids have not become entries of the log. */
void aw_journal_abort(struct aw_journal *journal);

/* AW_ERR_NOTFOUND: never kept, or forgotten by now. */
AW_NODISCARD enum aw_err aw_journal_get(struct aw_journal *journal, uint64_t id,
                                        struct aw_journal_entry *ret, struct aw_diag *diag);
/* The latest of a workload at or before `at_us`. */
AW_NODISCARD enum aw_err aw_journal_latest(struct aw_journal *journal, const char *workload,
                                           int64_t at_us, struct aw_journal_entry *ret,
                                           struct aw_diag *diag);
/* Newest first, without configs and moments. `workload` NULL: all. Not AW_OK from `visit` ends the
 * walk, and is returned. `visit` must not call the journal. */
typedef enum aw_err aw_journal_visit(void *ctx, const struct aw_journal_entry *entry);
AW_NODISCARD enum aw_err aw_journal_list(struct aw_journal *journal, const char *workload,
                                         int64_t since_us, uint32_t max, aw_journal_visit *visit,
                                         void *ctx, struct aw_diag *diag);

#endif
