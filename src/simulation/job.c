/* job.c - the loop on a cluster, or on two simulated ones in lockstep, and what happened. */
#include "simulation/job_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/units.h"
#include "simulation/simulate.h"

#define DEADLINE_US 1000000 /* of one call of a cluster that is not simulated */

/* --- made and ended --------------------------------------------------------------------------- */

/* Of what a save depends on. Structs with padding are hashed by their members that matter most. */
static uint64_t settings_hash(const struct aw_job_config *config)
{
    uint64_t h = AW_HASH_BEGIN;
    h = aw_hash_bytes(h, &config->seed, sizeof config->seed);
    h = aw_hash_bytes(h, &config->count, sizeof config->count);
    h = aw_hash_bytes(h, &config->twin, sizeof config->twin);
    h = aw_hash_bytes(h, &config->sim.node_count, sizeof config->sim.node_count);
    if (config->cluster)
        h = aw_hash_bytes(h, config->cluster->ops->name, strlen(config->cluster->ops->name));
    for (uint32_t i = 0; i < config->count; i++) {
        const struct aw_job_workload *workload = &config->workloads[i];
        const struct aw_pilot_config *pilot = &workload->pilot;
        h = aw_hash_bytes(h, pilot->name, strlen(pilot->name));
        h = aw_hash_bytes(h, workload->app.name, strlen(workload->app.name));
        h = aw_hash_bytes(h, &pilot->bounds, sizeof pilot->bounds);
        h = aw_hash_bytes(h, &pilot->slo, sizeof pilot->slo);
        h = aw_hash_bytes(h, &pilot->step_s, sizeof pilot->step_s);
        h = aw_hash_bytes(h, &pilot->fallback.kind, sizeof pilot->fallback.kind);
        h = aw_hash_bytes(h, &pilot->seed, sizeof pilot->seed);
        h = aw_hash_bytes(h, workload->load->rate_per_s,
                          workload->load->slot_count * sizeof *workload->load->rate_per_s);
    }
    return h;
}

struct aw_sim_workload aw__job_placed(const struct aw_job *job, uint32_t i,
                                      const struct aw_plan *start)
{
    const struct aw_job_workload *workload = &job->workload[i];
    return (struct aw_sim_workload){
        .app = workload->app,
        .load = workload->load,
        .replicas = start->replicas,
        .replicas_max = workload->pilot.bounds.replicas_max,
        .cpu_millicores = start->cpu_millicores,
        .memory_bytes = start->memory_bytes,
    };
}

/* Of its pods that wait for a node: its tenant's priority, and its own within it. */
static int64_t priority_of(const struct aw_loop_tenancy *tenancy, uint32_t i)
{
    if (!tenancy->places)
        return 0;
    const struct aw_loop_place *place = &tenancy->places[i];
    const int64_t own = place->terms.priority;
    return place->tenant == AW_ARBITER_ALONE
               ? own << 31
               : ((int64_t)tenancy->tenants[place->tenant].terms.priority << 31) + own;
}

