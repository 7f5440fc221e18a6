/* context.c - what kind of workload this is. */
#include "task/context.h"

#include <math.h>
#include <string.h>

#include "base/units.h"

#define LEAST 1e-3 /* of a share or ratio, so that its logarithm stays near */

const char *const aw_context_meaning[AW_CONTEXT_DIM] = {
#define X(id, meaning) meaning,
    AW_CONTEXT_MAP(X)
#undef X
};

void aw_context_begin(struct aw_context_memory *memory)
{
    memset(memory, 0, sizeof *memory);
}

static void add_load(struct aw_context_memory *m, double load, double step_s)
{
    m->arrivals += load;
    m->arrivals_square += load * load;
    m->arrivals_high = fmax(m->arrivals_high, load);
    m->swing_sum += load * step_s;
    if ((m->steps + 1) * step_s < 60 * (m->minutes + 1.0))
        return;
    if (m->minutes++ > 0) {
        m->swing += fabs(m->swing_sum - m->swing_last);
        m->swings++;
    }
    m->swing_last = m->swing_sum;
    m->swing_sum = 0;
}

static void add_latency(struct aw_context_memory *m, const struct aw_reading *reading,
                        const struct aw_slo *slo)
{
    const double latency = reading->latency_us_slo, used = reading->cpu_utilisation;
    if (!(latency > 0) || isnan(used))
        return;
    const double x = log(latency / slo->latency_us_p99);
    m->latency_low = m->latencies ? fmin(m->latency_low, x) : x;
    m->latency += x;
    m->latency_square += x * x;
    m->latency_utilisation += x * used;
    m->fit_utilisation += used;
    m->fit_utilisation_square += used * used;
    m->latencies++;
}

void aw_context_add(struct aw_context_memory *m, const struct aw_reading *reading,
                    double latency_us_p50, const struct aw_slo *slo, bool violated, double step_s)
{
    if (isnan(reading->arrivals_per_s))
        return;
    add_load(m, reading->arrivals_per_s, step_s);
    m->steps++;
    if (!(reading->arrivals_per_s > 0)) {
        m->idle++;
        return;
    }
    m->loaded++;
    m->missed += violated;
    m->size += log(fmax(1, (double)reading->cpu_millicores_wanted) * 1e-3);
    if (!isnan(reading->errors_per_s)) {
        m->errors += fmin(1, reading->errors_per_s / reading->arrivals_per_s);
        m->replies++;
    }
    if (!isnan(reading->cpu_cores_used) && !isnan(reading->completions_per_s)) {
        m->cores += reading->cpu_cores_used;
        m->completions += reading->completions_per_s;
    }
    if (!isnan(reading->cpu_utilisation)) {
        m->utilisation += reading->cpu_utilisation;
        m->utilisation_square += reading->cpu_utilisation * reading->cpu_utilisation;
        m->used++;
    }
    if (!isnan(reading->throttled_share)) {
        m->throttled += reading->throttled_share;
        m->throttles++;
    }
    if (latency_us_p50 > 0 && slo->latency_us_p99 > 0) {
        m->median += log(latency_us_p50 / slo->latency_us_p99);
        m->medians++;
    }
    if (slo->latency_us_p99 > 0)
        add_latency(m, reading, slo);
    if (!isnan(reading->in_flight)) {
        m->flight += reading->in_flight;
        m->flights++;
    }
    if (reading->memory_bytes_used > 0 && reading->memory_bytes_peak > 0) {
        m->memory += log(reading->memory_bytes_used / AW_GIB_REAL);
        m->memory_peak += log(reading->memory_bytes_peak / reading->memory_bytes_used);
        m->memories++;
    }
}

static double deviation(double sum, double square, double count)
{
    const double variance = square / count - (sum / count) * (sum / count);
    return isnan(variance) ? variance : sqrt(fmax(0, variance));
}

/* Of latency over utilisation, by least squares; a steady utilisation tells none. */
static double slope(const struct aw_context_memory *m)
{
    const double n = m->latencies, mean = m->fit_utilisation / n;
    const double variance = m->fit_utilisation_square / n - mean * mean;
    return (m->latency_utilisation / n - m->latency / n * mean) / (variance + LEAST);
}

bool aw_context_read(const struct aw_context_memory *m, const struct aw_slo *slo,
                     float ret[AW_CONTEXT_DIM])
{
    if (!(m->completions > 0) || !(m->arrivals > 0))
        return false;
    const double steps = m->steps, loaded = m->loaded, mean = m->arrivals / steps;
    const double per_request = m->cores / m->completions;
    const double minute = m->minutes ? mean * 60 : NAN;
    const double used = m->used ? m->used : NAN, latencies = m->latencies ? m->latencies : NAN;
    const double memories = m->memories ? m->memories : NAN;
    const double number[AW_CONTEXT_DIM] = {
        [AW_CONTEXT_REQUEST_CPU] = slo->latency_us_p99 > 0
                                       ? log(fmax(1e-9, per_request) * 1e6 / slo->latency_us_p99)
                                       : (double)NAN,
        [AW_CONTEXT_CORES] = log(fmax(LEAST, mean * per_request)),
        [AW_CONTEXT_SPREAD] = log(LEAST + deviation(m->arrivals, m->arrivals_square, steps) / mean),
        [AW_CONTEXT_PEAK] = log(m->arrivals_high / mean),
        [AW_CONTEXT_SWING] = m->swings ? m->swing / m->swings / minute : (double)NAN,
        [AW_CONTEXT_IDLE] = m->idle / steps,
        [AW_CONTEXT_USED] = m->utilisation / used,
        [AW_CONTEXT_USED_SPREAD] = deviation(m->utilisation, m->utilisation_square, used),
        [AW_CONTEXT_THROTTLED] = m->throttles ? m->throttled / m->throttles : (double)NAN,
        [AW_CONTEXT_MEDIAN] = m->medians ? m->median / m->medians : (double)NAN,
        [AW_CONTEXT_LATENCY] = m->latency / latencies,
        [AW_CONTEXT_LATENCY_SPREAD] = deviation(m->latency, m->latency_square, latencies),
        [AW_CONTEXT_LATENCY_BEST] = m->latencies ? m->latency_low : (double)NAN,
        [AW_CONTEXT_LATENCY_SLOPE] = m->latencies ? slope(m) : (double)NAN,
        [AW_CONTEXT_MISSED] = m->missed / loaded,
        [AW_CONTEXT_FLIGHT] =
            m->flights ? log(LEAST + m->flight / fmax(LEAST, m->cores)) : (double)NAN,
        [AW_CONTEXT_MEMORY] = m->memory / memories,
        [AW_CONTEXT_MEMORY_PEAK] = m->memory_peak / memories,
        [AW_CONTEXT_SIZE] = m->size / loaded,
        [AW_CONTEXT_ERRORS] = m->replies ? m->errors / m->replies : (double)NAN,
    };
    for (uint32_t i = 0; i < AW_CONTEXT_DIM; i++)
        ret[i] = (float)number[i];
    return true;
}
