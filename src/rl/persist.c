/* persist.c - one list of parts, written and read back. */
#include "rl/persist.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/params.h"
#include "rl/version.h" /* made by meson from the project's version */

#define MODEL_FILE     "model.safetensors"
#define STATE_FILE     "state.safetensors"
#define META_TEXT_MAX  65536u /* bytes of one metadata value: the bounds of 4096 actions */
#define FORMAT_VERSION "1"

struct aw_persist_found {
    const struct aw_persist *persist;
    struct aw_tensor_view view[AW_PERSIST_PARTS_MAX]; /* data NULL: not asked for */
};

void aw_persist_begin(struct aw_persist *persist, const struct aw_persist_about *about)
{
    persist->about = *about;
    persist->part_count = 0;
}

static struct aw_persist_part *add(struct aw_persist *persist, const char *prefix, const char *name)
{
    AW_ASSERT(persist->part_count < AW_PERSIST_PARTS_MAX);
    struct aw_persist_part *part = &persist->part[persist->part_count];
    int length = snprintf(part->name, sizeof part->name, "%s%s", prefix, name);
    AW_ASSERT(length > 0 && (size_t)length < sizeof part->name);
    for (uint32_t i = 0; i < persist->part_count; i++)
        AW_ASSERT(strcmp(persist->part[i].name, part->name) != 0);
    part->generator = false;
    persist->part_count++;
    return part;
}

void aw_persist_add(struct aw_persist *persist, enum aw_persist_file file, const char *name,
                    enum aw_dtype dtype, uint64_t count, void *data)
{
    struct aw_persist_part *part = add(persist, "", name);
    part->file = file;
    part->dtype = dtype;
    part->rank = 1;
    part->shape[0] = count;
    part->shape[1] = 1;
    part->rows = NULL;
    part->data = data;
}

void aw_persist_add_rows(struct aw_persist *persist, enum aw_persist_file file, const char *name,
                         enum aw_dtype dtype, uint32_t *rows, uint32_t rows_max, uint32_t columns,
                         void *data)
{
    struct aw_persist_part *part = add(persist, "", name);
    part->file = file;
    part->dtype = dtype;
    part->rank = 2;
    part->shape[0] = rows_max;
    part->shape[1] = columns;
    part->rows = rows;
    part->data = data;
}

void aw_persist_add_params(struct aw_persist *persist, enum aw_persist_file file,
                           const char *prefix, const struct aw_params *params, float *values)
{
    for (uint32_t i = 0; i < params->tensor_count; i++) {
        const struct aw_param *param = &params->tensor[i];
        struct aw_persist_part *part = add(persist, prefix, param->name);
        part->file = file;
        part->dtype = AW_DTYPE_F32;
        part->rank = param->rank;
        part->shape[0] = param->shape[0];
        part->shape[1] = param->shape[1];
        part->rows = NULL;
        part->data = values + param->offset;
    }
}

void aw_persist_add_moments(struct aw_persist *persist, const char *prefix,
                            struct aw_params *params)
{
    char name[AW_PERSIST_NAME_MAX];
    snprintf(name, sizeof name, "adam.m.%s", prefix);
    aw_persist_add_params(persist, AW_PERSIST_STATE, name, params, params->m);
    snprintf(name, sizeof name, "adam.v.%s", prefix);
    aw_persist_add_params(persist, AW_PERSIST_STATE, name, params, params->v);
    snprintf(name, sizeof name, "adam.%sstep", prefix);
    aw_persist_add_u64(persist, name, &params->step);
}

void aw_persist_add_u64(struct aw_persist *persist, const char *name, uint64_t *value)
{
    aw_persist_add(persist, AW_PERSIST_STATE, name, AW_DTYPE_I64, 1, value);
}

void aw_persist_add_rng(struct aw_persist *persist, const char *name, struct aw_rng *rng)
{
    aw_persist_add(persist, AW_PERSIST_STATE, name, AW_DTYPE_I64, 4, rng->s);
    persist->part[persist->part_count - 1].generator = true;
}