static enum aw_err make_world(struct aw_job *job, const struct aw_job_config *config,
                              enum aw_job_world which, struct aw_diag *diag)
{
    struct aw__job_world *world = &job->world[which];
    struct aw_pilot_config *pilots = aw_alloc_new(job->alloc, job->count, sizeof *pilots);
    struct aw_fallback_task *tasks = aw_alloc_new(job->alloc, job->count, sizeof *tasks);
    static const struct aw_loop_tenancy alone; /* each for itself */
    enum aw_err err = AW_OK;
    if (!pilots || !tasks) {
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u workloads", job->count);
        goto out;
    }
    if (job->simulated)
        err = aw_sim_new(&config->sim, config->seed, job->count, job->alloc, &world->sim, diag);
    for (uint32_t i = 0; !err && i < job->count; i++) {
        const struct aw_job_workload *workload = &job->workload[i];
        pilots[i] = workload->pilot;
        pilots[i].learning = workload->pilot.learning && which == AW_JOB_AWARE;
        if (which == AW_JOB_TWIN) { /* the rules alone, OFFLINE for ever */
            pilots[i].lifecycle.bootstrap = true;
            pilots[i].relief.enabled = false;
        }
        tasks[i] = workload->task;
        const struct aw_plan start = aw_plan_of(workload->task.amount);
        const struct aw_sim_workload placed = aw__job_placed(job, i, &start);
        uint32_t index;
        if (job->simulated)
            err = aw_sim_add(world->sim, &placed, &index, diag);
        if (!err && job->simulated)
            aw_sim_priority(world->sim, index, priority_of(&config->tenancy, i));
    }
    if (err)
        goto out;
    world->cluster = job->simulated ? aw_sim_cluster(world->sim) : *config->cluster;
    err = aw_loop_new(
        &(struct aw_loop_config){.cluster = world->cluster,
                                 .store = which == AW_JOB_AWARE ? config->store : NULL,
                                 .pilots = pilots,
                                 .tasks = tasks,
                                 .workload_count = job->count,
                                 .thread_count = which == AW_JOB_AWARE ? config->thread_count : 1,
                                 .learning = which == AW_JOB_AWARE ? config->learning
                                                                   : AW_LOOP_LEARN_AT_ONCE,
                                 .deadline_us = job->simulated ? INT64_MAX : DEADLINE_US,
                                 .hooks = which == AW_JOB_AWARE ? config->hooks : NULL,
                                 .steadfast = config->steadfast,
                                 .exchange = which == AW_JOB_AWARE ? config->exchange : NULL,
                                 .tenancy = which == AW_JOB_AWARE ? config->tenancy : alone},
        job->alloc, &world->loop, diag);
    if (!err && !job->simulated)
        aw_loop_capacity(world->loop, config->capacity);
out:
    aw_alloc_free(job->alloc, tasks);
    aw_alloc_free(job->alloc, pilots);
    return err;
}

struct aw_loop_tenancy aw_job_tenancy_of(const struct aw_profile_set *set,
                                         struct aw_loop_place *places,
                                         struct aw_loop_tenant *tenants)
{
    if (!aw_profile_set_shared(set))
        return (struct aw_loop_tenancy){.places = NULL};
    for (uint32_t i = 0; i < set->profile_count; i++)
        places[i] = (struct aw_loop_place){.tenant = aw_profile_set_tenant(set, &set->profiles[i]),
                                           .terms = set->profiles[i].tenancy.terms};
    for (uint32_t i = 0; i < set->tenant_count; i++) {
        tenants[i].terms = set->tenants[i].tenancy.terms;
        memcpy(tenants[i].name, set->tenants[i].name, sizeof tenants[i].name);
    }
    return (struct aw_loop_tenancy){.settings = set->cluster.arbiter,
                                    .places = places,
                                    .tenants = tenants,
                                    .tenant_count = set->tenant_count};
}

static struct aw_objective objective_of(const struct aw_pilot_config *pilot)
{
    return (struct aw_objective){.kind = pilot->objective,
                                 .slo_weight = pilot->slo_weight,
                                 .slo = pilot->slo,
                                 .prices = pilot->prices,
                                 .cost_reference_per_hour = 1};
}

