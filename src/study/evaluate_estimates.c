/*
 * evaluate_estimates.c - how far the estimate that lets an agent act can be trusted.
 *
 * A workload lives under its fallback and the agent learns, but is never let out. At every search
 * there is an estimate: by how much per episode its policy is better, from low to high. Then the
 * world is copied twice, in one the policy takes over and in the other the fallback goes on, under
 * the load that really comes and with the same chance, for as many episodes as the lifecycle
 * judges by. The truth is the difference of their scores, as the lifecycle counts them.
 */
#include "study/evaluate_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "control/pilot_peek.h"

#define NEVER_ENOUGH   1e300 /* a threshold that no estimate reaches */
#define NO_BOUND       1e12  /* of a watchdog: the policy alone is asked */
#define COVER_LEAST    0.7   /* of truths within 80 % intervals */
#define COVER_MOST     0.9
#define TAIL           0.1 /* beyond either end of an 80 % interval */
#define EARLY_EPISODES 10u

/* A workload on a cluster of its own. */
struct world {
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_step_rules rules; /* its times alone */
    struct aw_pilot *pilot;
};

static void world_free(struct world *world)
{
    aw_pilot_free(world->pilot);
    aw_sim_free(world->sim);
}

static enum aw_err world_new(const struct aw__life *life, const struct aw_pilot_config *pilot,
                             const struct aw_alloc *alloc, struct world *ret, struct aw_diag *diag)
{
    const struct aw_fallback_task *task = &life->rule->task;
    const struct aw_sim_workload placed = {.app = life->app->app,
                                           .load = life->load,
                                           .replicas = task->replicas,
                                           .replicas_max = pilot->bounds.replicas_max,
                                           .cpu_millicores = task->cpu_millicores,
                                           .memory_bytes = task->memory_bytes};
    struct world world = {0};
    uint32_t index;
    enum aw_err err =
        aw_sim_new(&life->config->simulate.sim, pilot->seed, 1, alloc, &world.sim, diag);
    err = err ? err : aw_sim_add(world.sim, &placed, &index, diag);
    err = err ? err : aw_pilot_new(pilot, task, 0, alloc, &world.pilot, diag);
    if (err) {
        world_free(&world);
        return err;
    }
    world.cluster = aw_sim_cluster(world.sim);
    aw_step_times(&world.rules, pilot->step_s, pilot->stale_s);
    *ret = world;
    return AW_OK;
}

/* What an episode adds up to, as the pilot adds it. */
struct sums {
    double cost, need;
    uint32_t violations, steps;
};

/* Sees and decides. The figures of the step that has ended go into `sums`, where there is one. */
static enum aw_err world_tick(const struct world *world, struct sums *sums)
{
    const struct aw_cluster *cluster = &world->cluster;
    struct aw_pilot *pilot = world->pilot;
    const int64_t now = cluster->ops->now_us(cluster->self);
    struct aw_sample sample;
    struct aw_store_row row;
    enum aw_err err = cluster->ops->observe(cluster->self, 0, INT64_MAX, &sample);
    if (err)
        return err;
    if (aw_pilot_observe(pilot, &sample, now, &row)) {
        const struct aw_pilot_config *config = aw_pilot_config(pilot);
        struct aw_pilot_peek seen;
        aw_pilot_peek(pilot, &seen);
        sums->cost += seen.score->cost;
        sums->need += aw_need_per_hour(&config->prices, &config->bounds, seen.reading) *
                      config->step_s / 3600;
        sums->violations += seen.score->violated;
        sums->steps++;
    }
    const struct aw_decision *decision = aw_pilot_decide(pilot, NULL, now);
    if (decision->guard.plan.set) {
        err = cluster->ops->apply(cluster->self, 0, &decision->guard.plan, INT64_MAX);
        aw_pilot_applied(pilot, !err, now);
    }
    return AW_OK;
}

/* --- the truth -------------------------------------------------------------------------------- */

