/*
 * env.c - binds reading, state, action and objective to the simulated cluster.
 *
 * A step: action -> plan -> apply; `step` seconds pass; observe -> reading -> score, state, reward.
 * An episode begins with a few steps under a plain allocation, so that its first state is measured.
 * Everything drawn by a seed: which application of the pool, where in the load, the cluster's own
 * chance.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/envelope.h"
#include "base/hash.h"
#include "base/space.h"
#include "base/units.h"
#include "env/autoscale/internal.h"

/* Of every snapshot, whatever the options: the spec of a factory is a constant. The simulator's
 * own state is about half of it; make refuses a cluster that does not fit. */
#define SNAPSHOT_BYTES (64u << 10)
#define WORKLOAD       0u  /* there is one on the cluster */
#define NAME_BYTES     48u /* of an axis of a past state */

/* What decides the future, beside the simulator. No padding: it is copied into snapshots. */
struct episode {
    struct aw_state_memory state;
    struct aw_action_memory action;
    struct aw_reading reading; /* the latest */
    uint64_t seed;
    int64_t load_offset_us;
    double lambda;
    uint32_t app;
    uint32_t step;
    uint32_t live; /* reset, and not yet ended */
    uint32_t unused;
    float past[AW_STATE_HISTORY_MAX * AW_STATE_DIM_MAX + 8]; /* newest first; + 8: a multiple */
};

/* What was done in one step. */
struct record {
    uint32_t replicas;
    uint32_t cpu_millicores;
    int64_t memory_bytes;
};

/* A snapshot: this, then `more_bytes`, then zeros. With the fast model the bytes are the
 * simulator's. The reference model has too much going on to copy: there they are the records of
 * the episode, which a load plays again. */
struct snapshot {
    struct aw_envelope head; /* the owner is a hash of all options */
    uint64_t more_bytes;
    struct episode episode;
};
AW_LAYOUT(snapshot_layout, struct snapshot, 0, AW_ENVELOPE(head.), more_bytes,
          AW_STATE_MEMORY(episode.state.), AW_ACTION_MEMORY(episode.action.),
          AW_READING(episode.reading.), episode.seed, episode.load_offset_us, episode.lambda,
          episode.app, episode.step, episode.live, episode.unused, episode.past);
AW_LAYOUT(record_layout, struct record, 0, replicas, cpu_millicores, memory_bytes);
static struct aw_format format = {.kind = "scale",
                                  .what = "a state of autoscale-v0",
                                  .version = 1,
                                  .layout = {snapshot_layout, record_layout, aw_sim_layout}};
#define MORE_BYTES_MAX (SNAPSHOT_BYTES - sizeof(struct snapshot))

struct autoscale {
    const struct aw_alloc *alloc;
    struct aw_autoscale_settings settings;
    struct aw__options options;
    uint64_t options_hash;

    struct aw_env_spec spec;
    struct aw_space_axis *axes; /* [observation.dim] */
    char *names;                /* of the axes of past states */

    struct aw_state state;
    struct aw_action action;
    struct aw_objective objective;
    int64_t step_us, stale_us;
    int64_t begin_us; /* of an episode, after the warm-up, in the cluster's time */

    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_load load;
    struct aw__pool_app *pool; /* [options.app_count] */
    struct record *record;     /* [episode_steps], of this episode; reference model only */

    struct episode episode;
    struct aw_sample sample;
    bool pods_shown; /* the sample has its pods, which cost as much as a step */
    bool told;       /* `info` has the truth of the last step, or there is none to tell */
    struct aw_autoscale_info info;
};

/* --- an episode ------------------------------------------------------------------------------- */

/* What the metrics say now. A cluster that does not answer leaves everything unknown but what was
 * asked of it. */
