/*
 * calibrate.h - how far the simulated cluster is from real processes: what to measure, an
 * application fitted to that, and the comparison on settings that the fit has not seen.
 *
 * A setting is a number of replicas, a CPU limit and a rate of requests. Of each size (replicas and
 * limit) first the most that it can do is measured, then a few loads below that. The fit learns
 * from some sizes; other sizes are held out as a whole, so that the models are tested on what they
 * have not seen.
 *
 * What is fitted is a copy of the description: its CPU times by a factor, how they and its waits
 * vary, a wait outside the application (sockets, balancer, scheduling), how much hardware threads
 * that share a core hinder each other, and memory; then how far the fast model's tail is from the
 * reference's with all that, which needs no measurement. Threads, parallelism and the order of
 * segments are the application's, not the machine's.
 *
 * Call order: for each size saturate, measure that, ladder, measure all of it; fit; predict each
 *             point; judge.
 * Memory:     plain structs; predict and fit have simulated clusters while they run.
 * Threads:    no shared state. Same figures and seed, same result.
 *
 * The trap: a p99 of a few hundred requests is that of the second or third slowest. So models are
 * asked for the median p99 of many spans as long as the measured one, not for that of one long run;
 * and for the rate that came, not for the one that was asked for.
 */
#ifndef AW_FITTING_CALIBRATE_H
#define AW_FITTING_CALIBRATE_H

#include "base/alloc.h"
#include "workload/app.h"

#define AW_CALIBRATE_POINTS_MAX 128u
#define AW_CALIBRATE_SIZES_MAX  12u
#define AW_CALIBRATE_LOADS_MAX  8u
#define AW_CALIBRATE_BELOW      0.8 /* of the measured capacity: below saturation */

struct aw_calibrate_size {
    uint32_t replicas;
    int64_t cpu_millicores; /* limit of each */
    bool seen;              /* the fit learns from it */
};

/* What replicas are asked to do, and for how long they are watched. */
struct aw_calibrate_setting {
    struct aw_calibrate_size size;
    uint32_t size_index; /* settings of one size are a curve */
    double rate_per_s;   /* of all replicas together */
    double load;         /* what of the capacity that is; more than 1: to find the capacity */
    double span_s;       /* watched, after a warm-up */
};

/* What they did, measured or simulated. NAN: not known. */
struct aw_calibrate_figures {
    double requests; /* that came in the span */
    double p50_ms, p99_ms, mean_ms;
    double utilisation;      /* CPU used, of the limits */
    double throughput_per_s; /* answers */
    double memory_mib;       /* of a replica, mean */
    double others_cores;     /* that other processes used meanwhile */
};

enum aw_calibrate_model { AW_CALIBRATE_REFERENCE, AW_CALIBRATE_FAST, AW_CALIBRATE_MODELS };
extern const char *const aw_calibrate_model_names[]; /* "reference", "fast"; ends with NULL */

struct aw_calibrate_point {
    struct aw_calibrate_setting setting;
    struct aw_calibrate_figures measured;
    struct aw_calibrate_figures model[AW_CALIBRATE_MODELS];
};

/* --- what to measure -------------------------------------------------------------------------- */

/* More than the size can do, if a request costs `cpu_ms`. */
struct aw_calibrate_setting aw_calibrate_saturate(const struct aw_calibrate_size *size,
                                                  uint32_t size_index, double cpu_ms,
                                                  double span_s);
/* Requests/s that a size can answer, from how it fared under too much. */
double aw_calibrate_capacity(const struct aw_calibrate_point *saturated);
/* Loads below `capacity_per_s`, fewer and shorter for sizes that are seen. `span_s` is that of the
 * settings that models are compared on. Returns how many. */
uint32_t aw_calibrate_ladder(const struct aw_calibrate_size *size, uint32_t size_index,
                             double capacity_per_s, double span_s,
                             struct aw_calibrate_setting *ret); /* [AW_CALIBRATE_LOADS_MAX] */

/* --- what models say -------------------------------------------------------------------------- */

/* The machine that replicas run on, and how patiently models are asked. */
struct aw_calibrate_world {
    double node_cores; /* hardware threads: what bursts within a period can use */
    uint64_t seed;
    uint32_t windows; /* spans that a model is watched for; their medians count */
};
#define AW_CALIBRATE_WINDOWS     32u
#define AW_CALIBRATE_WINDOWS_MAX 64u

