/*
 * pilot.c - one workload's mind: how it is made, looked into, saved. What it does in a tick is in
 * pilot_tick.c, how it learns in pilot_learn.c.
 */
#include "base/units.h"
#include "control/pilot_internal.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "control/pilot.h"

/* Violations that a window may have beyond the budget: what the trims mend within minutes need not
 * be mended by another hand-over. */
#define SLACK 7

/* --- made and ended --------------------------------------------------------------------------- */

void aw_pilot_config_init(struct aw_pilot_config *config)
{
    memset(config, 0, sizeof *config);
    for (const struct aw_conf_part *part = aw_pilot_fields; part->key; part++)
        aw_conf_defaults(part->fields, (char *)config + part->offset);
    config->controlled = AW_PLAN_ALL;
    config->watchdog.slack = SLACK;
    config->fallback.kind = AW_FALLBACK_HPA_VPA_MEM;
    config->guard.mode = AW_GUARD_AUTO;
}

/* Without bootstrapping a policy acts from the first tick on that has learned nothing: numbers, or
 * weights, drawn from the seed. */
static enum aw_err begin_untrained(struct aw_pilot *pilot)
{
    struct aw_rng rng;
    aw_rng_init(&rng, pilot->config.seed, AW__PILOT_UNTRAINED_STREAM);
    return pilot->policy.ops->draw(pilot->policy.self, &rng);
}

static const struct aw_policy_ops *kind_of(const struct aw_pilot_config *config)
{
    return config->policy ? config->policy : aw_policy_ops_of(config->agent);
}

static const struct aw_teacher_ops *teacher_of(const struct aw_pilot_config *config)
{
    if (!config->policy)
        return aw_teacher_ops_of(config->agent);
    return config->teacher ? config->teacher : &aw_no_teacher;
}

bool aw_pilot_wants_model(const struct aw_pilot_config *config)
{
    return config->learning && !kind_of(config)->elsewhere;
}

enum aw_err aw_pilot_model_fits(const struct aw_pilot_config *config,
                                const struct aw_pretrained *model, struct aw_diag *diag)
{
    const uint32_t more = aw_action_more(&config->bounds);
    if (more)
        return aw_fail(diag, AW_ERR_CONFIG, "the model has no number for %s, which is bounded",
                       aw_resource_table[__builtin_ctz(more)].noun);
    return aw_pretrained_fits(model, config->state, config->mapping,
                              teacher_of(config)->same_shape ? config->learner.hidden : 0, diag);
}

enum aw_err aw_pilot_model_take(struct aw_pilot_config *config, struct aw_model_shelf *shelf,
                                const char *what, struct aw_diag *diag)
{
    config->model = NULL;
    config->library = NULL;
    config->peers = NULL;
    if (!aw_pilot_wants_model(config))
        return AW_OK;
    if (teacher_of(config)->shares) {
        /* the networks correct a rule of the library, and without one the plain rule */
        if (strcmp(what, AW_MODEL_SHELF_NONE) != 0 &&
            aw_model_shelf_library(shelf, AW_MODEL_SHELF_SHIPPED, &config->library, NULL))
            config->library = NULL;
        return aw_model_shelf_peers(shelf, what, &config->peers, diag);
    }
    if (teacher_of(config)->least_cost)
        return aw_model_shelf_library(shelf, what, &config->library, diag);
    enum aw_err err = aw_model_shelf_get(shelf, what, &config->model, diag);
    if (!err && config->model && (err = aw_pilot_model_fits(config, config->model, diag)))
        config->model = NULL;
    return err;
}

uint32_t aw__pilot_pods_room(struct aw_pilot *pilot, uint32_t count)
{
    struct aw_pilot_pods *among = pilot->among;
    count = count < pilot->pods_max ? count : pilot->pods_max;
    if (!among)
        return count;
    count = count < among->max - among->used ? count : among->max - among->used;
    pilot->pods = among->pod + among->used;
    among->used += count;
    return count;
}

uint32_t aw_pilot_pods_max(const struct aw_pilot_config *config)
{
    /* a rollout may have as many again beside those that it replaces */
    return config->bounds.replicas_max < AW_CLUSTER_PODS_MAX / 2 ? 2 * config->bounds.replicas_max
                                                                 : AW_CLUSTER_PODS_MAX;
}