static enum aw_err observe(struct autoscale *self)
{
    struct aw_reading *reading = &self->episode.reading;
    const struct aw_cluster *cluster = &self->cluster;
    struct aw_sim_placed placed;
    enum aw_err err = aw_sim_observe(self->sim, WORKLOAD, &self->sample, &placed);
    if (err && !aw_err_transient(err) && err != AW_ERR_NODATA)
        return err;
    self->pods_shown = err != AW_OK; /* there are none to show */
    if (err) {
        self->sample = (struct aw_sample){
            .at_us = cluster->ops->now_us(cluster->self),
            .cpu_cores_used.at_us = AW_NEVER,
            .memory_bytes_used.at_us = AW_NEVER,
            .memory_bytes_peak.at_us = AW_NEVER,
            .throttled_share.at_us = AW_NEVER,
            .disk_bytes_per_s.at_us = AW_NEVER,
            .net_bytes_per_s.at_us = AW_NEVER,
            .arrivals_per_s.at_us = AW_NEVER,
            .completions_per_s.at_us = AW_NEVER,
            .errors_per_s.at_us = AW_NEVER,
            .in_flight.at_us = AW_NEVER,
            .latency_us_p50.at_us = AW_NEVER,
            .latency_us_p95.at_us = AW_NEVER,
            .latency_us_p99.at_us = AW_NEVER,
            .latency_us_mean.at_us = AW_NEVER,
            .inside_us_p50.at_us = AW_NEVER,
            .inside_us_p99.at_us = AW_NEVER,
        };
        memcpy(self->sample.wanted, reading->wanted, sizeof reading->wanted);
    }
    if (err)
        aw_reading_take(&self->sample, self->stale_us, 0.99, reading);
    else
        aw_reading_take_placed(&self->sample, self->stale_us, 0.99, placed.cpu_millicores,
                               placed.memory_bytes, reading);
    return AW_OK;
}

/* The present state, and behind it the past ones, which move on by one. */
static void show(struct autoscale *self, float *obs)
{
    const uint32_t dim = aw_state_dim(self->settings.state), history = self->settings.history;
    aw_state_encode(&self->state, &self->episode.state, &self->episode.reading,
                    &self->info.measured, obs);
    if (history == 0)
        return;
    float *past = self->episode.past;
    memcpy(obs + dim, past, (size_t)history * dim * sizeof *obs);
    memmove(past + dim, past, (size_t)(history - 1) * dim * sizeof *past);
    memcpy(past, obs, dim * sizeof *past);
}

/* Brings on what disturbs the workload from now on; the load is scaled all the time. */
static void disturb(struct autoscale *self, int64_t at_us)
{
    struct aw_effect effect;
    aw_schedule_effect(&self->options.schedule, at_us, &effect);
    const struct aw_sim_disturbance disturbance = {
        .payload = effect.payload,
        .families = effect.families,
        .cpu_slowdown = effect.cpu_slowdown,
        .io_slowdown = effect.io_slowdown,
        .load_factor = effect.load_factor * self->pool[self->episode.app].load_factor,
        .memory_leak_mib = effect.memory_leak_mib,
    };
    aw_sim_disturb(self->sim, WORKLOAD, &disturbance);
}

/* Lets a step pass under `plan`, and scores it by the metrics. */
static enum aw_err pass(struct autoscale *self, const struct aw_plan *plan)
{
    const struct aw_cluster *cluster = &self->cluster;
    enum aw_err err = cluster->ops->apply(cluster->self, WORKLOAD, plan, INT64_MAX);
    /* what the cluster would not take now is asked again with the next action */
    if (err && !aw_err_transient(err))
        return err;
    const int64_t now = cluster->ops->now_us(cluster->self), at = now - self->begin_us;
    if (self->options.schedule.count > 0 &&
        aw_schedule_next(&self->options.schedule, at - self->step_us) <= at)
        disturb(self, at);
    if ((err = cluster->ops->advance(cluster->self, now + self->step_us)) || (err = observe(self)))
        return err;
    const struct aw_outcome outcome = aw_outcome_of(&self->episode.reading);
    aw_objective_score(&self->objective, &outcome, self->settings.step_s, &self->info.measured);
    aw_action_observe(&self->action, &self->episode.action, &self->episode.reading);
    return AW_OK;
}

