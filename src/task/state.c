/*
 * state.c - one line per axis: its name, its bounds, and what it shows when nobody knows.
 *
 * Scales are chosen so that what matters moves an axis by tenths: a doubling is a quarter of the
 * axis `latency`, ten requests in flight a third of `in_flight`.
 */
#include "task/state.h"

#include "base/hash.h"
#include "task/action.h"

#include <math.h>

#define LOAD_MAX_PER_S   1e5   /* requests/s that fill the axis `load` */
#define IN_FLIGHT_MAX    1e3   /* requests per replica that fill the axis `in_flight` */
#define LATENCY_OCTAVES  4.0f  /* p99 of SLO / 16 .. SLO * 16 is the axis `latency` */
#define SETTLED_S        300.0 /* since the last change, that fill `settled`; HPA's down window */
#define AGE_MAX_S        60.0
#define CORES_USED_BELOW 0.1 /* `cpu_used` begins at this share of the smallest allocation */

enum axis {
    /* AWARE Table 1 */
    CPU_LIMIT,
    MEMORY_LIMIT,
    REPLICAS,
    CPU_UTILISATION,
    MEMORY_UTILISATION,
    IO_UTILISATION,
    NETWORK_UTILISATION,
    LATENCY_SP,
    THROUGHPUT_SP,
    LOAD_CHANGE,
    /* added by the preset `default` */
    LOAD,
    LATENCY,
    CPU_USED,
    IN_FLIGHT,
    SETTLED,
    READY,
    THROTTLED,
    MISSING,
    AGE,
    AXIS_COUNT
};
_Static_assert(AXIS_COUNT == AW_STATE_DEFAULT_DIM, "the default state is all axes");
#define OTHERS 3u /* of struct aw_state_memory: behind the first three axes */
_Static_assert(LOAD == AW_STATE_PAPER_DIM, "the paper's state is the first of them");

/* clang-format off */
const struct aw_space_axis aw_state_axes[AXIS_COUNT] = {
    /*                       name                   unit              low high   unknown */
    [CPU_LIMIT] =           {"cpu_limit",           "log of bounds",    0, 1}, /* always known */
    [MEMORY_LIMIT] =        {"memory_limit",        "log of bounds",    0, 1}, /* always known */
    [REPLICAS] =            {"replicas",            "log of bounds",    0, 1}, /* always known */
    [CPU_UTILISATION] =     {"cpu_utilisation",     "share of limit",   0, 1}, /* 0.5: stay */
    [MEMORY_UTILISATION] =  {"memory_utilisation",  "share of limit",   0, 1}, /* 0.5: stay */
    [IO_UTILISATION] =      {"io_utilisation",      "share",            0, 1}, /* 0 */
    [NETWORK_UTILISATION] = {"network_utilisation", "share",            0, 1}, /* 0 */
    [LATENCY_SP] =          {"latency_slo_kept",    "SLO / measured",   0, 1}, /* 1: kept */
    [THROUGHPUT_SP] =       {"throughput_slo_kept", "measured / SLO",   0, 1}, /* 1: kept */
    [LOAD_CHANGE] =         {"load_change",         "share of larger", -1, 1}, /* 0 */
    [LOAD] =                {"load",                "log of req/s",     0, 1}, /* the last, or 0 */
    [LATENCY] =             {"latency",             "log of p99/SLO",  -1, 1}, /* 0; no SLO: 0 */
    [CPU_USED] =            {"cpu_used",            "log of cores",     0, 1}, /* 0.5 */
    [IN_FLIGHT] =           {"in_flight",           "log per replica",  0, 1}, /* 0 */
    [SETTLED] =             {"settled",             "share of 5 min",   0, 1}, /* always known */
    [READY] =               {"ready",               "share of wanted",  0, 1}, /* always known */
    [THROTTLED] =           {"throttled",           "share",            0, 1}, /* 0 */
    [MISSING] =             {"missing",             "flag",             0, 1},
    [AGE] =                 {"age",                 "share of 1 min",   0, 1}, /* 1 */
};
/* clang-format on */

uint32_t aw_state_dim(uint32_t preset)
{
    return preset == AW_STATE_PAPER ? AW_STATE_PAPER_DIM : AW_STATE_DEFAULT_DIM;
}

