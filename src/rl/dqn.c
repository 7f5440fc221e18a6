/* dqn.c - the agent around the network: act, observe, learn, save, load, and its settings. */
#include "rl/dqn.h"

#include "nn/adam.h"
#include "rl/dqn_model.h"
#include "rl/noise.h"
#include "rl/normalise.h"
#include "rl/offpolicy.h"
#include "rl/persist.h"
#include "rl/replay.h"

#include <math.h>
#include <string.h>

struct dqn {
    struct aw_agent_shape shape;
    struct aw_dqn_settings settings;
    struct aw_dqn_model model;
    struct aw_replay replay;      /* raw observations, normalised as they are drawn */
    struct aw_normalise obs_norm; /* used with settings.normalise_obs */
    struct aw_rng rng;
    uint64_t step_count;   /* environment steps observed, over all environments */
    uint64_t update_count; /* gradient updates made */
    uint64_t due_steps;    /* environment steps since the last round of updates */

    /* The last steps of each environment whose n-step return is not complete yet. */
    uint64_t *window_count; /* [N], below n_steps */
    float *window_obs;      /* [N][n_steps][obs_dim] */
    float *window_action;   /* [N][n_steps] */
    float *window_reward;   /* [N][n_steps] */

    /* one batch, as drawn; obs also holds the normalised rows of an act */
    float *obs;      /* [batch_max][obs_dim] */
    float *action;   /* [batch] */
    float *reward;   /* [batch] */
    float *terminal; /* [batch] */
    float *next_obs; /* [batch][obs_dim] */

    struct aw_persist persist;
    const struct aw_alloc *alloc;
    void *block;
};

/* ---- acting ---- */

/* The share of random actions: all during the warm-up, then falling over a part of the run. */
static double epsilon(const struct dqn *dqn)
{
    const struct aw_dqn_settings *settings = &dqn->settings;
    if (dqn->step_count < settings->warmup_steps)
        return 1;
    double duration = settings->total_steps && settings->epsilon_fraction > 0
                          ? (double)settings->epsilon_fraction * (double)settings->total_steps
                          : (double)settings->epsilon_steps;
    return aw_schedule_linear((double)settings->epsilon_start, (double)settings->epsilon_end,
                              duration, (double)dqn->step_count);
}

/* Fills the rows whose action is -1 with the best choice. */
static enum aw_err fill_greedy(struct dqn *dqn, const float *obs, uint32_t B, float *action)
{
    uint32_t N = dqn->shape.act_n;
    if (dqn->settings.normalise_obs) {
        aw_normalise_apply(&dqn->obs_norm, obs, B, dqn->obs);
        obs = dqn->obs;
    }
    const float *q = aw__dqn_values(&dqn->model, obs, B);
    if (!aw_params_finite(q, (size_t)B * N))
        return AW_ERR_DIVERGED;
    for (uint32_t b = 0; b < B; b++)
        if (action[b] < 0)
            action[b] = (float)aw__dqn_best(q + (size_t)b * N, N);
    return AW_OK;
}

static enum aw_err dqn_act(void *self, const float *obs, uint32_t count, bool explore,
                           float *action)
{
    struct dqn *dqn = self;
    size_t dim = dqn->shape.obs_dim;
    AW_ASSERT(count <= (explore ? dqn->shape.env_count : AW_AGENT_ACT_ROWS_MAX));
    if (!aw_params_finite(obs, count * dim))
        return AW_ERR_DIVERGED;

    uint32_t greedy = count;
    double eps = explore ? epsilon(dqn) : 0;
    for (uint32_t b = 0; b < count; b++) {
        bool random = explore && aw_rng_double(&dqn->rng) < eps;
        action[b] = random ? (float)aw_rng_below(&dqn->rng, dqn->shape.act_n) : -1;
        greedy -= random;
    }
    uint32_t most = dqn->model.config.batch_max;
    for (uint32_t row = 0; greedy && row < count;) {
        uint32_t B = count - row < most ? count - row : most;
        enum aw_err err = fill_greedy(dqn, obs + row * dim, B, action + row);
        if (err)
            return err;
        row += B;
    }
    return AW_OK;
}

/* ---- observing ---- */

static bool choices_valid(const float *action, size_t stride, size_t count, uint32_t n)
{
    for (size_t i = 0; i < count; i++) {
        float choice = action[i * stride];
        if (!(choice >= 0 && choice < (float)n && choice == floorf(choice)))
            return false;
    }
    return true;
}