static double ratio(double used, double allocated)
{
    return allocated > 0 ? fmin(1, used / allocated) : 0;
}

/* The same step by what really happened; for those who ask. */
static void tell(struct autoscale *self)
{
    if (self->told)
        return;
    self->told = true;
    const struct aw_sim_truth *truth = aw_sim_truth(self->sim, WORKLOAD);
    const double step_s = self->settings.step_s;
    struct aw_autoscale_info *info = &self->info;
    const struct aw_outcome outcome = {
        .arrivals_per_s = truth->arrivals / step_s,
        .completions_per_s = truth->completions / step_s,
        .errors_per_s = truth->failures / step_s,
        .latency_us_slo = truth->latency_us_p99,
        .cpu_utilisation = ratio(truth->cpu_core_s, truth->cpu_limit_core_s),
        .memory_utilisation = ratio(truth->memory_gib_s, truth->memory_limit_gib_s),
        .allocated = {[AW_RESOURCE_CPU] = truth->cpu_limit_core_s / step_s,
                      [AW_RESOURCE_MEMORY] = truth->memory_limit_gib_s / step_s},
    };
    aw_objective_score(&self->objective, &outcome, step_s, &info->truth);
    info->lambda = self->episode.lambda;
    info->slo_us = self->objective.slo.latency_us_p99;
    info->app = self->episode.app;
    info->step = self->episode.step;
    info->replicas_ready = self->sample.replicas_ready;
    info->arrivals = truth->arrivals;
    info->completions = truth->completions;
    info->failures = truth->failures;
    info->latency_us_p50 = truth->latency_us_p50;
    info->core_s = truth->cpu_limit_core_s;
    info->gib_s = truth->memory_limit_gib_s;
    info->replica_s = truth->replica_s;
    info->oom_kills = truth->oom_kills;
    info->restarts = truth->restarts;
}

/* Puts the episode's application on the cluster. */
static enum aw_err place(struct autoscale *self, uint64_t seed, struct aw_plan *ret_start)
{
    const struct aw__pool_app *app = &self->pool[self->episode.app];
    const int64_t offset = self->episode.load_offset_us;
    double rate = app->load_factor * aw_load_mean(&self->load, offset, offset + self->begin_us);
    struct aw_plan start = {
        .set = AW_PLAN_COMMON,
        .replicas = aw__options_replicas(&self->options, 1e-3 * app->cpu_ms * rate),
        .cpu_millicores = self->options.start_cpu_millicores,
        .memory_bytes = app->memory_bytes,
    };
    struct aw_sim_workload workload = {
        .app = app->app,
        .load = &self->load,
        .replicas = start.replicas,
        .replicas_max = self->options.bounds.replicas_max,
        .cpu_millicores = start.cpu_millicores,
        .memory_bytes = start.memory_bytes,
    };
    /* replace, then reset: what an earlier episode left on the nodes is gone */
    enum aw_err err = aw_sim_replace(self->sim, WORKLOAD, &workload, offset);
    if (!err)
        err = aw_sim_reset(self->sim, seed);
    if (err)
        return err;
    disturb(self, -self->begin_us);
    self->objective.slo.latency_us_p99 = app->slo_us;
    self->objective.cost_reference_per_hour = app->cost_reference_per_hour;
    self->state.config.slo = self->objective.slo;
    *ret_start = start;
    return AW_OK;
}

static enum aw_err autoscale_reset(void *ctx, uint64_t seed, float *obs)
{
    struct autoscale *self = ctx;
    struct episode *episode = &self->episode;
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    const double lambda = episode->lambda;
    const uint32_t slot = self->settings.load_shift ? aw_rng_below(&rng, self->load.slot_count) : 0;
    memset(episode, 0, sizeof *episode);
    episode->seed = seed;
    episode->lambda = lambda;
    episode->app = aw_rng_below(&rng, self->options.app_count);
    episode->load_offset_us = slot * self->load.slot_us;
    aw_state_begin(&episode->state);
    aw_action_begin(&episode->action);

