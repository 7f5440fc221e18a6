/* chaos_world.c - a world from a seed: who runs there, how it is guarded, what may go wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "chaos/chaos_internal.h"
#include "simulation/simulate.h"

#define SHAPE_STREAM       1u   /* of the seed: what a world is like */
#define STORY_STREAM       2u   /* and what happens in it */
#define FAULT_SHARE        0.35 /* of all faults, that one world has */
#define STEPS_LEAST        100u
#define STEPS_MORE         120u
#define WORKLOADS_LEAST    2u
#define WORKLOADS_MORE     3u
#define STORE_ROWS         8192u
#define STORE_EPISODES     1024u
#define SAVE_EVERY_AT_MOST 12u

static double draw(struct aw_rng *rng, double low, double high)
{
    return aw_rng_uniform(rng, low, high);
}

/* Log-uniform: as often from 1 to 2 as from 10 to 20. */
static double draw_log(struct aw_rng *rng, double low, double high)
{
    return exp(aw_rng_uniform(rng, log(low), log(high)));
}

static bool toss(struct aw_rng *rng, double share)
{
    return aw_rng_double(rng) < share;
}

#define PICK(rng, list) (list)[aw_rng_below((rng), sizeof(list) / sizeof *(list))]

/* --- one workload ----------------------------------------------------------------------------- */

/* Rails tight enough to be met within a few hours of virtual time. */
static void draw_guard(struct aw_rng *rng, struct aw_guard_settings *guard)
{
    static const uint32_t modes[] = {AW_GUARD_AUTO,    AW_GUARD_AUTO, AW_GUARD_AUTO,
                                     AW_GUARD_AUTO,    AW_GUARD_AUTO, AW_GUARD_AUTO,
                                     AW_GUARD_APPROVE, AW_GUARD_OFF,  AW_GUARD_INITIAL};
    guard->mode = PICK(rng, modes);
    guard->replicas_up_factor = draw(rng, 1.2, 4);
    guard->replicas_down_factor = draw(rng, 1.2, 3);
    guard->cpu_up_factor = draw(rng, 1.2, 4);
    guard->cpu_down_factor = draw(rng, 1.2, 3);
    guard->memory_up_factor = draw(rng, 1.2, 4);
    guard->memory_down_factor = draw(rng, 1.2, 3);
    guard->replicas_up_least = aw_rng_below(rng, 5);
    guard->restart_window = draw_log(rng, 300, 3600);
    guard->restart_count = aw_rng_below(rng, 8);
    guard->change_window = draw_log(rng, 120, 1200);
    guard->change_factor = draw_log(rng, 1.3, 8);
    guard->replicas_up_cooldown = toss(rng, 0.5) ? 0 : draw(rng, 15, 120);
    guard->replicas_down_cooldown = draw_log(rng, 15, 300);
    guard->size_up_cooldown = draw_log(rng, 15, 200);
    guard->size_down_cooldown = draw_log(rng, 30, 400);
    guard->peak_window = draw_log(rng, 60, 400);
    guard->memory_margin = draw(rng, 0, 0.3);
    guard->cpu_margin = draw(rng, 0, 0.3);
    guard->oom_hold = draw_log(rng, 120, 1800);
    guard->deadband = toss(rng, 0.5) ? 0 : 0.1;
    guard->pressure = draw(rng, 0.6, 1);
    guard->crash_window = draw_log(rng, 120, 900);
    guard->crash_count = 1 + aw_rng_below(rng, 5);
    guard->crash_share = draw(rng, 0, 1);
}

