/*
 * contention.c - what the pods of a node leave each other when its limits sum to more than its
 * cores.
 *
 * CPU is shared as the kernel shares it between control groups: in proportion to weights, nobody
 * gets more than it can use, and what is left over goes to the others. A pod's weight is what it
 * requests, its limit over `overcommit_cpu`.
 *
 * The reference asks at every change. The fast model asks once for a whole interval, in which a
 * node is a queue with as many servers as cores: what is runnable exceeds the cores with
 * Sakasegawa's probability, and then by an amount that is exponential, the larger the nearer the
 * node is to its limits and the more threads come at once. Four levels of it are looked at: cores
 * to spare, and three of too few. At each, what a pod gets when it is busy follows from the weights
 * of those that are busy then. Requests that take long meet several levels, and their mean.
 */
#include "cluster/sim/contention.h"

#include <string.h>

/* Load of a node beyond which there is no steady state: those who miss out have a backlog then. */
#define LOAD_MAX 0.97
/* Of what is runnable on average, while cores are to spare. */
#define SPARE 0.85
/* A pod that is never short runs at this many times what it could use. */
#define PLENTY 1e3

/* Of an exponential amount: parts of the probability, and its mean in each of them. */
static const double excess_share[AW__LEVELS] = {0, 0.75, 0.2, 0.05};
static const double excess_mean[AW__LEVELS] = {0, 0.538, 1.984, 3.996};

double aw__share(const struct aw__sharer *sharers, uint32_t count, double cores)
{
    double left = cores, weight = 0;
    for (uint32_t i = 0; i < count; i++)
        weight += sharers[i].busy * sharers[i].weight;
    /* Who wants less than its part gets what it wants; then parts grow, and more of them do. */
    for (double theta = 0;;) {
        double want = 0, satisfied = 0;
        const double next = weight > 0 ? left / weight : INFINITY;
        for (uint32_t i = 0; i < count; i++) {
            const double ratio = sharers[i].want / sharers[i].weight;
            if (ratio > theta && ratio <= next) {
                want += sharers[i].busy * sharers[i].want;
                satisfied += sharers[i].busy * sharers[i].weight;
            }
        }
        if (satisfied <= 0)
            return next;
        theta = next;
        left = aw__max(0, left - want);
        weight = aw__max(0, weight - satisfied);
        if (weight < 1e-12)
            return INFINITY;
    }
}

/* What a replica wants of its node when it is alone there. */
static void want(struct aw__tenant *t)
{
    const double running = t->use / t->parallelism; /* requests on the CPU, on average */
    t->busy = t->saturated ? 1 : 1 - exp(-running);
    t->want = t->saturated ? t->quota : t->busy > 0 ? t->use / t->busy : 0;
}

/* Requests come by chance, and those that a quota held back run together. */
static double variance_of(const struct aw__tenant *t)
{
    const double load = aw__min(t->use / t->quota, 0.9);
    return t->saturated ? 0 : t->parallelism * t->use / (1 - load);
}

/* What the pods of a node want together. */
struct queue {
    double mean;
    double waits;              /* probability that they want more than there is */
    double excess;             /* mean of how much more, then */
    double lasts_ms;           /* for so long */
    double factor[AW__LEVELS]; /* on what is wanted on average */
};

static void queue_of(const struct aw__tenant *tenant, const uint32_t *on, uint32_t count,
                     double cores, struct queue *ret)
{
    struct queue q = {0};
    double variance = 0, span = 0;
    for (uint32_t k = 0; k < count; k++) {
        const struct aw__tenant *t = &tenant[on[k]];
        q.mean += t->saturated ? t->quota : t->use;
        variance += variance_of(t);
        span += t->use * t->request_ms;
    }
    q.mean = aw__max(q.mean, 1e-9);
    const double together = aw__max(variance / q.mean, 0.1); /* threads that come at once */
    const double load = aw__min(q.mean / cores, LOAD_MAX), servers = cores / together;
    const double left = 1 - sqrt(load);
    q.waits = q.mean < cores ? pow(load, sqrt(2 * (servers + 1)) - 1) : 1;
    q.excess = together / (1 - load);
    q.lasts_ms = span / q.mean * (1 + 1 / (servers * left * left));
    q.factor[0] = SPARE * aw__min(1, cores / q.mean);
    for (uint32_t l = 1; l < AW__LEVELS; l++)
        q.factor[l] = aw__max(1, (cores + q.excess * excess_mean[l]) / q.mean);
    *ret = q;
}

/* Cores for the pod `self` of a node when it is busy and the others want `factor` times what they
 * want on average. */
static double cores_beside(struct aw__sharer *sharer, const struct aw__tenant *tenant,
                           const uint32_t *on, uint32_t count, uint32_t self, double factor,
                           double cores)
{
    for (uint32_t k = 0; k < count; k++) {
        const struct aw__tenant *t = &tenant[on[k]];
        const double busy = t->busy * factor;
        sharer[k] = (struct aw__sharer){
            .busy = aw__min(1, busy),
            .want = t->want * (t->saturated ? 1 : aw__max(1, busy)),
            .weight = t->weight,
        };
    }
    sharer[self].busy = 1;
    sharer[self].want = PLENTY * cores;
    return aw__min(aw__share(sharer, count, cores), PLENTY) * sharer[self].weight;
}