enum aw_err aw_job_new(const struct aw_job_config *config, const struct aw_alloc *alloc,
                       struct aw_job **ret_job, struct aw_diag *diag)
{
    if (config->count == 0 || config->count > AW_SIM_WORKLOADS_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u workloads, found %u",
                       AW_SIM_WORKLOADS_MAX, config->count);
    for (uint32_t i = 1; i < config->count; i++)
        if (config->workloads[i].pilot.step_s != config->workloads[0].pilot.step_s)
            return aw_fail(diag, AW_ERR_CONFIG,
                           "workloads of one cluster have one step: %s has %g s, %s %g s",
                           config->workloads[0].pilot.name, config->workloads[0].pilot.step_s,
                           config->workloads[i].pilot.name, config->workloads[i].pilot.step_s);
    struct aw_job *job = aw_alloc_new(alloc, 1, sizeof *job);
    if (!job)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a job");
    job->alloc = alloc;
    job->count = config->count;
    job->simulated = config->cluster == NULL;
    job->worlds = config->twin && job->simulated ? 2 : 1;
    job->sim = config->sim;
    job->step_us = (int64_t)llround(config->workloads[0].pilot.step_s * 1e6);
    job->step_s = job->simulated ? 1e-6 * (double)job->step_us : config->seconds_per_step;
    job->seed = config->seed;
    job->settings_hash = settings_hash(config);
    job->workload = aw_alloc_new(alloc, job->count, sizeof *job->workload);
    job->objective = aw_alloc_new(alloc, job->count, sizeof *job->objective);
    job->account = aw_alloc_new(alloc, job->count, sizeof *job->account);
    job->fault = aw_alloc_new(alloc, config->fault_count, sizeof *job->fault);
    enum aw_err err = AW_OK;
    if (!job->workload || !job->objective || !job->account || !job->fault)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a job of %u workloads", job->count);
    if (!err) {
        job->fault_count = config->fault_count;
        if (config->fault_count)
            memcpy(job->fault, config->faults, config->fault_count * sizeof *job->fault);
        memcpy(job->workload, config->workloads, job->count * sizeof *job->workload);
        for (uint32_t i = 0; i < job->count; i++) {
            const struct aw_pilot_config *pilot = &job->workload[i].pilot;
            job->objective[i] = objective_of(pilot);
            job->account[i].serving_us = job->account[i].at_us = AW_NEVER;
        }
    }
    for (uint32_t w = 0; !err && w < job->worlds; w++)
        err = make_world(job, config, (enum aw_job_world)w, diag);
    if (err) {
        aw_job_free(job);
        return err;
    }
    *ret_job = job;
    return AW_OK;
}

void aw_job_free(struct aw_job *job)
{
    if (!job)
        return;
    for (uint32_t w = 0; w < AW_JOB_WORLDS; w++) {
        aw_loop_free(job->world[w].loop);
        aw_sim_free(job->world[w].sim);
    }
    aw_archive_close(&job->left);
    aw_alloc_free(job->alloc, job->fault);
    aw_alloc_free(job->alloc, job->account);
    aw_alloc_free(job->alloc, job->objective);
    aw_alloc_free(job->alloc, job->workload);
    aw_alloc_free(job->alloc, job);
}

/* --- a step ----------------------------------------------------------------------------------- */

static void disturb_one(const struct aw_job *job, const struct aw__job_world *world, uint32_t i,
                        int64_t now)
{
    struct aw_effect effect;
    aw_schedule_effect(&job->workload[i].scenarios, now, &effect);
    const struct aw_sim_disturbance disturbance = {
        .payload = effect.payload,
        .families = effect.families,
        .cpu_slowdown = effect.cpu_slowdown,
        .io_slowdown = effect.io_slowdown,
        .load_factor = effect.load_factor,
        .memory_leak_mib = effect.memory_leak_mib,
    };
    aw_sim_disturb(world->sim, i, &disturbance);
}

static void fail_one(const struct aw__job_world *world, const struct aw_profile_fault *fault,
                     int64_t until)
{
    if (fault->kind == AW_PROFILE_FAULT_NODE)
        aw_sim_fail_node(world->sim, fault->node, until);
    else if (fault->kind == AW_PROFILE_FAULT_METRICS)
        aw_sim_fail_metrics(world->sim, until);
    else
        aw_sim_fail_api(world->sim, until);
}

/* Brings on what begins or ends at this step. */
static void disturb(const struct aw_job *job, const struct aw__job_world *world, int64_t now)
{
    for (uint32_t i = 0; i < job->count; i++) {
        const struct aw_schedule *schedule = &job->workload[i].scenarios;
        if (schedule->count > 0 && aw_schedule_next(schedule, now - job->step_us) <= now)
            disturb_one(job, world, i, now);
    }
    for (uint32_t f = 0; f < job->fault_count; f++) {
        const struct aw_profile_fault *fault = &job->fault[f];
        if (fault->at_us <= now && fault->at_us > now - job->step_us)
            fail_one(world, fault, now + fault->duration_us);
    }
}