static bool all_finite(enum aw_dtype dtype, const void *data, size_t count)
{
    if (dtype == AW_DTYPE_F32)
        return aw_params_finite(data, count);
    if (dtype == AW_DTYPE_F64) {
        const double *value = data;
        for (size_t i = 0; i < count; i++)
            if (!isfinite(value[i]))
                return false;
    }
    return true;
}

static uint64_t rows_of(const struct aw_persist_part *part)
{
    return part->rows ? *part->rows : part->shape[0];
}

static bool wanted(const struct aw_persist_part *part, bool resumable)
{
    return resumable || part->file == AW_PERSIST_MODEL;
}

/* The numbers of the shape as text; load compares the same words that save wrote. */
static const char *bounds_text(const float *bound, uint32_t count, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; i < count && used < size; i++) {
        int length = snprintf(buf + used, size - used, "%s%.9g", i ? "," : "", (double)bound[i]);
        AW_ASSERT(length > 0);
        used += (size_t)length;
    }
    return buf;
}

struct meta_pair {
    const char *key, *what;
    char value[24];
};

#define SHAPE_PAIRS 4u
static void shape_pairs(const struct aw_agent_shape *shape, struct meta_pair *pair)
{
    bool discrete = shape->action == AW_AGENT_DISCRETE;
    pair[0] = (struct meta_pair){.key = "obs_dim", .what = "observations"};
    snprintf(pair[0].value, sizeof pair[0].value, "%" PRIu32, shape->obs_dim);
    pair[1] = (struct meta_pair){.key = "action", .what = "kind of action"};
    snprintf(pair[1].value, sizeof pair[1].value, "%s", discrete ? "discrete" : "continuous");
    pair[2] = (struct meta_pair){.key = "act_dim", .what = "numbers in an action"};
    snprintf(pair[2].value, sizeof pair[2].value, "%" PRIu32, shape->act_dim);
    pair[3] = (struct meta_pair){.key = "act_n", .what = "choices"};
    snprintf(pair[3].value, sizeof pair[3].value, "%" PRIu32, discrete ? shape->act_n : 0);
}

static enum aw_err add_meta(const struct aw_persist *persist, struct aw_safetensors_writer *writer,
                            char *text)
{
    const struct aw_persist_about *about = &persist->about;
    char number[24], key[AW_CONF_TEXT_MAX];
    enum aw_err err = aw_safetensors_add_meta(writer, "format", "aware-agent/" FORMAT_VERSION);
    err = err ? err : aw_safetensors_add_meta(writer, "version", AW_RL_VERSION);
    err = err ? err : aw_safetensors_add_meta(writer, "algorithm", about->algorithm);
    snprintf(number, sizeof number, "%" PRIu64, about->seed);
    err = err ? err : aw_safetensors_add_meta(writer, "seed", number);
    snprintf(number, sizeof number, "%" PRIu64, *about->update_count);
    err = err ? err : aw_safetensors_add_meta(writer, "update_count", number);

    struct meta_pair pair[SHAPE_PAIRS];
    shape_pairs(about->shape, pair);
    for (uint32_t i = 0; i < SHAPE_PAIRS && !err; i++)
        err = aw_safetensors_add_meta(writer, pair[i].key, pair[i].value);
    if (!err && about->shape->action == AW_AGENT_CONTINUOUS) {
        uint32_t A = about->shape->act_dim;
        bounds_text(about->shape->act_low, A, text, META_TEXT_MAX);
        err = aw_safetensors_add_meta(writer, "act_low", text);
        bounds_text(about->shape->act_high, A, text, META_TEXT_MAX);
        err = err ? err : aw_safetensors_add_meta(writer, "act_high", text);
    }
    for (const struct aw_conf_field *field = about->fields; field->key && !err; field++) {
        snprintf(key, sizeof key, "setting.%s", field->key);
        aw_conf_get(field, about->settings, text, META_TEXT_MAX);
        err = aw_safetensors_add_meta(writer, key, text);
    }
    return err;
}