    struct aw_plan start;
    enum aw_err err = place(self, aw_rng_u64(&rng), &start);
    const uint32_t dim = aw_state_dim(self->settings.state);
    for (uint32_t i = 0; !err && i < self->settings.warmup_steps; i++) {
        if ((err = pass(self, &start)))
            break;
        if (i == 0) /* there is no past yet: the first state stands for it */
            for (uint32_t k = 0; k < self->settings.history; k++) {
                struct aw_state_memory fresh = episode->state;
                aw_state_encode(&self->state, &fresh, &episode->reading, &self->info.measured,
                                episode->past + (size_t)k * dim);
            }
        show(self, obs);
    }
    if (err)
        return err;
    episode->live = 1;
    memset(&self->info, 0, sizeof self->info);
    self->told = true;
    return AW_OK;
}

static enum aw_err advance(struct autoscale *self, const struct aw_plan *plan, float *obs,
                           struct aw_step *ret)
{
    struct episode *episode = &self->episode;
    enum aw_err err = pass(self, plan);
    if (err)
        return err;
    if (self->settings.model == AW_SIM_REFERENCE)
        self->record[episode->step] = (struct record){
            (uint32_t)plan->replicas, (uint32_t)plan->cpu_millicores, plan->memory_bytes};
    episode->step++;
    self->info.plan = *plan;
    self->told = false;
    show(self, obs);
    double reward = aw_objective_reward(&self->objective, &self->info.measured,
                                        self->settings.step_s, episode->lambda);
    *ret = (struct aw_step){.reward = (float)reward,
                            .truncated = episode->step >= self->settings.episode_steps};
    episode->live = !ret->truncated;
    return AW_OK;
}

static enum aw_err autoscale_step(void *ctx, const float *action, float *obs, struct aw_step *ret)
{
    struct autoscale *self = ctx;
    AW_ASSERT(self->episode.live);
    if (!aw_space_accepts(&self->spec.action, action))
        return AW_ERR_RANGE;
    struct aw_plan plan;
    aw_action_plan(&self->action, &self->episode.action, &self->episode.reading, action, &plan);
    return advance(self, &plan, obs, ret);
}

/* --- snapshots -------------------------------------------------------------------------------- */

static size_t more_bytes(const struct autoscale *self, const struct episode *episode)
{
    return self->settings.model == AW_SIM_REFERENCE ? episode->step * sizeof(struct record)
                                                    : aw_sim_state_bytes(self->sim);
}

static void autoscale_state_save(const void *ctx, void *bytes)
{
    const struct autoscale *self = ctx;
    unsigned char *at = bytes;
    const size_t more = more_bytes(self, &self->episode);
    struct snapshot snapshot;
    memset(&snapshot, 0, sizeof snapshot);
    snapshot.more_bytes = more;
    snapshot.episode = self->episode;
    memcpy(at, &snapshot, sizeof snapshot);
    at += sizeof snapshot;
    if (self->settings.model == AW_SIM_REFERENCE)
        memcpy(at, self->record, more);
    else
        aw_sim_state_save(self->sim, at);
    memset(at + more, 0, MORE_BYTES_MAX - more);
    aw_envelope_seal(&format, self->options_hash, bytes, SNAPSHOT_BYTES);
}

static bool episode_valid(const struct autoscale *self, const struct episode *e)
{
    return e->app < self->options.app_count && e->step <= self->settings.episode_steps &&
           e->live <= 1 && e->lambda >= AW_LAMBDA_MIN && e->lambda <= AW_LAMBDA_MAX &&
           e->load_offset_us >= 0 && e->action.next < self->settings.window;
}

/* The fast model: its block, after the application that it belongs to. */
static enum aw_err restore(struct autoscale *self, const struct episode *episode,
                           const unsigned char *more)
{
    struct aw_plan unused;
    self->episode = *episode;
    enum aw_err err = place(self, 0, &unused);
    return err ? err : aw_sim_state_load(self->sim, more);
}

