/* library_teach.c - the best numbers of many applications, lived in all of them. */
#include "pretrain/library_teach.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cma.h"
#include "base/parallel_tasks.h"
#include "base/units.h"
#include "fallback/fallback.h"
#include "safety/relief.h"
#include "safety/step.h"
#include "task/context.h"

#define WORKLOAD       0u
#define UNSCORED       20u /* steps: how it stood before is not the rule's merit */
#define DRAWN          0.4 /* of all tries, before the search proper */
#define SPREAD         0.07
#define DRAWS          10u
#define AIM            0.9 /* of the budget: another half day is never the same */
#define CONTEXT_STEPS  40u
#define CONTEXT_LOADED 10u
#define SEARCH_SEED    7u /* chance of the three kinds of plays */
#define LIVE_SEED      23u
#define CONTEXT_SEED   31u
#define WEIGHT_ROUNDS  3u
#define LOAD_SHIFT     37u /* applications between two whose loads are exchanged */

void aw_library_teach_config_init(struct aw_library_teach_config *config)
{
    *config = (struct aw_library_teach_config){.cores = 2, .rules = 128, .tries = 150, .loads = 2};
    aw_simulate_config_init(&config->simulate);
}

/* --- one application in a cluster of its own ---------------------------------------------------
 */

static struct aw_prices prices_of(const struct aw_simulate_settings *s)
{
    return (struct aw_prices){.core_hour = s->price_core_hour, .gib_hour = s->price_gib_hour};
}

struct world {
    struct aw_load load;
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_sim_workload workload;
    struct aw_step_rules rules;
    struct aw_fallback_task task;
    uint32_t steps; /* of half a day */
};

static void world_deinit(struct world *world)
{
    aw_sim_free(world->sim);
    aw_load_deinit(&world->load);
}

/* `row`: an application, under its own load first, in later rounds under those of others. */
static enum aw_err world_init(const struct aw_library_teach_config *config, uint32_t row,
                              const struct aw_alloc *alloc, struct world *ret, struct aw_diag *diag)
{
    const struct aw_simulate_settings *s = &config->simulate.settings;
    const struct aw_pretrain_pool *pool = &config->pool;
    const uint32_t index = row % pool->count, round = row / pool->count;
    const uint32_t number = pool->first + index;
    const uint32_t lender = pool->first + (index + LOAD_SHIFT * round) % pool->count;
    struct aw_app app;
    struct world world = {0};
    if (pool->apps)
        app = pool->apps[number];
    else
        aw_app_generate(pool->seed, number, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &app);
    enum aw_err err = config->load_make(config->load_ctx, lender, alloc, &world.load, diag);
    if (err)
        return err;
    aw_load_scale_cores(&world.load, &app, config->cores);
    world.task = aw_simulate_task(s, &(struct aw_simulate_case){.app = app, .load = &world.load});
    world.workload = (struct aw_sim_workload){.app = app,
                                              .replicas = (uint32_t)world.task.replicas,
                                              .replicas_max = s->replicas_max,
                                              .cpu_millicores = world.task.cpu_millicores,
                                              .memory_bytes = world.task.memory_bytes};
    world.rules = (struct aw_step_rules){
        .objective = {.kind = AW_OBJECTIVE_CONSTRAINED,
                      .slo_weight = s->reward_weight,
                      .slo = {.quantile = 0.99,
                              .latency_us_p99 = world.task.slo_latency_us,
                              .timeout_us = config->simulate.sim.request_timeout_s * 1e6},
                      .prices = prices_of(s),
                      .cost_reference_per_hour = 1},
        .node = {.cpu_millicores = llround(config->simulate.sim.node_cores * 1e3),
                 .memory_bytes = llround(config->simulate.sim.node_memory_gib * AW_GIB_REAL)},
        .controlled = AW_PLAN_COMMON,
        .in_place = config->simulate.sim.in_place};
    aw_step_times(&world.rules, s->step_s, 4 * s->step_s);
    world.steps = (uint32_t)(world.load.slot_count / 2 * world.load.slot_us / world.rules.step_us);
    struct aw_guard_settings guard;
    aw_conf_defaults(aw_guard_fields, &guard);
    guard.mode = AW_GUARD_AUTO;
    if (world.steps < 2 * UNSCORED)
        err = aw_fail(diag, AW_ERR_NODATA, "a load of %u slots is too short to be lived in",
                      world.load.slot_count);
    err = err ? err : aw_guard_init(&world.rules.guard, &guard, &world.task.bounds, diag);
    err = err ? err : aw_sim_new(&config->simulate.sim, 1, 1, alloc, &world.sim, diag);
    *ret = world;
    ret->workload.load = &ret->load;
    uint32_t workload;
    err = err ? err : aw_sim_add(ret->sim, &ret->workload, &workload, diag);
    if (err)
        world_deinit(ret);
    else
        ret->cluster = aw_sim_cluster(ret->sim);
    return err;
}