/* What comes after now if the policy acts, or if the fallback goes on: mean score of an episode. */
static enum aw_err follow(const struct world *other, bool agent, uint32_t episodes, double *ret)
{
    struct aw_pilot *pilot = other->pilot;
    const struct aw_pilot_config *config = aw_pilot_config(pilot);
    const uint32_t steps = config->episode_steps;
    aw_pilot_set_stage(pilot, agent ? AW_STAGE_ONLINE : AW_STAGE_OFFLINE,
                       other->cluster.ops->now_us(other->cluster.self));
    double score = 0;
    struct sums sums = {0};
    /* the step in flight is still of who acted before: its figures are in `before` */
    enum aw_err err = aw_step_advance(&other->rules, &other->cluster);
    struct sums before = {0};
    err = err ? err : world_tick(other, &before);
    for (uint32_t i = 0; !err && i < episodes * steps; i++) {
        err = aw_step_advance(&other->rules, &other->cluster);
        err = err ? err : world_tick(other, &sums);
        if (sums.steps < steps)
            continue;
        score += aw_episode_score(steps, config->lambda, sums.cost, sums.need,
                                  (double)sums.violations / sums.steps) /
                 episodes;
        sums = (struct sums){0};
    }
    if (!err)
        *ret = score;
    return err;
}

struct unit {
    struct aw_evaluate_estimate row[AW_EVALUATE_MOMENTS_MAX];
    uint32_t count;
};

struct work {
    const struct aw_evaluate_config *config;
    const struct aw_evaluate_app *apps;
    const struct aw_alloc *alloc;
    struct unit *unit; /* [count * seeds * AW_EVALUATE_FALLBACKS] */
};

/* Both futures of this moment. `other` is a world of the same shape, overwritten twice. */
static enum aw_err look_ahead(const struct world *world, const struct world *other,
                              unsigned char *bytes, struct aw_evaluate_estimate *row)
{
    struct aw_pilot_peek seen;
    const size_t pilot_bytes = aw_pilot_state_bytes(world->pilot);
    double score[2] = {0};
    enum aw_err err = AW_OK;
    aw_pilot_state_save(world->pilot, bytes);
    aw_sim_state_save(world->sim, bytes + pilot_bytes);
    for (uint32_t agent = 0; !err && agent < 2; agent++) {
        err = aw_pilot_state_load(other->pilot, bytes);
        err = err ? err : aw_sim_state_load(other->sim, bytes + pilot_bytes);
        err = err ? err
                  : follow(other, agent, aw_pilot_config(world->pilot)->lifecycle.window,
                           &score[agent]);
    }
    if (err)
        return err;
    aw_pilot_peek(world->pilot, &seen);
    row->episode = seen.episode;
    row->mean = seen.better_mean;
    row->low = seen.better_low;
    row->high = seen.better_high;
    row->truth = score[1] - score[0];
    row->fallback_score = score[0];
    return AW_OK;
}

