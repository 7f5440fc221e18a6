/* context.c - TD3 with an embedding beside the state. */
#include "meta/context_internal.h"

#include <math.h>
#include <string.h>

#include "nn/loss.h"

#define STATE_STREAM 1u

#define AW_CONF_OF struct aw_context_settings
const struct aw_conf_field aw_context_fields[] = {
    AW_CONF_ONE_OF(encoder, "pool", aw_encoder_kind_names,
                   "what reads the episodes: pool over steps, or the paper's GRU"),
    AW_CONF_NUMBER(encoder_hidden, "64", 1, 1024, "width of what reads a step"),
    AW_CONF_NUMBER(encoder_dense, "64", 1, 1024, "width of the layer after pooling"),
    AW_CONF_NUMBER(embedding, "32", 1, AW_ENCODER_EMBEDDING_MAX, "numbers of an embedding"),
    AW_CONF_NUMBER(episodes, "3", 1, AW_BUNDLE_EPISODES_MAX, "episodes of a bundle"),
    AW_CONF_ONE_OF(choice, "latest", aw_bundle_choice_names,
                   "which episodes: the best, half best half worst, or the latest"),
    AW_CONF_NUMBER(hidden, "64", 1, AW_CONTEXT_HIDDEN_MAX,
                   "width of the two layers of actor and critics"),
    AW_CONF_PLAIN(to_actor, "true", "the actor sees the embedding"),
    AW_CONF_PLAIN(to_critic, "true", "critics see the embedding too"),
    AW_CONF_NUMBER(gamma, "0.9", 0, 0.9999, "discount of a step"),
    AW_CONF_NUMBER(tau, "0.005", 1e-6, 1, "share of the weights that targets take over per update"),
    AW_CONF_NUMBER(actor_lr, "3e-4", 0, 1, "Adam's learning rate of the actor"),
    AW_CONF_NUMBER(critic_lr, "1e-3", 0, 1, "Adam's learning rate of the critics"),
    AW_CONF_NUMBER(encoder_lr, "3e-4", 0, 1, "Adam's learning rate of the encoder"),
    AW_CONF_NUMBER(pretanh_penalty, "1e-3", 0, 10,
                   "weight of the squared outputs before the tanh in the actor's loss"),
    AW_CONF_NUMBER(imitate, "1", 0, 1000,
                   "weight of the distance from a teacher's action in the actor's loss"),
    AW_CONF_NUMBER(anchor, "0", 0, 1000,
                   "weight of the distance from what a loaded actor is held to"),
    AW_CONF_NUMBER(improve, "1", 0, 1000, "weight of what the critics say in the actor's loss"),
    AW_CONF_NUMBER(policy_delay, "2", 1, 100, "updates of the critics per one of the actor"),
    AW_CONF_NUMBER(target_noise, "0.1", 0, 2, "deviation of the noise on target actions"),
    AW_CONF_NUMBER(target_noise_clip, "0.3", 0, 2, "its largest size"),
    AW_CONF_NUMBER(thin, "4", 1, 1000,
                   "while learning, a pooling encoder reads every so-manieth step, a GRU episode"),
    AW_CONF_NUMBER(
        reads, "0", 0, AW_CONTEXT_GROUP_MAX,
        "workloads of a batch that are read anew, the others as they were last known; 0: all"),
    AW_CONF_NUMBER(context_noise, "0.05", 0, 10,
                   "deviation of the noise on embeddings while learning"),
    AW_CONF_NUMBER(replay, "3000", 16, 10000000, "transitions kept of each workload"),
    AW_CONF_NUMBER(group, "16", 1, AW_CONTEXT_GROUP_MAX, "workloads of a batch"),
    AW_CONF_NUMBER(rows, "16", 1, 1024, "transitions of each workload in a batch"),
    {0},
};

void aw_context_config_init(struct aw_context_config *config)
{
    memset(config, 0, sizeof *config);
    aw_conf_defaults(aw_context_fields, &config->settings);
}

void aw_context_paper(struct aw_context_settings *settings)
{
    settings->encoder = AW_ENCODER_GRU;
    settings->encoder_hidden = settings->encoder_dense = 256;
    settings->embedding = 64;
    settings->episodes = 20;
    settings->choice = AW_BUNDLE_BEST;
}

/* --- made and ended --------------------------------------------------------------------------- */

