/* experiment_pieces.c - what an interrupted experiment need not do again: keys, files, curves. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/envelope.h"
#include "base/file.h"
#include "base/hash.h"
#include "study/experiment_internal.h"

#define MODEL_BYTES_MAX (256u << 20)

/* --- keys ------------------------------------------------------------------------------------- */

static void mix(struct aw__piece_key *key, const void *bytes, size_t count)
{
    key->hash = aw_hash_bytes(key->hash, bytes, count);
}

void aw__piece_key_text(struct aw__piece_key *key, const char *text)
{
    mix(key, text ? text : "\1", strlen(text ? text : "\1") + 1);
}

void aw__piece_key_number(struct aw__piece_key *key, double number)
{
    mix(key, &number, sizeof number);
}

void aw__piece_key_begin(struct aw__piece_key *key, const struct aw_experiment_config *config)
{
    key->hash = AW_HASH_BEGIN;
    aw__piece_key_text(key, config->version);
    aw__piece_key_text(key, config->load);
    aw__piece_key_number(key, config->paper);
    mix(key, &config->pool, sizeof config->pool);
    aw__piece_key_number(key, aw__test_first(config)); /* who has which load depends on it */
    for (uint32_t i = 0; i < config->pair_count; i++)
        aw__piece_key_text(key, config->pairs[i]);
}

static void key_fields(struct aw__piece_key *key, const struct aw_conf_field *fields,
                       const void *values)
{
    for (const struct aw_conf_field *field = fields; field->key; field++) {
        char value[AW_CONF_TEXT_MAX];
        aw_conf_get(field, values, value, sizeof value);
        aw__piece_key_text(key, field->key);
        aw__piece_key_text(key, value);
    }
}

enum aw_err aw__piece_key_pretrain(struct aw__piece_key *key,
                                   const struct aw_pretrain_config *pretrain,
                                   const struct aw_alloc *alloc, struct aw_diag *diag)
{
    aw__piece_key_text(key, pretrain->env);
    for (uint32_t i = 0; i < pretrain->pair_count; i++)
        aw__piece_key_text(key, pretrain->pairs[i]);
    key_fields(key, aw_context_fields, &pretrain->context);
    key_fields(key, aw_fallback_fields, &pretrain->fallback);
    key_fields(key, aw_pretrain_fields, pretrain);
    mix(key, &pretrain->seed, sizeof pretrain->seed);
    aw__piece_key_number(key, pretrain->model != NULL);
    if (!pretrain->model)
        return AW_OK;
    char *bytes = NULL;
    size_t len = 0;
    const enum aw_err err =
        aw_file_read(pretrain->model, MODEL_BYTES_MAX, alloc, &bytes, &len, diag);
    if (!err)
        mix(key, bytes, len);
    aw_alloc_free(alloc, bytes);
    return err;
}

void aw__piece_key_path(const struct aw__piece_key *key, const struct aw_experiment_config *config,
                        const char *what, const char *suffix, char *buf, size_t size)
{
    snprintf(buf, size, "%s/%s-%016" PRIx64 ".%s", config->work, what, key->hash, suffix);
}

/* --- files ------------------------------------------------------------------------------------ */

/* Numbers. The owner is how many. */
static struct aw_format format = {
    .kind = "piece", .what = "a piece of an experiment", .version = 1};

enum aw_err aw__piece_load(const char *path, double *values, size_t count,
                           const struct aw_alloc *alloc)
{
    void *bytes = NULL;
    size_t len = 0, size = sizeof(struct aw_envelope) + count * sizeof *values;
    if (aw_envelope_read(&format, count, path, size, alloc, &bytes, &len, NULL))
        return AW_ERR_NOTFOUND;
    if (len == size)
        memcpy(values, (char *)bytes + sizeof(struct aw_envelope), count * sizeof *values);
    aw_alloc_free(alloc, bytes);
    return len == size ? AW_OK : AW_ERR_NOTFOUND;
}

enum aw_err aw__piece_save(const char *path, const double *values, size_t count,
                           const struct aw_alloc *alloc, struct aw_diag *diag)
{
    const size_t size = sizeof(struct aw_envelope) + count * sizeof *values;
    char *bytes = aw_alloc_new(alloc, size, 1);
    if (!bytes)
        return aw_fail(diag, AW_ERR_NOMEM, "%s: no memory to write it", path);
    memcpy(bytes + sizeof(struct aw_envelope), values, count * sizeof *values);
    const enum aw_err err = aw_envelope_write(&format, count, bytes, size, path, diag);
    aw_alloc_free(alloc, bytes);
    return err;
}

