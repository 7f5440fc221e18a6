/* timetable.c - the integral of the rate, walked slot by slot. */
#include "load/timetable.h"

#include <math.h>

#define CONSTANT_SLOT_US 1e6 /* how a constant rate is cut; any length gives the same timetable */

const char *const aw_arrivals_names[] = {"poisson", "even", NULL};

enum aw_err aw_timetable_init(struct aw_timetable *timetable,
                              const struct aw_timetable_config *config, struct aw_diag *diag)
{
    const struct aw_load *load = config->load;
    double highest = config->rate_per_s;
    if (config->duration_us <= 0 && config->requests == 0)
        return aw_fail(diag, AW_ERR_CONFIG, "expected a duration or a number of requests");
    if (!(config->speed > 0) || config->speed > AW_TIMETABLE_SPEED_MAX)
        return aw_fail(diag, AW_ERR_CONFIG, "expected a speed above 0 and up to %g, found %g",
                       AW_TIMETABLE_SPEED_MAX, config->speed);
    if (load) {
        highest = 0;
        for (uint32_t i = 0; i < load->slot_count; i++)
            highest = fmax(highest, (double)load->rate_per_s[i]);
    }
    if (!(highest > 0))
        return aw_fail(diag, AW_ERR_NODATA, "a load without a single request");
    if (highest > AW_TIMETABLE_RATE_MAX)
        return aw_fail(diag, AW_ERR_LIMIT, "%g requests/s; at most %g can be asked for", highest,
                       AW_TIMETABLE_RATE_MAX);
    *timetable = (struct aw_timetable){.config = *config,
                                       .slot_us = load ? (double)load->slot_us / config->speed
                                                       : CONSTANT_SLOT_US};
    aw_rng_init(&timetable->rng, config->seed, 0x5c4ed);
    return AW_OK;
}

static double slot_rate(const struct aw_timetable *timetable, uint64_t slot)
{
    const struct aw_load *load = timetable->config.load;
    return load ? (double)load->rate_per_s[slot % load->slot_count] : timetable->config.rate_per_s;
}

bool aw_timetable_next(struct aw_timetable *timetable, int64_t *ret_us)
{
    const struct aw_timetable_config *config = &timetable->config;
    if (config->requests && timetable->sent >= config->requests)
        return false;
    /* an even timetable has a request in the middle of each unit, none at the very start */
    double step = config->arrivals == AW_ARRIVALS_POISSON ? aw_rng_exponential(&timetable->rng, 1)
                  : timetable->sent == 0                  ? 0.5
                                                          : 1;
    for (;;) {
        const double begin_us = (double)timetable->slot * timetable->slot_us;
        const double rate_per_us = slot_rate(timetable, timetable->slot) * 1e-6;
        const double whole = rate_per_us * timetable->slot_us;
        if (config->duration_us > 0 && begin_us >= (double)config->duration_us)
            return false;
        if (timetable->slot_taken + step < whole) {
            timetable->slot_taken += step;
            const int64_t at_us = (int64_t)(begin_us + timetable->slot_taken / rate_per_us);
            if (config->duration_us > 0 && at_us >= config->duration_us)
                return false;
            timetable->sent++;
            *ret_us = at_us;
            return true;
        }
        step -= whole - timetable->slot_taken;
        timetable->slot_taken = 0;
        timetable->slot++;
    }
}
