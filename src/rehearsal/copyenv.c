/* copyenv.c - binds a fitted copy, its cluster and the pilot's translations to the contract. */
#include "rehearsal/copyenv.h"

#include <math.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/envelope.h"
#include "base/rng.h"
#include "cluster/sim.h"

#define WORKLOAD     0u
#define MINUTE_US    INT64_C(60000000)
#define SETTLE_STEPS 4u /* at least, before an episode: its first state is measured */

/* What decides the future, beside the simulator. No padding: it is copied into snapshots. */
struct episode {
    struct aw_state_memory state;
    struct aw_action_memory action;
    struct aw_guard_memory guard;
    struct aw_reading reading; /* the latest */
    int64_t load_offset_us;
    double load_factor;
    uint32_t restarts; /* that came with the reading */
    uint32_t slo;      /* enum aw_guard_slo, likewise */
    uint32_t step;
    uint32_t live; /* reset, and not yet ended */
};

/* A snapshot: this, then the simulator's own state. */
struct snapshot {
    struct aw_envelope head; /* the owner is the copy: a state means nothing to another */
    struct episode episode;
};
AW_LAYOUT(layout, struct snapshot, 0, AW_ENVELOPE(head.), AW_STATE_MEMORY(episode.state.),
          AW_ACTION_MEMORY(episode.action.), AW_GUARD_MEMORY(episode.guard.),
          AW_READING(episode.reading.), episode.load_offset_us, episode.load_factor,
          episode.restarts, episode.slo, episode.step, episode.live);
static struct aw_format format = {
    .kind = "copy", .what = "a state of a copy", .version = 1, .layout = {layout, aw_sim_layout}};

struct copyenv {
    struct aw_env_spec spec;
    struct aw_copyenv_config config; /* record and load are not read after make */
    struct aw_state state;
    struct aw_action action;
    struct aw_space_axis axes[AW_ACTION_MAX];    /* of actions */
    struct aw_space_axis seen[AW_STATE_DIM_MAX]; /* those of the state */
    struct aw_step_rules rules;
    uint32_t settle_steps;
    uint32_t identity;

    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_sim_workload workload;
    struct aw_load load;

    struct episode episode;
    struct aw_score score; /* of the episode's reading */
    const struct aw_alloc *alloc;
};

/* --- an episode ------------------------------------------------------------------------------- */

/* Puts the copy on an empty cluster, at the episode's place of the past. */
static enum aw_err place(struct copyenv *self, uint64_t seed)
{
    enum aw_err err =
        aw_sim_replace(self->sim, WORKLOAD, &self->workload, self->episode.load_offset_us);
    err = err ? err : aw_sim_reset(self->sim, seed);
    if (err)
        return err;
    struct aw_sim_disturbance busier = aw_sim_undisturbed;
    busier.load_factor = self->episode.load_factor;
    aw_sim_disturb(self->sim, WORKLOAD, &busier);
    return AW_OK;
}

/* Takes in what there is to be seen now. */
static enum aw_err observe(struct copyenv *self)
{
    struct episode *episode = &self->episode;
    struct aw_sample sample;
    struct aw_sim_placed placed;
    const enum aw_err err = aw_sim_observe(self->sim, WORKLOAD, &sample, &placed);
    if (err)
        return err;
    aw_reading_take_placed(&sample, self->rules.stale_us, self->rules.objective.slo.quantile,
                           placed.cpu_millicores, placed.memory_bytes, &episode->reading);
    aw_step_score(&self->rules, &episode->reading, &self->score);
    episode->restarts = sample.restarts;
    episode->slo = aw_step_slo(&self->rules, &episode->reading, &self->score);
    aw_action_observe(&self->action, &episode->action, &episode->reading);
    return AW_OK;
}

/* Asks for `wanted`, lets a step pass and looks again. */
static enum aw_err pass(struct copyenv *self, const struct aw_plan *wanted)
{
    struct episode *episode = &self->episode;
    struct aw_plan ours = *wanted;
    ours.set &= self->config.controlled;
    const struct aw_guard_input input = aw_step_input(
        &self->rules, &episode->reading, (enum aw_guard_slo)episode->slo, episode->restarts);
    struct aw_guard_result rails;
    enum aw_err err = aw_step_act(&self->rules, self->config.guarded ? &episode->guard : NULL,
                                  &self->cluster, WORKLOAD, &input, &ours, &rails);
    err = err ? err : aw_step_advance(&self->rules, &self->cluster);
    return err ? err : observe(self);
}

static enum aw_err copyenv_reset(void *ctx, uint64_t seed, float *obs)
{
    struct copyenv *self = ctx;
    struct episode *episode = &self->episode;
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    memset(episode, 0, sizeof *episode);
    episode->load_offset_us = aw_rng_below(&rng, self->config.minutes) * MINUTE_US;
    episode->load_factor = 1 + aw_rng_double(&rng) * (self->config.busier - 1);
    aw_state_begin(&episode->state);
    aw_action_begin(&episode->action);
    aw_guard_begin(&episode->guard);
    const struct aw_plan stay = {0};
    enum aw_err err = place(self, aw_rng_u64(&rng));
    err = err ? err : aw_step_advance(&self->rules, &self->cluster);
    err = err ? err : observe(self);
    if (!err)
        aw_state_encode(&self->state, &episode->state, &episode->reading, &self->score, obs);
    for (uint32_t i = 0; !err && i < self->settle_steps; i++) {
        err = pass(self, &stay);
        if (!err)
            aw_state_encode(&self->state, &episode->state, &episode->reading, &self->score, obs);
    }
    if (err)
        return err;
    episode->live = 1;
    return AW_OK;
}

