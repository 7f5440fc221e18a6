/*
 * network.c - eight floats at a time.
 *
 * A steady state is a few hundred vector operations; a general product and libm's logarithms, one
 * call per input, took several times that. Products and sums are kept apart, so every processor
 * gives the same bits.
 */
#include "cluster/sim/network.h"

#include "cluster/sim/lanes.h"

#include <pthread.h>
#include <string.h>

#define VECTORS (AW_SURROGATE_HIDDEN / LANES)
#define HALF    (AW_SURROGATE_HIDDEN / 2)
_Static_assert(AW_SURROGATE_WIDTH == LANES && AW_SURROGATE_OUTPUTS <= LANES,
               "the outputs are one vector");

/* The weights by input, so that a layer is a sum of rows, each times one input; outputs padded with
 * zeros. weights.c has them by output, as layers are learned. Made once, and never changed. */
static struct {
    float w0[AW_SURROGATE_INPUTS][AW_SURROGATE_HIDDEN];
    float w1[AW_SURROGATE_HIDDEN][AW_SURROGATE_HIDDEN];
    float w2[AW_SURROGATE_HIDDEN][LANES];
    float b2[LANES];
} by_input __attribute__((aligned(64)));
static pthread_once_t turned = PTHREAD_ONCE_INIT; /* not C11's: ThreadSanitizer knows this one */

static void turn(void)
{
    const uint32_t in = AW_SURROGATE_INPUTS, hidden = AW_SURROGATE_HIDDEN;
    for (uint32_t j = 0; j < hidden; j++) {
        for (uint32_t k = 0; k < in; k++)
            by_input.w0[k][j] = aw_weights.w0[j * in + k];
        for (uint32_t k = 0; k < hidden; k++)
            by_input.w1[k][j] = aw_weights.w1[j * hidden + k];
    }
    for (uint32_t j = 0; j < AW_SURROGATE_OUTPUTS; j++) {
        for (uint32_t k = 0; k < hidden; k++)
            by_input.w2[k][j] = aw_weights.w2[j * hidden + k];
        by_input.b2[j] = aw_weights.b2[j];
    }
}

static const float zeros[AW_SURROGATE_HIDDEN];

INLINE float standard(enum aw__input i, float x)
{
    return (x - aw_weights.shift[i]) * aw_weights.scale[i];
}

INLINE void add_input(floats *sum, const float *weights, float x)
{
    for (uint32_t v = 0; v < VECTORS; v++) {
        floats w;
        load(weights + v * LANES, &w);
        sum[v] += w * x;
    }
}

/* The same, with a sum that begins at `from`: a loop that did only that would become a copy through
 * memory, for which the additions wait. */
INLINE void begin_input(floats *sum, const float *from, const float *weights, float x)
{
    for (uint32_t v = 0; v < VECTORS; v++) {
        floats w, b;
        load(weights + v * LANES, &w);
        load(from + v * LANES, &b);
        sum[v] = b + w * x;
    }
}

/* What cores and rate decide, in the order in which it is added. */
static const uint8_t given[] = {AW__INPUT_ON_CPU,       AW__INPUT_CPU_LEFT, AW__INPUT_ON_THREADS,
                                AW__INPUT_THREADS_LEFT, AW__INPUT_CORES,    AW__INPUT_CPU_BY_CORES,
                                AW__INPUT_REQUESTS};
#define GIVEN (sizeof given)

INLINE void inputs_make(const struct aw__network_asked *asked, float *x)
{
    const float cpu_left = 1 - asked->on_cpu, threads_left = 1 - asked->on_threads;
    floats logs = {cpu_left > AW__OFFLINE_FLOOR ? cpu_left : AW__OFFLINE_FLOOR,
                   threads_left > AW__OFFLINE_FLOOR ? threads_left : AW__OFFLINE_FLOOR,
                   asked->cores,
                   asked->requests,
                   1,
                   1,
                   1,
                   1};
    logarithm(&logs);
    const float raw[GIVEN] = {asked->on_cpu, logs[0], asked->on_threads,
                              logs[1],       logs[2], asked->log_cpu - logs[2],
                              logs[3]};
    for (uint32_t i = 0; i < GIVEN; i++)
        x[i] = standard(given[i], raw[i]);
}

INLINE void outputs_make(floats *out, float *e)
{
    at_most(out, AW__RATIO_LIMIT);
    *out = -*out;
    at_most(out, AW__RATIO_LIMIT);
    *out = -*out;
    exponential(out);
    store(out, e);
}