static void carve(struct aw_context *c, struct aw_carve *take)
{
    const size_t S = c->config.obs_dim, A = c->config.act_dim, E = c->config.settings.embedding;
    const size_t B = c->batch, G = c->config.settings.group;
    c->actor_target = aw_carve_take(take, c->actor.count, sizeof(float));
    c->critic_target = aw_carve_take(take, c->critic.count, sizeof(float));
    c->actor_held = aw_carve_take(take, c->actor.count, sizeof(float));
    c->kept =
        aw_carve_take(take, c->encoding.count + c->actor.count + c->critic.count, sizeof(float));
    c->embedding = aw_carve_take(take, (size_t)c->config.workloads * E, sizeof(float));
    c->embedded = aw_carve_take(take, c->config.workloads, sizeof *c->embedded);
    c->teacher = aw_carve_take(take, (size_t)c->config.workloads * A, sizeof(float));
    c->obs = aw_carve_take(take, B * S, sizeof(float));
    c->next_obs = aw_carve_take(take, B * S, sizeof(float));
    c->act = aw_carve_take(take, B * A, sizeof(float));
    c->reward = aw_carve_take(take, B, sizeof(float));
    c->terminal = aw_carve_take(take, B, sizeof(float));
    c->x_actor = aw_carve_take(take, B * (S + E), sizeof(float));
    c->x_critic = aw_carve_take(take, B * (S + E + A), sizeof(float));
    c->dx_actor = aw_carve_take(take, B * (S + E), sizeof(float));
    c->dx_critic = aw_carve_take(take, B * (S + E + A), sizeof(float));
    c->a = aw_carve_take(take, B * A, sizeof(float));
    c->a_held = aw_carve_take(take, B * A, sizeof(float));
    c->du = aw_carve_take(take, B * A, sizeof(float));
    c->y = aw_carve_take(take, B, sizeof(float));
    c->dq = aw_carve_take(take, B, sizeof(float));
    c->context = aw_carve_take(take, G * E, sizeof(float));
    c->d_context = aw_carve_take(take, G * E, sizeof(float));
}

static void declare(struct aw_context *c)
{
    const struct aw_context_settings *s = &c->config.settings;
    const uint32_t S = c->config.obs_dim, A = c->config.act_dim, E = s->embedding;
    const struct aw_encoder_config encoder = {s->encoder, S + A + 1, s->encoder_hidden,
                                              s->encoder_dense, E};
    const uint32_t actor[] = {S + E, s->hidden, s->hidden, A};
    const uint32_t critic[] = {S + E + A, s->hidden, s->hidden, 1};
    static const char *const names[] = {"critic1", "critic2"};
    aw_encoder_declare(&c->encoder, &c->encoding, "encoder", &encoder);
    aw_mlp_declare(&c->actor_net, &c->actor, "actor", actor, 4, AW_ACT_RELU, AW_ACT_NONE);
    for (uint32_t k = 0; k < 2; k++)
        aw_mlp_declare(&c->critic_net[k], &c->critic, names[k], critic, 4, AW_ACT_RELU,
                       AW_ACT_NONE);
}

static uint32_t reads_of(const struct aw_context_settings *s)
{
    return s->reads && s->reads < s->group ? s->reads : s->group;
}

static enum aw_err allocate(struct aw_context *c)
{
    const struct aw_context_settings *s = &c->config.settings;
    enum aw_err err = aw_params_alloc(&c->encoding, c->alloc);
    err = err ? err : aw_params_alloc(&c->actor, c->alloc);
    err = err ? err : aw_params_alloc(&c->critic, c->alloc);
    err = err ? err : aw_mlp_cache_init(&c->actor_cache, &c->actor_net, c->batch, c->alloc);
    err = err ? err : aw_mlp_cache_init(&c->critic_cache, &c->critic_net[0], c->batch, c->alloc);
    err = err ? err
              : aw_encoder_cache_new(&c->encoder, reads_of(s), s->episodes, c->config.steps, true,
                                     c->alloc, &c->encoder_cache);
    if (err)
        return err;
    struct aw_carve take = {0};
    carve(c, &take);
    if (!(c->block = aw_alloc_new(c->alloc, take.used, 1)))
        return AW_ERR_NOMEM;
    take = (struct aw_carve){.base = c->block};
    carve(c, &take);
    c->replay = aw_alloc_new(c->alloc, c->config.workloads, sizeof *c->replay);
    c->bundle = aw_alloc_new(c->alloc, c->config.workloads, sizeof *c->bundle);
    c->eligible = aw_alloc_new(c->alloc, c->config.workloads, sizeof *c->eligible);
    if (!c->replay || !c->bundle || !c->eligible)
        return AW_ERR_NOMEM;
    const struct aw_replay_config replay = {s->replay, c->config.obs_dim, c->config.act_dim};
    const struct aw_bundle_config bundle = {s->episodes, c->config.steps, c->config.obs_dim,
                                            c->config.act_dim, s->choice};
    for (uint32_t i = 0; !err && i < c->config.workloads; i++) {
        err = aw_replay_init(&c->replay[i], &replay, c->alloc);
        err = err ? err : aw_bundle_init(&c->bundle[i], &bundle, c->alloc);
    }
    return err;
}

