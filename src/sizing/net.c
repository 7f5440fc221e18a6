/* net.c - see net.h. */
#include "sizing/net.h"

#include <aware/meta.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "meta/similarity.h"
#include "nn/adam.h"
#include "nn/mlp.h"

#define EMBEDDING    16u
#define WIDTH        48u
#define GROUP        12u /* workloads of an update */
#define QUERIES      10u /* configurations of each */
#define ROWS         (GROUP * QUERIES)
#define SHOTS        6u   /* at most, in training */
#define RATE         3e-3 /* of Adam, falling to nothing */
#define DECAY        1e-3
#define CLIP         1.0  /* of an error, in deviations: a few failures must not rule */
#define SHOT_NOISE   0.03 /* added in training: no two measurements are the same */
#define LEVEL_NOISE  0.15 /* a level is not the name of a workload */
#define MIX          0.5  /* of training workloads that are blends of two */
#define CONTEXT_DROP 0.3  /* of contexts that are hidden in training */
#define KNOWN_SHOTS  3u   /* that the place of a known workload is judged by */

struct aw_size_net {
    const struct aw_size_memory *memory;
    uint32_t config_dim, context_dim, sample_dim, in_dim;
    double scale;  /* of rests */
    float *config; /* [config][config_dim]: features and principal directions */
    struct aw_meta *meta;
    uint32_t slot[GROUP + 1]; /* workloads of the meta-learner; the last is the one asked about */
    struct aw_params params;
    struct aw_mlp net;
    struct aw_mlp_cache cache;
    struct aw_rng rng;
    float *known; /* [workload][EMBEDDING] */
    double *known_nearest;
    float other[EMBEDDING]; /* of some other workload, for the ablation */
    float x[ROWS * 256], dx[ROWS * 256], label[ROWS], dy[ROWS];
    const struct aw_alloc *alloc;
};

/* A workload as the network sees it in training: rests of one, or a blend of two. */
struct subject {
    double level;
    double rest[AW_SIZE_CONFIGS_MAX]; /* NAN: not measured */
    float context[AW_SIZE_CONTEXT_MAX];
    uint32_t order[AW_SIZE_CONFIGS_MAX]; /* measured configurations, shuffled */
    uint32_t count;
};

static float level_input(const struct aw_size_memory *memory, double level)
{
    return (float)((level - memory->level_mean) / sqrt(memory->level_var));
}

/* Shots become samples of the slot: features, level, and the rest around the mean of the shots.
 * Returns the level that the shots say. */
static double tell(struct aw_size_net *net, uint32_t slot, const struct aw_size_shot *shots,
                   uint32_t count)
{
    float sample[AW_SIZE_SHOTS_MAX * 128], label[AW_SIZE_SHOTS_MAX];
    const struct aw_size_memory *memory = net->memory;
    double level = 0;
    for (uint32_t i = 0; i < count; i++)
        level += (shots[i].value - memory->effect[shots[i].config]) / count;
    for (uint32_t i = 0; i < count; i++) {
        float *x = sample + (size_t)i * net->sample_dim;
        memcpy(x, net->config + (size_t)shots[i].config * net->config_dim,
               net->config_dim * sizeof *x);
        x[net->config_dim] = level_input(memory, level);
        label[i] = (float)((shots[i].value - memory->effect[shots[i].config] - level) / net->scale);
    }
    char name[16];
    enum aw_err err = aw_meta_forget(net->meta, net->slot[slot]);
    snprintf(name, sizeof name, "%u", slot);
    err = err ? err : aw_meta_workload(net->meta, name, &net->slot[slot]);
    err = err ? err : aw_meta_insert_samples(net->meta, net->slot[slot], sample, label, count);
    AW_ASSERT(!err);
    return level;
}

static void put_row(const struct aw_size_net *net, uint32_t config, double level, uint32_t count,
                    const float *context, const float *embedding, float *x)
{
    const uint32_t C = net->config_dim;
    memcpy(x, net->config + (size_t)config * C, C * sizeof *x);
    x[C] = level_input(net->memory, level);
    x[C + 1] = 1.0f / (float)count;
    for (uint32_t k = 0; k < net->context_dim; k++)
        x[C + 2 + k] = context ? context[k] : 0;
    memcpy(x + C + 2 + net->context_dim, embedding, EMBEDDING * sizeof *x);
}

