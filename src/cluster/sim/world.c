/*
 * world.c - pods come and go, as a Deployment's do.
 *
 * A change of the wanted limits makes a new revision, which is rolled out with maxSurge and
 * maxUnavailable (Deployment, RollingUpdate), or resized in place where the cluster can. A new pod
 * waits for a node with room (the one with the largest free share, as the scheduler's
 * LeastAllocated), pulls the image once per node, starts, and is found ready by a probe. A pod that
 * runs out of memory restarts: at once the first time, then after a back-off that doubles.
 */
#include "cluster/sim/internal.h"

#include <stdlib.h>
#include <string.h>

/* A node that stops answering is noticed after the kubelet's 40 s grace
 * (node-monitor-grace-period); its pods are replaced then. */
#define NODE_GRACE_US 40e6
/* A container that ran this long starts over with its back-off (kubelet). */
#define BACKOFF_RESET_US 600e6
/* Share of a cold start that is CPU work of one thread, hence slower below one core. */
#define COLD_START_CPU_SHARE 0.5
/* Mean latencies until a replica that gets nothing new is idle. */
#define DRAIN_LATENCIES 4
/* The fast model looks at such ends on a grid, that of the default readiness probe. */
#define DRAIN_GRID_US 5e6

const struct aw_sim_disturbance aw_sim_undisturbed = {
    .payload = 1, .cpu_slowdown = 1, .io_slowdown = 1, .load_factor = 1};

const struct aw__sums aw__sums_none = {0};

static bool node_fits(const struct aw_sim *sim, uint32_t n, double cores, double memory_mib)
{
    const struct aw__world *world = sim->world;
    const struct aw__nodes *nodes = sim->nodes;
    const double cpu = aw__node_limits(sim) * (1 - world->neighbour_cpu);
    const double memory = aw__node_memory_mib(sim) * (1 - world->neighbour_memory);
    return nodes->down_until_us[n] <= world->now_us &&
           cpu - nodes->cores_taken[n] - cores >= -AW__CORES_SLACK &&
           memory - nodes->memory_taken_mib[n] - memory_mib >= -AW__MEMORY_SLACK_MIB;
}

/* Its place, size or phase. */
static inline void pod_changed(struct aw_sim *sim, uint32_t w, struct aw__pod *pod)
{
    if (sim->reference)
        aw__reference_pod_changed(sim, w, pod);
}

static void schedule(struct aw__workload *workload, double at_us)
{
    workload->next_event_us = aw__min(workload->next_event_us, at_us);
}

/* From a container's start to the probe that finds it ready. */
static double start_us(const struct aw_sim *sim, const struct aw__workload *workload,
                       const struct aw__pod *pod)
{
    double speed = aw__min(1, pod->cores);
    double cold = workload->demand.cold_start_ms * 1e3 * workload->disturbance.cpu_slowdown;
    double start = sim->settings.container_start_s * 1e6 +
                   cold * (1 - COLD_START_CPU_SHARE + COLD_START_CPU_SHARE / speed);
    double probe = sim->settings.readiness_period_s * 1e6;
    return probe > 0 ? ceil(start / probe) * probe : start;
}

static void start(struct aw_sim *sim, uint32_t w, struct aw__pod *pod, double delay_us)
{
    struct aw__workload *workload = &sim->workload[w];
    pod->phase = AW__POD_STARTING;
    pod->started_us = sim->world->now_us + delay_us;
    pod->ready_us = pod->started_us + start_us(sim, workload, pod);
    schedule(workload, pod->ready_us);
}

/* Those on the nodes with the bits `nodes`. */
static void settle(struct aw_sim *sim, uint32_t w, struct aw__pod *pod, uint64_t nodes,
                   double delay_us)
{
    pod->node = (uint32_t)__builtin_ctzll(nodes);
    start(sim, w, pod, delay_us);
}

