/*
 * reference.c - every request, as discrete events.
 *
 * A request goes to a ready replica at random (as kube-proxy chooses; or to the one with the
 * fewest, where settings say so), waits for a worker, then passes its segments: CPU work, then
 * waiting. CPU work is processor sharing: with k runnable requests of parallelism p each advances
 * at p * f cores, f being 1 until the node's cores are short. In virtual service time (the integral
 * of f) every request ends at a point known when it starts, so a heap per replica suffices.
 *
 * CFS bandwidth control (kernel: Documentation/scheduler/sched-bwc.rst): a replica may use
 * cores * 100 ms of CPU time per period; when that is spent it stops until the period ends. The
 * rate between two events is constant, so the time of exhaustion is computed, not stepped to.
 */
#include "base/latency_histogram.h"
#include "cluster/sim/agenda.h"
#include "cluster/sim/contention.h"

#define REQUESTS_MAX 262144u
#define BUSY_MAX     512u  /* requests in service at one replica */
#define QUEUE_MAX    2048u /* requests waiting at one replica; more are refused */
#define NONE         UINT32_MAX
#define SLACK_US     0.01 /* rounding of event times, for a thousand virtual days */

struct request {
    double arrival_us;
    double end_v;       /* virtual service time at which its CPU work ends */
    double parallelism; /* cores it uses while on the CPU */
    uint32_t pod;       /* global place */
    uint32_t segment;
    uint32_t previous, next; /* in service: the replica's list; waiting: next in the queue; free */
};

struct server { /* one replica */
    uint32_t workload;
    double v, f;       /* virtual service time, and CPU time that a core gives in it */
    double slowdown;   /* of work: CPU time that a unit of it takes; 1 unless crowded */
    double touched_us; /* integrals are right up to here */
    double runnable;   /* sum of parallelism of requests on the CPU */
    double on_node;    /* what of it the node counts: 0 while throttled */
    bool throttled;
    double period;       /* index of the current CFS period */
    double period_used;  /* core-us */
    double phase_us;     /* periods of replicas do not tick together */
    uint32_t busy;       /* in service */
    uint32_t in_service; /* list head */
    uint32_t queue_head, queue_tail, queue_count;
    uint32_t cpu_count;
    uint32_t cpu[BUSY_MAX]; /* heap of requests on the CPU, first to end on top */
    /* Where nodes are overcommitted: replicas that run on the same one, by place plus 1. */
    uint32_t beside_before, beside_after;
    bool beside;
};

struct source {   /* one workload's arrivals */
    bool arrival; /* the next event is one; else only a change of rate */
    uint32_t ready_count;
    double mean_us[AW_APP_SEGMENTS_MAX][2], sigma[AW_APP_SEGMENTS_MAX][2]; /* CPU, waiting */
    double parallelism[AW_APP_SEGMENTS_MAX];
    struct aw_sim_disturbance made_for;
};

struct aw__reference {
    struct aw__agenda agenda; /* ids: replicas, then workloads, then requests */
    struct request *request;  /* [REQUESTS_MAX] */
    uint32_t free_request;
    struct server *server; /* [pods_max] */
    struct source *source; /* [workloads_max] */
    double node_runnable[AW_SIM_NODES_MAX];
    uint32_t node_first[AW_SIM_NODES_MAX]; /* of its replicas, plus 1; where overcommitted */
    struct aw__sharer *sharer;             /* [pods_max] */
    bool world_changed;
    bool crowded; /* somebody's work takes longer where hardware threads share a core */
};

static uint32_t workload_id(const struct aw_sim *sim, uint32_t w)
{
    return sim->pods_max + w;
}

static uint32_t request_id(const struct aw_sim *sim, uint32_t r)
{
    return sim->pods_max + sim->workloads_max + r;
}