/* Stores the oldest step of environment n's window, with all rewards of the window, discounted, and
 * `next_obs` as what follows. */
static enum aw_err push_first(struct dqn *dqn, size_t n, const float *next_obs, bool terminal)
{
    size_t steps = dqn->settings.n_steps, dim = dqn->shape.obs_dim, at = n * steps;
    double sum = 0;
    for (size_t i = dqn->window_count[n]; i-- > 0;)
        sum = (double)dqn->window_reward[at + i] + (double)dqn->settings.gamma * sum;
    return aw_replay_push(&dqn->replay, dqn->window_obs + at * dim, dqn->window_action + at,
                          (float)sum, next_obs, terminal);
}

/* Drops the oldest step of environment n's window. */
static void window_shift(struct dqn *dqn, size_t n)
{
    size_t steps = dqn->settings.n_steps, dim = dqn->shape.obs_dim, at = n * steps;
    size_t left = --dqn->window_count[n];
    memmove(dqn->window_obs + at * dim, dqn->window_obs + (at + 1) * dim,
            left * dim * sizeof(float));
    memmove(dqn->window_action + at, dqn->window_action + at + 1, left * sizeof(float));
    memmove(dqn->window_reward + at, dqn->window_reward + at + 1, left * sizeof(float));
}

/* A step enters its environment's window; what is complete leaves for the ring. After a termination
 * everything is: nothing follows, so shorter sums are exact. After a truncation the shorter sums
 * would need another discount for what follows than the rest of a batch, and are dropped. */
static enum aw_err window_step(struct dqn *dqn, size_t n, const struct aw_transition *transition)
{
    size_t steps = dqn->settings.n_steps, dim = dqn->shape.obs_dim;
    size_t at = n * steps + dqn->window_count[n]++;
    const float *next_obs = transition->next_obs + n * dim;
    enum aw_err err = AW_OK;
    memcpy(dqn->window_obs + at * dim, transition->obs + n * dim, dim * sizeof(float));
    dqn->window_action[at] = transition->action[n];
    dqn->window_reward[at] = transition->reward[n];
    if (transition->terminated[n]) {
        for (; dqn->window_count[n] && !err; window_shift(dqn, n))
            err = push_first(dqn, n, next_obs, true);
    } else if (dqn->window_count[n] == steps) {
        err = push_first(dqn, n, next_obs, false);
        window_shift(dqn, n);
    }
    if (transition->terminated[n] || transition->truncated[n])
        dqn->window_count[n] = 0;
    return err;
}

static enum aw_err dqn_observe(void *self, const struct aw_transition *transition)
{
    struct dqn *dqn = self;
    size_t N = dqn->shape.env_count, dim = dqn->shape.obs_dim;
    if (!aw_params_finite(transition->obs, N * dim) || !aw_params_finite(transition->action, N) ||
        !aw_params_finite(transition->reward, N) ||
        !aw_params_finite(transition->next_obs, N * dim))
        return AW_ERR_DIVERGED;
    if (!choices_valid(transition->action, 1, N, dqn->shape.act_n))
        return AW_ERR_RANGE;
    if (dqn->settings.normalise_obs)
        aw_normalise_update(&dqn->obs_norm, transition->obs, dqn->shape.env_count);
    for (size_t n = 0; n < N; n++) {
        enum aw_err err = window_step(dqn, n, transition);
        if (err)
            return err;
    }
    dqn->step_count += N;
    dqn->due_steps += N;
    return AW_OK;
}

/* ---- learning ---- */

static uint64_t updates_due(struct dqn *dqn)
{
    const struct aw_dqn_settings *settings = &dqn->settings;
    if (dqn->step_count < settings->warmup_steps || dqn->replay.count < settings->batch) {
        dqn->due_steps = 0;
        return 0;
    }
    uint64_t rounds = dqn->due_steps / settings->update_every;
    dqn->due_steps %= settings->update_every;
    return rounds * settings->updates_per_step;
}

struct sums {
    double loss, q, grad_norm;
};

