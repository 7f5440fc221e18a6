/*
 * surrogate.c - features, the plain formula, and what the network's answer means.
 *
 * The plain formula: a request alone needs u = waiting + CPU time / min(parallelism, cores);
 * latencies are u times something that grows with the load. The network sees the load on the quota
 * and on the worker threads (and the logarithms of what is left of both), the cores, the request's
 * CPU time relative to a CFS period, its variability, its share of waiting, the threads, the
 * parallelism.
 */
#include "cluster/surrogate.h"

#include "cluster/sim/network.h"

#include <math.h>

#define PERIOD_MS   100.0 /* cpu.cfs_period_us */
#define THREADS_ALL 512.0 /* what "no limit" counts as; the reference stops there */

static double threads_of(const struct aw_demand *demand)
{
    return demand->threads ? (double)demand->threads : THREADS_ALL;
}

double aw_replica_alone_ms(const struct aw_demand *demand, double cores)
{
    return demand->io_ms + demand->cpu_ms / fmin(demand->parallelism, cores);
}

static double capacity_by_cpu(const struct aw_demand *demand, double cores)
{
    return demand->cpu_ms > 0 ? cores * 1e3 / demand->cpu_ms : 1e9;
}

static double capacity_by_threads(const struct aw_demand *demand)
{
    return threads_of(demand) * 1e3 / (demand->io_ms + demand->cpu_ms / demand->parallelism);
}

double aw_replica_capacity(const struct aw_demand *demand, double cores)
{
    return fmin(capacity_by_cpu(demand, cores), capacity_by_threads(demand));
}

static float log_left(double load)
{
    return logf(fmaxf(1 - (float)load, AW__OFFLINE_FLOOR));
}

void aw_surrogate_inputs(const struct aw_replica *replica, float *inputs)
{
    const struct aw_demand *d = &replica->demand;
    const double cores = replica->cores, rate = replica->rate_per_s,
                 alone = aw_replica_alone_ms(d, cores);
    const double on_cpu = rate * d->cpu_ms * 1e-3 / cores;
    const double on_threads = rate * alone * 1e-3 / threads_of(d);
    const double cpu = fmax(d->cpu_ms, 1e-3);
    inputs[0] = (float)on_cpu;
    inputs[1] = log_left(on_cpu);
    inputs[2] = (float)on_threads;
    inputs[3] = log_left(on_threads);
    inputs[4] = logf((float)(cores));
    inputs[5] = logf((float)(cpu / PERIOD_MS));
    inputs[6] = logf((float)(cpu / (PERIOD_MS * cores)));
    inputs[7] = (float)d->cpu_cv;
    inputs[8] = (float)(d->io_ms / (d->io_ms + cpu));
    inputs[9] = (float)d->io_cv;
    inputs[10] = logf((float)(threads_of(d)));
    inputs[11] = logf((float)(d->parallelism));
    inputs[12] = logf((float)(fmax(rate * AW_SURROGATE_WINDOW_S, 1)));
}

/* From the exponentials of all outputs. */
static void steady_make(double alone_us, double rate_per_s, const float *e,
                        struct aw_steady *ret_steady)
{
    struct aw_steady s = {
        .mean_us = alone_us * (double)e[0],
        .p50_us = alone_us * (double)e[1],
        .throttled_share = 1 / (1 + 1 / (double)e[4]),
        .p99_spread = (double)e[6],
    };
    s.p95_us = s.p50_us * (1 + (double)e[2]);
    s.p99_us = s.p95_us * (1 + (double)e[3]);
    s.in_flight = rate_per_s * s.mean_us * 1e-6;
    s.in_flight_peak = s.in_flight + (1 + s.in_flight) * (double)e[5];
    *ret_steady = s;
}

void aw_surrogate_decode(const struct aw_replica *replica, const float *outputs,
                         struct aw_steady *ret_steady)
{
    float e[AW_SURROGATE_OUTPUTS];
    for (uint32_t i = 0; i < AW_SURROGATE_OUTPUTS; i++)
        e[i] = expf(fminf(fmaxf(outputs[i], -AW__RATIO_LIMIT), AW__RATIO_LIMIT));
    steady_make(aw_replica_alone_ms(&replica->demand, replica->cores) * 1e3, replica->rate_per_s, e,
                ret_steady);
}

static float log_of(double x)
{
    return (float)log(fmax(x, 1e-4));
}

void aw_surrogate_encode(const struct aw_replica *replica, const struct aw_steady *steady,
                         float *outputs)
{
    const double alone_us = aw_replica_alone_ms(&replica->demand, replica->cores) * 1e3;
    const double share = fmin(fmax(steady->throttled_share, 0.002), 0.998);
    outputs[0] = log_of(steady->mean_us / alone_us);
    outputs[1] = log_of(steady->p50_us / alone_us);
    outputs[2] = log_of(steady->p95_us / steady->p50_us - 1);
    outputs[3] = log_of(steady->p99_us / steady->p95_us - 1);
    outputs[4] = (float)log(share / (1 - share));
    outputs[5] = log_of((steady->in_flight_peak - steady->in_flight) / (1 + steady->in_flight));
    outputs[6] = log_of(steady->p99_spread);
}

void aw_surrogate_know(const struct aw_demand *demand, struct aw_surrogate_known *ret_known)
{
    const struct aw_replica replica = {.demand = *demand, .cores = 1, .rate_per_s = 1};
    struct aw_surrogate_known known = {
        .io_ms = demand->io_ms,
        .cpu_ms = demand->cpu_ms,
        .parallelism = demand->parallelism,
        .threads = threads_of(demand),
        .capacity_threads = capacity_by_threads(demand),
        .capacity_core = capacity_by_cpu(demand, 1),
    };
    float x[AW_SURROGATE_INPUTS];
    aw_surrogate_inputs(&replica, x);
    known.log_cpu = x[AW__INPUT_CPU];
    aw__network_begin(x, known.sum);
    *ret_known = known;
}

double aw_surrogate_capacity(const struct aw_surrogate_known *known, double cores)
{
    const double by_cpu = known->capacity_core * cores;
    return by_cpu < known->capacity_threads ? by_cpu : known->capacity_threads;
}

void aw_surrogate_eval_known(const struct aw_surrogate_known *known, double cores,
                             double rate_per_s, struct aw_steady *ret_steady)
{
    const double most = known->parallelism < cores ? known->parallelism : cores;
    const double alone_ms = known->io_ms + known->cpu_ms / most;
    const double seen_in_window = rate_per_s * AW_SURROGATE_WINDOW_S;
    const struct aw__network_asked asked = {
        .on_cpu = (float)(rate_per_s * known->cpu_ms * 1e-3 / cores),
        .on_threads = (float)(rate_per_s * alone_ms * 1e-3 / known->threads),
        .cores = (float)cores,
        .requests = (float)(seen_in_window > 1 ? seen_in_window : 1),
        .log_cpu = known->log_cpu,
    };
    float e[AW_SURROGATE_WIDTH];
    aw__network_end(known->sum, &asked, e);
    steady_make(alone_ms * 1e3, rate_per_s, e, ret_steady);
}

void aw_surrogate_eval(const struct aw_replica *replica, struct aw_steady *ret_steady)
{
    struct aw_surrogate_known known;
    aw_surrogate_know(&replica->demand, &known);
    aw_surrogate_eval_known(&known, replica->cores, replica->rate_per_s, ret_steady);
}
