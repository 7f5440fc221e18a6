/*
 * twin_testing.h - naive twins of the networks, in double, read from a learner's own save; included
 * by tests alone.
 *
 * A test saves a learner, lets it make one update, and saves it again. From the first save the twin
 * has everything that the update saw (weights, targets, replay, generator); from the moments in
 * both it has the gradient that the learner computed: m' = beta1 m + (1 - beta1) g. What the
 * gradient should have been comes from central differences of the loss as the paper states it.
 */
#ifndef AW_RL_TWIN_TESTING_H
#define AW_RL_TWIN_TESTING_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/testing.h"
#include "nn/safetensors.h"
#include "rl/agents.h"

#define TWIN_LAYERS_MAX  4u
#define TWIN_WIDTH_MAX   16u
#define TWIN_WEIGHTS_MAX (TWIN_WIDTH_MAX * TWIN_WIDTH_MAX)
#define TWIN_BETA1       0.9
#define TWIN_STEP        1e-6 /* of the central differences */

struct twin_layer {
    char name[96];
    uint32_t in, out;
    double weight[TWIN_WEIGHTS_MAX], bias[TWIN_WIDTH_MAX];
};

struct twin_net {
    uint32_t layer_count;
    struct twin_layer layer[TWIN_LAYERS_MAX];
};

/* An open save. */
struct twin_save {
    char dir[128];
    struct aw_safetensors *file;
};