enum aw_err aw__reference_new(struct aw_sim *sim)
{
    struct aw__reference *ref = aw_alloc_new(sim->alloc, 1, sizeof *ref);
    if (!ref)
        return AW_ERR_NOMEM;
    sim->reference = ref;
    ref->request = aw_alloc_new(sim->alloc, REQUESTS_MAX, sizeof *ref->request);
    ref->server = aw_alloc_new(sim->alloc, sim->pods_max, sizeof *ref->server);
    ref->source = aw_alloc_new(sim->alloc, sim->workloads_max, sizeof *ref->source);
    ref->sharer = aw_alloc_new(sim->alloc, sim->pods_max, sizeof *ref->sharer);
    enum aw_err err = aw__agenda_init(&ref->agenda, request_id(sim, REQUESTS_MAX), sim->alloc);
    if (err || !ref->request || !ref->server || !ref->source || !ref->sharer) {
        aw__reference_free(sim);
        return AW_ERR_NOMEM;
    }
    return AW_OK;
}

void aw__reference_free(struct aw_sim *sim)
{
    struct aw__reference *ref = sim->reference;
    if (!ref)
        return;
    aw_alloc_free(sim->alloc, ref->request);
    aw_alloc_free(sim->alloc, ref->server);
    aw_alloc_free(sim->alloc, ref->source);
    aw_alloc_free(sim->alloc, ref->sharer);
    aw__agenda_deinit(&ref->agenda, sim->alloc);
    aw_alloc_free(sim->alloc, ref);
    sim->reference = NULL;
}

void aw__reference_reset(struct aw_sim *sim)
{
    struct aw__reference *ref = sim->reference;
    if (!ref)
        return;
    aw__agenda_clear(&ref->agenda);
    for (uint32_t r = 0; r < REQUESTS_MAX; r++)
        ref->request[r].next = r + 1 < REQUESTS_MAX ? r + 1 : NONE;
    ref->free_request = 0;
    for (uint32_t i = 0; i < sim->pods_max; i++)
        ref->server[i] = (struct server){
            .f = 1, .slowdown = 1, .in_service = NONE, .queue_head = NONE, .queue_tail = NONE};
    for (uint32_t w = 0; w < sim->workloads_max; w++)
        ref->source[w] = (struct source){0};
    for (uint32_t n = 0; n < AW_SIM_NODES_MAX; n++)
        ref->node_runnable[n] = ref->node_first[n] = 0;
    ref->crowded = false;
}

static void release(struct aw__reference *ref, uint32_t r)
{
    ref->request[r].next = ref->free_request;
    ref->free_request = r;
}

static void record(struct aw_sim *sim, uint32_t w, double latency_us, bool failed)
{
    struct aw__sums *step = &sim->workload[w].step;
    const double timeout_us = sim->settings.request_timeout_s * 1e6;
    failed = failed || latency_us > timeout_us;
    if (failed)
        step->failures++;
    else
        step->completions++;
    aw_latency_histogram_record(&sim->histogram[w], llround(failed ? timeout_us : latency_us));
}

/* --- one replica's processor ------------------------------------------------------------------ */

/* Integrals of use up to now, at the rates that held since the last touch. */
static void touch(struct aw_sim *sim, uint32_t p)
{
    struct server *s = &sim->reference->server[p];
    struct aw__pod *pod = &sim->pod[p];
    struct aw__workload *workload = &sim->workload[s->workload];
    const double now = sim->world->now_us, dt = now - s->touched_us;
    const double period = floor((now + s->phase_us + SLACK_US) / AW__PERIOD_US);
    s->touched_us = now;
    if (s->throttled) {
        if (period > s->period) { /* woken exactly at the boundary */
            s->throttled = false;
            s->period_used = 0;
        }
    } else if (dt > 0) {
        double rate = s->runnable * s->f;
        s->v += s->f / s->slowdown * dt;
        pod->cpu_core_us += rate * dt;
        workload->step.cpu_core_us += rate * dt;
        s->period_used = period > s->period
                             ? rate * fmax(0, now + s->phase_us - period * AW__PERIOD_US)
                             : s->period_used + rate * dt;
    } else if (period > s->period) {
        s->period_used = 0;
    }
    s->period = period;
    if (dt > 0) {
        double memory = aw__pod_memory_mib(workload, pod, s->busy);
        pod->memory_mib_us += memory * dt;
        pod->running_us += dt;
        workload->step.memory_mib_us += memory * dt;
        if (s->runnable > 0)
            workload->step.running_us += dt;
    }
}

static double cpu_end(const struct aw__reference *ref, const struct server *s, uint32_t at)
{
    return ref->request[s->cpu[at]].end_v;
}