void aw__job_disturb_again(const struct aw_job *job, const struct aw__job_world *world, int64_t now)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (job->workload[i].scenarios.count > 0)
            disturb_one(job, world, i, now);
    for (uint32_t f = 0; f < job->fault_count; f++) {
        const struct aw_profile_fault *fault = &job->fault[f];
        if (fault->at_us < now && fault->at_us + fault->duration_us > now)
            fail_one(world, fault, fault->at_us + fault->duration_us);
    }
}

static double share(double used, double allocated)
{
    return allocated > 0 ? fmin(1, used / allocated) : 0;
}

static void score_truth(const struct aw_job *job, uint32_t i, const struct aw_sim_truth *truth,
                        struct aw_score *ret)
{
    const double step_s = (double)job->step_us * 1e-6;
    const double latency[] = {truth->latency_us_p50, truth->latency_us_p95, truth->latency_us_p99};
    const struct aw_outcome outcome = {
        .arrivals_per_s = truth->arrivals / step_s,
        .completions_per_s = truth->completions / step_s,
        .errors_per_s = truth->failures / step_s,
        .latency_us_slo = latency[aw_latency_index(job->workload[i].pilot.slo.quantile)],
        .cpu_utilisation = share(truth->cpu_core_s, truth->cpu_limit_core_s),
        .memory_utilisation = share(truth->memory_gib_s, truth->memory_limit_gib_s),
        .allocated = {[AW_RESOURCE_CPU] = truth->cpu_limit_core_s / step_s,
                      [AW_RESOURCE_MEMORY] = truth->memory_limit_gib_s / step_s},
    };
    aw_objective_score(&job->objective[i], &outcome, step_s, ret);
}

static void totals_of(struct aw_totals *ret, const struct aw_score *score,
                      const struct aw_sim_truth *truth, bool by_agent)
{
    *ret = (struct aw_totals){
        .steps = 1,
        .violations = score->violated,
        .agent_steps = by_agent,
        .cost = score->cost,
        .reward = score->paper_reward,
        .cpu_utilisation = score->cpu_utilisation,
        .memory_utilisation = score->memory_utilisation,
        .requests = truth->arrivals,
        .failed = truth->failures,
        .core_s = truth->cpu_limit_core_s,
        .gib_s = truth->memory_limit_gib_s,
        .replica_s = truth->replica_s,
        .oom_kills = truth->oom_kills,
        .restarts = truth->restarts,
    };
}

void aw_totals_add(struct aw_totals *into, const struct aw_totals *from, int sign)
{
    const uint64_t whole = sign < 0 ? UINT64_MAX : 1; /* times -1 in modular arithmetic */
    into->steps += whole * from->steps;
    into->violations += whole * from->violations;
    into->agent_steps += whole * from->agent_steps;
    into->oom_kills += whole * from->oom_kills;
    into->restarts += whole * from->restarts;
    into->replica_changes += whole * from->replica_changes;
    into->reversals_down += whole * from->reversals_down;
    into->reversals_up += whole * from->reversals_up;
    into->cost += sign * from->cost;
    into->reward += sign * from->reward;
    into->cpu_utilisation += sign * from->cpu_utilisation;
    into->memory_utilisation += sign * from->memory_utilisation;
    into->requests += sign * from->requests;
    into->failed += sign * from->failed;
    into->core_s += sign * from->core_s;
    into->gib_s += sign * from->gib_s;
    into->replica_s += sign * from->replica_s;
}

void aw_totals_turn(struct aw_totals *totals, uint32_t turn)
{
    totals->replica_changes += (turn & AW_TURN_CHANGE) != 0;
    totals->reversals_down += (turn & AW_TURN_REMOVED) != 0;
    totals->reversals_up += (turn & AW_TURN_ADDED) != 0;
}