static enum aw_err world_begin(struct world *world, uint64_t seed)
{
    enum aw_err err = aw_sim_replace(world->sim, WORKLOAD, &world->workload, 0);
    err = err ? err : aw_sim_reset(world->sim, seed);
    return err ? err : aw_step_advance(&world->rules, &world->cluster);
}

static enum aw_err world_act(struct world *world, struct aw_guard_memory *rails,
                             const struct aw_step_seen *seen, const struct aw_plan *proposed)
{
    struct aw_guard_result result;
    const struct aw_guard_input input = aw_step_input(
        &world->rules, &seen->reading, aw_step_slo(&world->rules, &seen->reading, &seen->score),
        seen->sample.restarts);
    const enum aw_err err =
        aw_step_act(&world->rules, rails, &world->cluster, WORKLOAD, &input, proposed, &result);
    return err ? err : aw_step_advance(&world->rules, &world->cluster);
}

/* Half a day under a rule that aims at `budget`. */
static enum aw_err play(struct world *world, const struct aw_capacity_rule *rule, double budget,
                        uint64_t seed, struct aw_library_lived *ret)
{
    const struct aw_capacity_rule_task task = {.bounds = world->task.bounds, .budget = budget};
    struct aw_capacity_rule_values values;
    struct aw_capacity_rule_memory memory;
    struct aw_guard_memory rails;
    double cores = 0, gib = 0, missed = 0;
    aw_capacity_rule_decode(rule, &values);
    aw_capacity_rule_begin(&memory);
    aw_guard_begin(&rails);
    enum aw_err err = world_begin(world, seed);
    for (uint32_t t = 0; !err && t < world->steps; t++) {
        struct aw_step_seen seen;
        struct aw_plan proposed;
        if ((err = aw_step_look(&world->rules, &world->cluster, WORKLOAD, &seen)))
            break;
        if (t >= UNSCORED) {
            const struct aw_outcome outcome = aw_outcome_of(&seen.reading);
            cores += outcome.allocated[AW_RESOURCE_CPU];
            gib += outcome.allocated[AW_RESOURCE_MEMORY];
            missed += seen.score.violated;
        }
        aw_capacity_rule_decide(&values, &task, &memory, &seen.reading, seen.score.violated, t > 0,
                                &proposed);
        err = world_act(world, &rails, &seen, &proposed);
    }
    const double scored = world->steps - UNSCORED;
    *ret = (struct aw_library_lived){(float)(cores / scored), (float)(gib / scored),
                                     (float)(missed / scored)};
    return err;
}

/* --- the best numbers of one application -------------------------------------------------------
 */

