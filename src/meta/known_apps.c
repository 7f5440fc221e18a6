/* known_apps.c - workloads that a model knows, measured, saved and found again. */
#include "meta/known_apps.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "meta/context_internal.h"
#include "meta/similarity.h"

static void carve(struct aw_known_apps *known, struct aw_carve *take)
{
    known->name = aw_carve_take(take, known->count, sizeof *known->name);
    known->embedding =
        aw_carve_take(take, (size_t)known->count * known->dim, sizeof *known->embedding);
    known->nearest = aw_carve_take(take, known->count, sizeof *known->nearest);
}

enum aw_err aw_known_apps_init(struct aw_known_apps *known, uint32_t count, uint32_t dim,
                               const struct aw_alloc *alloc)
{
    struct aw_carve take = {0};
    *known = (struct aw_known_apps){.count = count, .dim = dim, .alloc = alloc};
    if (count > AW_CONTEXT_WORKLOADS_MAX || dim > AW_ENCODER_EMBEDDING_MAX) {
        *known = (struct aw_known_apps){0};
        return AW_ERR_LIMIT;
    }
    carve(known, &take);
    void *block = aw_alloc_new(alloc, take.used, 1);
    if (!block) {
        *known = (struct aw_known_apps){0};
        return AW_ERR_NOMEM;
    }
    take = (struct aw_carve){.base = block};
    carve(known, &take);
    known->block = block;
    return AW_OK;
}

void aw_known_apps_deinit(struct aw_known_apps *known)
{
    aw_alloc_free(known->alloc, known->block);
    *known = (struct aw_known_apps){0};
}

void aw_known_apps_measure(struct aw_known_apps *known)
{
    const uint32_t dim = known->dim;
    for (uint32_t i = 0; i < known->count; i++)
        known->nearest[i] = -1;
    for (uint32_t i = 0; i < known->count; i++)
        for (uint32_t k = i + 1; k < known->count; k++) {
            const double s = aw_similarity(known->embedding + (size_t)i * dim,
                                           known->embedding + (size_t)k * dim, dim);
            known->nearest[i] = fmax(known->nearest[i], s);
            known->nearest[k] = fmax(known->nearest[k], s);
        }
}

void aw_known_apps_place(const struct aw_known_apps *known, const float *embedding, uint32_t max,
                         struct aw_known_apps_place *ret)
{
    AW_ASSERT(max > 0 && max <= AW_KNOWN_APPS_PLACES_MAX);
    memset(ret, 0, sizeof *ret);
    ret->count = aw_similarity_nearest(embedding, known->embedding, known->count, known->dim, max,
                                       ret->index, ret->similarity);
    ret->quantile = NAN;
    if (ret->count > 0)
        ret->quantile = aw_similarity_quantile(ret->similarity[0], known->nearest, known->count);
    ret->odd = ret->quantile < AW_KNOWN_APPS_ODD_BELOW;
}

struct aw_known_apps_prediction aw_known_apps_predict(const struct aw_known_apps_line *line,
                                                      double similarity, bool odd)
{
    struct aw_known_apps_prediction told = {0};
    if (!line->there || isnan(similarity))
        return told;
    told.there = true;
    told.related = line->related;
    told.outside = odd || similarity < line->lowest;
    told.value = line->intercept + line->slope * (line->related ? similarity : line->at);
    told.deviation =
        hypot(line->deviation, line->related ? line->growth * fmax(0, line->at - similarity) : 0);
    return told;
}

/* --- in the file of a model ------------------------------------------------------------------- */

#define PARTS     8u
#define PARTS_OLD 3u /* the first; a model that has no others is an older one */
static const char *const parts[PARTS] = {"slope", "intercept", "deviation", "at",
                                         "error", "growth",    "lowest",    "related"};

static void parts_of(const struct aw_known_apps_line *line, double part[PARTS])
{
    const double value[PARTS] = {line->slope, line->intercept, line->deviation, line->at,
                                 line->error, line->growth,    line->lowest,    line->related};
    memcpy(part, value, sizeof value);
}

static enum aw_err line_add(struct aw_safetensors_writer *writer, const char *name,
                            const struct aw_known_apps_line *line)
{
    enum aw_err err = AW_OK;
    double part[PARTS];
    parts_of(line, part);
    for (uint32_t i = 0; !err && line->there && i < PARTS; i++) {
        char key[64], value[AW_TEXT_REAL_MAX];
        snprintf(key, sizeof key, "predict.%s.%s", name, parts[i]);
        if (isfinite(part[i])) /* what is not known is left out */
            err = aw_safetensors_add_meta(writer, key, aw_text_real(part[i], value, sizeof value));
    }
    return err;
}

static void line_read(const struct aw_safetensors *file, const char *name, double deviation_min,
                      struct aw_known_apps_line *line)
{
    double part[PARTS] = {0, 0, 0, 1, (double)NAN, 0, (double)NAN, 0};
    for (uint32_t i = 0; i < PARTS; i++) {
        char key[64];
        snprintf(key, sizeof key, "predict.%s.%s", name, parts[i]);
        const char *text = aw_safetensors_meta(file, key);
        const bool read = text && !aw_text_parse_real(text, &part[i]);
        if (!read && i < PARTS_OLD)
            return;
        if (!read && i == PARTS - 1)
            part[i] = part[0] < 0; /* an older model: likeness helps, or it is not a relation */
    }
    *line = (struct aw_known_apps_line){.there = true,
                                        .slope = part[0],
                                        .intercept = part[1],
                                        .deviation = fmax(part[2], deviation_min),
                                        .at = part[3],
                                        .error = part[4],
                                        .growth = part[5],
                                        .lowest = part[6],
                                        .related = part[7] != 0};
}