/* Learning as it is, but of little: what was learned does not matter here, what it may do does. */
static void draw_learning(struct aw_rng *rng, struct aw_pilot_config *pilot)
{
    pilot->learning = !toss(rng, 0.1);
    pilot->agent = toss(rng, 0.6) ? AW_POLICY_CAPACITY : AW_POLICY_NETWORK;
    pilot->episode_steps = 12 + aw_rng_below(rng, 20);
    pilot->thresholds.online = -1e9; /* whatever was learned may act */
    pilot->lifecycle.bootstrap = toss(rng, 0.6);
    pilot->lifecycle.offline_least = 1 + aw_rng_below(rng, 3);
    pilot->lifecycle.fill = pilot->lifecycle.window = 3;
    pilot->rehearse = (struct aw_rehearse_settings){
        .copies = 1, .tries = 2, .tries_near = 6, .target = 0.5, .error_max = 100};
    pilot->learner.episodes = 6;
    pilot->learner.hidden = 8;
    pilot->learner.updates = 4;
    pilot->learner.fit_updates = 4;
    pilot->learner.batch = 8;
    pilot->learner.ope.members = 2;
    pilot->learner.ope.hidden = 8;
    pilot->learner.ope.fqe_updates = 4;
    pilot->learner.ope.model_updates = 4;
    pilot->learner.ope.model_rollouts = 2;
    pilot->slo_budget = draw_log(rng, 0.01, 0.3);
    pilot->watchdog.window = 10 + aw_rng_below(rng, 60);
    pilot->watchdog.slack = aw_rng_below(rng, 4);
    pilot->watchdog.quiet = draw_log(rng, 30, 600);
    pilot->watchdog.grace = aw_rng_below(rng, 4);
}

static void draw_pilot(const struct aw__chaos *world, struct aw_rng *rng, uint32_t i,
                       struct aw__chaos_workload *w)
{
    static const char *const names[AW_CHAOS_WORKLOADS_MAX] = {
        "shop/cart", "shop/pay", "lab/queue", "lab/mail", "edge/cart", "edge/search"};
    static const uint32_t kinds[] = {
        AW_FALLBACK_HPA_VPA_MEM, AW_FALLBACK_HPA_VPA_MEM, AW_FALLBACK_HPA,    AW_FALLBACK_VPA,
        AW_FALLBACK_HPA_VPA,     AW_FALLBACK_AIMD,        AW_FALLBACK_STATIC, AW_FALLBACK_CONSTANT};
    struct aw_pilot_config *pilot = &w->pilot;
    aw_pilot_config_init(pilot);
    snprintf(pilot->name, sizeof pilot->name, "%s", names[i]);
    pilot->seed = aw_rng_u64(rng);
    pilot->step_s = 1e-6 * (double)world->step_us;
    pilot->stale_s = draw(rng, 45, 180);
    pilot->fallback.kind = PICK(rng, kinds);
    pilot->fallback.stale = pilot->stale_s;
    pilot->fallback.hpa_down_window = aw_rng_below(rng, 180);
    pilot->fallback.hpa_target = 30 + aw_rng_below(rng, 50);
    pilot->fallback.hpa_tolerance = draw(rng, 0.01, 0.1);
    pilot->fallback.history_half_life = draw_log(rng, 600, 86400);
    pilot->fallback.vpa_period = pilot->step_s;
    pilot->fallback.aimd_period = pilot->step_s;
    pilot->fallback.constant_cpu = draw(rng, -1, 1);
    pilot->fallback.constant_memory = draw(rng, -1, 1);
    pilot->fallback.constant_replicas = draw(rng, -1, 1);
    pilot->bounds = (struct aw_bounds){
        .replicas_min = 1 + aw_rng_below(rng, 2),
        .replicas_max = 4 + aw_rng_below(rng, 12),
        .cpu_millicores_min = 50 + 50 * aw_rng_below(rng, 4),
        .cpu_millicores_max = 2000 + 1000 * aw_rng_below(rng, 8), /* some beyond any node */
        .memory_bytes_min = (64 + 64 * (int64_t)aw_rng_below(rng, 4)) * AW_MIB,
        .memory_bytes_max = (2048 + 1024 * (int64_t)aw_rng_below(rng, 30)) * AW_MIB,
    };
    if (toss(rng, 0.2))
        pilot->controlled = 1 + aw_rng_below(rng, 7);
    if (!toss(rng, 0.1)) /* some have no SLO */
        pilot->slo.latency_us_p99 = draw(rng, 1.2, 3) * aw_app_unloaded_p99_us(&w->app, 1, 0);
    else
        pilot->learning = false;
    draw_guard(rng, &pilot->guard);
    const bool slo = pilot->slo.latency_us_p99 > 0;
    if (!slo && pilot->fallback.kind == AW_FALLBACK_AIMD) /* which has no other signal */
        pilot->fallback.kind = AW_FALLBACK_HPA;
    draw_learning(rng, pilot);
    pilot->learning = pilot->learning && slo;
    pilot->node.cpu_millicores = (int64_t)(world->sim_settings.node_cores * 1e3);
    pilot->node.memory_bytes = (int64_t)(world->sim_settings.node_memory_gib * 1024) * AW_MIB;
    pilot->in_place = world->sim_settings.in_place;
}