static enum aw_err update(struct dqn *dqn, const struct aw_dqn_loss *loss,
                          const struct aw_adam *adam, struct sums *sums)
{
    const struct aw_dqn_settings *settings = &dqn->settings;
    struct aw_dqn_model *model = &dqn->model;
    struct aw_dqn_loss_stats stats;
    aw_replay_sample(&dqn->replay, &dqn->rng, settings->batch,
                     &(struct aw_replay_batch){.obs = dqn->obs,
                                               .act = dqn->action,
                                               .reward = dqn->reward,
                                               .terminal = dqn->terminal,
                                               .next_obs = dqn->next_obs});
    uint32_t B = settings->batch;
    if (settings->normalise_obs) {
        aw_normalise_apply(&dqn->obs_norm, dqn->obs, B, dqn->obs);
        aw_normalise_apply(&dqn->obs_norm, dqn->next_obs, B, dqn->next_obs);
    }
    for (uint32_t b = 0; b < B; b++)
        dqn->reward[b] *= settings->reward_scale;
    const struct aw_dqn_batch batch = {B,           dqn->obs,      dqn->action,
                                       dqn->reward, dqn->terminal, dqn->next_obs};
    aw__dqn_gradient(model, loss, &batch, &stats);
    double limit = settings->grad_clip > 0 ? (double)settings->grad_clip : (double)INFINITY;
    double norm = aw_params_clip_grad_norm(&model->params, limit);
    if (!isfinite(stats.loss) || !isfinite(norm))
        return AW_ERR_DIVERGED;
    aw_adam_step(adam, &model->params);
    dqn->update_count++;
    if (dqn->update_count % settings->target_every == 0)
        aw__dqn_sync_target(model, settings->tau);
    sums->loss += stats.loss;
    sums->q += stats.q_mean;
    sums->grad_norm += norm;
    return AW_OK;
}

static enum aw_err dqn_learn(void *self, struct aw_learn_stats *stats)
{
    struct dqn *dqn = self;
    const struct aw_dqn_settings *settings = &dqn->settings;
    if (stats)
        *stats = (struct aw_learn_stats){0};
    uint64_t due = updates_due(dqn);
    if (!due)
        return AW_OK;

    double left = 1;
    if (settings->anneal_lr && settings->total_steps)
        left = aw_schedule_linear(1, 0, (double)settings->total_steps, (double)dqn->step_count);
    const struct aw_adam adam = aw_adam_default(settings->lr * (float)left);
    const struct aw_dqn_loss loss = {
        .gamma = (float)pow((double)settings->gamma, settings->n_steps),
        .huber_delta = settings->huber_delta,
        .double_q = settings->double_q,
    };
    struct sums sums = {0};
    for (uint64_t i = 0; i < due; i++) {
        enum aw_err err = update(dqn, &loss, &adam, &sums);
        if (err)
            return err;
    }
    if (!aw_params_finite(dqn->model.params.value, dqn->model.params.count))
        return AW_ERR_DIVERGED;
    if (!stats)
        return AW_OK;
    stats->update_count = due;
    aw__learn_stat(stats, "loss", sums.loss / (double)due);
    aw__learn_stat(stats, "q_mean", sums.q / (double)due);
    aw__learn_stat(stats, "grad_norm", sums.grad_norm / (double)due);
    aw__learn_stat(stats, "epsilon", epsilon(dqn));
    aw__learn_stat(stats, "learning_rate", (double)adam.lr);
    return AW_OK;
}

/* ---- saving and loading ---- */

static void list_parts(struct dqn *dqn, uint64_t seed)
{
    struct aw_persist *persist = &dqn->persist;
    struct aw_params *params = &dqn->model.params;
    aw_persist_begin(persist, &(struct aw_persist_about){
                                  .algorithm = aw_dqn_factory.name,
                                  .shape = &dqn->shape,
                                  .fields = aw_dqn_factory.fields,
                                  .settings = &dqn->settings,
                                  .seed = seed,
                                  .update_count = &dqn->update_count,
                              });
    aw_persist_add_params(persist, AW_PERSIST_MODEL, "", params, params->value);
    if (dqn->settings.normalise_obs)
        aw_normalise_persist(&dqn->obs_norm, persist, "obs_norm");
    aw_persist_add_params(persist, AW_PERSIST_STATE, "target.", params, dqn->model.target);
    aw_persist_add_moments(persist, "", params);
    aw_replay_persist(&dqn->replay, persist, "replay");
    aw_persist_add_rng(persist, "rng", &dqn->rng);
    aw_persist_add_u64(persist, "step_count", &dqn->step_count);
    aw_persist_add_u64(persist, "update_count", &dqn->update_count);
    aw_persist_add_u64(persist, "due_steps", &dqn->due_steps);
    uint64_t N = dqn->shape.env_count, slots = N * dqn->settings.n_steps;
    aw_persist_add(persist, AW_PERSIST_STATE, "window.count", AW_DTYPE_I64, N, dqn->window_count);
    aw_persist_add(persist, AW_PERSIST_STATE, "window.obs", AW_DTYPE_F32,
                   slots * dqn->shape.obs_dim, dqn->window_obs);
    aw_persist_add(persist, AW_PERSIST_STATE, "window.action", AW_DTYPE_F32, slots,
                   dqn->window_action);
    aw_persist_add(persist, AW_PERSIST_STATE, "window.reward", AW_DTYPE_F32, slots,
                   dqn->window_reward);
}