/* The reference model: the same seed and the same plans give the same world. */
static enum aw_err replay(struct autoscale *self, const struct episode *episode,
                          const unsigned char *more)
{
    float obs[AW_STATE_DIM_MAX * (AW_STATE_HISTORY_MAX + 1)];
    struct aw_step step;
    if (!episode->live && episode->step == 0) { /* saved before the first reset */
        self->episode = *episode;
        return AW_OK;
    }
    enum aw_err err = autoscale_reset(self, episode->seed, obs);
    for (uint32_t i = 0; !err && i < episode->step; i++) {
        struct record record;
        memcpy(&record, more + i * sizeof record, sizeof record);
        struct aw_plan plan = {.set = AW_PLAN_COMMON,
                               .replicas = record.replicas,
                               .cpu_millicores = record.cpu_millicores,
                               .memory_bytes = record.memory_bytes};
        aw_bounds_clip(&self->options.bounds, &plan);
        err = advance(self, &plan, obs, &step);
    }
    self->episode.lambda = episode->lambda;
    return err;
}

static enum aw_err autoscale_state_load(void *ctx, const void *bytes)
{
    struct autoscale *self = ctx;
    struct snapshot snapshot;
    memcpy(&snapshot, bytes, sizeof snapshot);
    if (aw_envelope_open(&format, self->options_hash, bytes, SNAPSHOT_BYTES, NULL) ||
        !episode_valid(self, &snapshot.episode) ||
        snapshot.more_bytes != more_bytes(self, &snapshot.episode))
        return AW_ERR_FORMAT;
    const unsigned char *more = (const unsigned char *)bytes + sizeof snapshot;
    enum aw_err err = self->settings.model == AW_SIM_REFERENCE
                          ? replay(self, &snapshot.episode, more)
                          : restore(self, &snapshot.episode, more);
    memset(&self->info, 0, sizeof self->info);
    self->told = true;
    self->pods_shown = true; /* the sample is of another time than the pods */
    return err;
}

/* --- making one ------------------------------------------------------------------------------- */

static void autoscale_free(void *ctx)
{
    struct autoscale *self = ctx;
    if (!self)
        return;
    aw_sim_free(self->sim);
    aw_load_deinit(&self->load);
    aw__options_deinit(&self->options);
    aw_alloc_free(self->alloc, self);
}

static const struct aw_env_ops ops = {
    .reset = autoscale_reset,
    .step = autoscale_step,
    .state_save = autoscale_state_save,
    .state_load = autoscale_state_load,
    .free = autoscale_free,
};

static void carve(struct autoscale *self, const struct aw_autoscale_settings *settings,
                  const struct aw__options *options, struct aw_carve *block)
{
    const size_t dim = aw_state_dim(settings->state), past = settings->history * dim;
    struct autoscale parts;
    struct autoscale *to = self ? self : &parts;
    (void)aw_carve_take(block, 1, sizeof *self);
    to->axes = aw_carve_take(block, dim + past, sizeof *to->axes);
    to->names = aw_carve_take(block, past, NAME_BYTES);
    to->pool = aw_carve_take(block, options->app_count, sizeof *to->pool);
    if (settings->model == AW_SIM_REFERENCE)
        to->record = aw_carve_take(block, settings->episode_steps, sizeof *to->record);
}

/* "cpu_limit[-2]" */
static void axes_fill(struct autoscale *self)
{
    const uint32_t dim = aw_state_dim(self->settings.state);
    for (uint32_t k = 0; k <= self->settings.history; k++)
        for (uint32_t i = 0; i < dim; i++) {
            struct aw_space_axis *axis = &self->axes[k * dim + i];
            *axis = aw_state_axes[i];
            if (k == 0)
                continue;
            char *name = self->names + (size_t)((k - 1) * dim + i) * NAME_BYTES;
            snprintf(name, NAME_BYTES, "%s[-%u]", aw_state_axes[i].name, k);
            axis->name = name;
        }
}