static enum aw_err draw_workload(struct aw__chaos *world, struct aw_rng *rng, uint32_t i,
                                 struct aw_diag *diag)
{
    static const char *const loads[] = {"diurnal:mean=20,period=1200",
                                        "bursts:mean=20,peak=3,period=900",
                                        "spikes:mean=20,peak=4,period=1200", "constant:mean=20"};
    struct aw__chaos_workload *w = &world->workload[i];
    aw_app_generate(world->config.seed % 64, aw_rng_below(rng, 200), aw_segment_builtin(),
                    AW_SEGMENT_BUILTIN_COUNT, &w->app);
    enum aw_err err = aw_load_parse(PICK(rng, loads), aw_rng_u64(rng), NULL, &w->load, diag);
    if (err)
        return err;
    aw_load_scale_mean(&w->load, aw_app_rate_for(&w->app, draw_log(rng, 0.2, 2.5)));
    draw_pilot(world, rng, i, w);
    struct aw_plan start = {.replicas = 1 + aw_rng_below(rng, 5),
                            .cpu_millicores = 250 * (1 + (int64_t)aw_rng_below(rng, 8)),
                            .memory_bytes = 256 * (1 + (int64_t)aw_rng_below(rng, 8)) * AW_MIB};
    aw_bounds_clip(&w->pilot.bounds, &start);
    w->task = (struct aw_fallback_task){.bounds = w->pilot.bounds,
                                        .slo_latency_us = w->pilot.slo.latency_us_p99};
    memcpy(w->task.amount, start.amount, sizeof start.amount);
    memcpy(w->real, start.amount, sizeof start.amount);
    w->frozen_figures_us = AW_NEVER;
    w->last_now_us = AW_NEVER;
    w->promise.actor = AW_ACTOR_NOBODY;
    if (world->fault_rate[AW_CHAOS_ADVERSARY] > 0 && w->pilot.learning && toss(rng, 0.6)) {
        w->spite = 1 + aw_rng_below(rng, AW__SPITE_COUNT - 1);
        w->pilot.lifecycle.bootstrap = false; /* it acts from the first tick on */
        if (toss(rng, 0.5))                   /* and nobody stops it for its results */
            w->pilot.watchdog.slack = AW_WATCHDOG_WINDOW_MAX;
        world->result->fault_count[AW_CHAOS_ADVERSARY]++;
    }
    w->seen = calloc(world->steps + 1, sizeof *w->seen);
    w->change = calloc(AW__CHAOS_CHANGES_MAX, sizeof *w->change);
    if (!w->seen || !w->change)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a world");
    const struct aw_sim_workload placed = {
        .app = w->app,
        .load = &w->load,
        .replicas = start.replicas,
        .replicas_max = 2 * w->pilot.bounds.replicas_max, /* people may go beyond our bounds */
        .cpu_millicores = start.cpu_millicores,
        .memory_bytes = start.memory_bytes,
    };
    uint32_t index;
    return aw_sim_add(world->sim, &placed, &index, diag);
}

/* --- what may go wrong ------------------------------------------------------------------------ */

