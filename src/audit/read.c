/* read.c - verifying, scanning and the tail of the audit log. */
#include <stdio.h>
#include <string.h>

#include "audit/chain.h"

#define ATTEMPTS_MAX 3u /* retention may remove the oldest file under a reader */

static enum aw_err fail_empty(const char *folder, struct aw_diag *diag)
{
    return aw_fail_at(diag, AW_ERR_NOTFOUND, folder, 0, 0, NULL,
                      "expected an audit log, found no file named audit-00000001.jsonl or so");
}

/* ---- verify ---- */

static enum aw_err verify_once(const struct aw_disk *disk, const char *path,
                               const char *expect_hash, aw_audit_visit *visit, void *ctx,
                               const struct aw_alloc *alloc, struct aw_audit_report *ret,
                               struct aw_diag *diag)
{
    struct aw__audit_folder folder = {.file = -1};
    struct aw__audit_chain chain;
    struct aw_audit_head head = {.seq = 0};
    struct aw_diag why = {0};
    /* the head first: what is written after it was read is beyond it, never behind */
    enum aw_err head_err = aw__audit_head_read(disk, path, &head, &why);
    enum aw_err err = head_err && head_err != AW_ERR_FORMAT ? head_err : AW_OK;
    if (err) {
        if (diag)
            *diag = why;
        return err;
    }
    if ((err = aw__audit_folder_open(&folder, disk, path, alloc, diag)))
        return err;
    if (folder.count == 0 && head.seq == 0 && !head_err)
        err = fail_empty(path, diag);
    else
        err = aw__audit_chain_walk(&folder, &head, expect_hash, visit, ctx, &chain, diag);
    aw__audit_folder_close(&folder);
    if (err)
        return err;
    if (head_err && (!chain.report.why[0] || chain.report.torn)) { /* no power cut does that */
        chain.report.torn = false;
        snprintf(chain.report.file, sizeof chain.report.file, "%s", AW__AUDIT_HEAD_NAME);
        snprintf(chain.report.why, sizeof chain.report.why, "%.*s",
                 (int)sizeof chain.report.why - 1, why.text);
        chain.report.line = why.line;
    }
    *ret = chain.report;
    if (!chain.report.why[0])
        return AW_OK;
    aw_fail_at(diag, AW_ERR_FORMAT, NULL, chain.report.line, 0, NULL, "%s", chain.report.why);
    aw__audit_place(diag, path, chain.report.file);
    return AW_ERR_FORMAT;
}

enum aw_err aw_audit_verify(const struct aw_disk *disk, const char *folder, const char *expect_hash,
                            aw_audit_visit *visit, void *ctx, const struct aw_alloc *alloc,
                            struct aw_audit_report *ret_report, struct aw_diag *diag)
{
    struct aw_audit_report report = {0};
    enum aw_err err = AW_OK;
    if (expect_hash && (strlen(expect_hash) != AW_AUDIT_HASH_LEN ||
                        strspn(expect_hash, "0123456789abcdef") != AW_AUDIT_HASH_LEN))
        return aw_fail(diag, AW_ERR_RANGE, "expected a hash of %u digits 0-9 a-f",
                       AW_AUDIT_HASH_LEN);
    for (uint32_t i = 0; i < ATTEMPTS_MAX; i++) {
        err = verify_once(disk ? disk : &aw_disk_posix, folder, expect_hash, visit, ctx, alloc,
                          &report, diag);
        if (err != AW_ERR_NOTFOUND || visit)
            break;
    }
    if (!err || err == AW_ERR_FORMAT)
        *ret_report = report;
    return err;
}

/* ---- scan ---- */

struct scan {
    struct aw__audit_folder folder;
    struct aw__audit_digest digest;
    const struct aw_audit_filter *filter;
    aw_audit_visit *visit;
    void *ctx;
    uint32_t uncounted; /* of this file the beginning was skipped: its lines have no numbers */
};

static enum aw_err scan_open(struct scan *s, const struct aw_disk *disk, const char *path,
                             const struct aw_alloc *alloc, struct aw_diag *diag)
{
    enum aw_err err =
        aw__audit_folder_open(&s->folder, disk ? disk : &aw_disk_posix, path, alloc, diag);
    if (!err && s->folder.count == 0)
        err = fail_empty(path, diag);
    return err ? err : aw__audit_digest_init(&s->digest, diag);
}

static void scan_close(struct scan *s)
{
    aw__audit_digest_deinit(&s->digest);
    aw__audit_folder_close(&s->folder);
}

static bool wanted(const struct aw_audit_filter *f, const struct aw_audit_entry *e)
{
    return e->seq >= f->seq_first && e->seq <= f->seq_last && e->at_us >= f->from_us &&
           e->at_us <= f->until_us && (!f->kind || !strcmp(f->kind, e->kind));
}