static void cpu_push(struct aw__reference *ref, struct server *s, uint32_t r)
{
    uint32_t at = s->cpu_count++;
    while (at > 0 && ref->request[r].end_v < cpu_end(ref, s, (at - 1) / 2)) {
        s->cpu[at] = s->cpu[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->cpu[at] = r;
}

static uint32_t cpu_pop(struct aw__reference *ref, struct server *s)
{
    uint32_t top = s->cpu[0], last = s->cpu[--s->cpu_count], at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= s->cpu_count)
            break;
        if (child + 1 < s->cpu_count && cpu_end(ref, s, child + 1) < cpu_end(ref, s, child))
            child++;
        if (ref->request[last].end_v <= cpu_end(ref, s, child))
            break;
        s->cpu[at] = s->cpu[child];
        at = child;
    }
    if (s->cpu_count > 0)
        s->cpu[at] = last;
    return top;
}

/* When this replica's processor needs attention next: an end of work, or of quota, or of a period
 * whose successor must start with a fresh quota. */
static void reschedule(struct aw_sim *sim, uint32_t p)
{
    struct aw__reference *ref = sim->reference;
    struct server *s = &ref->server[p];
    if (s->cpu_count == 0) {
        aw__agenda_remove(&ref->agenda, p);
        return;
    }
    const double now = sim->world->now_us;
    const double period_end = (s->period + 1) * AW__PERIOD_US - s->phase_us;
    double at = period_end;
    if (!s->throttled) {
        const double cores = sim->pod[p].cores, rate = s->runnable * s->f;
        at = now + fmax(0, cpu_end(ref, s, 0) - s->v) * s->slowdown / s->f;
        double spent = now + fmax(0, cores * AW__PERIOD_US - s->period_used) / rate;
        if (spent < period_end)
            at = fmin(at, spent);
        else if (rate > cores)
            at = fmin(at, period_end);
    }
    aw__agenda_set(&ref->agenda, p, fmax(at, now));
}

/* Share of the running threads whose core has another one that runs, too. Cores have two hardware
 * threads, and a scheduler fills idle cores first. */
static double shared_cores(const struct aw__reference *ref, double runnable, double cores)
{
    const double busy = fmin(runnable, cores);
    return ref->crowded && busy > 0 ? fmax(0, 2 * busy - fmax(cores, 2)) / busy : 0;
}

static void speed_set(struct aw_sim *sim, uint32_t p, double f, double shared)
{
    struct server *s = &sim->reference->server[p];
    const double slowdown = 1 + shared * (double)sim->workload[s->workload].demand.crowding;
    if (s->f == f && s->slowdown == slowdown)
        return;
    touch(sim, p);
    s->f = f;
    s->slowdown = slowdown;
    reschedule(sim, p);
}

/* By weight, where the node is overcommitted: each control group gets its part, and what it does
 * not want goes to the others. */
static void share_by_weight(struct aw_sim *sim, uint32_t n, double cores, double shared)
{
    struct aw__reference *ref = sim->reference;
    uint32_t count = 0;
    for (uint32_t p = ref->node_first[n]; p-- > 0; p = ref->server[p].beside_after)
        if (ref->server[p].on_node > 0)
            ref->sharer[count++] = (struct aw__sharer){
                .busy = 1, .want = ref->server[p].on_node, .weight = sim->pod[p].cores};
    const double part = aw__share(ref->sharer, count, cores);
    for (uint32_t p = ref->node_first[n]; p-- > 0; p = ref->server[p].beside_after) {
        const struct server *s = &ref->server[p];
        speed_set(sim, p, s->on_node > 0 ? fmin(1, part * sim->pod[p].cores / s->on_node) : s->f,
                  shared);
    }
}

static void beside_add(struct aw_sim *sim, uint32_t p)
{
    struct aw__reference *ref = sim->reference;
    struct server *s = &ref->server[p];
    if (s->beside || !aw__overcommitted(sim))
        return;
    uint32_t *first = &ref->node_first[sim->pod[p].node];
    s->beside = true;
    s->beside_before = 0;
    s->beside_after = *first;
    if (*first)
        ref->server[*first - 1].beside_before = p + 1;
    *first = p + 1;
}

