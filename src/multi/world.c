/* world.c - functions on shared nodes: load, placement, contention, latencies. */
#include "multi/world.h"

#include <math.h>
#include <string.h>

const char *const aw_multi_category_names[] = {"cpu", "memory", "io", NULL};

const struct aw_multi_function aw_multi_functions[AW_MULTI_FUNCTIONS] = {
    {"Base64", 0.060f, 0.002f, 6, 128},           {"Primes", 0.900f, 0, 0.5f, 128},
    {"Markdown2HTML", 0.090f, 0.002f, 5, 128},    {"Sentiment-Anlys", 0.700f, 0.010f, 2, 256},
    {"Image-Resize", 0.300f, 0.010f, 2.5f, 256},  {"HTML-Gen", 0.050f, 0.005f, 1.5f, 128},
    {"Uploader", 0.020f, 0.250f, 0.5f, 128},      {"Compression", 0.120f, 0.400f, 1, 256},
    {"Image-Inference", 1.000f, 0.020f, 4, 1024}, {"Page-Rank", 0.350f, 0.010f, 7, 512},
    {"Graph-BFT", 0.250f, 0.010f, 6, 256},        {"Graph-MST", 0.300f, 0.010f, 6, 256},
};

const char *const aw_multi_load_names[] = {"bursts", "independent", NULL};
#define AW_CONF_OF struct aw_multi_settings
const struct aw_conf_field aw_multi_fields[] = {AW_MULTI_FIELDS(), {0}};
#undef AW_CONF_OF

#define TAIL_CPU       1.25f /* p99 over mean of the CPU time of a request */
#define TAIL_WAIT      1.2f  /* the same of its waiting */
#define SWARM          1.6f  /* deviations of the number that is runnable, at the tail */
#define CV_FACTOR      0.75f /* (1 + c^2) / 2 of service times, on waiting for a container */
#define BANDWIDTH_FREE 0.6f  /* share of a node's bandwidth up to which nobody is slowed */
#define ROUNDS         4u    /* of the fixed point; it starts where the step before ended */
#define PROBES         200u  /* nodes that a container is tried on, ... */
/* ... and those with room that it chooses from: what the scheduler of Kubernetes scores at least
 * (minFeasibleNodesToFind). With eight, functions of a large cluster meet on the same few nodes. */
#define CHOICES    100u
#define NEIGHBOURS 8u /* nodes that are tried in their order; more are tried far apart */

/* --- functions -------------------------------------------------------------------------------- */

static float bandwidth_factor(const struct aw_multi_function *f, float use_share)
{
    const float beyond = use_share - BANDWIDTH_FREE;
    return beyond > 0 ? 1 + beyond * f->gb_per_s / 3 : 1;
}

enum aw_multi_category aw_multi_category_of(const struct aw_multi_function *f)
{
    const float alone = f->cpu_s + f->wait_s;
    const float half_cpu = (2 * f->cpu_s + f->wait_s) / alone;
    /* half of the bandwidth to be had: its use is twice the share that it would be at saturation */
    const float half_memory = (f->cpu_s * bandwidth_factor(f, 2 * 0.75f) + f->wait_s) / alone;
    const float twice_wait = (f->cpu_s + 2 * f->wait_s) / alone;
    if (twice_wait > half_cpu && twice_wait > half_memory)
        return AW_MULTI_IO;
    return half_memory > half_cpu ? AW_MULTI_MEMORY : AW_MULTI_CPU;
}

/* p99 of waiting for one of k containers at the load rho of each: the tail of M/M/k with
 * Sakasegawa's probability to wait, scaled for service times that vary less. */
static float queue_p99(float k, float rho, float service_s)
{
    if (k <= 0 || rho <= 0 || rho >= 1)
        return 0;
    const float wait = powf(rho, sqrtf(2 * (k + 1)) - 1);
    return wait > 0.01f ? CV_FACTOR * logf(100 * wait) * service_s / (k * (1 - rho)) : 0;
}

