/*
 * world.h - many serverless functions on shared nodes, fast: contention in flat arrays.
 *
 * Every function has containers of one request at a time, placed on nodes by free memory. CPU is
 * shared on a node by weight (cpu.shares), a container uses one core at most; memory bandwidth is
 * shared too. A step is a fixed point per node: how many requests are on the CPU depends on how
 * fast they are, which depends on how many there are. Of it follow the latencies: service at the
 * speed of the tail, waiting for a container (M/G/k), a backlog where there is more work than
 * containers, and a cold start for who waits for the first container.
 *
 * It is for training and for studies at 10 000 functions: `cluster/sim` has requests, probes and
 * rollouts, and knows no weights.
 *
 * Call order: aw_conf_defaults(aw_multi_fields, &settings), init; then reset, and per step set or
 *             change of any function, step; add and remove between steps; deinit.
 * Memory:     one block at init for `agents_max`. Nothing else allocates.
 * Threads:    single owner. Chance comes from the seed of reset alone.
 */
#ifndef AW_MULTI_WORLD_H
#define AW_MULTI_WORLD_H

#include "base/alloc.h"
#include "base/conf.h"
#include "base/rng.h"

#define AW_MULTI_CONTAINERS_MAX 24u
#define AW_MULTI_AGENTS_MAX     65536u
#define AW_MULTI_NODES_MAX      65536u
#define AW_MULTI_SHARES_MIN     128u /* cpu.shares of a container; 1024 is a core's worth */
#define AW_MULTI_SHARES_MAX     2048u
#define AW_MULTI_SHARES_STEP    128u
#define AW_MULTI_NOWHERE        UINT32_MAX

enum aw_multi_category { AW_MULTI_CPU, AW_MULTI_MEMORY, AW_MULTI_IO, AW_MULTI_CATEGORIES };
extern const char *const aw_multi_category_names[];

/* What a request costs. The twelve functions of SIMPPO's Table 4.3; the figures are ours. */
struct aw_multi_function {
    const char *name;
    float cpu_s, wait_s; /* of a request alone */
    float gb_per_s;      /* memory bandwidth while it is on the CPU */
    float memory_mib;    /* of a container */
};
#define AW_MULTI_FUNCTIONS 12u
extern const struct aw_multi_function aw_multi_functions[AW_MULTI_FUNCTIONS];
/* By sensitivity: which of half the CPU, half the memory bandwidth or twice the waiting lengthens a
 * request most. */
enum aw_multi_category aw_multi_category_of(const struct aw_multi_function *function);

enum aw_multi_load { AW_MULTI_LOAD_BURSTS, AW_MULTI_LOAD_INDEPENDENT };

struct aw_multi_settings {
    uint32_t agents;        /* at reset: functions 0, 1, ..., 11, 0, 1, ... */
    uint32_t agents_max;    /* 0: as many */
    double agents_per_node; /* nodes grow with the agents */
    double node_cores;      /* of a node */
    double node_memory_gib;
    double node_gb_per_s;
    double offered; /* CPU that all requests need, as a share of all cores, on average */
    double step_s;
    double cold_s;     /* until a new container serves */
    double timeout_s;  /* what a client waits */
    double slo_factor; /* over the p99 of a function alone on a node with containers to spare */
    double burst;      /* how much load varies: deviation of its logarithm */
    uint32_t load;     /* enum aw_multi_load */
};
extern const char *const aw_multi_load_names[];
extern const struct aw_conf_field aw_multi_fields[];
/* clang-format off */
/* Rows of a table of settings; `in` is where they lie in AW_CONF_OF: nothing, or `member.`. */
#define AW_MULTI_FIELDS(in)                                                                      \
    AW_CONF_NUMBER_AS("agents", in agents, "12", 1, AW_MULTI_AGENTS_MAX,                         \
        "Functions to begin with."),                                                             \
    AW_CONF_NUMBER_AS("agents_max", in agents_max, "0", 0, AW_MULTI_AGENTS_MAX,                  \
        "Functions at most; 0: as many."),                                                       \
    AW_CONF_NUMBER_AS("agents_per_node", in agents_per_node, "3", 0.1, 1000,                     \
        "Functions per node: nodes grow with the functions, as in section 4.8.4."),              \
    AW_CONF_NUMBER_AS("node_cores", in node_cores, "8", 1, 1024,                                 \
        "Cores of a node, as the paper's virtual machines."),                                    \
    AW_CONF_NUMBER_AS("node_memory_gib", in node_memory_gib, "16", 1, 4096,                      \
        "Memory of a node, likewise."),                                                          \
    AW_CONF_NUMBER_AS("node_gb_per_s", in node_gb_per_s, "20", 1, 1000,                          \
        "Memory bandwidth of a node in GB/s."),                                                  \
    AW_CONF_NUMBER_AS("offered", in offered, "0.55", 0.01, 2,                                    \
        "CPU that all requests need on average, as a share of all cores."),                      \
    AW_CONF_NUMBER_AS("step_s", in step_s, "10", 1, 3600, "Seconds of a step."),                 \
    AW_CONF_NUMBER_AS("cold_s", in cold_s, "2", 0, 60, "Seconds until a new container serves."), \
    AW_CONF_NUMBER_AS("timeout_s", in timeout_s, "30", 1, 3600, "Seconds that a client waits."), \
    AW_CONF_NUMBER_AS("slo_factor", in slo_factor, "1.15", 1, 10,                                \
        "SLO over the p99 alone (section 4.4)."),                                                \
    AW_CONF_NUMBER_AS("burst", in burst, "0.5", 0, 2, "Deviation of the logarithm of a load."),  \
    {"load", AW_CONF_CHOICE, offsetof(AW_CONF_OF, in load), "bursts", 0, 0, aw_multi_load_names, \
        "bursts: a load changes in steps that hang together; independent: drawn anew in every "  \
        "step, as the paper has it.", 0}
