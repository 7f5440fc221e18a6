/*
 * campaign.h - anomalies put into an application on purpose: what, where, how strong, when.
 *
 * Seven kinds (FIRM, Table 3.4). Intensity is between 0 and 1 of what was found by trying: 0 is
 * where requests first miss their SLO, 1 where four fifths of them fail or nothing more is to be
 * had (thesis, 3.3.2). A service by which no request misses its SLO, however hard it is pressed, is
 * no target: there is nothing to be found. What was begun and ended when is known exactly: those
 * are the labels that localization learns from and is judged by.
 *
 * Call order: calibrate an application once; a campaign from a file or by draw; injector_init, then
 *             step as the world runs.
 * Memory:     plain structs.
 * Threads:    no shared state.
 */
#ifndef AW_GRAPH_CAMPAIGN_H
#define AW_GRAPH_CAMPAIGN_H

#include "base/rng.h"
#include "base/tree.h"
#include "graph/plant.h"

enum aw_anomaly_kind {
    AW_ANOMALY_WORKLOAD,
    AW_ANOMALY_DELAY,
    AW_ANOMALY_CPU,
    AW_ANOMALY_LLC,
    AW_ANOMALY_MEMORY,
    AW_ANOMALY_DISK,
    AW_ANOMALY_NET,
    AW_ANOMALY_KINDS
};
extern const char *const aw_anomaly_kind_names[]; /* "workload", "network-delay", ...; NULL */
/* The resource that mends it; AW_GRAPH_RESOURCES: none does, another replica may (delay). */
enum aw_graph_resource aw_anomaly_resource(enum aw_anomaly_kind kind);

enum aw_anomaly_pattern {
    AW_ANOMALY_CONSTANT,
    AW_ANOMALY_RAMP,   /* from nothing, over the first half */
    AW_ANOMALY_PULSE,  /* a second on, a second off */
    AW_ANOMALY_RANDOM, /* another intensity every second */
    AW_ANOMALY_PATTERNS
};
extern const char *const aw_anomaly_pattern_names[];

struct aw_anomaly {
    uint32_t service;
    enum aw_anomaly_kind kind;
    enum aw_anomaly_pattern pattern;
    double intensity;
    int64_t at_ns, for_ns;
};

/* Physical strength, 0 to 1 of the most that there is, of both ends. NAN: no effect. */
struct aw_calibration {
    double start[AW_GRAPH_SERVICES_MAX][AW_ANOMALY_KINDS];
    double end[AW_GRAPH_SERVICES_MAX][AW_ANOMALY_KINDS];
};
#define AW_ANOMALY_MISSED 0.05 /* share of requests over their SLO at which it is missed */
/* Tries every service and kind, some 2000 short runs. AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_calibrate_graph(const struct aw_graph_app *app, uint64_t seed,
                                            const struct aw_alloc *alloc,
                                            struct aw_calibration *ret);
/* One service and kind of it. AW_ERR_NOMEM. */
AW_NODISCARD enum aw_err aw_calibrate_pair(const struct aw_graph_app *app, uint64_t seed,
                                           uint32_t service, enum aw_anomaly_kind kind,
                                           const struct aw_alloc *alloc,
                                           struct aw_calibration *ret);
bool aw_calibration_has(const struct aw_calibration *calibration, uint32_t service,
                        enum aw_anomaly_kind kind);
/* Adds what an anomaly of a physical strength does to a stress. */
void aw_anomaly_add(const struct aw_graph_app *app, uint32_t service, enum aw_anomaly_kind kind,
                    double strength, struct aw_graph_stress *stress);

#define AW_CAMPAIGN_MAX 1024u
struct aw_campaign {
    char application[AW_GRAPH_NAME_MAX];
    uint64_t seed;
    int64_t duration_ns;
    uint32_t count;
    struct aw_anomaly anomaly[AW_CAMPAIGN_MAX]; /* by their beginning */
    /* the random part; rate 0: none */
    double rate;      /* a second; intervals are exponential */
    uint32_t kinds;   /* bits; 0: all */
    uint64_t targets; /* bits of services; 0: all that have an effect */
    double low, high; /* of intensities */
    int64_t for_ns;
};
/* Reads a file of YAML. The application may be one of the built-in ones or what `app` holds where
 * `app` has services. AW_ERR_CONFIG with the place. */
AW_NODISCARD enum aw_err aw_campaign_read(const char *path, struct aw_campaign *ret,
                                          struct aw_graph_app *app, struct aw_diag *diag);
/* Draws the random part into the list. Same seed, same list. */
void aw_campaign_draw(struct aw_campaign *campaign, const struct aw_graph_app *app,
                      const struct aw_calibration *calibration);

struct aw_injector {
    const struct aw_graph_app *app;
    const struct aw_calibration *calibration;
    const struct aw_campaign *campaign;
    bool touched[AW_GRAPH_SERVICES_MAX];
};
void aw_injector_init(struct aw_injector *injector, const struct aw_graph_app *app,
                      const struct aw_calibration *calibration, const struct aw_campaign *campaign);
/* Sets what is due now, ends what is over. `ret_until_ns`: when to come back. What the plant
 * refuses is the error; the rest is done all the same. */
AW_NODISCARD enum aw_err aw_injector_step(struct aw_injector *injector, struct aw_graph_plant plant,
                                          int64_t *ret_until_ns);
/* Runs the world until then, with everything that begins and ends meanwhile. */
void aw_injector_run(struct aw_injector *injector, struct aw_graph_world *world, int64_t until_ns);
/* Intensity of one at a moment; 0: not under way. */
double aw_anomaly_now(const struct aw_anomaly *anomaly, int64_t now_ns);
void aw_injector_clean(struct aw_injector *injector, struct aw_graph_plant plant);

#endif
