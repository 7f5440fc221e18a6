/*
 * pools.c - groups of the world: their limits and what follows from them.
 *
 * Inside of a group, a service that wants D of a resource meets a stressor that wants S, below a
 * limit L. Where D + S <= L both get what they want, and the service may burst up to L - S; else
 * each gets its part of L. For CPU, disk and network that is a rate that work queues for; for
 * memory bandwidth and cache it makes work slower by 1 + s (D / share - 1) each, s being the
 * service's sensitivity, and a cache that is too small raises the demand of bandwidth.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/world_internal.h"

#define SMOOTH       0.3  /* of an epoch's demand in the smoothed one */
#define DEMAND_FLOOR 0.1  /* of the limit at the start: an idle moment is no lack of demand */
#define QUOTA_MIN_NS 2e5  /* CFS gives 1 ms at least; ours may be shared with a stressor */
#define SHARE_MIN    0.02 /* of a limit, that work gets at least */
#define CACHE_TO_BUS 0.5  /* bandwidth demand per missing part of the cache */
#define BUS_MOST     3.0
#define EXTRA_NS     INT64_C(5000000)
#define EXTRA_PIECES 4u
#define MS           1e6

/* Mean and deviation of orders, in ms (FIRM, Table 3.5); warm and cold starts after them. */
static const double order_ms[AW_GRAPH_RESOURCES][2] = {
    {2.1, 0.3}, {42.4, 11.0}, {39.8, 9.2}, {2.3, 0.4}, {12.3, 1.1}};
static const double start_ms[2][2] = {{45.7, 6.9}, {2050.8, 291.4}};

static int64_t takes_ns(struct aw_graph_world *world, const double *ms)
{
    const double drawn = ms[0] + ms[1] * aw_rng_normal(&world->rng);
    return (int64_t)(MS * fmax(drawn, 0.25 * ms[0]));
}

/* What is left of a node for one more limit; `without` is left out of the sum. */
static double room_of(const struct aw_graph_world *world, uint32_t node, uint32_t resource,
                      uint32_t without)
{
    double left = world->app->node_pool[resource];
    for (uint32_t i = 0; i < AW_GRAPH_REPLICAS_MAX; i++) {
        const struct aw__graph_replica *replica = &world->replicas[i];
        if (replica->live && replica->node == node && replica->service != without)
            left -= world->state[replica->service].limit[resource];
    }
    return left;
}

static bool fits(const struct aw_graph_world *world, uint32_t node, uint32_t service)
{
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
        if (room_of(world, node, r, AW_GRAPH_NONE) < world->state[service].limit[r])
            return false;
    return true;
}

enum aw_err aw__graph_replica_start(struct aw_graph_world *world, uint32_t service, bool at_once)
{
    struct aw__graph_state *state = &world->state[service];
    const uint32_t home = world->app->services[service].node;
    uint32_t slot = 0, node = AW_GRAPH_NONE;
    char name[2 * AW_GRAPH_NAME_MAX];
    while (slot < AW_GRAPH_REPLICAS_MAX && world->replicas[slot].live)
        slot++;
    if (slot == AW_GRAPH_REPLICAS_MAX || state->replica_count == 2 * AW_GRAPH_SCALE_MAX)
        return AW_ERR_LIMIT;
    /* where its image is already, else where most cores are left */
    for (uint32_t i = 0; i < world->app->node_count; i++) {
        const uint32_t at = (home + i) % world->app->node_count;
        if (!at_once && !fits(world, at, service))
            continue;
        if (node == AW_GRAPH_NONE || (world->image[service][at] && !world->image[service][node]))
            node = at;
        if (at_once)
            break;
    }
    if (node == AW_GRAPH_NONE)
        return AW_ERR_LIMIT;
    struct aw__graph_replica *replica = &world->replicas[slot];
    *replica = (struct aw__graph_replica){.service = service, .node = node, .live = true};
    replica->retire_ns = INT64_MAX;
    replica->ready_ns = world->now_ns;
    if (!at_once)
        replica->ready_ns += takes_ns(world, start_ms[!world->image[service][node]]);
    world->image[service][node] = true;
    const int len = snprintf(name, sizeof name, "%s-%llu", world->app->services[service].name,
                             (unsigned long long)world->replica_serial++);
    replica->instance = aw_names_add(&world->spans.names, name, (size_t)len);
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
        replica->slow_by[r] = 1;
    state->replica[state->replica_count++] = slot;
    aw__graph_refresh(world, replica);
    return AW_OK;
}