double aw_multi_alone_p99_s(const struct aw_multi_function *f, double rate)
{
    const float service = f->cpu_s + f->wait_s, busy = (float)rate * service;
    const float k = ceilf(busy + 2 * sqrtf(busy));
    return (double)(TAIL_CPU * f->cpu_s + TAIL_WAIT * f->wait_s + queue_p99(k, busy / k, service));
}

/* --- life ------------------------------------------------------------------------------------- */

static void carve(struct aw_multi_world *w, struct aw_carve *c)
{
    const size_t n = w->settings.agents_max, m = w->node_max;
    uint8_t **const bytes[] = {&w->here,       &w->kind,   &w->category, &w->priority,
                               &w->containers, &w->wanted, &w->fresh};
    float **const floats[] = {&w->mean_rate,  &w->wave,        &w->slo_s, &w->backlog, &w->slow,
                              &w->rate,       &w->rate_before, &w->p50_s, &w->p99_s,   &w->cpu_use,
                              &w->memory_use, &w->pressure,    &w->busy};
    float **const nodes[] = {&w->node_memory, &w->node_held,       &w->node_weight,
                             &w->node_capped, &w->node_run,        &w->node_bandwidth,
                             &w->node_speed,  &w->node_speed_tail, &w->node_slow};
    w->node = aw_carve_take(c, n * AW_MULTI_CONTAINERS_MAX, sizeof *w->node);
    w->shares = aw_carve_take(c, n, sizeof *w->shares);
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        *floats[i] = aw_carve_take(c, n, sizeof(float));
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        *nodes[i] = aw_carve_take(c, m, sizeof(float));
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        *bytes[i] = aw_carve_take(c, n, 1);
}

static uint32_t nodes_for(const struct aw_multi_settings *settings, uint32_t agents)
{
    const double nodes = ceil(agents / settings->agents_per_node);
    return nodes < 1 ? 1 : nodes > AW_MULTI_NODES_MAX ? AW_MULTI_NODES_MAX : (uint32_t)nodes;
}

enum aw_err aw_multi_init(struct aw_multi_world *w, const struct aw_multi_settings *settings,
                          const struct aw_alloc *alloc, struct aw_diag *diag)
{
    *w = (struct aw_multi_world){.settings = *settings, .alloc = alloc};
    if (w->settings.agents_max < w->settings.agents)
        w->settings.agents_max = w->settings.agents;
    if (w->settings.agents == 0 || w->settings.agents_max > AW_MULTI_AGENTS_MAX) {
        *w = (struct aw_multi_world){0};
        return aw_fail(diag, AW_ERR_CONFIG, "expected 1 to %u functions, found %u",
                       AW_MULTI_AGENTS_MAX, settings->agents);
    }
    w->node_max = nodes_for(settings, w->settings.agents_max);
    struct aw_carve sizing = {0};
    carve(w, &sizing);
    w->block = aw_alloc_new(alloc, sizing.used, 1);
    if (!w->block) {
        *w = (struct aw_multi_world){0};
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for %u functions", settings->agents);
    }
    carve(w, &(struct aw_carve){.base = w->block});
    aw_multi_reset(w, 0);
    return AW_OK;
}

void aw_multi_deinit(struct aw_multi_world *w)
{
    if (w->block)
        aw_alloc_free(w->alloc, w->block);
    *w = (struct aw_multi_world){0};
}

size_t aw_multi_bytes(const struct aw_multi_world *w)
{
    struct aw_multi_world copy = *w;
    struct aw_carve sizing = {0};
    carve(&copy, &sizing);
    return sizing.used;
}

double aw_multi_offered(const struct aw_multi_world *w, uint32_t agent)
{
    const struct aw_multi_function *f = &aw_multi_functions[w->kind[agent]];
    return (double)(w->mean_rate[agent] * (f->cpu_s + f->wait_s));
}

double aw_multi_cores(const struct aw_multi_world *w, uint32_t agent)
{
    return w->containers[agent]; /* a container uses one core at most; shares are weights */
}

