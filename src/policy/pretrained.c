/* pretrained.c - a model of many applications, and the policy for one workload that it holds. */
#include "policy/pretrained.h"

#include <stdio.h>
#include <string.h>

#include "env/autoscale.h"
#include "meta/inference.h"
#include "meta/model_card.h"
#include "task/action.h"
#include "task/objective.h"
#include "task/state.h"

#define ENDING ".safetensors"

struct aw_pretrained {
    struct aw_pretrained_info info;
    char path[AW_MODEL_CARD_PATH_MAX];
    struct aw_inference frozen;
    double slo_weight;                              /* of the paper's reward, that is .. */
    double reward_miss, reward_shift, reward_scale; /* .. read as aw_model_card has it */
    const struct aw_alloc *alloc;
};

/* --- what a file must be ---------------------------------------------------------------------- */

static enum aw_err unfit(const char *path, const char *key, const char *what, const char *expected,
                         struct aw_diag *diag)
{
    return aw_fail_at(diag, AW_ERR_UNSUPPORTED, path, 0, 0, key,
                      "the model was taught with %s; a control loop can use %s alone", what,
                      expected);
}

/* What it sees, does and is told, as its environment had it. */
static enum aw_err task_read(struct aw_pretrained *model, const char *path,
                             const struct aw_model_card *taught, struct aw_diag *diag)
{
    const struct aw_env_factory *factory = NULL;
    struct aw_autoscale_settings task;
    if (strcmp(taught->env, "autoscale-v0") != 0 && strcmp(taught->env, "autoscale-paper-v0") != 0)
        return unfit(path, "env", taught->env, "autoscale-v0 and autoscale-paper-v0", diag);
    enum aw_err err = aw_env_find(taught->env, &factory, diag);
    if (err)
        return err;
    aw_conf_defaults(factory->fields, &task);
    for (uint32_t i = 0; i < taught->pair_count; i++)
        if (aw_conf_set_pair(factory->fields, &task, taught->pairs[i], NULL))
            return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "env.options", "cannot be %s",
                              taught->pairs[i]);
    if (task.objective != AW_OBJECTIVE_PAPER)
        return unfit(path, "env.options", "a constrained objective", "the paper's reward", diag);
    if (task.history > 0 || taught->foresight)
        return unfit(path, "env.options", "a longer state", "the present state", diag);
    model->info.state = task.state;
    model->info.mapping = task.mapping;
    model->slo_weight = task.slo_weight;
    model->reward_miss = taught->reward_miss;
    model->reward_shift = taught->reward_shift;
    model->reward_scale = taught->reward_scale;
    return AW_OK;
}

static void name_of(const char *path, char *buf, size_t size)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t len = strlen(name);
    const size_t ending = sizeof ENDING - 1;
    if (len > ending && strcmp(name + len - ending, ENDING) == 0)
        len -= ending;
    snprintf(buf, size, "%.*s", (int)(len < size ? len : size - 1), name);
}

static enum aw_err read(struct aw_pretrained *model, const char *path, struct aw_model_card *taught,
                        struct aw_diag *diag)
{
    const struct aw_context_config *shape = &model->frozen.config;
    enum aw_err err = aw_model_card_read(path, taught, model->alloc, diag);
    err = err ? err : task_read(model, path, taught, diag);
    err = err ? err : aw_inference_open(&model->frozen, path, model->alloc, diag);
    if (err)
        return err;
    if (shape->obs_dim != aw_state_dim(model->info.state) || shape->act_dim != AW_ACTION_DIM)
        return aw_fail_at(diag, AW_ERR_FORMAT, path, 0, 0, "obs_dim",
                          "%u states and %u actions are not those of %s", shape->obs_dim,
                          shape->act_dim, taught->env);
    model->info.hidden = shape->settings.hidden;
    model->info.episodes = shape->settings.episodes;
    model->info.steps = shape->steps;
    model->info.checksum = model->frozen.checksum;
    name_of(path, model->info.name, sizeof model->info.name);
    snprintf(model->path, sizeof model->path, "%s", taught->path); /* measured there */
    return AW_OK;
}

enum aw_err aw_pretrained_open(const char *path, const struct aw_alloc *alloc,
                               struct aw_pretrained **ret_model, struct aw_diag *diag)
{
    struct aw_pretrained *model = aw_alloc_new(alloc, 1, sizeof *model);
    struct aw_model_card *taught = aw_alloc_new(alloc, 1, sizeof *taught);
    enum aw_err err = AW_OK;
    if (!model || !taught) {
        err = aw_fail(diag, AW_ERR_NOMEM, "%s: no memory to read it", path);
    } else {
        model->alloc = alloc;
        err = read(model, path, taught, diag);
    }
    aw_alloc_free(alloc, taught);
    if (!err) {
        *ret_model = model;
        return AW_OK;
    }
    if (model)
        aw_inference_close(&model->frozen);
    aw_alloc_free(alloc, model);
    return err;
}