enum aw_err aw_context_new(const struct aw_context_config *config, const struct aw_alloc *alloc,
                           struct aw_context **ret_context, struct aw_diag *diag)
{
    const struct aw_context_settings *s = &config->settings;
    if (config->workloads == 0 || config->workloads > AW_CONTEXT_WORKLOADS_MAX ||
        config->obs_dim == 0 || config->act_dim == 0 || config->steps == 0 ||
        config->steps > AW_BUNDLE_STEPS_MAX ||
        config->obs_dim + config->act_dim + 1 > AW_BUNDLE_DIM_MAX)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "no learner for %u workloads with %u states, %u actions, %u steps",
                       config->workloads, config->obs_dim, config->act_dim, config->steps);
    struct aw_context *c = aw_alloc_new(alloc, 1, sizeof *c);
    if (!c)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a learner with context");
    c->config = *config;
    c->alloc = alloc;
    c->batch = s->group * s->rows;
    c->version = 1;
    aw_rng_init(&c->rng, config->seed, STATE_STREAM);
    declare(c);
    const enum aw_err err = allocate(c);
    if (err) {
        aw_context_free(c);
        return aw_fail(diag, err, "no memory for a learner of %u workloads", config->workloads);
    }
    for (size_t i = 0; i < (size_t)config->workloads * config->act_dim; i++)
        c->teacher[i] = NAN;
    aw_encoder_init(&c->encoder, c->encoding.value, &c->rng);
    aw_mlp_init_fan_in(&c->actor_net, c->actor.value, 3e-3f, &c->rng);
    for (uint32_t k = 0; k < 2; k++)
        aw_mlp_init_fan_in(&c->critic_net[k], c->critic.value, 3e-3f, &c->rng);
    memcpy(c->actor_target, c->actor.value, c->actor.count * sizeof(float));
    memcpy(c->critic_target, c->critic.value, c->critic.count * sizeof(float));
    aw_context_pace(c, 1);
    *ret_context = c;
    return AW_OK;
}

void aw_context_free(struct aw_context *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->config.workloads; i++) {
        if (c->replay)
            aw_replay_deinit(&c->replay[i]);
        if (c->bundle)
            aw_bundle_deinit(&c->bundle[i]);
    }
    aw_alloc_free(c->alloc, c->eligible);
    aw_alloc_free(c->alloc, c->bundle);
    aw_alloc_free(c->alloc, c->replay);
    aw_alloc_free(c->alloc, c->block);
    aw_encoder_cache_free(c->encoder_cache);
    aw_mlp_cache_deinit(&c->critic_cache);
    aw_mlp_cache_deinit(&c->actor_cache);
    aw_params_deinit(&c->critic);
    aw_params_deinit(&c->actor);
    aw_params_deinit(&c->encoding);
    aw_alloc_free(c->alloc, c);
}

const struct aw_context_config *aw_context_config(const struct aw_context *c)
{
    return &c->config;
}

void aw_context_freeze(struct aw_context *c, bool encoder, bool actor_too)
{
    c->encoder_frozen = encoder;
    c->actor_frozen = actor_too;
}

void aw_context_offset(struct aw_context *c, const double *by)
{
    AW_ASSERT(c->loaded);
    const struct aw_linear *last = &c->actor_net.layer[c->actor_net.layer_count - 1];
    memcpy(c->actor.value, c->actor_held, c->actor.count * sizeof(float));
    for (uint32_t i = 0; i < last->out; i++)
        c->actor.value[last->bias + i] += (float)by[i];
    memcpy(c->actor_target, c->actor.value, c->actor.count * sizeof(float));
}

