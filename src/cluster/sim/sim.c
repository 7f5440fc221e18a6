/* sim.c - virtual time, settings, and the cluster contract over the simulated world. */
#include "cluster/sim.h"

#include "base/latency_histogram.h"
#include "base/units.h"
#include "cluster/sim/contention.h"

#include <string.h>

static const char *const model_names[] = {"fast", "reference", NULL};
static const char *const routing_names[] = {"random", "least", NULL};

#define AW_CONF_OF struct aw_sim_settings
const struct aw_conf_field aw_sim_fields[] = {
    AW_CONF_ONE_OF(model, "fast", model_names,
                   "follow every request (reference) or whole intervals (fast)"),
    AW_CONF_NUMBER(node_count, "8", 1, AW_SIM_NODES_MAX, "nodes of the cluster"),
    AW_CONF_NUMBER(node_cores, "16", 0.1, 1024, "cores of a node"),
    AW_CONF_NUMBER(node_memory_gib, "64", 0.1, 65536, "memory of a node in GiB"),
    AW_CONF_NUMBER(image_pull_s, "6", 0, 3600, "seconds to pull the image, first time on a node"),
    AW_CONF_NUMBER(container_start_s, "1", 0, 3600, "seconds to start a container, every time"),
    AW_CONF_NUMBER(readiness_period_s, "5", 0, 300, "seconds between readiness probes"),
    AW_CONF_NUMBER(drain_s, "30", 0, 3600, "seconds of grace for requests in flight on scale-in"),
    AW_CONF_NUMBER(request_timeout_s, "30", 0.001, 3600, "seconds that a client waits"),
    AW_CONF_NUMBER(surge, "0.25", 0, 1, "maxSurge of a rollout, as a share of the replicas"),
    AW_CONF_NUMBER(unavailable, "0.25", 0, 1,
                   "maxUnavailable of a rollout, as a share of the replicas"),
    AW_CONF_PLAIN(in_place, "false", "vertical changes need no restart"),
    AW_CONF_NUMBER(backoff_s, "10", 0, 3600, "seconds before the second restart in a row; doubles"),
    AW_CONF_NUMBER(backoff_max_s, "300", 0, 86400, "longest back-off between restarts in seconds"),
    AW_CONF_NUMBER(scrape_s, "15", 0, 3600, "seconds between readings of the metrics pipeline"),
    AW_CONF_NUMBER(scrape_delay_s, "1", 0, 3600, "age of a reading when it arrives, in seconds"),
    AW_CONF_NUMBER(metric_noise, "0.02", 0, 1, "relative deviation of readings of CPU use"),
    AW_CONF_NUMBER(metric_gap, "0", 0, 1, "share of readings that are lost"),
    AW_CONF_ONE_OF(
        routing, "random", routing_names,
        "who gets a request: any ready replica (random), or that with the fewest (least)"),
    AW_CONF_NUMBER(overcommit_cpu, "1", 1, 64,
                   "CPU limits that a node takes, for each of its cores; above 1, pods share cores "
                   "in proportion to their limits"),
    AW_CONF_PLAIN(pending_by_priority, "false",
                  "pods wait for nodes by priority, then by how long they wait, and are tried "
                  "again as time passes; false: each workload for itself"),
    {0},
};

/* Places for pods of a workload: all replicas of two revisions, and what is still draining. */
static uint32_t places(uint32_t replicas_max)
{
    return 3 * replicas_max + 4;
}

#define POD_PLACES_PER_WORKLOAD places(64)

static void carve(struct aw_sim *sim, struct aw_carve *c)
{
    sim->world = aw_carve_take(c, 1, sizeof *sim->world);
    sim->nodes = aw_carve_take(c, 1, sizeof *sim->nodes);
    sim->workload = aw_carve_take(c, sim->workloads_max, sizeof *sim->workload);
}