void aw_pretrained_close(struct aw_pretrained *model)
{
    if (!model)
        return;
    aw_inference_close(&model->frozen);
    aw_alloc_free(model->alloc, model);
}

const struct aw_pretrained_info *aw_pretrained_info(const struct aw_pretrained *model)
{
    return &model->info;
}

const char *aw_pretrained_path(const struct aw_pretrained *model)
{
    return model->path;
}

enum aw_err aw_pretrained_fits(const struct aw_pretrained *model, uint32_t state, uint32_t mapping,
                               uint32_t hidden, struct aw_diag *diag)
{
    static const char *const states[] = {"default", "paper"};
    static const char *const mappings[] = {"anchored", "absolute"};
    const struct aw_pretrained_info *info = &model->info;
    if (info->state != state || info->mapping != mapping)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "the model %s has state \"%s\" and actions \"%s\"; the workload's are "
                       "\"%s\" and \"%s\"",
                       info->name, states[info->state], mappings[info->mapping], states[state],
                       mappings[mapping]);
    if (hidden && info->hidden != hidden)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "the model %s has layers of %u units; the workload's policies have %u "
                       "(learning.agent.settings.hidden)",
                       info->name, info->hidden, hidden);
    return AW_OK;
}

/* --- a workload ------------------------------------------------------------------------------- */

double aw_pretrained_reward(const struct aw_pretrained *model, double slo_preservation,
                            double cpu_utilisation, double memory_utilisation, bool violated)
{
    const double a = model->slo_weight;
    const double r = a * AW_OBJECTIVE_RESOURCES * slo_preservation +
                     (1 - a) * (cpu_utilisation + memory_utilisation);
    return (r - (violated ? model->reward_miss : 0) + model->reward_shift) * model->reward_scale;
}

enum aw_err aw_pretrained_bundle_init(const struct aw_pretrained *model,
                                      const struct aw_alloc *alloc, struct aw_bundle *ret_bundle)
{
    return aw_bundle_init(
        ret_bundle,
        &(struct aw_bundle_config){.episodes = model->info.episodes,
                                   .steps = model->info.steps,
                                   .obs_dim = aw_state_dim(model->info.state),
                                   .act_dim = AW_ACTION_DIM,
                                   .choice = model->frozen.config.settings.choice},
        alloc);
}

/* The first layer loses the columns of the embedding to its bias; the others are as they were. */
static void fold(const struct aw_pretrained *model, const float *embedding, struct aw_actnet *ret)
{
    const struct aw_mlp *from = &model->frozen.actor, *to = &ret->net;
    const float *theta = model->frozen.theta;
    const struct aw_linear *wide = &from->layer[0], *narrow = &to->layer[0];
    const uint32_t S = narrow->in, E = wide->in - S;
    for (uint32_t j = 0; j < wide->out; j++) {
        const float *row = theta + wide->weight + (size_t)j * wide->in;
        double bias = (double)theta[wide->bias + j];
        for (uint32_t k = 0; k < E; k++)
            bias += (double)row[S + k] * (double)embedding[k];
        ret->theta[narrow->bias + j] = (float)bias;
        memcpy(ret->theta + narrow->weight + (size_t)j * S, row, S * sizeof *row);
    }
    for (uint32_t l = 1; l < from->layer_count; l++) {
        const struct aw_linear *a = &from->layer[l], *b = &to->layer[l];
        memcpy(ret->theta + b->weight, theta + a->weight, (size_t)a->in * a->out * sizeof(float));
        memcpy(ret->theta + b->bias, theta + a->bias, a->out * sizeof(float));
    }
}

enum aw_err aw_pretrained_specialise(const struct aw_pretrained *model,
                                     const struct aw_bundle *bundle, const struct aw_alloc *alloc,
                                     struct aw_actnet *actor, struct aw_diag *diag)
{
    float embedding[AW_ENCODER_EMBEDDING_MAX];
    struct aw_actnet made = {0};
    AW_ASSERT(actor->shape.hidden == model->info.hidden);
    if (bundle->count == 0)
        return aw_fail(diag, AW_ERR_NODATA, "no episode of the fallback to know the workload by");
    enum aw_err err = aw_actnet_init(&made, &actor->shape, alloc);
    err = err ? err : aw_inference_embed(&model->frozen, bundle, alloc, embedding);
    if (!err) {
        fold(model, embedding, &made);
        err = aw_actnet_seal(&made);
    }
    if (!err)
        aw_actnet_copy(actor, &made);
    else
        aw_fail(diag, err, "the model %s gives no policy for this workload", model->info.name);
    aw_actnet_deinit(&made);
    return err;
}