void aw_context_pace(struct aw_context *c, double factor)
{
    const struct aw_context_settings *s = &c->config.settings;
    c->actor_adam = aw_adam_default(factor * s->actor_lr);
    c->critic_adam = aw_adam_default(factor * s->critic_lr);
    c->encoder_adam = aw_adam_default(factor * s->encoder_lr);
}

void aw_context_reseed(struct aw_context *c, uint64_t stream)
{
    aw_rng_init(&c->rng, c->config.seed, STATE_STREAM + stream);
}

void aw_context_together(struct aw_context *c, aw_context_reduce *reduce, void *ctx)
{
    c->reduce = reduce;
    c->reduce_ctx = ctx;
}

/* --- what it is told -------------------------------------------------------------------------- */

enum aw_err aw_context_push(struct aw_context *c, uint32_t workload, const float *obs,
                            const float *action, float reward, const float *next_obs,
                            bool terminated)
{
    AW_ASSERT(workload < c->config.workloads);
    return aw_replay_push(&c->replay[workload], obs, action, reward, next_obs, terminated);
}

bool aw_context_episode(struct aw_context *c, uint32_t workload, const float *obs,
                        const float *action, const float *reward, uint32_t steps)
{
    AW_ASSERT(workload < c->config.workloads);
    return aw_bundle_add(&c->bundle[workload], obs, action, reward, steps);
}

void aw_context_teach(struct aw_context *c, uint32_t workload, const float *action)
{
    AW_ASSERT(workload < c->config.workloads);
    const uint32_t A = c->config.act_dim;
    memcpy(c->teacher + (size_t)workload * A, action, A * sizeof *action);
}

/* Adds to `sum` what (x - mean)^power adds up to in the bundles there are, number by number of a
 * step; returns of how many steps. */
static double add_up(const struct aw_context *c, const double *mean, uint32_t power, double *sum)
{
    const uint32_t dim = c->encoder.config.in;
    double count = 0;
    for (uint32_t w = 0; w < c->config.workloads; w++)
        for (uint32_t e = 0; e < c->bundle[w].count; e++) {
            const float *x = aw_bundle_episode(&c->bundle[w], e);
            for (uint32_t t = 0; t < c->bundle[w].length[e]; t++, count++)
                for (uint32_t i = 0; i < dim; i++) {
                    const double far = (double)x[(size_t)t * dim + i] - (mean ? mean[i] : 0);
                    sum[i] += power == 2 ? far * far : far;
                }
        }
    return count;
}

/* Means over everybody who learns together: those of sums, whose ratios are all that is used. */
static enum aw_err share(struct aw_context *c, double *sum, uint32_t dim, double *count)
{
    float values[AW_BUNDLE_DIM_MAX + 1];
    for (uint32_t i = 0; i < dim; i++)
        values[i] = (float)sum[i];
    values[dim] = (float)*count;
    const enum aw_err err = c->reduce(c->reduce_ctx, values, dim + (size_t)1);
    for (uint32_t i = 0; !err && i < dim; i++)
        sum[i] = (double)values[i];
    *count = err ? *count : (double)values[dim];
    return err;
}

enum aw_err aw_context_normalise(struct aw_context *c)
{
    struct aw_encoder_normal *normal = &c->encoder.normal;
    const uint32_t dim = c->encoder.config.in;
    double mean[AW_BUNDLE_DIM_MAX] = {0}, square[AW_BUNDLE_DIM_MAX] = {0};
    double count = add_up(c, NULL, 1, mean);
    enum aw_err err = c->reduce ? share(c, mean, dim, &count) : AW_OK;
    if (err)
        return err;
    for (uint32_t i = 0; i < dim; i++)
        mean[i] = count > 0 ? mean[i] / count : 0;
    count = add_up(c, mean, 2, square);
    if (c->reduce && (err = share(c, square, dim, &count)))
        return err;
    for (uint32_t i = 0; i < dim; i++) {
        const double variance = count > 0 ? square[i] / count : 0;
        normal->mean[i] = (float)mean[i];
        normal->scale[i] = variance > 1e-12 ? (float)(1 / sqrt(variance)) : 0;
    }
    c->version++;
    return AW_OK;
}

/* --- the best so far -------------------------------------------------------------------------- */

void aw_context_keep(struct aw_context *c)
{
    float *actor = c->kept + c->encoding.count, *critic = actor + c->actor.count;
    memcpy(c->kept, c->encoding.value, c->encoding.count * sizeof(float));
    memcpy(actor, c->actor.value, c->actor.count * sizeof(float));
    memcpy(critic, c->critic.value, c->critic.count * sizeof(float));
    c->has_kept = true;
}