/* Not all have found a node, or some came first to one, and wait for the image. */
static void place_some(struct aw_sim *sim, uint32_t w, struct aw__pod *pod, uint32_t placed,
                       uint64_t cold)
{
    struct aw__pod *first = pod;
    uint16_t on_node[AW_SIM_NODES_MAX];
    memcpy(on_node, pod->on_node, sizeof on_node);
    memset(pod->on_node, 0, sizeof pod->on_node);
    if (placed < pod->count)
        aw__pod_part(sim, w, pod, pod->count - placed, AW__NO_NODE); /* goes on waiting */
    const uint32_t cold_count = (uint32_t)__builtin_popcountll(cold);
    if (cold && cold_count < placed)
        first = aw__pod_part(sim, w, pod, cold_count, AW__NO_NODE);
    for (uint32_t n = 0; cold && n < sim->settings.node_count; n++) {
        first->on_node[n] = cold >> n & 1;
        on_node[n] -= first->on_node[n];
    }
    if (cold)
        settle(sim, w, first, cold, sim->settings.image_pull_s * 1e6);
    if (cold && first == pod)
        return;
    memcpy(pod->on_node, on_node, sizeof on_node);
    settle(sim, w, pod, aw__nodes_of(sim, on_node), 0);
}

/* Finds nodes for as many of them as fit. */
static void place(struct aw_sim *sim, uint32_t w, struct aw__pod *pod)
{
    const uint32_t placed =
        aw__nodes_take(sim, pod->cores, pod->memory_mib, pod->count, pod->on_node);
    const uint64_t nodes = aw__nodes_of(sim, pod->on_node);
    const uint64_t cold = nodes & ~sim->workload[w].images;
    sim->workload[w].images |= nodes;
    if (placed == pod->count && !cold)
        settle(sim, w, pod, nodes, 0);
    else if (placed > 0)
        place_some(sim, w, pod, placed, cold);
}

static const struct aw__pod pod_none = {
    .node = AW__NO_NODE,
    .started_us = -AW__NEVER_US,
    .ready_us = AW__NEVER_US,
    .until_us = AW__NEVER_US,
    .read_us = -AW__NEVER_US,
};

static struct aw__pod *create(struct aw_sim *sim, uint32_t w, uint32_t count)
{
    struct aw__workload *workload = &sim->workload[w];
    struct aw__pod *pod = aw__pod_place(sim, w);
    *pod = pod_none;
    pod->id = workload->next_id + 1;
    pod->count = count;
    pod->revision = workload->revision;
    pod->phase = AW__POD_PENDING;
    pod->cores = workload->cores;
    pod->memory_mib = workload->memory_mib;
    pod->ready_change_us = sim->world->now_us;
    workload->next_id += count;
    return pod;
}

static void remove_pod(struct aw_sim *sim, uint32_t w, struct aw__pod *pod)
{
    struct aw__workload *workload = &sim->workload[w];
    aw__nodes_add(sim, pod, -1);
    pod->phase = AW__POD_NONE;
    pod_changed(sim, w, pod);
    const struct aw__pod *pods = aw__pods(sim, w);
    while (workload->place_end > 0 && pods[workload->place_end - 1].phase == AW__POD_NONE)
        workload->place_end--;
}

static void drain(struct aw_sim *sim, uint32_t w, struct aw__pod *pod)
{
    if (pod->phase != AW__POD_READY) {
        remove_pod(sim, w, pod);
        return;
    }
    pod->phase = AW__POD_DRAINING;
    pod->ready_change_us = sim->world->now_us;
    /* The reference ends it when it is idle; the fast model when its requests should be done. */
    double grace_us = sim->settings.drain_s * 1e6;
    double latency_us = sim->workload[w].truth.latency_us_mean;
    if (!sim->reference && isfinite(latency_us))
        grace_us = aw__min(grace_us, DRAIN_LATENCIES * latency_us);
    pod->until_us = sim->world->now_us + grace_us;
    if (!sim->reference) /* with the probes: one interval serves both */
        pod->until_us = ceil(pod->until_us / DRAIN_GRID_US) * DRAIN_GRID_US;
    schedule(&sim->workload[w], pod->until_us);
    pod_changed(sim, w, pod);
}

static bool counts(const struct aw__pod *pod)
{
    return pod->phase != AW__POD_NONE && pod->phase != AW__POD_DRAINING &&
           pod->phase != AW__POD_LOST;
}

