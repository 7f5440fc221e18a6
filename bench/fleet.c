/*
 * fleet.c - many workloads in one loop: what a tick costs, what all of them take, and whether
 * that stays so while workloads come, change and go.
 *
 * The fleet runs on the simulated cluster. Each workload has a policy of its own that acts from the
 * first tick on, drawn from its seed and worse than any that was learned: it changes more, so a
 * tick costs rather more than in production. Time is that of the thread, so that other work on the
 * machine does not count, and what the simulator takes is told by itself.
 */
#include "base/units.h"
#include "bench/bench.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/disk_sim.h"
#include "base/rng.h"
#include "base/stats.h"
#include "cluster/sim.h"
#include "desk/desk.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KINDS        64u /* applications, each with a load of its own */
#define LOAD_SLOTS   96u /* of a day */
#define NODES        64u
#define NODE_CORES   512.0 /* ten thousand workloads want some ten thousand cores */
#define NODE_GIB     4096.0
#define PERIOD_S     15.0
#define WARM_TICKS   20u
#define TICKS        40u
#define LOG_WARM     3u   /* ticks until the log has told what is new about all of them */
#define LOG_TICKS    15u  /* frozen, and then free */
#define CHURN_FLEET  500u /* workloads at any time */
#define CHURN_EACH   4u   /* that come, that change and that go in every tick */
#define CHURN_WARM_H 2u
#define LEARN_STEPS  64u  /* of an episode: all of them are to learn after the first */
#define LEARN_TICKS  300u /* measured while they do */
#define LEARN_ORDERS 20u
#define GOAL_TAIL    2.0 /* p99 of a tick, of its median */
#define GOAL_RSS_MIB 256.0
#define GOAL_SHARE   100.0 /* percent of one core */
#define GOAL_GROWTH  1.0   /* percent */

struct fleet {
    struct aw_app app[KINDS];
    struct aw_load load[KINDS];
    float rate[KINDS][LOAD_SLOTS];
    double slo_us[KINDS];
    struct aw_alloc_counting counting; /* of the loop */
    struct aw_sim *sim;
    struct aw_cluster cluster;
    struct aw_loop *loop;
    struct aw_rng rng;
    struct aw_desk *desk;          /* NULL: no log */
    struct aw_disk_sim disk;       /* of the log */
    struct aw_fallback_task *task; /* [count], for the desk; NULL: no log */
    uint32_t *pilot_bytes;         /* [count], before a tick; NULL: nobody asks */
    uint32_t made;                 /* workloads so far, for their names */
    bool quick;                    /* searches are, so that a day can be lived in a minute */
    bool learns;                   /* beside the ticks, all of them at a time */
};

static double thread_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* Resident memory of the process; NAN where the system does not tell. */
static double resident_mib(void)
{
    unsigned long long all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return NAN;
    const int read = fscanf(file, "%llu %llu", &all, &resident);
    fclose(file);
    return read == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) / AW_MIB_REAL : NAN;
}

/* --- the fleet -------------------------------------------------------------------------------- */

/* A day's wave, each kind at its own hour, that one to three cores serve. */
static void make_kinds(struct fleet *fleet)
{
    for (uint32_t k = 0; k < KINDS; k++) {
        aw_app_generate(1, k, aw_segment_builtin(), AW_SEGMENT_BUILTIN_COUNT, &fleet->app[k]);
        struct aw_demand demand;
        aw_app_demand(&fleet->app[k], 1, 0, &demand);
        fleet->slo_us[k] = 2 * aw_app_unloaded_p99_us(&fleet->app[k], 1, 0);
        const double cores = 0.2 + 0.1 * (k % 9);
        for (uint32_t i = 0; i < LOAD_SLOTS; i++) {
            const double hour = 2 * 3.14159265358979 * (i + 1.5 * k) / LOAD_SLOTS;
            fleet->rate[k][i] = (float)(cores * 1e3 / demand.cpu_ms * (1 + 0.6 * sin(hour)));
        }
        fleet->load[k] = (struct aw_load){.slot_count = LOAD_SLOTS,
                                          .slot_us = (int64_t)(86400 / LOAD_SLOTS) * 1000000,
                                          .rate_per_s = fleet->rate[k]};
    }
}