static enum aw_err file_path(const char *dir, const char *file, char *path, struct aw_diag *diag)
{
    int length = snprintf(path, AW_PERSIST_PATH_MAX, "%s/%s", dir, file);
    if (length < 0 || (size_t)length >= AW_PERSIST_PATH_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "expected a directory path below %u bytes, found %zu",
                       AW_PERSIST_PATH_MAX, strlen(dir));
    return AW_OK;
}

static enum aw_err save_file(const struct aw_persist *persist, const char *dir, bool resumable,
                             const struct aw_alloc *alloc, struct aw_diag *diag)
{
    char path[AW_PERSIST_PATH_MAX];
    struct aw_safetensors_writer *writer = NULL;
    char *text = NULL;
    enum aw_err err = file_path(dir, resumable ? STATE_FILE : MODEL_FILE, path, diag);
    if (err)
        return err;
    err = aw_safetensors_writer_new(alloc, &writer);
    if (err)
        goto out;
    text = aw_alloc_new(alloc, META_TEXT_MAX, 1);
    err = text ? add_meta(persist, writer, text) : AW_ERR_NOMEM;
    for (uint32_t i = 0; i < persist->part_count && !err; i++) {
        const struct aw_persist_part *part = &persist->part[i];
        const uint64_t shape[2] = {rows_of(part), part->shape[1]};
        if (wanted(part, resumable))
            err =
                aw_safetensors_add(writer, part->name, part->dtype, part->rank, shape, part->data);
    }
    if (!err)
        err = aw_safetensors_write(writer, path, diag);
out:
    if (err == AW_ERR_NOMEM)
        aw_fail(diag, err, "out of memory while writing %s", path);
    aw_alloc_free(alloc, text);
    aw_safetensors_writer_free(writer);
    return err;
}

enum aw_err aw_persist_save(const struct aw_persist *persist, const char *dir, bool resumable,
                            const struct aw_alloc *alloc, struct aw_diag *diag)
{
    for (uint32_t i = 0; i < persist->part_count; i++) {
        const struct aw_persist_part *part = &persist->part[i];
        if (wanted(part, resumable) &&
            !all_finite(part->dtype, part->data, rows_of(part) * part->shape[1]))
            return aw_fail_at(diag, AW_ERR_DIVERGED, dir, 0, 0, part->name,
                              "expected finite numbers; nothing was written");
    }
    enum aw_err err = resumable ? save_file(persist, dir, true, alloc, diag) : AW_OK;
    return err ? err : save_file(persist, dir, false, alloc, diag);
}

static uint32_t part_index(const struct aw_persist *persist, const char *name)
{
    for (uint32_t i = 0; i < persist->part_count; i++)
        if (strcmp(persist->part[i].name, name) == 0)
            return i;
    return AW_PERSIST_PARTS_MAX;
}

const void *aw_persist_peek(const struct aw_persist_found *found, const char *name)
{
    uint32_t i = part_index(found->persist, name);
    return i < AW_PERSIST_PARTS_MAX ? found->view[i].data : NULL;
}

uint32_t aw_persist_peek_rows(const struct aw_persist_found *found, const char *name)
{
    uint32_t i = part_index(found->persist, name);
    return i < AW_PERSIST_PARTS_MAX && found->view[i].data ? (uint32_t)found->view[i].shape[0] : 0;
}

static enum aw_err meta_matches(const struct aw_safetensors *file, const char *path,
                                const char *key, const char *what, const char *expected,
                                struct aw_diag *diag)
{
    const char *value = aw_safetensors_meta(file, key);
    if (!value)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, key,
                          "not a saved learner: the metadata do not say it");
    if (strcmp(value, expected) != 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, key,
                          "another %s: expected %.100s, found %.100s", what, expected, value);
    return AW_OK;
}