bool aw_context_recall(struct aw_context *c)
{
    const float *actor = c->kept + c->encoding.count, *critic = actor + c->actor.count;
    if (!c->has_kept)
        return false;
    memcpy(c->encoding.value, c->kept, c->encoding.count * sizeof(float));
    memcpy(c->actor.value, actor, c->actor.count * sizeof(float));
    memcpy(c->critic.value, critic, c->critic.count * sizeof(float));
    memcpy(c->actor_target, actor, c->actor.count * sizeof(float));
    memcpy(c->critic_target, critic, c->critic.count * sizeof(float));
    c->version++;
    return true;
}

/* Nobody sees the embedding: it is not made. */
static bool blind(const struct aw_context *c)
{
    return !c->config.settings.to_actor && !c->config.settings.to_critic;
}

static bool encoder_learns(const struct aw_context *c)
{
    return !c->encoder_frozen && !blind(c);
}

/* --- acting ----------------------------------------------------------------------------------- */

static const float *embed_with(struct aw_context *c, struct aw_encoder_cache *cache,
                               uint32_t workload)
{
    AW_ASSERT(workload < c->config.workloads);
    const uint32_t E = c->config.settings.embedding;
    const struct aw_bundle *bundle = &c->bundle[workload];
    struct aw__embedded *known = &c->embedded[workload];
    float *to = c->embedding + (size_t)workload * E;
    if (blind(c)) {
        memset(to, 0, E * sizeof *to);
        return to;
    }
    if (known->encoder == c->version && known->bundle == bundle->version)
        return to;
    if (bundle->count == 0) {
        memset(to, 0, E * sizeof *to);
    } else {
        aw_encoder_thin(cache, 1, 0);
        const float *from = aw_encoder_forward(&c->encoder, c->encoding.value, &bundle, 1, cache);
        memcpy(to, from, E * sizeof *to);
    }
    *known = (struct aw__embedded){c->version, bundle->version};
    return to;
}

const float *aw_context_embed(struct aw_context *c, uint32_t workload)
{
    return embed_with(c, c->encoder_cache, workload);
}

/* The action without noise; x [S + E] is room for what the actor reads; `embedding` NULL: zeros. */
static enum aw_err act_as(struct aw_context *c, float *x, const float *embedding, const float *obs,
                          float *action)
{
    const uint32_t S = c->config.obs_dim, A = c->config.act_dim, E = c->config.settings.embedding;
    if (!aw_params_finite(obs, S))
        return AW_ERR_DIVERGED;
    memcpy(x, obs, S * sizeof *obs);
    if (embedding)
        memcpy(x + S, embedding, E * sizeof *obs);
    else
        memset(x + S, 0, E * sizeof *obs);
    aw_mlp_infer(&c->actor_net, c->actor.value, x, action);
    for (uint32_t i = 0; i < A; i++)
        action[i] = (float)tanh((double)action[i]);
    return aw_params_finite(action, A) ? AW_OK : AW_ERR_DIVERGED;
}

static enum aw_err act_with(struct aw_context *c, struct aw_encoder_cache *cache, float *x,
                            uint32_t workload, const float *obs, float *action)
{
    const float *own = c->config.settings.to_actor ? embed_with(c, cache, workload) : NULL;
    return act_as(c, x, own, obs, action);
}

enum aw_err aw_context_act(struct aw_context *c, uint32_t workload, const float *obs, double noise,
                           float *action)
{
    const enum aw_err err = act_with(c, c->encoder_cache, c->x_actor, workload, obs, action);
    for (uint32_t i = 0; !err && noise > 0 && i < c->config.act_dim; i++)
        action[i] = (float)fmin(1, fmax(-1, (double)action[i] + noise * aw_rng_normal(&c->rng)));
    return err;
}

struct aw_context_reader {
    struct aw_encoder_cache *cache;
    float *x; /* [S + E] */
    const struct aw_alloc *alloc;
};