static void config_of(const struct fleet *fleet, uint32_t number, struct aw_pilot_config *ret)
{
    static const uint32_t replicas_max[] = {3, 5, 8, 16};
    aw_pilot_config_init(ret);
    snprintf(ret->name, sizeof ret->name, "fleet/w%u", number);
    ret->bounds = (struct aw_bounds){.replicas_min = 1,
                                     .replicas_max = replicas_max[number % 4],
                                     .cpu_millicores_min = 100,
                                     .cpu_millicores_max = 4000,
                                     .memory_bytes_min = (int64_t)64 << 20,
                                     .memory_bytes_max = (int64_t)8 << 30};
    ret->slo.latency_us_p99 = fleet->slo_us[number % KINDS];
    ret->step_s = PERIOD_S;
    ret->seed = number;
    ret->lifecycle.bootstrap = false;
    if (fleet->learns)
        ret->episode_steps = LEARN_STEPS;
    if (fleet->quick) {
        ret->rehearse.copies = 1;
        ret->rehearse.tries = ret->rehearse.tries_near = 1;
    }
}

static enum aw_err add(struct fleet *fleet, struct aw_diag *diag)
{
    const uint32_t number = fleet->made++, kind = number % KINDS;
    struct aw_pilot_config config;
    struct aw_demand demand;
    config_of(fleet, number, &config);
    aw_app_demand(&fleet->app[kind], 1, 0, &demand);
    struct aw_plan start = {.replicas = 2, .cpu_millicores = 1000};
    start.memory_bytes =
        (int64_t)(1.5 * AW_MIB_REAL * (demand.memory_base_mib + 16 * demand.memory_flight_mib));
    aw_bounds_clip(&config.bounds, &start);
    const struct aw_sim_workload placed = {.app = fleet->app[kind],
                                           .load = &fleet->load[kind],
                                           .replicas = start.replicas,
                                           .replicas_max = config.bounds.replicas_max,
                                           .cpu_millicores = start.cpu_millicores,
                                           .memory_bytes = start.memory_bytes};
    const struct aw_fallback_task task = {.bounds = config.bounds,
                                          .slo_latency_us = config.slo.latency_us_p99,
                                          .replicas = start.replicas,
                                          .cpu_millicores = start.cpu_millicores,
                                          .memory_bytes = start.memory_bytes};
    uint32_t there = 0, here = 0;
    enum aw_err err = aw_sim_add(fleet->sim, &placed, &there, diag);
    err = err ? err : aw_loop_add(fleet->loop, &config, &task, &here, diag);
    if (!err && here != there)
        err = aw_fail(diag, AW_ERR_CHECK, "workload %u of the cluster is %u of the loop", there,
                      here);
    if (!err && fleet->task)
        fleet->task[here] = task;
    return err;
}

static enum aw_err open_log(struct fleet *fleet, uint32_t count, struct aw_diag *diag)
{
    enum aw_err err = aw_disk_sim_init(&fleet->disk, 1, NULL);
    if (!err && !(fleet->task = aw_alloc_new(NULL, count, sizeof *fleet->task)))
        err = AW_ERR_NOMEM;
    if (err)
        return aw_fail(diag, err, "no memory for a log");
    struct aw_desk_config *config = aw_alloc_new(NULL, 1, sizeof *config);
    if (!config)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a log");
    config->disk = &fleet->disk.disk;
    snprintf(config->folder, sizeof config->folder, "/audit");
    err = aw_desk_new(config, NULL, &fleet->desk, NULL, diag);
    aw_alloc_free(NULL, config);
    return err;
}

enum life { TICKS_ALONE, TICKS_QUICK, TICKS_LOGGED, TICKS_LEARNING };

