/*
 * fast.c - a whole interval at once.
 *
 * Between two changes of the world every ready replica sees its share of the load. Below saturation
 * its latencies are the steady state of surrogate.c; beyond it, and while an earlier backlog
 * drains, requests wait for what is before them: backlog X grows by (rate - capacity) dt, and a
 * request that arrives meets a wait of X / capacity. What was measured over a step varies from step
 * to step as it does in the reference: a p99 of 300 requests is not that of a million.
 */
#include "cluster/sim/contention.h"

#define BUSY_MAX    512.0 /* as the reference: in service, and waiting, at one replica */
#define QUEUE_MAX   2048.0
#define SHARED_DONE 0.42 /* work done of a request in service, in overload (reference) */
#define PEAK_SPREAD 0.25 /* of a window's peak above the mean, from window to window */
#define PEAK_SURE   5.0  /* deviations of it that never come */
/* How suddenly crowding comes as the load grows: for the mean request, and for the slow ones. */
#define CROWDED_MEAN 24.0
#define CROWDED_SLOW 6.0
/* Load up to which a correction of the tail is meant in full, and from where on not at all: what
 * queues is the network's own trade. */
#define TAIL_FULL 0.5
#define TAIL_NONE 0.8
#define TAIL_BEND 0.1 /* of the logarithms above the median that is left at least */

struct cohort { /* ready replicas with the same cores, and about the same left by others */
    double cores;
    uint32_t count;
    double backlog; /* sum over its replicas */
    bool contended;
    double share[AW__LEVELS]; /* of the time, at each level of what others want */
    double left[AW__LEVELS];  /* cores for one that is busy then */
    double lasting;           /* cores for one that is always busy */
};

/* The places of ready pods, and of which cohort each is. */
struct serving {
    uint32_t count;
    uint8_t place[AW__PIECE_PLACES], cohort[AW__PIECE_PLACES];
};
#define NO_COHORT UINT8_MAX

/* What neighbours leave of a replica's cores. */
static double cores_left(const struct aw_sim *sim, const struct aw__pod *pod)
{
    if (sim->world->neighbour_cpu <= 0 || pod->node == AW__NO_NODE || sim->contention)
        return pod->cores;
    const double taken = sim->nodes->cores_taken[pod->node];
    const double left = sim->settings.node_cores * (1 - sim->world->neighbour_cpu);
    return taken > left ? pod->cores * left / taken : pod->cores;
}

static double busy_limit(const struct aw_demand *demand)
{
    return demand->threads && demand->threads < BUSY_MAX ? demand->threads : BUSY_MAX;
}

/* What requests in flight hold, the same for every replica of a cohort. */
struct held {
    double mean_mib, peak_mib; /* over the interval, and at its expected peak */
    double sure_mib;           /* at a peak that never comes */
    double spread_mib;         /* of the peak, from interval to interval */
};

static struct held held_of(const struct aw__workload *workload, const struct aw_steady *steady,
                           double backlog)
{
    const double flight = workload->demand.memory_flight_mib;
    const double limit = busy_limit(&workload->demand);
    const double mean = aw__min(steady->in_flight + backlog, limit);
    const double peak = aw__max(mean, aw__min(steady->in_flight_peak + backlog, limit));
    const double spread = PEAK_SPREAD * (steady->in_flight_peak - steady->in_flight);
    return (struct held){.mean_mib = flight * mean,
                         .peak_mib = flight * peak,
                         .sure_mib = flight * aw__min(peak + PEAK_SURE * spread, limit),
                         .spread_mib = flight * spread};
}

/* Those that ran out of memory in an interval, as runs of ids that are one pod's. */
struct victims {
    uint32_t count;
    struct {
        uint32_t id, count;
    } run[AW__PIECE_PLACES]; /* as many as there are pods at most */
};

