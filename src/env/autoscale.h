/*
 * autoscale.h - autoscale-v0 and autoscale-paper-v0: scale a workload on the simulated cluster.
 *
 * This is the door of the folder: with it come the translations that a control loop shares with
 * the environments (reading, state, action, objective), which know no simulator.
 *
 * One step applies a plan, lets `step` seconds pass, and reads the metrics. What the agent sees and
 * is rewarded for comes from those metrics, as in production (state.h, objective.h); what is
 * reported comes from what really happened (the simulator's truth), see struct aw_autoscale_info.
 *
 * Call order: aw_env_make or aw_env_make_with, then <aware/env.h>. The functions here take any
 *             environment and tell one that is not of this kind by NULL or AW_ERR_UNSUPPORTED.
 * Memory:     all at make: the simulator, the load and the pool of applications. reset and step
 *             never allocate.
 * Threads:    as <aware/env.h>.
 *
 * With the reference model a snapshot holds what was done, and a load plays it again: exact, but as
 * slow as the episode was.
 */
#ifndef AW_ENV_AUTOSCALE_H
#define AW_ENV_AUTOSCALE_H

#include <aware/cluster.h>
#include <aware/env.h>

#include "base/conf.h"
#include "task/action.h"
#include "task/bounds.h"
#include "task/objective.h"
#include "task/reading.h"
#include "task/state.h"
#include "workload/app.h"
#include "workload/load.h"

#define AW_AUTOSCALE_APPS_MAX   4096u   /* applications of a pool */
#define AW_AUTOSCALE_STEPS_MAX  100000u /* of an episode */
#define AW_AUTOSCALE_WARMUP_MAX 100u

extern const struct aw_env_factory aw__autoscale_factory;
extern const struct aw_env_factory aw__autoscale_paper_factory;

/* Options; the tables beside them (aw_env_factory.fields) say what each is for. */
struct aw_autoscale_settings {
    char app[AW_CONF_TEXT_MAX];
    char load[AW_CONF_TEXT_MAX];
    double load_cores;
    uint64_t load_seed;
    bool load_shift;
    char scenario[AW_CONF_TEXT_MAX];
    uint32_t model; /* enum aw_sim_model */
    char cluster[AW_CONF_TEXT_MAX];
    double step_s;
    uint32_t episode_steps, warmup_steps;

    uint32_t state; /* enum aw_state_preset */
    uint32_t history;
    double stale_s;
    double disk_mib_per_s, net_mib_per_s;

    uint32_t mapping; /* enum aw_action_mapping */
    uint32_t window, oom_steps;
    double deadband;
    bool guard;
    uint32_t replicas_min, replicas_max;
    char cpu_min[AW_CONF_TEXT_MAX], cpu_max[AW_CONF_TEXT_MAX];
    char memory_min[AW_CONF_TEXT_MAX], memory_max[AW_CONF_TEXT_MAX];
    char start_cpu[AW_CONF_TEXT_MAX], start_memory[AW_CONF_TEXT_MAX];

    uint32_t objective; /* enum aw_objective_kind */
    double slo_weight;
    double slo_factor, slo_ms, slo_per_s;
    double budget, lambda;
    double price_core_hour, price_gib_hour;
};

/* What the last step was, for summaries. */
struct aw_autoscale_info {
    struct aw_score measured; /* by the metrics: what the reward was made of */
    struct aw_score truth;    /* what really happened: what results are reported from */
    double lambda;
    double slo_us; /* latency SLO of this episode's application */
    uint32_t app;  /* index in the pool */
    uint32_t step; /* of the episode, from 1 */

    /* at the end of the step */
    struct aw_plan plan; /* in force */
    uint32_t replicas_ready;
    double arrivals, completions, failures; /* requests of the step */
    double latency_us_p50;                  /* NAN: no request */
    double core_s, gib_s, replica_s;        /* allocated over the step */
    uint32_t oom_kills, restarts;
};

/* As aw_env_make_with, of an application and under a load that are there already: they are copied,
 * and take the place of the options `app` (which then shows the name) and `load`. NULL: as the
 * options say. AW_ERR_UNSUPPORTED: not an autoscaling environment. */
AW_NODISCARD enum aw_err aw_autoscale_make(const char *name, const char *const *pairs,
                                           size_t pair_count, const struct aw_app *app,
                                           const struct aw_load *load, const struct aw_alloc *alloc,
                                           struct aw_env *ret_env, struct aw_diag *diag);

/* Of the last step; zeroed after reset and state_load. NULL: not an autoscaling environment. */
const struct aw_autoscale_info *aw_autoscale_info(const struct aw_env *env);
/* The sample that the present observation shows; its pods are valid until the next call. */
const struct aw_sample *aw_autoscale_sample(const struct aw_env *env);
const struct aw_autoscale_settings *aw_autoscale_settings(const struct aw_env *env);
const struct aw_bounds *aw_autoscale_bounds(const struct aw_env *env); /* NULL: another kind */

/* The weight of the SLO in the constrained reward, clipped to AW_LAMBDA_MIN .. AW_LAMBDA_MAX; it
 * stays over resets. A trainer moves it with aw_lambda_next. */
AW_NODISCARD enum aw_err aw_autoscale_set_lambda(const struct aw_env *env, double lambda);

/* As step, with a plan instead of an action: for controllers that are not agents. What the plan
 * does not set stays; it is clipped to the bounds. `ret_values` (may be NULL): the action that
 * comes nearest, for imitation. */
AW_NODISCARD enum aw_err aw_autoscale_step_plan(const struct aw_env *env,
                                                const struct aw_plan *plan, float *obs,
                                                struct aw_step *ret, float *ret_values);

#endif
