/*
 * chain.c - walks a whole log along its chain.
 *
 * What a power cut can do: only the last commit was not yet synced, so only it can be torn, and
 * every commit begins with an entry that is marked as its first. Hence a line that cannot be read
 * is the work of a power cut only where it is in the newest file, the head does not vouch for it,
 * and no readable entry behind it begins a commit. Everything else is the work of somebody.
 */
#include "audit/chain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct walk {
    struct aw__audit_chain *to;
    const struct aw_audit_head *head;
    const char *expect_hash;
    bool begun;         /* an entry was seen */
    bool restarted;     /* the newest chain begins with an entry of kind break */
    bool stopped;       /* the newest chain is damaged, or torn */
    bool maybe_torn;    /* ... torn */
    bool expected_seen; /* the entry with expect_hash */
    bool finding;
    /* retention: what the first line says of what was before it, and what was recorded about it */
    bool anchored;
    uint64_t before_seq;
    char before_hash[AW_AUDIT_HASH_LEN + 1], first_file[AW_AUDIT_NAME_MAX];
};

static void note(struct walk *w, const char *file, uint32_t line, uint64_t seq, const char *fmt,
                 ...) AW_PRINTF(5, 6);

/* The newest chain ends here; also the finding, when it is the first. */
static void note(struct walk *w, const char *file, uint32_t line, uint64_t seq, const char *fmt,
                 ...)
{
    struct aw__audit_chain *to = w->to;
    va_list args;
    va_start(args, fmt);
    vsnprintf(to->why, sizeof to->why, fmt, args);
    va_end(args);
    snprintf(to->file, sizeof to->file, "%s", file);
    to->line = line;
    w->stopped = true;
    w->maybe_torn = false;
    if (!w->finding) {
        w->finding = true;
        memcpy(to->report.why, to->why, sizeof to->report.why);
        memcpy(to->report.file, to->file, sizeof to->report.file);
        to->report.line = line;
        to->report.seq = seq;
    }
}

static bool same_hash(const char *a, const char *b)
{
    return memcmp(a, b, AW_AUDIT_HASH_LEN) == 0;
}

static void note_retained(struct walk *w, const struct aw_audit_entry *entry)
{
    char hash[AW_AUDIT_HASH_LEN + 1];
    uint64_t seq;
    if (!aw__audit_member_u64(entry, "through_seq", &seq) ||
        !aw__audit_member_hash(entry, "through_hash", hash))
        return;
    if (seq > w->to->report.retained_seq)
        w->to->report.retained_seq = seq;
    if (seq > w->before_seq || (seq == w->before_seq && same_hash(hash, w->before_hash)))
        w->anchored = true;
}

static enum aw_err accept(struct walk *w, const struct aw_audit_entry *entry, aw_audit_visit *visit,
                          void *ctx)
{
    struct aw__audit_chain *to = w->to;
    struct aw_audit_report *report = &to->report;
    to->entry_count++;
    to->last_seq = entry->seq;
    memcpy(to->last_hash, entry->hash, AW_AUDIT_HASH_LEN);
    if (!strcmp(entry->kind, AW_AUDIT_KIND_RETAINED))
        note_retained(w, entry);
    if (w->expect_hash && same_hash(entry->hash, w->expect_hash))
        w->expected_seen = true;
    if (w->finding)
        return AW_OK;
    report->entry_count++;
    report->first_seq = report->first_seq ? report->first_seq : entry->seq;
    report->last_seq = entry->seq;
    memcpy(report->last_hash, entry->hash, AW_AUDIT_HASH_LEN);
    return visit ? visit(ctx, entry) : AW_OK;
}

