/* train.c - the loop itself: environments, learner, the ring of recent returns, evaluation. */
#include "train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/train_internal.h"

/* What a seed is split into. Environments and learner must not draw from one stream: an exploration
 * noise that repeats the draws of the environment is not noise. */
enum { STREAM_RUN = 0x72756e, STREAM_EVAL = 0x6576616c };

static const char *actions_word(const struct aw_space *space)
{
    return space->kind == AW_SPACE_DISCRETE ? "discrete" : "continuous";
}

/* AW_ERR_UNSUPPORTED names the learners that could. */
static enum aw_err actions_check(const struct aw_agent_factory *factory,
                                 const struct aw_env_spec *spec, struct aw_diag *diag)
{
    bool discrete = spec->action.kind == AW_SPACE_DISCRETE;
    char names[256] = "";
    size_t used = 0;
    if (discrete ? factory->discrete : factory->continuous)
        return AW_OK;
    for (const struct aw_agent_factory *const *f = aw_agent_builtin(); *f; f++) {
        if ((discrete ? (*f)->discrete : (*f)->continuous) && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                     (*f)->name);
    }
    return aw_fail(diag, AW_ERR_UNSUPPORTED, "%s cannot take the %s actions of %s; these can: %s",
                   factory->name, actions_word(&spec->action), spec->name, names);
}

static enum aw_err config_check(const struct aw_train_config *config, struct aw_diag *diag)
{
    if (config->steps < 1 || config->steps > AW_TRAIN_STEPS_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "steps",
                          "expected 1 to %u, found %" PRIu64, AW_TRAIN_STEPS_MAX, config->steps);
    if (config->seed > (uint64_t)AW_TRAIN_SEED_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "seed",
                          "expected 0 to %" PRId64 ", found %" PRIu64, AW_TRAIN_SEED_MAX,
                          config->seed);
    if (config->env_count < 1 || config->env_count > AW_TRAIN_ENVS_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "envs", "expected 1 to %u, found %u",
                          AW_TRAIN_ENVS_MAX, config->env_count);
    if (config->bootstrap_episodes > AW_TRAIN_BOOTSTRAP_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "bootstrap", "expected 0 to %u, found %u",
                          AW_TRAIN_BOOTSTRAP_MAX, config->bootstrap_episodes);
    if (config->thread_count > AW_THREADS_MAX)
        return aw_fail_at(diag, AW_ERR_RANGE, NULL, 0, 0, "threads", "expected 1 to %u, found %u",
                          AW_THREADS_MAX, config->thread_count);
    return AW_OK;
}

enum aw_err aw_train_settings(const struct aw_agent_factory *factory, const char *env,
                              const char *preset, void *settings, const char **ret_preset,
                              struct aw_diag *diag)
{
    const char *name = preset && *preset ? preset : "";
    AW_ASSERT(factory->settings_bytes <= AW_AGENT_SETTINGS_BYTES_MAX);
    if (!strcmp(name, "none")) {
        name = "";
    } else {
        const char *wanted = *name ? name : env;
        const struct aw_agent_preset *p = factory->presets;
        for (; p && p->name && strcmp(p->name, wanted) != 0; p++)
            ;
        if (p && p->name)
            name = p->name;
    }
    aw_conf_defaults(factory->fields, settings);
    for (const struct aw_agent_preset *p = factory->presets; *name; p++) {
        if (!p || !p->name)
            return aw_fail_at(diag, AW_ERR_NOTFOUND, NULL, 0, 0, "preset",
                              "%s has no preset \"%s\"; 'aware agent describe %s' lists them",
                              factory->name, name, factory->name);
        if (strcmp(p->name, name) != 0)
            continue;
        for (const char *const *pair = p->pairs; *pair; pair++) {
            enum aw_err err = aw_conf_set_pair(factory->fields, settings, *pair, diag);
            if (err)
                return err;
        }
        break;
    }
    *ret_preset = name;
    return AW_OK;
}