static inline void twin_save_take(struct twin_save *save, struct aw_agent *agent)
{
    const char *base = getenv("TMPDIR");
    char path[1024];
    snprintf(save->dir, sizeof save->dir, "%s/aw-twin-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(save->dir));
    assert_ok(agent->ops->save(agent->self, save->dir, true, NULL));
    snprintf(path, sizeof path, "%s/state.safetensors", save->dir);
    assert_ok(aw_safetensors_open(path, NULL, &save->file, NULL));
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", save->dir);
    unlink(path);
    rmdir(save->dir);
}

static inline void twin_save_drop(struct twin_save *save)
{
    aw_safetensors_close(save->file);
    save->file = NULL;
}

static inline bool twin_find(const struct twin_save *save, const char *name,
                             struct aw_tensor_view *view)
{
    for (uint32_t i = 0; i < aw_safetensors_count(save->file); i++) {
        aw_safetensors_at(save->file, i, view);
        if (strcmp(view->name, name) == 0)
            return true;
    }
    return false;
}

static inline struct aw_tensor_view twin_view(const struct twin_save *save, const char *name)
{
    struct aw_tensor_view view;
    if (!twin_find(save, name, &view))
        fail_msg("no tensor %s", name);
    return view;
}

static inline struct aw_rng twin_rng(const struct twin_save *save)
{
    struct aw_rng rng;
    memcpy(rng.s, twin_view(save, "rng").data, sizeof rng.s);
    return rng;
}

/* The layers PREFIX.0, PREFIX.2, ... of a save. */
static inline void twin_net_load(struct twin_net *net, const struct twin_save *save,
                                 const char *prefix)
{
    net->layer_count = 0;
    for (uint32_t l = 0; l < TWIN_LAYERS_MAX; l++) {
        struct twin_layer *layer = &net->layer[l];
        struct aw_tensor_view view;
        char name[128];
        snprintf(layer->name, sizeof layer->name, "%s.%u", prefix, 2 * l);
        snprintf(name, sizeof name, "%s.weight", layer->name);
        if (!twin_find(save, name, &view))
            return;
        layer->out = (uint32_t)view.shape[0];
        layer->in = (uint32_t)view.shape[1];
        assert_true(layer->in <= TWIN_WIDTH_MAX && layer->out <= TWIN_WIDTH_MAX);
        for (uint32_t i = 0; i < layer->in * layer->out; i++)
            layer->weight[i] = (double)((const float *)view.data)[i];
        snprintf(name, sizeof name, "%s.bias", layer->name);
        view = twin_view(save, name);
        for (uint32_t i = 0; i < layer->out; i++)
            layer->bias[i] = (double)((const float *)view.data)[i];
        net->layer_count++;
    }
}

/* ReLU between layers, nothing after the last (`relu_last`: there too). */
static inline void twin_forward(const struct twin_net *net, const double *x, bool relu_last,
                                double *y)
{
    double h[2][TWIN_WIDTH_MAX] = {{0}};
    assert_true(net->layer_count > 0);
    for (uint32_t l = 0; l < net->layer_count; l++) {
        const struct twin_layer *layer = &net->layer[l];
        bool last = l + 1 == net->layer_count;
        double *out = last ? y : h[l & 1];
        for (uint32_t o = 0; o < layer->out; o++) {
            double sum = layer->bias[o];
            for (uint32_t i = 0; i < layer->in; i++)
                sum += layer->weight[o * layer->in + i] * x[i];
            out[o] = (!last || relu_last) && sum < 0 ? 0 : sum;
        }
        x = out;
    }
}

static inline double twin_slope(double *weight, double (*loss)(void *ctx), void *ctx)
{
    double at = *weight;
    *weight = at + TWIN_STEP;
    double up = loss(ctx);
    *weight = at - TWIN_STEP;
    double down = loss(ctx);
    *weight = at;
    return (up - down) / (2 * TWIN_STEP);
}

static inline double twin_check_tensor(const struct twin_save *before,
                                       const struct twin_save *after, const char *moment,
                                       const char *name, double *value, uint32_t count,
                                       double (*loss)(void *ctx), void *ctx)
{
    char full[160];
    snprintf(full, sizeof full, "adam.m.%s%s", moment, name);
    const float *m0 = twin_view(before, full).data, *m1 = twin_view(after, full).data;
    double largest = 0, gradient[TWIN_WEIGHTS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        gradient[i] = twin_slope(&value[i], loss, ctx);
        largest = fmax(largest, fabs(gradient[i]));
    }
    for (uint32_t i = 0; i < count; i++) {
        double found = ((double)m1[i] - TWIN_BETA1 * (double)m0[i]) / (1 - TWIN_BETA1);
        if (!(fabs(found - gradient[i]) <= 1e-4 * fmax(largest, 1e-2)))
            fail_msg("%s[%u]: expected a gradient of %.8g, found %.8g", full, i, gradient[i],
                     found);
    }
    return largest;
}

/* Every weight of `net`: the learner's gradient against the slope of `loss`. `moment` is the prefix
 * of the moments. Fails when no gradient is there at all. */
static inline void twin_check_gradient(struct twin_net *net, const struct twin_save *before,
                                       const struct twin_save *after, const char *moment,
                                       double (*loss)(void *ctx), void *ctx)
{
    double largest = 0;
    for (uint32_t l = 0; l < net->layer_count; l++) {
        struct twin_layer *layer = &net->layer[l];
        char name[128];
        snprintf(name, sizeof name, "%s.weight", layer->name);
        largest = fmax(largest, twin_check_tensor(before, after, moment, name, layer->weight,
                                                  layer->in * layer->out, loss, ctx));
        snprintf(name, sizeof name, "%s.bias", layer->name);
        largest = fmax(largest, twin_check_tensor(before, after, moment, name, layer->bias,
                                                  layer->out, loss, ctx));
    }
    assert_true(largest > 1e-6);
}

/* target' = (1 - tau) target + tau online', for every tensor called "target." + something. */
static inline void twin_check_targets(const struct twin_save *before, const struct twin_save *after,
                                      double tau)
{
    uint32_t checked = 0;
    for (uint32_t t = 0; t < aw_safetensors_count(after->file); t++) {
        struct aw_tensor_view view;
        aw_safetensors_at(after->file, t, &view);
        if (strncmp(view.name, "target.", 7) != 0)
            continue;
        const float *old = twin_view(before, view.name).data, *now = view.data;
        const float *online = twin_view(after, view.name + 7).data;
        for (size_t i = 0; i < view.bytes / sizeof *now; i++)
            assert_close((double)now[i], (1 - tau) * (double)old[i] + tau * (double)online[i],
                         1e-6);
        checked++;
    }
    assert_true(checked > 0);
}

/* The transitions of the batch that the next update draws with `rng`, as doubles. */
struct twin_batch {
    uint32_t B, S, A;
    double obs[64][TWIN_WIDTH_MAX], act[64][TWIN_WIDTH_MAX], next_obs[64][TWIN_WIDTH_MAX];
    double reward[64], terminal[64];
};

static inline void twin_batch_draw(struct twin_batch *batch, const struct twin_save *save,
                                   struct aw_rng *rng, uint32_t B, uint32_t S, uint32_t A)
{
    struct aw_tensor_view rows = twin_view(save, "replay.rows");
    batch->B = B;
    batch->S = S;
    batch->A = A;
    for (uint32_t b = 0; b < B; b++) {
        uint32_t index = aw_rng_below(rng, (uint32_t)rows.shape[0]);
        const float *row = (const float *)rows.data + index * rows.shape[1];
        for (uint32_t i = 0; i < S; i++) {
            batch->obs[b][i] = (double)row[i];
            batch->next_obs[b][i] = (double)row[S + A + 2 + i];
        }
        for (uint32_t j = 0; j < A; j++)
            batch->act[b][j] = (double)row[S + j];
        batch->reward[b] = (double)row[S + A];
        batch->terminal[b] = (double)row[S + A + 1];
    }
}

static inline double twin_clip(double x, double most)
{
    return x > most ? most : x < -most ? -most : x;
}

#define TWIN_S 3u
#define TWIN_A 2u

/* An offline learner with `count` transitions drawn from `seed`. */
static inline void twin_agent(const char *name, const char *const *pairs, uint32_t count,
                              uint64_t seed, struct aw_agent *agent)
{
    static const float low[TWIN_A] = {-1, -3}, high[TWIN_A] = {1, 5};
    const struct aw_agent_shape shape = {1, TWIN_S, AW_AGENT_CONTINUOUS, TWIN_A, 0, low, high};
    _Alignas(max_align_t) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    const struct aw_agent_factory *factory;
    assert_ok(aw_agent_factory_find(name, &factory, NULL));
    assert_ok(aw_agent_settings(factory, NULL, settings, NULL));
    for (; *pairs; pairs++)
        assert_ok(aw_conf_set_pair(factory->fields, settings, *pairs, NULL));
    assert_ok(factory->make(&shape, settings, seed, NULL, agent, NULL));
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 1);
    for (uint32_t i = 0; i < count; i++) {
        float obs[TWIN_S], next_obs[TWIN_S], reward;
        float action[TWIN_A] = {(float)aw_rng_uniform(&rng, -1, 1),
                                (float)aw_rng_uniform(&rng, -3, 5)};
        bool terminated = aw_rng_double(&rng) < 0.2, truncated = !terminated && i % 5 == 0;
        aw_rng_fill_normal(&rng, obs, TWIN_S);
        aw_rng_fill_normal(&rng, next_obs, TWIN_S);
        aw_rng_fill_normal(&rng, &reward, 1);
        const struct aw_transition transition = {obs,      action,      &reward,
                                                 next_obs, &terminated, &truncated};
        assert_ok(agent->ops->observe(agent->self, &transition));
    }
}

#endif