/* Memory of a pod, or of those that are one, over the interval. */
static void memory_of(struct aw__workload *workload, struct aw__pod *pod, const struct held *held,
                      double dt_us, struct victims *victims)
{
    const double base = aw__base_memory_mib(workload), limit = pod->memory_mib;
    const double used_us = (base * pod->memory_noise + held->mean_mib) * dt_us;
    double peak = base * pod->memory_noise_high + held->peak_mib;
    pod->memory_mib_us += used_us;
    workload->step.memory_mib_us += used_us * pod->count;
    /* Drawing a peak costs as much as the rest; only draw where it could decide something. */
    if (base * pod->memory_noise_high + held->sure_mib > limit) {
        bool running = false; /* the one before it was a victim too */
        peak = 0;
        for (uint32_t id = pod->id; id < pod->id + pod->count; id++) {
            const double flight =
                aw__min(aw__max(held->peak_mib + held->spread_mib * aw_rng_normal(&workload->rng),
                                held->mean_mib),
                        held->sure_mib);
            const double own = base * aw__memory_noise(workload, id) + flight;
            peak = aw__max(peak, own);
            if (own <= limit) {
                running = false;
            } else if (running) {
                victims->run[victims->count - 1].count++;
            } else {
                victims->run[victims->count].id = id;
                victims->run[victims->count++].count = 1;
                running = true;
            }
        }
    }
    workload->step.memory_peak_mib = aw__max(workload->step.memory_peak_mib, peak);
}

/* Backlog is kept as work, in requests' worth of it. A replica that shares its processor among its
 * requests has many of them half done, so more are there than work is left: each of those in
 * service has on average done SHARED_DONE of its work. */
static double requests_of(double work, double busy_max)
{
    return aw__min(work / (1 - SHARED_DONE), work + SHARED_DONE * busy_max);
}

/* One replica's queue over an interval; all figures per replica. */
struct queue {
    double before, after; /* backlog as work */
    double mean, high;    /* requests beyond the steady state: over time, and at most */
    double refused;       /* the queue was full, or their clients left before their turn */
    double late_share;    /* of those served: their clients had left */
    double done;          /* work done, in requests' worth */
};

static void queue_run(const struct aw_sim *sim, const struct aw__workload *workload,
                      double capacity, double arrivals, double before, double dt_s,
                      struct queue *ret)
{
    const double busy_max = busy_limit(&workload->demand);
    const double timeout_s = sim->settings.request_timeout_s;
    const double drift = arrivals / dt_s - capacity;
    const double places = aw__min(capacity * timeout_s + busy_max, QUEUE_MAX + BUSY_MAX);
    const double work_max = places - SHARED_DONE * aw__min(busy_max, places);
    struct queue q = {.before = before, .after = aw__max(0, before + drift * dt_s)};
    if (q.after > work_max) {
        q.refused = q.after - work_max;
        q.after = work_max;
    }
    const double first = requests_of(before, busy_max), last = requests_of(q.after, busy_max);
    q.mean = 0.5 * (first + last);
    q.high = aw__max(first, last);
    if (before > 0 && q.after == 0) /* empty part of the way through */
        q.mean = 0.5 * first * aw__min(1, before / aw__max(-drift * dt_s, 1e-9));
    /* Who is served after a wait longer than the time-out is served for nothing. */
    const double served_s = aw__min(q.high, busy_max) / capacity;
    if (q.high > 0 && q.high / capacity > timeout_s)
        q.late_share = aw__min(1, (q.high / capacity - timeout_s) / aw__max(served_s, 1e-6) + 0.5);
    q.done = aw__max(0, arrivals - q.refused - (last - first));
    *ret = q;
}

/* Kills them, each with `lost` requests. */
static void kill_all(struct aw_sim *sim, uint32_t w, const struct victims *victims, double lost)
{
    struct aw__workload *workload = &sim->workload[w];
    for (uint32_t i = 0; i < victims->count; i++) {
        struct aw__pod *pod = aw__pod_only(sim, w, victims->run[i].id, victims->run[i].count);
        workload->step.failures += lost * pod->count;
        workload->step.completions = aw__max(0, workload->step.completions - lost * pod->count);
        workload->mixture.failures += lost * pod->count;
        pod->backlog = 0;
        aw__world_kill(sim, w, pod);
    }
}

/* How much dearer a request is where hardware threads share cores: two of them run at once the more
 * often the more there is to do, and always once requests pile up, because what was held back until
 * the next period then runs together. How suddenly that comes is read off the reference. */