static void beside_remove(struct aw_sim *sim, uint32_t p)
{
    struct aw__reference *ref = sim->reference;
    struct server *s = &ref->server[p];
    if (!s->beside)
        return;
    if (s->beside_before)
        ref->server[s->beside_before - 1].beside_after = s->beside_after;
    else
        ref->node_first[sim->pod[p].node] = s->beside_after;
    if (s->beside_after)
        ref->server[s->beside_after - 1].beside_before = s->beside_before;
    s->beside = false;
}

/* After runnable or throttled may have changed (the replica was touched before that): plans its
 * next event, and those of the node's other replicas, which may speed up or slow down. */
static void processor_changed(struct aw_sim *sim, uint32_t p)
{
    struct aw__reference *ref = sim->reference;
    struct server *s = &ref->server[p];
    if (aw__pod_running(&sim->pod[p]))
        touch(sim, p);
    const uint32_t n = sim->pod[p].node;
    if (n == AW__NO_NODE) {
        reschedule(sim, p);
        return;
    }
    const double cores = sim->settings.node_cores * (1 - sim->world->neighbour_cpu);
    const double before = ref->node_runnable[n], on_node = s->throttled ? 0 : s->runnable;
    double after = before + on_node - s->on_node;
    ref->node_runnable[n] = after = after > 1e-9 ? after : 0;
    s->on_node = on_node;
    const double f = after > cores ? cores / after : 1, shared = shared_cores(ref, after, cores);
    if (before <= cores && after <= cores && shared == shared_cores(ref, before, cores)) {
        s->f = 1;
        reschedule(sim, p);
        return;
    }
    if (aw__overcommitted(sim)) {
        share_by_weight(sim, n, cores, shared);
        reschedule(sim, p);
        return;
    }
    for (uint32_t other = 0; other < sim->pods_used; other++)
        if (sim->pod[other].node == n && aw__pod_running(&sim->pod[other])) {
            touch(sim, other);
            ref->server[other].f = f;
            ref->server[other].slowdown =
                1 + shared * (double)sim->workload[ref->server[other].workload].demand.crowding;
            reschedule(sim, other);
        }
}

/* --- a request's way ---------------------------------------------------------------------------
 */

static double draw(struct aw_sim *sim, uint32_t w, uint32_t segment, int which)
{
    const struct source *source = &sim->reference->source[w];
    double mean = source->mean_us[segment][which], sigma = source->sigma[segment][which];
    if (!(mean > 0) || !(sigma > 0))
        return mean;
    double z = aw_rng_normal(&sim->workload[w].rng);
    return mean * exp(sigma * z - 0.5 * sigma * sigma);
}

static void begin_segment(struct aw_sim *sim, uint32_t r)
{
    struct aw__reference *ref = sim->reference;
    struct request *request = &ref->request[r];
    struct server *s = &ref->server[request->pod];
    touch(sim, request->pod);
    request->parallelism = ref->source[s->workload].parallelism[request->segment];
    double work_us = draw(sim, s->workload, request->segment, 0);
    request->end_v = s->v + work_us / request->parallelism;
    s->runnable += request->parallelism;
    cpu_push(ref, s, r);
}

static void admit(struct aw_sim *sim, uint32_t r)
{
    struct aw__reference *ref = sim->reference;
    struct request *request = &ref->request[r];
    const uint32_t p = request->pod;
    struct server *s = &ref->server[p];
    touch(sim, p);
    s->busy++;
    request->previous = NONE;
    request->next = s->in_service;
    if (s->in_service != NONE)
        ref->request[s->in_service].previous = r;
    s->in_service = r;
    request->segment = 0;
    begin_segment(sim, r);

    struct aw__workload *workload = &sim->workload[s->workload];
    double memory = aw__pod_memory_mib(workload, &sim->pod[p], s->busy);
    workload->step.memory_peak_mib = fmax(workload->step.memory_peak_mib, memory);
    workload->step.in_flight_peak = fmax(workload->step.in_flight_peak, s->busy);
    if (memory > sim->pod[p].memory_mib) {
        aw__world_kill(sim, s->workload, &sim->pod[p]);
        ref->world_changed = true;
    }
}