enum aw_err aw_sim_new(const struct aw_sim_settings *settings, uint64_t seed,
                       uint32_t workloads_max, const struct aw_alloc *alloc,
                       struct aw_sim **ret_sim, struct aw_diag *diag)
{
    if (workloads_max == 0 || workloads_max > AW_SIM_WORKLOADS_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "expected 1 to %u workloads, found %u",
                       AW_SIM_WORKLOADS_MAX, workloads_max);
    struct aw_sim *sim = aw_alloc_new(alloc, 1, sizeof *sim);
    if (!sim)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory for a simulated cluster");
    sim->settings = *settings;
    sim->alloc = alloc;
    sim->workloads_max = workloads_max;
    sim->first_free = AW__NO_INDEX;
    struct aw_carve c = {0};
    carve(sim, &c);
    sim->state_bytes = c.used;
    sim->state = aw_alloc_new(alloc, c.used, 1);
    sim->profile = aw_alloc_new(alloc, workloads_max, sizeof *sim->profile);
    sim->waiting = aw_alloc_new(alloc, workloads_max, sizeof *sim->waiting);
    sim->shown = aw_alloc_new(alloc, AW_CLUSTER_PODS_MAX, sizeof *sim->shown);
    sim->apps = aw_alloc_new(alloc, workloads_max, sizeof *sim->apps);
    sim->piece = aw_alloc_new(alloc, workloads_max / AW__PIECE + 1, sizeof *sim->piece);
    enum aw_err err = AW_OK;
    if (settings->model == AW_SIM_REFERENCE) {
        sim->pods_max = workloads_max * POD_PLACES_PER_WORKLOAD;
        sim->pod = aw_alloc_new(alloc, sim->pods_max, sizeof *sim->pod);
        sim->histogram = aw_alloc_new(alloc, workloads_max, sizeof *sim->histogram);
        err = sim->histogram && sim->pod ? aw__reference_new(sim) : AW_ERR_NOMEM;
    } else if (aw__overcommitted(sim)) {
        err = aw__contention_new(sim);
    }
    if (err || !sim->waiting || !sim->state || !sim->profile || !sim->shown || !sim->apps ||
        !sim->piece) {
        aw_sim_free(sim);
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory for a simulated cluster");
    }
    c = (struct aw_carve){.base = sim->state};
    carve(sim, &c);
    aw__world_reset(sim, seed, 0);
    *ret_sim = sim;
    return AW_OK;
}

void aw_sim_free(struct aw_sim *sim)
{
    if (!sim)
        return;
    for (uint32_t i = 0; i < sim->app_count; i++)
        aw_alloc_free(sim->alloc, sim->apps[i]);
    for (uint32_t w = 0; sim->piece && w < sim->workloads_max; w += AW__PIECE)
        aw_alloc_free(sim->alloc, sim->piece[w / AW__PIECE]);
    aw__reference_free(sim);
    aw__contention_free(sim);
    aw_alloc_free(sim->alloc, sim->apps);
    aw_alloc_free(sim->alloc, sim->piece);
    aw_alloc_free(sim->alloc, sim->histogram);
    aw_alloc_free(sim->alloc, sim->pod);
    aw_alloc_free(sim->alloc, sim->shown);
    aw_alloc_free(sim->alloc, sim->waiting);
    aw_alloc_free(sim->alloc, sim->profile);
    aw_alloc_free(sim->alloc, sim->state);
    aw_alloc_free(sim->alloc, sim);
}

static enum aw_err check(const struct aw_sim *sim, const struct aw_sim_workload *workload,
                         struct aw_diag *diag)
{
    if (workload->replicas_max == 0 || places(workload->replicas_max) > POD_PLACES_PER_WORKLOAD)
        return aw_fail(diag, AW_ERR_RANGE, "expected at most 64 replicas, found %u",
                       workload->replicas_max);
    if (workload->replicas == 0 || workload->replicas > workload->replicas_max)
        return aw_fail(diag, AW_ERR_RANGE, "expected 1 to %u replicas to start with, found %u",
                       workload->replicas_max, workload->replicas);
    if (workload->cpu_millicores <= 0 || workload->memory_bytes <= 0)
        return aw_fail(diag, AW_ERR_RANGE, "CPU and memory of a replica must be positive");
    if (workload->app.segment_count == 0 || workload->app.segment_count > AW_APP_SEGMENTS_MAX)
        return aw_fail(diag, AW_ERR_RANGE, "an application has 1 to %u segments, found %u",
                       AW_APP_SEGMENTS_MAX, workload->app.segment_count);
    if ((double)workload->cpu_millicores > sim->settings.node_cores * 1e3 ||
        (double)workload->memory_bytes > sim->settings.node_memory_gib * 1024 * AW_MIB_REAL)
        return aw_fail(diag, AW_ERR_RANGE, "no node is large enough for one replica");
    return AW_OK;
}