static enum aw_err open_fleet(struct fleet *fleet, uint32_t count, enum life life,
                              struct aw_diag *diag)
{
    const bool log = life >= TICKS_LOGGED;
    struct aw_sim_settings settings;
    memset(fleet, 0, sizeof *fleet);
    make_kinds(fleet);
    fleet->quick = life == TICKS_QUICK;
    fleet->learns = life == TICKS_LEARNING;
    aw_rng_init(&fleet->rng, 1, 0);
    aw_conf_defaults(aw_sim_fields, &settings);
    settings.node_count = NODES;
    settings.node_cores = NODE_CORES;
    settings.node_memory_gib = NODE_GIB;
    aw_alloc_counting_init(&fleet->counting);
    enum aw_err err = aw_sim_new(&settings, 1, count, NULL, &fleet->sim, diag);
    if (err)
        return err;
    if (log && (err = open_log(fleet, count, diag)))
        return err;
    fleet->cluster = aw_sim_cluster(fleet->sim);
    err = aw_loop_new(
        &(struct aw_loop_config){.cluster = fleet->cluster,
                                 .hooks = log ? aw_desk_hooks(fleet->desk) : NULL,
                                 .workloads_max = count,
                                 .learn_max = fleet->quick ? 1 : 0,
                                 .learning =
                                     fleet->learns ? AW_LOOP_LEARN_BESIDE : AW_LOOP_LEARN_AT_ONCE,
                                 .thread_count = fleet->learns ? aw_threads_cpu_count() : 0,
                                 .deadline_us = INT64_MAX},
        fleet->learns ? NULL : &fleet->counting.alloc, &fleet->loop, diag);
    for (uint32_t i = 0; !err && i < count; i++)
        err = add(fleet, diag);
    if (!err && log)
        err = aw_desk_attach(fleet->desk, fleet->loop, fleet->task, 0, diag);
    return err;
}

static void close_fleet(struct fleet *fleet)
{
    aw_loop_free(fleet->loop);
    aw_desk_free(fleet->desk);
    aw_disk_sim_deinit(&fleet->disk);
    aw_alloc_free(NULL, fleet->task);
    aw_alloc_free(NULL, fleet->pilot_bytes);
    aw_sim_free(fleet->sim);
}

/* A tick by the clock on the wall, and by the thread's own time. */
static enum aw_err tick_timed(struct fleet *fleet, double *ret_ms, double *ret_cpu_ms,
                              struct aw_diag *diag)
{
    const double cpu = thread_ms();
    const int64_t begin = aw_clock_monotonic_us(NULL);
    const enum aw_err err = aw_loop_tick(fleet->loop, NULL, NULL, diag);
    *ret_ms = 1e-3 * (double)(aw_clock_monotonic_us(NULL) - begin);
    *ret_cpu_ms = thread_ms() - cpu;
    return err;
}

/* A period passes. */
static enum aw_err pass(const struct fleet *fleet)
{
    const struct aw_cluster *cluster = &fleet->cluster;
    return cluster->ops->advance(cluster->self,
                                 cluster->ops->now_us(cluster->self) + (int64_t)(PERIOD_S * 1e6));
}

/* One period. `ret_loop_ms`, `ret_sim_ms`: what each took. */
static enum aw_err live(struct fleet *fleet, double *ret_loop_ms, double *ret_sim_ms,
                        struct aw_diag *diag)
{
    const double begin = thread_ms();
    enum aw_err err = aw_loop_tick(fleet->loop, NULL, NULL, diag);
    const double ticked = thread_ms();
    err = err ? err : pass(fleet);
    *ret_loop_ms = ticked - begin;
    *ret_sim_ms = thread_ms() - ticked;
    return err;
}

/* --- figures ---------------------------------------------------------------------------------- */

static void figure(struct aw__bench *bench, const char *unit, double value, double goal,
                   const char *name)
{
    struct aw__bench_figure *added = aw__bench_add(bench, unit, "%s", name);
    added->value = value;
    added->goal = goal;
    added->lower_is_better = true;
}

/* A pilot grows where its fallback makes room for more pods than it ever saw, by one block. */
static void note_sizes(struct fleet *fleet)
{
    for (uint32_t i = 0; i < aw_loop_count(fleet->loop); i++)
        fleet->pilot_bytes[i] = (uint32_t)aw_pilot_bytes(aw_loop_pilot(fleet->loop, i), false);
}

static uint32_t grown_since(const struct fleet *fleet)
{
    uint32_t grown = 0;
    for (uint32_t i = 0; i < aw_loop_count(fleet->loop); i++)
        grown += aw_pilot_bytes(aw_loop_pilot(fleet->loop, i), false) > fleet->pilot_bytes[i];
    return grown;
}