enum aw_err aw_known_apps_save(const struct aw_context *c, const struct aw_known_apps *known,
                               const char *path, const char *const *meta, size_t meta_pairs,
                               struct aw_diag *diag)
{
    struct aw_safetensors_writer *writer = NULL;
    const size_t room = (size_t)known->count * AW_KNOWN_APPS_NAME_MAX + 1;
    char *names = aw_alloc_new(c->alloc, room, 1);
    const uint64_t shape[2] = {known->count, known->dim};
    enum aw_err err = names ? AW_OK : AW_ERR_NOMEM;
    size_t used = 0;
    for (uint32_t i = 0; !err && i < known->count; i++)
        used += (size_t)snprintf(names + used, room - used, "%s%s", i ? "\n" : "", known->name[i]);
    err = err ? err : aw_safetensors_writer_new(c->alloc, &writer);
    err = err ? err : aw__context_add(writer, c, meta, meta_pairs);
    err = err ? err : line_add(writer, "drop", &known->drop);
    err = err ? err : line_add(writer, "episodes", &known->episodes);
    if (known->count > 0) {
        err = err ? err : aw_safetensors_add_meta(writer, "known.names", names);
        err = err ? err
                  : aw_safetensors_add(writer, "known.embedding", AW_DTYPE_F32, 2, shape,
                                       known->embedding);
        err = err ? err
                  : aw_safetensors_add(writer, "known.nearest", AW_DTYPE_F64, 1, shape,
                                       known->nearest);
    }
    err = err ? err : aw_safetensors_seal(writer);
    if (err)
        aw_fail_at(diag, err, path, 0, 0, NULL, "cannot be written");
    err = err ? err : aw_safetensors_write(writer, path, diag);
    aw_safetensors_writer_free(writer);
    aw_alloc_free(c->alloc, names);
    return err;
}

static enum aw_err names_read(const char *names, const char *path, struct aw_known_apps *known,
                              struct aw_diag *diag)
{
    uint32_t count = 0;
    for (; names && *names && count < known->count; count++) {
        const size_t len = strcspn(names, "\n");
        snprintf(known->name[count], AW_KNOWN_APPS_NAME_MAX, "%.*s",
                 (int)(len < AW_KNOWN_APPS_NAME_MAX ? len : AW_KNOWN_APPS_NAME_MAX - 1), names);
        names += len + (names[len] == '\n');
    }
    if (count == known->count && names && !*names)
        return AW_OK;
    return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "known.names",
                      "expected the names of %u workloads", known->count);
}

enum aw_err aw_known_apps_load(struct aw_known_apps *known, const char *path,
                               const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    struct aw_tensor_view view;
    struct aw_context_config config;
    struct aw_known_apps made = {0};
    enum aw_err err = aw__context_open(path, alloc, &file, &config, diag);
    *known = (struct aw_known_apps){0};
    if (!err && aw_safetensors_find(file, "known.embedding", &view)) {
        const uint64_t count = view.rank == 2 ? view.shape[0] : 0;
        const uint32_t dim = config.settings.embedding;
        const uint64_t shape[2] = {count, dim};
        if (count == 0 || count > AW_CONTEXT_WORKLOADS_MAX)
            err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "known.embedding",
                             "expected rows of %u numbers", dim);
        else if ((err = aw_known_apps_init(&made, (uint32_t)count, dim, alloc)))
            aw_fail_at(diag, err, path, 0, 0, NULL, "no memory to read it");
        err = err ? err
                  : aw_safetensors_copy(file, "known.embedding", AW_DTYPE_F32, 2, shape,
                                        made.embedding, diag);
        err = err ? err
                  : aw_safetensors_copy(file, "known.nearest", AW_DTYPE_F64, 1, shape, made.nearest,
                                        diag);
        err = err ? err : names_read(aw_safetensors_meta(file, "known.names"), path, &made, diag);
    }
    if (err) {
        aw_known_apps_deinit(&made);
    } else {
        line_read(file, "drop", AW_KNOWN_APPS_DROP_DEVIATION_MIN, &made.drop);
        line_read(file, "episodes", AW_KNOWN_APPS_EPISODES_DEVIATION_MIN, &made.episodes);
        *known = made;
    }
    aw_safetensors_close(file);
    return err;
}

enum aw_err aw_known_apps_meta(const char *path, aw_known_apps_visit *visit, void *ctx,
                               const struct aw_alloc *alloc, struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    struct aw_context_config config;
    enum aw_err err = aw__context_open(path, alloc, &file, &config, diag);
    for (uint32_t i = 0; !err && i < aw_safetensors_meta_count(file); i++) {
        const char *key = aw_safetensors_meta_key(file, i);
        visit(ctx, key, aw_safetensors_meta(file, key));
    }
    aw_safetensors_close(file);
    return err;
}