/* The application as one of `apps`; NULL: no memory. Equal bytes are the same application. */
static struct aw__app *app_share(struct aw_sim *sim, const struct aw_app *app)
{
    uint32_t place = sim->app_count;
    for (uint32_t i = 0; i < sim->app_count; i++) {
        if (!sim->apps[i]) {
            place = i;
        } else if (memcmp(&sim->apps[i]->app, app, sizeof *app) == 0) {
            sim->apps[i]->users++;
            return sim->apps[i];
        }
    }
    struct aw__app *made = aw_alloc_new(sim->alloc, 1, sizeof *made);
    if (!made)
        return NULL;
    *made = (struct aw__app){.app = *app, .users = 1, .place = place};
    sim->apps[place] = made;
    sim->app_count += place == sim->app_count;
    return made;
}

static void app_leave(struct aw_sim *sim, struct aw__app *app)
{
    if (--app->users > 0)
        return;
    sim->apps[app->place] = NULL;
    aw_alloc_free(sim->alloc, app);
}

/* Where the pods of workload `w` are; NULL: no memory. In the fast model most of the places are
 * never used, and their pages never touched. */
static struct aw__pod *pods_of(struct aw_sim *sim, uint32_t w)
{
    if (sim->pod)
        return sim->pod + sim->pods_used;
    const uint32_t left = sim->workloads_max - w / AW__PIECE * AW__PIECE;
    struct aw__pod **piece = &sim->piece[w / AW__PIECE];
    if (!*piece)
        *piece = aw_alloc_new(sim->alloc, left < AW__PIECE ? left : AW__PIECE,
                              AW__PIECE_PLACES * sizeof **piece);
    return *piece ? *piece + (size_t)(w % AW__PIECE) * AW__PIECE_PLACES : NULL;
}

static void profile_set(struct aw__profile *profile, const struct aw_sim_workload *workload)
{
    profile->load = workload->load;
    profile->replicas = workload->replicas;
    profile->replicas_max = workload->replicas_max;
    profile->cores = (double)workload->cpu_millicores * 1e-3;
    profile->memory_mib = (double)workload->memory_bytes / AW_MIB_REAL;
}

enum aw_err aw_sim_add(struct aw_sim *sim, const struct aw_sim_workload *workload,
                       uint32_t *ret_index, struct aw_diag *diag)
{
    enum aw_err err = check(sim, workload, diag);
    if (err)
        return err;
    const bool used = sim->first_free != AW__NO_INDEX;
    if (!used && sim->workload_count == sim->workloads_max)
        return aw_fail(diag, AW_ERR_LIMIT, "the cluster was made for %u workloads",
                       sim->workloads_max);
    const uint32_t w = used ? sim->first_free : sim->workload_count;
    struct aw__profile *profile = &sim->profile[w];
    struct aw__pod *pods = pods_of(sim, w);
    struct aw__app *app = pods ? app_share(sim, &workload->app) : NULL;
    if (!app)
        return aw_fail(diag, AW_ERR_NOMEM, "out of memory for a simulated workload");
    sim->first_free = used ? profile->next_free : AW__NO_INDEX;
    *profile = (struct aw__profile){.app = app,
                                    .pods_max = places(workload->replicas_max),
                                    .pods = pods,
                                    .first_pod = sim->pods_used,
                                    .life = profile->life};
    profile_set(profile, workload);
    sim->workload_count += !used;
    sim->pods_used += sim->pod ? profile->pods_max : 0;
    aw__workload_reset(sim, w);
    *ret_index = w;
    return AW_OK;
}

