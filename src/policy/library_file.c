/* library_file.c - a library as a safetensors file, sealed. */
#include "policy/library.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "nn/safetensors.h"

#define KIND     "capacity-library"
#define DISTINCT "distinct"
#define UNKNOWN  (-1e30f) /* in the file, for NAN, which a sealed file does not hold */

enum aw_err aw_library_save(const struct aw_library *library, const char *path,
                            const struct aw_library_note *notes, uint32_t note_count,
                            struct aw_diag *diag)
{
    const uint64_t rules[] = {library->rules, AW_CAPACITY_RULE_DIM};
    const uint64_t lived[] = {library->apps, library->rules, 3};
    const uint64_t seen[] = {library->apps, AW_CONTEXT_DIM}, dim[] = {AW_CONTEXT_DIM};
    const size_t numbers = (size_t)library->apps * AW_CONTEXT_DIM;
    struct aw_safetensors_writer *writer = NULL;
    float *context = aw_alloc_new(library->alloc, numbers, sizeof *context);
    enum aw_err err = context ? AW_OK : AW_ERR_NOMEM;
    for (size_t i = 0; !err && i < numbers; i++) {
        const float x = library->context[i / AW_CONTEXT_DIM][i % AW_CONTEXT_DIM];
        context[i] = isnan(x) ? UNKNOWN : x;
    }
    err = err ? err : aw_safetensors_writer_new(library->alloc, &writer);
    err = err ? err : aw_safetensors_add(writer, "rules", AW_DTYPE_F64, 2, rules, library->rule);
    err = err ? err : aw_safetensors_add(writer, "lived", AW_DTYPE_F32, 3, lived, library->lived);
    err = err ? err : aw_safetensors_add(writer, "context", AW_DTYPE_F32, 2, seen, context);
    err = err ? err : aw_safetensors_add(writer, "weight", AW_DTYPE_F32, 1, dim, library->weight);
    char distinct[16];
    snprintf(distinct, sizeof distinct, "%" PRIu32, library->distinct);
    err = err ? err : aw_safetensors_add_meta(writer, "kind", KIND);
    err = err ? err : aw_safetensors_add_meta(writer, DISTINCT, distinct);
    for (uint32_t i = 0; !err && i < note_count; i++)
        err = aw_safetensors_add_meta(writer, notes[i].key, notes[i].value);
    err = err ? err : aw_safetensors_seal(writer);
    err = err ? err : aw_safetensors_write(writer, path, diag);
    if (err == AW_ERR_NOMEM)
        aw_fail(diag, err, "%s: no memory to write it", path);
    aw_safetensors_writer_free(writer);
    aw_alloc_free(library->alloc, context);
    return err;
}

static enum aw_err shape_of(const struct aw_safetensors *file, const char *path,
                            uint32_t *ret_rules, uint32_t *ret_apps, struct aw_diag *diag)
{
    const char *kind = aw_safetensors_meta(file, "kind");
    struct aw_tensor_view lived;
    if (!kind || strcmp(kind, KIND) != 0 || !aw_safetensors_find(file, "lived", &lived) ||
        lived.rank != 3)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "kind",
                          "expected a file of `aware pretrain library`");
    if (lived.shape[0] < 1 || lived.shape[0] > AW_LIBRARY_APPS_MAX || lived.shape[1] < 1 ||
        lived.shape[1] > AW_LIBRARY_RULES_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, path, 0, 0, "lived",
                          "expected 1 to %u applications and 1 to %u rules", AW_LIBRARY_APPS_MAX,
                          AW_LIBRARY_RULES_MAX);
    *ret_apps = (uint32_t)lived.shape[0];
    *ret_rules = (uint32_t)lived.shape[1];
    return AW_OK;
}

/* A file that does not say it has every application once. */
static enum aw_err distinct_of(const struct aw_safetensors *file, const char *path, uint32_t apps,
                               uint32_t *ret, struct aw_diag *diag)
{
    const char *text = aw_safetensors_meta(file, DISTINCT);
    uint64_t distinct = apps;
    if (text &&
        (aw_text_parse_u64(text, &distinct) || distinct < 1 || distinct > apps || apps % distinct))
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, DISTINCT,
                          "expected a divisor of %" PRIu32 ", found %.40s", apps, text);
    *ret = (uint32_t)distinct;
    return AW_OK;
}

static enum aw_err values_check(const struct aw_library *library, const char *path,
                                struct aw_diag *diag)
{
    const size_t plays = (size_t)library->apps * library->rules;
    bool good = true;
    for (uint32_t r = 0; r < library->rules; r++)
        for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
            good = good && library->rule[r].x[i] >= 0 && library->rule[r].x[i] <= 1;
    for (size_t i = 0; i < plays; i++)
        good = good && library->lived[i].cores >= 0 && library->lived[i].gib >= 0 &&
               library->lived[i].missed >= 0 && library->lived[i].missed <= 1;
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
        good = good && library->weight[i] >= 0;
    return good ? AW_OK
                : aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "rules",
                             "a number of the library is out of its range");
}

enum aw_err aw_library_open(const char *path, const struct aw_alloc *alloc,
                            struct aw_library *ret_library, struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    struct aw_library library = {0};
    uint32_t rules = 0, apps = 0;
    enum aw_err err = aw_safetensors_open(path, alloc, &file, diag);
    err = err ? err : aw_safetensors_check_seal(file, diag);
    err = err ? err : shape_of(file, path, &rules, &apps, diag);
    if (!err && (err = aw_library_alloc(&library, rules, apps, alloc)))
        aw_fail(diag, err, "%s: no memory to read it", path);
    if (!err) {
        const uint64_t rule[] = {rules, AW_CAPACITY_RULE_DIM}, lived[] = {apps, rules, 3};
        const uint64_t seen[] = {apps, AW_CONTEXT_DIM}, dim[] = {AW_CONTEXT_DIM};
        err = aw_safetensors_copy(file, "rules", AW_DTYPE_F64, 2, rule, library.rule, diag);
        err = err ? err
                  : aw_safetensors_copy(file, "lived", AW_DTYPE_F32, 3, lived, library.lived, diag);
        err = err ? err
                  : aw_safetensors_copy(file, "context", AW_DTYPE_F32, 2, seen, library.context,
                                        diag);
        err = err ? err
                  : aw_safetensors_copy(file, "weight", AW_DTYPE_F32, 1, dim, library.weight, diag);
    }
    err = err ? err : distinct_of(file, path, apps, &library.distinct, diag);
    err = err ? err : values_check(&library, path, diag);
    aw_safetensors_close(file);
    if (err) {
        aw_library_deinit(&library);
        return err;
    }
    for (uint32_t app = 0; app < apps; app++)
        for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
            if (library.context[app][i] <= UNKNOWN)
                library.context[app][i] = NAN;
    aw_library_prepare(&library);
    *ret_library = library;
    return AW_OK;
}