/* One that is ready and not on its way out, in turn; else the first. */
uint32_t aw__graph_pick(struct aw_graph_world *world, uint32_t service)
{
    struct aw__graph_state *state = &world->state[service];
    if (state->replica_count == 1)
        return state->replica[0];
    for (uint32_t i = 0; i < state->replica_count; i++) {
        const uint32_t at = (state->turn + i) % state->replica_count;
        const struct aw__graph_replica *replica = &world->replicas[state->replica[at]];
        if (replica->ready_ns <= world->now_ns && replica->retire_ns > world->now_ns) {
            state->turn = (at + 1) % state->replica_count;
            return state->replica[at];
        }
    }
    return state->replica[0];
}

/* What a service gets of `limit` where it wants `demand` beside `stress`. */
static double share_of(double limit, double demand, double stress)
{
    const double share =
        demand + stress <= limit ? limit - stress : limit * demand / (demand + stress);
    return fmax(share, SHARE_MIN * limit);
}

void aw__graph_refresh(struct aw_graph_world *world, struct aw__graph_replica *replica)
{
    const struct aw_graph_service *service = &world->app->services[replica->service];
    const struct aw__graph_state *state = &world->state[replica->service];
    const double *limit = state->limit;
    double stress[AW_GRAPH_RESOURCES] = {0}, demand[AW_GRAPH_RESOURCES];
    if (replica->stressed)
        memcpy(stress, state->stress.amount, sizeof stress);
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++)
        demand[r] = fmax(replica->demand[r], DEMAND_FLOOR * service->limit[r]);
    demand[AW_GRAPH_LLC] = service->cache_bytes;
    const double cache =
        demand[AW_GRAPH_LLC] + stress[AW_GRAPH_LLC] <= limit[AW_GRAPH_LLC]
            ? demand[AW_GRAPH_LLC]
            : fmin(demand[AW_GRAPH_LLC],
                   share_of(limit[AW_GRAPH_LLC], demand[AW_GRAPH_LLC], stress[AW_GRAPH_LLC]));
    const double missing = demand[AW_GRAPH_LLC] / cache - 1;
    const double bus = demand[AW_GRAPH_MEMORY] * fmin(1 + CACHE_TO_BUS * missing, BUS_MOST);
    const double lack =
        fmax(0, bus / share_of(limit[AW_GRAPH_MEMORY], bus, stress[AW_GRAPH_MEMORY]) - 1);
    replica->slow_by[AW_GRAPH_LLC] = 1 + service->sensitivity[AW_GRAPH_LLC] * missing;
    replica->slow_by[AW_GRAPH_MEMORY] = 1 + service->sensitivity[AW_GRAPH_MEMORY] * lack;
    replica->slow = replica->slow_by[AW_GRAPH_LLC] * replica->slow_by[AW_GRAPH_MEMORY];
    const double cores =
        share_of(limit[AW_GRAPH_CPU], demand[AW_GRAPH_CPU] * replica->slow, stress[AW_GRAPH_CPU]);
    replica->quota_ns = fmax(QUOTA_MIN_NS, cores * (double)AW__GRAPH_PERIOD_NS);
    replica->disk.alone = limit[AW_GRAPH_DISK] * 1e-9;
    replica->net.alone = limit[AW_GRAPH_NET] * 1e-9;
    replica->disk.rate =
        share_of(limit[AW_GRAPH_DISK], demand[AW_GRAPH_DISK], stress[AW_GRAPH_DISK]) * 1e-9;
    replica->net.rate =
        share_of(limit[AW_GRAPH_NET], demand[AW_GRAPH_NET], stress[AW_GRAPH_NET]) * 1e-9;
}