/* The places of a workload, by what their pods are. A branch for each question to each of them
 * would be guessed wrong half of the time; a table is not guessed. */
enum kind { FRESH_IDLE, OLD_IDLE, FRESH_READY, OLD_READY, LEAVING, FREE, KINDS };
#define PLACES_MAX AW__PIECE_PLACES

static const uint8_t kind_of[AW__PHASES][2] = {
    [AW__POD_NONE] = {FREE, FREE},
    [AW__POD_PENDING] = {FRESH_IDLE, OLD_IDLE},
    [AW__POD_STARTING] = {FRESH_IDLE, OLD_IDLE},
    [AW__POD_READY] = {FRESH_READY, OLD_READY},
    [AW__POD_DRAINING] = {LEAVING, LEAVING},
    [AW__POD_BACKOFF] = {FRESH_IDLE, OLD_IDLE},
    [AW__POD_LOST] = {LEAVING, LEAVING},
};

struct census {
    uint32_t pods[KINDS];
    uint32_t places[KINDS]; /* of `place` */
    uint8_t place[KINDS][PLACES_MAX];
    bool pending;
};

static void census_take(const struct aw_sim *sim, uint32_t w, struct census *ret)
{
    const struct aw__workload *workload = &sim->workload[w];
    const struct aw__pod *pods = aw__pods(sim, w);
    AW_ASSERT(workload->place_end <= PLACES_MAX);
    for (uint32_t k = 0; k < KINDS; k++)
        ret->pods[k] = ret->places[k] = 0;
    uint32_t pending = 0;
    for (uint32_t i = 0; i < workload->place_end; i++) {
        const uint32_t kind = kind_of[pods[i].phase][pods[i].revision != workload->revision];
        ret->place[kind][ret->places[kind]++] = (uint8_t)i;
        ret->pods[kind] += pods[i].count;
        pending |= pods[i].phase == AW__POD_PENDING;
    }
    ret->pending = pending;
}

/* Takes away up to `most` pods of a kind, from the last place, where the youngest are. Returns how
 * many went. */
static uint32_t take_away(struct aw_sim *sim, uint32_t w, const struct census *census,
                          enum kind kind, uint32_t most)
{
    struct aw__pod *pods = aw__pods(sim, w);
    uint32_t gone = 0;
    for (uint32_t i = census->places[kind]; i-- > 0 && gone < most;) {
        struct aw__pod *pod = &pods[census->place[kind][i]];
        if (pod->count > most - gone)
            pod = aw__pod_part_leaving(sim, w, pod, most - gone);
        gone += pod->count;
        drain(sim, w, pod);
    }
    return gone;
}

/* Whether each of them can have the wanted limits where it is. */
static bool resize_fits(const struct aw_sim *sim, const struct aw__workload *workload,
                        const struct aw__pod *pod)
{
    const double cores = workload->cores - pod->cores;
    const double memory_mib = workload->memory_mib - pod->memory_mib;
    if (pod->node == AW__NO_NODE || (cores <= 0 && memory_mib <= 0))
        return true;
    for (uint32_t n = 0; n < sim->settings.node_count; n++) {
        const double k = pod->on_node[n];
        if (k > 0 && !node_fits(sim, n, k * cores, k * memory_mib))
            return false;
    }
    return true;
}

static void resize_in_place(struct aw_sim *sim, uint32_t w)
{
    struct aw__workload *workload = &sim->workload[w];
    struct aw__pod *pods = aw__pods(sim, w);
    for (uint32_t i = 0; i < workload->place_end; i++)
        if (counts(&pods[i]) && pods[i].revision != workload->revision &&
            !resize_fits(sim, workload, &pods[i]))
            aw__pod_part_all(sim, w, &pods[i]);
    for (uint32_t i = 0; i < workload->place_end; i++) {
        struct aw__pod *pod = &pods[i];
        if (!counts(pod) || pod->revision == workload->revision)
            continue;
        if (!resize_fits(sim, workload, pod))
            continue; /* deferred: the kubelet tries again later */
        aw__nodes_add(sim, pod, -1);
        pod->cores = workload->cores;
        pod->memory_mib = workload->memory_mib;
        pod->revision = workload->revision;
        aw__nodes_add(sim, pod, 1);
        pod_changed(sim, w, pod);
    }
}