/* clang-format on */

/* [agents_max] each. What a step found is of the last step. */
struct aw_multi_world {
    struct aw_multi_settings settings;
    uint32_t count;      /* slots that have been used: agents are 0 .. count - 1 */
    uint32_t live;       /* of them, that are there */
    uint32_t node_count; /* by the agents at reset; aw_multi_nodes changes it */
    uint32_t node_max;
    uint64_t steps;
    struct aw_rng rng;

    /* of an agent */
    uint8_t *here;
    uint8_t *kind;     /* of aw_multi_functions */
    uint8_t *category; /* enum aw_multi_category */
    uint8_t *priority; /* 0 to 7; higher is placed first */
    float *mean_rate;  /* requests/s on average */
    float *wave;       /* state of its load: logarithm of its factor */
    float *slo_s;
    uint32_t *node; /* [agents_max][AW_MULTI_CONTAINERS_MAX]; AW_MULTI_NOWHERE behind the last */
    uint8_t *containers, *wanted; /* placed, and wanted: the rest is pending */
    uint8_t *fresh;               /* of the placed ones, those that start in this step */
    uint16_t *shares;
    float *backlog; /* requests */
    float *slow;    /* of its requests against alone, mean over its containers, from step to step */

    /* what the last step found */
    float *rate, *rate_before; /* requests/s */
    float *p50_s, *p99_s;
    float *cpu_use;    /* of the cores that it holds */
    float *memory_use; /* of its containers */
    float *pressure;   /* runnable over cores, highest of its nodes */
    float *busy;       /* of its containers */

    /* of a node */
    float *node_memory; /* MiB taken */
    float *node_held;   /* containers */
    float *node_weight, *node_capped, *node_run, *node_bandwidth;
    float *node_speed, *node_speed_tail, *node_slow; /* cores per 1024 shares; factor on CPU time */
    const struct aw_alloc *alloc;
    void *block;
};

/* AW_ERR_CONFIG, AW_ERR_NOMEM: `world` is zeroed. */
AW_NODISCARD enum aw_err aw_multi_init(struct aw_multi_world *world,
                                       const struct aw_multi_settings *settings,
                                       const struct aw_alloc *alloc, struct aw_diag *diag);
void aw_multi_deinit(struct aw_multi_world *world);

/* All functions as they begin: over-provisioned, as the paper has it. */
void aw_multi_reset(struct aw_multi_world *world, uint64_t seed);
/* The same with one function alone on all nodes. */
void aw_multi_reset_alone(struct aw_multi_world *world, uint64_t seed, uint32_t agent);
/* A function comes, with nodes in proportion where `scaled`. Returns its index. */
uint32_t aw_multi_add(struct aw_multi_world *world, uint32_t kind, bool scaled);
/* The same in a slot that nobody has had since the reset. */
uint32_t aw_multi_append(struct aw_multi_world *world, uint32_t kind, bool scaled);
void aw_multi_remove(struct aw_multi_world *world, uint32_t agent, bool scaled);
/* Its load from now on, as a factor of what it was. */
void aw_multi_surge(struct aw_multi_world *world, uint32_t agent, double factor);

/* How many containers and shares a function wants; placed at the next step, by priority. */
void aw_multi_set(struct aw_multi_world *world, uint32_t agent, uint32_t containers,
                  uint32_t shares);
/* One step: loads, placement, contention, latencies. */
void aw_multi_step(struct aw_multi_world *world);

/* Containers that the mean load keeps busy, at no contention. */
double aw_multi_offered(const struct aw_multi_world *world, uint32_t agent);
/* Cores that its containers hold: one each. */
double aw_multi_cores(const struct aw_multi_world *world, uint32_t agent);
/* p99 of a function of this kind alone, with containers to spare. */
double aw_multi_alone_p99_s(const struct aw_multi_function *function, double rate);
size_t aw_multi_bytes(const struct aw_multi_world *world);
/* All that decides the future, to go back to: `bytes` [sizeof *world + aw_multi_bytes]. Of the same
 * world only. */
void aw_multi_save(const struct aw_multi_world *world, void *bytes);
void aw_multi_restore(struct aw_multi_world *world, const void *bytes);

#endif