static double or_zero(double value)
{
    return isfinite(value) ? value : 0;
}

/* What the loop measured of a step, in place of the truth that nobody knows. */
static void measured(const struct aw_job *job, const struct aw_decision *decision,
                     struct aw_sim_truth *ret, struct aw_score *ret_score)
{
    const struct aw_reading *reading = &decision->reading;
    *ret = (struct aw_sim_truth){
        .arrivals = or_zero(reading->arrivals_per_s) * job->step_s,
        .failures = or_zero(reading->errors_per_s) * job->step_s,
        .cpu_limit_core_s = 1e-3 * or_zero(reading->allocated[AW_RESOURCE_CPU]) * job->step_s,
        .memory_limit_gib_s =
            or_zero(reading->allocated[AW_RESOURCE_MEMORY]) / AW_GIB_REAL * job->step_s,
        .replica_s = reading->replicas_ready * job->step_s,
        .oom_kills = reading->oom_kills,
    };
    *ret_score = decision->score;
    ret_score->cost = or_zero(ret_score->cost);
    ret_score->paper_reward = or_zero(ret_score->paper_reward);
    ret_score->cpu_utilisation = or_zero(ret_score->cpu_utilisation);
    ret_score->memory_utilisation = or_zero(ret_score->memory_utilisation);
}

static void account_for(struct aw_job *job, uint32_t i, struct aw_job_step *step)
{
    struct aw__job_account *account = &job->account[i];
    const struct aw_decision *decision = step->decision;
    if (decision->moved) {
        account->transitions++;
        if (decision->stage == AW_STAGE_SERVING && account->serving_us == AW_NEVER)
            account->serving_us = step->at_us;
    }
    const bool agent = decision->actor == AW_ACTOR_AGENT || decision->actor == AW_ACTOR_EXPLORING;
    for (uint32_t w = 0; w < job->worlds; w++) {
        struct aw_sim_truth seen;
        const struct aw_sim_truth *truth =
            job->simulated ? aw_sim_truth(job->world[w].sim, i) : &seen;
        struct aw_score *score = &step->truth[w];
        if (job->simulated)
            score_truth(job, i, truth, score);
        else
            measured(job, decision, &seen, score);
        totals_of(&step->own[w], score, truth, agent && w == AW_JOB_AWARE);
        const struct aw_decision *own = aw_pilot_decision(aw_loop_pilot(job->world[w].loop, i));
        if (!own->guard.plan.set || own->applied)
            aw_totals_turn(
                &step->own[w],
                aw_replica_track_step(&account->track[w], own->guard.plan.replicas, step->at_us));
        aw_totals_add(&account->total[w], &step->own[w], 1);
        aw_totals_add(&account->stage[w][decision->stage], &step->own[w], 1);
        aw_totals_add(&account->episode[w], &step->own[w], 1);
        if (account->serving_us == AW_NEVER)
            aw_totals_add(&account->before_serving[w], &step->own[w], 1);
        if (w == AW_JOB_AWARE)
            step->arrivals_per_s = job->simulated ? truth->arrivals * 1e6 / (double)job->step_us
                                                  : or_zero(decision->reading.arrivals_per_s);
    }
    if (account->episode[AW_JOB_AWARE].steps >= job->workload[i].pilot.episode_steps) {
        memcpy(account->recent, account->episode, sizeof account->recent);
        memset(account->episode, 0, sizeof account->episode);
        account->episodes++;
    }
}

/* What the cluster has been asked for by now: a plan that was not carried out has not. */
static void asked(struct aw_job *job, uint32_t i)
{
    struct aw__job_account *account = &job->account[i];
    for (uint32_t w = 0; w < job->worlds; w++) {
        const struct aw_decision *decision =
            aw_pilot_decision(aw_loop_pilot(job->world[w].loop, i));
        if (w == AW_JOB_AWARE)
            account->at_us = decision->at_us;
        if (decision->guard.plan.set && !decision->applied)
            continue;
        account->asked[w] = decision->guard.plan;
        account->asked[w].set = AW_PLAN_REPLICAS | AW_PLAN_CPU | AW_PLAN_MEMORY;
    }
}