static void place_own(struct aw_sim *sim, uint32_t w)
{
    struct aw__pod *pods = aw__pods(sim, w);
    for (uint32_t i = 0; i < sim->workload[w].place_end; i++)
        if (pods[i].phase == AW__POD_PENDING)
            place(sim, w, &pods[i]);
}

/* Makes `count` pods and finds nodes for all that have none; where pods wait by priority they are
 * found when time passes (aw__world_place_pending). */
static void create_and_place(struct aw_sim *sim, uint32_t w, uint32_t count, bool others_pending)
{
    if (!aw__pods_apart(sim) && !others_pending && !sim->settings.pending_by_priority) {
        if (count > 0)
            place(sim, w, create(sim, w, count));
        return;
    }
    if (!aw__pods_apart(sim) && count > 0)
        create(sim, w, count);
    for (uint32_t i = 0; aw__pods_apart(sim) && i < count; i++)
        create(sim, w, 1);
    if (!sim->settings.pending_by_priority)
        place_own(sim, w);
}

static int by_turn(const void *left, const void *right)
{
    const struct aw__waiting *a = left, *b = right;
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    if (a->since_us < b->since_us || a->since_us > b->since_us)
        return a->since_us < b->since_us ? -1 : 1;
    return a->lot < b->lot ? -1 : a->lot > b->lot;
}

/* Between those that have waited equally long a lot decides, another one at every time: no
 * workload is always first. */
void aw__world_place_pending(struct aw_sim *sim)
{
    uint32_t count = 0;
    const uint64_t now = (uint64_t)sim->world->now_us;
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        const struct aw__pod *pods = aw__pods(sim, w);
        double since_us = AW__NEVER_US;
        for (uint32_t i = 0; i < sim->workload[w].place_end; i++)
            if (pods[i].phase == AW__POD_PENDING)
                since_us = aw__min(since_us, pods[i].ready_change_us);
        if (since_us < AW__NEVER_US)
            sim->waiting[count++] = (struct aw__waiting){
                .priority = sim->profile[w].priority,
                .since_us = since_us,
                .lot = ((now ^ w) + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 7,
                .workload = w,
            };
    }
    qsort(sim->waiting, count, sizeof *sim->waiting, by_turn);
    for (uint32_t k = 0; k < count; k++)
        place_own(sim, sim->waiting[k].workload);
}

void aw__world_reconcile(struct aw_sim *sim, uint32_t w)
{
    const struct aw_sim_settings *settings = &sim->settings;
    if (settings->in_place)
        resize_in_place(sim, w);

    struct census census;
    census_take(sim, w, &census);
    uint32_t fresh = census.pods[FRESH_IDLE] + census.pods[FRESH_READY];
    uint32_t old = census.pods[OLD_IDLE] + census.pods[OLD_READY];
    uint32_t ready = census.pods[FRESH_READY] + census.pods[OLD_READY], removed = 0;
    const uint32_t all = fresh + old;
    const uint32_t want = sim->workload[w].replicas;
    uint32_t surge = (uint32_t)ceil(settings->surge * want);
    uint32_t unavailable = (uint32_t)floor(settings->unavailable * want);
    if (surge == 0 && unavailable == 0)
        surge = 1; /* as the API insists, or a rollout would never move */
    const uint32_t total_max = want + (old ? surge : 0);
    const uint32_t ready_min = want > unavailable ? want - unavailable : 0;

    /* Those that do not serve go first, and at once. */
    if (fresh > want) {
        removed = take_away(sim, w, &census, FRESH_IDLE, fresh - want);
        fresh -= removed;
        uint32_t gone = fresh > want ? take_away(sim, w, &census, FRESH_READY, fresh - want) : 0;
        fresh -= gone;
        ready -= gone;
    }
    if (old > 0) {
        const uint32_t idle = take_away(sim, w, &census, OLD_IDLE, old);
        old -= idle;
        removed += idle;
        /* As many as may be missing, and all that are beyond the wanted number. */
        uint32_t spare = ready > ready_min ? ready - ready_min : 0;
        uint32_t beyond = fresh + old > total_max ? fresh + old - total_max : 0;
        old -= take_away(sim, w, &census, OLD_READY, spare > beyond ? spare : beyond);
    }
    uint32_t more = 0;
    if (fresh < want && fresh + old < total_max) {
        uint32_t room = total_max - fresh - old;
        more = want - fresh < room ? want - fresh : room;
        /* Each of them may one day need a place of its own. */
        room = sim->profile[w].pods_max - (census.pods[LEAVING] + all - removed);
        more = more < room ? more : room; /* a later reconcile makes the others */
    }
    create_and_place(sim, w, more, census.pending);
}