enum aw_err aw_pilot_new(const struct aw_pilot_config *config, const struct aw_fallback_task *task,
                         int64_t now_us, const struct aw_alloc *alloc, struct aw_pilot **ret_pilot,
                         struct aw_diag *diag)
{
    return aw_pilot_new_among(config, task, now_us, NULL, alloc, ret_pilot, diag);
}

enum aw_err aw_pilot_new_among(const struct aw_pilot_config *config,
                               const struct aw_fallback_task *task, int64_t now_us,
                               struct aw_pilot_pods *among, const struct aw_alloc *alloc,
                               struct aw_pilot **ret_pilot, struct aw_diag *diag)
{
    if (config->learning && config->objective == AW_OBJECTIVE_PAPER &&
        teacher_of(config)->least_cost)
        return aw_fail_at(diag, AW_ERR_CONFIG, NULL, 0, 0, "learning.agent",
                          "workload %s: the agent \"%s\" seeks the least cost; the objective "
                          "\"paper\" needs the agent \"network\"",
                          config->name, config->policy ? "other" : aw_policy_names[config->agent]);
    struct aw_pilot *pilot = aw_alloc_new(alloc, 1, sizeof *pilot);
    if (!pilot)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for workload %s", config->name);
    pilot->learned = (struct aw_learned){
        .copy_error = NAN, .value = NAN, .critic_loss = NAN, .imitation_loss = NAN};
    pilot->config = *config;
    pilot->teacher = teacher_of(config);
    pilot->alloc = alloc;
    if (config->model &&
        (!aw_pilot_wants_model(config) || aw_pilot_model_fits(config, config->model, NULL)))
        pilot->config.model = NULL;
    aw_state_init(&pilot->state,
                  &(struct aw_state_config){.preset = config->state,
                                            .bounds = config->bounds,
                                            .slo = config->slo,
                                            .disk_bytes_per_s_max = 200 * AW_MIB_REAL,
                                            .net_bytes_per_s_max = 125 * AW_MIB_REAL});
    pilot->obs_dim = pilot->state.dim;
    aw_action_init(&pilot->action, &(struct aw_action_config){.mapping = config->mapping,
                                                              .bounds = config->bounds,
                                                              .window = 20,
                                                              .oom_steps = 100,
                                                              .deadband = config->guard.deadband,
                                                              .guard = true});
    pilot->rules = (struct aw_step_rules){.objective = {.kind = config->objective,
                                                        .slo_weight = config->slo_weight,
                                                        .slo = config->slo,
                                                        .prices = config->prices,
                                                        .cost_reference_per_hour = 1},
                                          .node = config->node,
                                          .controlled = config->controlled,
                                          .in_place = config->in_place};
    aw_step_times(&pilot->rules, config->step_s, config->stale_s);
    pilot->task = *task;
    pilot->task.slo_quantile = config->slo.quantile;
    pilot->config.watchdog.slo_budget = config->slo_budget;
    pilot->config.watchdog.stale = config->stale_s;
    enum aw_err err = aw_guard_init(&pilot->rules.guard, &config->guard, &config->bounds, diag);
    err = err ? err
              : aw_lifecycle_init(&pilot->lifecycle, &config->lifecycle, &config->thresholds, diag);
    err =
        err ? err : aw_fallback_new(&config->fallback, &pilot->task, alloc, &pilot->fallback, diag);
    pilot->pods_max = aw_pilot_pods_max(config);
    pilot->among = among;
    if (!err && !among &&
        !(pilot->pods = aw_alloc_new(alloc, pilot->pods_max, sizeof *pilot->pods)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for workload %s", config->name);
    /* rules of a library set sizes, too; who may not set them begins at nothing */
    const bool whole = (config->controlled & AW_PLAN_COMMON) == AW_PLAN_COMMON;
    pilot->policy_task = (struct aw_policy_task){
        .need = {config->bounds, config->slo_budget, config->slo.latency_us_p99},
        .action = &pilot->action,
        .state = config->state,
        .obs_dim = pilot->obs_dim,
        .hidden = config->learner.hidden,
        .strange = config->watchdog.strange,
        .now_us = now_us,
        .slo = config->slo,
        .prices = config->prices,
        .step_s = config->step_s,
        .library = whole ? config->library : NULL,
        .unknown = config->unknown,
        .peers = config->peers};
    if (!err &&
        (aw_policy_new(kind_of(config), &pilot->policy_task, alloc, &pilot->policy) ||
         (pilot->policy.ops->elsewhere &&
          !(pilot->peek = aw_alloc_new(alloc, aw_fallback_state_bytes(pilot->fallback), 1)))))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for the policy of workload %s", config->name);
    if (err) {
        aw_pilot_free(pilot);
        return err;
    }
    struct aw__pilot_memory *memory = &pilot->memory;
    aw_canary_begin(&memory->canary);
    aw_relief_begin(&memory->relief);
    aw_copy_begin(&memory->record);
    memory->next_rows = AW__PILOT_SEARCH_ROWS;
    aw_state_begin(&memory->state);
    aw_action_begin(&memory->action);
    aw_guard_begin(&memory->guard);
    aw_watchdog_begin(&memory->watchdog, now_us);
    aw_lifecycle_begin(&pilot->lifecycle, &memory->lifecycle, &memory->stay);
    pilot->moved = true;
    memory->lambda = config->lambda;
    memory->violation_share = memory->extra_cost = NAN;
    memory->better_mean = memory->better_low = memory->better_high = NAN;
    memcpy(memory->reading.wanted, task->amount, sizeof task->amount);
    if (config->learning && !config->lifecycle.bootstrap && (err = begin_untrained(pilot))) {
        aw_pilot_free(pilot);
        return aw_fail(diag, err, "no first policy for workload %s", config->name);
    }
    *ret_pilot = pilot;
    return AW_OK;
}

void aw_pilot_free(struct aw_pilot *pilot)
{
    if (!pilot)
        return;
    aw_learner_free(pilot->learner);
    aw_policy_free(&pilot->policy);
    aw_policy_free(&pilot->trial);
    aw_alloc_free(pilot->alloc, pilot->peek);
    aw_fallback_free(pilot->fallback);
    if (!pilot->among)
        aw_alloc_free(pilot->alloc, pilot->pods);
    aw_alloc_free(pilot->alloc, pilot);
}

/* --- another config ---------------------------------------------------------------------------
 */

static bool same_question(const struct aw_pilot_config *a, const struct aw_pilot_config *b)
{
    return aw_conf_same(aw_pilot_fields->fields, AW_PILOT_ASKS, a, b) &&
           a->lifecycle.bootstrap == b->lifecycle.bootstrap;
}

bool aw__pilot_same_question(const struct aw_pilot *old, const struct aw_pilot *pilot)
{
    return old->policy.ops == pilot->policy.ops && same_question(&old->config, &pilot->config) &&
           old->policy.ops->fits(pilot->policy.self, old->policy.self);
}

enum aw_err aw__pilot_copy_policy(const struct aw_pilot *pilot, const struct aw_policy *from,
                                  const struct aw_policy *to)
{
    void *bytes = aw_alloc_new(pilot->alloc, from->ops->state_bytes(from->self), 1);
    if (!bytes)
        return AW_ERR_NOMEM;
    from->ops->save(from->self, bytes);
    const enum aw_err err = to->ops->load(to->self, bytes);
    aw_alloc_free(pilot->alloc, bytes);
    return err;
}

/* The policies, where they are of one kind and shape. One that has learned nothing hands over what
 * it has seen. */
static enum aw_err hand_policy(const struct aw_pilot *old, struct aw_pilot *pilot, bool *ret_same)
{
    const struct aw_policy_ops *ops = pilot->policy.ops;
    *ret_same = old->policy.ops == ops && ops->fits(pilot->policy.self, old->policy.self);
    if (!*ret_same)
        return AW_OK;
    enum aw_err err = AW_OK;
    if (ops->learned(old->policy.self))
        err = aw__pilot_copy_policy(pilot, &old->policy, &pilot->policy);
    else
        ops->follow(pilot->policy.self, old->policy.self);
    if (err || !old->trial.self)
        return err;
    err = aw_policy_new(ops, &pilot->policy_task, pilot->alloc, &pilot->trial);
    return err ? err : aw__pilot_copy_policy(pilot, &old->trial, &pilot->trial);
}

/* The scores that stages were decided by say nothing of the new question; the policy is sought
 * again as soon as an episode has ended. */
void aw__pilot_ask_anew(struct aw_pilot *pilot)
{
    struct aw__pilot_memory *memory = &pilot->memory;
    aw_lifecycle_begin(&pilot->lifecycle, &memory->lifecycle, &memory->stay);
    aw_canary_begin(&memory->canary);
    aw__pilot_canary_tidy(pilot);
    aw_watchdog_begin(&memory->watchdog, memory->reading.at_us);
    memory->lambda = pilot->config.lambda;
    memory->violation_share = NAN;
    memory->better_mean = memory->better_low = memory->better_high = NAN;
    memory->gain_sum = memory->cost_sum = memory->need_sum = 0;
    memory->loaded = memory->missed = 0;
    memory->step_count = memory->violation_count = memory->agent_steps = 0;
    memory->episode += memory->step > 0;
    memory->step = 0;
    memory->learn_from = memory->episode;
    memory->learn_due = 0;
    memory->next_rows = memory->rows < AW__PILOT_SEARCH_ROWS ? AW__PILOT_SEARCH_ROWS : memory->rows;
    aw_state_begin(&memory->state);
    pilot->moved = true;
}

enum aw_err aw_pilot_new_after(const struct aw_pilot *old, const struct aw_pilot_config *config,
                               struct aw_pilot **ret_pilot, struct aw_diag *diag)
{
    if (strcmp(old->config.name, config->name) != 0)
        return aw_fail(diag, AW_ERR_CONFIG, "workload %s is not %s: a name does not change",
                       old->config.name, config->name);
    const struct aw_reading *reading = &old->memory.reading;
    struct aw_plan stands = aw_plan_of(reading->wanted);
    aw_bounds_clip(&config->bounds, &stands);
    struct aw_fallback_task task = {.bounds = config->bounds,
                                    .slo_latency_us = config->slo.latency_us_p99};
    memcpy(task.amount, stands.amount, sizeof stands.amount);
    struct aw_pilot *pilot = NULL;
    enum aw_err err =
        aw_pilot_new_among(config, &task, reading->at_us, old->among, old->alloc, &pilot, diag);
    if (err)
        return err;
    bool same_policy = true;
    aw_fallback_follow(pilot->fallback, old->fallback);
    err = hand_policy(old, pilot, &same_policy);
    if (err) {
        aw_pilot_free(pilot);
        return aw_fail(diag, err, "no memory for workload %s", config->name);
    }
    const bool same = same_policy && same_question(&old->config, config);
    pilot->memory = old->memory;
    pilot->memory.in_flight = 0; /* begun under other bounds */
    if (!same_policy)
        pilot->memory.origin = (struct aw_policy_origin){0};
    pilot->decision = old->decision;
    pilot->moved = old->moved;
    pilot->canary_moved = old->canary_moved;
    if (!same)
        aw__pilot_ask_anew(pilot);
    if (old->config.slo.quantile != config->slo.quantile) /* of another latency than is asked for */
        aw_copy_begin(&pilot->memory.record);
    *ret_pilot = pilot;
    return AW_OK;
}

/* --- what both other files use -----------------------------------------------------------------
 */

double aw__pilot_gain(const struct aw_pilot *pilot, double cost, double paper_reward)
{
    if (pilot->config.objective == AW_OBJECTIVE_PAPER)
        return paper_reward;
    const double reference = pilot->memory.cost_reference_per_hour * pilot->config.step_s / 3600;
    return -fmin(AW_COST_RATIO_MAX, cost / reference);
}

double aw__pilot_weight(const struct aw_pilot *pilot, double lambda)
{
    return pilot->config.objective == AW_OBJECTIVE_PAPER ? 0 : lambda;
}

void aw_pilot_limits(const struct aw_pilot *pilot, int64_t now_us, struct aw_limits *ret)
{
    aw_limits_of(&pilot->rules.guard, &pilot->memory.guard, &pilot->config.watchdog,
                 &pilot->memory.watchdog, now_us, ret);
}

/* --- looking in ------------------------------------------------------------------------------- */

const struct aw_pilot_config *aw_pilot_config(const struct aw_pilot *pilot)
{
    return &pilot->config;
}

const struct aw_decision *aw_pilot_decision(const struct aw_pilot *pilot)
{
    return &pilot->decision;
}

const struct aw_sample *aw_pilot_sample(const struct aw_pilot *pilot)
{
    return &pilot->sample;
}

enum aw_stage aw_pilot_stage(const struct aw_pilot *pilot)
{
    return (enum aw_stage)pilot->memory.lifecycle.stage;
}

size_t aw_pilot_bytes(const struct aw_pilot *pilot, bool learning)
{
    size_t bytes = sizeof *pilot + aw_fallback_bytes(pilot->fallback);
    bytes += pilot->policy.ops->bytes(pilot->policy.self);
    bytes += pilot->trial.self ? pilot->trial.ops->bytes(pilot->trial.self) : 0;
    bytes += pilot->peek ? aw_fallback_state_bytes(pilot->fallback) : 0;
    bytes += pilot->among ? 0 : pilot->pods_max * sizeof *pilot->pods;
    if (learning && pilot->learner)
        bytes += aw_learner_bytes(pilot->learner);
    return bytes;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static struct aw_format format = {
    .kind = "pilot", .what = "the state of a workload", .version = 1, .layout = {aw_pilot_layout}};

/* A policy that is tried has its place whether there is one or not: states have one length. */
static size_t policy_bytes(const struct aw_pilot *pilot)
{
    const struct aw_policy_ops *ops = pilot->policy.ops;
    return (ops->elsewhere ? 1 : 2) * ops->state_bytes(pilot->policy.self);
}

size_t aw_pilot_state_bytes(const struct aw_pilot *pilot)
{
    return sizeof(struct aw_envelope) + sizeof pilot->memory +
           aw_fallback_state_bytes(pilot->fallback) + policy_bytes(pilot);
}

static void save_policy(const struct aw_pilot *pilot, unsigned char *to)
{
    const struct aw_policy_ops *ops = pilot->policy.ops;
    const size_t bytes = ops->state_bytes(pilot->policy.self);
    ops->save(pilot->policy.self, to);
    if (pilot->trial.self)
        ops->save(pilot->trial.self, to + bytes);
    else
        memset(to + bytes, 0, policy_bytes(pilot) - bytes);
}

void aw_pilot_state_save(const struct aw_pilot *pilot, void *bytes)
{
    unsigned char *to = (unsigned char *)bytes + sizeof(struct aw_envelope);
    memcpy(to, &pilot->memory, sizeof pilot->memory);
    to += sizeof pilot->memory;
    aw_fallback_state_save(pilot->fallback, to);
    to += aw_fallback_state_bytes(pilot->fallback);
    save_policy(pilot, to);
    aw_envelope_seal(&format, pilot->config.agent, bytes, aw_pilot_state_bytes(pilot));
}

/* `memory` and `from` as they were saved. */
static enum aw_err load_policy(struct aw_pilot *pilot, const unsigned char *memory,
                               const unsigned char *from)
{
    const struct aw_policy_ops *ops = pilot->policy.ops;
    struct aw_canary_memory canary;
    memcpy(&canary, memory + offsetof(struct aw__pilot_memory, canary), sizeof canary);
    aw_policy_free(&pilot->trial);
    enum aw_err err = ops->load(pilot->policy.self, from);
    if (err || !aw_canary_busy(&canary))
        return err;
    if (ops->elsewhere) /* nothing of it is ever on trial */
        return AW_ERR_FORMAT;
    err = aw_policy_new(ops, &pilot->policy_task, pilot->alloc, &pilot->trial);
    return err ? err : ops->load(pilot->trial.self, from + ops->state_bytes(pilot->policy.self));
}

enum aw_err aw_pilot_state_load(struct aw_pilot *pilot, const void *bytes)
{
    const unsigned char *memory = (const unsigned char *)bytes + sizeof(struct aw_envelope);
    const unsigned char *from = memory + sizeof pilot->memory;
    enum aw_err err =
        aw_envelope_open(&format, pilot->config.agent, bytes, aw_pilot_state_bytes(pilot), NULL);
    err = err ? err : aw_fallback_state_load(pilot->fallback, from);
    err = err ? err : load_policy(pilot, memory, from + aw_fallback_state_bytes(pilot->fallback));
    if (err)
        return err;
    memcpy(&pilot->memory, memory, sizeof pilot->memory);
    pilot->moved = pilot->canary_moved = false;
    memset(&pilot->decision, 0, sizeof pilot->decision);
    aw_learner_free(pilot->learner); /* it is filled from the store when it is needed */
    pilot->learner = NULL;
    return AW_OK;
}

size_t aw_pilot_fallback_bytes(const struct aw_pilot *pilot)
{
    return aw_fallback_state_bytes(pilot->fallback);
}

void aw_pilot_fallback_save(const struct aw_pilot *pilot, void *bytes)
{
    aw_fallback_state_save(pilot->fallback, bytes);
}

enum aw_err aw_pilot_fallback_load(struct aw_pilot *pilot, const void *bytes)
{
    return aw_fallback_state_load(pilot->fallback, bytes);
}

/* --- a moment ---------------------------------------------------------------------------------
 */

static struct aw_format moment_format = {.kind = "moment",
                                         .what = "a moment of a workload",
                                         .version = 1,
                                         .layout = {aw__pilot_seen_layout}};

size_t aw_pilot_snapshot_bytes_max(const struct aw_pilot *pilot)
{
    return sizeof(struct aw__pilot_seen) + sizeof pilot->sample +
           pilot->pods_max * sizeof *pilot->pods + aw_pilot_state_bytes(pilot);
}

size_t aw_pilot_snapshot_save(const struct aw_pilot *pilot, void *bytes)
{
    unsigned char *to = bytes;
    struct aw_sample sample = pilot->sample;
    const size_t pods = sample.pod_count * sizeof *pilot->pods;
    const size_t size =
        sizeof(struct aw__pilot_seen) + sizeof sample + pods + aw_pilot_state_bytes(pilot);
    struct aw__pilot_seen seen = {.score = pilot->score,
                                  .gain = pilot->gain,
                                  .answered = pilot->answered,
                                  .restarts = pilot->restarts,
                                  .finished = pilot->finished,
                                  .moved = pilot->moved,
                                  .canary_moved = pilot->canary_moved,
                                  .first = pilot->first,
                                  .pod_count = sample.pod_count};
    memcpy(seen.obs, pilot->obs, sizeof pilot->obs);
    sample.pods = NULL; /* an address is no fact about the workload */
    memcpy(to, &seen, sizeof seen);
    to += sizeof seen;
    memcpy(to, &sample, sizeof sample);
    to += sizeof sample;
    if (pods)
        memcpy(to, pilot->pods, pods);
    aw_pilot_state_save(pilot, to + pods);
    aw_envelope_seal(&moment_format, 0, bytes, size);
    return size;
}

void aw_pilot_snapshot_took(void *bytes, double took_s)
{
    struct aw_envelope head;
    memcpy(&head, bytes, sizeof head);
    memcpy((unsigned char *)bytes + offsetof(struct aw__pilot_seen, took_s), &took_s,
           sizeof took_s);
    aw_envelope_seal(&moment_format, 0, bytes, sizeof head + head.bytes);
}

enum aw_err aw_pilot_snapshot_load(struct aw_pilot *pilot, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    struct aw__pilot_seen seen;
    if (aw_envelope_open(&moment_format, 0, bytes, size, NULL) || size < sizeof seen)
        return AW_ERR_FORMAT;
    memcpy(&seen, from, sizeof seen);
    from += sizeof seen;
    if (seen.pod_count > pilot->pods_max ||
        aw__pilot_pods_room(pilot, seen.pod_count) != seen.pod_count)
        return AW_ERR_FORMAT;
    const size_t pods = seen.pod_count * sizeof *pilot->pods;
    if (size != sizeof seen + sizeof pilot->sample + pods + aw_pilot_state_bytes(pilot))
        return AW_ERR_FORMAT;
    const enum aw_err err = aw_pilot_state_load(pilot, from + sizeof pilot->sample + pods);
    if (err)
        return err;
    memcpy(&pilot->sample, from, sizeof pilot->sample);
    if (pods)
        memcpy(pilot->pods, from + sizeof pilot->sample, pods);
    pilot->sample.pods = pilot->pods;
    pilot->sample.pod_count = seen.pod_count;
    pilot->score = seen.score;
    pilot->gain = seen.gain;
    pilot->took_s = seen.took_s;
    pilot->answered = seen.answered;
    pilot->restarts = seen.restarts;
    pilot->finished = seen.finished;
    pilot->moved = seen.moved;
    pilot->canary_moved = seen.canary_moved;
    pilot->first = seen.first;
    memcpy(pilot->obs, seen.obs, sizeof pilot->obs);
    return AW_OK;
}