static uint64_t options_hash(const struct aw_conf_field *fields,
                             const struct aw_autoscale_settings *settings)
{
    char text[AW_CONF_TEXT_MAX];
    uint64_t hash = AW_HASH_BEGIN;
    for (; fields->key; fields++) {
        aw_conf_get(fields, settings, text, sizeof text);
        hash = aw_hash_text(hash, text);
        hash = aw_hash_byte(hash, 0xff);
    }
    return hash;
}

static void spec_fill(struct autoscale *self, const struct aw_env_spec *base)
{
    double low, high;
    aw_objective_range(&self->objective, &low, &high);
    self->spec = *base;
    self->spec.observation = (struct aw_space){
        .kind = AW_SPACE_BOX,
        .dim = aw_state_dim(self->settings.state) * (1 + self->settings.history),
        .axes = self->axes,
    };
    self->spec.episode_steps_max = self->settings.episode_steps;
    self->spec.reward_low = (float)low;
    self->spec.reward_high = (float)high;
}

/* The translations, from the settings. The SLO is each application's own. */
static void parts_init(struct autoscale *self)
{
    const struct aw_autoscale_settings *s = &self->settings;
    self->step_us = (int64_t)(1e6 * s->step_s);
    self->stale_us = (int64_t)(1e6 * s->stale_s);
    self->begin_us = self->step_us * s->warmup_steps;
    self->objective = (struct aw_objective){
        .kind = s->objective,
        .slo_weight = s->slo_weight,
        .slo = {.throughput_per_s = s->slo_per_s,
                .timeout_us = 1e6 * self->options.sim.request_timeout_s},
        .prices = {.core_hour = s->price_core_hour, .gib_hour = s->price_gib_hour},
    };
    aw_state_init(&self->state, &(struct aw_state_config){
                                    .preset = s->state,
                                    .bounds = self->options.bounds,
                                    .disk_bytes_per_s_max = AW_MIB_REAL * s->disk_mib_per_s,
                                    .net_bytes_per_s_max = AW_MIB_REAL * s->net_mib_per_s,
                                });
    aw_action_init(&self->action, &(struct aw_action_config){
                                      .mapping = s->mapping,
                                      .bounds = self->options.bounds,
                                      .window = s->window,
                                      .oom_steps = s->oom_steps,
                                      .deadband = s->deadband,
                                      .guard = s->guard,
                                  });
}

static enum aw_err cluster_make(struct autoscale *self, struct aw_diag *diag)
{
    uint32_t index;
    enum aw_err err = aw_sim_new(&self->options.sim, 0, 1, self->alloc, &self->sim, diag);
    if (err)
        return err;
    self->cluster = aw_sim_cluster(self->sim);
    const struct aw_sim_workload workload = {
        .app = self->pool[0].app,
        .load = &self->load,
        .replicas = self->options.bounds.replicas_min,
        .replicas_max = self->options.bounds.replicas_max,
        .cpu_millicores = self->options.start_cpu_millicores,
        .memory_bytes = self->pool[0].memory_bytes,
    };
    if ((err = aw_sim_add(self->sim, &workload, &index, diag)))
        return err;
    struct episode longest = {.step = self->settings.episode_steps};
    if (more_bytes(self, &longest) > MORE_BYTES_MAX)
        return aw_fail(diag, AW_ERR_LIMIT,
                       "a snapshot of this cluster and %u steps needs %zu bytes, and %zu fit",
                       longest.step, more_bytes(self, &longest), MORE_BYTES_MAX);
    return AW_OK;
}

/* A copy of `load`, or without one what the settings say. */
static enum aw_err load_take(struct autoscale *self, const struct aw_load *load,
                             struct aw_diag *diag)
{
    if (!load)
        return aw__options_load(&self->settings, self->alloc, &self->load, diag);
    const enum aw_err err =
        aw_load_init(&self->load, load->name, load->slot_count, load->slot_us, self->alloc, diag);
    if (err)
        return err;
    const size_t bytes = load->slot_count * sizeof *load->rate_per_s;
    memcpy(self->load.rate_per_s, load->rate_per_s, bytes);
    /* so that a snapshot knows where it belongs */
    self->options_hash = aw_hash_bytes(self->options_hash, load->rate_per_s, bytes);
    return AW_OK;
}