enum aw_err aw_sim_remove(struct aw_sim *sim, uint32_t index)
{
    if (sim->reference)
        return AW_ERR_UNSUPPORTED;
    if (index >= sim->workload_count || !aw__present(sim, index))
        return AW_ERR_NOTFOUND;
    struct aw__profile *profile = &sim->profile[index];
    aw__workload_clear(sim, index);
    for (uint32_t i = 0; i < profile->pods_max; i++)
        if (profile->pods[i].id > 0) /* what was never used stays untouched */
            profile->pods[i] = (struct aw__pod){0};
    app_leave(sim, profile->app);
    *profile = (struct aw__profile){.life = profile->life + 1, .next_free = sim->first_free};
    sim->first_free = index;
    return AW_OK;
}

enum aw_err aw_sim_replace(struct aw_sim *sim, uint32_t index,
                           const struct aw_sim_workload *workload, int64_t load_offset_us)
{
    AW_ASSERT(index < sim->workload_count && aw__present(sim, index));
    struct aw__profile *profile = &sim->profile[index];
    enum aw_err err = check(sim, workload, NULL);
    if (err)
        return err;
    if (places(workload->replicas_max) > profile->pods_max)
        return AW_ERR_RANGE;
    if (profile->app->users == 1) {
        profile->app->app = workload->app;
    } else {
        struct aw__app *app = app_share(sim, &workload->app);
        if (!app)
            return AW_ERR_NOMEM;
        app_leave(sim, profile->app);
        profile->app = app;
    }
    profile_set(profile, workload);
    sim->workload[index].load_offset_us = (double)load_offset_us;
    aw__workload_reset(sim, index);
    return AW_OK;
}

enum aw_err aw_sim_reset(struct aw_sim *sim, uint64_t seed)
{
    aw__world_reset(sim, seed, 0);
    return AW_OK;
}

void aw_sim_reset_at(struct aw_sim *sim, uint64_t seed, int64_t now_us)
{
    aw__world_reset(sim, seed, (double)now_us);
}

void aw_sim_priority(struct aw_sim *sim, uint32_t index, int64_t priority)
{
    AW_ASSERT(index < sim->workload_count && aw__present(sim, index));
    sim->profile[index].priority = priority;
}

void aw_sim_disturb(struct aw_sim *sim, uint32_t workload, const struct aw_sim_disturbance *d)
{
    AW_ASSERT(workload < sim->workload_count && aw__present(sim, workload));
    struct aw_sim_disturbance *now = &sim->workload[workload].disturbance;
    const bool same = d->payload == now->payload && d->families == now->families &&
                      d->cpu_slowdown == now->cpu_slowdown && d->io_slowdown == now->io_slowdown;
    *now = *d;
    if (!same)
        aw__workload_demand(sim, workload);
}

void aw_sim_neighbours(struct aw_sim *sim, double cpu_share, double memory_share)
{
    sim->world->neighbour_cpu = fmin(fmax(cpu_share, 0), 0.95);
    sim->world->neighbour_memory = fmin(fmax(memory_share, 0), 0.95);
    for (uint32_t w = 0; aw__pods_apart(sim) && w < sim->workload_count; w++) {
        struct aw__pod *pods = aw__pods(sim, w);
        for (uint32_t i = 0; i < sim->workload[w].place_end; i++)
            if (pods[i].phase != AW__POD_NONE)
                aw__pod_part_all(sim, w, &pods[i]);
    }
}

void aw_sim_fail_node(struct aw_sim *sim, uint32_t node, int64_t until_us)
{
    AW_ASSERT(node < sim->settings.node_count);
    aw__world_fail_node(sim, node, (double)until_us);
}