/* A learner that anneals has a setting called total_steps, 0 by default. Only the loop knows how
 * long the run is, so it fills it in, in a copy: run.json keeps the 0, and a run that is resumed
 * with another total anneals over that one. */
static void settings_complete(const struct aw_train *train, unsigned char *settings)
{
    char text[AW_CONF_TEXT_MAX];
    memcpy(settings, train->config.settings, sizeof train->config.settings);
    for (const struct aw_conf_field *field = train->factory->fields; field->key; field++) {
        if (strcmp(field->key, "total_steps") != 0 ||
            strcmp(aw_conf_get(field, settings, text, sizeof text), "0") != 0)
            continue;
        snprintf(text, sizeof text, "%" PRIu64, train->config.steps);
        enum aw_err err = aw_conf_set(train->factory->fields, settings, field->key, text, NULL);
        AW_ASSERT(!err); /* a learner that cannot take the longest run is a bug of its table */
    }
}

static enum aw_err agent_make(struct aw_train *train, uint64_t seed, struct aw_diag *diag)
{
    const struct aw_env_spec *spec = train->vec.spec;
    bool discrete = spec->action.kind == AW_SPACE_DISCRETE;
    uint32_t dim = spec->action.dim;
    float *bounds = NULL;
    _Alignas(16) unsigned char settings[AW_AGENT_SETTINGS_BYTES_MAX];
    struct aw_agent_shape shape = {
        .env_count = train->config.env_count,
        .obs_dim = spec->observation.dim,
        .action = discrete ? AW_AGENT_DISCRETE : AW_AGENT_CONTINUOUS,
        .act_dim = dim,
        .act_n = discrete ? spec->action.n : 0,
    };
    if (spec->observation.kind != AW_SPACE_BOX)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "%s has no numeric observations", spec->name);
    if (!discrete) {
        bounds = aw_alloc_new(train->alloc, 2 * (size_t)dim, sizeof *bounds);
        if (!bounds)
            return aw_fail(diag, AW_ERR_NOMEM, "no memory for the bounds of the actions");
        for (uint32_t i = 0; i < dim; i++) {
            bounds[i] = spec->action.axes[i].low;
            bounds[dim + i] = spec->action.axes[i].high;
        }
        shape.act_low = bounds;
        shape.act_high = bounds + dim;
    }
    settings_complete(train, settings);
    enum aw_err err =
        train->factory->make(&shape, settings, seed, train->alloc, &train->agent, diag);
    aw_alloc_free(train->alloc, bounds);
    return err;
}

/* Options of the environment, or NULL for its defaults. */
static const void *env_settings(const struct aw_train_config *config)
{
    return config->has_env_settings ? config->env_settings : NULL;
}

static enum aw_err lanes_make(struct aw_train *train, const struct aw_env_factory *factory,
                              struct aw_diag *diag)
{
    const struct aw_env_spec *spec = train->vec.spec;
    const void *settings = env_settings(&train->config);
    for (uint32_t i = 0; i < AW__EVAL_LANES; i++) {
        struct aw_env *env = &train->lane[i].env;
        enum aw_err err = settings ? factory->make_with(settings, train->alloc, env, diag)
                                   : factory->make(train->alloc, env, diag);
        if (err)
            return err;
    }
    train->lane_obs =
        aw_alloc_new(train->alloc, AW__EVAL_LANES, spec->observation.dim * sizeof(float));
    train->lane_action =
        aw_alloc_new(train->alloc, AW__EVAL_LANES, spec->action.dim * sizeof(float));
    if (!train->lane_obs || !train->lane_action)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the environments of the evaluation");
    return AW_OK;
}

static enum aw_err bootstrap_check(const struct aw_train *train, struct aw_diag *diag)
{
    if (!train->config.bootstrap_episodes)
        return AW_OK;
    if (train->factory->on_policy)
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, NULL, 0, 0, "bootstrap",
                          "%s learns only from what it does itself, not from another agent",
                          train->factory->name);
    if (!*aw_env_fallback_name(&train->vec.envs[0]))
        return aw_fail_at(diag, AW_ERR_UNSUPPORTED, NULL, 0, 0, "bootstrap",
                          "%s brings no agent of its own along", train->config.env);
    return AW_OK;
}