/* How often each strikes in a tick at most, and for how many ticks on average. */
static const struct {
    double rate, length;
    /* clang-format off */
} habits[AW_CHAOS_FAULT_COUNT] = {
    [AW_CHAOS_METRICS_LOST] = {0.08, 3},
    [AW_CHAOS_FIGURES_LOST] = {0.1, 4},
    [AW_CHAOS_METRICS_DELAYED] = {0.06, 6},
    [AW_CHAOS_METRICS_TWICE] = {0.1, 2},
    [AW_CHAOS_METRICS_STALE] = {0.03, 12},
    [AW_CHAOS_NOT_FINITE] = {0.08, 3},
    [AW_CHAOS_NEGATIVE] = {0.08, 3},
    [AW_CHAOS_IMPOSSIBLE] = {0.08, 3},
    [AW_CHAOS_PODS_MISSING] = {0.08, 4},
    [AW_CHAOS_OBSERVE_ERROR] = {0.08, 3},
    [AW_CHAOS_SLOW_API] = {0.05, 4},
    [AW_CHAOS_SLOW_AGENT] = {0.05, 3},
    [AW_CHAOS_APPLY_ERROR] = {0.1, 4},
    [AW_CHAOS_APPLY_LATE] = {0.1, 3},
    [AW_CHAOS_APPLY_PARTIAL] = {0.1, 3},
    [AW_CHAOS_SOMEBODY] = {0.04, 1},
    [AW_CHAOS_PAUSED] = {0.02, 6},
    [AW_CHAOS_CLOCK_FORWARD] = {0.02, 1},
    [AW_CHAOS_CLOCK_BACK] = {0.02, 1},
    [AW_CHAOS_SKEW] = {0.03, 8},
    [AW_CHAOS_NODE_LOSS] = {0.02, 8},
    [AW_CHAOS_OOM_STORM] = {0.02, 6},
    [AW_CHAOS_CRASH_LOOP] = {0.03, 6},
    [AW_CHAOS_ROLLOUT] = {0.04, 4},
    [AW_CHAOS_LOAD_SPIKE] = {0.03, 5},
    [AW_CHAOS_DISTURBANCE] = {0.03, 10},
    [AW_CHAOS_STORE_FULL] = {0.04, 4},
    [AW_CHAOS_STORE_BROKEN] = {0.05, 4},
    [AW_CHAOS_STORE_SLOW] = {0.04, 3},
    [AW_CHAOS_DISK_FULL] = {0.04, 4},
    [AW_CHAOS_DISK_READ_ONLY] = {0.04, 4},
    [AW_CHAOS_DISK_ERROR] = {0.08, 1},
    [AW_CHAOS_POWER_CUT] = {0.03, 1},
    [AW_CHAOS_KILL] = {0.05, 1},
    [AW_CHAOS_STATE_DAMAGED] = {0.3, 1},
    [AW_CHAOS_NO_MEMORY] = {0.1, 1},
    [AW_CHAOS_ORDERS] = {0.3, 1},
    [AW_CHAOS_NONSENSE] = {0.2, 1},
    [AW_CHAOS_ADVERSARY] = {1, 1},
    [AW_CHAOS_MODEL] = {0.15, 1},
};
/* clang-format on */

static void draw_faults(struct aw__chaos *world, struct aw_rng *rng)
{
    /* a world that was asked for a few faults has them all */
    const uint64_t asked = world->config.faults;
    const double share = __builtin_popcountll(asked) > 5 ? FAULT_SHARE : 1;
    for (uint32_t f = 0; f < AW_CHAOS_FAULT_COUNT; f++) {
        const bool has = toss(rng, f == AW_CHAOS_ADVERSARY || f == AW_CHAOS_ORDERS ? 0.7 : share);
        const double rate = draw_log(rng, 0.15, 1) * habits[f].rate;
        world->fault_length[f] = habits[f].length;
        world->fault_rate[f] = has && (asked & AW_CHAOS_BIT(f)) ? rate : 0;
    }
    /* a damaged save shows at a restart alone */
    if (world->fault_rate[AW_CHAOS_STATE_DAMAGED] > 0 && (asked & AW_CHAOS_BIT(AW_CHAOS_KILL)))
        world->fault_rate[AW_CHAOS_KILL] = habits[AW_CHAOS_KILL].rate;
}

