/*
 * network.c - eight floats at a time.
 *
 * A steady state is a few hundred vector operations; a general product and libm's logarithms, one
 * call per input, took several times that. Products and sums are kept apart, so every processor
 * gives the same bits.
 */
#include "cluster/sim/network.h"

#include "cluster/sim/lanes.h"

#include <string.h>

#define VECTORS (AW_SURROGATE_HIDDEN / LANES)

INLINE float standard(enum aw__input i, float x)
{
    return (x - aw__weights.shift[i]) * aw__weights.scale[i];
}

INLINE void add_input(floats *sum, const float *weights, float x)
{
    for (uint32_t v = 0; v < VECTORS; v++) {
        floats w;
        load(weights + v * LANES, &w);
        sum[v] += w * x;
    }
}

INLINE void network(const float *sum, const struct aw__network_asked *asked, float *e)
{
    const float cpu_left = 1 - asked->on_cpu, threads_left = 1 - asked->on_threads;
    floats logs = {cpu_left > AW__LEFT_FLOOR ? cpu_left : AW__LEFT_FLOOR,
                   threads_left > AW__LEFT_FLOOR ? threads_left : AW__LEFT_FLOOR,
                   asked->cores,
                   asked->requests,
                   1,
                   1,
                   1,
                   1};
    logarithm(&logs);
    floats a[VECTORS], b[VECTORS], c[VECTORS] = {{0}};
    for (uint32_t v = 0; v < VECTORS; v++)
        load(sum + v * LANES, &a[v]);
    const struct {
        enum aw__input input;
        float x;
    } given[] = {
        {AW__INPUT_ON_CPU, asked->on_cpu},
        {AW__INPUT_CPU_LEFT, logs[0]},
        {AW__INPUT_ON_THREADS, asked->on_threads},
        {AW__INPUT_THREADS_LEFT, logs[1]},
        {AW__INPUT_CORES, logs[2]},
        {AW__INPUT_CPU_BY_CORES, asked->log_cpu - logs[2]},
        {AW__INPUT_REQUESTS, logs[3]},
    };
    for (uint32_t i = 0; i < sizeof given / sizeof *given; i++)
        add_input(a, aw__weights.w0[given[i].input], standard(given[i].input, given[i].x));
    float hidden[AW_SURROGATE_HIDDEN];
    for (uint32_t v = 0; v < VECTORS; v++) {
        relu(&a[v]);
        store(&a[v], hidden + v * LANES);
        load(aw__weights.b1 + v * LANES, &b[v]);
    }
    /* Two sums at a time, and four below: one alone would wait for each addition. */
    for (uint32_t k = 0; k < AW_SURROGATE_HIDDEN; k += 2) {
        add_input(b, aw__weights.w1[k], hidden[k]);
        add_input(c, aw__weights.w1[k + 1], hidden[k + 1]);
    }
    for (uint32_t v = 0; v < VECTORS; v++) {
        b[v] += c[v];
        relu(&b[v]);
        store(&b[v], hidden + v * LANES);
    }
    floats w[4], y[4] = {{0}};
    load(aw__weights.b2, &y[0]);
    for (uint32_t k = 0; k < AW_SURROGATE_HIDDEN; k += 4)
        for (uint32_t i = 0; i < 4; i++) {
            load(aw__weights.w2[k + i], &w[i]);
            y[i] += w[i] * hidden[k + i];
        }
    floats out = (y[0] + y[1]) + (y[2] + y[3]);
    at_most(&out, AW__RATIO_LIMIT);
    out = -out;
    at_most(&out, AW__RATIO_LIMIT);
    out = -out;
    exponential(&out);
    store(&out, e);
}

AW__LANES_TWICE(extern, aw__network_end,
                (const float *sum, const struct aw__network_asked *asked, float *e), network,
                (sum, asked, e))

void aw__network_begin(const float *x, float *sum)
{
    static const uint8_t inputs[] = {5, 7, 8, 9, 10, 11};
    memcpy(sum, aw__weights.b0, sizeof aw__weights.b0);
    for (uint32_t i = 0; i < sizeof inputs; i++)
        for (uint32_t j = 0; j < AW_SURROGATE_HIDDEN; j++)
            sum[j] += aw__weights.w0[inputs[i]][j] * standard(inputs[i], x[inputs[i]]);
}