static void node_solve(struct aw__contention *c, const uint32_t *on, uint32_t count, double cores)
{
    struct queue q;
    queue_of(c->tenant, on, count, cores, &q);
    for (uint32_t k = 0; k < count; k++) {
        struct aw__tenant *t = &c->tenant[on[k]];
        double slow[AW__LEVELS], mean = 0;
        t->lasting = cores_beside(c->sharer, c->tenant, on, count, k, 1, cores);
        for (uint32_t l = 0; l < AW__LEVELS; l++) {
            t->share[l] = l ? q.waits * excess_share[l] : 1 - q.waits;
            t->cores[l] = cores_beside(c->sharer, c->tenant, on, count, k, q.factor[l], cores);
            slow[l] = aw__max(1, t->parallelism / t->cores[l]);
            mean += t->share[l] * slow[l];
        }
        const double averaged = t->request_ms / (t->request_ms + q.lasts_ms);
        for (uint32_t l = 0; l < AW__LEVELS; l++) {
            const double met = exp(averaged * log(mean) + (1 - averaged) * log(slow[l]));
            if (met > 1.0001)
                t->cores[l] = t->parallelism / met;
        }
    }
}

void aw__contention_solve(struct aw__contention *c, uint32_t nodes, double cores)
{
    uint32_t *first = c->first;
    memset(first, 0, (nodes + 1) * sizeof *first);
    for (uint32_t i = 0; i < c->count; i++)
        first[c->tenant[i].node + 1]++;
    for (uint32_t n = 0; n < nodes; n++)
        first[n + 1] += first[n];
    uint32_t at[AW_SIM_NODES_MAX];
    memcpy(at, first, nodes * sizeof *at);
    for (uint32_t i = 0; i < c->count; i++)
        c->on[at[c->tenant[i].node]++] = i;
    for (uint32_t i = 0; i < c->count; i++)
        want(&c->tenant[i]);
    for (uint32_t n = 0; n < nodes; n++)
        node_solve(c, c->on + first[n], first[n + 1] - first[n], cores);
}

/* --- of a simulated cluster ------------------------------------------------------------------- */

enum aw_err aw__contention_new(struct aw_sim *sim)
{
    struct aw__contention *c = aw_alloc_new(sim->alloc, 1, sizeof *c);
    if (!c)
        return AW_ERR_NOMEM;
    sim->contention = c;
    c->tenants_max = sim->workloads_max * AW__PIECE_PLACES;
    c->tenant = aw_alloc_new(sim->alloc, c->tenants_max, sizeof *c->tenant);
    c->sharer = aw_alloc_new(sim->alloc, c->tenants_max, sizeof *c->sharer);
    c->on = aw_alloc_new(sim->alloc, c->tenants_max, sizeof *c->on);
    c->of = aw_alloc_new(sim->alloc, sim->workloads_max, sizeof *c->of);
    return c->tenant && c->sharer && c->on && c->of ? AW_OK : AW_ERR_NOMEM;
}

void aw__contention_free(struct aw_sim *sim)
{
    struct aw__contention *c = sim->contention;
    if (!c)
        return;
    aw_alloc_free(sim->alloc, c->tenant);
    aw_alloc_free(sim->alloc, c->sharer);
    aw_alloc_free(sim->alloc, c->on);
    aw_alloc_free(sim->alloc, c->of);
    aw_alloc_free(sim->alloc, c);
    sim->contention = NULL;
}

static void tenants_add(struct aw_sim *sim, uint32_t w, double rate_per_s)
{
    struct aw__contention *c = sim->contention;
    const struct aw__workload *workload = &sim->workload[w];
    const struct aw__pod *pods = aw__pods(sim, w);
    const struct aw_demand *demand = &workload->demand;
    uint32_t ready = 0;
    for (uint32_t i = 0; i < workload->place_end; i++)
        ready += pods[i].phase == AW__POD_READY;
    c->of[w] = c->count;
    for (uint32_t i = 0; i < workload->place_end; i++) {
        const struct aw__pod *pod = &pods[i];
        if (pod->phase != AW__POD_READY)
            continue;
        const double capacity = aw_surrogate_capacity(&workload->known, pod->cores);
        const bool saturated = pod->backlog > 0 || rate_per_s / ready > capacity;
        const double rate = aw__min(rate_per_s / ready, capacity);
        c->tenant[c->count++] = (struct aw__tenant){
            .node = pod->node,
            .saturated = saturated,
            .weight = pod->cores,
            .quota = pod->cores,
            .parallelism = demand->parallelism,
            .request_ms = demand->cpu_ms / demand->parallelism,
            .use = saturated ? pod->cores : rate * demand->cpu_ms * 1e-3,
        };
    }
}

void aw__contention_run(struct aw_sim *sim, double from_us, double until_us)
{
    struct aw__contention *c = sim->contention;
    c->count = 0;
    for (uint32_t w = 0; w < sim->workload_count; w++)
        if (aw__present(sim, w))
            tenants_add(sim, w, aw__fast_rate(sim, w, from_us, until_us));
    aw__contention_solve(c, sim->settings.node_count,
                         sim->settings.node_cores * (1 - sim->world->neighbour_cpu));
}