static enum aw_err ticks(struct fleet *fleet, uint32_t count, struct aw__bench *bench,
                         struct aw_diag *diag)
{
    const double before = resident_mib();
    double loop_ms[TICKS], sim_ms[TICKS];
    enum aw_err err = open_fleet(fleet, count, TICKS_ALONE, diag);
    if (!err && !(fleet->pilot_bytes = aw_alloc_new(NULL, count, sizeof *fleet->pilot_bytes)))
        err = aw_fail(diag, AW_ERR_NOMEM, "no memory for a fleet");
    for (uint32_t i = 0; !err && i < WARM_TICKS; i++)
        err = live(fleet, &loop_ms[0], &sim_ms[0], diag);
    const uint64_t allocations = fleet->counting.alloc_count;
    const uint64_t plans = err ? 0 : aw_loop_counts(fleet->loop)->plans_applied;
    uint64_t grown = 0;
    for (uint32_t i = 0; !err && i < TICKS; i++) {
        note_sizes(fleet);
        err = live(fleet, &loop_ms[i], &sim_ms[i], diag);
        grown += err ? 0 : grown_since(fleet);
    }
    if (err)
        return err;
    const double resident = resident_mib();
    aw_stats_sort(loop_ms, TICKS);
    aw_stats_sort(sim_ms, TICKS);
    const double median = aw_stats_quantile(loop_ms, TICKS, 0.5);
    figure(bench, "", count, NAN, "workloads in one loop");
    figure(bench, "ms", median, NAN, "tick of all of them, median");
    figure(bench, "ms", loop_ms[TICKS - 1], NAN, "tick of all of them, the longest of 40");
    figure(bench, "us", 1e3 * median / count, NAN, "a workload's part of a tick");
    figure(bench, "%", loop_ms[TICKS - 1] / (10 * PERIOD_S), GOAL_SHARE,
           "the longest tick, of one core and a period of 15 s");
    figure(bench, "%",
           (double)(aw_loop_counts(fleet->loop)->plans_applied - plans) * 100 / TICKS / count, NAN,
           "workloads changed in a tick");
    figure(bench, "ms", aw_stats_quantile(sim_ms, TICKS, 0.5), NAN,
           "the simulated cluster's part of a period, median");
    figure(bench, "", (double)grown, NAN, "in 40 ticks, workloads with more pods than ever before");
    figure(bench, "", (double)(fleet->counting.alloc_count - allocations - grown), 0,
           "allocations in 40 ticks, beyond one for each of those");
    figure(bench, "KiB", (double)aw_loop_bytes(fleet->loop) / 1024 / count, NAN,
           "loop and pilot of one workload");
    figure(bench, "KiB", (resident - before) * 1024 / count, NAN,
           "all that a workload takes, simulator included");
    figure(bench, "MiB", resident, GOAL_RSS_MIB, "resident memory of the process");
    return AW_OK;
}

/* --- what a change costs -----------------------------------------------------------------------
 */

/* Median tick, and how many workloads it changes. */
static enum aw_err median_tick(struct fleet *fleet, double *ret_ms, double *ret_changes,
                               struct aw_diag *diag)
{
    double loop_ms[LOG_TICKS], sim_ms;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < LOG_WARM; i++)
        err = live(fleet, &loop_ms[0], &sim_ms, diag);
    const uint64_t before = aw_loop_counts(fleet->loop)->plans_applied;
    for (uint32_t i = 0; !err && i < LOG_TICKS; i++)
        err = live(fleet, &loop_ms[i], &sim_ms, diag);
    if (err)
        return err;
    aw_stats_sort(loop_ms, LOG_TICKS);
    *ret_ms = aw_stats_quantile(loop_ms, LOG_TICKS, 0.5);
    *ret_changes = (double)(aw_loop_counts(fleet->loop)->plans_applied - before) / LOG_TICKS;
    return AW_OK;
}

/* With the audit log: first everything is frozen, then nothing is. */
static enum aw_err changes(struct fleet *fleet, uint32_t count, struct aw__bench *bench,
                           struct aw_diag *diag)
{
    struct aw_order order = {.kind = AW_ORDER_FREEZE,
                             .scope = AW_SCOPE_ALL,
                             .until_us = AW_FOR_EVER,
                             .freeze_until_us = AW_NEVER,
                             .reason = "to see what a tick costs that changes nothing"};
    double still_ms = 0, still = 0, free_ms = 0, moved = 0;
    enum aw_err err = open_fleet(fleet, count, TICKS_LOGGED, diag);
    const double resident = resident_mib(); /* the simulated disk, which grows, is empty still */
    err = err ? err : aw_desk_order(fleet->desk, &order, 0, NULL, diag);
    err = err ? err : median_tick(fleet, &still_ms, &still, diag);
    order.kind = AW_ORDER_UNFREEZE;
    err = err ? err : aw_desk_order(fleet->desk, &order, 0, NULL, diag);
    err = err ? err : median_tick(fleet, &free_ms, &moved, diag);
    if (err)
        return err;
    figure(bench, "MiB", resident, GOAL_RSS_MIB, "resident memory with the audit log");
    figure(bench, "ms", still_ms, NAN, "tick with the audit log, all frozen, median");
    figure(bench, "", still, NAN, "workloads changed in such a tick");
    figure(bench, "ms", free_ms, NAN, "tick with the audit log, nothing frozen, median");
    figure(bench, "", moved, NAN, "workloads changed in such a tick");
    figure(bench, "us", 1e3 * (free_ms - still_ms) / (moved - still), NAN,
           "what a workload more that is changed costs");
    return AW_OK;
}

