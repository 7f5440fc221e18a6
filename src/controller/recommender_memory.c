/*
 * recommender_memory.c - what pilots learned, in one file, for the next process.
 *
 * An envelope for each pilot, one behind the other: its name, a checksum of its settings, and the
 * bytes of its state (control/pilot.h). What does not fit is left aside: the pilot then learns
 * again, from what the store has.
 */
#include "controller/recommender_internal.h"

#include "base/envelope.h"
#include "base/file.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((size_t)1 << 30)

/* The state follows it. */
struct entry {
    struct aw_envelope head;
    char name[AW_STORE_NAME_MAX];
    uint64_t settings; /* checksum */
};
AW_LAYOUT(layout, struct entry, 0, AW_ENVELOPE(head.), name, settings);
static struct aw_format format = {.kind = "pilots",
                                  .what = "what pilots learned",
                                  .version = 1,
                                  .layout = {layout, aw_pilot_layout}};

struct aw__remembered {
    char *bytes; /* the last byte of a name, NUL in the file, is 1 once a pilot has come for it */
    size_t len;
};
#define GIVEN (offsetof(struct entry, name) + sizeof((struct entry){0}).name - 1)

/* Settings that a state belongs to. The name and how the workload stands are no part of them. */
static uint64_t settings_of(const struct aw_pilot_config *config)
{
    const struct aw_fallback_task task = {.bounds = config->bounds,
                                          .replicas = config->bounds.replicas_min,
                                          .cpu_millicores = config->bounds.cpu_millicores_min,
                                          .memory_bytes = config->bounds.memory_bytes_min};
    uint64_t h = AW_HASH_BEGIN;
    char *text = aw_explanation_config_text(config, &task);
    h = aw_hash_text(h, text);
    free(text);
    return h;
}

/* Of the entry at `at`, or of what is left, which is no whole one. */
static size_t entry_bytes(const struct aw__remembered *memory, size_t at, struct entry *ret)
{
    const size_t left = memory->len - at;
    *ret = (struct entry){0};
    memcpy(ret, memory->bytes + at, left < sizeof *ret ? left : sizeof *ret);
    ret->name[sizeof ret->name - 1] = '\0';
    return ret->head.bytes < left - sizeof ret->head && left > sizeof ret->head
               ? sizeof ret->head + ret->head.bytes
               : left;
}

/* Whether every entry can be read. */
static enum aw_err entries_check(const struct aw__remembered *memory, struct aw_diag *diag)
{
    struct entry entry;
    enum aw_err err = AW_OK;
    for (size_t at = 0, size; !err && at < memory->len; at += size) {
        size = entry_bytes(memory, at, &entry);
        err = aw_envelope_open(&format, 0, memory->bytes + at, size, diag);
    }
    return err;
}

void aw__memory_read(struct aw_recommender *r, const char *path)
{
    char buf[AW_FILE_PATH_MAX];
    struct aw_diag why = {0};
    struct aw__remembered *memory = aw_alloc_new(r->alloc, 1, sizeof *memory);
    enum aw_err err =
        memory ? aw_file_read(path, BYTES_MAX, r->alloc, &memory->bytes, &memory->len, &why)
               : AW_ERR_NOMEM;
    err = err ? err : entries_check(memory, &why);
    if (!err) {
        r->remembered = memory;
        return;
    }
    const char *aside = aw_envelope_set_aside(path, err, buf, sizeof buf);
    if (err != AW_ERR_NOTFOUND)
        aw_log_warn(r->config.log, "what was learned before cannot be read",
                    AW_LOG_STR("file", path), AW_LOG_STR("why", why.text),
                    AW_LOG_STR("kept", aside));
    if (memory)
        aw_alloc_free(r->alloc, memory->bytes);
    aw_alloc_free(r->alloc, memory);
}

enum aw_err aw__memory_give(struct aw_recommender *r, struct aw_pilot *pilot)
{
    const struct aw_pilot_config *config = aw_pilot_config(pilot);
    struct aw__remembered *memory = r->remembered;
    struct entry entry;
    for (size_t at = 0, size; memory && at < memory->len; at += size) {
        size = entry_bytes(memory, at, &entry);
        if (strcmp(entry.name, config->name) != 0)
            continue;
        memory->bytes[at + GIVEN] = 1;
        if (entry.settings != settings_of(config) ||
            size != sizeof entry + aw_pilot_state_bytes(pilot))
            return AW_ERR_NOTFOUND;
        return aw_pilot_state_load(pilot, memory->bytes + at + sizeof entry);
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
    const size_t size = sizeof(struct entry) + aw_pilot_state_bytes(pilot);
    struct entry entry = {.settings = settings_of(config)};
    char *bytes = aw_alloc_new(r->alloc, size, 1);
    if (!bytes)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the state of %s", config->name);
    memcpy(entry.name, config->name, sizeof entry.name);
    memcpy(bytes, &entry, sizeof entry);
    aw_pilot_state_save(pilot, bytes + sizeof entry);
    aw_envelope_seal(&format, 0, bytes, size);
    enum aw_err err = aw_file_writer_write(writer, bytes, size, diag);
    aw_alloc_free(r->alloc, bytes);
    return err;
}

/* Of pilots that have not come yet, what was remembered stays. */
static enum aw_err others_write(const struct aw__remembered *memory, struct aw_file_writer *writer,
                                struct aw_diag *diag)
{
    struct entry entry;
    enum aw_err err = AW_OK;
    for (size_t at = 0, size; !err && memory && at < memory->len; at += size) {
        size = entry_bytes(memory, at, &entry);
        if (!memory->bytes[at + GIVEN])
            err = aw_file_writer_write(writer, memory->bytes + at, size, diag);
    }
    return err;
}

enum aw_err aw_recommender_save(struct aw_recommender *r, const char *path, struct aw_diag *diag)
{
    struct aw_file_writer writer = {0};
    enum aw_err err = aw_file_writer_open(&writer, path, NULL, diag);
    for (uint32_t i = 0; !err && i < aw_loop_count(r->loop); i++)
        if (aw_loop_has(r->loop, i))
            err = pilot_write(r, aw_loop_pilot(r->loop, i), &writer, diag);
    err = err ? err : others_write(r->remembered, &writer, diag);
    if (err)
        aw_file_writer_abort(&writer);
    else
        err = aw_file_writer_commit(&writer, diag);
    if (!err && r->config.vpa_memory)
        err = aw__vpas_save(r->vpas, r->config.vpa_memory, diag);
    return err;
}