uint32_t aw_state_dim_with(uint32_t preset, uint32_t more)
{
    return aw_state_dim(preset) + (uint32_t)__builtin_popcount(more);
}

const struct aw_space_axis *aw_state_axis(uint32_t dim, uint32_t more, uint32_t element)
{
#define X(id, member, name, ...) [AW_RESOURCE_##id] = {#name "_limit", "log of bounds", 0, 1},
    static const struct aw_space_axis limits[AW_RESOURCES] = {AW_RESOURCE_MAP(X)}; /* known */
#undef X
    const uint32_t first = dim - (uint32_t)__builtin_popcount(more);
    if (element < first)
        return &aw_state_axes[element];
    return &limits[aw_action_resource(more, AW_ACTION_DIM + element - first)];
}

void aw_state_init(struct aw_state *state, const struct aw_state_config *config)
{
    const struct aw_bounds *b = &config->bounds;
    const double cores_low = 1e-3 * (double)b->cpu_millicores_min * b->replicas_min;
    const double cores_high = 1e-3 * (double)b->cpu_millicores_max * b->replicas_max;
    *state = (struct aw_state){
        .config = *config,
        .replicas = aw_log_range(b->replicas_min, b->replicas_max),
        .cpu_millicores =
            aw_log_range((double)b->cpu_millicores_min, (double)b->cpu_millicores_max),
        .memory_bytes = aw_log_range((double)b->memory_bytes_min, (double)b->memory_bytes_max),
        .cores_used = aw_log_range(CORES_USED_BELOW * cores_low, cores_high),
        .load_scale = (float)(1 / log1p(LOAD_MAX_PER_S)),
        .in_flight_scale = (float)(1 / log1p(IN_FLIGHT_MAX)),
        .more = aw_action_more(b),
    };
    state->dim = aw_state_dim_with(config->preset, state->more);
}

void aw_state_begin(struct aw_state_memory *memory)
{
    *memory = (struct aw_state_memory){.arrivals_per_s = NAN};
}

/* Into [0, 1]; NaN is `unknown`. */
static float share(double x, float unknown)
{
    if (isnan(x))
        return unknown;
    return x > 0 ? x < 1 ? (float)x : 1 : 0;
}

/* log(1 + x) * scale, into [0, 1]; NaN and below 0 are 0. */
static float log_share(double x, float scale)
{
    if (!(x > 0))
        return 0;
    float y = logf(1 + (float)x) * scale;
    return y < 1 ? y : 1;
}

/* (now - before) / max(now, before): Table 1's "observed load changes", in [-1, 1]. */
static float load_change(double now, double before)
{
    double larger = now > before ? now : before;
    /* nothing before: `larger` is unknown too */
    if (isnan(now) || !(larger > 0))
        return 0;
    return (float)((now - before) / larger);
}

static float latency(const struct aw_slo *slo, double p99)
{
    if (!(slo->latency_us_p99 > 0) || isnan(p99))
        return 0;
    if (!(p99 > 0))
        return -1;
    float x = log2f((float)(p99 / slo->latency_us_p99)) / LATENCY_OCTAVES;
    return x < -1 ? -1 : x > 1 ? 1 : x;
}

/* What is wanted of `more`, in as many bits as a float holds; 0: there are none. */
static float others_wanted(const struct aw_state *state, const struct aw_reading *r)
{
    uint64_t hash = AW_HASH_BEGIN;
    if (!state->more)
        return 0;
    for (uint32_t more = state->more; more; more &= more - 1)
        hash = aw_hash_bytes(hash, &r->wanted[__builtin_ctz(more)], sizeof *r->wanted);
    return (float)(hash >> 40);
}

