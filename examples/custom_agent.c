/*
 * custom_agent.c - an agent of one's own: the cross-entropy method on a linear policy.
 *
 * The policy scores each choice with a linear function of the observation and takes the best. To
 * learn, it draws policies around the present one, plays one episode with each, and moves to the
 * mean of the best few (Rubinstein 1999; Szita and Lorincz 2006, whose constant noise keeps the
 * search from narrowing too early). No gradients, no replay: the smallest learner that works.
 *
 * Each environment in lockstep plays its own drawn policy ("candidate") from the beginning of an
 * episode to its end; observe adds up rewards, learn has something to do when GENERATION episodes
 * are over.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "custom.h"

#define OBS_MAX     64u
#define CHOICES_MAX 16u
#define WEIGHTS_MAX (CHOICES_MAX * (OBS_MAX + 1)) /* one more input: 1, for the bias */
#define ENVS_MAX    64u
#define GENERATION  40u /* episodes that are compared */
#define ELITE       8u  /* of them that are kept */
#define NOISE_FIRST 1.0
#define NOISE_LEAST 0.05
#define PATH_BYTES  4096
#define HEAD_BYTES  256

struct candidate {
    float weight[WEIGHTS_MAX];
    double earned;
};

struct linear {
    uint32_t env_count, obs_dim, choices, weights;
    uint64_t random;
    float mean[WEIGHTS_MAX]; /* the policy itself; the rest is search */
    float noise[WEIGHTS_MAX];
    struct candidate playing[ENVS_MAX];
    struct candidate played[GENERATION];
    uint32_t played_count;
};

/* Mean 0, deviation 1 (Box and Muller 1958). */
static double normal(uint64_t *random)
{
    double radius = sqrt(-2 * log(1 - chance(random)));
    return radius * cos(2 * 3.14159265358979323846 * chance(random));
}

static void draw(struct linear *self, struct candidate *candidate)
{
    for (uint32_t i = 0; i < self->weights; i++)
        candidate->weight[i] = self->mean[i] + self->noise[i] * (float)normal(&self->random);
    candidate->earned = 0;
}

static float choose(const struct linear *self, const float *weight, const float *obs)
{
    uint32_t best = 0;
    float best_score = -INFINITY;
    for (uint32_t c = 0; c < self->choices; c++) {
        const float *w = weight + (size_t)c * (self->obs_dim + 1);
        float score = w[self->obs_dim];
        for (uint32_t i = 0; i < self->obs_dim; i++)
            score += w[i] * obs[i];
        if (score > best_score) {
            best_score = score;
            best = c;
        }
    }
    return (float)best;
}

static bool finite_all(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* Exploring: every environment plays its candidate. Else: the policy, and nothing changes. */
static enum aw_err linear_act(void *ctx, const float *obs, uint32_t count, bool explore,
                              float *action)
{
    struct linear *self = ctx;
    AW_ASSERT(count <= (explore ? self->env_count : AW_AGENT_ACT_ROWS_MAX));
    if (!finite_all(obs, (size_t)count * self->obs_dim))
        return AW_ERR_DIVERGED;
    for (uint32_t i = 0; i < count; i++)
        action[i] = choose(self, explore ? self->playing[i].weight : self->mean,
                           obs + (size_t)i * self->obs_dim);
    return AW_OK;
}

static enum aw_err linear_observe(void *ctx, const struct aw_transition *transition)
{
    struct linear *self = ctx;
    if (!finite_all(transition->reward, self->env_count))
        return AW_ERR_DIVERGED;
    for (uint32_t i = 0; i < self->env_count; i++) {
        struct candidate *candidate = &self->playing[i];
        candidate->earned += (double)transition->reward[i];
        if (!transition->terminated[i] && !transition->truncated[i])
            continue;
        if (self->played_count < GENERATION) /* one too many until learn is called: forgotten */
            self->played[self->played_count++] = *candidate;
        draw(self, candidate);
    }
    return AW_OK;
}

static int by_earnings(const void *a, const void *b)
{
    double x = ((const struct candidate *)a)->earned, y = ((const struct candidate *)b)->earned;
    return (x < y) - (x > y); /* the most first */
}

static enum aw_err linear_learn(void *ctx, struct aw_learn_stats *stats)
{
    struct linear *self = ctx;
    if (stats)
        stats->update_count = 0;
    if (self->played_count < GENERATION)
        return AW_OK;
    qsort(self->played, GENERATION, sizeof self->played[0], by_earnings);
    for (uint32_t i = 0; i < self->weights; i++) {
        double sum = 0, squares = 0;
        for (uint32_t e = 0; e < ELITE; e++) {
            double w = (double)self->played[e].weight[i];
            sum += w;
            squares += w * w;
        }
        double mean = sum / ELITE;
        self->mean[i] = (float)mean;
        self->noise[i] = (float)(sqrt(fmax(squares / ELITE - mean * mean, 0)) + NOISE_LEAST);
    }
    self->played_count = 0;
    if (stats) {
        *stats = (struct aw_learn_stats){.update_count = 1, .count = 1};
        stats->stat[0].name = "elite_return";
        stats->stat[0].value = self->played[ELITE - 1].earned;
    }
    return AW_OK;
}

/* A safetensors file with one tensor: the length of a JSON head, the head, the numbers. The same
 * shape always has the same head, so load compares it instead of reading JSON. */
static int head_of(const struct linear *self, char head[HEAD_BYTES])
{
    return snprintf(head, HEAD_BYTES,
                    "{\"policy.weight\":{\"dtype\":\"F32\",\"shape\":[%u,%u],"
                    "\"data_offsets\":[0,%zu]}}",
                    self->choices, self->obs_dim + 1, self->weights * sizeof self->mean[0]);
}

static enum aw_err path_of(const char *dir, const char *name, char path[PATH_BYTES],
                           struct aw_diag *diag)
{
    int length = snprintf(path, PATH_BYTES, "%s/%s", dir, name);
    if (length < 0 || length >= PATH_BYTES)
        return aw_fail(diag, AW_ERR_LIMIT, "%s: the path is too long", dir);
    return AW_OK;
}

/* Written beside its place and then moved there: a reader sees the old file or the new one. */
static enum aw_err linear_save(void *ctx, const char *dir, bool resumable, struct aw_diag *diag)
{
    const struct linear *self = ctx;
    char path[PATH_BYTES], draft[PATH_BYTES], head[HEAD_BYTES];
    if (resumable)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "this agent keeps its policy, not its search");
    enum aw_err err = path_of(dir, "model.safetensors", path, diag);
    if (!err)
        err = path_of(dir, "model.safetensors.tmp", draft, diag);
    if (err)
        return err;
    uint64_t head_bytes = (uint64_t)head_of(self, head); /* little-endian, as the format asks */
    FILE *file = fopen(draft, "wb");
    if (!file)
        return aw_fail(diag, AW_ERR_IO, "%s: %s", draft, strerror(errno));
    bool whole = fwrite(&head_bytes, sizeof head_bytes, 1, file) == 1 &&
                 fwrite(head, head_bytes, 1, file) == 1 &&
                 fwrite(self->mean, sizeof self->mean[0], self->weights, file) == self->weights;
    whole &= fclose(file) == 0; /* always closed; a full disk may show only here */
    if (!whole || rename(draft, path) != 0)
        return aw_fail(diag, AW_ERR_IO, "%s: %s", path, strerror(errno));
    return AW_OK;
}