/* Use of a group in an epoch, of its limit. */
static double use_of(const struct aw_graph_world *world, const struct aw__graph_replica *replica,
                     uint32_t resource)
{
    const struct aw__graph_state *state = &world->state[replica->service];
    const double stress = replica->stressed ? state->stress.amount[resource] : 0;
    double demand = replica->demand[resource];
    if (resource == AW_GRAPH_LLC)
        demand = world->app->services[replica->service].cache_bytes;
    if (resource == AW_GRAPH_CPU)
        demand *= replica->slow;
    return fmin(1, (demand + stress) / state->limit[resource]);
}

void aw__graph_epoch(struct aw_graph_world *world)
{
    const double epoch_s = (double)AW__GRAPH_PERIOD_NS * 1e-9;
    for (uint32_t i = 0; i < AW_GRAPH_REPLICAS_MAX; i++) {
        struct aw__graph_replica *replica = &world->replicas[i];
        if (!replica->live || replica->ready_ns > world->now_ns)
            continue;
        for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
            const double now = replica->offered[r] / epoch_s * (r == AW_GRAPH_CPU ? 1e-9 : 1);
            replica->demand[r] += SMOOTH * (now - replica->demand[r]);
            replica->offered[r] = 0;
            replica->used[r] += use_of(world, replica, r);
        }
        replica->throttled += replica->ran_dry || use_of(world, replica, AW_GRAPH_CPU) >= 1;
        replica->ran_dry = false;
        replica->epochs++;
        aw__graph_refresh(world, replica);
    }
    for (uint32_t s = 0; s < world->app->service_count; s++) {
        struct aw__graph_state *state = &world->state[s];
        for (uint32_t i = 0; i < state->replica_count;) {
            struct aw__graph_replica *replica = &world->replicas[state->replica[i]];
            /* what it was still doing ends within the time that anybody may wait */
            if (replica->retire_ns < world->now_ns - 2 * AW_GRAPH_WAIT_MAX_NS &&
                state->replica_count > 1) {
                replica->live = false;
                state->replica[i] = state->replica[--state->replica_count];
            } else {
                i++;
            }
        }
    }
}

/* A core that is free first, then quota: beyond a period's, work goes on in the next one. */
int64_t aw__graph_work(struct aw__graph_replica *replica, int64_t at_ns, double work_ns)
{
    uint32_t core = 0;
    for (uint32_t i = 1; i < AW__GRAPH_CORES; i++)
        if (replica->core_free_ns[i] < replica->core_free_ns[core])
            core = i;
    int64_t start = at_ns > replica->core_free_ns[core] ? at_ns : replica->core_free_ns[core];
    int64_t period = start / AW__GRAPH_PERIOD_NS;
    if (period > replica->period) {
        replica->period = period;
        replica->period_used_ns = 0;
    } else if (period < replica->period) { /* quota is taken up to a later one already */
        start = replica->period * AW__GRAPH_PERIOD_NS + (int64_t)replica->period_used_ns;
    }
    int64_t end = start + (int64_t)work_ns;
    replica->period_used_ns += work_ns;
    if (replica->period_used_ns > replica->quota_ns) {
        const double over = replica->period_used_ns - replica->quota_ns;
        const double skip = ceil(over / replica->quota_ns);
        replica->period += (int64_t)skip;
        replica->period_used_ns = over - (skip - 1) * replica->quota_ns;
        const int64_t then =
            replica->period * AW__GRAPH_PERIOD_NS + (int64_t)replica->period_used_ns;
        end = end > then ? end : then;
        replica->ran_dry = true;
    }
    replica->core_free_ns[core] = end;
    replica->waited_ns[AW_GRAPH_CPU] += fmax(0, (double)(end - at_ns) - work_ns);
    replica->worked_ns += work_ns / replica->slow;
    for (uint32_t r = AW_GRAPH_MEMORY; r <= AW_GRAPH_LLC; r++)
        replica->waited_ns[r] += work_ns * (1 - 1 / replica->slow_by[r]);
    return end;
}