/* Its part of what is offered: equal in CPU between all, but for a factor of up to two. */
static void settle_in(struct aw_multi_world *w, uint32_t i, uint32_t kind, double cores_each)
{
    const struct aw_multi_function *f = &aw_multi_functions[kind];
    const double factor = exp2(aw_rng_uniform(&w->rng, -0.5, 0.5));
    w->here[i] = 1;
    w->kind[i] = (uint8_t)kind;
    w->category[i] = (uint8_t)aw_multi_category_of(f);
    w->priority[i] = 0;
    /* CPU, and a quarter of the waiting: a function that only waits is not offered thousands */
    w->mean_rate[i] = (float)(factor * cores_each / ((double)f->cpu_s + 0.25 * (double)f->wait_s));
    w->wave[i] = (float)(w->settings.burst * aw_rng_normal(&w->rng));
    w->slo_s[i] =
        (float)(w->settings.slo_factor * aw_multi_alone_p99_s(f, (double)w->mean_rate[i]));
    w->containers[i] = w->fresh[i] = 0;
    const double busy = aw_multi_offered(w, i);
    const double start = ceil(busy + 4 * sqrt(busy));
    w->wanted[i] = (uint8_t)fmin(fmax(1, start), AW_MULTI_CONTAINERS_MAX);
    w->shares[i] = 1024;
    w->backlog[i] = 0;
    w->slow[i] = 1;
    const double burst = w->settings.burst;
    w->rate[i] = w->rate_before[i] =
        w->mean_rate[i] * expf(w->wave[i] - (float)(0.5 * burst * burst));
    w->p50_s[i] = f->cpu_s + f->wait_s;
    w->p99_s[i] = w->slo_s[i];
    const float load = (float)fmin(1, busy / w->wanted[i]);
    w->busy[i] = load; /* as if it had run so before */
    w->cpu_use[i] = load * f->cpu_s / (f->cpu_s + f->wait_s);
    w->memory_use[i] = 0.3f + 0.6f * load;
    w->pressure[i] = 0;
}

static double cores_each(const struct aw_multi_world *w)
{
    return w->settings.offered * w->settings.node_cores / w->settings.agents_per_node;
}

void aw_multi_reset(struct aw_multi_world *w, uint64_t seed)
{
    aw_rng_init(&w->rng, seed, 0);
    w->count = w->live = w->settings.agents;
    w->node_count = nodes_for(&w->settings, w->live);
    w->steps = 0;
    memset(w->here, 0, w->settings.agents_max);
    memset(w->node_memory, 0, w->node_max * sizeof *w->node_memory);
    memset(w->node_held, 0, w->node_max * sizeof *w->node_held);
    for (uint32_t m = 0; m < w->node_max; m++) {
        w->node_speed[m] = w->node_speed_tail[m] = 16;
        w->node_slow[m] = 1;
    }
    for (uint32_t i = 0; i < w->count; i++)
        settle_in(w, i, i % AW_MULTI_FUNCTIONS, cores_each(w));
}

void aw_multi_reset_alone(struct aw_multi_world *w, uint64_t seed, uint32_t agent)
{
    aw_multi_reset(w, seed);
    for (uint32_t i = 0; i < w->count; i++)
        w->here[i] = i == agent;
    w->live = 1;
}

static void rescale(struct aw_multi_world *w)
{
    const uint32_t nodes = nodes_for(&w->settings, w->live);
    if (nodes > w->node_count)
        w->node_count = nodes < w->node_max ? nodes : w->node_max;
}

static uint32_t add_at(struct aw_multi_world *w, uint32_t i, uint32_t kind, bool scaled)
{
    AW_ASSERT(i < w->settings.agents_max);
    w->count += i == w->count;
    w->live++;
    settle_in(w, i, kind, cores_each(w));
    if (scaled)
        rescale(w);
    return i;
}

uint32_t aw_multi_add(struct aw_multi_world *w, uint32_t kind, bool scaled)
{
    uint32_t i = 0;
    while (i < w->count && w->here[i])
        i++;
    return add_at(w, i, kind, scaled);
}