static enum aw_err copyenv_step(void *ctx, const float *action, float *obs, struct aw_step *ret)
{
    struct copyenv *self = ctx;
    struct episode *episode = &self->episode;
    AW_ASSERT(episode->live);
    if (!aw_space_accepts(&self->spec.action, action))
        return AW_ERR_RANGE;
    struct aw_plan plan;
    aw_action_plan(&self->action, &episode->action, &episode->reading, action, &plan);
    const enum aw_err err = pass(self, &plan);
    if (err)
        return err;
    aw_state_encode(&self->state, &episode->state, &episode->reading, &self->score, obs);
    episode->step++;
    episode->live = episode->step < self->config.episode_steps;
    *ret = (struct aw_step){
        .reward = (float)aw_objective_reward(&self->rules.objective, &self->score,
                                             self->config.step_s, self->config.lambda),
        .truncated = !episode->live,
    };
    return AW_OK;
}

/* --- snapshots -------------------------------------------------------------------------------- */

static void copyenv_state_save(const void *ctx, void *bytes)
{
    const struct copyenv *self = ctx;
    memcpy(bytes, &(struct snapshot){.episode = self->episode}, sizeof(struct snapshot));
    aw_sim_state_save(self->sim, (unsigned char *)bytes + sizeof(struct snapshot));
    aw_envelope_seal(&format, self->identity, bytes, self->spec.state_bytes);
}

static enum aw_err copyenv_state_load(void *ctx, const void *bytes)
{
    struct copyenv *self = ctx;
    struct snapshot snapshot;
    memcpy(&snapshot, bytes, sizeof snapshot);
    const struct episode *e = &snapshot.episode;
    if (aw_envelope_open(&format, self->identity, bytes, self->spec.state_bytes, NULL) ||
        e->step > self->config.episode_steps || e->live > 1 || e->load_offset_us < 0 ||
        !(e->load_factor >= 1 && e->load_factor <= self->config.busier) ||
        e->action.next >= self->action.config.window)
        return AW_ERR_FORMAT;
    self->episode = *e;
    const enum aw_err err = place(self, 0);
    return err ? err : aw_sim_state_load(self->sim, (const unsigned char *)bytes + sizeof snapshot);
}

/* --- making one ------------------------------------------------------------------------------- */

static void copyenv_free(void *ctx)
{
    struct copyenv *self = ctx;
    if (!self)
        return;
    aw_sim_free(self->sim);
    aw_load_deinit(&self->load);
    aw_alloc_free(self->alloc, self);
}

static const struct aw_env_ops ops = {
    .reset = copyenv_reset,
    .step = copyenv_step,
    .state_save = copyenv_state_save,
    .state_load = copyenv_state_load,
    .free = copyenv_free,
};

static void spec_fill(struct copyenv *self)
{
    const struct aw_copyenv_config *config = &self->config;
    const bool paper = config->objective.kind == AW_OBJECTIVE_PAPER;
    double low, high;
    aw_objective_range(&self->rules.objective, &low, &high);
    for (uint32_t i = 0; i < self->action.dim; i++)
        self->axes[i] = aw_action_axis(self->action.more, i);
    for (uint32_t i = 0; i < self->state.dim; i++)
        self->seen[i] = *aw_state_axis(self->state.dim, self->state.more, i);
    self->spec = (struct aw_env_spec){
        .name = "copy",
        .summary = "a workload's fitted copy under its past load, behind its guard rails",
        .observation = {.kind = AW_SPACE_BOX, .dim = self->state.dim, .axes = self->seen},
        .action = {.kind = AW_SPACE_BOX, .dim = self->action.dim, .axes = self->axes},
        .episode_steps_max = config->episode_steps,
        .reward_low = (float)(paper ? low : -(AW_COST_RATIO_MAX + config->lambda)),
        .reward_high = (float)high,
        .solved_return = NAN,
        .state_bytes = (uint32_t)(sizeof(struct snapshot) + aw_sim_state_bytes(self->sim)),
    };
}