enum aw_err aw_context_reader_new(const struct aw_context *c, struct aw_context_reader **ret_reader)
{
    const size_t width = (size_t)c->config.obs_dim + c->config.settings.embedding;
    struct aw_context_reader *reader = aw_alloc_new(c->alloc, 1, sizeof *reader);
    if (!reader)
        return AW_ERR_NOMEM;
    reader->alloc = c->alloc;
    enum aw_err err = aw_encoder_cache_new(&c->encoder, 1, c->config.settings.episodes,
                                           c->config.steps, false, c->alloc, &reader->cache);
    if (!err && !(reader->x = aw_alloc_new(c->alloc, width, sizeof *reader->x)))
        err = AW_ERR_NOMEM;
    if (err) {
        aw_context_reader_free(reader);
        return err;
    }
    *ret_reader = reader;
    return AW_OK;
}

void aw_context_reader_free(struct aw_context_reader *reader)
{
    if (!reader)
        return;
    aw_encoder_cache_free(reader->cache);
    aw_alloc_free(reader->alloc, reader->x);
    aw_alloc_free(reader->alloc, reader);
}

const float *aw_context_reader_embed(struct aw_context *c, struct aw_context_reader *reader,
                                     uint32_t workload)
{
    return embed_with(c, reader->cache, workload);
}

enum aw_err aw_context_reader_act(struct aw_context *c, struct aw_context_reader *reader,
                                  uint32_t workload, const float *obs, float *action)
{
    return act_with(c, reader->cache, reader->x, workload, obs, action);
}

enum aw_err aw_context_reader_act_as(struct aw_context *c, struct aw_context_reader *reader,
                                     const float *embedding, const float *obs, float *action)
{
    return act_as(c, reader->x, c->config.settings.to_actor ? embedding : NULL, obs, action);
}

/* --- learning --------------------------------------------------------------------------------- */

/* The embedding as it last was, by whichever encoder: within a round that is near enough, and to
 * read every workload of a batch anew is nearly all that an update with a GRU costs. */
static const float *last_known(struct aw_context *c, uint32_t workload)
{
    return c->embedded[workload].encoder
               ? c->embedding + (size_t)workload * c->config.settings.embedding
               : aw_context_embed(c, workload);
}

/* Which workloads this batch is about, and their embeddings. Returns how many. */
static uint32_t gather(struct aw_context *c)
{
    const struct aw_context_settings *s = &c->config.settings;
    const uint32_t E = s->embedding;
    uint32_t count = 0, group = 0;
    const struct aw_bundle *bundles[AW_CONTEXT_GROUP_MAX];
    for (uint32_t w = 0; w < c->config.workloads; w++)
        if (c->replay[w].count >= s->rows && (c->bundle[w].count > 0 || blind(c)))
            c->eligible[count++] = w;
    for (; group < s->group && group < count; group++) { /* without replacement */
        const uint32_t at = group + (uint32_t)aw_rng_below(&c->rng, count - group);
        const uint32_t w = c->eligible[at];
        c->eligible[at] = c->eligible[group];
        c->eligible[group] = w;
        bundles[group] = &c->bundle[w];
    }
    if (group == 0)
        return 0;
    if (!encoder_learns(c)) {
        for (uint32_t g = 0; g < group; g++)
            memcpy(c->context + (size_t)g * E, aw_context_embed(c, c->eligible[g]),
                   E * sizeof(float));
    } else {
        const uint32_t reads = reads_of(s) < group ? reads_of(s) : group;
        for (uint32_t g = reads; g < group; g++)
            memcpy(c->context + (size_t)g * E, last_known(c, c->eligible[g]), E * sizeof(float));
        aw_encoder_thin(c->encoder_cache, s->thin, (uint32_t)aw_rng_below(&c->rng, s->thin));
        memcpy(c->context,
               aw_encoder_forward(&c->encoder, c->encoding.value, bundles, reads, c->encoder_cache),
               (size_t)reads * E * sizeof(float));
    }
    memset(c->d_context, 0, (size_t)group * E * sizeof(float));
    return group;
}

static void join(const struct aw_context *c, const float *obs, const float *action, bool critic,
                 float *x)
{
    const uint32_t S = c->config.obs_dim, A = c->config.act_dim, E = c->config.settings.embedding;
    const uint32_t width = S + E + (critic ? A : 0), rows = c->config.settings.rows;
    const bool shown = critic ? c->config.settings.to_critic : c->config.settings.to_actor;
    for (uint32_t b = 0; b < c->rows_now; b++, x += width) {
        memcpy(x, obs + (size_t)b * S, S * sizeof *x);
        if (shown)
            memcpy(x + S, c->context + (size_t)(b / rows) * E, E * sizeof *x);
        else
            memset(x + S, 0, E * sizeof *x);
        if (critic)
            memcpy(x + S + E, action + (size_t)b * A, A * sizeof *x);
    }
}