static enum aw_err make(const struct aw_env_factory *factory,
                        const struct aw_autoscale_settings *settings, const struct aw_app *app,
                        const struct aw_load *load, const struct aw_alloc *alloc,
                        struct aw_env *ret_env, struct aw_diag *diag)
{
    struct aw__options options;
    struct autoscale *self = NULL;
    enum aw_err err = aw__options_read(settings, app, alloc, &options, diag);
    if (err)
        return err;
    struct aw_carve block = {0};
    carve(NULL, settings, &options, &block);
    if (!(self = aw_alloc_new(alloc, block.used, 1))) {
        aw__options_deinit(&options);
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %s", factory->spec->name);
    }
    block = (struct aw_carve){.base = (unsigned char *)self};
    carve(self, settings, &options, &block);
    self->alloc = alloc;
    self->settings = *settings;
    self->options = options;
    self->options_hash = options_hash(factory->fields, settings);
    if (app)
        self->options_hash ^= aw_app_hash(app);
    self->episode.lambda = settings->lambda;
    parts_init(self);
    axes_fill(self);
    spec_fill(self, factory->spec);
    if ((err = load_take(self, load, diag)))
        goto out;
    for (uint32_t i = 0; i < options.app_count; i++)
        if ((err = aw__options_app(settings, &options, &self->load, i, &self->pool[i], diag)))
            goto out;
    self->options.given = NULL;
    if ((err = cluster_make(self, diag)))
        goto out;
    *ret_env = (struct aw_env){&self->spec, &ops, self};
out:
    if (err)
        autoscale_free(self);
    return err;
}

static enum aw_err default_make_with(const void *settings, const struct aw_alloc *alloc,
                                     struct aw_env *ret_env, struct aw_diag *diag)
{
    return make(&aw__autoscale_factory, settings, NULL, NULL, alloc, ret_env, diag);
}

static enum aw_err default_make(const struct aw_alloc *alloc, struct aw_env *ret_env,
                                struct aw_diag *diag)
{
    struct aw_autoscale_settings settings;
    aw_conf_defaults(aw__autoscale_fields, &settings);
    return default_make_with(&settings, alloc, ret_env, diag);
}

static enum aw_err paper_make_with(const void *settings, const struct aw_alloc *alloc,
                                   struct aw_env *ret_env, struct aw_diag *diag)
{
    return make(&aw__autoscale_paper_factory, settings, NULL, NULL, alloc, ret_env, diag);
}

static enum aw_err paper_make(const struct aw_alloc *alloc, struct aw_env *ret_env,
                              struct aw_diag *diag)
{
    struct aw_autoscale_settings settings;
    aw_conf_defaults(aw__autoscale_paper_fields, &settings);
    return paper_make_with(&settings, alloc, ret_env, diag);
}

/* What spec_fill makes of the defaults; a test compares the two. */
static const struct aw_env_spec default_spec = {
    .name = "autoscale-v0",
    .summary = "Scale a workload: least cost within its SLO budget.",
    .observation = {AW_SPACE_BOX, AW_STATE_DEFAULT_DIM, 0, aw_state_axes},
    .action = {AW_SPACE_BOX, AW_ACTION_DIM, 0, aw_action_axes},
    .episode_steps_max = 100,
    .reward_low = (float)-(AW_COST_RATIO_MAX + AW_LAMBDA_MAX),
    .reward_high = 0,
    .solved_return = NAN,
    .state_bytes = SNAPSHOT_BYTES,
};
static const struct aw_env_spec paper_spec = {
    .name = "autoscale-paper-v0",
    .summary = "Scale a workload as in AWARE: its state, actions and reward.",
    .observation = {AW_SPACE_BOX, AW_STATE_PAPER_DIM, 0, aw_state_axes},
    .action = {AW_SPACE_BOX, AW_ACTION_DIM, 0, aw_action_axes},
    .episode_steps_max = 100,
    .reward_low = 0,
    .reward_high = AW_OBJECTIVE_RESOURCES,
    .solved_return = NAN,
    .state_bytes = SNAPSHOT_BYTES,
};

