/*
 * load.h - how many requests arrive, over time: patterns and traces, as one array of rates.
 *
 * A load is compiled once into requests/s per slot; arrivals within a slot are the cluster's chance
 * (Poisson). Patterns are generated from a seed, traces read from files. Both can be rescaled to a
 * mean or peak rate and compressed in time.
 *
 * Call order: one of the makers, then rate at any time, then deinit.
 * Memory:     one block, sized by the maker.
 * Threads:    read-only after it is made.
 */
#ifndef AW_WORKLOAD_LOAD_H
#define AW_WORKLOAD_LOAD_H

#include "base/alloc.h"
#include "base/conf.h"
#include "base/rng.h"

#define AW_LOAD_SLOTS_MAX (16u << 20)

struct aw_load {
    char name[64];
    uint32_t slot_count;
    int64_t slot_us;   /* duration of a slot of virtual time */
    float *rate_per_s; /* [slot_count] */
    const struct aw_alloc *alloc;
};

enum aw_load_pattern {
    AW_LOAD_CONSTANT,
    AW_LOAD_DIURNAL, /* a day's sine with a flat night, compressed to `period` */
    AW_LOAD_POISSON, /* constant mean, the rate itself redrawn every slot */
    AW_LOAD_SPIKES,  /* a base with rare tall spikes that decay */
    AW_LOAD_BURSTS,  /* MMPP: two states with exponential sojourn */
    AW_LOAD_RAMP,    /* up, hold, down */
};

/* Settings of a pattern, e.g. "diurnal:mean=50,peak=4,period=1h": see aw_load_fields. */
struct aw_load_settings {
    uint32_t pattern;  /* enum aw_load_pattern */
    double mean_per_s; /* of the whole load */
    double peak_ratio; /* highest over mean, where the pattern has one */
    double period_s;   /* of a day, between spikes or bursts, of a ramp */
    double duration_s; /* of a spike or burst */
    double noise;      /* lognormal noise on every slot, as a coefficient of variation */
    double length_s;   /* of the load; it repeats after that */
    double slot_s;
};
extern const struct aw_conf_field aw_load_fields[];

AW_NODISCARD enum aw_err aw_load_generate(const struct aw_load_settings *settings, uint64_t seed,
                                          const struct aw_alloc *alloc, struct aw_load *ret_load,
                                          struct aw_diag *diag);

/* "PATTERN[:key=value,...]" or a file path with the same kind of options
 * ("trace.csv:row=3,mean=20,compress=10"): what --load takes. */
AW_NODISCARD enum aw_err aw_load_parse(const char *text, uint64_t seed,
                                       const struct aw_alloc *alloc, struct aw_load *ret_load,
                                       struct aw_diag *diag);

void aw_load_deinit(struct aw_load *load); /* a zeroed one is a no-op */

/* Requests/s at `at_us` of virtual time; the load repeats after its end. */
double aw_load_rate(const struct aw_load *load, int64_t at_us);
/* Mean requests/s over [from_us, to_us): what a model that steps by more than a slot wants. */
double aw_load_mean(const struct aw_load *load, int64_t from_us, int64_t to_us);
/* Scales all slots so that the mean (or the highest slot) becomes `rate_per_s`. */
void aw_load_scale_mean(struct aw_load *load, double rate_per_s);
void aw_load_scale_peak(struct aw_load *load, double rate_per_s);

#endif