/* --- turns ------------------------------------------------------------------------------------ */

struct watch {
    const struct aw_experiment_config *config;
    const char *phase;
};

static bool tell(void *ctx, uint32_t done, uint32_t total)
{
    const struct watch *watch = ctx;
    const struct aw_experiment_config *config = watch->config;
    return !config->progress || config->progress(config->progress_ctx, watch->phase, done, total);
}

enum aw_err aw__turns(const struct aw_experiment_config *config, uint32_t turns, const char *phase,
                      aw_parallel_tasks_turn *fn, void *ctx, const struct aw_alloc *alloc,
                      struct aw_diag *diag)
{
    struct watch watch = {config, phase};
    return aw_parallel_tasks(config->threads, turns, fn, ctx, tell, &watch, alloc, diag);
}

/* --- curves ----------------------------------------------------------------------------------- */

/* The figures of a point, in the order in which a piece has them. */
#define FIGURES 13u

static void score_pack(const struct aw_pretrain_score *score, double *to)
{
    const double figures[] = {score->reward, score->paper, score->violations,
                              score->cost,   score->cpu,   score->memory};
    memcpy(to, figures, sizeof figures);
}

static void score_unpack(const double *from, struct aw_pretrain_score *ret)
{
    *ret = (struct aw_pretrain_score){.reward = from[0],
                                      .paper = from[1],
                                      .violations = from[2],
                                      .cost = from[3],
                                      .cpu = from[4],
                                      .memory = from[5]};
}

static void curve_pack(const struct aw__curve *curve, double *to)
{
    for (uint32_t e = 0; e <= curve->episodes; e++, to += FIGURES) {
        score_pack(&curve->point[e].judged, to);
        score_pack(&curve->point[e].lived, to + 6);
        to[12] = curve->point[e].cpu_s;
    }
    score_pack(&curve->fallback, to);
}

static void curve_unpack(struct aw__curve *curve, const double *from)
{
    for (uint32_t e = 0; e <= curve->episodes; e++, from += FIGURES) {
        score_unpack(from, &curve->point[e].judged);
        score_unpack(from + 6, &curve->point[e].lived);
        curve->point[e].cpu_s = from[12];
    }
    score_unpack(from, &curve->fallback);
}

struct curves {
    const struct aw_experiment_config *config;
    struct aw__curve *curve;
    const struct aw_alloc *alloc;
};

static enum aw_err run_curve(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct curves *all = ctx;
    struct aw__curve *curve = &all->curve[turn];
    struct aw_pretrain_config *pretrain = &curve->pretrain;
    char path[AW_EXPERIMENT_PATH_MAX + AW__PIECE_KEY_MAX], what[AW__PIECE_KEY_MAX / 2];
    const size_t count = ((size_t)curve->episodes + 1) * FIGURES + 6;
    struct aw__piece_key key;
    pretrain->learn = aw__pool(all->config, curve->app, 1);
    pretrain->check = (struct aw_pretrain_pool){0};
    pretrain->rounds = curve->episodes;
    pretrain->seed = curve->seed;
    aw__piece_key_begin(&key, all->config);
    aw__piece_key_text(&key, curve->who);
    aw__piece_key_number(&key, curve->app);
    enum aw_err err = aw__piece_key_pretrain(&key, pretrain, all->alloc, diag);
    if (err)
        return err;
    snprintf(what, sizeof what, "%s-%" PRIu32, curve->who, curve->app);
    aw__piece_key_path(&key, all->config, what, "curve", path, sizeof path);
    double *figures = aw_alloc_new(all->alloc, count, sizeof *figures);
    if (!figures)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a curve of %u episodes", curve->episodes);
    if (aw__piece_load(path, figures, count, all->alloc) == AW_OK) {
        curve_unpack(curve, figures);
    } else {
        err = aw_adapt_run(pretrain, curve->episodes, all->alloc, curve->point, &curve->fallback,
                           diag);
        if (!err) {
            curve_pack(curve, figures);
            err = aw__piece_save(path, figures, count, all->alloc, diag);
        }
    }
    aw_alloc_free(all->alloc, figures);
    return err;
}

enum aw_err aw__curves(const struct aw_experiment_config *config, struct aw__curve *curves,
                       uint32_t count, const char *phase, const struct aw_alloc *alloc,
                       struct aw_diag *diag)
{
    struct curves all = {config, curves, alloc};
    return aw__turns(config, count, phase, run_curve, &all, alloc, diag);
}