int64_t aw__graph_queue(struct aw__graph_replica *replica, enum aw_graph_resource resource,
                        int64_t at_ns, double bytes)
{
    struct aw__graph_backlog *queue = resource == AW_GRAPH_DISK ? &replica->disk : &replica->net;
    /* Work is entered when its place is taken, which may be ahead of others that come first: those
     * see what waits then, and nothing of it is served meanwhile. */
    if (at_ns > queue->at_ns) {
        queue->bytes = fmax(0, queue->bytes - queue->rate * (double)(at_ns - queue->at_ns));
        queue->at_ns = at_ns;
    }
    replica->offered[resource] += bytes;
    const double wait_ns = (queue->bytes + bytes) / queue->rate;
    if (wait_ns > 2.0 * AW_GRAPH_WAIT_MAX_NS)
        return at_ns + 2 * AW_GRAPH_WAIT_MAX_NS; /* nobody waits longer: it is lost on the way */
    queue->bytes += bytes;
    replica->waited_ns[resource] += fmax(0, wait_ns - bytes / queue->alone);
    return at_ns + (int64_t)wait_ns;
}

void aw__graph_extra(struct aw_graph_world *world, uint32_t service)
{
    struct aw__graph_state *state = &world->state[service];
    const struct aw_graph_op *op = NULL;
    if (state->stress.extra_per_s <= 0)
        return;
    for (uint32_t i = 0; i < world->app->op_count && !op; i++)
        op = world->app->ops[i].service == service ? &world->app->ops[i] : NULL;
    uint32_t ready = 0;
    for (uint32_t i = 0; i < state->replica_count; i++) {
        const struct aw__graph_replica *replica = &world->replicas[state->replica[i]];
        ready += replica->ready_ns <= world->now_ns && replica->retire_ns > world->now_ns;
    }
    const double visits = state->stress.extra_per_s * (double)EXTRA_NS * 1e-9 / (ready ? ready : 1);
    for (uint32_t i = 0; i < state->replica_count; i++) {
        struct aw__graph_replica *replica = &world->replicas[state->replica[i]];
        if (replica->ready_ns > world->now_ns || replica->retire_ns <= world->now_ns)
            continue;
        replica->offered[AW_GRAPH_CPU] += visits * op->cpu_us * 1e3;
        replica->offered[AW_GRAPH_MEMORY] += visits * op->memory_bytes;
        replica->visits += (uint32_t)visits;
        int64_t free_ns = INT64_MAX;
        for (uint32_t k = 0; k < AW__GRAPH_CORES; k++)
            free_ns = replica->core_free_ns[k] < free_ns ? replica->core_free_ns[k] : free_ns;
        if (free_ns > world->now_ns + AW_GRAPH_WAIT_MAX_NS)
            continue; /* turned away */
        for (uint32_t k = 0; k < EXTRA_PIECES; k++)
            (void)aw__graph_work(replica, world->now_ns,
                                 visits * op->cpu_us * 1e3 * replica->slow / EXTRA_PIECES);
        (void)aw__graph_queue(replica, AW_GRAPH_DISK, world->now_ns, visits * op->disk_bytes);
        (void)aw__graph_queue(replica, AW_GRAPH_NET, world->now_ns, visits * op->net_bytes);
    }
    aw__graph_push(world, world->now_ns + EXTRA_NS, AW__GRAPH_EXTRA, service);
}

/* ---- orders ---- */

enum aw_err aw_graph_world_limit(struct aw_graph_world *world, uint32_t service,
                                 enum aw_graph_resource resource, double limit)
{
    const struct aw_graph_service *its = &world->app->services[service];
    struct aw__graph_state *state = &world->state[service];
    if (!(limit >= its->low[resource] && limit <= its->high[resource]))
        return AW_ERR_RANGE;
    for (uint32_t n = 0; n < world->app->node_count; n++) {
        double more = 0;
        for (uint32_t i = 0; i < state->replica_count; i++)
            more += world->replicas[state->replica[i]].node == n ? limit : 0;
        if (more > 0 && limit > state->limit[resource] &&
            room_of(world, n, resource, service) < more)
            return AW_ERR_LIMIT;
    }
    const uint32_t index = world->change_count++ % AW__GRAPH_PENDING;
    world->change[index] = (struct aw__graph_change){service, resource, limit};
    aw__graph_push(world, world->now_ns + takes_ns(world, order_ms[resource]), AW__GRAPH_CHANGE,
                   index);
    return AW_OK;
}