/* What the file checks cannot know: that the ring is one, that windows are not full, and that
 * actions are choices. */
static enum aw_err state_valid(void *ctx, const struct aw_persist_found *found,
                               struct aw_diag *diag)
{
    const struct dqn *dqn = ctx;
    enum aw_err err = aw_replay_persist_valid(&dqn->replay, found, "replay", diag);
    if (err)
        return err;
    const void *counts = aw_persist_peek(found, "window.count");
    if (!counts)
        return AW_OK; /* a model without its state */
    uint64_t N = dqn->shape.env_count, steps = dqn->settings.n_steps, count;
    for (uint64_t n = 0; n < N; n++) {
        memcpy(&count, (const char *)counts + n * sizeof count, sizeof count);
        if (count >= steps)
            return aw_fail(diag, AW_ERR_FORMAT, "window.count: expected less than %u, found %llu",
                           dqn->settings.n_steps, (unsigned long long)count);
    }
    /* slots that hold no step are zero, which is a choice too */
    if (!choices_valid(aw_persist_peek(found, "window.action"), 1, N * steps, dqn->shape.act_n))
        return aw_fail(diag, AW_ERR_FORMAT, "window.action: expected whole numbers below %u",
                       dqn->shape.act_n);
    uint32_t rows = aw_persist_peek_rows(found, "replay.rows");
    const float *row = aw_persist_peek(found, "replay.rows");
    if (rows &&
        !choices_valid(row + dqn->shape.obs_dim, dqn->replay.row_floats, rows, dqn->shape.act_n))
        return aw_fail(diag, AW_ERR_FORMAT,
                       "replay.rows: expected actions that are whole numbers below %u",
                       dqn->shape.act_n);
    return AW_OK;
}

static enum aw_err dqn_save(void *self, const char *dir, bool resumable, struct aw_diag *diag)
{
    struct dqn *dqn = self;
    return aw_persist_save(&dqn->persist, dir, resumable, dqn->alloc, diag);
}

static enum aw_err dqn_load(void *self, const char *dir, bool resumable, struct aw_diag *diag)
{
    struct dqn *dqn = self;
    enum aw_err err =
        aw_persist_load(&dqn->persist, dir, resumable, state_valid, dqn, dqn->alloc, diag);
    if (err)
        return err;
    if (dqn->settings.normalise_obs)
        aw_normalise_refresh(&dqn->obs_norm);
    if (resumable)
        return AW_OK;
    /* the target and the moments of other weights are of no use to these */
    aw__dqn_sync_target(&dqn->model, 1);
    aw_params_zero_moments(&dqn->model.params);
    return AW_OK;
}

/* ---- making ---- */

static void dqn_free(void *self)
{
    struct dqn *dqn = self;
    if (!dqn)
        return;
    aw_normalise_deinit(&dqn->obs_norm);
    aw_replay_deinit(&dqn->replay);
    aw__dqn_model_deinit(&dqn->model);
    aw_alloc_free(dqn->alloc, dqn->block);
    aw_alloc_free(dqn->alloc, dqn);
}

static void carve(struct dqn *dqn, struct aw_carve *carve)
{
    size_t B = dqn->settings.batch, dim = dqn->shape.obs_dim;
    size_t N = dqn->shape.env_count, slots = N * dqn->settings.n_steps;
    dqn->window_count = aw_carve_take(carve, N, sizeof(uint64_t));
    dqn->window_obs = aw_carve_take(carve, slots * dim, sizeof(float));
    dqn->window_action = aw_carve_take(carve, slots, sizeof(float));
    dqn->window_reward = aw_carve_take(carve, slots, sizeof(float));
    dqn->obs = aw_carve_take(carve, dqn->model.config.batch_max * dim, sizeof(float));
    dqn->action = aw_carve_take(carve, B, sizeof(float));
    dqn->reward = aw_carve_take(carve, B, sizeof(float));
    dqn->terminal = aw_carve_take(carve, B, sizeof(float));
    dqn->next_obs = aw_carve_take(carve, B * dim, sizeof(float));
}

