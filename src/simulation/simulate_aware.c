/* simulate_aware.c - the control loop beside rules and oracles. */
#include "simulation/simulate_aware.h"

#include "base/units.h"
#include "control/loop.h"

#include <math.h>
#include <stdio.h>

struct aw__simulate_life {
    const struct aw_simulate_config *config;
    const struct aw_simulate_case *c;
    const struct aw_simulate_policy *policy;
    const struct aw_fallback_task *task;
    struct aw_cluster cluster;
    struct aw_loop *loop;
    struct aw_load load;
    const struct aw_alloc *alloc;
};

void aw_simulate_pilot(const struct aw_simulate_config *config, const struct aw_fallback_task *task,
                       const struct aw_fallback_settings *fallback, struct aw_pilot_config *pilot)
{
    const struct aw_simulate_settings *s = &config->settings;
    pilot->bounds = task->bounds;
    pilot->slo = (struct aw_slo){.quantile = 0.99,
                                 .latency_us_p99 = task->slo_latency_us,
                                 .timeout_us = config->sim.request_timeout_s * 1e6};
    pilot->slo_budget = s->slo_budget;
    pilot->slo_weight = s->reward_weight;
    pilot->prices =
        (struct aw_prices){.core_hour = s->price_core_hour, .gib_hour = s->price_gib_hour};
    pilot->step_s = s->step_s;
    pilot->fallback = *fallback;
    pilot->stale_s = fallback->stale; /* as a run has it */
    pilot->node.cpu_millicores = llround(config->sim.node_cores * 1e3);
    pilot->node.memory_bytes = llround(config->sim.node_memory_gib * AW_GIB_REAL);
    pilot->in_place = config->sim.in_place;
}

enum aw_err aw__simulate_life_new(const struct aw_simulate_config *config,
                                  const struct aw_simulate_case *c,
                                  const struct aw_simulate_policy *policy,
                                  const struct aw_fallback_task *task,
                                  const struct aw_cluster *cluster, const struct aw_alloc *alloc,
                                  struct aw__simulate_life **ret_life, struct aw_diag *diag)
{
    if (!config->pilot)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "%s is not to be had here", policy->name);
    struct aw__simulate_life *life = aw_alloc_new(alloc, 1, sizeof *life);
    if (!life)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a control loop");
    *life = (struct aw__simulate_life){.config = config,
                                       .c = c,
                                       .policy = policy,
                                       .task = task,
                                       .cluster = *cluster,
                                       .alloc = alloc};
    *ret_life = life;
    return AW_OK;
}

void aw__simulate_life_free(struct aw__simulate_life *life)
{
    if (!life)
        return;
    aw_loop_free(life->loop);
    aw_load_deinit(&life->load);
    aw_alloc_free(life->alloc, life);
}

/* `lived` slots of the one load, then the other from `offset_us` on for as long as a run lasts. */
static enum aw_err join(struct aw__simulate_life *life, int64_t offset_us, uint32_t lived)
{
    const struct aw_simulate_settings *s = &life->config->settings;
    const struct aw_load *to = life->c->load,
                         *from = life->c->tuning_load ? life->c->tuning_load : to;
    const double run_us =
        1e6 * s->step_s *
        (s->warmup_steps + (double)s->episode_steps * (s->continuous ? s->episodes : 1));
    const double slots = lived + ceil(run_us / (double)to->slot_us) + 1;
    aw_load_deinit(&life->load);
    enum aw_err err = aw_load_init(&life->load, to->name, slots, to->slot_us, life->alloc, NULL);
    for (uint32_t i = 0; !err && i < life->load.slot_count; i++) {
        const bool before = i < lived;
        const int64_t at_us = before ? i * to->slot_us : offset_us + (i - lived) * to->slot_us;
        life->load.rate_per_s[i] =
            (float)aw_load_mean(before ? from : to, at_us, at_us + to->slot_us);
    }
    return err;
}

enum aw_err aw__simulate_life_begin(struct aw__simulate_life *life, int64_t offset_us,
                                    uint64_t seed, const struct aw_load **ret_load,
                                    uint32_t *ret_steps)
{
    const int64_t step_us = llround(life->config->settings.step_s * 1e6);
    /* whole steps and whole slots */
    const double slots = ceil(life->policy->lived_s * 1e6 / (double)life->c->load->slot_us);
    const int64_t lived_us = (int64_t)slots * life->c->load->slot_us;
    struct aw_pilot_config pilot = *life->config->pilot;
    aw_simulate_pilot(life->config, life->task, &life->policy->policy, &pilot);
    snprintf(pilot.name, sizeof pilot.name, "simulate/%s", life->policy->name);
    pilot.seed = seed;
    aw_loop_free(life->loop);
    life->loop = NULL;
    enum aw_err err = join(life, offset_us, (uint32_t)slots);
    err = err ? err
              : aw_loop_new(&(struct aw_loop_config){.cluster = life->cluster,
                                                     .pilots = &pilot,
                                                     .tasks = life->task,
                                                     .workload_count = 1,
                                                     .thread_count = 1,
                                                     .learning = AW_LOOP_LEARN_AT_ONCE,
                                                     .deadline_us = INT64_MAX},
                            life->alloc, &life->loop, NULL);
    if (err)
        return err;
    *ret_load = &life->load;
    *ret_steps = (uint32_t)(lived_us / step_us);
    return AW_OK;
}

enum aw_err aw__simulate_life_tick(struct aw__simulate_life *life, struct aw_simulate_step *step)
{
    const enum aw_err err = aw_loop_tick(life->loop, NULL, NULL, NULL);
    if (err)
        return err;
    const struct aw_decision *decision = aw_pilot_decision(aw_loop_pilot(life->loop, 0));
    step->applied = decision->answered && (decision->applied || !decision->guard.plan.set);
    if (decision->applied)
        step->plan = decision->guard.plan;
    step->reason = decision->fallback;
    return AW_OK;
}