static void subject_draw(struct aw_size_net *net, struct subject *subject)
{
    const struct aw_size_memory *m = net->memory;
    const uint32_t C = m->config_count;
    const uint32_t a = aw_rng_below(&net->rng, m->workload_count);
    uint32_t b = aw_rng_below(&net->rng, m->workload_count);
    const double part =
        aw_rng_double(&net->rng) < MIX && a != b ? aw_rng_uniform(&net->rng, 0, 0.5) : 0;
    b = part > 0 ? b : a;
    subject->level = (1 - part) * m->level[a] + part * m->level[b] +
                     LEVEL_NOISE * sqrt(m->level_var) * aw_rng_normal(&net->rng);
    subject->count = 0;
    for (uint32_t c = 0; c < C; c++) {
        subject->rest[c] = (1 - part) * m->rest[(size_t)a * C + c];
        if (part > 0)
            subject->rest[c] += part * m->rest[(size_t)b * C + c];
        if (isfinite(subject->rest[c]))
            subject->order[subject->count++] = c;
    }
    aw_rng_shuffle(&net->rng, subject->order, subject->count);
    const bool hide = aw_rng_double(&net->rng) < CONTEXT_DROP;
    for (uint32_t k = 0; k < net->context_dim; k++)
        subject->context[k] =
            hide ? 0 : m->table->workload[m->workload[part > 0.25 && a != b ? b : a]].context[k];
}

/* Takes the shots of a subject, in the units of a measurement. */
static uint32_t shots_draw(struct aw_size_net *net, const struct subject *subject,
                           struct aw_size_shot *shots)
{
    const uint32_t most = subject->count - 1 < SHOTS ? subject->count - 1 : SHOTS;
    const uint32_t count = 1 + aw_rng_below(&net->rng, most);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t c = subject->order[i];
        shots[i].config = c;
        shots[i].value = subject->level + net->memory->effect[c] + subject->rest[c] +
                         SHOT_NOISE * aw_rng_normal(&net->rng);
    }
    return count;
}

static void step(struct aw_size_net *net, struct subject *subject, double rate)
{
    struct aw_size_shot shots[SHOTS];
    float embedding[EMBEDDING];
    uint32_t owner[ROWS], rows = 0;
    for (uint32_t g = 0; g < GROUP; g++) {
        subject_draw(net, subject);
        if (subject->count < 2)
            continue;
        const uint32_t count = shots_draw(net, subject, shots);
        const double level = tell(net, g, shots, count);
        if (aw_meta_embedding(net->meta, net->slot[g], embedding))
            continue;
        for (uint32_t q = 0; q < QUERIES && count + q < subject->count; q++, rows++) {
            const uint32_t c = subject->order[count + q];
            put_row(net, c, level, count, subject->context, embedding,
                    net->x + (size_t)rows * net->in_dim);
            net->label[rows] = (float)((subject->level + subject->rest[c] - level) / net->scale);
            owner[rows] = g;
        }
    }
    if (rows == 0)
        return;
    const float *y = aw_mlp_forward(&net->net, net->params.value, net->x, rows, &net->cache);
    for (uint32_t r = 0; r < rows; r++) {
        const float gap = y[r] - net->label[r];
        net->dy[r] = (float)fmax(-CLIP, fmin(CLIP, (double)gap)) / (float)rows;
    }
    aw_params_zero_grad(&net->params);
    aw_mlp_backward(&net->net, net->params.value, net->x, rows, &net->cache, net->dy,
                    net->params.grad, net->dx);
    struct aw_adam adam = aw_adam_default(rate);
    adam.weight_decay = DECAY;
    adam.decoupled = true;
    aw_adam_step(&adam, &net->params);
    for (uint32_t r = 0; r < rows; r++)
        if (aw_meta_feedback(net->meta, net->slot[owner[r]],
                             net->dx + (size_t)r * net->in_dim + net->in_dim - EMBEDDING))
            return;
    /* a gradient that is not finite moves nothing, and the next step is another */
    (void)!aw_meta_update(net->meta, NULL);
}

/* --- life ------------------------------------------------------------------------------------- */