/* The translations, as the workload has them but for an SLO that is as strict for the copy. */
static enum aw_err parts_init(struct copyenv *self, const struct aw_copy_fit *fit,
                              struct aw_diag *diag)
{
    const struct aw_copyenv_config *config = &self->config;
    self->settle_steps = SETTLE_STEPS;
    if (config->guarded)
        self->settle_steps += (uint32_t)ceil(config->guard.peak_window / config->step_s);
    self->rules = (struct aw_step_rules){.objective = config->objective,
                                         .node = config->node,
                                         .controlled = config->controlled,
                                         .in_place = config->in_place};
    aw_step_times(&self->rules, config->step_s, config->stale_s);
    self->rules.objective.slo.latency_us_p99 *= exp(-fit->bias);
    struct aw_state_config state = config->state;
    state.slo = self->rules.objective.slo;
    aw_state_init(&self->state, &state);
    aw_action_init(&self->action, &config->action);
    struct aw_guard_settings rails = config->guard;
    rails.mode = AW_GUARD_AUTO;
    if (config->guarded)
        return aw_guard_init(&self->rules.guard, &rails, &config->action.bounds, diag);
    return AW_OK;
}

static enum aw_err world_init(struct copyenv *self, const struct aw_copy_fit *fit,
                              struct aw_diag *diag)
{
    const struct aw_copyenv_config *config = &self->config;
    struct aw_plan start = config->start;
    aw_bounds_clip(&config->action.bounds, &start);
    enum aw_err err =
        aw_load_init(&self->load, "past", config->minutes, MINUTE_US, self->alloc, diag);
    if (err)
        return err;
    memcpy(self->load.rate_per_s, config->load_per_s, config->minutes * sizeof(float));
    self->workload = (struct aw_sim_workload){
        .app = fit->app,
        .load = &self->load,
        .replicas = start.replicas,
        .replicas_max = config->action.bounds.replicas_max,
        .cpu_millicores = start.cpu_millicores,
        .memory_bytes = start.memory_bytes,
    };
    struct aw_sim_settings sim;
    aw_conf_defaults(aw_sim_fields, &sim);
    sim.in_place = config->in_place;
    if ((err = aw_sim_new(&sim, config->seed, 1, self->alloc, &self->sim, diag)))
        return err;
    uint32_t workload;
    err = aw_sim_add(self->sim, &self->workload, &workload, diag);
    self->cluster = aw_sim_cluster(self->sim);
    return err;
}

static uint32_t identity_of(const struct copyenv *self, const struct aw_copy_fit *fit)
{
    const double figures[] = {fit->bias,
                              fit->error,
                              fit->capacity_per_core,
                              self->config.lambda,
                              self->config.busier,
                              self->config.step_s,
                              self->rules.objective.slo.latency_us_p99,
                              self->rules.objective.cost_reference_per_hour};
    const uint32_t crc = aw_crc32c(0, figures, sizeof figures);
    return aw_crc32c(crc, self->load.rate_per_s, self->config.minutes * sizeof(float));
}

static enum aw_err check(const struct aw_copyenv_config *config, struct aw_diag *diag)
{
    AW_ASSERT(config->step_s > 0 && config->objective.cost_reference_per_hour > 0);
    AW_ASSERT(config->busier >= 1 && config->lambda >= 0 && config->lambda <= AW_LAMBDA_MAX);
    if (config->minutes < AW_COPYENV_MINUTES_MIN)
        return aw_fail(diag, AW_ERR_NODATA, "%u minutes of load, at least %u are needed",
                       config->minutes, AW_COPYENV_MINUTES_MIN);
    if (config->minutes > AW_COPYENV_MINUTES_MAX || config->episode_steps == 0 ||
        config->episode_steps > AW_COPYENV_STEPS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "no episodes of %u steps under %u minutes of load",
                       config->episode_steps, config->minutes);
    return AW_OK;
}

enum aw_err aw_copyenv_make(const struct aw_copyenv_config *config, const struct aw_alloc *alloc,
                            struct aw_env *ret_env, struct aw_diag *diag)
{
    struct aw_copy_fit fit;
    enum aw_err err = check(config, diag);
    if (err)
        return err;
    if ((err = aw_copy_fit(config->record, config->objective.slo.quantile, config->seed, &fit)))
        return aw_fail(diag, err, "too little was seen of the workload to make a copy of it");
    if (fit.error > config->error_max)
        return aw_fail(diag, AW_ERR_NODATA, "no copy answers as the workload does: error %.2f",
                       fit.error);
    struct copyenv *self = aw_alloc_new(alloc, 1, sizeof *self);
    if (!self)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a copy");
    self->config = *config;
    self->alloc = alloc;
    err = parts_init(self, &fit, diag);
    err = err ? err : world_init(self, &fit, diag);
    if (err)
        goto out;
    self->config.record = NULL;
    self->config.load_per_s = NULL;
    self->episode.load_factor = 1;
    self->identity = identity_of(self, &fit);
    spec_fill(self);
    if (self->spec.state_bytes > AW_ENV_STATE_BYTES_MAX) {
        err = aw_fail(diag, AW_ERR_LIMIT, "a copy of %u replicas has too large a state",
                      (unsigned)config->action.bounds.replicas_max);
        goto out;
    }
    *ret_env = (struct aw_env){&self->spec, &ops, self};
    return AW_OK;
out:
    copyenv_free(self);
    return err;
}

const struct aw_score *aw_copyenv_score(const struct aw_env *env)
{
    AW_ASSERT(env->ops == &ops);
    const struct copyenv *self = env->self;
    return &self->score;
}
