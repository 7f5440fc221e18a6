/* load.c - patterns compiled into rates, and how rates are read. */
#include "workload/load.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const char *const pattern_names[] = {"constant", "diurnal", "poisson", "spikes",
                                            "bursts",   "ramp",    NULL};

#define REAL(key, member, initial, min, max, help)                                                 \
    {                                                                                              \
        key, AW_CONF_F64, offsetof(struct aw_load_settings, member), initial, min, max, NULL, help \
    }
const struct aw_conf_field aw_load_fields[] = {
    {"pattern", AW_CONF_CHOICE, offsetof(struct aw_load_settings, pattern), "diurnal", 0, 0,
     pattern_names, "shape of the load"},
    REAL("mean", mean_per_s, "20", 0, 1e6, "mean requests per second"),
    REAL("peak", peak_ratio, "3", 1, 1000, "highest rate over the mean, where the shape has one"),
    REAL("period", period_s, "3600", 1, 1e7,
         "seconds of a day, between spikes or bursts, or of a ramp"),
    REAL("duration", duration_s, "120", 1, 1e7, "seconds of a spike or burst"),
    REAL("noise", noise, "0.05", 0, 2, "lognormal noise on every slot, coefficient of variation"),
    REAL("length", length_s, "21600", 1, 1e8, "seconds after which the load repeats"),
    REAL("slot", slot_s, "5", 0.1, 3600, "seconds for which a rate holds"),
    {0},
};

/* A day: low at night, a broad peak, so that mean 1 comes out before scaling. */
static double diurnal(double phase, double peak)
{
    double wave = 0.5 - 0.5 * cos(6.283185307179586 * phase);
    return 1 + (peak - 1) * wave * wave;
}

static double ramp(double phase)
{
    if (phase < 0.3)
        return phase / 0.3;
    if (phase < 0.6)
        return 1;
    return phase < 0.9 ? (0.9 - phase) / 0.3 : 0;
}

/* The shape of slot i, before noise and scaling. `state` carries a spike or burst along. */
static double shape(const struct aw_load_settings *s, double at_s, double *state,
                    struct aw_rng *rng)
{
    double phase = fmod(at_s, s->period_s) / s->period_s;
    switch ((enum aw_load_pattern)s->pattern) {
    case AW_LOAD_CONSTANT:
        return 1;
    case AW_LOAD_DIURNAL:
        return diurnal(phase, s->peak_ratio);
    case AW_LOAD_POISSON: {
        double mean = s->mean_per_s * s->slot_s;
        return mean > 0 ? (double)aw_rng_poisson(rng, mean) / mean : 0;
    }
    case AW_LOAD_SPIKES:
        if (aw_rng_double(rng) < s->slot_s / s->period_s)
            *state = (s->peak_ratio - 1) * aw_rng_uniform(rng, 0.5, 1);
        else
            *state *= exp(-s->slot_s / s->duration_s);
        return 1 + *state;
    case AW_LOAD_BURSTS: {
        double leave = *state > 0 ? s->duration_s : s->period_s;
        if (aw_rng_double(rng) < 1 - exp(-s->slot_s / leave))
            *state = *state > 0 ? 0 : 1;
        return *state > 0 ? s->peak_ratio : 1;
    }
    case AW_LOAD_RAMP:
        return 1 + (s->peak_ratio - 1) * ramp(phase);
    }
    return 1;
}

enum aw_err aw_load_generate(const struct aw_load_settings *settings, uint64_t seed,
                             const struct aw_alloc *alloc, struct aw_load *ret_load,
                             struct aw_diag *diag)
{
    const double slots = ceil(settings->length_s / settings->slot_s);
    if (!(slots >= 1 && slots <= AW_LOAD_SLOTS_MAX))
        return aw_fail(diag, AW_ERR_LIMIT, "a load has 1 to %u slots, this one %.0f",
                       AW_LOAD_SLOTS_MAX, slots);
    struct aw_load load = {.slot_count = (uint32_t)slots,
                           .slot_us = (int64_t)(settings->slot_s * 1e6),
                           .alloc = alloc};
    strncpy(load.name, pattern_names[settings->pattern], sizeof load.name - 1);
    load.rate_per_s = aw_alloc_new(alloc, load.slot_count, sizeof *load.rate_per_s);
    if (!load.rate_per_s)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a load of %u slots", load.slot_count);
    struct aw_rng rng;
    aw_rng_init(&rng, seed, 0x10ad);
    const double sigma = sqrt(log1p(settings->noise * settings->noise));
    double state = 0;
    for (uint32_t i = 0; i < load.slot_count; i++) {
        double rate = shape(settings, i * settings->slot_s, &state, &rng);
        if (sigma > 0)
            rate *= exp(sigma * aw_rng_normal(&rng) - 0.5 * sigma * sigma);
        load.rate_per_s[i] = (float)rate;
    }
    aw_load_scale_mean(&load, settings->mean_per_s);
    *ret_load = load;
    return AW_OK;
}

void aw_load_deinit(struct aw_load *load)
{
    aw_alloc_free(load->alloc, load->rate_per_s);
    *load = (struct aw_load){0};
}

static uint32_t slot_at(const struct aw_load *load, int64_t at_us)
{
    int64_t slot = at_us / load->slot_us % load->slot_count;
    return (uint32_t)(slot < 0 ? slot + load->slot_count : slot);
}

double aw_load_rate(const struct aw_load *load, int64_t at_us)
{
    return (double)load->rate_per_s[slot_at(load, at_us)];
}

double aw_load_mean(const struct aw_load *load, int64_t from_us, int64_t to_us)
{
    AW_ASSERT(from_us < to_us && from_us >= 0);
    double sum = 0;
    for (int64_t at = from_us; at < to_us;) {
        int64_t slot_end = (at / load->slot_us + 1) * load->slot_us;
        int64_t end = slot_end < to_us ? slot_end : to_us;
        sum += (double)load->rate_per_s[slot_at(load, at)] * (double)(end - at);
        at = end;
    }
    return sum / (double)(to_us - from_us);
}

static void scale(struct aw_load *load, double now, double wanted)
{
    for (uint32_t i = 0; now > 0 && i < load->slot_count; i++)
        load->rate_per_s[i] = (float)((double)load->rate_per_s[i] * wanted / now);
}

void aw_load_scale_mean(struct aw_load *load, double rate_per_s)
{
    double sum = 0;
    for (uint32_t i = 0; i < load->slot_count; i++)
        sum += (double)load->rate_per_s[i];
    scale(load, sum / load->slot_count, rate_per_s);
}

void aw_load_scale_peak(struct aw_load *load, double rate_per_s)
{
    double peak = 0;
    for (uint32_t i = 0; i < load->slot_count; i++)
        peak = fmax(peak, (double)load->rate_per_s[i]);
    scale(load, peak, rate_per_s);
}