static uint32_t worker_limit(const struct aw_sim *sim, uint32_t w)
{
    uint32_t threads = sim->workload[w].demand.threads;
    return threads > 0 && threads < BUSY_MAX ? threads : BUSY_MAX;
}

/* Lets waiting requests in as far as there are workers; those whose client has left are dropped. */
static void admit_waiting(struct aw_sim *sim, uint32_t p)
{
    struct aw__reference *ref = sim->reference;
    struct server *s = &ref->server[p];
    const double now = sim->world->now_us;
    while (s->queue_head != NONE && s->busy < worker_limit(sim, s->workload)) {
        uint32_t r = s->queue_head;
        s->queue_head = ref->request[r].next;
        if (s->queue_head == NONE)
            s->queue_tail = NONE;
        s->queue_count--;
        if (now - ref->request[r].arrival_us > sim->settings.request_timeout_s * 1e6) {
            record(sim, s->workload, now - ref->request[r].arrival_us, true);
            release(ref, r);
            continue;
        }
        admit(sim, r);
        if (!aw__pod_running(&sim->pod[p]))
            return; /* that one was the last straw: killed */
    }
}

static void finish(struct aw_sim *sim, uint32_t r)
{
    struct aw__reference *ref = sim->reference;
    struct request *request = &ref->request[r];
    const uint32_t p = request->pod;
    struct server *s = &ref->server[p];
    touch(sim, p);
    record(sim, s->workload, sim->world->now_us - request->arrival_us, false);
    if (request->previous != NONE)
        ref->request[request->previous].next = request->next;
    else
        s->in_service = request->next;
    if (request->next != NONE)
        ref->request[request->next].previous = request->previous;
    s->busy--;
    release(ref, r);
    admit_waiting(sim, p);
    if (s->busy == 0 && sim->pod[p].phase == AW__POD_DRAINING) {
        aw__world_drained(sim, s->workload, &sim->pod[p]);
        ref->world_changed = true;
    }
}

/* A segment's CPU work is done: wait, or go on. */
static void after_cpu(struct aw_sim *sim, uint32_t r)
{
    struct aw__reference *ref = sim->reference;
    struct request *request = &ref->request[r];
    const uint32_t w = ref->server[request->pod].workload;
    double wait_us = draw(sim, w, request->segment, 1);
    aw__agenda_set(&ref->agenda, request_id(sim, r), sim->world->now_us + wait_us);
}

static void after_wait(struct aw_sim *sim, uint32_t r)
{
    struct request *request = &sim->reference->request[r];
    const uint32_t p = request->pod;
    const uint32_t w = sim->reference->server[p].workload;
    if (++request->segment < sim->profile[w].app->app.segment_count)
        begin_segment(sim, r);
    else
        finish(sim, r);
    if (aw__pod_running(&sim->pod[p]))
        processor_changed(sim, p);
}

static void processor_event(struct aw_sim *sim, uint32_t p)
{
    struct aw__reference *ref = sim->reference;
    struct server *s = &ref->server[p];
    touch(sim, p);
    const double quota = sim->pod[p].cores * AW__PERIOD_US;
    while (s->cpu_count > 0 && !s->throttled && cpu_end(ref, s, 0) <= s->v + SLACK_US) {
        uint32_t r = cpu_pop(ref, s);
        s->runnable -= ref->request[r].parallelism;
        if (s->cpu_count == 0)
            s->runnable = 0; /* no drift from rounding */
        after_cpu(sim, r);
    }
    if (!s->throttled && s->cpu_count > 0 &&
        s->period_used >= quota - SLACK_US * (1 + s->runnable)) {
        s->throttled = true;
        sim->workload[s->workload].step.throttled_us += AW__PERIOD_US;
    }
    processor_changed(sim, p);
}

/* --- arrivals ------------------------------------------------------------------------------------
 */

