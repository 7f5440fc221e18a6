/*
 * internal.h - what options.c makes of the settings, and env.c runs on.
 *
 * Memory:  plain structs; a file of applications is one block of the environment's allocator.
 * Threads: pure functions of their arguments.
 */
#ifndef AW_ENV_AUTOSCALE_INTERNAL_H
#define AW_ENV_AUTOSCALE_INTERNAL_H

#include "cluster/sim.h"
#include "env/autoscale.h"
#include "task/bounds.h"
#include "workload/apps.h"
#include "workload/scenario.h"

/* An application of the pool with what its episodes start from. */
struct aw__pool_app {
    struct aw_app app;
    double slo_us;
    double load_factor;   /* on the load's rates */
    double cpu_ms;        /* of one request */
    int64_t memory_bytes; /* of a replica to start with */
    double cost_reference_per_hour;
};

struct aw__options {
    struct aw_bounds bounds;
    struct aw_sim_settings sim;
    int64_t start_cpu_millicores;
    int64_t start_memory_bytes;  /* 0: from the application */
    struct aw_schedule schedule; /* time 0 is where an episode begins */
    uint32_t app_count;
    uint32_t app_first; /* of the generator ... */
    uint64_t app_seed;
    struct aw_apps file; /* ... or those of a file */
    /* ... or this one, which is borrowed until the environment is made */
    const struct aw_app *given;
};

extern const struct aw_conf_field aw__autoscale_fields[];
extern const struct aw_conf_field aw__autoscale_paper_fields[];

/* Reads what the settings hold as text, and checks what belongs together. `app` takes the place of
 * the setting; NULL: none does. On failure the options are zeroed. */
AW_NODISCARD enum aw_err aw__options_read(const struct aw_autoscale_settings *settings,
                                          const struct aw_app *app, const struct aw_alloc *alloc,
                                          struct aw__options *ret_options, struct aw_diag *diag);
void aw__options_deinit(struct aw__options *options); /* a zeroed one is a no-op */
/* The load of the settings. */
AW_NODISCARD enum aw_err aw__options_load(const struct aw_autoscale_settings *settings,
                                          const struct aw_alloc *alloc, struct aw_load *ret_load,
                                          struct aw_diag *diag);
/* Draws application `index` of the pool. AW_ERR_CONFIG: no allocation within the bounds can run it
 * or meet its SLO. */
AW_NODISCARD enum aw_err aw__options_app(const struct aw_autoscale_settings *settings,
                                         const struct aw__options *options,
                                         const struct aw_load *load, uint32_t index,
                                         struct aw__pool_app *ret_app, struct aw_diag *diag);
/* Replicas that an operator would start with for so many cores of work. */
uint32_t aw__options_replicas(const struct aw__options *options, double cores_needed);

#endif