static double crowded_cost(const struct aw_sim *sim, const struct aw_demand *demand, double cores,
                           double rate_per_s, double n, double power)
{
    const double node = aw__max(sim->settings.node_cores, 2);
    const double most = aw__min(node, n * busy_limit(demand) * demand->parallelism);
    const double shared = aw__max(0, 2 * most - node) / most, crowding = (double)demand->crowding;
    const double worst = 1 + shared * crowding;
    const double load = aw__min(1, rate_per_s * demand->cpu_ms * 1e-3 * worst / cores);
    const double busy = aw__min(1, 2 * n * rate_per_s * demand->cpu_ms * 1e-3 / node);
    return 1 + shared * crowding * (busy + (1 - busy) * pow(load, power));
}

/* What a replica does where settings say more than the network knows of: where cores are shared,
 * and where a request goes to the replica that has the fewest. Such replicas are better off than
 * alone, because while one is throttled the others are asked, and worse off than one replica with
 * the quota and the workers of all, because who has been sent to a replica stays there: latencies
 * are half-way between the two, in logarithms, which is near the reference for two and three. */
static void special_eval(const struct aw_sim *sim, const struct aw__workload *workload,
                         double cores, double rate_per_s, double n, struct aw_steady *ret)
{
    struct aw_replica replica = {
        .demand = workload->demand, .cores = cores, .rate_per_s = rate_per_s};
    struct aw_steady pool;
    replica.demand.cpu_ms *=
        crowded_cost(sim, &workload->demand, cores, rate_per_s, n, CROWDED_SLOW);
    aw_surrogate_eval(&replica, ret);
    if (sim->settings.routing != AW_SIM_LEAST || n < 2)
        return;
    replica.cores *= n;
    replica.rate_per_s *= n;
    replica.demand.threads = (uint32_t)aw__min(n * replica.demand.threads, UINT32_MAX);
    aw_surrogate_eval(&replica, &pool);
    ret->mean_us = sqrt(ret->mean_us * pool.mean_us);
    ret->p50_us = sqrt(ret->p50_us * pool.p50_us);
    ret->p95_us = sqrt(ret->p95_us * pool.p95_us);
    ret->p99_us = sqrt(ret->p99_us * pool.p99_us);
    ret->in_flight = rate_per_s * ret->mean_us * 1e-6;
    ret->in_flight_peak =
        aw__max(ret->in_flight, aw__min(ret->in_flight_peak, pool.in_flight_peak));
}

/* --- where nodes are overcommitted ------------------------------------------------------------ */

/* A replica whose node leaves it `left` cores when it is busy, at `load` of its capacity then.
 * Where that is less than what a request can use at once, requests run at a speed below 1. In a
 * time that passes as much slower it is a replica like any other, with less waiting, more requests
 * and a larger quota, and this is what the network is asked about. */
static void slowed_eval(const struct aw_demand *demand, double cores, double left,
                        double rate_per_s, double load, struct aw_steady *ret)
{
    const double speed = aw__min(1, left / demand->parallelism);
    struct aw_replica replica = {
        .demand = *demand, .cores = aw__min(cores, left) / speed, .rate_per_s = rate_per_s / speed};
    replica.demand.io_ms *= speed;
    const double capacity = aw_replica_capacity(&replica.demand, replica.cores);
    replica.rate_per_s = aw__min(replica.rate_per_s, load * capacity);
    aw_surrogate_eval(&replica, ret);
    ret->mean_us /= speed;
    ret->p50_us /= speed;
    ret->p95_us /= speed;
    ret->p99_us /= speed;
    ret->in_flight = rate_per_s * ret->mean_us * 1e-6;
}

static double slowed_capacity(const struct aw_demand *demand, double cores, double left)
{
    struct aw_demand slowed = *demand;
    slowed.parallelism = aw__min(demand->parallelism, left);
    return aw_replica_capacity(&slowed, aw__min(cores, left));
}

