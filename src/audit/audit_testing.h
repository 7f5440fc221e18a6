/* audit_testing.h - a log on a simulated disk, for the tests of this room. */
#ifndef AW_AUDIT_AUDIT_TESTING_H
#define AW_AUDIT_AUDIT_TESTING_H

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/disk_sim.h"
#include "base/testing.h"

#define FOLDER "/var/audit"
#define T0     1794794584123456 /* 2026-11-16T02:03:04.123456Z */

static inline struct aw_audit *open_log(struct aw_disk_sim *sim,
                                        const struct aw_audit_config *config,
                                        struct aw_audit_recovery *recovery)
{
    struct aw_audit *audit = NULL;
    struct aw_diag diag = {0};
    if (aw_audit_open(&audit, &sim->disk, FOLDER, config, NULL, recovery, &diag))
        fail_msg("%s:%u: %s", diag.file, diag.line, diag.text);
    return audit;
}

/* An entry whose members say `n`, and so much more that lines differ in length. */
static inline enum aw_err append_n(struct aw_audit *audit, uint64_t n, uint64_t *ret_seq,
                                   struct aw_diag *diag)
{
    char members[256];
    int len = snprintf(members, sizeof members, "\"n\":%ju,\"pad\":\"%.*s\"", (uintmax_t)n,
                       (int)(n * 37 % 97),
                       "...................................................."
                       ".............................................");
    return aw_audit_append_text(audit, T0 + (int64_t)n * 15000000, n % 3 ? "decision" : "freeze",
                                members, (size_t)len, ret_seq, diag);
}

/* A group of `count` entries from `n` on, committed. */
static inline void record(struct aw_audit *audit, uint64_t n, uint32_t count)
{
    struct aw_diag diag = {0};
    for (uint32_t i = 0; i < count; i++)
        assert_ok(append_n(audit, n + i, NULL, &diag));
    if (aw_audit_commit(audit, &diag))
        fail_msg("%s: %s", diag.file, diag.text);
}

/* The n that an entry of append_n was made from; UINT64_MAX: another entry. */
static inline uint64_t n_of(const struct aw_audit_entry *entry)
{
    uintmax_t n = 0;
    char head[32] = "";
    if (entry->members_len < 5)
        return UINT64_MAX;
    memcpy(head, entry->members, entry->members_len < 31 ? entry->members_len : 31);
    return sscanf(head, "\"n\":%ju,", &n) == 1 ? n : UINT64_MAX;
}

static inline enum aw_err verify(struct aw_disk_sim *sim, struct aw_audit_report *report,
                                 struct aw_diag *diag)
{
    return aw_audit_verify(&sim->disk, FOLDER, NULL, NULL, NULL, NULL, report, diag);
}

static inline void assert_verifies(struct aw_disk_sim *sim)
{
    struct aw_audit_report report;
    struct aw_diag diag = {0};
    if (verify(sim, &report, &diag))
        fail_msg("%s:%u: %s", diag.file, diag.line, diag.text);
}

#endif
