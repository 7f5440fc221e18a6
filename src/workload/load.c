/*
 * load.c - patterns compiled into rates, and how rates are read.
 *
 * Every shape that has a peak is 1 + height * w(t) with 0 <= w <= 1 and a known mean m of w. For
 * the highest rate to be `peak` times the mean, (1 + height) / (1 + height * m) = peak, so height =
 * (peak - 1) / (1 - peak * m): possible only where the peak is rare enough, peak * m < 1. A day and
 * a ramp are made as narrow as that needs; spikes and bursts have stated times, so what cannot be
 * is refused.
 */
#include "workload/load.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#define DAY_FILL   0.75 /* peak * m of a day and a ramp: nights at about a quarter of the mean */
#define SPIKE_MEAN 0.75 /* heights are uniform in [0.5, 1] of the highest */
#define RAMP_MEAN  0.6  /* of the widest ramp: up, hold and down for 30 % each */

static const char *const pattern_names[] = {"constant", "diurnal", "poisson", "spikes",
                                            "bursts",   "ramp",    NULL};
const char *const *const aw_load_pattern_names = pattern_names;

#define AW_CONF_OF struct aw_load_settings
const struct aw_conf_field aw_load_fields[] = {
    AW_CONF_ONE_OF(pattern, "diurnal", pattern_names, "shape of the load"),
    AW_CONF_NUMBER_AS("mean", mean_per_s, "20", 0, 1e6, "mean requests per second"),
    AW_CONF_NUMBER_AS("peak", peak_ratio, "3", 1, 1000,
                      "highest rate over the mean, where the shape has one"),
    AW_CONF_NUMBER_AS("period", period_s, "3600", 1, 1e7,
                      "seconds of a day or a ramp, or between spikes or bursts"),
    AW_CONF_NUMBER_AS("duration", duration_s, "120", 1, 1e7, "seconds of a spike or burst"),
    AW_CONF_NUMBER(noise, "0.05", 0, 2, "lognormal noise on every slot, coefficient of variation"),
    AW_CONF_NUMBER_AS("length", length_s, "21600", 1, 1e8, "seconds after which the load repeats"),
    AW_CONF_NUMBER_AS("slot", slot_s, "5", 0.1, 3600, "seconds for which a rate holds"),
    {0},
};

/* What a shape is, worked out once from the settings. */
struct shape {
    const struct aw_load_settings *s;
    double height;   /* above the base of 1 */
    double exponent; /* of a day's wave */
    double width;    /* of one of the three parts of a ramp, in periods */
    double state;    /* a spike that decays, or 1 within a burst */
};

/* Mean of sin(x)^(2k): gamma(k + 1/2) / (sqrt(pi) gamma(k + 1)). */
static double wave_mean(double k)
{
    int sign; /* lgamma itself writes a global, which threads would race for */
    return exp(lgamma_r(k + 0.5, &sign) - lgamma_r(k + 1, &sign)) / sqrt(M_PI);
}

static enum aw_err shape_init(struct shape *shape, const struct aw_load_settings *s,
                              struct aw_diag *diag)
{
    const double peak = s->peak_ratio;
    double mean = 0; /* of w */
    *shape = (struct shape){.s = s};
    switch ((enum aw_load_pattern)s->pattern) {
    case AW_LOAD_CONSTANT:
    case AW_LOAD_POISSON:
        return AW_OK;
    case AW_LOAD_DIURNAL:
        /* wave_mean(k) is just below 1 / sqrt(pi k) */
        shape->exponent = fmax(1, peak * peak / (DAY_FILL * DAY_FILL * M_PI));
        mean = wave_mean(shape->exponent);
        break;
    case AW_LOAD_RAMP:
        mean = fmin(RAMP_MEAN, DAY_FILL / peak);
        shape->width = mean / 2;
        break;
    case AW_LOAD_SPIKES:
        mean = SPIKE_MEAN * s->duration_s / s->period_s;
        break;
    case AW_LOAD_BURSTS:
        mean = s->duration_s / (s->duration_s + s->period_s);
        break;
    }
    if (!(peak * mean < 1))
        return aw_fail(diag, AW_ERR_CONFIG,
                       "%s that last %gs with %gs between them cannot reach %g times the mean: "
                       "at most %.3g",
                       pattern_names[s->pattern], s->duration_s, s->period_s, peak, 1 / mean);
    shape->height = (peak - 1) / (1 - peak * mean);
    return AW_OK;
}

static double trapezoid(double phase, double width)
{
    if (phase < width)
        return phase / width;
    if (phase < 2 * width)
        return 1;
    return phase < 3 * width ? 3 - phase / width : 0;
}

