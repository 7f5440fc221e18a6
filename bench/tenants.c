/*
 * tenants.c - `aware-bench tenants`: ten thousand agents on one contended cluster, and how long 110
 * take to learn from nothing. Time is that of the thread.
 */
#include <aware/parallel.h>

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "multi/serve.h"
#include "tenancy/arbiter.h"

#define AGENTS       10000u
#define ROUNDS       15u /* of which the quickest counts: what else is on the machine slows us */
#define LEARNERS     110u
#define EPISODES_MAX 400u

static void goal(struct aw__bench_figure *figure, double value, double most)
{
    figure->value = value;
    figure->goal = most;
    figure->lower_is_better = true;
}

/* Episodes until the mean of ten is within 2 % of the ten before, after the first thirty. */
static double learn_from_nothing(struct aw_multi_world *w, struct aw_team *team,
                                 struct aw_simppo *agents, double *ret_episodes)
{
    double ten = 0, last = NAN;
    const double from = aw_clock_thread_cpu_s();
    uint32_t e = 0;
    for (; e < EPISODES_MAX; e++) {
        aw_multi_reset(w, 1000 + e);
        aw_team_begin(team);
        ten += aw_simppo_episode(agents, true) / 10;
        if (e % 10 != 9)
            continue;
        if (e >= 39 && fabs(ten / last - 1) < 0.02)
            break;
        last = ten;
        ten = 0;
    }
    *ret_episodes = e;
    return aw_clock_thread_cpu_s() - from;
}

static enum aw_err measure_steps(struct aw__bench *bench, const struct aw_alloc *alloc,
                                 struct aw_alloc_counting *counting, struct aw_diag *diag)
{
    struct aw_multi_settings settings;
    struct aw_team_settings how;
    struct aw_simppo_settings learner;
    struct aw_multi_world w = {0};
    struct aw_team team = {0};
    struct aw_simppo *agents = NULL;
    aw_conf_defaults(aw_multi_fields, &settings);
    settings.agents = AGENTS;
    aw_team_settings_init(&how, false);
    aw_simppo_settings_init(&learner, false);
    learner.horizon = 2; /* nothing is learned here */
    enum aw_err err = aw_multi_init(&w, &settings, alloc, diag);
    err = err ? err : aw_team_init(&team, &w, &how, alloc);
    err = err ? err : aw_simppo_new(&learner, &team, 1, alloc, &agents, diag);
    uint8_t *action = err ? NULL : aw_alloc_new(alloc, AGENTS, 1);
    if (!err && action) {
        double act_s = INFINITY, step_s = INFINITY;
        const uint64_t before = counting->alloc_count;
        for (uint32_t k = 0; k < ROUNDS; k++) {
            const double from = aw_clock_thread_cpu_s();
            aw_team_observe(&team);
            aw_simppo_act(agents, true, action);
            const double between = aw_clock_thread_cpu_s();
            aw_team_step(&team, action);
            act_s = fmin(act_s, between - from);
            step_s = fmin(step_s, aw_clock_thread_cpu_s() - from);
        }
        goal(aw__bench_add(bench, "ms", "aggregates and actors of 10000 agents"), 1e3 * act_s, 5);
        goal(aw__bench_add(bench, "ms", "whole contended step of 10000 agents"), 1e3 * step_s, 250);
        goal(aw__bench_add(bench, "allocations", "allocations in %u steps", ROUNDS),
             (double)(counting->alloc_count - before), 0);
        aw__bench_add(bench, "agent-steps/s", "agent-steps a second and core")->value =
            AGENTS / step_s;
        goal(aw__bench_add(bench, "B", "memory of an agent that serves"),
             (double)aw_simppo_bytes_serving(agents), 256);
        aw_simppo_settings_init(&learner, false);
    }
    aw_alloc_free(alloc, action);
    aw_simppo_free(agents);
    aw_team_deinit(&team);
    aw_multi_deinit(&w);
    return err;
}

static enum aw_err measure_learning(struct aw__bench *bench, struct aw_diag *diag)
{
    struct aw_multi_settings settings;
    struct aw_team_settings how;
    struct aw_simppo_settings learner;
    struct aw_multi_world w = {0};
    struct aw_team team = {0};
    struct aw_simppo *agents = NULL;
    aw_conf_defaults(aw_multi_fields, &settings);
    settings.agents = LEARNERS;
    aw_team_settings_init(&how, false);
    aw_simppo_settings_init(&learner, false);
    enum aw_err err = aw_multi_init(&w, &settings, NULL, diag);
    err = err ? err : aw_team_init(&team, &w, &how, NULL);
    err = err ? err : aw_simppo_new(&learner, &team, 1, NULL, &agents, diag);
    if (!err) {
        double episodes;
        const double took_s = learn_from_nothing(&w, &team, agents, &episodes);
        goal(aw__bench_add(bench, "B", "memory of an agent that learns"),
             (double)(aw_simppo_bytes_training(agents) + aw_simppo_bytes_serving(agents)), 8192);
        goal(aw__bench_add(bench, "s", "110 functions from nothing to convergence"), took_s, 180);
        aw__bench_add(bench, "episodes", "of it, episodes")->value = episodes;
        goal(aw__bench_add(bench, "s", "an episode and its update, 110 functions"),
             took_s / fmax(1, episodes), 0.5);
    }
    aw_simppo_free(agents);
    aw_team_deinit(&team);
    aw_multi_deinit(&w);
    return err;
}