enum aw_err aw_job_step(struct aw_job *job, aw_job_sink *sink, void *ctx, struct aw_diag *diag)
{
    const int64_t at_us = aw_job_lived_us(job);
    const bool ends = job->simulated || job->under_way;
    enum aw_err err = AW_OK;
    for (uint32_t w = 0; !err && w < job->worlds; w++) {
        const struct aw__job_world *world = &job->world[w];
        if (job->simulated) {
            int64_t capacity[AW_POOLS];
            disturb(job, world, at_us);
            aw_sim_capacity(world->sim, &capacity[AW_POOL_CPU], &capacity[AW_POOL_MEMORY]);
            aw_loop_capacity(world->loop, capacity);
        }
        err = aw_loop_tick(world->loop, NULL, NULL, diag);
        if (!err && job->simulated &&
            (err = world->cluster.ops->advance(world->cluster.self, at_us + job->step_us)))
            aw_fail(diag, err, "the simulated cluster stopped");
    }
    if (err)
        return err;
    job->under_way = true;
    job->steps += ends;
    for (uint32_t i = 0; i < job->count; i++) {
        const struct aw_pilot *pilot = aw_loop_pilot(job->world[AW_JOB_AWARE].loop, i);
        struct aw_job_step step = {
            .workload = i,
            .at_us = at_us,
            .decision = aw_pilot_decision(pilot),
            .sample = job->simulated ? NULL : aw_pilot_sample(pilot),
        };
        asked(job, i);
        if (!ends)
            continue;
        account_for(job, i, &step);
        for (uint32_t w = 0; w < job->worlds; w++) {
            const struct aw_decision *decision =
                aw_pilot_decision(aw_loop_pilot(job->world[w].loop, i));
            step.replicas_ready[w] = decision->reading.replicas_ready;
            step.plan[w] = decision->guard.plan;
        }
        if (sink)
            sink(ctx, &step);
    }
    return AW_OK;
}

enum aw_err aw_job_update(struct aw_job *job, uint32_t i, const struct aw_pilot_config *config,
                          bool told, struct aw_diag *diag)
{
    AW_ASSERT(i < job->count);
    for (uint32_t w = 0; told && w < job->worlds; w++) {
        struct aw_pilot_config own = *config;
        own.learning = config->learning && w == AW_JOB_AWARE;
        const enum aw_err err = aw_loop_update(job->world[w].loop, i, &own, diag);
        if (err)
            return err;
    }
    job->workload[i].pilot.slo = config->slo;
    job->objective[i] = objective_of(config);
    return AW_OK;
}

/* --- looking in ------------------------------------------------------------------------------- */

void aw_job_pause(struct aw_job *job)
{
    job->under_way = false;
}

int64_t aw_job_now_us(const struct aw_job *job)
{
    const struct aw_cluster *cluster = &job->world[AW_JOB_AWARE].cluster;
    return cluster->ops->now_us(cluster->self);
}

int64_t aw_job_lived_us(const struct aw_job *job)
{
    return job->before_us + (int64_t)job->steps * job->step_us;
}

uint64_t aw_job_steps(const struct aw_job *job)
{
    return job->steps;
}

void aw_job_view(const struct aw_job *job, uint32_t i, struct aw_job_view *ret)
{
    AW_ASSERT(i < job->count);
    const struct aw__job_account *account = &job->account[i];
    const struct aw_pilot *pilot = aw_loop_pilot(job->world[AW_JOB_AWARE].loop, i);
    *ret = (struct aw_job_view){.name = job->workload[i].pilot.name,
                                .pilot = pilot,
                                .decision = job->steps ? aw_pilot_decision(pilot) : NULL,
                                .episodes = account->episodes,
                                .transitions = account->transitions,
                                .serving_us = account->serving_us,
                                .asked = account->asked[AW_JOB_AWARE],
                                .at_us = account->at_us};
    memcpy(ret->total, account->total, sizeof ret->total);
    memcpy(ret->stage, account->stage, sizeof ret->stage);
    memcpy(ret->before_serving, account->before_serving, sizeof ret->before_serving);
    memcpy(ret->recent, account->recent, sizeof ret->recent);
}