/* ln of the share that takes longer than x: linear between quantiles, as in mixture.c. */
static double log_share_beyond(const struct aw_steady *s, double x)
{
    const double at[] = {0, s->p50_us, s->p95_us, s->p99_us};
    static const double log_share[] = {0, -0.6931471805599453, -2.995732273553991,
                                       -4.605170185988091};
    const uint32_t k = x < at[1] ? 0 : x < at[2] ? 1 : 2;
    return log_share[k] +
           (log_share[k + 1] - log_share[k]) * (x - at[k]) / aw__max(at[k + 1] - at[k], 1e-3);
}

static double blended_quantile(const struct cohort *cohort, const struct aw_steady *level,
                               double beyond, double low, double high)
{
    for (uint32_t turn = 0; turn < 24 && high > 1.002 * low; turn++) {
        const double x = 0.5 * (low + high);
        double share = 0;
        for (uint32_t l = 0; l < AW__LEVELS; l++)
            share += cohort->share[l] * exp(log_share_beyond(&level[l], x));
        *(share > beyond ? &low : &high) = x;
    }
    return 0.5 * (low + high);
}

/* One steady state of those at all levels. Returns what it can finish at most. */
static double contended_eval(const struct aw__workload *workload, const struct cohort *cohort,
                             double rate_per_s, struct aw_steady *ret)
{
    const struct aw_demand *demand = &workload->demand;
    struct aw_steady level[AW__LEVELS], sum = {0};
    const double capacity = slowed_capacity(demand, cohort->cores, cohort->lasting);
    const double rate = aw__min(rate_per_s, AW_SURROGATE_LOAD_MAX * capacity);
    for (uint32_t l = 0; l < AW__LEVELS; l++) {
        const double share = cohort->share[l];
        /* a level passes before a queue has grown as it would if it lasted */
        slowed_eval(demand, cohort->cores, cohort->left[l], rate, rate / capacity, &level[l]);
        sum.mean_us += share * level[l].mean_us;
        sum.throttled_share += share * level[l].throttled_share;
        sum.in_flight += share * level[l].in_flight;
        sum.in_flight_peak = aw__max(sum.in_flight_peak, level[l].in_flight_peak);
        sum.p99_spread = aw__max(sum.p99_spread, level[l].p99_spread);
    }
    /* others that want more make nothing quicker: levels are in order, or nearly */
    const struct aw_steady *a = &level[0], *b = &level[AW__LEVELS - 1];
    sum.p50_us = blended_quantile(cohort, level, 0.5, aw__min(a->p50_us, b->p50_us),
                                  aw__max(a->p50_us, b->p50_us));
    sum.p95_us = blended_quantile(cohort, level, 0.05, aw__min(a->p95_us, b->p95_us),
                                  aw__max(a->p95_us, b->p95_us));
    sum.p99_us = blended_quantile(cohort, level, 0.01, aw__min(a->p99_us, b->p99_us),
                                  aw__max(a->p99_us, b->p99_us));
    *ret = sum;
    return capacity;
}

/* Its replicas by what is left to them, in steps of a tenth; where there are more kinds of them
 * than room, those that are nearest. */
static uint32_t contended_cohort(struct cohort *cohort, uint32_t *cohorts,
                                 const struct aw__tenant *tenant)
{
    const double worst = tenant->cores[AW__LEVELS - 1];
    uint32_t nearest = 0;
    double off = INFINITY;
    for (uint32_t c = 0; c < *cohorts; c++) {
        const double o = fabs(log(cohort[c].left[AW__LEVELS - 1] / worst)) +
                         fabs(cohort[c].share[0] - tenant->share[0]) +
                         (cohort[c].cores != tenant->quota);
        if (o < off) {
            off = o;
            nearest = c;
        }
    }
    if (off < 0.1 || *cohorts == AW__MIXTURE_PARTS)
        return nearest;
    cohort[*cohorts] =
        (struct cohort){.cores = tenant->quota,
                        .lasting = tenant->lasting,
                        .contended = worst < 2 * aw__max(tenant->quota, tenant->parallelism)};
    for (uint32_t l = 0; l < AW__LEVELS; l++) {
        cohort[*cohorts].share[l] = tenant->share[l];
        cohort[*cohorts].left[l] = tenant->cores[l];
    }
    return (*cohorts)++;
}

/* ---------------------------------------------------------------------------------------------- */

/* The slow requests of an application for which calibration has found how far off the network is:
 * what lies between p50 and p99 keeps its shape. */