/* Ways to read a load: smoothed, steady, quick, by slow peaks, asleep between batches. */
static const double way[][AW_CAPACITY_RULE_DIM] = {
    /* window, peak, smooth, trim, floor, sleep, asleep */
    {[AW_CAPACITY_RULE_WINDOW] = 0.05, 0.05, 0.2, 0.35, 0, 0.9, 0.3},
    {[AW_CAPACITY_RULE_WINDOW] = 0.5, 0.85, 0.9, 0.35, 0, 0.9, 0.3},
    {[AW_CAPACITY_RULE_WINDOW] = 0.3, 0.5, 0.85, 0.45, 0.2, 0.9, 0.3},
    {[AW_CAPACITY_RULE_WINDOW] = 0.85, 0.6, 0.6, 0.35, 0, 0.9, 0.3},
    {[AW_CAPACITY_RULE_WINDOW] = 0.35, 0.5, 0.85, 0.45, 0.2, 0.6, 0.2},
};
#define WAYS (sizeof way / sizeof *way)
/* Shares of the budget that rules are searched for: careful and thrifty ones among them. */
static const double budget_factor[] = {1, 1, 1, 0.3, 5};
#define BUDGETS (sizeof budget_factor / sizeof *budget_factor)

static double cost_of(const struct aw_library_lived *lived, const struct aw_prices *prices)
{
    return (double)lived->cores * prices->core_hour + (double)lived->gib * prices->gib_hour;
}

static enum aw_err judge(struct world *world, const double *x, double budget, double *ret)
{
    struct aw_capacity_rule rule;
    struct aw_library_lived lived;
    memcpy(rule.x, x, sizeof rule.x);
    const enum aw_err err = play(world, &rule, budget, SEARCH_SEED, &lived);
    *ret = log(cost_of(&lived, &world->rules.objective.prices)) +
           aw_miss_price((double)lived.missed, AIM * budget);
    return err;
}

static enum aw_err search(struct world *world, uint32_t tries, double budget, uint64_t seed,
                          struct aw_capacity_rule *ret)
{
    const uint32_t draws = (uint32_t)(DRAWN * tries);
    double best[AW_CAPACITY_RULE_DIM] = {0}, best_value = INFINITY;
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0);
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < draws; i++) {
        double x[AW_CAPACITY_RULE_DIM], value;
        const uint32_t stratum = (uint32_t)((i * 7919ull) % draws); /* in no order of ways */
        memcpy(x, way[i % WAYS], sizeof x);
        x[AW_CAPACITY_RULE_CPU] = (stratum + aw_rng_double(&rng)) / draws;
        x[AW_CAPACITY_RULE_MARGIN] = 0.75 * pow(aw_rng_double(&rng), 1.5);
        err = judge(world, x, budget, &value);
        if (!err && value < best_value) {
            best_value = value;
            memcpy(best, x, sizeof best);
        }
    }
    struct aw_cma cma;
    aw_cma_init(&cma, AW_CAPACITY_RULE_DIM, best, SPREAD, DRAWS, seed);
    for (uint32_t t = draws; !err && t < tries; t += DRAWS) {
        double value[DRAWS];
        aw_cma_ask(&cma);
        for (uint32_t k = 0; !err && k < DRAWS; k++)
            err = judge(world, cma.x[k], budget, &value[k]);
        if (!err)
            aw_cma_tell(&cma, value);
    }
    memcpy(ret->x, cma.best_value < best_value ? cma.best : best, sizeof ret->x);
    return err;
}

/* What the first minutes under the default fallback show. */
static enum aw_err get_to_know(struct world *world, const struct aw_alloc *alloc, float *ret,
                               struct aw_diag *diag)
{
    struct aw_simulate_policy users;
    struct aw_relief_settings relief;
    struct aw_relief_memory relieved;
    struct aw_context_memory context;
    struct aw_guard_memory rails;
    struct aw_fallback *fallback = NULL;
    const struct aw_slo *slo = &world->rules.objective.slo;
    aw_conf_defaults(aw_relief_fields, &relief);
    aw_relief_begin(&relieved);
    aw_context_begin(&context);
    aw_guard_begin(&rails);
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
        ret[i] = NAN;
    enum aw_err err = aw_simulate_policy_named("hpa+vpa-mem", &users, diag);
    err = err ? err : aw_fallback_new(&users.policy, &world->task, alloc, &fallback, diag);
    err = err ? err : world_begin(world, CONTEXT_SEED);
    for (uint32_t t = 0; !err && t < world->steps; t++) {
        struct aw_step_seen seen;
        struct aw_plan proposed;
        if ((err = aw_step_look(&world->rules, &world->cluster, WORKLOAD, &seen)))
            break;
        const struct aw_figure *median = &seen.sample.latency_us_p50;
        aw_context_add(&context, &seen.reading,
                       median->at_us == AW_NEVER ? (double)NAN : median->value, slo,
                       seen.score.violated, world->rules.step_s);
        if (context.steps >= CONTEXT_STEPS && context.loaded >= CONTEXT_LOADED &&
            aw_context_read(&context, slo, ret))
            break;
        aw_relief_observe(&relief, &relieved, &world->task.bounds, AW_PLAN_COMMON, &seen.reading,
                          aw_step_slo(&world->rules, &seen.reading, &seen.score), true);
        aw_fallback_decide(fallback, &seen.sample, world->cluster.ops->now_us(world->cluster.self),
                           &proposed, NULL);
        aw_relief_floor(&relief, &relieved, &world->task.bounds, AW_PLAN_COMMON, &seen.reading,
                        &proposed);
        err = world_act(world, &rails, &seen, &proposed);
    }
    aw_fallback_free(fallback);
    return err;
}

