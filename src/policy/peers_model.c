/* peers_model.c - networks of agents that learned together, and their file. */
#include "policy/peers_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "nn/safetensors.h"

#define KIND     "peers"
#define MOST     1e6f /* of a number of a network */
#define SPREAD_L 1e-3f

const char *const aw_peers_category_names[] = {"cpu", "memory", "io", NULL};

/* One layer; returns where the next begins. */
static const float *layer(const float *theta, const float *in, uint32_t ins, float *out,
                          uint32_t outs, bool last)
{
    const float *bias = theta + (size_t)ins * outs;
    for (uint32_t o = 0; o < outs; o++) {
        float sum = bias[o];
        for (uint32_t i = 0; i < ins; i++)
            sum += theta[(size_t)o * ins + i] * in[i];
        out[o] = last ? sum : fmaxf(0, sum);
    }
    return bias + outs;
}

void aw_peers_net_worth(const struct aw_peers_net *net, const float state[AW_PEERS_STATE],
                        float ret[AW_PEERS_CHOICES])
{
    float first[AW_PEERS_HIDDEN], second[AW_PEERS_HIDDEN];
    const float *theta = layer(net->theta, state, AW_PEERS_STATE, first, AW_PEERS_HIDDEN, false);
    theta = layer(theta, first, AW_PEERS_HIDDEN, second, AW_PEERS_HIDDEN, false);
    theta = layer(theta, second, AW_PEERS_HIDDEN, ret, AW_PEERS_CHOICES, true);
    AW_ASSERT(theta == net->theta + AW_PEERS_THETA);
}

bool aw_peers_net_sound(const struct aw_peers_net *net)
{
    bool sound = true;
    for (uint32_t i = 0; i < AW_PEERS_THETA; i++)
        sound = sound && fabsf(net->theta[i]) < MOST; /* false where it is no number */
    for (uint32_t i = 0; i < AW_PEERS_STATE; i++)
        sound = sound && fabsf(net->centre[i]) < MOST && net->spread[i] >= SPREAD_L &&
                net->spread[i] < MOST;
    return sound;
}

enum aw_err aw_peers_model_prepare(struct aw_peers_model *model)
{
    bool sound = true;
    for (uint32_t c = 0; c < AW_PEERS_CATEGORIES; c++)
        sound = sound && aw_peers_net_sound(&model->net[c]) && model->missed[c] >= 0 &&
                model->missed[c] <= 1;
    if (!sound)
        return AW_ERR_DIVERGED;
    const uint64_t hash = aw_hash_bytes(AW_HASH_BEGIN, model->net, sizeof model->net);
    model->checksum = hash ? hash : 1;
    return AW_OK;
}

enum aw_err aw_peers_model_save(const struct aw_peers_model *model, const char *path,
                                const struct aw_library_note *notes, uint32_t note_count,
                                const struct aw_alloc *alloc, struct aw_diag *diag)
{
    const uint64_t each[] = {AW_PEERS_CATEGORIES}, weights[] = {AW_PEERS_THETA},
                   states[] = {2, AW_PEERS_STATE};
    float lay[AW_PEERS_CATEGORIES][2][AW_PEERS_STATE]; /* read when it is written */
    struct aw_safetensors_writer *writer = NULL;
    enum aw_err err = aw_safetensors_writer_new(alloc, &writer);
    for (uint32_t c = 0; !err && c < AW_PEERS_CATEGORIES; c++) {
        char name[24];
        memcpy(lay[c][0], model->net[c].centre, sizeof lay[c][0]);
        memcpy(lay[c][1], model->net[c].spread, sizeof lay[c][1]);
        snprintf(name, sizeof name, "%s.states", aw_peers_category_names[c]);
        err = aw_safetensors_add(writer, aw_peers_category_names[c], AW_DTYPE_F32, 1, weights,
                                 model->net[c].theta);
        err = err ? err : aw_safetensors_add(writer, name, AW_DTYPE_F32, 2, states, lay[c]);
    }
    err = err ? err : aw_safetensors_add(writer, "missed", AW_DTYPE_F32, 1, each, model->missed);
    err = err ? err : aw_safetensors_add_meta(writer, "kind", KIND);
    for (uint32_t i = 0; !err && i < note_count; i++)
        err = aw_safetensors_add_meta(writer, notes[i].key, notes[i].value);
    err = err ? err : aw_safetensors_seal(writer);
    err = err ? err : aw_safetensors_write(writer, path, diag);
    if (err == AW_ERR_NOMEM)
        aw_fail(diag, err, "%s: no memory to write it", path);
    aw_safetensors_writer_free(writer);
    return err;
}

static enum aw_err read_all(const struct aw_safetensors *file, struct aw_peers_model *model,
                            struct aw_diag *diag)
{
    const uint64_t each[] = {AW_PEERS_CATEGORIES}, weights[] = {AW_PEERS_THETA},
                   states[] = {2, AW_PEERS_STATE};
    enum aw_err err =
        aw_safetensors_copy(file, "missed", AW_DTYPE_F32, 1, each, model->missed, diag);
    for (uint32_t c = 0; !err && c < AW_PEERS_CATEGORIES; c++) {
        char name[24];
        float lay[2][AW_PEERS_STATE];
        snprintf(name, sizeof name, "%s.states", aw_peers_category_names[c]);
        err = aw_safetensors_copy(file, aw_peers_category_names[c], AW_DTYPE_F32, 1, weights,
                                  model->net[c].theta, diag);
        err = err ? err : aw_safetensors_copy(file, name, AW_DTYPE_F32, 2, states, lay, diag);
        if (err)
            break;
        memcpy(model->net[c].centre, lay[0], sizeof lay[0]);
        memcpy(model->net[c].spread, lay[1], sizeof lay[1]);
    }
    return err;
}

enum aw_err aw_peers_model_open(const char *path, const struct aw_alloc *alloc,
                                struct aw_peers_model *ret, struct aw_diag *diag)
{
    struct aw_safetensors *file = NULL;
    struct aw_peers_model model = {0};
    enum aw_err err = aw_safetensors_open(path, alloc, &file, diag);
    err = err ? err : aw_safetensors_check_seal(file, diag);
    const char *kind = err ? NULL : aw_safetensors_meta(file, "kind");
    if (!err && (!kind || strcmp(kind, KIND) != 0))
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "kind",
                         "expected a file of `aware pretrain multi`");
    err = err ? err : read_all(file, &model, diag);
    if (!err && aw_peers_model_prepare(&model))
        err = aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "weights",
                         "a number of the networks is out of its range");
    aw_safetensors_close(file);
    if (!err)
        *ret = model;
    return err;
}