static void tail_correct(double tail, double load, struct aw_steady *steady)
{
    const double share = aw__min(1, aw__max(0, (TAIL_NONE - load) / (TAIL_NONE - TAIL_FULL)));
    const double before = log(steady->p99_us / steady->p50_us);
    if (!(before > 0) || share <= 0)
        return;
    const double bend = aw__max(TAIL_BEND, 1 + share * log(tail) / before);
    steady->p95_us = steady->p50_us * pow(steady->p95_us / steady->p50_us, bend);
    steady->p99_us = steady->p50_us * exp(before * bend);
}

static void cohort_run(struct aw_sim *sim, uint32_t w, const struct cohort *cohort,
                       const struct serving *serving, uint32_t number, double rate_per_s,
                       double arrivals, double dt_us)
{
    struct aw__workload *workload = &sim->workload[w];
    struct aw__pod *pods = aw__pods(sim, w);
    const double dt_s = dt_us * 1e-6, n = cohort->count;
    const bool crowded = workload->demand.crowding > 0;
    double capacity = aw_surrogate_capacity(&workload->known, cohort->cores), cost = 1;
    if (crowded) {
        capacity /= crowded_cost(sim, &workload->demand, cohort->cores, INFINITY, n, CROWDED_MEAN);
        cost = crowded_cost(sim, &workload->demand, cohort->cores, aw__min(rate_per_s, capacity), n,
                            CROWDED_MEAN);
    }
    struct aw_steady steady;
    if (cohort->contended)
        capacity = contended_eval(workload, cohort, rate_per_s, &steady);
    const double steady_rate = aw__min(rate_per_s, AW_SURROGATE_LOAD_MAX * capacity);
    if (cohort->contended)
        ;
    else if (crowded || (sim->settings.routing == AW_SIM_LEAST && cohort->count > 1))
        special_eval(sim, workload, cohort->cores, steady_rate, n, &steady);
    else
        aw_surrogate_eval_known(&workload->known, cohort->cores, steady_rate, &steady);
    if (workload->demand.fast_tail > 0)
        tail_correct(workload->demand.fast_tail, steady_rate / capacity, &steady);

    /* The steady state knows about chance below saturation; a growing queue takes what came. */
    const bool saturated = cohort->backlog > 0 || rate_per_s > steady_rate;
    struct queue queue = {.done = arrivals / n};
    double beside = steady.in_flight;
    if (saturated) {
        queue_run(sim, workload, capacity, arrivals / n, cohort->backlog / n, dt_s, &queue);
        /* A queue that grows has its workers busy, and no more than that beside it. */
        if (queue.after > queue.before)
            beside = aw__min(beside, capacity * 1e-3 *
                                         aw_replica_alone_ms(&workload->demand, cohort->cores));
    }
    const double late = queue.done * queue.late_share, failed = (queue.refused + late) * n;
    aw__mixture_add(&workload->mixture, aw__max(0, arrivals - failed), &steady,
                    queue.mean / capacity * 1e6, queue.high / capacity * 1e6,
                    sim->settings.request_timeout_s * 1e6);
    workload->mixture.failures += failed;
    workload->step.failures += failed;
    workload->step.completions += (queue.done - late) * n;
    workload->in_flight += n * (beside + requests_of(queue.after, busy_limit(&workload->demand)));
    const double done = queue.done * n, after = queue.after, high = queue.high;
    const double cores_used =
        aw__min(done / n / dt_s * workload->demand.cpu_ms * cost * 1e-3, cohort->cores);
    const double throttled = saturated ? 1 : steady.throttled_share;

    const struct held held = held_of(workload, &steady, high);
    const double flight_mib = workload->demand.memory_flight_mib;
    workload->step.in_flight_peak =
        aw__max(workload->step.in_flight_peak,
                flight_mib > 0 ? held.peak_mib / flight_mib : steady.in_flight_peak + high);
    workload->step.cpu_core_us += n * cores_used * dt_us;
    workload->step.running_us += n * dt_us;
    workload->step.throttled_us += n * throttled * dt_us;
    struct victims victims;
    victims.count = 0;
    for (uint32_t i = 0; i < serving->count; i++) {
        if (serving->cohort[i] != number)
            continue;
        struct aw__pod *pod = &pods[serving->place[i]];
        pod->backlog = after;
        pod->cpu_core_us += cores_used * dt_us;
        pod->running_us += dt_us;
        memory_of(workload, pod, &held, dt_us, &victims);
    }
    if (victims.count > 0)
        kill_all(sim, w, &victims, beside + after);
}