/* The rate of the slot that begins at `at_s`, before noise and scaling. */
static double shape_next(struct shape *shape, double at_s, struct aw_rng *rng)
{
    const struct aw_load_settings *s = shape->s;
    const double phase = fmod(at_s, s->period_s) / s->period_s;
    switch ((enum aw_load_pattern)s->pattern) {
    case AW_LOAD_CONSTANT:
        return 1;
    case AW_LOAD_DIURNAL:
        return 1 + shape->height * pow(0.5 - 0.5 * cos(2 * M_PI * phase), shape->exponent);
    case AW_LOAD_POISSON: {
        double mean = s->mean_per_s * s->slot_s;
        return mean > 0 ? (double)aw_rng_poisson(rng, mean) / mean : 0;
    }
    case AW_LOAD_SPIKES:
        shape->state *= exp(-s->slot_s / s->duration_s);
        if (aw_rng_double(rng) < -expm1(-s->slot_s / s->period_s))
            shape->state = fmax(shape->state, aw_rng_uniform(rng, 0.5, 1));
        return 1 + shape->height * shape->state;
    case AW_LOAD_BURSTS: {
        /* Leaving with slot / sojourn makes the mean of the whole slots spent exactly that. */
        double sojourn_s = shape->state > 0 ? s->duration_s : s->period_s;
        double now = shape->state;
        if (aw_rng_double(rng) < s->slot_s / sojourn_s)
            shape->state = now > 0 ? 0 : 1;
        return 1 + shape->height * now;
    }
    case AW_LOAD_RAMP:
        return 1 + shape->height * trapezoid(phase, shape->width);
    }
    return 1;
}

enum aw_err aw_load_init(struct aw_load *load, const char *name, double slots, int64_t slot_us,
                         const struct aw_alloc *alloc, struct aw_diag *diag)
{
    if (!(slots >= 1 && slots <= AW_LOAD_SLOTS_MAX))
        return aw_fail(diag, AW_ERR_LIMIT, "a load has 1 to %u slots, this one %.0f",
                       AW_LOAD_SLOTS_MAX, slots);
    struct aw_load made = {.slot_count = (uint32_t)slots, .slot_us = slot_us, .alloc = alloc};
    snprintf(made.name, sizeof made.name, "%s", name);
    made.rate_per_s = aw_alloc_new(alloc, made.slot_count, sizeof *made.rate_per_s);
    if (!made.rate_per_s)
        return aw_fail(diag, AW_ERR_NOMEM, "no memory for a load of %u slots", made.slot_count);
    *load = made;
    return AW_OK;
}

enum aw_err aw_load_generate(const struct aw_load_settings *settings, uint64_t seed,
                             const struct aw_alloc *alloc, struct aw_load *ret_load,
                             struct aw_diag *diag)
{
    struct aw_load load;
    struct shape shape;
    struct aw_rng rng;
    enum aw_err err = shape_init(&shape, settings, diag);
    if (err || (err = aw_load_init(&load, pattern_names[settings->pattern],
                                   ceil(settings->length_s / settings->slot_s),
                                   llround(settings->slot_s * 1e6), alloc, diag)))
        return err;
    aw_rng_init(&rng, seed, 0x10ad);
    const double sigma = sqrt(log1p(settings->noise * settings->noise));
    for (uint32_t i = 0; i < load.slot_count; i++) {
        double rate = shape_next(&shape, i * settings->slot_s, &rng);
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

/* A rate, which has 24 bits, times less than this is exact, and so is the mean of such a sum. */
#define EXACT_US (1 << 29)

double aw_load_mean(const struct aw_load *load, int64_t from_us, int64_t to_us)
{
    AW_ASSERT(from_us < to_us && from_us >= 0);
    const int64_t number = from_us / load->slot_us;
    /* Mostly in the first round of the slots, and within one: without a second division then. */
    uint32_t slot = (uint32_t)(number < load->slot_count ? number : number % load->slot_count);
    int64_t at = from_us, slot_end = (number + 1) * load->slot_us;
    if (to_us <= slot_end && to_us - from_us < EXACT_US)
        return (double)load->rate_per_s[slot];
    double sum = 0;
    while (at < to_us) {
        const int64_t end = slot_end < to_us ? slot_end : to_us;
        sum += (double)load->rate_per_s[slot] * (double)(end - at);
        at = end;
        slot_end += load->slot_us;
        slot = slot + 1 < load->slot_count ? slot + 1 : 0;
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
    struct aw_load_figures figures = aw_load_figures(load);
    scale(load, figures.mean_per_s, rate_per_s);
}

void aw_load_scale_peak(struct aw_load *load, double rate_per_s)
{
    struct aw_load_figures figures = aw_load_figures(load);
    scale(load, figures.peak_per_s, rate_per_s);
}

struct aw_load_figures aw_load_figures(const struct aw_load *load)
{
    struct aw_load_figures f = {.low_per_s = INFINITY};
    double sum = 0, square = 0;
    for (uint32_t i = 0; i < load->slot_count; i++) {
        double rate = (double)load->rate_per_s[i];
        sum += rate;
        f.peak_per_s = fmax(f.peak_per_s, rate);
        f.low_per_s = fmin(f.low_per_s, rate);
    }
    f.mean_per_s = sum / load->slot_count;
    for (uint32_t i = 0; i < load->slot_count; i++) {
        double distance = (double)load->rate_per_s[i] - f.mean_per_s;
        square += distance * distance;
    }
    f.burstiness = f.mean_per_s > 0 ? sqrt(square / load->slot_count) / f.mean_per_s : 0;
    return f;
}

bool aw_load_scale_cores(struct aw_load *load, const struct aw_app *app, double cores)
{
    const double rate = aw_app_rate_for(app, cores);
    const struct aw_load_figures figures = aw_load_figures(load);
    if (!(cores > 0) || !(figures.mean_per_s > 0) || !isfinite(rate))
        return false;
    const bool peak = figures.peak_per_s > AW_LOAD_PEAK_RATIO * figures.mean_per_s;
    if (peak)
        aw_load_scale_peak(load, AW_LOAD_PEAK_RATIO * rate);
    else
        aw_load_scale_mean(load, rate);
    return peak;
}