/* What a loss says of the embeddings, from the gradient of rows that are `width` wide. */
static void collect(struct aw_context *c, const float *dx, uint32_t width)
{
    const uint32_t S = c->config.obs_dim, E = c->config.settings.embedding;
    const uint32_t rows = c->config.settings.rows;
    for (uint32_t b = 0; b < c->rows_now; b++)
        for (uint32_t i = 0; i < E; i++)
            c->d_context[(size_t)(b / rows) * E + i] += dx[(size_t)b * width + S + i];
}

static void squash(const float *u, size_t count, float *a)
{
    for (size_t i = 0; i < count; i++)
        a[i] = tanhf(u[i]);
}

static void targets(struct aw_context *c)
{
    const struct aw_context_settings *s = &c->config.settings;
    const uint32_t A = c->config.act_dim, B = c->rows_now;
    join(c, c->next_obs, NULL, false, c->x_actor);
    squash(aw_mlp_forward(&c->actor_net, c->actor_target, c->x_actor, B, &c->actor_cache),
           (size_t)B * A, c->a);
    for (size_t i = 0; i < (size_t)B * A; i++) {
        const double noise =
            fmin(s->target_noise_clip,
                 fmax(-s->target_noise_clip, s->target_noise * aw_rng_normal(&c->rng)));
        c->a[i] = (float)fmin(1, fmax(-1, (double)c->a[i] + noise));
    }
    join(c, c->next_obs, c->a, true, c->x_critic);
    for (uint32_t k = 0; k < 2; k++) {
        const float *q =
            aw_mlp_forward(&c->critic_net[k], c->critic_target, c->x_critic, B, &c->critic_cache);
        for (uint32_t b = 0; b < B; b++)
            c->y[b] = k == 0 ? q[b] : fminf(c->y[b], q[b]);
    }
    for (uint32_t b = 0; b < B; b++)
        c->y[b] = c->reward[b] + (float)s->gamma * (1 - c->terminal[b]) * c->y[b];
}

static void learn_critics(struct aw_context *c, struct aw_context_stats *stats)
{
    const struct aw_context_settings *s = &c->config.settings;
    const uint32_t B = c->rows_now, width = c->config.obs_dim + s->embedding + c->config.act_dim;
    aw_params_zero_grad(&c->critic);
    join(c, c->obs, c->act, true, c->x_critic);
    for (uint32_t k = 0; k < 2; k++) {
        const float *q =
            aw_mlp_forward(&c->critic_net[k], c->critic.value, c->x_critic, B, &c->critic_cache);
        stats->critic_loss += aw_loss_mse(q, c->y, B, c->dq) / 2;
        if (k == 0)
            for (uint32_t b = 0; b < B; b++)
                stats->q_mean += (double)q[b] / B;
        const bool wanted = s->to_critic && encoder_learns(c);
        aw_mlp_backward(&c->critic_net[k], c->critic.value, c->x_critic, B, &c->critic_cache, c->dq,
                        c->critic.grad, wanted ? c->dx_critic : NULL);
        if (wanted)
            collect(c, c->dx_critic, width);
    }
}

