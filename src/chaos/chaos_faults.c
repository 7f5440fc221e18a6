/* chaos_faults.c - what strikes in this tick, and what it does to simulator, clock, disk and
 * policies. What the cluster, the store and people do is elsewhere; they ask what is on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/chaos_internal.h"
#include "control/pilot_peek.h"
#include "policy/capacity.h"
#include "policy/network.h"

#define MINUTE_US INT64_C(60000000)

/* Faults that strike the whole world, not one workload. */
static bool is_common(uint32_t fault)
{
    switch (fault) {
    case AW_CHAOS_SLOW_API:
    case AW_CHAOS_CLOCK_FORWARD:
    case AW_CHAOS_CLOCK_BACK:
    case AW_CHAOS_NODE_LOSS:
    case AW_CHAOS_STORE_FULL:
    case AW_CHAOS_STORE_BROKEN:
    case AW_CHAOS_STORE_SLOW:
    case AW_CHAOS_DISK_FULL:
    case AW_CHAOS_DISK_READ_ONLY:
    case AW_CHAOS_DISK_ERROR:
    case AW_CHAOS_POWER_CUT:
    case AW_CHAOS_KILL:
    case AW_CHAOS_STATE_DAMAGED:
    case AW_CHAOS_NO_MEMORY:
    case AW_CHAOS_ORDERS:
    case AW_CHAOS_NONSENSE:
    case AW_CHAOS_MODEL:
        return true;
    default:
        return false;
    }
}

/* --- what strikes once ------------------------------------------------------------------------ */

static void disturb(struct aw__chaos *world, uint32_t w)
{
    struct aw_rng *rng = &world->rng;
    struct aw_sim_disturbance disturbance = aw_sim_undisturbed;
    if (aw__chaos_on(world, AW_CHAOS_LOAD_SPIKE, w))
        disturbance.load_factor = aw_rng_uniform(rng, 2, 12);
    if (aw__chaos_on(world, AW_CHAOS_OOM_STORM, w))
        disturbance.memory_leak_mib = aw_rng_uniform(rng, 0.3, 2) *
                                      (double)(world->workload[w].real[AW_RESOURCE_MEMORY] >> 20);
    if (aw__chaos_on(world, AW_CHAOS_DISTURBANCE, w)) {
        disturbance.payload = aw_rng_uniform(rng, 0.5, 3);
        disturbance.cpu_slowdown = aw_rng_uniform(rng, 1, 2);
        disturbance.io_slowdown = aw_rng_uniform(rng, 1, 4);
    }
    aw_sim_disturb(world->sim, w, &disturbance);
}

static void somebody_scales(struct aw__chaos *world, uint32_t w)
{
    struct aw_rng *rng = &world->rng;
    const struct aw__chaos_workload *of = &world->workload[w];
    const struct aw_bounds *bounds = &of->pilot.bounds;
    int64_t amount[AW_RESOURCES] = {0};
    const uint32_t which = 1 + aw_rng_below(rng, 7);
    if (which & AW_PLAN_REPLICAS) /* also beyond the bounds, on both sides */
        amount[AW_RESOURCE_REPLICAS] = 1 + aw_rng_below(rng, 2 * bounds->replicas_max);
    if (which & AW_PLAN_CPU)
        amount[AW_RESOURCE_CPU] =
            10 + aw_rng_below(rng, (uint32_t)bounds->cpu_millicores_max + 2000);
    if (which & AW_PLAN_MEMORY)
        amount[AW_RESOURCE_MEMORY] =
            (int64_t)(exp(aw_rng_uniform(rng, 3, 9.5)) * (double)(INT64_C(1) << 20));
    aw__chaos_interfere(world, w, amount);
}