/* A replica that gets nothing new works off what it has. Its requests were counted when they came.
 */
static void drain_run(struct aw_sim *sim, uint32_t w, struct aw__pod *pod, double dt_us)
{
    struct aw__workload *workload = &sim->workload[w];
    const double capacity = aw_surrogate_capacity(&workload->known, pod->cores);
    const double done = aw__min(pod->backlog, capacity * dt_us * 1e-6);
    const double core_us = done * workload->demand.cpu_ms * 1e3;
    pod->backlog -= done;
    pod->cpu_core_us += core_us;
    pod->running_us += dt_us;
    workload->step.cpu_core_us += core_us * pod->count;
    workload->step.completions += done * pod->count;
    workload->in_flight += pod->backlog * pod->count;
}

double aw__fast_rate(const struct aw_sim *sim, uint32_t w, double from_us, double until_us)
{
    const double offset = sim->workload[w].load_offset_us;
    return aw_load_mean(sim->profile[w].load, (int64_t)(from_us + offset),
                        (int64_t)ceil(until_us + offset)) *
           sim->workload[w].disturbance.load_factor;
}

void aw__fast_run(struct aw_sim *sim, uint32_t w, double from_us, double until_us)
{
    struct aw__workload *workload = &sim->workload[w];
    struct aw__pod *pods = aw__pods(sim, w);
    const double dt_us = until_us - from_us;
    const double rate = aw__fast_rate(sim, w, from_us, until_us);
    const double expected = rate * dt_us * 1e-6;
    const double arrivals =
        expected > 50
            ? floor(aw__max(0, expected + sqrt(expected) * aw__noise(&workload->rng)) + 0.5)
            : (double)aw_rng_poisson(&workload->rng, expected);
    workload->step.arrivals += arrivals;
    workload->step.disk_kib += arrivals * workload->demand.disk_kib;
    workload->step.net_kib += arrivals * workload->demand.net_kib;
    workload->in_flight = 0;

    struct cohort cohort[AW__MIXTURE_PARTS];
    struct serving serving;
    uint32_t cohorts = 0, ready = 0;
    serving.count = 0;
    for (uint32_t i = 0; i < workload->place_end; i++) {
        serving.place[serving.count] = (uint8_t)i; /* kept if it is one, without a branch */
        serving.count += pods[i].phase == AW__POD_READY;
        if ((pods[i].phase == AW__POD_DRAINING) & (pods[i].backlog > 0))
            drain_run(sim, w, &pods[i], dt_us);
    }
    for (uint32_t i = 0; i < serving.count; i++) {
        const struct aw__pod *pod = &pods[serving.place[i]];
        const double cores = cores_left(sim, pod);
        uint32_t c = 0;
        if (sim->contention)
            c = contended_cohort(cohort, &cohorts,
                                 &sim->contention->tenant[sim->contention->of[w] + i]);
        while (c < cohorts && !sim->contention && cohort[c].cores != cores)
            c++;
        serving.cohort[i] = c < AW__MIXTURE_PARTS ? (uint8_t)c : NO_COHORT;
        if (c == AW__MIXTURE_PARTS)
            continue; /* more sizes at once than a rollout can make */
        if (c == cohorts)
            cohort[cohorts++] = (struct cohort){.cores = cores};
        cohort[c].count += pod->count;
        cohort[c].backlog += pod->backlog * pod->count;
        ready += pod->count;
    }
    if (ready == 0) { /* no endpoint: every request is refused */
        workload->step.failures += arrivals;
        workload->mixture.failures += arrivals;
        return;
    }
    for (uint32_t c = 0; c < cohorts; c++)
        cohort_run(sim, w, &cohort[c], &serving, c, rate / ready,
                   arrivals * cohort[c].count / ready, dt_us);
}