/* --- all of them ------------------------------------------------------------------------------
 */

struct work {
    const struct aw_library_teach_config *config;
    const struct aw_alloc *alloc;
    struct aw_library *library;
    struct aw_capacity_rule *found; /* [count] */
    aw_library_teach_progress *progress;
    void *ctx;
    uint32_t before, all; /* pieces of earlier rounds, and of all */
};

static bool told(void *ctx, uint32_t done, uint32_t total)
{
    const struct work *work = ctx;
    (void)total;
    return !work->progress || work->progress(work->ctx, work->before + done, work->all);
}

static enum aw_err search_app(void *ctx, uint32_t index, struct aw_diag *diag)
{
    const struct work *work = ctx;
    const struct aw_library_teach_config *config = work->config;
    struct world world;
    enum aw_err err = world_init(config, index, work->alloc, &world, diag);
    if (err)
        return err;
    err = search(&world, config->tries,
                 budget_factor[index % BUDGETS] * config->simulate.settings.slo_budget,
                 config->simulate.seed + index, &work->found[index]);
    world_deinit(&world);
    return err;
}

static enum aw_err live_app(void *ctx, uint32_t index, struct aw_diag *diag)
{
    const struct work *work = ctx;
    struct aw_library *library = work->library;
    struct world world;
    enum aw_err err = world_init(work->config, index, work->alloc, &world, diag);
    if (err)
        return err;
    for (uint32_t r = 0; !err && r < library->rules; r++)
        err = play(&world, &library->rule[r], work->config->simulate.settings.slo_budget, LIVE_SEED,
                   &library->lived[(size_t)index * library->rules + r]);
    err = err ? err : get_to_know(&world, work->alloc, library->context[index], diag);
    world_deinit(&world);
    return err;
}

/* Of the numbers of all applications those farthest apart, what decides most counting most. */
static void spread_out(const struct aw_capacity_rule *found, uint32_t count, double *distance,
                       struct aw_library *library)
{
    for (uint32_t i = 0; i < count; i++)
        distance[i] = INFINITY;
    uint32_t at = 0;
    for (uint32_t r = 0; r < library->rules; r++) {
        const struct aw_capacity_rule *rule = &found[at];
        uint32_t next = 0;
        library->rule[r] = *rule;
        for (uint32_t i = 0; i < count; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < AW_CAPACITY_RULE_DIM; k++) {
                const double weight = k <= AW_CAPACITY_RULE_MARGIN ? 4
                                      : k <= AW_CAPACITY_RULE_PEAK ? 1.5
                                                                   : 0.5;
                const double off = found[i].x[k] - rule->x[k];
                sum += weight * off * off;
            }
            distance[i] = fmin(distance[i], sum);
            next = distance[i] > distance[next] ? i : next;
        }
        at = next;
    }
}