uint32_t aw_multi_append(struct aw_multi_world *w, uint32_t kind, bool scaled)
{
    return add_at(w, w->count, kind, scaled);
}

static void take_off(struct aw_multi_world *w, uint32_t i)
{
    const uint32_t m = w->node[(size_t)i * AW_MULTI_CONTAINERS_MAX + --w->containers[i]];
    w->node_memory[m] -= aw_multi_functions[w->kind[i]].memory_mib;
    w->node_held[m]--;
    w->fresh[i] -= w->fresh[i] > w->containers[i];
}

void aw_multi_remove(struct aw_multi_world *w, uint32_t agent, bool scaled)
{
    while (w->containers[agent] > 0)
        take_off(w, agent);
    w->here[agent] = 0;
    w->live--;
    if (scaled)
        rescale(w); /* nodes in use stay */
}

void aw_multi_surge(struct aw_multi_world *w, uint32_t agent, double factor)
{
    w->mean_rate[agent] *= (float)factor;
}

void aw_multi_set(struct aw_multi_world *w, uint32_t agent, uint32_t containers, uint32_t shares)
{
    w->wanted[agent] =
        (uint8_t)(containers < AW_MULTI_CONTAINERS_MAX ? containers : AW_MULTI_CONTAINERS_MAX);
    w->shares[agent] = (uint16_t)(shares < AW_MULTI_SHARES_MIN   ? AW_MULTI_SHARES_MIN
                                  : shares > AW_MULTI_SHARES_MAX ? AW_MULTI_SHARES_MAX
                                                                 : shares);
}

/* --- a step ----------------------------------------------------------------------------------- */

