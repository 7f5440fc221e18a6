/*
 * surrogate.c - features, the plain formula, and the network's forward pass.
 *
 * The plain formula: a request alone needs u = waiting + CPU time / min(parallelism, cores);
 * latencies are u times something that grows with the load. The network sees the load on the quota
 * and on the worker threads (and the logarithms of what is left of both), the cores, the request's
 * CPU time relative to a CFS period, its variability, its share of waiting, the threads, the
 * parallelism.
 */
#include "cluster/surrogate.h"

#include "cluster/sim/weights.h"
#include "nn/matmul.h"

#include <math.h>

#define PERIOD_MS   100.0 /* cpu.cfs_period_us */
#define THREADS_ALL 512.0 /* what "no limit" counts as; the reference stops there */
#define LOAD_FLOOR  1e-3  /* of what is left, before the logarithm */
#define RATIO_LIMIT 12.0f /* of decoded logarithms: e^12, far beyond any steady state */

static double threads_of(const struct aw_demand *demand)
{
    return demand->threads ? (double)demand->threads : THREADS_ALL;
}

double aw_replica_alone_ms(const struct aw_demand *demand, double cores)
{
    return demand->io_ms + demand->cpu_ms / fmin(demand->parallelism, cores);
}

double aw_replica_capacity(const struct aw_demand *demand, double cores)
{
    double by_cpu = demand->cpu_ms > 0 ? cores * 1e3 / demand->cpu_ms : 1e9;
    double by_threads =
        threads_of(demand) * 1e3 / (demand->io_ms + demand->cpu_ms / demand->parallelism);
    return fmin(by_cpu, by_threads);
}

static float log_left(double load)
{
    return logf((float)(load < 1 - LOAD_FLOOR ? 1 - load : LOAD_FLOOR));
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

static double ratio(float output)
{
    float bounded = output > RATIO_LIMIT    ? RATIO_LIMIT
                    : output < -RATIO_LIMIT ? -RATIO_LIMIT
                                            : output;
    return (double)expf(bounded);
}

void aw_surrogate_decode(const struct aw_replica *replica, const float *outputs,
                         struct aw_steady *ret_steady)
{
    const double alone_us = aw_replica_alone_ms(&replica->demand, replica->cores) * 1e3;
    struct aw_steady s = {
        .mean_us = alone_us * ratio(outputs[0]),
        .p50_us = alone_us * ratio(outputs[1]),
        .throttled_share = 1 / (1 + ratio(-outputs[4])),
        .p99_spread = ratio(outputs[6]),
    };
    s.p95_us = s.p50_us * (1 + ratio(outputs[2]));
    s.p99_us = s.p95_us * (1 + ratio(outputs[3]));
    s.in_flight = replica->rate_per_s * s.mean_us * 1e-6;
    s.in_flight_peak = s.in_flight + (1 + s.in_flight) * ratio(outputs[5]);
    *ret_steady = s;
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

void aw_surrogate_eval(const struct aw_replica *replica, struct aw_steady *ret_steady)
{
    float x[AW_SURROGATE_INPUTS], a[AW_SURROGATE_HIDDEN], b[AW_SURROGATE_HIDDEN];
    float y[AW_SURROGATE_OUTPUTS];
    aw_surrogate_inputs(replica, x);
    for (uint32_t i = 0; i < AW_SURROGATE_INPUTS; i++)
        x[i] = (x[i] - aw__weights.shift[i]) * aw__weights.scale[i];
    aw_matvec(x, aw__weights.w0, aw__weights.b0, AW_ACT_RELU, a, AW_SURROGATE_HIDDEN,
              AW_SURROGATE_INPUTS);
    aw_matvec(a, aw__weights.w1, aw__weights.b1, AW_ACT_RELU, b, AW_SURROGATE_HIDDEN,
              AW_SURROGATE_HIDDEN);
    aw_matvec(b, aw__weights.w2, aw__weights.b2, AW_ACT_NONE, y, AW_SURROGATE_OUTPUTS,
              AW_SURROGATE_HIDDEN);
    aw_surrogate_decode(replica, y, ret_steady);
}
