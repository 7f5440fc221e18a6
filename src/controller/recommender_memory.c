/*
 * recommender_memory.c - what pilots learned, in one file, for the next process.
 *
 * A head, then for each pilot its name, a checksum of its settings, and the bytes of its state
 * (control/pilot.h), which are of one build alone. What does not fit is left aside: the pilot then
 * learns again, from what the store has.
 */
#include "controller/recommender_internal.h"

#include "base/file.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC     "AWPILOT1"
#define BYTES_MAX ((size_t)1 << 30)

struct head {
    char magic[8];
    uint64_t count;
};

struct entry {
    char name[AW_STORE_NAME_MAX];
    uint64_t settings; /* checksum */
    uint64_t bytes;    /* that follow */
};

struct aw__remembered {
    char *bytes;
    size_t len;
};

/* Settings that a state belongs to. The name and how the workload stands are no part of them. */
static uint64_t settings_of(const struct aw_pilot_config *config)
{
    const struct aw_policy_task task = {.bounds = config->bounds,
                                        .replicas = config->bounds.replicas_min,
                                        .cpu_millicores = config->bounds.cpu_millicores_min,
                                        .memory_bytes = config->bounds.memory_bytes_min};
    uint64_t h = AW_HASH_BEGIN;
    char *text = aw_account_config_text(config, &task);
    h = aw_hash_text(h, text);
    free(text);
    return h;
}

/* The entry at `*at`, which then is behind it; false: there is none. */
static bool entry_next(const struct aw__remembered *memory, size_t *at, struct entry *ret,
                       const char **ret_bytes)
{
    if (memory->len - *at < sizeof *ret)
        return false;
    memcpy(ret, memory->bytes + *at, sizeof *ret);
    ret->name[sizeof ret->name - 1] = '\0';
    if (ret->bytes > memory->len - *at - sizeof *ret)
        return false;
    *ret_bytes = memory->bytes + *at + sizeof *ret;
    *at += sizeof *ret + ret->bytes;
    return true;
}

void aw__memory_read(struct aw_recommender *r, const char *path)
{
    struct aw_diag why = {0};
    struct head head;
    struct aw__remembered *memory = aw_alloc_new(r->alloc, 1, sizeof *memory);
    enum aw_err err =
        memory ? aw_file_read(path, BYTES_MAX, r->alloc, &memory->bytes, &memory->len, &why)
               : AW_ERR_NOMEM;
    if (!err && memory->len >= sizeof head)
        memcpy(&head, memory->bytes, sizeof head);
    if (!err && (memory->len < sizeof head || memcmp(head.magic, MAGIC, sizeof head.magic) != 0))
        err = aw_fail(&why, AW_ERR_FORMAT, "not a file of pilots");
    if (!err) {
        r->remembered = memory;
        return;
    }
    if (err != AW_ERR_NOTFOUND)
        aw_log_warn(r->config.log, "what was learned before cannot be read",
                    AW_LOG_STR("file", path), AW_LOG_STR("why", why.text));
    if (memory)
        aw_alloc_free(r->alloc, memory->bytes);
    aw_alloc_free(r->alloc, memory);
}

enum aw_err aw__memory_give(struct aw_recommender *r, struct aw_pilot *pilot)
{
    const struct aw_pilot_config *config = aw_pilot_config(pilot);
    const char *bytes = NULL;
    struct entry entry;
    if (!r->remembered)
        return AW_ERR_NOTFOUND;
    for (size_t at = sizeof(struct head); entry_next(r->remembered, &at, &entry, &bytes);) {
        if (strcmp(entry.name, config->name) != 0)
            continue;
        if (entry.settings != settings_of(config) || entry.bytes != aw_pilot_state_bytes(pilot))
            return AW_ERR_NOTFOUND;
        void *aligned = aw_alloc_new(r->alloc, entry.bytes, 1);
        if (!aligned)
            return AW_ERR_NOTFOUND;
        memcpy(aligned, bytes, entry.bytes);
        const enum aw_err err = aw_pilot_state_load(pilot, aligned);
        aw_alloc_free(r->alloc, aligned);
        return err;
    }
    return AW_ERR_NOTFOUND;
}

void aw__memory_free(struct aw_recommender *r)
{
    if (r->remembered)
        aw_alloc_free(r->alloc, r->remembered->bytes);
    aw_alloc_free(r->alloc, r->remembered);
    r->remembered = NULL;
}

static enum aw_err pilot_write(struct aw_recommender *r, const struct aw_pilot *pilot,
                               struct aw_file_writer *writer, struct aw_diag *diag)
{
    const struct aw_pilot_config *config = aw_pilot_config(pilot);
    struct entry entry = {.settings = settings_of(config), .bytes = aw_pilot_state_bytes(pilot)};
    void *bytes = aw_alloc_new(r->alloc, entry.bytes, 1);
    if (!bytes)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the state of %s", config->name);
    memcpy(entry.name, config->name, sizeof entry.name);
    aw_pilot_state_save(pilot, bytes);
    enum aw_err err = aw_file_writer_write(writer, &entry, sizeof entry, diag);
    err = err ? err : aw_file_writer_write(writer, bytes, entry.bytes, diag);
    aw_alloc_free(r->alloc, bytes);
    return err;
}

enum aw_err aw_recommender_save(struct aw_recommender *r, const char *path, struct aw_diag *diag)
{
    struct head head = {.count = r->counts.active};
    struct aw_file_writer writer = {0};
    memcpy(head.magic, MAGIC, sizeof head.magic);
    enum aw_err err = aw_file_writer_open(&writer, path, NULL, diag);
    err = err ? err : aw_file_writer_write(&writer, &head, sizeof head, diag);
    for (uint32_t i = 0; !err && i < aw_loop_count(r->loop); i++)
        if (aw_loop_has(r->loop, i))
            err = pilot_write(r, aw_loop_pilot(r->loop, i), &writer, diag);
    if (err)
        aw_file_writer_abort(&writer);
    else
        err = aw_file_writer_commit(&writer, diag);
    if (!err && r->config.vpa_memory)
        err = aw__vpas_save(r->vpas, r->config.vpa_memory, diag);
    return err;
}