static double backoff_us(const struct aw_sim *sim, const struct aw__pod *pod)
{
    if (pod->crashes <= 1)
        return 0; /* the first restart is immediate */
    double delay = sim->settings.backoff_s * ldexp(1, (int)pod->crashes - 2);
    return aw__min(delay, sim->settings.backoff_max_s) * 1e6;
}

void aw__world_kill(struct aw_sim *sim, uint32_t w, struct aw__pod *pod)
{
    struct aw__workload *workload = &sim->workload[w];
    const double now = sim->world->now_us;
    if (now - pod->stable_since_us > BACKOFF_RESET_US)
        pod->crashes = 0;
    pod->oom_kills++;
    pod->crashes++;
    workload->oom_total += pod->count;
    workload->step.oom_kills += pod->count;
    bool draining = pod->phase == AW__POD_DRAINING;
    pod->phase = AW__POD_BACKOFF;
    pod->ready_change_us = now;
    pod->until_us = now + backoff_us(sim, pod);
    pod_changed(sim, w, pod);
    if (draining)
        remove_pod(sim, w, pod);
    else
        schedule(workload, pod->until_us);
}

void aw__world_drained(struct aw_sim *sim, uint32_t w, struct aw__pod *pod)
{
    remove_pod(sim, w, pod);
    aw__world_reconcile(sim, w);
}

void aw__world_fire(struct aw_sim *sim, uint32_t w)
{
    /* Nothing is due of these. */
    static const double never_us[AW__PHASES] = {[AW__POD_NONE] = AW__NEVER_US,
                                                [AW__POD_PENDING] = AW__NEVER_US,
                                                [AW__POD_READY] = AW__NEVER_US};
    struct aw__workload *workload = &sim->workload[w];
    struct aw__pod *pods = aw__pods(sim, w);
    const double now = sim->world->now_us;
    workload->next_event_us = AW__NEVER_US;
    for (uint32_t i = 0; i < workload->place_end; i++) {
        struct aw__pod *pod = &pods[i];
        const double due_us =
            (pod->phase == AW__POD_STARTING ? &pod->ready_us : &pod->until_us)[0] +
            never_us[pod->phase];
        if (!(due_us <= now)) {
            schedule(workload, due_us);
        } else if (pod->phase == AW__POD_STARTING) {
            aw__pod_noise(workload, pod);
            pod->phase = AW__POD_READY;
            pod->ready_change_us = pod->stable_since_us = now;
            pod->backlog = 0;
            pod_changed(sim, w, pod);
        } else if (pod->phase == AW__POD_BACKOFF) {
            pod->restarts++;
            workload->restarts_total += pod->count;
            workload->step.restarts += pod->count;
            start(sim, w, pod, 0);
        } else {
            remove_pod(sim, w, pod);
        }
    }
    aw__world_reconcile(sim, w);
}

void aw__world_fail_node(struct aw_sim *sim, uint32_t node, double until_us)
{
    const double now = sim->world->now_us;
    sim->nodes->down_until_us[node] = until_us;
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        struct aw__pod *pods = aw__pods(sim, w);
        for (uint32_t i = 0; i < sim->workload[w].place_end; i++) {
            struct aw__pod *pod = &pods[i];
            if (pod->phase == AW__POD_NONE || pod->phase == AW__POD_LOST ||
                pod->node == AW__NO_NODE || pod->on_node[node] == 0)
                continue;
            if (pod->on_node[node] < pod->count)
                pod = aw__pod_part(sim, w, pod, pod->on_node[node], node);
            pod->phase = AW__POD_LOST;
            pod->ready_change_us = now;
            pod->until_us = now + NODE_GRACE_US;
            schedule(&sim->workload[w], pod->until_us);
            pod_changed(sim, w, pod);
        }
    }
}