static enum aw_err make_parts(struct dqn *dqn, uint64_t seed)
{
    const struct aw_agent_shape *shape = &dqn->shape;
    const struct aw_dqn_settings *settings = &dqn->settings;
    const struct aw_dqn_model_config model = {
        .obs_dim = shape->obs_dim,
        .act_n = shape->act_n,
        .hidden = settings->hidden,
        .batch_max = settings->batch > shape->env_count ? settings->batch : shape->env_count,
    };
    aw_rng_init(&dqn->rng, seed, 0);
    enum aw_err err = aw__dqn_model_init(&dqn->model, &model, &dqn->rng, dqn->alloc);
    if (err)
        return err;
    err = aw_replay_init(&dqn->replay,
                         &(struct aw_replay_config){settings->replay_capacity, shape->obs_dim, 1},
                         dqn->alloc);
    if (err)
        return err;
    if (settings->normalise_obs) {
        err = aw_normalise_init(&dqn->obs_norm, shape->obs_dim, AW_NORMALISE_CLIP, dqn->alloc);
        if (err)
            return err;
    }
    struct aw_carve sizing = {0};
    carve(dqn, &sizing);
    dqn->block = aw_alloc_new(dqn->alloc, sizing.used, 1);
    if (!dqn->block)
        return AW_ERR_NOMEM;
    carve(dqn, &(struct aw_carve){.base = dqn->block});
    list_parts(dqn, seed);
    return AW_OK;
}

static const struct aw_agent_ops dqn_ops = {
    .name = "dqn",
    .act = dqn_act,
    .observe = dqn_observe,
    .learn = dqn_learn,
    .save = dqn_save,
    .load = dqn_load,
    .free = dqn_free,
};

static enum aw_err check(const struct aw_agent_shape *shape, const struct aw_dqn_settings *settings,
                         struct aw_diag *diag)
{
    if (shape->action != AW_AGENT_DISCRETE)
        return aw_fail(
            diag, AW_ERR_UNSUPPORTED,
            "dqn takes discrete actions, and these are continuous: use ddpg, td3 or ppo");
    if (!shape->env_count || !shape->obs_dim || shape->obs_dim > AW_MLP_WIDTH_MAX)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "expected an environment and 1 to %u observations, found %u and %u",
                       AW_MLP_WIDTH_MAX, shape->env_count, shape->obs_dim);
    if (!shape->act_n || shape->act_n > AW_MLP_WIDTH_MAX || shape->act_dim != 1)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u choices in one number, found %u",
                       AW_MLP_WIDTH_MAX, shape->act_n);
    if (settings->hidden.count >= AW_MLP_LAYERS_MAX)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "hidden",
                          "expected at most %u hidden layers, found %u", AW_MLP_LAYERS_MAX - 1,
                          settings->hidden.count);
    if (settings->batch > settings->replay_capacity)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "replay_capacity",
                          "expected at least one batch of %u, found %u", settings->batch,
                          settings->replay_capacity);
    return AW_OK;
}

static enum aw_err dqn_make(const struct aw_agent_shape *shape, const void *settings, uint64_t seed,
                            const struct aw_alloc *alloc, struct aw_agent *ret_agent,
                            struct aw_diag *diag)
{
    enum aw_err err = check(shape, settings, diag);
    if (err)
        return err;
    struct dqn *dqn = aw_alloc_new(alloc, 1, sizeof *dqn);
    if (!dqn)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory while making a DQN agent");
    dqn->shape = *shape;
    dqn->shape.act_low = dqn->shape.act_high = NULL;
    memcpy(&dqn->settings, settings, sizeof dqn->settings);
    dqn->alloc = alloc;
    err = make_parts(dqn, seed);
    if (err) {
        dqn_free(dqn);
        return aw_fail(diag, err, "cannot make a DQN agent: %s", aw_err_text(err));
    }
    *ret_agent = (struct aw_agent){&dqn_ops, dqn};
    return AW_OK;
}

/* ---- settings ---- */