/* What a model says of an application under the rate of `measured`, or of the setting where that is
 * NULL. AW_ERR_NOMEM; AW_ERR_RANGE: the machine has no such cores. */
AW_NODISCARD enum aw_err aw_calibrate_predict(
    enum aw_calibrate_model model, const struct aw_app *app, const struct aw_calibrate_world *world,
    const struct aw_calibrate_setting *setting, const struct aw_calibrate_figures *measured,
    struct aw_calibrate_figures *ret, struct aw_diag *diag);

/* --- the fit ---------------------------------------------------------------------------------- */

/* clang-format off */
/*     name             key                    unit   what it is                                  */
#define AW_CALIBRATE_VALUE_MAP(X) \
    X(CPU,              "cpu",                 "ms",  "CPU time of a request that runs alone") \
    X(CPU_CV,           "cpu_cv",              "",    "its deviation over its mean") \
    X(WAIT,             "io",                  "ms",  "waiting off the CPU") \
    X(CROWDING,         "crowding",            "",    "dearer by this where cores are shared") \
    X(WAIT_CV,          "io_cv",               "",    "the deviation of waiting over its mean") \
    X(MEMORY,           "memory",              "Mi",  "held by a replica") \
    X(MEMORY_FLIGHT,    "memory_per_request",  "Mi",  "held by a request in flight") \
    X(FAST_TAIL,        "fast_tail",           "",    "the fast model's p99 times this")
/* clang-format on */

enum aw_calibrate_value {
#define X(name, key, unit, text) AW_CALIBRATE_##name,
    AW_CALIBRATE_VALUE_MAP(X)
#undef X
        AW_CALIBRATE_VALUES
};
/* Key, unit and meaning of a value. */
struct aw_calibrate_value_info {
    const char *key, *unit, *text;
};
extern const struct aw_calibrate_value_info aw_calibrate_value_infos[AW_CALIBRATE_VALUES];

struct aw_calibrate_fit {
    struct aw_app app; /* the description with what was found */
    struct {
        double described, found;
        double error; /* standard error of what was found; NAN: not told by these points */
    } value[AW_CALIBRATE_VALUES];
    double loss;          /* mean square of weighed residuals; about 1 where the model is right */
    uint32_t evaluations; /* of the reference model over all seen points */
};

#define AW_CALIBRATE_SEEN_MIN 4u
/* Learns from the points whose size is seen. `goes_on` is called now and then with a share of what
 * is to do, false ends it: AW_ERR_INTERRUPTED. AW_ERR_NODATA: too few points. */
AW_NODISCARD enum aw_err aw_calibrate_fit(const struct aw_app *described,
                                          const struct aw_calibrate_point *points, uint32_t count,
                                          const struct aw_calibrate_world *world,
                                          bool (*goes_on)(void *ctx, double share), void *ctx,
                                          struct aw_calibrate_fit *ret, struct aw_diag *diag);

/* --- the comparison --------------------------------------------------------------------------- */

/* Knee: requests/s at which mean latency is twice what it is at the lowest load, read off the curve
 * of a size by interpolation of its logarithm; of models off the same rates. NAN: there is none. */
struct aw_calibrate_knee {
    struct aw_calibrate_size size;
    double capacity_per_s; /* measured: the most that was answered */
    double measured_per_s;
    double model_per_s[AW_CALIBRATE_MODELS];
    double model_capacity_per_s[AW_CALIBRATE_MODELS];
};

struct aw_calibrate_verdict {
    uint32_t below_count; /* unseen points below saturation, that the errors are of */
    struct {
        double p50_median, p99_median, p99_p90;                        /* relative errors */
        double utilisation_median, utilisation_max, throughput_median; /* the first two as shares */
        double knee_median, knee_max;                                  /* relative errors */
    } model[AW_CALIBRATE_MODELS];
    uint32_t knee_count;
    struct aw_calibrate_knee knee[AW_CALIBRATE_SIZES_MAX]; /* of unseen sizes */
};

/* Of all points whose size is not seen. May be asked of the points of several applications, if
 * sizes have different indices; knees beyond AW_CALIBRATE_SIZES_MAX are left out. */
void aw_calibrate_judge(const struct aw_calibrate_point *points, uint32_t count,
                        struct aw_calibrate_verdict *ret);

#endif