void aw_library_left_out(const struct aw_library *library, const struct aw_prices *prices,
                         double budget, uint32_t level, struct aw_library_left_out *ret)
{
    struct aw_library_left_out sum = {0};
    for (uint32_t app = 0; app < library->apps; app++) {
        const struct aw_library_lived *row = &library->lived[(size_t)app * library->rules];
        const struct aw_library_ask ask = {.context = library->context[app],
                                           .prices = *prices,
                                           .budget = budget,
                                           .level = level,
                                           .but = app};
        struct aw_library_choice choice;
        aw_library_choose(library, &ask, &choice);
        double best = INFINITY;
        for (uint32_t r = 0; r < library->rules; r++)
            best = fmin(best, log(cost_of(&row[r], prices)) +
                                  aw_miss_price((double)row[r].missed, budget));
        const struct aw_library_lived *taken = &row[choice.rule];
        sum.cost +=
            log(cost_of(taken, prices)) + aw_miss_price((double)taken->missed, budget) - best;
        sum.missed += (double)taken->missed;
        sum.within_share += (double)taken->missed <= budget;
    }
    ret->cost = exp(sum.cost / library->apps);
    ret->missed = sum.missed / library->apps;
    ret->within_share = sum.within_share / library->apps;
}

/* What each number of a context counts: doubled or halved as long as the choice gets better where
 * an application is not known. */
static bool weigh(const struct aw_library_teach_config *config, struct aw_library *library,
                  aw_library_teach_progress *progress, void *ctx)
{
    const struct aw_simulate_settings *s = &config->simulate.settings;
    const struct aw_prices prices = prices_of(s);
    struct aw_library_left_out left;
    aw_library_left_out(library, &prices, s->slo_budget, 0, &left);
    double best = left.cost;
    const uint32_t all = library->distinct + library->apps;
    for (uint32_t i = 0; i < WEIGHT_ROUNDS * AW_CONTEXT_DIM; i++) {
        static const float factor[] = {2, 0.5f, 0.0625f};
        float *weight = &library->weight[i % AW_CONTEXT_DIM];
        const float before = *weight;
        float keep = before;
        for (uint32_t k = 0; k < sizeof factor / sizeof *factor; k++) {
            *weight = before * factor[k];
            aw_library_left_out(library, &prices, s->slo_budget, 0, &left);
            if (left.cost < best) {
                best = left.cost;
                keep = *weight;
            }
        }
        *weight = keep;
        if (progress && !progress(ctx, all, all))
            return false;
    }
    return true;
}

enum aw_err aw_library_teach(const struct aw_library_teach_config *config,
                             aw_library_teach_progress *progress, void *ctx,
                             const struct aw_alloc *alloc, struct aw_library *ret,
                             struct aw_diag *diag)
{
    const uint32_t count = config->pool.count, rows = count * config->loads;
    struct aw_library library = {0};
    struct work work = {.config = config,
                        .alloc = alloc,
                        .library = &library,
                        .found = aw_alloc_new(alloc, count, sizeof *work.found),
                        .progress = progress,
                        .ctx = ctx,
                        .all = count + rows};
    double *distance = aw_alloc_new(alloc, count, sizeof *distance);
    enum aw_err err = work.found && distance ? AW_OK : AW_ERR_NOMEM;
    err = err ? err
              : aw_library_alloc(&library, config->rules < count ? config->rules : count, rows,
                                 alloc);
    library.distinct = count;
    if (err)
        aw_fail(diag, err, "no memory for a library of %u applications", count);
    const uint32_t threads = config->simulate.thread_count;
    err =
        err ? err : aw_parallel_tasks(threads, count, search_app, &work, told, &work, alloc, diag);
    if (!err) {
        spread_out(work.found, count, distance, &library);
        work.before = count;
        err = aw_parallel_tasks(threads, rows, live_app, &work, told, &work, alloc, diag);
    }
    if (!err) {
        aw_library_prepare(&library);
        if (!weigh(config, &library, progress, ctx))
            err = AW_ERR_INTERRUPTED;
        aw_library_prepare(&library); /* distances are others now */
    }
    aw_alloc_free(alloc, work.found);
    aw_alloc_free(alloc, distance);
    if (err)
        aw_library_deinit(&library);
    else
        *ret = library;
    return err;
}
