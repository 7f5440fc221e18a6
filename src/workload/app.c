/*
 * app.c - the built-in segment kinds, and applications drawn from them.
 *
 * The figures are those of small services on one core of a recent server; what matters to a
 * controller is that they differ by orders of magnitude and in kind: bound by CPU, by waiting, by
 * memory per request, by worker threads; with cold starts from a third of a second to many seconds.
 * Exponents are below 1 where a fixed cost dominates small payloads.
 */
#include "workload/app.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define RUNTIME_MEMORY_MIB 48.0 /* an interpreter or runtime with nothing loaded */
#define RUNTIME_COLD_MS    700.0
#define SCALE_SPREAD       2.5 /* an appetite is its kind's times log-uniform 1/2.5 .. 2.5 */
#define HELD_SPREAD        1.5 /* the same for what a replica holds, and for its cold start */
#define UNLOADED_SAMPLES   8192u
#define FIGURE_DIGITS      4 /* of a drawn appetite: its YAML is short, and reads back exactly */

/* Two lines each: what a request costs at payload 1 (milliseconds, MiB, KiB), then how that grows
 * and what a replica is like. */
/* clang-format off */
static const struct aw_segment builtin[AW_SEGMENT_BUILTIN_COUNT] = {
/*    name               family             cpu    cv    io   cv   base flight  read write  send
 *                            exponents: cpu   io  mem  bytes  cores threads  cold crowding tail */
    {"float_ops",       AW_PAYLOAD_FLOAT,     24, 0.10,  0.0, 0.0,     6,  0.5,     0,    0,    2,
                                                1.00,  0.0,  0.0,  0.0,     1,    0,    150, 0, 0},
    {"matrix_multiply", AW_PAYLOAD_MODEL,     15, 0.10,  0.0, 0.0,    36,  3.0,     0,    0,    4,
                                                0.45,  0.0,  0.4,  0.0,     2,    0,    400, 0, 0},
    {"image_resize",    AW_PAYLOAD_IMAGE,     11, 0.35,  1.0, 0.5,    28,  6.0,    40,    0,   20,
                                                0.40,  0.2,  0.5,  0.6,     1,    0,    500, 0, 0},
    {"image_rotate",    AW_PAYLOAD_IMAGE,      9, 0.30,  1.0, 0.5,    28,  5.0,    40,    0,   40,
                                                0.40,  0.2,  0.5,  0.6,     1,    0,    500, 0, 0},
    {"image_compress",  AW_PAYLOAD_IMAGE,     20, 0.40,  1.0, 0.5,    32,  7.0,    40,    0,   15,
                                                0.45,  0.2,  0.5,  0.6,     1,    0,    500, 0, 0},
    {"json_to_yaml",    AW_PAYLOAD_TEXT,       5, 0.50,  0.0, 0.0,    12,  1.0,     0,    0,    3,
                                                0.55,  0.0,  0.3,  0.9,     1,    0,    250, 0, 0},
    {"gzip",            AW_PAYLOAD_FILE,      16, 0.30,  2.0, 0.6,     8,  1.5,   256,    0,   90,
                                                0.80,  0.5,  0.3,  1.0,     1,    0,    150, 0, 0},
    {"gunzip",          AW_PAYLOAD_FILE,       6, 0.30,  2.0, 0.6,     8,  1.5,    90,    0,  256,
                                                0.80,  0.5,  0.3,  1.0,     1,    0,    150, 0, 0},
    {"web_serving",     AW_PAYLOAD_NONE,       3, 0.70,  4.0, 0.9,    40,  0.8,     4,    1,   24,
                                                0.00,  0.0,  0.0,  0.0,     1,    8,    900, 0, 0},
    {"ml_inference",    AW_PAYLOAD_MODEL,     70, 0.12,  0.0, 0.0,   380, 14.0,     0,    0,    6,
                                                0.40,  0.0,  0.3,  0.0,     4,    2,   7000, 0, 0},
    {"file_read",       AW_PAYLOAD_FILE,     2.0, 0.40,  6.0, 0.8,     4,  0.6,   256,    0,    0,
                                                0.50,  0.7,  0.5,  1.0,     1,    0,    100, 0, 0},
    {"file_write",      AW_PAYLOAD_FILE,     2.5, 0.40, 10.0, 0.9,     4,  0.6,     0,  256,    0,
                                                0.50,  0.7,  0.5,  1.0,     1,    0,    100, 0, 0},
    {"object_read",     AW_PAYLOAD_FILE,     4.0, 0.40, 28.0, 0.6,    22,  1.2,     0,    0,    2,
                                                0.45,  0.4,  0.5,  1.0,     1,   12,    600, 0, 0},
    {"object_write",    AW_PAYLOAD_FILE,     4.5, 0.40, 42.0, 0.7,    22,  1.2,     0,    0,  256,
                                                0.45,  0.4,  0.5,  1.0,     1,   12,    600, 0, 0},
    {"object_stream",   AW_PAYLOAD_FILE,     7.0, 0.40, 65.0, 0.5,    22,  4.0,     0,    0,  256,
                                                0.50,  0.6,  0.6,  1.0,     1,   12,    600, 0, 0},
    {"table_scan",      AW_PAYLOAD_TABLE,    7.0, 0.50, 18.0, 0.7,    30,  1.5,    64,    0,   16,
                                                0.40,  0.4,  0.4,  0.6,     1,    6,    800, 0, 0},
};
/* clang-format on */

const struct aw_segment *aw_segment_builtin(void)
{
    return builtin;
}

/* The double nearest to the decimal of FIGURE_DIGITS digits: a whole number over a power of ten is
 * rounded once, so printing it gives those digits and no more. */
