/*
 * app.h - an application that is a graph of services: what each of them costs, and what it calls.
 *
 * A request type enters at an operation of a service. An operation works, then runs its program,
 * which is written as one line of text:
 *
 *     auth, par(text, media), 3*route, 0.3?cache, async(timeline), par(seq(a, b), c.read)
 *
 * in sequence by commas; par(..) at once; async(..) without waiting; N* so often, one after the
 * other; P? with this probability; a name is a service, or one of its operations after a point.
 *
 * Call order: init; services, operations with programs, request types in any order; finish, which
 *             resolves names, refuses circles and gives every service limits for the given load.
 * Memory:     none beyond the struct.
 * Threads:    read by any number once finished.
 */
#ifndef AW_GRAPH_APP_H
#define AW_GRAPH_APP_H

#include <aware/err.h>

/* What a service can be short of (FIRM, 3.2.4). */
enum aw_graph_resource {
    AW_GRAPH_CPU,    /* cores */
    AW_GRAPH_MEMORY, /* bandwidth, bytes/s */
    AW_GRAPH_LLC,    /* last-level cache, bytes */
    AW_GRAPH_DISK,   /* bytes/s */
    AW_GRAPH_NET,    /* bytes/s */
    AW_GRAPH_RESOURCES
};
extern const char *const aw_graph_resource_names[]; /* "cpu", "memory", ...; ends with NULL */
/* "2.5 cores", "120 MB/s", "6.0 MiB". Returns `buf`. */
const char *aw_graph_amount_text(enum aw_graph_resource resource, double amount, char *buf,
                                 size_t size);

#define AW_GRAPH_SERVICES_MAX 64u
#define AW_GRAPH_OPS_MAX      128u
#define AW_GRAPH_STEPS_MAX    1024u
#define AW_GRAPH_TYPES_MAX    8u
#define AW_GRAPH_NODES_MAX    16u
#define AW_GRAPH_NAME_MAX     48u
#define AW_GRAPH_PROGRAM_MAX  256u
#define AW_GRAPH_DEPTH_MAX    16u /* of calls, and of brackets in a program */
#define AW_GRAPH_REPEAT_MAX   64u
#define AW_GRAPH_RUN_MAX      4096u /* steps of one visit, repeats within repeats */
#define AW_GRAPH_NONE         UINT32_MAX

/* What sort of service it is: what a visit takes beside CPU, and what it is sensitive to. */
enum aw_graph_class {
    AW_GRAPH_LOGIC,
    AW_GRAPH_WEB,
    AW_GRAPH_CACHE,
    AW_GRAPH_STORE,
    AW_GRAPH_CLASSES
};
extern const char *const aw_graph_class_names[]; /* "logic", ...; ends with NULL */

struct aw_graph_service {
    char name[AW_GRAPH_NAME_MAX];
    enum aw_graph_class sort;
    uint32_t replicas;
    uint32_t threads;                       /* cores that one replica can use at once */
    double visits_per_s;                    /* expected, of all replicas, at the nominal load */
    double limit[AW_GRAPH_RESOURCES];       /* of one replica, at the start */
    double low[AW_GRAPH_RESOURCES];         /* what a limit may not go below */
    double high[AW_GRAPH_RESOURCES];        /* .. and beyond */
    double sensitivity[AW_GRAPH_RESOURCES]; /* MEMORY, LLC: slowdown per shortage */
    double cache_bytes;                     /* of the LLC, that it works in */
    bool fixed;                             /* not to be touched */
    uint32_t node;                          /* where its first replica is */
};

struct aw_graph_op {
    char name[AW_GRAPH_NAME_MAX]; /* "": the service's only one */
    uint32_t service;
    double cpu_us, memory_bytes, disk_bytes, net_bytes; /* of a visit, mean */
    char program[AW_GRAPH_PROGRAM_MAX];
    uint32_t first; /* step; AW_GRAPH_NONE: calls nobody */
};

enum aw_graph_step_kind { AW_GRAPH_CALL, AW_GRAPH_SEQ, AW_GRAPH_PAR, AW_GRAPH_ASYNC };
struct aw_graph_step {
    enum aw_graph_step_kind kind;
    uint32_t op;    /* CALL */
    uint32_t child; /* SEQ, PAR, ASYNC: the first of them */
    uint32_t next;  /* sibling; AW_GRAPH_NONE */
    uint32_t repeat;
    float probability;
};

struct aw_graph_type {
    char name[AW_GRAPH_NAME_MAX];
    uint32_t op;
    double share; /* of requests; sums to 1 once finished */
    double slo_ms;
};

struct aw_graph_app {
    char name[AW_GRAPH_NAME_MAX];
    double rate; /* requests/s that the limits are made for */
    double lent; /* times a first limit, that a service may have of what nobody uses; 0: nothing */
    uint32_t service_count, op_count, step_count, type_count, node_count;
    struct aw_graph_service services[AW_GRAPH_SERVICES_MAX];
    struct aw_graph_op ops[AW_GRAPH_OPS_MAX];
    struct aw_graph_step steps[AW_GRAPH_STEPS_MAX];
    struct aw_graph_type types[AW_GRAPH_TYPES_MAX];
    double node_pool[AW_GRAPH_RESOURCES]; /* of one node: what limits on it may sum to */
};

void aw_graph_app_init(struct aw_graph_app *app, const char *name, double rate);
/* AW_ERR_LIMIT, AW_ERR_EXISTS, AW_ERR_CONFIG for a name that is none. The number of the service. */
AW_NODISCARD enum aw_err aw_graph_app_service(struct aw_graph_app *app, const char *name,
                                              enum aw_graph_class sort, uint32_t *ret,
                                              struct aw_diag *diag);
/* An operation: `op` "" where the service has one alone. What it takes beside CPU is as its class
 * has it. */
AW_NODISCARD enum aw_err aw_graph_app_op(struct aw_graph_app *app, uint32_t service, const char *op,
                                         double cpu_ms, const char *program, struct aw_diag *diag);
/* `entry` is "service" or "service.op", which must be there. */
AW_NODISCARD enum aw_err aw_graph_app_type(struct aw_graph_app *app, const char *name,
                                           const char *entry, double share, double slo_ms,
                                           struct aw_diag *diag);
/* Names, circles, limits, nodes. AW_ERR_CONFIG, with the program that is wrong. */
AW_NODISCARD enum aw_err aw_graph_app_finish(struct aw_graph_app *app, struct aw_diag *diag);

/* AW_GRAPH_NONE: not there. */
uint32_t aw_graph_service_find(const struct aw_graph_app *app, const char *name);
uint32_t aw_graph_op_find(const struct aw_graph_app *app, const char *name);
/* Expected visits of a request of a type, all services together. */
double aw_graph_visits(const struct aw_graph_app *app, uint32_t type);

/* One that a user has written: a file of YAML, kind ServiceGraph. AW_ERR_CONFIG with the place. */
AW_NODISCARD enum aw_err aw_graph_app_read(const char *path, struct aw_graph_app *ret,
                                           struct aw_diag *diag);

/* The applications of the program, shaped like those that FIRM was tried on: "social-network",
 * "media", "hotel", "train-ticket". AW_ERR_NOTFOUND with the names. */
extern const char *const aw_graph_builtin_names[]; /* ends with NULL */
AW_NODISCARD enum aw_err aw_graph_builtin(const char *name, struct aw_graph_app *ret,
                                          struct aw_diag *diag);

#endif