static void draw_loads(struct aw_multi_world *w)
{
    const float burst = (float)w->settings.burst;
    const bool chained = w->settings.load == AW_MULTI_LOAD_BURSTS;
    const float keep = chained ? 0.9f : 0, more = sqrtf(1 - keep * keep);
    for (uint32_t i = 0; i < w->count; i++) { /* of all: who is there changes nobody's load */
        w->wave[i] = keep * w->wave[i] + more * burst * (float)aw_rng_normal(&w->rng);
        w->rate_before[i] = w->rate[i];
        w->rate[i] = w->mean_rate[i] * expf(w->wave[i] - 0.5f * burst * burst);
    }
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Of the first CHOICES that have room, from a home node by hash on, the one with the fewest
 * containers: all of them in a cluster of that size, so that it is balanced whatever the number. */
static uint32_t find_node(const struct aw_multi_world *w, uint32_t i, float memory_mib)
{
    const uint32_t nodes = w->node_count;
    const float room = (float)w->settings.node_memory_gib * 1024;
    const uint64_t hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    /* far apart where there are many: neighbours in the list would be a cluster of their own */
    uint32_t stride = nodes > NEIGHBOURS ? 1 + (uint32_t)(hash % (nodes - 1)) : 1;
    while (common_divisor(stride, nodes) != 1) /* else it comes round too early */
        stride++;
    uint32_t at = (uint32_t)(hash >> 32) % nodes, best = AW_MULTI_NOWHERE, found = 0;
    for (uint32_t probe = 0; probe < PROBES && probe < nodes && found < CHOICES; probe++) {
        if (w->node_memory[at] + memory_mib <= room) {
            if (best == AW_MULTI_NOWHERE || w->node_held[at] < w->node_held[best])
                best = at;
            found++;
        }
        at = (at + stride) % nodes;
    }
    return best;
}

static void place_one(struct aw_multi_world *w, uint32_t i)
{
    const struct aw_multi_function *f = &aw_multi_functions[w->kind[i]];
    uint32_t *node = w->node + (size_t)i * AW_MULTI_CONTAINERS_MAX;
    /* without a container the platform starts one for the request that waits */
    const uint32_t wanted = w->wanted[i] == 0 && w->rate[i] > 0.01f ? 1 : w->wanted[i];
    w->fresh[i] = 0;
    while (w->containers[i] > wanted)
        take_off(w, i);
    while (w->containers[i] < wanted) {
        const uint32_t m = find_node(w, i, f->memory_mib);
        if (m == AW_MULTI_NOWHERE)
            return; /* pending: tried again in the next step */
        node[w->containers[i]++] = m;
        w->node_memory[m] += f->memory_mib;
        w->node_held[m]++;
        w->fresh[i]++;
    }
}

/* By priority, then from another agent on in every step: never by index. */
static void place(struct aw_multi_world *w)
{
    uint8_t most = 0;
    for (uint32_t i = 0; i < w->count; i++)
        most = w->here[i] && w->priority[i] > most ? w->priority[i] : most;
    const uint32_t first = w->count ? aw_rng_below(&w->rng, w->count) : 0;
    for (int class = most; class >= 0; class --)
        for (uint32_t k = 0; k < w->count; k++) {
            const uint32_t i = first + k < w->count ? first + k : first + k - w->count;
            if (w->here[i] && w->priority[i] == class && w->steps > 0)
                place_one(w, i);
            else if (w->here[i] && w->priority[i] == class) {
                place_one(w, i);
                w->fresh[i] = 0; /* an episode does not begin with a cold start */
            }
        }
}

static float service_of(const struct aw_multi_function *f, float slow)
{
    return f->cpu_s * slow + f->wait_s;
}

/* What is runnable on every node at the speeds of the round before. */
static void sum_nodes(struct aw_multi_world *w)
{
    const size_t bytes = w->node_count * sizeof(float);
    memset(w->node_weight, 0, bytes);
    memset(w->node_capped, 0, bytes);
    memset(w->node_run, 0, bytes);
    memset(w->node_bandwidth, 0, bytes);
    const float step_s = (float)w->settings.step_s;
    for (uint32_t i = 0; i < w->count; i++) {
        const uint32_t k = w->here[i] ? w->containers[i] : 0;
        if (k == 0)
            continue;
        const struct aw_multi_function *f = &aw_multi_functions[w->kind[i]];
        const float service = service_of(f, w->slow[i]);
        const float load = w->rate[i] + w->backlog[i] / step_s;
        const float busy = fminf(1, load * service / (float)k);
        const float run = busy * f->cpu_s * w->slow[i] / service;
        const float weight = (float)w->shares[i] / 1024;
        const uint32_t *node = w->node + (size_t)i * AW_MULTI_CONTAINERS_MAX;
        for (uint32_t c = 0; c < k; c++) {
            const uint32_t m = node[c];
            w->node_run[m] += run;
            w->node_bandwidth[m] += run / w->slow[i] * f->gb_per_s;
            if (w->node_speed[m] * weight >= 1)
                w->node_capped[m] += run;
            else
                w->node_weight[m] += run * weight;
        }
    }
}

/* Cores per 1024 shares where `part` of the demand meets all cores; large where all have a core. */
static float speed_at(float cores, float run, float capped, float weight, float part)
{
    if (run * part <= cores || weight <= 0)
        return run * part <= cores ? 16 : cores / (run * part);
    const float left = cores / part - capped;
    const float least = cores / part / (weight + capped * 2);
    return fmaxf(left / weight, least);
}

static void set_speeds(struct aw_multi_world *w)
{
    const float cores = (float)w->settings.node_cores;
    const float bandwidth = (float)w->settings.node_gb_per_s;
    for (uint32_t m = 0; m < w->node_count; m++) {
        const float run = w->node_run[m];
        const float swarm = run > 0 ? 1 + SWARM / sqrtf(run) : 1;
        const float now = speed_at(cores, run, w->node_capped[m], w->node_weight[m], 1);
        w->node_speed[m] = 0.5f * w->node_speed[m] + 0.5f * now; /* damped */
        w->node_speed_tail[m] = speed_at(cores, run, w->node_capped[m], w->node_weight[m], swarm);
        w->node_slow[m] = w->node_bandwidth[m] / bandwidth;
    }
}

/* Mean slowdown of CPU time over the containers of an agent, and that of the tail. */
static float slowdown(const struct aw_multi_world *w, uint32_t i, bool tail, float *pressure)
{
    const struct aw_multi_function *f = &aw_multi_functions[w->kind[i]];
    const uint32_t *node = w->node + (size_t)i * AW_MULTI_CONTAINERS_MAX, k = w->containers[i];
    const float weight = (float)w->shares[i] / 1024;
    const float *speed = tail ? w->node_speed_tail : w->node_speed;
    float sum = 0, most = 0;
    for (uint32_t c = 0; c < k; c++) {
        const uint32_t m = node[c];
        sum += bandwidth_factor(f, w->node_slow[m]) / fminf(1, speed[m] * weight);
        most = fmaxf(most, w->node_run[m]);
    }
    *pressure = most / (float)w->settings.node_cores;
    return k ? sum / (float)k : 1;
}

static void contend(struct aw_multi_world *w)
{
    float pressure;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        sum_nodes(w);
        set_speeds(w);
        for (uint32_t i = 0; i < w->count; i++)
            if (w->here[i] && w->containers[i])
                w->slow[i] = 0.5f * w->slow[i] + 0.5f * slowdown(w, i, false, &pressure);
    }
}