/* What is wrong between a readable entry and the one before it. True: nothing. */
static bool follows(struct walk *w, const struct aw_audit_entry *entry)
{
    const struct aw__audit_chain *to = w->to;
    uint64_t seq = to->last_seq + 1;
    if (w->begun && entry->seq != seq) {
        note(w, entry->file, entry->line_number, seq, "expected entry %ju, found entry %ju: %s",
             (uintmax_t)seq, (uintmax_t)entry->seq,
             entry->seq > seq        ? "entries are missing"
             : entry->seq == seq - 1 ? "one is repeated"
                                     : "they are not in their order");
        return false;
    }
    const char *prev = w->begun ? to->last_hash : entry->seq == 1 ? aw__audit_zeros : entry->prev;
    if (!same_hash(entry->prev, prev)) {
        note(w, entry->file, entry->line_number, entry->seq,
             "expected the hash of the entry before it as prev, found another: one of the two was "
             "replaced");
        return false;
    }
    if (entry->seq == w->head->seq && !same_hash(entry->hash, w->head->hash)) {
        note(w, entry->file, entry->line_number, entry->seq,
             "expected the hash that the file head has for this entry, found another: it was "
             "replaced");
        return false;
    }
    return true;
}

/* An entry of kind break, where one may be. */
static void restart(struct walk *w, const struct aw_audit_entry *entry)
{
    if (w->begun && !w->finding)
        note(w, entry->file, entry->line_number, w->to->last_seq + 1,
             "the log was damaged before this entry, which begins a new chain");
    if (w->finding)
        w->to->report.new_chain_seq = entry->seq;
    w->stopped = w->maybe_torn = false;
    w->restarted = true;
}

static void begin(struct walk *w, const struct aw_audit_entry *entry)
{
    w->begun = true;
    w->before_seq = entry->seq - 1;
    memcpy(w->before_hash, entry->prev, AW_AUDIT_HASH_LEN);
    snprintf(w->first_file, sizeof w->first_file, "%s", entry->file);
    /* a new chain says itself that what was before it is not to be had */
    w->anchored = w->before_seq == 0 || w->restarted;
}

static enum aw_err look_at(struct walk *w, struct aw__audit_folder *folder,
                           struct aw__audit_digest *digest, const struct aw__audit_line *line,
                           aw_audit_visit *visit, void *ctx)
{
    struct aw__audit_chain *to = w->to;
    struct aw_audit_entry entry;
    bool first = false;
    const char *why = !line->whole
                          ? "expected a whole line, found a part of one or a longer one"
                          : aw__audit_read_line(digest, line->bytes, line->len, &entry, &first);
    if (why) {
        if (!w->stopped) {
            note(w, folder->name, folder->line_number, to->last_seq + 1, "%s", why);
            w->maybe_torn = line->index + 1 == folder->count;
            to->torn_offset = line->offset;
        }
        return AW_OK;
    }
    entry.file = folder->name;
    entry.line_number = folder->line_number;
    bool breaks = !strcmp(entry.kind, AW_AUDIT_KIND_BREAK) && entry.line_number == 1 &&
                  same_hash(entry.prev, aw__audit_zeros) && entry.seq > to->seq_max;
    to->seq_max = entry.seq > to->seq_max ? entry.seq : to->seq_max;
    if (breaks)
        restart(w, &entry);
    else if (w->stopped) {
        w->maybe_torn = w->maybe_torn && !first;
        return AW_OK;
    } else if (!follows(w, &entry)) {
        return AW_OK;
    }
    if (!w->begun)
        begin(w, &entry);
    return accept(w, &entry, visit, ctx);
}