enum aw_err aw__train_new(const struct aw_train_config *config,
                          const struct aw_agent_factory *factory, const struct aw_alloc *alloc,
                          struct aw_train **ret_train, struct aw_diag *diag)
{
    const struct aw_env_factory *env = NULL;
    struct aw_train *train = NULL;
    struct aw_rng rng;
    enum aw_err err;

    if ((err = config_check(config, diag)) || (err = aw_env_find(config->env, &env, diag)))
        return err;
    if (!factory && (err = aw_agent_factory_find(config->agent, &factory, diag)))
        return err;
    if ((err = actions_check(factory, env->spec, diag)))
        return err;
    if (!(train = aw_alloc_new(alloc, 1, sizeof *train)))
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for the run");
    train->alloc = alloc;
    train->config = *config;
    train->factory = factory;
    train->progress.return_mean = NAN;
    train->progress.length_mean = NAN;
    train->progress.bootstrap_return = NAN;
    aw_rng_init(&rng, config->seed, STREAM_RUN);
    uint64_t env_seed = aw_rng_u64(&rng), agent_seed = aw_rng_u64(&rng);

    if (config->thread_count > 1 &&
        (err = aw_threads_init(&train->pool, config->thread_count, alloc))) {
        err = aw_fail(diag, err, "cannot start %u threads", config->thread_count);
        goto out;
    }
    struct aw_threads *pool = config->thread_count > 1 ? &train->pool : NULL;
    if ((err = aw_vec_init_with(&train->vec, env, env_settings(config), config->env_count, pool,
                                alloc, diag)) ||
        (err = bootstrap_check(train, diag)) || (err = lanes_make(train, env, diag)) ||
        (err = agent_make(train, agent_seed, diag)) ||
        (err = aw_vec_reset(&train->vec, env_seed, diag)))
        goto out;
    *ret_train = train;
    return AW_OK;
out:
    aw_train_free(train);
    return err;
}

enum aw_err aw_train_new(const struct aw_train_config *config, const struct aw_alloc *alloc,
                         struct aw_train **ret_train, struct aw_diag *diag)
{
    return aw__train_new(config, NULL, alloc, ret_train, diag);
}

void aw_train_free(struct aw_train *train)
{
    if (!train)
        return;
    aw_agent_free(&train->agent);
    aw_vec_deinit(&train->vec);
    aw_threads_deinit(&train->pool);
    for (uint32_t i = 0; i < AW__EVAL_LANES; i++)
        aw_env_free(&train->lane[i].env);
    aw_alloc_free(train->alloc, train->lane_obs);
    aw_alloc_free(train->alloc, train->lane_action);
    aw_alloc_free(train->alloc, train);
}

const struct aw_train_config *aw_train_config(const struct aw_train *train)
{
    return &train->config;
}

const struct aw_train_progress *aw_train_progress(const struct aw_train *train)
{
    return &train->progress;
}

bool aw_train_done(const struct aw_train *train)
{
    return train->progress.step >= train->config.steps;
}

uint32_t aw_train_recent(const struct aw_train *train, double *ret_returns)
{
    uint32_t first = train->recent_count < AW_TRAIN_RECENT ? 0 : train->recent_next;
    for (uint32_t i = 0; i < train->recent_count; i++)
        ret_returns[i] = train->recent_return[(first + i) % AW_TRAIN_RECENT];
    return train->recent_count;
}

void aw__train_recent_update(struct aw_train *train)
{
    double returns = 0, lengths = 0;
    for (uint32_t i = 0; i < train->recent_count; i++) {
        returns += train->recent_return[i];
        lengths += train->recent_length[i];
    }
    train->progress.return_mean = train->recent_count ? returns / train->recent_count : (double)NAN;
    train->progress.length_mean = train->recent_count ? lengths / train->recent_count : (double)NAN;
}