const struct aw_env_factory aw__autoscale_factory = {
    .spec = &default_spec,
    .make = default_make,
    .fields = aw__autoscale_fields,
    .settings_bytes = sizeof(struct aw_autoscale_settings),
    .make_with = default_make_with,
};
const struct aw_env_factory aw__autoscale_paper_factory = {
    .spec = &paper_spec,
    .make = paper_make,
    .fields = aw__autoscale_paper_fields,
    .settings_bytes = sizeof(struct aw_autoscale_settings),
    .make_with = paper_make_with,
};

/* --- what only this kind of environment has --------------------------------------------------- */

enum aw_err aw_autoscale_make(const char *name, const char *const *pairs, size_t pair_count,
                              const struct aw_app *app, const struct aw_load *load,
                              const struct aw_alloc *alloc, struct aw_env *ret_env,
                              struct aw_diag *diag)
{
    struct aw_autoscale_settings settings = {0};
    const struct aw_env_factory *factory = NULL;
    enum aw_err err = aw_env_find(name, &factory, diag);
    if (!err && factory != &aw__autoscale_factory && factory != &aw__autoscale_paper_factory)
        err = aw_fail(diag, AW_ERR_UNSUPPORTED, "%s is not an autoscaling environment", name);
    err = err ? err : aw_env_settings(factory, pairs, pair_count, &settings, diag);
    if (!err && app)
        snprintf(settings.app, sizeof settings.app, "%s", app->name);
    return err ? err : make(factory, &settings, app, load, alloc, ret_env, diag);
}

static struct autoscale *of(const struct aw_env *env)
{
    return env->ops == &ops ? env->self : NULL;
}

const struct aw_autoscale_info *aw_autoscale_info(const struct aw_env *env)
{
    struct autoscale *self = of(env);
    if (!self)
        return NULL;
    tell(self);
    return &self->info;
}

const struct aw_sample *aw_autoscale_sample(const struct aw_env *env)
{
    struct autoscale *self = of(env);
    if (!self)
        return NULL;
    if (!self->pods_shown)
        aw_sim_observe_pods(self->sim, WORKLOAD, &self->sample);
    self->pods_shown = true;
    return &self->sample;
}

const struct aw_bounds *aw_autoscale_bounds(const struct aw_env *env)
{
    const struct autoscale *self = of(env);
    return self ? &self->options.bounds : NULL;
}

const struct aw_autoscale_settings *aw_autoscale_settings(const struct aw_env *env)
{
    const struct autoscale *self = of(env);
    return self ? &self->settings : NULL;
}

enum aw_err aw_autoscale_set_lambda(const struct aw_env *env, double lambda)
{
    struct autoscale *self = of(env);
    if (!self)
        return AW_ERR_UNSUPPORTED;
    if (!isfinite(lambda))
        return AW_ERR_RANGE;
    tell(self); /* with the one it had */
    self->episode.lambda = fmin(fmax(lambda, AW_LAMBDA_MIN), AW_LAMBDA_MAX);
    return AW_OK;
}

enum aw_err aw_autoscale_step_plan(const struct aw_env *env, const struct aw_plan *plan, float *obs,
                                   struct aw_step *ret, float *ret_values)
{
    struct autoscale *self = of(env);
    if (!self)
        return AW_ERR_UNSUPPORTED;
    AW_ASSERT(self->episode.live);
    const struct aw_plan present = aw_plan_of(self->episode.reading.wanted);
    struct aw_plan full = aw_plan_over(plan, &present);
    aw_bounds_clip(&self->options.bounds, &full);
    if (ret_values)
        aw_action_from_plan(&self->action, &self->episode.action, &full, ret_values);
    return advance(self, &full, obs, ret);
}