static void notice_change(const struct aw_state *state, struct aw_state_memory *memory,
                          const struct aw_reading *r)
{
    const float others = others_wanted(state, r);
    bool same = memory->begun && memory->replicas == r->replicas_wanted &&
                memory->cpu_millicores == r->cpu_millicores_wanted &&
                memory->memory_bytes == r->memory_bytes_wanted && memory->wanted[OTHERS] == others;
    if (same)
        return;
    /* what was there when the first reading came has been there for long, as far as we know */
    memory->changed_us = memory->begun ? r->at_us : INT64_MIN;
    memory->begun = 1;
    memory->replicas = r->replicas_wanted;
    memory->cpu_millicores = r->cpu_millicores_wanted;
    memory->memory_bytes = r->memory_bytes_wanted;
    memory->wanted[CPU_LIMIT] =
        aw_log_range_unit(&state->cpu_millicores, (double)r->cpu_millicores_wanted);
    memory->wanted[MEMORY_LIMIT] =
        aw_log_range_unit(&state->memory_bytes, (double)r->memory_bytes_wanted);
    memory->wanted[REPLICAS] = aw_log_range_unit(&state->replicas, r->replicas_wanted);
    memory->wanted[OTHERS] = others;
}

static void encode_paper(const struct aw_state *state, const struct aw_state_memory *memory,
                         const struct aw_reading *r, const struct aw_score *score, float *out)
{
    const double ready = r->replicas_ready > 0 ? r->replicas_ready : 1;
    out[CPU_LIMIT] = memory->wanted[CPU_LIMIT];
    out[MEMORY_LIMIT] = memory->wanted[MEMORY_LIMIT];
    out[REPLICAS] = memory->wanted[REPLICAS];
    out[CPU_UTILISATION] = share(r->cpu_utilisation, 0.5f);
    out[MEMORY_UTILISATION] = share(r->memory_utilisation, 0.5f);
    out[IO_UTILISATION] =
        share(r->disk_bytes_per_s / (ready * state->config.disk_bytes_per_s_max), 0);
    out[NETWORK_UTILISATION] =
        share(r->net_bytes_per_s / (ready * state->config.net_bytes_per_s_max), 0);
    out[LATENCY_SP] = share(score->latency_sp, 1);
    out[THROUGHPUT_SP] = share(score->throughput_sp, 1);
    out[LOAD_CHANGE] = load_change(r->arrivals_per_s, memory->arrivals_per_s);
}

static void encode_default(const struct aw_state *state, const struct aw_state_memory *memory,
                           const struct aw_reading *r, float *out)
{
    const double ready = r->replicas_ready > 0 ? r->replicas_ready : 1;
    const double arrivals = isnan(r->arrivals_per_s) ? memory->arrivals_per_s : r->arrivals_per_s;
    const double since_s = ((double)r->at_us - (double)memory->changed_us) * 1e-6;
    out[LOAD] = log_share(arrivals, state->load_scale);
    out[LATENCY] = latency(&state->config.slo, r->latency_us_slo);
    out[CPU_USED] =
        isnan(r->cpu_cores_used) ? 0.5f : aw_log_range_unit(&state->cores_used, r->cpu_cores_used);
    out[IN_FLIGHT] = log_share(r->in_flight / ready, state->in_flight_scale);
    out[SETTLED] = share(since_s / SETTLED_S, 1);
    out[READY] =
        r->replicas_wanted > 0 ? share((double)r->replicas_ready / r->replicas_wanted, 1) : 1;
    out[THROTTLED] = share(r->throttled_share, 0);
    out[MISSING] = isinf(r->age_s) || isnan(r->age_s) ? 1 : 0;
    out[AGE] = share(r->age_s / AGE_MAX_S, 1);
}

void aw_state_encode(const struct aw_state *state, struct aw_state_memory *memory,
                     const struct aw_reading *reading, const struct aw_score *score, float *out)
{
    notice_change(state, memory, reading);
    encode_paper(state, memory, reading, score, out);
    if (state->config.preset != AW_STATE_PAPER)
        encode_default(state, memory, reading, out);
    float *limit = out + aw_state_dim(state->config.preset);
    for (uint32_t more = state->more; more; more &= more - 1) {
        const enum aw_resource r = (enum aw_resource)__builtin_ctz(more);
        const struct aw_log_range range = aw_bounds_range(&state->config.bounds, r);
        *limit++ = aw_log_range_unit(&range, (double)reading->wanted[r]);
    }
    if (!isnan(reading->arrivals_per_s))
        memory->arrivals_per_s = reading->arrivals_per_s;
}