static void configs_fill(struct aw_size_net *net)
{
    const struct aw_size_memory *m = net->memory;
    const uint32_t F = m->table->feature_count;
    for (uint32_t c = 0; c < m->config_count; c++) {
        float *x = net->config + (size_t)c * net->config_dim;
        memcpy(x, m->table->config[c].feature, F * sizeof *x);
        for (uint32_t p = 0; p < AW__SIZE_PRINCIPALS; p++)
            x[F + p] = (float)m->principal[c * AW__SIZE_PRINCIPALS + p];
    }
}

static enum aw_err parts_make(struct aw_size_net *net, uint64_t seed, struct aw_diag *diag)
{
    struct aw_meta_settings settings = aw_meta_default();
    const uint32_t widths[] = {net->in_dim, WIDTH, WIDTH, 1};
    settings.hidden = settings.dense = WIDTH;
    settings.embedding = EMBEDDING;
    settings.keep_count = AW_SIZE_SHOTS_MAX;
    settings.workloads_max = GROUP + 1;
    settings.group = GROUP;
    settings.learning_rate = 1e-3;
    settings.seed = seed;
    aw_rng_init(&net->rng, seed, 7);
    aw_mlp_declare(&net->net, &net->params, "base", widths, 4, AW_ACT_RELU, AW_ACT_NONE);
    enum aw_err err = aw_params_alloc(&net->params, NULL);
    err = err ? err : aw_mlp_cache_init(&net->cache, &net->net, ROWS, NULL);
    if (err)
        return aw_fail(diag, err, "no memory for a network");
    aw_mlp_init_fan_in(&net->net, net->params.value, 1e-3f, &net->rng);
    err = aw_meta_register_sl("size", net->sample_dim, 1, &settings, NULL, &net->meta, diag);
    for (uint32_t g = 0; g <= GROUP && !err; g++) {
        char name[16];
        snprintf(name, sizeof name, "%u", g);
        err = aw_meta_workload(net->meta, name, &net->slot[g]);
    }
    return err;
}

/* Where the known workloads are: an embedding of each by a few of its measurements. */
static void known_fill(struct aw_size_net *net)
{
    const struct aw_size_memory *m = net->memory;
    const uint32_t C = m->config_count, W = m->workload_count;
    for (uint32_t w = 0; w < W; w++) {
        struct aw_size_shot shots[KNOWN_SHOTS];
        uint32_t count = 0, start = aw_rng_below(&net->rng, C);
        for (uint32_t i = 0; i < C && count < KNOWN_SHOTS; i++) {
            const uint32_t c = (start + i * (C / KNOWN_SHOTS + 1)) % C;
            if (isfinite(m->rest[(size_t)w * C + c]))
                shots[count++] = (struct aw_size_shot){c, m->level[w] + m->effect[c] +
                                                              m->rest[(size_t)w * C + c]};
        }
        if (count == 0)
            continue;
        tell(net, GROUP, shots, count);
        if (aw_meta_embedding(net->meta, net->slot[GROUP], net->known + (size_t)w * EMBEDDING))
            memset(net->known + (size_t)w * EMBEDDING, 0, EMBEDDING * sizeof(float));
    }
    for (uint32_t w = 0; w < W; w++) {
        net->known_nearest[w] = -INFINITY;
        for (uint32_t v = 0; v < W; v++)
            if (v != w)
                net->known_nearest[w] =
                    fmax(net->known_nearest[w],
                         aw_similarity(net->known + (size_t)w * EMBEDDING,
                                       net->known + (size_t)v * EMBEDDING, EMBEDDING));
    }
    memcpy(net->other, net->known + (size_t)(W / 2) * EMBEDDING, sizeof net->other);
}