const struct aw_loop_counts *aw_job_counts(const struct aw_job *job)
{
    return aw_loop_counts(job->world[AW_JOB_AWARE].loop);
}

struct aw_loop *aw_job_loop(struct aw_job *job)
{
    return job->world[AW_JOB_AWARE].loop;
}

/* --- what users wrote ------------------------------------------------------------------------- */

static enum aw_err workload_of(const struct aw_profile_set *set, const struct aw_profile *profile,
                               const struct aw_alloc *alloc, struct aw_job_workload *ret,
                               struct aw_load *ret_load, struct aw_diag *diag)
{
    const struct aw_profile_app *app = aw_profile_set_app(set, profile);
    if (!app)
        return aw_fail_at(diag, AW_ERR_CONFIG, profile->place.file, profile->place.line,
                          profile->place.column, "spec.scaleTargetRef.name",
                          "the simulated cluster knows no \"%s\": expected a SimulatedApplication "
                          "of this name in the files",
                          profile->target_name);
    enum aw_err err = aw_load_parse(app->load, app->load_seed, alloc, ret_load, diag);
    if (err)
        return err;
    if (app->load_cores > 0)
        aw_load_scale_mean(ret_load, aw_app_rate_for(&app->app, app->load_cores));
    *ret = (struct aw_job_workload){.app = app->app, .load = ret_load, .scenarios = app->scenarios};
    aw_pilot_config_of(&ret->pilot, profile, true);

    /* how it begins: what was written, or as an operator would who knows nothing but the load */
    struct aw_demand demand;
    aw_app_demand(&app->app, 1, 0, &demand);
    const double cores = 1e-3 * demand.cpu_ms * aw_load_figures(ret_load).mean_per_s;
    const int64_t cpu = app->cpu_millicores ? app->cpu_millicores : 1000;
    const double mib = 1.5 * (demand.memory_base_mib + 16 * demand.memory_flight_mib);
    struct aw_plan start = {
        .replicas = app->replicas ? app->replicas
                                  : (uint32_t)fmin(1e6, ceil(2 * cores * 1e3 / (double)cpu)),
        .cpu_millicores = cpu,
        .memory_bytes = app->memory_bytes ? app->memory_bytes : (int64_t)(mib * AW_MIB_REAL),
    };
    aw_bounds_clip(&profile->pilot.bounds, &start);
    ret->task = (struct aw_fallback_task){.bounds = profile->pilot.bounds,
                                          .slo_latency_us = profile->pilot.slo.latency_us_p99};
    memcpy(ret->task.amount, start.amount, sizeof start.amount);
    const struct aw_sim_settings *sim = &set->cluster.sim;
    ret->pilot.node.cpu_millicores = (int64_t)(sim->node_cores * 1e3);
    ret->pilot.node.memory_bytes = (int64_t)(sim->node_memory_gib * AW_GIB_REAL);
    ret->pilot.in_place = sim->in_place;
    return AW_OK;
}

enum aw_err aw_job_workloads_of(const struct aw_profile_set *set, const struct aw_alloc *alloc,
                                struct aw_job_workload *ret_workloads, struct aw_load *ret_loads,
                                struct aw_diag *diag)
{
    for (uint32_t i = 0; i < set->profile_count; i++) {
        enum aw_err err =
            workload_of(set, &set->profiles[i], alloc, &ret_workloads[i], &ret_loads[i], diag);
        if (err) {
            for (uint32_t k = 0; k < i; k++)
                aw_load_deinit(&ret_loads[k]);
            return err;
        }
    }
    return AW_OK;
}