static enum aw_err live(const struct aw__life *life, uint32_t steps, const struct aw_alloc *alloc,
                        struct unit *unit, struct aw_diag *diag)
{
    struct aw_pilot_config config;
    aw__life_pilot(life, &config);
    config.thresholds.online = NEVER_ENOUGH;
    struct world world = {0}, other = {0};
    unsigned char *bytes = NULL;
    enum aw_err err = world_new(life, &config, alloc, &world, diag);
    config.learning = false;
    config.watchdog.slack = config.watchdog.strange = NO_BOUND;
    err = err ? err : world_new(life, &config, alloc, &other, diag);
    if (!err && !(bytes = aw_alloc_new(
                      alloc, aw_pilot_state_bytes(world.pilot) + aw_sim_state_bytes(world.sim), 1)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a world to come back to");
    for (uint32_t step = 0; !err && step < steps && unit->count < AW_EVALUATE_MOMENTS_MAX; step++) {
        struct sums unused = {0};
        err = world_tick(&world, &unused);
        if (!err && aw_pilot_learn_due(world.pilot)) {
            err = aw_pilot_learn(world.pilot, diag);
            struct aw_pilot_peek seen;
            aw_pilot_peek(world.pilot, &seen);
            const bool judged = !err && isfinite(seen.better_mean);
            err = err == AW_ERR_NODATA ? AW_OK : err;
            if (judged)
                err = look_ahead(&world, &other, bytes, &unit->row[unit->count++]);
        }
        err = err ? err : aw_step_advance(&world.rules, &world.cluster);
    }
    aw_alloc_free(alloc, bytes);
    world_free(&other);
    world_free(&world);
    return err;
}

static enum aw_err run_unit(void *ctx, uint32_t turn, struct aw_diag *diag)
{
    const struct work *work = ctx;
    const struct aw_evaluate_config *config = work->config;
    const uint32_t pair = turn / AW_EVALUATE_FALLBACKS, fallback = turn % AW_EVALUATE_FALLBACKS;
    const struct aw_evaluate_app *app = &work->apps[pair / config->seeds];
    const uint64_t seed = config->simulate.seed + pair % config->seeds;
    struct unit *unit = &work->unit[turn];
    struct aw__day day;
    struct aw__rule rule;
    enum aw_err err = aw__day_of(app, config->simulate.settings.step_s, &day, diag);
    err = err ? err
              : aw__rule_tune(config, app, &day, seed, aw_evaluate_fallback_names[fallback],
                              work->alloc, &rule, diag);
    if (err)
        return err;
    const struct aw__life life = {.config = config,
                                  .app = app,
                                  .load = &day.whole,
                                  .rule = &rule,
                                  .seed = seed,
                                  .bootstrap = true,
                                  .retrain = true};
    err = live(&life, day.half_steps, work->alloc, unit, diag);
    for (uint32_t i = 0; i < unit->count; i++) {
        unit->row[i].index = app->index;
        unit->row[i].fallback = fallback;
        unit->row[i].seed = seed;
        snprintf(unit->row[i].app, sizeof unit->row[i].app, "%s", app->app.name);
    }
    return err;
}

uint32_t aw_evaluate_estimates_max(const struct aw_evaluate_config *config, uint32_t count)
{
    return count * config->seeds * AW_EVALUATE_FALLBACKS * AW_EVALUATE_MOMENTS_MAX;
}

enum aw_err aw_evaluate_estimates(const struct aw_evaluate_config *config,
                                  const struct aw_evaluate_app *apps, uint32_t count,
                                  aw_evaluate_progress *progress, void *ctx,
                                  const struct aw_alloc *alloc, struct aw_evaluate_estimate *ret,
                                  uint32_t *ret_count, struct aw_diag *diag)
{
    if (config->pilot.agent != AW_POLICY_CAPACITY)
        return aw_fail(diag, AW_ERR_CONFIG,
                       "estimates are looked at of a formula; those of a network have a bench of "
                       "their own");
    if (config->simulate.sim.model != AW_SIM_FAST)
        return aw_fail(diag, AW_ERR_UNSUPPORTED, "only the fast model can be copied");
    const uint32_t units = count * config->seeds * AW_EVALUATE_FALLBACKS;
    struct work work = {config, apps, alloc, aw_alloc_new(alloc, units, sizeof(struct unit))};
    if (!work.unit)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u runs", units);
    enum aw_err err = aw_parallel_tasks(config->simulate.thread_count, units, run_unit, &work,
                                        progress, ctx, alloc, diag);
    uint32_t rows = 0;
    for (uint32_t i = 0; !err && i < units; i++)
        for (uint32_t k = 0; k < work.unit[i].count; k++)
            ret[rows++] = work.unit[i].row[k];
    if (!err)
        *ret_count = rows;
    aw_alloc_free(alloc, work.unit);
    return err;
}

/* --- figures ---------------------------------------------------------------------------------- */

const char *const aw_evaluate_group_names[] = {
#define X(id, name) name,
    AW_EVALUATE_GROUP_MAP(X)
#undef X
};

static bool belongs(const struct aw_evaluate_estimate *row, enum aw_evaluate_group group)
{
    switch (group) {
    case AW_EVALUATE_GROUP_HPA_VPA:
        return row->fallback == 0;
    case AW_EVALUATE_GROUP_HPA_MEM:
        return row->fallback == 1;
    case AW_EVALUATE_GROUP_EARLY:
        return row->episode < EARLY_EPISODES;
    case AW_EVALUATE_GROUP_LATE:
        return row->episode >= EARLY_EPISODES;
    case AW_EVALUATE_GROUP_PASSED:
        return row->low >= 0;
    default:
        return true;
    }
}

static bool holds(const struct aw_evaluate_estimate *row)
{
    return row->low <= row->truth && row->truth <= row->high;
}

static void group_sum(const struct aw_evaluate_estimate *rows, uint32_t count, uint32_t group,
                      double *scratch, struct aw_evaluate_estimates_sum *sum)
{
    double *width = scratch, *error = scratch + count;
    uint32_t n = 0, within = 0, above = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct aw_evaluate_estimate *row = &rows[i];
        if (!belongs(row, (enum aw_evaluate_group)group))
            continue;
        within += holds(row);
        above += row->truth >= row->low;
        sum->by[group].better += row->truth >= 0;
        const double scale = fabs(row->fallback_score);
        width[n] = 0.5 * (row->high - row->low) / scale;
        error[n++] = fabs(row->truth - row->mean) / scale;
    }
    aw_stats_sort(width, n);
    aw_stats_sort(error, n);
    sum->by[group].cases = n;
    sum->by[group].within = n ? (double)within / n : (double)NAN;
    sum->by[group].above = n ? (double)above / n : (double)NAN;
    sum->by[group].width = n ? aw_stats_median(width, n) : (double)NAN;
    sum->by[group].error = n ? aw_stats_median(error, n) : (double)NAN;
}

/* The least factor that leaves at most TAIL of new cases beyond, if they are like these: the
 * ceil((n + 1)(1 - TAIL))-th smallest (Vovk et al., 2005). INFINITY where they are too few. */
static double conformal(double *x, uint32_t n)
{
    const double rank = ceil((n + 1) * (1 - TAIL));
    aw_stats_sort(x, n);
    return rank <= n ? fmax(0, x[(uint32_t)rank - 1]) : (double)INFINITY;
}

/* Shares of applications, so that those with many searches do not count for more than one in the
 * spread. */
static enum aw_err coverage_interval(const struct aw_evaluate_estimate *rows, uint32_t count,
                                     double *scratch, const struct aw_alloc *alloc,
                                     struct aw_interval *ret, struct aw_diag *diag)
{
    uint32_t apps = 0;
    for (uint32_t i = 0; i < count;) {
        uint32_t n = 0, within = 0;
        for (; i + n < count && rows[i + n].index == rows[i].index; n++)
            within += holds(&rows[i + n]);
        scratch[apps++] = (double)within / n;
        i += n;
    }
    return aw__interval(scratch, apps, alloc, ret, diag);
}

enum aw_err aw_evaluate_estimates_sum(const struct aw_evaluate_estimate *rows, uint32_t count,
                                      const struct aw_alloc *alloc,
                                      struct aw_evaluate_estimates_sum *ret, struct aw_diag *diag)
{
    struct aw_evaluate_estimates_sum sum = {0};
    AW_ASSERT(count > 0);
    double *scratch = aw_alloc_new(alloc, count, 2 * sizeof *scratch);
    if (!scratch)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u figures", count);
    for (uint32_t g = 0; g < AW_EVALUATE_GROUPS; g++)
        group_sum(rows, count, g, scratch, &sum);
    for (uint32_t i = 0; i < count; i++) {
        scratch[i] = (rows[i].mean - rows[i].truth) / (rows[i].mean - rows[i].low);
        scratch[count + i] = (rows[i].truth - rows[i].mean) / (rows[i].high - rows[i].mean);
    }
    sum.factor_low = conformal(scratch, count);
    sum.factor_high = conformal(scratch + count, count);
    enum aw_err err = coverage_interval(rows, count, scratch, alloc, &sum.within_interval, diag);
    aw_alloc_free(alloc, scratch);
    if (err)
        return err;
    const double within = sum.by[AW_EVALUATE_GROUP_ALL].within;
    sum.goal[0] = (struct aw_evaluate_goal){
        .name = "truths within 80 % intervals", .value = within, .goal = COVER_LEAST};
    sum.goal[1] =
        (struct aw_evaluate_goal){.name = "the same: intervals no wider than they need be",
                                  .value = within,
                                  .goal = COVER_MOST,
                                  .lower_is_better = true};
    sum.goal_count = 2;
    *ret = sum;
    return AW_OK;
}