INLINE void network(const float *sum, const struct aw__network_asked *asked, float *e)
{
    float x[GIVEN], hidden[AW_SURROGATE_HIDDEN];
    inputs_make(asked, x);
    floats a[VECTORS], b[VECTORS], c[VECTORS];
    for (uint32_t v = 0; v < VECTORS; v++)
        load(sum + v * LANES, &a[v]);
    for (uint32_t i = 0; i < GIVEN; i++)
        add_input(a, by_input.w0[given[i]], x[i]);
    for (uint32_t v = 0; v < VECTORS; v++) {
        relu(&a[v]);
        store(&a[v], hidden + v * LANES);
    }
    through_memory(hidden);
    /* Two sums at a time, and four below: one alone would wait for each addition. */
    begin_input(b, aw_weights.b1, by_input.w1[0], hidden[0]);
    begin_input(c, zeros, by_input.w1[1], hidden[1]);
    for (uint32_t k = 2; k < AW_SURROGATE_HIDDEN; k += 2) {
        add_input(b, by_input.w1[k], hidden[k]);
        add_input(c, by_input.w1[k + 1], hidden[k + 1]);
    }
    for (uint32_t v = 0; v < VECTORS; v++) {
        b[v] += c[v];
        relu(&b[v]);
        store(&b[v], hidden + v * LANES);
    }
    through_memory(hidden);
    floats w[4], y[4] = {{0}};
    load(by_input.b2, &y[0]);
    for (uint32_t k = 0; k < AW_SURROGATE_HIDDEN; k += 4)
        for (uint32_t i = 0; i < 4; i++) {
            load(by_input.w2[k + i], &w[i]);
            y[i] += w[i] * hidden[k + i];
        }
    floats out = (y[0] + y[1]) + (y[2] + y[3]);
    outputs_make(&out, e);
}

#if defined(__x86_64__)
/* The same sums in the same order, sixteen at a time. */
_Static_assert(AW_SURROGATE_HIDDEN == 2 * 16, "a layer is two such vectors");

INLINE AW__WIDE __m512 wide_add(__m512 sum, const float *weights, float x)
{
    return sum + _mm512_loadu_ps(weights) * _mm512_set1_ps(x);
}

AW__WIDE static void network_wide(const float *sum, const struct aw__network_asked *asked, float *e)
{
    float x[GIVEN], hidden[AW_SURROGATE_HIDDEN] __attribute__((aligned(64)));
    const __m512 zero = _mm512_setzero_ps();
    inputs_make(asked, x);
    __m512 a[2], b[2], c[2] = {zero, zero};
    for (uint32_t v = 0; v < 2; v++) {
        a[v] = _mm512_loadu_ps(sum + v * HALF);
        b[v] = _mm512_loadu_ps(aw_weights.b1 + v * HALF);
        for (uint32_t i = 0; i < GIVEN; i++)
            a[v] = wide_add(a[v], by_input.w0[given[i]] + v * HALF, x[i]);
        _mm512_store_ps(hidden + v * HALF, _mm512_max_ps(a[v], zero));
    }
    through_memory(hidden);
#pragma GCC unroll 2 /* in full it drives other code out of the processor's cache */
    for (uint32_t k = 0; k < AW_SURROGATE_HIDDEN; k += 2)
        for (uint32_t v = 0; v < 2; v++) {
            b[v] = wide_add(b[v], by_input.w1[k] + v * HALF, hidden[k]);
            c[v] = wide_add(c[v], by_input.w1[k + 1] + v * HALF, hidden[k + 1]);
        }
    for (uint32_t v = 0; v < 2; v++)
        a[v] = _mm512_max_ps(b[v] + c[v], zero);
    /* Outputs for two inputs at once, one in each half of a vector. */
    __m512i at = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512 y[2] = {_mm512_zextps256_ps512(_mm256_loadu_ps(by_input.b2)), zero};
    for (uint32_t k = 0; k < AW_SURROGATE_HIDDEN; k += 2) {
        y[k / 2 % 2] += _mm512_loadu_ps(by_input.w2[k]) * _mm512_permutexvar_ps(at, a[k / HALF]);
        at = _mm512_add_epi32(at, _mm512_set1_epi32(2)); /* modulo 16 */
    }
    floats out = (_mm512_castps512_ps256(y[0]) + _mm512_extractf32x8_ps(y[0], 1)) +
                 (_mm512_castps512_ps256(y[1]) + _mm512_extractf32x8_ps(y[1], 1));
    outputs_make(&out, e);
}
#endif

AW__LANES_TWICE(static, network_run,
                (const float *sum, const struct aw__network_asked *asked, float *e), network,
                (sum, asked, e))

void aw__network_end(const float *sum, const struct aw__network_asked *asked, float *e)
{
#if defined(__x86_64__)
    if (aw__cpu_wide()) {
        network_wide(sum, asked, e);
        return;
    }
#endif
    network_run(sum, asked, e);
}

void aw__network_begin(const float *x, float *sum)
{
    static const uint8_t inputs[] = {5, 7, 8, 9, 10, 11};
    pthread_once(&turned, turn); /* nobody asks for an end without a beginning */
    memcpy(sum, aw_weights.b0, sizeof aw_weights.b0);
    for (uint32_t i = 0; i < sizeof inputs; i++)
        for (uint32_t j = 0; j < AW_SURROGATE_HIDDEN; j++)
            sum[j] += by_input.w0[inputs[i]][j] * standard(inputs[i], x[inputs[i]]);
}