/* --- while everything learns ------------------------------------------------------------------ */

/* A person asks for three replicas at least. */
static enum aw_err emergency(struct fleet *fleet, uint32_t workload, struct aw_diag *diag)
{
    struct aw_order order = {.kind = AW_ORDER_EMERGENCY,
                             .scope = AW_SCOPE_WORKLOAD,
                             .until_us = AW_FOR_EVER,
                             .freeze_until_us = AW_NEVER,
                             .plan = {.set = AW_PLAN_REPLICAS, .replicas = 3},
                             .reason = "to see when it is obeyed"};
    const struct aw_pilot *pilot = aw_loop_pilot(fleet->loop, workload);
    snprintf(order.name, sizeof order.name, "%s", aw_pilot_config(pilot)->name);
    const struct aw_cluster *cluster = &fleet->cluster;
    return aw_desk_order(fleet->desk, &order, cluster->ops->now_us(cluster->self), NULL, diag);
}

/* With the audit log, on the clock on the wall: what a tick waits for counts. */
static enum aw_err learning(struct fleet *fleet, uint32_t count, struct aw__bench *bench,
                            struct aw_diag *diag)
{
    static double ms[LEARN_TICKS], cpu_ms[LEARN_TICKS];
    double sim_ms, obeyed_ms = 0;
    uint32_t obeyed = 0;
    enum aw_err err = open_fleet(fleet, count, TICKS_LEARNING, diag);
    for (uint32_t i = 0; !err && i < LEARN_STEPS + 2; i++)
        err = live(fleet, &cpu_ms[0], &sim_ms, diag);
    const uint64_t rounds = err ? 0 : aw_loop_counts(fleet->loop)->learn_rounds;
    double waiting = INFINITY;
    for (uint32_t i = 0; !err && i < LEARN_TICKS; i++) {
        const bool ordered = i % (LEARN_TICKS / LEARN_ORDERS) == 0;
        const uint32_t who = i * 31 % count;
        if (ordered)
            err = emergency(fleet, who, diag);
        const int64_t begin = aw_clock_monotonic_us(NULL);
        err = err ? err : tick_timed(fleet, &ms[i], &cpu_ms[i], diag);
        if (!err && ordered) {
            obeyed += aw_pilot_decision(aw_loop_pilot(fleet->loop, who))->orders.floor_id != 0;
            obeyed_ms = fmax(obeyed_ms, 1e-3 * (double)(aw_clock_monotonic_us(NULL) - begin));
        }
        err = err ? err : pass(fleet);
        waiting = err ? 0 : fmin(waiting, (double)aw_loop_counts(fleet->loop)->learn_waiting);
    }
    if (err)
        return err;
    aw_stats_sort(ms, LEARN_TICKS);
    aw_stats_sort(cpu_ms, LEARN_TICKS);
    const double median = aw_stats_quantile(ms, LEARN_TICKS, 0.5);
    const double p99 = aw_stats_quantile(ms, LEARN_TICKS, 0.99);
    figure(bench, "", waiting, NAN, "workloads that wait to learn, at the least");
    figure(bench, "", (double)(aw_loop_counts(fleet->loop)->learn_rounds - rounds), NAN,
           "rounds of learning in 300 ticks");
    figure(bench, "ms", median, NAN, "tick while everything learns, median");
    figure(bench, "ms", p99, NAN, "tick while everything learns, p99");
    figure(bench, "ms", ms[LEARN_TICKS - 1], NAN, "tick while everything learns, the longest");
    figure(bench, "", p99 / median, GOAL_TAIL, "p99 of a tick, of its median");
    figure(bench, "",
           aw_stats_quantile(cpu_ms, LEARN_TICKS, 0.99) /
               aw_stats_quantile(cpu_ms, LEARN_TICKS, 0.5),
           GOAL_TAIL, "the same of the thread's own time");
    figure(bench, "", (double)LEARN_ORDERS - obeyed, 0, "of 20 emergencies, not in the next tick");
    figure(bench, "ms", obeyed_ms, NAN, "longest from an emergency to what it orders");
    return AW_OK;
}