void aw_sim_capacity(const struct aw_sim *sim, int64_t *ret_cpu_millicores,
                     int64_t *ret_memory_bytes)
{
    uint32_t up = 0;
    for (uint32_t i = 0; i < sim->settings.node_count; i++)
        up += sim->nodes->down_until_us[i] <= (double)sim->world->now_us;
    *ret_cpu_millicores = (int64_t)(up * aw__node_limits(sim) * 1000);
    *ret_memory_bytes = (int64_t)(up * sim->settings.node_memory_gib * 0x1p30);
}

void aw_sim_fail_metrics(struct aw_sim *sim, int64_t until_us)
{
    sim->world->metrics_down_until_us = (double)until_us;
}

void aw_sim_fail_api(struct aw_sim *sim, int64_t until_us)
{
    sim->world->api_down_until_us = (double)until_us;
}

size_t aw_sim_state_bytes(const struct aw_sim *sim)
{
    size_t bytes = sim->state_bytes;
    for (uint32_t w = 0; w < sim->workload_count; w++)
        bytes += sim->profile[w].pods_max * sizeof(struct aw__pod);
    return bytes;
}

void aw_sim_state_save(const struct aw_sim *sim, void *bytes)
{
    unsigned char *to = bytes;
    memcpy(to, sim->state, sim->state_bytes);
    to += sim->state_bytes;
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        const size_t size = sim->profile[w].pods_max * sizeof(struct aw__pod);
        if (size)
            memcpy(to, sim->profile[w].pods, size);
        to += size;
    }
}

/* Whether the same indices were somebody's when `bytes` were saved. */
static bool same_present(const struct aw_sim *sim, const unsigned char *bytes)
{
    const unsigned char *saved = bytes + ((const unsigned char *)sim->workload - sim->state);
    for (uint32_t w = 0; w < sim->workloads_max; w++) {
        uint32_t replicas;
        memcpy(&replicas,
               saved + w * sizeof *sim->workload + offsetof(struct aw__workload, replicas),
               sizeof replicas);
        if ((replicas > 0) != aw__present(sim, w))
            return false;
    }
    return true;
}

enum aw_err aw_sim_state_load(struct aw_sim *sim, const void *bytes)
{
    const unsigned char *from = bytes;
    if (sim->settings.model != AW_SIM_FAST)
        return AW_ERR_UNSUPPORTED;
    if (!same_present(sim, from))
        return AW_ERR_FORMAT;
    memcpy(sim->state, from, sim->state_bytes);
    from += sim->state_bytes;
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        const size_t size = sim->profile[w].pods_max * sizeof(struct aw__pod);
        if (size)
            memcpy(sim->profile[w].pods, from, size);
        sim->profile[w].touched = sim->profile[w].pods_max;
        from += size;
    }
    return AW_OK;
}

const struct aw_sim_truth *aw_sim_truth(const struct aw_sim *sim, uint32_t workload)
{
    AW_ASSERT(workload < sim->workload_count && aw__present(sim, workload));
    return &sim->workload[workload].truth;
}

/* --- time ----------------------------------------------------------------------------------------
 */

/* What is allocated and running, over an interval in which no pod comes or goes. */
static void account(struct aw_sim *sim, uint32_t w, double dt)
{
    struct aw__workload *workload = &sim->workload[w];
    const struct aw__pod *pods = aw__pods(sim, w);
    workload->step.span_us += dt;
    /* What is reserved on a node is paid for, whether it serves yet or not. */
    /* clang-format off */
    static const double paid[AW__PHASES] = {
        [AW__POD_STARTING] = 1, [AW__POD_READY] = 1, [AW__POD_DRAINING] = 1, [AW__POD_BACKOFF] = 1,
        [AW__POD_LOST] = 1};
    static const double runs[AW__PHASES] = {[AW__POD_READY] = 1, [AW__POD_DRAINING] = 1};
    /* clang-format on */
    struct aw__sums *step = &workload->step;
    double cores = step->cpu_limit_core_us, memory = step->memory_limit_mib_us,
           replica = step->replica_us;
    for (uint32_t i = 0; i < workload->place_end; i++) {
        const double span = pods[i].count * dt * paid[pods[i].phase];
        cores += pods[i].cores * span;
        memory += pods[i].memory_mib * span;
        replica += span * runs[pods[i].phase];
    }
    step->cpu_limit_core_us = cores;
    step->memory_limit_mib_us = memory;
    step->replica_us = replica;
}