void aw__graph_change_apply(struct aw_graph_world *world, uint32_t index)
{
    const struct aw__graph_change *change = &world->change[index];
    struct aw__graph_state *state = &world->state[change->service];
    const bool more_cpu =
        change->resource == AW_GRAPH_CPU && change->limit > state->limit[AW_GRAPH_CPU];
    state->limit[change->resource] = change->limit;
    for (uint32_t i = 0; i < state->replica_count; i++) {
        struct aw__graph_replica *replica = &world->replicas[state->replica[i]];
        const double quota = replica->quota_ns;
        aw__graph_refresh(world, replica);
        /* what was queued at the old quota goes on at the new one */
        for (uint32_t k = 0; k < AW__GRAPH_CORES && more_cpu; k++)
            if (replica->core_free_ns[k] > world->now_ns)
                replica->core_free_ns[k] =
                    world->now_ns + (int64_t)((double)(replica->core_free_ns[k] - world->now_ns) *
                                              fmin(1, quota / replica->quota_ns));
        if (more_cpu && replica->period > world->now_ns / AW__GRAPH_PERIOD_NS) {
            replica->period = world->now_ns / AW__GRAPH_PERIOD_NS;
            replica->period_used_ns = 0;
        }
    }
}

enum aw_err aw_graph_world_scale(struct aw_graph_world *world, uint32_t service, uint32_t replicas,
                                 bool fresh)
{
    struct aw__graph_state *state = &world->state[service];
    uint32_t current = 0;
    if (replicas == 0 || replicas > AW_GRAPH_SCALE_MAX)
        return AW_ERR_RANGE;
    for (uint32_t i = 0; i < state->replica_count; i++)
        current += world->replicas[state->replica[i]].retire_ns == INT64_MAX;
    const uint32_t old = state->replica_count, start = fresh                ? replicas
                                                       : replicas > current ? replicas - current
                                                                            : 0;
    enum aw_err err = AW_OK;
    for (uint32_t i = 0; i < start && !err; i++)
        err = aw__graph_replica_start(world, service, false);
    if (err) { /* those that were begun are taken back */
        while (state->replica_count > old)
            world->replicas[state->replica[--state->replica_count]].live = false;
        return err;
    }
    int64_t ready_ns = world->now_ns;
    for (uint32_t i = old; i < state->replica_count; i++) {
        const int64_t its = world->replicas[state->replica[i]].ready_ns;
        ready_ns = its > ready_ns ? its : ready_ns;
    }
    uint32_t retire = fresh ? current : current > replicas ? current - replicas : 0;
    for (uint32_t i = 0; i < old && retire; i++) {
        struct aw__graph_replica *replica = &world->replicas[state->replica[i]];
        if (replica->retire_ns != INT64_MAX)
            continue;
        replica->retire_ns = ready_ns;
        retire--;
    }
    return AW_OK;
}

void aw_graph_world_stress(struct aw_graph_world *world, uint32_t service,
                           const struct aw_graph_stress *stress)
{
    struct aw__graph_state *state = &world->state[service];
    const bool extra = state->stress.extra_per_s > 0;
    bool any = stress->delay_us > 0, before = state->stress.delay_us > 0;
    for (uint32_t r = 0; r < AW_GRAPH_RESOURCES; r++) {
        any = any || stress->amount[r] > 0;
        before = before || state->stress.amount[r] > 0;
    }
    state->stress = *stress;
    for (uint32_t i = 0; i < state->replica_count; i++) {
        if (any != before) /* those that run when it begins; one that goes on has its groups */
            world->replicas[state->replica[i]].stressed = any;
        aw__graph_refresh(world, &world->replicas[state->replica[i]]);
    }
    if (stress->extra_per_s > 0 && !extra)
        aw__graph_push(world, world->now_ns, AW__GRAPH_EXTRA, service);
}