static enum aw_err linear_load(void *ctx, const char *dir, bool resumable, struct aw_diag *diag)
{
    struct linear *self = ctx;
    char path[PATH_BYTES], head[HEAD_BYTES], found[HEAD_BYTES];
    float weight[WEIGHTS_MAX];
    if (resumable)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "this agent keeps its policy, not its search");
    enum aw_err err = path_of(dir, "model.safetensors", path, diag);
    if (err)
        return err;
    FILE *file = fopen(path, "rb");
    if (!file)
        return aw_fail(diag, errno == ENOENT ? AW_ERR_NOTFOUND : AW_ERR_IO, "%s: %s", path,
                       strerror(errno));
    uint64_t head_bytes = (uint64_t)head_of(self, head), found_bytes = 0;
    bool ours = fread(&found_bytes, sizeof found_bytes, 1, file) == 1 &&
                found_bytes == head_bytes && fread(found, head_bytes, 1, file) == 1 &&
                memcmp(found, head, head_bytes) == 0 &&
                fread(weight, sizeof weight[0], self->weights, file) == self->weights &&
                finite_all(weight, self->weights);
    fclose(file);
    if (!ours)
        return aw_fail(diag, AW_ERR_FORMAT, "%s: not a policy of this shape", path);
    memcpy(self->mean, weight, self->weights * sizeof weight[0]);
    return AW_OK;
}

static const struct aw_agent_ops ops = {
    .name = "linear",
    .act = linear_act,
    .observe = linear_observe,
    .learn = linear_learn,
    .save = linear_save,
    .load = linear_load,
    .free = free,
};

enum aw_err linear_agent_new(const struct aw_agent_shape *shape, uint64_t seed,
                             struct aw_agent *ret_agent, struct aw_diag *diag)
{
    if (shape->action != AW_AGENT_DISCRETE || shape->act_n > CHOICES_MAX ||
        shape->obs_dim > OBS_MAX || shape->env_count > ENVS_MAX)
        return aw_fail(diag, AW_ERR_UNSUPPORTED,
                       "this agent takes up to %u choices, %u observations and %u environments",
                       CHOICES_MAX, OBS_MAX, ENVS_MAX);
    struct linear *self = calloc(1, sizeof *self);
    if (!self)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the agent");
    self->env_count = shape->env_count;
    self->obs_dim = shape->obs_dim;
    self->choices = shape->act_n;
    self->weights = self->choices * (self->obs_dim + 1);
    self->random = seed;
    for (uint32_t i = 0; i < self->weights; i++)
        self->noise[i] = NOISE_FIRST;
    for (uint32_t i = 0; i < self->env_count; i++)
        draw(self, &self->playing[i]);
    *ret_agent = (struct aw_agent){&ops, self};
    return AW_OK;
}