static void schedule_arrival(struct aw_sim *sim, uint32_t w)
{
    struct aw__reference *ref = sim->reference;
    struct aw__workload *workload = &sim->workload[w];
    const struct aw_load *load = sim->profile[w].load;
    const double now = sim->world->now_us, at = now + workload->load_offset_us;
    const double slot_us = (double)load->slot_us;
    const double slot_end = (floor((at + SLACK_US) / slot_us) + 1) * slot_us - at + now;
    double rate = aw_load_rate(load, (int64_t)(at + SLACK_US)) * workload->disturbance.load_factor;
    double next = rate > 0 ? now + aw_rng_exponential(&workload->rng, 1e6 / rate) : AW__NEVER_US;
    /* The process has no memory, so a draw beyond the slot is thrown away and made anew there. */
    ref->source[w].arrival = next < slot_end;
    aw__agenda_set(&ref->agenda, workload_id(sim, w), fmin(next, slot_end));
}

/* The ready replica with the fewest requests; ties are broken by chance. */
static uint32_t least_pod(struct aw_sim *sim, uint32_t w)
{
    struct aw__workload *workload = &sim->workload[w];
    const struct aw__pod *pods = aw__pods(sim, w);
    uint32_t best = NONE, ties = 0;
    uint64_t fewest = UINT64_MAX;
    for (uint32_t i = 0; i < workload->place_end; i++) {
        const uint32_t p = sim->profile[w].first_pod + i;
        const struct server *s = &sim->reference->server[p];
        const uint64_t has = (uint64_t)s->busy + s->queue_count;
        if (pods[i].phase != AW__POD_READY || has > fewest)
            continue;
        ties = has < fewest ? 1 : ties + 1;
        fewest = has;
        if (ties == 1 || aw_rng_below(&workload->rng, ties) == 0)
            best = p;
    }
    return best;
}

static uint32_t choose_pod(struct aw_sim *sim, uint32_t w)
{
    struct aw__workload *workload = &sim->workload[w];
    const struct aw__pod *pods = aw__pods(sim, w);
    uint32_t ready = sim->reference->source[w].ready_count;
    if (ready == 0)
        return NONE;
    if (sim->settings.routing == AW_SIM_LEAST)
        return least_pod(sim, w);
    uint32_t skip = aw_rng_below(&workload->rng, ready);
    for (uint32_t i = 0; i < workload->place_end; i++)
        if (pods[i].phase == AW__POD_READY && skip-- == 0)
            return sim->profile[w].first_pod + i;
    return NONE;
}

static void arrive(struct aw_sim *sim, uint32_t w)
{
    struct aw__reference *ref = sim->reference;
    struct aw__workload *workload = &sim->workload[w];
    workload->step.arrivals++;
    workload->step.disk_kib += workload->demand.disk_kib;
    workload->step.net_kib += workload->demand.net_kib;
    const uint32_t p = choose_pod(sim, w), r = ref->free_request;
    if (p == NONE || r == NONE || ref->server[p].queue_count >= QUEUE_MAX) {
        record(sim, w, 0, true);
        return;
    }
    ref->free_request = ref->request[r].next;
    ref->request[r] = (struct request){
        .arrival_us = sim->world->now_us, .pod = p, .previous = NONE, .next = NONE};
    struct server *s = &ref->server[p];
    if (s->queue_tail != NONE)
        ref->request[s->queue_tail].next = r;
    else
        s->queue_head = r;
    s->queue_tail = r;
    s->queue_count++;
    admit_waiting(sim, p);
    if (aw__pod_running(&sim->pod[p]))
        processor_changed(sim, p);
}

/* --- the world changes
 * ---------------------------------------------------------------------------- */

static void lose(struct aw_sim *sim, uint32_t r)
{
    struct aw__reference *ref = sim->reference;
    aw__agenda_remove(&ref->agenda, request_id(sim, r));
    record(sim, ref->server[ref->request[r].pod].workload, 0, true);
    release(ref, r);
}