static void find_latency(struct aw_multi_world *w, uint32_t i)
{
    const struct aw_multi_function *f = &aw_multi_functions[w->kind[i]];
    const float step_s = (float)w->settings.step_s, timeout_s = (float)w->settings.timeout_s;
    const float cold_s = (float)w->settings.cold_s;
    const float k = (float)w->containers[i] - (float)w->fresh[i] * fminf(1, cold_s / step_s);
    const float tail = slowdown(w, i, true, &w->pressure[i]);
    const float service = service_of(f, w->slow[i]), arrivals = w->rate[i] * step_s;
    if (k <= 0.01f) { /* no room, or none wanted: everybody waits for a container */
        w->backlog[i] = fminf(w->backlog[i] + arrivals, w->rate[i] * timeout_s);
        w->p50_s[i] = w->p99_s[i] = arrivals > 0.01f ? timeout_s : service;
        w->cpu_use[i] = w->memory_use[i] = w->busy[i] = 0;
        return;
    }
    const float served = k * step_s / service, offered = w->backlog[i] + arrivals;
    const float rho = w->rate[i] * service / k;
    const float left = fmaxf(0, offered - served);
    const float queue = 0.5f * (w->backlog[i] + left) * service / k; /* mean wait in the backlog */
    const float worst = fmaxf(w->backlog[i], left) * service / k;
    const float cold = w->containers[i] == w->fresh[i] ? cold_s : 0;
    w->p50_s[i] = fminf(timeout_s, service + queue);
    w->p99_s[i] =
        fminf(timeout_s, TAIL_CPU * f->cpu_s * fmaxf(tail, w->slow[i]) + TAIL_WAIT * f->wait_s +
                             worst + cold + queue_p99(k, fminf(rho, 0.98f), service));
    w->backlog[i] = fminf(left, w->rate[i] * timeout_s);
    w->busy[i] = fminf(1, offered / served);
    const float used = fminf(offered, served) / step_s * f->cpu_s;
    w->cpu_use[i] = fminf(1, used / (float)aw_multi_cores(w, i));
    w->memory_use[i] = 0.3f + 0.6f * w->busy[i];
}

void aw_multi_step(struct aw_multi_world *w)
{
    draw_loads(w);
    place(w);
    contend(w);
    for (uint32_t i = 0; i < w->count; i++)
        if (w->here[i])
            find_latency(w, i);
    w->steps++;
}

void aw_multi_save(const struct aw_multi_world *w, void *bytes)
{
    memcpy(bytes, w, sizeof *w);
    memcpy((char *)bytes + sizeof *w, w->block, aw_multi_bytes(w));
}

void aw_multi_restore(struct aw_multi_world *w, const void *bytes)
{
    memcpy(w, bytes, sizeof *w); /* pointers are those of the same world */
    memcpy(w->block, (const char *)bytes + sizeof *w, aw_multi_bytes(w));
}