/* clang-format off */
#define AW_CONF_OF struct aw_dqn_settings
static const struct aw_conf_field fields[] = {
    AW_CONF_NUMBER(total_steps, "0", 0, 1e12,
        "Environment steps of the whole run, for epsilon_fraction and anneal_lr; 0: not known."),
    AW_CONF_NUMBER(hidden, "64,64", 1, AW_MLP_WIDTH_MAX,
        "Units of each hidden layer, with ReLU (Stable-Baselines3)."),
    AW_CONF_NUMBER(lr, "1e-4", 0, 1, "Learning rate of Adam (Stable-Baselines3)."),
    AW_CONF_PLAIN(anneal_lr, "false", "Let lr fall linearly to 0 at total_steps."),
    AW_CONF_NUMBER(gamma, "0.99", 0, 1, "Discount of the reward one step later."),
    AW_CONF_NUMBER(batch, "32", 1, AW_REPLAY_BATCH_MAX,
        "Transitions in one gradient update (Mnih et al., 2015, extended data table 1)."),
    AW_CONF_NUMBER(replay_capacity, "1_000_000", 1, AW_REPLAY_CAPACITY_MAX,
        "Transitions kept; the oldest is overwritten. Memory: 4 * (2 * observations + 3) bytes "
        "each."),
    AW_CONF_NUMBER(warmup_steps, "100", 0, 1e9,
        "Environment steps with uniformly random actions and no updates at the start."),
    AW_CONF_NUMBER(update_every, "4", 1, 1e6,
        "Environment steps from one round of updates to the next (Mnih et al., 2015)."),
    AW_CONF_NUMBER(updates_per_step, "1", 1, 1e6, "Gradient updates in one round."),
    AW_CONF_PLAIN(normalise_obs, "false",
        "Divide observations by their running deviation about their running mean, clipped at 10."),
    AW_CONF_NUMBER(reward_scale, "1", 0, 1e6,
        "Factor on rewards before learning; 1 - gamma keeps values near the size of a reward."),
    AW_CONF_NUMBER(target_every, "2500", 1, 1e9,
        "Gradient updates from one move of the target network to the next: 10 000 steps by "
        "default."),
    AW_CONF_NUMBER(tau, "1", 0, 1,
        "Share of the online weights that moves into the target network; 1: all, a copy."),
    AW_CONF_NUMBER(n_steps, "1", 1, AW_DQN_N_STEPS_MAX,
        "Rewards summed before the value of what follows counts (Hessel et al., 2018: 3)."),
    AW_CONF_PLAIN(double_q, "true",
        "Let the online network choose the next action and the target network value it (van "
        "Hasselt et al., 2016)."),
    AW_CONF_NUMBER(huber_delta, "1", 1e-6, 1e6,
        "Error beyond which the loss is linear; 1 is the clipping of Mnih et al., 2015."),
    AW_CONF_NUMBER(grad_clip, "10", 0, 1e6, "Largest global norm of a gradient; 0: no limit."),
    AW_CONF_NUMBER(epsilon_start, "1", 0, 1, "Share of random actions at the start."),
    AW_CONF_NUMBER(epsilon_end, "0.05", 0, 1, "Share of random actions after the schedule."),
    AW_CONF_NUMBER(epsilon_fraction, "0.1", 0, 1,
        "Part of total_steps over which epsilon falls; 0, or no total_steps: see epsilon_steps."),
    AW_CONF_NUMBER(epsilon_steps, "10_000", 0, 1e12,
        "Environment steps over which epsilon falls where epsilon_fraction does not say it."),
    {0},
};

static const char *const cartpole[] = {
    "lr=1e-3", "anneal_lr=true", "batch=64", "replay_capacity=50_000", "warmup_steps=1000",
    "update_every=1", "target_every=200", "n_steps=3", "normalise_obs=true", "reward_scale=0.1",
    "epsilon_end=0.05", "epsilon_fraction=0.2", NULL,
};
/* clang-format on */

static const struct aw_agent_preset presets[] = {
    {"cartpole-v1", "our own: falling steps, 3-step returns; docs/algorithms/dqn.md", cartpole},
    {0},
};

const struct aw_agent_factory aw_dqn_factory = {
    .name = "dqn",
    .summary = "deep Q-learning with double Q and Huber loss: off-policy, discrete actions",
    .fields = fields,
    .settings_bytes = sizeof(struct aw_dqn_settings),
    .presets = presets,
    .continuous = false,
    .discrete = true,
    .on_policy = false,
    .make = dqn_make,
};