/* The environment's own agent acts. */
static bool bootstrapping(const struct aw_train *train)
{
    return train->progress.bootstrap_count < train->config.bootstrap_episodes;
}

static void bootstrap_take(struct aw_train_progress *at, double episode_return)
{
    const double before = at->bootstrap_count ? at->bootstrap_return : 0;
    at->bootstrap_count++;
    at->bootstrap_return = before + (episode_return - before) / (double)at->bootstrap_count;
}

static void episodes_take(struct aw_train *train,
                          void (*episode)(void *ctx, const struct aw_train_episode *), void *ctx)
{
    const struct aw_vec *vec = &train->vec;
    for (uint32_t i = 0; i < vec->finished_count; i++) {
        struct aw_train_episode done = {
            .step = train->progress.step,
            .episode_return = vec->finished[i].episode_return,
            .length = vec->finished[i].length,
        };
        train->recent_return[train->recent_next] = done.episode_return;
        train->recent_length[train->recent_next] = done.length;
        train->recent_next = (train->recent_next + 1) % AW_TRAIN_RECENT;
        if (train->recent_count < AW_TRAIN_RECENT)
            train->recent_count++;
        train->progress.episode_count++;
        if (bootstrapping(train))
            bootstrap_take(&train->progress, done.episode_return);
        if (episode)
            episode(ctx, &done);
    }
    if (vec->finished_count)
        aw__train_recent_update(train);
}

/* An error of the learner, which has no diagnostic of its own in these calls. */
static enum aw_err agent_failed(const struct aw_train *train, const char *what, enum aw_err err,
                                struct aw_diag *diag)
{
    return aw_fail(diag, err, "%s failed to %s at step %" PRIu64 ": %s", train->factory->name, what,
                   train->progress.step, aw_err_text(err));
}

/* act -> step -> observe -> learn, once for all environments. */
static enum aw_err turn(struct aw_train *train, struct aw_diag *diag)
{
    const struct aw_agent_ops *ops = train->agent.ops;
    struct aw_vec *vec = &train->vec;
    struct aw_learn_stats stats = {0};
    enum aw_err err;

    if (bootstrapping(train)) {
        if ((err = aw_vec_fallback(vec, diag)))
            return err;
    } else if ((err = ops->act(train->agent.self, vec->obs, vec->count, true, vec->action))) {
        return agent_failed(train, "act", err, diag);
    }
    if ((err = aw_vec_step(vec, diag)))
        return err;
    struct aw_transition transition = {
        .obs = vec->prev_obs,
        .action = vec->action,
        .reward = vec->reward,
        .next_obs = vec->next_obs,
        .terminated = vec->terminated,
        .truncated = vec->truncated,
    };
    train->progress.step += vec->count;
    if ((err = ops->observe(train->agent.self, &transition)))
        return agent_failed(train, "take in a step", err, diag);
    if ((err = ops->learn(train->agent.self, &stats)))
        return agent_failed(train, "learn", err, diag);
    if (stats.update_count) {
        train->progress.learn = stats;
        train->progress.update_count += stats.update_count;
    }
    return AW_OK;
}

enum aw_err aw_train_step(struct aw_train *train, uint64_t steps,
                          void (*episode)(void *ctx, const struct aw_train_episode *), void *ctx,
                          struct aw_diag *diag)
{
    uint64_t stop = train->progress.step + steps;
    while (!aw_train_done(train) && train->progress.step < stop) {
        enum aw_err err = turn(train, diag);
        if (err)
            return err;
        episodes_take(train, episode, ctx);
    }
    return AW_OK;
}

/* Puts the next episode into a lane, or leaves it idle with its last observation. */
static enum aw_err lane_begin(struct aw_train *train, uint32_t index, uint32_t *next,
                              uint32_t count, uint64_t seed, struct aw_diag *diag)
{
    struct aw__lane *lane = &train->lane[index];
    struct aw_rng rng;
    lane->busy = *next < count;
    if (!lane->busy)
        return AW_OK;
    lane->episode = (*next)++;
    lane->length = 0;
    lane->episode_return = 0;
    aw_rng_init(&rng, seed, lane->episode);
    float *obs = train->lane_obs + (size_t)index * train->vec.spec->observation.dim;
    enum aw_err err = lane->env.ops->reset(lane->env.self, aw_rng_u64(&rng), obs);
    return err ? aw_fail(diag, err, "%s failed to begin episode %u", train->config.env,
                         lane->episode)
               : AW_OK;
}