void aw__workload_demand(struct aw_sim *sim, uint32_t w)
{
    struct aw__workload *workload = &sim->workload[w];
    const struct aw_sim_disturbance *d = &workload->disturbance;
    aw_app_demand(&sim->profile[w].app->app, d->payload, d->families, &workload->demand);
    workload->demand.cpu_ms *= d->cpu_slowdown;
    workload->demand.io_ms *= d->io_slowdown;
    aw_surrogate_know(&workload->demand, &workload->known);
}

static void take_off(struct aw_sim *sim, uint32_t w)
{
    struct aw__pod *pods = aw__pods(sim, w);
    for (uint32_t i = 0; i < sim->workload[w].place_end; i++)
        if (pods[i].phase != AW__POD_NONE) {
            aw__nodes_add(sim, &pods[i], -1);
            pods[i].phase = AW__POD_NONE;
            pod_changed(sim, w, &pods[i]);
        }
}

void aw__workload_clear(struct aw_sim *sim, uint32_t w)
{
    take_off(sim, w);
    sim->workload[w] = (struct aw__workload){.next_event_us = AW__NEVER_US};
}

void aw__workload_reset(struct aw_sim *sim, uint32_t w)
{
    const struct aw__profile *profile = &sim->profile[w];
    struct aw__workload *workload = &sim->workload[w];
    struct aw__pod *pods = aw__pods(sim, w);
    take_off(sim, w);
    const double offset = workload->load_offset_us;
    const uint64_t images = workload->images;
    *workload = (struct aw__workload){
        .replicas = profile->replicas,
        .cores = profile->cores,
        .memory_mib = profile->memory_mib,
        .next_event_us = AW__NEVER_US,
        .load_offset_us = offset,
        .disturbance = aw_sim_undisturbed,
        .images = images,
    };
    aw_rng_init(&workload->rng, sim->seed, 1 + (uint64_t)w + ((uint64_t)profile->life << 32));
    workload->memory_key = aw_rng_u64(&workload->rng);
    aw__workload_demand(sim, w);
    aw__world_reconcile(sim, w);
    if (sim->settings.pending_by_priority)
        place_own(sim, w);
    /* An episode begins in the middle of a life: what found a node is ready. */
    for (uint32_t i = 0; i < workload->place_end; i++) {
        if (pods[i].phase != AW__POD_STARTING)
            continue;
        pods[i].started_us = sim->world->now_us - BACKOFF_RESET_US;
        pods[i].ready_us = pods[i].stable_since_us = pods[i].ready_change_us = pods[i].started_us;
        pods[i].phase = AW__POD_READY;
        aw__pod_noise(workload, &pods[i]);
        pod_changed(sim, w, &pods[i]);
    }
    workload->next_event_us = AW__NEVER_US;
}

void aw__world_reset(struct aw_sim *sim, uint64_t seed, double now_us)
{
    sim->seed = seed;
    *sim->world = (struct aw__world){.now_us = now_us,
                                     .metrics_down_until_us = -AW__NEVER_US,
                                     .api_down_until_us = -AW__NEVER_US};
    aw_rng_init(&sim->world->rng, seed, 0);
    for (uint32_t n = 0; n < AW_SIM_NODES_MAX; n++) {
        const double taken = n < sim->settings.node_count ? 0 : INFINITY;
        sim->nodes->cores_taken[n] = sim->nodes->memory_taken_mib[n] = taken;
        sim->nodes->down_until_us[n] = -AW__NEVER_US;
    }
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        struct aw__profile *profile = &sim->profile[w];
        sim->workload[w].images = 0;
        if (profile->touched > 0)
            memset(profile->pods, 0, profile->touched * sizeof *profile->pods);
        profile->touched = 0;
    }
    aw__reference_reset(sim);
    for (uint32_t w = 0; w < sim->workload_count; w++)
        if (aw__present(sim, w))
            aw__workload_reset(sim, w);
}