static double figure(double value)
{
    if (!(value > 0))
        return value;
    int digits_after = FIGURE_DIGITS - 1 - (int)floor(log10(value));
    double scale = 1;
    for (int i = abs(digits_after); i > 0; i--)
        scale *= 10;
    return digits_after > 0 ? round(value * scale) / scale : round(value / scale) * scale;
}

/* Scales one figure of a kind log-uniformly between 1/spread and spread. */
static void draw(double *value, struct aw_rng *rng, double spread)
{
    *value = figure(*value * exp(aw_rng_uniform(rng, -log(spread), log(spread))));
}

void aw_app_generate(uint64_t seed, uint32_t index, const struct aw_segment *kinds,
                     uint32_t kind_count, struct aw_app *ret_app)
{
    AW_ASSERT(kind_count > 0);
    struct aw_rng rng;
    aw_rng_init(&rng, seed, index);
    struct aw_app app = {0};
    snprintf(app.name, sizeof app.name, "app-%llu-%u", (unsigned long long)seed, index);
    app.segment_count = 1 + aw_rng_below(&rng, AW_APP_SEGMENTS_MAX);
    for (uint32_t i = 0; i < app.segment_count; i++) {
        struct aw_segment *segment = &app.segment[i];
        *segment = kinds[aw_rng_below(&rng, kind_count)];
        draw(&segment->cpu_ms, &rng, SCALE_SPREAD);
        draw(&segment->io_ms, &rng, SCALE_SPREAD);
        draw(&segment->memory_flight_mib, &rng, SCALE_SPREAD);
        draw(&segment->memory_base_mib, &rng, HELD_SPREAD);
        draw(&segment->cold_start_ms, &rng, HELD_SPREAD);
    }
    *ret_app = app;
}

void aw_segment_at(const struct aw_segment *segment, double payload, uint32_t families,
                   struct aw_segment *ret_segment)
{
    *ret_segment = *segment;
    if (payload == 1 || (families && !(families & 1u << segment->family)))
        return;
    ret_segment->cpu_ms *= pow(payload, segment->cpu_exponent);
    ret_segment->io_ms *= pow(payload, segment->io_exponent);
    ret_segment->memory_flight_mib *= pow(payload, segment->memory_exponent);
    double bytes = pow(payload, segment->bytes_exponent);
    ret_segment->read_kib *= bytes;
    ret_segment->write_kib *= bytes;
    ret_segment->send_kib *= bytes;
}

void aw_app_demand(const struct aw_app *app, double payload, uint32_t families,
                   struct aw_demand *ret_demand)
{
    struct aw_demand d = {.memory_base_mib = RUNTIME_MEMORY_MIB, .cold_start_ms = RUNTIME_COLD_MS};
    double cpu_variance = 0, io_variance = 0, wall_ms = 0, crowding_ms = 0, tail_ms = 0;
    for (uint32_t i = 0; i < app->segment_count; i++) {
        struct aw_segment s;
        aw_segment_at(&app->segment[i], payload, families, &s);
        d.cpu_ms += s.cpu_ms;
        d.io_ms += s.io_ms;
        cpu_variance += pow(s.cpu_ms / s.parallelism * s.cpu_cv, 2);
        io_variance += s.io_ms * s.io_ms * s.io_cv * s.io_cv;
        wall_ms += s.cpu_ms / s.parallelism;
        d.memory_base_mib += s.memory_base_mib;
        /* Segments hand over their buffers: a request holds the largest, not the sum. */
        d.memory_flight_mib = fmax(d.memory_flight_mib, s.memory_flight_mib);
        d.disk_kib += s.read_kib + s.write_kib;
        d.net_kib += s.send_kib;
        if (s.threads && (!d.threads || s.threads < d.threads))
            d.threads = s.threads;
        d.cold_start_ms += s.cold_start_ms;
        crowding_ms += s.cpu_ms * s.crowding;
        tail_ms += s.cpu_ms * s.fast_tail;
    }
    d.crowding = d.cpu_ms > 0 ? (float)(crowding_ms / d.cpu_ms) : 0;
    d.fast_tail = d.cpu_ms > 0 ? tail_ms / d.cpu_ms : 0;
    d.cpu_cv = wall_ms > 0 ? sqrt(cpu_variance) / wall_ms : 0;
    d.io_cv = d.io_ms > 0 ? sqrt(io_variance) / d.io_ms : 0;
    d.parallelism = wall_ms > 0 ? d.cpu_ms / wall_ms : 1;
    *ret_demand = d;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double lognormal(struct aw_rng *rng, double mean, double cv)
{
    if (!(mean > 0) || !(cv > 0))
        return mean;
    double sigma = sqrt(log1p(cv * cv));
    return mean * exp(sigma * aw_rng_normal(rng) - 0.5 * sigma * sigma);
}

double aw_app_unloaded_p99_us(const struct aw_app *app, double payload, uint32_t families)
{
    double sample[UNLOADED_SAMPLES] = {0};
    struct aw_rng rng;
    aw_rng_init(&rng, 99, 0);
    for (uint32_t i = 0; i < app->segment_count; i++) {
        struct aw_segment s;
        aw_segment_at(&app->segment[i], payload, families, &s);
        for (uint32_t k = 0; k < UNLOADED_SAMPLES; k++)
            sample[k] += 1e3 * (lognormal(&rng, s.cpu_ms, s.cpu_cv) / s.parallelism +
                                lognormal(&rng, s.io_ms, s.io_cv));
    }
    qsort(sample, UNLOADED_SAMPLES, sizeof *sample, compare);
    return sample[(size_t)(0.99 * UNLOADED_SAMPLES)];
}

double aw_app_rate_for(const struct aw_app *app, double cores)
{
    struct aw_demand demand;
    aw_app_demand(app, 1, 0, &demand);
    return cores / (demand.cpu_ms * 1e-3);
}