/* What can be said only once everything was read. */
static void conclude(struct walk *w, const struct aw__audit_folder *folder)
{
    struct aw__audit_chain *to = w->to;
    const uint64_t head_seq = w->head->seq;
    char newest[AW_AUDIT_NAME_MAX] = AW__AUDIT_HEAD_NAME;
    if (folder->count)
        aw__audit_file_name(folder->numbers[folder->count - 1], newest, sizeof newest);
    /* Files are dropped only after the record of it was acknowledged: that cannot be torn. */
    if (head_seq > to->last_seq || (w->begun && !w->anchored && !w->restarted))
        w->maybe_torn = false;
    to->torn = w->maybe_torn;
    to->damaged = w->stopped && !to->torn;
    if (w->stopped) {
        to->report.torn = to->torn && !to->report.new_chain_seq;
        return;
    }
    if (head_seq > to->last_seq) {
        note(w, newest, 0, to->last_seq + 1,
             "expected entries up to %ju, which the file head vouches for, found the last one to "
             "be %ju: the newest are missing",
             (uintmax_t)head_seq, (uintmax_t)to->last_seq);
        to->damaged = true;
    } else if (w->begun && !w->anchored) {
        bool new_chain = w->restarted; /* damage that a writer has already coped with */
        note(w, w->first_file, 1, w->before_seq,
             "expected entry %ju before this one, or a record that retention has dropped it, found "
             "neither: the oldest are missing",
             (uintmax_t)w->before_seq);
        to->damaged = !new_chain;
    } else if (w->expect_hash && !w->expected_seen) {
        note(w, newest, 0, to->last_seq + 1, "expected an entry with hash %.*s, found none",
             (int)AW_AUDIT_HASH_LEN, w->expect_hash);
    }
}

enum aw_err aw__audit_chain_walk(struct aw__audit_folder *folder, const struct aw_audit_head *head,
                                 const char *expect_hash, aw_audit_visit *visit, void *ctx,
                                 struct aw__audit_chain *ret, struct aw_diag *diag)
{
    struct walk w = {.to = ret, .head = head, .expect_hash = expect_hash};
    struct aw__audit_digest digest = {0};
    struct aw__audit_line line = {.bytes = NULL};
    *ret = (struct aw__audit_chain){.report = {.file_count = folder->count, .head_seq = head->seq}};
    enum aw_err err = aw__audit_digest_init(&digest, diag);
    if (err)
        return err;
    aw__audit_folder_seek(folder, 0, 0);
    while (!(err = aw__audit_folder_next(folder, &line, diag)) && line.bytes)
        if ((err = look_at(&w, folder, &digest, &line, visit, ctx)))
            break;
    aw__audit_digest_deinit(&digest);
    if (err)
        return err;
    conclude(&w, folder);
    ret->seq_max = head->seq > ret->seq_max ? head->seq : ret->seq_max;
    return AW_OK;
}

size_t aw__audit_head_format(const struct aw_audit_head *head, char *buf, size_t size)
{
    return (size_t)snprintf(buf, size, "{\"seq\":%ju,\"hash\":\"%s\"}\n", (uintmax_t)head->seq,
                            head->hash);
}

enum aw_err aw__audit_head_read(const struct aw_disk *disk, const char *folder,
                                struct aw_audit_head *ret, struct aw_diag *diag)
{
    char path[AW_DISK_PATH_MAX], bytes[AW__AUDIT_HEAD_BYTES_MAX];
    struct aw_audit_head head = {.seq = 0};
    size_t len = 0;
    int file = -1;
    enum aw_err err = aw__audit_path(folder, AW__AUDIT_HEAD_NAME, path, sizeof path, diag);
    if (err)
        return err;
    err = disk->ops->open(disk->self, path, AW_DISK_READ, &file, diag);
    if (err == AW_ERR_NOTFOUND) {
        *ret = head;
        return AW_OK;
    }
    if (!err)
        err = disk->ops->read(disk->self, file, 0, bytes, sizeof bytes - 1, &len, diag);
    disk->ops->close(disk->self, file);
    if (err)
        return err;
    bytes[len] = '\0';
    char again[AW__AUDIT_HEAD_BYTES_MAX] = "";
    uintmax_t seq = 0;
    if (sscanf(bytes, "{\"seq\":%19ju,\"hash\":\"%64[0-9a-f]\"}", &seq, head.hash) == 2 &&
        strlen(head.hash) == AW_AUDIT_HASH_LEN) {
        head.seq = seq;
        aw__audit_head_format(&head, again, sizeof again);
    }
    if (len == 0 || strlen(bytes) != len || strcmp(again, bytes) != 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 1, 0, NULL,
                          "expected a sequence number and a hash, found something else");
    *ret = head;
    return AW_OK;
}