static void strike(struct aw__chaos *world, uint32_t fault, uint32_t w)
{
    struct aw_rng *rng = &world->rng;
    const int64_t now = world->cluster.ops->now_us(world->cluster.self);
    const int64_t lasts = (world->until[fault][w] - world->tick) * world->step_us;
    switch ((enum aw_chaos_fault)fault) {
    case AW_CHAOS_SOMEBODY:
        somebody_scales(world, w);
        break;
    case AW_CHAOS_CLOCK_FORWARD:
        world->jump_us += (int64_t)exp(aw_rng_uniform(rng, log(1e6), log(1e10)));
        break;
    case AW_CHAOS_CLOCK_BACK:
        world->jump_us -= (int64_t)exp(aw_rng_uniform(rng, log(1e6), log(1e10)));
        break;
    case AW_CHAOS_NODE_LOSS:
        aw_sim_fail_node(world->sim, aw_rng_below(rng, world->sim_settings.node_count),
                         now + lasts);
        break;
    case AW_CHAOS_DISK_ERROR:
        world->disk.faults.fail_at = world->disk.call_count + 1 + aw_rng_below(rng, 12);
        world->disk.faults.fail_count = 1 + aw_rng_below(rng, 5);
        break;
    case AW_CHAOS_POWER_CUT: /* in the middle of what this tick writes, or between ticks */
        world->disk.faults.cut_at = world->disk.change_count + 1 + aw_rng_below(rng, 5);
        break;
    case AW_CHAOS_NO_MEMORY:
        world->heap.fail_at = world->heap.count + 1 + aw_rng_below(rng, 40);
        break;
    default:
        break;
    }
}

/* What lasts is told to the simulator and the disk in every tick. */
static void carry_on(struct aw__chaos *world)
{
    for (uint32_t w = 0; w < world->count; w++)
        disturb(world, w);
    world->disk.faults.read_only = aw__chaos_any(world, AW_CHAOS_DISK_READ_ONLY);
    world->disk.faults.space_bytes =
        aw__chaos_any(world, AW_CHAOS_DISK_FULL) ? 1 + aw_rng_below(&world->rng, 100000) : 0;
    /* the others' clock follows ours after a while: somebody mends the time server */
    if (world->figures_us != world->jump_us && aw__chaos_chance(world, 0.3))
        world->figures_us = world->jump_us;
}

void aw__chaos_faults_roll(struct aw__chaos *world)
{
    struct aw_rng *rng = &world->rng;
    for (uint32_t f = 0; f < AW_CHAOS_FAULT_COUNT; f++) {
        if (world->fault_rate[f] <= 0 || f == AW_CHAOS_ADVERSARY)
            continue;
        const uint32_t workloads = is_common(f) ? 1 : world->count;
        for (uint32_t w = 0; w < workloads; w++) {
            if (aw__chaos_on(world, f, w) || !aw__chaos_chance(world, world->fault_rate[f]))
                continue;
            world->until[f][w] =
                world->tick + 1 + (uint32_t)aw_rng_exponential(rng, world->fault_length[f] - 0.99);
            world->result->fault_count[f]++;
            aw__chaos_say(
                world, "  %s%s%s for %u ticks", is_common(f) ? "" : world->workload[w].pilot.name,
                is_common(f) ? "" : ": ", aw_chaos_fault_name(f), world->until[f][w] - world->tick);
            strike(world, f, w);
        }
    }
    carry_on(world);
}

/* --- policies that want to hurt --------------------------------------------------------------- */

static void poison_rule(struct aw_capacity_rule_values *values, uint32_t spite, bool high)
{
    double *v = values->v;
    switch ((enum aw__chaos_spite)spite) {
    case AW__SPITE_NAN:
        for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
            v[i] = (double)NAN;
        break;
    case AW__SPITE_HUGE:
        for (uint32_t i = 0; i < AW_CAPACITY_RULE_DIM; i++)
            v[i] = i == AW_CAPACITY_RULE_WINDOW || i == AW_CAPACITY_RULE_SLEEP ? 1 : 1e300;
        break;
    default: /* the least, or the most */
        v[AW_CAPACITY_RULE_CPU] = high ? 1e4 : 1e-4;
        v[AW_CAPACITY_RULE_MARGIN] = high ? 1e4 : 1e-4;
        v[AW_CAPACITY_RULE_PEAK] = high ? 1 : 0;
        v[AW_CAPACITY_RULE_FLOOR] = high ? 1 : 0;
        v[AW_CAPACITY_RULE_SLEEP] = high ? 0 : 1;
        break;
    }
}