enum aw_err aw_size_net_new(const struct aw_size_memory *memory, uint64_t seed, uint32_t updates,
                            struct aw_size_net **ret_net, struct aw_diag *diag)
{
    const uint32_t F = memory->table->feature_count, W = memory->workload_count;
    if (W < 3)
        return aw_fail(diag, AW_ERR_NODATA, "expected three workloads or more to learn from");
    struct aw_size_net *net = aw_alloc_new(NULL, 1, sizeof *net);
    struct subject *subject = aw_alloc_new(NULL, 1, sizeof *subject);
    enum aw_err err = net && subject ? AW_OK : AW_ERR_NOMEM;
    if (!err) {
        net->memory = memory;
        net->config_dim = F + AW__SIZE_PRINCIPALS;
        net->context_dim = memory->table->context_count;
        net->sample_dim = net->config_dim + 1;
        net->in_dim = net->config_dim + 2 + net->context_dim + EMBEDDING;
        net->scale = sqrt(memory->rest_var);
        net->config =
            aw_alloc_new(NULL, (size_t)memory->config_count * net->config_dim, sizeof(float));
        net->known = aw_alloc_new(NULL, (size_t)W * EMBEDDING, sizeof(float));
        net->known_nearest = aw_alloc_new(NULL, W, sizeof(double));
        err = net->config && net->known && net->known_nearest ? AW_OK : AW_ERR_NOMEM;
    }
    if (err)
        aw_fail(diag, err, "no memory for a network");
    else
        configs_fill(net);
    err = err ? err : parts_make(net, seed, diag);
    for (uint32_t g = 0; g < GROUP && !err; g++) { /* what the normalisation is fixed by */
        struct aw_size_shot shots[SHOTS];
        subject_draw(net, subject);
        if (subject->count >= 2)
            tell(net, g, shots, shots_draw(net, subject, shots));
    }
    for (uint32_t n = 0; n < updates && !err; n++)
        step(net, subject, RATE * (1 - (double)n / updates));
    if (!err) {
        aw_meta_toggle(net->meta, false);
        known_fill(net);
        *ret_net = net;
        net = NULL;
    }
    aw_size_net_free(net);
    aw_alloc_free(NULL, subject);
    return err;
}

void aw_size_net_free(struct aw_size_net *net)
{
    if (!net)
        return;
    aw_meta_free(net->meta);
    aw_mlp_cache_deinit(&net->cache);
    aw_params_deinit(&net->params);
    aw_alloc_free(NULL, net->config);
    aw_alloc_free(NULL, net->known);
    aw_alloc_free(NULL, net->known_nearest);
    aw_alloc_free(NULL, net);
}

void aw_size_net_predict(struct aw_size_net *net, const float *context, enum aw_size_told told,
                         const struct aw_size_shot *shots, uint32_t count, const uint32_t *targets,
                         uint32_t target_count, double *ret)
{
    const struct aw_size_memory *m = net->memory;
    float embedding[EMBEDDING] = {0};
    const double level = tell(net, GROUP, shots, count);
    if (told == AW_SIZE_TOLD_SHUFFLED)
        memcpy(embedding, net->other, sizeof embedding);
    else if (told == AW_SIZE_TOLD_RIGHT &&
             aw_meta_embedding(net->meta, net->slot[GROUP], embedding))
        memset(embedding, 0, sizeof embedding);
    for (uint32_t from = 0; from < target_count; from += ROWS) {
        const uint32_t rows = target_count - from < ROWS ? target_count - from : ROWS;
        for (uint32_t r = 0; r < rows; r++)
            put_row(net, targets[from + r], level, count, context, embedding,
                    net->x + (size_t)r * net->in_dim);
        const float *y = aw_mlp_forward(&net->net, net->params.value, net->x, rows, &net->cache);
        for (uint32_t r = 0; r < rows; r++) {
            const double rest = (double)y[r] * net->scale;
            ret[from + r] = level + m->effect[targets[from + r]] + (isfinite(rest) ? rest : 0);
        }
    }
}

double aw_size_net_usual(struct aw_size_net *net, const float *context,
                         const struct aw_size_shot *shots, uint32_t count)
{
    float embedding[EMBEDDING];
    double nearest = -INFINITY;
    (void)context;
    tell(net, GROUP, shots, count);
    if (aw_meta_embedding(net->meta, net->slot[GROUP], embedding))
        return 0;
    for (uint32_t w = 0; w < net->memory->workload_count; w++)
        nearest =
            fmax(nearest, aw_similarity(embedding, net->known + (size_t)w * EMBEDDING, EMBEDDING));
    return aw_similarity_quantile(nearest, net->known_nearest, net->memory->workload_count);
}

enum aw_err aw_size_net_save(const struct aw_size_net *net, const char *path, struct aw_diag *diag)
{
    return aw_meta_save(net->meta, path, diag);
}