static void sums_add(struct aw__sums *to, const struct aw__sums *from)
{
    to->span_us += from->span_us;
    to->arrivals += from->arrivals;
    to->completions += from->completions;
    to->failures += from->failures;
    to->cpu_core_us += from->cpu_core_us;
    to->cpu_limit_core_us += from->cpu_limit_core_us;
    to->memory_mib_us += from->memory_mib_us;
    to->memory_limit_mib_us += from->memory_limit_mib_us;
    to->throttled_us += from->throttled_us;
    to->running_us += from->running_us;
    to->replica_us += from->replica_us;
    to->in_flight_peak = aw__max(to->in_flight_peak, from->in_flight_peak);
    to->memory_peak_mib = aw__max(to->memory_peak_mib, from->memory_peak_mib);
    to->disk_kib += from->disk_kib;
    to->net_kib += from->net_kib;
    to->oom_kills += from->oom_kills;
    to->restarts += from->restarts;
}

static void truth_make(struct aw_sim *sim, uint32_t w)
{
    struct aw__workload *workload = &sim->workload[w];
    const struct aw__sums *step = &workload->step;
    double p50 = NAN, p95 = NAN, p99 = NAN, mean = NAN;
    if (sim->reference) {
        const struct aw_latency_histogram *histogram = &sim->histogram[w];
        p50 = aw_latency_histogram_estimate(histogram, 0.5);
        p95 = aw_latency_histogram_estimate(histogram, 0.95);
        p99 = aw_latency_histogram_estimate(histogram, 0.99);
        mean = histogram->count ? aw_latency_histogram_mean(histogram) : NAN;
        workload->in_flight = aw__reference_in_flight(sim, w);
    } else {
        aw__mixture_latency(sim, w, &mean, &p50, &p95, &p99);
    }
    workload->truth = (struct aw_sim_truth){
        .arrivals = step->arrivals,
        .completions = step->completions,
        .failures = step->failures,
        .latency_us_p50 = p50,
        .latency_us_p95 = p95,
        .latency_us_p99 = p99,
        .latency_us_mean = mean,
        .cpu_core_s = step->cpu_core_us * 1e-6,
        .cpu_limit_core_s = step->cpu_limit_core_us * 1e-6,
        .memory_gib_s = step->memory_mib_us * 1e-6 / 1024,
        .memory_limit_gib_s = step->memory_limit_mib_us * 1e-6 / 1024,
        .throttled_share =
            step->running_us > 0 ? aw__min(1, step->throttled_us / step->running_us) : 0,
        .in_flight = workload->in_flight,
        .in_flight_peak = step->in_flight_peak,
        .replica_s = step->replica_us * 1e-6,
        .oom_kills = step->oom_kills,
        .restarts = step->restarts,
    };
}