static enum aw_err lane_step(struct aw_train *train, uint32_t index, bool *ret_ended,
                             struct aw_diag *diag)
{
    const struct aw_env_spec *spec = train->vec.spec;
    struct aw__lane *lane = &train->lane[index];
    struct aw_step step = {0};
    enum aw_err err =
        lane->env.ops->step(lane->env.self, train->lane_action + (size_t)index * spec->action.dim,
                            train->lane_obs + (size_t)index * spec->observation.dim, &step);
    if (!err && !isfinite(step.reward))
        err = AW_ERR_DIVERGED;
    if (err)
        return aw_fail(diag, err, "%s failed in step %u of episode %u: %s", spec->name,
                       lane->length, lane->episode, aw_err_text(err));
    lane->episode_return += (double)step.reward;
    *ret_ended = step.terminated || step.truncated;
    if (++lane->length == AW_TRAIN_EVAL_STEPS_MAX && !*ret_ended)
        return aw_fail(diag, AW_ERR_LIMIT, "an episode of %s did not end within %u steps",
                       spec->name, AW_TRAIN_EVAL_STEPS_MAX);
    return AW_OK;
}

enum aw_err aw_train_evaluate(struct aw_train *train, uint32_t count, uint64_t seed,
                              double *ret_returns, struct aw_diag *diag)
{
    const struct aw_env_spec *spec = train->vec.spec;
    uint32_t next = 0, done = 0;
    struct aw_rng rng;
    enum aw_err err;

    if (count > AW_TRAIN_EVAL_EPISODES_MAX)
        return aw_fail_at(diag, AW_ERR_LIMIT, NULL, 0, 0, "episodes", "more than %u",
                          AW_TRAIN_EVAL_EPISODES_MAX);
    aw_rng_init(&rng, seed, STREAM_EVAL);
    uint64_t base = aw_rng_u64(&rng);
    memset(train->lane_obs, 0, AW__EVAL_LANES * spec->observation.dim * sizeof(float));
    for (uint32_t i = 0; i < AW__EVAL_LANES; i++) {
        if ((err = lane_begin(train, i, &next, count, base, diag)))
            return err;
    }
    while (done < count) {
        if ((err = train->agent.ops->act(train->agent.self, train->lane_obs, AW__EVAL_LANES, false,
                                         train->lane_action)))
            return agent_failed(train, "act", err, diag);
        for (uint32_t i = 0; i < AW__EVAL_LANES; i++) {
            struct aw__lane *lane = &train->lane[i];
            bool ended = false;
            if (!lane->busy)
                continue;
            if ((err = lane_step(train, i, &ended, diag)))
                return err;
            if (!ended)
                continue;
            ret_returns[lane->episode] = lane->episode_return;
            done++;
            if ((err = lane_begin(train, i, &next, count, base, diag)))
                return err;
        }
    }
    return AW_OK;
}

enum aw_err aw_train_act(struct aw_train *train, const float *obs, uint32_t obs_dim,
                         float *ret_action, uint32_t act_dim, struct aw_diag *diag)
{
    const struct aw_env_spec *spec = train->vec.spec;
    if (spec->action.kind != AW_SPACE_BOX || spec->observation.dim != obs_dim ||
        spec->action.dim != act_dim)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "a policy for %s has %u observations and %u actions; asked for %u and %u",
                       spec->name, spec->observation.dim, spec->action.dim, obs_dim, act_dim);
    const enum aw_err err = train->agent.ops->act(train->agent.self, obs, 1, false, ret_action);
    return err ? agent_failed(train, "act", err, diag) : AW_OK;
}
