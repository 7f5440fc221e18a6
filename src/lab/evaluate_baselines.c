/*
 * evaluate_baselines.c - baselines that were tuned and run before, in a folder.
 *
 * To tune them takes most of a day's evaluation, and they know nothing of the pilot: who compares
 * two pilots wants the same ones. A file is called by all that they depend on; what a program of
 * another version has written is not taken, nor is a damaged file.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/envelope.h"
#include "base/file.h"
#include "base/hash.h"
#include "frame/version.h"
#include "lab/evaluate.h"

#define PIECE_BYTES_MAX (64u << 10)

static struct aw_format format = {.kind = "tuned", .what = "tuned baselines", .version = 1};

static uint64_t mix_fields(uint64_t hash, const struct aw_conf_field *fields, const void *values)
{
    for (; fields->key; fields++) {
        char value[AW_CONF_TEXT_MAX];
        aw_conf_get(fields, values, value, sizeof value);
        hash = aw_hash_text(aw_hash_text(hash, fields->key), value);
    }
    return hash;
}

static uint64_t key_of(const struct aw__evaluate *ask, uint32_t turn)
{
    const struct aw_evaluate_app *app = &ask->apps[turn];
    const struct aw_evaluate_config *config = &ask->config;
    const uint64_t numbers[] = {ask->pool, app->index, config->simulate.seed, config->seeds,
                                config->simulate.tuning_budget};
    uint64_t hash = aw_hash_text(AW_HASH_BEGIN, AW_VERSION_NUMBER " " AW_VERSION_SOURCE);
    hash = aw_hash_bytes(hash, numbers, sizeof numbers);
    hash = mix_fields(hash, aw_simulate_fields, &config->simulate.settings);
    hash = mix_fields(hash, aw_sim_fields, &config->simulate.sim);
    hash = aw_hash_bytes(hash, &app->day.slot_us, sizeof app->day.slot_us);
    return aw_hash_bytes(hash, app->day.rate_per_s,
                         app->day.slot_count * sizeof *app->day.rate_per_s);
}

static void path_of(const struct aw__evaluate *ask, uint64_t key, char *buf, size_t size)
{
    snprintf(buf, size, "%s/tuned-%016" PRIx64, ask->baselines, key);
}

static bool take(void *ctx, uint32_t turn, void *piece, size_t size)
{
    const struct aw__evaluate *ask = ctx;
    const uint64_t key = key_of(ask, turn);
    char path[AW_TEXT_MAX + 64];
    void *bytes = NULL;
    size_t found = 0;
    path_of(ask, key, path, sizeof path);
    if (aw_envelope_read(&format, key, path, PIECE_BYTES_MAX, NULL, &bytes, &found, NULL))
        return false;
    const bool whole = found == sizeof(struct aw_envelope) + size;
    if (whole)
        memcpy(piece, (char *)bytes + sizeof(struct aw_envelope), size);
    aw_alloc_free(NULL, bytes);
    return whole;
}

static enum aw_err keep(void *ctx, uint32_t turn, const void *piece, size_t size,
                        struct aw_diag *diag)
{
    const struct aw__evaluate *ask = ctx;
    const uint64_t key = key_of(ask, turn);
    char path[AW_TEXT_MAX + 64];
    char *bytes = aw_alloc_new(NULL, sizeof(struct aw_envelope) + size, 1);
    if (!bytes)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for tuned baselines");
    memcpy(bytes + sizeof(struct aw_envelope), piece, size);
    path_of(ask, key, path, sizeof path);
    const enum aw_err err =
        aw_envelope_write(&format, key, bytes, sizeof(struct aw_envelope) + size, path, diag);
    aw_alloc_free(NULL, bytes);
    return err;
}

enum aw_err aw__evaluate_baselines(struct aw__evaluate *ask, const char *folder,
                                   struct aw_diag *diag)
{
    snprintf(ask->baselines, sizeof ask->baselines, "%s", folder);
    ask->doors = (struct aw_evaluate_shelf){take, keep, ask};
    ask->config.shelf = &ask->doors;
    return aw_file_mkdirs(folder, diag);
}