/* From where the folder stands to the end of the log, and no further than the filter wants. */
static enum aw_err scan_on(struct scan *s, struct aw_diag *diag)
{
    struct aw__audit_line line;
    struct aw_audit_entry entry;
    enum aw_err err = AW_OK;
    bool first;
    while (!err) {
        uint32_t index = s->folder.index;
        err = aw__audit_folder_next(&s->folder, &line, diag);
        if (err == AW_ERR_NOTFOUND) { /* retention was here */
            aw__audit_folder_seek(&s->folder, index + 1, 0);
            err = AW_OK;
            continue;
        }
        if (err || !line.bytes)
            break;
        /* the end of a log that is being written to may be there in part */
        if (!line.whole && line.index + 1 == s->folder.count && s->folder.start == s->folder.len)
            break;
        const char *why =
            line.whole ? aw__audit_read_line(&s->digest, line.bytes, line.len, &entry, &first) : "";
        if (why)
            entry = (struct aw_audit_entry){.line = line.bytes, .line_len = line.len};
        else if (entry.seq > s->filter->seq_last)
            break;
        entry.file = s->folder.name;
        entry.line_number = line.index == s->uncounted ? 0 : s->folder.line_number;
        if (why || wanted(s->filter, &entry))
            err = s->visit(s->ctx, &entry);
    }
    return err;
}

/* The last file whose first entry is not beyond `seq`: what is before it is too old. */
static enum aw_err find_file(struct scan *s, uint64_t seq, uint32_t *ret_index,
                             struct aw_diag *diag)
{
    uint32_t low = 0, high = s->folder.count; /* the answer is in [low, high) */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        struct aw__audit_line line;
        struct aw_audit_entry entry;
        bool first;
        aw__audit_folder_seek(&s->folder, middle, 0);
        enum aw_err err = aw__audit_folder_next(&s->folder, &line, diag);
        if (err && err != AW_ERR_NOTFOUND)
            return err;
        if (err || !line.bytes || line.index != middle || !line.whole ||
            aw__audit_read_line(&s->digest, line.bytes, line.len, &entry, &first)) {
            low = 0; /* damaged: read everything rather than skip something */
            break;
        }
        if (entry.seq > seq)
            high = middle;
        else
            low = middle;
    }
    *ret_index = low;
    return AW_OK;
}

enum aw_err aw_audit_scan(const struct aw_disk *disk, const char *folder,
                          const struct aw_audit_filter *filter, aw_audit_visit *visit, void *ctx,
                          const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct scan s = {.folder = {.file = -1},
                     .filter = filter,
                     .visit = visit,
                     .ctx = ctx,
                     .uncounted = UINT32_MAX};
    uint32_t index = 0;
    enum aw_err err = scan_open(&s, disk, folder, alloc, diag);
    if (!err && filter->seq_first > 1)
        err = find_file(&s, filter->seq_first, &index, diag);
    if (!err) {
        aw__audit_folder_seek(&s.folder, index, 0);
        err = scan_on(&s, diag);
    }
    scan_close(&s);
    return err;
}

/* ---- tail ---- */

/* Where the last `*count` lines of a file begin; `*count` goes down by how many it has. */
static enum aw_err look_back(struct scan *s, uint32_t index, uint64_t *count, uint64_t *ret_offset,
                             struct aw_diag *diag)
{
    const struct aw_disk *disk = s->folder.disk;
    struct aw__audit_folder *f = &s->folder;
    char path[AW_DISK_PATH_MAX], name[AW_AUDIT_NAME_MAX];
    uint64_t end = 0, found = 0;
    bool at_end = true; /* the newline of the last line ends nothing before it */
    int file = -1;
    enum aw_err err =
        aw__audit_path(f->path, aw__audit_file_name(f->numbers[index], name, sizeof name), path,
                       sizeof path, diag);
    *ret_offset = 0;
    if (err || (err = disk->ops->open(disk->self, path, AW_DISK_READ, &file, diag)))
        return err == AW_ERR_NOTFOUND ? AW_OK : err;
    err = disk->ops->size(disk->self, file, &end, diag);
    while (!err && end && found <= *count) {
        size_t len = end < AW_AUDIT_LINE_MAX ? (size_t)end : AW_AUDIT_LINE_MAX, got = 0;
        err = disk->ops->read(disk->self, file, end - len, f->buf, len, &got, diag);
        if (err || got != len)
            break;
        for (size_t i = len; i > 0 && found <= *count; i--) {
            bool newline = f->buf[i - 1] == '\n';
            found += newline;
            if (newline && found > *count)
                *ret_offset = end - len + i;
            if (at_end && !newline)
                found++; /* a last line without an end */
            at_end = false;
        }
        end -= len;
    }
    disk->ops->close(disk->self, file);
    *count -= found < *count ? found : *count;
    return err;
}

enum aw_err aw_audit_tail(const struct aw_disk *disk, const char *folder, uint64_t count,
                          const struct aw_audit_filter *filter, aw_audit_visit *visit, void *ctx,
                          const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct scan s = {.folder = {.file = -1},
                     .filter = filter,
                     .visit = visit,
                     .ctx = ctx,
                     .uncounted = UINT32_MAX};
    enum aw_err err = scan_open(&s, disk, folder, alloc, diag);
    uint32_t index = s.folder.count;
    uint64_t offset = 0;
    while (!err && count && index > 0)
        err = look_back(&s, --index, &count, &offset, diag);
    if (!err) {
        aw__audit_folder_seek(&s.folder, index, offset);
        s.uncounted = offset ? index : UINT32_MAX;
        err = scan_on(&s, diag);
    }
    scan_close(&s);
    return err;
}