/* --- made and ended --------------------------------------------------------------------------- */

enum aw_err aw__chaos_world_make(struct aw__chaos *world, struct aw_diag *diag)
{
    static const int64_t steps_us[] = {15000000, 15000000, 30000000, 60000000};
    struct aw_rng rng;
    aw_rng_init(&rng, world->config.seed, SHAPE_STREAM);
    aw_rng_init(&world->rng, world->config.seed, STORY_STREAM);
    aw__chaos_heap_init(&world->heap);
    const uint32_t workloads = WORKLOADS_LEAST + aw_rng_below(&rng, WORKLOADS_MORE);
    const uint32_t steps = STEPS_LEAST + aw_rng_below(&rng, STEPS_MORE);
    world->count = world->config.workloads ? world->config.workloads : workloads;
    world->steps = world->config.steps ? world->config.steps : steps;
    if (world->count > AW_CHAOS_WORKLOADS_MAX || world->steps > AW_CHAOS_STEPS_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "expected at most %u workloads and %u steps",
                       AW_CHAOS_WORKLOADS_MAX, AW_CHAOS_STEPS_MAX);
    world->step_us = PICK(&rng, steps_us);
    world->save_every = 1 + aw_rng_below(&rng, SAVE_EVERY_AT_MOST);
    draw_faults(world, &rng);
    struct aw_sim_settings *sim = &world->sim_settings;
    aw_conf_defaults(aw_sim_fields, sim);
    sim->node_count = 6 + aw_rng_below(&rng, 6);
    sim->node_cores = 4 + aw_rng_below(&rng, 5);
    sim->node_memory_gib = 8 + 8 * aw_rng_below(&rng, 3);
    sim->in_place = toss(&rng, 0.3);
    sim->scrape_s = toss(&rng, 0.5) ? 0 : sim->scrape_s;
    world->workload = calloc(world->count, sizeof *world->workload);
    if (!world->workload)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a world");
    enum aw_err err = aw_disk_sim_init(&world->disk, aw_rng_u64(&rng), NULL);
    if (err)
        return aw_fail(diag, err, "no memory for a disk");
    err = aw_sim_new(sim, aw_rng_u64(&rng), world->count, NULL, &world->sim, diag);
    for (uint32_t i = 0; !err && i < world->count; i++)
        err = draw_workload(world, &rng, i, diag);
    const struct aw_store_options options = {.rows_max = STORE_ROWS,
                                             .episodes_max = STORE_EPISODES,
                                             .workloads_max = AW_CHAOS_WORKLOADS_MAX};
    err = err ? err : aw_store_open(&world->memory_store, "memory", &options, NULL, diag);
    if (err)
        return err;
    world->cluster = aw_sim_cluster(world->sim);
    aw__chaos_store_wrap(world);
    return world->config.external ? aw__chaos_external_make(world, diag) : AW_OK;
}

void aw__chaos_world_free(struct aw__chaos *world)
{
    if (world->disk.state) /* nothing that is closed now reaches it */
        aw_disk_sim_kill(&world->disk);
    aw_loop_free(world->loop);
    aw_desk_free(world->desk);
    aw__chaos_external_free(world);
    aw__chaos_log_forget(world);
    aw_sim_free(world->sim);
    aw_store_close(&world->memory_store);
    aw_disk_sim_deinit(&world->disk);
    for (uint32_t i = 0; world->workload && i < world->count; i++) {
        aw_load_deinit(&world->workload[i].load);
        free(world->workload[i].seen);
        free(world->workload[i].change);
    }
    free(world->workload);
    free(world->save);
}