static enum aw_err check_meta(const struct aw_persist *persist, const struct aw_safetensors *file,
                              const char *path, char *text, struct aw_diag *diag)
{
    const struct aw_persist_about *about = &persist->about;
    struct meta_pair pair[SHAPE_PAIRS];
    enum aw_err err = meta_matches(file, path, "algorithm", "learner", about->algorithm, diag);
    shape_pairs(about->shape, pair);
    for (uint32_t i = 0; i < SHAPE_PAIRS && !err; i++)
        err = meta_matches(file, path, pair[i].key, pair[i].what, pair[i].value, diag);
    if (err || about->shape->action != AW_AGENT_CONTINUOUS)
        return err;
    bounds_text(about->shape->act_low, about->shape->act_dim, text, META_TEXT_MAX);
    err = meta_matches(file, path, "act_low", "lower bound of the actions", text, diag);
    bounds_text(about->shape->act_high, about->shape->act_dim, text, META_TEXT_MAX);
    return err ? err
               : meta_matches(file, path, "act_high", "upper bound of the actions", text, diag);
}

static bool shape_fits(const struct aw_persist_part *part, const struct aw_tensor_view *view)
{
    if (view->dtype != part->dtype || view->rank != part->rank)
        return false;
    if (part->rank == 2 && view->shape[1] != part->shape[1])
        return false;
    return part->rows ? view->shape[0] <= part->shape[0] : view->shape[0] == part->shape[0];
}

static enum aw_err find_part(const struct aw_persist_part *part, const struct aw_safetensors *file,
                             const char *path, struct aw_tensor_view *ret_view,
                             struct aw_diag *diag)
{
    static const struct aw_rng stuck = {{0}};
    struct aw_tensor_view view = {0};
    if (!aw_safetensors_find(file, part->name, &view))
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, part->name,
                          "expected this tensor, found none of that name");
    if (!shape_fits(part, &view))
        return aw_fail_at(
            diag, AW_ERR_FORMAT, path, 0, 0, part->name,
            "expected rank %u, shape %s%" PRIu64 " x %" PRIu64 ", found rank %u, shape %" PRIu64
            " x %" PRIu64 ": made with other settings?",
            part->rank, part->rows ? "up to " : "", part->shape[0], part->shape[1], view.rank,
            view.rank > 0 ? view.shape[0] : 0, view.rank > 1 ? view.shape[1] : 1);
    if (!all_finite(view.dtype, view.data, view.bytes / aw_dtype_size(view.dtype)))
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, part->name, "expected finite numbers");
    if (part->generator && memcmp(view.data, &stuck, sizeof stuck) == 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, part->name,
                          "a generator of zeros yields nothing but zeros");
    *ret_view = view;
    return AW_OK;
}

enum aw_err aw_persist_load(struct aw_persist *persist, const char *dir, bool resumable,
                            aw_persist_valid *valid, void *ctx, const struct aw_alloc *alloc,
                            struct aw_diag *diag)
{
    char path[AW_PERSIST_PATH_MAX];
    struct aw_safetensors *file = NULL;
    struct aw_persist_found *found = NULL;
    char *text = NULL;
    enum aw_err err = file_path(dir, resumable ? STATE_FILE : MODEL_FILE, path, diag);
    if (err)
        return err;
    err = aw_safetensors_open(path, alloc, &file, diag);
    if (err)
        goto out;
    found = aw_alloc_new(alloc, 1, sizeof *found);
    text = aw_alloc_new(alloc, META_TEXT_MAX, 1);
    if (!found || !text) {
        err = aw_fail(diag, AW_ERR_NOMEM, "out of memory while reading %s", path);
        goto out;
    }
    found->persist = persist;
    err = check_meta(persist, file, path, text, diag);
    for (uint32_t i = 0; i < persist->part_count && !err; i++)
        if (wanted(&persist->part[i], resumable))
            err = find_part(&persist->part[i], file, path, &found->view[i], diag);
    if (!err && valid)
        err = valid(ctx, found, diag);
    for (uint32_t i = 0; i < persist->part_count && !err; i++) {
        const struct aw_persist_part *part = &persist->part[i];
        if (!wanted(part, resumable))
            continue;
        memcpy(part->data, found->view[i].data, found->view[i].bytes);
        if (part->rows)
            *part->rows = (uint32_t)found->view[i].shape[0];
    }
out:
    aw_alloc_free(alloc, text);
    aw_alloc_free(alloc, found);
    aw_safetensors_close(file);
    return err;
}