/* --- coming and going ------------------------------------------------------------------------- */

static enum aw_err churn_once(struct fleet *fleet, struct aw_diag *diag)
{
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; !err && i < CHURN_EACH; i++) {
        const uint32_t gone = aw_rng_below(&fleet->rng, CHURN_FLEET);
        err = aw_loop_remove(fleet->loop, gone);
        err = err ? err : aw_sim_remove(fleet->sim, gone);
        err = err ? err : add(fleet, diag);
    }
    for (uint32_t i = 0; !err && i < CHURN_EACH; i++) {
        const uint32_t other = aw_rng_below(&fleet->rng, CHURN_FLEET);
        struct aw_pilot_config config = *aw_pilot_config(aw_loop_pilot(fleet->loop, other));
        if (aw_rng_below(&fleet->rng, 2))
            config.slo.latency_us_p99 *= aw_rng_uniform(&fleet->rng, 0.9, 1.1);
        else
            config.bounds.cpu_millicores_max = 2000 + 500 * aw_rng_below(&fleet->rng, 5);
        err = aw_loop_update(fleet->loop, other, &config, diag);
    }
    return err;
}

static enum aw_err churn(struct fleet *fleet, uint32_t hours, struct aw__bench *bench,
                         struct aw_diag *diag)
{
    const uint32_t per_hour = (uint32_t)(3600 / PERIOD_S);
    double warm = NAN, highest = 0, loop_ms, sim_ms;
    uint64_t warm_blocks = 0, most_blocks = 0;
    enum aw_err err = open_fleet(fleet, CHURN_FLEET, TICKS_QUICK, diag);
    for (uint32_t i = 0; !err && i < hours * per_hour; i++) {
        err = churn_once(fleet, diag);
        err = err ? err : live(fleet, &loop_ms, &sim_ms, diag);
        if (err || (i + 1) % per_hour != 0)
            continue;
        const uint64_t blocks = fleet->counting.alloc_count - fleet->counting.free_count;
        if (i < CHURN_WARM_H * per_hour) {
            warm = resident_mib();
            warm_blocks = blocks;
        }
        highest = fmax(highest, resident_mib());
        most_blocks = blocks > most_blocks ? blocks : most_blocks;
    }
    if (err)
        return err;
    const struct aw_loop_counts *counts = aw_loop_counts(fleet->loop);
    figure(bench, "h", hours, NAN, "simulated, of 500 workloads that come, change and go");
    figure(bench, "", fleet->made, NAN, "workloads that came");
    figure(bench, "", (double)counts->decisions, NAN, "decisions");
    figure(bench, "", (double)counts->learn_rounds, NAN, "searches for a policy");
    figure(bench, "MiB", warm, NAN, "resident memory after two hours");
    figure(bench, "%", 100 * (highest / warm - 1), GOAL_GROWTH, "growth of it until the end");
    figure(bench, "", (double)most_blocks - (double)warm_blocks, 0, "growth of blocks in use");
    return AW_OK;
}

enum aw_err aw__bench_fleet(struct aw__bench *bench, struct aw_diag *diag)
{
    const uint32_t count = bench->workload_count, hours = bench->hours;
    aw_alloc_steady(); /* as the daemon does */
    struct fleet *fleet = aw_alloc_new(NULL, 1, sizeof *fleet);
    if (!fleet)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a fleet");
    enum aw_err err = ticks(fleet, count, bench, diag);
    close_fleet(fleet);
    if (!err) {
        err = changes(fleet, count, bench, diag);
        close_fleet(fleet);
    }
    if (!err) {
        err = learning(fleet, count, bench, diag);
        close_fleet(fleet);
    }
    if (!err && hours) {
        err = churn(fleet, hours, bench, diag);
        close_fleet(fleet);
    }
    aw_alloc_free(NULL, fleet);
    return err;
}