static void learn_actor(struct aw_context *c, struct aw_context_stats *stats)
{
    const struct aw_context_settings *s = &c->config.settings;
    const uint32_t S = c->config.obs_dim, A = c->config.act_dim, E = s->embedding;
    const uint32_t B = c->rows_now;
    aw_params_zero_grad(&c->actor);
    const bool anchored = c->loaded && s->anchor > 0;
    join(c, c->obs, NULL, false, c->x_actor);
    if (anchored)
        squash(aw_mlp_forward(&c->actor_net, c->actor_held, c->x_actor, B, &c->actor_cache),
               (size_t)B * A, c->a_held);
    const float *u = aw_mlp_forward(&c->actor_net, c->actor.value, c->x_actor, B, &c->actor_cache);
    squash(u, (size_t)B * A, c->a);
    join(c, c->obs, c->a, true, c->x_critic);
    const float *q =
        aw_mlp_forward(&c->critic_net[0], c->critic.value, c->x_critic, B, &c->critic_cache);
    for (uint32_t b = 0; b < B; b++) {
        stats->actor_loss -= (double)q[b] / B;
        c->dq[b] = (float)-s->improve / (float)B;
    }
    aw_mlp_backward(&c->critic_net[0], c->critic.value, c->x_critic, B, &c->critic_cache, c->dq,
                    NULL, c->dx_critic);
    const float penalty = 2 * (float)s->pretanh_penalty / (float)(B * A);
    const float pull = 2 * (float)s->imitate / (float)(B * A);
    const float hold = anchored ? 2 * (float)s->anchor / (float)(B * A) : 0;
    for (uint32_t b = 0; b < B; b++) {
        const float *teacher = c->teacher + (size_t)c->eligible[b / s->rows] * A;
        for (uint32_t i = 0; i < A; i++) {
            const float a = c->a[(size_t)b * A + i];
            float da = c->dx_critic[(size_t)b * (S + E + A) + S + E + i];
            if (!isnan(teacher[i]))
                da += pull * (a - teacher[i]);
            if (anchored)
                da += hold * (a - c->a_held[(size_t)b * A + i]);
            c->du[(size_t)b * A + i] = da * (1 - a * a) + penalty * u[(size_t)b * A + i];
        }
    }
    const bool wanted = s->to_actor && encoder_learns(c);
    aw_mlp_backward(&c->actor_net, c->actor.value, c->x_actor, B, &c->actor_cache, c->du,
                    c->actor.grad, wanted ? c->dx_actor : NULL);
    if (wanted)
        collect(c, c->dx_actor, S + E);
}

static void sample(struct aw_context *c, uint32_t group)
{
    const struct aw_context_settings *s = &c->config.settings;
    const size_t S = c->config.obs_dim, A = c->config.act_dim, E = s->embedding;
    c->rows_now = group * s->rows;
    for (uint32_t g = 0; g < group; g++) {
        const size_t at = (size_t)g * s->rows;
        aw_replay_sample(&c->replay[c->eligible[g]], &c->rng, s->rows,
                         &(struct aw_replay_batch){.obs = c->obs + at * S,
                                                   .act = c->act + at * A,
                                                   .reward = c->reward + at,
                                                   .terminal = c->terminal + at,
                                                   .next_obs = c->next_obs + at * S});
    }
    if (s->context_noise > 0 && encoder_learns(c))
        for (size_t i = 0; i < group * E; i++)
            c->context[i] += (float)(s->context_noise * aw_rng_normal(&c->rng));
}

static enum aw_err together(struct aw_context *c, struct aw_params *params)
{
    return c->reduce ? c->reduce(c->reduce_ctx, params->grad, params->count) : AW_OK;
}

enum aw_err aw_context_learn(struct aw_context *c, struct aw_context_stats *ret_stats)
{
    const struct aw_context_settings *s = &c->config.settings;
    struct aw_context_stats stats = {0};
    const uint32_t group = gather(c);
    if (group == 0)
        return AW_ERR_NODATA;
    sample(c, group);
    targets(c);
    learn_critics(c, &stats);
    c->updates++;
    const bool actor_turn = c->updates % s->policy_delay == 0 && !c->actor_frozen;
    if (!isfinite(stats.critic_loss))
        return AW_ERR_DIVERGED;
    enum aw_err err = together(c, &c->critic);
    if (err)
        return err;
    aw_adam_step(&c->critic_adam, &c->critic);
    if (actor_turn) {
        learn_actor(c, &stats);
        if (!isfinite(stats.actor_loss))
            return AW_ERR_DIVERGED;
        if ((err = together(c, &c->actor)))
            return err;
        aw_adam_step(&c->actor_adam, &c->actor);
    }
    if (encoder_learns(c)) {
        aw_params_zero_grad(&c->encoding);
        aw_encoder_backward(&c->encoder, c->encoding.value, c->encoder_cache, c->d_context,
                            c->encoding.grad);
        if ((err = together(c, &c->encoding)))
            return err;
        stats.encoder_grad = aw_params_clip_grad_norm(&c->encoding, 1);
        if (!isfinite(stats.encoder_grad))
            return AW_ERR_DIVERGED;
        aw_adam_step(&c->encoder_adam, &c->encoding);
        c->version++;
    }
    aw_params_soft_update(c->critic_target, c->critic.value, (float)s->tau, c->critic.count);
    if (actor_turn)
        aw_params_soft_update(c->actor_target, c->actor.value, (float)s->tau, c->actor.count);
    stats.updates = c->updates;
    if (ret_stats)
        *ret_stats = stats;
    return AW_OK;
}
