/* peers_model.c - networks of agents that learned together, and their file. */
#include "policy/peers_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "nn/safetensors.h"

#define KIND "peers"

const char *const aw_peers_category_names[] = {"cpu", "memory", "io", NULL};

enum aw_err aw_peers_model_init(struct aw_peers_model *model, uint32_t hidden,
                                const struct aw_alloc *alloc)
{
    const struct aw_actnet_shape shape = {
        .obs_dim = AW_PEERS_STATE, .act_dim = AW_PEERS_CHOICES, .hidden = hidden};
    enum aw_err err = AW_OK;
    *model = (struct aw_peers_model){0};
    for (uint32_t c = 0; !err && c < AW_PEERS_CATEGORIES; c++)
        err = aw_actnet_init(&model->actor[c], &shape, alloc);
    if (err) {
        aw_peers_model_deinit(model);
        return err;
    }
    for (uint32_t c = 0; c < AW_PEERS_CATEGORIES; c++)
        for (uint32_t i = 0; i < AW_PEERS_STATE; i++)
            model->spread[c][i] = 1;
    return AW_OK;
}

void aw_peers_model_deinit(struct aw_peers_model *model)
{
    for (uint32_t c = 0; c < AW_PEERS_CATEGORIES; c++)
        if (model->actor[c].block)
            aw_actnet_deinit(&model->actor[c]);
    *model = (struct aw_peers_model){0};
}

enum aw_err aw_peers_model_prepare(struct aw_peers_model *model)
{
    uint64_t hash = AW_HASH_BEGIN;
    bool sound = true;
    for (uint32_t c = 0; c < AW_PEERS_CATEGORIES; c++) {
        if (aw_actnet_seal(&model->actor[c]))
            return AW_ERR_DIVERGED;
        hash = aw_hash_bytes(hash, &model->actor[c].id, sizeof model->actor[c].id);
        sound = sound && model->missed[c] >= 0 && model->missed[c] <= 1;
        for (uint32_t i = 0; i < AW_PEERS_STATE; i++)
            sound = sound && fabsf(model->centre[c][i]) < 1e6f && model->spread[c][i] > 0 &&
                    model->spread[c][i] < 1e6f;
    }
    hash = aw_hash_bytes(hash, model->centre, sizeof model->centre);
    hash = aw_hash_bytes(hash, model->spread, sizeof model->spread);
    if (!sound)
        return AW_ERR_DIVERGED;
    model->checksum = hash ? hash : 1;
    return AW_OK;
}

enum aw_err aw_peers_model_save(const struct aw_peers_model *model, const char *path,
                                const struct aw_library_note *notes, uint32_t note_count,
                                struct aw_diag *diag)
{
    const uint64_t states[] = {AW_PEERS_CATEGORIES, AW_PEERS_STATE}, each[] = {AW_PEERS_CATEGORIES};
    const uint64_t weights[] = {model->actor[0].count};
    struct aw_safetensors_writer *writer = NULL;
    char hidden[16];
    snprintf(hidden, sizeof hidden, "%u", model->actor[0].shape.hidden);
    enum aw_err err = aw_safetensors_writer_new(model->actor[0].alloc, &writer);
    for (uint32_t c = 0; !err && c < AW_PEERS_CATEGORIES; c++)
        err = aw_safetensors_add(writer, aw_peers_category_names[c], AW_DTYPE_F32, 1, weights,
                                 model->actor[c].theta);
    err = err ? err : aw_safetensors_add(writer, "centre", AW_DTYPE_F32, 2, states, model->centre);
    err = err ? err : aw_safetensors_add(writer, "spread", AW_DTYPE_F32, 2, states, model->spread);
    err = err ? err : aw_safetensors_add(writer, "missed", AW_DTYPE_F32, 1, each, model->missed);
    err = err ? err : aw_safetensors_add_meta(writer, "kind", KIND);
    err = err ? err : aw_safetensors_add_meta(writer, "hidden", hidden);
    for (uint32_t i = 0; !err && i < note_count; i++)
        err = aw_safetensors_add_meta(writer, notes[i].key, notes[i].value);
    err = err ? err : aw_safetensors_seal(writer);
    err = err ? err : aw_safetensors_write(writer, path, diag);
    if (err == AW_ERR_NOMEM)
        aw_fail(diag, err, "%s: no memory to write it", path);
    aw_safetensors_writer_free(writer);
    return err;
}

static enum aw_err hidden_of(const struct aw_safetensors *file, const char *path, uint32_t *ret,
                             struct aw_diag *diag)
{
    const char *kind = aw_safetensors_meta(file, "kind");
    const char *text = aw_safetensors_meta(file, "hidden");
    unsigned hidden = 0;
    if (!kind || strcmp(kind, KIND) != 0)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "kind",
                          "expected a file of `aware pretrain multi`");
    if (!text || sscanf(text, "%4u", &hidden) != 1 || hidden < 1 || hidden > 256)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "hidden",
                          "expected 1 to 256 units of a layer");
    *ret = hidden;
    return AW_OK;
}

enum aw_err aw_peers_model_open(const char *path, const struct aw_alloc *alloc,
                                struct aw_peers_model *ret, struct aw_diag *diag)
{
    const uint64_t states[] = {AW_PEERS_CATEGORIES, AW_PEERS_STATE}, each[] = {AW_PEERS_CATEGORIES};
    struct aw_safetensors *file = NULL;
    struct aw_peers_model model = {0};
    uint32_t hidden = 0;
    enum aw_err err = aw_safetensors_open(path, alloc, &file, diag);
    err = err ? err : aw_safetensors_check_seal(file, diag);
    err = err ? err : hidden_of(file, path, &hidden, diag);
    if (!err && (err = aw_peers_model_init(&model, hidden, alloc)))
        aw_fail(diag, err, "%s: no memory to read it", path);
    for (uint32_t c = 0; !err && c < AW_PEERS_CATEGORIES; c++) {
        const uint64_t weights[] = {model.actor[c].count};
        err = aw_safetensors_copy(file, aw_peers_category_names[c], AW_DTYPE_F32, 1, weights,
                                  model.actor[c].theta, diag);
    }
    err = err ? err
              : aw_safetensors_copy(file, "centre", AW_DTYPE_F32, 2, states, model.centre, diag);
    err = err ? err
              : aw_safetensors_copy(file, "spread", AW_DTYPE_F32, 2, states, model.spread, diag);
    err =
        err ? err : aw_safetensors_copy(file, "missed", AW_DTYPE_F32, 1, each, model.missed, diag);
    if (!err && aw_peers_model_prepare(&model))
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "weights",
                         "a number of the networks is out of its range");
    aw_safetensors_close(file);
    if (err)
        aw_peers_model_deinit(&model);
    else
        *ret = model;
    return err;
}