void aw__reference_pod_changed(struct aw_sim *sim, uint32_t w, struct aw__pod *pod)
{
    struct aw__reference *ref = sim->reference;
    if (!ref)
        return;
    const uint32_t p = (uint32_t)(pod - sim->pod);
    struct server *s = &ref->server[p];
    if (!aw__pod_running(pod)) {
        for (uint32_t r = s->in_service, next; r != NONE; r = next) {
            next = ref->request[r].next;
            lose(sim, r);
        }
        for (uint32_t r = s->queue_head, next; r != NONE; r = next) {
            next = ref->request[r].next;
            lose(sim, r);
        }
        s->runnable = 0;
        s->throttled = false;
        s->cpu_count = 0;
        beside_remove(sim, p);
        processor_changed(sim, p);
        aw__agenda_remove(&ref->agenda, p);
        *s = (struct server){.f = 1,
                             .slowdown = 1,
                             .in_service = NONE,
                             .queue_head = NONE,
                             .queue_tail = NONE,
                             .workload = w};
    } else if (pod->phase == AW__POD_READY) {
        s->workload = w;
        if (s->busy == 0 && s->queue_count == 0) {
            s->touched_us = sim->world->now_us;
            s->phase_us = (double)(pod->id * 37u % 100u) * 1e3;
            s->period = floor((s->touched_us + s->phase_us) / AW__PERIOD_US);
        }
        beside_add(sim, p);
        processor_changed(sim, p);
    } else if (s->busy == 0) {
        pod->until_us = sim->world->now_us; /* draining with nothing to wait for */
        sim->workload[w].next_event_us = sim->world->now_us;
    }
    uint32_t ready = 0;
    const struct aw__pod *pods = aw__pods(sim, w);
    for (uint32_t i = 0; i < sim->profile[w].pods_max; i++)
        ready += pods[i].phase == AW__POD_READY;
    ref->source[w].ready_count = ready;
}

/* Distributions of the segments at the present payload and slowdowns. */
static void source_refresh(struct aw_sim *sim, uint32_t w)
{
    struct source *source = &sim->reference->source[w];
    const struct aw_sim_disturbance *d = &sim->workload[w].disturbance;
    const struct aw_app *app = &sim->profile[w].app->app;
    for (uint32_t i = 0; i < app->segment_count; i++) {
        struct aw_segment segment;
        aw_segment_at(&app->segment[i], d->payload, d->families, &segment);
        source->mean_us[i][0] = segment.cpu_ms * 1e3 * d->cpu_slowdown;
        source->mean_us[i][1] = segment.io_ms * 1e3 * d->io_slowdown;
        source->sigma[i][0] = sqrt(log1p(segment.cpu_cv * segment.cpu_cv));
        source->sigma[i][1] = sqrt(log1p(segment.io_cv * segment.io_cv));
        source->parallelism[i] = segment.parallelism;
    }
    source->made_for = *d;
}

double aw__reference_run(struct aw_sim *sim, double until_us)
{
    struct aw__reference *ref = sim->reference;
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        source_refresh(sim, w);
        ref->crowded = ref->crowded || sim->workload[w].demand.crowding > 0;
        if (ref->agenda.place[workload_id(sim, w)] == AW__AGENDA_NONE)
            schedule_arrival(sim, w);
    }
    ref->world_changed = false;
    while (!ref->world_changed) {
        uint32_t id = aw__agenda_first(&ref->agenda);
        if (id == AW__AGENDA_NONE || ref->agenda.time_us[id] >= until_us) {
            sim->world->now_us = until_us;
            break;
        }
        sim->world->now_us = fmax(sim->world->now_us, ref->agenda.time_us[id]);
        if (id < sim->pods_max) {
            processor_event(sim, id);
        } else if (id < request_id(sim, 0)) {
            uint32_t w = id - sim->pods_max;
            if (ref->source[w].arrival)
                arrive(sim, w);
            schedule_arrival(sim, w);
        } else {
            aw__agenda_remove(&ref->agenda, id);
            after_wait(sim, id - request_id(sim, 0));
        }
    }
    for (uint32_t w = 0; w < sim->workload_count; w++) {
        struct aw__pod *pods = aw__pods(sim, w);
        for (uint32_t i = 0; i < sim->workload[w].place_end; i++)
            if (aw__pod_running(&pods[i]))
                touch(sim, sim->profile[w].first_pod + i);
    }
    return sim->world->now_us;
}

double aw__reference_in_flight(const struct aw_sim *sim, uint32_t w)
{
    double sum = 0;
    for (uint32_t i = 0; i < sim->workload[w].place_end; i++) {
        const struct server *s = &sim->reference->server[sim->profile[w].first_pod + i];
        sum += s->busy + s->queue_count;
    }
    return sum;
}