static void poison_network(struct aw_actnet *actor, uint32_t spite, bool high)
{
    for (uint32_t i = 0; i < actor->shape.act_dim; i++) {
        actor->base[i] = high ? 1 : -1;
        actor->reach[i] = 0.01f;
    }
    if (spite == AW__SPITE_NAN)
        actor->base[0] = (float)NAN;
    if (spite == AW__SPITE_HUGE)
        actor->base[0] = actor->reach[0] = 3e38f;
}

/* Looked at before a policy is asked and after it has answered. */
static int64_t stopwatch_us(void *self)
{
    struct aw__chaos *world = self;
    int64_t *answer_us = &world->workload[world->deciding].answer_us;
    *answer_us = 20;
    if (aw__chaos_on(world, AW_CHAOS_SLOW_AGENT, world->deciding))
        *answer_us = (int64_t)(1e6 * aw_rng_uniform(&world->rng, 0, 4));
    world->stopwatch_us += *answer_us;
    return world->stopwatch_us;
}

static enum aw_err never_sleeps(void *self, int64_t monotonic_us)
{
    (void)self;
    (void)monotonic_us;
    return AW_OK;
}

void aw__chaos_stopwatch(struct aw__chaos *world)
{
    world->stopwatch = (struct aw_clock){.now_us = stopwatch_us,
                                         .monotonic_us = stopwatch_us,
                                         .sleep_until = never_sleeps,
                                         .self = world};
}

/* Its numbers are bent where it keeps them, past everything that checks what is learned or loaded:
 * whatever it then proposes has the watchdog and the rails before it. */
void aw__chaos_spite(struct aw__chaos *world)
{
    for (uint32_t i = 0; i < world->count; i++) {
        struct aw__chaos_workload *w = &world->workload[i];
        const struct aw_policy *policy = aw_pilot_in_force(aw_loop_pilot(world->loop, i));
        struct aw_capacity *capacity = aw_capacity_of(policy);
        struct aw_network *network = aw_network_of(policy);
        w->poisoned = false;
        if (w->spite == AW__SPITE_NONE)
            continue;
        bool high = w->spite == AW__SPITE_GROW;
        if (w->spite == AW__SPITE_FLIP)
            high = world->tick % 2;
        if (w->spite == AW__SPITE_BLIND)
            high = !aw__chaos_on(world, AW_CHAOS_METRICS_LOST, i) &&
                   !aw__chaos_on(world, AW_CHAOS_FIGURES_LOST, i) &&
                   !aw__chaos_on(world, AW_CHAOS_METRICS_STALE, i) && world->tick % 8 < 4;
        w->poisoned = w->spite == AW__SPITE_NAN;
        if (capacity) {
            w->rule = capacity->values;
            poison_rule(&capacity->values, w->spite, high);
        } else {
            memcpy(w->base, network->actor.base, sizeof w->base);
            memcpy(w->reach, network->actor.reach, sizeof w->reach);
            poison_network(&network->actor, w->spite, high);
        }
    }
}

/* What decided is not what is saved or learned from: those check their numbers. */
void aw__chaos_spite_over(struct aw__chaos *world)
{
    for (uint32_t i = 0; i < world->count; i++) {
        const struct aw__chaos_workload *w = &world->workload[i];
        const struct aw_policy *policy = aw_pilot_in_force(aw_loop_pilot(world->loop, i));
        struct aw_capacity *capacity = aw_capacity_of(policy);
        struct aw_network *network = aw_network_of(policy);
        if (w->spite == AW__SPITE_NONE)
            continue;
        if (capacity) {
            capacity->values = w->rule;
        } else {
            memcpy(network->actor.base, w->base, sizeof w->base);
            memcpy(network->actor.reach, w->reach, sizeof w->reach);
        }
    }
}
