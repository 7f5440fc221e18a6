/*
 * fuzz_audit.c - any bytes as the files of an audit log: refused with their place, or gone on with.
 *
 * The first byte says how to read the rest. Bit 0: the hashes of every line are made right first,
 * else nothing would ever be found behind them. Bit 1: the rest is the file `head`, a newline that
 * ends it, and the log. A byte 1 begins the next file of the log.
 */
#include "fuzz.h"

#include "audit/line.h"
#include "base/disk_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER        "/log"
#define INPUT_MAX     (64u << 10)
#define HASHES_RIGHT  1u
#define WITH_HEAD     2u
#define NEXT_FILE     '\1'
#define PREV_TAIL_LEN 65u /* <64 hex>" before the hash */

/* Gives every line that is long enough the right prev and hash. */
static void mend(struct aw__audit_digest *digest, char *text, size_t len)
{
    char prev[AW_AUDIT_HASH_LEN + 1];
    memcpy(prev, aw__audit_zeros, sizeof prev);
    for (char *line = text; line < text + len;) {
        char *end = memchr(line, '\n', (size_t)(text + len - line));
        if (!end)
            return;
        size_t size = (size_t)(end - line);
        if (size > AW__AUDIT_TAIL_LEN + PREV_TAIL_LEN) {
            char *tail = end - AW__AUDIT_TAIL_LEN;
            memcpy(tail - PREV_TAIL_LEN, prev, AW_AUDIT_HASH_LEN);
            AW_ASSERT(!aw__audit_hash(digest, line, size - AW__AUDIT_TAIL_LEN, prev, NULL));
            memcpy(tail + 9, prev, AW_AUDIT_HASH_LEN);
        }
        line = end + 1;
    }
}

/* Puts the input onto the disk. */
static void put(struct aw_disk_sim *sim, char *text, size_t len, bool with_head)
{
    char path[64];
    const char *at = text, *end = text + len;
    if (with_head) {
        const char *newline = len ? memchr(text, '\n', len) : NULL;
        at = newline ? newline + 1 : end;
        AW_ASSERT(!aw_disk_sim_put(sim, FOLDER "/head", text, (size_t)(at - text)));
    }
    for (uint32_t number = 1; number == 1 || at < end; number++) {
        const char *next = at < end ? memchr(at, NEXT_FILE, (size_t)(end - at)) : NULL;
        next = next ? next : end;
        snprintf(path, sizeof path, FOLDER "/audit-%08u.jsonl", number);
        AW_ASSERT(!aw_disk_sim_put(sim, path, at, (size_t)(next - at)));
        at = next < end ? next + 1 : end;
        if (number == 100)
            break;
    }
}

struct counting {
    uint64_t intact, damaged, last_seq;
};

static enum aw_err count(void *ctx, const struct aw_audit_entry *entry)
{
    struct counting *counting = ctx;
    AW_ASSERT(entry->line && entry->file && entry->line_len < AW_AUDIT_LINE_MAX);
    if (!entry->intact) {
        counting->damaged++;
        return AW_OK;
    }
    /* what is called intact is JSON that anybody can read */
    json_t *json = json_loadb(entry->line, entry->line_len, 0, NULL);
    AW_ASSERT(json && json_is_object(json));
    AW_ASSERT(json_integer_value(json_object_get(json, "seq")) == (json_int_t)entry->seq);
    AW_ASSERT(!strcmp(json_string_value(json_object_get(json, "kind")), entry->kind));
    json_decref(json);
    counting->intact++;
    counting->last_seq = entry->seq;
    return AW_OK;
}

static enum aw_err verify(struct aw_disk_sim *sim, struct aw_audit_report *report)
{
    struct aw_diag diag = {0};
    struct counting counting = {0};
    enum aw_err err =
        aw_audit_verify(&sim->disk, FOLDER, NULL, count, &counting, NULL, report, &diag);
    if (err)
        check_refusal(&diag, err);
    AW_ASSERT(err == AW_OK || err == AW_ERR_FORMAT);
    AW_ASSERT(counting.damaged == 0 && counting.intact == report->entry_count);
    AW_ASSERT((err == AW_ERR_FORMAT) == (report->why[0] != 0));
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[INPUT_MAX];
    struct aw_disk_sim sim;
    struct aw__audit_digest digest;
    struct aw_audit_report before = {0}, after = {0};
    struct aw_audit_config config = {.group_bytes_max = AW_AUDIT_LINE_MAX};
    struct aw_audit_recovery recovery;
    struct aw_audit *audit = NULL;
    struct aw_diag diag = {0};
    struct counting all = {0}, tail = {0};
    if (size < 1 || size > sizeof text)
        return 0;
    uint8_t mode = data[0];
    memcpy(text, data + 1, --size);
    AW_ASSERT(!aw_disk_sim_init(&sim, 1, NULL));
    AW_ASSERT(!sim.disk.ops->make_folder(&sim, FOLDER, NULL));
    AW_ASSERT(!aw__audit_digest_init(&digest, NULL));
    if (mode & HASHES_RIGHT)
        mend(&digest, text, size);
    aw__audit_digest_deinit(&digest);
    put(&sim, text, size, mode & WITH_HEAD);

    enum aw_err found = verify(&sim, &before);
    AW_ASSERT(!aw_audit_scan(&sim.disk, FOLDER, &AW_AUDIT_EVERY, count, &all, NULL, NULL));
    AW_ASSERT(all.intact >= before.entry_count);
    AW_ASSERT(!aw_audit_tail(&sim.disk, FOLDER, 2, &AW_AUDIT_EVERY, count, &tail, NULL, NULL));
    AW_ASSERT(tail.intact + tail.damaged <= 2);

    enum aw_err err = aw_audit_open(&audit, &sim.disk, FOLDER, &config, NULL, &recovery, &diag);
    if (err) {
        check_refusal(&diag, err);
        AW_ASSERT(err == AW_ERR_FORMAT && found && !before.torn);
        config.begin_new_chain = true;
        AW_ASSERT(!aw_audit_open(&audit, &sim.disk, FOLDER, &config, NULL, &recovery, &diag));
        AW_ASSERT(recovery.new_chain);
    } else {
        AW_ASSERT(!found || before.torn || before.new_chain_seq);
    }
    AW_ASSERT(!aw_audit_append_text(audit, 1, "more", "\"a\":1", 5, NULL, NULL));
    AW_ASSERT(!aw_audit_commit(audit, NULL));
    aw_audit_close(audit);
    enum aw_err now = verify(&sim, &after);
    /* damage stays to be seen, unless it was of the head alone and there was nothing else */
    AW_ASSERT(now == AW_OK ? found == AW_OK || before.torn || before.entry_count == 0
                           : found != AW_OK && !before.torn);
    config.begin_new_chain = false;
    AW_ASSERT(!aw_audit_open(&audit, &sim.disk, FOLDER, &config, NULL, NULL, &diag));
    aw_audit_close(audit);
    aw_disk_sim_deinit(&sim);
    return 0;
}