static enum aw_err sim_advance(void *self, int64_t until_us)
{
    struct aw_sim *sim = self;
    struct aw__world *world = sim->world;
    const double until = (double)until_us;
    if (!(until > world->now_us))
        return until == world->now_us ? AW_OK : AW_ERR_RANGE;
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        sim->workload[w].step = aw__sums_none;
        aw__mixture_begin(&sim->workload[w].mixture);
        if (sim->histogram)
            aw_latency_histogram_reset(&sim->histogram[w]);
    }
    if (sim->settings.pending_by_priority)
        aw__world_place_pending(sim);
    while (world->now_us < until) {
        const double from = world->now_us;
        double to = until;
        for (uint32_t w = 0; w < sim->workload_count; w++)
            to = aw__min(to, aw__max(sim->workload[w].next_event_us, from));
        if (sim->reference) {
            /* Account before the run: a pod that ends in it was there until then. */
            to = aw__reference_run(sim, to);
            for (uint32_t w = 0; w < sim->workload_count; w++)
                account(sim, w, to - from);
        } else {
            if (to > from && sim->contention)
                aw__contention_run(sim, from, to);
            for (uint32_t w = 0; to > from && w < sim->workload_count; w++) {
                if (!aw__present(sim, w))
                    continue;
                account(sim, w, to - from);
                aw__fast_run(sim, w, from, to);
            }
            world->now_us = to;
        }
        for (uint32_t w = 0; w < sim->workload_count; w++)
            if (sim->workload[w].next_event_us <= to)
                aw__world_fire(sim, w);
        if (sim->settings.pending_by_priority)
            aw__world_place_pending(sim);
    }
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        if (!aw__present(sim, w))
            continue;
        truth_make(sim, w);
        sums_add(&sim->workload[w].sums, &sim->workload[w].step);
    }
    aw__metrics_read(sim);
    return AW_OK;
}

/* --- the contract
 * ---------------------------------------------------------------------------------- */

static uint32_t sim_capabilities(const void *self)
{
    const struct aw_sim *sim = self;
    return AW_CLUSTER_VIRTUAL_TIME | (sim->settings.in_place ? AW_CLUSTER_IN_PLACE_RESIZE : 0u);
}

static enum aw_err sim_observe(void *self, uint32_t workload, int64_t deadline_us,
                               struct aw_sample *ret_sample)
{
    (void)deadline_us; /* virtual time: an answer takes none */
    struct aw_sim *sim = self;
    if (workload >= sim->workload_count || !aw__present(sim, workload))
        return AW_ERR_NOTFOUND;
    struct aw_sim_placed placed;
    enum aw_err err = aw_sim_observe(sim, workload, ret_sample, &placed);
    if (!err)
        aw_sim_observe_pods(sim, workload, ret_sample);
    return err;
}

static enum aw_err sim_apply(void *self, uint32_t w, const struct aw_plan *plan,
                             int64_t deadline_us)
{
    (void)deadline_us;
    struct aw_sim *sim = self;
    if (w >= sim->workload_count || !aw__present(sim, w))
        return AW_ERR_NOTFOUND;
    if (sim->world->api_down_until_us > sim->world->now_us)
        return AW_ERR_UNAVAILABLE;
    struct aw__workload *workload = &sim->workload[w];
    bool changed = false, resized = false;
    if (plan->set & AW_PLAN_REPLICAS) {
        AW_ASSERT(plan->replicas > 0 && plan->replicas <= sim->profile[w].replicas_max);
        changed = plan->replicas != workload->replicas;
        workload->replicas = (uint32_t)plan->replicas;
    }
    if (plan->set & AW_PLAN_CPU) {
        AW_ASSERT(plan->cpu_millicores > 0);
        double cores = (double)plan->cpu_millicores * 1e-3;
        resized = cores != workload->cores;
        workload->cores = cores;
    }
    if (plan->set & AW_PLAN_MEMORY) {
        AW_ASSERT(plan->memory_bytes > 0);
        double memory_mib = (double)plan->memory_bytes / AW_MIB_REAL;
        resized = resized || memory_mib != workload->memory_mib;
        workload->memory_mib = memory_mib;
    }
    workload->revision += resized;
    if (changed || resized)
        aw__world_reconcile(sim, w);
    return AW_OK;
}

static int64_t sim_now_us(const void *self)
{
    const struct aw_sim *sim = self;
    return (int64_t)sim->world->now_us;
}

static void sim_free(void *self)
{
    aw_sim_free(self);
}

static const struct aw_cluster_ops sim_ops = {
    .name = "sim",
    .capabilities = sim_capabilities,
    .observe = sim_observe,
    .apply = sim_apply,
    .advance = sim_advance,
    .now_us = sim_now_us,
    .free = sim_free,
};

struct aw_cluster aw_sim_cluster(struct aw_sim *sim)
{
    return (struct aw_cluster){.ops = &sim_ops, .self = sim};
}