/* The environment of many agents as others drive it, under random choices: the most that changes in
 * a step. */
static enum aw_err measure_contract(struct aw__bench *bench, uint32_t agents, struct aw_diag *diag)
{
    char pair[32];
    const char *const pairs[] = {pair};
    struct aw_parallel env = {0};
    struct aw_parallel_rows rows;
    struct aw_rng rng;
    snprintf(pair, sizeof pair, "agents=%u", agents);
    enum aw_err err = aw_parallel_make("tenants-v0", pairs, 1, NULL, &env, diag);
    if (err)
        return err;
    const size_t n = agents, choices = env.spec->action.n;
    rows.obs = aw_alloc_new(NULL, n * env.spec->observation.dim, sizeof(float));
    rows.context = aw_alloc_new(NULL, n * env.spec->context.dim, sizeof(float));
    rows.reward = aw_alloc_new(NULL, n, sizeof(float));
    rows.allowed = aw_alloc_new(NULL, n * choices, 1);
    rows.flags = aw_alloc_new(NULL, n, 1);
    float *action = aw_alloc_new(NULL, n, sizeof *action);
    if (!rows.obs || !rows.context || !rows.reward || !rows.allowed || !rows.flags || !action)
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for %u agents", agents);
    err = err ? err : env.ops->reset(env.self, 1, &rows);
    double best = INFINITY;
    aw_rng_init(&rng, 1, 0);
    for (uint32_t k = 0; !err && k < ROUNDS; k++) {
        for (uint32_t i = 0; i < agents; i++)
            action[i] = (float)aw_rng_below(&rng, (uint32_t)choices);
        const double from = aw_clock_thread_cpu_s();
        err = env.ops->step(env.self, action, &rows);
        best = fmin(best, aw_clock_thread_cpu_s() - from);
    }
    if (!err)
        aw__bench_add(bench, "agent-steps/s", "tenants-v0 in C, random choices of %u agents",
                      agents)
            ->value = agents / best;
    aw_alloc_free(NULL, action);
    aw_alloc_free(NULL, rows.flags);
    aw_alloc_free(NULL, rows.allowed);
    aw_alloc_free(NULL, rows.reward);
    aw_alloc_free(NULL, rows.context);
    aw_alloc_free(NULL, rows.obs);
    aw_parallel_free(&env);
    return err;
}

/* The arbiter over as many workloads on a cluster that is half of what they ask for. */
static enum aw_err measure_arbiter(struct aw__bench *bench, struct aw_diag *diag)
{
    struct aw_arbiter arbiter;
    struct aw_arbiter_settings settings;
    struct aw_rng rng;
    aw_conf_defaults(aw_arbiter_fields, &settings);
    struct aw_arbiter_workload *workloads = aw_alloc_new(NULL, AGENTS, sizeof *workloads);
    struct aw_arbiter_grant *grants = aw_alloc_new(NULL, AGENTS, sizeof *grants);
    struct aw_arbiter_standing *standings = aw_alloc_new(NULL, AGENTS, sizeof *standings);
    enum aw_err err = workloads && grants && standings
                          ? aw_arbiter_init(&arbiter, &settings, 0, AGENTS, NULL, diag)
                          : aw_fail(diag, AW_ERR_NOMEM, "no memory");
    if (!err) {
        double best = INFINITY;
        aw_rng_init(&rng, 1, 0);
        struct aw_arbiter_case of = {.capacity = {AGENTS * INT64_C(2500), AGENTS * INT64_C(10)},
                                     .elapsed_s = 15,
                                     .workload_count = AGENTS,
                                     .workloads = workloads};
        for (uint32_t i = 0; i < AGENTS; i++) {
            workloads[i] =
                (struct aw_arbiter_workload){.tenant = AW_ARBITER_ALONE,
                                             .holds = {1000, 2},
                                             .quantum = {1000, 2},
                                             .replicas_floor = 1,
                                             .replicas_asked = 1 + aw_rng_below(&rng, 9)};
            aw_tenancy_terms_init(&workloads[i].terms);
            workloads[i].terms.priority = aw_rng_below(&rng, 3);
        }
        for (uint32_t k = 0; k < ROUNDS; k++) {
            const double from = aw_clock_thread_cpu_s();
            aw_arbiter_run(&arbiter, &of, grants, standings);
            best = fmin(best, aw_clock_thread_cpu_s() - from);
        }
        aw__bench_add(bench, "ms", "the arbiter over 10000 workloads")->value = 1e3 * best;
        aw_arbiter_deinit(&arbiter);
    }
    aw_alloc_free(NULL, standings);
    aw_alloc_free(NULL, grants);
    aw_alloc_free(NULL, workloads);
    return err;
}

enum aw_err aw__bench_tenants(struct aw__bench *bench, struct aw_diag *diag)
{
    struct aw_alloc_counting counting;
    aw_alloc_counting_init(&counting);
    enum aw_err err = measure_steps(bench, &counting.alloc, &counting, diag);
    err = err ? err : measure_learning(bench, diag);
    err = err ? err : measure_contract(bench, 12, diag);
    err = err ? err : measure_contract(bench, 1000, diag);
    err = err ? err : measure_contract(bench, AGENTS, diag);
    return err ? err : measure_arbiter(bench, diag);
}
