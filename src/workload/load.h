/*
 * load.h - how many requests arrive, over time: patterns and traces, as one array of rates.
 *
 * A load is compiled once into requests/s per slot; arrivals within a slot are the cluster's chance
 * (Poisson). Patterns are generated from a seed, traces read from files (trace.h). Every load can
 * be rescaled to a mean or peak rate.
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
#include "workload/app.h"

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
    AW_LOAD_DIURNAL, /* a day's wave with a flat night, compressed to `period` */
    AW_LOAD_POISSON, /* constant mean, the rate itself redrawn every slot */
    AW_LOAD_SPIKES,  /* a base with rare tall spikes that decay */
    AW_LOAD_BURSTS,  /* MMPP: two states, memoryless sojourn */
    AW_LOAD_RAMP,    /* up, hold, down, rest */
};
extern const char *const *const aw_load_pattern_names; /* ends with NULL */

/* Settings of a pattern. */
struct aw_load_settings {
    uint32_t pattern;  /* enum aw_load_pattern */
    double mean_per_s; /* of the whole load */
    double peak_ratio; /* highest over mean before noise, where the pattern has one */
    double period_s;   /* of a day or a ramp; between spikes or bursts, on average */
    double duration_s; /* of a burst, on average; in which a spike falls to 1/e */
    double noise;      /* lognormal noise on every slot, as a coefficient of variation */
    double length_s;   /* of the load; it repeats after that */
    double slot_s;
};
extern const struct aw_conf_field aw_load_fields[];

/* Same settings and seed, same load. The mean is exact whatever chance drew. AW_ERR_CONFIG: a peak
 * that its pattern cannot have; AW_ERR_LIMIT: too many slots. */
AW_NODISCARD enum aw_err aw_load_generate(const struct aw_load_settings *settings, uint64_t seed,
                                          const struct aw_alloc *alloc, struct aw_load *ret_load,
                                          struct aw_diag *diag);
/* An empty load of `slots` slots with all rates 0, for makers; a long name is cut. */
AW_NODISCARD enum aw_err aw_load_init(struct aw_load *load, const char *name, double slots,
                                      int64_t slot_us, const struct aw_alloc *alloc,
                                      struct aw_diag *diag);

/* What --load takes: "PATTERN[:key=value,...]" with the keys of aw_load_fields, or
 * "FILE[:key=value,...]" with those of aw_trace_fields. Times and rates may be written as people
 * do: "diurnal:mean=50/s,peak=4,period=1h", "trace.csv:row=3,mean=20,compress=10". What is to be a
 * file although it looks like a pattern is written "./diurnal". Rows of a trace that cannot be read
 * go into `report` (see trace.h), and more than half of them are an error; where `report` is NULL,
 * so is the first. */
struct aw_trace_report;
AW_NODISCARD enum aw_err aw_load_parse_report(const char *text, uint64_t seed,
                                              const struct aw_alloc *alloc,
                                              struct aw_load *ret_load,
                                              struct aw_trace_report *report, struct aw_diag *diag);
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
/* Scales a load so that its mean keeps `cores` cores busy, or, where its peak would then need more
 * than AW_LOAD_PEAK_RATIO times as many, so that its peak needs just those. True: the latter. */
#define AW_LOAD_PEAK_RATIO 8.0
bool aw_load_scale_cores(struct aw_load *load, const struct aw_app *app, double cores);

struct aw_load_figures {
    double mean_per_s, low_per_s, peak_per_s;
    double burstiness; /* deviation of the slots' rates over their mean; 0: constant */
};
struct aw_load_figures aw_load_figures(const struct aw_load *load);

#endif
